//! Text with wildcards and variables: `arn:aws:dynamodb:*:*:table/${aws:username}-?`.
//!
//! `*` is any number of characters, `?` is one; `${*}`, `${?}` and `${$}` are those characters themselves. A variable
//! stands for the one value of a condition key, or for its default: `${aws:PrincipalTag/team, 'none'}`. What a variable
//! stands for is taken as it is: a name with a `*` in it matches itself alone.
//!
//! Matching goes back to the last `*` a few times; a pattern that asks for more is followed at all its places at once, in as many
//! steps as pattern and text multiplied, 64 of them in one. A pattern that has more characters than the text is none of it, whatever
//! its variables stand for, so that it never becomes longer than the text.

use std::collections::HashMap;

use super::Facts;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
    has_variables: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Char(char),
    One,
    Many,
    Variable { key: String, default: Option<String> },
}

impl Part {
    /// Whether it stands for one character.
    fn takes_one(&self) -> bool {
        matches!(self, Self::Char(_) | Self::One)
    }
}

/// What of a pattern's text is more than text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Syntax {
    pub(super) wildcards: bool,
    /// Version 2008-10-17 knows none.
    pub(super) variables: bool,
}

impl Pattern {
    /// Fails with what is wrong with a variable.
    pub(super) fn new(text: &str, syntax: Syntax) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if syntax.variables
                && let Some(after) = rest.strip_prefix("${")
            {
                let Some((inner, after)) = after.split_once('}') else {
                    return Err(format!("the variable in `{text}` does not end"));
                };
                parts.push(variable(inner)?);
                rest = after;
                continue;
            }
            parts.push(match next {
                '*' if syntax.wildcards => Part::Many,
                '?' if syntax.wildcards => Part::One,
                other => Part::Char(other),
            });
            rest = &rest[next.len_utf8()..];
        }
        let has_variables = parts.iter().any(|part| matches!(part, Part::Variable { .. }));
        Ok(Self { parts, has_variables })
    }

    pub(super) fn matches(&self, text: &str, facts: &dyn Facts) -> bool {
        self.matches_by(text, facts, |found| [found, '\0', '\0'])
    }

    /// Capitals or not.
    pub(super) fn matches_folded(&self, text: &str, facts: &dyn Facts) -> bool {
        self.matches_by(text, facts, |found| {
            let mut lower = found.to_lowercase();
            [(); 3].map(|()| lower.next().unwrap_or('\0'))
        })
    }

    /// Characters are the same that are told as the same.
    fn matches_by(&self, text: &str, facts: &dyn Facts, told: impl Fn(char) -> [char; 3]) -> bool {
        let most = text.chars().count();
        if self.parts.iter().filter(|part| part.takes_one()).count() > most {
            return false;
        }
        if !self.has_variables {
            return glob(&self.parts, text, told);
        }
        // A variable without a value equals nothing.
        self.resolved(facts, most).is_some_and(|parts| glob(&parts, text, told))
    }

    /// Nothing if it is none of a text with so many characters.
    fn resolved(&self, facts: &dyn Facts, most: usize) -> Option<Vec<Part>> {
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut taken = self.parts.iter().filter(|part| part.takes_one()).count();
        for part in &self.parts {
            let Part::Variable { key, default } = part else {
                parts.push(part.clone());
                continue;
            };
            // A key with several values cannot stand for one text.
            let value =
                facts.values(key).filter(|values| values.len() == 1).and_then(|mut values| values.pop());
            let value = value.or_else(|| default.clone())?;
            taken += value.chars().count();
            if taken > most {
                return None;
            }
            parts.extend(value.chars().map(Part::Char));
        }
        Some(parts)
    }
}

fn variable(inner: &str) -> Result<Part, String> {
    if let "*" | "?" | "$" = inner {
        return Ok(Part::Char(inner.chars().next().unwrap_or('$')));
    }
    let (key, default) = match inner.split_once(',') {
        Some((key, default)) => (key, Some(default.trim())),
        None => (inner, None),
    };
    let key = key.trim();
    if key.is_empty() || key.contains(['{', '$', '*', '?', '\'']) {
        return Err(format!("`${{{inner}}}` names no condition key"));
    }
    let default = match default {
        None => None,
        Some(quoted) => {
            let inner = quoted.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
            let Some(text) = inner else {
                return Err(format!("the default of `${{{key}}}` is not in single quotes"));
            };
            Some(text.to_owned())
        }
    };
    Ok(Part::Variable { key: key.to_lowercase(), default })
}

/// How often a pattern may go back to its last `*` before it is followed at all its places at once.
const RETURNS_MAX: usize = 64;

