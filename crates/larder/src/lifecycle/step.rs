//! One transition: what it writes, under which condition, and what a refusal means.
//!
//! The condition is on the state as it is written. Where one state's text could begin like another's, or a
//! value is worked out from the item, the item is read first and the write holds only for what was read.

use std::time::Duration;

use larder_expr::{Comparator, Condition, Operand};
use larder_model::{AttributeValue, Item, Path, UnixTime};
use larder_schema::jiff::Timestamp;
use larder_schema::schema::{State, Transition};
use larder_schema::{Expr, Fields, Scope, Violation, ViolationFault, conformed};

use super::Track;
use crate::entity::{and, or};
use crate::record::{Changes, Refused, unchanged};
use crate::write::RACES_MAX;
use crate::{Error, Invalid, backoff};

/// How often a write is sent whose answer may have been lost.
const TRIES: u32 = 4;
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

impl Track {
    /// Makes a transition between states without leases.
    pub(super) async fn run(&self, key: &Item, transition: &str, params: Fields) -> Result<Item, Error> {
        let transition = self.transition(transition)?;
        if self.lease_millis(&transition.to).is_some() {
            return Err(self.refused(&format!(
                "`{}` leads to `{}`, which has a lease: it is made by a claim",
                transition.name, transition.to
            )));
        }
        let from: Vec<&State> = self.starts(transition).collect();
        if from.is_empty() {
            return Err(self.refused(&format!(
                "`{}` starts from `{}`, which has a lease: it is made through the lease",
                transition.name,
                transition.from.join("`, `")
            )));
        }
        let now = self.core.now();
        let reads = self.reads_item(transition) || from.iter().any(|state| self.is_ambiguous(state));
        let mut doubtful = false;
        for _ in 0..RACES_MAX {
            let seen = if reads { self.core.load(key, true).await? } else { None };
            let condition = match &seen {
                Some(item) => Some(unchanged(&self.lifecycle().attribute, item)),
                None => from.iter().map(|state| self.is_in(state)).reduce(or),
            };
            let mut changes = self.entering(transition, &params, seen.as_ref(), now)?;
            changes.condition = changes.condition.into_iter().chain(condition).reduce(and);
            if let Some(item) = seen.filter(|item| !self.is_among(&from, item)) {
                return self.in_another(transition, key, item, &changes, doubtful);
            }
            match self.send(key, &changes, &mut doubtful).await {
                Ok(item) => return Ok(item),
                Err(Refused::Condition(item)) if reads && self.is_among(&from, &item) => {}
                Err(Refused::Condition(item)) => {
                    return self.in_another(transition, key, *item, &changes, doubtful);
                }
                Err(Refused::Missing) => return Err(self.core.missing(key)),
                Err(Refused::Failed(error)) => return Err(error),
            }
        }
        Err(self.core.conflict(key, "it kept changing while it was being written"))
    }

    /// The item is not where the transition starts: because this call has made it already, or somebody else.
    fn in_another(
        &self,
        transition: &Transition,
        key: &Item,
        item: Item,
        changes: &Changes,
        doubtful: bool,
    ) -> Result<Item, Error> {
        let found = self.lifecycle().state_of(&item).map_or("in no state", |state| &state.name);
        if doubtful && found == transition.to {
            // Two who set nothing cannot be told apart by what is there.
            return if !changes.set.is_empty() && self.holds(&item, changes)? {
                Ok(item)
            } else {
                Err(self.core.conflict(
                    key,
                    &format!(
                        "an answer was lost, and it is `{found}` now, and it is not known which call did it"
                    ),
                ))
            };
        }
        Err(Error::State {
            entity: self.core.name().to_owned(),
            key: self.core.key_text(key),
            transition: transition.name.clone(),
            found: found.to_owned(),
            wanted: transition.from.join(" or "),
        })
    }

    /// Sends a write again while its answers are lost. `doubtful` says whether one was.
    pub(super) async fn send(
        &self,
        key: &Item,
        changes: &Changes,
        doubtful: &mut bool,
    ) -> Result<Item, Refused> {
        let mut tries = 1;
        loop {
            match self.core.change(key, changes.clone()).await {
                Err(Refused::Failed(Error::Store(error))) if error.is_transient() && tries < TRIES => {
                    *doubtful |= error.may_have_happened();
                }
                outcome => return outcome,
            }
            backoff::pause(PAUSE, tries).await;
            tries += 1;
        }
    }

