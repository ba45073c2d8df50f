//! The path of a request, top to bottom.

use hyper::body::Bytes;
use larder_engine::Engine;
use larder_engine::metrics::Operation;
use larder_engine::ops::Request;
use larder_model::{ApiError, UnixTime};

use crate::budget::{SMALL_BYTES, Share};

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
}

impl Pipeline {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    pub(crate) async fn handle(&self, call: Call<'_>, now: UnixTime) -> Result<Answered, ApiError> {
        let Call { target, host, skip_damaged, body, share } = call;
        let refused = |error: &ApiError| {
            let name = target.split_once('.').map_or("", |(_, name)| name);
            self.engine.count_refused(Operation::named(name), error);
        };
        #[cfg(test)]
        assert_ne!(target, tests::PANIC, "told to");
        let (mut request, bytes) = larder_wire::decode_measured(target, &body).inspect_err(refused)?;
        // From here on the request is its values; a write holds them until it is on disk.
        drop(body);
        share.grow_to(bytes).map_err(|_| ApiError::Throttled).inspect_err(refused)?;
        share.set(bytes.max(SMALL_BYTES));
        let repeatable = !changes(&request);
        if let Request::DescribeEndpoints = request {
            // A client that asks is to stay with the address it asked.
            let body = larder_wire::encode_endpoints(host);
            return Ok(Answered { body, skipped: Vec::new() });
        }
        if skip_damaged {
            request.skip_damaged();
        }
        let response = self.engine.execute(request, now).await?;
        let answer = larder_wire::encode(&response)?;
        match share.grow_to(answer.len()) {
            // What has changed something is answered, or the client would do it again.
            Err(_) if repeatable => return Err(ApiError::Throttled).inspect_err(refused),
            _ => share.set(answer.len().max(SMALL_BYTES)),
        }
        Ok(Answered { body: answer, skipped: response.skipped().to_vec() })
    }
}

/// Whether the store is another once the request is carried out.
fn changes(request: &Request) -> bool {
    !matches!(
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
    /// In tests, a handler panics when it is asked for this.
    pub(crate) const PANIC: &str = "Tests.Panic";
}
