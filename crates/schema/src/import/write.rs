//! A draft of a schema → its text, laid out as `larder fmt` does.

use std::fmt::Write as _;

use larder_model as model;

use crate::schema::{Naming, ParamPart, ParamText};

/// Characters of a comment, beyond which it is broken at a space.
const COMMENT_CHARS_MAX: usize = 110;

/// A schema that is about to be written. Its parts are checked once they are text.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) head: Vec<String>,
    pub(super) system: String,
    pub(super) naming: Naming,
    /// Name, default, variable.
    pub(super) params: Vec<(String, String, Option<String>)>,
    pub(super) tables: Vec<TableDraft>,
    pub(super) definitions: Vec<Definition>,
    /// What stands below everything else.
    pub(super) tail: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TableDraft {
    pub(super) notes: Vec<String>,
    pub(super) name: String,
    /// `name "…"` and what else is said of the table, as words and values.
    pub(super) settings: Vec<(String, String)>,
    pub(super) indexes: Vec<String>,
    pub(super) entities: Vec<EntityDraft>,
    /// Name and members.
    pub(super) collections: Vec<(String, Vec<String>)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct EntityDraft {
    pub(super) notes: Vec<String>,
    pub(super) name: String,
    pub(super) key: Option<String>,
    pub(super) ttl: Option<String>,
    pub(super) lines: Vec<Line>,
}

/// What a map becomes. It keeps members that it does not know.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) lines: Vec<Line>,
}

/// A field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line {
    pub(super) is_input: bool,
    pub(super) name: String,
    /// Its stored name, where that does not follow from its own.
    pub(super) stored: Option<String>,
    pub(super) kind: String,
    pub(super) optional: bool,
    pub(super) checks: Vec<String>,
    pub(super) equation: Option<String>,
    pub(super) note: Option<String>,
}

impl Line {
    pub(super) fn new(name: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { name: name.into(), kind: kind.into(), ..Self::default() }
    }

    /// Adds a check, unless it is there. What matches a pattern is not empty.
    pub(super) fn check(&mut self, check: &str) {
        let matches = |check: &str| check.starts_with("match ");
        let said = self.checks.iter().any(|known| known == check || (check == "nonempty" && matches(known)));
        if !said {
            self.checks.retain(|known| !(matches(check) && known == "nonempty"));
            self.checks.push(check.to_owned());
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.is_input {
            text.push_str("input ");
        }
        text.push_str(&self.name);
        if let Some(stored) = &self.stored {
            let _ = write!(text, " as {}", quoted(stored));
        }
        match &self.equation {
            Some(equation) => {
                let _ = write!(text, " = {equation}");
            }
            None => {
                let _ = write!(text, ": {}{}", self.kind, if self.optional { "?" } else { "" });
                for check in &self.checks {
                    let _ = write!(text, " {check}");
                }
            }
        }
        if let Some(note) = &self.note {
            let _ = write!(text, "  // {}", plain(note));
        }
        text
    }
}

impl Draft {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        comment(&mut text, &self.head);
        let _ = writeln!(text, "\nsystem {}\n", self.system);
        match self.naming {
            Naming::Same => {}
            Naming::Camel => text.push_str("naming camel  // like_this here, likeThis in the store\n\n"),
            Naming::Pascal => {
                text.push_str("naming pascal  // like_this here, LikeThis in the store\n\n");
            }
        }
        for (name, default, variable) in &self.params {
            let from = variable.as_ref().map_or_else(String::new, |variable| format!(" from {variable}"));
            let _ = writeln!(text, "param {name}: string = {}{from}", quoted(default));
        }
        for table in &self.tables {
            text.push('\n');
            table.write(&mut text);
        }
        for Definition { name, lines } in &self.definitions {
            let _ = writeln!(text, "\ntype {name} {{");
            for line in lines {
                let _ = writeln!(text, "{}", line.text());
            }
            text.push_str("..\n}\n");
        }
        if !self.tail.is_empty() {
            text.push('\n');
            comment(&mut text, &self.tail);
        }
        crate::format(&text)
    }
}

impl TableDraft {
    fn write(&self, text: &mut String) {
        comment(text, &self.notes);
        let _ = writeln!(text, "table {} {{", self.name);
        for (word, value) in &self.settings {
            let _ = writeln!(text, "{word} {value}");
        }
        if !self.indexes.is_empty() {
            text.push('\n');
        }
        for index in &self.indexes {
            let _ = writeln!(text, "index {index}");
        }
        for entity in &self.entities {
            text.push('\n');
            entity.write(text);
        }
        for (name, members) in &self.collections {
            let _ = writeln!(
                text,
                "\n// Guessed: these are found in one partition.\ncollection {name} {{ {} }}",
                members.join(", ")
            );
        }
        text.push_str("}\n");
    }
}

impl EntityDraft {
    fn write(&self, text: &mut String) {
        comment(text, &self.notes);
        let _ = writeln!(text, "entity {} {{", self.name);
        if let Some(key) = &self.key {
            let _ = writeln!(text, "key {key}");
        }
        if let Some(ttl) = &self.ttl {
            let _ = writeln!(text, "ttl {ttl}");
        }
        if self.key.is_some() || self.ttl.is_some() {
            text.push('\n');
        }
        for line in &self.lines {
            let _ = writeln!(text, "{}", line.text());
        }
        text.push_str("}\n");
    }
}

/// A text of the language.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' | '{' | '}' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out
}

/// A text with params in it.
pub(super) fn param_text(text: &ParamText) -> String {
    if let [ParamPart::Param(name)] = text.0.as_slice() {
        return name.clone();
    }
    let parts = text.0.iter().map(|part| match part {
        ParamPart::Text(text) => escaped(text),
        ParamPart::Param(name) => format!("{{{name}}}"),
    });
    format!("\"{}\"", parts.collect::<String>())
}

pub(super) fn billing(billing: model::Billing) -> String {
    match billing {
        model::Billing::OnDemand => "on_demand".to_owned(),
        model::Billing::Provisioned(units) => {
            format!("provisioned {} / {}", units.read.clamp(1, 1_000_000), units.write.clamp(1, 1_000_000))
        }
    }
}

pub(super) fn stream(view: model::StreamView) -> &'static str {
    match view {
        model::StreamView::KeysOnly => "keys",
        model::StreamView::NewImage => "new",
        model::StreamView::OldImage => "old",
        model::StreamView::NewAndOldImages => "both",
    }
}

/// Lines of a comment, whatever is in them. An empty one parts two thoughts.
fn comment(text: &mut String, lines: &[String]) {
    for line in lines {
        let mut row = String::new();
        for word in plain(line).split(' ') {
            if !row.is_empty() && row.chars().count() + word.chars().count() > COMMENT_CHARS_MAX {
                let _ = writeln!(text, "// {}", row.trim_end());
                row.clear();
            }
            row.push_str(word);
            row.push(' ');
        }
        let _ = writeln!(text, "{}", format!("// {}", row.trim_end()).trim_end());
    }
}

/// A comment is one line, and ends.
fn plain(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(2000).collect();
    line.trim_end().to_owned()
}
