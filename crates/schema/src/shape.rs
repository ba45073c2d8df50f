//! What a value may look like as text: which characters, and how many.
//!
//! A shape is what makes a template readable or two keys distinct, so it may say too much and never too
//! little: every text a value can have is within its shape.

/// A set of characters, as ranges that are sorted and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CharSet(Vec<(u32, u32)>);

impl CharSet {
    pub fn any() -> Self {
        Self(vec![(0, char::MAX as u32)])
    }

    fn is_any(&self) -> bool {
        self.0 == [(0, char::MAX as u32)]
    }

    pub fn of(text: &str) -> Self {
        text.chars().fold(Self::default(), |set, c| set.union(&Self::range(c, c)))
    }

    pub fn range(from: char, to: char) -> Self {
        Self(vec![(from as u32, to as u32)])
    }

    pub fn digits() -> Self {
        Self::range('0', '9')
    }

    pub fn union(&self, other: &Self) -> Self {
        let mut ranges: Vec<(u32, u32)> = self.0.iter().chain(&other.0).copied().collect();
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (from, to) in ranges {
            match joined.last_mut() {
                Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        Self(joined)
    }

    pub fn without(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        for &(from, to) in &self.0 {
            let mut start = from;
            for &(a, b) in other.0.iter().filter(|(a, b)| *b >= from && *a <= to) {
                if a > start {
                    left.push((start, a - 1));
                }
                start = start.max(b.saturating_add(1));
            }
            if start <= to {
                left.push((start, to));
            }
        }
        Self(left)
    }

    pub fn contains(&self, c: char) -> bool {
        let c = c as u32;
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&c))
    }

    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.0.iter().all(|(a, b)| other.0.iter().all(|(c, d)| b < c || d < a))
    }

    pub fn is_within(&self, other: &Self) -> bool {
        self.0.iter().all(|(a, b)| other.0.iter().any(|(c, d)| c <= a && b <= d))
    }

    fn char_bytes_max(&self) -> usize {
        let last = self.0.last().and_then(|(_, to)| char::from_u32(*to));
        last.map_or(4, char::len_utf8)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub chars: CharSet,
    /// Characters, at least.
    pub min: usize,
    /// Characters, at most, if there is a bound.
    pub max: Option<usize>,
}

impl Shape {
    pub fn any() -> Self {
        Self { chars: CharSet::any(), min: 0, max: None }
    }

    pub fn fixed(chars: CharSet, length: usize) -> Self {
        Self { chars, min: length, max: Some(length) }
    }

    pub fn is_fixed(&self) -> bool {
        self.max == Some(self.min)
    }

    /// Bytes, at most, if there is a bound.
    pub fn bytes_max(&self) -> Option<usize> {
        self.max.map(|max| max.saturating_mul(self.chars.char_bytes_max()))
    }

    pub fn accepts(&self, text: &str) -> bool {
        let is_bounded = self.min > 0 || self.max.is_some();
        let length = if is_bounded { text.chars().count() } else { 0 };
        length >= self.min
            && self.max.is_none_or(|max| length <= max)
            && (self.chars.is_any() || text.chars().all(|c| self.chars.contains(c)))
    }
}

/// What a regular expression matches, roughly.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) shape: Shape,
    /// The set at each position, when all matches have one length.
    places: Option<Vec<CharSet>>,
    /// Whether `places` says exactly what matches.
    exact: bool,
}

impl Pattern {
    /// Reads the common part of regular expressions. What it does not know may be anything.
    pub(crate) fn of(regex: &str) -> Self {
        let chars: Vec<char> = regex.chars().collect();
        let mut reader = RegexReader { chars: &chars, at: 0, depth: 0 };
        match reader.alternatives() {
            Some(pattern) if reader.at == chars.len() => pattern,
            _ => Self::unknown(),
        }
    }

    fn unknown() -> Self {
        Self { shape: Shape::any(), places: None, exact: false }
    }

    fn empty() -> Self {
        Self { shape: Shape::fixed(CharSet::default(), 0), places: Some(Vec::new()), exact: true }
    }

