//! The course of one table's migration, step by step, each saved before the next.
//!
//! Copy, follow, verify. Interrupted anywhere, it goes on after the last save: at most a page is read twice, and what
//! was written is found to be there.
//!
//! Verification reads both tables through. It counts and sums each by the new schema, in 65,536 buckets by the new
//! key; only what lies in buckets that differ is then looked at by itself and mended. While programs write, what
//! differs may have been on its way: it counts as explained when the stream shows a change in its bucket. A round
//! whose differences are all explained has found both tables equal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use larder_engine::item_bytes;
use larder_model::{Item, UnixTime};

use super::carry::{Carrier, Differing, UNCONVERTED_MAX, Way, bucket, hash, outlasts};
use super::state::State;
use super::stream::{self, Lost, Reader};
use super::{Event, Watch};
use crate::{Error, Store};

const BUCKETS: usize = 1 << 16;
/// Keys that are held in memory to be compared one by one.
const KEYS_MAX: usize = 200_000;
const ROUNDS_MAX: usize = 8;
/// What ends sooner than this after a round began is not counted: it may end on one side first.
const HORIZON: Duration = Duration::from_secs(60);
/// A stream keeps a day. A place that is older than this may be before its beginning.
const PLACE_LASTS: Duration = Duration::from_secs(20 * 60 * 60);
/// How often in a row a remote stream must have nothing new. What comes later still is found by the verification.
const QUIET_TIMES: u32 = 3;
/// Fewer than a page holds: its end was reached.
const FEW_CHANGES: usize = 500;
/// Pages that are read before both sides are compared again, however many more there are.
const STEPS_MAX: u32 = 500;

pub(super) struct Run<'a> {
    pub(super) carrier: Carrier,
    pub(super) state: State,
    /// Where the state is kept.
    pub(super) home: Store,
    pub(super) watch: &'a mut dyn Watch,
    /// Records that cannot be converted are left behind.
    pub(super) skips: bool,
    /// Items of the source, as far as it knows.
    pub(super) expected: u64,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    /// It was told to stop.
    Stopped,
    /// Records cannot be converted.
    Unconverted,
    /// The stream no longer has all changes.
    Lost,
}

