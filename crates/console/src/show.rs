//! Values as a page shows them. Everything passes through `maud`, which escapes it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use larder::jiff::Timestamp;
use larder::text;
use larder::{UnixTime, Value};
use larder_model::{AttributeValue, Item};
use larder_schema::{Schema, Type};
use maud::{Markup, html};
use serde_json::{Map, Value as Json};

/// What a cell of a table shows of a value.
const CELL_CHARACTERS_MAX: usize = 80;
/// What a page shows of a value before the reader asks for all of it.
const VALUE_CHARACTERS_MAX: usize = 4000;

/// Whole numbers with separators: 1,234,567.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Some of them, in words: 1 item, 2 items.
pub(crate) fn count(of: u64, what: &str) -> String {
    format!("{} {what}{}", number(of), if of == 1 { "" } else { "s" })
}

/// Units as DynamoDB counts them, which may be halves.
pub(crate) fn units(units: f64) -> String {
    let text = format!("{units:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// A moment. The script puts it into the reader's zone.
pub(crate) fn moment(at: Timestamp) -> Markup {
    let iso = at.strftime("%Y-%m-%dT%H:%M:%S%.fZ").to_string();
    let shown = at.strftime("%Y-%m-%d %H:%M:%S%.f").to_string();
    html! { time datetime=(iso) title={ (shown) " UTC" } { (shown) " UTC" } }
}

pub(crate) fn unix_moment(at: UnixTime) -> Markup {
    match Timestamp::from_second(at.seconds()) {
        Ok(at) => moment(at),
        Err(_) => html! { (at.seconds()) },
    }
}

/// How far away a moment is: `in 3 h 20 min`, `2 d ago`. The script lets it count.
pub(crate) fn away(at: UnixTime, now: UnixTime) -> Markup {
    let seconds = at.seconds() - now.seconds();
    let iso = Timestamp::from_second(at.seconds()).map(|at| at.to_string()).unwrap_or_default();
    html! { span.away data-at=(iso) data-now=(now.seconds()) { (away_text(seconds)) } }
}

pub(crate) fn away_text(seconds: i64) -> String {
    let (ago, all) = (seconds < 0, seconds.unsigned_abs());
    let (days, hours, minutes) = (all / 86_400, all / 3600 % 24, all / 60 % 60);
    let text = match (days, hours, minutes) {
        (0, 0, 0) => format!("{all} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, 0) => format!("{hours} h"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, 1.., _) if days < 10 => format!("{days} d {hours} h"),
        (days, ..) => format!("{} d", number(days)),
    };
    if ago { format!("{text} ago") } else { format!("in {text}") }
}

/// The beginning of a text, and whether that is all of it.
pub(crate) fn cut(text: &str, characters_max: usize) -> (&str, bool) {
    match text.char_indices().nth(characters_max) {
        Some((at, _)) => (&text[..at], true),
        None => (text, false),
    }
}

/// A value of a field in a cell of a table.
pub(crate) fn cell(schema: &Schema, kind: &Type, value: &Value) -> Markup {
    if let Some(at) = value.as_instant() {
        return moment(at);
    }
    json_cell(&text::to_json(schema, kind, value))
}

/// A value that is no field's own, in a cell.
pub(crate) fn attribute_cell(value: &AttributeValue) -> Markup {
    match value {
        AttributeValue::S(text) => text_cell(text),
        AttributeValue::N(number) => html! { span.num { (number.to_string()) } },
        AttributeValue::Bool(value) => html! { span.word { (value) } },
        AttributeValue::Null => html! { span.word { "null" } },
        AttributeValue::B(bytes) => html! { span.word { (count(bytes.len() as u64, "byte")) } },
        other => json_cell(&inner(other)),
    }
}

fn json_cell(json: &Json) -> Markup {
    match json {
        Json::String(text) => text_cell(text),
        Json::Number(number) => html! { span.num { (number.to_string()) } },
        Json::Bool(value) => html! { span.word { (value) } },
        Json::Null => html! { span.word { "null" } },
        Json::Array(values) if values.is_empty() => html! { span.word { "empty" } },
        json => {
            let text = json.to_string();
            let (start, more) = cut(&text, CELL_CHARACTERS_MAX);
            html! { code { (start) @if more { "…" } } }
        }
    }
}

/// What stands for a value that is not shown.
pub(crate) fn secret() -> Markup {
    html! { span.secret { "•••••• secret" } }
}

fn text_cell(text: &str) -> Markup {
    let (start, more) = cut(text, CELL_CHARACTERS_MAX);
    html! { @if text.is_empty() { span.word { "empty text" } } @else { (start) @if more { "…" } } }
}

/// A value on the page of its record: all of it, the rest of a long one behind a click.
pub(crate) fn whole(schema: &Schema, kind: &Type, value: &Value) -> Markup {
    if let Some(at) = value.as_instant() {
        return moment(at);
    }
    let json = text::to_json(schema, kind, value);
    match (&json, kind) {
        (Json::String(text), Type::Url) if text.starts_with("https://") || text.starts_with("http://") => {
            html! { a href=(text) rel="noopener noreferrer nofollow" target="_blank" { (text) } }
        }
        (Json::String(text), _) => long(text, false),
        (Json::Array(_) | Json::Object(_), _) => long(&pretty(&json), true),
        (json, _) => json_cell(json),
    }
}

/// An attribute on the page of its item.
pub(crate) fn whole_attribute(value: &AttributeValue) -> Markup {
    match value {
        AttributeValue::S(text) if !text.is_empty() => long(text, false),
        AttributeValue::L(_) | AttributeValue::M(_) => long(&pretty(&inner(value)), true),
        AttributeValue::Ss(_) | AttributeValue::Ns(_) | AttributeValue::Bs(_) => {
            long(&pretty(&inner(value)), true)
        }
        AttributeValue::B(_) => match inner(value) {
            Json::String(base64) => long(&base64, true),
            _ => attribute_cell(value),
        },
        _ => attribute_cell(value),
    }
}

fn long(text: &str, code: bool) -> Markup {
    let (start, more) = cut(text, VALUE_CHARACTERS_MAX);
    let block = code || text.contains('\n');
    html! {
        @if more {
            details.long {
                summary { (cut(start, 200).0) "… " span.quiet { (count(text.chars().count() as u64, "character")) } }
                pre tabindex="0" { (text) }
            }
        } @else if block {
            pre tabindex="0" { (text) }
        } @else {
            span.text { (text) }
        }
    }
}

/// What is inside `{"S": …}`.
fn inner(value: &AttributeValue) -> Json {
    let item: Item = [("v", value.clone())].into_iter().collect();
    match item_json(&item).remove("v") {
        Some(Json::Object(typed)) => typed.into_values().next().unwrap_or_default(),
        _ => Json::Null,
    }
}

/// An item in DynamoDB's JSON.
pub(crate) fn item_json(item: &Item) -> Map<String, Json> {
    let mut line = Vec::new();
    larder_wire::encode_exported(&mut line, item);
    match serde_json::from_slice(&line) {
        Ok(Json::Object(mut line)) => match line.remove("Item") {
            Some(Json::Object(item)) => item,
            _ => Map::new(),
        },
        _ => Map::new(),
    }
}

pub(crate) fn pretty(json: &Json) -> String {
    serde_json::to_string_pretty(json).unwrap_or_default()
}

/// The item of DynamoDB's JSON, or what is wrong with it.
pub(crate) fn read_item(text: &str) -> Result<Item, String> {
    let json: Json = serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?;
    if !json.is_object() {
        return Err("an item is a JSON object, such as {\"pk\": {\"S\": \"1\"}}".to_owned());
    }
    larder_wire::decode_exported(format!("{{\"Item\":{json}}}").as_bytes()).map_err(|error| error.to_string())
}

/// What an item was when a form was made of it, so that it is known whether it still is.
pub(crate) fn digest(item: &Item) -> String {
    let mut line = Vec::new();
    larder_wire::encode_exported(&mut line, item);
    seal(&line)
}

/// What stands for something on a page. Nobody but this process can work it out: secrets could be guessed from it.
pub(crate) fn seal(bytes: &[u8]) -> String {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    format!("{:016x}", KEY.hash_one(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators() {
        for (given, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(given), shown);
        }
        assert_eq!((count(1, "item"), count(2000, "item")), ("1 item".to_owned(), "2,000 items".to_owned()));
        assert_eq!((units(0.5), units(12.0)), ("0.5".to_owned(), "12".to_owned()));
    }

    #[test]
    fn a_moment_keeps_its_fraction() {
        for text in ["2026-01-15T10:00:00Z", "2026-01-15T10:00:00.123456Z"] {
            let shown = moment(text.parse().expect("a moment")).into_string();
            assert!(shown.contains(&format!("datetime=\"{text}\"")), "{shown}");
        }
    }

    #[test]
    fn a_distance_is_told_by_its_largest_parts() {
        for (seconds, shown) in [
            (5, "in 5 s"),
            (-90, "1 min ago"),
            (3 * 3600 + 1200, "in 3 h 20 min"),
            (2 * 86_400 + 3600, "in 2 d 1 h"),
            (7200, "in 2 h"),
            (3 * 86_400, "in 3 d"),
            (400 * 86_400, "in 400 d"),
        ] {
            assert_eq!(away_text(seconds), shown);
        }
    }

    #[test]
    fn whatever_an_item_holds_is_text() {
        let hostile = "</td><script>alert(1)</script>\"'&";
        for markup in [
            attribute_cell(&AttributeValue::S(hostile.to_owned())),
            whole_attribute(&AttributeValue::S(hostile.to_owned())),
            whole_attribute(&AttributeValue::S(hostile.repeat(1000))),
            whole_attribute(&AttributeValue::M([(hostile, hostile)].into_iter().collect())),
            whole_attribute(&AttributeValue::Ss([hostile.to_owned()].into())),
        ] {
            let text = markup.into_string();
            assert!(!text.contains("<script") && text.contains("&lt;script"), "{text}");
        }
    }

    #[test]
    fn all_ten_types_read_back_as_they_were_shown() {
        let text = r#"{"s": {"S": "a"}, "n": {"N": "1.0000000000000000000000000000000000001"}, "b": {"B": "AAEC"},
            "t": {"BOOL": true}, "z": {"NULL": true}, "l": {"L": [{"S": "x"}]}, "m": {"M": {"k": {"N": "2"}}},
            "ss": {"SS": ["a", "b"]}, "ns": {"NS": ["1", "2"]}, "bs": {"BS": ["AAEC"]}}"#;
        let item = read_item(text).expect("it is an item");
        let again = read_item(&pretty(&Json::Object(item_json(&item)))).expect("so is this");
        assert_eq!(again, item);
        assert_eq!(digest(&again), digest(&item));
    }

    #[test]
    fn what_is_no_item_is_told() {
        for (text, cause) in [
            ("{", "this is not JSON"),
            ("[]", "an item is a JSON object"),
            (r#"{"a": "b"}"#, "a"),
            (r#"{"a": {"SS": []}}"#, "set"),
        ] {
            let told = read_item(text).expect_err(text);
            assert!(told.contains(cause) && !told.is_empty(), "{text}: {told}");
        }
    }
}
