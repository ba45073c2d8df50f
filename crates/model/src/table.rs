//! Tables and indexes as they are declared.

use std::collections::BTreeMap;
use std::fmt;

use crate::limits::{REGION_MAX, TABLE_NAME_MAX, TABLE_NAME_MIN};
use crate::{KeySchema, KeyType, UnixTime};

/// A table's name: 3 to 255 characters of `a-z A-Z 0-9 _ . -`, and the space that it is in.
///
/// What is shown and compared with other text is the name. Two names are equal if their spaces are, too; those of the
/// default space come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
// The name, after that of its space unless it is the default. No name has the sign that begins a space, and all sort before.
pub struct TableName(String);

/// Where tables are: a region and an account. Those of one space are unknown in another.
///
/// The default is where all tables are unless somebody asks for more: `us-east-1` of `000000000000`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Empty, or what its names begin with: `~region/account/`.
pub struct Space(String);

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

name_type!(IndexName);

/// What no name has and all sort before.
pub const SPACE: char = '~';

impl Space {
    /// None if the region has other characters than letters, digits and `-`, or the account other than twelve digits.
    pub fn new(region: &str, account: &str) -> Option<Self> {
        let is_region = (1..=REGION_MAX).contains(&region.len())
            && region.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
        match (region, account) {
            _ if !is_region || !is_account => None,
            (Arn::REGION, Arn::ACCOUNT) => Some(Self::default()),
            _ => Some(Self(format!("{SPACE}{region}/{account}/"))),
        }
    }

    pub fn region(&self) -> &str {
        place(&self.0).0
    }

    pub fn account(&self) -> &str {
        place(&self.0).1
    }

    /// What the names of its tables begin with where they are kept: nothing, or something that no name begins with.
    pub fn prefix(&self) -> &str {
        &self.0
    }
}

/// The region and account that begin a text, if any do; otherwise those of the default space.
fn place(text: &str) -> (&str, &str) {
    let said = text.strip_prefix(SPACE).and_then(|text| text.split_once('/'));
    let said = said.and_then(|(region, rest)| Some((region, rest.split_once('/')?.0)));
    said.unwrap_or((Arn::REGION, Arn::ACCOUNT))
}

