//! What an address asks of an entity or a table: by which index, which part of it, filtered how.
//!
//! ```text
//! by=by_last_crawled  a.country=DE  from=…  until=…  newest=1  limit=50  cursor=…
//! f=domain  o=begins  v=www         a filter; there may be several
//! ```

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use larder::price::{Units, read_units};
use larder::store::ops::{Query, ReturnCapacity, Scan};
use larder::store::{Comparator, Condition, Deployed, Operand};
use larder::text::{End, Reader, of_day};
use larder::{Entry, Fields, Store, Unread};
use larder_expr::{KeyCondition, KeyTest, SortTest};
use larder_model::limits::{ITEM_BYTES_MAX, PAGE_BYTES_MAX};
use larder_model::{
    AttributeType, AttributeValue, Item, KeyAttribute, KeySchema, Path, Projection, TableName,
};
use larder_schema::schema::{Consistency, Index};
use larder_schema::{Access, Type};
use serde_json::Value as Json;

use crate::address::Given;
use crate::code::{self, Ask};
use crate::house::{Kind, Secrets, key_value};
use crate::show;

pub(crate) const PAGE: usize = 50;
pub(crate) const PAGE_MAX: usize = 1000;
/// The same of records that may be split over many items, and are put together to be shown.
const SPLIT_PAGE_MAX: usize = 25;
/// The table's own key.
pub(crate) const BY_KEY: &str = "key";
/// The whole table.
pub(crate) const BY_ALL: &str = "all";

/// Everything a filter can say: how an address names it, and how people do.
pub(crate) const OPERATORS: [(&str, &str); 14] = [
    ("eq", "="),
    ("ne", "≠"),
    ("lt", "<"),
    ("le", "≤"),
    ("gt", ">"),
    ("ge", "≥"),
    ("between", "between a..b"),
    ("in", "one of a, b"),
    ("begins", "begins with"),
    ("contains", "contains"),
    ("lacks", "does not contain"),
    ("exists", "is there"),
    ("missing", "is not there"),
    ("type", "is of type"),
];

/// Why nothing was found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Wrong {
    /// What was asked makes no sense.
    #[error("{0}")]
    Asked(String),
    /// Whoever asks may not.
    #[error("{0}")]
    Denied(String),
    /// The store failed.
    #[error("{0}")]
    Store(String),
}

/// Whether somebody may not, rather than something went wrong.
pub(crate) fn is_denied(error: &larder::store::Error) -> bool {
    matches!(error, larder::store::Error::Refused { code, .. }
        if matches!(&**code, "AccessDeniedException" | "UnrecognizedClientException"))
}

impl From<String> for Wrong {
    fn from(text: String) -> Self {
        Self::Asked(text)
    }
}

impl From<larder::store::Error> for Wrong {
    fn from(error: larder::store::Error) -> Self {
        match &error {
            larder::store::Error::Refused { code, .. } if code == "ValidationException" => {
                Self::Asked(error.to_string())
            }
            larder::store::Error::Refused { message, .. } if is_denied(&error) => {
                Self::Denied(message.clone())
            }
            _ => Self::Store(error.to_string()),
        }
    }
}

impl From<larder::Error> for Wrong {
    fn from(error: larder::Error) -> Self {
        match error {
            larder::Error::Store(error) => error.into(),
            other => Self::Asked(other.to_string()),
        }
    }
}

/// A page of what was found.
#[derive(Debug)]
pub(crate) struct Found<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) cursor: Option<String>,
    pub(crate) unread: Unread,
    pub(crate) units: f64,
    /// What was asked of the store.
    pub(crate) request: Json,
}

/// How many on a page.
pub(crate) fn limit(given: &Given) -> usize {
    given.said("limit").and_then(|text| text.parse().ok()).unwrap_or(PAGE).clamp(1, PAGE_MAX)
}

/// The filters of an address, in order.
pub(crate) fn filters(given: &Given) -> Vec<(&str, &str, &str)> {
    let all = given.all("f").zip(given.all("o")).zip(given.all("v"));
    all.map(|((field, operator), value)| (field, operator, value))
        .filter(|(field, ..)| !field.is_empty())
        .collect()
}

