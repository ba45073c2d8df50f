//! Everything that can still be read of a damaged file, brought into another store.
//!
//! redb cannot be asked for it: one page of its own bookkeeping that is damaged keeps it from opening, and a damaged page
//! above others hides them. So its pages are read here, in its format 3: from the root down, and, where a page in
//! between is damaged, by looking for the leaves below it among all pages that are in use. An entry counts if its page
//! matches its tag and its value its checksum.
//!
//! Then the log is replayed, as far as its records are whole.

use crate::absorb::EPOCH_KEY;
use crate::checked::{Checked, PAGE_BYTES};
use crate::file::{self, FILE_NAME, Use};
use crate::medium::Base;
use crate::store::file;
use crate::{Batch, Error, Lost, Options, Store, checksum};
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What was brought out, and what was not.
#[derive(Debug, Default)]
pub struct Salvaged {
    /// Entries of the tree that were brought out.
    pub entries: u64,
    /// Keys of which nobody knows whether they were there.
    pub lost: Vec<Lost>,
    /// Records of the log that were replayed.
    pub records: u64,
    /// Records that cannot be read, or of which nothing tells whether the tree has them: what they wrote may be as it was before them.
    pub lost_records: u64,
    /// Pages that the tree needs for itself and that cannot be read: they hold no entries.
    pub unreadable_pages: u64,
}

/// Brings what the store in `dir` holds into a store that is empty. `dir` is left as it is.
pub fn salvage(dir: &Path, options: Options, to: &Store) -> Result<Salvaged, Error> {
    let path = dir.join(FILE_NAME);
    if !path.try_exists()? {
        return Err(Error::Missing { path: dir.to_owned() });
    }
    salvage_disk(file(&path, Use::Read)?, options, to).map_err(|error| error.at(&path))
}

/// The same of any disk.
pub fn salvage_disk(disk: impl crate::Disk, options: Options, to: &Store) -> Result<Salvaged, Error> {
    let parts =
        file::parts(&(Arc::new(disk) as Arc<dyn crate::Disk>), options.log_bytes, options.key, Use::Read)?;
    let (Base::Checked(tree), Some(mut log)) = (parts.tree, parts.log) else {
        return Err(Error::Gone { cause: "it has no tree".to_owned() });
    };
    let mut out = Out { to, batch: Batch::default(), salvaged: Salvaged::default() };
    let pages = Pages::new(&tree)?;
    let mut walk = Walk { pages: &pages, damaged: 0, lost: Vec::new() };
    let tables = walk.table(pages.user_root, Widths::VARIABLE)?;
    // Without its list of tables every leaf of the tree is looked for.
    let data = tables.iter().find(|(name, _)| name == b"data").map(|(_, table)| table_root(table));
    match data {
        Some(Some(root)) => {
            let whole = Keys { after: None, upto: None };
            walk.descend(root, Widths::VARIABLE, whole, &mut |key, value| out.entry(key, value))?;
        }
        Some(None) => {}
        None => walk.lost.push(Keys { after: None, upto: None }),
    }
    let Walk { damaged: met, lost, .. } = walk;
    out.below_damage(&pages, met, lost)?;

    let format = tables.iter().find(|(name, _)| name == b"format").and_then(|(_, table)| table_root(table));
    let mut numbers = Vec::new();
    if let Some(root) = format {
        let mut walk = Walk { pages: &pages, damaged: 0, lost: Vec::new() };
        let whole = Keys { after: None, upto: None };
        walk.descend(root, Widths { key: None, value: Some(8) }, whole, &mut |key, value| {
            numbers.push((key.to_vec(), value.as_array().map(|value| u64::from_le_bytes(*value))));
            Ok(())
        })?;
    }
    let number =
        |name: &str| numbers.iter().find(|(key, _)| key == name.as_bytes()).and_then(|(_, value)| *value);
    let to = &mut out;
    let (records, lost) = log.replay_whole(number(EPOCH_KEY), |key, value| {
        let Some(value) = value else {
            to.batch.delete(key.to_vec());
            return to.flush(COPIED_BYTES);
        };
        to.entry(key, value)
    })?;
    (out.salvaged.records, out.salvaged.lost_records) = (records, lost);
    out.flush(0)?;
    out.salvaged.unreadable_pages = unreadable_pages(&tree)?;
    Ok(out.salvaged)
}

