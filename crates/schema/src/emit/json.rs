//! The canonical JSON form, for tools that are not ours.
//!
//! Two schemas that mean the same have the same JSON: keys are sorted, settings are filled in, durations are
//! milliseconds, sizes bytes, numbers that must stay exact are text. [`JSON_SCHEMA`] describes it.

use serde_json::{Map, Value as Json, json};

use crate::equation::Expr;
use crate::schema::*;
use crate::value::Value;

/// The published JSON Schema of the form.
pub const JSON_SCHEMA: &str = include_str!("../../schema.json");

/// The schema as JSON.
pub fn json(schema: &Schema) -> Json {
    object([
        ("larder", json!(1)),
        ("system", json!(schema.system)),
        ("docs", docs(&schema.docs)),
        ("naming", json!(format!("{:?}", schema.naming).to_lowercase())),
        (
            "version",
            schema.version.map_or(
                Json::Null,
                |version| json!({"number": version.number, "keep_ms": version.keep_millis}),
            ),
        ),
        ("params", list(&schema.params, param)),
        (
            "types",
            list(&schema.types, |kind| {
                object([
                    ("name", json!(kind.name)),
                    ("docs", docs(&kind.docs)),
                    ("open", json!(kind.open)),
                    ("fields", list(&kind.fields, field)),
                ])
            }),
        ),
        ("sources", list(&schema.sources, source)),
        ("store", store(&schema.store)),
        ("tables", list(&schema.tables, table)),
        (
            "grants",
            list(
                &schema.grants,
                |grant| json!({"name": grant.name, "actions": grant.actions.iter().map(|action| action.name()).collect::<Vec<_>>(), "tables": grant.tables}),
            ),
        ),
        (
            "alarms",
            list(&schema.alarms, |alarm| {
                let (unit, value) = match &alarm.threshold {
                    Threshold::Percent(number) => ("percent", number.to_string()),
                    Threshold::Millis(millis) => ("ms", millis.to_string()),
                    Threshold::Count(number) => ("count", number.to_string()),
                };
                json!({"metric": alarm.metric.name(), "above": alarm.above, "value": value, "unit": unit, "lasting_ms": alarm.lasting_millis})
            }),
        ),
        ("budgets_usd", list(&schema.budgets, |budget| json!(budget.to_string()))),
        ("workload", schema.workload.as_ref().map_or(Json::Null, workload)),
        (
            "metrics",
            schema.metrics.as_ref().map_or(Json::Null, |metrics| {
                let names: Map<String, Json> =
                    metrics.names.iter().map(|(kind, name)| (kind.name().to_owned(), json!(name))).collect();
                json!({"namespace": metrics.namespace, "names": names})
            }),
        ),
    ])
}

fn object<const N: usize>(pairs: [(&str, Json); N]) -> Json {
    let mut pairs = pairs;
    pairs.sort_by_key(|(name, _)| *name);
    Json::Object(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn list<T>(items: &[T], one: impl Fn(&T) -> Json) -> Json {
    Json::Array(items.iter().map(one).collect())
}

fn docs(lines: &[String]) -> Json {
    if lines.is_empty() { Json::Null } else { json!(lines.join("\n")) }
}

fn value(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!(text),
        Value::Number(number) => json!(number.to_string()),
        Value::Float(float) => json!(float),
        Value::Bool(value) => json!(value),
        Value::Instant(instant) => json!(instant.to_string()),
        Value::Date(date) => json!(date.to_string()),
        Value::Datetime(datetime) => json!(datetime.to_string()),
        Value::Duration(duration) => json!({"ms": i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)}),
        Value::List(values) => list(values, self::value),
        Value::Map(map) => {
            Json::Object(map.iter().map(|(name, value)| (name.clone(), self::value(value))).collect())
        }
        Value::Zoned(_) | Value::Bytes(_) | Value::Raw(_) => Json::Null,
    }
}

fn param(param: &Param) -> Json {
    object([
        ("name", json!(param.name)),
        ("docs", docs(&param.docs)),
        ("type", json!(param.kind.name())),
        ("default", value(&param.default)),
        ("variable", json!(param.variable)),
        ("unit", json!(param.unit.map(Unit::name))),
    ])
}

fn source(source: &Source) -> Json {
    object([
        ("name", json!(source.name)),
        ("docs", docs(&source.docs)),
        ("cost_usd", json!(source.cost.map(|cost| cost.to_string()))),
        ("latency_ms", json!(source.latency_millis.map(|(a, b)| [a, b]))),
        ("timeout_ms", json!(source.timeout_millis.map(|(a, b)| [a, b]))),
        (
            "pace",
            source.pace.map_or(
                Json::Null,
                |pace| json!({"calls": pace.calls, "per_ms": pace.per_millis, "burst": pace.burst}),
            ),
        ),
        ("retry", source.retry.map_or(Json::Null, retry)),
        ("breaker", source.breaker.map_or(Json::Null, breaker)),
    ])
}

