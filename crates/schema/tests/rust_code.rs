//! The code that `larder::schema!` compiles, for a small system and a large one.

use larder_schema::{Environment, NoFiles, Schema, emit};

fn check(system: &str) {
    let path = format!("{}/../../schemas/{system}.larder", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the five systems are in schemas/");
    let schema = Schema::load(system, &text, &mut NoFiles, &Environment::new()).schema.expect("it is right");
    let files = [(format!("{system}.larder"), format!("include_str!(\"{system}.larder\")"))];
    insta::assert_snapshot!(system, emit::rust(&schema, None, &files));
}

#[test]
fn code_of_weather() {
    check("weather");
}

#[test]
fn code_of_shops() {
    check("shops");
}
