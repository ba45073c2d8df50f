//! Tokens → tree: the grammar, nothing else.
//!
//! After an error the parser skips to the end of the statement and goes on, so one run finds them all. It
//! never panics and never recurses deeper than [`DEPTH_MAX`].

mod elsewhere;

use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::limits::{DEPTH_MAX, DIAGNOSTICS_MAX, FILE_BYTES_MAX};
use crate::resolve::settings::{Place, SETTINGS};
use crate::span::Span;
use crate::token::{Token, TokenKind, tokens};

/// Parses one file. What could be read is in the tree, what could not is in the diagnostics.
pub fn parse(text: &str) -> (Tree, Vec<Diagnostic>) {
    parse_file(0, text)
}

pub(crate) fn parse_file(file: u32, text: &str) -> (Tree, Vec<Diagnostic>) {
    if text.len() > FILE_BYTES_MAX {
        let problem = Diagnostic::new("L0005", Span::new(file, 0, 0), "this file is too large")
            .note(format!("it has {} bytes; a schema has at most {FILE_BYTES_MAX}", text.len()))
            .help("split it with `include`");
        return (Tree::default(), vec![problem]);
    }
    let (all, mut diagnostics) = tokens(file, text);
    let mut kept = significant(text, &all, &mut diagnostics);
    close_by_layout(text, &mut kept, &mut diagnostics);
    let mut parser = Parser { text, tokens: kept, at: 0, depth: 0, diagnostics };
    let items = parser.file();
    let mut diagnostics = parser.diagnostics;
    diagnostics.sort_by_key(|diagnostic| diagnostic.span);
    diagnostics.truncate(DIAGNOSTICS_MAX);
    (Tree { items, tokens: all }, diagnostics)
}

/// An expression from a setting's words, such as the time an entity lives.
pub(crate) fn parse_expression(text: &str, words: &[Token]) -> Result<Expr, Vec<Diagnostic>> {
    let end = words.last().map_or(Span::default(), |token| Span { start: token.span.end, ..token.span });
    let mut tokens = words.to_vec();
    tokens.push(Token { kind: TokenKind::End, span: end });
    let mut parser = Parser { text, tokens, at: 0, depth: 0, diagnostics: Vec::new() };
    match parser.expression() {
        Some(expression) if parser.peek() == TokenKind::End => Ok(expression),
        Some(_) => {
            parser.unexpected("the end of the line");
            Err(parser.diagnostics)
        }
        None => Err(parser.diagnostics),
    }
}

/// One literal from the front of a setting's words, and how many words it took.
pub(crate) fn parse_literal(text: &str, words: &[Token]) -> Result<(Literal, usize), Vec<Diagnostic>> {
    let end = words.last().map_or(Span::default(), |token| Span { start: token.span.end, ..token.span });
    let mut tokens = words.to_vec();
    tokens.push(Token { kind: TokenKind::End, span: end });
    let mut parser = Parser { text, tokens, at: 0, depth: 0, diagnostics: Vec::new() };
    match parser.literal() {
        Some(literal) => Ok((literal, parser.at)),
        None => Err(parser.diagnostics),
    }
}

/// Drops comments, and the ends of lines that do not end a statement.
fn significant(text: &str, all: &[Token], diagnostics: &mut Vec<Diagnostic>) -> Vec<Token> {
    let mut kept: Vec<Token> = Vec::with_capacity(all.len());
    let mut line_is_empty = true;
    for token in all {
        match token.kind {
            TokenKind::Comment => continue,
            TokenKind::Doc if !line_is_empty => {
                diagnostics.push(
                    Diagnostic::new("L0009", token.span, "this documents nothing")
                        .note("`///` documents the item below it, and stands on a line of its own")
                        .help("write `//` for a comment, or move it above the line"),
                );
                continue;
            }
            TokenKind::Newline => {
                line_is_empty = true;
                let continues = kept.last().is_none_or(|last| {
                    matches!(
                        last.kind,
                        TokenKind::Newline | TokenKind::Doc | TokenKind::Mark("," | "|" | "{" | "[")
                    )
                });
                if continues {
                    continue;
                }
            }
            _ => line_is_empty = false,
        }
        kept.push(token.clone());
    }
    debug_assert!(kept.last().is_some_and(|last| last.span.end as usize == text.len()));
    kept
}

