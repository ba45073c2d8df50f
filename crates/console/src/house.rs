//! What the console looks at: a store, the systems that schemas make of it, and its tables.
//!
//! Schemas are read when a page needs them and looked at again a moment later, so that an edited file is seen at the next page.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder::store::Deployed;
use larder::{Entry, Environment, Shelf, Store, System, UnixTime};
use larder_model::{AttributeValue, Item, KeyAttribute, KeyType, TableDefinition, TableName};
use larder_schema::{CHUNK, Checker, Entity, Loaded, PACKED, Schema, Table};
use parking_lot::Mutex;

use crate::tails::Tails;
use crate::work::Works;

/// How long schemas are believed.
const SCHEMAS_LAST: Duration = Duration::from_secs(1);

/// Reads the schemas that are meant, from the disk.
pub type Schemas = Box<dyn Fn() -> Vec<SchemaFile> + Send + Sync>;

/// A schema, or why it could not be read.
#[derive(Clone, Debug)]
pub struct SchemaFile {
    /// Where it is.
    pub path: PathBuf,
    /// What came of it; the text of an error if it cannot be read at all.
    pub loaded: Result<Loaded, String>,
}

/// The store and what is known of it.
pub(crate) struct House {
    store: Store,
    environment: Environment,
    schemas: Arc<Schemas>,
    known: Mutex<Option<(Instant, Arc<Known>)>>,
    works: Works,
    tails: Tails,
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The schemas as they are now.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) files: Vec<KnownFile>,
    /// Systems that are not there any more, or are broken: what they said to be secret stays so.
    past: Vec<(PathBuf, Arc<Open>)>,
}

/// What of a table is not to be shown.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    names: BTreeSet<String>,
    /// Where a schema could never be read: all that is known to be no secret.
    open: Option<BTreeSet<String>>,
}

impl Secrets {
    pub(crate) fn hide(&self, attribute: &str) -> bool {
        self.names.contains(attribute) || self.open.as_ref().is_some_and(|open| !open.contains(attribute))
    }
}

/// One schema, and the system it makes of the store.
#[derive(Debug)]
pub(crate) struct KnownFile {
    pub(crate) path: PathBuf,
    pub(crate) loaded: Result<Loaded, String>,
    /// There when nothing is wrong with it.
    pub(crate) open: Option<Arc<Open>>,
    /// What the environment does not fit.
    pub(crate) wrong: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) system: System,
    /// What the store calls each table, in the order of the schema.
    pub(crate) names: Vec<TableName>,
    /// What the schema says of each.
    definitions: Vec<TableDefinition>,
    checkers: Vec<Checker>,
}

/// A table of a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownTable<'a> {
    pub(crate) open: &'a Open,
    pub(crate) table: &'a Table,
    pub(crate) checker: &'a Checker,
}

