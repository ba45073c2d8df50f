//! Attribute values → JSON text.
//!
//! A stored item is written straight from the bytes that hold it.

use base64::Engine;
use larder_engine::item_bytes::{ItemBytesError, MapRef, Members, StoredItem, ValueRef};
use larder_engine::ops::Row;
use larder_model::{ApiError, AttributeValue, Item};

use crate::json::{list, object, string, try_list};

pub(crate) fn put_row(out: &mut Vec<u8>, row: &Row) -> Result<(), ApiError> {
    match row {
        Row::Stored(stored) => put_stored(out, stored).map_err(|error| ApiError::internal(&error)),
        Row::Built(item) => {
            put_item(out, item);
            Ok(())
        }
    }
}

fn put_stored(out: &mut Vec<u8>, stored: &StoredItem) -> Result<(), ItemBytesError> {
    // Names, types and quotes come to about half of the stored bytes again.
    out.reserve(stored.as_bytes().len() * 3 / 2);
    put_map(out, stored.map()?)
}

fn put_map(out: &mut Vec<u8>, map: MapRef<'_>) -> Result<(), ItemBytesError> {
    object(out, |attributes| {
        for member in map {
            let (name, value) = member?;
            put_value_ref(attributes.member(name), value)?;
        }
        Ok(())
    })
}

fn put_value_ref(out: &mut Vec<u8>, value: ValueRef<'_>) -> Result<(), ItemBytesError> {
    match value {
        ValueRef::S(text) => put_typed(out, "S", |out| string(out, text)),
        ValueRef::N(text) => put_typed(out, "N", |out| string(out, text)),
        ValueRef::B(bytes) => put_typed(out, "B", |out| binary(out, bytes)),
        ValueRef::Bool(value) => put_typed(out, "BOOL", |out| boolean(out, value)),
        ValueRef::Null => put_typed(out, "NULL", |out| boolean(out, true)),
        ValueRef::Ss(set) => return put_members(out, "SS", set, string),
        ValueRef::Ns(set) => return put_members(out, "NS", set, string),
        ValueRef::Bs(set) => return put_members(out, "BS", set, binary),
        ValueRef::L(values) => {
            return put_typed(out, "L", |out| try_list(out, values, |out, value| put_value_ref(out, value?)));
        }
        ValueRef::M(map) => return put_typed(out, "M", |out| put_map(out, map)),
    }
    Ok(())
}

fn put_members<'a, T>(
    out: &mut Vec<u8>,
    kind: &str,
    set: Members<'a, T>,
    put: fn(&mut Vec<u8>, T),
) -> Result<(), ItemBytesError> {
    put_typed(out, kind, |out| try_list(out, set, |out, member| member.map(|member| put(out, member))))
}

pub(crate) fn put_item(out: &mut Vec<u8>, item: &Item) {
    object(out, |attributes| {
        for (name, value) in item {
            put_value(attributes.member(name), value);
        }
    });
}

fn put_value(out: &mut Vec<u8>, value: &AttributeValue) {
    match value {
        AttributeValue::S(text) => put_typed(out, "S", |out| string(out, text)),
        AttributeValue::N(number) => put_typed(out, "N", |out| string(out, &number.to_string())),
        AttributeValue::B(bytes) => put_typed(out, "B", |out| binary(out, bytes)),
        AttributeValue::Bool(value) => put_typed(out, "BOOL", |out| boolean(out, *value)),
        AttributeValue::Null => put_typed(out, "NULL", |out| boolean(out, true)),
        AttributeValue::Ss(set) => put_typed(out, "SS", |out| list(out, set, |out, text| string(out, text))),
        AttributeValue::Ns(set) => {
            put_typed(out, "NS", |out| list(out, set, |out, number| string(out, &number.to_string())));
        }
        AttributeValue::Bs(set) => {
            put_typed(out, "BS", |out| list(out, set, |out, bytes| binary(out, bytes)));
        }
        AttributeValue::L(values) => put_typed(out, "L", |out| list(out, values, put_value)),
        AttributeValue::M(map) => put_typed(out, "M", |out| put_item(out, map)),
    }
}

/// `{"S":…}`, with what `put` writes for the content.
fn put_typed<T>(out: &mut Vec<u8>, kind: &str, put: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    object(out, |value| put(value.member(kind)))
}

fn boolean(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

fn binary(out: &mut Vec<u8>, bytes: &[u8]) {
    let engine = base64::engine::general_purpose::STANDARD;
    out.push(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let length = engine.encode_slice(bytes, &mut out[start..]).expect("four bytes for three are enough");
    out.truncate(start + length);
    out.push(b'"');
}
