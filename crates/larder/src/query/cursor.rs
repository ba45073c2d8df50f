//! Cursors: where a page ended, as text that a client can keep.
//!
//! The text is the position's item bytes in URL-safe base64. It holds key values only, and no secret is ever in
//! a key. What comes back is not trusted.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use larder_model::Item;
use larder_model::item_bytes;
use larder_schema::schema::KeyAttribute;

use super::Asked;
use crate::Error;
use crate::entity::Core;

/// Longer than any two keys of an index and its table.
const CURSOR_CHARS_MAX: usize = 32 * 1024;

pub(crate) fn write(position: &Item) -> String {
    URL_SAFE_NO_PAD.encode(item_bytes::encode(position))
}

pub(super) fn read(core: &Core, asked: &Asked, cursor: &str) -> Result<Item, Error> {
    let position = position(&asked.position_names(core), cursor)?;
    if !asked.partition.iter().all(|(name, value)| position.get(name) == Some(value)) {
        return Err(Error::Cursor { cause: "it is of another partition" });
    }
    Ok(position)
}

/// The values of these keys, no more and no fewer.
pub(crate) fn position(names: &[&KeyAttribute], cursor: &str) -> Result<Item, Error> {
    let refused = |cause: &'static str| Error::Cursor { cause };
    if cursor.len() > CURSOR_CHARS_MAX {
        return Err(refused("it is too long"));
    }
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused("it cannot be read"))?;
    let position = item_bytes::decode(&bytes).map_err(|_| refused("it cannot be read"))?;
    let complete = names.len() == position.len()
        && names.iter().all(|key| {
            position.get(&key.attribute).is_some_and(|value| value.kind().name() == key.kind.name())
        });
    if !complete {
        return Err(refused("it is of another table or index"));
    }
    Ok(position)
}
