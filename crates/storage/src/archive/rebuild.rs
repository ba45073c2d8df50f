//! A store from an archive: a base, and what was committed after it, up to a moment.
//!
//! Moments are what the clock said, and a clock that was ahead is set back: then later commits have earlier times. A store at a
//! moment is the store after the last commit, in the order of commits, that was made by then.
//!
//! Promises:
//! - What is missing of what was asked for is an error, or is told in [`Rebuilt::missing`].
//! - No line is taken for another: commits whose base cannot be read are never passed over in silence.

use super::SEGMENTS;
use super::segment::{self, Group, Named, Next, Reader};
use crate::backup::{Folder, Manifest, Progress, Repository, Skipped, Verified, rfc3339, unfit};
use crate::{Batch, Error, Position, Store};
use std::collections::BTreeMap;

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
    /// What should be in the store and is not.
    pub missing: Vec<String>,
}

/// Writes into a store, which should be empty, what the archive in a repository holds.
pub fn rebuild(
    repository: &Repository,
    until: Until,
    into: &Store,
    progress: &mut dyn FnMut(Progress),
) -> Result<Rebuilt, Error> {
    let archive = Lines::read(repository)?;
    let Target { line, base, commit, mut notes } = archive.target(until)?;
    let mut done = Progress::default();
    repository.restore(base, into, &mut |now| {
        done = now;
        progress(now);
    })?;
    let mut batch = Batch::default();
    let walked = archive.walk(line, base, |group| {
        if commit.is_some_and(|commit| group.position.commit > commit) {
            return Ok(false);
        }
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
        Ok(true)
    })?;
    into.write(batch)?;
    let reached = match until {
        Until::Latest => true,
        Until::Time(time_ms) => walked.known_until_ms >= time_ms,
        Until::Commit(commit) => walked.position.commit >= commit,
    };
    if !reached {
        notes.push(format!(
            "the archive knows of no commit after {} (number {}): what was committed from then on is not in it",
            rfc3339(walked.known_until_ms),
            walked.position.commit
        ));
    }
    notes.extend(walked.torn);
    let skipped = |skipped: &Skipped| format!("it could not be read when the base was made: {skipped}");
    let mut missing: Vec<String> = base.skipped.iter().map(skipped).collect();
    if until == Until::Latest {
        // Of a base that cannot be read only the name tells up to which commit it was.
        missing.extend(archive.unreadable.iter().filter_map(|(id, cause)| {
            let held = id.split('-').nth(1).and_then(|commit| commit.parse::<u64>().ok());
            held.is_none_or(|held| held > walked.position.commit).then(|| cause.clone())
        }));
    }
    Ok(Rebuilt {
        base: base.id.clone(),
        position: walked.position,
        known_until_ms: walked.known_until_ms,
        groups: walked.groups,
        notes,
        missing,
    })
}

/// Whether a repository has an archive, in whatever state.
pub fn is_in(repository: &Repository) -> Result<bool, Error> {
    let archive = Lines::read(repository)?;
    Ok(!archive.lines.is_empty() || !archive.unreadable.is_empty())
}

/// What an archive has.
struct Lines<'a> {
    repository: &'a Repository,
    folder: Folder,
    /// In order.
    lines: Vec<Line>,
    /// Bases that cannot be read: their names, and why.
    unreadable: Vec<(String, String)>,
}

#[derive(Default)]
struct Line {
    number: u64,
    /// In the order of their commits.
    bases: Vec<Manifest>,
    segments: Vec<Named>,
}

/// Where a store is rebuilt from, and to.
struct Target<'a> {
    line: &'a Line,
    base: &'a Manifest,
    /// The last commit of it; none if all.
    commit: Option<u64>,
    notes: Vec<String>,
}

/// What there was after a base.
struct Walked {
    position: Position,
    known_until_ms: u64,
    groups: u64,
    torn: Option<String>,
}

