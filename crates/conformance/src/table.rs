//! A table of its own for each test, gone when the test ends.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::endpoint::Endpoint;
use crate::process::wait_until;

/// A table's schema with keys as `"name:type"` or `"name:type name:type"`, the partition key first.
pub fn keys(keys: &str) -> TableSchema {
    TableSchema { key: parse(keys), global: vec![], local: vec![], extra: Map::new() }
}

/// What a table is created with. Capacity is provisioned, which every target knows.
#[derive(Clone, Debug)]
pub struct TableSchema {
    key: Vec<(String, String)>,
    global: Vec<Index>,
    local: Vec<Index>,
    extra: Map<String, Value>,
}

#[derive(Clone, Debug)]
struct Index {
    name: String,
    key: Vec<(String, String, &'static str)>,
    projection: Value,
}

impl TableSchema {
    /// A global index. The projection is `ALL`, `KEYS_ONLY`, or names of attributes.
    #[must_use]
    pub fn global(self, name: &str, keys: &str, projection: &str) -> Self {
        let key = with_kinds(parse(keys));
        self.global_of(name, key, projection)
    }

    /// A global index whose key has many attributes: partition keys, then sort keys.
    #[must_use]
    pub fn global_many(self, name: &str, partition: &str, sort: &str, projection: &str) -> Self {
        let partition = parse(partition).into_iter().map(|(name, kind)| (name, kind, "HASH"));
        let sort = parse(sort).into_iter().map(|(name, kind)| (name, kind, "RANGE"));
        self.global_of(name, partition.chain(sort).collect(), projection)
    }

    fn global_of(mut self, name: &str, key: Vec<(String, String, &'static str)>, projection: &str) -> Self {
        self.global.push(Index { name: name.to_owned(), key, projection: parse_projection(projection) });
        self
    }

    /// A local index, named by its sort key.
    #[must_use]
    pub fn local(mut self, name: &str, sort: &str, projection: &str) -> Self {
        let mut key = self.key[..1].to_vec();
        key.extend(parse(sort));
        let key = with_kinds(key);
        self.local.push(Index { name: name.to_owned(), key, projection: parse_projection(projection) });
        self
    }

    /// Another member of the CreateTable request.
    #[must_use]
    pub fn with(mut self, member: &str, value: Value) -> Self {
        self.extra.insert(member.to_owned(), value);
        self
    }

    /// The CreateTable request.
    pub fn request(&self, name: &str) -> Value {
        let throughput = json!({"ReadCapacityUnits": 100, "WriteCapacityUnits": 100});
        let table_key = with_kinds(self.key.clone());
        let mut definitions: Vec<Value> = vec![];
        for (name, kind, _) in
            table_key.iter().chain(self.global.iter().chain(&self.local).flat_map(|index| &index.key))
        {
            let definition = json!({"AttributeName": name, "AttributeType": kind});
            if !definitions.contains(&definition) {
                definitions.push(definition);
            }
        }
        let mut request = json!({
            "TableName": name,
            "AttributeDefinitions": definitions,
            "KeySchema": key_schema(&table_key),
            "ProvisionedThroughput": throughput,
        });
        if !self.global.is_empty() {
            let indexes = self.global.iter().map(|index| {
                let mut described = index.describe();
                described["ProvisionedThroughput"] = throughput.clone();
                described
            });
            request["GlobalSecondaryIndexes"] = indexes.collect();
        }
        if !self.local.is_empty() {
            request["LocalSecondaryIndexes"] = self.local.iter().map(Index::describe).collect();
        }
        for (member, value) in &self.extra {
            request[member] = value.clone();
        }
        request
    }
}

impl Index {
    fn describe(&self) -> Value {
        json!({"IndexName": self.name, "KeySchema": key_schema(&self.key), "Projection": self.projection})
    }
}

/// A table that is deleted when dropped.
#[derive(Debug)]
pub struct Table<'a> {
    endpoint: &'a Endpoint,
    name: String,
}

impl Endpoint {
    /// A new table, ready for use.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a schema is written in place and used once")]
    pub fn table(&self, schema: TableSchema) -> Table<'_> {
        self.table_from(schema.request(&self.unused_name()))
    }

