//! Data by the schema: which entity is meant, the values that are given, the store they are in.
//!
//! `keiba.Race` is entity `Race` of system `keiba`, looked for where `larder check` looks. Only commands that put
//! something make a store where there is none; the others say that there is none.

pub(crate) mod chosen;
pub(crate) mod lines;
mod show;

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use larder::store::{STORE_VARIABLE, Skipped};
use larder::text::{self, Reader};
use larder::{Address, Entry, Error, Fields, Schema, Shelf, Store, System};
use larder_model::{AttributeValue, Item, KeyType, Number};
use larder_schema::schema::{KeyAttribute, KeySource, Lifecycle, Role};
use larder_schema::{Entity, Field, Table, Type, closest};
use serde_json::{Map, Value as Json};

use crate::commands::plan;
use crate::{held, project, terminal};

pub(crate) use larder::text::hidden;
pub(crate) use show::{cell, key_text, moment, object, plain, record, records, table};

/// There is no such record.
pub(crate) const NOT_FOUND: u8 = 4;

/// Which entity, where it is kept, and how it is shown.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The entity, such as keiba.Race
    #[arg(value_name = "SYSTEM.ENTITY")]
    entity: String,
    /// Where the tables are: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    store: Address,
    /// Print JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Print secrets too
    #[arg(long, requires = "json")]
    pub(crate) show_secrets: bool,
}

/// A field and its value, as they are written.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, text)) if !name.is_empty() => {
                Ok(Self { name: name.to_owned(), text: text.to_owned() })
            }
            _ => Err("a field is given as name=value".to_owned()),
        }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.text)
    }
}

/// One record, by the fields of its key or by the key as it is stored.
#[derive(Debug, Args)]
pub(crate) struct Key {
    /// The fields of the key
    #[arg(value_name = "NAME=VALUE", required_unless_present = "key")]
    fields: Vec<Given>,
    /// The partition key as it is stored, such as RACE#202405021211
    #[arg(long, conflicts_with = "fields", value_name = "KEY")]
    key: Option<String>,
    /// The sort key as it is stored [default: that of the entity, where all have the same]
    #[arg(long, requires = "key", value_name = "KEY")]
    sort: Option<String>,
}

impl Key {
    pub(crate) fn fields(&self, kind: &Kind) -> Result<Fields, String> {
        match &self.key {
            Some(key) => kind.read_key(key, self.sort.as_deref()),
            None => kind.key_fields(&self.fields),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.fields.iter().map(ToString::to_string);
        let raw = self.key.iter().chain(&self.sort).cloned();
        f.write_str(&given.chain(raw).collect::<Vec<_>>().join(" "))
    }
}

/// What a command does with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads or changes what is there.
    Existing,
    /// Makes the store if there is none.
    Create,
}

/// Refuses a directory that holds no store.
pub(crate) fn check_there(store: &Address) -> Result<(), String> {
    match store {
        Address::Directory(path) if !larder_storage::Store::is_in(path) => Err(format!(
            "there is no store in {}: name another with --store, or make one with `larder apply`",
            path.display()
        )),
        Address::Directory(_) | Address::Memory | Address::DynamoDb { .. } => Ok(()),
    }
}

/// Tells what a listing left out because it cannot be read.
pub(crate) fn tell_unread(unread: &larder::Unread) {
    if !unread.is_empty() {
        eprintln!("larder: {unread}; --strict makes that an error");
    }
}

/// Reading around what is damaged, if that is wanted.
#[derive(Debug)]
pub(crate) struct Around(Option<RefCell<Skipped>>);

impl Around {
    pub(crate) fn of(store: &Address, wanted: bool) -> Result<Self, String> {
        match store {
            Address::DynamoDb { .. } if wanted => {
                Err("--skip-damaged reads a store's directory: stop its server and name it with --store"
                    .to_owned())
            }
            Address::Directory(path) if wanted && held::served(path).is_some() => {
                Err(format!("--skip-damaged reads {} itself: stop the server that has it", path.display()))
            }
            _ => Ok(Self(wanted.then(RefCell::default))),
        }
    }

