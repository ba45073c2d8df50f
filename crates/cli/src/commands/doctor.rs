//! `larder doctor`: is everything as it has to be, and what to do where it is not.
//!
//! It looks at what is there and makes nothing, apart from one probe item a table that it removes again. A check that
//! cannot be made because an earlier one failed is left out.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use larder::probe::{self, Probe, Reached};
use larder::provision::{self, Desired, Mark, Step, TablePlan, Verdict};
use larder::store::{Feature, Lacks, STORE_VARIABLE, TableChange};
use larder::{Address, Environment, Store, price};
use larder_schema::{Diagnostic, TableSetup};
use larder_storage::Holder;
use serde_json::json;

use super::plan;
use crate::{held, http, project, terminal};

/// Less than this is worth a word.
const FREE_BYTES_MIN: u64 = 1_000_000_000;
/// TTLs and leases compare clocks of several machines.
const CLOCK_MILLIS_WARN: i64 = 2_000;
/// AWS refuses requests that are signed further off.
const CLOCK_MILLIS_MAX: i64 = 300_000;
const WHAT_WIDTH: usize = 11;
/// What to do when tables cannot be looked at.
const DESCRIBE: Option<&str> = Some("see whether the credentials may list and describe tables");

/// Check everything from the schemas to a put, a get and a delete, and say what to do about what is wrong
///
/// A probe item is put into each table, read and removed, and each step timed; it costs two write units and a read
/// unit. Exits with 1 when something fails; warnings are allowed.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The system, if not all there are
    system: Option<String>,
    /// Where the tables are: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT [env: LARDER_STORE]
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Print JSON, one check a line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    Warn,
    Fail,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let mut report = Report { json: self.json, states: Vec::new() };
        let desired = self.project(&mut report)?;
        if let Some(address) = self.address(&mut report)? {
            self.store(&mut report, &address, &desired)?;
        }
        report.end()
    }

    /// What the schemas ask for, as far as they are right.
    fn project(&self, report: &mut Report) -> Result<Vec<Desired>, String> {
        let paths = match &self.system {
            Some(name) => project::named(name).map(|path| vec![path]),
            None => project::schemas(&[]),
        };
        let paths = match paths {
            Ok(paths) => paths,
            Err(error) => {
                report.say(State::Fail, "schemas", &error, None)?;
                return Ok(Vec::new());
            }
        };
        let mut desired = Vec::new();
        for path in paths {
            desired.extend(schema(report, &path)?);
        }
        Ok(desired)
    }

    /// Which store is meant, and who says so.
    fn address(&self, report: &mut Report) -> Result<Option<Address>, String> {
        let variable = env::var(STORE_VARIABLE).ok();
        let (text, by) = match (&self.store, variable) {
            (Some(text), _) => (text.clone(), "by --store".to_owned()),
            (None, Some(text)) => (text, format!("by {STORE_VARIABLE}")),
            (None, None) => (Address::default().to_string(), "by default".to_owned()),
        };
        match text.parse::<Address>() {
            Ok(address) => {
                report.say(State::Ok, "store", &format!("{address}, {by}"), None)?;
                Ok(Some(address))
            }
            Err(error) => {
                report.say(State::Fail, "store", &format!("{by}: {error}"), None)?;
                Ok(None)
            }
        }
    }

    fn store(&self, report: &mut Report, address: &Address, desired: &[Desired]) -> Result<(), String> {
        match address {
            Address::Directory(path) => directory(report, path)?,
            Address::Memory => {}
            Address::DynamoDb { endpoint } => {
                if let Some(endpoint) = endpoint {
                    readiness(report, endpoint)?;
                }
                let home = env::var_os("HOME").map(PathBuf::from);
                let (state, seen, advice) =
                    credentials(&project::environment(), home.as_deref(), endpoint.is_some());
                report.say(state, "credentials", &seen, advice)?;
            }
        }
        plan::runtime()?.block_on(async {
            let reached = async {
                let start = Instant::now();
                let store = held::look(address).await?;
                let opened = start.elapsed();
                let reached = probe::reach(&store).await?;
                Ok((store, Reached { took: opened + reached.took, ..reached }))
            };
            match reached.await {
                Ok((store, reached)) => {
                    answered(report, reached)?;
                    tables(report, &store, desired).await
                }
                Err(error) => report.say(State::Fail, "reach", &plan::advise(address, &error), None),
            }
        })
    }
}

