//! Second pass: the type of every field and expression, and whether checks fit them.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::SignedDuration;
use larder_model::Number;

use crate::ast::{self, BinaryOp, CheckKind, ExprKind, Item, Literal, LiteralKind, TemplatePart, TypeKind};
use crate::diagnostic::Diagnostic;
use crate::equation::{Expr, Function};
use crate::limits::{DEPTH_MAX, FIELDS_MAX};
use crate::resolve::Context;
use crate::schema::*;
use crate::symbols::SymbolKind;
use crate::template::{Format, Hole, Part, Template, hole_shape};
use crate::value::Value;

/// The named types of a schema.
pub(super) struct TypeScope<'a> {
    types: HashMap<&'a str, &'a ast::TypeItem>,
    pub(super) naming: Naming,
}

impl<'a> TypeScope<'a> {
    pub(super) fn new(items: &'a [Item], naming: Naming) -> Self {
        let types = items.iter().filter_map(|item| match item {
            Item::Type(item) => Some((item.name.text.as_str(), item)),
            _ => None,
        });
        Self { types: types.collect(), naming }
    }

    pub(super) fn item(&self, name: &str) -> Option<&'a ast::TypeItem> {
        self.types.get(name).copied()
    }
}

pub(super) fn definitions<'a>(
    context: &mut Context<'_>,
    items: &'a [Item],
    scope: &TypeScope<'a>,
) -> Vec<TypeDefinition> {
    let mut definitions = Vec::new();
    for item in items {
        let Item::Type(item) = item else { continue };
        if contains_itself(item, scope, &item.name.text, &mut HashSet::new()) {
            context.report(
                Diagnostic::new("L0306", item.name.span, format!("`{}` contains itself", item.name.text))
                    .note("a value of this type could never end")
                    .help("make the field that leads back optional, a list or a map"),
            );
        }
        let owner = Owner { name: &item.name.text, lifecycles: &[], entity: false };
        let fields = fields(context, &item.fields, scope, owner);
        definitions.push(TypeDefinition {
            name: item.name.text.clone(),
            docs: item.docs.clone(),
            fields: fields.fields,
            open: item.open,
        });
    }
    definitions
}

/// Required fields that lead back. Through a list, a map or an optional field a value can end.
fn contains_itself<'a>(
    item: &'a ast::TypeItem,
    scope: &TypeScope<'a>,
    wanted: &str,
    seen: &mut HashSet<&'a str>,
) -> bool {
    let mut waiting = vec![item];
    while let Some(item) = waiting.pop() {
        for field in &item.fields {
            let Some(ast::TypeRef { kind: TypeKind::Named(name, _), optional: false, .. }) = &field.kind
            else {
                continue;
            };
            if name.text == wanted {
                return true;
            }
            if seen.insert(&name.text) {
                waiting.extend(scope.item(&name.text));
            }
        }
    }
    false
}

/// Whose fields are read.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) name: &'a str,
    pub(super) lifecycles: &'a [ast::Lifecycle],
    /// Types hold plain values; entities have inputs and equations too.
    pub(super) entity: bool,
}

/// The fields of an entity or type, and the order in which to compute them.
pub(super) struct FieldsRead {
    pub(super) fields: Vec<Field>,
    pub(super) order: Vec<usize>,
}

pub(super) fn fields(
    context: &mut Context<'_>,
    data: &[ast::Data],
    scope: &TypeScope<'_>,
    owner: Owner<'_>,
) -> FieldsRead {
    if data.len() > FIELDS_MAX {
        context.report(
            Diagnostic::new(
                "L0005",
                data[FIELDS_MAX].span,
                format!("there are more than {FIELDS_MAX} fields here"),
            )
            .help("group some of them in a `type`"),
        );
        return FieldsRead { fields: Vec::new(), order: Vec::new() };
    }
    let mut reader = FieldReader {
        context,
        data,
        scope,
        owner,
        states: vec![Progress::Waiting; data.len()],
        order: Vec::new(),
        chain: 0,
    };
    for at in 0..data.len() {
        reader.visit(at);
    }
    let (states, order) = (reader.states, reader.order);
    // What could not be read is left out; an error has been reported, so nobody uses the order then.
    let mut fields = Vec::new();
    let mut places = HashMap::new();
    for (at, state) in states.into_iter().enumerate() {
        if let Progress::Done(Some(field)) = state {
            places.insert(at, fields.len());
            fields.push(*field);
        }
    }
    let order = order.iter().filter_map(|at| places.get(at).copied()).collect();
    let read = FieldsRead { fields, order };
    check_valid(context, data, &read.fields);
    same_attributes(context, data, &read.fields);
    read
}

#[derive(Clone)]
enum Progress {
    Waiting,
    Visiting,
    Done(Option<Box<Field>>),
}

struct FieldReader<'c, 'a, 'b> {
    context: &'c mut Context<'a>,
    data: &'b [ast::Data],
    scope: &'b TypeScope<'b>,
    owner: Owner<'b>,
    states: Vec<Progress>,
    order: Vec<usize>,
    /// How many equations wait for the one that is read.
    chain: usize,
}

