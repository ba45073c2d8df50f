//! What CreateTable and UpdateTable may ask for.
//!
//! Pure functions from a request, and a table as it is, to the table as it will be, or to AWS's refusal. The
//! order of the checks is part of the rule: a request with two mistakes hears of the one AWS finds first.
//!
//! Surprising rules:
//! - UpdateTable makes one kind of change at a time. Only billing mixes with others.
//! - Attribute definitions of an UpdateTable matter to a new index alone, which needs all of its own there.
//!   One that the table already defines is of the type it had, if the index uses it; all others are let be.
//! - Messages list names in the order of Java's hash tables, which depends on nothing but the names.
//!
//! [`check_update`] and [`check_tags`] need no table, and come before the question whether it exists.

use std::collections::BTreeSet;
use std::fmt::Display;

use larder_model::limits::{
    GLOBAL_INDEXES_MAX, INDEX_KEY_ATTRIBUTES_MAX, LOCAL_INDEXES_MAX, PROJECTED_NAMES_MAX, TAGS_MAX,
};
use larder_model::{
    ApiError, Billing, Encryption, IndexDefinition, IndexKind, IndexName, KeyAttribute, KeySchema, KeyType,
    Projection, StreamView, TableDefinition, Tags, Throughput,
};

use crate::ops::{
    BillingMode, CreateTable, EncryptionSpecification, IndexChange, KeyElement, KeyRole, NewIndex,
    ProjectionKind, ProjectionSpecification, StreamSpecification, UpdateTable,
};

/// Read or write units a table or index can be given.
const UNITS_MAX: i64 = 1_000_000_000_000;
/// Characters of a tag's key and of its value.
const TAG_KEY_MAX: usize = 128;
const TAG_VALUE_MAX: usize = 256;
/// The on-demand maximum that means there is none.
const UNLIMITED: i64 = -1;

const NO_DEFINITION: &str = "Invalid KeySchema: Some index key attribute have no definition";
const NO_UNITS_ON_DEMAND: &str =
    "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST";
const ONE_ONLINE_INDEX: &str =
    "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table";

/// An attribute's name and type.
type Definition = (String, KeyType);

/// The definition that a CreateTable asks for, or why AWS refuses it.
pub(crate) fn new_table(request: &CreateTable) -> Result<TableDefinition, ApiError> {
    let billing = new_billing(request)?;
    let on_demand_limits = on_demand_limits(request.on_demand_limits, Subject::NewTable, billing)?;
    check_key_attributes(request)?;
    let indexes = new_indexes(request, billing)?;
    let stream = match request.stream {
        Some(stream) => stream_view(
            stream,
            "Table is being created with a stream enabled, UpdateViewType is required",
            "Table is being created with a stream disabled, UpdateViewType should not be specified",
        )?,
        None => None,
    };
    Ok(TableDefinition {
        name: request.table.clone(),
        attributes: request.attributes.clone(),
        key: key_schema(&request.key, &request.attributes)?,
        indexes,
        billing,
        on_demand_limits,
        stream,
        encryption: request.encryption.as_ref().map(encryption).transpose()?.flatten(),
        class: request.class,
        deletion_protection: request.deletion_protection.unwrap_or(false),
        tags: merge_tags(&Tags::new(), &request.tags)?,
    })
}

/// What an UpdateTable changes.
#[derive(Debug)]
pub(crate) struct TableChange {
    /// The table as it will be: with the new index, without the dropped one.
    pub(crate) definition: TableDefinition,
    pub(crate) created_index: Option<IndexName>,
    pub(crate) deleted_index: Option<IndexName>,
    /// A stream was switched on, and needs a label.
    pub(crate) stream_switched: bool,
}