impl<'a> Lines<'a> {
    fn read(repository: &'a Repository) -> Result<Self, Error> {
        let folder = repository.folder().child(SEGMENTS);
        let mut lines: BTreeMap<u64, Line> = BTreeMap::new();
        let mut unreadable = Vec::new();
        for (id, manifest) in repository.list_by_name()? {
            match manifest {
                Ok(manifest) => {
                    if let Some(base) = manifest.base {
                        lines.entry(base.line).or_default().bases.push(manifest);
                    }
                }
                Err(error) if id.contains("-base") => unreadable.push((id, error.to_string())),
                Err(_) => {}
            }
        }
        for named in segment::named(&folder)? {
            lines.entry(named.line).or_default().segments.push(named);
        }
        let mut lines: Vec<Line> = lines.into_iter().map(|(number, line)| Line { number, ..line }).collect();
        for line in &mut lines {
            line.bases.sort_by_key(|base| base.position.commit);
        }
        Ok(Self { repository, folder, lines, unreadable })
    }

    fn target(&self, until: Until) -> Result<Target<'_>, Error> {
        for line in self.lines.iter().rev() {
            let Some(first) = line.bases.first() else {
                self.pass_over(line, until)?;
                continue;
            };
            let (commit, notes) = match until {
                Until::Latest => (None, Vec::new()),
                Until::Commit(commit) if first.position.commit <= commit => (Some(commit), Vec::new()),
                Until::Commit(_) => continue,
                Until::Time(time_ms) => match self.commit_at(line, first, time_ms)? {
                    Some((commit, notes)) => (Some(commit), notes),
                    None => continue,
                },
            };
            let fits = |base: &&Manifest| commit.is_none_or(|commit| base.position.commit <= commit);
            // One that lacks what was damaged is the last choice: an older one and the commits after it may have it.
            let whole = line.bases.iter().rev().filter(fits).find(|base| base.skipped.is_empty());
            if let Some(base) = whole.or_else(|| line.bases.iter().rev().find(fits)) {
                return Ok(Target { line, base, commit, notes });
            }
        }
        let first_ms = self.lines.iter().flat_map(|line| &line.bases).filter_map(|base| base.base);
        let cause = match (first_ms.map(|base| base.from_ms).min(), self.unreadable.first()) {
            (Some(first_ms), _) => {
                format!("its archive begins at {}: ask for a later moment", rfc3339(first_ms))
            }
            (None, Some((_, cause))) => format!("no base of its archive can be read: {cause}"),
            (None, None) => "there is no archive in it".to_owned(),
        };
        Err(unfit(self.repository.path(), &cause))
    }

    /// Refuses to leave a line out that has no base, unless it began after what is asked for.
    fn pass_over(&self, line: &Line, until: Until) -> Result<(), Error> {
        let Some(first) = line.segments.first() else { return Ok(()) };
        let begun = match Reader::open(&self.folder, &first.name, self.repository.vault()) {
            Ok(Some(reader)) => Some(reader.after),
            // Nothing was written to it.
            Ok(None) if line.segments.len() == 1 => return Ok(()),
            Ok(None) | Err(_) => None,
        };
        let is_after = match until {
            Until::Latest => false,
            Until::Time(time_ms) => begun.is_some_and(|begun| begun.time_ms > time_ms),
            Until::Commit(commit) => begun.is_some_and(|begun| begun.commit >= commit),
        };
        if is_after {
            return Ok(());
        }
        let causes: Vec<&str> = self.unreadable.iter().map(|(_, cause)| &**cause).collect();
        let causes = if causes.is_empty() { "it is not there".to_owned() } else { causes.join("; ") };
        let before = begun.map_or_else(String::new, |begun| {
            format!("; to have what was committed before, ask for a moment before {}", rfc3339(begun.time_ms))
        });
        Err(unfit(
            &self.folder.file(&first.name),
            &format!("the base that its commits follow cannot be read: {causes}{before}"),
        ))
    }

    /// The last commit of a line that was made by a moment, and what is not certain about that.
    fn commit_at(
        &self,
        line: &Line,
        first: &Manifest,
        time_ms: u64,
    ) -> Result<Option<(u64, Vec<String>)>, Error> {
        let from_ms = |base: &Manifest| base.base.map_or(0, |base| base.from_ms);
        let start = line.bases.iter().rfind(|base| from_ms(base) <= time_ms);
        let mut found = start.map(|base| base.position);
        // What follows the one that was found, as far as it is not certain when that was.
        let mut after: Option<(Position, u64)> = None;
        let mut notes = Vec::new();
        let walked = self.walk(line, start.unwrap_or(first), |group| {
            let position = group.position;
            if position.time_ms <= time_ms {
                (found, after) = (Some(position), None);
                notes.clear();
            } else if let Some((first, count)) = &mut after {
                *count += 1;
                if position.time_ms < first.time_ms && notes.is_empty() {
                    notes.push(format!(
                        "the clock was ahead, up to {}, and set back to {}: which of the {} after commit {} were made by then cannot be told, and they are not in it",
                        rfc3339(first.time_ms),
                        rfc3339(position.time_ms),
                        if *count == 2 { "commit".to_owned() } else { format!("{} commits", *count - 1) },
                        first.commit - 1,
                    ));
                }
            } else {
                after = Some((position, 1));
            }
            Ok(true)
        });
        match walked {
            // What cannot be read comes after something that is later than the moment.
            Err(error) if found.is_some() && after.is_some() => {
                notes.push(format!(
                    "what was committed afterwards cannot be read to its end, and if the clock was ahead there, what was made by then is not in it: {error}"
                ));
            }
            walked => drop(walked?),
        }
        Ok(found.map(|found| (found.commit, notes)))
    }

    /// Goes through what was committed after a base, in order, as long as `visit` wants more.
    fn walk(
        &self,
        line: &Line,
        base: &Manifest,
        mut visit: impl FnMut(&Group<'_>) -> Result<bool, Error>,
    ) -> Result<Walked, Error> {
        let mut walked = Walked {
            position: base.position,
            known_until_ms: base.base.map_or(0, |base| base.from_ms).max(base.position.time_ms),
            groups: 0,
            torn: None,
        };
        for (n, named) in line.segments.iter().enumerate() {
            if segment::is_before(&line.segments, n, base.position.commit) {
                continue;
            }
            let reader = Reader::open(&self.folder, &named.name, self.repository.vault())?;
            let Some(mut reader) = reader else { continue };
            if reader.line != line.number || reader.after.commit != named.after {
                return Err(unfit(reader.path(), "it is another segment than its name says"));
            }
            if reader.after.commit > walked.position.commit {
                let (have, next) = (walked.position.commit, reader.after.commit);
                return Err(unfit(
                    reader.path(),
                    &format!("the commits after {have} up to {next} are missing before it"),
                ));
            }
            walked.torn = None;
            loop {
                let frame = match reader.next()? {
                    Next::Frame(frame) => frame,
                    Next::End => break,
                    Next::Torn => {
                        walked.torn = Some(format!(
                            "{} ends with bytes that are not whole: they were being written when the machine stopped, or are \
                             damaged",
                            reader.path().display()
                        ));
                        break;
                    }
                };
                if frame.last.commit < walked.position.commit {
                    continue;
                }
                let groups = frame.groups().ok_or_else(|| unfit(reader.path(), "it makes no sense"))?;
                for group in &groups {
                    if group.position.commit <= walked.position.commit {
                        continue;
                    }
                    if group.position.commit != walked.position.commit + 1 {
                        let missing = format!("commit {} is missing in it", walked.position.commit + 1);
                        return Err(unfit(reader.path(), &missing));
                    }
                    // It tells up to when all before it is known, also if it is not wanted.
                    walked.known_until_ms = group.position.time_ms;
                    if !visit(group)? {
                        return Ok(walked);
                    }
                    walked.groups += 1;
                    walked.position = group.position;
                }
                walked.known_until_ms = frame.last.time_ms;
            }
        }
        Ok(walked)
    }
}

/// Reads an archive through: every segment, and that no commit is missing after the first base of each line. Nothing is
/// changed.
pub fn verify(repository: &Repository, verified: &mut Verified) -> Result<(), Error> {
    let archive = Lines::read(repository)?;
    for line in &archive.lines {
        let Some(first) = line.bases.first() else {
            // A server that has just begun it is about to make one.
            verified.problems.extend(line.segments.first().map(|named| {
                format!(
                    "{}: there is no base that can be read, so that its commits cannot be restored",
                    archive.folder.file(&named.name).display()
                )
            }));
            continue;
        };
        // From the first base of a line on everything is there; so it is from the others.
        let mut bytes = 0;
        let walked = archive.walk(line, first, |group| {
            let of = |change: &(&[u8], Option<&[u8]>)| change.0.len() + change.1.map_or(0, <[u8]>::len);
            bytes += group.changes.iter().map(of).sum::<usize>() as u64;
            Ok(true)
        });
        match walked {
            Ok(walked) => verified.groups += walked.groups,
            Err(error) => verified.problems.push(error.to_string()),
        }
        verified.bytes += bytes;
    }
    Ok(())
}
