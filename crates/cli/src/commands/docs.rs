//! `larder docs`: a schema as a document for people.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use larder_schema::emit;

use crate::{project, terminal};

/// Write a schema out as Markdown: tables, keys, access patterns and their cost, lifecycles
#[derive(Debug, Args)]
pub(crate) struct Docs {
    /// Systems or files; `-` is stdin [default: all schemas in schemas/ or here]
    #[arg(value_name = "SYSTEM_OR_FILE")]
    names: Vec<String>,
    /// Write SYSTEM.md for each into this directory, created if absent, instead of to stdout
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Docs {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let paths = if self.names.is_empty() {
            project::schemas(&[])?
        } else {
            self.names.iter().map(|name| project::named(name)).collect::<Result<_, _>>()?
        };
        if paths.len() > 1 && self.out.is_none() {
            return Err(format!(
                "there are several schemas: name one, or give a directory with --out: {}",
                project::listed(&paths)
            ));
        }
        let mut code = ExitCode::SUCCESS;
        for path in paths {
            let Some(schema) = terminal::sound(project::load(&path)?) else {
                code = ExitCode::FAILURE;
                continue;
            };
            let text = emit::docs(&schema);
            let Some(directory) = &self.out else {
                terminal::print(&text)?;
                continue;
            };
            let file = directory.join(format!("{}.md", schema.system));
            fs::create_dir_all(directory)
                .and_then(|()| project::replace(&file, &text))
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
            terminal::print(&format!("wrote {}\n", file.display()))?;
        }
        Ok(code)
    }
}
