//! Python: a module with a type for each thing that the schema names, over the package `larder`.
//!
//! Records are dataclasses, what is given to make one and the schema's own types are `TypedDict`s, so that a loader returns plain `dict`s and a checker still
//! knows their keys. What is written decides nothing: it is what `larder.open` gives, with types. The module holds the schema's text.
//!
//! A type that keeps what it does not know (`..`) is a plain `dict`: a checker would refuse the rest.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::rust::names::{Names, pascal, plural, snake};
use crate::access::Readable;
use crate::schema::{
    Collection, Entity, Field, Index, KeySource, Lifecycle, Projection, Schema, Table, Type, TypeDefinition,
};
use crate::span::SourceFile;

/// Members of the classes that the generated ones extend.
const OF_SYSTEM: [&str; 13] = [
    "close",
    "collection",
    "drain",
    "entities",
    "name",
    "now",
    "open",
    "prometheus",
    "provision",
    "shelf",
    "store",
    "transaction",
    "_record",
];
const OF_SHELF: [&str; 21] = [
    "check",
    "create",
    "delete",
    "delete_many",
    "entity",
    "fetch",
    "fetch_with",
    "forget",
    "get",
    "get_many",
    "index",
    "invalidate",
    "lifecycle",
    "look",
    "put",
    "put_behind",
    "put_many",
    "scan",
    "stats",
    "update",
    "within",
];
const OF_LIFECYCLE: [&str; 8] = ["claim", "due", "hold", "in_state", "release", "run", "standing", "stuck"];
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// The module of a schema, from its files.
pub fn python(schema: &Schema, files: &[SourceFile]) -> String {
    let mut module = Module { schema, out: String::new(), names: Names::default() };
    for taken in [
        "Any",
        "Decimal",
        "Literal",
        "NoReturn",
        "TypedDict",
        "FILES",
        "dataclass",
        "date",
        "datetime",
        "timedelta",
    ] {
        module.names.claim(&[taken.to_owned()]);
    }
    for definition in &schema.types {
        module.definition(definition);
    }
    let mut shelves = Vec::new();
    let mut collections = Vec::new();
    for table in &schema.tables {
        for entity in &table.entities {
            shelves.push((entity, module.entity(table, entity)));
        }
        for collection in &table.collections {
            collections.extend(module.collection(table, collection));
        }
    }
    module.system(&shelves, &collections, files);
    let about =
        if schema.docs.is_empty() { format!("The system {}.", schema.system) } else { schema.docs.join(" ") };
    format!(
        "{}
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Mapping, NoReturn, TypedDict

import larder
from larder import aio

if TYPE_CHECKING:
    from typing_extensions import NotRequired
{}",
        docs(
            "",
            &[
                about,
                String::new(),
                format!(
                    "Made by `larder export python {}`: make it again instead of changing it.",
                    schema.system
                )
            ]
        ),
        module.out
    )
}

struct Module<'a> {
    schema: &'a Schema,
    out: String,
    names: Names,
}

/// What an entity's record and shelf are called.
struct Parts {
    record: String,
    shelf: String,
}

impl<'a> Module<'a> {
    fn definition(&mut self, definition: &TypeDefinition) {
        self.names.claim(std::slice::from_ref(&definition.name));
        let about = &definition.docs;
        if definition.open {
            let known: Vec<String> = definition
                .fields
                .iter()
                .map(|field| format!("`{}`: {}", field.name, kind(&field.kind)))
                .collect();
            let _ = write!(self.out, "\n{} = dict[str, Any]\n", definition.name);
            let mut about = about.clone();
            about.push(format!("With {}, and whatever else is kept with it.", known.join(", ")));
            self.out.push_str(&docs("", &about));
            return;
        }
        let members: Vec<(&Field, bool)> = definition
            .fields
            .iter()
            .map(|field| (field, !field.optional && field.checks.default.is_none() && field.is_given()))
            .collect();
        self.typed_dict(&definition.name, about, &members, false);
    }

