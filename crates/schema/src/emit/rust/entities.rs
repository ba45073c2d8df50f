//! The types of an entity: the record as it is read, as it is written anew, its key, what a source gives.

use super::{Member, Module, Presence, TEXT, argument, docs, fill, free_of, quoted};
use crate::access::Readable;
use crate::schema::{Entity, Field, Index, KeySource, Projection, Table, Type};

/// The Rust names of what belongs to an entity.
pub(super) struct Parts {
    pub(super) record: String,
    pub(super) new: String,
    pub(super) key: String,
    pub(super) update: String,
}

impl<'a> Module<'a> {
    pub(super) fn entity(&mut self, table: &'a Table, entity: &'a Entity) {
        let record = self.known[entity.name.as_str()].clone();
        let mut claim = |name: String| self.names.claim(&[name]);
        let parts = Parts {
            new: claim(format!("New{record}")),
            key: claim(format!("{record}Key")),
            update: claim(format!("{record}Update")),
            record,
        };
        self.new_names.insert(&entity.name, parts.new.clone());
        self.record(table, entity, &parts);
        self.new_record(entity, &parts);
        let members = self.key_members(entity);
        self.key(&parts.key, &format!("What a [`{}`] is found by.", parts.record), &members);
        self.update(entity, &parts);
        self.handle(table, entity, &parts);
    }

    /// The record as it is read.
    fn record(&mut self, table: &'a Table, entity: &'a Entity, parts: &Parts) {
        let whole = Index {
            name: String::new(),
            alias: String::new(),
            docs: Vec::new(),
            partition: Vec::new(),
            sort: Vec::new(),
            projection: Projection::All,
            hot: false,
        };
        let members = self.readable(entity, &entity.readable(table, &whole));
        let kept = self.view(entity, parts, &parts.record, &entity.docs, &members);
        let value = self.value(entity, parts);
        let key_members = self.key_members(entity);
        let ask: Vec<&str> = key_members.iter().map(|member| member.kind.as_str()).collect();
        self.write(
            "
impl ::larder::Record for $Race {
    const ENTITY: &'static str = $label;
    type Key = $Key;
    type Ask = $ask;
    type Value = $Value;
}
",
            &[
                ("Race", &parts.record),
                ("label", &quoted(&entity.name)),
                ("Key", &parts.key),
                ("ask", &one_or_tuple(&ask)),
                ("Value", &value),
            ],
        );
        // What cannot be read back cannot be written again.
        let whole = given(entity).all(|field| is_always(&members, &field.name) || may_be_left_out(field));
        if whole {
            let given: Vec<&Member<'_>> = members.iter().filter(|member| member.field.is_given()).collect();
            self.given(&parts.record, &given);
            self.write(
                "
impl ::larder::Draft<$Race> for $Race {
    fn kept(&self) -> ::std::option::Option<&::larder::Kept> {
        ::std::option::Option::Some(&self.$kept)
    }
}
",
                &[("Race", &parts.record), ("kept", &kept)],
            );
        }
    }

    /// A struct that is read from an item, and the name of its member of the layer's own.
    pub(super) fn view(
        &mut self,
        entity: &'a Entity,
        parts: &Parts,
        name: &str,
        about: &[String],
        members: &[Member<'_>],
    ) -> String {
        let kept = free_of(members, "kept");
        let extra = format!("    {kept}: ::larder::Kept,\n");
        self.declare(name, about, members, Some(&extra), None);
        let take: String = members.iter().map(|member| member.take("?")).collect();
        self.write(
            "
impl $Name {
    /// What it remembers of where it was read: when it ends, its version.
    pub fn kept(&self) -> &::larder::Kept {
        &self.$kept
    }
$key}

impl ::larder::View for $Name {
    fn read(
        mut fields: ::larder::Fields,
        kept: ::larder::Kept,
    ) -> ::std::result::Result<Self, ::larder::Misread> {
        ::std::result::Result::Ok(Self {
$take            $kept: kept,
        })
    }
}
",
            &[
                ("Name", name),
                ("kept", &kept),
                ("key", &self.key_method(entity, parts, members)),
                ("take", &take),
            ],
        );
        kept
    }

    /// The method that gives the key, where all of it can be read back.
    fn key_method(&self, entity: &'a Entity, parts: &Parts, members: &[Member<'_>]) -> String {
        let key = self.key_members(entity);
        if !key.iter().all(|member| is_always(members, member.name)) {
            return String::new();
        }
        let copied: String = key
            .iter()
            .map(|member| format!("            {0}: self.{0}.clone(),\n", member.identifier))
            .collect();
        fill(
            "
    /// Its key.
    pub fn key(&self) -> $Key {
        $Key {
$copied        }
    }
",
            &[("Key", &parts.key), ("copied", &copied)],
        )
    }

