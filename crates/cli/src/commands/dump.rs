//! `larder dump`: items of whole systems, or of some entities, as lines of text.
//!
//! The lines are those of [`lines`], and [`super::load`] takes them back. What has expired, breaks its checks or is of
//! no entity is dumped too. Secrets are in a file, which is readable by its owner alone; what is printed has them only
//! with `--show-secrets`. Each table is read once.
//!
//! What is damaged ends it, unless `--skip-damaged` leaves that out and lists it.
//!
//! `--format dynamodb` writes whole tables instead, as DynamoDB exports them to S3 ([`larder::export`]).
//!
//! A file is written beside its place and put there whole at the end: an interrupted dump leaves nothing.

use std::fs;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::TryStreamExt as _;
use larder::export::Exported;
use larder_model::TableName;
use serde_json::json;
use tempfile::NamedTempFile;

use super::{load, plan};
use crate::data::chosen::{Chosen, Place, Systems, chosen};
use crate::data::{Around, check_there, lines, told};
use crate::{held, project, terminal};

/// Write out all items of systems or entities, as lines that `larder load` takes back
///
/// A line is an item in DynamoDB's JSON. Nothing is left out: what has expired or is of no entity is there too, and in a
/// file so are secrets; they are printed only with --show-secrets. On DynamoDB it costs a read of each table. With --format dynamodb whole tables are written to a folder as
/// DynamoDB exports them to S3: AWS can import them, and `larder load` too.
#[derive(Debug, Args)]
pub(crate) struct Dump {
    /// Systems or entities, such as keiba or keiba.Race [default: every system here]
    #[arg(value_name = "SYSTEM|SYSTEM.ENTITY")]
    names: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// Where to write it: a file, or a folder for tables; - is stdout
    #[arg(long, value_name = "FILE|DIR", default_value = project::STDIN)]
    out: PathBuf,
    /// Lines for `larder load`, or tables as DynamoDB exports them
    #[arg(long, value_name = "FORMAT", default_value = "lines")]
    format: Format,
    /// A table by its name in the store, whether a schema has it or not; may be repeated
    #[arg(long = "table", value_name = "TABLE", value_parser = load::table_name)]
    tables: Vec<TableName>,
    /// Compress it, as is done for a name that ends in .gz
    #[arg(long)]
    gzip: bool,
    /// Leave out what is damaged, and tell what that is; exit code 1 then
    #[arg(long)]
    skip_damaged: bool,
    /// Print secrets too; a file always has them
    #[arg(long)]
    show_secrets: bool,
    /// Print what was exported as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each item, which says what it is of
    Lines,
    /// A folder for each table, as DynamoDB exports it to S3
    Dynamodb,
}