    fn one(set: CharSet) -> Self {
        Self { shape: Shape::fixed(set.clone(), 1), places: Some(vec![set]), exact: true }
    }

    /// Whether everything the other matches is certainly matched by this one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (&self.places, &other.places) {
            (Some(mine), Some(theirs)) => {
                self.exact
                    && mine.len() == theirs.len()
                    && theirs.iter().zip(mine).all(|(theirs, mine)| theirs.is_within(mine))
            }
            _ => false,
        }
    }

    fn then(self, next: Self) -> Self {
        Self {
            shape: Shape {
                chars: self.shape.chars.union(&next.shape.chars),
                min: self.shape.min.saturating_add(next.shape.min),
                max: self.shape.max.zip(next.shape.max).map(|(a, b)| a.saturating_add(b)),
            },
            places: self.places.zip(next.places).map(|(mut a, b)| {
                a.extend(b);
                a
            }),
            exact: self.exact && next.exact,
        }
    }

    fn or(self, other: Self) -> Self {
        let places = match (self.places, other.places) {
            (Some(a), Some(b)) if a.len() == b.len() => {
                Some(a.iter().zip(&b).map(|(a, b)| a.union(b)).collect())
            }
            _ => None,
        };
        // Two alternatives that differ in one place only are still said exactly; this does not look.
        let exact = places.as_ref().is_some_and(|places: &Vec<CharSet>| places.len() == 1);
        Self {
            shape: Shape {
                chars: self.shape.chars.union(&other.shape.chars),
                min: self.shape.min.min(other.shape.min),
                max: self.shape.max.zip(other.shape.max).map(|(a, b)| a.max(b)),
            },
            places,
            exact,
        }
    }

    fn repeated(self, min: usize, max: Option<usize>) -> Self {
        let places = match max {
            Some(max) if max == min && max.saturating_mul(self.shape.min) <= 4096 => {
                self.places.map(|places| std::iter::repeat_n(places, max).flatten().collect())
            }
            _ => None,
        };
        Self {
            shape: Shape {
                chars: self.shape.chars,
                min: self.shape.min.saturating_mul(min),
                max: self.shape.max.zip(max).map(|(each, times)| each.saturating_mul(times)),
            },
            exact: self.exact && places.is_some(),
            places,
        }
    }
}

struct RegexReader<'a> {
    chars: &'a [char],
    at: usize,
    depth: usize,
}

