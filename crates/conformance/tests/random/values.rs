//! Attribute values, keys and items, from spaces small enough that they meet again.

use serde_json::{Map, Value, json};

use crate::chance::Chance;
use crate::tables::{KeyAttribute, Kind, Table};

/// What an attribute usually holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usual {
    Key(Kind),
    Number,
    Text,
    List,
    Map,
    Strings,
    Numbers,
    Binaries,
    Boolean,
    Anything,
}

/// The attributes that are no keys. `name` and `size` are reserved words.
pub(crate) const PLAIN: [(&str, Usual); 11] = [
    ("n", Usual::Number),
    ("c", Usual::Number),
    ("t", Usual::Text),
    ("name", Usual::Text),
    ("size", Usual::Number),
    ("l", Usual::List),
    ("m", Usual::Map),
    ("ss", Usual::Strings),
    ("ns", Usual::Numbers),
    ("bs", Usual::Binaries),
    ("x", Usual::Anything),
];

const STRINGS: [&str; 7] = ["a", "b", "ab", "abc", "é", "B", "a b"];
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "2",
    "-1",
    "3.5",
    "10",
    "1e1",
    "100",
    "0.10",
    "-0",
    "007",
    "-2.50",
    "1E+2",
    "12345678901234567890",
    "99999999999999999999999999999999999999",
    "1E-130",
];
const KEY_NUMBERS: [&str; 6] = ["0", "1", "-1", "1.0", "10", "1e1"];
const BINARIES: [&str; 5] = ["AA==", "AQ==", "AQI=", "/w==", "YWI="];

pub(crate) fn string(chance: &mut Chance) -> &'static str {
    chance.pick(&STRINGS)
}

pub(crate) fn number(chance: &mut Chance) -> &'static str {
    if chance.one_in(3) { chance.pick(&NUMBERS) } else { chance.pick(&["0", "1", "2", "-1", "3.5"]) }
}

pub(crate) fn of(chance: &mut Chance, usual: Usual, depth: usize) -> Value {
    match usual {
        Usual::Key(kind) => of_kind(chance, kind),
        Usual::Number => json!({"N": number(chance)}),
        Usual::Text if chance.one_in(20) => json!({"S": ""}),
        Usual::Text => json!({"S": string(chance)}),
        Usual::Boolean => json!({"BOOL": chance.one_in(2)}),
        Usual::List => {
            let count = chance.below(4);
            json!({"L": (0..count).map(|_| nested(chance, depth)).collect::<Vec<_>>()})
        }
        Usual::Map => {
            let mut map = Map::new();
            for name in ["x", "y", "n"] {
                if chance.percent(60) {
                    map.insert(name.into(), nested(chance, depth));
                }
            }
            json!({"M": map})
        }
        Usual::Strings => json!({"SS": some(chance, &STRINGS)}),
        // Written as they are stored, because dynoxide compares the text of numbers in sets.
        Usual::Numbers => json!({"NS": some(chance, &["0", "1", "2", "-1", "3.5", "10", "0.1"])}),
        Usual::Binaries => json!({"BS": some(chance, &BINARIES)}),
        Usual::Anything => anything(chance, depth),
    }
}

/// One to three different members.
fn some(chance: &mut Chance, from: &[&'static str]) -> Vec<&'static str> {
    let mut members = vec![];
    for _ in 0..=chance.below(3) {
        let member = chance.pick(from);
        if !members.contains(&member) {
            members.push(member);
        }
    }
    members
}

fn nested(chance: &mut Chance, depth: usize) -> Value {
    if chance.one_in(2) { json!({"N": number(chance)}) } else { anything(chance, depth) }
}

pub(crate) fn anything(chance: &mut Chance, depth: usize) -> Value {
    const FLAT: [Usual; 6] =
        [Usual::Number, Usual::Text, Usual::Boolean, Usual::Strings, Usual::Numbers, Usual::Binaries];
    match chance.below(if depth == 0 { 8 } else { 10 }) {
        0 => json!({"NULL": true}),
        1 => json!({"B": chance.pick(&BINARIES)}),
        n @ 2..8 => of(chance, FLAT[n - 2], depth),
        8 => of(chance, Usual::List, depth - 1),
        _ => of(chance, Usual::Map, depth - 1),
    }
}

fn of_kind(chance: &mut Chance, kind: Kind) -> Value {
    match kind {
        Kind::S => json!({"S": chance.pick(&STRINGS[..3])}),
        Kind::N => json!({"N": chance.pick(&KEY_NUMBERS)}),
        Kind::B => json!({"B": chance.pick(&BINARIES[..3])}),
    }
}

/// A value for a key attribute: nearly always one that fits.
pub(crate) fn of_key(chance: &mut Chance, key: KeyAttribute) -> Value {
    match chance.below(250) {
        0 => anything(chance, 1),
        1 => match key.kind {
            Kind::S => json!({"S": ""}),
            Kind::B => json!({"B": ""}),
            Kind::N => json!({"N": "1"}),
        },
        _ => of_kind(chance, key.kind),
    }
}

pub(crate) fn key(chance: &mut Chance, table: &Table) -> Value {
    let mut key = Map::new();
    for attribute in table.keys.all() {
        key.insert(attribute.name.into(), of_key(chance, attribute));
    }
    match chance.below(250) {
        0 => drop(key.remove("r").or_else(|| key.remove("p"))),
        1 => drop(key.insert("n".into(), json!({"N": "1"}))),
        _ => {}
    }
    key.into()
}

pub(crate) fn item(chance: &mut Chance, table: &Table) -> Value {
    let mut item = Map::new();
    for attribute in table.keys.all() {
        item.insert(attribute.name.into(), of_key(chance, attribute));
    }
    if chance.one_in(150) {
        item.remove("p");
    }
    for attribute in &table.candidates {
        if chance.percent(65) {
            item.insert(attribute.name.into(), of_key(chance, *attribute));
        }
    }
    for (name, usual) in PLAIN {
        if chance.percent(70) {
            let value = if chance.percent(95) { of(chance, usual, 2) } else { anything(chance, 2) };
            item.insert(name.into(), value);
        }
    }
    if chance.one_in(80) {
        item.insert("x".into(), refused(chance));
    }
    item.into()
}

/// A value that no item can hold, or nearly so.
pub(crate) fn refused(chance: &mut Chance) -> Value {
    let values = [
        json!({"N": "abc"}),
        json!({"N": ""}),
        json!({"N": "1E126"}),
        json!({"N": "1E-131"}),
        json!({"N": "123456789012345678901234567890123456789"}),
        json!({"NS": ["1", "1.0"]}),
        json!({"SS": ["a", "a"]}),
        json!({"SS": []}),
        json!({"NULL": false}),
        json!({"L": [{"N": "x"}]}),
        json!({"SS": [""]}),
        json!({"S": "x".repeat(2000)}),
    ];
    chance.choose(&values).clone()
}
