//! A new table, from a form.

use std::collections::BTreeMap;

use hyper::StatusCode;
use larder::Store;
use larder::store::{Error, Feature, TableChange};
use larder_model::{IndexDefinition, KeyType, TableDefinition, TableName, Tags};
use maud::html;

use super::super::{Fault, Page, Room, layout};
use super::change::{self, fields_of};
use crate::address::{Given, Url};
use crate::answer;

/// DynamoDB takes 20 global indexes and 5 local ones.
const INDEXES_MAX: usize = 25;
/// How often a table that is being made is looked at before its other settings are left to its page.
const LOOKS_MAX: u32 = 100;

pub(in super::super) async fn create(room: &Room<'_>, form: Option<&Given>) -> Page {
    let sent = form.map(fields_of).unwrap_or_default();
    let rows = form.and_then(|form| form.get("rows")?.parse().ok()).unwrap_or(1).min(INDEXES_MAX);
    let Some(form) = form else { return page(room, &sent, rows, None).await };
    if form.said("more").is_some() {
        return page(room, &sent, (rows + 1).min(INDEXES_MAX), None).await;
    }
    let definition = match definition(form, rows) {
        Ok(definition) => definition,
        Err(wrong) => return page(room, &sent, rows, Some(wrong)).await,
    };
    let later = match later(form) {
        Ok(later) => later,
        Err(wrong) => return page(room, &sent, rows, Some(wrong)).await,
    };
    let store = room.house.store();
    let name = definition.name.clone();
    match store.create_table(&definition).await {
        Ok(()) => tracing::info!(table = %name, "the console made a table"),
        Err(Error::Unsupported(wrong) | Error::Busy(wrong) | Error::Refused { message: wrong, .. }) => {
            return page(room, &sent, rows, Some(wrong)).await;
        }
        Err(error) => return Err(error.into()),
    }
    for change in later {
        ready(store, &name).await?;
        store.change_table(&name, &change).await.map_err(|error| {
            let what =
                if matches!(change, TableChange::TimeToLive { .. }) { "time to live" } else { "recovery" };
            Fault::Refused(format!(
                "The table {name} was made, but its {what} was not set: {error}. Set it on its page."
            ))
        })?;
    }
    Ok(answer::go_to(&Url::to(["tables", name.as_str()]).with("done", "made")))
}

/// Waits until a table can be changed, for a while.
async fn ready(store: &Store, name: &TableName) -> Result<(), Fault> {
    for asked in 0..LOOKS_MAX {
        match store.describe(name).await? {
            Some(deployed) if deployed.busy.is_none() => return Ok(()),
            _ => store.pause(asked).await?,
        }
    }
    Err(Fault::Refused(format!("The table {name} is still being made: set the rest on its page later.")))
}

/// What is set once the table is there.
fn later(form: &Given) -> Result<Vec<TableChange>, String> {
    let ttl = form
        .said("ttl")
        .map(|name| TableChange::TimeToLive { attribute: name.trim().to_owned(), enabled: true });
    let days = change::recovery_days(form)?;
    let recovery = days.map(|days| TableChange::PointInTimeRecovery { days: Some(days) });
    Ok(ttl.into_iter().chain(recovery).collect())
}

fn definition(form: &Given, rows: usize) -> Result<TableDefinition, String> {
    let name = form.get("name").unwrap_or_default().trim();
    let name = TableName::new(name).map_err(|error| format!("The name of the table: {error}."))?;
    let key = change::key(form, "", "").map_err(|wrong| format!("The key of the table: {wrong}."))?;
    let mut indexes: Vec<IndexDefinition> = Vec::new();
    for row in 1..=rows {
        indexes.extend(change::index(form, &format!("-{row}"))?);
    }
    let billing = change::billing(form)?;
    let mut attributes: BTreeMap<String, KeyType> = BTreeMap::new();
    for attribute in key.attributes().chain(indexes.iter().flat_map(|index| index.key.attributes())) {
        let known = attributes.insert(attribute.name.clone(), attribute.kind);
        if known.is_some_and(|known| known != attribute.kind) {
            return Err(format!("`{}` has one type in one key and another in another.", attribute.name));
        }
    }
    let mut tags = Tags::new();
    for line in form.get("tags").unwrap_or_default().lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (key, value) =
            line.split_once('=').ok_or_else(|| format!("The tag `{line}`: write name=value, one a line."))?;
        tags.insert(key.trim().to_owned(), value.trim().to_owned());
    }
    Ok(TableDefinition {
        name,
        attributes: attributes.into_iter().collect(),
        key,
        indexes,
        billing,
        on_demand_limits: None,
        stream: change::stream_view(form)?,
        encryption: None,
        class: None,
        deletion_protection: form.said("protected").is_some(),
        tags,
    })
}

async fn page(room: &Room<'_>, sent: &BTreeMap<String, String>, rows: usize, wrong: Option<String>) -> Page {
    let lacks = room.house.store().lacks().await?;
    let value = |name: &str| sent.get(name).map(String::as_str).unwrap_or_default();
    let without =
        |feature: Feature| lacks.get(&feature).map(|lack| html! { p.quiet { "This store cannot: " (lack) } });
    let main = html! {
        (layout::trail(&[("tables".to_owned(), Url::to(["tables"]))]))
        h1 { "New table" }
        p.quiet { "For a table that no schema declares. Those of a schema are made on their own pages, or by " code { "larder apply" } "." }
        @if let Some(wrong) = &wrong { (layout::wrong(wrong)) }
        @if !super::may_create(room, &[]) {
            p.quiet { (room.why_not()) }
        } @else {
            form method="post" action="/create" {
                (layout::token(room))
                input type="hidden" name="rows" value=(rows);
                fieldset.ask {
                    legend { "Table" }
                    div.field { label for="table-name" { "Name" }
                        input #table-name name="name" value=(value("name")) required minlength="3" maxlength="255" pattern="[a-zA-Z0-9_.\\-]+" autocomplete="off" spellcheck="false"; }
                    (change::key_fields(sent))
                }
                fieldset.ask {
                    legend { "Billing" }
                    (change::select("new", "billing", "Mode", &change::MODES, value("billing")))
                    (change::number("new", "read", "Read units, of the table and each index", value("read"), 40_000))
                    (change::number("new", "write", "Write units", value("write"), 40_000))
                }
                @for row in 1..=rows {
                    fieldset.ask {
                        legend { "Index " (row) ", if one is wanted" }
                        (change::index_fields(&format!("-{row}"), sent, true))
                    }
                }
                @if rows < INDEXES_MAX { p { button.small type="submit" name="more" value="1" formnovalidate { "One more index" } } }
                fieldset.ask {
                    legend { "Settings" }
                    @match without(Feature::TimeToLive) { Some(lack) => (lack), None => (change::text("new", "ttl", "Time to live by this attribute", value("ttl"))) }
                    @match without(Feature::Streams) { Some(lack) => (lack), None => (change::select("new", "view", "Stream", &change::VIEWS, value("view"))) }
                    @match without(Feature::PointInTimeRecovery) { Some(lack) => (lack), None => (change::number("new", "days", "Recovery, days back", value("days"), 35)) }
                    div.field { label for="new-tags" { "Tags, name=value, one a line" } textarea #new-tags name="tags" rows="2" { "\n" (value("tags")) } }
                    div.field.check { label { input type="checkbox" name="protected" value="1" checked[sent.contains_key("protected")]; " protected from deletion" } }
                }
                div.do { button.primary type="submit" { "Make the table" } }
            }
        }
    };
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Ok(room.page_wrong(status, "New table", "/tables", &main))
}
