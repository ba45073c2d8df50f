//! `larder check`: what is wrong with schemas, and what a change to them breaks.
//!
//! Diagnostics are what was asked for, so they go to stdout. Warnings do not fail the check. A breaking change
//! fails it unless the schema's `version` was raised: then new tables are made, and nothing that is stored is
//! read with the wrong schema.
//!
//! With `--data`, what is stored is held against the schemas (`check/data.rs`).

mod data;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use larder_schema::{
    Change, Diagnostic, Impact, Loaded, Schema, Severity, SourceFile, Span, compare, render_all,
};
use serde_json::{Value, json};

use crate::history::{self, Past};
use crate::project;
use crate::terminal::{self, count};

/// Check schemas, and whether a change to them is compatible
///
/// Exits with 0 when nothing is wrong (warnings are allowed), with 1 when there are errors or a breaking change
/// without a new version, or when --data finds items that break their schema.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Files; `-` is stdin [default: schemas/*.larder, or *.larder here]
    #[arg(value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Compare with a file, or with the same files in a git revision, such as HEAD or main
    #[arg(long, value_name = "GIT_REV|FILE")]
    against: Option<String>,
    /// Print diagnostics and changes as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: data::Data,
}

impl Check {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        if self.data.data {
            return self.data.run(&self.files, self.json);
        }
        let reports = self.reports()?;
        let text = if self.json { format!("{:#}\n", as_json(&reports)) } else { as_text(&reports) };
        terminal::print(&text)?;
        let failed = reports.iter().any(Report::failed);
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// What was found, for people and for programs.
    pub(super) fn found(&self) -> Result<(String, Value), String> {
        let reports = self.reports()?;
        Ok((as_text(&reports), as_json(&reports)))
    }

    fn reports(&self) -> Result<Vec<Report>, String> {
        let paths = project::schemas(&self.files)?;
        if let Some(against) = &self.against
            && Path::new(against).is_file()
            && paths.len() > 1
        {
            return Err(format!("{against} is one file and there are several schemas; name one of them"));
        }
        let mut reports = Vec::new();
        for path in &paths {
            let loaded = project::load(path)?;
            let comparison = match (&self.against, &loaded.schema) {
                (Some(against), Some(new)) => Some(compared(path, against, new)?),
                _ => None,
            };
            reports.push(Report { loaded, comparison });
        }
        Ok(reports)
    }
}

struct Report {
    loaded: Loaded,
    comparison: Option<Comparison>,
}

struct Comparison {
    against: String,
    /// There was no such schema then, so there is nothing to break.
    new: bool,
    changes: Vec<Change>,
    /// The version before and now.
    versions: (u32, u32),
}

impl Report {
    fn failed(&self) -> bool {
        self.loaded.schema.is_none() || self.comparison.as_ref().is_some_and(Comparison::failed)
    }

    fn name(&self) -> &str {
        &self.loaded.files[0].name
    }
}

impl Comparison {
    fn breaking(&self) -> usize {
        self.changes.iter().filter(|change| change.impact == Impact::Breaking).count()
    }

    fn failed(&self) -> bool {
        self.breaking() > 0 && self.versions.1 <= self.versions.0
    }
}

fn compared(path: &Path, against: &str, new: &Schema) -> Result<Comparison, String> {
    let version = |schema: &Schema| schema.version.map_or(1, |version| version.number);
    let Some(Past { name, loaded }) = history::load(path, against)? else {
        let versions = (0, version(new));
        return Ok(Comparison { against: against.to_owned(), new: true, changes: Vec::new(), versions });
    };
    let old = loaded.schema.ok_or_else(|| {
        let first = loaded.diagnostics.iter().find(|diagnostic| diagnostic.is_error());
        let cause = first.map_or("it has errors", |diagnostic| diagnostic.message.as_str());
        format!("{name} cannot be compared with: {cause}; choose a version of it without errors")
    })?;
    let changes = compare(&old, new);
    Ok(Comparison { against: name, new: false, changes, versions: (version(&old), version(new)) })
}

