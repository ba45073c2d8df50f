//! `larder fmt`: one way to lay a schema out.
//!
//! Only white space changes, so a formatted schema means what it meant, and formatting twice changes nothing.
//! Lines are indented by two, and neighbours of one kind are aligned: settings in two columns, fields at their
//! types, states, transitions and indexes in columns of their own. An empty line ends a group. A file that does
//! not parse is left as it is.

use crate::parse::parse;
use crate::token::{Token, TokenKind};

/// The text, laid out.
pub fn format(text: &str) -> String {
    let (tree, diagnostics) = parse(text);
    if diagnostics.iter().any(crate::Diagnostic::is_error) {
        return text.to_owned();
    }
    let mut lines = lines(text, &tree.tokens);
    align(&mut lines);
    align_comments(&mut lines);
    write(&lines)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    File,
    Table,
    Entity,
    Type,
    Lifecycle,
    Alarms,
    /// Names only: a collection, a grant.
    Names,
    /// Settings only.
    Settings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing on it, or only a comment.
    Bare,
    /// Not aligned with its neighbours.
    Plain,
    Setting,
    Alarm,
    Field,
    Index,
    State,
    Transition,
    Param,
    OneLineType,
}

struct Line {
    depth: usize,
    kind: Kind,
    /// Where the alignment of fields differs: `name = …`.
    equation: bool,
    cells: Vec<String>,
    /// The cells, put together.
    code: String,
    comment: Option<String>,
    /// Column of the comment, when the line has code.
    comment_at: usize,
    blank_before: bool,
    opens: bool,
    closes: bool,
}

/// One entry per line that has something on it.
fn lines(text: &str, tokens: &[Token]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut containers: Vec<Container> = vec![Container::File];
    let mut brackets = 0usize;
    let mut continues = false;
    let mut blank = false;
    for physical in tokens.split(|token| matches!(token.kind, TokenKind::Newline | TokenKind::End)) {
        let (code, comment): (Vec<&Token>, Vec<&Token>) =
            physical.iter().partition(|token| !matches!(token.kind, TokenKind::Comment | TokenKind::Doc));
        let comment = comment.first().map(|token| text[token.span.range()].trim_end().to_owned());
        if code.is_empty() && comment.is_none() {
            blank = true;
            continue;
        }
        let words: Vec<&str> = code.iter().map(|token| &text[token.span.range()]).collect();
        let closes = words.first() == Some(&"}");
        let container = containers.last().copied().unwrap_or(Container::File);
        let depth = containers.len() - 1 - usize::from(closes && containers.len() > 1)
            + brackets
            + usize::from(continues && brackets == 0);
        let opened_in_line = words.iter().position(|word| *word == "{");
        let whole = opened_in_line.is_none_or(|_| words.last() == Some(&"}"));
        let kind = match code.first() {
            None => Kind::Bare,
            Some(_) if continues || brackets > 0 || closes => Kind::Plain,
            Some(_) => kind(container, &code, &words, whole),
        };
        let cells = if code.is_empty() { Vec::new() } else { cells(kind, &code, &words) };
        lines.push(Line {
            depth,
            kind,
            equation: kind == Kind::Field && !cells[0].ends_with(':'),
            cells,
            code: String::new(),
            comment,
            comment_at: 0,
            blank_before: blank,
            opens: words.last() == Some(&"{"),
            closes,
        });
        blank = false;
        for (at, word) in words.iter().enumerate() {
            match *word {
                "{" => containers.push(opened(container, &words, at)),
                "}" if containers.len() > 1 => drop(containers.pop()),
                "[" | "(" if code[at].kind != TokenKind::Text => brackets += 1,
                "]" | ")" => brackets = brackets.saturating_sub(1),
                _ => {}
            }
        }
        if !code.is_empty() {
            let inside = containers.last().copied().unwrap_or(Container::File);
            let list = matches!(inside, Container::Type | Container::Names);
            continues = matches!(words.last(), Some(&("," | "|"))) && !list;
        }
    }
    lines
}

fn opened(container: Container, words: &[&str], _at: usize) -> Container {
    match (container, words.first().copied().unwrap_or("")) {
        (Container::File, "table") => Container::Table,
        (Container::File, "type") => Container::Type,
        (Container::File, "grant") | (Container::Table, "collection") => Container::Names,
        (Container::File, "alarms") => Container::Alarms,
        (Container::Table, "entity") => Container::Entity,
        (Container::Entity, "lifecycle") => Container::Lifecycle,
        _ => Container::Settings,
    }
}

