//! What a backup consists of: one JSON file for people and programs, with a checksum over every byte of it.
//!
//! In an encrypted repository the list of chunks, and with it every key, is encrypted inside; outside stand the
//! moment, the counts and the sizes. The checksum is keyed then.

use super::chunk::{Chunk, Skipped};
use super::vault::{Hash, Vault, hex, unhex};
use crate::Position;
use crate::version::{self, BACKUP as FORMAT};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

const LABEL: &[u8] = b"manifest";
const SUM: &str = "  \"sum\": \"";
const SUM_END: &str = "\"\n}\n";

/// A backup, in words and numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub id: String,
    /// When it was begun, in milliseconds since 1970.
    pub made_ms: u64,
    /// The version of the Larder that made it; absent in those from before it was told.
    pub writer: Option<String>,
    /// The state of the store that it holds.
    pub position: Position,
    /// It is where an archive's line begins or goes on from (see `archive`).
    pub base: Option<Base>,
    pub entries: u64,
    /// Of keys and values.
    pub bytes: u64,
    pub chunks: Vec<Chunk>,
    /// What could not be read and is not in it.
    pub skipped: Vec<Skipped>,
}

/// What an archive needs to know of a backup that it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    pub line: u64,
    /// From this moment on it can be a start, in milliseconds since 1970.
    pub from_ms: u64,
}

/// Why one cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Of this format, which is a later one.
    Newer {
        found: u64,
        writer: Option<String>,
    },
    Wrong(String),
}

impl From<String> for Unread {
    fn from(cause: String) -> Self {
        Self::Wrong(cause)
    }
}

impl From<&str> for Unread {
    fn from(cause: &str) -> Self {
        Self::Wrong(cause.to_owned())
    }
}

impl Manifest {
    /// A hash over the hashes of all chunks.
    pub fn whole(&self) -> Hash {
        let hashes: Vec<&[u8]> = self.chunks.iter().map(|chunk| &chunk.hash.0[..]).collect();
        Hash::of(&hashes)
    }

    pub(crate) fn to_text(&self, vault: &Vault) -> Result<String, crate::Error> {
        let mut text = String::from("{\n");
        let mut field = |name: &str, value: Value| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "  \"{name}\": {value},");
        };
        field("format", json!(FORMAT));
        if let Some(writer) = &self.writer {
            field("larder", json!(writer));
        }
        field("id", json!(self.id));
        field("time", json!(rfc3339(self.made_ms)));
        field("time_ms", json!(self.made_ms));
        field("commit", json!(self.position.commit));
        field("run", json!(self.position.run));
        field("commit_time_ms", json!(self.position.time_ms));
        if let Some(base) = self.base {
            field("archive_line", json!(base.line));
            field("archive_from_ms", json!(base.from_ms));
        }
        field("entries", json!(self.entries));
        field("bytes", json!(self.bytes));
        field("chunk_count", json!(self.chunks.len()));
        let chunks = self.chunks.iter().map(chunk_json);
        let skipped = self.skipped.iter().map(skipped_json);
        if vault.is_sealed() {
            let lists = json!({
                "whole": self.whole().to_string(),
                "skipped": skipped.collect::<Vec<_>>(),
                "chunks": chunks.collect::<Vec<_>>(),
            });
            let sealed = vault.close(LABEL, lists.to_string().as_bytes())?;
            field("sealed", json!(BASE64.encode(sealed)));
        } else {
            field("whole", json!(self.whole().to_string()));
            for (name, list) in [("skipped", skipped.collect::<Vec<_>>()), ("chunks", chunks.collect())] {
                let lines: Vec<String> = list.iter().map(|line| format!("\n    {line}")).collect();
                let _ = writeln!(text, "  \"{name}\": [{}],", lines.join(","));
            }
        }
        let sum = vault.sum(&[text.as_bytes()]);
        text.push_str(SUM);
        let _ = write!(text, "{sum}{SUM_END}");
        Ok(text)
    }

    /// Reads one, or says what is wrong with it.
    pub(crate) fn from_text(text: &[u8], vault: &Vault) -> Result<Self, Unread> {
        let text = std::str::from_utf8(text).map_err(|_| "it is not text")?;
        let (body, sum) = text
            .strip_suffix(SUM_END)
            .and_then(|text| text.rsplit_once(SUM))
            .ok_or("it does not end with its checksum")?;
        if Hash::from_hex(sum) != Some(vault.sum(&[body.as_bytes()])) {
            let other = if vault.is_sealed() { ", or was not made with this key" } else { "" };
            return Err(format!("its checksum does not match: it was changed{other}").into());
        }
        let fields: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let number = |name: &str| {
            fields.get(name).and_then(Value::as_u64).ok_or_else(|| format!("it has no number \"{name}\""))
        };
        let format = number("format")?;
        let writer = fields.get("larder").and_then(Value::as_str).and_then(version::version);
        if format > FORMAT {
            return Err(Unread::Newer { found: format, writer });
        }
        let opened: Map<String, Value>;
        let lists = match fields.get("sealed") {
            None => &fields,
            Some(sealed) => {
                let sealed = sealed.as_str().and_then(|sealed| BASE64.decode(sealed).ok());
                let lists = vault.open(LABEL, &sealed.ok_or("its list of chunks cannot be read")?)?;
                opened = serde_json::from_slice(&lists).map_err(|error| error.to_string())?;
                &opened
            }
        };
        let manifest = Self {
            id: fields.get("id").and_then(Value::as_str).ok_or("it has no \"id\"")?.to_owned(),
            made_ms: number("time_ms")?,
            writer,
            position: Position {
                commit: number("commit")?,
                run: number("run")?,
                time_ms: number("commit_time_ms")?,
            },
            base: match fields.contains_key("archive_line") {
                true => Some(Base { line: number("archive_line")?, from_ms: number("archive_from_ms")? }),
                false => None,
            },
            entries: number("entries")?,
            bytes: number("bytes")?,
            chunks: list(lists, "chunks", chunk)?,
            skipped: list(lists, "skipped", skipped)?,
        };
        let rises = manifest.chunks.is_sorted_by(|a, b| a.last_key < b.first_key);
        let entries: u64 = manifest.chunks.iter().map(|chunk| chunk.entries).sum();
        if !rises || entries != manifest.entries {
            return Err("its chunks do not fit together".into());
        }
        let whole = lists.get("whole").and_then(Value::as_str);
        if whole != Some(manifest.whole().to_string().as_str()) {
            return Err("its list of chunks is not the one that was written".into());
        }
        Ok(manifest)
    }
}

