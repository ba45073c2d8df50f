//! The first page: systems and tables with what stores tell of them, and counts for who asks for them.

use larder::Store;
use larder::census::{self, Census, Size};
use larder::price::{self, Units, read_units};
use larder_model::TableName;
use maud::{Markup, html};

use super::{Page, Room, traffic};
use crate::address::Url;
use crate::answer::Answer;
use crate::house::{Known, Open};
use crate::query::is_denied;
use crate::show;

/// How many tables a page asks the size of.
const SIZES_MAX: usize = 50;
/// How many items that are about to expire are counted.
const EXPIRING_MAX: usize = 10_000;

pub(super) async fn show(room: &Room<'_>) -> Page {
    let house = room.house;
    let listed = house.store().list_tables().await;
    let untold = listed.as_ref().err().filter(|error| is_denied(error)).map(ToString::to_string);
    let names = if untold.is_some() { Vec::new() } else { listed? };
    let counted = room.given.said("count");
    let mut systems = Vec::new();
    for open in room.known.systems() {
        let mut tables = Vec::new();
        for (at, name) in open.names.iter().enumerate() {
            let size = size(room, name, 0).await?;
            let schema_name = &open.schema().tables[at].name;
            let ends = match size.told() {
                Some(_) if open.schema().tables[at].ttl.is_some() => {
                    expiring(&house.store_of(name, &room.known), name)?
                }
                _ => None,
            };
            let census = match counted {
                Some(wanted) if wanted == name.as_str() && size.told().is_some() => {
                    open.system.census(schema_name, |_| {}).await?
                }
                _ => None,
            };
            tables.push((name, at, size, census, ends));
        }
        systems.push((open, tables));
    }
    let mut others = Vec::new();
    for (at, name) in names.iter().filter(|name| room.known.table(name).is_none()).enumerate() {
        others.push((name, size(room, name, at).await?));
    }
    let broken = room.known.files.iter().filter(|file| file.open.is_none());
    let main = html! {
        h1 { "Overview" }
        @for file in broken {
            p.notice.bad {
                (file.path.display()) " has errors, so what it describes is shown as plain tables. "
                a href=(Url::to(["schema", &file.name()])) { "See what is wrong" }
            }
        }
        @if let Some(untold) = &untold { p.notice { "Other tables are not listed: " (untold) } }
        @else if systems.is_empty() && others.is_empty() {
            div.empty {
                h2 { "Nothing is kept here yet" }
                p { "There is no table and no schema. Begin a schema with " code { "larder init" } ", make its tables with "
                    code { "larder apply" } ", and fill them with " code { "larder seed" } "." }
            }
        }
        @if !systems.is_empty() || !others.is_empty() { (traffic::section(room)) }
        @for (open, tables) in &systems { (system(open, tables)) }
        @if !others.is_empty() {
            section.card {
                h2 { @if systems.is_empty() { "Tables" } @else { "Tables without a schema" } }
                div.scroll tabindex="0" role="region" aria-label="Tables" {
                    table {
                        thead { tr { th { "Table" } th.right { "Items" } th.right { "Size" } } }
                        tbody {
                            @for (name, size) in &others {
                                tr {
                                    td { a href=(Url::to(["items", name.as_str()])) { (name) } }
                                    td.right { (items(size.told())) }
                                    td.right { (bytes(size.told())) }
                                }
                            }
                        }
                    }
                }
                @if systems.is_empty() {
                    p.quiet { "With a schema, items are records with fields, states and checks: start the console with "
                        code { "--schema DIR" } "; " code { "larder import" } " writes one from tables." }
                }
            }
        }
    };
    Ok(room.page_of("Overview", "/", &main))
}

/// What a store tells of a table.
pub(super) enum Extent {
    Told(Size),
    /// There is none.
    Absent,
    /// It was not asked, or does not tell whoever asks.
    Untold,
}

impl Extent {
    pub(super) fn told(&self) -> Option<&Size> {
        match self {
            Self::Told(size) => Some(size),
            Self::Absent | Self::Untold => None,
        }
    }
}

