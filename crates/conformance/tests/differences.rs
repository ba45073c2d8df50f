//! The list of known differences is true to the tests and to the documentation.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use larder_conformance::Target;
use larder_conformance::differences::{LIST, markdown};

#[test]
fn every_listed_test_exists() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for test in LIST.iter().flat_map(|difference| difference.tests) {
        let (file, name) = test.split_once("::").expect("a test is file::name");
        let source = fs::read_to_string(tests.join(format!("{file}.rs"))).unwrap_or_default();
        assert!(source.contains(&format!("#[test]\nfn {name}() {{")), "{test} is listed and does not exist");
    }
}

#[test]
fn a_test_is_listed_once_for_a_target() {
    for target in Target::KNOWN {
        let mut seen = BTreeSet::new();
        for test in LIST
            .iter()
            .filter(|difference| difference.target == target)
            .flat_map(|difference| difference.tests)
        {
            assert!(seen.insert(test), "{test} is listed twice for {}", target.name());
        }
    }
}

#[test]
fn the_documentation_has_the_current_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../COMPATIBILITY.md");
    let documentation = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        documentation.contains(&markdown()),
        "COMPATIBILITY.md lacks the current list: put in what `cargo run -p larder-conformance --example differences` prints"
    );
}
