//! The five systems: without a warning, formatted, short, quick; and the keys their documents give.

use std::collections::BTreeMap;
use std::path::Path;

use larder_model::{KeyType, Projection};
use larder_schema::jiff::{Timestamp, civil::date};
use larder_schema::schema::{KeySource, Pitr, Ttl};
use larder_schema::{
    Colour, Entity, Environment, Expr, Fields, NoFiles, Part, Schema, Scope, Template, Value, emit, format,
    render_all,
};
use proptest::prelude::*;

const SYSTEMS: [&str; 5] = ["keiba", "lunch", "shops", "tdnet", "weather"];

fn text(system: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{system}.larder"));
    std::fs::read_to_string(path).expect("the five systems are in schemas/")
}

fn load(system: &str) -> Schema {
    let loaded = Schema::load(&format!("{system}.larder"), &text(system), &mut NoFiles, &Environment::new());
    let shown = render_all(&loaded.diagnostics, &loaded.files, Colour::Plain);
    assert!(loaded.diagnostics.is_empty(), "{shown}");
    loaded.schema.expect("no diagnostics")
}

fn entity(system: &str, name: &str) -> Entity {
    load(system).entity(name).expect("declared").1.clone()
}

fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Fields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a timestamp")
}

/// The key an entity gives these fields.
fn key<const N: usize>(system: &str, name: &str, given: [(&str, Value); N]) -> String {
    let entity = entity(system, name);
    let mut fields = fields(given);
    entity.compute(&mut fields, at("2025-01-01T00:00:00Z"), true);
    let (partition, sort) = entity.key(&fields).expect("all fields are given");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    sort.map_or_else(|| text(&partition), |sort| format!("{} / {}", text(&partition), text(&sort)))
}

fn computed<const N: usize>(
    system: &str,
    name: &str,
    field: &str,
    given: [(&str, Value); N],
) -> Option<Value> {
    let mut fields = fields(given);
    entity(system, name).compute(&mut fields, at("2025-01-01T00:00:00Z"), true);
    fields.remove(field)
}

#[test]
fn the_five_systems_are_short_formatted_and_without_a_warning() {
    for system in SYSTEMS {
        load(system);
        let text = text(system);
        assert!(text.lines().count() < 100, "{system}");
        assert_eq!(format(&text), text, "{system}");
    }
}

#[test]
fn k1_keys_of_races_horses_jockeys_and_days() {
    assert_eq!(key("keiba", "Race", [("race_id", "202405021211".into())]), "RACE#202405021211 / METADATA");
    assert_eq!(key("keiba", "HorseResults", [("horse_id", "2019".into())]), "HORSE#2019 / RESULTS");
    assert_eq!(key("keiba", "HorseParents", [("horse_id", "2019".into())]), "HORSE#2019 / PARENT");
    assert_eq!(key("keiba", "Jockey", [("jockey_id", "05339".into())]), "JOCKEY#05339 / STATS");
    assert_eq!(key("keiba", "RaceDay", [("date", Value::Date(date(2024, 5, 2)))]), "DATE#20240502 / RACES");
}

#[test]
fn k3_lives_of_a_week_and_of_a_day() {
    for (name, days) in [("Race", 7), ("HorseResults", 7), ("HorseParents", 7), ("Jockey", 7), ("RaceDay", 1)]
    {
        assert_eq!(entity("keiba", name).ttl, Some(Ttl::After { millis: days * 86_400_000 }), "{name}");
    }
}

#[test]
fn k8_k9_the_table_is_named_by_the_environment_and_paid_by_request() {
    let schema = load("keiba");
    let setup = schema.tables(&Environment::new()).expect("defaults fit").remove(0);
    assert_eq!(setup.definition.name.as_str(), "keiba_data");
    assert_eq!(setup.definition.billing, larder_model::Billing::OnDemand);
    assert_eq!(setup.ttl_attribute.as_deref(), Some("ttl"));
    assert_eq!(setup.definition.key.partition[0].name, "PK");
    let environment = Environment::from([("KEIBA_TABLE_NAME".to_owned(), "other".to_owned())]);
    assert_eq!(schema.tables(&environment).expect("a name")[0].definition.name.as_str(), "other");
    let environment = Environment::from([("KEIBA_TABLE_NAME".to_owned(), "a/b".to_owned())]);
    assert!(schema.tables(&environment).is_err());
}

