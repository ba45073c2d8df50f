//! One item, or a page of a range. A page that meets something damaged fails, unless it was asked to leave that out
//! and tell.
//!
//! Reads run on a snapshot of the last commit: they never wait for a writer, and one answer never mixes two
//! moments. Items go out as they are stored unless something has to look inside them.

use std::ops::Bound;

use larder_expr::{Condition, KeyRange, Projection, SortTest};
use larder_model::limits::{BATCH_BYTES_MAX, PAGE_BYTES_MAX};
use larder_model::{AttributeValue, IndexKind, IndexName, Item, KeyAttribute, KeySchema};
use larder_storage::{Lost, Piece, Pieces, Range, Snapshot};

use crate::capacity::{self, Meter, read_units};
use crate::catalog::{Index, Table};
use crate::damage::{name_of_entry, name_of_range};
use crate::item_bytes::{ItemBytesError, StoredItem};
use crate::layout::{PARTITIONS, TreeId};
use crate::metrics::Operation;
use crate::ops::{
    BatchGetItem, BatchGetItemOutput, BatchGetTable, GetItem, GetItemOutput, PageOutput, Query, Row, Scan,
    Segment, Select,
};
use crate::{Engine, Error, index, key_bytes, key_rules, layout};

impl Engine {
    pub fn get_item(&self, request: &GetItem) -> Result<GetItemOutput, Error> {
        let watch = self.watch(Operation::GetItem);
        let catalog = watch.found(self.catalog())?;
        // Borrowed of the catalog, here and below: one count of its holders would go from core to core with every read.
        let table = watch.found(catalog.table(&request.table))?;
        watch.end(table, self.item(table, request))
    }

    fn item(&self, table: &Table, request: &GetItem) -> Result<GetItemOutput, Error> {
        key_rules::check_key(table, &request.key)?;
        let key = table.item_key(&request.key)?;
        self.admit_read(table, None, Some(&key))?;
        let found = stored(&self.store.snapshot(), table, &key)?;
        let size = found.as_ref().map_or(Ok(0), StoredItem::size)?;
        let item = found.map(|item| row(item, request.projection.as_ref())).transpose()?;
        let units = read_units(size, request.consistent);
        self.read_from(table, None, Some(&key), units);
        let consumed = capacity::count_read(table, Operation::GetItem, units, request.capacity);
        Ok(GetItemOutput { item, consumed })
    }

    pub fn batch_get_item(&self, request: BatchGetItem) -> Result<BatchGetItemOutput, Error> {
        let watch = self.watch(Operation::BatchGetItem);
        let tables = self.known_tables(request.tables.iter().map(|part| &part.table));
        watch.end_all(&tables, self.items(request))
    }

