//! Invalidation: removing all records that have something in common, and sweeping those that have expired.
//!
//! A plan comes first. It says how the records are found (by their key, by a query, or by a scan of the whole
//! table), how many there are and what it costs to find and remove them. A query is looked at whole to make the
//! plan; of a scan only the first page, and the rest is reckoned from the size the schema's workload states.
//!
//! Promises:
//! - Nothing is removed before [`InvalidationPlan::run`]. A table is scanned only where the schema says `scan ask` or
//!   `scan allow`, and with `ask` only by a plan that could be looked at.
//! - A run that fails can be run again, and goes on where it stopped.
//! - Of a record that waits to be written behind, nothing older is seen again, whatever fails.
//! - A sweep never removes what was renewed meanwhile.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::StreamExt as _;
use larder_expr::{Comparator, Condition, Operand};
use larder_model::limits::READ_UNIT_BYTES;
use larder_model::{AttributeValue, Item, Path, UnixTime};
use larder_ops::{self as ops, ReturnCapacity};
use larder_schema::schema::{Index, KeySource, Label, Scan};
use larder_schema::{ABSENT, BuildError, CHUNK, Expr, Fields, Hole, PARTS, Scope, Value};
use parking_lot::Mutex;

use crate::cache::{self, Identity, Write};
use crate::entity::{Core, and};
use crate::price::{self, Units};
use crate::query::Asked;
use crate::shelf::{FieldType, Record, Shelf};
use crate::write::{Action, Planned};
use crate::{Error, batch, oversize, store};

/// Pages of a query that are read for a plan. More are reckoned to be like them.
const PLANNED_PAGES_MAX: usize = 16;
const DELETES_AT_ONCE: usize = 8;

impl<R: Record> Shelf<R> {
    /// Removes records by what they have in common. Without anything said, all of the entity.
    ///
    /// ```
    /// # use larder::{Fields, Schema, Store, System};
    /// # use larder_schema::{Environment, NoFiles};
    /// # let text = r#"
    /// # system weather
    /// # table forecasts {
    /// #   key  cache_key
    /// #   entity Forecast {
    /// #     key   "weather_{city}_{hour:02}"
    /// #     scan  ask
    /// #     input city: string match /[a-z]+/
    /// #     input hour: int in 0..=23
    /// #     celsius:    int
    /// #   }
    /// # }
    /// # "#;
    /// # let schema = Schema::load("weather.larder", text, &mut NoFiles, &Environment::new()).schema.unwrap();
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let system = System::open(schema, Store::memory().await).await?;
    /// # let forecasts = system.entries("Forecast").unwrap();
    /// # for hour in 0..3 {
    /// #     let fields = [("city", "kyoto".into()), ("hour", i64::from(hour).into()), ("celsius", 20.into())];
    /// #     forecasts.put(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect::<Fields>()).await?;
    /// # }
    /// let plan = forecasts.invalidate().by("city", "kyoto".to_owned()).plan().await?;
    /// println!("{plan}"); // 3 items by a scan of 99 bytes, 0.5 read units, 3 write units, …
    /// assert_eq!(plan.run().await?.removed, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn invalidate(&self) -> Invalidation<R> {
        Invalidation::new(&self.core, false)
    }

    /// Removes what has expired and is still stored.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::{NewPage, Pages};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// # for url in ["https://a.com/1", "https://a.com/2", "https://b.com/"] {
    /// #     pages.pages().put(NewPage { url: url.to_owned(), text: String::new() }).await?;
    /// # }
    /// # use std::time::Duration;
    /// pages.store().clock().advance(Duration::from_secs(30 * 60 * 60)); // past its hour, and its day of grace
    /// let plan = pages.pages().sweep().plan().await?;
    /// println!("{plan}");
    /// plan.run().await?;
    /// assert_eq!(pages.pages().sweep().plan().await?.items(), 0, "the store may have removed some itself");
    /// # Ok(())
    /// # }
    /// ```
    pub fn sweep(&self) -> Invalidation<R> {
        Invalidation::new(&self.core, true)
    }
}

