//! Scans: all records of an entity, by reading the whole of its table.
//!
//! A scan pays for every item of the table, whatever it is of. Its price can be asked for first: one page is read,
//! and the rest is reckoned from the size the schema's workload states. Records come in no order.
//!
//! Promises:
//! - A table is read only where the schema says `scan allow`, or by a scan that is told to
//!   [at any price](Scan::at_any_price).
//! - Following cursors visits every record once that was there all the time.
//! - A record that cannot be read is left out and told, and hides no other; see [`Unread`].

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_core::Stream;
use futures_util::StreamExt as _;
use larder_expr::Condition;
use larder_model::limits::{PAGE_BYTES_MAX, READ_UNIT_BYTES};
use larder_model::{Item, Path};
use larder_ops::{self as ops, ReturnCapacity, Segment};
use larder_schema::schema::{Consistency, Scan as Allowed};
use larder_schema::{CHUNK, Fields};

use crate::entity::{Core, and};
use crate::invalidate::begins_as;
use crate::price::{self, Units};
use crate::query::{Page, READ_AT_ONCE_MAX, Told, cursor, filterable};
use crate::shelf::{self, Record, Shelf};
use crate::{Error, oversize};

/// Requests for one page of [`Scan::once`]: of a store that tells no units, they are its bound.
const ONCE_REQUESTS_MAX: u32 = 8;

/// DynamoDB's limit.
const SEGMENTS_MAX: u32 = 1_000_000;

impl<R: Record> Shelf<R> {
    /// All records, by reading the whole table. It has a price: [`Scan::explain`] tells it.
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
    /// let scan = pages.pages().scan();
    /// println!("{}", scan.explain().await?); // 3 items by a scan of 198 bytes, 0.5 read units, …
    /// assert_eq!(scan.at_any_price().all().await?.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan(&self) -> Scan<R> {
        let core = Arc::clone(&self.core);
        let consistent = core.entity().policy.reads == Consistency::Strong;
        let asked = Asked {
            limit: None,
            start: None,
            even_expired: false,
            consistent,
            at_any_price: false,
            segments: 1,
            strict: false,
            filter: None,
            once: false,
        };
        Scan { core, asked: Ok(asked), record: PhantomData }
    }
}

/// A scan that has not begun.
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
/// let refused = pages.pages().scan().all().await;
/// assert!(matches!(refused, Err(larder::Error::NotAllowed(_))), "the schema says `scan ask`");
///
/// let scan = pages.pages().scan().at_any_price();
/// let page = scan.clone().limit(2).page().await?;
/// assert_eq!(page.items.len(), 2);
/// let rest = scan.start_at(page.cursor.expect("there is one more")).all().await?;
/// assert_eq!(rest.len(), 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "a scan is begun by `page`, `all` or `stream`"]
pub struct Scan<R> {
    core: Arc<Core>,
    /// A mistake in it is reported when it begins.
    asked: Result<Asked, Error>,
    record: PhantomData<fn() -> R>,
}

#[derive(Clone, Debug)]
struct Asked {
    limit: Option<usize>,
    start: Option<Item>,
    even_expired: bool,
    consistent: bool,
    at_any_price: bool,
    segments: u32,
    strict: bool,
    filter: Option<Condition>,
    once: bool,
}

/// What a scan would read, and what that costs.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::{NewPage, Pages};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// # pages.pages().put(NewPage { url: "https://a.com/".to_owned(), text: String::new() }).await?;
/// let estimate = pages.pages().scan().explain().await?;
/// assert_eq!((estimate.items, estimate.exact), (1, true));
/// assert!(estimate.units.dollars() < 0.01);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Records it would give.
    pub items: u64,
    /// Bytes it would read.
    pub bytes: u64,
    /// What reading them takes.
    pub units: Units,
    /// Whether one page shows it all. Otherwise the rest is estimated from the first page.
    pub exact: bool,
    /// Whether the schema states how much is stored. If not, an estimate that is not exact is the least it can be.
    pub stated: bool,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.exact, self.stated) {
            (true, _) => "",
            (false, true) => "about ",
            (false, false) => "more than ",
        })?;
        let plural = if self.items == 1 { "" } else { "s" };
        write!(f, "{} item{plural} by a scan of {}, {}", self.items, price::size(self.bytes), self.units)
    }
}

impl<R: Record> Scan<R> {
    fn with(mut self, change: impl FnOnce(&mut Asked)) -> Self {
        if let Ok(asked) = &mut self.asked {
            change(asked);
        }
        self
    }

