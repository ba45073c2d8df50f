//! What could be written at a place: words of the language, settings, and names the schema declares.
//!
//! The text is being typed and seldom parses, so this looks at the tokens before the cursor alone: the blocks
//! they open and the statement they begin.

use larder_schema::{BLOCKS, Place, SETTINGS, Span, Symbol, SymbolKind, Token, TokenKind, tokens};
use lsp_types::{CompletionItem, CompletionItemKind, Documentation};

const TYPES: [&str; 17] = [
    "string",
    "int",
    "float",
    "decimal",
    "bool",
    "bytes",
    "json",
    "uuid",
    "url",
    "date",
    "datetime",
    "instant",
    "epoch",
    "duration",
    "sequence",
    "set<",
    "map<string, ",
];
const CHECKS: [&str; 9] =
    ["match", "in", "positive", "len", "nonempty", "lower", "upper", "default", "secret"];
const FUNCTIONS: [&str; 8] =
    ["floor(", "in(", "len()", "lower()", "host()", "psl_core()", "iso_week()", "iso_year()"];
const ACTIONS: [&str; 9] = ["get", "put", "update", "delete", "query", "scan", "batch", "describe", "stream"];

/// What could be written at the offset, best first. The editor keeps what begins like the word being typed.
pub(super) fn complete(symbols: &[Symbol], file: u32, text: &str, at: usize) -> Vec<CompletionItem> {
    let Some(before) = Before::find(file, text, at) else { return Vec::new() };
    let names = Names { symbols, entity: before.named("entity"), lifecycle: before.named("lifecycle") };
    match before.hole {
        Some(Hole::Open) if names.entity.is_some() => names.fields(),
        Some(Hole::Open) => names.of(SymbolKind::Param),
        Some(Hole::No) => Vec::new(),
        None if before.statement.is_empty() => beginnings(&before, &names),
        None => continuations(&before, &names),
    }
}

/// The word at the offset, where it begins a statement.
pub(super) struct Beginning<'a> {
    pub(super) word: &'a str,
    pub(super) span: Span,
    /// Where a setting of this name could stand.
    pub(super) places: &'static [Place],
    /// The block around it: what it is, and its name.
    pub(super) block: (&'a str, &'a str),
}

pub(super) fn beginning_at(file: u32, text: &str, at: usize) -> Option<Beginning<'_>> {
    let (all, _) = tokens(file, text);
    let word = all.iter().find(|token| token.kind == TokenKind::Word && token.span.contains(file, at))?;
    let before = Before::find(file, text, word.span.start as usize)?;
    before.statement.is_empty().then(|| Beginning {
        word: &text[word.span.range()],
        span: word.span,
        places: before.places(),
        block: before.blocks.last().copied().unwrap_or_default(),
    })
}

struct Before<'a> {
    /// The blocks around the cursor, outermost first: what each is, and its name.
    blocks: Vec<(&'a str, &'a str)>,
    /// The tokens of the statement, without the word at the cursor.
    statement: Vec<(TokenKind, &'a str)>,
    /// When the cursor is in a text.
    hole: Option<Hole>,
}

enum Hole {
    /// In a hole, before its format.
    Open,
    No,
}

impl<'a> Before<'a> {
    /// None in a comment or a regular expression, where anything may be written.
    fn find(file: u32, text: &'a str, at: usize) -> Option<Self> {
        let (all, _) = tokens(file, text);
        let mut before = Self { blocks: Vec::new(), statement: Vec::new(), hole: None };
        for Token { kind, span } in all {
            let (start, end) = (span.start as usize, span.end as usize);
            if start >= at {
                break;
            }
            let written = text.get(span.range()).unwrap_or("");
            let reached = end >= at;
            match kind {
                TokenKind::Word if reached => break,
                TokenKind::Comment | TokenKind::Doc | TokenKind::Regex if reached => return None,
                TokenKind::Text | TokenKind::Unknown if reached && !(end == at && closed(written)) => {
                    before.hole = Some(hole(&text[start..at]));
                    break;
                }
                TokenKind::Comment | TokenKind::Doc => {}
                TokenKind::Newline => before.end_of_line(),
                TokenKind::Mark("{") => before.enter(),
                TokenKind::Mark("}") => {
                    before.blocks.pop();
                    before.statement.clear();
                }
                _ => before.statement.push((kind, written)),
            }
        }
        Some(before)
    }

    /// A statement goes on after a line that ends in one of these.
    fn end_of_line(&mut self) {
        if !matches!(self.statement.last(), Some((TokenKind::Mark("," | "|" | "["), _))) {
            self.statement.clear();
        }
    }

    fn enter(&mut self) {
        let word = |at: usize| self.statement.get(at).map_or("", |(_, text)| *text);
        let block = (word(0), word(1));
        self.blocks.push(block);
        self.statement.clear();
    }

