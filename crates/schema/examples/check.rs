//! Checks and formats schema files: `cargo run -p larder-schema --example check -- [--fmt] FILE…`

use larder_schema::{Colour, Environment, NoFiles, Schema, format, render_all};

fn main() -> std::io::Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let write = arguments.first().is_some_and(|first| first == "--fmt");
    if write {
        arguments.remove(0);
    }
    for path in arguments {
        let text = std::fs::read_to_string(&path)?;
        if write {
            std::fs::write(&path, format(&text))?;
        }
        let loaded = Schema::load(&path, &text, &mut NoFiles, &Environment::new());
        print!("{}", render_all(&loaded.diagnostics, &loaded.files, Colour::Plain));
        println!("{path}: {}", if loaded.schema.is_some() { "fine" } else { "not usable" });
    }
    Ok(())
}
