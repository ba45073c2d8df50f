//! PartiQL statements: each becomes the reads and writes that other operations make.
//!
//! `larder-partiql` says which item, partitions or scan a statement is about, once the key of its table is known. From
//! there on nothing is its own: reads are those of `read.rs`, writes those of `write.rs` and `transact.rs`, so guards,
//! indexes and streams see no difference.
//!
//! Promises:
//! - A page of a SELECT reads about a megabyte at most, however many partitions it names.
//! - An INSERT never takes the place of an item, and an UPDATE never makes one.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use larder_expr::Condition;
use larder_model::limits::PAGE_BYTES_MAX;
use larder_model::{
    ApiError, AttributeValue, CancellationReason, Item, KeySchema, Path, TableName, UnixTime,
};
use larder_partiql::{
    Access, Columns, Keyed, Part, Returning, Select as SelectStatement, check_insert, keyed_check,
    keyed_read, keyed_write, plan,
};

use crate::capacity::{self, read_units};
use crate::catalog::Table;
use crate::item_bytes::{self, StoredItem};
use crate::metrics::Operation;
use crate::ops::{
    BatchExecuteStatement, BatchExecuteStatementOutput, BatchStatement, Consumed, ExecuteStatement,
    ExecuteStatementOutput, ExecuteTransaction, ExecuteTransactionOutput, Query, ReturnCapacity,
    ReturnValues, Row, Scan, Statement, StatementPosition, StatementResponse, TransactAction, TransactGet,
    TransactGetItems, TransactStatement, TransactWrite, TransactWriteItems, WriteOptions,
};
use crate::transact::Hash;
use crate::write::Action;
use crate::{Engine, Error, key_rules, read};

impl Engine {
    pub async fn execute_statement(
        &self,
        request: ExecuteStatement,
        now: UnixTime,
    ) -> Result<ExecuteStatementOutput, Error> {
        let watch = self.watch(Operation::ExecuteStatement);
        let table = watch.found(self.table(request.statement.table()))?;
        let outcome = match &request.statement {
            Statement::Select(select) => self.select(&table, select, &request),
            _ => self.write_one(&table, request, now).await,
        };
        watch.end(&table, outcome)
    }

    async fn write_one(
        &self,
        table: &Table,
        request: ExecuteStatement,
        now: UnixTime,
    ) -> Result<ExecuteStatementOutput, Error> {
        if request.start.is_some() {
            return Err(Error::validation("NextToken is only valid on a SELECT statement"));
        }
        let writing = Writing { returns_old: request.return_old_on_failure, capacity: request.capacity, now };
        let (row, consumed) =
            self.write_statement(Operation::ExecuteStatement, table, request.statement, writing).await?;
        Ok(ExecuteStatementOutput { items: row.into_iter().collect(), next: None, consumed })
    }

    fn select(
        &self,
        table: &Table,
        select: &SelectStatement,
        request: &ExecuteStatement,
    ) -> Result<ExecuteStatementOutput, Error> {
        match plan(select, searched(table, select)?)? {
            Access::Get(_) if request.start.is_some() => Err(invalid_token()),
            Access::Get(keyed) => self.select_item(table, select, keyed, request),
            Access::Scan { filter } => self.select_scan(table, select, filter, request),
            Access::Query { parts, forward } => self.select_parts(table, select, &parts, forward, request),
        }
    }

    fn select_item(
        &self,
        table: &Table,
        select: &SelectStatement,
        keyed: Keyed,
        request: &ExecuteStatement,
    ) -> Result<ExecuteStatementOutput, Error> {
        let Keyed { key, condition } = keyed;
        if let Some(condition) = &condition {
            key_rules::check_condition(table, None, condition)?;
        }
        let (found, consumed) =
            self.keyed_item(Operation::ExecuteStatement, table, &key, request.consistent, request.capacity)?;
        let mut items = Vec::new();
        if let Some(item) = found {
            let holds = match &condition {
                Some(condition) => condition.holds(Some(&item.decode()?))?,
                None => true,
            };
            if holds {
                items.push(shown(Row::Stored(item), select.columns.as_ref())?);
            }
        }
        Ok(ExecuteStatementOutput { items, next: None, consumed })
    }

