//! Many writes, all or none; many reads at one moment.
//!
//! A transaction locks all its items, decides every write, and submits one batch. Since nothing else can touch
//! the items meanwhile, transactions never conflict: they wait for each other, for microseconds; unless conflicts are asked
//! for (`conflicts.rs`). All are decided before any is staged, because how large the items will be together is known only then.
//!
//! A client's token is stored in the same batch, with a fingerprint of the request and what it consumed, so
//! that a repeated request does nothing, also after a restart.

use larder_expr::{Placeholders, Renderer};
use larder_model::limits::{IDEMPOTENCY_SECONDS, TRANSACTION_BYTES_MAX};
use larder_model::{ApiError, AttributeValue, CancellationReason, Item, Number, TableName, UnixTime};
use larder_storage::{Batch, Ticket};

use crate::capacity::{Meter, read_units, write_units};
use crate::catalog::{Catalog, Table};
use crate::conflicts::{self, Kind, Underway};
use crate::item_bytes::{self, StoredItem};
use crate::metrics::Operation;
use crate::ops::{
    ReturnCapacity, TransactAction, TransactGetItems, TransactGetItemsOutput, TransactWriteItems,
    TransactWriteItemsOutput, UnitKind,
};
use crate::throttle::Cost;
use crate::write::{Action, Change, Collections, Write, check, decide, note_collection, stage};
use crate::{Engine, Error, key_rules, layout, read};

/// A transaction doubles the units of the tables it touches.
const FACTOR: f64 = 2.0;

/// A decided transaction, and what must be on disk before its answer is given.
struct Submitted {
    answer: Result<TransactWriteItemsOutput, Error>,
    settled: Option<Ticket>,
    underway: Option<Underway>,
}

impl Engine {
    pub fn transact_get_items(&self, request: &TransactGetItems) -> Result<TransactGetItemsOutput, Error> {
        let watch = self.watch(Operation::TransactGetItems);
        let tables = self.known_tables(request.gets.iter().map(|get| &get.table));
        watch.end_all(&tables, self.items_at_once(request, Operation::TransactGetItems))
    }

    pub(crate) fn items_at_once(
        &self,
        request: &TransactGetItems,
        operation: Operation,
    ) -> Result<TransactGetItemsOutput, Error> {
        let mut tables = Vec::new();
        let mut reasons = Vec::new();
        for get in &request.gets {
            let table = self.table(&get.table)?;
            reasons.push(match key_rules::check_key(&table, &get.key) {
                Ok(()) => CancellationReason::NONE,
                Err(fault) => invalid(fault.message),
            });
            tables.push(table);
        }
        cancel_unless_fine(reasons)?;
        let mut keys = Vec::new();
        for (table, get) in tables.iter().zip(&request.gets) {
            keys.push(table.item_key(&get.key)?);
        }
        check_distinct(&keys)?;
        if self.tells_conflicts() {
            let free = keys.iter().map(|key| {
                let refused = self.check_reading(key).err();
                refused.map_or(CancellationReason::NONE, |_| conflicts::reason())
            });
            cancel_unless_fine(free.collect())?;
        }
        if self.is_throttling() {
            let admitted = tables.iter().zip(&keys).map(|(table, key)| {
                let refused = self.admit_read(table, None, Some(key)).err();
                refused.map_or(Ok(CancellationReason::NONE), reason)
            });
            cancel_unless_fine(admitted.collect::<Result<_, _>>()?)?;
        }

        let snapshot = self.store.snapshot();
        let mut meter = Meter::new(operation, request.capacity, Some(UnitKind::Read));
        let mut items = Vec::new();
        let mut bytes = 0;
        for (get, (table, key)) in request.gets.iter().zip(tables.iter().zip(&keys)) {
            let found = read::stored(&snapshot, table, key)?;
            let size = found.as_ref().map_or(Ok(0), StoredItem::size)?;
            bytes += size;
            if bytes > TRANSACTION_BYTES_MAX {
                return Err(too_large());
            }
            meter.table(table, FACTOR * read_units(size, true));
            self.read_from(table, None, Some(key), FACTOR * read_units(size, true));
            items.push(found.map(|item| read::row(item, get.projection.as_ref())).transpose()?);
        }
        Ok(TransactGetItemsOutput { items, consumed: meter.all() })
    }

