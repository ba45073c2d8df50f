//! Failures on demand, at random from a seed, so that the same test fails the same way again.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;

/// What an [observed](super::Store::observed) store does wrong. Clones are the same.
///
/// A probability is from 0 (never, as at the start) to 1 (always). Each request is drawn anew, in the order in
/// which requests come.
///
/// ```
/// use std::time::Duration;
/// use larder::Store;
/// use larder::store::Fault;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let store = Store::memory().await;
/// store.faults().seed(7).throttle(0.2).lose_answers(0.05).delay(0.5, Duration::from_millis(20));
/// store.faults().fail_next(3, Fault::Error);
/// store.faults().down();
/// store.faults().up();
/// store.faults().reset();
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Rules>>);

/// A way to fail.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// use larder::store::Fault;
///
/// library.books().create(library::NewBook::new("1")).await?;
/// library.store().faults().fail_next(1, Fault::LostAnswer).only(&["UpdateItem"]);
/// assert!(library.books().update("1").add_copies(1).await.is_err());
/// assert_eq!(library.books().get("1").await?.expect("it is there").copies, 2, "it was added all the same");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is turned away: [`Error::Throttled`](super::Error::Throttled).
    Throttle,
    /// The store fails at it and nothing is done: an `InternalServerError`.
    Error,
    /// The request never gets there: [`Error::Unreachable`](super::Error::Unreachable).
    Unreachable,
    /// The request is carried out, but the answer is lost: [`Error::Unanswered`](super::Error::Unanswered). A refusal still arrives.
    LostAnswer,
}

#[derive(Debug)]
struct Rules {
    random: Rng,
    is_down: bool,
    /// Those that fail whatever is drawn.
    next: Option<(u64, Fault)>,
    throttle: f64,
    error: f64,
    lose_answer: f64,
    delay: (f64, Duration),
    /// All operations, when empty.
    only: Vec<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            random: Rng::with_seed(0),
            is_down: false,
            next: None,
            throttle: 0.0,
            error: 0.0,
            lose_answer: 0.0,
            delay: (0.0, Duration::ZERO),
            only: Vec::new(),
        }
    }
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Draw {
    pub(super) delay: Option<Duration>,
    pub(super) fault: Option<Fault>,
}

impl Faults {
    /// Where the random numbers begin; 0 unless it is said.
    pub fn seed(&self, seed: u64) -> &Self {
        self.set(|rules| rules.random = Rng::with_seed(seed))
    }

    /// How often a request is turned away.
    pub fn throttle(&self, probability: f64) -> &Self {
        self.set(|rules| rules.throttle = probability)
    }

    /// How often the store fails at a request.
    pub fn fail(&self, probability: f64) -> &Self {
        self.set(|rules| rules.error = probability)
    }

    /// How often a request is carried out and nobody hears of it.
    pub fn lose_answers(&self, probability: f64) -> &Self {
        self.set(|rules| rules.lose_answer = probability)
    }

    /// Holds a request up before it is looked at. The time is `tokio`'s, which a test can pause.
    pub fn delay(&self, probability: f64, by: Duration) -> &Self {
        self.set(|rules| rules.delay = (probability, by))
    }

    /// Nothing gets there until [`Faults::up`].
    pub fn down(&self) -> &Self {
        self.set(|rules| rules.is_down = true)
    }

    /// Everything gets there again.
    pub fn up(&self) -> &Self {
        self.set(|rules| rules.is_down = false)
    }

    /// The next `count` requests fail in this way, whatever is drawn.
    pub fn fail_next(&self, count: u64, fault: Fault) -> &Self {
        self.set(|rules| rules.next = Some((count, fault)))
    }

    /// Only these operations fail, such as `PutItem`; all of them when there are none.
    pub fn only(&self, operations: &[&str]) -> &Self {
        self.set(|rules| rules.only = operations.iter().map(|&name| name.to_owned()).collect())
    }

    /// No more faults, and the random numbers from their beginning.
    pub fn reset(&self) -> &Self {
        self.set(|rules| *rules = Rules::default())
    }

    fn set(&self, change: impl FnOnce(&mut Rules)) -> &Self {
        change(&mut self.0.lock());
        self
    }

    pub(super) fn draw(&self, operation: &str) -> Draw {
        let mut rules = self.0.lock();
        let rules = &mut *rules;
        if !rules.only.is_empty() && !rules.only.iter().any(|only| only == operation) {
            return Draw::default();
        }
        // All are drawn every time, so that one probability does not shift the draws of another.
        let mut drawn = |probability: f64| rules.random.f64() < probability;
        let delay = drawn(rules.delay.0).then_some(rules.delay.1);
        let throttle = drawn(rules.throttle).then_some(Fault::Throttle);
        let error = drawn(rules.error).then_some(Fault::Error);
        let lost = drawn(rules.lose_answer).then_some(Fault::LostAnswer);
        if rules.is_down {
            return Draw { delay, fault: Some(Fault::Unreachable) };
        }
        if let Some((count @ 1.., fault)) = &mut rules.next {
            *count -= 1;
            return Draw { delay, fault: Some(*fault) };
        }
        Draw { delay, fault: throttle.or(error).or(lost) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_the_same_faults_again() {
        let faults = Faults::default();
        let run = |seed| {
            faults.reset().seed(seed).throttle(0.3).fail(0.3).lose_answers(0.3);
            (0..100).map(|_| faults.draw("GetItem").fault).collect::<Vec<_>>()
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }

    #[test]
    fn a_probability_of_one_is_always_and_of_none_never() {
        let faults = Faults::default();
        for _ in 0..100 {
            assert_eq!(faults.draw("GetItem"), Draw::default());
        }
        faults.throttle(1.0).delay(1.0, Duration::from_secs(1));
        for _ in 0..100 {
            let always = Draw { delay: Some(Duration::from_secs(1)), fault: Some(Fault::Throttle) };
            assert_eq!(faults.draw("GetItem"), always);
        }
    }

    #[test]
    fn the_next_few_fail_and_then_no_more() {
        let faults = Faults::default();
        faults.fail_next(2, Fault::LostAnswer).only(&["PutItem"]);
        let drawn =
            ["GetItem", "PutItem", "GetItem", "PutItem", "PutItem"].map(|name| faults.draw(name).fault);
        assert_eq!(drawn, [None, Some(Fault::LostAnswer), None, Some(Fault::LostAnswer), None]);
    }
}