/// What is to be removed.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::{NewPage, Pages};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// # for url in ["https://a.com/1", "https://a.com/2", "https://b.com/"] {
/// #     pages.pages().put(NewPage { url: url.to_owned(), text: String::new() }).await?;
/// # }
/// let plan = pages.pages().invalidate().label("a.com").plan().await?;
/// assert_eq!(plan.run().await?.removed, 2);
/// assert!(pages.pages().get("https://b.com/").await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is removed before a plan is run"]
pub struct Invalidation<R> {
    core: Arc<Core>,
    given: Fields,
    label: Option<String>,
    expired: bool,
    record: PhantomData<fn() -> R>,
}

impl<R> fmt::Debug for Invalidation<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<&String> = self.given.keys().collect();
        f.debug_struct("Invalidation")
            .field("entity", &self.core.name())
            .field("by", &fields)
            .finish_non_exhaustive()
    }
}

impl<R: Record> Invalidation<R> {
    fn new(core: &Arc<Core>, expired: bool) -> Self {
        Self { core: Arc::clone(core), given: Fields::new(), label: None, expired, record: PhantomData }
    }

    /// Only records whose field has this value, to the precision their key keeps.
    pub fn by(mut self, field: &str, value: impl FieldType) -> Self {
        self.given.insert(field.to_owned(), value.to_value());
        self
    }

    /// Only records with this label.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Finds out how to go about it and what it costs.
    pub async fn plan(self) -> Result<InvalidationPlan, Error> {
        let mut wanted = Wanted::new(&self.core, self.given, self.label, self.expired)?;
        let how = wanted.how(&self.core)?;
        if matches!(how, How::Scan(_)) && self.core.entity().policy.scan == Scan::Deny {
            return Err(Error::NotAllowed(format!(
                "only a scan of the whole table finds these: `scan ask` or `scan allow` in {} would permit it",
                self.core.name()
            )));
        }
        let mut plan = InvalidationPlan {
            core: self.core,
            wanted,
            how,
            items: 0,
            bytes: 0,
            units: Units::default(),
            exact: true,
            state: Mutex::new(Run::default()),
        };
        plan.reckon().await?;
        Ok(plan)
    }

    /// Removes them without showing a plan. Where the schema says `scan ask`, a scan needs one.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::{NewPage, Pages};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// # for url in ["https://a.com/1", "https://a.com/2", "https://b.com/"] {
    /// #     pages.pages().put(NewPage { url: url.to_owned(), text: String::new() }).await?;
    /// # }
    /// let removed = pages.pages().invalidate().url("https://b.com/").run().await?.removed;
    /// assert_eq!(removed, 1);
    /// let all = pages.pages().invalidate().run().await;
    /// assert!(matches!(all, Err(larder::Error::NotAllowed(_))), "the schema says `scan ask`");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(self) -> Result<Progress, Error> {
        let asks = self.core.entity().policy.scan == Scan::Ask;
        let plan = self.plan().await?;
        if asks && matches!(plan.how, How::Scan(_)) {
            return Err(Error::NotAllowed(format!(
                "this needs a scan ({plan}): look at its plan, then run that"
            )));
        }
        plan.run().await
    }
}

/// What will be removed, how it is found, and what that costs.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::{NewPage, Pages};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// # for url in ["https://a.com/1", "https://a.com/2", "https://b.com/"] {
/// #     pages.pages().put(NewPage { url: url.to_owned(), text: String::new() }).await?;
/// # }
/// let plan = pages.pages().invalidate().plan().await?;
/// assert_eq!((plan.items(), plan.is_scan()), (3, true));
/// assert!(plan.units().dollars() < 0.01);
/// assert!(pages.pages().get("https://b.com/").await?.is_some(), "nothing is removed before it is run");
/// # Ok(())
/// # }
/// ```
pub struct InvalidationPlan {
    core: Arc<Core>,
    wanted: Wanted,
    how: How,
    items: u64,
    bytes: u64,
    units: Units,
    exact: bool,
    state: Mutex<Run>,
}

/// How far a run has come.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::{NewPage, Pages};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// # for url in ["https://a.com/1", "https://a.com/2", "https://b.com/"] {
/// #     pages.pages().put(NewPage { url: url.to_owned(), text: String::new() }).await?;
/// # }
/// let progress = pages.pages().invalidate().plan().await?.run().await?;
/// assert_eq!((progress.removed, progress.pages), (3, 1));
/// assert!(progress.units.write > 0.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Items that are gone.
    pub removed: u64,
    /// Pages that were read to find them.
    pub pages: u64,
    /// Consumed, as far as the store told.
    pub units: Units,
}