fn as_text(reports: &[Report]) -> String {
    let mut text = String::new();
    for Report { loaded, .. } in reports {
        text += &render_all(&loaded.diagnostics, &loaded.files, terminal::colour());
    }
    for report in reports {
        if let Some(comparison) = &report.comparison {
            changes_as_text(&mut text, report.name(), comparison);
        }
    }
    let all = || reports.iter().flat_map(|report| &report.loaded.diagnostics);
    let errors = all().filter(|diagnostic| diagnostic.is_error()).count();
    let warnings = all().count() - errors;
    let failed = reports.iter().filter_map(|report| report.comparison.as_ref()).filter(|one| one.failed());
    let breaking = failed.map(Comparison::breaking).sum();
    let counts = [(errors, "error"), (warnings, "warning"), (breaking, "breaking change")];
    let found: Vec<String> = counts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, thing)| count(*number, thing))
        .collect();
    let found = if found.is_empty() { "nothing is wrong".to_owned() } else { found.join(", ") };
    let _ = writeln!(text, "{} checked: {found}", count(reports.len(), "schema"));
    if let Some(diagnostic) = all().find(|diagnostic| diagnostic.is_error()).or_else(|| all().next()) {
        let _ = writeln!(text, "`larder explain {}` tells more", diagnostic.code);
    }
    text
}

fn changes_as_text(text: &mut String, name: &str, comparison: &Comparison) {
    let Comparison { against, new, changes, versions: (before, now) } = comparison;
    if *new {
        let _ = writeln!(text, "{name} is new since {against}\n");
        return;
    }
    if changes.is_empty() {
        let _ = writeln!(text, "{name} means what it meant in {against}\n");
        return;
    }
    let _ = writeln!(text, "{name} since {against}:");
    for change in changes {
        let word = match change.impact {
            Impact::Compatible => "compatible",
            Impact::Breaking => "breaking",
        };
        let _ = writeln!(text, "  {word:10}  {}: {}", change.path, change.what);
        let _ = writeln!(text, "  {:10}  {}", "", change.why);
    }
    let breaking = comparison.breaking();
    if comparison.failed() {
        let _ = writeln!(
            text,
            "{}: take {} back, or write `version {}` so that a new table is made beside the old one\n",
            count(breaking, "breaking change"),
            if breaking == 1 { "it" } else { "them" },
            before.saturating_add(1)
        );
    } else if breaking > 0 {
        let _ = writeln!(
            text,
            "{}, and the version went from {before} to {now}: new tables are made\n",
            count(breaking, "breaking change")
        );
    } else {
        let _ = writeln!(text, "all compatible\n");
    }
}

fn as_json(reports: &[Report]) -> Value {
    let schemas: Vec<Value> = reports
        .iter()
        .map(|report| {
            let files = &report.loaded.files;
            let diagnostics = report.loaded.diagnostics.iter().map(|one| diagnostic_as_json(one, files));
            json!({
                "file": report.name(),
                "diagnostics": diagnostics.collect::<Vec<_>>(),
                "comparison": report.comparison.as_ref().map(comparison_as_json),
            })
        })
        .collect();
    json!({"ok": !reports.iter().any(Report::failed), "schemas": schemas})
}

fn diagnostic_as_json(diagnostic: &Diagnostic, files: &[SourceFile]) -> Value {
    let others =
        diagnostic.others.iter().map(|(span, label)| json!({"at": place(*span, files), "label": label}));
    json!({
        "code": diagnostic.code,
        "severity": match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        "message": diagnostic.message,
        "at": place(diagnostic.span, files),
        "label": diagnostic.label,
        "others": others.collect::<Vec<_>>(),
        "notes": diagnostic.notes,
        "helps": diagnostic.helps,
    })
}

/// Lines and columns count from 1, columns in characters.
fn place(span: Span, files: &[SourceFile]) -> Value {
    let Some(file) = files.get(span.file as usize) else { return Value::Null };
    let (line, column) = file.place(span.start as usize);
    let (end_line, end_column) = file.place(span.end as usize);
    json!({
        "file": file.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    })
}

fn comparison_as_json(comparison: &Comparison) -> Value {
    let changes = comparison.changes.iter().map(|change| {
        json!({
            "impact": match change.impact {
                Impact::Compatible => "compatible",
                Impact::Breaking => "breaking",
            },
            "path": change.path,
            "what": change.what,
            "why": change.why,
        })
    });
    json!({
        "against": comparison.against,
        "new": comparison.new,
        "compatible": comparison.breaking() == 0,
        "versions": {"before": comparison.versions.0, "now": comparison.versions.1},
        "changes": changes.collect::<Vec<_>>(),
    })
}
