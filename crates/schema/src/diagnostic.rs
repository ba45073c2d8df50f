//! What is wrong with a schema: code, place, cause, way out; and as a person sees it.
//!
//! A diagnostic points at one place and may point at others. Its notes say the cause, its helps say what to
//! write instead. Rendering is a function of the diagnostic and the files; nothing is read again.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::explain;
use crate::span::{SourceFile, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The schema cannot be used.
    Error,
    /// The schema works, and will disappoint.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable: `larder explain CODE` tells more.
    pub code: &'static str,
    pub severity: Severity,
    pub message: String,
    pub span: Span,
    /// What is said at the place itself.
    pub label: String,
    /// Other places that matter, each with its words.
    pub others: Vec<(Span, String)>,
    pub notes: Vec<String>,
    pub helps: Vec<String>,
    /// What an editor can do about it, where one of the helps can be written for sure.
    pub fix: Option<Fix>,
}

/// A text to put in place of another, or between two characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    pub span: Span,
    pub text: String,
}

impl Diagnostic {
    /// The severity is the rule's own.
    pub(crate) fn new(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: explain::rule(code).map_or(Severity::Error, |rule| rule.severity),
            message: with_articles(message.into()),
            span,
            label: String::new(),
            others: Vec::new(),
            notes: Vec::new(),
            helps: Vec::new(),
            fix: None,
        }
    }

    pub(crate) fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    pub(crate) fn other(mut self, span: Span, text: impl Into<String>) -> Self {
        self.others.push((span, text.into()));
        self
    }

    pub(crate) fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(with_articles(text.into()));
        self
    }

    pub(crate) fn help(mut self, text: impl Into<String>) -> Self {
        self.helps.push(text.into());
        self
    }

    /// The help that was given last, as an edit.
    pub(crate) fn fix(mut self, span: Span, text: impl Into<String>) -> Self {
        self.fix = Some(Fix { span, text: text.into() });
        self
    }

    /// Adds "did you mean" when a known name is close to what was written.
    pub(crate) fn did_you_mean<'a>(self, written: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let mut known: Vec<&str> = known.into_iter().collect();
        let mut seen = BTreeSet::new();
        known.retain(|name| seen.insert(*name));
        if let Some(name) = closest(written, &known) {
            let span = self.span;
            return self.help(format!("did you mean `{name}`?")).fix(span, name);
        }
        let more = known.len().saturating_sub(LISTED_MAX);
        // Looking at every pair of thousands of names takes too long to be worth it.
        if more > 0 && known.len() < 200 {
            known.sort_by_cached_key(|name| distance(&written.to_lowercase(), &name.to_lowercase()));
        }
        match (known.is_empty(), more) {
            (true, _) => self,
            (_, 0) => self.help(format!("known here: {}", known.join(", "))),
            _ => self.help(format!("known here: {} and {more} more", known[..LISTED_MAX].join(", "))),
        }
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Of more names than this, those that look most like what was written are listed.
const LISTED_MAX: usize = 16;

/// Messages are put together from the names of types, and three of those begin with a vowel.
fn with_articles(text: String) -> String {
    ["int", "instant", "epoch"]
        .iter()
        .fold(text, |text, word| text.replace(&format!(" a {word}"), &format!(" an {word}")))
}

/// Whether a diagnostic is shown with terminal colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Plain,
    Ansi,
}

