//! `larder stats`: how much is in the tables.
//!
//! Without `--exact` the store is asked what it knows, which costs nothing and may be hours old. With it whole tables
//! are read, and each item is counted by what the schema makes of it; where that costs money, not without `--yes`.

use std::process::ExitCode;

use clap::Args;
use larder::census::{self, Census, Count, Size};
use larder::price::{self, Units, read_units};
use larder::store::{self, STORE_VARIABLE};
use larder::{Address, Error, Schema, Store, System};
use larder_schema::TableSetup;
use serde_json::{Value, json};

use super::plan;
use crate::data::{self, Kind};
use crate::{held, project, terminal};

/// Count what is in the tables and indexes
///
/// The store says at once what it knows: DynamoDB counts about every six hours, the embedded store always.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The system or entity, such as keiba or keiba.Race, if not all there are
    #[arg(value_name = "SYSTEM|SYSTEM.ENTITY")]
    of: Option<String>,
    /// Where the tables are: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    store: Address,
    /// Read whole tables: records by entity, what has expired, states, what belongs to no entity
    #[arg(long)]
    exact: bool,
    /// Read them although that costs money
    #[arg(long, requires = "exact")]
    yes: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// A system, and the one entity that is meant, if any.
struct Asked {
    schema: Schema,
    entity: Option<String>,
}

/// A table, where it is, and what the store says about it.
struct Found {
    setup: TableSetup,
    size: Option<Size>,
}

impl Stats {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let asked = self.asked()?;
        data::check_there(&self.store)?;
        let whole = plan::runtime()?.block_on(async {
            let store = held::open(&self.store).await.map_err(|error| plan::advise(&self.store, &error))?;
            let mut found = Vec::new();
            for asked in &asked {
                found.push(self.sizes(&store, asked).await?);
            }
            if !self.exact {
                return self.show_sizes(found.iter().flatten()).map(|()| true);
            }
            let sizes = found.iter().flatten().filter_map(|found| found.size.as_ref());
            let read = sizes.map(|size| read_units(size.bytes, false)).sum();
            let units = Units { read, write: 0.0 };
            if read > 0.0 && self.costs() {
                eprintln!("reading these tables whole takes about {units}");
                if !self.yes {
                    eprintln!("Nothing was read; --yes reads them.");
                    return Ok(true);
                }
            }
            let mut whole = true;
            for (asked, found) in asked.iter().zip(&found) {
                whole &= self.count(&store, asked, found).await?;
            }
            Ok::<_, String>(whole)
        })?;
        Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Whether somebody is paid for what is read. An endpoint of one's own is not.
    fn costs(&self) -> bool {
        match &self.store {
            Address::Directory(_) | Address::Memory => false,
            Address::DynamoDb { endpoint: None } => true,
            Address::DynamoDb { endpoint: Some(endpoint) } => endpoint.contains(".amazonaws.com"),
        }
    }

    fn asked(&self) -> Result<Vec<Asked>, String> {
        let (paths, entity) = match &self.of {
            None => (project::schemas(&[])?, None),
            Some(of) => match project::named(of) {
                Ok(path) => (vec![path], None),
                Err(error) => {
                    let (system, entity) = of.rsplit_once('.').ok_or(error)?;
                    (vec![project::named(system)?], Some(entity.to_owned()))
                }
            },
        };
        let mut asked = Vec::new();
        for path in paths {
            let schema = data::system_at(&path)?;
            let schema = match &entity {
                Some(name) => Kind::of(schema, name)?.schema,
                None => schema,
            };
            asked.push(Asked { schema, entity: entity.clone() });
        }
        Ok(asked)
    }

    /// What the store says about the tables that are meant.
    async fn sizes(&self, store: &Store, asked: &Asked) -> Result<Vec<Found>, String> {
        let wrong = |error: store::Error| plan::advise(&self.store, &error);
        let setups = asked.schema.tables(&project::environment());
        let setups = setups.map_err(|errors| Error::Environment(errors).to_string())?;
        let mut found = Vec::new();
        for setup in setups {
            let table = asked.schema.tables.iter().find(|table| table.name == setup.table);
            let has = |name: &String| {
                table.is_some_and(|table| table.entities.iter().any(|entity| entity.name == *name))
            };
            if asked.entity.as_ref().is_some_and(|name| !has(name)) {
                continue;
            }
            let store = store.at(setup.region.as_deref());
            let size = census::size(&store, &setup.definition.name).await.map_err(wrong)?;
            found.push(Found { setup, size });
        }
        Ok(found)
    }

