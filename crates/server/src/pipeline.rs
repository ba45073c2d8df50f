//! The path of a request, top to bottom.

use larder_engine::Engine;
use larder_engine::metrics::Operation;
use larder_engine::ops::Request;
use larder_model::{ApiError, UnixTime};

/// What the protocol takes from an HTTP request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// `X-Amz-Target`, empty when absent.
    pub(crate) target: &'a str,
    /// The host and port the client used.
    pub(crate) host: &'a str,
    pub(crate) body: &'a [u8],
}

#[derive(Debug)]
pub(crate) struct Pipeline {
    engine: Engine,
}

impl Pipeline {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    pub(crate) async fn handle(&self, call: Call<'_>, now: UnixTime) -> Result<Vec<u8>, ApiError> {
        let request = larder_wire::decode(call.target, call.body).inspect_err(|error| {
            let name = call.target.split_once('.').map_or("", |(_, name)| name);
            self.engine.count_refused(Operation::named(name), error);
        })?;
        if let Request::DescribeEndpoints = request {
            // A client that asks is to stay with the address it asked.
            return Ok(larder_wire::encode_endpoints(call.host));
        }
        let response = self.engine.execute(request, now).await?;
        larder_wire::encode(&response)
    }
}
