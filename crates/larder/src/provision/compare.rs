//! A table as it should be and as it is → the lines of a plan.
//!
//! Pure: what is deployed comes in as a value. Whoever compares again after a step gets the lines that are
//! left, so the steps of a line are in the order in which they can be taken.

use larder_model::{
    Billing, Encryption, IndexDefinition, IndexKind, Projection, TableClass, TableDefinition, Tags,
    Throughput,
};
use larder_schema::TableSetup;
use larder_schema::schema::OnDelete;
use larder_schema::setup::{MIGRATING_TAG, ON_DELETE_TAG};

use super::show::{self, text};
use super::{Line, Mark, Step, TablePlan, Verdict};
use crate::store::{Busy, Deployed, Feature, Lacks, TableChange};

/// What stands in for on-demand billing where there is none.
const STAND_IN_UNITS: Throughput = Throughput { read: 5, write: 5 };

pub(super) fn table(setup: &TableSetup, deployed: Option<&Deployed>, lacks: &Lacks) -> TablePlan {
    let wanted = Wanted::new(setup, lacks);
    let mut lines = match deployed {
        None => wanted.create(),
        Some(deployed) => wanted.change(deployed),
    };
    let acting = !lines.is_empty();
    let verdict = match deployed {
        None => Verdict::Create,
        Some(_) if lines.iter().any(|line| line.mark == Mark::CannotChange) => Verdict::CannotChange,
        Some(_) if acting => Verdict::Change,
        Some(_) => Verdict::Unchanged,
    };
    lines.extend(deployed.map(|deployed| wanted.kept(deployed)).unwrap_or_default());
    lines.extend(wanted.missing);
    let busy = deployed.and_then(|deployed| deployed.busy.clone());
    TablePlan { name: setup.definition.name.clone(), region: None, verdict, busy, lines }
}

/// A table that the schema no longer names. Nothing when it is going already.
pub(super) fn left_over(deployed: &Deployed, region: Option<String>) -> Option<TablePlan> {
    if deployed.busy == Some(Busy::Deleting) {
        return None;
    }
    let definition = &deployed.definition;
    let retained = definition.deletion_protection
        || definition.tags.get(ON_DELETE_TAG).is_some_and(|on_delete| on_delete == OnDelete::Retain.name());
    let (verdict, line) = if retained {
        let note = "no longer in the schema, and kept: it is to be retained".to_owned();
        (Verdict::Retain, Line { note: Some(note), ..Line::new(Mark::Kept, "table") })
    } else {
        let line = Line {
            note: Some("no longer in the schema: the table and all its items".to_owned()),
            word: Some(definition.name.to_string()),
            steps: vec![Step::DeleteTable],
            ..Line::new(Mark::Destroy, "table")
        };
        (Verdict::Destroy, line)
    };
    let busy = deployed.busy.clone();
    Some(TablePlan { name: definition.name.clone(), region, verdict, busy, lines: vec![line] })
}

impl Line {
    fn new(mark: Mark, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { mark, what, from: None, to: None, note: None, word: None, steps: Vec::new() }
    }

    fn to(mark: Mark, what: impl Into<String>, to: String) -> Self {
        Self { to: Some(to), ..Self::new(mark, what) }
    }

    fn change(what: impl Into<String>, from: String, to: String, change: TableChange) -> Self {
        Self {
            from: Some(from),
            to: Some(to),
            steps: vec![Step::Change(change)],
            ..Self::new(Mark::Change, what)
        }
    }
}

/// A setup, reduced to what the store can do.
struct Wanted<'a> {
    setup: &'a TableSetup,
    definition: TableDefinition,
    ttl: Option<&'a str>,
    pitr_days: Option<u32>,
    lacks: &'a Lacks,
    /// What had to be left out.
    missing: Vec<Line>,
}

impl<'a> Wanted<'a> {
    fn new(setup: &'a TableSetup, lacks: &'a Lacks) -> Self {
        let mut wanted = Self {
            setup,
            definition: setup.definition.clone(),
            ttl: setup.ttl_attribute.as_deref(),
            pitr_days: setup.pitr.map(|pitr| pitr.days),
            lacks,
            missing: Vec::new(),
        };
        wanted.reduce();
        wanted
    }

