//! JSON text → attribute values.

use std::borrow::Cow;
use std::collections::BTreeSet;

use larder_model::limits::NESTING_DEPTH_MAX;
use larder_model::{AttributeType, AttributeValue, Item, Number};

use crate::json::{ALLOCATION_BYTES, Kind, Reader};
use crate::refusal::{Read, Refusal};
use crate::shape;

use super::Flaws;
use super::flaws::{SetFlaw, SetKind, ValueFault};

/// Where DynamoDB's own parser gives up on a value.
const READABLE_DEPTH_MAX: usize = 2_000;

/// A map of attributes: an item, a key. `None` when it is null.
pub(crate) fn attributes(reader: &mut Reader<'_>, flaws: &mut Flaws) -> Read<Option<Item>> {
    attributes_at(reader, flaws, 0)
}

/// The attributes of a map that `depth` lists and maps stand around.
fn attributes_at(reader: &mut Reader<'_>, flaws: &mut Flaws, depth: usize) -> Read<Option<Item>> {
    let mut item = Item::new();
    let present = shape::map(reader, "AttributeValue", |reader, name| {
        flaws.note_name(&name);
        reader.charge(member_bytes(size_of::<(String, AttributeValue)>(), item.len()))?;
        reader.charge_text(name.len())?;
        let value = value_at(reader, flaws, depth)?;
        item.insert(name, value);
        Ok(())
    })?;
    Ok(present.then_some(item))
}

/// One value.
pub(crate) fn value(reader: &mut Reader<'_>, flaws: &mut Flaws) -> Read<AttributeValue> {
    value_at(reader, flaws, 0)
}

fn value_at(reader: &mut Reader<'_>, flaws: &mut Flaws, depth: usize) -> Read<AttributeValue> {
    flaws.depth = flaws.depth.max(depth);
    if depth > NESTING_DEPTH_MAX {
        // Each further level is two JSON levels: the value, and what its type holds.
        flaws.depth = flaws.depth.max(depth + reader.skip()?.saturating_sub(1) / 2);
        if flaws.depth > READABLE_DEPTH_MAX {
            return Err(Refusal::Unreadable);
        }
        return Ok(AttributeValue::Null);
    }
    let mut parts = Parts::default();
    shape::element(reader, "AttributeValue", |reader, name| parts.read(reader, &name, flaws, depth))?;
    Ok(parts.finish(flaws))
}

/// The types of one value, as they are met.
#[derive(Default)]
struct Parts {
    value: Option<AttributeValue>,
    /// One bit for each type that was given.
    types: u16,
    set: Option<SetFlaw>,
    number: Option<ValueFault>,
    /// A NULL that is not true, and whether it was a word.
    false_null: Option<bool>,
}

impl Parts {
    fn read(&mut self, reader: &mut Reader<'_>, name: &str, flaws: &mut Flaws, depth: usize) -> Read<()> {
        let Some(kind) = type_named(name) else { return reader.skip().map(drop) };
        if reader.kind()? == Kind::Null {
            return reader.skip().map(drop);
        }
        self.types |= 1 << kind as u16;
        let value = match kind {
            AttributeType::S => AttributeValue::S(kept(reader)?),
            AttributeType::N => AttributeValue::N(self.number(&text(reader)?)),
            AttributeType::B => AttributeValue::B(kept_binary(reader)?),
            AttributeType::Bool => AttributeValue::Bool(boolean(reader)?.0),
            AttributeType::Null => {
                let (is_null, word) = boolean(reader)?;
                self.false_null = (!is_null).then_some(word);
                AttributeValue::Null
            }
            AttributeType::Ss => {
                AttributeValue::Ss(self.set(reader, SetKind::Text, |_, reader| kept(reader))?)
            }
            AttributeType::Ns => AttributeValue::Ns(
                self.set(reader, SetKind::Number, |parts, reader| Ok(parts.number(&text(reader)?)))?,
            ),
            AttributeType::Bs => {
                AttributeValue::Bs(self.set(reader, SetKind::Binary, |_, reader| kept_binary(reader))?)
            }
            AttributeType::L => {
                let mut list = Vec::new();
                flaws.depth = flaws.depth.max(depth + 1);
                shape::values(reader, |reader| {
                    reader.charge(element_bytes(list.len()))?;
                    list.push(value_at(reader, flaws, depth + 1)?);
                    Ok(())
                })?;
                AttributeValue::L(list)
            }
            AttributeType::M => {
                flaws.depth = flaws.depth.max(depth + 1);
                AttributeValue::M(attributes_at(reader, flaws, depth + 1)?.unwrap_or_default())
            }
        };
        self.value = Some(value);
        Ok(())
    }

