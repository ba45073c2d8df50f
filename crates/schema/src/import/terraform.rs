//! Terraform configuration → tables: every `aws_dynamodb_table` of some files.
//!
//! Variables that stand in names and tags become params, locals are followed. Everything else is taken as it is with
//! the variables' defaults. What only Terraform can work out is told.

use std::cell::Cell;
use std::collections::BTreeMap;

use hcl_edit::expr::{BinaryOperator, Expression, ObjectKey, TraversalOperator, UnaryOperator};
use hcl_edit::structure::{Block, Body, Structure};
use hcl_edit::template::Element;
use larder_model::{
    Billing, Encryption, IndexDefinition, IndexKind, IndexName, KeyAttribute, KeySchema, KeyType, Projection,
    TableClass, TableName, Throughput,
};

use super::cloudformation::stream_view;
use super::names::{self, Taken};
use super::{Found, FoundTable, known, param};
use crate::schema::{ParamPart, ParamText};

/// Locals that stand for each other.
const DEPTH_MAX: usize = 16;
/// What working out some files may take: locals that stand for each other can double it with every one.
const STEPS_MAX: usize = 100_000;

/// The tables of some files, read together: one may hold the variables of another. `Err` says which is no HCL.
///
/// ```
/// use larder_schema::import;
///
/// let hcl = r#"
/// variable "stage" { default = "dev" }
/// resource "aws_dynamodb_table" "races" {
///   name         = "races-${var.stage}"
///   billing_mode = "PAY_PER_REQUEST"
///   hash_key     = "race_id"
///   attribute {
///     name = "race_id"
///     type = "S"
///   }
/// }
/// "#;
/// let found = import::terraform(&[("main.tf", hcl)])?;
/// assert!(import::write(&found, "main.tf").text.contains(r#"name     "races-{stage}""#));
/// # Ok::<(), String>(())
/// ```
pub fn terraform(files: &[(&str, &str)]) -> Result<Found, String> {
    let mut bodies = Vec::new();
    for (name, text) in files {
        let body: Body = text.parse().map_err(|error| format!("{name} is no HCL: {error}"))?;
        bodies.push(body);
    }
    let mut reader = Reader::default();
    for block in bodies.iter().flat_map(Body::blocks) {
        match (block.ident.as_str(), label(block, 0)) {
            ("variable", Some(name)) => {
                reader.variables.insert(name.to_owned(), value(&block.body, "default"));
            }
            ("data", Some("aws_kms_key")) => {
                let looked_up = label(block, 1).zip(value(&block.body, "key_id"));
                reader.keys.extend(looked_up.map(|(name, key)| (name.to_owned(), key)));
            }
            ("locals", _) => {
                let locals = block.body.attributes();
                reader.locals.extend(locals.map(|local| (local.key.as_str().to_owned(), &local.value)));
            }
            _ => {}
        }
    }
    let mut labels = Taken::default();
    for block in bodies.iter().flat_map(Body::blocks) {
        let (Some(kind), Some(name)) = (label(block, 0), label(block, 1)) else { continue };
        match kind {
            "aws_dynamodb_table" if block.has_ident("resource") => {
                let table = reader.table(labels.free(&names::word(name)), &block.body);
                reader.found.tables.push(table);
            }
            kind if kind.starts_with("aws_dynamodb") && block.has_ident("resource") => {
                reader.found.notes.push(format!("{name} ({kind})"));
            }
            "aws_appautoscaling_target" | "aws_appautoscaling_policy" => {
                reader.found.notes.push(format!(
                    "{name} ({kind}): units that follow the load have no word in the language"
                ));
            }
            _ => {}
        }
    }
    if reader.steps.get() > STEPS_MAX {
        return Err(format!("working out locals and variables takes more than {STEPS_MAX} steps"));
    }
    Ok(reader.found)
}

