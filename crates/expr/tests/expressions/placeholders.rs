use std::collections::BTreeMap;

use larder_expr::Scope;
use larder_model::{ApiError, AttributeValue};

fn names<const N: usize>(names: [(&str, &str); N]) -> Option<BTreeMap<String, String>> {
    Some(names.map(|(key, name)| (key.to_owned(), name.to_owned())).into())
}

fn values<const N: usize>(keys: [&str; N]) -> Option<BTreeMap<String, AttributeValue>> {
    Some(keys.map(|key| (key.to_owned(), AttributeValue::from(1))).into())
}

#[test]
fn placeholders_are_checked_before_any_expression() {
    let long = format!("#{}", "a".repeat(255));
    for (key, said) in [
        ("a", "key: Syntax error; key: \"a\""),
        ("#", "key: Syntax error; key: \"#\""),
        ("##", "key: Syntax error; key: \"##\""),
        ("#a-b", "key: Syntax error; key: \"#a-b\""),
        ("#é", "key: Syntax error; key: \"#é\""),
        ("", "key: The expression attribute map contains an empty key;"),
        (&long, "key: The expression attribute map contains a key that is too long;"),
    ] {
        let error = Scope::new(names([(key, "a")]), None).unwrap_err();
        assert_eq!(error.to_string(), format!("ExpressionAttributeNames contains invalid {said}"));
    }
    let error = Scope::new(None, values(["v"])).unwrap_err();
    assert_eq!(error.to_string(), "ExpressionAttributeValues contains invalid key: Syntax error; key: \"v\"");
    let error = Scope::new(names([("#a", "")]), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ExpressionAttributeNames contains invalid value: Empty attribute name for key #a"
    );
    for (scope, map) in [
        (Scope::new(names([]), None), "ExpressionAttributeNames"),
        (Scope::new(None, values([])), "ExpressionAttributeValues"),
    ] {
        assert_eq!(scope.unwrap_err().to_string(), format!("{map} must not be empty"));
    }
}

#[test]
fn values_are_bounded_together() {
    let half = || AttributeValue::S("a".repeat(1024 * 1024));
    let values = BTreeMap::from([(":a".to_owned(), half()), (":b".to_owned(), half())]);
    assert_eq!(
        Scope::new(None, Some(values)).unwrap_err().to_string(),
        "ExpressionAttributeValues exceeds max size"
    );
}

#[test]
fn a_placeholder_may_be_used_by_any_expression_of_the_request() {
    let mut scope = Scope::new(names([("#a", "a"), ("#b", "b")]), values([":v", ":w"])).unwrap();
    scope.key_condition("#a = :v").unwrap();
    scope.filter("c = :w AND c <> :v").unwrap();
    scope.projection("#b, d").unwrap();
    assert_eq!(scope.finish(), Ok(()));
}

#[test]
fn unused_placeholders_are_named() {
    let mut scope = Scope::new(names([("#b", "b"), ("#a", "a")]), values([":v"])).unwrap();
    scope.condition("c = :v").unwrap();
    assert_eq!(
        ApiError::from(scope.finish().unwrap_err()),
        ApiError::validation(
            "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a, #b}"
        )
    );
    let mut scope = Scope::new(None, values([":w", ":v", ":u"])).unwrap();
    scope.update("SET a = :v").unwrap();
    assert_eq!(
        scope.finish().unwrap_err().to_string(),
        "Value provided in ExpressionAttributeValues unused in expressions: keys: {:u, :w}"
    );
}
