//! The tree's disk, page by page checked against what was written.
//!
//! redb believes what it reads. So below it every page of 4 KiB has a tag: a hash of its number and its
//! bytes. Tags are kept in nodes of their own, whose tags are kept in nodes above, and those in a root. A page that
//! was flipped, moved, copied, zeroed, put back to what it was earlier, or cut off does not match its tag.
//!
//! ```text
//! root      ── tag and place of every upper node; the length of the tree; redb's header, which has no page
//! upper     ── tag and place of 256 nodes
//! node      ── tags of 512 pages
//! page
//! ```
//!
//! A node has two slots and is written to the one that does not count yet, twice, side by side: damage to one page
//! of it costs nothing. The root has two slots too, each kept in two places far apart. So a sync is atomic: either the root that it wrote is whole, with all that is below it, or the
//! root before it counts, with nodes that were left alone. redb overwrites no page that its last commit
//! uses, so the pages under the older root are still there.
//!
//! What does not match is not an error of the disk, after which redb would refuse everything, but a page that is
//! nothing but ones, which redb cannot take for a page of its own: whoever reads it fails, and nobody else does. (Zeros
//! would not do: where redb expects a leaf they are an empty one, and a delete beside it would drop what it held.) An
//! error of the disk that goes on for one page while others can be read counts as such damage too.
//!
//! Promises:
//! - Bytes handed out are the bytes last written to that place, or ones, and then the damage is counted.
//! - After a power loss, the disk is as it was after the last sync that was answered, or a later one.
//! - After [`Checked::roll_back`] it is as it was after the last sync that was answered, also for whoever opens it next.

use crate::{Disk, Error};
use highway::{HighwayHash, HighwayHasher};
use parking_lot::{Mutex, RwLock};
use rapidhash::v3::rapidhash_v3;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

pub(crate) const PAGE_BYTES: usize = 4096;
const PAGE: u64 = PAGE_BYTES as u64;
/// Pages whose tags are in one node.
const NODE_TAGS: usize = PAGE_BYTES / 8;
/// Nodes that one upper node knows.
const UPPER_ENTRIES: usize = PAGE_BYTES / Entry::BYTES;
/// What is kept of redb's first page, which holds its header and nothing else.
const HEAD_BYTES: usize = 512;
/// A node is written twice.
const NODE_BYTES: usize = 2 * PAGE_BYTES;
/// Pages that the slots of a node take.
const NODE_PAGES: u64 = 4;
/// What a page that is damaged is made of: to redb it has more entries than fit, which end where nothing is.
const DAMAGED: u8 = 0xff;
/// The tag of a page whose tag was lost: nothing matches it.
const LOST: u64 = u64::MAX;
const SECTOR_BYTES: usize = 512;
/// What is written between two syncs of the disk. Others wait for syncs of the same disk, and one takes as long as there is to write.
const UNSYNCED_BYTES_MAX: usize = 2 << 20;
/// Room for one root.
const ROOT_BYTES: usize = 64 << 10;
/// Room for the roots in one of their two places.
pub(crate) const ROOTS_BYTES: u64 = 2 * ROOT_BYTES as u64;
/// How redb's header begins.
const REDB_MARK_BYTES: usize = 9;
const ROOT_MARK: [u8; 8] = *b"larder\r\x01";
const ROOT_FIXED_BYTES: usize = 8 * 5 + HEAD_BYTES;
/// Upper nodes that fit into a root: about two terabytes.
const UPPERS_MAX: usize = (ROOT_BYTES - ROOT_FIXED_BYTES - 8) / Entry::BYTES;

/// What a tag is of, so that none can pass for one of another kind.
#[derive(Clone, Copy)]
enum Kind {
    Page = 1,
    Node = 2,
    Upper = 3,
    Root = 4,
}

/// The key of all tags, and the one way to make one.
#[derive(Clone, Copy)]
pub(crate) enum TagKey {
    /// Of a store that is not encrypted: against chance alone, because whoever can write the file can make any tag.
    Rapid([u64; 4]),
    /// Of an encrypted store: nobody without the key makes a tag. And of one without a key that has format 3.
    Highway([u64; 4]),
}

impl TagKey {
    /// Of bytes in a place. Never zero, which stands for what was never written, and never [`LOST`].
    fn tag(self, kind: Kind, number: u64, bytes: &[u8]) -> u64 {
        self.sum([kind as u64, number], bytes)
    }

