//! Tables: what is deployed, what the schema says about that, and changing it.

mod backups;
mod change;
mod create;
mod drift;

use hyper::StatusCode;
use larder::census;
use larder::price;
use larder_model::{Billing, IndexKind, KeySchema, Projection, StreamView, TableClass, TableName};
use maud::html;

use self::change::Told;
use super::overview::Extent;
use super::{Fault, Page, Room, layout, overview, traffic};
use crate::address::Url;
use crate::deed::Deed;
use crate::query::is_denied;
use crate::show;

pub(super) use backups::{act as act_on_backups, list as all_backups};
pub(super) use change::{change, delete};
pub(super) use create::create;
pub(super) use drift::apply;

pub(super) async fn list(room: &Room<'_>) -> Page {
    let listed = room.house.store().list_tables().await;
    let untold = listed.as_ref().err().filter(|error| is_denied(error)).map(ToString::to_string);
    let names = if untold.is_some() { Vec::new() } else { listed? };
    let mut rows = Vec::new();
    for (at, name) in names.iter().enumerate() {
        rows.push((name, overview::size(room, name, at).await?));
    }
    let mut missing = Vec::new();
    for name in room.known.systems().flat_map(|open| &open.names).filter(|name| !names.contains(name)) {
        // It may be in another region than those that were listed.
        match overview::size(room, name, 0).await? {
            Extent::Absent => missing.push(name),
            size => rows.push((name, size)),
        }
    }
    let main = html! {
        div.head {
            h1 { "Tables" }
            a.button href="/backups" { "Backups" }
            @if may_create(room, &names) { a.button.primary #new href="/create" { "New table" } }
        }
        @if let Some(untold) = &untold { p.notice { "Other tables are not listed: " (untold) } }
        @if rows.is_empty() {
            div.empty { h2 { "There is no table" } p { "Make one from a form, or those of a schema with " code { "larder apply" } "." } }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Tables" {
                table.rows {
                    thead { tr { th { "Table" } th { "System" } th.right { "Items" } th.right { "Size" } th.right { "Indexes" } } }
                    tbody {
                        @for (name, size) in &rows {
                            tr {
                                td { a.mono.open href=(Url::to(["tables", name.as_str()])) { (name) } }
                                td { @if let Some(known) = room.known.table(name) { (known.open.schema().system) } @else { span.quiet { "no schema" } } }
                                td.right { (size.told().map_or_else(String::new, |size| show::number(size.items))) }
                                td.right { (size.told().map_or_else(String::new, |size| price::size(size.bytes))) }
                                td.right { (size.told().map_or_else(|| "-".to_owned(), |size| size.indexes.len().to_string())) }
                            }
                        }
                    }
                }
            }
        }
        @if !missing.is_empty() {
            p.notice { "Not there yet: " @for name in missing { a.mono href=(Url::to(["tables", name.as_str()])) { (name) } " " }
                "· each is made on its page, or all by " code { "larder apply" } "." }
        }
    };
    Ok(room.page_of("Tables", "/tables", &main))
}

pub(super) async fn show(room: &Room<'_>, name: &TableName) -> Page {
    show_with(room, name, None).await
}

