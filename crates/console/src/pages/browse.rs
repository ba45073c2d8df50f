//! Records of an entity, or items of a table: asked by an index, by the key, or all of them, page by page.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use larder::census;
use larder::jiff::civil::DateTime;
use larder::price::{Units, read_units};
use larder::store::ops::DeleteItem;
use larder::store::{Deployed, ops::WriteOptions};
use larder::{Address, Entry};
use larder_model::limits::PAGE_BYTES_MAX;
use larder_model::{AttributeValue, Item, KeySchema, TableName};
use larder_schema::Type;
use larder_schema::schema::{Consistency, Scan};
use maud::{Markup, html};
use serde_json::{Map, Value as Json, json};

use super::item::{self, item_url};
use super::{Fault, Page, Room, layout};
use crate::address::{Given, Url};
use crate::answer;
use crate::code;
use crate::deed::Deed;
use crate::house::{Kind, Open};
use crate::query::{self, BY_ALL, BY_KEY, Found, OPERATORS, Wrong};
use crate::show;

/// Columns that are shown unless the reader chooses.
const COLUMNS: usize = 8;
/// What a download holds at most: rows, bytes of them; and what it may take to read them: read units, and time.
const DOWNLOAD_ROWS_MAX: usize = query::PAGE_MAX;
const DOWNLOAD_BYTES_MAX: usize = 16 << 20;
const DOWNLOAD_UNITS_MAX: f64 = 8000.0;
const DOWNLOAD_TIME_MAX: Duration = Duration::from_secs(20);
/// The rows that a download reads at a time.
const DOWNLOAD_AT_ONCE: usize = 50;

/// A way to ask: what an address calls it, what people read, and what it needs.
struct Way {
    by: String,
    label: String,
    arguments: Vec<(String, Type, Vec<String>)>,
    /// What the sort key holds; `None` if there is none.
    sort: Option<Type>,
    /// States that the sort key begins with: what they are called, and how they are written.
    beginnings: Vec<(String, String)>,
}

/// What a table of results shows.
struct Rows {
    columns: Vec<String>,
    /// All there are to choose from.
    known: Vec<String>,
    rows: Vec<(Url, Item, Vec<Markup>)>,
}

pub(super) async fn records(room: &Room<'_>, kind: &Kind<'_>) -> Page {
    let here = Url::to(["browse", &kind.schema().system, &kind.entity.name]);
    let ways = entity_ways(kind);
    let by = room.given.said("by");
    let scan = by == Some(BY_ALL) && is_priced_first(room, Some(kind.entity.policy.scan));
    let asked = by.filter(|by| !scan && ready(&ways, by, &room.given)).map(str::to_owned);
    if let Some(format) = room.given.said("format") {
        let fields = kind.entity.fields.iter();
        let visible = fields.filter(|field| !kind.schema().reveals_secret(kind.entity, field));
        let states = kind.entity.lifecycles.iter().map(|lifecycle| &lifecycle.name);
        let names = visible.map(|field| &field.name).chain(states).cloned().collect();
        let mut file = File::new(kind.full_name(), names, format, asked.as_deref(), &room.given);
        while let Some((by, given, most)) = file.wants() {
            file.take(query::records(kind, by, &given, most).await, |entry, csv| {
                record_row(kind, entry, csv)
            });
        }
        return Ok(file.answer());
    }
    let found = match &asked {
        Some(by) => Some(query::records(kind, by, &room.given, query::limit(&room.given)).await),
        None => None,
    };
    let store = room.house.store();
    let result = match (&found, &asked) {
        (Some(Ok(found)), Some(by)) => {
            let place = store.place();
            let code = Code {
                command: query::command(kind, by, &room.given, &found.request, &place),
                rust: query::rust(kind, by, &room.given, &schema_file(room, kind), &place),
            };
            let rows = record_rows(room, kind, found);
            let delete = Url::to(["browse", &kind.schema().system, &kind.entity.name, "delete"]);
            results(room, kind.name, &here, &delete, &rows, found, code)
        }
        (Some(Err(wrong)), _) => layout::wrong(&wrong.to_string()),
        _ if scan => price(room, &here, kind.name, Some(kind)).await?,
        _ => nothing_asked(&ways, by),
    };
    let names: Vec<(String, String)> = kind
        .entity
        .fields
        .iter()
        .filter(|field| field.is_stored() && !kind.schema().reveals_secret(kind.entity, field))
        .filter(|field| query::is_held(kind, by.unwrap_or(BY_KEY), &field.attribute))
        .map(|field| (field.name.clone(), field.kind.to_string()))
        .chain(kind.entity.lifecycles.iter().map(|it| (it.name.clone(), "state, as it is stored".to_owned())))
        .collect();
    let main = html! {
        (layout::trail(&[
            (kind.schema().system.clone(), Url::to(["schema", &kind.schema().system])),
            (kind.name.to_string(), Url::to(["tables", kind.name.as_str()])),
        ]))
        div.head {
            h1 { (kind.entity.name) }
            @if room.may(Deed::Put(kind.name)) {
                a.button.primary #new href=(Url::to(["new", &kind.schema().system, &kind.entity.name])) { "New record" }
            }
            @if room.may(Deed::Delete(kind.name, None)) {
                a.button href=(Url::to(["invalidate", &kind.schema().system, &kind.entity.name])) { "Invalidate…" }
            }
        }
        @if !kind.entity.docs.is_empty() { p.quiet { (kind.entity.docs.join(" ")) } }
        (asking(room, &here, &ways, by, &names, Some(kind)))
        (result)
        @if let Some(Ok(found)) = &found && found.rows.is_empty() && found.cursor.is_none() && room.may(Deed::Put(kind.name)) {
            p { a.button href=(Url::to(["seed", &kind.schema().system, &kind.entity.name])) { "Make sample records…" } }
        }
    };
    Ok(room.page_wrong(status(found.as_ref()), &kind.full_name(), &here.to_string(), &main))
}

