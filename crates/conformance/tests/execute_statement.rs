//! ExecuteStatement.

use larder_conformance::{Endpoint, Table, conform, keys};
use serde_json::{Value, json};

const MALFORMED: &str = "Statement wasn't well formed, can't be processed: ";

/// Runs a statement whose table is `@`.
fn run(db: &Endpoint, table: &Table<'_>, statement: &str) -> Value {
    run_with(db, table, statement, json!({}))
}

fn run_with(db: &Endpoint, table: &Table<'_>, statement: &str, mut body: Value) -> Value {
    body["Statement"] = named(table, statement).into();
    db.ok("ExecuteStatement", body)
}

fn named(table: &Table<'_>, statement: &str) -> String {
    statement.replace('@', &format!("\"{}\"", table.name()))
}

fn refused(db: &Endpoint, table: &Table<'_>, statement: &str, code: &str, message: &str) {
    db.call("ExecuteStatement", json!({"Statement": named(table, statement)})).error(code, message);
}

fn invalid(db: &Endpoint, table: &Table<'_>, statement: &str, message: &str) {
    refused(db, table, statement, "ValidationException", message);
}

/// Ten items in each of the partitions `a` and `b`.
fn filled(db: &Endpoint) -> Table<'_> {
    let schema = keys("pk:S sk:N").global("by-x", "x:S n:N", "ALL").local("by-n", "n:N", "KEYS_ONLY");
    let table = db.table(schema);
    table.put_all(["a", "b"].iter().flat_map(|pk| {
        (0..10).map(move |sk| {
            json!({
                "pk": {"S": pk}, "sk": {"N": sk.to_string()}, "n": {"N": (9 - sk).to_string()},
                "x": {"S": if sk % 2 == 0 { "even" } else { "odd" }},
                "m": {"M": {"k": {"L": [{"N": sk.to_string()}]}}},
            })
        })
    }));
    table
}

/// The values of one attribute, in the order of the answer.
fn numbers(answer: &Value, name: &str) -> Vec<i64> {
    let items = answer["Items"].as_array().expect("there are items");
    items.iter().map(|item| item[name]["N"].as_str().unwrap_or("-1").parse().expect("a number")).collect()
}

#[test]
fn an_item_is_inserted_and_selected() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let insert = "INSERT INTO @ VALUE {'pk': 'it''s', 'n': -1.50, 't': true, 'z': null, 'l': [1, 'a', {}], \
                      'm': {'k': false}, 'ss': <<'a', 'b'>>, 'ns': <<1, 2>>}";
        assert_eq!(run(db, &table, insert), json!({"Items": []}));
        let item = json!({
            "pk": {"S": "it's"}, "n": {"N": "-1.5"}, "t": {"BOOL": true}, "z": {"NULL": true},
            "l": {"L": [{"N": "1"}, {"S": "a"}, {"M": {}}]}, "m": {"M": {"k": {"BOOL": false}}},
            "ss": {"SS": ["a", "b"]}, "ns": {"NS": ["1", "2"]},
        });
        assert_eq!(table.get(json!({"pk": {"S": "it's"}})), item);
        assert_eq!(run(db, &table, "SELECT * FROM @ WHERE pk = 'it''s'"), json!({"Items": [item]}));
        refused(db, &table, insert, "DuplicateItemException", "Duplicate primary key exists in table");
    });
}

#[test]
fn parameters_take_the_places_of_question_marks() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let parameters = json!({"Parameters": [{"S": "a?"}, {"B": "AAE="}, {"BS": ["AA=="]}]});
        run_with(db, &table, "INSERT INTO @ VALUE {'pk': ?, 'b': ?, 'bs': ?}", parameters);
        let item = json!({"pk": {"S": "a?"}, "b": {"B": "AAE="}, "bs": {"BS": ["AA=="]}});
        let answer =
            run_with(db, &table, "SELECT * FROM @ WHERE pk = ?", json!({"Parameters": [{"S": "a?"}]}));
        assert_eq!(answer["Items"], json!([item]));
        let text = run(db, &table, "SELECT pk FROM @ WHERE pk = 'a?' AND b IS NOT MISSING");
        assert_eq!(text["Items"], json!([{"pk": {"S": "a?"}}]));
        invalid(
            db,
            &table,
            "SELECT * FROM @ WHERE pk = ? AND n = ?",
            "Number of parameters in request and statement don't match.",
        );
    });
}

