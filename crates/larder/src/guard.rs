//! Nobody writes what the schema does not allow: the schema's side of the engine's guard.
//!
//! [`Rules`] are the checks of some systems, by the tables they keep their data in; a table that no system declares is
//! left alone. A [`Guard`] holds them against every write, whoever sends it, and either refuses what breaks them or
//! lets it through. Either way it is counted by table and rule, and the first of each kind is logged. What a restore
//! brings back is counted and logged alone.
//!
//! A guard never changes. For other rules another takes its place ([`larder_engine::Engine::set_guard`]), with the same
//! [`Tally`], and no write is judged by half of each.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use larder_engine::{Proposal, WriteKind};
use larder_model::TableName;
use larder_model::metrics::Exposition;
use larder_schema::{Checker, Environment, EnvironmentError, Schema, SourceFile, Violation};
use parking_lot::Mutex;

/// How many violations of one item are told. The rest is counted.
const TOLD_MAX: usize = 50;
/// Kinds that are logged. Names of attributes that nobody knows are a client's to choose.
const LOGGED_MAX: usize = 1000;

/// What the items of some tables must be.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    tables: HashMap<TableName, Arc<TableRules>>,
}

#[derive(Debug)]
struct TableRules {
    system: String,
    checker: Checker,
}

/// Why a schema's rules cannot be added to others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A parameter of the schema cannot be read from the environment.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// Two systems declare the same table.
    #[error("table {table} is declared by two systems, {} and {}", systems[0], systems[1])]
    Twice {
        /// The table.
        table: TableName,
        /// Who declare it.
        systems: [String; 2],
    },
}

impl Rules {
    /// Adds the tables of a system, as they are called in an environment. The files are those it was loaded from; they
    /// tell where a rule stands.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// use larder::guard::Rules;
    /// use larder::Environment;
    ///
    /// let mut rules = Rules::default();
    /// rules.add(&library::schema().clone().into(), &Environment::new(), &[])?;
    /// assert_eq!(rules.tables().map(|table| table.as_str()).collect::<Vec<_>>(), ["library"]);
    /// # Ok::<(), larder::guard::RulesError>(())
    /// ```
    pub fn add(
        &mut self,
        schema: &Arc<Schema>,
        environment: &Environment,
        files: &[SourceFile],
    ) -> Result<(), RulesError> {
        for table in &schema.tables {
            let name = schema.table_name(table, environment)?;
            let Some(checker) = Checker::new(Arc::clone(schema), &table.name, files) else { continue };
            let system = schema.system.clone();
            if let Some(known) = self.tables.get(&name).filter(|known| known.system != system) {
                return Err(RulesError::Twice { table: name, systems: [known.system.clone(), system] });
            }
            self.tables.insert(name, Arc::new(TableRules { system, checker }));
        }
        Ok(())
    }

    /// The tables they are for, in no order.
    pub fn tables(&self) -> impl Iterator<Item = &TableName> {
        self.tables.keys()
    }

    /// The check of a table's items, if a system declares it.
    pub fn checker(&self, table: &TableName) -> Option<&Checker> {
        self.checked(table).map(|rules| &rules.checker)
    }

    /// Tables of one name are held against one schema, in whatever space they are.
    fn checked(&self, table: &TableName) -> Option<&Arc<TableRules>> {
        self.tables.get(table.as_str())
    }
}

/// What is done with a write that breaks the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is refused.
    #[default]
    Enforce,
    /// It is made, counted and logged.
    Report,
}

/// Holds every write against the rules of its table.
#[derive(Clone, Debug)]
pub struct Guard {
    rules: Arc<Rules>,
    mode: Mode,
    tally: Arc<Tally>,
}

impl Guard {
    /// A guard that holds every write against these rules, and counts what breaks them.
    pub fn new(rules: Arc<Rules>, mode: Mode, tally: Arc<Tally>) -> Self {
        Self { rules, mode, tally }
    }
}

