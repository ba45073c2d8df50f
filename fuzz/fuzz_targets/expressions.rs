//! Any text is an expression or an error; an expression means the same after being rendered and read again.
#![no_main]

use std::collections::BTreeMap;

use larder_expr::{Placeholders, Renderer, Scope};
use larder_model::{AttributeValue, Item};
use libfuzzer_sys::fuzz_target;

fn value(name: &str) -> AttributeValue {
    match name {
        ":s" => AttributeValue::from("text"),
        ":n" => AttributeValue::from(5),
        ":b" => AttributeValue::B(vec![1, 2]),
        ":l" => AttributeValue::L(vec![1.into(), "x".into()]),
        ":set" => AttributeValue::Ns([1.into(), 2.into()].into()),
        ":m" => AttributeValue::M(item()),
        _ => AttributeValue::Null,
    }
}

fn item() -> Item {
    [("a", value(":n")), ("b", value(":s")), ("l", value(":l")), ("s", value(":set"))].into_iter().collect()
}

fn scope() -> Scope {
    let names = [("#a", "a"), ("#b", "b"), ("#l", "l"), ("#s", "s")];
    let names = names.map(|(name, attribute)| (name.to_owned(), attribute.to_owned()));
    let values = [":s", ":n", ":b", ":l", ":set", ":m", ":null"].map(|name| (name.to_owned(), value(name)));
    Scope::new(Some(names.into()), Some(values.into())).expect("the placeholders are good")
}

fn again(placeholders: Placeholders) -> Scope {
    let given = |map: BTreeMap<_, _>| (!map.is_empty()).then_some(map);
    let values = placeholders.values;
    let values = (!values.is_empty()).then_some(values);
    Scope::new(given(placeholders.names), values).expect("rendered placeholders are good")
}

fuzz_target!(|text: &str| {
    if let Ok(condition) = scope().condition(text) {
        let _ = condition.holds(Some(&item()));
        let _ = condition.holds(None);
        let mut renderer = Renderer::new();
        let rendered = renderer.condition(&condition);
        if let Ok(same) = again(renderer.finish()).condition(&rendered) {
            assert_eq!(same, condition);
        }
    }
    if let Ok(update) = scope().update(text) {
        let _ = update.apply(Some(&item()), &Item::new());
        let mut renderer = Renderer::new();
        if let Some(rendered) = renderer.update(&update)
            && let Ok(same) = again(renderer.finish()).update(&rendered)
        {
            assert_eq!(same, update);
        }
    }
    if let Ok(projection) = scope().projection(text) {
        projection.apply(&item());
    }
    let _ = scope().key_condition(text);
});
