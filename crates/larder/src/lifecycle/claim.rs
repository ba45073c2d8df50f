//! Claims: what is due is taken, one item at a time, each by one conditional write.
//!
//! The order within a group: states without a moment (never done), then leases that ran out, then what is due,
//! oldest first. Groups take turns, so a large one does not starve a small one. What somebody else takes first
//! is passed over, and so is what cannot be read: a claim of it would help nobody.
//!
//! Workers of one group see one order, and each has read a page of it. Of an old page others have taken most: whoever
//! finds something on it taken reads anew, from there on. So nothing is offered twice, and the order stays.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use larder_expr::{Comparator, Condition, Operand};
use larder_model::{AttributeValue, Item, Path, UnixTime};
use larder_schema::schema::State;
use larder_schema::{Fields, PARTS};
use tokio::time::Instant;

use super::lease::{Hold, Lease};
use super::list::{Lane, Range};
use super::step::seconds_after;
use super::{Group, Track, duration};
use crate::entity::{and, or};
use crate::record::{Refused, unchanged};
use crate::shelf::{self, Record};
use crate::{Error, Unread};

/// A claim of what is due. Awaiting it gives the [`Claims`], which take one item at a time.
///
/// ```
/// # larder::schema!("examples/shops.larder");
/// # use shops::{NewShop, Shops};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let shops = Shops::open(larder::Store::memory().await).await?;
/// for (domain, country) in [("a.de", "DE"), ("b.de", "DE"), ("c.fr", "FR")] {
///     shops.shops().create(NewShop { country: Some(country.to_owned()), ..NewShop::new(domain) }).await?;
/// }
/// let mut claims = shops.crawl().claim("DE").groups(["FR"]).owner("worker 1").take(2).await?;
/// let (first, second) = (claims.next().await?, claims.next().await?);
/// assert_eq!((first.unwrap().country.as_str(), second.unwrap().country.as_str()), ("DE", "FR"));
/// assert!(claims.next().await?.is_none(), "two were asked for");
/// # Ok(())
/// # }
/// ```
#[must_use = "a claim is made when it is awaited"]
#[derive(Debug)]
pub struct Claim<R> {
    track: Track,
    groups: Vec<Group>,
    older_than: Option<Duration>,
    take: usize,
    owner: String,
    params: Fields,
    strict: bool,
    apart: Option<Duration>,
    record: PhantomData<fn() -> R>,
}

impl<R: Record> Claim<R> {
    pub(super) fn new(track: Track, group: Group) -> Self {
        Self {
            track,
            groups: vec![group],
            older_than: None,
            take: usize::MAX,
            owner: this_process(),
            params: Fields::new(),
            strict: false,
            apart: None,
            record: PhantomData,
        }
    }

    /// Of these groups too. Groups take turns.
    pub fn groups<G: Into<Group>>(mut self, groups: impl IntoIterator<Item = G>) -> Self {
        self.groups.extend(groups.into_iter().map(Into::into));
        self
    }

    /// Due when it was last done so long ago, instead of what the schema says.
    pub fn older_than(mut self, duration: Duration) -> Self {
        self.older_than = Some(duration);
        self
    }

    /// At most so many.
    pub fn take(mut self, count: usize) -> Self {
        self.take = count;
        self
    }

    /// Who claims; the machine and process unless said otherwise. A lease adds something to it that tells its
    /// claim from others.
    pub fn owner(mut self, name: impl Into<String>) -> Self {
        self.owner = name.into();
        self
    }

    /// Takes a lease over that ended so long ago by this machine's clock, also if this program has not watched it: for a
    /// program that runs for a shorter time than a lease lasts, such as one that is started every hour. It is a
    /// promise that the clocks of all machines that claim are no further apart; where they are, two may hold one item until
    /// the first of them renews its lease.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// drop(shops.crawl().hold("a.de").await?); // its worker died
    /// shops.store().clock().advance(Duration::from_secs(3 * 60 * 60)); // a lease lasts two hours
    /// let minute = Duration::from_secs(60);
    /// let lease = shops.crawl().claim("DE").clocks_within(minute).await?.next().await?;
    /// assert_eq!(lease.expect("it ended an hour ago").fence(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clocks_within(mut self, apart: Duration) -> Self {
        self.apart = Some(apart);
        self
    }

    /// The fields that the transition leaves to the caller.
    pub fn with(mut self, params: Fields) -> Self {
        self.params = params;
        self
    }

    /// A record that cannot be read is an error, instead of being passed over and told in [`Claims::unread`], the log
    /// and the metrics.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    fn start(self) -> Result<Claims<R>, Error> {
        let track = &self.track;
        let by_clock = self.apart.is_some() || track.core.store.has_one_clock();
        let ranges = track.claim_ranges(self.older_than, track.core.unix_now(), by_clock)?;
        let lanes = self.groups.iter().map(|group| Lane::new(track, group, ranges.clone(), true));
        let lanes = lanes.collect::<Result<_, Error>>()?;
        Ok(Claims {
            lanes,
            turn: 0,
            left: self.take,
            owner: self.owner,
            params: self.params,
            track: self.track,
            strict: self.strict,
            apart: self.apart,
            unread: Unread::default(),
            record: PhantomData,
        })
    }
}

