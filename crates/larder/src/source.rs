//! Where data comes from: how a source is called, and what it answers.
//!
//! All entities of a system that come from one source share its pace and its breaker. A call waits for the pace,
//! is given up after the hard timeout, and is tried again after growing pauses, as the schema says. After so many
//! failed calls in a row the source is left alone for a while; then one call tries whether it is back.
//!
//! Waiting is counted by `tokio`'s time, which tests can pause.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use larder_schema::schema::{Pace, Source as Settings};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use crate::backoff;
use crate::breaker::Breaker;
use crate::observe::Observer;

/// Any error of a program.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// What a source answered: a value, that there is none, or that what is kept has not changed.
///
/// A loader may return the bare value, or an `Option` of it: see [`IntoLoad`].
///
/// ```
/// use std::time::Duration;
/// use larder::Load;
///
/// let page = Load::value("…").etag("v7").last_modified("Sat, 14 Nov 2026 10:00:00 GMT").ttl(Duration::from_secs(60));
/// assert_ne!(page, Load::from("…"), "it says more than the bare value");
/// let nothing: Load<&str> = None.into();
/// assert_eq!(nothing, Load::absent());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load<T> {
    pub(crate) answer: Answer<T>,
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
    pub(crate) ttl: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    Value(T),
    Absent,
    NotModified,
}

impl<T> Load<T> {
    /// There is one, and this is it.
    pub fn value(value: T) -> Self {
        Self::of(Answer::Value(value))
    }

    /// There is no such thing.
    pub fn absent() -> Self {
        Self::of(Answer::Absent)
    }

    /// What [`Known`] spoke of has not changed: it is kept for another while.
    pub fn not_modified() -> Self {
        Self::of(Answer::NotModified)
    }

    fn of(answer: Answer<T>) -> Self {
        Self { answer, etag: None, last_modified: None, ttl: None }
    }

    /// What the source calls this version; the next load is told.
    #[must_use]
    pub fn etag(self, etag: impl Into<String>) -> Self {
        Self { etag: Some(etag.into()), ..self }
    }

    /// When the source says this changed last, in its own words; the next load is told.
    #[must_use]
    pub fn last_modified(self, moment: impl Into<String>) -> Self {
        Self { last_modified: Some(moment.into()), ..self }
    }

    /// How long this value is fresh, instead of what the schema says.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }
}

impl<T> Load<T> {
    /// The same answer of another type.
    ///
    /// ```
    /// use larder::Load;
    ///
    /// assert_eq!(Load::value(7).etag("v1").map(|it| it.to_string()), Load::value("7".to_owned()).etag("v1"));
    /// ```
    pub fn map<V>(self, change: impl FnOnce(T) -> V) -> Load<V> {
        let answer = match self.answer {
            Answer::Value(value) => Answer::Value(change(value)),
            Answer::Absent => Answer::Absent,
            Answer::NotModified => Answer::NotModified,
        };
        Load { answer, etag: self.etag, last_modified: self.last_modified, ttl: self.ttl }
    }
}

impl<T> From<T> for Load<T> {
    fn from(value: T) -> Self {
        Self::value(value)
    }
}

impl<T> From<Option<T>> for Load<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(Self::absent, Self::value)
    }
}

/// What a loader may return for a value: the value, an `Option` of it, a [`Load`] of it. Where one thing of a record must come from
/// its source, that thing alone will do too, so that a loader stays as it is when the record gets another field that may be missing.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// use larder::{IntoLoad, Load};
/// use pages::PageValue;
///
/// fn is_same(given: impl IntoLoad<PageValue>) -> bool {
///     given.into_load() == Load::value(PageValue::new("once upon a time"))
/// }
/// let text = "once upon a time".to_owned();
/// assert!(is_same(PageValue::new(&text)) && is_same(text.clone()) && is_same(Some(text.clone())) && is_same(Load::value(text)));
/// ```
pub trait IntoLoad<V> {
    /// The same as an answer.
    fn into_load(self) -> Load<V>;
}

impl<V> IntoLoad<V> for V {
    fn into_load(self) -> Load<V> {
        Load::value(self)
    }
}

impl<V> IntoLoad<V> for Option<V> {
    fn into_load(self) -> Load<V> {
        self.into()
    }
}

impl<V> IntoLoad<V> for Load<V> {
    fn into_load(self) -> Load<V> {
        self
    }
}

/// What is kept already, for a source that can say "not changed".
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::Pages;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// use larder::{Known, Load};
///
/// let download = |_url: String, known: Known| async move {
///     assert_eq!((known.etag(), known.last_modified()), (None, None), "nothing is kept yet");
///     Ok::<_, std::io::Error>(Load::value("once upon a time".to_owned()).etag("v1"))
/// };
/// pages.pages().fetch_with("https://example.com/", download).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
}

