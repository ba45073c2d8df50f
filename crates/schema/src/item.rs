//! Records ⇄ items: which entity an item is, the fields in it, and back.
//!
//! Keys are read with their templates, so inputs that are stored nowhere else come back; so do inputs in
//! stored templates (`COUNTRY#DE` gives `DE`). The state of a lifecycle and the TTL are the layer's to write.

use std::collections::BTreeSet;

use larder_model::{AttributeValue, Item};

use crate::equation::Expr;
use crate::marks::CHUNK;
use crate::schema::{Entity, Field, Fields, KeyAttribute, KeySource, Role, Schema, State, Table, Type};
use crate::template::{BuildError, Format, Template};
use crate::value::Value;

/// Why an item could not be read as a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    #[error("`{attribute}` is missing")]
    Missing { attribute: String },
    #[error("`{attribute}` is not a key of {entity}")]
    Key { attribute: String, entity: String },
    #[error("`{attribute}` does not hold a {wanted}")]
    Value { attribute: String, wanted: String },
}

/// Why a record could not be made an item.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Key(#[from] BuildError),
    #[error("`{field}` is not a {wanted}")]
    Value { field: String, wanted: String },
}

impl Schema {
    /// The entity an item of a table is, by its key alone. Part of a larger item is none.
    pub fn entity_of<'a>(&self, table: &'a Table, item: &Item) -> Option<&'a Entity> {
        if item.contains(CHUNK) {
            return None;
        }
        table.entities.iter().find(|entity| self.read_key(table, entity, item).is_ok())
    }

    /// The fields an item holds, inputs in its key and stored templates included.
    pub fn read_item(&self, table: &Table, entity: &Entity, item: &Item) -> Result<Fields, ItemError> {
        let mut fields = self.read_key(table, entity, item)?;
        for field in entity.fields.iter().filter(|field| field.is_stored()) {
            let Some(stored) = item.get(&field.attribute) else { continue };
            let value = match (&field.kind, stored) {
                _ if !self.keeps_faults(table, entity, field) => self.decode(&field.kind, stored),
                (Type::List(_), AttributeValue::L(_)) | (Type::Map(_), AttributeValue::M(_)) => {
                    Some(self.decode_loosely(&field.kind, stored))
                }
                (kind, _) => (!kind.holds_loosely()).then(|| self.decode_loosely(kind, stored)),
            };
            let value = value.ok_or_else(|| ItemError::Value {
                attribute: field.attribute.clone(),
                wanted: field.kind.to_string(),
            })?;
            fields.insert(field.name.clone(), value);
        }
        for field in entity.fields.iter().filter(|field| field.is_stored()) {
            self.recover_inputs(entity, field, &mut fields);
        }
        Ok(fields)
    }

    /// The item of a record whose equations have been worked out: its key and its stored fields.
    pub fn write_item(&self, table: &Table, entity: &Entity, fields: &Fields) -> Result<Item, RecordError> {
        let mut item = Item::new();
        let wrong = |field: &str, wanted: String| RecordError::Value { field: field.to_owned(), wanted };
        for field in entity.fields.iter().filter(|field| field.is_stored()) {
            let value = fields.get(&field.name).filter(|value| !value.is_left_out(&field.kind));
            if let Some(value) = value {
                let stored = self.encode(&field.kind, value);
                let stored = stored.ok_or_else(|| wrong(&field.name, field.kind.to_string()))?;
                item.insert(field.attribute.clone(), stored);
            }
        }
        let sort = table.sort.as_ref().zip(entity.sort.as_ref());
        for (attribute, source) in std::iter::once((&table.partition, &entity.partition)).chain(sort) {
            let stored = match source {
                KeySource::Template(template) => AttributeValue::S(template.build(fields)?),
                KeySource::Field(name) => {
                    let value = fields.get(name).ok_or_else(|| BuildError::Missing(name.clone()))?;
                    let field = entity.field(name);
                    let stored = field.and_then(|field| self.encode(&field.kind, value));
                    stored.ok_or_else(|| wrong(name, attribute.kind.to_string()))?
                }
            };
            item.insert(attribute.attribute.clone(), stored);
        }
        Ok(item)
    }

    pub(crate) fn read_key(&self, table: &Table, entity: &Entity, item: &Item) -> Result<Fields, ItemError> {
        let mut fields = Fields::new();
        let sort = table.sort.as_ref().zip(entity.sort.as_ref());
        for (attribute, source) in std::iter::once((&table.partition, &entity.partition)).chain(sort) {
            let read = self.read_key_part(entity, attribute, source, item)?;
            let same = |(name, value): (&String, &Value)| fields.get(name).is_none_or(|known| known == value);
            if !read.iter().all(same) {
                return Err(ItemError::Key {
                    attribute: attribute.attribute.clone(),
                    entity: entity.name.clone(),
                });
            }
            fields.extend(read);
        }
        Ok(fields)
    }

    fn read_key_part(
        &self,
        entity: &Entity,
        attribute: &KeyAttribute,
        source: &KeySource,
        item: &Item,
    ) -> Result<Fields, ItemError> {
        let name = &attribute.attribute;
        let stored = item.get(name).ok_or_else(|| ItemError::Missing { attribute: name.clone() })?;
        let read = match source {
            KeySource::Template(template) => {
                stored.as_str().and_then(|text| template.read(text)).map(|reading| reading.fields)
            }
            KeySource::Field(field) => entity.field(field).and_then(|field| {
                let value = self.decode(&field.kind, stored)?;
                let mut fields = match &field.equation {
                    Some(Expr::Template(template)) => template.read(value.as_str()?)?.fields,
                    _ => Fields::new(),
                };
                fields.insert(field.name.clone(), value);
                Some(fields)
            }),
        };
        read.ok_or_else(|| ItemError::Key { attribute: name.clone(), entity: entity.name.clone() })
    }

    /// Reads inputs out of a stored template. Only an unambiguous one gives them back.
    pub(crate) fn recover_inputs(&self, entity: &Entity, field: &Field, fields: &mut Fields) {
        let Some(Expr::Template(template)) = &field.equation else { return };
        let text = fields.get(&field.name).and_then(Value::as_str);
        let Some(reading) =
            text.filter(|_| template.ambiguity().is_none()).and_then(|text| template.read(text))
        else {
            return;
        };
        for (name, value) in reading.fields {
            let input = entity.field(&name).is_some_and(|field| field.role == Role::Input);
            if input {
                fields.entry(name).or_insert(value);
            }
        }
    }
}

