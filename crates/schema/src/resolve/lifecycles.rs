//! Fourth pass: states, transitions and leases.

use crate::ast::{self, LiteralKind};
use crate::diagnostic::Diagnostic;
use crate::limits::STATES_MAX;
use crate::marks::error_mark;
use crate::resolve::Context;
use crate::resolve::keys;
use crate::resolve::settings::{self, Place};
use crate::resolve::types::{self, FieldNames, assignable};
use crate::schema::*;
use crate::symbols::SymbolKind;
use crate::template::Template;

/// `None` when a lifecycle could not be read.
pub(super) fn resolve<'a>(
    context: &mut Context<'a>,
    item: &'a ast::Entity,
    names: &FieldNames<'_>,
    fields: &[Field],
    naming: Naming,
) -> Option<Vec<Lifecycle>> {
    let read: Vec<Option<Lifecycle>> = item
        .lifecycles
        .iter()
        .map(|written| lifecycle(context, written, item, names, fields, naming))
        .collect();
    read.into_iter().collect()
}

fn lifecycle<'a>(
    context: &mut Context<'a>,
    written: &'a ast::Lifecycle,
    item: &'a ast::Entity,
    names: &FieldNames<'_>,
    fields: &[Field],
    naming: Naming,
) -> Option<Lifecycle> {
    if written.states.is_empty() {
        context.report(
            Diagnostic::new(
                "L0601",
                written.name.span,
                format!("lifecycle `{}` has no states", written.name.text),
            )
            .help("write `state pending, running, done`"),
        );
        return None;
    }
    if written.states.len() > STATES_MAX {
        let span = written.states[STATES_MAX].name.span;
        context.report(
            Diagnostic::new("L0005", span, format!("a lifecycle has at most {STATES_MAX} states"))
                .help("part it into two lifecycles"),
        );
        return None;
    }
    let path = format!("{}.{}", item.name.text, written.name.text);
    let states: Vec<Option<State>> =
        written.states.iter().map(|state| self::state(context, state, written, names)).collect();
    let transitions: Vec<Option<Transition>> = written
        .transitions
        .iter()
        .map(|transition| self::transition(context, transition, written, item, names, fields, &path))
        .collect();
    let ready = match &written.ready {
        Some(expression) => {
            let typed = types::typed(context, expression, names)?;
            if typed.kind != Type::Bool {
                context.report(
                    Diagnostic::new(
                        "L0301",
                        expression.span,
                        format!("this is a {}, not a condition", typed.kind),
                    )
                    .help("compare it with something: `a > b`"),
                );
            }
            Some(typed.expr)
        }
        None => None,
    };
    let held_in = written.held_in.as_ref().unwrap_or(&written.name).text.clone();
    let (mut owner, mut retry) = (None, None);
    context.check_twice(&written.settings);
    for setting in &written.settings {
        match setting.name.text.as_str() {
            "owner" => {
                let name = context.read_setting(Place::Lifecycle, setting, super::settings::Words::word);
                owner = name.and_then(|(name, span)| self::owner(context, name, span, names, fields));
            }
            "retry" => retry = context.read_setting(Place::Lifecycle, setting, settings::retry),
            _ => context.unknown_setting(Place::Lifecycle, setting),
        }
    }
    let states = states.into_iter().collect::<Option<Vec<State>>>()?;
    let transitions = transitions.into_iter().collect::<Option<Vec<Transition>>>()?;
    let leased = states.iter().any(|state| state.lease_millis.is_some());
    let lease = leased.then(|| {
        let named = |what: &str| naming.stored(&format!("{}_{what}", written.name.text));
        LeaseAttributes {
            owner: owner.unwrap_or_else(|| named("owner")),
            until: named("until"),
            fence: named("fence"),
            attempts: named("attempts"),
            error: error_mark(&written.name.text),
        }
    });
    let lifecycle = Lifecycle {
        name: written.name.text.clone(),
        docs: written.docs.clone(),
        attribute: naming.stored(&held_in),
        held_in,
        states,
        transitions,
        ready,
        lease,
        retry,
    };
    if names.known.iter().filter(|(name, ..)| *name == lifecycle.held_in).count() > 1 {
        let span = written.held_in.as_ref().unwrap_or(&written.name).span;
        context.report(
            Diagnostic::new(
                "L0203",
                span,
                format!("`{}` is a field, and would hold a state too", lifecycle.held_in),
            )
            .help("keep the state in an attribute of its own"),
        );
    }
    reachable(context, written, &lifecycle);
    leases(context, written, &lifecycle);
    distinct(context, written, &lifecycle);
    complete(context, written, &lifecycle, fields);
    Some(lifecycle)
}