    /// The same for what others keep: `about` tells two uses and two places apart.
    pub(crate) fn sum(self, about: [u64; 2], bytes: &[u8]) -> u64 {
        let sum = match self {
            Self::Rapid([a, b, c, d]) => {
                let words = [rapidhash_v3(bytes), about[0], about[1], a, b, c, d];
                rapidhash_v3(words.map(u64::to_le_bytes).as_flattened())
            }
            Self::Highway(key) => {
                let mut hasher = HighwayHasher::new(highway::Key(key));
                hasher.append(bytes);
                hasher.append(about.map(u64::to_le_bytes).as_flattened());
                hasher.finalize64()
            }
        };
        sum.clamp(1, LOST - 1)
    }
}

/// Where a node is, and what it must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// Zero if the node was never written: it knows no page.
    tag: u64,
    /// The sync that wrote it.
    version: u64,
    /// Which of its two slots.
    second: bool,
}

impl Entry {
    const BYTES: usize = 16;
    const LOST: Self = Self { tag: LOST, version: 0, second: false };

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tag.to_le_bytes());
        out.extend_from_slice(&(self.version << 1 | u64::from(self.second)).to_le_bytes());
    }

    fn read(bytes: &[[u8; 8]; 2]) -> Self {
        let [tag, place] = bytes.map(u64::from_le_bytes);
        Self { tag, version: place >> 1, second: place & 1 == 1 }
    }

    fn read_all(bytes: &[u8]) -> Vec<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let (pairs, _) = words.as_chunks::<2>();
        pairs.iter().map(Self::read).collect()
    }
}

#[derive(Clone, Debug)]
struct Root {
    version: u64,
    /// Which of the two slots it is in.
    second: bool,
    /// The length of the tree.
    len: u64,
    /// How redb's first page begins.
    head: [u8; HEAD_BYTES],
    uppers: Vec<Entry>,
}

impl Root {
    fn blank() -> Self {
        Self { version: 0, second: true, len: 0, head: [0; HEAD_BYTES], uppers: Vec::new() }
    }

    fn write(&self, key: TagKey) -> Vec<u8> {
        let words = [self.version, u64::from(self.second), self.len, self.uppers.len() as u64];
        let mut bytes = [&ROOT_MARK[..], &words.map(u64::to_le_bytes).concat(), &self.head].concat();
        self.uppers.iter().for_each(|entry| entry.write(&mut bytes));
        let tag = key.tag(Kind::Root, 0, &bytes);
        bytes.extend_from_slice(&tag.to_le_bytes());
        // Whole sectors: what surrounds them need not be read to be encrypted.
        bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES), 0);
        bytes
    }

    /// Absent if it is not what was written there.
    fn read(slot: &[u8], second: bool, key: TagKey) -> Option<Self> {
        let (mark, rest) = slot.split_first_chunk::<8>()?;
        let (words, rest) = rest.split_first_chunk::<32>()?;
        let (words, _) = words.as_chunks::<8>();
        let [version, slot_number, len, count] = [0, 1, 2, 3].map(|n| u64::from_le_bytes(words[n]));
        if *mark != ROOT_MARK || slot_number != u64::from(second) || count > UPPERS_MAX as u64 {
            return None;
        }
        let (head, rest) = rest.split_first_chunk::<HEAD_BYTES>()?;
        let entries = count as usize * Entry::BYTES;
        let tag = rest.get(entries..)?.first_chunk().map(|tag| u64::from_le_bytes(*tag))?;
        let whole = key.tag(Kind::Root, 0, slot.get(..ROOT_FIXED_BYTES + entries)?) == tag;
        whole.then(|| Self { version, second, len, head: *head, uppers: Entry::read_all(&rest[..entries]) })
    }
}

/// Bytes, and where they go.
type Write = (u64, Vec<u8>);

/// Tags of pages, or entries of nodes, that were read or made.
#[derive(Debug)]
struct Known<T> {
    content: Box<[T]>,
    /// Changed since the last sync began.
    dirty: bool,
}

