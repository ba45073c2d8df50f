//! The figures as SVG, readable on a light and on a dark page.
//!
//! Groups of bars, one panel above the other, each with a logarithmic scale of its own: what grows is told by how many
//! steps of ten it grows.

use std::fmt::Write as _;

use super::Figures;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 70.0;
const PANEL: f64 = 210.0;
const HEAD: f64 = 66.0;
/// Below the bars, for what is written under them.
const FOOT: f64 = 44.0;
const COLOURS: [&str; 3] = ["#3b82c4", "#d9822b", "#3f9d5f"];

/// One panel.
struct Panel {
    title: String,
    series: Vec<String>,
    groups: Vec<(String, Vec<f64>)>,
}

/// A picture for each part that there are figures of, by the name of its file.
pub(super) fn draw(figures: &Figures) -> Vec<(&'static str, String)> {
    let pictures = [
        ("scale-hot.svg", "Fetches of one key", vec![loads(figures), fetches(figures, true)]),
        ("scale-spread.svg", "Fetches of many keys", vec![fetches(figures, false)]),
        ("scale-claims.svg", "Claims", vec![claims(figures)]),
        ("scale-behind.svg", "Writes behind", vec![queues(figures)]),
    ];
    let drawn = pictures.into_iter().map(|(file, title, panels)| {
        let panels: Vec<Panel> = panels.into_iter().flatten().collect();
        (!panels.is_empty()).then(|| (file, picture(title, &panels)))
    });
    drawn.flatten().collect()
}

fn picture(title: &str, panels: &[Panel]) -> String {
    let height = PANEL * panels.len() as f64 + 10.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">\n\
         <title>{title}, simulated</title>\n\
         <style>text{{fill:#24292f}}.grid{{stroke:#d0d7de}}.page{{fill:#ffffff}}\
         @media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}.grid{{stroke:#444c56}}.page{{fill:#0d1117}}}}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    for (at, panel) in panels.iter().enumerate() {
        panel.draw(&mut svg, PANEL * at as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Loads of the source by key: what a flight is for.
fn loads(figures: &Figures) -> Option<Panel> {
    let of = |entity: &'static str| {
        figures.reading.iter().filter(move |(one, _)| one.is_hot && one.entity == entity)
    };
    let groups: Vec<(String, Vec<f64>)> = of("Alone")
        .zip(of("Shared"))
        .map(|((one, alone), (_, shared))| {
            let name = format!("{} / {}", one.caches, one.workers);
            (name, vec![alone.loads_of_a_key_max as f64, shared.loads_of_a_key_max as f64])
        })
        .collect();
    let panel = Panel {
        title: "Loads of a hot key while it is fresh, at most (caches / workers)".to_owned(),
        series: vec!["each process loads".to_owned(), "flight".to_owned()],
        groups,
    };
    panel.has_any()
}

/// What the table is asked.
fn fetches(figures: &Figures, is_hot: bool) -> Option<Panel> {
    let of = |entity: &'static str| {
        figures.reading.iter().filter(move |(one, _)| one.is_hot == is_hot && one.entity == entity)
    };
    let second = |one: &super::Reading, read: &super::Read| read.asked.requests as f64 / one.seconds as f64;
    let groups: Vec<(String, Vec<f64>)> = of("Alone")
        .zip(of("Shared"))
        .enumerate()
        .map(|(at, ((one, alone), (_, shared)))| {
            let mut values = vec![second(one, alone), second(one, shared)];
            values.extend(of("Bare").nth(at).map(|(one, bare)| second(one, bare)));
            (format!("{} / {}", one.caches, one.workers), values)
        })
        .collect();
    let mut series = vec!["L1".to_owned(), "L1 and flight".to_owned()];
    if is_hot {
        series.push("flight, no L1".to_owned());
    }
    let keys = if is_hot { "one hot key" } else { "two hundred keys" };
    let panel = Panel { title: format!("Requests a second, {keys} (caches / workers)"), series, groups };
    panel.has_any()
}

fn claims(figures: &Figures) -> Option<Panel> {
    let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
    for (one, worked) in &figures.working {
        let name = format!("{} / {}", one.groups, one.workers);
        let claimed = worked.claimed.max(1) as f64;
        let each = [worked.asked.requests as f64, worked.asked.conditions_failed as f64];
        groups.push((name, each.map(|count| count / claimed).to_vec()));
    }
    let panel = Panel {
        title: "Claims: requests a job, and races lost (groups / workers)".to_owned(),
        series: vec!["requests".to_owned(), "races lost".to_owned()],
        groups,
    };
    panel.has_any()
}

fn queues(figures: &Figures) -> Option<Panel> {
    let group = |(one, wrote): &(super::Writing, super::Wrote)| {
        let name = format!("{} / {}", if one.is_hot { "one" } else { "new" }, one.processes);
        let seconds = one.seconds as f64 + wrote.drain.as_secs_f64();
        (name, vec![wrote.asked.write_units / seconds, wrote.queue_max as f64])
    };
    let panel = Panel {
        title:
            "Writes behind, 20 a second from each process: units a second, longest queue (keys / processes)"
                .to_owned(),
        series: vec!["write units a second".to_owned(), "longest queue".to_owned()],
        groups: figures.writing.iter().map(group).collect(),
    };
    panel.has_any()
}

impl Panel {
    fn has_any(self) -> Option<Self> {
        (!self.groups.is_empty()).then_some(self)
    }

    fn draw(&self, svg: &mut String, top: f64) {
        let values = || self.groups.iter().flat_map(|(_, values)| values.iter().copied());
        // From one up; what is less has a bar of no height, and its figure.
        let decades = values().fold(10.0, f64::max).log10().ceil();
        let (base, high) = (top + PANEL - FOOT, PANEL - HEAD - FOOT);
        let height = |value: f64| (value.max(1.0).log10() / decades * high).max(1.0);
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"600\">{}</text>",
            top + 24.0,
            self.title
        );
        let mut x = LEFT;
        for (name, colour) in self.series.iter().zip(COLOURS) {
            let y = top + 34.0;
            let _ = writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>");
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{name}</text>", x + 15.0, y + 9.0);
            x += 30.0 + 7.0 * name.chars().count() as f64;
        }
        for decade in 0..=decades as i32 {
            let y = base - f64::from(decade) / decades * high;
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                WIDTH - 10.0
            );
            let label = 10_f64.powi(decade);
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                y + 4.0
            );
        }
        let wide = (WIDTH - LEFT - 10.0) / self.groups.len() as f64;
        for (at, (name, values)) in self.groups.iter().enumerate() {
            let left = LEFT + wide * at as f64;
            let bar = (wide * 0.8 / values.len() as f64).min(34.0);
            let begin = left + (wide - bar * values.len() as f64) / 2.0;
            for (nth, (value, colour)) in values.iter().zip(COLOURS).enumerate() {
                let (x, height) = (begin + bar * nth as f64, height(*value));
                let (y, wide) = (base - height, bar - 2.0);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
                );
                let middle = x + wide / 2.0;
                let _ = writeln!(
                    svg,
                    "<text x=\"{middle:.1}\" y=\"{:.1}\" font-size=\"9\" text-anchor=\"middle\">{}</text>",
                    y - 3.0,
                    short(*value)
                );
            }
            let middle = left + wide / 2.0;
            let _ = writeln!(
                svg,
                "<text x=\"{middle:.1}\" y=\"{:.1}\" font-size=\"11\" text-anchor=\"middle\">{name}</text>",
                base + 16.0
            );
        }
    }
}

fn short(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
