//! A line of an exported table: `{"Item":{…}}`, as DynamoDB writes it to S3 and as ImportTable takes it.

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