impl FieldReader<'_, '_, '_> {
    fn visit(&mut self, at: usize) {
        if !matches!(self.states[at], Progress::Waiting) {
            return;
        }
        self.states[at] = Progress::Visiting;
        let field = self.field(at);
        if field.as_ref().is_some_and(|field| field.equation.is_some()) {
            self.order.push(at);
        }
        self.states[at] = Progress::Done(field.map(Box::new));
    }

    fn field(&mut self, at: usize) -> Option<Field> {
        let data = &self.data[at];
        let declared = match &data.kind {
            Some(kind) => Some(type_ref(self.context, kind, self.scope)?),
            None => None,
        };
        if !self.owner.entity && (data.role != Role::Stored || data.equation.is_some()) {
            self.context.report(
                Diagnostic::new("L0403", data.span, "a type holds plain values")
                    .help("put inputs and equations in the entity"),
            );
            return None;
        }
        if data.role == Role::Input && data.equation.is_some() {
            self.context.report(
                Diagnostic::new("L0403", data.span, "an input is given, so it has no equation").help(
                    format!("write `let {} = …` for a computed value that is not stored", data.name.text),
                ),
            );
            return None;
        }
        if data.role != Role::Stored
            && let Some(name) = &data.stored_as
        {
            self.context.report(
                Diagnostic::new("L0403", name.span, "what is not stored has no stored name")
                    .help("leave the `as` out"),
            );
        }
        let mut equation = None;
        let (mut kind, mut optional) = declared.clone().unwrap_or((Type::String, false));
        if let Some(written) = &data.equation {
            let typed = self.typed(written)?;
            match &declared {
                None => (kind, optional) = (typed.kind, typed.optional),
                Some((wanted, may_miss)) => {
                    if !assignable(&typed.kind, wanted) {
                        self.context.report(
                            Diagnostic::new(
                                "L0301",
                                written.span,
                                format!("this is a {}, not a {wanted}", typed.kind),
                            )
                            .other(data.kind.as_ref().map_or(data.span, |kind| kind.span), "declared here"),
                        );
                        return None;
                    }
                    optional = *may_miss || typed.optional;
                }
            }
            equation = Some(typed.expr);
        }
        if kind == Type::Zoned && data.role == Role::Stored {
            self.context.report(Diagnostic::new("L0301", data.span, "a time in a zone is not stored").help(
                format!(
                    "write `let {} = …` and use it in a template such as \"{{{}:%Y-%m}}\"",
                    data.name.text, data.name.text
                ),
            ));
            return None;
        }
        let mut checks = checks(self.context, data, &kind, optional);
        let empty = Value::List(Vec::new());
        if matches!(kind, Type::Set(_)) && checks_allow(&checks, &empty) {
            checks.default = Some(empty);
        }
        let attribute = data
            .stored_as
            .as_ref()
            .map_or_else(|| self.scope.naming.stored(&data.name.text), |name| name.text.clone());
        Some(Field {
            name: data.name.text.clone(),
            attribute,
            docs: data.docs.clone(),
            role: data.role,
            kind,
            optional,
            checks,
            equation,
            on_create: data.on_create,
        })
    }

    fn typed(&mut self, written: &ast::Expr) -> Option<Typed> {
        // What an equation needs comes first, so that its type and place in the order are known.
        let mut needed = Vec::new();
        mentioned(written, &mut needed);
        let mut known: Vec<(String, Type, bool, Checks)> = Vec::new();
        for name in &needed {
            let Some(at) = self.data.iter().position(|data| data.name.text == name.text) else { continue };
            if matches!(self.states[at], Progress::Visiting) {
                self.context.report(
                    Diagnostic::new("L0401", name.span, format!("`{}` needs itself", name.text))
                        .other(self.data[at].name.span, "computed here")
                        .note("an equation that goes round has no first value")
                        .help("give one of the fields a value of its own"),
                );
                return None;
            }
            if self.chain >= DEPTH_MAX {
                self.context.report(
                    Diagnostic::new(
                        "L0005",
                        name.span,
                        "this equation is the last of a chain that is too long",
                    )
                    .note(format!("each needs the next, more than {DEPTH_MAX} deep"))
                    .help("write the first of them above the others"),
                );
                return None;
            }
            self.chain += 1;
            self.visit(at);
            self.chain -= 1;
        }
        let done: Vec<&Field> = self
            .states
            .iter()
            .filter_map(|state| match state {
                Progress::Done(Some(field)) => Some(field.as_ref()),
                _ => None,
            })
            .collect();
        for field in done.iter().filter(|field| needed.iter().any(|name| name.text == field.name)) {
            let checks = effective_checks(field, &done);
            known.push((field.name.clone(), field.kind.clone(), field.optional, checks));
        }
        known.extend(lifecycle_fields(self.owner.lifecycles));
        let readable = self.data.iter().map(|data| data.name.text.as_str()).collect();
        let names =
            FieldNames { known: &known, declared: readable, owner: self.owner.name, scope: self.scope };
        typed(self.context, written, &names)
    }
}

/// A field's own checks, and what its equation makes certain besides.
pub(super) fn effective_checks(field: &Field, fields: &[&Field]) -> Checks {
    match &field.equation {
        Some(equation) if field.checks == Checks::default() => implied(equation, fields, 0),
        _ => field.checks.clone(),
    }
}

