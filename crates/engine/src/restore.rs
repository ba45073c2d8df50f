//! What a restored table takes over from the table or backup it is made from.
//!
//! Its keys, indexes, billing, class and encryption, unless the request overrides them; nothing else. An index
//! can be left out, but not added or changed.

use larder_model::{
    ApiError, Billing, IndexDefinition, IndexKind, KeySchema, Projection, TableDefinition, TableName,
    UnixTime,
};
use larder_storage::Batch;

use crate::catalog::{Catalog, Restored, Table};
use crate::layout::TableId;
use crate::ops::{
    BillingMode, CreateTable, EncryptionSpecification, KeyElement, KeyRole, NewIndex, ProjectionKind,
    ProjectionSpecification, RestoreOverrides, TableDescription,
};
use crate::tables::{Counts, new_table, put_record};
use crate::{Engine, Error, table_rules};

impl Engine {
    /// Adds a table that is going to be filled from `source`.
    pub(crate) fn add_restored(
        &self,
        catalog: &mut Catalog,
        batch: &mut Batch,
        source: TableId,
        definition: TableDefinition,
        restored: Restored,
        now: UnixTime,
    ) -> Result<TableDescription, Error> {
        let id = self.next_table_id(batch)?;
        let table = Table { restored: Some(restored), ..new_table(id, definition, now)? };
        let description = self.described(&table, &Counts::default());
        put_record(batch, &table);
        catalog.insert(table.into());
        catalog.change(batch, source, |source| source.copies.push(id));
        Ok(description)
    }
}

/// Refuses a name that is taken.
pub(crate) fn check_target(catalog: &Catalog, target: &TableName) -> Result<(), Error> {
    match catalog.find(target)? {
        None => Ok(()),
        Some(table) if table.is_being_copied() => Err(ApiError::TableInUse(target.clone()).into()),
        Some(_) => Err(ApiError::TableAlreadyExists(target.clone()).into()),
    }
}

/// The definition of the new table, by the rules of CreateTable.
pub(crate) fn definition(
    source: &TableDefinition,
    target: &TableName,
    overrides: &RestoreOverrides,
) -> Result<TableDefinition, ApiError> {
    let source_mode = match source.billing {
        Billing::Provisioned(_) => BillingMode::Provisioned,
        Billing::OnDemand => BillingMode::OnDemand,
    };
    let mode = overrides.billing_mode.unwrap_or(source_mode);
    let inherited = match (mode, source.billing) {
        (BillingMode::Provisioned, Billing::Provisioned(units)) => Some(units),
        (BillingMode::OnDemand, _) | (_, Billing::OnDemand) => None,
    };
    let inherited_limits = source.on_demand_limits.filter(|_| mode == BillingMode::OnDemand);
    let indexes = |kind: IndexKind, chosen: &Option<Vec<NewIndex>>| {
        let of_kind = || source.indexes.iter().filter(move |index| index.kind == kind);
        let taken_over = |index: &IndexDefinition| NewIndex {
            name: index.name.clone(),
            key: elements(&index.key),
            projection: Some(projection(&index.projection)),
            throughput: (kind == IndexKind::Global && inherited.is_some()).then_some(index.throughput),
            on_demand_limits: index.on_demand_limits.filter(|_| mode == BillingMode::OnDemand),
        };
        let indexes: Vec<NewIndex> = match chosen {
            None => of_kind().map(taken_over).collect(),
            Some(chosen) => chosen
                .iter()
                .map(|chosen| {
                    let known = of_kind().map(taken_over).find(|known| known.name == chosen.name);
                    let same =
                        |known: &NewIndex| known.key == chosen.key && known.projection == chosen.projection;
                    let known = known.filter(same).ok_or_else(|| no_such_index(chosen))?;
                    Ok(NewIndex {
                        throughput: chosen.throughput.or(known.throughput),
                        on_demand_limits: chosen.on_demand_limits.or(known.on_demand_limits),
                        ..known
                    })
                })
                .collect::<Result<_, ApiError>>()?,
        };
        Ok::<_, ApiError>((!indexes.is_empty()).then_some(indexes))
    };
    let key = elements(&source.key);
    let local_indexes = indexes(IndexKind::Local, &overrides.local_indexes)?;
    let global_indexes = indexes(IndexKind::Global, &overrides.global_indexes)?;
    let kept = local_indexes.iter().chain(&global_indexes).flatten();
    let used: Vec<&str> =
        key.iter().chain(kept.flat_map(|index| &index.key)).map(|element| element.name.as_str()).collect();
    let attributes =
        source.attributes.iter().filter(|(name, _)| used.contains(&name.as_str())).cloned().collect();
    table_rules::new_table(&CreateTable {
        table: target.clone(),
        attributes,
        key,
        local_indexes,
        global_indexes,
        billing_mode: Some(mode),
        throughput: overrides.throughput.or(inherited),
        on_demand_limits: overrides.on_demand_limits.or(inherited_limits),
        stream: None,
        encryption: overrides.encryption.clone().or_else(|| {
            let encryption = source.encryption.as_ref()?;
            Some(EncryptionSpecification {
                enabled: Some(true),
                kms: true,
                kms_key: encryption.kms_key.clone(),
            })
        }),
        class: source.class,
        deletion_protection: None,
        tags: Vec::new(),
        policy: None,
    })
}

fn no_such_index(index: &NewIndex) -> ApiError {
    ApiError::Validation(format!(
        "One or more parameter values were invalid: Index: {} is not an index of the source, or its key or \
         projection differs",
        index.name
    ))
}

fn elements(key: &KeySchema) -> Vec<KeyElement> {
    let partition = key.partition.iter().map(|attribute| (attribute, KeyRole::Partition));
    let sort = key.sort.iter().map(|attribute| (attribute, KeyRole::Sort));
    partition.chain(sort).map(|(attribute, role)| KeyElement { name: attribute.name.clone(), role }).collect()
}

fn projection(projection: &Projection) -> ProjectionSpecification {
    let (kind, names) = match projection {
        Projection::All => (ProjectionKind::All, None),
        Projection::KeysOnly => (ProjectionKind::KeysOnly, None),
        Projection::Include(names) => (ProjectionKind::Include, Some(names.clone())),
    };
    ProjectionSpecification { kind: Some(kind), names }
}
