//! Expressions as text, with the names and values they use.
//!
//! Most are right for the attributes they touch; some overlap, take the wrong type, miss a path, or leave a
//! name unused. Nothing here knows which.

use serde_json::{Map, Value, json};

use crate::chance::Chance;
use crate::tables::{Index, KeyAttribute, Keys, Table};
use crate::values::{self, PLAIN, Usual};

/// The placeholders of one request.
#[derive(Debug, Default)]
pub(crate) struct Placeholders {
    names: Map<String, Value>,
    values: Map<String, Value>,
}

impl Placeholders {
    /// Puts them into a request, now and then with one too many or too few.
    pub(crate) fn attach(mut self, chance: &mut Chance, request: &mut Value) {
        match chance.below(200) {
            0 => drop(self.names.insert("#unused".into(), "zzz".into())),
            1 => drop(self.values.insert(":unused".into(), json!({"S": "z"}))),
            2 => drop(self.values.remove(":v0")),
            3 => self.names.clear(),
            _ => {}
        }
        if !self.names.is_empty() {
            request["ExpressionAttributeNames"] = self.names.into();
        }
        if !self.values.is_empty() {
            request["ExpressionAttributeValues"] = self.values.into();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) chance: &'a mut Chance,
    pub(crate) table: &'a Table,
    pub(crate) placeholders: Placeholders,
    /// Attributes that are written or projected already.
    taken: Vec<String>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(chance: &'a mut Chance, table: &'a Table) -> Self {
        Self { chance, table, placeholders: Placeholders::default(), taken: vec![] }
    }

    fn name(&mut self, name: &str) -> String {
        let reserved = matches!(name, "name" | "size");
        if (reserved && !self.chance.one_in(80)) || self.chance.percent(25) {
            let placeholder = format!("#{name}");
            self.placeholders.names.insert(placeholder.clone(), name.into());
            return placeholder;
        }
        name.to_owned()
    }

    pub(crate) fn value(&mut self, value: Value) -> String {
        let placeholder = format!(":v{}", self.placeholders.values.len());
        self.placeholders.values.insert(placeholder.clone(), value);
        placeholder
    }

    /// An attribute: mostly a plain one, sometimes a key or what an index is keyed by.
    fn attribute(&mut self) -> (&'static str, Usual) {
        match self.chance.below(20) {
            0 => {
                let keys: Vec<KeyAttribute> = self.table.keys.all().collect();
                let key = self.chance.pick(&keys);
                (key.name, Usual::Key(key.kind))
            }
            1 | 2 => self.candidate(),
            _ => self.chance.pick(&PLAIN),
        }
    }

    fn candidate(&mut self) -> (&'static str, Usual) {
        let key = self.chance.pick(&self.table.candidates);
        (key.name, Usual::Key(key.kind))
    }

    fn attribute_of(&mut self, usual: Usual) -> &'static str {
        let fitting: Vec<&'static str> =
            PLAIN.iter().filter(|(_, of)| *of == usual).map(|(name, _)| *name).collect();
        if fitting.is_empty() || self.chance.one_in(25) {
            self.attribute().0
        } else {
            self.chance.pick(&fitting)
        }
    }

    /// A document path and what it usually leads to.
    fn path(&mut self) -> (String, Usual) {
        if !self.chance.one_in(4) {
            let (name, usual) = self.attribute();
            return (self.name(name), usual);
        }
        let path = self.nested_path();
        (path, Usual::Number)
    }

    fn nested_path(&mut self) -> String {
        let list = self.attribute_of(Usual::List);
        let map = self.attribute_of(Usual::Map);
        let (list, map) = if self.chance.one_in(2) {
            (self.name(list), String::new())
        } else {
            (String::new(), self.name(map))
        };
        let index = self.chance.pick(&[0, 0, 0, 1, 1, 2, 5]);
        let member = self.chance.pick(&["x", "y", "n"]);
        if map.is_empty() {
            return match self.chance.below(5) {
                0 => format!("{list}[{index}].{member}"),
                1 => format!("{list}[{index}][0]"),
                _ => format!("{list}[{index}]"),
            };
        }
        let member = self.name(member);
        match self.chance.below(6) {
            0 => format!("{map}.{member}.x"),
            1 => format!("{map}.{member}[{index}]"),
            _ => format!("{map}.{member}"),
        }
    }