fn owner(
    context: &mut Context<'_>,
    name: &str,
    span: crate::span::Span,
    names: &FieldNames<'_>,
    fields: &[Field],
) -> Option<String> {
    match fields.iter().find(|field| field.name == name) {
        Some(field) if field.kind.is_text() && field.optional && field.is_stored() && field.is_given() => {
            context.refer(SymbolKind::Field, &format!("{}.{name}", names.owner), span);
            Some(field.attribute.clone())
        }
        Some(_) => {
            context.report(
                Diagnostic::new("L0602", span, format!("`{name}` cannot hold an owner"))
                    .note("an owner is a text, stored, given, and missing while nobody holds the lease")
                    .help(format!("declare it `{name}: string?`")),
            );
            None
        }
        None => {
            let name = ast::Name { text: name.to_owned(), span };
            context.unknown("field", &name, fields.iter().map(|field| field.name.as_str()));
            None
        }
    }
}

fn state(
    context: &mut Context<'_>,
    written: &ast::State,
    lifecycle: &ast::Lifecycle,
    names: &FieldNames<'_>,
) -> Option<State> {
    let template = match &written.template {
        None => Template::constant(&written.name.text),
        Some(text) => {
            let (template, _) = types::template(context, text, names)?;
            keys::readable(context, &template, text);
            template
        }
    };
    let mut lasting = |literal: &Option<ast::Literal>| match literal {
        Some(ast::Literal { kind: LiteralKind::Duration(millis), .. }) if *millis > 0 => Some(*millis),
        Some(literal) => {
            context
                .report(Diagnostic::new("L0206", literal.span, "this is not a duration").help("write: 2h"));
            None
        }
        None => None,
    };
    let (lease_millis, due_millis) = (lasting(&written.lease), lasting(&written.due));
    let dated = template.holes().any(|hole| matches!(hole.kind, Type::Instant(_) | Type::Epoch | Type::Date));
    if due_millis.is_some() && !dated {
        context.report(
            Diagnostic::new("L0607", written.name.span, format!("nothing says since when `{}` holds", written.name.text))
                .note("what is due is found by the moment in the state's key")
                .help(format!(
                    "keep the state in an index key with its moment: `lifecycle {} in gsi_sk`, `state {} \"{}#{{done_at}}\" due …`",
                    lifecycle.name.text,
                    written.name.text,
                    written.name.text.to_uppercase()
                )),
        );
    }
    Some(State {
        name: written.name.text.clone(),
        docs: written.docs.clone(),
        template,
        lease_millis,
        due_millis,
    })
}

fn transition(
    context: &mut Context<'_>,
    written: &ast::Transition,
    lifecycle: &ast::Lifecycle,
    item: &ast::Entity,
    names: &FieldNames<'_>,
    fields: &[Field],
    path: &str,
) -> Option<Transition> {
    let mut failed = false;
    for name in written.from.iter().chain([&written.to]) {
        if lifecycle.states.iter().any(|state| state.name.text == name.text) {
            context.refer(SymbolKind::State, &format!("{path}.{}", name.text), name.span);
        } else {
            context.unknown("state", name, lifecycle.states.iter().map(|state| state.name.text.as_str()));
            failed = true;
        }
    }
    let mut set = Vec::new();
    for (name, value) in &written.set {
        let Some(field) = fields.iter().find(|field| field.name == name.text) else {
            if !names.declared.contains(&name.text.as_str()) {
                context.unknown("field", name, fields.iter().map(|field| field.name.as_str()));
            }
            failed = true;
            continue;
        };
        context.refer(SymbolKind::Field, &format!("{}.{}", item.name.text, name.text), name.span);
        let in_key = match &item.key {
            Some(key) => {
                [Some(&key.partition), key.sort.as_ref()].into_iter().flatten().any(|part| match part {
                    ast::KeyPart::Template(template) => template.holes().any(|hole| hole.text == name.text),
                    ast::KeyPart::Names(list) => list.iter().any(|(part, _)| part.text == name.text),
                })
            }
            None => false,
        };
        if field.equation.is_some() && !field.on_create || in_key || field.role == Role::Let {
            let why = if in_key { "is part of the key, which never changes" } else { "is computed" };
            context.report(
                Diagnostic::new("L0605", name.span, format!("`{}` {why}", name.text))
                    .help("set the fields it is computed from"),
            );
            failed = true;
            continue;
        }
        match value {
            None => set.push((name.text.clone(), None)),
            Some(value) => {
                let Some(typed) = types::typed(context, value, names) else {
                    failed = true;
                    continue;
                };
                if !assignable(&typed.kind, &field.kind) {
                    context.report(
                        Diagnostic::new(
                            "L0301",
                            value.span,
                            format!("this is a {}, and `{}` is a {}", typed.kind, name.text, field.kind),
                        )
                        .help("set it to a value of its own type"),
                    );
                    failed = true;
                    continue;
                }
                set.push((name.text.clone(), Some(typed.expr)));
            }
        }
    }
    (!failed).then(|| Transition {
        name: written.name.text.clone(),
        docs: written.docs.clone(),
        from: written.from.iter().map(|name| name.text.clone()).collect(),
        to: written.to.text.clone(),
        set,
    })
}

