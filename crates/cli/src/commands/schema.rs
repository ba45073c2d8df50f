//! `larder schema`: a schema as other programs read it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use larder_schema::emit;

use crate::{project, terminal};

/// Print a schema's canonical form as JSON, or the JSON Schema of that form
///
/// Two schemas that mean the same have the same JSON: keys are sorted and settings filled in.
#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// The schema; `-` is stdin [default: the only one in schemas/ or here]
    #[arg(value_name = "FILE", conflicts_with = "json_schema")]
    file: Option<PathBuf>,
    /// The canonical form, which is also what is printed without this
    #[arg(long, conflicts_with = "json_schema")]
    json: bool,
    /// The published JSON Schema that describes the canonical form
    #[arg(long)]
    json_schema: bool,
}

impl Schema {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        if self.json_schema {
            terminal::print(emit::JSON_SCHEMA)?;
            return Ok(ExitCode::SUCCESS);
        }
        let path = self.file.map_or_else(project::only, Ok)?;
        let Some(schema) = terminal::sound(project::load(&path)?) else { return Ok(ExitCode::FAILURE) };
        terminal::print(&format!("{:#}\n", emit::json(&schema)))?;
        Ok(ExitCode::SUCCESS)
    }
}
