//! What CloudWatch is to watch, whoever is told to set it up.
//!
//! DynamoDB measures errors and latency by table and operation, so an alarm adds up the operations that the
//! system's policies allow. An alarm reads at most ten metrics, and a rate takes two of each operation:
//! `error_rate` becomes one alarm for reads and one for writes. If the rate of all is too high, so is one of
//! these two.
//!
//! - `error_rate` counts what DynamoDB failed at (`SystemErrors`) against all it answered. What it refused (`UserErrors`) it
//!   counts by account and region, not by table: one more alarm sets these against what the tables answered, where an
//!   account that others use shows too high a rate.
//! - `latency` is the slowest operation's average.
//! - `throttles` watches each table and each index, which are throttled apart.
//! - `hit_rate` needs the names that `metrics` gives to hits and misses, and adds up the entities that have a
//!   source, five in an alarm. `queue` and `stuck` need theirs, and add up the entities that write behind or lease.
//!
//! `for 5m` is one period of five minutes: a system with a request every other minute is watched too. Silence is
//! no alarm.

use super::iam;
use crate::grants::is_behind;
use crate::origin::Origins;
use crate::schema::*;
use crate::value::number_to_f64;

/// The longest period of an alarm.
const PERIOD_SECONDS_MAX: i64 = 86_400;
/// An alarm reads so many metrics.
const METRICS_MAX: usize = 10;
/// A hit rate takes two of each entity.
const HIT_RATE_ENTITIES_MAX: usize = METRICS_MAX / 2;

pub(super) const DYNAMODB: &str = "AWS/DynamoDB";

/// One alarm.
pub(super) struct MetricAlarm<'a> {
    /// In snake case, unlike that of any other alarm here.
    pub(super) name: String,
    /// The `file:line` that asks for it.
    pub(super) place: Option<String>,
    /// What the number is.
    pub(super) what: String,
    pub(super) metrics: Vec<Metric<'a>>,
    /// Metric math over the ids of the metrics.
    pub(super) expression: String,
    pub(super) period_seconds: i64,
    pub(super) above: bool,
    pub(super) threshold: f64,
    /// The table that it watches, if it is one.
    pub(super) table: Option<&'a Table>,
    /// Where what it watches lives, if the schema says.
    pub(super) region: Option<&'a str>,
}

pub(super) struct Metric<'a> {
    pub(super) id: String,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) statistic: &'static str,
    pub(super) dimensions: Vec<(&'static str, Dimension<'a>)>,
}

pub(super) enum Dimension<'a> {
    /// What the store calls this table.
    Table(&'a Table),
    Text(&'a str),
}

impl MetricAlarm<'_> {
    pub(super) fn description(&self) -> String {
        let side = if self.above { "above" } else { "below" };
        format!("{}: {side} {}", self.what, self.threshold)
    }

    pub(super) fn comparison(&self) -> &'static str {
        if self.above { "GreaterThanThreshold" } else { "LessThanThreshold" }
    }
}

