//! Rust: a module with a type for each thing that the schema names.
//!
//! The text is for [`larder::schema!`], which compiles it. Everything in it is named by its full path, so an
//! entity may be called `Result` or `Option`. The module holds the schema's own text and reads it
//! again when a system is opened; what is generated is a typed skin over that, with no decisions of its own.

mod collections;
mod entities;
mod handles;
mod lifecycles;
mod making;
pub(super) mod names;

use std::collections::BTreeMap;

use crate::schema::{Field, Schema, Type};
use crate::value::Value;
use names::{Names, identifier, pascal};

const TEXT: &str = "::std::string::String";

/// The module of a schema.
///
/// `head` is what stands before its brackets; without one it is public and called like the system. `files` are
/// the schema's files: what the schema calls each, and the Rust expression of its text. `derives` are the paths of what its types
/// derive besides.
pub fn rust(schema: &Schema, head: Option<&str>, files: &[(String, String)], derives: &[String]) -> String {
    let mut module = Module::new(schema, derives);
    module.types();
    for table in &schema.tables {
        for entity in &table.entities {
            module.entity(table, entity);
        }
        for collection in &table.collections {
            module.collection(table, collection);
        }
    }
    module.system(files);
    let docs = docs("", &schema.docs);
    let head = head.map_or_else(|| format!("pub mod {}", identifier(&schema.system)), str::to_owned);
    fill(
        "$docs#[allow(dead_code, unreachable_pub, non_snake_case, non_camel_case_types, clippy::all, clippy::pedantic)]
$head {
$items}
",
        &[("docs", &docs), ("head", &head), ("items", &module.out)],
    )
}

/// The module so far, and the names in it.
struct Module<'a> {
    schema: &'a Schema,
    /// What the system itself is called.
    system: String,
    out: String,
    names: Names,
    /// Types and entities, by their names in the schema.
    known: BTreeMap<&'a str, String>,
    /// What is given to make one of an entity, by its name in the schema.
    new_names: BTreeMap<&'a str, String>,
    /// The enums of choices, by owner and field.
    choices: BTreeMap<(&'a str, &'a str), String>,
    /// The enums of states, by entity and lifecycle.
    states: BTreeMap<(&'a str, &'a str), String>,
    /// Methods of the system, each with its docs.
    methods: Vec<String>,
    method_names: Names,
    /// Short cuts to lifecycles: name, type, docs, body. They give way to entities.
    shortcuts: Vec<(String, String, Vec<String>, String)>,
    /// What its types derive besides, by their paths.
    derives: &'a [String],
}

/// A field of a generated struct.
struct Member<'a> {
    /// What it is called in `Fields`: the name in the schema, or the stored one inside a type.
    name: &'a str,
    identifier: String,
    /// Without `Option`.
    kind: String,
    /// What its members are, where it has some.
    of: Option<String>,
    /// Of which members, or which itself, may be something else.
    is_loose: bool,
    presence: Presence,
    field: &'a Field,
}

enum Presence {
    Always,
    /// Where it is missing, it is this.
    Or(String),
    Perhaps,
}

impl Member<'_> {
    fn rust_type(&self) -> String {
        match self.presence {
            Presence::Perhaps => format!("::std::option::Option<{}>", self.kind),
            Presence::Always | Presence::Or(_) => self.kind.clone(),
        }
    }

    fn declare(&self) -> String {
        let kind = self.rust_type();
        let values: [(&str, &str); 3] =
            [("docs", &docs("    ", &self.field.docs)), ("name", &self.identifier), ("kind", &kind)];
        fill("$docs    pub $name: $kind,\n", &values)
    }

    /// Reads it out of `fields`. `or` is how the function is left when it is not there.
    fn take(&self, or: &str) -> String {
        let (function, default) = match &self.presence {
            Presence::Always => ("take", String::new()),
            Presence::Or(default) if self.kind.starts_with("::larder::Loose<") => {
                ("take_optional", format!(".unwrap_or_else(|| ::larder::Loose::Fits({default}))"))
            }
            Presence::Or(default) => ("take_optional", format!(".unwrap_or_else(|| {default})")),
            Presence::Perhaps => ("take_optional", String::new()),
        };
        let name = quoted(self.name);
        format!(
            "            {}: ::larder::__private::{function}(&mut fields, {name}){or}{default},\n",
            self.identifier
        )
    }

    /// Writes it into `fields`.
    fn give(&self) -> String {
        let function = match self.presence {
            Presence::Perhaps => "give_optional",
            Presence::Always | Presence::Or(_) => "give",
        };
        format!(
            "        ::larder::__private::{function}(&mut fields, {}, self.{});\n",
            quoted(self.name),
            self.identifier
        )
    }
}

