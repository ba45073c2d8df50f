use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_expr::legacy::{self, Comparison, ComparisonOperator};
use larder_expr::{Condition, Error, Operand, Scope, SetOperand, SetValue};
use larder_model::limits::ITEM_BYTES_MAX;
use larder_model::{AttributeValue, Item};
use proptest::prelude::*;

use crate::scope;

/// What takes longer is not linear, even in a build without optimisation on a busy machine.
const LINEAR: Duration = Duration::from_secs(5);

fn read_everything(text: &str) {
    let _ = scope().condition(text);
    let _ = scope().update(text);
    let _ = scope().projection(text);
    let _ = scope().key_condition(text);
}

fn condition_error(text: &str) -> String {
    scope().condition(text).expect_err("refused").to_string()
}

fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(512 * 1024).spawn(work).unwrap().join().unwrap();
}

#[test]
fn deep_nesting_is_refused() {
    on_a_small_stack(refuse_deep_nesting);
}

fn refuse_deep_nesting() {
    let redundant = "Invalid ConditionExpression: The expression has redundant parentheses;";
    let many = "Invalid ConditionExpression: The expression contains too many operators; operator count: 301";
    for depth in [1, 299, 300, 301, 1000, 2000] {
        let text = format!("{}s = :s{}", "(".repeat(depth), ")".repeat(depth));
        let error = scope().condition(&text).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), (depth > 1).then_some(redundant), "{depth}");
    }
    assert_eq!(condition_error(&format!("{}s = :s{}", "NOT (".repeat(600), ")".repeat(600))), many);
    assert_eq!(condition_error(&format!("{}s = :s", "NOT ".repeat(1000))), many);
    assert_eq!(condition_error(&format!("{}s{} = :s", "size(".repeat(600), ")".repeat(600))), many);
    assert_eq!(condition_error(&"(".repeat(4000)), redundant);
    assert_eq!(
        condition_error(&format!("{}attribute_exists(s){}", "(".repeat(590), ")".repeat(590))),
        redundant
    );
    read_everything(&format!("SET a = {}:s{}", "(".repeat(2000), ")".repeat(2000)));
    read_everything(&format!("SET a = {}", "list_append(".repeat(300)));
    read_everything(&"a.".repeat(2000));
    read_everything(&"a[0]".repeat(1000));
}

#[test]
fn the_deepest_condition_fits_a_small_stack() {
    let text = format!("{}s = :s{}", "NOT (".repeat(299), ")".repeat(299));
    let chain = vec!["s = :s"; 150].join(" AND ");
    let work = move || {
        for text in [text, chain] {
            let bound = scope().condition(&text).unwrap();
            assert_eq!(bound.holds(None), Ok(text.starts_with("NOT")));
            assert_eq!(bound.paths().count(), text.matches("s =").count());
            assert!(!larder_expr::Renderer::new().condition(&bound.clone()).is_empty());
        }
    };
    on_a_small_stack(work);
}

#[test]
fn operators_are_counted_to_three_hundred() {
    let conditions = |count: usize| vec!["s=:s"; count].join(" OR ");
    assert!(scope().condition(&conditions(150)).is_ok());
    let many = "Invalid ConditionExpression: The expression contains too many operators; operator count: 301";
    assert_eq!(condition_error(&conditions(151)), many);
    assert!(scope().condition(&format!("{}attribute_exists(s)", "NOT ".repeat(299))).is_ok());
    assert_eq!(condition_error(&format!("{}attribute_exists(s)", "NOT ".repeat(300))), many);
    // What an update sets is not an operator.
    let sets: Vec<String> = (0..301).map(|at| format!("a{at}=:s")).collect();
    assert!(scope().update(&format!("SET {}", sets.join(","))).is_ok());
}

#[test]
fn length_and_operands_are_bounded() {
    let padded = |length: usize| format!("{:length$}", "s = :s");
    assert!(scope().condition(&padded(4096)).is_ok());
    assert_eq!(
        condition_error(&padded(4097)),
        "Invalid ConditionExpression: Expression size has exceeded the maximum allowed size;"
    );
    let among = |count: usize| format!("s IN ({})", vec![":s"; count].join(", "));
    assert!(scope().condition(&among(100)).is_ok());
    assert_eq!(
        condition_error(&among(101)),
        "Invalid ConditionExpression: The IN operator is provided with too many operands; number of operands: 101"
    );
}

/// The largest list that placeholders may hold, as `:v`, and a name of 64 KB, as `#n`.
fn large() -> Scope {
    let value = AttributeValue::L(vec![AttributeValue::from(""); 600_000]);
    let names = BTreeMap::from([("#n".to_owned(), "n".repeat(65_535))]);
    Scope::new(Some(names), Some(BTreeMap::from([(":v".to_owned(), value)]))).unwrap()
}

fn uses(separator: &str, count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(separator)
}

