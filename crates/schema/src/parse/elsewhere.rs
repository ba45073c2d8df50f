//! Types as other languages write them, each with what to write here: `string[]`, `enum(a, b)`, `varchar(20)`.

use super::{Parser, template_parts};
use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::token::TokenKind;

impl Parser<'_> {
    /// What other languages write behind a type: `string[]`, `list<string>`, `enum("a", "b")`, `string | null`.
    /// It is reported with what to write here, and taken for that, so that nothing else seems wrong.
    pub(super) fn as_elsewhere(&mut self, mut read: TypeRef) -> Option<TypeRef> {
        loop {
            let TypeKind::Named(name, _) = &read.kind else { return Some(read) };
            let name = name.text.clone();
            let start = read.span;
            let is_choice = matches!(name.to_lowercase().as_str(), "enum" | "choice" | "literal" | "oneof");
            let what = match self.peek() {
                TokenKind::Mark("(" | "[" | "{") if is_choice => {
                    let (kind, help) = self.choices_elsewhere()?;
                    read = TypeRef { kind, optional: false, span: start };
                    help
                }
                TokenKind::Mark("[") if self.mark_follows("]") => {
                    self.step();
                    self.step();
                    read = TypeRef { kind: TypeKind::List(Box::new(read)), optional: false, span: start };
                    format!("write `[{name}]` for a list")
                }
                TokenKind::Mark(open @ ("<" | "[")) => {
                    self.step();
                    let mut inner = self.type_ref()?;
                    let within = self.text[inner.span.range()].to_owned();
                    while self.take_mark(",") {
                        inner = self.type_ref()?;
                    }
                    let (close, wanted) = if open == "<" { (">", "`>`") } else { ("]", "`]`") };
                    self.mark(close, wanted)?;
                    let last = self.text[inner.span.range()].to_owned();
                    let lower = name.to_lowercase();
                    let (kind, help) = match lower.as_str() {
                        "option" | "optional" | "maybe" | "nullable" => {
                            let help = format!("write `{within}?` for what may be missing");
                            read = TypeRef { optional: true, ..inner };
                            (None, help)
                        }
                        _ if lower.ends_with("set") => {
                            (Some(TypeKind::Set(Box::new(inner))), format!("write `set<{within}>` for a set"))
                        }
                        "dict" | "dictionary" | "record" | "object" => (
                            Some(TypeKind::Map(Box::new(inner))),
                            format!("write `map<string, {last}>` for a map"),
                        ),
                        _ if lower.ends_with("map") => (
                            Some(TypeKind::Map(Box::new(inner))),
                            format!("write `map<string, {last}>` for a map"),
                        ),
                        _ => {
                            (Some(TypeKind::List(Box::new(inner))), format!("write `[{within}]` for a list"))
                        }
                    };
                    if let Some(kind) = kind {
                        read = TypeRef { kind, optional: false, span: start };
                    }
                    help
                }
                TokenKind::Mark("(") => {
                    self.skip_brackets();
                    let lower = name.to_lowercase();
                    if lower.contains("char") || matches!(lower.as_str(), "string" | "text" | "str") {
                        read.kind = TypeKind::Named(Name { text: "string".to_owned(), span: start }, None);
                        "write `string`, or `string len ..=200` for a length".to_owned()
                    } else {
                        read.kind = TypeKind::Named(Name { text: "json".to_owned(), span: start }, None);
                        format!(
                            "a type takes nothing in brackets; write `{lower}` alone, or a check behind it"
                        )
                    }
                }
                TokenKind::Mark("|") => {
                    self.step();
                    let other = self.name("a type")?;
                    read.optional = true;
                    if matches!(other.text.as_str(), "null" | "undefined" | "None" | "none" | "nil") {
                        format!("write `{name}?` for what may be missing")
                    } else {
                        "a field has one type; `json` holds anything".to_owned()
                    }
                }
                _ => return Some(read),
            };
            let span = start.to(self.before());
            let written = self.text[span.range()].to_owned();
            self.report(
                Diagnostic::new("L0003", span, format!("a type is not written `{written}`")).help(what),
            );
        }
    }

    /// `("a", "b")`, `("a" | "b")`, `[a, b]` or `{ a, b }`: what it stands for, and how it is written here.
    fn choices_elsewhere(&mut self) -> Option<(TypeKind, String)> {
        let first = self.at + 1;
        self.skip_brackets();
        let (mut texts, mut choices) = (Vec::new(), Vec::new());
        for token in &self.tokens[first..self.at] {
            let written = &self.text[token.span.range()];
            let text = match token.kind {
                TokenKind::Text => written.to_owned(),
                TokenKind::Word | TokenKind::Number => format!("\"{written}\""),
                _ => continue,
            };
            choices.push(Template { parts: template_parts(&text, token.span).ok()?, span: token.span });
            texts.push(text);
        }
        if texts.is_empty() {
            self.unexpected("a text");
            return None;
        }
        Some((TypeKind::Choice(choices), format!("write `{}` for one of some texts", texts.join(" | "))))
    }

    /// To behind the bracket that closes the one that is here, or to the end of the line.
    fn skip_brackets(&mut self) {
        let mut depth = 0_usize;
        while !matches!(self.peek(), TokenKind::Newline | TokenKind::End) {
            match self.peek() {
                TokenKind::Mark("(" | "[" | "{") => depth += 1,
                TokenKind::Mark(")" | "]" | "}") => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.step();
            if depth == 0 {
                return;
            }
        }
    }
}
