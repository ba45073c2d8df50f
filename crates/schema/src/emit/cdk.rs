//! AWS CDK: a stack in TypeScript with the tables, who may use them, the alarms and the budget of a system.
//!
//! Params that stand in names or tags become properties of the stack, with the value of the environment as their
//! default. A comment names the schema's line behind a part. A stack lives in one region, so tables in several
//! regions make several classes.
//!
//! Tables, indexes, policies and alarms are CDK's own constructs, so whoever extends the class can go on with
//! `stack.racesTable.grantReadData(…)`. Tables of a later version are members of their own (`racesTableV2`), and those of
//! an older one that is kept stay what they were.

use larder_model as model;

use super::alarms::{Dimension, MetricAlarm, watches};
use super::cloudformation::stream_view;
use super::iam::{self, Part, Resource};
use super::names;
use super::versions::{self, Kept, Version, versions};
use crate::schema::*;
use crate::span::SourceFile;
use crate::value::number_to_f64;

/// What properties of a stack are called already.
const STACK_PROPERTIES: [&str; 13] = [
    "analyticsReporting",
    "crossRegionReferences",
    "description",
    "env",
    "notificationArns",
    "notificationTopic",
    "permissionsBoundary",
    "propertyInjectors",
    "stackName",
    "suppressTemplateIndentation",
    "synthesizer",
    "tags",
    "terminationProtection",
];

/// A system as a module of TypeScript.
///
/// ```
/// use larder_schema::{Environment, NoFiles, Schema, emit};
///
/// let text = r#"
/// system keiba
/// table races {
///   key  race_id
///   entity Race { race_id: string nonempty }
/// }
/// "#;
/// let loaded = Schema::load("keiba.larder", text, &mut NoFiles, &Environment::new());
/// let schema = loaded.schema.expect("there is nothing wrong with it");
/// let code = emit::cdk(&schema, &loaded.files, &[], &Environment::new()).expect("the name fits");
/// assert!(code.contains("this.racesTable = new dynamodb.Table(this, 'RacesTable', {"));
/// ```
pub fn cdk(
    schema: &Schema,
    files: &[SourceFile],
    kept: &[Kept<'_>],
    environment: &Environment,
) -> Result<String, Vec<EnvironmentError>> {
    let versions = versions(schema, files, kept, environment)?;
    let mut code = Code::default();
    code.line(&format!("// Written by `larder export cdk {}`. Change the schema instead.", schema.system));
    code.line("");
    imports(&mut code, &versions);
    let regions = names::regions(versions.iter().flat_map(|version| &version.schema.tables));
    for (at, region) in regions.iter().enumerate() {
        let suffix = match region {
            Some(region) if regions.len() > 1 => names::pascal(&region.replace('-', "_")),
            _ => String::new(),
        };
        let class = format!("{}{suffix}Stack", names::pascal(&schema.system));
        let stack = Stack { schema, versions: &versions, region: *region, class, first: at == 0 };
        stack.write(&mut code, environment).map_err(|error| vec![error])?;
    }
    Ok(code.text)
}

fn imports(code: &mut Code, versions: &[Version<'_>]) {
    let schema = versions[0].schema;
    let mut tables = versions.iter().flat_map(|version| &version.schema.tables);
    let keys = tables.any(|table| matches!(table.encryption, Encryption::Kms(_)));
    let alarms = versions.iter().any(|version| !version.schema.alarms.is_empty());
    let told = alarms || !schema.budgets.is_empty();
    let modules = [
        ("cdk", "aws-cdk-lib", true),
        ("budgets", "aws-cdk-lib/aws-budgets", !schema.budgets.is_empty()),
        ("cloudwatch", "aws-cdk-lib/aws-cloudwatch", alarms),
        ("actions", "aws-cdk-lib/aws-cloudwatch-actions", alarms),
        ("dynamodb", "aws-cdk-lib/aws-dynamodb", true),
        ("iam", "aws-cdk-lib/aws-iam", true),
        ("kms", "aws-cdk-lib/aws-kms", keys),
        ("sns", "aws-cdk-lib/aws-sns", told),
    ];
    for (name, module, _) in modules.into_iter().filter(|(_, _, used)| *used) {
        code.line(&format!("import * as {name} from '{module}';"));
    }
    code.line("import { Construct } from 'constructs';");
}

struct Stack<'a> {
    /// The version that is meant.
    schema: &'a Schema,
    versions: &'a [Version<'a>],
    region: Option<&'a str>,
    class: String,
    /// What belongs to the system or the account, not to a table, is in the first class alone.
    first: bool,
}

