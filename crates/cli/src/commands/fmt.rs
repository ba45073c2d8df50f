//! `larder fmt`: schemas, laid out the one way there is.
//!
//! A file is replaced whole or not at all. One that does not parse is left as it is, and its errors are told.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use larder_schema::{Diagnostic, SourceFile, format, parse, render_all};

use crate::{project, terminal};

/// Lay schemas out; comments stay, and doing it twice changes nothing
#[derive(Debug, Args)]
pub(crate) struct Fmt {
    /// Files; `-` is stdin, written to stdout [default: schemas/*.larder, or *.larder here]
    #[arg(value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Change nothing; name the files that would change, and exit with 1 if there are any
    #[arg(long)]
    check: bool,
}

impl Fmt {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let mut code = ExitCode::SUCCESS;
        for path in project::files(&self.files)? {
            let text = project::read(&path)?;
            if !parses(&path, &text) {
                code = ExitCode::FAILURE;
                continue;
            }
            let laid_out = format(&text);
            let changed = laid_out != text;
            let shown = path.display();
            if self.check {
                if changed {
                    code = ExitCode::FAILURE;
                    terminal::print(&format!("{shown} is not formatted; run `larder fmt {shown}`\n"))?;
                }
            } else if path == Path::new(project::STDIN) {
                terminal::print(&laid_out)?;
            } else if changed {
                project::replace(&path, &laid_out)
                    .map_err(|error| format!("cannot write {shown}: {error}"))?;
                terminal::print(&format!("formatted {shown}\n"))?;
            }
        }
        Ok(code)
    }
}

fn parses(path: &Path, text: &str) -> bool {
    let (_, diagnostics) = parse(text);
    let errors: Vec<Diagnostic> = diagnostics.into_iter().filter(Diagnostic::is_error).collect();
    if errors.is_empty() {
        return true;
    }
    let file = SourceFile { name: path.display().to_string(), text: text.to_owned() };
    let shown = render_all(&errors, &[file], terminal::error_colour());
    eprintln!("{shown}larder: {} cannot be laid out until it parses", path.display());
    false
}
