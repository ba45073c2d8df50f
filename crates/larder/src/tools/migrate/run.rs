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

use larder_model::item_bytes;
use larder_model::{Item, UnixTime};

use super::carry::{Carrier, Differing, UNCONVERTED_MAX, Way, bucket, hash, outlasts};
use super::checkpoint::Checkpoint;
use super::stream::{self, Lost, PLACE_LASTS, Reader};
use super::{Event, MigrationWatch};
use crate::{Error, Store};

const BUCKETS: usize = 1 << 16;
/// Keys that are held in memory to be compared one by one.
const KEYS_MAX: usize = 200_000;
const ROUNDS_MAX: usize = 8;
/// How often a copy is begun again because it was left alone for longer than its stream lasts.
const RESTARTS_MAX: u32 = 3;
/// What ends sooner than this after a round began is not counted: it may end on one side first.
const HORIZON: Duration = Duration::from_secs(60);
/// How often in a row a remote stream must have nothing new. What comes later still is found by the verification.
const QUIET_TIMES: u32 = 3;
/// Pages that are read before both sides are compared again, however many more there are.
const STEPS_MAX: u32 = 500;
/// Pages of late changes that are read: to a table that programs still use, there is no end of them.
const LATE_STEPS_MAX: u32 = 2_000;

pub(super) struct Run<'a> {
    pub(super) carrier: Carrier,
    pub(super) state: Checkpoint,
    /// Where the state is kept.
    pub(super) home: Store,
    pub(super) watch: &'a mut dyn MigrationWatch,
    /// Records that cannot be converted are left behind.
    pub(super) skips: bool,
    /// Items of the source, as far as it knows.
    pub(super) expected: u64,
    /// Going back: the stream of the table that is written to.
    pub(super) others: Option<Reader>,
    /// Changes were gone before anybody read them.
    pub(super) is_unseen: bool,
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
    /// Changes kept coming.
    Busy,
}

/// What reading on in a stream came to.
struct Followed {
    /// The buckets that changed.
    touched: BTreeSet<u16>,
    /// Nothing more came.
    is_quiet: bool,
}