/// Pages that redb needs for itself and that cannot be read: those of its tables, and of its notes of what is free.
pub(crate) fn unreadable_pages(tree: &Checked) -> Result<u64, Error> {
    let pages = Pages::new(tree)?;
    let mut walk = Walk { pages: &pages, damaged: 0, lost: Vec::new() };
    let mut below = Vec::new();
    for root in [pages.user_root, pages.system_root] {
        for (name, record) in walk.table(root, Widths::VARIABLE)? {
            // Whoever reads the entries finds what is damaged there.
            if name != b"data" {
                below.extend(table_root(&record).map(|root| (root, 0)));
            }
        }
    }
    let mut unreadable = walk.damaged;
    while let Some((number, depth)) = below.pop() {
        let page = pages.read(number)?.filter(|_| depth < DEPTH_MAX);
        let any = Widths { key: Some(0), value: None };
        match page.as_deref() {
            Some([LEAF, ..]) => {}
            Some(page @ [BRANCH, ..]) if let Some((children, _)) = children(page, any) => {
                below.extend(children.into_iter().map(|child| (child, depth + 1)));
            }
            Some(_) | None => unreadable += 1,
        }
    }
    Ok(unreadable)
}

/// What is written at once.
const COPIED_BYTES: usize = 4 << 20;

struct Out<'a> {
    to: &'a Store,
    batch: Batch,
    salvaged: Salvaged,
}

impl Out<'_> {
    /// An entry as it is stored. One whose value does not match its checksum is lost alone.
    fn entry(&mut self, key: &[u8], stored: &[u8]) -> Result<(), Error> {
        match checksum::verify(key, stored) {
            Ok(length) => {
                self.batch.put(key.to_vec(), stored[..length].to_vec());
                self.salvaged.entries += 1;
                self.flush(COPIED_BYTES)
            }
            Err(Error::Corrupt { key, cause }) => {
                self.salvaged.lost.push(Lost::Value { key, cause });
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    fn flush(&mut self, over: usize) -> Result<(), Error> {
        if self.batch.bytes() > over { self.to.write(std::mem::take(&mut self.batch)) } else { Ok(()) }
    }

    /// What lies below pages that are damaged: leaves that are in use and that nobody points to any more.
    fn below_damage(&mut self, pages: &Pages<'_>, met: u64, ranges: Vec<Keys>) -> Result<(), Error> {
        if ranges.is_empty() {
            return Ok(());
        }
        let Some(used) = Used::read(pages)? else {
            self.salvaged.lost.extend(ranges.into_iter().map(Keys::lost));
            return Ok(());
        };
        let mut found = vec![false; ranges.len()];
        let mut unread = 0;
        let mut at = 0;
        while at < used.pages.len() {
            let number = PageNumber { region: used.pages[at].0, index: used.pages[at].1, order: 0 };
            at += 1;
            let Some((leaf, order)) = pages.leaf(number)? else {
                unread += u64::from(pages.read(number)?.is_none());
                continue;
            };
            // Its other pages follow.
            let end = number.index + (1 << order);
            while used.pages.get(at).is_some_and(|(region, index)| *region == number.region && *index < end) {
                at += 1;
            }
            let Some(entries) = entries(&leaf, Widths::VARIABLE) else { continue };
            for entry in entries {
                let (key, value) = (&leaf[entry.0], &leaf[entry.1]);
                let range = ranges.iter().position(|range| range.contains(key));
                if let Some(range) = range.filter(|_| checksum::verify(key, value).is_ok()) {
                    found[range] = true;
                    self.entry(key, value)?;
                }
            }
        }
        for (range, found) in ranges.into_iter().zip(found) {
            // All that is damaged was met on the way down, so what was found below it is all there was.
            if !(found && unread <= met) {
                self.salvaged.lost.push(range.lost());
            }
        }
        Ok(())
    }
}

/// Keys after one and up to another.
#[derive(Clone, Debug)]
struct Keys {
    after: Option<Vec<u8>>,
    upto: Option<Vec<u8>>,
}

impl Keys {
    fn contains(&self, key: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| key > after)
            && self.upto.as_deref().is_none_or(|upto| key <= upto)
    }

    fn lost(self) -> Lost {
        // The first key after one is that key and a zero.
        let next = |key: Vec<u8>| [key, vec![0]].concat();
        Lost::Keys { from: self.after.map(next).unwrap_or_default(), before: self.upto.map(next) }
    }
}

/// How many bytes keys and values of a table have, if that is the same for all.
#[derive(Clone, Copy)]
struct Widths {
    key: Option<usize>,
    value: Option<usize>,
}

impl Widths {
    const VARIABLE: Self = Self { key: None, value: None };
}

const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// Deeper than any tree.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PageNumber {
    region: u32,
    index: u32,
    order: u8,
}