#[derive(Default)]
struct Reader<'a> {
    variables: BTreeMap<String, Option<&'a Expression>>,
    locals: BTreeMap<String, &'a Expression>,
    /// Keys that are looked up, by what they are called.
    keys: BTreeMap<String, &'a Expression>,
    found: Found,
    /// Variables that were met, and what the schema calls them.
    called: BTreeMap<String, String>,
    /// What is said of the table at hand and is not known here.
    unknown: Vec<String>,
    steps: Cell<usize>,
}

/// What is read of a table. Anything else is told.
const READ: [&str; 22] = [
    "name",
    "billing_mode",
    "hash_key",
    "range_key",
    "read_capacity",
    "write_capacity",
    "table_class",
    "stream_enabled",
    "stream_view_type",
    "deletion_protection_enabled",
    "region",
    "tags",
    "attribute",
    "global_secondary_index",
    "local_secondary_index",
    "ttl",
    "point_in_time_recovery",
    "server_side_encryption",
    "lifecycle",
    "depends_on",
    "provider",
    "timeouts",
];

impl<'a> Reader<'a> {
    fn table(&mut self, label: String, body: &'a Body) -> FoundTable {
        let mut notes = Vec::new();
        for structure in body {
            let name = match structure {
                Structure::Attribute(attribute) => attribute.key.as_str(),
                Structure::Block(block) => block.ident.as_str(),
            };
            let told = match name {
                "dynamic" => "a `dynamic` block, which only Terraform can work out".to_owned(),
                "count" | "for_each" => format!("`{name}`: it may stand for several tables, and is one here"),
                _ => format!("`{name}` has no word in the language"),
            };
            let told = format!("{label}: {told}");
            if !READ.contains(&name) && !notes.contains(&told) {
                notes.push(told);
            }
        }
        let name = match value(body, "name").map(|name| self.text(name, 0)) {
            Some(Ok(name)) => match TableName::new(known(&name, &self.found.params)) {
                Ok(_) => Some(name),
                Err(error) => {
                    notes.push(format!("{label}: the name {error}: write what the store calls the table"));
                    None
                }
            },
            Some(Err(why)) => {
                notes.push(format!(
                    "{label}: the name is made of {why}: write what the store calls the table"
                ));
                None
            }
            None => {
                notes.push(format!("{label} has no name: write what the store calls the table"));
                None
            }
        };
        let kinds: BTreeMap<String, KeyType> = body
            .get_blocks("attribute")
            .filter_map(|block| {
                let kind = match self.plain(&block.body, "type")?.as_str() {
                    "N" => KeyType::N,
                    "B" => KeyType::B,
                    _ => KeyType::S,
                };
                Some((self.plain(&block.body, "name")?, kind))
            })
            .collect();
        let on_demand = self.plain(body, "billing_mode").as_deref() == Some("PAY_PER_REQUEST");
        let billing = match self.units(body) {
            _ if on_demand => Billing::OnDemand,
            Some(units) => Billing::Provisioned(units),
            None => {
                notes.push(format!("{label}: its units are not said here: 5 / 5 stand for them"));
                Billing::Provisioned(Throughput { read: 5, write: 5 })
            }
        };
        let mut indexes = Vec::new();
        for (kind, blocks) in
            [(IndexKind::Global, "global_secondary_index"), (IndexKind::Local, "local_secondary_index")]
        {
            for block in body.get_blocks(blocks) {
                indexes.extend(self.index(kind, &block.body, body, &kinds, billing, &label, &mut notes));
            }
        }
        let block = |name: &'static str| body.get_blocks(name).next().map(|block| &block.body);
        let enabled = |reader: &mut Self, name: &'static str| {
            block(name).filter(|inner| reader.truth(inner, name, "enabled"))
        };
        let prevented =
            block("lifecycle").is_some_and(|inner| self.truth(inner, "lifecycle", "prevent_destroy"));
        let protected = self.truth(body, "", "deletion_protection_enabled");
        if prevented != protected {
            notes.push(match protected {
                true => format!("{label}: DynamoDB protects it from deletion, and Terraform would destroy it: for the language both keep it"),
                false => format!("{label}: Terraform keeps it (`prevent_destroy`), and DynamoDB does not protect it from deletion: for the language both keep it"),
            });
        }
        let recovery = enabled(self, "point_in_time_recovery");
        let recovery_days = recovery.map(|inner| {
            let days = self.plain(inner, "recovery_period_in_days");
            let known = days.as_ref().and_then(|days| days.parse().ok());
            if let (Some(days), None) = (&days, known) {
                notes.push(format!("{label}: its recovery period is `{days}`: 35 days stand for it"));
            }
            known.unwrap_or(35)
        });
        let ttl_attribute = enabled(self, "ttl")
            .and_then(|inner| self.plain(inner, "attribute_name"))
            .filter(|name| !name.is_empty());
        let encryption = enabled(self, "server_side_encryption")
            .map(|inner| Encryption { kms_key: self.kms_key(inner, &label, &mut notes) });
        let region = self.plain(body, "region");
        let key = self.key(body, &kinds);
        let class = self.plain(body, "table_class");
        let view = self.plain(body, "stream_view_type");
        let streams = self.truth(body, "", "stream_enabled");
        let tags = self.tags(body, &label, &mut notes);
        for unknown in std::mem::take(&mut self.unknown) {
            let note = format!("{label}: {unknown}");
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        FoundTable {
            name: name.unwrap_or_else(|| ParamText::text(&format!("{label}-table"))),
            region,
            key,
            indexes,
            ttl_attribute,
            billing,
            pitr_days: recovery_days,
            encryption,
            retain: protected || prevented,
            class: match class.as_deref() {
                Some("STANDARD_INFREQUENT_ACCESS") => TableClass::StandardInfrequentAccess,
                _ => TableClass::Standard,
            },
            stream: stream_view(view.filter(|_| streams).as_deref()),
            tags,
            label,
            notes,
            items: Vec::new(),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "an index needs its table's words, types and units")]
    fn index(
        &mut self,
        kind: IndexKind,
        body: &'a Body,
        table: &'a Body,
        kinds: &BTreeMap<String, KeyType>,
        billing: Billing,
        label: &str,
        notes: &mut Vec<String>,
    ) -> Option<IndexDefinition> {
        let name = self.plain(body, "name").and_then(|name| IndexName::new(name).ok());
        let Some(name) = name else {
            notes.push(format!("{label}: an index whose name cannot be read is left out"));
            return None;
        };
        let mut key = self.key(body, kinds);
        if kind == IndexKind::Local {
            key.partition = self.key(table, kinds).partition;
        }
        let throughput = match billing {
            Billing::OnDemand => Throughput::default(),
            Billing::Provisioned(table) => self.units(body).unwrap_or(table),
        };
        let projection = match self.plain(body, "projection_type").as_deref() {
            Some("KEYS_ONLY") => Projection::KeysOnly,
            Some("INCLUDE") => {
                let written = value(body, "non_key_attributes");
                let list = written.and_then(|list| self.followed(list)).and_then(Expression::as_array);
                let list = list.into_iter().flat_map(hcl_edit::expr::Array::iter);
                let names: Vec<Option<String>> = list.map(|name| self.known_text(name)).collect();
                if names.is_empty() || names.contains(&None) {
                    let said = written.map_or("not said".to_owned(), |list| format!("`{}`", source(list)));
                    notes.push(format!(
                        "{label}: the attributes of index {name} are {said}: write all of them"
                    ));
                }
                Projection::Include(names.into_iter().flatten().collect())
            }
            _ => Projection::All,
        };
        Some(IndexDefinition { name, kind, key, projection, throughput, on_demand_limits: None })
    }

