//! A reader that walks JSON text once, front to back.
//!
//! The caller asks for what it expects and is told when something else is there, so a wrong shape can be
//! refused in DynamoDB's words. Nothing is kept but the place. Whatever the text, reading ends in a value or
//! a refusal: it does not panic, and what is skipped is skipped without recursion.
//!
//! Who keeps what is read tells the reader first what it takes in memory, and is refused once that is more than a
//! request may take.

use std::borrow::Cow;

use larder_model::limits::REQUEST_MEMORY_BYTES_MAX;

use crate::refusal::{Read, Refusal};

use super::special;

/// What an allocation takes beside what is in it.
pub(crate) const ALLOCATION_BYTES: usize = 16;

/// How many lists and maps may stand inside each other in a body. DynamoDB gives up at about this depth.
const JSON_DEPTH_MAX: usize = 4_032;

/// What stands next in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    True,
    False,
    /// A whole number.
    Number,
    /// A number written with a point or an exponent.
    Decimal,
    String,
    List,
    Map,
}

#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// What may still be kept, in bytes of memory.
    room: usize,
}

/// Whether the whole of `text` is one JSON value.
pub(crate) fn check(text: &str) -> Read<()> {
    let mut reader = Reader::new(text);
    reader.skip()?;
    reader.end()
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, room: REQUEST_MEMORY_BYTES_MAX }
    }

    /// Counts memory that something read is about to take.
    #[inline]
    pub(crate) fn charge(&mut self, bytes: usize) -> Read<()> {
        self.room = self.room.checked_sub(bytes).ok_or(Refusal::TooLarge)?;
        Ok(())
    }

    /// What was counted so far.
    pub(crate) fn charged(&self) -> usize {
        REQUEST_MEMORY_BYTES_MAX - self.room
    }

    /// Counts a text of `length` bytes, in an allocation of its own.
    #[inline]
    pub(crate) fn charge_text(&mut self, length: usize) -> Read<()> {
        self.charge(if length == 0 { 0 } else { (length + ALLOCATION_BYTES).max(2 * ALLOCATION_BYTES) })
    }

    /// What the next value is; its text stays unread.
    #[inline]
    pub(crate) fn kind(&mut self) -> Read<Kind> {
        Ok(match self.peek() {
            b'"' => Kind::String,
            b'{' => Kind::Map,
            b'[' => Kind::List,
            b't' => Kind::True,
            b'f' => Kind::False,
            b'n' => Kind::Null,
            b'-' | b'0'..=b'9' => {
                let number = self.clone().number()?;
                if number.contains(['.', 'e', 'E']) { Kind::Decimal } else { Kind::Number }
            }
            _ => return Err(Refusal::Unreadable),
        })
    }

    /// Reads a `null`, if one is next.
    #[inline]
    pub(crate) fn null(&mut self) -> Read<bool> {
        if self.peek() != b'n' {
            return Ok(false);
        }
        self.word("null")?;
        Ok(true)
    }

    /// The members of a map. Each is handed over with its name, and must be read or skipped.
    pub(crate) fn members(&mut self, mut each: impl FnMut(&mut Self, Cow<'a, str>) -> Read<()>) -> Read<()> {
        self.byte(b'{')?;
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.byte(b':')?;
            each(self, name)?;
            if self.last(b'}')? {
                return Ok(());
            }
        }
    }

    /// The elements of a list. Each must be read or skipped.
    pub(crate) fn elements(&mut self, mut each: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        self.byte(b'[')?;
        if self.peek() == b']' {
            self.at += 1;
            return Ok(());
        }
        loop {
            each(self)?;
            if self.last(b']')? {
                return Ok(());
            }
        }
    }

    #[inline]
    pub(crate) fn string(&mut self) -> Read<Cow<'a, str>> {
        self.byte(b'"')?;
        let start = self.at;
        let stop = start + special(&self.text.as_bytes()[start..]).ok_or(Refusal::Unreadable)?;
        self.at = stop;
        let head = &self.text[start..stop];
        match self.next()? {
            b'"' => Ok(Cow::Borrowed(head)),
            b'\\' => self.escaped(head.to_owned()).map(Cow::Owned),
            _ => Err(Refusal::Unreadable),
        }
    }

    /// The rest of a string whose first backslash has just been read.
    fn escaped(&mut self, mut text: String) -> Read<String> {
        loop {
            text.push(self.escape()?);
            let start = self.at;
            let stop = start + special(&self.text.as_bytes()[start..]).ok_or(Refusal::Unreadable)?;
            self.at = stop;
            text.push_str(&self.text[start..stop]);
            match self.next()? {
                b'"' => return Ok(text),
                b'\\' => {}
                _ => return Err(Refusal::Unreadable),
            }
        }
    }

    fn escape(&mut self) -> Read<char> {
        Ok(match self.next()? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hex()?;
                if !(0xd800..0xdc00).contains(&high) {
                    return char::from_u32(high).ok_or(Refusal::Unreadable);
                }
                if (self.next()?, self.next()?) != (b'\\', b'u') {
                    return Err(Refusal::Unreadable);
                }
                let low = self.hex()?;
                if !(0xdc00..0xe000).contains(&low) {
                    return Err(Refusal::Unreadable);
                }
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                char::from_u32(code).ok_or(Refusal::Unreadable)?
            }
            _ => return Err(Refusal::Unreadable),
        })
    }

    fn hex(&mut self) -> Read<u32> {
        (0..4).try_fold(0, |code, _| {
            let digit = char::from(self.next()?).to_digit(16).ok_or(Refusal::Unreadable)?;
            Ok(code << 4 | digit)
        })
    }

    /// A number, as it is written.
    pub(crate) fn number(&mut self) -> Read<&'a str> {
        self.peek();
        let start = self.at;
        self.at += usize::from(self.here() == Some(b'-'));
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(Refusal::Unreadable);
        }
        if self.here() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.here(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.here(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Read<&'a str> {
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let count = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        if count == 0 {
            return Err(Refusal::Unreadable);
        }
        self.at += count;
        Ok(&self.text[start..self.at])
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&mut self) -> Read<bool> {
        if self.peek() == b't' {
            self.word("true")?;
            return Ok(true);
        }
        self.word("false")?;
        Ok(false)
    }

    fn word(&mut self, word: &str) -> Read<()> {
        if !self.text[self.at..].starts_with(word) {
            return Err(Refusal::Unreadable);
        }
        self.at += word.len();
        Ok(())
    }

    /// Passes over one value and says how deep its lists and maps go: zero for a plain value.
    pub(crate) fn skip(&mut self) -> Read<usize> {
        let mut open: Vec<u8> = Vec::new();
        let mut deepest = 0;
        loop {
            let first = self.peek();
            match first {
                b'"' => drop(self.string()?),
                b'-' | b'0'..=b'9' => drop(self.number()?),
                b't' | b'f' => drop(self.boolean()?),
                b'n' => self.word("null")?,
                b'{' | b'[' => {
                    self.at += 1;
                    // What closes a bracket stands two after it in ASCII.
                    open.push(first + 2);
                    deepest = deepest.max(open.len());
                    if open.len() > JSON_DEPTH_MAX {
                        return Err(Refusal::Unreadable);
                    }
                    if self.peek() != first + 2 {
                        if first == b'{' {
                            self.name()?;
                        }
                        continue;
                    }
                    self.at += 1;
                    open.pop();
                }
                _ => return Err(Refusal::Unreadable),
            }
            loop {
                let Some(&close) = open.last() else { return Ok(deepest) };
                if !self.last(close)? {
                    if close == b'}' {
                        self.name()?;
                    }
                    break;
                }
                open.pop();
            }
        }
    }

    fn name(&mut self) -> Read<()> {
        self.string()?;
        self.byte(b':')
    }

    /// Nothing but white space may follow.
    pub(crate) fn end(&mut self) -> Read<()> {
        self.peek();
        if self.at == self.text.len() { Ok(()) } else { Err(Refusal::Unreadable) }
    }

    /// Reads what follows a member or element: a comma, or the bracket that closes them all.
    #[inline]
    fn last(&mut self, close: u8) -> Read<bool> {
        let byte = self.peek();
        self.at += 1;
        if byte == close {
            return Ok(true);
        }
        if byte == b',' { Ok(false) } else { Err(Refusal::Unreadable) }
    }

    #[inline]
    fn byte(&mut self, expected: u8) -> Read<()> {
        if self.peek() != expected {
            return Err(Refusal::Unreadable);
        }
        self.at += 1;
        Ok(())
    }

    /// The next byte that is not white space, left unread; zero, which no JSON has, when there is none.
    #[inline]
    fn peek(&mut self) -> u8 {
        loop {
            match self.here() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other.unwrap_or(0),
            }
        }
    }

    #[inline]
    fn here(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn next(&mut self) -> Read<u8> {
        let byte = self.here().ok_or(Refusal::Unreadable)?;
        self.at += 1;
        Ok(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A value of every kind in one text: what serde_json thinks of it is what the reader must think.
    fn agree(text: &str) {
        assert_eq!(check(text).is_ok(), serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
    }

    #[test]
    fn what_is_json_and_what_is_not() {
        for text in [
            "",
            " ",
            "{}",
            "[]",
            "{",
            "}",
            "[1,]",
            "[,1]",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "{a:1}",
            "{'a':1}",
            "null",
            "nul",
            "nulls",
            "true false",
            "tru",
            "-",
            "-1",
            "01",
            "-0",
            "1.",
            ".5",
            "1e",
            "1e+",
            "1E-7",
            "1.5e10",
            "+1",
            "NaN",
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u00e9\"",
            "\"\\ud83d\\ude00\"",
            "\"\\ud83d\"",
            "\"\\ude00\"",
            "\"\\ud83d\\u0041\"",
            "\"a\nb\"",
            "\"a\u{7f}b\"",
            " [ { \"a\" : [ ] } ] ",
            "[[[[",
            "[1 2]",
            "{\"a\":{\"b\":{}}}",
            "// no",
            "{\"a\":1}x",
        ] {
            agree(text);
        }
    }

    #[test]
    fn escapes_are_read() {
        for (text, expected) in [
            (r#""plain""#, "plain"),
            (r#""a\"b\\c\/d\b\f\n\r\t""#, "a\"b\\c/d\u{8}\u{c}\n\r\t"),
            (r#""é\u00e9 \ud83d\ude00!""#, "éé 😀!"),
            (r#""""#, ""),
        ] {
            assert_eq!(Reader::new(text).string().unwrap(), expected);
        }
    }

    #[test]
    fn deep_nesting_ends_without_recursion() {
        for open in ["[", "{\"a\":"] {
            assert!(check(&open.repeat(1_000_000)).is_err());
        }
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(Reader::new(&deep(JSON_DEPTH_MAX)).skip().unwrap(), JSON_DEPTH_MAX);
        assert!(check(&deep(JSON_DEPTH_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn strings_are_what_serde_json_reads(text in any::<String>()) {
            let written = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(Reader::new(&written).string().unwrap(), text);
        }

        #[test]
        fn any_text_is_json_when_serde_json_says_so(text in r#"[\[\]{},:"\\a1.eE+\- ntrue]{0,24}"#) {
            agree(&text);
        }
    }
}
