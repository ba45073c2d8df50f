//! `larder docs`: Markdown that a team could have written.

mod without;

use std::fmt::Write as _;

use larder_model::limits::{READ_UNIT_BYTES, WRITE_UNIT_BYTES};

use crate::equation::{Expr, duration_source};
use crate::schema::*;
use crate::symbols::key_example;

/// The documentation of a schema, as Markdown.
pub fn docs(schema: &Schema) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "<!-- Written by `larder docs`. Change the schema instead. -->\n");
    let _ = writeln!(out, "# {}\n", schema.system);
    paragraph(&mut out, &schema.docs);
    overview(&mut out, schema);
    for table in &schema.tables {
        self::table(&mut out, schema, table);
    }
    if !schema.types.is_empty() {
        out.push_str("## Types\n\n");
        for kind in &schema.types {
            let _ = writeln!(out, "### {}\n", kind.name);
            paragraph(&mut out, &kind.docs);
            fields(&mut out, &kind.fields, None);
            if kind.open {
                out.push_str("Other attributes are kept as they are.\n\n");
            }
        }
    }
    sources(&mut out, schema);
    without::without(&mut out, schema);
    store(&mut out, &schema.store);
    operations(&mut out, schema);
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

fn paragraph(out: &mut String, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(out, "{}\n", lines.join("\n"));
    }
}

/// Cells must not end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// A table. A column that says nothing in any row is left out.
fn rows(out: &mut String, head: &[&str], rows: &[Vec<String>]) {
    let told = |column: usize| {
        rows.iter().any(|row| row.get(column).is_some_and(|text| !text.is_empty() && text != "-"))
    };
    let columns: Vec<usize> = (0..head.len()).filter(|column| told(*column)).collect();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&line(columns.iter().map(|column| head[*column].to_owned()).collect()));
    let _ = writeln!(out, "|{}|", vec!["---"; columns.len()].join("|"));
    for row in rows {
        out.push_str(&line(columns.iter().map(|column| cell(&row[*column])).collect()));
    }
    out.push('\n');
}

/// `a Race`, `an Export`.
fn one(name: &str) -> String {
    let vowel = name.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']);
    format!("{} {name}", if vowel { "an" } else { "a" })
}

fn stored_name(text: &ParamText) -> String {
    text.0
        .iter()
        .map(|part| match part {
            ParamPart::Text(text) => text.clone(),
            ParamPart::Param(name) => format!("{{{name}}}"),
        })
        .collect()
}

fn overview(out: &mut String, schema: &Schema) {
    let list: Vec<Vec<String>> = schema
        .tables
        .iter()
        .map(|table| {
            let entities: Vec<&str> = table.entities.iter().map(|entity| entity.name.as_str()).collect();
            vec![
                format!("[{}](#table-{})", table.name, table.name.to_lowercase()),
                format!("`{}`", stored_name(&table.stored_name)),
                entities.join(", "),
                table.docs.join(" "),
            ]
        })
        .collect();
    rows(out, &["table", "name in the store", "holds", "purpose"], &list);
    if !schema.params.is_empty() {
        out.push_str("Names and times depend on the environment:\n\n");
        let list: Vec<Vec<String>> = schema
            .params
            .iter()
            .map(|param| {
                let unit = param.unit.map_or(String::new(), |unit| format!(", in {}", unit.name()));
                let default = Expr::Literal(param.default.clone()).source();
                vec![
                    format!("`{}`", param.name),
                    param.kind.name().to_owned(),
                    format!("`{default}`"),
                    param.variable.as_ref().map_or("-".to_owned(), |name| format!("`{name}`{unit}")),
                    param.docs.join(" "),
                ]
            })
            .collect();
        rows(out, &["param", "type", "default", "variable", ""], &list);
    }
    if let Some(version) = schema.version {
        let keep = version.keep_millis.map_or(String::new(), |keep| {
            format!(" Tables of the one before are kept for {} after a change of version.", spelled(keep))
        });
        let _ = writeln!(out, "This is version {}.{keep}\n", version.number);
    }
}

