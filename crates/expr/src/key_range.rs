//! Where in a table or index a key condition points: one partition, and a range of its sort keys.

use larder_model::{AttributeValue, KeyAttribute, KeySchema};

use crate::{Error, KeyCondition, KeyTest, SortTest};

/// One partition, and a range of the sort keys in it.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRange {
    /// One value per partition attribute, in schema order.
    pub partition: Vec<AttributeValue>,
    /// What the leading sort attributes equal, in schema order.
    pub sort: Vec<AttributeValue>,
    /// A test on the sort attribute that follows those; never `Equal`.
    pub last: Option<SortTest>,
}

impl KeyCondition {
    /// The range this condition points to in a table or index with the key `schema`.
    pub fn resolve(&self, schema: &KeySchema) -> Result<KeyRange, Error> {
        let defined = schema.attributes().count();
        if self.tests.len() > defined {
            return Err(Error::TooManyKeyConditions { given: self.tests.len(), defined });
        }
        let partition = self.partition(schema)?;
        if self.tests.iter().any(|test| !schema.contains(&test.attribute)) {
            let missed = schema.sort.iter().find(|attribute| self.test_of(attribute).is_none());
            return Err(Error::MissedKey(missed.map(|attribute| attribute.name.clone()).unwrap_or_default()));
        }
        let (sort, last) = self.sort(schema)?;
        for attribute in schema.attributes() {
            self.test_of(attribute).map_or(Ok(()), |test| check_type(attribute, &test.test))?;
        }
        // Copied only now: a value of another type can be very large.
        let copied = |values: Vec<&AttributeValue>| values.into_iter().cloned().collect();
        Ok(KeyRange { partition: copied(partition), sort: copied(sort), last })
    }

    fn test_of(&self, attribute: &KeyAttribute) -> Option<&KeyTest> {
        self.tests.iter().find(|test| *test.attribute == *attribute.name)
    }

    fn equal_to(&self, attribute: &KeyAttribute) -> Option<&AttributeValue> {
        match &self.test_of(attribute)?.test {
            SortTest::Equal(value) => Some(value),
            _ => None,
        }
    }

    fn partition(&self, schema: &KeySchema) -> Result<Vec<&AttributeValue>, Error> {
        let (equal, missing): (Vec<_>, Vec<_>) =
            schema.partition.iter().partition(|attribute| self.equal_to(attribute).is_some());
        if let Some(first) = missing.first() {
            let single = schema.partition.len() == 1 && schema.sort.len() <= 1;
            return Err(match self.test_of(first) {
                Some(_) if single => Error::KeyConditionUnsupported,
                None if single => Error::MissedKey(first.name.clone()),
                _ => Error::PartitionNotEqual(names(&missing)),
            });
        }
        Ok(equal.into_iter().filter_map(|attribute| self.equal_to(attribute)).collect())
    }

    fn sort(&self, schema: &KeySchema) -> Result<(Vec<&AttributeValue>, Option<SortTest>), Error> {
        let Some(last) = schema.sort.iter().rposition(|attribute| self.test_of(attribute).is_some()) else {
            return Ok((Vec::new(), None));
        };
        let missing: Vec<&KeyAttribute> =
            schema.sort[..last].iter().filter(|attribute| self.equal_to(attribute).is_none()).collect();
        if !missing.is_empty() {
            let last = schema.sort[last].name.clone();
            return Err(Error::SortNotEqual { missing: names(&missing), last });
        }
        let equal = schema.sort[..=last].iter().filter_map(|attribute| self.equal_to(attribute));
        let test = self.test_of(&schema.sort[last]).map(|test| test.test.clone());
        Ok((equal.collect(), test.filter(|test| !matches!(test, SortTest::Equal(_)))))
    }
}

fn names(attributes: &[&KeyAttribute]) -> Vec<String> {
    attributes.iter().map(|attribute| attribute.name.clone()).collect()
}

fn check_type(attribute: &KeyAttribute, test: &SortTest) -> Result<(), Error> {
    if test.values().all(|value| value.kind().name() == attribute.kind.name()) {
        Ok(())
    } else {
        Err(Error::KeyTypeMismatch)
    }
}

impl SortTest {
    /// The one or two values the attribute is held against.
    pub fn values(&self) -> impl Iterator<Item = &AttributeValue> {
        let (first, second) = match self {
            Self::Equal(value)
            | Self::Less(value)
            | Self::LessOrEqual(value)
            | Self::Greater(value)
            | Self::GreaterOrEqual(value)
            | Self::BeginsWith(value) => (value, None),
            Self::Between(low, high) => (low, Some(high)),
        };
        std::iter::once(&**first).chain(second.map(|value| &**value))
    }
}
