//! Lifecycles: a column for each state, who holds what and for how long, and the moves that the schema declares.

use std::collections::BTreeSet;

use larder::text::Reader;
use larder::{Entry, Group, Lifecycle, Standing, UnixTime};
use larder_model::{Item, TableName};
use larder_schema::schema::{self, Transition};
use larder_schema::{Argument, Field};
use maud::{Markup, html};

use super::browse::kind_keys;
use super::item::{self, item_url, key_line};
use super::{Fault, Page, Room, layout};
use crate::address::{Given, Url};
use crate::answer;
use crate::deed::Deed;
use crate::house::Kind;
use crate::show;

/// How many a column shows.
const CARDS: usize = 50;
/// What is shown of an error.
const ERROR_CHARACTERS: usize = 1024;

pub(super) async fn show(room: &Room<'_>, kind: &Kind<'_>, name: &str) -> Page {
    let of = kind.entity.lifecycle(name).zip(kind.shelf.lifecycle(name));
    let (of, lifecycle) =
        of.ok_or_else(|| Fault::Absent(format!("{} has no lifecycle `{name}`.", kind.entity.name)))?;
    let here = Url::to(["board", &kind.schema().system, &kind.entity.name, name]);
    let arguments = arguments(kind, of);
    let body = match group(kind, &arguments, &room.given) {
        Err(Some(wrong)) => layout::wrong(&wrong),
        Err(None) => html! {
            div.empty {
                h2 { "Which " (arguments.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(" and ")) "?" }
                p { "The index that holds the states is parted by it, so the board shows one at a time." }
            }
        },
        Ok(group) => match columns(room, kind, of, &lifecycle, group).await {
            Ok(columns) => columns,
            Err(larder::Error::Store(error)) => return Err(error.into()),
            Err(error) => layout::wrong(&error.to_string()),
        },
    };
    let main = html! {
        (layout::trail(&[
            (kind.schema().system.clone(), Url::to(["schema", &kind.schema().system])),
            (kind.entity.name.clone(), Url::to(["browse", &kind.schema().system, &kind.entity.name])),
        ]))
        h1 { (kind.entity.name) " " (name) }
        @if !of.docs.is_empty() { p.quiet { (of.docs.join(" ")) } }
        @if !arguments.is_empty() {
            form.ask action=(here) method="get" {
                @for (at, argument) in arguments.iter().enumerate() {
                    @let id = format!("a{at}");
                    div.field {
                        label for=(id) { (argument.name) " " span.quiet { (argument.kind) } }
                        (layout::input(&id, &format!("a.{}", argument.name), &argument.kind,
                            room.given.get(&format!("a.{}", argument.name)).unwrap_or_default(), false, false))
                    }
                }
                div.field.do { button.primary type="submit" { "Show" } }
            }
        }
        (body)
    };
    Ok(room.page_of(&format!("{} {name}", kind.full_name()), &here.to_string(), &main))
}

/// What a group of a lifecycle is named by: nothing, where its state alone is the key of an index.
fn arguments(kind: &Kind<'_>, of: &schema::Lifecycle) -> Vec<Argument> {
    let index = kind
        .table
        .indexes
        .iter()
        .find(|index| index.sort.first().is_some_and(|key| key.attribute == of.attribute));
    let access = index.and_then(|index| kind.entity.access(kind.table, Some(index)));
    access.map(|access| access.arguments).unwrap_or_default()
}

/// `Err(None)`: not all of it is given yet.
fn group(kind: &Kind<'_>, arguments: &[Argument], given: &Given) -> Result<Group, Option<String>> {
    let values = arguments.iter().map(|argument| {
        let text = given.said(&format!("a.{}", argument.name)).ok_or(None)?;
        Reader::open(kind.schema()).text(&argument.kind, &argument.name, text).map_err(Some)
    });
    Ok(Group::of(values.collect::<Result<Vec<_>, _>>()?))
}