fn table(out: &mut String, schema: &Schema, table: &Table) {
    let _ = writeln!(out, "## Table {}\n", table.name);
    paragraph(out, &table.docs);
    let mut settings = vec![vec!["name".to_owned(), format!("`{}`", stored_name(&table.stored_name))]];
    settings.push(vec![
        "partition key".into(),
        format!("`{}` ({})", table.partition.attribute, table.partition.kind),
    ]);
    if let Some(sort) = &table.sort {
        settings.push(vec!["sort key".into(), format!("`{}` ({})", sort.attribute, sort.kind)]);
    }
    if let Some(ttl) = &table.ttl {
        settings.push(vec!["TTL".into(), format!("`{}`, in Unix seconds", ttl.attribute)]);
    }
    settings.push(vec![
        "billing".into(),
        match table.billing {
            Billing::OnDemand => "on demand".to_owned(),
            Billing::Provisioned { read, write } => format!("{read} read and {write} write units"),
        },
    ]);
    if let Some(region) = &table.region {
        settings.push(vec!["region".into(), region.clone()]);
    }
    if let Some(pitr) = table.pitr {
        settings.push(vec!["point-in-time recovery".into(), format!("{} days", pitr.days)]);
    }
    settings.push(vec![
        "encryption at rest".into(),
        match &table.encryption {
            Encryption::AwsOwned => "AWS owned key".to_owned(),
            Encryption::AwsManaged => "AWS managed key".to_owned(),
            Encryption::Kms(key) => format!("KMS key `{key}`"),
        },
    ]);
    if table.on_delete == OnDelete::Retain {
        settings.push(vec!["on delete".into(), "retained and protected".into()]);
    }
    if table.strict {
        settings.push(vec!["strict".into(), "holds its entities and nothing else".into()]);
    }
    for (name, value) in &table.tags {
        settings.push(vec![format!("tag {name}"), stored_name(value)]);
    }
    rows(out, &["", ""], &settings);

    out.push_str("### Keys\n\n");
    let mut head = vec!["entity", &table.partition.attribute];
    if let Some(sort) = &table.sort {
        head.push(&sort.attribute);
    }
    head.extend(["example", "lives"]);
    let list: Vec<Vec<String>> = table.entities.iter().map(|entity| key_row(schema, table, entity)).collect();
    rows(out, &head, &list);

    for entity in &table.entities {
        self::entity(out, schema, table, entity);
    }
    if !table.indexes.is_empty() {
        out.push_str("### Indexes\n\n");
        let list: Vec<Vec<String>> = table.indexes.iter().map(index_row).collect();
        rows(out, &["index", "called", "partition key", "sort key", "holds"], &list);
        for index in table.indexes.iter().filter(|index| !index.docs.is_empty()) {
            let _ = writeln!(out, "**{}**: {}\n", index.name, index.docs.join(" "));
        }
    }
    access(out, schema, table);
}

fn key_row(schema: &Schema, table: &Table, entity: &Entity) -> Vec<String> {
    let text = |source: &KeySource| match source {
        KeySource::Template(template) => format!("`{}`", template.source()),
        KeySource::Field(name) => match entity.field(name).and_then(|field| field.equation.as_ref()) {
            Some(Expr::Template(template)) => format!("`{}`", template.source()),
            _ => entity.field(name).map_or_else(|| name.clone(), |field| format!("{}", field.kind)),
        },
    };
    let mut row = vec![entity.name.clone(), text(&entity.partition)];
    let mut example = self::example(entity, &entity.partition);
    if let (Some(_), Some(sort)) = (&table.sort, &entity.sort) {
        row.push(text(sort));
        example = format!("{example}` / `{}", self::example(entity, sort));
    }
    row.push(format!("`{example}`"));
    row.push(match &entity.ttl {
        None => "for ever".to_owned(),
        Some(Ttl::After { millis }) => spelled(*millis),
        Some(Ttl::Param(name)) => {
            let default = schema.param(name).map(|param| Expr::Literal(param.default.clone()).source());
            format!("`{name}`{}", default.map_or(String::new(), |default| format!(", {default} by default")))
        }
        Some(Ttl::Value(moment)) => format!("until `{}`", moment.source()),
    });
    row
}

fn example(entity: &Entity, source: &KeySource) -> String {
    let field = match source {
        KeySource::Field(name) => entity.field(name),
        KeySource::Template(_) => None,
    };
    match field.map(|field| &field.kind) {
        Some(Type::Uuid { .. }) => "7f9c24e8-3b12-4c1e-9f0a-52d7b6c0e1a4".to_owned(),
        _ => key_example(entity, source),
    }
}

