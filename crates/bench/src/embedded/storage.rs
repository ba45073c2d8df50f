//! Larder's storage crate alone: the same two entries a put owes, with group commit and nothing above it.
//!
//! The base entry holds the item under its key; the index entry holds it again under the index key followed by the
//! base key. What Larder spends beyond this is reading the old item, encoding, and the protocol.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use larder_storage::{Batch, Options, Store};

use super::{Embedded, entries};
use crate::workload::{Request, Sample};

const FILL_BATCH_ITEMS: usize = 1_000;

#[derive(Debug)]
pub(super) struct Storage(Store);

impl Storage {
    pub(super) fn open(data: &Path) -> Result<Storage> {
        Ok(Storage(Store::open(data, Options::default())?))
    }
}

#[derive(Debug)]
pub(super) enum Call {
    Get(Vec<u8>),
    Write(Batch),
}

impl Embedded for Storage {
    type Call = Call;

    fn create(&self) -> Result<()> {
        Ok(())
    }

    fn fill(&self, numbers: &[u64]) -> Result<()> {
        for numbers in numbers.chunks(FILL_BATCH_ITEMS) {
            self.0.write(batch(numbers.iter().map(|number| Sample { number: *number, version: 0 })))?;
        }
        Ok(())
    }

    fn prepare(&self, request: Request) -> Result<Call> {
        Ok(match request {
            Request::Get(number) => Call::Get(entries::key(number)),
            Request::Put(sample) => Call::Write(batch([sample])),
            Request::Batch(samples) => Call::Write(batch(samples)),
            Request::Query { .. } => bail!("the bare storage crate knows no queries"),
        })
    }

    fn call(&self, call: Call) -> Result<()> {
        match call {
            Call::Get(key) => {
                let value = self.0.snapshot().get(&key)?.context("an item is missing")?;
                ensure!(!value.to_vec().is_empty(), "an item is empty");
            }
            Call::Write(batch) => self.0.write(batch)?,
        }
        Ok(())
    }
}

fn batch(samples: impl IntoIterator<Item = Sample>) -> Batch {
    let mut batch = Batch::default();
    for (key, value) in samples.into_iter().flat_map(entries::of) {
        batch.put(key, value);
    }
    batch
}
