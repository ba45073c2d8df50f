//! A store that notes what it is asked and fails when told to; for tests.
//!
//! [`Store::memory`](super::Store::memory) is one; [`Store::observed`](super::Store::observed) makes one of any
//! store. Any other store knows nothing of it and pays nothing for it. Faults and the record are about items:
//! operations on tables, and requests of [`Store::sdk_client`](super::Store::sdk_client), pass through.

use std::sync::Arc;

use async_trait::async_trait;
use larder_ops::{Request, Response};

use super::items::operation;
use super::layered::Layer;
use super::{Backend, Error, Fault, Faults, Requests};

/// What tests see of an observed store.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Probes {
    pub(super) faults: Faults,
    pub(super) requests: Requests,
}

#[async_trait]
impl Layer for Probes {
    async fn execute(&self, below: &Arc<dyn Backend>, request: Request) -> Result<Response, Error> {
        let operation = operation(&request);
        self.requests.note(operation, &request);
        let draw = self.faults.draw(operation);
        if let Some(delay) = draw.delay {
            tokio::time::sleep(delay).await;
        }
        let place = || below.place();
        let cause = || "a fault was asked for".to_owned();
        match draw.fault {
            None => below.execute(request).await,
            Some(Fault::Throttle) => Err(Error::Throttled(cause())),
            Some(Fault::Error) => {
                Err(Error::Refused { code: "InternalServerError".to_owned(), message: cause() })
            }
            Some(Fault::Unreachable) => Err(Error::Unreachable { place: place(), cause: cause() }),
            Some(Fault::LostAnswer) => {
                below.execute(request).await?;
                Err(Error::Unanswered { place: place(), cause: cause() })
            }
        }
    }

    fn probes(&self) -> Option<&Probes> {
        Some(self)
    }
}