fn index_row(index: &Index) -> Vec<String> {
    let names = |parts: &[KeyAttribute]| {
        let parts: Vec<String> =
            parts.iter().map(|part| format!("`{}` ({})", part.attribute, part.kind)).collect();
        if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
    };
    let holds = match &index.projection {
        Projection::All => "everything".to_owned(),
        Projection::Keys => "keys only".to_owned(),
        Projection::Include(names) => {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        }
    };
    vec![format!("`{}`", index.name), index.alias.clone(), names(&index.partition), names(&index.sort), holds]
}

fn entity(out: &mut String, schema: &Schema, table: &Table, entity: &Entity) {
    let _ = writeln!(out, "### {}\n", entity.name);
    paragraph(out, &entity.docs);
    let mut own: Vec<Vec<String>> = Vec::new();
    for (attribute, source) in
        [(Some(&table.partition), Some(&entity.partition)), (table.sort.as_ref(), entity.sort.as_ref())]
    {
        if let (Some(attribute), Some(KeySource::Template(template))) = (attribute, source) {
            own.push(vec![
                format!("`{}`", attribute.attribute),
                attribute.kind.to_string(),
                "yes".into(),
                format!("key: `{}`", template.source()),
            ]);
        }
    }
    if let (Some(ttl), Some(lives)) = (&table.ttl, &entity.ttl) {
        let lives = match lives {
            Ttl::After { millis } => format!("{} after the write", spelled(*millis)),
            Ttl::Param(name) => format!("`{name}` after the write"),
            Ttl::Value(moment) => format!("`{}`", moment.source()),
        };
        let policy = &entity.policy;
        let lives = match policy.stale_millis.max(policy.grace_millis) {
            None => lives,
            Some(extra) => format!("{lives}, and {} that it may be given past its time", spelled(extra)),
        };
        own.push(vec![
            format!("`{}`", ttl.attribute),
            "N".into(),
            "yes".into(),
            format!("Unix seconds: {lives}"),
        ]);
    }
    for lifecycle in &entity.lifecycles {
        own.push(vec![
            format!("`{}`", lifecycle.attribute),
            "S".into(),
            "yes".into(),
            format!("the state of `{}`", lifecycle.name),
        ]);
    }
    fields(out, &entity.fields, Some(own));
    layers_own(out, table, entity);
    let given: Vec<String> = entity
        .fields
        .iter()
        .filter(|field| !field.is_stored())
        .map(|field| match &field.equation {
            Some(equation) => format!("`{}` = `{}`", field.name, equation.source()),
            None => format!("`{}` ({}{})", field.name, typed(&field.kind), check_list(field)),
        })
        .collect();
    if !given.is_empty() {
        let _ = writeln!(out, "Not stored, but used in keys and equations: {}.\n", given.join(", "));
    }
    caching(out, schema, entity);
    for lifecycle in &entity.lifecycles {
        self::lifecycle(out, entity, lifecycle);
    }
}

