//! A schema and an environment → the tables to deploy.
//!
//! From the second version on, a table's name ends in `-v2` and so on, unless the name says `{version}`
//! itself: the tables of two versions stand beside each other while one is copied into the other.
//!
//! Every table has tags that mark it as ours, whoever makes it: `larder apply`, Terraform or a stack.

use jiff::SignedDuration;
use larder_model as model;
use larder_model::{IndexName, KeySchema, TableDefinition, TableName, Throughput};

use crate::schema::*;
use crate::value::Value;

/// The tag with the system that a table belongs to. By this and the next two a table is known as made from a schema.
pub const SYSTEM_TAG: &str = "larder:system";
/// The tag with what the schema calls the table.
pub const TABLE_TAG: &str = "larder:table";
/// The tag that says whether the table outlives its schema: `retain` or `delete`.
pub const ON_DELETE_TAG: &str = "larder:on-delete";
/// The tag with the table that this one is migrated to while its stream is followed; empty when it is not any more.
pub const MIGRATING_TAG: &str = "larder:migrating-to";
/// The tag with the table that took the place of this one.
pub const SUPERSEDED_TAG: &str = "larder:superseded-by";
/// The tag with the day until which a table that was superseded is kept.
pub const KEEP_TAG: &str = "larder:keep-until";

impl Param {
    /// The value in this environment: the variable's, or the default.
    pub fn value(&self, environment: &Environment) -> Result<Value, EnvironmentError> {
        let Some(variable) = &self.variable else { return Ok(self.default.clone()) };
        let Some(text) = environment.get(variable) else { return Ok(self.default.clone()) };
        self.parse(text).ok_or_else(|| EnvironmentError::Value {
            param: self.name.clone(),
            variable: variable.clone(),
            value: text.clone(),
            wanted: match self.unit {
                Some(unit) => format!("number of {}", unit.name()),
                None => self.kind.name().to_owned(),
            },
        })
    }

    fn parse(&self, text: &str) -> Option<Value> {
        let text = text.trim();
        match self.kind {
            ParamKind::String => Some(Value::from(text)),
            ParamKind::Int => Some(Value::from(text.parse::<i64>().ok()?)),
            ParamKind::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Some(Value::Bool(true)),
                "false" | "0" | "no" | "off" => Some(Value::Bool(false)),
                _ => None,
            },
            ParamKind::Duration => {
                let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
                let (number, unit) = text.split_at(split);
                let factor = match unit {
                    "" => self.unit.unwrap_or(Unit::Seconds).millis(),
                    "ms" => 1,
                    "s" => 1000,
                    "m" => 60_000,
                    "h" => 3_600_000,
                    "d" => 86_400_000,
                    _ => return None,
                };
                let seconds = number.parse::<f64>().ok()? * factor as f64 / 1000.0;
                Some(Value::Duration(SignedDuration::try_from_secs_f64(seconds).ok()?))
            }
        }
    }
}

impl Schema {
    /// The tables as they are to be deployed in this environment.
    pub fn tables(&self, environment: &Environment) -> Result<Vec<TableSetup>, Vec<EnvironmentError>> {
        let mut problems = Vec::new();
        let mut setups = Vec::new();
        for table in &self.tables {
            match self.setup(table, environment) {
                Ok(setup) => setups.push(setup),
                Err(problem) if problems.contains(&problem) => {}
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(setups) } else { Err(problems) }
    }

    /// What the store calls a table in this environment.
    pub fn table_name(
        &self,
        table: &Table,
        environment: &Environment,
    ) -> Result<TableName, EnvironmentError> {
        let mut name = self.expand(&table.stored_name, environment)?;
        let says_version = table.stored_name.0.contains(&ParamPart::Param("version".into()));
        if let Some(version) = self.version.filter(|version| version.number > 1 && !says_version) {
            name = format!("{name}-v{}", version.number);
        }
        TableName::new(name.clone())
            .map_err(|_| EnvironmentError::TableName { table: table.name.clone(), name })
    }

    /// A text with its params filled in.
    pub fn expand(&self, text: &ParamText, environment: &Environment) -> Result<String, EnvironmentError> {
        let mut out = String::new();
        for part in &text.0 {
            match part {
                ParamPart::Text(piece) => out.push_str(piece),
                ParamPart::Param(name) if name == "version" && self.param(name).is_none() => {
                    out.push_str(&self.version.map_or(1, |version| version.number).to_string());
                }
                ParamPart::Param(name) => {
                    let value = self.param(name).map(|param| param.value(environment)).transpose()?;
                    out.push_str(&value.map(|value| param_text(&value)).unwrap_or_default());
                }
            }
        }
        Ok(out)
    }

    /// The tags that mark a table as ours.
    pub(crate) fn marks<'a>(&'a self, table: &'a Table) -> [(&'static str, &'a str); 3] {
        [(SYSTEM_TAG, &self.system), (TABLE_TAG, &table.name), (ON_DELETE_TAG, table.on_delete.name())]
    }

