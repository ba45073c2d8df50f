//! A backup on its way from a server to a repository elsewhere.
//!
//! The receiver first names the chunks that it has. The sender cuts one snapshot into chunks and sends, in order,
//! those that the receiver lacks; of the others it sends what they are. Both hold one chunk in memory.
//!
//! A message is a byte for its kind, its length (32 bits), and that many bytes.

use super::chunk::{Cut, Cuts};
use super::manifest::{chunk, chunk_json, skipped, skipped_json};
use super::{CONTENT_BYTES_MAX, Hash, Made, Progress, Repository, Request, Vault, Writer, unfit};
use crate::{Error, Position, Snapshot};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt;

const FORMAT: u64 = 1;
const LABEL: &[u8] = b"sent";
const HEADER_BYTES: usize = 5;

const BEGIN: u8 = 0;
/// A chunk that the receiver has.
const KNOWN: u8 = 1;
/// The length of the description (32 bits), the description, and the content.
const NEW: u8 = 2;
const SKIPPED: u8 = 3;
const END: u8 = 4;
const FAILED: u8 = 5;

/// The sending side: messages, each in a piece. Errors are the last message.
pub struct Outgoing {
    cuts: Option<Cuts>,
    begin: Option<Value>,
    known: HashSet<Hash>,
    entries: u64,
    told: usize,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outgoing")
    }
}

impl Outgoing {
    /// `known` is what [`Incoming::asks`] gave. `sealed` tells the receiver that the store is encrypted.
    pub fn new(snapshot: &Snapshot, known: &[u8], sealed: bool, request: Request) -> Self {
        let (known, _) = known.as_chunks::<32>();
        let position = snapshot.position();
        let begin = json!({
            "format": FORMAT,
            "sealed": sealed,
            "time_ms": request.now_ms,
            "commit": position.commit,
            "run": position.run,
            "commit_time_ms": position.time_ms,
        });
        Self {
            cuts: Some(Cuts::new(snapshot, request.skip_damage)),
            begin: Some(begin),
            known: known.iter().copied().map(Hash).collect(),
            entries: 0,
            told: 0,
        }
    }

    fn send(&mut self, cut: &Cut) -> Vec<u8> {
        self.entries += cut.chunk.entries;
        let description = chunk_json(&cut.chunk).to_string();
        if self.known.contains(&cut.chunk.hash) {
            return message(KNOWN, &[description.as_bytes()]);
        }
        match Vault::Plain.close(LABEL, &cut.content) {
            Ok(content) => {
                let length = (description.len() as u32).to_le_bytes();
                message(NEW, &[&length, description.as_bytes(), &content])
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &Error) -> Vec<u8> {
        self.cuts = None;
        message(FAILED, &[error.to_string().as_bytes()])
    }
}

impl Iterator for Outgoing {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(begin) = self.begin.take() {
            return Some(message(BEGIN, &[begin.to_string().as_bytes()]));
        }
        let cuts = self.cuts.as_mut()?;
        match cuts.next() {
            Some(Ok(cut)) => Some(self.send(&cut)),
            Some(Err(error)) => Some(self.fail(&error)),
            None => match cuts.skipped.get(self.told) {
                Some(damaged) => {
                    self.told += 1;
                    Some(message(SKIPPED, &[skipped_json(damaged).to_string().as_bytes()]))
                }
                None => {
                    self.cuts = None;
                    Some(message(END, &[json!({"entries": self.entries}).to_string().as_bytes()]))
                }
            },
        }
    }
}

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + length);
    bytes.push(kind);
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// The receiving side: takes bytes as they come and writes a backup.
#[derive(Debug)]
pub struct Incoming {
    writer: Option<Writer>,
    repository: Repository,
    known: Vec<Hash>,
    buffer: Vec<u8>,
    begun: Option<(Position, u64)>,
    made: Option<Made>,
}

impl Incoming {
    pub fn new(repository: &Repository) -> Result<Self, Error> {
        let writer = repository.begin()?;
        Ok(Self {
            writer: Some(writer),
            known: repository.known()?,
            repository: repository.clone(),
            buffer: Vec::new(),
            begun: None,
            made: None,
        })
    }

