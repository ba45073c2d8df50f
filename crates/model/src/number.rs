//! Numbers as DynamoDB keeps them: decimal, exact, at most 38 significant digits.
//!
//! A number is `digits × 10^exponent` with no trailing zero in `digits`, so equal numbers are equal values
//! however they were written: `1.0`, `1` and `10e-1` are one. Zero has no sign. The magnitude lies between
//! 1E-130 and 9.99…E+125; a zero is held to that range too, as if its last written digit were a one.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::limits::NUMBER_DIGITS_MAX;

/// The power of ten of the first digit, written `d.ddd × 10^n`.
const MAGNITUDE_MAX: i64 = 125;
const MAGNITUDE_MIN: i64 = -130;

/// The digits are kept as two words: a `u128` would be aligned to sixteen bytes, and make every attribute value half
/// as large again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number {
    digits_high: u64,
    digits_low: u64,
    exponent: i16,
    negative: bool,
}

/// Why a text is not a number, in DynamoDB's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    #[error("The parameter cannot be converted to a numeric value")]
    Empty,
    #[error("The parameter cannot be converted to a numeric value: {0}")]
    NotANumber(String),
    #[error("Attempting to store more than 38 significant digits in a Number")]
    TooManyDigits,
    #[error("Number overflow. Attempting to store a number with magnitude larger than supported range")]
    Overflow,
    #[error("Number underflow. Attempting to store a number with magnitude smaller than supported range")]
    Underflow,
}

impl Number {
    pub const ZERO: Self = Self::of(false, 0, 0);

    const fn of(negative: bool, digits: u128, exponent: i16) -> Self {
        Self { digits_high: (digits >> 64) as u64, digits_low: digits as u64, exponent, negative }
    }

    pub fn is_zero(&self) -> bool {
        self.digits() == 0
    }

    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// The significant digits, without leading or trailing zeros; zero for zero.
    pub fn digits(&self) -> u128 {
        u128::from(self.digits_high) << 64 | u128::from(self.digits_low)
    }

    /// The power of ten of the first digit: 2 for 123, -2 for 0.0123. Zero for zero.
    pub fn magnitude(&self) -> i16 {
        if self.is_zero() { 0 } else { self.exponent + digit_count(self.digits()) as i16 - 1 }
    }

    /// Rebuilds a number from its [`digits`](Self::digits) and [`magnitude`](Self::magnitude).
    pub fn from_parts(negative: bool, digits: u128, magnitude: i16) -> Result<Self, NumberError> {
        let exponent = i64::from(magnitude) - i64::from(digit_count(digits)) + 1;
        Self::normalised(negative, digits, exponent)
    }

    pub fn checked_add(self, other: Self) -> Result<Self, NumberError> {
        if self.is_zero() {
            return Ok(other);
        }
        if other.is_zero() {
            return Ok(self);
        }
        let (high, low) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let shift = u32::from(high.exponent.abs_diff(low.exponent));
        // The lowest digit of `low` is not zero and stays the lowest of the sum, so what does not fit here
        // could not fit in 38 digits either.
        let raised = 10u128
            .checked_pow(shift)
            .and_then(|power| high.digits().checked_mul(power))
            .ok_or(NumberError::TooManyDigits)?;
        let (negative, digits) = if high.negative == low.negative {
            (high.negative, raised.checked_add(low.digits()).ok_or(NumberError::TooManyDigits)?)
        } else if raised >= low.digits() {
            (high.negative, raised - low.digits())
        } else {
            (low.negative, low.digits() - raised)
        };
        Self::normalised(negative, digits, i64::from(low.exponent))
    }

    pub fn checked_sub(self, other: Self) -> Result<Self, NumberError> {
        self.checked_add(-other)
    }

    /// The value as whole seconds, a count or the like; `None` with a fraction or out of range.
    pub fn to_i64(&self) -> Option<i64> {
        let power = 10u128.checked_pow(u32::try_from(self.exponent).ok()?)?;
        let whole = i128::try_from(self.digits().checked_mul(power)?).ok()?;
        i64::try_from(if self.negative { -whole } else { whole }).ok()
    }

    /// The whole part, rounded towards zero; clamped to what an `i64` holds.
    pub fn trunc_i64(&self) -> i64 {
        if self.magnitude() < 0 {
            return 0;
        }
        let end = if self.negative { i64::MIN } else { i64::MAX };
        if self.magnitude() > 18 {
            return end;
        }
        let whole = if self.exponent >= 0 {
            self.digits() * 10u128.pow(u32::from(self.exponent.unsigned_abs()))
        } else {
            self.digits() / 10u128.pow(u32::from(self.exponent.unsigned_abs()))
        };
        let signed = i128::try_from(whole).map(|w| if self.negative { -w } else { w });
        signed.ok().and_then(|w| i64::try_from(w).ok()).unwrap_or(end)
    }

    /// Bytes this number adds to an item's size: a byte, a byte for each two digits before the point and for
    /// each two after it, and one for a minus.
    pub fn size(&self) -> usize {
        if self.is_zero() {
            return 1;
        }
        let count = digit_count(self.digits()) as usize;
        let before = usize::try_from(self.magnitude() + 1).unwrap_or(0).min(count);
        before.div_ceil(2) + (count - before).div_ceil(2) + 1 + usize::from(self.negative)
    }

