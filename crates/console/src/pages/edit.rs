//! Changing one item: as a form that the schema makes, or as DynamoDB's JSON; the difference is confirmed, and what somebody
//! else has changed meanwhile is shown instead of being written over.

use std::collections::{BTreeMap, BTreeSet};

use hyper::StatusCode;
use larder::store::ops::{PutItem, UpdateItem, WriteOptions};
use larder::store::{Condition, unchanged};
use larder::text::{self, Reader, hidden};
use larder::{Entry, Error, Fields, Update};
use larder_expr::{SetOperand, SetValue};
use larder_model::{AttributeValue, Item, Path, TableName};
use larder_schema::schema::Role;
use larder_schema::{Type, VERSION};
use maud::{Markup, html};
use serde_json::Value as Json;

use super::item::{self, Found, item_url};
use super::{Fault, Page, Room, check, layout};
use crate::address::{Given, Url};
use crate::answer;
use crate::deed::Deed;
use crate::house::Kind;
use crate::query::is_denied;
use crate::show;

/// What an edit as JSON changes at most: DynamoDB takes expressions of up to 4 KB.
const CHANGED_ATTRIBUTES_MAX: usize = 100;

/// What of a form is wrong: by field, and as a whole.
#[derive(Debug, Default)]
pub(super) struct Wrong {
    pub(super) fields: BTreeMap<String, String>,
    whole: Vec<String>,
}

impl Wrong {
    fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.whole.is_empty()
    }

    /// What the layer said of a record, where it belongs.
    fn told(kind: &Kind<'_>, error: Error) -> Self {
        let mut wrong = Self::default();
        match error {
            Error::Invalid(invalid) => {
                for violation in invalid.violations {
                    match kind.entity.field(violation.field()) {
                        Some(field) => drop(wrong.fields.insert(field.name.clone(), violation.to_string())),
                        None => wrong.whole.push(violation.to_string()),
                    }
                }
            }
            other => wrong.whole.push(other.to_string()),
        }
        wrong
    }
}

pub(super) async fn edit(room: &Room<'_>, table: &TableName, form: Option<&Given>) -> Page {
    let found = item::find(room, table, &room.given).await?;
    let line = item::key_line(&found.keys(), &found.key);
    let Some(before) = found.item.clone() else {
        return Err(Fault::Absent(format!(
            "There is no item {line} in {table} any more: somebody deleted it, or it expired."
        )));
    };
    room.offered(Deed::Update(table, &found.key))?;
    let kind = room.known.kind(table, &before);
    let as_json = room.given.get("as") == Some("json");
    if let (Some(kind), false) = (&kind, as_json)
        && let Ok(entry) = item::entry(kind, &before).await
        && kind.shelf.stored_key(entry.fields.clone()).is_ok_and(|key| key == found.key)
    {
        return edit_record(room, kind, &found, &before, entry.fields, form).await;
    }
    edit_raw(room, table, kind.as_ref(), &found, &before, form).await
}

/// The address of the form, as a form of fields or as JSON.
fn edit_url(table: &TableName, found: &Found, json: bool) -> Url {
    let url = item::on(Url::to(["item", table.as_str(), "edit"]), found.keys(), &found.key);
    if json { url.with("as", "json") } else { url }
}

async fn edit_record(
    room: &Room<'_>,
    kind: &Kind<'_>,
    found: &Found,
    stored: &Item,
    before: Fields,
    form: Option<&Given>,
) -> Page {
    let texts = texts_of(kind, &before);
    let Some(form) = form else {
        return Ok(record_form(room, kind, found, stored, &texts, None, &Wrong::default()));
    };
    let given = texts_given(kind, form);
    let wrong = |wrong: &Wrong| record_form(room, kind, found, stored, &given, Some(form), wrong);
    let (edits, told) = Edits::read(kind, &texts, &given, form);
    if !told.is_empty() {
        return Ok(wrong(&told));
    }
    if edits.is_empty() {
        return Ok(answer::go_to(&item_url(kind.name, found.keys(), stored).with("done", "same")));
    }
    let (now, after) = match edits.update(kind, before.clone()).preview().await {
        Ok(items) => items,
        Err(Error::Store(error)) => return Err(error.into()),
        Err(error) => return Ok(wrong(&Wrong::told(kind, error))),
    };
    if form.get("seen") != Some(&show::digest(stored)) {
        return conflict(room, kind.name, found, &now, &after, form, stored, false);
    }
    if form.said("confirm").is_none() {
        return confirm(room, kind.name, found, &now, &after, form, false);
    }
    match edits.update(kind, before).if_as_read(stored).await {
        Ok(_) => {
            tracing::info!(table = %kind.name, key = item::key_line(&found.keys(), stored), "the console wrote a record");
            Ok(answer::go_to(&item_url(kind.name, found.keys(), stored).with("done", "saved")))
        }
        Err(Error::Conflict { .. }) => {
            let newer = newer(room, kind.name, found).await?;
            let now = kind.shelf.joined(&newer).await?.unwrap_or_else(|| newer.clone());
            conflict(room, kind.name, found, &now, &after, form, &newer, false)
        }
        Err(Error::Store(error)) if !is_denied(&error) => Err(error.into()),
        Err(error) => Ok(wrong(&Wrong::told(kind, error))),
    }
}

