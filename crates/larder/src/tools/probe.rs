//! Whether a store is fit for work: it answers, its clock agrees, an item can be put, read and removed.
//!
//! The probe item has a key of its own that no record has, ends a minute later, and is marked as no record: who
//! reads the table meanwhile, by whatever index, does not get it.
//!
//! Promises:
//! - Nothing that is there is overwritten or removed: the item is put where none is, and removed only if it is ours.
//! - It is removed whatever else failed; where even that fails, by its TTL.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextRef;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::date_time::Format;
use larder_expr::{Comparator, Condition, Operand};
use larder_model::{AttributeValue, Item, KeyType, Path, TableName};
use larder_ops::{DeleteItem, GetItem, PutItem, ReturnCapacity, WriteOptions};
use larder_schema::{ABSENT, TableSetup};
use parking_lot::Mutex;

use crate::store::{Error, Store};
use crate::system::System;

/// How long a probe item may stay that could not be removed.
const LIFE: Duration = Duration::from_secs(60);
/// How often its removal is tried.
const DELETES_MAX: u32 = 3;
/// Which probe an item belongs to.
const PROBE: &str = "larder_probe";

/// How a store answered.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = larder::Store::memory().await;
/// let reached = larder::probe::reach(&store).await?;
/// assert_eq!(reached.clock_millis, None); // it has no other clock than ours
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// For the first request, connecting included.
    pub took: Duration,
    /// How far the store's clock is ahead of ours at least, or behind it where that is negative. `None` where it
    /// does not tell the time.
    pub clock_millis: Option<i64>,
}

/// Asks a store for its tables, and what time it is there.
pub async fn reach(store: &Store) -> Result<Reached, Error> {
    let start = Instant::now();
    store.list_tables().await?;
    let took = start.elapsed();
    let clock_millis = if store.is_embedded() { None } else { clock_ahead(store).await };
    Ok(Reached { took, clock_millis })
}

/// By the `Date` of an answer, which counts whole seconds: what that leaves open counts as agreement.
async fn clock_ahead(store: &Store) -> Option<i64> {
    let seen = Date::default();
    let request = store.sdk_client().await.ok()?.list_tables().limit(1);
    let before = store.clock().now().millis();
    request.customize().interceptor(seen.clone()).send().await.ok()?;
    let after = store.clock().now().millis();
    let text = seen.0.lock().take()?;
    let begins = DateTime::from_str(&text, Format::HttpDate).ok()?.to_millis().ok()?;
    let ends = begins.saturating_add(999);
    Some(if begins > after { begins - after } else { ends.saturating_sub(before).min(0) })
}

/// Keeps the `Date` header of an answer.
#[derive(Clone, Debug, Default)]
struct Date(Arc<Mutex<Option<String>>>);

impl Intercept for Date {
    fn name(&self) -> &'static str {
        "Date"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        *self.0.lock() = context.response().headers().get("date").map(str::to_owned);
        Ok(())
    }
}

/// What became of one probe item.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// let probes = library.probe().await;
/// assert_eq!((probes[0].table.as_str(), probes[0].steps.len()), ("library", 3));
/// assert!(probes[0].error().is_none());
/// println!("{}", probes[0]); // put 0.04 ms, get 0.01 ms, delete 0.03 ms
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Probe {
    /// What the store calls the table.
    pub table: TableName,
    /// Those that were taken, in order.
    pub steps: Vec<Timed>,
}

/// A step, and how long it took.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// use larder::probe::Check;
///
/// let probes = library.probe().await;
/// let steps: Vec<Check> = probes[0].steps.iter().map(|timed| timed.step).collect();
/// assert_eq!(steps, [Check::Put, Check::Get, Check::Delete]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Timed {
    /// Which step.
    pub step: Check,
    /// How long it took.
    pub took: Duration,
    /// What became of it.
    pub outcome: Result<(), Error>,
}

/// What is done with a probe item.
///
/// ```
/// assert_eq!(larder::probe::Check::Put.name(), "put");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// A record is put.
    Put,
    /// It is read.
    Get,
    /// It is deleted.
    Delete,
}

impl Check {
    /// As programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Delete => "delete",
        }
    }
}

impl Probe {
    /// The first thing that went wrong.
    pub fn error(&self) -> Option<&Error> {
        self.steps.iter().find_map(|timed| timed.outcome.as_ref().err())
    }
}

