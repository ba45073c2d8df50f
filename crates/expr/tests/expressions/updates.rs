use larder_expr::{Error, touched};
use larder_model::{AttributeValue, Item};

use crate::{item, list, map, number, numbers, scope, strings};

fn sample() -> Item {
    item([
        ("pk", "k".into()),
        ("n", 5.into()),
        ("txt", "x".into()),
        ("xs", list(["a", "b", "c"])),
        ("doc", map([("n", 1.into()), ("xs", list(["a"])), ("ss", strings(&["s"]))])),
        ("tags", strings(&["s", "u"])),
        ("lone", strings(&["s"])),
        ("primes", numbers(&[2, 3])),
        ("mixed", AttributeValue::L(vec![strings(&["s"]), "after".into()])),
    ])
}

fn apply(update: &str) -> Result<Item, Error> {
    scope()
        .update(update)
        .unwrap_or_else(|error| panic!("{update}: {error}"))
        .apply(Some(&sample()), &Item::new())
}

/// The update changes these attributes and no others; `None` is an attribute gone.
fn check<const N: usize>(update: &str, changes: [(&str, Option<AttributeValue>); N]) {
    let mut expected = sample();
    for (name, value) in changes {
        match value {
            Some(value) => drop(expected.insert(name, value)),
            None => drop(expected.remove(name)),
        }
    }
    assert_eq!(apply(update), Ok(expected), "{update}");
}

#[test]
fn set_writes_values_paths_and_functions() {
    check("SET a = :s", [("a", Some("s".into()))]);
    check("SET n = n + :one", [("n", Some(6.into()))]);
    check("SET n = :one - n", [("n", Some((-4).into()))]);
    check("SET a = doc.n + n", [("a", Some(6.into()))]);
    check("SET a = (n - :one)", [("a", Some(4.into()))]);
    check("SET n = if_not_exists(n, :one)", []);
    check("SET a = if_not_exists(a, :one) + :one", [("a", Some(2.into()))]);
    check("SET a = if_not_exists(a, if_not_exists(b, n))", [("a", Some(5.into()))]);
    check("SET xs = list_append(xs, :list)", [("xs", Some(list(["a", "b", "c", "s"])))]);
    check("SET xs = list_append(:list, xs)", [("xs", Some(list(["s", "a", "b", "c"])))]);
    check("SET a = list_append(if_not_exists(a, :list), doc.xs)", [("a", Some(list(["s", "a"])))]);
    check("SET #dotted = txt", [("x.y", Some("x".into()))]);
    check("SET a = doc.xs[0], xs[0] = :s", [("a", Some("a".into())), ("xs", Some(list(["s", "b", "c"])))]);
}

#[test]
fn right_sides_read_the_old_item() {
    check(
        "SET a = n, n = txt, txt = tags REMOVE tags",
        [("a", Some(5.into())), ("n", Some("x".into())), ("txt", Some(strings(&["s", "u"]))), ("tags", None)],
    );
    check("SET a = n ADD n :one", [("a", Some(5.into())), ("n", Some(6.into()))]);
    check("REMOVE xs[0] SET a = xs[0]", [("a", Some("a".into())), ("xs", Some(list(["b", "c"])))]);
}

#[test]
fn list_positions_are_the_old_items() {
    check("SET xs[9] = :s", [("xs", Some(list(["a", "b", "c", "s"])))]);
    check("SET xs[8] = :t, xs[5] = :s", [("xs", Some(list(["a", "b", "c", "s", "t"])))]);
    check("REMOVE xs[0], xs[1]", [("xs", Some(list(["c"])))]);
    check("REMOVE xs[1] SET xs[2] = :s", [("xs", Some(list(["a", "s"])))]);
    check("REMOVE xs[3] SET xs[7] = :s", [("xs", Some(list(["a", "b", "c", "s"])))]);
    check(
        "ADD xs[9] :one SET xs[5] = :s",
        [("xs", Some(AttributeValue::L(vec!["a".into(), "b".into(), "c".into(), "s".into(), 1.into()])))],
    );
    check("DELETE mixed[0] :ss SET mixed[1] = :s", [("mixed", Some(list(["s"])))]);
}

#[test]
fn remove_leaves_what_is_not_there() {
    check("REMOVE a, b, n", [("n", None)]);
    check("REMOVE doc.gone, xs[7]", []);
    check("REMOVE doc.n", [("doc", Some(map([("xs", list(["a"])), ("ss", strings(&["s"]))])))]);
}