    /// A `TypedDict`; with each member whether it must be there. `clears`: `None` takes the value away.
    fn typed_dict(&mut self, name: &str, about: &[String], members: &[(&Field, bool)], clears: bool) {
        let member = |(field, required): &(&Field, bool)| {
            let mut kind = kind(&field.kind);
            if field.optional && (clears || !required) && kind != "Any" {
                kind = format!("{kind} | None");
            }
            if *required { kind } else { format!("NotRequired[{kind}]") }
        };
        if members.iter().any(|(field, _)| is_keyword(&field.name)) {
            let members: Vec<String> = members
                .iter()
                .map(|one| format!("    {}: {},\n", quoted(&one.0.name), quoted(&member(one))))
                .collect();
            let _ = write!(self.out, "\n{name} = TypedDict({}, {{\n{}}})\n", quoted(name), members.concat());
            self.out.push_str(&docs("", about));
            return;
        }
        let _ = write!(self.out, "\n\nclass {name}(TypedDict):\n{}", docs("    ", about));
        for one in members {
            let _ = writeln!(self.out, "    {}: {}", one.0.name, member(one));
            if !one.0.docs.is_empty() {
                self.out.push_str(&docs("    ", &one.0.docs));
            }
        }
        if members.is_empty() && about.is_empty() {
            self.out.push_str("    pass\n");
        }
    }

    /// A record as it is read.
    fn record(&mut self, entity: &Entity, name: &str, about: &[String], readable: &[Readable]) {
        let _ =
            write!(self.out, "\n\n@dataclass\nclass {name}(larder.TypedRecord):\n{}", docs("    ", about));
        let mut taken = vec!["meta".to_owned()];
        let mut renamed = Vec::new();
        let mut members = String::new();
        for one in readable {
            let Some(field) = entity.field(&one.name) else { continue };
            let member = free(&one.name, &taken);
            if member != one.name {
                renamed.push(format!("{}: {}", quoted(&member), quoted(&one.name)));
            }
            let mut kind = kind(&field.kind);
            let filled = field.checks.default.is_some() || matches!(field.kind, Type::Set(_));
            if !one.always && !filled && kind != "Any" {
                kind.push_str(" | None");
            }
            let hidden = if self.schema.reveals_secret(entity, field) {
                " = dataclasses.field(repr=False)"
            } else {
                ""
            };
            let _ = writeln!(members, "    {member}: {kind}{hidden}");
            if !field.docs.is_empty() {
                members.push_str(&docs("    ", &field.docs));
            }
            taken.push(member);
        }
        if !renamed.is_empty() {
            let _ = writeln!(self.out, "    _renamed = {{{}}}", renamed.join(", "));
        }
        self.out.push_str(&members);
        self.out.push_str("    meta: larder.Meta = dataclasses.field(repr=False, compare=False)\n");
    }

