//! A condition and a table's key to the way it is carried out: one item, partitions, or a scan.
//!
//! A SELECT reads partitions if each way to meet its condition names a value of the partition key, by `=` or `IN`: one
//! part for each value, narrowed by the sort key where a test of it is at hand. What is left of the condition is held
//! against what is read. A table's own partition and sort key by `=` are one item. All else is a scan.
//!
//! A write names its item by `=` on every key attribute, joined to the rest by AND alone.
//!
//! Promise: an item meets the condition of a SELECT if, and only if, exactly one part finds it and its filter holds.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use larder_expr::{Comparator, Condition, KeyCondition, KeyTest, Operand, SortTest};
use larder_model::limits::IN_PARTITIONS_MAX;
use larder_model::{AttributeType, AttributeValue, Item, KeyAttribute, KeySchema, Number, Path};

use crate::bound::{Order, Select};
use crate::error::Error;

/// How a SELECT is carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    Get(Keyed),
    /// One after the other.
    Query {
        parts: Vec<Part>,
        forward: bool,
    },
    Scan {
        filter: Option<Condition>,
    },
}

/// One item, and what must hold for it beside its key.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyed {
    pub key: Item,
    pub condition: Option<Condition>,
}

/// A range of one partition, and what must hold beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub key: KeyCondition,
    pub filter: Option<Condition>,
}

/// How a SELECT is carried out on a table with this key, or on an index with this key.
pub fn plan(select: &Select, schema: &KeySchema) -> Result<Access, Error> {
    let (partition, sort) = single(schema)?;
    for order in &select.order {
        if select.condition.is_none() {
            return Err(Error::OrderWithoutWhere);
        }
        if *order.attribute != *partition.name && sort.is_none_or(|sort| *order.attribute != *sort.name) {
            return Err(Error::OrderByOther(order.attribute.to_string()));
        }
    }
    let ways = select.condition.as_ref().and_then(|condition| ways(&conjuncts(condition), &partition.name));
    let Some(ways) = ways else {
        if !select.order.is_empty() {
            return Err(Error::OrderWithoutPartition);
        }
        return Ok(Access::Scan { filter: select.condition.clone() });
    };
    let mut parts = Vec::with_capacity(ways.len().min(IN_PARTITIONS_MAX));
    for way in &ways {
        check_value(partition, way.value)?;
        parts.push(Narrowed::of(way, partition, sort)?);
    }
    match check_overlaps(&parts) {
        // As was seen of DynamoDB, which does not look at such ranges. Parts that meet would find an item twice.
        Err(Error::Overlap) if select.order.is_empty() && parts.iter().any(|part| part.is_loose) => {
            return Ok(Access::Scan { filter: select.condition.clone() });
        }
        checked => checked?,
    }
    if let ([only], None) = (parts.as_slice(), &select.index)
        && let Some(key) = only.whole_key(partition, sort)
    {
        return Ok(Access::Get(Keyed { key, condition: joined(&only.filter) }));
    }
    let forward = arrange(&mut parts, &select.order, partition)?;
    Ok(Access::Query { parts: parts.iter().map(|part| part.part(partition, sort)).collect(), forward })
}

/// The item that a write is about.
pub fn keyed_write(condition: Option<&Condition>, schema: &KeySchema) -> Result<Keyed, Error> {
    let conjuncts = condition.map(conjuncts).unwrap_or_default();
    let mut key = Item::new();
    for attribute in schema.attributes() {
        for value in conjuncts.iter().filter_map(|conjunct| equality(conjunct, &attribute.name)) {
            check_value(attribute, value)?;
            if key.get(&attribute.name).is_some_and(|known| *known != **value) {
                return Err(Error::KeyGivenTwice(attribute.name.clone()));
            }
            key.insert(attribute.name.as_str(), (**value).clone());
        }
        if !key.contains(&attribute.name) {
            return Err(Error::KeyNotGiven);
        }
    }
    let is_key = |conjunct: &&&Condition| {
        schema.attributes().any(|attribute| equality(conjunct, &attribute.name).is_some())
    };
    let rest: Vec<&Condition> = conjuncts.iter().filter(|conjunct| !is_key(conjunct)).copied().collect();
    Ok(Keyed { key, condition: joined(&rest) })
}

