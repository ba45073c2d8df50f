//! An export as it is read: found, compared with its manifest, taken line by line.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::bufread::MultiGzDecoder;
use larder_model::{Arn, Item, TableName};
use md5::{Digest as _, Md5};
use serde_json::Value as Json;

use super::{DATA, Error, FILES, FOLDER, FORMAT, FULL, SUMMARY};

/// An item of 400 KB takes less, however its JSON is written.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// Text of a manifest: a line for each of so many files that no export has them.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// The items of a table in files: an export with its manifest, or files alone, as `ImportTable` takes them.
#[derive(Clone, Debug)]
pub struct Export {
    folder: PathBuf,
    table: Option<TableName>,
    files: Vec<DataFile>,
    items: Option<u64>,
}

/// What is known of a file.
#[derive(Clone, Debug)]
pub(crate) struct DataFile {
    path: PathBuf,
    listed: Option<Listed>,
}

/// What the manifest says of a file.
#[derive(Clone, Debug)]
struct Listed {
    items: u64,
    md5: Vec<u8>,
}

impl Export {
    /// Finds what a path holds: the exports in a folder, one of them, its summary, or files of items alone. The
    /// manifests are compared with their checksums.
    pub fn open(path: &Path) -> Result<Vec<Self>, Error> {
        if path.file_name().is_some_and(|name| name == SUMMARY_FILE) {
            return Ok(vec![Self::of_manifest(path.parent().unwrap_or(Path::new("")))?]);
        }
        if !path.is_dir() {
            let file = DataFile { path: path.to_owned(), listed: None };
            return Ok(vec![Self { folder: path.to_owned(), table: None, files: vec![file], items: None }]);
        }
        for above in [path.join(FOLDER), path.to_owned()] {
            if above.join(SUMMARY_FILE).is_file() {
                return Ok(vec![Self::of_manifest(&above)?]);
            }
            let mut exports = Vec::new();
            for folder in entries(&above)?.into_iter().filter(|entry| entry.is_dir() && !is_hidden(entry)) {
                if folder.join(SUMMARY_FILE).is_file() {
                    exports.push(Self::of_manifest(&folder)?);
                } else if folder.join("_started").is_file() {
                    return Err(Error::unfit(&folder, "this export was never finished"));
                }
            }
            if !exports.is_empty() {
                return Ok(exports);
            }
        }
        Self::of_files(path).map(|export| vec![export])
    }

    fn of_manifest(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(SUMMARY_FILE);
        let summary = manifest(folder, SUMMARY)?;
        let summary: Json =
            serde_json::from_slice(&summary).map_err(|error| Error::damaged(&path, error.to_string()))?;
        let text = |name: &str| summary[name].as_str();
        if let Some(format) = text("outputFormat").filter(|format| *format != FORMAT) {
            return Err(Error::unfit(&path, format!("it is in {format}: export the table as {FORMAT}")));
        }
        if let Some(kind) = text("exportType").filter(|kind| *kind != FULL) {
            return Err(Error::unfit(&path, format!("it is an {kind}, of changes: make a {FULL}")));
        }
        let items = summary["itemCount"].as_u64();
        let items = items.ok_or_else(|| Error::damaged(&path, "it does not say how many items there are"))?;
        let table = text("tableArn").and_then(Arn::table_name);
        let listed = manifest(folder, FILES)?;
        let lines = listed.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let files = lines.map(|line| listed_file(folder, line)).collect::<Result<Vec<_>, Error>>()?;
        let counted = files.iter().filter_map(|file| file.listed.as_ref()).map(|listed| listed.items);
        let counted = counted.fold(0, u64::saturating_add);
        if counted != items {
            let cause = format!("it lists files of {counted} items, and the summary says {items}");
            return Err(Error::damaged(&folder.join(format!("{FILES}.json")), cause));
        }
        Ok(Self { folder: folder.to_owned(), table, files, items: Some(items) })
    }

    /// Every file of a folder, as ImportTable takes all below a prefix.
    fn of_files(folder: &Path) -> Result<Self, Error> {
        let found = entries(folder)?.into_iter().filter(|entry| entry.is_file() && !is_hidden(entry));
        let mut files = Vec::new();
        for path in found {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            if name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".jsonl") {
                files.push(DataFile { path, listed: None });
            } else if name.ends_with(".zst") || name.ends_with(".ion") || name.ends_with(".csv") {
                return Err(Error::unfit(&path, "only JSON is, plain or compressed by gzip"));
            }
        }
        if files.is_empty() {
            return Err(Error::unfit(folder, "it holds no export, and no .json or .json.gz"));
        }
        Ok(Self { folder: folder.to_owned(), table: None, files, items: None })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The table that was exported, if that is known.
    pub fn table(&self) -> Option<&TableName> {
        self.table.as_ref()
    }