    /// `hash_key` and `range_key`, or a block for each attribute.
    fn key(&mut self, body: &'a Body, kinds: &BTreeMap<String, KeyType>) -> KeySchema {
        let mut key = KeySchema { partition: Vec::new(), sort: Vec::new() };
        let attribute = |name: String| {
            let kind = kinds.get(&name).copied().unwrap_or(KeyType::S);
            KeyAttribute { name, kind }
        };
        key.partition.extend(self.plain(body, "hash_key").map(attribute));
        key.sort.extend(self.plain(body, "range_key").map(attribute));
        for block in body.get_blocks("key_schema") {
            let Some(name) = self.plain(&block.body, "attribute_name") else { continue };
            let range = self.plain(&block.body, "key_type").as_deref() == Some("RANGE");
            if range { key.sort.push(attribute(name)) } else { key.partition.push(attribute(name)) }
        }
        key
    }

    fn kms_key(&mut self, body: &'a Body, label: &str, notes: &mut Vec<String>) -> Option<String> {
        let written = value(body, "kms_key_arn")?;
        let key = match path(written).as_deref() {
            Some(["data", "aws_kms_key", name, "arn"]) => self.keys.get(*name).copied(),
            _ => None,
        };
        Some(self.known_text(key.unwrap_or(written)).unwrap_or_else(|| {
            let source = source(written);
            notes.push(format!("{label}: its key is `{source}`: write the key's ARN"));
            source
        }))
    }

