//! CreateTable, and the parts of a table's definition that UpdateTable takes too.

use larder_engine::ops::{
    BillingMode, CreateTable, EncryptionSpecification, KeyElement, KeyRole, NewIndex, ProjectionKind,
    ProjectionSpecification, Request, StreamSpecification,
};
use larder_model::limits::KEY_NAME_BYTES_MAX;
use larder_model::{Arn, IndexName, KeyType, StreamView, TableClass, Throughput};

use crate::constraints::{self, Constraints};
use crate::json::Reader;
use crate::members::request;
use crate::refusal::{Read, Refusal};
use crate::shape;

use super::tags::{Tag, check_tags, pairs, tags};

pub(super) fn decode(reader: &mut Reader<'_>) -> Read<Request> {
    let mut table = NewTable::default();
    request(reader, |reader, name| table.read(reader, &name))?;
    Ok(Request::CreateTable(Box::new(table.finish()?)))
}

/// A table as it was asked for.
#[derive(Debug, Default)]
pub(super) struct NewTable {
    table: Option<String>,
    attributes: Option<Vec<Named>>,
    key: Option<Vec<Named>>,
    local_indexes: Option<Vec<Index>>,
    global_indexes: Option<Vec<Index>>,
    settings: Settings,
    tag_list: Option<Vec<Tag>>,
    policy: Option<String>,
}

impl NewTable {
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, name: &str) -> Read<()> {
        match name {
            "TableName" => self.table = shape::owned_text(reader)?,
            "AttributeDefinitions" => self.attributes = attribute_definitions(reader)?,
            "KeySchema" => self.key = key_schema(reader)?,
            "LocalSecondaryIndexes" => self.local_indexes = indexes(reader, "LocalSecondaryIndex")?,
            "GlobalSecondaryIndexes" => self.global_indexes = indexes(reader, "GlobalSecondaryIndex")?,
            "Tags" => self.tag_list = tags(reader)?,
            "ResourcePolicy" => self.policy = shape::owned_text(reader)?,
            _ => self.settings.read(reader, name)?,
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Read<CreateTable> {
        let Self { table, attributes, key, local_indexes, global_indexes, settings, tag_list, policy } = self;
        let name = table.as_deref().ok_or_else(|| {
            Refusal::plain("The parameter 'TableName' is required but was not present in the request")
        })?;
        let mut constraints = Constraints::default();
        if Arn::table_said(name).is_none() {
            constraints.name(name, "tableName");
        }
        constraints.finish()?;

        let mut constraints = Constraints::default();
        settings.check_billing(&mut constraints);
        settings.check_throughput(&mut constraints);
        check_key_schema(&mut constraints, key.as_deref(), "keySchema", 2);
        check_attribute_definitions(&mut constraints, attributes.as_deref());
        for (at, index) in global_indexes.iter().flatten().enumerate() {
            index.check_global(&mut constraints, &format!("globalSecondaryIndexes.{}.member", at + 1));
        }
        for (at, index) in local_indexes.iter().flatten().enumerate() {
            index.check_local(&mut constraints, &format!("localSecondaryIndexes.{}.member", at + 1));
        }
        settings.check_class(&mut constraints);
        settings.check_stream(&mut constraints);
        settings.check_encryption(&mut constraints);
        check_tags(&mut constraints, tag_list.as_deref().unwrap_or_default());
        constraints.finish()?;

        settings.check_new_on_demand_limits()?;

        let new_indexes = |indexes: Option<Vec<Index>>| {
            indexes
                .map(|indexes| indexes.into_iter().map(Index::into_new).collect::<Read<Vec<_>>>())
                .transpose()
        };
        Ok(CreateTable {
            table: constraints::table_name(table.map(Into::into))?,
            attributes: defined(attributes),
            key: elements(key),
            local_indexes: new_indexes(local_indexes)?,
            global_indexes: new_indexes(global_indexes)?,
            billing_mode: settings.billing_mode(),
            throughput: settings.throughput(),
            on_demand_limits: settings.on_demand_limits(),
            stream: settings.stream(),
            encryption: settings.encryption(),
            class: settings.class(),
            deletion_protection: settings.deletion_protection,
            tags: pairs(tag_list),
            policy,
        })
    }
}

/// What CreateTable and UpdateTable both set.
#[derive(Debug, Default)]
pub(super) struct Settings {
    billing: Option<String>,
    throughput: Option<Units>,
    on_demand: Option<Units>,
    stream: Option<Stream>,
    encryption: Option<Encryption>,
    class: Option<String>,
    pub(super) deletion_protection: Option<bool>,
}

/// Read and write units as they were given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Units {
    read: Option<i64>,
    write: Option<i64>,
}