    fn entity(&mut self, table: &'a Table, entity: &'a Entity) -> Parts {
        let record = self.names.claim(&[pascal(&entity.name)]);
        let mut claim = |name: String| self.names.claim(&[name]);
        let (new, set, add) =
            (claim(format!("New{record}")), claim(format!("Set{record}")), claim(format!("Add{record}")));
        let shelf = claim(format!("{record}Shelf"));
        let whole = Index {
            name: String::new(),
            alias: String::new(),
            docs: Vec::new(),
            partition: Vec::new(),
            sort: Vec::new(),
            projection: Projection::All,
            hot: false,
        };
        let mut about = entity.docs.clone();
        if let crate::schema::CheckMode::Record(field) = &entity.policy.checks {
            about.push(format!(
                "It is kept with its faults, which `{field}` has: a field may hold something else than its type says."
            ));
        }
        self.record(entity, &record, &about, &entity.readable(table, &whole));

        let given: Vec<&Field> = entity.fields.iter().filter(|field| field.is_given()).collect();
        let needed = |field: &Field| {
            !field.optional
                && field.checks.default.is_none()
                && field.kind != Type::Sequence
                && !matches!(field.kind, Type::Set(_))
        };
        let members: Vec<(&Field, bool)> = given.iter().map(|&field| (field, needed(field))).collect();
        self.typed_dict(&new, &[format!("What is given to make a `{record}`.")], &members, false);

        let key: Vec<&Field> = entity.key_names().into_iter().filter_map(|name| entity.field(name)).collect();
        let rest: Vec<&Field> =
            given.iter().copied().filter(|field| !key.iter().any(|one| one.name == field.name)).collect();
        let members: Vec<(&Field, bool)> = rest.iter().map(|field| (*field, false)).collect();
        self.typed_dict(&set, &[format!("What an update may set of a `{record}`.")], &members, true);
        let members: Vec<(&Field, bool)> =
            rest.iter().filter(|field| field.kind.is_number()).map(|field| (*field, false)).collect();
        self.typed_dict(&add, &[format!("What an update may add to in a `{record}`.")], &members, false);

        let value = match rest.as_slice() {
            [one] => kind(&one.kind),
            _ => {
                let value = self.names.claim(&[format!("{record}Value")]);
                let members: Vec<(&Field, bool)> = rest.iter().map(|&field| (field, needed(field))).collect();
                self.typed_dict(&value, &[format!("What a source gives of a `{record}`.")], &members, false);
                value
            }
        };
        let kinds: Vec<String> = key.iter().map(|field| kind(&field.kind)).collect();
        let key = match kinds.as_slice() {
            [one] => one.clone(),
            several => format!("tuple[{}]", several.join(", ")),
        };
        let clears: Vec<String> =
            rest.iter().filter(|field| field.optional).map(|field| quoted(&field.name)).collect();
        let clears =
            if clears.is_empty() { "NoReturn".to_owned() } else { format!("Literal[{}]", clears.join(", ")) };
        let asked = format!("[{}]", kinds.join(", "));
        let parameters = format!("{record}, {key}, {asked}, {value}, {new}, {set}, {add}, {clears}");

        let mut views = Vec::new();
        for index in &table.indexes {
            if entity.access(table, Some(index)).is_none() {
                continue;
            }
            let view = if index.projection == Projection::All {
                record.clone()
            } else {
                let view = self.names.claim(&[format!("{record}{}", pascal(&index.alias))]);
                let about = [format!("What `{}` shows of a `{record}`.", index.alias)];
                self.record(entity, &view, &about, &entity.readable(table, index));
                view
            };
            views.push((index, view));
        }
        let lifecycles: Vec<(&Lifecycle, String)> = entity
            .lifecycles
            .iter()
            .map(|lifecycle| (lifecycle, self.names.claim(&[format!("{record}{}", pascal(&lifecycle.name))])))
            .collect();
        for face in [Face::Blocking, Face::Asyncio] {
            for (lifecycle, name) in &lifecycles {
                self.lifecycle(table, entity, lifecycle, &face.name(name), &record, &key, face);
            }
            let package = face.package();
            let _ = write!(self.out, "\n\nclass {}({package}.Shelf[{parameters}]):\n", face.name(&shelf));
            self.out.push_str(&docs("    ", &[format!("The records of `{}`.", entity.name)]));
            if table.sort.is_some()
                && let Some(access) = entity.access(table, None)
            {
                self.query(&face, "partition", None, &access, &record, &record);
            }
            for (index, view) in &views {
                if let Some(access) = entity.access(table, Some(index)) {
                    self.query(&face, &index.alias, Some(index.alias.as_str()), &access, view, &record);
                }
            }
            for (lifecycle, name) in &lifecycles {
                let method = free(&lifecycle.name, &OF_SHELF);
                let name = face.name(name);
                let _ = write!(
                    self.out,
                    "\n    @property\n    def {method}(self) -> {name}:\n        return {name}(self._native, self._read, {})\n",
                    quoted(&lifecycle.name)
                );
            }
        }
        Parts { record, shelf }
    }