impl Stack<'_> {
    fn write(&self, code: &mut Code, environment: &Environment) -> Result<(), EnvironmentError> {
        let Self { schema, class, .. } = self;
        let is_here = |table: &Table| table.region.as_deref() == self.region;
        let params = versions::params(self.versions, is_here, true);
        let rights = versions::rights(self.versions, is_here);
        let watches: Vec<_> = self
            .versions
            .iter()
            .enumerate()
            .map(|(at, version)| {
                let tables: Vec<&Table> =
                    version.schema.tables.iter().filter(|table| is_here(table)).collect();
                (version.schema, watches(version.schema, &version.origins, &tables, self.first && at == 0))
            })
            .collect();
        let is_told = watches.iter().any(|(_, (watches, _))| !watches.is_empty());
        let budget = self.first && !schema.budgets.is_empty();

        code.line("");
        code.open(&format!("export interface {class}Props extends cdk.StackProps {{"));
        for (_, param) in &params {
            code.place(self.versions.iter().find_map(|version| version.origins.param(&param.name)));
            code.line(&format!("readonly {}?: string;", property(schema, &param.name)));
        }
        if is_told || budget {
            code.line("// Told by alarms and budgets; must let budgets.amazonaws.com publish.");
            code.line("readonly notificationTopic?: sns.ITopic;");
        }
        code.close("}");

        code.line("");
        let docs = schema.docs.join(" ");
        if !docs.trim().is_empty() {
            code.line(&format!("/** {} */", docs.trim().replace("*/", "* /")));
        }
        code.open(&format!("export class {class} extends cdk.Stack {{"));
        for version in self.versions {
            for table in version.schema.tables.iter().filter(|table| is_here(table)) {
                let member = table_member(version.schema, table);
                code.line(&format!("public readonly {member}: dynamodb.Table;"));
            }
        }
        for right in &rights {
            code.line(&format!("public readonly {}: iam.ManagedPolicy;", policy_member(schema, right)));
        }
        code.line("");
        code.open(&format!("constructor(scope: Construct, id: string, props: {class}Props = {{}}) {{"));
        match self.region {
            Some(region) => code.line(&format!(
                "super(scope, id, {{ ...props, env: {{ ...props.env, region: {} }} }});",
                quoted(region)
            )),
            None => code.line("super(scope, id, props);"),
        }
        if !params.is_empty() {
            code.open("const params = {");
            for (of, param) in params {
                let name = property(schema, &param.name);
                let default = quoted(&names::value(of, param, environment)?);
                code.line(&format!("{name}: props.{name} ?? {default},"));
            }
            code.close("};");
        }
        for version in self.versions {
            for (table, setup) in version.tables().filter(|(table, _)| is_here(table)) {
                self.table(code, version, table, setup);
            }
        }
        for right in &rights {
            self.policy(code, right);
        }
        if is_told {
            code.line("");
            code.open("const tell = (alarm: cloudwatch.Alarm) => {");
            code.open("if (props.notificationTopic) {");
            code.line("alarm.addAlarmAction(new actions.SnsAction(props.notificationTopic));");
            code.line("alarm.addOkAction(new actions.SnsAction(props.notificationTopic));");
            code.close("}");
            code.close("};");
        }
        for (of, (watches, _)) in &watches {
            let ids: Vec<&str> = watches.iter().map(|watch| watch.name.as_str()).collect();
            for watch in watches {
                let id = names::apart(ids.iter().copied(), &watch.name, names::pascal);
                alarm(code, of, watch, &id);
            }
        }
        for line in watches.iter().take(1).flat_map(|(_, (_, left_out))| left_out) {
            code.line("");
            code.line(&format!("// Left out: {line}"));
        }
        if budget {
            self.budget(code);
        }
        code.close("}");
        code.close("}");
        Ok(())
    }

    fn table(&self, code: &mut Code, version: &Version<'_>, table: &Table, setup: &TableSetup) {
        let Version { schema, origins, .. } = version;
        let definition = &setup.definition;
        let from = |setting: &str| origins.setting(&table.name, setting);
        let member = table_member(schema, table);
        code.line("");
        code.place(origins.table(&table.name));
        code.open(&format!(
            "this.{member} = new dynamodb.Table(this, '{}', {{",
            table_id(schema, table, "Table")
        ));
        code.said("tableName", &text(self.schema, &names::table_name(schema, table)), from("name"));
        code.said("partitionKey", &attribute(&definition.key.partition[0]), from("key"));
        if let Some(sort) = definition.key.sort.first() {
            code.said("sortKey", &attribute(sort), from("key"));
        }
        let billing = match definition.billing {
            model::Billing::OnDemand => "PAY_PER_REQUEST",
            model::Billing::Provisioned(_) => "PROVISIONED",
        };
        code.said("billingMode", &format!("dynamodb.BillingMode.{billing}"), from("billing"));
        if let model::Billing::Provisioned(units) = definition.billing {
            capacity(code, units);
        }
        match &table.encryption {
            Encryption::AwsOwned => {}
            Encryption::AwsManaged => {
                code.said("encryption", "dynamodb.TableEncryption.AWS_MANAGED", from("encryption"));
            }
            Encryption::Kms(key) => {
                code.said("encryption", "dynamodb.TableEncryption.CUSTOMER_MANAGED", from("encryption"));
                code.said("encryptionKey", &kms_key(schema, table, key), from("encryption"));
            }
        }
        if let Some(attribute) = &setup.ttl_attribute {
            code.said("timeToLiveAttribute", &quoted(attribute), from("ttl"));
        }
        if let Some(pitr) = setup.pitr {
            let days = pitr.days;
            let value = format!("{{ pointInTimeRecoveryEnabled: true, recoveryPeriodInDays: {days} }}");
            code.said("pointInTimeRecoverySpecification", &value, from("pitr"));
        }
        if let Some(view) = definition.stream {
            let view = format!("dynamodb.StreamViewType.{}", stream_view(view));
            code.said("stream", &view, from("stream"));
        }
        if definition.class == Some(TableClass::StandardInfrequentAccess) {
            code.said("tableClass", "dynamodb.TableClass.STANDARD_INFREQUENT_ACCESS", from("class"));
        }
        let (policy, protection) = match setup.on_delete {
            OnDelete::Retain => ("RETAIN", true),
            OnDelete::Delete => ("DESTROY", false),
        };
        code.said("deletionProtection", &protection.to_string(), from("on_delete"));
        code.said("removalPolicy", &format!("cdk.RemovalPolicy.{policy}"), from("on_delete"));
        code.close("});");
        for index in &definition.indexes {
            code.place(origins.index(&table.name, index.name.as_str()));
            code.open(&format!("this.{member}.addGlobalSecondaryIndex({{"));
            global_index(code, definition, index);
            code.close("});");
        }
        for (name, value) in names::tags(schema, table) {
            let said = table.tags.iter().any(|(known, _)| *known == name);
            let value = text(self.schema, &value);
            let place = from("tags").filter(|_| said).map(|place| format!(" // {place}")).unwrap_or_default();
            code.line(&format!("cdk.Tags.of(this.{member}).add({}, {value});{place}", quoted(&name)));
        }
    }

    fn policy(&self, code: &mut Code, right: &iam::Right<'_>) {
        let description = match right.grant {
            Some(grant) => format!("What {} grants {grant}", self.schema.system),
            None => format!("What the access patterns of {} need", self.schema.system),
        };
        code.line("");
        code.place(right.place.clone());
        code.open(&format!(
            "this.{} = new iam.ManagedPolicy(this, '{}', {{",
            policy_member(self.schema, right),
            policy_name(self.schema, right, |name| format!("{}Policy", names::pascal(name)))
        ));
        code.line(&format!("description: {},", quoted(&description)));
        code.open("statements: [");
        for statement in &right.statements {
            code.open("new iam.PolicyStatement({");
            code.open("actions: [");
            for action in &statement.actions {
                code.line(&format!("'dynamodb:{action}',"));
            }
            code.close("],");
            code.open("resources: [");
            for resource in &statement.resources {
                code.line(&format!("{},", arn(resource)));
            }
            code.close("],");
            code.close("}),");
        }
        code.close("],");
        code.close("});");
    }

    /// One budget for what DynamoDB costs the account in a month, with a message at each amount.
    fn budget(&self, code: &mut Code) {
        let amounts: Vec<f64> = self.schema.budgets.iter().map(number_to_f64).collect();
        let most = amounts.iter().copied().fold(0.0, f64::max);
        code.line("");
        code.place(self.versions[0].origins.budget());
        code.open("if (props.notificationTopic) {");
        code.line("const address = props.notificationTopic.topicArn;");
        code.open("new budgets.CfnBudget(this, 'MonthlyBudget', {");
        code.open("budget: {");
        code.line(&format!("budgetLimit: {{ amount: {most}, unit: 'USD' }},"));
        code.line("budgetType: 'COST',");
        code.line("costFilters: { Service: ['Amazon DynamoDB'] },");
        code.line("timeUnit: 'MONTHLY',");
        code.close("},");
        let amounts: Vec<String> = amounts.iter().map(ToString::to_string).collect();
        code.open(&format!("notificationsWithSubscribers: [{}].map((threshold) => ({{", amounts.join(", ")));
        code.open("notification: {");
        code.line("comparisonOperator: 'GREATER_THAN',");
        code.line("notificationType: 'ACTUAL',");
        code.line("threshold,");
        code.line("thresholdType: 'ABSOLUTE_VALUE',");
        code.close("},");
        code.line("subscribers: [{ subscriptionType: 'SNS', address }],");
        code.close("})),");
        code.close("});");
        code.close("}");
    }
}