impl PageNumber {
    fn read(bytes: [u8; 8]) -> Self {
        let number = u64::from_le_bytes(bytes);
        let order = (number >> 59) as u8;
        Self {
            region: ((number >> 20) & 0xf_ffff) as u32,
            index: (number & (0xf_ffff >> order)) as u32,
            order,
        }
    }
}

/// redb's pages, as its header says where they are.
struct Pages<'a> {
    tree: &'a Checked,
    region_bytes: u64,
    region_header_bytes: u64,
    user_root: Option<PageNumber>,
    system_root: Option<PageNumber>,
}

/// Larger than any page can be that a store has written: an entry is at most some 400 KB.
const ORDER_MAX: u8 = 10;

impl<'a> Pages<'a> {
    fn new(tree: &'a Checked) -> Result<Self, Error> {
        let mut header = [0; 320];
        tree.read(0, &mut header)?;
        let word = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let page = u64::from(word(12));
        if page != PAGE_BYTES as u64 {
            return Err(Error::Gone { cause: format!("its tree has pages of {page} bytes") });
        }
        let slot = &header[64 + 128 * usize::from(header[9] & 1)..];
        let root = |is_there: u8, at: usize| {
            let number = slot[at..].first_chunk().filter(|_| is_there != 0);
            number.map(|bytes| PageNumber::read(*bytes))
        };
        let (header_pages, data_pages) = (u64::from(word(16)), u64::from(word(20)));
        Ok(Self {
            tree,
            region_bytes: (header_pages + data_pages) * page,
            region_header_bytes: header_pages * page,
            user_root: root(slot[1], 8),
            system_root: root(slot[2], 40),
        })
    }

    /// Absent if it is damaged, or if there can be none.
    fn read(&self, number: PageNumber) -> Result<Option<Vec<u8>>, Error> {
        if number.order > ORDER_MAX {
            return Ok(None);
        }
        let bytes = (PAGE_BYTES as u64) << number.order;
        let offset = PAGE_BYTES as u64
            + u64::from(number.region) * self.region_bytes
            + self.region_header_bytes
            + u64::from(number.index) * bytes;
        if offset + bytes > self.tree.len() {
            return Ok(None);
        }
        let mut page = vec![0; bytes as usize];
        Ok(self.tree.read_whole(offset, &mut page)?.then_some(page))
    }

    /// The leaf that begins at a page, however large it is, and its order.
    fn leaf(&self, first: PageNumber) -> Result<Option<(Vec<u8>, u8)>, Error> {
        let Some(page) = self.read(first)?.filter(|page| page[0] == LEAF) else { return Ok(None) };
        let Some(length) = leaf_bytes(&page) else { return Ok(None) };
        let order = length.div_ceil(PAGE_BYTES).next_power_of_two().trailing_zeros() as u8;
        if order == 0 {
            return Ok(Some((page, 0)));
        }
        if !first.index.is_multiple_of(1 << order) {
            return Ok(None);
        }
        let number = PageNumber { index: first.index >> order, order, ..first };
        Ok(self.read(number)?.map(|page| (page, order)))
    }
}

/// How long a leaf with keys and values of any length is.
fn leaf_bytes(page: &[u8]) -> Option<usize> {
    let count = usize::from(u16::from_le_bytes(*page.get(2..)?.first_chunk()?));
    // The end of the last value is the end of all; before it are the ends of the others, and of the keys.
    if count == 0 { None } else { word(page, 8 * count).map(|end| end as usize) }
}

