//! Lifecycles: an item goes from state to state, one conditional write at a time.
//!
//! A state without a lease is entered by [`Lifecycle::run`]. A state with one is entered by a claim, which gives
//! a [`Lease`], and left through that lease alone. Who dies while holding a lease loses it when it runs out,
//! and the next claim takes the item over.
//!
//! Besides the four attributes that the schema names, a leased item carries `larder_<lifecycle>_from`: the state
//! it goes back to when the work is not done. Outside a leased state, `<lifecycle>_until` says before when the
//! item is not claimed again, because work on it failed.
//!
//! Promises:
//! - Only declared transitions happen, and a transition that lost a race changes nothing.
//! - Two claims never hold one item: each has a fencing number of its own, and only the last one can write.
//! - An answer that was lost does not lose the work: what a call wrote itself counts as done.

mod claim;
mod lease;
mod list;
mod step;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use larder_model::{AttributeValue, Item, UnixTime};
use larder_schema::jiff::Timestamp;
use larder_schema::jiff::tz::TimeZone;
use larder_schema::schema::{LeaseAttributes, Retry, State, Transition};
use larder_schema::{Fields, Type, Value};

use crate::Error;
use crate::entity::{Core, timestamp};
use crate::shelf::{self, Draft, Given, Kept, Record, Shelf};

pub use claim::{Claim, Claims};
pub use lease::Lease;
pub use list::Listing;

/// Work that fails is tried again for ever, after these pauses, where the schema does not say `retry`.
const RETRY: Retry = Retry { attempts: u32::MAX, backoff_millis: (60_000, 3_600_000) };

impl<R: Record> Shelf<R> {
    /// A lifecycle of the entity, by its name.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// // By its name; `shops.crawl()` is the typed one.
    /// let crawl = shops.shops().lifecycle("crawl").expect("the schema has it");
    /// assert_eq!(crawl.due("DE").await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lifecycle(&self, name: &str) -> Option<Lifecycle<R>> {
        Track::of(&self.core, name).map(|track| Lifecycle { track, record: PhantomData })
    }
}

/// One lifecycle of one entity. Clones are the same lifecycle.
///
/// ```
/// # larder::schema!("examples/shops.larder");
/// # use shops::{NewShop, Shops};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let shops = Shops::open(larder::Store::memory().await).await?;
/// # shops.shops().create(NewShop::new("a.de")).await?;
/// use std::time::Duration;
///
/// let mut due = shops.crawl().claim("DE").older_than(Duration::from_secs(86_400)).take(10).await?;
/// while let Some(lease) = due.next().await? {
///     match lease.work(async { Ok::<(), std::io::Error>(()) }).await? {
///         Ok(()) => drop(lease.finish().await?),
///         Err(error) => lease.retry(error).await?,
///     }
/// }
/// assert!(shops.crawl().due("DE").await?.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct Lifecycle<R> {
    track: Track,
    record: PhantomData<fn() -> R>,
}

impl<R> Clone for Lifecycle<R> {
    fn clone(&self) -> Self {
        Self { track: self.track.clone(), record: PhantomData }
    }
}

impl<R> fmt::Debug for Lifecycle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lifecycle").field("name", &self.track.name()).finish_non_exhaustive()
    }
}