    /// How many items its manifest says there are.
    pub fn items(&self) -> Option<u64> {
        self.items
    }

    /// Compares every file that the manifest lists with its checksum. Files alone have none.
    pub fn verify(&self) -> Result<(), Error> {
        for file in &self.files {
            let Some(listed) = &file.listed else { continue };
            let mut summed = file.open()?;
            let read = io::copy(&mut summed, &mut io::sink());
            read.map_err(|error| Error::file("read", &file.path, &error))?;
            summed.check(&file.path, listed)?;
        }
        Ok(())
    }

    /// Its items, file by file. It ends after an error: a file that is not what the manifest says, or that cannot
    /// be read.
    pub fn lines(&self) -> Lines {
        Lines { files: self.files.clone().into_iter(), open: None, failed: false }
    }
}

const SUMMARY_FILE: &str = "manifest-summary.json";

/// What a folder holds, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = match fs::read_dir(folder) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::file("read", folder, &error)),
    };
    let paths = read.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
    let mut paths = paths.map_err(|error| Error::file("read", folder, &error))?;
    paths.sort();
    Ok(paths)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// The bytes of a manifest, the same as when its checksum was made.
fn manifest(folder: &Path, name: &str) -> Result<Vec<u8>, Error> {
    let path = folder.join(format!("{name}.json"));
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(MANIFEST_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| Error::file("read", &path, &error))?;
    // DynamoDB writes the one, and its manual has the other.
    for end in ["md5", "checksum"] {
        let beside = folder.join(format!("{name}.{end}"));
        match fs::read_to_string(&beside) {
            Ok(sum) if read_md5(sum.trim()).is_some_and(|sum| sum == Md5::digest(&bytes).as_slice()) => {}
            Ok(_) => return Err(Error::damaged(&path, format!("its MD5 is not that of {name}.{end}"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::file("read", &beside, &error)),
        }
    }
    Ok(bytes)
}

/// An MD5 in base64, as manifests have it, or in hexadecimal digits, as tools print it.
fn read_md5(text: &str) -> Option<Vec<u8>> {
    let bytes = if text.len() == 32 {
        let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
        digits.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<Vec<u8>>>()?
    } else {
        STANDARD.decode(text).ok()?
    };
    (bytes.len() == 16).then_some(bytes)
}

/// The file that a line of the manifest is about. Its key has the bucket's prefix; its name is what counts here.
fn listed_file(folder: &Path, line: &[u8]) -> Result<DataFile, Error> {
    let path = folder.join(format!("{FILES}.json"));
    let wrong = |cause: &str| Error::damaged(&path, format!("{cause}: {}", String::from_utf8_lossy(line)));
    let json: Json = serde_json::from_slice(line).map_err(|_| wrong("a line is not JSON"))?;
    let name = json["dataFileS3Key"].as_str().and_then(|key| key.rsplit('/').next());
    let name = name.filter(|name| !name.is_empty() && *name != "." && *name != "..");
    let name = name.ok_or_else(|| wrong("a line names no file"))?;
    let items = json["itemCount"].as_u64().ok_or_else(|| wrong("a line does not count items"))?;
    let md5 = json["md5Checksum"].as_str().and_then(read_md5);
    let md5 = md5.ok_or_else(|| wrong("a line has no checksum"))?;
    Ok(DataFile { path: folder.join(DATA).join(name), listed: Some(Listed { items, md5 }) })
}

impl DataFile {
    /// One that no manifest lists.
    pub(crate) fn alone(path: PathBuf) -> Self {
        Self { path, listed: None }
    }
}

/// One item of an export.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Where it is.
    pub file: PathBuf,
    /// From 1 on.
    pub number: usize,
    /// As long as the line is.
    pub bytes: usize,
    /// The item, or what is wrong with it.
    pub item: Result<Item, String>,
}

/// The items of an export, one after the other.
#[derive(Debug)]
pub struct Lines {
    files: vec::IntoIter<DataFile>,
    open: Option<OpenFile>,
    failed: bool,
}

impl Iterator for Lines {
    type Item = Result<Line, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = if self.failed { None } else { self.read().transpose() };
        self.failed |= matches!(next, Some(Err(_)));
        next
    }
}