pub(super) async fn items(room: &Room<'_>, table: &TableName) -> Page {
    let here = Url::to(["items", table.as_str()]);
    let deployed = room.deployed(table).await?;
    let ways = table_ways(&deployed);
    let by = room.given.said("by");
    let scan = by == Some(BY_ALL) && is_priced_first(room, None);
    let asked = by.filter(|by| !scan && ready(&ways, by, &room.given)).map(str::to_owned);
    let store = room.house.store_of(table, &room.known);
    let secrets = room.known.secrets(table, None);
    if let Some(format) = room.given.said("format") {
        let keys = &deployed.definition.key;
        let names = keys.attributes().map(|key| key.name.clone()).collect();
        let mut file = File::new(table.to_string(), names, format, asked.as_deref(), &room.given);
        while let Some((by, given, most)) = file.wants() {
            let found = query::items(&store, table, &deployed, &secrets, by, &given, most).await;
            file.take(found, |item, _| item_row(room, table, Some(keys), item));
        }
        return Ok(file.answer());
    }
    let limit = query::limit(&room.given);
    let found = match &asked {
        Some(by) => Some(query::items(&store, table, &deployed, &secrets, by, &room.given, limit).await),
        None => None,
    };
    let result = match &found {
        Some(Ok(found)) => {
            let rows = item_rows(room, table, &deployed, found);
            let sort = asked.as_deref().and_then(|by| query::sort_key(&deployed, by));
            let command = query::sql(&room.given, &found.request, sort, &store.place());
            let (delete, code) = (Url::to(["items", table.as_str(), "delete"]), Code { command, rust: None });
            results(room, table, &here, &delete, &rows, found, code)
        }
        Some(Err(wrong)) => layout::wrong(&wrong.to_string()),
        None if scan => price(room, &here, table, None).await?,
        None => nothing_asked(&ways, by),
    };
    let main = html! {
        (layout::trail(&[("tables".to_owned(), Url::to(["tables"])), (table.to_string(), Url::to(["tables", table.as_str()]))]))
        div.head {
            h1 { "Items of " span.mono { (table) } }
            @if room.might_look_back(table, None) { a.button href=(Url::to(["changes", table.as_str()])) { "Changes" } }
            @if room.may(Deed::Put(table)) {
                a.button.primary #new href=(Url::to(["items", table.as_str(), "new"])) { "New item" }
                a.button href=(Url::to(["items", table.as_str(), "import"])) { "Items from a text" }
            }
        }
        @if let Some(known) = room.known.table(table) {
            p.quiet {
                "As they are stored. As records: "
                @for entity in &known.table.entities {
                    a href=(Url::to(["browse", &known.open.schema().system, &entity.name])) { (entity.name) } " "
                }
            }
        }
        (asking(room, &here, &ways, by, &[], None))
        (result)
    };
    Ok(room.page_wrong(status(found.as_ref()), table.as_str(), "/tables", &main))
}

fn status<T>(found: Option<&Result<Found<T>, Wrong>>) -> StatusCode {
    match found {
        Some(Err(Wrong::Asked(_))) => StatusCode::BAD_REQUEST,
        Some(Err(Wrong::Denied(_))) => StatusCode::FORBIDDEN,
        Some(Err(Wrong::Store(_))) => StatusCode::BAD_GATEWAY,
        _ => StatusCode::OK,
    }
}

fn entity_ways(kind: &Kind<'_>) -> Vec<Way> {
    let mut ways = Vec::new();
    let named = std::iter::once((BY_KEY.to_owned(), None))
        .chain(kind.table.indexes.iter().map(|index| (index.alias.clone(), Some(index))));
    for (by, index) in named {
        let Some(access) = kind.entity.access(kind.table, index) else { continue };
        let arguments = access.arguments.into_iter().map(|argument| {
            let lifecycle = argument.lifecycle.as_deref().and_then(|name| kind.entity.lifecycle(name));
            // A state whose text is always the same can be chosen.
            let states = lifecycle.into_iter().flat_map(|lifecycle| &lifecycle.states);
            let states = states.filter(|state| state.template.holes().next().is_none());
            let states =
                states.filter_map(|state| state.template.build(&larder::Fields::new()).ok()).collect();
            (argument.name, argument.kind, states)
        });
        let arguments: Vec<_> = arguments.collect();
        let names: Vec<&str> = arguments.iter().map(|(name, ..)| name.as_str()).collect();
        let label = match index {
            None => format!("key: {}", names.join(", ")),
            Some(index) => format!("{}: {}", index.alias, names.join(", ")),
        };
        let sort = access.sort.as_ref();
        let states = kind
            .entity
            .lifecycles
            .iter()
            .filter(|it| sort.is_some_and(|sort| sort.attribute == it.attribute));
        let states = states.flat_map(|lifecycle| &lifecycle.states);
        let beginnings =
            states.map(|state| (state.name.clone(), state.template.prefix(&larder::Fields::new()))).collect();
        ways.push(Way { by, label, arguments, sort: access.sort.map(|sort| sort.kind), beginnings });
    }
    ways.push(Way {
        by: BY_ALL.to_owned(),
        label: "all records (a scan)".to_owned(),
        arguments: Vec::new(),
        sort: None,
        beginnings: Vec::new(),
    });
    ways
}

