//! `larder apply`: brings the deployed tables into the shape the schemas say.
//!
//! The plan is shown, and on a terminal confirmed, before anything is done. The first Ctrl-C ends it after the
//! request under way, the second at once; either way running it again goes on where it was.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use larder::Store;
use larder::provision::{self, Applied, Desired, Event, Mark, Permissions, Plan, Watch};

use super::doctor;
use super::plan::{Runtime, Target, runtime};
use crate::{held, terminal};

const SPINNER_PERIOD: Duration = Duration::from_millis(100);

/// Create and change tables until they are what the schemas say
#[derive(Debug, Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    target: Target,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Destroy this, as named by the plan: TABLE, TABLE/INDEX or TABLE/pitr
    #[arg(long, value_name = "NAME")]
    allow_destroy: Vec<String>,
    /// Then put a probe item into each table, read it and remove it, and say how long each took
    #[arg(long)]
    probe: bool,
}

impl Apply {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let desired = self.target.desired()?;
        let permissions = Permissions(self.allow_destroy.iter().cloned().collect());
        let runtime = runtime()?;
        let look = async {
            let store = held::look(self.target.store()).await?;
            let plan = provision::plan(&desired, &store).await?;
            Ok((store, plan))
        };
        let (store, plan) = runtime.block_on(look).map_err(|error| self.target.advise(&error))?;
        terminal::print(&plan.to_string())?;
        check_words(&plan, &permissions)?;
        check_possible(&plan)?;
        let steps = plan.steps(&permissions).len();
        if steps == 0 && !plan.is_busy() {
            terminal::print(nothing_to_do(&plan))?;
            return self.probed(&runtime, &store, &desired);
        }
        if steps > 0 && !self.yes && !confirmed("Apply this?")? {
            terminal::print("Nothing was changed.\n")?;
            return Ok(ExitCode::FAILURE);
        }
        // A directory has one user at a time.
        drop(store);
        let applied = runtime.block_on(async {
            let stop = watch_interrupts("request");
            let mut progress = Progress::new(steps, stop);
            let store = held::open(self.target.store()).await?;
            let applied = provision::apply(&plan, &store, &permissions, &mut progress).await;
            progress.bar.finish_and_clear();
            Ok((store, applied?))
        });
        let (store, applied) = applied.map_err(|error| {
            format!("{}\nRun `larder apply` again to continue from there.", self.target.advise(&error))
        })?;
        match tell(&applied, &permissions)? {
            true => self.probed(&runtime, &store, &desired),
            false => Ok(ExitCode::FAILURE),
        }
    }

    fn probed(&self, runtime: &Runtime, store: &Store, desired: &[Desired]) -> Result<ExitCode, String> {
        if !self.probe || runtime.block_on(doctor::probe_all(store, desired))? {
            return Ok(ExitCode::SUCCESS);
        }
        Ok(ExitCode::FAILURE)
    }
}

/// A word that permits nothing is most likely misspelt.
fn check_words(plan: &Plan, permissions: &Permissions) -> Result<(), String> {
    let words: Vec<&str> = plan.words().collect();
    let Some(unknown) = permissions.0.iter().find(|word| !words.contains(&word.as_str())) else {
        return Ok(());
    };
    let retained = plan.tables.iter().find(|table| table.name.as_str() == unknown);
    Err(match retained {
        Some(table) if table.verdict == provision::Verdict::Retain => {
            format!("{unknown} is to be retained: nothing was changed")
        }
        _ if words.is_empty() => {
            format!("nothing would be destroyed, and so not {unknown}: nothing was changed")
        }
        _ => format!(
            "{unknown} would not be destroyed; what would is {}: nothing was changed",
            words.join(", ")
        ),
    })
}

fn check_possible(plan: &Plan) -> Result<(), String> {
    let tables: Vec<&str> = plan.lines(Mark::CannotChange).map(|(table, _)| table.name.as_str()).collect();
    if tables.is_empty() {
        return Ok(());
    }
    Err(format!("{} cannot become what the schema says: nothing was changed", tables.join(", ")))
}

fn nothing_to_do(plan: &Plan) -> &'static str {
    match plan.words().next() {
        Some(_) => "Nothing to do without --allow-destroy.\n",
        None => "Nothing to do.\n",
    }
}

/// Asks a person.
pub(super) fn confirmed(question: &str) -> Result<bool, String> {
    if !io::stdin().is_terminal() {
        return Err("there is no terminal to confirm this on: add --yes to do it; nothing was changed".into());
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    let read = io::stderr().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
    read.map_err(|error| format!("cannot read the answer: {error}; nothing was changed"))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Says what was done. True when nothing is left to do.
fn tell(applied: &Applied, permissions: &Permissions) -> Result<bool, String> {
    let left = applied.after.steps(permissions);
    let left: Vec<_> = left
        .into_iter()
        .filter(|(table, step)| {
            !applied.ignored.iter().any(|(name, ignored, _)| *name == table.name && ignored == *step)
        })
        .collect();
    let mut text = format!("{} done.\n", terminal::count(applied.done.len(), "step"));
    for (table, step, why) in &applied.ignored {
        text.push_str(&format!("  ! {table}: {step}: {why}\n"));
    }
    if !left.is_empty() {
        text.push_str("Left to do:\n");
        for (table, step) in &left {
            text.push_str(&format!("  {}: {step}\n", table.name));
        }
        text.push_str("Run `larder apply` again to go on.\n");
    }
    terminal::print(&text)?;
    Ok(left.is_empty() && !applied.stopped)
}

/// True from the first signal on. The second ends the process.
pub(super) fn watch_interrupts(unit: &'static str) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if told.load(Ordering::Relaxed) {
                process::exit(1);
            }
            // Before it is known: what is said last is where to go on.
            eprintln!("Stopping after the {unit} under way; Ctrl-C again stops at once.");
            told.store(true, Ordering::Relaxed);
        }
    });
    stop
}

/// A bar on a terminal, a line a step elsewhere.
struct Progress {
    bar: ProgressBar,
    plain: bool,
    stop: Arc<AtomicBool>,
}

impl Progress {
    fn new(steps: usize, stop: Arc<AtomicBool>) -> Self {
        let plain = !io::stderr().is_terminal();
        let bar = if plain { ProgressBar::hidden() } else { ProgressBar::new(steps as u64) };
        let style = ProgressStyle::with_template("{spinner} [{pos}/{len}] {wide_msg} {elapsed}");
        bar.set_style(style.expect("the template is right"));
        if !plain {
            bar.enable_steady_tick(SPINNER_PERIOD);
        }
        Self { bar, plain, stop }
    }

    fn line(&self, text: &str) {
        match self.plain {
            true => eprintln!("{text}"),
            false => self.bar.println(text),
        }
    }
}

impl Watch for Progress {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Started { at, of, table, step } => {
                self.bar.set_message(format!("{table}: {step}"));
                if self.plain {
                    eprintln!("[{at}/{of}] {table}: {step}");
                }
            }
            Event::Waiting { table, busy } => self.bar.set_message(format!("{table}: {busy}")),
            Event::Done { table, step } => {
                self.bar.inc(1);
                if !self.plain {
                    self.line(&format!("  {table}: {step}"));
                }
            }
            Event::Ignored { table, step, why } => {
                self.bar.inc(1);
                self.line(&format!("! {table}: {step}: {why}"));
            }
        }
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
