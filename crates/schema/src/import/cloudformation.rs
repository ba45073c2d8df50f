//! CloudFormation templates → tables.
//!
//! Parameters that stand in names and tags become params. Everything else is taken as it is with the parameters'
//! defaults, which is told: the language has one value for all stages there.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use larder_model::{
    Billing, Encryption, IndexDefinition, IndexKind, IndexName, KeyAttribute, KeySchema, KeyType, Projection,
    StreamView, TableClass, TableName, Throughput,
};
use serde_json::{Map, Value as Json};

use super::names::{self, Taken};
use super::{Found, FoundTable, known, yaml};
use crate::schema::{ParamPart, ParamText};

/// Functions within functions.
const DEPTH_MAX: usize = 16;
/// What working out a template may take: functions within each other can double it with every level.
const STEPS_MAX: usize = 100_000;

/// The tables of a template, in JSON or YAML. `Err` says why it is no template.
///
/// ```
/// use larder_schema::import;
///
/// let template = "
/// Parameters:
///   Stage: {Type: String, Default: dev}
/// Resources:
///   RacesTable:
///     Type: AWS::DynamoDB::Table
///     Properties:
///       TableName: !Sub 'races-${Stage}'
///       AttributeDefinitions: [{AttributeName: race_id, AttributeType: S}]
///       KeySchema: [{AttributeName: race_id, KeyType: HASH}]
///       BillingMode: PAY_PER_REQUEST
/// ";
/// let found = import::cloudformation(template)?;
/// assert!(import::write(&found, "a template").text.contains(r#"name     "races-{stage}""#));
/// # Ok::<(), String>(())
/// ```
pub fn cloudformation(text: &str) -> Result<Found, String> {
    let template = match serde_json::from_str(text) {
        Ok(json) => json,
        Err(error) if text.trim_start().starts_with('{') => return Err(error.to_string()),
        Err(_) => yaml::json(text)?,
    };
    let Some(resources) = template["Resources"].as_object() else {
        return Err("it has no `Resources`: it is no CloudFormation template".to_owned());
    };
    let mut reader =
        Reader { template: &template, found: Found::default(), called: BTreeMap::new(), steps: Cell::new(0) };
    reader.found.system = template["Metadata"]["Larder"]["System"].as_str().map(str::to_owned);
    let region = reader.region();
    let mut labels = Taken::default();
    for (id, resource) in resources {
        let kind = resource["Type"].as_str().unwrap_or_default();
        match kind {
            "AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable" => {
                let label = id.strip_suffix("Table").filter(|label| !label.is_empty()).unwrap_or(id);
                let label = labels.free(&names::snake(label));
                let mut table = reader.table(id, label, resource);
                table.region.clone_from(&region);
                reader.found.tables.push(table);
            }
            kind if kind.contains("DynamoDB") || kind == "AWS::Serverless::SimpleTable" => {
                reader.found.notes.push(format!("{id} ({kind})"));
            }
            _ => {}
        }
    }
    if reader.steps.get() > STEPS_MAX {
        return Err(format!("working out its functions takes more than {STEPS_MAX} steps"));
    }
    Ok(reader.found)
}

struct Reader<'a> {
    template: &'a Json,
    found: Found,
    /// Parameters that were met, and what the schema calls them.
    called: BTreeMap<String, String>,
    steps: Cell<usize>,
}

/// What is read of a table. Anything else is told.
const READ: [&str; 14] = [
    "TableName",
    "AttributeDefinitions",
    "KeySchema",
    "BillingMode",
    "ProvisionedThroughput",
    "GlobalSecondaryIndexes",
    "LocalSecondaryIndexes",
    "TimeToLiveSpecification",
    "PointInTimeRecoverySpecification",
    "SSESpecification",
    "DeletionProtectionEnabled",
    "TableClass",
    "StreamSpecification",
    "Tags",
];

