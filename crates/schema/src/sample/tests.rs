use super::*;
use crate::{Environment, NoFiles};

fn schema(fields: &str) -> Schema {
    let text = format!(
        "system test\ntable things {{\n  key  pk\n  entity E {{\n    key  \"E#{{id}}\"\n{fields}\n  }}\n}}\ntype Inner {{ week: int in 1..=53, note: string? }}\n"
    );
    let loaded = Schema::load("test.larder", &text, &mut NoFiles, &Environment::new());
    loaded.schema.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics))
}

fn systems() -> Vec<Schema> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    let mut systems = Vec::new();
    for name in ["keiba", "lunch", "shops", "tdnet", "weather"] {
        let text = std::fs::read_to_string(directory.join(format!("{name}.larder"))).unwrap();
        let loaded = Schema::load(name, &text, &mut NoFiles, &Environment::new());
        systems.push(loaded.schema.unwrap());
    }
    systems
}

#[test]
fn every_entity_of_the_five_systems_has_samples() {
    for schema in systems() {
        for entity in schema.tables.iter().flat_map(|table| &table.entities) {
            for seed in [0, 1, u64::MAX] {
                let mut sampler = Sampler::new(&schema, &entity.name, seed).unwrap();
                for _ in 0..100 {
                    let fields =
                        sampler.sample().unwrap_or_else(|error| panic!("{}: {error}", schema.system));
                    assert_eq!(schema.violations(entity, &fields), []);
                    for lifecycle in &entity.lifecycles {
                        let set = lifecycle.transitions.iter().flat_map(|transition| &transition.set);
                        assert!(set.into_iter().all(|(name, _)| !fields.contains_key(name)));
                    }
                }
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_records() {
    let lunch = systems().swap_remove(1);
    let made = |seed| {
        let mut sampler = Sampler::new(&lunch, "Menu", seed).unwrap();
        (0..20).map(|_| sampler.sample().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(made(7), made(7));
    assert_ne!(made(7), made(8));
}

#[test]
fn records_of_two_entities_that_share_a_field_belong_together() {
    let keiba = systems().swap_remove(0);
    let horses = |entity: &str| {
        let mut sampler = Sampler::new(&keiba, entity, 1).unwrap();
        (0..50).map(|_| sampler.sample().unwrap()["horse_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(horses("HorseResults"), horses("HorseParents"));
}

#[test]
fn what_is_inside_a_record_is_of_the_record() {
    let schema =
        schema("    input id: string nonempty\n    week: int in 1..=53\n    inner: [Inner] nonempty");
    let mut sampler = Sampler::new(&schema, "E", 3).unwrap();
    for _ in 0..20 {
        let fields = sampler.sample().unwrap();
        let Value::List(inner) = &fields["inner"] else { panic!("a list was made") };
        for one in inner {
            let Value::Map(map) = one else { panic!("a map was made") };
            assert_eq!(map["week"], fields["week"]);
        }
    }
}

#[test]
fn every_type_and_check_has_samples() {
    for field in [
        "a: string match /[A-Z]{2}-[0-9]{3,5}(x|yz)?\\.[^a-z]+/",
        "a: string len 20..=30",
        "a: string len ..=2",
        "a: string upper nonempty",
        "a: int in -3..=-1",
        "a: int in 5_000_000..",
        "a: float in 0.001..0.002",
        "a: decimal positive",
        "a: decimal in 0.5..=0.5",
        "a: bool",
        "a: bytes len 3..=3",
        "a: json",
        "a: uuid v4",
        "a: url lower",
        "a: date",
        "a: datetime",
        "a: instant us",
        "a: epoch",
        "a: duration in 5s..=1h",
        "a: [int] len 2..=3",
        "a: [[string]]",
        "a: \"x\" | \"y\"",
        "a: Inner",
    ] {
        let schema = schema(&format!("    input id: int in 1..\n    {field}"));
        let mut sampler = Sampler::new(&schema, "E", 5).unwrap();
        for _ in 0..50 {
            if let Err(error) = sampler.sample() {
                panic!("{field}: {error}");
            }
        }
    }
}

#[test]
fn a_check_that_cannot_be_met_is_named() {
    for (field, told) in [
        (r"a: string match /\bx\b/", r"E.a: no sample was found in 64 tries: must match /\bx\b/"),
        ("a: string match /[a-z]+/ upper", "E.a: no sample was found in 64 tries: must match /[a-z]+/"),
    ] {
        let schema = schema(&format!("    input id: int in 1..\n    {field}"));
        let error = Sampler::new(&schema, "E", 5).unwrap().sample().unwrap_err().to_string();
        assert_eq!(error, told);
    }
    let few = schema("    input id: int in 1..=3");
    let mut sampler = Sampler::new(&few, "E", 5).unwrap();
    let made: Vec<_> = (0..4).map(|_| sampler.sample()).collect();
    assert!(made[..3].iter().all(Result::is_ok));
    let error = made[3].as_ref().unwrap_err().to_string();
    assert_eq!(error, "E: no sample was found in 64 tries: no other key than those of the first 3");
}

#[test]
fn a_pattern_it_does_not_know_is_no_sample() {
    let mut random = Random(1);
    for pattern in [r"(?i)a", r"\bx", "(a", "a)", "[a", "*", "a{2,1}", r"\p{L}", "[[:alpha:]]"] {
        assert_eq!(pattern::matching(pattern, &mut random), None, "{pattern}");
    }
    for pattern in ["", "a|b", "^x$", "[]a]", r"[\d\-]{4}", "(?:ab)+?", r"\.\*"] {
        let text = pattern::matching(pattern, &mut random).unwrap();
        let regex = regex_lite::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        assert!(regex.is_match(&text), "{pattern}: {text}");
    }
}
