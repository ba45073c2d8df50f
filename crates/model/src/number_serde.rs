//! Numbers for serde: a number where its format holds all digits of it, otherwise a text.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

use crate::Number;

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(whole) = self.to_i64() {
            return serializer.serialize_i64(whole);
        }
        let text = self.to_string();
        let double = text.parse::<f64>().ok();
        match double.filter(|double| double.to_string().parse::<Self>().as_ref() == Ok(self)) {
            Some(double) => serializer.serialize_f64(double),
            None => serializer.serialize_str(&text),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Digits)
    }
}

struct Digits;

impl Visitor<'_> for Digits {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or its digits as a text")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Number, E> {
        value.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digit_is_lost() {
        let cases = [
            ("7", "7"),
            ("-1.5", "-1.5"),
            ("0.1", "0.1"),
            ("12345678901234567890", "\"12345678901234567890\""),
            ("0.12345678901234567890123456789012345678", "\"0.12345678901234567890123456789012345678\""),
        ];
        for (number, json) in cases {
            let number: Number = number.parse().unwrap();
            assert_eq!(serde_json::to_string(&number).unwrap(), json);
            assert_eq!(serde_json::from_str::<Number>(json).unwrap(), number);
        }
        assert!(serde_json::from_str::<Number>("\"seven\"").is_err());
        assert!(serde_json::from_str::<Number>("1e300").is_err());
    }
}
