//! Any template or Terraform file is read without a panic, and what is imported from it is a schema without errors.
#![no_main]

use larder_schema::import::{self, Found};
use larder_schema::{Environment, NoFiles, Schema, format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    check(import::cloudformation(text));
    check(import::terraform(&[("main.tf", text)]));
});

fn check(found: Result<Found, String>) {
    let Ok(found) = found else { return };
    let imported = import::write(&found, "a file");
    assert_eq!(format(&imported.text), imported.text);
    let loaded = Schema::load("imported.larder", &imported.text, &mut NoFiles, &Environment::new());
    assert!(loaded.schema.is_some(), "{:?}\n{}", loaded.diagnostics, imported.text);
}
