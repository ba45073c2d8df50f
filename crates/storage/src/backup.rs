//! Backups that outlive the store's file: a directory that holds any number of them.
//!
//! ```text
//! repository.json      what this is, and the wrapped key of an encrypted one
//! repository.2.json    the same once more
//! chunks/ab/ab12…      pieces of about 1 MiB, named by what they hold
//! backups/ID.json      one backup: its moment, and its chunks in order
//! segments/            what was committed since, if the store is archived here (`archive`)
//! lock                 held by who changes it
//! ```
//!
//! A backup is one snapshot, cut into chunks (`chunk.rs`). A chunk that is there already is read, and written again only if
//! it is not what it was; so a backup after the first writes what has changed, and is as whole as the first: any can be
//! removed.
//!
//! Promises:
//! - A backup is listed once all of it, what it shares with others too, is on disk and was read again; one that was interrupted is not there, and costs the
//!   others nothing.
//! - Every byte is under a checksum: [`Repository::verify`] finds any that changed, and restoring refuses it.
//! - The backup of an encrypted store is encrypted, and nothing in it can be changed unnoticed.
//! - Its files are for their owner alone.
//!
//! ```
//! use larder_storage::backup::{Repository, Request};
//! use larder_storage::{Batch, Options, Store};
//! # let place = tempfile::tempdir().unwrap();
//! # let (dir, new_dir) = (place.path().join("backups"), place.path().join("new"));
//!
//! let store = Store::memory(Options::default())?;
//! let mut batch = Batch::default();
//! batch.put(b"key".to_vec(), b"value".to_vec());
//! store.write(batch)?;
//!
//! let repository = Repository::open_or_create(&dir, None)?;
//! let made = repository.back_up(&store.snapshot(), Request { now_ms: 1_794_808_800_000, ..Request::default() }, &mut |_| ())?;
//!
//! let restored = Store::open(&new_dir, Options::default())?;
//! repository.restore(&made.manifest, &restored, &mut |_| ())?;
//! assert_eq!(&*restored.snapshot().get(b"key")?.expect("was backed up"), b"value");
//! # Ok::<(), larder_storage::Error>(())
//! ```

mod chunk;
mod folder;
mod manifest;
mod stream;
mod vault;

pub use chunk::{Chunk, Skipped};
pub use folder::Breaks;
pub use manifest::{Base, Manifest, rfc3339};
pub use stream::{Incoming, Outgoing};
pub use vault::Hash;

pub(crate) use folder::{Folder, Growing, Held, read_part};
pub(crate) use vault::{CONTENT_BYTES_MAX, Vault, fill, hex};

use crate::version::{self, BACKUPS as FORMAT, Found, Kind, LARDER, Newer};
use crate::{Batch, Error, Key, Snapshot, Store};
use chunk::{Cut, Cuts};
use manifest::Unread;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

const DESCRIPTION: &str = "repository.json";
const SECOND_DESCRIPTION: &str = "repository.2.json";
const BACKUPS: &str = "backups";
const MANIFEST_END: &str = ".json";
const LOCK: &str = "lock";
/// What is written to a restored store at once.
const BATCH_BYTES: usize = 8 << 20;

/// A directory of backups.
#[derive(Clone, Debug)]
pub struct Repository {
    folder: Folder,
    chunks: Folder,
    backups: Folder,
    vault: Vault,
}

/// How a backup is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// Leave out damaged values and list them, instead of stopping at the first.
    pub skip_damage: bool,
    /// Set by an archive.
    pub base: Option<Base>,
}

/// What a backup came to.
#[derive(Clone, Debug)]
pub struct Made {
    pub manifest: Manifest,
    /// Chunks that were not there yet, and the bytes written for them.
    pub new_chunks: u64,
    pub written_bytes: u64,
}

/// Which backups to keep: those that are kept by either.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// The newest so many.
    pub last: Option<usize>,
    /// Those made since, in milliseconds since 1970.
    pub since_ms: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub backups: Vec<String>,
    pub chunks: u64,
    pub bytes: u64,
}

/// What reading backups through found.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    pub backups: u64,
    pub chunks: u64,
    pub entries: u64,
    pub bytes: u64,
    /// Committed groups in an archive.
    pub groups: u64,
    /// Each names a file and what is wrong with it.
    pub problems: Vec<String>,
}

/// A backup's name, and the backup if it can be read.
pub(crate) type Listed = (String, Result<Manifest, Error>);