    /// At most so many records.
    pub fn limit(self, records: usize) -> Self {
        self.with(|asked| asked.limit = Some(records))
    }

    /// Also what has expired and is still stored.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::{NewPage, Pages};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// # pages.pages().put(NewPage { url: "https://a.com/".to_owned(), text: String::new() }).await?;
    /// pages.store().clock().advance(std::time::Duration::from_secs(2 * 60 * 60)); // a page lasts an hour
    /// let scan = pages.pages().scan().at_any_price();
    /// assert_eq!(scan.clone().all().await?.len(), 0);
    /// assert_eq!(scan.even_expired().all().await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn even_expired(self) -> Self {
        self.with(|asked| asked.even_expired = true)
    }

    /// Sees every write that was answered before it began, for twice the price.
    pub fn consistent(self) -> Self {
        self.with(|asked| asked.consistent = true)
    }

    /// Reads the table though the schema says `scan ask` or `scan deny`: whoever says this has seen the price.
    pub fn at_any_price(self) -> Self {
        self.with(|asked| asked.at_any_price = true)
    }

    /// Reads so many parts of the table at a time, for [`Scan::stream`] and [`Scan::all`]. Pages go one by one.
    pub fn in_parallel(self, segments: u32) -> Self {
        self.with(|asked| asked.segments = segments.clamp(1, SEGMENTS_MAX))
    }

    /// A record that cannot be read is an error, instead of being left out and told in [`Page::unread`], the log and
    /// the metrics.
    pub fn strict(self) -> Self {
        self.with(|asked| asked.strict = true)
    }

    /// Only items of which this holds, as [`Query::filter`](crate::Query::filter) has it.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::{NewPage, Pages};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// # for (url, text) in [("https://a.com/1", "milk"), ("https://a.com/2", "tea")] {
    /// #     pages.pages().put(NewPage { url: url.to_owned(), text: text.to_owned() }).await?;
    /// # }
    /// use larder::store::{Condition, Operand};
    /// use larder_model::Path;
    ///
    /// let milk = Condition::Contains { value: Operand::Path(Path::attribute("text")), part: Operand::value("milk") };
    /// assert_eq!(pages.pages().scan().at_any_price().filter(milk).all().await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter(mut self, condition: Condition) -> Self {
        if let Err(error) = filterable(&self.core, None, &condition) {
            self.asked = self.asked.and(Err(error));
        }
        self.with(|asked| {
            let before = asked.filter.take();
            asked.filter = before.into_iter().chain([condition]).reduce(and);
        })
    }

    /// What the store is told to leave out: other entities, parts of records, and what the filters say. Entities whose keys
    /// begin alike are told apart here, after they were read.
    pub fn condition(&self) -> Result<Option<Condition>, Error> {
        let asked = self.asked.as_ref().map_err(Clone::clone)?;
        Ok(asked.condition(&self.core))
    }

    /// A page is what is found in a megabyte of the table: perhaps nothing at all, though there is more. Less is read where less
    /// holds enough. For those who look at it page by page.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::{NewPage, Pages};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// # let text = "a".repeat(300_000);
    /// # for at in 0..8 { pages.pages().put(NewPage { url: format!("https://a.com/{at}"), text: text.clone() }).await?; }
    /// let page = pages.pages().scan().at_any_price().limit(8).once().page().await?;
    /// assert!(page.items.len() < 8 && page.cursor.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn once(self) -> Self {
        self.with(|asked| asked.once = true)
    }

    /// After the last record of an earlier page.
    pub fn start_at(mut self, cursor: impl AsRef<str>) -> Self {
        if let Ok(asked) = &mut self.asked {
            let table = self.core.table();
            let names: Vec<_> = std::iter::once(&table.partition).chain(table.sort.as_ref()).collect();
            match cursor::position(&names, cursor.as_ref()) {
                Ok(position) => asked.start = Some(position),
                Err(error) => self.asked = Err(error),
            }
        }
        self
    }

    /// Reads one page of the table, and says from it what the whole scan would read and cost.
    pub async fn explain(&self) -> Result<Estimate, Error> {
        let (core, asked) = (&self.core, self.asked.as_ref().map_err(Clone::clone)?);
        permit(core, asked, true)?;
        let request = ops::Scan {
            capacity: ReturnCapacity::Total,
            ..request(core, asked.start.clone(), filter(core), asked.consistent)
        };
        let page = core.store.scan(request).await?;
        let whole = page.last_key.is_none();
        let read = page.units;
        let items = asked.living(core, page.items).len() as u64;
        let unit_bytes = READ_UNIT_BYTES as f64 * if asked.consistent { 1.0 } else { 2.0 };
        let bytes = read * unit_bytes;

        let stored = core.schema.workload.as_ref().and_then(|workload| workload.stored_bytes);
        let rest = if whole { 1.0 } else { (stored.unwrap_or(0) as f64 / bytes.max(1.0)).max(1.0) };
        // A limit may end it sooner.
        let enough = asked.limit.filter(|_| items > 0).map(|limit| limit as f64 / items as f64);
        let share = enough.map_or(rest, |enough| enough.min(rest));
        let scaled = |figure: f64| if share == 1.0 { figure } else { (figure * share).round() };
        Ok(Estimate {
            items: scaled(items as f64) as u64,
            bytes: scaled(bytes) as u64,
            units: Units { read: scaled(read).max(0.5), write: 0.0 },
            exact: whole || enough.is_some_and(|enough| enough <= 1.0),
            stated: stored.is_some(),
        })
    }

    /// The first records, up to the limit; without one, what the store gives at once.
    pub async fn page(self) -> Result<Page<R>, Error> {
        let (core, asked) = (self.core, self.asked?);
        permit(&core, &asked, false)?;
        let mut told = Told::default();
        let (items, next) = asked.next(&core, None, asked.start.clone(), asked.limit, &mut told).await?;
        Ok(Page {
            items,
            cursor: next.map(|key| cursor::write(&key)),
            unread: told.unread,
            units: told.units,
        })
    }

    /// All records, up to the limit.
    pub async fn all(self) -> Result<Vec<R>, Error> {
        let mut stream = std::pin::pin!(self.stream());
        let mut all = Vec::new();
        while let Some(record) = stream.next().await {
            all.push(record?);
        }
        Ok(all)
    }

    /// All records, up to the limit, read as they are taken. It ends after an error.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::{NewPage, Pages};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// # pages.pages().put(NewPage { url: "https://a.com/".to_owned(), text: String::new() }).await?;
    /// use futures_util::TryStreamExt as _;
    ///
    /// let mut all = std::pin::pin!(pages.pages().scan().at_any_price().stream());
    /// while let Some(page) = all.try_next().await? {
    ///     assert_eq!(page.url, "https://a.com/");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(self) -> impl Stream<Item = Result<R, Error>> + Send {
        let core = self.core;
        let permitted = self.asked.and_then(|asked| permit(&core, &asked, false).map(|()| asked));
        let limit = permitted.as_ref().ok().and_then(|asked| asked.limit).unwrap_or(usize::MAX);
        let parts: Vec<Result<Reading<R>, Error>> = match permitted {
            Err(error) => vec![Err(error)],
            Ok(asked) => {
                let total = if asked.start.is_some() { 1 } else { asked.segments };
                let segments = (0..total).map(|index| (total > 1).then_some(Segment { index, total }));
                segments.map(|segment| Ok(Reading::new(asked.clone(), segment))).collect()
            }
        };
        let parts = parts.into_iter().map(|part| {
            let state = Some((Arc::clone(&core), part));
            Box::pin(futures_util::stream::unfold(state, |state| async move {
                let (core, part) = state?;
                let mut reading = match part {
                    Ok(reading) => reading,
                    Err(error) => return Some((Err(error), None)),
                };
                while reading.ready.is_empty() && !reading.over {
                    if let Err(error) = reading.more(&core).await {
                        return Some((Err(error), None));
                    }
                }
                let record = reading.ready.pop_front()?;
                Some((Ok(record), Some((core, Ok(reading)))))
            }))
        });
        futures_util::stream::select_all(parts).take(limit)
    }
}