fn implied(equation: &Expr, fields: &[&Field], depth: usize) -> Checks {
    let nonempty = || Checks { nonempty: true, ..Checks::default() };
    let range = |min: i64, max: i64| Checks {
        range: Some(NumberRange { min: Some(min.into()), max: Some(max.into()), max_included: true }),
        ..Checks::default()
    };
    match equation {
        Expr::Field(name) if depth < crate::limits::DEPTH_MAX => {
            match fields.iter().find(|field| field.name == *name) {
                Some(Field { equation: Some(inner), checks, .. }) if *checks == Checks::default() => {
                    implied(inner, fields, depth + 1)
                }
                Some(field) => Checks { default: None, secret: false, valid: None, ..field.checks.clone() },
                None => Checks::default(),
            }
        }
        Expr::Template(template) if template.chars_min() > 0 => nonempty(),
        Expr::Call(Function::Sha256, _) => Checks { pattern: Some("[0-9a-f]{64}".into()), ..nonempty() },
        Expr::Call(Function::Host | Function::PslCore, _) => Checks { lower: true, ..nonempty() },
        Expr::Call(Function::Lower, inner) => {
            Checks { lower: true, upper: false, ..implied(inner, fields, depth + 1) }
        }
        Expr::Call(Function::IsoWeek, _) => range(1, 53),
        Expr::Call(Function::IsoYear, _) => range(1000, 9999),
        _ => Checks::default(),
    }
}

/// The attributes lifecycles keep their states in, as fields of an expression.
pub(super) fn lifecycle_fields(lifecycles: &[ast::Lifecycle]) -> Vec<(String, Type, bool, Checks)> {
    lifecycles
        .iter()
        .map(|lifecycle| match &lifecycle.held_in {
            Some(attribute) => {
                (attribute.text.clone(), Type::String, false, Checks { nonempty: true, ..Checks::default() })
            }
            None => {
                let states = lifecycle.states.iter().map(|state| state.name.text.clone()).collect();
                (lifecycle.name.text.clone(), Type::Choice(states), false, Checks::default())
            }
        })
        .collect()
}

fn mentioned<'e>(expression: &'e ast::Expr, names: &mut Vec<&'e ast::Name>) {
    match &expression.kind {
        ExprKind::Name(name) => names.push(name),
        ExprKind::Member(of, _) | ExprKind::Not(of) => mentioned(of, names),
        ExprKind::Call { receiver, arguments, .. } => {
            receiver.iter().for_each(|receiver| mentioned(receiver, names));
            arguments.iter().for_each(|argument| mentioned(argument, names));
        }
        ExprKind::Literal(Literal { kind: LiteralKind::Text(template), .. }) => {
            names.extend(template.holes());
        }
        ExprKind::Literal(_) => {}
        ExprKind::Binary(_, left, right) => {
            mentioned(left, names);
            mentioned(right, names);
        }
    }
}

/// The fields an expression may mention.
pub(super) struct FieldNames<'a> {
    pub(super) known: &'a [(String, Type, bool, Checks)],
    /// Declared, though perhaps with an error of their own.
    pub(super) declared: Vec<&'a str>,
    pub(super) owner: &'a str,
    pub(super) scope: &'a TypeScope<'a>,
}

impl FieldNames<'_> {
    fn find(&self, name: &str) -> Option<&(String, Type, bool, Checks)> {
        self.known.iter().find(|(known, ..)| known == name)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) expr: Expr,
    pub(super) kind: Type,
    pub(super) optional: bool,
}

impl Typed {
    fn sure(expr: Expr, kind: Type) -> Self {
        Self { expr, kind, optional: false }
    }
}

pub(super) fn typed(context: &mut Context<'_>, written: &ast::Expr, names: &FieldNames<'_>) -> Option<Typed> {
    match &written.kind {
        ExprKind::Name(name) if name.text == "now" && names.find("now").is_none() => {
            Some(Typed::sure(Expr::Now, Type::Instant(Precision::Micros)))
        }
        ExprKind::Name(name) => {
            let (_, kind, optional, _) = lookup(context, name, names)?;
            Some(Typed { expr: Expr::Field(name.text.clone()), kind, optional })
        }
        ExprKind::Member(of, name) => member(context, of, name, names),
        ExprKind::Literal(literal) => literal_expr(context, literal, names),
        ExprKind::Not(inner) => {
            let inner = typed_as(context, inner, names, &Type::Bool)?;
            Some(Typed::sure(Expr::Not(Box::new(inner.expr)), Type::Bool))
        }
        ExprKind::Binary(operator, left, right) => binary(context, *operator, left, right, names, written),
        ExprKind::Call { receiver, function, arguments } => {
            call(context, receiver.as_deref(), function, arguments, names, written)
        }
    }
}

fn lookup(
    context: &mut Context<'_>,
    name: &ast::Name,
    names: &FieldNames<'_>,
) -> Option<(String, Type, bool, Checks)> {
    if let Some(found) = names.find(&name.text) {
        context.refer(SymbolKind::Field, &format!("{}.{}", names.owner, name.text), name.span);
        context.refer(SymbolKind::Lifecycle, &format!("{}.{}", names.owner, name.text), name.span);
        return Some(found.clone());
    }
    // A field with an error of its own has been reported where it stands.
    if !names.declared.contains(&name.text.as_str()) {
        let known: Vec<&str> = names
            .known
            .iter()
            .map(|(name, ..)| name.as_str())
            .chain(names.declared.iter().copied())
            .collect();
        context.unknown("field", name, known);
    }
    None
}

fn typed_as(
    context: &mut Context<'_>,
    written: &ast::Expr,
    names: &FieldNames<'_>,
    wanted: &Type,
) -> Option<Typed> {
    let typed = typed(context, written, names)?;
    if assignable(&typed.kind, wanted) {
        return Some(typed);
    }
    context.report(
        Diagnostic::new("L0301", written.span, format!("this is a {}, not a {wanted}", typed.kind))
            .help("compare it with something, as in `a > b`"),
    );
    None
}

