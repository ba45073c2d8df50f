//! A store from an archive: a base, and what was committed after it, up to a moment.

use super::SEGMENTS;
use super::segment::{self, Next, Reader};
use crate::backup::{Manifest, Progress, Repository, Verified, rfc3339, unfit};
use crate::{Batch, Error, Position, Store};
use std::collections::BTreeSet;

/// What is written to a store at once.
const BATCH_BYTES: usize = 8 << 20;

/// How far back to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// All that is there.
    Latest,
    /// What was committed up to this moment, in milliseconds since 1970.
    Time(u64),
    /// What was committed up to this number, of the newest line that has it.
    Commit(u64),
}

/// What a store was rebuilt to.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The backup it began with.
    pub base: String,
    /// The last commit that is in it, as the lost store numbered it.
    pub position: Position,
    /// Up to when the archive knows of every commit.
    pub known_until_ms: u64,
    /// Groups that were committed after the base.
    pub groups: u64,
    /// What is worth knowing: where the archive ends before the moment asked for, or ends within a frame.
    pub notes: Vec<String>,
}

/// Writes into a store, which should be empty, what the archive in a repository holds.
pub fn rebuild(
    repository: &Repository,
    until: Until,
    into: &Store,
    progress: &mut dyn FnMut(Progress),
) -> Result<Rebuilt, Error> {
    let base = base(repository, until)?;
    let mut done = Progress::default();
    repository.restore(&base, into, &mut |now| {
        done = now;
        progress(now);
    })?;
    let mut batch = Batch::default();
    let mut walked = walk(repository, &base, until, |group| {
        for (key, value) in &group.changes {
            match value {
                Some(value) => batch.put(key.to_vec(), value.to_vec()),
                None => batch.delete(key.to_vec()),
            }
            done.entries += 1;
            done.bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        }
        if batch.bytes() >= BATCH_BYTES {
            into.write(std::mem::take(&mut batch))?;
            progress(done);
        }
        Ok(())
    })?;
    into.write(batch)?;
    let reached = match until {
        Until::Latest => true,
        Until::Time(time_ms) => walked.known_until_ms >= time_ms,
        Until::Commit(commit) => walked.position.commit >= commit,
    };
    if !reached {
        walked.notes.push(format!(
            "the archive knows of no commit after {} (number {}): what was committed from then on is not in it",
            rfc3339(walked.known_until_ms),
            walked.position.commit
        ));
    }
    Ok(walked)
}

/// Whether a repository has an archive that a store could be rebuilt from.
pub fn is_in(repository: &Repository) -> Result<bool, Error> {
    Ok(repository.list()?.into_iter().flatten().any(|manifest| manifest.base.is_some()))
}

/// The newest base from which the moment can be reached.
fn base(repository: &Repository, until: Until) -> Result<Manifest, Error> {
    let mut bases: Vec<Manifest> =
        repository.list()?.into_iter().flatten().filter(|manifest| manifest.base.is_some()).collect();
    bases.sort_by_key(|manifest| (manifest.base.map(|base| base.line), manifest.position.commit));
    let first_ms = bases.iter().filter_map(|manifest| manifest.base).map(|base| base.from_ms).min();
    let fits = |manifest: &Manifest| match until {
        Until::Latest => true,
        Until::Time(time_ms) => manifest.base.is_some_and(|base| base.from_ms <= time_ms),
        Until::Commit(commit) => manifest.position.commit <= commit,
    };
    bases.into_iter().rfind(fits).ok_or_else(|| {
        let cause = match first_ms {
            None => "there is no archive in it".to_owned(),
            Some(first_ms) => format!("its archive begins at {}: ask for a later moment", rfc3339(first_ms)),
        };
        unfit(repository.path(), &cause)
    })
}

