//! Items of a store, an operation at a time.
//!
//! Requests have bound expressions: the embedded store takes them as they are, a remote one renders them to text.

use larder_model::{Item, TableName};
use larder_ops::{
    BatchGetItem, BatchGetTable, BatchWrite, BatchWriteItem, Consumed, DeleteItem, GetItem, PageOutput,
    PutItem, Query, Request, Response, Scan, TransactGetItems, TransactWriteItems, UpdateItem,
};

use super::{Error, Store};

/// A page of a query or scan.
///
/// ```
/// use larder::store::Page;
///
/// let last = Page { items: Vec::new(), count: 0, scanned: 12, last_key: None, units: 0.5 };
/// assert!(last.last_key.is_none(), "nothing follows, though nothing was found");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// What was found, in order.
    pub items: Vec<Item>,
    /// Counted, also where no items were asked for.
    pub count: usize,
    /// Read, before the filter.
    pub scanned: usize,
    /// Where the next page begins, if there may be one.
    pub last_key: Option<Item>,
    /// Read units, when they were asked for.
    pub units: f64,
}

impl Store {
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// use larder::store::ops::{GetItem, ReturnCapacity};
    ///
    /// let book = library.books().create(NewBook::new("1")).await?;
    /// let request = GetItem {
    ///     table: larder_model::TableName::new("library")?,
    ///     key: book.kept().key().clone(),
    ///     consistent: true,
    ///     projection: None,
    ///     capacity: ReturnCapacity::None,
    /// };
    /// let item = library.store().get_item(request).await?.expect("it was just made");
    /// assert_eq!(item.get("title").and_then(|title| title.as_str()), Some("Untitled"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_item(&self, request: GetItem) -> Result<Option<Item>, Error> {
        match self.execute(Request::GetItem(request)).await? {
            Response::GetItem(output) => Ok(output.item),
            _ => Err(mistaken()),
        }
    }

    /// The item as it was, if that was asked for.
    pub async fn put_item(&self, request: PutItem) -> Result<Option<Item>, Error> {
        match self.execute(Request::PutItem(request)).await? {
            Response::PutItem(output) => Ok(output.attributes),
            _ => Err(mistaken()),
        }
    }

    /// What was asked for of the item before or after.
    pub async fn update_item(&self, request: UpdateItem) -> Result<Option<Item>, Error> {
        match self.execute(Request::UpdateItem(request)).await? {
            Response::UpdateItem(output) => Ok(output.attributes),
            _ => Err(mistaken()),
        }
    }

    /// The item as it was, if that was asked for.
    pub async fn delete_item(&self, request: DeleteItem) -> Result<Option<Item>, Error> {
        match self.execute(Request::DeleteItem(request)).await? {
            Response::DeleteItem(output) => Ok(output.attributes),
            _ => Err(mistaken()),
        }
    }

    /// One page of a partition.
    pub async fn query(&self, request: Query) -> Result<Page, Error> {
        match self.execute(Request::Query(request)).await? {
            Response::Query(output) => Ok(page(output)),
            _ => Err(mistaken()),
        }
    }

    /// One page of a whole table or index.
    pub async fn scan(&self, request: Scan) -> Result<Page, Error> {
        match self.execute(Request::Scan(request)).await? {
            Response::Scan(output) => Ok(page(output)),
            _ => Err(mistaken()),
        }
    }

    /// The items that were found, and what has to be asked for again.
    pub async fn batch_get_item(
        &self,
        request: BatchGetItem,
    ) -> Result<(Vec<(TableName, Vec<Item>)>, Vec<BatchGetTable>), Error> {
        let Response::BatchGetItem(output) = self.execute(Request::BatchGetItem(request)).await? else {
            return Err(mistaken());
        };
        Ok((output.responses, output.unprocessed))
    }

    /// What was not written and has to be asked for again.
    pub async fn batch_write_item(
        &self,
        request: BatchWriteItem,
    ) -> Result<Vec<(TableName, Vec<BatchWrite>)>, Error> {
        match self.execute(Request::BatchWriteItem(request)).await? {
            Response::BatchWriteItem(output) => Ok(output.unprocessed),
            _ => Err(mistaken()),
        }
    }

    /// The items, in the order they were asked for.
    pub async fn transact_get_items(&self, request: TransactGetItems) -> Result<Vec<Option<Item>>, Error> {
        match self.execute(Request::TransactGetItems(request)).await? {
            Response::TransactGetItems(output) => Ok(output.items),
            _ => Err(mistaken()),
        }
    }

    /// Writes all or nothing.
    pub async fn transact_write_items(&self, request: TransactWriteItems) -> Result<(), Error> {
        match self.execute(Request::TransactWriteItems(request)).await? {
            Response::TransactWriteItems(_) => Ok(()),
            _ => Err(mistaken()),
        }
    }
}

/// Why a request about tables is not taken.
pub(super) const NOT_OF_ITEMS: &str =
    "only items are read and written by request; tables have methods of their own";

/// The tables a request is about, in its order, once or more each.
pub(super) fn tables(request: &Request) -> Vec<TableName> {
    request.tables().into_iter().cloned().collect()
}

/// What DynamoDB calls the operation.
pub(super) fn operation(request: &Request) -> &'static str {
    request.operation().name()
}

fn page(output: PageOutput) -> Page {
    Page {
        items: output.items.unwrap_or_default(),
        count: output.count,
        scanned: output.scanned,
        last_key: output.last_key,
        units: output.consumed.as_ref().map_or(0.0, Consumed::units),
    }
}

/// A backend that answers something else than it was asked is not a store.
fn mistaken() -> Error {
    Error::Unsupported("the store answered another request than it was asked".to_owned())
}
