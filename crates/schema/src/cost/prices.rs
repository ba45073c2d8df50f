//! The price file: which prices hold where, and from when on.
//!
//! One file is built in, and says of every entry where its figures are from and as of when; another of the same
//! form can be read in its place. Members nobody knows are refused: a price that is misspelt must not be free.

use jiff::civil::Date;
use larder_model::TableClass;
use serde_json::{Map, Value as Json};

use super::money::Price;

const BUILT_IN: &str = include_str!("../../prices.json");
const GIGABYTE_BYTES: u64 = 1 << 30;
/// Members of an entry.
const MEMBERS: [&str; 14] = [
    "region",
    "class",
    "from",
    "source",
    "as_of",
    "read_million",
    "write_million",
    "read_hour",
    "write_hour",
    "storage",
    "storage_free_gb",
    "pitr",
    "gigabyte_bytes",
    "whole_reads",
];

/// Prices by region and date.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    entries: Vec<Entry>,
}

/// The prices of one region from one date on.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub region: String,
    pub class: TableClass,
    pub from: Date,
    /// Where the figures are from.
    pub source: String,
    /// When they were last seen to hold.
    pub as_of: Date,
    /// For a million read request units.
    pub read_million: Price,
    pub write_million: Price,
    /// For a provisioned unit and hour, read and write.
    pub hour: Option<(Price, Price)>,
    /// For a gigabyte and month.
    pub storage: Price,
    pub storage_free_bytes: u64,
    pub pitr: Option<Price>,
    pub gigabyte_bytes: u64,
    /// Eventually consistent reads cost as much as others.
    pub whole_reads: bool,
}

/// Why there is no price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    #[error("the price file cannot be read: {0}")]
    File(String),
    #[error("entry {number} of the price file{about}: {problem}")]
    Entry { number: usize, about: String, problem: String },
    #[error(
        "there are no prices for {region}; known are {known}: choose one with --region, or give yours with --prices FILE"
    )]
    Region { region: String, known: String },
    #[error(
        "there are no prices for {region} on {date}; they begin on {first}: take a later --date, or give yours with --prices FILE"
    )]
    Date { region: String, date: Date, first: Date },
    #[error("there are no prices for tables of class infrequent in {region}: give them with --prices FILE")]
    Class { region: String },
}

impl Prices {
    /// The prices that come with the program.
    ///
    /// ```
    /// use larder_schema::cost::Prices;
    /// use larder_schema::schema::TableClass;
    ///
    /// let prices = Prices::built_in();
    /// let now = prices.find("us-east-1", TableClass::Standard, None)?;
    /// assert_eq!(now.write_million.to_string(), "$0.625");
    /// # Ok::<(), larder_schema::cost::PriceError>(())
    /// ```
    pub fn built_in() -> Self {
        Self::parse(BUILT_IN).expect("a test reads the file that is built in")
    }

    /// Reads a price file.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        let wrong = |problem: &str| PriceError::File(problem.to_owned());
        let document: Json = serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
        let entries = document.get("entries").and_then(Json::as_array);
        let entries = entries.ok_or_else(|| wrong("it has no list called `entries`"))?;
        let mut read = Vec::new();
        for (at, json) in entries.iter().enumerate() {
            let region = json.get("region").and_then(Json::as_str);
            let about = region.map_or_else(String::new, |region| format!(" ({region})"));
            let entry = entry(json);
            read.push(entry.map_err(|problem| PriceError::Entry { number: at + 1, about, problem })?);
        }
        Ok(Self { entries: read })
    }

    /// The prices of a region: those of a date, or the newest.
    pub fn find(&self, region: &str, class: TableClass, date: Option<Date>) -> Result<&Entry, PriceError> {
        let of_region = || self.entries.iter().filter(|entry| entry.region == region);
        if of_region().next().is_none() {
            let mut known: Vec<&str> = self.entries.iter().map(|entry| entry.region.as_str()).collect();
            known.sort_unstable();
            known.dedup();
            return Err(PriceError::Region { region: region.to_owned(), known: known.join(", ") });
        }
        let fitting = || of_region().filter(|entry| entry.class == class);
        let Some(first) = fitting().map(|entry| entry.from).min() else {
            return Err(PriceError::Class { region: region.to_owned() });
        };
        let held = fitting().filter(|entry| date.is_none_or(|date| entry.from <= date));
        held.max_by_key(|entry| entry.from).ok_or_else(|| PriceError::Date {
            region: region.to_owned(),
            date: date.unwrap_or(first),
            first,
        })
    }
}