impl Run<'_> {
    /// Copied and found equal, however often that has to begin again.
    pub(super) async fn whole_copy(&mut self) -> Result<Ended, Error> {
        for _ in 0..RESTARTS_MAX {
            let mut ended = self.copy().await?;
            if ended == Ended::Done {
                ended = self.verify().await?;
            }
            if ended != Ended::Lost {
                return Ok(ended);
            }
            self.watch.event(Event::Restarted { table: &self.state.source });
            (self.state.is_copied, self.state.next, self.state.place, self.state.copied) =
                (false, None, None, 0);
            self.save().await?;
        }
        Err(self.too_slow())
    }

    pub(super) async fn whole_return(&mut self) -> Result<Ended, Error> {
        for _ in 0..RESTARTS_MAX {
            let ended = self.verify().await?;
            if ended != Ended::Lost {
                return Ok(ended);
            }
            self.state.place = None;
            self.save().await?;
        }
        Err(self.too_slow())
    }

    fn too_slow(&self) -> Error {
        Error::NotAllowed(format!(
            "the stream of {} lost changes faster than they were carried over: was it switched off and on?",
            self.carrier.source.table()
        ))
    }

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
            self.save().await?;
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
        if self.follow(&mut reader, STEPS_MAX).await?.is_err() {
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
            let Ok(followed) = self.follow(&mut reader, STEPS_MAX).await? else { return Ok(Ended::Lost) };
            if self.has_unconverted() {
                return Ok(Ended::Unconverted);
            }
            if mended.is_subset(&followed.touched) {
                // What was written there just before we did is at least told.
                self.see_others(QUIET_TIMES).await?;
                self.state.verified = Some(new.total());
                self.save().await?;
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

    /// Carries over what was written to the source after the switch. Done means that nothing more comes.
    pub(super) async fn late(&mut self) -> Result<Ended, Error> {
        let now = self.home.clock().now();
        let place = self.state.place.as_ref();
        let stream = place.map(|place| place.stream.clone());
        let (mut reader, is_unseen) = if place.is_some_and(|place| place.is_fresh(now)) {
            // Where it was has ended by now, perhaps; what came since is there.
            let reader = self.rest().await?;
            let is_other = stream.as_ref() != Some(&reader.place.stream);
            (reader, is_other)
        } else {
            match self.reader().await? {
                Some(reader) => (reader, false),
                None => (self.rest().await?, true),
            }
        };
        self.is_unseen |= is_unseen;
        let followed = loop {
            match self.follow(&mut reader, LATE_STEPS_MAX).await? {
                Ok(followed) => break followed,
                Err(Lost) if self.is_unseen => return Ok(Ended::Lost),
                Err(Lost) => (self.is_unseen, reader) = (true, self.rest().await?),
            }
        };
        // Also where nothing came: a place lasts from when it was last seen to be the end.
        self.state.place = Some(reader.place.clone());
        self.save().await?;
        Ok(match followed.is_quiet {
            true => Ended::Done,
            false if self.watch.stop() => Ended::Stopped,
            false => Ended::Busy,
        })
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
            self.save().await?;
        }
        Ok(Some(reader))
    }

    /// What is left of a stream that lost changes. Nothing that was read comes again: after the switch, a record that
    /// programs deleted would be made again.
    async fn rest(&mut self) -> Result<Reader, Error> {
        let (store, table) = (self.carrier.source.store(), self.carrier.source.table());
        stream::switch_on(store, table).await?;
        Reader::rest(store, table, self.state.place.clone()).await
    }

    /// Reads on until nothing comes any more, at most so many pages: where programs write all the time, something
    /// always does.
    async fn follow(&mut self, reader: &mut Reader, steps_max: u32) -> Result<Result<Followed, Lost>, Error> {
        let store = self.carrier.source.store().clone();
        let enough = if store.is_embedded() { 1 } else { QUIET_TIMES };
        let (mut touched, mut quiet) = (BTreeSet::new(), 0);
        for _ in 0..steps_max {
            if quiet == enough || self.watch.stop() {
                break;
            }
            let now = self.home.clock().now();
            let (changes, buckets) = match self.step(reader).await? {
                Ok(step) => step,
                Err(lost) => return Ok(Err(lost)),
            };
            touched.extend(buckets);
            // A page may be short and not the last: it ends at a number of records, or at a size.
            quiet = if changes == 0 { quiet + 1 } else { 0 };
            if quiet == enough {
                reader.place.ended = Some(now);
                self.state.place = Some(reader.place.clone());
            }
            if changes == 0 && quiet < enough {
                store.pause(quiet).await?;
            }
        }
        Ok(reader.list().await?.map(|()| Followed { touched, is_quiet: quiet == enough }))
    }

    /// Carries over the next changes: how many, and in which buckets.
    async fn step(&mut self, reader: &mut Reader) -> Result<Result<(usize, BTreeSet<u16>), Lost>, Error> {
        let changes = match reader.next().await? {
            Ok(changes) if changes.is_empty() => return Ok(Ok((0, BTreeSet::new()))),
            Ok(changes) => changes,
            Err(lost) => return Ok(Err(lost)),
        };
        let count = changes.len();
        self.see_others(1).await?;
        let touched = self.carrier.follow(changes).await?;
        self.state.place = Some(reader.place.clone());
        self.save().await?;
        self.watch.event(Event::Followed { table: self.carrier.source.table(), changes: count });
        Ok(Ok((count, touched)))
    }

    pub(super) async fn save(&mut self) -> Result<(), Error> {
        self.state.save(&self.home).await?;
        self.carrier.hold.renew(&self.state);
        Ok(())
    }

    /// Going back: looks what programs of the old schema wrote to their table since that began, until its stream
    /// showed nothing so often. It is read from there again by every machine, so that none forgets what another saw.
    async fn see_others(&mut self, quiet_times: u32) -> Result<(), Error> {
        let Some(place) = self.state.forward.clone().filter(|_| self.carrier.is_going_back()) else {
            return Ok(());
        };
        let (store, table) = (self.carrier.target.store().clone(), self.carrier.target.table().clone());
        let enough = if store.is_embedded() { 1 } else { quiet_times };
        let (mut quiet, mut steps) = (0, 0);
        while quiet < enough && steps < STEPS_MAX {
            let reader = match &mut self.others {
                Some(reader) => reader,
                none => {
                    stream::switch_on(&store, &table).await?;
                    let reader = Reader::rest(&store, &table, Some(place.clone())).await?;
                    let is_same = reader.place.stream == place.stream;
                    self.is_unseen |= !is_same || !place.is_fresh(self.home.clock().now());
                    none.insert(reader)
                }
            };
            match reader.next().await? {
                Ok(changes) if changes.is_empty() => {
                    quiet += 1;
                    if quiet < enough {
                        store.pause(quiet).await?;
                    }
                }
                Ok(changes) => {
                    quiet = 0;
                    self.carrier.see(&changes);
                }
                Err(Lost) => (self.others, self.is_unseen) = (None, true),
            }
            steps += 1;
        }
        Ok(())
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
        let (mut start, mut left_behind) = (None, 0);
        loop {
            let side = self.side(which);
            let (items, next) = side.page(start).await?;
            for head in items {
                let Some(item) = self.side(which).whole(head).await? else { continue };
                if which == Which::Old && self.carrier.way == Way::Forward {
                    self.carrier.note(&self.side(which).key(&item), &item);
                    left_behind += u64::from(self.carrier.forward.leaves(&item));
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
                if which == Which::Old && self.carrier.way == Way::Forward {
                    self.state.left_behind = Some(left_behind).filter(|&left| left > 0);
                }
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
            self.see_others(QUIET_TIMES).await?;
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
