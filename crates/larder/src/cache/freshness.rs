//! How fresh a cached item is: what it carries + policy + now → fresh, stale or gone.
//!
//! An item is fresh until its TTL. Where it may be given past that (`stale`, `grace`), the TTL is put off so that
//! the item lives on, and `larder_fresh_until` says when it was fresh. An item without any of these settings
//! carries its TTL and nothing of ours.

use std::hash::{DefaultHasher, Hash, Hasher};

use larder_model::{AttributeValue, Item, Number, UnixTime};
use larder_schema::schema::Policy;
use larder_schema::{Expr, FRESH_UNTIL, Value};

use crate::entity::Core;
use crate::shelf::{Record, Shelf};

/// When an item was stored, in Unix seconds, where its TTL alone does not say so.
pub(crate) const STORED_AT: &str = "larder_stored_at";
/// What the source calls this version, for conditional loads.
pub(crate) const ETAG: &str = "larder_etag";
pub(crate) const LAST_MODIFIED: &str = "larder_last_modified";

/// When an item was stored, and until when it is fresh; for ever, if nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) stored_at: UnixTime,
    pub(crate) fresh_until: Option<UnixTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Fresh,
    /// Fresh, and old enough to be fetched ahead of its end.
    Ageing,
    /// May be given while a new one is fetched.
    Stale,
    /// May be given when no new one is available.
    Grace,
    Gone,
}

/// Decides what may be done with an item. Counted in whole seconds, as everywhere: see `Core::is_expired`.
pub(crate) fn freshness(life: Life, policy: &Policy, now: UnixTime) -> Freshness {
    let Some(until) = life.fresh_until else { return Freshness::Fresh };
    let past_millis = now.seconds().saturating_sub(until.seconds()).saturating_mul(1000);
    let within = |limit: Option<i64>| limit.is_some_and(|limit| past_millis <= limit);
    if past_millis > 0 {
        return match () {
            () if within(policy.stale_millis) => Freshness::Stale,
            () if within(policy.grace_millis) => Freshness::Grace,
            () => Freshness::Gone,
        };
    }
    let whole = until.millis().saturating_sub(life.stored_at.millis());
    let lived = now.millis().saturating_sub(life.stored_at.millis());
    match policy.refresh_percent {
        Some(percent) if lived.saturating_mul(100) >= whole.saturating_mul(percent.into()) => {
            Freshness::Ageing
        }
        Some(_) | None => Freshness::Fresh,
    }
}

impl<R: Record> Shelf<R> {
    /// Since when an item is kept, where that can be told: by what it says, by a field that is `now` at every write, or by its TTL
    /// counted back.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// let book = library.books().create(NewBook::new("1")).await?;
    /// assert_eq!(library.books().stored_at(book.kept().key()), None, "nothing of a book says so");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stored_at(&self, item: &Item) -> Option<UnixTime> {
        stored_at(&self.core, item, self.core.expires(item))
    }
}

impl Life {
    pub(crate) fn of(core: &Core, item: &Item) -> Self {
        let fresh_until = core.expires(item);
        let stored_at = stored_at(core, item, fresh_until).unwrap_or_else(|| core.unix_now());
        Self { stored_at, fresh_until }
    }

    /// The life of several items that live as one.
    pub(crate) fn shortest(lives: impl IntoIterator<Item = Self>) -> Option<Self> {
        let end = |life: &Self| life.fresh_until.map_or(i64::MAX, UnixTime::millis);
        lives.into_iter().min_by_key(end)
    }
}

/// What the item says, else the field that is `now` at every write, else its TTL counted back.
fn stored_at(core: &Core, item: &Item, fresh_until: Option<UnixTime>) -> Option<UnixTime> {
    let said = item.get(STORED_AT).and_then(AttributeValue::as_number).and_then(Number::to_i64);
    if let Some(seconds) = said {
        return Some(UnixTime::from_seconds(seconds));
    }
    let mut written_now =
        core.entity().fields.iter().filter(|field| {
            field.is_stored() && !field.on_create && matches!(field.equation, Some(Expr::Now))
        });
    let moment = written_now.find_map(|field| {
        let value = core.schema.decode(&field.kind, item.get(&field.attribute)?)?;
        Value::as_instant(&value)
    });
    match (moment, fresh_until, core.ttl_millis()) {
        (Some(moment), _, _) => Some(UnixTime::from_millis(moment.as_millisecond())),
        (None, Some(until), Some(ttl)) => Some(UnixTime::from_millis(until.millis().saturating_sub(ttl))),
        (None, _, _) => None,
    }
}

