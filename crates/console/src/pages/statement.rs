//! A PartiQL statement: what it would do and cost, and then what came of it.
//!
//! A SELECT is an address, so that it can be sent to somebody else; one that reads a whole table waits until its price was seen.
//! A write is told first, and done by a form.
//!
//! Promise: a statement that names a secret is not carried out, and of what one answers secrets are hidden.

use std::collections::BTreeSet;

use hyper::StatusCode;
use larder::price::Units;
use larder::statement::{self, Explanation};
use larder::store::Deployed;
use larder::{Unread, census};
use larder_model::{AttributeValue, Item, TableName};
use larder_partiql::{Select, Statement};
use maud::{Markup, html};
use serde_json::Value as Json;

use super::browse::{File, item_row};
use super::item::{self, item_url};
use super::{Fault, Page, Room, layout};
use crate::address::{Given, Url};
use crate::deed::Deed;
use crate::query::{self, Found, Wrong, is_denied};
use crate::show;

/// What a page may take to find something, where most of what is read is left out: a megabyte.
const PAGE_UNITS_MAX: f64 = 128.0;

/// A statement that was read, with what is known of its table.
struct Asked {
    text: String,
    parameters: Vec<AttributeValue>,
    statement: Statement,
    /// `None` where whoever asks may not know it.
    table: Option<Deployed>,
    /// What it would do; or why that is not known.
    told: Result<Explanation, String>,
}

pub(super) async fn show(room: &Room<'_>, form: Option<&Given>) -> Page {
    let here = Url::to(["statement"]);
    let given = form.unwrap_or(&room.given);
    if given.said("statement").is_none() {
        return Ok(page(room, StatusCode::OK, given, &hints()));
    }
    let asked = match read(room, given).await {
        Ok(asked) => asked,
        Err(wrong) => return Ok(page(room, status(&wrong), given, &layout::wrong(&wrong.to_string()))),
    };
    let is_read = asked.statement.is_read();
    if form.is_some() && !is_read {
        return write(room, given, &asked).await;
    }
    // What it does to the table is not known: it may be a scan.
    let is_scan = asked.told.as_ref().map_or(true, Explanation::is_scan);
    let runs = is_read && given.said("run").is_some() && (!is_scan || given.said("scan").is_some());
    if let (Some(format), true) = (given.said("format"), is_read) {
        return download(room, &asked, format, runs).await;
    }
    let mut state = StatusCode::OK;
    let result = match runs {
        true => match select(room, &asked, given.said("cursor"), query::limit(given)).await {
            Ok(found) => results(room, &here, given, &asked, &found),
            Err(wrong) => {
                state = status(&wrong);
                layout::wrong(&wrong.to_string())
            }
        },
        false => offer(room, &here, given, &asked, is_scan),
    };
    Ok(page(room, state, given, &html! { (explained(room, &asked)) (result) }))
}

fn status(wrong: &Wrong) -> StatusCode {
    match wrong {
        Wrong::Asked(_) => StatusCode::BAD_REQUEST,
        Wrong::Denied(_) => StatusCode::FORBIDDEN,
        Wrong::Store(_) => StatusCode::BAD_GATEWAY,
    }
}

/// The page with the box, and what is below it.
fn page(room: &Room<'_>, status: StatusCode, given: &Given, below: &Markup) -> crate::answer::Answer {
    let text = given.get("statement").unwrap_or_default();
    let parameters = given.get("parameters").unwrap_or_default();
    let main = html! {
        h1 { "Statement" }
        form.record.statement action="/statement" method="get" {
            div.field {
                label for="statement" { "PartiQL " span.quiet { "SELECT, INSERT, UPDATE or DELETE" } }
                textarea #statement name="statement" rows=(text.lines().count().clamp(3, 16)) required spellcheck="false" autocapitalize="off" data-run {
                    "\n" (text)
                }
            }
            div.field {
                label for="parameters" { "Parameters " span.quiet { "one a line, for each ? in turn: 5, true, null, \"text\" or text" } }
                textarea #parameters name="parameters" rows=(parameters.lines().count().clamp(1, 8)) spellcheck="false" data-run { "\n" (parameters) }
            }
            div.do {
                button.primary #run type="submit" name="run" value="1" { "Run" }
                " " button type="submit" { "What would it do?" }
            }
        }
        (below)
    };
    room.page_wrong(status, "Statement", "/statement", &main)
}

fn hints() -> Markup {
    html! {
        div.empty {
            h2 { "Nothing is asked yet" }
            p { "A name with a dash or a dot, and an index after its table, stands in double quotes: " code { "SELECT * FROM \"my-table\".\"by-date\" WHERE day = ?" }
                ". A statement that names its partition key answers at once, whatever the size of the table; what it costs is told first." }
        }
    }
}

