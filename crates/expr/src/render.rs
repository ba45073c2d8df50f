//! Bound expressions back to text, names and values, for a store that takes them over the network.
//!
//! Every name and value becomes a placeholder, so no name can be a reserved word or be read as a path. What
//! is rendered reads back as the same bound expression.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use larder_model::{AttributeType, AttributeValue, Path, Step};

use crate::{Condition, KeyCondition, Operand, Projection, SetOperand, SetValue, SortTest, Update};

/// Renders the expressions of one request, which share their placeholders.
#[derive(Clone, Debug, Default)]
pub struct Renderer {
    names: Vec<String>,
    values: Vec<Arc<AttributeValue>>,
}

/// What the placeholders of rendered expressions stand for. A map that is empty must not be sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placeholders {
    pub names: BTreeMap<String, String>,
    pub values: BTreeMap<String, AttributeValue>,
}

/// What a condition is written with.
enum Part<'a> {
    Text(&'a str),
    Of(&'a Operand),
    Path(&'a Path),
    Name(AttributeType),
}

impl Renderer {
    pub fn new() -> Self {
        Self::default()
    }

    /// A condition or a filter.
    pub fn condition(&mut self, condition: &Condition) -> String {
        let mut text = String::new();
        self.write_condition(condition, &mut text);
        text
    }

    /// None for an update without clauses, which has no text.
    pub fn update(&mut self, update: &Update) -> Option<String> {
        let mut clauses = Vec::with_capacity(4);
        let mut clause = |keyword: &str, actions: Vec<String>| {
            if !actions.is_empty() {
                clauses.push(format!("{keyword} {}", actions.join(", ")));
            }
        };
        let set = update.set.iter().map(|(path, value)| {
            let path = self.path(path);
            format!("{path} = {}", self.set_value(value))
        });
        clause("SET", set.collect());
        clause("REMOVE", update.remove.iter().map(|path| self.path(path)).collect());
        clause("ADD", self.changes(&update.add));
        clause("DELETE", self.changes(&update.delete));
        (!clauses.is_empty()).then(|| clauses.join(" "))
    }

    pub fn projection(&mut self, projection: &Projection) -> String {
        let paths: Vec<String> = projection.paths.iter().map(|path| self.path(path)).collect();
        paths.join(", ")
    }

    pub fn key_condition(&mut self, condition: &KeyCondition) -> String {
        let tests: Vec<String> = condition
            .tests
            .iter()
            .map(|test| {
                let name = self.name(&test.attribute);
                let mut compare = |symbol: &str, value| format!("{name} {symbol} {}", self.value(value));
                match &test.test {
                    SortTest::Equal(value) => compare("=", value),
                    SortTest::Less(value) => compare("<", value),
                    SortTest::LessOrEqual(value) => compare("<=", value),
                    SortTest::Greater(value) => compare(">", value),
                    SortTest::GreaterOrEqual(value) => compare(">=", value),
                    SortTest::Between(low, high) => {
                        let low = compare("BETWEEN", low);
                        format!("{low} AND {}", self.value(high))
                    }
                    SortTest::BeginsWith(prefix) => format!("begins_with({name}, {})", self.value(prefix)),
                }
            })
            .collect();
        tests.join(" AND ")
    }

    pub fn finish(self) -> Placeholders {
        let keyed = |sign: &str, at: usize| format!("{sign}{at}");
        Placeholders {
            names: self.names.into_iter().enumerate().map(|(at, name)| (keyed("#n", at), name)).collect(),
            values: self
                .values
                .into_iter()
                .enumerate()
                .map(|(at, value)| (keyed(":v", at), Arc::unwrap_or_clone(value)))
                .collect(),
        }
    }

    fn name(&mut self, name: &str) -> String {
        let known = self.names.iter().position(|known| known == name);
        let at = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        format!("#n{at}")
    }

    fn value(&mut self, value: &Arc<AttributeValue>) -> String {
        let known = self.values.iter().position(|known| Arc::ptr_eq(known, value));
        let at = known.unwrap_or_else(|| {
            self.values.push(Arc::clone(value));
            self.values.len() - 1
        });
        format!(":v{at}")
    }

    fn path(&mut self, path: &Path) -> String {
        let mut text = self.name(&path.root);
        for step in &path.steps {
            match step {
                Step::Field(name) => {
                    text.push('.');
                    text.push_str(&self.name(name));
                }
                // Writing to a string cannot fail.
                Step::Index(at) => drop(write!(text, "[{at}]")),
            }
        }
        text
    }

    fn operand(&mut self, operand: &Operand) -> String {
        match operand {
            Operand::Path(path) => self.path(path),
            Operand::Value(value) => self.value(value),
            Operand::Size(path) => format!("size({})", self.path(path)),
        }
    }

    /// Recurses as deep as the condition nests, so it keeps little on the stack.
    fn write_condition(&mut self, condition: &Condition, text: &mut String) {
        match condition {
            Condition::Not(inner) => {
                text.push_str("NOT ");
                self.write_grouped(inner, matches!(**inner, Condition::And(..) | Condition::Or(..)), text);
            }
            Condition::And(left, right) => {
                self.write_grouped(left, matches!(**left, Condition::Or(..)), text);
                text.push_str(" AND ");
                self.write_grouped(right, matches!(**right, Condition::And(..) | Condition::Or(..)), text);
            }
            Condition::Or(left, right) => {
                self.write_condition(left, text);
                text.push_str(" OR ");
                self.write_grouped(right, matches!(**right, Condition::Or(..)), text);
            }
            leaf => self.write_leaf(leaf, text),
        }
    }

    fn write_leaf(&mut self, condition: &Condition, text: &mut String) {
        use Part::{Of, Text};
        match condition {
            Condition::Compare { left, comparator, right } => {
                self.write(&[Of(left), Text(" "), Text(comparator.symbol()), Text(" "), Of(right)], text);
            }
            Condition::Between { value, low, high } => {
                self.write(&[Of(value), Text(" BETWEEN "), Of(low), Text(" AND "), Of(high)], text);
            }
            Condition::In { value, list } => {
                self.write(&[Of(value), Text(" IN (")], text);
                for (at, operand) in list.iter().enumerate() {
                    self.write(&[Text(if at == 0 { "" } else { ", " }), Of(operand)], text);
                }
                text.push(')');
            }
            Condition::Exists(path) => {
                self.write(&[Text("attribute_exists("), Part::Path(path), Text(")")], text);
            }
            Condition::NotExists(path) => {
                self.write(&[Text("attribute_not_exists("), Part::Path(path), Text(")")], text);
            }
            Condition::TypeIs { path, kind } => {
                let parts =
                    [Text("attribute_type("), Part::Path(path), Text(", "), Part::Name(*kind), Text(")")];
                self.write(&parts, text);
            }
            Condition::BeginsWith { value, prefix } => {
                self.write(&[Text("begins_with("), Of(value), Text(", "), Of(prefix), Text(")")], text);
            }
            Condition::Contains { value, part } => {
                self.write(&[Text("contains("), Of(value), Text(", "), Of(part), Text(")")], text);
            }
            Condition::Not(_) | Condition::And(..) | Condition::Or(..) => {
                self.write_condition(condition, text);
            }
        }
    }

    fn write(&mut self, parts: &[Part<'_>], text: &mut String) {
        for part in parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Of(operand) => text.push_str(&self.operand(operand)),
                Part::Path(path) => text.push_str(&self.path(path)),
                Part::Name(kind) => text.push_str(&self.value(&Arc::new(AttributeValue::from(kind.name())))),
            }
        }
    }

    fn write_grouped(&mut self, condition: &Condition, grouped: bool, text: &mut String) {
        if grouped {
            text.push('(');
        }
        self.write_condition(condition, text);
        if grouped {
            text.push(')');
        }
    }

    fn set_value(&mut self, value: &SetValue) -> String {
        match value {
            SetValue::Is(operand) => self.set_operand(operand),
            SetValue::Plus(left, right) => {
                let left = self.set_operand(left);
                format!("{left} + {}", self.set_operand(right))
            }
            SetValue::Minus(left, right) => {
                let left = self.set_operand(left);
                format!("{left} - {}", self.set_operand(right))
            }
        }
    }

    fn set_operand(&mut self, operand: &SetOperand) -> String {
        match operand {
            SetOperand::Path(path) => self.path(path),
            SetOperand::Value(value) => self.value(value),
            SetOperand::IfNotExists(path, default) => {
                let path = self.path(path);
                format!("if_not_exists({path}, {})", self.set_operand(default))
            }
            SetOperand::ListAppend(head, tail) => {
                let head = self.set_operand(head);
                format!("list_append({head}, {})", self.set_operand(tail))
            }
        }
    }

    fn changes(&mut self, changes: &[(Path, Arc<AttributeValue>)]) -> Vec<String> {
        changes
            .iter()
            .map(|(path, value)| {
                let path = self.path(path);
                format!("{path} {}", self.value(value))
            })
            .collect()
    }
}
