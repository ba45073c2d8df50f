//! Rust names: of the schema's names and texts.

use std::collections::BTreeSet;

/// Names that are taken in one scope.
#[derive(Debug, Default)]
pub(in crate::emit) struct Names(BTreeSet<String>);

impl Names {
    /// The first of these that is free, and now taken.
    pub(in crate::emit) fn claim(&mut self, wanted: &[String]) -> String {
        let free = wanted.iter().find(|name| !self.0.contains(*name));
        let mut name = free.or(wanted.last()).cloned().unwrap_or_default();
        while !self.0.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    pub(in crate::emit) fn is_free(&self, name: &str) -> bool {
        !self.0.contains(name)
    }
}

/// `race_card`, `RACE-CARD` and `RaceCard` are `RaceCard`. Letters of any script stay letters.
pub(in crate::emit) fn pascal(text: &str) -> String {
    let mut out = String::new();
    for word in text.split(|c: char| !(c.is_alphabetic() || c.is_ascii_digit())) {
        let shouted = word.chars().count() > 1 && !word.chars().any(char::is_lowercase);
        let mut letters = word.chars();
        out.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        if shouted {
            out.extend(letters.flat_map(char::to_lowercase));
        } else {
            out.extend(letters);
        }
    }
    match out.chars().next() {
        None => "Empty".to_owned(),
        Some(c) if c.is_ascii_digit() => format!("_{out}"),
        Some(_) if out == "Self" => "Self_".to_owned(),
        Some(_) => out,
    }
}

/// `HorseResults` is `horse_results`.
pub(in crate::emit) fn snake(text: &str) -> String {
    let mut out = String::new();
    let mut before = '_';
    for c in text.chars() {
        if c.is_uppercase() && before != '_' && !before.is_uppercase() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
        before = c;
    }
    out
}

/// The plural of a word in snake case. What ends in a plain `s` is one already.
pub(in crate::emit) fn plural(word: &str) -> String {
    let ends = |ends: &[&str]| ends.iter().any(|end| word.ends_with(end));
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) && !stem.is_empty() => format!("{stem}ies"),
        _ if ends(&["ss", "us", "x", "ch", "sh"]) => format!("{word}es"),
        _ if word.ends_with('s') => word.to_owned(),
        _ => format!("{word}s"),
    }
}

/// A name as an identifier.
pub(in crate::emit) fn identifier(name: &str) -> String {
    const RAW: [&str; 48] = [
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
        "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
        "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static",
        "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where",
        "while", "yield",
    ];
    match name {
        // These cannot be raw.
        "self" | "Self" | "super" | "crate" | "_" => format!("{name}_"),
        _ if RAW.contains(&name) => format!("r#{name}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_pascal_case() {
        let cases = [
            ("race_card", "RaceCard"),
            ("RaceCard", "RaceCard"),
            ("RACE-CARD", "RaceCard"),
            ("måndag", "Måndag"),
            ("東京", "東京"),
            ("2nd try", "_2ndTry"),
            ("x", "X"),
            ("iPhone", "IPhone"),
            ("", "Empty"),
            ("self", "Self_"),
        ];
        for (text, name) in cases {
            assert_eq!(pascal(text), name);
        }
    }

    #[test]
    fn handles_are_snake_case_and_plural() {
        let cases = [
            ("Race", "races"),
            ("Jockey", "jockeys"),
            ("HorseResults", "horse_results"),
            ("RaceDay", "race_days"),
            ("Menu", "menus"),
            ("ShopWithPages", "shop_with_pages"),
            ("Company", "companies"),
            ("Address", "addresses"),
            ("Status", "statuses"),
            ("Box", "boxes"),
            ("Branch", "branches"),
            ("APIKey", "apikeys"),
        ];
        for (entity, handle) in cases {
            assert_eq!(plural(&snake(entity)), handle);
        }
    }

    #[test]
    fn keywords_are_raw_and_others_stay() {
        assert_eq!(["type", "kind", "self"].map(identifier), ["r#type", "kind", "self_"]);
    }

    #[test]
    fn a_taken_name_gives_way() {
        let mut names = Names::default();
        let wanted = ["Weekday".to_owned(), "LunchWeekday".to_owned()];
        assert_eq!([(); 3].map(|()| names.claim(&wanted)), ["Weekday", "LunchWeekday", "LunchWeekday_"]);
    }
}
