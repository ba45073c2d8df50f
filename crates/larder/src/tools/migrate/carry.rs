//! Carries the items of one table over to another, and what changes meanwhile.
//!
//! Everything that is written goes through [`Carrier::carry_key`]: it reads both sides, decides what the target should
//! hold, and writes under the condition that the target is still what was read. The rest only finds the keys.
//!
//! Surprising rules:
//! - A change in the stream says which item to look at again, not what to write: what is carried is the source's item
//!   as it is now, so an older write never replaces a newer one.
//! - An item is deleted only when it is what the source had before. Two items of the source may have had one key over
//!   there, one after the other.
//! - After the switch the target belongs to programs. What they have written is never replaced; a late write to the
//!   source is carried only onto what it follows.
//! - Going back, an item that nobody changed stays as it was before, with all that the newer schema dropped; and what
//!   programs of the old schema write meanwhile is treated as after a switch: it stays, and is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _};
use larder_expr::Condition;
use larder_model::item_bytes;
use larder_model::{Item, Path, TableName, UnixTime};
use larder_ops::{DeleteItem, GetItem, PutItem, ReturnCapacity, Scan};
use larder_schema::{CHUNK, PARTS};
use parking_lot::Mutex;

use super::checkpoint::Hold;
use super::convert::{Converted, Converter};
use super::stream::StreamChange;
use super::{Late, Unconverted};
use crate::entity::{Core, and};
use crate::record::unchanged;
use crate::store::{self, Store};
use crate::write::{RACES_MAX, options};
use crate::{Error, Stored, batch, oversize};

/// Items that are under way together.
const AT_ONCE: usize = 16;
/// A condition has at most 300 operators, and an equation and an `AND` are two.
const GUARDED_MAX: usize = 120;
/// What is kept of records that cannot be carried. Who has more has the wrong schema.
pub(super) const UNCONVERTED_MAX: usize = 10_000;

/// One table, with the entities that are in it.
#[derive(Clone, Debug)]
pub(super) struct Side(Vec<Arc<Core>>);

impl Side {
    /// None for a table that holds nothing.
    pub(super) fn new(cores: Vec<Arc<Core>>) -> Option<Self> {
        (!cores.is_empty()).then_some(Self(cores))
    }

    pub(super) fn cores(&self) -> &[Arc<Core>] {
        &self.0
    }

    pub(super) fn store(&self) -> &Store {
        &self.0[0].store
    }

    pub(super) fn table(&self) -> &TableName {
        &self.0[0].table_name
    }

    pub(super) async fn is_there(&self) -> Result<bool, Error> {
        Ok(self.store().describe(self.table()).await?.is_some())
    }

    pub(super) fn key(&self, item: &Item) -> Item {
        self.0[0].key_of(item)
    }

    pub(super) fn core(&self, item: &Item) -> Option<&Arc<Core>> {
        let entity = self.0[0].schema.entity_of(self.0[0].table(), item)?;
        self.0.iter().find(|core| core.name() == entity.name)
    }

    pub(super) async fn head(&self, key: &Item) -> Result<Option<Item>, Error> {
        let request = GetItem {
            table: self.table().clone(),
            key: key.clone(),
            projection: None,
            consistent: true,
            capacity: ReturnCapacity::None,
        };
        Ok(self.store().get_item(request).await?)
    }

    /// A record that was read, with its parts; `None` when it is none, or past its time.
    pub(super) async fn whole(&self, head: Item) -> Result<Option<Item>, Error> {
        if batch::is_mark(&head) {
            return Ok(None);
        }
        let Some(core) = self.core(&head) else { return Ok(Some(head)) };
        let whole = oversize::join(core, head).await?.map(oversize::without_marks);
        Ok(whole.filter(|item| !core.is_expired(item, core.unix_now())))
    }

    /// A page of all there is, and where the next one begins.
    pub(super) async fn page(&self, start: Option<Item>) -> Result<(Vec<Item>, Option<Item>), Error> {
        // Read with the item they are part of.
        let no_part = Condition::NotExists(Path::attribute(CHUNK));
        let request =
            Scan { start, filter: Some(no_part), consistent: true, ..Scan::of(self.table().clone()) };
        let page = self.store().scan(request).await?;
        Ok((page.items, page.last_key))
    }
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Forward,
    Back,
}

