//! A tree and its parameters to a bound statement.
//!
//! What can be checked without a table is checked here: types of operands, paths that meet, limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use larder_expr::{Condition, Fault, Operand, SetOperand, SetValue, build};
use larder_model::limits::{EXPRESSION_OPERATORS_MAX, IN_OPERANDS_MAX, NESTING_DEPTH_MAX};
use larder_model::{Arn, AttributeType, AttributeValue, IndexName, Item, Number, Path, Step, TableName};

use crate::ast::{self, Expression};
use crate::bound::{Column, Columns, Delete, Insert, Order, Returning, Select, Statement, Update};
use crate::error::{Error, Place};

pub(crate) fn bind(tree: &ast::Statement<'_>, parameters: &[AttributeValue]) -> Result<Statement, Error> {
    let mut binder = Binder { parameters, operators: 0 };
    Ok(match tree {
        ast::Statement::Select(select) => Statement::Select(binder.select(select)?),
        ast::Statement::Exists(select) => Statement::Exists(binder.select(select)?),
        ast::Statement::Insert { into, value } => {
            let item = match binder.value(value)? {
                AttributeValue::M(item) => item,
                _ => return Err(Error::NotAnItem),
            };
            if item.iter().any(|(_, value)| value.levels() > NESTING_DEPTH_MAX) {
                return Err(Error::TooDeep);
            }
            let (table, index) = source(into)?;
            if index.is_some() {
                return Err(Error::InsertIntoIndex(into.place));
            }
            Statement::Insert(Insert { table, item })
        }
        ast::Statement::Update { table, changes, condition, returning } => Statement::Update(Update {
            table: written(table)?,
            update: binder.update(changes)?,
            condition: binder.optional(condition.as_ref())?,
            returning: *returning,
        }),
        ast::Statement::Delete { from, condition, returning } => {
            let returning = match returning {
                None => false,
                Some(Returning::AllOld) => true,
                Some(other) => return Err(Error::DeleteReturning(*other)),
            };
            let condition = binder.optional(condition.as_ref())?;
            Statement::Delete(Delete { table: written(from)?, condition, returning })
        }
    })
}

struct Binder<'p> {
    parameters: &'p [AttributeValue],
    /// Operators and functions met so far.
    operators: usize,
}