/// The change that an UpdateTable asks for, or why AWS refuses it. `building`: an index is being created or
/// deleted at the moment.
pub(crate) fn change_table(
    current: &TableDefinition,
    building: bool,
    request: &UpdateTable,
) -> Result<TableChange, ApiError> {
    check_update(request)?;
    let mut definition = current.clone();
    definition.billing = changed_billing(current.billing, request)?;
    if request.on_demand_limits.is_some() {
        definition.on_demand_limits =
            on_demand_limits(request.on_demand_limits, Subject::Table, definition.billing)?;
    }

    let changes = request.index_changes.as_deref().unwrap_or_default();
    let online = changes.iter().filter(|change| is_online(change)).count();
    if online > 1 || (online == 1 && building) {
        return Err(ApiError::LimitExceeded(ONE_ONLINE_INDEX.into()));
    }
    check_units_change(current, definition.billing, request, changes)?;
    if definition.billing != current.billing {
        reset_units(&mut definition);
    }

    let mut change =
        TableChange { definition, created_index: None, deleted_index: None, stream_switched: false };
    for index_change in changes {
        match index_change {
            IndexChange::Create(index) => {
                create_index(&mut change.definition, index, &request.attributes)?;
                change.created_index = Some(index.name.clone());
            }
            IndexChange::Update { name, throughput, on_demand_limits } => {
                update_index(&mut change.definition, name, *throughput, *on_demand_limits)?;
            }
            IndexChange::Delete { name } => {
                let at = global_index(&change.definition, name, "delete")?;
                change.definition.indexes.remove(at);
                change.deleted_index = Some(name.clone());
            }
        }
    }
    forget_unused_attributes(&mut change.definition);

    if let Some(stream) = request.stream {
        change.definition.stream = changed_stream(current, stream)?;
        change.stream_switched = stream.enabled;
    }
    if let Some(asked) = &request.encryption {
        change.definition.encryption = changed_encryption(current, asked)?;
    }
    if request.class.is_some() {
        change.definition.class = request.class;
    }
    if let Some(protection) = request.deletion_protection {
        change.definition.deletion_protection = protection;
    }
    Ok(change)
}

/// What an UpdateTable can get wrong about any table, even one that does not exist.
pub(crate) fn check_update(request: &UpdateTable) -> Result<(), ApiError> {
    let changes = request.index_changes.as_deref().unwrap_or_default();
    let kinds = [
        request.billing_mode.is_some(),
        request.throughput.is_some(),
        request.on_demand_limits.is_some(),
        request.stream.is_some(),
        request.encryption.is_some(),
        request.class.is_some(),
        request.deletion_protection.is_some(),
        !changes.is_empty(),
    ];
    let kinds = kinds.into_iter().filter(|asked| *asked).count();
    if kinds == 0 {
        return Err(ApiError::validation(
            "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, \
             GlobalSecondaryIndexUpdates, SSESpecification, ReplicaUpdates, MultiAccountReplicaReady, \
             ReplicaTransitRoleArn, MultiRegionConsistency, DeletionProtectionEnabled, OnDemandThroughput, \
             WarmThroughput or TableClass is required",
        ));
    }
    if request.index_changes.is_some() && changes.is_empty() {
        return Err(invalid("List of GlobalSecondaryIndexUpdates is empty"));
    }
    match (request.billing_mode, request.throughput) {
        (Some(BillingMode::Provisioned), None) => return Err(units_required()),
        (Some(BillingMode::OnDemand), Some(_)) => return Err(invalid(NO_UNITS_ON_DEMAND)),
        (_, Some(units)) => check_units(units, None)?,
        (_, None) => {}
    }
    if kinds > 1 {
        check_combination(request, changes)?;
    }

    let mut names = BTreeSet::new();
    for change in changes {
        let name = change_name(change);
        if !names.insert(name.as_str()) {
            return Err(invalid(format_args!(
                "Only one global secondary index update per index is allowed simultaneously. Index: {name}"
            )));
        }
        if matches!(change, IndexChange::Create(_)) && request.attributes.is_empty() {
            return Err(invalid(format_args!("AttributeDefinitions is not specified for index: {name}")));
        }
    }
    if let Some(stream) = request.stream {
        changed_view(stream)?;
    }
    if let Some(asked) = &request.encryption {
        encryption(asked)?;
    }
    Ok(())
}

/// The tags with `new` ones added: at most 50 in all.
pub(crate) fn merge_tags(current: &Tags, new: &[(String, String)]) -> Result<Tags, ApiError> {
    check_tags(new)?;
    let mut tags = current.clone();
    tags.extend(new.iter().cloned());
    if tags.len() > TAGS_MAX { Err(too_many_tags()) } else { Ok(tags) }
}

/// What tags can get wrong on any resource.
pub(crate) fn check_tags(new: &[(String, String)]) -> Result<(), ApiError> {
    if new.len() > TAGS_MAX {
        return Err(too_many_tags());
    }
    let mut keys = BTreeSet::new();
    for (key, value) in new {
        if key.is_empty() || !is_tag_text(key, TAG_KEY_MAX) {
            return Err(ApiError::validation(format!("The Tag Key provided is invalid, Key: {key}")));
        }
        if key.starts_with("aws:") {
            return Err(ApiError::validation(format!("Tag Key cannot be prefixed with aws:, Key: {key}")));
        }
        if !is_tag_text(value, TAG_VALUE_MAX) {
            return Err(ApiError::validation(format!("The Tag Value provided is invalid, Value: {value}")));
        }
        if !keys.insert(key) {
            return Err(ApiError::validation(format!(
                "Duplicate Tag Keys provided as input: Duplicate Tag Key found {key}"
            )));
        }
    }
    Ok(())
}