fn global_index(code: &mut Code, definition: &model::TableDefinition, index: &model::IndexDefinition) {
    code.line(&format!("indexName: {},", quoted(index.name.as_str())));
    for (one, parts) in [("partitionKey", &index.key.partition), ("sortKey", &index.key.sort)] {
        match parts.as_slice() {
            [] => {}
            [part] => code.line(&format!("{one}: {},", attribute(part))),
            parts => {
                let parts: Vec<String> = parts.iter().map(attribute).collect();
                code.line(&format!("{one}s: [{}],", parts.join(", ")));
            }
        }
    }
    let projection = match &index.projection {
        model::Projection::All => "ALL",
        model::Projection::KeysOnly => "KEYS_ONLY",
        model::Projection::Include(_) => "INCLUDE",
    };
    code.line(&format!("projectionType: dynamodb.ProjectionType.{projection},"));
    if let model::Projection::Include(names) = &index.projection {
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        code.line(&format!("nonKeyAttributes: [{}],", names.join(", ")));
    }
    if matches!(definition.billing, model::Billing::Provisioned(_)) {
        capacity(code, index.throughput);
    }
}

fn capacity(code: &mut Code, units: model::Throughput) {
    code.line(&format!("readCapacity: {},", units.read));
    code.line(&format!("writeCapacity: {},", units.write));
}