    /// A new table from a whole CreateTable request, ready for use.
    #[track_caller]
    pub fn table_from(&self, request: Value) -> Table<'_> {
        let name = request["TableName"].as_str().expect("the request names its table").to_owned();
        self.ok("CreateTable", request);
        let table = Table { endpoint: self, name };
        table.wait_until_active();
        table
    }

    /// A table name that no other test has.
    pub fn unused_name(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        format!("conformance.{}.{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes charge of a table that the test created itself: waits for it, and deletes it in the end.
    #[track_caller]
    pub fn adopt(&self, name: &str) -> Table<'_> {
        let table = Table { endpoint: self, name: name.to_owned() };
        table.wait_until_active();
        table
    }
}

impl Table<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table's name in the ARN that DescribeTable tells.
    #[track_caller]
    pub fn arn(&self) -> String {
        self.describe()["TableArn"].as_str().expect("a table has an ARN").to_owned()
    }

    #[track_caller]
    pub fn describe(&self) -> Value {
        self.ok("DescribeTable", json!({}))["Table"].clone()
    }

    #[track_caller]
    pub fn wait_until_active(&self) {
        wait_until("the table and its indexes are active", || {
            let described = self.describe();
            let indexes = described["GlobalSecondaryIndexes"].as_array().cloned().unwrap_or_default();
            described["TableStatus"] == "ACTIVE"
                && indexes.iter().all(|index| index["IndexStatus"] == "ACTIVE")
        });
    }

    /// Sends an operation on this table.
    pub fn call(&self, operation: &str, body: Value) -> Answer {
        self.endpoint.call(operation, self.named(body))
    }

    #[track_caller]
    pub fn ok(&self, operation: &str, body: Value) -> Value {
        self.call(operation, body).ok()
    }

    #[track_caller]
    pub fn invalid(&self, operation: &str, body: Value, message: &str) {
        self.call(operation, body).error("ValidationException", message);
    }

    /// As [`Endpoint::all_invalid`], on this table.
    #[track_caller]
    pub fn all_invalid<'a>(&self, operation: &str, cases: impl IntoIterator<Item = (Value, &'a str)>) {
        let cases = cases.into_iter().map(|(body, message)| (self.named(body), message));
        self.endpoint.all_invalid(operation, cases);
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "tests pass `json!` in place")]
    pub fn put(&self, item: Value) {
        self.ok("PutItem", json!({"Item": item}));
    }

    /// Puts many items.
    #[track_caller]
    pub fn put_all(&self, items: impl IntoIterator<Item = Value>) {
        let puts: Vec<Value> = items.into_iter().map(|item| json!({"PutRequest": {"Item": item}})).collect();
        for chunk in puts.chunks(25) {
            let answer =
                self.endpoint.ok("BatchWriteItem", json!({"RequestItems": {self.name.as_str(): chunk}}));
            assert_eq!(answer["UnprocessedItems"], json!({}));
        }
    }

    /// The item with this key as it is now, or `Null`.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "tests pass `json!` in place")]
    pub fn get(&self, key: Value) -> Value {
        self.ok("GetItem", json!({"Key": key, "ConsistentRead": true}))["Item"].clone()
    }

    fn named(&self, mut body: Value) -> Value {
        if body.get("TableName").is_none() {
            body["TableName"] = self.name.as_str().into();
        }
        body
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        // A failed delete must not hide why the test failed; names are never used twice.
        let request = json!({"TableName": self.name}).to_string();
        let _ = self.endpoint.try_send("DeleteTable", request.as_bytes());
    }
}

fn parse(keys: &str) -> Vec<(String, String)> {
    keys.split_whitespace()
        .map(|key| key.split_once(':').expect("a key is name:type"))
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect()
}

fn with_kinds(key: Vec<(String, String)>) -> Vec<(String, String, &'static str)> {
    key.into_iter().zip(["HASH", "RANGE"]).map(|((name, kind), role)| (name, kind, role)).collect()
}

fn parse_projection(projection: &str) -> Value {
    match projection {
        "ALL" | "KEYS_ONLY" => json!({"ProjectionType": projection}),
        names => {
            let names: Vec<&str> = names.split_whitespace().collect();
            json!({"ProjectionType": "INCLUDE", "NonKeyAttributes": names})
        }
    }
}

fn key_schema(key: &[(String, String, &'static str)]) -> Value {
    key.iter().map(|(name, _, role)| json!({"AttributeName": name, "KeyType": role})).collect()
}