    fn block(&self) -> &'a str {
        self.blocks.last().map_or("", |(kind, _)| kind)
    }

    fn named(&self, kind: &str) -> Option<&'a str> {
        self.blocks.iter().find(|(word, _)| *word == kind).map(|(_, name)| *name)
    }

    fn places(&self) -> &'static [Place] {
        match self.block() {
            "" => &[Place::File],
            "source" => &[Place::Source],
            "store" => &[Place::Store],
            "table" => &[Place::Table],
            "entity" => &[Place::Entity],
            "lifecycle" => &[Place::Lifecycle],
            "alarms" => &[Place::Alarms],
            "workload" => &[Place::Workload],
            "metrics" => &[Place::Metrics],
            "defaults" => &[Place::Table, Place::Entity],
            _ => &[],
        }
    }

    fn has(&self, mark: &str) -> bool {
        self.statement.iter().any(|(kind, text)| matches!(kind, TokenKind::Mark(_)) && *text == mark)
    }

    fn said(&self, word: &str) -> bool {
        self.statement.iter().any(|(kind, text)| *kind == TokenKind::Word && *text == word)
    }
}

fn closed(text: &str) -> bool {
    text.len() > 1 && text.ends_with('"') && !text.ends_with("\\\"")
}

fn hole(text: &str) -> Hole {
    match text.rfind('{') {
        Some(open) if !text[..open].ends_with('\\') && !text[open..].contains(['}', ':']) => Hole::Open,
        _ => Hole::No,
    }
}

struct Names<'a> {
    symbols: &'a [Symbol],
    entity: Option<&'a str>,
    lifecycle: Option<&'a str>,
}

impl Names<'_> {
    fn of(&self, kind: SymbolKind) -> Vec<CompletionItem> {
        self.within(kind, "")
    }

    fn fields(&self) -> Vec<CompletionItem> {
        self.within(SymbolKind::Field, &format!("{}.", self.entity.unwrap_or("")))
    }

    fn states(&self) -> Vec<CompletionItem> {
        let (entity, lifecycle) = (self.entity.unwrap_or(""), self.lifecycle.unwrap_or(""));
        self.within(SymbolKind::State, &format!("{entity}.{lifecycle}."))
    }

    fn within(&self, kind: SymbolKind, path: &str) -> Vec<CompletionItem> {
        let wanted = |symbol: &&Symbol| symbol.kind == kind && symbol.path.starts_with(path);
        let shown = match kind {
            SymbolKind::Field => CompletionItemKind::FIELD,
            SymbolKind::Type | SymbolKind::Entity => CompletionItemKind::STRUCT,
            SymbolKind::State => CompletionItemKind::ENUM_MEMBER,
            _ => CompletionItemKind::VARIABLE,
        };
        let names = self.symbols.iter().filter(wanted);
        names.map(|symbol| item(&symbol.name, shown, kind.word())).collect()
    }
}

fn item(label: &str, kind: CompletionItemKind, detail: &str) -> CompletionItem {
    CompletionItem {
        label: label.to_owned(),
        kind: Some(kind),
        detail: Some(detail.to_owned()),
        ..CompletionItem::default()
    }
}

fn words(list: &[&str], kind: CompletionItemKind, detail: &str) -> Vec<CompletionItem> {
    list.iter().map(|word| item(word, kind, detail)).collect()
}

/// At the beginning of a statement.
fn beginnings(before: &Before<'_>, names: &Names<'_>) -> Vec<CompletionItem> {
    let keywords: &[&str] = match before.block() {
        "" => &["system", "include", "param", "type", "source", "table"],
        "table" => &["key", "index", "entity", "collection"],
        "entity" => &["key", "input", "let", "lifecycle"],
        "lifecycle" => &["state", "ready when"],
        "collection" => return names.of(SymbolKind::Entity),
        "grant" => return words(&ACTIONS, CompletionItemKind::KEYWORD, "action"),
        _ => &[],
    };
    let mut items = words(keywords, CompletionItemKind::KEYWORD, "");
    if before.blocks.is_empty() {
        items.extend(words(&BLOCKS, CompletionItemKind::KEYWORD, "block"));
    }
    let defaults = before.block() == "defaults";
    for rule in SETTINGS.iter().filter(|rule| before.places().contains(&rule.place)) {
        if defaults && ["name", "ttl", "label"].contains(&rule.name) {
            continue;
        }
        items.push(CompletionItem {
            documentation: Some(Documentation::String(rule.meaning.to_owned())),
            ..item(rule.name, CompletionItemKind::PROPERTY, &format!("{} {}", rule.name, rule.form))
        });
    }
    items
}

