//! The path of a request, top to bottom: [`Pipeline::handle`] is all of it.
//!
//! A large body is read into values on a thread of its own, because that takes long and the threads that serve
//! connections have others to answer.

use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;

use hyper::body::Bytes;
use hyper::http::request::Parts;
use larder_auth::Access;
use larder_engine::metrics::Operation;
use larder_engine::ops::{Request, Response, Statement};
use larder_engine::{Engine, Naming, Said};
use larder_model::{ApiError, Space, UnixTime};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::access::{Gate, Stranger, Visitor};
use crate::budget::{SMALL_BYTES, Share};
use crate::connections::Peer;
use crate::encoding::unpacked;
use crate::guests::Guest;
use crate::requests::{Requests, Underway};

/// The largest body that is read where it lies: another thread takes longer to begin.
const READ_HERE_BYTES_MAX: usize = 64 * 1024;
/// Larger ones that are read at once: each may become a hundred megabytes of values before it is refused.
const LARGE_AT_ONCE: usize = 2;

/// What a byte of a body usually takes once it is read, itself included. Afterwards it is known.
const READ_PER_BYTE: usize = 5;

/// What the protocol takes from an HTTP request.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) sender: Sender<'a>,
    /// `X-Amz-Target`, empty when absent.
    pub(crate) target: &'a str,
    /// The host and port the client used.
    pub(crate) host: &'a str,
    /// `Content-Encoding`, empty when absent.
    pub(crate) encoding: &'a str,
    /// A scan or a query is to leave out what is damaged.
    pub(crate) skip_damaged: bool,
    /// As it came.
    pub(crate) body: Bytes,
    /// What the request has of the memory for requests.
    pub(crate) share: &'a mut Share,
}

/// How a request shows who sent it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sender<'a> {
    /// By its signature, where that is asked for.
    Signed(&'a Parts, Peer),
    /// By a key that was shown before.
    Guest(&'a Guest),
}

/// What the protocol answers.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) body: Vec<u8>,
    /// What was left out because it is damaged, by name.
    pub(crate) skipped: Vec<String>,
}

/// Why a request was not carried out.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Nobody knows who sent it. The answer may have to wait.
    Stranger(Stranger),
    /// There is too much in it, once it is unpacked.
    TooLarge,
    Error(ApiError),
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self::Error(error)
    }
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

    /// Answers a request, and notes it for whoever looks on.
    pub(crate) async fn answer(&self, mut call: Call<'_>, now: UnixTime) -> Result<Answered, Refused> {
        let Some(requests) = &self.requests else { return self.handle(&mut call, now, &mut None).await };
        let mut underway = Some(Underway::new(operation(call.target), now));
        let outcome = self.handle(&mut call, now, &mut underway).await;
        let error = match &outcome {
            Ok(_) => None,
            Err(Refused::Error(error)) => Some(error),
            // That is no request of anybody's.
            Err(Refused::Stranger(_) | Refused::TooLarge) => return outcome,
        };
        if let Some(underway) = underway {
            underway.end(error, requests);
        }
        outcome
    }

    async fn handle(
        &self,
        call: &mut Call<'_>,
        now: UnixTime,
        underway: &mut Option<Underway>,
    ) -> Result<Answered, Refused> {
        let access = self.gate.access();
        let visitor = self.authenticate(access.as_deref(), call)?;
        let (mut request, said) = self.decode(&visitor, call).await?;
        self.authorize(&visitor, call, &mut request)?;
        let is_repeatable = prepare(&mut request, call, underway);
        let everybodys = Space::default();
        let space = visitor.space.as_ref().unwrap_or(&everybodys);
        let executed = self.engine.execute_in(space, request, now).await;
        let mut response = executed.map_err(|error| visitor.told(error))?;
        response.show_as(&said);
        self.encode(call, response, is_repeatable, underway)
    }

    /// Who sent it. What is signed is the body as it came.
    fn authenticate<'a>(&self, access: Option<&'a Access>, call: &Call<'a>) -> Result<Visitor<'a>, Refused> {
        match call.sender {
            Sender::Signed(head, peer) => {
                self.gate.authenticate(access, head, &call.body, peer).map_err(Refused::Stranger)
            }
            Sender::Guest(guest) => Ok(guest.among(access)?),
        }
    }

    /// What is asked for, and what names in it were.
    async fn decode(&self, visitor: &Visitor<'_>, call: &mut Call<'_>) -> Result<(Request, Said), Refused> {
        #[cfg(test)]
        assert_ne!(call.target, tests::PANIC, "told to");
        let body = unpacked(call.encoding, mem::take(&mut call.body))?;
        if body.len() > SMALL_BYTES {
            self.fits(call, body.len() * READ_PER_BYTE)?;
        }
        // What values take is known once they are read: few are read at a time that nobody has counted yet.
        let uncounted = if body.len() > READ_HERE_BYTES_MAX { self.large.acquire().await.ok() } else { None };
        // From here on the request is its values; a write holds them until it is on disk.
        let (request, bytes, said) =
            read(call.target, body, visitor.space.as_ref()).await.map_err(|error| {
                self.count_refused(call, &error);
                self.gate.note_unread(visitor, call.target, &error);
                visitor.told(error)
            })?;
        self.fits(call, bytes)?;
        drop(uncounted);
        call.share.set(bytes.max(SMALL_BYTES));
        Ok((request, said))
    }

    /// Whether they may, and whether a policy that is put is one.
    fn authorize(
        &self,
        visitor: &Visitor<'_>,
        call: &Call<'_>,
        request: &mut Request,
    ) -> Result<(), ApiError> {
        let allowed = self.gate.authorize(visitor, request, &self.engine).and_then(|()| {
            larder_auth::check_policy(request).map_err(|refusal| ApiError::Validation(refusal.to_string()))
        });
        allowed.inspect_err(|error| self.count_refused(call, error))
    }

    fn encode(
        &self,
        call: &mut Call<'_>,
        mut response: Response,
        is_repeatable: bool,
        underway: &mut Option<Underway>,
    ) -> Result<Answered, Refused> {
        if let Some(underway) = underway {
            underway.answered(&mut response);
        }
        let body = match &response {
            // A client that asks is to stay with the address it asked.
            Response::DescribeEndpoints => larder_wire::encode_endpoints(call.host),
            _ => larder_wire::encode(&response)?,
        };
        if is_repeatable {
            self.fits(call, body.len())?;
        }
        // What has changed something is answered, or the client would do it again.
        call.share.set(body.len().max(SMALL_BYTES));
        Ok(Answered { body, skipped: response.skipped().to_vec() })
    }

    /// Has the request have this much of the memory for requests, if that is there.
    fn fits(&self, call: &mut Call<'_>, bytes: usize) -> Result<(), ApiError> {
        call.share
            .grow_to(bytes)
            .map_err(|_| ApiError::Throttled)
            .inspect_err(|error| self.count_refused(call, error))
    }

    fn count_refused(&self, call: &Call<'_>, error: &ApiError) {
        self.engine.count_refused(operation(call.target), error);
    }
}