    fn query(
        &mut self,
        face: &Face,
        method: &str,
        index: Option<&str>,
        access: &crate::access::Access,
        view: &str,
        record: &str,
    ) {
        let method = free(&snake(method), &OF_SHELF);
        let mut arguments = String::new();
        let mut partition = String::new();
        for argument in &access.arguments {
            let name = free(&argument.name, &[] as &[&str]);
            let _ = write!(arguments, ", {name}: {}", kind(&argument.kind));
            let separator = if partition.is_empty() { "" } else { ", " };
            let _ = write!(partition, "{separator}{}: {name}", quoted(&argument.name));
        }
        let bound = access.sort.as_ref().map_or_else(|| "NoReturn".to_owned(), |sort| kind(&sort.kind));
        let index = index.map_or_else(|| "None".to_owned(), quoted);
        let read = if view == record { "self._read".to_owned() } else { format!("{view}._read") };
        let package = face.package();
        let _ = write!(
            self.out,
            "\n    def {method}(self{arguments}) -> {package}.Query[{view}, {bound}]:\n        return {package}.Query(self._native, {read}, {{\"index\": {index}, \"partition\": {{{partition}}}}})\n"
        );
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of what is written")]
    fn lifecycle(
        &mut self,
        table: &Table,
        entity: &Entity,
        lifecycle: &Lifecycle,
        name: &str,
        record: &str,
        key: &str,
        face: Face,
    ) {
        let literal = |names: Vec<String>| {
            if names.is_empty() { "NoReturn".to_owned() } else { format!("Literal[{}]", names.join(", ")) }
        };
        let states = literal(lifecycle.states.iter().map(|state| quoted(&state.name)).collect());
        let transitions =
            literal(lifecycle.transitions.iter().map(|transition| quoted(&transition.name)).collect());
        let group = self.group(table, entity, lifecycle);
        let package = face.package();
        let _ = write!(
            self.out,
            "\n\nclass {name}({package}.Lifecycle[{record}, {key}, {group}, {transitions}, {states}]):\n"
        );
        self.out.push_str(&docs(
            "    ",
            &[format!("How a `{record}` goes from state to state: `{}`.", lifecycle.name)],
        ));
        let leased = |state: &String| {
            lifecycle.states.iter().any(|known| known.name == *state && known.lease_millis.is_some())
        };
        for transition in &lifecycle.transitions {
            if leased(&transition.to) || transition.from.iter().all(leased) {
                continue;
            }
            let mut parameters = String::new();
            let mut given = String::new();
            for (field, value) in &transition.set {
                let (None, Some(field)) = (value, entity.field(field)) else { continue };
                let name = free(&field.name, &[] as &[&str]);
                let separator = if parameters.is_empty() { ", *, " } else { ", " };
                let _ = write!(parameters, "{separator}{name}: {}", kind(&field.kind));
                let _ = write!(given, ", {name}={name}");
            }
            let method = free(&transition.name, &OF_LIFECYCLE);
            let (asynchronous, awaited) = face.awaits();
            let _ = write!(
                self.out,
                "\n    {asynchronous}def {method}(self, key: {key}{parameters}) -> {record}:\n        return {awaited}self.run(key, {}{given})\n",
                quoted(&transition.name)
            );
        }
    }

    /// What names the group of a claim.
    fn group(&self, table: &Table, entity: &Entity, lifecycle: &Lifecycle) -> String {
        let index = table
            .indexes
            .iter()
            .find(|index| index.sort.first().is_some_and(|key| key.name == lifecycle.held_in));
        let Some(access) = index.and_then(|index| entity.access(table, Some(index))) else {
            return "Any".to_owned();
        };
        let kinds: Vec<String> = access.arguments.iter().map(|argument| kind(&argument.kind)).collect();
        match kinds.as_slice() {
            [] => "NoReturn".to_owned(),
            [one] => one.clone(),
            several => format!("tuple[{}]", several.join(", ")),
        }
    }

    /// The answer: its name in the schema, its class, the types of its key and of what a loader is called with.
    fn collection(&mut self, table: &Table, collection: &Collection) -> Option<Gathered> {
        let name = self.names.claim(&[pascal(&collection.name)]);
        let first = table.entities.iter().find(|entity| collection.members.contains(&entity.name))?;
        let access = first.access(table, None)?;
        let kinds: Vec<String> = access.arguments.iter().map(|argument| kind(&argument.kind)).collect();
        let _ = write!(self.out, "\n\n@dataclass\nclass {name}:\n{}", docs("    ", &collection.docs));
        let mut made = Vec::new();
        for member in &collection.members {
            let entity = table.entities.iter().find(|entity| entity.name == *member)?;
            let record = pascal(&entity.name);
            let single = match &entity.sort {
                None => true,
                Some(KeySource::Template(template)) => template.holes().next().is_none(),
                Some(KeySource::Field(_)) => false,
            };
            let attribute = snake(&entity.name);
            let attribute = free(&if single { attribute } else { plural(&attribute) }, &[] as &[&str]);
            let entity = quoted(&entity.name);
            if single {
                let _ = writeln!(self.out, "    {attribute}: {record} | None");
                made.push(format!("next(iter(members.get({entity}, [])), None)"));
            } else {
                let _ = writeln!(self.out, "    {attribute}: list[{record}]");
                made.push(format!("members.get({entity}, [])"));
            }
        }
        let _ = write!(
            self.out,
            "\n    @classmethod\n    def _gather(cls, members: dict[str, list[Any]]) -> {name}:\n        return cls({})\n",
            made.join(", ")
        );
        let key = match kinds.as_slice() {
            [one] => one.clone(),
            several => format!("tuple[{}]", several.join(", ")),
        };
        Some(Gathered {
            name: collection.name.clone(),
            class: name,
            key,
            asked: format!("[{}]", kinds.join(", ")),
        })
    }

    fn system(&mut self, shelves: &[(&Entity, Parts)], collections: &[Gathered], files: &[SourceFile]) {
        let kinds: Vec<String> = shelves
            .iter()
            .map(|(entity, parts)| format!("{}: {}", quoted(&entity.name), parts.record))
            .collect();
        let _ = write!(self.out, "\n\n_RECORDS: dict[str, Any] = {{{}}}\n", kinds.join(", "));
        let system = pascal(&self.schema.system);
        let system = self.names.claim(&[system.clone(), format!("{system}System")]);
        for face in [Face::Blocking, Face::Asyncio] {
            let package = face.package();
            let name = face.name(&system);
            let (asynchronous, awaited) = face.awaits();
            let _ =
                write!(self.out, "\n\nclass {name}({package}.System):\n{}", docs("    ", &self.schema.docs));
            let _ = write!(
                self.out,
                "\n    @classmethod\n    {asynchronous}def open(\n        cls,\n        store: str | larder.Store | None = None,\n        *,\n        environment: Mapping[str, str] | None = None,\n        provision: bool = False,\n    ) -> {name}:\n        \"\"\"Opens it on a store; see `larder.open`.\"\"\"\n        opened = {awaited}{package}.open({}, store, text=FILES, environment=environment, provision=provision)\n        return cls(opened._native, opened.store, opened._owns_store)\n",
                quoted(files.first().map_or(&self.schema.system, |file| &file.name)),
            );
            let mut taken: Vec<String> = OF_SYSTEM.iter().map(|&name| name.to_owned()).collect();
            for (entity, parts) in shelves {
                let method = free(&plural(&snake(&entity.name)), &taken);
                let (shelf, record) = (face.name(&parts.shelf), &parts.record);
                let _ = write!(
                    self.out,
                    "\n    @property\n    def {method}(self) -> {shelf}:\n{}        return {shelf}(self, self._native.shelf({}), {record}._read)\n",
                    docs("        ", &entity.docs),
                    quoted(&entity.name),
                );
                taken.push(method);
            }
            for Gathered { name, class, key, asked } in collections {
                let method = free(&plural(&snake(name)), &taken);
                let _ = write!(
                    self.out,
                    "\n    @property\n    def {method}(self) -> {package}.Collection[{class}, {key}, {asked}]:\n        return {package}.Collection(self, {}, {class}._gather, self._record)\n",
                    quoted(name),
                );
                taken.push(method);
            }
            self.out.push_str(
                "\n    def _record(self, entity: str, fields: dict[str, Any], meta: Any) -> Any:\n        return _RECORDS[entity]._read(fields, meta)\n",
            );
        }
        let _ = write!(self.out, "\n\n#: The schema.\nFILES = {{\n");
        for file in files {
            let _ = writeln!(self.out, "    {}: {},", quoted(&file.name), long_text(&file.text));
        }
        self.out.push_str("}\n");
    }
}

/// A collection as it is written.
struct Gathered {
    name: String,
    class: String,
    key: String,
    asked: String,
}

#[derive(Clone, Copy)]
enum Face {
    Blocking,
    Asyncio,
}

impl Face {
    fn package(self) -> &'static str {
        match self {
            Self::Blocking => "larder",
            Self::Asyncio => "aio",
        }
    }