/// One diagnostic as a person sees it, ending in a newline.
pub fn render(diagnostic: &Diagnostic, files: &[SourceFile], colour: Colour) -> String {
    let paint = Paint(colour);
    let (word, tone) = match diagnostic.severity {
        Severity::Error => ("error", RED),
        Severity::Warning => ("warning", YELLOW),
    };
    let mut out = String::new();
    let head = paint.in_tone(tone, &format!("{word}[{}]", diagnostic.code));
    let _ = writeln!(out, "{head}: {}", paint.in_tone(BOLD, &diagnostic.message));

    let mut places = vec![(diagnostic.span, diagnostic.label.as_str(), true)];
    places.extend(diagnostic.others.iter().map(|(span, text)| (*span, text.as_str(), false)));
    let widest = places
        .iter()
        .filter_map(|(span, ..)| Some(files.get(span.file as usize)?.place(span.start as usize).0))
        .max()
        .unwrap_or(1);
    let gutter = widest.to_string().len();
    for (nth, (span, label, primary)) in places.iter().enumerate() {
        let Some(file) = files.get(span.file as usize) else { continue };
        let (line, column) = file.place(span.start as usize);
        let corner = if nth == 0 { "┌─" } else { "├─" };
        let place = format!("{}:{line}:{column}", file.name);
        let _ = writeln!(out, "{:gutter$}{} {place}", "", paint.in_tone(BLUE, corner));
        let text = file.line(line).replace('\t', " ");
        let bar = paint.in_tone(BLUE, &format!("{line:>gutter$}│"));
        let _ = writeln!(out, "{bar} {text}");
        let lead: usize = text.chars().take(column - 1).map(width).sum();
        let taken = &file.text[crate::span::floor_boundary(&file.text, span.start as usize)
            ..crate::span::floor_boundary(&file.text, span.end as usize)];
        let marked: usize = taken.lines().next().unwrap_or("").chars().map(width).sum();
        let (mark, tone) = if *primary { ("^", tone) } else { ("-", BLUE) };
        let marks = paint.in_tone(tone, format!("{} {label}", mark.repeat(marked.max(1))).trim_end());
        let _ = writeln!(out, "{:gutter$}{} {:lead$}{marks}", "", paint.in_tone(BLUE, "│"), "");
    }
    for note in &diagnostic.notes {
        let _ = writeln!(out, "{:gutter$}{} {note}", "", paint.in_tone(BLUE, "="));
    }
    for help in &diagnostic.helps {
        let _ = writeln!(out, "{:gutter$}{} help: {help}", "", paint.in_tone(BLUE, "="));
    }
    out
}

/// All of them, each followed by an empty line.
pub fn render_all(diagnostics: &[Diagnostic], files: &[SourceFile], colour: Colour) -> String {
    diagnostics.iter().map(|diagnostic| render(diagnostic, files, colour) + "\n").collect()
}

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const BLUE: &str = "\x1b[1;34m";
const BOLD: &str = "\x1b[1m";

struct Paint(Colour);

impl Paint {
    fn in_tone(&self, tone: &str, text: &str) -> String {
        match self.0 {
            Colour::Plain => text.to_owned(),
            Colour::Ansi => format!("{tone}{text}\x1b[0m"),
        }
    }
}

/// Columns a character takes in a terminal: East Asian wide characters take two.
fn width(c: char) -> usize {
    let wide = matches!(c as u32,
        0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 | 0x1F300..=0x1FAFF);
    if wide { 2 } else { 1 }
}

/// The known name a slip of the pen away from what was written, if there is one.
pub fn closest<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    let far = (written.chars().count() / 3).max(1);
    known
        .iter()
        .map(|name| (distance(&written.to_lowercase(), &name.to_lowercase()), *name))
        .filter(|(distance, _)| *distance <= far)
        .min()
        .map(|(_, name)| name)
}

/// Letters to insert, drop, change or swap to get from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows: Vec<Vec<usize>> = (0..=a.len()).map(|i| (i..=i + b.len()).collect()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        let known = ["string", "instant", "decimal"];
        for (written, expected) in [
            ("strng", Some("string")),
            ("isntant", Some("instant")),
            ("bool", None),
            ("Decimal", Some("decimal")),
        ] {
            assert_eq!(closest(written, &known), expected, "{written}");
        }
    }

    #[test]
    fn a_diagnostic_is_shown_with_place_cause_and_way_out() {
        let files = [SourceFile { name: "a.larder".into(), text: "one\n  två {tre}\n".into() }];
        let diagnostic = Diagnostic::new("L0107", Span::new(0, 11, 16), "this key cannot be read back")
            .label("nothing separates")
            .note("two readings")
            .help("put a separator");
        insta::assert_snapshot!(render(&diagnostic, &files, Colour::Plain), @r"
        error[L0107]: this key cannot be read back
         ┌─ a.larder:2:7
        2│   två {tre}
         │       ^^^^^ nothing separates
         = two readings
         = help: put a separator
        ");
        assert!(render(&diagnostic, &files, Colour::Ansi).contains("\x1b[1;31merror[L0107]"));
    }
}
