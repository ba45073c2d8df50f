//! Items as the store holds them, read without copying.

use std::fmt;

use larder_model::Item;
pub use larder_model::item_bytes::{
    ItemBytesError, MapRef, Members, ValueRef, decode, encode, encode_sized, open,
};

type Result<T> = std::result::Result<T, ItemBytesError>;

/// An item in the bytes that hold it, read only as far as it is asked.
pub struct StoredItem(Holder);

enum Holder {
    Page(larder_storage::Value),
    Shared(larder_storage::Bytes),
}

impl StoredItem {
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Holder::Page(value) => value,
            Holder::Shared(bytes) => bytes,
        }
    }

    /// The item's size as DynamoDB counts it.
    pub fn size(&self) -> Result<usize> {
        open(self.as_bytes()).map(|(size, _)| size)
    }

    pub fn map(&self) -> Result<MapRef<'_>> {
        open(self.as_bytes()).map(|(_, map)| map)
    }

    pub fn decode(&self) -> Result<Item> {
        decode(self.as_bytes())
    }
}

impl From<larder_storage::Value> for StoredItem {
    fn from(value: larder_storage::Value) -> Self {
        Self(Holder::Page(value))
    }
}

impl From<larder_storage::Bytes> for StoredItem {
    fn from(bytes: larder_storage::Bytes) -> Self {
        Self(Holder::Shared(bytes))
    }
}

impl fmt::Debug for StoredItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decode().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_round_trip(item in generate::item()) {
            let bytes = encode(&item);
            prop_assert_eq!(open(&bytes).unwrap().0, item.size());
            prop_assert_eq!(decode(&bytes), Ok(item));
        }

        #[test]
        fn attributes_are_found_by_name(item in generate::item(), other in "[a-c]{0,2}") {
            let bytes = encode(&item);
            let (_, map) = open(&bytes).unwrap();
            for name in item.names().chain([other.as_str()]) {
                let found = map.find(name).unwrap().map(|value| value.to_value().unwrap());
                prop_assert_eq!(found.as_ref(), item.get(name));
            }
        }

        #[test]
        fn damaged_bytes_are_an_error_or_an_item(item in generate::item(), at in any::<prop::sample::Index>(), byte: u8) {
            let mut bytes = encode(&item);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = decode(&bytes);
            let _ = decode(&bytes[..at]);
        }
    }
}