/// What somebody else has made of an item meanwhile.
async fn newer(room: &Room<'_>, table: &TableName, found: &Found) -> Result<Item, Fault> {
    let gone = || {
        let line = item::key_line(&found.keys(), &found.key);
        Fault::Absent(format!("Nothing was written: somebody deleted {line} of {table} meanwhile."))
    };
    item::find(room, table, &room.given).await?.item.ok_or_else(gone)
}

/// The fields that a form changes.
#[derive(Default)]
struct Edits {
    set: Fields,
    clear: BTreeSet<String>,
}

impl Edits {
    /// Those that differ from what the form showed: nothing else is written. What is emptied and may be missing is removed.
    fn read(
        kind: &Kind<'_>,
        shown: &BTreeMap<String, String>,
        given: &BTreeMap<String, String>,
        form: &Given,
    ) -> (Self, Wrong) {
        let (mut edits, mut wrong) = (Self::default(), Wrong::default());
        let in_key = kind.entity.key_fields();
        for field in kind.entity.fields.iter().filter(|field| field.is_given() && field.role != Role::Let) {
            let name = &field.name;
            let Some(text) = given.get(name).filter(|_| !in_key.contains(name)) else { continue };
            if field.optional && form.said(&format!("clear.{name}")).is_some() {
                edits.clear.insert(name.clone());
                continue;
            }
            let before = shown.get(name).map(String::as_str).unwrap_or_default();
            // What others have changed since the form was made is no edit of ours. A secret that is not given stays what it
            // was, as it is not shown.
            let is_same = match form.get(&format!("was.{name}")) {
                Some(was) => was == show::seal(text.as_bytes()),
                None => *text == lines(before),
            };
            if is_same {
                continue;
            }
            if text.is_empty() && (field.optional || field.checks.default.is_some()) {
                match &field.checks.default {
                    Some(default) => drop(edits.set.insert(name.clone(), default.clone())),
                    None => drop(edits.clear.insert(name.clone())),
                }
                continue;
            }
            let is_foreign = before.contains("\r\n") && !before.replace("\r\n", "").contains('\n');
            let text = if is_foreign { text.replace('\n', "\r\n") } else { text.clone() };
            match Reader::of(kind.schema(), field).text(&field.kind, name, &text) {
                Ok(value) => drop(edits.set.insert(name.clone(), value)),
                Err(told) => drop(wrong.fields.insert(name.clone(), told)),
            }
        }
        (edits, wrong)
    }

    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.clear.is_empty()
    }

    fn update(&self, kind: &Kind<'_>, of: Fields) -> Update<Entry> {
        let update = kind.shelf.update(of);
        let update =
            self.set.iter().fold(update, |update, (name, value)| update.set_value(name, value.clone()));
        self.clear.iter().fold(update, |update, name| update.clear(name))
    }
}

/// A text as a browser gives it back: whatever its line ends were, they are of one kind.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Whether a field is kept in an item, so that it can be told whether it changed.
fn is_kept(kind: &Kind<'_>, name: &str) -> bool {
    kind.entity.field(name).is_some_and(|field| field.is_stored() || kind.entity.is_recoverable(name))
}

