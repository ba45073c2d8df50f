//! The past: what became of one item, and how it was at a moment; and the changes of a table as they come.
//!
//! Both are read from the change log, which a table keeps for its stream and for recovery (`pitr`). Only a store that this
//! process has open can be asked for it. Of others the changes of a table are those that come by its stream while somebody looks,
//! and the past of an item is the day that the stream keeps, read once somebody has seen what that takes.

use larder::jiff::Timestamp;
use larder::store::ops::Event;
use larder::store::{Lookback, PastChange};
use larder::{Store, UnixTime};
use larder_model::{Item, TableName};
use maud::{Markup, html};

use super::item::{self, Found, item_url, key_line, on};
use super::{Fault, Page, Room, edit, layout};
use crate::address::Url;
use crate::show;
use crate::tails::{Came, PAGES_MAX};

/// Changes on a page.
const CHANGES: usize = 100;

/// A change, with the item before and after it.
struct Step<'a> {
    change: &'a PastChange,
    before: Known,
    after: Known,
}

/// An item as it was.
#[derive(Clone)]
enum Known {
    /// `None`: it was not there.
    Was(Option<Item>),
    /// The log does not keep it.
    Unknown,
}

pub(super) async fn item(room: &Room<'_>, table: &TableName) -> Page {
    let found = item::find(room, table, &room.given).await?;
    let keys = found.keys();
    let line = key_line(&keys, &found.key);
    let here = on(Url::to(["item", table.as_str(), "history"]), keys.clone(), &found.key);
    let head = html! {
        (layout::trail(&[(table.to_string(), Url::to(["items", table.as_str()])), (line.clone(), item_url(table, keys.clone(), &found.key))]))
        div.head { h1.key { span.mono { (line) } } @if room.might_look_back(table, None) { a.button href=(Url::to(["changes", table.as_str()])) { "Changes of the table" } } }
    };
    let below = number(room, "before")?;
    let store = room.house.store_of(table, &room.known);
    let body = match store.look_back(table, Some(found.key.clone()), below, CHANGES).await? {
        None => by_stream_of_item(room, &store, table, &found, &here).await?,
        Some(past) if past.changes.is_empty() && past.more_before.is_none() => nothing(table, &past, "item"),
        Some(past) => {
            let end = if below.is_some() { End::Newer } else { End::Now };
            steps(room, table, &found, &past, end, &here).await?
        }
    };
    let main = html! { (head) (body) };
    Ok(room.page_of(&format!("History of {line}"), "", &main))
}

fn number(room: &Room<'_>, name: &str) -> Result<Option<u64>, Fault> {
    let read = |text: &str| {
        text.parse()
            .map_err(|_| Fault::Asked(format!("`{name}` is `{text}`, and a number of a change is wanted.")))
    };
    room.given.said(name).map(read).transpose()
}

