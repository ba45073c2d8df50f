//! Names for a schema, from whatever names were found.

use std::collections::HashSet;

use crate::schema::Naming;

/// A table's name may have 255 characters, and a name gets more of them on its way there.
const WORD_BYTES_MAX: usize = 100;

/// Names that are taken. A name that is asked for twice gets a number.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken(HashSet<String>);

impl Taken {
    pub(super) fn free(&mut self, wanted: &str) -> String {
        let mut names =
            std::iter::once(wanted.to_owned()).chain((2..).map(|number| format!("{wanted}_{number}")));
        let name = names.find(|name| !self.0.contains(name)).expect("there are more numbers than names");
        self.0.insert(name.clone());
        name
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

/// Whether the language can say a name as it is.
pub(super) fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The nearest name that the language can say, and that can name a table.
pub(super) fn word(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .collect();
    let mut joined = words.join("_");
    joined.truncate(WORD_BYTES_MAX);
    match joined {
        joined if joined.is_empty() => "unnamed".to_owned(),
        joined if joined.starts_with(|c: char| c.is_ascii_digit()) => format!("n{joined}"),
        joined => joined,
    }
}

/// `lunchCount`, `LunchCount`, `lunch-count` → `lunch_count`.
pub(super) fn snake(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4);
    let chars: Vec<char> = word(text).chars().collect();
    for (at, c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| chars[before]);
        let starts = c.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || (before.is_ascii_uppercase()
                        && chars.get(at + 1).is_some_and(char::is_ascii_lowercase))
            });
        if starts {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// `export_status`, `RACE` → `ExportStatus`, `Race`.
pub(super) fn pascal(text: &str) -> String {
    let name: String = Naming::Pascal.stored(&snake(text)).chars().filter(|c| *c != '_').collect();
    if is_word(&name) { name } else { format!("N{name}") }
}

/// `lunches` → `lunch`, as far as English is regular.
pub(super) fn singular(text: &str) -> String {
    for (ending, instead) in [("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("sses", "ss")] {
        if let Some(stem) = text.strip_suffix(ending).filter(|stem| stem.len() > 1) {
            return format!("{stem}{instead}");
        }
    }
    match text.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with(['s', 'u', 'i']) => stem.to_owned(),
        _ => text.to_owned(),
    }
}

/// The `naming` under which most attributes need no name of their own. Those in `fixed` can have none.
pub(super) fn naming(all: &[&str], fixed: &[&str]) -> Naming {
    let says = |naming: Naming, name: &str| naming.stored(&snake(name)) == name && is_word(&snake(name));
    let score = |naming: Naming| {
        let (said, changed) = all
            .iter()
            .filter(|name| says(naming, name))
            .fold((0, 0), |(said, changed), name| (said + 1, changed + usize::from(snake(name) != *name)));
        let fits = changed > 0 && fixed.iter().all(|name| says(naming, name));
        (fits && said * 2 > all.len()).then_some(changed)
    };
    [Naming::Camel, Naming::Pascal]
        .into_iter()
        .filter_map(|naming| Some((score(naming)?, naming)))
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map_or(Naming::Same, |(_, naming)| naming)
}

/// What a schema calls an attribute, and its stored name if that must be said.
pub(super) fn field(attribute: &str, naming: Naming, taken: &mut Taken) -> (String, Option<String>) {
    let wanted = match naming {
        Naming::Same => word(attribute),
        Naming::Camel | Naming::Pascal => snake(attribute),
    };
    let name = taken.free(&wanted);
    let stored = (naming.stored(&name) != attribute).then(|| attribute.to_owned());
    (name, stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_becomes_a_name() {
        for (text, expected) in
            [("user-id", "user_id"), ("1st", "n1st"), ("", "unnamed"), ("å", "unnamed"), ("PK", "PK")]
        {
            assert_eq!(word(text), expected, "{text}");
            assert!(is_word(&word(text)));
        }
        assert_eq!(snake(&"aB".repeat(400)).len(), 150, "a name has its limits");
        for (text, expected) in
            [("lunchCount", "lunch_count"), ("PK", "pk"), ("HTMLBody", "html_body"), ("a1B", "a1_b")]
        {
            assert_eq!(snake(text), expected, "{text}");
        }
        for (text, expected) in [("RACE", "Race"), ("export-status", "ExportStatus"), ("2x", "N2x")] {
            assert_eq!(pascal(text), expected, "{text}");
        }
        for (text, expected) in
            [("lunches", "lunch"), ("status", "status"), ("entries", "entry"), ("races", "race")]
        {
            assert_eq!(singular(text), expected, "{text}");
        }
    }

    #[test]
    fn naming_is_what_most_attributes_follow() {
        let of = |names: &[&str], fixed: &[&str]| naming(names, fixed);
        assert_eq!(of(&["pk", "lunchCount", "cachedAt"], &["pk"]), Naming::Camel);
        assert_eq!(of(&["PK", "lunchCount"], &["PK"]), Naming::Same);
        assert_eq!(of(&["Id", "CompanyCode"], &["Id"]), Naming::Pascal);
        assert_eq!(of(&["id", "company_code"], &["id"]), Naming::Same);
    }
}
