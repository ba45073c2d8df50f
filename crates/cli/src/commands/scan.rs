//! `larder scan`: records of an entity, by reading its table from one end.
//!
//! One page of the table (1 MB) is read without asking. What would read on shows its price first and wants `--yes`,
//! or a yes on a terminal. Fields are compared here, after they were read: a filter makes no scan cheaper.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Args;
use larder::{Entry, Error, Fields, Page, Shelf, Unread};

use crate::data::{self, Access, Around, Given, Kind, Target};
use crate::terminal;

/// List records of an entity, by reading the whole table; what reads more than 1 MB shows its price first
///
/// Fields are compared after they were read: they choose what is shown, and make the scan no cheaper. How many
/// records cannot be read is told on stderr.
#[derive(Debug, Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    target: Target,
    /// Show only records with these fields
    #[arg(value_name = "NAME=VALUE")]
    fields: Vec<Given>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Go on where a page ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Also what has expired and is still stored
    #[arg(long)]
    even_expired: bool,
    /// Fail at a record that cannot be read, instead of telling how many were left out
    #[arg(long)]
    strict: bool,
    /// Leave out what is damaged, and tell what that is; exit code 1 then
    #[arg(long)]
    skip_damaged: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Scan {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let kind = self.target.kind()?;
        let wanted = kind.fields(&self.fields)?;
        let around = Around::of(self.target.store(), self.skip_damaged)?;
        let page = self.target.work_through(
            &kind,
            Access::Existing,
            |store| around.on(store),
            async |shelf| {
                // How many records have these fields is known at the end: the limit makes no promise.
                let scan = self.scan(&shelf, wanted.is_empty().then_some(self.limit), self.cursor.as_deref());
                let estimate = scan.explain().await?;
                if !estimate.exact && !self.yes {
                    eprintln!("{estimate}");
                    if !confirmed() {
                        return Ok(None);
                    }
                }
                self.read(&shelf, &wanted).await.map(Some)
            },
        )?;
        let Some(page) = page else {
            return Err("nothing was read beyond the first page: add --yes, or a smaller --limit".to_owned());
        };
        self.show(&kind, page)?;
        Ok(around.tell())
    }

    fn scan(&self, shelf: &Shelf<Entry>, limit: Option<usize>, cursor: Option<&str>) -> larder::Scan<Entry> {
        let mut scan = shelf.scan().at_any_price();
        if let Some(limit) = limit {
            scan = scan.limit(limit);
        }
        if self.even_expired {
            scan = scan.even_expired();
        }
        if self.strict {
            scan = scan.strict();
        }
        if let Some(cursor) = cursor {
            scan = scan.start_at(cursor);
        }
        scan
    }

    /// Reads until there are enough.
    async fn read(&self, shelf: &Shelf<Entry>, wanted: &Fields) -> Result<Page<Entry>, Error> {
        let is_wanted =
            |entry: &Entry| wanted.iter().all(|(name, value)| entry.fields.get(name) == Some(value));
        let (mut items, mut cursor, mut unread) = (Vec::new(), self.cursor.clone(), Unread::default());
        let mut units = 0.0;
        loop {
            let left = self.limit.saturating_sub(items.len());
            let page = self.scan(shelf, Some(left), cursor.as_deref()).page().await?;
            items.extend(page.items.into_iter().filter(is_wanted));
            cursor = page.cursor;
            unread.add(page.unread);
            units += page.units;
            if cursor.is_none() || items.len() >= self.limit {
                return Ok(Page { items, cursor, unread, units });
            }
        }
    }

    fn show(&self, kind: &Kind, page: Page<Entry>) -> Result<(), String> {
        if page.items.is_empty() && !self.target.json {
            terminal::print("nothing is there\n")?;
        } else {
            terminal::print(&data::records(kind, &page.items, self.target.json, self.target.show_secrets))?;
        }
        data::tell_unread(&page.unread);
        if let Some(cursor) = page.cursor {
            eprintln!("there may be more: --cursor {cursor}");
        }
        Ok(())
    }
}

pub(super) fn confirmed() -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    eprint!("Read it? [y/N] ");
    let mut answer = String::new();
    let read = io::stderr().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