    pub async fn transact_write_items(
        &self,
        request: TransactWriteItems,
        now: UnixTime,
    ) -> Result<TransactWriteItemsOutput, Error> {
        let watch = self.watch(Operation::TransactWriteItems);
        let tables = self.known_tables(request.writes.iter().map(|write| &write.table));
        let outcome = self.write_at_once(request, Operation::TransactWriteItems, now).await;
        watch.end_all(&tables, outcome)
    }

    pub(crate) async fn write_at_once(
        &self,
        request: TransactWriteItems,
        operation: Operation,
        now: UnixTime,
    ) -> Result<TransactWriteItemsOutput, Error> {
        let Submitted { answer, settled, underway } = self.submit_transaction(request, operation, now)?;
        if let Some(settled) = settled {
            settled.await?;
        }
        drop(underway);
        answer
    }

    fn submit_transaction(
        &self,
        request: TransactWriteItems,
        operation: Operation,
        now: UnixTime,
    ) -> Result<Submitted, Error> {
        let fingerprint = request.token.is_some().then(|| fingerprint(&request));
        let TransactWriteItems { writes, token, capacity, collection_metrics: wants_metrics } = request;

        let catalog = self.writing()?;
        let mut targets = Vec::new();
        // Of writes that can be refused before any item is looked at; the others are decided all the same.
        let mut faults = Vec::new();
        let mut keys = Vec::new();
        let mut bytes = 0;
        for write in writes {
            let table = catalog.table(&write.table)?.clone();
            let action = action(write.action);
            bytes += action.keyed().size();
            let checked = check(&table, &action, write.condition.as_ref());
            // A key at fault is no item's, and so no other write's either.
            keys.push(if checked.is_ok() { table.item_key(action.keyed())? } else { Vec::new() });
            faults.push(checked.err().map(reason).transpose()?);
            targets.push((table, action, write.condition, write.return_old_on_failure));
        }
        check_distinct(&keys)?;
        if bytes > TRANSACTION_BYTES_MAX {
            return Err(too_large());
        }

        let seen = catalog.generation;
        // The token is locked as well: of two equal requests at once, the second must see the first.
        let token_key = token.as_deref().map(layout::token);
        let good_keys = || keys.iter().map(Vec::as_slice).filter(|key| !key.is_empty());
        let locks = self.locks.lock_all(good_keys().chain(token_key.as_deref()));
        if let (Some(token_key), Some(fingerprint)) = (&token_key, &fingerprint)
            && let Some(stored) = self.store.latest(token_key)?
        {
            let before = Remembered::read(&item_bytes::decode(&stored)?)?;
            if before.expires > self.settled(now).seconds() {
                let meter = Meter::new(operation, capacity, Some(UnitKind::Read));
                let answer = before.answer(self, fingerprint, meter, &catalog);
                return Ok(Submitted {
                    answer,
                    settled: self.until_durable([token_key.as_slice()].into_iter(), seen)?,
                    underway: None,
                });
            }
        }

        let meter = |wanted| Meter::new(operation, wanted, Some(UnitKind::Write));
        // A transaction that is cancelled costs what the items cost as they are.
        let (mut meter, mut canceled) = (meter(capacity), meter(ReturnCapacity::None));
        let mut metrics = Collections::new();
        let judge = self.judge(now);
        let mut reasons = Vec::new();
        let mut decided = Vec::new();
        let (mut costs, mut turned_away) = (Vec::new(), false);
        let mut bytes = 0;
        let targets = targets.into_iter().zip(&keys).zip(faults);
        for (((table, action, condition, return_old_on_failure), key), fault) in targets {
            if let Some(fault) = fault {
                reasons.push(fault);
                continue;
            }
            if wants_metrics {
                note_collection(&mut metrics, &table, action.keyed());
            }
            if self.check_conflict(key).is_err() {
                reasons.push(conflicts::reason());
                continue;
            }
            let old = self.old(&table, key)?;
            let as_is = FACTOR * write_units(old.as_ref().map_or(0, |old| old.size));
            canceled.table(&table, as_is);
            let changes = !matches!(action, Action::Check { .. });
            let key_bytes = action.keyed().size();
            let write = Write { action, condition: condition.as_ref(), return_old_on_failure };
            let outcome = decide(&table, key.clone(), old, write, &judge);
            match self.admit_member(&table, key, outcome.as_ref().ok(), as_is) {
                Err(refusal) => {
                    turned_away = true;
                    reasons.push(reason(refusal)?);
                    continue;
                }
                Ok(cost) => costs.push((table.clone(), cost)),
            }
            match outcome {
                Err(refusal) => reasons.push(reason(refusal)?),
                Ok(change) => {
                    reasons.push(CancellationReason::NONE);
                    let new = change.new.as_ref().filter(|_| changes);
                    bytes += new.map_or(key_bytes, |new| new.size);
                    // What is too much is not kept: the transaction is refused, whatever the other items hold.
                    if bytes <= TRANSACTION_BYTES_MAX {
                        decided.push((table, change, changes));
                    }
                }
            }
        }
        let refused = cancel_unless_fine(reasons)
            .inspect_err(|_| {
                // What is turned away costs nothing.
                if !turned_away {
                    canceled.count();
                    costs.drain(..).for_each(|(table, cost)| cost.canceled.take_from(&table));
                }
            })
            .and_then(|()| if bytes > TRANSACTION_BYTES_MAX { Err(too_large()) } else { Ok(()) });
        if let Err(error) = refused {
            let settled = self.until_durable(good_keys(), seen)?;
            return Ok(Submitted { answer: Err(error), settled, underway: None });
        }
        costs.into_iter().for_each(|(table, cost)| cost.made.take_from(&table));
        let mut sizes = Vec::new();
        let mut batch = Batch::default();
        let stamp = self.stamp(now);
        for (table, change, changes) in decided {
            meter.table(&table, FACTOR * change.write_units());
            sizes.push((table.name().clone(), change.size()));
            if changes {
                stage(&self.store, &mut batch, &table, &change, &mut meter, stamp)?;
            }
        }
        if let (Some(token), Some(fingerprint)) = (&token, fingerprint) {
            let remembered = Remembered {
                fingerprint: Some(fingerprint),
                expires: now.seconds() + IDEMPOTENCY_SECONDS,
                sizes,
            };
            batch.put(layout::token(token), item_bytes::encode(&remembered.write()));
            batch.put(layout::token_expiry(remembered.expires, token), Vec::new());
        }
        let ticket = self.store.submit(batch, seen)?;
        let underway = self.under_way(|| keys, Kind::Transaction);
        drop(locks);
        let output = TransactWriteItemsOutput { consumed: meter.all(), collection_metrics: metrics };
        Ok(Submitted { answer: Ok(output), settled: Some(ticket), underway })
    }