impl<R: Record> Lifecycle<R> {
    /// Makes a transition. `params` are the fields that the schema leaves to the caller.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// use larder::Fields;
    ///
    /// let why = Fields::from([("reason".to_owned(), "it is bankrupt".into())]);
    /// let shop = shops.crawl().run("a.de", "close", why).await?;
    /// assert_eq!(shop.kept().state("crawl"), Some("closed"));
    /// let again = shops.crawl().run("a.de", "close", Fields::new()).await;
    /// assert!(matches!(again, Err(larder::Error::State { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(&self, key: impl Into<R::Key>, transition: &str, params: Fields) -> Result<R, Error> {
        let item = self.track.run(&self.key(key)?, transition, params).await?;
        self.read(&item)
    }

    /// The state a record is in now, as the store has it.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// let standing = shops.crawl().standing("a.de").await?.expect("it was just made");
    /// assert_eq!((standing.state.as_str(), standing.attempts), ("never", 0));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn standing(&self, key: impl Into<R::Key>) -> Result<Option<Standing<R>>, Error> {
        let item = self.track.core.load(&self.key(key)?, true).await?;
        item.and_then(|item| self.track.stand(&item)).transpose()
    }

    /// The state that a record which was read is in by now; [`Kept::state`] is the one it was read in.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// let shop = shops.shops().create(NewShop::new("a.de")).await?;
    /// let _lease = shops.crawl().hold("a.de").await?;
    /// assert_eq!(shop.kept().state("crawl"), Some("never"));
    /// assert_eq!(shops.crawl().state_of(&shop).await?.as_deref(), Some("progress"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn state_of(&self, record: &impl Draft<R>) -> Result<Option<String>, Error> {
        let Some(kept) = record.kept() else { return Ok(None) };
        let item = self.track.core.load(&kept.key, true).await?;
        Ok(item.and_then(|item| self.track.lifecycle().state_of(&item).map(|state| state.name.clone())))
    }

    /// Takes what is due in one group, such as a country: what the index that holds the state is parted by.
    /// `()` where the state itself is what an index is parted by.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// let mut due = shops.crawl().claim("DE").await?;
    /// assert_eq!(due.next().await?.expect("one is due").domain, "a.de");
    /// assert!(due.next().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn claim(&self, group: impl Into<Group>) -> Claim<R> {
        Claim::new(self.track.clone(), group.into())
    }

    /// Takes one record, due or not, unless somebody else holds it.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// let lease = shops.crawl().hold("a.de").await?;
    /// assert_eq!((lease.fence(), lease.attempts()), (1, 1));
    /// assert!(shops.crawl().hold("a.de").await.is_err(), "somebody has it");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hold(&self, key: impl Into<R::Key>) -> Result<Lease<R>, Error> {
        claim::hold(&self.track, &self.key(key)?, None, &Fields::new()).await
    }

    /// Takes one record by the transition that is named, with what it leaves to the caller: what the method of
    /// that name does, as in `shops.crawl().begin("a.de")`.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// let lease = shops.crawl().hold_by("a.de", "begin", larder::Fields::new()).await?;
    /// assert_eq!(lease.attempts(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hold_by(
        &self,
        key: impl Into<R::Key>,
        transition: &str,
        params: Fields,
    ) -> Result<Lease<R>, Error> {
        claim::hold(&self.track, &self.key(key)?, Some(transition), &params).await
    }

    /// What a claim would take, in that order, apart from leases that ran out: those are [stuck](Self::stuck).
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// assert_eq!(shops.crawl().due("DE").limit(5).await?[0].domain, "a.de");
    /// assert!(shops.crawl().due("FR").await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn due(&self, group: impl Into<Group>) -> Listing<R> {
        Listing::due(self.track.clone(), group.into())
    }

    /// Leases that ran out: their workers died, or tried as often as the schema allows.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// # use std::time::Duration;
    /// drop(shops.crawl().hold("a.de").await?); // its worker died
    /// shops.store().clock().advance(Duration::from_secs(3 * 60 * 60)); // a lease lasts two hours
    /// assert_eq!(shops.crawl().stuck("DE").await?[0].domain, "a.de");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stuck(&self, group: impl Into<Group>) -> Listing<R> {
        Listing::stuck(self.track.clone(), group.into())
    }

    /// Records in a state, in the order of the index.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// use shops::CrawlState;
    ///
    /// let never = shops.crawl().in_state(CrawlState::Never).group("DE").await?;
    /// assert_eq!(never.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_state(&self, state: &str) -> Listing<R> {
        Listing::in_state(self.track.clone(), state)
    }

    /// Gives back what is stuck: it is due again, and counts as not tried. A lease that lives is left alone.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// # use std::time::Duration;
    /// drop(shops.crawl().hold("a.de").await?); // its worker died
    /// shops.store().clock().advance(Duration::from_secs(3 * 60 * 60)); // a lease lasts two hours
    /// let shop = shops.crawl().release("a.de").await?;
    /// assert_eq!(shop.kept().state("crawl"), Some("never"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(&self, key: impl Into<R::Key>) -> Result<R, Error> {
        let item = self.track.release(&self.key(key)?).await?;
        self.read(&item)
    }

    fn key(&self, key: impl Into<R::Key>) -> Result<Item, Error> {
        self.track.core.key(&key.into().into_fields())
    }

    fn read(&self, item: &Item) -> Result<R, Error> {
        shelf::read(&self.track.core, item, self.track.core.unix_now())
    }
}

impl Kept {
    /// Makes a transition of the record that was read.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// use larder::Fields;
    /// use shops::Shop;
    ///
    /// let shop = shops.shops().create(NewShop::new("a.de")).await?;
    /// let why = Fields::from([("reason".to_owned(), "it is bankrupt".into())]);
    /// let shop: Shop = shop.kept().run("crawl", "close", why).await?; // what `shop.close("…")` rests on
    /// assert_eq!(shop.reason.as_deref(), Some("it is bankrupt"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<R: Record>(
        &self,
        lifecycle: &str,
        transition: &str,
        params: Fields,
    ) -> Result<R, Error> {
        let track = Track::of(&self.core, lifecycle).ok_or_else(|| {
            Error::NotAllowed(format!("{} has no lifecycle `{lifecycle}`", self.core.name()))
        })?;
        let item = track.run(&self.key, transition, params).await?;
        shelf::read(&self.core, &item, self.core.unix_now())
    }
}