#[test]
fn a_condition_has_all_operators() {
    conform(|db| {
        let table = filled(db);
        for (condition, expected) in [
            ("sk = 3", vec![3]),
            ("sk < 2", vec![0, 1]),
            ("sk <= 1", vec![0, 1]),
            ("sk > 8", vec![9]),
            ("8 <= sk", vec![8, 9]),
            ("sk BETWEEN 3 AND 5", vec![3, 4, 5]),
            ("sk >= 2 AND sk < 4", vec![2, 3]),
            ("sk IN [1, 3, 12]", vec![1, 3]),
            ("n IN (9, 8)", vec![0, 1]),
            ("sk <> 0 AND x = 'even' AND sk != 8", vec![2, 4, 6]),
            ("NOT (x = 'even' OR sk > 3)", vec![1, 3]),
            ("begins_with(x, 'ev') AND n < 2", vec![8]),
            ("contains(x, 'd') AND n < 2", vec![9]),
            ("attribute_type(x, 'S') AND size(x) = 3 AND sk < 2", vec![1]),
            ("m.k[0] = 7", vec![7]),
            ("none IS MISSING AND x IS NOT MISSING AND sk = 1", vec![1]),
            ("x IS NOT NULL AND sk = 1", vec![1]),
            ("x IS NULL", vec![]),
        ] {
            let answer = run(db, &table, &format!("SELECT sk FROM @ WHERE pk = 'a' AND {condition}"));
            assert_eq!(numbers(&answer, "sk"), expected, "{condition}");
        }
    });
}

#[test]
fn a_projection_names_attributes_and_paths() {
    conform(|db| {
        let table = filled(db);
        for (columns, expected) in [
            ("sk, x", json!({"sk": {"N": "4"}, "x": {"S": "even"}})),
            ("\"sk\"", json!({"sk": {"N": "4"}})),
            ("m.k", json!({"k": {"L": [{"N": "4"}]}})),
            ("m.k[0], none", json!({"k[0]": {"N": "4"}})),
        ] {
            let answer = run(db, &table, &format!("SELECT {columns} FROM @ WHERE pk = 'a' AND sk = 4"));
            assert_eq!(answer["Items"], json!([expected]), "{columns}");
        }
    });
}

#[test]
fn partitions_are_read_one_after_the_other() {
    conform(|db| {
        let table = filled(db);
        let answer = run(db, &table, "SELECT sk FROM @ WHERE pk IN ['b', 'none', 'a'] AND sk < 2");
        let mut found = numbers(&answer, "sk");
        found.sort_unstable();
        assert_eq!(found, [0, 0, 1, 1]);
        let answer = run(db, &table, "SELECT sk FROM @ WHERE (pk = 'a' AND sk = 1) OR (pk = 'b' AND sk > 8)");
        let mut found = numbers(&answer, "sk");
        found.sort_unstable();
        assert_eq!(found, [1, 9]);
        invalid(
            db,
            &table,
            "SELECT * FROM @ WHERE pk = 'a' OR pk = 'a' AND sk = 1",
            "Overlapping conditions with range keys are not supported in where clause",
        );
    });
}

#[test]
fn an_order_is_by_the_sort_key() {
    conform(|db| {
        let table = filled(db);
        let answer = run(db, &table, "SELECT sk FROM @ WHERE pk = 'a' AND sk < 3 ORDER BY sk DESC");
        assert_eq!(numbers(&answer, "sk"), [2, 1, 0]);
        let answer = run(db, &table, "SELECT sk FROM @ WHERE pk = 'a' AND sk < 3 ORDER BY sk");
        assert_eq!(numbers(&answer, "sk"), [0, 1, 2]);
        for (order, message) in [
            ("ORDER BY sk", "Must have WHERE clause in the statement when using ORDER BY clause."),
            (
                "WHERE pk > 'a' ORDER BY sk",
                "Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY clause.",
            ),
            ("WHERE pk = 'a' ORDER BY x", "Attribute x in ORDER BY clause must be part of the primary key"),
        ] {
            invalid(db, &table, &format!("SELECT * FROM @ {order}"), message);
        }
    });
}

