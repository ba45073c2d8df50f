//! What a migration has done, kept in the store it goes to, so that any machine can go on with it.
//!
//! One item a table, in `larder-migrations`. Every save counts its `number` up, on the condition that it is what was
//! read: whoever takes a migration over stops the one who had it, at its next save.

use std::time::Duration;

use larder_model::{AttributeValue, Item, TableName, UnixTime};
use larder_ops::{DeleteItem, GetItem, PutItem, ReturnCapacity, Scan};
use larder_schema::{Environment, NoFiles};
use parking_lot::Mutex;

use super::stream::{Read, StreamPosition};
use crate::provision::{self, Desired, Permissions, Silent};
use crate::record::unchanged;
use crate::store::{self, Store};
use crate::write::options;
use crate::{Error, Schema};

/// The table of migrations, in every store that has seen one.
pub const TABLE: &str = "larder-migrations";

/// How long a machine writes without looking whether the migration is still its own.
const HELD: Duration = Duration::from_secs(30);

const SCHEMA: &str = r#"
system larder_migrations
table migrations {
  name  "larder-migrations"
  key   target
  entity Migration { target: string nonempty }
}
"#;

/// How far a table's migration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Items are copied and changes carried over; programs use the old table.
    Copying,
    /// Programs of the new schema may use the new table.
    Switched,
    /// What programs of the new schema wrote is carried back.
    Returning,
    /// Programs use the old table again.
    Returned,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Copying, Self::Switched, Self::Returning, Self::Returned];

    /// Its name, for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Switched => "switched",
            Self::Returning => "returning",
            Self::Returned => "returned",
        }
    }
}

/// What has been done of one table.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The system, by its name in the schema.
    pub system: String,
    /// Where the old table is.
    pub source_place: String,
    /// The old table.
    pub source: TableName,
    /// The new table.
    pub target: TableName,
    /// How far it is.
    pub phase: Phase,
    /// When it began. It is `now` for what has to be computed.
    pub began: UnixTime,
    /// When this was last written.
    pub saved: UnixTime,
    /// Items read from the old table so far.
    pub copied: u64,
    /// Every item of the old table has been read once.
    pub is_copied: bool,
    /// Items and their checksum, found equal on both sides.
    pub verified: Option<(u64, u64)>,
    /// Records of the old table whose entity the new schema does not have, found when both sides were compared.
    pub left_behind: Option<u64>,
    /// When programs were given over to the other table.
    pub switched: Option<UnixTime>,
    /// Until when the table that is no longer used is kept.
    pub keep_until: Option<UnixTime>,
    /// Where the next page of the copy begins.
    pub(super) next: Option<Item>,
    /// Where the stream is that is followed now.
    pub(super) place: Option<StreamPosition>,
    /// Going back: where the old table's stream was when that began.
    pub(super) forward: Option<StreamPosition>,
    /// Streams that were switched on for this, or to another view, of the old table and of the new.
    pub(super) streams: (bool, bool),
    pub(super) number: i64,
}

impl Checkpoint {
    /// Reads what is known of a table's migration.
    pub(super) async fn load(store: &Store, target: &TableName) -> Result<Option<Self>, Error> {
        let table = table();
        if store.describe(&table).await?.is_none() {
            return Ok(None);
        }
        let request = GetItem {
            table,
            key: key(target),
            projection: None,
            consistent: true,
            capacity: ReturnCapacity::None,
        };
        store.get_item(request).await?.map(|item| read(&item)).transpose()
    }

    /// Writes what has been done. Fails when another process has taken over the migration.
    pub(super) async fn save(&mut self, store: &Store) -> Result<(), Error> {
        let before = self.number;
        self.saved = store.clock().now();
        self.number += 1;
        let known: Item = [("number", AttributeValue::from(before))].into_iter().collect();
        let condition = match before {
            0 => unchanged("target", &Item::new()),
            _ => unchanged("number", &known),
        };
        let request = PutItem { table: table(), item: self.item(), options: options(Some(condition)) };
        match store.put_item(request).await {
            Ok(_) => Ok(()),
            // A request that was sent again finds what it wrote itself.
            Err(store::Error::Condition { .. })
                if Self::load(store, &self.target).await?.as_ref() == Some(self) =>
            {
                Ok(())
            }
            Err(store::Error::Condition { .. }) => Err(taken_over(&self.target)),
            Err(error) => Err(error.into()),
        }
    }

