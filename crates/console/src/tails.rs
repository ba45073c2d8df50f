//! Changes of tables that are watched from outside, by their streams.
//!
//! A table is watched from the first page of its changes on, and asked again by each further one: nothing is read that nobody looks
//! at. The past of one item is read from the oldest change on that the stream still has, once somebody has asked for it. What nobody
//! has looked at for [`LEFT_ALONE`] is forgotten.
//!
//! What is kept is bounded: of so many tables and items, so many changes and so many bytes. So is what one look reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder::store::{Error, PastChange, Tail};
use larder::{Store, UnixTime};
use larder_model::{Item, TableName};
use parking_lot::Mutex;

const WATCHED_MAX: usize = 16;
const CHANGES_MAX: usize = 1000;
const BYTES_MAX: usize = 8 << 20;
/// Pages of each shard that one look reads.
pub(crate) const PAGES_MAX: usize = 10;
/// A stream may give pages without a change before those that have some: it is at its end after so many in a row.
const EMPTY_MAX: usize = 3;
/// An iterator of a stream lasts a quarter of an hour.
const LEFT_ALONE: Duration = Duration::from_secs(10 * 60);

/// All that is watched.
#[derive(Debug, Default)]
pub(crate) struct Tails(Mutex<Vec<Arc<Watched>>>);

#[derive(Debug)]
struct Watched {
    table: TableName,
    /// Only this item, from the oldest change on; `None`: all of the table, from now on.
    key: Option<Item>,
    /// Held while the stream is asked: two looks are one after the other.
    state: tokio::sync::Mutex<State>,
    asked: Mutex<Instant>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` before the first look.
    tail: Option<Tail>,
    since: Option<UnixTime>,
    changes: VecDeque<PastChange>,
    bytes: usize,
    looked: u64,
    latest: Option<UnixTime>,
    is_cut: bool,
}

/// What came, newest first.
#[derive(Debug)]
pub(crate) struct Came {
    /// When somebody looked first.
    pub(crate) since: UnixTime,
    pub(crate) changes: Vec<PastChange>,
    /// Changes that were read, and the time of the last of them.
    pub(crate) looked: u64,
    pub(crate) latest: Option<UnixTime>,
    /// Nothing more was there.
    pub(crate) is_all: bool,
    /// Older ones were there, and were too many to keep.
    pub(crate) is_cut: bool,
}

impl Tails {
    /// What has come since somebody looked first; of one item, all that the stream has of it. `None`: no stream of the table is on.
    pub(crate) async fn look(
        &self,
        store: &Store,
        table: &TableName,
        key: Option<&Item>,
    ) -> Result<Option<Came>, Error> {
        let watched = self.watched(table, key, Instant::now());
        let mut state = watched.state.lock().await;
        let looked = state.look(store, table, key).await;
        if !matches!(looked, Ok(Some(_))) {
            // The next look begins anew.
            *state = State::default();
        }
        looked
    }

    fn watched(&self, table: &TableName, key: Option<&Item>, now: Instant) -> Arc<Watched> {
        let mut all = self.0.lock();
        all.retain(|watched| now.duration_since(*watched.asked.lock()) < LEFT_ALONE);
        let is_it = |watched: &&Arc<Watched>| watched.table == *table && watched.key.as_ref() == key;
        if let Some(known) = all.iter().find(is_it) {
            *known.asked.lock() = now;
            return Arc::clone(known);
        }
        if all.len() >= WATCHED_MAX {
            let oldest = all.iter().enumerate().min_by_key(|(_, watched)| *watched.asked.lock());
            if let Some(at) = oldest.map(|(at, _)| at) {
                all.remove(at);
            }
        }
        let (state, asked) = (tokio::sync::Mutex::default(), Mutex::new(now));
        let new = Arc::new(Watched { table: table.clone(), key: key.cloned(), state, asked });
        all.push(Arc::clone(&new));
        new
    }
}

impl State {
    async fn look(
        &mut self,
        store: &Store,
        table: &TableName,
        key: Option<&Item>,
    ) -> Result<Option<Came>, Error> {
        let since = *self.since.get_or_insert_with(|| store.clock().now());
        if self.tail.is_none() {
            self.tail = match key {
                Some(_) => store.tail_from_oldest(table).await?,
                None => store.tail(table).await?,
            };
        }
        let Some(tail) = &mut self.tail else { return Ok(None) };
        let (mut came, mut empty, mut is_all) = (Vec::new(), 0, false);
        for _ in 0..PAGES_MAX {
            let page = tail.next().await?;
            empty = if page.is_empty() && !tail.goes_on() { empty + 1 } else { 0 };
            // From now on there is nothing to catch up with.
            is_all = empty >= if key.is_some() { EMPTY_MAX } else { 1 };
            self.looked += page.len() as u64;
            self.latest = page.last().map(|change| change.time).or(self.latest);
            came.extend(page.into_iter().filter(|change| key.is_none_or(|key| change.key == *key)));
            if is_all {
                break;
            }
        }
        came.into_iter().for_each(|change| self.keep(change));
        let changes = self.changes.iter().rev().cloned().collect();
        let (looked, latest, is_cut) = (self.looked, self.latest, self.is_cut);
        Ok(Some(Came { since, changes, looked, latest, is_all, is_cut }))
    }

    fn keep(&mut self, change: PastChange) {
        self.bytes += size(&change);
        self.changes.push_back(change);
        while self.changes.len() > CHANGES_MAX || self.bytes > BYTES_MAX && self.changes.len() > 1 {
            self.bytes -= self.changes.pop_front().as_ref().map_or(0, size);
            self.is_cut = true;
        }
    }
}

fn size(change: &PastChange) -> usize {
    let images = change.old.iter().chain(&change.new);
    change.key.size() + images.map(larder_model::Item::size).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use larder::store::ops::Event;

    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes_first() {
        let mut state = State::default();
        let change = |number: u64, bytes: usize| {
            let key: Item = [("id", number.to_string())].into_iter().collect();
            let new: Item = [("filling", "f".repeat(bytes))].into_iter().collect();
            let time = UnixTime::from_seconds(0);
            PastChange { number, time, event: Event::Insert, expired: false, key, old: None, new: Some(new) }
        };
        for number in 0..2000 {
            state.keep(change(number, 10));
        }
        assert_eq!((state.changes.len(), state.changes[0].number), (CHANGES_MAX, 1000));
        for number in 2000..2100 {
            state.keep(change(number, 400_000));
        }
        assert!(
            state.bytes <= BYTES_MAX && state.changes.len() < 30,
            "{} {}",
            state.bytes,
            state.changes.len()
        );
        assert_eq!(state.bytes, state.changes.iter().map(size).sum::<usize>());
    }

    #[test]
    fn tables_that_nobody_looks_at_are_forgotten() {
        let tails = Tails::default();
        let now = Instant::now();
        let name = |at: usize| TableName::new(format!("table-{at}")).expect("a name");
        let first = tails.watched(&name(0), None, now);
        assert!(Arc::ptr_eq(&first, &tails.watched(&name(0), None, now)));
        let key: Item = [("id", "seven")].into_iter().collect();
        assert!(
            !Arc::ptr_eq(&first, &tails.watched(&name(0), Some(&key), now)),
            "an item is watched by itself"
        );
        for at in 1..40 {
            tails.watched(&name(at), None, now + Duration::from_secs(1));
        }
        assert_eq!(tails.0.lock().len(), WATCHED_MAX);
        tails.watched(&name(0), None, now + LEFT_ALONE + Duration::from_secs(2));
        assert_eq!(tails.0.lock().len(), 1);
    }
}