/// Refuses an item whose key, as far as it has one, is not of the table's types.
pub fn check_insert(item: &Item, schema: &KeySchema) -> Result<(), Error> {
    let given = schema.attributes().filter_map(|attribute| Some((attribute, item.get(&attribute.name)?)));
    given.into_iter().try_for_each(|(attribute, value)| check_value(attribute, value))
}

/// The item that a SELECT of a batch or a transaction reads: it says the key, and nothing else. `within` is the
/// operation.
pub fn keyed_read(select: &Select, schema: &KeySchema, within: &'static str) -> Result<Item, Error> {
    if select.index.is_some() {
        return Err(Error::SelectWithoutKey(within));
    }
    match plan(select, schema)? {
        Access::Get(Keyed { key, condition: None }) => Ok(key),
        _ => Err(Error::SelectWithoutKey(within)),
    }
}

/// The item that an EXISTS is about, and what must hold for it.
pub fn keyed_check(select: &Select, schema: &KeySchema, within: &'static str) -> Result<Keyed, Error> {
    match plan(select, schema)? {
        Access::Get(keyed) if select.index.is_none() => Ok(keyed),
        _ => Err(Error::SelectWithoutKey(within)),
    }
}

/// The values of a partition key that a condition names, for whoever asks which partitions a statement is about. None
/// are named by a scan that could find any.
pub fn leading_values<'c>(condition: &'c Condition, partition: &str) -> Vec<&'c AttributeValue> {
    let conjuncts = conjuncts(condition);
    match ways(&conjuncts, partition) {
        Some(ways) => ways.into_iter().map(|way| &**way.value).collect(),
        // Named more than once: a write takes that if it is the same each time.
        None => {
            let values = conjuncts.into_iter().filter_map(|conjunct| named_values(conjunct, partition));
            values.flatten().map(|value| &**value).collect()
        }
    }
}

/// The attributes of a key that has one of each kind at most.
fn single(schema: &KeySchema) -> Result<(&KeyAttribute, Option<&KeyAttribute>), Error> {
    match (schema.partition.as_slice(), schema.sort.as_slice()) {
        ([partition], []) => Ok((partition, None)),
        ([partition], [sort]) => Ok((partition, Some(sort))),
        _ => Err(Error::ManyKeyAttributes),
    }
}

fn check_value(attribute: &KeyAttribute, value: &AttributeValue) -> Result<(), Error> {
    let kind = value.kind();
    if !matches!(kind, AttributeType::S | AttributeType::N | AttributeType::B) {
        return Err(Error::KeyValue { name: attribute.name.clone(), kind });
    }
    if kind.name() != attribute.kind.name() {
        return Err(Error::KeyType(attribute.name.clone()));
    }
    Ok(())
}

/// One way to meet a condition: the partition is this, and the rest holds.
#[derive(Clone, Debug)]
struct Way<'c> {
    value: &'c Arc<AttributeValue>,
    rest: Vec<&'c Condition>,
}

/// The ways to meet all of `conjuncts`, if each names its partition, once.
fn ways<'c>(conjuncts: &[&'c Condition], partition: &str) -> Option<Vec<Way<'c>>> {
    let mut naming = conjuncts
        .iter()
        .enumerate()
        .filter_map(|(at, conjunct)| named_values(conjunct, partition).map(|values| (at, values)));
    match (naming.next(), naming.next()) {
        (Some(_), Some(_)) => return None,
        (Some((at, values)), None) => {
            let rest = without(conjuncts, at);
            return Some(values.into_iter().map(|value| Way { value, rest: rest.clone() }).collect());
        }
        (None, _) => {}
    }
    conjuncts.iter().enumerate().find_map(|(at, conjunct)| {
        let Condition::Or(..) = conjunct else { return None };
        let rest = without(conjuncts, at);
        let mut all = Vec::new();
        for alternative in alternatives(conjunct) {
            for mut way in ways(&self::conjuncts(alternative), partition)? {
                way.rest.extend(&rest);
                all.push(way);
            }
        }
        Some(all)
    })
}

fn without<'c>(conjuncts: &[&'c Condition], at: usize) -> Vec<&'c Condition> {
    conjuncts.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, conjunct)| *conjunct).collect()
}

/// What a condition demands, all of it.
fn conjuncts(condition: &Condition) -> Vec<&Condition> {
    flattened(condition, |condition| match condition {
        Condition::And(left, right) => Some((left, right)),
        _ => None,
    })
}

/// What a condition leaves to choose from.
fn alternatives(condition: &Condition) -> Vec<&Condition> {
    flattened(condition, |condition| match condition {
        Condition::Or(left, right) => Some((left, right)),
        _ => None,
    })
}

