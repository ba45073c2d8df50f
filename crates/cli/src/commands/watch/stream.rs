//! What became of a record between two looks, by the stream of its table.
//!
//! Asked in a directory only, which one process has open at a time: whatever the stream tells was over before the look
//! that asks it. A table without a stream that shows new items tells nothing, and then the looks alone count.

use larder::Store;
use larder_engine::Engine;
use larder_engine::ops::{
    DescribeStream, GetRecords, GetShardIterator, ListStreams, ShardIterator, ShardStart,
};
use larder_model::{ApiError, Item, StreamView, TableName, UnixTime};

/// How far the stream was read.
#[derive(Debug, Default)]
pub(super) struct Stream {
    next: Option<ShardIterator>,
}

impl Stream {
    /// The record after each change since it was last asked, oldest first; `None` is that it was removed.
    pub(super) fn since(&mut self, store: &Store, table: &TableName, key: &Item) -> Vec<Option<Item>> {
        let (Some(engine), now) = (store.engine(), store.clock().now()) else { return Vec::new() };
        let read = match self.next.take() {
            Some(next) => rest(engine, next, key, now),
            None => Ok((Vec::new(), None)),
        };
        // What cannot be read, because it is too old by now or the stream was switched off, is left to the look.
        let (images, next) = read.unwrap_or_default();
        self.next = next.or_else(|| end(engine, table, now).ok().flatten());
        images
    }
}

type Read = (Vec<Option<Item>>, Option<ShardIterator>);

fn rest(engine: &Engine, mut next: ShardIterator, key: &Item, now: UnixTime) -> Result<Read, ApiError> {
    let mut images = Vec::new();
    loop {
        let page = engine.get_records(&GetRecords { iterator: next, limit: None }, now)?;
        let is_last = page.records.is_empty();
        images.extend(page.records.into_iter().filter(|record| record.key == *key).map(|record| record.new));
        match page.next {
            Some(after) if !is_last => next = after,
            after => return Ok((images, after)),
        }
    }
}

/// The end of the table's stream, if it has one that shows what is new.
fn end(engine: &Engine, table: &TableName, now: UnixTime) -> Result<Option<ShardIterator>, ApiError> {
    let list = ListStreams { table: Some(table.clone()), start: None, limit: None };
    let Some(stream) = engine.list_streams(&list, now)?.streams.pop() else { return Ok(None) };
    let describe = DescribeStream { stream: stream.clone(), start: None, children_of: None };
    let described = engine.describe_stream(&describe, now)?;
    let shows_new = matches!(described.view, StreamView::NewImage | StreamView::NewAndOldImages);
    let Some(shard) = described.shards.into_iter().next().filter(|_| shows_new && described.enabled) else {
        return Ok(None);
    };
    let request = GetShardIterator { stream, shard: shard.id, start: ShardStart::Latest };
    Ok(Some(engine.get_shard_iterator(&request, now)?))
}
