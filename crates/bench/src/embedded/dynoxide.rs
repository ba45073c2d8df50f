//! dynoxide as a library, on a SQLite file (write-ahead log, synced at every commit).

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use dynoxide::actions::batch_write_item::{BatchWriteItemRequest, PutRequest, WriteRequest};
use dynoxide::actions::create_table::CreateTableRequest;
use dynoxide::actions::get_item::GetItemRequest;
use dynoxide::actions::put_item::PutItemRequest;
use dynoxide::actions::query::QueryRequest;
use dynoxide::types::AttributeValue::{self, BOOL, L, N, S};
use dynoxide::{Database, ImportOptions};

use super::Embedded;
use crate::workload::{self, Fields, PARTITION_ITEMS, Request, Sample, TABLE};

/// The file both the library and the server open.
pub(crate) const FILE: &str = "dynoxide.db";

pub(super) struct Dynoxide(Database);

#[derive(Debug)]
pub(super) enum Call {
    Get(GetItemRequest),
    Put(PutItemRequest),
    Query(Box<QueryRequest>),
    Batch(BatchWriteItemRequest),
}

impl Dynoxide {
    pub(super) fn open(data: &Path) -> Result<Dynoxide> {
        let file = data.join(FILE);
        let file = file.to_str().ok_or_else(|| anyhow!("{} is not UTF-8", file.display()))?;
        Ok(Dynoxide(Database::new(file)?))
    }
}

impl Embedded for Dynoxide {
    type Call = Call;

    fn create(&self) -> Result<()> {
        let request: CreateTableRequest = serde_json::from_value(workload::create_table())?;
        self.0.create_table(request)?;
        Ok(())
    }

    fn fill(&self, numbers: &[u64]) -> Result<()> {
        self.0.enable_bulk_loading()?;
        let items = numbers.iter().map(|number| item(Sample { number: *number, version: 0 })).collect();
        self.0.import_items(TABLE, items, ImportOptions::default())?;
        self.0.disable_bulk_loading()?;
        Ok(())
    }

    fn prepare(&self, request: Request) -> Result<Call> {
        let table_name = TABLE.to_owned();
        Ok(match request {
            Request::Get(number) => {
                let keys = workload::keys(number);
                let key =
                    HashMap::from([("pk".into(), S(keys.partition_key)), ("sk".into(), S(keys.sort_key))]);
                Call::Get(GetItemRequest { table_name, key, ..Default::default() })
            }
            Request::Put(sample) => {
                Call::Put(PutItemRequest { table_name, item: item(sample), ..Default::default() })
            }
            Request::Query { partition } => {
                let values = HashMap::from([(":p".into(), S(workload::partition_key(partition)))]);
                Call::Query(Box::new(QueryRequest {
                    table_name,
                    key_condition_expression: Some("pk = :p".into()),
                    expression_attribute_values: Some(values),
                    scan_index_forward: true,
                    ..Default::default()
                }))
            }
            Request::Batch(samples) => {
                let put = |sample| WriteRequest {
                    put_request: Some(PutRequest { item: item(sample) }),
                    delete_request: None,
                };
                let puts = samples.into_iter().map(put).collect();
                let request_items = HashMap::from([(table_name, puts)]);
                Call::Batch(BatchWriteItemRequest { request_items, ..Default::default() })
            }
        })
    }

    fn call(&self, call: Call) -> Result<()> {
        match call {
            Call::Get(get) => ensure!(self.0.get_item(get)?.item.is_some(), "an item is missing"),
            Call::Put(put) => {
                self.0.put_item(put)?;
            }
            Call::Query(query) => {
                let count = self.0.query(*query)?.count as u64;
                ensure!(count == PARTITION_ITEMS, "{count} items in a partition");
            }
            Call::Batch(batch) => {
                let done = self.0.batch_write_item(batch)?;
                ensure!(done.unprocessed_items.is_empty(), "items were left unprocessed");
            }
        }
        Ok(())
    }
}

fn item(sample: Sample) -> HashMap<String, AttributeValue> {
    let Fields { keys, name, price, active, tags, payload } = sample.fields();
    HashMap::from([
        ("pk".into(), S(keys.partition_key)),
        ("sk".into(), S(keys.sort_key)),
        ("group".into(), S(keys.group)),
        ("at".into(), N(keys.at)),
        ("name".into(), S(name)),
        ("price".into(), N(price)),
        ("active".into(), BOOL(active)),
        ("tags".into(), L(tags.map(|tag| S(tag.into())).into())),
        ("payload".into(), S(payload)),
    ])
}