    pub(crate) fn on(&self, store: Store) -> Store {
        let Some(skipped) = &self.0 else { return store };
        let (store, names) = store.skipping_damage();
        skipped.replace(names);
        store
    }

    /// Tells what was left out.
    pub(crate) fn tell(&self) -> ExitCode {
        let names = self.0.as_ref().map_or_else(Vec::new, |skipped| skipped.borrow().names());
        for name in &names {
            eprintln!("larder: left out, because it is damaged: {name}");
        }
        if names.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Target {
    /// Where the tables are.
    pub(crate) fn store(&self) -> &Address {
        &self.store
    }

    /// The entity that is meant.
    pub(crate) fn kind(&self) -> Result<Kind, String> {
        Kind::named(&self.entity)
    }

    /// Opens the store and works on the records of the entity.
    pub(crate) fn work<T>(
        &self,
        kind: &Kind,
        access: Access,
        work: impl AsyncFnOnce(Shelf<Entry>) -> Result<T, Error>,
    ) -> Result<T, String> {
        self.work_through(kind, access, |store| store, work)
    }

    /// The same, on what is made of the store.
    pub(crate) fn work_through<T>(
        &self,
        kind: &Kind,
        access: Access,
        through: impl FnOnce(Store) -> Store,
        work: impl AsyncFnOnce(Shelf<Entry>) -> Result<T, Error>,
    ) -> Result<T, String> {
        if access == Access::Existing {
            check_there(&self.store)?;
        }
        let done = plan::runtime()?.block_on(async {
            let store = through(held::open(&self.store).await?);
            let system = System::open_with(kind.schema.clone(), store, project::environment()).await?;
            work(system.entries(&kind.name).expect("the schema has it")).await
        });
        done.map_err(|error| told(&self.store, &error))
    }

    /// Shows one record.
    pub(crate) fn show(&self, kind: &Kind, entry: &Entry) -> Result<(), String> {
        terminal::print(&record(kind, entry, self.json, self.show_secrets))
    }

    pub(crate) fn not_found(&self, key: &Key) -> ExitCode {
        eprintln!("larder: {}", self.missing(key));
        ExitCode::from(NOT_FOUND)
    }

    pub(crate) fn missing(&self, key: &Key) -> String {
        format!("there is no {} {key}", self.entity)
    }
}

/// An entity of a schema.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) schema: Schema,
    name: String,
}

impl Kind {
    /// `keiba.Race`.
    pub(crate) fn named(text: &str) -> Result<Self, String> {
        let Some((system, name)) = text.rsplit_once('.') else { return Err(without_system(text)) };
        Self::of(system_named(system)?, name)
    }

    /// An entity of a schema, by its name.
    pub(crate) fn of(schema: Schema, name: &str) -> Result<Self, String> {
        if schema.entity(name).is_none() {
            let entities = schema.tables.iter().flat_map(|table| &table.entities);
            let known: Vec<&str> = entities.map(|entity| entity.name.as_str()).collect();
            return Err(unknown(&schema.system, "entity", name, &known));
        }
        Ok(Self { schema, name: name.to_owned() })
    }

    pub(crate) fn entity(&self) -> &Entity {
        self.found().1
    }

    pub(crate) fn table(&self) -> &Table {
        self.found().0
    }

    fn found(&self) -> (&Table, &Entity) {
        self.schema.entity(&self.name).expect("it was found when this was made")
    }

    fn field(&self, name: &str) -> Result<&Field, String> {
        self.entity().field(name).ok_or_else(|| {
            let known: Vec<&str> = self.entity().fields.iter().map(|field| field.name.as_str()).collect();
            unknown(&self.name, "field", name, &known)
        })
    }