fn member(
    context: &mut Context<'_>,
    of: &ast::Expr,
    name: &ast::Name,
    names: &FieldNames<'_>,
) -> Option<Typed> {
    let of_typed = typed(context, of, names)?;
    let (kind, optional) = match &of_typed.kind {
        Type::Json => (Type::Json, true),
        Type::Named(type_name) => {
            let item = names.scope.item(type_name)?;
            let Some(field) = item.fields.iter().find(|field| field.name.text == name.text) else {
                context.unknown("field", name, item.fields.iter().map(|field| field.name.text.as_str()));
                return None;
            };
            context.refer(SymbolKind::Field, &format!("{type_name}.{}", name.text), name.span);
            type_ref(context, field.kind.as_ref()?, names.scope)?
        }
        other => {
            context.report(
                Diagnostic::new("L0301", name.span, format!("a {other} has no fields"))
                    .note("functions are called with brackets: `x.len()`"),
            );
            return None;
        }
    };
    // Maps are kept under their stored names.
    let stored = names.scope.naming.stored(&name.text);
    let expr = Expr::Member(Box::new(of_typed.expr), stored);
    Some(Typed { expr, kind, optional: optional || of_typed.optional })
}

fn literal_expr(context: &mut Context<'_>, literal: &Literal, names: &FieldNames<'_>) -> Option<Typed> {
    let (value, kind) = match &literal.kind {
        LiteralKind::Number(text) => {
            let kind = if text.contains('.') { Type::Decimal } else { Type::Int };
            (Value::Number(text.parse().ok()?), kind)
        }
        LiteralKind::Duration(millis) => {
            (Value::Duration(SignedDuration::from_millis(*millis)), Type::Duration)
        }
        LiteralKind::Bool(value) => (Value::Bool(*value), Type::Bool),
        LiteralKind::Bytes(bytes) => (Value::from(i64::try_from(*bytes).ok()?), Type::Int),
        LiteralKind::Text(template) => {
            if let Some(text) = template.plain() {
                return Some(Typed::sure(Expr::Template(Template::constant(&text)), Type::String));
            }
            let (template, optional) = self::template(context, template, names)?;
            return Some(Typed { expr: Expr::Template(template), kind: Type::String, optional });
        }
        LiteralKind::Percent(_) | LiteralKind::Money(_) | LiteralKind::EmptyList => {
            context.report(
                Diagnostic::new("L0301", literal.span, "this value cannot stand in an expression")
                    .note("numbers, texts, durations, `true` and `false` can"),
            );
            return None;
        }
    };
    Some(Typed::sure(Expr::Literal(value), kind))
}

/// A template with its fields found and its formats fitted. The second value: whether a field may be missing.
pub(super) fn template(
    context: &mut Context<'_>,
    written: &ast::Template,
    names: &FieldNames<'_>,
) -> Option<(Template, bool)> {
    let mut parts = Vec::new();
    let (mut optional, mut failed) = (false, false);
    for part in &written.parts {
        match part {
            TemplatePart::Text(text) => parts.push(Part::Text(text.clone())),
            TemplatePart::Hole { name, format, span } => {
                match hole(context, name, format.as_ref(), *span, names) {
                    Some((hole, may_miss)) => {
                        optional |= may_miss;
                        parts.push(Part::Hole(hole));
                    }
                    None => failed = true,
                }
            }
        }
    }
    if let Some(fit) =
        parts.iter().position(|part| matches!(part, Part::Hole(Hole { format: Format::Fit, .. })))
        && fit + 1 != parts.len()
    {
        context.report(
            Diagnostic::new("L0109", written.span, "a `fit` hole ends its template")
                .note("the digest it may end in needs the end of the key to itself")
                .help("move it to the end"),
        );
        return None;
    }
    (!failed).then_some((Template { parts, bytes_limit: None }, optional))
}

fn hole(
    context: &mut Context<'_>,
    name: &ast::Name,
    format: Option<&ast::Name>,
    span: crate::span::Span,
    names: &FieldNames<'_>,
) -> Option<(Hole, bool)> {
    let (_, kind, optional, checks) = lookup(context, name, names)?;
    let parsed = match format {
        None => Format::Plain,
        Some(format) => match Format::parse(&format.text) {
            Ok(parsed) => parsed,
            Err(why) => {
                context.report(
                    Diagnostic::new("L0104", format.span, format!("`{}` is not a format", format.text))
                        .note(why),
                );
                return None;
            }
        },
    };
    match hole_shape(&kind, &checks, &parsed) {
        Ok(shape) => Some((Hole { field: name.text.clone(), kind, format: parsed, shape }, optional)),
        Err(why) => {
            let place = format.map_or(span, |format| format.span);
            context.report(
                Diagnostic::new("L0104", place, format!("`{}` cannot be written like this", name.text))
                    .note(why),
            );
            None
        }
    }
}

fn binary(
    context: &mut Context<'_>,
    operator: BinaryOp,
    left: &ast::Expr,
    right: &ast::Expr,
    names: &FieldNames<'_>,
    whole: &ast::Expr,
) -> Option<Typed> {
    if let BinaryOp::And | BinaryOp::Or = operator {
        let (a, b) =
            (typed_as(context, left, names, &Type::Bool), typed_as(context, right, names, &Type::Bool));
        return Some(Typed::sure(Expr::Binary(operator, Box::new(a?.expr), Box::new(b?.expr)), Type::Bool));
    }
    let (a, b) = (typed(context, left, names), typed(context, right, names));
    let (a, b) = (a?, b?);
    let optional = a.optional || b.optional;
    let kind = match operator {
        BinaryOp::Add | BinaryOp::Subtract => sum_type(&a.kind, &b.kind, operator),
        _ => comparable(&a.kind, &b.kind).then_some(Type::Bool),
    };
    let Some(kind) = kind else {
        let what =
            if matches!(operator, BinaryOp::Add | BinaryOp::Subtract) { "added up" } else { "compared" };
        context.report(
            Diagnostic::new(
                "L0301",
                whole.span,
                format!("this {} and this {} cannot be {what}", a.kind, b.kind),
            )
            .note("numbers go with numbers, texts with texts, moments with moments"),
        );
        return None;
    };
    let optional = optional && kind != Type::Bool;
    Some(Typed { expr: Expr::Binary(operator, Box::new(a.expr), Box::new(b.expr)), kind, optional })
}