/// Where more blocks are opened than closed, the layout says which: a line that begins no further right than
/// the line that opened a block is not in it. Such blocks are reported and closed there, so that what follows
/// is read as what it is. When the layout does not account for every missing `}`, nothing is done.
fn close_by_layout(text: &str, kept: &mut Vec<Token>, diagnostics: &mut Vec<Diagnostic>) {
    let count = |mark| kept.iter().filter(|token| token.kind == TokenKind::Mark(mark)).count();
    let missing = count("{").saturating_sub(count("}"));
    if missing == 0 || missing > DIAGNOSTICS_MAX {
        return;
    }
    let mut open: Vec<(Span, usize)> = Vec::new();
    let (mut line_indent, mut end) = (0, 0);
    let mut closed = Vec::new();
    for (at, token) in kept.iter().enumerate() {
        let gap = &text[end..token.span.range().start];
        let first_column = match (at, gap.rfind('\n')) {
            (_, Some(newline)) => Some(gap[newline + 1..].chars().count()),
            (0, None) => Some(gap.chars().count()),
            // The line before ended in a token of its own.
            (_, None) if kept[at - 1].kind == TokenKind::Newline => Some(gap.chars().count()),
            _ => None,
        };
        end = token.span.range().end;
        let is_brace = token.kind == TokenKind::Mark("}");
        if let Some(column) = first_column
            && !matches!(token.kind, TokenKind::Newline | TokenKind::End)
        {
            line_indent = column;
            while let Some((opened, opener_indent)) = open.last().copied() {
                let is_outside = if is_brace { column < opener_indent } else { column <= opener_indent };
                if !is_outside {
                    break;
                }
                closed.push((at, opened));
                open.pop();
            }
        }
        match token.kind {
            TokenKind::Mark("{") => open.push((token.span, line_indent)),
            TokenKind::Mark("}") => drop(open.pop()),
            TokenKind::End => closed.extend(open.drain(..).rev().map(|(opened, _)| (at, opened))),
            _ => {}
        }
    }
    if closed.len() != missing {
        return;
    }
    let mut closed = closed.into_iter().peekable();
    for (at, token) in std::mem::take(kept).into_iter().enumerate() {
        while let Some((_, opened)) = closed.next_if(|(before, _)| *before == at) {
            let span = Span { end: token.span.start, ..token.span };
            let mut problem = Diagnostic::new("L0004", opened, "this block is never closed")
                .label("opened here")
                .help("add a `}`");
            if token.kind != TokenKind::End {
                problem = problem.other(token.span, "laid out as not in it: the `}` is missing before this");
            }
            diagnostics.push(problem);
            kept.push(Token { kind: TokenKind::Mark("}"), span });
            kept.push(Token { kind: TokenKind::Newline, span });
        }
        kept.push(token);
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    diagnostics: Vec<Diagnostic>,
}

// ---- the grammar ----

impl Parser<'_> {
    fn file(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        loop {
            let docs = self.docs();
            match self.peek() {
                TokenKind::End => {
                    self.unused_docs(&docs);
                    return items;
                }
                TokenKind::Newline => self.step(),
                TokenKind::Mark("}") => {
                    let span = self.span();
                    self.report(Diagnostic::new("L0004", span, "this `}` closes nothing").help("remove it"));
                    self.step();
                }
                _ => match self.item(docs) {
                    Some(item) => {
                        items.push(item);
                        self.end_of_statement();
                    }
                    None => self.recover(),
                },
            }
        }
    }

    fn item(&mut self, docs: Docs) -> Option<Item> {
        let word = self.name("a statement")?;
        let next_is_word = self.peek() == TokenKind::Word;
        Some(match word.text.as_str() {
            "system" if next_is_word => Item::System { name: self.name("a name")?, docs },
            "include" => Item::Include { path: self.template("the path of a file")? },
            "param" if next_is_word => Item::Param(self.param(docs)?),
            "type" if next_is_word => Item::Type(self.type_item(docs)?),
            "source" if next_is_word => {
                let name = self.name("a name")?;
                let settings =
                    if self.peek() == TokenKind::Mark("{") { self.settings_block()? } else { vec![] };
                Item::Source { name, settings, docs }
            }
            "table" if next_is_word => Item::Table(self.table(docs)?),
            _ => return self.block_or_setting(word, docs),
        })
    }

    fn block_or_setting(&mut self, name: Name, docs: Docs) -> Option<Item> {
        self.no_mark_after(&name, Place::File)?;
        let values = self.words_until_line_end();
        if self.peek() != TokenKind::Mark("{") {
            let span = values.last().map_or(name.span, |last| name.span.to(last.span));
            return Some(Item::Setting(Setting { name, values, span }));
        }
        let settings = if name.text == "grant" { self.grant_block()? } else { self.settings_block()? };
        Some(Item::Block(Block { name, values, settings, docs }))
    }

    /// `param stage: string = "dev" from ENVIRONMENT in hours`
    fn param(&mut self, docs: Docs) -> Option<Param> {
        let name = self.name("a name")?;
        self.mark(":", "`:` and a type")?;
        let kind = self.name("a type")?;
        self.mark("=", "`=` and a default")?;
        let default = self.literal()?;
        let variable =
            if self.word("from") { Some(self.name("the name of an environment variable")?) } else { None };
        let unit = if variable.is_some() && self.word("in") { Some(self.name("a unit")?) } else { None };
        Some(Param { name, kind, default, variable, unit, docs })
    }

    fn type_item(&mut self, docs: Docs) -> Option<TypeItem> {
        let name = self.name("a name")?;
        let open_brace = self.span();
        self.mark("{", "`{`")?;
        let mut item = TypeItem { name, fields: Vec::new(), open: false, docs };
        loop {
            let docs = self.docs();
            match self.peek() {
                TokenKind::Mark("}") => {
                    self.unused_docs(&docs);
                    self.step();
                    return Some(item);
                }
                TokenKind::End => return self.unclosed(open_brace),
                TokenKind::Newline | TokenKind::Mark(",") => self.step(),
                TokenKind::Mark("..") => {
                    item.open = true;
                    self.step();
                }
                _ => match self.data(docs) {
                    Some(data) => {
                        item.fields.push(data);
                        if self.peek() != TokenKind::Mark(",") {
                            self.end_of_statement();
                        }
                    }
                    None => self.recover_in_list(),
                },
            }
        }
    }

    fn table(&mut self, docs: Docs) -> Option<Table> {
        let name = self.name("a name")?;
        let open_brace = self.span();
        self.mark("{", "`{`")?;
        let mut table = Table {
            name,
            key: None,
            second_key: None,
            settings: Vec::new(),
            indexes: Vec::new(),
            entities: Vec::new(),
            collections: Vec::new(),
            docs,
        };
        loop {
            let docs = self.docs();
            match self.peek() {
                TokenKind::Mark("}") => {
                    self.unused_docs(&docs);
                    self.step();
                    return Some(table);
                }
                TokenKind::End => return self.unclosed(open_brace).or(Some(table)),
                TokenKind::Newline => self.step(),
                _ => {
                    if self.table_statement(&mut table, docs).is_some() {
                        self.end_of_statement();
                    } else {
                        self.recover();
                    }
                }
            }
        }
    }

    fn table_statement(&mut self, table: &mut Table, docs: Docs) -> Option<()> {
        let word = self.name("a setting, `key`, `index`, `entity` or `collection`")?;
        self.no_mark_after(&word, Place::Table)?;
        match word.text.as_str() {
            "key" => {
                let key = self.key(word.span)?;
                if table.key.is_some() {
                    table.second_key = Some(key.span);
                } else {
                    table.key = Some(key);
                }
            }
            "index" => {
                let index = self.index(docs)?;
                table.indexes.push(index);
            }
            "entity" => {
                let entity = self.entity(docs)?;
                table.entities.push(entity);
            }
            "collection" => {
                let name = self.name("a name")?;
                let open_brace = self.span();
                self.mark("{", "`{`")?;
                let members = self.names_until_brace(open_brace)?;
                table.collections.push(Collection { name, members, docs });
            }
            _ => table.settings.push(self.setting(word)),
        }
        Some(())
    }

    fn key(&mut self, start: Span) -> Option<Key> {
        let partition = self.key_part()?;
        let sort = if self.take_mark("/") { Some(self.key_part()?) } else { None };
        Some(Key { partition, sort, span: start.to(self.before()) })
    }

    fn key_part(&mut self) -> Option<KeyPart> {
        if self.peek() == TokenKind::Text {
            return Some(KeyPart::Template(self.template("a template")?));
        }
        let mut names = Vec::new();
        loop {
            let name = self.name("an attribute or a template")?;
            let kind = if self.take_mark(":") { Some(self.name("a type")?) } else { None };
            names.push((name, kind));
            if !self.take_mark(",") {
                return Some(KeyPart::Names(names));
            }
        }
    }

    /// `index Name as alias  pk / sk  project all  hot`. A name in quotes is for the store alone: programs need another.
    fn index(&mut self, docs: Docs) -> Option<Index> {
        let is_quoted = self.peek() == TokenKind::Text;
        let name = if is_quoted {
            let template = self.template("the index's name")?;
            Name { text: template.plain().unwrap_or_default(), span: template.span }
        } else {
            self.name("the index's name")?
        };
        let alias = match self.word("as") {
            true => Some(self.name("a name")?),
            false if is_quoted => {
                self.unexpected("`as` and a name for programs");
                return None;
            }
            false => None,
        };
        let start = self.span();
        let key = self.key(start)?;
        let projection = if self.word("project") { Some(self.projection()?) } else { None };
        let hot = self.word("hot");
        Some(Index { name, alias, key, projection, hot, docs })
    }

    fn projection(&mut self) -> Option<Projection> {
        let mut names = vec![self.name("`all`, `keys` or attribute names")?];
        while self.take_mark(",") {
            names.push(self.name("an attribute")?);
        }
        Some(match names[0].text.as_str() {
            "all" if names.len() == 1 => Projection::All,
            "keys" if names.len() == 1 => Projection::Keys,
            _ => Projection::Names(names),
        })
    }

    fn entity(&mut self, docs: Docs) -> Option<Entity> {
        let name = self.name("a name")?;
        let source = if self.word("from") { Some(self.name("a source")?) } else { None };
        let open_brace = self.span();
        self.mark("{", "`{`")?;
        let mut entity = Entity {
            name,
            source,
            key: None,
            settings: Vec::new(),
            fields: Vec::new(),
            lifecycles: Vec::new(),
            docs,
        };
        loop {
            let docs = self.docs();
            match self.peek() {
                TokenKind::Mark("}") => {
                    self.unused_docs(&docs);
                    self.step();
                    return Some(entity);
                }
                TokenKind::End => return self.unclosed(open_brace).or(Some(entity)),
                TokenKind::Newline => self.step(),
                _ => {
                    if self.entity_statement(&mut entity, docs).is_some() {
                        self.end_of_statement();
                    } else {
                        self.recover();
                    }
                }
            }
        }
    }

    fn entity_statement(&mut self, entity: &mut Entity, docs: Docs) -> Option<()> {
        if self.is_data() {
            let data = self.data(docs)?;
            entity.fields.push(data);
            return Some(());
        }
        let word = self.name("a setting, a value, an equation, `key` or `lifecycle`")?;
        match word.text.as_str() {
            "key" => {
                let key = self.key(word.span)?;
                if entity.key.is_some() {
                    self.report(
                        Diagnostic::new("L0202", key.span, "this entity has two keys")
                            .help("keep one of them"),
                    );
                } else {
                    entity.key = Some(key);
                }
            }
            "lifecycle" if self.peek() == TokenKind::Word => {
                let lifecycle = self.lifecycle(docs)?;
                entity.lifecycles.push(lifecycle);
            }
            _ => entity.settings.push(self.setting(word)),
        }
        Some(())
    }

    /// Whether the statement here is a value or an equation. Keywords are contextual: `key: string` is a value.
    fn is_data(&self) -> bool {
        let kind = |n: usize| self.tokens.get(self.at + n).map(|token| token.kind);
        let text = |n: usize| self.tokens.get(self.at + n).map_or("", |token| &self.text[token.span.range()]);
        let opens = |n: usize| matches!(kind(n), Some(TokenKind::Mark(":" | "=")));
        if kind(0) != Some(TokenKind::Word) {
            return false;
        }
        opens(1)
            || (matches!(text(0), "input" | "let") && kind(1) == Some(TokenKind::Word))
            || (text(1) == "as" && opens(3))
    }

    fn data(&mut self, docs: Docs) -> Option<Data> {
        let start = self.span();
        let second_is_word = self.tokens.get(self.at + 1).is_some_and(|token| token.kind == TokenKind::Word);
        let second_is_as = second_is_word && self.token_text(self.at + 1) == "as";
        let role = match self.current_text() {
            "input" if second_is_word && !second_is_as => Role::Input,
            "let" if second_is_word && !second_is_as => Role::Let,
            _ => Role::Stored,
        };
        if role != Role::Stored {
            self.step();
        }
        let name = self.name("a name")?;
        let stored_as = if self.word("as") {
            Some(if self.peek() == TokenKind::Text {
                let template = self.template("a name")?;
                Name { text: template.plain().unwrap_or_default(), span: template.span }
            } else {
                self.name("the stored name")?
            })
        } else {
            None
        };
        let (mut kind, mut checks) = (None, Vec::new());
        if self.take_mark(":") {
            if self.peek() == TokenKind::Number
                && SETTINGS.iter().any(|rule| rule.place == Place::Entity && rule.name == name.text)
            {
                self.at -= 1;
                return self.no_mark_after(&name, Place::Source).and(None);
            }
            kind = Some(self.type_ref()?);
            while let Some(check) = self.check()? {
                checks.push(check);
            }
        }
        let mut equation = None;
        if self.take_mark("=") {
            equation = Some(self.expression()?);
        }
        let on_create = equation.is_some() && self.word("on");
        if on_create && !self.word("create") {
            self.unexpected("`create`");
            return None;
        }
        if kind.is_none() && equation.is_none() {
            self.unexpected("`:` and a type, or `=` and an expression");
            return None;
        }
        Some(Data {
            role,
            name,
            stored_as,
            kind,
            checks,
            equation,
            on_create,
            docs,
            span: start.to(self.before()),
        })
    }

    fn type_ref(&mut self) -> Option<TypeRef> {
        self.deeper()?;
        let start = self.span();
        let kind = match self.peek() {
            TokenKind::Mark("[") => {
                self.step();
                let inner = self.type_ref()?;
                self.mark("]", "`]`")?;
                TypeKind::List(Box::new(inner))
            }
            TokenKind::Text => {
                let mut choices = vec![self.template("a text")?];
                while self.take_mark("|") {
                    choices.push(self.template("a text")?);
                }
                TypeKind::Choice(choices)
            }
            _ if matches!(self.current_text(), "set" | "map") && self.mark_follows("<") => {
                let is_map = self.current_text() == "map";
                self.step();
                self.step();
                let kind = if is_map {
                    TypeKind::Map(self.map_value()?)
                } else {
                    TypeKind::Set(Box::new(self.type_ref()?))
                };
                self.mark(">", "`>`")?;
                kind
            }
            _ => {
                let name = self.name("a type")?;
                let precise = match (name.text.as_str(), self.current_text()) {
                    ("instant", "s" | "ms" | "us") | ("uuid", "v4") => Some(self.name("a precision")?),
                    _ => None,
                };
                TypeKind::Named(name, precise)
            }
        };
        let read = TypeRef { kind, optional: false, span: start.to(self.before()) };
        let read = self.as_elsewhere(read)?;
        let optional = self.take_mark("?") || read.optional;
        self.depth -= 1;
        Some(TypeRef { optional, span: start.to(self.before()), ..read })
    }

    /// `string, int` of `map<string, int>`
    fn map_value(&mut self) -> Option<Box<TypeRef>> {
        let first = self.type_ref()?;
        let written = self.text[first.span.range()].to_owned();
        if !self.take_mark(",") {
            self.report(
                Diagnostic::new("L0003", first.span, "a map goes from one type to another")
                    .help(format!("write `map<string, {written}>`")),
            );
            return Some(Box::new(first));
        }
        let value = Box::new(self.type_ref()?);
        let is_string = matches!(&first.kind, TypeKind::Named(name, _) if name.text == "string");
        if !is_string || first.optional {
            let values = self.text[value.span.range()].to_owned();
            self.report(
                Diagnostic::new("L0003", first.span, format!("the names in a map are no `{written}`"))
                    .note("DynamoDB's maps go from texts to values")
                    .help(format!("write `map<string, {values}>`")),
            );
        }
        Some(value)
    }

    /// `Some(None)` when there is no further check.
    fn check(&mut self) -> Option<Option<Check>> {
        self.skip_unknown_checks();
        if self.peek() != TokenKind::Word {
            return Some(None);
        }
        let start = self.span();
        let word = self.current_text().to_owned();
        self.step();
        let kind = match word.as_str() {
            "match" => {
                if self.peek() != TokenKind::Regex {
                    self.unexpected("a regular expression between slashes");
                    return None;
                }
                let raw = self.current_text();
                let pattern = raw[1..raw.len() - 1].replace("\\/", "/");
                self.step();
                CheckKind::Match(pattern)
            }
            "in" => CheckKind::In(self.range()?),
            "len" => CheckKind::Len(self.range()?),
            "positive" => CheckKind::Positive,
            "nonempty" => CheckKind::Nonempty,
            "lower" => CheckKind::Lower,
            "upper" => CheckKind::Upper,
            "secret" => CheckKind::Secret,
            "default" => CheckKind::Default(self.literal()?),
            "valid" => {
                let lasts = self.literal()?;
                if !self.word("from") {
                    self.unexpected("`from` and the field it counts from");
                    return None;
                }
                CheckKind::Valid { lasts, from: self.name("a field")? }
            }
            _ => return Some(None),
        };
        Some(Some(Check { kind, span: start.to(self.before()) }))
    }

    /// Reports words that are no checks. The field stands without them, so that nothing else seems wrong.
    fn skip_unknown_checks(&mut self) {
        const KNOWN: [&str; 10] =
            ["match", "in", "len", "positive", "nonempty", "lower", "upper", "secret", "default", "valid"];
        while self.peek() == TokenKind::Word && !KNOWN.contains(&self.current_text()) {
            let word = self.current_text().to_owned();
            let unknown = Diagnostic::new("L0205", self.span(), format!("there is no check called `{word}`"));
            self.report(unknown.did_you_mean(&word, KNOWN));
            self.step();
        }
    }

    fn range(&mut self) -> Option<Range> {
        let start = self.span();
        let from = if self.at_literal() { Some(self.literal()?) } else { None };
        let inclusive = match self.peek() {
            TokenKind::Mark("..=") => true,
            TokenKind::Mark("..") => false,
            _ => {
                self.unexpected("a range such as `1..=53` or `0..`");
                return None;
            }
        };
        self.step();
        let to = if self.at_literal() { Some(self.literal()?) } else { None };
        let span = start.to(self.before());
        if inclusive && to.is_none() {
            self.report(
                Diagnostic::new("L0003", span, "`..=` needs an end")
                    .help("write `0..` for a range without one"),
            );
            return None;
        }
        Some(Range { from, to, inclusive, span })
    }

    fn at_literal(&self) -> bool {
        matches!(self.peek(), TokenKind::Number | TokenKind::Mark("-") | TokenKind::Text)
    }

    fn literal(&mut self) -> Option<Literal> {
        let start = self.span();
        let negative = self.take_mark("-");
        let kind = match self.peek() {
            TokenKind::Number => {
                let text = self.current_text().to_owned();
                let span = self.span();
                self.step();
                match number_literal(&text, negative) {
                    Ok(kind) => kind,
                    Err(problem) => {
                        let mut diagnostic = Diagnostic::new("L0006", start.to(span), problem)
                            .note("durations are in ms, s, m, h, d, w; sizes in B, KB, MB, GB, TB; money starts with $")
                            .note("a KB has 1024 bytes, as DynamoDB counts");
                        let unit: String = text
                            .trim_start_matches(|c: char| c.is_ascii_digit() || "_.$".contains(c))
                            .to_owned();
                        let units = [
                            ("sec", "s"),
                            ("secs", "s"),
                            ("second", "s"),
                            ("seconds", "s"),
                            ("min", "m"),
                            ("mins", "m"),
                            ("minutes", "m"),
                            ("hour", "h"),
                            ("hours", "h"),
                            ("hr", "h"),
                            ("day", "d"),
                            ("days", "d"),
                            ("D", "d"),
                            ("H", "h"),
                            ("week", "w"),
                            ("weeks", "w"),
                            ("kb", "KB"),
                            ("kB", "KB"),
                            ("mb", "MB"),
                            ("gb", "GB"),
                            ("b", "B"),
                            ("KiB", "KB"),
                        ];
                        if let Some((_, right)) = units.iter().find(|(wrong, _)| *wrong == unit) {
                            let number = &text[..text.len() - unit.len()];
                            diagnostic = diagnostic.help(format!("write `{number}{right}`"));
                        }
                        self.report(diagnostic);
                        return None;
                    }
                }
            }
            TokenKind::Text if !negative => LiteralKind::Text(self.template("a text")?),
            TokenKind::Word if !negative && matches!(self.current_text(), "true" | "false") => {
                let value = self.current_text() == "true";
                self.step();
                LiteralKind::Bool(value)
            }
            TokenKind::Mark("[") if !negative => {
                self.step();
                self.mark("]", "`]`: only the empty list can be written")?;
                LiteralKind::EmptyList
            }
            _ => {
                self.unexpected("a number, a text, `true` or `false`");
                return None;
            }
        };
        Some(Literal { kind, span: start.to(self.before()) })
    }

    fn expression(&mut self) -> Option<Expr> {
        self.binary(0)
    }

    fn binary(&mut self, level: usize) -> Option<Expr> {
        self.deeper()?;
        let expression = self.binary_inner(level);
        self.depth -= 1;
        expression
    }

    fn binary_inner(&mut self, level: usize) -> Option<Expr> {
        if level == 4 {
            return self.postfix();
        }
        let mut left = self.binary_or_next(level)?;
        // Chains are loops, not recursion; a bound keeps dropping the tree shallow too.
        for _ in 0..DEPTH_MAX {
            let operator = match (level, self.peek(), self.current_text()) {
                (0, TokenKind::Word, "or") => BinaryOp::Or,
                (1, TokenKind::Word, "and") => BinaryOp::And,
                (2, TokenKind::Mark("=="), _) => BinaryOp::Equal,
                (2, TokenKind::Mark("!="), _) => BinaryOp::NotEqual,
                (2, TokenKind::Mark("<"), _) => BinaryOp::Less,
                (2, TokenKind::Mark("<="), _) => BinaryOp::LessOrEqual,
                (2, TokenKind::Mark(">"), _) => BinaryOp::Greater,
                (2, TokenKind::Mark(">="), _) => BinaryOp::GreaterOrEqual,
                (3, TokenKind::Mark("+"), _) => BinaryOp::Add,
                (3, TokenKind::Mark("-"), _) => BinaryOp::Subtract,
                _ => return Some(left),
            };
            self.step();
            let right = self.binary_or_next(level)?;
            let span = left.span.to(right.span);
            left = Expr { kind: ExprKind::Binary(operator, Box::new(left), Box::new(right)), span };
        }
        self.too_deep();
        None
    }

    fn binary_or_next(&mut self, level: usize) -> Option<Expr> {
        if level == 1 && self.peek() == TokenKind::Word && self.current_text() == "not" {
            let start = self.span();
            self.step();
            let inner = self.binary(2)?;
            let span = start.to(inner.span);
            return Some(Expr { kind: ExprKind::Not(Box::new(inner)), span });
        }
        self.binary(level + 1)
    }

    fn postfix(&mut self) -> Option<Expr> {
        let start = self.span();
        let mut expression = match self.peek() {
            TokenKind::Mark("(") => {
                self.step();
                let inner = self.expression()?;
                self.mark(")", "`)`")?;
                inner
            }
            TokenKind::Word if !matches!(self.current_text(), "true" | "false") => {
                let name = self.name("a name")?;
                if self.peek() == TokenKind::Mark("(") {
                    let arguments = self.arguments()?;
                    let kind = ExprKind::Call { receiver: None, function: name, arguments };
                    Expr { kind, span: start.to(self.before()) }
                } else {
                    Expr { kind: ExprKind::Name(name), span: start }
                }
            }
            TokenKind::Number | TokenKind::Text | TokenKind::Word | TokenKind::Mark("-" | "[") => {
                let literal = self.literal()?;
                Expr { span: literal.span, kind: ExprKind::Literal(literal) }
            }
            _ => {
                self.unexpected("an expression");
                return None;
            }
        };
        for _ in 0..DEPTH_MAX {
            if !self.take_mark(".") {
                return Some(expression);
            }
            let name = self.name("a function or a field")?;
            let kind = if self.peek() == TokenKind::Mark("(") {
                let arguments = self.arguments()?;
                ExprKind::Call { receiver: Some(Box::new(expression)), function: name, arguments }
            } else {
                ExprKind::Member(Box::new(expression), name)
            };
            expression = Expr { kind, span: start.to(self.before()) };
        }
        self.too_deep();
        None
    }

    fn arguments(&mut self) -> Option<Vec<Expr>> {
        self.mark("(", "`(`")?;
        let mut arguments = Vec::new();
        while !self.take_mark(")") {
            if !arguments.is_empty() {
                self.mark(",", "`,` or `)`")?;
            }
            arguments.push(self.expression()?);
        }
        Some(arguments)
    }

    fn lifecycle(&mut self, docs: Docs) -> Option<Lifecycle> {
        let name = self.name("a name")?;
        let held_in = if self.word("in") { Some(self.name("an attribute")?) } else { None };
        let open_brace = self.span();
        self.mark("{", "`{`")?;
        let mut lifecycle = Lifecycle {
            name,
            held_in,
            states: Vec::new(),
            transitions: Vec::new(),
            ready: None,
            settings: Vec::new(),
            docs,
        };
        loop {
            let docs = self.docs();
            match self.peek() {
                TokenKind::Mark("}") => {
                    self.unused_docs(&docs);
                    self.step();
                    return Some(lifecycle);
                }
                TokenKind::End => return self.unclosed(open_brace).or(Some(lifecycle)),
                TokenKind::Newline => self.step(),
                _ => {
                    if self.lifecycle_statement(&mut lifecycle, docs).is_some() {
                        self.end_of_statement();
                    } else {
                        self.recover();
                    }
                }
            }
        }
    }

    fn lifecycle_statement(&mut self, lifecycle: &mut Lifecycle, docs: Docs) -> Option<()> {
        let word = self.name("`state`, `ready when` or a transition")?;
        if self.peek() == TokenKind::Mark(":") {
            self.step();
            let transition = self.transition(word, docs)?;
            lifecycle.transitions.push(transition);
            return Some(());
        }
        match word.text.as_str() {
            "state" => {
                loop {
                    let state = self.state(docs.clone())?;
                    lifecycle.states.push(state);
                    if !self.take_mark(",") {
                        break;
                    }
                }
                Some(())
            }
            "ready" => {
                if !self.word("when") {
                    self.unexpected("`when`");
                    return None;
                }
                lifecycle.ready = Some(self.expression()?);
                Some(())
            }
            _ => {
                let setting = self.setting(word);
                lifecycle.settings.push(setting);
                Some(())
            }
        }
    }

    fn state(&mut self, docs: Docs) -> Option<State> {
        let name = self.name("a state")?;
        let template = if self.peek() == TokenKind::Text { Some(self.template("a template")?) } else { None };
        let mut state = State { name, template, lease: None, due: None, docs };
        loop {
            if self.word("lease") {
                state.lease = Some(self.literal()?);
            } else if self.word("due") {
                state.due = Some(self.literal()?);
            } else {
                return Some(state);
            }
        }
    }

    fn transition(&mut self, name: Name, docs: Docs) -> Option<Transition> {
        let mut from = vec![self.name("a state")?];
        while self.take_mark("|") {
            from.push(self.name("a state")?);
        }
        self.mark("->", "`->` and the state it leads to")?;
        let to = self.name("a state")?;
        let mut set = Vec::new();
        if self.word("set") {
            loop {
                let field = self.name("a field")?;
                let value = if self.take_mark("=") { Some(self.expression()?) } else { None };
                set.push((field, value));
                if !self.take_mark(",") {
                    break;
                }
            }
        }
        Some(Transition { name, from, to, set, docs })
    }

    fn setting(&mut self, name: Name) -> Setting {
        let values = self.words_until_line_end();
        let span = values.last().map_or(name.span, |last| name.span.to(last.span));
        Setting { name, values, span }
    }

    /// `ttl: name` and `ttl = name`: a setting's value follows its word. What cannot be a setting here is a
    /// field out of place.
    fn no_mark_after(&mut self, word: &Name, place: Place) -> Option<()> {
        let TokenKind::Mark(mark @ (":" | "=")) = self.peek() else { return Some(()) };
        let span = self.span();
        self.step();
        let values = self.rest_of_line();
        let stands = matches!(word.text.as_str(), "key" | "index") && place == Place::Table
            || SETTINGS.iter().any(|rule| rule.name == word.text && rule.place != Place::Entity)
            || place == Place::Source;
        let problem = if stands {
            Diagnostic::new(
                "L0003",
                span,
                format!("no `{mark}` stands between `{}` and its value", word.text),
            )
            .note("`name: type` is a field, `name = expression` an equation, `word value` a setting")
            .help(format!("write: {} {values}", word.text))
        } else {
            Diagnostic::new("L0003", word.span.to(span), "a field stands in an entity or a type")
                .help("move it into `entity NAME { … }`")
        };
        self.report(problem);
        stands.then_some(())
    }

    /// What is written from here to the end of the line.
    fn rest_of_line(&self) -> String {
        let rest = self.tokens[self.at..].iter();
        let rest = rest.take_while(|token| !matches!(token.kind, TokenKind::Newline | TokenKind::End));
        rest.last().map_or(String::new(), |last| {
            self.text[self.span().range().start..last.span.range().end].to_owned()
        })
    }

    fn words_until_line_end(&mut self) -> Vec<Token> {
        let mut words = Vec::new();
        while !matches!(self.peek(), TokenKind::Newline | TokenKind::End | TokenKind::Mark("{" | "}")) {
            words.push(self.tokens[self.at].clone());
            self.step();
        }
        words
    }

    fn settings_block(&mut self) -> Option<Vec<Setting>> {
        let open_brace = self.span();
        self.mark("{", "`{`")?;
        let mut settings = Vec::new();
        loop {
            let docs = self.docs();
            self.unused_docs(&docs);
            match self.peek() {
                TokenKind::Mark("}") => {
                    self.step();
                    return Some(settings);
                }
                TokenKind::End => return self.unclosed(open_brace).or(Some(settings)),
                TokenKind::Newline => self.step(),
                _ => {
                    let name = self.name("a setting");
                    match name.filter(|name| self.no_mark_after(name, Place::Source).is_some()) {
                        Some(name) => {
                            settings.push(self.setting(name));
                            self.end_of_statement();
                        }
                        None => self.recover(),
                    }
                }
            }
        }
    }

    /// `{ get, put, delete }`: each name becomes a setting without values.
    fn grant_block(&mut self) -> Option<Vec<Setting>> {
        let open_brace = self.span();
        self.mark("{", "`{`")?;
        let names = self.names_until_brace(open_brace)?;
        Some(names.into_iter().map(|name| Setting { span: name.span, name, values: Vec::new() }).collect())
    }

    fn names_until_brace(&mut self, open_brace: Span) -> Option<Vec<Name>> {
        let mut names = Vec::new();
        loop {
            match self.peek() {
                TokenKind::Mark("}") => {
                    self.step();
                    return Some(names);
                }
                TokenKind::End => return self.unclosed(open_brace),
                TokenKind::Newline | TokenKind::Mark(",") | TokenKind::Doc => self.step(),
                _ => names.push(self.name("a name")?),
            }
        }
    }
}

