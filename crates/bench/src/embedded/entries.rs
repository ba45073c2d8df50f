//! An item as two sorted entries, for stores that know only bytes: as long as Larder's own, not the same.

use crate::workload::{self, Fields, Sample};

const BASE: u8 = 0;
const INDEX: u8 = 1;

pub(super) fn key(number: u64) -> Vec<u8> {
    let keys = workload::keys(number);
    [&[BASE], keys.partition_key.as_bytes(), &[0], keys.sort_key.as_bytes()].concat()
}

/// The base entry and the index entry.
pub(super) fn of(sample: Sample) -> [(Vec<u8>, Vec<u8>); 2] {
    let base = key(sample.number);
    let Fields { keys, name, price, active, tags, payload } = sample.fields();
    let index = [&[INDEX], keys.group.as_bytes(), &[0], keys.at.as_bytes(), &base[1..]].concat();
    let attributes = [
        ("pk", keys.partition_key.as_str()),
        ("sk", &keys.sort_key),
        ("group", &keys.group),
        ("at", &keys.at),
        ("name", &name),
        ("price", &price),
        ("active", if active { "1" } else { "0" }),
        ("tags", tags[0]),
        ("", tags[1]),
        ("payload", &payload),
    ];
    let value = attributes.map(|(name, value)| [name, value].join(":")).join("\n").into_bytes();
    [(base, value.clone()), (index, value)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_version_replaces_both_entries() {
        let [old, new] = [1, 2].map(|version| of(Sample { number: 42, version }));
        for (old, new) in old.iter().zip(&new) {
            assert_eq!(old.0, new.0);
            assert_ne!(old.1, new.1);
        }
        assert_eq!(old[0].0, key(42));
    }
}
