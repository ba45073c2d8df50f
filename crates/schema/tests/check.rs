//! Whole items against their schema: what each rule says of an item that breaks it, and that nothing is said of others.

use std::path::Path;
use std::sync::Arc;

use larder_model::{AttributeValue, Item, UnixTime};
use larder_schema::{Checker, Environment, NoFiles, Schema, ViolationFault};
use serde_json::{Value as Json, json};

/// 2026-01-15T10:00:00Z
const NOW: i64 = 1_768_471_200;
const DAY: i64 = 86_400;

fn text(system: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{system}.larder"));
    std::fs::read_to_string(path).ok()
}

fn checker(system: &str, table: &str) -> Checker {
    let text = text(system).expect("the five systems are in schemas/");
    of_text(&format!("{system}.larder"), &text, table)
}

fn of_text(name: &str, text: &str, table: &str) -> Checker {
    let loaded = Schema::load(name, text, &mut NoFiles, &Environment::new());
    let schema = loaded.schema.unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics));
    Checker::new(Arc::new(schema), table, &loaded.files).expect("there is such a table")
}

fn value(json: &Json) -> AttributeValue {
    match json {
        Json::Null => AttributeValue::Null,
        Json::Bool(value) => AttributeValue::Bool(*value),
        Json::Number(number) => AttributeValue::N(number.to_string().parse().expect("a number")),
        Json::String(text) => match text.strip_prefix("bytes:") {
            Some(bytes) => AttributeValue::B(bytes.as_bytes().to_vec()),
            None => AttributeValue::S(text.clone()),
        },
        Json::Array(list) => AttributeValue::L(list.iter().map(value).collect()),
        Json::Object(members) => match members.get("set").and_then(Json::as_array) {
            Some(members) => set(members),
            None => AttributeValue::M(item(json)),
        },
    }
}

/// The set of some texts or numbers.
fn set(members: &[Json]) -> AttributeValue {
    let texts = members.iter().map(|member| member.as_str().map(str::to_owned));
    match texts.collect::<Option<Vec<_>>>() {
        Some(texts) => AttributeValue::Ss(texts.into_iter().collect()),
        None => {
            let number = |member: &Json| member.to_string().parse().expect("a number");
            AttributeValue::Ns(members.iter().map(number).collect())
        }
    }
}

fn item(json: &Json) -> Item {
    let members = json.as_object().expect("an object");
    members.iter().map(|(name, member)| (name.clone(), value(member))).collect()
}

/// The item with some attributes set, and those that are given as `"-"` left out.
fn with(json: &Json, changes: &Json) -> Json {
    let mut changed = json.clone();
    let members = changed.as_object_mut().expect("an object");
    for (name, value) in changes.as_object().expect("an object") {
        match value {
            Json::String(text) if text == "-" => drop(members.remove(name)),
            value => drop(members.insert(name.clone(), value.clone())),
        }
    }
    changed
}

fn broken(checker: &Checker, before: Option<&Json>, after: &Json) -> Vec<String> {
    let before = before.map(item);
    let found = checker.check(before.as_ref(), &item(after), UnixTime::from_seconds(NOW));
    let told = found.iter().map(|violation| {
        let (file, line) = checker.place(violation).and_then(|place| place.split_once(':')).expect("a place");
        let text = text(file.trim_end_matches(".larder")).unwrap_or_default();
        let line = text.lines().nth(line.parse::<usize>().expect("a line") - 1).unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().take(2).collect();
        format!("{}: {violation} at {}", violation.fault.name(), words.join(" "))
    });
    told.collect()
}

/// The base is right, and each change of it breaks exactly this; `at` is how the line begins where the rule stands.
fn check(checker: &Checker, base: &Json, cases: &[(Json, &[&str])]) {
    assert_eq!(broken(checker, None, base), [""; 0], "{base}");
    for (changes, expected) in cases {
        assert_eq!(broken(checker, None, &with(base, changes)), *expected, "{changes}");
    }
}

/// From one item to another, each right by itself.
fn check_step(checker: &Checker, before: &Json, after: &Json, expected: &[&str]) {
    for item in [before, after] {
        assert_eq!(broken(checker, None, item), [""; 0], "{item}");
    }
    assert_eq!(broken(checker, Some(before), after), expected, "{before} -> {after}");
}