    fn items(&self, request: BatchGetItem) -> Result<BatchGetItemOutput, Error> {
        let mut meter = Meter::new(Operation::BatchGetItem, request.capacity, None);
        let mut output =
            BatchGetItemOutput { responses: Vec::new(), unprocessed: Vec::new(), consumed: Vec::new() };
        let mut tables = Vec::new();
        // Of all parts together: two may be of one table, which has a name and an ARN.
        let mut keys = Vec::new();
        for part in request.tables {
            let table = self.table(&part.table)?;
            for key in &part.keys {
                key_rules::check_key(&table, key)?;
                keys.push(table.item_key(key)?);
            }
            tables.push((table, part));
        }
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::validation("Provided list of item keys contains duplicates"));
        }

        let snapshot = self.store.snapshot();
        let mut bytes = 0;
        // Why nothing was read at all, if there was no throughput for any.
        let (mut any, mut refused) = (false, None);
        let mut throttled = Vec::new();
        for (table, part) in tables {
            let mut rows = Vec::new();
            let mut left = Vec::new();
            for key in part.keys {
                if bytes >= BATCH_BYTES_MAX {
                    left.push(key);
                    continue;
                }
                let stored_key = table.item_key(&key)?;
                if let Err(error) = self.admit_read(&table, None, Some(&stored_key)) {
                    throttled.push(table.clone());
                    refused = Some(error);
                    left.push(key);
                    continue;
                }
                any = true;
                let found = stored(&snapshot, &table, &stored_key)?;
                let size = found.as_ref().map_or(Ok(0), StoredItem::size)?;
                if bytes + size > BATCH_BYTES_MAX {
                    bytes = BATCH_BYTES_MAX;
                    left.push(key);
                    continue;
                }
                bytes += size;
                let units = read_units(size, part.consistent);
                self.read_from(&table, None, Some(&stored_key), units);
                meter.table(&table, units);
                if let Some(item) = found {
                    rows.push(row(item, part.projection.as_ref())?);
                }
            }
            output.responses.push((part.echo.table.as_ref().unwrap_or(&part.table).clone(), rows));
            if !left.is_empty() {
                output.unprocessed.push(BatchGetTable { keys: left, ..part });
            }
        }
        if let Some(refused) = refused.filter(|_| !any) {
            return Err(refused);
        }
        throttled.iter().for_each(|table| table.metrics.left_out(Operation::BatchGetItem));
        output.consumed = meter.all();
        Ok(output)
    }

    pub fn query(&self, request: &Query) -> Result<PageOutput, Error> {
        let watch = self.watch(Operation::Query);
        let catalog = watch.found(self.catalog())?;
        let table = watch.found(catalog.table(&request.table))?;
        let page = self.query_table(table, request, Operation::Query, PAGE_BYTES_MAX);
        watch.end(table, page.map(|page| page.output))
    }

    /// A page of at most about `bytes_max`. A statement's filter may name the key, a Query's may not.
    pub(crate) fn query_table(
        &self,
        table: &Table,
        request: &Query,
        operation: Operation,
        bytes_max: usize,
    ) -> Result<Page, Error> {
        let place = Place::find(table, request.index.as_ref(), request.consistent)?;
        if let Some(start) = &request.start {
            place.check_start(start, false)?;
        }
        let range = request.key_condition.resolve(place.schema())?;
        check_condition_values(place.schema(), &range)?;
        if let Some(start) = &request.start {
            place.check_start_within(start, &range)?;
        }
        if let Some(filter) = &request.filter {
            if operation == Operation::Query {
                check_filter(place.schema(), filter, request.legacy_filter)?;
            }
            key_rules::check_condition(table, Some(place.schema()), filter)?;
        }
        let (mut from, mut to) = place.key_range(&range)?;
        let partition = match &from {
            Bound::Included(key) if self.is_throttling() => Some(key.clone()),
            _ => None,
        };
        self.admit_read(table, place.index, partition.as_deref())?;
        if let Some(start) = &request.start {
            let bound = Bound::Excluded(place.entry_key(start)?);
            if request.forward { from = bound } else { to = bound }
        }
        let page = place.page(
            &self.store.snapshot(),
            &PageRequest {
                from,
                to,
                forward: request.forward,
                filter: request.filter.as_ref(),
                projection: request.projection.as_ref(),
                select: request.select,
                limit: request.limit,
                consistent: request.consistent,
                skip_damaged: request.skip_damaged,
            },
            bytes_max,
            Meter::of_read(operation, request.capacity),
        )?;
        self.read_from(table, place.index, partition.as_deref(), page.units);
        Ok(page)
    }

    pub fn scan(&self, request: &Scan) -> Result<PageOutput, Error> {
        let watch = self.watch(Operation::Scan);
        let catalog = watch.found(self.catalog())?;
        let table = watch.found(catalog.table(&request.table))?;
        let page = self.scan_table(table, request, Operation::Scan);
        watch.end(table, page.map(|page| page.output))
    }

    pub(crate) fn scan_table(
        &self,
        table: &Table,
        request: &Scan,
        operation: Operation,
    ) -> Result<Page, Error> {
        let place = Place::find(table, request.index.as_ref(), request.consistent)?;
        if let Some(filter) = &request.filter {
            key_rules::check_condition(table, Some(place.schema()), filter)?;
        }
        self.admit_read(table, place.index, None)?;
        let segment = request.segment.unwrap_or(Segment { index: 0, total: 1 });
        let (mut from, to) = place.segment(segment);
        if let Some(start) = &request.start {
            place.check_start(start, true)?;
            let key = place.entry_key(start)?;
            if key < from || key >= to {
                return Err(Error::validation(format!(
                    "The provided starting key is invalid: Invalid ExclusiveStartKey. Please use \
                     ExclusiveStartKey with correct Segment. TotalSegments: {} Segment: {}",
                    segment.total, segment.index
                )));
            }
            from = key;
        }
        let from = if request.start.is_some() { Bound::Excluded(from) } else { Bound::Included(from) };
        let page = place.page(
            &self.store.snapshot(),
            &PageRequest {
                from,
                to: Bound::Excluded(to),
                forward: true,
                filter: request.filter.as_ref(),
                projection: request.projection.as_ref(),
                select: request.select,
                limit: request.limit,
                consistent: request.consistent,
                skip_damaged: request.skip_damaged,
            },
            PAGE_BYTES_MAX,
            Meter::of_read(operation, request.capacity),
        )?;
        self.read_from(table, place.index, None, page.units);
        Ok(page)
    }
}

