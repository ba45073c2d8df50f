//! `AttributeValue`: DynamoDB's ten types.
//!
//! Sets are kept sorted, so two sets are equal whatever order they came in, numbers by value. A NULL is
//! always `true`.

use std::collections::BTreeSet;
use std::fmt;

use crate::{Item, Number};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    S(String),
    N(Number),
    B(Vec<u8>),
    Bool(bool),
    Null,
    Ss(BTreeSet<String>),
    Ns(BTreeSet<Number>),
    Bs(BTreeSet<Vec<u8>>),
    L(Vec<AttributeValue>),
    M(Item),
}

/// The type of a value, by the name DynamoDB gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttributeType {
    S,
    N,
    B,
    Bool,
    Null,
    Ss,
    Ns,
    Bs,
    L,
    M,
}

impl AttributeType {
    pub const ALL: [Self; 10] =
        [Self::S, Self::N, Self::B, Self::Bool, Self::Null, Self::Ss, Self::Ns, Self::Bs, Self::L, Self::M];

    pub fn name(self) -> &'static str {
        match self {
            Self::S => "S",
            Self::N => "N",
            Self::B => "B",
            Self::Bool => "BOOL",
            Self::Null => "NULL",
            Self::Ss => "SS",
            Self::Ns => "NS",
            Self::Bs => "BS",
            Self::L => "L",
            Self::M => "M",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for AttributeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl AttributeValue {
    pub fn kind(&self) -> AttributeType {
        match self {
            Self::S(_) => AttributeType::S,
            Self::N(_) => AttributeType::N,
            Self::B(_) => AttributeType::B,
            Self::Bool(_) => AttributeType::Bool,
            Self::Null => AttributeType::Null,
            Self::Ss(_) => AttributeType::Ss,
            Self::Ns(_) => AttributeType::Ns,
            Self::Bs(_) => AttributeType::Bs,
            Self::L(_) => AttributeType::L,
            Self::M(_) => AttributeType::M,
        }
    }

    /// Bytes this value adds to an item's size, as DynamoDB counts them: a list or map costs three bytes,
    /// and one for each of its members.
    pub fn size(&self) -> usize {
        match self {
            Self::S(text) => text.len(),
            Self::N(number) => number.size(),
            Self::B(bytes) => bytes.len(),
            Self::Bool(_) | Self::Null => 1,
            Self::Ss(set) => set.iter().map(String::len).sum(),
            Self::Ns(set) => set.iter().map(Number::size).sum(),
            Self::Bs(set) => set.iter().map(Vec::len).sum(),
            Self::L(list) => 3 + list.iter().map(|value| 1 + value.size()).sum::<usize>(),
            Self::M(map) => 3 + map.iter().map(|(name, value)| 1 + name.len() + value.size()).sum::<usize>(),
        }
    }

    /// How deep lists and maps are nested in this value, itself included: one for a scalar.
    pub fn levels(&self) -> usize {
        let deepest = match self {
            Self::L(list) => list.iter().map(Self::levels).max(),
            Self::M(map) => map.iter().map(|(_, value)| value.levels()).max(),
            _ => None,
        };
        1 + deepest.unwrap_or(0)
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::S(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::N(number) => Some(number),
            _ => None,
        }
    }
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::S(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::S(text)
    }
}

impl From<i64> for AttributeValue {
    fn from(number: i64) -> Self {
        Self::N(number.into())
    }
}

impl From<Number> for AttributeValue {
    fn from(number: Number) -> Self {
        Self::N(number)
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request may hold a value for every nine bytes of its body, so this is what bounds its memory.
    #[test]
    fn a_value_takes_four_words() {
        assert_eq!(size_of::<AttributeValue>(), 32);
    }
}
