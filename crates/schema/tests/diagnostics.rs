//! Every rule has a schema that breaks it and one that does not.
//!
//! `fixtures/L0107.invalid.larder` must report L0107, and what it reports is a snapshot;
//! `fixtures/L0107.valid.larder` must report nothing at all.

use std::path::{Path, PathBuf};

use larder_schema::{Colour, Environment, Loaded, Loader, RULES, Schema, explain, render_all, rule};

struct Fixtures;

impl Loader for Fixtures {
    fn load(&mut self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(fixtures().join(path)).map_err(|_| "there is no such file".to_owned())
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn load(name: &str) -> Loaded {
    let text =
        std::fs::read_to_string(fixtures().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let environment = Environment::from([("WRONG_HOURS".to_owned(), "three".to_owned())]);
    Schema::load(name, &text, &mut Fixtures, &environment)
}

#[test]
fn every_rule_is_broken_by_its_fixture() {
    for rule in RULES {
        let loaded = load(&format!("{}.invalid.larder", rule.code));
        let shown = render_all(&loaded.diagnostics, &loaded.files, Colour::Plain);
        assert!(
            loaded.diagnostics.iter().any(|found| found.code == rule.code),
            "{} is not reported:\n{shown}",
            rule.code
        );
        insta::assert_snapshot!(rule.code, shown);
    }
}

#[test]
fn every_rule_is_kept_by_its_fixture() {
    for rule in RULES {
        let loaded = load(&format!("{}.valid.larder", rule.code));
        let shown = render_all(&loaded.diagnostics, &loaded.files, Colour::Plain);
        assert!(loaded.diagnostics.is_empty(), "{}:\n{shown}", rule.code);
        assert!(loaded.schema.is_some(), "{}", rule.code);
    }
}

#[test]
fn every_diagnostic_has_a_rule_a_place_and_a_cause_or_way_out() {
    for rule in RULES {
        for found in load(&format!("{}.invalid.larder", rule.code)).diagnostics {
            assert!(larder_schema::rule(found.code).is_some(), "{}", found.code);
            let says = !found.label.is_empty()
                || !found.notes.is_empty()
                || !found.helps.is_empty()
                || !found.others.is_empty();
            assert!(says, "{} in {}: {}", found.code, rule.code, found.message);
        }
    }
}

#[test]
fn rules_are_in_order_and_explained() {
    assert!(RULES.windows(2).all(|pair| pair[0].code < pair[1].code));
    for rule in RULES {
        let text = explain(rule.code).unwrap_or_default();
        assert!(text.starts_with(rule.code) && rule.text.len() > 60 && !rule.title.ends_with('.'), "{text}");
    }
    assert!(rule("l0107").is_some());
    assert!(explain("L9999").is_none());
}