impl Binder<'_> {
    fn select(&mut self, select: &ast::Select<'_>) -> Result<Select, Error> {
        let columns = select.columns.as_ref().map(|columns| {
            columns.iter().map(|column| path(column).map(Column::of)).collect::<Result<Vec<_>, Error>>()
        });
        let order = select.order.iter().map(|order| match order.path.steps.as_slice() {
            [] => Ok(Order { attribute: (*order.path.root).into(), descending: order.descending }),
            _ => Err(Error::OrderByPath),
        });
        let order = order.collect::<Result<_, _>>()?;
        let (table, index) = source(&select.from)?;
        Ok(Select {
            table,
            index,
            columns: columns.transpose()?.map(Columns),
            condition: self.optional(select.condition.as_ref())?,
            order,
        })
    }

    fn optional(&mut self, condition: Option<&Expression<'_>>) -> Result<Option<Condition>, Error> {
        condition.map(|condition| self.condition(condition).map(|bound| *bound)).transpose()
    }

    fn operator(&mut self) -> Result<(), Error> {
        self.operators += 1;
        if self.operators > EXPRESSION_OPERATORS_MAX {
            return Err(Fault::TooManyOperators(self.operators).into());
        }
        Ok(())
    }

    /// Recurses as deep as the condition nests, so whole conditions stay behind boxes.
    fn condition(&mut self, tree: &Expression<'_>) -> Result<Box<Condition>, Error> {
        match tree {
            Expression::And(parts) => self.joined(parts, Condition::And),
            Expression::Or(parts) => self.joined(parts, Condition::Or),
            Expression::Not(inner) => {
                self.operator()?;
                self.condition(inner).map(|inner| Box::new(Condition::Not(inner)))
            }
            leaf => self.test(leaf).map(Box::new),
        }
    }

    fn joined(
        &mut self,
        parts: &[Expression<'_>],
        join: fn(Box<Condition>, Box<Condition>) -> Condition,
    ) -> Result<Box<Condition>, Error> {
        let Some((first, rest)) = parts.split_first() else { return Err(Error::NotACondition) };
        let mut joined = self.condition(first)?;
        for part in rest {
            self.operator()?;
            joined = Box::new(join(joined, self.condition(part)?));
        }
        Ok(joined)
    }

    fn test(&mut self, tree: &Expression<'_>) -> Result<Condition, Error> {
        self.operator()?;
        Ok(match tree {
            Expression::Compare { left, comparator, right } => {
                build::compare(self.operand(left)?, *comparator, self.operand(right)?)?
            }
            Expression::Between { value, low, high } => {
                build::between(self.operand(value)?, self.operand(low)?, self.operand(high)?)?
            }
            Expression::In { value, list } => {
                let value = self.operand(value)?;
                build::among(value, self.members(list)?)?
            }
            Expression::IsMissing(operand) => build::not_exists(self.operand(operand)?)?,
            Expression::IsNull(operand) => {
                build::type_is(self.operand(operand)?, &Operand::value(AttributeType::Null.name()))?
            }
            Expression::Call { function, place, arguments } => self.call(function, *place, arguments)?,
            _ => return Err(Error::NotACondition),
        })
    }

    /// A function that is a condition by itself.
    fn call(
        &mut self,
        function: &str,
        place: Place,
        arguments: &[Expression<'_>],
    ) -> Result<Condition, Error> {
        let known = CONDITIONS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(function));
        let Some((name, count)) = known else { return Err(Error::Function(function.to_owned(), place)) };
        if arguments.len() != count {
            return Err(Fault::OperandCount { operator: name, count: arguments.len() }.into());
        }
        let first = self.operand(&arguments[0])?;
        let second = arguments.get(1).map(|argument| self.operand(argument)).transpose()?;
        Ok(match (name, second) {
            ("begins_with", Some(prefix)) => build::begins_with(first, prefix)?,
            ("contains", Some(part)) => build::contains(first, part)?,
            ("attribute_type", Some(kind)) => build::type_is(first, &kind)?,
            ("attribute_exists", None) => build::exists(first)?,
            ("attribute_not_exists", None) => build::not_exists(first)?,
            _ => return Err(Error::NotACondition),
        })
    }

    /// What a value is looked for among.
    fn members(&mut self, list: &Expression<'_>) -> Result<Vec<Operand>, Error> {
        let members = match list {
            Expression::List(members) | Expression::Bag(members) => {
                members.iter().map(|member| self.operand(member)).collect::<Result<Vec<_>, _>>()?
            }
            other => elements(self.value(other)?).into_iter().map(Operand::value).collect(),
        };
        match members.len() {
            0 => Err(Error::NoInOperands),
            1..=IN_OPERANDS_MAX => Ok(members),
            many => Err(Error::TooManyInOperands(many)),
        }
    }

    fn operand(&mut self, tree: &Expression<'_>) -> Result<Operand, Error> {
        Ok(match tree {
            Expression::Path(tree) => Operand::Path(path(tree)?),
            Expression::Call { function, arguments, .. } if function.eq_ignore_ascii_case("size") => {
                self.operator()?;
                match arguments.as_slice() {
                    [argument] => build::size(self.operand(argument)?)?,
                    _ => return Err(Fault::OperandCount { operator: "size", count: arguments.len() }.into()),
                }
            }
            Expression::Call { function, place, .. } => {
                return Err(Error::Function((*function).to_owned(), *place));
            }
            Expression::Missing => return Err(Error::MissingCompared),
            Expression::Sum { .. } => return Err(Error::NotAnOperand("arithmetic")),
            Expression::Compare { .. }
            | Expression::Between { .. }
            | Expression::In { .. }
            | Expression::IsNull(_)
            | Expression::IsMissing(_)
            | Expression::Not(_)
            | Expression::And(_)
            | Expression::Or(_) => return Err(Error::NotAnOperand("a condition")),
            value => Operand::Value(Arc::new(self.whole(value)?)),
        })
    }

    fn update(&mut self, changes: &[ast::UpdateClause<'_>]) -> Result<larder_expr::Update, Error> {
        let mut update = larder_expr::Update::default();
        for change in changes {
            match change {
                ast::UpdateClause::Remove(target) => update.remove.push(path(target)?),
                ast::UpdateClause::Set(target, value) => {
                    let target = path(target)?;
                    match value {
                        Expression::Call { function, place, arguments }
                            if function.eq_ignore_ascii_case("set_add") =>
                        {
                            let members = self.set_members("SET_ADD", *place, &target, arguments)?;
                            update.add.push((target, members));
                        }
                        Expression::Call { function, place, arguments }
                            if function.eq_ignore_ascii_case("set_delete") =>
                        {
                            let members = self.set_members("SET_DELETE", *place, &target, arguments)?;
                            update.delete.push((target, members));
                        }
                        value => update.set.push((target, self.set_value(value)?)),
                    }
                }
            }
        }
        Ok(build::update(update)?)
    }

    fn set_value(&mut self, tree: &Expression<'_>) -> Result<SetValue, Error> {
        Ok(match tree {
            Expression::Sum { left, plus, right } => {
                self.operator()?;
                let sum = if *plus { build::plus } else { build::minus };
                sum(self.set_operand(left)?, self.set_operand(right)?)?
            }
            Expression::Call { function, arguments, .. } if function.eq_ignore_ascii_case("list_append") => {
                self.operator()?;
                let [head, tail] = arguments.as_slice() else {
                    let count = arguments.len();
                    return Err(Fault::OperandCount { operator: "list_append", count }.into());
                };
                SetValue::Is(build::list_append(self.set_operand(head)?, self.set_operand(tail)?)?)
            }
            operand => SetValue::Is(self.set_operand(operand)?),
        })
    }

    fn set_operand(&mut self, tree: &Expression<'_>) -> Result<SetOperand, Error> {
        match self.operand(tree)? {
            Operand::Path(path) => Ok(SetOperand::Path(path)),
            Operand::Value(value) => Ok(SetOperand::Value(value)),
            Operand::Size(_) => Err(Error::Misused("size")),
        }
    }

    /// The second argument of `set_add` and `set_delete`, whose first is what is set.
    fn set_members(
        &mut self,
        function: &'static str,
        place: Place,
        target: &Path,
        arguments: &[Expression<'_>],
    ) -> Result<Arc<AttributeValue>, Error> {
        self.operator()?;
        let [set, members] = arguments else {
            return Err(Fault::OperandCount { operator: function, count: arguments.len() }.into());
        };
        match set {
            Expression::Path(set) if path(set)? == *target => {}
            _ => return Err(Error::OtherSet(function, place)),
        }
        let members = match members {
            Expression::Bag(_) | Expression::Parameter(_) => self.value(members)?,
            _ => return Err(Error::NotASet(function)),
        };
        match members {
            AttributeValue::Ss(_) | AttributeValue::Ns(_) | AttributeValue::Bs(_) => Ok(Arc::new(members)),
            _ => Err(Error::NotASet(function)),
        }
    }

    /// A value that stands for itself, not deeper than an item's can be.
    fn whole(&self, tree: &Expression<'_>) -> Result<AttributeValue, Error> {
        let value = self.value(tree)?;
        if value.levels() > NESTING_DEPTH_MAX { Err(Error::TooDeep) } else { Ok(value) }
    }

    fn value(&self, tree: &Expression<'_>) -> Result<AttributeValue, Error> {
        Ok(match tree {
            Expression::Parameter(at) => self.parameters.get(*at).ok_or(Error::TooFewParameters)?.clone(),
            Expression::Text(text) => AttributeValue::S(text.clone().into_owned()),
            Expression::Number(number) => AttributeValue::N(number.parse()?),
            Expression::Bool(value) => AttributeValue::Bool(*value),
            Expression::Null => AttributeValue::Null,
            Expression::List(members) => AttributeValue::L(self.values(members)?),
            Expression::Bag(members) => set(self.values(members)?)?,
            Expression::Map(fields) => {
                let mut map = Item::new();
                for (name, value) in fields {
                    if name.is_empty() {
                        return Err(Error::EmptyName);
                    }
                    map.insert(&**name, self.value(value)?);
                }
                AttributeValue::M(map)
            }
            Expression::Missing => return Err(Error::MissingValue),
            Expression::Path(_) => return Err(Error::NotAValue("an attribute")),
            _ => return Err(Error::NotAValue("an operation")),
        })
    }

    fn values(&self, members: &[Expression<'_>]) -> Result<Vec<AttributeValue>, Error> {
        members.iter().map(|member| self.value(member)).collect()
    }
}

/// Functions that are conditions by themselves, and how many arguments they have.
const CONDITIONS: [(&str, usize); 5] = [
    ("begins_with", 2),
    ("contains", 2),
    ("attribute_type", 2),
    ("attribute_exists", 1),
    ("attribute_not_exists", 1),
];

/// The set that these are the members of.
fn set(members: Vec<AttributeValue>) -> Result<AttributeValue, Error> {
    let count = members.len();
    let shown: Vec<String> = members.iter().filter_map(AttributeValue::as_str).map(str::to_owned).collect();
    let (mut texts, mut numbers, mut binaries) =
        (BTreeSet::new(), BTreeSet::<Number>::new(), BTreeSet::new());
    for member in members {
        match member {
            AttributeValue::S(text) => drop(texts.insert(text)),
            AttributeValue::N(number) => drop(numbers.insert(number)),
            AttributeValue::B(bytes) => drop(binaries.insert(bytes)),
            _ => return Err(Error::MixedSet),
        }
    }
    let (set, distinct) = match (texts.len(), numbers.len(), binaries.len()) {
        (0, 0, 0) => return Err(Error::EmptySet),
        (distinct, 0, 0) => (AttributeValue::Ss(texts), distinct),
        (0, distinct, 0) => (AttributeValue::Ns(numbers), distinct),
        (0, 0, distinct) => (AttributeValue::Bs(binaries), distinct),
        _ => return Err(Error::MixedSet),
    };
    if distinct < count { Err(Error::RepeatedMember(shown)) } else { Ok(set) }
}

/// The members of a list or a set; any other value is one by itself.
fn elements(value: AttributeValue) -> Vec<AttributeValue> {
    match value {
        AttributeValue::L(list) => list,
        AttributeValue::Ss(set) => set.into_iter().map(AttributeValue::S).collect(),
        AttributeValue::Ns(set) => set.into_iter().map(AttributeValue::N).collect(),
        AttributeValue::Bs(set) => set.into_iter().map(AttributeValue::B).collect(),
        other => vec![other],
    }
}

fn path(tree: &ast::Path<'_>) -> Result<Path, Error> {
    let step = |step: &ast::Step<'_>| match step {
        ast::Step::Field(name) => Ok(Step::Field((**name).into())),
        ast::Step::Index(digits) => {
            match digits.parse::<i32>().ok().and_then(|at| usize::try_from(at).ok()) {
                Some(at) => Ok(Step::Index(at)),
                None => Err(Error::from(Fault::IndexTooLarge((*digits).to_owned()))),
            }
        }
    };
    let is_empty = |step: &ast::Step<'_>| matches!(step, ast::Step::Field(name) if name.is_empty());
    if tree.root.is_empty() || tree.steps.iter().any(is_empty) {
        return Err(Error::EmptyName);
    }
    let levels = 1 + tree.steps.len();
    if levels > NESTING_DEPTH_MAX {
        return Err(Fault::PathTooDeep(levels).into());
    }
    Ok(Path { root: (*tree.root).into(), steps: tree.steps.iter().map(step).collect::<Result<_, _>>()? })
}

fn source(source: &ast::Source<'_>) -> Result<(TableName, Option<IndexName>), Error> {
    let unknown = |name: &str| Error::SourceName(name.to_owned());
    let table = match Arn::table_said(&source.table) {
        Some(table) => table,
        None => TableName::new(&*source.table).map_err(|_| unknown(&source.table))?,
    };
    let index = source.index.as_ref().map(|index| IndexName::new(&**index).map_err(|_| unknown(index)));
    Ok((table, index.transpose()?))
}

/// The table of a statement that writes.
fn written(tree: &ast::Source<'_>) -> Result<TableName, Error> {
    match source(tree)? {
        (table, None) => Ok(table),
        (_, Some(_)) => Err(Error::WriteToIndex),
    }
}

#[cfg(test)]
mod tests {
    use larder_expr::Renderer;

    use super::*;
    use crate::read;

    fn condition(text: &str, parameters: &[AttributeValue]) -> Result<Condition, Error> {
        let Statement::Select(select) = read(&format!("SELECT * FROM ttt WHERE {text}"), parameters)? else {
            panic!("it is a SELECT")
        };
        Ok(select.condition.expect("it has a condition"))
    }

    /// What a condition means, in the other language.
    fn check(text: &str, expected: &str) {
        let mut renderer = Renderer::new();
        let mut found = renderer.condition(&condition(text, &[]).unwrap());
        let placeholders = renderer.finish();
        for (key, name) in placeholders.names.iter().rev() {
            found = found.replace(key.as_str(), name);
        }
        assert_eq!(found, expected, "{text}");
    }

    fn refused(text: &str, expected: &str) {
        let error = read(text, &[]).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }

    #[test]
    fn conditions_are_those_of_expressions() {
        check("a = 1", "a = :v0");
        check("a != 1 AND b <> 2", "a <> :v0 AND b <> :v1");
        check("a BETWEEN 1 AND 2 OR b >= 3", "a BETWEEN :v0 AND :v1 OR b >= :v2");
        check("a NOT BETWEEN 1 AND 2", "NOT a BETWEEN :v0 AND :v1");
        check("a IN [1, 2]", "a IN (:v0, :v1)");
        check("a IN (1, b)", "a IN (:v0, b)");
        check("a NOT IN <<1>>", "NOT a IN (:v0)");
        check("a IS MISSING", "attribute_not_exists(a)");
        check("a IS NOT MISSING", "NOT attribute_not_exists(a)");
        check("a IS NULL", "attribute_type(a, :v0)");
        check("BEGINS_WITH(\"a\", 'x')", "begins_with(a, :v0)");
        check("contains(a.b[1], 'x')", "contains(a.b[1], :v0)");
        check("a['b'] = 1", "a.b = :v0");
        check("attribute_type(a, 'S')", "attribute_type(a, :v0)");
        check("size(a) > 3", "size(a) > :v0");
        check("NOT (a = 1 OR b = 2) AND c = 3", "NOT (a = :v0 OR b = :v1) AND c = :v2");
    }

    #[test]
    fn literals_are_of_all_types() {
        let text = "INSERT INTO ttt VALUE {'s': 'it''s', 'n': -1.5e3, 't': TRUE, 'f': false, 'z': null, \
                    'l': [1, 'a', []], 'm': {'k': {}}, 'ss': <<'a', 'b'>>, 'ns': <<1, 2.0>>, 'p': ?}";
        let Ok(Statement::Insert(insert)) = read(text, &[AttributeValue::B(vec![1])]) else {
            panic!("it is an INSERT")
        };
        let value = |name: &str| insert.item.get(name).cloned().unwrap();
        assert_eq!(value("s"), "it's".into());
        assert_eq!(value("n"), (-1500).into());
        assert_eq!(value("t"), true.into());
        assert_eq!(value("z"), AttributeValue::Null);
        assert_eq!(value("l"), AttributeValue::L(vec![1.into(), "a".into(), AttributeValue::L(Vec::new())]));
        assert_eq!(value("ss"), AttributeValue::Ss(["a".to_owned(), "b".to_owned()].into()));
        assert_eq!(value("ns"), AttributeValue::Ns([1.into(), 2.into()].into()));
        assert_eq!(value("p"), AttributeValue::B(vec![1]));
    }

    #[test]
    fn an_update_has_four_clauses() {
        let text = "UPDATE ttt SET a = 1, b = a + 1 SET l = list_append(l, [1]) SET s = set_add(s, <<1>>) \
                    SET d = SET_DELETE(d, <<'x'>>) REMOVE r[0], q WHERE k = 1 RETURNING MODIFIED NEW *";
        let Ok(Statement::Update(update)) = read(text, &[]) else { panic!("it is an UPDATE") };
        assert_eq!(update.returning, Some(Returning::ModifiedNew));
        let update = Renderer::new().update(&update.update).unwrap();
        assert_eq!(
            update,
            "SET #n0 = :v0, #n1 = #n0 + :v1, #n2 = list_append(#n2, :v2) REMOVE #n3[0], #n4 ADD #n5 :v3 DELETE #n6 :v4"
        );
    }

    #[test]
    fn parameters_are_taken_in_their_order() {
        let parameters = [1.into(), AttributeValue::L(vec![2.into(), 3.into()]), "more".into()];
        let condition = condition("a = ? AND b IN ?", &parameters).unwrap();
        let item: Item = [("a", AttributeValue::from(1)), ("b", 3.into())].into_iter().collect();
        assert_eq!(condition.holds(Some(&item)), Ok(true));
        assert_eq!(read("SELECT * FROM ttt WHERE a = ?", &[]), Err(Error::TooFewParameters));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        refused("SELECT * FROM ttt WHERE a", &Error::NotACondition.to_string());
        refused("SELECT * FROM ttt WHERE a = MISSING", &Error::MissingCompared.to_string());
        refused("SELECT * FROM ttt WHERE a = b + 1", "Unsupported operand in expression: arithmetic");
        refused("SELECT * FROM ttt WHERE upper(a) = 'A'", "Unrecognized function: upper at 1:25:5");
        refused("SELECT * FROM ttt WHERE a IN []", &Error::NoInOperands.to_string());
        refused("SELECT * FROM ttt WHERE a.b = 1 ORDER BY a.b", &Error::OrderByPath.to_string());
        refused("INSERT INTO ttt VALUE 5", &Error::NotAnItem.to_string());
        refused("INSERT INTO ttt VALUE {'a': <<1, 'x'>>}", &Error::MixedSet.to_string());
        refused("INSERT INTO ttt VALUE {'a': <<1, 1.0>>}", &Error::RepeatedMember(Vec::new()).to_string());
        refused("INSERT INTO ttt VALUE {'': 1}", &Error::EmptyName.to_string());
        refused("DELETE FROM ttt.iii WHERE k = 1", &Error::WriteToIndex.to_string());
        refused(
            "UPDATE ttt SET s = set_add(t, <<1>>) WHERE k = 1",
            "The first argument to SET_ADD must equal the assignment value at 1:20:7",
        );
        refused("UPDATE ttt SET s = set_add(s, 1) WHERE k = 1", &Error::NotASet("SET_ADD").to_string());
        refused(
            "DELETE FROM ttt WHERE k = 1 RETURNING ALL NEW *",
            "Invalid returning clause: RETURNING ALL NEW *. Only RETURNING ALL OLD * is allowed in DELETE statements.",
        );
        refused(
            "SELECT * FROM ttt WHERE a < true",
            "Incorrect operand type for operator or function; operator or function: <, operand type: BOOL",
        );
    }

    #[test]
    fn values_and_conditions_are_bounded() {
        let deep = |depth: usize| {
            format!("INSERT INTO ttt VALUE {{'a': {}1{}}}", "[".repeat(depth), "]".repeat(depth))
        };
        assert!(read(&deep(31), &[]).is_ok());
        assert_eq!(read(&deep(32), &[]), Err(Error::TooDeep));
        let chain = |count: usize| format!("SELECT * FROM ttt WHERE {}", vec!["a=1"; count].join(" OR "));
        assert!(read(&chain(150), &[]).is_ok());
        assert!(matches!(read(&chain(151), &[]), Err(Error::Expression(Fault::TooManyOperators(_)))));
        let list = |count: usize| format!("SELECT * FROM ttt WHERE a IN ({})", vec!["1"; count].join(","));
        assert!(read(&list(100), &[]).is_ok());
        assert_eq!(read(&list(101), &[]), Err(Error::TooManyInOperands(101)));
    }
}
