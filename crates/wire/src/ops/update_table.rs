//! UpdateTable.

use larder_engine::ops::{IndexChange, Request, UpdateTable};
use larder_model::IndexName;

use crate::constraints::{self, Constraints};
use crate::json::Reader;
use crate::members::request;
use crate::refusal::{Read, Refusal};
use crate::shape;

use super::create_table::{
    Index, Settings, Units, attribute_definitions, check_attribute_definitions, defined, on_demand,
    provisioned,
};

pub(super) fn decode(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut table, mut attributes) = (None, None);
    let mut settings = Settings::default();
    let mut changes: Option<Vec<IndexUpdate>> = None;
    request(reader, |reader, name| {
        match &*name {
            "TableName" => table = shape::text(reader)?,
            "AttributeDefinitions" => attributes = attribute_definitions(reader)?,
            "GlobalSecondaryIndexUpdates" => {
                let mut found = Vec::new();
                let present = shape::list(reader, |reader| {
                    found.push(change(reader)?);
                    Ok(())
                })?;
                changes = present.then_some(found);
            }
            _ => settings.read(reader, &name)?,
        }
        Ok(())
    })?;
    let table = constraints::described_table(table)?;
    let mut constraints = Constraints::default();
    settings.check_throughput(&mut constraints);
    if let Some(attributes) = &attributes {
        check_attribute_definitions(&mut constraints, Some(attributes));
    }
    for (at, change) in changes.iter().flatten().enumerate() {
        change.check(&mut constraints, &format!("globalSecondaryIndexUpdates.{}.member", at + 1));
    }
    settings.check_billing(&mut constraints);
    settings.check_class(&mut constraints);
    settings.check_stream(&mut constraints);
    settings.check_encryption(&mut constraints);
    constraints.finish()?;

    let index_changes = changes
        .map(|changes| changes.into_iter().map(IndexUpdate::into_changes).collect::<Read<Vec<_>>>())
        .transpose()?;
    Ok(Request::UpdateTable(Box::new(UpdateTable {
        table,
        attributes: defined(attributes),
        billing_mode: settings.billing_mode(),
        throughput: settings.throughput(),
        on_demand_limits: settings.on_demand_limits(),
        index_changes: index_changes.map(|changes| changes.into_iter().flatten().collect()),
        stream: settings.stream(),
        encryption: settings.encryption(),
        class: settings.class(),
        deletion_protection: settings.deletion_protection,
    })))
}

/// One entry of `GlobalSecondaryIndexUpdates`.
#[derive(Debug, Default)]
struct IndexUpdate {
    create: Option<Index>,
    update: Option<Adjusted>,
    delete: Option<Option<String>>,
}

/// An index whose throughput is to change.
#[derive(Debug, Default)]
struct Adjusted {
    name: Option<String>,
    throughput: Option<Units>,
    on_demand: Option<Units>,
}

fn change(reader: &mut Reader<'_>) -> Read<IndexUpdate> {
    let mut change = IndexUpdate::default();
    shape::element(reader, "GlobalSecondaryIndexUpdate", |reader, member| {
        match &*member {
            "Create" => {
                let mut index = Index::default();
                let class = "CreateGlobalSecondaryIndexAction";
                let present = shape::structure(reader, class, |reader, member| index.read(reader, &member))?;
                change.create = present.then_some(index);
            }
            "Update" => {
                let mut index = Adjusted::default();
                let class = "UpdateGlobalSecondaryIndexAction";
                let present = shape::structure(reader, class, |reader, member| {
                    match &*member {
                        "IndexName" => index.name = shape::owned_text(reader)?,
                        "ProvisionedThroughput" => index.throughput = provisioned(reader)?,
                        "OnDemandThroughput" => index.on_demand = on_demand(reader)?,
                        _ => drop(reader.skip()?),
                    }
                    Ok(())
                })?;
                change.update = present.then_some(index);
            }
            "Delete" => {
                let mut name = None;
                let class = "DeleteGlobalSecondaryIndexAction";
                let present = shape::structure(reader, class, |reader, member| {
                    match &*member {
                        "IndexName" => name = shape::owned_text(reader)?,
                        _ => drop(reader.skip()?),
                    }
                    Ok(())
                })?;
                change.delete = present.then_some(name);
            }
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    Ok(change)
}

impl IndexUpdate {
    fn check(&self, constraints: &mut Constraints, path: &str) {
        if let Some(index) = &self.create {
            index.check_global(constraints, &format!("{path}.create"));
        }
        if let Some(index) = &self.update {
            check_name(constraints, index.name.as_deref(), &format!("{path}.update.indexName"));
            let path = format!("{path}.update.provisionedThroughput");
            match index.throughput {
                Some(units) => units.check(constraints, &path),
                None if index.on_demand.is_some() => {}
                None => constraints.null(&path),
            }
        }
        if let Some(name) = &self.delete {
            check_name(constraints, name.as_deref(), &format!("{path}.delete.indexName"));
        }
    }

    fn into_changes(self) -> Read<Vec<IndexChange>> {
        let mut changes = Vec::new();
        if let Some(index) = self.update {
            changes.push(IndexChange::Update {
                name: index_name(index.name)?,
                throughput: index.throughput.map(Units::throughput),
                on_demand_limits: index.on_demand.and_then(Units::limits),
            });
        }
        if let Some(index) = self.create {
            changes.push(IndexChange::Create(index.into_new()?));
        }
        if let Some(name) = self.delete {
            changes.push(IndexChange::Delete { name: index_name(name)? });
        }
        if changes.is_empty() {
            return Err(Refusal::plain(
                "One or more parameter values were invalid: One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, GlobalSecondaryIndexUpdate.Delete must not be null",
            ));
        }
        Ok(changes)
    }
}

fn check_name(constraints: &mut Constraints, name: Option<&str>, path: &str) {
    match name {
        Some(name) => constraints.name(name, path),
        None => constraints.null(path),
    }
}

fn index_name(name: Option<String>) -> Read<IndexName> {
    IndexName::new(name.unwrap_or_default()).map_err(|error| Refusal::Plain(error.to_string()))
}
