//! What a migration tells: what it would do and cost, what happens on the way, and what it came to.

use std::fmt;
use std::time::Duration;

use larder_model::{StreamView, TableName, UnixTime};
use larder_schema::{Change, Impact};

use super::Checkpoint;
use super::carry::Notes;
use super::pair::Pair;
use crate::Stored;
use crate::entity::timestamp;
use crate::price::{self, Units};
use crate::provision::Silent;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// What a change of the schema asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// What is stored can be used as it is: `larder apply` is enough.
    Apply,
    /// It is breaking, and the tables would be the same: the schema has to say this version.
    Version(u32),
    /// Items have to be copied.
    Copy,
}

/// How to go about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Leave behind what cannot be converted.
    pub skip_unconverted: bool,
}

/// A record that cannot become one of the other schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Unconverted {
    /// The table it is in.
    pub table: TableName,
    /// Its entity and key.
    pub name: String,
    /// Why not.
    pub cause: String,
    /// All of it.
    pub stored: Stored,
}

/// A write to the table that is no longer used, to a record that was changed in the other one since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// Its key there.
    pub source: String,
    /// The key of the record that stayed as it is.
    pub target: String,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// All tables are where they should be.
    pub is_done: bool,
    /// The migrations as they are now, a table each.
    pub tables: Vec<Checkpoint>,
    /// Records that cannot be converted. Without [`Options::skip_unconverted`] they are why it is not done.
    pub unconverted: Vec<Unconverted>,
    /// Writes that came too late to be carried.
    pub late: Vec<Late>,
    /// Writes to a table that is no longer used, carried over.
    pub late_carried: u64,
    /// Tables whose late writes could not be looked at: nobody did for longer than a stream lasts.
    pub unseen: Vec<TableName>,
    /// Tables that are no longer used, and were still being written to when this ended.
    pub busy: Vec<TableName>,
    /// Tables that were removed.
    pub removed: Vec<TableName>,
}

/// What would be done, what it costs and how long it takes.
#[derive(Clone, Debug)]
pub struct MigrationPlan {
    /// Where from, as a person would say it.
    pub from: String,
    /// Where to.
    pub to: String,
    /// What differs between the schemas.
    pub changes: Vec<Change>,
    /// What becomes of each table.
    pub tables: Vec<PlannedTable>,
    /// Old tables that nothing takes over.
    pub left: Vec<String>,
    /// Entities that the new schema does not have, each after its old table.
    pub gone: Vec<(String, String)>,
    /// How long the old tables are kept.
    pub keep: Duration,
}

/// What becomes of one table.
#[derive(Clone, Debug)]
pub struct PlannedTable {
    /// The old table.
    pub source: TableName,
    /// The new one.
    pub target: TableName,
    /// Items, as far as the store knows.
    pub items: u64,
    /// Their size.
    pub bytes: u64,
    /// What reading, writing and verifying them takes.
    pub units: Units,
    /// How long that takes, about.
    pub lasting: Duration,
    /// What has been done already.
    pub state: Option<Checkpoint>,
    /// What the streams of the old table and of the new show, where that has to change before they can be followed: the
    /// old one's to migrate, the new one's to go back.
    pub streams: [Option<StreamView>; 2],
}

