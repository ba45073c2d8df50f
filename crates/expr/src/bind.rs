//! A tree and a request's placeholders to a bound expression.
//!
//! Checks come in DynamoDB's order: what the tree alone shows (see `survey`); then, condition by condition,
//! placeholders, number of operands, operands that must differ, types. An update is checked as a whole at
//! each of those stages instead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use larder_model::limits::{ATTRIBUTE_NAME_BYTES_MAX, EXPRESSION_VALUES_BYTES_MAX, PLACEHOLDER_BYTES_MAX};
use larder_model::{AttributeType, AttributeValue, Path, Step};

use crate::ast;
use crate::build::{self, check_changes, check_overlaps};
use crate::key_condition::key_condition;
use crate::survey::{Function, Survey, check_path, index};
use crate::{
    Comparator, Condition, Error, ExpressionKind, Fault, KeyCondition, Operand, PlaceholderFault,
    PlaceholderMap, Projection, SetOperand, SetValue, Update, parse,
};

/// One request's placeholders. It remembers which were used, because one that is not is an error.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    names: Vec<Placeholder<Arc<str>>>,
    values: Vec<Placeholder<Arc<AttributeValue>>>,
}

/// In order of `key`.
#[derive(Clone, Debug)]
struct Placeholder<T> {
    key: String,
    meaning: T,
    used: bool,
}

impl Scope {
    pub fn new(
        names: Option<BTreeMap<String, String>>,
        values: Option<BTreeMap<String, AttributeValue>>,
    ) -> Result<Self, Error> {
        let mut names: Vec<Placeholder<Arc<str>>> = placeholders(names, '#', PlaceholderMap::Names)?;
        for Placeholder { key, meaning, .. } in &names {
            let fault = match meaning.len() {
                0 => PlaceholderFault::EmptyName(key.clone()),
                1..=ATTRIBUTE_NAME_BYTES_MAX => continue,
                _ => PlaceholderFault::LongName(key.clone()),
            };
            return Err(Error::Placeholder { map: PlaceholderMap::Names, fault });
        }
        share(&mut names);
        let values: Vec<Placeholder<Arc<AttributeValue>>> =
            placeholders(values, ':', PlaceholderMap::Values)?;
        let bytes: usize = values.iter().map(|value| value.key.len() + value.meaning.size()).sum();
        if bytes > EXPRESSION_VALUES_BYTES_MAX {
            return Err(Error::ValuesTooLarge);
        }
        Ok(Self { names, values })
    }

    pub fn condition(&mut self, text: &str) -> Result<Condition, Error> {
        self.read_condition(text).map_err(invalid(ExpressionKind::Condition))
    }

    pub fn filter(&mut self, text: &str) -> Result<Condition, Error> {
        self.read_condition(text).map_err(invalid(ExpressionKind::Filter))
    }

    pub fn update(&mut self, text: &str) -> Result<Update, Error> {
        self.read_update(text).map_err(invalid(ExpressionKind::Update))
    }

    pub fn projection(&mut self, text: &str) -> Result<Projection, Error> {
        self.read_projection(text).map_err(invalid(ExpressionKind::Projection))
    }

    pub fn key_condition(&mut self, text: &str) -> Result<KeyCondition, Error> {
        let condition = self.read_condition(text);
        condition.and_then(key_condition).map_err(invalid(ExpressionKind::KeyCondition))
    }

    /// Refuses placeholders that no expression used.
    pub fn finish(self) -> Result<(), Error> {
        check_used(self.names, PlaceholderMap::Names)?;
        check_used(self.values, PlaceholderMap::Values)
    }

    fn read_condition(&mut self, text: &str) -> Result<Condition, Fault> {
        let tree = parse::condition(text)?;
        Survey::default().condition(&tree)?;
        self.bind_condition(&tree).map(|condition| *condition)
    }

    fn read_update(&mut self, text: &str) -> Result<Update, Fault> {
        let tree = parse::update(text)?;
        Survey::default().update(&tree)?;
        UpdateBinder { scope: self, undefined: None, misfit: None }.bind(&tree)
    }

    fn read_projection(&mut self, text: &str) -> Result<Projection, Fault> {
        let tree = parse::projection(text)?;
        tree.iter().try_for_each(check_path)?;
        let paths = tree.iter().map(|path| self.path(path)).collect::<Result<Vec<_>, _>>()?;
        check_overlaps(&paths.iter().collect::<Vec<_>>())?;
        Ok(Projection { paths })
    }

