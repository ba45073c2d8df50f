//! The arithmetic by hand, beside what comes out.

use super::*;
use crate::NoFiles;
use crate::schema::{Period, Rate, Workload};

const KEIBA: &str = include_str!("../../../../schemas/keiba.larder");
const TDNET: &str = include_str!("../../../../schemas/tdnet.larder");
const WEATHER: &str = include_str!("../../../../schemas/weather.larder");
const SHOPS: &str = include_str!("../../../../schemas/shops.larder");
const LUNCH: &str = include_str!("../../../../schemas/lunch.larder");

fn schema(text: &str) -> Schema {
    let loaded = Schema::load("test.larder", text, &mut NoFiles, &Environment::new());
    loaded.schema.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics))
}

fn month(figure: f64) -> Option<Rate> {
    Some(Rate { from: figure, to: figure, per: Period::Month })
}

#[derive(Default)]
struct Asked<'a> {
    region: Option<&'a str>,
    entity: Option<&'a str>,
    charged_storage: bool,
    stored: BTreeMap<String, Stored>,
}

impl Asked<'_> {
    fn report(&self, schema: &Schema, load: &Load) -> Result<Report, CostError> {
        let terms = Terms {
            prices: &Prices::built_in(),
            region: self.region,
            date: None,
            free_storage: !self.charged_storage,
            environment: &Environment::new(),
            stored: &self.stored,
        };
        report(schema, load, &terms)
    }

    fn declared(&self, text: &str, change: impl FnOnce(&mut Workload)) -> Report {
        let schema = schema(text);
        let mut workload = schema.workload.clone().unwrap_or_default();
        change(&mut workload);
        self.report(&schema, &Load::of(&schema, &workload, self.entity).unwrap()).unwrap()
    }
}

/// Amounts in millionths of a dollar, table by table.
fn amounts(report: &Report) -> Vec<(String, i128)> {
    let lines = report.tables.iter().flat_map(|table| &table.lines);
    let label = |line: &Line| {
        let of = line.entity.iter().chain(&line.operation).chain(&line.index).map(String::as_str);
        of.chain([line.kind.name()]).collect::<Vec<_>>().join(" ")
    };
    lines.map(|line| (label(line), line.amount.micros())).collect()
}

fn check(report: &Report, expected: &[(&str, i128)], store: i128) {
    let expected: Vec<(String, i128)> =
        expected.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
    assert_eq!(amounts(report), expected);
    assert_eq!(report.store().micros(), store);
}

#[test]
fn w13_the_weather_team_s_own_figures_come_out_at_its_prices() {
    let asked = Asked { region: Some("weather-team"), ..Asked::default() };
    let report = asked.declared(WEATHER, |_| ());
    check(
        &report,
        &[
            ("Forecast reads", 250_000),  // 1,000,000 × $0.25 a million
            ("Forecast writes", 250_000), // 200,000 × $1.25 a million
            ("storage", 78_643),          // 300 MB = 314,572,800 bytes; ÷ 10^9 × $0.25 = 0.0786432
        ],
        578_643,
    );
    assert_eq!(report.store().rounded(), "$0.58");
    assert_eq!(report.saved().rounded(), "$80.00"); // 800,000 × $0.0001
    assert_eq!(report.made().rounded(), "$20.00"); // 200,000 × $0.0001
    assert_eq!(report.net().unwrap().rounded(), "$79.42");
}

#[test]
fn w13_weather_costs_half_a_unit_a_read_at_the_prices_of_its_region() {
    let report = Asked::default().declared(WEATHER, |_| ());
    check(
        &report,
        &[
            ("Forecast reads", 93_750),   // 1,000,000 × 0.5 × $0.1875 a million
            ("Forecast writes", 187_500), // 200,000 × $0.9375 a million
            ("storage", 0),               // 300 MB of 25 free GB
        ],
        281_250,
    );
    let choice = report.tables[0].choice.as_ref().unwrap();
    // 1 / 1 at (0.000195 + 0.000975) × 720 hours
    assert_eq!(choice.provisioned.micros(), 842_400);
    assert_eq!(choice.capacity, [(None, 1, 1)]);
    // 1,200,000 requests in 2,592,000 seconds
    assert_eq!(choice.rate_hundredths, 46);
    // $0.28125 ÷ 1.2 M requests = $0.234375 a million; $0.8424 buys 3,594,240 of them: 1.3866 a second
    assert_eq!(choice.cheaper_from_hundredths, Some(139));
    assert!(!choice.is_provisioned_cheaper());
}

