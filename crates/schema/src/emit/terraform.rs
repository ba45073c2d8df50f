//! Terraform: the tables of a system, who may use them, the alarms and the budget, as HCL.
//!
//! One file serves every stage: params that stand in names or tags become variables, with the value of the
//! environment as their default. A comment at the end of a line, or above a block, names the schema's line behind
//! it. The file has no provider of its own and can be used as a module. The region of a table and of its alarms is an
//! argument of the resource, which the AWS provider has had since version 6.
//!
//! A table of a later version is a resource of its own (`cache-v2`). One of an older version that is kept stays the
//! resource that it is; one that is not leaves Terraform's state and is not destroyed: `larder migrate finish` does that.
//!
//! Without a topic to tell, alarms change their state in silence, and there is no budget.

use larder_model as model;

use super::alarms::{Dimension, MetricAlarm, watches};
use super::cloudformation::stream_view;
use super::hcl::{Hcl, Line, escaped, quoted};
use super::iam::{Part, Resource, Right};
use super::names;
use super::versions::{self, Kept, Version, versions};
use crate::origin::Origins;
use crate::schema::*;
use crate::setup::{KEEP_TAG, MIGRATING_TAG, SUPERSEDED_TAG};
use crate::span::SourceFile;
use crate::value::number_to_f64;

/// The variable that says who is told.
const TOPIC: &str = "notification_topic_arn";

