//! TypeScript: the types of a system, for `open<System>` of the npm package `larder`.
//!
//! A module of types alone, with nothing that runs: what is written works without it too, unchecked. For every entity it has
//! the record as it is read, what is given to make one, and how it is asked for, changed and moved from state to state. A
//! value may be given in more forms than it is read in; see the guide.

use std::collections::{BTreeMap, BTreeSet};

use super::names;
use crate::access::{Access, Argument};
use crate::schema::{
    Collection, Entity, Field, Index, Lifecycle, Projection, Schema, Table, Transition, Type, TypeDefinition,
};

/// What the module takes from the package, and what it means of JavaScript's own: no type of a schema hides them.
const TAKEN: [&str; 14] = [
    "Date",
    "Decimal",
    "Json",
    "JsonInput",
    "Map",
    "Odd",
    "Omit",
    "ReadonlyMap",
    "ReadonlySet",
    "Record",
    "Set",
    "Uint8Array",
    "Partial",
    "Pick",
];

/// The types of a system.
///
/// ```
/// use larder_schema::{Environment, NoFiles, Schema, emit};
///
/// let text = r#"
/// system keiba
/// table races {
///   key  race_id
///   entity Race {
///     race_id: string nonempty
///     laps:    int default 1
///   }
/// }
/// "#;
/// let loaded = Schema::load("keiba.larder", text, &mut NoFiles, &Environment::new());
/// let schema = loaded.schema.expect("there is nothing wrong with it");
/// let code = emit::typescript(&schema);
/// assert!(code.contains("export interface NewRace {\n  race_id: string;\n  laps?: number | bigint | null;\n}"));
/// ```
pub fn typescript(schema: &Schema) -> String {
    let module = Module::new(schema);
    let mut out = format!(
        "// Made by `larder export typescript {0}` of the schema of {0}: change that, and make it again.\n\
         /* eslint-disable */\n\
         import type {{ Decimal, Json, JsonInput, Odd }} from \"larder\";\n",
        schema.system
    );
    for definition in &schema.types {
        out.push_str(&module.type_definition(definition));
    }
    let mut entities = String::new();
    let mut collections = String::new();
    for table in &schema.tables {
        for entity in &table.entities {
            out.push_str(&module.records(table, entity));
            entities.push_str(&module.entity(table, entity));
        }
        for collection in &table.collections {
            collections.push_str(&module.collection(table, collection));
        }
    }
    out.push_str(&format!(
        "\n{}export interface {} {{\n  entities: {{\n{entities}  }};\n  collections: {{\n{collections}  }};\n}}\n",
        docs("", &schema.docs),
        module.system
    ));
    out
}

struct Module<'a> {
    schema: &'a Schema,
    system: String,
    /// Types and entities, by their names in the schema: as they are read, and as they are given.
    known: BTreeMap<&'a str, (String, String)>,
}

/// Which way a value goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Given,
}

impl<'a> Module<'a> {
    fn new(schema: &'a Schema) -> Self {
        let mut taken: BTreeSet<String> = TAKEN.iter().map(|name| (*name).to_owned()).collect();
        let mut claim = |mut name: String| {
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            name
        };
        let entities = schema.tables.iter().flat_map(|table| &table.entities).map(|entity| &entity.name);
        let mut known = BTreeMap::new();
        for name in entities.chain(schema.types.iter().map(|definition| &definition.name)) {
            let read = claim(name.clone());
            known.insert(name.as_str(), (read, String::new()));
        }
        for (read, given) in known.values_mut() {
            *given = claim(format!("New{read}"));
        }
        let system = names::pascal(&schema.system);
        let is_free = !known.values().any(|(read, given)| *read == system || *given == system);
        let system = claim(if is_free { system } else { format!("{system}System") });
        Self { schema, system, known }
    }

    fn name(&self, of: &str, way: Way) -> &str {
        let (read, given) = &self.known[of];
        if way == Way::Read { read } else { given }
    }

