//! Names that keep their params, for exports that one file serves every stage with.

use crate::schema::*;

/// What the store calls a table, with its params still open. The version is filled in.
pub(super) fn table_name(schema: &Schema, table: &Table) -> ParamText {
    let mut name = open(schema, &table.stored_name);
    let says_version = table.stored_name.0.iter().any(|part| is_version(schema, part));
    if let Some(version) = schema.version.filter(|version| version.number > 1 && !says_version) {
        name.0.push(ParamPart::Text(format!("-v{}", version.number)));
    }
    name
}

/// What a part is called that another version may have too: the first has no number.
pub(super) fn versioned(number: u32, name: &str, sign: &str) -> String {
    if number > 1 { format!("{name}{sign}{number}") } else { name.to_owned() }
}

pub(super) fn number(schema: &Schema) -> u32 {
    schema.version.map_or(1, |version| version.number)
}

/// A text with its params still open and its version filled in.
pub(super) fn open(schema: &Schema, text: &ParamText) -> ParamText {
    let version = number(schema);
    let parts = text.0.iter().map(|part| match part {
        part if is_version(schema, part) => ParamPart::Text(version.to_string()),
        part => part.clone(),
    });
    ParamText(parts.collect())
}

/// The tags of a table, with ours.
pub(super) fn tags(schema: &Schema, table: &Table) -> Vec<(String, ParamText)> {
    let said = table.tags.iter().map(|(name, value)| (name.clone(), open(schema, value)));
    let marks = schema.marks(table).map(|(name, value)| (name.to_owned(), ParamText::text(value)));
    said.chain(marks).collect()
}

fn is_version(schema: &Schema, part: &ParamPart) -> bool {
    matches!(part, ParamPart::Param(name) if name == "version" && schema.param(name).is_none())
}

/// The params that stand in names of these tables, and in their tags if those are wanted, in the schema's order.
pub(super) fn params<'a>(schema: &'a Schema, tables: &[&Table], with_tags: bool) -> Vec<&'a Param> {
    let used = |name: &str| {
        let texts = tables.iter().flat_map(|table| {
            let tags = table.tags.iter().filter(|_| with_tags).map(|tag| &tag.1);
            std::iter::once(&table.stored_name).chain(tags)
        });
        texts.flat_map(|text| &text.0).any(|part| matches!(part, ParamPart::Param(param) if param == name))
    };
    schema.params.iter().filter(|param| used(&param.name)).collect()
}

/// The regions that the tables name, each once, in their order.
pub(super) fn regions<'a>(tables: impl IntoIterator<Item = &'a Table>) -> Vec<Option<&'a str>> {
    let mut regions = Vec::new();
    for table in tables {
        if !regions.contains(&table.region.as_deref()) {
            regions.push(table.region.as_deref());
        }
    }
    regions
}

/// A param's value in this environment, as it stands in a name.
pub(super) fn value(
    schema: &Schema,
    param: &Param,
    environment: &Environment,
) -> Result<String, EnvironmentError> {
    schema.expand(&ParamText(vec![ParamPart::Param(param.name.clone())]), environment)
}

/// `export_status` → `ExportStatus`: letters and digits alone.
pub(super) fn pascal(name: &str) -> String {
    Naming::Pascal.stored(name).chars().filter(char::is_ascii_alphanumeric).collect()
}

/// What a name becomes elsewhere, told apart from what the names before it become.
pub(super) fn apart<'a>(
    names: impl IntoIterator<Item = &'a str>,
    name: &str,
    made: impl Fn(&str) -> String,
) -> String {
    let own = made(name);
    let before = names.into_iter().take_while(|other| *other != name);
    match before.filter(|other| made(other) == own).count() {
        0 => own,
        same => format!("{own}_{}", same + 1),
    }
}

/// As much of a text as fits in so many bytes.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..crate::span::floor_boundary(text, bytes_max)]
}