/// What the target held before a change of the source.
#[derive(Clone, Copy, Debug)]
enum Before<'a> {
    /// Whatever is there may be replaced or deleted.
    Anything,
    /// One of these, which the source had; `None` is nothing.
    Source(&'a [Option<&'a Item>]),
}

const NOTHING_BEFORE: Before<'static> = Before::Source(&[None]);

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    Same,
    Written,
    /// It is something else, and stays.
    Left,
}

enum Wanted {
    Same,
    Put(Converted),
    Delete,
    Unconverted(String),
    /// The other schema has no such thing.
    Leave,
}

#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) way: Way,
    pub(super) source: Side,
    pub(super) target: Side,
    /// From the old schema to the new, whichever the way.
    pub(super) forward: Converter,
    /// From the source to the target.
    pub(super) converter: Converter,
    /// Programs write to the target.
    pub(super) late: bool,
    pub(super) notes: Mutex<Notes>,
    pub(super) hold: Hold,
    pub(super) others: Mutex<Others>,
}

/// Who wrote to the target while things are carried back: its stream shows what we write as well.
#[derive(Clone, Debug, Default)]
pub(super) struct Others {
    /// Our writes that the stream has not shown yet, by key.
    own: BTreeMap<Vec<u8>, u32>,
    /// Keys that somebody else wrote to.
    touched: BTreeSet<Vec<u8>>,
}

/// What people have to be told.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    pub(super) unconverted: BTreeMap<Vec<u8>, Unconverted>,
    pub(super) late: BTreeMap<Vec<u8>, Late>,
    pub(super) late_carried: u64,
}