/// The parts of a chain, in order.
fn flattened<'c>(
    condition: &'c Condition,
    pair: fn(&'c Condition) -> Option<(&'c Condition, &'c Condition)>,
) -> Vec<&'c Condition> {
    let mut parts = Vec::new();
    let mut open = vec![condition];
    while let Some(next) = open.pop() {
        match pair(next) {
            Some((left, right)) => open.extend([right, left]),
            None => parts.push(next),
        }
    }
    parts
}

fn is_attribute(path: &Path, name: &str) -> bool {
    path.steps.is_empty() && *path.root == *name
}

/// The value that a condition says an attribute is equal to.
fn equality<'c>(condition: &'c Condition, attribute: &str) -> Option<&'c Arc<AttributeValue>> {
    let Condition::Compare { left, comparator: Comparator::Equal, right } = condition else { return None };
    match (left, right) {
        (Operand::Path(path), Operand::Value(value)) | (Operand::Value(value), Operand::Path(path))
            if is_attribute(path, attribute) =>
        {
            Some(value)
        }
        _ => None,
    }
}

/// The values that a condition says an attribute is one of.
fn named_values<'c>(condition: &'c Condition, attribute: &str) -> Option<Vec<&'c Arc<AttributeValue>>> {
    if let Some(value) = equality(condition, attribute) {
        return Some(vec![value]);
    }
    let Condition::In { value: Operand::Path(path), list } = condition else { return None };
    if !is_attribute(path, attribute) {
        return None;
    }
    let values = list.iter().map(|operand| match operand {
        Operand::Value(value) => Some(value),
        Operand::Path(_) | Operand::Size(_) => None,
    });
    values.collect()
}

/// What a condition says of the sort key, if a range of keys can say it.
fn sort_test(condition: &Condition, sort: &str) -> Option<SortTest> {
    let is_sort = |operand: &Operand| matches!(operand, Operand::Path(path) if is_attribute(path, sort));
    match condition {
        Condition::In { .. } => match named_values(condition, sort)?.as_slice() {
            [only] => Some(SortTest::Equal(Arc::clone(only))),
            _ => None,
        },
        Condition::Compare { left, comparator, right } => {
            let (comparator, value) = match (left, right) {
                (left, Operand::Value(value)) if is_sort(left) => (*comparator, value),
                (Operand::Value(value), right) if is_sort(right) => (mirrored(*comparator), value),
                _ => return None,
            };
            let value = Arc::clone(value);
            match comparator {
                Comparator::Equal => Some(SortTest::Equal(value)),
                Comparator::Less => Some(SortTest::Less(value)),
                Comparator::LessOrEqual => Some(SortTest::LessOrEqual(value)),
                Comparator::Greater => Some(SortTest::Greater(value)),
                Comparator::GreaterOrEqual => Some(SortTest::GreaterOrEqual(value)),
                Comparator::NotEqual => None,
            }
        }
        Condition::Between { value, low: Operand::Value(low), high: Operand::Value(high) }
            if is_sort(value) =>
        {
            Some(SortTest::Between(Arc::clone(low), Arc::clone(high)))
        }
        Condition::BeginsWith { value, prefix: Operand::Value(prefix) } if is_sort(value) => {
            Some(SortTest::BeginsWith(Arc::clone(prefix)))
        }
        _ => None,
    }
}

/// Whether a condition says what the sort key is not, or several things that it may be.
fn leaves_out(condition: &Condition, sort: &str) -> bool {
    let is_sort = |operand: &Operand| matches!(operand, Operand::Path(path) if is_attribute(path, sort));
    match condition {
        Condition::Not(inner) => sort_test(inner, sort).is_some() || leaves_out(inner, sort),
        Condition::Compare { left, comparator: Comparator::NotEqual, right } => {
            is_sort(left) || is_sort(right)
        }
        Condition::In { value, list } => is_sort(value) && list.len() > 1,
        _ => false,
    }
}

fn mirrored(comparator: Comparator) -> Comparator {
    match comparator {
        Comparator::Less => Comparator::Greater,
        Comparator::LessOrEqual => Comparator::GreaterOrEqual,
        Comparator::Greater => Comparator::Less,
        Comparator::GreaterOrEqual => Comparator::LessOrEqual,
        Comparator::Equal | Comparator::NotEqual => comparator,
    }
}

