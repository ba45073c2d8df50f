//! One item: as a record, where an entity knows it, and as it is stored.

use std::collections::BTreeSet;

use larder::Entry;
use larder::store::ops::{Query, ReturnCapacity};
use larder::store::{Deployed, Page as Read};
use larder_expr::{KeyCondition, KeyTest, SortTest};
use larder_model::{AttributeValue, IndexDefinition, Item, TableName};
use larder_schema::schema::{Collection, Index};
use larder_schema::{Argument, FRESH_UNTIL, Field, VERSION};
use maud::{Markup, html};
use serde_json::Value as Json;

use super::browse::key_cell;
use super::{Fault, Page, Room, layout};
use crate::address::{Given, Url};
use crate::deed::Deed;
use crate::house::{Kind, KnownTable, key_value};
use crate::query::{self, is_denied};
use crate::show;

/// Members of a collection that are shown.
const MEMBERS: usize = 25;

/// An item that an address names, with all that is known of it.
pub(super) struct Found {
    pub(super) deployed: Deployed,
    pub(super) key: Item,
    /// `None`: there is no such item.
    pub(super) item: Option<Item>,
}

impl Found {
    pub(super) fn keys(&self) -> Vec<&str> {
        self.deployed.definition.key.attributes().map(|key| key.name.as_str()).collect()
    }
}

/// The page of an item.
pub(super) fn item_url(table: &TableName, keys: Vec<&str>, item: &Item) -> Url {
    on(Url::to(["item", table.as_str()]), keys, item)
}

/// An address that names an item by its key.
pub(super) fn on(mut url: Url, keys: Vec<&str>, item: &Item) -> Url {
    for (name, key) in ["pk", "sk"].into_iter().zip(keys) {
        url = url.with(name, key_cell(item.get(key)));
    }
    url
}

/// A key as people read it: `SHOP#example.com / META#`.
pub(super) fn key_line(keys: &[&str], item: &Item) -> String {
    keys.iter().map(|key| key_cell(item.get(key))).collect::<Vec<_>>().join(" / ")
}

/// The item that an address names, read as of now.
pub(super) async fn find(room: &Room<'_>, table: &TableName, given: &Given) -> Result<Found, Fault> {
    let deployed = room.deployed(table).await?;
    let mut key = Item::new();
    for (name, attribute) in ["pk", "sk"].into_iter().zip(deployed.definition.key.attributes()) {
        let text = given.get(name).ok_or_else(|| Fault::Absent(format!("The address lacks `{name}`.")))?;
        key.insert(attribute.name.clone(), key_value(attribute, text).map_err(Fault::Absent)?);
    }
    let item = room.item(table, key.clone()).await?;
    Ok(Found { deployed, key, item })
}

/// An item as a record, whole: what was packed or split is put back.
pub(super) async fn entry(kind: &Kind<'_>, stored: &Item) -> Result<Entry, larder::Error> {
    match kind.shelf.joined(stored).await? {
        Some(whole) => kind.shelf.read_stored(&whole),
        None => Err(larder::Error::NotAllowed("its parts are not all there: it cannot be read".to_owned())),
    }
}

/// The attributes of an item that hold secrets, or are worked out from them.
pub(super) fn secrets(room: &Room<'_>, table: &TableName, item: &Item) -> BTreeSet<String> {
    let secrets = room.known.secrets(table, Some(item));
    item.names().filter(|name| secrets.hide(name)).map(str::to_owned).collect()
}

/// An item in DynamoDB's JSON; a secret is said to be one.
pub(super) fn raw(item: &Item, hidden: &BTreeSet<String>) -> String {
    let mut json = show::item_json(item);
    for name in hidden {
        json.insert(name.clone(), larder::text::hidden());
    }
    show::pretty(&Json::Object(json))
}

