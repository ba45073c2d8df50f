//! Any bytes are an item or an error, and an item survives being written again.
#![no_main]

use larder_model::item_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(item) = item_bytes::decode(data) {
        assert_eq!(item_bytes::decode(&item_bytes::encode(&item)), Ok(item));
    }
});