/// A stream under way, of one segment or of the whole table.
struct Reading<R> {
    asked: Asked,
    segment: Option<Segment>,
    start: Option<Item>,
    left: Option<usize>,
    ready: VecDeque<R>,
    over: bool,
    told: Told,
}

impl<R: Record> Reading<R> {
    fn new(asked: Asked, segment: Option<Segment>) -> Self {
        Self {
            segment,
            start: asked.start.clone(),
            left: asked.limit,
            over: asked.limit == Some(0),
            ready: VecDeque::new(),
            told: Told::default(),
            asked,
        }
    }

    async fn more(&mut self, core: &Arc<Core>) -> Result<(), Error> {
        let (start, left) = (self.start.take(), self.left);
        let (items, next) = self.asked.next(core, self.segment, start, left, &mut self.told).await?;
        self.left = self.left.map(|left| left.saturating_sub(items.len()));
        self.over = next.is_none() || self.left == Some(0);
        self.start = next;
        self.ready.extend(items);
        Ok(())
    }
}

impl Asked {
    fn condition(&self, core: &Core) -> Option<Condition> {
        filter(core).into_iter().chain(self.filter.clone()).reduce(and)
    }

    /// The next records, at most so many and at least one unless none are left, and where to go on.
    async fn next<R: Record>(
        &self,
        core: &Arc<Core>,
        segment: Option<Segment>,
        mut start: Option<Item>,
        most: Option<usize>,
        told: &mut Told,
    ) -> Result<(Vec<R>, Option<Item>), Error> {
        if most == Some(0) {
            return Ok((Vec::new(), start));
        }
        let now = core.unix_now();
        let mut found = Vec::new();
        let condition = self.condition(core);
        let mut ask = most;
        let (begun, mut requests) = (told.units, 0);
        let enough = price::read_units(PAGE_BYTES_MAX as u64, self.consistent);
        loop {
            let request = request(core, start, condition.clone(), self.consistent);
            let capacity = ReturnCapacity::Total;
            let page = core.store.scan(ops::Scan { limit: ask, segment, capacity, ..request }).await?;
            start = page.last_key;
            told.units += page.units;
            requests += 1;
            let mut living = self.living(core, page.items).into_iter().peekable();
            while let Some(item) = living.next() {
                let position = core.key_of(&item);
                let Some(item) = oversize::join(core, item).await? else { continue };
                found.extend(told.unread.take(core, shelf::read(core, &item, now), self.strict)?);
                if most.is_some_and(|most| found.len() >= most) {
                    let next = if living.peek().is_some() { Some(position) } else { start };
                    return Ok((found, next));
                }
            }
            let is_read = most.is_none() || told.units - begun >= enough || requests == ONCE_REQUESTS_MAX;
            if start.is_none() || self.once && is_read || (most.is_none() && !found.is_empty()) {
                return Ok((found, start));
            }
            // What is left out is often followed by more of its kind.
            ask = ask.map(|ask| ask.saturating_mul(2).min(READ_AT_ONCE_MAX.max(ask)));
        }
    }