    /// The item with this key, and what it cost to read.
    fn keyed_item(
        &self,
        operation: Operation,
        table: &Table,
        key: &Item,
        consistent: bool,
        wanted: ReturnCapacity,
    ) -> Result<(Option<StoredItem>, Option<Consumed>), Error> {
        key_rules::check_key(table, key)?;
        let stored_key = table.item_key(key)?;
        self.admit_read(table, None, Some(&stored_key))?;
        let found = read::stored(&self.store.snapshot(), table, &stored_key)?;
        let size = found.as_ref().map_or(Ok(0), StoredItem::size)?;
        let units = read_units(size, consistent);
        self.read_from(table, None, Some(&stored_key), units);
        let consumed = capacity::count_read(table, operation, units, wanted);
        Ok((found, consumed))
    }

    fn select_scan(
        &self,
        table: &Table,
        select: &SelectStatement,
        filter: Option<Condition>,
        request: &ExecuteStatement,
    ) -> Result<ExecuteStatementOutput, Error> {
        let start = match &request.start {
            None => None,
            Some(StatementPosition { part: 0, key: Some(key), .. }) => Some(key.clone()),
            Some(_) => return Err(invalid_token()),
        };
        let scan = Scan {
            index: select.index.clone(),
            filter,
            projection: select.columns.as_ref().map(Columns::roots),
            limit: request.limit,
            start,
            consistent: request.consistent,
            capacity: request.capacity,
            ..Scan::of(table.name().clone())
        };
        let page = self.scan_table(table, &scan, Operation::ExecuteStatement)?.output;
        let next = page.last_key.map(|key| position(request, 0, Some(key)));
        let items = page.items.unwrap_or_default().into_iter();
        let items = items.map(|row| shown(row, select.columns.as_ref())).collect::<Result<_, _>>()?;
        Ok(ExecuteStatementOutput { items, next, consumed: page.consumed })
    }

    /// Partitions one after the other, until the page is full.
    fn select_parts(
        &self,
        table: &Table,
        select: &SelectStatement,
        parts: &[Part],
        forward: bool,
        request: &ExecuteStatement,
    ) -> Result<ExecuteStatementOutput, Error> {
        let (first, mut start) = match &request.start {
            None => (0, None),
            Some(start) if start.part < parts.len() => (start.part, start.key.clone()),
            Some(_) => return Err(invalid_token()),
        };
        let mut output = ExecuteStatementOutput { items: Vec::new(), next: None, consumed: None };
        let mut bytes_left = PAGE_BYTES_MAX;
        let mut limit = request.limit;
        for (at, part) in parts.iter().enumerate().skip(first) {
            if bytes_left == 0 || limit == Some(0) {
                output.next = Some(position(request, at, None));
                break;
            }
            let query = Query {
                table: table.name().clone(),
                index: select.index.clone(),
                key_condition: part.key.clone(),
                filter: part.filter.clone(),
                legacy_filter: false,
                projection: select.columns.as_ref().map(Columns::roots),
                select: None,
                limit,
                forward,
                start: start.take(),
                consistent: request.consistent,
                skip_damaged: false,
                capacity: request.capacity,
            };
            let page = self.query_table(table, &query, Operation::ExecuteStatement, bytes_left)?;
            bytes_left = bytes_left.saturating_sub(page.bytes);
            limit = limit.map(|limit| limit.saturating_sub(page.output.scanned));
            for row in page.output.items.unwrap_or_default() {
                output.items.push(shown(row, select.columns.as_ref())?);
            }
            if let Some(consumed) = page.output.consumed {
                output.consumed = Some(match output.consumed.take() {
                    Some(before) => sum(before, consumed),
                    None => consumed,
                });
            }
            if let Some(key) = page.output.last_key {
                output.next = Some(position(request, at, Some(key)));
                break;
            }
        }
        Ok(output)
    }

