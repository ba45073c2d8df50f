//! Which items are in which state: by the index whose sort key holds the state, a group at a time, or by the
//! one whose partition key does.
//!
//! An index may lag behind, and seldom holds what a lease needs. So each item is read before it is shown, and
//! left out when it is somewhere else by then.

use std::collections::{BTreeSet, VecDeque};
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use larder_expr::{KeyCondition, KeyTest, SortTest};
use larder_model::{AttributeValue, IndexName, Item, UnixTime};
use larder_ops::{Query, ReturnCapacity};
use larder_schema::jiff::Timestamp;
use larder_schema::schema::{Index, Projection, State};
use larder_schema::{Expr, Field, Fields, Format};

use super::{Group, Standing, Track, moment, moment_value};
use crate::shelf::Record;
use crate::{Error, Unread, oversize};

/// Items asked of an index at a time.
const PAGE: usize = 50;
/// An older page is read anew by whoever finds something on it taken. Of a younger one, an index that lags would show the
/// same again.
const PAGE_AGE: Duration = Duration::from_millis(300);

/// Records by state, in order. Awaiting it reads them.
///
/// ```
/// # larder::schema!("examples/shops.larder");
/// # use shops::{NewShop, Shops};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let shops = Shops::open(larder::Store::memory().await).await?;
/// for (domain, country) in [("a.de", "DE"), ("b.de", "DE"), ("c.fr", "FR")] {
///     shops.shops().create(NewShop { country: Some(country.to_owned()), ..NewShop::new(domain) }).await?;
/// }
/// let due = shops.crawl().due("DE").group("FR").await?;
/// assert_eq!(due.len(), 3);
/// assert_eq!(shops.crawl().due("DE").limit(1).await?[0].state, "never");
/// # Ok(())
/// # }
/// ```
#[must_use = "a listing is read when it is awaited"]
#[derive(Debug)]
pub struct Listing<R> {
    track: Track,
    what: What,
    groups: Vec<Group>,
    older_than: Option<Duration>,
    limit: usize,
    forward: bool,
    strict: bool,
    record: PhantomData<fn() -> R>,
}

#[derive(Clone, Debug)]
enum What {
    Due,
    Stuck,
    In(String),
}

impl<R: Record> Listing<R> {
    fn new(track: Track, what: What, groups: Vec<Group>) -> Self {
        Self {
            track,
            what,
            groups,
            older_than: None,
            limit: usize::MAX,
            forward: true,
            strict: false,
            record: PhantomData,
        }
    }

    pub(super) fn due(track: Track, group: Group) -> Self {
        Self::new(track, What::Due, vec![group])
    }

    pub(super) fn stuck(track: Track, group: Group) -> Self {
        Self::new(track, What::Stuck, vec![group])
    }

    pub(super) fn in_state(track: Track, state: &str) -> Self {
        Self::new(track, What::In(state.to_owned()), Vec::new())
    }

    /// Of this group too. Groups are listed one after the other.
    pub fn group(mut self, group: impl Into<Group>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// Due when it was last done so long ago, instead of what the schema says.
    pub fn older_than(mut self, duration: Duration) -> Self {
        self.older_than = Some(duration);
        self
    }

    /// Those that entered the state last come first.
    pub fn newest_first(mut self) -> Self {
        self.forward = false;
        self
    }

    /// At most so many records.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// A record that cannot be read is an error, instead of being left out and told.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// The records, and what was left out because it cannot be read.
    pub async fn with_unread(mut self) -> Result<(Vec<Standing<R>>, Unread), Error> {
        let track = &self.track;
        let now = track.core.unix_now();
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        let (mut found, mut unread) = (Vec::new(), Unread::default());
        for group in &self.groups {
            let ranges = match &self.what {
                What::Due => track.claim_ranges(self.older_than, now, true)?,
                What::Stuck => track.leased_ranges(None)?,
                What::In(state) => vec![Range { state: track.state(state)?.name.clone(), before: None }],
            };
            let mut lane = Lane::new(track, group, ranges, self.forward)?;
            while let Some((range, item)) = lane.next(track).await? {
                if found.len() == self.limit {
                    return Ok((found, unread));
                }
                let Some(item) = track.whole(&lane, item).await? else { continue };
                let shown = self.shown(&range, &item, now);
                found.extend(unread.take(&track.core, shown, self.strict)?.flatten());
            }
        }
        Ok((found, unread))
    }

    /// The record, if it is one of those that are asked for.
    fn shown(&self, range: &Range, item: &Item, now: UnixTime) -> Result<Option<Standing<R>>, Error> {
        let track = &self.track;
        let state = track.state(&range.state)?;
        let asked_for = track.state_in(item)? == state
            && match self.what {
                What::Due if state.lease_millis.is_some() => {
                    track.ran_out(state, item, now) && !track.is_exhausted(&track.written(item))
                }
                What::Due => track.is_ready(item)? && track.is_free(item, now),
                What::Stuck => track.ran_out(state, item, now),
                What::In(_) => true,
            };
        if asked_for { track.stand(item).transpose() } else { Ok(None) }
    }
}

impl<R: Record> IntoFuture for Listing<R> {
    type Output = Result<Vec<Standing<R>>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { Ok(self.with_unread().await?.0) })
    }
}

