//! IAM policies: the least that a program of the system has to be allowed.
//!
//! A `grant` becomes one policy that allows what it says and nothing else. A schema without grants gets one
//! policy with what its access patterns need, table by table: `Query` where there is something to query,
//! `Scan` where an entity permits it, `UpdateItem` where records change, batches where the layer makes them.
//! Batches and transactional checks that a program asks for by itself are no access pattern of the schema:
//! grant `batch`, or add them.
//!
//! Params in a table's name become `*`, so one policy serves every stage. A name that begins with a param is
//! taken as it is in the environment instead: a leading `*` would let in the tables of others.
//!
//! Indexes are named only for what can reach them, `Query` and `Scan`; streams stand in a statement of their
//! own, because their actions apply to nothing else.
//!
//! While an older version is kept, a policy allows the same on its tables: programs of both versions run.

use serde_json::{Value as Json, json};

use super::names;
use super::versions::{self, Kept, versions};
use crate::grants::{has_sequence, is_behind, is_partial, is_split};
use crate::schema::*;
use crate::span::SourceFile;

/// A policy document, and what it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The grant, if it is from one.
    pub grant: Option<String>,
    /// The `file:line` of the grant. JSON has no comments, and a policy no place for them.
    pub origin: Option<String>,
    /// As IAM takes it.
    pub document: Json,
}

/// The policies of a system, in the order of its grants.
///
/// ```
/// use larder_schema::{Environment, NoFiles, Schema, emit};
///
/// let text = r#"
/// system keiba
/// table races {
///   key  race_id
///   entity Race { race_id: string nonempty }
/// }
/// grant reader { get }
/// "#;
/// let loaded = Schema::load("keiba.larder", text, &mut NoFiles, &Environment::new());
/// let schema = loaded.schema.expect("there is nothing wrong with it");
/// let policies = emit::iam(&schema, &loaded.files, &[], &Environment::new()).expect("the name fits");
/// let statement = &policies[0].document["Statement"][0];
/// assert_eq!(statement["Action"][0], "dynamodb:GetItem");
/// assert_eq!(statement["Resource"][0], "arn:aws:dynamodb:*:*:table/races");
/// ```
pub fn iam(
    schema: &Schema,
    files: &[SourceFile],
    kept: &[Kept<'_>],
    environment: &Environment,
) -> Result<Vec<Policy>, Vec<EnvironmentError>> {
    let versions = versions(schema, files, kept, environment)?;
    let mut patterns = Vec::new();
    for version in &versions {
        for table in &version.schema.tables {
            let pattern = pattern(version.schema, table, environment).map_err(|error| vec![error])?;
            patterns.push((table, pattern));
        }
    }
    let arn = |resource: &Resource<'_>| {
        let (_, table) = patterns
            .iter()
            .find(|(table, _)| std::ptr::eq(*table, resource.table))
            .expect("every table has a pattern");
        let region = resource.table.region.as_deref().unwrap_or("*");
        let arn = format!("arn:aws:dynamodb:{region}:*:table/{table}");
        json!(match resource.part {
            Part::Table => arn,
            Part::Indexes => format!("{arn}/index/*"),
            Part::Streams => format!("{arn}/stream/*"),
        })
    };
    let policies = versions::rights(&versions, |_| true).into_iter().map(|right| Policy {
        grant: right.grant.map(str::to_owned),
        document: document(&right.statements, arn),
        origin: right.place,
    });
    Ok(policies.collect())
}

fn pattern(schema: &Schema, table: &Table, environment: &Environment) -> Result<String, EnvironmentError> {
    let name = names::table_name(schema, table);
    if !matches!(name.0.first(), Some(ParamPart::Text(text)) if !text.is_empty()) {
        return Ok(schema.table_name(table, environment)?.as_str().to_owned());
    }
    let parts = name.0.iter().map(|part| match part {
        ParamPart::Text(text) => text.as_str(),
        ParamPart::Param(_) => "*",
    });
    Ok(parts.collect())
}

/// What one policy allows.
pub(super) struct Right<'a> {
    /// The grant, if it is from one.
    pub(super) grant: Option<&'a str>,
    /// Which of the schema's it is.
    pub(super) at: Option<usize>,
    /// The `file:line` of the grant.
    pub(super) place: Option<String>,
    pub(super) statements: Vec<Statement<'a>>,
}

pub(super) struct Statement<'a> {
    pub(super) actions: Vec<&'static str>,
    pub(super) resources: Vec<Resource<'a>>,
}

pub(super) struct Resource<'a> {
    pub(super) schema: &'a Schema,
    pub(super) table: &'a Table,
    pub(super) part: Part,
}

#[derive(Clone, Copy)]
pub(super) enum Part {
    Table,
    Indexes,
    Streams,
}

