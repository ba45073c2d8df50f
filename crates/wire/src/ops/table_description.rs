//! A table as it is described.
//!
//! What a table does not have is left out: no indexes, no stream, no billing summary while capacity is
//! provisioned and always was. Times are seconds with milliseconds as a fraction.

use larder_engine::ops::{IndexDescription, IndexStatus, TableDescription, TableStatus};
use larder_model::{
    Arn, Billing, IndexDefinition, IndexKind, KeySchema, Projection, StreamView, TableClass, TableDefinition,
    Throughput, UnixTime,
};

use crate::json::{Object, list, object};

/// What a table without provisioned throughput is ready for at once.
const WARM_READS: i64 = 12_000;
const WARM_WRITES: i64 = 4_000;

pub(super) fn put_table(out: &mut Vec<u8>, table: &TableDescription) {
    let definition = &*table.definition;
    // Of a table that goes neither keys nor dates are told.
    let stays = table.status != TableStatus::Deleting;
    object(out, |answer| {
        if stays {
            list(answer.member("AttributeDefinitions"), &definition.attributes, |out, (name, kind)| {
                object(out, |attribute| {
                    attribute.string("AttributeName", name);
                    attribute.string("AttributeType", kind.name());
                });
            });
        }
        answer.string("TableName", definition.name.as_str());
        if stays {
            put_key_schema(answer, &definition.key);
        }
        answer.string("TableStatus", table_status(table.status));
        if stays {
            put_time(answer, "CreationDateTime", Some(table.created));
        }
        put_throughput(answer, provisioned(definition.billing), Some(table));
        answer.integer("TableSizeBytes", table.bytes);
        answer.integer("ItemCount", table.item_count);
        answer.string("TableArn", &Arn::table(&definition.name).to_string());
        answer.string("TableId", &uuid(table.id));
        put_billing(answer, table);
        if stays {
            put_indexes(answer, table, IndexKind::Local);
            put_indexes(answer, table, IndexKind::Global);
        }
        put_stream(answer, table);
        put_restore(answer, table);
        put_encryption(answer, definition);
        if let Some(class) = definition.class {
            answer.object("TableClassSummary", |summary| {
                summary.string("TableClass", table_class(class));
                put_time(summary, "LastUpdateDateTime", table.class_changed);
            });
        }
        answer.boolean("DeletionProtectionEnabled", definition.deletion_protection);
        put_on_demand_limits(answer, definition.on_demand_limits);
        put_warm_throughput(answer, provisioned(definition.billing), table_status(table.status));
    });
}

pub(super) fn put_key_schema(answer: &mut Object<'_>, key: &KeySchema) {
    let partition = key.partition.iter().map(|attribute| (attribute, "HASH"));
    let elements = partition.chain(key.sort.iter().map(|attribute| (attribute, "RANGE")));
    list(answer.member("KeySchema"), elements, |out, (attribute, role)| {
        object(out, |element| {
            element.string("AttributeName", &attribute.name);
            element.string("KeyType", role);
        });
    });
}

pub(super) fn provisioned(billing: Billing) -> Option<Throughput> {
    match billing {
        Billing::Provisioned(throughput) => Some(throughput),
        Billing::OnDemand => None,
    }
}

/// Zeros when billing is on demand. `changes`: the table whose changes of throughput are told.
fn put_throughput(
    answer: &mut Object<'_>,
    throughput: Option<Throughput>,
    changes: Option<&TableDescription>,
) {
    let throughput = throughput.unwrap_or_default();
    answer.object("ProvisionedThroughput", |units| {
        if let Some(table) = changes {
            put_time(units, "LastIncreaseDateTime", table.throughput_increased);
            put_time(units, "LastDecreaseDateTime", table.throughput_decreased);
        }
        let decreases = changes.map_or(0, |table| i64::from(table.decreases_today));
        units.integer("NumberOfDecreasesToday", decreases);
        units.integer("ReadCapacityUnits", throughput.read);
        units.integer("WriteCapacityUnits", throughput.write);
    });
}