#[test]
fn an_index_is_named_after_its_table() {
    conform(|db| {
        let table = filled(db);
        let select = "SELECT sk FROM @.\"by-x\" WHERE x = 'odd' AND n = 0";
        let mut found = numbers(&run(db, &table, select), "sk");
        found.sort_unstable();
        assert_eq!(found, [9, 9]);
        let answer = run(db, &table, "SELECT n FROM @.\"by-n\" WHERE pk = 'a' AND n > 6 ORDER BY n DESC");
        assert_eq!(numbers(&answer, "n"), [9, 8, 7]);
        let absent = "The table does not have the specified index";
        invalid(db, &table, "SELECT * FROM @.none WHERE pk = 'a'", absent);
        let index = "This operation is not supported on an index";
        invalid(db, &table, "DELETE FROM @.\"by-n\" WHERE pk = 'a' AND sk = 1", index);
    });
}

#[test]
fn pages_go_on_with_their_token() {
    conform(|db| {
        let table = filled(db);
        for select in [
            "SELECT sk FROM @",
            "SELECT sk FROM @ WHERE pk IN ['a', 'b']",
            "SELECT sk FROM @ WHERE pk IN ['b', 'a'] AND sk >= 0 ORDER BY pk DESC, sk DESC",
        ] {
            let (mut found, mut pages, mut token) = (Vec::new(), 0, Value::Null);
            loop {
                let mut body = json!({"Limit": 7});
                if !token.is_null() {
                    body["NextToken"] = token;
                }
                let answer = run_with(db, &table, select, body);
                found.extend(numbers(&answer, "sk"));
                pages += 1;
                token = answer["NextToken"].clone();
                if token.is_null() {
                    break;
                }
                assert!(pages < 20, "{select} does not end");
            }
            found.sort_unstable();
            let twice: Vec<i64> = (0..10).flat_map(|n| [n, n]).collect();
            assert_eq!(found, twice, "{select}");
            assert!(pages >= 3, "{select} has pages of seven");
        }
        let first = run_with(db, &table, "SELECT sk FROM @", json!({"Limit": 1}));
        for (token, message) in [
            (first["NextToken"].clone(), "NextToken does not match request"),
            (json!("no token"), "Invalid NextToken"),
        ] {
            let statement = named(&table, "SELECT sk FROM @ WHERE x = 'odd'");
            let body = json!({"Statement": statement, "NextToken": token});
            db.invalid("ExecuteStatement", body, message);
        }
    });
}

#[test]
fn a_page_ends_at_one_megabyte_over_all_partitions() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        for (pk, sk) in ["a", "b", "c"].iter().flat_map(|pk| (0..4).map(move |sk| (pk, sk))) {
            let x = "x".repeat(100_000);
            table.put(json!({"pk": {"S": pk}, "sk": {"N": sk.to_string()}, "x": {"S": x}}));
        }
        let select = "SELECT sk FROM @ WHERE pk IN ['a', 'b', 'c']";
        let first = run(db, &table, select);
        assert_eq!(first["Items"].as_array().map(Vec::len), Some(11));
        let rest = run_with(db, &table, select, json!({"NextToken": first["NextToken"]}));
        assert_eq!(rest["Items"].as_array().map(Vec::len), Some(1));
        assert_eq!(rest["NextToken"], Value::Null);
    });
}

