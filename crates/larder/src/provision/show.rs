//! A plan as people read it, and as programs do.

use std::fmt;

use larder_model::{IndexDefinition, IndexKind};
use serde_json::{Value, json};

use super::{Line, Mark, Plan, Step, TablePlan, Verdict};
use crate::store::TableChange;

impl Mark {
    /// The character in front of a line.
    pub fn sign(self) -> char {
        match self {
            Self::Create => '+',
            Self::Change => '~',
            Self::Destroy => '-',
            Self::CannotChange | Self::NotPossible => '!',
            Self::Kept => '=',
        }
    }

    /// As programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Destroy => "destroy",
            Self::CannotChange => "cannot_change",
            Self::NotPossible => "not_possible",
            Self::Kept => "kept",
        }
    }
}

impl Verdict {
    /// As programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Unchanged => "unchanged",
            Self::CannotChange => "cannot_change",
            Self::Destroy => "destroy",
            Self::Retain => "retain",
        }
    }

    fn sign(self) -> char {
        match self {
            Self::Create => '+',
            Self::Change => '~',
            Self::Unchanged | Self::Retain => '=',
            Self::CannotChange => '!',
            Self::Destroy => '-',
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Create => "new table",
            Self::Change => "",
            Self::Unchanged => "unchanged",
            Self::CannotChange => "cannot become what the schema says",
            Self::Destroy => "would be destroyed",
            Self::Retain => "retained",
        }
    }
}

/// Columns beyond which an aligned column no longer pushes the next one out.
const WHAT_WIDTH_MAX: usize = 40;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Plan for {}", self.place)?;
        writeln!(f)?;
        for table in &self.tables {
            write!(f, "{table}")?;
        }
        if !self.tables.is_empty() {
            writeln!(f)?;
        }
        writeln!(f, "{}", self.summary())
    }
}

