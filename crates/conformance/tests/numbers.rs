//! Numbers: 38 exact digits, normalised, compared by value.

use larder_conformance::{Table, conform, keys};
use serde_json::{Value, json};

fn stored(table: &Table<'_>, number: &str) -> Value {
    table.put(json!({"pk": {"S": "a"}, "n": {"N": number}}));
    table.get(json!({"pk": {"S": "a"}}))["n"]["N"].clone()
}

#[test]
fn numbers_are_normalised() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (number, normal) in [
            ("0", "0"),
            ("-0", "0"),
            ("0.0", "0"),
            ("000", "0"),
            ("1", "1"),
            ("01", "1"),
            ("+1", "1"),
            ("1.0", "1"),
            ("1.50", "1.5"),
            ("-001.500", "-1.5"),
            ("1e3", "1000"),
            ("1E+3", "1000"),
            ("1e-3", "0.001"),
            ("123.456e2", "12345.6"),
            (".5", "0.5"),
            ("5.", "5"),
            ("100", "100"),
            ("0.1", "0.1"),
        ] {
            assert_eq!(stored(&table, number), json!(normal), "{number}");
        }
    });
}

#[test]
fn thirty_eight_digits_are_exact() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for number in [
            "12345678901234567890123456789012345678",
            "-99999999999999999999999999999999999999",
            "0.12345678901234567890123456789012345678",
            "1234567890.1234567890123456789012345678",
            "3.1415926535897932384626433832795028841",
        ] {
            assert_eq!(stored(&table, number), json!(number));
        }
    });
}

#[test]
fn a_thirty_ninth_digit_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for number in ["123456789012345678901234567890123456789", "1.00000000000000000000000000000000000001"]
        {
            table.invalid(
                "PutItem",
                json!({"Item": {"pk": {"S": "a"}, "n": {"N": number}}}),
                "…Attempting to store more than 38 significant digits in a Number",
            );
        }
        // Zeros at either end are not significant.
        table.put(json!({"pk": {"S": "a"}, "n": {"N": "1".to_owned() + &"0".repeat(60)}}));
        table.put(json!({"pk": {"S": "a"}, "n": {"N": format!("{}1.{}", "0".repeat(40), "0".repeat(40))}}));
    });
}

#[test]
fn magnitudes_have_a_range() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for number in ["9.9999999999999999999999999999999999999E+125", "-1E+125", "1E-130", "-1E-130"] {
            table.put(json!({"pk": {"S": "a"}, "n": {"N": number}}));
        }
        let put = |number: &str| json!({"Item": {"pk": {"S": "a"}, "n": {"N": number}}});
        table.all_invalid(
            "PutItem",
            [
                (put("1E+126"), "…Number overflow. Attempting to store a number with magnitude larger than supported range"),
                (put("-1E+126"), "…Number overflow. Attempting to store a number with magnitude larger than supported range"),
                (put("1E-131"), "…Number underflow. Attempting to store a number with magnitude smaller than supported range"),
            ],
        );
    });
}

#[test]
fn what_is_no_number_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for number in ["abc", "1x", "1,000", "--1", "1e", "NaN", "Infinity", "0x10", "1 2"] {
            table.invalid(
                "PutItem",
                json!({"Item": {"pk": {"S": "a"}, "n": {"N": number}}}),
                "…cannot be converted to a numeric value…",
            );
        }
        table.invalid(
            "PutItem",
            json!({"Item": {"pk": {"S": "a"}, "n": {"N": ""}}}),
            "…cannot be converted to a numeric value…",
        );
    });
}

#[test]
fn a_bad_number_is_refused_wherever_it_is() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for value in [json!({"NS": ["1", "x"]}), json!({"L": [{"N": "x"}]}), json!({"M": {"k": {"N": "x"}}})]
        {
            table.invalid(
                "PutItem",
                json!({"Item": {"pk": {"S": "a"}, "v": value}}),
                "…cannot be converted to a numeric value…",
            );
        }
        let numbers = db.table(keys("pk:N"));
        numbers.invalid(
            "GetItem",
            json!({"Key": {"pk": {"N": "x"}}}),
            "…cannot be converted to a numeric value…",
        );
    });
}

#[test]
fn arithmetic_is_exact() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        for (before, added, after) in [
            ("0.1", "0.2", "0.3"),
            ("9999999999999999999999999999999999999", "1", "10000000000000000000000000000000000000"),
            ("1", "-1", "0"),
            ("123456789012345678901234567890", "0.00000001", "123456789012345678901234567890.00000001"),
            ("-5", "0.5", "-4.5"),
        ] {
            table.put(json!({"pk": {"S": "a"}, "n": {"N": before}}));
            let answer = table.ok(
                "UpdateItem",
                json!({
                    "Key": {"pk": {"S": "a"}}, "UpdateExpression": "SET n = n + :n",
                    "ExpressionAttributeValues": {":n": {"N": added}}, "ReturnValues": "UPDATED_NEW",
                }),
            );
            assert_eq!(answer["Attributes"]["n"]["N"], json!(after), "{before} + {added}");
        }
    });
}

#[test]
fn a_key_is_the_same_however_it_is_written() {
    conform(|db| {
        let table = db.table(keys("pk:N"));
        table.put(json!({"pk": {"N": "100"}, "v": {"S": "x"}}));
        for number in ["100", "1E2", "100.00", "0100", "+100"] {
            assert_eq!(table.get(json!({"pk": {"N": number}}))["v"], json!({"S": "x"}), "{number}");
        }
        table.put(json!({"pk": {"N": "1e2"}}));
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(1));
    });
}

#[test]
fn sets_hold_equal_numbers_once() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table
            .call("PutItem", json!({"Item": {"pk": {"S": "a"}, "v": {"NS": ["1", "1.0"]}}}))
            .error("ValidationException", "…");
        table.put(json!({"pk": {"S": "a"}, "v": {"NS": ["1", "2"]}}));
        let update = |expression: &str, set: Value| {
            table.ok(
                "UpdateItem",
                json!({"Key": {"pk": {"S": "a"}}, "UpdateExpression": expression, "ExpressionAttributeValues": {":v": {"NS": set}}}),
            );
            let mut numbers: Vec<String> = table.get(json!({"pk": {"S": "a"}}))["v"]["NS"]
                .as_array()
                .expect("a set")
                .iter()
                .filter_map(|number| number.as_str().map(str::to_owned))
                .collect();
            numbers.sort();
            numbers
        };
        assert_eq!(update("DELETE v :v", json!(["1.00"])), ["2"]);
        assert_eq!(update("ADD v :v", json!(["3"])), ["2", "3"]);
    });
}

#[test]
fn equal_numbers_unite_in_a_set() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "v": {"NS": ["1", "20"]}}));
        table.ok(
            "UpdateItem",
            json!({"Key": {"pk": {"S": "a"}}, "UpdateExpression": "ADD v :v", "ExpressionAttributeValues": {":v": {"NS": ["1.0", "2E1"]}}}),
        );
        assert_eq!(table.get(json!({"pk": {"S": "a"}}))["v"]["NS"].as_array().map(Vec::len), Some(2));
    });
}

#[test]
fn numbers_in_sets_are_normalised() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.put(json!({"pk": {"S": "a"}, "v": {"NS": ["1.50"]}}));
        assert_eq!(table.get(json!({"pk": {"S": "a"}}))["v"], json!({"NS": ["1.5"]}));
    });
}
