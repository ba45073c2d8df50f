//! `larder load`: items of a dump, or records by their fields, into a store.
//!
//! Lines of a dump are written as they are. Fields of one entity (lines of JSON, one JSON list, or CSV) are checked
//! like any put. Unless told otherwise everything is checked first, and nothing is written when something is wrong.
//!
//! Records are written in batches, many requests of one at once. A load that stops says the line it got to, and
//! `--from-line` goes on there; loading the same twice leaves the same records.
//!
//! Whole tables, as DynamoDB exports them, are loaded by `load/tables.rs`.

mod tables;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read, Seek as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use flate2::read::MultiGzDecoder;
use indicatif::ProgressBar;
use larder::text::json;
use larder::{Address, Error, Fields, Restored, Schema, Store, Stored};
use larder_model::TableName;
use serde_json::Value as Json;

use super::{apply, plan};
use crate::data::chosen::{Place, Systems};
use crate::data::lines::Line;
use crate::data::{Given, Kind, system_named, told};
use crate::{held, project, terminal};

/// Records of one batch: enough to keep many requests under way.
const BATCH_RECORDS_MAX: usize = 2_000;
/// Text of one batch, counted as it is in the file.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Without a terminal, progress is told each time so many are done.
const TOLD_EACH: usize = 10_000;
/// More wrong records than this are counted, not listed.
const LISTED_MAX: usize = 100;

/// Put the lines of a dump, records of one entity, or an exported table into a store
///
/// Takes what `larder dump` writes; with --entity also records by their fields, as `larder get --json` prints them,
/// one a line or in one JSON list, or as CSV with the names of fields in its first line. Files may be compressed by
/// gzip. A folder is taken as what DynamoDB exports to S3, and compared with its checksums first. Exits with 1 when any
/// record was refused.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Files, or folders of exported tables; - is stdin
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The files hold fields of this entity, such as keiba.Race
    #[arg(long, value_name = "SYSTEM.ENTITY")]
    entity: Option<String>,
    /// The files hold items of a table, in DynamoDB's JSON: put them into this one, by its name in the store
    #[arg(long, value_name = "TABLE", conflicts_with = "entity", value_parser = table_name)]
    table: Option<TableName>,
    #[command(flatten)]
    place: Place,
    /// What to do when a record is wrong [default: check all of them first, and write nothing]
    #[arg(long, value_name = "WHAT")]
    on_error: Option<OnError>,
    /// Begin at this line (of a JSON list, at this record), as a load that stopped has told
    #[arg(long, value_name = "N", default_value_t = 1)]
    from_line: usize,
    /// Check everything, and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Leave it out and go on
    Skip,
    /// Stop there
    Stop,
}

