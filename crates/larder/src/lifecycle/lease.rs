//! A lease: an item in a leased state that one worker holds.
//!
//! While the lease lives, a task renews it every third of its length, and soon after a machine that slept has woken
//! up. When the renewal finds that the item is somebody else's, or cannot be made until the lease is over, the lease is
//! lost and work under [`Lease::work`] is dropped. How long it lasts is counted by the time that passes here, from before
//! it was asked for.
//!
//! Dropping a lease stops its renewal: it runs out, and the item is taken over then.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use larder_expr::{Comparator, Condition, Operand};
use larder_model::{AttributeValue, Clock, Item, Path, UnixTime};
use larder_schema::Fields;
use larder_schema::schema::Transition;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::step::seconds_after;
use super::{Track, duration};
use crate::entity::and;
use crate::record::{Changes, Refused};
use crate::shelf::{self, Record};
use crate::write::RACES_MAX;
use crate::{Error, backoff};

/// The transition that is made when work was tried as often as the schema allows.
const FAIL: &str = "fail";

/// How soon a machine that slept is noticed to have slept.
const LOOK: Duration = Duration::from_secs(10);

/// A record that this worker holds. It renews itself until it is dropped, finished or lost.
///
/// ```
/// # larder::schema!("examples/shops.larder");
/// # use shops::{NewShop, Shops};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let shops = Shops::open(larder::Store::memory().await).await?;
/// # shops.shops().create(NewShop::new("a.de")).await?;
/// let lease = shops.crawl().hold("a.de").await?;
/// assert_eq!((lease.domain.as_str(), lease.fence(), lease.attempts()), ("a.de", 1, 1));
/// assert!(lease.until().is_some() && !lease.is_lost());
/// let shop = lease.finish().await?;
/// assert_eq!(shop.kept().state("crawl"), Some("done"));
/// # Ok(())
/// # }
/// ```
pub struct Lease<R> {
    record: R,
    hold: Hold,
    life: Arc<watch::Sender<Life>>,
    renewal: JoinHandle<()>,
}

/// What is held, whatever the type of the record.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) track: Track,
    pub(super) key: Item,
    /// Unlike that of any other claim.
    pub(super) owner: String,
    pub(super) fence: i64,
    pub(super) attempts: i64,
    /// The leased state, and where the item goes back to.
    pub(super) state: String,
    pub(super) from: String,
    pub(super) lease_millis: i64,
}

#[derive(Clone, Debug)]
enum Life {
    Until(UnixTime),
    Lost(String),
}

impl<R> Drop for Lease<R> {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

impl<R: fmt::Debug> fmt::Debug for Lease<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("record", &self.record)
            .field("owner", &self.hold.owner)
            .field("fence", &self.hold.fence)
            .finish_non_exhaustive()
    }
}

impl<R> Deref for Lease<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.record
    }
}

impl<R: Record> Lease<R> {
    /// `asked` is when the claim was sent: the lease is not longer than that.
    pub(super) fn new(hold: Hold, item: &Item, asked: Instant) -> Result<Self, Error> {
        let core = &hold.track.core;
        let record = shelf::read(core, item, core.unix_now())?;
        let until = hold.track.written(item).until.unwrap_or_else(|| core.unix_now());
        let life = Arc::new(watch::Sender::new(Life::Until(until)));
        let renewal = tokio::spawn(renew(hold.clone(), Arc::clone(&life), asked));
        Ok(Self { record, hold, life, renewal })
    }

