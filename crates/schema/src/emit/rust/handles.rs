//! Handles: of the system, and of each entity with its indexes.

use super::entities::Parts;
use super::names::{identifier, plural, snake};
use super::{Module, argument, docs, fill, pascal, quoted, variants};
use crate::access::Access;
use crate::schema::{Entity, Fields, KeySource, Projection, Table};

impl<'a> Module<'a> {
    /// The handle of an entity.
    pub(super) fn handle(&mut self, table: &'a Table, entity: &'a Entity, parts: &Parts) {
        let handle = self.handle_name(&entity.name, "Shelf");
        let made = format!("{handle} {{ shelf: self.system.shelf() }}");
        self.method(&plural(&snake(&entity.name)), &handle, &entity.docs, &made);
        let lifecycles = self.lifecycles(entity, &handle, parts);
        let queries = self.queries(table, entity, parts);
        let invalidation = self.invalidation(entity, parts);
        self.write(
            "
$docs#[derive(Clone, Debug)]
pub struct $Races {
    shelf: ::larder::Shelf<$Race>,
}

impl ::std::ops::Deref for $Races {
    type Target = ::larder::Shelf<$Race>;

    fn deref(&self) -> &Self::Target {
        &self.shelf
    }
}

impl $Races {
    /// Changes some fields of a record that is there.
    pub fn update(&self, key: impl ::std::convert::Into<$Key>) -> $Update {
        $Update { inner: self.shelf.update(key) }
    }

    /// Removes records by what is said of them, once that has been planned.
    pub fn invalidate(&self) -> $Invalidation {
        $Invalidation { inner: self.shelf.invalidate() }
    }
$queries$lifecycles}
",
            &[
                ("docs", &docs("", &entity.docs)),
                ("Races", &handle),
                ("Race", &parts.record),
                ("Key", &parts.key),
                ("Update", &parts.update),
                ("Invalidation", &invalidation),
                ("queries", &queries),
                ("lifecycles", &lifecycles),
            ],
        );
    }

    /// What an invalidation can be asked with: the fields of the key.
    fn invalidation(&mut self, entity: &'a Entity, parts: &Parts) -> String {
        let name = self.names.claim(&[format!("{}Invalidation", parts.record)]);
        let taken = ["label", "plan", "run"];
        let mut fields = String::new();
        for member in self.key_members(entity).iter().filter(|member| !taken.contains(&member.name)) {
            let (accepted, value) = argument(&member.kind, &member.identifier);
            fields.push_str(&fill(
                "    /// Only records with this `$plain`.
    pub fn $name(self, $name: $accepted) -> Self {
        Self { inner: self.inner.by($label, $value) }
    }

",
                &[
                    ("plain", member.name),
                    ("name", &member.identifier),
                    ("accepted", &accepted),
                    ("label", &quoted(member.name)),
                    ("value", &value),
                ],
            ));
        }
        self.write(
            "
/// Which [`$Race`]s are to be removed: those of a key, or of a family of keys.
#[must_use = \"nothing is removed before a plan is run\"]
#[derive(Clone, Debug)]
pub struct $Invalidation {
    inner: ::larder::Invalidation<$Race>,
}

impl $Invalidation {
$fields    /// Only records with this label.
    pub fn label(self, label: impl ::std::convert::Into<::std::string::String>) -> Self {
        Self { inner: self.inner.label(label) }
    }

    /// Finds out how to go about it and what it costs.
    pub async fn plan(self) -> ::std::result::Result<::larder::InvalidationPlan, ::larder::Error> {
        self.inner.plan().await
    }

    /// Removes them without showing a plan. Where the schema says `scan ask`, a scan needs one.
    pub async fn run(self) -> ::std::result::Result<::larder::Progress, ::larder::Error> {
        self.inner.run().await
    }
}
",
            &[("Race", &parts.record), ("Invalidation", &name), ("fields", &fields)],
        );
        name
    }

    /// A method for each index that the entity is in, and for the table itself where it has a range to ask for.
    fn queries(&mut self, table: &'a Table, entity: &'a Entity, parts: &Parts) -> String {
        let mut methods = String::new();
        for index in &table.indexes {
            let Some(access) = entity.access(table, Some(index)) else { continue };
            let view = match index.projection {
                Projection::All => parts.record.clone(),
                Projection::Keys | Projection::Include(_) => {
                    let name = self.names.claim(&[format!("{}In{}", parts.record, pascal(&index.alias))]);
                    let about = [format!("What `{}` holds of a [`{}`].", index.alias, parts.record)];
                    let members = self.readable(entity, &entity.readable(table, index));
                    self.view(entity, parts, &name, &about, &members);
                    name
                }
            };
            let about = match index.docs.as_slice() {
                [] => &[format!("Asks the index `{}`.", index.name)][..],
                docs => docs,
            };
            methods.push_str(&self.query(entity, &access, &index.alias, Some(&index.alias), about, &view));
        }
        let several = matches!(&entity.sort, Some(KeySource::Template(template)) if template.holes().count() > 0)
            || matches!(&entity.sort, Some(KeySource::Field(_)));
        if let (true, Some(access)) = (several, entity.access(table, None)) {
            let about = ["Asks the table itself for a partition.".to_owned()];
            methods.push_str(&self.query(entity, &access, "within", None, &about, &parts.record));
        }
        methods
    }