#[derive(Debug, Default)]
struct Stream {
    enabled: Option<bool>,
    view: Option<String>,
}

#[derive(Debug, Default)]
struct Encryption {
    enabled: Option<bool>,
    kind: Option<String>,
    key: Option<String>,
}

impl Settings {
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, name: &str) -> Read<()> {
        match name {
            "BillingMode" => self.billing = shape::owned_text(reader)?,
            "ProvisionedThroughput" => self.throughput = provisioned(reader)?,
            "OnDemandThroughput" => self.on_demand = on_demand(reader)?,
            "TableClass" => self.class = shape::owned_text(reader)?,
            "DeletionProtectionEnabled" => self.deletion_protection = shape::boolean(reader)?,
            "StreamSpecification" => {
                let mut stream = Stream::default();
                let present = shape::structure(reader, "StreamSpecification", |reader, member| {
                    match &*member {
                        "StreamEnabled" => stream.enabled = shape::boolean(reader)?,
                        "StreamViewType" => stream.view = shape::owned_text(reader)?,
                        _ => drop(reader.skip()?),
                    }
                    Ok(())
                })?;
                self.stream = present.then_some(stream);
            }
            "SSESpecification" => {
                let mut encryption = Encryption::default();
                let present = shape::structure(reader, "SSESpecification", |reader, member| {
                    match &*member {
                        "Enabled" => encryption.enabled = shape::boolean(reader)?,
                        "SSEType" => encryption.kind = shape::owned_text(reader)?,
                        "KMSMasterKeyId" => encryption.key = shape::owned_text(reader)?,
                        _ => drop(reader.skip()?),
                    }
                    Ok(())
                })?;
                self.encryption = present.then_some(encryption);
            }
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    pub(super) fn check_billing(&self, constraints: &mut Constraints) {
        constraints.one_of(self.billing.as_deref(), "billingMode", &["PROVISIONED", "PAY_PER_REQUEST"]);
    }

    pub(super) fn check_throughput(&self, constraints: &mut Constraints) {
        if let Some(units) = self.throughput {
            units.check(constraints, "provisionedThroughput");
        }
    }

    pub(super) fn check_class(&self, constraints: &mut Constraints) {
        let classes = ["STANDARD", "STANDARD_INFREQUENT_ACCESS"];
        constraints.one_of(self.class.as_deref(), "tableClass", &classes);
    }

    pub(super) fn check_stream(&self, constraints: &mut Constraints) {
        let Some(stream) = &self.stream else { return };
        constraints.present(&stream.enabled, "streamSpecification.streamEnabled");
        let views = ["NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES", "KEYS_ONLY"];
        constraints.one_of(stream.view.as_deref(), "streamSpecification.streamViewType", &views);
    }

    pub(super) fn check_encryption(&self, constraints: &mut Constraints) {
        let kind = self.encryption.as_ref().and_then(|encryption| encryption.kind.as_deref());
        constraints.one_of(kind, "sSESpecification.sSEType", &["AES256", "KMS"]);
    }

    /// -1 lifts a limit, which a new table has none of. From here on it stands for a limit that is not given.
    fn check_new_on_demand_limits(&self) -> Read<()> {
        let Some(units) = self.on_demand else { return Ok(()) };
        let members = [("MaxReadRequestUnits", units.read), ("MaxWriteRequestUnits", units.write)];
        if let Some((member, _)) = members.into_iter().find(|(_, units)| *units == Some(-1)) {
            return Err(Refusal::Plain(format!(
                "One or more parameter values were invalid: Requested {member} for OnDemandThroughput for table is outside of valid range"
            )));
        }
        Ok(())
    }

    pub(super) fn billing_mode(&self) -> Option<BillingMode> {
        Some(match self.billing.as_deref()? {
            "PAY_PER_REQUEST" => BillingMode::OnDemand,
            _ => BillingMode::Provisioned,
        })
    }

    pub(super) fn throughput(&self) -> Option<Throughput> {
        self.throughput.map(Units::throughput)
    }

    pub(super) fn on_demand_limits(&self) -> Option<Throughput> {
        self.on_demand.and_then(Units::limits)
    }

    pub(super) fn stream(&self) -> Option<StreamSpecification> {
        let stream = self.stream.as_ref()?;
        let view = stream.view.as_deref().map(|view| match view {
            "KEYS_ONLY" => StreamView::KeysOnly,
            "NEW_IMAGE" => StreamView::NewImage,
            "OLD_IMAGE" => StreamView::OldImage,
            _ => StreamView::NewAndOldImages,
        });
        Some(StreamSpecification { enabled: stream.enabled.unwrap_or(false), view })
    }

    pub(super) fn encryption(&self) -> Option<EncryptionSpecification> {
        let encryption = self.encryption.as_ref()?;
        Some(EncryptionSpecification {
            enabled: encryption.enabled,
            kms: encryption.kind.as_deref() == Some("KMS"),
            kms_key: encryption.key.clone(),
        })
    }

    pub(super) fn class(&self) -> Option<TableClass> {
        Some(match self.class.as_deref()? {
            "STANDARD_INFREQUENT_ACCESS" => TableClass::StandardInfrequentAccess,
            _ => TableClass::Standard,
        })
    }
}

impl Units {
    pub(super) fn check(self, constraints: &mut Constraints, path: &str) {
        for (units, member) in [(self.write, "writeCapacityUnits"), (self.read, "readCapacityUnits")] {
            let path = format!("{path}.{member}");
            constraints.present(&units, &path);
            constraints.at_least(units.unwrap_or(1), 1, &path);
        }
    }

    pub(super) fn throughput(self) -> Throughput {
        Throughput { read: self.read.unwrap_or_default(), write: self.write.unwrap_or_default() }
    }

    /// On-demand maxima; one that is not given is no limit. Nothing at all says nothing.
    pub(super) fn limits(self) -> Option<Throughput> {
        if self.read.is_none() && self.write.is_none() {
            return None;
        }
        Some(Throughput { read: self.read.unwrap_or(-1), write: self.write.unwrap_or(-1) })
    }
}

pub(super) fn provisioned(reader: &mut Reader<'_>) -> Read<Option<Units>> {
    units(reader, "ProvisionedThroughput", "ReadCapacityUnits", "WriteCapacityUnits")
}

pub(super) fn on_demand(reader: &mut Reader<'_>) -> Read<Option<Units>> {
    units(reader, "OnDemandThroughput", "MaxReadRequestUnits", "MaxWriteRequestUnits")
}

fn units(reader: &mut Reader<'_>, class: &str, read: &str, write: &str) -> Read<Option<Units>> {
    let mut units = Units::default();
    let present = shape::structure(reader, class, |reader, member| {
        if member == read {
            units.read = shape::long(reader)?;
        } else if member == write {
            units.write = shape::long(reader)?;
        } else {
            reader.skip()?;
        }
        Ok(())
    })?;
    Ok(present.then_some(units))
}

/// A name and what it is: an attribute's type, or its role in a key.
#[derive(Debug, Default)]
pub(super) struct Named {
    name: Option<String>,
    kind: Option<String>,
}

pub(super) fn attribute_definitions(reader: &mut Reader<'_>) -> Read<Option<Vec<Named>>> {
    named(reader, "AttributeDefinition", "AttributeType")
}

pub(super) fn key_schema(reader: &mut Reader<'_>) -> Read<Option<Vec<Named>>> {
    named(reader, "KeySchemaElement", "KeyType")
}

fn named(reader: &mut Reader<'_>, class: &str, kind: &str) -> Read<Option<Vec<Named>>> {
    let mut found = Vec::new();
    let present = shape::list(reader, |reader| {
        let mut element = Named::default();
        shape::element(reader, class, |reader, member| {
            if member == "AttributeName" {
                element.name = shape::owned_text(reader)?;
            } else if member == kind {
                element.kind = shape::owned_text(reader)?;
            } else {
                reader.skip()?;
            }
            Ok(())
        })?;
        found.push(element);
        Ok(())
    })?;
    Ok(present.then_some(found))
}

fn check_key_schema(constraints: &mut Constraints, key: Option<&[Named]>, path: &str, most: usize) {
    let Some(key) = key else { return constraints.null(path) };
    check_key_length(constraints, key, path, most);
    for (at, element) in key.iter().enumerate().take(10) {
        let path = format!("{path}.{}.member", at + 1);
        constraints.present(&element.name, &format!("{path}.attributeName"));
        constraints.key_name(element.name.as_deref(), &format!("{path}.attributeName"));
        constraints.present(&element.kind, &format!("{path}.keyType"));
        constraints.one_of(element.kind.as_deref(), &format!("{path}.keyType"), &["HASH", "RANGE"]);
    }
}

fn check_key_length(constraints: &mut Constraints, key: &[Named], path: &str, most: usize) {
    if key.is_empty() {
        constraints.broken("[]", path, "Member must have length greater than or equal to 1");
    } else if key.len() > most {
        let rule = format!("Member must have length less than or equal to {most}");
        // Of an index's key too this is said as of the table's.
        constraints.broken(&java_key_schema(key), "keySchema", &rule);
    }
}

fn java_key_schema(key: &[Named]) -> String {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let element = |element: &Named| {
        format!("KeySchemaElement(attributeName={}, keyType={})", text(&element.name), text(&element.kind))
    };
    format!("[{}]", key.iter().map(element).collect::<Vec<_>>().join(", "))
}

pub(super) fn check_attribute_definitions(constraints: &mut Constraints, attributes: Option<&[Named]>) {
    let Some(attributes) = attributes else { return constraints.null("attributeDefinitions") };
    for (at, attribute) in attributes.iter().enumerate() {
        let path = format!("attributeDefinitions.{}.member", at + 1);
        constraints.present(&attribute.name, &format!("{path}.attributeName"));
        constraints.key_name(attribute.name.as_deref(), &format!("{path}.attributeName"));
        constraints.present(&attribute.kind, &format!("{path}.attributeType"));
        constraints.one_of(attribute.kind.as_deref(), &format!("{path}.attributeType"), &["B", "N", "S"]);
    }
}

/// Definitions whose constraints hold.
pub(super) fn defined(attributes: Option<Vec<Named>>) -> Vec<(String, KeyType)> {
    let complete = |attribute: Named| Some((attribute.name?, KeyType::from_name(&attribute.kind?)?));
    attributes.into_iter().flatten().filter_map(complete).collect()
}

fn elements(key: Option<Vec<Named>>) -> Vec<KeyElement> {
    let complete = |element: Named| {
        let role = if element.kind?.as_str() == "HASH" { KeyRole::Partition } else { KeyRole::Sort };
        Some(KeyElement { name: element.name?, role })
    };
    key.into_iter().flatten().filter_map(complete).collect()
}

/// An index to be made, as it was given.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) name: Option<String>,
    key: Option<Vec<Named>>,
    projection: Option<Projected>,
    throughput: Option<Units>,
    on_demand: Option<Units>,
}