    /// A type of the schema, as it is read and as it is given.
    fn type_definition(&self, definition: &TypeDefinition) -> String {
        let interface = |way: Way| {
            let mut members = String::new();
            for field in &definition.fields {
                let may_lack = match way {
                    Way::Read => field.optional && field.checks.default.is_none(),
                    Way::Given => field.optional || field.checks.default.is_some(),
                };
                members.push_str(&member("  ", field, &self.kind(&field.kind, way), may_lack, way));
            }
            if definition.open {
                members.push_str("  /** What else is kept with it. */\n  [name: string]: unknown;\n");
            }
            let name = self.name(&definition.name, way);
            format!("\n{}export interface {name} {{\n{members}}}\n", docs("", &definition.docs))
        };
        format!("{}{}", interface(Way::Read), interface(Way::Given))
    }

    /// The records of an entity: as it is read, and as it is given.
    fn records(&self, table: &Table, entity: &Entity) -> String {
        let read = self.readable(table, entity, &whole());
        let mut given = String::new();
        for field in entity.fields.iter().filter(|field| field.is_given()) {
            let kind = self.field_kind(table, entity, field, Way::Given);
            given.push_str(&member("  ", field, &kind, may_be_left_out(field), Way::Given));
        }
        format!(
            "\n{}export interface {} {{\n{read}}}\n\n/** What is given to make one. */\nexport interface {} {{\n{given}}}\n",
            docs("", &entity.docs),
            self.name(&entity.name, Way::Read),
            self.name(&entity.name, Way::Given),
        )
    }

    /// The members that can be read from an index.
    fn readable(&self, table: &Table, entity: &Entity, index: &Index) -> String {
        let mut members = String::new();
        for readable in entity.readable(table, index) {
            let Some(field) = entity.field(&readable.name) else { continue };
            let may_lack = !readable.always && field.checks.default.is_none();
            let kind = self.field_kind(table, entity, field, Way::Read);
            members.push_str(&member("  ", field, &kind, may_lack, Way::Read));
        }
        members
    }

    /// What the layer is told of an entity.
    fn entity(&self, table: &Table, entity: &Entity) -> String {
        let (record, new) = (self.name(&entity.name, Way::Read), self.name(&entity.name, Way::Given));
        let key: Vec<(&str, String)> = entity
            .key_names()
            .into_iter()
            .filter_map(|name| Some((name, self.kind(&entity.field(name)?.kind, Way::Given))))
            .collect();
        let asked: Vec<(&str, String)> = entity
            .key_names()
            .into_iter()
            .filter_map(|name| Some((name, self.kind(&entity.field(name)?.kind, Way::Read))))
            .collect();
        let given_in_key: Vec<String> = key.iter().map(|(name, _)| quoted(name)).collect();
        let loaded = format!("Omit<{new}, {}>", given_in_key.join(" | "));
        let mut out = format!("    {}: {{\n", property(&entity.name));
        let mut line = |name: &str, of: &str| out.push_str(&format!("      {name}: {of};\n"));
        line("record", record);
        line("new", new);
        line("key", &object(&key));
        line("bare", &alone(&key));
        line("asked", &if asked.len() == 1 { alone(&asked) } else { object(&asked) });
        line("loaded", &loaded);
        line("changes", &self.changes(table, entity));
        let own = entity.access(table, None);
        line("table", &own.map_or_else(|| "never".to_owned(), |access| self.asked(entity, &access, record)));
        let mut indexes = String::new();
        for index in &table.indexes {
            let Some(access) = entity.access(table, Some(index)) else { continue };
            let shown = match index.projection {
                Projection::All => record.to_owned(),
                Projection::Keys | Projection::Include(_) => {
                    let members = self.readable(table, entity, index);
                    let lines: Vec<&str> =
                        members.lines().map(str::trim).filter(|line| !line.starts_with("/**")).collect();
                    format!("{{ {} }}", lines.join(" "))
                }
            };
            let of = self.asked(entity, &access, &shown);
            indexes.push_str(&format!("        {}: {of};\n", property(&index.alias)));
        }
        line("indexes", &block(&indexes));
        let lifecycles: String =
            entity.lifecycles.iter().map(|lifecycle| self.lifecycle(table, entity, lifecycle)).collect();
        line("lifecycles", &block(&lifecycles));
        out.push_str("    };\n");
        out
    }