fn disclosure() -> Json {
    json!({
        "disclosure_id": "20240201_7203_001",
        "company_code": "7203",
        "company_name": "Toyota",
        "disclosure_type": "earnings",
        "title": "Results",
        "disclosed_at": "2024-01-31T15:00:00Z",
        "downloaded_at": "2024-01-31T15:10:00Z",
        "date_partition": "2024-02",
    })
}

#[test]
fn disclosures_of_tdnet() {
    let checker = checker("tdnet", "disclosures");
    check(
        &checker,
        &disclosure(),
        &[
            (json!({"pdf_url": "https://x.jp/a.pdf", "pdf_s3_key": "a"}), &[]),
            (json!({"disclosed_at": "2024-01-31T15:00:00+00:00"}), &[]),
            (
                json!({"disclosure_id": "garbage"}),
                &[
                    "entity: disclosures.disclosure_id: must be a key of Disclosure (\"{jst:%Y%m%d}_{company_code}_{seq:03}\"), and it is \"garbage\" at table disclosures",
                ],
            ),
            (
                json!({"disclosure_id": "20240131_7203_001"}),
                &[
                    "equation: Disclosure.disclosure_id: must be \"{jst:%Y%m%d}_{company_code}_{seq:03}\", which is \"20240201_7203_001\", and it is \"20240131_7203_001\" at disclosure_id =",
                ],
            ),
            (
                json!({"disclosure_id": "20240201_7203_000"}),
                &["check: Disclosure.seq: must be in 1..=999, and it is 0 at input seq:"],
            ),
            (
                json!({"company_code": "72030"}),
                &[
                    "check: Disclosure.company_code: must match /[0-9]{4}/, and it is \"72030\" at company_code: string",
                ],
            ),
            (
                json!({"title": "-", "company_name": 7}),
                &[
                    "type: Disclosure.company_name: must be of type string, and it is 7 at company_name: string",
                    "required: Disclosure.title: is required, and it is missing at title: string",
                ],
            ),
            (
                json!({"title": ""}),
                &["check: Disclosure.title: must not be empty, and it is \"\" at title: string"],
            ),
            (
                json!({"downloaded_at": "yesterday"}),
                &[
                    "type: Disclosure.downloaded_at: must be of type instant such as 2026-01-15T10:00:00Z, and it is \"yesterday\" at downloaded_at: instant",
                ],
            ),
            (
                json!({"disclosed_at": "2024-01-31T15:00:00.5Z"}),
                &[
                    "check: Disclosure.disclosed_at: must be no finer than instant tells apart, and it is 2024-01-31T15:00:00.5Z at disclosed_at: instant",
                ],
            ),
            (
                json!({"pdf_url": "no url"}),
                &["type: Disclosure.pdf_url: must be of type url, and it is \"no url\" at pdf_url: url?"],
            ),
            (
                json!({"pdf_url": null}),
                &["type: Disclosure.pdf_url: must be of type url, and it is null at pdf_url: url?"],
            ),
            (
                json!({"date_partition": "2024-01"}),
                &[
                    "equation: Disclosure.date_partition: must be \"{jst:%Y-%m}\", which is \"2024-02\", and it is \"2024-01\" at date_partition =",
                ],
            ),
            (
                json!({"date_partition": "-"}),
                &[
                    "equation: Disclosure.date_partition: must be \"{jst:%Y-%m}\", which is \"2024-02\", and it is missing at date_partition =",
                ],
            ),
            (
                json!({"titel": "Results"}),
                &[
                    "unknown: Disclosure.titel: there is no such field, and the table is strict, and it is given at entity Disclosure",
                ],
            ),
        ],
    );
}

fn execution(status: &str) -> Json {
    json!({
        "execution_id": "7f9c24e8-3b12-4c1e-9f0a-52d7b6c0e1a4",
        "started_at": "2026-01-15T09:00:00Z",
        "progress": 0,
        "success_count": 0,
        "failed_count": 0,
        "status": status,
        "ttl": NOW + 30 * DAY,
    })
}

