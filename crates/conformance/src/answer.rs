//! An answer of the endpoint, and the two things a test may say of it: it is good, or it is this error.

use serde_json::Value;

use crate::differences;
use crate::endpoint::Target;

/// One HTTP answer with a JSON body.
#[derive(Clone, Debug)]
pub struct Answer {
    pub target: Target,
    /// The operation that was asked for, and its body: for messages.
    pub request: String,
    pub status: u16,
    /// Names in lower case, in the order received.
    pub headers: Vec<(String, String)>,
    /// `Null` when the body is not JSON.
    pub body: Value,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body of a successful answer.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.status == 200, "{}\nwas refused: {} {}", self.request, self.status, self.body);
        self.body
    }

    /// The body of an error with this code and message; `…` in the message stands for any text.
    #[track_caller]
    pub fn error(self, code: &str, message: &str) -> Value {
        if let Err(difference) = self.compare_error(code, message) {
            panic!("{difference}");
        }
        self.body
    }

    /// What differs from an error with this code and message.
    pub fn compare_error(&self, code: &str, message: &str) -> Result<(), String> {
        let got_code = self.code().unwrap_or_default();
        let got_message = self.message().unwrap_or_default();
        let right_status = if code == "InternalServerError" { 500 } else { 400 };
        let said = |message: &str| matches(message, got_message);
        let own = || differences::reworded(self.target, message).is_some_and(|message| said(&message));
        if self.status == right_status && got_code == code && (said(message) || own()) {
            return Ok(());
        }
        let request: String = self.request.chars().take(600).collect();
        let body: String = self.body.to_string().chars().take(1500).collect();
        Err(format!(
            "{request}\n  expected {right_status} {code}: {message}\n  got      {} {got_code}: {got_message}\n  body     {body}",
            self.status
        ))
    }

    /// The error's code, without the namespace before `#`.
    pub fn code(&self) -> Option<&str> {
        self.body["__type"].as_str().and_then(|kind| kind.rsplit('#').next())
    }

    /// The error's message, under either spelling that AWS uses.
    pub fn message(&self) -> Option<&str> {
        self.body["message"].as_str().or_else(|| self.body["Message"].as_str())
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('…') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let mut pieces: Vec<&str> = rest.split('…').collect();
    let tail = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = text.find(piece) else { return false };
        text = &text[at + piece.len()..];
    }
    text.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn an_ellipsis_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a…", "abc", true),
            ("a…c", "abc", true),
            ("a…c", "abcd", false),
            ("a…b…c", "a-b-c", true),
            ("a…x…c", "a-b-c", false),
            ("…", "", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
