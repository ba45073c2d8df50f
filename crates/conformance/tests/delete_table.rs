//! DeleteTable.

use larder_conformance::{conform, keys, wait_until};
use serde_json::json;

#[test]
fn a_deleted_table_is_gone() {
    conform(|db| {
        let table = db.table(keys("pk:S"));
        let answer = table.ok("DeleteTable", json!({}));
        assert_eq!(answer["TableDescription"]["TableName"], json!(table.name()));
        // On AWS the table is there a while longer.
        let gone = (0..1000)
            .any(|_| table.call("DescribeTable", json!({})).code() == Some("ResourceNotFoundException"));
        assert!(gone);
        table
            .call("GetItem", json!({"Key": {"pk": {"S": "a"}}}))
            .error("ResourceNotFoundException", "Requested resource not found");
    });
}

#[test]
fn a_table_is_described_as_it_goes() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N"));
        let description = table.ok("DeleteTable", json!({}))["TableDescription"].clone();
        assert_eq!(description["TableStatus"], "DELETING");
        assert_eq!(description["ItemCount"], json!(0));
    });
}

#[test]
fn a_deleted_tables_items_do_not_come_back_with_its_name() {
    conform(|db| {
        let name = db.unused_name();
        let table = db.table_from(keys("pk:S").request(&name));
        table.put(json!({"pk": {"S": "a"}}));
        drop(table);
        let table = loop_until_created(db, &name);
        assert_eq!(table.ok("Scan", json!({}))["Count"], json!(0));
    });
}

/// On AWS a name is free again only after the delete is done.
fn loop_until_created<'a>(db: &'a larder_conformance::Endpoint, name: &str) -> larder_conformance::Table<'a> {
    wait_until("the name is free again", || {
        let answer = db.call("CreateTable", keys("pk:S").request(name));
        let is_created = answer.status == 200;
        if !is_created {
            answer.error("ResourceInUseException", "…");
        }
        is_created
    });
    db.adopt(name)
}

#[test]
fn an_unknown_table_is_not_found() {
    conform(|db| {
        db.call("DeleteTable", json!({"TableName": "no.such.table"})).error(
            "ResourceNotFoundException",
            "Requested resource not found: Table: no.such.table not found",
        );
    });
}

#[test]
fn a_protected_table_stays() {
    conform(|db| {
        let table = db.table(keys("pk:S").with("DeletionProtectionEnabled", json!(true)));
        table.call("DeleteTable", json!({})).error(
            "ValidationException",
            "Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.",
        );
        assert_eq!(table.describe()["TableStatus"], "ACTIVE");
        table.ok("UpdateTable", json!({"DeletionProtectionEnabled": false}));
    });
}

#[test]
fn a_name_is_required() {
    conform(|db| {
        db.invalid(
            "DeleteTable",
            json!({}),
            "The parameter 'TableName' is required but was not present in the request",
        );
    });
}

#[test]
fn neither_keys_nor_dates_are_told_of_a_table_that_goes() {
    conform(|db| {
        let table = db.table(keys("pk:S sk:N").global("by_g", "g:S", "ALL"));
        let description = table.ok("DeleteTable", json!({}))["TableDescription"].clone();
        for member in ["AttributeDefinitions", "KeySchema", "CreationDateTime", "GlobalSecondaryIndexes"] {
            assert!(description[member].is_null(), "{member}");
        }
        assert_eq!(description["TableName"], json!(table.name()));
    });
}
