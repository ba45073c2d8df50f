//! The last requests that were answered, for whoever looks on: what was asked of which table, how long that took, what it
//! consumed, what went wrong. Nothing of an item and no key is kept.
//!
//! They are kept only where somebody asked for it ([`Server::requests`](crate::Server::requests)). A request then costs two looks
//! at a clock and a short lock more: what is kept of the oldest makes room for the newest, and nothing is allocated for it but
//! what tells the units.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use larder_engine::metrics::Operation;
use larder_engine::ops::{Request, Response, ReturnCapacity};
use larder_model::{ApiError, TableName, UnixTime};

/// How many are kept.
const KEPT: usize = 1000;

/// A request that was answered.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When it came, by the server's clock.
    pub at: UnixTime,
    /// What it asked for.
    pub operation: Operation,
    /// The table whose items it was about; of several, the first.
    pub table: Option<TableName>,
    /// How many times it names a table.
    pub tables: usize,
    /// What it consumed. One that was refused does not tell.
    pub units: f64,
    /// From its body to its answer, without the way of either.
    pub took: Duration,
    /// DynamoDB's name of what was wrong.
    pub error: Option<&'static str>,
}

/// The last of them, oldest first.
#[derive(Debug, Default)]
pub struct Requests(Mutex<Ring>);

#[derive(Clone, Debug, Default)]
struct Ring {
    kept: Vec<Kept>,
    /// How many there were.
    count: usize,
}

/// A request as it is kept.
#[derive(Clone, Debug)]
struct Kept {
    at: UnixTime,
    operation: Operation,
    table: Option<Name>,
    tables: usize,
    units: f64,
    took: Duration,
    error: Option<&'static str>,
}

impl Requests {
    /// A copy of what is there now.
    pub fn last(&self) -> Vec<Asked> {
        let Ring { kept, count } = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (newer, older) = kept.split_at(if kept.len() < KEPT { 0 } else { count % KEPT });
        older.iter().chain(newer).map(Kept::asked).collect()
    }

    fn push(&self, kept: Kept) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = ring.count % KEPT;
        ring.count += 1;
        match ring.kept.get_mut(at) {
            Some(oldest) => *oldest = kept,
            None => ring.kept.push(kept),
        }
    }
}

impl Kept {
    fn asked(&self) -> Asked {
        let Self { at, operation, ref table, tables, units, took, error } = *self;
        let table = table.as_ref().and_then(|name| TableName::from_key(name.text()));
        Asked { at, operation, table, tables, units, took, error }
    }
}

/// The name of a table and its space, which takes no memory of its own unless it is long.
#[derive(Clone, Debug)]
enum Name {
    Short { bytes: [u8; NAME_SHORT_BYTES], length: u8 },
    Long(Box<str>),
}

const NAME_SHORT_BYTES: usize = 62;

impl Name {
    fn of(table: &TableName) -> Self {
        let text = table.key();
        let mut bytes = [0; NAME_SHORT_BYTES];
        match bytes.get_mut(..text.len()) {
            Some(room) => {
                room.copy_from_slice(text.as_bytes());
                Self::Short { bytes, length: text.len() as u8 }
            }
            None => Self::Long(text.into()),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Short { bytes, length } => {
                str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or_default()
            }
            Self::Long(text) => text,
        }
    }
}

/// A request on its way to its answer.
#[derive(Debug)]
pub(crate) struct Underway {
    kept: Kept,
    begun: Instant,
    /// The client does not want to know the units.
    hide_units: bool,
}

impl Underway {
    pub(crate) fn new(operation: Operation, at: UnixTime) -> Self {
        let took = Duration::ZERO;
        let kept = Kept { at, operation, table: None, tables: 0, units: 0.0, took, error: None };
        Self { kept, begun: Instant::now(), hide_units: false }
    }

    /// The request has been read.
    pub(crate) fn read(&mut self, request: &mut Request) {
        (self.kept.table, self.kept.tables) = match request.table() {
            Some(one) => (Some(Name::of(one)), 1),
            None => {
                let tables = request.tables();
                (tables.first().map(|table| Name::of(table)), tables.len())
            }
        };
        if let Some(capacity @ ReturnCapacity::None) = request.capacity() {
            *capacity = ReturnCapacity::Total;
            self.hide_units = true;
        }
    }

    pub(crate) fn answered(&mut self, response: &mut Response) {
        self.kept.units = response.units();
        if self.hide_units {
            response.without_units();
        }
    }

    pub(crate) fn end(self, error: Option<&ApiError>, requests: &Requests) {
        let error = error.map(ApiError::code);
        requests.push(Kept { took: self.begun.elapsed(), error, ..self.kept });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thousand_are_kept() {
        let requests = Requests::default();
        for at in 0..KEPT as i64 + 5 {
            Underway::new(Operation::GetItem, UnixTime::from_seconds(at))
                .end(Some(&ApiError::Throttled), &requests);
        }
        let last = requests.last();
        assert_eq!((last.len(), last[0].at.seconds()), (KEPT, 5));
        assert_eq!(last[0].error, Some(ApiError::Throttled.code()));
        assert!(last.is_sorted_by_key(|asked| asked.at.seconds()));
    }

    #[test]
    fn a_name_is_kept_whole_and_with_its_space() {
        let space = larder_model::Space::new("eu-west-1", "123456789012").unwrap();
        for name in
            ["abc", &"n".repeat(NAME_SHORT_BYTES), &"n".repeat(NAME_SHORT_BYTES + 1), &"n".repeat(255)]
        {
            for table in [TableName::new(name).unwrap(), TableName::new(name).unwrap().within(&space)] {
                assert_eq!(TableName::from_key(Name::of(&table).text()), Some(table));
            }
        }
    }
}
