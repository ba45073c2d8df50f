//! A table's record: the catalog entry as an item.
//!
//! Attributes that a later version adds are optional here, so that an older record stays readable.

use std::sync::Arc;

use larder_model::{
    AttributeValue, Billing, Encryption, IndexDefinition, IndexKind, IndexName, Item, KeyAttribute,
    KeySchema, KeyType, Number, Projection, StreamView, TableClass, TableDefinition, TableName, Throughput,
    UnixTime,
};

use crate::catalog::{Backup, ClosedStream, Expiry, History, IndexTree, Recovery, Restored, Table};
use crate::copy::{Copy, Moment};
use crate::exports::Export;
use crate::imports::Import;
use crate::layout::{TableId, TreeId};
use crate::ops::{
    BucketPlace, ExportDescription, ExportView, Exported, ImportCompression, ImportCounts, ImportDescription,
    ImportFormat, ImportSource, ResourcePolicy, TaskStatus,
};
use crate::policies::Policies;

/// A record that does not say what a record must.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of a table cannot be read: `{0}` is missing or not understood")]
pub struct RecordError(&'static str);

type Result<T> = std::result::Result<T, RecordError>;

pub(crate) fn write(table: &Table) -> Item {
    let mut record = write_definition(&table.definition, &table.trees);
    record.insert("id", i64::from(table.id.0));
    record.insert("next_tree", i64::from(table.next_tree));
    if let Some(expiry) = &table.expiry {
        record.insert("ttl", expiry.attribute.as_str());
        record.insert("ttl_building", expiry.building);
    }
    if let Some(recovery) = &table.recovery {
        record.insert("recovery_days", i64::from(recovery.days));
        record.insert("recovery_since", recovery.since.millis());
    }
    if !table.copies.is_empty() {
        record.insert("copies", list(&table.copies, |id| i64::from(id.0).into()));
    }
    if let Some(restored) = &table.restored {
        record.insert("restored", write_restored(restored));
    }
    if table.is_importing {
        record.insert("importing", true);
    }
    write_policies(&mut record, &table.policies);
    write_history(&mut record, &table.history);
    record
}

/// What a table's owner decided, and where its indexes are.
fn write_definition(definition: &TableDefinition, trees: &[IndexTree]) -> Item {
    let mut record = Item::new();
    record.insert("name", definition.name.key());
    record.insert(
        "attributes",
        list(&definition.attributes, |(name, kind)| AttributeValue::S(format!("{kind}{name}"))),
    );
    record.insert("key", write_key(&definition.key));
    let indexes: Vec<_> = definition.indexes.iter().zip(trees).collect();
    record.insert("indexes", list(&indexes, |(index, tree)| write_index(index, tree)));
    match definition.billing {
        Billing::OnDemand => {}
        Billing::Provisioned(throughput) => {
            record.insert("provisioned", write_throughput(throughput));
        }
    }
    if let Some(limits) = definition.on_demand_limits {
        record.insert("on_demand_limits", write_throughput(limits));
    }
    if let Some(view) = definition.stream {
        record.insert("stream", stream_view_name(view));
    }
    if let Some(encryption) = &definition.encryption {
        record.insert("encryption", encryption.kms_key.clone().unwrap_or_default());
    }
    if let Some(class) = definition.class {
        record.insert("infrequent_access", class == TableClass::StandardInfrequentAccess);
    }
    record.insert("deletion_protection", definition.deletion_protection);
    let tags = definition.tags.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    record.insert("tags", AttributeValue::M(tags.collect()));
    record
}

fn write_policies(record: &mut Item, policies: &Policies) {
    let parts = |policy: &ResourcePolicy| [policy.revision().into(), policy.text().into()];
    if let Some(policy) = &policies.table {
        record.insert("policy", AttributeValue::L(parts(policy).into()));
    }
    if !policies.streams.is_empty() {
        let policies = list(&policies.streams, |(label, policy)| {
            AttributeValue::L([label.millis().into()].into_iter().chain(parts(policy)).collect())
        });
        record.insert("stream_policies", policies);
    }
}

fn read_policies(record: &Item) -> Result<Policies> {
    let policy = |revision: &AttributeValue, text: &AttributeValue| {
        let (revision, text) = (revision.as_str()?.to_owned(), text.as_str()?.to_owned());
        Some(Arc::new(ResourcePolicy::kept(text, revision)))
    };
    let of_stream = |value: &AttributeValue| match value {
        AttributeValue::L(parts) => match parts.as_slice() {
            [label, revision, text] => {
                let label = UnixTime::from_millis(label.as_number()?.to_i64()?);
                Some((label, policy(revision, text)?))
            }
            _ => None,
        },
        _ => None,
    };
    let streams = optional(record, "stream_policies", |value| match value {
        AttributeValue::L(policies) => policies.iter().map(of_stream).collect(),
        _ => None,
    })?;
    Ok(Policies {
        table: optional(record, "policy", |value| match value {
            AttributeValue::L(parts) => match parts.as_slice() {
                [revision, text] => policy(revision, text),
                _ => None,
            },
            _ => None,
        })?,
        streams: streams.unwrap_or_default(),
    })
}

fn write_restored(restored: &Restored) -> AttributeValue {
    let mut record = Item::new();
    record.insert("table", restored.table_arn.as_str());
    if let Some(backup) = &restored.backup_arn {
        record.insert("backup", backup.as_str());
    }
    record.insert("at", restored.at.millis());
    if let Some(copy) = &restored.copy {
        record.insert("source", i64::from(copy.source.0));
        match copy.moment {
            Moment::Now => {}
            Moment::Time { time, stretch } => {
                record.insert("time", time.millis());
                record.insert("stretch", i64::try_from(stretch).unwrap_or(i64::MAX));
            }
        }
    }
    AttributeValue::M(record)
}

fn read_restored(record: &Item) -> Result<Restored> {
    let moment = match record.get("time") {
        Some(_) => Moment::Time {
            time: UnixTime::from_millis(integer(record, "time")?),
            // A record from before the clock could be set back.
            stretch: if record.get("stretch").is_some() { integer(record, "stretch")? } else { 0 },
        },
        None => Moment::Now,
    };
    let copy = match record.get("source") {
        Some(_) => Some(Copy { source: TableId(integer(record, "source")?), moment }),
        None => None,
    };
    Ok(Restored {
        copy,
        table_arn: text(record, "table")?.to_owned(),
        backup_arn: optional(record, "backup", |value| value.as_str().map(str::to_owned))?,
        at: UnixTime::from_millis(integer(record, "at")?),
    })
}

/// A backup's record: the table's, and what is its own.
pub(crate) fn write_backup(backup: &Backup) -> Item {
    let mut record = Item::new();
    record.insert("id", backup.id.as_str());
    record.insert("name", backup.name.as_str());
    record.insert("created", backup.created.millis());
    if let Some(expires) = backup.expires {
        record.insert("expires", expires.millis());
    }
    if backup.is_hidden {
        record.insert("hidden", true);
    }
    record.insert("table", AttributeValue::M(write(&backup.table)));
    let items = &*backup.items;
    record.insert("items", i64::from(items.id.0));
    record.insert("copies", list(&items.copies, |id| i64::from(id.0).into()));
    if let Some(restored) = &items.restored {
        record.insert("restored", write_restored(restored));
    }
    record
}

pub(crate) fn read_backup(record: &Item) -> Result<Backup> {
    let Some(AttributeValue::M(table)) = record.get("table") else { return Err(RecordError("table")) };
    let table = Arc::new(read(table)?);
    let items = Table {
        id: TableId(integer(record, "items")?),
        trees: Vec::new(),
        expiry: None,
        recovery: None,
        copies: read_copies(record)?,
        restored: read_optional_restored(record)?,
        metrics: Arc::default(),
        ..(*table).clone()
    };
    Ok(Backup {
        id: text(record, "id")?.to_owned(),
        name: text(record, "name")?.to_owned(),
        created: UnixTime::from_millis(integer(record, "created")?),
        expires: match record.get("expires") {
            Some(_) => Some(UnixTime::from_millis(integer(record, "expires")?)),
            None => None,
        },
        is_hidden: optional(record, "hidden", as_bool)?.unwrap_or(false),
        table,
        items: Arc::new(items),
    })
}

/// A place, how far, and for how long: what an export's record and an import's have alike.
fn write_task(
    record: &mut Item,
    id: &str,
    place: &BucketPlace,
    status: &TaskStatus,
    times: [Option<UnixTime>; 2],
) {
    record.insert("id", id);
    record.insert("bucket", place.bucket.as_str());
    let (status, told) = match status {
        TaskStatus::InProgress => ("going on", None),
        TaskStatus::Completed => ("over", None),
        TaskStatus::Failed { code, message } => ("failed", Some((code, message))),
    };
    record.insert("status", status);
    let texts = [("owner", place.owner.as_ref()), ("prefix", place.prefix.as_ref())];
    let told = [("code", told.map(|(code, _)| code)), ("message", told.map(|(_, message)| message))];
    for (name, text) in texts.into_iter().chain(told) {
        if let Some(text) = text {
            record.insert(name, text.as_str());
        }
    }
    for (name, time) in ["started", "ended"].into_iter().zip(times) {
        if let Some(time) = time {
            record.insert(name, time.millis());
        }
    }
}

fn read_place(record: &Item) -> Result<BucketPlace> {
    Ok(BucketPlace {
        bucket: text(record, "bucket")?.to_owned(),
        owner: optional_text(record, "owner")?,
        prefix: optional_text(record, "prefix")?,
    })
}

fn read_status(record: &Item) -> Result<TaskStatus> {
    Ok(match text(record, "status")? {
        "going on" => TaskStatus::InProgress,
        "over" => TaskStatus::Completed,
        "failed" => TaskStatus::Failed {
            code: text(record, "code")?.to_owned(),
            message: text(record, "message")?.to_owned(),
        },
        _ => return Err(RecordError("status")),
    })
}

fn optional_text(record: &Item, name: &'static str) -> Result<Option<String>> {
    optional(record, name, |value| value.as_str().map(str::to_owned))
}

fn time(record: &Item, name: &'static str) -> Result<UnixTime> {
    Ok(UnixTime::from_millis(integer(record, name)?))
}

fn optional_time(record: &Item, name: &'static str) -> Result<Option<UnixTime>> {
    optional(record, name, |value| value.as_number()?.to_i64().map(UnixTime::from_millis))
}

fn uuid(record: &Item, name: &'static str) -> Result<[u8; 16]> {
    let found = optional(record, name, |value| match value {
        AttributeValue::B(bytes) => bytes.as_slice().try_into().ok(),
        _ => None,
    })?;
    found.ok_or(RecordError(name))
}

fn count(record: &Item, name: &'static str) -> Result<u64> {
    integer::<i64>(record, name).map(i64::cast_unsigned)
}

pub(crate) fn write_export(export: &Export) -> Item {
    let Export { description, asked, kept, source, stretches } = export;
    let mut record = Item::new();
    let times = [Some(description.started), description.ended];
    write_task(&mut record, &description.id, &description.place, &description.status, times);
    record.insert("table", description.table.key());
    record.insert("table_id", AttributeValue::B(description.table_id.to_vec()));
    record.insert("asked", asked.as_str());
    let [sse, key] = &description.encryption;
    let texts = [
        ("manifest", &description.manifest),
        ("token", &description.token),
        ("sse", sse),
        ("sse_key", key),
        ("kept", kept),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            record.insert(name, text.as_str());
        }
    }
    record.insert("bytes", description.bytes.cast_signed());
    record.insert("count", description.items.cast_signed());
    record.insert("source", i64::from(source.0));
    record.insert("stretches", list(stretches, |number| number.cast_signed().into()));
    match description.what {
        Exported::Table { at } => drop(record.insert("at", at.millis())),
        Exported::Changes { from, to, view } => {
            record.insert("from", from.millis());
            record.insert("to", to.millis());
            record.insert("old_images", view == ExportView::NewAndOld);
        }
    }
    record
}

