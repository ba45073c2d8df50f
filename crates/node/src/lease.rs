//! Leases that JavaScript holds by number.
//!
//! Each lives in a task of its own, which tells JavaScript when the lease is lost and ends it as it is asked to. A lease that
//! is let go of stops being renewed, and is somebody else's when its time is over.

use std::sync::Arc;

use larder::{Entry, Error, Lease};
use larder_schema::Fields;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::errors::error_json;
use crate::{LEASE_LOST, Shared};

/// A claim that goes on.
pub(crate) type Claims = Mutex<larder::Claims<Entry>>;

/// What a lease is asked.
pub(crate) enum Order {
    Renew,
    Until,
    Finish,
    Run(String, Fields),
    Release,
    Retry(String),
}

/// How it answers.
pub(crate) enum Done {
    Record(Box<Entry>),
    Until(Option<i64>),
    Nothing,
}

type Asked = (Order, oneshot::Sender<Result<Done, Error>>);

/// The way to a lease.
#[derive(Clone)]
pub(crate) struct Handle(mpsc::UnboundedSender<Asked>);

impl Handle {
    /// Keeps a lease under a number.
    pub(crate) fn keep(shared: &Arc<Shared>, id: u32, lease: Lease<Entry>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let shared = Arc::clone(shared);
        tokio::spawn(live(shared, id, lease, receiver));
        Self(sender)
    }

    /// `None` when it is over already.
    pub(crate) async fn ask(&self, order: Order) -> Option<Result<Done, Error>> {
        let (sender, receiver) = oneshot::channel();
        self.0.send((order, sender)).ok()?;
        receiver.await.ok()
    }
}

async fn live(shared: Arc<Shared>, id: u32, lease: Lease<Entry>, mut orders: mpsc::UnboundedReceiver<Asked>) {
    let mut told = false;
    loop {
        let asked = tokio::select! {
            asked = orders.recv() => asked,
            Err(lost) = lease.work(std::future::pending::<()>()), if !told => {
                told = true;
                shared.tell(LEASE_LOST, id, error_json(&lost).to_string());
                continue;
            }
        };
        let Some((order, answer)) = asked else { return };
        let record = |done: Result<Entry, Error>| done.map(|entry| Done::Record(Box::new(entry)));
        let done = match order {
            Order::Renew => {
                let _ = answer.send(lease.renew().await.map(|()| Done::Nothing));
                continue;
            }
            Order::Until => {
                let _ = answer.send(Ok(Done::Until(lease.until().map(|until| until.millis()))));
                continue;
            }
            Order::Finish => record(lease.finish().await),
            Order::Run(transition, params) => record(lease.run(&transition, params).await),
            Order::Release => record(lease.release().await),
            Order::Retry(error) => lease.retry(error).await.map(|()| Done::Nothing),
        };
        // Whoever asked may have gone.
        let _ = answer.send(done);
        return;
    }
}