/// Gives an item that is about to be stored its TTL: jittered, and put off where it may be given stale.
pub(crate) fn stamp(core: &Core, item: &mut Item, ends: UnixTime, now: UnixTime) {
    let Some(attribute) = core.table().ttl.as_ref().map(|ttl| ttl.attribute.clone()) else { return };
    let policy = &core.entity().policy;
    let fresh_until = jittered(policy, &core.key_text(item), ends, now);
    let extra = policy.stale_millis.max(policy.grace_millis);
    let kept_until = UnixTime::from_millis(fresh_until.millis().saturating_add(extra.unwrap_or(0)));
    item.insert(attribute, kept_until.seconds());
    if extra.is_some() {
        item.insert(FRESH_UNTIL, fresh_until.seconds());
    }
    if extra.is_some() || policy.refresh_percent.is_some() || policy.jitter_percent.is_some() {
        item.insert(STORED_AT, now.seconds());
    }
}

/// Shorter by up to the jitter: never longer than was said. The same key at the same time gives the same life.
fn jittered(policy: &Policy, key: &str, ends: UnixTime, now: UnixTime) -> UnixTime {
    let Some(percent) = policy.jitter_percent else { return ends };
    let whole = ends.millis().saturating_sub(now.millis()).max(0);
    let most = whole / 100 * i64::from(percent);
    let mut hasher = DefaultHasher::new();
    (key, now.millis()).hash(&mut hasher);
    let share = i64::try_from(hasher.finish() % 1024).unwrap_or(0);
    UnixTime::from_millis(ends.millis() - most / 1024 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_fresh_then_stale_then_in_grace_then_gone() {
        let policy = |stale: Option<i64>, grace: Option<i64>, refresh: Option<u8>| Policy {
            stale_millis: stale.map(|seconds| seconds * 1000),
            grace_millis: grace.map(|seconds| seconds * 1000),
            refresh_percent: refresh,
            ..Policy::default()
        };
        let at = UnixTime::from_seconds;
        for (stale, grace, refresh, now, wanted) in [
            (None, None, None, 0, Freshness::Fresh),
            (None, None, None, 100, Freshness::Fresh),
            (None, None, None, 101, Freshness::Gone),
            (Some(10), None, None, 101, Freshness::Stale),
            (Some(10), None, None, 110, Freshness::Stale),
            (Some(10), None, None, 111, Freshness::Gone),
            (None, Some(10), None, 110, Freshness::Grace),
            (None, Some(10), None, 111, Freshness::Gone),
            (Some(10), Some(20), None, 110, Freshness::Stale),
            (Some(10), Some(20), None, 111, Freshness::Grace),
            (Some(10), Some(20), None, 121, Freshness::Gone),
            (Some(20), Some(10), None, 115, Freshness::Stale),
            (None, None, Some(80), 79, Freshness::Fresh),
            (None, None, Some(80), 80, Freshness::Ageing),
            (None, None, Some(80), 100, Freshness::Ageing),
            (Some(10), None, Some(80), 101, Freshness::Stale),
        ] {
            let life = Life { stored_at: at(0), fresh_until: Some(at(100)) };
            let found = freshness(life, &policy(stale, grace, refresh), at(now));
            assert_eq!(found, wanted, "stale {stale:?}, grace {grace:?}, refresh {refresh:?}, at {now}");
        }
        let endless = Life { stored_at: at(0), fresh_until: None };
        assert_eq!(freshness(endless, &policy(None, None, Some(1)), at(i64::MAX / 1000)), Freshness::Fresh);
    }

    #[test]
    fn jitter_shortens_by_at_most_its_share() {
        let policy = Policy { jitter_percent: Some(10), ..Policy::default() };
        let (now, ends) = (UnixTime::from_seconds(1000), UnixTime::from_seconds(2000));
        let lives: Vec<UnixTime> =
            (0..200).map(|key| jittered(&policy, &key.to_string(), ends, now)).collect();
        for life in &lives {
            assert!((1900..=2000).contains(&life.seconds()), "{life:?}");
        }
        assert!(
            lives.iter().any(|life| life.seconds() < 1950) && lives.iter().any(|life| life.seconds() > 1950)
        );
        assert_eq!(jittered(&Policy::default(), "key", ends, now), ends);
    }
}
