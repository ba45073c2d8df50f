//! What each word is, for editors that colour by meaning.
//!
//! The tokens say what is a comment, a text, a number; the symbols, which words are names of what. Words that begin a
//! statement are keywords unless they are a name.

use larder_schema::{SourceFile, Span, Symbol, SymbolKind, Token, TokenKind, tokens};
use lsp_types::{SemanticToken, SemanticTokenModifier, SemanticTokenType, SemanticTokensLegend};

const KINDS: [SemanticTokenType; 14] = [
    SemanticTokenType::COMMENT,
    SemanticTokenType::STRING,
    SemanticTokenType::NUMBER,
    SemanticTokenType::REGEXP,
    SemanticTokenType::KEYWORD,
    SemanticTokenType::PARAMETER,
    SemanticTokenType::TYPE,
    SemanticTokenType::NAMESPACE,
    SemanticTokenType::CLASS,
    SemanticTokenType::PROPERTY,
    SemanticTokenType::ENUM,
    SemanticTokenType::ENUM_MEMBER,
    SemanticTokenType::FUNCTION,
    SemanticTokenType::STRUCT,
];
const DECLARATION: u32 = 1;
const DOCUMENTATION: u32 = 2;

pub(super) fn legend() -> SemanticTokensLegend {
    SemanticTokensLegend {
        token_types: KINDS.to_vec(),
        token_modifiers: vec![SemanticTokenModifier::DECLARATION, SemanticTokenModifier::DOCUMENTATION],
    }
}

/// A part of a line, what it is, and what else is known.
struct Painted {
    start: usize,
    end: usize,
    kind: SemanticTokenType,
    modifiers: u32,
}

/// Of one file, as the protocol has them: each told from where the one before it begins.
pub(super) fn tokens_of(file: u32, source: &SourceFile, symbols: &[Symbol]) -> Vec<SemanticToken> {
    let text = source.text.as_str();
    let names = names(file, symbols);
    let (all, _) = tokens(file, text);
    let mut painted = Vec::new();
    let mut begins = true;
    for (at, token) in all.iter().enumerate() {
        paint(&mut painted, text, &all, at, &names, begins);
        begins = match token.kind {
            TokenKind::Newline | TokenKind::Mark("{" | "}") => true,
            TokenKind::Comment | TokenKind::Doc => begins,
            _ => false,
        };
    }
    encoded(text, &painted)
}

/// The names in a file, in order: where, what, and whether it is named there.
fn names(file: u32, symbols: &[Symbol]) -> Vec<(Span, SemanticTokenType, bool)> {
    let mut found = Vec::new();
    for symbol in symbols {
        let kind = kind_of(symbol.kind);
        let spans = symbol.references.iter().map(|span| (*span, false));
        let here = std::iter::once((symbol.span, true)).chain(spans).filter(|(span, _)| span.file == file);
        found.extend(here.map(|(span, declared)| (span, kind.clone(), declared)));
    }
    found.sort_by_key(|(span, _, declared)| (*span, !declared));
    found.dedup_by_key(|(span, ..)| *span);
    found
}

fn kind_of(kind: SymbolKind) -> SemanticTokenType {
    match kind {
        SymbolKind::Param => SemanticTokenType::PARAMETER,
        SymbolKind::Type => SemanticTokenType::TYPE,
        SymbolKind::Source | SymbolKind::Table => SemanticTokenType::NAMESPACE,
        SymbolKind::Entity => SemanticTokenType::CLASS,
        SymbolKind::Collection => SemanticTokenType::STRUCT,
        SymbolKind::Field => SemanticTokenType::PROPERTY,
        SymbolKind::Lifecycle => SemanticTokenType::ENUM,
        SymbolKind::State => SemanticTokenType::ENUM_MEMBER,
        SymbolKind::Index | SymbolKind::Transition => SemanticTokenType::FUNCTION,
    }
}

