//! `larder migrate`: from the old revision of a schema to the new one, or from one store to another.
//!
//! The plan, with its price, is shown and confirmed before anything is done. The first Ctrl-C ends it after the page
//! under way, the second at once; either way running it again goes on where it was, on any machine.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use larder::migrate::{self, Checkpoint, Event, Migration, MigrationWatch, Need, Options, Outcome, Phase};
use larder::price::Units;
use larder::provision::Permissions;
use larder::store::STORE_VARIABLE;
use larder::{Address, Error, Schema, Store};
use larder_model::TableName;
use larder_schema::Change;
use serde_json::{Value as Json, json};

use super::{apply, plan};
use crate::data::{lines, moment, system_at, told};
use crate::history::{self, Past};
use crate::{held, project, terminal};

/// Records that are named on a screen.
const NAMED_MAX: usize = 20;

/// Move records to the next version of their tables, or to another store
///
/// Copies while programs write, carries over what they write, compares both sides, and says when programs of the new
/// schema may be deployed. A program finds its table by its schema, so that is the switch. The old tables are kept.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Migrate {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, Subcommand)]
enum Action {
    Status(Status),
    Rollback(Run),
    Finish(Finish),
}

/// Show the migrations that a store knows of
#[derive(Debug, Args)]
struct Status {
    /// Where they go to: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    store: Address,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Carry back what was written since the switch, so that programs of the old schema can go on
#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    target: Target,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Leave behind what cannot be converted, and add it to this file
    #[arg(long, value_name = "FILE")]
    skip_invalid: Option<PathBuf>,
}

/// Remove the tables that are no longer used
#[derive(Debug, Args)]
struct Finish {
    #[command(flatten)]
    target: Target,
    /// Destroy this table
    #[arg(long, value_name = "TABLE")]
    allow_destroy: Vec<String>,
}

/// Which system, from what, and where.
#[derive(Debug, Args)]
struct Target {
    /// The system, or its file [default: the one there is]
    #[arg(value_name = "SYSTEM")]
    system: Option<String>,
    /// The schema that is deployed: a file, or a git revision such as HEAD~1 [default with --to: the same]
    #[arg(long, value_name = "FILE|GIT_REV", required_unless_present = "to")]
    from: Option<String>,
    /// Where the tables are: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    store: Address,
    /// Where they are to be [default: the same store]
    #[arg(long, value_name = "STORE")]
    to: Option<Address>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Both schemas, and what a person calls the old one.
struct Schemas {
    old: Schema,
    new: Schema,
    past: String,
}

impl Migrate {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        match self.action {
            None => self.run.forward(),
            Some(Action::Status(status)) => status.run(),
            Some(Action::Rollback(run)) => run.back(),
            Some(Action::Finish(finish)) => finish.run(),
        }
    }
}

impl Target {
    fn schemas(&self) -> Result<Schemas, String> {
        let path = match &self.system {
            Some(name) => project::named(name)?,
            None => project::only()?,
        };
        let new = system_at(&path)?;
        let Some(from) = &self.from else {
            return Ok(Schemas { old: new.clone(), new, past: path.display().to_string() });
        };
        let from = from.strip_prefix("git:").unwrap_or(from);
        let Some(Past { name, loaded }) = history::load(&path, from)? else {
            return Err(format!(
                "there was no {} in {from}: there is nothing to migrate from",
                path.display()
            ));
        };
        let old = terminal::sound(loaded).ok_or_else(|| format!("{name} has errors: nothing was done"))?;
        Ok(Schemas { old, new, past: name })
    }

    /// On the stores as they are; nothing is made.
    async fn look(&self, schemas: &Schemas) -> Result<Migration, Error> {
        self.on(
            schemas,
            held::look(&self.store).await?,
            match self.other() {
                Some(to) => Some(held::look(to).await?),
                None => None,
            },
        )
    }

