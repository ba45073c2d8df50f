//! `larder query`: the records of one partition, by an index or by the table's own key.
//!
//! A partition is named by fields, and a range by values of the sort key, as the schema has them. Where a page ends
//! before the partition does, stderr says how to go on; so it does what was left out because it cannot be read.

use std::process::ExitCode;

use clap::Args;
use larder::text::{End, of_day};
use larder::{Entry, Error, Explanation, Fields, Page};
use larder_schema::Type;
use serde_json::{Value as Json, json};

use crate::data::{self, Access, Given, Kind, Target};
use crate::terminal;

/// List the records of one partition, by an index or by the table's own key
#[derive(Debug, Args)]
pub(crate) struct Query {
    #[command(flatten)]
    target: Target,
    /// An index, such as by_company, if not the table itself; then the fields that name a partition
    #[arg(value_name = "INDEX|NAME=VALUE", required = true)]
    asked: Vec<String>,
    /// Only with this sort key
    #[arg(long, value_name = "VALUE", conflicts_with_all = ["from", "until", "begins_with"])]
    at: Option<String>,
    /// Only with this sort key or a later one; where it is a moment, a day is its first one
    #[arg(long, value_name = "VALUE", conflicts_with = "begins_with")]
    from: Option<String>,
    /// Only with this sort key or an earlier one; where it is a moment, a day is its last one
    #[arg(long, value_name = "VALUE", conflicts_with = "begins_with")]
    until: Option<String>,
    /// Only with a sort key that begins so
    #[arg(long, value_name = "TEXT")]
    begins_with: Option<String>,
    /// From the last sort key to the first
    #[arg(long)]
    newest_first: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Go on where a page ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Also what has expired and is still stored
    #[arg(long)]
    even_expired: bool,
    /// Fail at a record that cannot be read, instead of telling how many were left out
    #[arg(long)]
    strict: bool,
    /// Show the request and its price, and ask nothing
    #[arg(long)]
    explain: bool,
}

impl Query {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        if self.explain {
            let (_, explained) = self.explained()?;
            let text = match self.target.json {
                true => format!("{}\n", as_json(&explained)),
                false => format!("{explained}\n"),
            };
            terminal::print(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (kind, page) = self.page(self.limit)?;
        if page.items.is_empty() && !self.target.json {
            terminal::print("nothing is there\n")?;
        } else {
            let Target { json, show_secrets, .. } = self.target;
            terminal::print(&data::records(&kind, &page.items, json, show_secrets))?;
        }
        data::tell_unread(&page.unread);
        if let Some(cursor) = page.cursor {
            eprintln!("there may be more: --cursor {cursor}");
        }
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn is_explained(&self) -> bool {
        self.explain
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn page(&self, limit: usize) -> Result<(Kind, Page<Entry>), String> {
        self.ask(limit, async |query| query.page().await)
    }

    /// What would be asked, and its price.
    pub(super) fn explained(&self) -> Result<(Kind, Explanation), String> {
        self.ask(self.limit, async |query| query.explain())
    }

    fn ask<T>(
        &self,
        limit: usize,
        work: impl AsyncFnOnce(larder::Query<Entry>) -> Result<T, Error>,
    ) -> Result<(Kind, T), String> {
        let kind = self.target.kind()?;
        let (index, partition, sort) = partition(&kind, &self.asked)?;
        let bound = |option: &str, text: &Option<String>, end: End| {
            let text = text.as_ref().map(|text| of_day(&sort, text, end).unwrap_or_else(|| text.clone()));
            text.map(|text| kind.value(&sort, option, &text)).transpose()
        };
        let at = self.at.as_ref().map(|text| kind.value(&sort, "--at", text)).transpose()?;
        let from = bound("--from", &self.from, End::First)?;
        let until = bound("--until", &self.until, End::Last)?;
        let done = self.target.work(&kind, Access::Existing, async |shelf| {
            let mut query = match index {
                Some(index) => shelf.index_by(index, partition),
                None => shelf.within_by(partition),
            };
            query = query.limit(limit);
            for (value, narrow) in [
                (at, larder::Query::at as fn(larder::Query<_>, larder::Value) -> larder::Query<_>),
                (from, larder::Query::from),
                (until, larder::Query::until),
            ] {
                if let Some(value) = value {
                    query = narrow(query, value);
                }
            }
            if let Some(text) = &self.begins_with {
                query = query.begins_with(text);
            }
            if self.newest_first {
                query = query.newest_first();
            }
            if self.even_expired {
                query = query.even_expired();
            }
            if self.strict {
                query = query.strict();
            }
            if let Some(cursor) = &self.cursor {
                query = query.start_at(cursor);
            }
            work(query).await
        })?;
        Ok((kind, done))
    }
}

/// What a query would do, for programs.
pub(super) fn as_json(explained: &Explanation) -> Json {
    json!({
        "table": explained.table,
        "index": explained.index,
        "keys": explained.keys,
        "read_units": explained.units.read,
        "dollars": explained.units.dollars(),
        "request": serde_json::from_str::<Json>(&explained.request).unwrap_or_default(),
    })
}

/// The index that is asked, if not the table itself, the partition that is named by fields, and what its sort keys are.
pub(super) fn partition<'a>(
    kind: &Kind,
    asked: &'a [String],
) -> Result<(Option<&'a str>, Fields, Type), String> {
    let (index, given) = match asked.split_first() {
        Some((index, given)) if !index.contains('=') => (Some(index.as_str()), given),
        _ => (None, asked),
    };
    let access = access(kind, index)?;
    let known: Vec<&str> = access.arguments.iter().map(|argument| argument.name.as_str()).collect();
    let mut partition = Fields::new();
    for given in given {
        let Given { name, text } = given.parse()?;
        let argument = access.arguments.iter().find(|argument| argument.name == name);
        let argument = argument.ok_or_else(|| {
            format!("`{name}` does not name a partition here; {} does", known.join(" with "))
        })?;
        partition.insert(name, kind.value(&argument.kind, &argument.name, &text)?);
    }
    if let Some(missing) = known.iter().find(|name| !partition.contains_key(**name)) {
        return Err(format!("`{missing}` is missing: a partition is named by {}", known.join(" and ")));
    }
    let sort = access.sort.as_ref().map_or(Type::String, |sort| sort.kind.clone());
    Ok((index, partition, sort))
}

/// How an index, or the table itself, is asked.
fn access(kind: &Kind, index: Option<&str>) -> Result<larder_schema::Access, String> {
    let (table, entity) = (kind.table(), kind.entity());
    let found = match index {
        None => entity.access(table, None),
        Some(name) => table.index(name).and_then(|index| entity.access(table, Some(index))),
    };
    found.ok_or_else(|| {
        let holding = table.indexes.iter().filter(|index| entity.access(table, Some(index)).is_some());
        let known: Vec<&str> = holding.map(|index| index.alias.as_str()).collect();
        data::unknown(&entity.name, "index", index.unwrap_or_default(), &known)
    })
}
