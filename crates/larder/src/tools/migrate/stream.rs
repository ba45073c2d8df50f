//! The changes of a table since a place in its stream, on any store, through the official SDK.
//!
//! A place is kept shard by shard and can be given to another machine. A shard is read after the one it continues,
//! so the changes of a key come in their order.
//!
//! Promise: each change after the place is given at least once, or [`Lost`] says that some are gone: a stream keeps
//! a day.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use aws_sdk_dynamodbstreams::Client;
use aws_sdk_dynamodbstreams::types::{Record, Shard, ShardIteratorType, StreamStatus, StreamViewType};
use larder_model::{Item, StreamView, TableName, UnixTime};

use crate::Error;
use crate::store::tail::{failed, item, says};
use crate::store::{self, Store, TableChange};

/// How often a table that is being changed is looked at.
const IDLE_TRIES_MAX: u32 = 600;
/// A stream keeps a day. A place that is older than this may be before its beginning.
pub(super) const PLACE_LASTS: Duration = Duration::from_secs(20 * 60 * 60);

/// How far each shard has been read, of which stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamPosition {
    pub(super) stream: String,
    pub(super) shards: BTreeMap<String, Read>,
    /// When it was last seen to be the end of the stream.
    pub(super) ended: Option<UnixTime>,
}

impl StreamPosition {
    /// The same, for who has just looked at it.
    pub(super) fn ending(self, now: UnixTime) -> Self {
        Self { ended: Some(now), ..self }
    }

    /// The stream still has everything that came after it.
    pub(super) fn is_fresh(&self, now: UnixTime) -> bool {
        self.ended.is_some_and(|ended| ended.plus(PLACE_LASTS) >= now)
    }
}

/// How far a shard has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Up to and with this sequence number.
    To(String),
    /// To its end.
    Whole,
}

/// One change: the item's key, the item as it was, and as it became.
#[derive(Clone, Debug)]
pub(super) struct StreamChange {
    pub(super) key: Item,
    pub(super) old: Option<Item>,
    pub(super) new: Option<Item>,
    /// The stream shows what items became, so none means that it is gone.
    pub(super) has_new: bool,
}

/// Changes after the place are gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost;

#[derive(Debug)]
pub(super) struct Reader {
    client: Client,
    at: String,
    pub(super) place: StreamPosition,
    shards: Vec<Shard>,
    iterators: HashMap<String, String>,
    is_stale: bool,
    /// What is gone is passed over.
    is_rest: bool,
}

/// What a table's stream shows, if that is not enough to follow it: items as they were are needed.
pub(super) async fn unfit(store: &Store, table: &TableName) -> Result<Option<Option<StreamView>>, Error> {
    let described =
        store.describe(table).await?.ok_or_else(|| store::Error::NoTable { table: table.clone() })?;
    Ok(match described.definition.stream {
        Some(StreamView::NewAndOldImages | StreamView::OldImage) => None,
        view @ (None | Some(StreamView::KeysOnly | StreamView::NewImage)) => Some(view),
    })
}

/// Makes a table's stream show items as they were, unless it does.
pub(super) async fn switch_on(store: &Store, table: &TableName) -> Result<(), Error> {
    if unfit(store, table).await?.is_some() {
        show(store, table, Some(StreamView::NewAndOldImages)).await?;
    }
    wait_until_idle(store, table).await
}

/// Makes a table's stream show this. What it shows cannot change while it is on, so who reads it goes on with a new one.
pub(super) async fn show(store: &Store, table: &TableName, view: Option<StreamView>) -> Result<(), Error> {
    let Some(described) = store.describe(table).await? else { return Ok(()) };
    let shown = described.definition.stream;
    if shown == view {
        return Ok(());
    }
    let off = shown.map(|_| None);
    for step in off.into_iter().chain(view.map(Some)) {
        store.change_table(table, &TableChange::Stream(step)).await?;
        wait_until_idle(store, table).await?;
    }
    Ok(())
}

