//! A table before and after: which belong together, what is written on them, and how one goes.

use larder_model::{TableName, Tags, UnixTime};
use larder_schema::setup::{KEEP_TAG, SUPERSEDED_TAG};
use larder_schema::{Schema, TableSetup};

use super::carry::{Side, Way};
use super::{Phase, report, stream};
use crate::Error;
use crate::store::{Feature, TableChange};

/// A table, before and after.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) old: Side,
    pub(super) new: Side,
    pub(super) setup: TableSetup,
    /// It has another place or name.
    pub(super) moves: bool,
}

impl Pair {
    pub(super) fn source(&self, way: Way) -> &Side {
        match way {
            Way::Forward => &self.old,
            Way::Back => &self.new,
        }
    }

    pub(super) fn target(&self, way: Way) -> &Side {
        match way {
            Way::Forward => &self.new,
            Way::Back => &self.old,
        }
    }

    pub(super) fn unused(&self, phase: Phase) -> Option<&Side> {
        match phase {
            Phase::Copying | Phase::Returning => None,
            Phase::Switched => Some(&self.old),
            Phase::Returned => Some(&self.new),
        }
    }
}

/// The new table that takes an old one over: of its name, or a new one with an entity of it.
pub(super) fn counterpart<'a>(old: &Schema, new: &'a Schema, table: &str) -> Option<&'a str> {
    if let Some(same) = new.tables.iter().find(|other| other.name == table) {
        return Some(&same.name);
    }
    let entities = &old.tables.iter().find(|old| old.name == table)?.entities;
    let shares = |other: &larder_schema::Table| entities.iter().any(|known| holds(other, &known.name));
    let is_new = |other: &&larder_schema::Table| old.tables.iter().all(|known| known.name != other.name);
    new.tables.iter().filter(is_new).find(|other| shares(other)).map(|other| other.name.as_str())
}

pub(super) fn holds(table: &larder_schema::Table, entity: &str) -> bool {
    table.entities.iter().any(|known| known.name == entity)
}

pub(super) async fn destroy(side: &Side) -> Result<(), Error> {
    let (store, table) = (side.store(), side.table());
    let protected =
        store.describe(table).await?.is_some_and(|deployed| deployed.definition.deletion_protection);
    if protected {
        store.change_table(table, &TableChange::DeletionProtection(false)).await?;
        stream::wait_until_idle(store, table).await?;
    }
    store.delete_table(table).await?;
    stream::wait_until_idle(store, table).await
}

/// Says on a table what took its place, and until when it is kept.
pub(super) async fn mark(unused: &Side, by: &TableName, until: Option<UnixTime>) -> Result<(), Error> {
    let until = until.map(report::date).unwrap_or_default();
    tag(unused, [(SUPERSEDED_TAG, by.as_str()), (KEEP_TAG, until.as_str())]).await
}

/// Empties tags of a table, where it has them.
pub(super) async fn clear<const N: usize>(side: &Side, names: [&str; N]) -> Result<(), Error> {
    if side.store().lacks().await?.contains_key(&Feature::Tags) {
        return Ok(());
    }
    let tags = side.store().tags(side.table()).await?;
    if names.iter().any(|name| tags.get(*name).is_some_and(|value| !value.is_empty())) {
        tag(side, names.map(|name| (name, ""))).await?;
    }
    Ok(())
}

/// Tags a table, where the store has tags.
pub(super) async fn tag<const N: usize>(side: &Side, tags: [(&str, &str); N]) -> Result<(), Error> {
    if side.store().lacks().await?.contains_key(&Feature::Tags) {
        return Ok(());
    }
    let tags: Tags = tags.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(side.store().change_table(side.table(), &TableChange::Tag(tags)).await?)
}
