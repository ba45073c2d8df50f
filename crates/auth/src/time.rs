//! Moments as signatures and policies write them.

use larder_model::UnixTime;

/// The moment in ISO 8601's basic format, to the second, as signatures have it: `20261009T123456Z`. Nothing else is one.
pub(crate) fn from_basic(text: &str) -> Option<UnixTime> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || !text.is_ascii() || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let (year, month, day) = (&text[..4], &text[4..6], &text[6..8]);
    let (hour, minute, second) = (&text[9..11], &text[11..13], &text[13..15]);
    UnixTime::from_label(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}.000"))
}

pub(crate) fn to_basic(time: UnixTime) -> String {
    let mut text: String = time.to_label().chars().filter(|c| !matches!(c, '-' | ':')).collect();
    text.truncate("20261009T123456".len());
    text.push('Z');
    text
}

/// As `aws:CurrentTime` has it: `2026-10-09T12:34:56Z`.
pub(crate) fn to_extended(time: UnixTime) -> String {
    let mut text = time.to_label();
    text.truncate("2026-10-09T12:34:56".len());
    text.push('Z');
    text
}

/// The moment that a policy's date names: seconds since 1970, or one of W3C's forms of ISO 8601, from `2026` to
/// `2026-10-09T12:34:56.789+02:00`. A time of day without a zone is UTC.
pub(crate) fn from_policy(text: &str) -> Option<UnixTime> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !text.is_ascii() {
        return None;
    }
    // Four digits are a year; a moment so long ago is not what anybody means.
    if is_digits(text) && text.len() != 4 {
        return Some(UnixTime::from_seconds(text.parse().ok()?));
    }
    let (date, clock) = match text.split_once('T') {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    let date = match date.len() {
        4 => format!("{date}-01-01"),
        7 => format!("{date}-01"),
        _ => date.to_owned(),
    };
    let Some(clock) = clock else { return UnixTime::from_label(&format!("{date}T00:00:00.000")) };
    let (clock, offset_minutes) = without_zone(clock)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    if !is_digits(fraction) {
        return None;
    }
    let clock = if clock.len() == 5 { format!("{clock}:00") } else { clock.to_owned() };
    let millis: String = fraction.chars().chain("000".chars()).take(3).collect();
    let local = UnixTime::from_label(&format!("{date}T{clock}.{millis}"))?;
    Some(UnixTime::from_millis(local.millis() - offset_minutes * 60_000))
}

/// The clock without its zone, and how many minutes that is ahead of UTC.
fn without_zone(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = clock.find(['+', '-']) else { return Some((clock, 0)) };
    let (clock, zone) = clock.split_at(at);
    let (hours, minutes) = match zone[1..].split_once(':') {
        Some(parts) => parts,
        None if zone.len() == 5 => zone[1..].split_at(2),
        None => (&zone[1..], "00"),
    };
    let number = |text: &str, max: i64| {
        let number: i64 = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())??;
        (text.len() == 2 && number <= max).then_some(number)
    };
    let minutes = number(hours, 23)? * 60 + number(minutes, 59)?;
    Some((clock, if zone.starts_with('-') { -minutes } else { minutes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_format_is_read_as_it_is_written() {
        for text in ["19700101T000000Z", "20261009T123456Z", "20240229T235959Z"] {
            assert_eq!(to_basic(from_basic(text).unwrap()), text);
        }
        for other in [
            "",
            "20261009",
            "20261009T123456",
            "20261009T123460Z",
            "20270229T000000Z",
            "2026100äT12345Z",
            "+0261009T123456Z",
        ] {
            assert_eq!(from_basic(other), None, "{other}");
        }
    }

    #[test]
    fn policies_write_dates_in_w3c_s_forms_or_as_seconds() {
        for (text, expected) in [
            ("2026", "2026-01-01T00:00:00.000"),
            ("2026-10", "2026-10-01T00:00:00.000"),
            ("2026-10-09", "2026-10-09T00:00:00.000"),
            ("2026-10-09T12:34Z", "2026-10-09T12:34:00.000"),
            ("2026-10-09T12:34:56Z", "2026-10-09T12:34:56.000"),
            ("2026-10-09T12:34:56.7Z", "2026-10-09T12:34:56.700"),
            ("2026-10-09T12:34:56.7891Z", "2026-10-09T12:34:56.789"),
            ("2026-10-09T12:34:56", "2026-10-09T12:34:56.000"),
            ("2026-10-09T12:34:56+02:00", "2026-10-09T10:34:56.000"),
            ("2026-10-09T12:34:56-0530", "2026-10-09T18:04:56.000"),
            ("2026-10-09T12:34:56+09", "2026-10-09T03:34:56.000"),
            ("951782400", "2000-02-29T00:00:00.000"),
        ] {
            assert_eq!(from_policy(text).map(UnixTime::to_label).as_deref(), Some(expected), "{text}");
        }
        for other in [
            "",
            "today",
            "2026-13-01",
            "2026-10-09T",
            "2026-10-09T25:00Z",
            "2026-10-09T12:34+2",
            "2026-10-09T12:34:56.Z",
            "2026-1",
        ] {
            assert_eq!(from_policy(other), None, "{other}");
        }
    }
}