/// What an address asks, without what it leaves empty. A filter is kept as the three that it is, empty value or not.
pub(crate) fn settled(given: &Given) -> Given {
    let plain = given.iter().filter(|(name, value)| !["f", "o", "v"].contains(name) && !value.is_empty());
    let filters = filters(given).into_iter();
    let filters = filters.flat_map(|(field, operator, value)| [("f", field), ("o", operator), ("v", value)]);
    plain.chain(filters).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// How an index of an entity, or its key, is asked.
pub(crate) fn access(kind: &Kind<'_>, by: &str) -> Option<(Option<String>, Access)> {
    let index: Option<&Index> = match by {
        BY_KEY => None,
        alias => Some(kind.table.index(alias)?),
    };
    Some((index.map(|index| index.alias.clone()), kind.entity.access(kind.table, index)?))
}

/// The records that an address asks for.
pub(crate) async fn records(
    kind: &Kind<'_>,
    by: &str,
    given: &Given,
    most: usize,
) -> Result<Found<Entry>, Wrong> {
    let filter = entity_filter(kind, given)?;
    // What was split is read whole.
    let most = if kind.entity.policy.may_split() { most.min(SPLIT_PAGE_MAX) } else { most };
    if by == BY_ALL {
        // One request of the store at a time: whoever looks at the next page asks for the next one.
        let mut scan = kind.shelf.scan().at_any_price().once().limit(most);
        if let Some(filter) = filter {
            scan = scan.filter(filter);
        }
        if given.said("expired").is_some() {
            scan = scan.even_expired();
        }
        if let Some(cursor) = given.said("cursor") {
            scan = scan.start_at(cursor);
        }
        let condition = scan.condition()?;
        let page = scan.page().await?;
        let ask = Ask {
            table: kind.name,
            index: None,
            keys: None,
            filter: condition.as_ref(),
            forward: true,
            limit: most,
        };
        let (rows, cursor, unread, units) = (page.items, page.cursor, page.unread, page.units);
        return Ok(Found { rows, cursor, unread, units, request: ask.json() });
    }
    let Some((index, access)) = access(kind, by) else {
        return Err(Wrong::Asked(format!("{} has no index `{by}`", kind.entity.name)));
    };
    let mut partition = Fields::new();
    for argument in &access.arguments {
        let name = format!("a.{}", argument.name);
        let given = given
            .said(&name)
            .ok_or_else(|| format!("`{}` is missing: give it to see a partition", argument.name))?;
        let value = Reader::open(kind.schema()).text(&argument.kind, &argument.name, given)?;
        partition.insert(argument.name.clone(), value);
    }
    let mut query = match &index {
        Some(index) => kind.shelf.index_by(index, partition),
        None => kind.shelf.within_by(partition),
    };
    let sort = access.sort.as_ref().map_or(Type::String, |sort| sort.kind.clone());
    let bound = |name: &str, end: End| {
        let text = given.said(name).map(|text| moment(&sort, text, end));
        text.map(|text| Reader::open(kind.schema()).text(&sort, name, &text)).transpose()
    };
    if let Some(value) = bound("at", End::First)? {
        query = query.at(value);
    }
    if let Some(value) = bound("from", End::First)? {
        query = query.from(value);
    }
    if let Some(value) = bound("until", End::Last)? {
        query = query.until(value);
    }
    if let Some(text) = given.said("begins") {
        query = query.begins_with(text);
    }
    if given.said("newest").is_some() {
        query = query.newest_first();
    }
    if given.said("expired").is_some() {
        query = query.even_expired();
    }
    if let Some(filter) = filter {
        query = query.filter(filter);
    }
    query = query.limit(most).once();
    let explained = query.explain()?;
    if let Some(cursor) = given.said("cursor") {
        query = query.start_at(cursor);
    }
    let page = query.page().await?;
    let request = serde_json::from_str(&explained.request).unwrap_or_default();
    Ok(Found { rows: page.items, cursor: page.cursor, unread: page.unread, units: page.units, request })
}

fn entity_filter(kind: &Kind<'_>, given: &Given) -> Result<Option<Condition>, String> {
    let mut all = None;
    for (name, operator, text) in filters(given) {
        let field = kind.entity.field(name).filter(|field| field.is_stored());
        let lifecycle = kind.entity.lifecycle(name);
        if field.is_some_and(|field| kind.schema().reveals_secret(kind.entity, field)) {
            return Err(secret(name));
        }
        let (attribute, of) = match (field, lifecycle) {
            (Some(field), _) => (&field.attribute, field.kind.clone()),
            (None, Some(lifecycle)) => (&lifecycle.attribute, Type::String),
            (None, None) => return Err(format!("`{name}` is no stored field of {}", kind.entity.name)),
        };
        // A day is enough where a moment is compared: its first or its last.
        let end = match operator {
            "lt" | "ge" => Some(End::First),
            "le" | "gt" => Some(End::Last),
            _ => None,
        };
        let read = |text: &str, of: &Type| {
            let day = end.and_then(|end| of_day(of, text, end));
            let text = day.as_deref().unwrap_or(text);
            let value = Reader::open(kind.schema()).text(of, name, text)?;
            let stored = kind.schema().encode(of, &value);
            stored.ok_or_else(|| format!("`{name}` cannot be compared with `{text}`"))
        };
        // What a list, a set or a text may contain is a member of it.
        let member = of.member().cloned().unwrap_or_else(|| of.clone());
        let condition = condition(attribute, operator, text, &|text| read(text, &of), &|text| match of {
            Type::String | Type::Url | Type::Uuid { .. } | Type::Choice(_) => {
                Ok(AttributeValue::S(text.to_owned()))
            }
            _ => read(text, &member),
        })?;
        all = Some(both(all, condition));
    }
    Ok(all)
}

/// Whether what is asked holds an attribute: an index may hold a part of an item.
pub(crate) fn is_held(kind: &Kind<'_>, by: &str, attribute: &str) -> bool {
    let index = kind.table.index(by).filter(|_| by != BY_KEY && by != BY_ALL);
    index.is_none_or(|index| index.holds(kind.table, attribute))
}

/// The same of a table as it is.
fn holds(deployed: &Deployed, by: &str, attribute: &str) -> bool {
    let definition = &deployed.definition;
    let Some(index) = index_of(deployed, by) else { return true };
    let is_key = definition.key.attributes().chain(index.key.attributes()).any(|key| key.name == attribute);
    match &index.projection {
        Projection::All => true,
        Projection::KeysOnly => is_key,
        Projection::Include(names) => is_key || names.iter().any(|name| name == attribute),
    }
}

fn lacks(by: &str, name: &str) -> String {
    format!(
        "the index `{by}` does not hold `{name}`, so every filter on it would answer wrongly: ask another way"
    )
}

fn secret(name: &str) -> String {
    format!("`{name}` is a secret, and a filter would tell it: filter by something else")
}

fn both(before: Option<Condition>, next: Condition) -> Condition {
    match before {
        Some(before) => Condition::And(Box::new(before), Box::new(next)),
        None => next,
    }
}

fn condition(
    attribute: &str,
    operator: &str,
    text: &str,
    read: &dyn Fn(&str) -> Result<AttributeValue, String>,
    member: &dyn Fn(&str) -> Result<AttributeValue, String>,
) -> Result<Condition, String> {
    let path = Path::attribute(attribute);
    let value = Operand::Path(path.clone());
    let compare = |comparator: Comparator| {
        Ok(Condition::Compare { left: value.clone(), comparator, right: Operand::value(read(text)?) })
    };
    match operator {
        "eq" => compare(Comparator::Equal),
        "ne" => compare(Comparator::NotEqual),
        "lt" => compare(Comparator::Less),
        "le" => compare(Comparator::LessOrEqual),
        "gt" => compare(Comparator::Greater),
        "ge" => compare(Comparator::GreaterOrEqual),
        "between" => {
            let (low, high) = text
                .split_once("..")
                .ok_or_else(|| format!("between what? `{text}` is not written as low..high"))?;
            let (low, high) = (Operand::value(read(low.trim())?), Operand::value(read(high.trim())?));
            Ok(Condition::Between { value, low, high })
        }
        "in" => {
            let list = text.split(',').map(|text| Ok(Operand::value(read(text.trim())?)));
            Ok(Condition::In { value, list: list.collect::<Result<_, String>>()? })
        }
        "begins" => Ok(Condition::BeginsWith { value, prefix: Operand::value(text) }),
        "contains" => Ok(Condition::Contains { value, part: Operand::value(member(text)?) }),
        "lacks" => {
            Ok(Condition::Not(Box::new(Condition::Contains { value, part: Operand::value(member(text)?) })))
        }
        "exists" => Ok(Condition::Exists(path)),
        "missing" => Ok(Condition::NotExists(path)),
        "type" => {
            let kind = AttributeType::from_name(&text.to_uppercase());
            let kind = kind
                .ok_or_else(|| format!("`{text}` is no type: S, N, B, BOOL, NULL, L, M, SS, NS or BS is"))?;
            Ok(Condition::TypeIs { path, kind })
        }
        other => Err(format!("there is no operator `{other}`")),
    }
}

/// A condition as somebody writes it who has no schema. What looks like a number may be one in a set, or a part of a text.
fn guessed_condition(name: &str, operator: &str, text: &str) -> Result<Condition, String> {
    let read = |text: &str| Ok(guessed(text));
    let as_text = match guessed(text) {
        AttributeValue::S(text) => text,
        _ => text.to_owned(),
    };
    let is_text = |_: &str| Ok(AttributeValue::S(as_text.clone()));
    match operator {
        "begins" => condition(name, operator, &as_text, &read, &read),
        "contains" | "lacks" => {
            let (either, or) = (
                condition(name, "contains", text, &read, &read)?,
                condition(name, "contains", text, &read, &is_text)?,
            );
            let any = if either == or { either } else { Condition::Or(Box::new(either), Box::new(or)) };
            Ok(if operator == "lacks" { Condition::Not(Box::new(any)) } else { any })
        }
        _ => condition(name, operator, text, &read, &read),
    }
}

/// A value as somebody writes it who has no schema: `12` is a number, `"12"` a text, `true` what it says, all else a text.
pub(crate) fn guessed(text: &str) -> AttributeValue {
    let quoted = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    match text {
        _ if quoted => AttributeValue::S(text[1..text.len() - 1].to_owned()),
        "true" => AttributeValue::Bool(true),
        "false" => AttributeValue::Bool(false),
        "null" => AttributeValue::Null,
        text => text.parse().map_or_else(|_| AttributeValue::S(text.to_owned()), AttributeValue::N),
    }
}

/// How an address names an index of a table. One that is called like another way to ask is told apart.
pub(crate) fn by_index(name: &str) -> String {
    if [BY_KEY, BY_ALL].contains(&name) { format!("index.{name}") } else { name.to_owned() }
}

fn index_of<'a>(deployed: &'a Deployed, by: &str) -> Option<&'a larder_model::IndexDefinition> {
    deployed.definition.indexes.iter().find(|index| by_index(index.name.as_str()) == by)
}

