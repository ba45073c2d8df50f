//! What the database must hold: a plain map, and what is not known about it.
//!
//! The oracle keeps every state that the answers so far allow, most of the time one. An operation whose
//! outcome is unknown doubles them; each later answer, and each look at the whole database, strikes out those
//! it contradicts. When none is left the engine has broken a promise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use larder_model::limits::{IDEMPOTENCY_SECONDS, TTL_PAST_SECONDS_MAX};
use larder_model::{AttributeValue, Item, Number, UnixTime};

use crate::observe::Observed;
use crate::operation::{Action, Answer, Operation, Outcome, Requires, Transaction, Write};
use crate::schema::{COLOUR, COUNT, EXPIRES, EXTRA, Key, Place};

/// One state the database may be in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    tables: BTreeMap<Place, Table>,
    tokens: BTreeMap<String, Remembered>,
    /// Items that background work may have removed before the disk failed.
    maybe_expired: BTreeSet<(Place, Key)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Table {
    items: BTreeMap<Key, Item>,
    indexes: BTreeSet<String>,
    expires: bool,
    /// The extra index may still be filling.
    maybe_building: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Remembered {
    writes: Vec<Write>,
    until_seconds: i64,
}

#[derive(Clone, Debug)]
pub struct Oracle {
    possible: Vec<State>,
    ttl_delay: Duration,
}

impl Oracle {
    /// Of a database with a new main table.
    pub fn new(ttl_delay: Duration) -> Self {
        let mut state = State::default();
        state.tables.insert(Place::Main, Table::new(Place::Main));
        Self { possible: vec![state], ttl_delay }
    }

    pub fn ttl_delay(&self) -> Duration {
        self.ttl_delay
    }

    /// Takes note of an answer.
    pub fn learn(&mut self, operation: &Operation, answer: &Answer, now: UnixTime) -> Result<(), String> {
        match answer {
            Answer::NotMade(_) if !matches!(operation, Operation::Work | Operation::Backfill) => {}
            Answer::NotMade(_) | Answer::Unknown(_) => {
                let before = self.possible.clone();
                for state in &mut self.possible {
                    match operation {
                        Operation::Work => {
                            let due = state.due(now, self.ttl_delay);
                            state.maybe_expired.extend(due);
                        }
                        other => drop(state.apply(other, None, now, self.ttl_delay)),
                    }
                }
                self.possible.extend(before);
            }
            Answer::Known(seen) => {
                let before = self.possible.clone();
                let mut expected = Vec::new();
                self.possible.retain_mut(|state| {
                    let outcome = state.apply(operation, Some(seen), now, self.ttl_delay);
                    let fits = fits(&outcome, seen);
                    expected.push(outcome);
                    fits
                });
                if self.possible.is_empty() {
                    return Err(format!("the engine answered {seen:?}, the oracle expected {expected:?}"));
                }
                // A refusal tells only what can be read, and on a disk that fails that is not yet what is kept.
                if matches!(seen, Outcome::Refused(_) | Outcome::Canceled(_)) {
                    self.possible = before;
                }
            }
        }
        self.deduplicate();
        Ok(())
    }

    /// Takes note of all that is in the database.
    pub fn see(&mut self, observed: &Observed) -> Result<(), String> {
        let differences: Vec<String> =
            self.possible.iter().filter_map(|state| state.difference(observed)).collect();
        self.possible.retain(|state| state.difference(observed).is_none());
        if self.possible.is_empty() {
            return Err(differences.join("\n  or: "));
        }
        for state in &mut self.possible {
            state.settle(observed);
        }
        self.deduplicate();
        Ok(())
    }

    /// Whether background work was cut off, so that items may or may not have been removed.
    pub fn expects_a_look(&self) -> bool {
        self.possible.iter().any(|state| !state.maybe_expired.is_empty())
    }

    /// A key that may be in use, and the count its item may have.
    pub fn some_count(&self, place: Place, key: &Key) -> Option<i64> {
        let item = self.possible.first()?.tables.get(&place)?.items.get(key)?;
        item.get(COUNT)?.as_number()?.to_i64()
    }

    pub fn has(&self, place: Place) -> bool {
        self.possible.iter().any(|state| state.tables.contains_key(&place))
    }

    fn deduplicate(&mut self) {
        let mut kept: Vec<State> = Vec::new();
        for state in self.possible.drain(..) {
            if !kept.contains(&state) {
                kept.push(state);
            }
        }
        self.possible = kept;
    }
}

fn fits(expected: &Expected, seen: &Outcome) -> bool {
    match expected {
        Expected::Exactly(outcome) => outcome == seen,
        Expected::Refusal => matches!(seen, Outcome::Refused(_)),
    }
}

#[derive(Clone, Debug)]
enum Expected {
    Exactly(Outcome),
    /// For operations on tables the exact error is not the oracle's matter.
    Refusal,
}

const DONE: Expected = Expected::Exactly(Outcome::Done);

impl Table {
    fn new(place: Place) -> Self {
        let indexes = place.first_indexes().iter().map(|index| index.name.to_owned()).collect();
        Self { indexes, ..Self::default() }
    }
}

impl State {
    /// Makes an operation, if it can be made, and says what the engine must answer. `seen`, what it did
    /// answer, is asked only where it is free to choose.
    fn apply(
        &mut self,
        operation: &Operation,
        seen: Option<&Outcome>,
        now: UnixTime,
        ttl_delay: Duration,
    ) -> Expected {
        match operation {
            Operation::Write(write) => Expected::Exactly(self.write(write)),
            Operation::Batch(writes) => Expected::Exactly(self.batch(writes)),
            Operation::Transact(transaction) => Expected::Exactly(self.transact(transaction, now)),
            Operation::Advance(_) => DONE,
            Operation::Work => {
                let due = self.due(now, ttl_delay);
                for (place, key) in &due {
                    self.table(*place).map(|table| table.items.remove(key));
                }
                self.tables.values_mut().for_each(|table| table.maybe_building = false);
                Expected::Exactly(Outcome::Worked { expired: due.len() })
            }
            Operation::Backfill => Expected::Exactly(Outcome::Worked { expired: 0 }),
            Operation::AddIndex => match self.table(Place::Main) {
                Some(table) if !table.indexes.contains(EXTRA) => {
                    table.indexes.insert(EXTRA.to_owned());
                    table.maybe_building = true;
                    DONE
                }
                _ => Expected::Refusal,
            },
            Operation::DropIndex => match self.table(Place::Main) {
                // Until it is filled an index cannot be dropped; when that is, is up to the engine.
                Some(table) if table.maybe_building && matches!(seen, Some(Outcome::Refused(_))) => {
                    Expected::Refusal
                }
                Some(table) if table.indexes.contains(EXTRA) => {
                    table.indexes.remove(EXTRA);
                    table.maybe_building = false;
                    DONE
                }
                _ => Expected::Refusal,
            },
            Operation::CreateTable => match self.tables.contains_key(&Place::Second) {
                true => Expected::Refusal,
                false => {
                    self.tables.insert(Place::Second, Table::new(Place::Second));
                    DONE
                }
            },
            Operation::DropTable => match self.tables.remove(&Place::Second) {
                Some(_) => DONE,
                None => Expected::Refusal,
            },
            Operation::SwitchExpiry(on) => match self.table(Place::Main) {
                Some(table) if table.expires != *on => {
                    table.expires = *on;
                    DONE
                }
                _ => Expected::Refusal,
            },
        }
    }

    fn table(&mut self, place: Place) -> Option<&mut Table> {
        self.tables.get_mut(&place)
    }

    fn write(&mut self, write: &Write) -> Outcome {
        let Some(table) = self.table(write.place) else { return no_table() };
        if !holds(write, table.items.get(&write.key)) {
            return Outcome::Refused("ConditionalCheckFailedException");
        }
        make(write, &mut table.items);
        Outcome::Done
    }

    fn batch(&mut self, writes: &[Write]) -> Outcome {
        if writes.iter().any(|write| !self.tables.contains_key(&write.place)) {
            return no_table();
        }
        for write in writes {
            self.write(write);
        }
        Outcome::Done
    }

    fn transact(&mut self, transaction: &Transaction, now: UnixTime) -> Outcome {
        let Transaction { writes, token } = transaction;
        if writes.iter().any(|write| !self.tables.contains_key(&write.place)) {
            return no_table();
        }
        let remembered = token.as_ref().and_then(|token| self.tokens.get(token));
        if let Some(before) = remembered.filter(|before| before.until_seconds > now.seconds()) {
            return if before.writes == *writes {
                Outcome::Done
            } else {
                Outcome::Refused("IdempotentParameterMismatchException")
            };
        }
        let held: Vec<bool> = writes
            .iter()
            .map(|write| {
                holds(write, self.tables.get(&write.place).and_then(|table| table.items.get(&write.key)))
            })
            .collect();
        if held.contains(&false) {
            return Outcome::Canceled(held);
        }
        for write in writes {
            self.write(write);
        }
        if let Some(token) = token {
            let until_seconds = now.seconds() + IDEMPOTENCY_SECONDS;
            self.tokens.insert(token.clone(), Remembered { writes: writes.clone(), until_seconds });
        }
        Outcome::Done
    }

    /// The items that background work removes at this time.
    fn due(&self, now: UnixTime, ttl_delay: Duration) -> Vec<(Place, Key)> {
        let due_seconds = now.seconds() - ttl_delay.as_secs() as i64;
        let oldest_seconds = now.seconds() - TTL_PAST_SECONDS_MAX;
        let is_due = |item: &Item| {
            let expires = item.get(EXPIRES).and_then(AttributeValue::as_number).and_then(Number::to_i64);
            expires.is_some_and(|expires| expires > 0 && (oldest_seconds..due_seconds).contains(&expires))
        };
        let tables = self.tables.iter().filter(|(_, table)| table.expires);
        tables
            .flat_map(|(place, table)| table.items.iter().map(move |(key, item)| (*place, key, item)))
            .filter(|(_, _, item)| is_due(item))
            .map(|(place, key, _)| (place, key.clone()))
            .collect()
    }

    /// What the database shows that this state cannot, if anything.
    fn difference(&self, observed: &Observed) -> Option<String> {
        let places: BTreeSet<Place> = self.tables.keys().copied().collect();
        let seen: BTreeSet<Place> = observed.tables.keys().copied().collect();
        if places != seen {
            return Some(format!("there are the tables {seen:?}, and should be {places:?}"));
        }
        for (place, table) in &self.tables {
            let seen = &observed.tables[place];
            if seen.indexes != table.indexes {
                return Some(format!(
                    "{place:?} has the indexes {:?}, and should have {:?}",
                    seen.indexes, table.indexes
                ));
            }
            if seen.expires != table.expires {
                return Some(format!("TTL of {place:?} is {}, and should not be", seen.expires));
            }
            for key in table.items.keys().chain(seen.items.keys()) {
                let (seen, expected) = (seen.items.get(key), table.items.get(key));
                let may_be_gone = seen.is_none() && self.maybe_expired.contains(&(*place, key.clone()));
                if seen != expected && !may_be_gone {
                    return Some(format!(
                        "in {place:?} at {key:?} there is {seen:?}, and should be {expected:?}"
                    ));
                }
            }
        }
        None
    }

    /// Forgets what may have expired: it has been seen.
    fn settle(&mut self, observed: &Observed) {
        for (place, key) in std::mem::take(&mut self.maybe_expired) {
            if let (Some(table), Some(seen)) = (self.tables.get_mut(&place), observed.tables.get(&place))
                && !seen.items.contains_key(&key)
            {
                table.items.remove(&key);
            }
        }
    }
}

fn no_table() -> Outcome {
    Outcome::Refused("ResourceNotFoundException")
}

fn holds(write: &Write, item: Option<&Item>) -> bool {
    match &write.condition {
        None => true,
        Some(Requires::Present) => item.is_some(),
        Some(Requires::Absent) => item.is_none(),
        Some(Requires::CountIs(count)) => {
            item.and_then(|item| item.get(COUNT)) == Some(&AttributeValue::from(*count))
        }
    }
}

fn make(write: &Write, items: &mut BTreeMap<Key, Item>) {
    let key = || write.key.clone();
    match &write.action {
        Action::Put(attributes) => drop(items.insert(key(), write.item(attributes))),
        Action::Delete => drop(items.remove(&write.key)),
        Action::Check => {}
        Action::Count(by) => {
            let item = items.entry(key()).or_insert_with(|| write.key.attributes());
            let before = item.get(COUNT).and_then(AttributeValue::as_number).and_then(Number::to_i64);
            item.insert(COUNT, before.unwrap_or(0) + by);
        }
        Action::Paint(Some(colour)) => {
            items.entry(key()).or_insert_with(|| write.key.attributes()).insert(COLOUR, *colour);
        }
        // An update that only removes makes no item.
        Action::Paint(None) => {
            if let Some(item) = items.get_mut(&write.key) {
                item.remove(COLOUR);
                item.remove(EXPIRES);
            }
        }
    }
}