impl PlannedTable {
    /// What becomes of the stream of the old table, or with `back` of the new one, if somebody who reads it has to know.
    pub fn stream_text(&self, back: bool) -> Option<String> {
        let view = match self.streams[usize::from(back)]? {
            StreamView::KeysOnly => "keys",
            StreamView::NewImage => "new",
            StreamView::OldImage => "old",
            StreamView::NewAndOldImages => "both",
        };
        let table = if back { &self.target } else { &self.source };
        Some(format!(
            "the stream of {table} is switched from `{view}` to `both`, and back at the end: who reads it goes on with a \
             new stream each time"
        ))
    }
}

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are what a variant says happened, and to which table")]
pub enum Event<'a> {
    /// Items were copied: so many so far, of about so many.
    Copied { table: &'a TableName, items: u64, of: u64 },
    /// Changes were carried over.
    Followed { table: &'a TableName, changes: usize },
    /// Both tables are read and compared.
    Comparing { table: &'a TableName },
    /// Both tables are equal. So many groups of keys were being written to meanwhile.
    Verified { table: &'a TableName, items: u64, checksum: u64, in_motion: usize },
    /// The copy begins again: its stream no longer has all changes.
    Restarted { table: &'a TableName },
}

/// Sees what happens, and may stop it between two steps.
pub trait MigrationWatch: Send {
    /// Something happened.
    fn event(&mut self, event: Event<'_>);

    /// Whether to stop.
    fn stop(&self) -> bool {
        false
    }
}

impl MigrationWatch for Silent {
    fn event(&mut self, _event: Event<'_>) {}
}

impl Outcome {
    pub(super) fn take(&mut self, notes: Notes) {
        self.unconverted.extend(notes.unconverted.into_values());
        self.late.extend(notes.late.into_values());
        self.late_carried += notes.late_carried;
    }

    pub(super) fn add(&mut self, other: Self) {
        self.unconverted.extend(other.unconverted);
        self.late.extend(other.late);
        self.late_carried += other.late_carried;
        self.unseen.extend(other.unseen);
        self.busy.extend(other.busy);
        self.removed.extend(other.removed);
    }

    /// The same, with the tables as they are now.
    pub(super) fn with(self, states: Vec<(&Pair, Checkpoint)>) -> Self {
        Self { tables: states.into_iter().map(|(_, state)| state).collect(), ..self }
    }

    /// Something was written that is not, or may not be, on the other side.
    pub(super) fn has_losses(&self) -> bool {
        !self.late.is_empty() || !self.unconverted.is_empty() || !self.unseen.is_empty()
    }
}

impl fmt::Display for MigrationPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            let word = match change.impact {
                Impact::Compatible => "compatible",
                Impact::Breaking => "breaking",
            };
            writeln!(f, "{word:10}  {}: {}", change.path, change.what)?;
        }
        if self.from == self.to {
            writeln!(f, "Tables of {}:", self.from)?;
        } else {
            writeln!(f, "Tables from {} to {}:", self.from, self.to)?;
        }
        for table in &self.tables {
            write!(f, "  {} -> {}: ", table.source, table.target)?;
            match &table.state {
                Some(state) => writeln!(f, "{}, {} items copied", state.phase.name(), state.copied)?,
                None => writeln!(
                    f,
                    "{} items, {}; {}; about {}",
                    table.items,
                    price::size(table.bytes),
                    table.units,
                    lasting(table.lasting)
                )?,
            }
        }
        for text in self.tables.iter().filter_map(|table| table.stream_text(false)) {
            writeln!(f, "  {text}")?;
        }
        for table in &self.left {
            writeln!(f, "  {table}: nothing takes it over; it stays as it is")?;
        }
        for (table, entity) in &self.gone {
            writeln!(
                f,
                "  {entity} of {table}: gone from the schema; its records are left behind, to go with the old table"
            )?;
        }
        let all = self.tables.iter().fold(Units::default(), |all, table| Units {
            read: all.read + table.units.read,
            write: all.write + table.units.write,
        });
        writeln!(f, "All together {all}, on DynamoDB; writes meanwhile are carried over and come on top.")?;
        writeln!(f, "The old tables are kept for {} days.", self.keep.as_secs() / DAY_SECONDS)
    }
}

/// A day, as UTC has it.
pub(super) fn date(time: UnixTime) -> String {
    timestamp(time).strftime("%F").to_string()
}

fn lasting(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds < 60 => "a minute".to_owned(),
        seconds if seconds < 60 * 90 => format!("{} minutes", seconds.div_ceil(60)),
        seconds => format!("{} hours", seconds.div_ceil(60 * 60)),
    }
}