    fn name(self, name: &str) -> String {
        match self {
            Self::Blocking => name.to_owned(),
            Self::Asyncio => format!("Async{name}"),
        }
    }

    fn awaits(self) -> (&'static str, &'static str) {
        match self {
            Self::Blocking => ("", ""),
            Self::Asyncio => ("async ", "await "),
        }
    }
}

fn kind(kind_of: &Type) -> String {
    let member = |of: &crate::schema::Of| {
        let of_kind = kind(&of.kind);
        if of.optional && of_kind != "Any" { format!("{of_kind} | None") } else { of_kind }
    };
    match kind_of {
        Type::String | Type::Uuid { .. } | Type::Url => "str".to_owned(),
        Type::Choice(choices) => {
            let choices: Vec<String> = choices.iter().map(|choice| quoted(choice)).collect();
            format!("Literal[{}]", choices.join(", "))
        }
        Type::Int | Type::Sequence => "int".to_owned(),
        Type::Float => "float".to_owned(),
        Type::Decimal => "Decimal".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Bytes => "bytes".to_owned(),
        Type::Json | Type::Zoned => "Any".to_owned(),
        Type::Date => "date".to_owned(),
        Type::Datetime | Type::Instant(_) | Type::Epoch => "datetime".to_owned(),
        Type::Duration => "timedelta".to_owned(),
        Type::List(of) => format!("list[{}]", member(of)),
        Type::Set(of) => format!("set[{}]", kind(of)),
        Type::Map(of) => format!("dict[str, {}]", member(of)),
        Type::Named(name) => name.clone(),
    }
}

fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

/// A name that Python allows and nobody has.
fn free<T: AsRef<str>>(name: &str, taken: &[T]) -> String {
    let taken: BTreeSet<&str> = taken.iter().map(AsRef::as_ref).collect();
    let mut name = name.to_owned();
    while is_keyword(&name) || taken.contains(name.as_str()) {
        name.push('_');
    }
    name
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => drop(write!(out, "\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A text over several lines.
fn long_text(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    format!("\"\"\"\\\n{escaped}\"\"\"")
}

fn docs(indent: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let text = lines.join("\n").replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    let mut text: String = text.replace('\n', &format!("\n{indent}"));
    if text.ends_with('"') {
        text.push(' ');
    }
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    if text.len() == 1 {
        return format!("{indent}\"\"\"{}\"\"\"\n", text[0]);
    }
    format!("{indent}\"\"\"{}\n{indent}\"\"\"\n", text.join("\n"))
}