impl Reader<'_> {
    fn table(&mut self, id: &str, label: String, resource: &Json) -> FoundTable {
        let mut notes = Vec::new();
        let mut properties = match self.value(&resource["Properties"], &mut notes) {
            Json::Object(properties) => properties,
            _ => Map::new(),
        };
        if let Some(condition) = resource["Condition"].as_str() {
            notes.push(format!("{label} is made only on the condition {condition}"));
        }
        // A table in several regions says these of each; the first stands for all.
        if let Some(Json::Array(replicas)) = properties.remove("Replicas") {
            notes.push(format!("{label} is in {} regions: a schema's table lives in one", replicas.len()));
            if let Some(Json::Object(first)) = replicas.into_iter().next() {
                replicated(&mut properties, first, &label, &mut notes);
            }
        }
        for name in properties.keys().filter(|name| !READ.contains(&name.as_str())) {
            notes.push(format!("{label}: `{name}` has no word in the language"));
        }
        let mut told = std::collections::BTreeSet::new();
        notes.retain(|note| told.insert(note.clone()));
        let properties = Json::Object(properties);
        let name = match &properties["TableName"] {
            Json::Null => {
                notes.push(format!(
                    "{label}: CloudFormation makes the name of {id} up: write what the store calls it"
                ));
                None
            }
            written => match self.text(written, 0) {
                Ok(name) => Some(name),
                Err(why) => {
                    notes.push(format!(
                        "{label}: the name is made of {why}: write what the store calls the table"
                    ));
                    None
                }
            },
        };
        let name = name.unwrap_or_else(|| ParamText::text(&format!("{label}-table")));
        let name = match TableName::new(known(&name, &self.found.params)) {
            Ok(_) => name,
            Err(error) => {
                notes.push(format!("{label}: the name {error}: write what the store calls the table"));
                ParamText::text(&format!("{label}-table"))
            }
        };
        let throughput = units(&properties["ProvisionedThroughput"]);
        let billing = match word(&properties["BillingMode"], "BillingMode", &label, &mut notes) {
            Some("PAY_PER_REQUEST") => Billing::OnDemand,
            _ => Billing::Provisioned(throughput.unwrap_or_else(|| {
                notes.push(format!("{label}: its units are not said here: 5 / 5 stand for them"));
                Throughput { read: 5, write: 5 }
            })),
        };
        let kinds = &properties["AttributeDefinitions"];
        let indexes =
            [(IndexKind::Global, "GlobalSecondaryIndexes"), (IndexKind::Local, "LocalSecondaryIndexes")];
        let mut found = Vec::new();
        for (kind, property) in indexes {
            for written in array(&properties[property]) {
                found.extend(index(kind, written, kinds, billing, &label, &mut notes));
            }
        }
        let policy =
            word(&resource["DeletionPolicy"], "DeletionPolicy", &label, &mut notes).unwrap_or("Delete");
        let retained = matches!(policy, "Retain" | "RetainExceptOnCreate");
        let protected = truth(&properties, "/DeletionProtectionEnabled", &label, &mut notes);
        if protected != retained {
            notes.push(match (protected, policy) {
                (true, _) => format!("{label}: DynamoDB protects it from deletion, and the stack would delete it ({policy}): for the language both keep it"),
                (false, _) if retained => format!("{label}: the stack retains it, and DynamoDB does not protect it from deletion: for the language both keep it"),
                (false, _) => format!("{label}: the stack's way of deleting it, {policy}, has no word in the language"),
            });
        }
        let expires = truth(&properties, "/TimeToLiveSpecification/Enabled", &label, &mut notes);
        let ttl = &properties["TimeToLiveSpecification"]["AttributeName"];
        let recovers = truth(
            &properties,
            "/PointInTimeRecoverySpecification/PointInTimeRecoveryEnabled",
            &label,
            &mut notes,
        );
        let days = &properties["PointInTimeRecoverySpecification"]["RecoveryPeriodInDays"];
        let recovery_days = recovers.then(|| {
            number(days).and_then(|days| u32::try_from(days).ok()).unwrap_or_else(|| {
                if !days.is_null() {
                    notes.push(format!("{label}: its recovery period is {days}: 35 days stand for it"));
                }
                35
            })
        });
        let is_encrypted = truth(&properties, "/SSESpecification/SSEEnabled", &label, &mut notes);
        let encryption =
            is_encrypted.then(|| self.encryption(&properties["SSESpecification"], &label, &mut notes));
        let class = word(&properties["TableClass"], "TableClass", &label, &mut notes);
        let view = &properties["StreamSpecification"]["StreamViewType"];
        FoundTable {
            name,
            region: None,
            key: key(&properties["KeySchema"], kinds, &label, &mut notes),
            indexes: found,
            ttl_attribute: word(ttl, "AttributeName", &label, &mut notes)
                .filter(|_| expires)
                .map(str::to_owned),
            billing,
            pitr_days: recovery_days,
            encryption,
            retain: protected || retained,
            class: match class {
                Some("STANDARD_INFREQUENT_ACCESS") => TableClass::StandardInfrequentAccess,
                _ => TableClass::Standard,
            },
            stream: stream_view(word(view, "StreamViewType", &label, &mut notes)),
            tags: self.tags(&properties["Tags"], &label, &mut notes),
            label,
            notes,
            items: Vec::new(),
        }
    }

    fn encryption(&mut self, written: &Json, label: &str, notes: &mut Vec<String>) -> Encryption {
        let kms_key = match &written["KMSMasterKeyId"] {
            Json::Null => None,
            key => Some(match self.text(key, 0) {
                Ok(text) => {
                    if text.0.iter().any(|part| matches!(part, ParamPart::Param(_))) {
                        notes.push(format!("{label}: its key is that of the default parameters"));
                    }
                    known(&text, &self.found.params)
                }
                Err(why) => {
                    notes.push(format!("{label}: its key is {why}: write the key's ARN"));
                    why.trim_matches('`').to_owned()
                }
            }),
        };
        Encryption { kms_key }
    }

    fn tags(&mut self, written: &Json, label: &str, notes: &mut Vec<String>) -> Vec<(String, ParamText)> {
        let mut tags = Vec::new();
        for tag in array(written) {
            let Some(name) = tag["Key"].as_str() else {
                notes.push(format!("{label}: a tag without a plain name"));
                continue;
            };
            match self.text(&tag["Value"], 0) {
                Ok(value) => tags.push((name.to_owned(), value)),
                Err(why) => notes.push(format!("{label}: the tag `{name}` is made of {why}")),
            }
        }
        tags
    }

    /// A text, with parameters as params. `Err` names what cannot be known from the template.
    fn text(&mut self, value: &Json, depth: usize) -> Result<ParamText, String> {
        if depth > DEPTH_MAX {
            return Err("too many functions within each other".to_owned());
        }
        self.step(value.as_str().map_or(0, str::len)).ok_or("more than can be worked out")?;
        match value {
            Json::String(text) => Ok(ParamText::text(text)),
            Json::Number(number) => Ok(ParamText::text(&number.to_string())),
            Json::Bool(value) => Ok(ParamText::text(&value.to_string())),
            Json::Object(map) if map.len() == 1 => {
                let (function, argument) = map.iter().next().ok_or_else(|| "nothing".to_owned())?;
                match (function.as_str(), argument) {
                    ("Ref", Json::String(name)) => Ok(ParamText(vec![self.part(name)?])),
                    ("Fn::Sub", Json::String(text)) => self.substituted(text, &Json::Null, depth),
                    ("Fn::Sub", Json::Array(parts)) => {
                        let text = parts.first().and_then(Json::as_str).ok_or("a `Fn::Sub` of nothing")?;
                        self.substituted(text, parts.get(1).unwrap_or(&Json::Null), depth)
                    }
                    ("Fn::Join", Json::Array(parts)) => {
                        let sign = parts.first().and_then(Json::as_str).unwrap_or_default();
                        let mut text = ParamText(Vec::new());
                        for (at, part) in parts.get(1).into_iter().flat_map(array).enumerate() {
                            if at > 0 {
                                self.step(sign.len()).ok_or("more than can be worked out")?;
                                text.0.push(ParamPart::Text(sign.to_owned()));
                            }
                            text.0.extend(self.text(part, depth + 1)?.0);
                        }
                        Ok(text)
                    }
                    ("Fn::GetAtt", Json::Array(parts)) => {
                        let parts: Vec<&str> = parts.iter().filter_map(Json::as_str).collect();
                        Err(format!("`{}`", parts.join(".")))
                    }
                    (function, argument) => Err(format!("`{function}` of {argument}")),
                }
            }
            other => Err(format!("`{other}`")),
        }
    }

    fn substituted(&mut self, text: &str, values: &Json, depth: usize) -> Result<ParamText, String> {
        self.step(text.len()).ok_or("more than can be worked out")?;
        let mut out = ParamText(Vec::new());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.0.push(ParamPart::Text(before.to_owned()));
            let (name, after) =
                after.split_once('}').ok_or_else(|| format!("`${{` without an end in `{text}`"))?;
            match name.strip_prefix('!') {
                Some(literal) => out.0.push(ParamPart::Text(format!("${{{literal}}}"))),
                None if !values[name].is_null() => out.0.extend(self.text(&values[name], depth + 1)?.0),
                None => out.0.push(self.part(name)?),
            }
            rest = after;
        }
        out.0.push(ParamPart::Text(rest.to_owned()));
        out.0.retain(|part| *part != ParamPart::Text(String::new()));
        Ok(out)
    }

    /// What `Ref` gives: a parameter, or what AWS knows when it deploys.
    fn part(&mut self, name: &str) -> Result<ParamPart, String> {
        let pseudo = match name {
            "AWS::Region" => Some(("aws_region", "us-east-1")),
            "AWS::AccountId" => Some(("aws_account", "000000000000")),
            "AWS::Partition" => return Ok(ParamPart::Text("aws".to_owned())),
            "AWS::StackName" => Some(("stack_name", "stack")),
            _ => None,
        };
        let (param, default) = match pseudo {
            Some((param, default)) => (param.to_owned(), default.to_owned()),
            None => match self.default(name) {
                Some(default) => {
                    let parameter = &self.template["Parameters"][name];
                    let note = format!(
                        "the value of {name}, which the template does not say: `{default}` stands for it"
                    );
                    if parameter["Default"].is_null() && !self.found.notes.contains(&note) {
                        self.found.notes.push(note);
                    }
                    (names::snake(name), default)
                }
                None => return Err(format!("`{name}`")),
            },
        };
        let param = super::param(&mut self.found.params, &mut self.called, name, &param, &default);
        Ok(ParamPart::Param(param))
    }

    /// The value of a parameter where nothing else is said; its own name, when it has none.
    fn default(&self, name: &str) -> Option<String> {
        let parameter = self.template["Parameters"][name].as_object()?;
        let default = parameter.get("Default").or_else(|| parameter.get("AllowedValues")?.get(0));
        let default = match default {
            Some(Json::String(text)) => Cow::Borrowed(text.as_str()),
            Some(Json::Null) | None => Cow::Owned(names::snake(name)),
            Some(other) => Cow::Owned(other.to_string()),
        };
        self.step(default.len())?;
        Some(default.into_owned())
    }

    /// Counts work, by the bytes it makes; `None` when there was too much of it.
    fn step(&self, bytes: usize) -> Option<()> {
        self.steps.set(self.steps.get().saturating_add(1 + bytes / 64));
        (self.steps.get() <= STEPS_MAX).then_some(())
    }

    /// Values as they are with the default parameters, except for texts that params can stand in.
    fn value(&mut self, value: &Json, notes: &mut Vec<String>) -> Json {
        self.value_within(value, notes, false, 0)
    }

    fn value_within(&mut self, value: &Json, notes: &mut Vec<String>, open: bool, depth: usize) -> Json {
        if depth > DEPTH_MAX * 4 {
            return Json::Null;
        }
        match value {
            Json::Array(values) => {
                let values = values.iter().map(|value| self.value_within(value, notes, open, depth + 1));
                values.filter(|value| !value.is_null()).collect()
            }
            Json::Object(map) if map.len() == 1 => {
                let argument = map.values().next().unwrap_or(&Json::Null);
                match map.keys().next().map(String::as_str) {
                    Some("Fn::If") => {
                        let (condition, then, otherwise) = (&argument[0], &argument[1], &argument[2]);
                        let holds = condition.as_str().and_then(|name| self.holds_named(name, 0));
                        let name = condition.as_str().unwrap_or("?");
                        notes.push(match holds {
                            Some(holds) => {
                                format!("taken as if the condition {name} were {holds}, as the defaults say")
                            }
                            None => format!(
                                "taken as if the condition {name} were false: what it says is not known here"
                            ),
                        });
                        self.value_within(
                            if holds == Some(true) { then } else { otherwise },
                            notes,
                            open,
                            depth + 1,
                        )
                    }
                    Some("Ref") if argument == "AWS::NoValue" => Json::Null,
                    Some("Ref") if !open => match argument.as_str().and_then(|name| self.default(name)) {
                        Some(default) => {
                            notes.push(format!(
                                "taken with {} as {default}, its default",
                                argument.as_str().unwrap_or("?")
                            ));
                            Json::String(default)
                        }
                        None => value.clone(),
                    },
                    Some("Fn::FindInMap") => match self.found_in_map(argument) {
                        Some(found) => {
                            notes.push(format!(
                                "taken from the mapping {}, with the defaults",
                                argument[0].as_str().unwrap_or("?")
                            ));
                            found
                        }
                        None => value.clone(),
                    },
                    Some("Fn::Sub" | "Fn::Join") if !open => {
                        let params = self.found.params.len();
                        let text = self.text(value, 0).map(|text| known(&text, &self.found.params));
                        self.found.params.truncate(params);
                        match text {
                            Ok(text) => {
                                notes.push(format!("taken as `{text}`, with the defaults"));
                                Json::String(text)
                            }
                            Err(_) => value.clone(),
                        }
                    }
                    Some(function) if function.starts_with("Fn::") || function == "Ref" => value.clone(),
                    _ => self.members(map, notes, open, depth),
                }
            }
            Json::Object(map) => self.members(map, notes, open, depth),
            plain => plain.clone(),
        }
    }

    fn members(
        &mut self,
        map: &Map<String, Json>,
        notes: &mut Vec<String>,
        open: bool,
        depth: usize,
    ) -> Json {
        let mut out = Map::new();
        for (name, value) in map {
            // Params can stand in these, and nowhere else.
            let open = match name.as_str() {
                "KMSMasterKeyId" | "Tags" => true,
                name if depth == 0 => name == "TableName",
                _ => open,
            };
            let value = self.value_within(value, notes, open, depth + 1);
            if !value.is_null() {
                out.insert(name.clone(), value);
            }
        }
        Json::Object(out)
    }

    fn found_in_map(&self, argument: &Json) -> Option<Json> {
        let key = |value: &Json| match value {
            Json::String(text) => Some(text.clone()),
            other => self.default(other["Ref"].as_str()?),
        };
        let found = &self.template["Mappings"][key(&argument[0])?][key(&argument[1])?][key(&argument[2])?];
        self.step(found.to_string().len())?;
        (!found.is_null()).then(|| found.clone())
    }

    fn holds_named(&self, name: &str, depth: usize) -> Option<bool> {
        self.holds(&self.template["Conditions"][name], depth + 1)
    }

    /// Whether a condition holds with the default parameters.
    fn holds(&self, condition: &Json, depth: usize) -> Option<bool> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.step(0)?;
        let (function, argument) = condition.as_object()?.iter().next()?;
        let each = || {
            argument.as_array()?.iter().map(|one| self.holds(one, depth + 1)).collect::<Option<Vec<bool>>>()
        };
        match function.as_str() {
            "Condition" => self.holds_named(argument.as_str()?, depth),
            "Fn::Equals" => {
                let value = |value: &Json| match value {
                    Json::Object(map) => self.default(map.get("Ref")?.as_str()?),
                    Json::String(text) => Some(text.clone()),
                    other => Some(other.to_string()),
                };
                Some(value(&argument[0])? == value(&argument[1])?)
            }
            "Fn::Not" => each()?.first().map(|holds| !holds),
            "Fn::And" => Some(each()?.into_iter().all(|holds| holds)),
            "Fn::Or" => Some(each()?.into_iter().any(|holds| holds)),
            _ => None,
        }
    }

    /// Where the template says that it must be deployed.
    fn region(&self) -> Option<String> {
        let rules = self.template["Rules"].as_object()?.values();
        let mut asserted =
            rules.flat_map(|rule| array(&rule["Assertions"])).map(|one| &one["Assert"]["Fn::Equals"]);
        asserted
            .find(|equal| equal[0]["Ref"] == "AWS::Region")
            .and_then(|equal| equal[1].as_str())
            .map(str::to_owned)
    }
}

