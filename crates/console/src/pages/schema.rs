//! A schema: its text with what is wrong marked in it, drawn, as the page that `larder docs` writes, and what it costs.

use larder_schema::{Colour, Diagnostic, Loaded, SourceFile, TokenKind, emit, render, tokens};
use maud::{Markup, html};

use super::{Fault, Page, Room, cost, drawing, layout};
use crate::address::Url;
use crate::show;

/// Words that begin a part of a schema.
const WORDS: [&str; 34] = [
    "system",
    "table",
    "entity",
    "type",
    "source",
    "param",
    "index",
    "key",
    "ttl",
    "lifecycle",
    "state",
    "collection",
    "input",
    "let",
    "defaults",
    "store",
    "grant",
    "alarms",
    "budget",
    "workload",
    "metrics",
    "naming",
    "version",
    "include",
    "project",
    "as",
    "from",
    "in",
    "on",
    "create",
    "set",
    "default",
    "match",
    "ready",
];

/// What can be seen of a schema besides its text.
const VIEWS: [(&str, &str); 3] = [("drawing", "Drawing"), ("docs", "Documentation"), ("cost", "Cost")];

pub(super) fn show(room: &Room<'_>, name: &str) -> Page {
    let file = room.known.files.iter().find(|file| file.name() == name);
    let file = file.ok_or_else(|| Fault::Absent(format!("No schema here is of a system `{name}`.")))?;
    let here = Url::to(["schema", name]);
    let view = room.given.get("view").unwrap_or_default();
    let tab = |text: &str, url: Url, now: bool| html! { a href=(url) aria-current=[now.then_some("true")] { (text) } };
    let main = html! {
        h1 { (name) }
        p.quiet.mono { (file.path.display()) }
        @if let Some(wrong) = &file.wrong { (layout::wrong(wrong)) }
        @match &file.loaded {
            Err(error) => (layout::wrong(error)),
            Ok(loaded) => {
                nav.ways aria-label="Views" {
                    (tab("Source", here.clone(), !VIEWS.iter().any(|(word, _)| *word == view)))
                    @if loaded.schema.is_some() {
                        @for (word, text) in VIEWS { (tab(text, here.clone().with("view", word), view == word)) }
                    }
                }
                @match (&loaded.schema, view) {
                    (Some(schema), "drawing") => (drawing::show(schema)),
                    (Some(schema), "docs") => article.docs { (markdown(&emit::docs(schema))) },
                    (Some(schema), "cost") => (cost::show(room, schema)),
                    _ => (source(loaded)),
                }
            }
        }
    };
    Ok(room.page_of(name, &here.to_string(), &main))
}

fn source(loaded: &Loaded) -> Markup {
    let errors = loaded.diagnostics.iter().filter(|it| it.is_error()).count();
    html! {
        @if loaded.diagnostics.is_empty() { p.notice.good { "Nothing is wrong with it." } } @else {
            section.card.wrong {
                h2 { (show::count(errors as u64, "error")) ", " (show::count((loaded.diagnostics.len() - errors) as u64, "remark")) }
                @for diagnostic in &loaded.diagnostics {
                    pre tabindex="0" aria-label=(diagnostic.message) { (render(diagnostic, &loaded.files, Colour::Plain)) }
                }
            }
        }
        @for (at, file) in loaded.files.iter().enumerate() {
            @if loaded.files.len() > 1 { h2.mono { (file.name) } }
            (highlighted(u32::try_from(at).unwrap_or(u32::MAX), file, &loaded.diagnostics))
        }
    }
}

