//! The schemas that writes are held against, and others once their files change.
//!
//! They are read at the start, where one that is wrong ends it, and again as `follow.rs` says. What is right is in force from
//! the next write; what is not is logged, and what was in force stays so.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use larder::guard::{Guard, Mode, Rules, Tally};
use larder_engine::Engine;
use larder_schema::{Colour, render_all};

use super::follow::{Followed, Seen, look};
use crate::count;
use crate::project;

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum ModeWord {
    /// Refuse what breaks them
    #[default]
    Enforce,
    /// Let it through, count it in /metrics, log the first of each kind
    Report,
}

impl From<ModeWord> for Mode {
    fn from(word: ModeWord) -> Self {
        match word {
            ModeWord::Enforce => Self::Enforce,
            ModeWord::Report => Self::Report,
        }
    }
}

/// Where schemas are, and what is done with what breaks them.
#[derive(Clone, Debug)]
pub(super) struct Schemas {
    paths: Vec<PathBuf>,
    mode: Mode,
    tally: Arc<Tally>,
}

impl Schemas {
    pub(super) fn new(paths: Vec<PathBuf>, mode: Mode) -> Self {
        Self { paths, mode, tally: Arc::default() }
    }

    /// The rules that the files give now, or what is wrong with them; and the files as they were before they were read.
    pub(super) fn read(&self) -> (Seen, Result<Rules, String>) {
        (look(self.all_files()), self.rules())
    }

    fn rules(&self) -> Result<Rules, String> {
        let mut rules = Rules::default();
        let mut wrong = String::new();
        for path in self.files()? {
            let loaded = project::load(&path)?;
            match loaded.schema {
                None => wrong += &render_all(&loaded.diagnostics, &loaded.files, Colour::Plain),
                Some(schema) => rules
                    .add(&Arc::new(schema), &project::environment(), &loaded.files)
                    .map_err(|error| format!("{}: {error}", path.display()))?,
            }
        }
        if wrong.is_empty() { Ok(rules) } else { Err(wrong) }
    }

    /// Puts rules in force.
    pub(super) fn enforce(&self, rules: Rules, engine: &Engine) {
        let guard = Guard::new(Arc::new(rules), self.mode, Arc::clone(&self.tally));
        engine.set_guard(Some(Arc::new(guard)));
    }

    /// What there is for `/metrics`.
    pub(super) fn metrics(&self) -> String {
        self.tally.expose(self.mode)
    }

    fn take(&self, rules: Result<Rules, String>, engine: &Engine) {
        let schemas = project::listed(&self.paths);
        self.tally.read(rules.is_ok());
        match rules {
            Ok(rules) => {
                let tables = count(rules.tables().count(), "table");
                self.enforce(rules, engine);
                tracing::warn!(%schemas, "read again: {tables}, in force from the next write");
            }
            Err(wrong) => {
                tracing::error!(%schemas, "the schemas in force stay as they were, because the new ones are wrong:\n{wrong}");
            }
        }
    }

    /// All files that are schemas or parts of them.
    fn all_files(&self) -> Vec<PathBuf> {
        let mut files = self.files().unwrap_or_default();
        let parts = files.iter().flat_map(|path| {
            let text = project::text(path).unwrap_or_default();
            project::includes(&text).into_iter().map(|part| project::beside(path, &part))
        });
        let parts: Vec<PathBuf> = parts.collect();
        files.extend(parts);
        files
    }

    fn files(&self) -> Result<Vec<PathBuf>, String> {
        let mut files = Vec::new();
        for path in &self.paths {
            if path.is_dir() {
                files.extend(project::schemas_in(path)?);
            } else {
                files.push(path.clone());
            }
        }
        Ok(files)
    }
}

/// Schemas, and the store that they are in force on.
#[derive(Debug)]
pub(super) struct InForce {
    pub(super) schemas: Schemas,
    pub(super) engine: Engine,
}

impl Followed for InForce {
    fn files(&self) -> Vec<PathBuf> {
        self.schemas.all_files()
    }

    fn read_again(&self) {
        self.schemas.take(self.schemas.rules(), &self.engine);
    }
}