/// The given fields as texts that a form shows; secrets are not among them.
fn texts_of(kind: &Kind<'_>, fields: &Fields) -> BTreeMap<String, String> {
    let given = kind.entity.fields.iter().filter(|field| field.is_given() && field.role != Role::Let);
    given
        .filter(|field| !kind.schema().is_secret(field))
        .filter_map(|field| {
            let json = text::to_json(kind.schema(), &field.kind, fields.get(&field.name)?);
            let text = match json {
                Json::String(text) if !matches!(field.kind, Type::Json) => text,
                json @ (Json::Array(_) | Json::Object(_)) => show::pretty(&json),
                json => json.to_string(),
            };
            Some((field.name.clone(), text))
        })
        .collect()
}

pub(super) fn texts_given(kind: &Kind<'_>, form: &Given) -> BTreeMap<String, String> {
    let given = kind.entity.fields.iter().filter_map(|field| {
        let text = form.get(&format!("field.{}", field.name))?;
        Some((field.name.clone(), lines(text)))
    });
    given.collect()
}

/// The fields of a record that is made. What is empty and may be missing is.
pub(super) fn read_fields(kind: &Kind<'_>, given: &BTreeMap<String, String>) -> (Fields, Wrong) {
    let (mut fields, mut wrong) = (Fields::new(), Wrong::default());
    for field in kind.entity.fields.iter().filter(|field| field.is_given() && field.role != Role::Let) {
        let text = given.get(&field.name).map(String::as_str).unwrap_or_default();
        let may_be_empty =
            matches!(field.kind, Type::String) && !field.optional && field.checks.default.is_none();
        if text.is_empty() && !may_be_empty {
            continue;
        }
        match Reader::of(kind.schema(), field).text(&field.kind, &field.name, text) {
            Ok(value) => drop(fields.insert(field.name.clone(), value)),
            Err(told) => drop(wrong.fields.insert(field.name.clone(), told)),
        }
    }
    (fields, wrong)
}

fn record_form(
    room: &Room<'_>,
    kind: &Kind<'_>,
    found: &Found,
    before: &Item,
    texts: &BTreeMap<String, String>,
    sent: Option<&Given>,
    wrong: &Wrong,
) -> answer::Answer {
    let status = if wrong.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    // What each field showed when the form was made.
    let was: Vec<(String, String)> = match sent {
        Some(sent) => {
            let was = sent.iter().filter(|(name, _)| name.starts_with("was."));
            was.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        }
        None => {
            let given = kind.entity.fields.iter().filter(|field| field.is_given());
            let text = |name: &str| texts.get(name).map(|text| lines(text)).unwrap_or_default();
            let seal = |name: &str| (format!("was.{name}"), show::seal(text(name).as_bytes()));
            given.map(|field| seal(&field.name)).collect()
        }
    };
    let keys = found.keys();
    let line = item::key_line(&keys, before);
    let main = html! {
        (layout::trail(&[
            (kind.entity.name.clone(), Url::to(["browse", &kind.schema().system, &kind.entity.name])),
            (line.clone(), item_url(kind.name, keys.clone(), before)),
        ]))
        div.head { h1 { "Edit " (kind.entity.name) } a.button href=(edit_url(kind.name, found, true)) { "As JSON" } }
        @for text in &wrong.whole { (layout::wrong(text)) }
        form.record method="post" action=(edit_url(kind.name, found, false)) data-check=(check::url(kind)) {
            (layout::token(room))
            input type="hidden" name="seen" value=(show::digest(before));
            @for (name, value) in &was { input type="hidden" name=(name) value=(value); }
            (fields(kind, texts, wrong, true))
            div.do {
                button.primary type="submit" { "Review the change" }
                " " a.button href=(item_url(kind.name, keys, before)) { "Leave it" }
            }
        }
    };
    let here = Url::to(["browse", &kind.schema().system, &kind.entity.name]).to_string();
    room.page_wrong(status, &format!("Edit {line}"), &here, &main)
}