impl Carrier {
    /// Writes what a page of the source holds and the target does not.
    pub(super) async fn copy(&self, items: Vec<Item>) -> Result<(), Error> {
        let copies = futures_util::stream::iter(items).map(|head| async move {
            let key = self.source.key(&head);
            let Some(item) = self.source.whole(head).await? else { return Ok(()) };
            let Some(at) = self.converter.key(&item) else {
                self.note(&key, &item);
                return Ok(());
            };
            // Mostly there is nothing there, and that need not be read.
            if self.way == Way::Forward
                && let Wanted::Put(converted) = self.wanted(Some(&item), None, &at)
            {
                match self.write(Some(converted), None, &at).await {
                    Err(Error::Store(store::Error::Condition { .. })) => {}
                    written => return written,
                }
            }
            // Read again: what the page had may be from before a switch that somebody else made.
            let item = self.source_item(&key).await?;
            self.carry_key(Some(&key), item, &at, NOTHING_BEFORE).await.map(drop)
        });
        copies.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Carries changes over, those of one item in their order. Gives the buckets they were in.
    pub(super) async fn follow(&self, changes: Vec<StreamChange>) -> Result<BTreeSet<u16>, Error> {
        let mut of_key: BTreeMap<Vec<u8>, Vec<StreamChange>> = BTreeMap::new();
        for change in changes {
            of_key.entry(item_bytes::encode(&change.key)).or_default().push(change);
        }
        let groups = futures_util::stream::iter(of_key.into_values()).map(|changes| async move {
            let mut touched = BTreeSet::new();
            if self.late {
                for change in &changes {
                    let now = self.now(change).await?;
                    touched.extend(self.change(std::slice::from_ref(change), now).await?);
                }
            } else if let Some(last) = changes.last() {
                let now = self.source_item(&last.key).await?;
                touched.extend(self.change(&changes, now).await?);
            }
            Ok::<_, Error>(touched)
        });
        let groups: Vec<BTreeSet<u16>> = groups.buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(groups.into_iter().flatten().collect())
    }

    /// Learns from the target's stream what others wrote there. A key that both wrote to is listed.
    pub(super) fn see(&self, changes: &[StreamChange]) {
        for change in changes {
            let is_part = [&change.old, &change.new].into_iter().flatten().any(|image| image.contains(CHUNK));
            if is_part {
                continue;
            }
            let key = item_bytes::encode(&change.key);
            let mut others = self.others.lock();
            match others.own.get_mut(&key) {
                Some(count @ 1..) => *count -= 1,
                own => {
                    let is_both = own.is_some();
                    if others.touched.insert(key) && is_both {
                        drop(others);
                        self.note_late(Carried::Left, None, &change.key);
                    }
                }
            }
        }
    }

    fn is_of_others(&self, at: &Item) -> bool {
        self.is_going_back() && self.others.lock().touched.contains(&item_bytes::encode(at))
    }

    pub(super) fn is_going_back(&self) -> bool {
        self.way == Way::Back && !self.late
    }

    /// What a late change made of its item: each is carried by itself, onto what it followed. Of a split item only the
    /// head is in the stream, so it is read.
    async fn now(&self, change: &StreamChange) -> Result<Option<Item>, Error> {
        let is_part = |image: &Option<Item>| image.as_ref().is_some_and(|image| image.contains(PARTS));
        match &change.new {
            Some(_) if is_part(&change.new) => self.source_item(&change.key).await,
            Some(new) => self.source.whole(new.clone()).await,
            None if change.has_new => Ok(None),
            None => self.source_item(&change.key).await,
        }
    }

    /// Carries over what changes of one item came to.
    async fn change(&self, changes: &[StreamChange], now: Option<Item>) -> Result<Vec<u16>, Error> {
        let Some(key) = changes.first().map(|change| &change.key) else { return Ok(Vec::new()) };
        let images = changes.iter().map(|change| change.old.as_ref().filter(|old| !batch::is_mark(old)));
        let mut before: Vec<(Option<Item>, Option<&Item>)> = Vec::new();
        for old in images {
            before.push((old.and_then(|old| self.converter.key(old)), old));
        }
        let is_at = now.as_ref().and_then(|now| self.converter.key(now));
        if let (None, Some(item)) = (&is_at, &now) {
            self.note(key, item);
        }
        let seen = before.iter().filter_map(|(_, old)| *old).chain(now.as_ref());
        let touched: BTreeSet<u16> = seen.filter_map(|item| self.bucket_of(item)).collect();
        let ended =
            |item: &Item| self.source.core(item).is_some_and(|core| core.is_expired(item, core.unix_now()));
        if self.late && now.is_none() && before.iter().all(|(_, old)| old.is_some_and(ended)) {
            // Its time was over: there is nothing to carry.
            return Ok(touched.into_iter().collect());
        }
        let places: Vec<&Item> = before.iter().filter_map(|(at, _)| at.as_ref()).chain(&is_at).collect();
        let mut done: Vec<&Item> = Vec::new();
        for at in places {
            if done.contains(&at) {
                continue;
            }
            done.push(at);
            let known: Vec<Option<&Item>> =
                before.iter().map(|(was_at, old)| old.filter(|_| was_at.as_ref() == Some(at))).collect();
            let is_split = known.iter().flatten().any(|old| old.contains(PARTS));
            let is_theirs = self.late || self.is_of_others(at);
            // Only the head of a split item is in the stream, which tells nothing about the whole.
            let known = if is_split && !is_theirs { Before::Anything } else { Before::Source(&known) };
            let carried = self.carry_key(Some(key), now.clone(), at, known).await?;
            if self.late || (is_theirs && carried == Carried::Left) {
                self.note_late(carried, Some(key), at);
            }
        }
        Ok(touched.into_iter().collect())
    }

    /// Makes the target hold at this key what the source says, or finds that it must not.
    async fn carry_key(
        &self,
        key: Option<&Item>,
        mut source: Option<Item>,
        at: &Item,
        before: Before<'_>,
    ) -> Result<Carried, Error> {
        let is_theirs = self.late || self.is_of_others(at);
        for lost in 0..RACES_MAX {
            if let (Some(key), true) = (key, lost > 0 && !self.late) {
                source = self.source_item(key).await?;
            }
            let head = self.target.head(at).await?;
            let there = match head.clone() {
                Some(head) => self.target.whole(head).await?,
                None => None,
            };
            let there = there.as_ref();
            let wanted = match self.wanted(source.as_ref(), there, at) {
                Wanted::Same => return Ok(Carried::Same),
                Wanted::Leave => return Ok(Carried::Left),
                Wanted::Unconverted(cause) => {
                    self.note_unconverted(key, source.as_ref(), cause);
                    return Ok(Carried::Left);
                }
                Wanted::Put(converted) if !is_theirs || self.follows(there, before, at) => Some(converted),
                Wanted::Delete if self.follows(there, before, at) => None,
                Wanted::Put(_) | Wanted::Delete => return Ok(Carried::Left),
            };
            match self.write(wanted, head.as_ref(), at).await {
                Err(Error::Store(store::Error::Condition { .. })) => {}
                Ok(()) => {
                    if self.is_going_back() {
                        *self.others.lock().own.entry(item_bytes::encode(at)).or_default() += 1;
                    }
                    return Ok(Carried::Written);
                }
                Err(error) => return Err(error),
            }
        }
        let key = self.target.cores()[0].key_text(at);
        Err(Error::NotAllowed(format!(
            "{key} of {} kept changing while it was being written: find out which program writes it",
            self.target.table()
        )))
    }

    fn wanted(&self, source: Option<&Item>, there: Option<&Item>, at: &Item) -> Wanted {
        let gone = || match there {
            None => Wanted::Same,
            // Nothing over there stands for it: it has always been here alone.
            Some(there)
                if self.way == Way::Back && !matches!(self.forward.convert(there, None), Ok(Some(_))) =>
            {
                Wanted::Leave
            }
            Some(_) => Wanted::Delete,
        };
        let Some(source) = source else { return gone() };
        if self.way == Way::Back && there.is_some_and(|there| self.forwarded(there).as_ref() == Some(source))
        {
            return Wanted::Same;
        }
        let base = there.filter(|_| self.way == Way::Back);
        match self.converter.convert(source, base) {
            Err(cause) => Wanted::Unconverted(cause),
            Ok(None) => Wanted::Leave,
            Ok(Some(converted)) if self.target.key(&converted.item) != *at => gone(),
            Ok(Some(converted)) if Some(&converted.item) == there => Wanted::Same,
            Ok(Some(converted)) => match &converted.core {
                Some(core) if core.is_expired(&converted.item, core.unix_now()) => gone(),
                _ => Wanted::Put(converted),
            },
        }
    }

    /// Whether the target holds what the source had before the change.
    fn follows(&self, there: Option<&Item>, before: Before<'_>, at: &Item) -> bool {
        match before {
            Before::Anything => true,
            Before::Source(known) => {
                known.iter().any(|before| matches!(self.wanted(*before, there, at), Wanted::Same))
            }
        }
    }

    fn forwarded(&self, item: &Item) -> Option<Item> {
        self.forward.convert(item, None).ok().flatten().map(|converted| converted.item)
    }

    async fn write(&self, wanted: Option<Converted>, head: Option<&Item>, at: &Item) -> Result<(), Error> {
        if !self.late {
            self.hold.check().await?;
        }
        let side = &self.target;
        let known = head.and_then(|head| side.core(head));
        let core = wanted.as_ref().and_then(|wanted| wanted.core.as_ref()).or(known);
        let condition = Some(guard(side, core, head));
        match (wanted, known) {
            (Some(Converted { core: Some(core), item }), _) => core.save(item, condition).await.map(drop),
            (Some(Converted { core: None, item }), _) => {
                let request = PutItem { table: side.table().clone(), item, options: options(condition) };
                Ok(side.store().put_item(request).await.map(drop)?)
            }
            (None, Some(core)) => core.delete(at, condition).await.map(drop),
            (None, None) => {
                let request =
                    DeleteItem { table: side.table().clone(), key: at.clone(), options: options(condition) };
                Ok(side.store().delete_item(request).await.map(drop)?)
            }
        }
    }

    async fn source_item(&self, key: &Item) -> Result<Option<Item>, Error> {
        match self.source.head(key).await? {
            Some(head) => self.source.whole(head).await,
            None => Ok(None),
        }
    }

    /// Keeps an item that cannot be converted.
    pub(super) fn note(&self, key: &Item, item: &Item) {
        if let Err(cause) = self.converter.convert(item, None) {
            self.note_unconverted(Some(key), Some(item), cause);
        }
    }

    fn note_unconverted(&self, key: Option<&Item>, item: Option<&Item>, cause: String) {
        let (Some(key), Some(item)) = (key, item) else { return };
        let mut notes = self.notes.lock();
        if notes.unconverted.len() < UNCONVERTED_MAX {
            let entity = self.converter.entity_of(item).map(|core| core.name().to_owned());
            let stored =
                Stored { table: self.source.cores()[0].table().name.clone(), entity, item: item.clone() };
            let (table, name) = (self.source.table().clone(), self.converter.name(item));
            notes.unconverted.insert(item_bytes::encode(key), Unconverted { table, name, cause, stored });
        }
    }

    fn note_late(&self, carried: Carried, key: Option<&Item>, at: &Item) {
        let mut notes = self.notes.lock();
        // What did not follow may have been carried before, and the next change does.
        let known = notes.late.remove(&item_bytes::encode(at));
        match carried {
            Carried::Same => {}
            Carried::Written => notes.late_carried += 1,
            Carried::Left => {
                let text = |side: &Side, key: &Item| side.cores()[0].key_text(key);
                let target = text(&self.target, at);
                let late = || Late {
                    source: key.map_or_else(|| target.clone(), |key| text(&self.source, key)),
                    target: target.clone(),
                };
                if notes.late.len() < UNCONVERTED_MAX {
                    notes.late.insert(item_bytes::encode(at), known.unwrap_or_else(late));
                }
            }
        }
    }

    /// Where an item of the source is counted.
    fn bucket_of(&self, item: &Item) -> Option<u16> {
        let key = match self.way {
            Way::Forward => self.forward.key(item)?,
            Way::Back => self.source.key(item),
        };
        Some(bucket(&item_bytes::encode(&key)))
    }

    /// Makes both sides agree on keys that were found to differ, by their keys on each side.
    pub(super) async fn mend(&self, differing: Vec<Differing>) -> Result<BTreeSet<u16>, Error> {
        let mended = futures_util::stream::iter(differing).map(|one| async move {
            let source = match &one.source {
                Some(key) => self.source_item(key).await?,
                None => None,
            };
            let place = || source.as_ref().and_then(|item| self.converter.key(item));
            let Some(at) = one.target.or_else(place) else {
                if let (Some(key), Some(item)) = (&one.source, &source) {
                    self.note(key, item);
                }
                return Ok(None);
            };
            if self.is_of_others(&at) {
                self.note_late(Carried::Left, one.source.as_ref(), &at);
                return Ok(None);
            }
            // What is gone since it was counted is in the stream.
            let before = if one.source.is_some() { NOTHING_BEFORE } else { Before::Anything };
            let carried = self.carry_key(one.source.as_ref(), source, &at, before).await?;
            Ok::<_, Error>((carried == Carried::Written).then_some(one.bucket))
        });
        let mended: Vec<Option<u16>> = mended.buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(mended.into_iter().flatten().collect())
    }
}

/// A key that both sides do not agree on: where it is on each.
#[derive(Clone, Debug)]
pub(super) struct Differing {
    pub(super) bucket: u16,
    pub(super) source: Option<Item>,
    pub(super) target: Option<Item>,
}

/// The bucket in which a key is counted.
pub(super) fn bucket(key: &[u8]) -> u16 {
    (hash(key) >> 48) as u16
}

pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The condition that an item is what was read: each attribute of it, and each that its entity might have besides.
fn guard(side: &Side, core: Option<&Arc<Core>>, head: Option<&Item>) -> Condition {
    let key = &side.cores()[0].table().partition.attribute;
    let Some(head) = head else { return Condition::NotExists(Path::attribute(key)) };
    let fields = core.map(|core| core.entity().fields.as_slice()).unwrap_or_default();
    let others = fields.iter().filter(|field| field.is_stored() && !head.contains(&field.attribute));
    let names = head.names().chain(others.map(|field| field.attribute.as_str()));
    let same = names.take(GUARDED_MAX).map(|name| unchanged(name, head));
    same.reduce(and).unwrap_or_else(|| Condition::NotExists(Path::attribute(key)))
}

/// When an item that is counted must still be there.
pub(super) fn outlasts(core: Option<&Arc<Core>>, item: &Item, moment: UnixTime) -> bool {
    core.and_then(|core| core.expires(item)).is_none_or(|ends| ends > moment)
}