pub(crate) fn read_export(record: &Item) -> Result<Export> {
    let what = match record.get("at") {
        Some(_) => Exported::Table { at: time(record, "at")? },
        None => Exported::Changes {
            from: time(record, "from")?,
            to: time(record, "to")?,
            view: match optional(record, "old_images", as_bool)? {
                Some(true) => ExportView::NewAndOld,
                Some(false) => ExportView::New,
                None => return Err(RecordError("old_images")),
            },
        },
    };
    let stretches = items(record, "stretches")?;
    let stretches = stretches.iter().map(|value| Some(value.as_number()?.to_i64()?.cast_unsigned()));
    let stretches = stretches.collect::<Option<Vec<u64>>>().and_then(|numbers| numbers.try_into().ok());
    Ok(Export {
        description: ExportDescription {
            table: TableName::from_key(text(record, "table")?).ok_or(RecordError("table"))?,
            id: text(record, "id")?.to_owned(),
            status: read_status(record)?,
            started: time(record, "started")?,
            ended: optional_time(record, "ended")?,
            manifest: optional_text(record, "manifest")?,
            table_id: uuid(record, "table_id")?,
            token: optional_text(record, "token")?,
            place: read_place(record)?,
            encryption: [optional_text(record, "sse")?, optional_text(record, "sse_key")?],
            bytes: count(record, "bytes")?,
            items: count(record, "count")?,
            what,
        },
        asked: text(record, "asked")?.to_owned(),
        kept: optional_text(record, "kept")?,
        source: TableId(integer(record, "source")?),
        stretches: stretches.ok_or(RecordError("stretches"))?,
    })
}

