//! Larder's engine in process: what a program that embeds it gets.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, anyhow, bail, ensure};
use larder_engine::Engine;
use larder_engine::ops::{
    BatchWrite, BatchWriteItem, CreateTable, GetItem, KeyElement, KeyRole, NewIndex, ProjectionKind,
    ProjectionSpecification, PutItem, Query, Request as Operation, Response, ReturnCapacity, WriteOptions,
};
use larder_expr::Scope;
use larder_model::AttributeValue::{Bool, L, N, S};
use larder_model::{Clock, IndexName, Item, KeyType, TableName, Throughput};
use larder_storage::Options;
use tokio::runtime::Runtime;

use super::Embedded;
use crate::workload::{self, BATCH_ITEMS, Fields, INDEX, PARTITION_ITEMS, Request, Sample, TABLE};

/// Writers that share a sync while the store is filled.
const FILL_THREADS: usize = 16;

#[derive(Debug)]
pub(super) struct Larder {
    engine: Engine,
    table: TableName,
    /// Only to wait on: the engine's futures need no runtime of their own.
    runtime: Runtime,
}

impl Larder {
    pub(super) fn open(data: &Path) -> Result<Larder> {
        Ok(Larder {
            engine: Engine::open(data, Options::default())?,
            table: TableName::new(TABLE)?,
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
        })
    }

    fn execute(&self, operation: Operation) -> Result<Response> {
        let now = Clock::system().now();
        let answer = self.runtime.handle().block_on(self.engine.execute(operation, now));
        answer.map_err(|error| anyhow!("{}: {error}", error.code()))
    }

    fn batch(&self, samples: impl Iterator<Item = Sample>) -> Result<Operation> {
        let puts = samples.map(|sample| Ok(BatchWrite::Put(item(sample)?))).collect::<Result<_>>()?;
        Ok(Operation::BatchWriteItem(BatchWriteItem {
            tables: vec![(self.table.clone(), puts)],
            capacity: ReturnCapacity::None,
            collection_metrics: false,
        }))
    }
}

impl Embedded for Larder {
    type Call = Operation;

    fn create(&self) -> Result<()> {
        self.execute(Operation::CreateTable(Box::new(create_table(self.table.clone())?)))?;
        Ok(())
    }

    fn fill(&self, numbers: &[u64]) -> Result<()> {
        let batches: Vec<&[u64]> = numbers.chunks(BATCH_ITEMS as usize).collect();
        let next = AtomicUsize::new(0);
        let writer = || -> Result<()> {
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.call(self.batch(batch.iter().map(|number| Sample { number: *number, version: 0 }))?)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..FILL_THREADS).map(|_| scope.spawn(writer)).collect();
            writers
                .into_iter()
                .try_for_each(|writer| writer.join().map_err(|_| anyhow!("a writer panicked"))?)
        })
    }

    fn prepare(&self, request: Request) -> Result<Operation> {
        let table = self.table.clone();
        Ok(match request {
            Request::Get(number) => {
                let keys = workload::keys(number);
                let key = Item::from_iter([
                    ("pk".to_owned(), S(keys.partition_key)),
                    ("sk".to_owned(), S(keys.sort_key)),
                ]);
                let capacity = ReturnCapacity::None;
                Operation::GetItem(GetItem { table, key, projection: None, consistent: false, capacity })
            }
            Request::Put(sample) => {
                Operation::PutItem(PutItem { table, item: item(sample)?, options: WriteOptions::default() })
            }
            Request::Query { partition } => {
                let values = BTreeMap::from([(":p".to_owned(), S(workload::partition_key(partition)))]);
                let key_condition = Scope::new(None, Some(values))?.key_condition("pk = :p")?;
                Operation::Query(Query {
                    table,
                    index: None,
                    key_condition,
                    filter: None,
                    legacy_filter: false,
                    projection: None,
                    select: None,
                    limit: None,
                    forward: true,
                    start: None,
                    consistent: false,
                    capacity: ReturnCapacity::None,
                    skip_damaged: false,
                })
            }
            Request::Batch(samples) => self.batch(samples.into_iter())?,
        })
    }

    fn call(&self, operation: Operation) -> Result<()> {
        match operation {
            // Reads wait for nothing, so a program calls them as they are.
            Operation::GetItem(get) => {
                ensure!(self.engine.get_item(&get)?.item.is_some(), "an item is missing");
            }
            Operation::Query(query) => {
                let count = self.engine.query(&query)?.count as u64;
                ensure!(count == PARTITION_ITEMS, "{count} items in a partition");
            }
            write => match self.execute(write)? {
                Response::PutItem(_) => {}
                Response::BatchWriteItem(done) => ensure!(done.unprocessed.is_empty(), "items were left"),
                other => bail!("an answer to another request: {other:?}"),
            },
        }
        Ok(())
    }
}

/// The table that `workload::create_table` says in JSON.
pub(crate) fn create_table(table: TableName) -> Result<CreateTable> {
    let attribute = |name: &str, kind| (name.to_owned(), kind);
    let element = |name: &str, role| KeyElement { name: name.to_owned(), role };
    let throughput = Some(Throughput { read: 10_000, write: 10_000 });
    Ok(CreateTable {
        table,
        attributes: vec![
            attribute("pk", KeyType::S),
            attribute("sk", KeyType::S),
            attribute("group", KeyType::S),
            attribute("at", KeyType::N),
        ],
        key: vec![element("pk", KeyRole::Partition), element("sk", KeyRole::Sort)],
        local_indexes: None,
        global_indexes: Some(vec![NewIndex {
            name: IndexName::new(INDEX)?,
            key: vec![element("group", KeyRole::Partition), element("at", KeyRole::Sort)],
            projection: Some(ProjectionSpecification { kind: Some(ProjectionKind::All), names: None }),
            throughput,
            on_demand_limits: None,
        }]),
        billing_mode: None,
        throughput,
        on_demand_limits: None,
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: None,
        tags: Vec::new(),
        policy: None,
    })
}

pub(crate) fn item(sample: Sample) -> Result<Item> {
    let Fields { keys, name, price, active, tags, payload } = sample.fields();
    Ok(Item::from_iter([
        ("pk".to_owned(), S(keys.partition_key)),
        ("sk".to_owned(), S(keys.sort_key)),
        ("group".to_owned(), S(keys.group)),
        ("at".to_owned(), N(keys.at.parse()?)),
        ("name".to_owned(), S(name)),
        ("price".to_owned(), N(price.parse()?)),
        ("active".to_owned(), Bool(active)),
        ("tags".to_owned(), L(tags.map(|tag| S(tag.to_owned())).into())),
        ("payload".to_owned(), S(payload)),
    ]))
}