/// How far something is: entries and bytes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub entries: u64,
    pub bytes: u64,
}

impl Repository {
    /// Opens the backups in `dir`, or begins there if it is absent or empty; encrypted if there is a key.
    pub fn open_or_create(dir: &Path, key: Option<Key>) -> Result<Self, Error> {
        Self::open_or_create_with(dir, key, Breaks::default())
    }

    /// The same, with files that can be made to fail.
    pub fn open_or_create_with(dir: &Path, key: Option<Key>, breaks: Breaks) -> Result<Self, Error> {
        let folder = Folder::new(dir, breaks);
        folder.create()?;
        if !is_begun(&folder)? {
            let _lock = folder.lock(LOCK)?;
            // Another may have come first.
            if !is_begun(&folder)? {
                describe_new(&folder, key)?;
            }
        }
        Self::open_folder(folder, key)
    }

    /// Opens the backups in `dir`.
    pub fn open(dir: &Path, key: Option<Key>) -> Result<Self, Error> {
        Self::open_folder(Folder::new(dir, Breaks::default()), key)
    }

    fn open_folder(folder: Folder, key: Option<Key>) -> Result<Self, Error> {
        let wrapped = read_description(&folder)?.wrapped;
        let vault = match (wrapped, key) {
            (None, None) => Vault::Plain,
            (None, Some(_)) => {
                return Err(unfit(
                    folder.path(),
                    "its backups are not encrypted: leave out the key, or choose another directory for an encrypted store",
                ));
            }
            (Some(_), None) => {
                return Err(unfit(
                    folder.path(),
                    "its backups are encrypted: name the file of their key in LARDER_KEY_FILE, or put the key into \
                     LARDER_KEY",
                ));
            }
            (Some(wrapped), Some(key)) => Vault::unwrap(&wrapped, key).ok_or_else(|| {
                unfit(folder.path(), "the key is not the one its backups are encrypted with: give that one")
            })?,
        };
        Ok(Self { chunks: folder.child("chunks"), backups: folder.child(BACKUPS), folder, vault })
    }

    /// Whether there are, or were, backups in `dir`.
    pub fn is_in(dir: &Path) -> bool {
        is_begun(&Folder::new(dir, Breaks::default())).unwrap_or(false)
    }

    /// Puts the key of encrypted backups under another master key.
    pub fn rekey(dir: &Path, old: Key, new: Key) -> Result<(), Error> {
        let repository = Self::open(dir, Some(old))?;
        let _lock = repository.folder.lock(LOCK)?;
        describe(&repository.folder, repository.vault.wrap(new).as_deref())
    }