/// The keys of a table or of one of its indexes.
fn keys<'a>(deployed: &'a Deployed, by: &str) -> Option<&'a KeySchema> {
    match by {
        BY_KEY => Some(&deployed.definition.key),
        name => index_of(deployed, name).map(|index| &index.key),
    }
}

/// The items that an address asks for.
pub(crate) async fn items(
    store: &Store,
    table: &TableName,
    deployed: &Deployed,
    secrets: &Secrets,
    by: &str,
    given: &Given,
    most: usize,
) -> Result<Found<Item>, Wrong> {
    let mut filter = None;
    for (name, operator, text) in filters(given) {
        if secrets.hide(name) {
            return Err(secret(name).into());
        }
        if !holds(deployed, by, name) {
            return Err(lacks(by, name).into());
        }
        filter = Some(both(filter, guessed_condition(name, operator, text)?));
    }
    let index = index_of(deployed, by).map(|index| index.name.clone());
    let start = given.said("cursor").map(read_cursor).transpose()?;
    let forward = given.said("newest").is_none();
    let (ask_index, ask_filter) = (index.clone(), filter.clone());
    let mut ask = Ask {
        table,
        index: ask_index.as_ref(),
        keys: None,
        filter: ask_filter.as_ref(),
        forward,
        limit: most,
    };
    if by == BY_ALL {
        let request = ask.json();
        let scan = Scan {
            filter,
            start,
            limit: Some(most),
            capacity: ReturnCapacity::Total,
            ..Scan::of(table.clone())
        };
        let page = store.scan(scan).await?;
        return Ok(found(page, request));
    }
    let keys = keys(deployed, by).ok_or_else(|| format!("{table} has no index `{by}`"))?;
    let mut tests = Vec::new();
    for attribute in &keys.partition {
        let text = given.said(&format!("a.{}", attribute.name));
        let text =
            text.ok_or_else(|| format!("`{}` is missing: give it to see a partition", attribute.name))?;
        let value = key_value(attribute, text)?;
        tests
            .push(KeyTest { attribute: attribute.name.as_str().into(), test: SortTest::Equal(value.into()) });
    }
    if let Some(attribute) = keys.sort.first()
        && let Some(test) = sort_test(attribute, given)?
    {
        tests.push(KeyTest { attribute: attribute.name.as_str().into(), test });
    }
    let key_condition = KeyCondition { tests };
    ask.keys = Some(&key_condition);
    let request = ask.json();
    let query = Query {
        table: table.clone(),
        index,
        key_condition: key_condition.clone(),
        filter,
        legacy_filter: false,
        projection: None,
        select: None,
        limit: Some(most),
        forward,
        start,
        consistent: false,
        skip_damaged: false,
        capacity: ReturnCapacity::Total,
    };
    let page = store.query(query).await?;
    Ok(found(page, request))
}