/// What the layer adds to items besides their fields: whoever reads them without it meets these.
fn layers_own(out: &mut String, table: &Table, entity: &Entity) {
    let policy = &entity.policy;
    let lives = table.ttl.is_some() && entity.ttl.is_some();
    let outlives = lives && (policy.stale_millis.is_some() || policy.grace_millis.is_some());
    let varies = lives && (policy.refresh_percent.is_some() || policy.jitter_percent.is_some());
    let steps = [Some(policy.oversize.first), policy.oversize.otherwise];
    let may = |step: OversizeStep| steps.contains(&Some(step));
    let may_pack = may(OversizeStep::Split) || may(OversizeStep::Compress) || policy.compress_over.is_some();
    let source = entity.source.is_some();
    let has_markers = policy.negative_millis.is_some() || policy.flight_millis.is_some();
    let known: [(bool, &str, &str, &str); 11] = [
        (
            outlives,
            "larder_fresh_until",
            "N",
            "Unix seconds: until then it is fresh; it is removed at its TTL",
        ),
        (outlives || varies, "larder_stored_at", "N", "Unix seconds: when it was written"),
        (source, "larder_etag", "S", "what the source calls this version, if it says so"),
        (source, "larder_last_modified", "S", "when the source last changed it, if it says so"),
        (
            has_markers,
            "larder_absent",
            "S",
            "there is no record: the source has none, or the first one is being fetched",
        ),
        (
            policy.flight_millis.is_some(),
            "larder_flight",
            "N",
            "Unix milliseconds: until then somebody fetches it",
        ),
        (policy.flight_millis.is_some(), "larder_flight_by", "S", "who fetches it"),
        (policy.versions, "larder_version", "N", "one more with each write"),
        (may_pack, "larder_packed", "B", "attributes that are kept compressed"),
        (may(OversizeStep::Split), "larder_parts", "M", "how many items hold the rest, and which"),
        (
            may(OversizeStep::Split),
            "larder_chunk",
            "B",
            "in an item of its own: part of a larger one, and no record",
        ),
    ];
    let known = known.into_iter().filter(|(is_there, ..)| *is_there);
    let mut list: Vec<Vec<String>> = known
        .map(|(_, name, kind, about)| vec![format!("`{name}`"), kind.to_owned(), about.to_owned()])
        .collect();
    for lifecycle in &entity.lifecycles {
        let Some(lease) = &lifecycle.lease else { continue };
        let of = |about: &str| format!("{about} `{}`", lifecycle.name);
        for (name, kind, about) in [
            (&lease.owner, "S", of("who holds the lease of")),
            (&lease.until, "N", of("Unix seconds: until then it is held, or left alone, in")),
            (&lease.fence, "N", of("one more with each claim in")),
            (&lease.attempts, "N", of("claims since the work was last done in")),
            (&format!("larder_{}_from", lifecycle.name), "S", of("the state before the claim in")),
            (&lease.error, "S", of("why the work failed last, until the next claim, in")),
        ] {
            if entity.fields.iter().all(|field| field.attribute != *name) {
                list.push(vec![format!("`{name}`"), kind.to_owned(), about]);
            }
        }
    }
    if !list.is_empty() {
        out.push_str("Larder adds, where it applies:\n\n");
        rows(out, &["attribute", "type", ""], &list);
    }
}

fn fields(out: &mut String, fields: &[Field], first: Option<Vec<Vec<String>>>) {
    let mut list = first.unwrap_or_default();
    for field in fields.iter().filter(|field| field.is_stored()) {
        let mut facts = Vec::new();
        if let Some(equation) = &field.equation {
            facts.push(match (equation.source().as_str(), field.on_create) {
                ("now", true) => "the moment it was made".to_owned(),
                ("now", false) => "the moment of the write".to_owned(),
                (source, true) => format!("computed once: `{source}`"),
                (source, false) => format!("computed: `{source}`"),
            });
        }
        let checks = check_list(field);
        if !checks.is_empty() {
            facts.push(checks.trim_start_matches(", ").to_owned());
        }
        let facts = facts.join("; ");
        let about = match (field.docs.join(" "), facts.is_empty()) {
            (docs, _) if docs.is_empty() => facts,
            (docs, true) => docs,
            (docs, false) => format!("{docs} ({facts})"),
        };
        list.push(vec![
            format!("`{}`", field.attribute),
            format!("{} ({})", typed(&field.kind), field.kind.stored_type()),
            if field.optional || may_be_left_out(field) { "no" } else { "yes" }.to_owned(),
            about,
        ]);
    }
    rows(out, &["attribute", "type", "always", ""], &list);
}

/// A type as text: Markdown takes `<string>` for a tag.
fn typed(kind: &Type) -> String {
    kind.to_string().replace('<', "\\<")
}

/// DynamoDB keeps no empty set.
fn may_be_left_out(field: &Field) -> bool {
    matches!(field.kind, Type::Set(_)) && field.checks.default.is_some()
}

