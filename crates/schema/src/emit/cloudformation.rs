//! CloudFormation: the tables, who may use them, the alarms and the budget of a system.
//!
//! One template serves every stage: params that stand in names or tags become parameters, with the value of
//! the environment as their default. Where a part comes from stands in the `Metadata` of its resource,
//! property by property; JSON has no comments.
//!
//! A stack lives in one region, so tables in several regions make several templates. Policies name the tables
//! of the stack exactly, without the `*` that [`super::iam`] needs. Tables with indexes are made one after the
//! other, because DynamoDB builds the indexes of only a few tables at a time.
//!
//! A table that is retained is also protected from deletion, by CloudFormation and by DynamoDB. A table of a later
//! version is a resource of its own (`CacheTableV2`); one of an older version stays only if the template still has it,
//! so a template needs to be told which are kept. No table is ever deleted because another takes its place.

use larder_model as model;
use serde_json::{Map, Value as Json, json};

use super::alarms::{self, Dimension, MetricAlarm};
use super::iam::{self, Part};
use super::names;
use super::versions::{self, Kept, Version, versions};
use crate::origin::Origins;
use crate::schema::*;
use crate::span::SourceFile;
use crate::value::number_to_f64;

/// A template, and the region it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// `None`: wherever it is deployed.
    pub region: Option<String>,
    pub template: Json,
    /// What the schema asks for and CloudFormation cannot say, and why. The template's metadata says it too.
    pub left_out: Vec<String>,
}

/// What a template is to have in it.
#[derive(Clone, Copy, PartialEq)]
enum Parts {
    All,
    Alarms,
    Budget,
}

/// The templates of a system: one, unless its tables name several regions.
///
/// ```
/// use larder_schema::{Environment, NoFiles, Schema, emit};
///
/// let text = r#"
/// system keiba
/// param stage: string = "dev" from STAGE
/// table races {
///   name  "races-{stage}"
///   key   race_id
///   entity Race { race_id: string nonempty }
/// }
/// "#;
/// let loaded = Schema::load("keiba.larder", text, &mut NoFiles, &Environment::new());
/// let schema = loaded.schema.expect("there is nothing wrong with it");
/// let stacks = emit::cloudformation(&schema, &loaded.files, &[], &Environment::new()).expect("the name fits");
/// let table = &stacks[0].template["Resources"]["RacesTable"];
/// assert_eq!(table["Properties"]["TableName"]["Fn::Sub"], "races-${Stage}");
/// assert_eq!(table["Metadata"]["Larder"]["TableName"], "keiba.larder:5");
/// ```
pub fn cloudformation(
    schema: &Schema,
    files: &[SourceFile],
    kept: &[Kept<'_>],
    environment: &Environment,
) -> Result<Vec<Stack>, Vec<EnvironmentError>> {
    stacks(&versions(schema, files, kept, environment)?, environment, Parts::All)
}

/// Templates of the alarms alone, for tables that something else has made. None when there is nothing to watch.
pub fn alarms(
    schema: &Schema,
    files: &[SourceFile],
    environment: &Environment,
) -> Result<Vec<Stack>, Vec<EnvironmentError>> {
    stacks(&versions(schema, files, &[], environment)?, environment, Parts::Alarms)
}

/// A template of the budget alone. It asks for a topic: a budget that tells nobody is none.
pub fn budgets(
    schema: &Schema,
    files: &[SourceFile],
    environment: &Environment,
) -> Result<Option<Stack>, Vec<EnvironmentError>> {
    Ok(stacks(&versions(schema, files, &[], environment)?, environment, Parts::Budget)?.pop())
}

/// The first version is the one that is meant.
fn stacks(
    versions: &[Version<'_>],
    environment: &Environment,
    parts: Parts,
) -> Result<Vec<Stack>, Vec<EnvironmentError>> {
    let tables = versions.iter().flat_map(|version| &version.schema.tables);
    let regions = if parts == Parts::Budget { vec![None] } else { names::regions(tables) };
    let mut stacks = Vec::new();
    for (at, region) in regions.into_iter().enumerate() {
        let is_meant = |table: &Table| parts != Parts::Budget && table.region.as_deref() == region;
        let mut builder =
            Builder::new(versions, is_meant, environment, parts).map_err(|error| vec![error])?;
        if parts == Parts::All {
            builder.tables();
            builder.policies();
        }
        // What belongs to the system or the account, not to a table, is in the first template alone.
        let first = at == 0;
        if parts != Parts::Budget {
            builder.alarms(first);
        }
        if parts != Parts::Alarms && first {
            builder.budget();
        }
        if !builder.resources.is_empty() {
            stacks.push(builder.stack(region));
        }
    }
    Ok(stacks)
}

struct Builder<'a> {
    parts: Parts,
    /// The version that is meant.
    schema: &'a Schema,
    versions: &'a [Version<'a>],
    parameters: Map<String, Json>,
    resources: Map<String, Json>,
    outputs: Map<String, Json>,
    /// Params of the schema and their parameters.
    params: Vec<(String, String)>,
    /// Tables of the stack and their resources.
    tables: Vec<Placed<'a>>,
    /// What CloudFormation cannot say, and why.
    left_out: Vec<String>,
}

