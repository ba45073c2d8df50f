//! `docs/requirements.md` says, for every row A1 to L20, what tests assert of it and on which stores.
//!
//! A test shows the rows its name begins with: `k7_a_hit_does_not_call_the_source`, `l3_l7_…`. The page is made from
//! the tests' sources; when they change, `UPDATE_DOCS=1 cargo test -p larder --test requirements` writes it anew.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Rows by letter and how many there are, and the system they belong to.
const SYSTEMS: [(char, u32, &str); 6] = [
    ('A', 5, "all five"),
    ('K', 13, "keiba"),
    ('T', 15, "tdnet"),
    ('W', 17, "weather"),
    ('S', 16, "shops"),
    ('L', 20, "lunch"),
];

/// Rows that are not about items in a store, so that a test of the schema, of a tool or of one store shows them.
const ANYWHERE: [&str; 32] = [
    "A1", "A2", "A3", "A4", "A5", "K8", "K9", "K12", "K13", "T10", "T11", "T12", "T13", "W5", "W12", "W13",
    "W14", "W15", "W16", "W17", "S13", "S15", "L2", "L8", "L9", "L10", "L11", "L13", "L16", "L18", "L19",
    "L20",
];

/// What is missing of rows that no test shows, or only in part.
const MISSING: [(&str, &str); 0] = [];

#[derive(Debug, Default)]
struct Shown {
    /// What is asserted, with the crate that does it and where.
    asserted: Vec<String>,
    on_each_store: bool,
}

#[test]
fn the_page_of_requirements_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = page(&root);
    let path = root.join("docs/requirements.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(
        found == page,
        "docs/requirements.md is old: run UPDATE_DOCS=1 cargo test -p larder --test requirements"
    );
}

fn page(root: &Path) -> String {
    let mut rows: BTreeMap<String, Shown> = BTreeMap::new();
    let mut sources = Vec::new();
    collect(&root.join("crates"), &mut sources);
    sources.sort();
    for source in sources {
        let text = fs::read_to_string(&source).unwrap();
        let name = crate_of(root, &source);
        let all_are_tests = source.components().any(|part| part.as_os_str() == "tests");
        for (function, on_each_store) in functions(&text, all_are_tests) {
            let on_each_store = on_each_store && name == "larder";
            let place = match &*name {
                "larder" if on_each_store => "every store",
                // What no store takes part in, or one: the layer's own tests run on an embedded store.
                "larder" => "larder",
                other => other,
            };
            for row in rows_of(&function) {
                let shown = rows.entry(row).or_default();
                let asserted = format!("{} *({place})*", sentence(&function));
                if !shown.asserted.contains(&asserted) {
                    shown.asserted.push(asserted);
                }
                shown.on_each_store |= on_each_store;
            }
        }
    }
    let python = Tests { language: "python", suffix: ".py", before: "def test_", after: '(' };
    let typescript = Tests { language: "typescript", suffix: ".test.", before: "(\"", after: '"' };
    let elsewhere = [
        python.shown_in(root, &["examples/python", "tests/languages/python"]),
        typescript.shown_in(root, &["examples/typescript", "tests/languages/node"]),
    ];
    for (row, asserted) in elsewhere.into_iter().flatten() {
        rows.entry(row).or_default().asserted.push(asserted);
    }
    let mut page = String::from(
        "# Requirements\n\nWhat the five systems need, by the number of the requirement, with what tests assert of it: a test's name is the \
         row's number and the\nassertion. This page is made from them (`UPDATE_DOCS=1 cargo test -p larder --test requirements`).\n\n\
         Behind each assertion is where it is made: on *every store* (the embedded one, Larder's endpoint and DynamoDB Local through the \
         AWS SDK),\nor in the crate named. A row is **shown** when the data layer asserts it on every store, and **in part** when it does \
         not. Rows about schemas,\ntools and the store itself, marked \u{2020}, are not about items in a store: a test of those shows them.\n",
    );
    let mut states: BTreeMap<&str, u32> = BTreeMap::new();
    for (letter, count, system) in SYSTEMS {
        let _ =
            write!(page, "\n## {letter}: {system}\n\n| row | what is asserted | state |\n|---|---|---|\n");
        for number in 1..=count {
            let row = format!("{letter}{number}");
            let empty = Shown::default();
            let shown = rows.get(&row).unwrap_or(&empty);
            let lacking = MISSING.iter().find(|(name, _)| *name == row);
            let anywhere = ANYWHERE.contains(&&*row);
            let enough = shown.on_each_store || anywhere;
            let state = match (shown.asserted.is_empty(), enough, lacking) {
                (true, _, None) => "not yet".to_owned(),
                (true, _, Some((_, lacking))) => format!("not yet; it needs {lacking}"),
                (false, true, None) => "shown".to_owned(),
                (false, true, Some((_, lacking))) => format!("in part; not yet: {lacking}"),
                (false, false, _) => "in part; not yet on every store".to_owned(),
            };
            let kind = state.split(';').next().unwrap_or_default();
            *states
                .entry(["shown", "in part", "not yet"].into_iter().find(|s| *s == kind).unwrap_or("in part"))
                .or_default() += 1;
            let mark = if anywhere { "\u{2020}" } else { "" };
            let _ = writeln!(page, "| {row}{mark} | {} | {state} |", shown.asserted.join("<br>"));
        }
    }
    let counts: Vec<String> = ["shown", "in part", "not yet"]
        .iter()
        .map(|state| format!("{} {state}", states.get(state).unwrap_or(&0)))
        .collect();
    let rows: u32 = SYSTEMS.iter().map(|(_, count, _)| count).sum();
    let _ = write!(page, "\nOf {rows} rows: {}.\n", counts.join(", "));
    page
}