/// What a store tells of a table, unless so many others were asked for already that a page would take long.
pub(super) async fn size(
    room: &Room<'_>,
    name: &TableName,
    asked: usize,
) -> Result<Extent, larder::store::Error> {
    if asked >= SIZES_MAX {
        return Ok(Extent::Untold);
    }
    match census::size(&room.house.store_of(name, &room.known), name).await {
        Ok(Some(size)) => Ok(Extent::Told(size)),
        Ok(None) => Ok(Extent::Absent),
        Err(error) if is_denied(&error) => Ok(Extent::Untold),
        Err(error) => Err(error),
    }
}

type TableRow<'a> = (&'a TableName, usize, Extent, Option<Census>, Option<[u64; 2]>);

/// How many items expire within an hour and within a day, where the store keeps account of it.
fn expiring(store: &Store, name: &TableName) -> Result<Option<[u64; 2]>, larder::store::Error> {
    let within = |seconds| census::expiring(store, name, seconds, EXPIRING_MAX);
    Ok(within(3600)?.zip(within(86_400)?).map(|(hour, day)| [hour, day]))
}

/// So many, or that many at least.
fn at_least(count: u64) -> String {
    let more = if count >= EXPIRING_MAX as u64 { " or more" } else { "" };
    format!("{}{more}", show::number(count))
}

fn system(open: &Open, tables: &[TableRow<'_>]) -> Markup {
    let schema = open.schema();
    html! {
        section.card {
            h2 { a href=(Url::to(["schema", &schema.system])) { (schema.system) } }
            @if !schema.docs.is_empty() { p.quiet { (schema.docs.join(" ")) } }
            @for (name, at, size, census, ends) in tables {
                @let table = &schema.tables[*at];
                div.table-of {
                    p.line {
                        a.mono href=(Url::to(["tables", name.as_str()])) { (name) }
                        @match size {
                            Extent::Told(size) => {
                                span { (show::count(size.items, "item")) }
                                span { (price::size(size.bytes)) }
                                @if let Some([hour, day]) = ends {
                                    span.quiet { (at_least(*hour)) " expire within an hour, " (at_least(*day)) " within a day" }
                                }
                                @if census.is_none() && size.items > 0 { (count_link(name, size)) }
                            }
                            Extent::Absent => span.badge.warn { "not there: " code { "larder apply" } " makes it" },
                            Extent::Untold => {}
                        }
                    }
                    ul.entities {
                        @for entity in &table.entities {
                            @let count = census.as_ref().and_then(|census| census.entities.get(&entity.name));
                            li {
                                a href=(Url::to(["browse", &schema.system, &entity.name])) { (entity.name) }
                                @if let Some(count) = count {
                                    " " span.quiet {
                                        (show::count(count.items, "record")) ", " (price::size(count.bytes))
                                        @if table.ttl.is_some() {
                                            " · " (show::number(count.fresh)) " fresh, " (show::number(count.expired)) " expired, "
                                            (show::number(count.within_hour)) " end within an hour, "
                                            (show::number(count.within_day)) " within a day"
                                        }
                                    }
                                    @for lifecycle in &entity.lifecycles {
                                        @let states: Vec<(&str, u64)> = lifecycle.states.iter().map(|state| {
                                            let known = count.states.get(&lifecycle.name).and_then(|all| all.get(&state.name));
                                            (state.name.as_str(), known.copied().unwrap_or(0))
                                        }).collect();
                                        (bars(&schema.system, &entity.name, &lifecycle.name, &states))
                                    }
                                }
                            }
                        }
                    }
                    @if let Some(census) = census { (rest(name, census)) }
                }
            }
        }
    }
}

/// To count is to read the whole table, so it is asked for, and its price is told first.
fn count_link(name: &TableName, size: &Size) -> Markup {
    let units = Units { read: read_units(size.bytes, false), write: 0.0 };
    html! {
        a.button.small href=(Url::to([]).with("count", name.as_str())) title={ "Reads the whole table: " (units) } {
            "Count" span.quiet { " · " (show::units(units.read)) " RCU" }
        }
    }
}

fn rest(name: &TableName, census: &Census) -> Markup {
    html! {
        p.quiet {
            "Counted by reading the table, for " (show::units(census.units)) " read units."
            @if census.parts.items > 0 { " " (show::count(census.parts.items, "item")) " hold parts of larger records." }
            @if census.markers > 0 { " " (show::count(census.markers, "item")) " hold no record: remembered absences, loads under way." }
        }
        @if census.strangers.items > 0 {
            p.notice.bad {
                (show::count(census.strangers.items, "item")) " cannot be read as any entity, such as "
                (census.stranger_keys.join(", ")) ". "
                a href=(Url::to(["items", name.as_str()]).with("by", "all")) { "Look at the items as they are" }
            }
        }
    }
}

/// The states of a lifecycle, each as long as its share.
fn bars(system: &str, entity: &str, lifecycle: &str, states: &[(&str, u64)]) -> Markup {
    let total: u64 = states.iter().map(|(_, count)| count).sum();
    let mut start = 0.0;
    let widths: Vec<(f64, f64)> = states
        .iter()
        .map(|(_, count)| {
            let width = if total == 0 { 0.0 } else { *count as f64 * 100.0 / total as f64 };
            start += width;
            (start - width, width)
        })
        .collect();
    html! {
        div.states {
            a href=(Url::to(["board", system, entity, lifecycle])) { (lifecycle) }
            svg.bar viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" {
                @for (at, (x, width)) in widths.iter().enumerate() {
                    rect class={ "s" (at % 6) } x=(format!("{x:.2}")) y="0" width=(format!("{width:.2}")) height="6" {}
                }
            }
            ul.legend {
                @for (at, (state, count)) in states.iter().enumerate() {
                    li { span class={ "dot s" (at % 6) } aria-hidden="true" {} (state) " " b { (show::number(*count)) } }
                }
            }
        }
    }
}

