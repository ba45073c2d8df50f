//! Which tables a request means: those of a space, or those that its ARNs say.
//!
//! A name holds the space that it is in, so that nothing below here knows of spaces but where tables are listed. What a
//! client writes is a name, which is of its own space, or an ARN, which says where; [`Request::resolve_names`] makes of both what
//! tables are found by. Docs: `docs/decisions/0014-spaces.md`.
//!
//! Promises:
//! - A request whose names are resolved in the default space, and names no ARN, is as it was: nothing is allocated.
//! - Tokens of one space are no tokens of another.

use std::cell::RefCell;

use larder_model::{ApiError, SPACE, Space, TableName};

use crate::{Consumed, Governed, Request, Response, Statement};

/// What names in a request stand for.
#[derive(Clone, Copy, Debug)]
pub enum Naming<'a> {
    /// Everybody has the same tables: what an ARN says of region and account is left aside.
    Shared,
    /// A name is of this space, and an ARN of the space it says, within the same region.
    In(&'a Space),
}

impl Naming<'_> {
    fn resolve(self, name: &mut TableName) -> Result<(), ApiError> {
        let space = match self {
            Self::Shared if !name.says_place() => return Ok(()),
            Self::Shared => Space::default(),
            Self::In(space) if !name.says_place() && *space == Space::default() => return Ok(()),
            Self::In(space) if !name.says_place() => space.clone(),
            Self::In(space) => {
                let said = Space::new(name.region(), name.account());
                said.filter(|said| said.region() == space.region()).ok_or_else(ApiError::table_not_found)?
            }
        };
        // What stands here meanwhile is not looked at.
        let said = std::mem::replace(name, TableName::new("___").expect("a good name"));
        *name = said.within(&space);
        Ok(())
    }

    /// Tokens of other spaces begin with these; one of the default space that begins so is told from them.
    fn scope_token(self, token: Option<&mut String>) {
        let Some(token) = token else { return };
        let prefix = match self {
            Self::In(space) => space.prefix(),
            Self::Shared => "",
        };
        if !prefix.is_empty() {
            token.insert_str(0, prefix);
        } else if token.starts_with(SPACE) {
            token.insert(0, SPACE);
        }
    }

    /// Backups, exports and imports are named by ARNs alone.
    fn check_task(self, arn: &str, missing: impl Fn(String) -> ApiError) -> Result<(), ApiError> {
        match self {
            Self::In(space) if arn.split(':').nth(3) != Some(space.region()) => Err(missing(arn.to_owned())),
            Self::In(_) | Self::Shared => Ok(()),
        }
    }
}

impl Request {
    /// Makes of the names in it what tables are found by, and tells which were ARNs.
    pub fn resolve_names(&mut self, naming: Naming<'_>) -> Result<Said, ApiError> {
        let said = RefCell::new(Said::default());
        self.resolve_each(naming, |name| {
            if !name.says_place() {
                return naming.resolve(name);
            }
            let shown = name.shown_as_arn();
            naming.resolve(name)?;
            said.borrow_mut().0.push((name.clone(), shown));
            Ok(())
        })?;
        Ok(said.into_inner())
    }

