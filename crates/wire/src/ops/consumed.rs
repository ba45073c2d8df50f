//! What a request consumed, and what writing it returned.

use larder_engine::ops::{CollectionMetrics, Consumed, UnitKind, WriteOutput};
use larder_model::{ApiError, IndexKind, TableName};

use crate::json::{Object, list, object};
use crate::value::{put_item, put_row};

/// The answer to PutItem, UpdateItem and DeleteItem.
pub(super) fn encode_write(out: &mut Vec<u8>, output: &WriteOutput) -> Result<(), ApiError> {
    object(out, |answer| {
        if let Some(attributes) = &output.attributes {
            put_row(answer.member("Attributes"), attributes)?;
        }
        if let Some(consumed) = &output.consumed {
            put_consumed(answer.member("ConsumedCapacity"), consumed);
        }
        if let Some(metrics) = &output.collection_metrics {
            put_collection_metrics(answer.member("ItemCollectionMetrics"), metrics);
        }
        Ok(())
    })
}

pub(super) fn put_consumed(out: &mut Vec<u8>, consumed: &Consumed) {
    let total = consumed.table_units + consumed.indexes.iter().map(|(_, _, units)| units).sum::<f64>();
    object(out, |answer| {
        answer.string("TableName", consumed.table.as_str());
        put_units(answer, total, consumed.kind);
        if consumed.parts {
            answer.object("Table", |table| put_units(table, consumed.table_units, consumed.kind));
            put_indexes(answer, "GlobalSecondaryIndexes", consumed, IndexKind::Global);
            put_indexes(answer, "LocalSecondaryIndexes", consumed, IndexKind::Local);
        }
    });
}

fn put_units(answer: &mut Object<'_>, units: f64, kind: Option<UnitKind>) {
    answer.decimal("CapacityUnits", units);
    match kind {
        Some(UnitKind::Read) => answer.decimal("ReadCapacityUnits", units),
        Some(UnitKind::Write) => answer.decimal("WriteCapacityUnits", units),
        None => {}
    }
}

fn put_indexes(answer: &mut Object<'_>, member: &str, consumed: &Consumed, kind: IndexKind) {
    let mut indexes = consumed.indexes.iter().filter(|(_, of, _)| *of == kind).peekable();
    if indexes.peek().is_none() {
        return;
    }
    answer.object(member, |parts| {
        for (name, _, units) in indexes {
            parts.object(name.as_str(), |part| put_units(part, *units, consumed.kind));
        }
    });
}

/// The units of several tables; nothing when none were asked for.
pub(super) fn put_all_consumed(answer: &mut Object<'_>, consumed: &[Consumed]) {
    if !consumed.is_empty() {
        list(answer.member("ConsumedCapacity"), consumed, put_consumed);
    }
}

fn put_collection_metrics(out: &mut Vec<u8>, metrics: &CollectionMetrics) {
    object(out, |answer| {
        put_item(answer.member("ItemCollectionKey"), &metrics.key);
        list(answer.member("SizeEstimateRangeGB"), &metrics.gigabytes, |out, gigabytes| {
            out.extend_from_slice(format!("{gigabytes:?}").as_bytes());
        });
    });
}

pub(super) fn put_all_collection_metrics(
    answer: &mut Object<'_>,
    tables: &[(TableName, Vec<CollectionMetrics>)],
) {
    if tables.is_empty() {
        return;
    }
    answer.object("ItemCollectionMetrics", |answer| {
        for (table, metrics) in tables {
            list(answer.member(table.as_str()), metrics, put_collection_metrics);
        }
    });
}
