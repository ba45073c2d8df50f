//! A store that is waited for no longer than the schema says.
//!
//! A caller that can do without the store has [short patience](Patience::short): the answer has to come within the short timeout, and a
//! store that has failed so often in a row that it is left alone is not asked at all. Everybody else waits as long as
//! the long timeout and always asks: a write that is given up at once is lost, and there is nobody else to ask.
//! All of them tell the breaker how it went. [`at_most`] puts another time in the place of either. A read that is
//! answered in pieces may take that long for each; what a store that fails has taken counts against what is asked next.
//!
//! A read that was given up goes on by itself until the long timeout, because what it waits for may be of use to the
//! next one: credentials, a name, a connection. A write that was given up is dropped, so that it cannot land after a
//! later one.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use larder_ops::{Request, Response};
use larder_schema::schema::StoreLimits;
use tokio::time::{Instant, timeout};

use super::layered::{Layer, Layered};
use super::{Backend, Error, Store};
use crate::batch;
use crate::breaker::Breaker;

/// A limit this long needs no timer.
const FOREVER: Duration = Duration::from_millis(i64::MAX as u64);

tokio::task_local! {
    static PATIENCE: Patience;
    /// Whether a request was given up because its time was over.
    static GAVE_UP: Cell<bool>;
}

/// How long a caller will wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    is_short: bool,
    /// Instead of what the schema says.
    at_most: Option<Duration>,
    /// What a store that failed has cost already.
    spent: Duration,
}

impl Patience {
    /// Of whoever needs the store.
    pub(crate) fn long() -> Self {
        PATIENCE.try_with(|patience| *patience).unwrap_or_default()
    }

    /// Of whoever can go on without it.
    pub(crate) fn short() -> Self {
        Self { is_short: true, ..Self::long() }
    }

    /// What is left of it after a store has failed.
    pub(crate) fn after(self, spent: Duration) -> Self {
        Self { spent: self.spent + spent, ..self }
    }

    /// Runs requests with this patience.
    pub(crate) async fn keep<F: Future>(self, calls: F) -> F::Output {
        PATIENCE.scope(self, calls).await
    }
}

/// Calls of the layer, each of whose requests to a store is given up after so long, whatever the schema says.
///
/// A [`fetch`](crate::Shelf::fetch) then goes on without the store, where the schema says `on_error open`; a write is an
/// error. The source is waited for as ever, and so is the store by whoever writes behind.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::Pages;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// # let load = |url: String| async move { Ok::<_, std::io::Error>(format!("the text of {url}")) };
/// use std::time::Duration;
///
/// pages.store().faults().delay(1.0, Duration::from_secs(60)); // the store hangs
/// let page = larder::at_most(Duration::from_millis(20), pages.pages().fetch("https://example.com/", load)).await?;
/// assert!(page.store_error().expect("it did not answer").to_string().ends_with("no answer in 20 ms"));
/// # Ok(())
/// # }
/// ```
pub async fn at_most<F: Future>(limit: Duration, calls: F) -> F::Output {
    Patience { at_most: Some(limit), ..Patience::long() }.keep(calls).await
}

/// Makes a call up to `most` times while that is wanted for its outcome. All of them together take no longer than the first one may.
pub(crate) async fn again<T, F: Future<Output = T>>(
    most: u32,
    call: impl Fn() -> F,
    mut is_wanted: impl FnMut(&T) -> bool,
) -> T {
    let begun = Instant::now();
    let mut attempt = 1;
    loop {
        // Boxed: a call is moved several times before it runs.
        let calls = Patience::long().after(begun.elapsed()).keep(Box::pin(call()));
        let (outcome, gave_up) = GAVE_UP
            .scope(Cell::new(false), async {
                let outcome = calls.await;
                (outcome, GAVE_UP.with(Cell::get))
            })
            .await;
        if gave_up {
            let _ = GAVE_UP.try_with(|outer| outer.set(true));
        }
        if !is_wanted(&outcome) || gave_up || attempt >= most {
            return outcome;
        }
        batch::pause(attempt).await;
        attempt += 1;
    }
}

#[derive(Clone, Debug)]
struct Bounded {
    short: Duration,
    long: Duration,
    breaker: Arc<Breaker>,
}

impl Store {
    /// The same store, asked as the schema says. What is bounded together is left alone together.
    pub(crate) fn bounded(&self, limits: &StoreLimits, breaker: &Arc<Breaker>) -> Self {
        let millis = |millis: i64| Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        let mut limits = *limits;
        // What is in the process does not hang, and a store that is observed is a test's: a busy machine is no reason for a
        // miss or an error, unless the schema says so.
        let is_waited_for = self.is_embedded() || self.0.probes().is_some();
        if is_waited_for && limits.timeout_millis == StoreLimits::default().timeout_millis {
            limits.timeout_millis = (i64::MAX, i64::MAX);
        }
        let (short, long) = limits.timeout_millis;
        let below = self.0.limited(&limits).unwrap_or_else(|| Arc::clone(&self.0));
        let layer = Bounded { short: millis(short), long: millis(long), breaker: Arc::clone(breaker) };
        Self::on(Arc::new(Layered { layer, below }))
    }

    pub(crate) fn breaker(&self, limits: &StoreLimits) -> Breaker {
        let by_kind = (!self.is_embedded()).then_some(StoreLimits::BREAKER);
        Breaker::new(limits.breaker.or(by_kind))
    }
}

#[async_trait]
impl Layer for Bounded {
    async fn execute(&self, below: &Arc<dyn Backend>, request: Request) -> Result<Response, Error> {
        let patience = Patience::long();
        if patience.is_short {
            self.breaker.may_call().map_err(|failures| Error::Unreachable {
                place: below.place(),
                cause: format!("it is left alone after {failures} failures in a row"),
            })?;
        }
        let whole = patience.at_most.unwrap_or(if patience.is_short { self.short } else { self.long });
        let limit = whole.saturating_sub(patience.spent);
        let no_answer = || {
            let _ = GAVE_UP.try_with(|gave_up| gave_up.set(true));
            let cause = format!("no answer in {} ms", whole.as_millis());
            Error::Unanswered { place: below.place(), cause }
        };
        if limit.is_zero() {
            return Err(no_answer());
        }
        let keeps_running = is_read(&request);
        let asked = Arc::clone(below);
        let mut call = Box::pin(async move { asked.execute(request).await });
        // A store in the process mostly answers at once, and needs no timer for it.
        let waited = match (&mut call).now_or_never() {
            Some(outcome) => Ok(outcome),
            None if limit >= FOREVER => Ok(call.as_mut().await),
            None => timeout(limit, &mut call).await,
        };
        let outcome = match waited {
            Ok(outcome) => outcome,
            Err(_) => {
                if let (true, Some(rest)) = (keeps_running, self.long.checked_sub(limit)) {
                    tokio::spawn(timeout(rest, call));
                }
                Err(no_answer())
            }
        };
        match &outcome {
            Err(error) if error.is_outage() => self.breaker.failed(),
            Ok(_) | Err(_) => self.breaker.succeeded(),
        }
        outcome
    }
}

fn is_read(request: &Request) -> bool {
    matches!(
        request,
        Request::GetItem(_)
            | Request::Query(_)
            | Request::Scan(_)
            | Request::BatchGetItem(_)
            | Request::TransactGetItems(_)
    )
}