    fn show_sizes<'a>(&self, found: impl Iterator<Item = &'a Found>) -> Result<(), String> {
        let (mut rows, mut lines) = (Vec::new(), String::new());
        for Found { setup, size } in found {
            let table = &setup.definition.name;
            let Some(size) = size else {
                rows.push(vec![table.to_string(), "not there".to_owned(), String::new()]);
                lines.push_str(&format!(
                    "{}\n",
                    json!({"table": table.as_str(), "index": null, "there": false})
                ));
                continue;
            };
            for (at, one) in std::iter::once(size).chain(&size.indexes).enumerate() {
                let index = (at > 0).then_some(one.name.as_str());
                let name = index.map_or_else(|| table.to_string(), |index| format!("  {index}"));
                rows.push(vec![name, one.items.to_string(), price::size(one.bytes)]);
                let json = json!({
                    "table": table.as_str(),
                    "index": index,
                    "there": true,
                    "items": one.items,
                    "bytes": one.bytes,
                });
                lines.push_str(&format!("{json}\n"));
            }
        }
        if self.json {
            return terminal::print(&lines);
        }
        terminal::print(&data::table(&["table or index", "items", "size"].map(str::to_owned), rows))?;
        terminal::print(match &self.store {
            Address::Directory(_) | Address::Memory => "counted as of now\n",
            Address::DynamoDb { endpoint: Some(_) } => {
                "as the endpoint says; DynamoDB itself counts about every six hours: --exact counts now\n"
            }
            Address::DynamoDb { endpoint: None } => {
                "as DynamoDB counted within the last six hours: --exact counts now\n"
            }
        })
    }

    /// Reads the tables of a system and shows what is in them. False if one is not there.
    async fn count(&self, store: &Store, asked: &Asked, found: &[Found]) -> Result<bool, String> {
        let wrong = |error: Error| data::told(&self.store, &error);
        let system = System::open_with(asked.schema.clone(), store.clone(), project::environment()).await;
        let system = system.map_err(wrong)?;
        let mut whole = true;
        for Found { setup, size } in found {
            let Some(size) = size else {
                eprintln!(
                    "larder: there is no table {}: create it with `larder apply`",
                    setup.definition.name
                );
                whole = false;
                continue;
            };
            let bar = terminal::progress(Some(size.items), size.name.clone());
            let census = system.census(&setup.table, |items| bar.set_position(items)).await;
            bar.finish_and_clear();
            let Some(census) = census.map_err(wrong)? else { continue };
            terminal::print(&match self.json {
                true => format!("{}\n", as_json(asked, &size.name, &census)),
                false => as_text(asked, &size.name, &census),
            })?;
        }
        Ok(whole)
    }
}

impl Asked {
    /// The counts that are meant.
    fn counts<'a>(&self, census: &'a Census) -> impl Iterator<Item = (&'a String, &'a Count)> {
        census.entities.iter().filter(|(name, _)| self.entity.as_ref().is_none_or(|wanted| wanted == *name))
    }
}

fn as_json(asked: &Asked, table: &str, census: &Census) -> Value {
    let entity = |(name, count): (&String, &Count)| {
        let counted = json!({
            "items": count.items,
            "bytes": count.bytes,
            "fresh": count.fresh,
            "expired": count.expired,
            "within_hour": count.within_hour,
            "within_day": count.within_day,
            "states": count.states,
        });
        (name.clone(), counted)
    };
    json!({
        "table": table,
        "entities": asked.counts(census).map(entity).collect::<serde_json::Map<_, _>>(),
        "parts": {"items": census.parts.items, "bytes": census.parts.bytes},
        "strangers": {
            "items": census.strangers.items,
            "bytes": census.strangers.bytes,
            "keys": census.stranger_keys,
        },
        "markers": census.markers,
        "read_units": census.units,
    })
}

fn as_text(asked: &Asked, table: &str, census: &Census) -> String {
    let names =
        ["entity", "items", "size", "fresh", "expired", "ends in 1h", "ends in 1d"].map(str::to_owned);
    let rows = asked.counts(census).map(|(name, count)| {
        let counts = [count.fresh, count.expired, count.within_hour, count.within_day];
        let first =
            [format!("{}.{name}", asked.schema.system), count.items.to_string(), price::size(count.bytes)];
        first.into_iter().chain(counts.map(|count| count.to_string())).collect()
    });
    let mut text = format!("{table}: {}\n", terminal::count(whole(census.items()), "item"));
    text.push_str(&data::table(&names, rows.collect()));
    for (name, count) in asked.counts(census) {
        for (lifecycle, states) in count.states.iter().filter(|(_, states)| !states.is_empty()) {
            let states: Vec<String> =
                states.iter().map(|(state, count)| format!("{count} {state}")).collect();
            text.push_str(&format!("{name} {lifecycle}: {}\n", states.join(", ")));
        }
    }
    let mut rest = |size: &Size, what: &str, more: &str| {
        if size.items > 0 {
            let items = terminal::count(whole(size.items), "item");
            text.push_str(&format!("{items}, {}, {what}{more}\n", price::size(size.bytes)));
        }
    };
    rest(&census.parts, "hold parts of larger records", "");
    let keys: Vec<String> = census.stranger_keys.iter().map(|key| data::plain(key)).collect();
    rest(&census.strangers, "cannot be read as any entity, such as ", &keys.join(", "));
    if census.markers > 0 {
        let markers = terminal::count(whole(census.markers), "item");
        text.push_str(&format!(
            "{markers} without a record: absences that are remembered, loads under way\n"
        ));
    }
    text
}

fn whole(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