fn table_ways(deployed: &Deployed) -> Vec<Way> {
    let definition = &deployed.definition;
    let named = std::iter::once((BY_KEY.to_owned(), &definition.key))
        .chain(definition.indexes.iter().map(|index| (query::by_index(index.name.as_str()), &index.key)));
    let kind = |kind: larder_model::KeyType| match kind {
        larder_model::KeyType::S => Type::String,
        larder_model::KeyType::N => Type::Decimal,
        larder_model::KeyType::B => Type::Bytes,
    };
    let mut ways: Vec<Way> = named
        .map(|(by, keys)| {
            let names: Vec<&str> = keys.partition.iter().map(|attribute| attribute.name.as_str()).collect();
            let arguments = keys.partition.iter();
            Way {
                label: format!("{by}: {}", names.join(", ")),
                arguments: arguments.map(|it| (it.name.clone(), kind(it.kind), Vec::new())).collect(),
                sort: keys.sort.first().map(|attribute| kind(attribute.kind)),
                beginnings: Vec::new(),
                by,
            }
        })
        .collect();
    ways.push(Way {
        by: BY_ALL.to_owned(),
        label: "all items (a scan)".to_owned(),
        arguments: Vec::new(),
        sort: None,
        beginnings: Vec::new(),
    });
    ways
}

/// Whether all is given that this way needs.
fn ready(ways: &[Way], by: &str, given: &Given) -> bool {
    // A way that is not known is asked all the same, and the answer says so.
    let way = ways.iter().find(|way| way.by == by);
    way.is_none_or(|way| way.arguments.iter().all(|(name, ..)| given.said(&format!("a.{name}")).is_some()))
}

/// Whether a scan waits until its price was seen: it goes straight only where nobody pays, and no schema says otherwise.
fn is_priced_first(room: &Room<'_>, allowed: Option<Scan>) -> bool {
    let is_free = room.is_free() && allowed.is_none_or(|scan| scan == Scan::Allow);
    !is_free && room.given.said("scan").is_none()
}

/// What a scan reads and costs, and the way to begin it.
async fn price(
    room: &Room<'_>,
    here: &Url,
    table: &TableName,
    kind: Option<&Kind<'_>>,
) -> Result<Markup, Fault> {
    let size = census::size(&room.house.store_of(table, &room.known), table).await?;
    let size = size.ok_or_else(|| Fault::Absent(format!("There is no table {table}.")))?;
    let consistent = kind.is_some_and(|kind| kind.entity.policy.reads == Consistency::Strong);
    let units = |bytes: u64| Units { read: read_units(bytes, consistent).max(0.5), write: 0.0 };
    let first = units(size.bytes.min(PAGE_BYTES_MAX as u64));
    let url = query::settled(&room.given).onto(here.clone()).with("scan", "1");
    Ok(html! {
        div.empty {
            h2 { "Read the table?" }
            p {
                "A scan reads whatever " span.mono { (table) } " holds, a page at a time. The table tells of "
                (show::count(size.items, "item")) ", " (larder::price::size(size.bytes)) ": " (units(size.bytes)) " for all of it."
                @if room.is_free() { " That is DynamoDB's price; here it is free." }
            }
            @match kind.map(|kind| kind.entity.policy.scan) {
                Some(Scan::Deny) => p { "The schema lets no program scan " (kind.map_or("", |kind| &kind.entity.name)) ": "
                    code { "scan deny" } " is also what holds where it says nothing." },
                Some(Scan::Ask) => p { "The schema says " code { "scan ask" } "." },
                _ => {}
            }
            a.button.primary #scan href=(url) { "Read a page: " (first) }
        }
    })
}

fn nothing_asked(ways: &[Way], by: Option<&str>) -> Markup {
    let missing = ways.iter().find(|way| Some(way.by.as_str()) == by);
    let names: Vec<&str> =
        missing.into_iter().flat_map(|way| &way.arguments).map(|(name, ..)| name.as_str()).collect();
    html! {
        div.empty {
            @if names.is_empty() {
                h2 { "Choose what to look at" }
                p { "An index or the key answers at once, whatever the size of the table. A scan reads the table from its "
                    "beginning, up to a megabyte (128 read units) for each page." }
            } @else {
                h2 { "Which " (names.join(" and ")) "?" }
                p { "An index is asked for one partition at a time." }
            }
        }
    }
}

