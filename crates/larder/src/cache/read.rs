//! The read path: L1, then the store, then the source. This file alone knows the order.
//!
//! What is fetched is a [`Subject`]: a record of one item, or a collection of several that are loaded and stored
//! as one. A subject says how it is read, written and made; it knows nothing of freshness, flights or faults.
//! `fetch(subject, loader)` does the rest. To serve a collection, implement [`Subject`] on a value that holds
//! what its key is made of: `read` queries the partition, `write` is one transaction, `core_of` tells the members
//! apart, and `in_l1` is false, because a member's write would not find the collection in L1.
//!
//! The first who asks for a key leads. It looks in L1 again, because whoever led before may just have landed,
//! then in the store, in its own task. The source is called in a task of its own, which nobody's going away
//! stops.
//!
//! Promises:
//! - Store down: the source answers, where the schema says `on_error open`. Source down: what is stale, while its
//!   grace lasts. Both down: one error that names both.
//! - What anybody wrote while a load ran, in whatever process, is not undone by it: the loaded value is given, and not kept.
//! - A write that fails does not fail the read that caused it, where the schema says so.

use std::any::{Any, TypeId};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_expr::{Comparator, Condition, Operand, SetOperand, SetValue, Update};
use larder_model::{AttributeValue, Item, Path, UnixTime};
use larder_schema::ABSENT;
use larder_schema::schema::{OnError, Writes};
use tracing::Instrument;

use super::flight::{self, Joined};
use super::freshness::{ETAG, Freshness, LAST_MODIFIED, Life, freshness, stamp};
use super::l1::Mark;
use super::loads::OngoingLoad;
use super::shared_flight::{self, FlightStore, Winner};
use super::write::{Loading, may_skip};
use super::{FLIGHT, FLIGHT_BY, Fetched, Identity, Origin, StaleReason, Why, Write};
use crate::entity::{Core, and, or};
use crate::oversize::Prepared;
use crate::record::unchanged;
use crate::shelf::Given;
use crate::source::{Answer as SourceAnswer, BoxError, Known, Load, SourceError};
use crate::store::Patience;
use crate::write::{Action, Outcome, Planned};
use crate::{Error, backoff, store};

/// Something the read path can fetch.
pub(crate) trait Subject: Send + Sync + 'static {
    /// What a reader gets.
    type Out: Send + Sync + 'static;
    /// What a source gives.
    type Value: Send + 'static;

    /// The entity whose policy, source, flights and metrics apply.
    fn core(&self) -> &Arc<Core>;

    /// The entity of one of its items.
    fn core_of(&self, _item: &Item) -> &Arc<Core> {
        self.core()
    }

    /// The key of the item that holds the flight and the memory of an absence.
    fn key(&self) -> &Item;

    /// Names it among all that the entity's cache holds.
    fn identity(&self) -> &Identity;

    /// The key as people read it.
    fn text(&self) -> &str;

    /// What it is, as the schema calls it.
    fn name(&self) -> &str {
        self.core().name()
    }

    fn in_l1(&self) -> bool {
        false
    }

    /// Its items, expired ones included; none when it is not stored.
    fn read(&self) -> impl Future<Output = Result<Stored, Error>> + Send;

    fn decode(&self, items: &[Item], now: UnixTime) -> Result<Self::Out, Error>;

    /// The checked items of what a source gave, over those that are stored, if any are.
    fn encode(&self, value: Self::Value, old: &[Item], now: UnixTime) -> Result<Vec<Item>, Error>;

    /// The same items as if they had been fetched again just now.
    fn renew(&self, old: &[Item]) -> Result<Vec<Item>, Error>;

    /// Writes all items or none, unless somebody has written since these were seen. Their keys are forgotten in L1.
    fn write(
        &self,
        items: Vec<Item>,
        seen: &[Item],
        pending: Option<&Arc<Write>>,
    ) -> impl Future<Output = Result<Outcome, Error>> + Send;
}

/// What there is of a subject.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) items: Vec<Item>,
    /// What is there in place of items that can be given: half of a collection, parts that do not fit together.
    pub(crate) unusable: Vec<Item>,
    /// The write behind that the item was taken from.
    pub(crate) pending: Option<Arc<Write>>,
}

/// Calls the source once.
pub(crate) type Loader<V> =
    Arc<dyn Fn(Known) -> Pin<Box<dyn Future<Output = Result<Load<V>, BoxError>> + Send>> + Send + Sync>;

pub(crate) type FlightKey = (TypeId, Identity);
type Lead = flight::Lead<FlightKey, Landed>;
type Shared = Arc<dyn Any + Send + Sync>;

