//! Which actions on which resources each operation needs.
//!
//! A batch needs its own action on each of its tables; a transaction needs the plain action for each of its items
//! (`TransactWriteItems` is not an action). A restore writes a table, and so needs what writes items there. Tags at the
//! making of a table need `TagResource` as well, and a policy `PutResourcePolicy`. A PartiQL statement needs the action of its kind,
//! alone or among others.

mod reference;

use larder_expr::{Condition, KeyCondition, Projection, Update};
use larder_model::{IndexName, Item, TableName};
use larder_ops::{
    BatchExecuteStatement, BatchWrite, Governed, Request, ReturnCapacity, ReturnValues, Select, Statement,
    TransactAction, TransactWrite, WriteOptions,
};
use larder_partiql::Returning;

use crate::resource::Resource;

pub use reference::{ACTIONS, kinds_of};

/// One permission that a request needs; it needs all of its own.
#[derive(Clone, Debug)]
pub struct Need<'a> {
    /// With its service: `dynamodb:GetItem`.
    pub action: &'static str,
    pub resource: Resource<'a>,
    pub(crate) touched: Touched<'a>,
}

/// What of a request a policy's conditions can ask about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched<'a> {
    /// Keys, or whole items.
    pub(crate) items: Vec<&'a Item>,
    pub(crate) key_condition: Option<&'a KeyCondition>,
    /// A condition or a filter.
    pub(crate) condition: Option<&'a Condition>,
    pub(crate) update: Option<&'a Update>,
    pub(crate) projection: Option<&'a Projection>,
    /// A SELECT, whose columns are asked for and whose condition decides whether it is a scan.
    pub(crate) selected: Option<&'a larder_partiql::Select>,
    /// `condition` also names the key.
    pub(crate) is_statement: bool,
    pub(crate) select: Option<&'static str>,
    pub(crate) return_values: Option<&'static str>,
    pub(crate) capacity: Option<&'static str>,
    /// The transaction that it is a part of.
    pub(crate) enclosing: Option<&'static str>,
    pub(crate) tags: &'a [(String, String)],
    pub(crate) tag_keys: &'a [String],
}

/// What an action is asked for that is about no table in particular. AWS asks for lists of tables on all of them, as its refusals
/// show.
pub fn of_no_table(action: &str) -> Resource<'static> {
    if action.eq_ignore_ascii_case("dynamodb:ListTables") { Resource::EveryTable } else { Resource::Any }
}