fn is_moment(kind: &Type) -> bool {
    matches!(kind, Type::Instant(_) | Type::Zoned | Type::Epoch)
}

fn comparable(a: &Type, b: &Type) -> bool {
    a == b
        || (a.is_text() && b.is_text())
        || (a.is_number() && b.is_number())
        || (is_moment(a) && is_moment(b))
}

fn sum_type(a: &Type, b: &Type, operator: BinaryOp) -> Option<Type> {
    match (a, b) {
        (a, Type::Duration) if is_moment(a) => Some(Type::Instant(Precision::Micros)),
        (Type::Date, Type::Duration) => Some(Type::Date),
        (a, b) if is_moment(a) && is_moment(b) && operator == BinaryOp::Subtract => Some(Type::Duration),
        (a, b) if a == b && matches!(a, Type::Int | Type::Float | Type::Decimal | Type::Duration) => {
            Some(a.clone())
        }
        (a, b) if a.is_number() && b.is_number() => Some(Type::Decimal),
        _ => None,
    }
}

fn call(
    context: &mut Context<'_>,
    receiver: Option<&ast::Expr>,
    function: &ast::Name,
    arguments: &[ast::Expr],
    names: &FieldNames<'_>,
    whole: &ast::Expr,
) -> Option<Typed> {
    let name = function.text.as_str();
    if !Function::NAMES.contains(&name) {
        context.report(
            Diagnostic::new("L0309", function.span, format!("there is no function called `{name}`"))
                .did_you_mean(name, Function::NAMES),
        );
        return None;
    }
    let wrong_call = |context: &mut Context<'_>, form: &str| {
        context.report(
            Diagnostic::new("L0309", whole.span, format!("`{name}` is called differently"))
                .help(format!("write: {form}")),
        );
        None
    };
    // `sha256(x)` and `x.sha256()` are the same; `floor` and `in` take one argument more.
    let (of, extra) = match (receiver, arguments) {
        (Some(of), extra) => (of, extra),
        (None, [of, extra @ ..]) => (of, extra),
        (None, []) => return wrong_call(context, &format!("x.{name}()")),
    };
    let of = typed(context, of, names)?;
    let (function, kind, fits) = match (name, extra) {
        (
            "floor",
            [
                ast::Expr {
                    kind: ExprKind::Literal(Literal { kind: LiteralKind::Duration(millis), .. }),
                    ..
                },
            ],
        ) if *millis > 0 => {
            let kind = if of.kind == Type::Epoch { Type::Epoch } else { Type::Instant(Precision::Micros) };
            (Function::Floor(*millis), kind, is_moment(&of.kind))
        }
        ("floor", _) => return wrong_call(context, "x.floor(1h)"),
        (
            "in",
            [
                ast::Expr {
                    kind: ExprKind::Literal(Literal { kind: LiteralKind::Text(zone), span }), ..
                },
            ],
        ) => {
            let zone = zone.plain().unwrap_or_default();
            if jiff::tz::TimeZone::get(&zone).is_err() {
                context.report(
                    Diagnostic::new("L0310", *span, format!("there is no time zone called `{zone}`"))
                        .note("zones have names such as Asia/Tokyo, Europe/Stockholm, UTC"),
                );
                return None;
            }
            (Function::In(zone), Type::Zoned, is_moment(&of.kind))
        }
        ("in", _) => return wrong_call(context, "x.in(\"Asia/Tokyo\")"),
        (_, [_, ..]) => return wrong_call(context, &format!("x.{name}()")),
        ("len", []) => {
            let fits = of.kind.is_text()
                || of.kind.member().is_some()
                || matches!(of.kind, Type::Bytes | Type::Json);
            (Function::Len, Type::Int, fits)
        }
        ("lower", []) => (Function::Lower, Type::String, of.kind.is_text()),
        ("host", []) => (Function::Host, Type::String, of.kind.is_text()),
        ("psl_core", []) => (Function::PslCore, Type::String, of.kind.is_text()),
        ("sha256", []) => (Function::Sha256, Type::String, of.kind.is_text()),
        (name, []) => {
            let function = if name == "iso_week" { Function::IsoWeek } else { Function::IsoYear };
            let fits = is_moment(&of.kind) || matches!(of.kind, Type::Date | Type::Datetime);
            (function, Type::Int, fits)
        }
    };
    if !fits {
        let for_what = match name {
            "floor" | "in" => "an instant",
            "len" => "a text, a list, a set, a map or bytes",
            "iso_week" | "iso_year" => "a date or an instant",
            _ => "a text",
        };
        context.report(
            Diagnostic::new("L0301", whole.span, format!("`{name}` is not for a {}", of.kind))
                .note(format!("it is for {for_what}")),
        );
        return None;
    }
    // A digest takes what is there; a URL may have no host, a name no public suffix.
    let optional = match &function {
        Function::Sha256 => match &of.expr {
            Expr::Template(template) => {
                template.holes().next().is_some()
                    && template
                        .holes()
                        .all(|hole| names.find(&hole.field).is_some_and(|(_, _, optional, _)| *optional))
            }
            _ => of.optional,
        },
        Function::PslCore => true,
        Function::Host => of.optional || of.kind != Type::Url,
        _ => of.optional,
    };
    Some(Typed { expr: Expr::Call(function, Box::new(of.expr)), kind, optional })
}

