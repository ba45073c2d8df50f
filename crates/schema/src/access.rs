//! How the items of an entity can be asked for: by the table's own key, or by an index.
//!
//! A query is spoken in the schema's fields, not in stored texts: an index on `gsi2_pk = shop_country`, where
//! `shop_country = "COUNTRY#{country}"`, is asked with a country. What an equation loses cannot be asked with:
//! an index on `"{jst:%Y-%m}"` is asked with the text itself, `2024-01`.
//!
//! Promises:
//! - A partition made from arguments is what a record with these fields is stored under.
//! - Values of a sort key are ordered as their stored forms are.

use std::collections::BTreeSet;

use larder_model::{AttributeValue, KeyType};

use crate::ast::BinaryOp;
use crate::equation::{Expr, Function};
use crate::schema::{
    Entity, Field, Fields, Index, KeyAttribute, KeySource, Precision, Projection, Role, Schema, Table, Type,
};
use crate::template::{BuildError, Format, Hole, Part, Template};
use crate::value::{Value, instant_text};

/// One way to ask for items of an entity.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// What has to be given to name a partition, in order.
    pub arguments: Vec<Argument>,
    /// What a partition is ordered by. With several attributes, the first.
    pub sort: Option<SortKey>,
    partition: Vec<(KeyAttribute, Spoken)>,
}

/// Something that has to be given.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// A field of the entity, the field that holds a lifecycle, or the key attribute of the table.
    pub name: String,
    pub kind: Type,
    /// The lifecycle whose state this is.
    pub lifecycle: Option<String>,
}

/// How the values of a sort key are given.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// What the store calls it.
    pub attribute: String,
    /// The type of what is given: a field's own, or text.
    pub kind: Type,
    /// What the store keeps.
    pub stored: KeyType,
    /// What stands before the value in every key of the entity.
    pub prefix: String,
    hole: Option<Hole>,
}

/// Where the value of a key attribute comes from.
#[derive(Clone, Debug, PartialEq)]
enum Spoken {
    /// An argument as it is.
    Argument(usize),
    /// A template of arguments.
    Template(Template),
}

/// A field that can be read from an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readable {
    pub name: String,
    /// In every item of the index.
    pub always: bool,
}

impl Entity {
    /// How the entity is asked for by an index, or by the table's own key. `None` when it is never in the index.
    pub fn access(&self, table: &Table, index: Option<&Index>) -> Option<Access> {
        let (partition, sort) = match index {
            Some(index) => (index.partition.as_slice(), index.sort.first()),
            None => (std::slice::from_ref(&table.partition), table.sort.as_ref()),
        };
        let present = |attribute: &&KeyAttribute| self.content(table, attribute).is_some();
        if index.is_some_and(|index| !index.sort.iter().all(|attribute| present(&attribute))) {
            return None;
        }
        let mut access = Access { arguments: Vec::new(), sort: None, partition: Vec::new() };
        for attribute in partition {
            let spoken = match self.content(table, attribute)? {
                Content::Template(template) if self.is_spoken(template) => {
                    for hole in template.holes() {
                        let kind = self.field(&hole.field)?.kind.clone();
                        access.argument(&hole.field, kind, None);
                    }
                    Spoken::Template(template.clone())
                }
                Content::Template(_) => {
                    Spoken::Argument(access.argument(&attribute.name, Type::String, None))
                }
                Content::Field(field) => {
                    Spoken::Argument(access.argument(&field.name, field.kind.clone(), None))
                }
                Content::State(lifecycle) => {
                    Spoken::Argument(access.argument(&attribute.name, Type::String, Some(lifecycle)))
                }
            };
            access.partition.push((attribute.clone(), spoken));
        }
        if let Some(attribute) = sort {
            access.sort = Some(self.sort_key(attribute, &self.content(table, attribute)?));
        }
        Some(access)
    }

