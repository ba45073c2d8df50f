//! Migration: the records of one schema, table by table, become those of another, while programs write.
//!
//! A breaking change has a new `version`, and with it new table names: `lunch-cache` becomes `lunch-cache-v2`. A
//! program finds its table by the schema it was made with, so nothing has to be told where the data is: programs of
//! the old schema use the old table, programs of the new schema the new one, and the switch is their deployment.
//! `docs/decisions/0007-migration.md` says why. Between two stores it is the same, with the stores in place of the
//! names.
//!
//! [`Migration::run`] makes the new tables, copies, carries over what is written meanwhile, verifies, and says that
//! programs may switch. Run again, it goes on where it was, on any machine; after the switch it carries over what
//! programs of the old schema still wrote. [`Migration::rollback`] carries back what was written since the switch;
//! [`Migration::finish`] removes the table that nobody uses any more, when its name is given.
//!
//! Promises:
//! - Nothing is lost and nothing doubled: each record of the old table is in the new one once, with its last write.
//! - An older write never replaces a newer one, on either side.
//! - Cut off anywhere, the next run reaches the same end.
//! - Records that cannot be converted are listed, and stop it unless they are to be left behind.
//!
//! ```
//! use larder::migrate::{Migration, Need, Options};
//! use larder::provision::Silent;
//! use larder::{Environment, Fields, Schema, Store, System};
//! # use larder_schema::NoFiles;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let load = |text| Schema::load("notes.larder", text, &mut NoFiles, &Environment::new()).schema.expect("it is right");
//! let old = load(
//!     "system notes
//!      table notes {
//!        key  id
//!        entity Note { id: string nonempty }
//!      }",
//! );
//! let new = load(
//!     "system notes
//!      version 2
//!      table notes {
//!        key  pk
//!        entity Note {
//!          key   \"NOTE#{id}\"
//!          id:   string nonempty
//!          text: string default \"\"
//!        }
//!      }",
//! );
//! let store = Store::memory().await;
//! let notes = System::open(old.clone(), store.clone()).await?;
//! let note = Fields::from([("id".to_owned(), "a".into())]);
//! notes.entries("Note").expect("it has notes").create(note.clone()).await?;
//!
//! let migration = Migration::new((old, store.clone()), (new.clone(), store.clone()), Environment::new())?;
//! assert_eq!(migration.need(), Need::Copy);
//! println!("{}", migration.plan().await?);
//! migration.run(&Options::default(), &mut Silent).await?;
//!
//! let notes = System::open(new, store).await?;
//! assert!(notes.entries("Note").expect("it has notes").get(note).await?.is_some());
//! # Ok(())
//! # }
//! ```

mod carry;
mod checkpoint;
mod convert;
mod pair;
mod report;
mod run;
mod stream;

use std::time::Duration;

use larder_model::{StreamView, TableName, UnixTime};
use larder_ops::Scan;
use larder_schema::setup::{KEEP_TAG, MIGRATING_TAG, SUPERSEDED_TAG};
use larder_schema::{Change, Environment, compare};

use crate::price::{self, Units};
use crate::provision::{self, Desired, Permissions, Silent};
use crate::store::{self, Store};
use crate::{Error, Schema, System, census};

use carry::{Carrier, Notes, Side, Way};
use checkpoint::Hold;
use convert::Converter;
use pair::{Pair, clear, counterpart, destroy, holds, mark, tag};
use run::{Ended, Run};

pub use checkpoint::{Checkpoint, Phase, TABLE, known};
pub use report::{
    Event, Late, MigrationPlan, MigrationWatch, Need, Options, Outcome, PlannedTable, Unconverted,
};

/// How long a table is kept when the schema does not say.
const KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// What one machine copies, for the estimate.
const ITEMS_PER_SECOND: u64 = 2_000;

/// From one schema on a store to another, on the same or on another store.
#[derive(Debug)]
pub struct Migration {
    system: String,
    /// What differs between the schemas.
    pub changes: Vec<Change>,
    /// Old tables that nothing takes over, by their names in the schema.
    pub left: Vec<String>,
    /// Entities that the new schema does not have, each after its old table. Their records stay in it, and go with it.
    pub gone: Vec<(String, String)>,
    pairs: Vec<Pair>,
    desired: Desired,
    to: Store,
    keep: Duration,
    next_version: u32,
}