/// A way whose sort key test has been found.
struct Narrowed<'c> {
    value: &'c Arc<AttributeValue>,
    test: Option<SortTest>,
    filter: Vec<&'c Condition>,
    /// More is said of the sort key than one range: what a range leaves out, or two of them.
    is_loose: bool,
    /// The partition and the range of sort keys, in the order of keys.
    place: Scalar,
    range: (Bound<Scalar>, Bound<Scalar>),
}

impl<'c> Narrowed<'c> {
    fn of(way: &Way<'c>, partition: &KeyAttribute, sort: Option<&KeyAttribute>) -> Result<Self, Error> {
        let place = Scalar::of(way.value).ok_or_else(|| Error::KeyType(partition.name.clone()))?;
        let mut narrowed = Self {
            value: way.value,
            test: None,
            filter: way.rest.clone(),
            is_loose: false,
            place,
            range: (Bound::Unbounded, Bound::Unbounded),
        };
        let Some(sort) = sort else { return Ok(narrowed) };
        let tests: Vec<(usize, SortTest)> = way
            .rest
            .iter()
            .enumerate()
            .filter_map(|(at, condition)| sort_test(condition, &sort.name).map(|test| (at, test)))
            .collect();
        for value in tests.iter().flat_map(|(_, test)| test.values()) {
            check_value(sort, value)?;
        }
        narrowed.is_loose = tests.iter().any(|(_, test)| *test != tests[0].1)
            || way.rest.iter().any(|condition| leaves_out(condition, &sort.name));
        let best = tests.iter().position(|(_, test)| matches!(test, SortTest::Equal(_))).unwrap_or(0);
        if let Some((at, test)) = tests.into_iter().nth(best) {
            narrowed.range = range(&test).ok_or_else(|| Error::KeyType(sort.name.clone()))?;
            narrowed.filter = without(&way.rest, at);
            narrowed.test = Some(test);
        }
        Ok(narrowed)
    }

    /// The key of the one item that it can find, if it is one.
    fn whole_key(&self, partition: &KeyAttribute, sort: Option<&KeyAttribute>) -> Option<Item> {
        let mut key = Item::new();
        key.insert(partition.name.as_str(), (**self.value).clone());
        if let Some(sort) = sort {
            let Some(SortTest::Equal(value)) = &self.test else { return None };
            key.insert(sort.name.as_str(), (**value).clone());
        }
        Some(key)
    }

    fn part(&self, partition: &KeyAttribute, sort: Option<&KeyAttribute>) -> Part {
        let test =
            |attribute: &KeyAttribute, test| KeyTest { attribute: attribute.name.as_str().into(), test };
        let mut tests = vec![test(partition, SortTest::Equal(Arc::clone(self.value)))];
        tests.extend(sort.zip(self.test.clone()).map(|(sort, sort_test)| test(sort, sort_test)));
        Part { key: KeyCondition { tests }, filter: joined(&self.filter) }
    }
}

/// Puts the parts in the order asked for, and says whether each is read forward.
fn arrange(parts: &mut Vec<Narrowed<'_>>, order: &[Order], partition: &KeyAttribute) -> Result<bool, Error> {
    if order.is_empty() {
        return Ok(true);
    }
    let by_partition = order.iter().find(|order| *order.attribute == *partition.name);
    let by_sort = order.iter().find(|order| *order.attribute != *partition.name);
    let many = parts.iter().any(|part| part.place != parts[0].place);
    if many && by_partition.is_none() {
        return Err(Error::OrderOfPartitions);
    }
    // As was seen of DynamoDB: ordered by the partition key alone, a partition is read from its end.
    let forward = by_sort.is_some_and(|order| !order.descending);
    let down = by_partition.is_some_and(|order| order.descending);
    parts.sort_by(|one, two| {
        let partitions = directed(one.place.cmp(&two.place), !down);
        partitions.then_with(|| directed(by_start(&one.range.0, &two.range.0), forward))
    });
    Ok(forward)
}

fn directed(ordering: Ordering, forward: bool) -> Ordering {
    if forward { ordering } else { ordering.reverse() }
}

/// What begins with a value comes before what begins after it.
fn by_start(one: &Bound<Scalar>, two: &Bound<Scalar>) -> Ordering {
    fn start(bound: &Bound<Scalar>) -> Option<(&Scalar, bool)> {
        match bound {
            Bound::Unbounded => None,
            Bound::Included(value) => Some((value, false)),
            Bound::Excluded(value) => Some((value, true)),
        }
    }
    start(one).cmp(&start(two))
}