fn kind(container: Container, code: &[&Token], words: &[&str], whole: bool) -> Kind {
    let mark = |at: usize, mark: &str| {
        words.get(at) == Some(&mark) && code.get(at).is_some_and(|t| t.kind != TokenKind::Text)
    };
    let is_data = mark(1, ":")
        || mark(1, "=")
        || (matches!(words[0], "input" | "let")
            && code.get(1).is_some_and(|t| t.kind == TokenKind::Word)
            && words.len() > 2)
        || (words.get(1) == Some(&"as") && (mark(3, ":") || mark(3, "=")));
    match container {
        Container::File => match words[0] {
            "param" => Kind::Param,
            "type" if whole && words.contains(&"{") => Kind::OneLineType,
            _ => Kind::Plain,
        },
        Container::Table => match words[0] {
            "index" => Kind::Index,
            "entity" | "collection" => Kind::Plain,
            _ => Kind::Setting,
        },
        Container::Type if is_data => Kind::Field,
        Container::Entity if is_data => Kind::Field,
        Container::Entity if words[0] == "lifecycle" && words.contains(&"{") => Kind::Plain,
        Container::Entity | Container::Settings => Kind::Setting,
        Container::Alarms => Kind::Alarm,
        Container::Lifecycle => match words[0] {
            _ if mark(1, ":") => Kind::Transition,
            "state" => Kind::State,
            "ready" => Kind::Plain,
            _ => Kind::Setting,
        },
        Container::Type | Container::Names => Kind::Plain,
    }
}

/// The columns of a line.
fn cells(kind: Kind, code: &[&Token], words: &[&str]) -> Vec<String> {
    let split = |places: &[usize]| {
        let mut places: Vec<usize> =
            places.iter().copied().filter(|at| *at > 0 && *at < code.len()).collect();
        places.dedup();
        let mut cells = Vec::new();
        let mut from = 0;
        for at in places.into_iter().chain([code.len()]) {
            cells.push(joined(&code[from..at], &words[from..at]));
            from = at;
        }
        cells
    };
    let find = |wanted: &[&str]| {
        (1..code.len()).find(|at| {
            wanted.contains(&words[*at]) && matches!(code[*at].kind, TokenKind::Word | TokenKind::Mark(_))
        })
    };
    match kind {
        Kind::Bare => Vec::new(),
        Kind::Plain => split(&[]),
        Kind::Setting => split(&[1]),
        Kind::Alarm => {
            let lasting = find(&["for"]).unwrap_or(code.len());
            split(&[1, lasting])
        }
        Kind::Field => match (find(&[":"]), find(&["="])) {
            (Some(colon), _) => split(&[colon + 1]),
            (None, Some(equals)) => split(&[equals]),
            (None, None) => split(&[]),
        },
        Kind::Index => {
            let alias = if words.get(2) == Some(&"as") { 2 } else { 0 };
            let key = if alias > 0 { 4 } else { 2 };
            let project = find(&["project"]).unwrap_or(code.len());
            let hot = if words.last() == Some(&"hot") && code.len() > key + 1 {
                code.len() - 1
            } else {
                code.len()
            };
            let mut cells = split(&[alias, key, project.min(hot), hot]);
            if alias == 0 {
                cells.insert(1, String::new());
            }
            cells
        }
        Kind::State => {
            let text = code.iter().position(|token| token.kind == TokenKind::Text).unwrap_or(code.len());
            let lasting = find(&["lease", "due"]).filter(|at| *at > 1).unwrap_or(code.len());
            let mut cells = split(&[text.min(lasting), lasting]);
            if text > lasting {
                cells.insert(1, String::new());
            }
            cells
        }
        Kind::Transition => split(&[2, find(&["set"]).unwrap_or(code.len())]),
        Kind::Param => {
            let colon = find(&[":"]).map_or(code.len(), |at| at + 1);
            split(&[
                colon,
                find(&["="]).unwrap_or(code.len()),
                find(&["from"]).filter(|at| *at > colon).unwrap_or(code.len()),
            ])
        }
        Kind::OneLineType => split(&[find(&["{"]).unwrap_or(code.len())]),
    }
}

/// The gap in front of each cell but the first.
fn gaps(kind: Kind) -> &'static [usize] {
    match kind {
        Kind::Index => &[1, 2, 2, 2],
        Kind::Param => &[1, 1, 1],
        Kind::OneLineType => &[1],
        Kind::Setting | Kind::Alarm | Kind::State | Kind::Transition => &[2, 2, 2, 2],
        Kind::Bare | Kind::Plain | Kind::Field => &[],
    }
}

fn align(lines: &mut [Line]) {
    let mut start = 0;
    while start < lines.len() {
        let kind = lines[start].kind;
        let depth = lines[start].depth;
        let mut end = start + 1;
        // Comments between two lines do not part them; anything else does.
        while end < lines.len()
            && !lines[end].blank_before
            && lines[end].depth == depth
            && (lines[end].kind == kind || lines[end].kind == Kind::Bare)
        {
            end += 1;
        }
        if kind == Kind::Bare {
            start += 1;
            continue;
        }
        let group = &mut lines[start..end];
        if kind == Kind::Field {
            align_fields(group);
        } else {
            align_columns(group, gaps(kind));
        }
        start = end;
    }
}

fn align_fields(group: &mut [Line]) {
    let head = |line: &Line| width(&line.cells[0]) + if line.equation { 3 } else { 1 };
    let value = group.iter().filter(|line| line.cells.len() > 1).map(head).max().unwrap_or(0);
    for line in group.iter_mut().filter(|line| !line.cells.is_empty()) {
        let head = &line.cells[0];
        let Some(rest) = line.cells.get(1) else {
            line.code.clone_from(head);
            continue;
        };
        let column = if line.equation { value - 2 } else { value };
        line.code = format!("{}{rest}", padded(head, column));
    }
}