/// Every permission that a request needs.
pub fn needs(request: &Request) -> Vec<Need<'_>> {
    let table = |action, name| vec![Need::new(action, Resource::Table(name))];
    let any = |action| vec![Need::new(action, of_no_table(action))];
    let backup = |action, arn| vec![Need::new(action, Resource::Backup(arn))];
    let stream = |action, stream| vec![Need::new(action, Resource::Stream(stream))];
    match request {
        Request::CreateTable(create) => {
            let touched = Touched { tags: &create.tags, ..Touched::default() };
            let need = |action| Need::touching(action, Resource::Table(&create.table), touched.clone());
            let tag = (!create.tags.is_empty()).then(|| need("dynamodb:TagResource"));
            let policy = create.policy.as_ref().map(|_| need("dynamodb:PutResourcePolicy"));
            std::iter::once(need("dynamodb:CreateTable")).chain(tag).chain(policy).collect()
        }
        Request::DescribeTable(describe) => table("dynamodb:DescribeTable", &describe.table),
        Request::ListTables(_) => any("dynamodb:ListTables"),
        Request::UpdateTable(update) => table("dynamodb:UpdateTable", &update.table),
        Request::DeleteTable(delete) => table("dynamodb:DeleteTable", &delete.table),
        Request::UpdateTimeToLive(update) => table("dynamodb:UpdateTimeToLive", &update.table),
        Request::DescribeTimeToLive(describe) => table("dynamodb:DescribeTimeToLive", &describe.table),
        Request::TagResource(tag) => {
            let touched = Touched { tags: &tag.tags, ..Touched::default() };
            vec![Need::touching("dynamodb:TagResource", Resource::Table(&tag.table), touched)]
        }
        Request::UntagResource(untag) => {
            let touched = Touched { tag_keys: &untag.keys, ..Touched::default() };
            vec![Need::touching("dynamodb:UntagResource", Resource::Table(&untag.table), touched)]
        }
        Request::ListTagsOfResource(list) => table("dynamodb:ListTagsOfResource", &list.table),
        Request::PutResourcePolicy(put) => governed("dynamodb:PutResourcePolicy", &put.resource),
        Request::GetResourcePolicy(get) => governed("dynamodb:GetResourcePolicy", &get.resource),
        Request::DeleteResourcePolicy(delete) => governed("dynamodb:DeleteResourcePolicy", &delete.resource),
        Request::UpdateContinuousBackups(update) => table("dynamodb:UpdateContinuousBackups", &update.table),
        Request::DescribeContinuousBackups(describe) => {
            table("dynamodb:DescribeContinuousBackups", &describe.table)
        }
        Request::RestoreTableToPointInTime(restore) => {
            let action = "dynamodb:RestoreTableToPointInTime";
            restored(action, Resource::Table(&restore.source), &restore.target)
        }
        Request::CreateBackup(create) => table("dynamodb:CreateBackup", &create.table),
        Request::DescribeBackup(describe) => backup("dynamodb:DescribeBackup", &describe.arn),
        Request::ListBackups(_) => any("dynamodb:ListBackups"),
        Request::DeleteBackup(delete) => backup("dynamodb:DeleteBackup", &delete.arn),
        Request::RestoreTableFromBackup(restore) => {
            let action = "dynamodb:RestoreTableFromBackup";
            restored(action, Resource::Backup(&restore.backup), &restore.target)
        }
        Request::DescribeLimits => any("dynamodb:DescribeLimits"),
        Request::DescribeEndpoints => any("dynamodb:DescribeEndpoints"),
        Request::GetItem(get) => {
            let touched = read(vec![&get.key], get.projection.as_ref(), get.capacity);
            vec![Need::touching("dynamodb:GetItem", Resource::Table(&get.table), touched)]
        }
        Request::PutItem(put) => {
            let touched = Touched { items: vec![&put.item], ..written(&put.options) };
            vec![Need::touching("dynamodb:PutItem", Resource::Table(&put.table), touched)]
        }
        Request::UpdateItem(update) => {
            let touched = Touched {
                items: vec![&update.key],
                update: update.update.as_ref(),
                ..written(&update.options)
            };
            vec![Need::touching("dynamodb:UpdateItem", Resource::Table(&update.table), touched)]
        }
        Request::DeleteItem(delete) => {
            let touched = Touched { items: vec![&delete.key], ..written(&delete.options) };
            vec![Need::touching("dynamodb:DeleteItem", Resource::Table(&delete.table), touched)]
        }
        Request::Query(query) => {
            let touched = Touched {
                key_condition: Some(&query.key_condition),
                condition: query.filter.as_ref(),
                select: Some(selected(query.select, query.index.as_ref(), query.projection.as_ref())),
                ..read(Vec::new(), query.projection.as_ref(), query.capacity)
            };
            vec![Need::touching("dynamodb:Query", searched(&query.table, query.index.as_ref()), touched)]
        }
        Request::Scan(scan) => {
            let touched = Touched {
                condition: scan.filter.as_ref(),
                select: Some(selected(scan.select, scan.index.as_ref(), scan.projection.as_ref())),
                ..read(Vec::new(), scan.projection.as_ref(), scan.capacity)
            };
            vec![Need::touching("dynamodb:Scan", searched(&scan.table, scan.index.as_ref()), touched)]
        }
        Request::BatchGetItem(batch) => {
            let needs = batch.tables.iter().map(|part| {
                let touched = read(part.keys.iter().collect(), part.projection.as_ref(), batch.capacity);
                Need::touching("dynamodb:BatchGetItem", Resource::Table(&part.table), touched)
            });
            needs.collect()
        }
        Request::BatchWriteItem(batch) => {
            let needs = batch.tables.iter().map(|(name, writes)| {
                let items = writes.iter().map(|write| match write {
                    BatchWrite::Put(item) | BatchWrite::Delete(item) => item,
                });
                let capacity = Some(capacity(batch.capacity));
                let touched = Touched { items: items.collect(), capacity, ..Touched::default() };
                Need::touching("dynamodb:BatchWriteItem", Resource::Table(name), touched)
            });
            needs.collect()
        }
        Request::TransactGetItems(transaction) => {
            let gets = transaction.gets.iter().map(|get| {
                let touched = Touched {
                    enclosing: Some("TransactGetItems"),
                    ..read(vec![&get.key], get.projection.as_ref(), transaction.capacity)
                };
                Need::touching("dynamodb:GetItem", Resource::Table(&get.table), touched)
            });
            gets.collect()
        }
        Request::TransactWriteItems(transaction) => {
            transaction.writes.iter().map(|write| transacted(write, transaction.capacity)).collect()
        }
        Request::ExecuteStatement(execute) => {
            vec![stated(&execute.statement, execute.return_old_on_failure, execute.capacity, None)]
        }
        Request::BatchExecuteStatement(batch) => needs_of_each(batch).into_iter().flatten().collect(),
        Request::ExecuteTransaction(transaction) => {
            let enclosing = Some("ExecuteTransaction");
            let needs = transaction.statements.iter().map(|each| {
                stated(&each.statement, each.return_old_on_failure, transaction.capacity, enclosing)
            });
            needs.collect()
        }
        Request::ListStreams(_) => any("dynamodb:ListStreams"),
        Request::DescribeStream(describe) => stream("dynamodb:DescribeStream", &describe.stream),
        Request::GetShardIterator(get) => stream("dynamodb:GetShardIterator", &get.stream),
        Request::GetRecords(get) => stream("dynamodb:GetRecords", &get.iterator.stream),
    }
}

