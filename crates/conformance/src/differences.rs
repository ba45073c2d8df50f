//! Where a target is known to differ from AWS, in one place.
//!
//! A test listed here runs on that target and must fail; it is an error if it passes. Every other test must pass,
//! but for wordings: where a target says the same in other words everywhere, [`WORDINGS`] says so once.
//! `cargo run -p larder-conformance --example differences` prints the list as Markdown.

use std::fmt::Write;

use crate::endpoint::Target;

/// What becomes of a listed test on its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is run, and fails.
    Fails,
    /// It is left out: the server does not survive it, and the tests after it would fail for nothing.
    EndsTheServer,
}

/// Tests that fail on a target, for one reason.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    pub target: Target,
    pub verdict: Verdict,
    /// What differs, in a few words.
    pub what: &'static str,
    pub reason: &'static str,
    /// `file::test`, each.
    pub tests: &'static [&'static str],
}

/// A part of a message that a target words in its own way.
#[derive(Clone, Copy, Debug)]
pub struct Wording {
    pub target: Target,
    pub aws: &'static str,
    pub own: &'static str,
}

/// The message in the target's own words, if it has any for it.
pub(crate) fn reworded(target: Target, message: &str) -> Option<String> {
    let mut own = message.to_owned();
    for wording in WORDINGS.iter().filter(|wording| wording.target == target) {
        own = own.replace(wording.aws, wording.own);
    }
    (own != message).then_some(own)
}

/// The difference that makes this test fail on the target.
pub fn find(target: Target, test: &str) -> Option<&'static Difference> {
    LIST.iter().find(|difference| difference.target == target && difference.tests.contains(&test))
}