#[test]
fn executions_of_tdnet() {
    let checker = checker("tdnet", "executions");
    check(
        &checker,
        &execution("pending"),
        &[
            (json!({"progress": "-"}), &[]),
            (
                json!({"execution_id": "7F9C24E8-3B12-4C1E-9F0A-52D7B6C0E1A4"}),
                &[
                    "type: Execution.execution_id: must be of type uuid v4, and it is \"7F9C24E8-3B12-4C1E-9F0A-52D7B6C0E1A4\" at execution_id: uuid",
                ],
            ),
            (
                json!({"progress": 101}),
                &["check: Execution.progress: must be in 0..=100, and it is 101 at progress: int"],
            ),
            (
                json!({"progress": 0.5}),
                &["type: Execution.progress: must be of type int, and it is 0.5 at progress: int"],
            ),
            (
                json!({"started_at": "-"}),
                &["required: Execution.started_at: is required, and it is missing at started_at: instant"],
            ),
            (
                json!({"status": "done"}),
                &[
                    "state: Execution.status: must be \"pending\" or \"running\" or \"completed\" or \"failed\", and it is \"done\" at lifecycle status",
                ],
            ),
            (
                json!({"status": "-"}),
                &[
                    "state: Execution.status: must be \"pending\" or \"running\" or \"completed\" or \"failed\", and it is missing at lifecycle status",
                ],
            ),
            (json!({"ttl": "-"}), &["ttl: Execution.ttl: is required, and it is missing at ttl 30d"]),
            (
                json!({"ttl": "tomorrow"}),
                &[
                    "ttl: Execution.ttl: must be a whole number of Unix seconds, and it is \"tomorrow\" at ttl 30d",
                ],
            ),
            (
                json!({"ttl": (NOW + DAY) * 1000}),
                &[
                    "ttl: Execution.ttl: must be Unix seconds, no more than 30d after it was written, and it is 1768557600000 at ttl 30d",
                ],
            ),
        ],
    );
    let pending = execution("pending");
    let (running, completed) = (execution("running"), execution("completed"));
    for after in [&pending, &running, &execution("failed")] {
        check_step(&checker, &pending, after, &[]);
    }
    check_step(
        &checker,
        &pending,
        &completed,
        &[
            "transition: Execution.status: must stay pending or become running or failed, and it is completed at lifecycle status",
        ],
    );
    check_step(
        &checker,
        &completed,
        &running,
        &[
            "transition: Execution.status: must stay completed, which no transition leaves, and it is running at lifecycle status",
        ],
    );
    // What has ended is not there any more.
    check_step(&checker, &with(&completed, &json!({"ttl": NOW - DAY})), &pending, &[]);
}

#[test]
fn a_secret_is_not_shown() {
    let checker = checker("tdnet", "export_status");
    let base = json!({
        "export_id": "7f9c24e8-3b12-4c1e-9f0a-52d7b6c0e1a4",
        "requested_at": "2026-01-15T09:00:00Z",
        "status": "completed",
        "completed_at": "2026-01-15T09:30:00Z",
        "download_url": "https://s3/x?signature=abc",
        "ttl": NOW,
    });
    let expected =
        ["type: Export.download_url: must be of type url, and it is a secret at download_url: url?"];
    check(&checker, &base, &[(json!({"download_url": "signature abc"}), &expected)]);
}

fn shop() -> Json {
    json!({
        "pk": "SHOP#www.example.de",
        "sk": "META#",
        "domain": "www.example.de",
        "core_domain_name": "example",
        "shop_country": "COUNTRY#DE",
        "gsi2_pk": "COUNTRY#DE",
        "gsi2_sk": "NEVER#",
        "gsi3_pk": "COUNTRY#DE",
        "gsi3_sk": "NEVER#",
        "gsi4_pk": "example",
        "gsi4_sk": "www.example.de",
    })
}

fn crawling(owner: &str, until: i64, fence: i64) -> Json {
    let leased = json!({
        "gsi2_sk": "PROGRESS#2026-01-15T09:00:00Z",
        "last_crawled_start": "2026-01-15T09:00:00Z",
        "crawl_owner": owner,
        "crawl_until": until,
        "crawl_fence": fence,
        "crawl_attempts": 1,
        "larder_crawl_from": "never",
    });
    with(&shop(), &leased)
}