/// The past of an item of a store from outside: what the stream of its table still has.
async fn by_stream_of_item(
    room: &Room<'_>,
    store: &Store,
    table: &TableName,
    found: &Found,
    here: &Url,
) -> Result<Markup, Fault> {
    let place = room.house.store().place();
    if room.given.said("scan").is_none() {
        return Ok(html! {
            div.empty {
                h2 { "Read the stream?" }
                p { "This console looks at " span.mono { (place) } " as any client does: the past of an item is what the stream of "
                    span.mono { (table) } " still has, the changes of a day. It is read from its oldest change on, all items of the table, up to "
                    (PAGES_MAX) " pages of a megabyte from each shard at a time. AWS lists $0.02 for 100,000 such reads, after the first 2,500,000 of a month; it was not tried there." }
                p { a.button.primary #scan href=(here.clone().with("scan", "1")) { "Read the stream" } " "
                    a.button href=(Url::to(["changes", table.as_str()])) { "See what changes from now on" } }
            }
        });
    }
    let Some(came) = room.house.tails().look(store, table, Some(&found.key)).await? else {
        return Ok(html! {
            div.empty {
                h2 { "The past is not kept" }
                p { span.mono { (table) } " has no stream, and this console looks at " span.mono { (place) } " as any client does. " code { "stream both" }
                    " in its schema, or " b { "Change it" } " on its page, keeps every change for a day from then on. The console of " code { "larder serve" }
                    ", and of a directory, also reads what recovery keeps; on AWS a table can be restored to a moment beside this one." }
            }
        });
    };
    let (looked, latest) = (came.looked, came.latest);
    let more = here.clone().with("scan", "1");
    let status = html! {
        p role="status" { (show::count(looked, "change")) " of the table looked through"
            @if let Some(latest) = latest { ", up to " (millis(latest)) }
            @if came.is_all { ": all that the stream has." } @else { ". " a.button #next href=(more) { "Read on" } }
            @if came.is_cut { " This item changed too often: only the newest changes are kept here." }
        }
    };
    if came.changes.is_empty() {
        return Ok(html! { (status) div.empty { h2 { "Nothing is known to have changed" }
        p { "The stream of " span.mono { (table) } " has no change of this item " @if came.is_all { "in the day that it keeps." } @else { "up to there." } } } });
    }
    let past =
        Lookback { item: None, changes: came.changes, more_before: None, is_kept: true, whole_since: None };
    let end = if came.is_all { End::Now } else { End::Unread };
    let steps = steps(room, table, found, &past, end, &here.clone().with("scan", "1")).await?;
    Ok(html! { (status) (steps) })
}

fn nothing(table: &TableName, past: &Lookback, what: &str) -> Markup {
    html! {
        div.empty {
            @if past.is_kept {
                h2 { "Nothing is known to have changed" }
                p { "The change log of " span.mono { (table) } " has no change of this " (what) "."
                    @if let Some(since) = past.whole_since { " It is whole since " (show::unix_moment(since)) "." } }
            } @else {
                h2 { "The past is not kept" }
                p { span.mono { (table) } " has neither a stream nor recovery, so nothing says what its items were. " code { "pitr on" } " in the schema, or "
                    code { "stream both" } ", keeps every change from then on." }
            }
        }
    }
}

/// What comes after the newest of the changes that a page shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing.
    Now,
    /// The changes of the page before.
    Newer,
    /// What was not read yet.
    Unread,
}

/// What is known of each change, newest first.
fn known(past: &Lookback) -> Vec<Step<'_>> {
    let of = |is_absent: bool, item: &Option<Item>| match item {
        _ if is_absent => Known::Was(None),
        Some(item) => Known::Was(Some(item.clone())),
        None => Known::Unknown,
    };
    let step = |change| Step {
        change,
        before: of(change.event == Event::Insert, &change.old),
        after: of(change.event == Event::Remove, &change.new),
    };
    past.changes.iter().map(step).collect()
}