/// The list for people.
pub fn markdown() -> String {
    let mut text = String::new();
    for target in Target::KNOWN {
        let of_target = || LIST.iter().filter(move |difference| difference.target == target);
        let _ = writeln!(text, "### `{}`\n", target.name());
        if of_target().next().is_none() {
            text.push_str("None.\n\n");
            continue;
        }
        for wording in WORDINGS.iter().filter(|wording| wording.target == target) {
            let _ = match wording.own {
                "" => writeln!(text, "- leaves out “{}”", wording.aws.trim()),
                own => writeln!(text, "- says “{own}” for “{}”", wording.aws),
            };
        }
        if WORDINGS.iter().any(|wording| wording.target == target) {
            text.push('\n');
        }
        text.push_str("| what | why | tests |\n| --- | --- | --- |\n");
        for difference in of_target() {
            let tests: Vec<String> = difference.tests.iter().map(|test| format!("`{test}`")).collect();
            let _ = writeln!(text, "| {} | {} | {} |", difference.what, difference.reason, tests.join(" "));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Parts of messages that a target always words in its own way.
pub const WORDINGS: &[Wording] = &[
    Wording { target: Target::DynamoDbLocal, aws: "1 validation error detected: ", own: "" },
    Wording {
        target: Target::DynamoDbLocal,
        aws: "Requested resource not found: Table: no.such.table not found",
        own: "Cannot do operations on a non-existent table",
    },
    Wording {
        target: Target::DynamoDbLocal,
        aws: "Requested resource not found",
        own: "Cannot do operations on a non-existent table",
    },
];

/// Tests that differ, by target and by what differs.
pub const LIST: &[Difference] = &[
    Difference {
        target: Target::Larder,
        verdict: Verdict::Fails,
        what: "encryption",
        reason: "a server without a key, as these tests run, takes the setting and does not say that it encrypts",
        tests: &["create_table::encryption_with_a_managed_key_is_described"],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "tags",
        reason: "“Tagging is not currently supported in DynamoDB Local.”",
        tests: &[
            "create_table::tags_given_at_creation_are_listed",
            "list_tags_of_resource::a_new_table_has_no_tags",
            "list_tags_of_resource::an_unknown_table_is_refused",
            "list_tags_of_resource::something_that_is_no_arn_is_refused",
            "tag_resource::a_table_has_at_most_fifty_tags",
            "tag_resource::a_tag_is_added_or_replaced",
            "tag_resource::an_unknown_table_is_refused",
            "tag_resource::at_least_one_tag_is_given",
            "untag_resource::a_tag_is_removed",
            "untag_resource::at_least_one_key_is_given",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "resource policies",
        reason: "not known to it",
        tests: &[
            "delete_resource_policy::a_policy_goes_with_its_table",
            "delete_resource_policy::a_policy_is_deleted_and_again",
            "delete_resource_policy::a_revision_can_be_expected",
            "delete_resource_policy::an_unknown_table_is_refused",
            "get_resource_policy::a_new_table_has_no_policy",
            "get_resource_policy::a_policy_given_at_creation_is_there",
            "get_resource_policy::an_unknown_table_is_refused",
            "get_resource_policy::something_that_is_no_arn_is_refused",
            "put_resource_policy::a_policy_has_at_most_twenty_kilobytes_with_its_spaces",
            "put_resource_policy::a_policy_is_kept_as_it_is_and_replaced_by_another",
            "put_resource_policy::a_revision_can_be_expected",
            "put_resource_policy::a_stream_has_a_policy_of_its_own",
            "put_resource_policy::actions_of_streams_are_not_for_tables",
            "put_resource_policy::indexes_are_in_the_policy_of_their_table",
            "put_resource_policy::the_same_policy_again_keeps_its_revision",
            "put_resource_policy::what_is_no_policy_is_refused",
            "put_resource_policy::what_is_not_there_has_no_policy",
            "put_resource_policy::whoever_leaves_themselves_out_may_say_that_they_mean_it",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "deletion protection, table class, encryption, table ids",
        reason: "not known to this build",
        tests: &[
            "create_table::a_new_table_has_an_id_and_deletion_protection_off",
            "create_table::a_table_class_is_described",
            "create_table::deletion_protection_is_described",
            "create_table::encryption_with_a_managed_key_is_described",
            "delete_table::a_protected_table_stays",
            "update_table::deletion_protection_is_changed",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "index keys of many attributes",
        reason: "not known to this build",
        tests: &[
            "create_table::a_fifth_key_attribute_of_a_kind_is_refused",
            "create_table::a_global_index_key_has_up_to_four_attributes_of_each_kind",
            "create_table::partition_keys_of_an_index_come_before_its_sort_keys",
            "query::a_sort_attribute_of_an_index_needs_those_before_it",
            "query::an_index_key_of_many_attributes_is_narrowed_from_the_left",
            "query::every_partition_attribute_of_an_index_is_required",
            "query::pages_of_an_index_of_many_attributes_resume",
            "update_table::a_new_index_may_have_many_key_attributes",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "ARNs in the place of names",
        reason: "not known to this build",
        tests: &[
            "describe_table::a_table_may_be_named_by_its_arn",
            "put_item::a_table_may_be_named_by_its_arn",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "DescribeEndpoints",
        reason: "not known to this build",
        tests: &["describe_endpoints::one_endpoint_is_told_with_how_long_to_keep_it"],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "empty strings and binary",
        reason: "refused everywhere by this build; AWS allows them outside keys",
        tests: &[
            "conditions::an_empty_string_is_a_value_like_others",
            "get_item::an_empty_key_is_refused",
            "put_item::a_key_is_not_empty",
            "put_item::an_empty_index_key_is_refused",
            "put_item::values_other_than_keys_may_be_empty",
            "query::an_empty_key_value_is_refused",
            "update_table::backfill_skips_items_whose_key_is_empty_or_too_long",
            "values::binary_comes_back_as_it_went",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "the item on a failed condition",
        reason: "`ReturnValuesOnConditionCheckFailure` of single writes is ignored",
        tests: &[
            "delete_item::a_failed_condition_keeps_the_item_and_can_return_it",
            "put_item::a_failed_condition_can_return_the_item",
            "update_item::a_failed_condition_changes_nothing_and_can_return_the_item",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "transactions",
        reason: "this build allows 10 items, repeats no capacity rules of AWS, and tells no reason for invalid writes",
        tests: &[
            "transact_get_items::a_get_is_required",
            "transact_get_items::a_hundred_items_are_the_most",
            "transact_get_items::a_key_of_another_schema_cancels_with_a_reason",
            "transact_write_items::a_hundred_actions_are_the_most",
            "transact_write_items::a_key_of_another_schema_is_a_reason_too",
            "transact_write_items::a_repeated_request_reports_what_it_would_have_read",
            "transact_write_items::a_token_is_one_to_36_characters",
            "transact_write_items::a_write_that_cannot_be_done_is_a_reason_too",
            "transact_write_items::an_empty_token_is_refused",
            "transact_write_items::an_update_and_a_check_need_their_expressions",
            "transact_write_items::capacity_of_indexes_is_not_doubled",
            "transact_write_items::four_megabytes_are_the_most",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "HTTP",
        reason: "no compression, no HTTP/2, no health page; malformed requests end in 500 or pass",
        tests: &[
            "protocol::a_broken_gzip_request_changes_nothing",
            "protocol::a_deflate_request_is_read",
            "protocol::a_get_says_that_the_endpoint_is_healthy",
            "protocol::a_gzip_bomb_is_refused",
            "protocol::a_gzip_request_is_read",
            "protocol::a_large_answer_is_compressed_when_asked_for",
            "protocol::a_missing_target_is_refused",
            "protocol::an_empty_body_is_a_serialization_error",
            "protocol::an_unknown_encoding_changes_nothing",
            "protocol::an_unknown_operation_is_refused",
            "protocol::another_method_is_not_served",
            "protocol::every_answer_has_a_checksum_and_a_request_id",
            "protocol::http2_is_spoken_to_clients_that_know_it",
            "protocol::invalid_utf8_is_a_client_error",
            "protocol::json_that_is_no_object_is_refused",
            "protocol::malformed_json_is_a_serialization_error",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "shape of requests",
        reason: "values of the wrong shape pass or end in 500, and constraints have words of their own",
        tests: &[
            "errors::a_member_of_the_wrong_shape_is_named_as_the_service_reads_it",
            "errors::a_value_of_the_wrong_shape_is_refused",
            "errors::constraints_are_all_told",
            "errors::constraints_come_before_expressions",
            "errors::errors_of_the_service_carry_their_namespace",
            "errors::missing_members_are_all_told",
            "errors::shape_comes_before_constraints",
            "errors::table_names_are_constrained_everywhere",
            "values::what_is_no_base64_is_refused",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::EndsTheServer,
        what: "depth",
        reason: "deep expressions and values overflow its stack, and the server does not recover: not run there",
        tests: &[
            "conditions::deep_nesting_is_refused_and_never_crashes",
            "values::very_deep_values_are_refused_and_never_crash",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "order of errors",
        reason: "the table is looked up before expressions and values are checked",
        tests: &[
            "errors::expressions_come_before_the_table",
            "errors::the_key_comes_before_the_condition",
            "errors::values_come_before_the_table",
            "get_item::an_expression_is_checked_before_the_table",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "words and order of table errors",
        reason: "tables, indexes and settings are refused in words of its own",
        tests: &[
            "create_table::a_disabled_stream_has_no_view",
            "create_table::a_key_schema_has_at_most_two_attributes",
            "create_table::a_key_schema_is_required",
            "create_table::a_local_index_has_a_sort_key",
            "create_table::a_local_index_needs_a_sort_key_on_the_table",
            "create_table::a_local_index_shares_the_partition_key",
            "create_table::a_name_is_of_certain_characters",
            "create_table::a_name_is_required",
            "create_table::a_name_is_three_to_255_characters",
            "create_table::a_projection_has_a_known_type",
            "create_table::a_table_has_at_most_five_local_indexes",
            "create_table::a_table_has_at_most_twenty_global_indexes",
            "create_table::a_taken_name_is_in_use",
            "create_table::an_index_names_its_parts",
            "create_table::an_index_of_an_on_demand_table_takes_no_capacity",
            "create_table::billing_is_provisioned_unless_told",
            "create_table::billing_mode_is_one_of_two",
            "create_table::both_keys_cannot_be_one_attribute",
            "create_table::constraint_errors_are_counted_together",
            "create_table::index_lists_are_not_empty",
            "create_table::index_names_are_constrained",
            "create_table::index_names_are_distinct",
            "create_table::key_schema_members_are_constrained",
            "create_table::keys_are_defined_attributes",
            "create_table::on_demand_billing_takes_no_capacity",
            "create_table::projected_names_go_with_include_alone",
            "create_table::provisioned_capacity_is_at_least_one",
            "create_table::provisioned_capacity_is_required_when_billing_is_provisioned",
            "create_table::the_first_key_is_the_partition_key",
            "create_table::unused_definitions_are_named_when_there_are_indexes",
            "create_table::unused_definitions_are_refused",
            "delete_table::a_name_is_required",
            "delete_table::a_table_is_described_as_it_goes",
            "describe_table::a_name_is_checked_before_it_is_looked_up",
            "list_tables::a_limit_is_one_to_a_hundred",
            "list_tables::a_start_name_is_constrained",
            "update_table::a_new_index_guards_writes_at_once",
            "update_table::an_index_key_must_be_defined",
            "update_table::an_update_names_one_action",
            "update_table::backfill_skips_items_without_the_key_or_with_a_key_of_another_type",
            "update_table::capacity_that_stays_the_same_is_refused",
            "update_table::provisioned_billing_needs_capacity",
            "update_table::something_must_change",
            "update_time_to_live::an_attribute_is_required",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "words of key errors",
        reason: "keys are refused in words of its own",
        tests: &[
            "batch_get_item::a_key_is_exactly_the_tables",
            "batch_write_item::a_delete_key_is_exactly_the_tables",
            "delete_item::a_key_is_exactly_the_tables",
            "get_item::a_key_is_exactly_the_tables",
            "get_item::a_key_is_required",
            "get_item::a_too_long_key_is_refused",
            "legacy::key_conditions_are_checked",
            "put_item::a_key_is_of_its_type",
            "put_item::a_too_long_index_key_is_refused",
            "put_item::an_index_key_of_another_type_is_refused",
            "put_item::an_item_has_its_key",
            "put_item::key_lengths_are_in_utf8_bytes",
            "put_item::keys_have_a_longest_length",
            "query::a_key_condition_names_the_partition_key",
            "query::a_key_condition_says_little",
            "query::a_start_key_is_a_whole_key",
            "query::a_start_key_is_within_the_condition",
            "query::a_start_key_of_an_index_has_both_keys",
            "scan::a_start_key_belongs_to_its_segment",
            "scan::a_start_key_is_a_whole_key",
            "update_item::a_key_is_exactly_the_tables",
            "update_item::the_key_cannot_be_updated",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "words of other errors",
        reason: "numbers, sets, batches and parameters are refused in words of its own",
        tests: &[
            "batch_get_item::a_hundred_keys_are_the_most",
            "batch_get_item::something_must_be_asked_for",
            "batch_write_item::one_bad_item_fails_the_whole_batch",
            "batch_write_item::something_must_be_written",
            "batch_write_item::twenty_five_requests_are_the_most",
            "conditions::between_takes_bounds_of_one_type_in_order",
            "conditions::conditions_are_refused_in_the_words_of_their_parameter",
            "conditions::in_takes_one_to_a_hundred_values",
            "delete_item::nothing_but_the_old_item_can_be_returned",
            "legacy::attribute_updates_are_checked",
            "legacy::attributes_to_get_are_whole_top_level_names",
            "numbers::a_bad_number_is_refused_wherever_it_is",
            "numbers::a_thirty_ninth_digit_is_refused",
            "numbers::what_is_no_number_is_refused",
            "put_item::an_item_and_a_table_are_required",
            "put_item::no_capacity_is_told_unasked",
            "put_item::nothing_but_the_old_item_can_be_returned",
            "put_item::sets_are_not_empty",
            "put_item::sets_have_no_duplicates",
            "query::a_global_index_is_not_read_consistently",
            "query::a_limit_is_at_least_one",
            "query::select_and_projection_must_agree",
            "scan::a_limit_is_at_least_one",
            "scan::segments_are_checked",
            "scan::select_and_projection_must_agree",
            "update_item::a_value_of_the_wrong_type_is_refused_whatever_the_item",
            "update_item::an_update_that_only_deletes_from_sets_does_not_create_the_item",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "capacity and collection metrics",
        reason: "reads of nothing cost nothing, unasked capacity is told, no collection metrics",
        tests: &[
            "batch_get_item::capacity_is_per_table_and_per_item",
            "batch_write_item::collection_metrics_are_per_table",
            "delete_item::deleting_what_is_absent_is_no_error",
            "put_item::collection_metrics_are_told_with_a_local_index",
            "query::an_empty_answer_costs_half_a_unit",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "updates",
        reason: "an update that only removes creates the item; touched paths are returned as whole attributes",
        tests: &[
            "legacy::attribute_updates_that_only_delete_do_not_create_the_item",
            "update_item::an_update_that_only_removes_does_not_create_the_item",
            "update_item::updated_values_are_of_the_touched_paths_only",
            "update_item::updated_values_of_a_list_are_the_touched_elements",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "rules that are not enforced",
        reason: "projections of global indexes, types of index keys in updates, some reserved words, the page limit under a filter, equal numbers in a batch",
        tests: &[
            "batch_get_item::equal_numbers_are_one_key",
            "query::a_global_index_cannot_fetch_what_it_does_not_project",
            "query::a_page_ends_at_one_megabyte_before_the_filter_and_the_projection",
            "query::a_projection_of_what_a_global_index_lacks_is_refused",
            "update_item::an_index_key_stays_of_its_type",
            "update_item::reserved_words_need_a_name",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "point-in-time recovery and backups",
        reason: "not known to this build",
        tests: &[
            "backups::a_backup_keeps_its_table_as_it_was",
            "backups::a_deleted_table_with_recovery_leaves_a_backup",
            "backups::backups_of_a_table_are_listed_in_pages",
            "backups::members_are_constrained",
            "continuous_backups::a_restored_table_may_differ_from_its_source",
            "continuous_backups::a_table_is_restored_to_a_moment",
            "continuous_backups::members_are_constrained",
            "continuous_backups::recovery_is_switched_on_and_off",
            "continuous_backups::what_cannot_be_restored_is_refused",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "streams",
        reason: "the last shard is no place to start after; missing members are refused in words of its own",
        tests: &[
            "streams::a_start_after_the_last_shard_shows_none",
            "streams::what_is_missing_or_too_short_is_named",
        ],
    },
    Difference {
        target: Target::DynamoDbLocal,
        verdict: Verdict::Fails,
        what: "PartiQL",
        reason: "not known to this build",
        tests: &[
            "batch_execute_statement::a_batch_reads_or_writes",
            "batch_execute_statement::a_failed_condition_can_return_the_item",
            "batch_execute_statement::a_read_names_one_item_and_nothing_else",
            "batch_execute_statement::capacity_is_per_table",
            "batch_execute_statement::reads_are_answered_in_their_order",
            "batch_execute_statement::twenty_five_statements_are_the_most",
            "batch_execute_statement::writes_fail_one_by_one",
            "execute_statement::a_condition_has_all_operators",
            "execute_statement::a_delete_of_what_is_absent_is_no_error",
            "execute_statement::a_page_ends_at_one_megabyte_over_all_partitions",
            "execute_statement::a_projection_names_attributes_and_paths",
            "execute_statement::a_write_names_one_item",
            "execute_statement::an_index_is_named_after_its_table",
            "execute_statement::an_item_is_inserted_and_selected",
            "execute_statement::an_order_is_by_the_sort_key",
            "execute_statement::an_update_changes_an_item_that_is_there",
            "execute_statement::an_update_returns_what_it_is_asked_for",
            "execute_statement::capacity_is_that_of_the_read_or_the_write",
            "execute_statement::members_are_constrained",
            "execute_statement::pages_go_on_with_their_token",
            "execute_statement::parameters_take_the_places_of_question_marks",
            "execute_statement::partitions_are_read_one_after_the_other",
            "execute_statement::what_is_no_statement_is_refused",
            "execute_statement::writes_are_seen_by_indexes_and_streams",
            "execute_transaction::a_hundred_statements_are_the_most",
            "execute_transaction::a_token_makes_a_transaction_happen_once",
            "execute_transaction::capacity_is_doubled",
            "execute_transaction::one_that_fails_cancels_all_with_reasons",
            "execute_transaction::reads_are_answered_in_their_order",
            "execute_transaction::what_cannot_be_in_a_transaction_is_refused",
            "execute_transaction::writes_happen_together",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "resource policies",
        reason: "not known to it",
        tests: &[
            "delete_resource_policy::a_policy_goes_with_its_table",
            "delete_resource_policy::a_policy_is_deleted_and_again",
            "delete_resource_policy::a_revision_can_be_expected",
            "delete_resource_policy::an_unknown_table_is_refused",
            "get_resource_policy::a_new_table_has_no_policy",
            "get_resource_policy::a_policy_given_at_creation_is_there",
            "get_resource_policy::an_unknown_table_is_refused",
            "get_resource_policy::something_that_is_no_arn_is_refused",
            "put_resource_policy::a_policy_has_at_most_twenty_kilobytes_with_its_spaces",
            "put_resource_policy::a_policy_is_kept_as_it_is_and_replaced_by_another",
            "put_resource_policy::a_revision_can_be_expected",
            "put_resource_policy::a_stream_has_a_policy_of_its_own",
            "put_resource_policy::actions_of_streams_are_not_for_tables",
            "put_resource_policy::indexes_are_in_the_policy_of_their_table",
            "put_resource_policy::the_same_policy_again_keeps_its_revision",
            "put_resource_policy::what_is_no_policy_is_refused",
            "put_resource_policy::what_is_not_there_has_no_policy",
            "put_resource_policy::whoever_leaves_themselves_out_may_say_that_they_mean_it",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "DescribeLimits, DescribeEndpoints",
        reason: "absent",
        tests: &[
            "describe_endpoints::one_endpoint_is_told_with_how_long_to_keep_it",
            "describe_limits::limits_are_those_of_a_new_account",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "ARNs in the place of names",
        reason: "absent",
        tests: &[
            "describe_table::a_table_may_be_named_by_its_arn",
            "put_item::a_table_may_be_named_by_its_arn",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "HTTP",
        reason: "no compression, no HTTP/2; invalid UTF-8 is refused in plain text",
        tests: &[
            "protocol::a_broken_gzip_request_changes_nothing",
            "protocol::a_deflate_request_is_read",
            "protocol::a_gzip_request_is_read",
            "protocol::a_large_answer_is_compressed_when_asked_for",
            "protocol::an_unknown_encoding_changes_nothing",
            "protocol::http2_is_spoken_to_clients_that_know_it",
            "protocol::invalid_utf8_is_a_client_error",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "conditions that no item meets",
        reason: "checked only against items; on an empty table anything passes, and operators are not counted",
        tests: &[
            "conditions::a_list_index_has_a_range",
            "conditions::a_path_is_not_too_deep",
            "conditions::a_wrong_operand_type_is_named",
            "conditions::a_wrong_operand_type_is_refused_not_false",
            "conditions::an_expression_has_at_most_300_operators",
            "conditions::an_operand_is_not_compared_with_itself",
            "conditions::an_unknown_type_is_refused",
            "conditions::between_takes_bounds_of_one_type_in_order",
            "conditions::deep_nesting_is_refused_and_never_crashes",
            "conditions::existence_is_asked_of_a_path",
            "conditions::functions_are_known_and_have_their_operands",
            "conditions::functions_take_a_fixed_number_of_operands",
            "conditions::in_takes_one_to_a_hundred_values",
            "conditions::keywords_have_no_case_and_functions_do",
            "conditions::names_and_values_are_defined_and_used",
            "conditions::white_space_is_free",
            "legacy::expected_is_checked",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "words of expression errors",
        reason: "projections, key conditions and misplaced functions are refused in words of its own",
        tests: &[
            "get_item::a_syntax_error_is_shown_where_it_is",
            "get_item::an_expression_is_checked_before_the_table",
            "get_item::conflicting_paths_are_refused",
            "query::a_key_condition_says_little",
            "query::a_syntax_error_is_shown_where_it_is",
            "update_item::a_default_is_not_the_attribute_itself",
            "update_item::a_path_is_a_list_or_a_map_not_both",
            "update_item::a_path_is_not_too_deep",
            "update_item::functions_of_conditions_do_not_belong_in_an_update",
            "update_table::an_index_that_exists_cannot_be_created",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "updates",
        reason: "an update that only removes creates the item; old values of a new item hold its key; touched list elements are returned as whole lists",
        tests: &[
            "legacy::attribute_updates_that_only_delete_do_not_create_the_item",
            "update_item::a_created_item_has_no_old_values",
            "update_item::an_update_that_only_deletes_from_sets_does_not_create_the_item",
            "update_item::an_update_that_only_removes_does_not_create_the_item",
            "update_item::updated_values_of_a_list_are_the_touched_elements",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "sets of numbers",
        reason: "compared as text within updates",
        tests: &[
            "numbers::equal_numbers_unite_in_a_set",
            "numbers::sets_hold_equal_numbers_once",
            "update_item::add_sums_numbers_and_unites_sets",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "index rules",
        reason: "backfill takes items with wrong keys, writes with keys that are too long pass, two indexes may be created at once, capacity of an index stays, projections are not checked or fetched",
        tests: &[
            "put_item::a_too_long_index_key_is_refused",
            "query::a_local_index_fetches_what_it_does_not_project",
            "query::a_projection_of_what_a_global_index_lacks_is_refused",
            "update_table::backfill_skips_items_whose_key_is_empty_or_too_long",
            "update_table::backfill_skips_items_without_the_key_or_with_a_key_of_another_type",
            "update_table::capacity_of_an_index_is_changed",
            "update_table::one_index_is_created_at_a_time",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "pages of one megabyte",
        reason: "the item that crosses the limit is left for the next page; AWS and DynamoDB Local include it",
        tests: &[
            "query::a_page_ends_at_one_megabyte",
            "query::a_page_ends_at_one_megabyte_before_the_filter_and_the_projection",
            "scan::a_page_ends_at_one_megabyte",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "checks that are missing",
        reason: "billing without capacity, a start key of another segment, empty keys in conditions, empty tokens, absent members, repeated TTL settings",
        tests: &[
            "batch_get_item::equal_numbers_are_one_key",
            "batch_write_item::a_request_is_a_put_or_a_delete",
            "create_table::billing_is_provisioned_unless_told",
            "query::an_empty_key_value_is_refused",
            "scan::a_start_key_belongs_to_its_segment",
            "transact_write_items::an_empty_token_is_refused",
            "transact_write_items::an_update_and_a_check_need_their_expressions",
            "update_time_to_live::an_attribute_is_required",
            "update_time_to_live::disabling_what_is_disabled_is_refused",
            "update_time_to_live::enabling_twice_is_refused",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "projections of TransactGetItems",
        reason: "the key is always added",
        tests: &["transact_get_items::a_projection_is_per_item"],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "streams",
        reason: "streams do not end, nor outlive their table; puts that change nothing are told; limits and numbers are not checked; sizes and words of its own",
        tests: &[
            "streams::a_limit_is_at_least_one",
            "streams::a_limit_is_bounded",
            "streams::a_record_says_what_it_is",
            "streams::a_sequence_number_belongs_to_two_kinds_of_iterator",
            "streams::a_start_after_the_last_shard_shows_none",
            "streams::a_stream_outlives_its_table",
            "streams::a_stream_that_is_switched_off_is_read_to_its_end",
            "streams::a_tables_stream_is_listed_and_described",
            "streams::an_iterator_of_no_ones_making_is_invalid",
            "streams::an_unknown_stream_or_shard_is_not_found",
            "streams::streams_are_listed_in_pages",
            "streams::what_changes_nothing_has_no_record",
            "streams::what_is_missing_or_too_short_is_named",
        ],
    },
    Difference {
        target: Target::Dynoxide,
        verdict: Verdict::Fails,
        what: "point-in-time recovery and backups",
        reason: "there is none",
        tests: &[
            "backups::a_backup_keeps_its_table_as_it_was",
            "backups::a_deleted_table_with_recovery_leaves_a_backup",
            "backups::backups_of_a_table_are_listed_in_pages",
            "backups::members_are_constrained",
            "continuous_backups::a_restored_table_may_differ_from_its_source",
            "continuous_backups::a_table_is_restored_to_a_moment",
            "continuous_backups::members_are_constrained",
            "continuous_backups::recovery_is_switched_on_and_off",
            "continuous_backups::what_cannot_be_restored_is_refused",
        ],
    },
];