/// The times, and what went wrong.
impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Timed { step, took, outcome }) in self.steps.iter().enumerate() {
            let (comma, millis) = (if at > 0 { ", " } else { "" }, took.as_secs_f64() * 1000.0);
            match outcome {
                Ok(()) if millis < 10.0 => write!(f, "{comma}{} {millis:.2} ms", step.name())?,
                Ok(()) => write!(f, "{comma}{} {millis:.0} ms", step.name())?,
                Err(error) => write!(f, "{comma}{} failed: {error}", step.name())?,
            }
        }
        Ok(())
    }
}

impl System {
    /// Puts, reads and removes a probe item in each table that holds anything: a health check, with the time of each
    /// step. It costs two write units and one read unit a table.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::Library;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// assert!(library.probe().await.iter().all(|probe| probe.error().is_none()));
    /// library.store().faults().down();
    /// assert!(library.probe().await[0].error().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn probe(&self) -> Vec<Probe> {
        let mut probes = Vec::new();
        for table in &self.schema().tables {
            let Some(core) = table.entities.first().and_then(|entity| self.core(&entity.name)) else {
                continue;
            };
            let key = std::iter::once(&table.partition).chain(&table.sort);
            let key = key.map(|part| (part.attribute.as_str(), part.kind)).collect();
            let ttl = table.ttl.as_ref().map(|ttl| ttl.attribute.as_str());
            probes.push(take(&core.store, &core.table_name, key, ttl).await);
        }
        probes
    }
}

/// Puts, reads and removes a probe item in a table as a schema asks for it.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// use larder::Environment;
/// use larder::provision::Desired;
///
/// let desired = Desired::of(library::schema(), &Environment::new()).expect("there are no params");
/// let probe = larder::probe::table(library.store(), &desired.setups[0]).await;
/// assert!(probe.error().is_none());
/// # Ok(())
/// # }
/// ```
pub async fn table(store: &Store, setup: &TableSetup) -> Probe {
    let key = setup.definition.key.attributes().map(|part| (part.name.as_str(), part.kind)).collect();
    take(store, &setup.definition.name, key, setup.ttl_attribute.as_deref()).await
}

async fn take(store: &Store, table: &TableName, key: Vec<(&str, KeyType)>, ttl: Option<&str>) -> Probe {
    // Keys that are numbers count upwards from zero.
    let number = fastrand::i64(..0);
    let key: Item = key.into_iter().map(|(name, kind)| (name.to_owned(), key_value(kind, number))).collect();
    let ends = store.clock().now().plus(LIFE).seconds();
    let mut item = key.clone();
    item.insert(PROBE, number);
    item.insert(ABSENT, "probe");
    if let Some(ttl) = ttl {
        item.insert(ttl, ends);
    }
    let mut steps = Vec::new();
    let mut note = |step: Check, start: Instant, outcome: Result<(), Error>| {
        let done = outcome.is_ok();
        steps.push(Timed { step, took: start.elapsed(), outcome });
        done
    };
    let start = Instant::now();
    let put = note(Check::Put, start, put(store, table, &key, item.clone()).await);
    if put {
        let start = Instant::now();
        note(Check::Get, start, get(store, table, &key, &item).await);
    }
    // Tried after a put that failed too: its answer alone may have been lost.
    let start = Instant::now();
    let deleted = delete(store, table, &key, number).await;
    if put || deleted.is_ok() {
        note(Check::Delete, start, deleted);
    }
    Probe { table: table.clone(), steps }
}

async fn put(store: &Store, table: &TableName, key: &Item, item: Item) -> Result<(), Error> {
    let partition = key.names().next().expect("a key has an attribute");
    let condition = Condition::NotExists(Path::attribute(partition));
    let options = WriteOptions { condition: Some(condition), ..WriteOptions::default() };
    store.put_item(PutItem { table: table.clone(), item, options }).await.map(drop)
}

async fn get(store: &Store, table: &TableName, key: &Item, item: &Item) -> Result<(), Error> {
    let (table, key, capacity) = (table.clone(), key.clone(), ReturnCapacity::None);
    let read = store.get_item(GetItem { table, key, consistent: true, projection: None, capacity }).await?;
    if read.as_ref() == Some(item) {
        return Ok(());
    }
    let message = match read {
        None => "what was just put is not there",
        Some(_) => "what is there is not what was just put",
    };
    Err(Error::Refused { code: "Probe".to_owned(), message: message.to_owned() })
}

