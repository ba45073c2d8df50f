//! Any text: parsing never panics, loses nothing, and formatting settles at once.

use std::path::Path;

use larder_schema::{Environment, NoFiles, Schema, TokenKind, emit, format, parse, tokens};
use proptest::prelude::*;

fn systems() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    let mut texts = Vec::new();
    for system in ["keiba", "lunch", "shops", "tdnet", "weather"] {
        let path = directory.join(format!("{system}.larder"));
        texts.push(std::fs::read_to_string(path).expect("the five systems are in schemas/"));
    }
    texts
}

/// Whatever the text, the tools hold.
fn hold(text: &str) {
    let (tree, _) = parse(text);
    let mut end = 0;
    for token in &tree.tokens {
        let range = token.span.range();
        assert!(
            range.start >= end
                && text[end..range.start].chars().all(|c| c.is_whitespace() || c == '\u{feff}')
        );
        end = range.end;
    }
    let loaded = Schema::load("x.larder", text, &mut NoFiles, &Environment::new());
    for diagnostic in &loaded.diagnostics {
        let _ = larder_schema::render(diagnostic, &loaded.files, larder_schema::Colour::Ansi);
    }
    let once = format(text);
    assert_eq!(format(&once), once, "{text}");
    let again = Schema::load("x.larder", &once, &mut NoFiles, &Environment::new());
    assert_eq!(
        loaded.schema.as_ref().map(emit::json),
        again.schema.as_ref().map(emit::json),
        "{text}\n{once}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_parsed(text in "\\PC{0,200}") {
        hold(&text);
    }

    #[test]
    fn any_mixture_of_words_is_parsed(words in prop::collection::vec(word(), 0..80)) {
        hold(&words.concat());
    }

    #[test]
    fn a_schema_with_a_piece_cut_out_is_parsed(which in 0usize..5, from in any::<prop::sample::Index>(), length in 0usize..30, put in word()) {
        let text = &systems()[which];
        let mut start = from.index(text.len());
        while !text.is_char_boundary(start) { start -= 1; }
        let mut end = (start + length).min(text.len());
        while !text.is_char_boundary(end) { end += 1; }
        hold(&format!("{}{put}{}", &text[..start], &text[end..]));
    }
}

fn word() -> impl Strategy<Value = String> {
    let words = [
        "system ",
        "table ",
        "entity ",
        "key ",
        "index ",
        "type ",
        "param ",
        "source ",
        "lifecycle ",
        "state ",
        "input ",
        "let ",
        "ttl ",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ":",
        "=",
        ",",
        "|",
        "/",
        "..",
        "..=",
        ".",
        "->",
        "?",
        "-",
        ">",
        "\n",
        "\n",
        "\n\n",
        " ",
        "\"a{b}\"",
        "\"{x:02}\"",
        "\"",
        "7d",
        "$5",
        "5%",
        "2KB",
        "1",
        "0.5",
        "match /a/",
        "/",
        "// c",
        "/// d",
        "a",
        "b",
        "pk",
        "string",
        "int",
        "now",
        "in ",
        "on create",
        "set ",
        "default ",
        "é",
        "日",
    ];
    prop::sample::select(words.to_vec()).prop_map(str::to_owned)
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("a.", ""), ("not ", ""), ("a + ", "")] {
        let text = format!(
            "system s\ntable t {{\n key pk\n entity E {{\n x: {} \n y = {}a{}\n }}\n}}\n",
            open.repeat(5000),
            open.repeat(5000),
            close.repeat(5000)
        );
        hold(&text);
    }
}

#[test]
fn a_file_too_large_is_refused() {
    let text = "// comment\n".repeat(200_000);
    let (_, diagnostics) = parse(&text);
    assert_eq!(diagnostics[0].code, "L0005");
}

#[test]
fn tokens_are_the_whole_text() {
    for text in systems() {
        let (tokens, diagnostics) = tokens(0, &text);
        assert!(diagnostics.is_empty());
        let mut rebuilt = String::new();
        for token in &tokens {
            rebuilt.push_str(&text[rebuilt.len()..token.span.range().start]);
            rebuilt.push_str(&text[token.span.range()]);
        }
        assert_eq!(rebuilt, text);
        assert_eq!(tokens.last().map(|token| token.kind), Some(TokenKind::End));
    }
}

#[test]
fn formatting_keeps_comments_and_lays_columns_out() {
    let text = "system s // the system\n\n\n\ntable t{\nname \"t_t\" // where\n  key pk\n// alone\n\n\n entity E {\n\n  key \"A#{id}\"\n  ttl  -1\n input id:string nonempty\n  n:int in -5..=5 default -1 // n\n longer_name=id.lower()\n\n }\n}\n";
    insta::assert_snapshot!(format(text), @r#"
    system s   // the system

    table t {
      name  "t_t"   // where
      key   pk
      // alone

      entity E {
        key  "A#{id}"
        ttl  -1
        input id:     string nonempty
        n:            int in -5..=5 default -1   // n
        longer_name = id.lower()
      }
    }
    "#);
}

#[test]
fn a_text_that_does_not_parse_is_left_alone() {
    let text = "system s\n   table {\n";
    assert_eq!(format(text), text);
}

/// Texts that would take for ever if anything looked at every path instead of every place.
#[test]
fn hostile_schemas_are_read_in_bounded_time() {
    let entity = |fields: &str| {
        format!(
            "system s\ntable ttt {{\n key pk\n index IndexOne  a40 / pk\n entity E {{\n key \"K#{{a0}}\"\n a0: string nonempty\n{fields} }}\n}}\n"
        )
    };
    let doubling: String = (1..=40)
        .map(|n| format!(" let b{n} = a{}.lower()\n a{n} = \"{{b{n}}}{{a{}}}\"\n", n - 1, n - 1))
        .collect();
    let backwards: String = (1..=900).rev().map(|n| format!(" a{n} = a{}.lower()\n", n - 1)).collect();
    let types: String = (0..60).map(|n| format!("type T{n} {{ a: T{}, b: T{} }}\n", n + 1, n + 1)).collect();
    let many: String = (1..=30_000).map(|n| format!(" a{n}: strng\n")).collect();
    let settings: String = (1..=30_000).map(|n| format!(" setting{n} 1\n")).collect();
    let holes = format!(" x = \"{}\"\n", "{a0}".repeat(50_000));
    let entities: String =
        (0..2000).map(|n| format!(" entity E{n} {{\n key \"K#{{i}}\"\n input i: string\n }}\n")).collect();
    for text in [
        entity(&doubling),
        entity(&backwards),
        format!("{}{types}", entity("")),
        entity(&many),
        entity(&settings),
        entity(&holes),
        format!("system s\ntable ttt {{\n key pk\n{entities}}}\n"),
        "system s\n".repeat(30_000),
        "{".repeat(100_000),
        "\"{a}".repeat(50_000),
    ] {
        let start = std::time::Instant::now();
        let loaded = Schema::load("x.larder", &text, &mut NoFiles, &Environment::new());
        let _ = larder_schema::render_all(&loaded.diagnostics, &loaded.files, larder_schema::Colour::Plain);
        let _ = format(&text);
        // For ever is more than a busy machine makes of it.
        assert!(
            start.elapsed().as_secs() < 200,
            "{} took {:?}",
            &text[..60.min(text.len())],
            start.elapsed()
        );
    }
}