impl<'a> Module<'a> {
    fn new(schema: &'a Schema, derives: &'a [String]) -> Self {
        let mut module = Self {
            derives,
            schema,
            system: String::new(),
            out: String::new(),
            names: Names::default(),
            known: BTreeMap::new(),
            new_names: BTreeMap::new(),
            choices: BTreeMap::new(),
            states: BTreeMap::new(),
            methods: Vec::new(),
            method_names: Names::default(),
            shortcuts: Vec::new(),
        };
        let entities = || schema.tables.iter().flat_map(|table| &table.entities);
        let collections = || schema.tables.iter().flat_map(|table| &table.collections);
        let named = entities().map(|entity| &entity.name).chain(schema.types.iter().map(|kind| &kind.name));
        for name in named.chain(collections().map(|collection| &collection.name)) {
            let claimed = module.names.claim(&[pascal(name)]);
            module.known.insert(name, claimed);
        }
        let system = pascal(&schema.system);
        let full = format!("{system}System");
        module.system = module.names.claim(&[system, full]);
        for entity in entities() {
            for lifecycle in &entity.lifecycles {
                let state = state_name(&lifecycle.name);
                let others = entities().flat_map(|entity| &entity.lifecycles);
                let alone = others.filter(|other| state_name(&other.name) == state).count() == 1;
                let full = format!("{}{state}", module.known[entity.name.as_str()]);
                let wanted = if alone { vec![state, full] } else { vec![full] };
                let claimed = module.names.claim(&wanted);
                module.states.insert((&entity.name, &lifecycle.name), claimed);
            }
        }
        for (owner, fields) in entities()
            .map(|entity| (&entity.name, &entity.fields))
            .chain(schema.types.iter().map(|kind| (&kind.name, &kind.fields)))
        {
            for field in fields {
                if let Some(choices) = choices(&field.kind) {
                    module.choice(owner, field, choices);
                }
            }
        }
        module
    }

    /// Appends a piece of code, its `$names` filled in.
    fn write(&mut self, code: &str, values: &[(&str, &str)]) {
        self.out.push_str(&fill(code, values));
    }

    /// The enum of a choice. Fields of one name that choose among the same share theirs.
    fn choice(&mut self, owner: &'a str, field: &'a Field, choices: &'a [String]) {
        let same = self.choices.iter().find(|((other, name), _)| {
            *name == field.name && self.choices_of(other, name).is_some_and(|theirs| theirs == choices)
        });
        let claimed = match same {
            Some((_, claimed)) => claimed.clone(),
            None => {
                let short = pascal(&field.name);
                let full = format!("{}{short}", self.known[owner]);
                let claimed = self.names.claim(&[short, full]);
                let variants: Vec<(&str, &[String])> =
                    choices.iter().map(|choice| (choice.as_str(), &[][..])).collect();
                self.text_enum(&claimed, &field.docs, &variants);
                claimed
            }
        };
        self.choices.insert((owner, &field.name), claimed);
    }