/// A table of the stack.
#[derive(Clone)]
struct Placed<'a> {
    version: &'a Version<'a>,
    table: &'a Table,
    setup: &'a TableSetup,
    id: String,
}

/// CloudFormation takes 255, and a number may follow.
const ID_BYTES_MAX: usize = 240;

/// The parameter that says who is told.
const TOPIC: &str = "NotificationTopicArn";
const HAS_TOPIC: &str = "HasNotificationTopic";

impl<'a> Builder<'a> {
    fn new(
        versions: &'a [Version<'a>],
        is_meant: impl Fn(&Table) -> bool,
        environment: &Environment,
        parts: Parts,
    ) -> Result<Self, EnvironmentError> {
        let schema = versions[0].schema;
        let mut builder = Self {
            parts,
            schema,
            versions,
            parameters: Map::new(),
            resources: Map::new(),
            outputs: Map::new(),
            params: Vec::new(),
            tables: Vec::new(),
            left_out: Vec::new(),
        };
        if versions.iter().any(|version| !version.schema.alarms.is_empty()) || !schema.budgets.is_empty() {
            let mut topic = json!({
                "Type": "String",
                "Description": "The SNS topic that alarms and budgets tell, which must let \
                    cloudwatch.amazonaws.com and budgets.amazonaws.com publish",
            });
            if parts != Parts::Budget {
                topic["Default"] = json!("");
                topic["Description"] =
                    json!(format!("{}; empty for none", topic["Description"].as_str().unwrap_or("")));
            }
            builder.parameters.insert(TOPIC.to_owned(), topic);
        }
        for (of, param) in versions::params(versions, &is_meant, parts == Parts::All) {
            let id = builder.free_id(&names::pascal(&param.name));
            let mut parameter = Map::new();
            parameter.insert("Type".to_owned(), json!("String"));
            parameter.insert("Default".to_owned(), json!(names::value(of, param, environment)?));
            let docs = param.docs.iter().map(|line| line.trim().to_owned());
            let place = versions.iter().find_map(|version| version.origins.param(&param.name));
            let place = place.map(|place| format!("({place})"));
            let description: Vec<String> = docs.chain(place).collect();
            if !description.is_empty() {
                parameter.insert("Description".to_owned(), json!(description.join(" ")));
            }
            builder.parameters.insert(id.clone(), Json::Object(parameter));
            builder.params.push((param.name.clone(), id));
        }
        // Those that are kept had their names first.
        for version in versions.iter().rev() {
            for (table, setup) in version.tables().filter(|(table, _)| is_meant(table)) {
                let id = format!("{}Table", names::pascal(&table.name));
                let id = builder.free_id(&names::versioned(names::number(version.schema), &id, "V"));
                if parts == Parts::All {
                    // The name is taken now, so that whatever is named later keeps away from it.
                    builder.resources.insert(id.clone(), Json::Null);
                }
                builder.tables.push(Placed { version, table, setup, id });
            }
        }
        Ok(builder)
    }

    /// A logical name that nothing has: parameters and resources share their names.
    fn free_id(&self, wanted: &str) -> String {
        let taken = |id: &String| self.parameters.contains_key(id) || self.resources.contains_key(id);
        let wanted = names::cut(wanted, ID_BYTES_MAX);
        std::iter::once(wanted.to_owned())
            .chain((2..).map(|number| format!("{wanted}{number}")))
            .find(|id| !taken(id))
            .expect("there are more numbers than names")
    }

    fn tables(&mut self) {
        let mut before: Option<Placed<'a>> = None;
        for placed in self.tables.clone() {
            let Placed { version, table, setup, ref id } = placed;
            let mut resource = Map::new();
            let policy = match setup.on_delete {
                OnDelete::Retain => "Retain",
                OnDelete::Delete => "Delete",
            };
            resource.insert("Type".to_owned(), json!("AWS::DynamoDB::Table"));
            resource.insert("DeletionPolicy".to_owned(), json!(policy));
            resource.insert("UpdateReplacePolicy".to_owned(), json!("Retain"));
            resource.insert("Properties".to_owned(), self.table_properties(version.schema, table, setup));
            resource.insert("Metadata".to_owned(), json!({"Larder": table_places(&version.origins, table)}));
            self.outputs.insert(
                format!("{id}Name"),
                json!({"Description": format!("What the store calls `{}`", table.name), "Value": {"Ref": id}}),
            );
            self.outputs.insert(
                format!("{id}Arn"),
                json!({"Description": format!("The ARN of `{}`", table.name), "Value": {"Fn::GetAtt": [id, "Arn"]}}),
            );
            let id = id.clone();
            // Each version on its own, so that one that is kept stays as it was.
            let of_version = |before: &Placed<'_>| std::ptr::eq(before.version, version);
            if !table.indexes.is_empty()
                && let Some(before) = before.replace(placed).filter(of_version)
            {
                resource.insert("DependsOn".to_owned(), json!([before.id]));
            }
            self.resources.insert(id, Json::Object(resource));
        }
    }

    fn table_properties(&self, schema: &Schema, table: &Table, setup: &TableSetup) -> Json {
        let definition = &setup.definition;
        let mut properties = Map::new();
        let mut put = |name: &str, value: Json| {
            properties.insert(name.to_owned(), value);
        };
        put("TableName", self.text(&names::table_name(schema, table)));
        let attributes = definition
            .attributes
            .iter()
            .map(|(name, kind)| json!({"AttributeName": name, "AttributeType": kind.name()}));
        put("AttributeDefinitions", attributes.collect());
        put("KeySchema", key_schema(&definition.key));
        match definition.billing {
            model::Billing::OnDemand => put("BillingMode", json!("PAY_PER_REQUEST")),
            model::Billing::Provisioned(units) => {
                put("BillingMode", json!("PROVISIONED"));
                put("ProvisionedThroughput", throughput(units));
            }
        }
        if !definition.indexes.is_empty() {
            let indexes = definition.indexes.iter().map(|index| global_index(index, definition.billing));
            put("GlobalSecondaryIndexes", indexes.collect());
        }
        if let Some(attribute) = &setup.ttl_attribute {
            put("TimeToLiveSpecification", json!({"AttributeName": attribute, "Enabled": true}));
        }
        if let Some(pitr) = setup.pitr {
            put(
                "PointInTimeRecoverySpecification",
                json!({"PointInTimeRecoveryEnabled": true, "RecoveryPeriodInDays": pitr.days}),
            );
        }
        match &definition.encryption {
            None => {}
            Some(model::Encryption { kms_key: None }) => {
                put("SSESpecification", json!({"SSEEnabled": true}));
            }
            Some(model::Encryption { kms_key: Some(key) }) => {
                put("SSESpecification", json!({"SSEEnabled": true, "SSEType": "KMS", "KMSMasterKeyId": key}));
            }
        }
        put("DeletionProtectionEnabled", json!(definition.deletion_protection));
        if definition.class == Some(TableClass::StandardInfrequentAccess) {
            put("TableClass", json!("STANDARD_INFREQUENT_ACCESS"));
        }
        if let Some(view) = definition.stream {
            put("StreamSpecification", json!({"StreamViewType": stream_view(view)}));
        }
        let tags = names::tags(schema, table);
        let tags = tags.iter().map(|(name, value)| json!({"Key": name, "Value": self.text(value)}));
        put("Tags", tags.collect());
        Json::Object(properties)
    }

    fn policies(&mut self) {
        let is_here = |table: &Table| self.tables.iter().any(|placed| std::ptr::eq(placed.table, table));
        for right in versions::rights(self.versions, is_here) {
            let document = iam::document(&right.statements, |resource| {
                let id = &self.placed(resource.table).id;
                match resource.part {
                    Part::Table => json!({"Fn::GetAtt": [id, "Arn"]}),
                    Part::Indexes => json!({"Fn::Sub": format!("${{{id}.Arn}}/index/*")}),
                    Part::Streams => json!({"Fn::Sub": format!("${{{id}.Arn}}/stream/*")}),
                }
            });
            let description = match right.grant {
                Some(grant) => format!("What {} grants {grant}", self.schema.system),
                None => format!("What the access patterns of {} need", self.schema.system),
            };
            let mut resource = json!({
                "Type": "AWS::IAM::ManagedPolicy",
                "Properties": {"Description": description, "PolicyDocument": document},
            });
            if let Some(place) = &right.place {
                resource["Metadata"] = json!({"Larder": {"PolicyDocument": place}});
            }
            let id = self.free_id(&format!("{}Policy", names::pascal(right.grant.unwrap_or("access"))));
            self.outputs
                .insert(format!("{id}Arn"), json!({"Description": description, "Value": {"Ref": id}}));
            self.resources.insert(id, resource);
        }
    }

    fn alarms(&mut self, with_system: bool) {
        for (at, version) in self.versions.iter().enumerate() {
            let is_meant = at == 0;
            let here = self.tables.iter().filter(|placed| std::ptr::eq(placed.version, version));
            let tables: Vec<&Table> = here.map(|placed| placed.table).collect();
            let (watches, left_out) =
                alarms::watches(version.schema, &version.origins, &tables, with_system && is_meant);
            self.left_out.extend(left_out.into_iter().filter(|_| is_meant));
            for watch in watches {
                let mut properties = self.alarm_properties(&watch);
                let told = json!({"Fn::If": [HAS_TOPIC, [{"Ref": TOPIC}], {"Ref": "AWS::NoValue"}]});
                properties["AlarmActions"] = told.clone();
                properties["OKActions"] = told;
                let mut resource = json!({"Type": "AWS::CloudWatch::Alarm", "Properties": properties});
                if let Some(place) = &watch.place {
                    resource["Metadata"] = json!({"Larder": {"Alarm": place}});
                }
                let number = watch.table.map_or(1, |_| names::number(version.schema));
                let id = format!("{}Alarm", names::pascal(&watch.name));
                let id = self.free_id(&names::versioned(number, &id, "V"));
                self.resources.insert(id, resource);
            }
        }
    }

    fn alarm_properties(&self, watch: &MetricAlarm<'_>) -> Json {
        let metrics = watch.metrics.iter().map(|metric| {
            let dimensions = metric.dimensions.iter().map(|(name, value)| {
                let value = match value {
                    Dimension::Table(table) => self.table_name(table),
                    Dimension::Text(text) => json!(text),
                };
                json!({"Name": name, "Value": value})
            });
            let dimensions: Vec<Json> = dimensions.collect();
            let shown =
                json!({"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions});
            json!({
                "Id": metric.id,
                "MetricStat": {"Metric": shown, "Period": watch.period_seconds, "Stat": metric.statistic},
                "ReturnData": false,
            })
        });
        let watched = json!({
            "Id": "watched", "Expression": watch.expression, "Label": watch.what, "ReturnData": true,
        });
        json!({
            "AlarmDescription": watch.description(),
            "ComparisonOperator": watch.comparison(),
            "EvaluationPeriods": 1,
            "Metrics": metrics.chain([watched]).collect::<Vec<_>>(),
            "Threshold": plain(watch.threshold),
            "TreatMissingData": "notBreaching",
        })
    }

    /// One budget for what DynamoDB costs the account in a month, with a message at each amount.
    fn budget(&mut self) {
        let amounts: Vec<f64> = self.schema.budgets.iter().map(number_to_f64).collect();
        let Some(most) = amounts.iter().copied().reduce(f64::max) else { return };
        let notifications = amounts.iter().map(|amount| {
            json!({
                "Notification": {
                    "ComparisonOperator": "GREATER_THAN",
                    "NotificationType": "ACTUAL",
                    "Threshold": plain(*amount),
                    "ThresholdType": "ABSOLUTE_VALUE",
                },
                "Subscribers": [{"SubscriptionType": "SNS", "Address": {"Ref": TOPIC}}],
            })
        });
        let notifications: Vec<Json> = notifications.collect();
        let mut resource = json!({
            "Type": "AWS::Budgets::Budget",
            "Properties": {
                "Budget": {
                    "BudgetLimit": {"Amount": plain(most), "Unit": "USD"},
                    "BudgetType": "COST",
                    "CostFilters": {"Service": ["Amazon DynamoDB"]},
                    "TimeUnit": "MONTHLY",
                },
                "NotificationsWithSubscribers": notifications,
            },
        });
        if self.parts == Parts::All {
            resource["Condition"] = json!(HAS_TOPIC);
        }
        if let Some(place) = self.versions[0].origins.budget() {
            resource["Metadata"] = json!({"Larder": {"Budget": place}});
        }
        let id = self.free_id("MonthlyBudget");
        self.resources.insert(id, resource);
    }

    /// What the store calls a table: asked of its resource, if the stack makes it.
    fn table_name(&self, table: &Table) -> Json {
        let placed = self.placed(table);
        match self.parts {
            Parts::All => json!({"Ref": placed.id}),
            Parts::Alarms | Parts::Budget => self.text(&names::table_name(placed.version.schema, table)),
        }
    }

    fn placed(&self, table: &Table) -> &Placed<'a> {
        let found = self.tables.iter().find(|placed| std::ptr::eq(placed.table, table));
        found.expect("rights are asked for the tables of the stack")
    }

    /// A text whose params are parameters.
    fn text(&self, text: &ParamText) -> Json {
        let id = |name: &str| {
            let found = self.params.iter().find(|(param, _)| param == name);
            found.map(|(_, id)| id.as_str()).expect("every param in a name or tag has a parameter")
        };
        if let [ParamPart::Param(name)] = text.0.as_slice() {
            return json!({"Ref": id(name)});
        }
        let plain = text.0.iter().map(|part| match part {
            ParamPart::Text(text) => Some(text.as_str()),
            ParamPart::Param(_) => None,
        });
        if let Some(plain) = plain.collect::<Option<String>>() {
            return json!(plain);
        }
        let parts = text.0.iter().map(|part| match part {
            ParamPart::Text(text) => text.replace("${", "${!"),
            ParamPart::Param(name) => format!("${{{}}}", id(name)),
        });
        json!({"Fn::Sub": parts.collect::<String>()})
    }

    fn stack(self, region: Option<&str>) -> Stack {
        let docs = self.schema.docs.join(" ");
        let docs = match self.parts {
            Parts::All if docs.trim().is_empty() => self.schema.system.clone(),
            Parts::All => docs.trim().to_owned(),
            Parts::Alarms => format!("The alarms of {}", self.schema.system),
            Parts::Budget => format!("The budget of {}", self.schema.system),
        };
        let mut template = Map::new();
        let mut put = |name: &str, value: Json| {
            template.insert(name.to_owned(), value);
        };
        put("AWSTemplateFormatVersion", json!("2010-09-09"));
        // CloudFormation takes 1024 bytes.
        put("Description", json!(names::cut(&docs, 1024)));
        let mut about = json!({"System": self.schema.system});
        if !self.left_out.is_empty() {
            about["LeftOut"] = json!(self.left_out);
        }
        put("Metadata", json!({"Larder": about}));
        if self.parameters.contains_key(TOPIC) && self.parts != Parts::Budget {
            let has = json!({"Fn::Not": [{"Fn::Equals": [{"Ref": TOPIC}, ""]}]});
            put("Conditions", json!({ HAS_TOPIC: has }));
        }
        if !self.parameters.is_empty() {
            put("Parameters", Json::Object(self.parameters));
        }
        if let Some(region) = region {
            let assert = json!({
                "Assert": {"Fn::Equals": [{"Ref": "AWS::Region"}, region]},
                "AssertDescription": format!("the schema puts these tables in {region}"),
            });
            put("Rules", json!({"Region": {"Assertions": [assert]}}));
        }
        put("Resources", Json::Object(self.resources));
        if !self.outputs.is_empty() {
            put("Outputs", Json::Object(self.outputs));
        }
        Stack { region: region.map(str::to_owned), template: Json::Object(template), left_out: self.left_out }
    }
}