impl Load {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        if self.is_of_tables() {
            return plan::runtime()?.block_on(self.load_tables());
        }
        if self.from_line > 1 && self.files.len() > 1 {
            return Err("--from-line is for one file: load them one by one".to_owned());
        }
        let mut reader = Reader { kind: self.kind()?, systems: BTreeMap::new() };
        let mut inputs = self.files.iter().map(|path| Input::open(path)).collect::<Result<Vec<_>, _>>()?;
        plan::runtime()?.block_on(async {
            if self.on_error.is_none() || self.dry_run {
                let (records, wrong) = self.check(&mut reader, &mut inputs).await?;
                if wrong > 0 {
                    return Err(format!("{wrong} of {}: nothing was written", counted(records, "is", "are")));
                }
                if self.dry_run {
                    terminal::print(&format!("{} right; nothing was written\n", counted_right(records)))?;
                    return Ok(ExitCode::SUCCESS);
                }
            }
            self.write(&mut reader, &mut inputs).await
        })
    }

    fn kind(&self) -> Result<Option<Kind>, String> {
        self.entity.as_deref().map(Kind::named).transpose()
    }

    /// How many records there are, and how many of them are wrong. They are told.
    async fn check(&self, reader: &mut Reader, inputs: &mut [Input]) -> Result<(usize, usize), String> {
        let mut systems = nowhere().await?;
        let (mut records, mut wrong) = (0, 0);
        for input in inputs {
            let name = input.name.clone();
            for record in input.records(reader.kind.is_some())? {
                let record = record?;
                if record.line < self.from_line {
                    continue;
                }
                records += 1;
                if let Err(error) = reader.checked(&mut systems, record.content).await {
                    wrong += 1;
                    if wrong <= LISTED_MAX {
                        eprintln!("{name}:{}: {error}", record.line);
                    }
                }
            }
        }
        if wrong > LISTED_MAX {
            eprintln!("and {} more", wrong - LISTED_MAX);
        }
        Ok((records, wrong))
    }

    async fn write(&self, reader: &mut Reader, inputs: &mut [Input]) -> Result<ExitCode, String> {
        let stop = apply::watch_interrupts("batch");
        // Otherwise all of it was checked already.
        let mut checks = if self.on_error.is_some() { Some(nowhere().await?) } else { None };
        let store = held::open(&self.place.store).await;
        let store = store.map_err(|error| told(&self.place.store, &error.into()))?;
        let mut systems = Systems::on(store);
        let mut done = Done::new();
        let mut stopped = None;
        for input in inputs {
            stopped = self.write_file(reader, &mut checks, &mut systems, input, &mut done, &stop).await?;
            if stopped.is_some() {
                break;
            }
        }
        done.end(stopped.as_deref())
    }

    /// Why it stopped before the end, if it did.
    async fn write_file(
        &self,
        reader: &mut Reader,
        checks: &mut Option<Systems>,
        systems: &mut Systems,
        input: &mut Input,
        done: &mut Done,
        stop: &AtomicBool,
    ) -> Result<Option<String>, String> {
        let name = input.name.clone();
        let mut records = input.records(reader.kind.is_some())?;
        loop {
            let mut batch = Batch::default();
            let mut bad = None;
            let mut over = false;
            while batch.records.len() < BATCH_RECORDS_MAX && batch.bytes < BATCH_BYTES_MAX {
                let Some(record) = records.next() else {
                    over = true;
                    break;
                };
                let record = record?;
                if record.line < self.from_line {
                    continue;
                }
                let (line, bytes) = (record.line, record.bytes);
                let read = match checks {
                    Some(systems) => reader.checked(systems, record.content).await,
                    None => reader.read(record.content),
                };
                match read {
                    Ok(content) => batch.push(line, bytes, content),
                    Err(error) => {
                        done.refuse(&name, line, &error);
                        if self.on_error != Some(OnError::Skip) {
                            bad = Some(line);
                            break;
                        }
                    }
                }
            }
            let next = batch.records.last().map(|(line, _)| line + 1);
            let outcomes = batch.write(reader, systems).await;
            for (line, outcome) in outcomes {
                match outcome {
                    Ok(outcome) => done.count(outcome),
                    Err(error @ Error::Store(_)) => {
                        let error = told(&self.place.store, &error);
                        return Ok(Some(format!("{name}:{line}: {error}; go on with --from-line {line}")));
                    }
                    Err(error) => {
                        done.refuse(&name, line, &error.to_string());
                        if self.on_error == Some(OnError::Stop) {
                            bad = bad.map_or(Some(line), |known: usize| Some(known.min(line)));
                        }
                    }
                }
            }
            if let Some(line) = bad {
                return Ok(Some(format!("{name}:{line} is wrong; go on there with --from-line {line}")));
            }
            if over {
                return Ok(None);
            }
            if stop.load(Ordering::Relaxed) {
                let next = next.unwrap_or(self.from_line);
                return Ok(Some(format!("stopped; go on in {name} with --from-line {next}")));
            }
        }
    }
}

pub(super) fn table_name(text: &str) -> Result<TableName, String> {
    TableName::new(text).map_err(|error| error.to_string())
}

/// What is checked needs no data, and the store is left alone.
async fn nowhere() -> Result<Systems, String> {
    let store = Store::open(&Address::Memory).await.map_err(|error| error.to_string())?;
    Ok(Systems::on(store))
}

fn counted(records: usize, one: &str, many: &str) -> String {
    format!("{} {} wrong", terminal::count(records, "record"), if records == 1 { one } else { many })
}

fn counted_right(records: usize) -> String {
    format!("{} {}", terminal::count(records, "record"), if records == 1 { "is" } else { "are" })
}

