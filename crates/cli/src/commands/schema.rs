//! `larder schema`: a schema as other programs read it.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use larder_schema::schema::{Index, Table};
use larder_schema::{Entity, Field, emit};
use serde_json::{Value as Json, json};

use crate::{project, terminal};

/// Print a schema's canonical form as JSON, or the JSON Schema of that form
///
/// Two schemas that mean the same have the same JSON: keys are sorted and settings filled in.
#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// The system, or the file of its schema; `-` is stdin [default: the only one in schemas/ or here]
    #[arg(value_name = "SYSTEM", conflicts_with = "json_schema")]
    system: Option<String>,
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
        let path = self.system.as_deref().map_or_else(project::only, project::named)?;
        let Some(schema) = terminal::sound(project::load(&path)?) else { return Ok(ExitCode::FAILURE) };
        terminal::print(&format!("{:#}\n", emit::json(&schema)))?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn named(&self) -> Option<&str> {
        self.system.as_deref()
    }
}

/// A system, as short as it can be told: its entities, and how each is asked for.
#[derive(Debug)]
pub(super) struct System {
    file: PathBuf,
    /// Without one that is sound there is nothing to tell.
    schema: Option<larder_schema::Schema>,
}

/// The systems whose schemas are in these files.
pub(super) fn systems(files: &[PathBuf]) -> Result<Vec<System>, String> {
    let system = |file: &PathBuf| Ok(System { file: file.clone(), schema: project::load(file)?.schema });
    files.iter().map(system).collect()
}

impl System {
    fn entities(&self) -> impl Iterator<Item = (&Table, &Entity)> {
        let tables = self.schema.iter().flat_map(|schema| &schema.tables);
        tables.flat_map(|table| table.entities.iter().map(move |entity| (table, entity)))
    }

    pub(super) fn to_json(&self) -> Json {
        let entities = self.entities().map(|(table, entity)| {
            let indexes = indexes(table, entity).map(|(index, access)| {
                json!({
                    "index": index.alias,
                    "partition": names(&access),
                    "sort": access.sort.as_ref().map(|sort| sort.kind.to_string()),
                })
            });
            let lifecycles = entity.lifecycles.iter().map(|lifecycle| {
                json!({
                    "lifecycle": lifecycle.name,
                    "states": lifecycle.states.iter().map(|state| &state.name).collect::<Vec<_>>(),
                    "transitions": lifecycle.transitions.iter().map(|one| &one.name).collect::<Vec<_>>(),
                })
            });
            json!({
                "entity": self.whole(entity),
                "key": key(entity),
                "indexes": indexes.collect::<Vec<_>>(),
                "lifecycles": lifecycles.collect::<Vec<_>>(),
            })
        });
        json!({
            "system": self.schema.as_ref().map(|schema| &schema.system),
            "file": self.file.display().to_string(),
            "sound": self.schema.is_some(),
            "entities": entities.collect::<Vec<_>>(),
        })
    }

    fn whole(&self, entity: &Entity) -> String {
        let system = self.schema.as_ref().map_or("", |schema| schema.system.as_str());
        format!("{system}.{}", entity.name)
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, schema } = self;
        let Some(schema) = schema else {
            return write!(f, "{} has errors: `check` tells them", file.display());
        };
        write!(f, "{} ({})", schema.system, file.display())?;
        for (table, entity) in self.entities() {
            write!(f, "\n  {}  key {}", self.whole(entity), key(entity).join(" "))?;
            for (index, access) in indexes(table, entity) {
                write!(f, "; {} {}", index.alias, names(&access).join(" "))?;
            }
            for lifecycle in &entity.lifecycles {
                write!(f, "; lifecycle {}", lifecycle.name)?;
            }
        }
        Ok(())
    }
}

/// The fields that name a record.
fn key(entity: &Entity) -> Vec<String> {
    let of_key = entity.key_fields();
    let given = |name: &String| entity.field(name).is_some_and(Field::is_given);
    of_key.into_iter().filter(given).collect()
}

fn indexes<'a>(
    table: &'a Table,
    entity: &'a Entity,
) -> impl Iterator<Item = (&'a Index, larder_schema::Access)> {
    table.indexes.iter().filter_map(move |index| Some((index, entity.access(table, Some(index))?)))
}

/// The fields that name a partition.
fn names(access: &larder_schema::Access) -> Vec<&str> {
    access.arguments.iter().map(|argument| argument.name.as_str()).collect()
}
