//! Changing a table: one thing at a time, each with a form of its own. What takes something away is confirmed first.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::TableDescription;
use hyper::StatusCode;
use larder::Store;
use larder::store::{Deployed, Error, Feature, Lacks, TableChange};
use larder_model::{
    Billing, IndexDefinition, IndexKind, IndexName, KeyAttribute, KeySchema, KeyType, Projection, StreamView,
    TableClass, TableName, Tags, Throughput,
};
use maud::{Markup, html};

use super::super::{Fault, Page, Room, layout};
use crate::address::{Given, Url};
use crate::answer;
use crate::deed::Deed;
use crate::show;

/// What was sent, and why it was not done; it is told in the form that it came from.
#[derive(Debug)]
pub(super) struct Told<'a> {
    pub(super) what: &'a str,
    pub(super) form: &'a Given,
    pub(super) wrong: String,
}

/// What a form asks for.
#[derive(Debug)]
enum Wanted {
    Change(TableChange),
    /// A tag to be taken off.
    Untag(String),
}

pub(in super::super) async fn change(room: &Room<'_>, name: &TableName, form: &Given) -> Page {
    let store = room.house.store_of(name, &room.known);
    let deployed = store.describe(name).await?;
    let deployed = deployed.ok_or_else(|| Fault::Absent(format!("There is no table {name} any more.")))?;
    let what = form.get("what").unwrap_or_default();
    let wanted = match wanted(what, form, &deployed) {
        Ok(wanted) => wanted,
        Err(wrong) => return super::show_with(room, name, Some(Told { what, form, wrong })).await,
    };
    if let (Some(loss), None) = (loss(name, &wanted, &deployed), form.said("confirm")) {
        return Ok(confirm(room, name, form, &loss));
    }
    let done = match &wanted {
        Wanted::Change(change) => store.change_table(name, change).await,
        Wanted::Untag(key) => untag(&store, name, key).await,
    };
    match done {
        Ok(()) => {
            tracing::info!(table = %name, what, "the console changed a table");
            Ok(answer::go_to(&Url::to(["tables", name.as_str()]).with("done", "changed")))
        }
        Err(Error::Unsupported(wrong) | Error::Busy(wrong) | Error::Refused { message: wrong, .. }) => {
            super::show_with(room, name, Some(Told { what, form, wrong })).await
        }
        Err(error) => Err(error.into()),
    }
}

fn wanted(what: &str, form: &Given, deployed: &Deployed) -> Result<Wanted, String> {
    let change = match what {
        "ttl" => match (form.said("attribute"), &deployed.ttl_attribute) {
            (Some(attribute), _) => {
                TableChange::TimeToLive { attribute: attribute.to_owned(), enabled: true }
            }
            (None, Some(attribute)) => {
                TableChange::TimeToLive { attribute: attribute.clone(), enabled: false }
            }
            (None, None) => return Err("It is off already: give the attribute that holds the time.".into()),
        },
        "stream" => TableChange::Stream(stream_view(form)?),
        "recovery" => TableChange::PointInTimeRecovery { days: recovery_days(form)? },
        "protection" => TableChange::DeletionProtection(form.said("on").is_some()),
        "class" => TableChange::Class(match form.get("class") {
            Some("infrequent") => TableClass::StandardInfrequentAccess,
            _ => TableClass::Standard,
        }),
        "billing" => {
            let billing = billing(form)?;
            let indexes = match (billing, deployed.definition.billing) {
                // All of them need units when the table gets its first.
                (Billing::Provisioned(units), Billing::OnDemand) => global(deployed, units),
                (Billing::Provisioned(_), Billing::Provisioned(_)) | (Billing::OnDemand, _) => Vec::new(),
            };
            TableChange::Billing { billing, table: true, indexes }
        }
        "tag" => {
            let key = form.said("key").ok_or("A tag needs a name.")?;
            let value = form.get("value").unwrap_or_default();
            TableChange::Tag(Tags::from([(key.to_owned(), value.to_owned())]))
        }
        "untag" => return Ok(Wanted::Untag(form.get("key").unwrap_or_default().to_owned())),
        "index" => {
            let index = index(form, "")?.ok_or("An index needs a name.")?;
            if index.kind == IndexKind::Local {
                return Err(
                    "A local index is made with its table, and not later: only a global one can be added."
                        .into(),
                );
            }
            TableChange::CreateIndex(index)
        }
        "drop" => {
            let name = IndexName::new(form.get("index").unwrap_or_default());
            TableChange::DeleteIndex(name.map_err(|error| error.to_string())?)
        }
        other => return Err(format!("There is no change called `{other}`.")),
    };
    Ok(Wanted::Change(change))
}