    /// Whether its backups are encrypted.
    pub fn is_sealed(&self) -> bool {
        self.vault.is_sealed()
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn vault(&self) -> &Vault {
        &self.vault
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// All backups, oldest first. One whose manifest is damaged is what is wrong with it.
    pub fn list(&self) -> Result<Vec<Result<Manifest, Error>>, Error> {
        let mut found: Vec<_> = self.list_by_name()?.into_iter().map(|(_, found)| found).collect();
        found.sort_by_key(|found| found.as_ref().map_or(0, |manifest| manifest.made_ms));
        Ok(found)
    }

    /// The same, each with its name.
    pub(crate) fn list_by_name(&self) -> Result<Vec<Listed>, Error> {
        let names = self.backups.names()?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(MANIFEST_END));
        Ok(ids.map(|id| (id.to_owned(), self.manifest(id))).collect())
    }

    /// One backup by its name.
    pub fn manifest(&self, id: &str) -> Result<Manifest, Error> {
        let name = format!("{id}{MANIFEST_END}");
        let path = self.backups.file(&name);
        // A name from outside must not lead elsewhere.
        let is_name = id.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
        let text = if is_name { self.backups.read(&name)? } else { None };
        let Some(text) = text else {
            return Err(unfit(self.path(), &format!("there is no backup {id} in it")));
        };
        let manifest = Manifest::from_text(&text, &self.vault).map_err(|unread| match unread {
            Unread::Newer { found, writer } => newer(path.clone(), found, version::BACKUP, writer),
            Unread::Wrong(cause) => unfit(&path, &cause),
        })?;
        if manifest.id != id {
            return Err(unfit(&path, &format!("it is of the backup {}", manifest.id)));
        }
        Ok(manifest)
    }

    /// Makes a backup of one state of a store.
    pub fn back_up(
        &self,
        snapshot: &Snapshot,
        request: Request,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Made, Error> {
        let mut writer = self.begin()?;
        let mut cuts = Cuts::new(snapshot, request.skip_damage);
        for cut in cuts.by_ref() {
            writer.add(cut?)?;
            progress(writer.progress);
        }
        writer.skipped = cuts.skipped;
        writer.finish(snapshot.position(), request)
    }

    /// Makes the second description like the first, or the first like the second.
    fn keep_description_twice(&self) -> Result<(), Error> {
        let wrapped = read_description(&self.folder)?.wrapped;
        match self.broken_descriptions(wrapped.as_deref()).next() {
            Some(_) => describe(&self.folder, wrapped.as_deref()),
            None => Ok(()),
        }
    }

    /// Those that are not there, or not what they should be.
    fn broken_descriptions(&self, wrapped: Option<&str>) -> impl Iterator<Item = &'static str> + use<'_> {
        let wrapped = wrapped.map(str::to_owned);
        let is_whole = move |name: &str| {
            let Ok(Some(text)) = self.folder.read(name) else { return false };
            matches!(Description::read(&text), Description::Whole(found, writer)
                if found == wrapped && text == description(found.as_deref(), writer.as_deref()).as_bytes())
        };
        [DESCRIPTION, SECOND_DESCRIPTION].into_iter().filter(move |name| !is_whole(name))
    }

    pub(crate) fn begin(&self) -> Result<Writer, Error> {
        let lock = self.folder.lock(LOCK)?;
        self.chunks.create()?;
        self.backups.create()?;
        self.backups.tidy()?;
        self.keep_description_twice()?;
        for place in self.chunk_folders()? {
            place.tidy()?;
        }
        Ok(Writer {
            repository: self.clone(),
            _lock: lock,
            chunks: Vec::new(),
            new: Vec::new(),
            places: BTreeMap::new(),
            written_bytes: 0,
            skipped: Vec::new(),
            progress: Progress::default(),
        })
    }

    /// Writes what a backup holds into a store, which should be empty.
    pub fn restore(
        &self,
        manifest: &Manifest,
        into: &Store,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let mut done = Progress::default();
        let mut batch = Batch::default();
        for chunk in &manifest.chunks {
            let content = self.content(chunk)?;
            for entry in chunk::entries(&content) {
                let (key, value) = entry.map_err(|cause| self.damaged(chunk, cause))?;
                batch.put(key.to_vec(), value.to_vec());
                if batch.bytes() >= BATCH_BYTES {
                    into.write(std::mem::take(&mut batch))?;
                }
            }
            done.entries += chunk.entries;
            done.bytes += chunk.bytes;
            progress(done);
        }
        into.write(batch)
    }

    /// Reads backups through, or one of them. Nothing is changed.
    pub fn verify(&self, id: Option<&str>, progress: &mut dyn FnMut(Progress)) -> Result<Verified, Error> {
        let mut verified = Verified::default();
        let wrapped = read_description(&self.folder)?.wrapped;
        verified.problems.extend(self.broken_descriptions(wrapped.as_deref()).map(|name| {
            let path = self.folder.file(name);
            format!("{}: it is not whole; the next backup writes it again", path.display())
        }));
        let mut seen = HashSet::new();
        let mut done = Progress::default();
        let found = match id {
            Some(id) => vec![self.manifest(id)],
            None => self.list()?,
        };
        for manifest in found {
            let manifest = match manifest {
                Ok(manifest) => manifest,
                Err(error) => {
                    verified.problems.push(error.to_string());
                    continue;
                }
            };
            verified.backups += 1;
            for chunk in &manifest.chunks {
                if !seen.insert(chunk.hash) {
                    continue;
                }
                match self.content(chunk) {
                    Ok(_) => {
                        verified.chunks += 1;
                        verified.entries += chunk.entries;
                        verified.bytes += chunk.bytes;
                    }
                    Err(error) => verified.problems.push(format!("{error} (of backup {})", manifest.id)),
                }
                done.entries += chunk.entries;
                done.bytes += chunk.bytes;
                progress(done);
            }
        }
        Ok(verified)
    }

    /// Removes backups that are not to be kept, and chunks that none needs. Those of an archive are the archive's to
    /// remove.
    pub fn prune(&self, keep: Keep) -> Result<Pruned, Error> {
        let found = self.list()?.into_iter().collect::<Result<Vec<_>, _>>()?;
        let own: Vec<Manifest> = found.into_iter().filter(|manifest| manifest.base.is_none()).collect();
        let last = own.len().saturating_sub(keep.last.unwrap_or_default());
        let is_kept = |(n, manifest): &(usize, &Manifest)| {
            *n >= last || keep.since_ms.is_some_and(|since| manifest.made_ms >= since)
        };
        let removed =
            own.iter().enumerate().filter(|found| !is_kept(found)).map(|(_, manifest)| manifest.id.clone());
        self.remove(&removed.collect::<Vec<_>>())
    }

    /// Removes backups, and chunks that none needs.
    pub(crate) fn remove(&self, ids: &[String]) -> Result<Pruned, Error> {
        let _lock = self.folder.lock(LOCK)?;
        for id in ids {
            self.backups.remove(&format!("{id}{MANIFEST_END}"))?;
        }
        // First the lists, for good: a list must never name what is gone.
        if !ids.is_empty() {
            self.backups.sync()?;
        }
        let mut pruned = Pruned { backups: ids.to_vec(), ..Pruned::default() };
        let mut needed = HashSet::new();
        for manifest in self.list()? {
            needed.extend(manifest?.chunks.iter().map(|chunk| self.vault.name(&chunk.hash).to_string()));
        }
        for place in self.chunk_folders()? {
            place.tidy()?;
            for name in place.names()?.iter().filter(|name| !needed.contains(*name)) {
                pruned.bytes += place.bytes(name)?.unwrap_or_default();
                pruned.chunks += 1;
                place.remove(name)?;
            }
        }
        Ok(pruned)
    }

    /// The hashes of what the newest backup holds, as far as it can be read, for who asks a server elsewhere for the rest.
    pub fn known(&self) -> Result<Vec<Hash>, Error> {
        let newest = self.list()?.into_iter().rev().find_map(Result::ok);
        let chunks = newest.map(|manifest| manifest.chunks).unwrap_or_default();
        let whole = chunks.iter().filter(|chunk| self.content(chunk).is_ok());
        Ok(whole.map(|chunk| chunk.hash).collect())
    }

    fn has(&self, hash: &Hash) -> Result<bool, Error> {
        let (place, name) = self.place(hash);
        Ok(place.bytes(&name)?.is_some())
    }

    fn chunk_folders(&self) -> Result<Vec<Folder>, Error> {
        Ok(self.chunks.names()?.iter().map(|name| self.chunks.child(name)).collect())
    }

    fn place(&self, hash: &Hash) -> (Folder, String) {
        let name = self.vault.name(hash).to_string();
        (self.chunks.child(&name[..2]), name)
    }

    /// What a chunk holds, checked.
    fn content(&self, chunk: &Chunk) -> Result<Vec<u8>, Error> {
        let (place, name) = self.place(&chunk.hash);
        let Some(file) = place.read(&name)? else { return Err(self.damaged(chunk, "it is gone")) };
        let content = self.vault.open(name.as_bytes(), &file).map_err(|cause| self.damaged(chunk, cause))?;
        chunk::check(chunk, &content).map_err(|cause| self.damaged(chunk, cause))?;
        Ok(content)
    }

    fn damaged(&self, chunk: &Chunk, cause: &str) -> Error {
        let (place, name) = self.place(&chunk.hash);
        let next = "take another backup, or remove the file: the next backup writes it again if the store still has it";
        unfit(&place.file(&name), &format!("{cause}; {next}"))
    }
}

/// A backup that is being written. Dropped before it is finished, it is none.
#[derive(Debug)]
pub(crate) struct Writer {
    repository: Repository,
    _lock: Held,
    chunks: Vec<Chunk>,
    /// Which of them were not there.
    new: Vec<usize>,
    /// Where files were added.
    places: BTreeMap<String, Folder>,
    written_bytes: u64,
    skipped: Vec<Skipped>,
    progress: Progress,
}

impl Writer {
    fn add(&mut self, cut: Cut) -> Result<(), Error> {
        let Cut { chunk, content } = cut;
        let (place, name) = self.repository.place(&chunk.hash);
        // One that is there may have changed since: whatever is wrong with it, its content is at hand.
        if self.repository.content(&chunk).is_err() {
            place.create()?;
            let file = self.repository.vault.close(name.as_bytes(), &content)?;
            place.put(&name, &file)?;
            self.written_bytes += file.len() as u64;
            self.new.push(self.chunks.len());
            self.places.insert(name[..2].to_owned(), place);
        }
        self.list(chunk);
        Ok(())
    }

    /// A chunk that [`Repository::known`] has read.
    fn reuse(&mut self, chunk: Chunk) -> Result<(), Error> {
        if !self.repository.has(&chunk.hash)? {
            return Err(self.repository.damaged(&chunk, "it is gone"));
        }
        self.list(chunk);
        Ok(())
    }

    fn list(&mut self, chunk: Chunk) {
        self.progress.entries += chunk.entries;
        self.progress.bytes += chunk.bytes;
        self.chunks.push(chunk);
    }

    /// A name that no other backup has: two can be made within a second.
    fn free_id(&self, request: Request, position: crate::Position) -> Result<String, Error> {
        let suffix = if request.base.is_some() { "-base" } else { "" };
        let first = format!("{}{suffix}", manifest::id(request.now_ms, position.commit));
        let mut id = first.clone();
        for n in 2.. {
            if self.repository.backups.bytes(&format!("{id}{MANIFEST_END}"))?.is_none() {
                break;
            }
            id = format!("{first}-{n}");
        }
        Ok(id)
    }

    fn finish(self, position: crate::Position, request: Request) -> Result<Made, Error> {
        for place in self.places.values() {
            place.sync()?;
        }
        if !self.places.is_empty() {
            self.repository.chunks.sync()?;
        }
        for n in &self.new {
            self.repository.content(&self.chunks[*n])?;
        }
        let manifest = Manifest {
            id: self.free_id(request, position)?,
            made_ms: request.now_ms,
            writer: Some(LARDER.to_owned()),
            position,
            base: request.base,
            entries: self.progress.entries,
            bytes: self.progress.bytes,
            chunks: self.chunks,
            skipped: self.skipped,
        };
        let text = manifest.to_text(&self.repository.vault)?;
        self.repository.backups.put(&format!("{}{MANIFEST_END}", manifest.id), text.as_bytes())?;
        self.repository.backups.sync()?;
        if self.repository.manifest(&manifest.id)? != manifest {
            return Err(unfit(self.repository.path(), "its manifest reads otherwise than it was written"));
        }
        Ok(Made { manifest, new_chunks: self.new.len() as u64, written_bytes: self.written_bytes })
    }
}

/// Something in a backup that cannot be used, and why.
pub(crate) fn unfit(path: &Path, cause: &str) -> Error {
    Error::Backup { path: path.to_owned(), cause: cause.to_owned() }
}

/// Something in a backup that a newer Larder wrote.
pub(crate) fn newer(path: PathBuf, found: u64, known: u64, writer: Option<String>) -> Error {
    Error::Newer(Box::new(Newer { path, found, known, writer }))
}

/// What the directory says of itself, and each backup in it, without the key.
pub(crate) fn told(dir: &Path) -> Result<Vec<Result<Found, Error>>, Error> {
    let folder = Folder::new(dir, Breaks::default());
    let mut found = Vec::new();
    match read_description(&folder) {
        Ok(described) => {
            let (path, kind) = (folder.file(DESCRIPTION), Kind::Backups);
            found.push(Ok(Found { path, kind, format: FORMAT, writer: described.writer }));
        }
        Err(Error::Newer(newer)) => {
            let Newer { path, found: format, writer, .. } = *newer;
            found.push(Ok(Found { path, kind: Kind::Backups, format, writer }));
        }
        Err(error) => found.push(Err(error)),
    }
    let backups = folder.child(BACKUPS);
    for name in manifests(&folder)? {
        let path = backups.file(&name);
        let told = backups.read(&name).map(|text| manifest::told(&text.unwrap_or_default()));
        found.push(match told {
            Ok(Some((format, writer))) => Ok(Found { path, kind: Kind::Backup, format, writer }),
            Ok(None) => Err(unfit(&path, "it does not say which format it has: it is damaged")),
            Err(error) => Err(error),
        });
    }
    Ok(found)
}

fn describe_new(folder: &Folder, key: Option<Key>) -> Result<(), Error> {
    let others = folder.names()?;
    if others.iter().any(|name| name != LOCK) {
        return Err(unfit(folder.path(), "it holds something else: choose an empty directory for backups"));
    }
    let wrapped = match key {
        Some(key) => Vault::random()?.wrap(key),
        None => None,
    };
    describe(folder, wrapped.as_deref())
}

fn describe(folder: &Folder, wrapped: Option<&str>) -> Result<(), Error> {
    for name in [DESCRIPTION, SECOND_DESCRIPTION] {
        folder.put(name, description(wrapped, Some(LARDER)).as_bytes())?;
        folder.sync()?;
    }
    Ok(())
}

fn description(wrapped: Option<&str>, writer: Option<&str>) -> String {
    let sum = description_sum(wrapped, writer);
    let mut text = json!({"what": "backups of a Larder store", "format": FORMAT, "key": wrapped, "sum": sum});
    // Those from before it was told have none.
    if let Some(writer) = writer {
        text["larder"] = json!(writer);
    }
    format!("{text:#}\n")
}

fn description_sum(wrapped: Option<&str>, writer: Option<&str>) -> String {
    Hash::of(&[wrapped, writer].map(|part| part.unwrap_or_default().as_bytes())).to_string()
}

/// Whether backups are kept here, or were meant to be.
fn is_begun(folder: &Folder) -> Result<bool, Error> {
    let described = folder.bytes(DESCRIPTION)?.is_some() || folder.bytes(SECOND_DESCRIPTION)?.is_some();
    Ok(described || !manifests(folder)?.is_empty())
}

fn manifests(folder: &Folder) -> Result<Vec<String>, Error> {
    let mut names = folder.child(BACKUPS).names()?;
    names.retain(|name| name.ends_with(MANIFEST_END));
    Ok(names)
}

/// What is known of a directory of backups.
#[derive(Clone, Debug, Default)]
struct Described {
    /// The wrapped key; none if there is no encryption.
    wrapped: Option<String>,
    writer: Option<String>,
}

/// From the copy that can be read.
fn read_description(folder: &Folder) -> Result<Described, Error> {
    let (mut whole, mut wrong) = (None, None);
    for name in [DESCRIPTION, SECOND_DESCRIPTION] {
        let cause = match folder.read(name) {
            Ok(None) => continue,
            Ok(Some(text)) => match Description::read(&text) {
                Description::Whole(wrapped, writer) => {
                    whole = whole.or(Some(Described { wrapped, writer }));
                    continue;
                }
                Description::Newer(found, writer) => {
                    return Err(newer(folder.file(name), found, FORMAT, writer));
                }
                Description::Damaged(cause) => cause.to_owned(),
            },
            // The disk may have lost the one and not the other.
            Err(error) => error.to_string(),
        };
        wrong = wrong.or(Some((name, cause)));
    }
    if let Some(described) = whole {
        return Ok(described);
    }
    // Without encryption it says nothing that its manifests do not.
    let backups = folder.child(BACKUPS);
    for name in manifests(folder)? {
        let text = backups.read(&name)?.unwrap_or_default();
        match Manifest::from_text(&text, &Vault::Plain) {
            Ok(_) => return Ok(Described::default()),
            Err(Unread::Newer { found, writer }) => {
                return Err(newer(backups.file(&name), found, version::BACKUP, writer));
            }
            Err(Unread::Wrong(_)) => {}
        }
        wrong = wrong.or(Some((DESCRIPTION, "it is gone".to_owned())));
    }
    Err(match wrong {
        Some((name, cause)) => {
            let next = "put the file back from a copy of the directory: it has the key of the backups";
            unfit(
                &folder.file(name),
                &format!("{cause}, and {SECOND_DESCRIPTION} cannot be read either; {next}"),
            )
        }
        None => unfit(folder.path(), "there are no backups in it"),
    })
}

enum Description {
    /// With the wrapped key, unless the backups are not encrypted, and who wrote it.
    Whole(Option<String>, Option<String>),
    /// Its format, and who wrote it.
    Newer(u64, Option<String>),
    Damaged(&'static str),
}

impl Description {
    fn read(text: &[u8]) -> Self {
        let Ok(fields) = serde_json::from_slice::<Value>(text) else { return Self::Damaged("it is damaged") };
        let writer = fields["larder"].as_str().and_then(version::version);
        match fields["format"].as_u64() {
            None => return Self::Damaged("it has no \"format\""),
            Some(format) if format > FORMAT => return Self::Newer(format, writer),
            Some(_) => {}
        }
        let key = fields["key"].as_str().map(str::to_owned);
        let sum = description_sum(key.as_deref(), writer.as_deref());
        if fields["sum"].as_str() != Some(&sum) || (key.is_none() && !fields["key"].is_null()) {
            return Self::Damaged("its checksum does not match");
        }
        Self::Whole(key, writer)
    }
}
