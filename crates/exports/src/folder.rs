//! A directory whose directories stand for buckets of S3.
//!
//! A bucket is there if its directory is; none is made. A key is a path below it, so that one with `.` or `..` between slashes,
//! which S3 takes for names like any other, names nothing here.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::vec;

use larder_engine::ops::{BucketPlace, ExportDescription, ImportCompression, ImportFormat, ImportSource};
use larder_engine::{
    Depot, DepotError, ExportWriter, ExportWritten, ExportedChange, ImportLine, ImportReader,
};
use larder_model::{Arn, Item, TableDefinition, UnixTime};

use super::Error;
use super::csv::Csv;
use super::read::{DataFile, OpenFile};
use super::write::{About, Exporting};

/// Objects of one import, as DynamoDB has it.
const OBJECTS_MAX: usize = 50_000;

/// Where a server's exports are written and its imports come from.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn bucket(&self, place: &BucketPlace) -> Result<PathBuf, DepotError> {
        let is_name = Path::new(&place.bucket).components().all(|part| matches!(part, Component::Normal(_)))
            && !place.bucket.contains('/');
        let path = self.path.join(&place.bucket);
        if !is_name || !path.is_dir() {
            let message = format!("The specified bucket does not exist: {} is no directory", path.display());
            return Err(DepotError::new("S3NoSuchBucket", message));
        }
        Ok(path)
    }
}

/// A prefix as a path.
fn below(bucket: &Path, prefix: Option<&str>) -> Result<PathBuf, DepotError> {
    let mut path = bucket.to_owned();
    for part in prefix.unwrap_or_default().split('/').filter(|part| !part.is_empty()) {
        let is_name = Path::new(part).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_name || part.contains('\0') {
            return Err(DepotError::new("S3InvalidPrefix", format!("`{part}` cannot be a directory")));
        }
        path.push(part);
    }
    Ok(path)
}

impl Depot for Folder {
    fn export(&self, export: &ExportDescription) -> Result<Box<dyn ExportWriter>, DepotError> {
        let bucket = self.bucket(&export.place)?;
        let folder = below(&bucket, export.place.prefix.as_deref())?;
        let id = export.table_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let uuid = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-");
        let about = About {
            id: export.id.clone(),
            table_arn: Arn::table(&export.table).to_string(),
            table_id: Some(uuid),
            started: export.started,
            bucket: Some(export.place.bucket.clone()),
            prefix: export.place.prefix.clone(),
            encryption: export.encryption.clone(),
            what: export.what,
        };
        Ok(Box::new(Writer(Exporting::begin(&folder, about).map_err(|error| failed(&error))?)))
    }

    fn import(
        &self,
        source: &ImportSource,
        table: &TableDefinition,
    ) -> Result<Box<dyn ImportReader>, DepotError> {
        let bucket = self.bucket(&source.place)?;
        let prefix = source.place.prefix.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        objects(&bucket, "", prefix, &mut found)?;
        if found.is_empty() {
            let message = format!("There is no object with the prefix `{prefix}` in {}", bucket.display());
            return Err(DepotError::new("S3NoSuchKey", message));
        }
        found.sort();
        let form = match &source.format {
            ImportFormat::DynamoDbJson => Form::Json,
            ImportFormat::Csv { delimiter, header } => {
                Form::Csv { csv: Csv::of(table, *delimiter), header: header.clone() }
            }
        };
        let is_gzip = source.compression == ImportCompression::Gzip;
        Ok(Box::new(Reader { files: found.into_iter(), open: None, form, is_gzip }))
    }
}

/// The files whose keys begin with a prefix.
fn objects(folder: &Path, key: &str, prefix: &str, found: &mut Vec<PathBuf>) -> Result<(), DepotError> {
    let read = |error| failed(&Error::file("read", folder, &error));
    for entry in fs::read_dir(folder).map_err(read)? {
        let entry = entry.map_err(read)?;
        let name = entry.file_name();
        // Drafts of exports, for one.
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let key = format!("{key}{name}");
        let kind = entry.file_type().map_err(read)?;
        if kind.is_dir() {
            let key = format!("{key}/");
            if key.starts_with(prefix) || prefix.starts_with(&key) {
                objects(&entry.path(), &key, prefix, found)?;
            }
        } else if kind.is_file() && key.starts_with(prefix) {
            found.push(entry.path());
            if found.len() > OBJECTS_MAX {
                let message = format!("There are more than {OBJECTS_MAX} objects with this prefix");
                return Err(DepotError::new("S3TooManyObjects", message));
            }
        }
    }
    Ok(())
}