    fn normalised(negative: bool, mut digits: u128, mut exponent: i64) -> Result<Self, NumberError> {
        if digits == 0 {
            return Ok(Self::ZERO);
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        let count = digit_count(digits);
        if count > NUMBER_DIGITS_MAX {
            return Err(NumberError::TooManyDigits);
        }
        check_magnitude(exponent.saturating_add(i64::from(count) - 1))?;
        let exponent = i16::try_from(exponent).map_err(|_| NumberError::Overflow)?;
        Ok(Self::of(negative, digits, exponent))
    }
}

fn check_magnitude(magnitude: i64) -> Result<(), NumberError> {
    match magnitude {
        m if m > MAGNITUDE_MAX => Err(NumberError::Overflow),
        m if m < MAGNITUDE_MIN => Err(NumberError::Underflow),
        _ => Ok(()),
    }
}

fn digit_count(digits: u128) -> u32 {
    digits.checked_ilog10().map_or(1, |log| log + 1)
}

impl FromStr for Number {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        if text.is_empty() {
            return Err(NumberError::Empty);
        }
        let not_a_number = || NumberError::NotANumber(text.to_owned());

        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (coefficient, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((coefficient, exponent)) => {
                (coefficient, parse_exponent(exponent).ok_or_else(not_a_number)?)
            }
            None => (unsigned, 0),
        };
        let (whole, fraction) = coefficient.split_once('.').unwrap_or((coefficient, ""));
        let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return Err(not_a_number());
        }

        let mut digits = 0u128;
        let mut count = 0u32;
        let mut pending_zeros = 0u32;
        for digit in whole.bytes().chain(fraction.bytes()).map(|b| b - b'0') {
            if digit == 0 {
                // Leading zeros say nothing; inner ones wait until a digit follows.
                pending_zeros += u32::from(count > 0);
                continue;
            }
            count += pending_zeros + 1;
            if count > NUMBER_DIGITS_MAX {
                return Err(NumberError::TooManyDigits);
            }
            digits = digits * 10u128.pow(pending_zeros + 1) + u128::from(digit);
            pending_zeros = 0;
        }
        let last_place = exponent.saturating_sub(i64::try_from(fraction.len()).unwrap_or(i64::MAX));
        if digits == 0 {
            check_magnitude(last_place)?;
            return Ok(Self::ZERO);
        }
        Self::normalised(negative, digits, last_place.saturating_add(i64::from(pending_zeros)))
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let well_formed = !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit());
    if well_formed { text.parse().ok() } else { None }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, digits, exponent) = (&self.negative, &self.digits(), &self.exponent);
        f.debug_struct("Number")
            .field("negative", negative)
            .field("digits", digits)
            .field("exponent", exponent)
            .finish()
    }
}

/// Plain decimal notation without an exponent, as DynamoDB returns numbers.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        let digits = self.digits().to_string();
        if self.exponent >= 0 {
            return write!(f, "{digits}{:0<1$}", "", usize::from(self.exponent.unsigned_abs()));
        }
        let fraction = usize::from(self.exponent.unsigned_abs());
        match digits.len().checked_sub(fraction) {
            Some(whole) if whole > 0 => write!(f, "{}.{}", &digits[..whole], &digits[whole..]),
            _ => write!(f, "0.{digits:0>fraction$}"),
        }
    }
}

impl std::ops::Neg for Number {
    type Output = Self;