#[derive(Debug)]
struct Tags {
    /// As it would be if there were a sync now.
    root: Root,
    /// The last that is on disk.
    synced: Root,
    uppers: HashMap<u64, Known<Entry>>,
    /// By number: every cold read looks here.
    nodes: Vec<Option<Known<u64>>>,
    /// Number for the next sync: of those that failed none is used again.
    next_version: u64,
    /// How often what is known was forgotten: what was read before that is of no use after it.
    forgotten: u64,
}

#[derive(Debug)]
pub(crate) struct Checked {
    disk: Arc<dyn Disk>,
    /// Where the roots are, twice.
    places: [u64; 2],
    /// Where nodes and pages begin.
    start: u64,
    key: TagKey,
    tags: RwLock<Tags>,
    /// What was written since the last sync of any kind.
    unsynced_bytes: AtomicUsize,
    /// One before the next root failed: what it was of may be lost.
    sync_failed: AtomicBool,
    damaged: Damaged,
}

impl std::fmt::Debug for TagKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TagKey(…)")
    }
}

/// What was found damaged since the disk was opened.
#[derive(Debug, Default)]
struct Damaged {
    count: AtomicU64,
    pages: Mutex<HashSet<u64>>,
    /// Copies of nodes that do not match; the other copy may.
    nodes: Mutex<HashSet<u64>>,
    /// Pages that the disk could not give, and how often it could not.
    failing: Mutex<HashMap<u64, u32>>,
    /// Spares whoever reads the lock until something has failed.
    any_failing: AtomicBool,
}

/// Times that a page must have failed to be read before it is given up.
const FAILURES_MAX: u32 = 3;

impl Damaged {
    fn note(&self, page: u64) {
        if self.pages.lock().insert(page) {
            self.count.fetch_add(1, Ordering::Release);
        }
    }

    fn take_back(&self, page: u64) {
        if self.pages.lock().remove(&page) {
            self.count.fetch_sub(1, Ordering::Release);
        }
    }

    fn note_node(&self, place: u64) {
        self.nodes.lock().insert(place);
    }
}