async fn columns(
    room: &Room<'_>,
    kind: &Kind<'_>,
    of: &schema::Lifecycle,
    lifecycle: &Lifecycle<Entry>,
    group: Group,
) -> Result<Markup, larder::Error> {
    let keys = kind_keys(kind);
    let mut all = Vec::new();
    for state in &of.states {
        let listing = lifecycle.in_state(&state.name).group(group.clone()).limit(CARDS);
        all.push((state, listing.with_unread().await?));
    }
    let leased = of.lease.is_some();
    let (mut due, mut stuck) = (BTreeSet::new(), BTreeSet::new());
    if leased {
        let lines =
            |found: Vec<Standing<Entry>>| found.iter().map(|it| key_line(&keys, it.kept().key())).collect();
        due = lines(lifecycle.due(group.clone()).limit(CARDS).await?);
        stuck = lines(lifecycle.stuck(group).limit(CARDS).await?);
    }
    let now = room.house.now();
    Ok(html! {
        @if leased {
            p.line {
                span { b { (due.len()) @if due.len() == CARDS { "+" } } " due" }
                span { b { (stuck.len()) @if stuck.len() == CARDS { "+" } } " stuck: their lease ran out and nobody took them over" }
            }
        }
        div.board tabindex="0" role="region" aria-label="States" {
            @for (state, (found, unread)) in &all {
                section.column {
                    h2 { (state.name) " " span.quiet { (found.len()) @if found.len() == CARDS { "+" } } }
                    @if let Some(lease) = state.lease_millis { p.quiet { "lease of " (show::away_text(lease / 1000).trim_start_matches("in ")) } }
                    @if !unread.is_empty() { p.notice.bad { (unread.to_string()) } }
                    @if found.is_empty() { p.quiet { "none" } }
                    @for standing in found {
                        @let line = key_line(&keys, standing.kept().key());
                        (card(room, kind, of, standing, &line, due.contains(&line), stuck.contains(&line), now))
                    }
                }
            }
        }
    })
}

#[expect(clippy::too_many_arguments, reason = "all that a card shows")]
fn card(
    room: &Room<'_>,
    kind: &Kind<'_>,
    of: &schema::Lifecycle,
    standing: &Standing<Entry>,
    line: &str,
    is_due: bool,
    is_stuck: bool,
    now: UnixTime,
) -> Markup {
    let keys = kind_keys(kind);
    let key = standing.kept().key();
    html! {
        article.card.small {
            h3 { a.mono href=(item_url(kind.name, keys.clone(), key)) { (line) } }
            p.marks {
                @if is_stuck { span.badge.bad { "stuck" } }
                @if is_due { span.badge.good { "due" } }
                @if standing.exhausted { span.badge.bad { "no attempts left" } }
                @if standing.pauses { span.badge { "pauses" } }
            }
            dl {
                @if let Some(since) = standing.since { dt { "since" } dd { (show::moment(since)) } }
                @if let Some(owner) = &standing.owner { dt { "held by" } dd { (owner) } }
                @if let Some(until) = standing.until {
                    dt { @if standing.pauses { "next attempt" } @else { "until" } } dd { (show::away(until, now)) }
                }
                @if standing.attempts > 0 { dt { "attempts" } dd { (standing.attempts) } }
                @if let Some(error) = &standing.error { dt { "last error" } dd.error { (error_text(error)) } }
            }
            (moves(room, kind, of, standing, key, &keys))
        }
    }
}

/// What can be done with a record in its lifecycles, on its own page.
pub(super) fn steps(room: &Room<'_>, kind: &Kind<'_>, item: &Item, keys: &[&str]) -> Markup {
    html! {
        @for of in &kind.entity.lifecycles {
            @let standing = kind.shelf.lifecycle(&of.name).and_then(|lifecycle| lifecycle.standing_of(item));
            @let state = standing.as_ref().map(|standing| standing.state.as_str());
            section.card {
                h2 { (of.name) }
                p.line {
                    @for known in &of.states {
                        span class=(if Some(known.name.as_str()) == state { "badge now" } else { "badge off" }) { (known.name) }
                    }
                }
                @if let Some(standing) = &standing {
                    @if standing.attempts > 0 || standing.error.is_some() {
                        p {
                            (show::count(u64::try_from(standing.attempts).unwrap_or(0), "attempt"))
                            @if let (true, Some(until)) = (standing.pauses, standing.until) { ", the next one " (show::away(until, room.house.now())) }
                            @if let Some(error) = &standing.error { "; last error: " span.error { (error_text(error)) } }
                        }
                    }
                    (moves(room, kind, of, standing, item, keys))
                }
            }
        }
    }
}

/// Why work failed, as a program said it: the beginning of a long text.
fn error_text(error: &str) -> Markup {
    let (start, more) = show::cut(error, ERROR_CHARACTERS);
    html! { (start) @if more { "…" } }
}