/// Items of one state, perhaps only those that entered it by a moment.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) state: String,
    pub(super) before: Option<UnixTime>,
}

impl Track {
    /// Where a claim looks: what has no moment, then leases, then the rest, oldest first. Where clocks decide, those
    /// that may have run out are enough; where leases are watched, it takes all of them.
    pub(super) fn claim_ranges(
        &self,
        older_than: Option<Duration>,
        now: UnixTime,
        by_clock: bool,
    ) -> Result<Vec<Range>, Error> {
        let mut ranges = self.due_ranges(older_than, now)?;
        let never = |range: &Range| self.state(&range.state).is_ok_and(|state| moment(state).is_none());
        let never = ranges.iter().take_while(|range| never(range)).count();
        ranges.splice(never..never, self.leased_ranges(by_clock.then_some(now))?);
        Ok(ranges)
    }

    /// What is due: first what has no moment, then the rest, oldest first.
    pub(super) fn due_ranges(
        &self,
        older_than: Option<Duration>,
        now: UnixTime,
    ) -> Result<Vec<Range>, Error> {
        self.lease_attributes()?;
        let asked = older_than.map(|duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX));
        let mut states: Vec<&State> = Vec::new();
        for state in self.claims().flat_map(|transition| self.starts(transition)) {
            if !states.contains(&state) {
                states.push(state);
            }
        }
        states.sort_by_key(|state| moment(state).is_some());
        let range = |state: &State| Range {
            state: state.name.clone(),
            before: asked
                .or(state.due_millis)
                .filter(|_| moment(state).is_some())
                .map(|millis| UnixTime::from_millis(now.millis().saturating_sub(millis))),
        };
        Ok(states.into_iter().map(range).collect())
    }

    /// Where leases are. One that began less than its length before `now` cannot be over.
    pub(super) fn leased_ranges(&self, now: Option<UnixTime>) -> Result<Vec<Range>, Error> {
        self.lease_attributes()?;
        let leased = self.lifecycle().states.iter().filter_map(|state| Some((state, state.lease_millis?)));
        let range = |(state, millis): (&State, i64)| Range {
            state: state.name.clone(),
            before: now
                .filter(|_| moment(state).is_some())
                .map(|now| UnixTime::from_millis(now.millis().saturating_sub(millis))),
        };
        Ok(leased.map(range).collect())
    }

    /// The index that holds the state, and whether the state is its sort key.
    fn index(&self) -> Result<(&Index, bool), Error> {
        let attribute = &self.lifecycle().attribute;
        let indexes = &self.core.table().indexes;
        let sorted =
            indexes.iter().find(|index| index.sort.first().is_some_and(|key| key.attribute == *attribute));
        let parted = || {
            indexes
                .iter()
                .find(|index| matches!(index.partition.as_slice(), [key] if key.attribute == *attribute))
        };
        let found = sorted.map(|index| (index, true)).or_else(|| parted().map(|index| (index, false)));
        found.ok_or_else(|| {
            self.refused(&format!(
                "no index has `{}` in its key, so items cannot be found by state: add one, such as \
                 `index … {}`",
                self.lifecycle().held_in,
                self.lifecycle().held_in
            ))
        })
    }

    /// Where an item stands in the index: what a page can begin after.
    pub(super) fn place_of(&self, item: &Item) -> Result<Item, Error> {
        let (table, index) = (self.core.table(), self.index()?.0);
        let keys =
            std::iter::once(&table.partition).chain(&table.sort).chain(&index.partition).chain(&index.sort);
        Ok(keys.filter_map(|key| Some((key.attribute.clone(), item.get(&key.attribute)?.clone()))).collect())
    }

    /// The item of which an index showed a part.
    async fn whole(&self, lane: &Lane, item: Item) -> Result<Option<Item>, Error> {
        if !lane.all {
            return self.core.load(&self.core.key_of(&item), true).await;
        }
        match oversize::join(&self.core, item).await? {
            Some(item) if !self.core.is_expired(&item, self.core.unix_now()) => Ok(Some(item)),
            _ => Ok(None),
        }
    }

    /// Whether an item outside a leased state neither pauses nor is exhausted.
    fn is_free(&self, item: &Item, now: UnixTime) -> bool {
        let written = self.written(item);
        !self.is_exhausted(&written) && written.until.is_none_or(|until| until.seconds() < now.seconds())
    }

    /// Whether the lifecycle's `ready when` holds.
    pub(super) fn is_ready(&self, item: &Item) -> Result<bool, Error> {
        let Some(ready) = &self.lifecycle().ready else { return Ok(true) };
        let mut fields = self.fields(item)?;
        let now = self.core.now();
        // What is computed and not stored may be asked for too.
        let lets: Vec<usize> = self.unstored();
        self.core.entity().compute_some(&mut fields, now, &lets);
        Ok(ready.holds(larder_schema::Scope { fields: &fields, now }))
    }

    /// The computed fields that no item holds, in order.
    fn unstored(&self) -> Vec<usize> {
        let entity = self.core.entity();
        entity.order.iter().copied().filter(|at| !entity.fields[*at].is_stored()).collect()
    }

    /// The stored attributes that `ready when` rests on.
    pub(super) fn ready_attributes(&self) -> BTreeSet<String> {
        let entity = self.core.entity();
        let mut names: Vec<&str> = self.lifecycle().ready.iter().flat_map(Expr::fields).collect();
        let mut found = BTreeSet::new();
        let mut at = 0;
        while let Some(name) = names.get(at).copied() {
            at += 1;
            match entity.field(name) {
                Some(field) if field.is_stored() => drop(found.insert(field.attribute.clone())),
                Some(Field { equation: Some(equation), .. }) => {
                    names.extend(
                        equation
                            .fields()
                            .into_iter()
                            .filter(|name| !names.contains(name))
                            .collect::<Vec<_>>(),
                    );
                }
                // An input comes back from the stored template that it is in.
                Some(_) => found.extend(entity.fields.iter().filter_map(|field| match &field.equation {
                    Some(Expr::Template(template)) if field.is_stored() => {
                        template.holes().any(|hole| hole.field == name).then(|| field.attribute.clone())
                    }
                    _ => None,
                })),
                None => {}
            }
        }
        found
    }
}

