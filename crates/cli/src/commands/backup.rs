//! `larder backup`: backups of tables, on any store: made, listed, removed; and of a whole store, in a directory.
//!
//! Of tables it asks in DynamoDB's own words, through the SDK, also of a store in this process. What is kept in a directory
//! is `directory.rs`. `restore.rs` brings both back.

mod directory;

use std::process::ExitCode;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{BackupDetails, BackupStatus, BackupSummary, BackupType, BackupTypeFilter};
use clap::Args;
use serde_json::json;

use super::plan;
use crate::data::chosen::Place;
use crate::data::told;
use crate::{held, terminal};

/// How often it is asked whether something is done.
pub(super) const POLL: Duration = Duration::from_millis(200);

/// Back up a whole store to a directory, or tables inside the store
///
/// `larder backup --to DIR` writes the whole store, as it is at one moment, to a directory: the first time all of it, then
/// what has changed. The store may be a directory that nobody has open, or a running server. Without --to, a backup holds a
/// table, and stays in the store when the table goes. `larder restore` brings both back.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// Tables, by the names they have in the store
    #[arg(value_name = "TABLE", required_unless_present_any = ["list", "rm", "to"])]
    tables: Vec<String>,
    #[command(flatten)]
    directory: directory::Directory,
    #[command(flatten)]
    place: Place,
    /// What to call it [default: the table's name]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["list", "rm", "to"])]
    name: Option<String>,
    /// List backups: of these tables or of all, or those in the directory
    #[arg(long)]
    list: bool,
    /// Remove a backup
    #[arg(long, value_name = "ARN", conflicts_with_all = ["list", "tables", "to"])]
    rm: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        if let Some(to) = &self.directory.to {
            return match self.list {
                true => self.directory.show_all(to, self.json),
                false => self.directory.run(to, &self.place, self.json),
            };
        }
        plan::runtime()?.block_on(async {
            let client = client(&self.place).await?;
            match &self.rm {
                Some(arn) => self.remove(&client, arn).await,
                None if self.list => self.show_all(&client).await,
                None => self.make_all(&client).await,
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }

    async fn make_all(&self, client: &Client) -> Result<(), String> {
        for table in &self.tables {
            let name = self.name.as_deref().unwrap_or(table);
            let made = client.create_backup().table_name(table).backup_name(name).send().await;
            let arn = made.map_err(|error| failed(&error))?.backup_details.map(|details| details.backup_arn);
            let arn = arn.ok_or("the store gave no name to the backup")?;
            let bar = terminal::progress(None, format!("backing up {table}"));
            let details = loop {
                bar.tick();
                let details = describe(client, &arn).await?;
                if details.backup_status != BackupStatus::Creating {
                    break details;
                }
                tokio::time::sleep(POLL).await;
            };
            bar.finish_and_clear();
            self.tell(&json!({
                "table": table,
                "name": details.backup_name,
                "arn": arn,
                "bytes": details.backup_size_bytes,
            }))?;
        }
        Ok(())
    }

    async fn show_all(&self, client: &Client) -> Result<(), String> {
        let mut start = None;
        loop {
            let page = client.list_backups().backup_type(BackupTypeFilter::All);
            let page =
                page.set_exclusive_start_backup_arn(start).send().await.map_err(|error| failed(&error))?;
            let wanted = |backup: &&BackupSummary| {
                let table = backup.table_name.as_deref().unwrap_or_default();
                self.tables.is_empty() || self.tables.iter().any(|name| name == table)
            };
            for backup in page.backup_summaries().iter().filter(wanted) {
                self.tell(&json!({
                    "table": backup.table_name,
                    "name": backup.backup_name,
                    "arn": backup.backup_arn,
                    "bytes": backup.backup_size_bytes,
                    "made": backup.backup_creation_date_time.map(|time| time.to_string()),
                    "kind": backup.backup_type.as_ref().map(BackupType::as_str),
                }))?;
            }
            start = page.last_evaluated_backup_arn;
            if start.is_none() {
                return Ok(());
            }
        }
    }

    async fn remove(&self, client: &Client, arn: &str) -> Result<(), String> {
        client.delete_backup().backup_arn(arn).send().await.map_err(|error| failed(&error))?;
        if self.json {
            self.tell(&json!({"arn": arn}))
        } else {
            terminal::print(&format!("removed: {arn}\n"))
        }
    }

    /// One backup a line: for programs all that is known, for people what tells them apart.
    fn tell(&self, backup: &serde_json::Value) -> Result<(), String> {
        if self.json {
            return terminal::print(&format!("{backup}\n"));
        }
        let text = |name: &str| backup[name].as_str().unwrap_or_default().to_owned();
        let known = ["table", "name", "made", "kind"].map(text).into_iter().filter(|text| !text.is_empty());
        let known: Vec<String> = known.collect();
        terminal::print(&format!("{}\n  {}\n", known.join("  "), text("arn")))
    }
}

/// The SDK's client of a store, whatever it is.
pub(super) async fn client(place: &Place) -> Result<Client, String> {
    let store = held::open(&place.store).await.map_err(|error| told(&place.store, &error.into()))?;
    store.sdk_client().await.map_err(|error| told(&place.store, &error.into()))
}

/// What DynamoDB says went wrong.
pub(super) fn failed<E>(error: &SdkError<E>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    if let Some(refused) = error.as_service_error() {
        let message = refused.message().unwrap_or("it was refused without a reason");
        return format!("{}: {message}", refused.code().unwrap_or("an unnamed error"));
    }
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    format!("cannot reach the store: {}", causes.last().map(ToString::to_string).unwrap_or_default())
}

async fn describe(client: &Client, arn: &str) -> Result<BackupDetails, String> {
    let described = client.describe_backup().backup_arn(arn).send().await.map_err(|error| failed(&error))?;
    let details = described.backup_description.and_then(|backup| backup.backup_details);
    details.ok_or_else(|| format!("the store says nothing about {arn}"))
}