async fn delete(store: &Store, table: &TableName, key: &Item, number: i64) -> Result<(), Error> {
    let ours = Condition::Compare {
        left: Operand::Path(Path::attribute(PROBE)),
        comparator: Comparator::Equal,
        right: Operand::value(number),
    };
    let mut tries = 0;
    loop {
        let options = WriteOptions { condition: Some(ours.clone()), ..WriteOptions::default() };
        let request = DeleteItem { table: table.clone(), key: key.clone(), options };
        tries += 1;
        match store.delete_item(request).await {
            Err(error) if error.is_transient() && tries < DELETES_MAX => {}
            // An earlier try did it, and its answer was lost.
            Err(Error::Condition { .. }) if tries > 1 => return Ok(()),
            other => return other.map(drop),
        }
    }
}

fn key_value(kind: KeyType, number: i64) -> AttributeValue {
    match kind {
        KeyType::S => AttributeValue::S(format!("larder-probe#{number:016x}")),
        KeyType::N => AttributeValue::from(number),
        KeyType::B => AttributeValue::B(number.to_be_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use larder_schema::{Environment, NoFiles, Schema};

    use super::*;
    use crate::store::Fault;

    const KEYS: &str = r#"
system keys
table texts {
  key  pk / sk
  ttl  ends
  entity Text {
    key  "T#{id}" / "A"
    ttl  1h
    id:  string nonempty
  }
}
table numbers {
  key  id: int
  entity Number { id: int }
}
"#;

    async fn open() -> System {
        let loaded = Schema::load("keys.larder", KEYS, &mut NoFiles, &Environment::new());
        let schema = loaded.schema.unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics));
        System::open_with(schema, Store::memory().await, Environment::new()).await.unwrap()
    }

    async fn items(system: &System) -> u64 {
        let mut items = 0;
        for table in ["texts", "numbers"] {
            items += system.census(table, |_| ()).await.unwrap().unwrap().items();
        }
        items
    }

    #[tokio::test]
    async fn l6_a_probe_item_is_put_read_and_deleted_and_each_is_timed() {
        let system = open().await;
        for probe in system.probe().await {
            let steps: Vec<Check> = probe.steps.iter().map(|timed| timed.step).collect();
            assert_eq!(steps, [Check::Put, Check::Get, Check::Delete]);
            assert!(probe.error().is_none(), "{probe}");
            assert_eq!(probe.to_string().matches(" ms").count(), 3, "{probe}");
        }
        assert_eq!(items(&system).await, 0);
    }

    #[tokio::test]
    async fn l6_a_probe_item_is_gone_whatever_failed() {
        let system = open().await;
        let faults = system.store().faults();
        for (operation, count, fault, fails) in [
            ("PutItem", 1, Fault::LostAnswer, true),
            ("PutItem", 1, Fault::Unreachable, true),
            ("GetItem", 1, Fault::Error, true),
            ("DeleteItem", 2, Fault::Throttle, false),
            ("DeleteItem", 1, Fault::LostAnswer, false),
        ] {
            faults.reset().only(&[operation]).fail_next(count, fault);
            let probes = system.probe().await;
            assert_eq!(probes[0].error().is_some(), fails, "{operation} {fault:?}: {}", probes[0]);
            faults.reset();
            assert_eq!(items(&system).await, 0, "{operation} {fault:?}");
        }
    }

    #[tokio::test]
    async fn a_probe_that_could_not_be_removed_is_no_record_and_ends_by_itself() {
        let system = open().await;
        let faults = system.store().faults();
        faults.only(&["DeleteItem"]).down();
        assert!(system.probe().await.iter().all(|probe| probe.error().is_some()));
        faults.reset();
        let census = system.census("texts", |_| ()).await.unwrap().unwrap();
        assert_eq!((census.markers, census.strangers.items, census.entities["Text"].items), (1, 0, 0));

        let table = TableName::new("texts").unwrap();
        let scan = larder_ops::Scan { consistent: true, ..larder_ops::Scan::of(table) };
        let item = system.store().scan(scan).await.unwrap().items.remove(0);
        let ends = item.get("ends").and_then(|ends| ends.as_number()?.to_i64()).unwrap();
        assert!(ends - system.now().as_second() <= 60);
    }
}
