//! Backups of tables, and tables brought back: from a backup, or as one was at a moment. Always into a new table.
//!
//! It is asked in DynamoDB's own words, through the SDK, as `larder backup` does.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::primitives::DateTime;
use aws_sdk_dynamodb::types::{BackupStatus, BackupSummary, BackupType, BackupTypeFilter};
use hyper::StatusCode;
use larder::jiff::Timestamp;
use larder::store::{Error, Feature};
use larder::{Store, price};
use larder_model::TableName;
use maud::{Markup, html};

use super::super::{Fault, Page, Room, layout};
use super::change::text;
use crate::address::{Given, Url};
use crate::answer;
use crate::deed::Deed;
use crate::query::is_denied;
use crate::show;

/// How many are shown.
const BACKUPS_MAX: usize = 200;

/// What the SDK says, in a store's words.
pub(super) fn store_error<E: ProvideErrorMetadata + std::error::Error + 'static>(
    store: &Store,
    error: &SdkError<E>,
) -> Error {
    let Some(service) = error.as_service_error() else {
        let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
        let cause = causes.last().map(ToString::to_string).unwrap_or_default();
        return Error::Unreachable { place: store.place(), cause };
    };
    match service.code() {
        Some("UnknownOperationException") => {
            Error::Unsupported("the endpoint does not know the operation".to_owned())
        }
        code => Error::Refused {
            code: code.unwrap_or("an unnamed error").to_owned(),
            message: service.message().unwrap_or("it was refused without a reason").to_owned(),
        },
    }
}

/// The backups of all tables, those that are gone included.
pub(in super::super) async fn list(room: &Room<'_>, told: Option<String>) -> Page {
    let found = backups(room.house.store(), None).await?;
    let main = html! {
        (layout::trail(&[("tables".to_owned(), Url::to(["tables"]))]))
        h1 { "Backups" }
        @if let Some(told) = &told { (layout::wrong(told)) }
        p.quiet { "Of all tables, those included that are gone. A backup is made on the page of its table." }
        @match &found {
            Err(lack) => p.notice { (lack) },
            Ok(found) => (rows(room, found, true)),
        }
    };
    let status = if told.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Ok(room.page_wrong(status, "Backups", "/tables", &main))
}

/// What was kept, newest first; or why nothing can be.
async fn backups(
    store: &Store,
    table: Option<&TableName>,
) -> Result<Result<Vec<BackupSummary>, String>, Fault> {
    let client = store.sdk_client().await?;
    let (mut found, mut start) = (Vec::new(), None);
    loop {
        let page = client
            .list_backups()
            .backup_type(BackupTypeFilter::All)
            .set_table_name(table.map(ToString::to_string));
        let page = match page.set_exclusive_start_backup_arn(start).send().await {
            Ok(page) => page,
            Err(error) => match store_error(store, &error) {
                ref error if is_denied(error) => return Ok(Err(error.to_string())),
                Error::Unsupported(lack) => {
                    return Ok(Err(format!("This store cannot keep backups of a table: {lack}")));
                }
                other => return Err(other.into()),
            },
        };
        found.extend(page.backup_summaries.unwrap_or_default());
        start = page.last_evaluated_backup_arn;
        if start.is_none() || found.len() >= BACKUPS_MAX {
            break;
        }
    }
    found.sort_by_key(|backup| std::cmp::Reverse(backup.backup_creation_date_time));
    found.truncate(BACKUPS_MAX);
    Ok(Ok(found))
}

fn may_restore(room: &Room<'_>, backup: &BackupSummary) -> bool {
    let (arn, table) = (backup.backup_arn.as_deref().unwrap_or_default(), backup.table_name.as_deref());
    let table = table.and_then(|table| TableName::new(table).ok());
    table.is_some_and(|table| room.may(Deed::Restore(arn, &table)))
}