    fn neg(self) -> Self {
        Self { negative: !self.negative && !self.is_zero(), ..self }
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self::normalised(value < 0, u128::from(value.unsigned_abs()), 0).expect("19 digits fit in 38")
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |n: &Self| match (n.is_zero(), n.negative) {
            (true, _) => 1,
            (false, true) => 0,
            (false, false) => 2,
        };
        let by_size = || {
            let scaled = |n: &Self| n.digits() * 10u128.pow(NUMBER_DIGITS_MAX - digit_count(n.digits()));
            self.magnitude().cmp(&other.magnitude()).then_with(|| scaled(self).cmp(&scaled(other)))
        };
        rank(self).cmp(&rank(other)).then_with(|| if self.negative { by_size().reverse() } else { by_size() })
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    #[test]
    fn text_is_normalised() {
        for (text, expected) in [
            ("+5", "5"),
            ("-0", "0"),
            ("00042", "42"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1.200", "1.2"),
            ("1.5E+3", "1500"),
            ("+1e-2", "0.01"),
            ("-120.050", "-120.05"),
            ("10e-1", "1"),
            ("0.000", "0"),
        ] {
            assert_eq!(number(text).to_string(), expected, "{text}");
        }
        assert_eq!(number("1e125").to_string(), format!("1{}", "0".repeat(125)));
        assert_eq!(number("1e-130").to_string(), format!("0.{}1", "0".repeat(129)));
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in [
            "e2",
            "+e2",
            "1+2",
            "1.2.3",
            "++5",
            "+-5",
            "+",
            "-",
            "1e",
            "1e+",
            ".",
            "1.2e3.4",
            "0x5",
            "NaN",
            "Infinity",
            "1_000",
            " 5",
            "5 ",
            "１",
            "1e9223372036854775808",
        ] {
            assert_eq!(text.parse::<Number>(), Err(NumberError::NotANumber(text.into())), "{text}");
        }
        assert_eq!("".parse::<Number>(), Err(NumberError::Empty));
    }

    #[test]
    fn range_and_precision_are_checked() {
        let digits_38 = "9".repeat(38);
        assert!(digits_38.parse::<Number>().is_ok());
        assert!(format!("{digits_38}e88").parse::<Number>().is_ok());
        assert_eq!(format!("{digits_38}e89").parse::<Number>(), Err(NumberError::Overflow));
        for (text, error) in [
            (format!("{digits_38}9"), NumberError::TooManyDigits),
            ("1E126".into(), NumberError::Overflow),
            ("-1E126".into(), NumberError::Overflow),
            ("1E-131".into(), NumberError::Underflow),
            ("10e9223372036854775807".into(), NumberError::Overflow),
            ("0.01e-9223372036854775808".into(), NumberError::Underflow),
            ("0e126".into(), NumberError::Overflow),
            ("0.0e-130".into(), NumberError::Underflow),
        ] {
            assert_eq!(text.parse::<Number>(), Err(error), "{text}");
        }
        for text in ["0e125", "0.0e126", "0e-130", "9.9999999999999999999999999999999999999E125"] {
            assert!(text.parse::<Number>().is_ok(), "{text}");
        }
    }

    #[test]
    fn size_counts_digit_pairs_on_each_side_of_the_point() {
        for (text, size) in [
            ("0", 1),
            ("-0", 1),
            ("1", 2),
            ("12", 2),
            ("123", 3),
            ("100", 2),
            ("1010", 3),
            ("0.0000001", 2),
            ("1E125", 2),
            ("1E-100", 2),
            ("1.5", 3),
            ("1.234", 4),
            ("3.14159", 5),
            ("100.5", 4),
            ("0.15", 2),
            ("-42", 3),
            ("-12345", 5),
            ("-0.15", 3),
            ("12345678901234567890123456789012345678", 20),
        ] {
            assert_eq!(number(text).size(), size, "{text}");
        }
    }

    #[test]
    fn sums_are_exact_or_refused() {
        assert_eq!(number("0.1").checked_add(number("0.2")), Ok(number("0.3")));
        assert_eq!(number("1e37").checked_add(number("1")).map(|n| n.to_string().len()), Ok(38));
        assert_eq!(number("1e38").checked_add(number("1")), Err(NumberError::TooManyDigits));
        assert_eq!(number("1e38").checked_sub(number("1")), Ok(number(&"9".repeat(38))));
        assert_eq!(
            number("1.8e38").checked_sub(number(&"9".repeat(38))).map(|n| n.digits()),
            Ok(80000000000000000000000000000000000001)
        );
        assert_eq!(number("1e125").checked_add(number("1e-130")), Err(NumberError::TooManyDigits));
        assert_eq!(number("9e125").checked_add(number("1e125")), Err(NumberError::Overflow));
        assert_eq!(number("5").checked_sub(number("5")), Ok(Number::ZERO));
    }

    #[test]
    fn whole_part_is_clamped() {
        for (text, whole) in
            [("1.9", 1), ("-1.9", -1), ("1e125", i64::MAX), ("-1e125", i64::MIN), ("1e-5", 0)]
        {
            assert_eq!(number(text).trunc_i64(), whole, "{text}");
        }
        assert_eq!(number("1764169200").to_i64(), Some(1_764_169_200));
        assert_eq!(number("1.5").to_i64(), None);
        assert_eq!(number("1e30").to_i64(), None);
    }

    fn any_number() -> impl Strategy<Value = Number> {
        (any::<bool>(), 0..10u128.pow(38), -130i16..=125)
            .prop_filter_map("in range", |(negative, digits, magnitude)| {
                Number::from_parts(negative, digits, magnitude).ok()
            })
    }

    proptest! {
        #[test]
        fn text_round_trips(a in any_number()) {
            prop_assert_eq!(a.to_string().parse(), Ok(a));
            prop_assert_eq!(Number::from_parts(a.is_negative(), a.digits(), a.magnitude()), Ok(a));
        }

        #[test]
        fn order_agrees_with_small_decimals(a in -1_000_000i64..1_000_000, b in -1_000_000i64..1_000_000, places in 0u32..5) {
            let decimal = |n: i64| number(&format!("{n}e-{places}"));
            prop_assert_eq!(decimal(a).cmp(&decimal(b)), a.cmp(&b));
            prop_assert_eq!(decimal(a).checked_add(decimal(b)), Ok(decimal(a + b)));
        }

        #[test]
        fn order_is_total(a in any_number(), b in any_number()) {
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert_eq!(a.cmp(&b) == Ordering::Equal, a == b);
            prop_assert_eq!((-a).cmp(&-b), b.cmp(&a));
        }
    }
}
