//! How long the five systems take: `cargo run --release -p larder-schema --example timing`

use std::time::Instant;

use larder_schema::{Environment, NoFiles, Schema, format};

fn main() -> std::io::Result<()> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    let mut texts = Vec::new();
    for system in ["keiba", "lunch", "shops", "tdnet", "weather"] {
        texts.push(std::fs::read_to_string(directory.join(format!("{system}.larder")))?);
    }
    let environment = Environment::new();
    let mut times = Vec::new();
    for _ in 0..100 {
        let start = Instant::now();
        for text in &texts {
            let loaded = Schema::load("x.larder", text, &mut NoFiles, &environment);
            assert!(loaded.schema.is_some());
        }
        times.push(start.elapsed());
    }
    let start = Instant::now();
    texts.iter().for_each(|text| drop(format(text)));
    let formatted = start.elapsed();
    let first = times[0];
    times.sort_unstable();
    println!(
        "parse and check, first {first:?}, median {:?}, worst {:?}; format {formatted:?}",
        times[50], times[99]
    );
    Ok(())
}