    /// The members of a struct that is read from an item or an index.
    pub(super) fn readable(&self, entity: &'a Entity, readable: &[Readable]) -> Vec<Member<'a>> {
        let members = readable.iter().filter_map(|readable| {
            let field = entity.field(&readable.name)?;
            let presence = self.presence(&entity.name, field, !readable.always);
            Some(self.member(&entity.name, field, &field.name, presence))
        });
        members.collect()
    }

    /// What is given to make one.
    fn new_record(&mut self, entity: &'a Entity, parts: &Parts) {
        let members: Vec<Member<'_>> = given(entity).map(|field| self.given_member(entity, field)).collect();
        let about = [format!("What is given to make a [`{}`].", parts.record)];
        self.declare(&parts.new, &about, &members, None, None);
        self.given(&parts.new, &members.iter().collect::<Vec<_>>());
        self.making(&parts.new, &members, None);
        self.write(
            "
impl ::larder::Draft<$Race> for $New {}

impl $New {
    /// Everything that is wrong with it, found without a store.
    pub fn check(&self) -> ::std::result::Result<(), ::larder::Invalid> {
        ::larder::__private::check(schema(), $label, &::larder::Given::into_fields(self.clone()))
    }
}
",
            &[("Race", &parts.record), ("New", &parts.new), ("label", &quoted(&entity.name))],
        );
    }

    fn given_member(&self, entity: &'a Entity, field: &'a Field) -> Member<'a> {
        let presence = if may_be_left_out(field) { Presence::Perhaps } else { Presence::Always };
        self.member(&entity.name, field, &field.name, presence)
    }