fn schema(report: &mut Report, path: &Path) -> Result<Option<Desired>, String> {
    let file = path.display();
    let loaded = match project::load(path) {
        Ok(loaded) => loaded,
        Err(error) => {
            report.say(State::Fail, "schema", &error, None)?;
            return Ok(None);
        }
    };
    let check = Some("`larder check` shows them");
    let Some(schema) = loaded.schema else {
        let errors = loaded.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
        report.say(State::Fail, "schema", &format!("{file}: {}", terminal::count(errors, "error")), check)?;
        return Ok(None);
    };
    match Desired::of(&schema, &project::environment()) {
        Ok(desired) => {
            let tables = terminal::count(desired.setups.len(), "table");
            let warnings = loaded.diagnostics.iter().filter(|warning| !Diagnostic::is_error(warning)).count();
            if warnings == 0 {
                report.say(State::Ok, "schema", &format!("{file}: {tables}"), None)?;
            } else {
                let seen = format!("{file}: {tables}, {}", terminal::count(warnings, "warning"));
                report.say(State::Warn, "schema", &seen, check)?;
            }
            Ok(Some(desired))
        }
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let seen = format!("{file}: {}", errors.join("; "));
            report.say(State::Fail, "schema", &seen, Some("set the variable to what the schema wants"))?;
            Ok(None)
        }
    }
}

/// Whether there is something to sign requests with. Its values are not looked at.
fn credentials(
    environment: &Environment,
    home: Option<&Path>,
    endpoint: bool,
) -> (State, String, Option<&'static str>) {
    let set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
    let ok = |seen: &str| (State::Ok, seen.to_owned(), None);
    match (set("AWS_ACCESS_KEY_ID"), set("AWS_SECRET_ACCESS_KEY")) {
        (true, true) => return ok("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are set"),
        (true, false) => {
            let seen = "AWS_ACCESS_KEY_ID is set, AWS_SECRET_ACCESS_KEY is not".to_owned();
            return (State::Fail, seen, Some("set both or neither"));
        }
        (false, _) => {}
    }
    if set("AWS_PROFILE") {
        return ok("AWS_PROFILE is set");
    }
    if endpoint {
        return ok("none are set; the endpoint is given a stand-in, which those on your own machine take");
    }
    for name in [
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ] {
        if set(name) {
            return ok(&format!("{name} is set"));
        }
    }
    let files = ["credentials", "config"].map(|name| home.map(|home| home.join(".aws").join(name)));
    if let Some(path) = files.into_iter().flatten().find(|path| path.is_file()) {
        return ok(&format!("in {}", path.display()));
    }
    let advice = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; on EC2 a role is enough";
    (State::Warn, "none are set here".to_owned(), Some(advice))
}

/// What a Larder server says of itself. Others have no such answer, and then there is nothing to say.
fn readiness(report: &mut Report, endpoint: &str) -> Result<(), String> {
    match http::get(endpoint, "/readyz") {
        Ok((200, text)) if text == "ok\n" => report.say(State::Ok, "server", "ready", None),
        Ok((503, reason)) => {
            let advice = Some("its log tells more; a restart reads the store anew");
            report.say(State::Fail, "server", &format!("not ready: {}", reason.trim()), advice)
        }
        _ => Ok(()),
    }
}

