//! CloudWatch alarms and budgets, as CloudFormation takes them.
//!
//! DynamoDB measures errors and latency by table and operation, so an alarm adds up the operations that the
//! system's policies allow. An alarm reads at most ten metrics, and a rate takes two of each operation:
//! `error_rate` becomes one alarm for reads and one for writes. If the rate of all is too high, so is one of
//! these two.
//!
//! - `error_rate` counts what DynamoDB failed at (`SystemErrors`) against all it answered. It counts user errors
//!   by account, not by table, so these are not in it.
//! - `latency` is the slowest operation's average.
//! - `throttles` watches each table and each index, which are throttled apart.
//! - `hit_rate` needs the names that `metrics` gives to hits and misses. `stuck` and `queue` have no CloudWatch
//!   metric.
//!
//! `for 5m` is one period of five minutes: a system with a request every other minute is watched too. Silence is
//! no alarm.

use serde_json::{Value as Json, json};

use super::iam;
use crate::schema::*;
use crate::value::number_to_f64;

/// The longest period of an alarm.
const PERIOD_SECONDS_MAX: i64 = 86_400;

/// A resource's logical name and its properties.
type Named = (String, Json);

/// The alarms that an `alarms` line asks for. Tables come with their logical names. None when CloudWatch has nothing to watch.
pub(super) fn alarms(schema: &Schema, alarm: &Alarm, tables: &[(&Table, String)]) -> Vec<Named> {
    let of_tables = |one: fn(&Schema, &Alarm, &Table, &str) -> Vec<Named>| {
        tables.iter().flat_map(|(table, id)| one(schema, alarm, table, id)).collect()
    };
    match alarm.metric {
        AlarmMetric::ErrorRate => of_tables(error_rate),
        AlarmMetric::Latency => of_tables(latency),
        AlarmMetric::Throttles => of_tables(throttles),
        AlarmMetric::HitRate => hit_rate(schema, alarm).into_iter().collect(),
        AlarmMetric::Stuck | AlarmMetric::Queue => Vec::new(),
    }
}

fn error_rate(schema: &Schema, alarm: &Alarm, table: &Table, id: &str) -> Vec<Named> {
    let (reads, writes) = iam::operations(schema, table);
    let kinds = [("Read", "reads", reads), ("Write", "writes", writes)];
    let kinds = kinds.into_iter().filter(|(_, _, operations)| !operations.is_empty());
    let made = kinds.map(|(kind, words, operations)| {
        let failed = operations.iter().enumerate().map(|(at, operation)| {
            metric(&format!("failed{at}"), "SystemErrors", "Sum", alarm, &by_operation(id, operation))
        });
        let done = operations.iter().enumerate().map(|(at, operation)| {
            let dimensions = by_operation(id, operation);
            metric(&format!("done{at}"), "SuccessfulRequestLatency", "SampleCount", alarm, &dimensions)
        });
        let metrics: Vec<Json> = failed.chain(done).collect();
        let sum = |name: &str| filled(name, operations.len()).join(" + ");
        let (failed, done) = (sum("failed"), sum("done"));
        let expression = format!("IF({failed} + {done} > 0, 100 * ({failed}) / ({failed} + {done}), 0)");
        let what = format!("percent of {words} of `{}` failed", table.name);
        (format!("{id}{kind}ErrorRateAlarm"), properties(alarm, &what, metrics, &expression))
    });
    made.collect()
}

fn latency(schema: &Schema, alarm: &Alarm, table: &Table, id: &str) -> Vec<Named> {
    let (mut operations, writes) = iam::operations(schema, table);
    operations.extend(writes);
    if operations.is_empty() {
        return Vec::new();
    }
    let metrics = operations.iter().enumerate().map(|(at, operation)| {
        let dimensions = by_operation(id, operation);
        metric(&format!("took{at}"), "SuccessfulRequestLatency", "Average", alarm, &dimensions)
    });
    let expression = if alarm.above {
        format!("MAX([{}])", filled("took", operations.len()).join(", "))
    } else {
        // An operation that nobody asked for is not a quick one.
        let names: Vec<_> = (0..operations.len()).map(|at| format!("took{at}")).collect();
        format!("MIN([{}])", names.join(", "))
    };
    let what = format!("average milliseconds of an operation on `{}`", table.name);
    vec![(format!("{id}LatencyAlarm"), properties(alarm, &what, metrics.collect(), &expression))]
}