fn attribute(part: &model::KeyAttribute) -> String {
    let kind = match part.kind {
        model::KeyType::S => "STRING",
        model::KeyType::N => "NUMBER",
        model::KeyType::B => "BINARY",
    };
    format!("{{ name: {}, type: dynamodb.AttributeType.{kind} }}", quoted(&part.name))
}

fn kms_key(schema: &Schema, table: &Table, key: &str) -> String {
    let id = quoted(&table_id(schema, table, "Key"));
    if key.starts_with("alias/") {
        format!("kms.Alias.fromAliasName(this, {id}, {})", quoted(key))
    } else if key.starts_with("arn:") {
        format!("kms.Key.fromKeyArn(this, {id}, {})", quoted(key))
    } else {
        let key = quoted(key);
        format!(
            "kms.Key.fromKeyArn(this, {id}, this.formatArn({{ service: 'kms', resource: 'key', resourceName: {key} }}))"
        )
    }
}

fn alarm(code: &mut Code, schema: &Schema, watch: &MetricAlarm<'_>, id: &str) {
    let number = watch.table.map_or(1, |_| names::number(schema));
    let id = names::versioned(number, &format!("{id}Alarm"), "V");
    code.line("");
    code.place(watch.place.clone());
    code.open(&format!("tell(new cloudwatch.Alarm(this, '{id}', {{"));
    code.line(&format!("alarmDescription: {},", quoted(&watch.description())));
    code.open("metric: new cloudwatch.MathExpression({");
    code.line(&format!("expression: {},", quoted(&watch.expression)));
    code.line(&format!("label: {},", quoted(&watch.what)));
    code.line(&format!("period: cdk.Duration.seconds({}),", watch.period_seconds));
    code.open("usingMetrics: {");
    for metric in &watch.metrics {
        code.open(&format!("{}: new cloudwatch.Metric({{", metric.id));
        code.line(&format!("namespace: {},", quoted(metric.namespace)));
        code.line(&format!("metricName: {},", quoted(metric.name)));
        code.line(&format!("statistic: '{}',", metric.statistic));
        let dimensions = metric.dimensions.iter().map(|(name, value)| match value {
            Dimension::Table(table) => format!("{name}: this.{}.tableName", table_member(schema, table)),
            Dimension::Text(text) => format!("{name}: {}", quoted(text)),
        });
        let dimensions: Vec<String> = dimensions.collect();
        code.line(&format!("dimensionsMap: {{ {} }},", dimensions.join(", ")));
        code.close("}),");
    }
    code.close("},");
    code.close("}),");
    let comparison = if watch.above { "GREATER_THAN_THRESHOLD" } else { "LESS_THAN_THRESHOLD" };
    code.line(&format!("comparisonOperator: cloudwatch.ComparisonOperator.{comparison},"));
    code.line(&format!("threshold: {},", watch.threshold));
    code.line("evaluationPeriods: 1,");
    code.line("treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,");
    code.close("}));");
}