fn found(page: larder::store::Page, request: Json) -> Found<Item> {
    let cursor = page.last_key.as_ref().map(write_cursor);
    Found { rows: page.items, cursor, unread: Unread::default(), units: page.units, request }
}

fn sort_test(attribute: &KeyAttribute, given: &Given) -> Result<Option<SortTest>, String> {
    let bound = |name: &str| given.said(name).map(|text| key_value(attribute, text)).transpose();
    let (at, from, until) = (bound("at")?, bound("from")?, bound("until")?);
    if given.said("begins").is_some() && (at.is_some() || from.is_some() || until.is_some()) {
        return Err("a range and a beginning are two ways to say one thing: give one of them".to_owned());
    }
    Ok(match (at, from, until, given.said("begins")) {
        (Some(at), ..) => Some(SortTest::Equal(at.into())),
        (None, Some(from), Some(until), _) => Some(SortTest::Between(from.into(), until.into())),
        (None, Some(from), None, _) => Some(SortTest::GreaterOrEqual(from.into())),
        (None, None, Some(until), _) => Some(SortTest::LessOrEqual(until.into())),
        (None, None, None, Some(text)) => {
            Some(SortTest::BeginsWith(AttributeValue::S(text.to_owned()).into()))
        }
        (None, None, None, None) => None,
    })
}

