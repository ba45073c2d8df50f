//! What this program has seen of the leases of others, and for how long.
//!
//! The end of a lease is written by the clock of whoever holds it, and no two machines have the same time. So nobody is
//! replaced because of what a clock says: a lease is over when the item carried the same owner, number and end for the
//! lease's length while this program looked, by the time that passed here. A holder counts from before it asked for
//! the lease, or for its renewal, so its own count ends first.
//!
//! Promises:
//! - Clocks that differ do not replace a worker that renews its lease, however far they are apart.
//! - A program that has just started knows nothing: it takes over after a lease's length of its own.
//! - Bounded: of more than [`WATCHED_MAX`] leases the others are watched once some of these are gone. To forget one for
//!   another would mean that none is ever watched for long enough.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::Written;

/// Sightings that are watched at a time, for each entity.
const WATCHED_MAX: usize = 20_000;
/// Ends are written in whole seconds: a renewal within the second does not show.
const SECOND: Duration = Duration::from_secs(1);
/// A lease is looked at so often while it lasts, so that the end of its renewals is noticed within a quarter more.
const LOOKS: u32 = 4;

#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<Sightings>);

#[derive(Debug, Default)]
struct Sightings {
    seen: HashMap<Place, Seen>,
    /// When room was last looked for.
    swept: Duration,
}

/// Which lifecycle of the entity, of which item: the bytes of its key.
pub(super) type Place = (usize, Vec<u8>);

#[derive(Debug)]
struct Seen {
    lease: Sighting,
    length: Duration,
    /// When it was first and last seen like this.
    since: Duration,
    looked: Duration,
}

/// A lease as it was seen: what every claim and every renewal changes.
#[derive(Debug, PartialEq)]
struct Sighting {
    owner: Option<String>,
    until_seconds: Option<i64>,
    fence: i64,
}

impl Watched {
    /// Notes a lease as it is `now`, and says whether it was so for all its length.
    pub(super) fn is_over(&self, place: Place, written: &Written, length: Duration, now: Duration) -> bool {
        now.saturating_sub(self.note(place, written, length, now)) >= length.saturating_add(SECOND)
    }

    /// Notes a lease as it is `now`, and says since when it is so.
    pub(super) fn note(&self, place: Place, written: &Written, length: Duration, now: Duration) -> Duration {
        let lease = Sighting {
            owner: written.owner.clone(),
            until_seconds: written.until.map(larder_model::UnixTime::seconds),
            fence: written.fence,
        };
        let mut watched = self.0.lock();
        if !watched.seen.contains_key(&place) && !watched.has_room(length, now) {
            return now;
        }
        match watched.seen.get_mut(&place) {
            Some(seen) if seen.lease == lease => {
                seen.looked = now;
                seen.since
            }
            Some(_) | None => {
                watched.seen.insert(place, Seen { lease, length, since: now, looked: now });
                now
            }
        }
    }

    /// Whether it was looked at so lately that there is nothing to learn from looking again.
    pub(super) fn is_known(&self, place: &Place, length: Duration, now: Duration) -> bool {
        self.0.lock().seen.get(place).is_some_and(|seen| {
            now.saturating_sub(seen.looked) < length / LOOKS
                && now.saturating_sub(seen.since) < length.saturating_add(SECOND)
        })
    }
}

impl Sightings {
    /// Whether another can be watched. Those that nobody has looked at for twice their length have ended, and are forgotten.
    fn has_room(&mut self, length: Duration, now: Duration) -> bool {
        if self.seen.len() >= WATCHED_MAX && now.saturating_sub(self.swept) >= length / LOOKS {
            self.swept = now;
            self.seen.retain(|_, seen| now.saturating_sub(seen.looked) < seen.length.saturating_mul(2));
        }
        self.seen.len() < WATCHED_MAX
    }
}

#[cfg(test)]
mod tests {
    use larder_model::UnixTime;

    use super::*;

    const LENGTH: Duration = Duration::from_secs(60);

    fn written(owner: &str, until: i64, fence: i64) -> Written {
        let until = Some(UnixTime::from_seconds(until));
        Written { owner: Some(owner.to_owned()), until, fence, attempts: 1 }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(1_000 + seconds)
    }

    fn place(name: &str) -> Place {
        (0, name.as_bytes().to_vec())
    }

    #[test]
    fn a_lease_is_over_when_it_was_the_same_for_its_length() {
        let watched = Watched::default();
        for (second, over) in [(0, false), (59, false), (60, false), (61, true), (500, true)] {
            assert_eq!(
                watched.is_over(place("a"), &written("x", 7, 1), LENGTH, at(second)),
                over,
                "{second}"
            );
        }
    }

    #[test]
    fn every_renewal_and_every_claim_begins_it_again() {
        let watched = Watched::default();
        let lives = [("x", 7, 1), ("x", 27, 1), ("y", 27, 2), ("y", 27, 3)];
        for (step, (owner, until, fence)) in (0..).zip(lives) {
            let now = at(step * 61);
            assert!(!watched.is_over(place("a"), &written(owner, until, fence), LENGTH, now), "{step}");
        }
        assert!(watched.is_over(place("a"), &written("y", 27, 3), LENGTH, at(4 * 61)));
    }

    #[test]
    fn it_is_looked_at_four_times_in_its_length_and_when_it_may_be_over() {
        let watched = Watched::default();
        assert!(!watched.is_known(&place("a"), LENGTH, at(0)));
        let _ = watched.note(place("a"), &written("x", 7, 1), LENGTH, at(0));
        assert!(watched.is_known(&place("a"), LENGTH, at(14)));
        assert!(!watched.is_known(&place("a"), LENGTH, at(15)));
        let _ = watched.note(place("a"), &written("x", 7, 1), LENGTH, at(60));
        assert!(watched.is_known(&place("a"), LENGTH, at(60)));
        assert!(!watched.is_known(&place("a"), LENGTH, at(61)));
    }

    #[test]
    fn of_more_than_can_be_watched_the_first_are_seen_to_be_over_and_make_room() {
        let watched = Watched::default();
        let names: Vec<String> = (0..WATCHED_MAX + 10).map(|number| number.to_string()).collect();
        let over = |second: u64, names: &[String]| {
            let lease = written("x", 7, 1);
            names.iter().filter(|name| watched.is_over(place(name), &lease, LENGTH, at(second))).count()
        };
        assert_eq!(over(0, &names), 0);
        assert_eq!(over(61, &names), WATCHED_MAX);
        assert_eq!(watched.0.lock().seen.len(), WATCHED_MAX);
        // The first have ended, and nobody looks at them any more.
        let rest = &names[WATCHED_MAX..];
        assert_eq!(over(200, rest), 0);
        assert_eq!(over(261, rest), rest.len());
        assert_eq!(watched.0.lock().seen.len(), rest.len());
    }
}