#[test]
fn shops_and_their_pages() {
    let checker = checker("shops", "data");
    check(
        &checker,
        &shop(),
        &[
            (json!({"shop_country": "-", "gsi2_pk": "-", "gsi3_pk": "-"}), &[]),
            (
                json!({"pk": "SHOP#other.de"}),
                &[
                    "key: Shop.pk: must be \"SHOP#{domain}\" of its fields, and it is \"SHOP#other.de\" at key \"SHOP#{domain}\"",
                ],
            ),
            (
                json!({"sk": "META"}),
                &[
                    "entity: data.pk: must be a key of Shop (\"SHOP#{domain}\" / \"META#\") or Page (\"SHOP#{domain}\" / \"URL#{url:fit}\"), and it is \"SHOP#www.example.de\" / \"META\" at table data",
                ],
            ),
            (
                json!({"domain": "WWW.example.de", "gsi4_sk": "WWW.example.de"}),
                &[
                    "check: Shop.domain: must be in lower case, and it is \"WWW.example.de\" at domain: string",
                    "key: Shop.pk: must be \"SHOP#{domain}\" of its fields, and it is \"SHOP#www.example.de\" at key \"SHOP#{domain}\"",
                ],
            ),
            (
                json!({"gsi4_pk": "exemple"}),
                &[
                    "equation: Shop.gsi4_pk: must be core_domain_name, which is \"example\", and it is \"exemple\" at gsi4_pk =",
                ],
            ),
            (
                json!({"gsi2_pk": "-"}),
                &[
                    "equation: Shop.gsi2_pk: must be shop_country, which is \"COUNTRY#DE\", and it is missing at gsi2_pk =",
                ],
            ),
            (
                json!({"gsi2_sk": "PROGRESS#2026-01-15T09:00:00Z"}),
                &[
                    "state: Shop.crawl (stored as gsi2_sk): must be \"PROGRESS#{last_crawled_start}\" of its fields, and it is \"PROGRESS#2026-01-15T09:00:00Z\" at lifecycle crawl",
                ],
            ),
            (
                json!({"gsi1_pk": "SHOP#www.example.de"}),
                &[
                    "unknown: Shop.gsi1_pk: must be left out, as Shop is not in index ProductTypeIndex, and it is given at entity Shop",
                ],
            ),
            (
                json!({"crawl_fence": "one"}),
                &[
                    "lease: Shop.crawl (stored as crawl_fence): must be a whole number, and it is \"one\" at lifecycle crawl",
                ],
            ),
            (
                json!({"larder_parts": {"version": "a"}}),
                &[
                    "parts: Shop.larder_parts: must not be kept in parts or packed: the schema says neither `oversize split`, `oversize compress` nor `compress`, and it is a map at entity Shop",
                ],
            ),
        ],
    );
    let page = json!({
        "pk": "SHOP#www.example.de",
        "sk": "URL#https://www.example.de/a",
        "url": "https://www.example.de/a",
        "type": "product",
        "hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "gsi1_pk": "SHOP#www.example.de",
        "gsi1_sk": "product",
    });
    check(
        &checker,
        &page,
        &[
            (json!({"hash": "-"}), &["required: Page.hash: is required, and it is missing at hash ="]),
            (
                json!({"type": ""}),
                &[
                    "check: Page.kind (stored as type): must not be empty, and it is \"\" at kind as",
                    "equation: Page.gsi1_sk: must be kind, which is \"\", and it is \"product\" at gsi1_sk =",
                ],
            ),
        ],
    );
}

#[test]
fn a_lease_that_lives_stays_with_its_owner() {
    let checker = checker("shops", "data");
    let held = crawling("a", NOW + 3600, 3);
    let done = json!({
        "gsi2_sk": "DONE#2026-01-15T10:00:00Z", "last_crawled_end": "2026-01-15T10:00:00Z", "crawl_owner": "-",
        "crawl_until": "-", "crawl_attempts": "-", "larder_crawl_from": "-",
    });
    let given_back = json!({"gsi2_sk": "NEVER#", "crawl_owner": "-", "crawl_until": NOW + 60});
    for right in [
        with(&held, &json!({"crawl_until": NOW + 7200})),
        with(&held, &done),
        with(&held, &given_back),
        with(&held, &json!({"shop_name": "Example"})),
        // Held by nobody after the last attempt.
        with(&held, &json!({"crawl_owner": "-", "crawl_until": NOW - 1})),
    ] {
        check_step(&checker, &held, &right, &[]);
    }
    let taken = crawling("b", NOW + 7200, 4);
    check_step(
        &checker,
        &held,
        &taken,
        &[
            "lease: Shop.crawl (stored as crawl_owner): must stay with a, whose lease lasts until 1768474800, and it is b at lifecycle crawl",
        ],
    );
    check_step(&checker, &crawling("a", NOW - 1, 3), &taken, &[]);
    check_step(
        &checker,
        &held,
        &with(&held, &json!({"crawl_fence": 2})),
        &[
            "lease: Shop.crawl (stored as crawl_fence): must not go back from 3, and it is 2 at lifecycle crawl",
        ],
    );
    check_step(
        &checker,
        &with(&shop(), &with(&done, &json!({"last_crawled_start": "2026-01-15T09:00:00Z"}))),
        &with(&shop(), &json!({"gsi2_sk": "NEVER#"})),
        &[
            "transition: Shop.crawl (stored as gsi2_sk): must stay done or become progress, and it is never at lifecycle crawl",
        ],
    );
}

