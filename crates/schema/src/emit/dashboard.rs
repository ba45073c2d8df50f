//! A CloudWatch dashboard: what the cache saves, and what each table does.
//!
//! Hits, misses and latency of the cache are in the namespace that the schema's `metrics` names, by system and
//! entity, as the data layer tells them. All else is DynamoDB's own. Names are those of one environment. A line on a
//! graph is an alarm's. JSON has no comments: the heading above the graphs of a table, and the title of a graph that
//! has an alarm, name the schema's line.

use serde_json::{Value as Json, json};

use super::alarms::{DYNAMODB, cached, hits_and_misses, metric_name};
use super::iam;
use crate::origin::Origins;
use crate::schema::*;
use crate::span::SourceFile;
use crate::value::number_to_f64;

/// A dashboard is 24 columns wide.
const WIDTH: u32 = 24;
const GRAPH_WIDTH: u32 = 8;
const GRAPH_HEIGHT: u32 = 6;
const HEADING_HEIGHT: u32 = 2;
const PERIOD_SECONDS: u32 = 300;

/// The body of a dashboard, as `aws cloudwatch put-dashboard` takes it. Tables that name no region are looked for in
/// the given one.
pub fn dashboard(
    schema: &Schema,
    files: &[SourceFile],
    environment: &Environment,
    region: &str,
) -> Result<Json, Vec<EnvironmentError>> {
    let setups = schema.tables(environment)?;
    let origins = Origins::new(files);
    let mut board = Board { schema, origins: &origins, widgets: Vec::new(), x: 0, y: 0, region };
    board.cache();
    for (table, setup) in schema.tables.iter().zip(&setups) {
        board.region = table.region.as_deref().unwrap_or(region);
        board.table(table, setup);
    }
    Ok(json!({ "widgets": board.widgets }))
}

struct Board<'a> {
    schema: &'a Schema,
    origins: &'a Origins<'a>,
    widgets: Vec<Json>,
    x: u32,
    y: u32,
    region: &'a str,
}

/// One graph.
struct Graph<'a> {
    title: &'a str,
    /// What the left axis counts.
    unit: &'a str,
    metrics: Vec<Json>,
    statistic: &'a str,
    stacked: bool,
    /// The alarm whose threshold is drawn.
    alarm: Option<AlarmMetric>,
}