/// Waits until nothing goes on with a table.
pub(super) async fn wait_until_idle(store: &Store, table: &TableName) -> Result<(), Error> {
    for asked in 0..IDLE_TRIES_MAX {
        match store.describe(table).await? {
            Some(described) if described.busy.is_some() => store.pause(asked).await?,
            _ => return Ok(()),
        }
    }
    Err(store::Error::Busy(format!("{table} is still being changed: go on when it is done")).into())
}

impl Reader {
    /// From a place, or from the oldest change there is.
    pub(super) async fn open(
        store: &Store,
        table: &TableName,
        place: Option<StreamPosition>,
    ) -> Result<Result<Self, Lost>, Error> {
        Self::opened(store, table, place, false).await
    }

    /// From a place, or from the oldest change after it that is still there.
    pub(super) async fn rest(
        store: &Store,
        table: &TableName,
        place: Option<StreamPosition>,
    ) -> Result<Self, Error> {
        let opened = Self::opened(store, table, place, true).await?;
        opened.map_err(|Lost| Error::NotAllowed(format!("{table} has no stream to follow")))
    }

    async fn opened(
        store: &Store,
        table: &TableName,
        place: Option<StreamPosition>,
        is_rest: bool,
    ) -> Result<Result<Self, Lost>, Error> {
        let client = store.streams_client().await?;
        let at = store.place();
        let answer = client.list_streams().table_name(table.as_str()).send().await;
        let streams = answer.map_err(|error| failed(&at, &error))?.streams.unwrap_or_default();
        // The newest has the greatest label, which is a time.
        let newest = streams.into_iter().max_by(|a, b| a.stream_label.cmp(&b.stream_label));
        let stream = newest.and_then(|stream| stream.stream_arn);
        let place = match (place, stream) {
            (Some(place), Some(stream)) if place.stream == stream => place,
            (Some(_), _) if !is_rest => return Ok(Err(Lost)),
            (_, Some(stream)) => StreamPosition { stream, shards: BTreeMap::new(), ended: None },
            (_, None) => {
                return Err(Error::NotAllowed(format!(
                    "{table} has no stream to follow: somebody switched it off"
                )));
            }
        };
        let (shards, iterators) = (Vec::new(), HashMap::new());
        Ok(Ok(Self { client, at, place, shards, iterators, is_stale: true, is_rest }))
    }

    /// The next changes of every shard that can be read. None: there are none now.
    pub(super) async fn next(&mut self) -> Result<Result<Vec<StreamChange>, Lost>, Error> {
        if self.is_stale && self.list().await?.is_err() {
            return Ok(Err(Lost));
        }
        let whole = |id: &str| self.place.shards.get(id) == Some(&Read::Whole);
        let listed: BTreeSet<&str> = self.shards.iter().filter_map(Shard::shard_id).collect();
        let ready = self.shards.iter().filter(|shard| {
            let waits =
                shard.parent_shard_id().is_some_and(|parent| listed.contains(parent) && !whole(parent));
            shard.shard_id().is_some_and(|id| !whole(id)) && !waits
        });
        let ready: Vec<String> = ready.filter_map(|shard| shard.shard_id.clone()).collect();
        let mut changes = Vec::new();
        for shard in ready {
            match self.page(&shard).await? {
                Ok(page) => changes.extend(page),
                Err(lost) => return Ok(Err(lost)),
            }
        }
        // Where nothing more comes, another shard may have begun.
        self.is_stale |= changes.is_empty();
        Ok(Ok(changes))
    }

