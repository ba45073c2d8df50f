//! Sample records of an entity: those that `larder seed` makes, put like any others.

use hyper::StatusCode;
use larder::{Error, Fields};
use larder_schema::Sampler;
use maud::html;

use super::{Fault, Page, Room, layout};
use crate::address::{Given, Url};
use crate::answer;
use crate::deed::Deed;
use crate::house::Kind;
use crate::show;

const RECORDS_MAX: u64 = 1000;
const RECORDS_USUAL: u64 = 25;
const BATCH_RECORDS_MAX: usize = 100;

pub(super) fn show(room: &Room<'_>, kind: &Kind<'_>, form: Option<&Given>) -> Page {
    let here = Url::to(["seed", &kind.schema().system, &kind.entity.name]);
    let browse = Url::to(["browse", &kind.schema().system, &kind.entity.name]);
    let mut wrong = None;
    if let Some(form) = form {
        match asked(form).and_then(|(count, seed)| samples(kind, count, seed)) {
            Ok(records) => return begin(room, kind, records, browse.with("by", "all")),
            Err(told) => wrong = Some(told),
        }
    }
    let value = |name: &str, usual: u64| {
        form.and_then(|form| form.get(name)).map_or_else(|| usual.to_string(), str::to_owned)
    };
    let first = samples(kind, 1, 1);
    let main = html! {
        (layout::trail(&[(kind.entity.name.clone(), browse.clone())]))
        h1 { "Sample records of " (kind.entity.name) }
        p.quiet { "Made from the schema: values look like what their names say and pass all checks; lifecycles are in their first state. "
            "The same number makes the same records, and puts them over those of before." }
        @if let Some(wrong) = &wrong { (layout::wrong(wrong)) }
        @if !room.may(Deed::Put(kind.name)) {
            p.quiet { (room.why_not()) }
        } @else {
            form.ask method="post" action=(here) {
                (layout::token(room))
                div.field { label for="count" { "How many" } input #count name="count" type="number" min="1" max=(RECORDS_MAX) required value=(value("count", RECORDS_USUAL)); }
                div.field { label for="seed" { "Another number makes others" } input #seed name="seed" type="number" min="0" required value=(value("seed", 1)); }
                div.field.do { button.primary type="submit" { "Make them" } }
            }
        }
        @match &first {
            Err(told) => (layout::wrong(told)),
            Ok(first) => {
                h2 { "The first of them" }
                @for fields in first {
                    dl.facts-list.card {
                        @for field in kind.entity.fields.iter().filter(|field| !kind.schema().reveals_secret(kind.entity, field)) {
                            @if let Some(value) = fields.get(&field.name) {
                                dt { (field.name) } dd { (show::cell(kind.schema(), &field.kind, value)) }
                            }
                        }
                    }
                }
            }
        }
    };
    let status = if wrong.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Ok(room.page_wrong(
        status,
        &format!("Sample records of {}", kind.full_name()),
        &browse.to_string(),
        &main,
    ))
}

fn asked(form: &Given) -> Result<(u64, u64), String> {
    let number = |name: &str| form.get(name).unwrap_or_default().trim().parse::<u64>().ok();
    let count = number("count").filter(|count| (1..=RECORDS_MAX).contains(count));
    let count = count.ok_or_else(|| format!("How many: a number from 1 to {RECORDS_MAX} is wanted."))?;
    let seed = number("seed").ok_or("A whole number that is not below 0 is wanted to choose the records.")?;
    Ok((count, seed))
}

fn samples(kind: &Kind<'_>, count: u64, seed: u64) -> Result<Vec<Fields>, String> {
    let sampler = Sampler::new(kind.schema(), &kind.entity.name, seed);
    let mut sampler = sampler.ok_or_else(|| format!("There is no entity {}.", kind.entity.name))?;
    (0..count).map(|_| sampler.sample().map_err(|error| format!("Nothing was put: {error}"))).collect()
}

fn begin(room: &Room<'_>, kind: &Kind<'_>, records: Vec<Fields>, back: Url) -> Page {
    let (shelf, name, count) = (kind.shelf.clone(), kind.full_name(), records.len() as u64);
    tracing::info!(entity = name, records = count, "the console makes sample records");
    let title = format!("{} of {name}", show::count(count, "sample record"));
    let begun = room.house.works().begin(title, back, Some(count), move |work| async move {
        let mut written = 0;
        for batch in records.chunks(BATCH_RECORDS_MAX) {
            for outcome in shelf.put_many(batch.to_vec()).await {
                match outcome {
                    Ok(_) => written += 1,
                    Err(error @ Error::Store(_)) => return Err(error.to_string()),
                    Err(error) => return Err(format!("a record was refused: {error}")),
                }
            }
            work.tell(written, format!("{} put", show::count(written, "record")));
        }
        Ok(())
    });
    let url = begun.ok_or_else(|| {
        Fault::Refused("Too much is under way already: wait until some of it has ended.".to_owned())
    })?;
    Ok(answer::go_to(&url))
}