    /// What a write costs as a part of a transaction, unless there is no throughput for it. Nothing is taken before all
    /// are decided. `change`: none where it is refused.
    fn admit_member(
        &self,
        table: &Table,
        key: &[u8],
        change: Option<&Change>,
        as_is: f64,
    ) -> Result<MemberCost, Error> {
        Ok(MemberCost {
            canceled: self.admit_condition(table, key, as_is)?,
            made: change
                .map(|change| self.admit_write(table, change, FACTOR))
                .transpose()?
                .unwrap_or_default(),
        })
    }
}

/// What a write costs as a part of a transaction.
struct MemberCost {
    made: Cost,
    /// What it costs all the same if the transaction is cancelled.
    canceled: Cost,
}

fn action(action: TransactAction) -> Action {
    match action {
        TransactAction::Put { item } => Action::Put(item.into()),
        TransactAction::Update { key, update } => Action::Update { key, update: Some(update) },
        TransactAction::Delete { key } => Action::Delete { key },
        TransactAction::Check { key } => Action::Check { key },
    }
}

/// What one item's refusal means for the transaction: a reason among others, or the end of it.
fn reason(refusal: Error) -> Result<CancellationReason, Error> {
    match refusal {
        Error::Key(fault) if fault.empty => Err(fault.into()),
        Error::Key(fault) => Ok(invalid(fault.message)),
        Error::Api(ApiError::Validation(message)) => Ok(invalid(message)),
        Error::Expression(error) => Ok(invalid(error.to_string())),
        Error::Api(ApiError::Exceeded(exceeded)) => Ok(CancellationReason {
            code: match exceeded.code {
                "ProvisionedThroughputExceededException" => CancellationReason::THROUGHPUT,
                _ => CancellationReason::THROTTLED,
            },
            message: Some(exceeded.message.to_owned()),
            item: None,
        }),
        Error::Api(ApiError::ConditionalCheckFailed { item }) => Ok(CancellationReason {
            code: CancellationReason::CONDITION,
            message: Some(ApiError::ConditionalCheckFailed { item: None }.to_string()),
            item: item.map(|item| *item),
        }),
        other => Err(other),
    }
}

