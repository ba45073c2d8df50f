//! The work every peer does: one table, its items, and the requests made on them.
//!
//! Items are numbered from zero and item `n` is the same everywhere, so a request is drawn as numbers
//! (`Request`) and rendered by whoever runs it: as JSON over HTTP, or as a call in process.
//! Fifty items share a partition, which makes "Query of 50" one whole partition.
//!
//! Promises:
//! - The same seed draws the same requests.
//! - Writes replace items that exist and keep their index key, so a table keeps its size however long
//!   it is measured, and every write changes exactly one base entry and one index entry.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) const TABLE: &str = "bench";
pub(crate) const INDEX: &str = "by_group";
pub(crate) const PARTITION_ITEMS: u64 = 50;
pub(crate) const BATCH_ITEMS: u64 = 25;
const GROUPS: u64 = 20_000;
const PAYLOAD_BYTES: usize = 160;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Op {
    Get,
    Put,
    Query,
    Batch,
}

impl Op {
    pub(crate) const ALL: [Op; 4] = [Op::Get, Op::Put, Op::Query, Op::Batch];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Op::Get => "GetItem",
            Op::Put => "PutItem, one index",
            Op::Query => "Query of 50",
            Op::Batch => "BatchWriteItem of 25, one index",
        }
    }

    pub(crate) fn writes(self) -> bool {
        matches!(self, Op::Put | Op::Batch)
    }

    /// The name DynamoDB's protocol has for it.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Op::Get => "GetItem",
            Op::Put => "PutItem",
            Op::Query => "Query",
            Op::Batch => "BatchWriteItem",
        }
    }
}

/// One request, as item numbers.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Get(u64),
    Put(Sample),
    Query { partition: u64 },
    Batch(Vec<Sample>),
}

impl Request {
    pub(crate) fn draw(op: Op, items: u64, random: &mut Random) -> Request {
        match op {
            Op::Get => Request::Get(random.below(items)),
            Op::Put => Request::Put(Sample { number: random.below(items), version: random.next() }),
            Op::Query => Request::Query { partition: random.below(items / PARTITION_ITEMS) },
            Op::Batch => {
                // Spread over the table: distinct because the stride times 25 stays below its size.
                let (first, version) = (random.below(items), random.next());
                let stride = items / BATCH_ITEMS;
                let number = |n| (first + n * stride) % items;
                Request::Batch((0..BATCH_ITEMS).map(|n| Sample { number: number(n), version }).collect())
            }
        }
    }

