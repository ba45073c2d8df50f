use proptest::prelude::*;

use larder_engine::item_bytes::{self, StoredItem};
use larder_engine::ops::Row;
use larder_model::{AttributeValue, Item, Number};
use larder_storage::{Batch, Options, Store};

use super::{Flaws, attributes, put_item, put_row};
use crate::json::Reader;
use crate::refusal::{Layer, Refusal};

fn read(text: &str) -> (Result<Option<Item>, Refusal>, Flaws) {
    let mut flaws = Flaws::default();
    let item = attributes(&mut Reader::new(text), &mut flaws);
    (item, flaws)
}

/// The fault or flaw of one value, as the current layer puts it; empty if there is none.
fn check(value: &str, expected: &str) {
    let (item, flaws) = read(&format!(r#"{{"v": {value}}}"#));
    let found = match item {
        Err(Refusal::Shape(message)) => message,
        Err(other) => format!("{other:?}"),
        Ok(_) => {
            let fault = flaws.fault.map(|fault| fault.message(Layer::Current));
            fault.or_else(|| flaws.set.map(|set| set.message(Layer::Current))).unwrap_or_default()
        }
    };
    assert_eq!(found, expected, "{value}");
}

const NO_TYPE: &str = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes";
const MANY_TYPES: &str = "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes";
const FALSE_NULL: &str =
    "One or more parameter values were invalid: Null attribute value types must have the value of true";

#[test]
fn a_value_has_one_type() {
    check(r#"{"S": ""}"#, "");
    check(r#"{"S": "a", "N": null}"#, "");
    check(r#"{"S": "a", "S": "b"}"#, "");
    check("{}", NO_TYPE);
    check("null", NO_TYPE);
    check(r#"{"S": null}"#, NO_TYPE);
    check(r#"{"X": "a"}"#, NO_TYPE);
    check(r#"{"S": "a", "N": "1"}"#, MANY_TYPES);
    check(r#"{"S": "a", "N": "one"}"#, "The parameter cannot be converted to a numeric value: one");
    check(r#"{"S": "a", "NULL": false}"#, FALSE_NULL);
    check(
        r#"{"S": "a", "SS": []}"#,
        "One or more parameter values were invalid: An string set  may not be empty",
    );
}

#[test]
fn a_value_of_the_wrong_shape_is_named() {
    check("5", "Unexpected value type in payload");
    check("[]", "Unrecognized collection type class com.amazonaws.dynamodb.v20120810.AttributeValue");
    check(r#"{"S": 5}"#, "NUMBER_VALUE cannot be converted to String");
    check(r#"{"S": {}}"#, "Start of structure or map found where not expected");
    check(r#"{"L": "a"}"#, "Unexpected field type");
    check(r#"{"L": [1]}"#, "Unexpected value type in payload");
    check(r#"{"SS": {"a": "b"}}"#, "Start of structure or map found where not expected");
    check(r#"{"SS": [1]}"#, "NUMBER_VALUE cannot be converted to String");
    check(
        r#"{"M": []}"#,
        "Unrecognized collection type java.util.Map<java.lang.String, com.amazonaws.dynamodb.v20120810.AttributeValue>",
    );
    check(r#"{"B": "abc"}"#, "Base64 encoded length is expected a multiple of 4 bytes but found: 3");
    check(r#"{"BOOL": []}"#, "");
    check(r#"{"BOOL": "maybe", "S": "a"}"#, "Unexpected token received from parser");
    check(r#"{"NULL": 1.5}"#, "DECIMAL_VALUE cannot be converted to Boolean");
}

#[test]
fn numbers_and_nulls_are_checked() {
    check(r#"{"N": ""}"#, "The parameter cannot be converted to a numeric value: ");
    check(r#"{"N": " 1"}"#, "The parameter cannot be converted to a numeric value:  1");
    check(
        r#"{"N": "1e126"}"#,
        "Number overflow. Attempting to store a number with magnitude larger than supported range",
    );
    check(r#"{"NS": ["1", "x"]}"#, "The parameter cannot be converted to a numeric value: x");
    check(r#"{"NULL": false}"#, FALSE_NULL);
    check(r#"{"NULL": "yes"}"#, "");
    check(r#"{"L": [{"NULL": "no"}]}"#, FALSE_NULL);
}

#[test]
fn sets_have_members_and_no_member_twice() {
    let invalid = |cause: &str| format!("One or more parameter values were invalid: {cause}");
    check(r#"{"SS": []}"#, &invalid("An string set  may not be empty"));
    check(r#"{"NS": []}"#, &invalid("An number set  may not be empty"));
    check(r#"{"BS": []}"#, &invalid("Binary sets should not be empty"));
    check(
        r#"{"SS": ["b", "a", "b", "C"]}"#,
        &invalid(r#"Input collection ["a", "b", "b", "C"] contains duplicates."#),
    );
    check(
        r#"{"SS": ["q\"q", "q\"q"]}"#,
        &invalid(r#"Input collection ["q\"q", "q\"q"] contains duplicates."#),
    );
    check(r#"{"NS": ["1", "1.0"]}"#, &invalid("Input collection contains duplicates."));
    check(
        r#"{"BS": ["/w==", "AA==", "/w=="]}"#,
        &invalid(r#"Input collection ["AA==","/w==","/w=="]of type BS contains duplicates."#),
    );
}

#[test]
fn the_older_layer_words_numbers_and_sets_differently() {
    for (value, expected) in [
        (r#"{"N": ""}"#, "The parameter cannot be converted to a numeric value"),
        (
            r#"{"N": "1e2147483647"}"#,
            "Number underflow. Attempting to store a number with magnitude smaller than supported range",
        ),
        (r#"{"N": "1e2147483648"}"#, "The parameter cannot be converted to a numeric value: 1e2147483648"),
        (
            r#"{"SS": ["b", "a", "b"]}"#,
            "One or more parameter values were invalid: Input collection [b, a, b] contains duplicates.",
        ),
        (r#"{"NS": ["1", "1"]}"#, "Input collection contains duplicates"),
    ] {
        let (_, flaws) = read(&format!(r#"{{"v": {value}}}"#));
        let fault = flaws.fault.map(|fault| fault.message(Layer::Older));
        let message = fault.or_else(|| flaws.set.map(|set| set.message(Layer::Older)));
        assert_eq!(message.as_deref(), Some(expected), "{value}");
    }
}

fn nested(levels: usize) -> String {
    format!(r#"{{"v": {}{{"S":"leaf"}}{}}}"#, r#"{"M":{"n":"#.repeat(levels), "}}".repeat(levels))
}

#[test]
fn depth_is_counted_and_bounded() {
    for levels in [0, 1, 31, 32, 33, 34, 62, 63, 100, 1_999] {
        let (item, flaws) = read(&nested(levels));
        assert!(item.is_ok(), "{levels}");
        assert_eq!(flaws.depth, levels);
    }
    assert_eq!(read(&nested(2_100)).0, Err(Refusal::Unreadable));
    assert_eq!(read(&nested(1_000_000)).0, Err(Refusal::Unreadable));
    assert_eq!(read(&r#"{"v":"#.repeat(1_000_000)).0, Err(Refusal::Unreadable));
}

#[test]
fn empty_names_are_noticed_at_any_depth() {
    for (item, empty) in [
        (r#"{"a": {"S": ""}}"#, false),
        (r#"{"": {"S": "x"}}"#, true),
        (r#"{"a": {"L": [{"M": {"": {"S": "x"}}}]}}"#, true),
    ] {
        assert_eq!(read(item).1.name.is_some(), empty, "{item}");
    }
}

fn number() -> impl Strategy<Value = Number> {
    (any::<i64>(), -20i32..20).prop_map(|(digits, exponent)| format!("{digits}e{exponent}").parse().unwrap())
}

fn value() -> impl Strategy<Value = AttributeValue> {
    let leaf = prop_oneof![
        any::<String>().prop_map(AttributeValue::S),
        number().prop_map(AttributeValue::N),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(AttributeValue::B),
        any::<bool>().prop_map(AttributeValue::Bool),
        Just(AttributeValue::Null),
        prop::collection::btree_set(any::<String>(), 1..4).prop_map(AttributeValue::Ss),
        prop::collection::btree_set(number(), 1..4).prop_map(AttributeValue::Ns),
        prop::collection::btree_set(prop::collection::vec(any::<u8>(), 0..5), 1..4)
            .prop_map(AttributeValue::Bs),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(AttributeValue::L),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..4)
                .prop_map(|map| AttributeValue::M(map.into_iter().collect())),
        ]
    })
}

fn item() -> impl Strategy<Value = Item> {
    prop::collection::btree_map(".{1,5}", value(), 0..5).prop_map(|map| map.into_iter().collect())
}

fn stored(item: &Item) -> StoredItem {
    let store = Store::memory(Options::default()).unwrap();
    let mut batch = Batch::default();
    batch.put(b"item".to_vec(), item_bytes::encode(item));
    store.write(batch).unwrap();
    store.snapshot().get(b"item").unwrap().unwrap().into()
}

proptest! {
    #[test]
    fn items_round_trip(item in item()) {
        let mut out = Vec::new();
        put_item(&mut out, &item);
        let (read, flaws) = read(std::str::from_utf8(&out).unwrap());
        prop_assert_eq!(read, Ok(Some(item)));
        prop_assert!(!flaws.any());
    }

    #[test]
    fn a_stored_item_is_written_as_the_item_it_holds(item in item()) {
        let stored = stored(&item);
        let (mut from_bytes, mut from_item) = (Vec::new(), Vec::new());
        put_row(&mut from_bytes, &Row::Stored(stored)).unwrap();
        put_item(&mut from_item, &item);
        prop_assert_eq!(from_bytes, from_item);
    }

    #[test]
    fn any_text_is_an_item_or_a_refusal(text in r#"[{}\[\]:,"SNBMLOlnutre0-9 ]{0,60}"#) {
        let _ = read(&text);
    }
}