    fn setup(&self, table: &Table, environment: &Environment) -> Result<TableSetup, EnvironmentError> {
        let name = self.table_name(table, environment)?;
        let mut attributes: Vec<(String, model::KeyType)> = Vec::new();
        let mut key = |parts: &[KeyAttribute]| -> Vec<model::KeyAttribute> {
            let parts = parts.iter().map(|part| {
                if attributes.iter().all(|(known, _)| *known != part.attribute) {
                    attributes.push((part.attribute.clone(), part.kind));
                }
                model::KeyAttribute { name: part.attribute.clone(), kind: part.kind }
            });
            parts.collect()
        };
        let throughput = match table.billing {
            Billing::OnDemand => Throughput::default(),
            Billing::Provisioned { read, write } => Throughput { read: read.into(), write: write.into() },
        };
        let table_key = KeySchema {
            partition: key(std::slice::from_ref(&table.partition)),
            sort: table.sort.as_ref().map(|sort| key(std::slice::from_ref(sort))).unwrap_or_default(),
        };
        let indexes = table.indexes.iter().filter_map(|index| {
            Some(model::IndexDefinition {
                name: IndexName::new(index.name.clone()).ok()?,
                kind: model::IndexKind::Global,
                key: KeySchema { partition: key(&index.partition), sort: key(&index.sort) },
                projection: match &index.projection {
                    Projection::All => model::Projection::All,
                    Projection::Keys => model::Projection::KeysOnly,
                    Projection::Include(names) => model::Projection::Include(names.clone()),
                },
                throughput,
                on_demand_limits: None,
            })
        });
        let indexes = indexes.collect();
        let mut tags = model::Tags::new();
        for (name, value) in &table.tags {
            tags.insert(name.clone(), self.expand(value, environment)?);
        }
        tags.extend(self.marks(table).map(|(name, value)| (name.to_owned(), value.to_owned())));
        let definition = TableDefinition {
            name,
            attributes,
            key: table_key,
            indexes,
            billing: match table.billing {
                Billing::OnDemand => model::Billing::OnDemand,
                Billing::Provisioned { .. } => model::Billing::Provisioned(throughput),
            },
            on_demand_limits: None,
            stream: table.stream,
            encryption: match &table.encryption {
                Encryption::AwsOwned => None,
                Encryption::AwsManaged => Some(model::Encryption { kms_key: None }),
                Encryption::Kms(key) => Some(model::Encryption { kms_key: Some(key.clone()) }),
            },
            class: Some(table.class),
            deletion_protection: table.on_delete == OnDelete::Retain,
            tags,
        };
        Ok(TableSetup {
            table: table.name.clone(),
            definition,
            region: table.region.clone(),
            ttl_attribute: table.ttl.as_ref().map(|ttl| ttl.attribute.clone()),
            pitr: table.pitr,
            on_delete: table.on_delete,
        })
    }
}

fn param_text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Duration(duration) => duration.as_secs().to_string(),
        _ => String::new(),
    }
}