/// The line behind each property that a line is behind.
fn table_places(origins: &Origins<'_>, table: &Table) -> Json {
    let settings = [
        ("TableName", "name"),
        ("KeySchema", "key"),
        ("BillingMode", "billing"),
        ("TimeToLiveSpecification", "ttl"),
        ("PointInTimeRecoverySpecification", "pitr"),
        ("SSESpecification", "encryption"),
        ("DeletionPolicy", "on_delete"),
        ("TableClass", "class"),
        ("StreamSpecification", "stream"),
        ("Tags", "tags"),
    ];
    let mut places = Map::new();
    let mut put = |name: String, place: Option<String>| {
        if let Some(place) = place {
            places.insert(name, json!(place));
        }
    };
    put("Table".to_owned(), origins.table(&table.name));
    for (property, setting) in settings {
        put(property.to_owned(), origins.setting(&table.name, setting));
    }
    for index in &table.indexes {
        let name = format!("GlobalSecondaryIndexes.{}", index.name);
        put(name, origins.index(&table.name, &index.name));
    }
    Json::Object(places)
}

fn key_schema(key: &model::KeySchema) -> Json {
    let hash = key.partition.iter().map(|part| (part, "HASH"));
    let range = key.sort.iter().map(|part| (part, "RANGE"));
    hash.chain(range).map(|(part, kind)| json!({"AttributeName": part.name, "KeyType": kind})).collect()
}