    fn resolve_each(
        &mut self,
        naming: Naming<'_>,
        resolve: impl Fn(&mut TableName) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        match self {
            Self::CreateTable(request) => resolve(&mut request.table),
            Self::DescribeTable(request) => resolve(&mut request.table),
            Self::UpdateTable(request) => resolve(&mut request.table),
            Self::DeleteTable(request) => resolve(&mut request.table),
            Self::UpdateTimeToLive(request) => resolve(&mut request.table),
            Self::DescribeTimeToLive(request) => resolve(&mut request.table),
            Self::TagResource(request) => resolve(&mut request.table),
            Self::UntagResource(request) => resolve(&mut request.table),
            Self::ListTagsOfResource(request) => resolve(&mut request.table),
            Self::PutResourcePolicy(request) => resolve(request.resource.table()),
            Self::GetResourcePolicy(request) => resolve(request.resource.table()),
            Self::DeleteResourcePolicy(request) => resolve(request.resource.table()),
            Self::UpdateContinuousBackups(request) => resolve(&mut request.table),
            Self::DescribeContinuousBackups(request) => resolve(&mut request.table),
            Self::RestoreTableToPointInTime(request) => {
                resolve(&mut request.source)?;
                resolve(&mut request.target)
            }
            Self::CreateBackup(request) => resolve(&mut request.table),
            Self::DescribeBackup(request) => naming.check_task(&request.arn, ApiError::BackupNotFound),
            Self::ListBackups(request) => request.table.iter_mut().try_for_each(resolve),
            Self::DeleteBackup(request) => naming.check_task(&request.arn, ApiError::BackupNotFound),
            Self::RestoreTableFromBackup(request) => {
                naming.check_task(&request.backup, ApiError::BackupNotFound)?;
                resolve(&mut request.target)
            }
            Self::ExportTableToPointInTime(request) => {
                naming.scope_token(request.token.as_mut());
                resolve(&mut request.table)
            }
            Self::DescribeExport(request) => naming.check_task(&request.arn, ApiError::ExportNotFound),
            Self::ListExports(request) => request.table.iter_mut().try_for_each(resolve),
            Self::ImportTable(request) => {
                naming.scope_token(request.token.as_mut());
                resolve(&mut request.table.table)
            }
            Self::DescribeImport(request) => naming.check_task(&request.arn, ApiError::ImportNotFound),
            Self::ListImports(request) => request.table.iter_mut().try_for_each(resolve),
            Self::ListTables(_) | Self::DescribeLimits | Self::DescribeEndpoints => Ok(()),
            Self::GetItem(request) => resolve(&mut request.table),
            Self::PutItem(request) => resolve(&mut request.table),
            Self::UpdateItem(request) => resolve(&mut request.table),
            Self::DeleteItem(request) => resolve(&mut request.table),
            Self::Query(request) => resolve(&mut request.table),
            Self::Scan(request) => resolve(&mut request.table),
            Self::BatchGetItem(request) => request.tables.iter_mut().try_for_each(|part| {
                // Two parts may mean one table: each is answered as it was asked for.
                part.echo.table = part.table.says_place().then(|| part.table.shown_as_arn());
                resolve(&mut part.table)
            }),
            Self::BatchWriteItem(request) => {
                request.tables.iter_mut().try_for_each(|(table, _)| resolve(table))
            }
            Self::TransactGetItems(request) => {
                request.gets.iter_mut().try_for_each(|get| resolve(&mut get.table))
            }
            Self::TransactWriteItems(request) => {
                naming.scope_token(request.token.as_mut());
                request.writes.iter_mut().try_for_each(|write| resolve(&mut write.table))
            }
            Self::ExecuteStatement(request) => resolve(request.statement.table_mut()),
            Self::BatchExecuteStatement(request) => {
                let readable = request.statements.iter_mut().filter_map(|each| each.statement.as_mut().ok());
                readable.map(Statement::table_mut).try_for_each(resolve)
            }
            Self::ExecuteTransaction(request) => {
                naming.scope_token(request.token.as_mut());
                request.statements.iter_mut().map(|each| each.statement.table_mut()).try_for_each(resolve)
            }
            Self::ListStreams(request) => {
                let start = request.start.iter_mut().map(|stream| &mut stream.table);
                request.table.iter_mut().chain(start).try_for_each(resolve)
            }
            Self::DescribeStream(request) => resolve(&mut request.stream.table),
            Self::GetShardIterator(request) => resolve(&mut request.stream.table),
            Self::GetRecords(request) => resolve(&mut request.iterator.stream.table),
        }
    }
}

impl Governed {
    fn table(&mut self) -> &mut TableName {
        match self {
            Self::Table(table) => table,
            Self::Stream(stream) => &mut stream.table,
        }
    }
}

/// The tables that a request named by their ARNs, and those.
#[derive(Debug, Default)]
pub struct Said(Vec<(TableName, TableName)>);

impl<R> Response<R> {
    /// Names by their ARNs the tables that were asked for so.
    pub fn show_as(&mut self, said: &Said) {
        if said.0.is_empty() {
            return;
        }
        let show = |name: &mut TableName| {
            if let Some((_, shown)) = said.0.iter().find(|(resolved, _)| resolved == name) {
                *name = shown.clone();
            }
        };
        let show_all = |consumed: &mut [Consumed]| consumed.iter_mut().for_each(|one| show(&mut one.table));
        match self {
            Self::GetItem(output) => show_all(output.consumed.as_mut_slice()),
            Self::PutItem(output) | Self::UpdateItem(output) | Self::DeleteItem(output) => {
                show_all(output.consumed.as_mut_slice());
            }
            Self::Query(output) | Self::Scan(output) => show_all(output.consumed.as_mut_slice()),
            // Its parts say by themselves how they were asked for.
            Self::BatchGetItem(output) => show_all(&mut output.consumed),
            Self::BatchWriteItem(output) => {
                output.unprocessed.iter_mut().for_each(|(table, _)| show(table));
                output.collection_metrics.iter_mut().for_each(|(table, _)| show(table));
                show_all(&mut output.consumed);
            }
            Self::TransactGetItems(output) => show_all(&mut output.consumed),
            Self::TransactWriteItems(output) => {
                output.collection_metrics.iter_mut().for_each(|(table, _)| show(table));
                show_all(&mut output.consumed);
            }
            Self::ExecuteStatement(output) => show_all(output.consumed.as_mut_slice()),
            Self::BatchExecuteStatement(output) => {
                output.responses.iter_mut().filter_map(|response| response.table.as_mut()).for_each(show);
                show_all(&mut output.consumed);
            }
            Self::ExecuteTransaction(output) => show_all(&mut output.consumed),
            // All else names one table, whose name or ARN says where it is.
            _ => {}
        }
    }
}
