//! The embedded store as an endpoint in process: requests as DynamoDB's JSON, and what only a store of this process can tell.

use async_trait::async_trait;
use larder_engine::Lookback;
use larder_model::{ApiError, Item, TableName, UnixTime};
use larder_ops::Request;

use super::{LocalEngine, blocking, error};
use crate::store::client::{self, Inside};
use crate::store::{Error, Store};

impl Store {
    /// What became of a table's items, or of the one with this key: the newest changes first, at most so many, and only those
    /// below a number if one is given. A table keeps them for its stream and for recovery. `None`: only a store of this process
    /// can be asked.
    ///
    /// ```
    /// # use larder::store::{Store, ops::{PutItem, WriteOptions}};
    /// # use larder_model::{Billing, Item, KeyAttribute, KeySchema, KeyType, StreamView, TableDefinition, TableName, Tags};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let store = Store::memory().await;
    /// # let table = TableName::new("carts")?;
    /// # let key = KeySchema { partition: vec![KeyAttribute { name: "id".to_owned(), kind: KeyType::S }], sort: Vec::new() };
    /// # store.create_table(&TableDefinition {
    /// #     name: table.clone(), attributes: vec![("id".to_owned(), KeyType::S)], key, indexes: Vec::new(), billing: Billing::OnDemand,
    /// #     on_demand_limits: None, stream: Some(StreamView::NewAndOldImages), encryption: None, class: None,
    /// #     deletion_protection: false, tags: Tags::new(),
    /// # }).await?;
    /// # let key: Item = [("id", "seven")].into_iter().collect();
    /// # store.put_item(PutItem { table: table.clone(), item: key.clone(), options: WriteOptions::default() }).await?;
    /// let past = store.look_back(&table, Some(key), None, 10).await?.expect("it is embedded");
    /// assert_eq!((past.changes.len(), past.more_before), (1, None));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn look_back(
        &self,
        table: &TableName,
        key: Option<Item>,
        before: Option<u64>,
        most: usize,
    ) -> Result<Option<Lookback>, Error> {
        let Some(inside) = self.inside() else { return Ok(None) };
        inside.look_back(table, key, before, most).await.map(Some)
    }
}

#[async_trait]
impl Inside for LocalEngine {
    async fn answer(&self, target: &str, body: &[u8]) -> Result<Vec<u8>, ApiError> {
        let request = larder_wire::decode(target, body)?;
        let changes_tables = match &request {
            Request::DescribeEndpoints => return Ok(larder_wire::encode_endpoints(client::HOST)),
            Request::CreateTable(_)
            | Request::UpdateTable(_)
            | Request::DeleteTable(_)
            | Request::UpdateTimeToLive(_)
            | Request::CreateBackup(_)
            | Request::RestoreTableFromBackup(_)
            | Request::RestoreTableToPointInTime(_) => true,
            _ => false,
        };
        let response = self.engine.execute(request, self.clock.trusted()).await?;
        if changes_tables {
            self.work().await?;
        }
        larder_wire::encode(&response)
    }

    async fn look_back(
        &self,
        table: &TableName,
        key: Option<Item>,
        before: Option<u64>,
        most: usize,
    ) -> Result<Lookback, Error> {
        let (engine, table, now) = (self.engine.clone(), table.clone(), self.clock.now());
        let looked = blocking(move || engine.look_back(&table, key.as_ref(), before, most, now)).await;
        looked.map_err(error)
    }

    fn expiring(&self, table: &TableName, seconds: i64, most: usize) -> Result<Option<u64>, Error> {
        let now = self.clock.now();
        let until = UnixTime::from_seconds(now.seconds().saturating_add(seconds));
        let count = self.engine.expiring(table, now, until, most).map_err(Error::Engine)?;
        Ok(Some(count as u64))
    }
}
