//! What is shown while it runs: a frame that is drawn in place on a terminal, a line now and then elsewhere.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use console::{Term, style, truncate_str};
use larder::Stats;
use larder::jiff::Timestamp;

use super::census::Held;
use super::world::{Counts, News};
use super::{shops, tdnet};

/// Everything that is shown, at one moment.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) now: Timestamp,
    pub(super) elapsed: Duration,
    pub(super) speed: u32,
    pub(super) place: String,
    pub(super) address: SocketAddr,
    pub(super) systems: Vec<SystemView>,
    pub(super) news: VecDeque<News>,
}

#[derive(Clone, Debug)]
pub(super) struct SystemView {
    pub(super) name: &'static str,
    /// Whether it is read through a cache.
    pub(super) is_cache: bool,
    pub(super) counts: Counts,
    pub(super) stats: Stats,
    pub(super) sent: u64,
    pub(super) turned_away: u64,
    pub(super) failed: u64,
    pub(super) held: Held,
}

impl SystemView {
    fn hit_rate(&self) -> f64 {
        self.counts.hits() as f64 / self.counts.reads().max(1) as f64
    }

    /// Calls of the source; those of a cache may take several requests each.
    fn calls(&self) -> u64 {
        if self.is_cache { self.counts.called } else { self.sent }
    }

    fn avoided(&self) -> u64 {
        self.counts.reads().saturating_sub(self.counts.called)
    }

    fn state(&self, lifecycle: &'static str, state: &'static str) -> u64 {
        self.held.states.get(&(lifecycle, state)).copied().unwrap_or(0)
    }
}

/// `1 s = 30 min`.
pub(super) fn pace(speed: u32) -> String {
    match speed {
        1 => "in real time".to_owned(),
        speed if speed % 3600 == 0 => format!("1 s = {} h", speed / 3600),
        speed if speed % 60 == 0 => format!("1 s = {} min", speed / 60),
        speed => format!("1 s = {speed} s"),
    }
}

const BAR_CELLS: usize = 16;
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// As many cells as the share of all, to an eighth.
fn bar(share: f64) -> String {
    let eighths = (share * BAR_CELLS as f64 * 8.0).round() as usize;
    let text = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
    format!("{text:<BAR_CELLS$}")
}

/// The lines of a frame.
pub(super) fn frame(view: &View) -> Vec<String> {
    let url = format!("http://{}", view.address);
    let clock = format!("{}, {}", view.now.strftime("%a %Y-%m-%d %H:%M"), pace(view.speed));
    let mut lines = vec![
        format!(
            "{}  {clock}{:>width$} s",
            style("larder demo").bold(),
            view.elapsed.as_secs(),
            width = 63 - clock.len()
        ),
        format!("store {}, DynamoDB's protocol on {url}", view.place),
        String::new(),
        style(format!(
            "{:<8}{:>7}  {:<BAR_CELLS$}{:>6}{:>7}{:>9}{:>9}{:>7}{:>9}",
            "", "reads", "hits", "", "calls", "avoided", "saved", "items", "expiring"
        ))
        .dim()
        .to_string(),
    ];
    for system in &view.systems {
        let (read, saved) = if system.is_cache {
            let rate = format!("{:.0} %", system.hit_rate() * 100.0);
            let saved = system.stats.dollars_saved();
            (
                format!("{:>7}  {}{rate:>6}", system.counts.reads(), style(bar(system.hit_rate())).green()),
                (
                    format!("{:>9}", system.avoided()),
                    if saved > 0.0 { format!("${saved:.4}") } else { String::new() },
                ),
            )
        } else {
            (format!("{:>width$}", "", width = 7 + 2 + BAR_CELLS + 6), (format!("{:>9}", ""), String::new()))
        };
        let (avoided, saved) = saved;
        lines.push(format!(
            "{:<8}{read}{:>7}{avoided}{saved:>9}{:>7}{:>9}",
            system.name,
            system.calls(),
            system.held.items,
            system.held.expiring
        ));
    }
    lines.push(String::new());
    lines.extend(view.systems.iter().flat_map(lifecycles));
    lines.push(String::new());
    lines.extend(faults(view));
    lines.push(String::new());
    for news in &view.news {
        let time = Timestamp::from_second(news.seconds).map(|time| time.strftime("%H:%M").to_string());
        lines.push(format!("{}  {:<8}{}", style(time.unwrap_or_default()).dim(), news.system, news.text));
    }
    lines.extend(std::iter::repeat_n(String::new(), 5_usize.saturating_sub(view.news.len())));
    lines.push(String::new());
    lines.push(style(look_inside(&url)).dim().to_string());
    lines.push(style("Ctrl-C ends it, with a summary.").dim().to_string());
    lines
}