/// After the first word of a statement.
fn continuations(before: &Before<'_>, names: &Names<'_>) -> Vec<CompletionItem> {
    let last = before.statement.last().map_or("", |(_, text)| *text);
    let first = before.statement[0].1;
    if last == "." {
        return words(&FUNCTIONS, CompletionItemKind::FUNCTION, "function");
    }
    match before.block() {
        "collection" => names.of(SymbolKind::Entity),
        "grant" => words(&ACTIONS, CompletionItemKind::KEYWORD, "action"),
        "lifecycle" if first == "ready" || before.said("set") => names.fields(),
        "lifecycle" if first == "owner" => names.fields(),
        "lifecycle" if before.has("->") || before.has(":") => names.states(),
        "lifecycle" if first == "state" => words(&["lease", "due"], CompletionItemKind::KEYWORD, ""),
        "entity" if before.has("=") => {
            let mut items = names.fields();
            items.extend(words(&["now", "sha256("], CompletionItemKind::FUNCTION, "function"));
            items
        }
        "entity" | "type" if before.has(":") => typed(last, before, names),
        "entity" if ["key", "label", "checks"].contains(&first) => names.fields(),
        "entity" if first == "ttl" => names.of(SymbolKind::Param),
        "entity" if first == "lifecycle" => names.fields(),
        "table" if first == "entity" => match last {
            "from" => names.of(SymbolKind::Source),
            _ => words(&["from"], CompletionItemKind::KEYWORD, ""),
        },
        "table" if first == "index" => {
            let mut items = names.of(SymbolKind::Field);
            items.extend(words(&["as", "project", "all", "keys", "hot"], CompletionItemKind::KEYWORD, ""));
            items
        }
        "table" if first == "key" => names.of(SymbolKind::Field),
        "table" if first == "name" || first == "tags" => names.of(SymbolKind::Param),
        "" if first == "param" && last == ":" => {
            words(&["string", "int", "bool", "duration"], CompletionItemKind::KEYWORD, "type")
        }
        "" if first == "grant" => names.of(SymbolKind::Table),
        _ => setting_words(first, before.places()),
    }
}

fn typed(last: &str, before: &Before<'_>, names: &Names<'_>) -> Vec<CompletionItem> {
    let in_map = last == "," && before.has("<") && !before.has(">");
    match last {
        _ if in_map || [":", "[", "<"].contains(&last) => {
            let mut items = names.of(SymbolKind::Type);
            items.extend(words(&TYPES, CompletionItemKind::KEYWORD, "type"));
            items
        }
        "from" => names.fields(),
        _ => {
            let mut items = words(&CHECKS, CompletionItemKind::KEYWORD, "check");
            if before.block() == "entity" {
                items.extend(words(&["valid"], CompletionItemKind::KEYWORD, "check"));
            }
            items
        }
    }
}

/// The words of a setting's form; those in capitals stand for values.
fn setting_words(name: &str, places: &[Place]) -> Vec<CompletionItem> {
    let rule = SETTINGS.iter().find(|rule| places.contains(&rule.place) && rule.name == name);
    let Some(rule) = rule else { return Vec::new() };
    let mut found: Vec<&str> = rule
        .form
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    found.sort_unstable();
    found.dedup();
    words(&found, CompletionItemKind::VALUE, rule.form)
}

#[cfg(test)]
mod tests {
    use larder_schema::{Environment, NoFiles, Schema};

    use super::*;

    const SCHEMA: &str = r#"system races
param keep: duration = 3d
source jra
type Horse { name: string }
table data {
  key  pk / sk
  ttl  ttl
  defaulted
  entity Race from jra {
    key   "RACE#{race_id}" / "META"
    ttl   keep
    reads  strong
    race_id: string nonempty
    horses:  [Horse]
    hash   = race_id.lower()   // a comment
    lifecycle run {
      state ready, done
      finish: ready -> done  set hash
    }
  }
}
"#;

    /// What is offered right after these words of the schema.
    fn offered(after: &str) -> Vec<String> {
        let at = SCHEMA.find(after).expect("a part of the schema") + after.len();
        let loaded = Schema::load("a.larder", SCHEMA, &mut NoFiles, &Environment::new());
        complete(&loaded.symbols, 0, SCHEMA, at).into_iter().map(|item| item.label).collect()
    }

    #[test]
    fn what_is_offered_fits_the_place() {
        for (after, expected) in [
            ("duration = 3d\nso", "source"),
            ("  def", "billing"),
            ("entity Race from ", "jra"),
            ("key   \"RACE#{", "race_id"),
            ("key   \"RACE#{rac", "race_id"),
            ("ttl   ", "keep"),
            ("reads  ", "eventual"),
            ("reads  strong\n    ", "on_error"),
            ("race_id: ", "decimal"),
            ("race_id: string ", "nonempty"),
            ("horses:  [", "Horse"),
            ("hash   = ", "race_id"),
            ("hash   = race_id.", "psl_core()"),
            ("finish: ready -> ", "done"),
            ("set ", "race_id"),
        ] {
            let offered = offered(after);
            assert!(offered.iter().any(|label| label == expected), "{after:?}: {offered:?} lacks {expected}");
        }
    }

    #[test]
    fn nothing_is_offered_in_comments_and_plain_text() {
        for after in ["// a co", "key   \"RA", "key   \"RACE#{race_id}"] {
            assert_eq!(offered(after), Vec::<String>::new(), "{after:?}");
        }
    }

    #[test]
    fn a_setting_is_found_by_its_first_word() {
        let at = SCHEMA.find("strong").expect("it is there");
        assert!(beginning_at(0, SCHEMA, at + 2).is_none());
        let found = beginning_at(0, SCHEMA, at - 5).expect("it begins the statement");
        assert_eq!(
            (found.places, found.word, found.block),
            (&[Place::Entity][..], "reads", ("entity", "Race"))
        );
    }
}