    fn name(&mut self, name: ast::Name<'_>) -> Result<Arc<str>, Fault> {
        match name {
            ast::Name::Word(word) => Ok(word.into()),
            ast::Name::Placeholder(key) => match look_up(&mut self.names, key) {
                Some(meaning) => Ok(Arc::clone(meaning)),
                None => Err(Fault::UndefinedName(key.to_owned())),
            },
        }
    }

    fn value(&mut self, key: &str) -> Result<Arc<AttributeValue>, Fault> {
        match look_up(&mut self.values, key) {
            Some(meaning) => Ok(Arc::clone(meaning)),
            None => Err(Fault::UndefinedValue(key.to_owned())),
        }
    }

    fn path(&mut self, path: &ast::Path<'_>) -> Result<Path, Fault> {
        let root = self.name(path.root)?;
        let step = |step: &ast::Step<'_>| match step {
            ast::Step::Field(name) => self.name(*name).map(Step::Field),
            ast::Step::Index(digits) => index(digits).map(Step::Index),
        };
        let steps = path.steps.iter().map(step).collect::<Result<_, _>>()?;
        Ok(Path { root, steps })
    }

    /// Recurses as deep as the condition nests, so it keeps little on the stack: whole conditions stay in
    /// `leaf` and behind boxes.
    fn bind_condition(&mut self, tree: &ast::Condition<'_>) -> Result<Box<Condition>, Fault> {
        match tree.bare() {
            ast::Condition::Not(inner) => self.bind_condition(inner).map(not),
            ast::Condition::And(left, right) => {
                let left = self.bind_condition(left)?;
                self.bind_condition(right).map(|right| and(left, right))
            }
            ast::Condition::Or(left, right) => {
                let left = self.bind_condition(left)?;
                self.bind_condition(right).map(|right| or(left, right))
            }
            leaf => self.leaf(leaf),
        }
    }

    fn leaf(&mut self, tree: &ast::Condition<'_>) -> Result<Box<Condition>, Fault> {
        let leaf = match tree {
            ast::Condition::Compare { left, comparator, right } => self.compare(left, *comparator, right),
            ast::Condition::Between { value, low, high } => self.between(value, low, high),
            ast::Condition::In { value, list } => self.among(value, list),
            ast::Condition::Call(call) => self.test(call),
            ast::Condition::Group(_)
            | ast::Condition::Not(_)
            | ast::Condition::And(..)
            | ast::Condition::Or(..) => return self.bind_condition(tree),
        };
        leaf.map(Box::new)
    }

    fn compare(
        &mut self,
        left: &ast::Operand<'_>,
        comparator: Comparator,
        right: &ast::Operand<'_>,
    ) -> Result<Condition, Fault> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        build::compare(left, comparator, right)
    }

    fn between(
        &mut self,
        value: &ast::Operand<'_>,
        low: &ast::Operand<'_>,
        high: &ast::Operand<'_>,
    ) -> Result<Condition, Fault> {
        let (value, low, high) = (self.operand(value)?, self.operand(low)?, self.operand(high)?);
        build::between(value, low, high)
    }

    fn among(&mut self, value: &ast::Operand<'_>, list: &[ast::Operand<'_>]) -> Result<Condition, Fault> {
        let value = self.operand(value)?;
        let list = list.iter().map(|operand| self.operand(operand)).collect::<Result<Vec<_>, _>>()?;
        build::among(value, list)
    }

    /// A function that is a condition by itself.
    fn test(&mut self, call: &ast::Call<'_>) -> Result<Condition, Fault> {
        let function = Function::named(call.function)?;
        let operator = function.name();
        let mut operands = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            operands.push(self.operand(argument)?);
        }
        let count = operands.len();
        let mut operands = operands.into_iter();
        let (first, second) = match (operands.next(), operands.next(), function.operand_count()) {
            (Some(first), None, 1) => (first, None),
            (Some(first), Some(second), 2) if count == 2 => (first, Some(second)),
            _ => return Err(Fault::OperandCount { operator, count }),
        };
        match (function, second) {
            (Function::AttributeExists, None) => build::exists(first),
            (Function::AttributeNotExists, None) => build::not_exists(first),
            (Function::AttributeType, Some(name)) => build::type_is(first, &name),
            (Function::BeginsWith, Some(prefix)) => build::begins_with(first, prefix),
            (Function::Contains, Some(part)) => build::contains(first, part),
            // The survey has refused the rest here.
            _ => Err(Fault::MisusedFunction(operator)),
        }
    }

    fn operand(&mut self, operand: &ast::Operand<'_>) -> Result<Operand, Fault> {
        match operand.bare() {
            ast::Operand::Path(path) => self.path(path).map(Operand::Path),
            ast::Operand::Value(key) => self.value(key).map(Operand::Value),
            // The survey lets no other function stand here.
            ast::Operand::Call(call) => self.size(call),
            ast::Operand::Group(inner) => self.operand(inner),
        }
    }

    fn size(&mut self, call: &ast::Call<'_>) -> Result<Operand, Fault> {
        let operator = Function::Size.name();
        let mut operands = Vec::with_capacity(1);
        for argument in &call.arguments {
            operands.push(self.operand(argument)?);
        }
        let count = operands.len();
        let [operand] =
            <[Operand; 1]>::try_from(operands).map_err(|_| Fault::OperandCount { operator, count })?;
        build::size(operand)
    }
}

