//! Resource policies: the text that a table or a stream has, kept for whoever enforces it.
//!
//! What a policy says is nothing to the engine: it keeps the text and gives each a revision, the moment it was put. The
//! same text put again keeps its revision. A table that is restored, or a stream that is switched on, begins without.
//!
//! Promises:
//! - A policy goes with its table. That of a stream stays for as long as the stream can be read.
//! - Whoever reads a policy for what it says does so once: what was made of it stays with it ([`ResourcePolicy::read_as`]).

use std::sync::Arc;

use larder_model::{ApiError, Arn, TableName, UnixTime};
use larder_storage::Ticket;

use crate::catalog::{Catalog, History, Table};
use crate::ops::{
    DeleteResourcePolicy, ExpectedRevision, GetResourcePolicy, Governed, PutResourcePolicy, ResourcePolicy,
    StreamId,
};
use crate::tables::{check_whole, put_record, resource_not_found};
use crate::{Engine, Error, streams};

/// The policies of a table and of its streams, those by their labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    pub table: Option<Arc<ResourcePolicy>>,
    pub streams: Vec<(UnixTime, Arc<ResourcePolicy>)>,
}

impl Policies {
    fn of(&self, resource: &Governed) -> Option<&Arc<ResourcePolicy>> {
        match resource {
            Governed::Table(_) => self.table.as_ref(),
            Governed::Stream(stream) => self.of_stream(stream.label),
        }
    }

    fn of_stream(&self, label: UnixTime) -> Option<&Arc<ResourcePolicy>> {
        self.streams.iter().find(|(of, _)| *of == label).map(|(_, policy)| policy)
    }

    fn set(&mut self, resource: &Governed, policy: Option<Arc<ResourcePolicy>>) {
        match resource {
            Governed::Table(_) => self.table = policy,
            Governed::Stream(stream) => {
                self.streams.retain(|(of, _)| *of != stream.label);
                self.streams.extend(policy.map(|policy| (stream.label, policy)));
            }
        }
    }

    /// Without those of streams that are forgotten.
    pub(crate) fn of_streams_in(&self, history: &History) -> Self {
        let mut policies = self.clone();
        policies.streams.retain(|(label, _)| history.has_stream(*label));
        policies
    }
}

impl Engine {
    pub async fn put_resource_policy(
        &self,
        request: PutResourcePolicy,
        now: UnixTime,
    ) -> Result<String, Error> {
        let PutResourcePolicy { resource, policy: text, expected } = request;
        let (revision, ticket) = self.change_policy(&resource, now, |current| {
            let current_revision = current.map(|policy| policy.revision());
            let is_as_expected = match &expected {
                None => true,
                Some(ExpectedRevision::NoPolicy) => current.is_none(),
                Some(ExpectedRevision::Is(revision)) => current_revision == Some(revision),
            };
            if !is_as_expected {
                return Err(policy_not_found(&resource));
            }
            let policy = match current {
                Some(same) if same.text() == text => Arc::clone(same),
                _ => Arc::new(ResourcePolicy::new(text, self.mark(now))),
            };
            Ok((policy.revision().to_owned(), Some(policy)))
        })?;
        ticket.await?;
        Ok(revision)
    }

    pub fn get_resource_policy(
        &self,
        request: &GetResourcePolicy,
        now: UnixTime,
    ) -> Result<Arc<ResourcePolicy>, Error> {
        let catalog = self.catalog()?;
        let table = governed(&catalog, &request.resource, self.settled(now))?;
        table.policies.of(&request.resource).cloned().ok_or_else(|| policy_not_found(&request.resource))
    }

    pub async fn delete_resource_policy(
        &self,
        request: DeleteResourcePolicy,
        now: UnixTime,
    ) -> Result<Option<String>, Error> {
        let DeleteResourcePolicy { resource, expected } = request;
        let (revision, ticket) = self.change_policy(&resource, now, |current| {
            let revision = current.map(|policy| policy.revision().to_owned());
            if expected.is_some() && revision != expected {
                return Err(policy_not_found(&resource));
            }
            Ok((revision, None))
        })?;
        ticket.await?;
        Ok(revision)
    }

    /// The policy that a table has, if there is such a table.
    pub fn table_policy(&self, table: &TableName) -> Result<Option<Arc<ResourcePolicy>>, Error> {
        let catalog = self.catalog()?;
        Ok(catalog.find(table)?.and_then(|table| table.policies.table.clone()))
    }

    /// The policy that a stream has, be it of a table that is deleted.
    pub fn stream_policy(&self, stream: &StreamId) -> Result<Option<Arc<ResourcePolicy>>, Error> {
        if let Some(table) = self.catalog()?.find(&stream.table)?
            && table.history.has_stream(stream.label)
        {
            return Ok(table.policies.of_stream(stream.label).cloned());
        }
        let deleted = streams::deleted_table(&self.store.snapshot(), stream)?;
        Ok(deleted.and_then(|table| table.policies.of_stream(stream.label).cloned()))
    }

    /// Gives a resource the policy that is made of the one it has.
    fn change_policy<T>(
        &self,
        resource: &Governed,
        now: UnixTime,
        change: impl FnOnce(Option<&Arc<ResourcePolicy>>) -> Result<(T, Option<Arc<ResourcePolicy>>), Error>,
    ) -> Result<(T, Ticket), Error> {
        let (told, ticket, ()) = self.change_catalog(|catalog, batch| {
            let mut table = (**governed(catalog, resource, self.settled(now))?).clone();
            check_whole(&table)?;
            let (told, policy) = change(table.policies.of(resource))?;
            table.policies.set(resource, policy);
            put_record(batch, &table);
            catalog.insert(Arc::new(table));
            Ok((told, ()))
        })?;
        Ok((told, ticket))
    }
}

/// The table that has the policy of a resource.
fn governed<'a>(catalog: &'a Catalog, resource: &Governed, now: UnixTime) -> Result<&'a Arc<Table>, Error> {
    match resource {
        Governed::Table(name) => catalog.find(name)?.ok_or_else(|| resource_not_found(name)),
        Governed::Stream(stream) => {
            let table = catalog.find(&stream.table)?;
            table
                .filter(|table| streams::is_readable(table, stream.label, now))
                .ok_or_else(|| streams::not_found(stream))
        }
    }
}

fn policy_not_found(resource: &Governed) -> Error {
    let arn = match resource {
        Governed::Table(name) => Arn::table(name),
        Governed::Stream(stream) => streams::arn(stream),
    };
    ApiError::PolicyNotFound(arn.to_string()).into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_policy_is_read_once() {
        let policy = ResourcePolicy::new("text".to_owned(), UnixTime::from_millis(7));
        assert_eq!(policy.revision(), "7");
        let times = AtomicUsize::new(0);
        let length = |text: &str| {
            times.fetch_add(1, Ordering::Relaxed);
            text.len()
        };
        assert_eq!((*policy.read_as(length), *policy.read_as(length)), (4, 4));
        assert_eq!(times.load(Ordering::Relaxed), 1);
        assert_eq!(*policy.read_as(str::to_uppercase), "TEXT");
    }
}