/// A line of the form for every field that somebody gives, and what becomes of the others.
fn fields(kind: &Kind<'_>, texts: &BTreeMap<String, String>, wrong: &Wrong, exists: bool) -> Markup {
    let in_key = kind.entity.key_fields();
    html! {
        @for field in kind.entity.fields.iter().filter(|field| field.role != Role::Let) {
            @let id = format!("field-{}", field.name);
            @let told = wrong.fields.get(&field.name);
            @let secret = kind.schema().is_secret(field);
            @let fixed = exists && in_key.contains(&field.name) && kind.entity.is_recoverable(&field.name);
            @if let Some(equation) = &field.equation {
                div.field.derived {
                    span.label { (field.name) " " span.quiet { (field.kind) } }
                    span.equation { "= " (equation.source()) @if field.on_create { " on create" } }
                }
            } @else {
                div.field {
                    label for=(id) {
                        (field.name) " " span.quiet { (field.kind) @if field.optional { ", optional" } }
                    }
                    @let value = texts.get(&field.name).map(String::as_str).unwrap_or_default();
                    @if fixed {
                        input id=(id) value=(value) readonly;
                        span.quiet { "part of the key" }
                    } @else if secret {
                        // An area keeps the lines of what is pasted.
                        textarea.veiled id=(id) name={ "field." (field.name) } rows="1" autocomplete="off" spellcheck="false"
                            placeholder=[exists.then_some("stays as it is unless given")] {}
                        @if exists && field.optional {
                            label { input type="checkbox" name={ "clear." (field.name) } value="1"; " remove it" }
                        }
                    } @else {
                        @let limits = check::Limits::of(kind.schema(), field);
                        // What is not kept may be left out of an edit.
                        @let limits = check::Limits { required: limits.required && (!exists || is_kept(kind, &field.name)), ..limits };
                        (layout::input_within(&id, &format!("field.{}", field.name), &field.kind, value, field.optional, told.is_some(), &limits))
                    }
                    @if exists && !fixed && !is_kept(kind, &field.name) {
                        span.quiet { "not kept: give it again, others are worked out from it" }
                    }
                    @if let Some(default) = &field.checks.default {
                        span.quiet { "unless given: " (text::to_json(kind.schema(), &field.kind, default).to_string()) }
                    }
                    @if !field.docs.is_empty() { span.quiet { (field.docs.join(" ")) } }
                    @if let Some(told) = told { p.wrong id={ (id) "-wrong" } role="alert" { (told) } }
                }
            }
        }
    }
}

async fn edit_raw(
    room: &Room<'_>,
    table: &TableName,
    kind: Option<&Kind<'_>>,
    found: &Found,
    before: &Item,
    form: Option<&Given>,
) -> Page {
    let secrets = item::secrets(room, table, before);
    let Some(form) = form else {
        let text = item::raw(before, &secrets);
        return Ok(raw_form(room, table, kind, found, before, &text, &[], StatusCode::OK));
    };
    let text = form.get("item").unwrap_or_default();
    let wrong = |told: Vec<String>| {
        raw_form(room, table, kind, found, before, text, &told, StatusCode::UNPROCESSABLE_ENTITY)
    };
    let mut after = match read_raw(text, before, &secrets) {
        Ok(after) => after,
        Err(told) => return Ok(wrong(vec![told])),
    };
    if found.keys().iter().any(|key| after.get(key) != before.get(key)) {
        return Ok(wrong(vec![
            "The key of an item does not change: duplicate it instead, and delete this one.".to_owned(),
        ]));
    }
    if let Some(known) = room.known.table(table) {
        let broken = known.checker.check(Some(before), &after, room.house.now());
        if !broken.is_empty() {
            return Ok(wrong(broken.iter().map(ToString::to_string).collect()));
        }
    }
    if after == *before {
        return Ok(answer::go_to(&item_url(table, found.keys(), before).with("done", "same")));
    }
    // Who has read the version before must not write over this.
    if kind.is_some_and(|kind| kind.entity.policy.versions) && after.get(VERSION) == before.get(VERSION) {
        let version = match before.get(VERSION) {
            Some(AttributeValue::N(version)) => version.to_i64().unwrap_or(0),
            _ => 0,
        };
        after.insert(VERSION, version.saturating_add(1));
    }
    let changed = different(before, &after);
    if changed.len() > CHANGED_ATTRIBUTES_MAX {
        return Ok(wrong(vec![format!(
            "{} attributes differ, and {CHANGED_ATTRIBUTES_MAX} can be written at once: change some first, and then the others.",
            changed.len()
        )]));
    }
    if form.get("seen") != Some(&show::digest(before)) {
        return conflict(room, table, found, before, &after, form, before, true);
    }
    if form.said("confirm").is_none() {
        return confirm(room, table, found, before, &after, form, true);
    }
    // What others add meanwhile survives: only what differs is written.
    let mut update = larder_expr::Update::default();
    for name in &changed {
        let path = Path::attribute(name);
        match after.get(name) {
            Some(value) => update.set.push((path, SetValue::Is(SetOperand::value(value.clone())))),
            None => update.remove.push(path),
        }
    }
    let there = found.keys().into_iter().map(|key| Condition::Exists(Path::attribute(key)));
    let condition = there
        .chain(changed.iter().map(|name| unchanged(name, before)))
        .reduce(|a, b| Condition::And(Box::new(a), Box::new(b)));
    let options = WriteOptions { condition, ..WriteOptions::default() };
    let request = UpdateItem { table: table.clone(), key: found.key.clone(), update: Some(update), options };
    match room.house.store_of(table, &room.known).update_item(request).await {
        Ok(_) => {
            tracing::info!(%table, key = item::key_line(&found.keys(), before), "the console wrote an item");
            Ok(answer::go_to(&item_url(table, found.keys(), before).with("done", "saved")))
        }
        Err(larder::store::Error::Condition { .. }) => {
            let newer = newer(room, table, found).await?;
            conflict(room, table, found, &newer, &after, form, &newer, true)
        }
        Err(larder::store::Error::Refused { message, .. }) => Ok(wrong(vec![message])),
        Err(error) => Err(error.into()),
    }
}