impl Board<'_> {
    fn cache(&mut self) {
        let schema = self.schema;
        let entities = cached(schema);
        if entities.is_empty() {
            return;
        }
        let place = self.origins.metrics().map(|place| format!(" · {place}")).unwrap_or_default();
        let Some((namespace, hit, miss)) = hits_and_misses(schema) else {
            self.heading(&format!(
                "## Cache of {}{place}\nThe schema names no metrics for hits and misses, so CloudWatch has none: \
                 `metrics \"NAMESPACE\" {{ hit CacheHit, miss CacheMiss, latency CacheLatency }}` does.",
                schema.system
            ));
            return;
        };
        self.heading(&format!("## Cache of {}{place}\nMetrics in `{namespace}`.", schema.system));
        if let Some(region) = schema.tables.first().and_then(|table| table.region.as_deref()) {
            self.region = region;
        }
        let of_entity = |name: &str, entity: &Entity, about: Json| {
            json!([namespace, name, "System", schema.system, "Entity", entity.name, about])
        };
        let hidden = |id: String| json!({"id": id, "visible": false});
        let sum = |id: &str| {
            let filled: Vec<String> = (0..entities.len()).map(|at| format!("FILL({id}{at}, 0)")).collect();
            filled.join(" + ")
        };
        let (hits, misses) = (sum("hits"), sum("misses"));

        let rate = format!("100 * ({hits}) / ({hits} + {misses})");
        let mut metrics = vec![json!([{"expression": rate, "label": "hit rate", "id": "rate"}])];
        for (at, entity) in entities.iter().enumerate() {
            metrics.push(of_entity(hit, entity, hidden(format!("hits{at}"))));
            metrics.push(of_entity(miss, entity, hidden(format!("misses{at}"))));
        }
        self.graph(Graph {
            title: "Hit rate",
            unit: "percent",
            metrics,
            statistic: "Sum",
            stacked: false,
            alarm: Some(AlarmMetric::HitRate),
        });

        let mut metrics = Vec::new();
        let saved = metric_name(schema, MetricKind::Saved);
        for (at, entity) in entities.iter().enumerate() {
            // A hit that begins a refresh saves no call: where there may be such, hits do not tell.
            let is_each_saved =
                entity.policy.stale_millis.is_none() && entity.policy.refresh_percent.is_none();
            let Some(saved) = saved.or(is_each_saved.then_some(hit)) else { continue };
            let label = format!("{}: calls saved", entity.name);
            metrics.push(of_entity(saved, entity, json!({"id": format!("saved{at}"), "label": label})));
            if let Some(cost) = cost_of_call(schema, entity) {
                let expression = format!("saved{at} * {cost}");
                let label = format!("{}: dollars saved", entity.name);
                let id = format!("dollars{at}");
                metrics.push(json!([{"expression": expression, "label": label, "id": id, "yAxis": "right"}]));
            }
        }
        if !metrics.is_empty() {
            self.graph(Graph {
                title: "Saved calls",
                unit: "calls",
                metrics,
                statistic: "Sum",
                stacked: false,
                alarm: None,
            });
        }

        if let Some(latency) = metric_name(schema, MetricKind::Latency) {
            let of_each = entities.iter().flat_map(|entity| {
                ["p50", "p90", "p99"].map(|statistic| {
                    let label = format!("{} {statistic}", entity.name);
                    of_entity(latency, entity, json!({"stat": statistic, "label": label}))
                })
            });
            let metrics = of_each.collect();
            self.graph(Graph {
                title: "Latency of the cache",
                unit: "milliseconds",
                metrics,
                statistic: "p50",
                stacked: false,
                alarm: None,
            });
        }
        self.new_row();
    }

    fn table(&mut self, table: &Table, setup: &TableSetup) {
        let name = setup.definition.name.as_str();
        let place = self.origins.table(&table.name).map(|place| format!(" · {place}")).unwrap_or_default();
        let docs = table.docs.join(" ");
        self.heading(&format!("## {name}{place}\n{}", docs.trim()));
        let (reads, writes) = iam::operations(self.schema, table);
        let operations: Vec<&str> = reads.iter().chain(&writes).copied().collect();
        let of_table =
            |metric: &str, label: &str| json!([DYNAMODB, metric, "TableName", name, {"label": label}]);
        // The table, and each index, which DynamoDB counts apart.
        let of_parts = |metric: &str, label: &str| {
            let indexes = table.indexes.iter().map(|index| {
                let label = format!("{}: {label}", index.name);
                json!([
                    DYNAMODB, metric, "TableName", name, "GlobalSecondaryIndexName", index.name, {"label": label}
                ])
            });
            std::iter::once(of_table(metric, label)).chain(indexes).collect::<Vec<Json>>()
        };
        let by_operation = |metric: &str| {
            let made = operations.iter().map(|operation| {
                json!([DYNAMODB, metric, "TableName", name, "Operation", operation, {"label": operation}])
            });
            made.collect::<Vec<Json>>()
        };
        let both =
            |reads: &str, writes: &str| [of_parts(reads, "reads"), of_parts(writes, "writes")].concat();
        let graph = |title, unit, metrics, statistic, stacked, alarm| Graph {
            title,
            unit,
            metrics,
            statistic,
            stacked,
            alarm,
        };
        let units = both("ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits");
        self.graph(graph("Units", "units", units, "Sum", false, None));
        let latency = by_operation("SuccessfulRequestLatency");
        if !latency.is_empty() {
            let alarm = Some(AlarmMetric::Latency);
            self.graph(graph("Latency", "milliseconds", latency, "Average", false, alarm));
        }
        let throttles = both("ReadThrottleEvents", "WriteThrottleEvents");
        let alarm = Some(AlarmMetric::Throttles);
        self.graph(graph("Throttles", "requests", throttles, "Sum", true, alarm));
        let mut errors = by_operation("SystemErrors");
        errors.push(of_table("ConditionalCheckFailedRequests", "conditions that failed"));
        // DynamoDB counts these by account.
        errors.push(json!([DYNAMODB, "UserErrors", {"label": "user errors of the account"}]));
        self.graph(graph("Errors", "requests", errors, "Sum", true, None));
        if setup.ttl_attribute.is_some() {
            let expired = vec![of_table("TimeToLiveDeletedItemCount", "expired")];
            self.graph(graph("Expired", "items", expired, "Sum", true, None));
        }
        self.new_row();
    }

    fn graph(&mut self, graph: Graph<'_>) {
        let Graph { title, unit, metrics, statistic, stacked, alarm } = graph;
        let mut title = title.to_owned();
        let mut properties = json!({
            "view": "timeSeries",
            "region": self.region,
            "stat": statistic,
            "period": PERIOD_SECONDS,
            "stacked": stacked,
            "metrics": metrics,
            "yAxis": {"left": {"label": unit, "min": 0, "showUnits": false}},
        });
        let declared = |(_, one): &(usize, &Alarm)| Some(one.metric) == alarm;
        if let Some((at, alarm)) = self.schema.alarms.iter().enumerate().find(declared) {
            let value = match &alarm.threshold {
                Threshold::Percent(number) | Threshold::Count(number) => number_to_f64(number),
                Threshold::Millis(millis) => *millis as f64,
            };
            properties["annotations"] = json!({"horizontal": [{"label": "alarm", "value": value}]});
            if let Some(place) = self.origins.alarm(at) {
                title = format!("{title} · {place}");
            }
        }
        properties["title"] = json!(title);
        if self.x + GRAPH_WIDTH > WIDTH {
            self.new_row();
        }
        self.widgets.push(json!({
            "type": "metric", "x": self.x, "y": self.y, "width": GRAPH_WIDTH, "height": GRAPH_HEIGHT,
            "properties": properties,
        }));
        self.x += GRAPH_WIDTH;
    }

    fn heading(&mut self, markdown: &str) {
        self.widgets.push(json!({
            "type": "text", "x": 0, "y": self.y, "width": WIDTH, "height": HEADING_HEIGHT,
            "properties": {"markdown": markdown.trim_end()},
        }));
        self.y += HEADING_HEIGHT;
    }

    fn new_row(&mut self) {
        if self.x > 0 {
            self.x = 0;
            self.y += GRAPH_HEIGHT;
        }
    }
}

/// Dollars that a call of an entity's source costs.
pub(super) fn cost_of_call<'a>(schema: &'a Schema, entity: &Entity) -> Option<&'a larder_model::Number> {
    schema.source(entity.source.as_ref()?)?.cost.as_ref()
}
