//! Tables and indexes as they are declared.

use std::collections::BTreeMap;
use std::fmt;

use crate::limits::{TABLE_NAME_MAX, TABLE_NAME_MIN};
use crate::{KeySchema, KeyType, UnixTime};

/// A table's name: 3 to 255 characters of `a-z A-Z 0-9 _ . -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName(String);

/// An index's name; the rules are a table name's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexName(String);

/// A name that breaks the rules for table and index names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not 3 to 255 characters of a-z, A-Z, 0-9, `_`, `.` and `-`")]
pub struct NameError(pub String);

fn is_name(text: &str) -> bool {
    (TABLE_NAME_MIN..=TABLE_NAME_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

macro_rules! name_type {
    ($name:ident) => {
        impl $name {
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                if is_name(&text) { Ok(Self(text)) } else { Err(NameError(text)) }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name_type!(TableName);
name_type!(IndexName);

/// The ARN of a table or of something below it. Larder's region and account are fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arn(String);

impl Arn {
    pub const REGION: &str = "us-east-1";
    pub const ACCOUNT: &str = "000000000000";

    pub fn table(name: &TableName) -> Self {
        Self(format!("arn:aws:dynamodb:{}:{}:table/{name}", Self::REGION, Self::ACCOUNT))
    }

    pub fn index(table: &TableName, index: &IndexName) -> Self {
        Self(format!("{}/index/{index}", Self::table(table)))
    }

    /// The stream that was switched on at this moment.
    pub fn stream(table: &TableName, since: UnixTime) -> Self {
        Self(format!("{}/stream/{}", Self::table(table), since.to_label()))
    }

    /// The table of the stream that an ARN of any region and account names, and when it was switched on.
    pub fn stream_parts(text: &str) -> Option<(TableName, UnixTime)> {
        let (table, label) = text.split_once("/stream/")?;
        Some((Self::table_name(table)?, UnixTime::from_label(label)?))
    }

    pub fn backup(table: &TableName, id: &str) -> Self {
        Self(format!("{}/backup/{id}", Self::table(table)))
    }

    /// The table an ARN of any region and account names, if it names a table and nothing below it.
    pub fn table_name(text: &str) -> Option<TableName> {
        let mut parts = text.splitn(6, ':');
        let head = [parts.next()?, parts.next()?, parts.next()?];
        let (_region, _account, resource) = (parts.next()?, parts.next()?, parts.next()?);
        let named = head[0] == "arn" && head[1].starts_with("aws") && head[2] == "dynamodb";
        if !named {
            return None;
        }
        TableName::new(resource.strip_prefix("table/")?).ok()
    }
}

impl fmt::Display for Arn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Everything about a table that its owner decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDefinition {
    pub name: TableName,
    /// The types of all key attributes, in the order they were declared.
    pub attributes: Vec<(String, KeyType)>,
    pub key: KeySchema,
    pub indexes: Vec<IndexDefinition>,
    pub billing: Billing,
    pub on_demand_limits: Option<Throughput>,
    pub stream: Option<StreamView>,
    pub encryption: Option<Encryption>,
    pub class: Option<TableClass>,
    pub deletion_protection: bool,
    pub tags: Tags,
}

pub type Tags = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDefinition {
    pub name: IndexName,
    pub kind: IndexKind,
    pub key: KeySchema,
    pub projection: Projection,
    /// Provisioned units of a global index; zero when billing is on demand.
    pub throughput: Throughput,
    pub on_demand_limits: Option<Throughput>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    Local,
    Global,
}

/// Which attributes an index holds besides its own key and the table's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projection {
    All,
    KeysOnly,
    Include(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Billing {
    Provisioned(Throughput),
    OnDemand,
}

/// Read and write units. For on-demand maxima -1 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throughput {
    pub read: i64,
    pub write: i64,
}

/// What a change record shows of the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamView {
    KeysOnly,
    NewImage,
    OldImage,
    NewAndOldImages,
}

/// Server-side encryption as asked for. It is described back; what encrypts is the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    pub kms_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableClass {
    Standard,
    StandardInfrequentAccess,
}

impl TableDefinition {
    pub fn index(&self, name: &str) -> Option<&IndexDefinition> {
        self.indexes.iter().find(|index| index.name.as_str() == name)
    }

    pub fn attribute(&self, name: &str) -> Option<KeyType> {
        self.attributes.iter().find(|(attribute, _)| attribute == name).map(|(_, kind)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["abc", "keiba_data", "tdnet-x.1", &"a".repeat(255)] {
            assert!(TableName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "ab", "a b", "abc/", "äää", &"a".repeat(256)] {
            assert!(TableName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_arn_names_its_table() {
        let name = TableName::new("lunch-cache").unwrap();
        let arn = Arn::table(&name).to_string();
        assert_eq!(Arn::table_name(&arn), Some(name));
        for other in
            ["arn:aws:s3:::bucket", "arn:aws:dynamodb:eu-west-1:1:table/abc/index/def", "lunch-cache"]
        {
            assert_eq!(Arn::table_name(other), None, "{other}");
        }
    }

    #[test]
    fn an_arn_names_its_stream() {
        let (name, since) =
            (TableName::new("lunch-cache").unwrap(), UnixTime::from_millis(1_700_000_000_123));
        let arn = Arn::stream(&name, since).to_string();
        assert_eq!(arn, format!("{}/stream/2023-11-14T22:13:20.123", Arn::table(&name)));
        assert_eq!(Arn::stream_parts(&arn), Some((name, since)));
        for other in [&arn[..arn.len() - 1], "arn:aws:dynamodb:eu-west-1:1:table/abc", "/stream/"] {
            assert_eq!(Arn::stream_parts(other), None, "{other}");
        }
    }
}