fn not(inner: Box<Condition>) -> Box<Condition> {
    Box::new(Condition::Not(inner))
}

fn and(left: Box<Condition>, right: Box<Condition>) -> Box<Condition> {
    Box::new(Condition::And(left, right))
}

fn or(left: Box<Condition>, right: Box<Condition>) -> Box<Condition> {
    Box::new(Condition::Or(left, right))
}

fn invalid(kind: ExpressionKind) -> impl FnOnce(Fault) -> Error {
    move |fault| Error::Invalid { kind, fault }
}

/// Long names that are the same become one, so that paths made of them compare without reading them.
fn share(names: &mut [Placeholder<Arc<str>>]) {
    const LONG: usize = 255;
    let mut known = BTreeSet::new();
    for name in names.iter_mut().filter(|name| name.meaning.len() > LONG) {
        match known.get(&name.meaning) {
            Some(same) => name.meaning = Arc::clone(same),
            None => drop(known.insert(Arc::clone(&name.meaning))),
        }
    }
}

fn placeholders<T: Into<U>, U>(
    meanings: Option<BTreeMap<String, T>>,
    sign: char,
    map: PlaceholderMap,
) -> Result<Vec<Placeholder<U>>, Error> {
    let Some(meanings) = meanings else { return Ok(Vec::new()) };
    if meanings.is_empty() {
        return Err(Error::NoPlaceholders(map));
    }
    let fault = meanings.keys().find_map(|key| {
        let word = key.strip_prefix(sign).unwrap_or_default();
        if key.is_empty() {
            Some(PlaceholderFault::EmptyKey)
        } else if key.len() > PLACEHOLDER_BYTES_MAX {
            Some(PlaceholderFault::LongKey)
        } else if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            Some(PlaceholderFault::Key(key.clone()))
        } else {
            None
        }
    });
    if let Some(fault) = fault {
        return Err(Error::Placeholder { map, fault });
    }
    let placeholder = |(key, meaning): (String, T)| Placeholder { key, meaning: meaning.into(), used: false };
    Ok(meanings.into_iter().map(placeholder).collect())
}

fn look_up<'a, T>(placeholders: &'a mut [Placeholder<T>], key: &str) -> Option<&'a T> {
    let at = placeholders.binary_search_by(|placeholder| placeholder.key.as_str().cmp(key)).ok()?;
    let placeholder = &mut placeholders[at];
    placeholder.used = true;
    Some(&placeholder.meaning)
}

fn check_used<T>(placeholders: Vec<Placeholder<T>>, map: PlaceholderMap) -> Result<(), Error> {
    let unused = placeholders.into_iter().filter(|placeholder| !placeholder.used);
    let keys: Vec<String> = unused.map(|placeholder| placeholder.key).collect();
    if keys.is_empty() { Ok(()) } else { Err(Error::Unused { map, keys }) }
}

impl Comparator {
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// Binds an update. An undefined name is reported at once; an undefined value waits for the names, and what
/// does not fit its function waits for both.
struct UpdateBinder<'s> {
    scope: &'s mut Scope,
    undefined: Option<Fault>,
    misfit: Option<Fault>,
}

