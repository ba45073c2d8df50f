//! What became of a record between two looks, by the stream of its table.
//!
//! Asked in a directory only, which one process has open at a time: whatever the stream tells was over before the look
//! that asks it. A table without a stream that shows new items tells nothing, and then the looks alone count.

use larder::Store;
use larder_engine::Engine;
use larder_engine::ops::{
    DescribeStream, GetRecords, GetShardIterator, ListStreams, ShardIterator, ShardStart, StreamDescription,
    StreamId,
};
use larder_model::{ApiError, Item, StreamView, TableName, UnixTime};

/// How far the stream was read.
#[derive(Debug, Default)]
pub(super) struct Stream {
    open: Vec<Shard>,
}

/// A shard, and how far it was read.
#[derive(Debug)]
struct Shard {
    id: String,
    next: ShardIterator,
}

impl Stream {
    /// The record after each change since it was last asked, oldest first; `None` is that it was removed.
    pub(super) fn since(&mut self, store: &Store, table: &TableName, key: &Item) -> Vec<Option<Item>> {
        let (Some(engine), now) = (store.engine(), store.clock().now()) else { return Vec::new() };
        // What cannot be read, because it is too old by now or the stream was switched off, is left to the look.
        let (images, open) = rest(engine, std::mem::take(&mut self.open), key, now).unwrap_or_default();
        self.open = open;
        if self.open.is_empty() {
            self.open = end(engine, table, now).unwrap_or_default();
        }
        images
    }
}

type Read = (Vec<Option<Item>>, Vec<Shard>);

/// The changes of a key are in one line of shards, so that it does not matter in which order others are read.
fn rest(engine: &Engine, mut shards: Vec<Shard>, key: &Item, now: UnixTime) -> Result<Read, ApiError> {
    let (mut images, mut open) = (Vec::new(), Vec::new());
    while let Some(Shard { id, next }) = shards.pop() {
        let stream = next.stream.clone();
        let page = engine.get_records(&GetRecords { iterator: next, limit: None }, now)?;
        let is_last = page.records.is_empty();
        images.extend(page.records.into_iter().filter(|record| record.key == *key).map(|record| record.new));
        match page.next {
            Some(next) if is_last => open.push(Shard { id, next }),
            Some(next) => shards.push(Shard { id, next }),
            None => {
                for shard in described(engine, stream.clone(), Some(id), now)?.shards {
                    shards.push(begin(engine, stream.clone(), shard.id, ShardStart::TrimHorizon, now)?);
                }
            }
        }
    }
    Ok((images, open))
}

/// The end of the table's stream, if it has one that shows what is new.
fn end(engine: &Engine, table: &TableName, now: UnixTime) -> Result<Vec<Shard>, ApiError> {
    let list = ListStreams { table: Some(table.clone()), start: None, limit: None };
    let Some(stream) = engine.list_streams(&list, now)?.streams.pop() else { return Ok(Vec::new()) };
    let described = described(engine, stream.clone(), None, now)?;
    let shows_new = matches!(described.view, StreamView::NewImage | StreamView::NewAndOldImages);
    if !shows_new || !described.enabled {
        return Ok(Vec::new());
    }
    let open = described.shards.into_iter().filter(|shard| shard.last.is_none());
    open.map(|shard| begin(engine, stream.clone(), shard.id, ShardStart::Latest, now)).collect()
}

fn described(
    engine: &Engine,
    stream: StreamId,
    children_of: Option<String>,
    now: UnixTime,
) -> Result<StreamDescription, ApiError> {
    Ok(engine.describe_stream(&DescribeStream { stream, start: None, children_of, limit: None }, now)?)
}

fn begin(
    engine: &Engine,
    stream: StreamId,
    id: String,
    start: ShardStart,
    now: UnixTime,
) -> Result<Shard, ApiError> {
    let next = engine.get_shard_iterator(&GetShardIterator { stream, shard: id.clone(), start }, now)?;
    Ok(Shard { id, next })
}