/// Whether a value of one type may stand where another is wanted.
pub(super) fn assignable(from: &Type, to: &Type) -> bool {
    from == to
        || matches!(
            (from, to),
            (Type::Int, Type::Float | Type::Decimal | Type::Sequence) | (Type::Decimal, Type::Float)
        )
        || (is_moment(from) && matches!(to, Type::Instant(_) | Type::Epoch))
        || (from.is_text() && *to == Type::String)
        || *to == Type::Json
        || *from == Type::Json
}

pub(super) fn type_ref(
    context: &mut Context<'_>,
    written: &ast::TypeRef,
    scope: &TypeScope<'_>,
) -> Option<(Type, bool)> {
    let kind = match &written.kind {
        TypeKind::List(inner) => {
            let (kind, optional) = type_ref(context, inner, scope)?;
            Type::List(Box::new(Of { kind, optional }))
        }
        TypeKind::Map(inner) => {
            let (kind, optional) = type_ref(context, inner, scope)?;
            if optional {
                context.report(
                    Diagnostic::new("L0301", inner.span, "what a map holds is never missing")
                        .note("a name that is in the map has a value; one that has none is not in it")
                        .help(format!("write `map<string, {kind}>`"))
                        .fix(inner.span, kind.to_string()),
                );
            }
            Type::Map(Box::new(Of { kind, optional: false }))
        }
        TypeKind::Set(inner) => return set(context, written, inner, scope),
        TypeKind::Choice(choices) => {
            let mut texts: Vec<String> = Vec::new();
            for choice in choices {
                match choice.plain() {
                    Some(text) if texts.contains(&text) => context.report(
                        Diagnostic::new("L0202", choice.span, format!("`{text}` is listed twice"))
                            .help("keep one of them"),
                    ),
                    Some(text) => texts.push(text),
                    None => {
                        context.report(
                            Diagnostic::new("L0007", choice.span, "a choice has no holes")
                                .help("write `\\{` for the character itself"),
                        );
                        return None;
                    }
                }
            }
            Type::Choice(texts)
        }
        TypeKind::Named(name, precise) => {
            let precise = precise.as_ref().map(|name| name.text.as_str());
            match (name.text.as_str(), precise) {
                ("string", _) => Type::String,
                ("int", _) => Type::Int,
                ("float", _) => Type::Float,
                ("decimal", _) => Type::Decimal,
                ("bool", _) => Type::Bool,
                ("bytes", _) => Type::Bytes,
                ("json", _) => Type::Json,
                ("uuid", precise) => Type::Uuid { v4: precise.is_some() },
                ("url", _) => Type::Url,
                ("date", _) => Type::Date,
                ("datetime", _) => Type::Datetime,
                ("duration", _) => Type::Duration,
                ("instant", Some("ms")) => Type::Instant(Precision::Millis),
                ("instant", Some("us")) => Type::Instant(Precision::Micros),
                ("instant", _) => Type::Instant(Precision::Seconds),
                ("sequence", _) => Type::Sequence,
                ("epoch", _) => Type::Epoch,
                (other, _) if scope.item(other).is_some() => {
                    context.refer(SymbolKind::Type, other, name.span);
                    Type::Named(other.to_owned())
                }
                (other, _) => {
                    match called_elsewhere(other) {
                        Some(here) => context.report(
                            Diagnostic::new("L0201", name.span, format!("there is no type called `{other}`"))
                                .help(format!("write {here}")),
                        ),
                        None => {
                            let mut known: Vec<&str> = scope.types.keys().copied().collect();
                            known.sort_unstable();
                            context.unknown("type", name, known.into_iter().chain(Type::NAMES));
                        }
                    }
                    return None;
                }
            }
        }
    };
    Some((kind, written.optional))
}

/// A set is never missing: without members it is not there.
fn set(
    context: &mut Context<'_>,
    written: &ast::TypeRef,
    inner: &ast::TypeRef,
    scope: &TypeScope<'_>,
) -> Option<(Type, bool)> {
    let (kind, may_miss) = type_ref(context, inner, scope)?;
    if !kind.fits_in_set() {
        let help = match &kind {
            Type::Float => "write `set<decimal>`: two floats are seldom equal".to_owned(),
            Type::Sequence => "write `set<int>`".to_owned(),
            kind => format!("write `[{kind}]` for a list, which holds anything"),
        };
        context.report(
            Diagnostic::new("L0301", inner.span, format!("a set cannot hold a {kind}"))
                .note("DynamoDB's sets are of texts, numbers or bytes")
                .help(help),
        );
        return None;
    }
    if may_miss || written.optional {
        context.report(
            Diagnostic::new("L0301", written.span, "a set and its members are never missing")
                .note("a set without members is not stored, and is read back as empty")
                .help(format!("write `set<{kind}>`"))
                .fix(written.span, format!("set<{kind}>")),
        );
    }
    Some((Type::Set(Box::new(kind)), false))
}

