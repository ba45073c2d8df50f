//! Room that is set aside, so that something can be deleted when the disk is full.
//!
//! A delete writes before it frees anything: the tree copies each page that it changes. So a file beside the store's holds room
//! that nobody needs. When a write finds the disk full, that room is given back to the disk, and is there for the
//! deletes that follow. From then on only what makes room is taken, until one of two things is so: the reserve could be
//! written again in full, because the disk has room; or much was deleted, so that the store's own file has pages
//! to write on, and what the deletes have left of the reserve was set aside again.
//!
//! A write that is in the log and not in the tree needs pages too. So what the log may owe to the tree is bounded by
//! what the disk has left, and in the end by half the reserve.

use crate::batch::Changed;
use crate::{Pace, Place};
use std::time::Instant;

const RESERVE_BYTES: u64 = 8 << 20;
/// What must be left of it before all writes are taken again.
const RESERVE_BYTES_MIN: u64 = 2 << 20;
/// Bytes that must have been deleted before the file counts as having room, if the store had four times as much.
const DELETED_BYTES: i64 = 16 << 20;
/// A change may take new pages on the way to it.
const CHANGE_BYTES: u64 = 8 << 10;
/// After how many looks a reserve that could not be written is tried again.
const LOOKS_BEFORE_RETRY: u32 = 60;

/// What a group may take in the tree.
pub(crate) fn estimate(changes: &[Changed]) -> u64 {
    changes.iter().map(|(key, value)| estimate_one(key, value.as_ref().map(|value| value.as_slice()))).sum()
}

pub(crate) fn estimate_one(key: &[u8], value: Option<&[u8]>) -> u64 {
    // A large value has a page of its own, whose size is a power of two.
    CHANGE_BYTES + 2 * (key.len() + value.map_or(0, <[u8]>::len)) as u64
}

/// Whether the tree will have room for what the log owes to it, when it comes to that.
pub(crate) fn may_owe(place: &dyn Place, reserved_bytes: u64, debt: u64) -> bool {
    debt <= reserved_bytes / 2 || place.available().is_none_or(|available| debt <= available / 2)
}

/// What the tree's thread knows about room.
#[derive(Debug)]
pub(crate) struct Room {
    pace: Pace,
    reserved_bytes: u64,
    /// When the reserve may be written, unless it is there.
    reserve_at: Instant,
    full: Option<Full>,
    /// The most that was live whenever the disk was found full.
    most_live: i64,
}

#[derive(Clone, Copy, Debug)]
struct Full {
    /// The most that was live when the disk was found full, this time or before.
    live: i64,
    /// When to look whether it still is.
    look_at: Instant,
}

impl Room {
    pub(crate) fn new(place: &dyn Place) -> Self {
        let pace = place.pace();
        let reserved_bytes = place.reserved();
        Self {
            pace,
            reserved_bytes,
            reserve_at: Instant::now() + pace.reserve_after,
            full: None,
            most_live: 0,
        }
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    /// Sets the reserve aside, if it is not and it is time. Called after a checkpoint.
    pub(crate) fn reserve(&mut self, place: &dyn Place) {
        let now = Instant::now();
        if self.full.is_none() && self.reserved_bytes < RESERVE_BYTES && now >= self.reserve_at {
            // What could be written stays.
            self.reserved_bytes = place.reserve(RESERVE_BYTES);
            self.reserve_at = now + self.pace.look_pause * LOOKS_BEFORE_RETRY;
        }
    }

    /// The disk was found full: gives the reserve up.
    pub(crate) fn run_out(&mut self, place: &dyn Place, live: i64) {
        place.release();
        self.reserved_bytes = 0;
        // Deletes can run out of room themselves, before and after room was found: what they have deleted until then counts all
        // the same, because the file that once held so much is no smaller.
        self.most_live = self.most_live.max(live);
        let live = self.most_live;
        self.full = Some(Full { live, look_at: Instant::now() + self.pace.look_pause });
    }

    /// When to look for room, if the disk is full.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        self.full.map(|full| full.look_at)
    }

    /// Whether all writes can be taken again.
    pub(crate) fn look(&mut self, place: &dyn Place, live: i64) -> bool {
        let Some(full) = &mut self.full else { return true };
        full.look_at = Instant::now() + self.pace.look_pause;
        let deleted = full.live - live >= DELETED_BYTES.min(full.live / 4).max(1);
        let freed = place.available().is_none_or(|available| available >= 2 * RESERVE_BYTES);
        if !deleted && !freed {
            return false;
        }
        // Then there is room within the file, whatever is left beside it.
        let much_deleted = live <= full.live / 3 * 2;
        let reserved = place.reserve(RESERVE_BYTES);
        if reserved >= RESERVE_BYTES || much_deleted || deleted && reserved >= RESERVE_BYTES_MIN {
            (self.reserved_bytes, self.full) = (reserved, None);
            return true;
        }
        place.release();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faulty::FaultyPlace;

    #[test]
    fn room_within_the_file_is_room() {
        let place = FaultyPlace::new(Pace::default());
        place.limit(0);
        let mut room = Room::new(&place);
        room.run_out(&place, 30 << 20);
        assert!(!room.look(&place, 21 << 20), "less than a third was deleted");
        assert!(room.look(&place, 16 << 20), "nearly half was deleted");
    }

    #[test]
    fn what_was_deleted_before_the_disk_was_full_once_more_counts() {
        let place = FaultyPlace::new(Pace::default());
        place.limit(RESERVE_BYTES_MIN);
        let mut room = Room::new(&place);
        room.run_out(&place, 20 << 20);
        assert!(!room.look(&place, 16 << 20), "a fifth was deleted");
        room.run_out(&place, 11 << 20);
        assert!(room.look(&place, 11 << 20), "nearly half was deleted");
        assert_eq!(place.reserved(), RESERVE_BYTES_MIN);
    }
}