fn invalid(message: String) -> CancellationReason {
    CancellationReason { code: "ValidationError", message: Some(message), item: None }
}

fn cancel_unless_fine(reasons: Vec<CancellationReason>) -> Result<(), Error> {
    if reasons.iter().all(|reason| *reason == CancellationReason::NONE) {
        return Ok(());
    }
    Err(ApiError::TransactionCanceled { reasons }.into())
}

fn check_distinct(keys: &[Vec<u8>]) -> Result<(), Error> {
    let mut sorted: Vec<&Vec<u8>> = keys.iter().filter(|key| !key.is_empty()).collect();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::validation("Transaction request cannot include multiple operations on one item"));
    }
    Ok(())
}

fn too_large() -> Error {
    Error::validation(
        "Collection size of items exceeded, which can also be caused by the aggregate size of the items in the \
         transaction exceeding the 4MB limit",
    )
}

/// What fingerprints are made of. Those without a version were of another kind.
const FINGERPRINT_VERSION: i64 = 1;

/// A transaction that was made under a token.
pub(crate) struct Remembered {
    /// Absent if it is not of our version.
    fingerprint: Option<[u8; 16]>,
    pub(crate) expires: i64,
    /// The size each item was charged by; a repeated request costs reading them.
    sizes: Vec<(TableName, usize)>,
}

impl Remembered {
    fn write(&self) -> Item {
        let mut record = Item::new();
        if let Some(fingerprint) = self.fingerprint {
            record.insert("fingerprint", AttributeValue::B(fingerprint.to_vec()));
            record.insert("fingerprint_version", FINGERPRINT_VERSION);
        }
        record.insert("expires", self.expires);
        let sizes = self.sizes.iter().flat_map(|(table, size)| [table.key().into(), (*size as i64).into()]);
        record.insert("sizes", AttributeValue::L(sizes.collect()));
        record
    }

    pub(crate) fn read(record: &Item) -> Result<Self, Error> {
        let read = || {
            let integer = |name| record.get(name)?.as_number().and_then(Number::to_i64);
            let fingerprint = match (record.get("fingerprint")?, integer("fingerprint_version")) {
                (AttributeValue::B(bytes), Some(FINGERPRINT_VERSION)) => {
                    Some(bytes.as_slice().try_into().ok()?)
                }
                _ => None,
            };
            let Some(AttributeValue::L(sizes)) = record.get("sizes") else { return None };
            let sizes = sizes.chunks(2).map(|pair| match pair {
                [AttributeValue::S(table), AttributeValue::N(size)] => {
                    Some((TableName::from_key(table)?, usize::try_from(size.to_i64()?).ok()?))
                }
                _ => None,
            });
            Some(Self { fingerprint, expires: integer("expires")?, sizes: sizes.collect::<Option<_>>()? })
        };
        read().ok_or(Error::Damaged("the record of a transaction's token cannot be read"))
    }

