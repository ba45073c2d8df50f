use std::collections::BTreeMap;
use std::sync::Arc;

use larder_expr::legacy::{
    self, Action, AttributeUpdate, Comparison, ComparisonOperator, ConditionalOperator, Expectation,
    attribute_updates, attributes_to_get, expected, filter, key_conditions,
};
use larder_expr::{Error, KeyTest, SortTest};
use larder_model::{AttributeValue, Item};

use crate::{item, list, numbers, strings};

fn comparison(operator: &str, list: &[AttributeValue]) -> Comparison {
    Comparison { operator: ComparisonOperator::from_name(operator).unwrap(), list: list.to_vec() }
}

fn holds(name: &str, operator: &str, list: &[AttributeValue]) -> bool {
    let sample = item([("s", "desserts".into()), ("n", 5.into()), ("tags", strings(&["a"]))]);
    let conditions = [(name.to_owned(), comparison(operator, list))].into();
    filter(conditions, None).unwrap().unwrap().holds(Some(&sample)).unwrap()
}

#[test]
fn operators_test_what_their_names_say() {
    for (name, operator, list, expected) in [
        ("n", "EQ", vec![5.into()], true),
        ("n", "EQ", vec!["5".into()], false),
        ("n", "NE", vec![5.into()], false),
        ("no", "NE", vec![5.into()], true),
        ("n", "LE", vec![5.into()], true),
        ("n", "LT", vec![5.into()], false),
        ("n", "GE", vec![5.into()], true),
        ("n", "GT", vec![4.into()], true),
        ("n", "NOT_NULL", vec![], true),
        ("no", "NOT_NULL", vec![], false),
        ("no", "NULL", vec![], true),
        ("s", "CONTAINS", vec!["ert".into()], true),
        ("tags", "CONTAINS", vec!["a".into()], true),
        ("tags", "NOT_CONTAINS", vec!["b".into()], true),
        ("no", "NOT_CONTAINS", vec!["b".into()], false),
        ("s", "BEGINS_WITH", vec!["des".into()], true),
        ("n", "IN", vec![4.into(), 5.into()], true),
        ("n", "BETWEEN", vec![4.into(), 5.into()], true),
    ] {
        assert_eq!(holds(name, operator, &list), expected, "{name} {operator} {list:?}");
    }
}

#[test]
fn arguments_are_checked() {
    let invalid = |rest: &str| format!("One or more parameter values were invalid: {rest}");
    let count =
        |operator| invalid(&format!("Invalid number of argument(s) for the {operator} ComparisonOperator"));
    let same = invalid("AttributeValues inside AttributeValueList must be of same type");
    for (operator, list, message) in [
        ("EQ", vec![], count("EQ")),
        ("EQ", vec![1.into(), 2.into()], count("EQ")),
        ("NULL", vec![1.into()], count("NULL")),
        ("IN", vec![], count("IN")),
        ("BETWEEN", vec![1.into()], count("BETWEEN")),
        ("BETWEEN", vec![1.into(), "a".into()], same.clone()),
        ("IN", vec![1.into(), "a".into()], same),
        ("LT", vec![true.into()], invalid("ComparisonOperator LT is not valid for BOOL AttributeValue type")),
        ("IN", vec!["a".into(), list([1])], invalid("ComparisonOperator IN is not valid for L AttributeValue type")),
        ("CONTAINS", vec![numbers(&[1])], invalid("ComparisonOperator CONTAINS is not valid for NS AttributeValue type")),
        ("BEGINS_WITH", vec![1.into()], invalid("ComparisonOperator BEGINS_WITH is not valid for N AttributeValue type")),
        (
            "BETWEEN",
            vec![2.into(), 1.into()],
            "The BETWEEN condition was provided a range where the lower bound is greater than the upper bound".to_owned(),
        ),
    ] {
        let error = filter([("a".to_owned(), comparison(operator, &list))].into(), None).unwrap_err();
        assert_eq!(error.to_string(), message, "{operator} {list:?}");
    }
    for name in ["FOO", "eq", ""] {
        let error = ComparisonOperator::from_name(name).unwrap_err();
        assert_eq!(error.to_string(), invalid("Invalid comparison operator"));
    }
}

