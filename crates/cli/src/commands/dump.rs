//! `larder dump`: items of whole systems, or of some entities, as lines of text.
//!
//! The lines are those of [`lines`], and [`super::load`] takes them back. What has expired, breaks its checks or is of
//! no entity is dumped too; secrets are, too, so a file is readable by its owner alone. Each table is read once.
//!
//! A file is written beside its place and put there whole at the end: an interrupted dump leaves nothing.

use std::fs;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::TryStreamExt as _;
use larder::Store;
use tempfile::NamedTempFile;

use super::plan;
use crate::data::chosen::{Chosen, Place, Systems, chosen};
use crate::data::{lines, told};
use crate::{project, terminal};

/// Write out all items of systems or entities, as lines that `larder load` takes back
///
/// A line is an item in DynamoDB's JSON. Nothing is left out: what has expired, is of no entity or is secret is there
/// too. On DynamoDB it costs a read of each table.
#[derive(Debug, Args)]
pub(crate) struct Dump {
    /// Systems or entities, such as keiba or keiba.Race [default: every system here]
    #[arg(value_name = "SYSTEM|SYSTEM.ENTITY")]
    names: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// Where to write it; - is stdout
    #[arg(long, value_name = "FILE", default_value = project::STDIN)]
    out: PathBuf,
    /// Compress it, as is done for a name that ends in .gz
    #[arg(long)]
    gzip: bool,
}

impl Dump {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let systems = chosen(&self.names)?;
        let gzip = self.gzip || self.out.extension().is_some_and(|end| end == "gz");
        let mut out = Out::to(&self.out, gzip)?;
        let done = plan::runtime()?.block_on(async {
            tokio::select! {
                // Watched for before anything is read.
                biased;
                _ = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
                done = self.write(&systems, &mut out) => done,
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
        Ok(ExitCode::SUCCESS)
    }

    async fn write(&self, all: &[Chosen], out: &mut Out) -> Result<usize, String> {
        let bar = terminal::progress(None, "");
        let advised = |error| told(&self.place.store, &error);
        let store = Store::look(&self.place.store).await.map_err(|error| advised(error.into()))?;
        let mut systems = Systems::on(store);
        let mut written = 0;
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
                        let line = lines::write(&chosen.schema, &stored);
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
