//! Soundness: what the checks let through has one reading, and is told apart.
//!
//! Schemas are drawn at random. Where the checker sees no fault, keys are built from random fields and must
//! read back as those fields, and the keys of two entities must never meet.

use larder_schema::schema::KeySource;
use larder_schema::{Entity, Environment, Fields, NoFiles, Schema, Template, Value};
use proptest::prelude::*;

/// A field: its declaration, and texts it may have.
const FIELDS: [(&str, &[&str]); 9] = [
    ("string nonempty", &["a", "-", "a-b", "1", "x#y", "0-1", "é日", "12-34"]),
    ("string match /[a-z]+/", &["a", "abc", "zz"]),
    ("string match /[a-z0-9]*/", &["", "a1", "007", "z"]),
    ("string match /[0-9]{2}/", &["00", "12", "99"]),
    ("string match /[a-z-]{1,3}/", &["a", "-", "a-b", "--"]),
    ("string lower len 1..=4", &["a", "1", "#", "a#-1"]),
    ("int in 0..=9", &["0", "7", "9"]),
    ("int", &["-1", "0", "12345"]),
    ("\"on\" | \"off\"", &["on", "off"]),
];

const SEPARATORS: [&str; 7] = ["", "-", "#", "a", "1", "-a", "0-"];

fn parts() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..FIELDS.len(), 0..SEPARATORS.len()), 1..4)
}

fn declared(name: &str, parts: &[(usize, usize)], end: usize) -> String {
    let mut key = String::new();
    let mut fields = String::new();
    for (at, (field, separator)) in parts.iter().enumerate() {
        key.push_str(&format!("{}{{f{at}}}", SEPARATORS[*separator]));
        fields.push_str(&format!("    input f{at}: {}\n", FIELDS[*field].0));
    }
    format!("  entity {name} {{\n    key \"{key}{}\"\n{fields}  }}\n", SEPARATORS[end])
}

fn load(entities: &str) -> Option<Schema> {
    let text = format!("system s\ntable ttt {{\n  key pk\n{entities}}}\n");
    Schema::load("s.larder", &text, &mut NoFiles, &Environment::new()).schema
}

fn drawn(parts: &[(usize, usize)], picks: &[usize]) -> Fields {
    parts
        .iter()
        .enumerate()
        .map(|(at, (field, _))| {
            let (kind, texts) = FIELDS[*field];
            let text = texts[picks[at] % texts.len()];
            let value = if kind.starts_with("int") {
                text.parse::<i64>().expect("a number").into()
            } else {
                text.into()
            };
            (format!("f{at}"), value)
        })
        .collect()
}