/// Refuses parts that could find the same item, and too many partitions.
fn check_overlaps(parts: &[Narrowed<'_>]) -> Result<(), Error> {
    let mut places: Vec<&Narrowed<'_>> = parts.iter().collect();
    places.sort_by(|one, two| one.place.cmp(&two.place).then_with(|| by_start(&one.range.0, &two.range.0)));
    // By their starts, two that meet have some neighbours that do.
    let meets =
        |pair: &[&Narrowed<'_>]| pair[0].place == pair[1].place && overlap(&pair[0].range, &pair[1].range);
    if places.windows(2).any(meets) {
        return Err(Error::Overlap);
    }
    match places.chunk_by(|one, two| one.place == two.place).count() {
        0..=IN_PARTITIONS_MAX => Ok(()),
        many => Err(Error::TooManyPartitions(many)),
    }
}

type Range = (Bound<Scalar>, Bound<Scalar>);

fn overlap(one: &Range, two: &Range) -> bool {
    !ends_before(&one.1, &two.0) && !ends_before(&two.1, &one.0)
}

fn ends_before(end: &Bound<Scalar>, start: &Bound<Scalar>) -> bool {
    match (end, start) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(end), Bound::Included(start)) => end < start,
        (Bound::Included(end) | Bound::Excluded(end), Bound::Included(start) | Bound::Excluded(start)) => {
            end <= start
        }
    }
}

/// The sort keys that pass a test.
fn range(test: &SortTest) -> Option<Range> {
    let scalar = |value: &Arc<AttributeValue>| Scalar::of(value);
    Some(match test {
        SortTest::Equal(value) => (Bound::Included(scalar(value)?), Bound::Included(scalar(value)?)),
        SortTest::Less(value) => (Bound::Unbounded, Bound::Excluded(scalar(value)?)),
        SortTest::LessOrEqual(value) => (Bound::Unbounded, Bound::Included(scalar(value)?)),
        SortTest::Greater(value) => (Bound::Excluded(scalar(value)?), Bound::Unbounded),
        SortTest::GreaterOrEqual(value) => (Bound::Included(scalar(value)?), Bound::Unbounded),
        SortTest::Between(low, high) => (Bound::Included(scalar(low)?), Bound::Included(scalar(high)?)),
        SortTest::BeginsWith(prefix) => {
            let Scalar::Bytes(bytes) = scalar(prefix)? else { return None };
            let mut after = bytes.clone();
            while after.last() == Some(&u8::MAX) {
                after.pop();
            }
            let end = match after.last_mut() {
                Some(last) => {
                    *last += 1;
                    Bound::Excluded(Scalar::Bytes(after))
                }
                None => Bound::Unbounded,
            };
            (Bound::Included(Scalar::Bytes(bytes)), end)
        }
    })
}

/// A key's value, in the order of keys. Those that are compared are of one type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scalar {
    Bytes(Vec<u8>),
    Number(Number),
}

impl Scalar {
    fn of(value: &AttributeValue) -> Option<Self> {
        match value {
            AttributeValue::S(text) => Some(Self::Bytes(text.clone().into_bytes())),
            AttributeValue::B(bytes) => Some(Self::Bytes(bytes.clone())),
            AttributeValue::N(number) => Some(Self::Number(*number)),
            _ => None,
        }
    }
}

fn joined(conditions: &[&Condition]) -> Option<Condition> {
    let mut conditions = conditions.iter().map(|condition| (*condition).clone());
    let first = conditions.next()?;
    Some(conditions.fold(first, |all, next| Condition::And(Box::new(all), Box::new(next))))
}

#[cfg(test)]
mod tests {
    use larder_expr::Renderer;
    use larder_model::KeyType;
    use proptest::prelude::*;

    use super::*;
    use crate::{Statement, read};

    fn schema() -> KeySchema {
        let attribute = |name: &str, kind| KeyAttribute { name: name.to_owned(), kind };
        KeySchema { partition: vec![attribute("pk", KeyType::S)], sort: vec![attribute("sk", KeyType::N)] }
    }

    fn select(text: &str) -> Select {
        match read(text, &[]).unwrap() {
            Statement::Select(select) => select,
            other => panic!("{other:?} is no SELECT"),
        }
    }