impl Migration {
    /// From the old schema on its store to the new one on its store, in one environment.
    pub fn new(
        (old, from): (Schema, Store),
        (new, to): (Schema, Store),
        environment: Environment,
    ) -> Result<Self, Error> {
        let changes = compare(&old, &new);
        let desired = Desired::of(&new, &environment).map_err(Error::Environment)?;
        let version = |schema: &Schema| schema.version.map_or(1, |version| version.number);
        let keep = new.version.and_then(|version| version.keep_millis);
        let keep = keep.and_then(|millis| u64::try_from(millis).ok()).map_or(KEEP, Duration::from_millis);
        let next_version = version(&old) + 1;
        let same_store = from.identity() == to.identity();
        let (before, after) =
            (System::on(old, from, environment.clone())?, System::on(new, to.clone(), environment)?);
        let (mut pairs, mut left, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for table in &before.schema().tables {
            let counterpart = counterpart(before.schema(), after.schema(), &table.name);
            for entity in &table.entities {
                match after.schema().tables.iter().find(|other| holds(other, &entity.name)) {
                    Some(other) if Some(other.name.as_str()) == counterpart => {}
                    Some(other) => {
                        return Err(Error::NotAllowed(format!(
                            "{} moves from the table {} to the table {}, and a migration carries each table to one: \
                             keep it in {}, or give it another name there and move its records by \
                             `larder export` and `larder load`",
                            entity.name,
                            table.name,
                            other.name,
                            counterpart.unwrap_or(&table.name)
                        )));
                    }
                    None if counterpart.is_some() => {
                        gone.push((table.name.clone(), entity.name.clone()));
                    }
                    // The table stays, and all that is in it.
                    None => {}
                }
            }
            let setup = desired.setups.iter().find(|setup| Some(setup.table.as_str()) == counterpart);
            let sides = (
                Side::new(before.cores(&table.name)),
                counterpart.and_then(|name| Side::new(after.cores(name))),
            );
            let ((Some(old), Some(new)), Some(setup)) = (sides, setup) else {
                left.push(table.name.clone());
                continue;
            };
            let same_region = old.cores()[0].table().region == new.cores()[0].table().region;
            let moves = !same_store || !same_region || old.table() != new.table();
            pairs.push(Pair { old, new, setup: setup.clone(), moves });
        }
        let system = after.schema().system.clone();
        Ok(Self { system, changes, left, gone, pairs, desired, to, keep, next_version })
    }

    /// What the change asks for.
    pub fn need(&self) -> Need {
        let breaking = self.changes.iter().any(Change::is_breaking);
        match (self.pairs.iter().any(|pair| pair.moves), breaking) {
            (true, _) => Need::Copy,
            (false, true) => Need::Version(self.next_version),
            (false, false) if self.changes.is_empty() => Need::Nothing,
            (false, false) => Need::Apply,
        }
    }

    fn moving(&self) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(|pair| pair.moves)
    }

    /// Looks, and says what a run would do. Changes nothing.
    pub async fn plan(&self) -> Result<MigrationPlan, Error> {
        let mut tables = Vec::new();
        for pair in self.unfinished().await? {
            let size = census::size(pair.old.store(), pair.old.table()).await?;
            let size = size.ok_or_else(|| store::Error::NoTable { table: pair.old.table().clone() })?;
            let average = size.bytes.checked_div(size.items).unwrap_or(0);
            let writes = 1 + pair.setup.definition.indexes.len() as u64;
            // Read once to be copied, and on both sides to be compared.
            let read = 3.0 * price::read_units(size.bytes, true);
            let write = price::write_units(average) * (size.items * writes) as f64;
            tables.push(PlannedTable {
                source: pair.old.table().clone(),
                target: pair.new.table().clone(),
                items: size.items,
                bytes: size.bytes,
                units: if size.items == 0 { Units::default() } else { Units { read, write } },
                lasting: Duration::from_secs(size.items / ITEMS_PER_SECOND),
                state: self.state(pair).await?,
                streams: [switched(&pair.old).await?, switched(&pair.new).await?],
            });
        }
        let from = self.pairs.first().map_or_else(String::new, |pair| pair.old.store().place());
        Ok(MigrationPlan {
            from,
            to: self.to.place(),
            changes: self.changes.clone(),
            tables,
            left: self.left.clone(),
            gone: self.gone.clone(),
            keep: self.keep,
        })
    }

