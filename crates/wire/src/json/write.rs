//! Writing JSON straight into one buffer.

use super::special;

/// The members of a map being written; the commas are its business.
#[derive(Debug)]
pub(crate) struct Object<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

/// Writes a map.
pub(crate) fn object<T>(out: &mut Vec<u8>, members: impl FnOnce(&mut Object<'_>) -> T) -> T {
    out.push(b'{');
    let done = members(&mut Object { out, empty: true });
    out.push(b'}');
    done
}

/// Writes a list of what `element` writes for each of `elements`.
pub(crate) fn list<T>(
    out: &mut Vec<u8>,
    elements: impl IntoIterator<Item = T>,
    mut element: impl FnMut(&mut Vec<u8>, T),
) {
    let Ok(()) = try_list(out, elements, |out, each| {
        element(out, each);
        Ok::<(), std::convert::Infallible>(())
    });
}

/// As [`list`], for elements that may fail to be written.
pub(crate) fn try_list<T, E>(
    out: &mut Vec<u8>,
    elements: impl IntoIterator<Item = T>,
    mut element: impl FnMut(&mut Vec<u8>, T) -> Result<(), E>,
) -> Result<(), E> {
    out.push(b'[');
    for (at, each) in elements.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        element(out, each)?;
    }
    out.push(b']');
    Ok(())
}

impl Object<'_> {
    /// Begins a member; its value is written by the caller.
    pub(crate) fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
        string(self.out, name);
        self.out.push(b':');
        self.out
    }

    pub(crate) fn string(&mut self, name: &str, text: &str) {
        string(self.member(name), text);
    }

    pub(crate) fn integer(&mut self, name: &str, number: i64) {
        self.member(name).extend_from_slice(number.to_string().as_bytes());
    }

    /// A number that keeps its point: `1.0`.
    pub(crate) fn decimal(&mut self, name: &str, number: f64) {
        self.member(name).extend_from_slice(format!("{number:?}").as_bytes());
    }

    pub(crate) fn boolean(&mut self, name: &str, value: bool) {
        self.member(name).extend_from_slice(if value { b"true" } else { b"false" });
    }

    pub(crate) fn object<T>(&mut self, name: &str, members: impl FnOnce(&mut Object<'_>) -> T) -> T {
        object(self.member(name), members)
    }

    pub(crate) fn strings<'a>(&mut self, name: &str, texts: impl IntoIterator<Item = &'a str>) {
        list(self.member(name), texts, string);
    }
}

/// Writes a string, escaped where it must be.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = special(rest) {
        out.extend_from_slice(&rest[..at]);
        escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commas_stand_between_members() {
        let mut out = Vec::new();
        object(&mut out, |o| {
            o.string("a", "1\n");
            o.integer("b", -2);
            o.decimal("c", 1.0);
            o.decimal("d", 0.5);
            o.object("e", |o| o.boolean("f", true));
            o.strings("g", ["x", "y"]);
        });
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"a":"1\n","b":-2,"c":1.0,"d":0.5,"e":{"f":true},"g":["x","y"]}"#
        );
    }

    proptest! {
        #[test]
        fn strings_are_read_back_by_serde_json(text in any::<String>()) {
            let mut out = Vec::new();
            string(&mut out, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