    /// How a partition is named and what it is ordered by.
    fn asked(&self, entity: &Entity, access: &Access, record: &str) -> String {
        let arguments = self.arguments(entity, &access.arguments);
        let sort =
            access.sort.as_ref().map_or_else(|| "never".to_owned(), |sort| self.kind(&sort.kind, Way::Given));
        format!("{{ partition: {arguments}; sort: {sort}; record: {record} }}")
    }

    /// One value or an object of them.
    fn arguments(&self, entity: &Entity, arguments: &[Argument]) -> String {
        let kind = |argument: &Argument| {
            let lifecycle = argument.lifecycle.as_ref().and_then(|name| entity.lifecycle(name));
            match lifecycle {
                // The text that is written for a state: only one without anything filled in can be named here.
                Some(lifecycle)
                    if lifecycle.states.iter().all(|state| state.template.holes().next().is_none()) =>
                {
                    let texts = lifecycle
                        .states
                        .iter()
                        .map(|state| quoted(&state.template.prefix(&Default::default())));
                    texts.collect::<Vec<_>>().join(" | ")
                }
                _ => self.kind(&argument.kind, Way::Given),
            }
        };
        let named: Vec<(&str, String)> =
            arguments.iter().map(|argument| (argument.name.as_str(), kind(argument))).collect();
        match named.as_slice() {
            [] => "undefined".to_owned(),
            [(_, one)] => format!("{one} | {}", object(&named)),
            _ => object(&named),
        }
    }

    fn changes(&self, table: &Table, entity: &Entity) -> String {
        let mut in_key = Vec::new();
        for name in entity.key_fields() {
            if let Some(field) = entity.field(&name) {
                entity.needed(&field.name, &mut in_key);
            }
        }
        let given = |field: &&Field| field.is_given() && !in_key.contains(&field.name.as_str());
        let fields: Vec<&Field> = entity.fields.iter().filter(given).collect();
        let mut out = String::new();
        // Only what there is something to change by: an empty object would take anything.
        let mut some = |name: &str, wanted: fn(&Field) -> bool, of: &dyn Fn(&Field) -> String| {
            let members = fields.iter().filter(|field| wanted(field));
            let members: Vec<String> =
                members.map(|field| format!("{}?: {};", property(&field.name), of(field))).collect();
            if !members.is_empty() {
                out.push_str(&format!("        {name}?: {{ {} }};\n", members.join(" ")));
            }
        };
        let of_member = |field: &Field| {
            let kind = field.kind.member().map_or_else(|| "never".to_owned(), |of| self.kind(of, Way::Given));
            if self.schema.keeps_faults(table, entity, field) { format!("{kind} | Odd") } else { kind }
        };
        some("set", |_| true, &|field| {
            let kind = self.field_kind(table, entity, field, Way::Given);
            if field.optional { format!("{kind} | null") } else { kind }
        });
        let number = |field: &Field| field.is_stored() && matches!(field.kind, Type::Int | Type::Decimal);
        some("add", number, &|field| self.kind(&field.kind, Way::Given));
        let list = |field: &Field| field.is_stored() && matches!(field.kind, Type::List(_));
        some("append", list, &|field| format!("readonly {}", listed(&of_member(field))));
        let set = |field: &Field| field.is_stored() && matches!(field.kind, Type::Set(_));
        for name in ["insert", "remove"] {
            some(name, set, &|field| format!("Iterable<{}>", of_member(field)));
        }
        let map = |field: &Field| field.is_stored() && matches!(field.kind, Type::Map(_));
        some("insertAt", map, &|field| {
            format!("Record<string, {0}> | ReadonlyMap<string, {0}>", of_member(field))
        });
        some("removeAt", map, &|_| "Iterable<string>".to_owned());
        let clear: Vec<String> =
            fields.iter().filter(|field| field.optional).map(|field| quoted(&field.name)).collect();
        if !clear.is_empty() {
            out.push_str(&format!("        clear?: readonly {};\n", listed(&clear.join(" | "))));
        }
        format!("{{\n{out}      }}")
    }