/// What is meant by the name of a type of another language.
fn called_elsewhere(name: &str) -> Option<&'static str> {
    Some(match name.to_lowercase().as_str() {
        "number" | "numeric" => {
            "`int` for whole numbers, `decimal` for exact ones, `float` for measured ones"
        }
        "integer" | "long" | "short" | "bigint" | "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32"
        | "u64" | "int32" | "int64" | "usize" => "`int`",
        "double" | "real" | "f32" | "f64" | "float32" | "float64" => "`float`",
        "money" | "currency" | "bigdecimal" => "`decimal`",
        "str" | "text" | "varchar" | "char" | "s" => "`string`",
        "boolean" => "`bool`",
        "binary" | "blob" | "buffer" | "bytea" | "b" => "`bytes`",
        "timestamp" | "time" | "moment" | "datetimeoffset" | "timestamptz" => {
            "`instant` for a moment kept as text, `epoch` for one kept in Unix seconds"
        }
        "any" | "object" | "document" | "jsonb" | "unknown" | "value" => {
            "`json` for any document, or give its fields a name with `type NAME { … }`"
        }
        "set" | "hashset" | "ss" | "ns" | "bs" => {
            "`set<string>` for a set of strings, `set<int>` for one of numbers"
        }
        "map" | "dict" | "dictionary" | "hashmap" | "record" => {
            "`map<string, int>` for a map from texts to numbers, or give its fields a name with `type NAME { … }`"
        }
        "list" | "array" | "vec" => "`[string]` for a list of strings, `[int]` for one of numbers",
        "enum" => "`\"a\" | \"b\"` for one of some texts",
        "option" | "optional" | "nullable" => "`string?` for a string that may be missing",
        "guid" => "`uuid`",
        "uri" => "`url`",
        "interval" | "timedelta" => "`duration`",
        "serial" | "autoincrement" => "`sequence`",
        _ => return None,
    })
}

fn checks(context: &mut Context<'_>, data: &ast::Data, kind: &Type, optional: bool) -> Checks {
    let mut checks = Checks::default();
    for check in &data.checks {
        let text = *kind == Type::String || *kind == Type::Url;
        let sized = text || kind.member().is_some() || *kind == Type::Bytes;
        let number = kind.is_number() || matches!(kind, Type::Duration | Type::Epoch);
        let (fits, wants) = match &check.kind {
            CheckKind::Match(_) | CheckKind::Lower | CheckKind::Upper => (text, "a string"),
            CheckKind::Len(_) | CheckKind::Nonempty => (sized, "a string, a list, a set, a map or bytes"),
            CheckKind::In(_) | CheckKind::Positive => (number, "a number"),
            CheckKind::Secret | CheckKind::Default(_) | CheckKind::Valid { .. } => (true, ""),
        };
        if !fits {
            context.report(
                Diagnostic::new(
                    "L0304",
                    check.span,
                    format!("this check is for {wants}, and `{}` is a {kind}", data.name.text),
                )
                .help("leave the check out, or change the type"),
            );
            continue;
        }
        match &check.kind {
            CheckKind::Match(pattern) => match regex_lite::Regex::new(&format!("^(?:{pattern})$")) {
                Ok(_) => checks.pattern = Some(pattern.as_str().into()),
                Err(error) => context.report(
                    Diagnostic::new("L0305", check.span, "this is not a regular expression")
                        .note(error.to_string()),
                ),
            },
            CheckKind::Lower => checks.lower = true,
            CheckKind::Upper => checks.upper = true,
            CheckKind::Nonempty => checks.nonempty = true,
            CheckKind::Positive => checks.positive = true,
            CheckKind::Secret => checks.secret = true,
            CheckKind::In(range) => checks.range = number_range(context, range, kind),
            CheckKind::Len(range) => {
                if let Some(found) = number_range(context, range, &Type::Int) {
                    let whole = |n: Number| n.to_i64().and_then(|n| usize::try_from(n).ok());
                    let max = found
                        .max
                        .and_then(whole)
                        .map(|max| if found.max_included { max } else { max.saturating_sub(1) });
                    checks.len = Some((found.min.and_then(whole).unwrap_or(0), max));
                }
            }
            CheckKind::Default(literal) => match literal_value(literal, kind) {
                Some(value) if checks_allow(&checks, &value) => checks.default = Some(value),
                Some(_) => context.report(
                    Diagnostic::new("L0302", literal.span, "the default breaks the field's own checks")
                        .help("change the default or the check"),
                ),
                None => context.report(
                    Diagnostic::new("L0302", literal.span, format!("this is not a {kind}"))
                        .other(data.kind.as_ref().map_or(data.span, |kind| kind.span), "the field's type"),
                ),
            },
            CheckKind::Valid { lasts, from } => {
                let LiteralKind::Duration(millis) = lasts.kind else {
                    context.report(
                        Diagnostic::new("L0404", lasts.span, "this is not a duration")
                            .help("write: valid 7d from FIELD"),
                    );
                    continue;
                };
                if matches!(kind, Type::Set(_)) {
                    context.report(
                        Diagnostic::new("L0404", check.span, "a set has no time of its own")
                            .note("when that is over a field is missing, and a set never is")
                            .help(format!(
                                "write a list: `{}: [{}]?`",
                                data.name.text,
                                kind.member().unwrap_or(kind)
                            )),
                    );
                } else if !optional {
                    context.report(
                        Diagnostic::new(
                            "L0404",
                            check.span,
                            format!("`{}` goes away, so it may be missing", data.name.text),
                        )
                        .help(format!("make it optional: `{}: {kind}?`", data.name.text)),
                    );
                }
                checks.valid = Some((millis, from.text.clone()));
            }
        }
    }
    if checks.lower && checks.upper {
        context.report(
            Diagnostic::new(
                "L0303",
                data.span,
                format!("nothing is both lower and upper: `{}`", data.name.text),
            )
            .help("keep one of them"),
        );
    }
    checks
}