    /// An INSERT, UPDATE or DELETE by itself.
    async fn write_statement(
        &self,
        operation: Operation,
        table: &Table,
        statement: Statement,
        writing: Writing,
    ) -> Result<(Option<Row>, Option<Consumed>), Error> {
        let inserts = matches!(statement, Statement::Insert(_));
        let StatementWrite { action, condition, return_values } = write_of(&table.definition.key, statement)?;
        let options = WriteOptions {
            condition,
            return_values,
            return_old_on_failure: writing.returns_old && !inserts,
            capacity: writing.capacity,
            collection_metrics: false,
        };
        let written = self.write_uncounted(operation, table.name(), action, options, writing.now).await;
        match written {
            Ok(written) => Ok((written.attributes, written.consumed)),
            Err(Error::Api(ApiError::ConditionalCheckFailed { .. })) if inserts => {
                Err(ApiError::DuplicateItem.into())
            }
            Err(error) => Err(error),
        }
    }

    pub async fn batch_execute_statement(
        &self,
        request: BatchExecuteStatement,
        now: UnixTime,
    ) -> Result<BatchExecuteStatementOutput, Error> {
        let watch = self.watch(Operation::BatchExecuteStatement);
        let mut tables = self.known_tables(request.readable().map(Statement::table));
        // One that is not there fails its statement, not the batch.
        tables.retain(Option::is_some);
        let outcome = self.each_statement(request, now).await;
        watch.end_all(&tables, outcome)
    }

    async fn each_statement(
        &self,
        request: BatchExecuteStatement,
        now: UnixTime,
    ) -> Result<BatchExecuteStatementOutput, Error> {
        self.check_batch(&request)?;
        let mut responses = Vec::with_capacity(request.statements.len());
        let mut consumed: Vec<Consumed> = Vec::new();
        let names: Vec<Option<TableName>> = request
            .statements
            .iter()
            .map(|each| each.statement.as_ref().ok().map(|statement| statement.table().clone()))
            .collect();
        let each = request.statements.into_iter().map(|each| self.batched(each, request.capacity, now));
        for (name, outcome) in names.into_iter().zip(together(each.collect()).await) {
            let outcome = outcome.map_err(ApiError::from);
            let table = match &outcome {
                Err(ApiError::Validation(_)) => None,
                _ => name,
            };
            let outcome = outcome.map(|(row, units)| {
                if let Some(units) = units {
                    add(&mut consumed, units);
                }
                row
            });
            responses.push(StatementResponse { table, outcome });
        }
        Ok(BatchExecuteStatementOutput { responses, consumed })
    }

    async fn batched(
        &self,
        each: BatchStatement,
        capacity: ReturnCapacity,
        now: UnixTime,
    ) -> Result<(Option<Row>, Option<Consumed>), Error> {
        let operation = Operation::BatchExecuteStatement;
        let statement = each.statement?;
        let table = self.table(statement.table())?;
        let outcome = match &statement {
            Statement::Select(select) => self.batched_read(&table, select, each.consistent, capacity),
            _ => {
                let writing = Writing { returns_old: each.return_old_on_failure, capacity, now };
                self.write_statement(operation, &table, statement, writing).await
            }
        };
        outcome.inspect_err(|error| table.metrics.part_failed(operation, error))
    }

    fn batched_read(
        &self,
        table: &Table,
        select: &SelectStatement,
        consistent: bool,
        capacity: ReturnCapacity,
    ) -> Result<(Option<Row>, Option<Consumed>), Error> {
        let operation = Operation::BatchExecuteStatement;
        let key = keyed_read(select, searched(table, select)?, operation.name())?;
        let (found, consumed) = self.keyed_item(operation, table, &key, consistent, capacity)?;
        let row = found.map(|item| shown(Row::Stored(item), select.columns.as_ref())).transpose()?;
        Ok((row, consumed))
    }