pub(super) async fn show(room: &Room<'_>, table: &TableName, reveal: bool) -> Page {
    let found = find(room, table, &room.given).await?;
    let keys = found.keys();
    let line = key_line(&keys, &found.key);
    let Some(item) = &found.item else {
        return Err(Fault::Absent(format!(
            "There is no item {line} in {table}: it was deleted, or it has expired."
        )));
    };
    let known = room.known.table(table);
    let kind = room.known.kind(table, item);
    let hidden = if reveal { BTreeSet::new() } else { secrets(room, table, item) };
    if reveal {
        tracing::warn!(%table, key = line, "the console shows the secrets of an item");
    }
    let entry = match &kind {
        Some(kind) => Some(entry(kind, item).await),
        None => None,
    };
    let here = match &kind {
        Some(kind) => Url::to(["browse", &kind.schema().system, &kind.entity.name]).to_string(),
        None => "/tables".to_owned(),
    };
    let members = match &kind {
        Some(kind) => members(room, kind, &found, item).await?,
        None => html! {},
    };
    let url = |last: &str| on(Url::to(["item", table.as_str(), last]), keys.clone(), item);
    let title = kind.as_ref().map_or_else(|| "Item".to_owned(), |kind| kind.entity.name.clone());
    let main = html! {
        @match &kind {
            Some(kind) => (layout::trail(&[
                (kind.schema().system.clone(), Url::to(["schema", &kind.schema().system])),
                (kind.entity.name.clone(), Url::to(["browse", &kind.schema().system, &kind.entity.name])),
            ])),
            None => (layout::trail(&[(table.to_string(), Url::to(["items", table.as_str()]))])),
        }
        div.head {
            h1.key { span.mono { (line) } }
            @if room.might_look_back(table, Some(&found.key)) { a.button href=(url("history")) { "History" } }
            @if room.may(Deed::Update(table, &found.key)) { a.button.primary #edit href=(url("edit")) { "Edit" } }
            @if room.may(Deed::Put(table)) {
                a.button href=(match &kind {
                    Some(kind) => on(Url::to(["new", &kind.schema().system, &kind.entity.name]), keys.clone(), item),
                    None => on(Url::to(["items", table.as_str(), "new"]), keys.clone(), item),
                }) { "Duplicate" }
            }
            @if room.may(Deed::Delete(table, Some(&found.key))) { a.button.danger href=(url("delete")) { "Delete…" } }
        }
        @if !hidden.is_empty() {
            form.inline method="post" action=(url("reveal")) {
                (layout::token(room))
                p.quiet { "Secrets are hidden. " button.small type="submit" { "Show them" } " The log will say so." }
            }
        }
        @if let (Some(kind), Some(entry)) = (&kind, &entry) { (record(room, kind, item, entry, reveal)) }
        @if let Some(known) = known { (violations(room, known, item)) }
        @if let (Some(kind), true) = (&kind, room.may(Deed::Update(table, &found.key))) { (super::board::steps(room, kind, item, &keys)) }
        (members)
        (in_indexes(table, &found, kind.as_ref().map(|kind| (kind, entry.as_ref())), item, &hidden))
        section.card {
            h2 { "Attributes" }
            (attributes(item, kind.as_ref(), &hidden, &keys))
        }
        details.card open[kind.is_none()] {
            summary { "Raw item, DynamoDB JSON · " (larder::price::size(item.size() as u64)) }
            pre tabindex="0" aria-label="Raw item" { (raw(item, &hidden)) }
        }
    };
    Ok(room.page_of(&format!("{title} {line}"), &here, &main))
}

/// The fields of a record, by the schema.
pub(super) fn record(
    room: &Room<'_>,
    kind: &Kind<'_>,
    item: &Item,
    entry: &Result<Entry, larder::Error>,
    reveal: bool,
) -> Markup {
    let (schema, entity) = (kind.schema(), kind.entity);
    let now = room.house.now();
    // What cannot be read as a whole may still be read in part.
    let fields = match entry {
        Ok(entry) => entry.fields.clone(),
        Err(_) => {
            let stored = entity.fields.iter().filter(|field| field.is_stored());
            let read = stored.filter_map(|field| {
                let value = schema.decode(&field.kind, item.get(&field.attribute)?)?;
                Some((field.name.clone(), value))
            });
            read.collect()
        }
    };
    let kept = entry.as_ref().ok().map(larder::Entry::kept);
    let expires = kept.and_then(larder::Kept::expires);
    html! {
        @if let Err(error) = entry { (layout::wrong(&error.to_string())) }
        section.card {
            div.facts {
                @for lifecycle in &entity.lifecycles {
                    @if let Some(kept) = kept {
                        @let state = kept.state(&lifecycle.name).or_else(|| kept.unknown_state(&lifecycle.name));
                        @if let Some(state) = state {
                            div { span.quiet { (lifecycle.name) } span.badge { (state) } }
                        }
                    }
                }
                @if let Some(since) = kind.shelf.stored_at(item) {
                    div { span.quiet { "kept since" } (show::away(since, now)) span.quiet { (show::unix_moment(since)) } }
                }
                @if let Some(at) = expires {
                    div { span.quiet { "ends" } @if at.seconds() < now.seconds() { span.badge.bad { "expired" } } @else { (show::away(at, now)) }
                        span.quiet { (show::unix_moment(at)) } }
                } @else if kind.table.ttl.is_some() {
                    div { span.quiet { "ends" } span { "never" } }
                }
                @if let Some(at) = kept.and_then(larder::Kept::removed).filter(|at| Some(*at) != expires) {
                    div { span.quiet { "kept stale until" } (show::unix_moment(at)) }
                }
                @if let Some(version) = kept.and_then(larder::Kept::version) {
                    div { span.quiet { "version" } span { (version) } }
                }
                div { span.quiet { "table" } a.mono href=(Url::to(["tables", kind.name.as_str()])) { (kind.name) } }
            }
            div.scroll tabindex="0" role="region" aria-label="Fields" {
                table.fields {
                    thead { tr { th { "Field" } th { "Type" } th { "Value" } } }
                    tbody {
                        @for field in &entity.fields {
                            tr {
                                th scope="row" {
                                    (field.name)
                                    @if !field.docs.is_empty() { p.quiet { (field.docs.join(" ")) } }
                                }
                                td.type { (field.kind) @if field.optional { "?" } (of(field)) }
                                td {
                                    @match fields.get(&field.name) {
                                        Some(_) if !reveal && schema.reveals_secret(entity, field) => (show::secret()),
                                        Some(value) => (show::whole(schema, &field.kind, value)),
                                        None if !field.is_stored() => span.quiet { "not kept" },
                                        None => span.quiet { "-" },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Where an item is in each index of its table, with the way to what is beside it; or what it lacks to be there.
fn in_indexes(
    table: &TableName,
    found: &Found,
    record: Option<(&Kind<'_>, Option<&Result<Entry, larder::Error>>)>,
    item: &Item,
    hidden: &BTreeSet<String>,
) -> Markup {
    let deployed = &found.deployed.definition.indexes;
    let declared =
        |name: &str| record.and_then(|(kind, _)| kind.table.indexes.iter().find(|it| it.name == name));
    let missing = record.into_iter().flat_map(|(kind, _)| &kind.table.indexes);
    let missing: Vec<&Index> =
        missing.filter(|index| deployed.iter().all(|it| it.name.as_str() != index.name)).collect();
    if deployed.is_empty() && missing.is_empty() {
        return html! {};
    }
    let row = |index: &IndexDefinition| {
        let known = declared(index.name.as_str());
        let keys: Vec<&str> = index.key.attributes().map(|key| key.name.as_str()).collect();
        let lacks: Vec<&str> = keys.iter().copied().filter(|name| !item.contains(name)).collect();
        let entry = record.and_then(|(kind, entry)| Some((kind, entry?.as_ref().ok()?)));
        let url = entry
            .zip(known)
            .and_then(|((kind, entry), known)| beside(kind, entry, known, item))
            .unwrap_or_else(|| {
                let url = Url::to(["items", table.as_str()]).with("by", query::by_index(index.name.as_str()));
                index
                    .key
                    .partition
                    .iter()
                    .fold(url, |url, key| url.with(format!("a.{}", key.name), key_cell(item.get(&key.name))))
            });
        html! {
            tr {
                th scope="row" {
                    (known.map_or(index.name.as_str(), |known| &known.alias))
                    @if known.is_some_and(|known| known.alias != known.name) { p.quiet.mono { (index.name) } }
                }
                td {
                    @if !lacks.is_empty() {
                        span.quiet { "not in it: lacks " span.mono { (lacks.join(", ")) } }
                    } @else {
                        @for key in &keys {
                            div {
                                span.quiet.mono { (key) " " }
                                @if hidden.contains(*key) { (show::secret()) } @else { span.mono { (key_cell(item.get(key))) } }
                            }
                        }
                    }
                }
                td { @if lacks.is_empty() && !keys.iter().any(|key| hidden.contains(*key)) { a href=(url) { "What is beside it" } } }
            }
        }
    };
    html! {
        section.card {
            h2 { "In its indexes" }
            div.scroll tabindex="0" role="region" aria-label="Indexes" {
                table.fields {
                    thead { tr { th { "Index" } th { "Its keys there" } th { "Partition" } } }
                    tbody {
                        @for index in deployed { (row(index)) }
                        @for index in &missing {
                            tr { th scope="row" { (index.alias) } td { span.quiet { "the table has no such index" } } td {} }
                        }
                    }
                }
            }
        }
    }
}

/// The partition of an index that a record is in, as a view of its entity.
fn beside(kind: &Kind<'_>, entry: &Entry, index: &Index, item: &Item) -> Option<Url> {
    let access = kind.entity.access(kind.table, Some(index))?;
    let text = |argument: &Argument| {
        let field = kind.entity.field(&argument.name).zip(entry.fields.get(&argument.name));
        let Some((field, value)) = field else {
            let key = index.partition.iter().find(|key| key.name == argument.name)?;
            return Some(key_cell(Some(item.get(&key.attribute)?)));
        };
        Some(match larder::text::to_json(kind.schema(), &field.kind, value) {
            Json::String(text) => text,
            json => json.to_string(),
        })
    };
    let url = Url::to(["browse", &kind.schema().system, &kind.entity.name]).with("by", &index.alias);
    access
        .arguments
        .iter()
        .try_fold(url, |url, argument| Some(url.with(format!("a.{}", argument.name), text(argument)?)))
}

/// What shares the partition of a record, where the schema makes a collection of it: by one Query, which is bounded.
async fn members(room: &Room<'_>, kind: &Kind<'_>, found: &Found, item: &Item) -> Result<Markup, Fault> {
    let is_of = |collection: &&Collection| collection.members.contains(&kind.entity.name);
    let collections: Vec<&Collection> = kind.table.collections.iter().filter(is_of).collect();
    let partition = found.deployed.definition.key.partition.first();
    let Some((name, value)) = partition.and_then(|key| Some((&key.name, item.get(&key.name)?))) else {
        return Ok(html! {});
    };
    if collections.is_empty() {
        return Ok(html! {});
    }
    let test = KeyTest { attribute: name.as_str().into(), test: SortTest::Equal(value.clone().into()) };
    let query = Query {
        table: kind.name.clone(),
        index: None,
        key_condition: KeyCondition { tests: vec![test] },
        filter: None,
        legacy_filter: false,
        projection: None,
        select: None,
        limit: Some(MEMBERS),
        forward: true,
        start: None,
        consistent: false,
        skip_damaged: false,
        capacity: ReturnCapacity::Total,
    };
    let read = match room.house.store_of(kind.name, &room.known).query(query).await {
        Ok(read) => read,
        Err(error) if is_denied(&error) => return Ok(html! {}),
        Err(error) => return Err(error.into()),
    };
    Ok(html! { @for collection in &collections { (of_collection(room, kind, found, collection, &read)) } })
}

fn of_collection(
    room: &Room<'_>,
    kind: &Kind<'_>,
    found: &Found,
    collection: &Collection,
    read: &Read,
) -> Markup {
    let keys = found.keys();
    let of = |item: &Item| room.known.kind(kind.name, item).map(|kind| kind.entity.name.clone());
    let members = read.items.iter().filter_map(|item| Some((of(item)?, item)));
    let members: Vec<(String, &Item)> =
        members.filter(|(entity, _)| collection.members.contains(entity)).collect();
    let all = Url::to(["items", kind.name.as_str()]).with("by", query::BY_KEY);
    let all = match keys.first() {
        Some(key) => all.with(format!("a.{key}"), key_cell(found.key.get(key))),
        None => all,
    };
    let absent: Vec<&str> = collection
        .members
        .iter()
        .filter(|name| members.iter().all(|(entity, _)| entity != *name))
        .map(String::as_str)
        .collect();
    html! {
        section.card {
            h2 { "Collection " (collection.name) }
            @if !collection.docs.is_empty() { p.quiet { (collection.docs.join(" ")) } }
            ul.members {
                @for (entity, item) in &members {
                    @let is_this = keys.iter().all(|key| item.get(key) == found.key.get(key));
                    li {
                        (entity) " "
                        @if is_this { span.mono { (key_line(&keys, item)) } " " span.quiet { "this one" } }
                        @else { a.mono href=(item_url(kind.name, keys.clone(), item)) { (key_line(&keys, item)) } }
                    }
                }
            }
            p.quiet {
                @if read.last_key.is_some() { "More than the first " (show::count(read.items.len() as u64, "item")) " of the partition: "
                    a href=(all) { "all of it" } ". " }
                @else if !absent.is_empty() { "No " (absent.join(", ")) " is there. " }
                "Took " (show::units(read.units)) " read units."
            }
        }
    }
}

/// Where a field comes from, if nobody gives it.
fn of(field: &Field) -> Markup {
    html! {
        @if let Some(equation) = &field.equation {
            p.equation { "= " (equation.source()) @if field.on_create { " on create" } }
        }
    }
}

/// What of an item is not as the schema says.
fn violations(room: &Room<'_>, known: KnownTable<'_>, item: &Item) -> Markup {
    let broken = known.checker.check(None, item, room.house.now());
    html! {
        @if !broken.is_empty() {
            section.card.wrong {
                h2 { (show::count(broken.len() as u64, "violation")) }
                ul {
                    @for violation in &broken {
                        li { (violation.to_string()) @if let Some(place) = known.checker.place(violation) { " " span.quiet { (place) } } }
                    }
                }
            }
        }
    }
}

/// The item as it is stored, each attribute with its type and whose it is.
pub(super) fn attributes(
    item: &Item,
    kind: Option<&Kind<'_>>,
    hidden: &BTreeSet<String>,
    keys: &[&str],
) -> Markup {
    let whose = |name: &str| -> String {
        if keys.contains(&name) {
            return "key".to_owned();
        }
        let Some(kind) = kind else { return String::new() };
        if let Some(field) =
            kind.entity.fields.iter().find(|field| field.is_stored() && field.attribute == name)
        {
            return if field.name == name { "field".to_owned() } else { format!("field {}", field.name) };
        }
        let lifecycle = kind.entity.lifecycles.iter().find(|it| it.attribute == name);
        let lease = kind.entity.lifecycles.iter().find(|it| {
            it.lease.as_ref().is_some_and(|lease| lease.names().contains(&name))
                || name == format!("larder_{}_from", it.name)
        });
        match (lifecycle, lease) {
            (Some(lifecycle), _) => format!("state of {}", lifecycle.name),
            (None, Some(lifecycle)) => format!("lease of {}", lifecycle.name),
            _ if kind.table.ttl.as_ref().is_some_and(|ttl| ttl.attribute == name) => {
                "end of its life".to_owned()
            }
            _ if name == VERSION => "version".to_owned(),
            _ if name == FRESH_UNTIL => "fresh until".to_owned(),
            _ if name.starts_with("larder_") => "Larder's own".to_owned(),
            _ => "in no field".to_owned(),
        }
    };
    let row = |name: &str, value: &AttributeValue| {
        html! {
            tr {
                th.mono scope="row" { (name) }
                td.type { (value.kind().name()) }
                td { @if hidden.contains(name) { (show::secret()) } @else { (show::whole_attribute(value)) } }
                td.quiet { (whose(name)) }
            }
        }
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Attributes" {
            table.fields {
                thead { tr { th { "Attribute" } th { "Type" } th { "Value" } th { "Whose" } } }
                tbody {
                    @for name in keys { @if let Some(value) = item.get(name) { (row(name, value)) } }
                    @for (name, value) in item.iter().filter(|(name, _)| !keys.contains(&name.as_str())) { (row(name, value)) }
                }
            }
        }
    }
}
