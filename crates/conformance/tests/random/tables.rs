//! Tables of every shape: keys of each type, indexes of each kind.
//!
//! All tables share few attribute names, so that keys, index keys and plain attributes meet in expressions.

use serde_json::{Value, json};

use crate::chance::Chance;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    S,
    N,
    B,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::S => "S",
            Self::N => "N",
            Self::B => "B",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyAttribute {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// More than one only in a global index.
    pub(crate) partition: Vec<KeyAttribute>,
    pub(crate) sort: Vec<KeyAttribute>,
}

impl Keys {
    pub(crate) fn all(&self) -> impl Iterator<Item = KeyAttribute> {
        self.partition.iter().chain(&self.sort).copied()
    }

    fn schema(&self) -> Value {
        let element = |key: &KeyAttribute, role| json!({"AttributeName": key.name, "KeyType": role});
        let partition = self.partition.iter().map(|key| element(key, "HASH"));
        partition.chain(self.sort.iter().map(|key| element(key, "RANGE"))).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) name: String,
    pub(crate) local: bool,
    pub(crate) keys: Keys,
    projection: Value,
}

impl Index {
    fn definition(&self) -> Value {
        json!({"IndexName": self.name, "KeySchema": self.keys.schema(), "Projection": self.projection})
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) keys: Keys,
    pub(crate) indexes: Vec<Index>,
    /// Attributes that are, or could be, keys of indexes.
    pub(crate) candidates: Vec<KeyAttribute>,
}

const CANDIDATES: [&str; 4] = ["g", "h", "i", "k"];

impl Table {
    pub(crate) fn random(chance: &mut Chance, name: &str) -> Self {
        let mut attribute =
            |name| KeyAttribute { name, kind: chance.pick(&[Kind::S, Kind::S, Kind::N, Kind::B]) };
        let partition = attribute("p");
        let sort = attribute("r");
        let candidates: Vec<KeyAttribute> = CANDIDATES.map(attribute).into();
        let sort = if chance.percent(65) { vec![sort] } else { vec![] };
        let mut table = Self {
            name: name.to_owned(),
            keys: Keys { partition: vec![partition], sort },
            indexes: vec![],
            candidates,
        };
        if !table.keys.sort.is_empty() && chance.percent(40) {
            let keys = Keys { partition: vec![partition], sort: vec![chance.pick(&table.candidates)] };
            let projection = projection(chance);
            table.indexes.push(Index { name: "local".into(), local: true, keys, projection });
        }
        for number in 0..chance.below(3) {
            let index = table.random_global_index(chance, format!("global{number}"));
            table.indexes.push(index);
        }
        table
    }

    pub(crate) fn random_global_index(&self, chance: &mut Chance, name: String) -> Index {
        let mut left = self.candidates.clone();
        left.push(self.keys.partition[0]);
        left.extend(self.keys.sort.iter().copied());
        let mut take = |chance: &mut Chance, count: usize| -> Vec<KeyAttribute> {
            (0..count).map(|_| left.remove(chance.below(left.len()))).collect()
        };
        let many = chance.percent(30);
        let partition = if many { 1 + chance.below(2) } else { 1 };
        let sort = if many { chance.below(3) } else { chance.below(2) };
        let keys = Keys { partition: take(chance, partition), sort: take(chance, sort) };
        Index { name, local: false, keys, projection: projection(chance) }
    }

    pub(crate) fn create(&self) -> Value {
        let definitions = |local: bool| -> Vec<Value> {
            self.indexes.iter().filter(|index| index.local == local).map(Index::definition).collect()
        };
        let mut request = json!({
            "TableName": self.name,
            "KeySchema": self.keys.schema(),
            "AttributeDefinitions": self.attribute_definitions(),
            "BillingMode": "PAY_PER_REQUEST",
        });
        for (member, local) in [("LocalSecondaryIndexes", true), ("GlobalSecondaryIndexes", false)] {
            let indexes = definitions(local);
            if !indexes.is_empty() {
                request[member] = indexes.into();
            }
        }
        request
    }

    fn attribute_definitions(&self) -> Vec<Value> {
        let mut used: Vec<KeyAttribute> = self.keys.all().collect();
        for key in self.indexes.iter().flat_map(|index| index.keys.all()) {
            if !used.contains(&key) {
                used.push(key);
            }
        }
        used.iter().map(|key| json!({"AttributeName": key.name, "AttributeType": key.kind.name()})).collect()
    }

    pub(crate) fn add_index(&self, index: &Index) -> Value {
        let mut after = self.clone();
        after.indexes.push(index.clone());
        json!({
            "TableName": self.name,
            "AttributeDefinitions": after.attribute_definitions(),
            "GlobalSecondaryIndexUpdates": [{"Create": index.definition()}],
        })
    }

    pub(crate) fn drop_index(&self, index: &str) -> Value {
        json!({
            "TableName": self.name,
            "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": index}}],
        })
    }
}

fn projection(chance: &mut Chance) -> Value {
    match chance.below(4) {
        0 => json!({"ProjectionType": "KEYS_ONLY"}),
        1 => json!({"ProjectionType": "INCLUDE", "NonKeyAttributes": ["n", "m"]}),
        _ => json!({"ProjectionType": "ALL"}),
    }
}