#[test]
fn add_makes_what_is_missing() {
    check(
        "ADD n :two, a :two, tags :ss, b :ns, primes :ns",
        [
            ("n", Some(7.into())),
            ("a", Some(2.into())),
            ("tags", Some(strings(&["s", "t", "u"]))),
            ("b", Some(numbers(&[1, 2]))),
            ("primes", Some(numbers(&[1, 2, 3]))),
        ],
    );
    check(
        "ADD doc.n :one, doc.more :one",
        [(
            "doc",
            Some(map([("n", 2.into()), ("more", 1.into()), ("xs", list(["a"])), ("ss", strings(&["s"]))])),
        )],
    );
}

#[test]
fn delete_takes_members_and_then_the_attribute() {
    check(
        "DELETE tags :ss, lone :ss, gone :ss, primes :ns",
        [("tags", Some(strings(&["u"]))), ("lone", None), ("primes", Some(numbers(&[3])))],
    );
    check("DELETE doc.ss :ss", [("doc", Some(map([("n", 1.into()), ("xs", list(["a"]))])))]);
}

#[test]
fn what_the_item_gets_wrong_is_said() {
    for (update, error) in [
        ("SET a = gone", Error::MissingAttribute),
        ("SET a = gone + :one", Error::MissingAttribute),
        ("SET a = list_append(gone, :list)", Error::MissingAttribute),
        ("SET a = if_not_exists(gone, gone2)", Error::MissingAttribute),
        ("SET a = txt + :one", Error::OperandType),
        ("SET a = list_append(xs, n)", Error::OperandType),
        ("SET a = if_not_exists(gone, :s) + :one", Error::OperandType),
        ("ADD txt :one", Error::OperandType),
        ("ADD tags :ns", Error::OperandType),
        ("ADD xs :ss", Error::OperandType),
        ("DELETE n :ss", Error::OperandType),
        ("DELETE tags :ns", Error::OperandType),
        ("SET gone.a = :s", Error::DocumentPath),
        ("SET doc.gone.a = :s", Error::DocumentPath),
        ("SET n.a = :s", Error::DocumentPath),
        ("SET xs.a = :s", Error::DocumentPath),
        ("SET doc[0] = :s", Error::DocumentPath),
        ("SET xs[5].a = :s", Error::DocumentPath),
        ("REMOVE gone.a", Error::DocumentPath),
        ("REMOVE doc[0]", Error::DocumentPath),
        ("ADD gone.a :one", Error::DocumentPath),
        ("DELETE gone.a :ss", Error::DocumentPath),
        ("SET gone.a = :s ADD txt :one", Error::OperandType),
    ] {
        assert_eq!(apply(update), Err(error), "{update}");
    }
}

#[test]
fn a_number_that_does_not_fit_is_refused() {
    let huge = item([("n", number("9e125"))]);
    for (update, message) in [
        (
            "SET n = n + n",
            "Number overflow. Attempting to store a number with magnitude larger than supported range",
        ),
        ("SET n = n - :one", "Attempting to store more than 38 significant digits in a Number"),
        ("ADD n :one", "Attempting to store more than 38 significant digits in a Number"),
    ] {
        let error = scope().update(update).unwrap().apply(Some(&huge), &Item::new()).unwrap_err();
        assert_eq!(error.to_string(), message, "{update}");
    }
}

#[test]
fn a_missing_item_starts_as_its_key() {
    let key = item([("pk", "k".into())]);
    let made = |update: &str| scope().update(update).unwrap().apply(None, &key);
    assert_eq!(
        made("SET a = :one ADD b :one"),
        Ok(item([("pk", "k".into()), ("a", 1.into()), ("b", 1.into())]))
    );
    assert_eq!(made("SET a = b"), Err(Error::MissingAttribute));
    assert_eq!(made("REMOVE a DELETE b :ss"), Ok(key.clone()));
}

#[test]
fn an_update_that_only_removes_creates_nothing() {
    for (update, creates) in [
        ("SET a = :s", true),
        ("ADD a :one", true),
        ("SET a = :s REMOVE b", true),
        ("REMOVE a", false),
        ("DELETE a :ss", false),
        ("REMOVE a DELETE b :ss", false),
    ] {
        assert_eq!(scope().update(update).unwrap().creates(), creates, "{update}");
    }
    assert!(larder_expr::Update::default().creates());
}

#[test]
fn touched_is_the_touched_paths_only() {
    for (update, expected) in [
        (
            "SET doc.n = :one, xs[2] = :s, xs[0] = :s, a = :s",
            item([("doc", map([("n", 1.into())])), ("xs", list(["a", "c"]))]),
        ),
        (
            "REMOVE txt ADD n :one DELETE tags :ss",
            item([("txt", "x".into()), ("n", 5.into()), ("tags", strings(&["s", "u"]))]),
        ),
        ("REMOVE gone, doc.gone", Item::new()),
    ] {
        assert_eq!(touched(&scope().update(update).unwrap(), &sample()), expected, "{update}");
    }
}
