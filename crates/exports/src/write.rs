//! An export as it is written: beside its place, and put there whole at the end.
//!
//! The files of an export of changes are in a folder that all of a bucket share; they are there before the manifest that names
//! them is.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use larder_engine::ExportedChange;
use larder_engine::ops::{self, ExportView};
use larder_model::{Item, UnixTime};
use md5::{Digest as _, Md5};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::{DATA, Error, FILES, FOLDER, FORMAT, FULL, INCREMENTAL, SUMMARY};

/// Text of one file, before it is compressed.
const FILE_BYTES: usize = 64 << 20;
/// The versions of the format that DynamoDB names.
const VERSION: &str = "2020-06-30";
const VERSION_OF_CHANGES: &str = "2023-08-01";

/// What was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The folder of this export, below the one that was asked for.
    pub folder: PathBuf,
    /// How many items.
    pub items: u64,
    /// Of the items, as DynamoDB counts them.
    pub bytes: u64,
    /// In how many files.
    pub files: usize,
}

/// What the manifest tells of an export.
#[derive(Clone, Debug)]
pub struct About {
    /// What its ARN ends with, and its folder is named.
    pub id: String,
    pub table_arn: String,
    pub table_id: Option<String>,
    pub started: UnixTime,
    pub bucket: Option<String>,
    pub prefix: Option<String>,
    /// How S3 is to encrypt it, and with which key.
    pub encryption: [Option<String>; 2],
    pub what: ops::Exported,
}

impl About {
    /// A table as it is, to be written into a folder of its own.
    pub fn table(table_arn: String, table_id: Option<String>, now: UnixTime) -> Self {
        Self {
            id: format!("{:014}-{:08x}", now.millis(), fastrand::u32(..)),
            table_arn,
            table_id,
            started: now,
            bucket: None,
            prefix: None,
            encryption: [None, None],
            what: ops::Exported::Table { at: now },
        }
    }

    /// The key of a file in the bucket.
    fn key(&self, name: &str) -> String {
        let prefix = self.prefix.as_deref().map(|prefix| prefix.trim_matches('/')).unwrap_or_default();
        let slash = if prefix.is_empty() { "" } else { "/" };
        format!("{prefix}{slash}{FOLDER}/{name}")
    }

    /// Where in the folder of exports its files of items are.
    fn data(&self) -> String {
        match self.what {
            ops::Exported::Table { .. } => format!("{}/{DATA}", self.id),
            ops::Exported::Changes { .. } => DATA.to_owned(),
        }
    }

    pub(crate) fn manifest_key(&self) -> String {
        self.key(&format!("{}/{SUMMARY}.json", self.id))
    }
}

/// An export that is being written. Dropped before its end, it leaves nothing.
#[derive(Debug)]
pub struct Exporting {
    draft: TempDir,
    above: PathBuf,
    about: About,
    file: Option<DataFile>,
    /// A line of the manifest for each file that is whole.
    files: Vec<String>,
    /// Their names.
    names: Vec<String>,
    items: u64,
    bytes: u64,
    line: Vec<u8>,
}

impl Exporting {
    /// Begins an export below a folder, which is made if it is missing. Only its owner can read what is written.
    pub fn begin(folder: &Path, about: About) -> Result<Self, Error> {
        let above = folder.join(FOLDER);
        fs::create_dir_all(&above).map_err(|error| Error::file("make", &above, &error))?;
        let owners = fs::Permissions::from_mode(0o700);
        let draft = tempfile::Builder::new().prefix(".draft-").permissions(owners).tempdir_in(&above);
        let draft = draft.map_err(|error| Error::file("write in", &above, &error))?;
        let data = draft.path().join(DATA);
        fs::create_dir(&data).map_err(|error| Error::file("make", &data, &error))?;
        Ok(Self {
            draft,
            above,
            about,
            file: None,
            files: Vec::new(),
            names: Vec::new(),
            items: 0,
            bytes: 0,
            line: Vec::new(),
        })
    }

    /// Items so far.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Adds an item.
    pub fn push(&mut self, item: &Item) -> Result<(), Error> {
        self.line.clear();
        larder_wire::encode_exported(&mut self.line, item);
        self.put_line(item.size())
    }

    /// Adds what became of an item.
    pub fn push_change(&mut self, change: &ExportedChange) -> Result<(), Error> {
        self.line.clear();
        larder_wire::encode_exported_change(&mut self.line, change);
        let images = [Some(&change.key), change.old.as_ref(), change.new.as_ref()];
        self.put_line(images.into_iter().flatten().map(Item::size).sum())
    }