/// What became of the records.
struct Done {
    created: usize,
    overwritten: usize,
    unchanged: usize,
    refused: usize,
    bar: ProgressBar,
    plain: bool,
}

impl Done {
    fn new() -> Self {
        let bar = terminal::progress(None, "loaded");
        let plain = !io::stderr().is_terminal();
        Self { created: 0, overwritten: 0, unchanged: 0, refused: 0, bar, plain }
    }

    fn count(&mut self, outcome: Restored) {
        match outcome {
            Restored::Created => self.created += 1,
            Restored::Overwritten => self.overwritten += 1,
            Restored::Unchanged => self.unchanged += 1,
        }
        self.bar.inc(1);
        let all = self.created + self.overwritten + self.unchanged;
        if self.plain && all.is_multiple_of(TOLD_EACH) {
            eprintln!("{all} loaded");
        }
    }

    fn refuse(&mut self, name: &str, line: usize, error: &str) {
        self.refused += 1;
        self.bar.suspend(|| eprintln!("{name}:{line}: {error}"));
    }

    /// Tells what was done, and why it stopped if it did.
    fn end(&self, stopped: Option<&str>) -> Result<ExitCode, String> {
        self.bar.finish_and_clear();
        let Self { created, overwritten, unchanged, refused, .. } = self;
        terminal::print(&format!(
            "{created} created, {overwritten} overwritten, {unchanged} unchanged, {refused} refused\n"
        ))?;
        if let Some(stopped) = stopped {
            eprintln!("larder: {stopped}");
        }
        Ok(if stopped.is_none() && *refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// A record that has been read: an item of a dump, or fields of the entity.
enum Content {
    Item(Arc<Schema>, Stored),
    Fields(Fields),
}

/// Makes records of what files hold.
struct Reader {
    kind: Option<Kind>,
    systems: BTreeMap<String, Arc<Schema>>,
}

impl Reader {
    fn read(&mut self, raw: Result<Raw, String>) -> Result<Content, String> {
        let raw = raw?;
        let Some(kind) = &self.kind else {
            let Raw::Json(json) = raw else { return Err("CSV is loaded with --entity".to_owned()) };
            let line = Line::read(&json)?;
            let schema = match self.systems.get(&line.system) {
                Some(schema) => Arc::clone(schema),
                None => {
                    let schema = Arc::new(system_named(&line.system)?);
                    self.systems.insert(line.system.clone(), Arc::clone(&schema));
                    schema
                }
            };
            return line.into_stored(&schema).map(|stored| Content::Item(schema, stored));
        };
        let fields = match raw {
            Raw::Json(json) => kind.draft(Some(json), &[])?,
            Raw::Cells(given) => kind.draft(None, &given)?,
        };
        if kind.lacks_sequence(&fields) {
            return Err(
                "its number is missing: a number taken now would be another one the next time".to_owned()
            );
        }
        Ok(Content::Fields(fields))
    }

    async fn checked(&mut self, systems: &mut Systems, raw: Result<Raw, String>) -> Result<Content, String> {
        let content = self.read(raw)?;
        let checked = match (&content, &self.kind) {
            (Content::Item(schema, stored), _) => {
                systems.with(schema).await.and_then(|system| system.restorable(stored))
            }
            (Content::Fields(fields), Some(kind)) => systems.with(&kind.schema).await.and_then(|system| {
                system.entries(&kind.entity().name).expect("the schema has it").check(fields.clone())
            }),
            (Content::Fields(_), None) => Ok(()),
        };
        checked.map(|()| content).map_err(|error| error.to_string())
    }
}

#[derive(Default)]
struct Batch {
    records: Vec<(usize, Content)>,
    bytes: usize,
}

/// What is one system's.
struct Part {
    schema: Arc<Schema>,
    lines: Vec<usize>,
    items: Vec<Stored>,
}

impl Batch {
    fn push(&mut self, line: usize, bytes: usize, content: Content) {
        self.records.push((line, content));
        self.bytes += bytes;
    }

    /// Writes all of it, and says of each line what became of it, in order.
    async fn write(self, reader: &Reader, systems: &mut Systems) -> Vec<(usize, Result<Restored, Error>)> {
        let mut of_system: BTreeMap<String, Part> = BTreeMap::new();
        let (mut lines, mut all_fields) = (Vec::new(), Vec::new());
        for (line, content) in self.records {
            match content {
                Content::Item(schema, stored) => {
                    let name = schema.system.clone();
                    let part = of_system.entry(name);
                    let part = part.or_insert(Part { schema, lines: Vec::new(), items: Vec::new() });
                    part.lines.push(line);
                    part.items.push(stored);
                }
                Content::Fields(fields) => {
                    lines.push(line);
                    all_fields.push(fields);
                }
            }
        }
        let mut outcomes = Vec::new();
        for Part { schema, lines, items } in of_system.into_values() {
            let done = match systems.with(&schema).await {
                Ok(system) => system.restore(items).await,
                Err(error) => vec![Err(error); lines.len()],
            };
            outcomes.extend(lines.into_iter().zip(done));
        }
        if let Some(kind) = reader.kind.as_ref().filter(|_| !lines.is_empty()) {
            let done = match systems.with(&kind.schema).await {
                Ok(system) => {
                    let shelf = system.entries(&kind.entity().name).expect("the schema has it");
                    let known = shelf.get_many(all_fields.clone()).await;
                    let put = shelf.put_many(all_fields).await;
                    let there = known.into_iter().map(|(_, known)| known.is_ok_and(|known| known.is_some()));
                    let outcome = |(there, put): (bool, Result<_, Error>)| {
                        put.map(|_| if there { Restored::Overwritten } else { Restored::Created })
                    };
                    there.zip(put).map(outcome).collect()
                }
                Err(error) => vec![Err(error); lines.len()],
            };
            outcomes.extend(lines.into_iter().zip(done));
        }
        outcomes.sort_by_key(|(line, _)| *line);
        outcomes
    }
}

/// A file that can be read more than once.
pub(super) struct Input {
    name: String,
    file: File,
}

/// What a file says of one record.
pub(super) struct Record {
    /// Where it begins; in a JSON list, which one it is.
    pub(super) line: usize,
    bytes: usize,
    pub(super) content: Result<Raw, String>,
}

pub(super) enum Raw {
    Json(Json),
    Cells(Vec<Given>),
}

pub(super) type Records<'a> = Box<dyn Iterator<Item = Result<Record, String>> + Send + 'a>;

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot read {}: {error}", path.display());
        if path == Path::new(project::STDIN) {
            // It is read twice: to check it, and to write it.
            let mut file = tempfile::tempfile().map_err(failed)?;
            io::copy(&mut io::stdin().lock(), &mut file).map_err(failed)?;
            return Ok(Self { name: "stdin".to_owned(), file });
        }
        Ok(Self { name: path.display().to_string(), file: File::open(path).map_err(failed)? })
    }

    /// The records from the first on.
    pub(super) fn records(&mut self, of_entity: bool) -> Result<Records<'_>, String> {
        let name = self.name.clone();
        let failed = move |error: io::Error| format!("cannot read {name}: {error}");
        self.file.rewind().map_err(&failed)?;
        let mut raw = BufReader::new(&self.file);
        let is_gzip = raw.fill_buf().map_err(&failed)?.starts_with(&[0x1f, 0x8b]);
        let mut text: Box<dyn BufRead + Send> = match is_gzip {
            true => Box::new(BufReader::new(MultiGzDecoder::new(raw))),
            false => Box::new(raw),
        };
        let plain = self.name.strip_suffix(".gz").unwrap_or(&self.name);
        if Path::new(plain).extension().is_some_and(|end| end.eq_ignore_ascii_case("csv")) {
            return Ok(Box::new(Csv::new(text).map_err(failed)?));
        }
        let begins_list = text.fill_buf().map_err(&failed)?.trim_ascii_start().starts_with(b"[");
        if begins_list && of_entity {
            let mut all = String::new();
            text.read_to_string(&mut all).map_err(&failed)?;
            let values = match json::parse(&all) {
                Ok(Json::Array(values)) => values,
                Ok(_) => return Err(format!("{} holds no JSON list", self.name)),
                Err(error) => return Err(format!("{}: {error}", self.name)),
            };
            let records = values.into_iter().enumerate().map(|(at, json)| {
                Ok(Record { line: at + 1, bytes: json.to_string().len(), content: Ok(Raw::Json(json)) })
            });
            return Ok(Box::new(records));
        }
        let lines = text.split(b'\n').enumerate();
        Ok(Box::new(lines.filter_map(move |(at, line)| {
            let line = match line {
                Ok(line) if line.trim_ascii().is_empty() => return None,
                Ok(line) => line,
                Err(error) => return Some(Err(failed(error))),
            };
            let content = match str::from_utf8(&line) {
                Ok(line) => json::parse(line).map(Raw::Json).map_err(|error| error.to_string()),
                Err(error) => Err(format!("this is not JSON: {error}")),
            };
            Some(Ok(Record { line: at + 1, bytes: line.len(), content }))
        })))
    }
}