fn check_list(field: &Field) -> String {
    let checks = &field.checks;
    let mut out = String::new();
    let mut add = |text: String| {
        out.push_str(", ");
        out.push_str(&text);
    };
    if let Some(pattern) = &checks.pattern {
        add(format!("matches `{pattern}`"));
    }
    if let Some(range) = &checks.range {
        match (range.min, range.max) {
            (Some(min), Some(max)) if range.max_included => add(format!("{min} to {max}")),
            (Some(min), Some(max)) => add(format!("from {min}, below {max}")),
            (Some(min), None) => add(format!("at least {min}")),
            (None, Some(max)) => {
                add(format!("{} {max}", if range.max_included { "at most" } else { "below" }));
            }
            (None, None) => {}
        }
    }
    match checks.len {
        Some((min, Some(max))) => add(format!("length {min} to {max}")),
        Some((min, None)) => add(format!("length at least {min}")),
        None => {}
    }
    for (set, word) in [
        (checks.positive, "positive"),
        (checks.nonempty, "not empty"),
        (checks.lower, "lower case"),
        (checks.upper, "upper case"),
        (checks.secret, "secret: never logged, shown or kept in memory"),
    ] {
        if set {
            add(word.to_owned());
        }
    }
    if may_be_left_out(field) {
        add("left out when it is empty".to_owned());
    } else if let Some(default) = &checks.default {
        add(format!("`{}` when not given", Expr::Literal(default.clone()).source()));
    }
    if let Some((millis, from)) = &checks.valid {
        add(format!("absent for readers {} after `{from}`", spelled(*millis)));
    }
    out
}

fn caching(out: &mut String, schema: &Schema, entity: &Entity) {
    let policy = &entity.policy;
    let mut lines = Vec::new();
    if let Some(source) = &entity.source {
        let cost = schema
            .source(source)
            .and_then(|source| source.cost)
            .map_or(String::new(), |cost| format!(" (${cost} a call)"));
        lines.push(format!("Read through: what is not there is fetched from `{source}`{cost}."));
    }
    if let Writes::Behind { drain_millis, queue } = policy.writes {
        lines.push(format!(
            "Written after the answer, at most {queue} waiting; the end waits {} for them.",
            spelled(drain_millis)
        ));
    }
    if policy.on_error == OnError::Open {
        lines.push("When the store fails, that is a miss and not an error.".to_owned());
    }
    let step = |step: OversizeStep| match step {
        OversizeStep::Refuse => "refused",
        OversizeStep::Skip => "returned and not stored",
        OversizeStep::Split => "split over several items",
        OversizeStep::Compress => "compressed",
    };
    if policy.oversize.first != OversizeStep::Refuse {
        let otherwise =
            policy.oversize.otherwise.map_or(String::new(), |other| format!(", else {}", step(other)));
        lines.push(format!("A value over 400 KB is {}{otherwise}.", step(policy.oversize.first)));
    }
    if let Some(l1) = policy.l1 {
        lines.push(format!("Kept in the process for {}.", spelled(l1.millis)));
    }
    for (set, text) in [
        (policy.stale_millis, "Given {} past its time while a new one is fetched."),
        (policy.grace_millis, "Given {} past its time when the source fails."),
        (policy.negative_millis, "An absence is remembered for {}."),
        (policy.flight_millis, "One load per key across processes, under a lease of {}."),
    ] {
        if let Some(millis) = set {
            lines.push(text.replace("{}", &spelled(millis)));
        }
    }
    for (set, text) in [
        (policy.refresh_percent, "Fetched again when {} % of its life is over."),
        (policy.jitter_percent, "Lives vary by {} %, so that not all end at once."),
    ] {
        if let Some(percent) = set {
            lines.push(text.replace("{}", &percent.to_string()));
        }
    }
    if let Some(bytes) = policy.compress_over {
        lines.push(format!("Values over {} are stored compressed.", size(bytes)));
    }
    if policy.versions {
        lines.push("Writes carry a version, and lose against a newer one.".to_owned());
    }
    if !policy.labels.is_empty() {
        let labels: Vec<String> = policy
            .labels
            .iter()
            .map(|label| match label {
                Label::Field(name) => format!("`{name}`"),
                Label::Template(template) => format!("`{}`", template.source()),
            })
            .collect();
        lines.push(format!("Can be invalidated by {}, besides its key.", labels.join(", ")));
    }
    if let CheckMode::Record(field) = &policy.checks {
        lines.push(format!("A record that breaks a check is kept, with what it breaks in `{field}`."));
    }
    match policy.scan {
        Scan::Deny => {}
        Scan::Ask => lines.push("A scan shows its price first.".to_owned()),
        Scan::Allow => lines.push("Scans are allowed.".to_owned()),
    }
    if !lines.is_empty() {
        for line in lines {
            let _ = writeln!(out, "- {line}");
        }
        out.push('\n');
    }
}