    fn choices_of(&self, owner: &str, name: &str) -> Option<&'a [String]> {
        let fields = match self.schema.entity(owner) {
            Some((_, entity)) => &entity.fields,
            None => &self.schema.type_definition(owner)?.fields,
        };
        choices(&fields.iter().find(|field| field.name == name)?.kind)
    }

    /// An enum of texts.
    fn text_enum(&mut self, name: &str, about: &[String], texts: &[(&str, &[String])]) {
        let variants = variants(texts.iter().map(|(text, _)| *text));
        let mut declared = String::new();
        let mut arms = String::new();
        for (variant, (text, about)) in variants.iter().zip(texts) {
            let named = if self.derives_serde() {
                format!("    #[serde(rename = {})]\n", quoted(text))
            } else {
                String::new()
            };
            declared.push_str(&format!("{}{named}    {variant},\n", docs("    ", about)));
            arms.push_str(&format!("            Self::{variant} => {},\n", quoted(text)));
        }
        let all: Vec<String> = variants.iter().map(|variant| format!("Self::{variant}")).collect();
        self.write(
            "
$docs#[derive($derives)]
pub enum $Name {
$declared}

impl $Name {
    /// All of them, in the schema's order.
    pub const ALL: [Self; $count] = [$all];

    /// As the schema writes it.
    pub fn as_str(self) -> &'static str {
        match self {
$arms        }
    }
}

impl ::std::fmt::Display for $Name {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ::std::str::FromStr for $Name {
    type Err = ::larder::Misread;

    fn from_str(text: &str) -> ::std::result::Result<Self, ::larder::Misread> {
        let found = Self::ALL.into_iter().find(|known| known.as_str() == text);
        found.ok_or_else(|| ::larder::Misread { field: text.to_owned(), wanted: $label })
    }
}

impl ::larder::FieldType for $Name {
    const NAME: &'static str = $label;

    fn to_value(self) -> ::larder::Value {
        ::larder::Value::from(self.as_str())
    }

    fn from_value(value: ::larder::Value) -> ::std::option::Option<Self> {
        value.as_str()?.parse().ok()
    }
}
",
            &[
                ("docs", &docs("", about)),
                ("Name", name),
                ("declared", &declared),
                ("count", &texts.len().to_string()),
                ("all", &all.join(", ")),
                ("arms", &arms),
                ("label", &quoted(name)),
                (
                    "derives",
                    &self.derived(
                        &["Clone", "Copy", "Debug", "PartialEq", "Eq", "PartialOrd", "Ord", "Hash"],
                        false,
                    ),
                ),
            ],
        );
    }

    /// What a type derives: what it always does, and what was asked for. What is read from an item cannot be made of anything else.
    fn derived(&self, always: &[&str], is_read: bool) -> String {
        let asked =
            self.derives.iter().map(String::as_str).filter(|path| !(is_read && last(path) == "Deserialize"));
        always.iter().copied().chain(asked).collect::<Vec<_>>().join(", ")
    }

    fn derives_serde(&self) -> bool {
        self.derives.iter().any(|path| matches!(last(path), "Serialize" | "Deserialize"))
    }

    /// The structs of the named types.
    fn types(&mut self) {
        for definition in &self.schema.types {
            let members: Vec<Member<'_>> = definition
                .fields
                .iter()
                .map(|field| {
                    let presence = self.presence(&definition.name, field, field.optional);
                    self.member(&definition.name, field, &field.attribute, presence)
                })
                .collect();
            let rest = definition.open.then(|| free_of(&members, "rest"));
            let name = self.known[definition.name.as_str()].clone();
            let extra = rest.as_ref().map(|rest| {
                format!(
                    "    /// What else is kept with it, by stored names.\n    pub {rest}: ::larder::Rest,\n"
                )
            });
            self.declare(&name, &definition.docs, &members, extra.as_deref(), rest.as_deref());
            self.making(&name, &members, rest.as_deref());
            let mut take: String = members.iter().map(|member| member.take(".ok()?")).collect();
            let mut give = String::from("        let mut fields = ::larder::Fields::new();\n");
            if let Some(rest) = &rest {
                take.push_str(&format!("            {rest}: ::larder::__private::rest(fields)?,\n"));
                give = format!("        let mut fields = ::larder::__private::unrest(self.{rest});\n");
            }
            give.extend(members.iter().map(Member::give));
            self.write(
                "
impl ::larder::FieldType for $Name {
    const NAME: &'static str = $label;

    fn to_value(self) -> ::larder::Value {
$give        ::larder::Value::Map(fields)
    }

    fn from_value(value: ::larder::Value) -> ::std::option::Option<Self> {
        let ::larder::Value::Map(mut fields) = value else { return ::std::option::Option::None };
        ::std::option::Option::Some(Self {
$take        })
    }
}
",
                &[("Name", &name), ("label", &quoted(&name)), ("give", &give), ("take", &take)],
            );
        }
    }

    /// Whether a field is not shown: a secret, or worked out from one. A type with a secret in it hides that itself.
    fn is_hidden(&self, field: &Field) -> bool {
        let mut entities = self.schema.tables.iter().flat_map(|table| &table.entities);
        let of_field = entities.find(|entity| entity.fields.iter().any(|known| std::ptr::eq(known, field)));
        let computed = || of_field.is_some_and(|entity| self.schema.reveals_secret(entity, field));
        field.checks.secret || (field.equation.is_some() && computed())
    }

    /// A struct with everything public but `kept`. A secret is not shown.
    fn declare(
        &mut self,
        name: &str,
        about: &[String],
        members: &[Member<'_>],
        extra: Option<&str>,
        extra_shown: Option<&str>,
    ) {
        let hidden: Vec<bool> = members.iter().map(|member| self.is_hidden(member.field)).collect();
        let secret = hidden.contains(&true);
        let blank =
            members.iter().all(|member| matches!(member.presence, Presence::Perhaps)) && extra.is_none();
        let mut derives = vec!["Clone", "PartialEq"];
        if !secret {
            derives.insert(1, "Debug");
        }
        if blank {
            derives.push("Default");
        }
        if extra.is_none()
            && members.iter().all(|member| !member.is_loose && has_total_order(&member.field.kind))
        {
            derives.extend(["Eq", "PartialOrd", "Ord", "Hash"]);
        }
        let mut declared: String = members.iter().map(Member::declare).collect();
        let is_read = extra.is_some() && extra_shown.is_none();
        if is_read && self.derives.iter().any(|path| last(path) == "Serialize") {
            declared.push_str("    #[serde(skip)]\n");
        }
        declared.push_str(extra.unwrap_or_default());
        self.write(
            "\n$docs#[derive($derives)]\npub struct $Name {\n$declared}\n",
            &[
                ("docs", &docs("", about)),
                ("derives", &self.derived(&derives, is_read)),
                ("Name", name),
                ("declared", &declared),
            ],
        );
        if secret {
            let mut shown = String::new();
            for (member, hidden) in members.iter().zip(hidden) {
                let value = match (hidden, &member.presence) {
                    (false, _) => format!("&self.{}", member.identifier),
                    (true, Presence::Perhaps) => {
                        format!("&self.{}.as_ref().map(|_| ::larder::__private::Secret)", member.identifier)
                    }
                    (true, _) => "&::larder::__private::Secret".to_owned(),
                };
                shown.push_str(&format!("            .field({}, {value})\n", quoted(&member.field.name)));
            }
            if let Some(name) = extra_shown {
                shown.push_str(&format!("            .field({}, &self.{name})\n", quoted(name)));
            }
            self.write(
                "
impl ::std::fmt::Debug for $Name {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        f.debug_struct($label)
$shown            .finish()
    }
}
",
                &[("Name", name), ("label", &quoted(name)), ("shown", &shown)],
            );
        }
    }

    fn member(&self, owner: &str, field: &'a Field, name: &'a str, presence: Presence) -> Member<'a> {
        let kind = |kind: &Type| self.kind(owner, &field.name, kind);
        let entity = self.schema.entity(owner);
        let is_loose = entity.is_some_and(|(table, entity)| self.schema.keeps_faults(table, entity, field));
        let loose = |kind: String| format!("::larder::Loose<{kind}>");
        let holds_loosely = is_loose && field.kind.holds_loosely();
        let of = field.kind.member().map(kind);
        let of = if holds_loosely { of.map(loose) } else { of };
        let kind = match (&field.kind, &of) {
            (Type::List(_), Some(of)) => format!("::std::vec::Vec<{of}>"),
            (Type::Map(_), Some(of)) => map_of(of),
            (whole, _) if is_loose => loose(kind(whole)),
            (whole, _) => kind(whole),
        };
        Member { name, identifier: identifier(&field.name), kind, of, is_loose, presence, field }
    }

    /// How a field is there when it is read.
    fn presence(&self, owner: &str, field: &Field, may_be_missing: bool) -> Presence {
        let default = field.checks.default.as_ref();
        match default.and_then(|value| self.literal(owner, field, value)) {
            Some(default) => Presence::Or(default),
            None if may_be_missing => Presence::Perhaps,
            None => Presence::Always,
        }
    }

    /// The Rust type of a field's type.
    fn kind(&self, owner: &str, name: &str, kind: &Type) -> String {
        let path = match kind {
            Type::String | Type::Uuid { .. } | Type::Url => TEXT,
            Type::Int | Type::Sequence => "i64",
            Type::Float => "f64",
            Type::Decimal => "::larder::Number",
            Type::Bool => "bool",
            Type::Bytes => "::std::vec::Vec<u8>",
            Type::Json => "::larder::serde_json::Value",
            Type::Date => "::larder::jiff::civil::Date",
            Type::Datetime => "::larder::jiff::civil::DateTime",
            Type::Duration => "::larder::jiff::SignedDuration",
            Type::Instant(_) | Type::Epoch => "::larder::jiff::Timestamp",
            Type::List(inner) => return format!("::std::vec::Vec<{}>", self.kind(owner, name, &inner.kind)),
            Type::Set(inner) => {
                return format!("::std::collections::BTreeSet<{}>", self.kind(owner, name, inner));
            }
            Type::Map(inner) => return map_of(&self.kind(owner, name, &inner.kind)),
            Type::Choice(_) => {
                return self.choices.get(&(owner, name)).cloned().unwrap_or_else(|| TEXT.to_owned());
            }
            Type::Named(name) => return self.known[name.as_str()].clone(),
            // Never given and never stored.
            Type::Zoned => "::larder::jiff::Zoned",
        };
        path.to_owned()
    }

    /// A default as a Rust expression.
    fn literal(&self, owner: &str, field: &Field, value: &Value) -> Option<String> {
        let parsed = |text: String| format!("::larder::__private::parsed({})", quoted(&text));
        Some(match (value, &field.kind) {
            (Value::Text(text), Type::Choice(choices)) => {
                let at = choices.iter().position(|choice| choice == text)?;
                let variant = &variants(choices.iter().map(String::as_str))[at];
                format!("{}::{variant}", self.kind(owner, &field.name, &field.kind))
            }
            (Value::Text(text), _) => format!("::std::string::String::from({})", quoted(text)),
            (Value::Number(number), Type::Int | Type::Sequence) => number.to_i64()?.to_string(),
            (Value::Number(number), Type::Decimal) => parsed(number.to_string()),
            (Value::Number(number), Type::Epoch) => {
                format!("::larder::jiff::Timestamp::constant({}, 0)", number.to_i64()?)
            }
            (Value::Float(float), Type::Float) => format!("{float:?}"),
            (Value::Bool(value), _) => value.to_string(),
            (Value::Duration(duration), _) => {
                format!(
                    "::larder::jiff::SignedDuration::from_millis({})",
                    i64::try_from(duration.as_millis()).ok()?
                )
            }
            (Value::List(list), Type::Set(_)) if list.is_empty() => {
                "::std::collections::BTreeSet::new()".to_owned()
            }
            (Value::List(list), _) if list.is_empty() => "::std::vec::Vec::new()".to_owned(),
            (Value::Map(map), _) if map.is_empty() => "::std::collections::BTreeMap::new()".to_owned(),
            (Value::Instant(instant), _) => parsed(instant.to_string()),
            (Value::Date(date), _) => parsed(date.to_string()),
            (Value::Datetime(datetime), _) => parsed(datetime.to_string()),
            _ => return None,
        })
    }
}