pub(crate) fn write_import(import: &Import) -> Item {
    let Import { description, asked } = import;
    let ImportSource { place, format, compression } = &description.source;
    let mut record = Item::new();
    let times = [Some(description.started), description.ended];
    write_task(&mut record, &description.id, place, &description.status, times);
    // It has no indexes of its own, so those of the definition are nowhere.
    let nowhere = vec![IndexTree { id: TreeId::ITEMS, building: false }; description.table.indexes.len()];
    record.insert("definition", AttributeValue::M(write_definition(&description.table, &nowhere)));
    record.insert("table_id", AttributeValue::B(description.table_id.to_vec()));
    record.insert("asked", asked.as_str());
    if let Some(token) = &description.token {
        record.insert("token", token.as_str());
    }
    match format {
        ImportFormat::DynamoDbJson => drop(record.insert("format", "json")),
        ImportFormat::Csv { delimiter, header } => {
            record.insert("format", "csv");
            if let Some(delimiter) = delimiter {
                record.insert("delimiter", delimiter.to_string());
            }
            if let Some(header) = header {
                record.insert("header", list(header, |name| AttributeValue::S(name.clone())));
            }
        }
    }
    record.insert("gzip", *compression == ImportCompression::Gzip);
    let ImportCounts { errors, bytes, processed, imported } = description.counts;
    let counts = [("errors", errors), ("bytes", bytes), ("processed", processed), ("imported", imported)];
    for (name, count) in counts {
        record.insert(name, count.cast_signed());
    }
    record
}

