//! The path of a request, top to bottom.
//!
//! A large body is read into values on a thread of its own, because that takes long and the threads that serve
//! connections have others to answer.

use std::panic::resume_unwind;
use std::sync::Arc;

use hyper::body::Bytes;
use larder_engine::metrics::Operation;
use larder_engine::ops::{Request, Statement};
use larder_engine::{Engine, Naming};
use larder_model::{ApiError, Space, UnixTime};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::access::{Gate, Visitor};
use crate::budget::{SMALL_BYTES, Share};
use crate::requests::{Requests, Underway};

/// The largest body that is read where it lies: another thread takes longer to begin.
const READ_HERE_BYTES_MAX: usize = 64 * 1024;
/// Larger ones that are read at once: each may become a hundred megabytes of values before it is refused.
const LARGE_AT_ONCE: usize = 2;

/// What the protocol takes from an HTTP request.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// `X-Amz-Target`, empty when absent.
    pub(crate) target: &'a str,
    /// The host and port the client used.
    pub(crate) host: &'a str,
    /// A scan or a query is to leave out what is damaged.
    pub(crate) skip_damaged: bool,
    pub(crate) body: Bytes,
    /// Whoever sent it, known by its signature where that is asked for.
    pub(crate) visitor: &'a Visitor<'a>,
    /// What the request has of the memory for requests.
    pub(crate) share: &'a mut Share,
}

/// What the protocol answers.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) body: Vec<u8>,
    /// What was left out because it is damaged, by name.
    pub(crate) skipped: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Pipeline {
    engine: Engine,
    gate: Arc<Gate>,
    /// Whose turn it is to have a large body read.
    large: Semaphore,
    /// Where requests are noted, if anybody looks on.
    requests: Option<Arc<Requests>>,
}

impl Pipeline {
    pub(crate) fn new(engine: Engine, gate: Arc<Gate>, requests: Option<Arc<Requests>>) -> Self {
        Self { engine, gate, large: Semaphore::new(LARGE_AT_ONCE), requests }
    }

    pub(crate) async fn handle(&self, call: Call<'_>, now: UnixTime) -> Result<Answered, ApiError> {
        let Some(requests) = &self.requests else { return self.carry_out(call, now, None).await };
        let mut underway = Underway::new(operation(call.target), now);
        let outcome = self.carry_out(call, now, Some(&mut underway)).await;
        underway.end(&outcome, requests);
        outcome
    }

    async fn carry_out(
        &self,
        call: Call<'_>,
        now: UnixTime,
        mut underway: Option<&mut Underway>,
    ) -> Result<Answered, ApiError> {
        let Call { target, host, skip_damaged, body, visitor, share } = call;
        let refused = |error: &ApiError| self.engine.count_refused(operation(target), error);
        #[cfg(test)]
        assert_ne!(target, tests::PANIC, "told to");
        // What values take is known once they are read: few are read at a time that nobody has counted yet.
        let uncounted = if body.len() > READ_HERE_BYTES_MAX { self.large.acquire().await.ok() } else { None };
        // From here on the request is its values; a write holds them until it is on disk.
        let noted = |error: &ApiError| self.gate.note_unread(visitor, target, error);
        let space = visitor.space.as_ref();
        let (mut request, bytes) =
            decoded(target, body, space).await.inspect_err(refused).inspect_err(noted)?;
        share.grow_to(bytes).map_err(|_| ApiError::Throttled).inspect_err(refused)?;
        drop(uncounted);
        share.set(bytes.max(SMALL_BYTES));
        self.gate.authorize(visitor, &request, &self.engine).inspect_err(refused)?;
        larder_auth::check_policy(&request)
            .map_err(|refusal| ApiError::Validation(refusal.to_string()))
            .inspect_err(refused)?;
        let repeatable = !changes(&request);
        if let Request::DescribeEndpoints = request {
            // A client that asks is to stay with the address it asked.
            let body = larder_wire::encode_endpoints(host);
            return Ok(Answered { body, skipped: Vec::new() });
        }
        if skip_damaged {
            request.skip_damaged();
        }
        if let Some(underway) = &mut underway {
            underway.read(&mut request);
        }
        let mut response = match space {
            None => self.engine.execute(request, now).await?,
            Some(space) => {
                let mut response = self.engine.execute_in(space, request, now).await?;
                response.show_in(space);
                response
            }
        };
        if let Some(underway) = underway {
            underway.answered(&mut response);
        }
        let answer = larder_wire::encode(&response)?;
        match share.grow_to(answer.len()) {
            // What has changed something is answered, or the client would do it again.
            Err(_) if repeatable => return Err(ApiError::Throttled).inspect_err(refused),
            _ => share.set(answer.len().max(SMALL_BYTES)),
        }
        Ok(Answered { body: answer, skipped: response.skipped().to_vec() })
    }
}