    /// Forgets a migration.
    pub(super) async fn remove(&self, store: &Store) -> Result<(), Error> {
        let condition = options(Some(unchanged("number", &self.item())));
        let request = DeleteItem { table: table(), key: key(&self.target), options: condition };
        Ok(store.delete_item(request).await.map(drop)?)
    }

    fn item(&self) -> Item {
        let mut item = key(&self.target);
        let mut set = |name: &str, value: AttributeValue| drop(item.insert(name, value));
        set("system", self.system.as_str().into());
        set("source_place", self.source_place.as_str().into());
        set("source", self.source.as_str().into());
        set("phase", self.phase.name().into());
        set("began", self.began.millis().into());
        set("saved", self.saved.millis().into());
        set("copied", i64::try_from(self.copied).unwrap_or(i64::MAX).into());
        set("is_copied", AttributeValue::Bool(self.is_copied));
        set(
            "streams",
            AttributeValue::L(vec![
                AttributeValue::Bool(self.streams.0),
                AttributeValue::Bool(self.streams.1),
            ]),
        );
        set("number", self.number.into());
        if let Some((items, checksum)) = self.verified {
            set("verified", format!("{items} {checksum:016x}").as_str().into());
        }
        if let Some(time) = self.switched {
            set("switched", time.millis().into());
        }
        if let Some(time) = self.keep_until {
            set("keep_until", time.millis().into());
        }
        if let Some(next) = &self.next {
            set("next", AttributeValue::M(next.clone()));
        }
        if let Some(left) = self.left_behind {
            set("left_behind", i64::try_from(left).unwrap_or(i64::MAX).into());
        }
        if let Some(forward) = &self.forward {
            set("forward", AttributeValue::M(place_item(forward)));
        }
        if let Some(place) = &self.place {
            for (name, value) in &place_item(place) {
                item.insert(name.clone(), value.clone());
            }
        }
        item
    }
}

/// Whether a migration is still ours, between two saves.
#[derive(Debug)]
pub(super) struct Hold {
    home: Store,
    target: TableName,
    /// The number that was saved last, and when it was last seen to be that.
    known: Mutex<(i64, UnixTime)>,
}

impl Hold {
    pub(super) fn new(home: Store, state: &Checkpoint) -> Self {
        Self { home, target: state.target.clone(), known: Mutex::new((state.number, state.saved)) }
    }

    pub(super) fn renew(&self, state: &Checkpoint) {
        *self.known.lock() = (state.number, state.saved);
    }

    /// Looks again when the last look is a while ago. Fails when somebody else has taken the migration over.
    pub(super) async fn check(&self) -> Result<(), Error> {
        let ((number, seen), now) = (*self.known.lock(), self.home.clock().now());
        if seen.plus(HELD) >= now {
            return Ok(());
        }
        match Checkpoint::load(&self.home, &self.target).await? {
            Some(state) if state.number == number => {
                self.known.lock().1 = now;
                Ok(())
            }
            Some(_) | None => Err(taken_over(&self.target)),
        }
    }
}

fn taken_over(target: &TableName) -> Error {
    Error::NotAllowed(format!(
        "another process has taken over the migration to {target}: look at `larder migrate status`"
    ))
}

/// Every migration that a store knows of.
pub async fn known(store: &Store) -> Result<Vec<Checkpoint>, Error> {
    if store.describe(&table()).await?.is_none() {
        return Ok(Vec::new());
    }
    let mut states = Vec::new();
    let mut start = None;
    loop {
        let page = store.scan(Scan { start, consistent: true, ..Scan::of(table()) }).await?;
        for item in &page.items {
            states.push(read(item)?);
        }
        start = page.last_key;
        if start.is_none() {
            break;
        }
    }
    states.sort_by(|a, b| a.target.cmp(&b.target));
    Ok(states)
}

