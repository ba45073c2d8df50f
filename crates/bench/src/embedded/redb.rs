//! redb alone: what one point read costs below everything Larder adds.
//!
//! The file holds the same entries as Larder's, in one tree, with the same page cache.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use larder_storage::Options;
use redb::{Database, ReadableDatabase, TableDefinition};

use super::{Embedded, entries};
use crate::workload::{Request, Sample};

const DATA: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("data");

#[derive(Debug)]
pub(super) struct Redb(Database);

impl Redb {
    pub(super) fn open(data: &Path) -> Result<Redb> {
        let cache_bytes = Options::default().cache_bytes;
        Ok(Redb(Database::builder().set_cache_size(cache_bytes).create(data.join("bare.redb"))?))
    }
}

impl Embedded for Redb {
    /// The key to read.
    type Call = Vec<u8>;

    fn create(&self) -> Result<()> {
        Ok(())
    }

    /// In one commit and in key order, which is how redb takes most.
    fn fill(&self, numbers: &[u64]) -> Result<()> {
        let samples = numbers.iter().map(|number| Sample { number: *number, version: 0 });
        let mut entries: Vec<(Vec<u8>, Vec<u8>)> = samples.flat_map(entries::of).collect();
        entries.sort_unstable();
        let transaction = self.0.begin_write()?;
        let mut table = transaction.open_table(DATA)?;
        for (key, value) in entries {
            table.insert(key.as_slice(), value.as_slice())?;
        }
        drop(table);
        transaction.commit()?;
        Ok(())
    }

    fn prepare(&self, request: Request) -> Result<Vec<u8>> {
        match request {
            Request::Get(number) => Ok(entries::key(number)),
            Request::Put(_) | Request::Query { .. } | Request::Batch(_) => {
                bail!("only reads are measured on bare redb")
            }
        }
    }

    fn call(&self, key: Vec<u8>) -> Result<()> {
        let table = self.0.begin_read()?.open_table(DATA)?;
        let value = table.get(key.as_slice())?.context("an item is missing")?;
        ensure!(!value.value().to_vec().is_empty(), "an item is empty");
        Ok(())
    }
}