fn write_cursor(key: &Item) -> String {
    URL_SAFE_NO_PAD.encode(Json::Object(show::item_json(key)).to_string())
}

fn read_cursor(text: &str) -> Result<Item, String> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let item = bytes.and_then(|text| show::read_item(&text).ok());
    item.ok_or_else(|| "this is no place to go on from: begin at the first page".to_owned())
}

/// The view of an entity as a `larder` command. With filters it is a statement, which has them.
pub(crate) fn command(
    kind: &Kind<'_>,
    by: &str,
    given: &Given,
    request: &Json,
    store: &str,
) -> Option<String> {
    if !filters(given).is_empty() {
        let sort = access(kind, by).and_then(|(_, access)| Some(access.sort?.attribute));
        return sql(given, request, sort.as_deref(), store);
    }
    let mut words = vec!["larder".to_owned()];
    if by == BY_ALL {
        words.extend(["scan".to_owned(), kind.full_name()]);
    } else {
        words.extend(["query".to_owned(), kind.full_name()]);
        if by != BY_KEY {
            words.push(by.to_owned());
        }
        let arguments = given.iter().filter_map(|(name, value)| Some((name.strip_prefix("a.")?, value)));
        words.extend(
            arguments.filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name}={value}")),
        );
        for (name, option) in
            [("at", "--at"), ("from", "--from"), ("until", "--until"), ("begins", "--begins-with")]
        {
            if let Some(value) = given.said(name) {
                words.push(format!("{option}={value}"));
            }
        }
        if given.said("newest").is_some() {
            words.push("--newest-first".to_owned());
        }
    }
    if given.said("expired").is_some() {
        words.push("--even-expired".to_owned());
    }
    words.extend(["--limit".to_owned(), limit(given).to_string(), "--store".to_owned(), store.to_owned()]);
    Some(line(&words))
}

/// A request as a `larder` command: the statement that asks the same.
pub(crate) fn sql(given: &Given, request: &Json, sort: Option<&str>, store: &str) -> Option<String> {
    let statement = code::statement(request, sort)?;
    let limit = limit(given).to_string();
    Some(line(&["larder", "sql", &statement, "--limit", &limit, "--store", store].map(str::to_owned)))
}

