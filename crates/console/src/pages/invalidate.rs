//! All records with something in common: what removing them costs, and then the removal.

use larder::text::Reader;
use larder::{Entry, Invalidation, InvalidationPlan, Progress};
use maud::html;

use super::{Fault, Page, Room, layout};
use crate::address::{Given, Url};
use crate::answer;
use crate::deed::Deed;
use crate::house::Kind;
use crate::show;

pub(super) async fn show(room: &Room<'_>, kind: &Kind<'_>, form: Option<&Given>) -> Page {
    let here = Url::to(["invalidate", &kind.schema().system, &kind.entity.name]);
    let asked = form.unwrap_or(&room.given);
    let wanted = asked.said("plan").is_some();
    let mut wrong = None;
    let mut plan = None;
    if wanted {
        match invalidation(kind, asked) {
            Err(told) => wrong = Some(told),
            Ok(what) => match what.plan().await {
                Ok(found) => plan = Some(found),
                Err(larder::Error::Store(error)) => return Err(error.into()),
                Err(error) => wrong = Some(error.to_string()),
            },
        }
        if form.is_some()
            && let Some(plan) = plan.take()
        {
            return begin(room, kind, plan, here);
        }
    }
    let fields: Vec<_> = kind
        .entity
        .fields
        .iter()
        .filter(|field| field.is_given() && !kind.schema().is_secret(field))
        .collect();
    let main = html! {
        (layout::trail(&[(kind.entity.name.clone(), Url::to(["browse", &kind.schema().system, &kind.entity.name]))]))
        h1 { "Invalidate " (kind.entity.name) }
        p.quiet { "Removes all records that have these fields in common; without any, all records of the entity. The price comes first." }
        @if let Some(wrong) = &wrong { (layout::wrong(wrong)) }
        form.ask action=(here) method="get" {
            input type="hidden" name="plan" value="1";
            @for field in &fields {
                @let id = format!("field-{}", field.name);
                div.field {
                    label for=(id) { (field.name) " " span.quiet { (field.kind) } }
                    (layout::input(&id, &format!("field.{}", field.name), &field.kind,
                        asked.get(&format!("field.{}", field.name)).unwrap_or_default(), true, false))
                }
            }
            @if !kind.entity.policy.labels.is_empty() {
                div.field {
                    label for="label" { "label" }
                    input #label name="label" value=(asked.get("label").unwrap_or_default());
                }
            }
            div.field.do { button.primary type="submit" { "What would it cost?" } }
        }
        @if let Some(plan) = &plan {
            section.card {
                h2 { @if !plan.is_exact() { "About " } (show::count(plan.items(), "item")) ", " (plan.units().to_string()) }
                pre tabindex="0" aria-label="Plan" { (plan.to_string()) }
                @if plan.is_scan() { p.notice.bad { "No index finds them: the whole table is read." } }
                @if !room.may(Deed::Delete(kind.name, None)) {
                    p.quiet { (room.why_not()) }
                } @else if plan.items() > 0 {
                    form method="post" action=(here) {
                        (layout::token(room))
                        @for (name, value) in asked.iter().filter(|(name, value)| *name != "done" && !value.is_empty()) {
                            input type="hidden" name=(name) value=(value);
                        }
                        button.danger type="submit" { "Remove " (show::count(plan.items(), "item")) }
                    }
                } @else {
                    p { "Nothing would be removed." }
                }
            }
        }
    };
    let at = Url::to(["browse", &kind.schema().system, &kind.entity.name]).to_string();
    Ok(room.page_of(&format!("Invalidate {}", kind.full_name()), &at, &main))
}

/// Removes them while the reader looks on, or does not.
fn begin(room: &Room<'_>, kind: &Kind<'_>, plan: InvalidationPlan, back: Url) -> Page {
    let (name, items) = (kind.full_name(), plan.items());
    tracing::info!(entity = name, items, "the console invalidates records");
    let title = format!("Invalidating {name}");
    let told = |progress: &Progress| {
        format!("{} removed, for {}", show::count(progress.removed, "item"), progress.units)
    };
    let begun = room.house.works().begin(title, back, Some(items), move |work| async move {
        let tell = |progress: &Progress| work.tell(progress.removed, told(progress));
        let done = plan.run_with(tell).await.map_err(|error| error.to_string())?;
        work.tell(done.removed, format!("{}. It was {plan}.", told(&done)));
        Ok(())
    });
    let url = begun.ok_or_else(|| {
        Fault::Refused("Too much is under way already: wait until some of it has ended.".to_owned())
    })?;
    Ok(answer::go_to(&url))
}

fn invalidation(kind: &Kind<'_>, asked: &Given) -> Result<Invalidation<Entry>, String> {
    let mut what = kind.shelf.invalidate();
    for field in kind.entity.fields.iter().filter(|field| field.is_given()) {
        if let Some(text) = asked.said(&format!("field.{}", field.name)) {
            what =
                what.by(&field.name, Reader::of(kind.schema(), field).text(&field.kind, &field.name, text)?);
        }
    }
    Ok(match asked.said("label") {
        Some(label) => what.label(label),
        None => what,
    })
}
