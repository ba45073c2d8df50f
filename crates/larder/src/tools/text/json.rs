//! JSON as people and programs write it, without what reading it would change.
//!
//! A number in JSON becomes a double or a whole number of 64 bits. One that would be another afterwards is refused:
//! in quotes it keeps its digits.

use std::fmt;

use larder_model::Number;
use serde_json::Value as Json;

/// What is wrong with a text that should be JSON.
#[derive(Debug)]
pub enum JsonError<'a> {
    /// It is none.
    Form(serde_json::Error),
    /// This number would be another once it was read.
    Digits(&'a str),
}

impl std::error::Error for JsonError<'_> {}

impl fmt::Display for JsonError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(error) => write!(f, "this is not JSON: {error}"),
            Self::Digits(number) => {
                write!(f, "`{number}` would lose digits as a JSON number: write it in quotes")
            }
        }
    }
}

/// Reads a JSON text.
///
/// ```
/// use larder::text::json::parse;
///
/// assert_eq!(parse("[0.5]").expect("a double holds it")[0], 0.5);
/// assert!(parse("[99.123456789012345678901]").is_err());
/// ```
pub fn parse(text: &str) -> Result<Json, JsonError<'_>> {
    let json = serde_json::from_str(text).map_err(JsonError::Form)?;
    match numbers(text).find(|number| !is_kept(number)) {
        None => Ok(json),
        Some(number) => Err(JsonError::Digits(number)),
    }
}

/// The numbers of a text that is JSON, as they are written.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
            rest = &rest[at..];
            let Some(within) = rest.strip_prefix('"') else {
                let is_of_it = |c: char| matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E');
                let end = rest.find(|c| !is_of_it(c)).unwrap_or(rest.len());
                let (number, after) = rest.split_at(end);
                rest = after;
                return Some(number);
            };
            let mut is_escaped = false;
            let end = within.find(|c| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            })?;
            rest = &within[end + 1..];
        }
    })
}

/// Whether a number is the same once it was read.
fn is_kept(written: &str) -> bool {
    if written.parse::<i64>().is_ok() || written.parse::<u64>().is_ok() {
        return true;
    }
    let double = written.parse::<f64>().ok().and_then(|double| format!("{double:e}").parse::<Number>().ok());
    double.is_some() && double == written.parse::<Number>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_kept_or_refused() {
        for text in [
            "0.1",
            "-12",
            "1e-3",
            "[1.50, 18446744073709551615, {\"a\": 2.5E3}]",
            r#"{"1.0000000000000000000001": "and \"9.99999999999999999999\" in \\"}"#,
            "0.30000000000000004",
            "-0.0",
        ] {
            assert!(parse(text).is_ok(), "{text}: {:?}", parse(text));
        }
        for (text, number) in [
            ("99.123456789012345678901", "99.123456789012345678901"),
            (r#"{"\\": [1, 12345678901234567890123]}"#, "12345678901234567890123"),
            (r#"["a\"b", 1e200]"#, "1e200"),
        ] {
            let told = format!("`{number}` would lose digits as a JSON number: write it in quotes");
            assert_eq!(parse(text).expect_err(text).to_string(), told);
        }
        let cut = parse("[1").expect_err("it is cut off").to_string();
        assert!(cut.starts_with("this is not JSON: "), "{cut}");
    }
}
