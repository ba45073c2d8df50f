//! What expressions mean and what is said of those that are wrong, through the public API.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod conditions;
mod hostile;
mod key_conditions;
mod legacy;
mod messages;
mod placeholders;
mod projections;
mod round_trip;
mod updates;

use std::collections::BTreeMap;

use larder_expr::Scope;
use larder_model::{AttributeValue, Item, Number};

fn number(text: &str) -> AttributeValue {
    AttributeValue::N(text.parse::<Number>().expect("a number"))
}

fn strings(members: &[&str]) -> AttributeValue {
    AttributeValue::Ss(members.iter().map(ToString::to_string).collect())
}

fn numbers(members: &[i64]) -> AttributeValue {
    AttributeValue::Ns(members.iter().copied().map(Number::from).collect())
}

fn bytes(text: &str) -> AttributeValue {
    AttributeValue::B(text.as_bytes().to_vec())
}

fn list<const N: usize>(members: [impl Into<AttributeValue>; N]) -> AttributeValue {
    AttributeValue::L(members.into_iter().map(Into::into).collect())
}

fn map<const N: usize>(fields: [(&str, AttributeValue); N]) -> AttributeValue {
    AttributeValue::M(item(fields))
}

fn item<const N: usize>(attributes: [(&str, AttributeValue); N]) -> Item {
    attributes.into_iter().collect()
}

/// A scope with a value of every type, and a few names.
fn scope() -> Scope {
    let names = [("#a", "a"), ("#b", "b"), ("#status", "status"), ("#dotted", "x.y"), ("#tongue", "språk")];
    let values = [
        (":s", AttributeValue::from("s")),
        (":t", "t".into()),
        (":type", "S".into()),
        (":one", 1.into()),
        (":two", 2.into()),
        (":bin", bytes("s")),
        (":true", true.into()),
        (":null", AttributeValue::Null),
        (":ss", strings(&["s", "t"])),
        (":ns", numbers(&[1, 2])),
        (":bs", AttributeValue::Bs([b"s".to_vec()].into())),
        (":list", list(["s"])),
        (":map", map([("s", "s".into())])),
    ];
    let names: BTreeMap<_, _> = names.map(|(key, name)| (key.to_owned(), name.to_owned())).into();
    let values: BTreeMap<_, _> = values.map(|(key, value)| (key.to_owned(), value)).into();
    Scope::new(Some(names), Some(values)).expect("the placeholders are well formed")
}