/// What each statement of a batch needs, in their order; nothing where one cannot be read.
pub fn needs_of_each(batch: &BatchExecuteStatement) -> Vec<Option<Need<'_>>> {
    let each = batch.statements.iter().map(|each| {
        let statement = each.statement.as_ref().ok()?;
        Some(stated(statement, each.return_old_on_failure, batch.capacity, None))
    });
    each.collect()
}

impl<'a> Need<'a> {
    pub(crate) fn new(action: &'static str, resource: Resource<'a>) -> Self {
        Self::touching(action, resource, Touched::default())
    }

    pub(crate) fn on_table(action: &'static str, table: &'a TableName, key: Option<&'a Item>) -> Self {
        let touched = Touched { items: key.into_iter().collect(), ..Touched::default() };
        Self::touching(action, Resource::Table(table), touched)
    }

    fn touching(action: &'static str, resource: Resource<'a>, touched: Touched<'a>) -> Self {
        Self { action, resource, touched }
    }
}

fn governed<'a>(action: &'static str, resource: &'a Governed) -> Vec<Need<'a>> {
    let resource = match resource {
        Governed::Table(name) => Resource::Table(name),
        Governed::Stream(stream) => Resource::Stream(stream),
    };
    vec![Need::new(action, resource)]
}

/// What fills the new table is needed there.
fn restored<'a>(action: &'static str, source: Resource<'a>, target: &'a TableName) -> Vec<Need<'a>> {
    let fills = [
        "dynamodb:BatchWriteItem",
        "dynamodb:DeleteItem",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:Query",
        "dynamodb:Scan",
        "dynamodb:UpdateItem",
    ];
    let on_target = std::iter::once(action).chain(fills);
    let on_target = on_target.map(|action| Need::new(action, Resource::Table(target)));
    std::iter::once(Need::new(action, source)).chain(on_target).collect()
}

fn searched<'a>(table: &'a TableName, index: Option<&'a IndexName>) -> Resource<'a> {
    index.map_or(Resource::Table(table), |index| Resource::Index(table, index))
}

fn read<'a>(
    items: Vec<&'a Item>,
    projection: Option<&'a Projection>,
    consumed: ReturnCapacity,
) -> Touched<'a> {
    Touched {
        items,
        projection,
        select: Some(selected(None, None, projection)),
        capacity: Some(capacity(consumed)),
        ..Touched::default()
    }
}

fn written(options: &WriteOptions) -> Touched<'_> {
    Touched {
        condition: options.condition.as_ref(),
        return_values: Some(returned(options.return_values, options.return_old_on_failure)),
        capacity: Some(capacity(options.capacity)),
        ..Touched::default()
    }
}

/// The most that a write can answer with. A condition that fails can return the whole item, as
/// `ReturnValuesOnConditionCheckFailure` has it, so that a policy which keeps attributes back is asked about that too.
fn returned(values: ReturnValues, old_on_failure: bool) -> &'static str {
    match values {
        _ if old_on_failure => "ALL_OLD",
        ReturnValues::None => "NONE",
        ReturnValues::AllOld => "ALL_OLD",
        ReturnValues::UpdatedOld => "UPDATED_OLD",
        ReturnValues::AllNew => "ALL_NEW",
        ReturnValues::UpdatedNew => "UPDATED_NEW",
    }
}