/// Goes back to the last `*` alone: the ones before it have already found the earliest place that suits them.
fn glob(parts: &[Part], text: &str, told: impl Fn(char) -> [char; 3]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    let mut returns = 0;
    loop {
        match (parts.get(at), text[place..].chars().next()) {
            (None, None) => return true,
            (Some(Part::Many), _) if at + 1 == parts.len() => return true,
            (Some(Part::Many), _) => {
                at += 1;
                star = Some((at, place));
                continue;
            }
            (Some(Part::One), Some(found)) => {
                at += 1;
                place += found.len_utf8();
                continue;
            }
            (Some(Part::Char(wanted)), Some(found)) if told(*wanted) == told(found) => {
                at += 1;
                place += found.len_utf8();
                continue;
            }
            _ => {}
        }
        let Some((after, from)) = star else { return false };
        let Some(skipped) = text[from..].chars().next() else { return false };
        returns += 1;
        if returns > RETURNS_MAX {
            return glob_at_once(&parts[after - 1..], &text[from..], told);
        }
        at = after;
        place = from + skipped.len_utf8();
        star = Some((after, place));
    }
}

/// The same, with a bit for each place of the pattern that the text so far leads to.
fn glob_at_once(parts: &[Part], text: &str, told: impl Fn(char) -> [char; 3]) -> bool {
    // Several `*` side by side are one.
    let is_again = |at: usize| at > 0 && parts[at] == Part::Many && parts[at - 1] == Part::Many;
    let parts: Vec<&Part> = (0..parts.len()).filter(|at| !is_again(*at)).map(|at| &parts[at]).collect();
    let words = parts.len() / 64 + 1;
    // Where one stays, where any character leads on, and where this one does besides.
    let (mut many, mut any) = (vec![0_u64; words], vec![0_u64; words]);
    let mut only: HashMap<[char; 3], Vec<u64>> = HashMap::new();
    for (at, part) in parts.iter().enumerate() {
        let places = match part {
            Part::Many => &mut many,
            Part::One => &mut any,
            Part::Char(wanted) => only.entry(told(*wanted)).or_insert_with(|| vec![0; words]),
            Part::Variable { .. } => unreachable!("variables are put in before"),
        };
        places[at / 64] |= 1 << (at % 64);
    }
    let none = vec![0; words];
    let mut reached = vec![0; words];
    reached[0] = 1;
    for found in text.chars() {
        // A `*` is also nothing.
        advance(&mut reached, |_, word| word, |at| many[at]);
        let this = only.get(&told(found)).unwrap_or(&none);
        advance(&mut reached, |at, word| word & many[at], |at| any[at] | this[at]);
        if reached == none {
            return false;
        }
    }
    advance(&mut reached, |_, word| word, |at| many[at]);
    reached[parts.len() / 64] & (1 << (parts.len() % 64)) != 0
}