// ---- the tokens ----

impl Parser<'_> {
    fn peek(&self) -> TokenKind {
        self.tokens.get(self.at).map_or(TokenKind::End, |token| token.kind)
    }

    fn mark_follows(&self, mark: &'static str) -> bool {
        self.tokens.get(self.at + 1).is_some_and(|token| token.kind == TokenKind::Mark(mark))
    }

    fn step(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn span(&self) -> Span {
        self.tokens.get(self.at).map_or(Span::default(), |token| token.span)
    }

    /// The token just read.
    fn before(&self) -> Span {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(self.span(), |token| token.span)
    }

    fn token_text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &self.text[token.span.range()])
    }

    fn current_text(&self) -> &str {
        self.token_text(self.at)
    }

    fn name(&mut self, wanted: &str) -> Option<Name> {
        if self.peek() != TokenKind::Word {
            self.unexpected(wanted);
            return None;
        }
        let name = Name { text: self.current_text().to_owned(), span: self.span() };
        self.step();
        Some(name)
    }

    fn word(&mut self, word: &str) -> bool {
        let here = self.peek() == TokenKind::Word && self.current_text() == word;
        if here {
            self.step();
        }
        here
    }

    fn mark(&mut self, mark: &'static str, wanted: &str) -> Option<()> {
        if self.take_mark(mark) {
            return Some(());
        }
        self.unexpected(wanted);
        None
    }

    fn take_mark(&mut self, mark: &'static str) -> bool {
        let here = self.peek() == TokenKind::Mark(mark);
        if here {
            self.step();
        }
        here
    }

    fn template(&mut self, wanted: &str) -> Option<Template> {
        if self.peek() != TokenKind::Text {
            self.unexpected(wanted);
            return None;
        }
        let span = self.span();
        let raw = self.current_text().to_owned();
        self.step();
        match template_parts(&raw, span) {
            Ok(parts) => Some(Template { parts, span }),
            Err(problem) => {
                self.report(*problem);
                None
            }
        }
    }

    fn docs(&mut self) -> Docs {
        let mut docs = Vec::new();
        while matches!(self.peek(), TokenKind::Doc) {
            let text = self.current_text().trim_start_matches('/');
            docs.push(text.strip_prefix(' ').unwrap_or(text).trim_end().to_owned());
            self.step();
        }
        docs
    }

    fn unused_docs(&mut self, docs: &Docs) {
        if !docs.is_empty() {
            let span = self.before();
            self.report(
                Diagnostic::new("L0009", span, "this documents nothing")
                    .note("`///` documents the item below it")
                    .help("write `//` for a comment"),
            );
        }
    }

    fn deeper(&mut self) -> Option<()> {
        if self.depth >= DEPTH_MAX * 5 {
            self.too_deep();
            return None;
        }
        self.depth += 1;
        Some(())
    }

    fn too_deep(&mut self) {
        let span = self.span();
        self.report(
            Diagnostic::new("L0005", span, "this is nested too deeply")
                .help("give a part of it a name with `let` or `type`"),
        );
    }

    fn unexpected(&mut self, wanted: &str) {
        let span = self.span();
        let found = match self.peek() {
            TokenKind::Newline => "the line ends here".to_owned(),
            TokenKind::End => "the file ends here".to_owned(),
            TokenKind::Unknown => return,
            _ => format!("found `{}`", self.current_text()),
        };
        let span = if self.peek() == TokenKind::Newline { Span { end: span.start, ..span } } else { span };
        self.report(Diagnostic::new("L0003", span, format!("expected {wanted}")).label(found));
    }

    fn unclosed<T>(&mut self, open: Span) -> Option<T> {
        self.report(
            Diagnostic::new("L0004", open, "this block is never closed")
                .label("opened here")
                .help("add a `}`"),
        );
        None
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < DIAGNOSTICS_MAX {
            self.diagnostics.push(diagnostic);
        }
    }

    fn end_of_statement(&mut self) {
        match self.peek() {
            TokenKind::Newline => self.step(),
            TokenKind::End | TokenKind::Mark("}") => {}
            _ => {
                self.unexpected("the end of the line");
                self.recover();
            }
        }
    }

    /// Skips the rest of a statement, blocks in it included.
    fn recover(&mut self) {
        self.depth = 0;
        let mut open = 0usize;
        loop {
            match self.peek() {
                TokenKind::End => return,
                TokenKind::Mark("{") => open += 1,
                TokenKind::Mark("}") if open == 0 => return,
                TokenKind::Mark("}") => open -= 1,
                TokenKind::Newline if open == 0 => {
                    self.step();
                    return;
                }
                _ => {}
            }
            self.step();
        }
    }

    /// The same within a type, where a comma ends a statement too.
    fn recover_in_list(&mut self) {
        self.depth = 0;
        while !matches!(self.peek(), TokenKind::End | TokenKind::Newline | TokenKind::Mark("}" | ",")) {
            self.step();
        }
    }
}

