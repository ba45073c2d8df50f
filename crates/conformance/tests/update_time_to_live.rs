//! UpdateTimeToLive.

use larder_conformance::{conform, keys};
use serde_json::json;

#[test]
fn the_setting_is_echoed() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let setting = json!({"Enabled": true, "AttributeName": "expires"});
        let answer = table.ok("UpdateTimeToLive", json!({"TimeToLiveSpecification": setting}));
        assert_eq!(answer, json!({"TimeToLiveSpecification": setting}));
    });
}

#[test]
fn enabling_twice_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = json!({"TimeToLiveSpecification": {"Enabled": true, "AttributeName": "expires"}});
        table.ok("UpdateTimeToLive", request.clone());
        table.invalid("UpdateTimeToLive", request, "TimeToLive is already enabled");
    });
}

#[test]
fn disabling_what_is_disabled_is_refused() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "UpdateTimeToLive",
            json!({"TimeToLiveSpecification": {"Enabled": false, "AttributeName": "expires"}}),
            "TimeToLive is already disabled",
        );
    });
}

#[test]
fn an_attribute_is_required() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.invalid(
            "UpdateTimeToLive",
            json!({"TimeToLiveSpecification": {"Enabled": true, "AttributeName": ""}}),
            "1 validation error detected: Value '' at 'timeToLiveSpecification.attributeName' failed to satisfy constraint: Member must have length greater than or equal to 1",
        );
        table.invalid(
            "UpdateTimeToLive",
            json!({}),
            "1 validation error detected: Value null at 'timeToLiveSpecification' failed to satisfy constraint: Member must not be null",
        );
    });
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        db.call(
            "UpdateTimeToLive",
            json!({"TableName": "no.such.table", "TimeToLiveSpecification": {"Enabled": true, "AttributeName": "expires"}}),
        )
        .error("ResourceNotFoundException", "Requested resource not found: Table: no.such.table not found");
    });
}

#[test]
fn items_that_expire_far_ahead_stay() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        table.ok(
            "UpdateTimeToLive",
            json!({"TimeToLiveSpecification": {"Enabled": true, "AttributeName": "expires"}}),
        );
        table.put(json!({"pk": {"S": "a"}, "expires": {"N": "99999999999"}}));
        table.put(json!({"pk": {"S": "text"}, "expires": {"S": "1"}}));
        table.put(json!({"pk": {"S": "more than five years ago"}, "expires": {"N": "1"}}));
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(3));
    });
}

#[test]
fn the_name_of_the_attribute_has_a_longest_length() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = |bytes: usize| json!({"TimeToLiveSpecification": {"Enabled": true, "AttributeName": "a".repeat(bytes)}});
        table.invalid(
            "UpdateTimeToLive",
            request(256),
            "1 validation error detected: Value '…' at 'timeToLiveSpecification.attributeName' failed to satisfy constraint: Member must have length less than or equal to 255",
        );
        table.ok("UpdateTimeToLive", request(255));
    });
}

#[test]
fn a_change_keeps_out_others_for_an_hour() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let request = |enabled: bool, name: &str| json!({"TimeToLiveSpecification": {"Enabled": enabled, "AttributeName": name}});
        table.ok("UpdateTimeToLive", request(true, "expires"));
        table.invalid(
            "UpdateTimeToLive",
            request(false, "expires"),
            "Time to live has been modified multiple times within a fixed interval",
        );
        table.invalid(
            "UpdateTimeToLive",
            request(true, "other"),
            "TimeToLive is active on a different AttributeName: current AttributeName is expires",
        );
    });
}