/// Comma-separated values: names in the first line, `"` around what holds a comma, a quote (twice) or a line's end.
/// An empty cell is not given.
struct Csv<R> {
    text: R,
    names: Vec<String>,
    line: usize,
}

impl<R: BufRead> Csv<R> {
    fn new(text: R) -> io::Result<Self> {
        let mut csv = Self { text, names: Vec::new(), line: 1 };
        if let Some((_, cells)) = csv.row()? {
            csv.names = cells;
            if let Some(first) = csv.names.first_mut() {
                *first = first.trim_start_matches('\u{feff}').to_owned();
            }
        }
        Ok(csv)
    }

    /// The cells of the next row that has any, and how many bytes they took.
    fn row(&mut self) -> io::Result<Option<(usize, Vec<String>)>> {
        let mut bytes = Vec::new();
        loop {
            let read = self.text.read_until(b'\n', &mut bytes)?;
            let is_open = bytes.iter().filter(|byte| **byte == b'"').count() % 2 == 1;
            if read == 0 && bytes.is_empty() {
                return Ok(None);
            }
            if read == 0 || !is_open {
                break;
            }
        }
        let text =
            String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Some((text.len(), cells(text.trim_end_matches(['\r', '\n'])))))
    }
}

fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut characters = row.chars().peekable();
    while let Some(character) = characters.next() {
        let cell = cells.last_mut().expect("there is always one");
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            character => cell.push(character),
        }
    }
    cells
}