/// What was written, as a statement; and what it would do to its table.
async fn read(room: &Room<'_>, given: &Given) -> Result<Asked, Wrong> {
    let text = given.get("statement").unwrap_or_default().trim().to_owned();
    let lines = given.get("parameters").unwrap_or_default().lines().map(str::trim);
    let parameters = lines.filter(|line| !line.is_empty()).map(statement::parameter);
    let parameters: Vec<AttributeValue> = parameters.collect::<Result<_, _>>()?;
    let statement = larder_partiql::read(&text, &parameters).map_err(|error| error.to_string())?;
    let table = match room.deployed(statement.table()).await {
        Ok(table) => Some(table),
        Err(Fault::Denied(_)) => None,
        Err(Fault::Absent(text) | Fault::Asked(text) | Fault::Refused(text)) => {
            return Err(Wrong::Asked(text));
        }
        Err(Fault::Store(text)) => return Err(Wrong::Store(text)),
    };
    let is_key = |name: &str| {
        let mut keys = table.iter().flat_map(|table| table.definition.key.attributes());
        keys.any(|key| key.name == name)
    };
    let secrets = room.known.secrets(statement.table(), None);
    if let Some(name) = statement.attributes().into_iter().find(|name| secrets.hide(name) && !is_key(name)) {
        return Err(Wrong::Asked(format!(
            "`{name}` is a secret, or may be one: no statement names it here. The page of an item shows it to whoever asks for it there."
        )));
    }
    let told = match &table {
        None => Err("What it would do is not known: your key may not see the table.".to_owned()),
        Some(table) => {
            let size =
                census::size(&room.house.store_of(statement.table(), &room.known), statement.table()).await;
            let size = match size {
                Err(error) if is_denied(&error) => None,
                size => size?,
            };
            let told = Explanation::of(&statement, &table.definition, size.as_ref());
            Ok(told.map_err(|error| error.to_string())?)
        }
    };
    Ok(Asked { text, parameters, statement, table, told })
}

/// What it would do, and for how much.
fn explained(room: &Room<'_>, asked: &Asked) -> Markup {
    html! {
        section.card #price {
            h2 { "What it does" }
            @match &asked.told {
                Err(why) => p { (why) },
                Ok(told) => {
                    @for line in told.to_string().lines() { p { (line) } }
                    @if room.is_free() { p.quiet { "That is DynamoDB's price; here it is free." } }
                }
            }
        }
    }
}