impl<R: Record> IntoFuture for Claim<R> {
    type Output = Result<Claims<R>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(std::future::ready(self.start()))
    }
}

/// What is claimed, one lease after the other.
///
/// ```
/// # larder::schema!("examples/shops.larder");
/// # use shops::{NewShop, Shops};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let shops = Shops::open(larder::Store::memory().await).await?;
/// # shops.shops().create(NewShop::new("a.de")).await?;
/// let mut claims = shops.crawl().claim("DE").await?;
/// while let Some(lease) = claims.next().await? {
///     lease.finish().await?;
/// }
/// assert!(shops.crawl().due("DE").await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Claims<R> {
    track: Track,
    lanes: Vec<Lane>,
    turn: usize,
    left: usize,
    owner: String,
    params: Fields,
    strict: bool,
    apart: Option<Duration>,
    unread: Unread,
    record: PhantomData<fn() -> R>,
}

impl<R: Record> Claims<R> {
    /// Takes the next item that is due; `None` when there is none, or enough were taken. After an error the
    /// next call goes on with the next item.
    pub async fn next(&mut self) -> Result<Option<Lease<R>>, Error> {
        while self.left > 0 && !self.lanes.is_empty() {
            let at = self.turn % self.lanes.len();
            let Some((range, item)) = self.lanes[at].next(&self.track).await? else {
                self.lanes.remove(at);
                // The one after it has its place now.
                self.turn = at;
                continue;
            };
            let place = self.track.place_of(&item)?;
            let candidate = self.candidate(&self.lanes[at], &range, item).await;
            let seen = match self.unread.take(&self.track.core, candidate, self.strict)? {
                Some(Candidate::Free(seen)) => seen,
                Some(Candidate::Taken) => {
                    self.lanes[at].found_taken(&self.track, place);
                    continue;
                }
                Some(Candidate::NotNow) | None => continue,
            };
            let how = How { owner: &self.owner, params: &self.params, only_due: true, by: None };
            let asked = Instant::now();
            if let Some((hold, item)) = enter(&self.track, &seen, &how).await? {
                self.left -= 1;
                self.turn = at + 1;
                return Lease::new(hold, &item, asked).map(Some);
            }
            self.lanes[at].found_taken(&self.track, place);
        }
        Ok(None)
    }

    /// What was passed over so far because it cannot be read. It is left as it is.
    pub fn unread(&self) -> &Unread {
        &self.unread
    }

    /// Reads as much of an item as it takes to decide whether it can be claimed.
    async fn candidate(&self, lane: &Lane, range: &Range, item: Item) -> Result<Candidate, Error> {
        let track = &self.track;
        let state = track.state(&range.state)?;
        track.state_in(&item)?;
        let leased = state.lease_millis.is_some();
        if track.is_watched(state, &item, self.apart) {
            return Ok(Candidate::NotNow);
        }
        let reads = track.claims().any(|transition| track.reads_item(transition));
        // What an index shows a part of is read: nothing is claimed that nobody could work on.
        let item = if leased || reads || !lane.all || item.contains(PARTS) {
            match track.core.load(&track.core.key_of(&item), true).await? {
                Some(item) if track.lifecycle().state_of(&item) == Some(state) => item,
                _ => return Ok(Candidate::Taken),
            }
        } else {
            item
        };
        let free = if leased { track.is_free_of(state, &item, self.apart) } else { track.is_ready(&item)? };
        if !free {
            return Ok(Candidate::NotNow);
        }
        shelf::read::<R>(&track.core, &item, track.core.unix_now())?;
        Ok(Candidate::Free(item))
    }
}

/// What a listed item is found to be.
enum Candidate {
    Free(Item),
    /// It is in another state by now, or gone.
    Taken,
    /// It is held, or not ready.
    NotNow,
}

/// Takes one item, due or not, by the transition that its state asks for or by one that is named.
pub(super) async fn hold<R: Record>(
    track: &Track,
    key: &Item,
    by: Option<&str>,
    params: &Fields,
) -> Result<Lease<R>, Error> {
    track.lease_attributes()?;
    let Some(seen) = track.core.load(key, true).await? else { return Err(track.core.missing(key)) };
    let state = track.lifecycle().state_of(&seen);
    let held = || {
        let owner = track.written(&seen).owner.unwrap_or_else(|| "somebody else".to_owned());
        track.core.conflict(key, &format!("{owner} holds it"))
    };
    let now = track.core.unix_now();
    if state.is_some_and(|state| state.lease_millis.is_some() && !track.is_free_of(state, &seen, None)) {
        return Err(held());
    }
    shelf::read::<R>(&track.core, &seen, now)?;
    let asked = Instant::now();
    let owner = this_process();
    let how = How { owner: &owner, params, only_due: false, by };
    match enter(track, &seen, &how).await? {
        Some((hold, item)) => Lease::new(hold, &item, asked),
        None => Err(track.core.conflict(key, "somebody else was faster")),
    }
}