/// The alarms of these tables, and what was asked for and cannot be watched. What belongs to the whole system is
/// among the alarms only where it is asked for.
pub(super) fn watches<'a>(
    schema: &'a Schema,
    origins: &Origins<'_>,
    tables: &[&'a Table],
    with_system: bool,
) -> (Vec<MetricAlarm<'a>>, Vec<String>) {
    let (mut made, mut left_out) = (Vec::<MetricAlarm<'a>>::new(), Vec::new());
    for (at, alarm) in schema.alarms.iter().enumerate() {
        let of_tables =
            |one: fn(&'a Schema, &'a Alarm, &'a Table) -> Vec<MetricAlarm<'a>>| -> Vec<MetricAlarm<'a>> {
                tables.iter().flat_map(|table| one(schema, alarm, table)).collect()
            };
        let watches = match alarm.metric {
            AlarmMetric::ErrorRate => {
                let refused = with_system.then(|| user_error_rate(schema, alarm, tables)).flatten();
                of_tables(error_rate).into_iter().chain(refused).collect()
            }
            AlarmMetric::Latency => of_tables(latency),
            AlarmMetric::Throttles => of_tables(throttles),
            AlarmMetric::HitRate if with_system => hit_rate(schema, alarm),
            AlarmMetric::Queue if with_system => queue(schema, alarm),
            AlarmMetric::Stuck if with_system => stuck(schema, alarm),
            AlarmMetric::HitRate | AlarmMetric::Queue | AlarmMetric::Stuck => continue,
        };
        let place = origins.alarm(at);
        if watches.is_empty() {
            let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
            left_out.push(format!("{place}`{}`: {}", alarm.metric.name(), why_not(schema, alarm.metric)));
            continue;
        }
        for mut watch in watches {
            watch.place.clone_from(&place);
            watch.name = free_name(&made, &watch.name);
            made.push(watch);
        }
    }
    (made, left_out)
}

/// Why an alarm watches nothing.
fn why_not(schema: &Schema, metric: AlarmMetric) -> String {
    let (needed, of_none) = match metric {
        AlarmMetric::ErrorRate | AlarmMetric::Latency | AlarmMetric::Throttles => ("", true),
        AlarmMetric::HitRate => ("hit NAME and miss NAME", cached(schema).is_empty()),
        AlarmMetric::Queue => ("queue NAME", behind(schema).is_empty()),
        AlarmMetric::Stuck => ("stuck NAME", leased(schema).is_empty()),
    };
    match of_none {
        true => "there is nothing to watch".to_owned(),
        false => {
            format!("no CloudWatch metric is named for it: write {needed} in `metrics \"NAMESPACE\" {{ … }}`")
        }
    }
}

fn free_name(made: &[MetricAlarm<'_>], wanted: &str) -> String {
    std::iter::once(wanted.to_owned())
        .chain((2..).map(|number| format!("{wanted}_{number}")))
        .find(|name| made.iter().all(|other| other.name != *name))
        .expect("there are more numbers than alarms")
}

fn error_rate<'a>(schema: &'a Schema, alarm: &'a Alarm, table: &'a Table) -> Vec<MetricAlarm<'a>> {
    let (reads, writes) = iam::operations(schema, table);
    let kinds = [("read", "reads", reads), ("write", "writes", writes)];
    let kinds = kinds.into_iter().filter(|(_, _, operations)| !operations.is_empty());
    let made = kinds.map(|(kind, words, operations)| {
        let failed = by_operation(table, &operations, "failed", "SystemErrors", "Sum");
        let done = by_operation(table, &operations, "done", "SuccessfulRequestLatency", "SampleCount");
        let sum = |name: &str| filled(name, operations.len()).join(" + ");
        let (all_failed, all_done) = (sum("failed"), sum("done"));
        let expression = format!(
            "IF({all_failed} + {all_done} > 0, 100 * ({all_failed}) / ({all_failed} + {all_done}), 0)"
        );
        MetricAlarm {
            name: format!("{}_table_{kind}_error_rate", table.name),
            what: format!("percent of {words} of `{}` failed", table.name),
            metrics: failed.chain(done).collect(),
            expression,
            table: Some(table),
            region: table.region.as_deref(),
            ..MetricAlarm::of(alarm)
        }
    });
    made.collect()
}

/// What DynamoDB refused in the region of the first table, against what its tables there answered. None when that is
/// more than an alarm can read.
fn user_error_rate<'a>(
    schema: &'a Schema,
    alarm: &'a Alarm,
    tables: &[&'a Table],
) -> Option<MetricAlarm<'a>> {
    let region = tables.first()?.region.as_deref();
    let here = tables.iter().filter(|table| table.region.as_deref() == region);
    let mut metrics: Vec<Metric<'a>> = here
        .flat_map(|table| {
            let (reads, writes) = iam::operations(schema, table);
            let operations = [reads, writes].concat();
            by_operation(table, &operations, "done", "SuccessfulRequestLatency", "SampleCount")
                .collect::<Vec<_>>()
        })
        .collect();
    if metrics.is_empty() || metrics.len() >= METRICS_MAX {
        return None;
    }
    for (at, metric) in metrics.iter_mut().enumerate() {
        metric.id = format!("done{at}");
    }
    let done = filled("done", metrics.len()).join(" + ");
    let refused = "FILL(refused, 0)";
    metrics.push(Metric {
        id: "refused".to_owned(),
        namespace: DYNAMODB,
        name: "UserErrors",
        statistic: "Sum",
        dimensions: Vec::new(),
    });
    Some(MetricAlarm {
        name: "user_error_rate".to_owned(),
        what: format!(
            "percent of requests that DynamoDB refused the account, of those that {} made",
            schema.system
        ),
        metrics,
        expression: format!("IF({refused} + {done} > 0, 100 * {refused} / ({refused} + {done}), 0)"),
        region,
        ..MetricAlarm::of(alarm)
    })
}