    /// Makes the new tables, copies, verifies and switches; or goes on with that. After the switch it carries over what
    /// was written to the old tables.
    pub async fn run(&self, options: &Options, watch: &mut dyn MigrationWatch) -> Result<Outcome, Error> {
        checkpoint::provision(&self.to).await?;
        let mut states = Vec::new();
        for pair in self.unfinished().await? {
            states.push((pair, self.begun(pair).await?));
        }
        self.provision().await?;
        let mut outcome = Outcome::default();
        for (pair, state) in states.iter_mut().filter(|(_, state)| state.phase == Phase::Copying) {
            self.watch_stream(pair, state, Way::Forward).await?;
            let mut run = self.running(pair, state.clone(), Way::Forward, options, &mut *watch).await?;
            let ended = run.whole_copy().await?;
            *state = run.state.clone();
            outcome.take(run.carrier.notes.into_inner());
            match ended {
                Ended::Done => {}
                Ended::Stopped | Ended::Unconverted | Ended::Lost | Ended::Busy => {
                    return Ok(outcome.with(states));
                }
            }
        }
        for (pair, state) in &mut states {
            if state.phase == Phase::Copying {
                self.switch(state, Phase::Switched).await?;
                mark(&pair.old, pair.new.table(), state.keep_until).await?;
                clear(&pair.new, [SUPERSEDED_TAG, KEEP_TAG]).await?;
            }
            let ended =
                self.carry_late(pair, state, Way::Forward, options, &mut *watch, &mut outcome).await?;
            if ended == Ended::Stopped {
                return Ok(outcome.with(states));
            }
        }
        outcome.is_done = true;
        Ok(outcome.with(states))
    }

    /// Carries back what was written to the new tables since the switch, so that programs of the old schema can go on.
    /// Before the switch there is nothing to carry, and the new tables are given up.
    pub async fn rollback(
        &self,
        options: &Options,
        watch: &mut dyn MigrationWatch,
    ) -> Result<Outcome, Error> {
        let mut states = self.states().await?;
        for pair in self.moving() {
            if !pair.old.is_there().await? {
                return Err(Error::NotAllowed(format!(
                    "{} is removed, and its migration finished: there is no way back to it",
                    pair.old.table()
                )));
            }
        }
        let mut outcome = Outcome::default();
        // What programs of the old schema wrote meanwhile is part of what is carried back.
        for (pair, state) in states.iter_mut().filter(|(_, state)| state.phase == Phase::Switched) {
            let ended =
                self.carry_late(pair, state, Way::Forward, options, &mut *watch, &mut outcome).await?;
            if ended == Ended::Stopped {
                return Ok(outcome.with(states));
            }
        }
        // What would be replaced is told before. It was read now, so the next time it goes on.
        if outcome.has_losses() {
            return Ok(outcome.with(states));
        }
        for (pair, state) in &mut states {
            match state.phase {
                Phase::Copying => {
                    (state.place, state.verified) = (None, None);
                    self.switch(state, Phase::Returned).await?;
                    continue;
                }
                Phase::Switched => {
                    state.phase = Phase::Returning;
                    // What they go on to write stays; it is seen from here on.
                    let now = self.to.clock().now();
                    state.forward = state.place.take().map(|place| place.ending(now));
                    state.verified = None;
                    state.save(&self.to).await?;
                }
                Phase::Returning | Phase::Returned => {}
            }
            if state.phase == Phase::Returning {
                self.watch_stream(pair, state, Way::Back).await?;
                let mut run = self.running(pair, state.clone(), Way::Back, options, &mut *watch).await?;
                let ended = run.whole_return().await?;
                *state = run.state.clone();
                if run.is_unseen {
                    outcome.unseen.push(pair.old.table().clone());
                }
                outcome.take(run.carrier.notes.into_inner());
                if ended != Ended::Done {
                    return Ok(outcome.with(states));
                }
            }
        }
        for (pair, state) in &mut states {
            if state.phase == Phase::Returning {
                state.forward = None;
                self.switch(state, Phase::Returned).await?;
                mark(&pair.new, pair.old.table(), state.keep_until).await?;
                clear(&pair.old, [SUPERSEDED_TAG, KEEP_TAG]).await?;
            }
            if state.place.is_some() && state.verified.is_some() {
                let ended =
                    self.carry_late(pair, state, Way::Back, options, &mut *watch, &mut outcome).await?;
                if ended == Ended::Stopped {
                    return Ok(outcome.with(states));
                }
            }
        }
        outcome.is_done = true;
        Ok(outcome.with(states))
    }

    /// The tables that are no longer used, and until when each is kept.
    pub async fn superseded(&self) -> Result<Vec<(TableName, Option<UnixTime>)>, Error> {
        let states = self.states().await?;
        let unused = |(pair, state): &(&Pair, Checkpoint)| {
            Some((pair.unused(state.phase)?.table().clone(), state.keep_until))
        };
        Ok(states.iter().filter_map(unused).collect())
    }