    async fn open(&self, schemas: &Schemas) -> Result<Migration, Error> {
        self.on(
            schemas,
            held::open(&self.store).await?,
            match self.other() {
                Some(to) => Some(held::open(to).await?),
                None => None,
            },
        )
    }

    fn on(&self, schemas: &Schemas, from: Store, to: Option<Store>) -> Result<Migration, Error> {
        let to = to.unwrap_or_else(|| from.clone());
        Migration::new((schemas.old.clone(), from), (schemas.new.clone(), to), project::environment())
    }

    fn other(&self) -> Option<&Address> {
        self.to.as_ref().filter(|to| **to != self.store)
    }

    fn told(&self, error: &Error) -> String {
        told(&self.store, error)
    }

    /// The command with what it needs, for people to run next.
    fn command(&self, words: &str) -> String {
        let mut text = format!("larder migrate{words}");
        if let Some(word) = &self.system {
            let _ = write!(text, " {word}");
        }
        if let Some(from) = &self.from {
            let _ = write!(text, " --from {from}");
        }
        if self.store != Address::default() {
            let _ = write!(text, " --store {}", self.store);
        }
        if let Some(to) = self.other() {
            let _ = write!(text, " --to {to}");
        }
        text
    }
}

impl Run {
    fn forward(self) -> Result<ExitCode, String> {
        let target = &self.target;
        let schemas = target.schemas()?;
        let runtime = plan::runtime()?;
        let looked = runtime.block_on(async {
            let migration = target.look(&schemas).await?;
            let need = migration.need();
            let plan = if need == Need::Copy { Some(migration.plan().await?) } else { None };
            Ok((need, migration.changes, plan))
        });
        let (need, changes, shown) = looked.map_err(|error: Error| target.told(&error))?;
        let Some(shown) = shown else { return self.no_copy(&schemas, need, &changes) };
        if !target.json {
            terminal::print(&shown.to_string())?;
        }
        if !self.yes && !apply::confirmed("Migrate?")? {
            terminal::print("Nothing was changed.\n")?;
            return Ok(ExitCode::FAILURE);
        }
        let outcome = runtime.block_on(async {
            let mut progress = Progress::new();
            let migration = target.open(&schemas).await?;
            let outcome = migration.run(&self.options(), &mut progress).await;
            progress.bar.finish_and_clear();
            outcome
        });
        let outcome = outcome.map_err(|error| self.cut_off(&error, ""))?;
        self.tell(&outcome, &schemas.old, "")
    }

    fn back(self) -> Result<ExitCode, String> {
        let target = &self.target;
        let schemas = target.schemas()?;
        let runtime = plan::runtime()?;
        let shown = runtime.block_on(async { target.look(&schemas).await?.plan().await });
        let shown = shown.map_err(|error: Error| target.told(&error))?;
        if !target.json {
            terminal::print(&losses(&shown))?;
        }
        if !self.yes && !apply::confirmed("Roll back?")? {
            terminal::print("Nothing was changed.\n")?;
            return Ok(ExitCode::FAILURE);
        }
        let outcome = runtime.block_on(async {
            let mut progress = Progress::new();
            let migration = target.open(&schemas).await?;
            let outcome = migration.rollback(&self.options(), &mut progress).await;
            progress.bar.finish_and_clear();
            outcome
        });
        let outcome = outcome.map_err(|error| self.cut_off(&error, " rollback"))?;
        self.tell(&outcome, &schemas.new, " rollback")
    }

    fn options(&self) -> Options {
        Options { skip_unconverted: self.skip_invalid.is_some() }
    }

    fn cut_off(&self, error: &Error, words: &str) -> String {
        let next = self.target.command(words);
        format!("{}\nWhat was done stays: `{next}` continues from there.", self.target.told(error))
    }

