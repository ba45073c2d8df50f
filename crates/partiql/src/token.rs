//! Text to tokens, each with its place.
//!
//! A name stands in double quotes or, if it is a word, in none; text stands in single quotes; either quote is doubled
//! to stand for itself. Comments are passed over.

use std::borrow::Cow;

use crate::Error;
use crate::error::Syntax;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token<'t> {
    pub(crate) kind: Kind<'t>,
    pub(crate) at: usize,
    pub(crate) length: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind<'t> {
    /// A keyword, or a name without quotes.
    Word(&'t str),
    /// A name in quotes.
    Name(Cow<'t, str>),
    Text(Cow<'t, str>),
    /// Without a sign.
    Number(&'t str),
    Sign(&'static str),
}

/// The longer ones first.
const SIGNS: [&str; 24] = [
    "<<", ">>", "<=", ">=", "<>", "!=", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ".", ":", "?", "*",
    "+", "-", ";", "||",
];

pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Error> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at = skipped(text, at)?;
        let Some(first) = text[at..].chars().next() else { return Ok(tokens) };
        let (kind, length) = match first {
            '\'' => quoted(text, at, '\'').map(|(inner, length)| (Kind::Text(inner), length))?,
            '"' => quoted(text, at, '"').map(|(inner, length)| (Kind::Name(inner), length))?,
            '0'..='9' => {
                let length = number(&text[at..]);
                (Kind::Number(&text[at..at + length]), length)
            }
            '.' if text[at + 1..].starts_with(|next: char| next.is_ascii_digit()) && begins_term(&tokens) => {
                let length = number(&text[at..]);
                (Kind::Number(&text[at..at + length]), length)
            }
            first if is_word(first) => {
                let length = text[at..].find(|next| !is_word(next)).unwrap_or(text.len() - at);
                (Kind::Word(&text[at..at + length]), length)
            }
            _ => match SIGNS.iter().find(|sign| text[at..].starts_with(**sign)) {
                Some(sign) => (Kind::Sign(sign), sign.len()),
                None => {
                    return Err(Error::Malformed(Syntax::Character(first)));
                }
            },
        };
        tokens.push(Token { kind, at, length });
        at += length;
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

/// Whether a value can come next, so that a point begins a number rather than a step of a path.
fn begins_term(tokens: &[Token<'_>]) -> bool {
    match tokens.last().map(|token| &token.kind) {
        None => true,
        Some(Kind::Sign(sign)) => !matches!(*sign, ")" | "]" | "}" | ">>" | "?"),
        Some(_) => false,
    }
}

/// Where the next token begins.
fn skipped(text: &str, mut at: usize) -> Result<usize, Error> {
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if trimmed.starts_with("--") {
            at += trimmed.find('\n').unwrap_or(trimmed.len());
        } else if let Some(comment) = trimmed.strip_prefix("/*") {
            let Some(end) = comment.find("*/") else {
                return Err(Error::Malformed(Syntax::Unclosed));
            };
            at += end + 4;
        } else {
            return Ok(at);
        }
    }
}

/// What stands between quotes, and how long it is with them.
fn quoted(text: &str, at: usize, quote: char) -> Result<(Cow<'_, str>, usize), Error> {
    let inner = &text[at + 1..];
    let mut doubled = false;
    let mut letters = inner.char_indices().peekable();
    while let Some((place, letter)) = letters.next() {
        if letter != quote {
            continue;
        }
        if letters.next_if(|(_, next)| *next == quote).is_some() {
            doubled = true;
            continue;
        }
        let found = &inner[..place];
        let found = match doubled {
            true => Cow::Owned(found.replace(&[quote, quote].iter().collect::<String>(), &quote.to_string())),
            false => Cow::Borrowed(found),
        };
        return Ok((found, place + 2));
    }
    Err(Error::Malformed(Syntax::Unclosed))
}

/// The length of the number that a text begins with.
fn number(text: &str) -> usize {
    let digits = |from: usize| from + text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(0);
    if text[end..].starts_with('.') && !text[end + 1..].starts_with('.') {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[Kind<'_>]) {
        let kinds: Vec<Kind<'_>> = tokens(text).unwrap().into_iter().map(|token| token.kind).collect();
        assert_eq!(kinds, expected, "{text}");
    }

    #[test]
    fn quotes_are_doubled_to_stand_for_themselves() {
        check("'it''s'", &[Kind::Text("it's".into())]);
        check("''", &[Kind::Text("".into())]);
        check("''''", &[Kind::Text("'".into())]);
        check("\"a\"\"b\"", &[Kind::Name("a\"b".into())]);
        check("'?' \"?\" ?", &[Kind::Text("?".into()), Kind::Name("?".into()), Kind::Sign("?")]);
    }

    #[test]
    fn numbers_have_points_and_exponents() {
        for text in ["1", "1.5", "1.", "1e5", "1.5E-7", "00"] {
            check(text, &[Kind::Number(text)]);
        }
        check(".5", &[Kind::Number(".5")]);
        check("a.5", &[Kind::Word("a"), Kind::Sign("."), Kind::Number("5")]);
        check("-1", &[Kind::Sign("-"), Kind::Number("1")]);
        check("1e", &[Kind::Number("1"), Kind::Word("e")]);
    }

    #[test]
    fn comments_are_passed_over() {
        check("a -- to the end\n /* and\n this */ b", &[Kind::Word("a"), Kind::Word("b")]);
    }

    #[test]
    fn what_is_not_closed_is_refused() {
        for text in ["'a", "\"a", "/* a", "'a''"] {
            assert!(matches!(tokens(text), Err(Error::Malformed(Syntax::Unclosed))), "{text}");
        }
        assert!(matches!(tokens("a § b"), Err(Error::Malformed(Syntax::Character('§')))));
    }
}