#[test]
fn conditions_are_joined_as_asked() {
    let conditions = || -> BTreeMap<String, Comparison> {
        [("a", 1), ("b", 2)].map(|(name, value)| (name.to_owned(), comparison("EQ", &[value.into()]))).into()
    };
    let sample = item([("a", 1.into()), ("b", 1.into())]);
    for (join, holds) in
        [(None, false), (Some(ConditionalOperator::And), false), (Some(ConditionalOperator::Or), true)]
    {
        assert_eq!(filter(conditions(), join).unwrap().unwrap().holds(Some(&sample)), Ok(holds), "{join:?}");
    }
    assert_eq!(filter(BTreeMap::new(), None), Ok(None));
    assert_eq!(filter(BTreeMap::new(), Some(ConditionalOperator::Or)), Err(Error::OperatorWithoutConditions));
    let one = [("a".to_owned(), comparison("NULL", &[]))].into();
    assert_eq!(filter(one, Some(ConditionalOperator::And)), Err(Error::OperatorForOneCondition));
}

fn expect(expectation: Expectation) -> Result<bool, String> {
    let sample = item([("a", 1.into())]);
    let condition =
        expected([("a".to_owned(), expectation)].into(), None).map_err(|error| error.to_string())?;
    condition.unwrap().holds(Some(&sample)).map_err(|error| error.to_string())
}

#[test]
fn expectations_say_value_absence_or_comparison() {
    let value = |value: i64| Some(AttributeValue::from(value));
    let none = Expectation::default;
    for (expectation, holds) in [
        (Expectation { value: value(1), ..none() }, true),
        (Expectation { value: value(2), exists: Some(true), ..none() }, false),
        (Expectation { exists: Some(false), ..none() }, false),
        (Expectation { operator: Some(ComparisonOperator::Ge), value: value(1), ..none() }, true),
        (
            Expectation {
                operator: Some(ComparisonOperator::In),
                list: Some(vec![2.into(), 1.into()]),
                ..none()
            },
            true,
        ),
        (Expectation { operator: Some(ComparisonOperator::NotNull), ..none() }, true),
    ] {
        assert_eq!(expect(expectation.clone()), Ok(holds), "{expectation:?}");
    }
    for (expectation, message) in [
        (none(), "Value must be provided when Exists is null for Attribute: a"),
        (
            Expectation { exists: Some(true), ..none() },
            "Value must be provided when Exists is true for Attribute: a",
        ),
        (
            Expectation { exists: Some(false), value: value(1), ..none() },
            "Value cannot be used when Exists is false for Attribute: a",
        ),
        (
            Expectation { value: value(1), list: Some(vec![]), ..none() },
            "Value and AttributeValueList cannot be used together for Attribute: a",
        ),
        (
            Expectation { list: Some(vec![]), ..none() },
            "AttributeValueList can only be used with a ComparisonOperator for Attribute: a",
        ),
        (
            Expectation {
                exists: Some(true),
                operator: Some(ComparisonOperator::Eq),
                value: value(1),
                ..none()
            },
            "Exists and ComparisonOperator cannot be used together for Attribute: a",
        ),
        (
            Expectation { operator: Some(ComparisonOperator::Eq), ..none() },
            "Value or AttributeValueList must be used with ComparisonOperator: EQ for Attribute: a",
        ),
        (
            Expectation { operator: Some(ComparisonOperator::Null), value: value(1), ..none() },
            "Invalid number of argument(s) for the NULL ComparisonOperator",
        ),
    ] {
        let message = format!("One or more parameter values were invalid: {message}");
        assert_eq!(expect(expectation.clone()), Err(message), "{expectation:?}");
    }
}

fn update(action: Action, value: Option<AttributeValue>) -> AttributeUpdate {
    AttributeUpdate { action, value }
}

#[test]
fn attribute_updates_put_add_and_delete() {
    let updates = [
        ("put", update(Action::default(), Some("new".into()))),
        ("count", update(Action::Add, Some(2.into()))),
        ("fresh", update(Action::Add, Some(2.into()))),
        ("list", update(Action::Add, Some(list(["b"])))),
        ("tags", update(Action::Delete, Some(strings(&["a"])))),
        ("gone", update(Action::Delete, None)),
        ("never", update(Action::Delete, None)),
    ];
    let updates: BTreeMap<_, _> = updates.map(|(name, update)| (name.to_owned(), update)).into();
    let old = item([
        ("put", "old".into()),
        ("count", 3.into()),
        ("list", list(["a"])),
        ("tags", strings(&["a", "b"])),
        ("gone", true.into()),
    ]);
    let new = item([
        ("put", "new".into()),
        ("count", 5.into()),
        ("fresh", 2.into()),
        ("list", list(["a", "b"])),
        ("tags", strings(&["b"])),
    ]);
    assert_eq!(attribute_updates(updates).unwrap().apply(Some(&old), &Item::new()), Ok(new));
}

