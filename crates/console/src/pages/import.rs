//! Items from a text: what was downloaded here, what DynamoDB exports, what somebody wrote.

use hyper::StatusCode;
use larder::store::Error;
use larder::store::ops::{PutItem, WriteOptions};
use larder_expr::Condition;
use larder_model::{Item, Path, TableName};
use maud::html;
use serde_json::Value as Json;

use super::{Fault, Page, Room, item, layout};
use crate::address::{Given, Url};
use crate::answer;
use crate::deed::Deed;
use crate::show;

const ITEMS_MAX: usize = 5000;
/// Faults that are told at once.
const FAULTS_MAX: usize = 20;

pub(super) async fn show(room: &Room<'_>, table: &TableName, form: Option<&Given>) -> Page {
    room.offered(Deed::Put(table))?;
    let deployed = room.deployed(table).await?;
    let keys: Vec<&str> = deployed.definition.key.attributes().map(|key| key.name.as_str()).collect();
    let back = Url::to(["items", table.as_str()]);
    let mut wrong = Vec::new();
    if let Some(form) = form {
        match items(room, table, form.get("items").unwrap_or_default()) {
            Ok(items) => return begin(room, table, items, &keys, form.said("over").is_some(), back),
            Err(faults) => wrong = faults,
        }
    }
    let text = form.and_then(|form| form.get("items")).unwrap_or_default();
    let main = html! {
        (layout::trail(&[(table.to_string(), back.clone())]))
        h1 { "Items from a text" }
        p.quiet { "One item a line, or a list of them, in DynamoDB's JSON: what a table's " b { "JSON" } " downloads, and the lines of an export. "
            "All are read and checked before the first is put; up to " (show::number(ITEMS_MAX as u64)) " of them. For more, " code { "larder load" } "." }
        @if !wrong.is_empty() {
            div.notice.bad #items-wrong role="alert" { p { "Nothing was put." } ul { @for text in &wrong { li { (text) } } } }
        }
        form.record method="post" action=(Url::to(["items", table.as_str(), "import"])) {
            (layout::token(room))
            label for="items" { "The items" }
            textarea #items name="items" rows="18" required spellcheck="false" aria-invalid=[(!wrong.is_empty()).then_some("true")]
                aria-describedby=[(!wrong.is_empty()).then_some("items-wrong")] { "\n" (text) }
            p { label { input type="checkbox" name="over" value="1" checked[form.is_some_and(|form| form.said("over").is_some())]; " Write over items that are there; otherwise they stay as they are" } }
            div.do { button.primary type="submit" { "Put them" } " " a.button href=(back) { "Leave it" } }
        }
    };
    let status = if wrong.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Ok(room.page_wrong(status, "Items from a text", "/tables", &main))
}

/// The items of a text, each held against the schema of its table; or what is wrong with them.
fn items(room: &Room<'_>, table: &TableName, text: &str) -> Result<Vec<Item>, Vec<String>> {
    let lines = texts(text).map_err(|told| vec![told])?;
    if lines.is_empty() || lines.len() > ITEMS_MAX {
        let count = show::number(lines.len() as u64);
        return Err(vec![format!(
            "There are {count} items, and 1 to {} are wanted.",
            show::number(ITEMS_MAX as u64)
        )]);
    }
    let (mut items, mut wrong) = (Vec::with_capacity(lines.len()), Vec::new());
    let known = room.known.table(table);
    for (at, line) in lines.iter().enumerate() {
        let faults = match show::read_item(line) {
            Err(told) => vec![told],
            Ok(item) => {
                let faults = known.as_ref().map(|known| known.checker.check(None, &item, room.house.now()));
                items.push(item);
                faults.iter().flatten().map(ToString::to_string).collect()
            }
        };
        wrong.extend(faults.into_iter().map(|told| format!("item {}: {told}", at + 1)));
        if wrong.len() > FAULTS_MAX {
            wrong.truncate(FAULTS_MAX);
            wrong.push("and more".to_owned());
            break;
        }
    }
    if wrong.is_empty() { Ok(items) } else { Err(wrong) }
}

/// The text of each item: of a list, or of lines; bare, or as the `Item` of an export's line.
fn texts(text: &str) -> Result<Vec<String>, String> {
    let bare = |json: Json| match json {
        Json::Object(mut members) if members.len() == 1 && members.get("Item").is_some_and(is_item) => {
            members.remove("Item").unwrap_or_default().to_string()
        }
        json => json.to_string(),
    };
    if text.trim_start().starts_with('[') {
        let all: Vec<Json> =
            serde_json::from_str(text).map_err(|error| format!("This is no list in JSON: {error}."))?;
        return Ok(all.into_iter().map(bare).collect());
    }
    // One after the other, in lines or not.
    serde_json::Deserializer::from_str(text)
        .into_iter::<Json>()
        .map(|json| json.map(bare).map_err(|error| format!("This is not JSON: {error}.")))
        .collect()
}

/// An attribute called `Item` has one member, its type.
fn is_item(json: &Json) -> bool {
    json.as_object().is_some_and(|members| members.values().all(Json::is_object))
}

fn begin(room: &Room<'_>, table: &TableName, items: Vec<Item>, keys: &[&str], over: bool, back: Url) -> Page {
    let (store, table, count) = (room.house.store_of(table, &room.known), table.clone(), items.len() as u64);
    tracing::info!(%table, items = count, over, "the console puts items from a text");
    let title = format!("{} into {table}", show::count(count, "item"));
    let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
    let begun = room.house.works().begin(title, back, Some(count), move |work| async move {
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        let (mut put, mut stayed) = (0, 0);
        for item in items {
            let condition = (!over).then(|| Condition::NotExists(Path::attribute(names[0])));
            let options = WriteOptions { condition, ..WriteOptions::default() };
            let line = item::key_line(&names, &item);
            match store.put_item(PutItem { table: table.clone(), item, options }).await {
                Ok(_) => put += 1,
                Err(Error::Condition { .. }) => stayed += 1,
                Err(error) => return Err(format!("{line}: {error}")),
            }
            work.tell(
                put + stayed,
                format!("{} put, {stayed} were there and stay", show::count(put, "item")),
            );
        }
        Ok(())
    });
    let url = begun.ok_or_else(|| {
        Fault::Refused("Too much is under way already: wait until some of it has ended.".to_owned())
    })?;
    Ok(answer::go_to(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_as_lines_as_a_list_and_as_an_export() {
        let one = r#"{"id":{"S":"1"}}"#;
        for text in [
            format!("{one}\n{one}\n"),
            format!("[{one},{one}]"),
            format!("{{\"Item\":{one}}}\n{{\"Item\":{one}}}"),
            format!("{one}{one}"),
        ] {
            assert_eq!(texts(&text), Ok(vec![one.to_owned(); 2]), "{text}");
        }
        let called = r#"{"Item":{"S":"a name of an attribute"}}"#;
        assert_eq!(texts(called), Ok(vec![called.to_owned()]));
        assert_eq!(texts("  "), Ok(vec![]));
        assert!(texts("id=1").is_err() && texts("[1,").is_err());
    }
}