impl<R: BufRead> Iterator for Csv<R> {
    type Item = Result<Record, String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let before = self.line;
            let (bytes, cells) = match self.row() {
                Ok(Some(row)) => row,
                Ok(None) => return None,
                Err(error) => return Some(Err(format!("cannot read CSV: {error}"))),
            };
            self.line += 1 + cells.iter().map(|cell| cell.matches('\n').count()).sum::<usize>();
            if cells == [""] {
                continue;
            }
            let content = if cells.len() == self.names.len() {
                let given = self.names.iter().cloned().zip(cells).filter(|(_, text)| !text.is_empty());
                Ok(Raw::Cells(given.map(|(name, text)| Given { name, text }).collect()))
            } else {
                Err(format!("it has {} cells, and the first line {}", cells.len(), self.names.len()))
            };
            return Some(Ok(Record { line: before + 1, bytes, content }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_csv_is_cut_at_commas_outside_of_quotes() {
        let text = "\u{feff}a,b,c\r\n1,\"x, \"\"y\"\"\nz\",\r\n\n2,3\n4,5,6";
        let records: Vec<Record> = Csv::new(text.as_bytes()).unwrap().map(Result::unwrap).collect();
        let shown: Vec<(usize, String)> = records
            .into_iter()
            .map(|record| match record.content {
                Ok(Raw::Cells(given)) => {
                    let cells: Vec<String> = given.iter().map(ToString::to_string).collect();
                    (record.line, cells.join("|"))
                }
                Ok(Raw::Json(json)) => (record.line, json.to_string()),
                Err(error) => (record.line, error),
            })
            .collect();
        assert_eq!(
            shown,
            [
                (2, "a=1|b=x, \"y\"\nz".to_owned()),
                (5, "it has 2 cells, and the first line 3".to_owned()),
                (6, "a=4|b=5|c=6".to_owned()),
            ]
        );
    }
}