    fn put_line(&mut self, bytes: usize) -> Result<(), Error> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => DataFile::create(&self.draft.path().join(DATA))?,
        };
        self.line.push(b'\n');
        file.write(&self.line)?;
        self.items += 1;
        self.bytes += bytes as u64;
        if file.text_bytes < FILE_BYTES {
            self.file = Some(file);
            return Ok(());
        }
        self.close(file)
    }

    fn close(&mut self, file: DataFile) -> Result<(), Error> {
        let (items, name, md5) = file.finish()?;
        let line = json!({
            "itemCount": items,
            "md5Checksum": STANDARD.encode(md5),
            // What S3 gives a file that is uploaded in one part.
            "etag": md5.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
            "dataFileS3Key": self.about.key(&format!("{}/{name}", self.about.data())),
        });
        self.names.push(name);
        self.files.push(format!("{line}\n"));
        Ok(())
    }

    /// Writes the manifests, and puts the export in its place.
    pub fn finish(mut self, now: UnixTime) -> Result<Exported, Error> {
        let last = match self.file.take() {
            // A table without items has a file without lines.
            None if self.files.is_empty() => Some(DataFile::create(&self.draft.path().join(DATA))?),
            last => last,
        };
        if let Some(file) = last {
            self.close(file)?;
        }
        self.manifest(FILES, &self.files.concat())?;
        self.manifest(SUMMARY, &self.summary(now).to_string())?;
        let draft = self.draft.path();
        write_file(&draft.join("_started"), b"")?;
        sync(&draft.join(DATA))?;
        if let ops::Exported::Changes { .. } = self.about.what {
            self.share_files()?;
        }
        sync(draft)?;
        let folder = self.above.join(&self.about.id);
        fs::rename(draft, &folder).map_err(|error| Error::file("make", &folder, &error))?;
        sync(&self.above)?;
        Ok(Exported { folder, items: self.items, bytes: self.bytes, files: self.files.len() })
    }

    /// Where its manifest is in the bucket.
    pub fn manifest_key(&self) -> String {
        self.about.manifest_key()
    }

    fn summary(&self, now: UnixTime) -> Json {
        let About { id, table_arn, table_id, started, bucket, prefix, encryption, what } = &self.about;
        let moment = |time: UnixTime| format!("{}Z", time.to_label());
        let mut summary = json!({
            "version": VERSION,
            "exportArn": format!("{table_arn}/export/{id}"),
            "startTime": moment(*started),
            "endTime": moment(now),
            "tableArn": table_arn,
            "tableId": table_id,
            "s3Bucket": bucket,
            "s3Prefix": prefix,
            "s3SseAlgorithm": encryption[0],
            "s3SseKmsKeyId": encryption[1],
            "manifestFilesS3Key": self.about.key(&format!("{id}/{FILES}.json")),
            "billedSizeBytes": self.bytes,
            "itemCount": self.items,
            "outputFormat": FORMAT,
        });
        match *what {
            ops::Exported::Table { at } => {
                summary["exportTime"] = moment(at).into();
                summary["exportType"] = FULL.into();
            }
            ops::Exported::Changes { from, to, view } => {
                summary["version"] = VERSION_OF_CHANGES.into();
                summary["exportFromTime"] = moment(from).into();
                summary["exportToTime"] = moment(to).into();
                summary["exportType"] = INCREMENTAL.into();
                let view = match view {
                    ExportView::New => "NEW_IMAGE",
                    ExportView::NewAndOld => "NEW_AND_OLD_IMAGES",
                };
                summary["outputView"] = view.into();
            }
        }
        summary
    }

    /// Brings the files to where those of all exports of changes are.
    fn share_files(&self) -> Result<(), Error> {
        let (draft, shared) = (self.draft.path().join(DATA), self.above.join(DATA));
        fs::create_dir_all(&shared).map_err(|error| Error::file("make", &shared, &error))?;
        for name in &self.names {
            let place = shared.join(name);
            fs::rename(draft.join(name), &place).map_err(|error| Error::file("make", &place, &error))?;
        }
        fs::remove_dir(&draft).map_err(|error| Error::file("remove", &draft, &error))?;
        sync(&shared)
    }

    /// Writes a manifest, and its checksum beside it.
    fn manifest(&self, name: &str, text: &str) -> Result<(), Error> {
        let draft = self.draft.path();
        write_file(&draft.join(format!("{name}.json")), text.as_bytes())?;
        let md5 = STANDARD.encode(Md5::digest(text.as_bytes()));
        write_file(&draft.join(format!("{name}.md5")), md5.as_bytes())
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let written = File::create_new(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|error| Error::file("write", path, &error))
}

fn sync(folder: &Path) -> Result<(), Error> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::file("write", folder, &error))
}

/// A file of items that is being written.
#[derive(Debug)]
struct DataFile {
    path: PathBuf,
    name: String,
    out: GzEncoder<BufWriter<Summed>>,
    items: u64,
    text_bytes: usize,
}

/// A file, and the MD5 of what was written to it.
#[derive(Debug)]
struct Summed {
    file: File,
    md5: Md5,
}

impl DataFile {
    fn create(folder: &Path) -> Result<Self, Error> {
        let name: String = (0..26).map(|_| fastrand::char('a'..='z')).collect::<String>() + ".json.gz";
        let path = folder.join(&name);
        let file = File::create_new(&path).map_err(|error| Error::file("write", &path, &error))?;
        let out = BufWriter::with_capacity(1 << 16, Summed { file, md5: Md5::new() });
        Ok(Self { path, name, out: GzEncoder::new(out, Compression::default()), items: 0, text_bytes: 0 })
    }

    fn write(&mut self, line: &[u8]) -> Result<(), Error> {
        self.out.write_all(line).map_err(|error| Error::file("write", &self.path, &error))?;
        self.items += 1;
        self.text_bytes += line.len();
        Ok(())
    }

    /// How many items it has, its name, and its MD5.
    fn finish(self) -> Result<(u64, String, [u8; 16]), Error> {
        let finished = self.out.finish().and_then(|out| out.into_inner().map_err(io::Error::from));
        let finished = finished.and_then(|summed| summed.file.sync_all().map(|()| summed.md5));
        let md5 = finished.map_err(|error| Error::file("write", &self.path, &error))?;
        Ok((self.items, self.name, md5.finalize().into()))
    }
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.md5.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