fn latency<'a>(schema: &'a Schema, alarm: &'a Alarm, table: &'a Table) -> Vec<MetricAlarm<'a>> {
    let (mut operations, writes) = iam::operations(schema, table);
    operations.extend(writes);
    if operations.is_empty() {
        return Vec::new();
    }
    let expression = if alarm.above {
        format!("MAX([{}])", filled("took", operations.len()).join(", "))
    } else {
        // An operation that nobody asked for is not a quick one.
        let names: Vec<_> = (0..operations.len()).map(|at| format!("took{at}")).collect();
        format!("MIN([{}])", names.join(", "))
    };
    vec![MetricAlarm {
        name: format!("{}_table_latency", table.name),
        what: format!("average milliseconds of an operation on `{}`", table.name),
        metrics: by_operation(table, &operations, "took", "SuccessfulRequestLatency", "Average").collect(),
        expression,
        table: Some(table),
        region: table.region.as_deref(),
        ..MetricAlarm::of(alarm)
    }]
}

fn throttles<'a>(_: &'a Schema, alarm: &'a Alarm, table: &'a Table) -> Vec<MetricAlarm<'a>> {
    let indexes = table.indexes.iter().map(|index| Some(index.name.as_str()));
    let made = std::iter::once(None).chain(indexes).map(|index| {
        let metrics = ["ReadThrottleEvents", "WriteThrottleEvents"].into_iter().enumerate();
        let metrics = metrics.map(|(at, name)| Metric {
            id: format!("throttled{at}"),
            namespace: DYNAMODB,
            name,
            statistic: "Sum",
            dimensions: of_index(table, index),
        });
        let (name, what) = match index {
            Some(index) => (format!("_{index}"), format!(" on index {index}")),
            None => (String::new(), String::new()),
        };
        MetricAlarm {
            name: format!("{}_table{name}_throttles", table.name),
            what: format!("throttled requests of `{}`{what}", table.name),
            metrics: metrics.collect(),
            expression: filled("throttled", 2).join(" + "),
            table: Some(table),
            region: table.region.as_deref(),
            ..MetricAlarm::of(alarm)
        }
    });
    made.collect()
}

fn hit_rate<'a>(schema: &'a Schema, alarm: &'a Alarm) -> Vec<MetricAlarm<'a>> {
    let Some((namespace, hit, miss)) = hits_and_misses(schema) else { return Vec::new() };
    let entities = cached(schema);
    let made = entities.chunks(HIT_RATE_ENTITIES_MAX).map(|entities| {
        let of_each = |id: &'static str, name: &'a str| {
            let named = entities.iter().enumerate();
            named.map(move |(at, entity)| layer_metric(schema, entity, format!("{id}{at}"), namespace, name))
        };
        let sum = |id: &str| filled(id, entities.len()).join(" + ");
        let (hits, misses) = (sum("hits"), sum("misses"));
        MetricAlarm {
            name: "hit_rate".to_owned(),
            what: format!("percent of reads of {} answered without the source", schema.system),
            metrics: of_each("hits", hit).chain(of_each("misses", miss)).collect(),
            // Without a request there is no rate, and no alarm.
            expression: format!("100 * ({hits}) / ({hits} + {misses})"),
            region: schema.tables.first().and_then(|table| table.region.as_deref()),
            ..MetricAlarm::of(alarm)
        }
    });
    made.collect()
}

fn queue<'a>(schema: &'a Schema, alarm: &'a Alarm) -> Vec<MetricAlarm<'a>> {
    let what = format!("writes of {} waiting behind", schema.system);
    by_entity(schema, alarm, MetricKind::Queue, &behind(schema), "Maximum", "queue", &what)
}

fn stuck<'a>(schema: &'a Schema, alarm: &'a Alarm) -> Vec<MetricAlarm<'a>> {
    let what = format!("leases of {} that ran out", schema.system);
    by_entity(schema, alarm, MetricKind::Stuck, &leased(schema), "Sum", "stuck", &what)
}