#[test]
fn w13_measured_traffic_is_taken_for_a_month() {
    let schema = schema(WEATHER);
    // An hour is a 720th of a month.
    let counted = r#"{"system": "weather", "seconds": 3600, "entities": {"Forecast":
        {"hits": 900, "misses": 100, "loads": 60, "writes": 60, "item_bytes": 1100, "stored_bytes": 0}}}"#;
    let load = Load::measured(&schema, counted).unwrap();
    let report = Asked { region: Some("us-east-1"), ..Asked::default() }.report(&schema, &load).unwrap();
    check(
        &report,
        &[
            ("Forecast reads", 45_000),  // 720,000 × 0.5 × $0.125 a million
            ("Forecast writes", 54_000), // 43,200 × 2 (1,100 bytes) × $0.625 a million
            ("storage", 0),
        ],
        99_000,
    );
    // Hits alone save: 900 × 720 × $0.0001; and 60 × 720 × $0.0001
    assert_eq!((report.saved().micros(), report.made().micros()), (64_800_000, 4_320_000));
}

#[test]
fn l13_lunch_is_planned_with_its_index_and_recovery() {
    let report = Asked::default().declared(LUNCH, |_| ());
    check(
        &report,
        &[
            ("Menu reads", 1_061),                // 500 × 30 × 0.5 × $0.1415 a million = 0.00106125
            ("Menu writes", 303), // ⌈50 × 30 ÷ 7⌉ = 215 × 2 (2 KB) × $0.705 a million = 0.00030315
            ("Menu RestaurantIndex writes", 606), // and twice that, as `cached_at` moves: 0.0006063
            ("storage", 0),       // 15 MB of 25 free GB
            ("RestaurantIndex storage", 0),
            ("recovery", 3_223), // 15 MB ÷ 1 GB × $0.22 = 0.00322266
        ],
        5_193,
    );
    let choice = report.tables[0].choice.as_ref().unwrap();
    // A unit of each for table and index: 2 × (0.000147 + 0.000735) × 720
    assert_eq!(choice.provisioned.micros(), 1_270_080);
    assert_eq!(choice.capacity, [(None, 1, 1), (Some("RestaurantIndex".to_owned()), 1, 1)]);
    let dollars: Vec<String> = report.budgets.iter().map(ToString::to_string).collect();
    assert_eq!(dollars, ["$5.00", "$10.00", "$25.00"]);
}

#[test]
fn l13_provisioned_is_advised_where_it_is_cheaper() {
    let report = Asked::default().declared(WEATHER, |workload| workload.requests = month(1e8));
    let choice = report.tables[0].choice.as_ref().unwrap();
    // 50 M read units × $0.1875 + 20 M write units × $0.9375 a million
    assert_eq!(choice.on_demand.micros(), 28_125_000);
    // 50 M ÷ 2,592,000 s ÷ 0.7 = 27.6 and 20 M: 11.02, up
    assert_eq!(choice.capacity, [(None, 28, 12)]);
    // (28 × 0.000195 + 12 × 0.000975) × 720
    assert_eq!(choice.provisioned.micros(), 12_355_200);
    // 28.125 ÷ 12.3552 = 2.27
    assert!(choice.is_provisioned_cheaper() && choice.peak_tenths() == 22);
}

#[test]
fn keiba_spreads_its_requests_over_its_entities() {
    let report = Asked::default().declared(KEIBA, |workload| {
        workload.requests = month(1e6);
        workload.hit_rate_percent = "90".parse().ok();
    });
    // 200,000 requests each: 0.5 read units × $0.125 a million, and 20,000 writes × $0.625 a million
    check(
        &report,
        &[
            ("Race reads", 12_500),
            ("Race writes", 37_500), // 3 units for 2,661 bytes: keys 39 + 10, ten horses 2,587, times 16 + 9
            ("HorseResults reads", 12_500),
            ("HorseResults writes", 37_500), // 2,662 bytes
            ("HorseParents reads", 12_500),
            ("HorseParents writes", 12_500), // 153 bytes
            ("Jockey reads", 12_500),
            ("Jockey writes", 12_500), // 112 bytes
            ("RaceDay reads", 12_500),
            ("RaceDay writes", 25_000), // 1,084 bytes: ten races of 103
            ("storage", 0),
        ],
        187_500,
    );
    let netkeiba = &report.sources[0];
    assert_eq!((netkeiba.calls, netkeiba.calls_avoided), (100_000, 900_000));
    assert_eq!((netkeiba.price, netkeiba.saved, report.net()), (None, Money::ZERO, None));
    assert!(report.notes.iter().any(|note| note.contains("a call of netkeiba")), "{:?}", report.notes);
}