/// A system as Terraform configuration.
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
/// let hcl = emit::terraform(&schema, &loaded.files, &[], &Environment::new()).expect("the name fits");
/// assert!(hcl.contains(r#"resource "aws_dynamodb_table" "races""#));
/// ```
pub fn terraform(
    schema: &Schema,
    files: &[SourceFile],
    kept: &[Kept<'_>],
    environment: &Environment,
) -> Result<String, Vec<EnvironmentError>> {
    let versions = versions(schema, files, kept, environment)?;
    let gone = gone(schema, kept);
    let mut hcl = Hcl::default();
    hcl.open("terraform", None);
    if !gone.is_empty() {
        hcl.lines(&[Line::new("required_version", quoted(">= 1.7"), None)]);
    }
    hcl.open("required_providers", None);
    hcl.raw("aws = {");
    hcl.raw("  source  = \"hashicorp/aws\"");
    // Index keys of several attributes came later than the regions of resources.
    let setups = versions.iter().flat_map(|version| &version.setups);
    let several = setups.flat_map(|setup| &setup.definition.indexes).any(has_several);
    hcl.raw(if several { "  version = \">= 6.29\"" } else { "  version = \">= 6.0\"" });
    hcl.raw("}");
    hcl.close();
    hcl.close();
    for (of, param) in versions::params(&versions, |_| true, true) {
        let default = names::value(of, param, environment).map_err(|error| vec![error])?;
        let place = versions.iter().find_map(|version| version.origins.param(&param.name));
        hcl.open(&format!("variable {}", quoted(&variable(&param.name))), place);
        let mut lines = vec![Line::new("type", "string", None), Line::new("default", quoted(&default), None)];
        if !param.docs.is_empty() {
            lines.push(Line::new("description", quoted(param.docs.join(" ").trim()), None));
        }
        hcl.lines(&lines);
        hcl.close();
    }
    if versions.iter().any(|version| !version.schema.alarms.is_empty()) || !schema.budgets.is_empty() {
        hcl.open(&format!("variable {}", quoted(TOPIC)), None);
        let description = "The SNS topic that alarms and budgets tell, which must let cloudwatch.amazonaws.com \
                           and budgets.amazonaws.com publish; empty for none";
        hcl.lines(&[
            Line::new("type", "string", None),
            Line::new("default", quoted(""), None),
            Line::new("description", quoted(description), None),
        ]);
        hcl.close();
    }
    for version in &versions {
        for (table, setup) in version.tables() {
            resource(&mut hcl, version, table, setup, versions.len() > 1);
        }
    }
    for label in gone {
        hcl.open("removed", None);
        hcl.lines(&[Line::new("from", format!("aws_dynamodb_table.{label}"), None)]);
        hcl.open("lifecycle", None);
        hcl.lines(&[Line::new("destroy", "false", None)]);
        hcl.close();
        hcl.close();
    }
    for right in versions::rights(&versions, |_| true) {
        policy(&mut hcl, schema, &right);
    }
    for (at, version) in versions.iter().enumerate() {
        let tables: Vec<&Table> = version.schema.tables.iter().collect();
        let (watches, left_out) = watches(version.schema, &version.origins, &tables, at == 0);
        let labels: Vec<&str> = watches.iter().map(|watch| watch.name.as_str()).collect();
        for watch in &watches {
            // The name of an index may have dots, that of a resource may not.
            let label = names::apart(labels.iter().copied(), &watch.name, |name| name.replace('.', "_"));
            alarm(&mut hcl, version.schema, watch, &label);
        }
        for line in left_out.iter().filter(|_| at == 0) {
            hcl.text.push('\n');
            hcl.raw(&format!("# Left out: {line}"));
        }
    }
    budget(&mut hcl, schema, &versions[0].origins);
    for version in &versions {
        for table in &version.schema.tables {
            let label = label(version.schema, &table.name);
            for what in ["name", "arn"] {
                hcl.open(&format!("output {}", quoted(&format!("{label}_{what}"))), None);
                hcl.lines(&[Line::new("value", format!("aws_dynamodb_table.{label}.{what}"), None)]);
                hcl.close();
            }
        }
    }
    Ok(hcl.text)
}

/// What a resource is called. No name in a schema has a dash.
fn label(schema: &Schema, name: &str) -> String {
    names::versioned(names::number(schema), name, "-v")
}

/// The tables of older versions that are not kept, as far as their names are known.
fn gone(schema: &Schema, kept: &[Kept<'_>]) -> Vec<String> {
    let older = 1..names::number(schema);
    let older = older.filter(|number| kept.iter().all(|kept| names::number(kept.schema) != *number));
    let labels = older.flat_map(|number| {
        schema.tables.iter().map(move |table| names::versioned(number, &table.name, "-v"))
    });
    labels.collect()
}

fn resource(
    hcl: &mut Hcl,
    Version { schema, origins, .. }: &Version<'_>,
    table: &Table,
    setup: &TableSetup,
    is_migrating: bool,
) {
    let definition = &setup.definition;
    let label = label(schema, &table.name);
    let from = |setting: &str| origins.setting(&table.name, setting);
    let key_arn = definition.encryption.as_ref().and_then(|encryption| encryption.kms_key.as_ref());
    let key_arn = key_arn.map(|key| kms_key(hcl, table, &label, key, from("encryption")));
    hcl.open(&format!("resource \"aws_dynamodb_table\" {}", quoted(&label)), origins.table(&table.name));

    let mut lines = vec![Line::new("name", text(&names::table_name(schema, table)), from("name"))];
    if let Some(region) = &table.region {
        lines.push(Line::new("region", quoted(region), from("region")));
    }
    match definition.billing {
        model::Billing::OnDemand => {
            lines.push(Line::new("billing_mode", quoted("PAY_PER_REQUEST"), from("billing")));
        }
        model::Billing::Provisioned(units) => {
            lines.push(Line::new("billing_mode", quoted("PROVISIONED"), from("billing")));
            lines.extend(capacity(units));
        }
    }
    lines.extend(key(&definition.key, from("key").as_deref()));
    if definition.class == Some(TableClass::StandardInfrequentAccess) {
        lines.push(Line::new("table_class", quoted("STANDARD_INFREQUENT_ACCESS"), from("class")));
    }
    if let Some(view) = definition.stream {
        lines.push(Line::new("stream_enabled", "true", from("stream")));
        lines.push(Line::new("stream_view_type", quoted(stream_view(view)), from("stream")));
    }
    if definition.deletion_protection {
        lines.push(Line::new("deletion_protection_enabled", "true", from("on_delete")));
    }
    hcl.lines(&lines);

    for (name, kind) in &definition.attributes {
        hcl.open("attribute", None);
        hcl.lines(&[Line::new("name", quoted(name), None), Line::new("type", quoted(kind.name()), None)]);
        hcl.close();
    }
    for index in &definition.indexes {
        global_index(hcl, definition, index, origins.index(&table.name, index.name.as_str()));
    }
    if let Some(attribute) = &setup.ttl_attribute {
        hcl.open("ttl", from("ttl"));
        hcl.lines(&[
            Line::new("attribute_name", quoted(attribute), None),
            Line::new("enabled", "true", None),
        ]);
        hcl.close();
    }
    if let Some(pitr) = setup.pitr {
        hcl.open("point_in_time_recovery", from("pitr"));
        hcl.lines(&[
            Line::new("enabled", "true", None),
            Line::new("recovery_period_in_days", pitr.days.to_string(), None),
        ]);
        hcl.close();
    }
    if definition.encryption.is_some() {
        hcl.open("server_side_encryption", from("encryption"));
        let mut lines = vec![Line::new("enabled", "true", None)];
        lines.extend(key_arn.map(|arn| Line::new("kms_key_arn", arn, None)));
        hcl.lines(&lines);
        hcl.close();
    }
    hcl.open("tags =", from("tags"));
    let tags = names::tags(schema, table);
    let tags = tags.iter().map(|(name, value)| {
        let is_ours = !table.tags.iter().any(|(known, _)| known == name);
        Line::new(if is_ours { quoted(name) } else { name.clone() }, text(value), None)
    });
    hcl.lines(&tags.collect::<Vec<_>>());
    hcl.close();
    let retain = setup.on_delete == OnDelete::Retain;
    hcl.open("lifecycle", from("on_delete").filter(|_| retain));
    if retain {
        hcl.lines(&[Line::new("prevent_destroy", "true", None)]);
    }
    // What `larder migrate` writes on a table while it is at work stays there, and so does the stream that it follows.
    let written = [MIGRATING_TAG, SUPERSEDED_TAG, KEEP_TAG].map(|tag| format!("tags[{}]", quoted(tag)));
    let streams = ["stream_enabled", "stream_view_type"].iter().filter(|_| is_migrating);
    hcl.list("ignore_changes", written.into_iter().chain(streams.map(|name| (*name).to_owned())));
    hcl.close();
    hcl.close();
}

/// The ARN of a key. One that is named otherwise is looked up, because a table wants an ARN.
fn kms_key(hcl: &mut Hcl, table: &Table, label: &str, key: &str, place: Option<String>) -> String {
    if key.starts_with("arn:") {
        return quoted(key);
    }
    hcl.open(&format!("data \"aws_kms_key\" {}", quoted(label)), place);
    let mut lines = vec![Line::new("key_id", quoted(key), None)];
    lines.extend(table.region.as_ref().map(|region| Line::new("region", quoted(region), None)));
    hcl.lines(&lines);
    hcl.close();
    format!("data.aws_kms_key.{label}.arn")
}

fn has_several(index: &model::IndexDefinition) -> bool {
    index.key.partition.len() > 1 || index.key.sort.len() > 1
}

fn global_index(
    hcl: &mut Hcl,
    definition: &model::TableDefinition,
    index: &model::IndexDefinition,
    place: Option<String>,
) {
    hcl.open("global_secondary_index", place);
    let mut lines = vec![Line::new("name", quoted(index.name.as_str()), None)];
    // A key of several attributes is written in blocks, one for each.
    let several = has_several(index);
    if !several {
        lines.extend(key(&index.key, None));
    }
    let projection = match &index.projection {
        model::Projection::All => "ALL",
        model::Projection::KeysOnly => "KEYS_ONLY",
        model::Projection::Include(_) => "INCLUDE",
    };
    lines.push(Line::new("projection_type", quoted(projection), None));
    if let model::Projection::Include(names) = &index.projection {
        let names: Vec<_> = names.iter().map(|name| quoted(name)).collect();
        lines.push(Line::new("non_key_attributes", format!("[{}]", names.join(", ")), None));
    }
    if matches!(definition.billing, model::Billing::Provisioned(_)) {
        lines.extend(capacity(index.throughput));
    }
    hcl.lines(&lines);
    if several {
        let partition = index.key.partition.iter().map(|part| (part, "HASH"));
        for (part, kind) in partition.chain(index.key.sort.iter().map(|part| (part, "RANGE"))) {
            hcl.open("key_schema", None);
            hcl.lines(&[
                Line::new("attribute_name", quoted(&part.name), None),
                Line::new("key_type", quoted(kind), None),
            ]);
            hcl.close();
        }
    }
    hcl.close();
}

fn policy(hcl: &mut Hcl, schema: &Schema, right: &Right<'_>) {
    let name = right.grant.unwrap_or("access");
    let description = match right.grant {
        Some(grant) => format!("What {} grants {grant}", schema.system),
        None => format!("What the access patterns of {} need", schema.system),
    };
    hcl.open(&format!("data \"aws_iam_policy_document\" {}", quoted(name)), right.place.clone());
    for statement in &right.statements {
        hcl.open("statement", None);
        hcl.list("actions", statement.actions.iter().map(|action| quoted(&format!("dynamodb:{action}"))));
        hcl.list("resources", statement.resources.iter().map(arn));
        hcl.close();
    }
    hcl.close();
    hcl.open(&format!("resource \"aws_iam_policy\" {}", quoted(name)), None);
    hcl.lines(&[
        // IAM takes 102 characters of a prefix.
        Line::new(
            "name_prefix",
            quoted(&format!("{}-", names::cut(&format!("{}-{name}", schema.system), 101))),
            None,
        ),
        Line::new("description", quoted(&description), None),
        Line::new("policy", format!("data.aws_iam_policy_document.{name}.json"), None),
    ]);
    hcl.close();
}

fn arn(resource: &Resource<'_>) -> String {
    let arn = format!("aws_dynamodb_table.{}.arn", label(resource.schema, &resource.table.name));
    match resource.part {
        Part::Table => arn,
        Part::Indexes => format!("\"${{{arn}}}/index/*\""),
        Part::Streams => format!("\"${{{arn}}}/stream/*\""),
    }
}

fn alarm(hcl: &mut Hcl, schema: &Schema, watch: &MetricAlarm<'_>, name: &str) {
    let name = if watch.table.is_some() { label(schema, name) } else { name.to_owned() };
    hcl.open(&format!("resource \"aws_cloudwatch_metric_alarm\" {}", quoted(&name)), watch.place.clone());
    let told = format!("var.{TOPIC} == \"\" ? [] : [var.{TOPIC}]");
    let mut lines = vec![Line::new("alarm_name", alarm_name(schema, watch), None)];
    lines.extend(watch.region.map(|region| Line::new("region", quoted(region), None)));
    lines.extend([
        Line::new("alarm_description", quoted(&watch.description()), None),
        Line::new("comparison_operator", quoted(watch.comparison()), None),
        Line::new("threshold", watch.threshold.to_string(), None),
        Line::new("evaluation_periods", "1", None),
        Line::new("treat_missing_data", quoted("notBreaching"), None),
        Line::new("alarm_actions", told.clone(), None),
        Line::new("ok_actions", told, None),
    ]);
    hcl.lines(&lines);
    for metric in &watch.metrics {
        hcl.open("metric_query", None);
        hcl.lines(&[Line::new("id", quoted(&metric.id), None)]);
        hcl.open("metric", None);
        hcl.lines(&[
            Line::new("namespace", quoted(metric.namespace), None),
            Line::new("metric_name", quoted(metric.name), None),
            Line::new("period", watch.period_seconds.to_string(), None),
            Line::new("stat", quoted(metric.statistic), None),
        ]);
        if !metric.dimensions.is_empty() {
            hcl.open("dimensions =", None);
            let dimensions = metric.dimensions.iter().map(|(name, value)| {
                let value = match value {
                    Dimension::Table(table) => {
                        format!("aws_dynamodb_table.{}.name", label(schema, &table.name))
                    }
                    Dimension::Text(text) => quoted(text),
                };
                Line::new(*name, value, None)
            });
            hcl.lines(&dimensions.collect::<Vec<_>>());
            hcl.close();
        }
        hcl.close();
        hcl.close();
    }
    hcl.open("metric_query", None);
    hcl.lines(&[
        Line::new("id", quoted("watched"), None),
        Line::new("expression", quoted(&watch.expression), None),
        Line::new("label", quoted(&watch.what), None),
        Line::new("return_data", "true", None),
    ]);
    hcl.close();
    hcl.close();
}

/// Alarms of several systems and stages may live in one account: the name begins with that of a table.
fn alarm_name(schema: &Schema, watch: &MetricAlarm<'_>) -> String {
    match watch.table {
        Some(table) => {
            let table = label(schema, &table.name);
            format!("\"${{aws_dynamodb_table.{table}.name}}-{}\"", escaped(&watch.name))
        }
        None => quoted(&format!("{}-{}", schema.system, watch.name)),
    }
}

/// One budget for what DynamoDB costs the account in a month, with a message at each amount.
fn budget(hcl: &mut Hcl, schema: &Schema, origins: &Origins<'_>) {
    let amounts: Vec<f64> = schema.budgets.iter().map(number_to_f64).collect();
    let Some(most) = amounts.iter().copied().reduce(f64::max) else { return };
    hcl.open("resource \"aws_budgets_budget\" \"monthly\"", origins.budget());
    hcl.lines(&[
        Line::new("count", format!("var.{TOPIC} == \"\" ? 0 : 1"), None),
        Line::new("name_prefix", quoted(&format!("{}-", names::cut(&schema.system, 60))), None),
        Line::new("budget_type", quoted("COST"), None),
        Line::new("limit_amount", quoted(&most.to_string()), None),
        Line::new("limit_unit", quoted("USD"), None),
        Line::new("time_unit", quoted("MONTHLY"), None),
    ]);
    hcl.open("cost_filter", None);
    hcl.lines(&[
        Line::new("name", quoted("Service"), None),
        Line::new("values", format!("[{}]", quoted("Amazon DynamoDB")), None),
    ]);
    hcl.close();
    for amount in amounts {
        hcl.open("notification", None);
        hcl.lines(&[
            Line::new("comparison_operator", quoted("GREATER_THAN"), None),
            Line::new("notification_type", quoted("ACTUAL"), None),
            Line::new("threshold", amount.to_string(), None),
            Line::new("threshold_type", quoted("ABSOLUTE_VALUE"), None),
            Line::new("subscriber_sns_topic_arns", format!("[var.{TOPIC}]"), None),
        ]);
        hcl.close();
    }
    hcl.close();
}

fn key(key: &model::KeySchema, place: Option<&str>) -> Vec<Line> {
    let line = |name: &str, part: &model::KeyAttribute| {
        Line::new(name, quoted(&part.name), place.map(str::to_owned))
    };
    let partition = key.partition.first().map(|part| line("hash_key", part));
    partition.into_iter().chain(key.sort.first().map(|part| line("range_key", part))).collect()
}

fn capacity(units: model::Throughput) -> [Line; 2] {
    [
        Line::new("read_capacity", units.read.to_string(), None),
        Line::new("write_capacity", units.write.to_string(), None),
    ]
}

/// A text whose params are variables.
fn text(text: &ParamText) -> String {
    if let [ParamPart::Param(name)] = text.0.as_slice() {
        return format!("var.{}", variable(name));
    }
    let parts = text.0.iter().enumerate().map(|(at, part)| match part {
        ParamPart::Text(words) => match text.0.get(at + 1) {
            Some(ParamPart::Param(_)) => before_variable(words),
            _ => escaped(words),
        },
        ParamPart::Param(name) => format!("${{var.{}}}", variable(name)),
    });
    format!("\"{}\"", parts.collect::<String>())
}

/// `$` before `${` would take its meaning away, so such signs stand in a template of their own.
fn before_variable(text: &str) -> String {
    let words = text.trim_end_matches(['$', '%']);
    match &text[words.len()..] {
        "" => escaped(words),
        signs => format!("{}${{{}}}", escaped(words), quoted(signs)),
    }
}

/// A param's name, unless Terraform or this file keeps it to itself.
fn variable(name: &str) -> String {
    let reserved =
        ["source", "version", "providers", "count", "for_each", "lifecycle", "depends_on", "locals"];
    if reserved.contains(&name) || name == TOPIC { format!("{name}_") } else { name.to_owned() }
}