/// How a read ended.
#[derive(Clone)]
pub(crate) struct Landed {
    answer: Result<Answer, Error>,
    call: Call,
}

/// Whether a read needed the source.
#[derive(Clone, Copy)]
enum Call {
    Saved,
    /// It was answered without it, and began a refresh.
    Refresh,
    /// It did, and why.
    Miss(&'static str),
}

impl Landed {
    /// Whether it may still be given: it was found when the load began, which may be long ago.
    fn holds(&self, core: &Core) -> bool {
        let Ok(answer) = &self.answer else { return true };
        let now = freshness(answer.life, &core.entity().policy, core.unix_now());
        match answer.origin {
            Origin::Source => true,
            Origin::L1 | Origin::Store => matches!(now, Freshness::Fresh | Freshness::Ageing),
            Origin::Stale(_) => now != Freshness::Gone,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Answer {
    value: Shared,
    life: Life,
    origin: Origin,
    store_error: Option<Arc<Error>>,
}

impl Answer {
    fn new(value: Shared, life: Life, origin: Origin) -> Self {
        Self { value, life, origin, store_error: None }
    }

    fn hit(self) -> Landed {
        Landed { answer: Ok(self), call: Call::Saved }
    }

    /// `None` when it was read as another type.
    fn fetched<T: Send + Sync + 'static>(self, now: UnixTime) -> Option<Fetched<T>> {
        let value = self.value.downcast::<T>().ok()?;
        Some(Fetched::new(value, self.origin, (self.life.stored_at, now), self.store_error))
    }
}

/// What is fresh in L1: the most frequent answer, with nothing made for the others. Of a hit that nobody is told of, not even the
/// key is.
pub(crate) fn hit<T: Send + Sync + 'static>(core: &Core, key: &(impl Given + Clone)) -> Option<Fetched<T>> {
    let l1 = core.cache.l1.as_ref()?;
    let started = core.observer.begin_hit();
    let identity = core.identity_at_once(key)?;
    let now = core.unix_now();
    let entry = l1.get(&identity, now)?;
    if freshness(entry.life, &core.entity().policy, now) != Freshness::Fresh {
        return None;
    }
    let fetched = Answer::new(entry.value?, entry.life, Origin::L1).fetched(now)?;
    let text = || core.key(&key.clone().into_fields()).map(|key| core.key_text(&key)).unwrap_or_default();
    core.observer.hit_in_l1(text, started, now);
    Some(fetched)
}

/// Reads, and loads what is missing or old.
pub(crate) async fn fetch<S: Subject>(subject: S, load: Loader<S::Value>) -> Result<Fetched<S::Out>, Error> {
    let started = Instant::now();
    let subject = Arc::new(subject);
    let (core, text) = (subject.core(), subject.text());
    let landed = join(&subject, &load, Patience::short()).instrument(core.observer.span("fetch", text)).await;
    let now = core.unix_now();
    let is_saved = matches!(landed.call, Call::Saved);
    match (landed.call, &landed.answer) {
        (Call::Miss(reason), _) => core.observer.miss(text, reason, started.elapsed(), now),
        (_, Ok(answer)) => core.observer.hit(text, &answer.origin, is_saved, started.elapsed(), now),
        (_, Err(_)) => core.observer.hit(text, &"remembered absence", is_saved, started.elapsed(), now),
    }
    let fetched = landed.answer?.fetched(now);
    Ok(fetched.expect("a flight and an L1 entry are looked up by type"))
}

/// Reads without a source. `Err` says why there is nothing.
pub(crate) async fn look<S: Subject>(subject: S, patience: Patience) -> Result<Fetched<S::Out>, Why> {
    let started = Instant::now();
    let (core, text) = (subject.core(), subject.text());
    let now = core.unix_now();
    let looked = match in_l1(&subject, now) {
        Some(InL1::Usable(answer, Freshness::Fresh | Freshness::Ageing)) => Ok(answer),
        Some(InL1::Absent) => Err(Why::Absent),
        Some(InL1::Usable(..)) | None => {
            match find(&subject, patience).instrument(core.observer.span("look", text)).await {
                Found::Value { value, life, freshness: Freshness::Fresh | Freshness::Ageing, .. } => {
                    Ok(Answer::new(value, life, Origin::Store))
                }
                Found::Value { .. } | Found::Nothing { expired: true, .. } => Err(Why::Expired),
                Found::Nothing { expired: false, .. } | Found::Absent => Err(Why::Absent),
                Found::Failed { error, .. } => {
                    core.observer.store_failed(text, "read", &error, now);
                    Err(Why::Unreachable(error))
                }
            }
        }
    };
    let now = core.unix_now();
    match &looked {
        Ok(answer) => core.observer.hit(text, &answer.origin, true, started.elapsed(), now),
        Err(why) => core.observer.miss(text, why.name(), started.elapsed(), now),
    }
    Ok(looked?.fetched(now).expect("an L1 entry is looked up by type"))
}

async fn join<S: Subject>(subject: &Arc<S>, load: &Loader<S::Value>, patience: Patience) -> Landed {
    let core = subject.core();
    let key = (TypeId::of::<S::Out>(), Arc::clone(subject.identity()));
    if let Some(landed) = from_l1(subject, load, &key, patience) {
        return landed;
    }
    loop {
        match core.cache.flights.join(&key) {
            Joined::Lead(lead) => return self::lead(subject, load, lead, patience).await,
            Joined::Wait(answer) => {
                if core.cache.loads.is_overtaken(subject.identity())
                    && let Some(landed) = newer(&**subject, patience).await
                {
                    return landed;
                }
                // Without an answer whoever led went away: ask again, and perhaps lead.
                if let Ok(landed) = answer.await
                    && landed.holds(core)
                {
                    return landed;
                }
            }
        }
    }
}

/// What was written while a load is under way, for those who come after the write.
async fn newer<S: Subject>(subject: &S, patience: Patience) -> Option<Landed> {
    match find(subject, patience).await {
        Found::Value { value, life, freshness: Freshness::Fresh | Freshness::Ageing, .. } => {
            Some(Answer::new(value, life, Origin::Store).hit())
        }
        Found::Value { .. } | Found::Absent | Found::Nothing { .. } | Found::Failed { .. } => None,
    }
}

/// What L1 can answer by itself; what is old starts a refresh.
fn from_l1<S: Subject>(
    subject: &Arc<S>,
    load: &Loader<S::Value>,
    key: &FlightKey,
    patience: Patience,
) -> Option<Landed> {
    let core = subject.core();
    match in_l1(&**subject, core.unix_now())? {
        InL1::Absent => Some(remembered(&**subject)),
        InL1::Usable(answer, Freshness::Fresh) => Some(answer.hit()),
        InL1::Usable(mut answer, found @ (Freshness::Ageing | Freshness::Stale)) => {
            if found == Freshness::Stale {
                answer.origin = Origin::Stale(StaleReason::Refreshing);
            }
            let mut landed = answer.hit();
            if let Some(lead) = core.cache.flights.lead(key) {
                let loading = core.cache.behind.loading(subject.text());
                let refresh = refresh(Arc::clone(subject), Arc::clone(load), lead, patience);
                tokio::spawn(with(loading, refresh).in_current_span());
                landed.call = Call::Refresh;
            }
            Some(landed)
        }
        InL1::Usable(_, Freshness::Grace | Freshness::Gone) => None,
    }
}

/// Whoever refreshes before us, here or elsewhere, saves us the load.
async fn refresh<S: Subject>(subject: Arc<S>, load: Loader<S::Value>, lead: Lead, patience: Patience) {
    let asked = tokio::time::Instant::now();
    let before = match find(&*subject, patience).await {
        Found::Value { value, life, freshness: Freshness::Fresh, .. } => {
            return lead.land(&Answer::new(value, life, Origin::Store).hit());
        }
        Found::Absent => return lead.land(&remembered(&*subject)),
        Found::Value { value, life, stored, .. } => {
            Before::with(patience, stored, Some((value, life)), "expired")
        }
        Found::Nothing { stored, .. } => Before::with(patience, stored, None, "expired"),
        Found::Failed { error, items } => {
            subject.core().observer.store_failed(subject.text(), "read", &error, subject.core().unix_now());
            Before::unread(patience.after(asked.elapsed()), (error, items), None)
        }
    };
    load_and_land(subject, load, lead, before).await;
}

async fn lead<S: Subject>(
    subject: &Arc<S>,
    load: &Loader<S::Value>,
    lead: Lead,
    patience: Patience,
) -> Landed {
    let core = subject.core();
    let policy = &core.entity().policy;
    let in_l1 = in_l1(&**subject, core.unix_now());
    let mut fallback = None;
    match in_l1 {
        Some(InL1::Usable(answer, Freshness::Fresh | Freshness::Ageing)) => return land(lead, answer.hit()),
        Some(InL1::Absent) => return land(lead, remembered(&**subject)),
        // The store may be down; then this is what there is.
        Some(InL1::Usable(answer, Freshness::Stale | Freshness::Grace)) => {
            fallback = Some((answer.value, answer.life));
        }
        Some(InL1::Usable(_, Freshness::Gone)) | None => {}
    }
    let asked = tokio::time::Instant::now();
    let before = match find(&**subject, patience).await {
        Found::Absent => return land(lead, remembered(&**subject)),
        Found::Failed { error, items } => {
            core.observer.store_failed(subject.text(), "read", &error, core.unix_now());
            if policy.on_error == OnError::Closed {
                return land(lead, Landed { answer: Err(error), call: Call::Miss("unreachable") });
            }
            Before::unread(patience.after(asked.elapsed()), (error, items), fallback)
        }
        Found::Nothing { stored, expired } => {
            Before::with(patience, stored, None, if expired { "expired" } else { "absent" })
        }
        Found::Value { value, life, stored, freshness } => {
            let origin = match freshness {
                Freshness::Fresh => {
                    return land(lead, Answer::new(value, life, Origin::Store).hit());
                }
                Freshness::Ageing => Some(Origin::Store),
                Freshness::Stale => Some(Origin::Stale(StaleReason::Refreshing)),
                Freshness::Grace | Freshness::Gone => None,
            };
            let before = Before::with(patience, stored, Some((Arc::clone(&value), life)), "expired");
            if let Some(origin) = origin {
                let landed = Answer::new(value, life, origin).hit();
                lead.share(&landed);
                spawn_load(subject, load, lead, before);
                return Landed { call: Call::Refresh, ..landed };
            }
            before
        }
    };
    let miss = before.miss;
    let answer = lead.wait();
    spawn_load(subject, load, lead, before);
    answer.await.unwrap_or_else(|_| {
        let answer = Err(source_error(&**subject, "the loader did not finish".into(), None));
        Landed { answer, call: Call::Miss(miss) }
    })
}

fn land(lead: Lead, landed: Landed) -> Landed {
    lead.land(&landed);
    landed
}

fn remembered<S: Subject>(subject: &S) -> Landed {
    Landed { answer: Err(absent(subject)), call: Call::Saved }
}

enum InL1 {
    Usable(Answer, Freshness),
    Absent,
}

fn in_l1<S: Subject>(subject: &S, now: UnixTime) -> Option<InL1> {
    let core = subject.core();
    let l1 = core.cache.l1.as_ref().filter(|_| subject.in_l1())?;
    let entry = l1.get(subject.identity(), now)?;
    let policy = &core.entity().policy;
    let freshness = freshness(entry.life, policy, now);
    match entry.value {
        Some(value) if value.is::<S::Out>() => {
            Some(InL1::Usable(Answer::new(value, entry.life, Origin::L1), freshness))
        }
        None if freshness == Freshness::Fresh => Some(InL1::Absent),
        Some(_) | None => None,
    }
}

/// What the store holds.
enum Found {
    Value {
        value: Shared,
        life: Life,
        stored: Stored,
        freshness: Freshness,
    },
    /// The source said so, not long ago.
    Absent,
    /// Nothing that may be given. What is past its time may still be known to the source.
    Nothing {
        stored: Stored,
        expired: bool,
    },
    /// Nothing could be read, or what was read is no record.
    Failed {
        error: Error,
        items: Vec<Item>,
    },
}

/// Looks in the store, and keeps what it finds in L1.
async fn find<S: Subject>(subject: &S, patience: Patience) -> Found {
    let core = subject.core();
    let mark = mark(subject);
    let Stored { items, unusable, pending } = match patience.keep(subject.read()).await {
        Ok(stored) => stored,
        Err(error) => return Found::Failed { error, items: Vec::new() },
    };
    let now = core.unix_now();
    let lives = items.iter().map(|item| Life::of(subject.core_of(item), item));
    let Some(life) = Life::shortest(lives) else {
        return Found::Nothing { stored: Stored { items, unusable, pending }, expired: false };
    };
    if let Some(marker) = items.iter().find_map(|item| item.get(ABSENT)) {
        let ended = life.fresh_until.is_some_and(|until| until.seconds() < now.seconds());
        if ended || marker.as_str() != Some(REMEMBERED) {
            let stored = Stored { unusable: items, pending, ..Stored::default() };
            return Found::Nothing { stored, expired: false };
        }
        fill(subject, mark, None, &[], life, now);
        return Found::Absent;
    }
    let freshness = freshness(life, &core.entity().policy, now);
    if freshness == Freshness::Gone {
        return Found::Nothing { stored: Stored { items, unusable, pending }, expired: true };
    }
    match subject.decode(&items, now) {
        Ok(value) => {
            let value: Shared = Arc::new(value);
            fill(subject, mark, Some(Arc::clone(&value)), &items, life, now);
            Found::Value { value, life, stored: Stored { items, unusable, pending }, freshness }
        }
        Err(error) => Found::Failed { error, items },
    }
}

/// The marker of an absence that the source has told of.
const REMEMBERED: &str = "absent";
/// The marker of an item that holds nothing but a flight.
const LOADING: &str = "loading";

fn mark<S: Subject>(subject: &S) -> Option<Mark> {
    let l1 = subject.core().cache.l1.as_ref().filter(|_| subject.in_l1())?;
    Some(l1.mark(subject.identity()))
}

fn fill<S: Subject>(
    subject: &S,
    mark: Option<Mark>,
    value: Option<Shared>,
    items: &[Item],
    life: Life,
    now: UnixTime,
) {
    if let (Some(l1), Some(mark)) = (&subject.core().cache.l1, mark) {
        let bytes = items.iter().map(Item::size).sum();
        // A record is kept as it was read, with the fields whose own time was not over then.
        let until = items.iter().filter_map(|item| subject.core_of(item).fields_end(item, now)).min();
        l1.fill(subject.identity(), mark, (value, bytes), (life, until), now);
    }
}

/// What was known before the source was asked.
struct Before {
    items: Vec<Item>,
    /// What is there in their place and cannot be given.
    unusable: Vec<Item>,
    pending: Option<Arc<Write>>,
    /// May be given when the source fails or is slow.
    fallback: Option<(Shared, Life)>,
    store_error: Option<Arc<Error>>,
    miss: &'static str,
    /// How the store is asked for whatever follows.
    patience: Patience,
}

impl Before {
    fn with(
        patience: Patience,
        Stored { items, unusable, pending }: Stored,
        fallback: Option<(Shared, Life)>,
        miss: &'static str,
    ) -> Self {
        Self { items, unusable, pending, fallback, store_error: None, miss, patience }
    }