/// The items of one group, range after range.
#[derive(Debug)]
pub(super) struct Lane {
    index: IndexName,
    partition: Vec<(String, AttributeValue)>,
    forward: bool,
    /// The index holds whole items.
    pub(super) all: bool,
    ranges: VecDeque<Range>,
    start: Option<Item>,
    page: VecDeque<Item>,
    /// When the page was asked for, by the time that passes here.
    asked: Duration,
}

impl Lane {
    pub(super) fn new(
        track: &Track,
        group: &Group,
        ranges: Vec<Range>,
        forward: bool,
    ) -> Result<Self, Error> {
        let core = &track.core;
        let (index, sorted) = track.index()?;
        let wrong = |cause| Error::Key { entity: core.name().to_owned(), cause };
        let partition = if sorted {
            let access = core.entity().access(core.table(), Some(index));
            let access = access
                .ok_or_else(|| track.refused(&format!("{} is not in index {}", core.name(), index.alias)))?;
            if access.arguments.len() != group.0.len() {
                let names: Vec<&str> =
                    access.arguments.iter().map(|argument| argument.name.as_str()).collect();
                return Err(track.refused(&format!(
                    "index {} is asked with {}: say which",
                    index.alias,
                    names.join(" and ")
                )));
            }
            access.partition(&core.schema, &group.0).map_err(wrong)?
        } else if group.0.is_empty() {
            Vec::new()
        } else {
            return Err(
                track.refused(&format!("index {} is parted by the state: there are no groups", index.alias))
            );
        };
        let name = IndexName::new(index.name.as_str()).map_err(|error| track.refused(&error.to_string()))?;
        Ok(Self {
            index: name,
            partition,
            forward,
            all: index.projection == Projection::All,
            ranges: ranges.into(),
            start: None,
            page: VecDeque::new(),
            asked: Duration::ZERO,
        })
    }