fn rows(room: &Room<'_>, found: &[BackupSummary], with_table: bool) -> Markup {
    html! {
        @if found.is_empty() { p.quiet { "There is none." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Backups" {
                table {
                    thead { tr { @if with_table { th { "Table" } } th { "Backup" } th { "Made" } th.right { "Size" } th { "Bring it back" } th { span.unseen { "Remove" } } } }
                    tbody {
                        @for (at, backup) in found.iter().enumerate() {
                            @let arn = backup.backup_arn.as_deref().unwrap_or_default();
                            @let name = backup.backup_name.as_deref().unwrap_or_default();
                            tr {
                                @if with_table { td.mono { (backup.table_name.as_deref().unwrap_or_default()) } }
                                td {
                                    (name)
                                    @if backup.backup_type == Some(BackupType::System) { " " span.badge { "kept when the table was deleted" } }
                                    @if backup.backup_status == Some(BackupStatus::Creating) { " " span.badge { "being made" } }
                                }
                                td { @if let Some(at) = backup.backup_creation_date_time.and_then(|at| Timestamp::from_second(at.secs()).ok()) { (show::moment(at)) } }
                                td.right { (backup.backup_size_bytes.and_then(|bytes| u64::try_from(bytes).ok()).map(price::size).unwrap_or_default()) }
                                td {
                                    @if !may_restore(room, backup) { span.quiet { @if room.desk.read_only { "read-only" } @else { "not allowed" } } } @else {
                                        form.line method="post" action="/backups" {
                                            (layout::token(room))
                                            input type="hidden" name="do" value="restore";
                                            input type="hidden" name="arn" value=(arn);
                                            input id={ "to-" (at) } name="to" aria-label={ "New table for " (name) } placeholder="new table" autocomplete="off" required;
                                            button.small type="submit" { "Restore" }
                                        }
                                    }
                                }
                                td {
                                    @if room.may(Deed::RemoveBackup(arn)) {
                                        form.inline method="post" action="/backups" {
                                            (layout::token(room))
                                            input type="hidden" name="do" value="remove";
                                            input type="hidden" name="arn" value=(arn);
                                            input type="hidden" name="name" value=(name);
                                            button.small.danger type="submit" aria-label={ "Remove the backup " (name) } { "Remove…" }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What a table can be brought back from, on its page.
pub(super) async fn section(room: &Room<'_>, name: &TableName, recovery: bool) -> Result<Markup, Fault> {
    let store = room.house.store_of(name, &room.known);
    let lacks = store.lacks().await?;
    let found = backups(&store, Some(name)).await?;
    let range = if recovery { range(&store, name).await? } else { None };
    Ok(html! {
        section.card #backups {
            h2 { "Backups" }
            @match &found {
                Err(lack) => p.quiet { (lack) },
                Ok(found) => {
                    (rows(room, found, false))
                    @if room.may(Deed::Backup(name)) {
                        form.ask method="post" action="/backups" {
                            (layout::token(room))
                            input type="hidden" name="do" value="make";
                            input type="hidden" name="table" value=(name);
                            (text("backup", "name", "Name of a new backup", name.as_str()))
                            div.field.do { button type="submit" { "Back it up now" } }
                        }
                    }
                }
            }
            h3 { "As it was at a moment" }
            @if let Some(lack) = lacks.get(&Feature::PointInTimeRecovery) {
                p.quiet { "This store cannot: " (lack) }
            } @else if !recovery {
                p.quiet { "Recovery is off, so its moments are not kept."
                    @if room.may(Deed::Recovery(name)) { " It is switched on under " b { "Change it" } "." } }
            } @else {
                p { "It can be brought back to any moment"
                    @if let Some((from, to)) = range { " from " (show::moment(from)) " to " (show::moment(to)) }
                    ", into a new table." }
                @if room.may(Deed::RestoreMoment(name)) {
                    form.ask method="post" action="/backups" {
                        (layout::token(room))
                        input type="hidden" name="do" value="moment";
                        input type="hidden" name="table" value=(name);
                        div.field { label for="moment-at" { "Moment, in UTC; empty is the latest" }
                            input #moment-at name="at" placeholder="2026-01-15T10:00:00Z" autocomplete="off"; }
                        (text("moment", "to", "New table", ""))
                        div.field.do { button type="submit" { "Bring it back" } }
                    }
                }
            }
        }
    })
}

async fn range(store: &Store, name: &TableName) -> Result<Option<(Timestamp, Timestamp)>, Fault> {
    let client = store.sdk_client().await?;
    let described = client.describe_continuous_backups().table_name(name.as_str()).send().await;
    let described = described.map_err(|error| store_error(store, &error))?;
    let recovery =
        described.continuous_backups_description.and_then(|it| it.point_in_time_recovery_description);
    let moment = |at: Option<DateTime>| Timestamp::from_second(at?.secs()).ok();
    Ok(recovery.and_then(|it| {
        Some((moment(it.earliest_restorable_date_time)?, moment(it.latest_restorable_date_time)?))
    }))
}

/// Makes, removes or brings back.
pub(in super::super) async fn act(room: &Room<'_>, form: &Given) -> Page {
    let table = form.said("table").map(super::super::name).transpose()?;
    let store = match &table {
        Some(name) => room.house.store_of(name, &room.known),
        None => room.house.store().clone(),
    };
    let client = store.sdk_client().await?;
    let arn = form.get("arn").unwrap_or_default();
    let to = form.get("to").unwrap_or_default().trim();
    let told = match form.get("do").unwrap_or_default() {
        "make" => {
            let name = form.get("name").unwrap_or_default();
            let request = client.create_backup().set_table_name(table.as_ref().map(ToString::to_string));
            request.backup_name(name).send().await.map(drop).map_err(|error| store_error(&store, &error))
        }
        "remove" if form.said("confirm").is_none() => return Ok(confirm(room, form)),
        "remove" => client
            .delete_backup()
            .backup_arn(arn)
            .send()
            .await
            .map(drop)
            .map_err(|error| store_error(&store, &error)),
        "restore" => {
            let request = client.restore_table_from_backup().backup_arn(arn).target_table_name(to);
            request.send().await.map(drop).map_err(|error| store_error(&store, &error))
        }
        "moment" => {
            let request = client.restore_table_to_point_in_time().target_table_name(to);
            let request = request.set_source_table_name(table.as_ref().map(ToString::to_string));
            let request = match form.said("at").map(str::trim) {
                None => request.use_latest_restorable_time(true),
                Some(text) => match text.parse::<Timestamp>() {
                    Ok(at) => request.restore_date_time(
                        DateTime::from_nanos(at.as_nanosecond())
                            .unwrap_or(DateTime::from_secs(at.as_second())),
                    ),
                    Err(_) => {
                        return refused(
                            room,
                            table.as_ref(),
                            form,
                            format!("`{text}` is no moment: write it as 2026-01-15T10:00:00Z."),
                        )
                        .await;
                    }
                },
            };
            request.send().await.map(drop).map_err(|error| store_error(&store, &error))
        }
        other => {
            return Err(Fault::Refused(format!("There is nothing called `{other}` to do with a backup.")));
        }
    };
    match told {
        Ok(()) => {
            let what = form.get("do").unwrap_or_default();
            tracing::info!(
                what,
                table = table.as_ref().map(ToString::to_string),
                arn,
                to,
                "the console worked on a backup"
            );
            let url = match (what, &table) {
                ("restore" | "moment", _) => Url::to(["tables", to]).with("done", "restored"),
                (_, Some(name)) => Url::to(["tables", name.as_str()]).with("done", "kept"),
                (_, None) => Url::to(["backups"]).with("done", "deleted"),
            };
            Ok(answer::go_to(&url))
        }
        Err(Error::Unsupported(wrong) | Error::Busy(wrong) | Error::Refused { message: wrong, .. }) => {
            refused(room, table.as_ref(), form, wrong).await
        }
        Err(error) => Err(error.into()),
    }
}

/// The page that the form was on, with what is wrong.
async fn refused(room: &Room<'_>, table: Option<&TableName>, form: &Given, wrong: String) -> Page {
    match table {
        Some(name) => {
            super::show_with(room, name, Some(super::change::Told { what: "backup", form, wrong })).await
        }
        None => list(room, Some(wrong)).await,
    }
}

fn confirm(room: &Room<'_>, form: &Given) -> answer::Answer {
    let main = html! {
        (layout::trail(&[("tables".to_owned(), Url::to(["tables"])), ("backups".to_owned(), Url::to(["backups"]))]))
        h1 { "Remove the backup " (form.get("name").unwrap_or_default()) }
        p.notice.bad { "What it holds cannot be brought back from it any more." }
        p.quiet.mono { (form.get("arn").unwrap_or_default()) }
        form method="post" action="/backups" {
            @for (name, value) in form.iter() { input type="hidden" name=(name) value=(value); }
            input type="hidden" name="confirm" value="1";
            div.do { button.danger type="submit" { "Remove it" } " " a.button href="/backups" { "Leave it" } }
        }
    };
    room.page_of("Remove a backup", "/tables", &main)
}