    fn planned(condition: &str) -> Result<Access, Error> {
        plan(&select(&format!("SELECT * FROM ttt {condition}")), &schema())
    }

    fn text(condition: &Option<Condition>) -> String {
        let mut renderer = Renderer::new();
        let mut text = condition.as_ref().map_or_else(String::new, |condition| renderer.condition(condition));
        let placeholders = renderer.finish();
        for (key, name) in placeholders.names.iter().rev() {
            text = text.replace(key.as_str(), name);
        }
        text
    }

    fn check(condition: &str, expected: &str) {
        let found = match planned(condition) {
            Ok(Access::Get(keyed)) => format!("get {}", text(&keyed.condition)),
            Ok(Access::Scan { filter }) => format!("scan {}", text(&filter)),
            Ok(Access::Query { parts, forward }) => {
                let parts = parts.iter().map(|part| {
                    let mut renderer = Renderer::new();
                    let key = renderer.key_condition(&part.key);
                    let placeholders = renderer.finish();
                    let value = |at: usize| match &placeholders.values[&format!(":v{at}")] {
                        AttributeValue::S(text) => text.clone(),
                        AttributeValue::N(number) => number.to_string(),
                        other => format!("{other:?}"),
                    };
                    let names = placeholders.names.iter().rev();
                    let mut key = names.fold(key, |key, (place, name)| key.replace(place.as_str(), name));
                    for at in (0..placeholders.values.len()).rev() {
                        key = key.replace(&format!(":v{at}"), &value(at));
                    }
                    format!("{key} | {}", text(&part.filter))
                });
                let direction = if forward { "query" } else { "query back" };
                format!("{direction} {}", parts.collect::<Vec<_>>().join("; "))
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found.trim_end(), expected, "{condition}");
    }

    #[test]
    fn key_conditions_are_found() {
        check("", "scan");
        check("WHERE a = 1", "scan a = :v0");
        check("WHERE pk > 'a'", "scan pk > :v0");
        check("WHERE pk = 'a' AND sk = 1", "get");
        check("WHERE 1 = sk AND a = 2 AND 'a' = pk", "get a = :v0");
        check("WHERE pk IN ['a'] AND sk IN (1)", "get");
        check("WHERE pk = 'a'", "query pk = a |");
        check("WHERE pk = 'a' AND sk > 1 AND b = 2", "query pk = a AND sk > 1 | b = :v0");
        check("WHERE pk = 'a' AND 1 > sk", "query pk = a AND sk < 1 |");
        check("WHERE pk = 'a' AND sk BETWEEN 1 AND 5", "query pk = a AND sk BETWEEN 1 AND 5 |");
        check("WHERE pk = 'a' AND sk <> 1", "query pk = a | sk <> :v0");
        check("WHERE pk = 'a' AND sk > 1 AND sk < 5", "query pk = a AND sk > 1 | sk < :v0");
        check("WHERE pk = 'a' AND (x = 1 OR y = 2)", "query pk = a | x = :v0 OR y = :v1");
        check("WHERE pk = 'a' AND NOT sk = 1", "query pk = a | NOT sk = :v0");
    }

    #[test]
    fn several_partitions_are_several_parts() {
        check("WHERE pk IN ['a', 'b']", "query pk = a | ; pk = b |");
        check("WHERE pk = 'b' OR pk = 'a' AND x = 1", "query pk = b | ; pk = a | x = :v0");
        check("WHERE (pk = 'a' OR pk = 'b') AND sk < 3", "query pk = a AND sk < 3 | ; pk = b AND sk < 3 |");
        check(
            "WHERE pk = 'a' AND sk < 3 OR pk = 'a' AND sk = 3",
            "query pk = a AND sk < 3 | ; pk = a AND sk = 3 |",
        );
        check("WHERE pk = 'a' OR x = 1", "scan pk = :v0 OR x = :v1");
        check("WHERE pk = 'a' AND pk = 'b'", "scan pk = :v0 AND pk = :v1");
    }

    #[test]
    fn parts_that_meet_are_refused() {
        for condition in [
            "WHERE pk = 'a' OR pk = 'a'",
            "WHERE pk IN ['a', 'b', 'a']",
            "WHERE pk = 'a' AND sk <= 3 OR pk = 'a' AND sk >= 3",
            "WHERE pk = 'a' AND sk = 3 OR pk = 'a' AND sk BETWEEN 1 AND 5",
            "WHERE pk = 'a' OR pk = 'a' AND sk = 3",
            "WHERE pk = 'a' AND sk <= 3 OR pk = 'a' AND sk > 3 OR pk = 'a' AND sk = 3",
        ] {
            check(condition, &Error::Overlap.to_string());
        }
        // Of ranges that something is left out of, or that are told twice, it is not looked at whether they meet.
        for condition in [
            "pk = 'a' AND sk <> 1 OR pk = 'a' AND sk = 2",
            "pk = 'a' OR pk = 'a' AND NOT sk = 1",
            "pk = 'a' AND NOT sk BETWEEN 1 AND 2 OR pk = 'a' AND sk = 3",
            "pk = 'a' AND sk > 0 AND sk < 3 OR pk = 'a' AND sk = 2",
            "pk = 'a' AND sk IN [1, 2] OR pk = 'a' AND sk = 3",
        ] {
            let planned = planned(&format!("WHERE {condition}"));
            assert!(matches!(planned, Ok(Access::Scan { .. })), "{condition}: {planned:?}");
        }
        check("WHERE pk = 'a' AND sk = 3 AND sk = 3 OR pk = 'a'", &Error::Overlap.to_string());
        let many: Vec<String> = (0..51).map(|at| format!("'{at}'")).collect();
        check(&format!("WHERE pk IN [{}]", many.join(",")), &Error::TooManyPartitions(51).to_string());
    }

    #[test]
    fn keys_are_of_their_types() {
        check(
            "WHERE pk = 1",
            "Key attribute's data type should match its data type in table's schema: Key pk",
        );
        check(
            "WHERE pk = 'a' AND sk > 'x'",
            "Key attribute's data type should match its data type in table's schema: Key sk",
        );
        check("WHERE pk = {}", "Key value must be of type S, N, or B. Key name: pk, Key type: M");
        check("WHERE pk > 1", "scan pk > :v0");
    }

    #[test]
    fn an_order_is_that_of_the_keys() {
        check("WHERE pk = 'a' ORDER BY sk", "query pk = a |");
        check("WHERE pk = 'a' ORDER BY sk DESC", "query back pk = a |");
        check("WHERE pk = 'a' ORDER BY pk", "query back pk = a |");
        check("WHERE pk IN ['b', 'a'] ORDER BY pk, sk", "query pk = a | ; pk = b |");
        check("WHERE pk IN ['a', 'b'] ORDER BY pk DESC, sk ASC", "query pk = b | ; pk = a |");
        check("ORDER BY sk", &Error::OrderWithoutWhere.to_string());
        check("WHERE pk > 'a' ORDER BY sk", &Error::OrderWithoutPartition.to_string());
        check("WHERE pk = 'a' ORDER BY x", "Attribute x in ORDER BY clause must be part of the primary key");
        check("WHERE pk IN ['a', 'b'] ORDER BY sk", &Error::OrderOfPartitions.to_string());
    }

    fn write(condition: &str) -> Result<Keyed, Error> {
        let Statement::Delete(delete) = read(&format!("DELETE FROM ttt {condition}"), &[]).unwrap() else {
            panic!("it is a DELETE")
        };
        keyed_write(delete.condition.as_ref(), &schema())
    }

    #[test]
    fn a_write_names_its_item() {
        let keyed = write("WHERE sk = 1 AND pk = 'a' AND (x = 1 OR y = 2)").unwrap();
        assert_eq!((keyed.key.len(), text(&keyed.condition)), (2, "x = :v0 OR y = :v1".to_owned()));
        assert_eq!(write("WHERE sk = 1 AND pk = 'a' AND sk = 1.0").unwrap().condition, None);
        for condition in ["", "WHERE pk = 'a'", "WHERE pk IN ['a'] AND sk = 1", "WHERE pk = 'a' AND sk > 1"] {
            assert_eq!(write(condition), Err(Error::KeyNotGiven), "{condition}");
        }
        assert_eq!(write("WHERE pk = 'a' AND pk = 'b'"), Err(Error::KeyGivenTwice("pk".to_owned())));
    }

    #[test]
    fn a_select_of_a_batch_says_the_key_and_nothing_else() {
        let read = |text: &str| keyed_read(&select(&format!("SELECT * FROM {text}")), &schema(), "B");
        assert_eq!(read("ttt WHERE pk = 'a' AND sk = 1").unwrap().len(), 2);
        for text in ["ttt", "ttt WHERE pk = 'a'", "ttt WHERE pk = 'a' AND sk = 1 AND x = 1"] {
            assert_eq!(read(text), Err(Error::SelectWithoutKey("B")), "{text}");
        }
        assert_eq!(read("ttt.iii WHERE pk = 'a' AND sk = 1"), Err(Error::SelectWithoutKey("B")));
    }

    #[test]
    fn leading_values_are_all_that_a_condition_names() {
        for (text, expected) in [
            ("pk = 'a' AND sk > 1", vec!["a"]),
            ("pk IN ['a', 'b'] AND x = 1", vec!["a", "b"]),
            ("pk = 'a' OR pk = 'b' AND x = 1", vec!["a", "b"]),
            ("pk = 'a' AND pk = 'a'", vec!["a", "a"]),
            ("pk = 'a' OR x = 1", vec![]),
            ("x = 1", vec![]),
        ] {
            let select = select(&format!("SELECT * FROM ttt WHERE {text}"));
            let condition = select.condition.unwrap();
            let found = leading_values(&condition, "pk");
            let found: Vec<&str> = found.into_iter().filter_map(AttributeValue::as_str).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    fn comparison() -> impl Strategy<Value = String> {
        prop_oneof![
            3 => "[ab]".prop_map(|value| format!("pk = '{value}'")),
            1 => Just("pk IN ['a', 'c']".to_owned()),
            1 => "[ab]".prop_map(|value| format!("pk <> '{value}'")),
            2 => (0..4i64, prop::sample::select(vec!["=", "<", "<=", ">", ">=", "<>"]))
                .prop_map(|(value, sign)| format!("sk {sign} {value}")),
            1 => (0..4i64, 0..4i64).prop_map(|(low, high)| {
                format!("sk BETWEEN {} AND {}", low.min(high), low.max(high))
            }),
            1 => (0..2).prop_map(|value| format!("x = {value}")),
        ]
    }

    fn condition() -> impl Strategy<Value = String> {
        comparison().prop_recursive(4, 12, 3, |inner| {
            prop_oneof![
                3 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" AND "))),
                2 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" OR "))),
                1 => inner.prop_map(|part| format!("NOT {part}")),
            ]
        })
    }

    /// Whether an item is within a range of keys, by the key alone.
    fn finds(key: &KeyCondition, item: &Item) -> bool {
        let range = key.resolve(&schema()).unwrap();
        let sort = item.get("sk").and_then(AttributeValue::as_number).copied().unwrap();
        let number = |value: &AttributeValue| value.as_number().copied().unwrap();
        item.get("pk") == range.partition.first()
            && range.sort.iter().all(|value| number(value) == sort)
            && range.last.as_ref().is_none_or(|test| match test {
                SortTest::Less(value) => sort < number(value),
                SortTest::LessOrEqual(value) => sort <= number(value),
                SortTest::Greater(value) => sort > number(value),
                SortTest::GreaterOrEqual(value) => sort >= number(value),
                SortTest::Between(low, high) => sort >= number(low) && sort <= number(high),
                SortTest::Equal(_) | SortTest::BeginsWith(_) => false,
            })
    }

    proptest! {
        #[test]
        fn every_item_is_found_once_if_it_meets_the_condition(condition in condition()) {
            let select = select(&format!("SELECT * FROM ttt WHERE {condition}"));
            let Ok(access) = plan(&select, &schema()) else { return Ok(()) };
            for (pk, sk, x) in ["a", "b", "c"].iter().flat_map(|pk| (0..4).flat_map(move |sk| [0, 1].map(|x| (*pk, sk, x)))) {
                let item: Item =
                    [("pk", AttributeValue::from(pk)), ("sk", sk.into()), ("x", x.into())].into_iter().collect();
                let holds = |condition: &Option<Condition>| {
                    condition.as_ref().is_none_or(|condition| condition.holds(Some(&item)) == Ok(true))
                };
                let found = match &access {
                    Access::Get(keyed) => {
                        let named = keyed.key.iter().all(|(name, value)| item.get(name) == Some(value));
                        usize::from(named && holds(&keyed.condition))
                    }
                    Access::Scan { filter } => usize::from(holds(filter)),
                    Access::Query { parts, .. } => {
                        parts.iter().filter(|part| finds(&part.key, &item) && holds(&part.filter)).count()
                    }
                };
                prop_assert_eq!(found, usize::from(holds(&select.condition)), "{:?}", item);
            }
        }
    }
}