fn lifecycle(out: &mut String, entity: &Entity, lifecycle: &Lifecycle) {
    let _ = writeln!(out, "#### Lifecycle {} of {}\n", lifecycle.name, entity.name);
    paragraph(out, &lifecycle.docs);
    out.push_str("```mermaid\nstateDiagram-v2\n");
    if let Some(first) = lifecycle.states.first() {
        let _ = writeln!(out, "  [*] --> {}", first.name);
    }
    for transition in &lifecycle.transitions {
        for from in &transition.from {
            let _ = writeln!(out, "  {from} --> {}: {}", transition.to, transition.name);
        }
    }
    for state in &lifecycle.states {
        if !lifecycle.transitions.iter().any(|transition| transition.from.contains(&state.name)) {
            let _ = writeln!(out, "  {} --> [*]", state.name);
        }
    }
    out.push_str("```\n\n");
    let list: Vec<Vec<String>> = lifecycle
        .states
        .iter()
        .map(|state| {
            let lasting = |millis: Option<i64>| millis.map_or("-".to_owned(), spelled);
            vec![
                state.name.clone(),
                format!("`{}`", state.template.source()),
                lasting(state.lease_millis),
                lasting(state.due_millis),
                state.docs.join(" "),
            ]
        })
        .collect();
    rows(out, &["state", "written", "lease", "due again after", ""], &list);
    let list: Vec<Vec<String>> = lifecycle
        .transitions
        .iter()
        .map(|transition| {
            let set: Vec<String> = transition
                .set
                .iter()
                .map(|(name, value)| match value {
                    Some(value) => format!("`{name}` = `{}`", value.source()),
                    None => format!("`{name}` as given"),
                })
                .collect();
            vec![transition.name.clone(), transition.from.join(", "), transition.to.clone(), set.join(", ")]
        })
        .collect();
    rows(out, &["transition", "from", "to", "sets"], &list);
    if let Some(ready) = &lifecycle.ready {
        let _ = writeln!(out, "Ready when `{}`.\n", ready.source());
    }
    if let Some(lease) = &lifecycle.lease {
        let _ = writeln!(
            out,
            "The holder is in `{}`, the end of the lease in `{}` (Unix seconds), the number of the claim in `{}`, the attempts in `{}`.\n",
            lease.owner, lease.until, lease.fence, lease.attempts
        );
    }
}

