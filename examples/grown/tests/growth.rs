//! The schemas that the examples are compiled with here: theirs, grown.

use std::fs;
use std::path::Path;

use larder_schema::{Environment, Impact, Loader, Schema, compare};

/// Each entity and each type with one more field that may be missing, and each table with an index by it.
fn grown(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("  key ") {
            out.push_str(&format!("{line}\n  index Grown as by_grown  grown\n"));
            continue;
        }
        let grows = matches!(words.first(), Some(&"entity" | &"type")) && line.contains('{');
        match line.split_once('{') {
            Some((head, members)) if grows && members.contains('}') => {
                out.push_str(&format!("{head}{{ grown: string? nonempty,{members}\n"));
            }
            Some(_) if grows => {
                let indent = line.len() - line.trim_start().len() + 2;
                out.push_str(&format!("{line}\n{}grown: string? nonempty\n", " ".repeat(indent)));
            }
            _ => out.push_str(&format!("{line}\n")),
        }
    }
    out
}

struct Alone;

impl Loader for Alone {
    fn load(&mut self, path: &str) -> Result<String, String> {
        Err(format!("there is no {path}"))
    }
}

fn schema(name: &str, text: &str) -> Schema {
    let loaded = Schema::load(name, text, &mut Alone, &Environment::new());
    loaded.schema.unwrap_or_else(|| panic!("{name}: {:?}", loaded.diagnostics))
}

#[test]
fn every_table_entity_and_type_has_grown_and_all_of_it_is_compatible() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for system in ["keiba", "tdnet", "weather", "shops", "lunch"] {
        let name = format!("{system}.larder");
        let original = fs::read_to_string(here.join("../../schemas").join(&name)).unwrap();
        let path = here.join("schemas").join(&name);
        let wanted = grown(&original);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &wanted).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(kept, wanted, "{}: UPDATE_DOCS=1 writes it", path.display());
        let (before, after) = (schema(&name, &original), schema(&name, &wanted));
        let fields = |schema: &Schema| {
            let entities =
                schema.tables.iter().flat_map(|table| &table.entities).map(|entity| &entity.fields);
            entities.chain(schema.types.iter().map(|kind| &kind.fields)).map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(fields(&after), fields(&before).iter().map(|count| count + 1).collect::<Vec<_>>());
        let indexes =
            |schema: &Schema| schema.tables.iter().map(|table| table.indexes.len()).collect::<Vec<_>>();
        assert_eq!(indexes(&after), indexes(&before).iter().map(|count| count + 1).collect::<Vec<_>>());
        let changes = compare(&before, &after);
        assert!(changes.iter().all(|change| change.impact == Impact::Compatible), "{changes:?}");
    }
}
