//! Text to tokens: slices of the text, made one at a time.
//!
//! A character no token starts with is a token of its own, which no grammar takes, so it is reported where
//! the parser meets it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An attribute name or the name of a function.
    Word,
    /// `#name`
    Name,
    /// `:value`
    Value,
    /// A list position.
    Number,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Open,
    Close,
    OpenBracket,
    CloseBracket,
    Dot,
    Comma,
    And,
    Or,
    Not,
    Between,
    In,
    Set,
    Remove,
    Add,
    Delete,
    Unreadable,
    End,
}

/// A token and where it lies in the text. At the end of the text it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The first token at or after the byte `from`, which is on a character boundary.
pub(crate) fn token(text: &str, from: usize) -> Token {
    let bytes = text.as_bytes();
    // Only ASCII space separates tokens; a no-break space is unreadable.
    let space = bytes[from..].iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let start = from + space;
    let Some(&first) = bytes.get(start) else {
        return Token { kind: Kind::End, start: text.len(), end: text.len() };
    };
    let then = bytes.get(start + 1).copied();
    let (kind, length) = match first {
        b'#' | b':' => match word_length(&bytes[start + 1..]) {
            0 => (Kind::Unreadable, 1),
            length if first == b'#' => (Kind::Name, length + 1),
            length => (Kind::Value, length + 1),
        },
        b'A'..=b'Z' | b'a'..=b'z' | b'_' => {
            let length = word_length(&bytes[start..]);
            (word_kind(&text[start..start + length]), length)
        }
        b'0' => (Kind::Number, 1),
        b'1'..=b'9' => (Kind::Number, bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count()),
        b'<' if then == Some(b'>') => (Kind::NotEqual, 2),
        b'<' if then == Some(b'=') => (Kind::LessOrEqual, 2),
        b'<' => (Kind::Less, 1),
        b'>' if then == Some(b'=') => (Kind::GreaterOrEqual, 2),
        b'>' => (Kind::Greater, 1),
        b'=' => (Kind::Equal, 1),
        b'+' => (Kind::Plus, 1),
        b'-' => (Kind::Minus, 1),
        b'(' => (Kind::Open, 1),
        b')' => (Kind::Close, 1),
        b'[' => (Kind::OpenBracket, 1),
        b']' => (Kind::CloseBracket, 1),
        b'.' => (Kind::Dot, 1),
        b',' => (Kind::Comma, 1),
        _ => (Kind::Unreadable, text[start..].chars().next().map_or(1, char::len_utf8)),
    };
    Token { kind, start, end: start + length }
}

fn word_length(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()
}

fn word_kind(word: &str) -> Kind {
    const KEYWORDS: [(&str, Kind); 9] = [
        ("AND", Kind::And),
        ("OR", Kind::Or),
        ("NOT", Kind::Not),
        ("BETWEEN", Kind::Between),
        ("IN", Kind::In),
        ("SET", Kind::Set),
        ("REMOVE", Kind::Remove),
        ("ADD", Kind::Add),
        ("DELETE", Kind::Delete),
    ];
    KEYWORDS
        .iter()
        .find(|(keyword, _)| keyword.eq_ignore_ascii_case(word))
        .map_or(Kind::Word, |(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(Kind, &str)> {
        let mut from = 0;
        std::iter::from_fn(|| {
            let token = token(text, from);
            from = token.end;
            (token.kind != Kind::End).then(|| (token.kind, &text[token.start..token.end]))
        })
        .collect()
    }

    #[test]
    fn tokens_are_the_longest_that_fit() {
        use Kind::*;
        for (text, expected) in [
            ("", vec![]),
            ("a<=:b", vec![(Word, "a"), (LessOrEqual, "<="), (Value, ":b")]),
            ("a<>b", vec![(Word, "a"), (NotEqual, "<>"), (Word, "b")]),
            ("a < = b", vec![(Word, "a"), (Less, "<"), (Equal, "="), (Word, "b")]),
            (
                "#a.b[10]",
                vec![
                    (Name, "#a"),
                    (Dot, "."),
                    (Word, "b"),
                    (OpenBracket, "["),
                    (Number, "10"),
                    (CloseBracket, "]"),
                ],
            ),
            ("007", vec![(Number, "0"), (Number, "0"), (Number, "7")]),
            ("bEtWeEn inn", vec![(Between, "bEtWeEn"), (Word, "inn")]),
            ("#:_", vec![(Unreadable, "#"), (Value, ":_")]),
            ("a\u{a0}ö", vec![(Word, "a"), (Unreadable, "\u{a0}"), (Unreadable, "ö")]),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
    }
}