#[test]
fn menus_are_kept_with_their_faults() {
    let checker = checker("lunch", "cache");
    let lunch = json!({"name": "Soup", "description": "", "price": 95, "weekday": "måndag", "week": 3, "place": "Bar"});
    let base = json!({
        "pk": "bar-2026-03", "restaurant": "bar", "year": 2026, "week": 3, "lunches": [lunch], "lunchCount": 1,
        "cachedAt": "2026-01-15T10:00:00.000Z", "ttl": NOW + 14 * DAY,
    });
    let free = json!([{"name": "Soup", "price": "free", "weekday": "monday", "week": 3, "place": "Bar"}]);
    check(
        &checker,
        &base,
        &[
            (json!({"lunches": free}), &[]),
            (json!({"dataQuality": {"completeness": 2}}), &[]),
            (
                json!({"lunchCount": 2}),
                &[
                    "equation: Menu.lunch_count (stored as lunchCount): must be lunches.len(), which is 1, and it is 2 at lunch_count =",
                ],
            ),
            (
                json!({"lunches": "none"}),
                &["type: Menu.lunches: must be of type [Lunch], and it is \"none\" at lunches: [Lunch]"],
            ),
            (
                json!({"week": 54, "pk": "bar-2026-54"}),
                &["check: Menu.week: must be in 1..=53, and it is 54 at week: int"],
            ),
            (
                json!({"cachedAt": "-"}),
                &[
                    "required: Menu.cached_at (stored as cachedAt): is required, and it is missing at cached_at: instant",
                ],
            ),
        ],
    );
}

#[test]
fn a_list_that_is_wrong_all_through_is_not_told_all_through() {
    let checker = checker("keiba", "keiba_data");
    let days = vec![json!({}); 100_000];
    let item = item(
        &json!({"PK": "DATE#20240526", "SK": "RACES", "data": days, "fetched_at": NOW, "ttl": NOW + DAY}),
    );
    let found = checker.check(None, &item, UnixTime::from_seconds(NOW));
    assert!((1000..1010).contains(&found.len()), "{}", found.len());
}

#[test]
fn forecasts_and_their_ttl() {
    let checker = checker("weather", "forecasts");
    let data = json!({
        "temperature": 21.5, "humidity": 40, "windSpeed": 3, "rainfallIntensity": 0,
        "weatherDescription": "clear", "timestamp": "2026-01-15T10:00:00",
    });
    let base = json!({
        "cacheKey": "weather_35.0116_135.7681_1768471200", "data": data,
        "createdAt": "2026-01-15T10:00:00.000000Z", "ttl": NOW + 3 * 3600,
    });
    check(
        &checker,
        &base,
        &[
            // How long is for the environment to say, which this may not be.
            (json!({"ttl": NOW + DAY}), &[]),
            (
                json!({"ttl": NOW * 1000}),
                &[
                    "ttl: Forecast.ttl: must be Unix seconds, not milliseconds, and it is 1768471200000 at ttl cache_ttl",
                ],
            ),
            (
                json!({"cacheKey": "weather_95.0116_135.7681_1768471200"}),
                &["check: Forecast.lat: must be in -90..=90, and it is 95.0116 at input lat:"],
            ),
            (
                json!({"data": with(&data, &json!({"humidity": 120, "windSpeed": "-", "extra": 1}))}),
                &[
                    "check: Forecast.data.humidity: must be in 0..=100, and it is 120 at humidity: float",
                    "required: Forecast.data.wind_speed (stored as data.windSpeed): is required, and it is missing at wind_speed: float",
                    "unknown: Forecast.data.extra: there is no such field, and it is given at data: Weather",
                ],
            ),
        ],
    );
}