/// The form that makes the address.
fn asking(
    room: &Room<'_>,
    here: &Url,
    ways: &[Way],
    by: Option<&str>,
    fields: &[(String, String)],
    kind: Option<&Kind<'_>>,
) -> Markup {
    let given = &room.given;
    let expires = kind.is_some_and(|kind| kind.table.ttl.is_some());
    let way = by.and_then(|by| ways.iter().find(|way| way.by == by));
    let mut filters = query::filters(given);
    filters.push(("", "eq", ""));
    html! {
        nav.ways aria-label="How to ask" {
            @for way in ways {
                a href=(here.clone().with("by", &way.by)) aria-current=[(Some(way.by.as_str()) == by).then_some("true")] {
                    (way.label)
                }
            }
        }
        @if let Some(way) = way {
            form.ask action=(here) method="get" {
                input type="hidden" name="by" value=(way.by);
                @if given.said("scan").is_some() { input type="hidden" name="scan" value="1"; }
                @for column in given.all("c") { input type="hidden" name="c" value=(column); }
                @for (at, (name, kind, choices)) in way.arguments.iter().enumerate() {
                    @let id = format!("a{at}");
                    @let value = given.get(&format!("a.{name}")).unwrap_or_default();
                    div.field {
                        label for=(id) { (name) " " span.quiet { (kind) } }
                        @if choices.is_empty() {
                            (layout::input(&id, &format!("a.{name}"), kind, value, false, false))
                        } @else {
                            (layout::input(&id, &format!("a.{name}"), &Type::Choice(choices.clone()), value, false, false))
                        }
                    }
                }
                @if let Some(sort) = &way.sort {
                    @let zone = if matches!(sort, Type::Instant(_) | Type::Epoch) { ", UTC" } else { "" };
                    div.field { label for="from" { "from " span.quiet { (sort) (zone) } } (bound_input("from", sort, given)) }
                    div.field { label for="until" { "until " span.quiet { (zone.trim_start_matches(", ")) } } (bound_input("until", sort, given)) }
                    @if sort.key_type() == Some(larder_model::KeyType::S) {
                        div.field {
                            label for="begins" { "begins with" }
                            input #begins name="begins" value=(given.get("begins").unwrap_or_default()) autocomplete="off" spellcheck="false"
                                list=[(!way.beginnings.is_empty()).then_some("beginnings")];
                            @if !way.beginnings.is_empty() {
                                datalist #beginnings { @for (state, beginning) in &way.beginnings { option value=(beginning) { (state) } } }
                            }
                        }
                    }
                    div.field.check {
                        label { input type="checkbox" name="newest" value="1" checked[given.said("newest").is_some()]; " newest first" }
                    }
                }
                @if expires {
                    div.field.check {
                        label { input type="checkbox" name="expired" value="1" checked[given.said("expired").is_some()]; " expired too" }
                    }
                }
                div.field {
                    label for="limit" { "a page of" }
                    select #limit name="limit" {
                        @for size in [25, 50, 100, 500, query::PAGE_MAX] {
                            option value=(size) selected[size == query::limit(given)] { (size) }
                        }
                    }
                }
                div.field.do { button.primary type="submit" { "Show" } }
                @let (word, units) = query::price_before(kind, &way.by, given);
                p.quiet.price {
                    "A page takes " (word) " " (units)
                    @if room.is_free() { ", as DynamoDB counts; here it is free" } "."
                }
                details.filters open[filters.len() > 1] {
                    summary { "Filters" @if filters.len() > 1 { " (" (filters.len() - 1) ")" } }
                    @for (at, (field, operator, value)) in filters.iter().enumerate() {
                        div.filter {
                            @if fields.is_empty() {
                                input name="f" value=(field) aria-label={ "Attribute of filter " (at + 1) } placeholder="attribute";
                            } @else {
                                select name="f" aria-label={ "Field of filter " (at + 1) } {
                                    option value="" { "no filter" }
                                    @for (name, kind) in fields {
                                        option value=(name) selected[name == field] { (name) ": " (kind) }
                                    }
                                }
                            }
                            select name="o" aria-label={ "Operator of filter " (at + 1) } {
                                @for (word, text) in OPERATORS { option value=(word) selected[word == *operator] { (text) } }
                            }
                            input name="v" value=(value) aria-label={ "Value of filter " (at + 1) }
                                placeholder=(if fields.is_empty() { "12, \"12\", true or a text" } else { "value" });
                        }
                    }
                    p.quiet { "Filtered is what was read: an index saves units, a filter does not." }
                }
            }
        }
    }
}

/// One end of a range: a list, a day or a moment to pick, where the type has one; what such a field could not show stays a text.
fn bound_input(name: &str, kind: &Type, given: &Given) -> Markup {
    let value = given.get(name).unwrap_or_default();
    match kind {
        Type::Instant(_) | Type::Epoch | Type::Datetime => {
            let shown = match value.len() {
                // A day begins at midnight, and ends before the next one.
                10 => format!("{value}T{}", if name == "until" { "23:59:59" } else { "00:00" }),
                _ => value.strip_suffix('Z').unwrap_or(value).to_owned(),
            };
            let is_moment =
                shown.len() <= "2026-01-15T10:00:00.000".len() && shown.parse::<DateTime>().is_ok();
            let form = if value.is_empty() || is_moment { "datetime-local" } else { "text" };
            let shown = if form == "text" { value } else { &shown };
            html! { input id=(name) name=(name) type=(form) step="any" value=(shown) autocomplete="off"; }
        }
        Type::Choice(_) | Type::Bool | Type::Int | Type::Sequence | Type::Float | Type::Decimal => {
            layout::input(name, name, kind, value, true, false)
        }
        Type::Date if value.is_empty() || value.parse::<larder::jiff::civil::Date>().is_ok() => {
            layout::input(name, name, kind, value, true, false)
        }
        _ => html! { input id=(name) name=(name) value=(value) autocomplete="off" spellcheck="false"; },
    }
}