fn is_tag_text(text: &str, chars_max: usize) -> bool {
    let allowed =
        |c: char| c.is_alphanumeric() || (c.is_whitespace() && !c.is_control()) || "+-=._:/@".contains(c);
    text.chars().count() <= chars_max && text.chars().all(allowed)
}

fn too_many_tags() -> ApiError {
    ApiError::validation("Number of Tags exceed the current limit for the provided ResourceArn")
}

fn invalid(rule: impl Display) -> ApiError {
    ApiError::Validation(format!("One or more parameter values were invalid: {rule}"))
}

// Billing

fn new_billing(request: &CreateTable) -> Result<Billing, ApiError> {
    match (request.billing_mode, request.throughput) {
        (Some(BillingMode::OnDemand), None) => Ok(Billing::OnDemand),
        (Some(BillingMode::OnDemand), Some(_)) => Err(invalid(NO_UNITS_ON_DEMAND)),
        (Some(BillingMode::Provisioned) | None, Some(units)) => {
            check_units(units, None)?;
            Ok(Billing::Provisioned(units))
        }
        (Some(BillingMode::Provisioned) | None, None) => Err(invalid(
            "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED",
        )),
    }
}

fn changed_billing(current: Billing, request: &UpdateTable) -> Result<Billing, ApiError> {
    match (request.billing_mode, request.throughput) {
        (None, None) => Ok(current),
        (None, Some(_)) if current == Billing::OnDemand => Err(invalid(NO_UNITS_ON_DEMAND)),
        (None | Some(BillingMode::Provisioned), Some(units)) => Ok(Billing::Provisioned(units)),
        (Some(BillingMode::Provisioned), None) => Err(units_required()),
        (Some(BillingMode::OnDemand), _) => Ok(Billing::OnDemand),
    }
}

fn units_required() -> ApiError {
    invalid("ProvisionedThroughput must be specified when BillingMode is PROVISIONED")
}

fn check_units(units: Throughput, index: Option<&IndexName>) -> Result<(), ApiError> {
    let place = index.map(|index| format!(" for index {index}")).unwrap_or_default();
    for (member, value) in [("ReadCapacityUnits", units.read), ("WriteCapacityUnits", units.write)] {
        if value > UNITS_MAX {
            return Err(ApiError::Validation(format!(
                "Given value {value} for {member} is out of bounds{place}"
            )));
        }
    }
    Ok(())
}

/// Units are changed where billing needs them, to values they do not have already.
fn check_units_change(
    current: &TableDefinition,
    billing: Billing,
    request: &UpdateTable,
    changes: &[IndexChange],
) -> Result<(), ApiError> {
    let updates = || {
        changes.iter().filter_map(|change| match change {
            IndexChange::Update { name, throughput: Some(units), .. } => Some((name, *units)),
            IndexChange::Update { .. } | IndexChange::Create(_) | IndexChange::Delete { .. } => None,
        })
    };
    if updates().any(|(_, units)| units.read > UNITS_MAX || units.write > UNITS_MAX) {
        return Err(ApiError::validation(
            "This operation cannot be performed with given input values. Please contact DynamoDB service \
             team for more info: Action Blocked: IndexUpdate",
        ));
    }
    if current.billing == Billing::OnDemand && billing != Billing::OnDemand {
        let missing: Vec<&str> = global_indexes(current)
            .filter(|index| updates().all(|(name, _)| *name != index.name))
            .map(|index| index.name.as_str())
            .collect();
        if !missing.is_empty() {
            return Err(invalid(format_args!(
                "ProvisionedThroughput must be specified for index: {}",
                missing.join(",")
            )));
        }
    }
    if let (Billing::Provisioned(now), Some(asked)) = (current.billing, request.throughput)
        && now == asked
    {
        return Err(unchanged_units("the table", "the table", now));
    }
    Ok(())
}

fn unchanged_units(what: &str, place: &str, units: Throughput) -> ApiError {
    let Throughput { read, write } = units;
    ApiError::Validation(format!(
        "The provisioned throughput for {what} will not change. The requested value equals the current value. \
         Current ReadCapacityUnits provisioned for {place}: {read}. Requested ReadCapacityUnits: {read}. \
         Current WriteCapacityUnits provisioned for {place}: {write}. Requested WriteCapacityUnits: {write}. \
         Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits."
    ))
}

/// Units of one way of billing mean nothing to the other.
fn reset_units(definition: &mut TableDefinition) {
    match definition.billing {
        Billing::OnDemand => {
            for index in &mut definition.indexes {
                index.throughput = Throughput::default();
            }
        }
        Billing::Provisioned(_) => {
            definition.on_demand_limits = None;
            for index in &mut definition.indexes {
                index.on_demand_limits = None;
            }
        }
    }
}