fn put_billing(answer: &mut Object<'_>, table: &TableDescription) {
    let on_demand = table.definition.billing == Billing::OnDemand;
    if !on_demand && table.on_demand_since.is_none() {
        return;
    }
    answer.object("BillingModeSummary", |summary| {
        summary.string("BillingMode", if on_demand { "PAY_PER_REQUEST" } else { "PROVISIONED" });
        put_time(summary, "LastUpdateToPayPerRequestDateTime", table.on_demand_since);
    });
}

fn put_indexes(answer: &mut Object<'_>, table: &TableDescription, kind: IndexKind) {
    let all = table.definition.indexes.iter().zip(&table.indexes);
    let mut indexes = all.filter(|(index, _)| index.kind == kind).peekable();
    if indexes.peek().is_none() {
        return;
    }
    let member = match kind {
        IndexKind::Local => "LocalSecondaryIndexes",
        IndexKind::Global => "GlobalSecondaryIndexes",
    };
    list(answer.member(member), indexes, |out, (index, state)| put_index(out, table, index, state));
}

fn put_index(out: &mut Vec<u8>, table: &TableDescription, index: &IndexDefinition, state: &IndexDescription) {
    object(out, |answer| {
        answer.string("IndexName", index.name.as_str());
        put_key_schema(answer, &index.key);
        put_projection(answer, &index.projection);
        if index.kind == IndexKind::Global {
            answer.string("IndexStatus", index_status(state.status));
            if let IndexStatus::Creating { backfilling } = state.status {
                answer.boolean("Backfilling", backfilling);
            }
            let throughput = provisioned(table.definition.billing).map(|_| index.throughput);
            put_throughput(answer, throughput, None);
        }
        answer.integer("IndexSizeBytes", state.bytes);
        answer.integer("ItemCount", state.item_count);
        answer.string("IndexArn", &Arn::index(&table.definition.name, &index.name).to_string());
        if index.kind == IndexKind::Global {
            put_on_demand_limits(answer, index.on_demand_limits);
            let throughput = provisioned(table.definition.billing).map(|_| index.throughput);
            put_warm_throughput(answer, throughput, index_status(state.status));
        }
    });
}

pub(super) fn put_projection(answer: &mut Object<'_>, projection: &Projection) {
    answer.object("Projection", |answer| match projection {
        Projection::All => answer.string("ProjectionType", "ALL"),
        Projection::KeysOnly => answer.string("ProjectionType", "KEYS_ONLY"),
        Projection::Include(names) => {
            answer.string("ProjectionType", "INCLUDE");
            answer.strings("NonKeyAttributes", names.iter().map(String::as_str));
        }
    });
}

fn put_stream(answer: &mut Object<'_>, table: &TableDescription) {
    put_stream_specification(answer, "StreamSpecification", &table.definition);
    if let Some(since) = table.stream_label {
        answer.string("LatestStreamLabel", &since.to_label());
        answer.string("LatestStreamArn", &Arn::stream(&table.definition.name, since).to_string());
    }
}

pub(super) fn put_stream_specification(answer: &mut Object<'_>, member: &str, definition: &TableDefinition) {
    let Some(view) = definition.stream else { return };
    answer.object(member, |stream| {
        stream.boolean("StreamEnabled", true);
        stream.string("StreamViewType", stream_view(view));
    });
}

fn put_restore(answer: &mut Object<'_>, table: &TableDescription) {
    let Some(restored) = &table.restored else { return };
    answer.object("RestoreSummary", |summary| {
        if let Some(backup) = &restored.backup_arn {
            summary.string("SourceBackupArn", backup);
        }
        summary.string("SourceTableArn", &restored.table_arn);
        put_time(summary, "RestoreDateTime", Some(restored.at));
        summary.boolean("RestoreInProgress", restored.in_progress);
    });
}

pub(super) fn put_encryption(answer: &mut Object<'_>, definition: &TableDefinition) {
    let Some(encryption) = &definition.encryption else { return };
    answer.object("SSEDescription", |answer| {
        answer.string("Status", "ENABLED");
        answer.string("SSEType", "KMS");
        let key = encryption.kms_key.as_deref().unwrap_or("alias/aws/dynamodb");
        let (region, account) = (definition.name.region(), definition.name.account());
        let arn = match key.starts_with("arn:") {
            true => key.to_owned(),
            false if key.starts_with("alias/") => {
                format!("arn:aws:kms:{region}:{account}:{key}")
            }
            false => format!("arn:aws:kms:{region}:{account}:key/{key}"),
        };
        answer.string("KMSMasterKeyArn", &arn);
    });
}

