//! What all pages have: the navigation, the head, notices, fields of forms.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use larder_schema::Type;
use larder_server::Shown;
use maud::{DOCTYPE, Markup, html};

use super::check::Limits;
use super::{Room, SCRIPT, STYLE};
use crate::address::Url;
use crate::safety::TOKEN;

/// The files have names that change with what is in them.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    (STYLE, SCRIPT).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
});

/// A whole page. `here` is the address of the place in the navigation that it belongs to.
pub(super) fn page(room: &Room<'_>, title: &str, here: &str, main: &Markup) -> Markup {
    let known = &room.known;
    let link = |url: &str, text: &str| {
        html! { a href=(url) aria-current=[(url == here).then_some("page")] { (text) } }
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head { (head(title)) script src={ "/assets/console.js?v=" (*VERSION) } defer {} }
            body {
                a.skip href="#main" { "Skip to the page" }
                header.top {
                    a.brand href="/" { (mark()) span { "Larder" } }
                    form.find role="search" action="/find" method="get" {
                        input #find type="search" name="q" aria-label="Find an entity, a table or a field"
                            placeholder="Find an entity, table or field" autocomplete="off"
                            value=[room.given.get("q")];
                        kbd aria-hidden="true" { "/" }
                    }
                    span.place title="Where the data is" { (room.house.store().place()) }
                    @if room.desk.read_only { span.badge.warn { "read-only" } }
                    @if let Some(guest) = room.guest {
                        form.out method="post" action="/sign-out" {
                            (token(room))
                            span.quiet title={ "By the key " (guest.key_id()) } { (guest.name()) }
                            button.small type="submit" { "Sign out" }
                        }
                    }
                    button.keys type="button" hidden aria-haspopup="dialog" { "Keys " kbd { "?" } }
                }
                div.frame {
                    nav aria-label="Systems and tables" {
                        (link("/", "Overview"))
                        (link("/tables", "Tables"))
                        (link("/statement", "Statement"))
                        @if room.might_see(Shown::Requests) { (link("/requests", "Requests")) }
                        @for file in &known.files {
                            @let name = file.name();
                            div.group {
                                h2 { (name) @if file.open.is_none() { " " span.badge.bad { "errors" } } }
                                @if let Some(open) = &file.open {
                                    @for entity in open.schema().tables.iter().flat_map(|table| &table.entities) {
                                        (link(&Url::to(["browse", &name, &entity.name]).to_string(), &entity.name))
                                        @for lifecycle in &entity.lifecycles {
                                            @let url = Url::to(["board", &name, &entity.name, &lifecycle.name]).to_string();
                                            a.sub href=(url) aria-current=[(url == here).then_some("page")] {
                                                (lifecycle.name) " board"
                                            }
                                        }
                                    }
                                }
                                (link(&Url::to(["schema", &name]).to_string(), "Schema"))
                            }
                        }
                    }
                    main #main tabindex="-1" {
                        @if let Some(done) = room.given.said("done").and_then(done) {
                            p.notice.good role="status" { (done) }
                        }
                        (main)
                    }
                }
                dialog #keys aria-label="Keys" {
                    h2 { "Keys" }
                    dl {
                        @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } }
                    }
                    form method="dialog" { button { "Close" } }
                }
            }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) " · Larder" }
        link rel="icon" href={ "/assets/icon.svg?v=" (*VERSION) } type="image/svg+xml";
        link rel="stylesheet" href={ "/assets/console.css?v=" (*VERSION) };
    }
}

/// A page for somebody who is not known yet: nothing of what is kept is on it.
pub(super) fn alone(title: &str, main: &Markup) -> Markup {
    stranger(&head(title), main)
}

/// The same, which leads on by itself.
pub(super) fn alone_and_on(title: &str, to: &Url, main: &Markup) -> Markup {
    stranger(&html! { (head(title)) meta http-equiv="refresh" content={ "0;url=" (to) }; }, main)
}

fn stranger(head: &Markup, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { (head) }
            body {
                header.top { a.brand href="/" { (mark()) span { "Larder" } } }
                main.alone #main tabindex="-1" { (main) }
            }
        }
    }
}

const KEYS: [(&str, &str); 9] = [
    ("/", "find an entity, a table or a field"),
    ("s", "write a statement"),
    ("Ctrl Enter", "run the statement"),
    ("j k", "next row, row before"),
    ("Enter", "open the row"),
    ("x", "choose the row"),
    ("e", "edit the record"),
    ("n", "a new record"),
    ("?", "these keys"),
];

