//! Members of a request as DynamoDB repeats them in a constraint's message: the way its Java model prints
//! itself, every field of every value named, maps in the order of a Java hash map.
//!
//! An echo is cut at a megabyte, because it can be twenty times as long as the request.

use std::collections::BTreeMap;

use larder_model::{AttributeType, AttributeValue, Item};

const LENGTH_MAX: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Echo {
    text: String,
    is_full: bool,
}

impl Echo {
    pub(crate) fn finish(mut self) -> String {
        if self.is_full {
            self.text.push_str("...");
        }
        self.text
    }

    pub(crate) fn text(&mut self, text: &str) {
        if self.is_full {
            return;
        }
        let room = LENGTH_MAX - self.text.len();
        self.is_full = text.len() > room;
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
    }

    pub(crate) fn option(&mut self, text: Option<&str>) {
        self.text(text.unwrap_or("null"));
    }

    /// What `put` prints for each of `parts`, between brackets.
    pub(crate) fn list<T>(&mut self, parts: impl IntoIterator<Item = T>, mut put: impl FnMut(&mut Self, T)) {
        self.text("[");
        self.separated(parts, ", ", &mut put);
        self.text("]");
    }

    /// What `put` prints for each of `parts`, with `separator` between them.
    pub(crate) fn separated<T>(
        &mut self,
        parts: impl IntoIterator<Item = T>,
        separator: &str,
        put: &mut impl FnMut(&mut Self, T),
    ) {
        for (at, part) in parts.into_iter().enumerate() {
            // A full echo does not need the rest.
            if self.is_full {
                return;
            }
            if at > 0 {
                self.text(separator);
            }
            put(self, part);
        }
    }

    /// `{name=value, …}`, the names in the order given.
    pub(crate) fn map<'a, T>(
        &mut self,
        members: impl IntoIterator<Item = (&'a str, T)>,
        mut put: impl FnMut(&mut Self, T),
    ) {
        self.text("{");
        self.separated(members, ", ", &mut |echo, (name, value)| {
            echo.text(name);
            echo.text("=");
            put(echo, value);
        });
        self.text("}");
    }

    pub(crate) fn item(&mut self, item: &Item) {
        let members = hashed(item.iter().map(|(name, value)| (name.as_str(), value)).collect());
        self.map(members, Self::value);
    }

    pub(crate) fn names(&mut self, names: Option<&BTreeMap<String, String>>) {
        match names {
            Some(names) => {
                let members = hashed(names.iter().map(|(name, to)| (name.as_str(), to)).collect());
                self.map(members, |echo, to| echo.text(to));
            }
            None => self.text("null"),
        }
    }

    pub(crate) fn values(&mut self, values: Option<&BTreeMap<String, AttributeValue>>) {
        match values {
            Some(values) => {
                let members = hashed(values.iter().map(|(name, value)| (name.as_str(), value)).collect());
                self.map(members, Self::value);
            }
            None => self.text("null"),
        }
    }

    pub(crate) fn value(&mut self, value: &AttributeValue) {
        const FIELDS: [(&str, Option<AttributeType>); 16] = [
            ("s", Some(AttributeType::S)),
            ("n", Some(AttributeType::N)),
            ("b", Some(AttributeType::B)),
            ("iNT", None),
            ("dECIMAL", None),
            ("dOUBLE", None),
            ("sS", Some(AttributeType::Ss)),
            ("nS", Some(AttributeType::Ns)),
            ("bS", Some(AttributeType::Bs)),
            ("iNTSET", None),
            ("dECIMALSET", None),
            ("dOUBLESET", None),
            ("m", Some(AttributeType::M)),
            ("l", Some(AttributeType::L)),
            ("nULL", Some(AttributeType::Null)),
            ("bOOL", Some(AttributeType::Bool)),
        ];
        self.text("AttributeValue(");
        self.separated(FIELDS, ", ", &mut |echo, (name, kind)| {
            echo.text(name);
            echo.text("=");
            if kind == Some(value.kind()) { echo.content(value) } else { echo.text("null") }
        });
        self.text(")");
    }

    fn content(&mut self, value: &AttributeValue) {
        match value {
            AttributeValue::S(text) => self.text(text),
            AttributeValue::N(number) => self.text(&number.to_string()),
            AttributeValue::B(bytes) => self.buffer(bytes),
            AttributeValue::Bool(value) => self.text(&value.to_string()),
            AttributeValue::Null => self.text("true"),
            AttributeValue::Ss(set) => self.list(set, |echo, text| echo.text(text)),
            AttributeValue::Ns(set) => self.list(set, |echo, number| echo.text(&number.to_string())),
            AttributeValue::Bs(set) => self.list(set, |echo, bytes| echo.buffer(bytes)),
            AttributeValue::L(values) => self.list(values, Self::value),
            AttributeValue::M(map) => self.item(map),
        }
    }

    fn buffer(&mut self, bytes: &[u8]) {
        let length = bytes.len();
        self.text(&format!("java.nio.HeapByteBuffer[pos=0 lim={length} cap={length}]"));
    }
}

/// Members in the order of a Java hash map made for as many: by bucket, then as they come.
fn hashed<T>(mut members: Vec<(&str, T)>) -> Vec<(&str, T)> {
    let mut buckets = members.len().max(1).next_power_of_two();
    while members.len() * 4 > buckets * 3 {
        buckets *= 2;
    }
    members.sort_by_key(|(name, _)| bucket(name, buckets));
    members
}

fn bucket(name: &str, buckets: usize) -> usize {
    let hash =
        name.encode_utf16().fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    (hash ^ (hash >> 16)) as usize & (buckets - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_echoed_as_java_prints_it() {
        let item: Item = [("pk", AttributeValue::from("a"))].into_iter().collect();
        let mut echo = Echo::default();
        echo.item(&item);
        insta::assert_snapshot!(echo.finish(), @"{pk=AttributeValue(s=a, n=null, b=null, iNT=null, dECIMAL=null, dOUBLE=null, sS=null, nS=null, bS=null, iNTSET=null, dECIMALSET=null, dOUBLESET=null, m=null, l=null, nULL=null, bOOL=null)}");
    }

    #[test]
    fn an_echo_is_cut_between_characters() {
        let mut echo = Echo::default();
        echo.text(&"a".repeat(LENGTH_MAX - 1));
        echo.text("é and more");
        echo.text("nothing else");
        assert!(echo.finish() == format!("{}...", "a".repeat(LENGTH_MAX - 1)));
    }
}
