//! What follows from the rest of an item: fields that are equations, and the TTL.
//!
//! A field that an index is made of is an equation where it always holds what the key or another field holds, and a
//! count is one where it always is the length of a list. A TTL is a duration where items always end that long after a
//! moment in them; where they do not, whoever writes an item says when it ends.

use larder_model::{AttributeValue, Item, KeyType};

use super::holes;
use super::infer::Frame;
use super::keys::Group;
use super::names::{self, Taken};
use super::write::{EntityDraft, Line};
use crate::equation::duration_source;
use crate::schema::Type;
use crate::value::Value;

impl Frame<'_> {
    /// Fields that follow from the key or from others.
    pub(super) fn equations(
        &self,
        group: &Group<'_>,
        links: &[Vec<Option<holes::Link>>],
        key: &[String],
        fields: &mut [(&str, Line, Type)],
    ) {
        let in_key =
            |attribute: &str| links.iter().flatten().flatten().any(|link| link.attribute == attribute);
        for at in 0..fields.len() {
            let (attribute, kind) = (fields[at].0, fields[at].2.clone());
            let values = |name: &str| group.items.iter().map(|item| item.get(name)).collect::<Vec<_>>();
            let own = values(attribute);
            let distinct = own.iter().flatten().collect::<Vec<_>>();
            let varied = distinct.windows(2).any(|pair| pair[0] != pair[1]);
            if in_key(attribute) || !varied {
                continue;
            }
            if kind == Type::Int {
                let lists = fields.iter().find(|(list, line, kind)| {
                    matches!(kind, Type::List(_))
                        && line.equation.is_none()
                        && counts(attribute, &own, &values(list))
                });
                if let Some(list) = lists.map(|(_, line, _)| line.name.clone()) {
                    fields[at].1.equation = Some(format!("{list}.len()"));
                    fields[at].1.note = Some(format!("guessed: it was always the length of {list}"));
                }
                continue;
            }
            if !self.is_indexed(attribute) || kind.key_type() != Some(KeyType::S) {
                continue;
            }
            let whole = own.iter().all(Option::is_some);
            let of_key = self.key.iter().position(|key| whole && values(&key.name) == own);
            let other = fields.iter().position(|(other, line, _)| {
                *other != attribute
                    && !self.is_indexed(other)
                    && line.equation.is_none()
                    && values(other) == own
            });
            let (source, note) = match (other, of_key) {
                (Some(other), _) => {
                    if fields[other].2 == Type::String {
                        fields[other].1.check("nonempty");
                    }
                    (fields[other].1.name.clone(), "guessed: it was always the same")
                }
                (None, Some(of_key)) if !key[of_key].contains(":fit}") => {
                    (key[of_key].clone(), "guessed: it was always the same as the key")
                }
                _ => continue,
            };
            fields[at].1.equation = Some(source);
            fields[at].1.note = Some(note.to_owned());
        }
    }

    /// How long an item lives.
    pub(super) fn ttl(&self, group: &Group<'_>, fields: &[(&str, Line, Type)], entity: &mut EntityDraft) {
        let Some(ttl) = self.ttl else { return };
        let ends: Vec<(&Item, i64)> = group
            .items
            .iter()
            .filter_map(|item| Some((*item, item.get(ttl)?.as_number()?.to_i64()?)))
            .collect();
        if ends.is_empty() {
            if group.items.iter().any(|item| item.contains(ttl)) {
                entity.notes.push(format!(
                    "`{ttl}` is not a number here, so nothing ever expires: DynamoDB wants Unix seconds."
                ));
            }
            return;
        }
        if ends.iter().all(|(_, end)| *end > 100_000_000_000) {
            entity.notes.push(format!(
                "`{ttl}` looks like milliseconds, so nothing ever expires: DynamoDB wants Unix seconds."
            ));
        }
        let missing = group.items.len() - ends.len();
        if missing > 0 {
            entity.notes.push(format!("{missing} of {} sampled items have no `{ttl}`.", group.items.len()));
        }
        let lives = fields.iter().filter(|(_, _, kind)| matches!(kind, Type::Instant(_) | Type::Epoch));
        let lives =
            lives.filter_map(|(attribute, line, kind)| Some((lifetime(&ends, attribute, kind)?, &line.name)));
        let shortest = lives.min_by_key(|((spread, _), _)| *spread);
        match shortest.and_then(|((_, seconds), from)| Some((seconds.checked_mul(1000)?, from))) {
            Some((millis, from)) => {
                entity.ttl =
                    Some(format!("{}  // guessed: always so long after {from}", duration_source(millis)));
            }
            None => self.given_ttl(
                entity,
                "guessed: no field says how long an item lives; write it, as in `ttl 7d`, or give the end",
            ),
        }
    }

    /// An end that whoever writes the item says.
    pub(super) fn given_ttl(&self, entity: &mut EntityDraft, note: &str) {
        let mut taken = Taken::default();
        for name in
            self.names.values().map(|(name, _)| name).chain(entity.lines.iter().map(|line| &line.name))
        {
            taken.free(name);
        }
        let name = taken.free("ends");
        let line = Line { is_input: true, optional: true, ..Line::new(name.clone(), "epoch") };
        let after = entity.lines.iter().rposition(|line| line.is_input).map_or(0, |at| at + 1);
        entity.lines.insert(after, line);
        entity.ttl = Some(format!("{name}  // {note}"));
    }
}

/// Whether a number is always the length of a list, and is called so.
fn counts(attribute: &str, numbers: &[Option<&AttributeValue>], lists: &[Option<&AttributeValue>]) -> bool {
    let name = names::snake(attribute);
    let called = ["count", "len", "length", "size", "num", "total"]
        .iter()
        .any(|word| name.split('_').any(|part| part == *word));
    called
        && numbers.iter().zip(lists).all(|pair| match pair {
            (Some(AttributeValue::N(number)), Some(AttributeValue::L(list))) => {
                i64::try_from(list.len()).is_ok_and(|length| number.to_i64() == Some(length))
            }
            (None, None) => true,
            _ => false,
        })
}

/// How long after a moment the items end, if that is always the same, and by how much it varies. Seconds are rounded
/// in one and not in the other.
fn lifetime(ends: &[(&Item, i64)], attribute: &str, kind: &Type) -> Option<(i64, i64)> {
    let lives = ends.iter().map(|(item, end)| {
        let from = Value::from_attribute(kind, item.get(attribute)?)?.as_instant()?;
        end.checked_sub(from.as_second())
    });
    let lives: Vec<i64> = lives.collect::<Option<_>>()?;
    let (least, most) = (*lives.iter().min()?, *lives.iter().max()?);
    let round = (least..=most.min(least.saturating_add(2))).find(|seconds| seconds % 60 == 0);
    let sure = round.is_some() || ends.len() > 2;
    let spread = most.checked_sub(least)?;
    (least > 0 && spread <= 2 && sure).then(|| (spread, round.unwrap_or(least)))
}