impl Known {
    /// What the source called the version that is kept.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// When the source said that it changed last.
    pub fn last_modified(&self) -> Option<&str> {
        self.last_modified.as_deref()
    }
}

/// An error that trying again does not mend: it is neither retried nor held against the source.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::Pages;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// use larder::Permanent;
///
/// async fn download(url: String) -> Result<String, Permanent> {
///     Err(Permanent::new(format!("{url} is not for us")))
/// }
/// let error = pages.pages().fetch("https://example.com/", download).await.unwrap_err();
/// assert!(error.to_string().ends_with("https://example.com/ is not for us"));
/// assert_eq!(pages.pages().stats().loads, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Permanent(BoxError);

impl Permanent {
    /// Wraps what went wrong.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Permanent {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.0)
    }
}

/// Why a source failed: the error of the loader, or of the layer where the loader was not called or did not answer in time. Clones
/// are the same error.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # use pages::Pages;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// use larder::Error;
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("answered {0}")]
/// struct Status(u16);
///
/// let fails = |_url: String| async { Err::<String, _>(Status(503)) };
/// let error = pages.pages().fetch("https://example.com/", fails).await.unwrap_err();
/// assert_eq!(error.loader_error::<Status>().map(|status| status.0), Some(503));
/// let Error::Source { cause, .. } = error else { panic!("{error}") };
/// assert_eq!(cause.to_string(), "answered 503");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SourceError(Arc<dyn StdError + Send + Sync>);

impl SourceError {
    /// The loader's own error, if it is of this type; what is [`Permanent`] is looked into.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        let whole: &(dyn StdError + 'static) = &*self.0;
        whole.downcast_ref().or_else(|| whole.downcast_ref::<Permanent>()?.0.downcast_ref())
    }

    fn is_permanent(&self) -> bool {
        self.0.is::<Permanent>()
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for SourceError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

impl From<BoxError> for SourceError {
    fn from(error: BoxError) -> Self {
        Self(error.into())
    }
}

impl From<String> for SourceError {
    fn from(text: String) -> Self {
        Self::from(BoxError::from(text))
    }
}

impl From<&str> for SourceError {
    fn from(text: &str) -> Self {
        Self::from(BoxError::from(text))
    }
}

/// A source as one system calls it.
#[derive(Debug, Default)]
pub(crate) struct Source {
    settings: Settings,
    breaker: Breaker,
    tokens: Mutex<Tokens>,
}

#[derive(Debug, Default)]
struct Tokens {
    /// When the bucket is full again.
    full_at: Option<Instant>,
}

impl Source {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { breaker: Breaker::new(settings.breaker), settings, ..Self::default() }
    }

    /// After so long the stale value is given, when there is one.
    pub(crate) fn soft_timeout(&self) -> Option<Duration> {
        self.settings.timeout_millis.map(|(soft, _)| millis(soft))
    }

    /// Calls until it succeeds or may not be tried again. The error says why the last call failed.
    pub(crate) async fn call<T, F>(
        &self,
        observer: &Observer,
        key: &str,
        attempt: impl Fn() -> F,
    ) -> Result<T, SourceError>
    where
        F: Future<Output = Result<T, BoxError>>,
    {
        let retries = self.settings.retry.map_or(0, |retry| retry.attempts);
        let (first, longest) = self.settings.retry.map_or((0, 0), |retry| retry.backoff_millis);
        for tried in 0.. {
            if let Some(failures) = self.breaker.resting() {
                return Err(self.resting(failures));
            }
            self.pace().await;
            // The wait may have been long, and the source may be left alone by now.
            self.breaker.may_call().map_err(|failures| self.resting(failures))?;
            let started = Instant::now();
            let outcome = self.bounded(attempt()).await;
            let error = match outcome {
                Ok(value) => {
                    observer.loaded(key, started.elapsed(), None);
                    self.breaker.succeeded();
                    return Ok(value);
                }
                Err(error) => SourceError::from(error),
            };
            observer.loaded(key, started.elapsed(), Some(&error.to_string()));
            if error.is_permanent() {
                return Err(error);
            }
            self.breaker.failed();
            if tried >= retries {
                return Err(error);
            }
            backoff::pause((millis(first), millis(longest)), tried + 1).await;
        }
        unreachable!("the loop ends by returning")
    }

    async fn bounded<T>(&self, call: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
        let Some((_, hard)) = self.settings.timeout_millis else { return call.await };
        match timeout(millis(hard), call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer in {hard} ms").into()),
        }
    }

    fn resting(&self, failures: u32) -> SourceError {
        format!("{} is left alone after {failures} failures in a row", self.settings.name).into()
    }

    /// A token a call. The bucket holds `burst` of them and fills at the pace; a call that finds it empty is
    /// given the next token in advance and waits until it is there.
    async fn pace(&self) {
        let Some(Pace { calls, per_millis, burst }) = self.settings.pace else { return };
        let each = millis(per_millis) / calls.max(1);
        let start = {
            let now = Instant::now();
            let mut tokens = self.tokens.lock();
            let full_at = tokens.full_at.map_or(now, |full_at| full_at.max(now)) + each;
            tokens.full_at = Some(full_at);
            full_at.checked_sub(each * burst.max(1)).unwrap_or(now)
        };
        sleep_until(start).await;
    }
}