    /// The fields a key is given by: those given that its templates need, or the field that is the key itself.
    pub fn key_names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for source in std::iter::once(&self.partition).chain(self.sort.as_ref()) {
            match source {
                KeySource::Field(name) => names.push(name.as_str()),
                KeySource::Template(template) => {
                    template.holes().for_each(|hole| self.needed(&hole.field, &mut names));
                }
            }
        }
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        names
    }

    /// The given fields that a field is made of, in the order they are mentioned.
    pub(crate) fn needed<'e>(&'e self, name: &str, names: &mut Vec<&'e str>) {
        let Some(field) = self.field(name) else { return };
        match &field.equation {
            None => names.push(&field.name),
            // Equations have an order, so this ends.
            Some(equation) => equation.fields().into_iter().for_each(|name| self.needed(name, names)),
        }
    }

    /// The fields that can be read from an index, inputs in keys and templates included.
    pub fn readable(&self, table: &Table, index: &Index) -> Vec<Readable> {
        let table_key = || std::iter::once(&table.partition).chain(table.sort.as_ref());
        let is_key = |attribute: &str| {
            let mut keys = table_key().chain(&index.partition).chain(&index.sort);
            keys.any(|key| key.attribute == attribute)
        };
        let projected = |attribute: &str| match &index.projection {
            Projection::All => true,
            Projection::Keys => is_key(attribute),
            Projection::Include(names) => is_key(attribute) || names.iter().any(|name| name == attribute),
        };
        let mut found: Vec<Readable> = Vec::new();
        let mut add = |name: &str, always: bool| match found.iter_mut().find(|readable| readable.name == name)
        {
            Some(known) => known.always |= always,
            None => found.push(Readable { name: name.to_owned(), always }),
        };
        for source in std::iter::once(&self.partition).chain(self.sort.as_ref()) {
            let template = match source {
                KeySource::Template(template) => Some(template),
                KeySource::Field(name) => match self.field(name).and_then(|field| field.equation.as_ref()) {
                    Some(Expr::Template(template)) => Some(template),
                    _ => None,
                },
            };
            for hole in template.into_iter().flat_map(Template::holes) {
                if self.field(&hole.field).is_some_and(|field| comes_back(field, hole)) {
                    add(&hole.field, hole.format != Format::Fit);
                }
            }
        }
        for field in self.fields.iter().filter(|field| field.is_stored() && projected(&field.attribute)) {
            let always = is_key(&field.attribute) || !self.may_be_missing(field);
            add(&field.name, always);
            // As `Schema::read_item` does it.
            if let Some(Expr::Template(template)) = &field.equation
                && template.ambiguity().is_none()
            {
                for hole in template.holes() {
                    let input = self.field(&hole.field).is_some_and(|field| field.role == Role::Input);
                    if input {
                        add(&hole.field, always && hole.format != Format::Fit);
                    }
                }
            }
        }
        let place = |name: &str| self.fields.iter().position(|field| field.name == name);
        found.sort_by_key(|readable| place(&readable.name));
        found
    }

    /// Whether a record can be without a field: it is optional, or worked out from what may be missing.
    pub fn may_be_missing(&self, field: &Field) -> bool {
        field.optional
            || field.checks.valid.is_some()
            || field.equation.as_ref().is_some_and(|equation| self.may_fail(equation))
    }

    fn may_fail(&self, expression: &Expr) -> bool {
        let missing = |name: &str| self.field(name).is_none_or(|field| self.may_be_missing(field));
        match expression {
            Expr::Field(name) => missing(name),
            Expr::Template(template) => template.holes().any(|hole| missing(&hole.field)),
            Expr::Now | Expr::Literal(_) | Expr::Not(_) => false,
            Expr::Member(..) | Expr::Call(Function::Host | Function::PslCore, _) => true,
            Expr::Call(Function::Sha256, argument) => match &**argument {
                Expr::Template(template) => {
                    template.holes().count() > 0 && template.holes().all(|hole| missing(&hole.field))
                }
                other => self.may_fail(other),
            },
            Expr::Call(_, argument) => self.may_fail(argument),
            Expr::Binary(BinaryOp::Add | BinaryOp::Subtract, ..) => true,
            Expr::Binary(..) => false,
        }
    }

    /// What the entity puts into a key attribute of its table or of an index.
    fn content<'a>(&'a self, table: &'a Table, attribute: &KeyAttribute) -> Option<Content<'a>> {
        if let Some(field) = self.field(&attribute.name).filter(|field| field.is_stored()) {
            return Some(self.origin(field));
        }
        if let Some(lifecycle) = self.lifecycles.iter().find(|it| it.held_in == attribute.name) {
            return Some(Content::State(&lifecycle.name));
        }
        let source = if table.partition.name == attribute.name {
            &self.partition
        } else if table.sort.as_ref().is_some_and(|sort| sort.name == attribute.name) {
            self.sort.as_ref()?
        } else {
            return None;
        };
        match source {
            KeySource::Template(template) => Some(Content::Template(template)),
            KeySource::Field(name) => self.field(name).map(|field| self.origin(field)),
        }
    }

    /// Follows a field that only repeats another one.
    fn origin<'a>(&'a self, field: &'a Field) -> Content<'a> {
        match &field.equation {
            Some(Expr::Field(name)) => match self.field(name) {
                // Equations have an order, so this ends.
                Some(next) if next.kind == field.kind => self.origin(next),
                _ => Content::Field(field),
            },
            Some(Expr::Template(template)) if self.is_spoken(template) => Content::Template(template),
            _ => Content::Field(field),
        }
    }

    /// Whether a template is made of given fields alone, each of which it keeps.
    fn is_spoken(&self, template: &Template) -> bool {
        template.holes().all(|hole| {
            self.field(&hole.field).is_some_and(|field| field.is_given() && comes_back(field, hole))
        })
    }

    fn sort_key(&self, attribute: &KeyAttribute, content: &Content<'_>) -> SortKey {
        let text = SortKey {
            attribute: attribute.attribute.clone(),
            kind: Type::String,
            stored: attribute.kind,
            prefix: String::new(),
            hole: None,
        };
        match content {
            Content::Field(field) => SortKey { kind: field.kind.clone(), ..text },
            Content::State(_) => text,
            Content::Template(template) => match self.last_hole(template) {
                Some((prefix, hole)) => SortKey {
                    kind: self.field(&hole.field).map_or(Type::String, |field| field.kind.clone()),
                    prefix,
                    hole: Some(hole.clone()),
                    ..text
                },
                // What every such key begins with keeps other entities out.
                None => SortKey { prefix: template.prefix(&Fields::new()), ..text },
            },
        }
    }

    /// The only hole of a template, when it comes last and its texts are ordered as its values are.
    fn last_hole<'a>(&self, template: &'a Template) -> Option<(String, &'a Hole)> {
        let (last, before) = template.parts.split_last()?;
        let Part::Hole(hole) = last else { return None };
        let mut prefix = String::new();
        for part in before {
            match part {
                Part::Text(text) => prefix.push_str(text),
                Part::Hole(_) => return None,
            }
        }
        let ordered = match (&hole.format, &hole.kind) {
            (Format::Plain | Format::Fit, kind) => kind.key_type() == Some(KeyType::S),
            (Format::Pad(_), _) => hole.shape.is_fixed(),
            (Format::Date(_), _) => {
                let written = hole.format.suffix();
                written.starts_with(":%Y%m%d") || written.starts_with(":%Y-%m-%d")
            }
            (Format::Fixed(_) | Format::Unix, _) => false,
        };
        let given = self.field(&hole.field).is_some_and(|field| field.is_given() && comes_back(field, hole));
        (ordered && given).then_some((prefix, hole))
    }
}

