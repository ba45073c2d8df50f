//! Text → tokens, each with its span.
//!
//! Nothing is dropped: comments and the gaps between tokens can be recovered from the spans, so the tokens of
//! a file and its text say the same. A regular expression is read only after the word `match`, and only when
//! it is closed on its line, so `/` is free to part a partition key from a sort key.

use crate::diagnostic::Diagnostic;
use crate::span::Span;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    Word,
    /// Digits, perhaps with a unit: `7`, `1_000`, `0.5`, `7d`, `5%`, `$0.01`.
    Number,
    /// In quotes, escapes not yet read.
    Text,
    /// Between slashes.
    Regex,
    /// Punctuation, as written.
    Mark(&'static str),
    /// `// …`
    Comment,
    /// `/// …`
    Doc,
    /// The end of a line, wherever it is.
    Newline,
    /// Something that no rule reads. A diagnostic has been given.
    Unknown,
    End,
}

/// Longest first.
const PUNCTUATION: [&str; 25] = [
    "..=", "->", "..", "<=", ">=", "==", "!=", "{", "}", "[", "]", "(", ")", ":", "=", ",", "|", "/", ".",
    "<", ">", "?", "-", "+", "*",
];

/// The tokens of a file, comments and line ends included, and [`TokenKind::End`] last.
pub fn tokens(file: u32, text: &str) -> (Vec<Token>, Vec<Diagnostic>) {
    let mut lexer = Lexer { file, text, at: 0, tokens: Vec::new(), diagnostics: Vec::new() };
    while lexer.at < text.len() {
        lexer.next();
    }
    lexer.push(TokenKind::End, text.len(), text.len());
    (lexer.tokens, lexer.diagnostics)
}

struct Lexer<'a> {
    file: u32,
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    diagnostics: Vec<Diagnostic>,
}

impl Lexer<'_> {
    fn next(&mut self) {
        let start = self.at;
        let rest = &self.text[start..];
        let Some(first) = rest.chars().next() else { return };
        if first == '\n' {
            self.take(TokenKind::Newline, 1);
        } else if first.is_whitespace() || first == '\u{feff}' {
            self.at += first.len_utf8();
        } else if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            let doc = rest.starts_with("///") && !rest.starts_with("////");
            self.take(if doc { TokenKind::Doc } else { TokenKind::Comment }, length);
        } else if first == '/' && self.after_match() && regex_length(rest).is_some() {
            self.take(TokenKind::Regex, regex_length(rest).unwrap_or(1));
        } else if first == '"' {
            self.string(rest);
        } else if first.is_ascii_alphabetic() || first == '_' {
            self.take(TokenKind::Word, word_length(rest));
        } else if first.is_ascii_digit()
            || (first == '$' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            self.take(TokenKind::Number, number_length(rest));
        } else if let Some(mark) = PUNCTUATION.iter().find(|mark| rest.starts_with(**mark)) {
            self.take(TokenKind::Mark(mark), mark.len());
        } else {
            self.take(TokenKind::Unknown, first.len_utf8());
            let span = Span::new(self.file, start, self.at);
            let mut problem = Diagnostic::new("L0001", span, format!("`{first}` means nothing here"));
            if matches!(first, '“' | '”' | '\'' | '‘' | '’' | '`') {
                problem = problem.help("text is written in straight double quotes: \"…\"");
            } else if first.is_alphabetic() {
                problem = problem.note("names are made of a-z, A-Z, 0-9 and `_`");
            } else if first == ';' {
                problem = problem.help("a statement ends with its line; leave the `;` out");
            } else if first == '#' {
                problem = problem.help("comments begin with `//`");
            }
            self.diagnostics.push(problem);
        }
    }

    fn take(&mut self, kind: TokenKind, length: usize) {
        let start = self.at;
        self.at += length;
        self.push(kind, start, start + length);
    }

    fn push(&mut self, kind: TokenKind, start: usize, end: usize) {
        self.tokens.push(Token { kind, span: Span::new(self.file, start, end) });
    }

    fn string(&mut self, rest: &str) {
        let mut escaped = false;
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => return self.take(TokenKind::Text, at + 1),
                _ => {}
            }
        }
        let length = rest.find('\n').unwrap_or(rest.len());
        let span = Span::new(self.file, self.at, self.at + length);
        self.diagnostics.push(
            Diagnostic::new("L0002", span, "this text has no end")
                .label("opened here")
                .help("close it with `\"` on the same line"),
        );
        self.take(TokenKind::Unknown, length);
    }

    fn after_match(&self) -> bool {
        self.tokens
            .last()
            .is_some_and(|token| token.kind == TokenKind::Word && &self.text[token.span.range()] == "match")
    }
}

fn word_length(rest: &str) -> usize {
    rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())
}

/// Digits and `_`, at most one `.` between digits, then a unit right behind.
fn number_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .position(|b| !(b.is_ascii_digit() || *b == b'_'))
            .map_or(bytes.len(), |n| from + n)
    };
    let mut end = digits(usize::from(bytes[0] == b'$'));
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(end + 1);
    }
    if bytes.get(end) == Some(&b'%') {
        return end + 1;
    }
    end + rest[end..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len() - end)
}

fn regex_length(rest: &str) -> Option<usize> {
    let mut escaped = false;
    let mut class = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => class = true,
            ']' => class = false,
            '/' if !class => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let (tokens, _) = tokens(0, text);
        let found: Vec<&str> =
            tokens.iter().map(|t| &text[t.span.range()]).filter(|t| !t.trim().is_empty()).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn tokens_are_the_words_a_person_sees() {
        check("ttl 7d // why", &["ttl", "7d", "// why"]);
        check("x: int in 0..=1", &["x", ":", "int", "in", "0", "..=", "1"]);
        check("x: int in -90..", &["x", ":", "int", "in", "-", "90", ".."]);
        check("cost $0.0001 per call", &["cost", "$0.0001", "per", "call"]);
        check("a match /[A-Z/]{2}\\//", &["a", "match", "/[A-Z/]{2}\\//"]);
        check("key match / sk", &["key", "match", "/", "sk"]);
        check("a -> b|c", &["a", "->", "b", "|", "c"]);
        check("\"a\\\"b\" 1_000", &["\"a\\\"b\"", "1_000"]);
    }

    #[test]
    fn text_without_an_end_stops_at_its_line() {
        let (tokens, diagnostics) = tokens(0, "name \"abc\nkey pk");
        assert_eq!(diagnostics.len(), 1);
        assert_eq!(tokens.iter().filter(|t| t.kind == TokenKind::Word).count(), 3);
    }
}
