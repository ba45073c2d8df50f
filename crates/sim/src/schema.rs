//! The two tables every workload uses, and the requests that make and change them.
//!
//! `main-table` has a global index that projects everything, one that projects some, a local one, a TTL
//! attribute, and a third global index that workloads add and drop. `second-table` comes and goes.

use std::collections::BTreeMap;

use larder_engine::ops::{
    BillingMode, CreateTable, IndexChange, KeyElement, KeyRole, NewIndex, ProjectionKind,
    ProjectionSpecification, UpdateTable, UpdateTimeToLive,
};
use larder_model::{AttributeValue, IndexName, Item, KeyType, TableName};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Main,
    Second,
}

/// An item's partition and sort key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub String, pub i64);

pub const EXPIRES: &str = "expires";
pub const COUNT: &str = "count";
pub const GROUP: &str = "group";
pub const COLOUR: &str = "colour";
pub const RANK: &str = "rank";
pub const NOTE: &str = "note";

/// The index that workloads add and drop.
pub const EXTRA: &str = "by-group-and-rank";

/// An index as the oracle knows it.
#[derive(Clone, Copy, Debug)]
pub struct IndexShape {
    pub name: &'static str,
    pub partition: &'static str,
    pub sort: Option<&'static str>,
    pub projects: Projects,
}

#[derive(Clone, Copy, Debug)]
pub enum Projects {
    All,
    Keys,
    Also(&'static str),
}

const BY_GROUP: IndexShape =
    IndexShape { name: "by-group", partition: GROUP, sort: Some(COUNT), projects: Projects::All };
const BY_COLOUR: IndexShape =
    IndexShape { name: "by-colour", partition: COLOUR, sort: None, projects: Projects::Also(NOTE) };
const BY_RANK: IndexShape =
    IndexShape { name: "by-rank", partition: "pk", sort: Some(RANK), projects: Projects::Also(COUNT) };
const BY_GROUP_AND_RANK: IndexShape =
    IndexShape { name: EXTRA, partition: GROUP, sort: Some(RANK), projects: Projects::Keys };

impl Place {
    pub const ALL: [Self; 2] = [Self::Main, Self::Second];

    pub fn table(self) -> TableName {
        let name = match self {
            Self::Main => "main-table",
            Self::Second => "second-table",
        };
        TableName::new(name).expect("both are good names")
    }

    /// The indexes a new table of this kind has.
    pub fn first_indexes(self) -> &'static [IndexShape] {
        match self {
            Self::Main => &[BY_GROUP, BY_COLOUR, BY_RANK],
            Self::Second => &[BY_GROUP],
        }
    }

    pub fn index(name: &str) -> Option<IndexShape> {
        [BY_GROUP, BY_COLOUR, BY_RANK, BY_GROUP_AND_RANK].into_iter().find(|index| index.name == name)
    }
}

impl Key {
    pub fn attributes(&self) -> Item {
        [("pk", AttributeValue::from(self.0.as_str())), ("sk", self.1.into())].into_iter().collect()
    }

    pub fn of(item: &Item) -> Option<Self> {
        let sort = item.get("sk")?.as_number()?.to_i64()?;
        Some(Self(item.get("pk")?.as_str()?.to_owned(), sort))
    }
}

impl IndexShape {
    fn is_local(self) -> bool {
        self.partition == "pk"
    }

    /// The entry this index must have for an item, if any.
    pub fn entry(self, item: &Item) -> Option<Item> {
        item.get(self.partition)?.as_str()?;
        if let Some(sort) = self.sort {
            item.get(sort)?.as_number()?;
        }
        let keys = ["pk", "sk", self.partition].into_iter().chain(self.sort);
        let part = |names: &mut dyn Iterator<Item = &str>| {
            names.filter_map(|name| Some((name, item.get(name)?.clone()))).collect()
        };
        Some(match self.projects {
            Projects::All => item.clone(),
            Projects::Keys => part(&mut keys.into_iter()),
            Projects::Also(name) => part(&mut keys.chain([name])),
        })
    }

    fn request(self) -> NewIndex {
        let (kind, names) = match self.projects {
            Projects::All => (ProjectionKind::All, None),
            Projects::Keys => (ProjectionKind::KeysOnly, None),
            Projects::Also(name) => (ProjectionKind::Include, Some(vec![name.to_owned()])),
        };
        NewIndex {
            name: index_name(self.name),
            key: key(self.partition, self.sort),
            projection: Some(ProjectionSpecification { kind: Some(kind), names }),
            throughput: None,
            on_demand_limits: None,
        }
    }
}

pub fn index_name(name: &str) -> IndexName {
    IndexName::new(name).expect("all index names here are good")
}

fn key(partition: &str, sort: Option<&str>) -> Vec<KeyElement> {
    let element = |name: &str, role| KeyElement { name: name.to_owned(), role };
    let sort = sort.map(|sort| element(sort, KeyRole::Sort));
    [element(partition, KeyRole::Partition)].into_iter().chain(sort).collect()
}

/// The types of the key attributes of these indexes, and of the table if it is among them.
fn attributes(names: impl Iterator<Item = &'static str>) -> Vec<(String, KeyType)> {
    let kind = |name| if [GROUP, COLOUR, "pk"].contains(&name) { KeyType::S } else { KeyType::N };
    let kinds: BTreeMap<String, KeyType> = names.map(|name| (name.to_owned(), kind(name))).collect();
    kinds.into_iter().collect()
}

pub fn create_table(place: Place) -> CreateTable {
    let indexes = place.first_indexes();
    let (local, global): (Vec<_>, Vec<_>) = indexes.iter().partition(|index| index.is_local());
    let requests = |indexes: Vec<&IndexShape>| {
        (!indexes.is_empty()).then(|| indexes.into_iter().map(|index| index.request()).collect())
    };
    CreateTable {
        table: place.table(),
        attributes: attributes(["pk", "sk"].into_iter().chain(
            indexes.iter().flat_map(|index| [Some(index.partition), index.sort].into_iter().flatten()),
        )),
        key: key("pk", Some("sk")),
        local_indexes: requests(local),
        global_indexes: requests(global),
        billing_mode: Some(BillingMode::OnDemand),
        throughput: None,
        on_demand_limits: None,
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: None,
        tags: Vec::new(),
        policy: None,
    }
}

pub fn add_extra_index() -> UpdateTable {
    let names = [Some(GROUP), Some(RANK)].into_iter().flatten();
    update_table(attributes(names), IndexChange::Create(BY_GROUP_AND_RANK.request()))
}

pub fn drop_extra_index() -> UpdateTable {
    update_table(Vec::new(), IndexChange::Delete { name: index_name(EXTRA) })
}

fn update_table(attributes: Vec<(String, KeyType)>, change: IndexChange) -> UpdateTable {
    UpdateTable {
        table: Place::Main.table(),
        attributes,
        billing_mode: None,
        throughput: None,
        on_demand_limits: None,
        index_changes: Some(vec![change]),
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: None,
    }
}

pub fn switch_expiry(enabled: bool) -> UpdateTimeToLive {
    UpdateTimeToLive { table: Place::Main.table(), attribute: EXPIRES.to_owned(), enabled }
}