/// Whether the directory can be written, has room, and is free.
fn directory(report: &mut Report, path: &Path) -> Result<(), String> {
    if path.is_symlink() && !path.exists() {
        let advice = "make what it leads to, or remove it";
        return report.say(State::Fail, "directory", "it is a link to what is not there", Some(advice));
    }
    let ancestors = path.ancestors().map(|path| if path == Path::new("") { Path::new(".") } else { path });
    let existing = ancestors.into_iter().find(|path| path.exists()).unwrap_or(Path::new("/"));
    if let Err(error) = tempfile::tempfile_in(existing) {
        let seen = format!("{} cannot be written: {error}", existing.display());
        return report.say(
            State::Fail,
            "directory",
            &seen,
            Some("change who owns it, or choose another with --store"),
        );
    }
    let written = if path.exists() { "can be written" } else { "is not there yet, and can be made" };
    match rustix::fs::statvfs(existing) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let seen = format!("{written}, {} free", price::size(free));
            match free < FREE_BYTES_MIN {
                true => report.say(State::Warn, "directory", &seen, Some("make room before it is full"))?,
                false => report.say(State::Ok, "directory", &seen, None)?,
            }
        }
        Err(error) => {
            report.say(State::Warn, "directory", &format!("{written}, free space unknown: {error}"), None)?;
        }
    }
    let server = Holder::of(path).filter(|holder| holder.address.is_some());
    if let Some(server) = &server {
        report.say(State::Ok, "owner", &format!("{server}, and is asked there"), None)?;
    }
    for (process, name) in holders(path) {
        if server.as_ref().is_some_and(|server| server.process == process) {
            continue;
        }
        let seen = format!("process {process} ({name}) has it open");
        report.say(State::Fail, "owner", &seen, Some("wait for its end, or stop it"))?;
    }
    Ok(())
}

/// Other processes that have a file of the directory open, as far as this user may see them. Only Linux tells.
fn holders(directory: &Path) -> BTreeSet<(u32, String)> {
    let mut found = BTreeSet::new();
    let (Ok(directory), Ok(processes)) = (directory.canonicalize(), fs::read_dir("/proc")) else {
        return found;
    };
    for process in processes.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        let mut files = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        if id != std::process::id() && files.any(|file| file.starts_with(&directory) && file != directory) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.insert((id, name.trim().escape_default().to_string()));
        }
    }
    found
}

fn answered(report: &mut Report, reached: Reached) -> Result<(), String> {
    let millis = reached.took.as_secs_f64() * 1000.0;
    report.say(State::Ok, "reach", &format!("answered in {millis:.1} ms"), None)?;
    let Some(ahead) = reached.clock_millis else { return Ok(()) };
    let state = match ahead.abs() {
        0..CLOCK_MILLIS_WARN => return report.say(State::Ok, "clock", "agrees with the store's", None),
        CLOCK_MILLIS_WARN..CLOCK_MILLIS_MAX => State::Warn,
        _ => State::Fail,
    };
    let direction = if ahead > 0 { "behind" } else { "ahead of" };
    let off = humantime::format_duration(Duration::from_secs(ahead.unsigned_abs() / 1000));
    let seen = format!("{off} {direction} the store's");
    report.say(
        state,
        "clock",
        &seen,
        Some("set this machine's clock: TTLs, leases and signatures rest on it"),
    )
}

/// Each table against its schema, and a probe of it.
async fn tables(report: &mut Report, store: &Store, desired: &[Desired]) -> Result<(), String> {
    if desired.is_empty() {
        return Ok(());
    }
    let plan = match provision::plan(desired, store).await {
        Ok(plan) => plan,
        Err(error) => return report.say(State::Fail, "tables", &error.to_string(), DESCRIBE),
    };
    for table in &plan.tables {
        let store = store.at(table.region.as_deref());
        let lacks = match store.lacks().await {
            Ok(lacks) => lacks,
            Err(error) => return report.say(State::Fail, "tables", &error.to_string(), DESCRIBE),
        };
        let setups = desired.iter().flat_map(|system| &system.setups);
        let setup = setups.into_iter().find(|setup| setup.definition.name == table.name);
        let is_there = against_schema(report, table, store.is_embedded())?;
        let (Some(setup), true) = (setup, is_there) else { continue };
        settings(report, setup, table, lacks)?;
        probed(report, &probe::table(&store, setup).await)?;
    }
    Ok(())
}

