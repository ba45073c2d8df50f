//! The changes of a table as they come, by its stream, on any store: for whoever looks on from outside.
//!
//! A tail begins at the end of the stream, so nothing of the day that a stream keeps is read or paid for; or, where somebody asks
//! for the past, at its oldest change. It owns no timer: whoever looks asks it again.
//!
//! Promise: while it is asked at least every quarter of an hour, each change after its beginning is given once, those of a key in their
//! order.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_dynamodbstreams::Client;
use aws_sdk_dynamodbstreams::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodbstreams::types::{
    AttributeValue as Sdk, OperationType, Record, ShardIteratorType, StreamStatus,
};
use larder_engine::PastChange;
use larder_model::{AttributeValue, Item, TableName, UnixTime};
use larder_ops::Event;

use super::{Error, Store};

/// Who removes what has expired, by the name that streams give.
const EXPIRY: &str = "dynamodb.amazonaws.com";

/// A place in the stream of a table, which moves on as it is read.
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
/// # let put = |key: &Item| PutItem { table: table.clone(), item: key.clone(), options: WriteOptions::default() };
/// store.put_item(put(&key)).await?;
/// let mut tail = store.tail(&table).await?.expect("it has a stream");
/// assert!(tail.next().await?.is_empty(), "what was before is not read");
/// # let key: Item = [("id", "eight")].into_iter().collect();
/// store.put_item(put(&key)).await?;
/// let changes = tail.next().await?;
/// assert_eq!((changes.len(), &changes[0].key), (1, &key));
/// assert!(tail.next().await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Tail {
    client: Client,
    place: String,
    stream: String,
    /// All shards that were ever seen: those that come later are read from their beginning.
    seen: BTreeSet<String>,
    open: BTreeMap<String, Shard>,
    /// A shard ended, and others go on for it.
    is_stale: bool,
}

/// How far a shard was read.
#[derive(Debug, Default)]
struct Shard {
    iterator: Option<String>,
    /// The sequence number of the last change of it.
    last: Option<String>,
    /// The shard that it continues, which is read to its end first.
    parent: Option<String>,
    /// Read from its oldest change on, not from now on.
    is_whole: bool,
}

/// Where a tail begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Now,
    Oldest,
}

impl Store {
    /// The changes of a table from now on. `None`: no stream of it is on.
    pub async fn tail(&self, table: &TableName) -> Result<Option<Tail>, Error> {
        self.tail_from(table, Start::Now).await
    }

    /// The changes of a table from the oldest on that its stream still has, which is a day. `None`: no stream of it is on.
    pub async fn tail_from_oldest(&self, table: &TableName) -> Result<Option<Tail>, Error> {
        self.tail_from(table, Start::Oldest).await
    }

    async fn tail_from(&self, table: &TableName, start: Start) -> Result<Option<Tail>, Error> {
        let (client, place) = (self.streams_client().await?, self.place());
        let answer = client.list_streams().table_name(table.as_str()).send().await;
        let streams = answer.map_err(|error| failed(&place, &error))?.streams.unwrap_or_default();
        // The newest has the greatest label, which is a time.
        let newest = streams.into_iter().max_by(|a, b| a.stream_label.cmp(&b.stream_label));
        let Some(stream) = newest.and_then(|stream| stream.stream_arn) else { return Ok(None) };
        let (seen, open) = (BTreeSet::new(), BTreeMap::new());
        let mut tail = Tail { client, place, stream, seen, open, is_stale: false };
        if !tail.list(start).await? {
            return Ok(None);
        }
        if start == Start::Now {
            for shard in tail.open.keys().cloned().collect::<Vec<_>>() {
                tail.begin(&shard).await?;
            }
        }
        Ok(Some(tail))
    }
}

impl Tail {
    /// Whether the next call may give more although the last one gave nothing: a shard ended, and others go on for it.
    pub fn goes_on(&self) -> bool {
        self.is_stale
    }

    /// What came since it was asked before, the oldest first: a page of each shard. An empty list says that nothing is there now,
    /// unless it [goes on](Tail::goes_on).
    pub async fn next(&mut self) -> Result<Vec<PastChange>, Error> {
        if self.is_stale {
            self.list(Start::Oldest).await?;
        }
        let is_next = |shard: &Shard| shard.parent.as_ref().is_none_or(|it| !self.open.contains_key(it));
        let next: Vec<String> =
            self.open.iter().filter(|(_, shard)| is_next(shard)).map(|(id, _)| id.clone()).collect();
        let mut changes = Vec::new();
        for shard in next {
            for record in self.page(&shard).await? {
                changes.extend(change(record)?);
            }
        }
        changes.sort_by_key(|change| change.time.millis());
        Ok(changes)
    }