/// The sum of one metric of the layer over these entities, as many in an alarm as it reads.
fn by_entity<'a>(
    schema: &'a Schema,
    alarm: &'a Alarm,
    kind: MetricKind,
    entities: &[&'a Entity],
    statistic: &'static str,
    name: &'static str,
    what: &str,
) -> Vec<MetricAlarm<'a>> {
    let Some(metrics) = &schema.metrics else { return Vec::new() };
    let Some(metric) = metric_name(schema, kind) else { return Vec::new() };
    let made = entities.chunks(METRICS_MAX).map(|entities| {
        let metrics = entities.iter().enumerate().map(|(at, entity)| Metric {
            statistic,
            ..layer_metric(schema, entity, format!("{name}{at}"), &metrics.namespace, metric)
        });
        MetricAlarm {
            name: name.to_owned(),
            what: what.to_owned(),
            metrics: metrics.collect(),
            expression: filled(name, entities.len()).join(" + "),
            region: schema.tables.first().and_then(|table| table.region.as_deref()),
            ..MetricAlarm::of(alarm)
        }
    });
    made.collect()
}

/// The entities whose writes wait behind.
pub(super) fn behind(schema: &Schema) -> Vec<&Entity> {
    let all = schema.tables.iter().flat_map(|table| &table.entities);
    all.filter(|entity| is_behind(entity)).collect()
}

/// The entities with a state that is leased.
pub(super) fn leased(schema: &Schema) -> Vec<&Entity> {
    let all = schema.tables.iter().flat_map(|table| &table.entities);
    all.filter(|entity| {
        let mut states = entity.lifecycles.iter().flat_map(|lifecycle| &lifecycle.states);
        states.any(|state| state.lease_millis.is_some())
    })
    .collect()
}

/// The namespace, and the names of hits and misses in it, if the schema gives all three.
pub(super) fn hits_and_misses(schema: &Schema) -> Option<(&str, &str, &str)> {
    let namespace = schema.metrics.as_ref()?.namespace.as_str();
    Some((namespace, metric_name(schema, MetricKind::Hit)?, metric_name(schema, MetricKind::Miss)?))
}

pub(super) fn metric_name(schema: &Schema, kind: MetricKind) -> Option<&str> {
    let names = &schema.metrics.as_ref()?.names;
    Some(names.iter().find(|(known, _)| *known == kind)?.1.as_str())
}

/// The entities that are read with a source behind them.
pub(super) fn cached(schema: &Schema) -> Vec<&Entity> {
    let all = schema.tables.iter().flat_map(|table| &table.entities);
    all.filter(|entity| entity.source.is_some()).collect()
}

/// A metric as the layer tells it: by system and entity.
fn layer_metric<'a>(
    schema: &'a Schema,
    entity: &'a Entity,
    id: String,
    namespace: &'a str,
    name: &'a str,
) -> Metric<'a> {
    let dimensions =
        vec![("System", Dimension::Text(&schema.system)), ("Entity", Dimension::Text(&entity.name))];
    Metric { id, namespace, name, statistic: "Sum", dimensions }
}

impl<'a> MetricAlarm<'a> {
    fn of(alarm: &Alarm) -> Self {
        let threshold = match &alarm.threshold {
            Threshold::Percent(number) | Threshold::Count(number) => number_to_f64(number),
            Threshold::Millis(millis) => *millis as f64,
        };
        Self {
            name: String::new(),
            place: None,
            what: String::new(),
            metrics: Vec::new(),
            expression: String::new(),
            period_seconds: period_seconds(alarm),
            above: alarm.above,
            threshold,
            table: None,
            region: None,
        }
    }
}

/// A period is a number of whole minutes.
pub(super) fn period_seconds(alarm: &Alarm) -> i64 {
    let seconds = alarm.lasting_millis.unwrap_or(0) / 1000;
    ((seconds + 59) / 60 * 60).clamp(60, PERIOD_SECONDS_MAX)
}

/// `FILL(name0, 0)` and so on: an operation nobody asked for counts as nothing.
fn filled(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("FILL({name}{at}, 0)")).collect()
}

fn by_operation<'a>(
    table: &'a Table,
    operations: &[&'static str],
    id: &'static str,
    name: &'static str,
    statistic: &'static str,
) -> impl Iterator<Item = Metric<'a>> {
    operations.iter().enumerate().map(move |(at, operation)| Metric {
        id: format!("{id}{at}"),
        namespace: DYNAMODB,
        name,
        statistic,
        dimensions: vec![("TableName", Dimension::Table(table)), ("Operation", Dimension::Text(operation))],
    })
}

fn of_index<'a>(table: &'a Table, index: Option<&'a str>) -> Vec<(&'static str, Dimension<'a>)> {
    let table = std::iter::once(("TableName", Dimension::Table(table)));
    let index = index.map(|index| ("GlobalSecondaryIndexName", Dimension::Text(index)));
    table.chain(index).collect()
}