impl UpdateBinder<'_> {
    fn bind(mut self, tree: &ast::Update<'_>) -> Result<Update, Fault> {
        let mut update = Update::default();
        for clause in &tree.clauses {
            match clause {
                ast::Clause::Set(actions) => {
                    for (path, value) in actions {
                        let path = self.scope.path(path)?;
                        update.set.push((path, self.set_value(value)?));
                    }
                }
                ast::Clause::Remove(paths) => {
                    for path in paths {
                        update.remove.push(self.scope.path(path)?);
                    }
                }
                ast::Clause::Add(actions) => update.add = self.changes(actions)?,
                ast::Clause::Delete(actions) => update.delete = self.changes(actions)?,
            }
        }
        self.undefined.map_or(Ok(()), Err)?;
        check_overlaps(&targets(tree, &update))?;
        check_changes(&update)?;
        self.misfit.map_or(Ok(()), Err)?;
        Ok(update)
    }

    fn changes(
        &mut self,
        actions: &[(ast::Path<'_>, &str)],
    ) -> Result<Vec<(Path, Arc<AttributeValue>)>, Fault> {
        actions.iter().map(|(path, key)| Ok((self.scope.path(path)?, self.value(key)))).collect()
    }

    fn value(&mut self, key: &str) -> Arc<AttributeValue> {
        self.scope.value(key).unwrap_or_else(|fault| {
            self.undefined.get_or_insert(fault);
            Arc::new(AttributeValue::Null)
        })
    }

    fn set_value(&mut self, value: &ast::SetValue<'_>) -> Result<SetValue, Fault> {
        Ok(match value {
            ast::SetValue::Is(operand) => SetValue::Is(self.operand(operand)?),
            ast::SetValue::Plus(left, right) => {
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                self.check_literals("+", [&left, &right], AttributeType::N);
                SetValue::Plus(left, right)
            }
            ast::SetValue::Minus(left, right) => {
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                self.check_literals("-", [&left, &right], AttributeType::N);
                SetValue::Minus(left, right)
            }
            ast::SetValue::Group(inner) => self.set_value(inner)?,
        })
    }

    fn operand(&mut self, operand: &ast::Operand<'_>) -> Result<SetOperand, Fault> {
        match operand.bare() {
            ast::Operand::Path(path) => self.scope.path(path).map(SetOperand::Path),
            ast::Operand::Value(key) => Ok(SetOperand::Value(self.value(key))),
            ast::Operand::Call(call) => self.call(call),
            ast::Operand::Group(inner) => self.operand(inner),
        }
    }

    fn call(&mut self, call: &ast::Call<'_>) -> Result<SetOperand, Fault> {
        let function = Function::named(call.function)?;
        let operator = function.name();
        let mut operands = Vec::with_capacity(2);
        for argument in &call.arguments {
            operands.push(self.operand(argument)?);
        }
        let count = operands.len();
        let Ok([first, second]) = <[SetOperand; 2]>::try_from(operands) else {
            return Ok(self.misfit(Fault::OperandCount { operator, count }));
        };
        if function == Function::ListAppend {
            self.check_literals(operator, [&first, &second], AttributeType::L);
            return Ok(SetOperand::ListAppend(Box::new(first), Box::new(second)));
        }
        match first {
            SetOperand::Path(path) => Ok(self.if_not_exists(operator, path, second)),
            _ => Ok(self.misfit(Fault::NotAPath(operator))),
        }
    }

    fn if_not_exists(&mut self, operator: &'static str, path: Path, default: SetOperand) -> SetOperand {
        match default {
            SetOperand::Path(other) if other == path => {
                self.misfit(Fault::NotDistinct { operator, first: path })
            }
            default => SetOperand::IfNotExists(path, Box::new(default)),
        }
    }

    /// Keeps the first fault; what stands in for the operand is never seen.
    fn misfit(&mut self, fault: Fault) -> SetOperand {
        self.misfit.get_or_insert(fault);
        SetOperand::value(AttributeValue::Null)
    }

    fn check_literals(&mut self, operator: &'static str, operands: [&SetOperand; 2], needed: AttributeType) {
        if let Err(fault) = build::check_literals(operator, operands, needed) {
            self.misfit.get_or_insert(fault);
        }
    }
}

/// The paths an update writes, in the order written.
fn targets<'u>(tree: &ast::Update<'_>, update: &'u Update) -> Vec<&'u Path> {
    let mut paths = Vec::with_capacity(update.paths().count());
    for clause in &tree.clauses {
        match clause {
            ast::Clause::Set(_) => paths.extend(update.set.iter().map(|(path, _)| path)),
            ast::Clause::Remove(_) => paths.extend(&update.remove),
            ast::Clause::Add(_) => paths.extend(update.add.iter().map(|(path, _)| path)),
            ast::Clause::Delete(_) => paths.extend(update.delete.iter().map(|(path, _)| path)),
        }
    }
    paths
}
