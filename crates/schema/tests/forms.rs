//! The canonical JSON keeps to its published schema; comparison and symbols say what people need.

use std::path::Path;

use larder_schema::{
    Environment, Impact, Loaded, NoFiles, RULES, SETTINGS, Schema, SymbolKind, compare, emit, hover,
    symbol_at,
};
use serde_json::Value as Json;

fn text(system: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{system}.larder"));
    std::fs::read_to_string(path).expect("the five systems are in schemas/")
}

fn load_text(text: &str) -> Loaded {
    Schema::load("x.larder", text, &mut NoFiles, &Environment::new())
}

fn schema(text: &str) -> Schema {
    let loaded = load_text(text);
    loaded.schema.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics))
}

/// The part of JSON Schema that ours uses.
fn conforms(value: &Json, rule: &Json, root: &Json) -> Result<(), String> {
    let fail = |why: &str| Err(format!("{why}: {value} against {rule}"));
    if let Some(path) = rule.get("$ref").and_then(Json::as_str) {
        let target = root.pointer(path.trim_start_matches('#')).ok_or("a dangling reference")?;
        return conforms(value, target, root);
    }
    if let Some(any) = rule.get("anyOf").and_then(Json::as_array) {
        let ok = any.iter().any(|rule| conforms(value, rule, root).is_ok());
        return if ok { Ok(()) } else { fail("none fits") };
    }
    if rule.get("const").is_some_and(|wanted| wanted != value) {
        return fail("another constant");
    }
    if rule.get("enum").and_then(Json::as_array).is_some_and(|choices| !choices.contains(value)) {
        return fail("not one of them");
    }
    let kind = match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    let is = |wanted: &Json| wanted == kind || (wanted == "number" && kind == "integer");
    match rule.get("type") {
        Some(Json::Array(kinds)) if !kinds.iter().any(is) => return fail("another type"),
        Some(wanted @ Json::String(_)) if !is(wanted) => return fail("another type"),
        _ => {}
    }
    if let (Json::Array(items), Some(each)) = (value, rule.get("items")) {
        items.iter().try_for_each(|item| conforms(item, each, root))?;
    }
    if let Json::Object(members) = value {
        for name in rule.get("required").and_then(Json::as_array).into_iter().flatten() {
            if !members.contains_key(name.as_str().unwrap_or("")) {
                return fail(&format!("{name} is missing"));
            }
        }
        for (name, member) in members {
            match rule
                .get("properties")
                .and_then(|properties| properties.get(name))
                .or(rule.get("additionalProperties"))
            {
                Some(Json::Bool(false)) => return fail(&format!("{name} is unknown")),
                Some(rule) => conforms(member, rule, root)?,
                None => {}
            }
        }
    }
    Ok(())
}

#[test]
fn canonical_json_keeps_to_its_published_schema() {
    let root: Json = serde_json::from_str(emit::JSON_SCHEMA).expect("it is JSON");
    let mut texts: Vec<String> = ["keiba", "lunch", "shops", "tdnet", "weather"].map(text).to_vec();
    texts.push(EVERYTHING.to_owned());
    for text in texts {
        let json = emit::json(&schema(&text));
        if let Err(why) = conforms(&json, &root, &root) {
            panic!("{}: {why}", json["system"]);
        }
    }
    assert!(conforms(&serde_json::json!({"larder": 2}), &root, &root).is_err());
}

