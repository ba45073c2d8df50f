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
    pub(super) console: SocketAddr,
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
    /// Why the last read failed that did.
    pub(super) failure: Option<String>,
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
        self.stats.calls_saved
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

/// What a frame is laid out for; a wider screen has longer bars, a higher one more news.
const COLUMNS: usize = 80;
const BAR_CELLS: usize = 16;
const NEWS_MIN: usize = 5;
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// As many cells as the share of all, to an eighth.
fn bar(share: f64, cells: usize) -> String {
    let eighths = (share * cells as f64 * 8.0).round() as usize;
    let text = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
    format!("{text:<cells$}")
}

/// The lines of a frame on a screen of so many rows and columns, the last row left for the cursor.
pub(super) fn frame(view: &View, (rows, columns): (usize, usize)) -> Vec<String> {
    let wider = columns.saturating_sub(COLUMNS);
    let url = format!("http://{}", view.address);
    let mut sections = vec![
        head(view, &url, wider),
        table(view, BAR_CELLS + wider),
        view.systems.iter().flat_map(lifecycles).collect(),
        faults(&view.systems.iter().collect::<Vec<_>>()),
        Vec::new(),
        vec![
            format!("Look inside: http://{}, the console, in a browser", view.console),
            style("Ctrl-C ends it, with a summary.").dim().to_string(),
        ],
    ];
    let fixed: usize = sections.iter().map(Vec::len).sum();
    let room = rows.saturating_sub(1);
    // Where there is little room, news are worth more than empty lines.
    let gaps = if fixed + (sections.len() - 1) + NEWS_MIN <= room { sections.len() - 1 } else { 0 };
    let news = room.saturating_sub(fixed + gaps).max(usize::from(gaps == 0));
    let latest = view.news.iter().skip(view.news.len().saturating_sub(news));
    sections[4] = latest
        .map(|news| {
            let time = Timestamp::from_second(news.seconds).map(|time| time.strftime("%H:%M").to_string());
            format!("{}  {:<8}{}", style(time.unwrap_or_default()).dim(), news.system, news.text)
        })
        .collect();
    let missing = news.saturating_sub(sections[4].len());
    sections[4].extend(std::iter::repeat_n(String::new(), missing));
    let mut lines: Vec<String> = Vec::new();
    for section in sections {
        if gaps > 0 && !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(section);
    }
    lines
}

fn head(view: &View, url: &str, wider: usize) -> Vec<String> {
    let clock = format!("{}, {}", view.now.strftime("%a %Y-%m-%d %H:%M"), pace(view.speed));
    let width = (63 + wider).saturating_sub(clock.len());
    vec![
        format!("{}  {clock}{:>width$} s", style("larder demo").bold(), view.elapsed.as_secs()),
        format!("store {}, DynamoDB's protocol on {url}", view.place),
    ]
}

fn table(view: &View, cells: usize) -> Vec<String> {
    let titles = format!(
        "{:<8}{:>7}  {:<cells$}{:>6}{:>7}{:>9}{:>9}{:>7}{:>9}",
        "", "reads", "hits", "", "calls", "avoided", "saved", "items", "expiring"
    );
    let mut lines = vec![style(titles).dim().to_string()];
    for system in &view.systems {
        let (read, saved) = if system.is_cache {
            let rate = format!("{:.0} %", system.hit_rate() * 100.0);
            let saved = system.stats.dollars_saved();
            let bar = style(bar(system.hit_rate(), cells)).green();
            (
                format!("{:>7}  {bar}{rate:>6}", system.counts.reads()),
                (
                    format!("{:>9}", system.avoided()),
                    if saved > 0.0 { format!("${saved:.4}") } else { String::new() },
                ),
            )
        } else {
            (format!("{:>width$}", "", width = 7 + 2 + cells + 6), (format!("{:>9}", ""), String::new()))
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

/// What went wrong, and what became of it.
pub(super) fn faults(systems: &[&SystemView]) -> Vec<String> {
    let sum = |count: fn(&SystemView) -> u64| systems.iter().map(|system| count(system)).sum::<u64>();
    let failed = sum(|system| system.counts.failed);
    let last = systems.iter().rev().find_map(|system| Some((system.name, system.failure.as_deref()?)));
    let why = match last {
        Some((name, why)) => {
            format!(
                "{failed} reads failed: the source failed and nothing was kept to give instead; {name}: {why}"
            )
        }
        None => "no read failed: what was kept was given when the source failed".to_owned(),
    };
    vec![
        format!(
            "the sources failed {} times and turned {} requests away; the store failed {}",
            sum(|system| system.failed),
            sum(|system| system.turned_away),
            sum(|system| system.stats.store_errors)
        ),
        format!(
            "{} expired and were let go; {} stale were given",
            sum(|system| system.held.expired),
            sum(|system| system.counts.stale)
        ),
        why,
        format!(
            "{} over 400 KB are split over several items; {} menus are kept with their faults",
            sum(|system| system.held.split),
            sum(|system| system.held.faulty)
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

    /// Rows and columns.
    pub(super) fn size(&self) -> (usize, usize) {
        let (rows, columns) = self.term.size();
        (rows.into(), columns.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        let system = |name, is_cache| SystemView {
            name,
            is_cache,
            counts: Counts { store: 90, source: 7, failed: 3, called: 10, ..Counts::default() },
            stats: Stats::default(),
            sent: 10,
            turned_away: 1,
            failed: 3,
            failure: is_cache.then(|| "the source answered 503".to_owned()),
            held: Held { items: 12, split: 1, faulty: 2, ..Held::default() },
        };
        let news = |n: i64| News { seconds: n * 60, system: "lunch", text: format!("news {n}") };
        View {
            now: Timestamp::UNIX_EPOCH,
            elapsed: Duration::from_secs(7),
            speed: 1800,
            place: "/tmp/larder-demo".to_owned(),
            address: ([127, 0, 0, 1], 8000).into(),
            console: ([127, 0, 0, 1], 8001).into(),
            systems: vec![
                system("keiba", true),
                system("weather", true),
                system("lunch", true),
                system(tdnet::NAME, false),
                system(shops::NAME, false),
            ],
            news: (0..80).map(news).collect(),
        }
    }

    #[test]
    fn a_frame_fills_the_screen_and_no_more() {
        let view = view();
        for (rows, columns) in [(24, 80), (40, 120), (60, 200)] {
            let lines = frame(&view, (rows, columns));
            assert_eq!(lines.len(), rows - 1, "{lines:#?}");
            let titles = lines.iter().find(|line| line.contains("avoided")).expect("the table has titles");
            assert_eq!(console::measure_text_width(titles), columns, "{titles}");
            assert!(lines.last().expect("there are lines").contains("Ctrl-C"));
            assert!(lines.iter().any(|line| line.ends_with("news 79")), "{lines:#?}");
        }
    }

    #[test]
    fn reads_that_failed_are_explained_and_what_is_kept_all_the_same_is_counted() {
        let text = frame(&view(), (40, 200)).join("\n");
        assert!(
            text.contains("15 reads failed: the source failed and nothing was kept to give instead"),
            "{text}"
        );
        assert!(text.contains("lunch: the source answered 503"), "{text}");
        assert!(text.contains("5 over 400 KB are split over several items; 10 menus are kept"), "{text}");
    }
}