    fn reduce(&mut self) {
        let asked = &self.setup.definition;
        if asked.billing == Billing::OnDemand && self.lacking(Feature::OnDemand, "billing", "on demand") {
            self.definition.billing = Billing::Provisioned(STAND_IN_UNITS);
            for index in &mut self.definition.indexes {
                index.throughput = STAND_IN_UNITS;
            }
        }
        let class = asked.class.unwrap_or(TableClass::Standard);
        let special = class != TableClass::Standard;
        if !special || self.lacking(Feature::TableClass, "class", text::class(class)) {
            self.definition.class = None;
        }
        if let Some(view) = asked.stream
            && self.lacking(Feature::Streams, "stream", text::stream(Some(view)))
        {
            self.definition.stream = None;
        }
        if let Some(attribute) = self.ttl
            && self.lacking(Feature::TimeToLive, "ttl", attribute)
        {
            self.ttl = None;
        }
        if let Some(days) = self.pitr_days
            && self.lacking(Feature::PointInTimeRecovery, "pitr", &text::pitr(Some(days)))
        {
            self.pitr_days = None;
        }
        let own = |key: &str| !key.starts_with("larder:");
        let tags: Tags =
            asked.tags.iter().filter(|(key, _)| own(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
        if self.lacks.contains_key(&Feature::Tags) {
            if !tags.is_empty() {
                self.lacking(Feature::Tags, "tags", &text::tags(&tags));
            }
            self.definition.tags.clear();
        }
        if let Some(encryption) = &asked.encryption
            && self.lacking(Feature::Encryption, "encryption", &text::encryption(Some(encryption)))
        {
            self.definition.encryption = None;
        }
        if asked.deletion_protection && self.lacking(Feature::DeletionProtection, "deletion protection", "on")
        {
            self.definition.deletion_protection = false;
        }
    }

    /// Whether the store lacks the feature; then what was asked for is noted.
    fn lacking(&mut self, feature: Feature, what: &str, asked: &str) -> bool {
        let Some(why) = self.lacks.get(&feature) else { return false };
        let stand_in = match feature {
            Feature::OnDemand => format!("; {} instead", text::units(STAND_IN_UNITS)),
            Feature::TableClass
            | Feature::Streams
            | Feature::TimeToLive
            | Feature::PointInTimeRecovery
            | Feature::Tags
            | Feature::Encryption
            | Feature::DeletionProtection => String::new(),
        };
        let note = Some(format!("not possible on this store: {why}{stand_in}"));
        self.missing.push(Line { note, ..Line::to(Mark::NotPossible, what, asked.to_owned()) });
        true
    }

    fn create(&self) -> Vec<Line> {
        let definition = &self.definition;
        let add = |what: &str, to: String| Line::to(Mark::Create, what, to);
        let unprotected = TableDefinition { deletion_protection: false, ..definition.clone() };
        let mut lines = vec![
            Line {
                steps: vec![Step::CreateTable(Box::new(unprotected))],
                ..add("key", text::key(&definition.key))
            },
            add("billing", text::billing(definition.billing)),
        ];
        lines.extend(definition.class.map(|class| add("class", text::class(class).to_owned())));
        lines.extend(definition.stream.map(|view| add("stream", text::stream(Some(view)).to_owned())));
        let indexes = definition.indexes.iter();
        lines.extend(indexes.map(|index| add(&show::index_name(index), text::index(index))));
        lines.extend(
            self.ttl.map(|attribute| Line {
                steps: vec![ttl(attribute, true)],
                ..add("ttl", attribute.to_owned())
            }),
        );
        lines.extend(self.pitr_days.map(|days| Line {
            steps: vec![Step::Change(TableChange::PointInTimeRecovery { days: Some(days) })],
            ..add("pitr", text::pitr(Some(days)))
        }));
        lines.extend((!definition.tags.is_empty()).then(|| add("tags", text::tags(&definition.tags))));
        let encryption = definition.encryption.as_ref();
        lines.extend(encryption.map(|encryption| add("encryption", text::encryption(Some(encryption)))));
        lines.extend(definition.deletion_protection.then(|| Line {
            steps: vec![Step::Change(TableChange::DeletionProtection(true))],
            ..add("deletion protection", "on".to_owned())
        }));
        lines
    }

    fn change(&self, deployed: &Deployed) -> Vec<Line> {
        let (to, from) = (&self.definition, &deployed.definition);
        if to.key != from.key {
            return vec![Line {
                from: Some(text::key(&from.key)),
                note: Some("the key of a table cannot change: raise the schema's version".to_owned()),
                ..Line::to(Mark::CannotChange, "key", text::key(&to.key))
            }];
        }
        let mut lines = Vec::new();
        lines.extend(self.billing(from));
        let (class, was) =
            (to.class.unwrap_or(TableClass::Standard), from.class.unwrap_or(TableClass::Standard));
        if class != was && !self.lacks.contains_key(&Feature::TableClass) {
            let change = TableChange::Class(class);
            lines.push(Line::change("class", text::class(was).into(), text::class(class).into(), change));
        }
        lines.extend(self.stream(from));
        lines.extend(self.indexes(from));
        lines.extend(self.ttl(deployed));
        lines.extend(self.pitr(deployed));
        lines.extend(self.tags(from));
        if !same_encryption(to.encryption.as_ref(), from.encryption.as_ref())
            && !self.lacks.contains_key(&Feature::Encryption)
        {
            let change = TableChange::Encryption(to.encryption.clone());
            let (was, will) =
                (text::encryption(from.encryption.as_ref()), text::encryption(to.encryption.as_ref()));
            lines.push(Line::change("encryption", was, will, change));
        }
        if to.deletion_protection != from.deletion_protection
            && !self.lacks.contains_key(&Feature::DeletionProtection)
        {
            let change = TableChange::DeletionProtection(to.deletion_protection);
            let (was, will) = (text::switch(from.deletion_protection), text::switch(to.deletion_protection));
            lines.push(Line::change("deletion protection", was.into(), will.into(), change));
        }
        lines
    }

    fn billing(&self, from: &TableDefinition) -> Option<Line> {
        let (to, was) = (self.definition.billing, from.billing);
        let stands_in =
            self.setup.definition.billing == Billing::OnDemand && self.lacks.contains_key(&Feature::OnDemand);
        if stands_in && was != Billing::OnDemand {
            return None;
        }
        let indexes = match to {
            Billing::OnDemand => Vec::new(),
            Billing::Provisioned(units) => {
                let global = from.indexes.iter().filter(|index| index.kind == IndexKind::Global);
                let wanted = global.map(|index| {
                    let wanted = self.definition.index(index.name.as_str());
                    (index, wanted.map_or(units, |wanted| wanted.throughput))
                });
                wanted
                    .filter(|(index, units)| was == Billing::OnDemand || index.throughput != *units)
                    .filter(|(index, _)| {
                        was == Billing::OnDemand || self.definition.index(index.name.as_str()).is_some()
                    })
                    .map(|(index, units)| (index.name.clone(), units))
                    .collect()
            }
        };
        if to == was && indexes.is_empty() {
            return None;
        }
        let will = match to == was {
            false => text::billing(to),
            true => indexes
                .iter()
                .map(|(name, units)| format!("{} for index {name}", text::units(*units)))
                .collect::<Vec<_>>()
                .join(", "),
        };
        let change = TableChange::Billing { billing: to, table: to != was, indexes };
        Some(Line::change("billing", text::billing(was), will, change))
    }

    fn stream(&self, from: &TableDefinition) -> Option<Line> {
        let (to, was) = (self.definition.stream, from.stream);
        // A migration that follows the stream has switched it, and has not ended.
        let is_followed = from.tags.get(MIGRATING_TAG).is_some_and(|target| !target.is_empty());
        if to == was || self.lacks.contains_key(&Feature::Streams) || (was.is_some() && is_followed) {
            return None;
        }
        let line = Line::change(
            "stream",
            text::stream(was).into(),
            text::stream(to).into(),
            TableChange::Stream(to),
        );
        // A stream's view cannot change while it is on.
        Some(match (was, to) {
            (Some(_), Some(_)) => Line {
                steps: vec![Step::Change(TableChange::Stream(None)), Step::Change(TableChange::Stream(to))],
                ..line
            },
            (None, _) | (_, None) => line,
        })
    }

    fn indexes(&self, from: &TableDefinition) -> Vec<Line> {
        let name = &self.definition.name;
        let delete = |index: &IndexDefinition| Step::Change(TableChange::DeleteIndex(index.name.clone()));
        let word = |index: &IndexDefinition| Some(format!("{name}/{}", index.name));
        let create = |index: &IndexDefinition| Step::Change(TableChange::CreateIndex(index.clone()));
        let gone = from.indexes.iter().filter(|index| {
            index.kind == IndexKind::Global && self.definition.index(index.name.as_str()).is_none()
        });
        let mut lines: Vec<Line> = gone
            .map(|index| Line {
                from: Some(text::index(index)),
                note: Some("no longer in the schema".to_owned()),
                word: word(index),
                steps: vec![delete(index)],
                ..Line::new(Mark::Destroy, show::index_name(index))
            })
            .collect();
        for index in &self.definition.indexes {
            let to = text::index(index);
            match from.index(index.name.as_str()) {
                None => lines.push(Line {
                    steps: vec![create(index)],
                    ..Line::to(Mark::Create, show::index_name(index), to)
                }),
                Some(was) if same_index(was, index) => {}
                Some(was) => lines.push(Line {
                    from: Some(text::index(was)),
                    note: Some("an index cannot change: it is deleted, then built again".to_owned()),
                    word: word(index),
                    steps: vec![delete(was), create(index)],
                    ..Line::to(Mark::Destroy, show::index_name(index), to)
                }),
            }
        }
        lines
    }

    fn ttl(&self, deployed: &Deployed) -> Option<Line> {
        if self.lacks.contains_key(&Feature::TimeToLive) {
            return None;
        }
        let (to, was) = (self.ttl, deployed.ttl_attribute.as_deref());
        if to == was {
            return None;
        }
        let off = was.map(|attribute| ttl(attribute, false));
        let on = to.map(|attribute| ttl(attribute, true));
        let name = |attribute: Option<&str>| attribute.unwrap_or("off").to_owned();
        Some(Line {
            from: Some(name(was)),
            steps: off.into_iter().chain(on).collect(),
            ..Line::to(Mark::Change, "ttl", name(to))
        })
    }

    fn pitr(&self, deployed: &Deployed) -> Option<Line> {
        let (to, was) = (self.pitr_days, deployed.pitr_days);
        if to == was || self.lacks.contains_key(&Feature::PointInTimeRecovery) {
            return None;
        }
        let change = TableChange::PointInTimeRecovery { days: to };
        let line = Line::change("pitr", text::pitr(was), text::pitr(to), change);
        // Less history than there is: some of it goes.
        let loses = was.is_some_and(|was| to.is_none_or(|to| to < was));
        if !loses {
            return Some(line);
        }
        Some(Line {
            mark: Mark::Destroy,
            note: Some("what is older can no longer be restored".to_owned()),
            word: Some(format!("{}/pitr", self.definition.name)),
            ..line
        })
    }

    fn tags(&self, from: &TableDefinition) -> Option<Line> {
        let pairs = |tags: &mut dyn Iterator<Item = (&String, &String)>| -> Tags {
            tags.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let wanted = &self.definition.tags;
        let differing = pairs(&mut wanted.iter().filter(|(key, value)| from.tags.get(*key) != Some(value)));
        if differing.is_empty() {
            return None;
        }
        let was = pairs(&mut from.tags.iter().filter(|(key, _)| differing.contains_key(*key)));
        let line =
            Line::change("tags", text::tags(&was), text::tags(&differing), TableChange::Tag(differing));
        Some(match was.is_empty() {
            true => Line { mark: Mark::Create, from: None, ..line },
            false => line,
        })
    }

    /// What is there, is not in the schema, and stays.
    fn kept(&self, deployed: &Deployed) -> Vec<Line> {
        let from = &deployed.definition;
        let tags = from
            .tags
            .iter()
            .filter(|(key, _)| !key.starts_with("aws:") && !self.definition.tags.contains_key(*key));
        let mut lines: Vec<Line> = tags
            .map(|(key, value)| Line {
                from: Some(value.clone()),
                note: Some("not in the schema, left alone".to_owned()),
                ..Line::new(Mark::Kept, format!("tag {key}"))
            })
            .collect();
        let local = from.indexes.iter().filter(|index| index.kind == IndexKind::Local);
        lines.extend(local.map(|index| Line {
            from: Some(text::index(index)),
            note: Some("not in the schema, and a local index cannot be removed".to_owned()),
            ..Line::new(Mark::Kept, show::index_name(index))
        }));
        lines
    }
}

fn ttl(attribute: &str, enabled: bool) -> Step {
    Step::Change(TableChange::TimeToLive { attribute: attribute.to_owned(), enabled })
}

fn same_index(a: &IndexDefinition, b: &IndexDefinition) -> bool {
    let names = |projection: &Projection| match projection {
        Projection::Include(names) => {
            let mut names = names.clone();
            names.sort();
            Some(names)
        }
        Projection::All | Projection::KeysOnly => None,
    };
    let same_projection = match (names(&a.projection), names(&b.projection)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.projection == b.projection,
        (Some(_), None) | (None, Some(_)) => false,
    };
    a.key == b.key && a.kind == b.kind && same_projection
}

/// AWS names the key that it used in full, whatever it was asked for: an alias, or its own managed key, cannot
/// be told from it.
fn same_encryption(wanted: Option<&Encryption>, deployed: Option<&Encryption>) -> bool {
    match (wanted, deployed) {
        (None, None) => true,
        (Some(wanted), Some(deployed)) => match (&wanted.kms_key, &deployed.kms_key) {
            (Some(wanted), Some(deployed)) => {
                wanted == deployed || wanted.contains("alias/") || deployed.ends_with(&format!("/{wanted}"))
            }
            (Some(_), None) => false,
            (None, _) => true,
        },
        (None, Some(_)) | (Some(_), None) => false,
    }
}