    pub(crate) fn lifecycle(&self, name: &str) -> Result<&Lifecycle, String> {
        self.entity().lifecycle(name).ok_or_else(|| {
            let known: Vec<&str> = self.entity().lifecycles.iter().map(|known| known.name.as_str()).collect();
            unknown(&self.name, "lifecycle", name, &known)
        })
    }

    /// The values of fields, each by its type.
    pub(crate) fn fields(&self, given: &[Given]) -> Result<Fields, String> {
        self.fields_by(given, |reader| reader)
    }

    /// The values of the fields that a key is made of, and of no others: which record is meant would not depend on them.
    fn key_fields(&self, given: &[Given]) -> Result<Fields, String> {
        let fields = self.fields(given)?;
        let of_key = self.entity().key_fields();
        let Some(other) = fields.keys().find(|name| !of_key.contains(*name)) else { return Ok(fields) };
        let is_given = |name: &&String| self.entity().field(name).is_some_and(Field::is_given);
        let names: Vec<&str> = of_key.iter().filter(is_given).map(String::as_str).collect();
        let names = names.join(", ");
        Err(format!("`{other}` is not in the key of {}, which is made of {names}: leave it out", self.name))
    }

    fn fields_by<'a>(
        &'a self,
        given: &[Given],
        reading: impl Fn(Reader<'a>) -> Reader<'a>,
    ) -> Result<Fields, String> {
        let mut fields = Fields::new();
        for Given { name, text } in given {
            let field = self.field(name)?;
            let value = reading(Reader::of(&self.schema, field)).text(&field.kind, name, text)?;
            if fields.insert(name.clone(), value).is_some() {
                return Err(format!("`{name}` is given twice"));
            }
        }
        Ok(fields)
    }

    /// The values of a type that is no field's own, such as those that name a partition.
    pub(crate) fn value(&self, kind: &Type, name: &str, text: &str) -> Result<larder::Value, String> {
        Reader::open(&self.schema).text(kind, name, text)
    }

    /// The fields to write: a document with those given by name over it. What the document has besides, because it
    /// was read from a store, is worked out again. A value that is not of its type is taken as it came, and told with all
    /// else that is wrong when it is checked.
    pub(crate) fn draft(&self, document: Option<Json>, given: &[Given]) -> Result<Fields, String> {
        let mut fields = Fields::new();
        let members = match document {
            None => Map::new(),
            Some(Json::Object(members)) => members,
            Some(_) => return Err("the document is no JSON object".to_owned()),
        };
        for (name, json) in members {
            if json.is_null() || (self.entity().field(&name).is_none() && self.is_told(&name)) {
                continue;
            }
            let field = self.field(&name)?;
            if field.is_given() {
                let reader = Reader::of(&self.schema, field).as_it_came();
                fields.insert(name.clone(), reader.json(&field.kind, &name, &json)?);
            }
        }
        for (name, value) in self.fields_by(given, Reader::as_it_came)? {
            if !self.field(&name)?.is_given() {
                return Err(format!("`{name}` is worked out from other fields: leave it out"));
            }
            fields.insert(name, value);
        }
        Ok(fields)
    }

    /// Fields as JSON that [`Kind::draft`] takes back.
    pub(crate) fn json(&self, fields: &Fields) -> Json {
        let known = self.entity().fields.iter();
        let member = |field: &Field| {
            let value = fields.get(&field.name)?;
            Some((field.name.clone(), text::to_json(&self.schema, &field.kind, value)))
        };
        Json::Object(known.filter_map(member).collect())
    }

    /// Whether a name stands for what is shown with a record and is no field of it.
    fn is_told(&self, name: &str) -> bool {
        self.entity().lifecycle(name).is_some()
            || self.table().ttl.as_ref().is_some_and(|ttl| ttl.name == name)
            || name == show::FRESH_UNTIL
    }

    /// Whether a number of the key is left to be taken by `create`.
    pub(crate) fn lacks_sequence(&self, fields: &Fields) -> bool {
        let mut all = self.entity().fields.iter();
        all.any(|field| {
            field.kind == Type::Sequence && field.role != Role::Let && !fields.contains_key(&field.name)
        })
    }

