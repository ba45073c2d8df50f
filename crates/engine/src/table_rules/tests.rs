use std::fmt::Debug;

use larder_model::{TableClass, TableName};

use super::*;

/// A key schema's names and roles, in order.
type Elements<'a> = &'a [(&'a str, KeyRole)];

const H: KeyRole = KeyRole::Partition;
const R: KeyRole = KeyRole::Sort;
const ON_DEMAND: Option<BillingMode> = Some(BillingMode::OnDemand);
const PROVISIONED: Option<BillingMode> = Some(BillingMode::Provisioned);

/// `expected` is the error's code without `Exception`, and its message without the usual beginning.
fn check<T: Debug>(fact: &str, result: Result<T, ApiError>, expected: &str) {
    let found = match result {
        Ok(_) => "fine".to_owned(),
        Err(error) => {
            let message = error.to_string();
            let message =
                message.strip_prefix("One or more parameter values were invalid: ").unwrap_or(&message);
            match error.code() {
                "ValidationException" => message.to_owned(),
                code => format!("{}: {message}", code.trim_end_matches("Exception")),
            }
        }
    };
    assert_eq!(found, expected, "{fact}");
}

fn key(elements: Elements<'_>) -> Vec<KeyElement> {
    elements.iter().map(|(name, role)| KeyElement { name: (*name).to_owned(), role: *role }).collect()
}

/// Names, separated by spaces, of attributes of type S.
fn strings(names: &str) -> Vec<Definition> {
    names.split_whitespace().map(|name| (name.to_owned(), KeyType::S)).collect()
}

fn units(read: i64, write: i64) -> Option<Throughput> {
    Some(Throughput { read, write })
}

fn name(text: &str) -> IndexName {
    IndexName::new(text).expect("an index name")
}

fn index(text: &str, elements: Elements<'_>) -> NewIndex {
    NewIndex {
        name: name(text),
        key: key(elements),
        projection: project(ProjectionKind::All, None),
        throughput: None,
        on_demand_limits: None,
    }
}

fn project(kind: ProjectionKind, names: Option<&str>) -> Option<ProjectionSpecification> {
    let names = names.map(|names| names.split_whitespace().map(str::to_owned).collect());
    Some(ProjectionSpecification { kind: Some(kind), names })
}

/// An on-demand table with these definitions and this key.
fn create(definitions: &str, elements: Elements<'_>) -> CreateTable {
    CreateTable {
        table: TableName::new("orders").expect("a table name"),
        attributes: strings(definitions),
        key: key(elements),
        local_indexes: None,
        global_indexes: None,
        billing_mode: ON_DEMAND,
        throughput: None,
        on_demand_limits: None,
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: None,
        tags: Vec::new(),
        policy: None,
    }
}

fn update() -> UpdateTable {
    UpdateTable {
        table: TableName::new("orders").expect("a table name"),
        attributes: Vec::new(),
        billing_mode: None,
        throughput: None,
        on_demand_limits: None,
        index_changes: None,
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: None,
    }
}

/// A table with a local index `local` and global indexes `first` and `second`.
fn on_demand_table() -> TableDefinition {
    new_table(&CreateTable {
        local_indexes: Some(vec![index("local", &[("pk", H), ("l", R)])]),
        global_indexes: Some(vec![index("first", &[("g", H)]), index("second", &[("g", H), ("sk", R)])]),
        ..create("pk sk l g", &[("pk", H), ("sk", R)])
    })
    .expect("a good table")
}

/// The same, with 5 read and 5 write units each.
fn provisioned_table() -> TableDefinition {
    let mut table = on_demand_table();
    table.billing = Billing::Provisioned(Throughput { read: 5, write: 5 });
    for index in table.indexes.iter_mut().filter(|index| index.kind == IndexKind::Global) {
        index.throughput = Throughput { read: 5, write: 5 };
    }
    table
}

fn new(index: NewIndex) -> IndexChange {
    IndexChange::Create(index)
}

fn raise(text: &str, throughput: Option<Throughput>) -> IndexChange {
    IndexChange::Update { name: name(text), throughput, on_demand_limits: None }
}

fn limit(text: &str, on_demand_limits: Option<Throughput>) -> IndexChange {
    IndexChange::Update { name: name(text), throughput: None, on_demand_limits }
}

fn drop_index(text: &str) -> IndexChange {
    IndexChange::Delete { name: name(text) }
}

fn reindex(definitions: &str, changes: Vec<IndexChange>) -> UpdateTable {
    UpdateTable { attributes: strings(definitions), index_changes: Some(changes), ..update() }
}

fn stream(enabled: bool, view: Option<StreamView>) -> Option<StreamSpecification> {
    Some(StreamSpecification { enabled, view })
}

fn encrypt(enabled: Option<bool>, kms: bool, kms_key: Option<&str>) -> Option<EncryptionSpecification> {
    Some(EncryptionSpecification { enabled, kms, kms_key: kms_key.map(str::to_owned) })
}

#[test]
fn a_new_table_is_as_it_was_asked_for() {
    let table = on_demand_table();
    assert_eq!(table.attributes, strings("pk sk l g"));
    assert_eq!(
        table.key.attributes().map(|attribute| attribute.name.as_str()).collect::<Vec<_>>(),
        ["pk", "sk"]
    );
    let indexes: Vec<_> = table.indexes.iter().map(|index| (index.name.as_str(), index.kind)).collect();
    assert_eq!(
        indexes,
        [("local", IndexKind::Local), ("first", IndexKind::Global), ("second", IndexKind::Global)]
    );
    assert_eq!(table.billing, Billing::OnDemand);
}

#[test]
fn billing_of_a_new_table() {
    const BOTH: &str =
        "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED";
    let max = UNITS_MAX;
    let cases = [
        ("on demand", ON_DEMAND, None, "fine"),
        ("on demand with units", ON_DEMAND, units(1, 1), NO_UNITS_ON_DEMAND),
        ("provisioned", PROVISIONED, units(max, max), "fine"),
        ("units alone", None, units(1, 1), "fine"),
        ("provisioned without units", PROVISIONED, None, BOTH),
        ("nothing", None, None, BOTH),
        (
            "too many",
            None,
            units(max + 1, max + 1),
            "Given value 1000000000001 for ReadCapacityUnits is out of bounds",
        ),
        (
            "too many writes",
            None,
            units(max, max + 1),
            "Given value 1000000000001 for WriteCapacityUnits is out of bounds",
        ),
    ];
    for (fact, billing_mode, throughput, expected) in cases {
        let request = CreateTable { billing_mode, throughput, ..create("pk", &[("pk", H)]) };
        check(fact, new_table(&request), expected);
    }
}

#[test]
fn on_demand_limits_need_on_demand_billing_and_a_positive_value() {
    let range = "Requested MaxReadRequestUnits for OnDemandThroughput for table is outside of valid range";
    let cases = [
        ("both", ON_DEMAND, units(10, 5), "fine"),
        ("write alone", ON_DEMAND, units(-1, 5), "fine"),
        ("zero", ON_DEMAND, units(0, 5), range),
        ("negative", ON_DEMAND, units(-2, -2), range),
        (
            "provisioned",
            PROVISIONED,
            units(10, 10),
            "MaxReadRequestUnits for OnDemandThroughput cannot be specified when table BillingMode is PROVISIONED.",
        ),
        (
            "the first that is there is named",
            None,
            units(-1, 10),
            "MaxWriteRequestUnits for OnDemandThroughput cannot be specified when table BillingMode is PROVISIONED.",
        ),
    ];
    for (fact, billing_mode, on_demand_limits, expected) in cases {
        let throughput = if billing_mode == ON_DEMAND { None } else { units(1, 1) };
        let request =
            CreateTable { billing_mode, throughput, on_demand_limits, ..create("pk", &[("pk", H)]) };
        check(fact, new_table(&request), expected);
    }
    let none = CreateTable { on_demand_limits: units(-1, -1), ..create("pk", &[("pk", H)]) };
    assert_eq!(new_table(&none).expect("a good table").on_demand_limits, None);
}

#[test]
fn the_key_of_a_table() {
    let same = "Both the Hash Key and the Range Key element in the KeySchema have the same name";
    let first = "Invalid KeySchema: The first KeySchemaElement is not a HASH key type";
    let second = "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type";
    let count = "Number of attributes in KeySchema does not exactly match number of attributes defined in \
                 AttributeDefinitions";
    let undefined = "Some index key attributes are not defined in AttributeDefinitions. ";
    let cases: [(&str, Elements<'_>, &str); 14] = [
        ("a", &[("a", H)], "fine"),
        ("b a", &[("a", H), ("b", R)], "fine"),
        ("", &[("a", H)], NO_DEFINITION),
        ("b", &[("a", H), ("b", R)], NO_DEFINITION),
        ("a", &[("a", H), ("a", R)], NO_DEFINITION),
        ("b", &[("a", H)], &format!("{undefined}Keys: [a], AttributeDefinitions: [b]")),
        ("b c", &[("a", H), ("b", R)], &format!("{undefined}Keys: [a, b], AttributeDefinitions: [b, c]")),
        ("a b", &[("a", H), ("a", H)], same),
        ("a b", &[("a", H), ("b", H)], second),
        ("a b", &[("a", R), ("b", H)], first),
        ("a b", &[("a", R), ("b", R)], first),
        ("a b", &[("a", H)], count),
        ("a c b", &[("a", H), ("b", R)], count),
        ("a a", &[("a", H)], "Attribute Name is duplicated: a"),
    ];
    for (definitions, elements, expected) in cases {
        check(&format!("[{definitions}] {elements:?}"), new_table(&create(definitions, elements)), expected);
    }
}

#[test]
fn an_index_key_without_a_definition_is_reported_for_the_first_index() {
    let undefined = "Some index key attributes are not defined in AttributeDefinitions. ";
    let one = |elements: Elements<'_>| vec![index("one", elements)];
    let two = || vec![index("one", &[("a", H), ("b", R)]), index("two", &[("c", H), ("z", R)])];
    let cases = [
        (
            "PK h a",
            one(&[("h", H), ("a", R), ("zz", R)]),
            "Keys: [h, zz, a], AttributeDefinitions: [h, a, PK]",
        ),
        ("PK a c", two(), "Keys: [a, b], AttributeDefinitions: [a, PK, c]"),
        ("PK a b c", two(), "Keys: [z, c], AttributeDefinitions: [a, b, PK, c]"),
        (
            "PK w x y",
            one(&[("w", H), ("x", R), ("y", R), ("q", R)]),
            "Keys: [x, y, q, w], AttributeDefinitions: [x, y, PK, w]",
        ),
        ("PK a spare", one(&[("a", H), ("b", R)]), "Keys: [a, b], AttributeDefinitions: [a, PK, spare]"),
    ];
    for (definitions, indexes, lists) in cases {
        let request = CreateTable { global_indexes: Some(indexes), ..create(definitions, &[("PK", H)]) };
        check(definitions, new_table(&request), &format!("{undefined}{lists}"));
    }
    let fewer = CreateTable {
        global_indexes: Some(one(&[("a", H), ("m", R), ("n", R)])),
        ..create("PK a", &[("PK", H)])
    };
    check("fewer definitions than key attributes", new_table(&fewer), NO_DEFINITION);
    let local = CreateTable {
        local_indexes: Some(one(&[("pk", H), ("l", R)])),
        ..create("pk sk", &[("pk", H), ("sk", R)])
    };
    let lists = "Keys: [l, pk], AttributeDefinitions: [sk, pk]";
    check("a local index", new_table(&local), &format!("{undefined}{lists}"));
}

#[test]
fn unused_definitions_beside_an_index_are_listed_in_hash_order() {
    let pair = |name: &str, partition: &str, sort: &str| index(name, &[(partition, H), (sort, R)]);
    let sixteen: Vec<String> = (1..=14).map(|at| format!("g{at}")).collect();
    let sixteen_indexes =
        sixteen.chunks(2).map(|names| pair(&format!("by-{}", names[0]), &names[0], &names[1]));
    let cases = [
        ("PK h a unused", vec![pair("one", "h", "a")], "[h, a, unused, PK], keys used: [a, h, PK]"),
        (
            "PK a b c d u1",
            vec![pair("one", "a", "b"), pair("two", "c", "d")],
            "[a, b, PK, c, d, u1], keys used: [a, b, c, d, PK]",
        ),
        (
            "PK a b c d u1 u2",
            vec![pair("one", "a", "b"), pair("two", "c", "d")],
            "[a, b, c, d, PK, u1, u2], keys used: [a, b, c, d, PK]",
        ),
        (
            "orderId customerId status createdAt notUsed",
            vec![pair("one", "customerId", "createdAt"), index("two", &[("status", H)])],
            "[customerId, createdAt, notUsed, orderId, status], keys used: [createdAt, orderId, customerId, status]",
        ),
        (
            &format!("PK {} u1", sixteen.join(" ")),
            sixteen_indexes.collect(),
            "[g11, g10, g13, g12, g1, g2, g14, g3, g4, g5, g6, g7, g8, g9, PK, u1], keys used: [g11, g10, g13, \
             g12, g1, g2, g14, g3, g4, g5, g6, g7, g8, g9, PK]",
        ),
    ];
    for (definitions, indexes, lists) in cases {
        let partition_key = definitions.split(' ').next().expect("a first name");
        let request =
            CreateTable { global_indexes: Some(indexes), ..create(definitions, &[(partition_key, H)]) };
        let unused = "Some AttributeDefinitions are not used. AttributeDefinitions: ";
        check(definitions, new_table(&request), &format!("{unused}{lists}"));
    }
}

#[test]
fn an_empty_list_of_indexes_is_not_a_missing_one() {
    let local = CreateTable { local_indexes: Some(vec![]), ..create("a b", &[("a", H)]) };
    check("local", new_table(&local), "List of LocalSecondaryIndexes is empty");
    let global = CreateTable { global_indexes: Some(vec![]), ..create("a b", &[("a", H)]) };
    check("global", new_table(&global), "List of GlobalSecondaryIndexes is empty");
}

#[test]
fn a_local_index_shares_the_partition_key_and_has_a_sort_key() {
    let same = "Both the Hash Key and the Range Key element in the KeySchema have the same name";
    let cases: [(Elements<'_>, &str); 6] = [
        (&[("a", H), ("b", R)], "fine"),
        (&[("a", R)], "Invalid KeySchema: The first KeySchemaElement is not a HASH key type"),
        (&[("a", H), ("a", R)], same),
        (&[("a", H), ("b", H)], "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type"),
        (&[("b", H)], "Index KeySchema does not have a range key for index: one"),
        (
            &[("b", H), ("a", R)],
            "Index KeySchema does not have the same leading hash key as table KeySchema for index: one. index \
             hash key: b, table hash key: a",
        ),
    ];
    for (elements, expected) in cases {
        let request = CreateTable {
            local_indexes: Some(vec![index("one", elements)]),
            ..create("a b", &[("a", H), ("b", R)])
        };
        check(&format!("{elements:?}"), new_table(&request), expected);
    }
    let no_sort =
        CreateTable { local_indexes: Some(vec![index("one", &[("c", R)])]), ..create("a b", &[("a", H)]) };
    check(
        "a table without a sort key",
        new_table(&no_sort),
        "Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex",
    );
}

#[test]
fn a_global_index_key_has_up_to_four_attributes_of_each_role() {
    let many = "The KeySchema contains multiple key attributes with the same name";
    let cases: [(&str, Elements<'_>, &str); 8] = [
        (
            "a b c d e f g h",
            &[("a", H), ("b", H), ("c", H), ("d", H), ("e", R), ("f", R), ("g", R), ("h", R)],
            "fine",
        ),
        (
            "a b c d e",
            &[("a", H), ("b", H), ("c", H), ("d", H), ("e", H)],
            "The KeySchema exceeds the maximum allowed number of HASH key attributes",
        ),
        (
            "a b c d e f",
            &[("a", H), ("b", R), ("c", R), ("d", R), ("e", R), ("f", R)],
            "The KeySchema exceeds the maximum allowed number of RANGE key attributes",
        ),
        ("a b", &[("a", H), ("b", R), ("b", R)], many),
        ("a", &[("a", H), ("a", H)], many),
        (
            "a",
            &[("a", H), ("a", R)],
            "Both the Hash Key and the Range Key element in the KeySchema have the same name",
        ),
        (
            "a b c",
            &[("a", H), ("b", R), ("c", H)],
            "All HASH key attributes must precede RANGE key attributes in the KeySchema",
        ),
        (
            "a b",
            &[("a", R), ("b", H)],
            "Invalid KeySchema: The first KeySchemaElement is not a HASH key type",
        ),
    ];
    for (names, elements, expected) in cases {
        let request = CreateTable {
            global_indexes: Some(vec![index("one", elements)]),
            ..create(&format!("pk {names}"), &[("pk", H)])
        };
        check(&format!("create {elements:?}"), new_table(&request), expected);
        let request = reindex(names, vec![new(index("third", elements))]);
        check(&format!("update {elements:?}"), change_table(&on_demand_table(), false, &request), expected);
    }
}

#[test]
fn projections_name_attributes_when_and_only_when_they_include_them() {
    let cases = [
        (None, "Unknown ProjectionType: null"),
        (
            Some(ProjectionSpecification { kind: None, names: Some(vec!["x".into()]) }),
            "Unknown ProjectionType: null",
        ),
        (project(ProjectionKind::All, Some("x")), "ProjectionType is ALL, but NonKeyAttributes is specified"),
        (
            project(ProjectionKind::KeysOnly, Some("x")),
            "ProjectionType is KEYS_ONLY, but NonKeyAttributes is specified",
        ),
        (
            project(ProjectionKind::Include, None),
            "ProjectionType is INCLUDE, but NonKeyAttributes is not specified",
        ),
        (project(ProjectionKind::Include, Some("x y x")), "Duplicate element in NonKeyAttributes: x"),
        (project(ProjectionKind::Include, Some("pk x")), "fine"),
    ];
    for (projection, expected) in cases {
        let index = NewIndex { projection, ..index("one", &[("pk", H), ("sk", R)]) };
        let table = || create("pk sk", &[("pk", H), ("sk", R)]);
        let local = CreateTable { local_indexes: Some(vec![index.clone()]), ..table() };
        check(&format!("local {:?}", index.projection), new_table(&local), expected);
        let global = CreateTable { global_indexes: Some(vec![index.clone()]), ..table() };
        check(&format!("global {:?}", index.projection), new_table(&global), expected);
    }
}

#[test]
fn all_indexes_together_name_at_most_a_hundred_attributes() {
    let naming = |count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("n{at}")).collect();
        project(ProjectionKind::Include, Some(&names.join(" ")))
    };
    for (counts, fine) in [([50, 50], true), ([50, 51], false)] {
        let indexes = [("one", counts[0]), ("two", counts[1])]
            .map(|(text, count)| NewIndex { projection: naming(count), ..index(text, &[("pk", H)]) });
        let request = CreateTable { global_indexes: Some(indexes.into()), ..create("pk", &[("pk", H)]) };
        assert_eq!(new_table(&request).is_ok(), fine, "{counts:?}");
    }
}

#[test]
fn indexes_have_different_names_and_are_not_too_many() {
    let table = || create("a b", &[("a", H), ("b", R)]);
    let indexes =
        |count: usize| (0..count).map(|at| index(&format!("index{at}"), &[("a", H), ("b", R)])).collect();
    let cases = [
        (Some(indexes(5)), None, "fine"),
        (Some(indexes(6)), None, "Number of LocalSecondaryIndexes exceeds per-table limit of 5"),
        (None, Some(indexes(20)), "fine"),
        (None, Some(indexes(21)), "GlobalSecondaryIndex count exceeds the per-table limit of 20"),
        (Some(indexes(1)), Some(indexes(1)), "Duplicate index name: index0"),
    ];
    for (local_indexes, global_indexes, expected) in cases {
        let request = CreateTable { local_indexes, global_indexes, ..table() };
        check(expected, new_table(&request), expected);
    }
}

#[test]
fn units_of_a_new_global_index_follow_the_billing() {
    let cases = [
        (None, units(2, 2), None, "fine"),
        (None, None, None, "ProvisionedThroughput is not specified for index: one"),
        (
            None,
            units(2, UNITS_MAX + 1),
            None,
            "Given value 1000000000001 for WriteCapacityUnits is out of bounds for index one",
        ),
        (
            None,
            units(2, 2),
            units(10, 10),
            "MaxReadRequestUnits for OnDemandThroughput for index: one cannot be specified when table \
             BillingMode is PROVISIONED.",
        ),
        (ON_DEMAND, None, units(10, 10), "fine"),
        (
            ON_DEMAND,
            units(2, 2),
            None,
            "ProvisionedThroughput should not be specified for index: one when BillingMode is PAY_PER_REQUEST",
        ),
        (
            ON_DEMAND,
            None,
            units(0, 10),
            "Requested MaxReadRequestUnits for OnDemandThroughput for index : one is outside of valid range",
        ),
    ];
    for (billing_mode, throughput, on_demand_limits, expected) in cases {
        let request = CreateTable {
            billing_mode,
            throughput: if billing_mode == ON_DEMAND { None } else { units(1, 1) },
            global_indexes: Some(vec![NewIndex {
                throughput,
                on_demand_limits,
                ..index("one", &[("pk", H)])
            }]),
            ..create("pk", &[("pk", H)])
        };
        check(expected, new_table(&request), expected);
    }
}

#[test]
fn a_new_stream_has_a_view() {
    let view = Some(StreamView::NewImage);
    let cases = [
        (stream(true, view), "fine"),
        (stream(false, None), "fine"),
        (stream(true, None), "Table is being created with a stream enabled, UpdateViewType is required"),
        (
            stream(false, view),
            "Table is being created with a stream disabled, UpdateViewType should not be specified",
        ),
    ];
    for (stream, expected) in cases {
        check(expected, new_table(&CreateTable { stream, ..create("pk", &[("pk", H)]) }), expected);
    }
}

#[test]
fn a_key_encrypts_only_when_encryption_is_on() {
    let cases = [
        (encrypt(Some(true), false, None), "fine"),
        (encrypt(Some(true), true, Some("alias/mine")), "fine"),
        (encrypt(Some(false), false, None), "fine"),
        (encrypt(Some(false), true, None), "SSEType can not be specified if Enabled is false"),
        (encrypt(None, false, Some("alias/mine")), "KMSMasterKeyId can not be specified if Enabled is false"),
        (
            encrypt(Some(true), false, Some("alias/mine")),
            "SSEType KMS is required if KMSMasterKeyId is specified",
        ),
    ];
    for (encryption, expected) in cases {
        check(expected, new_table(&CreateTable { encryption, ..create("pk", &[("pk", H)]) }), expected);
    }
}

#[test]
fn tags_have_good_keys_and_values_and_are_at_most_fifty() {
    let tags = |range: std::ops::Range<usize>| -> Vec<(String, String)> {
        range.map(|at| (format!("key{at}"), String::new())).collect()
    };
    let one = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let (key, value) = ("k".repeat(129), "v".repeat(257));
    let full = merge_tags(&Tags::new(), &tags(0..50)).expect("fifty tags");
    let cases = [
        ("letters of any script", one("ключ 表", "a b+c-d=e.f_g:h/i@j"), "fine"),
        ("as long as can be", one(&key[1..], &value[1..]), "fine"),
        ("an old key", tags(7..8), "fine"),
        ("one more", tags(50..51), "Number of Tags exceed the current limit for the provided ResourceArn"),
        ("too many", tags(0..51), "Number of Tags exceed the current limit for the provided ResourceArn"),
        ("no key", one("", "v"), "The Tag Key provided is invalid, Key: "),
        ("long key", one(&key, "v"), &format!("The Tag Key provided is invalid, Key: {key}")),
        ("odd key", one("bad#char", "v"), "The Tag Key provided is invalid, Key: bad#char"),
        ("long value", one("k", &value), &format!("The Tag Value provided is invalid, Value: {value}")),
        ("odd value", one("k", "100%"), "The Tag Value provided is invalid, Value: 100%"),
        ("reserved", one("aws:foo", "v"), "Tag Key cannot be prefixed with aws:, Key: aws:foo"),
        (
            "twice",
            [tags(1..2), tags(1..2)].concat(),
            "Duplicate Tag Keys provided as input: Duplicate Tag Key found key1",
        ),
    ];
    for (fact, new, expected) in cases {
        let current = if fact == "an old key" || fact == "one more" { &full } else { &Tags::new() };
        check(fact, merge_tags(current, &new), expected);
    }
}

#[test]
fn an_update_asks_for_something() {
    let nothing = "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, \
                   GlobalSecondaryIndexUpdates, SSESpecification, ReplicaUpdates, MultiAccountReplicaReady, \
                   ReplicaTransitRoleArn, MultiRegionConsistency, DeletionProtectionEnabled, \
                   OnDemandThroughput, WarmThroughput or TableClass is required";
    check("nothing", check_update(&update()), nothing);
    check("an empty list", check_update(&reindex("pk", vec![])), nothing);
    let protect = UpdateTable { deletion_protection: Some(true), ..reindex("", vec![]) };
    check("an empty list and more", check_update(&protect), "List of GlobalSecondaryIndexUpdates is empty");
}

#[test]
fn kinds_of_change_that_go_alone_are_refused_together() {
    let protect = || UpdateTable { deletion_protection: Some(true), ..update() };
    let class = Some(TableClass::Standard);
    let streaming = || UpdateTable { stream: stream(true, Some(StreamView::NewImage)), ..update() };
    let adding = || reindex("x", vec![new(index("third", &[("x", H)]))]);
    let (iops_index, iops_stream) = (
        "You cannot create or delete index while updating table IOPS",
        "You cannot modify stream status while updating table IOPS",
    );
    let cases = [
        (
            UpdateTable { encryption: encrypt(Some(true), false, None), class, ..protect() },
            "Server-Side Encryption modification must be the only operation in the request",
        ),
        (
            UpdateTable { class, ..protect() },
            "TableClass modification must be the only operation in the request",
        ),
        (
            UpdateTable { deletion_protection: Some(true), ..adding() },
            "DeletionProtection modification must be the only operation in the request",
        ),
        (
            UpdateTable { on_demand_limits: units(10, 10), ..streaming() },
            "OnDemandThroughput can only be combined with BillingMode in an UpdateTable request",
        ),
        (UpdateTable { throughput: units(9, 9), ..streaming() }, iops_stream),
        (UpdateTable { billing_mode: PROVISIONED, throughput: units(9, 9), ..streaming() }, iops_stream),
        (UpdateTable { throughput: units(9, 9), ..adding() }, iops_index),
        (UpdateTable { throughput: units(9, 9), ..reindex("", vec![drop_index("first")]) }, iops_index),
        (
            UpdateTable { stream: streaming().stream, ..adding() },
            "You cannot create or delete index while changing stream status",
        ),
        (UpdateTable { billing_mode: ON_DEMAND, ..streaming() }, "fine"),
        (UpdateTable { billing_mode: ON_DEMAND, on_demand_limits: units(10, 10), ..update() }, "fine"),
        (UpdateTable { billing_mode: ON_DEMAND, ..adding() }, "fine"),
    ];
    for (request, expected) in cases {
        check(expected, change_table(&provisioned_table(), false, &request), expected);
    }
}

#[test]
fn billing_changes_with_the_units_it_needs() {
    let unchanged = "The provisioned throughput for the table will not change. The requested value equals the \
                     current value. Current ReadCapacityUnits provisioned for the table: 5. Requested \
                     ReadCapacityUnits: 5. Current WriteCapacityUnits provisioned for the table: 5. Requested \
                     WriteCapacityUnits: 5. Refer to the Amazon DynamoDB Developer Guide for current limits \
                     and how to request higher limits.";
    let required = "ProvisionedThroughput must be specified when BillingMode is PROVISIONED";
    let (metered, free) = (provisioned_table(), on_demand_table());
    let cases = [
        (&metered, None, units(5, 6), "fine"),
        (&metered, None, units(5, 5), unchanged),
        (&metered, PROVISIONED, units(5, 5), unchanged),
        (&metered, PROVISIONED, None, required),
        (&metered, ON_DEMAND, None, "fine"),
        (&metered, ON_DEMAND, units(5, 5), NO_UNITS_ON_DEMAND),
        (
            &metered,
            None,
            units(UNITS_MAX + 1, 1),
            "Given value 1000000000001 for ReadCapacityUnits is out of bounds",
        ),
        (&free, None, units(5, 5), NO_UNITS_ON_DEMAND),
        (&free, ON_DEMAND, None, "fine"),
        (&free, PROVISIONED, None, required),
        (&free, PROVISIONED, units(5, 5), "ProvisionedThroughput must be specified for index: first,second"),
    ];
    for (table, billing_mode, throughput, expected) in cases {
        let request = UpdateTable { billing_mode, throughput, ..update() };
        check(expected, change_table(table, false, &request), expected);
    }
}

#[test]
fn a_billing_switch_reaches_the_indexes() {
    let mut free = on_demand_table();
    free.on_demand_limits = units(9, 9);
    free.indexes[1].on_demand_limits = units(9, 9);
    let request = UpdateTable {
        billing_mode: PROVISIONED,
        throughput: units(5, 5),
        ..reindex("", vec![raise("first", units(5, 5)), raise("second", units(5, 5))])
    };
    let metered = change_table(&free, false, &request).expect("a good switch").definition;
    assert_eq!(metered, provisioned_table());

    let request = UpdateTable { billing_mode: ON_DEMAND, ..update() };
    let back = change_table(&metered, false, &request).expect("a good switch").definition;
    assert_eq!(back, on_demand_table());
}

#[test]
fn on_demand_limits_of_a_table_can_be_set_and_lifted() {
    let gate = "MaxReadRequestUnits for OnDemandThroughput cannot be specified when the table BillingMode is \
                PROVISIONED";
    let range = "Requested MaxWriteRequestUnits for OnDemandThroughput for table is outside of valid range";
    let cases = [
        (on_demand_table(), units(10, 5), "fine"),
        (on_demand_table(), units(-1, -1), "fine"),
        (on_demand_table(), units(1, 0), range),
        (provisioned_table(), units(10, 10), gate),
        (provisioned_table(), units(0, 0), gate),
    ];
    for (mut table, on_demand_limits, expected) in cases {
        if table.billing == Billing::OnDemand {
            table.on_demand_limits = units(7, 7);
        }
        let change = change_table(&table, false, &UpdateTable { on_demand_limits, ..update() });
        if let Ok(change) = &change {
            let kept = on_demand_limits.filter(|limits| limits.read != UNLIMITED);
            assert_eq!(change.definition.on_demand_limits, kept);
        }
        check(expected, change, expected);
    }
}

#[test]
fn one_index_is_built_or_removed_at_a_time() {
    let limit = format!("LimitExceeded: {ONE_ONLINE_INDEX}");
    let third = || new(index("third", &[("x", H)]));
    let fourth = || new(index("fourth", &[("x", H)]));
    let cases = [
        ("two new ones", vec![third(), fourth()], false, limit.as_str()),
        ("a new and an old one", vec![third(), drop_index("first")], false, &limit),
        ("many that are not there", vec![drop_index("aaa"), drop_index("bbb")], false, &limit),
        ("a new one beside another", vec![third()], true, &limit),
        ("an old one beside another", vec![drop_index("first")], true, &limit),
        ("units meanwhile", vec![raise("first", units(6, 6))], true, "fine"),
        ("units of several", vec![raise("first", units(6, 6)), raise("second", units(6, 6))], false, "fine"),
        (
            "one index twice",
            vec![drop_index("first"), raise("first", units(6, 6))],
            false,
            "Only one global secondary index update per index is allowed simultaneously. Index: first",
        ),
    ];
    for (fact, changes, building, expected) in cases {
        check(fact, change_table(&provisioned_table(), building, &reindex("x", changes)), expected);
    }
}

#[test]
fn a_new_index_of_an_old_table() {
    let third = |throughput| NewIndex { throughput, ..index("third", &[("x", H)]) };
    let (metered, free) = (provisioned_table(), on_demand_table());
    let undefined = "Some index key attributes are not defined in AttributeDefinitions. Keys: [x], \
                     AttributeDefinitions: [pk]";
    let exists = "Attempting to create an index which already exists";
    let cases = [
        (&free, "x", third(None), "fine"),
        (&free, "", third(None), "AttributeDefinitions is not specified for index: third"),
        (&free, "pk", third(None), undefined),
        (&free, "x", index("third", &[("x", H), ("pk", R)]), NO_DEFINITION),
        (&free, "x", index("first", &[("x", H)]), exists),
        (&free, "x", index("local", &[("y", R)]), exists),
        (
            &free,
            "x",
            third(units(1, 1)),
            "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for index: third when \
             BillingMode is PAY_PER_REQUEST",
        ),
        (&metered, "x", third(units(1, 1)), "fine"),
        (
            &metered,
            "x",
            third(None),
            "Both ReadCapacityUnits and WriteCapacityUnits must be specified for index: third",
        ),
    ];
    for (table, definitions, index, expected) in cases {
        check(expected, change_table(table, false, &reindex(definitions, vec![new(index)])), expected);
    }

    let mut full = on_demand_table();
    let mut spare = full.indexes[1].clone();
    for at in 2..GLOBAL_INDEXES_MAX {
        spare.name = name(&format!("index{at}"));
        full.indexes.push(spare.clone());
    }
    check(
        "the twenty-first",
        change_table(&full, false, &reindex("x", vec![new(third(None))])),
        "LimitExceeded: Subscriber limit exceeded: Number of global secondary indexes exceeds per-table limit \
         of 20",
    );
}

#[test]
fn changes_to_indexes_that_are_not_global_or_not_there() {
    let missing = "ResourceNotFound: Requested resource not found: Index ghost for table orders";
    let cases = [
        (drop_index("ghost"), missing),
        (raise("ghost", units(1, 1)), missing),
        (drop_index("local"), "Cannot delete an index that is not a GlobalSecondaryIndex: local"),
        (raise("local", units(1, 1)), "Cannot update an index that is not a GlobalSecondaryIndex: local"),
        (
            raise("ghost", units(UNITS_MAX + 1, 1)),
            "This operation cannot be performed with given input values. Please contact DynamoDB service team \
             for more info: Action Blocked: IndexUpdate",
        ),
    ];
    for (change, expected) in cases {
        check(expected, change_table(&provisioned_table(), false, &reindex("", vec![change])), expected);
    }
}

#[test]
fn updates_of_an_index_follow_the_billing() {
    let only = "The only Updates for index: first when TableThroughputMode is PAY_PER_REQUEST can be to \
                OnDemandThroughput, WarmThroughput";
    let unchanged = "The provisioned throughput for the index first will not change. The requested value \
                     equals the current value. Current ReadCapacityUnits provisioned for index first: 5. \
                     Requested ReadCapacityUnits: 5. Current WriteCapacityUnits provisioned for index first: \
                     5. Requested WriteCapacityUnits: 5. Refer to the Amazon DynamoDB Developer Guide for \
                     current limits and how to request higher limits.";
    let (metered, free) = (provisioned_table(), on_demand_table());
    let cases = [
        (&metered, raise("first", units(5, 6)), "fine"),
        (&metered, raise("first", units(5, 5)), unchanged),
        (
            &metered,
            raise("first", None),
            "Both ReadCapacityUnits and WriteCapacityUnits must be specified for index: first",
        ),
        (
            &metered,
            limit("first", units(5, 5)),
            "MaxReadRequestUnits for OnDemandThroughput for index: first cannot be specified when the table \
             BillingMode is PROVISIONED",
        ),
        (&free, raise("first", units(5, 5)), only),
        (&free, raise("first", None), only),
        (&free, limit("first", units(5, 5)), "fine"),
        (&free, limit("first", units(-1, -1)), "fine"),
    ];
    for (table, change, expected) in cases {
        check(expected, change_table(table, false, &reindex("", vec![change])), expected);
    }
}

#[test]
fn definitions_follow_the_indexes_and_keep_their_types() {
    let request = |pk: KeyType| UpdateTable {
        // What the index does not use is let be.
        attributes: [("pk", pk), ("x", KeyType::N), ("sk", KeyType::N), ("spare", KeyType::S)]
            .map(|(name, kind)| (name.to_owned(), kind))
            .to_vec(),
        ..reindex("", vec![new(index("third", &[("x", H), ("pk", R)]))])
    };
    check(
        "pk is a string",
        change_table(&on_demand_table(), false, &request(KeyType::N)),
        "Attributes cannot be redefined. Please check that your \
         attribute has the same type as previously defined. Existing schema: Schema:[SchemaElement: \
         key{pk:S:HASH}, SchemaElement: key{sk:S:RANGE}] New schema: Schema:[SchemaElement: key{x:N:HASH}, \
         SchemaElement: key{pk:N:RANGE}]",
    );
    let change = change_table(&on_demand_table(), false, &request(KeyType::S)).expect("a good index");
    assert_eq!(change.created_index, Some(name("third")));
    let mut expected = strings("pk sk l g");
    expected.push(("x".to_owned(), KeyType::N));
    assert_eq!(change.definition.attributes, expected);
    let key = &change.definition.index("third").expect("the new index").key;
    assert_eq!((key.partition[0].kind, key.sort[0].kind), (KeyType::N, KeyType::S));

    let dropped = |table: &TableDefinition, text: &str| {
        let change =
            change_table(table, false, &reindex("q", vec![drop_index(text)])).expect("a good change");
        assert_eq!(change.deleted_index, Some(name(text)));
        change.definition
    };
    let without_first = dropped(&on_demand_table(), "first");
    assert_eq!(without_first.attributes, strings("pk sk l g"), "the other index still uses g");
    assert_eq!(dropped(&without_first, "second").attributes, strings("pk sk l"));
}

#[test]
fn a_stream_is_switched_on_once_and_off_once() {
    let view = Some(StreamView::KeysOnly);
    let plain = on_demand_table();
    let streaming = TableDefinition { stream: view, ..on_demand_table() };
    let cases = [
        (&plain, stream(true, view), "fine"),
        (&plain, stream(true, None), "If stream is being enabled then UpdateViewType is required"),
        (&plain, stream(false, None), "Table has no stream to disable: TableName: orders"),
        (&streaming, stream(true, view), "Table already has an enabled stream: TableName: orders"),
        (
            &streaming,
            stream(true, Some(StreamView::NewImage)),
            "Table already has an enabled stream: TableName: orders",
        ),
        (&streaming, stream(false, None), "fine"),
        (
            &streaming,
            stream(false, view),
            "If stream is being disabled, then UpdateViewType must not be specified",
        ),
    ];
    for (table, stream, expected) in cases {
        let change = change_table(table, false, &UpdateTable { stream, ..update() });
        if let Ok(change) = &change {
            assert_eq!(change.stream_switched, table.stream.is_none());
            assert_eq!(change.definition.stream.is_some(), table.stream.is_none());
        }
        check(expected, change, expected);
    }
}

#[test]
fn encryption_changes_to_another_key() {
    let arn = "arn:aws:kms:us-east-1:000000000000:key/one";
    let keyed = |key: &str| TableDefinition {
        encryption: Some(Encryption { kms_key: Some(key.to_owned()) }),
        ..on_demand_table()
    };
    let cases = [
        (on_demand_table(), encrypt(Some(true), false, None), "fine"),
        (on_demand_table(), encrypt(Some(false), false, None), "Table is already encrypted by default"),
        (on_demand_table(), encrypt(None, false, None), "Table is already encrypted by default"),
        (keyed(arn), encrypt(Some(false), false, None), "fine"),
        (keyed("alias/one"), encrypt(Some(true), true, Some("alias/one")), "fine"),
        (
            keyed(arn),
            encrypt(Some(true), true, Some(arn)),
            "Table is already encrypted with given KMSMasterKeyId. Use KMSMasterKeyId parameter if you want to \
             change Master Key",
        ),
    ];
    for (table, encryption, expected) in cases {
        check(expected, change_table(&table, false, &UpdateTable { encryption, ..update() }), expected);
    }
}

#[test]
fn class_and_protection_can_be_set_to_what_they_are() {
    let class = Some(TableClass::StandardInfrequentAccess);
    let mut table = on_demand_table();
    for _ in 0..2 {
        let request = UpdateTable { class, ..update() };
        table = change_table(&table, false, &request).expect("a good change").definition;
        let request = UpdateTable { deletion_protection: Some(true), ..update() };
        table = change_table(&table, false, &request).expect("a good change").definition;
    }
    assert_eq!((table.class, table.deletion_protection), (class, true));
}
