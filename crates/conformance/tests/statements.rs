//! PartiQL statements give the same answers on Larder's engine and on dynoxide, which is verified against AWS.
//!
//! What dynoxide does not claim to have seen of AWS is in [`DIFFERING`], by statement: mostly words for statements that
//! are no statements. Those must differ, or they are to be taken out.

#[path = "random/sides.rs"]
mod sides;

use dynoxide::Database;
use larder_engine::Engine;
use serde_json::{Value, json};
use sides::{Answer, Dynoxide, Larder, Side};

fn both() -> [Box<dyn Side>; 2] {
    let larder = Larder(Engine::memory().expect("memory is there"));
    let dynoxide = Dynoxide(Database::memory().expect("memory is there"));
    let table = json!({
        "TableName": "data",
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "N"},
            {"AttributeName": "x", "AttributeType": "S"},
        ],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        "GlobalSecondaryIndexes": [{
            "IndexName": "by-x", "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }],
        "BillingMode": "PAY_PER_REQUEST",
    });
    let sides: [Box<dyn Side>; 2] = [Box::new(larder), Box::new(dynoxide)];
    for side in &sides {
        side.ask("CreateTable", &table).expect("the table is good");
        side.settle();
        for (pk, sk) in ["a", "b"].iter().flat_map(|pk| (0..4).map(move |sk| (pk, sk))) {
            let item = json!({
                "pk": {"S": pk}, "sk": {"N": sk.to_string()}, "n": {"N": (10 * sk).to_string()},
                "x": {"S": if sk % 2 == 0 { "even" } else { "odd" }}, "flag": {"BOOL": sk == 1},
                "l": {"L": [{"N": "1"}, {"S": "two"}]}, "m": {"M": {"k": {"N": sk.to_string()}}},
                "ss": {"SS": ["p", "q"]}, "z": {"NULL": true},
            });
            side.ask("PutItem", &json!({"TableName": "data", "Item": item})).expect("the item is good");
        }
    }
    sides
}

/// The order of a scan is each engine's own.
fn ordered(statement: &str, answer: Answer) -> Answer {
    let mut answer = answer.map_err(|error| {
        let code = error["__type"].as_str().and_then(|code| code.rsplit('#').next()).unwrap_or_default();
        let message = [&error["message"], &error["Message"]].into_iter().find_map(|message| message.as_str());
        json!({"code": code, "message": message, "item": error["Item"], "reasons": error["CancellationReasons"]})
    })?;
    if !statement.contains("ORDER")
        && let Some(items) = answer["Items"].as_array_mut()
    {
        items.sort_by_key(Value::to_string);
    }
    Ok(answer)
}