/// The file of the schema that an entity is of.
fn schema_file(room: &Room<'_>, kind: &Kind<'_>) -> String {
    let is_it = |open: &&Arc<Open>| open.schema().system == kind.schema().system;
    let file = room.known.files.iter().find(|file| file.open.as_ref().filter(is_it).is_some());
    file.map(|file| file.path.display().to_string()).unwrap_or_default()
}

/// What a view is as code beside its request: a command, and Rust on the layer.
struct Code {
    command: Option<String>,
    rust: Option<String>,
}

fn results<T>(
    room: &Room<'_>,
    table: &TableName,
    here: &Url,
    delete: &Url,
    rows: &Rows,
    found: &Found<T>,
    code: Code,
) -> Markup {
    let given = &query::settled(&room.given);
    let this = given.onto(here.clone());
    let first = this.clone().without("cursor");
    let may_delete = room.may(Deed::Delete(table, None)) && !rows.rows.is_empty();
    html! {
        @if !found.unread.is_empty() { p.notice.bad { (found.unread.to_string()) } }
        div.results-head {
            p role="status" {
                b { (show::count(rows.rows.len() as u64, "row")) }
                @if found.cursor.is_some() { ", and more" }
                span.quiet { " · took " (Units { read: found.units, write: 0.0 }) }
            }
            span.grow {}
            a.button.small href=(first.clone().with("format", "json")) download { "JSON" }
            a.button.small href=(first.clone().with("format", "csv")) download { "CSV" }
        }
        @if rows.rows.is_empty() {
            div.empty {
                h2 { "Nothing is there" }
                p {
                    @if found.cursor.is_some() { "On this page everything was left out; the next one may have more." }
                    @else if query::filters(given).is_empty() { "The partition is empty. Look at another, or make a record." }
                    @else { "Nothing of it passes the filters." }
                }
                @if let Some(cursor) = &found.cursor {
                    a.button #next rel="next" href=(this.clone().instead("cursor", cursor)) { "Next page" }
                }
            }
        } @else {
            (columns(here, given, rows))
            form method="post" action=(delete) {
                (layout::token(room))
                input type="hidden" name="back" value=(first.to_string());
                div.scroll tabindex="0" role="region" aria-label="Results" {
                    table.rows data-sortable {
                        thead { tr {
                            @if may_delete { th.choose { span.unseen { "Choose" } } }
                            @for column in &rows.columns { th { (column) } }
                        } }
                        tbody {
                            @for (at, (url, key, cells)) in rows.rows.iter().enumerate() {
                                tr {
                                    @if may_delete {
                                        td.choose {
                                            input type="checkbox" name="key" aria-label={ "Choose row " (at + 1) }
                                                value=(Json::Object(show::item_json(key)).to_string());
                                        }
                                    }
                                    @for (column, cell) in cells.iter().enumerate() {
                                        @if column == 0 { td { a.open href=(url) { (cell) @if cell.0.is_empty() { "open" } } } }
                                        @else { td { (cell) } }
                                    }
                                }
                            }
                        }
                    }
                }
                div.pages {
                    @if given.said("cursor").is_some() { a.button href=(first) { "First page" } }
                    @if let Some(cursor) = &found.cursor {
                        a.button #next rel="next" href=(this.clone().instead("cursor", cursor)) { "Next page" }
                    }
                    span.grow {}
                    @if may_delete { button.danger type="submit" { "Delete the chosen…" } }
                }
            }
        }
        (as_code(room, &found.request, code))
    }
}

fn columns(here: &Url, given: &Given, rows: &Rows) -> Markup {
    html! {
        details.columns {
            summary { "Columns (" (rows.columns.len()) " of " (rows.known.len()) ")" }
            form action=(here) method="get" {
                @for (name, value) in given.iter().filter(|(name, _)| *name != "c") {
                    input type="hidden" name=(name) value=(value);
                }
                @for name in &rows.known {
                    label { input type="checkbox" name="c" value=(name) checked[rows.columns.contains(name)]; " " (name) }
                }
                button.small type="submit" { "Show these" }
            }
        }
    }
}

fn as_code(room: &Room<'_>, request: &Json, code: Code) -> Markup {
    let store: Option<Address> = room.house.store().place().parse().ok();
    let endpoint = match store {
        Some(Address::DynamoDb { endpoint }) => endpoint,
        _ => None,
    };
    let rust = code.rust.unwrap_or_else(|| code::rust(request, endpoint.as_deref()));
    let blocks = code.command.map(|text| ("larder", text)).into_iter().chain([
        ("Rust", rust),
        ("boto3", code::boto3(request, endpoint.as_deref())),
        ("aws-sdk v3", code::javascript(request, endpoint.as_deref())),
    ]);
    html! {
        details.code {
            summary { "As code" }
            @for (name, text) in blocks {
                div.block {
                    h2 { (name) }
                    button.small.copy type="button" hidden { "Copy" }
                    pre tabindex="0" aria-label=(name) { (text) }
                }
            }
        }
    }
}

/// The names that are shown: those that were chosen, or the first of all.
fn chosen(given: &Given, known: &[String]) -> Vec<String> {
    let picked: Vec<String> =
        given.all("c").filter(|name| known.iter().any(|it| it == name)).map(str::to_owned).collect();
    if picked.is_empty() { known.iter().take(COLUMNS).cloned().collect() } else { picked }
}

