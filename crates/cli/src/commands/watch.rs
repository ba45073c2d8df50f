//! `larder watch`: follows one record, or what an index holds of one partition, and prints what changes.
//!
//! It looks again and again; what comes and goes between two looks is not seen, unless it is a record in a directory and
//! its table has a stream that tells (`watch/stream.rs`). A directory has one user at a time, so it is opened for each
//! look and left to others between them; a look that finds it in use is made up for by the next.

mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use larder::price::{Units, read_units};
use larder::{Address, Entry, Error, Fields, Look, Shelf, Store, System, UnixTime, Why, store};
use larder_schema::schema::Consistency;
use serde_json::{Map, Value as Json, json};
use tokio::time::{self, Instant, MissedTickBehavior};

use self::stream::Stream;
use super::{plan, query};
use crate::data::{self, Given, Kind, Target};
use crate::{held, project, terminal};

/// Others use a directory for a moment; who cannot look for longer is told.
const TOLD_AFTER: u32 = 3;

/// Print what changes about a record, or about the records of one partition of an index
///
/// Ends with Ctrl-C, or when --for is over.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    target: Target,
    /// The fields of a record's key; or an index, such as by_company, then the fields that name a partition
    #[arg(value_name = "INDEX|NAME=VALUE", required = true)]
    asked: Vec<String>,
    /// How long to wait between two looks
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    every: humantime::Duration,
    /// How long to watch [default: until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION")]
    during: Option<humantime::Duration>,
    /// Of an index, at most so many records
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

/// What is followed.
#[derive(Clone, Debug)]
enum Followed {
    Record(Fields),
    Partition { index: String, partition: Fields, limit: usize },
}

/// What was there at one moment, by key.
type Seen = BTreeMap<String, One>;

/// A record as it was. A handle on it would keep the store open.
#[derive(Debug, PartialEq)]
struct One {
    fields: Map<String, Json>,
    /// The same as it may be shown: without secrets, unless they are wanted.
    shown: Map<String, Json>,
    ends: Option<UnixTime>,
    /// About how many bytes a look reads for it.
    bytes: usize,
}