    /// Looks which shards there are, and where those that are new to it are read from. Whether the stream is on.
    async fn list(&mut self, from: Start) -> Result<bool, Error> {
        let is_whole = from == Start::Oldest;
        let mut start = None;
        loop {
            let request = self.client.describe_stream().stream_arn(&self.stream);
            let answer = request.set_exclusive_start_shard_id(start).send().await;
            let described = answer.map_err(|error| failed(&self.place, &error))?.stream_description;
            let Some(described) = described else { return Ok(false) };
            if matches!(described.stream_status, Some(StreamStatus::Disabled | StreamStatus::Disabling)) {
                return Ok(false);
            }
            for shard in described.shards.unwrap_or_default() {
                let ended = shard.sequence_number_range.and_then(|range| range.ending_sequence_number);
                let Some(id) = shard.shard_id else { continue };
                if self.seen.insert(id.clone()) && (is_whole || ended.is_none()) {
                    let parent = shard.parent_shard_id;
                    self.open.insert(id, Shard { parent, is_whole, ..Shard::default() });
                }
            }
            start = described.last_evaluated_shard_id;
            if start.is_none() {
                self.is_stale = false;
                return Ok(true);
            }
        }
    }

    /// Asks where to read on in a shard.
    async fn begin(&mut self, id: &str) -> Result<(), Error> {
        let Some(shard) = self.open.get_mut(id) else { return Ok(()) };
        let request = self.client.get_shard_iterator().stream_arn(&self.stream).shard_id(id);
        let request = match (&shard.last, shard.is_whole) {
            (Some(last), _) => {
                request.shard_iterator_type(ShardIteratorType::AfterSequenceNumber).sequence_number(last)
            }
            (None, true) => request.shard_iterator_type(ShardIteratorType::TrimHorizon),
            (None, false) => request.shard_iterator_type(ShardIteratorType::Latest),
        };
        let answer = request.send().await.map_err(|error| failed(&self.place, &error))?;
        shard.iterator = answer.shard_iterator;
        Ok(())
    }

    async fn page(&mut self, id: &str) -> Result<Vec<Record>, Error> {
        if self.open.get(id).is_some_and(|shard| shard.iterator.is_none()) {
            self.begin(id).await?;
        }
        let Some(shard) = self.open.get_mut(id) else { return Ok(Vec::new()) };
        let Some(iterator) = shard.iterator.take() else { return Ok(Vec::new()) };
        let answer = match self.client.get_records().shard_iterator(iterator).send().await {
            Ok(answer) => answer,
            // It lasts minutes: the next time it is begun anew from where it was read to.
            Err(error) if says(&error, "ExpiredIteratorException") => return Ok(Vec::new()),
            Err(error) => return Err(failed(&self.place, &error)),
        };
        let records = answer.records.unwrap_or_default();
        if let Some(last) = records.last().and_then(|record| record.dynamodb()?.sequence_number()) {
            shard.last = Some(last.to_owned());
        }
        shard.iterator = answer.next_shard_iterator;
        if shard.iterator.is_none() {
            self.open.remove(id);
            self.is_stale = true;
        }
        Ok(records)
    }
}

fn change(record: Record) -> Result<Option<PastChange>, Error> {
    let event = match record.event_name {
        Some(OperationType::Insert) => Event::Insert,
        Some(OperationType::Modify) => Event::Modify,
        Some(OperationType::Remove) => Event::Remove,
        _ => return Ok(None),
    };
    let expired = record.user_identity.is_some_and(|it| it.principal_id.as_deref() == Some(EXPIRY));
    let Some(change) = record.dynamodb else { return Ok(None) };
    let Some(key) = change.keys else { return Ok(None) };
    // A name that stays the same for whoever asks again; AWS's numbers are longer, and their last bits differ.
    let number = change.sequence_number.and_then(|it| it.parse::<u128>().ok()).unwrap_or(0) as u64;
    let time = change.approximate_creation_date_time.and_then(|at| at.to_millis().ok()).unwrap_or(0);
    Ok(Some(PastChange {
        number,
        time: UnixTime::from_millis(time),
        event,
        expired,
        key: item(key)?,
        old: change.old_image.map(item).transpose()?,
        new: change.new_image.map(item).transpose()?,
    }))
}

pub(crate) fn item(attributes: HashMap<String, Sdk>) -> Result<Item, Error> {
    attributes.into_iter().map(|(name, sdk)| Ok((name, value(sdk)?))).collect()
}

fn value(value: Sdk) -> Result<AttributeValue, Error> {
    let unreadable = || Error::Unsupported("the stream shows a value of an unknown type".to_owned());
    super::value_of!(value, aws_sdk_dynamodbstreams::types::AttributeValue, self::value, unreadable())
}

pub(crate) fn says<E: ProvideErrorMetadata>(error: &SdkError<E>, code: &str) -> bool {
    error.as_service_error().and_then(ProvideErrorMetadata::code) == Some(code)
}

pub(crate) fn failed<E>(place: &str, error: &SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let Some(service) = error.as_service_error() else {
        let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
        let cause = causes.last().map(ToString::to_string).unwrap_or_default();
        return Error::Unreachable { place: place.to_owned(), cause };
    };
    let code = service.code().unwrap_or("an unnamed error").to_owned();
    let message = service.message().unwrap_or("it was refused without a reason").to_owned();
    match &*code {
        "LimitExceededException" => Error::Throttled(message),
        _ => Error::Refused { code, message },
    }
}