/// Whose on-demand maxima they are. AWS words its refusals a little differently for each.
#[derive(Clone, Copy)]
enum Subject<'a> {
    NewTable,
    Table,
    NewIndex(&'a IndexName),
    Index(&'a IndexName),
}

fn on_demand_limits(
    limits: Option<Throughput>,
    subject: Subject<'_>,
    billing: Billing,
) -> Result<Option<Throughput>, ApiError> {
    let Some(limits) = limits else { return Ok(None) };
    let members = [("MaxReadRequestUnits", limits.read), ("MaxWriteRequestUnits", limits.write)];
    let set = members.into_iter().filter(|(_, value)| *value != UNLIMITED);
    for (member, value) in set.clone() {
        if billing != Billing::OnDemand {
            let (of_index, end) = match subject {
                Subject::NewTable => (String::new(), "table BillingMode is PROVISIONED."),
                Subject::Table => (String::new(), "the table BillingMode is PROVISIONED"),
                Subject::NewIndex(name) => {
                    (format!(" for index: {name}"), "table BillingMode is PROVISIONED.")
                }
                Subject::Index(name) => {
                    (format!(" for index: {name}"), "the table BillingMode is PROVISIONED")
                }
            };
            return Err(invalid(format_args!(
                "{member} for OnDemandThroughput{of_index} cannot be specified when {end}"
            )));
        }
        if value < 1 {
            let place = match subject {
                Subject::NewTable | Subject::Table => "table".to_owned(),
                Subject::NewIndex(name) | Subject::Index(name) => format!("index : {name}"),
            };
            return Err(invalid(format_args!(
                "Requested {member} for OnDemandThroughput for {place} is outside of valid range"
            )));
        }
    }
    Ok((set.count() > 0).then_some(limits))
}

// Keys

/// Every key attribute is defined, and every definition is of a key attribute.
fn check_key_attributes(request: &CreateTable) -> Result<(), ApiError> {
    let definitions = &request.attributes;
    let mut names = BTreeSet::new();
    if let Some((name, _)) = definitions.iter().find(|(name, _)| !names.insert(name)) {
        return Err(ApiError::Validation(format!("Attribute Name is duplicated: {name}")));
    }
    if request.key.len() > definitions.len() {
        return Err(ApiError::validation(NO_DEFINITION));
    }
    check_defined(&request.key, definitions)?;
    check_key_pair(&request.key)?;

    if request.local_indexes.as_ref().is_some_and(Vec::is_empty) {
        return Err(invalid("List of LocalSecondaryIndexes is empty"));
    }
    if request.global_indexes.as_ref().is_some_and(Vec::is_empty) {
        return Err(invalid("List of GlobalSecondaryIndexes is empty"));
    }
    if request.local_indexes.is_some() && request.key.len() < 2 {
        return Err(invalid(
            "Table KeySchema does not have a range key, which is required when specifying a \
             LocalSecondaryIndex",
        ));
    }
    let indexes = || request.local_indexes.iter().chain(&request.global_indexes).flatten();
    for index in indexes() {
        check_defined(&index.key, definitions)?;
    }

    let used =
        || request.key.iter().chain(indexes().flat_map(|index| &index.key)).map(|key| key.name.as_str());
    if definitions.iter().all(|(name, _)| used().any(|key| key == name)) {
        return Ok(());
    }
    if indexes().next().is_none() {
        return Err(invalid(
            "Number of attributes in KeySchema does not exactly match number of attributes defined in \
             AttributeDefinitions",
        ));
    }
    Err(invalid(format_args!(
        "Some AttributeDefinitions are not used. AttributeDefinitions: [{}], keys used: [{}]",
        listed(definition_names(definitions), Buckets::ForNames),
        listed(used(), Buckets::Default),
    )))
}

fn check_defined(key: &[KeyElement], definitions: &[Definition]) -> Result<(), ApiError> {
    let names: BTreeSet<&str> = key.iter().map(|element| element.name.as_str()).collect();
    if names.iter().all(|name| definition_names(definitions).any(|defined| defined == *name)) {
        return Ok(());
    }
    if definitions.len() < names.len() {
        return Err(ApiError::validation(NO_DEFINITION));
    }
    Err(invalid(format_args!(
        "Some index key attributes are not defined in AttributeDefinitions. Keys: [{}], \
         AttributeDefinitions: [{}]",
        listed(key.iter().map(|element| element.name.as_str()), Buckets::ForNames),
        listed(definition_names(definitions), Buckets::ForNames),
    )))
}

fn definition_names(definitions: &[Definition]) -> impl Iterator<Item = &str> {
    definitions.iter().map(|(name, _)| name.as_str())
}

/// The key of a table or of a local index: a partition key, perhaps a sort key.
fn check_key_pair(key: &[KeyElement]) -> Result<(), ApiError> {
    if let [partition, sort] = key
        && partition.name == sort.name
    {
        return Err(same_names());
    }
    check_first_element(key)?;
    if key.iter().skip(1).any(|element| element.role != KeyRole::Sort) {
        return Err(ApiError::validation(
            "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type",
        ));
    }
    Ok(())
}

/// The key of a global index: up to four partition attributes, then up to four sort attributes.
fn check_global_key(key: &[KeyElement]) -> Result<(), ApiError> {
    check_first_element(key)?;
    if let [partition, sort] = key
        && sort.role == KeyRole::Sort
        && partition.name == sort.name
    {
        return Err(same_names());
    }
    let mut names = BTreeSet::new();
    if !key.iter().all(|element| names.insert(&element.name)) {
        return Err(ApiError::validation(
            "The KeySchema contains multiple key attributes with the same name",
        ));
    }
    if !key.is_sorted_by_key(|element| element.role == KeyRole::Sort) {
        return Err(invalid("All HASH key attributes must precede RANGE key attributes in the KeySchema"));
    }
    for (role, name) in [(KeyRole::Partition, "HASH"), (KeyRole::Sort, "RANGE")] {
        if key.iter().filter(|element| element.role == role).count() > INDEX_KEY_ATTRIBUTES_MAX {
            return Err(invalid(format_args!(
                "The KeySchema exceeds the maximum allowed number of {name} key attributes"
            )));
        }
    }
    Ok(())
}

fn check_first_element(key: &[KeyElement]) -> Result<(), ApiError> {
    match key.first() {
        Some(element) if element.role == KeyRole::Partition => Ok(()),
        _ => {
            Err(ApiError::validation("Invalid KeySchema: The first KeySchemaElement is not a HASH key type"))
        }
    }
}

fn same_names() -> ApiError {
    ApiError::validation("Both the Hash Key and the Range Key element in the KeySchema have the same name")
}

fn key_schema(key: &[KeyElement], definitions: &[Definition]) -> Result<KeySchema, ApiError> {
    let mut schema = KeySchema { partition: Vec::new(), sort: Vec::new() };
    for element in key {
        let (name, kind) = definitions
            .iter()
            .find(|(name, _)| *name == element.name)
            .ok_or_else(|| ApiError::validation(NO_DEFINITION))?;
        let attribute = KeyAttribute { name: name.clone(), kind: *kind };
        match element.role {
            KeyRole::Partition => schema.partition.push(attribute),
            KeyRole::Sort => schema.sort.push(attribute),
        }
    }
    Ok(schema)
}

/// How many buckets a Java hash table starts with.
#[derive(Clone, Copy)]
enum Buckets {
    Default,
    ForNames,
}

/// Distinct names as AWS lists them: bucket by bucket of a Java hash table, in a bucket as they came.
fn listed<'a>(names: impl Iterator<Item = &'a str>, buckets: Buckets) -> String {
    let mut seen = BTreeSet::new();
    let mut names: Vec<&str> = names.filter(|name| seen.insert(*name)).collect();
    let mut buckets: usize = match buckets {
        Buckets::Default => 16,
        Buckets::ForNames => names.len().next_power_of_two(),
    };
    // A table doubles once it is more than three quarters full.
    while names.len() * 4 > buckets * 3 {
        buckets *= 2;
    }
    names.sort_by_key(|name| {
        let hash =
            name.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
        (hash ^ (hash >> 16)) as usize & (buckets - 1)
    });
    names.join(", ")
}

