//! JSON text, read and written without a tree in between.

mod read;
mod write;

pub(crate) use read::{ALLOCATION_BYTES, Kind, Reader, check};
pub(crate) use write::{Object, list, object, string, try_list};

/// The place of the first byte that cannot stand in a JSON string as it is: a quote, a backslash or a
/// control character. Eight bytes are looked at together.
#[inline]
fn special(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES * 0x80;
    // The lowest bit that these set is always right, which is the only one looked at.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let found =
            controls | zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(at * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let start = words.len() * 8;
    rest.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\').map(|at| start + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_special_byte_is_found(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let plain = bytes.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\');
            prop_assert_eq!(special(&bytes), plain);
        }

        #[test]
        fn a_special_byte_is_found_among_many_plain_ones(before in 0usize..40, byte in prop::sample::select(b"\"\\\n\0".to_vec())) {
            let mut bytes = vec![b'a'; before];
            bytes.push(byte);
            bytes.extend_from_slice(b"\"\"\xff\x80aaaa");
            prop_assert_eq!(special(&bytes), Some(before));
        }
    }
}
