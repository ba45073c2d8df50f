//! `larder init`: a schema to begin with.
//!
//! Each of the five is a system that is really run, so it shows the language at work. An existing file is
//! never written over, not even one that appears between the look and the write.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use larder_console::SchemaFile;
use larder_schema::{NoFiles, Schema};

use crate::{project, terminal};

/// Begin a schema from one of five systems
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The system to begin from
    #[arg(value_enum, default_value_t = Example::Lunch)]
    example: Example,
    /// Where it is put, created if absent
    #[arg(long, value_name = "DIR", default_value = "schemas")]
    dir: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Example {
    /// Horse races and results: one table, many entities, a collection
    Keiba,
    /// Disclosures, runs and exports: three tables, sequences, lifecycles
    Tdnet,
    /// Forecasts from a paid source: a cache with a price per call
    Weather,
    /// Crawled shops and pages: leases, due times, sparse indexes
    Shops,
    /// Weekly menus: one table, one key, two weeks to live
    Lunch,
}

impl Example {
    fn name(self) -> &'static str {
        match self {
            Self::Keiba => "keiba",
            Self::Tdnet => "tdnet",
            Self::Weather => "weather",
            Self::Shops => "shops",
            Self::Lunch => "lunch",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Keiba => include_str!("../../../../schemas/keiba.larder"),
            Self::Tdnet => include_str!("../../../../schemas/tdnet.larder"),
            Self::Weather => include_str!("../../../../schemas/weather.larder"),
            Self::Shops => include_str!("../../../../schemas/shops.larder"),
            Self::Lunch => include_str!("../../../../schemas/lunch.larder"),
        }
    }
}

impl Init {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let path = self.dir.join(format!("{}.larder", self.example.name()));
        fs::create_dir_all(&self.dir)
            .map_err(|error| format!("cannot make the directory {}: {error}", self.dir.display()))?;
        create(&path, self.example.text())?;
        terminal::print(&next_steps(&path))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// All five, loaded, for a console that shows them.
pub(super) fn schemas() -> Vec<SchemaFile> {
    let load = |example: &Example| {
        let path = PathBuf::from(format!("{}.larder", example.name()));
        let name = path.display().to_string();
        let loaded = Schema::load(&name, example.text(), &mut NoFiles, &project::environment());
        SchemaFile { path, loaded: Ok(loaded) }
    };
    Example::value_variants().iter().map(load).collect()
}

fn create(path: &Path, text: &str) -> Result<(), String> {
    OpenOptions::new().write(true).create_new(true).open(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(
        |error| match error.kind() {
            ErrorKind::AlreadyExists => format!(
                "{} is already there and stays as it is; move it away, or choose another directory with --dir",
                path.display()
            ),
            _ => format!("cannot write {}: {error}", path.display()),
        },
    )
}

fn next_steps(path: &Path) -> String {
    let path = path.display();
    let steps = [
        (format!("larder check {path}"), "says what is wrong with it"),
        (format!("larder fmt {path}"), "lays it out"),
        (format!("larder docs {path}"), "writes it out for people"),
        (format!("larder plan {path}"), "shows the tables it would make"),
        (format!("larder serve --schema {path}"), "serves tables, and refuses what it does not allow"),
        ("larder lsp".to_owned(), "helps an editor as you type"),
    ];
    let width = steps.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let mut text = format!("wrote {path}\n\nNow make it yours. Then:\n");
    for (command, purpose) in steps {
        let _ = writeln!(text, "  {command:width$}  {purpose}");
    }
    text
}