/// What became of a record between two looks.
#[derive(Debug, PartialEq)]
enum Change<'a> {
    /// It was there at the first look.
    There(&'a One),
    Added(&'a One),
    Changed(Vec<Difference>),
    Expired,
    Removed,
}

/// A field before and after; a secret is not shown.
#[derive(Debug, PartialEq)]
struct Difference {
    field: String,
    from: Option<Json>,
    to: Option<Json>,
}

impl Watch {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let kind = self.target.kind()?;
        let followed = self.followed(&kind)?;
        plan::runtime()?.block_on(self.follow(&kind, &followed))?;
        Ok(ExitCode::SUCCESS)
    }

    fn is_of_index(&self) -> bool {
        self.asked.first().is_some_and(|first| !first.contains('='))
    }

    fn followed(&self, kind: &Kind) -> Result<Followed, String> {
        if !self.is_of_index() {
            let given = self.asked.iter().map(|given| given.parse::<Given>());
            return kind.fields(&given.collect::<Result<Vec<_>, String>>()?).map(Followed::Record);
        }
        let (index, partition, _) = query::partition(kind, &self.asked)?;
        let index = index.unwrap_or_default().to_owned();
        Ok(Followed::Partition { index, partition, limit: self.limit })
    }

    async fn follow(&self, kind: &Kind, followed: &Followed) -> Result<(), String> {
        let wrong = |error: &Error| data::told(self.target.store(), error);
        let mut place = Place::new(self.target.store());
        let first = place.look(kind, followed, self.target.show_secrets).await;
        let (mut now, mut states) = first.map_err(|error| wrong(&error))?;
        let mut before = states.pop().unwrap_or_default();
        for (key, one) in &before {
            self.tell(now, key, &Change::There(one))?;
        }
        self.announce(kind, &before);
        let over = self.during.map(|during| Instant::now() + *during);
        let mut ticks =
            time::interval_at(Instant::now() + *self.every, (*self.every).max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
        let (mut looks, mut changes, mut in_vain) = (1, 0, 0);
        loop {
            tokio::select! {
                biased;
                _ = &mut interrupted => break,
                () = until(over) => break,
                _ = ticks.tick() => {}
            }
            (now, states) = match place.look(kind, followed, self.target.show_secrets).await {
                Ok(seen) => seen,
                Err(Error::Store(error)) if may_pass(&error, self.target.store()) => {
                    in_vain += 1;
                    if in_vain == TOLD_AFTER {
                        eprintln!("{}; looking on", plan::advise(self.target.store(), &error));
                    }
                    continue;
                }
                Err(error) => return Err(wrong(&error)),
            };
            (looks, in_vain) = (looks + 1, 0);
            for after in states {
                for (key, change) in compare(&before, &after, now) {
                    changes += 1;
                    self.tell(now, key, &change)?;
                }
                before = after;
            }
        }
        eprintln!("{} in {}", terminal::count(changes, "change"), terminal::count(looks, "look"));
        Ok(())
    }

    /// What is being watched, and what that costs.
    fn announce(&self, kind: &Kind, seen: &Seen) {
        let there = terminal::count(seen.len(), "record");
        eprintln!(
            "watching {} {}: {there} now, a look every {}",
            kind.entity().name,
            self.asked.join(" "),
            self.every
        );
        if let Address::DynamoDb { .. } = self.target.store() {
            let bytes: usize = seen.values().map(|one| one.bytes).sum();
            let strong = kind.entity().policy.reads == Consistency::Strong;
            let read = read_units(bytes as u64, strong && !self.is_of_index());
            let day = read * 86_400.0 / self.every.as_secs_f64().max(0.001);
            let (look, day) = (Units { read, write: 0.0 }, Units { read: day.round(), write: 0.0 });
            eprintln!("on DynamoDB a look costs about {look}; a day of them {day}");
        }
    }

    fn tell(&self, now: UnixTime, key: &str, change: &Change<'_>) -> Result<(), String> {
        let json = self.target.json;
        let line = if json { as_json(now, key, change).to_string() } else { as_text(now, key, change) };
        terminal::print(&format!("{line}\n"))
    }
}

/// Never, without a limit.
async fn until(over: Option<Instant>) {
    match over {
        Some(over) => time::sleep_until(over).await,
        None => std::future::pending().await,
    }
}

/// Whether the next look may find what this one did not.
fn may_pass(error: &store::Error, address: &Address) -> bool {
    error.is_transient() || matches!((address, error), (Address::Directory(_), store::Error::Engine(_)))
}

/// The store, kept open where others can use it at the same time.
struct Place<'a> {
    address: &'a Address,
    kept: Option<Store>,
    stream: Stream,
}

impl<'a> Place<'a> {
    fn new(address: &'a Address) -> Self {
        Self { address, kept: None, stream: Stream::default() }
    }

    /// The only place that knows how changes are learned of: what is there now, to be compared with what was, and
    /// before it what was there meanwhile, as far as that is known.
    async fn look(
        &mut self,
        kind: &Kind,
        followed: &Followed,
        secrets: bool,
    ) -> Result<(UnixTime, Vec<Seen>), Error> {
        let store = match &self.kept {
            Some(store) => store.clone(),
            None => held::look(self.address).await?,
        };
        if !matches!(self.address, Address::Directory(_)) {
            self.kept = Some(store.clone());
        }
        // A new system has nothing in L1.
        let system = System::open_with(kind.schema.clone(), store, project::environment()).await?;
        let shelf = system.entries(&kind.entity().name).expect("the schema has it");
        let seen = |found: Vec<Entry>| -> Seen {
            found
                .iter()
                .map(|entry| (data::key_text(kind, entry.kept().key()), One::of(kind, entry, secrets)))
                .collect()
        };
        let mut states = Vec::new();
        if let (Followed::Record(key), Address::Directory(_)) = (followed, self.address)
            && let Ok(table) = kind.schema.table_name(kind.table(), &project::environment())
        {
            let images = self.stream.since(system.store(), &table, &shelf.stored_key(key.clone())?);
            let now = system.store().clock().now();
            let read = |image: Option<larder_model::Item>| {
                let entry = image.and_then(|item| shelf.read_stored(&item).ok());
                entry
                    .filter(|entry| entry.kept().expires().is_none_or(|ends| ends.seconds() >= now.seconds()))
            };
            states.extend(images.into_iter().map(|image| seen(read(image).into_iter().collect())));
        }
        states.push(seen(read(&shelf, followed).await?));
        Ok((system.store().clock().now(), states))
    }
}

