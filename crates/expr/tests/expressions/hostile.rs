use proptest::prelude::*;

use crate::scope;

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