/// A page, and how many bytes and units were read for it.
pub(crate) struct Page {
    pub(crate) output: PageOutput,
    pub(crate) bytes: usize,
    units: f64,
}

/// The stored item with this key, which has been checked.
pub(crate) fn find(snapshot: &Snapshot, table: &Table, key: &Item) -> Result<Option<StoredItem>, Error> {
    stored(snapshot, table, &table.item_key(key)?)
}

/// The stored item at this key.
pub(crate) fn stored(snapshot: &Snapshot, table: &Table, key: &[u8]) -> Result<Option<StoredItem>, Error> {
    let read = || -> Result<_, Error> {
        let found = snapshot.get(key)?.map(StoredItem::from);
        found.as_ref().map(StoredItem::size).transpose()?;
        Ok(found)
    };
    read().map_err(|error| error.about(|| name_of_entry(table, TreeId::ITEMS, key)))
}

/// An item as the caller asked to see it.
pub(crate) fn row(item: StoredItem, projection: Option<&Projection>) -> Result<Row, ItemBytesError> {
    Ok(match projection {
        None => Row::Stored(item),
        Some(projection) => Row::Built(projection.apply(&item.decode()?)),
    })
}

/// Where a range of stored keys begins and ends.
type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// What is read: a table, or one of its indexes.
struct Place<'a> {
    table: &'a Table,
    index: Option<Index<'a>>,
}

struct PageRequest<'a> {
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    forward: bool,
    filter: Option<&'a Condition>,
    projection: Option<&'a Projection>,
    select: Option<Select>,
    limit: Option<usize>,
    consistent: bool,
    skip_damaged: bool,
}

impl PageRequest<'_> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice))
    }
}

impl<'a> Place<'a> {
    fn find(table: &'a Table, index: Option<&IndexName>, consistent: bool) -> Result<Self, Error> {
        let Some(name) = index else { return Ok(Self { table, index: None }) };
        let index = table.index(name.as_str()).ok_or_else(|| {
            Error::validation(format!("The table does not have the specified index: {name}"))
        })?;
        if consistent && index.definition.kind == IndexKind::Global {
            return Err(Error::validation("Consistent reads are not supported on global secondary indexes"));
        }
        if index.tree.building {
            return Err(Error::validation(format!(
                "Cannot read from backfilling global secondary index: {name}"
            )));
        }
        Ok(Self { table, index: Some(index) })
    }