#[test]
fn an_update_changes_an_item_that_is_there() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        table.put(json!({
            "pk": {"S": "a"}, "sk": {"N": "1"}, "n": {"N": "5"}, "l": {"L": [{"N": "2"}]},
            "q": {"L": [{"N": "1"}, {"N": "2"}]}, "s": {"SS": ["x", "y"]}, "m": {"M": {"k": {"S": "v"}}}, "gone": {"S": "soon"},
        }));
        let update = "UPDATE @ SET n = n + 2, l = list_append(l, [3]) SET s = set_add(s, <<'z'>>) SET m.k = 'w' \
                      REMOVE gone REMOVE q[0] WHERE pk = 'a' AND sk = 1 AND n = 5";
        assert_eq!(run(db, &table, update), json!({"Items": []}));
        let item = json!({
            "pk": {"S": "a"}, "sk": {"N": "1"}, "n": {"N": "7"}, "l": {"L": [{"N": "2"}, {"N": "3"}]},
            "q": {"L": [{"N": "2"}]}, "s": {"SS": ["x", "y", "z"]}, "m": {"M": {"k": {"S": "w"}}},
        });
        assert_eq!(table.get(json!({"pk": {"S": "a"}, "sk": {"N": "1"}})), item);
        let refusal = "The conditional request failed";
        for condition in ["pk = 'a' AND sk = 1 AND n = 5", "pk = 'none' AND sk = 1"] {
            let update = format!("UPDATE @ SET n = 1 WHERE {condition}");
            refused(db, &table, &update, "ConditionalCheckFailedException", refusal);
        }
        let statement = named(&table, "UPDATE @ SET n = 1 WHERE pk = 'a' AND sk = 1 AND n = 5");
        let body = json!({"Statement": statement, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"});
        let answer = db.call("ExecuteStatement", body).error("ConditionalCheckFailedException", refusal);
        assert_eq!(answer["Item"], item);
    });
}

#[test]
fn an_update_returns_what_it_is_asked_for() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (returning, expected) in [
            ("ALL OLD", json!({"pk": {"S": "a"}, "n": {"N": "1"}, "x": {"S": "y"}})),
            ("ALL NEW", json!({"pk": {"S": "a"}, "n": {"N": "2"}, "x": {"S": "y"}})),
            ("MODIFIED OLD", json!({"n": {"N": "1"}})),
            ("MODIFIED NEW", json!({"n": {"N": "2"}})),
        ] {
            table.put(json!({"pk": {"S": "a"}, "n": {"N": "1"}, "x": {"S": "y"}}));
            let answer =
                run(db, &table, &format!("UPDATE @ SET n = 2 WHERE pk = 'a' RETURNING {returning} *"));
            assert_eq!(answer["Items"], json!([expected]), "{returning}");
        }
    });
}

#[test]
fn a_delete_of_what_is_absent_is_no_error() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let item = json!({"pk": {"S": "a"}, "n": {"N": "1"}});
        table.put(item.clone());
        let failed = "The conditional request failed";
        let wrong = "DELETE FROM @ WHERE pk = 'a' AND n = 2";
        refused(db, &table, wrong, "ConditionalCheckFailedException", failed);
        let delete = "DELETE FROM @ WHERE pk = 'a' AND n = 1 RETURNING ALL OLD *";
        assert_eq!(run(db, &table, delete), json!({"Items": [item]}));
        assert_eq!(table.get(json!({"pk": {"S": "a"}})), Value::Null);
        assert_eq!(run(db, &table, delete), json!({"Items": []}));
        invalid(
            db,
            &table,
            "DELETE FROM @ WHERE pk = 'a' RETURNING ALL NEW *",
            "Invalid returning clause: RETURNING ALL NEW *. Only RETURNING ALL OLD * is allowed in DELETE statements.",
        );
    });
}

#[test]
fn a_write_names_one_item() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        let mandatory = "Where clause does not contain a mandatory equality on all key attributes";
        for statement in [
            "UPDATE @ SET n = 1",
            "UPDATE @ SET n = 1 WHERE pk = 'a'",
            "DELETE FROM @ WHERE pk = 'a' AND sk > 1",
            "DELETE FROM @ WHERE pk = 'a' AND sk = 1 OR pk = 'b' AND sk = 1",
        ] {
            invalid(db, &table, statement, mandatory);
        }
        invalid(
            db,
            &table,
            "DELETE FROM @ WHERE pk = 'a' AND sk = 'x'",
            "Key attribute's data type should match its data type in table's schema: Key sk",
        );
        invalid(
            db,
            &table,
            "UPDATE @ SET sk = 2 WHERE pk = 'a' AND sk = 1",
            "One or more parameter values were invalid: Cannot update attribute sk. This attribute is part of the key",
        );
    });
}