/// `7`, `7d`, `300B`, `5%`, `$0.01`.
fn number_literal(text: &str, negative: bool) -> Result<LiteralKind, String> {
    let sign = if negative { "-" } else { "" };
    let clean: String = text.chars().filter(|c| *c != '_').collect();
    if let Some(money) = clean.strip_prefix('$') {
        let plain = money.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        return if plain && !negative {
            Ok(LiteralKind::Money(money.to_owned()))
        } else {
            Err(format!("`{sign}{text}` is not an amount of money"))
        };
    }
    let split = clean.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(clean.len());
    let (number, unit) = clean.split_at(split);
    let whole = || number.parse::<f64>().ok().filter(|n| n.is_finite());
    let scaled = |factor: f64, what: &str| {
        let value = whole().map(|n| n * factor).filter(|n| *n <= 9e15);
        value.map(|n| n.round() as i64).ok_or_else(|| format!("`{text}` is too large for {what}"))
    };
    match unit {
        "" => Ok(LiteralKind::Number(format!("{sign}{number}"))),
        "%" if !negative => Ok(LiteralKind::Percent(number.to_owned())),
        "ms" | "s" | "m" | "h" | "d" | "w" if negative => {
            Err(format!("`-{text}`: a duration is not negative"))
        }
        "ms" => scaled(1.0, "a duration").map(LiteralKind::Duration),
        "s" => scaled(1e3, "a duration").map(LiteralKind::Duration),
        "m" => scaled(60e3, "a duration").map(LiteralKind::Duration),
        "h" => scaled(3600e3, "a duration").map(LiteralKind::Duration),
        "d" => scaled(86400e3, "a duration").map(LiteralKind::Duration),
        "w" => scaled(7.0 * 86400e3, "a duration").map(LiteralKind::Duration),
        "B" | "KB" | "MB" | "GB" | "TB" if !negative => {
            let power = ["B", "KB", "MB", "GB", "TB"].iter().position(|u| *u == unit).unwrap_or(0);
            let factor = [1.0, 1024.0, 1048576.0, 1073741824.0, 1099511627776.0][power];
            scaled(factor, "a size").map(|bytes| LiteralKind::Bytes(bytes.unsigned_abs()))
        }
        _ => Err(format!("`{unit}` is not a unit")),
    }
}