    fn lifecycle(&self, table: &Table, entity: &Entity, lifecycle: &Lifecycle) -> String {
        let states: Vec<String> = lifecycle.states.iter().map(|state| quoted(&state.name)).collect();
        let transition = |transition: &Transition| {
            let params: Vec<(&str, String)> = transition
                .set
                .iter()
                .filter(|(_, value)| value.is_none())
                .filter_map(|(name, _)| {
                    let field = entity.field(name)?;
                    Some((name.as_str(), self.field_kind(table, entity, field, Way::Given)))
                })
                .collect();
            format!("{}: {}", property(&transition.name), object(&params))
        };
        let transitions: Vec<String> = lifecycle.transitions.iter().map(transition).collect();
        let holds =
            |index: &&Index| index.sort.first().is_some_and(|key| key.attribute == lifecycle.attribute);
        let access = table.indexes.iter().find(holds).and_then(|index| entity.access(table, Some(index)));
        let group =
            access.map_or_else(|| "undefined".to_owned(), |access| self.arguments(entity, &access.arguments));
        format!(
            "        {}: {{ states: {}; transitions: {{ {} }}; group: {group} }};\n",
            property(&lifecycle.name),
            states.join(" | "),
            transitions.join("; ")
        )
    }

    fn collection(&self, table: &Table, collection: &Collection) -> String {
        let first = collection.members.first().and_then(|member| self.schema.entity(member));
        let arguments = first.and_then(|(_, entity)| Some((entity, entity.access(table, None)?.arguments)));
        let (key, asked) = match &arguments {
            None => ("never".to_owned(), "never".to_owned()),
            Some((entity, arguments)) => {
                let read: Vec<(&str, String)> = arguments
                    .iter()
                    .map(|argument| (argument.name.as_str(), self.kind(&argument.kind, Way::Read)))
                    .collect();
                let asked = if read.len() == 1 { alone(&read) } else { object(&read) };
                (self.arguments(entity, arguments), asked)
            }
        };
        let members = |way: Way| {
            let one = |member: &String| format!("{}: {}", property(member), self.name(member, way));
            collection.members.iter().map(one).collect::<Vec<_>>().join("; ")
        };
        format!(
            "    {}: {{ key: {key}; asked: {asked}; members: {{ {} }}; new: {{ {} }} }};\n",
            property(&collection.name),
            members(Way::Read),
            members(Way::Given)
        )
    }

    /// The type of a field, of which some may be something else where the schema keeps a record with its faults.
    fn field_kind(&self, table: &Table, entity: &Entity, field: &Field, way: Way) -> String {
        if !self.schema.keeps_faults(table, entity, field) {
            return self.kind(&field.kind, way);
        }
        match (&field.kind, way) {
            (Type::List(of), Way::Read) => format!("({} | Odd)[]", self.kind(&of.kind, way)),
            (Type::List(of), Way::Given) => format!("readonly ({} | Odd)[]", self.kind(&of.kind, way)),
            (Type::Map(of), _) => format!("Record<string, {} | Odd>", self.kind(&of.kind, way)),
            (kind, _) => format!("{} | Odd", self.kind(kind, way)),
        }
    }