impl TableName {
    /// A name in the default space.
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        if is_name(&text) { Ok(Self(text)) } else { Err(NameError(text)) }
    }

    /// The name, without its space.
    pub fn as_str(&self) -> &str {
        match self.0.strip_prefix(SPACE) {
            None => &self.0,
            Some(arn) if arn.starts_with("arn:") => arn,
            Some(text) => text.rsplit('/').next().unwrap_or(text),
        }
    }

    /// This name in a space.
    #[must_use]
    pub fn within(self, space: &Space) -> Self {
        match (self.0.starts_with(SPACE), space.0.as_str()) {
            (false, "") => self,
            _ => Self(format!("{}{}", space.0, self.as_str())),
        }
    }

    pub fn is_in(&self, space: &Space) -> bool {
        self.0.strip_suffix(self.as_str()) == Some(&space.0)
    }

    pub fn region(&self) -> &str {
        place(&self.0).0
    }

    pub fn account(&self) -> &str {
        place(&self.0).1
    }

    /// The name and its space as one text: what it is kept under.
    pub fn key(&self) -> &str {
        &self.0
    }

    /// The name, after its region and account unless it is in the default space: `eu-west-1/123456789012/orders`.
    pub fn qualified(&self) -> &str {
        self.0.trim_start_matches(SPACE)
    }

    pub fn from_key(text: &str) -> Option<Self> {
        let Some(rest) = text.strip_prefix(SPACE) else { return Self::new(text).ok() };
        let (region, rest) = rest.split_once('/')?;
        let (account, name) = rest.split_once('/')?;
        let space = Space::new(region, account).filter(|space| *space != Space::default())?;
        Some(Self::new(name).ok()?.within(&space))
    }

    /// Whether it says where it is, as what was read from an ARN does, the default space included.
    pub fn says_place(&self) -> bool {
        self.0.starts_with(SPACE)
    }

    /// As those of other spaces have to write it, in an answer for them: what it shows is its ARN.
    #[must_use]
    pub fn shown_as_arn(&self) -> Self {
        Self(format!("{SPACE}{}", Arn::table(self)))
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// As it is kept: the name alone finds one of the default space.
impl std::borrow::Borrow<str> for TableName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The ARN of a table or of something below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arn(String);

impl Arn {
    pub const REGION: &str = "us-east-1";
    pub const ACCOUNT: &str = "000000000000";

    pub fn table(name: &TableName) -> Self {
        Self(format!("arn:aws:dynamodb:{}:{}:table/{name}", name.region(), name.account()))
    }

    pub fn index(table: &TableName, index: &IndexName) -> Self {
        Self(format!("{}/index/{index}", Self::table(table)))
    }

    /// The stream that was switched on at this moment.
    pub fn stream(table: &TableName, since: UnixTime) -> Self {
        Self(format!("{}/stream/{}", Self::table(table), since.to_label()))
    }

    /// The table of the stream that an ARN names, as [`table_said`](Self::table_said) has it, and when it was switched on.
    pub fn stream_said(text: &str) -> Option<(TableName, UnixTime)> {
        let (table, label) = text.split_once("/stream/")?;
        Some((Self::table_said(table)?, UnixTime::from_label(label)?))
    }

    pub fn backup(table: &TableName, id: &str) -> Self {
        Self(format!("{}/backup/{id}", Self::table(table)))
    }

    pub fn export(table: &TableName, id: &str) -> Self {
        Self(format!("{}/export/{id}", Self::table(table)))
    }

    pub fn import(table: &TableName, id: &str) -> Self {
        Self(format!("{}/import/{id}", Self::table(table)))
    }

    /// The table an ARN of any region and account names, if it names a table and nothing below it.
    pub fn table_name(text: &str) -> Option<TableName> {
        parts(text).map(|(_, _, name)| name)
    }

    /// The same, with the region and account it says, whatever those are and be they the default: a name that was said
    /// and is not looked for before somebody has decided what is meant.
    pub fn table_said(text: &str) -> Option<TableName> {
        let (region, account, TableName(name)) = parts(text)?;
        Some(TableName(format!("{SPACE}{region}/{account}/{name}")))
    }
}

/// The region, the account and the table of an ARN.
fn parts(text: &str) -> Option<(&str, &str, TableName)> {
    let mut parts = text.splitn(6, ':');
    let head = [parts.next()?, parts.next()?, parts.next()?];
    let (region, account, resource) = (parts.next()?, parts.next()?, parts.next()?);
    let named = head[0] == "arn" && head[1].starts_with("aws") && head[2] == "dynamodb";
    // Where spaces are written out, a slash ends a region and an account.
    if !named || region.contains('/') || account.contains('/') {
        return None;
    }
    Some((region, account, TableName::new(resource.strip_prefix("table/")?).ok()?))
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
        let (said, label) = Arn::stream_said(&arn).unwrap();
        assert_eq!((said.as_str(), label), (name.as_str(), since));
        for other in [&arn[..arn.len() - 1], "arn:aws:dynamodb:eu-west-1:1:table/abc", "/stream/"] {
            assert_eq!(Arn::stream_said(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_is_shown_without_its_space_and_kept_with_it() {
        let (name, here) = (TableName::new("lunch").unwrap(), Space::default());
        let there = Space::new("eu-west-1", "123456789012").unwrap();
        assert_eq!(Space::new("us-east-1", "000000000000"), Some(here.clone()));
        let moved = name.clone().within(&there);
        assert_eq!((name.key(), moved.key()), ("lunch", "~eu-west-1/123456789012/lunch"));
        assert_eq!((name.qualified(), moved.qualified()), ("lunch", "eu-west-1/123456789012/lunch"));
        assert_eq!((moved.as_str(), moved.to_string().as_str()), ("lunch", "lunch"));
        assert_eq!((moved.region(), moved.account()), ("eu-west-1", "123456789012"));
        assert_eq!((there.region(), here.account()), ("eu-west-1", "000000000000"));
        assert!(name.is_in(&here) && !name.is_in(&there) && moved.is_in(&there) && !moved.is_in(&here));
        assert_ne!(name, moved);
        assert_eq!(moved.clone().within(&here), name);
        let arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/lunch";
        assert_eq!(Arn::table(&moved).to_string(), arn);
        assert_eq!(Arn::table_said(arn), Some(moved.clone()));
        assert_eq!(Arn::table_name(arn), Some(name.clone()));
        assert_eq!(moved.shown_as_arn().as_str(), arn);
        for kept in [&name, &moved] {
            assert_eq!(TableName::from_key(kept.key()).as_ref(), Some(kept));
        }
        // One of the default space that says so is not a name that anything is kept under.
        let said = Arn::table_said(&Arn::table(&name).to_string()).unwrap();
        assert!(said.says_place() && said != name);
        assert_eq!(TableName::from_key(said.key()), None);
        assert_eq!(said.within(&here), name);
    }

    #[test]
    fn names_of_the_default_space_come_first() {
        let there = Space::new("a", "000000000001").unwrap();
        let last = TableName::new("zzz").unwrap();
        assert!(last < TableName::new("___").unwrap().within(&there));
        for (region, account) in
            [("", "123456789012"), ("a/b", "123456789012"), ("eu-west-1", "12345678901"), ("a:b", "x")]
        {
            assert_eq!(Space::new(region, account), None, "{region} {account}");
        }
    }
}