#[test]
fn tdnet_pays_for_three_tables_their_indexes_and_their_recovery() {
    let report = Asked::default().declared(TDNET, |workload| {
        (workload.reads, workload.writes) = (month(3e5), month(3e4));
        workload.item_bytes = Some(1500);
    });
    // 100,000 reads × 0.5 × $0.125, and 10,000 writes × 2 units × $0.625 a million, of each.
    // Recovery: 10,000 × (1,500 + 100) bytes ÷ 2^30 × $0.20 = 0.00298
    check(
        &report,
        &[
            ("Disclosure reads", 6_250),
            ("Disclosure writes", 12_500),
            ("Disclosure sequence reads", 125_000), // 10,000 × 100 numbers × $0.125 a million
            ("Disclosure GSI_CompanyCode_DiscloseDate writes", 12_500),
            ("Disclosure GSI_DatePartition writes", 12_500),
            ("storage", 0),
            ("GSI_CompanyCode_DiscloseDate storage", 0),
            ("GSI_DatePartition storage", 0),
            ("recovery", 2_980),
            ("Execution reads", 6_250),
            ("Execution writes", 12_500),
            ("Execution GSI_Status_StartedAt writes", 25_000), // a state moves: twice
            ("storage", 0),
            ("GSI_Status_StartedAt storage", 0),
            ("recovery", 2_980),
            ("Export reads", 6_250),
            ("Export writes", 12_500),
            ("Export GSI_Status_RequestedAt writes", 25_000),
            ("storage", 0),
            ("GSI_Status_RequestedAt storage", 0),
            ("recovery", 2_980),
        ],
        265_190,
    );
}

#[test]
fn shops_pays_twice_for_an_index_of_states_and_not_for_one_it_is_not_in() {
    let asked = Asked { entity: Some("Shop"), charged_storage: true, ..Asked::default() };
    let report = asked.declared(SHOPS, |workload| workload.writes = month(1e5));
    check(
        &report,
        &[
            ("Shop writes", 62_500), // 100,000 × 1 unit (601 bytes) × $0.625 a million
            ("Shop CountryLastCrawledIndex writes", 125_000),
            ("Shop CountryLastScrapedIndex writes", 125_000),
            ("Shop CoreDomainNameIndex writes", 62_500),
            ("storage", 16_321), // 100,000 × (601 + 100) bytes ÷ 2^30 × $0.25
            // keys 39 + 7 + 39 + 36, domain 38, two instants 38 + 36: 100,000 × (233 + 100) bytes
            ("CountryLastCrawledIndex storage", 7_753),
            // and one instant more, of 36: 269
            ("CountryLastScrapedIndex storage", 8_591),
            // keys 39 + 7 + 39 + 39: 124
            ("CoreDomainNameIndex storage", 5_215),
        ],
        375_000 + 16_321 + 7_753 + 8_591 + 5_215,
    );
}

const KEPT: &str = r#"
system kept
table notes {
  key      id
  billing  BILLING
  index by_day as by_day  day
  entity Note {
    id:  string nonempty
    day: date
  }
}
workload {
  reads      1_000_000 per month
  item_size  1KB
  stored     20GB
}
"#;

#[test]
fn free_storage_is_used_once_in_a_region() {
    let text = KEPT.replace("BILLING", "on_demand");
    let report = Asked::default().declared(&text, |_| ());
    // 20 GB are free; of the index's 20 GB another 5, and 15 × $0.25 are not
    check(&report, &[("Note reads", 62_500), ("storage", 0), ("by_day storage", 3_750_000)], 3_812_500);
    let report = Asked { charged_storage: true, ..Asked::default() }.declared(&text, |_| ());
    check(
        &report,
        &[("Note reads", 62_500), ("storage", 5_000_000), ("by_day storage", 5_000_000)],
        10_062_500,
    );
}