struct How<'a> {
    owner: &'a str,
    params: &'a Fields,
    /// Not what pauses, is exhausted, or is not what was seen to be ready.
    only_due: bool,
    /// The transition, where the caller names it.
    by: Option<&'a str>,
}

/// Takes an item as it was seen. `None` when it is not so any more.
async fn enter(track: &Track, seen: &Item, how: &How<'_>) -> Result<Option<(Hold, Item)>, Error> {
    let key = track.core.key_of(seen);
    let names = track.lease_attributes()?;
    let now = track.core.unix_now();
    let state = track.lifecycle().state_of(seen);
    let transition = state.and_then(|state| {
        let named = track.claims().filter(|transition| how.by.is_none_or(|name| transition.name == name));
        let mut named = named;
        named.find(|transition| match state.lease_millis {
            Some(_) => transition.to == state.name,
            None => transition.from.contains(&state.name),
        })
    });
    let (Some(state), Some(transition)) = (state, transition) else {
        return Err(Error::State {
            entity: track.core.name().to_owned(),
            key: track.core.key_text(&key),
            transition: how.by.unwrap_or("claim").to_owned(),
            found: state.map_or("in no state", |state| &state.name).to_owned(),
            wanted: track
                .claims()
                .filter(|transition| how.by.is_none_or(|name| transition.name == name))
                .flat_map(|transition| transition.from.clone())
                .collect::<Vec<_>>()
                .join(" or "),
        });
    };
    let lease_millis = track.lease_millis(&transition.to).unwrap_or(0);
    let from = if state.lease_millis.is_some() { track.before(state, seen)? } else { state };
    let owner = format!("{}/{:016x}", how.owner, fastrand::u64(..));

    let read = track.reads_item(transition).then_some(seen);
    let mut changes = track.entering(transition, how.params, read, track.core.now())?;
    let text = |text: &str| Some(AttributeValue::from(text));
    changes.attributes = vec![
        (names.owner.clone(), text(&owner)),
        (names.until.clone(), Some(AttributeValue::from(seconds_after(now, lease_millis)))),
        (track.origin_attribute(), text(&from.name)),
        (names.error.clone(), None),
    ];
    changes.counts = vec![(names.fence.clone(), 1), (names.attempts.clone(), 1)];
    changes.condition =
        Some(changes.condition.into_iter().fold(track.may_enter(seen, state, how, now)?, and));

    let item = match track.send(&key, &changes, &mut false).await {
        Ok(item) => item,
        // The owner is this claim's alone: an earlier try was carried out, and its answer lost.
        Err(Refused::Condition(item)) if track.written(&item).owner.as_ref() == Some(&owner) => *item,
        Err(Refused::Condition(_) | Refused::Missing) => return Ok(None),
        Err(Refused::Failed(error)) => return Err(error),
    };
    if state.lease_millis.is_some() {
        let (text, owner) = (track.core.key_text(&key), track.written(seen).owner);
        track.core.observer.stuck(&track.lifecycle().name, &text, owner.as_deref(), now);
    }
    let written = track.written(&item);
    track.watch(&key, &written, duration(lease_millis));
    let hold = Hold {
        track: track.clone(),
        key,
        owner,
        fence: written.fence,
        attempts: written.attempts,
        state: transition.to.clone(),
        from: from.name.clone(),
        lease_millis,
    };
    Ok(Some((hold, item)))
}

impl Track {
    /// The condition under which an item that was seen can be taken.
    fn may_enter(
        &self,
        seen: &Item,
        state: &State,
        how: &How<'_>,
        now: UnixTime,
    ) -> Result<Condition, Error> {
        let names = self.lease_attributes()?;
        let absent_or = |name: &str, comparator: Comparator, number: i64| {
            let path = Path::attribute(name);
            let right = Operand::value(number);
            or(
                Condition::NotExists(path.clone()),
                Condition::Compare { left: Operand::Path(path), comparator, right },
            )
        };
        let mut condition = unchanged(&self.lifecycle().attribute, seen);
        if state.lease_millis.is_some() {
            // The lease that was watched, and no other: a renewal since then keeps it.
            for name in [&names.owner, &names.until, &names.fence] {
                condition = and(condition, unchanged(name, seen));
            }
        } else if how.only_due {
            condition = and(condition, absent_or(&names.until, Comparator::Less, now.seconds()));
        }
        if let (true, Some(retry)) = (how.only_due, &self.lifecycle().retry) {
            let most = i64::from(retry.attempts);
            condition = and(condition, absent_or(&names.attempts, Comparator::LessOrEqual, most));
        }
        if how.only_due {
            for name in self.ready_attributes() {
                condition = and(condition, unchanged(&name, seen));
            }
        }
        Ok(condition)
    }
}

/// This machine and process.
fn this_process() -> String {
    let machine = std::env::var("HOSTNAME").unwrap_or_else(|_| "worker".to_owned());
    format!("{machine}-{}", std::process::id())
}