/// Every setting once.
const EVERYTHING: &str = r#"
system everything
naming pascal
version 2 keep 30d
budget $5, $10.5 per month
param on: bool = true from ON
param count: int = 3
source web {
  cost         $0.01 per call
  latency      100ms..2s
  pace         10 per second burst 20
  retry        3 backoff 100ms..5s
  timeout      2s..10s
  breaker      5 for 30s
}
store {
  timeout  200ms..5s
  retry    2 backoff 10ms..100ms
  breaker  3 for 2s
}
table things {
  name        "things-{version}"
  region      "eu-west-1"
  key         pk / sk: int
  ttl         ends
  billing     provisioned 5 / 6
  pitr        7d
  encryption  kms "alias/key"
  on_delete   retain
  class       infrequent
  stream      both
  strict      on
  tags        Name "Things", "cost center" on
  index Many as many  place, kind / at, number  project note
  entity Thing from web {
    key       "T#{place}" / number
    ttl       doc.age
    writes    behind drain 2s queue 50
    on_error  open
    oversize  compress else split
    l1        5m size 10MB
    reads     strong
    scan      ask
    log       hit, miss, oversize, write, load
    stale     10m
    grace     1d
    refresh   80%
    negative  5m
    jitter    10%
    versions  on
    flight    10s
    compress  over 10KB
    label     place, "kind-{kind}"
    checks    record errors
    place:  string len 1..=40
    number: int in 0..
    kind:   "a" | "b"
    at:     instant us
    note:   string default "none"
    doc:    Doc
    errors: [string]?
    worker: string?
    soon = at + 7d
    old = not (at > now - 1d) and number >= 3 or kind == "a"
    lifecycle work in state_key {
      owner  worker
      retry  5 backoff 1m..1h
      state new   "NEW#"
      state busy  "BUSY#{at}"  lease 1h
      state done  "DONE#{at}"  due 2d
      begin:   new | done -> busy
      finish:  busy -> done  set note
      ready when number > 0
    }
  }
}
type Doc { age: duration, tags: [string?], when: datetime?, raw: bytes, .. }
alarms {
  error_rate  > 5%  for 5m
  hit_rate    < 50%
  latency     > 100ms
  throttles   > 0
  stuck       > 3
  queue       > 100
}
metrics "Things" {
  hit      Hit
  miss     Miss
  latency  Latency
  error    Error
  load     Load
  write    "Write it"
  saved    Saved
}
workload {
  requests   1_000 per second
  reads      1..5 per minute
  writes     1 per hour
  hit_rate   80.5%
  item_size  2KB
  stored     1GB
}
grant app on things { get, put, update, delete, query, scan, batch, describe, stream }
"#;

#[test]
fn every_setting_is_understood() {
    let loaded = load_text(EVERYTHING);
    assert!(loaded.diagnostics.is_empty(), "{:#?}", loaded.diagnostics);
    for rule in SETTINGS {
        assert!(EVERYTHING.contains(&format!("{} ", rule.name)), "{} is not shown", rule.name);
    }
}

#[test]
fn the_documentation_tells_of_every_policy() {
    let text = emit::docs(&schema(EVERYTHING));
    for told in [
        "left alone for 30s after 5 failures in a row",
        "Fetched again when 80 % of its life is over.",
        "Lives vary by 10 %, so that not all end at once.",
        "Values over 10 KB are stored compressed.",
        "Writes carry a version, and lose against a newer one.",
        "Can be invalidated by `place`, `kind-{kind}`, besides its key.",
        "1 to 5 a minute",
    ] {
        assert!(text.contains(told), "{told} is missing:\n{text}");
    }
}

#[test]
fn the_manual_has_every_setting_and_every_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/language.md");
    let manual = std::fs::read_to_string(path).expect("docs/language.md is there");
    for rule in SETTINGS {
        let row = format!("| `{}` | `{}` | {} |", rule.name, rule.form.replace('|', "\\|"), rule.meaning);
        assert!(manual.contains(&row), "missing: {row}");
    }
    for rule in RULES {
        let row = format!("| {} | {} |", rule.code, rule.title);
        assert!(manual.contains(&row), "missing: {row}");
    }
}

/// What changes when one piece of a system's text is replaced.
fn check(system: &str, from: &str, to: &str, expected: &[(&str, Impact)]) {
    let old = text(system);
    assert!(old.contains(from), "{from}");
    let changes = compare(&schema(&old), &schema(&old.replacen(from, to, 1)));
    let found: Vec<(&str, Impact)> =
        changes.iter().map(|change| (change.path.as_str(), change.impact)).collect();
    assert_eq!(found, expected, "{changes:#?}");
}

#[test]
fn a_schema_does_not_differ_from_itself() {
    for system in ["keiba", "lunch", "shops", "tdnet", "weather"] {
        let schema = schema(&text(system));
        assert_eq!(compare(&schema, &schema), []);
    }
}

