//! Lines of values with a delimiter between them, as ImportTable takes them.
//!
//! All values are text but those of keys, which are of their types; bytes are base64. A value in quotes may hold the delimiter,
//! and a quote that is written twice. A line is a record: there is no line break in a value.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use larder_model::{AttributeValue, Item, KeyType, Number, TableDefinition};

#[derive(Clone, Debug)]
pub(crate) struct Csv {
    delimiter: char,
    keys: HashMap<String, KeyType>,
}

impl Csv {
    pub(crate) fn of(table: &TableDefinition, delimiter: Option<char>) -> Self {
        Self { delimiter: delimiter.unwrap_or(','), keys: table.attributes.iter().cloned().collect() }
    }

    /// The values of a line.
    pub(crate) fn fields(&self, line: &[u8]) -> Result<Vec<String>, String> {
        let line = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())?;
        let line = line.strip_suffix('\n').unwrap_or(line);
        let mut letters = line.strip_suffix('\r').unwrap_or(line).chars().peekable();
        let mut fields = Vec::new();
        loop {
            let mut field = String::new();
            if letters.next_if_eq(&'"').is_some() {
                loop {
                    match letters.next() {
                        Some('"') if letters.next_if_eq(&'"').is_none() => break,
                        Some(letter) => field.push(letter),
                        None => return Err("a quote has no end".to_owned()),
                    }
                }
            } else {
                while let Some(letter) = letters.next_if(|letter| *letter != self.delimiter) {
                    field.push(letter);
                }
            }
            fields.push(field);
            match letters.next() {
                None => return Ok(fields),
                Some(letter) if letter == self.delimiter => {}
                Some(_) => return Err("something follows a quote".to_owned()),
            }
        }
    }

    /// The item of a line.
    pub(crate) fn item(&self, header: &[String], line: &[u8]) -> Result<Item, String> {
        let fields = self.fields(line)?;
        if fields.len() != header.len() {
            return Err(format!("there are {} values, and {} are named", fields.len(), header.len()));
        }
        let value = |name: &String, field: String| -> Result<AttributeValue, String> {
            match self.keys.get(name) {
                Some(KeyType::N) => {
                    let number: Number = field.parse().map_err(|_| format!("`{name}` is not a number"))?;
                    Ok(AttributeValue::N(number))
                }
                Some(KeyType::B) => {
                    let bytes = STANDARD.decode(field).map_err(|_| format!("`{name}` is not base64"))?;
                    Ok(AttributeValue::B(bytes))
                }
                Some(KeyType::S) | None => Ok(AttributeValue::S(field)),
            }
        };
        let mut item = Item::new();
        for (name, field) in header.iter().zip(fields) {
            item.insert(name.clone(), value(name, field)?);
        }
        Ok(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(delimiter: char) -> Csv {
        let keys = [("n".to_owned(), KeyType::N), ("b".to_owned(), KeyType::B)];
        Csv { delimiter, keys: keys.into() }
    }

    #[test]
    fn values_are_between_delimiters_and_may_be_in_quotes() {
        for (delimiter, line, expected) in [
            (',', "a,b,c\n", Ok(vec!["a", "b", "c"])),
            (',', "a,,\r\n", Ok(vec!["a", "", ""])),
            (',', r#""a,""b""",c"#, Ok(vec![r#"a,"b""#, "c"])),
            (';', "a,b;c", Ok(vec!["a,b", "c"])),
            ('\t', "a\tb", Ok(vec!["a", "b"])),
            (',', r#""a"#, Err("a quote has no end")),
            (',', r#""a"b"#, Err("something follows a quote")),
        ] {
            let found = csv(delimiter).fields(line.as_bytes());
            let expected = expected.map(|fields| fields.into_iter().map(str::to_owned).collect());
            assert_eq!(found, expected.map_err(str::to_owned), "{line}");
        }
        assert!(csv(',').fields(&[0xff]).is_err());
    }

    #[test]
    fn keys_are_of_their_types_and_all_else_is_text() {
        let header: Vec<String> = ["n", "b", "t"].map(str::to_owned).into();
        let item = csv(',').item(&header, b"01.50,AAEC,7").expect("it is right");
        assert_eq!(item.get("n"), Some(&AttributeValue::N("1.5".parse().expect("a number"))));
        assert_eq!(item.get("b"), Some(&AttributeValue::B(vec![0, 1, 2])));
        assert_eq!(item.get("t"), Some(&AttributeValue::S("7".to_owned())));
        for line in ["x,AAEC,7", "1,?,7", "1,AAEC", "1,AAEC,7,8"] {
            assert!(csv(',').item(&header, line.as_bytes()).is_err(), "{line}");
        }
    }
}