/// Whether a table is what its schema says. True when it is there, and can be used.
fn against_schema(report: &mut Report, table: &TablePlan, embedded: bool) -> Result<bool, String> {
    let name = &table.name;
    // A program that opens an embedded store brings it into shape by itself.
    let differs = if embedded { State::Warn } else { State::Fail };
    let (state, seen, advice) = match table.verdict {
        Verdict::Create => (differs, format!("{name} is not there"), Some("`larder apply` makes it")),
        Verdict::Change => {
            (differs, format!("{name} is not what the schema says"), Some("`larder apply` changes it"))
        }
        Verdict::CannotChange => {
            let seen = format!("{name} cannot become what the schema says");
            (State::Fail, seen, Some("raise the schema's version"))
        }
        Verdict::Unchanged => match &table.busy {
            None => (State::Ok, format!("{name} is what the schema says"), None),
            Some(busy) => (State::Warn, format!("{name}: {busy}"), Some("wait for its end")),
        },
        Verdict::Destroy | Verdict::Retain => {
            let seen = format!("{name} is no longer in its schema");
            (State::Warn, seen, Some("`larder plan` says what may become of it"))
        }
    };
    report.say(state, "table", &seen, advice)?;
    let is_there = matches!(table.verdict, Verdict::Change | Verdict::Unchanged);
    if !is_there {
        return Ok(false);
    }
    for line in &table.lines {
        let what = format!("{name}: {}", line.what);
        let wanted = line.to.as_deref().unwrap_or_default();
        match line.mark {
            Mark::Create | Mark::Change | Mark::CannotChange => {
                let seen = match &line.from {
                    Some(from) => format!("{what} is {from}, and {wanted} is asked for"),
                    None => format!("{what} {wanted} is asked for, and not there"),
                };
                report.say(differs, "differs", &seen, Some("`larder apply` changes it"))?;
            }
            Mark::Destroy => {
                let seen = format!("{what} is not what the schema says");
                report.say(differs, "differs", &seen, Some("`larder plan` says what would be destroyed"))?;
            }
            Mark::NotPossible => {
                let note = line.note.as_deref().unwrap_or("not possible on this store");
                let advice = Some("programs work without it here; what rests on it, try on DynamoDB");
                report.say(State::Warn, "lacks", &format!("{what} {wanted}: {note}"), advice)?;
            }
            Mark::Kept => {}
        }
    }
    Ok(true)
}

/// What the schema asks for besides keys and indexes, and is in force.
fn settings(report: &mut Report, setup: &TableSetup, table: &TablePlan, lacks: &Lacks) -> Result<(), String> {
    let name = &table.name;
    let changes = |wanted: fn(&TableChange) -> bool| {
        let mut steps = table.lines.iter().flat_map(|line| &line.steps);
        steps.any(|step| matches!(step, Step::Change(change) if wanted(change)))
    };
    let in_force = |feature: Feature, wanted: fn(&TableChange) -> bool| {
        !lacks.contains_key(&feature) && !changes(wanted)
    };
    if in_force(Feature::TimeToLive, |change| matches!(change, TableChange::TimeToLive { .. })) {
        let seen = match &setup.ttl_attribute {
            Some(attribute) => format!("{name}: on, by {attribute}"),
            None => format!("{name}: off, as the schema says; what is put stays"),
        };
        report.say(State::Ok, "ttl", &seen, None)?;
    }
    if in_force(Feature::PointInTimeRecovery, |change| {
        matches!(change, TableChange::PointInTimeRecovery { .. })
    }) {
        let seen = match setup.pitr {
            Some(pitr) => format!("{name}: on, {} days", pitr.days),
            None => format!("{name}: off, as the schema says; `pitr on` in the table would keep 35 days"),
        };
        report.say(State::Ok, "pitr", &seen, None)?;
    }
    if setup.definition.encryption.is_some()
        && in_force(Feature::Encryption, |change| matches!(change, TableChange::Encryption(_)))
    {
        report.say(State::Ok, "encryption", &format!("{name}: by the key that the schema names"), None)?;
    }
    if setup.definition.deletion_protection
        && in_force(Feature::DeletionProtection, |change| {
            matches!(change, TableChange::DeletionProtection(_))
        })
    {
        report.say(State::Ok, "protection", &format!("{name}: it cannot be deleted by mistake"), None)?;
    }
    Ok(())
}

