//! Places in source text, and the files they point into.

/// A range of bytes in one file. File 0 is the one that was asked for; the others were included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub file: u32,
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(file: u32, start: usize, end: usize) -> Self {
        Self { file, start: offset(start), end: offset(end) }
    }

    /// From the start of this one to the end of the other.
    pub fn to(self, other: Self) -> Self {
        Self { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    pub fn contains(self, file: u32, at: usize) -> bool {
        self.file == file && (self.start as usize..=self.end as usize).contains(&at)
    }

    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Text is at most [`crate::limits::FILE_BYTES_MAX`] long, so an offset always fits.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// A file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub name: String,
    pub text: String,
}

impl SourceFile {
    /// Line and column, both from 1; the column counts characters.
    pub fn place(&self, at: usize) -> (usize, usize) {
        let at = floor_boundary(&self.text, at);
        let before = &self.text[..at];
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (line, before[start..].chars().count() + 1)
    }

    /// The offset of a line and column counted from 1, as an editor gives them.
    pub fn offset(&self, line: usize, column: usize) -> Option<usize> {
        let mut start = 0;
        for _ in 1..line {
            start += self.text[start..].find('\n')? + 1;
        }
        let rest = &self.text[start..];
        let end = rest.find('\n').unwrap_or(rest.len());
        let column = column.saturating_sub(1);
        Some(start + rest[..end].char_indices().nth(column).map_or(end, |(at, _)| at))
    }

    /// The text of a line counted from 1, without its end.
    pub fn line(&self, line: usize) -> &str {
        self.text.lines().nth(line.saturating_sub(1)).unwrap_or("")
    }
}

pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
