//! The checksum at the end of every stored value.
//!
//! CRC-32 over key then value, four bytes little-endian. The key is covered so that a value that
//! ends up under another key is noticed too. redb checks its pages only after a crash; this is
//! what notices a bit that flipped at rest.

use crate::Error;

pub(crate) const CHECKSUM_BYTES: usize = 4;

pub(crate) fn append(key: &[u8], value: &mut Vec<u8>) {
    let sum = sum(key, value);
    value.reserve_exact(CHECKSUM_BYTES);
    value.extend_from_slice(&sum.to_le_bytes());
}

/// Length of the value without its checksum, which is right.
pub(crate) fn verify(key: &[u8], stored: &[u8]) -> Result<usize, Error> {
    let Some((value, expected)) = stored.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(Error::Corrupt { key: key.to_vec(), cause: "it is too short to hold a checksum" });
    };
    if sum(key, value) != u32::from_le_bytes(*expected) {
        return Err(Error::Corrupt { key: key.to_vec(), cause: "its checksum does not match" });
    }
    Ok(value.len())
}

fn sum(key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}
