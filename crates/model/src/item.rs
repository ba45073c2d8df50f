//! `Item`: named values, and their size as DynamoDB counts it.

use std::collections::BTreeMap;
use std::collections::btree_map::{IntoIter, Iter};

use crate::AttributeValue;

/// An item, a map value, or a key: names to values, ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item(BTreeMap<String, AttributeValue>);

impl Item {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn get(&self, name: &str) -> Option<&AttributeValue> {
        self.0.get(name)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut AttributeValue> {
        self.0.get_mut(name)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets an attribute and returns what it held before.
    pub fn insert(
        &mut self,
        name: impl Into<String>,
        value: impl Into<AttributeValue>,
    ) -> Option<AttributeValue> {
        self.0.insert(name.into(), value.into())
    }

    pub fn remove(&mut self, name: &str) -> Option<AttributeValue> {
        self.0.remove(name)
    }

    pub fn iter(&self) -> Iter<'_, String, AttributeValue> {
        self.0.iter()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of names and values; the overhead of storage and of index entries is not in it.
    pub fn size(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.size()).sum()
    }
}

impl<N: Into<String>, V: Into<AttributeValue>> FromIterator<(N, V)> for Item {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl IntoIterator for Item {
    type Item = (String, AttributeValue);
    type IntoIter = IntoIter<String, AttributeValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Item {
    type Item = (&'a String, &'a AttributeValue);
    type IntoIter = Iter<'a, String, AttributeValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_counts_names_values_and_nesting() {
        let number = |text: &str| AttributeValue::N(text.parse().unwrap());
        let inner: Item = [("a", number("1")), ("bc", AttributeValue::Null)].into_iter().collect();
        for (value, size) in [
            (AttributeValue::from("åä"), 4),
            (AttributeValue::B(vec![0; 5]), 5),
            (AttributeValue::Bool(false), 1),
            (AttributeValue::L(vec![]), 3),
            (AttributeValue::L(vec![AttributeValue::from("ab"), number("12")]), 3 + 3 + 3),
            (AttributeValue::M(inner), 3 + (1 + 1 + 2) + (1 + 2 + 1)),
            (AttributeValue::Ss(["a".into(), "bcd".into()].into()), 4),
        ] {
            let item: Item = [("name", value)].into_iter().collect();
            assert_eq!(item.size(), 4 + size, "{item:?}");
        }
    }
}