    /// What refuses a batch as a whole: reads among writes, and two statements about one item. Statements that fail
    /// by themselves have no part in it.
    fn check_batch(&self, request: &BatchExecuteStatement) -> Result<(), Error> {
        let reads = request.readable().filter(|statement| statement.is_read()).count();
        if reads > 0 && reads < request.readable().count() {
            return Err(Error::validation(
                "Read and write requests together in the same batch is not supported.",
            ));
        }
        let mut keys: Vec<Vec<u8>> =
            request.readable().filter_map(|statement| self.target(statement)).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::validation("Provided list of item keys contains duplicates"));
        }
        Ok(())
    }

    /// The stored key of the item that a statement is about, if it is about one.
    fn target(&self, statement: &Statement) -> Option<Vec<u8>> {
        let table = self.table(statement.table()).ok()?;
        let schema = &table.definition.key;
        let key = match statement {
            Statement::Select(select) | Statement::Exists(select) => keyed_read(select, schema, "").ok()?,
            Statement::Insert(insert) => insert.item.clone(),
            Statement::Update(update) => keyed_write(update.condition.as_ref(), schema).ok()?.key,
            Statement::Delete(delete) => keyed_write(delete.condition.as_ref(), schema).ok()?.key,
        };
        table.item_key(&key).ok()
    }

    pub async fn execute_transaction(
        &self,
        request: ExecuteTransaction,
        now: UnixTime,
    ) -> Result<ExecuteTransactionOutput, Error> {
        let watch = self.watch(Operation::ExecuteTransaction);
        let tables = self.known_tables(request.statements.iter().map(|each| each.statement.table()));
        let inserts: Vec<bool> =
            request.statements.iter().map(|each| matches!(each.statement, Statement::Insert(_))).collect();
        let outcome = self.at_once(request, now).await;
        watch.end_all(&tables, outcome).map_err(|error| with_duplicates(error, &inserts))
    }

    async fn at_once(
        &self,
        request: ExecuteTransaction,
        now: UnixTime,
    ) -> Result<ExecuteTransactionOutput, Error> {
        let reads = request.statements.iter().filter(|each| each.statement.is_read()).count();
        if reads == request.statements.len() {
            return self.select_at_once(&request);
        }
        if reads > 0 {
            return Err(Error::validation(
                "ExecuteTransaction API does not support both read and write operations in the same request.",
            ));
        }
        let mut writes = Vec::with_capacity(request.statements.len());
        for (at, each) in request.statements.into_iter().enumerate() {
            let table = self.table(each.statement.table())?;
            writes.push(transacted(&table, each).map_err(|error| in_statement(at, error))?);
        }
        let transaction = TransactWriteItems {
            writes,
            token: request.token,
            capacity: request.capacity,
            collection_metrics: false,
        };
        let written = self.write_at_once(transaction, Operation::ExecuteTransaction, now).await?;
        Ok(ExecuteTransactionOutput { items: Vec::new(), consumed: written.consumed })
    }

    fn select_at_once(&self, request: &ExecuteTransaction) -> Result<ExecuteTransactionOutput, Error> {
        let operation = Operation::ExecuteTransaction;
        let mut gets = Vec::with_capacity(request.statements.len());
        let mut selected = Vec::with_capacity(request.statements.len());
        for (at, each) in request.statements.iter().enumerate() {
            let Statement::Select(select) = &each.statement else { continue };
            let table = self.table(&select.table)?;
            if select.index.is_some() {
                let refused = Error::validation("Reads on indices are not supported within transactions.");
                return Err(in_statement(at, refused));
            }
            let key = keyed_read(select, &table.definition.key, operation.name());
            let key = key.map_err(|error| in_statement(at, error.into()))?;
            gets.push(TransactGet { table: select.table.clone(), key, projection: None });
            selected.push(select.columns.as_ref());
        }
        let read = TransactGetItems { gets, capacity: request.capacity };
        let found = self.items_at_once(&read, operation)?;
        let items = found.items.into_iter().zip(selected);
        let items = items.map(|(row, columns)| row.map(|row| shown(row, columns)).transpose());
        Ok(ExecuteTransactionOutput { items: items.collect::<Result<_, _>>()?, consumed: found.consumed })
    }
}

/// Tells a statement from others: by its text, to the letter, and its parameters.
pub fn fingerprint(text: &str, parameters: &[AttributeValue]) -> [u8; 16] {
    let mut hash = Hash::default();
    hash.part(text.as_bytes());
    for parameter in parameters {
        let parameter: Item = [("p", parameter.clone())].into_iter().collect();
        hash.part(&item_bytes::encode(&parameter));
    }
    hash.bytes()
}