fn global(deployed: &Deployed, units: Throughput) -> Vec<(IndexName, Throughput)> {
    let indexes = deployed.definition.indexes.iter();
    indexes.filter(|it| it.kind == IndexKind::Global).map(|it| (it.name.clone(), units)).collect()
}

pub(super) fn stream_view(form: &Given) -> Result<Option<StreamView>, String> {
    Ok(Some(match form.said("view") {
        None => return Ok(None),
        Some("KEYS_ONLY") => StreamView::KeysOnly,
        Some("NEW_IMAGE") => StreamView::NewImage,
        Some("OLD_IMAGE") => StreamView::OldImage,
        Some("NEW_AND_OLD_IMAGES") => StreamView::NewAndOldImages,
        Some(other) => return Err(format!("`{other}` is nothing that a stream shows.")),
    }))
}

pub(super) fn recovery_days(form: &Given) -> Result<Option<u32>, String> {
    let Some(text) = form.said("days") else { return Ok(None) };
    match text.trim().parse() {
        Ok(days @ 1..=35) => Ok(Some(days)),
        _ => Err(format!("`{text}` is not 1 to 35 days.")),
    }
}

pub(super) fn billing(form: &Given) -> Result<Billing, String> {
    if form.get("billing") != Some("provisioned") {
        return Ok(Billing::OnDemand);
    }
    Ok(Billing::Provisioned(units(form)?))
}

fn units(form: &Given) -> Result<Throughput, String> {
    let units = |name: &str| {
        let text = form.get(name).unwrap_or_default().trim();
        text.parse::<i64>()
            .ok()
            .filter(|units| *units > 0)
            .ok_or_else(|| format!("The {name} units are `{text}`: a number from 1 is wanted."))
    };
    Ok(Throughput { read: units("read")?, write: units("write")? })
}

/// The index that a form describes under names with this ending; none when it has no name.
pub(super) fn index(form: &Given, ending: &str) -> Result<Option<IndexDefinition>, String> {
    let of = |name: &str| form.said(&format!("{name}{ending}")).map(str::trim);
    let Some(name) = of("index") else { return Ok(None) };
    let kind = if of("kind") == Some("local") { IndexKind::Local } else { IndexKind::Global };
    let key = match kind {
        IndexKind::Global => key(form, "index-", ending),
        // It shares the table's partition key.
        IndexKind::Local => key(form, "", "").map(|table| {
            let sort = attribute(form, "index-", "sort", ending).into_iter().collect();
            KeySchema { partition: table.partition, sort }
        }),
    };
    let key = key.map_err(|wrong| format!("Index {name}: {wrong}."))?;
    let projection = match of("holds") {
        Some("keys") => Projection::KeysOnly,
        Some("include") => {
            let names = of("include").unwrap_or_default().split([',', ' ']).map(str::trim);
            let names: Vec<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
            if names.is_empty() {
                return Err(format!("Index {name}: name the attributes that it holds besides its keys."));
            }
            Projection::Include(names)
        }
        _ => Projection::All,
    };
    let throughput = match (billing(form), kind) {
        (Ok(Billing::Provisioned(units)), IndexKind::Global) => units,
        _ => Throughput::default(),
    };
    let name = IndexName::new(name).map_err(|error| format!("The name of an index: {error}."))?;
    Ok(Some(IndexDefinition { name, kind, key, projection, throughput, on_demand_limits: None }))
}