fn word(page: &[u8], at: usize) -> Option<u32> {
    page.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

type Entry = (Range<usize>, Range<usize>);

/// Where the keys and values of a leaf are. Absent if it makes no sense.
fn entries(page: &[u8], widths: Widths) -> Option<Vec<Entry>> {
    let count = usize::from(u16::from_le_bytes(*page.get(2..)?.first_chunk()?));
    let key_ends = 4;
    let value_ends = key_ends + if widths.key.is_none() { 4 * count } else { 0 };
    let keys = value_ends + if widths.value.is_none() { 4 * count } else { 0 };
    let key_end = |n: usize| match widths.key {
        Some(width) => Some(keys + width * (n + 1)),
        None => word(page, key_ends + 4 * n).map(|end| end as usize),
    };
    let values = if count == 0 { keys } else { key_end(count - 1)? };
    let value_end = |n: usize| match widths.value {
        Some(width) => Some(values + width * (n + 1)),
        None => word(page, value_ends + 4 * n).map(|end| end as usize),
    };
    let mut entries = Vec::with_capacity(count);
    let (mut key, mut value) = (keys, values);
    for n in 0..count {
        let entry = (key..key_end(n)?, value..value_end(n)?);
        (key, value) = (entry.0.end, entry.1.end);
        page.get(entry.0.clone())?;
        page.get(entry.1.clone())?;
        entries.push(entry);
    }
    Some(entries)
}

/// The children of a branch, and the keys between them: a child has keys up to the one behind it.
fn children(page: &[u8], widths: Widths) -> Option<(Vec<PageNumber>, Vec<&[u8]>)> {
    let count = usize::from(u16::from_le_bytes(*page.get(2..)?.first_chunk()?));
    let numbers = 8 + 16 * (count + 1);
    let key_ends = numbers + 8 * (count + 1);
    let keys = key_ends + if widths.key.is_none() { 4 * count } else { 0 };
    let pages =
        (0..=count).map(|n| page.get(numbers + 8 * n..)?.first_chunk().map(|bytes| PageNumber::read(*bytes)));
    let mut start = keys;
    let separators = (0..count).map(|n| {
        let end = match widths.key {
            Some(width) => start + width,
            None => word(page, key_ends + 4 * n)? as usize,
        };
        let key = page.get(start..end);
        start = end;
        key
    });
    let separators = separators.collect::<Option<_>>()?;
    Some((pages.collect::<Option<_>>()?, separators))
}

/// Keys and values of a small table.
type Rows = Vec<(Vec<u8>, Vec<u8>)>;
/// Takes an entry of the tree.
type Found<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), Error> + 'a;

struct Walk<'a> {
    pages: &'a Pages<'a>,
    /// Pages that were needed and are damaged.
    damaged: u64,
    lost: Vec<Keys>,
}

impl Walk<'_> {
    /// All entries of a small table.
    fn table(&mut self, root: Option<PageNumber>, widths: Widths) -> Result<Rows, Error> {
        let mut found = Vec::new();
        if let Some(root) = root {
            // What is lost of it is told by whoever misses it.
            let mut walk = Walk { pages: self.pages, damaged: 0, lost: Vec::new() };
            walk.descend(root, widths, Keys { after: None, upto: None }, &mut |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                Ok(())
            })?;
            self.damaged += walk.damaged;
        }
        Ok(found)
    }

    fn descend(
        &mut self,
        root: PageNumber,
        widths: Widths,
        keys: Keys,
        found: &mut Found<'_>,
    ) -> Result<(), Error> {
        let mut below = vec![(root, keys, 0)];
        while let Some((number, keys, depth)) = below.pop() {
            let page = self.pages.read(number)?;
            let page = page.as_deref().filter(|_| depth < DEPTH_MAX);
            match page.and_then(|page| Some((page, *page.first()?))) {
                Some((page, LEAF)) if let Some(entries) = entries(page, widths) => {
                    for (key, value) in entries {
                        found(&page[key], &page[value])?;
                    }
                }
                Some((page, BRANCH)) if let Some((children, separators)) = children(page, widths) => {
                    let bound = |n: usize| separators.get(n).map(|key| key.to_vec());
                    // From the back, so that the first is taken next.
                    for (n, child) in children.into_iter().enumerate().rev() {
                        let after = n.checked_sub(1).and_then(bound).or_else(|| keys.after.clone());
                        let upto = bound(n).or_else(|| keys.upto.clone());
                        below.push((child, Keys { after, upto }, depth + 1));
                    }
                }
                Some(_) | None => {
                    self.damaged += 1;
                    self.lost.push(keys);
                }
            }
        }
        Ok(())
    }
}