fn record_rows(room: &Room<'_>, kind: &Kind<'_>, found: &Found<Entry>) -> Rows {
    let entity = kind.entity;
    let present = |name: &str| found.rows.iter().any(|entry| entry.fields.contains_key(name));
    // The key comes first, and what is worked out from others after them.
    let is_key = |name: &str| kind_keys(kind).contains(&name);
    let mut fields: Vec<_> = entity.fields.iter().filter(|field| present(&field.name)).collect();
    fields.sort_by_key(|field| (!is_key(&field.attribute), !field.is_given()));
    let derived = fields.iter().filter(|field| !is_key(&field.attribute) && !field.is_given()).count();
    let (first, last) = fields.split_at(fields.len() - derived);
    let states = entity.lifecycles.iter().map(|lifecycle| &lifecycle.name);
    let states = states.filter(|name| entity.field(name).is_none());
    let life = kind.table.ttl.as_ref().map(|_| "life left".to_owned());
    let names = |fields: &[&larder_schema::Field]| -> Vec<String> {
        fields.iter().map(|field| field.name.clone()).collect()
    };
    let known: Vec<String> =
        names(first).into_iter().chain(states.cloned()).chain(life).chain(names(last)).collect();
    let columns = chosen(&room.given, &known);
    let now = room.house.now();
    let rows = found.rows.iter().map(|entry| {
        let cells = columns.iter().map(|name| record_cell(kind, entry, name, now));
        (
            item_url(kind.name, kind_keys(kind), entry.kept().key()),
            entry.kept().key().clone(),
            cells.collect(),
        )
    });
    Rows { rows: rows.collect(), columns, known }
}

/// The attributes of the table's key, in order.
pub(super) fn kind_keys<'a>(kind: &Kind<'a>) -> Vec<&'a str> {
    let keys = std::iter::once(&kind.table.partition).chain(kind.table.sort.as_ref());
    keys.map(|key| key.attribute.as_str()).collect()
}

fn record_cell(kind: &Kind<'_>, entry: &Entry, name: &str, now: larder::UnixTime) -> Markup {
    if let Some(field) = kind.entity.field(name) {
        return match entry.fields.get(name) {
            None => html! {},
            Some(_) if kind.schema().reveals_secret(kind.entity, field) => show::secret(),
            Some(value) => show::cell(kind.schema(), &field.kind, value),
        };
    }
    if kind.entity.lifecycle(name).is_some() {
        let kept = entry.kept();
        let state = kept.state(name);
        return match (state, kept.unknown_state(name)) {
            (Some(state), _) => html! { span.badge { (state) } },
            (None, Some(text)) => html! { span.badge.bad { (text) } },
            (None, None) => html! {},
        };
    }
    match entry.kept().expires() {
        Some(at) if at.seconds() < now.seconds() => html! { span.badge.bad { "expired" } },
        Some(at) => show::away(at, now),
        None => html! { span.quiet { "for ever" } },
    }
}

fn item_rows(room: &Room<'_>, table: &TableName, deployed: &Deployed, found: &Found<Item>) -> Rows {
    let keys: Vec<&str> = deployed.definition.key.attributes().map(|key| key.name.as_str()).collect();
    let mut known: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    for name in found.rows.iter().flat_map(Item::names) {
        if !known.iter().any(|it| it == name) {
            known.push(name.to_owned());
        }
    }
    let columns = chosen(&room.given, &known);
    let rows = found.rows.iter().map(|item| {
        let hidden = item::secrets(room, table, item);
        let hidden = |name: &str| hidden.contains(name) && !keys.contains(&name);
        let cells = columns.iter().map(|name| match item.get(name) {
            None => html! {},
            Some(_) if hidden(name) => show::secret(),
            Some(value) => show::attribute_cell(value),
        });
        let key: Item =
            keys.iter().filter_map(|key| Some(((*key).to_owned(), item.get(key)?.clone()))).collect();
        (item_url(table, keys.clone(), item), key, cells.collect())
    });
    Rows { rows: rows.collect(), columns, known }
}

/// A record as a download has it, without its secrets.
fn record_row(kind: &Kind<'_>, entry: &Entry, typed: bool) -> Map<String, Json> {
    let visible = kind.entity.fields.iter().filter(|field| !kind.schema().reveals_secret(kind.entity, field));
    let fields = visible.filter_map(|field| {
        let json = larder::text::to_json(kind.schema(), &field.kind, entry.fields.get(&field.name)?);
        let is_number = matches!(field.kind, Type::Int | Type::Float | Type::Decimal | Type::Sequence);
        let json = match json {
            Json::String(text) if typed && is_number => json!({ "N": text }),
            json => json,
        };
        Some((field.name.clone(), json))
    });
    let states = kind.entity.lifecycles.iter().filter_map(|lifecycle| {
        Some((lifecycle.name.clone(), Json::from(entry.kept().state(&lifecycle.name)?)))
    });
    fields.chain(states).collect()
}

pub(super) fn item_row(
    room: &Room<'_>,
    table: &TableName,
    keys: Option<&KeySchema>,
    item: &Item,
) -> Map<String, Json> {
    let hidden = item::secrets(room, table, item);
    let is_key = |name: &str| keys.is_some_and(|keys| keys.attributes().any(|key| key.name == name));
    let mut shown = Item::new();
    for (name, value) in item.iter().filter(|(name, _)| !hidden.contains(*name) || is_key(name)) {
        shown.insert(name.clone(), value.clone());
    }
    show::item_json(&shown)
}