/// The sort key of a table or of one of its indexes.
pub(crate) fn sort_key<'a>(deployed: &'a Deployed, by: &str) -> Option<&'a str> {
    keys(deployed, by)?.sort.first().map(|key| key.name.as_str())
}

fn line(words: &[String]) -> String {
    words.iter().map(|word| code::shell(word)).collect::<Vec<_>>().join(" ")
}

/// The view of an entity as Rust that a program with its schema would have. With filters, and where a value is of a type that is not
/// written in a line, the request says it instead.
pub(crate) fn rust(kind: &Kind<'_>, by: &str, given: &Given, schema: &str, store: &str) -> Option<String> {
    if !filters(given).is_empty() {
        return None;
    }
    let system = &kind.schema().system;
    let module = system.replace('-', "_");
    let mut out = format!(
        "use larder::{{Store, Value}};\n\nlarder::schema!({schema:?});\n\nlet store = Store::open(&{store:?}.parse()?).await?;\n\
         let {module} = {module}::{}::open(store).await?;\nlet page = {module}\n    .entries({:?})\n    .expect(\"the schema has it\")\n",
        pascal(system),
        kind.entity.name
    );
    let mut call = |text: String| {
        let _ = writeln!(out, "    .{text}");
    };
    if by == BY_ALL {
        call("scan()".to_owned());
        call("at_any_price()".to_owned());
    } else {
        let (index, access) = access(kind, by)?;
        let values = access
            .arguments
            .iter()
            .map(|argument| rust_value(&argument.kind, given.said(&format!("a.{}", argument.name))?));
        let values = values.collect::<Option<Vec<_>>>()?.join(", ");
        call(match index {
            Some(index) => format!("index({index:?}, [{values}])"),
            None => format!("within([{values}])"),
        });
        let sort = access.sort.as_ref().map_or(Type::String, |sort| sort.kind.clone());
        for (name, end) in [("at", End::First), ("from", End::First), ("until", End::Last)] {
            if let Some(text) = given.said(name) {
                call(format!("{name}({})", rust_value(&sort, &moment(&sort, text, end))?));
            }
        }
        if let Some(text) = given.said("begins") {
            call(format!("begins_with({text:?})"));
        }
        if given.said("newest").is_some() {
            call("newest_first()".to_owned());
        }
    }
    if given.said("expired").is_some() {
        call("even_expired()".to_owned());
    }
    call(format!("limit({})", limit(given)));
    out.push_str("    .page()\n    .await?;");
    Some(out)
}

/// A value as Rust has it; `None` where that takes more than a line.
fn rust_value(kind: &Type, text: &str) -> Option<String> {
    Some(match kind {
        Type::String | Type::Url | Type::Uuid { .. } | Type::Choice(_) => format!("Value::from({text:?})"),
        Type::Int | Type::Sequence => format!("Value::from({})", text.parse::<i64>().ok()?),
        Type::Bool => format!("Value::Bool({})", text.parse::<bool>().ok()?),
        Type::Instant(_) | Type::Epoch => format!("Value::Instant({text:?}.parse()?)"),
        Type::Date => format!("Value::Date({text:?}.parse()?)"),
        Type::Datetime => format!("Value::Datetime({text:?}.parse()?)"),
        Type::Decimal => format!("Value::Number({text:?}.parse()?)"),
        _ => return None,
    })
}

/// `my-shops` is `MyShops`.
fn pascal(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
    };
    words.map(word).collect()
}

/// A moment as it is meant: a day is its first or last one, and what a browser's field gives without a zone is UTC.
fn moment(kind: &Type, text: &str, end: End) -> String {
    if let Some(moment) = of_day(kind, text, end) {
        return moment;
    }
    let bare = text.len() >= "2026-01-15T10:00".len()
        && text.is_char_boundary(11)
        && text.as_bytes()[10] == b'T'
        && text[11..].bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte));
    let seconds = if text.len() == "2026-01-15T10:00".len() { ":00" } else { "" };
    match kind {
        Type::Instant(_) | Type::Epoch if bare => format!("{text}{seconds}Z"),
        Type::Datetime if bare => format!("{text}{seconds}"),
        _ => text.to_owned(),
    }
}