impl Lines {
    fn read(&mut self) -> Result<Option<Line>, Error> {
        loop {
            let mut open = match self.open.take() {
                Some(open) => open,
                None => match self.files.next() {
                    Some(file) => OpenFile::open(file)?,
                    None => return Ok(None),
                },
            };
            if let Some(line) = open.next()? {
                self.open = Some(open);
                return Ok(Some(line));
            }
            open.check()?;
        }
    }
}

/// A file of which some lines have been read.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: DataFile,
    text: Text,
    number: usize,
    items: u64,
}

/// What a file says, whether it is compressed or not.
#[derive(Debug)]
enum Text {
    Plain(BufReader<Summed>),
    Gzip(Box<BufReader<MultiGzDecoder<BufReader<Summed>>>>),
}

/// A file, and the MD5 of what was read of it.
#[derive(Debug)]
struct Summed {
    file: File,
    md5: Md5,
}

impl DataFile {
    fn open(&self) -> Result<Summed, Error> {
        let opened = File::open(&self.path).map_err(|error| match (error.kind(), &self.listed) {
            (io::ErrorKind::NotFound, Some(_)) => Error::damaged(&self.path, "it is missing"),
            _ => Error::file("read", &self.path, &error),
        });
        Ok(Summed { file: opened?, md5: Md5::new() })
    }
}

impl Summed {
    /// Compares what was read, when that was all of it.
    fn check(self, path: &Path, listed: &Listed) -> Result<(), Error> {
        if self.md5.finalize().as_slice() == listed.md5 {
            return Ok(());
        }
        Err(Error::damaged(path, "its MD5 is not that of the manifest"))
    }
}

impl Read for Summed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(bytes)?;
        self.md5.update(&bytes[..read]);
        Ok(read)
    }
}

impl OpenFile {
    pub(crate) fn open(file: DataFile) -> Result<Self, Error> {
        let mut raw = BufReader::with_capacity(1 << 16, file.open()?);
        let begin = raw.fill_buf().map_err(|error| Error::file("read", &file.path, &error))?;
        let is_gzip = begin.starts_with(&[0x1f, 0x8b]);
        let text = match is_gzip {
            true => Text::Gzip(Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(raw)))),
            false => Text::Plain(raw),
        };
        Ok(Self { file, text, number: 0, items: 0 })
    }

    pub(crate) fn is_gzip(&self) -> bool {
        matches!(self.text, Text::Gzip(_))
    }

    /// The next line that is not empty.
    pub(crate) fn next_bytes(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let mut bytes = Vec::new();
            let text: &mut dyn BufRead = match &mut self.text {
                Text::Plain(text) => text,
                Text::Gzip(text) => text,
            };
            let read = text.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
            let read = read.map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                    Error::damaged(&self.file.path, error.to_string())
                }
                _ => Error::file("read", &self.file.path, &error),
            })?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if bytes.len() as u64 == LINE_BYTES_MAX {
                return Err(Error::damaged(&self.file.path, format!("line {} has no end", self.number)));
            }
            if !bytes.trim_ascii().is_empty() {
                return Ok(Some(bytes));
            }
        }
    }

    fn next(&mut self) -> Result<Option<Line>, Error> {
        let Some(bytes) = self.next_bytes()? else { return Ok(None) };
        self.items += 1;
        let item = larder_wire::decode_exported(&bytes).map_err(|error| error.to_string());
        let file = self.file.path.clone();
        Ok(Some(Line { file, number: self.number, bytes: bytes.len(), item }))
    }

    /// Compares what was read with what the manifest says, at the end of the file.
    fn check(self) -> Result<(), Error> {
        let Some(listed) = &self.file.listed else { return Ok(()) };
        let summed = match self.text {
            Text::Plain(raw) => raw.into_inner(),
            Text::Gzip(text) => text.into_inner().into_inner().into_inner(),
        };
        summed.check(&self.file.path, listed)?;
        if self.items != listed.items {
            let cause = format!("it has {} items, and the manifest says {}", self.items, listed.items);
            return Err(Error::damaged(&self.file.path, cause));
        }
        Ok(())
    }
}