fn entry(json: &Json) -> Result<Entry, String> {
    let Json::Object(members) = json else { return Err("it is not an object".to_owned()) };
    if let Some(unknown) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(format!("`{unknown}` is not known; there are {}", MEMBERS.join(", ")));
    }
    let hour = match (price(members, "read_hour")?, price(members, "write_hour")?) {
        (Some(read), Some(write)) => Some((read, write)),
        (None, None) => None,
        _ => return Err("`read_hour` and `write_hour` belong together".to_owned()),
    };
    let gigabyte_bytes = whole(members, "gigabyte_bytes")?.unwrap_or(GIGABYTE_BYTES);
    if gigabyte_bytes == 0 {
        return Err("`gigabyte_bytes` is zero".to_owned());
    }
    let free = whole(members, "storage_free_gb")?.unwrap_or(0);
    Ok(Entry {
        region: text(members, "region")?.ok_or_else(|| missing("region"))?.to_owned(),
        class: match text(members, "class")? {
            None | Some("standard") => TableClass::Standard,
            Some("infrequent") => TableClass::StandardInfrequentAccess,
            Some(_) => return Err("`class` must be standard or infrequent".to_owned()),
        },
        from: date(members, "from")?,
        source: text(members, "source")?.ok_or_else(|| missing("source"))?.to_owned(),
        as_of: date(members, "as_of")?,
        read_million: price(members, "read_million")?.ok_or_else(|| missing("read_million"))?,
        write_million: price(members, "write_million")?.ok_or_else(|| missing("write_million"))?,
        hour,
        storage: price(members, "storage")?.ok_or_else(|| missing("storage"))?,
        storage_free_bytes: free.saturating_mul(gigabyte_bytes),
        pitr: price(members, "pitr")?,
        gigabyte_bytes,
        whole_reads: match members.get("whole_reads") {
            None => false,
            Some(Json::Bool(whole)) => *whole,
            Some(_) => return Err("`whole_reads` must be true or false".to_owned()),
        },
    })
}

fn missing(name: &str) -> String {
    format!("`{name}` is missing")
}

fn text<'a>(members: &'a Map<String, Json>, name: &str) -> Result<Option<&'a str>, String> {
    match members.get(name) {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{name}` must be a text")),
    }
}

fn date(members: &Map<String, Json>, name: &str) -> Result<Date, String> {
    let text = text(members, name)?.ok_or_else(|| missing(name))?;
    text.parse().map_err(|_| format!("`{name}` must be a date such as 2024-11-01"))
}

/// Prices are texts: a JSON number may have passed through a float.
fn price(members: &Map<String, Json>, name: &str) -> Result<Option<Price>, String> {
    let Some(json) = members.get(name) else { return Ok(None) };
    let text =
        json.as_str().ok_or_else(|| format!("`{name}` must be dollars as a text, such as \"0.625\""))?;
    text.parse().map(Some).map_err(|error| format!("`{name}`: {error}"))
}

fn whole(members: &Map<String, Json>, name: &str) -> Result<Option<u64>, String> {
    let Some(json) = members.get(name) else { return Ok(None) };
    json.as_u64().map(Some).ok_or_else(|| format!("`{name}` must be a whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_that_is_built_in_can_be_found() {
        let prices = Prices::parse(BUILT_IN).unwrap();
        for entry in &prices.entries {
            let found = prices.find(&entry.region, entry.class, Some(entry.from)).unwrap();
            assert_eq!(found, entry);
            assert!(entry.as_of >= entry.from || entry.region == "weather-team", "{}", entry.region);
        }
    }

    #[test]
    fn a_price_holds_from_its_date_until_the_next() {
        let prices = Prices::built_in();
        for (date, million) in [
            (None, "$0.125"),
            (Some("2024-11-01"), "$0.125"),
            (Some("2024-10-31"), "$0.25"),
            (Some("2018-11-28"), "$0.25"),
        ] {
            let date = date.map(|date| date.parse().unwrap());
            let entry = prices.find("us-east-1", TableClass::Standard, date).unwrap();
            assert_eq!(entry.read_million.to_string(), million);
        }
    }

    #[test]
    fn what_has_no_price_is_named_with_the_next_step() {
        let prices = Prices::built_in();
        let find = |region: &str, class: TableClass, date: &str| {
            prices.find(region, class, date.parse().ok()).unwrap_err().to_string()
        };
        insta::assert_snapshot!(find("mars-1", TableClass::Standard, ""), @"there are no prices for mars-1; known are ap-northeast-1, eu-west-1, sa-east-1, us-east-1, weather-team: choose one with --region, or give yours with --prices FILE");
        insta::assert_snapshot!(find("us-east-1", TableClass::Standard, "2012-01-18"), @"there are no prices for us-east-1 on 2012-01-18; they begin on 2018-11-28: take a later --date, or give yours with --prices FILE");
        insta::assert_snapshot!(find("us-east-1", TableClass::StandardInfrequentAccess, ""), @"there are no prices for tables of class infrequent in us-east-1: give them with --prices FILE");
    }

    #[test]
    fn a_price_file_that_is_wrong_is_refused() {
        let entry = |member: &str| {
            let members = r#""region": "here", "from": "2026-01-01", "as_of": "2026-01-01", "source": "us",
                "read_million": "0.1", "write_million": "0.5", "storage": "0.2""#;
            Prices::parse(&format!(r#"{{"entries": [{{{members}, {member}}}]}}"#)).map(|_| ())
        };
        assert_eq!(entry(r#""pitr": "0.2""#), Ok(()));
        for (member, problem) in [
            (r#""pitr": 0.2"#, "must be dollars as a text"),
            (r#""pitr": "free""#, "is not a price"),
            (r#""prit": "0.2""#, "`prit` is not known"),
            (r#""read_hour": "0.1""#, "belong together"),
            (r#""class": "cold""#, "standard or infrequent"),
            (r#""gigabyte_bytes": 0"#, "is zero"),
            (r#""from": "soon""#, "must be a date"),
            (r#""storage": null"#, "must be dollars as a text"),
        ] {
            let error = entry(member).unwrap_err().to_string();
            assert!(
                error.starts_with("entry 1 of the price file (here): ") && error.contains(problem),
                "{error}"
            );
        }
        for text in ["", "[]", "{}", r#"{"entries": 1}"#, r#"{"entries": [1]}"#, r#"{"entries": [{}]}"#] {
            assert!(Prices::parse(text).is_err(), "{text}");
        }
    }
}
