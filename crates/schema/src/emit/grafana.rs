//! A Grafana dashboard on Prometheus: what the cache saves, and what each table does, as `larder serve` and the data
//! layer tell it at `/metrics`.
//!
//! Which Prometheus is asked when the dashboard is opened. Names are those of one environment. A line on a graph is an
//! alarm's. JSON has no comments: the description of a panel names the schema's line.

use serde_json::{Value as Json, json};

use super::alarms::cached;
use super::dashboard::cost_of_call;
use super::prometheus::hit_rate;
use crate::origin::Origins;
use crate::schema::*;
use crate::span::SourceFile;
use crate::value::number_to_f64;

/// A dashboard is 24 columns wide.
const WIDTH: u32 = 24;
const PANEL_WIDTH: u32 = 8;
const PANEL_HEIGHT: u32 = 8;
/// What Grafana makes as long as the resolution of a graph needs.
const WINDOW: &str = "$__rate_interval";

/// A dashboard, as Grafana imports it.
pub fn grafana(
    schema: &Schema,
    files: &[SourceFile],
    environment: &Environment,
) -> Result<Json, Vec<EnvironmentError>> {
    let setups = schema.tables(environment)?;
    let origins = Origins::new(files);
    let mut board = Board { schema, origins: &origins, panels: Vec::new(), x: 0, y: 0 };
    board.cache();
    for (table, setup) in schema.tables.iter().zip(&setups) {
        board.table(table, setup);
    }
    Ok(json!({
        "title": format!("Larder: {}", schema.system),
        "description": schema.docs.join(" ").trim(),
        "uid": format!("larder-{}", super::names::cut(&schema.system, 33)),
        "tags": ["larder", schema.system],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{
            "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus",
        }]},
        "panels": board.panels,
    }))
}

struct Board<'a> {
    schema: &'a Schema,
    origins: &'a Origins<'a>,
    panels: Vec<Json>,
    x: u32,
    y: u32,
}