// Indexes

fn new_indexes(request: &CreateTable, billing: Billing) -> Result<Vec<IndexDefinition>, ApiError> {
    let local = request.local_indexes.as_deref().unwrap_or_default();
    let global = request.global_indexes.as_deref().unwrap_or_default();
    let mut indexes = Vec::with_capacity(local.len() + global.len());

    for index in local {
        check_local_key(index, &request.key)?;
        add_index(
            &mut indexes,
            IndexDefinition {
                name: index.name.clone(),
                kind: IndexKind::Local,
                key: key_schema(&index.key, &request.attributes)?,
                projection: projection(index.projection.as_ref())?,
                throughput: Throughput::default(),
                on_demand_limits: None,
            },
        )?;
    }
    if local.len() > LOCAL_INDEXES_MAX {
        return Err(invalid(format_args!(
            "Number of LocalSecondaryIndexes exceeds per-table limit of {LOCAL_INDEXES_MAX}"
        )));
    }

    for index in global {
        check_global_key(&index.key)?;
        let name = &index.name;
        let projection = projection(index.projection.as_ref())?;
        let throughput = match (billing, index.throughput) {
            (Billing::OnDemand, None) => Throughput::default(),
            (Billing::OnDemand, Some(_)) => {
                return Err(invalid(format_args!(
                    "ProvisionedThroughput should not be specified for index: {name} when BillingMode is \
                     PAY_PER_REQUEST"
                )));
            }
            (Billing::Provisioned(_), Some(units)) => {
                check_units(units, Some(name))?;
                units
            }
            (Billing::Provisioned(_), None) => {
                return Err(invalid(format_args!(
                    "ProvisionedThroughput is not specified for index: {name}"
                )));
            }
        };
        add_index(
            &mut indexes,
            IndexDefinition {
                name: name.clone(),
                kind: IndexKind::Global,
                key: key_schema(&index.key, &request.attributes)?,
                projection,
                throughput,
                on_demand_limits: on_demand_limits(index.on_demand_limits, Subject::NewIndex(name), billing)?,
            },
        )?;
    }
    if global.len() > GLOBAL_INDEXES_MAX {
        return Err(invalid(format_args!(
            "GlobalSecondaryIndex count exceeds the per-table limit of {GLOBAL_INDEXES_MAX}"
        )));
    }
    check_projected_names(&indexes)?;
    Ok(indexes)
}