/// A download under way: page after page is read until there is no more, or it is enough.
pub(super) struct File<'a> {
    name: String,
    /// The first columns; others follow as they are found.
    names: Vec<String>,
    format: &'a str,
    by: &'a str,
    given: &'a Given,
    begun: Instant,
    rows: Vec<Map<String, Json>>,
    bytes: usize,
    units: f64,
    /// Where to go on; `None` at the beginning.
    cursor: Option<String>,
    /// What came of it; `None` while there is more to read.
    told: Option<Result<(), Wrong>>,
}

impl<'a> File<'a> {
    pub(super) fn new(
        name: String,
        names: Vec<String>,
        format: &'a str,
        by: Option<&'a str>,
        given: &'a Given,
    ) -> Self {
        let wrong = match (format, by) {
            ("csv" | "json", Some(_)) => None,
            ("csv" | "json", None) => Some(
                "The address does not say what to read: it lacks `by`, or what that needs, such as `scan=1`."
                    .to_owned(),
            ),
            (other, _) => Some(format!("`{other}` is no format: json or csv is.")),
        };
        Self {
            name,
            names,
            format,
            by: by.unwrap_or_default(),
            given,
            begun: Instant::now(),
            rows: Vec::new(),
            bytes: 0,
            units: 0.0,
            cursor: None,
            told: wrong.map(|text| Err(Wrong::Asked(text))),
        }
    }

    /// What is to be read next: by which index, from where, and how many rows.
    pub(super) fn wants(&self) -> Option<(&'a str, Given, usize)> {
        if self.told.is_some() {
            return None;
        }
        let pairs = self.given.iter().filter(|(name, _)| *name != "cursor" || self.cursor.is_none());
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let cursor = self.cursor.iter().map(|cursor| ("cursor".to_owned(), cursor.clone()));
        let most = DOWNLOAD_AT_ONCE.min(DOWNLOAD_ROWS_MAX - self.rows.len());
        Some((self.by, pairs.chain(cursor).collect(), most))
    }

    pub(super) fn take<T>(
        &mut self,
        found: Result<Found<T>, Wrong>,
        row: impl Fn(&T, bool) -> Map<String, Json>,
    ) {
        let found = match found {
            Ok(found) => found,
            Err(wrong) => return self.told = Some(Err(wrong)),
        };
        for found in &found.rows {
            let row = row(found, self.format == "csv");
            self.bytes += row.iter().map(|(name, value)| name.len() + value.to_string().len()).sum::<usize>();
            self.rows.push(row);
        }
        self.cursor = found.cursor;
        self.units += found.units;
        let is_enough = self.rows.len() >= DOWNLOAD_ROWS_MAX
            || self.bytes >= DOWNLOAD_BYTES_MAX
            || self.units >= DOWNLOAD_UNITS_MAX
            || self.begun.elapsed() >= DOWNLOAD_TIME_MAX;
        if self.cursor.is_none() || is_enough {
            self.told = Some(Ok(()));
        }
    }

    /// The file. Its name says where it was cut.
    pub(super) fn answer(self) -> answer::Answer {
        match self.told {
            Some(Err(Wrong::Asked(text))) => return answer::told(StatusCode::BAD_REQUEST, text),
            Some(Err(Wrong::Denied(text))) => return answer::told(StatusCode::FORBIDDEN, text),
            Some(Err(Wrong::Store(text))) => return answer::told(StatusCode::BAD_GATEWAY, text),
            Some(Ok(())) | None => {}
        }
        let cut = self.cursor.map(|_| format!("-first-{}", self.rows.len())).unwrap_or_default();
        let name = format!("{}{cut}.{}", self.name, self.format);
        if self.format != "csv" {
            let all = Json::Array(self.rows.into_iter().map(Json::Object).collect());
            return answer::download(&name, "application/json", show::pretty(&all).into_bytes());
        }
        let mut names: Vec<&String> = self.names.iter().collect();
        let mut known: HashSet<&String> = names.iter().copied().collect();
        names.extend(self.rows.iter().flat_map(Map::keys).filter(|name| known.insert(name)));
        let mut text = csv_line(names.iter().map(|name| Json::from(name.as_str())));
        for row in &self.rows {
            text.push_str(&csv_line(names.iter().map(|name| row.get(*name).cloned().unwrap_or_default())));
        }
        answer::download(&name, "text/csv; charset=utf-8", text.into_bytes())
    }
}

/// A line of a CSV. Every text is quoted, so that no sign in it begins another cell, whatever a spreadsheet separates by.
fn csv_line(values: impl Iterator<Item = Json>) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let cells: Vec<String> = values
        .map(|value| {
            // An attribute that is a plain value is written as it is; all else keeps its type.
            let typed = value.as_object().filter(|typed| typed.len() == 1);
            let (kind, inner) = match typed.and_then(|typed| typed.iter().next()) {
                Some((kind, inner)) if ["S", "N", "BOOL"].contains(&kind.as_str()) => (kind.as_str(), inner),
                _ => ("", &value),
            };
            match inner {
                Json::Null => String::new(),
                Json::Bool(_) | Json::Number(_) => inner.to_string(),
                Json::String(text) if kind == "N" && text.parse::<larder::Number>().is_ok() => text.clone(),
                // A spreadsheet would work out a text that begins like a formula.
                Json::String(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r']) => {
                    quoted(&format!("'{text}"))
                }
                Json::String(text) => quoted(text),
                other => quoted(&other.to_string()),
            }
        })
        .collect();
    format!("{}\r\n", cells.join(","))
}