/// The format of a backup and who made it, as its text says without the key; what it says is not checked.
pub(crate) fn told(text: &[u8]) -> Option<(u64, Option<String>)> {
    let fields: Map<String, Value> = serde_json::from_slice(text).ok()?;
    let writer = fields.get("larder").and_then(Value::as_str).and_then(version::version);
    Some((fields.get("format")?.as_u64()?, writer))
}

fn list<T>(
    fields: &Map<String, Value>,
    name: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<T>, String> {
    let found = fields.get(name).and_then(Value::as_array);
    found
        .and_then(|list| list.iter().map(read).collect())
        .ok_or_else(|| format!("its \"{name}\" make no sense"))
}

pub(crate) fn chunk_json(chunk: &Chunk) -> Value {
    json!({
        "hash": chunk.hash.to_string(),
        "entries": chunk.entries,
        "bytes": chunk.bytes,
        "first": hex(&chunk.first_key),
        "last": hex(&chunk.last_key),
    })
}

pub(crate) fn skipped_json(skipped: &Skipped) -> Value {
    json!({"key": hex(&skipped.key), "cause": skipped.cause})
}

pub(crate) fn skipped(value: &Value) -> Option<Skipped> {
    Some(Skipped { key: unhex(value["key"].as_str()?)?, cause: value["cause"].as_str()?.to_owned() })
}

pub(crate) fn chunk(value: &Value) -> Option<Chunk> {
    Some(Chunk {
        hash: Hash::from_hex(value["hash"].as_str()?)?,
        entries: value["entries"].as_u64()?,
        bytes: value["bytes"].as_u64()?,
        first_key: unhex(value["first"].as_str()?)?,
        last_key: unhex(value["last"].as_str()?)?,
    })
}

/// A moment as `2026-11-16T05:00:00Z`.
pub fn rfc3339(time_ms: u64) -> String {
    // Past the year 9999 the library would panic.
    let seconds = Duration::from_secs((time_ms / 1000).min(253_402_300_799));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + seconds).to_string()
}

/// The name of a backup: when it was made, in a form that sorts and can be a file's name.
pub(crate) fn id(time_ms: u64, commit: u64) -> String {
    let time: String = rfc3339(time_ms).chars().filter(|letter| !matches!(letter, '-' | ':')).collect();
    format!("{time}-{commit}")
}