/// What a page of a view takes, before it is asked for: about so much where the workload of the schema tells how large a record is, or
/// at most what a page may read.
pub(crate) fn price_before(kind: Option<&Kind<'_>>, by: &str, given: &Given) -> (&'static str, Units) {
    let limit = limit(given) as u64;
    let told = kind.and_then(|kind| kind.schema().workload.as_ref()?.item_bytes).filter(|_| by != BY_ALL);
    let each = told.unwrap_or(ITEM_BYTES_MAX as u64);
    let strong = kind.is_some_and(|kind| kind.entity.policy.reads == Consistency::Strong);
    let consistent = strong && (by == BY_KEY || by == BY_ALL);
    let bytes = each.saturating_mul(limit).min(PAGE_BYTES_MAX as u64);
    (
        if told.is_some() { "about" } else { "at most" },
        Units { read: read_units(bytes, consistent), write: 0.0 },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_without_a_schema_is_what_it_looks_like() {
        for (text, value) in [
            ("12", AttributeValue::from(12)),
            ("\"12\"", AttributeValue::from("12")),
            ("true", AttributeValue::Bool(true)),
            ("null", AttributeValue::Null),
            ("\"", AttributeValue::from("\"")),
            ("a b", AttributeValue::from("a b")),
        ] {
            assert_eq!(guessed(text), value, "{text}");
        }
    }

    #[test]
    fn a_moment_of_a_browser_is_utc_and_a_day_is_its_first_or_last() {
        for (kind, text, end, meant) in [
            (Type::Epoch, "2026-01-15", End::Last, "2026-01-15T23:59:59Z"),
            (Type::Epoch, "2026-01-15T10:00", End::First, "2026-01-15T10:00:00Z"),
            (Type::Epoch, "2026-01-15T10:00:01.5", End::First, "2026-01-15T10:00:01.5Z"),
            (Type::Epoch, "2026-01-15T10:00:00Z", End::First, "2026-01-15T10:00:00Z"),
            (Type::Datetime, "2026-01-15T10:00", End::First, "2026-01-15T10:00:00"),
            (Type::String, "2026-01-15T10:00", End::First, "2026-01-15T10:00"),
            (Type::Epoch, "äääääääääää", End::First, "äääääääääää"),
        ] {
            assert_eq!(moment(&kind, text, end), meant);
        }
    }

    #[test]
    fn every_operator_holds_of_what_it_says_and_of_nothing_else() {
        let read = |text: &str| Ok(guessed(text));
        let of = |value: AttributeValue| -> Item { [("a", value)].into_iter().collect() };
        let set = AttributeValue::Ss(["x".to_owned(), "y".to_owned()].into());
        let cases = [
            ("eq", "5", of(5.into()), of(6.into())),
            ("ne", "5", of(6.into()), of(5.into())),
            ("lt", "5", of(4.into()), of(5.into())),
            ("le", "5", of(5.into()), of(6.into())),
            ("gt", "5", of(6.into()), of(5.into())),
            ("ge", "5", of(5.into()), of(4.into())),
            ("between", "2..4", of(4.into()), of(5.into())),
            ("in", "2, 4", of(4.into()), of(3.into())),
            ("begins", "ab", of("abc".into()), of("bab".into())),
            ("contains", "y", of(set.clone()), of("x".into())),
            ("lacks", "z", of(set.clone()), of("xyz".into())),
            ("exists", "", of(AttributeValue::Null), Item::new()),
            ("missing", "", Item::new(), of(AttributeValue::Null)),
            ("type", "ss", of(set), of("x".into())),
        ];
        assert_eq!(cases.each_ref().map(|(name, ..)| *name), OPERATORS.map(|(name, _)| name));
        for (name, text, yes, no) in cases {
            let condition = condition("a", name, text, &read, &read).expect(name);
            assert_eq!(condition.holds(Some(&yes)).ok(), Some(true), "{name}");
            assert_eq!(condition.holds(Some(&no)).ok(), Some(false), "{name}");
        }
        assert!(condition("a", "between", "1", &read, &read).is_err());
        assert!(condition("a", "type", "integer", &read, &read).is_err());
        assert!(condition("a", "like", "x", &read, &read).is_err());
    }

    #[test]
    fn a_cursor_comes_back_and_nothing_else_does() {
        let key: Item =
            [("pk", AttributeValue::from("a")), ("sk", AttributeValue::from(7))].into_iter().collect();
        assert_eq!(read_cursor(&write_cursor(&key)), Ok(key));
        for text in ["", "!!", "e30x", "bm8"] {
            assert!(read_cursor(text).is_err(), "{text}");
        }
    }
}