fn add_index(indexes: &mut Vec<IndexDefinition>, index: IndexDefinition) -> Result<(), ApiError> {
    if indexes.iter().any(|other| other.name == index.name) {
        return Err(invalid(format_args!("Duplicate index name: {}", index.name)));
    }
    indexes.push(index);
    Ok(())
}

fn check_local_key(index: &NewIndex, table_key: &[KeyElement]) -> Result<(), ApiError> {
    check_key_pair(&index.key)?;
    let name = &index.name;
    if index.key.len() < 2 {
        return Err(invalid(format_args!("Index KeySchema does not have a range key for index: {name}")));
    }
    if let (Some(of_index), Some(of_table)) = (index.key.first(), table_key.first())
        && of_index.name != of_table.name
    {
        return Err(invalid(format_args!(
            "Index KeySchema does not have the same leading hash key as table KeySchema for index: {name}. \
             index hash key: {}, table hash key: {}",
            of_index.name, of_table.name
        )));
    }
    Ok(())
}

fn projection(asked: Option<&ProjectionSpecification>) -> Result<Projection, ApiError> {
    let Some((kind, names)) = asked.and_then(|asked| Some((asked.kind?, asked.names.as_ref()))) else {
        return Err(invalid("Unknown ProjectionType: null"));
    };
    let forbidden =
        |kind| Err(invalid(format_args!("ProjectionType is {kind}, but NonKeyAttributes is specified")));
    match (kind, names) {
        (ProjectionKind::All, None) => Ok(Projection::All),
        (ProjectionKind::All, Some(_)) => forbidden("ALL"),
        (ProjectionKind::KeysOnly, None) => Ok(Projection::KeysOnly),
        (ProjectionKind::KeysOnly, Some(_)) => forbidden("KEYS_ONLY"),
        (ProjectionKind::Include, None) => {
            Err(invalid("ProjectionType is INCLUDE, but NonKeyAttributes is not specified"))
        }
        (ProjectionKind::Include, Some(names)) => {
            let mut seen = BTreeSet::new();
            match names.iter().find(|name| !seen.insert(*name)) {
                Some(twice) => Err(invalid(format_args!("Duplicate element in NonKeyAttributes: {twice}"))),
                None => Ok(Projection::Include(names.clone())),
            }
        }
    }
}

fn check_projected_names(indexes: &[IndexDefinition]) -> Result<(), ApiError> {
    let count = |index: &IndexDefinition| match &index.projection {
        Projection::Include(names) => names.len(),
        Projection::All | Projection::KeysOnly => 0,
    };
    if indexes.iter().map(count).sum::<usize>() > PROJECTED_NAMES_MAX {
        return Err(invalid(format_args!(
            "Number of NonKeyAttributes in all indexes exceeds per-table limit of {PROJECTED_NAMES_MAX}"
        )));
    }
    Ok(())
}