    /// A value placeholder that usually fits what it is compared with or stored in.
    fn value_like(&mut self, usual: Usual) -> String {
        let value = match self.chance.below(300) {
            0 => values::refused(self.chance),
            1..8 => values::anything(self.chance, 1),
            _ => values::of(self.chance, usual, 1),
        };
        self.value(value)
    }

    /// A condition that holds at least one time in three.
    pub(crate) fn requirement(&mut self, depth: usize) -> String {
        let condition = self.condition(depth);
        if self.chance.one_in(3) { format!("{condition} OR attribute_not_exists(absent)") } else { condition }
    }

    pub(crate) fn condition(&mut self, depth: usize) -> String {
        match self.chance.below(if depth == 0 { 11 } else { 16 }) {
            0..=3 => self.comparison(),
            4 => {
                let (path, usual) = self.ordered_operand();
                let (low, high) = match usual {
                    _ if self.chance.one_in(12) => (self.value_like(usual), self.value_like(usual)),
                    Usual::Number => (self.value(json!({"N": "-1"})), self.value(json!({"N": "2"}))),
                    _ => (self.value(json!({"S": "a"})), self.value(json!({"S": "b"}))),
                };
                format!("{path} BETWEEN {low} AND {high}")
            }
            5 => {
                let (path, usual) = self.operand();
                let count = 1 + self.chance.below(3);
                let values: Vec<String> = (0..count).map(|_| self.value_like(usual)).collect();
                format!("{path} IN ({})", values.join(", "))
            }
            6 => format!("attribute_exists({})", self.path().0),
            7 => format!("attribute_not_exists({})", self.path().0),
            8 => {
                let path = self.path().0;
                let kinds = ["S", "N", "B", "SS", "NS", "BS", "L", "M", "BOOL", "NULL", "S", "N", "L", "M"];
                let kind = if self.chance.one_in(40) { "XX" } else { self.chance.pick(&kinds) };
                let kind = self.value(json!({"S": kind}));
                format!("attribute_type({path}, {kind})")
            }
            9 => {
                let path = if self.chance.one_in(4) { self.path().0 } else { self.named(Usual::Text) };
                let start = if self.chance.one_in(25) {
                    self.value_like(Usual::Anything)
                } else {
                    let value = if self.chance.one_in(5) { json!({"B": "AQ=="}) } else { json!({"S": "a"}) };
                    self.value(value)
                };
                format!("begins_with({path}, {start})")
            }
            10 => {
                let usual = self.chance.pick(&[Usual::Strings, Usual::Numbers, Usual::List, Usual::Text]);
                let path = self.named(usual);
                let part = match usual {
                    Usual::Strings | Usual::Text => self.value_like(Usual::Text),
                    _ => self.value_like(Usual::Number),
                };
                format!("contains({path}, {part})")
            }
            11 => format!("NOT {}", self.condition(depth - 1)),
            12 | 13 => format!("{} AND {}", self.condition(depth - 1), self.condition(depth - 1)),
            14 => format!("{} OR {}", self.condition(depth - 1), self.condition(depth - 1)),
            _ => format!("({})", self.condition(depth - 1)),
        }
    }

    fn named(&mut self, usual: Usual) -> String {
        let name = self.attribute_of(usual);
        self.name(name)
    }

    fn operand(&mut self) -> (String, Usual) {
        if self.chance.one_in(8) {
            return (format!("size({})", self.path().0), Usual::Number);
        }
        self.path()
    }

    /// Something that has an order, as far as one can tell from its name.
    fn ordered_operand(&mut self) -> (String, Usual) {
        match self.chance.below(8) {
            0 => (format!("size({})", self.path().0), Usual::Number),
            1 => (self.nested_path(), Usual::Number),
            2 => {
                let (name, usual) = self.candidate();
                (self.name(name), usual)
            }
            3 | 4 => (self.named(Usual::Text), Usual::Text),
            _ => (self.named(Usual::Number), Usual::Number),
        }
    }

