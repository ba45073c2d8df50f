//! What is in the tables of a system, counted.
//!
//! [`size`] asks the store, which knows at once and may not know the latest: DynamoDB counts about every six hours.
//! [`System::census`] reads the whole table and tells what the schema makes of each item. It is for people who
//! operate tables and have seen the price: what an entity says about `scan` binds programs, not this.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use larder_model::{Item, TableName, UnixTime};
use larder_ops::{ReturnCapacity, Scan};
use larder_schema::{ABSENT, CHUNK, PACKED, PARTS};

use crate::entity::Core;
use crate::shelf::{self, Entry};
use crate::store::{self, Store};
use crate::{Error, System};

/// How many keys of items that belong to no entity are named.
const STRANGERS_NAMED_MAX: usize = 5;
/// Stands for what is written in place of a state and is none.
const NO_STATE: &str = "no known state";
const HOUR_SECONDS: i64 = 60 * 60;
const DAY_SECONDS: i64 = 24 * HOUR_SECONDS;

/// How many items there are, and how large they are together.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// library.books().create(NewBook::new("1")).await?;
/// let table = larder_model::TableName::new("library")?;
/// let size = larder::census::size(library.store(), &table).await?.expect("there is such a table");
/// assert_eq!((size.items, size.indexes[0].name.as_str()), (1, "ByAuthor"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// What the store calls the table or index.
    pub name: String,
    /// How many items.
    pub items: u64,
    /// Their size, as DynamoDB counts it.
    pub bytes: u64,
    /// Of a table.
    pub indexes: Vec<Size>,
}

/// How many items of a table expire in the seconds from now on, counted up to a bound and without reading any of them.
/// `None`: only a store of this process keeps account of that.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::{NewPage, Pages};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// pages.pages().put(NewPage { url: "https://a.com/".to_owned(), text: String::new() }).await?;
/// let table = pages.store().list_tables().await?.remove(0);
/// let week = larder::census::expiring(pages.store(), &table, 7 * 86_400, 1000)?;
/// assert_eq!(week, Some(1));
/// # Ok(())
/// # }
/// ```
pub fn expiring(
    store: &Store,
    table: &TableName,
    seconds: i64,
    most: usize,
) -> Result<Option<u64>, store::Error> {
    store.inside().map_or(Ok(None), |inside| inside.expiring(table, seconds, most))
}

/// What the store itself says about a table; `None` when there is none.
pub async fn size(store: &Store, table: &TableName) -> Result<Option<Size>, store::Error> {
    let answer = store.sdk_client().await?.describe_table().table_name(table.as_str()).send().await;
    let described = match answer {
        Ok(answer) => {
            answer.table.unwrap_or_else(|| aws_sdk_dynamodb::types::TableDescription::builder().build())
        }
        Err(error) => {
            let place = store.place();
            return match error.as_service_error() {
                Some(service) if service.is_resource_not_found_exception() => Ok(None),
                Some(service) => Err(store::Error::Refused {
                    code: service.code().unwrap_or("an unnamed error").to_owned(),
                    message: service.message().unwrap_or("it was refused without a reason").to_owned(),
                }),
                None => {
                    let causes =
                        std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
                    let cause = causes.last().map(ToString::to_string).unwrap_or_default();
                    Err(store::Error::Unreachable { place, cause })
                }
            };
        }
    };
    let size = |name: Option<&str>, items: Option<i64>, bytes: Option<i64>| Size {
        name: name.unwrap_or_default().to_owned(),
        items: items.and_then(|items| u64::try_from(items).ok()).unwrap_or(0),
        bytes: bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
        indexes: Vec::new(),
    };
    let global = described.global_secondary_indexes().iter();
    let global = global.map(|index| size(index.index_name(), index.item_count(), index.index_size_bytes()));
    let local = described.local_secondary_indexes().iter();
    let local = local.map(|index| size(index.index_name(), index.item_count(), index.index_size_bytes()));
    let indexes = global.chain(local).collect();
    Ok(Some(Size {
        indexes,
        ..size(Some(table.as_str()), described.item_count(), described.table_size_bytes())
    }))
}