/// What a request says it is.
fn operation(target: &str) -> Operation {
    Operation::named(target.split_once('.').map_or("", |(_, name)| name))
}

async fn decoded(target: &str, body: Bytes, space: Option<&Space>) -> Result<(Request, usize), ApiError> {
    if body.len() <= READ_HERE_BYTES_MAX {
        return larder_wire::decode_measured_in(target, &body, naming(space));
    }
    let (target, space) = (target.to_owned(), space.cloned());
    let decode = move || larder_wire::decode_measured_in(&target, &body, naming(space.as_ref()));
    let decoded = spawn_blocking(decode).await;
    decoded.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

fn naming(space: Option<&Space>) -> Naming<'_> {
    space.map_or(Naming::Shared, Naming::In)
}

/// Whether the store is another once the request is carried out.
fn changes(request: &Request) -> bool {
    let reads = match request {
        Request::ExecuteStatement(execute) => execute.statement.is_read(),
        Request::BatchExecuteStatement(batch) => batch.readable().all(Statement::is_read),
        Request::ExecuteTransaction(transaction) => {
            transaction.statements.iter().all(|each| each.statement.is_read())
        }
        _ => false,
    };
    !reads
        && !matches!(
            request,
            Request::GetItem(_)
                | Request::Query(_)
                | Request::Scan(_)
                | Request::BatchGetItem(_)
                | Request::TransactGetItems(_)
                | Request::GetRecords(_)
        )
}

#[cfg(test)]
pub(crate) mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::budget::Budget;

    /// In tests, a handler panics when it is asked for this.
    pub(crate) const PANIC: &str = "Tests.Panic";

    #[tokio::test]
    async fn large_bodies_are_read_elsewhere_and_small_ones_at_once() {
        let pipeline = Pipeline::new(Engine::memory().unwrap(), Arc::default(), None);
        for (numbers, is_large) in [(1, false), (200_000, true)] {
            let set = (0..numbers).map(|n| format!(r#""{n}""#)).collect::<Vec<_>>().join(",");
            let body = format!(r#"{{"TableName":"none","Item":{{"pk":{{"S":"a"}},"v":{{"NS":[{set}]}}}}}}"#);
            let mut share = Budget::new(1 << 30).outside();
            let call = Call {
                target: "DynamoDB_20120810.PutItem",
                host: "here",
                skip_damaged: false,
                body: body.into(),
                visitor: &Visitor::anybody(),
                share: &mut share,
            };
            let mut handled = pin!(pipeline.handle(call, UnixTime::from_seconds(0)));
            let answered = match handled.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answered) => {
                    assert!(!is_large, "others had to wait for {numbers} numbers");
                    answered
                }
                Poll::Pending => {
                    assert!(is_large);
                    handled.await
                }
            };
            let code = answered.unwrap_err().code();
            assert_eq!(code, if is_large { "ValidationException" } else { "ResourceNotFoundException" });
        }
    }
}