impl House {
    pub(crate) fn new(store: Store, schemas: Arc<Schemas>, environment: Environment) -> Self {
        Self {
            store,
            environment,
            schemas,
            known: Mutex::new(None),
            works: Works::default(),
            tails: Tails::default(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// What takes a while.
    pub(crate) fn works(&self) -> &Works {
        &self.works
    }

    /// Tables whose changes are watched from outside.
    pub(crate) fn tails(&self) -> &Tails {
        &self.tails
    }

    pub(crate) fn now(&self) -> UnixTime {
        self.store.clock().now()
    }

    /// The schemas, read a moment ago or now.
    pub(crate) async fn known(&self) -> Arc<Known> {
        if let Some((read, known)) = &*self.known.lock()
            && read.elapsed() < SCHEMAS_LAST
        {
            return Arc::clone(known);
        }
        let schemas = Arc::clone(&self.schemas);
        let files = tokio::task::spawn_blocking(move || schemas()).await.unwrap_or_default();
        let before = self.known.lock().as_ref().map(|(_, known)| Arc::clone(known));
        // A system has a cache and counters of its own: it stays while its schema does.
        let same = before.clone().filter(|known| {
            known.files.len() == files.len()
                && known.files.iter().zip(&files).all(|(old, new)| old.is_of(new))
        });
        let known = same.unwrap_or_else(|| {
            let files = files.into_iter().map(|file| self.open(file));
            let mut known = Known { files: files.collect(), past: Vec::new() };
            known.past = before.map(|before| before.gone_from(&known)).unwrap_or_default();
            Arc::new(known)
        });
        *self.known.lock() = Some((Instant::now(), Arc::clone(&known)));
        known
    }

    fn open(&self, file: SchemaFile) -> KnownFile {
        let SchemaFile { path, loaded } = file;
        let schema = loaded.as_ref().ok().and_then(|loaded| loaded.schema.clone());
        let opened = schema.map(|schema| self.open_system(schema, &loaded));
        let (open, wrong) = match opened {
            None => (None, None),
            Some(Ok(open)) => (Some(Arc::new(open)), None),
            Some(Err(wrong)) => (None, Some(wrong)),
        };
        KnownFile { path, loaded, open, wrong }
    }

    fn open_system(&self, schema: Schema, loaded: &Result<Loaded, String>) -> Result<Open, String> {
        let files = loaded.as_ref().map(|loaded| loaded.files.as_slice()).unwrap_or_default();
        let shared = Arc::new(schema.clone());
        let checkers =
            schema.tables.iter().filter_map(|table| Checker::new(Arc::clone(&shared), &table.name, files));
        let checkers = checkers.collect();
        let setups = schema
            .tables(&self.environment)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let definitions: Vec<TableDefinition> = setups.into_iter().map(|setup| setup.definition).collect();
        let names = definitions.iter().map(|definition| definition.name.clone()).collect();
        let system = System::on(schema, self.store.clone(), self.environment.clone());
        Ok(Open { system: system.map_err(|error| error.to_string())?, names, definitions, checkers })
    }

    /// A table, if there is one of this name.
    pub(crate) async fn table(
        &self,
        name: &TableName,
        known: &Known,
    ) -> Result<Option<Deployed>, larder::store::Error> {
        self.store_of(name, known).describe(name).await
    }

    /// The store, where this table is.
    pub(crate) fn store_of(&self, name: &TableName, known: &Known) -> Store {
        let region = known.table(name).and_then(|known| known.table.region.as_deref());
        self.store.at(region)
    }
}

impl KnownFile {
    fn is_of(&self, file: &SchemaFile) -> bool {
        self.path == file.path
            && match (&self.loaded, &file.loaded) {
                (Ok(old), Ok(new)) => old.files == new.files && old.schema == new.schema,
                (Err(old), Err(new)) => old == new,
                _ => false,
            }
    }

    /// What it is called: the system, or the file where that is not known.
    pub(crate) fn name(&self) -> String {
        match &self.open {
            Some(open) => open.schema().system.clone(),
            None => self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(),
        }
    }
}

impl Known {
    pub(crate) fn systems(&self) -> impl Iterator<Item = &Open> {
        self.files.iter().filter_map(|file| file.open.as_deref())
    }

    /// The systems of these and of those before that a newer reading lacks.
    fn gone_from(&self, newer: &Self) -> Vec<(PathBuf, Arc<Open>)> {
        let now =
            self.files.iter().filter_map(|file| Some((file.path.clone(), Arc::clone(file.open.as_ref()?))));
        let all = now.chain(self.past.iter().cloned());
        all.filter(|(_, open)| newer.system(&open.schema().system).is_none()).collect()
    }

    /// What is not shown of a table, or of an item of it: whatever any system says to be secret, or to be made of it.
    pub(crate) fn secrets(&self, table: &TableName, item: Option<&Item>) -> Secrets {
        let past = self.past.iter().map(|(_, open)| &**open);
        let doubtful =
            |file: &KnownFile| file.open.is_none() && !self.past.iter().any(|(path, _)| *path == file.path);
        let mut open = self.files.iter().any(doubtful).then(BTreeSet::new);
        let mut names = BTreeSet::new();
        for known in self.systems().chain(past).filter_map(|open| open.table(table)) {
            let schema = known.open.schema();
            // What is of no entity may still hold what is a secret in one.
            let kind = item.and_then(|item| schema.entity_of(known.table, item));
            let entities = known.table.entities.iter();
            for entity in entities.filter(|entity| kind.is_none_or(|kind| kind.name == entity.name)) {
                let (secret, plain): (Vec<_>, Vec<_>) =
                    entity.fields.iter().partition(|field| schema.reveals_secret(entity, field));
                if !secret.is_empty() {
                    // Where it is when it was packed or split.
                    names.extend([PACKED.to_owned(), CHUNK.to_owned()]);
                }
                names.extend(secret.into_iter().map(|field| field.attribute.clone()));
                if let Some(open) = &mut open {
                    open.extend(plain.into_iter().map(|field| field.attribute.clone()));
                }
            }
            let keys = std::iter::once(&known.table.partition).chain(known.table.sort.as_ref());
            open.iter_mut().for_each(|open| open.extend(keys.clone().map(|key| key.attribute.clone())));
        }
        Secrets { names, open }
    }

    /// The entity that an item of a table is a record of.
    pub(crate) fn kind(&self, table: &TableName, item: &Item) -> Option<Kind<'_>> {
        self.systems().filter_map(|open| open.table(table)).find_map(|known| known.kind(item))
    }

    pub(crate) fn system(&self, name: &str) -> Option<&Open> {
        self.systems().find(|open| open.schema().system == name)
    }

    /// The table of a schema that the store calls so.
    pub(crate) fn table(&self, name: &TableName) -> Option<KnownTable<'_>> {
        self.systems().find_map(|open| open.table(name))
    }
}

impl Open {
    pub(crate) fn schema(&self) -> &Schema {
        self.system.schema()
    }

