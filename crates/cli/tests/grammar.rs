//! The TextMate grammar in `editors/`, applied the way editors apply it.
//!
//! Its patterns keep to what both Oniguruma and `regex` understand, so they are tried here as they are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use larder_schema::{BLOCKS, SETTINGS};
use regex::{Captures, Regex};
use serde_json::Value;

fn vscode(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../editors/vscode").join(path)
}

fn json(path: &str) -> Value {
    let text = std::fs::read_to_string(vscode(path)).expect("it is in the repository");
    serde_json::from_str(&text).expect("it is JSON")
}

struct Rule {
    matching: Regex,
    /// For what spans more than one match: its end, and the rules inside.
    inside: Option<(Regex, Vec<Rule>)>,
    name: Option<String>,
    captures: Vec<(usize, String)>,
}

fn rules(list: &Value, repository: &Value) -> Vec<Rule> {
    list.as_array().expect("patterns are a list").iter().flat_map(|one| rule(one, repository)).collect()
}

fn rule(rule: &Value, repository: &Value) -> Vec<Rule> {
    if let Some(name) = rule["include"].as_str() {
        let named = &repository[name.strip_prefix('#').expect("it includes from its own repository")];
        assert!(named.is_object(), "there is no {name}");
        return self::rule(named, repository);
    }
    let regex =
        |key: &str| rule[key].as_str().map(|text| Regex::new(text).expect("it is a regular expression"));
    let Some(matching) = regex("match").or_else(|| regex("begin")) else {
        return rules(&rule["patterns"], repository);
    };
    let name = rule["name"].as_str().map(str::to_owned);
    let captures = rule["captures"].as_object().into_iter().flatten().filter_map(|(number, capture)| {
        Some((number.parse().expect("a number"), capture["name"].as_str()?.to_owned()))
    });
    let inside = regex("end").map(|end| (end, rules(&rule["patterns"], repository)));
    vec![Rule { captures: captures.collect(), name, inside, matching }]
}

fn grammar() -> Vec<Rule> {
    let grammar = json("syntaxes/larder.tmLanguage.json");
    rules(&grammar["patterns"], &grammar["repository"])
}

/// Each piece of the text that has a scope. The first rule wins among those that match earliest.
fn scopes(rules: &[Rule], text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut at = 0;
        while let Some((rule, captures)) = earliest(rules, line, at) {
            let whole = captures.get(0).expect("the whole match");
            record(rule, &captures, &mut found);
            at = whole.end();
            if let Some((end, inside)) = &rule.inside {
                at = text_body(end, inside, line, at, &mut found);
            } else if whole.is_empty() {
                at += 1;
            }
            if !line.is_char_boundary(at) {
                break;
            }
        }
    }
    found
}

fn text_body(
    end: &Regex,
    inside: &[Rule],
    line: &str,
    mut at: usize,
    found: &mut Vec<(String, String)>,
) -> usize {
    loop {
        let close = end.find_at(line, at).expect("a text ends with its line");
        match earliest(inside, line, at) {
            Some((rule, captures)) if captures.get(0).is_some_and(|whole| whole.start() < close.start()) => {
                record(rule, &captures, found);
                at = captures.get(0).map_or(close.end(), |whole| whole.end());
            }
            _ => return close.end(),
        }
    }
}

fn earliest<'r, 't>(rules: &'r [Rule], line: &'t str, at: usize) -> Option<(&'r Rule, Captures<'t>)> {
    let matches = rules.iter().filter_map(|rule| Some((rule, rule.matching.captures_at(line, at)?)));
    matches.min_by_key(|(_, captures)| captures.get(0).map_or(0, |whole| whole.start()))
}

fn record(rule: &Rule, captures: &Captures<'_>, found: &mut Vec<(String, String)>) {
    let short = |name: &str| name.strip_suffix(".larder").expect("scopes end in the language").to_owned();
    if let Some(name) = &rule.name {
        found.push((captures[0].to_owned(), short(name)));
    }
    for (number, name) in &rule.captures {
        if let Some(part) = captures.get(*number).filter(|_| *number > 0) {
            found.push((part.as_str().to_owned(), short(name)));
        }
    }
}

#[track_caller]
fn check(rules: &[Rule], line: &str, expected: &[(&str, &str)]) {
    let found = scopes(rules, line);
    for (text, scope) in expected {
        assert!(
            found.iter().any(|(piece, name)| piece == text && name == scope),
            "{line}\nhas no {scope} {text:?}, but {found:#?}"
        );
    }
}