fn failed(error: &Error) -> DepotError {
    let code = match error {
        Error::File { .. } => "S3AccessDenied",
        Error::Damaged { .. } | Error::Unfit { .. } => "ItemValidationError",
    };
    DepotError::new(code, error.to_string())
}

#[derive(Debug)]
struct Writer(Exporting);

impl ExportWriter for Writer {
    fn item(&mut self, item: &Item) -> Result<(), DepotError> {
        self.0.push(item).map_err(|error| failed(&error))
    }

    fn change(&mut self, change: &ExportedChange) -> Result<(), DepotError> {
        self.0.push_change(change).map_err(|error| failed(&error))
    }

    fn finish(self: Box<Self>, now: UnixTime) -> Result<ExportWritten, DepotError> {
        let manifest = self.0.manifest_key();
        let written = self.0.finish(now).map_err(|error| failed(&error))?;
        Ok(ExportWritten { manifest, items: written.items, bytes: written.bytes })
    }
}

/// The objects of an import, one after the other.
#[derive(Debug)]
struct Reader {
    files: vec::IntoIter<PathBuf>,
    open: Option<Open>,
    form: Form,
    is_gzip: bool,
}

#[derive(Debug)]
struct Open {
    file: OpenFile,
    /// What the values of its lines are named.
    header: Vec<String>,
}

#[derive(Debug)]
enum Form {
    Json,
    /// Without a header the first line of each file is one.
    Csv {
        csv: Csv,
        header: Option<Vec<String>>,
    },
}

impl ImportReader for Reader {
    /// What makes no sense of an object is one line of it, and the rest of it is passed over.
    fn next_line(&mut self) -> Result<Option<ImportLine>, DepotError> {
        loop {
            if self.open.is_none() {
                let Some(path) = self.files.next() else { return Ok(None) };
                match self.begin(&path) {
                    Ok(open) => self.open = open,
                    Err(error) => return wrong(&error),
                }
                continue;
            }
            let Some(open) = &mut self.open else { continue };
            match open.file.next_bytes() {
                Ok(Some(bytes)) => {
                    let item = match &self.form {
                        Form::Json => larder_wire::decode_exported(&bytes).map_err(|error| error.to_string()),
                        Form::Csv { csv, .. } => csv.item(&open.header, &bytes),
                    };
                    return Ok(Some(ImportLine { bytes: bytes.len() as u64, item }));
                }
                Ok(None) => self.open = None,
                Err(error) => {
                    self.open = None;
                    return wrong(&error);
                }
            }
        }
    }
}

/// A line that is none; a disk that fails ends the import.
fn wrong(error: &Error) -> Result<Option<ImportLine>, DepotError> {
    match error {
        Error::File { .. } => Err(failed(error)),
        Error::Damaged { .. } | Error::Unfit { .. } => {
            Ok(Some(ImportLine { bytes: 0, item: Err(error.to_string()) }))
        }
    }
}

impl Reader {
    fn begin(&self, path: &Path) -> Result<Option<Open>, Error> {
        let mut file = OpenFile::open(DataFile::alone(path.to_owned()))?;
        if file.is_gzip() != self.is_gzip {
            let cause = if self.is_gzip { "it is not packed with gzip" } else { "it is packed with gzip" };
            return Err(Error::unfit(path, cause));
        }
        let header = match &self.form {
            Form::Json => Vec::new(),
            Form::Csv { header: Some(header), .. } => header.clone(),
            Form::Csv { csv, header: None } => match file.next_bytes()? {
                Some(line) => csv.fields(&line).map_err(|cause| Error::unfit(path, cause))?,
                None => return Ok(None),
            },
        };
        Ok(Some(Open { file, header }))
    }
}