/// What is allowed on these tables: grant by grant, or by access pattern when nothing is granted.
pub(super) fn rights<'a>(schema: &'a Schema, tables: &[&'a Table]) -> Vec<Right<'a>> {
    if schema.grants.is_empty() {
        let statements: Vec<_> = tables
            .iter()
            .flat_map(|table| {
                let streams = table.stream.map(|_| on_streams(schema, &[*table]));
                on_tables(least(table), schema, &[*table]).into_iter().chain(streams)
            })
            .collect();
        return if statements.is_empty() { Vec::new() } else { vec![Right::of(None, statements)] };
    }
    let mut rights = Vec::new();
    for (at, grant) in schema.grants.iter().enumerate() {
        let named = |table: &&&Table| grant.tables.is_empty() || grant.tables.contains(&table.name);
        let tables: Vec<&Table> = tables.iter().filter(named).copied().collect();
        if tables.is_empty() {
            continue;
        }
        let actions = grant.actions.iter().flat_map(|action| table_actions(*action)).copied();
        let actions = actions.filter(|action| is_meant(grant, action)).collect();
        let mut statements: Vec<_> = on_tables(actions, schema, &tables).into_iter().collect();
        if grant.actions.contains(&Action::Stream) {
            statements.push(on_streams(schema, &tables));
        }
        rights.push(Right::of(Some((at, &grant.name)), statements));
    }
    rights
}

/// `batch` is for what may be done one by one.
fn is_meant(grant: &Grant, action: &str) -> bool {
    let may = |actions: &[Action]| actions.iter().any(|action| grant.actions.contains(action));
    let (reads, writes) = (may(&[Action::Get, Action::Query]), may(&[Action::Put, Action::Delete]));
    match action {
        "BatchGetItem" => reads || !writes,
        "BatchWriteItem" => writes || !reads,
        _ => true,
    }
}

impl<'a> Right<'a> {
    fn of(grant: Option<(usize, &'a str)>, statements: Vec<Statement<'a>>) -> Self {
        Self { grant: grant.map(|(_, name)| name), at: grant.map(|(at, _)| at), place: None, statements }
    }
}

fn on_tables<'a>(
    actions: Vec<&'static str>,
    schema: &'a Schema,
    tables: &[&'a Table],
) -> Option<Statement<'a>> {
    let searches = actions.iter().any(|action| matches!(*action, "Query" | "Scan"));
    let resources = tables.iter().flat_map(|table| {
        let indexes = searches && !table.indexes.is_empty();
        let indexes = indexes.then_some(Resource { schema, table, part: Part::Indexes });
        std::iter::once(Resource { schema, table, part: Part::Table }).chain(indexes)
    });
    let resources = resources.collect();
    (!actions.is_empty()).then_some(Statement { actions, resources })
}

fn on_streams<'a>(schema: &'a Schema, tables: &[&'a Table]) -> Statement<'a> {
    Statement {
        actions: vec!["DescribeStream", "GetRecords", "GetShardIterator"],
        resources: tables.iter().map(|table| Resource { schema, table, part: Part::Streams }).collect(),
    }
}

fn table_actions(action: Action) -> &'static [&'static str] {
    match action {
        Action::Get => &["GetItem"],
        Action::Put => &["PutItem"],
        Action::Update => &["UpdateItem"],
        Action::Delete => &["DeleteItem"],
        Action::Query => &["Query"],
        Action::Scan => &["Scan"],
        Action::Batch => &["BatchGetItem", "BatchWriteItem"],
        Action::Describe => {
            &["DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups", "ListTagsOfResource"]
        }
        Action::Stream => &[],
    }
}

/// What the access patterns of a table need.
fn least(table: &Table) -> Vec<&'static str> {
    let any = |wanted: fn(&Entity) -> bool| table.entities.iter().any(wanted);
    let changes = |entity: &Entity| {
        let policy = &entity.policy;
        // A load that only one process may make is claimed by an update.
        entity.source.is_none() || policy.flight_millis.is_some() || !entity.lifecycles.is_empty()
    };
    let query = any(|_| true) && (table.sort.is_some() || !table.indexes.is_empty());
    let scan = any(|entity| entity.policy.scan != Scan::Deny);
    let needed = [
        ("GetItem", any(|_| true)),
        // Free numbers of a sequence, chunks, and what an index does not hold are asked for several at a time.
        ("BatchGetItem", any(has_sequence) || any(is_split) || table.indexes.iter().any(is_partial)),
        ("PutItem", any(|_| true)),
        ("UpdateItem", any(changes)),
        ("DeleteItem", any(|_| true)),
        // Chunks, and what is invalidated by a query or a scan, are removed several at a time.
        ("BatchWriteItem", any(is_behind) || any(is_split) || query || scan),
        ("Query", query),
        ("Scan", scan),
    ];
    needed.into_iter().filter(|(_, needed)| *needed).map(|(action, _)| action).collect()
}

/// What a policy of a table leads to, as CloudWatch names operations: reads, then writes, at most five each.
pub(super) fn operations(schema: &Schema, table: &Table) -> (Vec<&'static str>, Vec<&'static str>) {
    let allowed: Vec<&str> = rights(schema, &[table])
        .iter()
        .flat_map(|right| &right.statements)
        .flat_map(|statement| statement.actions.iter().copied())
        .collect();
    let reads = ["GetItem", "BatchGetItem", "Query", "Scan"];
    let mut writes = vec!["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"];
    writes.retain(|operation| allowed.contains(operation));
    if !writes.is_empty() && !table.collections.is_empty() {
        writes.push("TransactWriteItems");
    }
    (reads.into_iter().filter(|operation| allowed.contains(operation)).collect(), writes)
}

pub(super) fn document(statements: &[Statement<'_>], arn: impl Fn(&Resource<'_>) -> Json) -> Json {
    let statements: Vec<Json> = statements
        .iter()
        .map(|statement| {
            let actions: Vec<_> =
                statement.actions.iter().map(|action| format!("dynamodb:{action}")).collect();
            let resources: Vec<_> = statement.resources.iter().map(&arn).collect();
            json!({"Effect": "Allow", "Action": actions, "Resource": resources})
        })
        .collect();
    json!({"Version": "2012-10-17", "Statement": statements})
}