/// A key as a form gives it: a partition attribute, and perhaps a sort attribute.
pub(super) fn key(form: &Given, prefix: &str, ending: &str) -> Result<KeySchema, String> {
    let partition = attribute(form, prefix, "partition", ending).ok_or("a partition key is needed")?;
    Ok(KeySchema {
        partition: vec![partition],
        sort: attribute(form, prefix, "sort", ending).into_iter().collect(),
    })
}

fn attribute(form: &Given, prefix: &str, part: &str, ending: &str) -> Option<KeyAttribute> {
    let name = form.said(&format!("{prefix}{part}{ending}"))?;
    let kind = form.get(&format!("{prefix}{part}-type{ending}")).and_then(KeyType::from_name);
    Some(KeyAttribute { name: name.trim().to_owned(), kind: kind.unwrap_or(KeyType::S) })
}

/// What is gone after a change, if something is.
fn loss(name: &TableName, wanted: &Wanted, deployed: &Deployed) -> Option<String> {
    let Wanted::Change(change) = wanted else { return None };
    match change {
        TableChange::DeleteIndex(index) => Some(format!(
            "Index {index} of {name} is dropped: whatever asks by it fails from then on. Making it again reads the whole table."
        )),
        TableChange::Stream(None) if deployed.definition.stream.is_some() => {
            Some(format!("The stream of {name} ends: who follows it sees no change after this one."))
        }
        TableChange::PointInTimeRecovery { days: None } if deployed.pitr_days.is_some() => {
            Some(format!("{name} can no longer be brought back to a moment, the moments until now included."))
        }
        TableChange::TimeToLive { enabled: true, attribute } if deployed.ttl_attribute.is_none() => {
            Some(format!(
                "Items of {name} whose `{attribute}` is a time in the past, in seconds since 1970, are deleted from now on: those that are there too."
            ))
        }
        _ => None,
    }
}

fn confirm(room: &Room<'_>, name: &TableName, form: &Given, loss: &str) -> answer::Answer {
    let here = Url::to(["tables", name.as_str()]);
    let main = html! {
        (layout::trail(&[("tables".to_owned(), Url::to(["tables"])), (name.to_string(), here.clone())]))
        h1 { "Is that meant?" }
        p.notice.bad { (loss) }
        form method="post" action=(Url::to(["tables", name.as_str(), "change"])) {
            @for (name, value) in form.iter() { input type="hidden" name=(name) value=(value); }
            input type="hidden" name="confirm" value="1";
            div.do {
                button.danger type="submit" { "Yes, do it" }
                " " a.button href=(here) { "Leave it" }
            }
        }
    };
    room.page_of(name.as_str(), "/tables", &main)
}

/// Takes a tag off, in the SDK's words.
async fn untag(store: &Store, name: &TableName, key: &str) -> Result<(), Error> {
    let client = store.sdk_client().await?;
    let told = |error| super::backups::store_error(store, &error);
    let described = client.describe_table().table_name(name.as_str()).send().await;
    let described = described.map_err(|error| super::backups::store_error(store, &error))?;
    let arn = described.table.and_then(|table: TableDescription| table.table_arn);
    let request = client.untag_resource().set_resource_arn(arn).tag_keys(key);
    request.send().await.map(|_| ()).map_err(told)
}

