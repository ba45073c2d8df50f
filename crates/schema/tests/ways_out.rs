//! What people write who know other languages, or forget a brace: the message names the place and what to write.

use larder_schema::{Colour, Environment, NoFiles, Schema, render_all};

fn shown(text: &str) -> String {
    let loaded = Schema::load("s.larder", text, &mut NoFiles, &Environment::new());
    render_all(&loaded.diagnostics, &loaded.files, Colour::Plain)
}

/// What is reported of one line in an entity.
fn field(line: &str) -> String {
    shown(&format!(
        "system s\ntable t {{\n  name \"t_t\"\n  key pk\n  entity E {{\n    key \"E#{{id}}\"\n    id: string nonempty\n    {line}\n  }}\n}}\n"
    ))
}

/// What is reported of one line in a table.
fn setting(line: &str) -> String {
    shown(&format!(
        "system s\ntable t {{\n  name \"t_t\"\n  key pk\n  {line}\n  entity E {{\n    key \"E#{{id}}\"\n    id: string nonempty\n    ends: epoch\n  }}\n}}\n"
    ))
}

#[test]
fn a_missing_brace_is_one_error_at_the_block_that_is_not_closed() {
    let entity = r#"system s

table things {
  key pk

  entity A {
    key "A#{id}"
    id: string nonempty

  entity B {
    key "B#{id}"
    id: string nonempty
  }
}

type T { x: int }
"#;
    insta::assert_snapshot!(shown(entity), @r"
error[L0004]: this block is never closed
  ┌─ s.larder:6:12
 6│   entity A {
  │            ^ opened here
  ├─ s.larder:10:3
10│   entity B {
  │   ------ laid out as not in it: the `}` is missing before this
  = help: add a `}`
");
}

#[test]
fn two_missing_braces_are_two_errors() {
    let text = r#"system s

source api {
  timeout 3s

table things {
  key pk

  entity A {
    key "A#{id}"
    id: string nonempty
    lifecycle work {
      state open, done
      finish: open -> done

    other: string
  }
}
"#;
    let shown = shown(text);
    assert_eq!(shown.matches("error[").count(), 2, "{shown}");
    for place in ["s.larder:3:12", "s.larder:6:1", "s.larder:12:20", "s.larder:16:5"] {
        assert!(shown.contains(place), "{place}:\n{shown}");
    }
}

#[test]
fn a_file_that_ends_in_a_block_says_which() {
    let text = "system s\n\ntable things {\n  key pk\n\n  entity A {\n    key \"A#{id}\"\n    id: string nonempty\n}\n";
    insta::assert_snapshot!(shown(text), @r"
error[L0004]: this block is never closed
 ┌─ s.larder:6:12
6│   entity A {
 │            ^ opened here
 ├─ s.larder:9:1
9│ }
 │ - laid out as not in it: the `}` is missing before this
 = help: add a `}`
");
}

/// Without a layout to go by, the block that the end of the file is in is named.
#[test]
fn a_file_without_a_layout_is_read_as_it_stands() {
    let text = "system s\ntable things {\nkey pk\nentity A {\nkey \"A#{id}\"\nid: string nonempty\n}\n";
    let shown = shown(text);
    assert_eq!(shown.matches("error[").count(), 1, "{shown}");
    assert!(shown.contains("this block is never closed"), "{shown}");
}

#[test]
fn a_setting_with_a_colon_is_told_how_it_is_written() {
    let shown = setting("ttl: ends_at");
    assert!(shown.contains("no `:` stands between `ttl` and its value"), "{shown}");
    assert!(shown.contains("help: write: ttl ends_at"), "{shown}");
    insta::assert_snapshot!(setting("stream = new"), @r"
error[L0003]: no `=` stands between `stream` and its value
 ┌─ s.larder:5:10
5│   stream = new
 │          ^
 = `name: type` is a field, `name = expression` an equation, `word value` a setting
 = help: write: stream new
");
    insta::assert_snapshot!(setting("title: string"), @r"
error[L0003]: a field stands in an entity or a type
 ┌─ s.larder:5:3
5│   title: string
 │   ^^^^^^
 = help: move it into `entity NAME { … }`
");
    insta::assert_snapshot!(field("ttl: 7d"), @r"
error[L0003]: no `:` stands between `ttl` and its value
 ┌─ s.larder:8:8
8│     ttl: 7d
 │        ^
 = `name: type` is a field, `name = expression` an equation, `word value` a setting
 = help: write: ttl 7d
");
}

#[test]
fn a_number_without_its_unit_is_told_the_units() {
    insta::assert_snapshot!(setting("pitr 7"), @r"
error[L0206]: `pitr` cannot be `7`
 ┌─ s.larder:5:8
5│   pitr 7
 │        ^
 = help: write: pitr on | off | DURATION
 = help: a duration has a unit: `7s`, `7m`, `7h`, `7d`
");
    insta::assert_snapshot!(setting("pitr 60d"), @r"
error[L0206]: `pitr` cannot be `60d`
 ┌─ s.larder:5:8
5│   pitr 60d
 │        ^^^
 = help: write: pitr on | off | DURATION
 = help: whole days, from `1d` to `35d`
");
}

#[test]
fn types_of_other_languages_lead_to_ours() {
    for (written, way_out) in [
        ("number", "write `int` for whole numbers, `decimal` for exact ones"),
        ("Integer", "write `int`"),
        ("text", "write `string`"),
        ("boolean", "write `bool`"),
        ("timestamp", "write `instant` for a moment kept as text"),
        ("object", "write `json` for any document"),
        ("array", "write `[string]` for a list of strings"),
        ("string[]", "write `[string]` for a list"),
        ("list<string>", "write `[string]` for a list"),
        ("Set<string>", "write `set<string>` for a set"),
        ("HashSet<int>", "write `set<int>` for a set"),
        ("set", "write `set<string>` for a set of strings"),
        ("SS", "write `set<string>` for a set of strings"),
        ("Map<string, int>", "write `map<string, int>` for a map"),
        ("Record<string, decimal>", "write `map<string, decimal>` for a map"),
        ("dict", "write `map<string, int>` for a map from texts to numbers"),
        ("map<int>", "write `map<string, int>`"),
        ("map<int, decimal>", "write `map<string, decimal>`"),
        ("Option<int>", "write `int?` for what may be missing"),
        ("string | null", "write `string?` for what may be missing"),
        ("string | int", "`json` holds anything"),
        (r#"enum("a", "b")"#, r#"write `"a" | "b"` for one of some texts"#),
        (r#"enum("a" | "b")"#, r#"write `"a" | "b"` for one of some texts"#),
        ("enum(a, b)", r#"write `"a" | "b"` for one of some texts"#),
        ("Enum[a, b]", r#"write `"a" | "b"` for one of some texts"#),
        ("enum { a, b }", r#"write `"a" | "b"` for one of some texts"#),
        ("varchar(20)", "write `string`, or `string len ..=200` for a length"),
        ("string(20)", "write `string`, or `string len ..=200` for a length"),
        ("decimal(10, 2)", "write `decimal` alone"),
        ("List[string]", "write `[string]` for a list"),
        ("dict[string, int]", "write `map<string, int>` for a map"),
        ("strnig", "did you mean `string`?"),
        ("quux", "known here: "),
    ] {
        let shown = field(&format!("x: {written}"));
        assert!(shown.contains(way_out), "{written}:\n{shown}");
        assert_eq!(shown.matches("error[").count(), 1, "{written}:\n{shown}");
    }
}

#[test]
fn an_index_on_an_unknown_field_lists_what_there_is() {
    let fields: String = (0..30).map(|n| format!("field_{n}: string?\n")).collect();
    let text = format!(
        "system s\ntable things {{\nkey pk\nindex ByTitle as by_title titel\nentity E {{\nkey \"E#{{id}}\"\nid: string nonempty\nheadline: string?\n{fields}}}\n}}\n"
    );
    let shown = shown(&text);
    assert!(shown.contains("there is no stored field called `titel`"), "{shown}");
    assert!(shown.contains("known here: ") && shown.contains("more"), "{shown}");
}
