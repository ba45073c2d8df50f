//! Lifecycles: an item goes from state to state, one conditional write at a time.
//!
//! A state without a lease is entered by [`Lifecycle::run`]. A state with one is entered by a claim, which gives
//! a [`Lease`], and left through that lease alone. Who dies while holding a lease loses it when it runs out,
//! and the next claim takes the item over.
//!
//! A lease runs out for whoever has watched it (`watched.rs`): the item stayed as it is for the lease's length, by the
//! time that passed in one program. What the clocks of two machines say is not compared, except where the program says how
//! far they may be apart ([`Claim::clocks_within`]), on an embedded store, whose one process has one clock, and by
//! [`Lifecycle::release`], which is a person's decision. `<lifecycle>_until` is for people, listings, and programs without this layer.
//!
//! Besides the four attributes that the schema names, a leased item carries `larder_<lifecycle>_from`: the state
//! it goes back to when the work is not done. Outside a leased state, `<lifecycle>_until` says before when the
//! item is not claimed again, because work on it failed; `larder_<lifecycle>_error` says why, until the next claim.
//!
//! Promises:
//! - Only declared transitions happen, and a transition that lost a race changes nothing.
//! - Two claims never hold one item, as long as time passes equally fast for their programs: a holder gives up, or
//!   is told, before its lease is over for anybody else. A program that stands still and goes on (a machine asleep, a
//!   long pause) finds out at its next renewal, at most a third of the lease after; what it wrote meanwhile elsewhere
//!   can be told by its [number](Lease::fence).
//! - Each claim has a number of its own that grows, and only the last one can write the item.
//! - An answer that was lost does not lose the work: what a call wrote itself counts as done.

mod claim;
mod lease;
mod list;
mod step;
mod watched;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use larder_model::{AttributeValue, Item, UnixTime, item_bytes};
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
pub(crate) use watched::Watched;

/// Work that fails is tried again for ever, after these pauses, where the schema does not say `retry`.
const RETRY: Retry = Retry { attempts: u32::MAX, backoff_millis: (60_000, 3_600_000) };

/// What is kept of an error.
const ERROR_BYTES_MAX: usize = 1024;
/// What is kept where an error may tell a secret.
const UNTOLD: &str = "the log of the program says why: the entity has secrets, which an error may tell";

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

    /// Takes one record, due or not, unless somebody else holds it. What somebody else held is taken once its lease was
    /// seen to be over, so whoever waits for a record asks again from time to time.
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

    /// Gives back what is stuck: it is due again, and counts as not tried. A lease that lives by this machine's clock is left
    /// alone. Of one that lives by its holder's clock only, the holder finds out at its next renewal.
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

    /// Ends the pause of a record on which work failed: it is due at once. Its attempts and its error stay. What does not pause
    /// stays as it is, and what is held, or stuck, is refused.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// shops.crawl().hold("a.de").await?.retry("the shop did not answer").await?;
    /// assert!(shops.crawl().due("DE").await?.is_empty(), "it is left alone for a while");
    /// shops.crawl().retry_now("a.de").await?;
    /// assert_eq!(shops.crawl().due("DE").await?[0].error.as_deref(), Some("the shop did not answer"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retry_now(&self, key: impl Into<R::Key>) -> Result<R, Error> {
        let item = self.track.retry_now(&self.key(key)?).await?;
        self.read(&item)
    }

    /// Where an item stands, as it was read by [`Store::get_item`](crate::Store::get_item), whether or not its record can be read.
    /// `None` where it is in no state that the schema knows.
    pub fn standing_of(&self, item: &Item) -> Option<Standing<()>> {
        self.track.stand_alone(item)
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
    /// Its lease ran out, and nobody has taken it over: it can be released.
    pub stuck: bool,
    /// Work on it failed, and it is not claimed before `until`.
    pub pauses: bool,
    /// Why work on it failed last, since it was last claimed.
    pub error: Option<String>,
}

impl<R> std::ops::Deref for Standing<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.record
    }
}

