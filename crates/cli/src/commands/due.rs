//! `larder due`: what a claim would take, in that order.

use std::process::ExitCode;

use clap::Args;
use larder::{Entry, Group, Lifecycle, Listing, Standing, Unread};
use larder_schema::jiff::Timestamp;
use larder_schema::schema::Precision;
use serde_json::{Map, Value as Json, json};

use crate::data::{self, Access, Given, Kind, Target};
use crate::terminal;

/// List what is due in a lifecycle, in the order it would be claimed
#[derive(Debug, Args)]
pub(crate) struct Due {
    #[command(flatten)]
    listed: Listed,
    /// Due when it was last done so long ago, such as 2d, instead of what the schema says
    #[arg(long, value_name = "DURATION")]
    older_than: Option<humantime::Duration>,
}

/// What was listed.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) standings: Vec<Standing<Entry>>,
    pub(super) unread: Unread,
}

/// Which records of a lifecycle.
#[derive(Debug, Args)]
pub(super) struct Listed {
    #[command(flatten)]
    target: Target,
    /// The lifecycle, such as crawl
    lifecycle: String,
    /// The group, such as country=DE: what the index that holds the state is parted by
    #[arg(value_name = "NAME=VALUE")]
    group: Vec<Given>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Fail at a record that cannot be read, instead of telling how many were left out
    #[arg(long)]
    strict: bool,
}

impl Due {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        self.listed.show(|lifecycle, group| self.listing(lifecycle, group))
    }

    pub(super) fn find(&self) -> Result<Found, String> {
        self.listed.find(|lifecycle, group| self.listing(lifecycle, group))
    }

    fn listing(&self, lifecycle: &Lifecycle<Entry>, group: Group) -> Listing<Entry> {
        let due = lifecycle.due(group);
        match self.older_than {
            Some(duration) => due.older_than(duration.into()),
            None => due,
        }
    }
}

impl Listed {
    pub(super) fn show(
        &self,
        list: impl FnOnce(&Lifecycle<Entry>, Group) -> Listing<Entry>,
    ) -> Result<ExitCode, String> {
        let Found { kind, standings, unread } = self.find(list)?;
        let Target { json, show_secrets, .. } = self.target;
        let line = |one: &Standing<Entry>| {
            format!("{}\n", as_json(one, &data::object(&kind, &one.record, show_secrets)))
        };
        let text = match standings.as_slice() {
            [] if !json => "nothing is there\n".to_owned(),
            found if json => found.iter().map(line).collect(),
            found => as_table(&kind, found),
        };
        terminal::print(&text)?;
        data::tell_unread(&unread);
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn find(
        &self,
        list: impl FnOnce(&Lifecycle<Entry>, Group) -> Listing<Entry>,
    ) -> Result<Found, String> {
        let kind = self.target.kind()?;
        let group = self.group(&kind)?;
        let (standings, unread) = self.target.work(&kind, Access::Existing, async |shelf| {
            let lifecycle = shelf.lifecycle(&self.lifecycle).expect("the schema has it");
            let listing = list(&lifecycle, group).limit(self.limit);
            if self.strict { listing.strict() } else { listing }.with_unread().await
        })?;
        Ok(Found { kind, standings, unread })
    }

    /// The values that name a group, in the order the index has them.
    fn group(&self, kind: &Kind) -> Result<Group, String> {
        let (table, entity) = (kind.table(), kind.entity());
        let held_in = &kind.lifecycle(&self.lifecycle)?.attribute;
        let mut sorted = table.indexes.iter();
        let index = sorted.find(|index| index.sort.first().is_some_and(|key| key.attribute == *held_in));
        let arguments =
            index.and_then(|index| entity.access(table, Some(index))).map(|access| access.arguments);
        let arguments = arguments.unwrap_or_default();
        let names: Vec<&str> = arguments.iter().map(|argument| argument.name.as_str()).collect();
        if let Some(other) = self.group.iter().find(|given| !names.contains(&given.name.as_str())) {
            return Err(data::unknown(&self.lifecycle, "group by", &other.name, &names));
        }
        let values = arguments.iter().map(|argument| {
            let given = self.group.iter().find(|given| given.name == argument.name);
            let given = given.ok_or_else(|| {
                format!("`{}` is missing: a group is named by {}", argument.name, names.join(" and "))
            })?;
            kind.value(&argument.kind, &given.name, &given.text)
        });
        Ok(Group::of(values.collect::<Result<Vec<_>, String>>()?))
    }
}

/// Where a record stands, and the record as it is shown.
pub(super) fn as_json(standing: &Standing<Entry>, record: &Map<String, Json>) -> Json {
    json!({
        "state": standing.state,
        "since": since(standing),
        "owner": standing.owner,
        "until": standing.until.map(data::moment),
        "attempts": standing.attempts,
        "exhausted": standing.exhausted,
        "record": record,
    })
}

fn since(standing: &Standing<Entry>) -> Option<String> {
    let text = |moment: Timestamp| larder_schema::instant_text(moment, Precision::Seconds);
    standing.since.map(text)
}

fn as_table(kind: &Kind, found: &[Standing<Entry>]) -> String {
    let names = ["key", "state", "since", "owner", "until", "attempts"].map(str::to_owned);
    let rows = found.iter().map(|standing| {
        vec![
            data::key_text(kind, standing.record.kept().key()),
            standing.state.clone(),
            since(standing).unwrap_or_default(),
            standing.owner.clone().unwrap_or_default(),
            standing.until.map(data::moment).unwrap_or_default(),
            format!("{}{}", standing.attempts, if standing.exhausted { ", the last" } else { "" }),
        ]
    });
    data::table(&names, rows.collect())
}
