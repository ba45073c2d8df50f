//! Moments.

use std::time::Duration;

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(i64);

impl UnixTime {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The moment as it names a stream: `2026-10-09T12:34:56.789`.
    pub fn to_label(self) -> String {
        let (days, second) = (self.seconds().div_euclid(86_400), self.seconds().rem_euclid(86_400));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let millis = self.0.rem_euclid(1000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}")
    }

    /// The moment that a label names; nothing else is one.
    pub fn from_label(label: &str) -> Option<Self> {
        if label.len() != 23 || !label.is_ascii() {
            return None;
        }
        let number = |from: usize, to: usize| label[from..to].parse::<i64>().ok();
        let days = days(number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let second = (days * 24 + number(11, 13)?) * 3600 + number(14, 16)? * 60 + number(17, 19)?;
        let time = Self(second * 1000 + number(20, 23)?);
        (time.to_label() == label).then_some(time)
    }

    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// The Gregorian date of a day counted from 1970-01-01. Years are counted from March, so that a leap day ends
/// one.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

/// The other way round.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year * 365 + year / 4 - year / 100 + day - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_the_moment_it_names() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000"),
            (951_782_400_000, "2000-02-29T00:00:00.000"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999"),
            (1_798_761_600_001, "2027-01-01T00:00:00.001"),
        ] {
            assert_eq!(UnixTime::from_millis(millis).to_label(), expected);
            assert_eq!(UnixTime::from_label(expected), Some(UnixTime::from_millis(millis)));
        }
        for day in -1_000..40_000 {
            let (year, month, of_month) = date(day);
            assert_eq!(days(year, month, of_month), day);
        }
        for other in [
            "",
            "2027-02-29T00:00:00.000",
            "2027-01-01T24:00:00.000",
            "2027-01-01 00:00:00.000",
            "2027-01-01T00:00:00.00ä",
        ] {
            assert_eq!(UnixTime::from_label(other), None, "{other}");
        }
    }
}