    fn tags(&mut self, body: &'a Body, label: &str, notes: &mut Vec<String>) -> Vec<(String, ParamText)> {
        let mut tags: Vec<(String, ParamText)> = Vec::new();
        for (name, written) in
            value(body, "tags").map(|tags| self.entries(tags, label, notes, 0)).unwrap_or_default()
        {
            match self.text(written, 0) {
                Ok(text) => {
                    tags.retain(|(known, _)| *known != name);
                    tags.push((name, text));
                }
                Err(why) => notes.push(format!("{label}: the tag `{name}` is made of {why}")),
            }
        }
        tags
    }

    /// The entries of an object, of a local that is one, or of several that are merged.
    fn entries(
        &self,
        written: &'a Expression,
        label: &str,
        notes: &mut Vec<String>,
        depth: usize,
    ) -> Vec<(String, &'a Expression)> {
        if self.step(0).is_none() {
            return Vec::new();
        }
        match written {
            Expression::Object(object) => {
                let mut entries = Vec::new();
                for (key, value) in object {
                    match key {
                        ObjectKey::Ident(name) => entries.push((name.as_str().to_owned(), value.expr())),
                        ObjectKey::Expression(name) => match name.as_str() {
                            Some(name) => entries.push((name.to_owned(), value.expr())),
                            None => notes.push(format!(
                                "{label}: a tag whose name is `{}`, which only Terraform can work out",
                                source(name)
                            )),
                        },
                    }
                    // Each time that a local is merged, its entries are here again.
                    if self.step(0).is_none() {
                        break;
                    }
                }
                entries
            }
            Expression::Parenthesis(inner) if depth < DEPTH_MAX => {
                self.entries(inner.inner(), label, notes, depth + 1)
            }
            Expression::FuncCall(call) if depth < DEPTH_MAX && call.name.name.as_str() == "merge" => {
                let mut all = Vec::new();
                for argument in &call.args {
                    all.extend(self.entries(argument, label, notes, depth + 1));
                }
                all
            }
            other => match self.local(other) {
                Some(local) if depth < DEPTH_MAX => self.entries(local, label, notes, depth + 1),
                _ => {
                    let source = source(other);
                    let note = format!("{label}: tags of `{source}`, which only Terraform can work out");
                    if self.step(source.len()).is_some() && !notes.contains(&note) {
                        notes.push(note);
                    }
                    Vec::new()
                }
            },
        }
    }

    /// What a local stands for in the end, or the expression itself.
    fn followed(&self, written: &'a Expression) -> Option<&'a Expression> {
        let mut followed = written;
        for _ in 0..DEPTH_MAX {
            match self.local(followed) {
                Some(local) => followed = local,
                None => return Some(followed),
            }
        }
        None
    }

    fn local(&self, written: &Expression) -> Option<&'a Expression> {
        match path(written)?.as_slice() {
            ["local", name] => self.locals.get(*name).copied(),
            _ => None,
        }
    }