/// The root in the record of a table; absent if the table is empty.
fn table_root(record: &[u8]) -> Option<PageNumber> {
    let [is_there, rest @ ..] = record.get(9..)? else { return None };
    rest.first_chunk().filter(|_| *is_there != 0).map(|bytes| PageNumber::read(*bytes))
}

/// The pages that are in use: region and index, in order.
struct Used {
    pages: Vec<(u32, u32)>,
}

impl Used {
    /// Absent if redb's own notes of it are damaged.
    fn read(pages: &Pages<'_>) -> Result<Option<Self>, Error> {
        let mut walk = Walk { pages, damaged: 0, lost: Vec::new() };
        let tables = walk.table(pages.system_root, Widths::VARIABLE)?;
        let root = |name: &str| {
            let table = tables.iter().find(|(key, _)| key == name.as_bytes());
            table.and_then(|(_, record)| table_root(record))
        };
        let mut unreachable = HashSet::new();
        for name in ["data_pages_unreachable", "system_pages_unreachable"] {
            let widths = Widths { key: Some(16), value: None };
            for (_, list) in walk.table(root(name), widths)? {
                let (numbers, _) = list.get(2..).unwrap_or_default().as_chunks::<8>();
                unreachable.extend(numbers.iter().map(|bytes| PageNumber::read(*bytes)));
            }
        }
        let mut used = Vec::new();
        let regions = walk.table(root("allocator_state"), Widths { key: Some(5), value: None })?;
        if walk.damaged > 0 || regions.is_empty() {
            return Ok(None);
        }
        for (key, state) in regions {
            let [3, number @ ..] = &key[..] else { continue };
            let Some(region) = number.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else { continue };
            let Some(free) = free_pages(&state) else { return Ok(None) };
            let in_use = (0u32..).zip(free).filter(|(_, is_free)| !is_free).map(|(index, _)| (region, index));
            used.extend(in_use.filter(|(region, index)| {
                !(0..=ORDER_MAX).any(|order| {
                    unreachable.contains(&PageNumber { region: *region, index: index >> order, order })
                })
            }));
        }
        used.sort_unstable();
        Ok(Some(Self { pages: used }))
    }
}

/// Which of a region's pages are free, by redb's bitmaps: one for each size of a block, a bit that is unset for a free one.
fn free_pages(state: &[u8]) -> Option<Vec<bool>> {
    let orders = usize::from(*state.first()?) + 1;
    let mut free = vec![false; word(state, 4)? as usize];
    let mut start = 8 + 4 * orders;
    for order in 0..orders {
        let end = word(state, 8 + 4 * order)? as usize;
        let bitmap = state.get(start..end)?;
        start = end;
        // Of a bitmap's levels the last has a bit for each block.
        let levels = word(bitmap, 0)? as usize;
        let from = match levels.checked_sub(2) {
            Some(before) => word(bitmap, 4 + 4 * before)? as usize,
            None => 4 + 4 * levels,
        };
        let level = bitmap.get(from..word(bitmap, 4 + 4 * (levels.checked_sub(1)?))? as usize)?;
        let count = word(level, 0)? as usize;
        let (words, _) = level.get(4..)?.as_chunks::<8>();
        for block in 0..count {
            let bits = u64::from_le_bytes(*words.get(block / 64)?);
            if bits >> (block % 64) & 1 == 0 {
                for page in free.iter_mut().skip(block << order).take(1 << order) {
                    *page = true;
                }
            }
        }
    }
    Some(free)
}
