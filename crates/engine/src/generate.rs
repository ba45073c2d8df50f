//! Random items and keys, for property tests.

use larder_model::{AttributeValue, Item, Number};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

pub(crate) fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        (any::<bool>(), 0..10u128.pow(38), -130i16..=125)
            .prop_filter_map("in range", |(negative, digits, magnitude)| {
                Number::from_parts(negative, digits, magnitude).ok()
            }),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = AttributeValue> {
    let leaf = prop_oneof![
        ".{0,12}".prop_map(AttributeValue::S),
        number().prop_map(AttributeValue::N),
        vec(any::<u8>(), 0..12).prop_map(AttributeValue::B),
        any::<bool>().prop_map(AttributeValue::Bool),
        Just(AttributeValue::Null),
        btree_set(".{0,6}", 1..4).prop_map(AttributeValue::Ss),
        btree_set(number(), 1..4).prop_map(AttributeValue::Ns),
        btree_set(vec(any::<u8>(), 0..6), 1..4).prop_map(AttributeValue::Bs),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(AttributeValue::L),
            btree_map("[a-c]{0,2}", inner, 0..4).prop_map(|map| AttributeValue::M(map.into_iter().collect())),
        ]
    })
}

pub(crate) fn item() -> impl Strategy<Value = Item> {
    btree_map("[a-c]{0,2}", value(), 0..6).prop_map(|map| map.into_iter().collect())
}