#[test]
fn a_provisioned_table_costs_its_capacity_and_that_of_its_indexes() {
    let report = Asked::default().declared(&KEPT.replace("BILLING", "provisioned 5 / 2"), |_| ());
    // (5 × 0.00013 + 2 × 0.00065) × 720, for each
    check(
        &report,
        &[
            ("Note reads", 0),
            ("capacity", 1_404_000),
            ("by_day capacity", 1_404_000),
            ("storage", 0),
            ("by_day storage", 3_750_000),
        ],
        2 * 1_404_000 + 3_750_000,
    );
    let choice = report.tables[0].choice.as_ref().unwrap();
    assert_eq!(choice.on_demand.micros(), 62_500);
}

#[test]
fn sizes_in_the_store_take_the_place_of_reckoned_ones() {
    let stored =
        Stored { items: 1000, bytes: 5_000_000, indexes: [("by_day".to_owned(), (1000, 40_000))].into() };
    let asked =
        Asked { charged_storage: true, stored: [("notes".to_owned(), stored)].into(), ..Asked::default() };
    let report = asked.declared(&KEPT.replace("BILLING", "on_demand"), |workload| {
        (workload.item_bytes, workload.stored_bytes) = (None, None);
    });
    check(
        &report,
        &[
            ("Note reads", 125_000), // 5,000 bytes: 2 × 0.5 units × $0.125
            ("storage", 1_187),      // (5,000,000 + 100,000) ÷ 2^30 × $0.25
            ("by_day storage", 33),  // (40,000 + 100,000) ÷ 2^30 × $0.25
        ],
        126_220,
    );
}

#[test]
fn every_amount_tells_its_arithmetic() {
    let report = Asked::default().declared(LUNCH, |_| ());
    let how: Vec<&str> = report.tables[0].lines.iter().map(|line| line.how.as_str()).collect();
    insta::assert_snapshot!(how.join("\n"), @"
    15,000 reads × 0.5 read units (2,048 bytes, as given; 4,096 bytes a unit; eventual, half of one) = 7,500 read units; × $0.1415 a million = $0.001061
    215 writes × 2 write units (2,048 bytes, as given; 1,024 bytes a unit) = 430 write units; × $0.705 a million = $0.000303
    215 writes × 2 write units (2,048 bytes, all of the item; 1,024 bytes a unit) × 2 (out of one place, into another) = 860 write units; × $0.705 a million = $0.000606
    15,728,640 bytes of Menu, as given = 15,728,640 bytes − 15,728,640 free bytes; ÷ 1,073,741,824 × $0.283 a gigabyte = $0.00
    (15,728,640 bytes of Menu, as given) × (2,048 + 100) ÷ (2,048 + 100) = 15,728,640 bytes − 15,728,640 free bytes; ÷ 1,073,741,824 × $0.283 a gigabyte = $0.00
    15,728,640 bytes of the table, without its indexes; ÷ 1,073,741,824 × $0.22 a gigabyte = $0.003223
    ");
}

#[test]
fn what_has_no_price_is_an_error_with_the_next_step() {
    let price = |text: &str, region: &'static str| {
        let schema = schema(text);
        let workload = Workload { reads: month(1.0), ..Workload::default() };
        let load = Load::of(&schema, &workload, None).unwrap();
        Asked { region: Some(region), ..Asked::default() }.report(&schema, &load).unwrap_err().to_string()
    };
    insta::assert_snapshot!(price(LUNCH, "sa-east-1"), @"table cache has point-in-time recovery, and no price of it is known in sa-east-1: choose another --region, or give it with --prices FILE");
    insta::assert_snapshot!(price(&KEPT.replace("BILLING", "provisioned 1 / 1"), "weather-team"), @"table notes is provisioned, and no price of that is known in weather-team: choose another --region, or give it with --prices FILE");
    insta::assert_snapshot!(price(&KEPT.replace("BILLING", "on_demand\n  class infrequent"), "us-east-1"), @"there are no prices for tables of class infrequent in us-east-1: give them with --prices FILE");
}