/// The attributes in which two items differ.
pub(super) fn different(before: &Item, after: &Item) -> BTreeSet<String> {
    let names = before.names().chain(after.names());
    names.filter(|name| before.get(name) != after.get(name)).map(str::to_owned).collect()
}

/// The item of a text; what it says to be a secret stays what it was.
fn read_raw(text: &str, before: &Item, secrets: &BTreeSet<String>) -> Result<Item, String> {
    let mut json: Json = serde_json::from_str(text).map_err(|error| format!("This is not JSON: {error}"))?;
    let mut kept = Vec::new();
    if let Json::Object(members) = &mut json {
        for name in secrets {
            if members.get(name) == Some(&hidden()) {
                members.remove(name);
                kept.push(name);
            }
        }
    }
    let mut item = show::read_item(&json.to_string())?;
    for name in kept {
        if let Some(value) = before.get(name) {
            item.insert(name.clone(), value.clone());
        }
    }
    Ok(item)
}

/// The item of a text that somebody is writing, and the attributes of it that are said to be secrets and stay what they are.
pub(super) fn read_draft(text: &str) -> Result<(Item, BTreeSet<String>), String> {
    let mut json: Json = serde_json::from_str(text).map_err(|error| format!("This is not JSON: {error}"))?;
    let mut kept = BTreeSet::new();
    if let Json::Object(members) = &mut json {
        let secrets = members.iter().filter(|(_, value)| **value == hidden()).map(|(name, _)| name.clone());
        kept = secrets.collect();
        members.retain(|name, _| !kept.contains(name));
    }
    Ok((show::read_item(&json.to_string())?, kept))
}

#[expect(clippy::too_many_arguments, reason = "what a form shows, used twice")]
fn raw_form(
    room: &Room<'_>,
    table: &TableName,
    kind: Option<&Kind<'_>>,
    found: &Found,
    before: &Item,
    text: &str,
    wrong: &[String],
    status: StatusCode,
) -> answer::Answer {
    let keys = found.keys();
    let line = item::key_line(&keys, before);
    let main = html! {
        (layout::trail(&[(table.to_string(), Url::to(["items", table.as_str()])), (line.clone(), item_url(table, keys.clone(), before))]))
        div.head {
            h1 { "Edit as JSON" }
            @if kind.is_some() { a.button href=(edit_url(table, found, false)) { "As a form" } }
        }
        (told(wrong))
        form.record method="post" action=(edit_url(table, found, true)) data-check=(check::item_url(table)) {
            (layout::token(room))
            input type="hidden" name="seen" value=(show::digest(before));
            (raw_area(text, !wrong.is_empty()))
            div.do {
                button.primary type="submit" { "Review the change" }
                " " a.button href=(item_url(table, keys, before)) { "Leave it" }
            }
        }
    };
    room.page_wrong(status, &format!("Edit {line}"), "/tables", &main)
}