    fn given(&mut self, name: &str, members: &[&Member<'_>]) {
        self.given_by(name, members, "");
    }

    fn given_by(&mut self, name: &str, members: &[&Member<'_>], each: &str) {
        let give: String = members.iter().map(|member| member.give()).collect();
        self.write(
            "
impl ::larder::Given for $Name {
    fn into_fields(self) -> ::larder::Fields {
        let mut fields = ::larder::Fields::new();
$give        fields
    }
$each}
",
            &[("Name", name), ("give", &give), ("each", each)],
        );
    }

    /// What a key is made of, all of it or one by one: a read that memory answers makes no more than the text of its key.
    fn given_key(&mut self, name: &str, members: &[Member<'_>]) {
        let fields: String = members
            .iter()
            .map(|member| {
                let (label, identifier) = (quoted(member.name), &member.identifier);
                format!("            {label} => ::larder::__private::field(&self.{identifier}),\n")
            })
            .collect();
        let each = fill(
            "
    fn field(&self, name: &str) -> ::std::option::Option<::std::borrow::Cow<'_, ::larder::Value>> {
        match name {
$fields            _ => ::std::option::Option::None,
        }
    }
",
            &[("fields", &fields)],
        );
        self.given_by(name, &members.iter().collect::<Vec<_>>(), &each);
    }

    /// The type of what a source gives: what is given and not in the key. Where one thing of it must be given, a source may give that
    /// alone.
    fn value(&mut self, entity: &'a Entity, parts: &Parts) -> String {
        let members = self.value_members(entity);
        let name = self.names.claim(&[format!("{}Value", parts.record)]);
        let about = [format!("What a source gives of a [`{}`].", parts.record)];
        self.declare(&name, &about, &members, None, None);
        self.given(&name, &members.iter().collect::<Vec<_>>());
        self.making(&name, &members, None);
        let mut required = members.iter().filter(|member| matches!(member.presence, Presence::Always));
        if let (Some(one), None) = (required.next(), required.next()) {
            let option = format!("::std::option::Option<{}>", one.kind);
            for kind in [&one.kind, &option, &format!("::larder::Load<{}>", one.kind)] {
                self.write(
                    "
impl ::larder::IntoLoad<$Value> for $kind {
    fn into_load(self) -> ::larder::Load<$Value> {
        ::larder::IntoLoad::<$one>::into_load(self).map(|one| $Value::new(one))
    }
}
",
                    &[("Value", &name), ("kind", kind), ("one", &one.kind)],
                );
            }
        }
        name
    }

    fn value_members(&self, entity: &'a Entity) -> Vec<Member<'a>> {
        let key = self.key_members(entity);
        let rest = given(entity).filter(|field| !key.iter().any(|member| member.name == field.name));
        rest.map(|field| self.given_member(entity, field)).collect()
    }

    /// A key: made from its one field, or from a tuple of them.
    pub(super) fn key(&mut self, name: &str, about: &str, members: &[Member<'_>]) {
        self.declare(name, &[about.to_owned()], members, None, None);
        self.given_key(name, members);
        let names: Vec<&str> = members.iter().map(|member| member.identifier.as_str()).collect();
        let kinds: Vec<&str> = members.iter().map(|member| member.kind.as_str()).collect();
        let taken: Vec<String> = names.iter().map(|name| format!("key.{name}")).collect();
        let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
        self.write(
            "
impl ::std::convert::From<$Key> for $ask {
    fn from(key: $Key) -> Self {
        $taken
    }
}

impl ::std::convert::From<&$Key> for $Key {
    fn from(key: &$Key) -> Self {
        key.clone()
    }
}
",
            &[("Key", name), ("ask", &one_or_tuple(&kinds)), ("taken", &one_or_tuple(&taken))],
        );
        let text = |member: &&Member<'_>| member.kind == TEXT;
        if let [member] = members {
            let mut from = vec![(member.kind.as_str(), member.identifier.clone())];
            if text(&member) {
                from.push(("&str", format!("{0}: {0}.to_owned()", member.identifier)));
                from.push(("&::std::string::String", format!("{0}: {0}.clone()", member.identifier)));
            }
            for (kind, made) in from {
                self.from(name, "", kind, &member.identifier, &made);
            }
            return;
        }
        // Texts may be given as anything that becomes one.
        let mut generics = Vec::new();
        let mut given = Vec::new();
        let mut made = Vec::new();
        for (at, member) in members.iter().enumerate() {
            if text(&member) {
                generics.push(format!("T{at}: ::std::convert::Into<::std::string::String>"));
                given.push(format!("T{at}"));
                made.push(format!("{0}: {0}.into()", member.identifier));
            } else {
                given.push(member.kind.clone());
                made.push(member.identifier.clone());
            }
        }
        let generics = if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        self.from(name, &generics, &one_or_tuple(&given), &one_or_tuple(&names), &made.join(", "));
    }

    fn from(&mut self, name: &str, generics: &str, kind: &str, argument: &str, made: &str) {
        self.write(
            "
impl$generics ::std::convert::From<$kind> for $Name {
    fn from($argument: $kind) -> Self {
        Self { $made }
    }
}
",
            &[("generics", generics), ("kind", kind), ("Name", name), ("argument", argument), ("made", made)],
        );
    }

    /// The fields a key is made of: those given that its templates need, or the field that is the key itself.
    pub(super) fn key_members(&self, entity: &'a Entity) -> Vec<Member<'a>> {
        let fields = entity.key_names().into_iter().filter_map(|name| entity.field(name));
        fields.map(|field| self.member(&entity.name, field, &field.name, Presence::Always)).collect()
    }

    /// Typed setters over `larder::Update`.
    fn update(&mut self, entity: &'a Entity, parts: &Parts) {
        let mut in_key = Vec::new();
        for source in std::iter::once(&entity.partition).chain(entity.sort.as_ref()) {
            match source {
                KeySource::Field(name) => entity.needed(name, &mut in_key),
                KeySource::Template(template) => {
                    for hole in template.holes() {
                        entity.needed(&hole.field, &mut in_key);
                    }
                }
            }
        }
        let mut setters = String::new();
        for field in given(entity).filter(|field| !in_key.contains(&field.name.as_str())) {
            let member = self.given_member(entity, field);
            setters.push_str(&setters_of(&member));
        }
        self.write(
            "
/// Changes to some fields of a [`$Race`]. Awaiting it makes them, and gives the record as it is then.
#[must_use = \"an update happens when it is awaited\"]
#[derive(Debug)]
pub struct $Update {
    inner: ::larder::Update<$Race>,
}

impl $Update {
$setters    /// Only if the record still has this version.
    pub fn if_version(self, version: i64) -> Self {
        Self { inner: self.inner.if_version(version) }
    }

    /// Makes the changes.
    pub async fn send(self) -> ::std::result::Result<$Race, ::larder::Error> {
        self.inner.send().await
    }
}

impl ::std::future::IntoFuture for $Update {
    type Output = ::std::result::Result<$Race, ::larder::Error>;
    type IntoFuture = <::larder::Update<$Race> as ::std::future::IntoFuture>::IntoFuture;

    fn into_future(self) -> Self::IntoFuture {
        ::std::future::IntoFuture::into_future(self.inner)
    }
}

impl ::std::convert::From<$Update> for ::larder::Update<$Race> {
    fn from(update: $Update) -> Self {
        update.inner
    }
}
",
            &[("Race", &parts.record), ("Update", &parts.update), ("setters", &setters)],
        );
    }
}

fn is_always(members: &[Member<'_>], name: &str) -> bool {
    let named = members.iter().find(|member| member.name == name);
    named.is_some_and(|member| !matches!(member.presence, Presence::Perhaps))
}

/// Any number of what becomes this.
fn each(of: &str) -> String {
    format!("impl ::std::iter::IntoIterator<Item = impl ::std::convert::Into<{of}>>")
}

fn each_into(values: &str, of: &str) -> String {
    format!(
        "::std::iter::Iterator::map(::std::iter::IntoIterator::into_iter({values}), \
         ::std::convert::Into::<{of}>::into)"
    )
}

fn setters_of(member: &Member<'_>) -> String {
    let plain = member.identifier.trim_start_matches("r#");
    let label = quoted(member.name);
    let kind = &member.kind;
    let setter = |about: &[String], name: &str, argument: &str, call: &str| {
        fill(
            "$docs    pub fn $name(self$argument) -> Self {
        Self { inner: self.inner.$call }
    }

",
            &[("docs", &docs("    ", about)), ("name", name), ("argument", argument), ("call", call)],
        )
    };
    let (accepted, value) = argument(kind, "value");
    let mut about = vec![format!("Sets `{}`.", member.name)];
    if !member.field.docs.is_empty() {
        about.push(String::new());
        about.extend(member.field.docs.iter().cloned());
    }
    let accepted = format!(", value: {accepted}");
    let mut out = setter(&about, &member.identifier, &accepted, &format!("set({label}, {value})"));
    if member.field.is_stored() && matches!(member.field.kind, Type::Int | Type::Decimal) {
        let about = [format!("Adds to `{}`, atomically.", member.name)];
        let plain_kind =
            kind.strip_prefix("::larder::Loose<").map_or(&**kind, |kind| kind.trim_end_matches('>'));
        let number = format!(", number: {plain_kind}");
        out.push_str(&setter(&about, &format!("add_{plain}"), &number, &format!("add({label}, number)")));
    }
    if member.field.is_stored() && matches!(member.field.kind, Type::List(_)) {
        let about = [format!("Appends to `{}`, atomically.", member.name)];
        let (values, given) = match &member.of {
            Some(of) if member.is_loose => {
                (each(of), format!("::std::iter::Iterator::collect::<{kind}>({})", each_into("values", of)))
            }
            _ => (kind.clone(), "values".to_owned()),
        };
        let values = format!(", values: {values}");
        let call = format!("append({label}, {given})");
        out.push_str(&setter(&about, &format!("append_{plain}"), &values, &call));
    }
    if let (true, Type::Set(_), Some(of)) = (member.field.is_stored(), &member.field.kind, &member.of) {
        let members = format!(", members: {}", each(of));
        for (method, what) in [("insert", "Puts members into"), ("remove", "Takes members out of")] {
            let about = [format!("{what} `{}`, atomically.", member.name)];
            let call = format!("{method}({label}, {})", each_into("members", of));
            out.push_str(&setter(&about, &format!("{method}_{plain}"), &members, &call));
        }
    }
    if let (true, Type::Map(_), Some(of)) = (member.field.is_stored(), &member.field.kind, &member.of) {
        let (accepted, value) = argument(of, "value");
        let name = format!(", name: impl ::std::convert::Into<{TEXT}>");
        let about = [format!("Sets what `{}` holds under a name, and leaves the rest alone.", member.name)];
        let entry = format!("{name}, value: {accepted}");
        let call = format!("insert_at({label}, name, {value})");
        out.push_str(&setter(&about, &format!("insert_{plain}"), &entry, &call));
        let about = [format!("Removes what `{}` holds under a name.", member.name)];
        let call = format!("remove_at({label}, name)");
        out.push_str(&setter(&about, &format!("remove_{plain}"), &name, &call));
    }
    if member.field.optional {
        let about = [format!("Removes `{}`.", member.name)];
        out.push_str(&setter(&about, &format!("clear_{plain}"), "", &format!("clear({label})")));
    }
    out
}

fn given(entity: &Entity) -> impl Iterator<Item = &Field> {
    entity.fields.iter().filter(|field| field.is_given())
}

/// A `sequence` takes the first free number when it is not given.
fn may_be_left_out(field: &Field) -> bool {
    field.optional || field.checks.default.is_some() || field.kind == Type::Sequence
}

pub(super) fn one_or_tuple(parts: &[&str]) -> String {
    match parts {
        [one] => (*one).to_owned(),
        many => format!("({})", many.join(", ")),
    }
}