/// What the items of one table are.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// library.books().create(NewBook::new("1")).await?;
/// let census = library.census("library", |_| ()).await?.expect("it holds books");
/// assert_eq!((census.entities["Book"].fresh, census.entities["Loan"].items), (1, 0));
/// assert_eq!((census.strangers.items, census.items()), (0, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Census {
    /// By the names of the schema, those without items included.
    pub entities: BTreeMap<String, Count>,
    /// Parts of records that are too large for one item.
    pub parts: Size,
    /// What cannot be read as a record of any entity.
    pub strangers: Size,
    /// Keys of some of them, as people read them.
    pub stranger_keys: Vec<String>,
    /// What holds no record: the memory of an absence, a load under way, a probe.
    pub markers: u64,
    /// Read units, as far as the store told.
    pub units: f64,
}

impl Census {
    /// All that were read.
    pub fn items(&self) -> u64 {
        let records: u64 = self.entities.values().map(|count| count.items).sum();
        records + self.parts.items + self.strangers.items + self.markers
    }
}

/// The items of one entity.
///
/// ```
/// # larder::schema!("examples/shops.larder");
/// # use shops::{NewShop, Shops};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let shops = Shops::open(larder::Store::memory().await).await?;
/// shops.shops().create(NewShop::new("a.de")).await?;
/// let table = &shops.schema().tables[0].name;
/// let census = shops.census(table, |_| ()).await?.expect("it holds shops");
/// assert_eq!(census.entities["Shop"].states["crawl"]["never"], 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many items.
    pub items: u64,
    /// Their size, as DynamoDB counts it.
    pub bytes: u64,
    /// Those that are given to readers.
    pub fresh: u64,
    /// Those past their time that are still stored.
    pub expired: u64,
    /// Of the fresh ones, those that end within an hour.
    pub within_hour: u64,
    /// Of the fresh ones, those that end within a day, those within an hour included.
    pub within_day: u64,
    /// How many are in each state, by lifecycle. What the schema knows as no state is counted under words that no
    /// state can be called.
    pub states: BTreeMap<String, BTreeMap<String, u64>>,
}

impl System {
    /// Reads a whole table, by its name in the schema, and counts what is in it. `tell` hears after each page how
    /// many items were read. `None` for a table that the schema does not have, or that has no entities.
    pub async fn census(&self, table: &str, mut tell: impl FnMut(u64)) -> Result<Option<Census>, Error> {
        let Some(table) = self.schema().tables.iter().find(|known| known.name == table) else {
            return Ok(None);
        };
        let entities = table.entities.iter().filter_map(|entity| self.core(&entity.name));
        let cores: Vec<_> = entities.collect();
        let Some(first) = cores.first() else { return Ok(None) };
        let mut census = Census::default();
        for core in &cores {
            let states =
                core.entity().lifecycles.iter().map(|lifecycle| (lifecycle.name.clone(), BTreeMap::new()));
            let count = Count { states: states.collect(), ..Count::default() };
            census.entities.insert(core.name().to_owned(), count);
        }
        let mut start = None;
        loop {
            let request =
                Scan { start, capacity: ReturnCapacity::Total, ..Scan::of(first.table_name.clone()) };
            let page = first.store.scan(request).await?;
            census.units += page.units;
            for item in &page.items {
                census.take(self, &cores, item);
            }
            tell(census.items());
            start = page.last_key;
            if start.is_none() {
                return Ok(Some(census));
            }
        }
    }
}

impl Census {
    fn take(&mut self, system: &System, cores: &[Arc<Core>], item: &Item) {
        let bytes = item.size() as u64;
        if item.contains(CHUNK) {
            self.parts.items += 1;
            self.parts.bytes += bytes;
            return;
        }
        if item.contains(ABSENT) {
            self.markers += 1;
            return;
        }
        let table = cores.first().map(|core| core.table());
        let entity = table.and_then(|table| system.schema().entity_of(table, item));
        let core = entity.and_then(|entity| cores.iter().find(|core| core.name() == entity.name));
        let Some(core) = core.filter(|core| conforms(core, item)) else {
            self.strangers.items += 1;
            self.strangers.bytes += bytes;
            if let (true, Some(core)) = (self.stranger_keys.len() < STRANGERS_NAMED_MAX, cores.first()) {
                self.stranger_keys.push(core.key_text(&core.key_of(item)));
            }
            return;
        };
        let count = self.entities.entry(core.name().to_owned()).or_default();
        count.items += 1;
        count.bytes += bytes;
        let now = core.unix_now();
        if core.is_expired(item, now) {
            count.expired += 1;
        } else {
            count.fresh += 1;
            let left = core.expires(item).map(|ends: UnixTime| ends.seconds() - now.seconds());
            count.within_hour += u64::from(left.is_some_and(|left| left < HOUR_SECONDS));
            count.within_day += u64::from(left.is_some_and(|left| left < DAY_SECONDS));
        }
        for lifecycle in &core.entity().lifecycles {
            if item.get(&lifecycle.attribute).is_some() {
                let states = count.states.entry(lifecycle.name.clone()).or_default();
                let state = lifecycle.state_of(item).map_or(NO_STATE, |state| &state.name);
                *states.entry(state.to_owned()).or_default() += 1;
            }
        }
    }
}