/// The inside of a text in quotes: escapes read, holes found.
fn template_parts(raw: &str, span: Span) -> Result<Vec<TemplatePart>, Box<Diagnostic>> {
    let inner = &raw[1..raw.len() - 1];
    let at = |from: usize, to: usize| Span {
        start: span.start + 1 + u32::try_from(from).unwrap_or(0),
        end: span.start + 1 + u32::try_from(to).unwrap_or(0),
        ..span
    };
    let wrong =
        |from: usize, to: usize, message: &str| Box::new(Diagnostic::new("L0007", at(from, to), message));
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut chars = inner.char_indices();
    while let Some((start, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, c @ ('"' | '\\' | '{' | '}'))) => text.push(c),
                Some((_, other)) => {
                    return Err(Box::new(
                        wrong(start, start + 1 + other.len_utf8(), "this escape has no meaning")
                            .help("the escapes are \\\" \\\\ \\{ \\} \\n \\t"),
                    ));
                }
                None => return Err(wrong(start, inner.len(), "this escape has no meaning")),
            },
            '}' => {
                return Err(Box::new(
                    wrong(start, start + 1, "this `}` closes no hole")
                        .help("write `\\}` for the character itself"),
                ));
            }
            '{' => {
                let Some(length) = inner[start..].find('}') else {
                    return Err(Box::new(
                        wrong(start, inner.len(), "this hole is never closed")
                            .help("add a `}`, or write `\\{` for the character itself"),
                    ));
                };
                let end = start + length;
                let hole = &inner[start + 1..end];
                let (name, format) =
                    hole.split_once(':').map_or((hole, None), |(name, format)| (name, Some(format)));
                let named = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
                if !named {
                    return Err(Box::new(
                        wrong(start, end + 1, "a hole holds the name of a field")
                            .help("for a computed value, name it with `let` first"),
                    ));
                }
                if !text.is_empty() {
                    parts.push(TemplatePart::Text(std::mem::take(&mut text)));
                }
                let name_end = start + 1 + name.len();
                parts.push(TemplatePart::Hole {
                    name: Name { text: name.to_owned(), span: at(start + 1, name_end) },
                    format: format.map(|f| Name { text: f.to_owned(), span: at(name_end + 1, end) }),
                    span: at(start, end + 1),
                });
                while chars.clone().next().is_some_and(|(at, _)| at <= end) {
                    chars.next();
                }
            }
            c => text.push(c),
        }
    }
    if !text.is_empty() {
        parts.push(TemplatePart::Text(text));
    }
    Ok(parts)
}