/// What all of these come to: writes that wait for the disk share a sync.
async fn together<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut open: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = open.iter().map(|_| None).collect();
    poll_fn(move |context| {
        for (future, done) in open.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                *done = Some(output);
            }
        }
        if done.iter().any(Option::is_none) {
            return Poll::Pending;
        }
        Poll::Ready(done.drain(..).flatten().collect())
    })
    .await
}

/// How a statement writes.
#[derive(Clone, Copy)]
struct Writing {
    /// A condition that fails returns the item.
    returns_old: bool,
    capacity: ReturnCapacity,
    now: UnixTime,
}

/// A write that a statement is.
struct StatementWrite {
    action: Action,
    condition: Option<Condition>,
    return_values: ReturnValues,
}

fn write_of(schema: &KeySchema, statement: Statement) -> Result<StatementWrite, Error> {
    let partition = schema.partition.first().map_or("", |attribute| attribute.name.as_str());
    let absent = || Condition::NotExists(Path::attribute(partition));
    let present = |condition: Option<Condition>| {
        let exists = Condition::Exists(Path::attribute(partition));
        Some(match condition {
            Some(condition) => Condition::And(Box::new(exists), Box::new(condition)),
            None => exists,
        })
    };
    Ok(match statement {
        Statement::Insert(insert) => {
            check_insert(&insert.item, schema)?;
            StatementWrite {
                action: Action::Put(insert.item.into()),
                condition: Some(absent()),
                return_values: ReturnValues::None,
            }
        }
        Statement::Update(update) => {
            let Keyed { key, condition } = keyed_write(update.condition.as_ref(), schema)?;
            StatementWrite {
                action: Action::Update { key, update: Some(update.update) },
                condition: present(condition),
                return_values: match update.returning {
                    None => ReturnValues::None,
                    Some(Returning::AllOld) => ReturnValues::AllOld,
                    Some(Returning::ModifiedOld) => ReturnValues::UpdatedOld,
                    Some(Returning::AllNew) => ReturnValues::AllNew,
                    Some(Returning::ModifiedNew) => ReturnValues::UpdatedNew,
                },
            }
        }
        Statement::Delete(delete) => {
            let Keyed { key, condition } = keyed_write(delete.condition.as_ref(), schema)?;
            // What is not there is deleted, whatever was to be held against it.
            let condition = condition.map(|rest| Condition::Or(Box::new(absent()), Box::new(rest)));
            let return_values = if delete.returning { ReturnValues::AllOld } else { ReturnValues::None };
            StatementWrite { action: Action::Delete { key }, condition, return_values }
        }
        Statement::Select(select) | Statement::Exists(select) => {
            let within = Operation::ExecuteTransaction.name();
            let Keyed { key, condition } = keyed_check(&select, schema, within)?;
            let condition = present(condition);
            StatementWrite { action: Action::Check { key }, condition, return_values: ReturnValues::None }
        }
    })
}

/// A statement as a part of a transaction.
fn transacted(table: &Table, each: TransactStatement) -> Result<TransactWrite, Error> {
    let name: TableName = table.name().clone();
    let inserts = matches!(each.statement, Statement::Insert(_));
    let returns = match &each.statement {
        Statement::Update(update) => update.returning.is_some(),
        Statement::Delete(delete) => delete.returning,
        Statement::Select(_) | Statement::Exists(_) | Statement::Insert(_) => false,
    };
    if returns {
        return Err(Error::validation("RETURNING clause is not supported in ExecuteTransaction."));
    }
    let StatementWrite { action, condition, .. } = write_of(&table.definition.key, each.statement)?;
    let action = match action {
        Action::Put(new) => TransactAction::Put { item: new.item },
        Action::Update { key, update } => TransactAction::Update { key, update: update.unwrap_or_default() },
        Action::Delete { key } => TransactAction::Delete { key },
        Action::Check { key } => TransactAction::Check { key },
    };
    let return_old_on_failure = each.return_old_on_failure && !inserts;
    Ok(TransactWrite { table: name, action, condition, return_old_on_failure })
}