fn millis(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use larder_schema::schema::{Breaker, Retry};

    use super::*;

    struct Fixture {
        source: Source,
        observer: Observer,
        calls: AtomicU32,
    }

    impl Fixture {
        fn new(settings: Settings) -> Self {
            Self { source: Source::new(settings), observer: Observer::for_tests(), calls: AtomicU32::new(0) }
        }

        async fn call(&self, failures: u32) -> Result<u32, String> {
            let attempt = || async {
                let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
                if call <= failures { Err("down".into()) } else { Ok(call) }
            };
            self.source.call(&self.observer, "key", attempt).await.map_err(|error| error.to_string())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_call_is_tried_again_as_often_as_the_schema_says() {
        let retry = Some(Retry { attempts: 2, backoff_millis: (100, 1000) });
        for (failures, wanted) in [(0, Ok(1)), (2, Ok(3)), (3, Err("down".to_owned()))] {
            let fixture = Fixture::new(Settings { retry, ..Settings::default() });
            assert_eq!(fixture.call(failures).await, wanted);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_permanent_error_is_not_tried_again() {
        let retry = Some(Retry { attempts: 5, backoff_millis: (100, 1000) });
        let fixture = Fixture::new(Settings { retry, ..Settings::default() });
        let attempt = || async {
            fixture.calls.fetch_add(1, Ordering::Relaxed);
            Err::<(), BoxError>(Permanent::new("no such page").into())
        };
        let error = fixture.source.call(&fixture.observer, "key", attempt).await;
        assert_eq!(error.map_err(|error| error.to_string()), Err("no such page".to_owned()));
        assert_eq!(fixture.calls.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_breaker_leaves_a_failing_source_alone_and_then_tries_once() {
        let breaker = Some(Breaker { failures: 2, rest_millis: 1000 });
        let fixture = Fixture::new(Settings { name: "api".to_owned(), breaker, ..Settings::default() });
        for _ in 0..2 {
            assert_eq!(fixture.call(9).await, Err("down".to_owned()));
        }
        let resting = "api is left alone after 2 failures in a row".to_owned();
        assert_eq!(fixture.call(9).await, Err(resting));
        tokio::time::advance(Duration::from_millis(1001)).await;
        assert_eq!(fixture.call(9).await, Err("down".to_owned()), "one trial");
        assert!(fixture.call(9).await.unwrap_err().contains("left alone"));
        tokio::time::advance(Duration::from_millis(1001)).await;
        assert!(fixture.call(0).await.is_ok());
        assert!(fixture.call(0).await.is_ok(), "and it is whole again");
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_for_the_pace_leave_a_failing_source_alone_too() {
        let breaker = Some(Breaker { failures: 2, rest_millis: 60_000 });
        let pace = Some(Pace { calls: 10, per_millis: 1000, burst: 1 });
        let fixture = Fixture::new(Settings { name: "api".to_owned(), breaker, pace, ..Settings::default() });
        let outcomes = futures_util::future::join_all((0..10).map(|_| fixture.call(99))).await;
        assert!(outcomes.iter().all(Result::is_err));
        assert_eq!(fixture.calls.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_spread_to_the_pace_after_the_burst() {
        let pace = Some(Pace { calls: 10, per_millis: 1000, burst: 3 });
        let fixture = Fixture::new(Settings { pace, ..Settings::default() });
        let started = Instant::now();
        let mut ended = Vec::new();
        for _ in 0..6 {
            fixture.call(0).await.unwrap();
            ended.push(started.elapsed().as_millis());
        }
        assert_eq!(ended, [0, 0, 0, 100, 200, 300]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_given_up_after_the_hard_timeout() {
        let fixture = Fixture::new(Settings { timeout_millis: Some((100, 500)), ..Settings::default() });
        let attempt = || async {
            std::future::pending::<()>().await;
            Ok::<_, BoxError>(())
        };
        let error = fixture.source.call(&fixture.observer, "key", attempt).await;
        assert_eq!(error.map_err(|error| error.to_string()), Err("no answer in 500 ms".to_owned()));
    }
}