#[test]
fn what_is_no_statement_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (statement, message) in [
            ("SLECT * FROM @", "Expected data manipulation"),
            ("INSERT INTO @ (pk) VALUES ('a')", "Unexpected keyword"),
            ("UPDATE a-b SET c = 1 WHERE d = 1", "Expected data manipulation"),
        ] {
            invalid(db, &table, statement, &format!("{MALFORMED}{message}"));
        }
        invalid(db, &table, "SELECT * FROM @ WHERE pk = 'a' pk", &format!("{MALFORMED}…"));
        invalid(
            db,
            &table,
            "EXISTS(SELECT * FROM @ WHERE pk = 'a')",
            "EXISTS can only be used in ExecuteTransaction write requests.",
        );
        let no_table = json!({"Statement": "SELECT * FROM \"no.such.table\""});
        let not_found = "Requested resource not found";
        db.call("ExecuteStatement", no_table).error("ResourceNotFoundException", not_found);
    });
}

#[test]
fn members_are_constrained() {
    conform(|db| {
        for (body, message) in [
            (
                json!({}),
                "1 validation error detected: Value null at 'statement' failed to satisfy constraint: Member must not be null",
            ),
            (
                json!({"Statement": ""}),
                "1 validation error detected: Value '' at 'statement' failed to satisfy constraint: Member must have length greater than or equal to 1",
            ),
            (
                json!({"Statement": "é".repeat(8193)}),
                "1 validation error detected: Value '…' at 'statement' failed to satisfy constraint: Member must have length less than or equal to 8192",
            ),
            (
                json!({"Statement": "SELECT", "Parameters": []}),
                "1 validation error detected: Value '[]' at 'parameters' failed to satisfy constraint: Member must have length greater than or equal to 1",
            ),
            (
                json!({"Statement": "SELECT", "Limit": 0}),
                "1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1",
            ),
        ] {
            db.invalid("ExecuteStatement", body, message);
        }
    });
}

#[test]
fn capacity_is_that_of_the_read_or_the_write() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        table.put(json!({"pk": {"S": "a"}, "sk": {"N": "1"}, "x": {"S": "x".repeat(5000)}}));
        for (statement, consistent, units) in [
            ("SELECT * FROM @ WHERE pk = 'a' AND sk = 1", false, 1.0),
            ("SELECT pk FROM @ WHERE pk = 'a' AND sk = 1", true, 2.0),
            ("SELECT * FROM @ WHERE pk = 'a'", false, 1.0),
            ("SELECT * FROM @", true, 2.0),
            ("SELECT * FROM @ WHERE pk = 'none'", false, 0.5),
            ("UPDATE @ SET n = 1 WHERE pk = 'a' AND sk = 1", false, 5.0),
            ("INSERT INTO @ VALUE {'pk': 'b', 'sk': 1}", false, 1.0),
        ] {
            let body = json!({"ReturnConsumedCapacity": "TOTAL", "ConsistentRead": consistent});
            let answer = run_with(db, &table, statement, body);
            let expected = json!({"TableName": table.name(), "CapacityUnits": units});
            assert_eq!(answer["ConsumedCapacity"], expected, "{statement}");
        }
    });
}

#[test]
fn writes_are_seen_by_indexes_and_streams() {
    conform(|db| {
        let schema = keys("pk:S").global("by-x", "x:S", "ALL").with(
            "StreamSpecification",
            json!({"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}),
        );
        let table = db.table(schema);
        run(db, &table, "INSERT INTO @ VALUE {'pk': 'a', 'x': '1'}");
        run(db, &table, "UPDATE @ SET x = '2' WHERE pk = 'a'");
        let found = run(db, &table, "SELECT pk FROM @.\"by-x\" WHERE x = '2'");
        assert_eq!(found["Items"], json!([{"pk": {"S": "a"}}]));
        run(db, &table, "DELETE FROM @ WHERE pk = 'a'");
        assert_eq!(run(db, &table, "SELECT * FROM @.\"by-x\"")["Items"], json!([]));
        let stream = table.describe()["LatestStreamArn"].clone();
        let described = db.ok("DescribeStream", json!({"StreamArn": stream}));
        let shard = described["StreamDescription"]["Shards"][0]["ShardId"].clone();
        let request = json!({"StreamArn": stream, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"});
        let iterator = db.ok("GetShardIterator", request);
        let records = db.ok("GetRecords", json!({"ShardIterator": iterator["ShardIterator"]}));
        let names: Vec<&Value> = records["Records"]
            .as_array()
            .expect("records")
            .iter()
            .map(|record| &record["eventName"])
            .collect();
        assert_eq!(names, ["INSERT", "MODIFY", "REMOVE"]);
    });
}
