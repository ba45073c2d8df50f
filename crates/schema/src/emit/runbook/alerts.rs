//! The part of a runbook for when something tells: alarms, logs, budgets.

use std::fmt::Write as _;

use super::{Book, cached, duration_source, hits_and_misses, metric_name, shell};
use crate::schema::*;

/// Each alarm, what it means here, and what to do.
pub(super) fn alarms(book: &Book<'_>, out: &mut String) {
    let schema = book.schema;
    out.push_str("## Alarms\n\n");
    if schema.alarms.is_empty() {
        out.push_str(
            "The schema declares none: `alarms { … }` would. Until then the dashboard is what there is.\n\n",
        );
        return;
    }
    let system = &schema.system;
    shell(
        out,
        &[
            format!(
                "larder export alarms {system} --out {system}-alarms.json # for tables that something else made"
            ),
            format!("larder export prometheus {system} --out {system}-rules.yml # for `larder serve`"),
            "aws cloudwatch describe-alarms --state-value ALARM".to_owned(),
        ],
    );
    for (at, alarm) in schema.alarms.iter().enumerate() {
        let value = match &alarm.threshold {
            Threshold::Percent(number) => format!("{number} %"),
            Threshold::Millis(millis) => duration_source(*millis),
            Threshold::Count(number) => number.to_string(),
        };
        let side = if alarm.above { "above" } else { "below" };
        let lasting = alarm.lasting_millis.map(|millis| format!(" for {}", duration_source(millis)));
        let _ = writeln!(
            out,
            "### {} {side} {value}{}{}\n",
            title(alarm.metric),
            lasting.unwrap_or_default(),
            Book::from(book.origins.alarm(at)),
        );
        for step in steps(book, alarm.metric) {
            let _ = writeln!(out, "- {step}");
        }
        out.push('\n');
    }
}

fn title(metric: AlarmMetric) -> &'static str {
    match metric {
        AlarmMetric::ErrorRate => "Error rate",
        AlarmMetric::HitRate => "Hit rate",
        AlarmMetric::Latency => "Latency",
        AlarmMetric::Throttles => "Throttles",
        AlarmMetric::Stuck => "Stuck work",
        AlarmMetric::Queue => "Writes waiting",
    }
}

fn steps(book: &Book<'_>, metric: AlarmMetric) -> Vec<String> {
    let schema = book.schema;
    let system = &schema.system;
    match metric {
        AlarmMetric::ErrorRate => {
            let (open, closed): (Vec<_>, Vec<_>) =
                book.entities().partition(|(_, entity)| entity.policy.on_error == OnError::Open);
            let names = |entities: &[(&Table, &Entity)]| {
                let names: Vec<&str> = entities.iter().map(|(_, entity)| entity.name.as_str()).collect();
                names.join(", ")
            };
            let mut steps = vec![format!(
                "`larder doctor {system}` says whether the store, the credentials or the schema is at fault."
            )];
            if !open.is_empty() {
                steps.push(format!(
                    "Readers of {} go on with the source: watch its cost and pace.",
                    names(&open)
                ));
            }
            if !closed.is_empty() {
                steps.push(format!("Readers and writers of {} see the errors.", names(&closed)));
            }
            steps.push("All tables at once: look at the AWS Health Dashboard, and wait; the SDK tries again. One table: look at its status and its KMS key.".to_owned());
            steps
        }
        AlarmMetric::Latency => {
            let mut steps = vec![
                "The dashboard says which operation. A scan or a query of large pages is slow by itself: ask for fewer, or project less.".to_owned(),
                "One key or all? One: its item is large or hot. All: look at the network between the program and the region.".to_owned(),
            ];
            let l1: Vec<&str> = book
                .entities()
                .filter(|(_, entity)| entity.policy.l1.is_none() && entity.source.is_some())
                .map(|(_, entity)| entity.name.as_str())
                .collect();
            if !l1.is_empty() {
                steps.push(format!("`l1 1m` would keep {} in the process.", l1.join(", ")));
            }
            steps
        }
        AlarmMetric::Throttles => {
            let mut steps = Vec::new();
            for (table, setup) in schema.tables.iter().zip(book.setups) {
                let (name, region) = (&setup.definition.name, Book::region(setup));
                steps.push(match table.billing {
                    Billing::OnDemand => format!(
                        "`{name}` is paid by request: a throttle means one hot partition (over 3000 read or 1000 write units a second), or a sudden doubling. `aws dynamodb update-contributor-insights --table-name {name} --contributor-insights-action ENABLE{region}` names the keys."
                    ),
                    Billing::Provisioned { read, write } => format!(
                        "`{name}` has {read} read and {write} write units: raise `billing` and apply, or pay by request."
                    ),
                });
                for index in table.indexes.iter().filter(|index| index.hot) {
                    steps.push(format!(
                        "Index {} of `{name}` has few partition values by design: look there first.",
                        index.name
                    ));
                }
            }
            steps
        }
        AlarmMetric::HitRate => {
            let lives = cached(schema).into_iter().filter_map(|entity| {
                let ttl = entity.ttl.as_ref()?;
                Some(format!("{} lives {}", entity.name, crate::symbols::ttl_text(ttl)))
            });
            let lives: Vec<String> = lives.collect();
            vec![
                format!("Was something invalidated, or the TTL shortened? {}.", lives.join(", ")),
                "Do keys vary more than the data does? The log query below lists the misses by reason."
                    .to_owned(),
                "`larder cost` with `--hit-rate` says what it costs to live with it.".to_owned(),
            ]
        }
        AlarmMetric::Stuck => vec![
            "`larder stuck` lists the leases that ran out; `larder release` gives one back.".to_owned(),
            "Find out why their workers died before you release many.".to_owned(),
        ],
        AlarmMetric::Queue => vec![
            "The store is slower than what is written behind. Look at its latency and throttles first."
                .to_owned(),
            "A full queue loses writes, and says so in the log; a process that ends drains its queue."
                .to_owned(),
        ],
    }
}