/// Adds what a replica says to what all have in common. Of its indexes it says nothing but units.
fn replicated(
    properties: &mut Map<String, Json>,
    replica: Map<String, Json>,
    label: &str,
    notes: &mut Vec<String>,
) {
    for (name, value) in replica {
        match (name.as_str(), value) {
            ("Region", region) => {
                let region = region.as_str().unwrap_or("its first region").to_owned();
                notes.push(format!("{label}: its settings are those of {region}"));
            }
            (known, value) if READ.contains(&known) && known != "GlobalSecondaryIndexes" => {
                match (properties.get_mut(known), value) {
                    (Some(Json::Object(common)), Json::Object(own)) => common.extend(own),
                    (_, value) => {
                        properties.insert(name, value);
                    }
                }
            }
            _ => notes.push(format!("{label}: `{name}` of a replica has no word in the language")),
        }
    }
}

fn index(
    kind: IndexKind,
    written: &Json,
    kinds: &Json,
    billing: Billing,
    label: &str,
    notes: &mut Vec<String>,
) -> Option<IndexDefinition> {
    let name = written["IndexName"].as_str().and_then(|name| IndexName::new(name).ok());
    let Some(name) = name else {
        notes.push(format!("{label}: an index whose name cannot be read is left out"));
        return None;
    };
    let projection = &written["Projection"];
    let told = format!("{label}: the attributes of index {}", name.as_str());
    let throughput = match billing {
        Billing::OnDemand => Throughput::default(),
        // A local index has those of its table.
        Billing::Provisioned(table) if kind == IndexKind::Local => table,
        Billing::Provisioned(table) => units(&written["ProvisionedThroughput"]).unwrap_or_else(|| {
            notes.push(format!(
                "{label}: the units of index {} are not said here: its table's stand for them",
                name.as_str()
            ));
            table
        }),
    };
    Some(IndexDefinition {
        name,
        kind,
        key: key(&written["KeySchema"], kinds, label, notes),
        projection: match word(&projection["ProjectionType"], "ProjectionType", label, notes) {
            Some("KEYS_ONLY") => Projection::KeysOnly,
            Some("INCLUDE") => Projection::Include(included(&projection["NonKeyAttributes"], &told, notes)),
            _ => Projection::All,
        },
        throughput,
        on_demand_limits: None,
    })
}