/// The name at the end of a path.
fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path).trim()
}

fn map_of(values: &str) -> String {
    format!("::std::collections::BTreeMap<{TEXT}, {values}>")
}

/// What a choice, or a list, set or map of choices, chooses among.
fn choices(kind: &Type) -> Option<&[String]> {
    match kind {
        Type::Choice(choices) => Some(choices),
        kind => choices(kind.member()?),
    }
}

/// Whether values of the type can be keys of a map.
fn has_total_order(kind: &Type) -> bool {
    match kind {
        Type::Float | Type::Json | Type::Named(_) | Type::Zoned => false,
        kind => kind.member().is_none_or(has_total_order),
    }
}

/// The variants of texts, each its own.
fn variants<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut names = Names::default();
    texts.map(|text| names.claim(&[pascal(text)])).collect()
}

/// `crawl` has a `CrawlState`; a lifecycle called `status` says so itself.
fn state_name(lifecycle: &str) -> String {
    let name = pascal(lifecycle);
    if name.ends_with("Status") || name.ends_with("State") { name } else { format!("{name}State") }
}

/// A name for a member of the layer's own among the fields.
fn free_of(members: &[Member<'_>], name: &str) -> String {
    let taken = members.iter().any(|member| member.identifier == name);
    if taken { format!("{name}_") } else { name.to_owned() }
}

fn docs(indent: &str, lines: &[String]) -> String {
    // A carriage return inside a comment is an error.
    let lines = lines.iter().map(|line| line.trim().replace('\r', " "));
    lines.map(|line| format!("{indent}{}\n", format!("/// {line}").trim_end())).collect()
}

/// The type of an argument, and how its value is obtained. A text may be given as anything that becomes one.
fn argument(kind: &str, name: &str) -> (String, String) {
    if kind == TEXT || kind.starts_with("::larder::Loose<") {
        return (
            format!("impl ::std::convert::Into<{kind}>"),
            format!("::std::convert::Into::<{kind}>::into({name})"),
        );
    }
    (kind.to_owned(), name.to_owned())
}

/// A text as a Rust literal.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// A piece of code with its `$names` filled in. What is filled in is taken as it is.
fn fill(code: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(code.len() * 2);
    let mut parts = code.split('$');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let value = values.iter().find(|(known, _)| *known == name);
        out.push_str(value.unwrap_or_else(|| panic!("`${name}` has a value")).1);
        out.push_str(rest);
    }
    out
}