    fn no_copy(&self, schemas: &Schemas, need: Need, changes: &[Change]) -> Result<ExitCode, String> {
        let system = &schemas.new.system;
        if self.target.json {
            let (word, version) = match need {
                Need::Nothing => ("nothing", None),
                Need::Apply => ("apply", None),
                Need::Version(version) => ("version", Some(version)),
                Need::Copy => ("copy", None),
            };
            terminal::print(&format!("{:#}\n", json!({"done": false, "need": word, "version": version})))?;
        } else {
            let mut text = String::new();
            for change in changes {
                let word = if change.is_breaking() { "breaking" } else { "compatible" };
                let _ = writeln!(text, "{word:10}  {}: {}", change.path, change.what);
            }
            let _ = match need {
                Need::Nothing => {
                    writeln!(text, "{system} means what it meant in {}: nothing to migrate", schemas.past)
                }
                Need::Apply | Need::Copy => writeln!(
                    text,
                    "What is stored can be used as it is, and nothing is copied: `larder apply` does the rest"
                ),
                Need::Version(version) => writeln!(
                    text,
                    "The tables would keep their names, and hold both: write `version {version}` in the schema, and \
                     new tables are made beside the old ones"
                ),
            };
            terminal::print(&text)?;
        }
        Ok(if matches!(need, Need::Version(_)) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Says what was done and what comes next; writes down what was left behind.
    fn tell(&self, outcome: &Outcome, schema: &Schema, words: &str) -> Result<ExitCode, String> {
        if let Some(path) = self.skip_invalid.as_ref().filter(|_| !outcome.unconverted.is_empty()) {
            let kept = outcome.unconverted.iter().map(|one| lines::write(schema, &one.stored, &[]) + "\n");
            keep(path, &kept.collect::<String>())
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        let text = if self.target.json {
            format!("{:#}\n", outcome_json(outcome))
        } else {
            let mut text = outcome_text(outcome);
            let is_switched = |state: &Checkpoint| state.phase == Phase::Switched;
            let has_not_begun = words == " rollback" && outcome.tables.iter().any(is_switched);
            if !outcome.is_done && !outcome.unconverted.is_empty() {
                let _ = writeln!(
                    text,
                    "Nothing was switched. Mend them where they are, or leave them behind with --skip-invalid FILE; \
                     then `{}` goes on",
                    self.target.command(words)
                );
            } else if has_not_begun && (!outcome.late.is_empty() || !outcome.unseen.is_empty()) {
                let _ = writeln!(
                    text,
                    "Nothing is carried back yet. Look at that first; `{}` goes on, and what the new tables have \
                     replaces it",
                    self.target.command(words)
                );
            } else if !outcome.is_done {
                let _ = writeln!(text, "Stopped; `{}` continues from there", self.target.command(words));
            } else {
                self.next_steps(&mut text, outcome);
            }
            text
        };
        terminal::print(&text)?;
        Ok(if outcome.is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn next_steps(&self, text: &mut String, outcome: &Outcome) {
        let command = |words: &str| self.target.command(words);
        let _ = match outcome.tables.first().map(|state| state.phase) {
            Some(Phase::Switched) => writeln!(
                text,
                "Deploy programs of the new schema. What those of the old one still write is carried over by\n  {}\n\
                 Back, with all that was written:\n  {}\nAt the end, to remove the old tables:\n  {}",
                command(""),
                command(" rollback"),
                command(" finish"),
            ),
            Some(Phase::Returned) => writeln!(
                text,
                "Deploy programs of the old schema. What those of the new one still write is carried back by\n  {}\n\
                 At the end, to remove the new tables:\n  {}",
                command(" rollback"),
                command(" finish"),
            ),
            Some(Phase::Copying | Phase::Returning) | None => Ok(()),
        };
    }
}

impl Finish {
    fn run(self) -> Result<ExitCode, String> {
        let schemas = self.target.schemas()?;
        let permissions = Permissions(self.allow_destroy.iter().cloned().collect());
        let done = plan::runtime()?.block_on(async {
            let migration = self.target.open(&schemas).await?;
            let unused = migration.superseded().await?;
            let outcome = migration.finish(&permissions, &Options::default(), &mut Progress::new()).await?;
            Ok((unused, outcome))
        });
        let (unused, outcome) = done.map_err(|error: Error| self.target.told(&error))?;
        if self.target.json {
            terminal::print(&format!("{:#}\n", outcome_json(&outcome)))?;
        } else {
            let mut text = outcome_text(&Outcome { tables: Vec::new(), ..outcome.clone() });
            for (table, until) in &unused {
                let until =
                    until.map_or_else(|| "for now".to_owned(), |until| format!("until {}", moment(until)));
                let _ = if outcome.removed.contains(table) {
                    writeln!(text, "{table} is removed")
                } else if outcome.busy.contains(table) {
                    writeln!(text, "{table} stays: move the programs that write to it, then run this again")
                } else if permissions.allows(table.as_str()) {
                    writeln!(text, "{table} stays: look at what came late, then run this again")
                } else {
                    let is_it =
                        |state: &&Checkpoint| state.phase == Phase::Switched && state.source == *table;
                    let left = outcome.tables.iter().find(is_it).and_then(|state| state.left_behind);
                    let left = left.map(|left| format!(" with {}", left_behind(left))).unwrap_or_default();
                    writeln!(text, "{table} is kept {until}; --allow-destroy {table} removes it{left}")
                };
            }
            terminal::print(&text)?;
        }
        Ok(if outcome.is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl Status {
    fn run(self) -> Result<ExitCode, String> {
        let known =
            plan::runtime()?.block_on(async { migrate::known(&held::look(&self.store).await?).await });
        let known = known.map_err(|error| told(&self.store, &error))?;
        let text = if self.json {
            format!("{:#}\n", Json::Array(known.iter().map(state_json).collect()))
        } else if known.is_empty() {
            format!("{} knows of no migration\n", self.store)
        } else {
            known.iter().map(state_text).collect()
        };
        terminal::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Adds to what was left behind before, which may be all that is left of it. The records are for nobody else to read.
fn keep(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

fn left_behind(records: u64) -> String {
    let records = usize::try_from(records).unwrap_or(usize::MAX);
    format!("{} that the new schema has no entity for", terminal::count(records, "record"))
}

/// What a rollback cannot carry, as far as the schemas tell.
fn losses(plan: &migrate::MigrationPlan) -> String {
    let is_new = |change: &&Change| change.what.ends_with("is new");
    let mut text = String::new();
    for change in plan.changes.iter().filter(is_new) {
        let _ = writeln!(
            text,
            "not carried back: {} ({}); the old schema has no place for it",
            change.path, change.what
        );
    }
    for line in plan.tables.iter().filter_map(|table| table.stream_text(true)) {
        let _ = writeln!(text, "{line}");
    }
    // Both sides are read to be compared, and only what differs is written.
    let read = plan.tables.iter().map(|table| table.units.read).sum::<f64>() * 2.0 / 3.0;
    let _ = writeln!(
        text,
        "What was written since the switch is carried back; a record nobody changed stays as it was.\n\
         Reading both sides takes {}, on DynamoDB.",
        Units { read: read.ceil(), write: 0.0 }
    );
    text
}

fn outcome_text(outcome: &Outcome) -> String {
    let mut text: String = outcome.tables.iter().map(state_text).collect();
    for one in outcome.unconverted.iter().take(NAMED_MAX) {
        let _ = writeln!(text, "cannot be converted: {} of {}: {}", one.name, one.table, one.cause);
    }
    if outcome.unconverted.len() > NAMED_MAX {
        let _ = writeln!(text, "and {} more", outcome.unconverted.len() - NAMED_MAX);
    }
    if outcome.late_carried > 0 {
        let carried = usize::try_from(outcome.late_carried).unwrap_or(usize::MAX);
        let _ = writeln!(text, "{} carried over", terminal::count(carried, "late write"));
    }
    for late in outcome.late.iter().take(NAMED_MAX) {
        let _ = writeln!(
            text,
            "too late: {} was written, and {} has been changed since",
            late.source, late.target
        );
    }
    for table in &outcome.unseen {
        let _ =
            writeln!(text, "{table}: its stream no longer shows what was written to it since the last look");
    }
    for table in &outcome.busy {
        let _ =
            writeln!(text, "{table}: programs still write to it; what comes is carried over the next time");
    }
    text
}

fn state_text(state: &Checkpoint) -> String {
    let mut text = format!("{} -> {}: {}", state.source, state.target, state.phase.name());
    let _ = match (state.phase, state.verified) {
        (Phase::Copying, _) => {
            write!(text, ", {} items copied, last at {}", state.copied, moment(state.saved))
        }
        (_, Some((items, checksum))) => {
            write!(text, ", {items} items equal on both sides, checksum {checksum:016x}")
        }
        (_, None) => Ok(()),
    };
    if let (Phase::Switched, Some(left)) = (state.phase, state.left_behind) {
        let _ = write!(text, "; left behind: {}", left_behind(left));
    }
    if let (Phase::Switched | Phase::Returned, Some(until)) = (state.phase, state.keep_until) {
        let unused = if state.phase == Phase::Switched { &state.source } else { &state.target };
        let _ = write!(text, "; {unused} is kept until {}", moment(until));
    }
    text + "\n"
}

fn state_json(state: &Checkpoint) -> Json {
    json!({
        "system": state.system,
        "source": {"store": state.source_place, "table": state.source.as_str()},
        "target": state.target.as_str(),
        "phase": state.phase.name(),
        "began": moment(state.began),
        "saved": moment(state.saved),
        "copied": state.copied,
        "left_behind": state.left_behind.unwrap_or(0),
        "verified": state.verified.map(|(items, checksum)| json!({"items": items, "checksum": format!("{checksum:016x}")})),
        "switched": state.switched.map(moment),
        "keep_until": state.keep_until.map(moment),
    })
}

fn outcome_json(outcome: &Outcome) -> Json {
    let unconverted = outcome
        .unconverted
        .iter()
        .map(|one| json!({"table": one.table.as_str(), "record": one.name, "cause": one.cause}));
    let names = |tables: &[TableName]| tables.iter().map(ToString::to_string).collect::<Vec<_>>();
    let late = outcome.late.iter().map(|late| json!({"source": late.source, "target": late.target}));
    json!({
        "done": outcome.is_done,
        "tables": outcome.tables.iter().map(state_json).collect::<Vec<_>>(),
        "unconverted": unconverted.collect::<Vec<_>>(),
        "late": late.collect::<Vec<_>>(),
        "late_carried": outcome.late_carried,
        "unseen": names(&outcome.unseen),
        "busy": names(&outcome.busy),
        "removed": names(&outcome.removed),
    })
}

/// A bar on a terminal.
struct Progress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Progress {
    fn new() -> Self {
        Self { bar: terminal::progress(Some(0), "items"), stop: apply::watch_interrupts("page") }
    }
}

impl MigrationWatch for Progress {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Copied { table, items, of } => {
                self.bar.set_length(of);
                self.bar.set_position(items);
                self.bar.set_message(format!("items of {table} copied"));
            }
            Event::Followed { table, changes } => {
                self.bar
                    .set_message(format!("{} of {table} carried over", terminal::count(changes, "change")));
            }
            Event::Comparing { table } => self.bar.set_message(format!("comparing {table}")),
            Event::Verified { table, .. } => self.bar.set_message(format!("{table} is equal")),
            Event::Restarted { table } => {
                self.bar.set_message(format!("{table} was left alone for too long, and is copied again"));
            }
        }
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