/// Goes through what was committed after a base, in order.
fn walk(
    repository: &Repository,
    base: &Manifest,
    until: Until,
    mut visit: impl FnMut(&segment::Group<'_>) -> Result<(), Error>,
) -> Result<Rebuilt, Error> {
    let folder = repository.folder().child(SEGMENTS);
    let line = base.base.map(|base| base.line).unwrap_or_default();
    let segments: Vec<_> = segment::named(&folder)?.into_iter().filter(|named| named.line == line).collect();
    let mut found = Rebuilt {
        base: base.id.clone(),
        position: base.position,
        known_until_ms: base.base.map_or(0, |base| base.from_ms).max(base.position.time_ms),
        groups: 0,
        notes: Vec::new(),
    };
    let mut torn = None;
    for (n, named) in segments.iter().enumerate() {
        // Another follows that begins where the base is, or before.
        if segments.get(n + 1).is_some_and(|next| next.after <= base.position.commit) {
            continue;
        }
        let Some(mut reader) = Reader::open(&folder, &named.name, repository.vault())? else { continue };
        if reader.line != line || reader.after.commit != named.after {
            return Err(unfit(reader.path(), "it is another segment than its name says"));
        }
        if reader.after.commit > found.position.commit {
            let (have, next) = (found.position.commit, reader.after.commit);
            return Err(unfit(
                reader.path(),
                &format!("the commits after {have} up to {next} are missing before it"),
            ));
        }
        torn = None;
        loop {
            let frame = match reader.next()? {
                Next::Frame(frame) => frame,
                Next::End => break,
                Next::Torn => {
                    torn = Some(format!(
                        "{} ends with bytes that are not whole: they were being written when the machine stopped, or are \
                         damaged",
                        reader.path().display()
                    ));
                    break;
                }
            };
            if frame.last.commit < found.position.commit {
                continue;
            }
            let groups = frame.groups().ok_or_else(|| unfit(reader.path(), "it makes no sense"))?;
            for group in groups.iter().filter(|group| group.position.commit > base.position.commit) {
                if group.position.commit <= found.position.commit {
                    continue;
                }
                if group.position.commit != found.position.commit + 1 {
                    let missing = format!("commit {} is missing in it", found.position.commit + 1);
                    return Err(unfit(reader.path(), &missing));
                }
                let past = match until {
                    Until::Latest => false,
                    Until::Time(time_ms) => group.position.time_ms > time_ms,
                    Until::Commit(commit) => group.position.commit > commit,
                };
                if past {
                    found.known_until_ms = found.known_until_ms.max(group.position.time_ms);
                    return Ok(found);
                }
                visit(group)?;
                found.groups += 1;
                found.position = group.position;
            }
            found.known_until_ms = found.known_until_ms.max(frame.last.time_ms);
        }
    }
    found.notes.extend(torn);
    Ok(found)
}

/// Reads an archive through: every segment, and that no commit is missing after the first base of each line. Nothing is
/// changed.
pub fn verify(repository: &Repository, verified: &mut Verified) -> Result<(), Error> {
    let folder = repository.folder().child(SEGMENTS);
    let mut bases: Vec<Manifest> =
        repository.list()?.into_iter().flatten().filter(|manifest| manifest.base.is_some()).collect();
    bases.sort_by_key(|manifest| (manifest.base.map(|base| base.line), manifest.position.commit));
    let mut lines = BTreeSet::new();
    for base in &bases {
        // From the first base of a line on everything is there; so it is from the others.
        if lines.insert(base.base.map(|base| base.line)) {
            let mut bytes = 0;
            let walked = walk(repository, base, Until::Latest, |group| {
                let of = |change: &(&[u8], Option<&[u8]>)| change.0.len() + change.1.map_or(0, <[u8]>::len);
                bytes += group.changes.iter().map(of).sum::<usize>() as u64;
                Ok(())
            });
            match walked {
                Ok(walked) => verified.groups += walked.groups,
                Err(error) => verified.problems.push(error.to_string()),
            }
            verified.bytes += bytes;
        }
    }
    for named in segment::named(&folder)?.iter().filter(|named| !lines.contains(&Some(named.line))) {
        // Its base is not there yet, or never came to be.
        if let Err(error) = Reader::open(&folder, &named.name, repository.vault()) {
            verified.problems.push(error.to_string());
        }
    }
    Ok(())
}