pub(super) fn put_on_demand_limits(answer: &mut Object<'_>, limits: Option<Throughput>) {
    let Some(limits) = limits else { return };
    answer.object("OnDemandThroughput", |answer| {
        answer.integer("MaxReadRequestUnits", limits.read);
        answer.integer("MaxWriteRequestUnits", limits.write);
    });
}

fn put_warm_throughput(answer: &mut Object<'_>, throughput: Option<Throughput>, status: &str) {
    let (read, write) = throughput.map_or((WARM_READS, WARM_WRITES), |units| (units.read, units.write));
    answer.object("WarmThroughput", |answer| {
        answer.integer("ReadUnitsPerSecond", read);
        answer.integer("WriteUnitsPerSecond", write);
        answer.string("Status", status);
    });
}

pub(super) fn put_time(answer: &mut Object<'_>, name: &str, time: Option<UnixTime>) {
    let Some(time) = time else { return };
    let (seconds, millis) = (time.millis().div_euclid(1000), time.millis().rem_euclid(1000));
    answer.member(name).extend_from_slice(format!("{seconds}.{millis:03}").as_bytes());
}

fn table_status(status: TableStatus) -> &'static str {
    match status {
        TableStatus::Creating => "CREATING",
        TableStatus::Updating => "UPDATING",
        TableStatus::Deleting => "DELETING",
        TableStatus::Active => "ACTIVE",
    }
}

fn index_status(status: IndexStatus) -> &'static str {
    match status {
        IndexStatus::Creating { .. } => "CREATING",
        IndexStatus::Updating => "UPDATING",
        IndexStatus::Deleting => "DELETING",
        IndexStatus::Active => "ACTIVE",
    }
}

fn table_class(class: TableClass) -> &'static str {
    match class {
        TableClass::Standard => "STANDARD",
        TableClass::StandardInfrequentAccess => "STANDARD_INFREQUENT_ACCESS",
    }
}

pub(super) fn stream_view(view: StreamView) -> &'static str {
    match view {
        StreamView::KeysOnly => "KEYS_ONLY",
        StreamView::NewImage => "NEW_IMAGE",
        StreamView::OldImage => "OLD_IMAGE",
        StreamView::NewAndOldImages => "NEW_AND_OLD_IMAGES",
    }
}

