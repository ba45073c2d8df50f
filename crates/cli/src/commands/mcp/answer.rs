//! What a tool answers: a text for whoever reads, the same as structured content for programs, neither too large.
//!
//! Records that do not fit are left for the next page. Of a record that alone is too large, the largest values are left
//! out, and told with their sizes: `get` gives one field in parts.

use serde_json::{Map, Value as Json};

/// Of the text, and of the structured content. Clients give an answer of this size to a model as it is.
pub(super) const BYTES_MAX: usize = 48 * 1024;
/// Kept for what is told beside the records.
const NOTES_BYTES: usize = 2 * 1024;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) structured: Map<String, Json>,
}

impl Answer {
    pub(super) fn new(text: impl Into<String>, structured: Map<String, Json>) -> Self {
        Self { text: text.into(), structured }
    }

    /// A part of a long text. The structured content comes with the first, where it is not too large itself.
    pub(super) fn part(text: &str, structured: Json, cursor: Option<&str>) -> Result<Self, String> {
        let start = match cursor {
            None => 0,
            Some(cursor) => match cursor.parse::<usize>() {
                Ok(at) if at < text.len() && text.is_char_boundary(at) => at,
                _ => return Err(format!("`{cursor}` is no cursor of this text: begin again without one")),
            },
        };
        let end = end_of_part(text, start);
        let mut told = match structured {
            Json::Object(members) if start == 0 => members,
            _ => Map::new(),
        };
        let mut part = text[start..end].to_owned();
        let bytes = json_bytes(&told);
        if bytes > BYTES_MAX {
            told = Map::new();
            told.insert("left_out".into(), format!("{bytes} bytes are too many: ask for less").into());
        }
        if end < text.len() {
            part += &format!("\n[{} bytes more; cursor: {end}]\n", text.len() - end);
            told.insert("cursor".into(), end.to_string().into());
        }
        Ok(Self::new(part, told))
    }
}

/// The end of a line, if there is one, so that a part can be read alone.
fn end_of_part(text: &str, start: usize) -> usize {
    let room = BYTES_MAX - NOTES_BYTES;
    if text.len() - start <= room {
        return text.len();
    }
    let mut end = start + room;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    match text[start..end].rfind('\n') {
        Some(newline) => start + newline + 1,
        None => end,
    }
}

/// A message is short, unless it repeats what was given.
pub(super) fn cut(mut text: String) -> String {
    if text.len() > BYTES_MAX {
        let mut end = BYTES_MAX - "…".len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A record that alone fits into an answer, and what was left out of it: names of fields, with their bytes.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) members: Map<String, Json>,
    left_out: Vec<(String, usize)>,
}

impl Shown {
    pub(super) fn new(mut members: Map<String, Json>) -> Self {
        let mut left_out = Vec::new();
        let mut bytes = json_bytes(&members);
        while bytes > BYTES_MAX - NOTES_BYTES {
            let largest = members.iter().map(|(name, value)| (json_bytes(value), name)).max();
            let Some((size, name)) = largest.map(|(size, name)| (size, name.clone())) else { break };
            members.remove(&name);
            bytes -= size;
            left_out.push((name, size));
        }
        Self { members, left_out }
    }

    /// The record as a part of something that is shown.
    pub(super) fn within(self, whole: impl FnOnce(Map<String, Json>) -> Json) -> Self {
        let members = match whole(self.members) {
            Json::Object(members) => members,
            other => Map::from_iter([("record".to_owned(), other)]),
        };
        Self { members, left_out: self.left_out }
    }

    fn bytes(&self) -> usize {
        json_bytes(&self.members)
    }

    fn note(&self) -> Option<String> {
        if self.left_out.is_empty() {
            return None;
        }
        let sizes: Vec<String> =
            self.left_out.iter().map(|(name, bytes)| format!("`{name}` ({bytes} bytes)")).collect();
        Some(format!(
            "left out, because it is large: {}; `get` with `field` gives it in parts",
            sizes.join(", ")
        ))
    }
}