fn throttles(_: &Schema, alarm: &Alarm, table: &Table, id: &str) -> Vec<Named> {
    let indexes = table.indexes.iter().map(|index| Some(index.name.as_str()));
    let made = std::iter::once(None).chain(indexes).map(|index| {
        let mut dimensions = vec![dimension("TableName", &json!({"Ref": id}))];
        dimensions.extend(index.map(|index| dimension("GlobalSecondaryIndexName", &json!(index))));
        let metrics = ["ReadThrottleEvents", "WriteThrottleEvents"].iter().enumerate();
        let metrics =
            metrics.map(|(at, name)| metric(&format!("throttled{at}"), name, "Sum", alarm, &dimensions));
        let what = match index {
            Some(index) => format!("throttled requests of `{}` on index {index}", table.name),
            None => format!("throttled requests of `{}`", table.name),
        };
        let name: String = index.unwrap_or("").chars().filter(char::is_ascii_alphanumeric).collect();
        let expression = filled("throttled", 2).join(" + ");
        (format!("{id}{name}ThrottlesAlarm"), properties(alarm, &what, metrics.collect(), &expression))
    });
    made.collect()
}

fn hit_rate(schema: &Schema, alarm: &Alarm) -> Option<Named> {
    let metrics = schema.metrics.as_ref()?;
    let named = |kind| Some(metrics.names.iter().find(|(known, _)| *known == kind)?.1.as_str());
    let (hit, miss) = (named(MetricKind::Hit)?, named(MetricKind::Miss)?);
    let one = |id: &str, name: &str| {
        let mut shown = metric(id, name, "Sum", alarm, &[]);
        shown["MetricStat"]["Metric"]["Namespace"] = json!(metrics.namespace);
        shown
    };
    // Without a request there is no rate, and no alarm.
    let expression = "100 * FILL(hits, 0) / (FILL(hits, 0) + FILL(misses, 0))";
    let what = format!("percent of reads of {} answered without the source", schema.system);
    let metrics = vec![one("hits", hit), one("misses", miss)];
    Some(("HitRateAlarm".to_owned(), properties(alarm, &what, metrics, expression)))
}

/// `FILL(name0, 0)` and so on: an operation nobody asked for counts as nothing.
fn filled(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("FILL({name}{at}, 0)")).collect()
}

fn by_operation(table_id: &str, operation: &str) -> [Json; 2] {
    [dimension("TableName", &json!({"Ref": table_id})), dimension("Operation", &json!(operation))]
}

fn dimension(name: &str, value: &Json) -> Json {
    json!({"Name": name, "Value": value})
}

fn metric(id: &str, name: &str, statistic: &str, alarm: &Alarm, dimensions: &[Json]) -> Json {
    let mut metric = json!({"Namespace": "AWS/DynamoDB", "MetricName": name});
    if !dimensions.is_empty() {
        metric["Dimensions"] = json!(dimensions);
    }
    json!({
        "Id": id,
        "MetricStat": {"Metric": metric, "Period": period_seconds(alarm), "Stat": statistic},
        "ReturnData": false,
    })
}

/// A period is a number of whole minutes.
fn period_seconds(alarm: &Alarm) -> i64 {
    let seconds = alarm.lasting_millis.unwrap_or(0) / 1000;
    ((seconds + 59) / 60 * 60).clamp(60, PERIOD_SECONDS_MAX)
}

fn properties(alarm: &Alarm, what: &str, mut metrics: Vec<Json>, expression: &str) -> Json {
    metrics.push(json!({"Id": "watched", "Expression": expression, "Label": what, "ReturnData": true}));
    let threshold = match &alarm.threshold {
        Threshold::Percent(number) | Threshold::Count(number) => number_to_f64(number),
        Threshold::Millis(millis) => *millis as f64,
    };
    let (comparison, words) =
        if alarm.above { ("GreaterThanThreshold", "above") } else { ("LessThanThreshold", "below") };
    json!({
        "AlarmDescription": format!("{what}: {words} {threshold}"),
        "ComparisonOperator": comparison,
        "EvaluationPeriods": 1,
        "Metrics": metrics,
        "Threshold": plain(threshold),
        "TreatMissingData": "notBreaching",
    })
}

/// `5`, not `5.0`.
fn plain(number: f64) -> Json {
    if number.fract() == 0.0 && number.abs() < 1e15 { json!(number as i64) } else { json!(number) }
}

/// One budget for what DynamoDB costs the account in a month, with a message at each amount.
pub(super) fn budget(schema: &Schema, topic: &Json) -> Option<Json> {
    let amounts: Vec<f64> = schema.budgets.iter().map(number_to_f64).collect();
    let most = amounts.iter().copied().reduce(f64::max)?;
    let notifications: Vec<Json> = amounts
        .iter()
        .map(|amount| {
            json!({
                "Notification": {
                    "ComparisonOperator": "GREATER_THAN",
                    "NotificationType": "ACTUAL",
                    "Threshold": plain(*amount),
                    "ThresholdType": "ABSOLUTE_VALUE",
                },
                "Subscribers": [{"SubscriptionType": "SNS", "Address": topic}],
            })
        })
        .collect();
    Some(json!({
        "Budget": {
            "BudgetLimit": {"Amount": plain(most), "Unit": "USD"},
            "BudgetType": "COST",
            "CostFilters": {"Service": ["Amazon DynamoDB"]},
            "TimeUnit": "MONTHLY",
        },
        "NotificationsWithSubscribers": notifications,
    }))
}
