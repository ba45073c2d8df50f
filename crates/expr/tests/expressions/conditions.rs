use larder_model::{AttributeValue, Item};

use crate::{bytes, item, list, map, number, numbers, scope, strings};

fn sample() -> Item {
    item([
        ("s", "s".into()),
        ("txt", "desserts 🍰".into()),
        ("n", number("1.0")),
        ("big", number("99999999999999999999999999999999999998")),
        ("bin", bytes("desserts")),
        ("flag", true.into()),
        ("nix", AttributeValue::Null),
        ("ss", strings(&["t", "s"])),
        ("ns", numbers(&[2, 1])),
        ("xs", list([AttributeValue::from("s"), map([("deep", 1.into())])])),
        ("doc", map([("s", "s".into())])),
        ("x.y", "dotted".into()),
        ("status", "s".into()),
    ])
}

fn check(condition: &str, expected: bool) {
    let bound = scope().condition(condition).unwrap_or_else(|error| panic!("{condition}: {error}"));
    assert_eq!(bound.holds(Some(&sample())), Ok(expected), "{condition}");
}

#[test]
fn values_compare_within_their_type() {
    for condition in [
        "s = :s",
        "n = :one",
        ":one = n",
        "n < :two",
        "n <= :one",
        "s < :t",
        "s >= :s",
        "n <> :two",
        "bin < :bin",
        "ss = :ss",
        "ns = :ns",
        "doc = :map",
        "flag = :true",
        "nix = :null",
        "xs[0] = :s",
        "xs[1].deep = n",
        "#status = :s",
        "(s) = (:s)",
        "s BETWEEN :s AND :t",
        "n BETWEEN :one AND :two",
        "s IN (:t, :s)",
        ":one IN (s, n)",
        "doc.s = s",
        "big > :one",
    ] {
        check(condition, true);
    }
    for condition in [
        "s = :t",
        "n > :one",
        "s > :t",
        "s BETWEEN :t AND :t",
        "s IN (:t, :one)",
        "xs = :list",
        "doc <> :map",
    ] {
        check(condition, false);
    }
}

#[test]
fn values_of_different_types_never_compare() {
    for condition in
        ["n = :s", "n < :s", "n >= :s", "n BETWEEN :s AND :s", "n IN (:s)", "s = :bin", "ss = :ns"]
    {
        check(condition, false);
    }
    check("n <> :s", true);
}

#[test]
fn types_without_order_are_never_ordered() {
    for condition in ["flag < s", "ss <= ns", "xs > doc", "nix >= nix2", "doc <= doc.s"] {
        check(condition, false);
    }
}

#[test]
fn a_missing_value_equals_nothing() {
    for condition in [
        "gone = :s",
        "gone < :s",
        "gone >= gone2",
        "gone BETWEEN :s AND :t",
        "gone IN (:s)",
        "size(gone) = :one",
        "gone.gone = :s",
        "xs[9] = :s",
        "s[0] = :s",
        "doc[0] = :s",
        "xs.s = :s",
        "begins_with(gone, :s)",
        "contains(gone, :s)",
        "attribute_type(gone, :type)",
    ] {
        check(condition, false);
        check(&format!("NOT {condition}"), true);
    }
    for condition in ["gone <> :s", "gone <> gone2", "size(gone) <> :one", "size(n) <> :one"] {
        check(condition, true);
    }
}

#[test]
fn existence_is_of_paths() {
    for condition in [
        "attribute_exists(s)",
        "attribute_exists(doc.s)",
        "attribute_exists(xs[1].deep)",
        "attribute_exists(#dotted)",
        "attribute_exists(nix)",
        "attribute_not_exists(gone)",
        "attribute_not_exists(doc.gone)",
        "attribute_not_exists(x.y)",
    ] {
        check(condition, true);
    }
    for condition in ["attribute_exists(gone)", "attribute_exists(xs[2])", "attribute_not_exists(flag)"] {
        check(condition, false);
    }
}

