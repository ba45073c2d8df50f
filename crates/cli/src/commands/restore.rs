//! `larder restore`: a new table from a table as it was, or from a backup, on any store; and a new store from a directory
//! of backups, which is `rebuild.rs`.

mod rebuild;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::restore_table_to_point_in_time::RestoreTableToPointInTimeError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_sdk_dynamodb::types::{TableDescription, TableStatus};
use clap::Args;

use super::backup::{POLL, client, failed};
use super::plan;
use crate::data::chosen::Place;
use crate::terminal;

/// Make a new store from a directory of backups, or a new table from a table as it was or from a backup
///
/// `larder restore --from DIR --to NEWDIR` makes a new store of what `larder backup --to DIR` or `larder serve --archive DIR`
/// wrote. Without --from, it makes a new table inside a store, with the keys, indexes and billing of the old one; `larder
/// apply` sets the rest once it has the name that the schema gives. What is there stays as it is.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The table to go back in, by the name it has in the store
    #[arg(value_name = "TABLE", required_unless_present_any = ["backup", "from"])]
    table: Option<String>,
    /// A directory of backups, or of an archive
    #[arg(long, value_name = "DIR", conflicts_with = "table")]
    from: Option<PathBuf>,
    /// What to call the new table; with --from, the new store's directory
    #[arg(long, value_name = "TABLE")]
    to: String,
    /// The moment, such as 2026-01-31T14:05:00Z [default: now, or the latest there is]
    #[arg(long, value_name = "TIME", conflicts_with = "backup", value_parser = moment)]
    at: Option<DateTime>,
    /// The backup to take; `larder backup --list` names them
    #[arg(long, value_name = "ARN", conflicts_with = "table")]
    backup: Option<String>,
    /// With --from, the key of encrypted backups, which the new store gets; the key itself can be in LARDER_KEY instead
    #[arg(long, value_name = "FILE", env = "LARDER_KEY_FILE")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

fn moment(text: &str) -> Result<DateTime, String> {
    DateTime::from_str(text, DateTimeFormat::DateTime)
        .map_err(|_| "give it as 2026-01-31T14:05:00Z, in UTC".to_owned())
}

impl Restore {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        if let Some(from) = &self.from {
            let key = super::key(self.key_file.as_deref())?;
            let at_ms = self
                .at
                .map(|at| at.to_millis().ok().and_then(|ms| u64::try_from(ms).ok()).unwrap_or_default());
            return rebuild::run(from, self.backup.as_deref(), at_ms, Path::new(&self.to), key);
        }
        plan::runtime()?.block_on(async {
            let client = client(&self.place).await?;
            self.begin(&client).await?;
            let whole = wait(&client, &self.to).await?;
            let items = usize::try_from(whole.item_count.unwrap_or_default()).unwrap_or_default();
            terminal::print(&format!("{} is there, with {}\n", self.to, terminal::count(items, "item")))
        })?;
        Ok(ExitCode::SUCCESS)
    }

    async fn begin(&self, client: &Client) -> Result<(), String> {
        if let Some(arn) = &self.backup {
            let request = client.restore_table_from_backup().backup_arn(arn).target_table_name(&self.to);
            return request.send().await.map(drop).map_err(|error| failed(&error));
        }
        let request = client.restore_table_to_point_in_time().set_source_table_name(self.table.clone());
        let request = request.target_table_name(&self.to).set_restore_date_time(self.at);
        let request = if self.at.is_none() { request.use_latest_restorable_time(true) } else { request };
        let Err(error) = request.send().await else { return Ok(()) };
        let out_of_range = error
            .as_service_error()
            .is_some_and(RestoreTableToPointInTimeError::is_invalid_restore_time_exception);
        let range = if out_of_range { self.range(client).await } else { None };
        Err(format!("{}{}", failed(&error), range.unwrap_or_default()))
    }

    /// From when to when the table can be restored, as the store tells.
    async fn range(&self, client: &Client) -> Option<String> {
        let request = client.describe_continuous_backups().set_table_name(self.table.clone());
        let described = request.send().await.ok()?.continuous_backups_description?;
        let recovery = described.point_in_time_recovery_description?;
        let [from, to] = [recovery.earliest_restorable_date_time?, recovery.latest_restorable_date_time?]
            .map(|moment| moment.fmt(DateTimeFormat::DateTime).unwrap_or_default());
        Some(format!("; it can be restored to any moment from {from} to {to}: give one with --at"))
    }
}

/// Waits until a table is whole. The store goes on by itself when this is interrupted.
async fn wait(client: &Client, table: &str) -> Result<TableDescription, String> {
    let bar = terminal::progress(None, format!("items in {table}"));
    loop {
        let described =
            client.describe_table().table_name(table).send().await.map_err(|error| failed(&error))?;
        let described = described.table.ok_or_else(|| format!("the store says nothing about {table}"))?;
        bar.set_position(u64::try_from(described.item_count.unwrap_or_default()).unwrap_or_default());
        if described.table_status == Some(TableStatus::Active) {
            bar.finish_and_clear();
            return Ok(described);
        }
        tokio::time::sleep(POLL).await;
    }
}