fn create_index(
    definition: &mut TableDefinition,
    index: &NewIndex,
    definitions: &[Definition],
) -> Result<(), ApiError> {
    let name = &index.name;
    if definition.index(name.as_str()).is_some() {
        return Err(ApiError::validation("Attempting to create an index which already exists"));
    }
    check_defined(&index.key, definitions)?;
    check_global_key(&index.key)?;
    let projection = projection(index.projection.as_ref())?;
    let throughput = match (definition.billing, index.throughput) {
        (Billing::OnDemand, None) => Throughput::default(),
        (Billing::OnDemand, Some(_)) => {
            return Err(invalid(format_args!(
                "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for index: {name} when \
                 BillingMode is PAY_PER_REQUEST"
            )));
        }
        (Billing::Provisioned(_), Some(units)) => {
            check_units(units, Some(name))?;
            units
        }
        (Billing::Provisioned(_), None) => return Err(index_units_required(name)),
    };
    let on_demand_limits =
        on_demand_limits(index.on_demand_limits, Subject::Index(name), definition.billing)?;
    if global_indexes(definition).count() >= GLOBAL_INDEXES_MAX {
        return Err(ApiError::LimitExceeded(format!(
            "Subscriber limit exceeded: Number of global secondary indexes exceeds per-table limit of \
             {GLOBAL_INDEXES_MAX}"
        )));
    }

    check_not_redefined(definition, index, definitions)?;
    for (attribute, kind) in definitions {
        if definition.attribute(attribute).is_none() {
            definition.attributes.push((attribute.clone(), *kind));
        }
    }
    definition.indexes.push(IndexDefinition {
        name: name.clone(),
        kind: IndexKind::Global,
        key: key_schema(&index.key, &definition.attributes)?,
        projection,
        throughput,
        on_demand_limits,
    });
    check_projected_names(&definition.indexes)
}

/// An attribute has one type, in all keys that it is part of.
fn check_not_redefined(
    definition: &TableDefinition,
    index: &NewIndex,
    definitions: &[Definition],
) -> Result<(), ApiError> {
    let redefined = |element: &&KeyElement| {
        let asked = definitions.iter().find(|(name, _)| *name == element.name).map(|(_, kind)| *kind);
        definition.attribute(&element.name).is_some_and(|kind| Some(kind) != asked)
    };
    let Some(element) = index.key.iter().find(redefined) else { return Ok(()) };
    let keys = std::iter::once(&definition.key).chain(definition.indexes.iter().map(|index| &index.key));
    let existing = keys.into_iter().find(|key| key.contains(&element.name)).cloned();
    let shown = |schema: &KeySchema| {
        let partition = schema.partition.iter().map(|attribute| (attribute, "HASH"));
        let elements = partition.chain(schema.sort.iter().map(|attribute| (attribute, "RANGE")));
        let element = |(attribute, role): (&KeyAttribute, &str)| {
            format!("SchemaElement: key{{{}:{}:{role}}}", attribute.name, attribute.kind)
        };
        elements.map(element).collect::<Vec<_>>().join(", ")
    };
    Err(invalid(format_args!(
        "Attributes cannot be redefined. Please check that your attribute has the same type as previously defined. \
         Existing schema: Schema:[{}] New schema: Schema:[{}]",
        existing.as_ref().map(shown).unwrap_or_default(),
        shown(&key_schema(&index.key, definitions)?),
    )))
}

fn update_index(
    definition: &mut TableDefinition,
    name: &IndexName,
    units: Option<Throughput>,
    limits: Option<Throughput>,
) -> Result<(), ApiError> {
    let at = global_index(definition, name, "update")?;
    let billing = definition.billing;
    let index = &mut definition.indexes[at];
    let asked_limits = on_demand_limits(limits, Subject::Index(name), billing)?;
    match (billing, units) {
        (Billing::OnDemand, None) if limits.is_some() => index.on_demand_limits = asked_limits,
        (Billing::OnDemand, _) => {
            return Err(invalid(format_args!(
                "The only Updates for index: {name} when TableThroughputMode is PAY_PER_REQUEST can be to \
                 OnDemandThroughput, WarmThroughput"
            )));
        }
        (Billing::Provisioned(_), None) => return Err(index_units_required(name)),
        (Billing::Provisioned(_), Some(units)) if units == index.throughput => {
            return Err(unchanged_units(&format!("the index {name}"), &format!("index {name}"), units));
        }
        (Billing::Provisioned(_), Some(units)) => index.throughput = units,
    }
    Ok(())
}

fn index_units_required(name: &IndexName) -> ApiError {
    invalid(format_args!("Both ReadCapacityUnits and WriteCapacityUnits must be specified for index: {name}"))
}

fn global_indexes(definition: &TableDefinition) -> impl Iterator<Item = &IndexDefinition> {
    definition.indexes.iter().filter(|index| index.kind == IndexKind::Global)
}

/// Where the global index stands that an UpdateTable wants to `verb`.
fn global_index(definition: &TableDefinition, name: &IndexName, verb: &str) -> Result<usize, ApiError> {
    let found = definition.indexes.iter().enumerate().find(|(_, index)| index.name == *name);
    match found {
        Some((at, index)) if index.kind == IndexKind::Global => Ok(at),
        Some(_) => Err(ApiError::Validation(format!(
            "Cannot {verb} an index that is not a GlobalSecondaryIndex: {name}"
        ))),
        None => Err(ApiError::ResourceNotFound(format!(
            "Requested resource not found: Index {name} for table {}",
            definition.name
        ))),
    }
}