fn items(size: Option<&Size>) -> String {
    size.map_or_else(|| "-".to_owned(), |size| show::number(size.items))
}

fn bytes(size: Option<&Size>) -> String {
    size.map_or_else(|| "-".to_owned(), |size| price::size(size.bytes))
}

/// What has a name like what is looked for.
pub(super) fn find(room: &Room<'_>) -> Answer {
    let wanted = room.given.get("q").unwrap_or_default().to_lowercase();
    let found = if wanted.is_empty() { Vec::new() } else { matches(&room.known, &wanted) };
    let main = html! {
        h1 { "Find" }
        @if wanted.is_empty() {
            p.quiet { "Write a part of a name: of an entity, a table, an index, a field or a lifecycle." }
        } @else if found.is_empty() {
            div.empty {
                h2 { "Nothing is called that" }
                p { "Names of entities, tables, indexes, fields and lifecycles are looked through. To find a record, browse "
                    "its entity by an index or with a filter." }
            }
        } @else {
            ul.found {
                @for (text, what, url) in &found { li { a href=(url) { (text) } " " span.quiet { (what) } } }
            }
        }
    };
    room.page_of("Find", "", &main)
}

fn matches(known: &Known, wanted: &str) -> Vec<(String, String, Url)> {
    let mut found = Vec::new();
    let is = |name: &str| name.to_lowercase().contains(wanted);
    for open in known.systems() {
        let schema = open.schema();
        for (table, name) in schema.tables.iter().zip(&open.names) {
            if is(name.as_str()) {
                found.push((name.to_string(), "table".to_owned(), Url::to(["tables", name.as_str()])));
            }
            for entity in &table.entities {
                let browse = || Url::to(["browse", &schema.system, &entity.name]);
                let full = format!("{}.{}", schema.system, entity.name);
                if is(&full) {
                    found.push((full.clone(), "entity".to_owned(), browse()));
                }
                for field in entity.fields.iter().filter(|field| is(&field.name)) {
                    found.push((
                        format!("{full}.{}", field.name),
                        format!("field, {}", field.kind),
                        browse(),
                    ));
                }
                let holding =
                    table.indexes.iter().filter(|index| entity.access(table, Some(index)).is_some());
                for index in holding.filter(|index| is(&index.alias) || is(&index.name)) {
                    let url = browse().with("by", &index.alias);
                    found.push((format!("{full} {}", index.alias), format!("index {}", index.name), url));
                }
                for lifecycle in entity.lifecycles.iter().filter(|lifecycle| is(&lifecycle.name)) {
                    let url = Url::to(["board", &schema.system, &entity.name, &lifecycle.name]);
                    found.push((format!("{full} {}", lifecycle.name), "lifecycle".to_owned(), url));
                }
            }
        }
    }
    found
}