/// The names of a list. The value of a parameter that is one has commas in it.
fn included(written: &Json, told: &str, notes: &mut Vec<String>) -> Vec<String> {
    let names: Vec<String> = match written {
        Json::String(list) => {
            list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        }
        list => array(list).iter().filter_map(Json::as_str).map(str::to_owned).collect(),
    };
    if names.is_empty() || (written.is_array() && names.len() < array(written).len()) {
        notes.push(format!("{told} are {written}: write all of them"));
    }
    names
}

fn key(written: &Json, kinds: &Json, label: &str, notes: &mut Vec<String>) -> KeySchema {
    let mut key = KeySchema { partition: Vec::new(), sort: Vec::new() };
    for part in array(written) {
        let Some(name) = part["AttributeName"].as_str() else {
            notes.push(format!("{label}: a key attribute whose name cannot be read"));
            continue;
        };
        let kind = array(kinds).iter().find(|known| known["AttributeName"] == name);
        let kind = kind.map_or(&Json::Null, |known| &known["AttributeType"]);
        let kind = match word(kind, "AttributeType", label, notes) {
            Some("N") => KeyType::N,
            Some("B") => KeyType::B,
            _ => KeyType::S,
        };
        let attribute = KeyAttribute { name: name.to_owned(), kind };
        if part["KeyType"] == "RANGE" { key.sort.push(attribute) } else { key.partition.push(attribute) }
    }
    key
}