/// What can be asked, how, and what it costs.
fn access(out: &mut String, schema: &Schema, table: &Table) {
    out.push_str("### Access patterns\n\n");
    let bytes = schema.workload.as_ref().and_then(|workload| workload.item_bytes);
    let reads = |strong: bool| {
        let Some(bytes) = bytes else {
            return if strong { "1 RU for 4 KB" } else { "½ RU for 4 KB" }.to_owned();
        };
        let units = bytes.div_ceil(READ_UNIT_BYTES as u64).max(1);
        if strong { format!("{units} RU") } else { format!("{} RU", half(units)) }
    };
    let writes = |indexes: usize| {
        let Some(bytes) = bytes else {
            return format!(
                "1 WU for 1 KB{}",
                if indexes > 0 { format!(", and up to {indexes} for indexes") } else { String::new() }
            );
        };
        let units = bytes.div_ceil(WRITE_UNIT_BYTES as u64).max(1);
        if indexes > 0 {
            format!("{units} WU, and up to {} for indexes", units * indexes as u64)
        } else {
            format!("{units} WU")
        }
    };
    let mut list: Vec<Vec<String>> = Vec::new();
    for entity in &table.entities {
        let strong = entity.policy.reads == Consistency::Strong;
        list.push(vec![format!("one {} by key", entity.name), "GetItem".into(), reads(strong)]);
        let filled = table
            .indexes
            .iter()
            .filter(|index| {
                index.partition.iter().chain(&index.sort).all(|part| {
                    entity.field(&part.name).is_some()
                        || entity.lifecycles.iter().any(|lifecycle| lifecycle.held_in == part.name)
                })
            })
            .count();
        list.push(vec![format!("store {}", one(&entity.name)), "PutItem".into(), writes(filled)]);
    }
    for collection in &table.collections {
        list.push(vec![
            format!("a {} with all its items ({})", collection.name, collection.members.join(", ")),
            "Query".into(),
            "½ RU for 4 KB".into(),
        ]);
        list.push(vec![
            format!("store {}", one(&collection.name)),
            "TransactWriteItems".into(),
            "2 WU for 1 KB of each item".into(),
        ]);
    }
    for index in &table.indexes {
        let names = |parts: &[KeyAttribute]| {
            parts.iter().map(|part| format!("`{}`", part.attribute)).collect::<Vec<_>>().join(", ")
        };
        let order = if index.sort.is_empty() {
            String::new()
        } else {
            format!(", in order of {}, either way", names(&index.sort))
        };
        list.push(vec![
            format!("{}: by {}{order}", index.alias, names(&index.partition)),
            format!("Query `{}`", index.name),
            "½ RU for 4 KB read".into(),
        ]);
    }
    for entity in &table.entities {
        for lifecycle in &entity.lifecycles {
            for state in &lifecycle.states {
                let index = table
                    .indexes
                    .iter()
                    .find(|index| index.sort.iter().any(|part| part.name == lifecycle.held_in));
                if let (Some(index), Some(millis)) = (index, state.due_millis) {
                    list.push(vec![
                        format!(
                            "{} due for {}: `{}` for over {}",
                            entity.name,
                            lifecycle.name,
                            state.name,
                            spelled(millis)
                        ),
                        format!("Query `{}`", index.name),
                        "½ RU for 4 KB read".into(),
                    ]);
                }
                if let (Some(index), Some(millis)) = (index, state.lease_millis) {
                    list.push(vec![
                        format!(
                            "{} stuck in {}: `{}` for over {}",
                            entity.name,
                            lifecycle.name,
                            state.name,
                            spelled(millis)
                        ),
                        format!("Query `{}`", index.name),
                        "½ RU for 4 KB read".into(),
                    ]);
                }
            }
        }
        if entity.policy.scan != Scan::Deny {
            let cost = schema.workload.as_ref().and_then(|workload| workload.stored_bytes).map_or_else(
                || "½ RU for every 4 KB of the table".to_owned(),
                |stored| format!("{} RU", half(stored.div_ceil(READ_UNIT_BYTES as u64))),
            );
            list.push(vec![format!("every {} that matches a pattern", entity.name), "Scan".into(), cost]);
        }
    }
    rows(out, &["question", "operation", "cost"], &list);
}

fn half(units: u64) -> String {
    if units.is_multiple_of(2) {
        (units / 2).to_string()
    } else if units == 1 {
        "½".to_owned()
    } else {
        format!("{}½", units / 2)
    }
}

fn sources(out: &mut String, schema: &Schema) {
    if schema.sources.is_empty() {
        return;
    }
    out.push_str("## Sources\n\n");
    let list: Vec<Vec<String>> = schema
        .sources
        .iter()
        .map(|source| {
            let range = |range: Option<(i64, i64)>| match range {
                None => "-".to_owned(),
                Some((a, b)) if a == b => duration_source(a),
                Some((a, b)) => format!("{} to {}", duration_source(a), duration_source(b)),
            };
            vec![
                source.name.clone(),
                source.cost.map_or("-".to_owned(), |cost| format!("${cost}")),
                range(source.latency_millis),
                source.pace.map_or("-".to_owned(), |pace| {
                    format!("{} per {}", pace.calls, duration_source(pace.per_millis))
                }),
                source.retry.map_or("-".to_owned(), |retry| {
                    format!("{} times, {}", retry.attempts, range(Some(retry.backoff_millis)))
                }),
                range(source.timeout_millis),
                source.breaker.map_or("-".to_owned(), |breaker| {
                    format!(
                        "left alone for {} after {} failures in a row",
                        duration_source(breaker.rest_millis),
                        breaker.failures
                    )
                }),
            ]
        })
        .collect();
    rows(out, &["source", "a call costs", "latency", "pace", "retry", "timeout", "breaker"], &list);
    for source in schema.sources.iter().filter(|source| !source.docs.is_empty()) {
        let _ = writeln!(out, "**{}**: {}\n", source.name, source.docs.join(" "));
    }
}