/// Deleting a table: its name has to be written.
pub(in super::super) async fn delete(room: &Room<'_>, name: &TableName, form: Option<&Given>) -> Page {
    let store = room.house.store_of(name, &room.known);
    let deployed = store.describe(name).await?;
    let deployed = deployed.ok_or_else(|| Fault::Absent(format!("There is no table {name} any more.")))?;
    let mut wrong = None;
    if let Some(form) = form {
        if form.get("name") != Some(name.as_str()) {
            wrong = Some(format!("Nothing was deleted: write {name}, and nothing else."));
        } else {
            match store.delete_table(name).await {
                Ok(()) => {
                    tracing::info!(table = %name, "the console deleted a table");
                    return Ok(answer::go_to(&Url::to(["tables"]).with("done", "deleted")));
                }
                Err(Error::Busy(text) | Error::Unsupported(text) | Error::Refused { message: text, .. }) => {
                    wrong = Some(text);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    let size = larder::census::size(&store, name).await?;
    let here = Url::to(["tables", name.as_str()]);
    let main = html! {
        (layout::trail(&[("tables".to_owned(), Url::to(["tables"])), (name.to_string(), here.clone())]))
        h1 { "Delete the table " span.mono { (name) } }
        @if let Some(wrong) = &wrong { (layout::wrong(wrong)) }
        p.notice.bad {
            @match &size {
                Some(size) => { (show::count(size.items, "item")) ", " (larder::price::size(size.bytes)) },
                None => "All that is in it",
            }
            " are gone with it. "
            @if deployed.pitr_days.is_some() { "Its last state stays among the backups for some time, as recovery is on." }
            @else { "Nothing brings it back: recovery is off." }
        }
        @if deployed.definition.deletion_protection {
            p { "It is protected from deletion: take the protection off first, on its page." }
            p { a.button href=(here) { "To the table" } }
        } @else if !room.may(Deed::DeleteTable(name)) {
            p.quiet { (room.why_not()) }
        } @else {
            form.record method="post" action=(Url::to(["tables", name.as_str(), "delete"])) {
                (layout::token(room))
                div.field {
                    label for="name" { "Write its name to delete it" }
                    input #name name="name" autocomplete="off" spellcheck="false" required;
                }
                div.do {
                    button.danger type="submit" { "Delete it" }
                    " " a.button href=(here) { "Leave it" }
                }
            }
        }
    };
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Ok(room.page_wrong(status, &format!("Delete {name}"), "/tables", &main))
}

/// The forms that change a table, each for one thing.
pub(super) fn forms(
    room: &Room<'_>,
    name: &TableName,
    deployed: &Deployed,
    tags: &Tags,
    lacks: &Lacks,
    told: Option<&Told<'_>>,
) -> Markup {
    let definition = &deployed.definition;
    let sent = |what: &str, field: &str, now: String| {
        let form = told.filter(|told| told.what == what).map(|told| told.form);
        form.and_then(|form| form.get(field)).map_or(now, str::to_owned)
    };
    let deed = |what: &str| match what {
        "ttl" => Deed::TimeToLive(name),
        "recovery" => Deed::Recovery(name),
        "tag" => Deed::Tag(name),
        "untag" => Deed::Untag(name),
        "delete" => Deed::DeleteTable(name),
        _ => Deed::UpdateTable(name),
    };
    let one = |what: &str, title: &str, feature: Option<Feature>, fields: Markup, button: &str| {
        let lack = feature.and_then(|feature| lacks.get(&feature));
        let is_told = told.is_some_and(|told| told.what == what);
        html! {
            @if is_told || room.may(deed(what)) { section.change {
                h3 { (title) }
                @if let Some(told) = told.filter(|told| told.what == what) { (layout::wrong(&told.wrong)) }
                @if let Some(lack) = lack {
                    p.quiet { "This store cannot: " (lack) }
                } @else {
                    form.ask method="post" action=(Url::to(["tables", name.as_str(), "change"])) {
                        (layout::token(room))
                        input type="hidden" name="what" value=(what);
                        (fields)
                        div.field.do { button type="submit" aria-label={ (button) ": " (title) } { (button) } }
                    }
                }
            } }
        }
    };
    let any = ["ttl", "recovery", "tag", "delete", "stream"].iter().any(|what| room.may(deed(what)));
    if !any && told.is_none() {
        return html! {};
    }
    let view = match definition.stream {
        None => "",
        Some(StreamView::KeysOnly) => "KEYS_ONLY",
        Some(StreamView::NewImage) => "NEW_IMAGE",
        Some(StreamView::OldImage) => "OLD_IMAGE",
        Some(StreamView::NewAndOldImages) => "NEW_AND_OLD_IMAGES",
    };
    let (mode, units) = match definition.billing {
        Billing::OnDemand => ("on-demand", None),
        Billing::Provisioned(units) => ("provisioned", Some(units)),
    };
    let class = match definition.class {
        Some(TableClass::StandardInfrequentAccess) => "infrequent",
        Some(TableClass::Standard) | None => "standard",
    };
    html! {
        details.card #change open[told.is_some()] {
            summary { "Change it" }
            @if room.known.table(name).is_some() {
                p.quiet { "A schema declares this table: what is changed here differs from it then, and applying the schema takes it back." }
            }
            (one("ttl", "Time to live", Some(Feature::TimeToLive), html! {
                (text("ttl", "attribute", "Attribute with the time; empty is off", &sent("ttl", "attribute", deployed.ttl_attribute.clone().unwrap_or_default())))
            }, "Set"))
            (one("stream", "Stream", Some(Feature::Streams), html! {
                (select("stream", "view", "What a change shows", &VIEWS, &sent("stream", "view", view.to_owned())))
            }, "Set"))
            (one("recovery", "Recovery to a moment", Some(Feature::PointInTimeRecovery), html! {
                (number("recovery", "days", "Days back, 1 to 35; empty is off", &sent("recovery", "days", deployed.pitr_days.map(|days| days.to_string()).unwrap_or_default()), 35))
            }, "Set"))
            (one("protection", "Protection from deletion", Some(Feature::DeletionProtection), html! {
                @if !definition.deletion_protection { input type="hidden" name="on" value="1"; }
            }, if definition.deletion_protection { "Take it off" } else { "Protect it" }))
            (one("billing", "Billing", (mode == "provisioned").then_some(Feature::OnDemand), html! {
                (select("billing", "billing", "Mode", &MODES, &sent("billing", "billing", mode.to_owned())))
                (number("billing", "read", "Read units", &sent("billing", "read", units.map(|units| units.read.to_string()).unwrap_or_default()), 40_000))
                (number("billing", "write", "Write units", &sent("billing", "write", units.map(|units| units.write.to_string()).unwrap_or_default()), 40_000))
            }, "Set"))
            (one("class", "Class", Some(Feature::TableClass), html! {
                (select("class", "class", "Class", &[("standard", "standard"), ("infrequent", "infrequent access")], class))
            }, "Set"))
            (one("tag", "Tags", Some(Feature::Tags), html! {
                (text("tag", "key", "Name", &sent("tag", "key", String::new())))
                (text("tag", "value", "Value", &sent("tag", "value", String::new())))
            }, "Add"))
            @if !tags.is_empty() && !lacks.contains_key(&Feature::Tags) && room.may(deed("untag")) {
                ul.plain {
                    @for (key, value) in tags {
                        li {
                            span.badge { (key) " = " (value) } " "
                            form.inline method="post" action=(Url::to(["tables", name.as_str(), "change"])) {
                                (layout::token(room))
                                input type="hidden" name="what" value="untag";
                                input type="hidden" name="key" value=(key);
                                button.small type="submit" aria-label={ "Take off the tag " (key) } { "Take off" }
                            }
                        }
                    }
                }
            }
            (one("index", "Add an index", None, html! {
                (index_fields("", &told.filter(|told| told.what == "index").map(|told| fields_of(told.form)).unwrap_or_default(), false))
                @if mode == "provisioned" {
                    input type="hidden" name="billing" value="provisioned";
                    (number("index", "read", "Read units", &sent("index", "read", "1".to_owned()), 40_000))
                    (number("index", "write", "Write units", &sent("index", "write", "1".to_owned()), 40_000))
                }
            }, "Add"))
            @if room.may(deed("delete")) {
                section.change {
                    h3 { "Delete the table" }
                    a.button.danger href=(Url::to(["tables", name.as_str(), "delete"])) { "Delete the table…" }
                }
            }
        }
    }
}

/// The button that drops an index; what is lost is told before it happens.
pub(super) fn drop_button(room: &Room<'_>, name: &TableName, index: &IndexDefinition) -> Markup {
    html! {
        @if index.kind == IndexKind::Global && room.may(Deed::UpdateTable(name)) {
            form.inline method="post" action=(Url::to(["tables", name.as_str(), "change"])) {
                (layout::token(room))
                input type="hidden" name="what" value="drop";
                input type="hidden" name="index" value=(index.name);
                button.small.danger type="submit" aria-label={ "Drop the index " (index.name) } { "Drop…" }
            }
        }
    }
}

pub(super) const VIEWS: [(&str, &str); 5] = [
    ("", "off"),
    ("KEYS_ONLY", "keys"),
    ("NEW_IMAGE", "new images"),
    ("OLD_IMAGE", "old images"),
    ("NEW_AND_OLD_IMAGES", "new and old images"),
];
pub(super) const MODES: [(&str, &str); 2] = [("on-demand", "on demand"), ("provisioned", "provisioned")];
const TYPES: [(&str, &str); 3] = [("S", "text"), ("N", "number"), ("B", "bytes")];

pub(super) fn fields_of(form: &Given) -> BTreeMap<String, String> {
    form.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// What an index is described by.
pub(super) fn index_fields(ending: &str, sent: &BTreeMap<String, String>, local: bool) -> Markup {
    let id = format!("index{ending}");
    let value = |name: &str| sent.get(&format!("{name}{ending}")).map(String::as_str).unwrap_or_default();
    let named = |name: &str| format!("{name}{ending}");
    html! {
        (text(&id, &named("index"), "Index name", value("index")))
        @if local { (select(&id, &named("kind"), "Kind", &[("global", "global"), ("local", "local: the table's partition key")], value("kind"))) }
        (text(&id, &named("index-partition"), "Partition key", value("index-partition")))
        (select(&id, &named("index-partition-type"), "Its type", &TYPES, value("index-partition-type")))
        (text(&id, &named("index-sort"), "Sort key, if any", value("index-sort")))
        (select(&id, &named("index-sort-type"), "Its type", &TYPES, value("index-sort-type")))
        (select(&id, &named("holds"), "Holds", &[("all", "all attributes"), ("keys", "keys"), ("include", "keys and these")], value("holds")))
        (text(&id, &named("include"), "These attributes", value("include")))
    }
}

pub(super) fn key_fields(sent: &BTreeMap<String, String>) -> Markup {
    let value = |name: &str| sent.get(name).map(String::as_str).unwrap_or_default();
    html! {
        (text("key", "partition", "Partition key", value("partition")))
        (select("key", "partition-type", "Its type", &TYPES, value("partition-type")))
        (text("key", "sort", "Sort key, if any", value("sort")))
        (select("key", "sort-type", "Its type", &TYPES, value("sort-type")))
    }
}

pub(super) fn text(of: &str, name: &str, label: &str, value: &str) -> Markup {
    let id = format!("{of}-{name}");
    html! {
        div.field { label for=(id) { (label) } input id=(id) name=(name) value=(value) autocomplete="off" spellcheck="false"; }
    }
}

pub(super) fn number(of: &str, name: &str, label: &str, value: &str, max: u32) -> Markup {
    let id = format!("{of}-{name}");
    html! {
        div.field { label for=(id) { (label) } input id=(id) name=(name) value=(value) type="number" min="1" max=(max); }
    }
}

pub(super) fn select(of: &str, name: &str, label: &str, choices: &[(&str, &str)], value: &str) -> Markup {
    let id = format!("{of}-{name}");
    html! {
        div.field {
            label for=(id) { (label) }
            select id=(id) name=(name) {
                @for (word, shown) in choices { option value=(word) selected[*word == value] { (shown) } }
            }
        }
    }
}