fn template(entity: &Entity) -> &Template {
    match &entity.partition {
        KeySource::Template(template) => template,
        KeySource::Field(_) => panic!("it has a template"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_key_that_passed_has_one_reading(parts in parts(), end in 0..SEPARATORS.len(), picks in prop::collection::vec(0usize..8, 4)) {
        if let Some(schema) = load(&declared("One", &parts, end)) {
            let entity = &schema.tables[0].entities[0];
            let given = drawn(&parts, &picks);
            let key = template(entity).build(&given).expect("all values fit");
            let reading = template(entity).read(&key);
            prop_assert_eq!(reading.map(|reading| reading.fields), Some(given), "{} of {}", key, template(entity).source());
        }
    }

    #[test]
    fn keys_of_two_entities_that_passed_never_meet(
        a in parts(), b in parts(), ends in (0..SEPARATORS.len(), 0..SEPARATORS.len()),
        picks in prop::collection::vec(0usize..8, 8),
    ) {
        let text = declared("One", &a, ends.0) + &declared("Two", &b, ends.1);
        if let Some(schema) = load(&text) {
            let [one, two] = &schema.tables[0].entities[..] else { panic!("there are two") };
            let first = template(one).build(&drawn(&a, &picks)).expect("all values fit");
            let second = template(two).build(&drawn(&b, &picks[4..])).expect("all values fit");
            prop_assert!(template(two).read(&first).is_none(), "{} reads as {}", first, template(two).source());
            prop_assert!(template(one).read(&second).is_none(), "{} reads as {}", second, template(one).source());
        }
    }
}

#[test]
fn the_checker_lets_many_through_and_stops_many() {
    let mut passed = 0;
    for first in 0..FIELDS.len() {
        for second in 0..FIELDS.len() {
            for separator in 0..SEPARATORS.len() {
                passed +=
                    usize::from(load(&declared("One", &[(first, 0), (second, separator)], 0)).is_some());
            }
        }
    }
    let all = FIELDS.len() * FIELDS.len() * SEPARATORS.len();
    assert!(passed > all / 2 && passed < all * 4 / 5, "{passed} of {all}");
}

#[test]
fn every_type_and_format_reads_back() {
    use larder_schema::jiff::{SignedDuration, civil::date};
    let moment: larder_schema::jiff::Timestamp = "2026-01-15T10:20:30.123456Z".parse().expect("a timestamp");
    let second: larder_schema::jiff::Timestamp = "2026-01-15T10:20:30Z".parse().expect("a timestamp");
    let cases: Vec<(&str, &str, Value, &str)> = vec![
        ("string nonempty", "", "å/#".into(), "å/#"),
        ("url", "", "https://a.b/c?d#e".into(), "https://a.b/c?d#e"),
        ("uuid", "", "7f9c24e8-3b12-4c1e-9f0a-52d7b6c0e1a4".into(), "7f9c24e8-3b12-4c1e-9f0a-52d7b6c0e1a4"),
        ("int", "", (-7).into(), "-7"),
        ("int", ":03", (-7).into(), "-07"),
        ("int in 0..=999", ":03", 7.into(), "007"),
        ("float", ":.2f", Value::Float(-1.5), "-1.50"),
        ("float", ":.0f", Value::Float(3.0), "3"),
        ("decimal", ":.3f", Value::Number("2.5".parse().expect("a number")), "2.500"),
        ("bool", "", Value::Bool(true), "true"),
        ("date", "", Value::Date(date(2026, 1, 15)), "2026-01-15"),
        ("date", ":%Y%j", Value::Date(date(2026, 2, 1)), "2026032"),
        ("date", ":%G-W%V-%u", Value::Date(date(2024, 12, 30)), "2025-W01-1"),
        ("datetime", "", Value::Datetime(date(2026, 1, 15).at(1, 2, 3, 0)), "2026-01-15T01:02:03"),
        ("datetime", ":%F_%T", Value::Datetime(date(2026, 1, 15).at(1, 2, 3, 0)), "2026-01-15_01:02:03"),
        ("instant", "", Value::Instant(second), "2026-01-15T10:20:30Z"),
        ("instant us", "", Value::Instant(moment), "2026-01-15T10:20:30.123456Z"),
        ("instant", ":unix", Value::Instant(second), "1768472430"),
        ("instant", ":%Y%m%d%H%M%S", Value::Instant(second), "20260115102030"),
        ("epoch", "", Value::Instant(second), "1768472430"),
        ("duration", "", Value::Duration(SignedDuration::from_secs(90)), "90"),
        ("\"a\" | \"b\"", "", "b".into(), "b"),
    ];
    for (kind, format, value, text) in cases {
        let schema = load(&format!("  entity E {{\n    key \"K#{{f{format}}}\"\n    f: {kind}\n  }}\n"));
        let schema = schema.unwrap_or_else(|| panic!("{kind} {format}"));
        let template = template(&schema.tables[0].entities[0]);
        let fields = Fields::from([("f".to_owned(), value)]);
        let key = template.build(&fields).unwrap_or_else(|error| panic!("{kind}{format}: {error}"));
        assert_eq!(key, format!("K#{text}"));
        assert_eq!(template.read(&key).map(|reading| reading.fields), Some(fields), "{kind}{format}");
        let example = template.example();
        assert!(template.read(&example).is_some(), "{example}");
    }
}

#[test]
fn decimals_are_rounded_half_to_even_and_exactly() {
    let schema = load("  entity E {\n    key \"K#{f:.2f}\"\n    f: decimal\n  }\n").expect("no diagnostics");
    let template = template(&schema.tables[0].entities[0]);
    for (number, text) in [
        ("0.125", "0.12"),
        ("0.135", "0.14"),
        ("-0.001", "0.00"),
        ("9.999", "10.00"),
        ("7", "7.00"),
        ("-2.5", "-2.50"),
        ("12345678901234567890123456789.015", "12345678901234567890123456789.02"),
    ] {
        let fields = Fields::from([("f".to_owned(), Value::Number(number.parse().expect("a number")))]);
        assert_eq!(template.build(&fields), Ok(format!("K#{text}")), "{number}");
    }
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let schema = load(
        "  entity E {\n    key \"K#{f}-{g:02}\"\n    f: string match /[a-z]+/\n    g: int in 0..=99\n  }\n",
    )
    .expect("no diagnostics");
    let template = template(&schema.tables[0].entities[0]);
    let fields = |f: &str, g: i64| Fields::from([("f".to_owned(), f.into()), ("g".to_owned(), g.into())]);
    assert_eq!(template.build(&fields("ab", 3)).as_deref(), Ok("K#ab-03"));
    for (f, g) in [("a-b", 3), ("", 3), ("ab", 100), ("ab", -1)] {
        assert!(template.build(&fields(f, g)).is_err(), "{f} {g}");
    }
    assert!(template.build(&Fields::new()).is_err());
    assert_eq!(template.prefix(&Fields::from([("f".to_owned(), "ab".into())])), "K#ab-");
}

#[test]
fn every_broken_check_is_named() {
    let text = "  entity E {\n    key \"K#{id}\"\n    input id: string nonempty\n    mail: string lower len 1..=9 match /[^@]+@[^@]+/\n    n: int in 0..=100\n    t: uuid v4\n    k: string secret nonempty\n    l: [Part]\n  }\n}\ntype Part { price: decimal positive, day: \"mon\" | \"tue\" }\ntable uuu {\n  key pk\n  entity F { pk: string nonempty\n }\n";
    let schema = load(text).expect("no diagnostics");
    let (_, entity) = schema.entity("E").expect("declared");
    let part = Value::Map([("price".to_owned(), 0.into()), ("day".to_owned(), "sun".into())].into());
    let fields = Fields::from([
        ("mail".to_owned(), "LONG AND LOUD".into()),
        ("n".to_owned(), 101.into()),
        ("t".to_owned(), "7f9c24e8-3b12-1c1e-9f0a-52d7b6c0e1a4".into()),
        ("k".to_owned(), "".into()),
        ("l".to_owned(), Value::List(vec![part])),
        ("x".to_owned(), 1.into()),
    ]);
    let found: Vec<String> = schema.violations(entity, &fields).iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(found.join("\n"), @r#"
    E.id: is required, and it is missing
    E.mail: must have a length in 1..=9, and it is "LONG AND LOUD"
    E.mail: must be in lower case, and it is "LONG AND LOUD"
    E.mail: must match /[^@]+@[^@]+/, and it is "LONG AND LOUD"
    E.n: must be in 0..=100, and it is 101
    E.t: must be of type uuid v4, and it is "7f9c24e8-3b12-1c1e-9f0a-52d7b6c0e1a4"
    E.k: must not be empty, and it is a secret
    E.l[0].price: must be positive, and it is 0
    E.l[0].day: must be of type "mon" | "tue", and it is "sun"
    E.x: there is no such field, and it is given
    "#);
}