#[test]
fn attribute_updates_are_checked() {
    let refused = |action, value| {
        attribute_updates([("a".to_owned(), update(action, value))].into()).unwrap_err().to_string()
    };
    for (action, value, message) in [
        (Action::Put, None, "Only DELETE action is allowed when no attribute value is specified"),
        (Action::Add, None, "Only DELETE action is allowed when no attribute value is specified"),
        (Action::Add, Some("a".into()), "ADD action is not supported for the type S"),
        (Action::Delete, Some(1.into()), "DELETE action with value is not supported for the type N"),
    ] {
        assert_eq!(refused(action, value), format!("One or more parameter values were invalid: {message}"));
    }
    let error = Action::from_name("put").unwrap_err();
    assert_eq!(error.to_string(), "Member must satisfy enum value set: [ADD, DELETE, PUT]' for Action");
    let add = attribute_updates([("a".to_owned(), update(Action::Add, Some(1.into())))].into()).unwrap();
    let error = add.apply(Some(&item([("a", "text".into())])), &Item::new()).unwrap_err();
    assert_eq!(error.to_string(), "Type mismatch for attribute to update");
}

#[test]
fn key_conditions_take_the_operators_an_index_can_answer() {
    let conditions =
        [("pk", comparison("EQ", &["k".into()])), ("sk", comparison("BETWEEN", &[1.into(), 2.into()]))];
    let bound =
        key_conditions(conditions.map(|(name, comparison)| (name.to_owned(), comparison)).into()).unwrap();
    assert_eq!(
        bound.tests,
        [
            KeyTest { attribute: "pk".into(), test: SortTest::Equal(Arc::new("k".into())) },
            KeyTest {
                attribute: "sk".into(),
                test: SortTest::Between(Arc::new(1.into()), Arc::new(2.into()))
            },
        ]
    );
    for comparison in [comparison("NE", &[1.into()]), comparison("IN", &[1.into()]), comparison("NULL", &[])]
    {
        assert_eq!(key_conditions([("pk".to_owned(), comparison)].into()), Err(Error::NotIndexable));
    }
}

#[test]
fn names_are_names_and_not_paths() {
    let names = vec!["a.b".to_owned(), "c[0]".to_owned()];
    let sample = item([("a.b", 1.into()), ("c[0]", 2.into()), ("d", 3.into())]);
    assert_eq!(
        attributes_to_get(names).unwrap().apply(&sample),
        item([("a.b", 1.into()), ("c[0]", 2.into())])
    );
    let error = attributes_to_get(vec!["a".into(), "a".into()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "One or more parameter values were invalid: Duplicate value in attribute name: a"
    );
}

#[test]
fn the_two_ways_do_not_mix() {
    assert_eq!(legacy::check_not_mixed(&["Expected"], &[]), Ok(()));
    let error =
        legacy::check_not_mixed(&["AttributeUpdates", "Expected"], &["UpdateExpression"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {AttributeUpdates, Expected} Expression parameters: {UpdateExpression}"
    );
    let check = legacy::check_placeholders_wanted;
    assert_eq!(check(true, true, &["ConditionExpression"], &[]), Ok(()));
    for (error, message) in [
        (
            check(true, false, &[], &[]),
            "ExpressionAttributeNames can only be specified when using expressions",
        ),
        (
            check(false, true, &[], &[]),
            "ExpressionAttributeValues can only be specified when using expressions",
        ),
        (
            check(false, true, &["ProjectionExpression"], &["FilterExpression"]),
            "ExpressionAttributeValues can only be specified when using expressions: FilterExpression is null",
        ),
        (
            check(false, true, &[], &["FilterExpression", "KeyConditionExpression"]),
            "ExpressionAttributeValues can only be specified when using expressions: FilterExpression and KeyConditionExpression are null",
        ),
    ] {
        assert_eq!(error.unwrap_err().to_string(), message);
    }
}
