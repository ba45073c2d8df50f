//! A line of an exported table: `{"Item":{…}}`, as DynamoDB writes it to S3 and as ImportTable takes it.

use larder_engine::ExportedChange;
use larder_model::{ApiError, Item};

use crate::json::{Reader, object};
use crate::members::{Attributes, check_size, request};
use crate::refusal::{Layer, Read, Refusal, Rules};
use crate::value::put_item;

const RULES: Rules = Rules { layer: Layer::Current, single_write: false };

/// Adds the line of an item, without its end.
///
/// ```
/// let item = [("id", "1")].into_iter().collect();
/// let mut line = Vec::new();
/// larder_wire::encode_exported(&mut line, &item);
/// assert_eq!(line, br#"{"Item":{"id":{"S":"1"}}}"#);
/// assert_eq!(larder_wire::decode_exported(&line), Ok(item));
/// ```
pub fn encode_exported(out: &mut Vec<u8>, item: &Item) {
    object(out, |line| put_item(line.member("Item"), item));
}

/// Adds the line of what became of an item, without its end.
///
/// ```
/// use larder_engine::ExportedChange;
/// use larder_model::UnixTime;
///
/// let key: larder_model::Item = [("id", "1")].into_iter().collect();
/// let change = ExportedChange { time: UnixTime::from_millis(12), key, old: None, new: None };
/// let mut line = Vec::new();
/// larder_wire::encode_exported_change(&mut line, &change);
/// assert_eq!(line, br#"{"Metadata":{"WriteTimestampMicros":{"N":"12000"}},"Keys":{"id":{"S":"1"}}}"#);
/// ```
pub fn encode_exported_change(out: &mut Vec<u8>, change: &ExportedChange) {
    object(out, |line| {
        line.object("Metadata", |metadata| {
            metadata.object("WriteTimestampMicros", |time| {
                time.string("N", &(i128::from(change.time.millis()) * 1000).to_string());
            });
        });
        put_item(line.member("Keys"), &change.key);
        for (name, image) in [("OldImage", &change.old), ("NewImage", &change.new)] {
            if let Some(image) = image {
                put_item(line.member(name), image);
            }
        }
    });
}

/// The item of a line. What no item can be is refused as a put of it would be.
pub fn decode_exported(line: &[u8]) -> Result<Item, ApiError> {
    read(line).map_err(|refusal| match refusal {
        Refusal::Unreadable => ApiError::Serialization("this is not JSON".to_owned()),
        other => other.into_error(RULES),
    })
}

fn read(line: &[u8]) -> Read<Item> {
    let text = std::str::from_utf8(line).map_err(|_| Refusal::Unreadable)?;
    let mut item = Attributes::default();
    request(&mut Reader::new(text), |reader, name| match &*name {
        "Item" => {
            item = Attributes::read(reader, RULES)?;
            Ok(())
        }
        _ => reader.skip().map(drop),
    })?;
    item.flaws.check_names()?;
    item.flaws.check_sets(RULES)?;
    item.flaws.check_depth()?;
    let item = item.item.ok_or_else(|| Refusal::plain("there is no Item in the line"))?;
    check_size(&item)?;
    Ok(item)
}