/// A record with the state it is in.
///
/// ```
/// # larder::schema!("examples/shops.larder");
/// # use shops::{NewShop, Shops};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let shops = Shops::open(larder::Store::memory().await).await?;
/// # shops.shops().create(NewShop::new("a.de")).await?;
/// # let lease = shops.crawl().claim("DE").owner("worker 1").await?.next().await?.expect("one is due");
/// let standing = shops.crawl().standing("a.de").await?.expect("it is there");
/// assert_eq!((standing.state.as_str(), standing.fence, standing.exhausted), ("progress", 1, false));
/// assert!(standing.owner.as_deref().is_some_and(|owner| owner.starts_with("worker 1")));
/// assert_eq!(standing.domain, "a.de"); // it is the record too
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Standing<R> {
    /// The record itself.
    pub record: R,
    /// The state, by its name in the schema.
    pub state: String,
    /// The moment in the state as it is written, if there is one.
    pub since: Option<Timestamp>,
    /// Who holds it, or did.
    pub owner: Option<String>,
    /// When the lease ends; without an owner, before when it is not claimed.
    pub until: Option<UnixTime>,
    /// The number of the last claim.
    pub fence: i64,
    /// Claims since work was last done.
    pub attempts: i64,
    /// It was tried as often as the schema allows, and is left alone until it is released.
    pub exhausted: bool,
}

impl<R> std::ops::Deref for Standing<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.record
    }
}

/// A partition of the index that holds a state, spoken in fields: `"DE"`, not `COUNTRY#DE`.
///
/// ```
/// use larder::{Group, Value};
///
/// assert_eq!(Group::from("DE"), Group::of([Value::from("DE")]));
/// assert_eq!(Group::from(()), Group::of([]));
/// let both = Group::of([Value::from("DE"), Value::from(7)]);
/// assert_ne!(both, Group::from("DE"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group(Vec<Value>);

impl From<()> for Group {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<&str> for Group {
    fn from(text: &str) -> Self {
        Self(vec![Value::from(text)])
    }
}

impl From<String> for Group {
    fn from(text: String) -> Self {
        Self(vec![Value::Text(text)])
    }
}

impl From<i64> for Group {
    fn from(number: i64) -> Self {
        Self(vec![Value::from(number)])
    }
}

impl From<Value> for Group {
    fn from(value: Value) -> Self {
        Self(vec![value])
    }
}

impl Group {
    /// A partition that takes several values to name.
    pub fn of(values: impl IntoIterator<Item = Value>) -> Self {
        Self(values.into_iter().collect())
    }
}

/// A lifecycle on a store, whatever the type of its records.
#[derive(Clone, Debug)]
struct Track {
    core: Arc<Core>,
    at: usize,
}

impl Track {
    fn of(core: &Arc<Core>, name: &str) -> Option<Self> {
        let at = core.entity().lifecycles.iter().position(|lifecycle| lifecycle.name == name)?;
        Some(Self { core: Arc::clone(core), at })
    }

    fn lifecycle(&self) -> &larder_schema::schema::Lifecycle {
        &self.core.entity().lifecycles[self.at]
    }

    fn name(&self) -> &str {
        &self.lifecycle().name
    }

    fn state(&self, name: &str) -> Result<&State, Error> {
        let states = &self.lifecycle().states;
        states.iter().find(|state| state.name == name).ok_or_else(|| {
            let names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
            self.refused(&format!("there is no state `{name}`; there are {}", names.join(", ")))
        })
    }

    fn transition(&self, name: &str) -> Result<&Transition, Error> {
        let transitions = &self.lifecycle().transitions;
        transitions.iter().find(|transition| transition.name == name).ok_or_else(|| {
            let names: Vec<&str> = transitions.iter().map(|transition| transition.name.as_str()).collect();
            self.refused(&format!("there is no transition `{name}`; there are {}", names.join(", ")))
        })
    }

    /// Where the state of a name has a lease, how long.
    fn lease_millis(&self, state: &str) -> Option<i64> {
        self.lifecycle().states.iter().find(|known| known.name == state)?.lease_millis
    }

    fn lease_attributes(&self) -> Result<&LeaseAttributes, Error> {
        self.lifecycle().lease.as_ref().ok_or_else(|| {
            self.refused("no state has a lease, so there is nothing to claim: write `state … lease 2h`")
        })
    }

    /// The transitions that a claim makes.
    fn claims(&self) -> impl Iterator<Item = &Transition> {
        let transitions = self.lifecycle().transitions.iter();
        transitions.filter(|transition| self.lease_millis(&transition.to).is_some())
    }