    /// The next item, and the range it was found in.
    pub(super) async fn next(&mut self, track: &Track) -> Result<Option<(Range, Item)>, Error> {
        loop {
            let Some(range) = self.ranges.front().cloned() else { return Ok(None) };
            while let Some(item) = self.page.pop_front() {
                if self.belongs(track, &range, &item) {
                    return Ok(Some((range, item)));
                }
            }
            if self.start.as_ref().is_some_and(Item::is_empty) {
                self.ranges.pop_front();
                self.start = None;
                continue;
            }
            self.asked = track.core.store.clock().elapsed();
            let page = track.core.store.query(self.query(track, &range)?).await?;
            self.page = page.items.into();
            // No key is empty: that stands for the end.
            self.start = Some(page.last_key.unwrap_or_default());
        }
    }

    /// What was given last stood there, and is taken. What follows is read anew if the page is old: then others have
    /// probably taken more of it.
    pub(super) fn found_taken(&mut self, track: &Track, place: Item) {
        if track.core.store.clock().elapsed().saturating_sub(self.asked) > PAGE_AGE {
            self.page.clear();
            self.start = Some(place);
        }
    }

    fn belongs(&self, track: &Track, range: &Range, item: &Item) -> bool {
        let core = &track.core;
        let ours = core.schema.entity_of(core.table(), item).is_some_and(|entity| entity.name == core.name());
        // What is in no known state begins as this one does: whoever asked is told that it cannot be read.
        let Some(state) = track.lifecycle().state_of(item) else { return ours };
        let since = track.since(state, item).map(Timestamp::as_millisecond);
        ours && state.name == range.state
            && range.before.is_none_or(|before| since.is_none_or(|since| since <= before.millis()))
    }

    fn query(&self, track: &Track, range: &Range) -> Result<Query, Error> {
        let state = track.state(&range.state)?;
        let attribute = track.lifecycle().attribute.clone();
        let equal = |(attribute, value): &(String, AttributeValue)| KeyTest {
            attribute: attribute.as_str().into(),
            test: SortTest::Equal(value.clone().into()),
        };
        let mut tests: Vec<KeyTest> = self.partition.iter().map(equal).collect();
        let beginning = state.template.prefix(&Fields::new());
        let text = |text: String| Arc::new(AttributeValue::S(text));
        let test = match (state.template.holes().next(), range.before) {
            (None, _) => SortTest::Equal(text(beginning)),
            (Some(_), _) if self.partition.is_empty() => {
                return Err(track.refused(&format!(
                    "`{}` is written in many ways, and has no one partition",
                    state.name
                )));
            }
            (Some(hole), Some(before)) if hole.format == Format::Plain && moment(state) == Some(hole) => {
                let fields = Fields::from([(hole.field.clone(), moment_value(&hole.kind, before))]);
                // What may follow the moment is before the last character there is.
                let end = format!("{}\u{10ffff}", state.template.prefix(&fields));
                SortTest::Between(text(beginning), text(end))
            }
            (Some(_), _) => SortTest::BeginsWith(text(beginning)),
        };
        tests.push(KeyTest { attribute: attribute.into(), test });
        Ok(Query {
            table: track.core.table_name.clone(),
            index: Some(self.index.clone()),
            key_condition: KeyCondition { tests },
            filter: None,
            legacy_filter: false,
            projection: None,
            select: None,
            limit: Some(PAGE),
            forward: self.forward,
            start: self.start.clone(),
            consistent: false,
            skip_damaged: false,
            capacity: ReturnCapacity::None,
        })
    }
}