#[test]
fn a_value_is_shared_by_all_that_use_it() {
    let update = large().update(&format!("SET {}", uses(",", 460, |at| format!("a{at}=:v")))).unwrap();
    let values: Vec<_> = update
        .set
        .iter()
        .map(|(_, value)| match value {
            SetValue::Is(SetOperand::Value(value)) => value,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(values.len(), 460);
    assert!(values.windows(2).all(|pair| Arc::ptr_eq(pair[0], pair[1])));

    let among = large().condition(&format!("a IN ({})", uses(",", 100, |_| ":v".to_owned()))).unwrap();
    let Condition::In { list, .. } = among else { panic!("{among:?}") };
    let values = list.iter().filter_map(|operand| match operand {
        Operand::Value(value) => Some(Arc::as_ptr(value)),
        _ => None,
    });
    assert_eq!(values.collect::<std::collections::BTreeSet<_>>().len(), 1);

    let keys = large().key_condition(&uses(" AND ", 100, |at| format!("a{at}=:v"))).unwrap();
    let values: Vec<_> = keys.tests.iter().flat_map(|test| test.test.values()).collect();
    assert!(values.windows(2).all(|pair| std::ptr::eq(pair[0], pair[1])));
}

#[test]
fn a_long_name_is_shared_and_compared_at_no_cost() {
    let start = Instant::now();
    // They all clash with the last alone, which is what takes a look at every pair.
    let paths = uses(",", 500, |at| format!("#n.a{at}"));
    let error = large().projection(&format!("{paths},#n.a499")).unwrap_err().to_string();
    assert!(error.starts_with("Invalid ProjectionExpression: Two document paths overlap"), "{error:.100}");
    let projection = large().projection(&paths).unwrap();
    assert!(projection.paths.windows(2).all(|pair| Arc::ptr_eq(&pair[0].root, &pair[1].root)));
    assert!(start.elapsed() < LINEAR, "{:?}", start.elapsed());
}

#[test]
fn an_update_stops_where_its_item_is_full() {
    let key = Item::new();
    let big = AttributeValue::from("x".repeat(300_000));
    let item: Item =
        [("big", big), ("many", AttributeValue::L(vec![1.into(); 100_000]))].into_iter().collect();
    for update in [
        format!("SET {}", uses(",", 460, |at| format!("a{at}=:v"))),
        format!("SET {}", uses(",", 400, |at| format!("a{at}=big"))),
        format!("SET {}", uses(",", 100, |at| format!("a{at}=list_append(many,many)"))),
        format!("SET {}", uses(",", 100, |at| format!("a{at}=if_not_exists(nope,big)"))),
    ] {
        let start = Instant::now();
        let update = large().update(&update).unwrap();
        assert_eq!(update.apply_within(ITEM_BYTES_MAX, Some(&item), &key), Err(Error::ItemTooLarge));
        assert!(start.elapsed() < LINEAR, "{:?}", start.elapsed());
    }
    // What is only moved about may stay as large as it was.
    let moved = Scope::default().update("SET kept = big REMOVE big").unwrap();
    assert!(moved.apply_within(ITEM_BYTES_MAX, Some(&item), &key).is_ok());
}

#[test]
fn many_elements_leave_a_list_together() {
    let list = AttributeValue::L((0..100_000i64).map(AttributeValue::from).collect());
    let item: Item = [("l", list)].into_iter().collect();
    let start = Instant::now();
    let update =
        Scope::default().update(&format!("REMOVE {}", uses(",", 400, |at| format!("l[{}]", 2 * at))));
    let made = update.unwrap().apply(Some(&item), &Item::new()).unwrap();
    let Some(AttributeValue::L(left)) = made.get("l") else { panic!("a list") };
    assert_eq!(left.len(), 100_000 - 400);
    assert_eq!(left[..3], [1.into(), 3.into(), 5.into()]);
    assert!(start.elapsed() < LINEAR, "{:?}", start.elapsed());
}

#[test]
fn bytes_are_looked_for_in_linear_time() {
    let (mut part, bytes) = (vec![0; 200_000], vec![0; 400_000]);
    part.push(1);
    let item: Item = [("b", AttributeValue::B(bytes))].into_iter().collect();
    let values = BTreeMap::from([(":b".to_owned(), AttributeValue::B(part))]);
    let condition = Scope::new(None, Some(values)).unwrap().condition("contains(b, :b)").unwrap();
    let start = Instant::now();
    assert_eq!(condition.holds(Some(&item)), Ok(false));
    assert!(start.elapsed() < LINEAR, "{:?}", start.elapsed());
}

#[test]
fn what_came_before_expressions_is_bounded_as_they_are() {
    on_a_small_stack(|| {
        let comparison = |values: usize, operator| Comparison { operator, list: vec![1.into(); values] };
        let filters = |count: usize| {
            let one = |at: usize| (format!("a{at}"), comparison(1, ComparisonOperator::Ne));
            legacy::filter((0..count).map(one).collect(), None)
        };
        let most = filters(300).unwrap().unwrap();
        assert_eq!(most.holds(None), Ok(true));
        let message = "One or more parameter values were invalid: Too many conditions: 100000, where at most 300 can be given";
        assert_eq!(filters(100_000).unwrap_err().to_string(), message);
        let among = |values| {
            legacy::filter([("a".to_owned(), comparison(values, ComparisonOperator::In))].into(), None)
        };
        assert!(among(100).is_ok());
        assert!(among(101).is_err());
    });
    let start = Instant::now();
    let names: Vec<String> = (0..400_000).map(|at| at.to_string()).collect();
    assert_eq!(legacy::attributes_to_get(names).unwrap().paths.len(), 400_000);
    assert!(start.elapsed() < LINEAR, "{:?}", start.elapsed());
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser(text in ".{0,80}") {
        read_everything(&text);
    }

    #[test]
    fn no_tokens_break_the_parser(tokens in prop::collection::vec(prop::sample::select(vec![
        "a", "b", "#a", ":s", ":one", ":list", "=", "<>", "<", ">=", "+", "-", "(", ")", "[", "]", "0", "17", ".", ",", "AND", "OR",
        "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE", "size", "contains", "list_append", "if_not_exists", "status", "ö",
    ]), 0..24)) {
        read_everything(&tokens.join(" "));
        read_everything(&format!("SET {}", tokens.join(" ")));
    }
}
