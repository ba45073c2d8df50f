//! Units that a server counted, priced: the arithmetic by hand, beside what comes out.

use std::collections::BTreeMap;

use larder_schema::cost::{self, Line, Load, Prices, Reading, Report, Stored, Terms};
use larder_schema::{Environment, NoFiles, Schema};

const LUNCH: &str = include_str!("../../../schemas/lunch.larder");

/// A thousandth of a month, of two operations on the table and two on its index.
const COUNTED: &str = r#"
# HELP larder_consumed_read_capacity_units_total Read capacity units consumed.
# TYPE larder_consumed_read_capacity_units_total counter
larder_consumed_read_capacity_units_total{table="lunch-cache-dev",operation="GetItem"} 100.5
larder_consumed_read_capacity_units_total{table="lunch-cache-dev",operation="Query"} 0
larder_consumed_read_capacity_units_total{table="lunch-cache-dev",operation="Query",index="RestaurantIndex"} 10
larder_consumed_read_capacity_units_total{table="lunch-cache-prod",operation="GetItem"} 5000
larder_consumed_write_capacity_units_total{table="lunch-cache-dev",operation="PutItem"} 40
larder_consumed_write_capacity_units_total{table="lunch-cache-dev",operation="PutItem",index="RestaurantIndex"} 60
larder_successful_request_latency_seconds_count{table="lunch-cache-dev",operation="GetItem"} 201
larder_successful_request_latency_seconds_count{table="lunch-cache-dev",operation="PutItem"} 20
larder_successful_request_latency_seconds_count{table="lunch-cache-dev",operation="Query"} 4
larder_uptime_seconds 2592
"#;

fn report(stored: &BTreeMap<String, Stored>) -> Report {
    let environment = Environment::new();
    let schema = Schema::load("lunch.larder", LUNCH, &mut NoFiles, &environment).schema.expect("it is right");
    let reading = Reading::parse(COUNTED).expect("it is right");
    let load = Load::counted(&schema, &reading, &environment).expect("some of it is lunch's");
    let terms = Terms {
        prices: &Prices::built_in(),
        region: None,
        date: None,
        free_storage: true,
        environment: &environment,
        stored,
    };
    cost::report(&schema, &load, &terms).expect("there are prices")
}

#[test]
fn l13_units_of_operations_and_indexes_are_priced_as_they_were_counted() {
    let report = report(&BTreeMap::new());
    let lines = &report.tables[0].lines;
    let told = |line: &Line| {
        let of = line.operation.iter().chain(&line.index).map(String::as_str);
        (of.chain([line.kind.name()]).collect::<Vec<_>>().join(" "), line.count, line.amount.micros())
    };
    let expected = [
        ("GetItem reads", Some(201_000), 14_221), // 100,500 × $0.1415 a million = 0.01422075
        ("PutItem writes", Some(20_000), 28_200), // 40,000 × $0.705 a million
        ("PutItem RestaurantIndex writes", None, 42_300), // 60,000 × $0.705
        ("Query RestaurantIndex reads", None, 1_415), // 10,000 × $0.1415
        ("storage", None, 0),
        ("recovery", None, 0),
    ];
    let expected = expected.map(|(name, count, micros)| (name.to_owned(), count, micros));
    assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!(report.store().micros(), 86_136);
    assert_eq!(lines[0].how, "100,500 units, as counted; × $0.1415 a million = $0.014221");
    let told = report.notes.join("\n");
    assert!(told.contains("what cache holds was not counted: --from-store weighs it"), "{told}");

    let choice = report.tables[0].choice.as_ref().expect("there is traffic");
    assert_eq!(choice.on_demand.micros(), 86_136);
    // 221,000 requests in 2,592,000 seconds
    assert_eq!(choice.rate_hundredths, 8);
    // One unit of each kind is the least: 720 × 2 × (0.000147 + 0.000735)
    assert_eq!(choice.provisioned.micros(), 1_270_080);
}

#[test]
fn l13_sizes_of_the_store_stand_beside_units_that_were_counted() {
    let indexes = BTreeMap::from([("RestaurantIndex".to_owned(), (10, 20_000))]);
    let stored = BTreeMap::from([("cache".to_owned(), Stored { items: 10, bytes: 1 << 30, indexes })]);
    let report = report(&stored);
    let recovery = report.tables[0].lines.last().expect("there are lines");
    // (2^30 + 10 × 100) bytes × $0.22 a gigabyte
    assert_eq!(recovery.amount.micros(), 220_000);
    assert!(!report.notes.join("\n").contains("was not counted"));
}