pub(super) fn stream_view(name: Option<&str>) -> Option<StreamView> {
    match name? {
        "KEYS_ONLY" => Some(StreamView::KeysOnly),
        "NEW_IMAGE" => Some(StreamView::NewImage),
        "OLD_IMAGE" => Some(StreamView::OldImage),
        "NEW_AND_OLD_IMAGES" => Some(StreamView::NewAndOldImages),
        _ => None,
    }
}

fn array(value: &Json) -> &[Json] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A word, if it is known here. What is there and is not known is told.
fn word<'j>(written: &'j Json, name: &str, label: &str, notes: &mut Vec<String>) -> Option<&'j str> {
    if !written.is_null() && !written.is_string() {
        notes.push(format!("{label}: `{name}` is {written}, which is not known here"));
    }
    written.as_str()
}

/// Whether something is switched on. What cannot be known here is off, and told.
fn truth(properties: &Json, path: &str, label: &str, notes: &mut Vec<String>) -> bool {
    match properties.pointer(path) {
        None | Some(Json::Null | Json::Bool(false)) => false,
        Some(Json::Bool(true)) => true,
        Some(Json::String(text)) if text.eq_ignore_ascii_case("true") => true,
        Some(Json::String(text)) if text.eq_ignore_ascii_case("false") => false,
        Some(other) => {
            let name = path.rsplit('/').find(|name| *name != "Enabled").unwrap_or(path);
            notes.push(format!(
                "{label}: whether `{name}` is on is {other}, which is not known here: it is off"
            ));
            false
        }
    }
}

/// A number, also in quotes.
fn number(value: &Json) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn units(written: &Json) -> Option<Throughput> {
    let (read, write) = (number(&written["ReadCapacityUnits"])?, number(&written["WriteCapacityUnits"])?);
    Some(Throughput { read, write })
}