    /// What the schema says of a table.
    pub(crate) fn definition(&self, name: &TableName) -> Option<&TableDefinition> {
        self.definitions.iter().find(|definition| definition.name == *name)
    }

    fn table(&self, name: &TableName) -> Option<KnownTable<'_>> {
        let at = self.names.iter().position(|known| known == name)?;
        Some(KnownTable { open: self, table: self.schema().tables.get(at)?, checker: self.checkers.get(at)? })
    }

    /// An entity of it: its table as the store calls it and as the schema has it, and its records.
    pub(crate) fn entity(&self, name: &str) -> Option<Kind<'_>> {
        let (at, table) = self
            .schema()
            .tables
            .iter()
            .enumerate()
            .find(|(_, table)| table.entities.iter().any(|it| it.name == name))?;
        let entity = table.entities.iter().find(|entity| entity.name == name)?;
        Some(Kind { open: self, table, entity, name: self.names.get(at)?, shelf: self.system.entries(name)? })
    }
}

impl<'a> KnownTable<'a> {
    /// The entity that an item is a record of.
    fn kind(&self, item: &Item) -> Option<Kind<'a>> {
        let entity = self.open.schema().entity_of(self.table, item)?;
        self.open.entity(&entity.name)
    }
}

/// An entity of a system that is open.
#[derive(Clone, Debug)]
pub(crate) struct Kind<'a> {
    pub(crate) open: &'a Open,
    pub(crate) table: &'a Table,
    pub(crate) entity: &'a Entity,
    pub(crate) name: &'a TableName,
    pub(crate) shelf: Shelf<Entry>,
}

impl Kind<'_> {
    pub(crate) fn schema(&self) -> &Schema {
        self.open.schema()
    }

    /// `shops.Shop`
    pub(crate) fn full_name(&self) -> String {
        format!("{}.{}", self.schema().system, self.entity.name)
    }
}

/// The value of a key attribute that is written as text; bytes are base64.
pub(crate) fn key_value(attribute: &KeyAttribute, text: &str) -> Result<AttributeValue, String> {
    use base64::Engine as _;
    let value = match attribute.kind {
        KeyType::S => Some(AttributeValue::S(text.to_owned())),
        KeyType::N => text.parse().ok().map(AttributeValue::N),
        KeyType::B => base64::engine::general_purpose::STANDARD.decode(text).ok().map(AttributeValue::B),
    };
    let wanted = if attribute.kind == KeyType::N { "a number" } else { "bytes in base64" };
    value.ok_or_else(|| format!("`{}` is `{text}`, and {wanted} is wanted", attribute.name))
}

/// The text of a key's value, as [`key_value`] reads it.
pub(crate) fn key_text(value: &AttributeValue) -> String {
    use base64::Engine as _;
    match value {
        AttributeValue::S(text) => text.clone(),
        AttributeValue::N(number) => number.to_string(),
        AttributeValue::B(bytes) => base64::engine::general_purpose::STANDARD.encode(bytes),
        _ => String::new(),
    }
}