fn disclosure() -> [(&'static str, Value); 3] {
    [
        ("disclosed_at", Value::Instant(at("2024-01-31T15:00:00Z"))),
        ("company_code", "7203".into()),
        ("seq", 1.into()),
    ]
}

#[test]
fn t3_a_disclosure_is_named_by_its_day_in_tokyo() {
    assert_eq!(key("tdnet", "Disclosure", disclosure()), "20240201_7203_001");
}

#[test]
fn t4_the_month_is_that_of_tokyo() {
    assert_eq!(computed("tdnet", "Disclosure", "date_partition", disclosure()), Some("2024-02".into()));
}

#[test]
fn t1_t10_three_tables_of_one_stage_kept_safe() {
    let schema = load("tdnet");
    let environment = Environment::from([("ENV".to_owned(), "prod".to_owned())]);
    let setups = schema.tables(&environment).expect("a stage");
    let names: Vec<&str> = setups.iter().map(|setup| setup.definition.name.as_str()).collect();
    assert_eq!(names, ["tdnet_disclosures_prod", "tdnet_executions_prod", "tdnet_export_status_prod"]);
    for setup in &setups {
        assert_eq!(setup.pitr, Some(Pitr { days: 35 }));
        assert!(setup.definition.deletion_protection && setup.definition.encryption.is_some());
    }
    let index = setups[1].definition.index("GSI_Status_StartedAt").expect("declared");
    assert_eq!(index.projection, Projection::All);
    assert_eq!(setups[1].definition.attribute("status"), Some(KeyType::S));
}

#[test]
fn w1_forecasts_of_one_hour_share_a_key() {
    let key_at = |time: &str| {
        key(
            "weather",
            "Forecast",
            [
                ("lat", Value::Float(-22.7572)),
                ("lon", Value::Float(-49.9439)),
                ("at", Value::Instant(at(time))),
            ],
        )
    };
    for time in ["2025-11-26T15:23:45Z", "2025-11-26T15:47:12Z", "2025-11-26T15:00:00Z"] {
        assert_eq!(key_at(time), "weather_-22.7572_-49.9439_1764169200");
    }
}

#[test]
fn w1_minus_zero_is_zero() {
    let time = || ("at", Value::Instant(at("1970-01-01T00:30:00Z")));
    for (lat, lon) in [(-0.0, 0.0), (-0.00001, -0.00004), (0.0, -0.0)] {
        let key =
            key("weather", "Forecast", [("lat", Value::Float(lat)), ("lon", Value::Float(lon)), time()]);
        assert_eq!(key, "weather_0.0000_0.0000_0");
    }
}

#[test]
fn w2_the_life_of_a_forecast_is_three_hours_or_what_the_environment_says() {
    let schema = load("weather");
    let (_, forecast) = schema.entity("Forecast").expect("declared");
    assert_eq!(forecast.ttl, Some(Ttl::Param("cache_ttl".into())));
    let hours = |environment: &Environment| schema.param("cache_ttl").expect("declared").value(environment);
    let duration = |hours: i64| Ok(Value::Duration(larder_schema::jiff::SignedDuration::from_hours(hours)));
    assert_eq!(hours(&Environment::new()), duration(3));
    assert_eq!(hours(&Environment::from([("CACHE_TTL_HOURS".to_owned(), "6".to_owned())])), duration(6));
    assert!(hours(&Environment::from([("CACHE_TTL_HOURS".to_owned(), "soon".to_owned())])).is_err());
}

#[test]
fn w8_stored_names_are_in_camel_case() {
    let schema = load("weather");
    let setup = schema.tables(&Environment::new()).expect("defaults fit").remove(0);
    assert_eq!(setup.definition.name.as_str(), "weather-forecast-cache-prod");
    assert_eq!(setup.definition.key.partition[0].name, "cacheKey");
    assert_eq!(setup.definition.tags.get("Environment").map(String::as_str), Some("prod"));
    let (_, forecast) = schema.entity("Forecast").expect("declared");
    let created = forecast.field("created_at").expect("declared");
    assert_eq!(created.attribute, "createdAt");
    let moment = Value::Instant(at("2025-11-26T15:12:34.56789Z"));
    let stored = moment.to_attribute(&created.kind).expect("an instant");
    assert_eq!(stored.as_str(), Some("2025-11-26T15:12:34.567890Z"));
    let weather = schema.type_definition("Weather").expect("declared");
    assert!(weather.fields.iter().any(|field| field.attribute == "rainfallIntensity"));
}

#[test]
fn s1_a_shop_and_its_pages_share_a_partition() {
    assert_eq!(key("shops", "Shop", [("domain", "example.com".into())]), "SHOP#example.com / META#");
    let url = "https://example.com/products/item-123";
    let page = key("shops", "Page", [("domain", "example.com".into()), ("url", url.into())]);
    assert_eq!(page, format!("SHOP#example.com / URL#{url}"));
}

#[test]
fn s2_the_core_domain_name_is_the_label_before_the_public_suffix() {
    for (domain, core) in [
        ("www.example.co.uk", Some("example")),
        ("example.com", Some("example")),
        ("shop.muenchen.de", Some("muenchen")),
        ("co.uk", None),
        ("192.168.0.1", None),
        ("10.0.0.1:8080", None),
        ("[::1]:8080", None),
        ("::1", None),
        ("www.example.co.uk:8080", Some("example")),
        ("[2001:db8::1]", None),
    ] {
        let found = computed("shops", "Shop", "core_domain_name", [("domain", domain.into())]);
        assert_eq!(found, core.map(Value::from), "{domain}");
    }
}

#[test]
fn s3_a_country_is_stored_with_its_prefix_and_read_back_without() {
    let given = || [("domain", Value::from("a.de")), ("country", "DE".into())];
    assert_eq!(computed("shops", "Shop", "shop_country", given()), Some("COUNTRY#DE".into()));
    assert_eq!(computed("shops", "Shop", "gsi2_pk", given()), Some("COUNTRY#DE".into()));
    assert_eq!(
        computed("shops", "Shop", "gsi2_pk", [("domain", "a.de".into())]),
        None,
        "and so the index is sparse"
    );
    let shop = entity("shops", "Shop");
    let Some(Expr::Template(template)) = &shop.field("shop_country").expect("declared").equation else {
        panic!()
    };
    assert_eq!(template.read("COUNTRY#DE").expect("ours").fields, fields([("country", "DE".into())]));
}

#[test]
fn s4_the_hash_is_of_status_and_price() {
    let hash = |given: Vec<(&str, Value)>| {
        let mut fields: Fields = given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        entity("shops", "Page").compute(&mut fields, at("2025-01-01T00:00:00Z"), true);
        fields.remove("hash").and_then(|hash| hash.as_str().map(str::to_owned))
    };
    let both = hash(vec![("status", "200".into()), ("price", "9.99".into())]).expect("both are there");
    assert_eq!(both, "be7df79d43769a4ccb033bf5b1f2755a3a6279306489f3f14262ac8d3f07b319");
    assert_ne!(Some(both), hash(vec![("status", "200".into())]));
    assert_eq!(hash(vec![]), None);
}

#[test]
fn s6_states_are_written_as_the_index_wants_them() {
    let shop = entity("shops", "Shop");
    let crawl = shop.lifecycle("crawl").expect("declared");
    assert_eq!(crawl.attribute, "gsi2_sk");
    let started = fields([("last_crawled_start", Value::Instant(at("2026-01-15T10:00:00Z")))]);
    let texts: Vec<String> =
        crawl.states.iter().filter_map(|state| state.template.build(&started).ok()).collect();
    assert_eq!(texts, ["NEVER#", "PROGRESS#2026-01-15T10:00:00Z"]);
    let lease = crawl.lease.as_ref().expect("progress has one");
    assert_eq!((lease.owner.as_str(), lease.until.as_str()), ("crawl_owner", "crawl_until"));
}

#[test]
fn s9_a_shop_is_ready_when_it_was_crawled_since_its_last_scrape() {
    let shop = entity("shops", "Shop");
    let ready = shop.lifecycle("scrape").and_then(|scrape| scrape.ready.clone()).expect("declared");
    let moment = |text: &str| Value::Instant(at(text));
    let cases = [
        (vec![], false),
        (vec![("last_crawled_end", moment("2026-01-02T00:00:00Z"))], true),
        (vec![("last_scraped_end", moment("2026-01-02T00:00:00Z"))], false),
        (
            vec![
                ("last_crawled_end", moment("2026-01-02T00:00:00Z")),
                ("last_scraped_end", moment("2026-01-01T00:00:00Z")),
            ],
            true,
        ),
        (
            vec![
                ("last_crawled_end", moment("2026-01-01T00:00:00Z")),
                ("last_scraped_end", moment("2026-01-02T00:00:00Z")),
            ],
            false,
        ),
    ];
    for (given, expected) in cases {
        let fields: Fields = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        assert_eq!(
            ready.holds(Scope { fields: &fields, now: at("2026-02-01T00:00:00Z") }),
            expected,
            "{given:?}"
        );
    }
}

#[test]
fn s10_a_url_too_long_for_a_sort_key_has_a_key_of_its_own() {
    let page = entity("shops", "Page");
    let Some(KeySource::Template(template)) = &page.sort else { panic!("it has a sort key") };
    let url = |tail: &str| format!("https://example.com/{}{tail}", "ä".repeat(600));
    let one = template.build(&fields([("url", url("1").as_str().into())])).expect("fits");
    let other = template.build(&fields([("url", url("2").as_str().into())])).expect("fits");
    assert!(one != other && one.len() <= 1024 && one.len() > 1020, "{}", one.len());
    let reading = template.read(&one).expect("ours");
    assert_eq!((reading.digested.as_deref(), reading.fields.len()), (Some("url"), 0));
    // A short URL that looks like a digest is not one, and a long one that ends like a digest is digested again.
    let looks = format!("https://e.com/~{}", "a".repeat(64));
    let key = template.build(&fields([("url", looks.as_str().into())])).expect("fits");
    assert_eq!(template.read(&key).expect("ours").fields, fields([("url", looks.as_str().into())]));
    let exact = format!("{}~{}", "x".repeat(1024 - 4 - 65), "a".repeat(64));
    let key = template.build(&fields([("url", exact.as_str().into())])).expect("fits");
    assert_ne!(key, format!("URL#{exact}"));
    assert_eq!(template.read(&key).expect("ours").digested.as_deref(), Some("url"));
}

#[test]
fn l1_a_menu_is_named_by_restaurant_year_and_week() {
    let menu = |restaurant: &str| {
        key("lunch", "Menu", [("restaurant", restaurant.into()), ("year", 2025.into()), ("week", 3.into())])
    };
    assert_eq!(menu("niagara"), "niagara-2025-03");
    let entity = entity("lunch", "Menu");
    let KeySource::Template(template) = &entity.partition else { panic!("it has a template") };
    let read = template.read("a-1-2025-03").expect("ours").fields;
    assert_eq!(read, fields([("restaurant", "a-1".into()), ("year", 2025.into()), ("week", 3.into())]));
    for other in ["niagara-2025-3", "niagara-25-03", "Niagara-2025-03", "2025-03", "niagara-2025-003"] {
        assert!(template.read(other).is_none(), "{other}");
    }
}

#[test]
fn l1_a_week_computed_from_a_date_is_iso_and_so_is_its_year() {
    let schema = r#"
system s
table things {
  key pk
  entity Menu {
    key "{year}-{week:02}"
    input day: date
    let week = day.iso_week()
    let year = day.iso_year()
  }
}
"#;
    let loaded = Schema::load("s.larder", schema, &mut NoFiles, &Environment::new());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    let schema = loaded.schema.expect("no diagnostics");
    let (_, menu) = schema.entity("Menu").expect("declared");
    for (day, expected) in
        [(date(2024, 12, 30), "2025-01"), (date(2021, 1, 1), "2020-53"), (date(2025, 6, 1), "2025-22")]
    {
        let mut fields = fields([("day", Value::Date(day))]);
        menu.compute(&mut fields, at("2025-01-01T00:00:00Z"), true);
        assert_eq!(menu.key(&fields).expect("given").0, expected.into());
    }
}

#[test]
fn l3_l7_l8_lunches_are_counted_kept_a_fortnight_and_restorable() {
    let lunches = Value::List(vec![Value::Bool(true), Value::Bool(true)]);
    assert_eq!(computed("lunch", "Menu", "lunch_count", [("lunches", lunches)]), Some(2.into()));
    assert_eq!(entity("lunch", "Menu").ttl, Some(Ttl::After { millis: 14 * 86_400_000 }));
    let setup = load("lunch").tables(&Environment::new()).expect("defaults fit").remove(0);
    assert_eq!((setup.pitr, setup.region.as_deref()), (Some(Pitr { days: 35 }), Some("eu-west-1")));
    assert_eq!(setup.definition.name.as_str(), "lunch-cache-dev");
    assert_eq!(setup.definition.indexes[0].key.sort[0].name, "cachedAt");
}

/// Every template of the five systems: keys, equations and states.
fn templates() -> Vec<(String, Template)> {
    let mut all = Vec::new();
    for system in SYSTEMS {
        for table in load(system).tables {
            for entity in table.entities {
                let keys = [Some(&entity.partition), entity.sort.as_ref()].into_iter().flatten();
                all.extend(keys.filter_map(|source| match source {
                    KeySource::Template(template) => Some((format!("{}.key", entity.name), template.clone())),
                    KeySource::Field(_) => None,
                }));
                all.extend(entity.fields.iter().filter_map(|field| match &field.equation {
                    Some(Expr::Template(template)) => {
                        Some((format!("{}.{}", entity.name, field.name), template.clone()))
                    }
                    _ => None,
                }));
                for lifecycle in &entity.lifecycles {
                    let states = lifecycle.states.iter();
                    all.extend(
                        states
                            .map(|state| (format!("{}.{}", entity.name, state.name), state.template.clone())),
                    );
                }
            }
        }
    }
    all
}

/// A value for a hole, drawn from four random numbers and a text.
fn drawn(hole: &larder_schema::Hole, seed: (i64, i64, f64, &str)) -> Value {
    use larder_schema::Type;
    let (a, b, c, text) = seed;
    let moment = Timestamp::from_second(a.rem_euclid(4_000_000_000)).expect("in range");
    match &hole.kind {
        Type::Int if hole.shape.min == 4 => Value::from(2000 + a.rem_euclid(1000)),
        Type::Int => Value::from(1 + a.rem_euclid(53)),
        Type::Sequence => Value::from(1 + b.rem_euclid(999)),
        // What four decimals can hold: anything else is rounded to it.
        Type::Float => Value::Float(format!("{:.4}", c % 90.0 + 0.0).parse::<f64>().expect("a number") + 0.0),
        Type::Instant(_) => Value::Instant(moment),
        Type::Date => Value::Date(moment.to_zoned(larder_schema::jiff::tz::TimeZone::UTC).date()),
        Type::Zoned => Value::Zoned(moment.in_tz("Asia/Tokyo").expect("known")),
        _ if hole.shape.chars.contains('a') => {
            let lower: String =
                text.to_lowercase().chars().filter(|c| hole.shape.chars.contains(*c)).collect();
            Value::from(format!("x{lower}").as_str())
        }
        _ if hole.shape.chars.contains('0') => Value::from(format!("{:04}", b.rem_euclid(10_000)).as_str()),
        _ => Value::from("DE"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_template_of_the_five_systems_reads_back_what_it_built(
        a in any::<i64>(), b in any::<i64>(), c in -1e6f64..1e6, text in "\\PC{0,40}",
    ) {
        for (name, template) in templates_once() {
            let given: Fields = template.holes().map(|hole| (hole.field.clone(), drawn(hole, (a, b, c, &text)))).collect();
            let key = template.build(&given).unwrap_or_else(|error| panic!("{name}: {error} {given:?}"));
            let reading = template.read(&key).unwrap_or_else(|| panic!("{name} does not read {key}"));
            prop_assert_eq!(template.build(&reading.fields).expect("read from a key"), key.clone(), "{}", name);
            for (field, value) in &given {
                let zoned = matches!(value, Value::Zoned(_));
                if !zoned {
                    prop_assert_eq!(reading.fields.get(field), Some(value), "{} in {}", field, key);
                }
            }
        }
    }

    #[test]
    fn a_template_reads_only_what_it_would_build(key in "\\PC{0,60}", at in 0usize..40, cut in 0usize..20) {
        for (name, template) in templates_once() {
            let near: String = template.example().chars().enumerate()
                .map(|(n, c)| if n == at { key.chars().next().unwrap_or(c) } else { c })
                .take(template.example().chars().count().saturating_sub(cut % 3))
                .collect();
            for key in [key.as_str(), near.as_str()] {
                if let Some(reading) = template.read(key) {
                    prop_assert_eq!(template.build(&reading.fields).expect("read from a key"), key, "{}", name);
                }
            }
        }
    }
}

fn templates_once() -> &'static [(String, Template)] {
    static ALL: std::sync::OnceLock<Vec<(String, Template)>> = std::sync::OnceLock::new();
    ALL.get_or_init(templates)
}

#[test]
fn all_templates_are_seen() {
    let names: Vec<String> = templates_once().iter().map(|(name, _)| name.clone()).collect();
    assert!(names.len() >= 20, "{names:?}");
    for (name, template) in templates_once() {
        let readable = template.ambiguity().is_none();
        assert!(readable, "{name}");
        let example = template.example();
        let holes = template.parts.iter().any(|part| matches!(part, Part::Hole(_)));
        assert!(!holes || template.read(&example).is_some(), "{name}: {example}");
    }
}

#[test]
fn canonical_json_is_the_same_for_the_formatted_text() {
    for system in SYSTEMS {
        let spread = text(system).replace("  ", " ").replace('\n', "\n\n");
        let loaded = Schema::load("x.larder", &spread, &mut NoFiles, &Environment::new());
        let schema = loaded
            .schema
            .unwrap_or_else(|| panic!("{}", render_all(&loaded.diagnostics, &loaded.files, Colour::Plain)));
        assert_eq!(emit::json(&schema), emit::json(&load(system)), "{system}");
    }
}

#[test]
fn documentation_is_written_for_every_system() {
    for system in SYSTEMS {
        insta::assert_snapshot!(format!("docs_{system}"), emit::docs(&load(system)));
    }
}

#[test]
fn canonical_json_of_the_lunches() {
    let json = serde_json::to_string_pretty(&emit::json(&load("lunch"))).expect("json");
    insta::assert_snapshot!("json_lunch", json);
}

#[test]
fn included_files_are_part_of_the_schema() {
    let mut files = BTreeMap::from([
        ("types.larder".to_owned(), "include \"more.larder\"\ntype Place { town: Town }".to_owned()),
        ("more.larder".to_owned(), "include \"types.larder\"\ntype Town { name: string }".to_owned()),
    ]);
    let text = "system s\ninclude \"types.larder\"\ntable ttt {\n key pk\n entity E {\n pk: string nonempty\n place: Place\n }\n}\n";
    let loaded = Schema::load("s.larder", text, &mut files, &Environment::new());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    assert_eq!(loaded.files.len(), 3);
    assert_eq!(loaded.schema.expect("no diagnostics").types.len(), 2);
}

/// Writes a record as an item, finds out what it is, and reads it back.
fn round_trip<const N: usize>(
    system: &str,
    name: &str,
    given: [(&str, Value); N],
) -> (larder_model::Item, Fields) {
    let schema = load(system);
    let (table, entity) = schema.entity(name).expect("declared");
    let mut fields = fields(given);
    entity.compute(&mut fields, at("2025-01-01T00:00:00Z"), true);
    let item = schema.write_item(table, entity, &fields).expect("all values fit");
    assert_eq!(schema.entity_of(table, &item).map(|entity| entity.name.as_str()), Some(name));
    let read = schema.read_item(table, entity, &item).expect("we wrote it");
    (item, read)
}

#[test]
fn an_item_tells_what_it_is_and_gives_its_inputs_back() {
    let shop = [("domain", Value::from("www.example.co.uk")), ("country", "DE".into())];
    let (item, read) = round_trip("shops", "Shop", shop);
    assert_eq!(item.get("gsi2_pk").and_then(|value| value.as_str()), Some("COUNTRY#DE"));
    assert_eq!(read.get("country"), Some(&"DE".into()));
    assert_eq!(read.get("core_domain_name"), Some(&"example".into()));
    let (item, read) = round_trip("keiba", "RaceDay", [("date", Value::Date(date(2024, 5, 2)))]);
    assert_eq!(item.get("fetched_at"), Some(&1_735_689_600.into()));
    assert_eq!(read.get("date"), Some(&Value::Date(date(2024, 5, 2))));
    let (item, read) = round_trip("tdnet", "Disclosure", disclosure());
    assert_eq!(item.get("date_partition").and_then(|value| value.as_str()), Some("2024-02"));
    assert_eq!(read.get("seq"), Some(&1.into()));
    let weather: BTreeMap<String, Value> = [
        ("temperature".to_owned(), Value::Float(28.3)),
        ("humidity".to_owned(), Value::Float(60.0)),
        ("windSpeed".to_owned(), Value::Float(12.5)),
        ("rainfallIntensity".to_owned(), Value::Float(0.0)),
        ("weatherDescription".to_owned(), "Parcialmente nublado".into()),
        ("timestamp".to_owned(), Value::Datetime(date(2025, 11, 26).at(15, 0, 0, 0))),
    ]
    .into();
    let forecast = [
        ("lat", Value::Float(-22.7572)),
        ("lon", Value::Float(-49.9439)),
        ("at", Value::Instant(at("2025-11-26T15:23:45Z"))),
        ("data", Value::Map(weather.clone())),
    ];
    let (item, read) = round_trip("weather", "Forecast", forecast);
    assert_eq!(item.names().collect::<Vec<_>>(), ["cacheKey", "createdAt", "data"]);
    assert_eq!(read.get("data"), Some(&Value::Map(weather)));
    assert_eq!(read.get("lat"), Some(&Value::Float(-22.7572)));
}

#[test]
fn s6_an_item_tells_its_state() {
    let shop = entity("shops", "Shop");
    let crawl = shop.lifecycle("crawl").expect("declared");
    let item = |text: &str| [("gsi2_sk", larder_model::AttributeValue::from(text))].into_iter().collect();
    for (text, state) in [
        ("NEVER#", Some("never")),
        ("PROGRESS#2026-01-15T10:00:00Z", Some("progress")),
        ("DONE#2026-01-15T12:00:00Z", Some("done")),
        ("DONE#yesterday", None),
    ] {
        assert_eq!(crawl.state_of(&item(text)).map(|state| state.name.as_str()), state, "{text}");
    }
}

#[test]
fn l2_lunches_are_checked() {
    let schema = load("lunch");
    let (_, menu) = schema.entity("Menu").expect("declared");
    let lunch = |price: i64, weekday: &str| {
        Value::Map(
            [
                ("name", "K\u{f6}ttbullar".into()),
                ("price", price.into()),
                ("weekday", weekday.into()),
                ("week", 3.into()),
                ("place", "Niagara".into()),
            ]
            .map(|(name, value): (&str, Value)| (name.to_owned(), value))
            .into(),
        )
    };
    let record = |lunches: Vec<Value>| {
        fields([
            ("restaurant", "niagara".into()),
            ("year", 2025.into()),
            ("week", 3.into()),
            ("lunches", Value::List(lunches)),
        ])
    };
    assert_eq!(schema.violations(menu, &record(vec![lunch(125, "m\u{e5}ndag")])), []);
    let found = schema.violations(menu, &record(vec![lunch(125, "m\u{e5}ndag"), lunch(0, "monday")]));
    let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(paths, ["Menu.lunches[1].price", "Menu.lunches[1].weekday"]);
}

/// The codes that a fixture gets.
fn codes(fixture: &str) -> Vec<&'static str> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{fixture}.larder"));
    let text = std::fs::read_to_string(path).expect("the fixture is there");
    let loaded = Schema::load(fixture, &text, &mut NoFiles, &Environment::new());
    loaded.diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

#[test]
fn t12_check_warns_of_hot_index_keys_and_of_indexes_that_nothing_is_in() {
    assert!(codes("L0504.invalid").contains(&"L0504"));
    assert!(codes("L0505.invalid").contains(&"L0505"));
    let hot = text("tdnet").replace("project all  hot", "project all");
    let loaded = Schema::load("tdnet.larder", &hot, &mut NoFiles, &Environment::new());
    let found: Vec<&str> = loaded.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(found, ["L0504", "L0504"], "four states are four partitions");
}

#[test]
fn w14_check_warns_of_scans_on_hot_paths_and_of_secrets_in_cached_values() {
    assert!(codes("L0507.invalid").contains(&"L0507"));
    assert!(codes("L0508.invalid").contains(&"L0508"));
}
