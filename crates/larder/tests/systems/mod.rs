//! The five systems, opened on a store under names that no other test has.

#![allow(dead_code, reason = "each test file uses what it needs")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use larder::{Schema, Store, System};
use larder_schema::{Environment, NoFiles};

static OPENED: AtomicU32 = AtomicU32::new(0);

/// Opens `schemas/<name>.larder` with tables of its own.
pub(crate) async fn open(name: &str, store: &Store) -> System {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas").join(format!("{name}.larder"));
    let text = std::fs::read_to_string(path).expect("the schema is there");
    open_text(&text, store).await
}

/// Opens `schemas/<name>.larder` with the tables of an environment, as each of several programs does.
pub(crate) async fn open_in(name: &str, store: &Store, environment: &Environment) -> System {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas").join(format!("{name}.larder"));
    let text = std::fs::read_to_string(path).expect("the schema is there");
    let loaded = Schema::load("test.larder", &text, &mut NoFiles, environment);
    let schema = loaded.schema.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    let system = System::open_with(schema, store.clone(), environment.clone()).await.expect("it opens");
    system.provision().await.expect("its tables are made");
    system
}

/// Names of tables that no other test has.
pub(crate) fn environment() -> Environment {
    let own = format!("t{}-{}", std::process::id(), OPENED.fetch_add(1, Ordering::Relaxed));
    let variables = ["KEIBA_TABLE_NAME", "DYNAMODB_TABLE_NAME", "ENV", "ENVIRONMENT"];
    variables.iter().map(|name| ((*name).to_owned(), own.clone())).collect()
}

/// Opens a schema given as text. Its names may contain the variables of the five systems.
pub(crate) async fn open_text(text: &str, store: &Store) -> System {
    let environment = environment();
    let loaded = Schema::load("test.larder", text, &mut NoFiles, &environment);
    let schema = loaded.schema.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    let system = System::open_with(schema, store.clone(), environment).await.expect("it opens");
    system.provision().await.expect("its tables are made");
    system
}
