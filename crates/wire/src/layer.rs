//! Whether a request is read by DynamoDB's older layer: somewhere in it a BOOL, NULL or `Exists` is written as
//! a string, or a value has two types.

use crate::json::{Kind, Reader};
use crate::refusal::Read;
use crate::value::is_type_name;

/// Deeper than this nothing is looked at: values that deep are refused alike by both layers.
const DEPTH_MAX: usize = 100;

pub(crate) fn is_older(text: &str) -> bool {
    let mut older = false;
    // The text has been read once; what cannot be read is of no layer.
    let _ = walk(&mut Reader::new(text), 0, &mut older);
    older
}

fn walk(reader: &mut Reader<'_>, depth: usize, older: &mut bool) -> Read<()> {
    match reader.kind()? {
        Kind::Map if depth < DEPTH_MAX => {
            let (mut types, mut plain) = (0, false);
            reader.members(|reader, name| {
                let kind = reader.kind()?;
                if kind == Kind::String && matches!(&*name, "BOOL" | "NULL" | "Exists") {
                    *older = true;
                }
                if kind != Kind::Null && is_type_name(&name) {
                    types += 1;
                    plain |= kind != Kind::Map;
                }
                walk(reader, depth + 1, older)
            })?;
            // A map of nothing but maps is an item with attributes called `S` and `N`.
            *older |= types > 1 && plain;
            Ok(())
        }
        Kind::List if depth < DEPTH_MAX => reader.elements(|reader| walk(reader, depth + 1, older)),
        _ => reader.skip().map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_booleans_and_values_of_two_types_are_of_the_older_layer() {
        for (text, older) in [
            (r#"{"Item": {"a": {"BOOL": true}, "b": {"S": "x"}}}"#, false),
            (r#"{"Item": {"a": {"BOOL": "yes"}}}"#, true),
            (r#"{"Expected": {"a": {"Exists": "no"}}}"#, true),
            (r#"{"Item": {"a": {"L": [{"S": "x", "N": "1"}]}}}"#, true),
            (r#"{"Item": {"S": {"S": "x"}, "N": {"S": "y"}}}"#, false),
            (r#"{"Item": {"a": {"S": "x", "N": null}}}"#, false),
        ] {
            assert_eq!(is_older(text), older, "{text}");
        }
    }
}