    fn comparison(&mut self) -> String {
        let comparator = self.chance.pick(&["=", "=", "<>", "<", "<=", ">", ">="]);
        let equality = matches!(comparator, "=" | "<>");
        let (left, usual) =
            if equality || self.chance.one_in(40) { self.operand() } else { self.ordered_operand() };
        match self.chance.below(10) {
            0 => {
                let right = self.operand().0;
                format!("{left} {comparator} {right}")
            }
            1 => {
                let value = self.value_like(usual);
                format!("{value} {comparator} {left}")
            }
            _ => {
                let value = self.value_like(usual);
                format!("{left} {comparator} {value}")
            }
        }
    }

    pub(crate) fn update(&mut self) -> String {
        let mut clauses = vec![];
        if self.chance.percent(70) {
            clauses.push(self.clause("SET", Self::set));
        }
        if self.chance.percent(25) {
            clauses.push(self.clause("REMOVE", |writer| writer.target(Usual::Anything)));
        }
        if self.chance.percent(25) {
            clauses.push(self.clause("ADD", Self::add));
        }
        if self.chance.percent(15) {
            clauses.push(self.clause("DELETE", Self::delete));
        }
        if clauses.is_empty() {
            clauses.push(self.clause("REMOVE", |writer| writer.target(Usual::Anything)));
        }
        if self.chance.one_in(100) {
            clauses.push(self.clause("SET", Self::set));
        }
        let first = self.chance.below(clauses.len());
        clauses.rotate_left(first);
        clauses.join(" ")
    }

    fn clause(&mut self, word: &str, action: impl Fn(&mut Self) -> String) -> String {
        let count = self.chance.pick(&[1, 1, 1, 1, 2, 2, 3]);
        let actions: Vec<String> = (0..count).map(|_| action(self)).collect();
        let word = if self.chance.one_in(20) { word.to_lowercase() } else { word.to_owned() };
        format!("{word} {}", actions.join(", "))
    }

    /// A path that mostly overlaps with none taken before.
    fn fresh(&mut self, mut path: impl FnMut(&mut Self) -> String) -> String {
        let mut attempts = 0;
        loop {
            let names = self.placeholders.names.clone();
            let path = path(self);
            let end = path.find(['.', '[']).unwrap_or(path.len());
            let head = path[..end].trim_start_matches('#').to_owned();
            attempts += 1;
            if !self.taken.contains(&head) || attempts == 8 || self.chance.one_in(40) {
                self.taken.push(head);
                return path;
            }
            self.placeholders.names = names;
        }
    }

    /// A path to write to.
    fn target(&mut self, usual: Usual) -> String {
        self.fresh(|writer| writer.any_target(usual))
    }

    /// Rarely a key of the table, which is refused.
    fn any_target(&mut self, usual: Usual) -> String {
        match self.chance.below(50) {
            0 if self.chance.one_in(3) => {
                let name = self.table.keys.partition[0].name;
                self.name(name)
            }
            1..=4 => {
                let name = self.candidate().0;
                self.name(name)
            }
            5..=9 => self.nested_path(),
            10..=16 if usual == Usual::Anything => {
                let name = self.attribute().0;
                self.name(name)
            }
            _ => self.named(usual),
        }
    }

    fn set(&mut self) -> String {
        match self.chance.below(10) {
            0..=2 => {
                let target = self.target(Usual::Number);
                let (left, right) = (self.number_operand(), self.number_operand());
                let sign = if self.chance.one_in(2) { "+" } else { "-" };
                format!("{target} = {left} {sign} {right}")
            }
            3 | 4 => {
                let target = self.target(Usual::List);
                let (left, right) = (self.list_operand(), self.list_operand());
                format!("{target} = list_append({left}, {right})")
            }
            5 => {
                let usual = self.plain_usual();
                let target = self.target(usual);
                let path = self.path().0;
                let value = self.value_like(usual);
                format!("{target} = if_not_exists({path}, {value})")
            }
            6 => {
                let (name, usual) = self.candidate();
                let target = self.fresh(|writer| writer.name(name));
                let value = self.value_like(usual);
                format!("{target} = {value}")
            }
            7 => {
                let (target, path) = (self.target(Usual::Anything), self.path().0);
                format!("{target} = {path}")
            }
            8 => {
                let (target, value) = (self.fresh(Self::nested_path), self.value_like(Usual::Anything));
                format!("{target} = {value}")
            }
            _ => {
                let usual = self.plain_usual();
                let (target, value) = (self.target(usual), self.value_like(usual));
                format!("{target} = {value}")
            }
        }
    }