    /// The number of this claim. It grows with every claim of the record, so that whoever takes results can refuse
    /// those of a worker that has been replaced: pass it along with what the work writes elsewhere, and write only
    /// over a smaller number.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// // What takes the pages keeps the highest number that it has seen, and refuses lower ones.
    /// let mut pages: (i64, &str) = (0, "");
    /// let mut upload = |fence: i64, page| if fence >= pages.0 { pages = (fence, page) };
    ///
    /// let slow = shops.crawl().hold("a.de").await?;
    /// shops.store().clock().advance(Duration::from_secs(3 * 60 * 60)); // it stood still, and was replaced
    /// let lease = shops.crawl().hold("a.de").await?;
    /// upload(lease.fence(), "new");
    /// upload(slow.fence(), "old");
    /// assert_eq!(pages, (2, "new"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fence(&self) -> i64 {
        self.hold.fence
    }

    /// Who holds it: the name given to the claim, and something that tells this claim from others.
    pub fn owner(&self) -> &str {
        &self.hold.owner
    }

    /// How often the record was claimed since work on it was last done, this time included.
    pub fn attempts(&self) -> i64 {
        self.hold.attempts
    }

    /// When the lease ends, unless it is renewed. `None` when it is lost.
    pub fn until(&self) -> Option<UnixTime> {
        match &*self.life.borrow() {
            Life::Until(until) => Some(*until),
            Life::Lost(_) => None,
        }
    }

    /// Whether the record is somebody else's by now, or nobody's.
    pub fn is_lost(&self) -> bool {
        self.until().is_none()
    }

    /// Waits until the lease is lost.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// let lease = shops.crawl().hold("a.de").await?;
    /// # use std::time::Duration;
    /// shops.store().clock().advance(Duration::from_secs(3 * 60 * 60)); // a lease lasts two hours
    /// let other = shops.crawl().claim("DE").await?.next().await?.expect("its lease ran out");
    /// assert!(lease.renew().await.is_err());
    /// lease.lost().await; // at once
    /// assert!(lease.is_lost() && other.fence() > lease.fence());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) {
        let mut life = self.life.subscribe();
        // The sender is ours, so the channel is not closed before.
        let _ = life.wait_for(|life| matches!(life, Life::Lost(_))).await;
    }

    /// Works under the lease. The work is dropped where it stands when the lease is lost.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// let lease = shops.crawl().hold("a.de").await?;
    /// let offers = lease.work(async { 7 }).await?;
    /// assert_eq!(offers, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn work<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.lost() => Err(self.loss()),
            done = work => Ok(done),
        }
    }

    fn loss(&self) -> Error {
        let cause = match &*self.life.borrow() {
            Life::Lost(cause) => cause.clone(),
            Life::Until(_) => "its renewal ended".to_owned(),
        };
        self.hold.track.lost(&self.hold.key, &cause)
    }

    /// Renews the lease now, rather than when a third of it is over. That it succeeds shows that the record is
    /// still ours: worth knowing before something that cannot be undone.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// let lease = shops.crawl().hold("a.de").await?;
    /// # use std::time::Duration;
    /// shops.store().clock().advance(Duration::from_secs(3 * 60 * 60)); // a lease lasts two hours
    /// let other = shops.crawl().claim("DE").await?.next().await?.expect("its lease ran out");
    /// assert!(matches!(lease.renew().await, Err(larder::Error::LeaseLost { .. })));
    /// other.renew().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn renew(&self) -> Result<(), Error> {
        match self.hold.extend().await {
            Ok(until) => {
                self.life.send_if_modified(|life| match life {
                    Life::Until(known) => {
                        *known = until;
                        true
                    }
                    Life::Lost(_) => false,
                });
                if self.is_lost() { Err(self.loss()) } else { Ok(()) }
            }
            Err(Refused::Failed(error)) => Err(error),
            Err(refused) => {
                self.life.send_replace(Life::Lost(self.hold.refusal(&refused)));
                Err(self.loss())
            }
        }
    }

    /// The only transition out of the leased state, made if the record is still ours.
    ///
    /// Where there are several, the one called `finish` or `complete`; others are made by [`Lease::run`].
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// let lease = shops.crawl().hold("a.de").await?;
    /// let shop = lease.finish().await?;
    /// assert!(shop.crawled_at.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn finish(self) -> Result<R, Error> {
        let track = &self.hold.track;
        let out: Vec<&Transition> = track
            .lifecycle()
            .transitions
            .iter()
            .filter(|transition| transition.from.contains(&self.hold.state))
            .collect();
        let named = |name: &str| out.iter().find(|transition| transition.name == name);
        let finish = match out.as_slice() {
            [only] => Some(only),
            _ => named("finish").or_else(|| named("complete")),
        };
        let Some(name) = finish.map(|transition| transition.name.clone()) else {
            let names: Vec<&str> = out.iter().map(|transition| transition.name.as_str()).collect();
            return Err(track.refused(&format!("say which transition ends the work: {}", names.join(", "))));
        };
        self.run(&name, Fields::new()).await
    }

    /// A transition out of the leased state, made if the record is still ours.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// let lease = shops.crawl().hold("a.de").await?;
    /// let shop = lease.run("finish", larder::Fields::new()).await?;
    /// assert_eq!(shop.kept().state("crawl"), Some("done"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(self, transition: &str, params: Fields) -> Result<R, Error> {
        let item = self.hold.leave(transition, &params).await?;
        self.read(&item)
    }

    /// Gives the record back untouched: it is where it was before, as due as it was, and this does not count
    /// as an attempt.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// let lease = shops.crawl().hold("a.de").await?;
    /// let shop = lease.release().await?;
    /// assert_eq!(shop.kept().state("crawl"), Some("never"));
    /// assert_eq!(shops.crawl().hold("a.de").await?.attempts(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<R, Error> {
        let Hold { track, from, .. } = &self.hold;
        let mut changes = Changes::default();
        changes.states.insert(track.name().to_owned(), from.clone());
        changes.attributes = track.without_lease();
        changes.counts.push((track.lease_attributes()?.attempts.clone(), -1));
        let item = self.hold.write(changes, from).await?;
        self.read(&item)
    }

    /// Gives the record back because work on it failed. It is claimed again after a pause, which doubles with
    /// every attempt.
    ///
    /// After the last attempt that the schema allows, the transition `fail` is made if there is one, with the
    /// error in its text parameters. Otherwise the record stays in the leased state, held by nobody: it is
    /// listed as stuck and exhausted until somebody releases it.
    ///
    /// The error is kept beside the lease until the next claim, for whoever looks ([`Standing::error`](super::Standing::error)): 1 KB of
    /// it at most, URLs without what may be a key in them, and of an entity with secrets only that there was one.
    ///
    /// ```
    /// # larder::schema!("examples/shops.larder");
    /// # use shops::{NewShop, Shops};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shops = Shops::open(larder::Store::memory().await).await?;
    /// # shops.shops().create(NewShop::new("a.de")).await?;
    /// let lease = shops.crawl().hold("a.de").await?;
    /// lease.retry("the shop did not answer").await?;
    /// assert!(shops.crawl().due("DE").await?.is_empty(), "it is left alone for a while");
    /// # use std::time::Duration;
    /// shops.store().clock().advance(Duration::from_secs(2 * 60 * 60));
    /// assert_eq!(shops.crawl().due("DE").await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retry(self, error: impl fmt::Display) -> Result<(), Error> {
        let Hold { track, state, from, attempts, .. } = &self.hold;
        let names = track.lease_attributes()?;
        let policy = track.retry();
        let exhausted = *attempts > i64::from(policy.attempts);
        tracing::warn!(
            system = track.core.schema.system,
            entity = track.core.name(),
            cache_key = track.core.key_text(&self.hold.key),
            reason = %error,
            attempts,
            exhausted,
            "work failed"
        );
        let now = track.core.unix_now();
        let told = Some(AttributeValue::from(track.kept_error(&error.to_string()).as_str()));
        if !exhausted {
            let mut changes = Changes::default();
            changes.states.insert(track.name().to_owned(), from.clone());
            let (first, longest) = policy.backoff_millis;
            let attempts = u32::try_from(*attempts).unwrap_or(u32::MAX);
            let pause = backoff::doubled((duration(first), duration(longest)), attempts);
            let again = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
            let again = AttributeValue::from(seconds_after(now, again));
            changes.attributes = track.without_lease();
            changes.attributes.retain(|(name, _)| *name != names.until && *name != names.error);
            changes.attributes.extend([(names.until.clone(), Some(again)), (names.error.clone(), told)]);
            self.hold.write(changes, from).await?;
            return Ok(());
        }
        let fail = track.lifecycle().transitions.iter().find(|transition| transition.name == FAIL);
        if let Some(fail) = fail.filter(|transition| transition.from.contains(state)) {
            let params = fail.set.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
            let texts = params
                .filter(|name| track.core.entity().field(name).is_some_and(|field| field.kind.is_text()));
            let params = texts.map(|name| (name.clone(), error.to_string().as_str().into())).collect();
            self.hold.leave(FAIL, &params).await?;
            return Ok(());
        }
        let mut changes = Changes::default();
        let over = AttributeValue::from(now.seconds() - 1);
        changes.attributes =
            vec![(names.owner.clone(), None), (names.until.clone(), Some(over)), (names.error.clone(), told)];
        self.hold.write(changes, state).await?;
        Ok(())
    }

    fn read(&self, item: &Item) -> Result<R, Error> {
        shelf::read(&self.hold.track.core, item, self.hold.track.core.unix_now())
    }
}

