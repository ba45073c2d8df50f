//! Any text is read without a panic. Laid out, it stays the same schema, and laying it out again changes nothing.
#![no_main]

use larder_schema::{Colour, Environment, NoFiles, Schema, compare, emit, format, hover, render_all, symbol_at};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let load = |text: &str| Schema::load("fuzz.larder", text, &mut NoFiles, &Environment::new());
    let loaded = load(text);
    render_all(&loaded.diagnostics, &loaded.files, Colour::Plain);
    assert_eq!(loaded.schema.is_none(), loaded.diagnostics.iter().any(|one| one.is_error()));
    let _ = symbol_at(&loaded.symbols, 0, text.len() / 2);

    let laid_out = format(text);
    assert_eq!(format(&laid_out), laid_out);
    let Some(schema) = loaded.schema else { return };
    for symbol in &loaded.symbols {
        hover(&schema, symbol);
    }
    emit::docs(&schema);
    let same = load(&laid_out).schema.expect("laying out makes no errors");
    assert_eq!(emit::json(&same), emit::json(&schema));
    assert_eq!(compare(&schema, &same), []);
});
