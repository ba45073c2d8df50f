//! Request ids as DynamoDB writes them: 52 of `0-9 A-V`.
//!
//! They tell requests apart and are no secret: a counter, mixed with a seed of the process.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::header::HeaderValue;

const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHIJKLMNOPQRSTUV";
const LENGTH: usize = 52;
/// Five bits a letter.
const LETTERS_PER_WORD: usize = 12;
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug)]
pub(crate) struct RequestIds {
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new() -> Self {
        // The standard hasher's keys are random in every process.
        Self { next: AtomicU64::new(RandomState::new().hash_one(LENGTH)) }
    }

    pub(crate) fn next(&self) -> HeaderValue {
        let mut state = self.next.fetch_add(1, Ordering::Relaxed).wrapping_mul(GOLDEN);
        let mut id = [0; LENGTH];
        for letters in id.chunks_mut(LETTERS_PER_WORD) {
            state = state.wrapping_add(GOLDEN);
            let mut word = mix(state);
            for letter in letters {
                *letter = LETTERS[(word & 31) as usize];
                word >>= 5;
            }
        }
        HeaderValue::from_bytes(&id).expect("digits and letters make a header value")
    }
}

/// The finisher of splitmix64: every bit of the input reaches every bit of the output.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_differ_and_look_as_dynamodb_s() {
        let ids = RequestIds::new();
        let made: BTreeSet<Vec<u8>> = (0..1000).map(|_| ids.next().as_bytes().to_vec()).collect();
        assert_eq!(made.len(), 1000);
        assert!(made.iter().all(|id| id.len() == 52 && id.iter().all(|letter| LETTERS.contains(letter))));
    }
}
