//! Any text is a statement or an error. However a SELECT is carried out, it finds the items that meet its condition, each
//! once; and a write that names an item names one that its condition could hold for.
#![no_main]

use larder_expr::{Condition, KeyCondition, SortTest};
use larder_model::{AttributeValue, Item, KeyAttribute, KeySchema, KeyType};
use larder_partiql::{Access, Statement, keyed_write, leading_values, plan, read};
use libfuzzer_sys::fuzz_target;

fn schema() -> KeySchema {
    let attribute = |name: &str, kind| KeyAttribute { name: name.to_owned(), kind };
    KeySchema { partition: vec![attribute("pk", KeyType::S)], sort: vec![attribute("sk", KeyType::N)] }
}

fn items() -> Vec<Item> {
    let item = |pk: &str, sk: i64| -> Item {
        [("pk", AttributeValue::from(pk)), ("sk", sk.into()), ("x", (sk % 2).into())].into_iter().collect()
    };
    ["a", "b"].iter().flat_map(|pk| (0..4).map(move |sk| item(pk, sk))).collect()
}

fn parameters() -> Vec<AttributeValue> {
    let list = AttributeValue::L(vec!["a".into(), 1.into()]);
    vec!["a".into(), 1.into(), list, AttributeValue::Ss(["a".to_owned()].into()), AttributeValue::Null]
}

fn holds(condition: Option<&Condition>, item: &Item) -> bool {
    condition.is_none_or(|condition| condition.holds(Some(item)).expect("a condition holds or not"))
}

/// Whether a range of keys has an item.
fn has(key: &KeyCondition, item: &Item) -> bool {
    let range = key.resolve(&schema()).expect("a plan's keys are of the schema");
    let number = |value: &AttributeValue| *value.as_number().expect("a sort key is a number");
    let sort = number(item.get("sk").expect("an item has its key"));
    item.get("pk") == range.partition.first()
        && range.sort.iter().all(|value| number(value) == sort)
        && range.last.as_ref().is_none_or(|test| match test {
            SortTest::Equal(value) => sort == number(value),
            SortTest::Less(value) => sort < number(value),
            SortTest::LessOrEqual(value) => sort <= number(value),
            SortTest::Greater(value) => sort > number(value),
            SortTest::GreaterOrEqual(value) => sort >= number(value),
            SortTest::Between(low, high) => sort >= number(low) && sort <= number(high),
            SortTest::BeginsWith(_) => unreachable!("a number begins with nothing"),
        })
}

fn is_named(key: &Item, item: &Item) -> bool {
    key.iter().all(|(name, value)| item.get(name) == Some(value))
}

fuzz_target!(|text: &str| {
    let statement = match read(text, &parameters()) {
        Ok(statement) => statement,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    match &statement {
        Statement::Select(select) | Statement::Exists(select) => {
            let Ok(access) = plan(select, &schema()) else { return };
            for item in &items() {
                let found = match &access {
                    Access::Get(keyed) => {
                        usize::from(is_named(&keyed.key, item) && holds(keyed.condition.as_ref(), item))
                    }
                    Access::Scan { filter } => usize::from(holds(filter.as_ref(), item)),
                    Access::Query { parts, .. } => {
                        let finds = parts.iter().filter(|part| has(&part.key, item));
                        finds.filter(|part| holds(part.filter.as_ref(), item)).count()
                    }
                };
                assert_eq!(found, usize::from(holds(select.condition.as_ref(), item)), "{item:?}");
            }
            if let (Some(condition), Access::Get(_) | Access::Query { .. }) = (&select.condition, &access) {
                assert!(!leading_values(condition, "pk").is_empty());
            }
        }
        Statement::Update(larder_partiql::Update { condition, .. })
        | Statement::Delete(larder_partiql::Delete { condition, .. }) => {
            let Ok(keyed) = keyed_write(condition.as_ref(), &schema()) else { return };
            for item in &items() {
                let meant = is_named(&keyed.key, item) && holds(keyed.condition.as_ref(), item);
                assert_eq!(meant, holds(condition.as_ref(), item), "{item:?}");
            }
            let condition = condition.as_ref().expect("a key was named");
            assert!(!leading_values(condition, "pk").is_empty());
        }
        Statement::Insert(insert) => assert!(insert.item.names().all(|name| !name.is_empty())),
    }
});