const STATEMENTS: &[&str] = &[
    "SELECT * FROM data",
    "SELECT * FROM \"data\"",
    "select pk, sk from data where pk = 'a'",
    "SELECT * FROM data WHERE pk = 'a' AND sk = 1",
    "SELECT * FROM data WHERE pk = 'a' AND sk = 1 AND n = 10",
    "SELECT * FROM data WHERE pk = 'a' AND sk = 1 AND n = 11",
    "SELECT sk FROM data WHERE pk = 'a' AND sk > 1",
    "SELECT sk FROM data WHERE pk = 'a' AND sk BETWEEN 1 AND 2",
    "SELECT sk FROM data WHERE pk = 'a' AND sk >= 1 AND sk < 3",
    "SELECT sk FROM data WHERE pk = 'a' AND n IN [10, 30]",
    "SELECT sk FROM data WHERE pk = 'a' AND n IN (10, 30)",
    "SELECT pk, sk FROM data WHERE pk IN ['a', 'b'] AND sk = 1",
    "SELECT pk, sk FROM data WHERE pk = 'a' OR pk = 'b'",
    "SELECT pk, sk FROM data WHERE pk = 'a' OR n = 30",
    "SELECT sk FROM data WHERE pk = 'a' ORDER BY sk DESC",
    "SELECT sk FROM data WHERE pk = 'a' ORDER BY sk ASC",
    "SELECT sk FROM data WHERE pk = 'a' ORDER BY pk",
    "SELECT pk, sk FROM data WHERE pk IN ['b', 'a'] ORDER BY pk, sk DESC",
    "SELECT pk, sk FROM data WHERE pk IN ['b', 'a'] ORDER BY pk DESC, sk",
    "SELECT sk FROM data WHERE pk IN ['b', 'a'] ORDER BY sk",
    "SELECT sk FROM data ORDER BY sk",
    "SELECT sk FROM data WHERE n = 1 ORDER BY sk",
    "SELECT sk FROM data WHERE pk = 'a' ORDER BY n",
    "SELECT m.k FROM data WHERE pk = 'a' AND sk = 2",
    "SELECT l[1], m FROM data WHERE pk = 'a' AND sk = 2",
    "SELECT \"m\".\"k\", none FROM data WHERE pk = 'a' AND sk = 2",
    "SELECT sk FROM data WHERE x IS MISSING",
    "SELECT sk FROM data WHERE none IS MISSING AND pk = 'a'",
    "SELECT sk FROM data WHERE none IS NOT MISSING AND pk = 'a'",
    "SELECT sk FROM data WHERE z IS NULL AND pk = 'a'",
    "SELECT sk FROM data WHERE z IS NOT NULL AND pk = 'a'",
    "SELECT sk FROM data WHERE none IS NOT NULL AND pk = 'a'",
    "SELECT sk FROM data WHERE none IS NULL AND pk = 'a'",
    "SELECT sk FROM data WHERE flag = true",
    "SELECT sk FROM data WHERE pk = 'a' AND NOT flag = true",
    "SELECT sk FROM data WHERE pk = 'a' AND NOT (n > 10 OR x = 'odd')",
    "SELECT sk FROM data WHERE pk = 'a' AND none <> 1",
    "SELECT sk FROM data WHERE pk = 'a' AND none = 1",
    "SELECT sk FROM data WHERE pk = 'a' AND begins_with(x, 'o')",
    "SELECT sk FROM data WHERE pk = 'a' AND contains(ss, 'p') AND sk = 0",
    "SELECT sk FROM data WHERE pk = 'a' AND contains(l, 'two') AND sk < 2",
    "SELECT sk FROM data WHERE pk = 'a' AND size(x) = 3",
    "SELECT sk FROM data WHERE pk = 'a' AND attribute_type(l, 'L') AND sk = 0",
    "SELECT sk FROM data WHERE pk = 'a' AND attribute_type(l, 'X')",
    "SELECT sk FROM data WHERE pk = 'a' AND attribute_exists(x) AND sk = 0",
    "SELECT sk FROM data WHERE pk = 'a' AND attribute_not_exists(x)",
    "SELECT sk FROM data WHERE pk = 'a' AND m.k = 2",
    "SELECT sk FROM data WHERE pk = 'a' AND l[0] = 1 AND sk = 0",
    "SELECT sk FROM data WHERE pk = 'a' AND l = [1, 'two'] AND sk = 0",
    "SELECT sk FROM data WHERE pk = 'a' AND m = {'k': 3}",
    "SELECT sk FROM data WHERE pk = 'a' AND ss = <<'q', 'p'>> AND sk = 0",
    "SELECT pk FROM data.\"by-x\" WHERE x = 'odd'",
    "SELECT * FROM data.none WHERE x = 'odd'",
    "SELECT * FROM none WHERE x = 'odd'",
    "SELECT * FROM data WHERE pk = 5",
    "SELECT * FROM data WHERE pk = true",
    "SELECT * FROM data WHERE pk = 'a' AND sk = 'x'",
    "SELECT * FROM data WHERE pk = ''",
    "SELECT * FROM data WHERE n < true",
    "SELECT * FROM data WHERE n BETWEEN 3 AND 1",
    "SELECT * FROM data WHERE n BETWEEN 1 AND 'a'",
    "SELECT * FROM data WHERE pk = 'a' OR pk = 'a'",
    "SELECT * FROM data WHERE pk = 'a' AND sk < 2 OR pk = 'a' AND sk >= 1",
    "SELECT * FROM data WHERE a = MISSING",
    "SELECT * FROM data WHERE x",
    "SELECT * FROM data WHERE begins_with(n, 5)",
    "SELECT * FROM data WHERE upper(x) = 'EVEN'",
    "SELECT * FROM data WHERE pk = 'a' LIMIT 5",
    "SELECT * FROM data WHERE pk LIKE 'a%'",
    "SELECT * FROM data WHERE",
    "SELECT * FROM data WHERE pk = ",
    "SELECT * FROM data WHERE pk = 'a' foo",
    "SELECT * FROM",
    "SELECT FROM data",
    "SELECT",
    "",
    "DROP TABLE data",
    "SLECT * FROM data",
    "SELECT * FROM data WHERE pk = ?",
    "SELECT * FROM data; SELECT * FROM data",
    "SELECT pk FROM data WHERE pk = 'a' AND sk = 1;",
    "SELECT * FROM data a WHERE a.pk = 'a'",
    "SELECT * FROM data, none",
    "SELECT * FROM data.a.b",
    "SELECT COUNT(*) FROM data",
    "EXISTS(SELECT * FROM data WHERE pk = 'a' AND sk = 1)",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 1, 's': 'it''s', 'l': [1, [true, null]], 'm': {'a': {'b': 1}}}",
    "SELECT * FROM data WHERE pk = 'c'",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 1}",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 2, 'ns': <<1, 2.5, 1e2>>, 'ss': <<'a'>>}",
    "SELECT ns, ss FROM data WHERE pk = 'c' AND sk = 2",
    "INSERT INTO data VALUE {'pk': 'c'}",
    "INSERT INTO data VALUE {'pk': 5, 'sk': 1}",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 3, 'x': 5}",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 3, 's': <<1, 'a'>>}",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 3, 's': <<>>}",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 3, 's': <<'a', 'a'>>}",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 3, '': 1}",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 3, 's': MISSING}",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 3, 's': other}",
    "INSERT INTO data VALUE 'c'",
    "INSERT INTO data (pk) VALUES ('c')",
    "INSERT INTO data VALUES {'pk': 'c', 'sk': 3}",
    "INSERT data VALUE {'pk': 'c'}",
    "INSERT INTO none VALUE {'pk': 'c'}",
    "INSERT INTO data.\"by-x\" VALUE {'pk': 'c'}",
    "UPDATE data SET n = n + 5 WHERE pk = 'a' AND sk = 1 RETURNING ALL NEW *",
    "UPDATE data SET n = n - 5 WHERE pk = 'a' AND sk = 1 RETURNING ALL OLD *",
    "UPDATE data SET n = 7, y = 'new' WHERE pk = 'a' AND sk = 1 RETURNING MODIFIED OLD *",
    "UPDATE data SET n = 10 REMOVE y WHERE pk = 'a' AND sk = 1 RETURNING MODIFIED NEW *",
    "UPDATE data SET l = list_append(l, [3]) WHERE pk = 'a' AND sk = 1 RETURNING MODIFIED NEW *",
    "UPDATE data SET l = list_append(['0'], l) WHERE pk = 'a' AND sk = 1 RETURNING MODIFIED NEW *",
    "UPDATE data REMOVE l[0] WHERE pk = 'a' AND sk = 1 RETURNING ALL NEW *",
    "UPDATE data SET ss = set_add(ss, <<'r'>>) WHERE pk = 'a' AND sk = 1 RETURNING MODIFIED NEW *",
    "UPDATE data SET ss = set_delete(ss, <<'p', 'q'>>) WHERE pk = 'a' AND sk = 1 RETURNING MODIFIED NEW *",
    "UPDATE data SET fresh = set_add(fresh, <<1>>) WHERE pk = 'a' AND sk = 1 RETURNING MODIFIED NEW *",
    "UPDATE data SET ss = set_add(fresh, <<'r'>>) WHERE pk = 'a' AND sk = 1",
    "UPDATE data SET ss = set_add(ss, <<1>>) WHERE pk = 'a' AND sk = 1",
    "UPDATE data SET m.k = 'deep', m.j = [1] WHERE pk = 'a' AND sk = 1 RETURNING MODIFIED NEW *",
    "UPDATE data SET o.p = 1 WHERE pk = 'a' AND sk = 1",
    "UPDATE data SET n = x + 1 WHERE pk = 'a' AND sk = 1",
    "UPDATE data SET n = none + 1 WHERE pk = 'a' AND sk = 1",
    "UPDATE data SET n = 1 SET n = 2 WHERE pk = 'a' AND sk = 1",
    "UPDATE data SET n = 1 WHERE pk = 'a' AND sk = 1 AND n = 55",
    "UPDATE data SET n = 1 WHERE pk = 'a' AND sk = 1 AND (n = 10 OR n = 55)",
    "UPDATE data SET n = 1 WHERE pk = 'none' AND sk = 1",
    "UPDATE data SET n = 1 WHERE pk = 'a'",
    "UPDATE data SET n = 1 WHERE pk = 'a' AND sk IN [1]",
    "UPDATE data SET n = 1 WHERE pk = 'a' AND sk = 1 OR pk = 'a' AND sk = 2",
    "UPDATE data SET n = 1 WHERE pk = 'a' AND sk = 1 AND sk = 2",
    "UPDATE data SET n = 1",
    "UPDATE data SET sk = 5 WHERE pk = 'a' AND sk = 1",
    "UPDATE data SET x = 5 WHERE pk = 'a' AND sk = 1",
    "UPDATE data WHERE pk = 'a' AND sk = 1",
    "UPDATE data SET n = WHERE pk = 'a'",
    "UPDATE data SET n = 1 WHERE pk = 'a' AND sk = 1 RETURNING NEW *",
    "UPDATE",
    "DELETE FROM data WHERE pk = 'c' AND sk = 1 AND s = 'other'",
    "DELETE FROM data WHERE pk = 'c' AND sk = 1 RETURNING ALL OLD *",
    "DELETE FROM data WHERE pk = 'c' AND sk = 1 RETURNING ALL OLD *",
    "DELETE FROM data WHERE pk = 'none' AND sk = 1 AND s = 'x'",
    "DELETE FROM data WHERE pk = 'a' AND sk = 1 RETURNING MODIFIED OLD *",
    "DELETE FROM data WHERE pk = 'a'",
    "DELETE FROM data",
    "DELETE data WHERE pk = 'a' AND sk = 1",
    "DELETE FROM data WHERE pk = {'a': 1} AND sk = 1",
    "DELETE FROM data WHERE pk = 1 AND sk = 1",
    "SELECT * FROM data WHERE pk = 'a'",
];