fn store(store: &StoreLimits) -> Json {
    let (short, long) = store.timeout_millis;
    object([
        ("timeout_ms", json!([short, long])),
        ("retry", retry(store.retry)),
        ("breaker", store.breaker.map_or(Json::Null, breaker)),
    ])
}

fn breaker(breaker: Breaker) -> Json {
    json!({"failures": breaker.failures, "rest_ms": breaker.rest_millis})
}

fn retry(retry: Retry) -> Json {
    json!({"attempts": retry.attempts, "backoff_ms": [retry.backoff_millis.0, retry.backoff_millis.1]})
}

/// A plain enum's name as the language writes it: `ReadThrough` is `read_through`.
fn word(value: &impl std::fmt::Debug) -> String {
    let mut out = String::new();
    for (at, c) in format!("{value:?}").chars().enumerate() {
        if c.is_ascii_uppercase() && at > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn param_text(text: &ParamText) -> Json {
    Json::Array(
        text.0
            .iter()
            .map(|part| match part {
                ParamPart::Text(text) => json!({"text": text}),
                ParamPart::Param(name) => json!({"param": name}),
            })
            .collect(),
    )
}

fn table(table: &Table) -> Json {
    object([
        ("name", json!(table.name)),
        ("docs", docs(&table.docs)),
        ("stored_name", param_text(&table.stored_name)),
        ("region", json!(table.region)),
        ("partition_key", key_attribute(&table.partition)),
        ("sort_key", table.sort.as_ref().map_or(Json::Null, key_attribute)),
        ("ttl_attribute", json!(table.ttl.as_ref().map(|ttl| &ttl.attribute))),
        (
            "billing",
            match table.billing {
                Billing::OnDemand => json!({"mode": "on_demand"}),
                Billing::Provisioned { read, write } => {
                    json!({"mode": "provisioned", "read": read, "write": write})
                }
            },
        ),
        ("pitr_days", json!(table.pitr.map(|pitr| pitr.days))),
        (
            "encryption",
            match &table.encryption {
                Encryption::AwsOwned => json!({"key": "aws_owned"}),
                Encryption::AwsManaged => json!({"key": "aws_managed"}),
                Encryption::Kms(key) => json!({"key": "kms", "kms_key": key}),
            },
        ),
        ("on_delete", json!(word(&table.on_delete))),
        ("strict", json!(table.strict)),
        (
            "class",
            json!(match table.class {
                TableClass::Standard => "standard",
                TableClass::StandardInfrequentAccess => "infrequent",
            }),
        ),
        (
            "stream",
            json!(table.stream.map(|stream| match stream {
                StreamView::KeysOnly => "keys",
                StreamView::NewImage => "new",
                StreamView::OldImage => "old",
                StreamView::NewAndOldImages => "both",
            })),
        ),
        (
            "tags",
            Json::Object(table.tags.iter().map(|(name, text)| (name.clone(), param_text(text))).collect()),
        ),
        (
            "indexes",
            list(&table.indexes, |index| {
                object([
                    ("name", json!(index.name)),
                    ("alias", json!(index.alias)),
                    ("docs", docs(&index.docs)),
                    ("partition_key", list(&index.partition, key_attribute)),
                    ("sort_key", list(&index.sort, key_attribute)),
                    ("hot", json!(index.hot)),
                    (
                        "projection",
                        match &index.projection {
                            Projection::All => json!({"type": "all"}),
                            Projection::Keys => json!({"type": "keys"}),
                            Projection::Include(names) => json!({"type": "include", "attributes": names}),
                        },
                    ),
                ])
            }),
        ),
        ("entities", list(&table.entities, entity)),
        (
            "collections",
            list(
                &table.collections,
                |collection| json!({"name": collection.name, "docs": docs(&collection.docs), "members": collection.members}),
            ),
        ),
    ])
}

fn key_attribute(key: &KeyAttribute) -> Json {
    json!({"name": key.name, "attribute": key.attribute, "type": key.kind.name()})
}

fn key_source(source: &KeySource) -> Json {
    match source {
        KeySource::Template(template) => json!({"template": template.source()}),
        KeySource::Field(name) => json!({"field": name}),
    }
}

fn entity(entity: &Entity) -> Json {
    object([
        ("name", json!(entity.name)),
        ("docs", docs(&entity.docs)),
        ("source", json!(entity.source)),
        ("partition_key", key_source(&entity.partition)),
        ("sort_key", entity.sort.as_ref().map_or(Json::Null, key_source)),
        (
            "ttl",
            match &entity.ttl {
                None => Json::Null,
                Some(Ttl::After { millis }) => json!({"ms": millis}),
                Some(Ttl::Param(name)) => json!({"param": name}),
                Some(Ttl::Value(expression)) => json!({"expression": expression.source()}),
            },
        ),
        ("policy", policy(&entity.policy)),
        ("fields", list(&entity.fields, field)),
        ("lifecycles", list(&entity.lifecycles, lifecycle)),
    ])
}

fn policy(policy: &Policy) -> Json {
    object([
        (
            "writes",
            match policy.writes {
                Writes::Through => json!({"mode": "through"}),
                Writes::Behind { drain_millis, queue } => {
                    json!({"mode": "behind", "drain_ms": drain_millis, "queue": queue})
                }
            },
        ),
        ("on_error", json!(word(&policy.on_error))),
        (
            "oversize",
            json!({"first": word(&policy.oversize.first), "otherwise": policy.oversize.otherwise.map(|step| word(&step))}),
        ),
        ("l1", policy.l1.map_or(Json::Null, |l1| json!({"ms": l1.millis, "bytes_max": l1.bytes_max}))),
        ("reads", json!(word(&policy.reads))),
        ("scan", json!(word(&policy.scan))),
        ("log", list(&policy.log, |event| json!(word(event)))),
        ("stale_ms", json!(policy.stale_millis)),
        ("grace_ms", json!(policy.grace_millis)),
        ("refresh_percent", json!(policy.refresh_percent)),
        ("negative_ms", json!(policy.negative_millis)),
        ("jitter_percent", json!(policy.jitter_percent)),
        ("versions", json!(policy.versions)),
        ("flight_ms", json!(policy.flight_millis)),
        ("compress_over", json!(policy.compress_over)),
        (
            "labels",
            list(&policy.labels, |label| match label {
                Label::Field(name) => json!({"field": name}),
                Label::Template(template) => json!({"template": template.source()}),
            }),
        ),
        (
            "record_violations_in",
            match &policy.checks {
                CheckMode::Strict => Json::Null,
                CheckMode::Record(name) => json!(name),
            },
        ),
    ])
}

fn field(field: &Field) -> Json {
    object([
        ("name", json!(field.name)),
        ("docs", docs(&field.docs)),
        ("attribute", if field.is_stored() { json!(field.attribute) } else { Json::Null }),
        ("role", json!(word(&field.role))),
        ("type", json!(field.kind.to_string())),
        ("optional", json!(field.optional)),
        ("equation", json!(field.equation.as_ref().map(Expr::source))),
        ("on_create", json!(field.on_create)),
        ("checks", checks(&field.checks)),
    ])
}

fn checks(checks: &Checks) -> Json {
    let mut out = Map::new();
    if let Some(pattern) = &checks.pattern {
        out.insert("match".into(), json!(pattern.as_str()));
    }
    if let Some(range) = &checks.range {
        let text = |end: Option<larder_model::Number>| end.map(|number| number.to_string());
        out.insert(
            "in".into(),
            json!({"min": text(range.min), "max": text(range.max), "max_included": range.max_included}),
        );
    }
    if let Some((min, max)) = checks.len {
        out.insert("len".into(), json!({"min": min, "max": max}));
    }
    for (name, set) in [
        ("positive", checks.positive),
        ("nonempty", checks.nonempty),
        ("lower", checks.lower),
        ("upper", checks.upper),
        ("secret", checks.secret),
    ] {
        if set {
            out.insert(name.into(), json!(true));
        }
    }
    if let Some(default) = &checks.default {
        out.insert("default".into(), value(default));
    }
    if let Some((millis, from)) = &checks.valid {
        out.insert("valid".into(), json!({"ms": millis, "from": from}));
    }
    Json::Object(out)
}

fn lifecycle(lifecycle: &Lifecycle) -> Json {
    object([
        ("name", json!(lifecycle.name)),
        ("docs", docs(&lifecycle.docs)),
        ("attribute", json!(lifecycle.attribute)),
        ("states", list(&lifecycle.states, |state| {
            json!({"name": state.name, "docs": docs(&state.docs), "template": state.template.source(), "lease_ms": state.lease_millis, "due_ms": state.due_millis})
        })),
        ("transitions", list(&lifecycle.transitions, |transition| {
            let set = transition.set.iter().map(|(name, value)| json!({"field": name, "value": value.as_ref().map(Expr::source)}));
            json!({"name": transition.name, "docs": docs(&transition.docs), "from": transition.from, "to": transition.to, "set": set.collect::<Vec<_>>()})
        })),
        ("ready", json!(lifecycle.ready.as_ref().map(Expr::source))),
        ("lease", lifecycle.lease.as_ref().map_or(Json::Null, |lease| {
            json!({"owner": lease.owner, "until": lease.until, "fence": lease.fence, "attempts": lease.attempts})
        })),
        ("retry", lifecycle.retry.map_or(Json::Null, retry)),
    ])
}

fn workload(workload: &Workload) -> Json {
    let rate = |rate: Option<Rate>| {
        rate.map(|rate| json!({"from": rate.from, "to": rate.to, "per": rate.per.name()}))
    };
    object([
        ("requests", json!(rate(workload.requests))),
        ("reads", json!(rate(workload.reads))),
        ("writes", json!(rate(workload.writes))),
        ("hit_rate_percent", json!(workload.hit_rate_percent.map(|rate| rate.to_string()))),
        ("item_bytes", json!(workload.item_bytes)),
        ("stored_bytes", json!(workload.stored_bytes)),
    ])
}
