//! Prometheus alerting rules: the alarms of a system, on what `larder serve` and the data layer tell at `/metrics`.
//!
//! They mean what the alarms in CloudWatch mean, with these differences:
//!
//! - `error_rate` has the user errors in it, because here they are counted by table.
//! - `hit_rate`, `queue` and `stuck` need no names from the schema.
//! - `throttles` of a table are those of its indexes too.
//!
//! `for 5m` is a window of five minutes. Silence is no alarm.

use serde_json::json;

use super::alarms::{self, cached};
use super::names;
use crate::origin::Origins;
use crate::schema::*;
use crate::span::SourceFile;
use crate::value::number_to_f64;

/// A file of alerting rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// As Prometheus takes it.
    pub yaml: String,
    /// What the schema asks for and no metric tells, and why. Comments in the file say it too.
    pub left_out: Vec<String>,
}

/// The alerting rules of a system in this environment. None when there is nothing to watch.
///
/// ```
/// use larder_schema::{Environment, NoFiles, Schema, emit};
///
/// let text = "
/// system keiba
/// table races {
///   key  race_id
///   entity Race { race_id: string nonempty }
/// }
/// alarms { throttles > 0 }
/// ";
/// let loaded = Schema::load("keiba.larder", text, &mut NoFiles, &Environment::new());
/// let schema = loaded.schema.expect("there is nothing wrong with it");
/// let rules = emit::prometheus(&schema, &loaded.files, &Environment::new()).expect("the name fits");
/// let wanted = r#"sum(increase(larder_throttled_requests_total{table="races"}[1m])) > 0"#;
/// assert!(rules.expect("there is an alarm").yaml.contains(wanted));
/// ```
pub fn prometheus(
    schema: &Schema,
    files: &[SourceFile],
    environment: &Environment,
) -> Result<Option<Rules>, Vec<EnvironmentError>> {
    let setups = schema.tables(environment)?;
    let origins = Origins::new(files);
    let (mut rules, mut left_out) = (String::new(), Vec::new());
    for (at, alarm) in schema.alarms.iter().enumerate() {
        let place = origins.alarm(at);
        let made = made(schema, &setups, alarm);
        if made.is_empty() {
            let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
            left_out.push(format!("{place}`{}`: there is nothing to watch", alarm.metric.name()));
            continue;
        }
        for rule in made {
            if let Some(place) = &place {
                rules.push_str(&format!("      # {place}\n"));
            }
            rules.push_str(&rule.yaml(schema));
        }
    }
    if rules.is_empty() {
        return Ok(None);
    }
    let mut yaml =
        format!("# Written by `larder export prometheus {}`. Change the schema instead.\n", schema.system);
    yaml.push_str("# A window needs two readings: scrape at least every 30 seconds.\n");
    for line in &left_out {
        yaml.push_str(&format!("# Left out: {line}\n"));
    }
    yaml.push_str(&format!("groups:\n  - name: {}\n    rules:\n{rules}", json!(schema.system)));
    Ok(Some(Rules { yaml, left_out }))
}

struct Rule {
    name: String,
    table: Option<String>,
    expression: String,
    /// What the number is.
    what: String,
    /// How long it has to be so, where the expression has no window.
    lasting: Option<String>,
    above: bool,
    threshold: f64,
}

impl Rule {
    fn yaml(&self, schema: &Schema) -> String {
        let sign = if self.above { '>' } else { '<' };
        let side = if self.above { "above" } else { "below" };
        let mut out = format!("      - alert: {}\n        expr: |-\n", self.name);
        out.push_str(&format!("          {} {sign} {}\n", self.expression, self.threshold));
        if let Some(lasting) = &self.lasting {
            out.push_str(&format!("        for: {lasting}\n"));
        }
        out.push_str(&format!("        labels:\n          system: {}\n", json!(schema.system)));
        if let Some(table) = &self.table {
            out.push_str(&format!("          table: {}\n", json!(table)));
        }
        let summary = format!("{}: {side} {}", self.what, self.threshold);
        out.push_str(&format!("        annotations:\n          summary: {}\n", json!(summary)));
        out.push_str("          description: \"It is {{ $value }}.\"\n");
        out
    }
}

