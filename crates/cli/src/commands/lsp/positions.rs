//! Offsets in bytes ↔ an editor's positions: lines from 0, columns in UTF-16 code units.

use lsp_types::Position;

/// An offset inside a character counts as its beginning; one past the end, as the end.
pub(super) fn position(text: &str, offset: usize) -> Position {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count();
    let column: usize = before[start..].chars().map(char::len_utf16).sum();
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Position { line: number(line), character: number(column) }
}

/// A column past the end of its line is the end of that line; a line past the last, the end of the text.
pub(super) fn offset(text: &str, position: Position) -> usize {
    let mut start = 0;
    for _ in 0..position.line {
        match text[start..].find('\n') {
            Some(newline) => start += newline + 1,
            None => return text.len(),
        }
    }
    let line = text[start..].split('\n').next().unwrap_or("");
    let line = line.strip_suffix('\r').unwrap_or(line);
    let mut column = 0;
    for (at, character) in line.char_indices() {
        column += character.len_utf16();
        // A position between the halves of a pair is that of the character.
        if column > position.character as usize {
            return start + at;
        }
    }
    start + line.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a😀b\r\né字c\n";

    #[test]
    fn columns_count_utf16_code_units() {
        for (at, line, character) in
            [(0, 0, 0), (1, 0, 1), (5, 0, 3), (6, 0, 4), (8, 1, 0), (13, 1, 2), (15, 2, 0)]
        {
            let position = Position { line, character };
            assert_eq!(super::position(TEXT, at), position, "at {at}");
            assert_eq!(offset(TEXT, position), at, "{position:?}");
        }
    }

    #[test]
    fn positions_outside_the_text_are_moved_into_it() {
        for (line, character, at) in [(0, 2, 1), (0, 99, 6), (1, 99, 14), (99, 0, 15)] {
            assert_eq!(offset(TEXT, Position { line, character }), at, "{line}:{character}");
        }
        assert_eq!(position(TEXT, 99), Position { line: 2, character: 0 });
        assert_eq!(position(TEXT, 3), Position { line: 0, character: 1 });
    }
}