    /// Looks which shards there are. A stream that was switched off does not show what is written since.
    pub(super) async fn list(&mut self) -> Result<Result<(), Lost>, Error> {
        let (mut shards, mut start) = (Vec::new(), None);
        loop {
            let request = self.client.describe_stream().stream_arn(&self.place.stream);
            let answer = request.set_exclusive_start_shard_id(start).send().await;
            let described = answer.map_err(|error| failed(&self.at, &error))?.stream_description;
            let Some(described) = described else { break };
            if matches!(described.stream_status, Some(StreamStatus::Disabled | StreamStatus::Disabling)) {
                return Ok(Err(Lost));
            }
            shards.extend(described.shards.unwrap_or_default());
            start = described.last_evaluated_shard_id;
            if start.is_none() {
                break;
            }
        }
        let is_listed = |id: &str| shards.iter().any(|shard| shard.shard_id() == Some(id));
        let is_gone = |(id, read): (&String, &Read)| *read != Read::Whole && !is_listed(id);
        if !self.is_rest && self.place.shards.iter().any(is_gone) {
            return Ok(Err(Lost));
        }
        self.place.shards.retain(|id, _| is_listed(id));
        (self.shards, self.is_stale) = (shards, false);
        Ok(Ok(()))
    }

    async fn page(&mut self, shard: &str) -> Result<Result<Vec<StreamChange>, Lost>, Error> {
        let mut is_again = false;
        let answer = loop {
            let iterator = match self.iterators.remove(shard) {
                Some(iterator) => iterator,
                None => match self.iterator(shard).await? {
                    Ok(Some(iterator)) => iterator,
                    Ok(None) => return Ok(Ok(Vec::new())),
                    Err(lost) => return Ok(Err(lost)),
                },
            };
            match self.client.get_records().shard_iterator(iterator).send().await {
                Ok(answer) => break answer,
                Err(error) if says(&error, "TrimmedDataAccessException") => {
                    if !self.is_rest || is_again {
                        return Ok(Err(Lost));
                    }
                    // All that is left of the shard comes after what was read of it.
                    self.place.shards.remove(shard);
                }
                // It lasts minutes. Another from the place goes on; nothing is known to be at its end.
                Err(error) if says(&error, "ExpiredIteratorException") && !is_again => {}
                Err(error) => return Err(failed(&self.at, &error).into()),
            }
            is_again = true;
        };
        let records = answer.records.unwrap_or_default();
        let last = records.last().and_then(|record| record.dynamodb()?.sequence_number().map(str::to_owned));
        let changes = records.into_iter().filter_map(|record| change(record).transpose());
        let changes = changes.collect::<Result<Vec<StreamChange>, Error>>()?;
        if let Some(last) = last {
            self.place.shards.insert(shard.to_owned(), Read::To(last));
        }
        match answer.next_shard_iterator {
            Some(next) => drop(self.iterators.insert(shard.to_owned(), next)),
            None => {
                self.place.shards.insert(shard.to_owned(), Read::Whole);
                self.is_stale = true;
            }
        }
        Ok(Ok(changes))
    }

    async fn iterator(&mut self, shard: &str) -> Result<Result<Option<String>, Lost>, Error> {
        match self.iterator_from(shard).await? {
            Err(Lost) if self.is_rest && self.place.shards.remove(shard).is_some() => {
                self.iterator_from(shard).await
            }
            iterator => Ok(iterator),
        }
    }

    async fn iterator_from(&self, shard: &str) -> Result<Result<Option<String>, Lost>, Error> {
        let request = self.client.get_shard_iterator().stream_arn(&self.place.stream).shard_id(shard);
        let request = match self.place.shards.get(shard) {
            Some(Read::To(number)) => {
                request.shard_iterator_type(ShardIteratorType::AfterSequenceNumber).sequence_number(number)
            }
            Some(Read::Whole) | None => request.shard_iterator_type(ShardIteratorType::TrimHorizon),
        };
        match request.send().await {
            Ok(answer) => Ok(Ok(answer.shard_iterator)),
            Err(error) if says(&error, "TrimmedDataAccessException") => Ok(Err(Lost)),
            Err(error) => Err(failed(&self.at, &error).into()),
        }
    }
}

fn change(record: Record) -> Result<Option<StreamChange>, Error> {
    let Some(change) = record.dynamodb else { return Ok(None) };
    let Some(key) = change.keys else { return Ok(None) };
    Ok(Some(StreamChange {
        key: item(key)?,
        old: change.old_image.map(item).transpose()?,
        new: change.new_image.map(item).transpose()?,
        has_new: change.stream_view_type == Some(StreamViewType::NewAndOldImages),
    }))
}