    /// Text and not a value that becomes one: the load generator writes it beside the server that it measures.
    pub(crate) fn body(&self) -> String {
        match self {
            Request::Get(number) => {
                let Keys { partition_key, sort_key, .. } = keys(*number);
                let key = format!(r#"{{"pk":{{"S":"{partition_key}"}},"sk":{{"S":"{sort_key}"}}}}"#);
                format!(r#"{{"TableName":"{TABLE}","Key":{key}}}"#)
            }
            Request::Put(sample) => format!(r#"{{"TableName":"{TABLE}","Item":{}}}"#, sample.json()),
            Request::Query { partition } => {
                let values = format!(r#"{{":p":{{"S":"{}"}}}}"#, partition_key(*partition));
                let condition = r#""KeyConditionExpression":"pk = :p""#;
                format!(r#"{{"TableName":"{TABLE}",{condition},"ExpressionAttributeValues":{values}}}"#)
            }
            Request::Batch(samples) => batch(samples.iter().copied()),
        }
    }
}

/// The body of a BatchWriteItem that puts these items.
pub(crate) fn batch(samples: impl Iterator<Item = Sample>) -> String {
    let puts: Vec<String> =
        samples.map(|sample| format!(r#"{{"PutRequest":{{"Item":{}}}}}"#, sample.json())).collect();
    format!(r#"{{"RequestItems":{{"{TABLE}":[{}]}}}}"#, puts.join(","))
}

/// The body of the CreateTable: provisioned, because the oldest peers know nothing else.
pub(crate) fn create_table() -> Value {
    let throughput = json!({"ReadCapacityUnits": 10000, "WriteCapacityUnits": 10000});
    json!({
        "TableName": TABLE,
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
            {"AttributeName": "group", "AttributeType": "S"},
            {"AttributeName": "at", "AttributeType": "N"},
        ],
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        "ProvisionedThroughput": throughput,
        "GlobalSecondaryIndexes": [{
            "IndexName": INDEX,
            "KeySchema": [
                {"AttributeName": "group", "KeyType": "HASH"},
                {"AttributeName": "at", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
            "ProvisionedThroughput": throughput,
        }],
    })
}

/// An item of about 300 bytes: its number fixes the keys, its version the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) number: u64,
    pub(crate) version: u64,
}

impl Sample {
    pub(crate) fn json(self) -> String {
        let Fields { keys, name, price, active, tags: [first, second], payload } = self.fields();
        let Keys { partition_key, sort_key, group, at } = keys;
        format!(
            r#"{{"active":{{"BOOL":{active}}},"at":{{"N":"{at}"}},"group":{{"S":"{group}"}},"name":{{"S":"{name}"}},"#
        ) + &format!(
            r#""payload":{{"S":"{payload}"}},"pk":{{"S":"{partition_key}"}},"price":{{"N":"{price}"}},"#
        ) + &format!(r#""sk":{{"S":"{sort_key}"}},"tags":{{"L":[{{"S":"{first}"}},{{"S":"{second}"}}]}}}}"#)
    }

    pub(crate) fn fields(self) -> Fields {
        let Sample { number, version } = self;
        let mut random = Random::new(number ^ version.rotate_left(32));
        let mut payload = String::with_capacity(PAYLOAD_BYTES + 16);
        while payload.len() < PAYLOAD_BYTES {
            payload.push_str(&format!("{:016x}", random.next()));
        }
        Fields {
            keys: keys(number),
            name: format!("item {number:09}"),
            price: format!("{}.{:02}", 1 + version % 999, 1 + version % 99),
            active: version.is_multiple_of(2),
            tags: ["fresh", "daily"],
            payload,
        }
    }
}

/// A sample's attributes, for peers that take values and not JSON.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) keys: Keys,
    pub(crate) name: String,
    pub(crate) price: String,
    pub(crate) active: bool,
    pub(crate) tags: [&'static str; 2],
    pub(crate) payload: String,
}

/// The base key (`pk`, `sk`) and the index key (`group`, `at`) of an item.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) partition_key: String,
    pub(crate) sort_key: String,
    pub(crate) group: String,
    pub(crate) at: String,
}

pub(crate) fn keys(number: u64) -> Keys {
    Keys {
        partition_key: partition_key(number / PARTITION_ITEMS),
        sort_key: format!("s{:02}", number % PARTITION_ITEMS),
        group: format!("g{:06}", Random::new(number).next() % GROUPS),
        at: (1_700_000_000 + number).to_string(),
    }
}

/// Mixed, so that neighbouring numbers are not neighbouring keys and a fill is not a sorted append.
pub(crate) fn partition_key(partition: u64) -> String {
    format!("p{:08x}{partition:08}", Random::new(partition).next() as u32)
}

/// SplitMix64: small, seeded, good enough to spread keys.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_requests() {
        for op in Op::ALL {
            let draw = |seed| Request::draw(op, 1_000, &mut Random::new(seed)).body();
            assert_eq!(draw(7), draw(7));
            assert_ne!(draw(7), draw(8));
        }
    }

    #[test]
    fn a_batch_names_no_item_twice() {
        for items in [1_000, 100_000, 1_000_000] {
            let Request::Batch(samples) = Request::draw(Op::Batch, items, &mut Random::new(3)) else {
                panic!("a batch was drawn as something else")
            };
            let numbers: BTreeSet<u64> = samples.iter().map(|sample| sample.number).collect();
            assert_eq!(numbers.len(), 25);
        }
    }

    #[test]
    fn bodies_are_json_of_the_item() {
        let sample = Sample { number: 42, version: 7 };
        let item: Value = serde_json::from_str(&sample.json()).unwrap();
        let Fields { keys, name, price, active, tags, payload } = sample.fields();
        let expected = json!({
            "pk": {"S": keys.partition_key}, "sk": {"S": keys.sort_key}, "group": {"S": keys.group},
            "at": {"N": keys.at}, "name": {"S": name}, "price": {"N": price}, "active": {"BOOL": active},
            "tags": {"L": [{"S": tags[0]}, {"S": tags[1]}]}, "payload": {"S": payload},
        });
        assert_eq!(item, expected);
        let body = |request: Request| serde_json::from_str::<Value>(&request.body()).unwrap();
        assert_eq!(body(Request::Put(sample)), json!({"TableName": TABLE, "Item": item}));
        let key = json!({"pk": item["pk"], "sk": item["sk"]});
        assert_eq!(body(Request::Get(42)), json!({"TableName": TABLE, "Key": key}));
        let query = json!({
            "TableName": TABLE,
            "KeyConditionExpression": "pk = :p",
            "ExpressionAttributeValues": {":p": {"S": partition_key(3)}},
        });
        assert_eq!(body(Request::Query { partition: 3 }), query);
        let body: Value = serde_json::from_str(&batch([sample, sample].into_iter())).unwrap();
        let put = json!({"PutRequest": {"Item": item}});
        assert_eq!(body, json!({"RequestItems": {TABLE: [put, put]}}));
    }

    #[test]
    fn a_new_version_keeps_the_keys() {
        let keys = |version| format!("{:?}", Sample { number: 42, version }.fields().keys);
        assert_eq!(keys(1), keys(2));
    }

    #[test]
    fn items_are_about_300_bytes() {
        let Fields { keys, name, price, tags, payload, .. } = Sample { number: 42, version: 1 }.fields();
        let names = "pkskgroupatnamepriceactivetagspayload".len();
        let key_bytes = keys.partition_key.len() + keys.sort_key.len() + keys.group.len() + keys.at.len();
        let bytes = names + key_bytes + name.len() + price.len() + tags.concat().len() + payload.len();
        assert!((260..340).contains(&bytes), "{bytes}");
    }
}