pub(crate) fn read_import(record: &Item) -> Result<Import> {
    let Some(AttributeValue::M(definition)) = record.get("definition") else {
        return Err(RecordError("definition"));
    };
    let format = match text(record, "format")? {
        "json" => ImportFormat::DynamoDbJson,
        "csv" => ImportFormat::Csv {
            delimiter: optional(record, "delimiter", |value| value.as_str()?.chars().next())?,
            header: match record.get("header") {
                Some(_) => Some(
                    texts(record, "header")?.map(|name| name.map(str::to_owned)).collect::<Result<_>>()?,
                ),
                None => None,
            },
        },
        _ => return Err(RecordError("format")),
    };
    let compression = match optional(record, "gzip", as_bool)? {
        Some(true) => ImportCompression::Gzip,
        Some(false) => ImportCompression::None,
        None => return Err(RecordError("gzip")),
    };
    Ok(Import {
        description: ImportDescription {
            id: text(record, "id")?.to_owned(),
            status: read_status(record)?,
            table: Arc::new(read_definition(definition)?.0),
            table_id: uuid(record, "table_id")?,
            token: optional_text(record, "token")?,
            source: ImportSource { place: read_place(record)?, format, compression },
            started: time(record, "started")?,
            ended: optional_time(record, "ended")?,
            counts: ImportCounts {
                errors: count(record, "errors")?,
                bytes: count(record, "bytes")?,
                processed: count(record, "processed")?,
                imported: count(record, "imported")?,
            },
        },
        asked: text(record, "asked")?.to_owned(),
    })
}