async fn steps(
    room: &Room<'_>,
    table: &TableName,
    found: &Found,
    past: &Lookback,
    end: End,
    here: &Url,
) -> Result<Markup, Fault> {
    let mut steps = known(past);
    // The first was the last of the page before: it says what the second made.
    if end == End::Newer && steps.len() > 1 {
        steps.remove(0);
    }
    let moment = room.given.said("moment").map(read_moment).transpose()?;
    let chosen = match (number(room, "at")?, moment) {
        (Some(number), _) => steps.iter().position(|step| step.change.number == number),
        // What was so at a moment was made so by the last change up to it.
        (None, Some(moment)) => steps.iter().position(|step| step.change.time <= moment),
        (None, None) => Some(0).filter(|_| !steps.is_empty()),
    };
    let shown = match (chosen.and_then(|at| Some((at, steps.get(at)?))), moment) {
        (Some((at, step)), _) => {
            let until = at.checked_sub(1).and_then(|newer| steps.get(newer)).map(|newer| newer.change.time);
            html! {
                h2 {
                    @match moment {
                        Some(moment) => { "As it was at " (millis(moment)) },
                        None => { "As it was from " (millis(step.change.time)) @if let Some(until) = until { " to " (millis(until)) } @else if end == End::Now { " until now" } },
                    }
                }
                (as_it_was(room, table, found, &step.after).await)
                h2 { "What the change made of it" }
                (difference(room, table, step))
            }
        }
        (None, Some(moment)) => html! {
            (layout::wrong("At that moment nothing is known of it: the oldest change on this page is later."))
            p.quiet { "Asked was " (millis(moment)) "." }
        },
        (None, None) => html! { p.quiet { "No change of it is among those that were looked through." } },
    };
    Ok(html! {
        @if let Some(since) = past.whole_since { p.quiet { "No change is missing since " (show::unix_moment(since)) "." } }
        @else { p.quiet { "The log is kept for a stream, which forgets after a day; without recovery there may be gaps." } }
        (line(&steps, chosen, here, room.house.now()))
        form.ask action=(here) method="get" {
            @for name in ["pk", "sk", "scan"] { @if let Some(value) = room.given.get(name) { input type="hidden" name=(name) value=(value); } }
            div.field {
                label for="moment" { "as it was at " span.quiet { "a moment, UTC" } }
                input #moment name="moment" value=[room.given.get("moment")] placeholder="2026-01-15T10:00:00Z" autocomplete="off" spellcheck="false";
            }
            div.field.do { button.primary type="submit" { "Show" } }
        }
        (shown)
        h2 { "Changes" }
        div.scroll tabindex="0" role="region" aria-label="Changes" {
            table.rows {
                thead { tr { th { "When" } th { "What" } th { "Attributes" } } }
                tbody {
                    @for (at, step) in steps.iter().enumerate() {
                        tr class=[(Some(at) == chosen).then_some("now")] {
                            td { a.open href=(here.clone().with("at", step.change.number.to_string())) aria-current=[(Some(at) == chosen).then_some("true")] { (millis(step.change.time)) } }
                            td { (event(step.change)) }
                            td { (names(&step.before, &step.after)) }
                        }
                    }
                }
            }
        }
        @if let Some(before) = past.more_before {
            // The last one here says what the one before it made.
            @let from = steps.last().map_or(before, |step| step.change.number + 1).min(before + 1);
            div.pages { a.button #next rel="next" href=(here.clone().with("before", from.to_string())) { "Look further back" } }
        }
    })
}

fn read_moment(text: &str) -> Result<UnixTime, Fault> {
    let at: Timestamp = text
        .parse()
        .map_err(|_| Fault::Asked(format!("`{text}` is no moment: write it as 2026-01-15T10:00:00Z.")))?;
    Ok(UnixTime::from_millis(at.as_millisecond()))
}

/// The changes on a line, from the oldest to now; each is a way to what it made.
fn line(steps: &[Step<'_>], chosen: Option<usize>, here: &Url, now: UnixTime) -> Markup {
    let Some(oldest) = steps.last() else { return html! {} };
    let (from, to) = (oldest.change.time.millis(), now.millis());
    let span = (to - from).max(1) as f64;
    let place = |time: UnixTime| 10.0 + 980.0 * ((time.millis() - from) as f64 / span).clamp(0.0, 1.0);
    html! {
        svg.past viewBox="0 0 1000 40" role="group" aria-label="The changes on a line" {
            line x1="10" x2="990" y1="20" y2="20" {}
            @for (at, step) in steps.iter().enumerate().rev() {
                a href=(here.clone().with("at", step.change.number.to_string())) aria-label={ (word(step.change)) " " (text(step.change.time)) } {
                    circle class=(if Some(at) == chosen { "now" } else { word(step.change) }) cx=(format!("{:.1}", place(step.change.time))) cy="20" r=(if Some(at) == chosen { "9" } else { "6" }) {
                        title { (word(step.change)) " " (text(step.change.time)) " UTC" }
                    }
                }
            }
        }
        p.ends { span { (millis(oldest.change.time)) } span { "now" } }
    }
}

fn word(change: &PastChange) -> &'static str {
    match change.event {
        Event::Insert => "made",
        Event::Modify => "changed",
        Event::Remove if change.expired => "expired",
        Event::Remove => "deleted",
    }
}

fn event(change: &PastChange) -> Markup {
    let tone = match word(change) {
        "made" => "badge good",
        "changed" => "badge",
        _ => "badge bad",
    };
    html! { span class=(tone) { (word(change)) } }
}

fn text(at: UnixTime) -> String {
    Timestamp::from_millisecond(at.millis())
        .map_or_else(|_| at.millis().to_string(), |at| at.strftime("%Y-%m-%d %H:%M:%S%.f").to_string())
}

/// A moment with its milliseconds.
fn millis(at: UnixTime) -> Markup {
    match Timestamp::from_millisecond(at.millis()) {
        Ok(at) => show::moment(at),
        Err(_) => html! { (at.millis()) },
    }
}

/// The attributes that a change touched.
fn names(before: &Known, after: &Known) -> Markup {
    match (before, after) {
        (Known::Was(Some(before)), Known::Was(Some(after))) => {
            let all: Vec<String> = edit::different(before, after).into_iter().collect();
            html! { (show::cut(&all.join(", "), 120).0) }
        }
        (Known::Unknown, Known::Was(Some(_))) | (_, Known::Unknown) => {
            html! { span.quiet { "the log does not say" } }
        }
        _ => html! {},
    }
}

async fn as_it_was(room: &Room<'_>, table: &TableName, found: &Found, was: &Known) -> Markup {
    let item = match was {
        Known::Was(Some(item)) => item,
        Known::Was(None) => return html! { p.notice { "It was not there." } },
        Known::Unknown => {
            return html! { p.notice { "The log says that it changed, and not what it was: the stream of " (table) " shows less than both images." } };
        }
    };
    let hidden = item::secrets(room, table, item);
    let kind = room.known.kind(table, item);
    let entry = match &kind {
        Some(kind) => Some(item::entry(kind, item).await),
        None => None,
    };
    html! {
        @if let (Some(kind), Some(entry)) = (&kind, &entry) { (item::record(room, kind, item, entry, false)) }
        details.card open[kind.is_none()] {
            summary { "Attributes" }
            (item::attributes(item, kind.as_ref(), &hidden, &found.keys()))
        }
    }
}

fn difference(room: &Room<'_>, table: &TableName, step: &Step<'_>) -> Markup {
    match (&step.before, &step.after) {
        (Known::Was(before), Known::Was(after)) => {
            let (before, after) = (before.clone().unwrap_or_default(), after.clone().unwrap_or_default());
            edit::difference(room, table, &before, &after, ["Before", "After"])
        }
        _ => html! { p.quiet { "The log does not say." } },
    }
}

/// The changes of a table, newest first, as they come.
pub(super) async fn table(room: &Room<'_>, table: &TableName) -> Page {
    let house = &room.house;
    let deployed = room.deployed(table).await?;
    let keys: Vec<&str> = deployed.definition.key.attributes().map(|key| key.name.as_str()).collect();
    let here = Url::to(["changes", table.as_str()]);
    let below = number(room, "before")?;
    let given = &room.given;
    let (wanted_event, wanted_key, wanted_name) =
        (given.said("event"), given.said("key"), given.said("attribute"));
    let is_wanted = |change: &&PastChange| {
        wanted_event.is_none_or(|event| word(change) == event)
            && wanted_key.is_none_or(|key| key_line(&keys, &change.key).contains(key))
            && wanted_name.is_none_or(|name| touched(change).iter().any(|touched| touched == name))
    };
    let store = house.store_of(table, &room.known);
    let body = match store.look_back(table, None, below, CHANGES * 2).await? {
        None => match house.tails().look(&store, table, None).await? {
            None => no_stream(room, table),
            Some(came) => {
                let rows: Vec<&PastChange> = came.changes.iter().filter(is_wanted).take(CHANGES).collect();
                by_stream(table, &keys, &came, &rows)
            }
        },
        Some(past) if past.changes.is_empty() => nothing(table, &past, "table"),
        Some(past) => {
            let rows: Vec<&PastChange> = past.changes.iter().filter(is_wanted).take(CHANGES).collect();
            let last = rows
                .last()
                .filter(|_| rows.len() == CHANGES)
                .map(|change| change.number)
                .or(past.more_before);
            html! {
                p role="status" { b { (show::count(rows.len() as u64, "change")) } span.quiet { " of the last " (show::number(past.changes.len() as u64)) } }
                (list(&keys, &rows, |change| on(Url::to(["item", table.as_str(), "history"]), keys.clone(), &change.key).with("at", change.number.to_string())))
                @if let Some(before) = last {
                    div.pages { a.button #next rel="next" href=(crate::query::settled(given).onto(here.clone()).instead("before", before.to_string())) { "Older ones" } }
                }
            }
        }
    };
    let main = html! {
        (layout::trail(&[("tables".to_owned(), Url::to(["tables"])), (table.to_string(), Url::to(["tables", table.as_str()]))]))
        h1 { "Changes of " span.mono { (table) } }
        form.ask action=(here) method="get" {
            div.field {
                label for="event" { "what" }
                select #event name="event" {
                    option value="" { "all" }
                    @for event in ["made", "changed", "deleted", "expired"] { option value=(event) selected[Some(event) == wanted_event] { (event) } }
                }
            }
            div.field { label for="key" { "key contains" } input #key name="key" value=[wanted_key] autocomplete="off" spellcheck="false"; }
            div.field { label for="attribute" { "touches attribute" } input #attribute name="attribute" value=[wanted_name] autocomplete="off" spellcheck="false"; }
            div.field.do { button.primary type="submit" { "Show" } }
        }
        // Who looks at older ones is not moved on.
        div data-live[below.is_none()] { (body) }
    };
    Ok(room.page_of(&format!("Changes of {table}"), "/tables", &main))
}

/// Changes, each with the way to its item.
fn list(keys: &[&str], rows: &[&PastChange], to: impl Fn(&PastChange) -> Url) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Changes" {
            table.rows {
                thead { tr { th { "When" } th { "What" } th { "Item" } th { "Attributes" } } }
                tbody {
                    @for change in rows {
                        tr {
                            td { (millis(change.time)) }
                            td { (event(change)) }
                            td.mono { a.open href=(to(change)) { (show::cut(&key_line(keys, &change.key), 80).0) } }
                            td { (show::cut(&touched(change).join(", "), 120).0) }
                        }
                    }
                }
            }
        }
    }
}

