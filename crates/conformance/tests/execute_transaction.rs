//! ExecuteTransaction.

use larder_conformance::{Answer, Endpoint, Table, conform, keys};
use serde_json::{Value, json};

/// Sends statements whose table is `@`.
fn call(db: &Endpoint, table: &Table<'_>, statements: &[&str]) -> Answer {
    db.call("ExecuteTransaction", json!({"TransactStatements": named(table, statements)}))
}

fn named(table: &Table<'_>, statements: &[&str]) -> Vec<Value> {
    let name = format!("\"{}\"", table.name());
    statements.iter().map(|statement| json!({"Statement": statement.replace('@', &name)})).collect()
}

fn invalid(db: &Endpoint, table: &Table<'_>, statements: &[&str], message: &str) {
    call(db, table, statements).error("ValidationException", message);
}

fn filled(db: &Endpoint, count: usize) -> Table<'_> {
    let table = db.table(keys("pk:S"));
    table.put_all((0..count).map(|n| json!({"pk": {"S": format!("k{n}")}, "n": {"N": n.to_string()}})));
    table
}

fn number(table: &Table<'_>, key: &str) -> Value {
    table.get(json!({"pk": {"S": key}}))["n"].clone()
}

#[test]
fn reads_are_answered_in_their_order() {
    conform(|db| {
        let table = filled(db, 2);
        let statements = [
            "SELECT n FROM @ WHERE pk = 'k1'",
            "SELECT * FROM @ WHERE pk = 'none'",
            "SELECT * FROM @ WHERE pk = 'k0'",
        ];
        let answer = call(db, &table, &statements).ok();
        assert_eq!(
            answer["Responses"],
            json!([{"Item": {"n": {"N": "1"}}}, {}, {"Item": {"pk": {"S": "k0"}, "n": {"N": "0"}}}])
        );
    });
}

#[test]
fn writes_happen_together() {
    conform(|db| {
        let table = filled(db, 3);
        let statements = [
            "INSERT INTO @ VALUE {'pk': 'new', 'n': 9}",
            "UPDATE @ SET n = n + 10 WHERE pk = 'k0' AND n = 0",
            "DELETE FROM @ WHERE pk = 'k1'",
            "EXISTS(SELECT * FROM @ WHERE pk = 'k2' AND n = 2)",
        ];
        assert_eq!(call(db, &table, &statements).ok()["Responses"], json!([]));
        let numbers = ["new", "k0", "k1", "k2"].map(|key| number(&table, key)["N"].clone());
        assert_eq!(numbers, [json!("9"), json!("10"), Value::Null, json!("2")]);
    });
}

#[test]
fn one_that_fails_cancels_all_with_reasons() {
    conform(|db| {
        let table = filled(db, 3);
        let mut statements = named(
            &table,
            &[
                "INSERT INTO @ VALUE {'pk': 'new'}",
                "INSERT INTO @ VALUE {'pk': 'k0'}",
                "UPDATE @ SET n = 1 WHERE pk = 'none'",
                "EXISTS(SELECT * FROM @ WHERE pk = 'k2' AND n = 7)",
            ],
        );
        statements[3]["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD".into();
        let answer = db.call("ExecuteTransaction", json!({"TransactStatements": statements})).error(
            "TransactionCanceledException",
            "Transaction cancelled, please refer cancellation reasons for specific reasons [None, DuplicateItem, ConditionalCheckFailed, ConditionalCheckFailed]",
        );
        let failed = "The conditional request failed";
        assert_eq!(
            answer["CancellationReasons"],
            json!([
                {"Code": "None"},
                {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"},
                {"Code": "ConditionalCheckFailed", "Message": failed},
                {"Code": "ConditionalCheckFailed", "Message": failed,
                 "Item": {"pk": {"S": "k2"}, "n": {"N": "2"}}},
            ])
        );
        assert_eq!(table.get(json!({"pk": {"S": "new"}})), Value::Null);
    });
}

#[test]
fn a_token_makes_a_transaction_happen_once() {
    conform(|db| {
        let table = filled(db, 1);
        let body = |statement: &str| {
            let token = format!("{}-token", table.name());
            let token = &token[token.len() - 36.min(token.len())..];
            json!({"TransactStatements": named(&table, &[statement]), "ClientRequestToken": token})
        };
        for _ in 0..2 {
            db.ok("ExecuteTransaction", body("UPDATE @ SET n = n + 1 WHERE pk = 'k0'"));
        }
        assert_eq!(number(&table, "k0"), json!({"N": "1"}));
        db.call("ExecuteTransaction", body("UPDATE @ SET n = n + 2 WHERE pk = 'k0'"))
            .error("IdempotentParameterMismatchException", "…");
    });
}

#[test]
fn what_cannot_be_in_a_transaction_is_refused() {
    conform(|db| {
        let table = filled(db, 1);
        let select = "SELECT * FROM @ WHERE pk = 'k0'";
        invalid(
            db,
            &table,
            &[select, "DELETE FROM @ WHERE pk = 'k1'"],
            "ExecuteTransaction API does not support both read and write operations in the same request.",
        );
        let one_item = "Transaction request cannot include multiple operations on one item";
        invalid(db, &table, &[select, select], one_item);
        invalid(
            db,
            &table,
            &["DELETE FROM @ WHERE pk = 'k1'", "no statement"],
            "Validation failed in TransactStatements[1]: Statement wasn't well formed, can't be processed: …",
        );
        invalid(
            db,
            &table,
            &["SELECT * FROM @"],
            "Validation failed in TransactStatements[0]: Select statements within ExecuteTransaction must specify the primary key in the where clause.",
        );
        invalid(
            db,
            &table,
            &["DELETE FROM @ WHERE pk = 'k0' RETURNING ALL OLD *"],
            "Validation failed in TransactStatements[0]: RETURNING clause is not supported in ExecuteTransaction.",
        );
        assert_eq!(number(&table, "k0"), json!({"N": "0"}));
    });
}

#[test]
fn a_hundred_statements_are_the_most() {
    conform(|db| {
        let table = filled(db, 0);
        let inserts: Vec<String> = (0..101).map(|n| format!("INSERT INTO @ VALUE {{'pk': '{n}'}}")).collect();
        let inserts: Vec<&str> = inserts.iter().map(String::as_str).collect();
        invalid(
            db,
            &table,
            &inserts,
            "1 validation error detected: Value '…' at 'transactStatements' failed to satisfy constraint: Member must have length less than or equal to 100",
        );
        call(db, &table, &inserts[..100]).ok();
        assert_eq!(table.ok("Scan", json!({"Select": "COUNT"}))["Count"], 100);
    });
}

#[test]
fn capacity_is_doubled() {
    conform(|db| {
        let table = filled(db, 1);
        for (statement, kind) in [
            ("SELECT * FROM @ WHERE pk = 'k0'", "ReadCapacityUnits"),
            ("UPDATE @ SET n = 1 WHERE pk = 'k0'", "WriteCapacityUnits"),
        ] {
            let body = json!({
                "TransactStatements": named(&table, &[statement]), "ReturnConsumedCapacity": "TOTAL",
            });
            let answer = db.ok("ExecuteTransaction", body);
            let expected = json!([{"TableName": table.name(), "CapacityUnits": 2.0, kind: 2.0}]);
            assert_eq!(answer["ConsumedCapacity"], expected, "{statement}");
        }
    });
}