#[test]
fn changes_are_judged_by_what_is_stored() {
    use Impact::{Breaking, Compatible};
    check("tdnet", "/[0-9]{4}/", "/[0-9]{3}[0-9A-Z]/", &[("Disclosure.company_code", Compatible)]);
    check("tdnet", "/[0-9]{4}/", "/[1-9][0-9]{3}/", &[("Disclosure.company_code", Breaking)]);
    check(
        "tdnet",
        "pdf_url:         url?",
        "pdf_url: url?\n    lang: string?",
        &[("Disclosure.lang", Compatible)],
    );
    check(
        "tdnet",
        "pdf_url:         url?",
        "pdf_url: url?\n    lang: string",
        &[("Disclosure.lang", Breaking)],
    );
    check("tdnet", "pdf_url:         url?", "pdf_url: url", &[("Disclosure.pdf_url", Breaking)]);
    check("lunch", "int in 1..=53", "int in 1..=52", &[("Menu.week", Breaking)]);
    check("lunch", "ttl     14d", "ttl     7d", &[("Menu", Compatible)]);
    check("lunch", "{restaurant}-{year}", "{restaurant}_{year}", &[("Menu", Breaking)]);
    let fields = ["lunch_count", "cached_at", "validation_errors", "data_quality", "last_updated"];
    let renamed: Vec<String> = fields.iter().map(|field| format!("Menu.{field}")).collect();
    let mut expected = vec![("naming", Breaking), ("history", Breaking)];
    expected.extend(renamed.iter().map(|path| (path.as_str(), Breaking)));
    check("lunch", "naming camel", "naming same", &expected);
    check("shops", "project keys", "project all", &[("siblings", Breaking)]);
    check("shops", "due 2d", "due 3d", &[("Shop.crawl.done", Compatible)]);
    check(
        "shops",
        "\"DONE#{last_crawled_end}\"",
        "\"OVER#{last_crawled_end}\"",
        &[("Shop.crawl.done", Breaking)],
    );
    check("keiba", "billing   on_demand", "billing   provisioned 1 / 1", &[("keiba_data", Compatible)]);
}

#[test]
fn an_editor_finds_what_a_name_means() {
    let text = text("shops");
    let loaded = load_text(&text);
    let schema = loaded.schema.as_ref().expect("no diagnostics");
    let hole = text.find("{last_crawled_start}").expect("written") + 3;
    let (symbol, _) = symbol_at(&loaded.symbols, 0, hole).expect("a field");
    assert_eq!((symbol.kind, symbol.path.as_str()), (SymbolKind::Field, "Shop.last_crawled_start"));
    assert!(text[symbol.span.range()].starts_with("last_crawled_start"));
    assert!(symbol.references.len() >= 3, "{:?}", symbol.references);
    let entity = text.find("entity Page").expect("written") + 8;
    let (symbol, _) = symbol_at(&loaded.symbols, 0, entity).expect("an entity");
    insta::assert_snapshot!(hover(schema, symbol), @"
    **entity** `Page`

    `pk` = `SHOP#domain` / `sk` = `URL#https://example.com/a`
    ");
    let index = text.find("as by_last_crawled").expect("written") + 5;
    let (symbol, _) = symbol_at(&loaded.symbols, 0, index).expect("an index");
    insta::assert_snapshot!(hover(schema, symbol), @"
    **index** `by_last_crawled`

    `gsi2_pk` / `gsi2_sk`

    Shop: about 233 bytes; a write takes 2 write units ($1.25 a million) more, an entry read 0.5 read units ($0.0625 a million)
    ");
}

#[test]
fn a_hint_that_can_be_written_is_a_fix() {
    let schema = |of: &str| {
        format!("system a\ntable all {{\n key id\n entity E {{ id: string nonempty\n x: {of}\n }}\n}}\n")
    };
    for (written, fixed) in [
        ("strng", "string"),
        ("[dat]", "[date]"),
        ("set<string?>", "set<string>"),
        ("set<string>?", "set<string>"),
        ("map<string, int?>", "map<string, int>"),
        ("string nonempt", "string nonempty"),
    ] {
        let mut text = schema(written);
        let loaded = load_text(&text);
        let mut fixes = loaded.diagnostics.iter().filter_map(|diagnostic| diagnostic.fix.clone());
        let fix = fixes.next().unwrap_or_else(|| panic!("{written}: {:?}", loaded.diagnostics));
        text.replace_range(fix.span.range(), &fix.text);
        assert_eq!(text, schema(fixed));
        assert!(load_text(&text).schema.is_some(), "{text}");
    }
}
