//! The versions of a system that stand side by side in an export: the one that is meant, and older ones whose tables
//! are still there.
//!
//! A part of an older version has the name, and all that is said of it, from the export that made it, so that nothing
//! is replaced or destroyed when the next version comes. Parts of the first version have no number in their names.

use super::iam::{self, Right};
use super::names;
use crate::origin::Origins;
use crate::schema::*;
use crate::span::SourceFile;

/// An older version of a system whose tables are still there: until `larder migrate finish`, exports have them too.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// The schema as it was.
    pub schema: &'a Schema,
    /// Its files.
    pub files: &'a [SourceFile],
}

/// One version in an export.
pub(super) struct Version<'a> {
    pub(super) schema: &'a Schema,
    pub(super) origins: Origins<'a>,
    pub(super) setups: Vec<TableSetup>,
}

/// The version that is meant, then those that are kept.
pub(super) fn versions<'a>(
    schema: &'a Schema,
    files: &'a [SourceFile],
    kept: &[Kept<'a>],
    environment: &Environment,
) -> Result<Vec<Version<'a>>, Vec<EnvironmentError>> {
    let all = std::iter::once(Kept { schema, files }).chain(kept.iter().copied());
    let made = all.map(|Kept { schema, files }| {
        Ok(Version { schema, origins: Origins::new(files), setups: schema.tables(environment)? })
    });
    made.collect()
}

impl<'a> Version<'a> {
    pub(super) fn tables(&self) -> impl Iterator<Item = (&'a Table, &TableSetup)> {
        self.schema.tables.iter().zip(&self.setups)
    }
}

/// What the tables of all versions take from the environment, each once.
pub(super) fn params<'a>(
    versions: &[Version<'a>],
    is_meant: impl Fn(&Table) -> bool,
    with_tags: bool,
) -> Vec<(&'a Schema, &'a Param)> {
    let mut found: Vec<(&Schema, &Param)> = Vec::new();
    for version in versions {
        let tables: Vec<&Table> = version.schema.tables.iter().filter(|table| is_meant(table)).collect();
        for param in names::params(version.schema, &tables, with_tags) {
            if found.iter().all(|(_, known)| known.name != param.name) {
                found.push((version.schema, param));
            }
        }
    }
    found
}

/// What is allowed on the tables of all versions, one policy for each name of a grant: programs of both versions run.
pub(super) fn rights<'a>(versions: &[Version<'a>], is_meant: impl Fn(&Table) -> bool) -> Vec<Right<'a>> {
    let mut found: Vec<Right<'a>> = Vec::new();
    for version in versions {
        let tables: Vec<&Table> = version.schema.tables.iter().filter(|table| is_meant(table)).collect();
        for mut right in iam::rights(version.schema, &tables) {
            match found.iter_mut().find(|known| known.grant == right.grant) {
                Some(known) => known.statements.append(&mut right.statements),
                None => {
                    right.place = right.at.and_then(|at| version.origins.grant(at));
                    found.push(right);
                }
            }
        }
    }
    found
}