impl One {
    fn of(kind: &Kind, entry: &Entry, secrets: bool) -> Self {
        let item = kind.schema.write_item(kind.table(), kind.entity(), &entry.fields);
        Self {
            fields: data::object(kind, entry, true),
            shown: data::object(kind, entry, secrets),
            ends: entry.kept().expires(),
            bytes: item.map_or(0, |item| item.size()),
        }
    }
}

async fn read(shelf: &Shelf<Entry>, followed: &Followed) -> Result<Vec<Entry>, Error> {
    match followed {
        Followed::Record(key) => match shelf.look(key.clone()).await {
            Look::Hit(found) => Ok(vec![found.into_record()]),
            Look::Miss(Why::Unreachable(error)) => Err(error),
            Look::Miss(_) => Ok(Vec::new()),
        },
        Followed::Partition { index, partition, limit } => {
            Ok(shelf.index_by(index, partition.clone()).limit(*limit).page().await?.items)
        }
    }
}

/// What differs, by key.
fn compare<'a>(before: &'a Seen, after: &'a Seen, now: UnixTime) -> Vec<(&'a str, Change<'a>)> {
    let mut changes = Vec::new();
    for (key, was) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
        let over = was.ends.is_some_and(|ends| ends.seconds() < now.seconds());
        changes.push((key.as_str(), if over { Change::Expired } else { Change::Removed }));
    }
    for (key, is) in after {
        match before.get(key) {
            None => changes.push((key, Change::Added(is))),
            Some(was) if was.fields != is.fields => {
                changes.push((key, Change::Changed(differences(was, is))));
            }
            Some(_) => {}
        }
    }
    changes
}

fn differences(was: &One, is: &One) -> Vec<Difference> {
    let names: BTreeSet<&String> = was.fields.keys().chain(is.fields.keys()).collect();
    let differing = names.into_iter().filter(|name| was.fields.get(*name) != is.fields.get(*name));
    let difference = |name: &String| Difference {
        field: name.clone(),
        from: was.shown.get(name).cloned(),
        to: is.shown.get(name).cloned(),
    };
    differing.map(difference).collect()
}

impl Change<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::There(_) => "there",
            Self::Added(_) => "added",
            Self::Changed(_) => "changed",
            Self::Expired => "expired",
            Self::Removed => "removed",
        }
    }
}

fn as_json(now: UnixTime, key: &str, change: &Change<'_>) -> Json {
    let mut line = Map::new();
    line.insert("at".to_owned(), data::moment(now).into());
    line.insert("change".to_owned(), change.name().into());
    line.insert("key".to_owned(), key.into());
    match change {
        Change::There(one) | Change::Added(one) => {
            line.insert("record".to_owned(), one.shown.clone().into());
        }
        Change::Changed(differences) => {
            let fields = differences.iter().map(|difference| {
                (difference.field.clone(), json!({"from": difference.from, "to": difference.to}))
            });
            line.insert("fields".to_owned(), fields.collect::<Map<_, _>>().into());
        }
        Change::Expired | Change::Removed => {}
    }
    Json::Object(line)
}

fn as_text(now: UnixTime, key: &str, change: &Change<'_>) -> String {
    let details: Vec<String> = match change {
        Change::There(one) | Change::Added(one) => {
            one.shown.iter().map(|(name, value)| format!("{name}={}", data::cell(value))).collect()
        }
        Change::Changed(differences) => {
            let text = |value: &Option<Json>| value.as_ref().map_or_else(|| "nothing".to_owned(), data::cell);
            let told = differences.iter().map(|difference| {
                format!("{}: {} → {}", difference.field, text(&difference.from), text(&difference.to))
            });
            vec![told.collect::<Vec<_>>().join(", ")]
        }
        Change::Expired | Change::Removed => Vec::new(),
    };
    let line = format!("{}  {:7}  {key}  {}", data::moment(now), change.name(), details.join(" "));
    line.trim_end().to_owned()
}
