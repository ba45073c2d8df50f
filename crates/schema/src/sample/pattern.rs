//! Texts that match a regular expression.
//!
//! The common part is understood: literals, classes, groups, alternatives, repetitions and anchors. Of what may repeat
//! without end, a few are made. `None` when there is more in the expression than that.

use super::Random;

const REPEATED_MORE: usize = 6;
const DEPTH_MAX: usize = 32;

pub(super) fn matching(pattern: &str, random: &mut Random) -> Option<String> {
    let characters: Vec<char> = pattern.chars().collect();
    let mut parser = Parser { characters: &characters, at: 0, depth: 0 };
    let node = parser.alternatives()?;
    if parser.at < characters.len() {
        return None;
    }
    let mut text = String::new();
    node.write(random, &mut text);
    Some(text)
}

enum Node {
    /// Ranges of characters, both ends included.
    Class(Vec<(char, char)>),
    /// One of them.
    Either(Vec<Node>),
    /// One after the other, each so often.
    Sequence(Vec<(Node, usize, usize)>),
}

impl Node {
    fn write(&self, random: &mut Random, text: &mut String) {
        match self {
            Self::Class(ranges) => {
                let Some(&(from, to)) = random.pick(ranges) else { return };
                let width = u64::from(u32::from(to).saturating_sub(u32::from(from))) + 1;
                let code = u64::from(u32::from(from)) + random.below(width);
                text.extend(u32::try_from(code).ok().and_then(char::from_u32));
            }
            Self::Either(all) => {
                if let Some(node) = random.pick(all) {
                    node.write(random, text);
                }
            }
            Self::Sequence(parts) => {
                for (node, least, most) in parts {
                    let times = least + usize::try_from(random.below((most - least) as u64 + 1)).unwrap_or(0);
                    for _ in 0..times {
                        node.write(random, text);
                    }
                }
            }
        }
    }
}

struct Parser<'a> {
    characters: &'a [char],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += 1;
        Some(character)
    }

    fn skip(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn alternatives(&mut self) -> Option<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut all = vec![self.sequence()?];
        while self.skip('|') {
            all.push(self.sequence()?);
        }
        self.depth -= 1;
        Some(Node::Either(all))
    }

    fn sequence(&mut self) -> Option<Node> {
        let mut parts = Vec::new();
        while let Some(next) = self.peek().filter(|next| !matches!(next, '|' | ')')) {
            self.at += 1;
            let node = match next {
                '^' | '$' => continue,
                '(' => {
                    if self.skip('?') && !self.skip(':') {
                        return None;
                    }
                    let inner = self.alternatives()?;
                    if !self.skip(')') {
                        return None;
                    }
                    inner
                }
                '[' => self.class()?,
                '.' => Node::Class(vec![('a', 'z')]),
                '\\' => Node::Class(escaped(self.take()?)?),
                '*' | '+' | '?' | '{' => return None,
                literal => Node::Class(vec![(literal, literal)]),
            };
            let (least, most) = self.times()?;
            parts.push((node, least, most));
        }
        Some(Node::Sequence(parts))
    }

    fn times(&mut self) -> Option<(usize, usize)> {
        let times = match self.peek() {
            Some('*') => (0, REPEATED_MORE),
            Some('+') => (1, REPEATED_MORE),
            Some('?') => (0, 1),
            Some('{') => {
                self.at += 1;
                let least = self.count()?;
                let most = match self.skip(',') {
                    false => least,
                    true if self.peek() == Some('}') => least + REPEATED_MORE,
                    true => self.count()?,
                };
                if self.peek() != Some('}') || least > most {
                    return None;
                }
                (least, most)
            }
            _ => return Some((1, 1)),
        };
        self.at += 1;
        // As few as possible matches the same texts.
        self.skip('?');
        Some(times)
    }

    fn count(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|next| next.is_ascii_digit()) {
            self.at += 1;
        }
        let count: usize = self.characters[start..self.at].iter().collect::<String>().parse().ok()?;
        (count <= 10_000).then_some(count)
    }

    fn class(&mut self) -> Option<Node> {
        let negated = self.skip('^');
        let mut ranges = Vec::new();
        let mut first = true;
        loop {
            let from = match self.take()? {
                ']' if !first => break,
                '[' => return None,
                '\\' => match escaped(self.take()?)?.as_slice() {
                    [(from, to)] if from == to => *from,
                    many => {
                        ranges.extend_from_slice(many);
                        first = false;
                        continue;
                    }
                },
                character => character,
            };
            first = false;
            let is_range = self.peek() == Some('-') && self.characters.get(self.at + 1) != Some(&']');
            let to = if is_range {
                self.at += 1;
                match self.take()? {
                    '\\' => match escaped(self.take()?)?.as_slice() {
                        [(to, _)] => *to,
                        _ => return None,
                    },
                    to => to,
                }
            } else {
                from
            };
            ranges.push((from, to));
        }
        if negated {
            let printable = (' '..='~').filter(|c| !ranges.iter().any(|(from, to)| (from..=to).contains(&c)));
            ranges = printable.map(|c| (c, c)).collect();
        }
        Some(Node::Class(ranges))
    }
}

fn escaped(character: char) -> Option<Vec<(char, char)>> {
    Some(match character {
        'd' => vec![('0', '9')],
        'w' => vec![('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')],
        's' => vec![(' ', ' ')],
        'n' => vec![('\n', '\n')],
        't' => vec![('\t', '\t')],
        character if character.is_ascii_alphanumeric() => return None,
        literal => vec![(literal, literal)],
    })
}
