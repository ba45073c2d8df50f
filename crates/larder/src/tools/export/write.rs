//! An export as it is written: beside its place, and put there whole at the end.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use larder_model::{Item, UnixTime};
use md5::{Digest as _, Md5};
use serde_json::json;
use tempfile::TempDir;

use super::{DATA, Error, FILES, FOLDER, FORMAT, FULL, SUMMARY};

/// Text of one file, before it is compressed.
const FILE_BYTES: usize = 64 << 20;
/// The version of the format that DynamoDB names.
const VERSION: &str = "2020-06-30";

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

/// An export that is being written. Dropped before its end, it leaves nothing.
#[derive(Debug)]
pub struct Exporting {
    draft: TempDir,
    above: PathBuf,
    id: String,
    table_arn: String,
    table_id: Option<String>,
    started: UnixTime,
    file: Option<DataFile>,
    /// A line of the manifest for each file that is whole.
    files: Vec<String>,
    items: u64,
    bytes: u64,
    line: Vec<u8>,
}

impl Exporting {
    /// Begins an export below a folder, which is made if it is missing. Only its owner can read what is written.
    pub fn begin(
        folder: &Path,
        table_arn: &str,
        table_id: Option<&str>,
        now: UnixTime,
    ) -> Result<Self, Error> {
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
            id: format!("{:014}-{:08x}", now.millis(), fastrand::u32(..)),
            table_arn: table_arn.to_owned(),
            table_id: table_id.map(str::to_owned),
            started: now,
            file: None,
            files: Vec::new(),
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
        let mut file = match self.file.take() {
            Some(file) => file,
            None => DataFile::create(&self.draft.path().join(DATA))?,
        };
        self.line.clear();
        larder_wire::encode_exported(&mut self.line, item);
        self.line.push(b'\n');
        file.write(&self.line)?;
        self.items += 1;
        self.bytes += item.size() as u64;
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
            "dataFileS3Key": self.key(&format!("{DATA}/{name}")),
        });
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
        let moment = |time: UnixTime| format!("{}Z", time.to_label());
        let summary = json!({
            "version": VERSION,
            "exportArn": format!("{}/export/{}", self.table_arn, self.id),
            "startTime": moment(self.started),
            "endTime": moment(now),
            "tableArn": self.table_arn,
            "tableId": self.table_id,
            "exportTime": moment(self.started),
            "s3Bucket": null,
            "s3Prefix": null,
            "s3SseAlgorithm": null,
            "s3SseKmsKeyId": null,
            "manifestFilesS3Key": self.key(&format!("{FILES}.json")),
            "billedSizeBytes": self.bytes,
            "itemCount": self.items,
            "outputFormat": FORMAT,
            "exportType": FULL,
        });
        self.manifest(FILES, &self.files.concat())?;
        self.manifest(SUMMARY, &summary.to_string())?;
        let draft = self.draft.path();
        write_file(&draft.join("_started"), b"")?;
        sync(&draft.join(DATA))?;
        sync(draft)?;
        let folder = self.above.join(&self.id);
        fs::rename(draft, &folder).map_err(|error| Error::file("make", &folder, &error))?;
        sync(&self.above)?;
        Ok(Exported { folder, items: self.items, bytes: self.bytes, files: self.files.len() })
    }

    fn key(&self, name: &str) -> String {
        format!("{FOLDER}/{}/{name}", self.id)
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