/// What was done before this page was shown. Nothing of an address is repeated on it.
fn done(word: &str) -> Option<&'static str> {
    Some(match word {
        "saved" => "Saved.",
        "same" => "Nothing was different, so nothing was written.",
        "made" => "It is there now.",
        "deleted" => "Deleted.",
        "released" => "Released: it can be claimed again.",
        "moved" => "Moved.",
        "retried" => "It does not pause any more: it is due again.",
        "changed" => "Changed. Some changes take the store a while.",
        "kept" => "Backed up.",
        "restored" => "It is being brought back into this table.",
        _ => return None,
    })
}

/// A jar on a shelf.
fn mark() -> Markup {
    html! {
        svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" {
            path d="M7 3h10v3H7z" {}
            path d="M6 7h12a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2V9a2 2 0 0 1 2-2zm0 5v5h12v-5z" fill-rule="evenodd" {}
        }
    }
}

/// What is wrong, where it is.
pub(super) fn wrong(text: &str) -> Markup {
    html! { p.notice.bad role="alert" { (text) } }
}

/// The token that every change carries.
pub(super) fn token(room: &Room<'_>) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(room.token); }
}

/// The way to a page: its places, from the left.
pub(super) fn trail(places: &[(String, Url)]) -> Markup {
    html! {
        p.trail {
            @for (at, (text, url)) in places.iter().enumerate() {
                @if at > 0 { span aria-hidden="true" { " / " } }
                a href=(url) { (text) }
            }
        }
    }
}

/// A field for one value of a type: a list to choose from, a date, a line or an area.
pub(super) fn input(id: &str, name: &str, kind: &Type, value: &str, optional: bool, wrong: bool) -> Markup {
    input_within(id, name, kind, value, optional, wrong, &Limits::default())
}

/// The same, held to its limits by the browser too.
pub(super) fn input_within(
    id: &str,
    name: &str,
    kind: &Type,
    value: &str,
    optional: bool,
    wrong: bool,
    limits: &Limits,
) -> Markup {
    let described = wrong.then(|| format!("{id}-wrong"));
    let choice = |choices: &[String]| {
        html! {
            select id=(id) name=(name) required[limits.required] aria-invalid=[wrong.then_some("true")] aria-describedby=[described.as_deref()] {
                @if optional || !choices.iter().any(|choice| choice == value) {
                    option value="" selected[value.is_empty()] { "" }
                }
                @for choice in choices {
                    option value=(choice) selected[choice == value] { (choice) }
                }
            }
        }
    };
    match kind {
        Type::Choice(choices) => choice(choices),
        Type::Bool => choice(&["true".to_owned(), "false".to_owned()]),
        Type::Json | Type::List(_) | Type::Set(_) | Type::Map(_) | Type::Named(_) => {
            area(id, name, value, wrong, limits.required)
        }
        Type::String if value.len() > 80 || value.contains(['\n', '\r']) => {
            area(id, name, value, wrong, limits.required)
        }
        _ => {
            let mode = match kind {
                Type::Int | Type::Sequence => Some("numeric"),
                Type::Float | Type::Decimal => Some("decimal"),
                Type::Url => Some("url"),
                _ => None,
            };
            let form = match kind {
                Type::Date => "date",
                // What is no number stays as it is, so that it can be mended.
                Type::Int
                    if (limits.min.is_some() || limits.max.is_some())
                        && (value.is_empty() || value.parse::<i64>().is_ok()) =>
                {
                    "number"
                }
                _ => "text",
            };
            html! {
                input id=(id) name=(name) type=(form) value=(value)
                    required[limits.required] pattern=[limits.pattern.as_deref()] min=[limits.min] max=[limits.max] title=[limits.title.as_deref()]
                    inputmode=[mode] placeholder=[example(kind)] autocomplete="off" spellcheck="false"
                    aria-invalid=[wrong.then_some("true")] aria-describedby=[described.as_deref()];
            }
        }
    }
}

fn area(id: &str, name: &str, value: &str, wrong: bool, required: bool) -> Markup {
    let rows = value.lines().count().clamp(2, 16);
    html! {
        textarea id=(id) name=(name) rows=(rows) spellcheck="false" required[required] aria-invalid=[wrong.then_some("true")]
            aria-describedby=[wrong.then(|| format!("{id}-wrong"))] {
            // A browser takes the first line end off.
            "\n" (value)
        }
    }
}

fn example(kind: &Type) -> Option<&'static str> {
    Some(match kind {
        Type::Instant(_) | Type::Epoch => "2026-01-15T10:00:00Z",
        Type::Datetime => "2026-01-15T10:00:00",
        Type::Duration => "90m",
        Type::Bytes => "base64",
        Type::Uuid { .. } => "a UUID",
        _ => return None,
    })
}