fn store(out: &mut String, limits: &StoreLimits) {
    let (short, long) = limits.timeout_millis;
    let Breaker { failures, rest_millis } = limits.breaker.unwrap_or(StoreLimits::BREAKER);
    let embedded = if limits.breaker.is_none() { ", unless it is in the process" } else { "" };
    let _ = writeln!(
        out,
        "## The store\n\nA cached read waits at most {} for it, any other request {}. A request is tried again {} \
         times. After {failures} failures in a row cached reads go on without it for {}{embedded}.\n",
        spelled(short),
        spelled(long),
        limits.retry.attempts,
        spelled(rest_millis),
    );
}

fn operations(out: &mut String, schema: &Schema) {
    let told = !schema.grants.is_empty() || !schema.alarms.is_empty() || !schema.budgets.is_empty();
    if !told && schema.workload.is_none() && schema.metrics.is_none() {
        return;
    }
    out.push_str("## Operations\n\n");
    for grant in &schema.grants {
        let actions: Vec<&str> = grant.actions.iter().map(|action| action.name()).collect();
        let tables = if grant.tables.is_empty() { "all tables".to_owned() } else { grant.tables.join(", ") };
        let _ = writeln!(out, "- `{}` may {} in {tables}.", grant.name, actions.join(", "));
    }
    for alarm in &schema.alarms {
        let value = match &alarm.threshold {
            Threshold::Percent(number) => format!("{number} %"),
            Threshold::Millis(millis) => duration_source(*millis),
            Threshold::Count(number) => number.to_string(),
        };
        let side = if alarm.above { "above" } else { "below" };
        let lasting =
            alarm.lasting_millis.map_or(String::new(), |millis| format!(" for {}", spelled(millis)));
        let _ = writeln!(out, "- Alarm: {} {side} {value}{lasting}.", alarm.metric.name().replace('_', " "));
    }
    if !schema.budgets.is_empty() {
        let budgets: Vec<String> = schema.budgets.iter().map(|budget| format!("${budget}")).collect();
        let _ = writeln!(out, "- Somebody is told when a month has cost {}.", budgets.join(", "));
    }
    if let Some(metrics) = &schema.metrics {
        let names: Vec<String> =
            metrics.names.iter().map(|(kind, name)| format!("{} as `{name}`", kind.name())).collect();
        let _ = writeln!(out, "- Metrics in `{}`: {}.", metrics.namespace, names.join(", "));
    }
    out.push('\n');
    if let Some(workload) = &schema.workload {
        let mut list = Vec::new();
        for (name, rate) in
            [("requests", workload.requests), ("reads", workload.reads), ("writes", workload.writes)]
        {
            if let Some(rate) = rate {
                let figure = if rate.from == rate.to {
                    grouped(rate.to)
                } else {
                    format!("{} to {}", grouped(rate.from), grouped(rate.to))
                };
                list.push(vec![name.to_owned(), format!("{figure} a {}", rate.per.name())]);
            }
        }
        if let Some(rate) = workload.hit_rate_percent {
            list.push(vec!["hit rate".into(), format!("{rate} %")]);
        }
        if let Some(bytes) = workload.item_bytes {
            list.push(vec!["an item".into(), size(bytes)]);
        }
        if let Some(bytes) = workload.stored_bytes {
            list.push(vec!["stored".into(), size(bytes)]);
        }
        out.push_str("Expected:\n\n");
        rows(out, &["", ""], &list);
    }
}

/// `1,000,000`
fn grouped(number: f64) -> String {
    let text = number.to_string();
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

fn size(bytes: u64) -> String {
    for (unit, one) in [("GB", 1u64 << 30), ("MB", 1 << 20), ("KB", 1 << 10)] {
        if bytes >= one && bytes.is_multiple_of(one) {
            return format!("{} {unit}", bytes / one);
        }
    }
    format!("{bytes} B")
}

/// `7 days`, `90 minutes`.
fn spelled(millis: i64) -> String {
    for (unit, size) in [("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)] {
        if millis != 0 && millis % size == 0 {
            let count = millis / size;
            return format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
        }
    }
    format!("{millis} milliseconds")
}
