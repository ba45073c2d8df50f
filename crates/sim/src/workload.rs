//! Which operation comes next.

use std::time::Duration;

use larder_model::{AttributeValue, Item, UnixTime};

use crate::operation::{Action, Operation, Requires, Transaction, Write};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::schema::{COLOUR, COUNT, EXPIRES, GROUP, Key, NOTE, Place, RANK};

const COLOURS: [&str; 3] = ["red", "green", "blue"];

/// A source of operations. What it asks for follows from its seed and from the answers.
#[derive(Clone, Debug)]
pub struct Workload {
    random: Random,
    /// Begins the partition keys, so that workloads can share a table without sharing items.
    prefix: String,
    tables: bool,
    tokens: Vec<Transaction>,
    tokens_made: u64,
}

impl Workload {
    /// One that does everything.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            prefix: "p".to_owned(),
            tables: true,
            tokens: Vec::new(),
            tokens_made: 0,
        }
    }

    /// One that only writes items whose partition keys begin with `prefix`, none of which expires.
    pub fn of_items(seed: u64, prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), tables: false, ..Self::new(seed) }
    }

    pub fn next(&mut self, oracle: &Oracle, now: UnixTime) -> Operation {
        match self.random.below(if self.tables { 24 } else { 15 }) {
            0..=7 => Operation::Write(self.write(oracle, now)),
            8..=10 => Operation::Batch(self.batch(oracle, now)),
            11..=14 => Operation::Transact(self.transaction(oracle, now)),
            15 => Operation::Advance(Duration::from_secs(*self.random.pick(&[1, 60, 700]))),
            16 | 17 => Operation::Work,
            18 => Operation::Backfill,
            19 => Operation::AddIndex,
            20 => Operation::DropIndex,
            21 => Operation::CreateTable,
            22 => Operation::DropTable,
            _ => Operation::SwitchExpiry(!self.random.one_in(3)),
        }
    }

    /// All transactions that were made under a token, to be asked for again.
    pub fn tokens(&self) -> &[Transaction] {
        &self.tokens
    }

    fn write(&mut self, oracle: &Oracle, now: UnixTime) -> Write {
        let place = self.place(oracle);
        let key = self.key();
        let action = match self.random.below(8) {
            0..=2 => Action::Put(self.attributes(now)),
            3 | 4 => Action::Count(self.random.between(-3, 9)),
            5 => Action::Paint(self.colour()),
            _ => Action::Delete,
        };
        let condition = match self.random.below(6) {
            0 => Some(Requires::Present),
            1 => Some(Requires::Absent),
            2 => Some(Requires::CountIs(oracle.some_count(place, &key).unwrap_or(1))),
            _ => None,
        };
        Write { place, key, action, condition }
    }

    fn batch(&mut self, oracle: &Oracle, now: UnixTime) -> Vec<Write> {
        let mut writes: Vec<Write> = Vec::new();
        for _ in 0..self.random.between(1, 6) {
            let (place, key) = (self.place(oracle), self.key());
            if writes.iter().any(|write| (write.place, &write.key) == (place, &key)) {
                continue;
            }
            let put = !self.random.one_in(4);
            let action = if put { Action::Put(self.attributes(now)) } else { Action::Delete };
            writes.push(Write { place, key, action, condition: None });
        }
        writes
    }

    fn transaction(&mut self, oracle: &Oracle, now: UnixTime) -> Transaction {
        if !self.tokens.is_empty() && self.random.one_in(4) {
            let mut again = self.random.pick(&self.tokens).clone();
            if self.random.one_in(4) {
                again.writes.truncate(1);
                again.writes[0].condition = Some(Requires::CountIs(-1000));
            }
            return again;
        }
        let mut writes: Vec<Write> = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            let mut write = self.write(oracle, now);
            // Most should succeed.
            if self.random.one_in(2) {
                write.condition = None;
            }
            if write.condition.is_some() && self.random.one_in(3) {
                write.action = Action::Check;
            }
            if writes.iter().all(|other| (other.place, &other.key) != (write.place, &write.key)) {
                writes.push(write);
            }
        }
        let token = self.random.one_in(2).then(|| {
            self.tokens_made += 1;
            format!("{}-token-{}", self.prefix, self.tokens_made)
        });
        let transaction = Transaction { writes, token };
        if transaction.token.is_some() {
            self.tokens.push(transaction.clone());
        }
        transaction
    }

    fn place(&mut self, oracle: &Oracle) -> Place {
        let second = self.tables && self.random.one_in(if oracle.has(Place::Second) { 3 } else { 40 });
        if second { Place::Second } else { Place::Main }
    }

    fn key(&mut self) -> Key {
        Key(format!("{}{}", self.prefix, self.random.below(4)), self.random.between(0, 5))
    }

    fn colour(&mut self) -> Option<&'static str> {
        (!self.random.one_in(3)).then(|| *self.random.pick(&COLOURS))
    }

    fn attributes(&mut self, now: UnixTime) -> Item {
        let mut item = Item::new();
        if !self.random.one_in(4) {
            item.insert(GROUP, format!("g{}", self.random.below(3)));
        }
        if !self.random.one_in(4) {
            item.insert(COUNT, self.random.between(-5, 5));
        }
        if let Some(colour) = self.colour() {
            item.insert(COLOUR, colour);
        }
        if self.random.one_in(2) {
            item.insert(RANK, self.random.between(0, 9));
        }
        if self.random.one_in(3) {
            // Now and then longer than a page.
            let length = if self.random.one_in(8) { 9000 } else { self.random.below(200) };
            item.insert(NOTE, "x".repeat(length as usize));
        }
        if self.tables && self.random.one_in(3) {
            item.insert(EXPIRES, self.expiry(now));
        }
        item
    }

    fn expiry(&mut self, now: UnixTime) -> AttributeValue {
        const SIX_YEARS_SECONDS: i64 = 6 * 365 * 24 * 60 * 60;
        match self.random.below(8) {
            0 => AttributeValue::from("not a time"),
            1 => AttributeValue::from(0),
            2 => AttributeValue::from(now.seconds() - SIX_YEARS_SECONDS),
            _ => AttributeValue::from(now.seconds() + self.random.between(-100, 300)),
        }
    }
}
