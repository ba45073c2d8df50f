//! What a workload can do, and doing it.
//!
//! Each operation becomes one request to the engine. Its answer is sorted by what it says about the
//! outcome: known, certainly not made, or unknown.

use std::time::Duration;

use larder_engine::ops::{
    BatchWrite, BatchWriteItem, DeleteItem, DeleteTable, PutItem, ReturnCapacity, TransactAction,
    TransactWrite, TransactWriteItems, UpdateItem, WriteOptions,
};
use larder_engine::{Engine, Error};
use larder_expr::{Comparator, Condition, Operand, SetOperand, SetValue, Update};
use larder_model::{ApiError, Item, Path, UnixTime};
use larder_storage::Error as StorageError;
use pollster::block_on;

use crate::schema::{self, COLOUR, COUNT, EXPIRES, Key, Place};

#[derive(Clone, Debug)]
pub enum Operation {
    Write(Write),
    /// Puts and deletes of distinct items; all at once, as Larder makes them.
    Batch(Vec<Write>),
    Transact(Transaction),
    /// Time passes.
    Advance(Duration),
    /// Background work until there is none.
    Work,
    /// One step of background work, at a time when nothing has expired.
    Backfill,
    AddIndex,
    DropIndex,
    CreateTable,
    DropTable,
    SwitchExpiry(bool),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    pub writes: Vec<Write>,
    pub token: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub place: Place,
    pub key: Key,
    pub action: Action,
    pub condition: Option<Requires>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The attributes besides the key.
    Put(Item),
    /// `SET count = if_not_exists(count, 0) + n`
    Count(i64),
    /// `SET colour = …`, or `REMOVE colour, expires`.
    Paint(Option<&'static str>),
    Delete,
    /// Only the condition; in transactions.
    Check,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Requires {
    Present,
    Absent,
    CountIs(i64),
}

/// What the engine said about an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Known(Outcome),
    /// The disk failed, and the operation has not happened and will not.
    NotMade(String),
    /// The disk failed, and the operation has happened or not.
    Unknown(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Refused(&'static str),
    /// Which of a transaction's conditions held.
    Canceled(Vec<bool>),
    Worked {
        expired: usize,
    },
}

impl Write {
    /// The whole item a put makes.
    pub fn item(&self, attributes: &Item) -> Item {
        self.key.attributes().into_iter().chain(attributes.clone()).collect()
    }
}

/// Does an operation. An error is damage: something the engine must never say, whatever the disk does.
pub fn perform(
    engine: &Engine,
    operation: &Operation,
    now: UnixTime,
    ttl_delay: Duration,
) -> Result<Answer, String> {
    let mut changes_catalog = false;
    let done = match operation {
        Operation::Write(write) => single(engine, write, now),
        Operation::Batch(writes) => block_on(engine.batch_write_item(batch(writes), now)).map(drop),
        Operation::Transact(transaction) => {
            block_on(engine.transact_write_items(request(transaction), now)).map(drop)
        }
        Operation::Advance(_) => Ok(()),
        Operation::Work => return work(engine, now, ttl_delay),
        Operation::Backfill => {
            return match engine.work(UnixTime::from_seconds(0), Duration::ZERO) {
                Ok(worked) => Ok(Answer::Known(Outcome::Worked { expired: worked.expired })),
                Err(error) => answer(error, true),
            };
        }
        Operation::AddIndex => {
            changes_catalog = true;
            block_on(engine.update_table(schema::add_extra_index(), now)).map(drop)
        }
        Operation::DropIndex => {
            changes_catalog = true;
            block_on(engine.update_table(schema::drop_extra_index(), now)).map(drop)
        }
        Operation::CreateTable => {
            changes_catalog = true;
            block_on(engine.create_table(schema::create_table(Place::Second), now)).map(drop)
        }
        Operation::DropTable => {
            changes_catalog = true;
            block_on(engine.delete_table(DeleteTable { table: Place::Second.table() }, now)).map(drop)
        }
        Operation::SwitchExpiry(enabled) => {
            changes_catalog = true;
            block_on(engine.update_time_to_live(schema::switch_expiry(*enabled))).map(drop)
        }
    };
    match done {
        Ok(()) => Ok(Answer::Known(Outcome::Done)),
        Err(error) => answer(error, changes_catalog),
    }
}

/// Sorts an error. After a failed change of the catalog the engine reads again, and an error of that read
/// may stand in for one that says `Unknown`.
fn answer(error: Error, read_may_mask: bool) -> Result<Answer, String> {
    let text = error.to_string();
    match error {
        Error::Api(ApiError::TransactionCanceled { reasons }) => {
            let held = reasons.iter().map(|reason| reason.code == "None").collect();
            Ok(Answer::Known(Outcome::Canceled(held)))
        }
        Error::Api(error) => Ok(Answer::Known(Outcome::Refused(error.code()))),
        Error::Storage(StorageError::Failed { .. } | StorageError::Lost) => Ok(Answer::NotMade(text)),
        Error::Storage(StorageError::Unknown { .. }) => Ok(Answer::Unknown(text)),
        Error::Storage(StorageError::Io { .. } | StorageError::Expired) => {
            Ok(if read_may_mask { Answer::Unknown(text) } else { Answer::NotMade(text) })
        }
        _ => Err(text),
    }
}

fn work(engine: &Engine, now: UnixTime, ttl_delay: Duration) -> Result<Answer, String> {
    const STEPS_MAX: usize = 100;
    let mut expired = 0;
    for _ in 0..STEPS_MAX {
        match engine.work(now, ttl_delay) {
            Ok(worked) => {
                expired += worked.expired;
                if !worked.more {
                    return Ok(Answer::Known(Outcome::Worked { expired }));
                }
            }
            Err(error) => return answer(error, true),
        }
    }
    Err(format!("after {STEPS_MAX} steps there is still background work to do"))
}

fn single(engine: &Engine, write: &Write, now: UnixTime) -> Result<(), Error> {
    let table = write.place.table();
    let condition = write.condition.as_ref().map(Requires::condition);
    let options = WriteOptions { condition, ..WriteOptions::default() };
    let written = match &write.action {
        Action::Put(attributes) => {
            block_on(engine.put_item(PutItem { table, item: write.item(attributes), options }, now))
        }
        Action::Count(_) | Action::Paint(_) | Action::Check => {
            let (key, update) = (write.key.attributes(), write.action.update());
            block_on(engine.update_item(UpdateItem { table, key, update, options }, now))
        }
        Action::Delete => {
            block_on(engine.delete_item(DeleteItem { table, key: write.key.attributes(), options }, now))
        }
    };
    written.map(drop)
}

fn batch(writes: &[Write]) -> BatchWriteItem {
    let of = |place: Place| {
        let writes = writes.iter().filter(|write| write.place == place).map(|write| match &write.action {
            Action::Put(attributes) => BatchWrite::Put(write.item(attributes)),
            _ => BatchWrite::Delete(write.key.attributes()),
        });
        (place.table(), writes.collect::<Vec<_>>())
    };
    let tables = Place::ALL.into_iter().map(of).filter(|(_, writes)| !writes.is_empty()).collect();
    BatchWriteItem { tables, capacity: ReturnCapacity::None, collection_metrics: false }
}

/// The request for a transaction.
pub fn request(transaction: &Transaction) -> TransactWriteItems {
    let write = |write: &Write| TransactWrite {
        table: write.place.table(),
        action: match &write.action {
            Action::Put(attributes) => TransactAction::Put { item: write.item(attributes) },
            Action::Delete => TransactAction::Delete { key: write.key.attributes() },
            Action::Check => TransactAction::Check { key: write.key.attributes() },
            Action::Count(_) | Action::Paint(_) => TransactAction::Update {
                key: write.key.attributes(),
                update: write.action.update().unwrap_or_default(),
            },
        },
        condition: write.condition.as_ref().map(Requires::condition),
        return_old_on_failure: false,
    };
    TransactWriteItems {
        writes: transaction.writes.iter().map(write).collect(),
        token: transaction.token.clone(),
        capacity: ReturnCapacity::None,
        collection_metrics: false,
    }
}

impl Action {
    fn update(&self) -> Option<Update> {
        let mut update = Update::default();
        match self {
            Self::Count(by) => {
                let before = SetOperand::IfNotExists(Path::attribute(COUNT), Box::new(SetOperand::value(0)));
                let by = SetOperand::value(*by);
                update.set.push((Path::attribute(COUNT), SetValue::Plus(before, by)));
            }
            Self::Paint(Some(colour)) => {
                let colour = SetOperand::value(*colour);
                update.set.push((Path::attribute(COLOUR), SetValue::Is(colour)));
            }
            Self::Paint(None) => {
                update.remove.extend([Path::attribute(COLOUR), Path::attribute(EXPIRES)]);
            }
            Self::Put(_) | Self::Delete | Self::Check => return None,
        }
        Some(update)
    }
}

impl Requires {
    fn condition(&self) -> Condition {
        match self {
            Self::Present => Condition::Exists(Path::attribute("pk")),
            Self::Absent => Condition::NotExists(Path::attribute("pk")),
            Self::CountIs(count) => Condition::Compare {
                left: Operand::Path(Path::attribute(COUNT)),
                comparator: Comparator::Equal,
                right: Operand::value(*count),
            },
        }
    }
}
