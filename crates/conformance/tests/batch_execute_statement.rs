//! BatchExecuteStatement.

use larder_conformance::{Endpoint, Table, conform, keys};
use serde_json::{Value, json};

/// Sends statements whose table is `@`.
fn batch(db: &Endpoint, table: &Table<'_>, statements: &[&str]) -> Value {
    db.ok("BatchExecuteStatement", json!({"Statements": named(table, statements)}))
}

fn named(table: &Table<'_>, statements: &[&str]) -> Vec<Value> {
    let name = format!("\"{}\"", table.name());
    statements.iter().map(|statement| json!({"Statement": statement.replace('@', &name)})).collect()
}

fn invalid(db: &Endpoint, table: &Table<'_>, statements: &[&str], message: &str) {
    db.invalid("BatchExecuteStatement", json!({"Statements": named(table, statements)}), message);
}

fn filled(db: &Endpoint, count: usize) -> Table<'_> {
    let table = db.table(keys("pk:S"));
    table.put_all((0..count).map(|n| json!({"pk": {"S": format!("k{n}")}, "n": {"N": n.to_string()}})));
    table
}

#[test]
fn reads_are_answered_in_their_order() {
    conform(|db| {
        let table = filled(db, 3);
        let answer = batch(
            db,
            &table,
            &[
                "SELECT * FROM @ WHERE pk = 'k2'",
                "SELECT * FROM @ WHERE pk = 'none'",
                "SELECT n FROM @ WHERE pk = 'k0'",
            ],
        );
        let name = table.name();
        assert_eq!(
            answer["Responses"],
            json!([
                {"TableName": name, "Item": {"pk": {"S": "k2"}, "n": {"N": "2"}}},
                {"TableName": name},
                {"TableName": name, "Item": {"n": {"N": "0"}}},
            ])
        );
    });
}

#[test]
fn writes_fail_one_by_one() {
    conform(|db| {
        let table = filled(db, 2);
        let answer = batch(
            db,
            &table,
            &[
                "INSERT INTO @ VALUE {'pk': 'new'}",
                "INSERT INTO @ VALUE {'pk': 'k0'}",
                "UPDATE @ SET n = 5 WHERE pk = 'none'",
                "UPDATE @ SET n = 5 WHERE pk = 'k1' AND n = 1",
                "no statement",
                "DELETE FROM \"no.such.table\" WHERE pk = 'a'",
                "UPDATE @ SET n = 5",
            ],
        );
        let codes: Vec<&Value> = (0..7).map(|at| &answer["Responses"][at]["Error"]["Code"]).collect();
        let expected = [
            Value::Null,
            "DuplicateItem".into(),
            "ConditionalCheckFailed".into(),
            Value::Null,
            "ValidationError".into(),
            "ResourceNotFound".into(),
            "ValidationError".into(),
        ];
        assert_eq!(codes, expected.iter().collect::<Vec<_>>());
        assert_eq!(answer["Responses"][0], json!({"TableName": table.name()}));
        assert_eq!(
            answer["Responses"][1],
            json!({
                "TableName": table.name(),
                "Error": {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"},
            })
        );
        assert_eq!(
            answer["Responses"][4],
            json!({"Error": {
                "Code": "ValidationError",
                "Message": "Statement wasn't well formed, can't be processed: Unexpected token after expression",
            }})
        );
        assert_eq!(table.get(json!({"pk": {"S": "new"}})), json!({"pk": {"S": "new"}}));
        assert_eq!(table.get(json!({"pk": {"S": "k1"}}))["n"], json!({"N": "5"}));
    });
}

#[test]
fn a_failed_condition_can_return_the_item() {
    conform(|db| {
        let table = filled(db, 1);
        let mut statements = named(&table, &["UPDATE @ SET n = 5 WHERE pk = 'k0' AND n = 7"]);
        statements[0]["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD".into();
        let answer = db.ok("BatchExecuteStatement", json!({"Statements": statements}));
        assert_eq!(
            answer["Responses"][0]["Error"],
            json!({
                "Code": "ConditionalCheckFailed",
                "Message": "The conditional request failed",
                "Item": {"pk": {"S": "k0"}, "n": {"N": "0"}},
            })
        );
    });
}

#[test]
fn a_batch_reads_or_writes() {
    conform(|db| {
        let table = filled(db, 1);
        invalid(
            db,
            &table,
            &["SELECT * FROM @ WHERE pk = 'k0'", "DELETE FROM @ WHERE pk = 'k1'"],
            "Read and write requests together in the same batch is not supported.",
        );
        let twice = "Provided list of item keys contains duplicates";
        invalid(db, &table, &["SELECT * FROM @ WHERE pk = 'k0'", "SELECT n FROM @ WHERE 'k0' = pk"], twice);
        invalid(db, &table, &["DELETE FROM @ WHERE pk = 'k0'", "INSERT INTO @ VALUE {'pk': 'k0'}"], twice);
        assert_eq!(table.get(json!({"pk": {"S": "k0"}}))["n"], json!({"N": "0"}));
    });
}

#[test]
fn a_read_names_one_item_and_nothing_else() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N").global("by-x", "x:S", "ALL"));
        for select in [
            "SELECT * FROM @",
            "SELECT * FROM @ WHERE pk = 'a'",
            "SELECT * FROM @ WHERE pk = 'a' AND sk = 1 AND n = 1",
            "SELECT * FROM @.\"by-x\" WHERE x = 'a'",
        ] {
            let answer = batch(db, &table, &[select]);
            assert_eq!(
                answer["Responses"][0],
                json!({"Error": {
                    "Code": "ValidationError",
                    "Message": "Select statements within BatchExecuteStatement must specify the primary key in the where clause.",
                }}),
                "{select}"
            );
        }
    });
}

#[test]
fn twenty_five_statements_are_the_most() {
    conform(|db| {
        let table = filled(db, 26);
        let selects: Vec<String> = (0..26).map(|n| format!("SELECT * FROM @ WHERE pk = 'k{n}'")).collect();
        let selects: Vec<&str> = selects.iter().map(String::as_str).collect();
        let answer = batch(db, &table, &selects[..25]);
        assert_eq!(answer["Responses"].as_array().map(Vec::len), Some(25));
        invalid(
            db,
            &table,
            &selects,
            "1 validation error detected: Value '…' at 'statements' failed to satisfy constraint: Member must have length less than or equal to 25",
        );
        invalid(
            db,
            &table,
            &[],
            "1 validation error detected: Value '[]' at 'statements' failed to satisfy constraint: Member must have length greater than or equal to 1",
        );
    });
}

#[test]
fn capacity_is_per_table() {
    conform(|db| {
        let table = filled(db, 2);
        let statements =
            named(&table, &["SELECT * FROM @ WHERE pk = 'k0'", "SELECT * FROM @ WHERE pk = 'k1'"]);
        let body = json!({"Statements": statements, "ReturnConsumedCapacity": "TOTAL"});
        let answer = db.ok("BatchExecuteStatement", body);
        let expected = json!([{"TableName": table.name(), "CapacityUnits": 1.0}]);
        assert_eq!(answer["ConsumedCapacity"], expected);
    });
}