    fn query(
        &self,
        entity: &Entity,
        access: &Access,
        name: &str,
        index: Option<&str>,
        about: &[String],
        view: &str,
    ) -> String {
        let mut arguments = String::new();
        let mut values = Vec::new();
        for asked in &access.arguments {
            let name = identifier(&asked.name);
            let states =
                asked.lifecycle.as_ref().and_then(|lifecycle| self.states_as_written(entity, lifecycle));
            let (kind, value) = match states {
                Some((kind, written)) => (kind, format!("match {name} {{{written}}}.to_owned()")),
                None => super::argument(&self.kind(&entity.name, &asked.name, &asked.kind), &name),
            };
            arguments.push_str(&format!(", {name}: {kind}"));
            values.push(format!("::larder::FieldType::to_value({value})"));
        }
        let sort = match &access.sort {
            Some(sort) => self.kind(&entity.name, "", &sort.kind),
            None => "::larder::Value".to_owned(),
        };
        let index = index.map_or("::std::option::Option::None".to_owned(), |index| {
            format!("::std::option::Option::Some({})", quoted(index))
        });
        fill(
            "
$docs    pub fn $name(&self$arguments) -> ::larder::Query<$View, $Sort> {
        ::larder::Query::new(&self.shelf, $index, ::std::vec![$values])
    }
",
            &[
                ("docs", &docs("    ", about)),
                ("name", &identifier(name)),
                ("arguments", &arguments),
                ("View", view),
                ("Sort", &sort),
                ("index", &index),
                ("values", &values.join(", ")),
            ],
        )
    }

    /// The enum of a lifecycle's states and how each is written, where that is one text.
    fn states_as_written(&self, entity: &Entity, name: &str) -> Option<(String, String)> {
        let lifecycle = entity.lifecycle(name)?;
        let kind = self.states.get(&(entity.name.as_str(), name))?.clone();
        let names = variants(lifecycle.states.iter().map(|state| state.name.as_str()));
        let mut arms = String::new();
        for (variant, state) in names.iter().zip(&lifecycle.states) {
            let text = state.template.build(&Fields::new()).ok()?;
            arms.push_str(&format!(" {kind}::{variant} => {},", quoted(&text)));
        }
        Some((kind, arms))
    }

    /// The plural of what it holds, if that is free.
    pub(super) fn handle_name(&mut self, name: &str, otherwise: &str) -> String {
        let many = pascal(&plural(&snake(name)));
        let full = format!("{}{otherwise}", self.known[name]);
        self.names.claim(&[many, full])
    }

    /// A method of the system that gives a handle.
    pub(super) fn method(&mut self, name: &str, kind: &str, about: &[String], made: &str) {
        let name = self.method_names.claim(&[name.to_owned()]);
        self.methods.push(fill(
            "
$docs    pub fn $name(&self) -> $kind {
        $made
    }
",
            &[("docs", &docs("    ", about)), ("name", &identifier(&name)), ("kind", kind), ("made", made)],
        ));
    }

    /// The system itself, and the schema it is opened with.
    pub(super) fn system(&mut self, files: &[(String, String)]) {
        let name = self.system.clone();
        let texts: String =
            files.iter().map(|(name, text)| format!("    ({}, {text}),\n", quoted(name))).collect();
        for (name, kind, about, made) in std::mem::take(&mut self.shortcuts) {
            if self.method_names.is_free(&name) {
                self.method(&name, &kind, &about, &made);
            }
        }
        let methods = self.methods.concat();
        self.write(
            "
$docs#[derive(Clone, Debug)]
pub struct $Keiba {
    system: ::larder::System,
}

impl ::std::ops::Deref for $Keiba {
    type Target = ::larder::System;

    fn deref(&self) -> &Self::Target {
        &self.system
    }
}

impl $Keiba {
    /// Opens the system, with names and times from the process environment.
    ///
    /// An embedded store makes the tables that are missing; on DynamoDB, `provision` or `larder apply` does.
    pub async fn open(store: ::larder::Store) -> ::std::result::Result<Self, ::larder::Error> {
        let system = ::larder::System::open(schema().clone(), store).await?;
        ::std::result::Result::Ok(Self { system })
    }

    /// Opens the system with an environment of its own.
    pub async fn open_with(
        store: ::larder::Store,
        environment: ::larder::Environment,
    ) -> ::std::result::Result<Self, ::larder::Error> {
        let system = ::larder::System::open_with(schema().clone(), store, environment).await?;
        ::std::result::Result::Ok(Self { system })
    }
$methods}

/// The schema this module was made from.
pub fn schema() -> &'static ::larder::Schema {
    static SCHEMA: ::std::sync::LazyLock<::larder::Schema> =
        ::std::sync::LazyLock::new(|| ::larder::__private::load(FILES));
    &SCHEMA
}

/// The schema's files. That they are named here is why a change to one of them builds this again.
const FILES: &[(&str, &str)] = &[
$texts];
",
            &[
                ("docs", &docs("", &self.schema.docs)),
                ("Keiba", &name),
                ("methods", &methods),
                ("texts", &texts),
            ],
        );
    }
}