/// Queries for CloudWatch Logs Insights, on what programs of the data layer write.
pub(super) fn logs(schema: &Schema, out: &mut String) {
    if cached(schema).is_empty() {
        return;
    }
    out.push_str(
        "## Log queries\n\nFor CloudWatch Logs Insights, on structured lines with `message`, `cache_key` and `latency_ms` at their top.\n\n",
    );
    let mut query = |title: &str, text: String| {
        let _ = writeln!(out, "{title}:\n\n```\n{text}\n```\n");
    };
    query(
        "Hits and misses",
        "fields @timestamp, message\n| filter message like /(?i)cache (hit|miss)/\n| stats count() as requests by message\n| sort requests desc".to_owned(),
    );
    query(
        "Latency of hits",
        "fields @timestamp, latency_ms\n| filter message like /(?i)cache hit/\n| stats avg(latency_ms) as avg, pct(latency_ms, 50) as p50, pct(latency_ms, 99) as p99".to_owned(),
    );
    query(
        "Misses by reason",
        "filter message like /(?i)cache miss/\n| stats count() as misses by entity, reason\n| sort misses desc".to_owned(),
    );
    query(
        "Failures of the store or the source",
        "fields @timestamp, entity, cache_key, reason\n| filter message in [\"store failed\", \"source failed\", \"write lost\"]\n| sort @timestamp desc\n| limit 100".to_owned(),
    );
    if let Some((_, hit, miss)) = hits_and_misses(schema) {
        let system = &schema.system;
        query(
            "Hit rate by entity and hour, from embedded metrics",
            format!(
                "filter System = \"{system}\" and (ispresent({hit}) or ispresent({miss}))\n| stats sum({hit}) as hits, sum({miss}) as misses, 100 * sum({hit}) / count(*) as hit_percent by Entity, bin(1h)"
            ),
        );
        if let Some(latency) = metric_name(schema, MetricKind::Latency) {
            query(
                "The slowest reads, from embedded metrics",
                format!(
                    "fields @timestamp, Entity, cache_key, {latency}\n| filter System = \"{system}\" and ispresent({latency})\n| sort {latency} desc\n| limit 20"
                ),
            );
        }
    }
}

/// What it costs, and what to do when a budget is reached.
pub(super) fn costs(book: &Book<'_>, out: &mut String) {
    let schema = book.schema;
    let system = &schema.system;
    out.push_str("## Costs\n\n");
    let mut lines = match &schema.workload {
        Some(_) => vec![
            format!("larder cost {system} # from the workload that the schema declares"),
            format!("larder cost {system} --from-store # with the sizes of the tables as they are"),
        ],
        None => vec![format!(
            "larder cost {system} --reads 1M --writes 100K # a month; the schema declares no workload"
        )],
    };
    if !schema.budgets.is_empty() {
        lines.push(format!("larder export budgets {system} --out {system}-budget.json"));
        lines.push(format!(
            "aws cloudformation deploy --template-file {system}-budget.json --stack-name {}-budget \\\n  --parameter-overrides NotificationTopicArn=TOPIC_ARN",
            book.stack_name()
        ));
    }
    shell(out, &lines);
    if !schema.budgets.is_empty() {
        let amounts: Vec<String> = schema.budgets.iter().map(|amount| format!("${amount}")).collect();
        let _ = writeln!(
            out,
            "Somebody is told when DynamoDB has cost {} in a month{}. Compare the bill with `larder cost`: more requests than \
             declared, a scan that somebody runs, or an index that nobody asks. `larder cost` says when provisioned \
             units would be cheaper.\n",
            amounts.join(", "),
            Book::from(book.origins.budget()),
        );
    }
}
