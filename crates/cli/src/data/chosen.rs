//! Which records are meant when many are: systems, entities, or all there are, and where they are kept.

use std::collections::BTreeMap;

use clap::Args;
use larder::store::STORE_VARIABLE;
use larder::{Address, Error, Schema, Store, System};

use super::{Kind, system_at, system_named};
use crate::project;

/// Where data is kept.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// Where the tables are: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    pub(crate) store: Address,
}

/// A system, and some of its entities by name.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) schema: Schema,
    /// `None`: all of them, and what no entity knows.
    pub(crate) entities: Option<Vec<String>>,
}

impl Chosen {
    pub(crate) fn has(&self, entity: Option<&str>) -> bool {
        match (&self.entities, entity) {
            (None, _) => true,
            (Some(entities), Some(entity)) => entities.iter().any(|known| known == entity),
            (Some(_), None) => false,
        }
    }

    /// Its entities, in the order of the schema.
    pub(crate) fn kinds(&self) -> Result<Vec<Kind>, String> {
        let all = self.schema.tables.iter().flat_map(|table| &table.entities);
        let wanted = all.filter(|entity| self.has(Some(&entity.name)));
        wanted.map(|entity| Kind::of(self.schema.clone(), &entity.name)).collect()
    }
}

/// What is meant by names of systems and entities; without any, every system here.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<Chosen>, String> {
    if names.is_empty() {
        let all = project::schemas(&[])?.into_iter();
        return all.map(|path| Ok(Chosen { schema: system_at(&path)?, entities: None })).collect();
    }
    let mut found: Vec<Chosen> = Vec::new();
    for name in names {
        // A file's name has a dot in it too.
        let (schema, entity) = match (project::named(name), name.rsplit_once('.')) {
            (Ok(path), _) => (system_at(&path)?, None),
            (Err(_), Some((system, entity))) => {
                let kind = Kind::of(system_named(system)?, entity)?;
                (kind.schema, Some(entity.to_owned()))
            }
            (Err(error), None) => return Err(error),
        };
        match found.iter_mut().find(|known| known.schema.system == schema.system) {
            None => found.push(Chosen { schema, entities: entity.map(|entity| vec![entity]) }),
            Some(known) => match (&mut known.entities, entity) {
                (Some(entities), Some(entity)) if !entities.contains(&entity) => entities.push(entity),
                (Some(_), Some(_)) | (None, _) => {}
                (entities, None) => *entities = None,
            },
        }
    }
    Ok(found)
}

/// Systems that are opened on one store as they are met.
#[derive(Debug)]
pub(crate) struct Systems {
    store: Store,
    open: BTreeMap<String, System>,
}

impl Systems {
    pub(crate) fn on(store: Store) -> Self {
        Self { store, open: BTreeMap::new() }
    }

    /// Opened before, or now.
    pub(crate) async fn with(&mut self, schema: &Schema) -> Result<&System, Error> {
        let name = schema.system.clone();
        if !self.open.contains_key(&name) {
            let store = self.store.clone();
            let system = System::open_with(schema.clone(), store, project::environment()).await?;
            self.open.insert(name.clone(), system);
        }
        Ok(&self.open[&name])
    }
}