#[derive(Debug, Default)]
struct Projected {
    kind: Option<String>,
    names: Option<Vec<String>>,
}

pub(super) fn indexes(reader: &mut Reader<'_>, class: &str) -> Read<Option<Vec<Index>>> {
    let mut found = Vec::new();
    let present = shape::list(reader, |reader| {
        let mut index = Index::default();
        shape::element(reader, class, |reader, member| index.read(reader, &member))?;
        found.push(index);
        Ok(())
    })?;
    Ok(present.then_some(found))
}

impl Index {
    pub(super) fn read(&mut self, reader: &mut Reader<'_>, member: &str) -> Read<()> {
        match member {
            "IndexName" => self.name = shape::owned_text(reader)?,
            "KeySchema" => self.key = key_schema(reader)?,
            "Projection" => {
                let mut projection = Projected::default();
                let present = shape::structure(reader, "Projection", |reader, member| {
                    match &*member {
                        "ProjectionType" => projection.kind = shape::owned_text(reader)?,
                        "NonKeyAttributes" => projection.names = shape::texts(reader)?,
                        _ => drop(reader.skip()?),
                    }
                    Ok(())
                })?;
                self.projection = present.then_some(projection);
            }
            "ProvisionedThroughput" => self.throughput = provisioned(reader)?,
            "OnDemandThroughput" => self.on_demand = on_demand(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    pub(super) fn check_global(&self, constraints: &mut Constraints, path: &str) {
        self.check_key(constraints, path, 8);
        self.check_projection(constraints, path);
        self.check_name(constraints, path);
        if let Some(units) = self.throughput {
            units.check(constraints, &format!("{path}.provisionedThroughput"));
        }
    }

    pub(super) fn check_local(&self, constraints: &mut Constraints, path: &str) {
        self.check_name(constraints, path);
        self.check_key(constraints, path, 2);
        self.check_projection(constraints, path);
    }

    fn check_name(&self, constraints: &mut Constraints, path: &str) {
        let path = format!("{path}.indexName");
        match &self.name {
            Some(name) => constraints.name(name, &path),
            None => constraints.null(&path),
        }
    }

    fn check_key(&self, constraints: &mut Constraints, path: &str, most: usize) {
        check_key_schema(constraints, self.key.as_deref(), &format!("{path}.keySchema"), most);
    }

    fn check_projection(&self, constraints: &mut Constraints, path: &str) {
        let path = format!("{path}.projection");
        let Some(projection) = &self.projection else { return constraints.null(&path) };
        let kinds = ["ALL", "INCLUDE", "KEYS_ONLY"];
        constraints.one_of(projection.kind.as_deref(), &format!("{path}.projectionType"), &kinds);
        let path = format!("{path}.nonKeyAttributes");
        super::get_item::check_any_name(constraints, &projection.names, &path);
        let names = projection.names.as_deref().unwrap_or_default();
        constraints.members(names, &path, [1, KEY_NAME_BYTES_MAX], str::len);
    }

    pub(super) fn into_new(self) -> Read<NewIndex> {
        let name = self.name.unwrap_or_default();
        Ok(NewIndex {
            name: IndexName::new(name).map_err(|error| Refusal::Plain(error.to_string()))?,
            key: elements(self.key),
            projection: self.projection.map(|projection| ProjectionSpecification {
                kind: projection.kind.as_deref().map(|kind| match kind {
                    "ALL" => ProjectionKind::All,
                    "KEYS_ONLY" => ProjectionKind::KeysOnly,
                    _ => ProjectionKind::Include,
                }),
                names: projection.names,
            }),
            throughput: self.throughput.map(Units::throughput),
            on_demand_limits: self.on_demand.and_then(Units::limits),
        })
    }
}