/// How many of these records an answer has room for; at least one.
pub(super) fn room_for(shown: &[Shown]) -> usize {
    let mut bytes = 0;
    let fitting = shown.iter().take_while(|one| {
        bytes += one.bytes() + 1;
        bytes <= BYTES_MAX - NOTES_BYTES
    });
    fitting.count().max(1).min(shown.len())
}

/// One record.
pub(super) fn record(shown: Shown, notes: impl IntoIterator<Item = String>) -> Answer {
    let notes: Vec<String> = notes.into_iter().chain(shown.note()).collect();
    let mut text = format!("{}\n", Json::Object(shown.members.clone()));
    for note in &notes {
        text += &format!("[{note}]\n");
    }
    let mut structured = Map::from_iter([("record".to_owned(), Json::Object(shown.members))]);
    if !notes.is_empty() {
        structured.insert("notes".into(), notes.into());
    }
    Answer::new(text, structured)
}

/// Several records, an object a line.
pub(super) fn records(all: Vec<Shown>, notes: impl IntoIterator<Item = String>) -> Answer {
    let mut left_out = all.iter().filter_map(Shown::note);
    let left_out = left_out.next().map(|first| match left_out.count() {
        0 => first,
        more => format!("{first}; and of {more} more records"),
    });
    let mut text: String = all.iter().map(|one| format!("{}\n", Json::Object(one.members.clone()))).collect();
    if all.is_empty() {
        text += "nothing is there\n";
    }
    let notes: Vec<String> = notes.into_iter().chain(left_out).collect();
    for note in &notes {
        text += &format!("[{note}]\n");
    }
    let records: Vec<Json> = all.into_iter().map(|one| Json::Object(one.members)).collect();
    let mut structured = Map::from_iter([("records".to_owned(), Json::Array(records))]);
    if !notes.is_empty() {
        structured.insert("notes".into(), notes.into());
    }
    Answer::new(text, structured)
}

/// How much it is as JSON.
fn json_bytes(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn members(value: Json) -> Map<String, Json> {
        match value {
            Json::Object(members) => members,
            other => panic!("the test gives an object, not {other}"),
        }
    }

    #[test]
    fn the_parts_of_a_text_are_the_text() {
        for line in ["字字字\n", "字"] {
            let text = line.repeat(BYTES_MAX);
            let (mut whole, mut cursor, mut parts) = (String::new(), None::<String>, 0);
            loop {
                let part = Answer::part(&text, json!({"a": 1}), cursor.as_deref()).expect("a part");
                assert!(part.text.len() <= BYTES_MAX);
                assert_eq!(part.structured.contains_key("a"), parts == 0, "it comes with the first");
                parts += 1;
                cursor = part.structured.get("cursor").and_then(Json::as_str).map(str::to_owned);
                match &cursor {
                    Some(_) => whole += part.text.rsplit_once("\n[").expect("it says that there is more").0,
                    None => whole += &part.text,
                }
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(whole, text);
            assert!(parts > 3, "{parts}");
        }
        for cursor in ["x", "1", "-1", "4"] {
            assert!(Answer::part("字", json!({}), Some(cursor)).is_err(), "{cursor}");
        }
    }

    #[test]
    fn what_is_too_large_is_left_out_from_the_largest_on() {
        let shown = Shown::new(members(
            json!({"a": "x", "b": "y".repeat(BYTES_MAX), "c": "z".repeat(40_000), "d": "z".repeat(9_000)}),
        ));
        assert_eq!(shown.left_out, [("b".to_owned(), BYTES_MAX + 2), ("c".to_owned(), 40_002)]);
        assert!(shown.members.contains_key("a") && shown.members.contains_key("d"));
        let answer = record(shown, []);
        assert!(answer.text.contains("left out, because it is large: `b` (49154 bytes), `c` (40002 bytes)"));
    }

    #[test]
    fn a_page_has_room_for_one_record_at_least() {
        let of = |bytes: usize| Shown::new(members(json!({"a": "x".repeat(bytes)})));
        assert_eq!(room_for(&[]), 0);
        assert_eq!(room_for(&[of(1), of(2)]), 2);
        assert_eq!(room_for(&[of(40_000), of(40_000)]), 1);
        assert_eq!(room_for(&[of(BYTES_MAX), of(40_000), of(40_000)]), 2, "what is left out takes no room");
    }
}
