//! What requests cost: units as DynamoDB counts them, and dollars.
//!
//! Prices are the list prices of on-demand tables in us-east-1. An embedded store costs nothing; the figures then
//! say what the same would cost on DynamoDB. Whole months, other regions and dates are `larder cost`'s.

use std::fmt;
use std::time::Duration;

use larder_schema::cost;
use serde_json::{Map, Value as Json, json};

use crate::observe::Stats;

/// Dollars for a million read request units.
pub const READ_UNITS_MILLION: f64 = 0.125;
/// Dollars for a million write request units.
pub const WRITE_UNITS_MILLION: f64 = 0.625;
/// Dollars for a gigabyte kept for a month.
pub const STORED_GIGABYTE_MONTH: f64 = 0.25;

/// Capacity units.
///
/// ```
/// let units = larder::price::Units { read: 36_600.0, write: 31.0 };
/// assert_eq!(units.to_string(), "36,600 read units, 31 write units, $0.004594");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Units {
    /// To read.
    pub read: f64,
    /// To write or delete.
    pub write: f64,
}

impl Units {
    /// What they cost.
    ///
    /// ```
    /// let units = larder::price::Units { read: 36_600.0, write: 31.0 };
    /// assert_eq!(format!("{:.3}", units.dollars()), "0.005");
    /// ```
    pub fn dollars(&self) -> f64 {
        self.read / 1e6 * READ_UNITS_MILLION + self.write / 1e6 * WRITE_UNITS_MILLION
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (units, kind) in [(self.read, "read"), (self.write, "write")] {
            if units > 0.0 {
                let plural = if units == 1.0 { "" } else { "s" };
                parts.push(format!("{} {kind} unit{plural}", count(units)));
            }
        }
        parts.push(dollars(self.dollars()));
        f.write_str(&parts.join(", "))
    }
}

/// Units to read so many bytes in one request.
///
/// ```
/// use larder::price::read_units;
///
/// assert_eq!((read_units(5_000, true), read_units(5_000, false)), (2.0, 1.0)); // 4 KB a unit
/// ```
pub fn read_units(bytes: u64, consistent: bool) -> f64 {
    cost::read_halves(bytes, consistent) as f64 / 2.0
}

/// Units to write or delete an item of so many bytes.
///
/// ```
/// assert_eq!(larder::price::write_units(5_000), 5.0); // 1 KB a unit
/// ```
pub fn write_units(bytes: u64) -> f64 {
    cost::write_units(bytes) as f64
}

/// What a program has counted in so long a time, as `larder cost --measured` reads it.
///
/// Less than a second counts as one.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// let counted = [("Book", library.books().stats())];
/// let measured = larder::price::measured("library", std::time::Duration::from_secs(3600), counted);
/// assert_eq!(measured["entities"]["Book"]["hits"], 0);
/// println!("{measured}"); // | larder cost library --measured -
/// # Ok(())
/// # }
/// ```
pub fn measured<'a>(
    system: &str,
    lasting: Duration,
    entities: impl IntoIterator<Item = (&'a str, Stats)>,
) -> Json {
    let counts = |stats: Stats| {
        json!({
            "hits": stats.hits, "misses": stats.misses, "calls_saved": stats.calls_saved, "loads": stats.loads,
            "writes": stats.writes,
        })
    };
    let entities: Map<String, Json> =
        entities.into_iter().map(|(name, stats)| (name.to_owned(), counts(stats))).collect();
    json!({"system": system, "seconds": lasting.as_secs().max(1), "entities": entities})
}

/// `$0.005`: as many decimals as it takes to see something.
fn dollars(amount: f64) -> String {
    match amount {
        amount if amount >= 0.01 || amount == 0.0 => format!("${amount:.2}"),
        amount if amount >= 0.000_001 => {
            let text = format!("{amount:.6}");
            format!("${}", text.trim_end_matches('0'))
        }
        _ => "less than $0.000001".to_owned(),
    }
}

/// `36,600` or `0.5`.
pub(crate) fn count(units: f64) -> String {
    if units.fract() != 0.0 {
        return format!("{units:.1}");
    }
    let digits = format!("{units:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `300 MB`, where a KB has 1024 bytes, as DynamoDB bills and a schema counts.
///
/// ```
/// assert_eq!(larder::price::size(1_500_000), "1.4 MB");
/// ```
pub fn size(bytes: u64) -> String {
    for (unit, scale) in [("GB", 1u64 << 30), ("MB", 1 << 20), ("KB", 1 << 10)] {
        if bytes >= scale {
            let whole = bytes as f64 / scale as f64;
            return if whole < 10.0 { format!("{whole:.1} {unit}") } else { format!("{whole:.0} {unit}") };
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_shown_with_the_digits_it_needs() {
        for (read, write, text) in [
            (36_600.0, 0.0, "36,600 read units, $0.004575"),
            (0.5, 1.0, "0.5 read units, 1 write unit, less than $0.000001"),
            (1_000_000.0, 0.0, "1,000,000 read units, $0.12"),
            (0.0, 0.0, "$0.00"),
        ] {
            assert_eq!(Units { read, write }.to_string(), text);
        }
    }

    #[test]
    fn prices_are_those_of_the_price_file() {
        let prices = cost::Prices::built_in();
        let now =
            prices.find(cost::DEFAULT_REGION, larder_schema::schema::TableClass::Standard, None).unwrap();
        for (dollars, price) in [
            (READ_UNITS_MILLION, now.read_million),
            (WRITE_UNITS_MILLION, now.write_million),
            (STORED_GIGABYTE_MONTH, now.storage),
        ] {
            assert_eq!(price.times(1, 1).micros(), (dollars * 1e6) as i128);
        }
    }

    #[test]
    fn units_are_rounded_up() {
        assert_eq!((read_units(4097, true), read_units(1, false), write_units(1025)), (2.0, 0.5, 2.0));
    }
}