#[test]
fn functions_look_inside() {
    for condition in [
        "begins_with(txt, :dess)",
        "begins_with(bin, :dess_bin)",
        "contains(txt, :ert)",
        "contains(bin, :ert_bin)",
        "contains(ss, :s)",
        "contains(ns, n)",
        "contains(xs, :s)",
        "contains(:list, s)",
        "attribute_type(s, :type)",
        "attribute_type(:s, :type)",
        "NOT attribute_type(n, :type)",
        "contains(txt, :empty)",
    ] {
        check_with_more(condition, true);
    }
    for condition in [
        "begins_with(txt, :ert)",
        "begins_with(n, :dess)",
        "contains(txt, :one)",
        "contains(ss, :one)",
        "contains(doc, :s)",
        "contains(n, :one)",
        "attribute_type(size(s), :type)",
    ] {
        check_with_more(condition, false);
    }
}

fn check_with_more(condition: &str, expected: bool) {
    use std::collections::BTreeMap;
    let values = [
        (":dess", AttributeValue::from("dess")),
        (":ert", "ert".into()),
        (":empty", "".into()),
        (":dess_bin", bytes("dess")),
        (":ert_bin", bytes("ert")),
        (":s", "s".into()),
        (":one", 1.into()),
        (":list", list(["s"])),
        (":type", "S".into()),
    ];
    let values: BTreeMap<_, _> = values.map(|(key, value)| (key.to_owned(), value)).into();
    let names = BTreeMap::from([("#n".to_owned(), "n".to_owned())]);
    let mut scope = larder_expr::Scope::new(Some(names), Some(values)).unwrap();
    let bound = scope.filter(condition).unwrap_or_else(|error| panic!("{condition}: {error}"));
    assert_eq!(bound.holds(Some(&sample())), Ok(expected), "{condition}");
}

#[test]
fn size_counts_what_a_type_is_made_of() {
    for (path, size) in [("s", 1), ("txt", 11), ("bin", 8), ("ss", 2), ("ns", 2), ("xs", 2), ("doc", 1)] {
        let values = [(":size".to_owned(), AttributeValue::from(size))].into();
        let mut scope = larder_expr::Scope::new(None, Some(values)).unwrap();
        let bound = scope.condition(&format!("size({path}) = :size")).unwrap();
        assert_eq!(bound.holds(Some(&sample())), Ok(true), "{path}");
    }
    for path in ["n", "flag", "nix", "gone"] {
        check(&format!("size({path}) < :two"), false);
    }
    check("size(:map) = :one", true);
}

#[test]
fn and_binds_tighter_than_or_and_not_tightest() {
    for (condition, expected) in [
        ("s = :s OR s = :t AND s = :t", true),
        ("(s = :s OR s = :t) AND s = :t", false),
        ("NOT s = :t AND s = :s", true),
        ("NOT (s = :t AND s = :s)", true),
        ("NOT s = :s OR s = :s", true),
        ("NOT (s = :s OR s = :s)", false),
        ("NOT NOT s = :s", true),
        ("not s = :t aNd s between :s and :t oR s in (:t)", true),
    ] {
        check(condition, expected);
    }
}

#[test]
fn no_item_is_an_item_without_attributes() {
    for (condition, expected) in [("attribute_not_exists(s)", true), ("s <> :s", true), ("s = :s", false)] {
        assert_eq!(scope().condition(condition).unwrap().holds(None), Ok(expected), "{condition}");
    }
}

#[test]
fn paths_are_listed_as_written() {
    let bound = scope()
        .filter("a.b[1] = :s AND (size(c) > :one OR d BETWEEN e AND :s) AND NOT contains(f, g)")
        .unwrap();
    let paths: Vec<String> = bound.paths().map(ToString::to_string).collect();
    assert_eq!(paths, ["a.b[1]", "c", "d", "e", "f", "g"]);
}