fn checks_allow(checks: &Checks, value: &Value) -> bool {
    let allows = |length: usize| {
        !(checks.nonempty && length == 0)
            && checks.len.is_none_or(|(min, max)| length >= min && max.is_none_or(|max| length <= max))
    };
    match value {
        Value::Number(number) => {
            checks.range.is_none_or(|range| range.contains(number))
                && (!checks.positive || *number > Number::from(0))
        }
        Value::Text(text) => allows(text.chars().count()),
        Value::List(members) => allows(members.len()),
        Value::Map(members) => allows(members.len()),
        _ => true,
    }
}

fn number_range(context: &mut Context<'_>, range: &ast::Range, kind: &Type) -> Option<NumberRange> {
    let mut end = |literal: &Option<Literal>| -> Result<Option<Number>, ()> {
        let Some(literal) = literal else { return Ok(None) };
        let value = literal_value(literal, kind);
        let number = match value {
            Some(Value::Number(number)) => Some(number),
            Some(Value::Float(float)) => crate::value::float_number(float),
            Some(Value::Duration(duration)) => Some(crate::value::duration_number(duration)),
            _ => None,
        };
        if number.is_none() {
            context.report(
                Diagnostic::new("L0303", literal.span, format!("this is not a {kind}"))
                    .note("the ends of a range have the type of the field"),
            );
            return Err(());
        }
        Ok(number)
    };
    let (min, max) = (end(&range.from).ok()?, end(&range.to).ok()?);
    let empty = min.zip(max).is_some_and(|(min, max)| if range.inclusive { min > max } else { min >= max });
    if empty {
        context.report(
            Diagnostic::new("L0303", range.span, "nothing is in this range")
                .help("write the smaller number first"),
        );
        return None;
    }
    if min.is_none() && max.is_none() {
        context.report(
            Diagnostic::new("L0303", range.span, "this range says nothing").help("give it a start or an end"),
        );
        return None;
    }
    Some(NumberRange { min, max, max_included: range.inclusive })
}

/// A literal as a value of a type, if it is one.
pub(super) fn literal_value(literal: &Literal, kind: &Type) -> Option<Value> {
    match (&literal.kind, kind) {
        (LiteralKind::Number(text), Type::Int | Type::Sequence | Type::Epoch) => {
            let number: Number = text.parse().ok()?;
            number.to_i64().map(Value::from)
        }
        (LiteralKind::Number(text), Type::Decimal) => Some(Value::Number(text.parse().ok()?)),
        (LiteralKind::Number(text), Type::Float) => Some(Value::Float(text.parse().ok()?)),
        (LiteralKind::Duration(millis), Type::Duration) => {
            Some(Value::Duration(SignedDuration::from_millis(*millis)))
        }
        (LiteralKind::Bool(value), Type::Bool) => Some(Value::Bool(*value)),
        (LiteralKind::EmptyList, Type::List(_) | Type::Set(_)) => Some(Value::List(Vec::new())),
        (LiteralKind::EmptyList, Type::Map(_)) => Some(Value::Map(BTreeMap::new())),
        (LiteralKind::Text(template), kind) => {
            let text = template.plain()?;
            match kind {
                Type::String => Some(Value::Text(text)),
                Type::Url => text.contains("://").then_some(Value::Text(text)),
                Type::Choice(choices) => choices.contains(&text).then_some(Value::Text(text)),
                Type::Instant(_) => Some(Value::Instant(text.parse().ok()?)),
                Type::Date => Some(Value::Date(text.parse().ok()?)),
                Type::Datetime => Some(Value::Datetime(text.parse().ok()?)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `valid 7d from completed_at`: that field is a moment.
fn check_valid(context: &mut Context<'_>, data: &[ast::Data], fields: &[Field]) {
    for item in data {
        for check in &item.checks {
            let CheckKind::Valid { from, .. } = &check.kind else { continue };
            match fields.iter().find(|field| field.name == from.text) {
                Some(field) if is_moment(&field.kind) && field.is_stored() => {}
                Some(field) => context.report(
                    Diagnostic::new(
                        "L0404",
                        from.span,
                        format!("`{}` is not a stored moment but a {}", from.text, field.kind),
                    )
                    .help("count from an instant that is stored"),
                ),
                None if data.iter().any(|other| other.name.text == from.text) => {}
                None => context.unknown("field", from, fields.iter().map(|field| field.name.as_str())),
            }
        }
    }
}

fn same_attributes(context: &mut Context<'_>, data: &[ast::Data], fields: &[Field]) {
    for (at, field) in fields.iter().enumerate().filter(|(_, field)| field.is_stored()) {
        let other = fields[..at].iter().find(|other| other.is_stored() && other.attribute == field.attribute);
        let Some(other) = other.filter(|other| other.name != field.name) else { continue };
        let span = |name: &str| {
            data.iter()
                .find(|item| item.name.text == name)
                .map_or_else(Default::default, |item| item.name.span)
        };
        context.report(
            Diagnostic::new(
                "L0203",
                span(&field.name),
                format!("two fields are stored as `{}`", field.attribute),
            )
            .other(span(&other.name), "the other is here")
            .help("give one of them another stored name with `as`"),
        );
    }
}