fn told(wrong: &[String]) -> Markup {
    html! {
        @if !wrong.is_empty() {
            div.notice.bad #item-wrong role="alert" { ul { @for text in wrong { li { (text) } } } }
        }
    }
}

fn raw_area(text: &str, wrong: bool) -> Markup {
    html! {
        label for="item" { "The item, in DynamoDB's JSON: S, N, B, BOOL, NULL, L, M, SS, NS and BS" }
        textarea #item name="item" rows="24" spellcheck="false" aria-invalid=[wrong.then_some("true")]
            aria-describedby=[wrong.then_some("item-wrong")] { "\n" (text) }
    }
}

/// What was sent, to be sent again. A secret is set aside, and only its name is on the page.
fn again(
    room: &Room<'_>,
    table: &TableName,
    item: &Item,
    form: &Given,
    but: &[&str],
) -> Result<Markup, Fault> {
    let kind = room.known.kind(table, item);
    let has_secrets = !item::secrets(room, table, item).is_empty();
    let is_secret = |name: &str| match name.strip_prefix("field.") {
        Some(field) => kind
            .as_ref()
            .is_some_and(|kind| kind.entity.field(field).is_some_and(|field| kind.schema().is_secret(field))),
        None => {
            name == "item"
                && (has_secrets
                    || form.get(name).is_some_and(|text| {
                        show::read_item(text).is_ok_and(|item| !item::secrets(room, table, &item).is_empty())
                    }))
        }
    };
    let mut sent = Vec::new();
    for (name, value) in form.iter().filter(|(name, _)| !but.contains(name)) {
        sent.push(match is_secret(name) && !value.is_empty() {
            false => (name.to_owned(), value.to_owned()),
            true => {
                let aside = room.desk.aside.put(value);
                let aside = aside.map_err(|error| {
                    Fault::Refused(format!("The system gives no random numbers: {error}"))
                })?;
                (format!("{}{name}", super::ASIDE), aside)
            }
        });
    }
    Ok(html! {
        @for (name, value) in &sent {
            @if value.contains('\n') {
                textarea.unseen hidden name=(name) { "\n" (value) }
            } @else {
                input type="hidden" name=(name) value=(value);
            }
        }
    })
}

/// A row for each attribute in which two items differ.
pub(super) fn difference(
    room: &Room<'_>,
    table: &TableName,
    before: &Item,
    after: &Item,
    heads: [&str; 2],
) -> Markup {
    let mut secrets = item::secrets(room, table, before);
    secrets.extend(item::secrets(room, table, after));
    let json = [show::item_json(before), show::item_json(after)];
    // Texts are shown as they are, unless a difference could not be seen so.
    let is_plain = |item: &Item, name: &str| match item.get(name) {
        None => true,
        Some(AttributeValue::S(text)) => {
            !text.is_empty() && !text.contains(|letter: char| letter.is_control() && letter != '\n')
        }
        Some(_) => false,
    };
    let shown = |side: usize, name: &str| match json[side].get(name) {
        None => html! { span.quiet { "not there" } },
        Some(_) if secrets.contains(name) => show::secret(),
        Some(value) => {
            let text = match value.get("S").and_then(Json::as_str) {
                Some(text) if is_plain(before, name) && is_plain(after, name) => text.to_owned(),
                _ => show::pretty(value),
            };
            let (start, more) = show::cut(&text, 2000);
            html! { pre tabindex="0" { (start) @if more { "…" } } }
        }
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Difference" {
            table.difference {
                thead { tr { th { "Attribute" } th { (heads[0]) } th { (heads[1]) } } }
                tbody {
                    @for name in different(before, after) {
                        tr {
                            th scope="row" { (name) }
                            td.before { (shown(0, &name)) }
                            td.after { (shown(1, &name)) }
                        }
                    }
                }
            }
        }
    }
}

fn confirm(
    room: &Room<'_>,
    table: &TableName,
    found: &Found,
    before: &Item,
    after: &Item,
    form: &Given,
    json: bool,
) -> Page {
    let line = item::key_line(&found.keys(), &found.key);
    let back = edit_url(table, found, json);
    let sent = again(room, table, before, form, &["confirm"])?;
    let main = html! {
        (layout::trail(&[(line.clone(), item_url(table, found.keys(), &found.key))]))
        h1 { "Write this?" }
        p { "The item as it is stored, and as it will be; every attribute that is not here stays as it is." }
        (difference(room, table, before, after, ["Before", "After"]))
        form method="post" action=(back) {
            (sent)
            input type="hidden" name="confirm" value="1";
            div.do {
                button.primary type="submit" autofocus { "Write it" }
                " " a.button href=(back) { "Start over" }
                " " a.button href=(item_url(table, found.keys(), &found.key)) { "Leave it" }
            }
        }
    };
    Ok(room.page_of("Write this?", "", &main))
}

