//! Keys as bytes that sort as their values.
//!
//! Each part of a key ends itself, so parts can be put one after the other and the whole still sorts part by
//! part:
//!
//! ```text
//! S, B   the bytes, with 00 written as 00 FF, then 00 01
//! N      40 for less than zero, 80 for zero, C0 for more; unless zero:
//!        the power of ten of the first digit plus 130, then digit pairs plus one from the left, then 00;
//!        for less than zero all of these are subtracted from FF
//! ```

use larder_model::{AttributeValue, KeyType, Number};

/// Appends one part of a key. Only strings, numbers and bytes can be one; anything else adds nothing and
/// gives `false`.
pub fn put(out: &mut Vec<u8>, value: &AttributeValue) -> bool {
    match value {
        AttributeValue::S(text) => put_ended(out, text.as_bytes()),
        AttributeValue::B(bytes) => put_ended(out, bytes),
        AttributeValue::N(number) => put_number(out, number),
        _ => return false,
    }
    true
}

/// Appends what every string or byte string with this beginning has first. `false` for other types.
pub fn put_prefix(out: &mut Vec<u8>, value: &AttributeValue) -> bool {
    match value {
        AttributeValue::S(text) => put_escaped(out, text.as_bytes()),
        AttributeValue::B(bytes) => put_escaped(out, bytes),
        _ => return false,
    }
    true
}

/// The first key after all that begin with `prefix`; `None` when there is no such key.
pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

/// Takes one part off the front of a key, as the type it was put as. `None` if it is no such part.
pub fn take(rest: &mut &[u8], kind: KeyType) -> Option<AttributeValue> {
    match kind {
        KeyType::S => String::from_utf8(take_ended(rest)?).ok().map(AttributeValue::S),
        KeyType::B => take_ended(rest).map(AttributeValue::B),
        KeyType::N => take_number(rest).map(AttributeValue::N),
    }
}

fn take_ended(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let (first, after) = rest.split_first()?;
        *rest = after;
        if *first != 0 {
            out.push(*first);
            continue;
        }
        let (second, after) = rest.split_first()?;
        *rest = after;
        match second {
            0xff => out.push(0),
            0x01 => return Some(out),
            _ => return None,
        }
    }
}

fn take_number(rest: &mut &[u8]) -> Option<Number> {
    let mut next = || {
        let (first, after) = rest.split_first()?;
        *rest = after;
        Some(*first)
    };
    let (flip, sign) = match next()? {
        0x80 => return Some(Number::from(0)),
        0x40 => (0xff, "-"),
        0xc0 => (0x00, ""),
        _ => return None,
    };
    let magnitude = i32::from(next()? ^ flip) - 130;
    let mut digits = String::new();
    loop {
        let pair = next()? ^ flip;
        if pair == 0 {
            break;
        }
        digits.push_str(&format!("{:02}", pair - 1));
    }
    // The first digit's power of ten is the magnitude.
    let power = magnitude - (i32::try_from(digits.len()).ok()? - 1);
    format!("{sign}{digits}E{power}").parse().ok()
}

fn put_ended(out: &mut Vec<u8>, bytes: &[u8]) {
    put_escaped(out, bytes);
    out.extend_from_slice(&[0x00, 0x01]);
}

fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut parts = bytes.split(|byte| *byte == 0);
    out.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        out.extend_from_slice(&[0x00, 0xff]);
        out.extend_from_slice(part);
    }
}

fn put_number(out: &mut Vec<u8>, number: &Number) {
    if number.is_zero() {
        out.push(0x80);
        return;
    }
    let flip = if number.is_negative() { 0xff } else { 0x00 };
    out.push(if number.is_negative() { 0x40 } else { 0xc0 });
    let power = u8::try_from(number.magnitude() + 130).expect("magnitudes are -130 to 125");
    out.push(power ^ flip);

    let digits = number.digits();
    let count = digits.ilog10() + 1;
    let pairs = count.div_ceil(2);
    // An odd count leaves the last pair half empty.
    let mut left = if count.is_multiple_of(2) { digits } else { digits * 10 };
    for place in (0..pairs).rev() {
        let unit = 100u128.pow(place);
        let pair = u8::try_from(left / unit).expect("a digit pair is below 100");
        left %= unit;
        out.push((pair + 1) ^ flip);
    }
    out.push(flip);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use proptest::prelude::*;

    fn encoded(values: &[AttributeValue]) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(values.iter().all(|value| put(&mut out, value)));
        out
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()], 0..6)
    }

    proptest! {
        #[test]
        fn what_was_put_is_taken(bytes in bytes(), number in generate::number(), text in ".*") {
            let parts = [AttributeValue::B(bytes), number.into(), AttributeValue::S(text)];
            let key = encoded(&parts);
            let mut rest = key.as_slice();
            let taken = [KeyType::B, KeyType::N, KeyType::S].map(|kind| take(&mut rest, kind).unwrap());
            prop_assert_eq!((taken, rest.len()), (parts, 0));
        }

        #[test]
        fn numbers_sort_by_value(a in generate::number(), b in generate::number()) {
            prop_assert_eq!(encoded(&[a.into()]).cmp(&encoded(&[b.into()])), a.cmp(&b));
        }

        #[test]
        fn parts_sort_one_after_the_other(a in (bytes(), generate::number()), b in (bytes(), generate::number())) {
            let key = |(bytes, number): &(Vec<u8>, Number)| encoded(&[AttributeValue::B(bytes.clone()), (*number).into(), AttributeValue::B(bytes.clone())]);
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
        }

        #[test]
        fn a_prefix_range_holds_what_begins_so(prefix in bytes(), value in bytes()) {
            let mut low = Vec::new();
            put_prefix(&mut low, &AttributeValue::B(prefix.clone()));
            let key = encoded(&[AttributeValue::B(value.clone())]);
            let inside = key >= low && after_prefix(&low).is_none_or(|high| key < high);
            prop_assert_eq!(inside, value.starts_with(&prefix));
        }
    }

    #[test]
    fn only_scalars_make_keys() {
        for value in [AttributeValue::Null, AttributeValue::Bool(true), AttributeValue::L(vec![])] {
            assert!(!put(&mut Vec::new(), &value), "{value:?}");
        }
    }
}
