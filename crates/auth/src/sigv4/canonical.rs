//! The one form that a signer and we make of a request, whatever happened to its spelling on the way.

use sha2::{Digest, Sha256};

use super::{HttpRequest, hex};

/// Method, path, query, the signed headers, their names and the body's hash, a line each.
pub(super) fn request(http: &HttpRequest<'_>, signed_headers: &[String]) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(http.method.as_bytes());
    out.push(b'\n');
    path(&mut out, http.path);
    out.push(b'\n');
    query(&mut out, http.query);
    out.push(b'\n');
    for name in signed_headers {
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        for (at, value) in http.values(name).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            header_value(&mut out, value);
        }
        out.push(b'\n');
    }
    out.push(b'\n');
    out.extend_from_slice(signed_headers.join(";").as_bytes());
    out.push(b'\n');
    out.extend_from_slice(hex(&Sha256::digest(http.body)).as_bytes());
    out
}

/// Without `.`, `..` and empty segments, then encoded, which encodes a second time what was encoded already.
fn path(out: &mut Vec<u8>, path: &str) {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    for segment in &segments {
        out.push(b'/');
        encode(out, segment.as_bytes());
    }
    let ends_in_slash = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end));
    if segments.is_empty() || ends_in_slash {
        out.push(b'/');
    }
}

/// Decoded, encoded in the one way, sorted; without the signature, which cannot sign itself.
fn query(out: &mut Vec<u8>, query: &str) {
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = raw_pairs(query)
        .map(|(name, value)| {
            let again = |text: &str| {
                let mut out = Vec::with_capacity(text.len());
                encode(&mut out, &decode(text));
                out
            };
            (again(name), again(value))
        })
        .filter(|(name, _)| name != b"X-Amz-Signature")
        .collect();
    pairs.sort();
    for (at, (name, value)) in pairs.iter().enumerate() {
        if at > 0 {
            out.push(b'&');
        }
        out.extend_from_slice(name);
        out.push(b'=');
        out.extend_from_slice(value);
    }
}

/// The names and values of a query, decoded.
pub(super) fn query_pairs(query: &str) -> Vec<(String, String)> {
    let text = |encoded: &str| String::from_utf8_lossy(&decode(encoded)).into_owned();
    raw_pairs(query).map(|(name, value)| (text(name), text(value))).collect()
}

fn raw_pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// Without whitespace at its ends, and with a single space for any within.
fn header_value(out: &mut Vec<u8>, value: &[u8]) {
    let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for (at, word) in words.enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
}

pub(super) fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            _ => out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
        }
    }
}

/// `%` that is not followed by two digits stands for itself.
fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let decoded = match (first, after) {
            (b'%', [high, low, after @ ..]) => digit(*high).zip(digit(*low)).map(|pair| (pair, after)),
            _ => None,
        };
        match decoded {
            Some(((high, low), after)) => {
                out.push(high << 4 | low);
                rest = after;
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}
