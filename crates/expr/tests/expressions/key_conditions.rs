use std::sync::Arc;

use larder_expr::{KeyRange, SortTest};
use larder_model::{AttributeValue, KeyAttribute, KeySchema, KeyType};

use crate::scope;

fn attributes(names: &[&str]) -> Vec<KeyAttribute> {
    names.iter().map(|name| KeyAttribute { name: (*name).to_owned(), kind: KeyType::S }).collect()
}

fn schema(partition: &[&str], sort: &[&str]) -> KeySchema {
    KeySchema { partition: attributes(partition), sort: attributes(sort) }
}

fn s() -> AttributeValue {
    "s".into()
}

fn resolve(condition: &str, schema: &KeySchema) -> Result<KeyRange, String> {
    let bound = scope().key_condition(condition).map_err(|error| error.to_string())?;
    bound.resolve(schema).map_err(|error| error.to_string())
}

#[test]
fn a_condition_points_to_a_range_of_one_partition() {
    let t = || Arc::new(AttributeValue::from("t"));
    for (condition, last) in [
        ("pk = :s", None),
        ("(pk = :s)", None),
        (":s = pk", None),
        ("pk = :s AND sk < :t", Some(SortTest::Less(t()))),
        ("pk = :s AND sk <= :t", Some(SortTest::LessOrEqual(t()))),
        ("sk > :t AND pk = :s", Some(SortTest::Greater(t()))),
        ("(pk = :s) AND (sk >= :t)", Some(SortTest::GreaterOrEqual(t()))),
        ("pk = :s AND :t > sk", Some(SortTest::Less(t()))),
        ("pk = :s AND :t <= sk", Some(SortTest::GreaterOrEqual(t()))),
        ("pk = :s AND sk BETWEEN :s AND :t", Some(SortTest::Between(Arc::new(s()), t()))),
        ("pk = :s AND begins_with(sk, :t)", Some(SortTest::BeginsWith(t()))),
    ] {
        let range = KeyRange { partition: vec![s()], sort: vec![], last };
        assert_eq!(resolve(condition, &schema(&["pk"], &["sk"])), Ok(range), "{condition}");
    }
    let range = KeyRange { partition: vec![s()], sort: vec![(*t()).clone()], last: None };
    assert_eq!(resolve("pk = :s AND sk = :t", &schema(&["pk"], &["sk"])), Ok(range));
}

#[test]
fn leading_sort_attributes_are_equal_and_one_may_follow() {
    let schema = schema(&["p", "q"], &["x", "y", "z"]);
    let range = |sort: usize, last| KeyRange { partition: vec![s(), s()], sort: vec![s(); sort], last };
    for (condition, expected) in [
        ("q = :s AND p = :s", range(0, None)),
        ("p = :s AND q = :s AND x = :s", range(1, None)),
        ("p = :s AND q = :s AND y > :s AND x = :s", range(1, Some(SortTest::Greater(Arc::new(s()))))),
        ("p = :s AND q = :s AND x = :s AND y = :s AND z = :s", range(3, None)),
    ] {
        assert_eq!(resolve(condition, &schema), Ok(expected), "{condition}");
    }
    for (condition, message) in [
        ("p = :s", "HASH key attributes q must have equality conditions specified in the query"),
        (
            "p > :s AND x = :s",
            "HASH key attributes p, q must have equality conditions specified in the query",
        ),
        (
            "p = :s AND q = :s AND z = :s",
            "RANGE key attributes x, y must have equality conditions specified in the query because a condition is present on key attribute z",
        ),
        (
            "p = :s AND q = :s AND x > :s AND y = :s",
            "RANGE key attributes x must have equality conditions specified in the query because a condition is present on key attribute y",
        ),
        ("p = :s AND q = :s AND extra = :s", "Query condition missed key schema element: x"),
    ] {
        assert_eq!(resolve(condition, &schema), Err(message.to_owned()), "{condition}");
    }
}

#[test]
fn what_the_table_cannot_answer_is_said() {
    let both = schema(&["pk"], &["sk"]);
    for (condition, message) in [
        ("sk = :s", "Query condition missed key schema element: pk"),
        ("extra = :s", "Query condition missed key schema element: pk"),
        ("pk = :s AND extra = :s", "Query condition missed key schema element: sk"),
        ("pk > :s", "Query key condition not supported"),
        ("begins_with(pk, :s) AND sk = :s", "Query key condition not supported"),
        (
            "pk = :one",
            "One or more parameter values were invalid: Condition parameter type does not match schema type",
        ),
        (
            "pk = :s AND sk = :true",
            "One or more parameter values were invalid: Condition parameter type does not match schema type",
        ),
        (
            "pk = :s AND sk > :s AND extra = :s",
            "The number of query conditions (3) exceeds the number of key attributes defined in the schema (2)",
        ),
    ] {
        assert_eq!(resolve(condition, &both), Err(message.to_owned()), "{condition}");
    }
}