pub(super) fn uuid(id: [u8; 16]) -> String {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use larder_model::{IndexName, KeyAttribute, KeyType, TableName, Tags};

    use super::*;

    fn key(partition: &str, sort: Option<&str>) -> KeySchema {
        let attribute = |name: &str| KeyAttribute { name: name.to_owned(), kind: KeyType::S };
        KeySchema { partition: vec![attribute(partition)], sort: sort.map(attribute).into_iter().collect() }
    }

    fn table(billing: Billing, indexes: Vec<IndexDefinition>) -> TableDescription {
        let state = IndexDescription { status: IndexStatus::Active, item_count: 1, bytes: 10 };
        TableDescription {
            indexes: vec![state; indexes.len()],
            definition: Arc::new(TableDefinition {
                name: TableName::new("lunch").unwrap(),
                attributes: vec![("pk".to_owned(), KeyType::S)],
                key: key("pk", None),
                indexes,
                billing,
                on_demand_limits: None,
                stream: None,
                encryption: None,
                class: None,
                deletion_protection: false,
                tags: Tags::new(),
            }),
            status: TableStatus::Active,
            id: [7; 16],
            created: UnixTime::from_millis(1_700_000_000_050),
            item_count: 2,
            bytes: 30,
            on_demand_since: None,
            throughput_increased: None,
            throughput_decreased: None,
            decreases_today: 0,
            stream_label: None,
            class_changed: None,
            restored: None,
        }
    }

    fn check(table: &TableDescription, expected: &str) {
        let mut out = Vec::new();
        put_table(&mut out, table);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_plain_table_has_no_summaries() {
        check(
            &table(Billing::Provisioned(Throughput { read: 5, write: 6 }), Vec::new()),
            r#"{"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"TableName":"lunch","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"TableStatus":"ACTIVE","CreationDateTime":1700000000.050,"ProvisionedThroughput":{"NumberOfDecreasesToday":0,"ReadCapacityUnits":5,"WriteCapacityUnits":6},"TableSizeBytes":30,"ItemCount":2,"TableArn":"arn:aws:dynamodb:us-east-1:000000000000:table/lunch","TableId":"07070707-0707-0707-0707-070707070707","DeletionProtectionEnabled":false,"WarmThroughput":{"ReadUnitsPerSecond":5,"WriteUnitsPerSecond":6,"Status":"ACTIVE"}}"#,
        );
    }

    #[test]
    fn a_table_shows_all_it_has() {
        let index = |name: &str, kind, key, projection| IndexDefinition {
            name: IndexName::new(name).unwrap(),
            kind,
            key,
            projection,
            throughput: Throughput::default(),
            on_demand_limits: None,
        };
        let local = index("by_day", IndexKind::Local, key("pk", Some("day")), Projection::KeysOnly);
        let include = Projection::Include(vec!["a".to_owned()]);
        let global = index("by_shop", IndexKind::Global, key("shop", None), include);
        let mut full = table(Billing::OnDemand, vec![local, global]);
        let definition = Arc::make_mut(&mut full.definition);
        definition.stream = Some(StreamView::NewAndOldImages);
        definition.encryption = Some(larder_model::Encryption { kms_key: Some("k".to_owned()) });
        definition.class = Some(TableClass::Standard);
        definition.on_demand_limits = Some(Throughput { read: 10, write: -1 });
        full.stream_label = Some(UnixTime::from_millis(1_700_000_000_000));
        full.on_demand_since = Some(UnixTime::from_seconds(1_700_000_000));
        full.indexes[1].status = IndexStatus::Creating { backfilling: true };
        check(
            &full,
            r#"{"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"TableName":"lunch","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"TableStatus":"ACTIVE","CreationDateTime":1700000000.050,"ProvisionedThroughput":{"NumberOfDecreasesToday":0,"ReadCapacityUnits":0,"WriteCapacityUnits":0},"TableSizeBytes":30,"ItemCount":2,"TableArn":"arn:aws:dynamodb:us-east-1:000000000000:table/lunch","TableId":"07070707-0707-0707-0707-070707070707","BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST","LastUpdateToPayPerRequestDateTime":1700000000.000},"LocalSecondaryIndexes":[{"IndexName":"by_day","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"day","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"},"IndexSizeBytes":10,"ItemCount":1,"IndexArn":"arn:aws:dynamodb:us-east-1:000000000000:table/lunch/index/by_day"}],"GlobalSecondaryIndexes":[{"IndexName":"by_shop","KeySchema":[{"AttributeName":"shop","KeyType":"HASH"}],"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["a"]},"IndexStatus":"CREATING","Backfilling":true,"ProvisionedThroughput":{"NumberOfDecreasesToday":0,"ReadCapacityUnits":0,"WriteCapacityUnits":0},"IndexSizeBytes":10,"ItemCount":1,"IndexArn":"arn:aws:dynamodb:us-east-1:000000000000:table/lunch/index/by_shop","WarmThroughput":{"ReadUnitsPerSecond":12000,"WriteUnitsPerSecond":4000,"Status":"CREATING"}}],"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"},"LatestStreamLabel":"2023-11-14T22:13:20.000","LatestStreamArn":"arn:aws:dynamodb:us-east-1:000000000000:table/lunch/stream/2023-11-14T22:13:20.000","SSEDescription":{"Status":"ENABLED","SSEType":"KMS","KMSMasterKeyArn":"arn:aws:kms:us-east-1:000000000000:key/k"},"TableClassSummary":{"TableClass":"STANDARD"},"DeletionProtectionEnabled":false,"OnDemandThroughput":{"MaxReadRequestUnits":10,"MaxWriteRequestUnits":-1},"WarmThroughput":{"ReadUnitsPerSecond":12000,"WriteUnitsPerSecond":4000,"Status":"ACTIVE"}}"#,
        );
    }

    #[test]
    fn an_id_is_shown_as_a_uuid() {
        let id = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255];
        assert_eq!(uuid(id), "00010203-0405-0607-0809-0a0b0c0d0eff");
    }
}
