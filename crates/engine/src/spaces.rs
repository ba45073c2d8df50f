//! Which tables a request means: those of a space, or those that its ARNs say.
//!
//! A name holds the space that it is in, so that nothing below here knows of spaces but where tables are listed. What a
//! client writes is a name, which is of its own space, or an ARN, which says where; [`Request::settle`] makes of both what
//! tables are found by. Docs: `docs/decisions/0014-spaces.md`.
//!
//! Promises:
//! - A request that is settled in the default space, and names no ARN, is as it was: nothing is allocated.
//! - Tokens of one space are no tokens of another.

use larder_model::{ApiError, SPACE, Space, TableName};

use crate::ops::{Consumed, Governed, Request, Response, Statement};

/// What names in a request stand for.
#[derive(Clone, Copy, Debug)]
pub enum Naming<'a> {
    /// Everybody has the same tables: what an ARN says of region and account is left aside.
    Shared,
    /// A name is of this space, and an ARN of the space it says, within the same region.
    In(&'a Space),
}

impl Naming<'_> {
    fn settle(self, name: &mut TableName) -> Result<(), ApiError> {
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
    fn settle_token(self, token: Option<&mut String>) {
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

    /// Backups are named by ARNs alone.
    fn check_backup(self, arn: &str) -> Result<(), ApiError> {
        match self {
            Self::In(space) if arn.split(':').nth(3) != Some(space.region()) => {
                Err(ApiError::BackupNotFound(arn.to_owned()))
            }
            Self::In(_) | Self::Shared => Ok(()),
        }
    }
}

impl Request {
    /// Makes of the names in it what tables are found by.
    pub fn settle(&mut self, naming: Naming<'_>) -> Result<(), ApiError> {
        let settle = |name: &mut TableName| naming.settle(name);
        match self {
            Self::CreateTable(request) => settle(&mut request.table),
            Self::DescribeTable(request) => settle(&mut request.table),
            Self::UpdateTable(request) => settle(&mut request.table),
            Self::DeleteTable(request) => settle(&mut request.table),
            Self::UpdateTimeToLive(request) => settle(&mut request.table),
            Self::DescribeTimeToLive(request) => settle(&mut request.table),
            Self::TagResource(request) => settle(&mut request.table),
            Self::UntagResource(request) => settle(&mut request.table),
            Self::ListTagsOfResource(request) => settle(&mut request.table),
            Self::PutResourcePolicy(request) => settle(request.resource.table()),
            Self::GetResourcePolicy(request) => settle(request.resource.table()),
            Self::DeleteResourcePolicy(request) => settle(request.resource.table()),
            Self::UpdateContinuousBackups(request) => settle(&mut request.table),
            Self::DescribeContinuousBackups(request) => settle(&mut request.table),
            Self::RestoreTableToPointInTime(request) => {
                settle(&mut request.source)?;
                settle(&mut request.target)
            }
            Self::CreateBackup(request) => settle(&mut request.table),
            Self::DescribeBackup(request) => naming.check_backup(&request.arn),
            Self::ListBackups(request) => request.table.iter_mut().try_for_each(settle),
            Self::DeleteBackup(request) => naming.check_backup(&request.arn),
            Self::RestoreTableFromBackup(request) => {
                naming.check_backup(&request.backup)?;
                settle(&mut request.target)
            }
            Self::ListTables(_) | Self::DescribeLimits | Self::DescribeEndpoints => Ok(()),
            Self::GetItem(request) => settle(&mut request.table),
            Self::PutItem(request) => settle(&mut request.table),
            Self::UpdateItem(request) => settle(&mut request.table),
            Self::DeleteItem(request) => settle(&mut request.table),
            Self::Query(request) => settle(&mut request.table),
            Self::Scan(request) => settle(&mut request.table),
            Self::BatchGetItem(request) => {
                request.tables.iter_mut().try_for_each(|part| settle(&mut part.table))
            }
            Self::BatchWriteItem(request) => {
                request.tables.iter_mut().try_for_each(|(table, _)| settle(table))
            }
            Self::TransactGetItems(request) => {
                request.gets.iter_mut().try_for_each(|get| settle(&mut get.table))
            }
            Self::TransactWriteItems(request) => {
                naming.settle_token(request.token.as_mut());
                request.writes.iter_mut().try_for_each(|write| settle(&mut write.table))
            }
            Self::ExecuteStatement(request) => settle(request.statement.table_mut()),
            Self::BatchExecuteStatement(request) => {
                let readable = request.statements.iter_mut().filter_map(|each| each.statement.as_mut().ok());
                readable.map(Statement::table_mut).try_for_each(settle)
            }
            Self::ExecuteTransaction(request) => {
                naming.settle_token(request.token.as_mut());
                request.statements.iter_mut().map(|each| each.statement.table_mut()).try_for_each(settle)
            }
            Self::ListStreams(request) => {
                let start = request.start.iter_mut().map(|stream| &mut stream.table);
                request.table.iter_mut().chain(start).try_for_each(settle)
            }
            Self::DescribeStream(request) => settle(&mut request.stream.table),
            Self::GetShardIterator(request) => settle(&mut request.stream.table),
            Self::GetRecords(request) => settle(&mut request.iterator.stream.table),
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

impl Response {
    /// Names tables of other spaces by their ARNs, for whoever asked from this one: they gave them so.
    pub fn show_in(&mut self, space: &Space) {
        let show = |name: &mut TableName| {
            if !name.is_in(space) {
                *name = name.shown_as_arn();
            }
        };
        let show_all = |consumed: &mut [Consumed]| consumed.iter_mut().for_each(|one| show(&mut one.table));
        match self {
            Self::GetItem(output) => show_all(output.consumed.as_mut_slice()),
            Self::PutItem(output) | Self::UpdateItem(output) | Self::DeleteItem(output) => {
                show_all(output.consumed.as_mut_slice());
            }
            Self::Query(output) | Self::Scan(output) => show_all(output.consumed.as_mut_slice()),
            Self::BatchGetItem(output) => {
                output.responses.iter_mut().for_each(|(table, _)| show(table));
                output.unprocessed.iter_mut().for_each(|left| show(&mut left.table));
                show_all(&mut output.consumed);
            }
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
