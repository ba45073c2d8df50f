//! Whole tables in the format in which DynamoDB exports to S3, and back from it.
//!
//! ```text
//! DIR/AWSDynamoDB/01699999999999-1a2b3c4d/_started
//!                                        /manifest-summary.json, .md5      the table, when, how many items
//!                                        /manifest-files.json, .md5        a line for each file: items, MD5
//!                                        /data/….json.gz                   a line for each item: {"Item":{…}}
//! ```
//!
//! Items are those of the store, untouched: parts of large records, the layer's own notes and what has expired
//! included. So a table that was exported here can be imported by AWS (`ImportTable` takes the `data` folder), and
//! what AWS has exported can be imported here. [`moving`](crate::System::dump) moves records instead, by the schema.
//!
//! Promise: importing twice changes nothing the second time, and writes nothing.

use std::collections::HashMap;
use std::path::Path;

use larder_model::item_bytes;
use larder_model::{Arn, AttributeValue, Item, KeyAttribute, TableName};
use larder_ops::{BatchWrite, Scan};

pub use larder_exports::{About, Error as FilesError, Export, Exported, Exporting, Line, Lines};

use super::moving::Restored;
use crate::batch::{self, Target};
use crate::store::{self, Store};

/// Why a table was not exported or imported.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its files are at fault.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Store {
    /// Exports a table below a folder, and says now and then how many items were written. Items that are changed
    /// meanwhile are exported as they are met.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use larder::Store;
    /// use larder::export::{Export, Import};
    ///
    /// # let library = Library::open(Store::memory().await).await?;
    /// library.books().create(NewBook::new("1")).await?;
    /// let table = &library.store().list_tables().await?[0];
    /// let folder = tempfile::tempdir()?;
    /// let exported = library.store().export(table, folder.path(), |_items| ()).await?;
    /// assert_eq!(exported.items, 1);
    ///
    /// let other = Library::open(Store::memory().await).await?;
    /// let import = Import::into(other.store(), table).await?;
    /// for line in Export::open(folder.path())?.remove(0).lines() {
    ///     import.put(vec![line?.item?]).await;
    /// }
    /// assert!(other.books().get("1").await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn export(
        &self,
        table: &TableName,
        folder: &Path,
        mut told: impl FnMut(u64) + Send,
    ) -> Result<Exported, Error> {
        let (arn, id) = self.identity(table).await?;
        let mut exporting = Exporting::begin(folder, About::table(arn, id, self.clock().now()))?;
        let mut start = None;
        loop {
            let page = self.scan(Scan { start, consistent: true, ..Scan::of(table.clone()) }).await?;
            for item in &page.items {
                exporting.push(item)?;
            }
            told(exporting.items());
            start = page.last_key;
            if start.is_none() {
                return Ok(exporting.finish(self.clock().now())?);
            }
        }
    }

    /// The ARN of a table, and its id where it has one.
    async fn identity(&self, table: &TableName) -> Result<(String, Option<String>), Error> {
        if self.describe(table).await?.is_none() {
            return Err(store::Error::NoTable { table: table.clone() }.into());
        }
        let known = match self.sdk_client().await {
            Ok(client) => client.describe_table().table_name(table.as_str()).send().await.ok(),
            Err(_) => None,
        };
        let known = known.and_then(|described| described.table);
        let arn = known.as_ref().and_then(|table| table.table_arn.clone());
        Ok((arn.unwrap_or_else(|| Arn::table(table).to_string()), known.and_then(|table| table.table_id)))
    }
}

/// A table that items are put into as they are.
#[derive(Clone, Debug)]
pub struct Import {
    target: Target,
    key: Vec<KeyAttribute>,
}

impl Import {
    /// The table has to be there already.
    pub async fn into(store: &Store, table: &TableName) -> Result<Self, store::Error> {
        let deployed = store.describe(table).await?;
        let deployed = deployed.ok_or_else(|| store::Error::NoTable { table: table.clone() })?;
        let key: Vec<KeyAttribute> = deployed.definition.key.attributes().cloned().collect();
        let key_names = key.iter().map(|attribute| attribute.name.clone()).collect();
        Ok(Self { target: Target { store: store.clone(), table: table.clone(), key_names }, key })
    }

    /// Says what keeps an item from having a place in the table.
    pub fn check(&self, item: &Item) -> Result<(), String> {
        for KeyAttribute { name, kind } in &self.key {
            let table = &self.target.table;
            let value = item.get(name).filter(|value| value.kind().name() == kind.name());
            match value {
                None => {
                    return Err(format!(
                        "the key `{name}` of {table} is missing, or is not of type {}",
                        kind.name()
                    ));
                }
                Some(AttributeValue::S(text)) if text.is_empty() => {
                    return Err(format!("the key `{name}` of {table} is empty"));
                }
                Some(AttributeValue::B(bytes)) if bytes.is_empty() => {
                    return Err(format!("the key `{name}` of {table} is empty"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Puts items in place of what has their keys, and says of each what that did. Of two with one key the later
    /// stays.
    pub async fn put(&self, items: Vec<Item>) -> Vec<Result<Restored, crate::Error>> {
        let keys: Vec<Item> = items.iter().map(|item| self.target.key_of(item)).collect();
        let known = batch::read_from(&self.target, keys.clone(), true, None).await;
        let last: HashMap<Vec<u8>, usize> =
            keys.iter().enumerate().map(|(at, key)| (item_bytes::encode(key), at)).collect();
        let mut outcomes = Vec::with_capacity(items.len());
        let (mut places, mut puts) = (Vec::new(), Vec::new());
        for (at, (item, known)) in items.into_iter().zip(known).enumerate() {
            outcomes.push(known.map(|known| match known {
                None => Restored::Created,
                Some(old) if old == item => Restored::Unchanged,
                Some(_) => Restored::Overwritten,
            }));
            let is_last = last.get(&item_bytes::encode(&keys[at])) == Some(&at);
            if is_last && matches!(outcomes[at], Ok(Restored::Created | Restored::Overwritten)) {
                places.push(at);
                puts.push(BatchWrite::Put(item));
            }
        }
        let written = crate::write::many(&self.target, puts, None).await;
        for (at, written) in places.into_iter().zip(written) {
            if let Err(error) = written {
                outcomes[at] = Err(error);
            }
        }
        outcomes
    }
}