fn made(schema: &Schema, setups: &[TableSetup], alarm: &Alarm) -> Vec<Rule> {
    let window = minutes(alarm);
    let system = format!("{{system={}}}", json!(schema.system));
    let of_tables = |one: fn(&str, &str) -> String, name: &str, what: &str, threshold: f64| -> Vec<Rule> {
        let made = setups.iter().map(|setup| {
            let table = setup.definition.name.as_str();
            Rule {
                name: format!("{}{}{name}", names::pascal(&schema.system), names::pascal(&setup.table)),
                table: Some(table.to_owned()),
                expression: one(&format!("{{table={}}}", json!(table)), &window),
                what: format!("{what} `{}`", setup.table),
                lasting: None,
                above: alarm.above,
                threshold,
            }
        });
        made.collect()
    };
    let of_system = |name: &str, what: String, expression: String, lasting: Option<String>| Rule {
        name: format!("{}{name}", names::pascal(&schema.system)),
        table: None,
        expression,
        what,
        lasting,
        above: alarm.above,
        threshold: threshold(alarm),
    };
    match alarm.metric {
        AlarmMetric::ErrorRate => {
            of_tables(error_rate, "ErrorRate", "percent of requests that failed on", threshold(alarm))
        }
        AlarmMetric::Latency => {
            let seconds = threshold(alarm) / 1000.0;
            of_tables(latency, "Latency", "average seconds of an operation on", seconds)
        }
        AlarmMetric::Throttles => {
            of_tables(throttles, "Throttles", "throttled requests of", threshold(alarm))
        }
        AlarmMetric::HitRate if cached(schema).is_empty() => Vec::new(),
        AlarmMetric::HitRate => {
            let what = format!("percent of reads of {} answered without the source", schema.system);
            vec![of_system("HitRate", what, hit_rate(&system, &window), None)]
        }
        AlarmMetric::Queue if alarms::behind(schema).is_empty() => Vec::new(),
        AlarmMetric::Queue => {
            let what = format!("writes of {} waiting behind", schema.system);
            let expression = format!("sum(larder_queue_depth{system})");
            vec![of_system("Queue", what, expression, alarm.lasting_millis.map(|_| window.clone()))]
        }
        AlarmMetric::Stuck if alarms::leased(schema).is_empty() => Vec::new(),
        AlarmMetric::Stuck => {
            let what = format!("leases of {} that ran out", schema.system);
            let expression = format!("sum(increase(larder_stuck_total{system}[{window}]))");
            vec![of_system("Stuck", what, expression, None)]
        }
    }
}

fn threshold(alarm: &Alarm) -> f64 {
    match &alarm.threshold {
        Threshold::Percent(number) | Threshold::Count(number) => number_to_f64(number),
        Threshold::Millis(millis) => *millis as f64,
    }
}

/// The window of an alarm: `5m`.
fn minutes(alarm: &Alarm) -> String {
    format!("{}m", alarms::period_seconds(alarm) / 60)
}

fn error_rate(table: &str, window: &str) -> String {
    // A counter that never counted is not there; its absence would make the sum absent.
    let rate = |name: &str| format!("(sum(rate({name}{table}[{window}])) or vector(0))");
    let failed =
        format!("{}\n            + {}", rate("larder_system_errors_total"), rate("larder_user_errors_total"));
    let done = rate("larder_successful_request_latency_seconds_count");
    format!(
        "100 * (\n            {failed}\n          ) / (\n            {failed}\n            + {done}\n          )"
    )
}

fn latency(table: &str, window: &str) -> String {
    let rate = |end: &str| {
        let name = format!("larder_successful_request_latency_seconds_{end}");
        format!("sum by (operation) (rate({name}{table}[{window}]))")
    };
    format!("max(\n            {}\n            / {}\n          )", rate("sum"), rate("count"))
}

fn throttles(table: &str, window: &str) -> String {
    format!("sum(increase(larder_throttled_requests_total{table}[{window}]))")
}

/// The share of reads that were answered without the source, in percent.
pub(super) fn hit_rate(system: &str, window: &str) -> String {
    let rate = |name: &str| format!("(sum(rate({name}{system}[{window}])) or vector(0))");
    let (hits, misses) = (rate("larder_cache_hits_total"), rate("larder_cache_misses_total"));
    format!("100 * {hits} / ({hits} + {misses})")
}