/// A partition of the index that holds a state, expressed in fields: `"DE"`, not `COUNTRY#DE`.
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

    /// Whether an item in a leased state may be taken over: the lease was seen to be over, or nobody has it. `apart` is how
    /// far the clocks of those who claim may be from each other, if that is known.
    fn is_free_of(&self, state: &State, item: &Item, apart: Option<Duration>) -> bool {
        let written = self.written(item);
        let (Some(millis), Some(until)) = (state.lease_millis, written.until) else {
            return self.ran_out(state, item, self.core.unix_now());
        };
        if written.owner.is_none() {
            return true;
        }
        let is_past = |apart| until.plus(apart).seconds() < self.core.unix_now().seconds();
        // No other clock is involved: this one is right, also when a test has stopped it.
        if self.core.store.has_one_clock() {
            return is_past(Duration::ZERO);
        }
        let now = self.core.store.clock().elapsed();
        let seen = self.core.watched.is_over(self.watched_at(item), &written, duration(millis), now);
        seen || apart.is_some_and(is_past)
    }

    /// Whether a lease was looked at so lately that there is no need to read its item again.
    fn is_watched(&self, state: &State, item: &Item, apart: Option<Duration>) -> bool {
        let Some(millis) = state.lease_millis else { return false };
        apart.is_none() && !self.core.store.has_one_clock() && {
            let now = self.core.store.clock().elapsed();
            self.core.watched.is_known(&self.watched_at(item), duration(millis), now)
        }
    }

    /// Notes a lease of our own, as it is written.
    fn watch(&self, key: &Item, written: &Written, length: Duration) {
        let now = self.core.store.clock().elapsed();
        let _ = self.core.watched.note(self.watched_at(key), written, length, now);
    }

    /// By the key as bytes: as people read it, two keys may look the same.
    fn watched_at(&self, item: &Item) -> watched::Place {
        (self.at, item_bytes::encode(&self.core.key_of(item)))
    }

    /// Whether there is no attempt left.
    fn is_exhausted(&self, written: &Written) -> bool {
        written.attempts > i64::from(self.retry().attempts)
    }

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
        let Standing {
            record: (),
            state,
            since,
            owner,
            until,
            fence,
            attempts,
            exhausted,
            stuck,
            pauses,
            error,
        } = self.stand_alone(item)?;
        let record = shelf::read(&self.core, item, self.core.unix_now());
        Some(record.map(|record| Standing {
            record,
            state,
            since,
            owner,
            until,
            fence,
            attempts,
            exhausted,
            stuck,
            pauses,
            error,
        }))
    }

    fn stand_alone(&self, item: &Item) -> Option<Standing<()>> {
        let state = self.lifecycle().state_of(item)?;
        let (written, now) = (self.written(item), self.core.unix_now());
        let stuck = self.ran_out(state, item, now);
        let error = self.lifecycle().lease.as_ref().and_then(|names| item.get(&names.error)?.as_str());
        Some(Standing {
            record: (),
            state: state.name.clone(),
            since: self.since(state, item),
            exhausted: self.is_exhausted(&written) && (state.lease_millis.is_none() || stuck),
            stuck,
            pauses: self.pauses(state, &written, now),
            error: error.map(str::to_owned),
            owner: written.owner,
            until: written.until,
            fence: written.fence,
            attempts: written.attempts,
        })
    }

    /// Whether an item waits for its next attempt.
    fn pauses(&self, state: &State, written: &Written, now: UnixTime) -> bool {
        let is_over = written.until.is_none_or(|until| until.seconds() < now.seconds());
        state.lease_millis.is_none() && written.owner.is_none() && !is_over
    }

    /// As much of an error as is kept.
    fn kept_error(&self, error: &str) -> String {
        let (schema, entity) = (&self.core.schema, self.core.entity());
        if entity.fields.iter().any(|field| schema.reveals_secret(entity, field)) {
            return UNTOLD.to_owned();
        }
        bounded(&without_keys(error))
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

/// A text without what URLs in it say after a `?` or before an `@`: programs put keys there.
fn without_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        out.push_str(before);
        let is_end = |letter: char| letter.is_whitespace() || "\"'<>`)]}".contains(letter);
        let (url, after) = after.split_at(after.find(is_end).unwrap_or(after.len()));
        let (host, path) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
        out.push_str(host.rsplit_once('@').map_or(host, |(_, host)| host));
        let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
        out.push_str(path);
        out.push_str(if query.is_empty() { "" } else { "?…" });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The beginning of a text, where all of it is more than is kept.
fn bounded(text: &str) -> String {
    if text.len() <= ERROR_BYTES_MAX {
        return text.to_owned();
    }
    let most = ERROR_BYTES_MAX - "…".len();
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_kept_without_keys_that_urls_have() {
        for (error, kept) in [
            ("it timed out", "it timed out"),
            (
                "error sending request for url (https://api.example/w?appid=hush&q=1): timed out",
                "error sending request for url (https://api.example/w?…): timed out",
            ),
            ("postgres://me:hush@db/x and http://b?c", "postgres://db/x and http://b?…"),
            ("at https://a/b@c, later", "at https://a/b@c, later"),
            ("://", "://"),
            ("a://b:p@ss@host?x\nnext", "a://host?…\nnext"),
        ] {
            assert_eq!(without_keys(error), kept);
        }
    }

    #[test]
    fn an_error_is_cut_between_letters() {
        assert_eq!(bounded("short"), "short");
        for text in ["x".repeat(5000), "ä".repeat(5000), "日本".repeat(900)] {
            let kept = bounded(&text);
            assert!(kept.len() <= ERROR_BYTES_MAX && kept.len() > ERROR_BYTES_MAX - 8 && kept.ends_with('…'));
        }
        assert_eq!(bounded(&"x".repeat(ERROR_BYTES_MAX)).len(), ERROR_BYTES_MAX);
    }
}