/// Whether an item can be read as a record, and has what each record has. Of one whose rest is kept apart or
/// compressed, that rest is not looked at.
fn conforms(core: &Arc<Core>, item: &Item) -> bool {
    let now = core.unix_now();
    if item.contains(PARTS) || item.contains(PACKED) {
        shelf::read_part::<Entry>(core, item, now, &[]).is_ok()
    } else {
        shelf::read::<Entry>(core, item, now).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use larder_schema::{Environment, Fields, NoFiles, Schema};

    use super::*;

    const NOTES: &str = r#"
system notes
table notes {
  key  id
  ttl  ends
  entity Note {
    key       "N#{name}"
    ttl       for
    oversize  split
    name:      string nonempty
    for:       duration
    text:      string
  }
}
"#;

    #[tokio::test]
    async fn each_item_is_counted_once_by_what_the_schema_makes_of_it() {
        let loaded = Schema::load("notes.larder", NOTES, &mut NoFiles, &Environment::new());
        let schema = loaded.schema.unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics));
        let system = System::open(schema, Store::memory().await).await.unwrap();
        let notes = system.entries("Note").unwrap();
        let lives = [
            ("minute", 60, 1),
            ("hours", 5 * 3600, 1),
            ("days", 9 * 86_400, 1),
            ("large", 9 * 86_400, 500_000),
        ];
        for (name, seconds, length) in lives {
            let life = larder_schema::jiff::SignedDuration::from_secs(seconds);
            let fields = [
                ("name".to_owned(), name.into()),
                ("for".to_owned(), larder_schema::Value::Duration(life)),
                ("text".to_owned(), larder_schema::Value::Text("x".repeat(length))),
            ];
            notes.put(Fields::from(fields)).await.unwrap();
        }
        let client = system.store().sdk_client().await.unwrap();
        for (key, text) in [("strange", None), ("N#incomplete", None), ("N#wrong", Some("1"))] {
            use aws_sdk_dynamodb::types::AttributeValue::{N, S};
            let put = client.put_item().table_name("notes").item("id", S(key.to_owned()));
            let put = text.map_or(put.clone(), |text| put.item("text", N(text.to_owned())));
            put.send().await.unwrap();
        }

        let census = system.census("notes", |_| ()).await.unwrap().unwrap();
        let count = &census.entities["Note"];
        assert_eq!((count.items, count.fresh, count.expired), (4, 4, 0));
        assert_eq!((count.within_hour, count.within_day), (1, 2));
        assert_eq!((census.parts.items, census.strangers.items), (2, 3));
        assert!(census.parts.bytes > 500_000, "{census:?}");
        let mut named = census.stranger_keys.clone();
        named.sort();
        assert_eq!(named, ["N#incomplete", "N#wrong", "strange"]);
        let size = size(system.store(), &TableName::new("notes").unwrap()).await.unwrap().unwrap();
        assert_eq!(size.items, census.items());

        // What has expired may be removed at any moment, and counts as expired until then.
        system.store().clock().advance(Duration::from_secs(2 * 3600));
        let census = system.census("notes", |_| ()).await.unwrap().unwrap();
        let count = &census.entities["Note"];
        assert_eq!((count.fresh, count.within_hour, count.within_day), (3, 0, 1));
        assert!(count.expired <= 1);
    }

    #[tokio::test]
    async fn a_table_that_is_not_there_has_no_size() {
        let store = Store::memory().await;
        assert_eq!(size(&store, &TableName::new("nobody").unwrap()).await.unwrap(), None);
    }
}