fn paint(
    painted: &mut Vec<Painted>,
    text: &str,
    all: &[Token],
    at: usize,
    names: &[(Span, SemanticTokenType, bool)],
    begins: bool,
) {
    let token = &all[at];
    let (start, end) = (token.span.start as usize, token.span.end as usize);
    let mut whole =
        |kind: SemanticTokenType, modifiers: u32| painted.push(Painted { start, end, kind, modifiers });
    match token.kind {
        TokenKind::Comment => whole(SemanticTokenType::COMMENT, 0),
        TokenKind::Doc => whole(SemanticTokenType::COMMENT, DOCUMENTATION),
        TokenKind::Number => whole(SemanticTokenType::NUMBER, 0),
        TokenKind::Regex => whole(SemanticTokenType::REGEXP, 0),
        TokenKind::Word => {
            let name = names.binary_search_by_key(&token.span, |(span, ..)| *span).ok().map(|at| &names[at]);
            let calls = all.get(at + 1).is_some_and(|next| next.kind == TokenKind::Mark("("));
            match name {
                Some((_, kind, declared)) => whole(kind.clone(), if *declared { DECLARATION } else { 0 }),
                None if calls => whole(SemanticTokenType::FUNCTION, 0),
                None if begins => whole(SemanticTokenType::KEYWORD, 0),
                None => {}
            }
        }
        TokenKind::Text => {
            // The names in its holes are no text.
            let mut from = start;
            let first = names.partition_point(|(span, ..)| (span.start as usize) < start);
            for (span, kind, _) in names[first..].iter().take_while(|(span, ..)| (span.end as usize) <= end) {
                let (hole, after) = (span.start as usize, span.end as usize);
                if span.range() == token.span.range() || hole < from {
                    continue;
                }
                painted.push(Painted {
                    start: from,
                    end: hole,
                    kind: SemanticTokenType::STRING,
                    modifiers: 0,
                });
                painted.push(Painted { start: hole, end: after, kind: kind.clone(), modifiers: 0 });
                from = after;
            }
            painted.push(Painted { start: from, end, kind: SemanticTokenType::STRING, modifiers: 0 });
        }
        TokenKind::Mark(_) | TokenKind::Newline | TokenKind::Unknown | TokenKind::End => {}
    }
    debug_assert!(text.is_char_boundary(end));
}

/// Lines and columns, counted from the token before. No token reaches over the end of a line.
fn encoded(text: &str, painted: &[Painted]) -> Vec<SemanticToken> {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let units = |part: &str| part.chars().map(char::len_utf16).sum::<usize>();
    let (mut line_start, mut at) = (0, 0);
    let (mut delta_line, mut last_column) = (0, 0);
    let mut found = Vec::with_capacity(painted.len());
    for Painted { start, end, kind, modifiers } in painted {
        for (newline, _) in text[at..*start].match_indices('\n') {
            delta_line += 1;
            line_start = at + newline + 1;
            last_column = 0;
        }
        at = *start;
        let column = units(&text[line_start..at]);
        found.push(SemanticToken {
            delta_line: number(delta_line),
            delta_start: number(column - last_column),
            length: number(units(&text[*start..*end])),
            token_type: number(KINDS.iter().position(|known| known == kind).unwrap_or(0)),
            token_modifiers_bitset: *modifiers,
        });
        (delta_line, last_column) = (0, column);
    }
    found
}

#[cfg(test)]
mod tests {
    use larder_schema::{Environment, NoFiles, Schema};

    use super::*;

    /// Each token as it is written, and what it is.
    fn painted(text: &str) -> Vec<(String, &'static str)> {
        let loaded = Schema::load("a.larder", text, &mut NoFiles, &Environment::new());
        let (mut line, mut column) = (0, 0);
        let found = tokens_of(0, &loaded.files[0], &loaded.symbols);
        let found = found.iter().map(|token| {
            if token.delta_line > 0 {
                (line, column) = (line + token.delta_line as usize, 0);
            }
            column += token.delta_start as usize;
            let units: Vec<u16> = text.lines().nth(line).unwrap_or("").encode_utf16().collect();
            let written = String::from_utf16_lossy(&units[column..column + token.length as usize]);
            let kind = KINDS[token.token_type as usize].as_str().to_owned();
            (written, Box::leak(kind.into_boxed_str()) as &str)
        });
        found.collect()
    }

    #[test]
    fn words_are_what_they_mean() {
        let found = painted(
            "/// 😀\nsystem a\nparam keep: duration = 3d // 😀\ntable t {\n  key pk\n  entity E {\n    key \"😀{id}#{n:02}\"\n    ttl keep\n    id: string match /[a-z]+/\n    n: int = id.len()\n  }\n}\n",
        );
        let told: Vec<String> = found.iter().map(|(text, kind)| format!("{text} {kind}")).collect();
        assert_eq!(
            told,
            [
                "/// 😀 comment",
                "system keyword",
                "param keyword",
                "keep parameter",
                "3d number",
                "// 😀 comment",
                "table keyword",
                "t namespace",
                "key keyword",
                "entity keyword",
                "E class",
                "key keyword",
                "\"😀{ string",
                "id property",
                "}#{ string",
                "n property",
                ":02}\" string",
                "ttl keyword",
                "keep parameter",
                "id property",
                "/[a-z]+/ regexp",
                "n property",
                "id property",
                "len function",
            ]
        );
    }
}