impl Run<'_> {
    /// Copies what is not copied yet, and carries over what changes.
    pub(super) async fn copy(&mut self) -> Result<Ended, Error> {
        let Some(mut reader) = self.reader().await? else { return Ok(Ended::Lost) };
        while !self.state.is_copied {
            if self.watch.stop() {
                return Ok(Ended::Stopped);
            }
            let (items, next) = self.carrier.source.page(self.state.next.clone()).await?;
            self.state.copied += items.len() as u64;
            self.carrier.copy(items).await?;
            self.state.is_copied = next.is_none();
            self.state.next = next;
            self.state.save(&self.home).await?;
            let (table, copied) = (self.carrier.source.table(), self.state.copied);
            self.watch.event(Event::Copied { table, items: copied, of: self.expected.max(copied) });
            if self.has_too_many_unconverted() {
                return Ok(Ended::Unconverted);
            }
            // In between: a stream keeps a day, and a copy may take longer.
            if self.step(&mut reader).await?.is_err() {
                return Ok(Ended::Lost);
            }
        }
        Ok(if self.has_unconverted() { Ended::Unconverted } else { Ended::Done })
    }

    /// Finds both tables equal, or makes them so.
    pub(super) async fn verify(&mut self) -> Result<Ended, Error> {
        let Some(mut reader) = self.reader().await? else { return Ok(Ended::Lost) };
        if self.follow(&mut reader).await?.is_err() {
            return Ok(Ended::Lost);
        }
        let mut horizon = HORIZON;
        for _ in 0..ROUNDS_MAX {
            if self.watch.stop() {
                return Ok(Ended::Stopped);
            }
            self.carrier.notes.lock().unconverted.clear();
            self.watch.event(Event::Comparing { table: self.carrier.source.table() });
            let clock = self.home.clock().clone();
            let began = clock.now();
            let moment = began.plus(horizon);
            let old = self.tally(Which::Old, moment).await?;
            if self.has_unconverted() {
                return Ok(Ended::Unconverted);
            }
            let new = self.tally(Which::New, moment).await?;
            let differing: Vec<usize> = (0..BUCKETS).filter(|&at| old.0[at] != new.0[at]).collect();
            let mended = self.mend(&differing, &old, &new, moment).await?;
            let Ok(touched) = self.follow(&mut reader).await? else { return Ok(Ended::Lost) };
            if self.carrier.way == Way::Back && self.has_unconverted() {
                return Ok(Ended::Unconverted);
            }
            if mended.is_subset(&touched) {
                self.state.verified = Some(new.total());
                self.state.save(&self.home).await?;
                let (items, checksum) = new.total();
                self.watch.event(Event::Verified {
                    table: self.carrier.target.table(),
                    items,
                    checksum,
                    in_motion: mended.len(),
                });
                return Ok(Ended::Done);
            }
            let took = clock.now().millis().saturating_sub(began.millis());
            horizon = horizon.max(Duration::from_millis(u64::try_from(took).unwrap_or(0)).saturating_mul(2));
        }
        Err(Error::NotAllowed(format!(
            "{} keeps differing from {} for no reason that its stream shows: does something else write to it? \
             Stop that and go on",
            self.carrier.target.table(),
            self.carrier.source.table()
        )))
    }

    /// Carries over what was written to the source after the switch.
    pub(super) async fn late(&mut self) -> Result<Ended, Error> {
        let Some(mut reader) = self.reader().await? else { return Ok(Ended::Lost) };
        Ok(if self.follow(&mut reader).await?.is_ok() { Ended::Done } else { Ended::Lost })
    }

    /// The stream from where it was left. None: changes are gone.
    async fn reader(&mut self) -> Result<Option<Reader>, Error> {
        let (store, table) = (self.carrier.source.store(), self.carrier.source.table());
        let place = self.state.place.clone();
        if place.is_some() && self.state.saved.plus(PLACE_LASTS) < self.home.clock().now() {
            return Ok(None);
        }
        let is_new = place.is_none();
        if is_new {
            stream::switch_on(store, table).await?;
        }
        let Ok(reader) = Reader::open(store, table, place).await? else { return Ok(None) };
        if is_new {
            self.state.place = Some(reader.place.clone());
            self.state.save(&self.home).await?;
        }
        Ok(Some(reader))
    }

    /// Reads on until nothing much comes any more: where programs write all the time, something always does. Gives the
    /// buckets that changed.
    async fn follow(&mut self, reader: &mut Reader) -> Result<Result<BTreeSet<u16>, Lost>, Error> {
        let store = self.carrier.source.store().clone();
        let enough = if store.is_embedded() { 1 } else { QUIET_TIMES };
        let (mut touched, mut quiet) = (BTreeSet::new(), 0);
        for _ in 0..STEPS_MAX {
            if quiet == enough || self.watch.stop() {
                break;
            }
            let (changes, buckets) = match self.step(reader).await? {
                Ok(step) => step,
                Err(lost) => return Ok(Err(lost)),
            };
            touched.extend(buckets);
            quiet = if changes < FEW_CHANGES { quiet + 1 } else { 0 };
            if changes == 0 && quiet < enough {
                store.pause(quiet).await?;
            }
        }
        Ok(reader.list().await?.map(|()| touched))
    }

    /// Carries over the next changes: how many, and in which buckets.
    async fn step(&mut self, reader: &mut Reader) -> Result<Result<(usize, BTreeSet<u16>), Lost>, Error> {
        let changes = match reader.next().await? {
            Ok(changes) if changes.is_empty() => return Ok(Ok((0, BTreeSet::new()))),
            Ok(changes) => changes,
            Err(lost) => return Ok(Err(lost)),
        };
        let count = changes.len();
        let touched = self.carrier.follow(changes).await?;
        self.state.place = Some(reader.place.clone());
        self.state.save(&self.home).await?;
        self.watch.event(Event::Followed { table: self.carrier.source.table(), changes: count });
        Ok(Ok((count, touched)))
    }

    fn has_unconverted(&self) -> bool {
        !self.skips && !self.carrier.notes.lock().unconverted.is_empty()
    }

    fn has_too_many_unconverted(&self) -> bool {
        self.carrier.notes.lock().unconverted.len() >= UNCONVERTED_MAX
    }

    /// Items by their new keys: the key, and the item as the new schema has it. None: it has no counterpart.
    fn seen(&self, which: Which, item: &Item) -> Option<(Vec<u8>, Item)> {
        let new = match which {
            Which::New => item.clone(),
            Which::Old => self.carrier.forward.convert(item, None).ok().flatten()?.item,
        };
        Some((item_bytes::encode(&self.side(Which::New).key(&new)), new))
    }

    fn side(&self, which: Which) -> &super::carry::Side {
        match (which, self.carrier.way) {
            (Which::Old, Way::Forward) | (Which::New, Way::Back) => &self.carrier.source,
            (Which::New, Way::Forward) | (Which::Old, Way::Back) => &self.carrier.target,
        }
    }

    async fn tally(&mut self, which: Which, moment: UnixTime) -> Result<Tally, Error> {
        let mut tally = Tally(vec![(0, 0); BUCKETS]);
        let mut start = None;
        loop {
            let side = self.side(which);
            let (items, next) = side.page(start).await?;
            for head in items {
                let Some(item) = self.side(which).whole(head).await? else { continue };
                if which == Which::Old && self.carrier.way == Way::Forward {
                    self.carrier.note(&self.side(which).key(&item), &item);
                }
                let Some((key, item)) = self.seen(which, &item) else { continue };
                if self.counts(&item, moment) {
                    let (count, sum) = &mut tally.0[usize::from(bucket(&key))];
                    *count += 1;
                    *sum = u64::wrapping_add(*sum, hash(&item_bytes::encode(&item)));
                }
            }
            start = next;
            if start.is_none() {
                return Ok(tally);
            }
        }
    }

    fn counts(&self, item: &Item, moment: UnixTime) -> bool {
        let side = self.side(Which::New);
        outlasts(side.core(item), item, moment)
    }

    /// Looks at what differs, a bounded number of keys at a time. Gives the buckets in which something was written.
    async fn mend(
        &mut self,
        differing: &[usize],
        old: &Tally,
        new: &Tally,
        moment: UnixTime,
    ) -> Result<BTreeSet<u16>, Error> {
        let mut mended = BTreeSet::new();
        let mut left = differing;
        while !left.is_empty() {
            let mut keys = 0;
            let fits = left.iter().take_while(|&&at| {
                keys += (old.0[at].0 + new.0[at].0) as usize;
                keys <= KEYS_MAX
            });
            let (now, later) = left.split_at(fits.count().max(1));
            left = later;
            let now: BTreeSet<u16> = now.iter().filter_map(|&at| u16::try_from(at).ok()).collect();
            let found = self.differing(&now, moment).await?;
            mended.extend(self.carrier.mend(found).await?);
        }
        Ok(mended)
    }

    async fn differing(
        &mut self,
        buckets: &BTreeSet<u16>,
        moment: UnixTime,
    ) -> Result<Vec<Differing>, Error> {
        type Found = Option<(Item, u64)>;
        let mut keys: BTreeMap<Vec<u8>, (Found, Found)> = BTreeMap::new();
        for which in [Which::Old, Which::New] {
            let mut start = None;
            loop {
                let (items, next) = self.side(which).page(start).await?;
                for head in items {
                    let Some(item) = self.side(which).whole(head).await? else { continue };
                    let at = self.side(which).key(&item);
                    let Some((key, item)) = self.seen(which, &item) else { continue };
                    if !buckets.contains(&bucket(&key)) || !self.counts(&item, moment) {
                        continue;
                    }
                    let sum = hash(&item_bytes::encode(&item));
                    let entry = keys.entry(key).or_default();
                    let of_source = self.is_source(which);
                    let found = if of_source { &mut entry.0 } else { &mut entry.1 };
                    if let Some((other, _)) = found.replace((at.clone(), sum))
                        && other != at
                    {
                        self.check_apart(which, &other, &at).await?;
                    }
                }
                start = next;
                if start.is_none() {
                    break;
                }
            }
        }
        let differ = keys.into_iter().filter(|(_, (source, target))| {
            source.as_ref().map(|found| found.1) != target.as_ref().map(|found| found.1)
        });
        let differ = differ.map(|(key, (source, target))| Differing {
            bucket: bucket(&key),
            source: source.map(|found| found.0),
            target: target.map(|found| found.0),
        });
        Ok(differ.collect())
    }

    fn is_source(&self, which: Which) -> bool {
        (which == Which::Old) == (self.carrier.way == Way::Forward)
    }

    /// Two records that would have one key are no two records.
    async fn check_apart(&self, which: Which, a: &Item, b: &Item) -> Result<(), Error> {
        let side = self.side(which);
        for key in [a, b] {
            let item = match side.head(key).await? {
                Some(head) => side.whole(head).await?,
                None => None,
            };
            if item.is_none() {
                return Ok(());
            }
        }
        let text = |key: &Item| side.cores()[0].key_text(key);
        Err(Error::NotAllowed(format!(
            "{} and {} of {} would have one key in {}: the new key has to tell them apart",
            text(a),
            text(b),
            side.table(),
            self.side(Which::New).table()
        )))
    }
}

/// Which table, whichever way things are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Old,
    New,
}

/// Items and the sum of their checksums, by bucket.
struct Tally(Vec<(u32, u64)>);

impl Tally {
    fn total(&self) -> (u64, u64) {
        self.0.iter().fold((0, 0), |(items, total), (count, sum)| {
            (items + u64::from(*count), u64::wrapping_add(total, *sum))
        })
    }
}
