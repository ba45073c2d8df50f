//! Any two keys sort as their values do, and number texts as their numbers.
#![no_main]

use larder_engine::key_bytes;
use larder_model::{AttributeValue, KeyType, Number};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (Vec<u8>, Vec<u8>, String, String)| {
    let (a, b, text_a, text_b) = data;
    let encoded = |parts: &[AttributeValue]| {
        let mut out = Vec::new();
        assert!(parts.iter().all(|part| key_bytes::put(&mut out, part)));
        out
    };
    let bytes = |bytes: &Vec<u8>| AttributeValue::B(bytes.clone());
    assert_eq!(encoded(&[bytes(&a)]).cmp(&encoded(&[bytes(&b)])), a.cmp(&b));

    if let (Ok(x), Ok(y)) = (text_a.parse::<Number>(), text_b.parse::<Number>()) {
        assert_eq!(x.to_string().parse(), Ok(x));
        let pair = |n: Number, tail: &Vec<u8>| encoded(&[n.into(), bytes(tail)]);
        let key = pair(x, &a);
        let mut rest = key.as_slice();
        let taken = [KeyType::N, KeyType::B].map(|kind| key_bytes::take(&mut rest, kind));
        assert_eq!(taken, [Some(x.into()), Some(bytes(&a))]);
        assert_eq!(pair(x, &a).cmp(&pair(y, &b)), (x, &a).cmp(&(y, &b)));
    }
});