    fn unread(
        patience: Patience,
        (error, unusable): (Error, Vec<Item>),
        fallback: Option<(Shared, Life)>,
    ) -> Self {
        let stored = Stored { unusable, ..Stored::default() };
        Self { store_error: Some(Arc::new(error)), ..Self::with(patience, stored, fallback, "unreachable") }
    }

    /// What was there when the source was asked.
    fn seen(&self) -> &[Item] {
        if self.unusable.is_empty() { &self.items } else { &self.unusable }
    }

    fn known(&self) -> Known {
        let text = |name: &str| {
            let found = self.items.iter().find_map(|item| item.get(name));
            found.and_then(AttributeValue::as_str).map(str::to_owned)
        };
        Known { etag: text(ETAG), last_modified: text(LAST_MODIFIED) }
    }

    /// What is stale, where there is any and it still may be given.
    fn stale(&self, core: &Core, reason: StaleReason) -> Option<Landed> {
        let (value, life) = self.fallback.clone()?;
        if freshness(life, &core.entity().policy, core.unix_now()) == Freshness::Gone {
            return None;
        }
        let answer = Answer {
            store_error: self.store_error.clone(),
            ..Answer::new(value, life, Origin::Stale(reason))
        };
        Some(Landed { answer: Ok(answer), call: Call::Miss(self.miss) })
    }
}

fn spawn_load<S: Subject>(subject: &Arc<S>, load: &Loader<S::Value>, lead: Lead, before: Before) {
    let loading = subject.core().cache.behind.loading(subject.text());
    let task = load_and_land(Arc::clone(subject), Arc::clone(load), lead, before);
    tokio::spawn(with(loading, task).in_current_span());
}

/// Keeps a drain waiting while the task lasts.
async fn with(_loading: Loading, task: impl Future<Output = ()>) {
    task.await;
}

/// Loads, and answers all who wait. A source that is slow is waited for no longer than its soft timeout by those
/// who can be given something stale.
async fn load_and_land<S: Subject>(subject: Arc<S>, load: Loader<S::Value>, lead: Lead, before: Before) {
    let core = subject.core();
    let mut work = pin!(load_and_keep(&*subject, &load, &before));
    let landed = match core.cache.source.soft_timeout() {
        Some(soft) => loop {
            tokio::select! {
                biased;
                landed = &mut work => break landed,
                () = tokio::time::sleep(soft) => {
                    if let Some(slow) = before.stale(core, StaleReason::SlowSource) {
                        lead.share(&slow);
                    }
                }
            }
        },
        None => work.await,
    };
    lead.land(&landed);
}

async fn load_and_keep<S: Subject>(subject: &S, load: &Loader<S::Value>, before: &Before) -> Landed {
    let core = subject.core();
    let ongoing = core.cache.loads.begin(subject.identity());
    let mut store_error = before.store_error.clone();
    let flight = SharedFlight::new(subject, before).filter(|_| before.store_error.is_none());
    let (mut held, mut patience) = (None, before.patience);
    if let Some(flight) = flight {
        let asked = tokio::time::Instant::now();
        match patience.keep(shared_flight::race(&flight)).await {
            Winner::Ours => held = Some(flight),
            Winner::Theirs(Found::Value { value, life, .. }) => {
                return Answer::new(value, life, Origin::Store).hit();
            }
            Winner::Theirs(_) => return remembered(subject),
            Winner::Nobody => {}
            Winner::Unknown(error) => {
                core.observer.store_failed(subject.text(), "lease", &error, core.unix_now());
                if core.entity().policy.on_error == OnError::Closed {
                    return Landed { answer: Err(error), call: Call::Miss(before.miss) };
                }
                store_error = Some(Arc::new(error));
                patience = patience.after(asked.elapsed());
            }
        }
    }
    let called = core.cache.source.call(&core.observer, subject.text(), || load(before.known())).await;
    core.observer.load_ended(subject.text(), called.is_err(), core.unix_now());
    let kept = match called {
        Ok(answer) => keep(subject, answer, before, patience, (store_error, ongoing)).await,
        Err(cause) => Err(source_error(subject, cause, store_error.as_deref())),
    };
    if let (Some(flight), Err(_) | Ok((_, Kept::No))) = (&held, &kept) {
        patience.keep(flight.release()).await;
    }
    let call = Call::Miss(before.miss);
    match kept {
        Ok((answer, _)) => Landed { answer: Ok(answer), call },
        Err(error @ (Error::Absent { .. } | Error::Store(_) | Error::TooLarge { .. })) => {
            Landed { answer: Err(error), call }
        }
        Err(error) => {
            if !matches!(error, Error::Source { .. } | Error::Down { .. }) {
                core.observer.refused(subject.text(), &error);
            }
            let stale = before.stale(core, StaleReason::SourceFailed(Arc::new(error.clone())));
            stale.unwrap_or(Landed { answer: Err(error), call })
        }
    }
}

/// Makes items of what the source said, stores them as the schema says, and answers.
async fn keep<S: Subject>(
    subject: &S,
    load: Load<S::Value>,
    before: &Before,
    patience: Patience,
    (store_error, ongoing): (Option<Arc<Error>>, OngoingLoad),
) -> Result<(Answer, Kept), Error> {
    let core = subject.core();
    let now = core.unix_now();
    let mut items = match load.answer {
        SourceAnswer::Value(value) => subject.encode(value, &before.items, now)?,
        SourceAnswer::NotModified if before.items.is_empty() => {
            let cause = "it says \"not modified\", and nothing is kept";
            return Err(source_error(subject, cause.into(), store_error.as_deref()));
        }
        SourceAnswer::NotModified => subject.renew(&before.items)?,
        SourceAnswer::Absent => {
            if !ongoing.is_overtaken() {
                patience.keep(remember_absence(subject, before)).await;
            }
            return Err(absent(subject));
        }
    };
    for item in &mut items {
        if let Some(ttl) = load.ttl {
            stamp(subject.core_of(item), item, now.plus(ttl), now);
        }
        for (name, text) in [(ETAG, &load.etag), (LAST_MODIFIED, &load.last_modified)] {
            if let Some(text) = text {
                item.insert(name, text.clone());
            }
        }
    }
    let lives = items.iter().map(|item| Life::of(subject.core_of(item), item));
    let life = Life::shortest(lives).unwrap_or(Life { stored_at: now, fresh_until: None });
    let value: Shared = Arc::new(subject.decode(&items, now)?);
    let mut answer = Answer::new(Arc::clone(&value), life, Origin::Source);
    answer.store_error = store_error;
    let mark = mark(subject);
    // Over before it has begun: there is nothing to keep.
    let is_over = freshness(life, &core.entity().policy, now) == Freshness::Gone;
    if is_over || ongoing.is_overtaken() {
        return Ok((answer, Kept::No));
    }
    let mark = match write(subject, &items, before, patience).await {
        Ok(Written::Through) => mark.map(Mark::after_own_write),
        Ok(Written::Behind) => mark,
        Ok(Written::Overtaken) => return Ok((answer, Kept::No)),
        Err(error) => {
            core.observer.store_failed(subject.text(), "write", &error, now);
            if core.entity().policy.on_error == OnError::Closed {
                return Err(error);
            }
            answer.store_error = Some(Arc::new(error));
            mark.map(Mark::after_own_write)
        }
    };
    // A transition may have been made while the source was asked: the next read sees it.
    if core.entity().lifecycles.is_empty() {
        fill(subject, mark, Some(value), &items, life, now);
    }
    Ok((answer, Kept::Yes))
}

/// Whether what was loaded is kept.
enum Kept {
    Yes,
    No,
}

enum Written {
    Through,
    Behind,
    /// Somebody else was faster.
    Overtaken,
}

async fn write<S: Subject>(
    subject: &S,
    items: &[Item],
    before: &Before,
    patience: Patience,
) -> Result<Written, Error> {
    let core = subject.core();
    let policy = &core.entity().policy;
    let seen = before.seen();
    if let (Writes::Behind { .. }, [item]) = (policy.writes, items) {
        let of = subject.core_of(item);
        let key = of.key_of(item);
        let seen = seen.iter().find(|seen| of.key_of(seen) == key);
        // A full queue is told of by the queue, in the log and in the next drain.
        return Ok(match of.cache.behind.push_loaded(of, item.clone(), seen, before.pending.as_ref()) {
            Ok(Outcome::Overtaken) => Written::Overtaken,
            Ok(Outcome::Made) | Err(_) => Written::Behind,
        });
    }
    match patience.keep(subject.write(items.to_vec(), seen, before.pending.as_ref())).await {
        Ok(Outcome::Overtaken) => Ok(Written::Overtaken),
        Ok(Outcome::Made) => {
            let ends = items.iter().filter_map(|item| subject.core_of(item).expires(item)).min();
            core.observer.written(subject.text(), ends, core.unix_now());
            Ok(Written::Through)
        }
        Err(error @ Error::TooLarge { .. }) if may_skip(policy) => {
            core.observer.oversize(subject.text(), &error);
            Ok(Written::Through)
        }
        Err(error) => Err(error),
    }
}

/// Stores that there is nothing, where the schema says for how long; else nothing old may stay.
async fn remember_absence<S: Subject>(subject: &S, before: &Before) {
    let core = subject.core();
    let now = core.unix_now();
    let mark = mark(subject).map(Mark::after_own_write);
    let negative = core.entity().policy.negative_millis;
    // What somebody has written since is not to be lost.
    let key = subject.key().clone();
    let seen = before.seen().iter().find(|item| core.key_of(item) == key);
    let condition = Some(core.since(seen, now));
    let outcome = match (negative, &core.table().ttl) {
        (Some(millis), Some(ttl)) => {
            let until = UnixTime::from_millis(now.millis().saturating_add(millis));
            let mut item = subject.key().clone();
            item.insert(ABSENT, REMEMBERED);
            item.insert(ttl.attribute.clone(), until.seconds());
            let action = Action::Put(Prepared::of(item));
            let saved = core.save_absence(Planned { key, action, condition }).await;
            // What somebody else wrote is there, and no absence.
            if !matches!(saved, Ok(Outcome::Overtaken)) {
                fill(subject, mark, None, &[], Life { stored_at: now, fresh_until: Some(until) }, now);
            }
            saved.map(|_| ())
        }
        (_, _) if before.items.is_empty() => Ok(()),
        (_, _) => core.save_absence(Planned { key, action: Action::Delete, condition }).await.map(|_| ()),
    };
    if let Err(error) = outcome {
        core.observer.store_failed(subject.text(), "write", &error, now);
    }
}

fn absent<S: Subject>(subject: &S) -> Error {
    Error::Absent { entity: subject.name().to_owned(), key: subject.text().to_owned() }
}

fn source_error<S: Subject>(subject: &S, cause: SourceError, store: Option<&Error>) -> Error {
    let (entity, key) = (subject.name().to_owned(), subject.text().to_owned());
    match store {
        Some(store) => Error::Down { entity, key, store: Box::new(store.clone()), source_cause: cause },
        None => Error::Source { entity, key, cause },
    }
}

/// The first and the longest pause between two looks at the store.
const POLL: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));