struct Panel<'a> {
    title: &'a str,
    /// Grafana's word for a unit.
    unit: &'a str,
    /// Queries and their legends.
    queries: Vec<(String, &'a str)>,
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
        self.row(&format!("Cache of {}", schema.system));
        let system = format!("{{system={}}}", json!(schema.system));
        self.panel(Panel {
            title: "Hit rate",
            unit: "percent",
            queries: vec![(hit_rate(&system, WINDOW), "hit rate")],
            alarm: Some(AlarmMetric::HitRate),
        });
        let saved =
            |labels: &str| format!("sum by (entity) (rate(larder_saved_calls_total{labels}[{WINDOW}]))");
        let mut queries = vec![(saved(&system), "{{entity}}: calls saved a second")];
        for entity in &entities {
            if let Some(cost) = cost_of_call(schema, entity) {
                let labels = format!("{{system={},entity={}}}", json!(schema.system), json!(entity.name));
                queries.push((
                    format!("{cost} * 3600 * {}", saved(&labels)),
                    "{{entity}}: dollars saved an hour",
                ));
            }
        }
        self.panel(Panel { title: "Saved calls", unit: "short", queries, alarm: None });
        let quantile = |share: &str| {
            let buckets = format!("rate(larder_cache_latency_seconds_bucket{system}[{WINDOW}])");
            format!("histogram_quantile({share}, sum by (entity, le) ({buckets}))")
        };
        let queries = vec![
            (quantile("0.5"), "{{entity}} p50"),
            (quantile("0.9"), "{{entity}} p90"),
            (quantile("0.99"), "{{entity}} p99"),
        ];
        self.panel(Panel { title: "Latency of the cache", unit: "s", queries, alarm: None });
    }

    fn table(&mut self, table: &Table, setup: &TableSetup) {
        let name = setup.definition.name.as_str();
        let place = self.origins.table(&table.name).map(|place| format!(" · {place}")).unwrap_or_default();
        self.row(&format!("{name}{place}"));
        let labels = format!("{{table={}}}", json!(name));
        let rate = |metric: &str| format!("rate(larder_{metric}{labels}[{WINDOW}])");
        let sum = |metric: &str| format!("sum({})", rate(metric));
        let by_operation = |metric: &str| format!("sum by (operation) ({})", rate(metric));
        self.panel(Panel {
            title: "Units a second",
            unit: "short",
            queries: vec![
                (sum("consumed_read_capacity_units_total"), "read"),
                (sum("consumed_write_capacity_units_total"), "write"),
            ],
            alarm: None,
        });
        let latency = "successful_request_latency_seconds";
        let average = format!(
            "{} / {}",
            by_operation(&format!("{latency}_sum")),
            by_operation(&format!("{latency}_count"))
        );
        let buckets = rate(&format!("{latency}_bucket"));
        self.panel(Panel {
            title: "Latency",
            unit: "s",
            queries: vec![
                (average, "{{operation}} average"),
                (
                    format!("histogram_quantile(0.99, sum by (operation, le) ({buckets}))"),
                    "{{operation}} p99",
                ),
            ],
            alarm: Some(AlarmMetric::Latency),
        });
        let throttled =
            format!("sum by (operation) (increase(larder_throttled_requests_total{labels}[{WINDOW}]))");
        self.panel(Panel {
            title: "Throttles",
            unit: "short",
            queries: vec![(throttled, "{{operation}}")],
            alarm: Some(AlarmMetric::Throttles),
        });
        self.panel(Panel {
            title: "Requests a second",
            unit: "reqps",
            queries: vec![(by_operation(&format!("{latency}_count")), "{{operation}}")],
            alarm: None,
        });
        self.panel(Panel {
            title: "Errors a second",
            unit: "short",
            queries: vec![
                (by_operation("system_errors_total"), "{{operation}}: system"),
                (by_operation("user_errors_total"), "{{operation}}: user"),
                (sum("conditional_check_failed_requests_total"), "conditions that failed"),
            ],
            alarm: None,
        });
        if setup.ttl_attribute.is_some() {
            self.panel(Panel {
                title: "Expired a second",
                unit: "short",
                queries: vec![(sum("time_to_live_deleted_items_total"), "expired")],
                alarm: None,
            });
        }
    }

    fn panel(&mut self, panel: Panel<'_>) {
        let Panel { title, unit, queries, alarm } = panel;
        let datasource = json!({"type": "prometheus", "uid": "${datasource}"});
        let targets = queries.iter().zip('A'..).map(|((query, legend), letter)| {
            json!({
                "refId": letter.to_string(), "expr": query, "legendFormat": legend, "datasource": datasource,
            })
        });
        let mut defaults = json!({"unit": unit, "min": 0});
        let mut description = None;
        let declared = |(_, one): &(usize, &Alarm)| Some(one.metric) == alarm;
        if let Some((at, alarm)) = self.schema.alarms.iter().enumerate().find(declared) {
            let value = match &alarm.threshold {
                Threshold::Percent(number) | Threshold::Count(number) => number_to_f64(number),
                Threshold::Millis(millis) => *millis as f64 / 1000.0,
            };
            defaults["thresholds"] = json!({"mode": "absolute", "steps": [
                {"color": "green", "value": null}, {"color": "red", "value": value},
            ]});
            defaults["custom"] = json!({"thresholdsStyle": {"mode": "line"}});
            description = self.origins.alarm(at).map(|place| format!("The line is an alarm's: {place}"));
        }
        let targets: Vec<Json> = targets.collect();
        if self.x + PANEL_WIDTH > WIDTH {
            self.x = 0;
            self.y += PANEL_HEIGHT;
        }
        let mut shown = json!({
            "id": self.panels.len() + 1,
            "type": "timeseries",
            "title": title,
            "datasource": datasource,
            "gridPos": {"x": self.x, "y": self.y, "w": PANEL_WIDTH, "h": PANEL_HEIGHT},
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
            "targets": targets,
        });
        if let Some(description) = description {
            shown["description"] = json!(description);
        }
        self.panels.push(shown);
        self.x += PANEL_WIDTH;
    }

    fn row(&mut self, title: &str) {
        if self.x > 0 {
            self.x = 0;
            self.y += PANEL_HEIGHT;
        }
        self.panels.push(json!({
            "id": self.panels.len() + 1,
            "type": "row",
            "title": title,
            "collapsed": false,
            "gridPos": {"x": 0, "y": self.y, "w": WIDTH, "h": 1},
            "panels": [],
        }));
        self.y += 1;
    }
}