/// Refused by both in other words, unless it says more.
const DIFFERING: &[&str] = &[
    // Dynoxide finds nothing, where a Query is refused.
    "SELECT * FROM data WHERE pk = ''",
    // Sets of numbers come in another order.
    "SELECT ns, ss FROM data WHERE pk = 'c' AND sk = 2",
    "SELECT * FROM data WHERE x",
    "SELECT * FROM data WHERE pk LIKE 'a%'",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 3, 's': MISSING}",
    "INSERT INTO data VALUE {'pk': 'c', 'sk': 3, 's': other}",
    "INSERT INTO data VALUE 'c'",
    "INSERT INTO data (pk) VALUES ('c')",
    "INSERT INTO data VALUES {'pk': 'c', 'sk': 3}",
    "UPDATE data WHERE pk = 'a' AND sk = 1",
    "UPDATE data SET n = 1 WHERE pk = 'a' AND sk = 1 RETURNING NEW *",
];

#[test]
fn statements_are_answered_alike() {
    let [larder, dynoxide] = both();
    let mut differing = Vec::new();
    for statement in STATEMENTS {
        let body = json!({"Statement": statement});
        let answers =
            [&larder, &dynoxide].map(|side| ordered(statement, side.ask("ExecuteStatement", &body)));
        if (answers[0] != answers[1]) != DIFFERING.contains(statement) {
            differing.push(format!("{statement}\n  larder   {:?}\n  dynoxide {:?}", answers[0], answers[1]));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