#[derive(Default)]
struct Run {
    start: Option<Item>,
    over: bool,
    progress: Progress,
    /// What waited to be written and is counted as removed already.
    dropped: HashSet<Identity>,
}

enum How {
    Get(Item),
    /// And the index, by its name in the schema.
    Query(Box<Asked>, String),
    Scan(Option<Condition>),
}

impl fmt::Debug for InvalidationPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InvalidationPlan({self})")
    }
}

impl fmt::Display for InvalidationPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.exact {
            f.write_str("about ")?;
        }
        let plural = if self.items == 1 { "" } else { "s" };
        let size = price::size(self.bytes);
        match &self.how {
            How::Get(_) => write!(f, "{} item{plural} by key, {size}", self.items)?,
            How::Query(_, by) => write!(f, "{} item{plural} by a query of {by}, {size}", self.items)?,
            How::Scan(_) => write!(f, "{} item{plural} by a scan of {size}", self.items)?,
        }
        write!(f, ", {}", self.units)
    }
}

impl InvalidationPlan {
    /// How many items would be removed.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// How many bytes would be read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it takes to find and remove them.
    pub fn units(&self) -> Units {
        self.units
    }

    /// Whether everything was counted, or partly estimated.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Whether the whole table has to be read.
    pub fn is_scan(&self) -> bool {
        matches!(self.how, How::Scan(_))
    }

    /// Removes what was planned, and what has come to match since. After an error, it goes on where it stopped.
    pub async fn run(&self) -> Result<Progress, Error> {
        self.run_with(|_| ()).await
    }