fn align_columns(group: &mut [Line], gaps: &[usize]) {
    let columns = group.iter().map(|line| line.cells.len()).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for line in group.iter() {
        // The last cell of a line pushes nothing aside.
        for (at, cell) in line.cells.iter().enumerate().take(line.cells.len().saturating_sub(1)) {
            widths[at] = widths[at].max(width(cell));
        }
    }
    for line in group.iter_mut() {
        let mut code = String::new();
        let mut column = 0;
        for (at, cell) in line.cells.iter().enumerate() {
            if at > 0 {
                let gap = if widths[at - 1] == 0 { 0 } else { gaps.get(at - 1).copied().unwrap_or(1) };
                column += widths[at - 1] + gap;
                code = padded(&code, column);
            }
            code.push_str(cell);
        }
        code.truncate(code.trim_end().len());
        line.code = code;
    }
}

fn align_comments(lines: &mut [Line]) {
    let mut start = 0;
    while start < lines.len() {
        let mut end = start + 1;
        while end < lines.len() && !lines[end].blank_before && lines[end].depth == lines[start].depth {
            end += 1;
        }
        let trailing = |line: &&Line| line.comment.is_some() && !line.code.is_empty();
        let column =
            lines[start..end].iter().filter(trailing).map(|line| width(&line.code)).max().unwrap_or(0) + 3;
        for line in &mut lines[start..end] {
            line.comment_at = column;
        }
        start = end;
    }
}

fn write(lines: &[Line]) -> String {
    let mut out = String::new();
    let mut after_open = true;
    for line in lines {
        if line.blank_before && !after_open && !line.closes {
            out.push('\n');
        }
        let mut text = "  ".repeat(line.depth);
        if line.code.is_empty() {
            text.push_str(line.comment.as_deref().unwrap_or(""));
        } else {
            match &line.comment {
                Some(comment) => {
                    text.push_str(&padded(&line.code, line.comment_at));
                    text.push_str(comment);
                }
                None => text.push_str(&line.code),
            }
        }
        out.push_str(text.trim_end());
        out.push('\n');
        after_open = line.opens;
    }
    out
}

/// Tokens with one space where a space belongs.
fn joined(code: &[&Token], words: &[&str]) -> String {
    let mut out = String::new();
    for at in 0..code.len() {
        if at > 0 && spaced(code, words, at) {
            out.push(' ');
        }
        out.push_str(words[at]);
    }
    out
}

fn spaced(code: &[&Token], words: &[&str], at: usize) -> bool {
    let mark = |at: usize| match code[at].kind {
        TokenKind::Mark(mark) => mark,
        _ => "",
    };
    let number = |at: usize| code[at].kind == TokenKind::Number;
    match (mark(at - 1), mark(at)) {
        (_, "<") if opens_type(code, words, at) => false,
        ("<", _) if opens_type(code, words, at - 1) => false,
        (_, ">") if closes_type(code, words, at) => false,
        (_, "," | ":" | ")" | "]" | "?" | ".") | ("(" | "[" | ".", _) => false,
        (_, "(") => code[at - 1].kind != TokenKind::Word,
        (_, ".." | "..=") => !number(at - 1),
        (".." | "..=", "-") => false,
        (".." | "..=", _) => !number(at),
        // A minus with nothing to its left belongs to the number.
        ("-", _) => {
            at >= 2
                && (matches!(code[at - 2].kind, TokenKind::Number | TokenKind::Text)
                    || mark(at - 2) == ")"
                    || is_operand(code, words, at - 2))
        }
        _ => true,
    }
}

/// Whether a `<` is that of `set<…>` or `map<…>`, where a type may stand: at the beginning of a cell, or in a type.
fn opens_type(code: &[&Token], words: &[&str], at: usize) -> bool {
    let before = at.checked_sub(2).map(|at| code[at].kind);
    code[at].kind == TokenKind::Mark("<")
        && matches!(words[at - 1], "set" | "map")
        && matches!(before, None | Some(TokenKind::Mark(":" | "[" | "<" | ",")))
}

fn closes_type(code: &[&Token], words: &[&str], at: usize) -> bool {
    let mut depth = 0_usize;
    for at in (1..at).rev() {
        match code[at].kind {
            TokenKind::Mark(">") => depth += 1,
            TokenKind::Mark("<") if depth == 0 => return opens_type(code, words, at),
            TokenKind::Mark("<") => depth -= 1,
            _ => {}
        }
    }
    false
}

/// A word that stands for a value: a minus after it subtracts.
fn is_operand(code: &[&Token], words: &[&str], at: usize) -> bool {
    code[at].kind == TokenKind::Word
        && !matches!(words[at], "in" | "len" | "default" | "and" | "or" | "not" | "when")
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn padded(text: &str, column: usize) -> String {
    let mut out = text.to_owned();
    out.extend(std::iter::repeat_n(' ', column.saturating_sub(width(text))));
    out
}