    fn retry(&self) -> Retry {
        self.lifecycle().retry.unwrap_or(RETRY)
    }

    fn origin_attribute(&self) -> String {
        origin_attribute(self.lifecycle())
    }

    fn refused(&self, cause: &str) -> Error {
        Error::NotAllowed(format!("{}, lifecycle `{}`: {cause}", self.core.name(), self.name()))
    }

    fn lost(&self, key: &Item, cause: &str) -> Error {
        Error::LeaseLost {
            entity: self.core.name().to_owned(),
            key: self.core.key_text(key),
            cause: cause.to_owned(),
        }
    }

    /// The lease of an item, as it is written.
    fn written(&self, item: &Item) -> Written {
        let Some(names) = &self.lifecycle().lease else { return Written::default() };
        let number = |name: &str| item.get(name).and_then(|value| value.as_number()?.to_i64());
        Written {
            owner: item.get(&names.owner).and_then(|value| value.as_str()).map(str::to_owned),
            until: number(&names.until).map(UnixTime::from_seconds),
            fence: number(&names.fence).unwrap_or(0),
            attempts: number(&names.attempts).unwrap_or(0),
        }
    }

    /// The moment in a state's text.
    fn since(&self, state: &State, item: &Item) -> Option<Timestamp> {
        let text = item.get(&self.lifecycle().attribute)?.as_str()?;
        let name = &moment(state)?.field;
        match state.template.read(text)?.fields.get(name)? {
            Value::Date(date) => Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp()),
            value => value.as_instant(),
        }
    }

    /// Whether the lease of an item in a leased state is over. One written by somebody who keeps no leases is
    /// over when its time since it began is.
    fn ran_out(&self, state: &State, item: &Item, now: UnixTime) -> bool {
        let Some(lease) = state.lease_millis else { return false };
        match self.written(item).until {
            Some(until) => until.seconds() < now.seconds(),
            None => self
                .since(state, item)
                .is_none_or(|since| since.as_millisecond().saturating_add(lease) < now.millis()),
        }
    }

    /// Whether there is no attempt left.
    fn is_exhausted(&self, written: &Written) -> bool {
        written.attempts > i64::from(self.retry().attempts)
    }

    /// `None` when the item is in no state.
    /// The state an item is in.
    fn state_in(&self, item: &Item) -> Result<&State, Error> {
        let lifecycle = self.lifecycle();
        lifecycle.state_of(item).ok_or_else(|| {
            let written = item.get(&lifecycle.attribute).and_then(AttributeValue::as_str).unwrap_or_default();
            Error::Corrupt {
                entity: self.core.name().to_owned(),
                key: self.core.key_text(&self.core.key_of(item)),
                cause: format!(
                    "`{}` holds \"{written}\", which is no state of {}",
                    lifecycle.attribute, lifecycle.name
                ),
            }
        })
    }

    fn stand<R: Record>(&self, item: &Item) -> Option<Result<Standing<R>, Error>> {
        let state = self.lifecycle().state_of(item)?;
        let written = self.written(item);
        let record = shelf::read(&self.core, item, self.core.unix_now());
        Some(record.map(|record| Standing {
            record,
            state: state.name.clone(),
            since: self.since(state, item),
            exhausted: self.is_exhausted(&written)
                && (state.lease_millis.is_none() || self.ran_out(state, item, self.core.unix_now())),
            owner: written.owner,
            until: written.until,
            fence: written.fence,
            attempts: written.attempts,
        }))
    }

    /// All fields of an item, or of what an index holds of it.
    fn fields(&self, item: &Item) -> Result<Fields, Error> {
        let read = self.core.schema.read_item(self.core.table(), self.core.entity(), item);
        read.map_err(|cause| {
            Error::corrupt(self.core.name(), &self.core.key_text(&self.core.key_of(item)), &cause)
        })
    }
}

/// A lease as it is written.
#[derive(Clone, Debug, Default)]
struct Written {
    owner: Option<String>,
    until: Option<UnixTime>,
    fence: i64,
    attempts: i64,
}

/// Where the state before a lease is written.
pub(crate) fn origin_attribute(lifecycle: &larder_schema::schema::Lifecycle) -> String {
    format!("larder_{}_from", lifecycle.name)
}

/// The hole of a state's template that says since when it holds.
fn moment(state: &State) -> Option<&larder_schema::Hole> {
    state.template.holes().find(|hole| matches!(hole.kind, Type::Instant(_) | Type::Epoch | Type::Date))
}

/// A moment as a value of a hole.
fn moment_value(kind: &Type, at: UnixTime) -> Value {
    let at = timestamp(at);
    match kind {
        Type::Date => Value::Date(at.to_zoned(TimeZone::UTC).date()),
        _ => Value::Instant(at),
    }
}
