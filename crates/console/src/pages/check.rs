//! Checks before anything is sent to be written: what a browser can hold a field to by itself, and what the schema says of a
//! draft. Nothing is read and nothing is written.

use larder_model::{Number, TableName};
use larder_schema::schema::{Field, Pattern};
use larder_schema::{Schema, Type};

use super::{Page, Room, edit};
use crate::address::{Given, Url};
use crate::answer;
use crate::house::Kind;
use crate::show;

/// What a browser knows of a field.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) required: bool,
    pub(super) pattern: Option<String>,
    pub(super) min: Option<i64>,
    pub(super) max: Option<i64>,
    /// In words, where a browser says that it does not fit.
    pub(super) title: Option<String>,
}

impl Limits {
    /// Of a field that somebody is to give. What a browser would take for something else is left to the schema.
    pub(super) fn of(schema: &Schema, field: &Field) -> Self {
        let checks = &field.checks;
        let may_be_empty = matches!(field.kind, Type::String)
            && !checks.nonempty
            && checks.len.is_none_or(|(least, _)| least == 0);
        let mut limits = Self {
            required: !field.optional
                && checks.default.is_none()
                && !may_be_empty
                && !schema.is_secret(field),
            ..Self::default()
        };
        match field.kind {
            Type::String => {
                let pattern = checks.pattern.as_ref().map(Pattern::as_str).filter(|text| is_plain(text));
                if let Some(pattern) = pattern {
                    limits.pattern = Some(pattern.to_owned());
                    limits.title = Some(format!("matches {pattern}"));
                } else if let (None, Some((least, most))) = (&checks.pattern, checks.len) {
                    // A pattern counts characters; a browser's own limit counts pairs of bytes.
                    let most = most.map(|most| most.to_string()).unwrap_or_default();
                    limits.title = Some(format!(
                        "{least} to {} characters",
                        if most.is_empty() { "any number of" } else { &most }
                    ));
                    limits.pattern = Some(format!(".{{{least},{most}}}"));
                }
            }
            Type::Int => {
                let range = checks.range.as_ref();
                let whole = |number: Option<Number>| number.and_then(|number| number.to_i64());
                limits.min = whole(range.and_then(|range| range.min)).or(checks.positive.then_some(1));
                limits.max = range.and_then(|range| Some(whole(range.max)? - i64::from(!range.max_included)));
                limits.title = match (limits.min, limits.max) {
                    (Some(min), Some(max)) => Some(format!("{min} to {max}")),
                    (Some(min), None) => Some(format!("at least {min}")),
                    (None, Some(max)) => Some(format!("at most {max}")),
                    (None, None) => None,
                };
            }
            _ => {}
        }
        limits
    }
}

/// Whether an expression means the same to a browser: letters, digits, classes of those, and how often.
fn is_plain(pattern: &str) -> bool {
    let mut in_class = false;
    for letter in pattern.chars() {
        match letter {
            '[' if in_class => return false,
            '[' => in_class = true,
            ']' => in_class = false,
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | ' ' | '-' | ',' => {}
            '{' | '}' | '(' | ')' | '|' | '+' | '*' | '?' | '.' if !in_class => {}
            _ => return false,
        }
    }
    // A hyphen that stands for itself, or a group that asks for something special.
    !pattern.contains("[-") && !pattern.contains("-]") && !pattern.contains("(?")
}

/// What is wrong with a draft, by field, as JSON.
pub(super) fn draft(kind: &Kind<'_>, form: &Given) -> Page {
    let given = edit::texts_given(kind, form);
    let (fields, wrong) = edit::read_fields(kind, &given);
    let mut told = wrong.fields;
    for violation in kind.schema().violations(kind.entity, &fields) {
        told.entry(violation.field().to_owned()).or_insert_with(|| violation.to_string());
    }
    // Of a record that is there, only what differs from what the form showed is an edit.
    let is_edited = |name: &str| match (given.get(name), form.get(&format!("was.{name}"))) {
        (Some(text), Some(was)) => was != show::seal(text.as_bytes()),
        (Some(_), None) => true,
        (None, _) => false,
    };
    told.retain(|name, _| is_edited(name));
    Ok(answer::json(&serde_json::json!({ "wrong": told })))
}

/// What is wrong with an item that somebody writes as JSON: what DynamoDB cannot read, and what the schema of its table does not allow. A
/// secret that is only said to be there is left as it is.
pub(super) fn item(room: &Room<'_>, table: &TableName, form: &Given) -> Page {
    let text = form.get("item").unwrap_or_default();
    let wrong = edit::read_draft(text).and_then(|(item, kept)| {
        let Some(known) = room.known.table(table) else { return Ok(()) };
        let broken = known.checker.check(None, &item, room.house.now());
        let told: Vec<String> =
            broken.iter().filter(|it| !kept.contains(&it.attribute)).map(ToString::to_string).collect();
        if told.is_empty() { Ok(()) } else { Err(told.join("; ")) }
    });
    let wrong = match wrong {
        Ok(()) => serde_json::json!({}),
        Err(told) => serde_json::json!({ "item": told }),
    };
    Ok(answer::json(&serde_json::json!({ "wrong": wrong })))
}

/// Where a form has its drafts checked.
pub(super) fn url(kind: &Kind<'_>) -> Url {
    Url::to(["check", &kind.schema().system, &kind.entity.name])
}

/// The same of an item as JSON.
pub(super) fn item_url(table: &TableName) -> Url {
    Url::to(["check", table.as_str()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_schema::{Environment, NoFiles};

    #[test]
    fn a_browser_is_told_what_it_can_hold_a_field_to() {
        let text = "system a\ntable things {\n  key pk\n  entity E {\n    key \"E#{id}\"\n    input id: string nonempty\n    country: string? match /[A-Z]{2}/\n    odd: string match /[^<>\\/]+/\n    hour: int in 0..=23\n    share: int in 0..100\n    many: int positive\n    note: string\n    name: string len 1..=20\n    flag: bool default true\n  }\n}\n";
        let loaded = Schema::load("a.larder", text, &mut NoFiles, &Environment::new());
        let schema = loaded.schema.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
        let entity = &schema.tables[0].entities[0];
        let of = |name: &str| Limits::of(&schema, entity.field(name).expect(name));
        assert!(of("id").required && of("hour").required && !of("note").required && !of("flag").required);
        assert_eq!((of("country").pattern.as_deref(), of("country").required), (Some("[A-Z]{2}"), false));
        assert_eq!(of("odd").pattern, None, "a browser may read it otherwise");
        assert_eq!(
            (of("hour").min, of("hour").max, of("share").max, of("many").min),
            (Some(0), Some(23), Some(99), Some(1))
        );
        assert_eq!(of("name").pattern.as_deref(), Some(".{1,20}"));
    }

    #[test]
    fn expressions_that_differ_between_engines_stay_here() {
        for plain in ["[a-z]+", "[A-Z]{2}[0-9]{4}", "(a|b)?c*", "20[0-9]{2}"] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in ["(?i)a", "[^a]", "\\d+", "[a-]", "[-a]", "^a$", "[[:alpha:]]", "a/b", "é"] {
            assert!(!is_plain(other), "{other}");
        }
    }
}