    fn plain_usual(&mut self) -> Usual {
        self.chance.pick(&PLAIN).1
    }

    fn number_operand(&mut self) -> String {
        match self.chance.below(20) {
            0..=5 => self.named(Usual::Number),
            6..=12 => self.value_like(Usual::Number),
            13..=18 => {
                let path = self.named(Usual::Number);
                let value = self.value_like(Usual::Number);
                format!("if_not_exists({path}, {value})")
            }
            _ => self.path().0,
        }
    }

    fn list_operand(&mut self) -> String {
        match self.chance.below(20) {
            0..=5 => self.named(Usual::List),
            6..=12 => self.value_like(Usual::List),
            13..=18 => {
                let path = self.named(Usual::List);
                let value = self.value_like(Usual::List);
                format!("if_not_exists({path}, {value})")
            }
            _ => self.path().0,
        }
    }

    fn add(&mut self) -> String {
        let usual = self.chance.pick(&[
            Usual::Number,
            Usual::Number,
            Usual::Strings,
            Usual::Numbers,
            Usual::Binaries,
        ]);
        let (target, value) = (self.target(usual), self.value_like(usual));
        format!("{target} {value}")
    }

    fn delete(&mut self) -> String {
        let usual = self.chance.pick(&[Usual::Strings, Usual::Numbers, Usual::Binaries]);
        let (target, value) = (self.target(usual), self.value_like(usual));
        format!("{target} {value}")
    }

    pub(crate) fn projection(&mut self) -> String {
        let count = 1 + self.chance.below(4);
        self.taken.clear();
        let paths: Vec<String> = (0..count).map(|_| self.fresh(|writer| writer.path().0)).collect();
        paths.join(", ")
    }

    /// A condition on the keys of a table or an index: now and then one that cannot be.
    pub(crate) fn key_condition(&mut self, keys: &Keys) -> String {
        let mut terms: Vec<String> = vec![];
        for key in &keys.partition {
            let name = self.name(key.name);
            let value = self.key_value(*key);
            let comparator = if self.chance.one_in(100) { "<" } else { "=" };
            terms.push(if self.chance.one_in(15) && comparator == "=" {
                format!("{value} {comparator} {name}")
            } else {
                format!("{name} {comparator} {value}")
            });
        }
        if self.chance.one_in(80) {
            terms.pop();
        }
        let sorts = self.chance.below(keys.sort.len() + 1);
        for (position, key) in keys.sort.iter().take(sorts).enumerate() {
            let last = position + 1 == sorts;
            terms.push(if last || self.chance.one_in(40) { self.sort_term(*key) } else { self.equals(*key) });
        }
        if self.chance.one_in(80) {
            terms.push(self.condition(0));
        }
        if self.chance.one_in(6) {
            terms.reverse();
        }
        if self.chance.one_in(10) {
            terms = terms.into_iter().map(|term| format!("({term})")).collect();
        }
        let join = if self.chance.one_in(100) { " OR " } else { " AND " };
        terms.join(join)
    }

    fn key_value(&mut self, key: KeyAttribute) -> String {
        let value = values::of_key(self.chance, key);
        self.value(value)
    }

    fn equals(&mut self, key: KeyAttribute) -> String {
        let (name, value) = (self.name(key.name), self.key_value(key));
        format!("{name} = {value}")
    }

    fn sort_term(&mut self, key: KeyAttribute) -> String {
        match self.chance.below(8) {
            0 => self.equals(key),
            1 | 2 => {
                let (name, low, high) = (self.name(key.name), self.key_value(key), self.key_value(key));
                format!("{name} BETWEEN {low} AND {high}")
            }
            3 => {
                let (name, value) = (self.name(key.name), self.key_value(key));
                format!("begins_with({name}, {value})")
            }
            _ => {
                let comparator = self.chance.pick(&["<", "<=", ">", ">=", "<", ">", ">=", "<="]);
                let comparator = if self.chance.one_in(60) { "<>" } else { comparator };
                let (name, value) = (self.name(key.name), self.key_value(key));
                format!("{name} {comparator} {value}")
            }
        }
    }
}

/// The keys a query is on.
pub(crate) fn keys_of<'a>(table: &'a Table, index: Option<&'a Index>) -> &'a Keys {
    index.map_or(&table.keys, |index| &index.keys)
}