    /// Carries over what came late, then removes the tables that are no longer used and that are permitted by name. A
    /// late write that cannot be carried, or that nobody can see any more, stops it once; a table that programs still
    /// write to stays.
    pub async fn finish(
        &self,
        permissions: &Permissions,
        options: &Options,
        watch: &mut dyn MigrationWatch,
    ) -> Result<Outcome, Error> {
        let mut states = self.states().await?;
        if let Some((_, state)) = states.iter().find(|(pair, state)| pair.unused(state.phase).is_none()) {
            return Err(Error::NotAllowed(format!(
                "the migration to {} is {}: go on with it, or roll it back",
                state.target,
                state.phase.name()
            )));
        }
        let mut outcome = Outcome { is_done: true, ..Outcome::default() };
        for (pair, state) in &mut states {
            let Some(unused) = pair.unused(state.phase) else { continue };
            if !permissions.allows(unused.table().as_str()) {
                outcome.is_done = false;
                continue;
            }
            let way = if state.phase == Phase::Switched { Way::Forward } else { Way::Back };
            if unused.is_there().await? {
                if state.verified.is_some() {
                    let mut late = Outcome::default();
                    let ended = self.carry_late(pair, state, way, options, &mut *watch, &mut late).await?;
                    let stays = ended != Ended::Done || late.has_losses();
                    outcome.add(late);
                    if ended == Ended::Stopped {
                        outcome.is_done = false;
                        break;
                    }
                    if stays {
                        outcome.is_done = false;
                        continue;
                    }
                }
                // Who has taken it over meanwhile, to roll it back perhaps, still has the table.
                state.save(&self.to).await?;
                destroy(unused).await?;
            }
            let (used, is_stream_ours) = match way {
                Way::Forward => (&pair.new, state.streams.1),
                Way::Back => (&pair.old, state.streams.0),
            };
            clear(used, [MIGRATING_TAG, SUPERSEDED_TAG, KEEP_TAG]).await?;
            if is_stream_ours {
                let said = used.cores().first().and_then(|core| core.table().stream);
                stream::show(used.store(), used.table(), said).await?;
            }
            state.remove(&self.to).await?;
            outcome.removed.push(unused.table().clone());
        }
        Ok(outcome.with(states))
    }

    /// What is known of each table's migration. One that is finished is known no more.
    async fn states(&self) -> Result<Vec<(&Pair, Checkpoint)>, Error> {
        let mut states = Vec::new();
        for pair in self.moving() {
            states.extend(self.state(pair).await?.map(|state| (pair, state)));
        }
        if states.is_empty() {
            let targets: Vec<&str> = self.moving().map(|pair| pair.new.table().as_str()).collect();
            return Err(Error::NotAllowed(format!(
                "{} knows of no migration to {}: begin one with `larder migrate`",
                self.to.place(),
                targets.join(", ")
            )));
        }
        Ok(states)
    }

    /// What is known of a table's migration, if it is from this table of this store.
    async fn state(&self, pair: &Pair) -> Result<Option<Checkpoint>, Error> {
        let state = Checkpoint::load(&self.to, pair.new.table()).await?;
        let (source, place) = (pair.old.table(), pair.old.store().place());
        match state {
            Some(state) if state.source != *source || state.source_place != place => {
                Err(Error::NotAllowed(format!(
                    "{} is made from {} of {}, and not from {source} of {place}: name that store and its schema, or \
                     finish that migration first",
                    state.target, state.source, state.source_place
                )))
            }
            state => Ok(state),
        }
    }

    /// The tables that are not done with: of several, one may be finished before the others.
    async fn unfinished(&self) -> Result<Vec<&Pair>, Error> {
        let (mut pairs, mut is_known) = (Vec::new(), false);
        for pair in self.moving() {
            let has_state = self.state(pair).await?.is_some();
            is_known |= has_state;
            if has_state || pair.old.is_there().await? || !pair.new.is_there().await? {
                pairs.push(pair);
            }
        }
        Ok(if is_known { pairs } else { self.moving().collect() })
    }