#[test]
fn traffic_that_is_not_known_is_an_error_with_the_next_step() {
    let shops = schema(SHOPS);
    let asked = |workload: &Workload, entity| Load::of(&shops, workload, entity).unwrap_err().to_string();
    insta::assert_snapshot!(asked(&Workload::default(), None), @"shops declares no workload: add `workload { requests 1_000_000 per month }` to it, or say --requests, --reads, --writes or --measured");
    let reads = Workload { reads: month(1.0), ..Workload::default() };
    insta::assert_snapshot!(asked(&reads, Some("Shopp")), @"shops has no entity `Shopp`; there are Shop, Page");
    for (text, problem) in [
        ("", "EOF"),
        ("[]", "no JSON object"),
        (r#"{"seconds": 0, "entities": {}}"#, "how long was counted"),
        (r#"{"seconds": 1}"#, "`entities`"),
        (r#"{"seconds": 1, "entities": {}, "system": "keiba"}"#, "shops is asked for"),
        (r#"{"seconds": 1, "entities": {"Race": {}}}"#, "no entity `Race`"),
        (r#"{"seconds": 1, "entities": {"Shop": 1}}"#, "Shop is no JSON object"),
        (r#"{"seconds": 1, "entities": {"Shop": {"hit": 1}}}"#, "`hit`"),
        (r#"{"seconds": 1, "entities": {"Shop": {"hits": -1}}}"#, "Shop: `hits`"),
        (
            r#"{"seconds": 1, "entities": {"Shop": {"hits": 18446744073709551615}}}"#,
            "more than can be counted",
        ),
    ] {
        let error = Load::measured(&shops, text).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn no_figure_is_too_large() {
    let report = Asked { charged_storage: true, ..Asked::default() }.declared(SHOPS, |workload| {
        workload.requests = month(1e300);
        workload.writes = month(1e300);
        workload.item_bytes = Some(u64::MAX);
        workload.stored_bytes = Some(u64::MAX);
    });
    assert!(report.store() > Money::ZERO);
}

/// A cache of pages with these settings.
fn pages(settings: &str) -> String {
    format!(
        "system pages\nsource web {{ cost $0.001 per call }}\ntable pages {{\n  region \"us-east-1\"\n  key pk\n  ttl ends\n  \
         entity Page from web {{\n    key \"PAGE#{{id}}\"\n    ttl 10d\n{settings}\n    input id: string nonempty\n    text: string\n  \
         }}\n}}\nworkload {{\n  requests 1_000_000 per month\n  hit_rate 90%\n  item_size 1KB\n}}\n"
    )
}

#[test]
fn what_is_given_past_its_time_is_stored_that_much_longer() {
    let stored = |settings: &str| {
        let report = Asked { charged_storage: true, ..Asked::default() }.declared(&pages(settings), |_| ());
        let line = report.tables[0].lines.iter().find(|line| line.kind == Kind::Storage).unwrap().clone();
        let Quantity::Bytes(bytes) = line.quantity else { panic!("storage is in bytes") };
        bytes
    };
    // 100,000 written in 30 days live 10 of them: 33,334 × 1,124 bytes
    assert_eq!(stored(""), 33_334 * 1_124);
    assert_eq!(stored("    grace 5d"), 50_000 * 1_124);
    assert_eq!(stored("    stale 20d\n    grace 5d"), 100_000 * 1_124);
}

#[test]
fn leases_absences_and_sequences_are_paid_for() {
    let report = Asked::default().declared(&pages("    flight 10s\n    negative 1h"), |workload| {
        workload.writes = month(60_000.0);
    });
    check(
        &report,
        &[
            ("Page reads", 62_500),           // 1,000,000 × 0.5 × $0.125 a million
            ("Page writes", 37_500),          // 60,000 × $0.625 a million
            ("Page negative writes", 25_000), // 40,000 calls brought nothing
            ("Page flight writes", 62_500),   // a lease for each of 100,000 calls
            ("storage", 0),
        ],
        187_500,
    );
    // An index that shows all of the item shows the lease.
    let indexed = pages("    flight 10s")
        .replace("  ttl ends\n", "  ttl ends\n  index by_host  host  project all\n")
        .replace("    text: string\n", "    text: string\n    host: string nonempty\n");
    let found = amounts(&Asked::default().declared(&indexed, |_| ()));
    assert!(found.contains(&("Page flight by_host writes".to_owned(), 62_500)), "{found:?}");

    let text = "system log\ntable log {\n  region \"us-east-1\"\n  key pk\n  entity Line {\n    key \"LINE#{n}\"\n    input n: sequence\n    \
                text: string\n  }\n}\nworkload { writes 1_000 per month }\n";
    let found = amounts(&Asked::default().declared(text, |_| ()));
    // 1,000 × 100 strong reads × $0.125 a million
    assert!(found.contains(&("Line sequence reads".to_owned(), 12_500)), "{found:?}");
}