impl Checked {
    /// Finds the root that counts, or begins a new tree.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        places: [u64; 2],
        start: u64,
        key: TagKey,
        is_new: bool,
    ) -> Result<Self, Error> {
        let mut roots = if is_new { Vec::new() } else { read_roots(&*disk, places, key)? };
        roots.sort_by_key(|root| root.version);
        let (newest, before) = (roots.pop(), roots.pop());
        let next_version = newest.as_ref().map_or(1, |root| root.version + 1);
        let root = match newest {
            // redb marks its first page last of all, and later refuses one without the mark. Nothing is in it yet.
            Some(root) if root.head[..REDB_MARK_BYTES] == [0; REDB_MARK_BYTES] => {
                Root { version: root.version, second: root.second, ..Root::blank() }
            }
            Some(root) => root,
            None if is_new => Root::blank(),
            None => return Err(Error::Gone { cause: "it has no root that can be read".to_owned() }),
        };
        let tags = Tags {
            synced: root.clone(),
            root,
            uppers: HashMap::new(),
            nodes: Vec::new(),
            next_version,
            forgotten: 0,
        };
        let (tags, damaged, unsynced_bytes) = (RwLock::new(tags), Damaged::default(), AtomicUsize::new(0));
        let sync_failed = AtomicBool::new(false);
        let checked = Self { disk, places, start, key, tags, unsynced_bytes, sync_failed, damaged };
        // A sync that was cut short counts for nothing: no one was answered. What was lost after it had been answered
        // has a later root above it, because redb's commit takes two syncs, of which the second writes no node.
        if let Some(before) = before
            && !checked.is_whole()?
        {
            let tags = &mut *checked.tags.write();
            (tags.root, tags.synced) = (before.clone(), before);
            tags.uppers.clear();
            tags.nodes.clear();
        }
        Ok(checked)
    }

    /// Whether all that the newest sync wrote is there.
    fn is_whole(&self) -> io::Result<bool> {
        let root = self.tags.read().root.clone();
        let written = |entry: &Entry| entry.version == root.version;
        for (upper, entry) in (0u64..).zip(&root.uppers).filter(|(_, entry)| written(entry)) {
            let Some(bytes) = self.read_node(Kind::Upper, upper, *entry)? else { return Ok(false) };
            let first = upper * UPPER_ENTRIES as u64;
            for (node, entry) in (first..).zip(Entry::read_all(&bytes)).filter(|(_, entry)| written(entry)) {
                if self.read_node(Kind::Node, node, entry)?.is_none() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Pages that did not match their tags, or could not be read, since this was opened.
    pub(crate) fn damaged_pages(&self) -> u64 {
        self.damaged.count.load(Ordering::Acquire)
    }

    pub(crate) fn len(&self) -> u64 {
        self.tags.read().root.len
    }

    /// The size of the disk, with all that is not the tree.
    pub(crate) fn disk_bytes(&self) -> io::Result<u64> {
        self.disk.len()
    }

    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        let pages = len.div_ceil(PAGE);
        if pages.div_ceil((NODE_TAGS * UPPER_ENTRIES) as u64) > UPPERS_MAX as u64 {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "a store holds at most two terabytes"));
        }
        let shrinks = {
            let tags = &mut *self.tags.write();
            let shrinks = len < tags.root.len;
            tags.root.len = len;
            shrinks
        };
        if shrinks {
            // What lies behind is forgotten: pages there are as if never written.
            self.forget_from(pages)?;
        }
        self.disk.set_len(self.end(pages))
    }

    /// Where the disk ends if the tree has this many pages.
    fn end(&self, pages: u64) -> u64 {
        if pages == 0 { self.start } else { self.page_place(pages - 1) + PAGE }
    }

    fn forget_from(&self, pages: u64) -> io::Result<()> {
        let mut node = pages / NODE_TAGS as u64;
        if !pages.is_multiple_of(NODE_TAGS as u64) {
            self.change_tags(node, |tags| tags[(pages % NODE_TAGS as u64) as usize..].fill(0))?;
            node += 1;
        }
        let mut upper = node / UPPER_ENTRIES as u64;
        if !node.is_multiple_of(UPPER_ENTRIES as u64) {
            self.load_upper(upper)?;
            let tags = &mut *self.tags.write();
            if let Some(known) = tags.uppers.get_mut(&upper) {
                known.content[(node % UPPER_ENTRIES as u64) as usize..].fill(Entry::default());
                known.dirty = true;
            }
            upper += 1;
        }
        let tags = &mut *self.tags.write();
        tags.forgotten += 1;
        tags.nodes.truncate(node as usize);
        tags.uppers.retain(|number, _| *number < upper);
        tags.root.uppers.truncate(upper as usize);
        Ok(())
    }

    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if !self.read_whole(offset, out)? {
            // Not a byte of it: a page over several of these is one page to redb.
            out.fill(DAMAGED);
        }
        Ok(())
    }

    /// Whether what was read is what was written.
    pub(crate) fn read_whole(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        if offset < PAGE {
            self.read_head(offset, out)?;
            return Ok(true);
        }
        let (first, count) = whole_pages(offset, out.len())?;
        let mut at = 0;
        let mut is_damaged = false;
        // A run of pages lies together on the disk up to the next node.
        while at < count {
            let page = first + at;
            let run = (NODE_TAGS as u64 - page % NODE_TAGS as u64).min(count - at);
            let bytes = &mut out[(at * PAGE) as usize..((at + run) * PAGE) as usize];
            // Most reads are of one page.
            let (mut one, mut several) = ([0], Vec::new());
            let tags = if run == 1 {
                &mut one[..]
            } else {
                several.resize(run as usize, 0);
                &mut several[..]
            };
            self.tags_of(page, tags)?;
            let readable = self.read_pages(page, bytes)?;
            for ((number, bytes), tag) in (page..).zip(bytes.chunks(PAGE_BYTES)).zip(tags) {
                if !readable || !self.matches(number, bytes, *tag) {
                    self.damaged.note(number);
                    is_damaged = true;
                }
            }
            at += run;
        }
        Ok(!is_damaged)
    }

    fn matches(&self, number: u64, bytes: &[u8], tag: u64) -> bool {
        match tag {
            0 => bytes.iter().all(|byte| *byte == 0),
            tag => self.key.tag(Kind::Page, number, bytes) == tag,
        }
    }

    /// False if they cannot be had: cut off, or given up.
    fn read_pages(&self, page: u64, bytes: &mut [u8]) -> io::Result<bool> {
        let place = self.page_place(page);
        let Err(error) = self.disk.read(place, bytes) else {
            if self.damaged.any_failing.load(Ordering::Relaxed) {
                self.damaged.failing.lock().remove(&page);
            }
            return Ok(true);
        };
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Ok(false);
        }
        let often = {
            let mut failing = self.damaged.failing.lock();
            self.damaged.any_failing.store(true, Ordering::Relaxed);
            let failures = failing.entry(page).or_default();
            *failures += 1;
            *failures > FAILURES_MAX
        };
        // A disk that fails as a whole fails elsewhere too.
        let alone = || self.disk.read(self.places[0], &mut [0; SECTOR_BYTES]).is_ok();
        if often && alone() { Ok(false) } else { Err(error) }
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset < PAGE {
            return self.write_head(offset, data);
        }
        let (first, count) = whole_pages(offset, data.len())?;
        let mut at = 0;
        while at < count {
            let page = first + at;
            let run = (NODE_TAGS as u64 - page % NODE_TAGS as u64).min(count - at);
            let bytes = &data[(at * PAGE) as usize..((at + run) * PAGE) as usize];
            self.write_paced(self.page_place(page), bytes)?;
            let tags: Vec<u64> = (page..)
                .zip(bytes.chunks(PAGE_BYTES))
                .map(|(page, bytes)| self.key.tag(Kind::Page, page, bytes))
                .collect();
            let from = (page % NODE_TAGS as u64) as usize;
            self.change_tags(page / NODE_TAGS as u64, |known| {
                known[from..from + tags.len()].copy_from_slice(&tags);
            })?;
            at += run;
        }
        let tags = &mut *self.tags.write();
        tags.root.len = tags.root.len.max(offset + data.len() as u64);
        Ok(())
    }

    /// Writes, and sees to it that little is left for the next sync. What is synced so counts for nothing before its root is.
    fn write_paced(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write(place, bytes)?;
        if self.unsynced_bytes.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len() >= UNSYNCED_BYTES_MAX {
            self.unsynced_bytes.store(0, Ordering::Relaxed);
            // Whoever writes may not be the one who has to know.
            self.disk.sync_data().inspect_err(|_| self.sync_failed.store(true, Ordering::Release))?;
        }
        Ok(())
    }

    fn read_head(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let head = self.tags.read().root.head;
        let from = head.get(offset as usize..).and_then(|head| head.get(..out.len()));
        out.copy_from_slice(from.ok_or_else(odd_access)?);
        Ok(())
    }

    fn write_head(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let tags = &mut *self.tags.write();
        let to = tags.root.head.get_mut(offset as usize..).and_then(|head| head.get_mut(..data.len()));
        to.ok_or_else(odd_access)?.copy_from_slice(data);
        tags.root.len = tags.root.len.max(PAGE);
        Ok(())
    }

    /// Makes everything that was written durable, and the root that says so.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier sync failed"));
        }
        let (root, nodes, roots) = self.next_root();
        for (place, bytes) in &nodes {
            self.write_paced(*place, bytes)?;
        }
        for (place, bytes) in &roots {
            self.disk.write(*place, bytes)?;
        }
        self.unsynced_bytes.store(0, Ordering::Relaxed);
        self.disk.sync_data()?;
        self.tags.write().synced = root;
        Ok(())
    }

    /// What a sync has to write: changed nodes, each to the place that does not count, and the root above them.
    fn next_root(&self) -> (Root, Vec<Write>, [Write; 2]) {
        let tags = &mut *self.tags.write();
        let version = tags.next_version;
        tags.next_version += 1;
        let mut writes = Vec::new();
        let nodes =
            (0u64..).zip(&mut tags.nodes).filter_map(|(number, known)| Some((number, known.as_mut()?)));
        for (number, known) in nodes.filter(|(_, known)| known.dirty) {
            known.dirty = false;
            let mut bytes = Vec::with_capacity(NODE_BYTES);
            known.content.iter().for_each(|tag| bytes.extend_from_slice(&tag.to_le_bytes()));
            let tag = self.key.tag(Kind::Node, number, &bytes);
            bytes.extend_from_within(..);
            let upper = tags
                .uppers
                .get_mut(&(number / UPPER_ENTRIES as u64))
                .expect("a node is known through the one above");
            upper.dirty = true;
            let entry = &mut upper.content[(number % UPPER_ENTRIES as u64) as usize];
            *entry = Entry { tag, version, second: !entry.second };
            writes.push((self.node_place(Kind::Node, number, entry.second), bytes));
        }
        for (number, known) in tags.uppers.iter_mut().filter(|(_, known)| known.dirty) {
            known.dirty = false;
            let mut bytes = Vec::with_capacity(NODE_BYTES);
            known.content.iter().for_each(|entry| entry.write(&mut bytes));
            let tag = self.key.tag(Kind::Upper, *number, &bytes);
            bytes.extend_from_within(..);
            let at = *number as usize;
            if tags.root.uppers.len() <= at {
                tags.root.uppers.resize(at + 1, Entry::default());
            }
            let entry = &mut tags.root.uppers[at];
            *entry = Entry { tag, version, second: !entry.second };
            writes.push((self.node_place(Kind::Upper, *number, entry.second), bytes));
        }
        // In the order of their places: neighbours are written together.
        writes.sort_unstable_by_key(|(place, _)| *place);
        (tags.root.version, tags.root.second) = (version, !tags.synced.second);
        let bytes = tags.root.write(self.key);
        let roots = self.root_places(tags.root.second).map(|place| (place, bytes.clone()));
        (tags.root.clone(), writes, roots)
    }

    /// Forgets everything since the last sync that was answered. What a failed one wrote is made void on the disk, as far as
    /// the disk lets it: the answer is whether that is certain.
    pub(crate) fn roll_back(&self) -> bool {
        let slot = {
            let tags = &mut *self.tags.write();
            tags.root = tags.synced.clone();
            tags.forgotten += 1;
            tags.nodes.clear();
            tags.uppers.clear();
            !tags.synced.second
        };
        let void = [0; PAGE_BYTES];
        let written = self.root_places(slot).map(|place| self.disk.write(place, &void).is_ok());
        let synced = self.disk.sync_data().is_ok();
        self.sync_failed.store(false, Ordering::Release);
        self.look_again();
        written == [true; 2] && synced
    }

    /// Takes back what was said of pages that were only not what a failed sync should have made of them.
    fn look_again(&self) {
        let pages: Vec<u64> = self.damaged.pages.lock().iter().copied().collect();
        for page in pages {
            let (mut bytes, mut tag) = ([0; PAGE_BYTES], [0]);
            let is_read = self.tags_of(page, &mut tag).is_ok()
                && self.disk.read(self.page_place(page), &mut bytes).is_ok();
            if is_read && self.matches(page, &bytes, tag[0]) {
                self.damaged.take_back(page);
            }
        }
    }

    fn root_places(&self, second: bool) -> [u64; 2] {
        self.places.map(|place| place + u64::from(second) * ROOT_BYTES as u64)
    }

    /// Changes the tags of a node.
    fn change_tags(&self, node: u64, change: impl FnOnce(&mut [u64])) -> io::Result<()> {
        self.load_node(node)?;
        let tags = &mut *self.tags.write();
        let known = tags.nodes.get_mut(node as usize).and_then(Option::as_mut).ok_or_else(|| {
            // It was there a moment ago; a tree that shrinks or is rolled back has forgotten it.
            io::Error::other("the tree changed meanwhile")
        })?;
        change(&mut known.content);
        known.dirty = true;
        Ok(())
    }

    /// The tags of pages under one node.
    fn tags_of(&self, page: u64, out: &mut [u64]) -> io::Result<()> {
        let node = page / NODE_TAGS as u64;
        let from = (page % NODE_TAGS as u64) as usize;
        loop {
            if let Some(Some(known)) = self.tags.read().nodes.get(node as usize) {
                out.copy_from_slice(&known.content[from..from + out.len()]);
                return Ok(());
            }
            self.load_node(node)?;
        }
    }

    /// Reads a node unless it is known. One that is damaged has lost its tags, and pages that are written get new ones.
    fn load_node(&self, node: u64) -> io::Result<()> {
        loop {
            let forgotten = {
                let tags = self.tags.read();
                if matches!(tags.nodes.get(node as usize), Some(Some(_))) {
                    return Ok(());
                }
                tags.forgotten
            };
            let upper = node / UPPER_ENTRIES as u64;
            self.load_upper(upper)?;
            let entry = {
                let tags = self.tags.read();
                let known = tags.uppers.get(&upper);
                known.map_or(Entry::default(), |known| known.content[(node % UPPER_ENTRIES as u64) as usize])
            };
            let content = match self.read_node(Kind::Node, node, entry)? {
                Some(bytes) => {
                    let (words, _) = bytes.as_chunks::<8>();
                    words.iter().map(|tag| u64::from_le_bytes(*tag)).collect()
                }
                None => vec![LOST; NODE_TAGS].into(),
            };
            let tags = &mut *self.tags.write();
            if tags.forgotten == forgotten {
                let at = node as usize;
                if tags.nodes.len() <= at {
                    tags.nodes.resize_with(at + 1, || None);
                }
                tags.nodes[at].get_or_insert(Known { content, dirty: false });
                return Ok(());
            }
        }
    }

    fn load_upper(&self, upper: u64) -> io::Result<()> {
        loop {
            let (entry, forgotten) = {
                let tags = self.tags.read();
                if tags.uppers.contains_key(&upper) {
                    return Ok(());
                }
                (tags.root.uppers.get(upper as usize).copied().unwrap_or_default(), tags.forgotten)
            };
            let content = match self.read_node(Kind::Upper, upper, entry)? {
                Some(bytes) => Entry::read_all(&bytes).into(),
                None => vec![Entry::LOST; UPPER_ENTRIES].into(),
            };
            let tags = &mut *self.tags.write();
            if tags.forgotten == forgotten {
                tags.uppers.entry(upper).or_insert(Known { content, dirty: false });
                return Ok(());
            }
        }
    }

    /// A node of either kind as its entry says it is; zeros if it was never written, absent if it is damaged.
    fn read_node(&self, kind: Kind, number: u64, entry: Entry) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; PAGE_BYTES];
        if entry.tag == 0 {
            return Ok(Some(bytes));
        }
        let first = self.node_place(kind, number, entry.second);
        let mut failed = None;
        for place in [first, first + PAGE] {
            if place + PAGE > self.disk.len()? {
                continue;
            }
            match self.disk.read(place, &mut bytes) {
                Ok(()) if self.key.tag(kind, number, &bytes) == entry.tag => return Ok(Some(bytes)),
                Ok(()) => self.damaged.note_node(place),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Both slots of a node precede what it is about.
    fn node_place(&self, kind: Kind, number: u64, second: bool) -> u64 {
        let node = match kind {
            Kind::Upper => number * UPPER_ENTRIES as u64,
            Kind::Page | Kind::Node | Kind::Root => number,
        };
        let uppers = match kind {
            Kind::Upper => number,
            Kind::Page | Kind::Node | Kind::Root => node / UPPER_ENTRIES as u64 + 1,
        };
        let before = uppers * NODE_PAGES + node * (NODE_PAGES + NODE_TAGS as u64);
        self.start + (before + u64::from(second) * 2) * PAGE
    }

    fn page_place(&self, page: u64) -> u64 {
        let node = page / NODE_TAGS as u64;
        self.node_place(Kind::Node, node, false) + (NODE_PAGES + page % NODE_TAGS as u64) * PAGE
    }
}

/// The roots that can be read, one of each slot at most.
fn read_roots(disk: &dyn Disk, places: [u64; 2], key: TagKey) -> io::Result<Vec<Root>> {
    let mut found: [Option<Root>; 2] = [None, None];
    let len = disk.len()?;
    for place in places {
        for (second, found) in [false, true].into_iter().zip(&mut found) {
            let at = place + u64::from(second) * ROOT_BYTES as u64;
            let there = len.saturating_sub(at).min(ROOT_BYTES as u64) as usize;
            let mut slot = vec![0; there];
            // One of the two is enough.
            if there == 0 || disk.read(at, &mut slot).is_err() {
                continue;
            }
            let root = Root::read(&slot, second, key);
            let newer = |root: &Root| found.as_ref().is_none_or(|found| found.version < root.version);
            if let Some(root) = root.filter(newer) {
                *found = Some(root);
            }
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// redb reads and writes pages, and the beginning of the first.
fn whole_pages(offset: u64, bytes: usize) -> io::Result<(u64, u64)> {
    if offset.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE_BYTES) {
        Ok((offset / PAGE, bytes as u64 / PAGE))
    } else {
        Err(odd_access())
    }
}

fn odd_access() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the tree reads and writes whole pages")
}