#[test]
fn races_in_parts() {
    let checker = checker("keiba", "keiba_data");
    let base = json!({
        "PK": "RACE#7", "SK": "METADATA", "data": {"horses": [], "name": "Arima"}, "fetched_at": NOW, "ttl": NOW + 7 * DAY,
    });
    let part = json!({
        "PK": "RACE#7", "SK": "METADATA#larder#00000000000000aa#1", "larder_chunk": "bytes:abc", "ttl": NOW,
    });
    let parts =
        json!({"data": "-", "larder_parts": {"version": "00000000000000aa", "count": 2, "checksum": 7}});
    check(
        &checker,
        &base,
        &[
            (parts, &[]),
            (
                json!({"data": "-"}),
                &["required: Race.data: is required, and it is missing at data: RaceCard"],
            ),
            (
                json!({"larder_parts": {"version": "a", "count": 4097, "checksum": 7}}),
                &[
                    "parts: Race.larder_parts: must have a `count` of 1 to 4096, and it is 4097 at entity Race",
                ],
            ),
        ],
    );
    check(
        &checker,
        &part,
        &[
            (
                json!({"SK": "METADATA#larder#00000000000000aa#4096"}),
                &[
                    "parts: keiba_data.SK: must be the key of an item that may be split, then `#larder#VERSION#NUMBER` below 4096, and it is \"RACE#7\" / \"METADATA#larder#00000000000000aa#4096\" at table keiba_data",
                ],
            ),
            (
                json!({"larder_chunk": "abc", "horses": []}),
                &[
                    "parts: keiba_data.larder_chunk: must be bytes, and it is \"abc\" at table keiba_data",
                    "parts: keiba_data.horses: must not stand in a part of a larger item, and it is given at table keiba_data",
                ],
            ),
        ],
    );
    // The memory of an absence, and a probe, whatever its key.
    let absent = json!({"PK": "-1", "SK": "-1", "larder_absent": "probe", "larder_probe": -1, "ttl": NOW});
    check(
        &checker,
        &absent,
        &[(
            json!({"data": {}}),
            &[
                "unknown: keiba_data.data: must not stand beside `larder_absent`, which says that there is no record, and it is given at table keiba_data",
            ],
        )],
    );
}

#[test]
fn a_table_that_is_not_strict_takes_what_is_of_no_entity() {
    let text = "system notes\ntable notes {\n  key id\n  entity Note { key \"NOTE#{n}\"\n input n: int\n text: string? }\n}\n";
    let open = of_text("notes.larder", text, "notes");
    let closed = of_text("notes.larder", &text.replace("key id\n", "key id\n strict\n"), "notes");
    for (item, entity, rule) in [
        (json!({"id": "NOTE#7", "text": "a"}), true, None),
        (json!({"id": "OTHER#7", "anything": {}}), false, Some(ViolationFault::Entity)),
        (json!({"id": "NOTE#7", "anything": {}}), true, Some(ViolationFault::Unknown)),
    ] {
        let stored = self::item(&item);
        assert_eq!(broken(&open, None, &item), [""; 0]);
        let found = closed.check(None, &stored, UnixTime::from_seconds(NOW));
        assert_eq!(found.first().map(|violation| violation.fault), rule, "{item}");
        assert_eq!(open.entity_name(&stored).is_some(), entity);
    }
}

#[test]
fn sets_and_maps_are_checked_with_all_that_is_in_them() {
    let text = "system shelf\ntable shelf {\n  key pk\n  strict\n  entity Book {\n    key \"BOOK#{id}\"\n    id: string\n    \
                topics: set<string>\n    years: set<int> nonempty\n    copies: map<string, int>\n    \
                formats: map<string, set<string>>?\n    topics_in = topics.len()\n  }\n}\n";
    let checker = of_text("books.larder", text, "shelf");
    let base = json!({
        "pk": "BOOK#1", "id": "1", "topics": {"set": ["love", "war"]}, "topics_in": 2, "years": {"set": [1865, 1869]},
        "copies": {"Lund": 2},
    });
    check(
        &checker,
        &base,
        &[
            // A set that is not stored has no members.
            (json!({"topics": "-", "topics_in": 0, "formats": {"print": {"set": ["A5"]}}}), &[]),
            (
                json!({"topics": "-"}),
                &["equation: Book.topics_in: must be topics.len(), which is 0, and it is 2 at "],
            ),
            (json!({"years": "-"}), &["required: Book.years: is required, and it is missing at "]),
            // Each reader would find a list, and no set.
            (
                json!({"topics": ["love", "war"]}),
                &["type: Book.topics: must be of type set<string>, and it is a list of 2 at "],
            ),
            (
                json!({"topics": [], "topics_in": 0}),
                &["type: Book.topics: must be of type set<string>, and it is a list of 0 at "],
            ),
            (
                json!({"years": {"set": ["1865"]}}),
                &["type: Book.years: must be of type set<int>, and it is a document at "],
            ),
            (
                json!({"copies": {"Lund": "two", "Umeå": 1}}),
                &["type: Book.copies[\"Lund\"]: must be of type int, and it is \"two\" at "],
            ),
            (
                json!({"formats": {"print": ["A5"]}}),
                &["type: Book.formats[\"print\"]: must be of type set<string>, and it is a list of 1 at "],
            ),
        ],
    );
}

