//! What is rendered reads back as what it was.

use std::sync::Arc;

use larder_expr::{
    Comparator, Condition, KeyCondition, KeyTest, Operand, Placeholders, Projection, Renderer, Scope,
    SetOperand, SetValue, SortTest, Update,
};
use larder_model::{AttributeType, AttributeValue, Path, Step};
use proptest::prelude::*;

use crate::{bytes, number, numbers, strings};

fn scope(placeholders: Placeholders) -> Scope {
    let Placeholders { names, values } = placeholders;
    Scope::new((!names.is_empty()).then_some(names), (!values.is_empty()).then_some(values)).unwrap()
}

fn path() -> impl Strategy<Value = Path> {
    let name = || {
        prop::sample::select(vec!["a", "status", "x.y", "språk", "set", "#a", " "]).prop_map(str::to_owned)
    };
    let step =
        prop_oneof![name().prop_map(|name| Step::Field(name.into())), (0usize..20).prop_map(Step::Index)];
    (name(), prop::collection::vec(step, 0..4)).prop_map(|(root, steps)| Path { root: root.into(), steps })
}

fn scalar() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        any::<i64>().prop_map(AttributeValue::from),
        "[a-c]{0,3}".prop_map(AttributeValue::from),
        "[a-c]{0,3}".prop_map(|text| bytes(&text)),
    ]
}

fn value() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        scalar(),
        any::<bool>().prop_map(AttributeValue::from),
        Just(AttributeValue::Null),
        Just(strings(&["a", "b"])),
        Just(number("1.5e-7")),
    ]
}

fn operand(value: impl Strategy<Value = AttributeValue> + 'static) -> impl Strategy<Value = Operand> {
    prop_oneof![
        path().prop_map(Operand::Path),
        path().prop_map(Operand::Size),
        value.prop_map(Operand::value)
    ]
}

fn distinct(first: &Operand, rest: &[&Operand]) -> bool {
    !matches!(first, Operand::Path(_)) || rest.iter().all(|other| *other != first)
}

fn leaf() -> impl Strategy<Value = Condition> {
    let ordered = prop::sample::select(vec![
        Comparator::Less,
        Comparator::LessOrEqual,
        Comparator::Greater,
        Comparator::GreaterOrEqual,
    ]);
    let any_order = prop::sample::select(vec![Comparator::Equal, Comparator::NotEqual]);
    let text = || prop_oneof![path().prop_map(Operand::Path), "[a-c]{0,2}".prop_map(Operand::value)];
    prop_oneof![
        (operand(scalar()), ordered, operand(scalar()))
            .prop_map(|(left, comparator, right)| Condition::Compare { left, comparator, right }),
        (operand(value()), any_order, operand(value()))
            .prop_map(|(left, comparator, right)| Condition::Compare { left, comparator, right }),
        (operand(scalar()), operand(scalar()), path().prop_map(Operand::Path))
            .prop_map(|(value, low, high)| Condition::Between { value, low, high }),
        (operand(value()), prop::collection::vec(operand(value()), 1..4))
            .prop_map(|(value, list)| Condition::In { value, list }),
        path().prop_map(Condition::Exists),
        path().prop_map(Condition::NotExists),
        (path(), prop::sample::select(AttributeType::ALL.to_vec()))
            .prop_map(|(path, kind)| Condition::TypeIs { path, kind }),
        (text(), text()).prop_map(|(value, prefix)| Condition::BeginsWith { value, prefix }),
        (operand(value()), operand(value())).prop_map(|(value, part)| Condition::Contains { value, part }),
    ]
    .prop_filter("the first operand differs from the others", |condition| match condition {
        Condition::Compare { left, right, .. } => distinct(left, &[right]),
        Condition::Between { value, low, high } => distinct(value, &[low, high]),
        Condition::In { value, list } => distinct(value, &list.iter().collect::<Vec<_>>()),
        Condition::BeginsWith { value, prefix: part } | Condition::Contains { value, part } => {
            distinct(value, &[part])
        }
        _ => true,
    })
}

fn condition() -> impl Strategy<Value = Condition> {
    leaf().prop_recursive(4, 12, 2, |inner| {
        let pair = || (inner.clone(), inner.clone());
        prop_oneof![
            pair().prop_map(|(left, right)| Condition::And(Box::new(left), Box::new(right))),
            pair().prop_map(|(left, right)| Condition::Or(Box::new(left), Box::new(right))),
            inner.clone().prop_map(|inner| Condition::Not(Box::new(inner))),
        ]
    })
}

