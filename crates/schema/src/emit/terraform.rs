//! Terraform: the tables of a system as HCL.
//!
//! One file serves every stage: params that stand in names or tags become variables, with the value of the
//! environment as their default. A comment at the end of a line, or above a block, names the schema's line behind
//! it. The file has no provider of its own and can be used as a module. A table's region is an argument of its resource, which
//! the AWS provider has had since version 6.
//!
//! The layout is that of `terraform fmt`: two spaces, `=` and comments aligned within a group of lines.

use larder_model as model;

use super::cloudformation::stream_view;
use super::names;
use super::origin::Origins;
use crate::schema::*;
use crate::span::SourceFile;

/// The tables as Terraform configuration.
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
/// let hcl = emit::terraform(&schema, &loaded.files, &Environment::new()).expect("the name fits");
/// assert!(hcl.contains(r#"resource "aws_dynamodb_table" "races""#));
/// ```
pub fn terraform(
    schema: &Schema,
    files: &[SourceFile],
    environment: &Environment,
) -> Result<String, Vec<EnvironmentError>> {
    let setups = schema.tables(environment)?;
    let origins = Origins::new(files);
    let mut hcl = Hcl::default();
    hcl.open("terraform", None);
    hcl.open("required_providers", None);
    hcl.raw("aws = {");
    hcl.raw("  source  = \"hashicorp/aws\"");
    hcl.raw("  version = \">= 6.0\"");
    hcl.raw("}");
    hcl.close();
    hcl.close();
    let tables: Vec<&Table> = schema.tables.iter().collect();
    for param in names::params(schema, &tables) {
        let default = names::value(schema, param, environment).map_err(|error| vec![error])?;
        hcl.open(&format!("variable {}", quoted(&variable(&param.name))), origins.param(&param.name));
        let mut lines = vec![Line::new("type", "string", None), Line::new("default", quoted(&default), None)];
        if !param.docs.is_empty() {
            lines.push(Line::new("description", quoted(param.docs.join(" ").trim()), None));
        }
        hcl.lines(&lines);
        hcl.close();
    }
    for (table, setup) in schema.tables.iter().zip(&setups) {
        resource(&mut hcl, schema, table, setup, &origins);
    }
    for table in &schema.tables {
        for what in ["name", "arn"] {
            hcl.open(&format!("output {}", quoted(&format!("{}_{what}", table.name))), None);
            let value = format!("aws_dynamodb_table.{}.{what}", table.name);
            hcl.lines(&[Line::new("value", value, None)]);
            hcl.close();
        }
    }
    Ok(hcl.text)
}

fn resource(hcl: &mut Hcl, schema: &Schema, table: &Table, setup: &TableSetup, origins: &Origins<'_>) {
    let definition = &setup.definition;
    let from = |setting: &str| origins.setting(&table.name, setting);
    hcl.open(&format!("resource \"aws_dynamodb_table\" {}", quoted(&table.name)), origins.table(&table.name));

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
    if let Some(encryption) = &definition.encryption {
        hcl.open("server_side_encryption", from("encryption"));
        let mut lines = vec![Line::new("enabled", "true", None)];
        lines.extend(encryption.kms_key.iter().map(|key| Line::new("kms_key_arn", quoted(key), None)));
        hcl.lines(&lines);
        hcl.close();
    }
    if !table.tags.is_empty() {
        hcl.open("tags =", from("tags"));
        let tags = table
            .tags
            .iter()
            .map(|(name, value)| Line::new(name.clone(), text(&names::open(schema, value)), None));
        hcl.lines(&tags.collect::<Vec<_>>());
        hcl.close();
    }
    if setup.on_delete == OnDelete::Retain {
        hcl.open("lifecycle", from("on_delete"));
        hcl.lines(&[Line::new("prevent_destroy", "true", None)]);
        hcl.close();
    }
    hcl.close();
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
    let several = index.key.partition.len() > 1 || index.key.sort.len() > 1;
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
    let parts = text.0.iter().map(|part| match part {
        ParamPart::Text(text) => escaped(text),
        ParamPart::Param(name) => format!("${{var.{}}}", variable(name)),
    });
    format!("\"{}\"", parts.collect::<String>())
}

/// A param's name, unless Terraform keeps it to itself.
fn variable(name: &str) -> String {
    let reserved =
        ["source", "version", "providers", "count", "for_each", "lifecycle", "depends_on", "locals"];
    if reserved.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// `${` and `%{` begin templates in HCL; doubling the sign takes that away.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '$' | '%' if rest.peek() == Some(&'{') => out.extend([c, c]),
            c => out.push(c),
        }
    }
    out
}

struct Line {
    name: String,
    value: String,
    place: Option<String>,
}

impl Line {
    fn new(name: impl Into<String>, value: impl Into<String>, place: Option<String>) -> Self {
        Self { name: name.into(), value: value.into(), place }
    }
}

/// HCL as it is written: an empty line stands before a block, unless it is the first in its own.
#[derive(Default)]
struct Hcl {
    text: String,
    depth: usize,
}

impl Hcl {
    fn open(&mut self, head: &str, place: Option<String>) {
        if !self.text.is_empty() && !self.text.ends_with("{\n") {
            self.text.push('\n');
        }
        if let Some(place) = place {
            self.raw(&format!("# {place}"));
        }
        self.raw(&format!("{head} {{"));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.raw("}");
    }

    fn lines(&mut self, lines: &[Line]) {
        let width = |text: &str| text.chars().count();
        let name_width = lines.iter().map(|line| width(&line.name)).max().unwrap_or(0);
        // Comments are aligned with their neighbours: a line without one parts them.
        for run in lines.chunk_by(|a, b| a.place.is_some() == b.place.is_some()) {
            let value_width = run.iter().map(|line| width(&line.value)).max().unwrap_or(0);
            for Line { name, value, place } in run {
                match place {
                    Some(place) => {
                        self.raw(&format!("{name:name_width$} = {value:value_width$} # {place}"));
                    }
                    None => self.raw(&format!("{name:name_width$} = {value}")),
                }
            }
        }
    }

    fn raw(&mut self, line: &str) {
        self.text.extend(std::iter::repeat_n("  ", self.depth));
        self.text.push_str(line);
        self.text.push('\n');
    }
}