/// A button for each move that is declared from here; a state with a lease is entered by workers alone.
fn moves<R>(
    room: &Room<'_>,
    kind: &Kind<'_>,
    of: &schema::Lifecycle,
    standing: &Standing<R>,
    key: &Item,
    keys: &[&str],
) -> Markup {
    let state = standing.state.as_str();
    let lease = |name: &str| of.states.iter().any(|it| it.name == name && it.lease_millis.is_some());
    let open: Vec<&Transition> = of
        .transitions
        .iter()
        .filter(|transition| {
            transition.from.iter().any(|from| from == state) && !lease(&transition.to) && !lease(state)
        })
        .collect();
    let one: Item =
        keys.iter().filter_map(|name| Some(((*name).to_owned(), key.get(name)?.clone()))).collect();
    if !room.may(Deed::Update(kind.name, &one)) {
        return html! {};
    }
    let url = item::on(Url::to(["item", kind.name.as_str(), "move"]), keys.to_vec(), key);
    html! {
        @for (is_offered, what, text) in [(standing.stuck, "release", "Release"), (standing.pauses, "retry", "Retry now")] {
            @if is_offered {
                form.inline method="post" action=(url) {
                    (layout::token(room))
                    input type="hidden" name="lifecycle" value=(of.name);
                    button.small type="submit" name="do" value=(what) { (text) }
                }
            }
        }
        @for transition in &open {
            @let fields = params(kind, transition);
            @let form = html! {
                form.inline method="post" action=(url) {
                    (layout::token(room))
                    input type="hidden" name="lifecycle" value=(of.name);
                    @for field in &fields {
                        @let id = format!("{}-{}-{}-{}", of.name, transition.name, field.name, show::digest(&one));
                        label for=(id) { (field.name) }
                        (layout::input(&id, &format!("field.{}", field.name), &field.kind, "", field.optional, false))
                    }
                    button.small type="submit" name="do" value={ "move." (transition.name) } { (transition.name) " → " (transition.to) }
                }
            };
            @if fields.is_empty() { (form) } @else { details { summary { (transition.name) "…" } (form) } }
        }
    }
}

/// What a transition sets and nobody works out.
fn params<'a>(kind: &Kind<'a>, transition: &Transition) -> Vec<&'a Field> {
    let given = transition.set.iter().filter(|(_, equation)| equation.is_none());
    given.filter_map(|(name, _)| kind.entity.field(name)).collect()
}

pub(super) async fn step(room: &Room<'_>, table: &TableName, form: &Given) -> Page {
    let found = item::find(room, table, &room.given).await?;
    let line = key_line(&found.keys(), &found.key);
    let item =
        found.item.as_ref().ok_or_else(|| Fault::Absent(format!("There is no item {line} any more.")))?;
    let kind = room.known.kind(table, item);
    let kind = kind.ok_or_else(|| Fault::Refused(format!("{line} is a record of no entity.")))?;
    let name = form.get("lifecycle").unwrap_or_default();
    let lifecycle = kind.shelf.lifecycle(name);
    let lifecycle = lifecycle.ok_or_else(|| Fault::Absent(format!("There is no lifecycle `{name}`.")))?;
    let key = kind.schema().read_item(kind.table, kind.entity, &found.key);
    let key = key.map_err(|error| Fault::Refused(error.to_string()))?;
    let to = |done: &str| answer::go_to(&item_url(table, found.keys(), item).with("done", done));
    let what = form.get("do").unwrap_or_default();
    let moved =
        || tracing::info!(%table, key = line, lifecycle = name, step = what, "the console moved a record");
    match what.strip_prefix("move.") {
        None if what == "release" => {
            lifecycle.release(key).await?;
            moved();
            Ok(to("released"))
        }
        None if what == "retry" => {
            lifecycle.retry_now(key).await?;
            moved();
            Ok(to("retried"))
        }
        None => Err(Fault::Absent("There is no such move.".to_owned())),
        Some(transition) => {
            let declared = kind
                .entity
                .lifecycle(name)
                .and_then(|of| of.transitions.iter().find(|it| it.name == transition));
            let declared =
                declared.ok_or_else(|| Fault::Absent(format!("There is no transition `{transition}`.")))?;
            let mut fields = larder::Fields::new();
            for field in params(&kind, declared) {
                if let Some(text) = form.said(&format!("field.{}", field.name)) {
                    let value = Reader::of(kind.schema(), field).text(&field.kind, &field.name, text);
                    fields.insert(field.name.clone(), value.map_err(Fault::Refused)?);
                }
            }
            lifecycle.run(key, transition, fields).await?;
            moved();
            Ok(to("moved"))
        }
    }
}