    fn schema(&self) -> &'a KeySchema {
        self.index.map_or(&self.table.definition.key, |index| &index.definition.key)
    }

    fn tree(&self) -> TreeId {
        self.index.map_or(TreeId::ITEMS, |index| index.tree.id)
    }

    /// The attributes of a page's last key: those of the index, then the table's own.
    fn key_attributes(&self) -> impl Iterator<Item = &'a KeyAttribute> {
        let own = self.table.definition.key.attributes();
        let schema = self.schema();
        let rest = own.filter(move |attribute| !schema.contains(&attribute.name));
        schema.attributes().chain(rest)
    }

    /// The stored key of the entry that a page's last key names; its attributes have been checked.
    fn entry_key(&self, attributes: &Item) -> Result<Vec<u8>, Error> {
        let key = layout::key(self.table.id, self.tree(), self.schema(), attributes);
        let mut key = key.ok_or_else(invalid_start)?;
        if self.index.is_some() {
            key.extend_from_slice(layout::item_key_tail(&self.table.item_key(attributes)?));
        }
        Ok(key)
    }

    /// `scan`: a Scan says more of a key that is not the table's.
    fn check_start(&self, start: &Item, scan: bool) -> Result<(), Error> {
        let mismatch =
            || Error::validation(format!("{START_INVALID}: {}", key_rules::schema_mismatch().message));
        let of_table = || if scan { mismatch() } else { invalid_start() };
        if start.len() != self.key_attributes().count() {
            return Err(if self.index.is_some() { invalid_start() } else { of_table() });
        }
        for attribute in self.schema().attributes().filter(|_| self.index.is_some()) {
            let value = start.get(&attribute.name).ok_or_else(invalid_start)?;
            if !key_rules::has_type(value, attribute.kind) {
                return Err(if scan { key_rules::schema_mismatch().into() } else { invalid_start() });
            }
        }
        for attribute in self.table.definition.key.attributes() {
            let value = start.get(&attribute.name).ok_or_else(of_table)?;
            if !key_rules::has_type(value, attribute.kind) {
                return Err(of_table());
            }
        }
        for attribute in self.table.definition.key.attributes() {
            let value = start.get(&attribute.name).ok_or_else(invalid_start)?;
            key_rules::check_not_empty(&attribute.name, value)?;
        }
        Ok(())
    }

    /// A starting key that the key condition could not have given is refused, in DynamoDB's order.
    fn check_start_within(&self, start: &Item, range: &KeyRange) -> Result<(), Error> {
        const ONE_ROW: &str = "The query can return at most one row and cannot be restarted";
        let schema = self.schema();
        let differs =
            |(attribute, value): (&KeyAttribute, &AttributeValue)| start.get(&attribute.name) != Some(value);
        let mut partition: Vec<_> = schema.partition.iter().zip(&range.partition).collect();
        let last = partition.pop();
        if partition.into_iter().any(differs) {
            return Err(Error::validation(ONE_ROW));
        }
        let outside = schema.sort.iter().zip(&range.sort).any(differs)
            || range.last.as_ref().is_some_and(|test| {
                let value =
                    schema.sort.get(range.sort.len()).and_then(|attribute| start.get(&attribute.name));
                value.is_some_and(|value| !sort_test_holds(test, value))
            });
        if outside {
            return Err(Error::validation(
                "The provided starting key does not match the range key predicate",
            ));
        }
        if last.is_some_and(differs) {
            let message = if !range.sort.is_empty() || range.last.is_some() {
                ONE_ROW
            } else if self.index.is_none() && schema.sort.is_empty() {
                "The provided exclusive start key is invalid"
            } else {
                "The provided starting key is outside query boundaries based on provided conditions"
            };
            return Err(Error::validation(message));
        }
        Ok(())
    }

    /// The stored keys that a key condition holds for.
    fn key_range(&self, range: &KeyRange) -> Result<KeyBounds, Error> {
        let schema = self.schema();
        let named = |attributes: &[KeyAttribute], values: &[AttributeValue]| -> Item {
            attributes.iter().map(|attribute| attribute.name.as_str()).zip(values.iter().cloned()).collect()
        };
        let given = KeySchema {
            partition: schema.partition.clone(),
            sort: schema.sort.iter().take(range.sort.len()).cloned().collect(),
        };
        let equalities = named(&given.partition, &range.partition)
            .into_iter()
            .chain(named(&given.sort, &range.sort))
            .collect();
        let base = layout::key(self.table.id, self.tree(), &given, &equalities)
            .ok_or_else(key_rules::schema_mismatch)?;

        let with = |value: &AttributeValue| {
            let mut key = base.clone();
            key_bytes::put(&mut key, value);
            key
        };
        let after = |key: Vec<u8>| key_bytes::after_prefix(&key).expect("a data key does not begin with FF");
        let (from, to) = match &range.last {
            None => (base.clone(), after(base)),
            Some(SortTest::Equal(value)) => (with(value), after(with(value))),
            Some(SortTest::Less(value)) => (base.clone(), with(value)),
            Some(SortTest::LessOrEqual(value)) => (base.clone(), after(with(value))),
            Some(SortTest::Greater(value)) => (after(with(value)), after(base)),
            Some(SortTest::GreaterOrEqual(value)) => (with(value), after(base)),
            Some(SortTest::Between(low, high)) => (with(low), after(with(high))),
            Some(SortTest::BeginsWith(prefix)) => {
                let mut key = base;
                key_bytes::put_prefix(&mut key, prefix);
                (key.clone(), after(key))
            }
        };
        Ok((Bound::Included(from), Bound::Excluded(to)))
    }

    /// The stored keys of one part of a parallel scan.
    fn segment(&self, segment: Segment) -> (Vec<u8>, Vec<u8>) {
        let start = |index: u32| {
            let place = (u64::from(index) * u64::from(PARTITIONS)).div_ceil(u64::from(segment.total.max(1)));
            let place = u32::try_from(place).unwrap_or(PARTITIONS).min(PARTITIONS);
            layout::partition_start(self.table.id, self.tree(), place)
        };
        (start(segment.index), start(segment.index.saturating_add(1)))
    }

    /// Whether the attributes asked for can only be had from the table, beyond what a local index holds.
    fn fetches(&self, request: &PageRequest<'_>) -> Result<bool, Error> {
        let Some(index) = self.index else { return Ok(false) };
        let missing: Vec<&str> = request
            .projection
            .into_iter()
            .flat_map(|projection| &projection.paths)
            .map(|path| &*path.root)
            .filter(|name| !index::projects(self.table, index, name))
            .collect();
        let all = request.select == Some(Select::AllAttributes)
            && !matches!(index.definition.projection, larder_model::Projection::All);
        match index.definition.kind {
            IndexKind::Local => Ok(all || !missing.is_empty()),
            IndexKind::Global if all => Err(Error::validation(format!(
                "One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for \
                 global secondary index {} because its projection type is not ALL",
                index.definition.name
            ))),
            IndexKind::Global if !missing.is_empty() => Err(Error::validation(format!(
                "One or more parameter values were invalid: Global secondary index {} does not project [{}]",
                index.definition.name,
                missing.join(", ")
            ))),
            IndexKind::Global => Ok(false),
        }
    }

    fn page(
        &self,
        snapshot: &Snapshot,
        request: &PageRequest<'_>,
        bytes_max: usize,
        mut meter: Meter,
    ) -> Result<Page, Error> {
        let fetches = self.fetches(request)?;
        let counting = request.select == Some(Select::Count);
        let mut page = PageOutput {
            items: (!counting).then(Vec::new),
            count: 0,
            scanned: 0,
            last_key: None,
            skipped: Vec::new(),
            consumed: None,
        };
        let mut bytes = 0;
        // Of items behind entries: a page is bounded by all that it reads.
        let mut fetched_bytes = 0;
        let mut fetched_units = 0.0;
        let mut entries = Entries::of(snapshot, request)?;
        while let Some(entry) =
            entries.next().transpose().map_err(|error| self.named(snapshot, request, error))?
        {
            let (key, stored) = match entry {
                Piece::Entry(key, value) => (key, StoredItem::from(value)),
                Piece::Lost(lost) => {
                    page.skipped.push(self.name_of_lost(&lost));
                    continue;
                }
            };
            let name = || name_of_entry(self.table, self.tree(), &key);
            if request.skip_damaged && stored.decode().is_err() {
                page.skipped.push(name());
                continue;
            }
            page.scanned += 1;
            bytes += stored.size().map_err(|error| Error::from(error).about(name))?;
            let whole = fetches.then(|| self.fetch(snapshot, &stored)).transpose();
            if let Ok(Some(whole)) = &whole {
                let size = whole.size()?;
                fetched_bytes += size;
                fetched_units += read_units(size, request.consistent);
            }
            let full = request.limit.is_some_and(|limit| page.scanned >= limit)
                || bytes + fetched_bytes >= bytes_max;
            if full {
                page.last_key = Some(self.last_key(&stored)?);
            }
            let item = match whole {
                Ok(whole) => whole.unwrap_or(stored),
                Err(error) if request.skip_damaged && error.is_damage() => {
                    page.skipped.push(name());
                    if full {
                        break;
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(row) = selected(item, request).map_err(|error| error.about(name))? {
                page.count += 1;
                if let Some(items) = &mut page.items {
                    items.push(row);
                }
            }
            if full {
                break;
            }
        }

        let units = read_units(bytes, request.consistent);
        match self.index {
            None => meter.table(self.table, units),
            Some(index) => {
                meter.table(self.table, fetched_units);
                meter.index(self.table, index.definition, units);
            }
        }
        meter.returned(self.table, page.count);
        page.consumed = meter.one();
        Ok(Page { output: page, bytes: bytes + fetched_bytes, units: units + fetched_units })
    }

    /// The error of a range, with the name of what it met.
    fn named(&self, snapshot: &Snapshot, request: &PageRequest<'_>, error: Error) -> Error {
        error.about(|| {
            let (from, to) = request.bounds();
            let mut pieces = snapshot.pieces(from, to, request.forward).flatten();
            let lost = pieces.find_map(|piece| match piece {
                Piece::Lost(lost) => Some(self.name_of_lost(&lost)),
                Piece::Entry(..) => None,
            });
            lost.unwrap_or_else(|| format!("table {}", self.table.name()))
        })
    }

    fn name_of_lost(&self, lost: &Lost) -> String {
        match lost {
            Lost::Value { key, .. } => name_of_entry(self.table, self.tree(), key),
            Lost::Keys { from, before } => name_of_range(self.table, self.tree(), from, before.as_deref()),
        }
    }

    fn last_key(&self, stored: &StoredItem) -> Result<Item, ItemBytesError> {
        let map = stored.map()?;
        let mut key = Item::new();
        for attribute in self.key_attributes() {
            if let Some(value) = map.find(&attribute.name)? {
                key.insert(attribute.name.as_str(), value.to_value()?);
            }
        }
        Ok(key)
    }

    /// The whole item behind an entry of a local index.
    fn fetch(&self, snapshot: &Snapshot, entry: &StoredItem) -> Result<StoredItem, Error> {
        find(snapshot, self.table, &entry.decode()?)?.ok_or(Error::Damaged("an index entry has no item"))
    }
}

/// The entries of a page's range; or those that can be read, and what cannot.
enum Entries {
    All { range: Range, forward: bool },
    Readable(Pieces),
}

impl Entries {
    fn of(snapshot: &Snapshot, request: &PageRequest<'_>) -> Result<Self, Error> {
        let (from, to) = request.bounds();
        Ok(if request.skip_damaged {
            Self::Readable(snapshot.pieces(from, to, request.forward))
        } else {
            Self::All { range: snapshot.range(from, to)?, forward: request.forward }
        })
    }

    fn next(&mut self) -> Option<Result<Piece, Error>> {
        match self {
            Self::All { range, forward } => {
                let entry = if *forward { range.next() } else { range.next_back() }?;
                Some(entry.map(|(key, value)| Piece::Entry(key, value)).map_err(Error::from))
            }
            Self::Readable(pieces) => pieces.next().map(|piece| piece.map_err(Error::from)),
        }
    }
}

/// The item as asked for, if the filter lets it through.
fn selected(item: StoredItem, request: &PageRequest<'_>) -> Result<Option<Row>, Error> {
    if request.filter.is_none() && request.projection.is_none() {
        return Ok(Some(Row::Stored(item)));
    }
    let decoded = item.decode()?;
    if let Some(filter) = request.filter
        && !filter.holds(Some(&decoded))?
    {
        return Ok(None);
    }
    Ok(Some(match request.projection {
        Some(projection) => Row::Built(projection.apply(&decoded)),
        None => Row::Stored(item),
    }))
}

const START_INVALID: &str = "The provided starting key is invalid";

fn invalid_start() -> Error {
    Error::validation(START_INVALID)
}

fn check_condition_values(schema: &KeySchema, range: &KeyRange) -> Result<(), Error> {
    let partition = schema.partition.iter().zip(&range.partition);
    let sort = schema.sort.iter().zip(&range.sort);
    let last_attribute = schema.sort.get(range.sort.len());
    let last = range.last.iter().flat_map(SortTest::values);
    let last = last.filter_map(|value| Some((last_attribute?, value)));
    for (attribute, value) in partition.chain(sort).chain(last) {
        if !key_rules::has_type(value, attribute.kind) {
            return Err(Error::validation(
                "One or more parameter values were invalid: Condition parameter type does not match schema type",
            ));
        }
        key_rules::check_not_empty(&attribute.name, value)?;
    }
    Ok(())
}

/// Whether a key value of the right type passes a test.
fn sort_test_holds(test: &SortTest, value: &AttributeValue) -> bool {
    let bytes = |value: &AttributeValue| {
        let mut out = Vec::new();
        key_bytes::put(&mut out, value);
        out
    };
    let key = bytes(value);
    match test {
        SortTest::Equal(other) => key == bytes(other),
        SortTest::Less(other) => key < bytes(other),
        SortTest::LessOrEqual(other) => key <= bytes(other),
        SortTest::Greater(other) => key > bytes(other),
        SortTest::GreaterOrEqual(other) => key >= bytes(other),
        SortTest::Between(low, high) => key >= bytes(low) && key <= bytes(high),
        SortTest::BeginsWith(prefix) => {
            let mut start = Vec::new();
            key_bytes::put_prefix(&mut start, prefix);
            key.starts_with(&start)
        }
    }
}

/// A query's filter may not name the key: that is what the key condition is for.
fn check_filter(schema: &KeySchema, filter: &Condition, legacy: bool) -> Result<(), Error> {
    let parameter = if legacy { "QueryFilter" } else { "Filter Expression" };
    match filter.paths().find(|path| schema.contains(&path.root)) {
        Some(path) => Err(Error::validation(format!(
            "{parameter} can only contain non-primary key attributes: Primary key attribute: {}",
            path.root
        ))),
        None => Ok(()),
    }
}