/// The right to load a key, for all processes: an attribute of the item, or an item that has nothing else.
struct SharedFlight<'a, S> {
    subject: &'a S,
    /// The item as it was read, if it may still be given.
    item: Option<Item>,
    owner: String,
    millis: i64,
    patience: Patience,
    /// When waiting for others ends, in `tokio`'s time.
    deadline: tokio::time::Instant,
}

impl<'a, S: Subject> SharedFlight<'a, S> {
    fn new(subject: &'a S, before: &Before) -> Option<Self> {
        let millis = subject.core().entity().policy.flight_millis?;
        let item = before.fallback.as_ref().and_then(|_| {
            before.items.iter().find(|item| subject.core().key_of(item) == *subject.key()).cloned()
        });
        let deadline =
            tokio::time::Instant::now() + Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        let owner = format!("{:016x}", fastrand::u64(..));
        Some(Self { subject, item, owner, millis, patience: before.patience, deadline })
    }

    fn compare(name: &str, comparator: Comparator, value: impl Into<AttributeValue>) -> Condition {
        let (left, right) = (Operand::Path(Path::attribute(name)), Operand::value(value));
        Condition::Compare { left, comparator, right }
    }

    /// Another's flight is something lasting, unlike for `Core::is_not_there`.
    fn nothing_lasting(&self, now: UnixTime) -> Condition {
        let table = self.subject.core().table();
        let absent = Condition::NotExists(Path::attribute(&table.partition.attribute));
        match &table.ttl {
            Some(ttl) => or(absent, Self::compare(&ttl.attribute, Comparator::Less, now.seconds())),
            None => absent,
        }
    }