impl Hold {
    /// Makes a transition out of the leased state.
    async fn leave(&self, transition: &str, params: &Fields) -> Result<Item, Error> {
        let track = &self.track;
        let transition = track.transition(transition)?;
        if !transition.from.contains(&self.state) {
            return Err(Error::State {
                entity: track.core.name().to_owned(),
                key: track.core.key_text(&self.key),
                transition: transition.name.clone(),
                found: self.state.clone(),
                wanted: transition.from.join(" or "),
            });
        }
        if track.lease_millis(&transition.to).is_some() {
            return Err(track.refused(&format!(
                "`{}` leads from one lease to another: finish this one first",
                transition.name
            )));
        }
        let names = track.lease_attributes()?;
        let now = track.core.now();
        for _ in 0..RACES_MAX {
            let seen = match track.reads_item(transition) {
                true => track.core.load(&self.key, true).await?,
                false => None,
            };
            let mut changes = track.entering(transition, params, seen.as_ref(), now)?;
            changes.attributes = track.without_lease();
            changes.attributes.push((names.attempts.clone(), None));
            match self.write(changes, &transition.to).await {
                // What it was worked out from has changed meanwhile, and it is still ours.
                Err(Error::Conflict { .. }) if seen.is_some() => {}
                outcome => return outcome,
            }
        }
        Err(track.core.conflict(&self.key, "it kept changing while it was being written"))
    }