/// How tests in another language are named: `def test_k13_…`, `test("t13_…", …)`.
struct Tests {
    language: &'static str,
    /// Part of the name of a file with tests.
    suffix: &'static str,
    before: &'static str,
    after: char,
}

impl Tests {
    /// The rows that they show, each with what is asserted.
    fn shown_in(&self, root: &Path, directories: &[&str]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for directory in directories {
            let files = fs::read_dir(root.join(directory)).unwrap().map(|entry| entry.unwrap().path());
            let mut files: Vec<PathBuf> =
                files.filter(|path| path.is_file() && path.to_string_lossy().contains(self.suffix)).collect();
            files.sort();
            for file in files {
                let text = fs::read_to_string(file).unwrap();
                for name in text.split(self.before).skip(1).filter_map(|rest| rest.split(self.after).next()) {
                    let asserted = format!("{} *({})*", sentence(name), self.language);
                    found.extend(rows_of(name).into_iter().map(|row| (row, asserted.clone())));
                }
            }
        }
        found
    }
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn crate_of(root: &Path, source: &Path) -> String {
    let inside = source.strip_prefix(root.join("crates")).unwrap();
    inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned()
}

/// The tests named after rows, and whether each runs on every store.
fn functions(text: &str, all_are_tests: bool) -> Vec<(String, bool)> {
    let listed = text.split("on_each_store! {").nth(1).unwrap_or_default();
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("fn ") {
        let before = rest[..at].trim_end();
        rest = &rest[at + 3..];
        let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        if rows_of(&name).is_empty() || !(all_are_tests || before.ends_with("#[test]")) {
            continue;
        }
        let body = rest.split("\n}").next().unwrap_or_default();
        let each = ["stores::each", "on_each("].iter().any(|call| body.contains(call))
            || listed.contains(&format!("    {name},"));
        found.push((name, each));
    }
    found
}

/// A test's name without its rows, as a sentence: `l3_l7_lunches_are_kept` → Lunches are kept.
fn sentence(name: &str) -> String {
    let words: Vec<&str> = name.split('_').skip(rows_of(name).len()).collect();
    let mut text = words.join(" ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// The rows a name begins with: `l3_l7_lunches` → L3, L7.
fn rows_of(name: &str) -> Vec<String> {
    let row = |part: &&str| {
        let (letter, number) = part.split_at_checked(1)?;
        let letter = letter.to_ascii_uppercase().chars().next()?;
        let count = SYSTEMS.iter().find(|(known, ..)| *known == letter)?.1;
        let number: u32 = number.parse().ok()?;
        (1..=count).contains(&number).then(|| format!("{letter}{number}"))
    };
    name.split('_').map_while(|part| row(&part)).collect()
}