/// Makes the table of migrations where there is none.
pub(super) async fn provision(store: &Store) -> Result<(), Error> {
    let schema = Schema::load("migrations", SCHEMA, &mut NoFiles, &Environment::new()).schema;
    let schema = schema.expect("the schema of migrations is right");
    let desired = [Desired::of(&schema, &Environment::new()).map_err(Error::Environment)?];
    let plan = provision::plan(&desired, store).await?;
    provision::apply(&plan, store, &Permissions::default(), &mut Silent).await?;
    Ok(())
}

fn table() -> TableName {
    TableName::new(TABLE).expect("the name of the table is right")
}

fn key(target: &TableName) -> Item {
    [("target", AttributeValue::from(target.as_str()))].into_iter().collect()
}

fn read(item: &Item) -> Result<Checkpoint, Error> {
    understood(item).ok_or_else(|| {
        let target = item.get("target").and_then(AttributeValue::as_str).unwrap_or("?");
        Error::NotAllowed(format!(
            "what {TABLE} says about {target} cannot be read: a newer `larder` wrote it"
        ))
    })
}

fn place_item(place: &StreamPosition) -> Item {
    let shards = place.shards.iter().map(|(id, read)| match read {
        Read::To(number) => (id.clone(), AttributeValue::from(number.as_str())),
        Read::Whole => (id.clone(), AttributeValue::Bool(true)),
    });
    let mut item: Item = [
        ("stream", AttributeValue::from(place.stream.as_str())),
        ("shards", AttributeValue::M(shards.collect())),
    ]
    .into_iter()
    .collect();
    if let Some(ended) = place.ended {
        item.insert("ended", ended.millis());
    }
    item
}

fn place(item: &Item) -> Option<StreamPosition> {
    let (Some(stream), Some(AttributeValue::M(shards))) =
        (item.get("stream").and_then(AttributeValue::as_str), item.get("shards"))
    else {
        return None;
    };
    let shards = shards.iter().map(|(id, read)| match read {
        AttributeValue::S(number) => (id.clone(), Read::To(number.clone())),
        _ => (id.clone(), Read::Whole),
    });
    let ended = item.get("ended").and_then(|ended| ended.as_number()?.to_i64()).map(UnixTime::from_millis);
    Some(StreamPosition { stream: stream.to_owned(), shards: shards.collect(), ended })
}

fn understood(item: &Item) -> Option<Checkpoint> {
    let text = |name: &str| item.get(name)?.as_str().map(str::to_owned);
    let number = |name: &str| item.get(name)?.as_number()?.to_i64();
    let time = |name: &str| number(name).map(UnixTime::from_millis);
    let flag = |value: &AttributeValue| matches!(value, AttributeValue::Bool(true));
    let phase = text("phase")?;
    let verified = text("verified").and_then(|text| {
        let (items, checksum) = text.split_once(' ')?;
        Some((items.parse().ok()?, u64::from_str_radix(checksum, 16).ok()?))
    });
    let forward = match item.get("forward") {
        Some(AttributeValue::M(forward)) => place(forward),
        _ => None,
    };
    let streams = match item.get("streams")? {
        AttributeValue::L(flags) => (flags.first().is_some_and(flag), flags.get(1).is_some_and(flag)),
        _ => return None,
    };
    Some(Checkpoint {
        system: text("system")?,
        source_place: text("source_place")?,
        source: TableName::new(text("source")?).ok()?,
        target: TableName::new(text("target")?).ok()?,
        phase: Phase::ALL.into_iter().find(|known| known.name() == phase)?,
        began: time("began")?,
        saved: time("saved")?,
        copied: number("copied")?.try_into().ok()?,
        is_copied: item.get("is_copied").is_some_and(flag),
        verified,
        switched: time("switched"),
        keep_until: time("keep_until"),
        next: match item.get("next") {
            Some(AttributeValue::M(next)) => Some(next.clone()),
            _ => None,
        },
        left_behind: number("left_behind").and_then(|left| left.try_into().ok()),
        place: place(item),
        forward,
        streams,
        number: number("number")?,
    })
}