    /// Whether an item has the values that a change sets.
    pub(super) fn holds(&self, item: &Item, changes: &Changes) -> Result<bool, Error> {
        let entity = self.core.entity();
        for (name, value) in &changes.set {
            let Some(field) = entity.field(name) else { continue };
            if item.get(&field.attribute) != Some(&self.core.encoded(field, value)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What a transition writes, apart from leases. Its condition is that what it was worked out from is so still.
    pub(super) fn entering(
        &self,
        transition: &Transition,
        params: &Fields,
        seen: Option<&Item>,
        now: Timestamp,
    ) -> Result<Changes, Error> {
        let entity = self.core.entity();
        self.check_params(transition, params)?;
        let fields = seen.map(|item| self.fields(item)).transpose()?.unwrap_or_default();
        let mut changes = Changes::default();
        changes.states.insert(self.name().to_owned(), transition.to.clone());
        for (name, expression) in &transition.set {
            let value = match expression {
                None => params.get(name).cloned(),
                Some(expression) => {
                    let value = expression.evaluate(Scope { fields: &fields, now });
                    value.zip(entity.field(name)).map(|(value, field)| conformed(value, &field.kind))
                }
            };
            match value {
                Some(value) => drop(changes.set.insert(name.clone(), value)),
                None => drop(changes.clear.insert(name.clone())),
            }
        }
        if let Some(item) = seen {
            let used = transition.set.iter().filter_map(|(_, expression)| expression.as_ref());
            let used = used.flat_map(Expr::fields).filter_map(|name| entity.field(name));
            let same = used.filter(|field| field.is_stored()).map(|field| unchanged(&field.attribute, item));
            changes.condition = same.reduce(and);
        }
        Ok(changes)
    }

    /// Parameters that the transition does not have, or lacks. What they hold is checked when it is written.
    fn check_params(&self, transition: &Transition, params: &Fields) -> Result<(), Error> {
        let entity = self.core.entity();
        let is_param = |name: &str| transition.set.iter().any(|(set, value)| set == name && value.is_none());
        let strange = params.keys().filter(|name| !is_param(name)).map(|name| {
            let rule = format!("is not a parameter of `{}`", transition.name);
            Violation::of(entity, name, ViolationFault::Unknown, rule, "given")
        });
        let lacking = transition.set.iter().filter(|(name, value)| {
            let needed = entity.field(name).is_some_and(|field| !field.optional);
            value.is_none() && needed && !params.contains_key(name)
        });
        let lacking = lacking
            .map(|(name, _)| Violation::of(entity, name, ViolationFault::Missing, "is required", "missing"));
        let violations: Vec<Violation> = strange.chain(lacking).collect();
        if violations.is_empty() {
            Ok(())
        } else {
            Err(Invalid { entity: entity.name.clone(), violations }.into())
        }
    }

    /// Whether a transition works out values from what the item holds.
    pub(super) fn reads_item(&self, transition: &Transition) -> bool {
        let mut expressions = transition.set.iter().filter_map(|(_, expression)| expression.as_ref());
        expressions.any(|expression| !expression.fields().is_empty())
    }

    /// The states that a transition starts from without a lease.
    pub(super) fn starts<'a>(&'a self, transition: &'a Transition) -> impl Iterator<Item = &'a State> {
        let states = self.lifecycle().states.iter();
        states.filter(|state| transition.from.contains(&state.name) && state.lease_millis.is_none())
    }

    fn is_among(&self, states: &[&State], item: &Item) -> bool {
        self.lifecycle()
            .state_of(item)
            .is_some_and(|found| states.iter().any(|state| state.name == found.name))
    }

    /// The condition that an item is in a state.
    fn is_in(&self, state: &State) -> Condition {
        let value = Operand::Path(Path::attribute(&self.lifecycle().attribute));
        let text = Operand::value(AttributeValue::S(state.template.prefix(&Fields::new())));
        if state.template.holes().next().is_none() {
            Condition::Compare { left: value, comparator: Comparator::Equal, right: text }
        } else {
            Condition::BeginsWith { value, prefix: text }
        }
    }

    /// Whether another state may begin as this one does, so that its beginning does not tell.
    fn is_ambiguous(&self, state: &State) -> bool {
        let beginning = state.template.prefix(&Fields::new());
        let mut others = self.lifecycle().states.iter().filter(|other| other.name != state.name);
        state.template.holes().next().is_some()
            && others.any(|other| {
                let other = other.template.prefix(&Fields::new());
                other.starts_with(&beginning) || beginning.starts_with(&other)
            })
    }

    /// The state an item goes back to when work on it is not done: where it was claimed, or else the latest
    /// one that its fields describe.
    pub(super) fn before(&self, leased: &State, item: &Item) -> Result<&State, Error> {
        let noted = item.get(&self.origin_attribute()).and_then(|value| value.as_str());
        let fields = self.fields(item)?;
        let possible: Vec<&State> = self
            .claims()
            .filter(|transition| transition.to == leased.name)
            .flat_map(|transition| self.starts(transition))
            .filter(|state| state.template.build(&fields).is_ok())
            .collect();
        let noted = possible.iter().find(|state| Some(state.name.as_str()) == noted);
        let dated = possible.iter().rev().find(|state| super::moment(state).is_some());
        noted.or(dated).or(possible.first()).copied().ok_or_else(|| {
            self.refused(&format!("nothing leads to `{}` that it could go back to", leased.name))
        })
    }

    /// Gives back an item whose lease ran out.
    pub(super) async fn release(&self, key: &Item) -> Result<Item, Error> {
        let names = self.lease_attributes()?;
        for _ in 0..RACES_MAX {
            let Some(item) = self.core.load(key, true).await? else { return Err(self.core.missing(key)) };
            let state = self.lifecycle().state_of(&item);
            let Some(state) = state.filter(|state| state.lease_millis.is_some()) else {
                let found = state.map_or("in no state", |state| &state.name);
                return Err(Error::State {
                    entity: self.core.name().to_owned(),
                    key: self.core.key_text(key),
                    transition: "release".to_owned(),
                    found: found.to_owned(),
                    wanted: "a state with a lease".to_owned(),
                });
            };
            if !self.ran_out(state, &item, self.core.unix_now()) {
                let owner = self.written(&item).owner.unwrap_or_else(|| "somebody".to_owned());
                return Err(self
                    .core
                    .conflict(key, &format!("{owner} holds it, and the lease has not expired")));
            }
            let mut changes = Changes::default();
            changes.states.insert(self.name().to_owned(), self.before(state, &item)?.name.clone());
            changes.attributes = self.without_lease();
            changes.attributes.push((names.attempts.clone(), None));
            // So that whoever held it cannot take the release for its own.
            changes.counts.push((names.fence.clone(), 1));
            let same = [&self.lifecycle().attribute, &names.fence, &names.until];
            changes.condition = same.iter().map(|name| unchanged(name, &item)).reduce(and);
            match self.send(key, &changes, &mut false).await {
                Ok(released) => return Ok(released),
                // Released already, by a call whose answer was lost or by somebody else.
                Err(Refused::Condition(found)) if self.is_released(&found, &item) => return Ok(*found),
                Err(Refused::Condition(_)) => {}
                Err(Refused::Missing) => return Err(self.core.missing(key)),
                Err(Refused::Failed(error)) => return Err(error),
            }
        }
        Err(self.core.conflict(key, "it kept changing while it was being written"))
    }

    /// Ends the pause of an item that waits for its next attempt. What does not pause stays as it is.
    pub(super) async fn retry_now(&self, key: &Item) -> Result<Item, Error> {
        let names = self.lease_attributes()?;
        for _ in 0..RACES_MAX {
            let Some(item) = self.core.load(key, true).await? else { return Err(self.core.missing(key)) };
            let state = self.lifecycle().state_of(&item);
            let Some(state) = state.filter(|state| state.lease_millis.is_none()) else {
                return Err(Error::State {
                    entity: self.core.name().to_owned(),
                    key: self.core.key_text(key),
                    transition: "retry now".to_owned(),
                    found: state.map_or("in no state", |state| &state.name).to_owned(),
                    wanted: "a state without a lease".to_owned(),
                });
            };
            let written = self.written(&item);
            if !self.pauses(state, &written, self.core.unix_now()) {
                return Ok(item);
            }
            let same = [&self.lifecycle().attribute, &names.fence, &names.until];
            let changes = Changes {
                attributes: vec![(names.until.clone(), None)],
                condition: same.iter().map(|name| unchanged(name, &item)).reduce(and),
                ..Changes::default()
            };
            match self.send(key, &changes, &mut false).await {
                Ok(ready) => return Ok(ready),
                // Somebody claimed or moved it, or an answer was lost: it is looked at again.
                Err(Refused::Condition(_)) => {}
                Err(Refused::Missing) => return Err(self.core.missing(key)),
                Err(Refused::Failed(error)) => return Err(error),
            }
        }
        Err(self.core.conflict(key, "it kept changing while it was being written"))
    }

    /// Whether one number was taken since, and nobody holds it.
    fn is_released(&self, found: &Item, before: &Item) -> bool {
        let found = self.written(found);
        found.owner.is_none() && found.fence == self.written(before).fence + 1
    }

    /// What an item loses with its lease. The number of the claim stays, and grows with the next one.
    pub(super) fn without_lease(&self) -> Vec<(String, Option<AttributeValue>)> {
        let of_lease = self.lifecycle().lease.iter();
        let names =
            of_lease.flat_map(|names| [names.owner.clone(), names.until.clone(), names.error.clone()]);
        names.chain([self.origin_attribute()]).map(|name| (name, None)).collect()
    }
}

/// Seconds at which something ends that lasts so long from now, never too short.
pub(super) fn seconds_after(now: UnixTime, millis: i64) -> i64 {
    UnixTime::from_millis(now.millis().saturating_add(millis).saturating_add(999)).seconds()
}