    /// Like [`InvalidationPlan::run`], and tells after each page how far it is.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::{NewPage, Pages};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// # for url in ["https://a.com/1", "https://a.com/2", "https://b.com/"] {
    /// #     pages.pages().put(NewPage { url: url.to_owned(), text: String::new() }).await?;
    /// # }
    /// let plan = pages.pages().invalidate().plan().await?;
    /// let mut removed = 0;
    /// plan.run_with(|progress| removed = progress.removed).await?;
    /// assert_eq!(removed, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_with(&self, mut tell: impl FnMut(&Progress)) -> Result<Progress, Error> {
        self.forget();
        self.remove_pending().await?;
        loop {
            let (start, over) = {
                let state = self.state.lock();
                (state.start.clone(), state.over)
            };
            if over {
                return Ok(self.state.lock().progress);
            }
            let page = self.page(start).await?;
            let now = self.core.unix_now();
            let mut found = self.matching(page.items, now).await?;
            // What waits to be written in the place of one, and is none of them, stays.
            found.retain(|item| self.core.cache.waiting(&self.core.key_of(item)).is_none());
            let write: f64 = found.iter().map(|item| write_units(&self.core, item)).sum();
            let outcomes = self.remove(&found, now).await;
            let mut state = self.state.lock();
            let removed = found.iter().zip(&outcomes).filter(|(item, outcome)| {
                matches!(outcome, Ok(true))
                    && !state.dropped.contains(&cache::identity(&self.core.key_of(item)))
            });
            let removed = removed.count() as u64;
            let failed = outcomes.into_iter().find_map(Result::err);
            state.progress.removed += removed;
            state.progress.units.read += page.units;
            state.progress.units.write += write;
            if let Some(error) = failed {
                return Err(error);
            }
            state.progress.pages += 1;
            state.over = page.last_key.is_none();
            state.start = page.last_key;
            tell(&state.progress);
        }
    }

    /// Forgets what only this process holds: it may be in no store, where it would be found. What has expired is not given anyway.
    fn forget(&self) {
        match &self.how {
            _ if self.wanted.expired => {}
            How::Get(key) => self.core.cache.wrote(key),
            How::Query(..) | How::Scan(_) => self.core.cache.wrote_all(),
        }
    }

    /// Removes what waits to be written behind and is to be removed, with what it would have taken the place of: that is older, and
    /// must not be seen again. Where that fails it still waits.
    async fn remove_pending(&self) -> Result<(), Error> {
        let core = &self.core;
        for write in self.pending() {
            let key = core.key_of(&write.item);
            let turns = core.cache.turns([&key]).await;
            let Some(waiting) = turns.older().filter(|waiting| self.is_meant(&waiting.item)) else {
                continue;
            };
            let condition = waiting.over.condition(core, core.unix_now());
            let removed = core.send(Planned { key: key.clone(), action: Action::Delete, condition }).await;
            core.cache.wrote(&key);
            let old = match removed {
                Ok(old) => old,
                // Somebody has written since the source was asked: it would not have been kept.
                Err(Error::Store(store::Error::Condition { .. })) => None,
                Err(error) => return Err(error),
            };
            core.cache.replaced(&key, &turns);
            if let Some(old) = &old {
                core.observer.invalidated(&core.key_text(&key));
                self.state.lock().progress.units.write += write_units(core, old);
            }
            let mut state = self.state.lock();
            state.progress.removed += 1;
            state.dropped.insert(cache::identity(&key));
        }
        Ok(())
    }

    /// What waits to be written behind, or is on its way, and is to be removed.
    fn pending(&self) -> Vec<Arc<Write>> {
        self.core.cache.pending(|item| self.is_meant(item))
    }

    /// Whether something that waits to be written is to be removed. No index was asked for it, so all of it is looked at.
    fn is_meant(&self, item: &Item) -> bool {
        let wanted = &self.wanted;
        !wanted.expired
            && wanted.is_of(&self.core, item)
            && wanted.matches_fields(&self.core, item, &BTreeSet::new())
    }

    /// Those that are to be removed. What is kept in parts is looked at whole.
    async fn matching(&self, items: Vec<Item>, now: UnixTime) -> Result<Vec<Item>, Error> {
        let core = &self.core;
        let looks_inside = self.wanted.label.is_some() || !self.wanted.given.is_empty();
        let mut found = Vec::new();
        for item in items {
            let in_parts = looks_inside && item.contains(PARTS) && core.owns(&item);
            let whole = if in_parts { oversize::join(core, item.clone()).await? } else { None };
            if self.wanted.matches(core, whole.as_ref().unwrap_or(&item), now) {
                found.push(item);
            }
        }
        Ok(found)
    }

    /// Removes items, and says of each whether it was.
    async fn remove(&self, found: &[Item], now: UnixTime) -> Vec<Result<bool, Error>> {
        let core = &self.core;
        let keys: Vec<Item> = found.iter().map(|item| core.key_of(item)).collect();
        let Some(expired) = self.wanted.expired.then(|| past(core, now)).flatten() else {
            let texts: Vec<String> = keys.iter().map(|key| core.key_text(key)).collect();
            let deleted = batch::delete(core, keys).await.into_iter().zip(texts);
            let told = deleted.map(|(outcome, text)| {
                outcome.map(|()| {
                    core.observer.invalidated(&text);
                    true
                })
            });
            return told.collect();
        };
        let deletes = futures_util::stream::iter(keys).map(|key| {
            // Looked at again as it is removed: it may have been renewed since it was read.
            let condition = Some(expired.clone());
            async move {
                match core.delete(&key, condition).await {
                    Ok(_) => Ok(true),
                    Err(Error::Store(store::Error::Condition { .. })) => Ok(false),
                    Err(error) => Err(error),
                }
            }
        });
        deletes.buffered(DELETES_AT_ONCE).collect().await
    }

    /// Looks at enough to say what it will cost.
    async fn reckon(&mut self) -> Result<(), Error> {
        let mut start = None;
        let pages = match self.how {
            How::Get(_) | How::Scan(_) => 1,
            How::Query(..) => PLANNED_PAGES_MAX,
        };
        let now = self.core.unix_now();
        let mut pending: HashSet<Identity> =
            self.pending().iter().map(|write| cache::identity(&self.core.key_of(&write.item))).collect();
        for _ in 0..pages {
            let page = self.page(start).await?;
            self.units.read += page.units;
            for item in self.matching(page.items, now).await? {
                if !pending.is_empty() {
                    pending.remove(&cache::identity(&self.core.key_of(&item)));
                }
                self.items += 1;
                self.units.write += write_units(&self.core, &item);
                if !self.is_scan() {
                    self.bytes += item.size() as u64;
                }
            }
            start = page.last_key;
            if start.is_none() {
                break;
            }
        }
        let read_bytes = (self.units.read * 2.0 * READ_UNIT_BYTES as f64) as u64;
        if self.is_scan() {
            self.bytes = read_bytes;
        }
        if start.is_some() {
            self.exact = false;
            let stored = self.core.schema.workload.as_ref().and_then(|workload| workload.stored_bytes);
            let share = stored.unwrap_or(0).max(read_bytes) as f64 / read_bytes.max(1) as f64;
            self.items = (self.items as f64 * share).round() as u64;
            self.bytes = (self.bytes as f64 * share) as u64;
            self.units.read *= share;
            self.units.write *= share;
            self.units.read = self.units.read.round();
            self.units.write = self.units.write.round();
        }
        // They cost nothing: they are not in the store yet.
        self.items += pending.len() as u64;
        Ok(())
    }

    async fn page(&self, start: Option<Item>) -> Result<store::Page, Error> {
        let core = &self.core;
        Ok(match &self.how {
            How::Get(key) => {
                let request = ops::GetItem {
                    table: core.table_name.clone(),
                    key: key.clone(),
                    projection: None,
                    consistent: false,
                    capacity: ReturnCapacity::None,
                };
                let items: Vec<Item> = core.store.get_item(request).await?.into_iter().collect();
                let bytes: usize = items.iter().map(Item::size).sum();
                store::Page {
                    count: items.len(),
                    scanned: items.len(),
                    units: price::read_units(bytes as u64, false),
                    last_key: None,
                    items,
                }
            }
            How::Query(asked, _) => {
                let request = asked.request(core, start, None, false);
                core.store.query(ops::Query { capacity: ReturnCapacity::Total, ..request }).await?
            }
            How::Scan(filter) => {
                let request = ops::Scan {
                    filter: filter.clone(),
                    start,
                    capacity: ReturnCapacity::Total,
                    ..ops::Scan::of(core.table_name.clone())
                };
                core.store.scan(request).await?
            }
        })
    }
}

