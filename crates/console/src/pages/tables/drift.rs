//! How a table differs from what its schema says, and bringing it there.

use larder::provision::{self, Applied, Desired, Line, Mark, Permissions, Plan, Silent, TablePlan, Verdict};
use larder_model::TableName;
use maud::{Markup, html};

use super::super::{Fault, Page, Room, layout};
use crate::address::{Given, Url};
use crate::deed::Deed;
use crate::house::KnownTable;
use crate::show;

/// What `larder apply` would do about the table, and nothing about others.
pub(super) async fn plan(room: &Room<'_>, known: KnownTable<'_>, name: &TableName) -> Result<Plan, Fault> {
    let desired = Desired::of(known.open.schema(), room.house.environment());
    let desired = desired.map_err(|errors| {
        Fault::Refused(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })?;
    let mut plan = provision::plan(&[desired], room.house.store()).await?;
    plan.tables.retain(|table| table.name == *name);
    Ok(plan)
}

/// The differences, on the page of the table.
pub(super) fn section(room: &Room<'_>, plan: &TablePlan) -> Markup {
    let can_apply =
        plan.verdict != Verdict::CannotChange && plan.lines.iter().any(|line| !line.steps.is_empty());
    html! {
        section.card {
            h2 { "Against the schema: " (plan.verdict.name()) }
            @if plan.lines.is_empty() { p.quiet { "All is as the schema says." } } @else {
                (lines(&plan.lines))
                @if can_apply && !may_apply(room, plan) {
                    p.quiet { code { "larder apply" } " brings it there. " (room.why_not()) }
                } @else if can_apply {
                    p { a.button href=(Url::to(["tables", plan.name.as_str(), "apply"])) { "Apply the schema…" } }
                }
            }
        }
    }
}

fn may_apply(room: &Room<'_>, plan: &TablePlan) -> bool {
    let deeds = [Deed::CreateTable(&plan.name), Deed::UpdateTable(&plan.name), Deed::TimeToLive(&plan.name)];
    deeds.into_iter().any(|deed| room.may(deed))
}

fn lines(lines: &[Line]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Against the schema" {
            table.difference {
                thead { tr { th { span.unseen { "Change" } } th { "What" } th { "Now" } th { "Then" } th { "Note" } } }
                tbody {
                    @for line in lines {
                        tr class={ "mark-" (line.mark.name()) } {
                            td.mono { (line.mark.sign()) }
                            td { (line.what) }
                            td { (line.from.as_deref().unwrap_or_default()) }
                            td { (line.to.as_deref().unwrap_or_default()) }
                            td.quiet { (line.note.as_deref().unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}

/// The plan to confirm, and then what came of it.
pub(in super::super) async fn apply(room: &Room<'_>, name: &TableName, form: Option<&Given>) -> Page {
    let known = room.known.table(name);
    let known = known.ok_or_else(|| Fault::Absent(format!("No schema here declares the table {name}.")))?;
    let plan = plan(room, known, name).await?;
    let shown = show::seal(format!("{:?}", plan.tables).as_bytes());
    let mut wrong = None;
    let mut applied = None;
    if let Some(form) = form {
        if form.get("seen") == Some(&shown) {
            applied = Some(run(room, name, &plan, form).await?);
        } else {
            wrong = Some(
                "Nothing was done: the table or the schema has changed since the plan was shown. This is the plan now.",
            );
        }
    }
    let here = Url::to(["tables", name.as_str()]);
    let table = plan.tables.first();
    let main = html! {
        (layout::trail(&[("tables".to_owned(), Url::to(["tables"])), (name.to_string(), here.clone())]))
        h1 { "Apply the schema to " span.mono { (name) } }
        @if let Some(wrong) = wrong { (layout::wrong(wrong)) }
        @match (&applied, table) {
            (Some(applied), _) => { (outcome(applied)) p { a.button.primary href=(here) { "To the table" } } },
            (None, Some(table)) if !table.lines.is_empty() => {
                p { "What is different now, and what is done about it:" }
                (lines(&table.lines))
                @if !may_apply(room, table) {
                    p.quiet { (room.why_not()) }
                } @else {
                    form method="post" action=(Url::to(["tables", name.as_str(), "apply"])) {
                        (layout::token(room))
                        input type="hidden" name="seen" value=(shown);
                        @for line in table.lines.iter().filter(|line| line.mark == Mark::Destroy || line.word.is_some()) {
                            @if let Some(word) = &line.word {
                                p { label { input type="checkbox" name="permit" value=(word); " Destroy " b { (line.what) } ": it stays unless this is chosen" } }
                            }
                        }
                        div.do {
                            button.primary type="submit" { "Do it" }
                            " " a.button href=(here) { "Leave it" }
                        }
                    }
                }
            },
            (None, _) => p.notice.good { "All is as the schema says: nothing is to be done." },
        }
    };
    Ok(room.page_of(&format!("Apply to {name}"), "/tables", &main))
}

/// Goes on to its end even if the reader leaves.
async fn run(room: &Room<'_>, name: &TableName, plan: &Plan, form: &Given) -> Result<Applied, Fault> {
    let permissions = Permissions(form.all("permit").map(str::to_owned).collect());
    tracing::info!(table = %name, permitted = ?permissions.0, "the console applies the schema to a table");
    let (plan, store) = (plan.clone(), room.house.store().clone());
    let applied =
        tokio::spawn(async move { provision::apply(&plan, &store, &permissions, &mut Silent).await });
    let applied = applied.await.map_err(|error| Fault::Store(format!("applying it broke off: {error}")))?;
    Ok(applied?)
}

fn outcome(applied: &Applied) -> Markup {
    html! {
        @if applied.done.is_empty() { p.notice role="status" { "Nothing was done: what differs needs to be chosen." } } @else {
            div.notice.good role="status" {
                ul { @for (_, step) in &applied.done { li { (step.to_string()) } } }
            }
        }
        @for (_, step, why) in &applied.ignored { p.notice.bad { (step.to_string()) ": not done, as " (why) } }
    }
}