impl RegexReader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, c: char) -> bool {
        let here = self.peek() == Some(c);
        self.at += usize::from(here);
        here
    }

    fn alternatives(&mut self) -> Option<Pattern> {
        self.depth += 1;
        if self.depth > crate::limits::DEPTH_MAX {
            return None;
        }
        let mut pattern = self.sequence()?;
        while self.take('|') {
            pattern = pattern.or(self.sequence()?);
        }
        self.depth -= 1;
        Some(pattern)
    }

    fn sequence(&mut self) -> Option<Pattern> {
        let mut pattern = Pattern::empty();
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            let atom = self.atom()?;
            let atom = self.repetition(atom)?;
            pattern = pattern.then(atom);
        }
        Some(pattern)
    }

    fn atom(&mut self) -> Option<Pattern> {
        let c = self.peek()?;
        self.at += 1;
        Some(match c {
            '(' => {
                if self.take('?') && !self.take(':') {
                    return None;
                }
                let inner = self.alternatives()?;
                if !self.take(')') {
                    return None;
                }
                inner
            }
            '[' => Pattern::one(self.class()?),
            '.' => Pattern::one(CharSet::any().without(&CharSet::of("\n"))),
            '\\' => Pattern::one(self.escape()?),
            '^' | '$' | '*' | '+' | '?' | '{' => return None,
            c => Pattern::one(CharSet::range(c, c)),
        })
    }

    fn escape(&mut self) -> Option<CharSet> {
        let c = self.peek()?;
        self.at += 1;
        Some(match c {
            'd' => CharSet::digits(),
            'w' => word_chars(),
            's' => CharSet::of(" \t\r\n\u{b}\u{c}"),
            'D' => CharSet::any().without(&CharSet::digits()),
            'W' => CharSet::any().without(&word_chars()),
            'n' => CharSet::of("\n"),
            't' => CharSet::of("\t"),
            c if c.is_ascii_punctuation() => CharSet::range(c, c),
            _ => return None,
        })
    }

    fn class(&mut self) -> Option<CharSet> {
        let negated = self.take('^');
        let mut set = CharSet::default();
        let mut first = true;
        loop {
            let c = self.peek()?;
            self.at += 1;
            match c {
                ']' if !first => break,
                '[' => return None,
                '\\' => set = set.union(&self.escape()?),
                c if self.peek() == Some('-')
                    && self.chars.get(self.at + 1).is_some_and(|next| *next != ']') =>
                {
                    self.at += 1;
                    let to = self.peek()?;
                    self.at += 1;
                    if to == '\\' || to < c {
                        return None;
                    }
                    set = set.union(&CharSet::range(c, to));
                }
                c => set = set.union(&CharSet::range(c, c)),
            }
            first = false;
        }
        Some(if negated { CharSet::any().without(&set) } else { set })
    }

    fn repetition(&mut self, atom: Pattern) -> Option<Pattern> {
        let (min, max) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let end = self.chars[self.at..].iter().position(|c| *c == '}')? + self.at;
                let inside: String = self.chars[self.at + 1..end].iter().collect();
                self.at = end;
                match inside.split_once(',') {
                    None => {
                        let n = inside.parse().ok()?;
                        (n, Some(n))
                    }
                    Some((min, "")) => (min.parse().ok()?, None),
                    Some((min, max)) => (min.parse().ok()?, Some(max.parse().ok()?)),
                }
            }
            _ => return Some(atom),
        };
        self.at += 1;
        self.take('?');
        if max == Some(1) && min == 0 {
            return Some(atom.or(Pattern::empty()));
        }
        Some(atom.repeated(min, max))
    }
}

fn word_chars() -> CharSet {
    CharSet::digits()
        .union(&CharSet::range('a', 'z'))
        .union(&CharSet::range('A', 'Z'))
        .union(&CharSet::of("_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_expression_gives_its_letters_and_length() {
        for (regex, chars, min, max) in [
            ("[0-9]{4}", "0123456789", 4, Some(4)),
            ("[A-Z]{2}", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 2, Some(2)),
            ("ab?c", "abc", 2, Some(3)),
            ("(ab|c)+", "abc", 1, None),
            (r"\d{1,3}\.", "0123456789.", 2, Some(4)),
        ] {
            let shape = Pattern::of(regex).shape;
            assert_eq!((shape.chars, shape.min, shape.max), (CharSet::of(chars), min, max), "{regex}");
        }
    }

    #[test]
    fn what_is_not_understood_may_be_anything() {
        for regex in ["(?i)a", "a{", "\\bx", "((((", "[[:alpha:]]", "^a$"] {
            assert_eq!(Pattern::of(regex).shape, Shape::any(), "{regex}");
        }
    }

    #[test]
    fn a_wider_pattern_covers_a_narrower_one() {
        let (old, new) = (Pattern::of("[0-9]{4}"), Pattern::of("[0-9]{3}[0-9A-Z]"));
        assert!(new.covers(&old));
        assert!(!old.covers(&new));
        assert!(!Pattern::of("ab|cd").covers(&Pattern::of("ad")));
    }

    #[test]
    fn sets_are_added_and_taken_away() {
        let letters = CharSet::range('a', 'f');
        assert_eq!(letters.without(&CharSet::range('b', 'c')), CharSet::of("adef"));
        assert!(CharSet::of("ae").is_within(&letters));
        assert!(letters.is_disjoint(&CharSet::digits()));
        assert_eq!(letters.without(&CharSet::any()), CharSet::default());
    }
}
