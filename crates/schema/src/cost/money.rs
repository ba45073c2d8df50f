//! Amounts and prices, exact.
//!
//! A price has up to twelve decimals and an amount six. An amount is rounded once, where a price is multiplied,
//! half up to a millionth of a dollar; sums are of rounded amounts, so a report adds up to the last digit.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use larder_model::Number;

use super::grouped;

const PRICE_DECIMALS: usize = 12;
const MICROS_PER_DOLLAR: u128 = 1_000_000;
/// Picodollars in a microdollar.
const PICOS_PER_MICRO: u128 = 1_000_000;

/// Dollars, in whole millionths.
///
/// ```
/// use larder_schema::cost::Money;
///
/// let amount = Money::from_micros(578_643);
/// assert_eq!((amount.to_string(), amount.rounded()), ("$0.578643".into(), "$0.58".into()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(i128);

impl Money {
    pub const ZERO: Self = Self(0);

    pub fn from_micros(micros: i128) -> Self {
        Self(micros)
    }

    pub fn micros(self) -> i128 {
        self.0
    }

    /// `1234.578643`: for programs.
    pub fn decimal(self) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, fraction) = self.parts();
        format!("{sign}{whole}.{fraction}")
    }

    /// Whole dollars without their sign, and the decimals.
    fn parts(self) -> (u128, String) {
        let (whole, micros) =
            (self.0.unsigned_abs() / MICROS_PER_DOLLAR, self.0.unsigned_abs() % MICROS_PER_DOLLAR);
        let mut digits = format!("{micros:06}");
        digits.truncate(digits.trim_end_matches('0').len().max(2));
        (whole, digits)
    }

    /// To the cent, half up; what is less than a cent keeps its digits.
    pub fn rounded(self) -> String {
        if self.0.abs() < 10_000 {
            return self.to_string();
        }
        let cents = (self.0.abs() + 5_000) / 10_000;
        Self(self.0.signum() * cents * 10_000).to_string()
    }
}

/// With as many decimals as it has, and at least two.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, fraction) = self.parts();
        write!(f, "{sign}${}.{fraction}", grouped(whole))
    }
}

impl Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Money {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// Dollars for so much of something, not negative.
///
/// ```
/// use larder_schema::cost::Price;
///
/// let million: Price = "0.125".parse()?;
/// assert_eq!(million.times(500_000, 1_000_000).to_string(), "$0.0625");
/// # Ok::<(), larder_schema::cost::PriceTextError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    picos: u64,
}

/// A text that is no price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a price: give dollars with up to 12 decimals, such as 0.625")]
pub struct PriceTextError(String);

impl Price {
    /// What `count` costs when the price is for `per`, rounded half up to a millionth of a dollar.
    pub fn times(self, count: u128, per: u128) -> Money {
        let divisor = per.saturating_mul(PICOS_PER_MICRO);
        let picos = count.saturating_mul(u128::from(self.picos)).saturating_add(divisor / 2);
        Money(i128::try_from(picos / divisor).unwrap_or(i128::MAX))
    }
}

impl FromStr for Price {
    type Err = PriceTextError;

    fn from_str(text: &str) -> Result<Self, PriceTextError> {
        let wrong = || PriceTextError(text.to_owned());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || fraction.len() > PRICE_DECIMALS || !digits(whole) || !digits(fraction) {
            return Err(wrong());
        }
        let picos = format!("{whole}{fraction:0<PRICE_DECIMALS$}").parse().map_err(|_| wrong())?;
        Ok(Self { picos })
    }
}

impl TryFrom<Number> for Price {
    type Error = PriceTextError;

    fn try_from(number: Number) -> Result<Self, PriceTextError> {
        number.to_string().parse()
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = 10u64.pow(PRICE_DECIMALS as u32);
        let digits = format!("{:012}", self.picos % scale);
        let kept = digits.trim_end_matches('0').len().max(2);
        write!(f, "${}.{}", self.picos / scale, &digits[..kept])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(text: &str) -> Price {
        text.parse().unwrap()
    }

    #[test]
    fn amounts_are_rounded_half_up_to_a_millionth() {
        for (text, count, per, micros) in [
            ("0.125", 4, 1_000_000, 1), // 0.5 of a millionth
            ("0.125", 3, 1_000_000, 0), // 0.375
            ("0.000001", 1, 1, 1),      // one
            ("0.0001", 800_000, 1, 80_000_000),
            ("0.0001484", 720, 1, 106_848), // a unit for a month
            ("9", u128::MAX, 1, i128::try_from(u128::MAX / 1_000_000).unwrap()),
        ] {
            assert_eq!(price(text).times(count, per).micros(), micros, "{text} × {count} / {per}");
        }
    }

    #[test]
    fn amounts_are_shown_with_the_digits_they_have() {
        for (micros, exact, rounded) in [
            (0, "$0.00", "$0.00"),
            (80_000_000, "$80.00", "$80.00"),
            (575_000, "$0.575", "$0.58"),
            (574_999, "$0.574999", "$0.57"),
            (4_575, "$0.004575", "$0.004575"),
            (9_999, "$0.009999", "$0.009999"),
            (-1_234_567, "-$1.234567", "-$1.23"),
            (1_234_567_891_500, "$1,234,567.8915", "$1,234,567.89"),
            (-5, "-$0.000005", "-$0.000005"),
        ] {
            let amount = Money::from_micros(micros);
            assert_eq!((amount.to_string(), amount.rounded()), (exact.into(), rounded.into()));
        }
    }

    #[test]
    fn a_price_reads_back_as_it_was_written() {
        for text in ["0.125", "0.0001484", "0.00013", "0.20", "12.00", "0.000000000001"] {
            assert_eq!(price(text).to_string(), format!("${text}"));
        }
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for text in ["", ".5", "-1", "1e3", "$1", "1,5", "0.0000000000001", "99999999999999999999", "١"] {
            assert!(text.parse::<Price>().is_err(), "{text}");
        }
    }
}