    /// Leaves out what is of another entity, or has expired.
    fn living(&self, core: &Core, items: Vec<Item>) -> Vec<Item> {
        let now = core.unix_now();
        let wanted = |item: &Item| core.owns(item) && (self.even_expired || !core.is_expired(item, now));
        items.into_iter().filter(wanted).collect()
    }
}

/// Whether the schema lets this scan be made; to look at its price, `scan ask` is enough.
fn permit(core: &Core, asked: &Asked, only_look: bool) -> Result<(), Error> {
    match core.entity().policy.scan {
        _ if asked.at_any_price => Ok(()),
        Allowed::Allow => Ok(()),
        Allowed::Ask if only_look => Ok(()),
        Allowed::Ask => Err(Error::NotAllowed(format!(
            "a scan of {} has a price: look at it with `explain`, then say `at_any_price`",
            core.name()
        ))),
        Allowed::Deny => Err(Error::NotAllowed(format!(
            "a scan reads the whole table: `scan ask` or `scan allow` in {} would permit it",
            core.name()
        ))),
    }
}

/// What a store can leave out by itself. It may let through too much.
fn filter(core: &Core) -> Option<Condition> {
    // Parts are read with the item they are part of.
    let part = oversize::may_split(core).then(|| Condition::NotExists(Path::attribute(CHUNK)));
    begins_as(core, &Fields::new()).into_iter().chain(part).reduce(and)
}

/// A page of the whole table.
pub(crate) fn request(
    core: &Core,
    start: Option<Item>,
    filter: Option<Condition>,
    consistent: bool,
) -> ops::Scan {
    ops::Scan { filter, start, consistent, ..ops::Scan::of(core.table_name.clone()) }
}

impl<R> Clone for Scan<R> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), asked: self.asked.clone(), record: PhantomData }
    }
}

impl<R> fmt::Debug for Scan<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("entity", &self.core.name()).finish_non_exhaustive()
    }
}