/// What came by the stream since somebody looked first.
fn by_stream(table: &TableName, keys: &[&str], came: &Came, rows: &[&PastChange]) -> Markup {
    html! {
        p role="status" {
            b { (show::count(rows.len() as u64, "change")) }
            span.quiet { " of " (show::number(came.changes.len() as u64)) " that came by the stream since " (show::unix_moment(came.since)) }
        }
        @if rows.is_empty() {
            div.empty {
                h2 { "Nothing came yet" }
                p { "Changes of " span.mono { (table) } " are shown from now on, for as long as somebody looks; those before are not read." }
            }
        } @else {
            (list(keys, rows, |change| item_url(table, keys.to_vec(), &change.key)))
        }
    }
}

fn no_stream(room: &Room<'_>, table: &TableName) -> Markup {
    html! {
        div.empty {
            h2 { "There is no stream to look at" }
            p { "This console looks at " span.mono { (room.house.store().place()) } " as any client does, and sees the changes of a table as they come by its stream. "
                span.mono { (table) } " has none: " code { "stream both" } " in its schema, or " b { "Change it" } " on its page, switches one on." }
        }
    }
}

/// The attributes that a change touched, as far as the log says.
fn touched(change: &PastChange) -> Vec<String> {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => edit::different(old, new).into_iter().collect(),
        (None, Some(item)) if change.event == Event::Insert => item.names().map(str::to_owned).collect(),
        (Some(item), None) if change.event == Event::Remove => item.names().map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}