/// Units to remove an item from its table and its indexes.
fn write_units(core: &Core, item: &Item) -> f64 {
    let in_index =
        |index: &&Index| index.partition.iter().chain(&index.sort).all(|key| item.contains(&key.attribute));
    let places = 1 + core.table().indexes.iter().filter(in_index).count();
    price::write_units(item.size() as u64) * places as f64
}

/// The condition that an item's time is over.
fn past(core: &Core, now: UnixTime) -> Option<Condition> {
    Some(Condition::Compare {
        left: Operand::Path(Path::attribute(&core.table().ttl.as_ref()?.attribute)),
        comparator: Comparator::Less,
        right: Operand::value(now.seconds()),
    })
}

/// The condition that an item's key begins as keys of the entity do, as far as these fields say.
pub(crate) fn begins_as(core: &Core, known: &Fields) -> Option<Condition> {
    let (table, entity) = (core.table(), core.entity());
    let mut conditions = Vec::new();
    let keys = std::iter::once((&table.partition, &entity.partition))
        .chain(table.sort.as_ref().zip(entity.sort.as_ref()));
    for (attribute, source) in keys {
        if let KeySource::Template(template) = source {
            let prefix = template.prefix(known);
            if !prefix.is_empty() {
                conditions.push(Condition::BeginsWith {
                    value: Operand::Path(Path::attribute(&attribute.attribute)),
                    prefix: Operand::value(AttributeValue::S(prefix)),
                });
            }
        }
    }
    conditions.into_iter().reduce(and)
}

/// What the records have in common.
struct Wanted {
    given: Fields,
    /// With what follows from what was given.
    known: Fields,
    label: Option<String>,
    expired: bool,
    /// What need not be looked at in an item, because it would not have been found otherwise.
    answered: BTreeSet<String>,
}