impl fmt::Display for TablePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let region = self.region.as_ref().map(|region| format!(" in {region}")).unwrap_or_default();
        let title = match self.verdict.title() {
            "" => String::new(),
            title => format!("  {title}"),
        };
        let busy = self.busy.as_ref().map(|busy| format!(" ({busy})")).unwrap_or_default();
        writeln!(f, "{} {}{region}{title}{busy}", self.verdict.sign(), self.name)?;
        let width = self.lines.iter().map(|line| line.what.chars().count()).max().unwrap_or(0);
        for line in &self.lines {
            write!(f, "    {} {:width$}", line.mark.sign(), line.what, width = width.min(WHAT_WIDTH_MAX))?;
            match (&line.from, &line.to) {
                (Some(from), Some(to)) => write!(f, "  {from} → {to}")?,
                (Some(value), None) | (None, Some(value)) => write!(f, "  {value}")?,
                (None, None) => {}
            }
            match &line.note {
                Some(note) if line.from.is_some() || line.to.is_some() => write!(f, " ({note})")?,
                Some(note) => write!(f, "  {note}")?,
                None => {}
            }
            if let Some(word) = &line.word {
                write!(f, "; needs --allow-destroy {word}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Plan {
    /// The counts, in a sentence.
    pub fn summary(&self) -> String {
        let tables = |verdict: Verdict| self.tables.iter().filter(|table| table.verdict == verdict).count();
        let lines = |mark: Mark| self.lines(mark).count();
        let counts = [
            (tables(Verdict::Create), "to create"),
            (tables(Verdict::Change), "to change"),
            (tables(Verdict::Unchanged), "unchanged"),
            (tables(Verdict::CannotChange), "that cannot change"),
            (tables(Verdict::Retain), "retained"),
        ];
        let counted = counts.into_iter().filter(|(count, _)| *count > 0);
        let mut parts: Vec<String> = counted.map(|(count, what)| format!("{count} {what}")).collect();
        if parts.is_empty() {
            parts.push("none".to_owned());
        }
        let mut text = format!("Tables: {}.", parts.join(", "));
        let mut say = |count: usize, what: &str| {
            if count > 0 {
                text.push_str(&format!(" {what}: {count}."));
            }
        };
        say(lines(Mark::Destroy), "Would be destroyed");
        say(lines(Mark::NotPossible), "Not possible on this store");
        say(self.others, "Other tables, left alone");
        text
    }

    /// The same for programs.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// use larder::provision::plan;
    /// # use larder::provision::Desired;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let desired = [Desired::of(library::schema(), &larder::Environment::new()).expect("there are no params")];
    /// # let store = larder::Store::memory().await;
    /// let json = plan(&desired, &store).await?.to_json();
    /// assert_eq!(json["tables"][0]["verdict"], "create");
    /// assert_eq!(json["settled"], false);
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_json(&self) -> Value {
        let counts = |mark: Mark| self.lines(mark).count();
        json!({
            "store": self.place,
            "settled": self.is_settled(),
            "tables": self.tables.iter().map(table_json).collect::<Vec<_>>(),
            "other_tables": self.others,
            "counts": {
                "create": counts(Mark::Create),
                "change": counts(Mark::Change),
                "destroy": counts(Mark::Destroy),
                "cannot_change": counts(Mark::CannotChange),
                "not_possible": counts(Mark::NotPossible),
                "kept": counts(Mark::Kept),
            },
        })
    }
}

fn table_json(table: &TablePlan) -> Value {
    json!({
        "name": table.name.as_str(),
        "region": table.region,
        "verdict": table.verdict.name(),
        "busy": table.busy.as_ref().map(ToString::to_string),
        "lines": table.lines.iter().map(line_json).collect::<Vec<_>>(),
    })
}

fn line_json(line: &Line) -> Value {
    json!({
        "kind": line.mark.name(),
        "what": line.what,
        "from": line.from,
        "to": line.to,
        "note": line.note,
        "allow_destroy": line.word,
        "steps": line.steps.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// What is being done, for a list of things being done.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self {
            Self::CreateTable(_) => return f.write_str("create the table"),
            Self::DeleteTable => return f.write_str("delete the table"),
            Self::Change(change) => change,
        };
        match change {
            TableChange::Billing { billing, table: true, .. } => {
                write!(f, "bill {}", text::billing(*billing))
            }
            TableChange::Billing { table: false, .. } => f.write_str("change the units of its indexes"),
            TableChange::Class(class) => write!(f, "set its class to {}", text::class(*class)),
            TableChange::Stream(Some(view)) => write!(f, "stream {}", text::stream(Some(*view))),
            TableChange::Stream(None) => f.write_str("switch its stream off"),
            TableChange::CreateIndex(index) => write!(f, "build index {}", index.name),
            TableChange::DeleteIndex(name) => write!(f, "delete index {name}"),
            TableChange::Encryption(wanted) => {
                write!(f, "encrypt with {}", text::encryption(wanted.as_ref()))
            }
            TableChange::DeletionProtection(on) => {
                write!(f, "switch deletion protection {}", text::switch(*on))
            }
            TableChange::TimeToLive { attribute, enabled } => {
                write!(f, "switch TTL by {attribute} {}", text::switch(*enabled))
            }
            TableChange::PointInTimeRecovery { days } => {
                write!(f, "set point-in-time recovery to {}", text::pitr(*days))
            }
            TableChange::Tag(tags) => write!(f, "tag it {}", text::tags(tags)),
        }
    }
}

pub(super) fn index_name(index: &IndexDefinition) -> String {
    match index.kind {
        IndexKind::Global => format!("index {}", index.name),
        IndexKind::Local => format!("local index {}", index.name),
    }
}

/// Settings as short texts.
pub(super) mod text {
    use larder_model::{
        Billing, Encryption, IndexDefinition, KeyAttribute, KeySchema, Projection, StreamView, TableClass,
        Tags, Throughput,
    };

    pub(in super::super) fn key(key: &KeySchema) -> String {
        let side = |parts: &[KeyAttribute]| {
            let parts = parts.iter().map(|part| format!("{} ({})", part.name, part.kind));
            parts.collect::<Vec<_>>().join(", ")
        };
        match key.sort.is_empty() {
            true => side(&key.partition),
            false => format!("{} / {}", side(&key.partition), side(&key.sort)),
        }
    }

    pub(in super::super) fn index(index: &IndexDefinition) -> String {
        let projection = match &index.projection {
            Projection::All => "all".to_owned(),
            Projection::KeysOnly => "keys".to_owned(),
            Projection::Include(names) => names.join(", "),
        };
        format!("{} project {projection}", key(&index.key))
    }

    pub(in super::super) fn units(units: Throughput) -> String {
        format!("{} read and {} write units", units.read, units.write)
    }

    pub(in super::super) fn billing(billing: Billing) -> String {
        match billing {
            Billing::OnDemand => "on demand".to_owned(),
            Billing::Provisioned(throughput) => units(throughput),
        }
    }

    pub(in super::super) fn class(class: TableClass) -> &'static str {
        match class {
            TableClass::Standard => "standard",
            TableClass::StandardInfrequentAccess => "standard, infrequent access",
        }
    }

    pub(in super::super) fn stream(view: Option<StreamView>) -> &'static str {
        match view {
            None => "off",
            Some(StreamView::KeysOnly) => "keys",
            Some(StreamView::NewImage) => "new images",
            Some(StreamView::OldImage) => "old images",
            Some(StreamView::NewAndOldImages) => "new and old images",
        }
    }

    pub(in super::super) fn pitr(days: Option<u32>) -> String {
        days.map_or_else(|| "off".to_owned(), |days| format!("{days} days"))
    }

    pub(in super::super) fn encryption(encryption: Option<&Encryption>) -> String {
        match encryption {
            None => "a key of AWS".to_owned(),
            Some(Encryption { kms_key: None }) => "a key AWS manages".to_owned(),
            Some(Encryption { kms_key: Some(key) }) => format!("KMS key {key}"),
        }
    }

    pub(in super::super) fn switch(on: bool) -> &'static str {
        if on { "on" } else { "off" }
    }

    pub(in super::super) fn tags(tags: &Tags) -> String {
        tags.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }
}