/// Deletes what was chosen, once that is confirmed.
pub(super) async fn delete(room: &Room<'_>, table: &TableName, form: &Given) -> Page {
    let deployed = room.deployed(table).await?;
    let names: Vec<&str> = deployed.definition.key.attributes().map(|key| key.name.as_str()).collect();
    let mut keys = Vec::new();
    for text in form.all("key") {
        let key = show::read_item(text)
            .map_err(|_| Fault::Refused("A row was named in a way that is no key.".into()))?;
        if key.names().count() != names.len() || !names.iter().all(|name| key.contains(name)) {
            return Err(Fault::Refused("A row was named by other attributes than the key's.".to_owned()));
        }
        keys.push(key);
    }
    let back = form
        .get("back")
        .filter(|back| back.starts_with('/') && !back[1..].starts_with(['/', '\\']))
        .unwrap_or("/");
    if keys.is_empty() {
        return Err(Fault::Refused("No row was chosen: choose some by their boxes first.".to_owned()));
    }
    let mut seen = form.all("seen");
    let (mut there, mut kept, mut gone) = (Vec::new(), Vec::new(), 0);
    for key in keys {
        let was = seen.next();
        let Some(item) = room.item(table, key.clone()).await? else { continue };
        if form.said("confirm").is_none() {
            there.push((key, item));
        } else if was == Some(&show::digest(&item)) && remove(room, table, &key, &item).await? {
            gone += 1;
        } else {
            kept.push(key);
        }
    }
    if form.said("confirm").is_none() {
        let count = show::count(there.len() as u64, "item");
        let main = html! {
            h1 { "Delete " (count) "?" }
            p { "From " span.mono { (table) } ". This cannot be taken back, except from a backup. What changes before it is deleted stays." }
            form method="post" {
                (layout::token(room))
                input type="hidden" name="confirm" value="1";
                input type="hidden" name="back" value=(back);
                @for (key, item) in &there {
                    details {
                        summary.mono { (item::key_line(&names, key)) }
                        pre tabindex="0" { (show::cut(&item::raw(item, &item::secrets(room, table, item)), 2000).0) }
                    }
                    input type="hidden" name="key" value=(Json::Object(show::item_json(key)).to_string());
                    input type="hidden" name="seen" value=(show::digest(item));
                }
                button.danger type="submit" { "Delete " (count) }
                " " a.button href=(back) { "Keep them" }
            }
        };
        return Ok(room.page_of("Delete", "", &main));
    }
    let main = html! {
        h1 { "Deleted" }
        p.notice.good role="status" { (show::count(gone, "item")) " deleted from " (table) "." }
        @if !kept.is_empty() {
            p.notice.bad role="alert" { "Not deleted, because somebody changed them since they were shown:" }
            ul.mono { @for key in &kept { li { (item::key_line(&names, key)) } } }
        }
        p { a.button href=(back) { "Back to where you were" } }
    };
    Ok(room.page_of("Deleted", "", &main))
}

/// Removes an item if it is still as it was read: a record through the layer, which knows its parts; anything else as it is.
/// Says whether it did.
pub(super) async fn remove(
    room: &Room<'_>,
    table: &TableName,
    key: &Item,
    read: &Item,
) -> Result<bool, Fault> {
    let kind = room.known.kind(table, read);
    let removed = match &kind {
        Some(kind) => kind.shelf.delete_read(read).await,
        None => {
            let options =
                WriteOptions { condition: Some(larder::store::as_read(read)), ..WriteOptions::default() };
            let request = DeleteItem { table: table.clone(), key: key.clone(), options };
            let store = room.house.store_of(table, &room.known);
            store.delete_item(request).await.map(drop).map_err(Into::into)
        }
    };
    match removed {
        Err(
            larder::Error::Conflict { .. } | larder::Error::Store(larder::store::Error::Condition { .. }),
        ) => Ok(false),
        Err(error) => Err(error.into()),
        Ok(()) => {
            tracing::info!(%table, key = ?key.iter().map(|(_, value)| crate::house::key_text(value)).collect::<Vec<_>>(), "the console deleted an item");
            Ok(true)
        }
    }
}

/// A text for a value of a key.
pub(super) fn key_cell(value: Option<&AttributeValue>) -> String {
    value.map(crate::house::key_text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_a_csv_is_one_cell_and_no_formula() {
        let values = ["a,b", "say \"hi\"", "=1+1", "-5", "two\nlines", "a;=b", ""].map(Json::from);
        let typed =
            [json!({"N": "-5"}), json!({"S": "-5"}), json!({"N": "=5"}), json!({"SS": ["a"]}), Json::Null];
        let line = csv_line(values.into_iter().chain(typed));
        assert_eq!(
            line,
            "\"a,b\",\"say \"\"hi\"\"\",\"'=1+1\",\"'-5\",\"two\nlines\",\"a;=b\",\"\",\
             -5,\"'-5\",\"'=5\",\"{\"\"SS\"\":[\"\"a\"\"]}\",\r\n"
        );
    }
}
