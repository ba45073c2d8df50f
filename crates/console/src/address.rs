//! Addresses: what a page is called, and what was asked of it.

use std::fmt::{self, Write as _};

/// The address of a page: every view has one, so that it can be sent to somebody else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    segments: Vec<String>,
    query: Vec<(String, String)>,
}

impl Url {
    pub(crate) fn to<'a>(segments: impl IntoIterator<Item = &'a str>) -> Self {
        Self { segments: segments.into_iter().map(str::to_owned).collect(), query: Vec::new() }
    }

    pub(crate) fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// With this in place of what it said before.
    pub(crate) fn instead(mut self, name: &str, value: impl Into<String>) -> Self {
        self = self.without(name);
        self.with(name, value)
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.query.retain(|(known, _)| known != name);
        self
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            f.write_char('/')?;
            encode(f, segment)?;
        }
        if self.segments.is_empty() {
            f.write_char('/')?;
        }
        for (at, (name, value)) in self.query.iter().enumerate() {
            f.write_char(if at == 0 { '?' } else { '&' })?;
            encode(f, name)?;
            f.write_char('=')?;
            encode(f, value)?;
        }
        Ok(())
    }
}

impl maud::Render for Url {
    fn render_to(&self, out: &mut String) {
        maud::Render::render_to(self.to_string().as_str(), out);
    }
}

fn encode(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    // A segment of dots alone would be taken for a way up.
    let dots = !text.is_empty() && text.bytes().all(|byte| byte == b'.');
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => f.write_char(char::from(byte))?,
            b'.' if !dots => f.write_char('.')?,
            other => write!(f, "%{other:02X}")?,
        }
    }
    Ok(())
}

/// What a form or an address gives: names and values, in order. A name may come more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given(Vec<(String, String)>);

impl Given {
    /// Of `a=1&b=2`. What is no UTF-8 is read as far as it is.
    pub(crate) fn read(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
        });
        Self(pairs.collect())
    }

    /// The first value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The same, if it is not empty.
    pub(crate) fn said(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The address that asks for the same at another place.
    pub(crate) fn onto(&self, mut url: Url) -> Url {
        url.query.extend(self.0.iter().cloned());
        url
    }
}

impl FromIterator<(String, String)> for Given {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// The parts of a path, as they were before they were encoded.
pub(crate) fn segments(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !part.is_empty()).map(decode).collect()
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match digits.and_then(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)) {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_as_it_was_written() {
        for text in ["SHOP#a.de", "a b+c&d=e", "100 %", "東京", "..", "%41", "\"<script>", ""] {
            let url = Url::to(["item", text]).with(text, text).to_string();
            let (path, query) = url.split_once('?').expect("it has a query");
            assert!(url.is_ascii() && !url.contains(['"', '<', '#', ' ']), "{url}");
            let expected: Vec<&str> = ["item", text].into_iter().filter(|part| !part.is_empty()).collect();
            assert_eq!(segments(path), expected, "{url}");
            assert_eq!(Given::read(query).get(text), Some(text), "{url}");
        }
    }

    #[test]
    fn no_segment_is_a_way_up() {
        assert_eq!(Url::to(["item", ".."]).to_string(), "/item/%2E%2E");
        assert_eq!(Url::to([]).to_string(), "/");
    }

    #[test]
    fn what_is_encoded_wrongly_is_taken_as_it_is() {
        assert_eq!(
            Given::read("a=%zz&b=%4&c=%").iter().collect::<Vec<_>>(),
            [("a", "%zz"), ("b", "%4"), ("c", "%")]
        );
        assert_eq!(Given::read("a=%ff").get("a"), Some("\u{fffd}"));
    }
}