    /// Writes if the item is still ours. That it is in the state already, under our number and without an owner,
    /// is what a write of ours leaves behind.
    async fn write(&self, mut changes: Changes, to: &str) -> Result<Item, Error> {
        let asked = changes.condition.take();
        changes.condition = Some(asked.into_iter().fold(self.is_ours()?, and));
        let refused = match self.track.send(&self.key, &changes, &mut false).await {
            Ok(item) => return Ok(item),
            Err(Refused::Failed(error)) => return Err(error),
            Err(refused) => refused,
        };
        if let Refused::Condition(item) = &refused {
            let written = self.track.written(item);
            let state = self.track.lifecycle().state_of(item).map(|state| state.name.as_str());
            let done = written.fence == self.fence && written.owner.is_none() && state == Some(to);
            if done && self.track.holds(item, &changes)? {
                return Ok((**item).clone());
            }
            if written.owner.as_deref() == Some(&self.owner) {
                return Err(self.track.core.conflict(&self.key, "it was changed while it was worked out"));
            }
        }
        Err(self.track.lost(&self.key, &self.refusal(&refused)))
    }

    /// Why a write that was to happen while it is ours did not.
    fn refusal(&self, refused: &Refused) -> String {
        match refused {
            Refused::Missing => "it is gone".to_owned(),
            Refused::Failed(error) => error.to_string(),
            Refused::Condition(item) => {
                let written = self.track.written(item);
                match written.owner {
                    Some(owner) => {
                        format!("it expired, and {owner} took it over with claim {}", written.fence)
                    }
                    None => "it expired, and was released".to_owned(),
                }
            }
        }
    }

    fn is_ours(&self) -> Result<Condition, Error> {
        let names = self.track.lease_attributes()?;
        let is = |name: &str, value: AttributeValue| Condition::Compare {
            left: Operand::Path(Path::attribute(name)),
            comparator: Comparator::Equal,
            right: Operand::value(value),
        };
        let owner = is(&names.owner, AttributeValue::from(self.owner.as_str()));
        Ok(and(owner, is(&names.fence, AttributeValue::from(self.fence))))
    }

    /// Makes the lease as long as it was at first, from now.
    async fn extend(&self) -> Result<UnixTime, Refused> {
        let names = self.track.lease_attributes()?;
        let until = seconds_after(self.track.core.unix_now(), self.lease_millis);
        let changes = Changes {
            attributes: vec![(names.until.clone(), Some(AttributeValue::from(until)))],
            condition: Some(self.is_ours()?),
            ..Changes::default()
        };
        let item = self.track.core.change(&self.key, changes).await?;
        self.track.watch(&self.key, &self.track.written(&item), duration(self.lease_millis));
        Ok(UnixTime::from_seconds(until))
    }
}

/// Renews a lease until nobody wants it any more, or it is lost.
async fn renew(hold: Hold, life: Arc<watch::Sender<Life>>, asked: Instant) {
    let length = duration(hold.lease_millis);
    let mut deadline = asked + length;
    let mut pause = length / 3;
    loop {
        wait(hold.track.core.store.clock(), pause).await;
        let asked = Instant::now();
        let failure = match tokio::time::timeout_at(deadline, hold.extend()).await {
            Ok(Ok(until)) => {
                deadline = asked + length;
                pause = length / 3;
                life.send_replace(Life::Until(until));
                continue;
            }
            Ok(Err(Refused::Failed(error))) => error.to_string(),
            Ok(Err(refused)) => {
                life.send_replace(Life::Lost(hold.refusal(&refused)));
                return;
            }
            Err(_) => "the store does not answer".to_owned(),
        };
        if Instant::now() >= deadline {
            life.send_replace(Life::Lost(format!("it could not be renewed: {failure}")));
            return;
        }
        pause = (length / 12).min(deadline.saturating_duration_since(Instant::now()));
    }
}

/// Waits so long, or until so much time has passed while the machine slept, which timers do not count.
async fn wait(clock: &Clock, pause: Duration) {
    let (begun, end) = (clock.elapsed(), Instant::now() + pause);
    while Instant::now() < end && clock.elapsed().saturating_sub(begun) < pause {
        tokio::time::sleep_until(end.min(Instant::now() + LOOK)).await;
    }
}