fn read_copies(record: &Item) -> Result<Vec<TableId>> {
    let copies = optional(record, "copies", |value| match value {
        AttributeValue::L(ids) => {
            ids.iter().map(|id| Some(TableId(u32::try_from(id.as_number()?.to_i64()?).ok()?))).collect()
        }
        _ => None,
    })?;
    Ok(copies.unwrap_or_default())
}

fn read_optional_restored(record: &Item) -> Result<Option<Restored>> {
    match record.get("restored") {
        Some(AttributeValue::M(restored)) => Ok(Some(read_restored(restored)?)),
        Some(_) => Err(RecordError("restored")),
        None => Ok(None),
    }
}

fn read_definition(record: &Item) -> Result<(TableDefinition, Vec<IndexTree>)> {
    let attributes = texts(record, "attributes")?
        .map(|text| {
            let text = text?;
            let (kind, name) = text.split_at_checked(1).ok_or(RecordError("attributes"))?;
            Ok((name.to_owned(), KeyType::from_name(kind).ok_or(RecordError("attributes"))?))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut indexes = Vec::new();
    let mut trees = Vec::new();
    for value in items(record, "indexes")? {
        let AttributeValue::M(index) = value else { return Err(RecordError("indexes")) };
        let (definition, tree) = read_index(index, &attributes)?;
        indexes.push(definition);
        trees.push(tree);
    }
    let definition = TableDefinition {
        name: TableName::from_key(text(record, "name")?).ok_or(RecordError("name"))?,
        key: read_key(record, &attributes)?,
        indexes,
        billing: match read_throughput(record, "provisioned")? {
            Some(throughput) => Billing::Provisioned(throughput),
            None => Billing::OnDemand,
        },
        on_demand_limits: read_throughput(record, "on_demand_limits")?,
        stream: optional(record, "stream", |value| value.as_str().and_then(stream_view))?,
        encryption: optional(record, "encryption", |value| {
            let key = value.as_str()?;
            Some(Encryption { kms_key: (!key.is_empty()).then(|| key.to_owned()) })
        })?,
        class: optional(record, "infrequent_access", as_bool)?
            .map(|rare| if rare { TableClass::StandardInfrequentAccess } else { TableClass::Standard }),
        deletion_protection: optional(record, "deletion_protection", as_bool)?.unwrap_or(false),
        tags: optional(record, "tags", |value| match value {
            AttributeValue::M(tags) => {
                tags.iter().map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
            }
            _ => None,
        })?
        .unwrap_or_default(),
        attributes,
    };
    Ok((definition, trees))
}

pub(crate) fn read(record: &Item) -> Result<Table> {
    let (definition, trees) = read_definition(record)?;
    let expiry = match record.get("ttl").and_then(AttributeValue::as_str) {
        Some(attribute) => Some(Expiry {
            attribute: attribute.to_owned(),
            building: optional(record, "ttl_building", as_bool)?.unwrap_or(false),
        }),
        None => None,
    };
    Ok(Table {
        id: TableId(integer(record, "id")?),
        definition: Arc::new(definition),
        trees,
        next_tree: integer(record, "next_tree")?,
        expiry,
        recovery: match record.get("recovery_days") {
            Some(_) => Some(Recovery {
                days: integer(record, "recovery_days")?,
                since: UnixTime::from_millis(integer(record, "recovery_since")?),
            }),
            None => None,
        },
        copies: read_copies(record)?,
        restored: read_optional_restored(record)?,
        is_importing: optional(record, "importing", as_bool)?.unwrap_or(false),
        policies: read_policies(record)?,
        history: read_history(record)?,
        metrics: Arc::default(),
    })
}

fn write_index(index: &IndexDefinition, tree: &IndexTree) -> AttributeValue {
    let mut record = Item::new();
    record.insert("name", index.name.as_str());
    record.insert("local", index.kind == IndexKind::Local);
    record.insert("key", write_key(&index.key));
    match &index.projection {
        Projection::All => record.insert("project", "all"),
        Projection::KeysOnly => record.insert("project", "keys"),
        Projection::Include(names) => {
            record.insert("project", list(names, |name| AttributeValue::S(name.clone())))
        }
    };
    record.insert("throughput", write_throughput(index.throughput));
    if let Some(limits) = index.on_demand_limits {
        record.insert("on_demand_limits", write_throughput(limits));
    }
    record.insert("tree", i64::from(tree.id.0));
    record.insert("building", tree.building);
    AttributeValue::M(record)
}

fn read_index(record: &Item, attributes: &[(String, KeyType)]) -> Result<(IndexDefinition, IndexTree)> {
    let projection = match record.get("project") {
        Some(AttributeValue::S(word)) if word == "all" => Projection::All,
        Some(AttributeValue::S(word)) if word == "keys" => Projection::KeysOnly,
        Some(AttributeValue::L(_)) => Projection::Include(
            texts(record, "project")?.map(|name| name.map(str::to_owned)).collect::<Result<_>>()?,
        ),
        _ => return Err(RecordError("project")),
    };
    let local = optional(record, "local", as_bool)?.unwrap_or(false);
    let definition = IndexDefinition {
        name: IndexName::new(text(record, "name")?).map_err(|_| RecordError("name"))?,
        kind: if local { IndexKind::Local } else { IndexKind::Global },
        key: read_key(record, attributes)?,
        projection,
        throughput: read_throughput(record, "throughput")?.unwrap_or_default(),
        on_demand_limits: read_throughput(record, "on_demand_limits")?,
    };
    let tree = IndexTree {
        id: TreeId(integer(record, "tree")?),
        building: optional(record, "building", as_bool)?.unwrap_or(false),
    };
    Ok((definition, tree))
}

/// A list of texts: `P` or `S` for the part of the key, then the attribute's name.
fn write_key(key: &KeySchema) -> AttributeValue {
    let part =
        |part: char| move |attribute: &KeyAttribute| AttributeValue::S(format!("{part}{}", attribute.name));
    AttributeValue::L(key.partition.iter().map(part('P')).chain(key.sort.iter().map(part('S'))).collect())
}

fn read_key(record: &Item, attributes: &[(String, KeyType)]) -> Result<KeySchema> {
    let mut key = KeySchema { partition: Vec::new(), sort: Vec::new() };
    for text in texts(record, "key")? {
        let (part, name) = text?.split_at_checked(1).ok_or(RecordError("key"))?;
        let (_, kind) = attributes.iter().find(|(known, _)| known == name).ok_or(RecordError("key"))?;
        let attribute = KeyAttribute { name: name.to_owned(), kind: *kind };
        match part {
            "P" => key.partition.push(attribute),
            "S" => key.sort.push(attribute),
            _ => return Err(RecordError("key")),
        }
    }
    Ok(key)
}

fn write_throughput(throughput: Throughput) -> AttributeValue {
    AttributeValue::L(vec![throughput.read.into(), throughput.write.into()])
}

fn read_throughput(record: &Item, name: &'static str) -> Result<Option<Throughput>> {
    optional(record, name, |value| match value {
        AttributeValue::L(units) => match units.as_slice() {
            [read, write] => {
                let units = |value: &AttributeValue| value.as_number().and_then(Number::to_i64);
                Some(Throughput { read: units(read)?, write: units(write)? })
            }
            _ => None,
        },
        _ => None,
    })
}

fn stream_view_name(view: StreamView) -> &'static str {
    match view {
        StreamView::KeysOnly => "keys",
        StreamView::NewImage => "new",
        StreamView::OldImage => "old",
        StreamView::NewAndOldImages => "both",
    }
}

fn stream_view(name: &str) -> Option<StreamView> {
    [StreamView::KeysOnly, StreamView::NewImage, StreamView::OldImage, StreamView::NewAndOldImages]
        .into_iter()
        .find(|view| stream_view_name(*view) == name)
}

fn write_history(record: &mut Item, history: &History) {
    record.insert("uuid", AttributeValue::B(history.uuid.to_vec()));
    record.insert("created", history.created.millis());
    let moments = [
        ("on_demand_since", history.on_demand_since),
        ("throughput_increased", history.throughput_increased),
        ("throughput_decreased", history.throughput_decreased),
        ("stream_label", history.stream_label),
        ("class_changed", history.class_changed),
    ];
    for (name, moment) in moments {
        if let Some(moment) = moment {
            record.insert(name, moment.millis());
        }
    }
    if !history.closed_streams.is_empty() {
        record.insert(
            "closed_streams",
            list(&history.closed_streams, |stream| {
                let view = stream_view_name(stream.view).into();
                AttributeValue::L(vec![stream.label.millis().into(), view, stream.closed.millis().into()])
            }),
        );
    }
}

fn read_closed_stream(value: &AttributeValue) -> Option<ClosedStream> {
    let time = |value: &AttributeValue| value.as_number()?.to_i64().map(UnixTime::from_millis);
    let AttributeValue::L(parts) = value else { return None };
    let [label, view, closed] = parts.as_slice() else { return None };
    Some(ClosedStream { label: time(label)?, view: stream_view(view.as_str()?)?, closed: time(closed)? })
}

fn read_history(record: &Item) -> Result<History> {
    let moment =
        |name| optional(record, name, |value| value.as_number()?.to_i64().map(UnixTime::from_millis));
    Ok(History {
        uuid: optional(record, "uuid", |value| match value {
            AttributeValue::B(bytes) => bytes.as_slice().try_into().ok(),
            _ => None,
        })?
        .ok_or(RecordError("uuid"))?,
        created: moment("created")?.ok_or(RecordError("created"))?,
        on_demand_since: moment("on_demand_since")?,
        throughput_increased: moment("throughput_increased")?,
        throughput_decreased: moment("throughput_decreased")?,
        stream_label: moment("stream_label")?,
        closed_streams: optional(record, "closed_streams", |value| match value {
            AttributeValue::L(streams) => streams.iter().map(read_closed_stream).collect(),
            _ => None,
        })?
        .unwrap_or_default(),
        class_changed: moment("class_changed")?,
    })
}

fn list<T>(values: &[T], value: impl Fn(&T) -> AttributeValue) -> AttributeValue {
    AttributeValue::L(values.iter().map(value).collect())
}

fn text<'a>(record: &'a Item, name: &'static str) -> Result<&'a str> {
    record.get(name).and_then(AttributeValue::as_str).ok_or(RecordError(name))
}

fn items<'a>(record: &'a Item, name: &'static str) -> Result<&'a [AttributeValue]> {
    match record.get(name) {
        Some(AttributeValue::L(values)) => Ok(values),
        _ => Err(RecordError(name)),
    }
}

fn texts<'a>(record: &'a Item, name: &'static str) -> Result<impl Iterator<Item = Result<&'a str>>> {
    Ok(items(record, name)?.iter().map(move |value| value.as_str().ok_or(RecordError(name))))
}

fn integer<T: TryFrom<i64>>(record: &Item, name: &'static str) -> Result<T> {
    let number = record.get(name).and_then(AttributeValue::as_number).and_then(Number::to_i64);
    number.and_then(|number| T::try_from(number).ok()).ok_or(RecordError(name))
}

fn as_bool(value: &AttributeValue) -> Option<bool> {
    match value {
        AttributeValue::Bool(value) => Some(*value),
        _ => None,
    }
}

fn optional<T>(
    record: &Item,
    name: &'static str,
    read: impl Fn(&AttributeValue) -> Option<T>,
) -> Result<Option<T>> {
    record.get(name).map(|value| read(value).ok_or(RecordError(name))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, kind: KeyType) -> KeyAttribute {
        KeyAttribute { name: name.into(), kind }
    }

    #[test]
    fn a_record_says_everything_about_its_table() {
        let index = |name: &str, kind, projection| IndexDefinition {
            name: IndexName::new(name).unwrap(),
            kind,
            key: KeySchema {
                partition: vec![attribute("pk", KeyType::S)],
                sort: vec![attribute("n", KeyType::N), attribute("b", KeyType::B)],
            },
            projection,
            throughput: Throughput { read: 3, write: 4 },
            on_demand_limits: Some(Throughput { read: -1, write: 7 }),
        };
        let mut table = Table {
            id: TableId(77),
            definition: Arc::new(TableDefinition {
                name: TableName::new("full").unwrap(),
                attributes: vec![
                    ("pk".into(), KeyType::S),
                    ("n".into(), KeyType::N),
                    ("b".into(), KeyType::B),
                ],
                key: KeySchema {
                    partition: vec![attribute("pk", KeyType::S)],
                    sort: vec![attribute("n", KeyType::N)],
                },
                indexes: vec![
                    index("all", IndexKind::Global, Projection::All),
                    index("some", IndexKind::Local, Projection::Include(vec!["x".into(), "y".into()])),
                    index("keys", IndexKind::Global, Projection::KeysOnly),
                ],
                billing: Billing::Provisioned(Throughput { read: 5, write: 6 }),
                on_demand_limits: None,
                stream: Some(StreamView::OldImage),
                encryption: Some(Encryption { kms_key: Some("key".into()) }),
                class: Some(TableClass::StandardInfrequentAccess),
                deletion_protection: true,
                tags: [("Name".into(), "Lunch".into())].into(),
            }),
            trees: (1..4).map(|n| IndexTree { id: TreeId(n), building: n == 2 }).collect(),
            next_tree: 9,
            expiry: Some(Expiry { attribute: "ttl".into(), building: true }),
            recovery: Some(Recovery { days: 35, since: UnixTime::from_millis(4) }),
            copies: vec![TableId(5), TableId(6)],
            restored: Some(Restored {
                copy: Some(Copy {
                    source: TableId(3),
                    moment: Moment::Time { time: UnixTime::from_millis(1_700_000_000_001), stretch: 12 },
                }),
                table_arn: "arn:table".into(),
                backup_arn: Some("arn:backup".into()),
                at: UnixTime::from_millis(9),
            }),
            is_importing: true,
            policies: Policies {
                table: Some(Arc::new(ResourcePolicy::kept("{}".into(), "1".into()))),
                streams: vec![(
                    UnixTime::from_millis(3),
                    Arc::new(ResourcePolicy::kept("[]".into(), "2".into())),
                )],
            },
            history: History {
                uuid: [7; 16],
                created: UnixTime::from_millis(1_700_000_000_123),
                on_demand_since: Some(UnixTime::from_millis(1)),
                throughput_increased: Some(UnixTime::from_millis(2)),
                throughput_decreased: None,
                stream_label: Some(UnixTime::from_millis(3)),
                closed_streams: [StreamView::KeysOnly, StreamView::NewAndOldImages]
                    .map(|view| ClosedStream {
                        label: UnixTime::from_millis(1),
                        view,
                        closed: UnixTime::from_millis(2),
                    })
                    .to_vec(),
                class_changed: None,
            },
            metrics: Arc::default(),
        };
        let check = |table: &Table| {
            let read = read(&write(table)).unwrap();
            assert_eq!(format!("{read:?}"), format!("{table:?}"));
        };
        check(&table);
        let items = Table {
            id: TableId(78),
            trees: Vec::new(),
            expiry: None,
            recovery: None,
            copies: vec![TableId(8)],
            ..table.clone()
        };
        let mut backup = Backup {
            id: "01".into(),
            name: "nightly".into(),
            created: UnixTime::from_millis(5),
            expires: Some(UnixTime::from_millis(6)),
            is_hidden: true,
            table: Arc::new(table.clone()),
            items: Arc::new(items),
        };
        for _ in 0..2 {
            let read = read_backup(&write_backup(&backup)).unwrap();
            assert_eq!(format!("{read:?}"), format!("{backup:?}"));
            backup.expires = None;
            Arc::make_mut(&mut backup.items).restored = None;
        }
        let definition = Arc::make_mut(&mut table.definition);
        definition.billing = Billing::OnDemand;
        definition.on_demand_limits = Some(Throughput { read: 10, write: -1 });
        definition.stream = None;
        definition.encryption = Some(Encryption { kms_key: None });
        table.expiry = None;
        // A record from before streams were remembered has none, nor one from before policies.
        table.history.closed_streams = Vec::new();
        table.policies = Policies::default();
        for name in ["closed_streams", "policy", "stream_policies"] {
            assert_eq!(write(&table).get(name), None);
        }
        check(&table);
    }

    #[test]
    fn a_damaged_record_is_an_error() {
        assert_eq!(read(&Item::new()).map(|_| ()), Err(RecordError("attributes")));
        assert_eq!(read_backup(&Item::new()).map(|_| ()), Err(RecordError("table")));
    }
}