#[expect(clippy::too_many_arguments, reason = "both sides of a conflict")]
fn conflict(
    room: &Room<'_>,
    table: &TableName,
    found: &Found,
    theirs: &Item,
    mine: &Item,
    form: &Given,
    stored: &Item,
    json: bool,
) -> Page {
    let sent = again(room, table, stored, form, &["seen", "confirm"])?;
    let main = html! {
        h1 { "Somebody else changed it meanwhile" }
        p.notice.bad role="alert" { "Nothing was written. Since you opened the form, " (item::key_line(&found.keys(), stored))
            " was changed. This is how it is now, and how you would have it." }
        (difference(room, table, theirs, mine, ["As it is now", "As you would have it"]))
        form method="post" action=(edit_url(table, found, json)) {
            (sent)
            input type="hidden" name="seen" value=(show::digest(stored));
            div.do {
                a.button.primary href=(edit_url(table, found, json)) { "Begin from how it is now" }
                " " button type="submit" { "Keep mine, and review it" }
            }
        }
    };
    Ok(room.page_wrong(StatusCode::CONFLICT, "Changed meanwhile", "", &main))
}

/// A record that is not there yet, perhaps begun from one that is.
pub(super) async fn new(room: &Room<'_>, kind: &Kind<'_>, form: Option<&Given>) -> Page {
    room.offered(Deed::Put(kind.name))?;
    let mut texts = BTreeMap::new();
    let mut wrong = Wrong::default();
    if let Some(form) = form {
        texts = texts_given(kind, form);
        let (fields, told) = read_fields(kind, &texts);
        wrong = told;
        if wrong.is_empty() {
            match kind.shelf.create(fields).await {
                Ok(entry) => {
                    let keys = super::browse::kind_keys(kind);
                    tracing::info!(table = %kind.name, key = item::key_line(&keys, entry.kept().key()), "the console made a record");
                    return Ok(answer::go_to(
                        &item_url(kind.name, keys, entry.kept().key()).with("done", "made"),
                    ));
                }
                Err(Error::Store(error)) if !is_denied(&error) => return Err(error.into()),
                Err(error) => wrong = Wrong::told(kind, error),
            }
        }
    } else if room.given.get("pk").is_some()
        && let Some(item) = item::find(room, kind.name, &room.given).await?.item
        && let Ok(entry) = item::entry(kind, &item).await
    {
        texts = texts_of(kind, &entry.fields);
    }
    let here = Url::to(["browse", &kind.schema().system, &kind.entity.name]);
    let main = html! {
        (layout::trail(&[(kind.entity.name.clone(), here.clone())]))
        h1 { "New " (kind.entity.name) }
        @if room.given.get("pk").is_some() && form.is_none() { p.quiet { "Begun as a copy: change what makes its key." } }
        @for text in &wrong.whole { (layout::wrong(text)) }
        form.record method="post" action=(Url::to(["new", &kind.schema().system, &kind.entity.name])) data-check=(check::url(kind)) {
            (layout::token(room))
            (fields(kind, &texts, &wrong, false))
            div.do { button.primary type="submit" { "Make it" } " " a.button href=(here) { "Leave it" } }
        }
    };
    let status = if wrong.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Ok(room.page_wrong(status, &format!("New {}", kind.entity.name), &here.to_string(), &main))
}