fn transacted(write: &TransactWrite, consumed: ReturnCapacity) -> Need<'_> {
    let (action, item, update) = match &write.action {
        TransactAction::Put { item } => ("dynamodb:PutItem", item, None),
        TransactAction::Update { key, update } => ("dynamodb:UpdateItem", key, Some(update)),
        TransactAction::Delete { key } => ("dynamodb:DeleteItem", key, None),
        TransactAction::Check { key } => ("dynamodb:ConditionCheckItem", key, None),
    };
    let touched = Touched {
        items: vec![item],
        condition: write.condition.as_ref(),
        update,
        return_values: Some(returned(ReturnValues::None, write.return_old_on_failure)),
        capacity: Some(capacity(consumed)),
        enclosing: Some("TransactWriteItems"),
        ..Touched::default()
    };
    Need::touching(action, Resource::Table(&write.table), touched)
}

/// What a PartiQL statement needs; `EXISTS` reads.
fn stated<'a>(
    statement: &'a Statement,
    old_on_failure: bool,
    consumed: ReturnCapacity,
    enclosing: Option<&'static str>,
) -> Need<'a> {
    let touched =
        Touched { is_statement: true, capacity: Some(capacity(consumed)), enclosing, ..Touched::default() };
    let write = |values| Some(returned(values, old_on_failure));
    let table = Resource::Table(statement.table());
    match statement {
        Statement::Select(select) | Statement::Exists(select) => {
            let columns = select.columns.as_ref().map(larder_partiql::Columns::roots);
            let touched = Touched {
                condition: select.condition.as_ref(),
                selected: Some(select),
                select: Some(selected(None, select.index.as_ref(), columns.as_ref())),
                // In a transaction one that fails can answer with the whole item.
                return_values: if old_on_failure { write(ReturnValues::None) } else { None },
                ..touched
            };
            let resource = searched(&select.table, select.index.as_ref());
            Need::touching("dynamodb:PartiQLSelect", resource, touched)
        }
        Statement::Insert(insert) => {
            let return_values = write(ReturnValues::None);
            let touched = Touched { items: vec![&insert.item], return_values, ..touched };
            Need::touching("dynamodb:PartiQLInsert", table, touched)
        }
        Statement::Update(update) => {
            let return_values = write(match update.returning {
                None => ReturnValues::None,
                Some(Returning::AllOld) => ReturnValues::AllOld,
                Some(Returning::ModifiedOld) => ReturnValues::UpdatedOld,
                Some(Returning::AllNew) => ReturnValues::AllNew,
                Some(Returning::ModifiedNew) => ReturnValues::UpdatedNew,
            });
            let (condition, update) = (update.condition.as_ref(), Some(&update.update));
            Need::touching(
                "dynamodb:PartiQLUpdate",
                table,
                Touched { condition, update, return_values, ..touched },
            )
        }
        Statement::Delete(delete) => {
            let values = if delete.returning { ReturnValues::AllOld } else { ReturnValues::None };
            let touched =
                Touched { condition: delete.condition.as_ref(), return_values: write(values), ..touched };
            Need::touching("dynamodb:PartiQLDelete", table, touched)
        }
    }
}

/// What is returned of an item, said or not: a policy is to see the same whether it was said.
fn selected(
    select: Option<Select>,
    index: Option<&IndexName>,
    projection: Option<&Projection>,
) -> &'static str {
    match (select, projection, index) {
        (Some(Select::AllAttributes), ..) | (None, None, None) => "ALL_ATTRIBUTES",
        (Some(Select::AllProjectedAttributes), ..) | (None, None, Some(_)) => "ALL_PROJECTED_ATTRIBUTES",
        (Some(Select::SpecificAttributes), ..) | (None, Some(_), _) => "SPECIFIC_ATTRIBUTES",
        (Some(Select::Count), ..) => "COUNT",
    }
}

fn capacity(consumed: ReturnCapacity) -> &'static str {
    match consumed {
        ReturnCapacity::None => "NONE",
        ReturnCapacity::Total => "TOTAL",
        ReturnCapacity::Indexes => "INDEXES",
    }
}