/// The page, with what was not done and why where that was asked for.
async fn show_with(room: &Room<'_>, name: &TableName, told: Option<Told<'_>>) -> Page {
    let known = room.known.table(name);
    let deployed = room.house.table(name, &room.known).await?;
    let plan = match known {
        Some(known) => drift::plan(room, known, name).await?.tables.into_iter().next(),
        None => None,
    };
    if deployed.is_none() && known.is_none() {
        return Err(Fault::Absent(format!("There is no table {name}, and no schema that asks for it.")));
    }
    let store = room.house.store_of(name, &room.known);
    let size = census::size(&store, name).await?;
    let tags = match &deployed {
        Some(_) => store.tags(name).await?,
        None => Default::default(),
    };
    let backups = match &deployed {
        Some(deployed) => backups::section(room, name, deployed.pitr_days.is_some()).await?,
        None => html! {},
    };
    let lacks = store.lacks().await?;
    let (of_forms, of_backups) = match told {
        Some(told) if told.what == "backup" => (None, Some(told)),
        told => (told, None),
    };
    let status = match (&of_forms, &of_backups) {
        (None, None) => StatusCode::OK,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let main = html! {
        (layout::trail(&[("tables".to_owned(), Url::to(["tables"]))]))
        div.head {
            h1.mono { (name) }
            @if deployed.is_some() { a.button.primary href=(Url::to(["items", name.as_str()])) { "Items" } }
        }
        @if let Some(known) = known {
            p {
                "Table " b { (known.table.name) } " of " a href=(Url::to(["schema", &known.open.schema().system])) { (known.open.schema().system) } ": "
                @for entity in &known.table.entities { a href=(Url::to(["browse", &known.open.schema().system, &entity.name])) { (entity.name) } " " }
            }
        }
        @if let Some(plan) = &plan { (drift::section(room, plan)) }
        @if let Some(deployed) = &deployed {
            @let definition = &deployed.definition;
            @if let Some(busy) = &deployed.busy { p.notice { (busy.to_string()) } }
            section.card {
                h2 { "As it is" }
                dl.facts-list {
                    dt { "Items" } dd { (size.as_ref().map_or_else(String::new, |size| show::number(size.items))) }
                    dt { "Size" } dd { (size.as_ref().map_or_else(String::new, |size| price::size(size.bytes))) }
                    dt { "Key" } dd.mono { (key(&definition.key)) }
                    dt { "Time to live" } dd { @match &deployed.ttl_attribute { Some(name) => { "by " span.mono { (name) } }, None => "off" } }
                    dt { "Stream" } dd { (definition.stream.map_or("off", stream)) }
                    dt { "Recovery to a moment" } dd { @match deployed.pitr_days { Some(days) => { "within " (days) " days" }, None => "off" } }
                    dt { "Protected from deletion" } dd { (if definition.deletion_protection { "yes" } else { "no" }) }
                    dt { "Billing" } dd {
                        @match definition.billing {
                            Billing::OnDemand => "on demand",
                            Billing::Provisioned(units) => { (units.read) " read, " (units.write) " write units" }
                        }
                    }
                    dt { "Class" } dd { (match definition.class { Some(TableClass::StandardInfrequentAccess) => "infrequent access", Some(TableClass::Standard) | None => "standard" }) }
                    dt { "Encryption" } dd { @match &definition.encryption { None => "as the store has it", Some(it) => { "KMS " (it.kms_key.as_deref().unwrap_or("(AWS's key)")) } } }
                    dt { "Tags" } dd { @if tags.is_empty() { "none" } @for (name, value) in &tags { span.badge { (name) " = " (value) } " " } }
                }
                (traffic::growth(room, name))
            }
            section.card {
                h2 { "Indexes" }
                @if definition.indexes.is_empty() { p.quiet { "None." } } @else {
                    div.scroll tabindex="0" role="region" aria-label="Indexes" {
                        table {
                            thead { tr { th { "Index" } th { "In the schema" } th { "Key" } th { "Holds" } th { "Kind" } th.right { "Items" } th.right { "Size" } th { span.unseen { "Drop" } } } }
                            tbody {
                                @for index in &definition.indexes {
                                    @let found = size.as_ref().and_then(|size| size.indexes.iter().find(|it| it.name == index.name.as_str()));
                                    @let alias = known.and_then(|known| known.table.indexes.iter().find(|it| it.name == index.name.as_str()));
                                    tr {
                                        td.mono { (index.name) }
                                        td { @if let Some(alias) = alias { (alias.alias) } }
                                        td.mono { (key(&index.key)) }
                                        td { (holds(&index.projection)) }
                                        td { (match index.kind { IndexKind::Global => "global", IndexKind::Local => "local" }) }
                                        td.right { (found.map_or_else(String::new, |size| show::number(size.items))) }
                                        td.right { (found.map_or_else(String::new, |size| price::size(size.bytes))) }
                                        td { (change::drop_button(room, name, index)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if !room.desk.read_only { (change::forms(room, name, deployed, &tags, lacks, of_forms.as_ref())) }
            @if let Some(told) = &of_backups { (layout::wrong(&told.wrong)) }
            (backups)
        }
    };
    Ok(room.page_wrong(status, name.as_str(), "/tables", &main))
}

/// Whether a table might be made: one of a new name, or of a name that a schema or the store knows.
fn may_create(room: &Room<'_>, names: &[TableName]) -> bool {
    let new = TableName::new("new-table").ok();
    let mut known = new.iter().chain(names).chain(room.known.systems().flat_map(|open| &open.names));
    known.any(|name| room.may(Deed::CreateTable(name)))
}

fn key(key: &KeySchema) -> String {
    let names: Vec<String> = key.attributes().map(|it| format!("{} ({})", it.name, it.kind.name())).collect();
    names.join(" / ")
}

fn holds(projection: &Projection) -> String {
    match projection {
        Projection::All => "all attributes".to_owned(),
        Projection::KeysOnly => "keys".to_owned(),
        Projection::Include(names) => format!("keys and {}", names.join(", ")),
    }
}

fn stream(view: StreamView) -> &'static str {
    match view {
        StreamView::KeysOnly => "keys",
        StreamView::NewImage => "new images",
        StreamView::OldImage => "old images",
        StreamView::NewAndOldImages => "new and old images",
    }
}