fn set_operand(literal: fn() -> AttributeValue) -> impl Strategy<Value = SetOperand> {
    let simple = move || {
        prop_oneof![
            path().prop_map(SetOperand::Path),
            Just(()).prop_map(move |()| SetOperand::value(literal()))
        ]
    };
    prop_oneof![
        simple(),
        (path(), simple())
            .prop_filter("a default is not the attribute itself", |(path, default)| {
                *default != SetOperand::Path(path.clone())
            })
            .prop_map(|(path, default)| SetOperand::IfNotExists(path, Box::new(default)))
    ]
}

fn set_value() -> impl Strategy<Value = SetValue> {
    let pair = |literal: fn() -> AttributeValue| (set_operand(literal), set_operand(literal));
    prop_oneof![
        set_operand(|| "text".into()).prop_map(SetValue::Is),
        pair(|| 7.into()).prop_map(|(left, right)| SetValue::Plus(left, right)),
        pair(|| 7.into()).prop_map(|(left, right)| SetValue::Minus(left, right)),
        pair(|| AttributeValue::L(vec![]))
            .prop_map(|(head, tail)| SetValue::Is(SetOperand::ListAppend(Box::new(head), Box::new(tail)))),
    ]
}

prop_compose! {
    /// Paths start with their place among the actions, so that none overlap.
    fn update()(
        set in prop::collection::vec((path(), set_value()), 0..3),
        remove in prop::collection::vec(path(), 0..3),
        add in prop::collection::vec((path(), prop_oneof![Just(number("1")), Just(numbers(&[1, 2]))]), 0..3),
        delete in prop::collection::vec((path(), Just(strings(&["a"]))), 0..3),
    ) -> Update {
        let shared = |changes: Vec<(Path, AttributeValue)>| {
            changes.into_iter().map(|(path, value)| (path, Arc::new(value))).collect()
        };
        let (add, delete) = (shared(add), shared(delete));
        let mut update = Update { set, remove, add, delete, ..Update::default() };
        let paths = update.set.iter_mut().map(|(path, _)| path).chain(&mut update.remove);
        let paths = paths.chain(update.add.iter_mut().map(|(path, _)| path)).chain(update.delete.iter_mut().map(|(path, _)| path));
        for (at, path) in paths.enumerate() {
            path.root = format!("{at}{}", path.root).into();
        }
        update
    }
}

proptest! {
    #[test]
    fn conditions_round_trip(condition in condition()) {
        let mut renderer = Renderer::new();
        let text = renderer.condition(&condition);
        prop_assume!(text.len() <= 4096);
        let mut scope = scope(renderer.finish());
        prop_assert_eq!(scope.condition(&text), Ok(condition));
        prop_assert_eq!(scope.finish(), Ok(()));
    }

    #[test]
    fn updates_round_trip(update in update()) {
        let mut renderer = Renderer::new();
        let text = renderer.update(&update);
        let mut scope = scope(renderer.finish());
        match text {
            Some(text) => prop_assert_eq!(scope.update(&text), Ok(update)),
            None => prop_assert_eq!(update, Update::default()),
        }
        prop_assert_eq!(scope.finish(), Ok(()));
    }
}

#[test]
fn expressions_of_one_request_share_placeholders() {
    let key = KeyCondition {
        tests: vec![
            KeyTest { attribute: "pk".into(), test: SortTest::Equal(Arc::new("k".into())) },
            KeyTest {
                attribute: "sk".into(),
                test: SortTest::Between(Arc::new(1.into()), Arc::new(2.into())),
            },
        ],
    };
    let filter = Condition::Exists(Path::attribute("pk"));
    let projection = Projection { paths: vec![Path::attribute("sk"), Path::attribute("name")] };
    let mut renderer = Renderer::new();
    let texts = (renderer.key_condition(&key), renderer.condition(&filter), renderer.projection(&projection));
    assert_eq!(texts.0, "#n0 = :v0 AND #n1 BETWEEN :v1 AND :v2");
    assert_eq!(texts.1, "attribute_exists(#n0)");
    assert_eq!(texts.2, "#n1, #n2");
    let mut scope = scope(renderer.finish());
    assert_eq!(scope.key_condition(&texts.0), Ok(key));
    assert_eq!(scope.filter(&texts.1), Ok(filter));
    assert_eq!(scope.projection(&texts.2), Ok(projection));
    assert_eq!(scope.finish(), Ok(()));
}