/// Makes a request that may be carried out ready for that, and says whether it can be carried out again.
fn prepare(request: &mut Request, call: &Call<'_>, underway: &mut Option<Underway>) -> bool {
    if call.skip_damaged {
        request.skip_damaged();
    }
    if let Some(underway) = underway {
        underway.read(request);
    }
    !changes(request)
}

/// What a request says it is.
fn operation(target: &str) -> Operation {
    Operation::named(target.split_once('.').map_or("", |(_, name)| name))
}

async fn read(target: &str, body: Bytes, space: Option<&Space>) -> Result<(Request, usize, Said), ApiError> {
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

    fn head() -> Parts {
        hyper::Request::post("/").body(()).unwrap().into_parts().0
    }

    fn call<'a>(head: &'a Parts, target: &'a str, body: String, share: &'a mut Share) -> Call<'a> {
        let peer = Peer { address: (std::net::Ipv4Addr::LOCALHOST, 1).into(), secure: false };
        let sender = Sender::Signed(head, peer);
        Call { sender, target, host: "here", encoding: "", skip_damaged: false, body: body.into(), share }
    }

    /// A future is moved whole, again and again on its way down: a GetItem would pay for the room of the largest write.
    #[tokio::test]
    async fn a_request_on_its_way_is_small() {
        let pipeline = Pipeline::new(Engine::memory().unwrap(), Arc::default(), Some(Arc::default()));
        let (head, mut share) = (head(), Budget::new(1 << 30).outside());
        let call = call(&head, "", String::new(), &mut share);
        let bytes = size_of_val(&pipeline.answer(call, UnixTime::from_seconds(0)));
        assert!(bytes < 3 * 1024, "{bytes}");
    }

    #[test]
    fn the_path_in_the_style_guide_is_this_one() {
        let (code, style) = (include_str!("pipeline.rs"), include_str!("../../../STYLE.md"));
        let from = code.find("    async fn handle(").unwrap();
        let to = from + code[from..].find("\n    }\n").unwrap() + "\n    }\n".len();
        let shown: String = code[from..to].lines().map(|line| format!("{}\n", &line[4..])).collect();
        assert!(style.contains(&shown), "STYLE.md, One direction:\n{shown}");
    }

    #[tokio::test]
    async fn large_bodies_are_read_elsewhere_and_small_ones_at_once() {
        let pipeline = Pipeline::new(Engine::memory().unwrap(), Arc::default(), None);
        for (numbers, is_large) in [(1, false), (200_000, true)] {
            let set = (0..numbers).map(|n| format!(r#""{n}""#)).collect::<Vec<_>>().join(",");
            let body = format!(r#"{{"TableName":"none","Item":{{"pk":{{"S":"a"}},"v":{{"NS":[{set}]}}}}}}"#);
            let (head, mut share) = (head(), Budget::new(1 << 30).outside());
            let call = call(&head, "DynamoDB_20120810.PutItem", body, &mut share);
            let mut handled = pin!(pipeline.answer(call, UnixTime::from_seconds(0)));
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
            let Err(Refused::Error(error)) = answered else { panic!("{answered:?}") };
            assert_eq!(
                error.code(),
                if is_large { "ValidationException" } else { "ResourceNotFoundException" }
            );
        }
    }
}
