//! `larder due`: what a claim would take, in that order.

use std::process::ExitCode;

use clap::Args;
use larder::{Entry, Group, Lifecycle, Listing, Standing};
use larder_schema::jiff::Timestamp;
use larder_schema::schema::Precision;
use serde_json::json;

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
        self.listed.show(|lifecycle, group| {
            let due = lifecycle.due(group);
            match self.older_than {
                Some(duration) => due.older_than(duration.into()),
                None => due,
            }
        })
    }
}

impl Listed {
    pub(super) fn show(
        &self,
        list: impl FnOnce(&Lifecycle<Entry>, Group) -> Listing<Entry>,
    ) -> Result<ExitCode, String> {
        let kind = self.target.kind()?;
        let group = self.group(&kind)?;
        let (found, unread) = self.target.work(&kind, Access::Existing, async |shelf| {
            let lifecycle = shelf.lifecycle(&self.lifecycle).expect("the schema has it");
            let listing = list(&lifecycle, group).limit(self.limit);
            if self.strict { listing.strict() } else { listing }.with_unread().await
        })?;
        let text = match found.as_slice() {
            [] if !self.target.json => "nothing is there\n".to_owned(),
            found if self.target.json => found.iter().map(|one| self.line(&kind, one)).collect(),
            found => as_table(&kind, found),
        };
        terminal::print(&text)?;
        data::tell_unread(&unread);
        Ok(ExitCode::SUCCESS)
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

    fn line(&self, kind: &Kind, standing: &Standing<Entry>) -> String {
        let json = json!({
            "state": standing.state,
            "since": since(standing),
            "owner": standing.owner,
            "until": standing.until.map(data::moment),
            "attempts": standing.attempts,
            "exhausted": standing.exhausted,
            "record": data::object(kind, &standing.record, self.target.show_secrets),
        });
        format!("{json}\n")
    }
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