/// Definitions live as long as a key uses them.
fn forget_unused_attributes(definition: &mut TableDefinition) {
    let TableDefinition { attributes, key, indexes, .. } = definition;
    attributes.retain(|(name, _)| key.contains(name) || indexes.iter().any(|index| index.key.contains(name)));
}

// One change at a time

/// Whether the change builds or removes an index, of which a table does one at a time.
fn is_online(change: &IndexChange) -> bool {
    match change {
        IndexChange::Create(_) | IndexChange::Delete { .. } => true,
        IndexChange::Update { .. } => false,
    }
}

fn change_name(change: &IndexChange) -> &IndexName {
    match change {
        IndexChange::Create(NewIndex { name, .. })
        | IndexChange::Update { name, .. }
        | IndexChange::Delete { name } => name,
    }
}

/// Which kinds of change go together, for a request with more than one.
fn check_combination(request: &UpdateTable, changes: &[IndexChange]) -> Result<(), ApiError> {
    let alone = [
        (request.encryption.is_some(), "Server-Side Encryption"),
        (request.class.is_some(), "TableClass"),
        (request.deletion_protection.is_some(), "DeletionProtection"),
    ];
    if let Some((_, kind)) = alone.into_iter().find(|(asked, _)| *asked) {
        return Err(invalid(format_args!("{kind} modification must be the only operation in the request")));
    }
    let stream = request.stream.is_some();
    let online = changes.iter().any(is_online);
    if request.on_demand_limits.is_some() && (stream || !changes.is_empty()) {
        return Err(invalid(
            "OnDemandThroughput can only be combined with BillingMode in an UpdateTable request",
        ));
    }
    if stream && request.throughput.is_some() {
        return Err(invalid("You cannot modify stream status while updating table IOPS"));
    }
    if online && request.throughput.is_some() {
        return Err(invalid("You cannot create or delete index while updating table IOPS"));
    }
    if online && stream {
        return Err(invalid("You cannot create or delete index while changing stream status"));
    }
    Ok(())
}

// Streams and encryption

fn stream_view(
    asked: StreamSpecification,
    view_required: &str,
    view_forbidden: &str,
) -> Result<Option<StreamView>, ApiError> {
    match (asked.enabled, asked.view) {
        (true, None) => Err(invalid(view_required)),
        (false, Some(_)) => Err(invalid(view_forbidden)),
        (true, Some(_)) | (false, None) => Ok(asked.view),
    }
}

fn changed_view(asked: StreamSpecification) -> Result<Option<StreamView>, ApiError> {
    stream_view(
        asked,
        "If stream is being enabled then UpdateViewType is required",
        "If stream is being disabled, then UpdateViewType must not be specified",
    )
}

fn changed_stream(
    current: &TableDefinition,
    asked: StreamSpecification,
) -> Result<Option<StreamView>, ApiError> {
    let problem = match (current.stream.is_some(), asked.enabled) {
        (true, true) => "Table already has an enabled stream",
        (false, false) => "Table has no stream to disable",
        (true, false) | (false, true) => return changed_view(asked),
    };
    Err(ApiError::Validation(format!("{problem}: TableName: {}", current.name)))
}

/// `None`: with the key that the service owns, as every table is by default.
fn encryption(asked: &EncryptionSpecification) -> Result<Option<Encryption>, ApiError> {
    match (asked.enabled.unwrap_or(false), asked.kms, &asked.kms_key) {
        (false, true, _) => Err(invalid("SSEType can not be specified if Enabled is false")),
        (false, false, Some(_)) => Err(invalid("KMSMasterKeyId can not be specified if Enabled is false")),
        (false, false, None) => Ok(None),
        (true, false, Some(_)) => Err(invalid("SSEType KMS is required if KMSMasterKeyId is specified")),
        (true, _, kms_key) => Ok(Some(Encryption { kms_key: kms_key.clone() })),
    }
}

fn changed_encryption(
    current: &TableDefinition,
    asked: &EncryptionSpecification,
) -> Result<Option<Encryption>, ApiError> {
    let asked = encryption(asked)?;
    match (&current.encryption, &asked) {
        (None, None) => Err(invalid("Table is already encrypted by default")),
        // Only an ARN is known to name the same key: an alias may have moved.
        (Some(Encryption { kms_key: Some(now) }), Some(Encryption { kms_key: Some(key) }))
            if now == key && key.starts_with("arn:") =>
        {
            Err(invalid(
                "Table is already encrypted with given KMSMasterKeyId. Use KMSMasterKeyId parameter if you \
                 want to change Master Key",
            ))
        }
        _ => Ok(asked),
    }
}

#[cfg(test)]
mod tests;