/// The key of what a SELECT reads.
fn searched<'t>(table: &'t Table, select: &SelectStatement) -> Result<&'t KeySchema, Error> {
    let Some(name) = &select.index else { return Ok(&table.definition.key) };
    match table.index(name.as_str()) {
        Some(index) => Ok(&index.definition.key),
        None => Err(Error::validation("The table does not have the specified index")),
    }
}

/// An item as the statement asked to see it.
fn shown(row: Row, columns: Option<&Columns>) -> Result<Row, Error> {
    let Some(columns) = columns else { return Ok(row) };
    Ok(Row::Built(match row {
        Row::Built(item) if columns.are_whole() => item,
        Row::Built(item) => columns.apply(&item),
        Row::Stored(stored) => columns.apply(&stored.decode()?),
    }))
}

fn position(request: &ExecuteStatement, part: usize, key: Option<Item>) -> StatementPosition {
    StatementPosition { fingerprint: request.fingerprint, part, key }
}

fn invalid_token() -> Error {
    Error::validation("Invalid NextToken")
}

fn sum(mut one: Consumed, other: Consumed) -> Consumed {
    one.table_units += other.table_units;
    for (name, kind, units) in other.indexes {
        match one.indexes.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, _, sum)) => *sum += units,
            None => one.indexes.push((name, kind, units)),
        }
    }
    one
}

/// Adds units to those of their table.
fn add(all: &mut Vec<Consumed>, units: Consumed) {
    match all.iter().position(|known| known.table == units.table) {
        Some(at) => {
            let known = all.swap_remove(at);
            all.push(sum(known, units));
            all.sort_by(|one, two| one.table.cmp(&two.table));
        }
        None => all.push(units),
    }
}

/// A refusal of one statement, which is one of the transaction.
fn in_statement(at: usize, error: Error) -> Error {
    match ApiError::from(error) {
        ApiError::Validation(message) => {
            Error::validation(format!("Validation failed in TransactStatements[{at}]: {message}"))
        }
        other => other.into(),
    }
}

/// An INSERT whose condition failed has met an item.
fn with_duplicates(error: Error, inserts: &[bool]) -> Error {
    let Error::Api(ApiError::TransactionCanceled { mut reasons }) = error else { return error };
    for (reason, inserts) in reasons.iter_mut().zip(inserts) {
        if *inserts && reason.code == CancellationReason::CONDITION {
            *reason = CancellationReason {
                code: CancellationReason::DUPLICATE,
                message: Some(ApiError::DuplicateItem.to_string()),
                item: None,
            };
        }
    }
    ApiError::TransactionCanceled { reasons }.into()
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn outputs_come_in_the_order_of_their_futures() {
        let mut turn = 0;
        let last = poll_fn(|_| {
            turn += 1;
            if turn < 3 { Poll::Pending } else { Poll::Ready(1) }
        });
        let futures: Vec<Pin<Box<dyn Future<Output = i32> + '_>>> =
            vec![Box::pin(last), Box::pin(ready(2)), Box::pin(ready(3))];
        let mut all = Box::pin(together(futures));
        let mut context = Context::from_waker(Waker::noop());
        assert!(all.as_mut().poll(&mut context).is_pending());
        assert!(all.as_mut().poll(&mut context).is_pending());
        assert_eq!(all.as_mut().poll(&mut context), Poll::Ready(vec![1, 2, 3]));
        let none: Vec<Ready<i32>> = Vec::new();
        assert_eq!(Box::pin(together(none)).as_mut().poll(&mut context), Poll::Ready(Vec::new()));
    }

    #[test]
    fn a_statement_is_told_from_others_by_its_letters_and_parameters() {
        let one = fingerprint("SELECT * FROM a", &[]);
        assert_eq!(one, fingerprint("SELECT * FROM a", &[]));
        for other in [
            fingerprint("SELECT *  FROM a", &[]),
            fingerprint("SELECT * FROM a", &[1.into()]),
            fingerprint("SELECT * FROM a", &[1.into(), 2.into()]),
        ] {
            assert_ne!(one, other);
        }
    }
}