impl Entity {
    /// A set that is not stored has no members. Of an item that is shown in part, only a set that is among `shown`, by
    /// stored names, is known not to be stored.
    pub fn add_empty_sets(&self, fields: &mut Fields, shown: Option<&[String]>) {
        let is_set = |field: &&Field| field.is_stored() && matches!(field.kind, Type::Set(_));
        let is_shown = |field: &&Field| shown.is_none_or(|shown| shown.contains(&field.attribute));
        for field in self.fields.iter().filter(is_set).filter(is_shown) {
            if let (false, Some(empty)) = (fields.contains_key(&field.name), &field.checks.default) {
                fields.insert(field.name.clone(), empty.clone());
            }
        }
    }

    /// The fields a key is made of, through equations.
    pub fn key_fields(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for source in std::iter::once(&self.partition).chain(self.sort.as_ref()) {
            match source {
                KeySource::Field(name) => drop(found.insert(name.clone())),
                KeySource::Template(template) => {
                    found.extend(template.holes().map(|hole| hole.field.clone()));
                }
            }
        }
        loop {
            let needed: Vec<String> = found
                .iter()
                .filter_map(|name| self.field(name)?.equation.as_ref())
                .flat_map(Expr::fields)
                .map(str::to_owned)
                .collect();
            let before = found.len();
            found.extend(needed);
            if found.len() == before {
                return found;
            }
        }
    }

    /// Whether an input can be read out of a stored item.
    pub fn is_recoverable(&self, name: &str) -> bool {
        let Some(field) = self.field(name) else { return false };
        let in_template = |template: &Template| {
            template.ambiguity().is_none()
                && template.holes().any(|hole| hole.field == name && hole.format == Format::Plain)
        };
        field.role == Role::Stored
            || std::iter::once(&self.partition).chain(self.sort.as_ref()).any(|source| match source {
                KeySource::Template(template) => template.holes().any(|hole| hole.field == name),
                KeySource::Field(_) => false,
            })
            || self.fields.iter().filter(|field| field.is_stored()).any(
                |field| matches!(&field.equation, Some(Expr::Template(template)) if in_template(template)),
            )
    }
}

impl crate::schema::Lifecycle {
    /// The state an item is in, by what is written in the lifecycle's attribute.
    pub fn state_of(&self, item: &Item) -> Option<&State> {
        let text = item.get(&self.attribute)?.as_str()?;
        self.states.iter().find(|state| state.template.read(text).is_some())
    }
}
