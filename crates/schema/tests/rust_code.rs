//! The code that `larder::schema!` compiles, for a small system and a large one.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use larder_schema::{Environment, NoFiles, Schema, emit};

fn check(system: &str) {
    let path = format!("{}/../../schemas/{system}.larder", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the five systems are in schemas/");
    let schema = Schema::load(system, &text, &mut NoFiles, &Environment::new()).schema.expect("it is right");
    let files = [(format!("{system}.larder"), format!("include_str!(\"{system}.larder\")"))];
    insta::assert_snapshot!(system, emit::rust(&schema, None, &files, &[]));
}

#[test]
fn code_of_weather() {
    check("weather");
}

#[test]
fn code_of_shops() {
    check("shops");
}

/// What a program can name of a module: types with their members, methods with their signatures.
fn listing(code: &str) -> String {
    let short = |line: &str| {
        let mut line = line.to_owned();
        for path in [
            "::std::option::",
            "::std::string::",
            "::std::vec::",
            "::std::result::",
            "::std::convert::",
            "::std::iter::",
            "::std::collections::",
            "::larder::jiff::civil::",
            "::larder::jiff::",
            "::larder::",
        ] {
            line = line.replace(path, "");
        }
        line
    };
    let mut out: Vec<String> = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("pub struct ") || line.starts_with("pub enum ") {
            let is_told = |line: &&str| !line.trim().starts_with("///");
            let body = lines.by_ref().take_while(|line| *line != "}").filter(is_told);
            let members: Vec<String> = body
                .map(|line| line.trim().trim_end_matches(',').to_owned())
                .filter(|line| line.starts_with("pub ") || !line.contains(':'))
                .map(|line| short(line.trim_start_matches("pub ")))
                .collect();
            let head = line.trim_start_matches("pub ").trim_end_matches(" {");
            out.push(match members.as_slice() {
                [] => format!("{head};"),
                members if members.iter().map(String::len).sum::<usize>() > 80 => {
                    format!("{head} {{\n    {},\n}}", members.join(",\n    "))
                }
                members => format!("{head} {{ {} }}", members.join(", ")),
            });
        } else if let Some(function) = line.strip_prefix("pub fn ") {
            out.push(format!("fn {};", short(function.trim_end_matches(" {"))));
        } else if let Some(handle) = line.strip_prefix("impl ::std::ops::Deref for ") {
            let target = lines.next().unwrap_or_default().trim();
            out.push(format!("impl Deref for {handle} {} }}", short(target)));
        } else if let Some(of) = line.strip_prefix("impl ").filter(|of| !of.contains(" for ")) {
            let of = of.trim_end_matches(" {");
            let mut methods = Vec::new();
            while let Some(line) = lines.next().filter(|line| *line != "}") {
                let Some(start) = line.trim().strip_prefix("pub ") else { continue };
                if let Some((constant, _)) =
                    start.strip_prefix("const ").and_then(|rest| rest.split_once(" = "))
                {
                    methods.push(format!("    const {};", short(constant)));
                    continue;
                }
                let mut signature = start.to_owned();
                while !signature.ends_with('{') {
                    let next = lines.next().unwrap_or("{").trim();
                    let gap = if signature.ends_with('(') || next.starts_with(')') { "" } else { " " };
                    signature.push_str(&format!("{gap}{next}"));
                }
                let signature =
                    signature.trim_end_matches('{').trim_end().replace(", )", ")").replace(",)", ")");
                methods.push(format!("    {};", short(&signature)));
            }
            out.push(format!("impl {of} {{\n{}\n}}", methods.join("\n")));
        }
    }
    out.join("\n")
}

#[test]
fn the_guide_to_a_schema_of_ones_own_lists_what_is_generated() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let text = std::fs::read_to_string(format!("{root}crates/larder/examples/post.larder")).unwrap();
    let loaded = Schema::load("post.larder", &text, &mut NoFiles, &Environment::new());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    assert_eq!(larder_schema::format(&text), text);
    let listed = listing(&emit::rust(&loaded.schema.unwrap(), None, &[], &[]));

    let page = format!("{root}docs/guides/post.md");
    let guide = std::fs::read_to_string(&page).unwrap();
    let block = |language: &str| {
        let (before, rest) = guide.split_once(&format!("```{language}\n")).expect("the guide has it");
        let (block, after) = rest.split_once("\n```\n").expect("it ends");
        (before, block, after)
    };
    assert_eq!(block("larder").1, text.trim_end(), "the schema in the guide is the one that is compiled");
    let (before, found, after) = block("rust,ignore");
    if found != listed && std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, format!("{before}```rust,ignore\n{listed}\n```\n{after}")).unwrap();
    } else {
        assert_eq!(found, listed, "UPDATE_DOCS=1 writes it");
    }
}