    /// What to tell the sender: what is there already.
    pub fn asks(&self) -> Vec<u8> {
        self.known.iter().flat_map(|hash| hash.0).collect()
    }

    /// Takes some bytes. Returns how far it is.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Progress, Error> {
        self.buffer.extend_from_slice(bytes);
        while let Some((kind, length)) = self.next_message()? {
            let rest = self.buffer.split_off(HEADER_BYTES + length);
            let taken = std::mem::replace(&mut self.buffer, rest);
            self.take(kind, &taken[HEADER_BYTES..])?;
        }
        Ok(self.writer.as_ref().map(|writer| writer.progress).unwrap_or_default())
    }

    /// What came of it, once all bytes are there.
    pub fn finish(self) -> Result<Made, Error> {
        self.made
            .ok_or_else(|| unfit(self.repository.path(), "the connection ended before the backup was whole"))
    }

    fn next_message(&self) -> Result<Option<(u8, usize)>, Error> {
        let Some((header, rest)) = self.buffer.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [kind, length @ ..] = *header;
        let length = u32::from_le_bytes(length) as usize;
        if kind > FAILED || length > CONTENT_BYTES_MAX {
            return Err(self.nonsense());
        }
        Ok((rest.len() >= length).then_some((kind, length)))
    }

    fn nonsense(&self) -> Error {
        unfit(
            self.repository.path(),
            "what was sent is not a backup: is this a Larder server of the same version?",
        )
    }

    fn take(&mut self, kind: u8, body: &[u8]) -> Result<(), Error> {
        let (mut description, mut content) = (body, &[][..]);
        if kind == NEW {
            let split = body
                .split_first_chunk()
                .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
            (description, content) = split.ok_or_else(|| self.nonsense())?;
        }
        if kind == FAILED {
            return Err(unfit(
                self.repository.path(),
                &format!("the server says: {}", String::from_utf8_lossy(body)),
            ));
        }
        let told: Value = serde_json::from_slice(description).map_err(|_| self.nonsense())?;
        if kind == BEGIN {
            return self.begin(&told);
        }
        let nonsense = self.nonsense();
        let (Some(writer), Some((position, now_ms))) = (&mut self.writer, self.begun) else {
            return Err(nonsense);
        };
        match kind {
            KNOWN => writer.reuse(chunk(&told).ok_or(nonsense)?)?,
            NEW => {
                let chunk = chunk(&told).ok_or(nonsense)?;
                let damaged =
                    |cause| unfit(self.repository.path(), &format!("a chunk came damaged: {cause}"));
                let content = Vault::Plain.open(LABEL, content).map_err(damaged)?;
                super::chunk::check(&chunk, &content).map_err(damaged)?;
                writer.add(Cut { chunk, content })?;
            }
            SKIPPED => writer.skipped.push(skipped(&told).ok_or(nonsense)?),
            _ => {
                if told["entries"].as_u64() != Some(writer.progress.entries) {
                    return Err(nonsense);
                }
                let writer = self.writer.take().ok_or(nonsense)?;
                self.made = Some(writer.finish(position, Request { now_ms, ..Request::default() })?);
            }
        }
        Ok(())
    }

    fn begin(&mut self, told: &Value) -> Result<(), Error> {
        let number = |name: &str| told[name].as_u64().ok_or_else(|| self.nonsense());
        if number("format")? != FORMAT || self.begun.is_some() {
            return Err(self.nonsense());
        }
        if told["sealed"] != json!(false) && !self.repository.is_sealed() {
            return Err(unfit(
                self.repository.path(),
                "the store is encrypted and this directory is not: name the file of a key for the backups in \
                 LARDER_KEY_FILE, and choose an empty directory",
            ));
        }
        let position =
            Position { commit: number("commit")?, run: number("run")?, time_ms: number("commit_time_ms")? };
        self.begun = Some((position, number("time_ms")?));
        Ok(())
    }
}