fn probed(report: &mut Report, probe: &Probe) -> Result<(), String> {
    let (state, seen, advice) = judge(probe);
    report.say(state, "probe", &seen, advice)
}

/// A probe in words.
fn judge(probe: &Probe) -> (State, String, Option<&'static str>) {
    let seen = format!("{}: {probe}", probe.table);
    match probe.error() {
        None => (State::Ok, seen, None),
        Some(error) if error.is_transient() => (State::Fail, seen, Some("try again in a while")),
        Some(_) => {
            (State::Fail, seen, Some("see whether the credentials may put, get and delete items here"))
        }
    }
}

/// Probes tables that were just brought into shape, and says how long each step took. False when one failed.
pub(super) async fn probe_all(store: &Store, desired: &[Desired]) -> Result<bool, String> {
    let mut report = Report { json: false, states: Vec::new() };
    for setup in desired.iter().flat_map(|system| &system.setups) {
        let store = store.at(setup.region.as_deref());
        probed(&mut report, &probe::table(&store, setup).await)?;
    }
    Ok(report.count(State::Fail) == 0)
}

/// What was found, told as it is found.
struct Report {
    json: bool,
    states: Vec<State>,
}

impl Report {
    fn say(&mut self, state: State, what: &str, seen: &str, advice: Option<&str>) -> Result<(), String> {
        self.states.push(state);
        if self.json {
            let line = json!({"state": state.name(), "check": what, "seen": seen, "advice": advice});
            return terminal::print(&format!("{line}\n"));
        }
        let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
        terminal::print(&format!("{:4}  {what:WHAT_WIDTH$}  {seen}{advice}\n", state.name()))
    }

    fn count(&self, state: State) -> usize {
        self.states.iter().filter(|known| **known == state).count()
    }

    fn end(&self) -> Result<ExitCode, String> {
        let (warnings, failures) = (self.count(State::Warn), self.count(State::Fail));
        if !self.json {
            let total = terminal::count(self.states.len(), "check");
            let (warned, failed) =
                (terminal::count(warnings, "warning"), terminal::count(failures, "failure"));
            terminal::print(&format!("{total}, {warned}, {failed}\n"))?;
        }
        Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_found_where_they_are_and_never_shown() {
        let home = tempfile::tempdir().unwrap();
        let with = |variables: &[&str], endpoint: bool| {
            let hidden = "not to be shown".to_owned();
            let set = variables.iter().map(|name| ((*name).to_owned(), hidden.clone()));
            let (state, seen, advice) = credentials(&set.collect(), Some(home.path()), endpoint);
            assert!(!seen.contains(&hidden), "{seen}");
            assert_eq!(advice.is_none(), state == State::Ok, "{seen}");
            state
        };
        assert_eq!(with(&[], false), State::Warn);
        assert_eq!(with(&[], true), State::Ok);
        for endpoint in [false, true] {
            assert_eq!(with(&["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"], endpoint), State::Ok);
            assert_eq!(with(&["AWS_ACCESS_KEY_ID"], endpoint), State::Fail);
            assert_eq!(with(&["AWS_PROFILE"], endpoint), State::Ok);
        }
        assert_eq!(with(&["AWS_WEB_IDENTITY_TOKEN_FILE"], false), State::Ok);
        fs::create_dir(home.path().join(".aws")).unwrap();
        fs::write(home.path().join(".aws/credentials"), "[default]\n").unwrap();
        assert_eq!(with(&[], false), State::Ok);
    }
}