impl larder_engine::Guard for Guard {
    fn judge(&self, write: &Proposal<'_>) -> Result<(), String> {
        let (Some(rules), Some(after)) = (self.rules.checked(write.table), write.after) else {
            return Ok(());
        };
        let checker = &rules.checker;
        let violations = checker.check(write.before, after, write.now);
        if violations.is_empty() {
            return Ok(());
        }
        self.tally.note(write, checker, &violations, self.mode);
        match self.mode {
            Mode::Enforce => Err(refusal(write.table, checker, &violations)),
            Mode::Report => Ok(()),
        }
    }
}

/// What is wrong with an item, for whoever sent it: everything at once, each with its place in the schema.
fn refusal(table: &TableName, checker: &Checker, violations: &[Violation]) -> String {
    let mut text = format!("The item is not what the schema allows in {table}: ");
    for (at, violation) in violations.iter().take(TOLD_MAX).enumerate() {
        let parted = if at == 0 { "" } else { "; " };
        let _ = write!(text, "{parted}{}", told(checker, violation));
    }
    if let Some(more) = violations.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
        let _ = write!(text, "; and {more} more");
    }
    text
}

/// A violation, with the place of its rule: `Menu.week: must be in 1..=53, and it is 54 (check, lunch.larder:33)`.
pub fn told(checker: &Checker, violation: &Violation) -> String {
    let rule = violation.fault.name();
    match checker.place(violation) {
        Some(place) => format!("{violation} ({rule}, {place})"),
        None => format!("{violation} ({rule})"),
    }
}

/// What guards have found since the store was opened.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    violations: BTreeMap<(TableName, &'static str), u64>,
    /// The kinds that were logged: what was broken, and where that is in the schema.
    logged: HashSet<(TableName, &'static str, String)>,
    /// How often schemas were read again: taken, and wrong.
    reads: [u64; 2],
}

impl Tally {
    fn note(&self, write: &Proposal<'_>, checker: &Checker, violations: &[Violation], mode: Mode) {
        let mut first = Vec::new();
        {
            let mut counts = self.0.lock();
            for violation in violations {
                let (table, rule) = (write.table.clone(), violation.fault.name());
                *counts.violations.entry((table.clone(), rule)).or_default() += 1;
                let place = checker.place(violation).unwrap_or(&violation.path).to_owned();
                if counts.logged.len() < LOGGED_MAX && counts.logged.insert((table, rule, place)) {
                    first.push(violation);
                }
            }
        }
        for violation in first {
            tracing::warn!(
                table = %write.table,
                rule = violation.fault.name(),
                kept = mode == Mode::Report || write.kind == WriteKind::Restore,
                "a write breaks the schema: {}; more of the same are counted and not logged",
                told(checker, violation)
            );
        }
    }

    /// Counts that schemas were read again, and whether they were taken.
    pub fn read(&self, taken: bool) {
        self.0.lock().reads[usize::from(!taken)] += 1;
    }

    /// How many violations of each rule there were in each table.
    pub fn counts(&self) -> BTreeMap<(TableName, &'static str), u64> {
        self.0.lock().violations.clone()
    }

    /// The same as Prometheus' text.
    pub fn expose(&self, mode: Mode) -> String {
        let mut text = Exposition::default();
        text.gauge(
            "larder_schema_enforced",
            "1 when what breaks the schema is refused, 0 when it is let through.",
        )
        .sample(&[], u8::from(mode == Mode::Enforce));
        let mut counter = text.counter(
            "larder_schema_violations_total",
            "What was wrong with items that clients wrote, by the rule it breaks.",
        );
        for ((table, rule), count) in self.counts() {
            counter.sample(&[("table", table.qualified()), ("rule", rule)], count);
        }
        let reads = self.0.lock().reads;
        let mut counter = text.counter(
            "larder_schema_reads_total",
            "How often schemas were read again, and whether they were taken or wrong.",
        );
        for (outcome, count) in ["taken", "wrong"].into_iter().zip(reads) {
            counter.sample(&[("outcome", outcome)], count);
        }
        text.finish()
    }
}