/// What a key attribute holds.
enum Content<'a> {
    Field(&'a Field),
    Template(&'a Template),
    State(&'a str),
}

/// Whether a hole keeps the value of its field, to its format's precision.
fn comes_back(field: &Field, hole: &Hole) -> bool {
    let partial = matches!(hole.format, Format::Date(_))
        && matches!(hole.parse(&hole.example()), Some(Value::Text(_)) | None);
    !partial && field.kind != Type::Zoned
}

impl Access {
    fn argument(&mut self, name: &str, kind: Type, lifecycle: Option<&str>) -> usize {
        if let Some(known) = self.arguments.iter().position(|argument| argument.name == name) {
            return known;
        }
        let lifecycle = lifecycle.map(str::to_owned);
        self.arguments.push(Argument { name: name.to_owned(), kind, lifecycle });
        self.arguments.len() - 1
    }

    /// The stored partition, attribute by attribute, from a value for each argument.
    ///
    /// ```
    /// # use larder_schema::{Environment, NoFiles, Schema};
    /// # let text = r#"
    /// # system shops
    /// # table shops {
    /// #   key  domain
    /// #   index ByCountry as by_country  shop_country / domain
    /// #   entity Shop {
    /// #     domain:        string nonempty
    /// #     input country: string? match /[A-Z]{2}/
    /// #     shop_country = "COUNTRY#{country}"
    /// #   }
    /// # }
    /// # "#;
    /// # let schema = Schema::load("shops.larder", text, &mut NoFiles, &Environment::new()).schema.unwrap();
    /// let (table, shop) = schema.entity("Shop").expect("it is declared");
    /// let by_country = shop.access(table, table.index("by_country")).expect("shops are in it");
    /// assert_eq!(by_country.arguments[0].name, "country");
    /// let partition = by_country.partition(&schema, &["DE".into()])?;
    /// assert_eq!(partition, [("shop_country".to_owned(), "COUNTRY#DE".into())]);
    /// # Ok::<(), larder_schema::BuildError>(())
    /// ```
    pub fn partition(
        &self,
        schema: &Schema,
        values: &[Value],
    ) -> Result<Vec<(String, AttributeValue)>, BuildError> {
        if let Some(missing) = self.arguments.get(values.len()) {
            return Err(BuildError::Missing(missing.name.clone()));
        }
        let fields: Fields =
            self.arguments.iter().map(|argument| argument.name.clone()).zip(values.iter().cloned()).collect();
        let parts = self.partition.iter().map(|(attribute, spoken)| {
            let stored = match spoken {
                Spoken::Template(template) => AttributeValue::S(template.build(&fields)?),
                Spoken::Argument(at) => {
                    let (argument, value) = (&self.arguments[*at], &values[*at]);
                    schema.encode(&argument.kind, value).ok_or_else(|| BuildError::Unfit {
                        field: argument.name.clone(),
                        value: crate::record::shown(value),
                        format: format!(": {}", argument.kind),
                    })?
                }
            };
            Ok((attribute.attribute.clone(), stored))
        });
        parts.collect()
    }
}

impl SortKey {
    /// The stored form of a value. `None` when the value is not of the key's type.
    pub fn store(&self, schema: &Schema, value: &Value) -> Option<AttributeValue> {
        match &self.hole {
            None => schema.encode(&self.kind, value),
            Some(hole) => Some(AttributeValue::S(format!("{}{}", self.prefix, hole.write(value)?))),
        }
    }

    /// The texts between which all forms of a moment lie, where the key is one: other programs write it with and without
    /// a fraction. Which of them are meant the moment itself decides.
    pub fn forms(&self, value: &Value) -> Option<(AttributeValue, AttributeValue)> {
        let moment = value.as_instant().filter(|_| self.hole.is_none())?;
        if !matches!(self.kind, Type::Instant(_)) {
            return None;
        }
        let last = instant_text(moment, Precision::Seconds);
        let first = last.trim_end_matches('Z').to_owned();
        Some((AttributeValue::S(first), AttributeValue::S(last)))
    }

    /// What the stored keys begin with whose values begin with a text. `None` when the key is no text.
    pub fn beginning(&self, text: &str) -> Option<String> {
        let prefix = if self.hole.is_some() { self.prefix.as_str() } else { "" };
        (self.stored == KeyType::S).then(|| format!("{prefix}{text}"))
    }
}

impl Table {
    /// An index by what programs call it, or by what the store does.
    pub fn index(&self, name: &str) -> Option<&Index> {
        let alias = self.indexes.iter().find(|index| index.alias == name);
        alias.or_else(|| self.indexes.iter().find(|index| index.name == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, NoFiles};

    fn load(text: &str) -> Schema {
        Schema::load("test.larder", text, &mut NoFiles, &Environment::new()).schema.expect("it is right")
    }

    fn shops() -> Schema {
        load(include_str!("../../../schemas/shops.larder"))
    }

    fn tdnet() -> Schema {
        load(include_str!("../../../schemas/tdnet.larder"))
    }

    #[test]
    fn a_query_is_asked_with_fields() {
        let cases = [
            (shops(), "Shop", Some("by_last_crawled"), "country", Some(Type::String)),
            (shops(), "Shop", Some("siblings"), "core_domain_name", Some(Type::String)),
            (shops(), "Page", Some("by_type"), "domain", Some(Type::String)),
            (shops(), "Page", None, "domain", Some(Type::Url)),
            (shops(), "Shop", None, "domain", Some(Type::String)),
            (tdnet(), "Disclosure", Some("by_month"), "date_partition", Some(tdnet_instant())),
            (tdnet(), "Disclosure", Some("by_company"), "company_code", Some(tdnet_instant())),
            (tdnet(), "Disclosure", None, "disclosure_id", None),
            (tdnet(), "Execution", Some("by_status"), "status", Some(tdnet_instant())),
        ];
        for (schema, entity, index, argument, sort) in cases {
            let (table, entity) = schema.entity(entity).unwrap();
            let access = entity.access(table, index.map(|index| table.index(index).unwrap())).unwrap();
            let names: Vec<&str> = access.arguments.iter().map(|argument| argument.name.as_str()).collect();
            assert_eq!(names, [argument], "{} {index:?}", entity.name);
            assert_eq!(access.sort.map(|sort| sort.kind), sort, "{} {index:?}", entity.name);
        }
    }

    fn tdnet_instant() -> Type {
        Type::Instant(crate::schema::Precision::Seconds)
    }

    #[test]
    fn an_entity_that_lacks_a_key_attribute_is_not_in_the_index() {
        let schema = shops();
        let (table, page) = schema.entity("Page").unwrap();
        assert!(page.access(table, table.index("siblings")).is_none());
    }

    #[test]
    fn a_sort_template_is_asked_with_its_last_hole() {
        let schema = shops();
        let (table, page) = schema.entity("Page").unwrap();
        let sort = page.access(table, None).unwrap().sort.unwrap();
        assert_eq!(sort.store(&schema, &"https://a.de/x".into()), Some("URL#https://a.de/x".into()));
        assert_eq!(sort.beginning("https://a.de/").as_deref(), Some("URL#https://a.de/"));
        assert_eq!(sort.prefix, "URL#");
    }

    #[test]
    fn an_index_shows_what_it_projects_and_what_its_keys_say() {
        let schema = shops();
        let (table, shop) = schema.entity("Shop").unwrap();
        let readable = |index: &str| {
            let readable = shop.readable(table, table.index(index).unwrap());
            readable.into_iter().map(|field| (field.name, field.always)).collect::<Vec<_>>()
        };
        let named = |name: &str, always: bool| (name.to_owned(), always);
        assert_eq!(
            readable("by_last_crawled"),
            [
                named("domain", true),
                named("last_crawled_start", false),
                named("last_crawled_end", false),
                named("gsi2_pk", true),
            ]
        );
        assert_eq!(
            readable("siblings"),
            [named("domain", true), named("gsi4_pk", true), named("gsi4_sk", true)]
        );
    }
}