/// An item that is not there yet, in a table as it is.
pub(super) async fn new_item(room: &Room<'_>, table: &TableName, form: Option<&Given>) -> Page {
    room.offered(Deed::Put(table))?;
    let deployed = room.deployed(table).await?;
    let keys: Vec<&str> = deployed.definition.key.attributes().map(|key| key.name.as_str()).collect();
    let mut wrong = Vec::new();
    let mut text = {
        let members = deployed
            .definition
            .key
            .attributes()
            .map(|key| (key.name.clone(), serde_json::json!({key.kind.name(): ""})));
        show::pretty(&Json::Object(members.collect()))
    };
    if room.given.get("pk").is_some() && form.is_none() {
        let found = item::find(room, table, &room.given).await?;
        if let Some(item) = &found.item {
            let hidden = item::secrets(room, table, item);
            let open: Item = item
                .iter()
                .filter(|(name, _)| !hidden.contains(*name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            text = item::raw(&open, &BTreeSet::new());
        }
    }
    if let Some(form) = form {
        text = form.get("item").unwrap_or_default().to_owned();
        match show::read_item(&text) {
            Err(told) => wrong.push(told),
            Ok(item) => {
                if let Some(known) = room.known.table(table) {
                    wrong.extend(
                        known.checker.check(None, &item, room.house.now()).iter().map(ToString::to_string),
                    );
                }
                if wrong.is_empty() {
                    let absent = Condition::NotExists(Path::attribute(keys[0]));
                    let options = WriteOptions { condition: Some(absent), ..WriteOptions::default() };
                    let put = PutItem { table: table.clone(), item: item.clone(), options };
                    match room.house.store_of(table, &room.known).put_item(put).await {
                        Ok(_) => {
                            tracing::info!(%table, key = item::key_line(&keys, &item), "the console made an item");
                            return Ok(answer::go_to(&item_url(table, keys, &item).with("done", "made")));
                        }
                        Err(larder::store::Error::Condition { .. }) => wrong.push(
                            "There is an item with this key already: edit that one, or change the key."
                                .to_owned(),
                        ),
                        Err(larder::store::Error::Refused { message, .. }) => wrong.push(message),
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
    }
    let here = Url::to(["items", table.as_str()]);
    let main = html! {
        (layout::trail(&[(table.to_string(), here.clone())]))
        h1 { "New item" }
        (told(&wrong))
        form.record method="post" action=(Url::to(["items", table.as_str(), "new"])) data-check=(check::item_url(table)) {
            (layout::token(room))
            (raw_area(&text, !wrong.is_empty()))
            div.do { button.primary type="submit" { "Make it" } " " a.button href=(here) { "Leave it" } }
        }
    };
    let status = if wrong.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Ok(room.page_wrong(status, "New item", "/tables", &main))
}

/// Deletes one item, once that is confirmed, if it is still what was shown.
pub(super) async fn delete(room: &Room<'_>, table: &TableName, form: Option<&Given>) -> Page {
    let found = item::find(room, table, &room.given).await?;
    let keys = found.keys();
    let line = item::key_line(&keys, &found.key);
    let Some(item) = &found.item else {
        return Err(Fault::Absent(format!("There is no item {line} in {table} any more.")));
    };
    room.offered(Deed::Delete(table, Some(&found.key)))?;
    let kind = room.known.kind(table, item);
    let back = match &kind {
        Some(kind) => Url::to(["browse", &kind.schema().system, &kind.entity.name]),
        None => Url::to(["items", table.as_str()]),
    };
    let seen = show::digest(item);
    if form.is_some_and(|form| form.get("seen") == Some(&seen))
        && super::browse::remove(room, table, &found.key, item).await?
    {
        return Ok(answer::go_to(&back.with("done", "deleted")));
    }
    let url = item::on(Url::to(["item", table.as_str(), "delete"]), keys.clone(), &found.key);
    let main = html! {
        h1 { "Delete " span.mono { (line) } "?" }
        @if form.is_some() { p.notice.bad role="alert" { "Nothing was deleted: it was changed since you were asked. This is how it is now." } }
        p { "From " span.mono { (table) } ". This cannot be taken back, except from a backup." }
        @if item.len() > larder::store::READ_ATTRIBUTES_MAX {
            p.quiet { "It is deleted if its first " (larder::store::READ_ATTRIBUTES_MAX) " attributes are still these." }
        }
        pre tabindex="0" aria-label="The item" { (show::cut(&item::raw(item, &item::secrets(room, table, item)), 2000).0) }
        form method="post" action=(url) {
            (layout::token(room))
            input type="hidden" name="seen" value=(seen);
            button.danger type="submit" { "Delete it" }
            " " a.button href=(item_url(table, keys, item)) { "Keep it" }
        }
    };
    Ok(room.page_of("Delete", "", &main))
}