    fn kind(&self, kind: &Type, way: Way) -> String {
        let given = way == Way::Given;
        let text = match kind {
            Type::String | Type::Uuid { .. } | Type::Url | Type::Date | Type::Datetime | Type::Zoned => {
                "string"
            }
            Type::Int | Type::Sequence if given => "number | bigint",
            Type::Int | Type::Sequence | Type::Float => "number",
            Type::Decimal if given => "Decimal | bigint",
            Type::Decimal => "Decimal",
            Type::Bool => "boolean",
            Type::Bytes => "Uint8Array",
            Type::Json if given => "JsonInput",
            Type::Json => "Json",
            Type::Duration if given => "number | string",
            Type::Duration => "number",
            Type::Instant(_) | Type::Epoch if given => "Date | string",
            Type::Instant(_) | Type::Epoch => "Date",
            Type::List(of) if given => return format!("readonly {}", listed(&self.kind(&of.kind, way))),
            Type::List(of) => return listed(&self.kind(&of.kind, way)),
            Type::Set(of) if given => return format!("Iterable<{}>", self.kind(of, way)),
            Type::Set(of) => return format!("Set<{}>", self.kind(of, way)),
            Type::Map(of) if given => {
                return format!("Record<string, {0}> | ReadonlyMap<string, {0}>", self.kind(&of.kind, way));
            }
            Type::Map(of) => return format!("Record<string, {}>", self.kind(&of.kind, way)),
            Type::Choice(choices) => {
                return choices.iter().map(|choice| quoted(choice)).collect::<Vec<_>>().join(" | ");
            }
            Type::Named(name) => return self.name(name, way).to_owned(),
        };
        text.to_owned()
    }
}

fn member(indent: &str, field: &Field, kind: &str, may_lack: bool, way: Way) -> String {
    let (mark, none) = match (may_lack, way) {
        (false, _) => ("", ""),
        (true, Way::Read) => ("?", ""),
        (true, Way::Given) => ("?", " | null"),
    };
    format!("{}{indent}{}{mark}: {kind}{none};\n", docs(indent, &field.docs), property(&field.name))
}

/// Everything there is of a record.
fn whole() -> Index {
    Index {
        name: String::new(),
        alias: String::new(),
        docs: Vec::new(),
        partition: Vec::new(),
        sort: Vec::new(),
        projection: Projection::All,
        hot: false,
    }
}

/// A `sequence` takes the first free number when it is not given; a set that is not given has no members.
fn may_be_left_out(field: &Field) -> bool {
    field.optional
        || field.checks.default.is_some()
        || field.kind == Type::Sequence
        || matches!(field.kind, Type::Set(_)) && !field.checks.nonempty
}

fn block(lines: &str) -> String {
    if lines.is_empty() { "{}".to_owned() } else { format!("{{\n{lines}      }}") }
}

fn listed(of: &str) -> String {
    if of.contains(' ') { format!("({of})[]") } else { format!("{of}[]") }
}

fn object(members: &[(&str, String)]) -> String {
    if members.is_empty() {
        return "{}".to_owned();
    }
    let members: Vec<String> =
        members.iter().map(|(name, kind)| format!("{}: {kind}", property(name))).collect();
    format!("{{ {} }}", members.join("; "))
}

/// The one there is, of a key that may be given without its name.
fn alone(members: &[(&str, String)]) -> String {
    match members {
        [(_, kind)] => kind.clone(),
        _ => "never".to_owned(),
    }
}

/// A name as a property.
fn property(name: &str) -> String {
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
    let begins = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    if is_word && begins { name.to_owned() } else { quoted(name) }
}

/// A text as a literal.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn docs(indent: &str, lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| line.trim().replace("*/", "* /")).collect();
    match lines.as_slice() {
        [] => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        lines => {
            let lines: String =
                lines.iter().map(|line| format!("{indent} * {line}").trim_end().to_owned() + "\n").collect();
            format!("{indent}/**\n{lines}{indent} */\n")
        }
    }
}