    fn is_ours(&self) -> Condition {
        Self::compare(FLIGHT_BY, Comparator::Equal, self.owner.clone())
    }

    /// A flight is no record: nobody holds anything older because of it, and L1 forgets nothing.
    async fn send(&self, action: Action, condition: Condition) -> Result<bool, Error> {
        let planned = Planned { key: self.subject.key().clone(), action, condition: Some(condition) };
        match self.subject.core().send(planned).await {
            Ok(_) => Ok(true),
            Err(Error::Store(store::Error::Condition { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A load that failed lets the next one try at once. If this fails too, the flight ends by itself.
    async fn release(&self) {
        let core = self.subject.core();
        let action = match self.item {
            Some(_) => {
                let remove = vec![Path::attribute(FLIGHT), Path::attribute(FLIGHT_BY)];
                Action::Update(Update { remove, ..Update::default() })
            }
            None => Action::Delete,
        };
        match self.send(action, self.is_ours()).await {
            Ok(_) => {}
            Err(error) => core.observer.store_failed(self.subject.text(), "release", &error, core.unix_now()),
        }
    }
}

impl<S: Subject> FlightStore for SharedFlight<'_, S> {
    type Found = Found;
    type Error = Error;

    async fn take(&self) -> Result<bool, Error> {
        let core = self.subject.core();
        let now = core.unix_now();
        let until = now.millis().saturating_add(self.millis);
        let over = Self::compare(FLIGHT, Comparator::Less, now.millis());
        match &self.item {
            Some(item) => {
                let free = or(Condition::NotExists(Path::attribute(FLIGHT)), over);
                // A new value would have a new end.
                let ttl = core.table().ttl.as_ref().map(|ttl| unchanged(&ttl.attribute, item));
                let condition = ttl.map_or(free.clone(), |same| and(free, same));
                let set = |name: &str, value: AttributeValue| {
                    (Path::attribute(name), SetValue::Is(SetOperand::value(value)))
                };
                let set = vec![set(FLIGHT, until.into()), set(FLIGHT_BY, self.owner.clone().into())];
                self.send(Action::Update(Update { set, ..Update::default() }), condition).await
            }
            None => {
                let abandoned = and(Self::compare(ABSENT, Comparator::Equal, LOADING), over);
                let condition = or(self.nothing_lasting(now), abandoned);
                let mut item = self.subject.key().clone();
                item.insert(ABSENT, LOADING);
                item.insert(FLIGHT, until);
                item.insert(FLIGHT_BY, self.owner.clone());
                if let Some(ttl) = &core.table().ttl {
                    item.insert(ttl.attribute.clone(), UnixTime::from_millis(until).seconds() + 1);
                }
                self.send(Action::Put(Prepared::of(item)), condition).await
            }
        }
    }

    async fn look(&self) -> Result<Option<Found>, Error> {
        match find(self.subject, self.patience).await {
            found @ (Found::Value { freshness: Freshness::Fresh, .. } | Found::Absent) => Ok(Some(found)),
            Found::Value { .. } | Found::Nothing { .. } => Ok(None),
            Found::Failed { error, .. } => Err(error),
        }
    }

    async fn pause(&self, asked: u32) -> bool {
        let pause = backoff::doubled(POLL, asked.saturating_add(1));
        let until = self.deadline.min(tokio::time::Instant::now() + pause);
        tokio::time::sleep_until(until).await;
        tokio::time::Instant::now() < self.deadline
    }
}