    /// A text, with variables as params. `Err` names what only Terraform can work out.
    fn text(&mut self, written: &Expression, depth: usize) -> Result<ParamText, String> {
        let unknown = || format!("`{}`", source(written));
        let bytes = written.as_str().map_or(0, str::len);
        if depth > DEPTH_MAX || self.step(bytes).is_none() {
            return Err(unknown());
        }
        match written {
            Expression::String(text) => Ok(ParamText::text(text)),
            Expression::Number(number) => Ok(ParamText::text(&number.value().to_string())),
            Expression::Bool(value) => Ok(ParamText::text(&value.to_string())),
            Expression::Parenthesis(inner) => self.text(inner.inner(), depth + 1),
            Expression::StringTemplate(template) => {
                let mut text = ParamText(Vec::new());
                for element in template {
                    match element {
                        Element::Literal(literal) => {
                            self.step(literal.len()).ok_or_else(unknown)?;
                            text.0.push(ParamPart::Text(literal.to_string()));
                        }
                        Element::Interpolation(inner) => text.0.extend(self.text(&inner.expr, depth + 1)?.0),
                        Element::Directive(_) => return Err(unknown()),
                    }
                }
                Ok(text)
            }
            Expression::Conditional(choice) => {
                let holds = self.holds(&choice.cond_expr, depth + 1).ok_or_else(unknown)?;
                self.text(if holds { &choice.true_expr } else { &choice.false_expr }, depth + 1)
            }
            _ => match path(written).as_deref() {
                Some(["var", name]) => {
                    let declared = self.variables.get(*name);
                    if declared.is_some_and(Option::is_some) && self.default_of(name).is_none() {
                        return Err(unknown());
                    }
                    let default = self.default_of(name).unwrap_or_else(|| {
                        let note =
                            format!("the value of var.{name}, which no file says: `{name}` stands for it");
                        if !self.found.notes.contains(&note) {
                            self.found.notes.push(note);
                        }
                        (*name).to_owned()
                    });
                    let wanted = names::word(name);
                    let name = param(&mut self.found.params, &mut self.called, name, &wanted, &default);
                    Ok(ParamText(vec![ParamPart::Param(name)]))
                }
                Some(["terraform", "workspace"]) => {
                    let (params, called) = (&mut self.found.params, &mut self.called);
                    let name = param(params, called, "terraform.workspace", "workspace", "default");
                    Ok(ParamText(vec![ParamPart::Param(name)]))
                }
                _ => match self.local(written) {
                    Some(local) => self.text(local, depth + 1),
                    None => Err(unknown()),
                },
            },
        }
    }

    /// The text with the variables' defaults.
    fn known_text(&mut self, written: &Expression) -> Option<String> {
        let params = self.found.params.len();
        let text = self.text(written, 0).ok().map(|text| known(&text, &self.found.params));
        self.found.params.truncate(params);
        text
    }

    /// A word or a number. What is there and is not known here is told with its table.
    fn plain(&mut self, body: &'a Body, name: &str) -> Option<String> {
        let written = value(body, name)?;
        let known = self.known_text(written);
        if known.is_none() {
            self.unknown
                .push(format!("`{name}` is `{}`, which only Terraform can work out", source(written)));
        }
        known
    }

    fn units(&mut self, body: &'a Body) -> Option<Throughput> {
        let number = |text: Option<String>| text?.parse().ok();
        let (read, write) = (self.plain(body, "read_capacity"), self.plain(body, "write_capacity"));
        Some(Throughput { read: number(read)?, write: number(write)? })
    }

    /// Whether something is switched on. What cannot be known here is off, and told with its table.
    fn truth(&mut self, body: &'a Body, block: &str, name: &str) -> bool {
        let Some(written) = value(body, name) else { return false };
        self.holds(written, 0).unwrap_or_else(|| {
            let of = if block.is_empty() { name.to_owned() } else { format!("{block}.{name}") };
            let source = source(written);
            self.unknown.push(format!("`{of}` is `{source}`, which only Terraform can work out: it is off"));
            false
        })
    }