impl Dump {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        match self.format {
            Format::Dynamodb => return self.run_export(),
            Format::Lines if !self.tables.is_empty() => {
                return Err("--table is for whole tables: add --format dynamodb".to_owned());
            }
            Format::Lines => {}
        }
        let systems = chosen(&self.names)?;
        let skipped = self.begin()?;
        let gzip = self.gzip || self.out.extension().is_some_and(|end| end == "gz");
        let mut out = Out::to(&self.out, gzip)?;
        let done = plan::runtime()?.block_on(async {
            tokio::select! {
                // Watched for before anything is read.
                biased;
                _ = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
                done = self.write(&systems, &skipped, &mut out) => done,
            }
        });
        let written = match done {
            Ok(written) => out.finish().map(|()| written),
            Err(error) => Err(Failed::Other(error)),
        };
        match written {
            Ok(written) => eprintln!("{} written", terminal::count(written, "item")),
            // A reader that has left, as `head` does, is no error.
            Err(Failed::Reader) => {}
            Err(Failed::Other(error)) if self.out == Path::new(project::STDIN) => return Err(error),
            Err(Failed::Other(error)) => return Err(format!("{error}; {} is as it was", self.out.display())),
        }
        Ok(skipped.tell())
    }

    /// Checks the place before anything is written.
    fn begin(&self) -> Result<Around, String> {
        check_there(&self.place.store)?;
        Around::of(&self.place.store, self.skip_damaged)
    }

    fn run_export(self) -> Result<ExitCode, String> {
        if self.out == Path::new(project::STDIN) {
            return Err("--format dynamodb writes a folder: name it with --out DIR".to_owned());
        }
        let tables = self.wanted_tables()?;
        let skipped = self.begin()?;
        plan::runtime()?.block_on(async {
            tokio::select! {
                biased;
                _ = tokio::signal::ctrl_c() => Err("interrupted: the table under way is not exported".to_owned()),
                done = self.export(&tables, &skipped) => done,
            }
        })?;
        Ok(skipped.tell())
    }

    /// Whole tables by their names in the store, and the regions they are in.
    fn wanted_tables(&self) -> Result<Vec<(TableName, Option<String>)>, String> {
        let mut wanted: Vec<_> = self.tables.iter().map(|table| (table.clone(), None)).collect();
        let named =
            if self.names.is_empty() && !wanted.is_empty() { Vec::new() } else { chosen(&self.names)? };
        let environment = project::environment();
        for Chosen { schema, entities } in named {
            if let Some(entities) = entities {
                let (system, entities) = (&schema.system, entities.join(", "));
                return Err(format!("an export is of whole tables, not of {entities} alone: give {system}"));
            }
            for table in &schema.tables {
                let name = schema.table_name(table, &environment).map_err(|error| error.to_string())?;
                if wanted.iter().all(|(known, _)| *known != name) {
                    wanted.push((name, table.region.clone()));
                }
            }
        }
        Ok(wanted)
    }

    async fn export(&self, tables: &[(TableName, Option<String>)], around: &Around) -> Result<(), String> {
        let store = held::open(&self.place.store).await;
        let store = around.on(store.map_err(|error| told(&self.place.store, &error.into()))?);
        for (table, region) in tables {
            let bar = terminal::progress(None, table.to_string());
            let there = store.at(region.as_deref());
            let exported = there.export(table, &self.out, |items| bar.set_position(items));
            let exported = exported.await.map_err(|error| match error {
                larder::export::Error::Store(error) => told(&self.place.store, &error.into()),
                error => error.to_string(),
            })?;
            bar.finish_and_clear();
            let folder = exported.folder.display();
            terminal::print(&if self.json {
                let Exported { items, bytes, files, .. } = &exported;
                let told = json!({
                    "table": table.as_str(),
                    "export": folder.to_string(),
                    "items": items,
                    "bytes": bytes,
                    "files": files,
                });
                format!("{told}\n")
            } else {
                let items = terminal::count(usize::try_from(exported.items).unwrap_or(usize::MAX), "item");
                format!("{table}: {items} in {folder}\n")
            })?;
        }
        Ok(())
    }

    async fn write(&self, all: &[Chosen], around: &Around, out: &mut Out) -> Result<usize, String> {
        let bar = terminal::progress(None, "");
        let advised = |error| told(&self.place.store, &error);
        let store = held::open(&self.place.store).await.map_err(|error| advised(error.into()))?;
        let mut systems = Systems::on(around.on(store));
        let hides = self.out == Path::new(project::STDIN) && !self.show_secrets;
        let (mut written, mut hidden) = (0, 0);
        for chosen in all {
            let system = systems.with(&chosen.schema).await.map_err(advised)?;
            for table in &chosen.schema.tables {
                if !table.entities.iter().any(|entity| chosen.has(Some(&entity.name))) {
                    continue;
                }
                bar.set_message(format!("{}.{}", chosen.schema.system, table.name));
                let mut items = pin!(system.dump(&table.name));
                while let Some(stored) = items.try_next().await.map_err(advised)? {
                    if chosen.has(stored.entity.as_deref()) {
                        let secrets = if hides {
                            lines::secrets(table, &chosen.schema, &stored.item)
                        } else {
                            Vec::new()
                        };
                        hidden += secrets.len();
                        let line = lines::write(&chosen.schema, &stored, &secrets);
                        if out.line(&line).is_err() {
                            // Told when it is finished.
                            return Ok(written);
                        }
                        written += 1;
                        bar.inc(1);
                    }
                }
            }
        }
        bar.finish_and_clear();
        if hidden > 0 {
            let secrets = terminal::count(hidden, "secret");
            eprintln!(
                "{secrets} not shown, so `larder load` does not take this: add --show-secrets or --out FILE"
            );
        }
        Ok(written)
    }
}

enum Failed {
    /// Whoever read the output has left.
    Reader,
    Other(String),
}

/// The lines' way out.
struct Out {
    writer: Writer,
    file: Option<(NamedTempFile, PathBuf)>,
    failed: Option<io::Error>,
}

enum Writer {
    Plain(BufWriter<Box<dyn Write>>),
    Gzip(GzEncoder<BufWriter<Box<dyn Write>>>),
}

impl Out {
    fn to(path: &Path, gzip: bool) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
        let (raw, file): (Box<dyn Write>, _) = if path == Path::new(project::STDIN) {
            (Box::new(io::stdout()), None)
        } else {
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            let directory = path.parent().filter(|directory| *directory != Path::new(""));
            let draft = NamedTempFile::new_in(directory.unwrap_or(Path::new("."))).map_err(failed)?;
            (Box::new(draft.reopen().map_err(failed)?), Some((draft, path)))
        };
        let raw = BufWriter::new(raw);
        let writer = match gzip {
            true => Writer::Gzip(GzEncoder::new(raw, Compression::default())),
            false => Writer::Plain(raw),
        };
        Ok(Self { writer, file, failed: None })
    }

    fn line(&mut self, line: &str) -> Result<(), ()> {
        let writer: &mut dyn Write = match &mut self.writer {
            Writer::Plain(writer) => writer,
            Writer::Gzip(writer) => writer,
        };
        let written = writer.write_all(line.as_bytes()).and_then(|()| writer.write_all(b"\n"));
        written.map_err(|error| self.failed = Some(error))
    }

    /// Puts the file in its place.
    fn finish(self) -> Result<(), Failed> {
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::BrokenPipe => Failed::Reader,
            _ => Failed::Other(format!("cannot write the dump: {error}")),
        };
        if let Some(error) = self.failed {
            return Err(failed(error));
        }
        let mut raw = match self.writer {
            Writer::Plain(writer) => writer,
            Writer::Gzip(writer) => writer.finish().map_err(failed)?,
        };
        raw.flush().map_err(failed)?;
        if let Some((draft, path)) = self.file {
            draft.as_file().sync_all().map_err(failed)?;
            draft.persist(path).map_err(|error| failed(error.error))?;
        }
        Ok(())
    }
}