    fn answer(
        self,
        engine: &Engine,
        fingerprint: &[u8; 16],
        mut meter: Meter,
        catalog: &Catalog,
    ) -> Result<TransactWriteItemsOutput, Error> {
        if self.fingerprint.is_some_and(|known| known != *fingerprint) {
            return Err(ApiError::IdempotentParameterMismatch.into());
        }
        let mut read = Vec::new();
        for (table, size) in &self.sizes {
            let table = catalog.table(table)?;
            engine.admit_read(table, None, None)?;
            read.push((table, FACTOR * read_units(*size, true)));
        }
        for (table, units) in read {
            engine.read_from(table, None, None, units);
            meter.table(table, units);
        }
        Ok(TransactWriteItemsOutput { consumed: meter.all(), collection_metrics: Vec::new() })
    }
}

/// Tells two requests under one token apart: a hash of what they ask for.
///
/// It is compared with those of requests from before a restart, so it must not change; where it must, its version
/// does, and requests from before are taken for the same.
fn fingerprint(request: &TransactWriteItems) -> [u8; 16] {
    let mut hash = Hash::default();
    for write in &request.writes {
        let mut renderer = Renderer::new();
        let (action, keyed, update) = match &write.action {
            TransactAction::Put { item } => ("put", item, None),
            TransactAction::Update { key, update } => ("update", key, renderer.update(update)),
            TransactAction::Delete { key } => ("delete", key, None),
            TransactAction::Check { key } => ("check", key, None),
        };
        let condition = write.condition.as_ref().map(|condition| renderer.condition(condition));
        let Placeholders { names, values } = renderer.finish();
        let names: Item = names.into_iter().collect();
        let values: Item = values.into_iter().collect();
        hash.part(action.as_bytes());
        hash.part(write.table.key().as_bytes());
        hash.part(&item_bytes::encode(keyed));
        hash.part(update.unwrap_or_default().as_bytes());
        hash.part(condition.unwrap_or_default().as_bytes());
        hash.part(&item_bytes::encode(&names));
        hash.part(&item_bytes::encode(&values));
        hash.part(&[u8::from(write.return_old_on_failure)]);
    }
    hash.bytes()
}

/// FNV-1a of 128 bits.
pub(crate) struct Hash(u128);

impl Default for Hash {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Hash {
    /// The length goes first, so that no two lists of parts are the same bytes.
    pub(crate) fn part(&mut self, bytes: &[u8]) {
        for byte in (bytes.len() as u64).to_be_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    pub(crate) fn bytes(&self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use larder_expr::Scope;

    use super::*;
    use crate::ops::TransactWrite;

    fn check(action: TransactAction, condition: Option<&str>, expected: &str) {
        let condition = condition.map(|text| scope().condition(text).expect("it is a condition"));
        let table = TableName::new("data").expect("it is a name");
        let write = TransactWrite { table, action, condition, return_old_on_failure: false };
        let capacity = ReturnCapacity::None;
        let request =
            TransactWriteItems { writes: vec![write], token: None, capacity, collection_metrics: false };
        let found: String = fingerprint(&request).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected, "{condition:?}", condition = request.writes[0].condition);
    }

    fn scope() -> Scope {
        let values = [(":n".to_owned(), 7.into()), (":m".to_owned(), "x".into())];
        Scope::new(None, Some(BTreeMap::from(values))).expect("they are placeholders")
    }

    fn key() -> Item {
        [("pk", AttributeValue::from("a"))].into_iter().collect()
    }

    /// They are kept across upgrades: where one of these must change, so must the version.
    #[test]
    fn fingerprints_do_not_change() {
        let update = scope().update("SET n = if_not_exists(n, :n), m.x[2] = :m REMOVE o");
        let update = update.expect("it is an update");
        check(TransactAction::Put { item: key() }, None, "73804f0b944872032035532c33af27ca");
        check(
            TransactAction::Put { item: key() },
            Some("attribute_not_exists(pk)"),
            "2101973a3aeee01b3471977b6b573252",
        );
        check(
            TransactAction::Update { key: key(), update },
            Some("n < :n OR NOT contains(m, :m)"),
            "76a6c3272d83d60ad64887178a1cc0b3",
        );
        check(TransactAction::Delete { key: key() }, None, "8e9fce82a614a9b922cc77fd69c14eff");
        check(TransactAction::Check { key: key() }, None, "65b35e9fd99fb22a77425c5545e9a961");
    }
}