impl Wanted {
    fn new(core: &Core, given: Fields, label: Option<String>, expired: bool) -> Result<Self, Error> {
        let entity = core.entity();
        if expired && core.table().ttl.is_none() {
            return Err(Error::NotAllowed(format!(
                "{} never expires: there is nothing to sweep",
                entity.name
            )));
        }
        if label.is_some() && entity.policy.labels.is_empty() {
            return Err(Error::NotAllowed(format!("{} has no labels: name one in its schema", entity.name)));
        }
        let mut known = given.clone();
        let mut used: BTreeSet<&str> = BTreeSet::new();
        let holes = holes(core);
        for &at in &entity.order {
            let field = &entity.fields[at];
            let Some(equation) = field.equation.as_ref().filter(|equation| !equation.mentions_now()) else {
                continue;
            };
            let needs = equation.fields();
            if known.contains_key(&field.name)
                || needs.is_empty()
                || !needs.iter().all(|name| known.contains_key(*name))
            {
                continue;
            }
            let scope = Scope { fields: &known, now: core.now() };
            if let Some(value) = equation.evaluate(scope) {
                known.insert(field.name.clone(), value);
                // What only serves to work out part of the key is looked at through it.
                if holes.iter().any(|hole| hole.field == field.name) || names_key(core, &field.name) {
                    used.extend(needs);
                }
            }
        }
        for name in given.keys() {
            let Some(field) = entity.field(name) else {
                return Err(Error::NotAllowed(format!("{} has no field `{name}`", entity.name)));
            };
            let in_key = holes.iter().any(|hole| hole.field == *name);
            if !in_key && !field.is_stored() && !core.is_recoverable(name) && !used.contains(name.as_str()) {
                return Err(Error::NotAllowed(format!(
                    "`{name}` cannot be told from a stored {}",
                    entity.name
                )));
            }
        }
        Ok(Self { given, known, label, expired, answered: BTreeSet::new() })
    }

    /// The cheapest way that finds all of them.
    fn how(&mut self, core: &Core) -> Result<How, Error> {
        let (table, entity) = (core.table(), core.entity());
        let given = |name: &String| entity.field(name).is_some_and(larder_schema::Field::is_given);
        let complete =
            core.key_fields().iter().filter(|name| given(name)).all(|name| self.known.contains_key(name))
                || [Some(&entity.partition), entity.sort.as_ref()]
                    .into_iter()
                    .flatten()
                    .all(|source| matches!(source, KeySource::Field(name) if self.known.contains_key(name)));
        if complete && !core.key_fields().is_empty() && !self.expired {
            return Ok(How::Get(core.key(&self.known)?));
        }
        if self.expired {
            return Ok(How::Scan(self.filter(core)));
        }
        let own = table.sort.is_some().then_some(None);
        for index in own.into_iter().chain(table.indexes.iter().map(Some)) {
            let Some(access) = entity.access(table, index) else { continue };
            let values = access.arguments.iter().map(|argument| self.known.get(&argument.name).cloned());
            let Some(values) = values.collect::<Option<Vec<Value>>>() else { continue };
            if values.is_empty() || index.is_some_and(|index| !self.is_answered_by(core, index)) {
                continue;
            }
            let wrong = |cause: BuildError| Error::Key { entity: entity.name.clone(), cause };
            let partition = access.partition(&core.schema, &values).map_err(wrong)?;
            let at = index.and_then(|index| table.indexes.iter().position(|other| other.name == index.name));
            let mut asked = Asked::new(core, at, partition, access.sort);
            if let (None, Some(KeySource::Template(sort))) = (index, &entity.sort) {
                asked.begin(sort.prefix(&self.known));
            }
            let by = index.map_or("its partition", |index| &*index.alias).to_owned();
            self.answered = access.arguments.into_iter().map(|argument| argument.name).collect();
            return Ok(How::Query(Box::new(asked), by));
        }
        Ok(How::Scan(self.filter(core)))
    }

    /// Whether an index holds all such records, and shows what they are told by.
    fn is_answered_by(&self, core: &Core, index: &Index) -> bool {
        let (table, entity) = (core.table(), core.entity());
        let always = index.sort.iter().all(|key| {
            let lifecycle = entity.lifecycles.iter().any(|lifecycle| lifecycle.held_in == key.name);
            let field = entity.field(&key.name).is_some_and(|field| !entity.may_be_missing(field));
            let table_key = std::iter::once(&table.partition).chain(table.sort.as_ref());
            lifecycle || field || table_key.into_iter().any(|own| own.name == key.name)
        });
        let readable = entity.readable(table, index);
        let shown = |name: &String| {
            readable.iter().any(|field| field.name == *name)
                || entity
                    .access(table, Some(index))
                    .is_some_and(|access| access.arguments.iter().any(|argument| argument.name == *name))
        };
        always && self.label.is_none() && self.given.keys().all(shown)
    }