fn reachable(context: &mut Context<'_>, written: &ast::Lifecycle, lifecycle: &Lifecycle) {
    let mut reached = vec![lifecycle.states[0].name.as_str()];
    let mut at = 0;
    while at < reached.len() {
        let from = reached[at];
        for transition in &lifecycle.transitions {
            if transition.from.iter().any(|state| state == from) && !reached.contains(&transition.to.as_str())
            {
                reached.push(&transition.to);
            }
        }
        at += 1;
    }
    for state in &written.states {
        if !reached.contains(&state.name.text.as_str()) {
            context.report(
                Diagnostic::new(
                    "L0601",
                    state.name.span,
                    format!("nothing ever becomes `{}`", state.name.text),
                )
                .note(format!(
                    "no transition leads there from `{}`, where items begin",
                    lifecycle.states[0].name
                ))
                .help(format!(
                    "add one, such as `NAME: {} -> {}`",
                    lifecycle.states[0].name, state.name.text
                )),
            );
        }
    }
}

fn leases(context: &mut Context<'_>, written: &ast::Lifecycle, lifecycle: &Lifecycle) {
    for (at, (state, source)) in lifecycle.states.iter().zip(&written.states).enumerate() {
        if state.lease_millis.is_none() {
            continue;
        }
        if at == 0 {
            context.report(
                Diagnostic::new(
                    "L0602",
                    source.name.span,
                    format!("`{}` has a lease that nobody took", state.name),
                )
                .note("items begin in this state, and an owner is written by a transition into it")
                .help("begin with a state without a lease, and claim from there"),
            );
        }
        let way_out = lifecycle
            .transitions
            .iter()
            .any(|transition| transition.from.contains(&state.name) && transition.to != state.name);
        if !way_out {
            context.report(
                Diagnostic::new(
                    "L0603",
                    source.name.span,
                    format!("work in `{}` can never be finished", state.name),
                )
                .note("its lease runs out, it is taken again, and so on for ever")
                .help(format!("add a transition out of it, such as `finish: {} -> done`", state.name)),
            );
        }
    }
}

fn distinct(context: &mut Context<'_>, written: &ast::Lifecycle, lifecycle: &Lifecycle) {
    for (at, state) in lifecycle.states.iter().enumerate() {
        for (before, other) in lifecycle.states[..at].iter().enumerate() {
            if state.name != other.name && state.template.may_equal(&other.template) {
                context.report(
                    Diagnostic::new(
                        "L0604",
                        written.states[at].name.span,
                        format!("`{}` and `{}` could be written the same", state.name, other.name),
                    )
                    .other(written.states[before].name.span, "the other state")
                    .help(format!(
                        "begin one of them differently, as in \"{}#…\"",
                        state.name.to_uppercase()
                    )),
                );
            }
        }
    }
}

/// A state is always written whole: entering it sets what its template needs.
fn complete(context: &mut Context<'_>, written: &ast::Lifecycle, lifecycle: &Lifecycle, fields: &[Field]) {
    for (at, state) in lifecycle.states.iter().enumerate() {
        for hole in state.template.holes() {
            let optional =
                fields.iter().find(|field| field.name == hole.field).is_some_and(|field| field.optional);
            if !optional {
                continue;
            }
            if at == 0 {
                context.report(
                    Diagnostic::new("L0606", written.states[0].name.span, format!("a new item has no `{}`", hole.field))
                        .note("without it the item would be missing from the index")
                        .help(format!("begin with a state that does not need it, such as `state never \"NEVER#\"`, or make `{}` required", hole.field)),
                );
            }
            for (transition, source) in lifecycle.transitions.iter().zip(&written.transitions) {
                if transition.to == state.name && !transition.set.iter().any(|(name, _)| *name == hole.field)
                {
                    context.report(
                        Diagnostic::new(
                            "L0606",
                            source.name.span,
                            format!(
                                "`{}` leads to `{}` without setting `{}`",
                                transition.name, state.name, hole.field
                            ),
                        )
                        .other(written.states[at].name.span, format!("needs `{}`", hole.field))
                        .note("without it the item would be missing from the index")
                        .help(format!("write `set {} = now`", hole.field)),
                    );
                }
            }
        }
    }
}