/// The way to do what was told.
fn offer(room: &Room<'_>, here: &Url, given: &Given, asked: &Asked, is_scan: bool) -> Markup {
    if asked.statement.is_read() {
        let url = query::settled(given).onto(here.clone()).without("cursor").instead("run", "1");
        let url = if is_scan { url.instead("scan", "1") } else { url };
        return html! {
            p { a.button.primary #go href=(url) { @if is_scan { "Read it, a page at a time" } @else { "Run it" } } }
        };
    }
    if !room.may(Deed::Execute(&asked.statement)) {
        return html! { p.quiet { (room.why_not()) } };
    }
    html! {
        @if let Some(known) = room.known.table(asked.statement.table()) {
            p.notice {
                "A statement writes past the schema of " (known.open.schema().system) ": what is worked out, versions and states stay as they are. "
                "The form of a record keeps them; " code { "larder serve --schema" } " refuses what the schema does not allow."
            }
        }
        form method="post" action=(here) {
            (layout::token(room))
            input type="hidden" name="statement" value=(asked.text);
            input type="hidden" name="parameters" value=(given.get("parameters").unwrap_or_default());
            button.danger #go type="submit" { "Do it" }
        }
    }
}

/// Does it, and shows what it returns.
async fn write(room: &Room<'_>, given: &Given, asked: &Asked) -> Page {
    let table = asked.statement.table();
    let store = room.house.store_of(table, &room.known);
    let written = statement::run(&store, &asked.text, &asked.parameters, None, None).await;
    let (state, result) = match written {
        Err(error) => {
            // A condition that failed, or an item that is there already.
            let is_refused = matches!(error, larder::store::Error::Refused { .. });
            let wrong = Wrong::from(error);
            let state = match &wrong {
                Wrong::Store(_) if is_refused => StatusCode::CONFLICT,
                wrong => status(wrong),
            };
            (state, layout::wrong(&format!("Nothing was written: {wrong}")))
        }
        Ok(written) => {
            let operation = asked.told.as_ref().map_or("", |told| told.operation);
            tracing::info!(%table, operation, "the console ran a statement");
            let units = Units { read: 0.0, write: written.units };
            let result = html! {
                p.notice.good role="status" { "It is done, for " (units) "." }
                @if !written.items.is_empty() { (rows(room, asked, &written.items)) }
            };
            (StatusCode::OK, result)
        }
    };
    Ok(page(room, state, given, &result))
}

/// A page of a SELECT: as many rows as are wanted, or what a megabyte holds of them.
async fn select(
    room: &Room<'_>,
    asked: &Asked,
    cursor: Option<&str>,
    most: usize,
) -> Result<Found<Item>, Wrong> {
    let store = room.house.store_of(asked.statement.table(), &room.known);
    let cursor = cursor.map(str::to_owned);
    let mut found =
        Found { rows: Vec::new(), cursor, unread: Unread::default(), units: 0.0, request: Json::Null };
    loop {
        let limit = Some(most - found.rows.len());
        let page = statement::run(&store, &asked.text, &asked.parameters, found.cursor.take(), limit).await?;
        found.rows.extend(page.items);
        found.units += page.units;
        found.cursor = page.next;
        if found.cursor.is_none() || found.rows.len() >= most || found.units >= PAGE_UNITS_MAX {
            return Ok(found);
        }
    }
}

async fn download(room: &Room<'_>, asked: &Asked, format: &str, runs: bool) -> Page {
    let table = asked.statement.table();
    let names = columns(asked, &[]);
    let mut file = File::new(table.to_string(), names, format, runs.then_some(""), &room.given);
    while let Some((_, given, most)) = file.wants() {
        let found = select(room, asked, given.said("cursor"), most).await;
        file.take(found, |item, _| {
            item_row(room, table, asked.table.as_ref().map(|table| &table.definition.key), item)
        });
    }
    Ok(file.answer())
}

fn results(room: &Room<'_>, here: &Url, given: &Given, asked: &Asked, found: &Found<Item>) -> Markup {
    let this = query::settled(given).onto(here.clone());
    let first = this.clone().without("cursor");
    let as_json = given.get("as") == Some("json");
    html! {
        div.results-head {
            p role="status" {
                b { (show::count(found.rows.len() as u64, "row")) }
                @if found.cursor.is_some() { ", and more" }
                span.quiet { " · took " (Units { read: found.units, write: 0.0 }) }
            }
            span.grow {}
            @if as_json { a.button.small href=(this.clone().without("as")) { "As a table" } }
            @else { a.button.small href=(this.clone().instead("as", "json")) { "As JSON" } }
            a.button.small href=(first.clone().with("format", "json")) download { "JSON" }
            a.button.small href=(first.clone().with("format", "csv")) download { "CSV" }
        }
        @if found.rows.is_empty() {
            div.empty {
                h2 { "Nothing is there" }
                p { @if found.cursor.is_some() { "On this page everything was left out; the next one may have more." } @else { "No item is as the statement says." } }
            }
        } @else if as_json {
            @let key = asked.table.as_ref().map(|table| &table.definition.key);
            @let all = found.rows.iter().map(|item| Json::Object(item_row(room, asked.statement.table(), key, item)));
            pre tabindex="0" aria-label="Results" { (show::pretty(&all.collect())) }
        } @else {
            (rows(room, asked, &found.rows))
        }
        div.pages {
            @if given.said("cursor").is_some() { a.button href=(first) { "First page" } }
            @if let Some(cursor) = &found.cursor {
                a.button #next rel="next" href=(this.instead("cursor", cursor)) { "Next page" }
            }
        }
    }
}

/// The names of the columns: as they were asked for; or those of the key, and then all there are.
fn columns(asked: &Asked, items: &[Item]) -> Vec<String> {
    if let Statement::Select(Select { columns: Some(columns), .. }) = &asked.statement {
        return columns.0.iter().map(|column| column.name.clone()).collect();
    }
    let keys = asked.table.iter().flat_map(|table| table.definition.key.attributes());
    let mut names: Vec<String> = keys.map(|key| key.name.clone()).collect();
    let others: BTreeSet<&str> = items.iter().flat_map(Item::names).collect();
    names.extend(
        others
            .into_iter()
            .filter(|name| !names.iter().any(|known| known == name))
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    );
    names
}

fn rows(room: &Room<'_>, asked: &Asked, items: &[Item]) -> Markup {
    let table: &TableName = asked.statement.table();
    let keys: Vec<&str> = match &asked.table {
        Some(table) => table.definition.key.attributes().map(|key| key.name.as_str()).collect(),
        None => Vec::new(),
    };
    let names = columns(asked, items);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Results" {
            table.rows data-sortable {
                thead { tr { @for name in &names { th { (name) } } } }
                tbody {
                    @for item in items {
                        @let hidden = item::secrets(room, table, item);
                        @let whole = !keys.is_empty() && keys.iter().all(|key| item.contains(key));
                        tr {
                            @for (at, name) in names.iter().enumerate() {
                                @let cell = match item.get(name) {
                                    None => html! {},
                                    Some(_) if hidden.contains(name) && !keys.contains(&name.as_str()) => show::secret(),
                                    Some(value) => show::attribute_cell(value),
                                };
                                @if at == 0 && whole { td { a.open href=(item_url(table, keys.clone(), item)) { (cell) @if cell.0.is_empty() { "open" } } } }
                                @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