    /// What a store can leave out by itself. It may let through too much.
    fn filter(&self, core: &Core) -> Option<Condition> {
        if self.expired {
            return past(core, core.unix_now());
        }
        begins_as(core, &self.known)
    }

    fn matches(&self, core: &Core, item: &Item, now: UnixTime) -> bool {
        if self.expired {
            let over =
                core.table().ttl.as_ref().and_then(|ttl| item.get(&ttl.attribute)?.as_number()?.to_i64());
            if over.is_none_or(|ends| ends >= now.seconds()) {
                return false;
            }
            if item.contains(CHUNK) {
                return head_of(core, item).is_some_and(|head| core.owns(&head));
            }
        }
        self.is_of(core, item) && self.matches_fields(core, item, &self.answered)
    }

    fn is_of(&self, core: &Core, item: &Item) -> bool {
        core.schema.entity_of(core.table(), item).is_some_and(|entity| entity.name == core.name())
    }

    /// Whether an item has what is asked for, but for what is answered by how it was found.
    fn matches_fields(&self, core: &Core, item: &Item, answered: &BTreeSet<String>) -> bool {
        let (table, entity) = (core.table(), core.entity());
        let key = core.key_of(item);
        let mut fields = core.schema.read_item(table, entity, &key).unwrap_or_default();
        if let Ok(all) = core.schema.read_item(table, entity, item) {
            fields.extend(all);
        }
        let holes = holes(core);
        for hole in &holes {
            if let Some(value) = self.known.get(&hole.field) {
                let found = fields.get(&hole.field).and_then(|found| hole.write(found));
                if found.is_none() || found != hole.write(value) {
                    return false;
                }
            }
        }
        let looked_at =
            |name: &String| holes.iter().any(|hole| hole.field == *name) || answered.contains(name);
        for (name, value) in self.given.iter().filter(|(name, _)| !looked_at(name)) {
            let Some(field) = entity.field(name) else { return false };
            if field.is_stored() {
                // The memory of an absence has no fields, and goes with its key alone.
                if core.schema.encode(&field.kind, value).as_ref() != item.get(&field.attribute) {
                    return false;
                }
            } else if core.is_recoverable(name) && fields.get(name) != Some(value) {
                return false;
            }
        }
        self.label.as_ref().is_none_or(|label| !item.contains(ABSENT) && has_label(core, &fields, label))
    }
}

/// The holes of the entity's key.
fn holes(core: &Core) -> Vec<&Hole> {
    let entity = core.entity();
    let sources = std::iter::once(&entity.partition).chain(entity.sort.as_ref());
    sources
        .filter_map(|source| match source {
            KeySource::Template(template) => Some(template),
            KeySource::Field(name) => match &entity.field(name)?.equation {
                Some(Expr::Template(template)) => Some(template),
                _ => None,
            },
        })
        .flat_map(larder_schema::Template::holes)
        .collect()
}

/// Whether a field is a key attribute itself.
fn names_key(core: &Core, name: &str) -> bool {
    let entity = core.entity();
    let mut sources = std::iter::once(&entity.partition).chain(entity.sort.as_ref());
    sources.any(|source| matches!(source, KeySource::Field(field) if field == name))
}

fn has_label(core: &Core, fields: &Fields, label: &str) -> bool {
    core.entity().policy.labels.iter().any(|known| match known {
        Label::Template(template) => template.build(fields).is_ok_and(|text| text == label),
        Label::Field(name) => match fields.get(name) {
            Some(Value::Text(text)) => text == label,
            Some(Value::List(values)) => values.iter().any(|value| value.as_str() == Some(label)),
            Some(value) => value.as_i64().is_some_and(|number| number.to_string() == label),
            None => false,
        },
    })
}

/// The key of the item that a chunk is part of.
fn head_of(core: &Core, chunk: &Item) -> Option<Item> {
    let table = core.table();
    let attribute = &table.sort.as_ref().unwrap_or(&table.partition).attribute;
    let mut key = core.key_of(chunk);
    let (head, _) = key.get(attribute)?.as_str()?.rsplit_once("#larder#")?;
    let head = AttributeValue::S(head.to_owned());
    key.insert(attribute.clone(), head);
    Some(key)
}