    /// The plain value that a variable has by default.
    fn default_of(&self, name: &str) -> Option<String> {
        self.literal((*self.variables.get(name)?)?)
    }

    fn literal(&self, written: &Expression) -> Option<String> {
        self.step(written.as_str().map_or(0, str::len))?;
        match written {
            Expression::String(text) => Some(text.to_string()),
            Expression::Number(number) => Some(number.value().to_string()),
            Expression::Bool(value) => Some(value.to_string()),
            _ => None,
        }
    }

    /// Whether a condition holds with the variables' defaults.
    fn holds(&self, condition: &Expression, depth: usize) -> Option<bool> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.step(0)?;
        match condition {
            Expression::BinaryOp(operation) => {
                let (left, right) = (&operation.lhs_expr, &operation.rhs_expr);
                let same = || Some(self.compared(left, depth + 1)? == self.compared(right, depth + 1)?);
                match operation.operator.value() {
                    BinaryOperator::Eq => same(),
                    BinaryOperator::NotEq => same().map(|same| !same),
                    BinaryOperator::And => Some(self.holds(left, depth + 1)? & self.holds(right, depth + 1)?),
                    BinaryOperator::Or => Some(self.holds(left, depth + 1)? | self.holds(right, depth + 1)?),
                    _ => None,
                }
            }
            Expression::UnaryOp(operation) if *operation.operator.value() == UnaryOperator::Not => {
                self.holds(&operation.expr, depth + 1).map(|holds| !holds)
            }
            Expression::Conditional(choice) => {
                let holds = self.holds(&choice.cond_expr, depth + 1)?;
                self.holds(if holds { &choice.true_expr } else { &choice.false_expr }, depth + 1)
            }
            Expression::Parenthesis(inner) => self.holds(inner.inner(), depth + 1),
            other => match self.local(other) {
                Some(local) => self.holds(local, depth + 1),
                None => self.compared(other, depth + 1)?.parse().ok(),
            },
        }
    }

    /// A value that is compared with another, with the variables' defaults.
    fn compared(&self, written: &Expression, depth: usize) -> Option<String> {
        if depth > DEPTH_MAX {
            return None;
        }
        match (written, path(written).as_deref()) {
            (Expression::Parenthesis(inner), _) => self.compared(inner.inner(), depth + 1),
            (_, Some(["var", name])) => self.default_of(name),
            (_, Some(["terraform", "workspace"])) => Some("default".to_owned()),
            (_, Some(["local", _])) => self.compared(self.local(written)?, depth + 1),
            _ => self.literal(written),
        }
    }

    /// Counts work, by the bytes it makes; `None` when there was too much of it.
    fn step(&self, bytes: usize) -> Option<()> {
        self.steps.set(self.steps.get().saturating_add(1 + bytes / 64));
        (self.steps.get() <= STEPS_MAX).then_some(())
    }
}

fn label(block: &Block, at: usize) -> Option<&str> {
    block.labels.get(at).map(hcl_edit::structure::BlockLabel::as_str)
}

fn value<'a>(body: &'a Body, name: &str) -> Option<&'a Expression> {
    body.get_attribute(name).map(|attribute| &attribute.value).filter(|value| !value.is_null())
}

/// `["var", "stage"]` of `var.stage`.
fn path(written: &Expression) -> Option<Vec<&str>> {
    let Expression::Traversal(traversal) = written else { return None };
    let Expression::Variable(first) = &traversal.expr else { return None };
    let rest = traversal.operators.iter().map(|operator| match operator.value() {
        TraversalOperator::GetAttr(name) => Some(name.as_str()),
        _ => None,
    });
    std::iter::once(Some(first.as_str())).chain(rest).collect()
}

/// An expression as it was written.
fn source(written: &Expression) -> String {
    written.to_string().trim().to_owned()
}