/// From each place that leads on to the one behind it, beside those that are kept.
fn advance(reached: &mut [u64], kept: impl Fn(usize, u64) -> u64, leads: impl Fn(usize) -> u64) {
    let mut carried = 0;
    for at in 0..reached.len() {
        let on = reached[at] & leads(at);
        reached[at] = kept(at, reached[at]) | (on << 1) | carried;
        carried = on >> 63;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::tests::Given;

    const ALL: Syntax = Syntax { wildcards: true, variables: true };

    fn check(pattern: &str, text: &str, expected: bool) {
        let facts = Given::from([("aws:username", &["ali*ce"][..]), ("aws:TagKeys", &["a", "b"])]);
        let pattern = Pattern::new(pattern, ALL).unwrap();
        assert_eq!(pattern.matches(text, &facts), expected, "{pattern:?} {text}");
    }

    #[test]
    fn wildcards_match_any_run_and_any_one() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "any thing", true),
            ("?", "", false),
            ("?", "ä", true),
            ("a*c", "ac", true),
            ("a*c", "abcc", true),
            ("a*c", "abcd", false),
            ("*ab*ab*", "xabyab", true),
            ("*ab*ab*", "xaby", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("A", "a", false),
        ] {
            check(pattern, text, expected);
        }
    }

    #[test]
    fn variables_stand_for_one_value_or_a_default() {
        for (pattern, text, expected) in [
            ("${aws:username}", "ali*ce", true),
            ("${AWS:UserName}/x", "ali*ce/x", true),
            ("${aws:username}", "aliXXce", false),
            ("${aws:missing}", "", false),
            ("*${aws:missing}", "anything", false),
            ("${aws:missing, 'none'}", "none", true),
            ("${aws:username, 'none'}", "none", false),
            ("${aws:missing, ''}", "", true),
            ("${aws:TagKeys}", "a", false),
            ("${aws:TagKeys}", "b", false),
            ("${*}${?}${$}", "*?$", true),
            ("${*}", "x", false),
        ] {
            check(pattern, text, expected);
        }
    }

    #[test]
    fn a_variable_that_is_none_is_named() {
        for (text, expected) in [
            ("a${aws:username", "the variable in `a${aws:username` does not end"),
            ("${}", "`${}` names no condition key"),
            ("${a${b}}", "`${a${b}` names no condition key"),
            ("${aws:username, none}", "the default of `${aws:username}` is not in single quotes"),
        ] {
            assert_eq!(Pattern::new(text, ALL), Err(expected.to_owned()));
        }
    }

    #[test]
    fn without_its_syntax_text_is_text() {
        let plain = Pattern::new("*${aws:username}?", Syntax { wildcards: false, variables: false }).unwrap();
        assert!(plain.matches("*${aws:username}?", &Given::default()));
        assert!(!plain.matches("x", &Given::default()));
    }

    #[test]
    fn many_wildcards_on_a_long_text_end() {
        let pattern = Pattern::new(&"*a".repeat(5_000), ALL).unwrap();
        assert!(!pattern.matches(&"a".repeat(4_999), &Given::default()));
        assert!(pattern.matches(&"a".repeat(5_000), &Given::default()));
        let pattern = Pattern::new(&format!("{}b", "a*".repeat(50)), ALL).unwrap();
        assert!(!pattern.matches(&"a".repeat(20_000), &Given::default()));
    }

    /// By its definition: the first part, and then the rest.
    fn defined(parts: &[Part], text: &[char]) -> bool {
        match (parts, text) {
            ([], text) => text.is_empty(),
            ([Part::Many, rest @ ..], text) => (0..=text.len()).any(|at| defined(rest, &text[at..])),
            ([Part::One, rest @ ..], [_, after @ ..]) => defined(rest, after),
            ([Part::Char(wanted), rest @ ..], [found, after @ ..]) => wanted == found && defined(rest, after),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn both_ways_find_what_the_definition_finds(pattern in "[ab?*]{0,12}", text in "[ab]{0,14}") {
            let pattern = Pattern::new(&pattern, ALL).unwrap();
            let told = |found| [found, '\0', '\0'];
            let expected = defined(&pattern.parts, &text.chars().collect::<Vec<_>>());
            prop_assert_eq!(glob(&pattern.parts, &text, told), expected);
            prop_assert_eq!(glob_at_once(&pattern.parts, &text, told), expected);
        }
    }

    #[test]
    fn places_beyond_a_word_are_followed() {
        let told = |found| [found, '\0', '\0'];
        for length in [63, 64, 65, 127, 128, 200] {
            let parts = Pattern::new(&format!("*{}b", "a".repeat(length)), ALL).unwrap().parts;
            assert!(glob_at_once(&parts, &format!("{}b", "a".repeat(length + 70)), told), "{length}");
            assert!(!glob_at_once(&parts, &"a".repeat(length + 70), told), "{length}");
            assert!(!glob_at_once(&parts, &format!("{}b", "a".repeat(length - 1)), told), "{length}");
        }
    }

    #[test]
    fn a_long_text_after_a_wildcard_is_not_looked_for_from_each_place_anew() {
        let pattern = Pattern::new(&format!("*{}b", "a".repeat(1_000)), ALL).unwrap();
        let text = "a".repeat(2_048);
        let begun = std::time::Instant::now();
        for _ in 0..100 {
            assert!(!pattern.matches(&text, &Given::default()));
        }
        // From each place anew these are 200,000,000 steps, some seconds without optimization.
        assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    #[test]
    fn variables_that_are_longer_than_the_text_are_not_written_out() {
        let long = "a".repeat(60_000);
        let facts = Given::from([("aws:useragent", &[long.as_str()][..])]);
        let pattern = Pattern::new(&"${aws:useragent}".repeat(1000), ALL).unwrap();
        assert_eq!(pattern.resolved(&facts, 10), None);
        assert!(!pattern.matches("alice", &facts));
        assert!(!pattern.matches(&long, &facts));
        let one = Pattern::new("*${aws:useragent}", ALL).unwrap();
        assert!(one.matches(&format!("x{long}"), &facts));
    }

    /// What the words say, at any cost.
    fn slow(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), _) => (0..=text.len()).any(|skip| slow(rest, &text[skip..])),
            (Some(('?', rest)), Some((_, after))) => slow(rest, after),
            (Some((wanted, rest)), Some((found, after))) => wanted == found && slow(rest, after),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_is_what_wildcards_mean(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let fast = Pattern::new(&pattern, ALL).unwrap().matches(&text, &Given::default());
            prop_assert_eq!(fast, slow(&chars(&pattern), &chars(&text)));
        }
    }
}
