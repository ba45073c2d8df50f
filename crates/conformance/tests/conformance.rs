//! What is held against the endpoint, one module per operation: one program, so that a server is started once.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod backups;
mod batch_execute_statement;
mod batch_get_item;
mod batch_write_item;
mod conditions;
mod continuous_backups;
mod create_table;
mod delete_item;
mod delete_resource_policy;
mod delete_table;
mod describe_endpoints;
mod describe_limits;
mod describe_table;
mod describe_time_to_live;
mod differences;
mod errors;
mod execute_statement;
mod execute_transaction;
mod export_table_to_point_in_time;
mod get_item;
mod get_resource_policy;
mod import_table;
mod legacy;
mod list_tables;
mod list_tags_of_resource;
mod numbers;
mod protocol;
mod put_item;
mod put_resource_policy;
mod query;
mod scan;
mod streams;
mod tag_resource;
mod transact_get_items;
mod transact_write_items;
mod untag_resource;
mod update_item;
mod update_table;
mod update_time_to_live;
mod values;

/// A file that is not named here or in the manifest is not compiled, and nobody would miss it.
#[test]
fn every_file_of_tests_is_part_of_a_program() {
    let named = concat!(include_str!("conformance.rs"), include_str!("../Cargo.toml"));
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").unwrap_or(&name);
        let is_named =
            named.contains(&format!("\nmod {module};")) || named.contains(&format!("\"tests/{name}"));
        assert!(is_named, "tests/{name} is in no program: name it in conformance.rs");
    }
}
