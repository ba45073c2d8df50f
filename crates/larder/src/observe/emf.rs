//! CloudWatch's embedded metric format: a line of JSON that CloudWatch Logs turns into metrics.
//!
//! On Lambda such a line on standard output is enough. Names and namespace are the schema's; a kind it does not
//! name is left out, and so is a line without any.

use larder_model::UnixTime;
use larder_schema::schema::{MetricKind, Metrics};
use serde_json::{Map, Value, json};

/// One line. `dimensions` part the metrics, `properties` are there to be searched for.
///
/// ```
/// use larder::UnixTime;
/// use larder::emf;
/// use larder_schema::schema::{MetricKind, Metrics};
///
/// let metrics = Metrics {
///     namespace: "WeatherForecastAPI".to_owned(),
///     names: vec![(MetricKind::Hit, "CacheHit".to_owned())],
/// };
/// let line = emf::line(
///     &metrics,
///     &[("Entity", "Forecast")],
///     &[("cache_key", "weather_1")],
///     &[(MetricKind::Hit, 1.0)],
///     UnixTime::from_millis(0),
/// );
/// assert!(line.unwrap().contains(r#""CacheHit":1.0"#));
/// ```
pub fn line(
    metrics: &Metrics,
    dimensions: &[(&str, &str)],
    properties: &[(&str, &str)],
    values: &[(MetricKind, f64)],
    now: UnixTime,
) -> Option<String> {
    let mut line = Map::new();
    let mut described = Vec::new();
    for (kind, value) in values {
        let Some((_, name)) = metrics.names.iter().find(|(named, _)| named == kind) else { continue };
        described.push(json!({ "Name": name, "Unit": unit(*kind) }));
        line.insert(name.clone(), json!(value));
    }
    if described.is_empty() {
        return None;
    }
    for (name, text) in dimensions.iter().chain(properties) {
        line.insert((*name).to_owned(), json!(text));
    }
    let names: Vec<&str> = dimensions.iter().map(|(name, _)| *name).collect();
    let directive = json!({ "Namespace": metrics.namespace, "Dimensions": [names], "Metrics": described });
    line.insert("_aws".to_owned(), json!({ "Timestamp": now.millis(), "CloudWatchMetrics": [directive] }));
    Some(Value::Object(line).to_string())
}

fn unit(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Latency => "Milliseconds",
        MetricKind::Hit
        | MetricKind::Miss
        | MetricKind::Error
        | MetricKind::Load
        | MetricKind::Write
        | MetricKind::Queue
        | MetricKind::Stuck
        | MetricKind::Saved => "Count",
    }
}