/// What the programs of the five teams write, in DynamoDB's JSON, at a moment that is far ahead.
#[test]
fn the_items_of_the_five_teams_are_right() {
    fn typed(json: &Json) -> Json {
        let (kind, value) = json.as_object().and_then(|value| value.iter().next()).expect("a typed value");
        match kind.as_str() {
            "N" => serde_json::from_str(value.as_str().expect("a number")).expect("a number"),
            "L" => value.as_array().expect("a list").iter().map(typed).collect(),
            "M" => plain(value),
            "S" | "BOOL" => value.clone(),
            other => panic!("{other} is not among them"),
        }
    }
    fn plain(json: &Json) -> Json {
        json.as_object().expect("an item").iter().map(|(name, value)| (name.clone(), typed(value))).collect()
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/systems/items.json");
    let all: Json = serde_json::from_str(&std::fs::read_to_string(path).expect("it is there")).expect("JSON");
    let mut checked = 0;
    for (system, items) in all.as_object().expect("systems").iter().filter(|(name, _)| *name != "now") {
        for (name, item) in items.as_object().expect("items") {
            let table = match (system.as_str(), name.as_str()) {
                ("keiba", _) => "keiba_data",
                ("tdnet", "disclosure") => "disclosures",
                ("tdnet", "execution") => "executions",
                ("tdnet", _) => "export_status",
                ("weather", _) => "forecasts",
                ("shops", _) => "data",
                (_, _) => "cache",
            };
            assert_eq!(broken(&checker(system, table), None, &plain(item)), [""; 0], "{system} {name}");
            checked += 1;
        }
    }
    assert!(checked >= 10, "{checked}");
}

#[test]
fn what_can_be_derived_mends_an_item() {
    let now = UnixTime::from_seconds(NOW);
    let mend = |checker: &Checker, json: &Json, expected: &[(&str, Json)]| {
        let wrong = item(json);
        let changes = checker.mend(&wrong, now);
        let told: Vec<(&str, Option<AttributeValue>)> =
            changes.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let expected: Vec<(&str, Option<AttributeValue>)> = expected
            .iter()
            .map(|(name, json)| (*name, if json.is_null() { None } else { Some(value(json)) }))
            .collect();
        assert_eq!(told, expected, "{json}");
        let mut mended = wrong;
        for (name, value) in changes {
            match value {
                Some(value) => drop(mended.insert(name, value)),
                None => drop(mended.remove(&name)),
            }
        }
        assert_eq!(checker.check(None, &mended, now), []);
    };
    let shops = checker("shops", "data");
    mend(&shops, &shop(), &[]);
    let moved = json!({"shop_country": "-", "core_domain_name": "shop", "gsi4_pk": "-"});
    let expected = [
        ("core_domain_name", json!("example")),
        ("gsi2_pk", Json::Null),
        ("gsi3_pk", Json::Null),
        ("gsi4_pk", json!("example")),
    ];
    mend(&shops, &with(&shop(), &moved), &expected);
    let executions = checker("tdnet", "executions");
    let ends = json!(NOW - 3600 + 30 * DAY);
    mend(&executions, &with(&execution("pending"), &json!({"ttl": NOW * 1000})), &[("ttl", ends)]);
    // A key cannot be derived.
    let disclosures = checker("tdnet", "disclosures");
    let other = item(&with(&disclosure(), &json!({"disclosure_id": "20240131_7203_001"})));
    assert_eq!(disclosures.mend(&other, now), []);
}

#[test]
fn every_rule_has_a_word_of_its_own() {
    let mut words: Vec<&str> = ViolationFault::ALL.iter().map(|fault| fault.name()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), ViolationFault::ALL.len());
}