#[test]
fn each_kind_of_word_has_its_colour() {
    let grammar = grammar();
    check(&grammar, "/// Kept for a week.", &[("/// Kept for a week.", "comment.line.documentation")]);
    check(
        &grammar,
        "key pk // one",
        &[("key", "keyword.control.setting"), ("// one", "comment.line.double-slash")],
    );
    check(&grammar, "tags: set<int>", &[("set", "support.type"), ("int", "support.type")]);
    check(&grammar, "x: map<string, date>", &[("map", "support.type"), ("date", "support.type")]);
    check(
        &grammar,
        "  entity Race from netkeiba {",
        &[
            ("entity", "keyword.declaration"),
            ("Race", "entity.name.type"),
            ("from", "keyword.other"),
            ("netkeiba", "variable.other"),
        ],
    );
    check(
        &grammar,
        r#"  key  "weather_{lat:.4f}_{hour:unix}""#,
        &[("lat", "variable.other"), (".4f", "constant.other.format"), ("hour", "variable.other")],
    );
    check(
        &grammar,
        "    company_code:    string match /[0-9]{4}/ secret",
        &[
            ("company_code", "variable.other.member"),
            ("string", "support.type"),
            ("match", "keyword.other.check"),
            ("/[0-9]{4}/", "string.regexp"),
            ("secret", "keyword.other.check"),
        ],
    );
    check(
        &grammar,
        "  cost  $0.0001 per call",
        &[("$0.0001", "constant.numeric.money"), ("per", "keyword.other")],
    );
    check(
        &grammar,
        "  ttl  30d",
        &[("ttl", "keyword.control.setting"), ("30d", "constant.numeric.duration")],
    );
    check(&grammar, "  stored  300MB", &[("300MB", "constant.numeric.size")]);
    check(&grammar, "  requests 1_000_000 per month", &[("1_000_000", "constant.numeric")]);
    check(&grammar, "  hit_rate  80%", &[("80%", "constant.numeric.percent")]);
    check(
        &grammar,
        "    let hour = at.floor(1h)",
        &[("let", "storage.modifier"), ("hour", "variable.other.member"), ("floor", "support.function")],
    );
    check(
        &grammar,
        "      begin:   never | done -> progress  set last_crawled_start = now",
        &[
            ("begin", "entity.name.function"),
            ("never | done", "constant.other.state"),
            ("progress", "constant.other.state"),
            ("set", "keyword.other"),
            ("now", "constant.language"),
        ],
    );
    check(
        &grammar,
        "    created_at: instant us = now on create",
        &[
            ("created_at", "variable.other.member"),
            ("instant us", "support.type"),
            ("now", "constant.language"),
        ],
    );
    check(
        &grammar,
        "param stage: string = \"dev\"",
        &[("stage", "entity.name.type"), ("string", "support.type")],
    );
    check(
        &grammar,
        "  end: a -> b  set x = 1, y = now",
        &[("x", "variable.other.member"), ("y", "variable.other.member")],
    );
    check(
        &grammar,
        "    kind as type: string",
        &[("kind", "variable.other.member"), ("as", "keyword.other")],
    );
}

#[test]
fn every_setting_and_block_of_the_language_is_coloured() {
    let grammar = grammar();
    for rule in SETTINGS {
        check(&grammar, &format!("  {} 7", rule.name), &[(rule.name, "keyword.control.setting")]);
    }
    for block in BLOCKS {
        check(&grammar, &format!("{block} {{"), &[(block, "keyword.declaration")]);
    }
}

#[test]
fn a_slash_between_keys_begins_no_regular_expression() {
    let found = scopes(&grammar(), "  key  \"SHOP#{domain}\" / \"META#\"   // a / b");
    assert!(found.iter().all(|(_, scope)| scope != "string.regexp"), "{found:?}");
}

#[test]
fn the_five_systems_use_every_colour() {
    let grammar = grammar();
    let mut seen = BTreeSet::new();
    for system in ["keiba", "lunch", "shops", "tdnet", "weather"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{system}.larder"));
        let text = std::fs::read_to_string(path).expect("the five systems are in schemas/");
        seen.extend(scopes(&grammar, &text).into_iter().map(|(_, scope)| scope));
    }
    for scope in [
        "string.regexp",
        "string.quoted.double",
        "constant.numeric.money",
        "support.function",
        "entity.name.function",
    ] {
        assert!(seen.contains(scope), "{scope} is in none of {seen:?}");
    }
}

#[test]
fn the_extension_names_files_that_are_there() {
    let package = json("package.json");
    let language = &package["contributes"]["languages"][0];
    let grammar = &package["contributes"]["grammars"][0];
    assert_eq!(language["id"], grammar["language"]);
    assert_eq!(grammar["scopeName"], json("syntaxes/larder.tmLanguage.json")["scopeName"]);
    for path in [&language["configuration"], &grammar["path"]] {
        let path = path.as_str().expect("a path");
        assert!(json(path).is_object(), "{path}");
    }
}
