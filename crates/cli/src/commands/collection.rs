//! `larder collection`: the records of several entities that lie in one partition, as one.
//!
//! `get` and `rm` name the partition by the fields of its key. `put` takes a JSON object a line, whose member `entity` says
//! what it is of: what `get --json` prints. All of it is written in one transaction, or nothing.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use larder::store::STORE_VARIABLE;
use larder::text::json;
use larder::{Address, Collection as Shelves, Entries, Error, Fields, System};
use larder_schema::{Schema, schema};
use serde_json::Value as Json;

use super::plan;
use crate::data::{self, Given, Kind, NOT_FOUND, check_there, system_named, told, unknown};
use crate::{held, project, terminal};

/// Show, write or remove the records of a collection, such as shops.ShopWithPages
#[derive(Debug, Args)]
pub(crate) struct Collection {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show all records of one partition; exits with 4 when there are none
    Get {
        #[command(flatten)]
        target: Target,
        /// The fields that name the partition
        #[arg(value_name = "NAME=VALUE", required = true)]
        key: Vec<Given>,
    },
    /// Write records of one partition, all of them or none
    Put {
        #[command(flatten)]
        target: Target,
        /// A JSON object a line, as `larder collection get --json` prints them; `-` is stdin
        #[arg(long, value_name = "FILE", default_value = project::STDIN)]
        file: PathBuf,
    },
    /// Remove all records of one partition; exits with 4 when there are none
    Rm {
        #[command(flatten)]
        target: Target,
        /// The fields that name the partition
        #[arg(value_name = "NAME=VALUE", required = true)]
        key: Vec<Given>,
    },
}

#[derive(Debug, Args)]
struct Target {
    /// The collection, such as shops.ShopWithPages
    #[arg(value_name = "SYSTEM.COLLECTION")]
    collection: String,
    /// Where the tables are: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    store: Address,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Print secrets too
    #[arg(long, requires = "json")]
    show_secrets: bool,
}

impl Collection {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        match self.action {
            Action::Get { target, key } => target.get(&key),
            Action::Put { target, file } => target.put(&file),
            Action::Rm { target, key } => target.rm(&key),
        }
    }
}

/// A collection of a schema.
struct Found {
    schema: Schema,
    members: Vec<Kind>,
    name: String,
}

impl Found {
    /// The values that name a partition: every member has them.
    fn key(&self, given: &[Given]) -> Result<Fields, String> {
        let member = self.members.first().ok_or("the collection has no members")?;
        let (_, partition, _) =
            super::query::partition(member, &given.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        Ok(partition)
    }

    fn member(&self, entity: &str) -> Result<&Kind, String> {
        let member = self.members.iter().find(|kind| kind.entity().name == entity);
        member.ok_or_else(|| {
            let known: Vec<&str> = self.members.iter().map(|kind| kind.entity().name.as_str()).collect();
            unknown(&self.name, "entity", entity, &known)
        })
    }
}

impl Target {
    fn found(&self) -> Result<Found, String> {
        let Some((system, name)) = self.collection.rsplit_once('.') else {
            let text = &self.collection;
            return Err(format!(
                "`{text}` names no collection of a system: write it like shops.ShopWithPages"
            ));
        };
        let schema = system_named(system)?;
        let collections = || schema.tables.iter().flat_map(|table| &table.collections);
        let found: Option<&schema::Collection> = collections().find(|collection| collection.name == name);
        let found = found.ok_or_else(|| {
            let known: Vec<&str> = collections().map(|collection| collection.name.as_str()).collect();
            unknown(&schema.system, "collection", name, &known)
        })?;
        let members = found.members.iter().map(|member| Kind::of(schema.clone(), member));
        Ok(Found { members: members.collect::<Result<_, String>>()?, name: name.to_owned(), schema })
    }

    fn work<T>(
        &self,
        found: &Found,
        work: impl AsyncFnOnce(Shelves<Entries>) -> Result<T, Error>,
    ) -> Result<T, String> {
        let done = plan::runtime()?.block_on(async {
            let store = held::open(&self.store).await?;
            let system = System::open_with(found.schema.clone(), store, project::environment()).await?;
            work(system.collection(&found.name).expect("the schema has it")).await
        });
        done.map_err(|error| told(&self.store, &error))
    }

    fn get(&self, key: &[Given]) -> Result<ExitCode, String> {
        let found = self.found()?;
        let partition = found.key(key)?;
        check_there(&self.store)?;
        let Some(entries) = self.work(&found, async |shelves| shelves.get(partition).await)? else {
            return Ok(self.not_found(key));
        };
        for kind in &found.members {
            let entity = &kind.entity().name;
            let ours: Vec<_> = entries.of(entity).cloned().collect();
            if ours.is_empty() {
                continue;
            }
            if !self.json {
                terminal::print(&format!("{entity}\n{}\n", data::records(kind, &ours, false, false)))?;
                continue;
            }
            for entry in &ours {
                let mut line = serde_json::Map::from_iter([("entity".to_owned(), entity.as_str().into())]);
                line.extend(data::object(kind, entry, self.show_secrets));
                terminal::print(&format!("{}\n", Json::Object(line)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn put(&self, file: &std::path::Path) -> Result<ExitCode, String> {
        let found = self.found()?;
        let text = project::text(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let mut new: Vec<(String, Fields)> = Vec::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let told = |error: String| format!("{}:{}: {error}", file.display(), at + 1);
            let json = json::parse(line).map_err(|error| told(error.to_string()))?;
            let Json::Object(mut members) = json else {
                return Err(told("this is no JSON object".to_owned()));
            };
            let Some(Json::String(entity)) = members.remove("entity") else {
                return Err(told("`entity` is missing: it says what the record is of".to_owned()));
            };
            let kind = found.member(&entity).map_err(told)?;
            let fields = kind.draft(Some(Json::Object(members)), &[]).map_err(told)?;
            new.push((entity, fields));
        }
        let count = new.len();
        if count == 0 {
            return Err(format!("{} holds no records: nothing was written", file.display()));
        }
        self.work(&found, async |shelves| shelves.put(new).await)?;
        terminal::print(&format!("{} written\n", terminal::count(count, "record")))?;
        Ok(ExitCode::SUCCESS)
    }

    fn rm(&self, key: &[Given]) -> Result<ExitCode, String> {
        let found = self.found()?;
        let partition = found.key(key)?;
        check_there(&self.store)?;
        let removed = self.work(&found, async |shelves| shelves.delete(partition).await)?;
        if removed == 0 {
            return Ok(self.not_found(key));
        }
        terminal::print(&format!("{} removed\n", terminal::count(removed, "record")))?;
        Ok(ExitCode::SUCCESS)
    }

    fn not_found(&self, key: &[Given]) -> ExitCode {
        let key: Vec<String> = key.iter().map(ToString::to_string).collect();
        eprintln!("larder: there is no {} {}", self.collection, key.join(" "));
        ExitCode::from(NOT_FOUND)
    }
}