fn arn(resource: &Resource<'_>) -> String {
    let arn = format!("this.{}.tableArn", table_member(resource.schema, resource.table));
    match resource.part {
        Part::Table => arn,
        Part::Indexes => format!("`${{{arn}}}/index/*`"),
        Part::Streams => format!("`${{{arn}}}/stream/*`"),
    }
}

/// `export_status` → `exportStatusTable`.
fn table_member(schema: &Schema, table: &Table) -> String {
    let tables = schema.tables.iter().map(|table| table.name.as_str());
    let name = names::apart(tables, &table.name, |name| format!("{}Table", Naming::Camel.stored(name)));
    names::versioned(names::number(schema), &name, "V")
}

fn table_id(schema: &Schema, table: &Table, suffix: &str) -> String {
    let tables = schema.tables.iter().map(|table| table.name.as_str());
    let id = names::apart(tables, &table.name, |name| format!("{}{suffix}", names::pascal(name)));
    names::versioned(names::number(schema), &id, "V")
}

fn policy_member(schema: &Schema, right: &iam::Right<'_>) -> String {
    policy_name(schema, right, |name| format!("{}Policy", Naming::Camel.stored(name)))
}

fn policy_name(schema: &Schema, right: &iam::Right<'_>, made: impl Fn(&str) -> String) -> String {
    let grants = schema.grants.iter().map(|grant| grant.name.as_str());
    names::apart(grants, right.grant.unwrap_or("access"), made)
}

/// A param as a property of the stack, unless stacks have one of that name.
fn property(schema: &Schema, name: &str) -> String {
    names::apart(schema.params.iter().map(|param| param.name.as_str()), name, |name| {
        let name = Naming::Camel.stored(name);
        if STACK_PROPERTIES.contains(&name.as_str()) { format!("{name}Param") } else { name }
    })
}

/// A text whose params are properties.
fn text(schema: &Schema, text: &ParamText) -> String {
    let only = |part: &ParamPart| matches!(part, ParamPart::Text(_));
    if let [ParamPart::Param(name)] = text.0.as_slice() {
        return format!("params.{}", property(schema, name));
    }
    if text.0.iter().all(only) {
        let parts = text.0.iter().map(|part| match part {
            ParamPart::Text(text) | ParamPart::Param(text) => text.as_str(),
        });
        return quoted(&parts.collect::<String>());
    }
    let parts = text.0.iter().map(|part| match part {
        ParamPart::Text(text) => text.replace('\\', "\\\\").replace('`', "\\`").replace("${", "\\${"),
        ParamPart::Param(name) => format!("${{params.{}}}", property(schema, name)),
    });
    format!("`{}`", parts.collect::<String>())
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n").replace('\r', "\\r");
    format!("'{escaped}'")
}

/// Lines of code, two spaces deeper within each bracket.
#[derive(Default)]
struct Code {
    text: String,
    depth: usize,
}

impl Code {
    fn open(&mut self, head: &str) {
        self.line(head);
        self.depth += 1;
    }

    fn close(&mut self, tail: &str) {
        self.depth -= 1;
        self.line(tail);
    }

    /// A property, and the line behind it.
    fn said(&mut self, name: &str, value: &str, place: Option<String>) {
        let place = place.map(|place| format!(" // {place}")).unwrap_or_default();
        self.line(&format!("{name}: {value},{place}"));
    }

    fn place(&mut self, place: Option<String>) {
        if let Some(place) = place {
            self.line(&format!("// {place}"));
        }
    }

    fn line(&mut self, line: &str) {
        if !line.is_empty() {
            self.text.extend(std::iter::repeat_n("  ", self.depth));
            self.text.push_str(line);
        }
        self.text.push('\n');
    }
}