    fn number(&mut self, text: &str) -> Number {
        text.parse().unwrap_or_else(|error| {
            self.number.get_or_insert(ValueFault::Number { error, text: text.to_owned() });
            Number::ZERO
        })
    }

    fn set<T: Ord>(
        &mut self,
        reader: &mut Reader<'_>,
        kind: SetKind,
        member: impl Fn(&mut Self, &mut Reader<'_>) -> Read<T>,
    ) -> Read<BTreeSet<T>> {
        let start = reader.clone();
        let mut set = BTreeSet::new();
        let mut count = 0;
        shape::values(reader, |reader| {
            reader.charge(member_bytes(size_of::<T>(), set.len()))?;
            set.insert(member(self, reader)?);
            count += 1;
            Ok(())
        })?;
        if count == 0 {
            self.set = Some(SetFlaw::Empty(kind));
        } else if set.len() < count {
            reader.charge(count * size_of::<Vec<u8>>())?;
            self.set = Some(SetFlaw::Repeats(kind, members_as_sent(start, kind)?));
        }
        Ok(set)
    }

    fn finish(self, flaws: &mut Flaws) -> AttributeValue {
        let many = self.types.count_ones() > 1;
        match self.set {
            Some(SetFlaw::Empty(kind)) if many => flaws.note(ValueFault::EmptySet(kind)),
            Some(flaw) if !many => drop(flaws.set.get_or_insert(flaw)),
            _ => {}
        }
        if let Some(fault) = self.number {
            flaws.note(fault);
        }
        if let Some(word) = self.false_null {
            flaws.note(ValueFault::FalseNull { parsed: word || many });
        }
        if many {
            flaws.note(ValueFault::ManyTypes);
        }
        self.value.unwrap_or_else(|| {
            flaws.note(ValueFault::NoType);
            AttributeValue::Null
        })
    }
}

pub(crate) fn is_type_name(name: &str) -> bool {
    type_named(name).is_some()
}

/// [`AttributeType::from_name`] compares with ten names in turn; this is read for every value.
fn type_named(name: &str) -> Option<AttributeType> {
    Some(match name {
        "S" => AttributeType::S,
        "N" => AttributeType::N,
        "B" => AttributeType::B,
        "M" => AttributeType::M,
        "L" => AttributeType::L,
        "BOOL" => AttributeType::Bool,
        "NULL" => AttributeType::Null,
        "SS" => AttributeType::Ss,
        "NS" => AttributeType::Ns,
        "BS" => AttributeType::Bs,
        _ => return None,
    })
}

fn members_as_sent(mut list: Reader<'_>, kind: SetKind) -> Read<Vec<Vec<u8>>> {
    let mut members = Vec::new();
    list.elements(|reader| {
        members.push(match kind {
            SetKind::Text | SetKind::Number => text(reader)?.into_owned().into_bytes(),
            SetKind::Binary => shape::binary(reader)?.0,
        });
        Ok(())
    })?;
    Ok(members)
}

/// What another member of a tree takes that has `count` already. A node of one holds up to eleven, and is half full
/// when there are many.
fn member_bytes(member: usize, count: usize) -> usize {
    match count {
        0 => 11 * member + 2 * ALLOCATION_BYTES,
        1..11 => 0,
        _ => 2 * member + ALLOCATION_BYTES,
    }
}

/// What another element of a list takes that has `count` already. A list has room for four at first, and then for
/// twice as many as before.
fn element_bytes(count: usize) -> usize {
    const VALUE: usize = size_of::<AttributeValue>();
    match count {
        0 => 4 * VALUE + ALLOCATION_BYTES,
        1..4 => 0,
        _ => 2 * VALUE,
    }
}

fn kept(reader: &mut Reader<'_>) -> Read<String> {
    let text = text(reader)?;
    reader.charge_text(text.len())?;
    Ok(text.into_owned())
}

fn kept_binary(reader: &mut Reader<'_>) -> Read<Vec<u8>> {
    let (bytes, _) = shape::binary(reader)?;
    reader.charge_text(bytes.len())?;
    Ok(bytes)
}

/// A string, where null is none either.
fn text<'a>(reader: &mut Reader<'a>) -> Read<Cow<'a, str>> {
    Ok(shape::text(reader)?.unwrap_or_default())
}

/// A BOOL or NULL, and whether it was written as a word. A list here is refused without a message.
fn boolean(reader: &mut Reader<'_>) -> Read<(bool, bool)> {
    match reader.kind()? {
        Kind::String => {
            let word = shape::boolean_word(&reader.string()?).ok_or_else(shape::unexpected_token)?;
            Ok((word, true))
        }
        Kind::List => Err(Refusal::shape("")),
        _ => Ok((shape::boolean(reader)?.unwrap_or_default(), false)),
    }
}