/// The text, coloured by its tokens, a line each; lines with something wrong are marked.
fn highlighted(at: u32, file: &SourceFile, diagnostics: &[Diagnostic]) -> Markup {
    let (all, _) = tokens(at, &file.text);
    let mut pieces: Vec<(&str, &str)> = Vec::new();
    let mut end = 0;
    for token in &all {
        let range = token.span.range();
        let Some(text) = file.text.get(range.clone()) else { continue };
        pieces.push(("", file.text.get(end..range.start).unwrap_or_default()));
        let class = match token.kind {
            TokenKind::Word if WORDS.contains(&text) => "w",
            TokenKind::Word if text.starts_with(|letter: char| letter.is_ascii_uppercase()) => "t",
            TokenKind::Number => "n",
            TokenKind::Text | TokenKind::Regex => "s",
            TokenKind::Comment | TokenKind::Doc => "c",
            _ => "",
        };
        pieces.push((class, text));
        end = range.end;
    }
    pieces.push(("", file.text.get(end..).unwrap_or_default()));
    // A line is an element of its own, so that it can be marked and has a number.
    let mut lines: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
    for (class, text) in pieces {
        for (at, part) in text.split('\n').enumerate() {
            if at > 0 {
                lines.push(Vec::new());
            }
            if let (false, Some(line)) = (part.is_empty(), lines.last_mut()) {
                line.push((class, part));
            }
        }
    }
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    let marked: Vec<usize> = diagnostics
        .iter()
        .filter(|it| it.span.file == at)
        .map(|it| file.place(it.span.range().start).0)
        .collect();
    html! {
        pre.source tabindex="0" aria-label=(file.name) {
            @for (at, line) in lines.iter().enumerate() {
                span class=(if marked.contains(&(at + 1)) { "line bad" } else { "line" }) {
                    @for (class, text) in line {
                        @if class.is_empty() { (text) } @else { span class=(class) { (text) } }
                    }
                    "\n"
                }
            }
        }
    }
}

/// The Markdown that `larder docs` writes: headings, paragraphs, lists, tables, code. Anything else is a paragraph.
fn markdown(text: &str) -> Markup {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let block =
            |begins: &dyn Fn(&str) -> bool| lines[at..].iter().take_while(|line| begins(line)).count();
        if line.trim().is_empty() || line.starts_with("<!--") {
            at += 1;
        } else if let Some(title) = line.strip_prefix("### ") {
            out.push(html! { h3 { (inline(title)) } });
            at += 1;
        } else if let Some(title) = line.strip_prefix("## ").or_else(|| line.strip_prefix("# ")) {
            out.push(html! { h2 { (inline(title)) } });
            at += 1;
        } else if line.starts_with("```") {
            let length = lines[at + 1..].iter().take_while(|line| !line.starts_with("```")).count();
            out.push(html! { pre tabindex="0" { (lines[at + 1..at + 1 + length].join("\n")) } });
            at += length + 2;
        } else if line.starts_with('|') {
            let length = block(&|line| line.starts_with('|'));
            out.push(table(&lines[at..at + length], at + 1));
            at += length;
        } else if line.starts_with("- ") {
            let length = block(&|line| line.starts_with("- "));
            out.push(html! { ul { @for line in &lines[at..at + length] { li { (inline(&line[2..])) } } } });
            at += length;
        } else {
            let length = block(&|line| {
                !line.trim().is_empty() && !line.starts_with(['|', '#', '`']) && !line.starts_with("- ")
            })
            .max(1);
            out.push(html! { p { (inline(&lines[at..at + length].join(" "))) } });
            at += length;
        }
    }
    html! { @for block in out { (block) } }
}

fn table(lines: &[&str], line: usize) -> Markup {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{1}");
        line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Table in line " (line) } {
            table {
                @if let Some(head) = lines.first() { thead { tr { @for cell in cells(head) { @if cell.is_empty() { td {} } @else { th { (inline(&cell)) } } } } } }
                tbody { @for line in lines.iter().skip(2) { tr { @for cell in cells(line) { td { (inline(&cell)) } } } } }
            }
        }
    }
}

/// Code between backticks; all else is text.
fn inline(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part.replace("**", "")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_of_a_schema_is_shown_once_and_escaped() {
        let text = "system a // <b>\nentity B {\n  x: string match /<script>/\n}\n";
        let file = SourceFile { name: "a.larder".to_owned(), text: text.to_owned() };
        let shown = highlighted(0, &file, &[]).into_string();
        let mut bare = String::new();
        let mut inside = false;
        for letter in shown.chars() {
            match letter {
                '<' => inside = true,
                '>' => inside = false,
                letter if !inside => bare.push(letter),
                _ => {}
            }
        }
        assert_eq!(bare.replace("&lt;", "<").replace("&gt;", ">"), text);
    }

    #[test]
    fn documentation_is_shown_as_what_it_is() {
        let shown =
            markdown("# a\n\ntext `x|y`\n\n| h |\n|---|\n| a\\|b <i> |\n\n- one\n- two\n").into_string();
        for part in ["<h2>a</h2>", "<p>text <code>x|y</code></p>", "<td>a|b &lt;i&gt;</td>", "<li>two</li>"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }
}