fn global_index(index: &model::IndexDefinition, billing: model::Billing) -> Json {
    let projection = match &index.projection {
        model::Projection::All => json!({"ProjectionType": "ALL"}),
        model::Projection::KeysOnly => json!({"ProjectionType": "KEYS_ONLY"}),
        model::Projection::Include(names) => {
            json!({"ProjectionType": "INCLUDE", "NonKeyAttributes": names})
        }
    };
    let mut shown = json!({
        "IndexName": index.name.as_str(),
        "KeySchema": key_schema(&index.key),
        "Projection": projection,
    });
    if matches!(billing, model::Billing::Provisioned(_)) {
        shown["ProvisionedThroughput"] = throughput(index.throughput);
    }
    shown
}

/// `5`, not `5.0`.
fn plain(number: f64) -> Json {
    if number.fract() == 0.0 && number.abs() < 1e15 { json!(number as i64) } else { json!(number) }
}

fn throughput(units: model::Throughput) -> Json {
    json!({"ReadCapacityUnits": units.read, "WriteCapacityUnits": units.write})
}

pub(super) fn stream_view(view: StreamView) -> &'static str {
    match view {
        StreamView::KeysOnly => "KEYS_ONLY",
        StreamView::NewImage => "NEW_IMAGE",
        StreamView::OldImage => "OLD_IMAGE",
        StreamView::NewAndOldImages => "NEW_AND_OLD_IMAGES",
    }
}
