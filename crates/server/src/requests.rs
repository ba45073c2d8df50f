//! The last requests that were answered, for whoever looks on: what was asked of which table, how long that took, what it
//! consumed, what went wrong. Nothing of an item and no key is kept.
//!
//! They are kept only where somebody asked for it ([`Server::requests`](crate::Server::requests)). A request then costs a
//! name's copy and a short lock more.

use std::collections::VecDeque;
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
pub struct Requests(Mutex<VecDeque<Asked>>);

impl Requests {
    /// A copy of what is there now.
    pub fn last(&self) -> Vec<Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn push(&self, asked: Asked) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(asked);
    }
}

/// A request on its way to its answer.
#[derive(Debug)]
pub(crate) struct Underway {
    asked: Asked,
    begun: Instant,
    /// The client does not want to know the units.
    hide_units: bool,
}

impl Underway {
    pub(crate) fn new(operation: Operation, at: UnixTime) -> Self {
        let took = Duration::ZERO;
        let asked = Asked { at, operation, table: None, tables: 0, units: 0.0, took, error: None };
        Self { asked, begun: Instant::now(), hide_units: false }
    }

    /// The request has been read.
    pub(crate) fn read(&mut self, request: &mut Request) {
        let tables = request.tables();
        self.asked.tables = tables.len();
        self.asked.table = tables.first().map(|table| (*table).clone());
        if let Some(capacity @ ReturnCapacity::None) = request.capacity() {
            *capacity = ReturnCapacity::Total;
            self.hide_units = true;
        }
    }

    pub(crate) fn answered(&mut self, response: &mut Response) {
        self.asked.units = response.units();
        if self.hide_units {
            response.without_units();
        }
    }

    pub(crate) fn end<T>(self, outcome: &Result<T, ApiError>, requests: &Requests) {
        let error = outcome.as_ref().err().map(ApiError::code);
        requests.push(Asked { took: self.begun.elapsed(), error, ..self.asked });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thousand_are_kept() {
        let requests = Requests::default();
        let outcome: Result<(), ApiError> = Err(ApiError::Throttled);
        for at in 0..KEPT as i64 + 5 {
            Underway::new(Operation::GetItem, UnixTime::from_seconds(at)).end(&outcome, &requests);
        }
        let last = requests.last();
        assert_eq!((last.len(), last[0].at.seconds()), (KEPT, 5));
        assert_eq!(last[0].error, Some(ApiError::Throttled.code()));
    }
}