    /// The fields that a stored key says.
    fn read_key(&self, key: &str, sort: Option<&str>) -> Result<Fields, String> {
        let (table, entity) = self.found();
        let mut item = Item::new();
        item.insert(table.partition.attribute.clone(), stored_key(&table.partition, key)?);
        match (&table.sort, sort, &entity.sort) {
            (Some(attribute), Some(sort), _) => {
                item.insert(attribute.attribute.clone(), stored_key(attribute, sort)?);
            }
            (Some(attribute), None, Some(KeySource::Template(template)))
                if template.holes().next().is_none() =>
            {
                item.insert(attribute.attribute.clone(), AttributeValue::S(template.prefix(&Fields::new())));
            }
            (Some(attribute), None, _) => {
                return Err(format!("the key has a second part, `{}`: add --sort", attribute.name));
            }
            (None, Some(_), _) => return Err(format!("{} has no sort key", self.name)),
            (None, None, _) => {}
        }
        self.schema.read_item(table, entity, &item).map_err(|error| error.to_string())
    }
}

/// What to write instead of an entity's name alone, from the schemas that are here.
fn without_system(text: &str) -> String {
    let mut known = Vec::new();
    for path in project::schemas(&[]).unwrap_or_default() {
        if let Ok(Some(schema)) = project::load(&path).map(|loaded| loaded.schema) {
            let entities = schema.tables.iter().flat_map(|table| &table.entities);
            known.extend(
                entities.map(|entity| (entity.name.clone(), format!("{}.{}", schema.system, entity.name))),
            );
        }
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    let meant: Vec<&str> = match closest(text, &names) {
        Some(close) => {
            known.iter().filter(|(name, _)| name == close).map(|(_, whole)| whole.as_str()).collect()
        }
        None => Vec::new(),
    };
    let hint = match (meant.is_empty(), known.is_empty()) {
        (false, _) => format!("did you mean {}?", meant.join(" or ")),
        (true, false) => {
            let whole: Vec<&str> = known.iter().map(|(_, whole)| whole.as_str()).collect();
            format!("there are {}", whole.join(", "))
        }
        (true, true) => "write it as SYSTEM.ENTITY; `larder init` begins a schema".to_owned(),
    };
    format!("`{text}` names no entity of a system; {hint}")
}

/// The schema of a system, or of a file.
pub(crate) fn system_named(name: &str) -> Result<Schema, String> {
    system_at(&project::named(name)?)
}

pub(crate) fn system_at(path: &Path) -> Result<Schema, String> {
    let broken = || format!("{} has errors: nothing was done", path.display());
    terminal::sound(project::load(path)?).ok_or_else(broken)
}

fn stored_key(attribute: &KeyAttribute, text: &str) -> Result<AttributeValue, String> {
    let stored = match attribute.kind {
        KeyType::S => Some(AttributeValue::S(text.to_owned())),
        KeyType::N => text.parse::<Number>().ok().map(AttributeValue::N),
        KeyType::B => STANDARD.decode(text).ok().map(AttributeValue::B),
    };
    let wanted = if attribute.kind == KeyType::N { "a number" } else { "bytes in base64" };
    stored.ok_or_else(|| format!("`{}` is `{text}`, but {wanted} is expected", attribute.name))
}

/// What a store said, and the next step.
pub(crate) fn told(store: &Address, error: &Error) -> String {
    match error {
        Error::Store(error) => plan::advise(store, error),
        _ => error.to_string(),
    }
}

/// A name that nobody has, and the one that may be meant.
pub(crate) fn unknown(owner: &str, what: &str, name: &str, known: &[&str]) -> String {
    let hint = match closest(name, known) {
        Some(close) => format!("did you mean `{close}`?"),
        None if known.is_empty() => "it has none".to_owned(),
        None => format!("there are {}", known.join(", ")),
    };
    format!("{owner} has no {what} `{name}`; {hint}")
}