pub(super) fn look_inside(url: &str) -> String {
    format!("aws dynamodb scan --table-name keiba_data --endpoint-url {url}")
}

const STATES: [(&str, &str, [&str; 4]); 4] = [
    (shops::NAME, shops::CRAWL, ["never", "progress", "stuck", "done"]),
    (shops::NAME, shops::SCRAPE, ["never", "progress", "stuck", "done"]),
    (tdnet::NAME, tdnet::EXECUTIONS, ["pending", "running", "failed", "completed"]),
    (tdnet::NAME, tdnet::EXPORTS, ["pending", "processing", "failed", "completed"]),
];

/// A line for each lifecycle: how many are in which state.
pub(super) fn lifecycles(system: &SystemView) -> Vec<String> {
    let own = STATES.iter().filter(|(name, ..)| *name == system.name);
    let lines = own.map(|(_, lifecycle, states)| {
        let mut line = format!("{lifecycle:<12}");
        for state in states {
            let _ = write!(line, "{:>5} {state:<11}", system.state(lifecycle, state));
        }
        line.trim_end().to_owned()
    });
    lines.collect()
}

fn faults(view: &View) -> [String; 2] {
    let sum = |count: fn(&SystemView) -> u64| view.systems.iter().map(count).sum::<u64>();
    [
        format!(
            "the sources failed {} times and turned {} requests away; the store failed {}",
            sum(|system| system.failed),
            sum(|system| system.turned_away),
            sum(|system| system.stats.store_errors)
        ),
        format!(
            "{} expired and were let go; {} stale were given; {} reads failed",
            sum(|system| system.held.expired),
            sum(|system| system.counts.stale),
            sum(|system| system.counts.failed)
        ),
    ]
}

/// The same in a line, for a log.
pub(super) fn line(view: &View) -> String {
    let mut line = format!("{:>4} s  {}", view.elapsed.as_secs(), view.now.strftime("%Y-%m-%d %H:%M"));
    for system in &view.systems {
        let _ = match system.is_cache {
            true => write!(
                line,
                "  {} {:.0} % of {}",
                system.name,
                system.hit_rate() * 100.0,
                system.counts.reads()
            ),
            false => write!(line, "  {} {} items", system.name, system.held.items),
        };
    }
    line.push('\n');
    line
}

/// A terminal on which a frame is drawn over the one before.
#[derive(Debug)]
pub(super) struct Screen {
    term: Term,
    drawn: usize,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { term: Term::buffered_stdout(), drawn: 0 }
    }

    /// A terminal that is gone is no concern of ours.
    pub(super) fn draw(&mut self, lines: &[String]) {
        let (rows, columns) = self.term.size();
        // One row is for the cursor: a frame that scrolls cannot be drawn over.
        let shown = &lines[..lines.len().min(usize::from(rows).saturating_sub(1))];
        self.back();
        for line in shown {
            let line = truncate_str(line, columns.into(), "…");
            let _ = self.term.write_line(&format!("{line}\u{1b}[K"));
        }
        let _ = self.term.clear_to_end_of_screen();
        let _ = self.term.flush();
        self.drawn = shown.len();
    }

    /// Leaves nothing behind.
    pub(super) fn clear(&mut self) {
        self.back();
        let _ = self.term.clear_to_end_of_screen();
        let _ = self.term.flush();
    }

    fn back(&mut self) {
        if self.drawn > 0 {
            let _ = self.term.move_cursor_up(self.drawn);
        }
        self.drawn = 0;
    }
}