    /// The state of a table's migration, which may be that it begins now.
    async fn begun(&self, pair: &Pair) -> Result<Checkpoint, Error> {
        let (source, target) = (pair.old.table().clone(), pair.new.table().clone());
        let known = self.state(pair).await?;
        let (number, streams) = match known {
            Some(state) if state.phase == Phase::Returning => {
                return Err(Error::NotAllowed(format!(
                    "{target} is being rolled back: go on with that by `larder migrate rollback`"
                )));
            }
            Some(state) if state.phase == Phase::Returned => (state.number, state.streams),
            Some(state) => return Ok(state),
            None => (0, (false, false)),
        };
        if !pair.old.is_there().await? {
            return Err(store::Error::NoTable { table: source }.into());
        }
        if number == 0 && pair.new.is_there().await? {
            let scan = Scan { limit: Some(1), consistent: true, ..Scan::of(target.clone()) };
            if pair.new.store().scan(scan).await?.scanned > 0 {
                return Err(Error::NotAllowed(format!(
                    "{target} has items already that no migration wrote: remove that table, or raise the version"
                )));
            }
        }
        let now = self.to.clock().now();
        let mut state = Checkpoint {
            system: self.system.clone(),
            source_place: pair.old.store().place(),
            source,
            target,
            phase: Phase::Copying,
            began: now,
            saved: now,
            copied: 0,
            is_copied: false,
            verified: None,
            switched: None,
            keep_until: None,
            next: None,
            left_behind: None,
            place: None,
            forward: None,
            streams,
            number,
        };
        state.save(&self.to).await?;
        Ok(state)
    }

    async fn provision(&self) -> Result<(), Error> {
        let targets = self.moving().map(|pair| pair.setup.clone()).collect();
        let desired = [Desired { system: self.desired.system.clone(), setups: targets }];
        let plan = provision::plan(&desired, &self.to).await?;
        provision::apply(&plan, &self.to, &Permissions::default(), &mut Silent).await?;
        Ok(())
    }

    /// Notes that a stream is followed, and whether it has to be switched for that, before it is.
    async fn watch_stream(&self, pair: &Pair, state: &mut Checkpoint, way: Way) -> Result<(), Error> {
        let (side, other) = (pair.source(way), pair.target(way));
        tag(side, [(MIGRATING_TAG, other.table().as_str())]).await?;
        if stream::unfit(side.store(), side.table()).await?.is_some() {
            match way {
                Way::Forward => state.streams.0 = true,
                Way::Back => state.streams.1 = true,
            }
            state.save(&self.to).await?;
        }
        Ok(())
    }

    async fn running<'a>(
        &self,
        pair: &Pair,
        state: Checkpoint,
        way: Way,
        options: &Options,
        watch: &'a mut dyn MigrationWatch,
    ) -> Result<Run<'a>, Error> {
        let (source, target) = match way {
            Way::Forward => (pair.old.clone(), pair.new.clone()),
            Way::Back => (pair.new.clone(), pair.old.clone()),
        };
        let converter =
            |from: &Side, to: &Side| Converter::new(from.cores().to_vec(), to.cores().to_vec(), state.began);
        let late = match state.phase {
            Phase::Copying | Phase::Returning => false,
            Phase::Switched | Phase::Returned => true,
        };
        let expected = census::size(source.store(), source.table()).await?.map_or(0, |size| size.items);
        let carrier = Carrier {
            way,
            forward: converter(&pair.old, &pair.new),
            converter: converter(&source, &target),
            source,
            target,
            late,
            notes: parking_lot::Mutex::new(Notes::default()),
            hold: Hold::new(self.to.clone(), &state),
            others: parking_lot::Mutex::default(),
        };
        let (home, skips) = (self.to.clone(), options.skip_unconverted);
        Ok(Run { carrier, state, home, watch, skips, expected, others: None, is_unseen: false })
    }

    async fn carry_late(
        &self,
        pair: &Pair,
        state: &mut Checkpoint,
        way: Way,
        options: &Options,
        watch: &mut dyn MigrationWatch,
        outcome: &mut Outcome,
    ) -> Result<Ended, Error> {
        let mut run = self.running(pair, state.clone(), way, options, watch).await?;
        let ended = run.late().await?;
        *state = run.state.clone();
        let table = run.carrier.source.table();
        if run.is_unseen {
            outcome.unseen.push(table.clone());
        }
        if ended == Ended::Busy {
            outcome.busy.push(table.clone());
        }
        outcome.take(run.carrier.notes.into_inner());
        Ok(ended)
    }

    async fn switch(&self, state: &mut Checkpoint, phase: Phase) -> Result<(), Error> {
        let now = self.to.clock().now();
        state.phase = phase;
        (state.switched, state.keep_until) = (Some(now), Some(now.plus(self.keep)));
        state.save(&self.to).await
    }
}

/// What the stream of a table shows that has to be switched so that it can be followed. None: it is off, or fit for that.
async fn switched(side: &Side) -> Result<Option<StreamView>, Error> {
    match side.is_there().await? {
        true => Ok(stream::unfit(side.store(), side.table()).await?.flatten()),
        false => Ok(None),
    }
}
