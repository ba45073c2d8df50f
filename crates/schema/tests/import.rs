//! What is imported is what was there: tables, keys, indexes and settings exactly, entities as far as keys and values
//! tell.

use std::path::Path;

use larder_model::{
    AttributeValue, Billing, IndexDefinition, IndexKind, IndexName, Item, KeyAttribute, KeySchema, KeyType,
    Projection, TableDefinition, TableName, Throughput,
};
use larder_schema::import::{self, Found, FoundTable, Imported};
use larder_schema::{Environment, Loaded, NoFiles, Sampler, Schema, TableSetup, emit, format};
use proptest::prelude::*;
use serde_json::json;

const SYSTEMS: [&str; 5] = ["keiba", "lunch", "shops", "tdnet", "weather"];
const NOW: jiff::Timestamp = jiff::Timestamp::constant(1_768_471_200, 0);

use larder_schema::jiff;

fn loaded(system: &str) -> Loaded {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{system}.larder"));
    let text = std::fs::read_to_string(path).expect("the five systems are in schemas/");
    Schema::load(&format!("{system}.larder"), &text, &mut NoFiles, &Environment::new())
}

/// The schema of an import, which has no errors and is laid out.
fn sound(imported: &Imported) -> Schema {
    let loaded = Schema::load("imported.larder", &imported.text, &mut NoFiles, &Environment::new());
    let errors: Vec<_> = loaded.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).collect();
    assert!(errors.is_empty(), "{errors:?}\n{}", imported.text);
    assert_eq!(format(&imported.text), imported.text);
    loaded.schema.expect("it has no errors")
}

/// The tables by name. The order of attributes means nothing.
fn setups(schema: &Schema) -> Vec<TableSetup> {
    let mut setups = schema.tables(&Environment::new()).expect("names fit");
    for setup in &mut setups {
        setup.definition.attributes.sort_by(|a, b| a.0.cmp(&b.0));
    }
    setups.sort_by(|a, b| a.table.cmp(&b.table));
    setups
}

/// Sampled records of an entity as they are stored, TTL and state included.
fn items(schema: &Schema, entity: &str, count: usize) -> Vec<Item> {
    let (table, entity) = schema.entity(entity).expect("it is declared");
    let mut sampler = Sampler::new(schema, &entity.name, 1).expect("it is declared");
    let one = |_| {
        let mut fields = sampler.sample().expect("a sample is found");
        for field in &entity.fields {
            if let (false, Some(default)) = (fields.contains_key(&field.name), &field.checks.default) {
                fields.insert(field.name.clone(), default.clone());
            }
        }
        entity.compute(&mut fields, NOW, true);
        let mut item = schema.write_item(table, entity, &fields).expect("it can be written");
        for lifecycle in &entity.lifecycles {
            let state = lifecycle.states[0].template.build(&fields).expect("a first state needs nothing");
            item.insert(lifecycle.attribute.clone(), AttributeValue::S(state));
        }
        if let (Some(ttl), Some(larder_schema::schema::Ttl::After { millis })) = (&table.ttl, &entity.ttl) {
            item.insert(ttl.attribute.clone(), AttributeValue::from(NOW.as_second() + millis / 1000));
        }
        item
    };
    (0..count).map(one).collect()
}

/// All that is told of a system's tables and items, as a store would tell it.
fn deployed(schema: &Schema, count: usize) -> Found {
    let setups = schema.tables(&Environment::new()).expect("names fit");
    let tables = schema.tables.iter().zip(setups).map(|(table, setup)| {
        let items = table.entities.iter().flat_map(|entity| items(schema, &entity.name, count)).collect();
        let pitr = setup.pitr.map(|pitr| pitr.days);
        FoundTable::deployed(&setup.definition, setup.ttl_attribute, pitr, items)
    });
    Found { system: Some(schema.system.clone()), tables: tables.collect(), ..Found::default() }
}

/// Every item is one of an entity, reads without a fault, and makes the same key again.
fn check_items(schema: &Schema, found: &Found) {
    for (table, found) in schema.tables.iter().zip(&found.tables) {
        for item in &found.items {
            let entity = schema.entity_of(table, item);
            let entity = entity.unwrap_or_else(|| panic!("no entity of {} for {item:?}", table.name));
            let fields = schema.read_item(table, entity, item).expect("it can be read");
            assert_eq!(schema.violations(entity, &fields), [], "{item:?}");
            let again = schema.write_item(table, entity, &fields).expect("it can be written");
            for key in std::iter::once(&table.partition).chain(&table.sort) {
                assert_eq!(again.get(&key.attribute), item.get(&key.attribute));
            }
        }
    }
}

#[test]
fn tables_and_items_of_the_five_systems_come_back() {
    for system in SYSTEMS {
        let original = loaded(system).schema.expect("it has no errors");
        let found = deployed(&original, 60);
        let imported = import::write(&found, "a store");
        let schema = sound(&imported);
        let mut wanted = setups(&original);
        // A store that is no region's does not say one.
        wanted.iter_mut().for_each(|setup| setup.region = None);
        assert_eq!(setups(&schema), wanted, "{}", imported.text);
        check_items(&schema, &found);
        insta::assert_snapshot!(format!("import_{system}"), imported.text);
    }
}

#[test]
fn one_item_is_enough() {
    for system in SYSTEMS {
        let original = loaded(system).schema.expect("it has no errors");
        let found = deployed(&original, 1);
        check_items(&sound(&import::write(&found, "a store")), &found);
    }
}

#[test]
fn exports_of_the_five_systems_come_back() {
    for system in SYSTEMS {
        let original = loaded(system);
        let schema = original.schema.as_ref().expect("it has no errors");
        let stacks =
            emit::cloudformation(schema, &original.files, &[], &Environment::new()).expect("names fit");
        let template = serde_json::to_string_pretty(&stacks[0].template).expect("JSON can be written");
        let mut found = import::cloudformation(&template).expect("it is a template");
        let imported = import::write(&found, "a template");
        assert_eq!(setups(&sound(&imported)), setups(schema), "{}", imported.text);
        assert_eq!(imported.notes, Vec::<String>::new());
        assert_eq!(imported.system, system);

        let hcl = emit::terraform(schema, &original.files, &[], &Environment::new()).expect("names fit");
        found = import::terraform(&[("main.tf", &hcl)]).expect("it is HCL");
        let imported = import::write(&found, "main.tf");
        assert_eq!(setups(&sound(&imported)), setups(schema), "{}", imported.text);
        assert_eq!(imported.notes, Vec::<String>::new());
    }
}

#[test]
fn params_stay_open() {
    let hcl = include_str!("import/weather.tf");
    let imported =
        import::write(&import::terraform(&[("weather.tf", hcl)]).expect("it is HCL"), "weather.tf");
    let schema = sound(&imported);
    let environment = Environment::from([("IMPORTED_ENVIRONMENT".to_owned(), "prod".to_owned())]);
    let setup = &schema.tables(&environment).expect("names fit")[0];
    assert_eq!(setup.definition.name.as_str(), "weather-forecast-cache-prod");
    assert_eq!(setup.definition.tags["Environment"], "prod");
    insta::assert_snapshot!("import_weather_terraform", imported.text);
}

#[test]
fn a_template_written_by_hand() {
    let template = include_str!("import/orders.yaml");
    let imported = import::write(&import::cloudformation(template).expect("it is a template"), "orders.yaml");
    sound(&imported);
    insta::assert_snapshot!("import_orders_yaml", imported.text);
    insta::assert_snapshot!("import_orders_notes", imported.notes.join("\n"));
}

#[test]
fn terraform_written_by_hand() {
    let main = include_str!("import/main.tf");
    let variables = "variable \"env\" {\n  default = \"test\"\n}\nlocals {\n  tags = { Team = \"web\", Env = var.env }\n}\n";
    let files = [("main.tf", main), ("variables.tf", variables)];
    let imported = import::write(&import::terraform(&files).expect("it is HCL"), "main.tf");
    sound(&imported);
    insta::assert_snapshot!("import_main_terraform", imported.text);
    insta::assert_snapshot!("import_main_notes", imported.notes.join("\n"));
}

#[test]
fn what_is_no_template_is_named() {
    for (text, why) in [
        ("{", "EOF"),
        ("{}", "no `Resources`"),
        ("a: [", "while parsing"),
        ("- x", "no `Resources`"),
        ("", "empty"),
    ] {
        let error = import::cloudformation(text).expect_err("it is none");
        assert!(error.contains(why), "{text}: {error}");
    }
    let error = import::terraform(&[("main.tf", "resource {{")]).expect_err("it is none");
    assert!(error.starts_with("main.tf is no HCL"), "{error}");
}

fn attribute(name: &str, kind: KeyType) -> KeyAttribute {
    KeyAttribute { name: name.to_owned(), kind }
}

/// A table with one index on `status`, and these items.
fn table(key: &[(&str, KeyType)], items: Vec<Item>) -> FoundTable {
    let mut parts = key.iter().map(|(name, kind)| attribute(name, *kind));
    let key = KeySchema { partition: parts.next().into_iter().collect(), sort: parts.collect() };
    let status = attribute("status", KeyType::S);
    let definition = TableDefinition {
        name: TableName::new("odd.table-1").expect("it is a name"),
        attributes: key.attributes().chain([&status]).map(|part| (part.name.clone(), part.kind)).collect(),
        indexes: vec![IndexDefinition {
            name: IndexName::new("status-index").expect("it is a name"),
            kind: IndexKind::Global,
            key: KeySchema { partition: vec![status], sort: Vec::new() },
            projection: Projection::Include(vec!["note".to_owned()]),
            throughput: Throughput::default(),
            on_demand_limits: None,
        }],
        key,
        billing: Billing::OnDemand,
        on_demand_limits: None,
        stream: None,
        encryption: None,
        class: None,
        deletion_protection: false,
        tags: [("cost-center".to_owned(), "7".to_owned()), ("Team".to_owned(), "{web}".to_owned())].into(),
    };
    FoundTable::deployed(&definition, Some("ttl".to_owned()), None, items)
}

fn item<const N: usize>(attributes: [(&str, AttributeValue); N]) -> Item {
    let mut item = Item::new();
    for (name, value) in attributes {
        item.insert(name, value);
    }
    item
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// Imports a table alone, and checks what must hold of any.
fn alone(table: FoundTable) -> Imported {
    let found = Found { tables: vec![table], ..Found::default() };
    let imported = import::write(&found, "a test");
    let schema = sound(&imported);
    assert_eq!(import::write(&found, "a test"), imported, "the same each time");
    if !schema.tables.is_empty() {
        check_items(&schema, &found);
        let setup = &setups(&schema)[0];
        assert_eq!(setup.definition.key, found.tables[0].key);
        assert_eq!(setup.definition.indexes, found.tables[0].indexes);
    }
    imported
}

#[test]
fn an_empty_table_is_a_schema() {
    let imported = alone(table(&[("id", KeyType::S)], Vec::new()));
    insta::assert_snapshot!("import_empty", imported.text);
    for kind in [KeyType::N, KeyType::B] {
        alone(table(&[("id", kind), ("at", KeyType::N)], Vec::new()));
    }
}

#[test]
fn keys_of_numbers_and_bytes_are_fields() {
    let number = |text: &str| AttributeValue::N(text.parse().expect("it is a number"));
    alone(table(&[("id", KeyType::N)], vec![item([("id", number("1"))]), item([("id", number("-2.5"))])]));
    let bytes = |bytes: &[u8]| AttributeValue::B(bytes.to_vec());
    alone(table(
        &[("id", KeyType::B), ("n", KeyType::N)],
        vec![item([("id", bytes(b"\xff")), ("n", number("1e30"))])],
    ));
}

#[test]
fn attributes_of_any_type_and_name_are_kept() {
    let odd = [
        item([
            ("id", s("a")),
            ("mixed", s("text")),
            ("set", AttributeValue::Ss(["x".to_owned()].into())),
            ("with-dash", s("")),
            ("with_dash", AttributeValue::Null),
            ("9lives", AttributeValue::Bool(true)),
            ("日本", s("{brace} \"quote\" \\")),
            ("status", s("new")),
            ("password", s("x")),
            ("ttl", s("never")),
            ("larder_version", AttributeValue::from(3)),
        ]),
        item([("id", s("b")), ("mixed", AttributeValue::from(5)), ("new\nline", s("\n"))]),
    ];
    let imported = alone(table(&[("id", KeyType::S)], odd.to_vec()));
    insta::assert_snapshot!("import_odd", imported.text);
}

#[test]
fn sets_are_sets_and_names_that_vary_make_a_map() {
    let numbers = |numbers: [&str; 2]| {
        AttributeValue::Ns(numbers.map(|number| number.parse().expect("a number")).into())
    };
    let items = (0..8_i64).map(|at| {
        let prices = (0..3).map(|step| (format!("town {}", at * 3 + step), AttributeValue::from(at)));
        item([
            ("id", s(&format!("i{at}"))),
            ("days", AttributeValue::Ss(["2026-01-15".to_owned(), "2026-01-16".to_owned()].into())),
            ("years", numbers(["2025", "2026"])),
            ("sizes", numbers(["0.5", "1"])),
            ("digests", AttributeValue::Bs([vec![1]].into())),
            ("prices", AttributeValue::M(prices.collect())),
        ])
    });
    let mut items: Vec<Item> = items.collect();
    items.push(item([("id", s("bare"))]));
    let imported = alone(table(&[("id", KeyType::S)], items));
    let line = |name: &str| {
        let lines = imported.text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.into_iter().find(|line| line.starts_with(&format!("{name}:"))).unwrap_or_default()
    };
    assert_eq!(line("days"), "days: set<date>");
    assert_eq!(line("years"), "years: set<int>");
    assert_eq!(line("sizes"), "sizes: set<decimal>");
    assert_eq!(line("digests"), "digests: set<bytes>");
    assert_eq!(line("prices"), "prices: map<string, int>?");
}

#[test]
fn words_of_the_language_are_names_too() {
    let words = [
        "key",
        "ttl2",
        "input",
        "let",
        "index",
        "entity",
        "lifecycle",
        "mode",
        "writes",
        "label",
        "type",
        "system",
        "match",
        "in",
        "default",
        "as",
        "from",
        "project",
        "hot",
        "all",
        "keys",
        "name",
        "table",
        "state",
        "on",
        "true",
        "false",
        "now",
        "not",
        "and",
        "or",
        "collection",
        "checks",
        "scan",
        "log",
        "secret",
        "valid",
    ];
    let mut one = item([("id", s("a"))]);
    let mut nested = Item::new();
    for word in words {
        one.insert(word, s("x"));
        nested.insert(word, s("x"));
    }
    one.insert("nested", AttributeValue::M(nested));
    alone(table(&[("id", KeyType::S)], vec![one]));
    for word in words {
        alone(table(
            &[(word, KeyType::S), ("sk", KeyType::S)],
            vec![item([(word, s("X#1")), ("sk", s("Y#2"))])],
        ));
    }
}

#[test]
fn a_key_that_the_language_cannot_say_is_told() {
    let imported = alone(table(&[("user-id", KeyType::S)], Vec::new()));
    assert!(imported.notes.iter().any(|note| note.contains("`user-id`")), "{:?}", imported.notes);
    assert!(imported.text.contains("`user-id`"));
}

#[test]
fn keys_that_cannot_be_told_apart_are_one_entity() {
    let keys =
        [("USER#1", "PROFILE"), ("USER#1", "ORDER#7"), ("USER#1", "anything"), ("free", "text"), ("#", "|")];
    let items = keys.map(|(pk, sk)| item([("pk", s(pk)), ("sk", s(sk))]));
    let imported = alone(table(&[("pk", KeyType::S), ("sk", KeyType::S)], items.to_vec()));
    assert_eq!(imported.text.matches("entity ").count(), 1, "{}", imported.text);
}

#[test]
fn keys_of_one_table_design_are_told_apart() {
    let keys = [
        ("USER#u1", "PROFILE"),
        ("USER#u1", "ORDER#2026-01-15#0007"),
        ("USER#u2", "PROFILE"),
        ("USER#u2", "ORDER#2026-01-16#0008"),
        ("PRODUCT#p1", "META"),
        ("PRODUCT#p1", "REVIEW#u1#5"),
        ("PRODUCT#p2", "REVIEW#u2#4"),
    ];
    let items = keys.map(|(pk, sk)| item([("pk", s(pk)), ("sk", s(sk))]));
    let imported = alone(table(&[("pk", KeyType::S), ("sk", KeyType::S)], items.to_vec()));
    insta::assert_snapshot!("import_one_table", imported.text);
}

/// The only table of a template, and what is told of it. Lines of `settings` belong to its properties.
fn of_template(kind: &str, settings: &str) -> (FoundTable, String) {
    let text = format!(
        "Parameters:\n  Names: {{Type: CommaDelimitedList, Default: 'total, state'}}\nResources:\n  OrdersTable:\n    \
         Type: AWS::DynamoDB::{kind}\n    Properties:\n      TableName: orders\n      \
         AttributeDefinitions: [{{AttributeName: id, AttributeType: S}}]\n      \
         KeySchema: [{{AttributeName: id, KeyType: HASH}}]\n      BillingMode: PAY_PER_REQUEST\n{settings}"
    );
    let found = import::cloudformation(&text).expect("it is a template");
    let imported = import::write(&found, "a template");
    sound(&imported);
    (found.tables[0].clone(), imported.notes.join("\n"))
}

/// The only table of a Terraform file, and what is told of it. Lines of `settings` belong to the resource.
fn of_terraform(settings: &str, after: &str) -> (FoundTable, String) {
    let text = format!(
        "resource \"aws_dynamodb_table\" \"orders\" {{\n  name = \"orders\"\n  billing_mode = \"PAY_PER_REQUEST\"\n  \
         hash_key = \"id\"\n{settings}\n}}\n{after}"
    );
    let found = import::terraform(&[("main.tf", &text)]).expect("it is HCL");
    let imported = import::write(&found, "main.tf");
    sound(&imported);
    (found.tables[0].clone(), imported.notes.join("\n"))
}

#[test]
fn a_global_table_keeps_what_its_first_replica_does_not_say() {
    let settings = "
      SSESpecification: {SSEEnabled: true, SSEType: KMS}
      GlobalSecondaryIndexes:
        - IndexName: ByTime
          KeySchema: [{AttributeName: at, KeyType: HASH}]
          Projection: {ProjectionType: ALL}
      Replicas:
        - Region: eu-west-1
          SSESpecification: {KMSMasterKeyId: alias/orders}
          GlobalSecondaryIndexes: [{IndexName: ByTime, ContributorInsightsSpecification: {Enabled: true}}]
          PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}
          ContributorInsightsSpecification: {Enabled: true}
          Tags: [{Key: Team, Value: web}]
        - Region: us-east-1
";
    let (table, notes) = of_template("GlobalTable", settings);
    assert_eq!(table.encryption.and_then(|encryption| encryption.kms_key).as_deref(), Some("alias/orders"));
    assert_eq!(table.indexes[0].key.partition, [attribute("at", KeyType::S)]);
    assert_eq!((table.pitr_days, table.tags.len()), (Some(35), 1));
    for told in ["in 2 regions", "those of eu-west-1", "GlobalSecondaryIndexes", "ContributorInsights"] {
        assert!(notes.contains(told), "{told}\n{notes}");
    }
}

#[test]
fn what_may_be_on_is_off_and_told() {
    let unknown = "!ImportValue it";
    let settings = format!(
        "      TimeToLiveSpecification: {{AttributeName: ends, Enabled: {unknown}}}\n      \
         PointInTimeRecoverySpecification: {{PointInTimeRecoveryEnabled: {unknown}}}\n      \
         SSESpecification: {{SSEEnabled: {unknown}}}\n      DeletionProtectionEnabled: {unknown}\n      \
         TableClass: {unknown}\n"
    );
    let (table, notes) = of_template("Table", &settings);
    assert_eq!((&table.ttl_attribute, table.pitr_days, table.retain), (&None, None, false));
    assert_eq!(table.encryption, None);
    for told in ["TimeToLive", "PointInTimeRecoveryEnabled", "SSEEnabled", "DeletionProtection", "TableClass"]
    {
        assert_eq!(notes.matches(told).count(), 1, "{told}\n{notes}");
    }

    let settings = "
      ttl { attribute_name = \"ends\"\nenabled = module.x.on }
      point_in_time_recovery { enabled = module.x.on }
      server_side_encryption { enabled = module.x.on }
      deletion_protection_enabled = module.x.on
      stream_enabled = module.x.on
      stream_view_type = \"KEYS_ONLY\"
      range_key = module.x.key
      region = module.x.region
      table_class = module.x.class";
    let settings = settings.replace("{ attribute", "{\nattribute").replace("on }", "on\n}");
    let settings = settings.replace("{ enabled", "{\nenabled");
    let (table, notes) = of_terraform(&settings, "");
    assert_eq!((&table.ttl_attribute, table.pitr_days, table.retain), (&None, None, false));
    assert_eq!((&table.encryption, table.stream), (&None, None));
    for told in [
        "`ttl.enabled`",
        "`point_in_time_recovery.enabled`",
        "`server_side_encryption.enabled`",
        "`deletion_protection_enabled`",
        "`stream_enabled`",
        "`range_key`",
        "`region`",
        "`table_class`",
    ] {
        assert_eq!(notes.matches(told).count(), 1, "{told}\n{notes}");
    }
}

#[test]
fn terraform_switches_on_only_what_says_so() {
    let said = "  ttl {\n attribute_name = \"ends\"\n }\n  stream_view_type = \"KEYS_ONLY\"";
    let (table, _) = of_terraform(said, "");
    assert_eq!((table.ttl_attribute, table.stream), (None, None));

    let locals = "locals {\n a = local.b\n b = !(var.stage == \"prod\")\n}\nvariable \"stage\" {\n default = \"dev\"\n}";
    let said = "  ttl {\n attribute_name = \"ends\"\n enabled = local.a\n }";
    let (table, notes) = of_terraform(said, locals);
    assert_eq!((table.ttl_attribute.as_deref(), notes.as_str()), (Some("ends"), ""));
}

#[test]
fn a_stack_that_retains_except_on_create_retains() {
    let (table, notes) = of_template("Table", "    DeletionPolicy: RetainExceptOnCreate\n");
    assert!(table.retain && notes.contains("the stack retains it"), "{notes}");
}

#[test]
fn attributes_of_an_index_that_are_not_known_are_told() {
    let index = |names: &str| {
        format!(
            "      GlobalSecondaryIndexes: [{{IndexName: ByIt, KeySchema: [{{AttributeName: it, KeyType: HASH}}], \
             Projection: {{ProjectionType: INCLUDE, NonKeyAttributes: {names}}}}}]\n"
        )
    };
    let (table, _) = of_template("Table", &index("!Ref Names"));
    let wanted = Projection::Include(vec!["total".to_owned(), "state".to_owned()]);
    assert_eq!(table.indexes[0].projection, wanted);
    for names in ["!ImportValue names", "[a, !ImportValue b]", "[]"] {
        let (_, notes) = of_template("Table", &index(names));
        assert!(notes.contains("the attributes of index ByIt"), "{names}\n{notes}");
    }

    let index = |names: &str| {
        format!(
            "  global_secondary_index {{\n name = \"ByIt\"\n hash_key = \"it\"\n projection_type = \"INCLUDE\"\n {names}\n }}"
        )
    };
    let locals = "locals {\n names = local.others\n others = [\"total\", \"state\"]\n}";
    let (table, notes) = of_terraform(&index("non_key_attributes = local.names"), locals);
    assert_eq!((&table.indexes[0].projection, notes.as_str()), (&wanted, ""));
    for names in ["", "non_key_attributes = module.x.names", "non_key_attributes = [\"a\", module.x.b]"] {
        let (_, notes) = of_terraform(&index(names), locals);
        assert!(notes.contains("the attributes of index ByIt"), "{names}\n{notes}");
    }
}

#[test]
fn a_tag_whose_name_is_not_known_is_told() {
    let (table, notes) = of_terraform("  tags = {\n Team = \"web\"\n (var.tag) = \"x\"\n }", "");
    assert_eq!(table.tags.len(), 1);
    assert!(notes.contains("a tag whose name is"), "{notes}");
}

#[test]
fn params_whose_names_would_be_the_same_are_kept_apart() {
    let template = "Parameters:\n  Stage: {Type: String, Default: dev}\n  stage: {Type: String, Default: eu}\n\
                    Resources:\n  T:\n    Type: AWS::DynamoDB::Table\n    Properties:\n      \
                    TableName: !Sub 'orders-${Stage}-${stage}'\n      KeySchema: [{AttributeName: id, KeyType: HASH}]\n      \
                    BillingMode: PAY_PER_REQUEST\n";
    let found = import::cloudformation(template).expect("it is a template");
    let schema = sound(&import::write(&found, "a template"));
    assert_eq!(setups(&schema)[0].definition.name.as_str(), "orders-dev-eu");

    let hcl = "variable \"a-b\" {\n default = \"one\"\n}\nvariable \"a_b\" {\n default = \"two\"\n}\n\
               resource \"aws_dynamodb_table\" \"t\" {\n name = \"${var.a-b}-${var.a_b}\"\n hash_key = \"id\"\n}\n";
    let found = import::terraform(&[("main.tf", hcl)]).expect("it is HCL");
    let schema = sound(&import::write(&found, "main.tf"));
    assert_eq!(setups(&schema)[0].definition.name.as_str(), "one-two");
}

#[test]
fn templates_that_differ_in_a_default_make_one_schema() {
    let template = |name: &str, default: &str| {
        let text = format!(
            "Parameters:\n  Stage: {{Type: String, Default: {default}}}\nResources:\n  {name}:\n    \
             Type: AWS::DynamoDB::Table\n    Properties:\n      TableName: !Sub '{name}-${{Stage}}'\n      \
             KeySchema: [{{AttributeName: id, KeyType: HASH}}]\n      BillingMode: PAY_PER_REQUEST\n"
        );
        import::cloudformation(&text).expect("it is a template")
    };
    let mut found = template("orders", "dev");
    found.add(template("sessions", "prod"), "sessions.yaml");
    let imported = import::write(&found, "two templates");
    assert_eq!(setups(&sound(&imported)).len(), 2);
    assert_eq!(imported.notes, ["the default of stage in sessions.yaml, `prod`: another file says `dev`"]);
}

#[test]
fn a_small_file_takes_little_work() {
    let table = |name: &serde_json::Value, conditions: &serde_json::Value| {
        json!({"Conditions": conditions, "Resources": {"T": {"Type": "AWS::DynamoDB::Table", "Properties": {
            "TableName": name, "BillingMode": {"Fn::If": ["C0", "a", "b"]}}}}})
        .to_string()
    };
    let mut name = json!("x");
    for _ in 0..15 {
        name = json!({"Fn::Sub": ["${a}${a}${a}${a}${a}${a}", {"a": name}]});
    }
    let error = import::cloudformation(&table(&name, &json!({}))).expect_err("it is too much");
    assert!(error.contains("steps"), "{error}");

    let each = |at: usize| json!({"Fn::And": vec![json!({"Condition": format!("C{}", at + 1)}); 10]});
    let mut conditions: serde_json::Map<_, _> = (0..7).map(|at| (format!("C{at}"), each(at))).collect();
    conditions.insert("C7".to_owned(), json!({"Fn::Equals": ["a", "a"]}));
    let error = import::cloudformation(&table(&json!("x"), &json!(conditions))).expect_err("it is too much");
    assert!(error.contains("steps"), "{error}");

    let doubled = |one: &dyn Fn(usize) -> String, last: &str| {
        let locals: String = (0..7).map(|at| format!(" l{at} = {}\n", one(at + 1))).collect();
        format!(
            "locals {{\n{locals} l7 = {last}\n}}\nresource \"aws_dynamodb_table\" \"t\" {{\n name = local.l0\n \
             hash_key = \"id\"\n tags = local.l0\n}}\n"
        )
    };
    let names = doubled(&|at| format!("\"{}\"", format!("${{local.l{at}}}").repeat(10)), "\"x\"");
    let tags = doubled(&|at| format!("merge({})", vec![format!("local.l{at}"); 10].join(", ")), "{ a = 1 }");
    for text in [names, tags] {
        let error = import::terraform(&[("main.tf", &text)]).expect_err("it is too much");
        assert!(error.contains("steps"), "{error}");
    }
}

#[test]
fn what_ends_in_all_eternity_has_no_lifetime() {
    let end = |at: i64| AttributeValue::from(i64::MAX - 1_768_471_200 + at);
    let rows = (0..4).map(|at| {
        let number = AttributeValue::from(1_768_471_200 + at);
        item([("id", s(&format!("a{at}"))), ("made_at", number), ("ttl", end(at))])
    });
    alone(table(&[("id", KeyType::S)], rows.collect()));
}

fn key_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-C]{1,2}#[a-z0-9-]{0,6}",
        "[A-B]#[0-9]{4}#[a-z]{1,3}",
        "[a-c]-[0-9]{4}-0[1-9]",
        "w_-?[0-9]{1,2}\\.[0-9]{4}_17[0-9]{8}",
        "2026-0[1-9]-1[0-9]",
        "(META|LIST)",
        "\\PC{1,8}",
    ]
}

fn value() -> impl Strategy<Value = AttributeValue> {
    let leaf = prop_oneof![
        "\\PC{0,6}".prop_map(AttributeValue::S),
        key_text().prop_map(AttributeValue::S),
        any::<i64>().prop_map(AttributeValue::from),
        (1_700_000_000i64..1_800_000_000).prop_map(AttributeValue::from),
        any::<bool>().prop_map(AttributeValue::Bool),
        Just(AttributeValue::Null),
        prop::collection::vec(any::<u8>(), 0..3).prop_map(AttributeValue::B),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(AttributeValue::L),
            prop::collection::btree_map("[a-z_ -]{0,4}", inner, 0..4).prop_map(|map| {
                AttributeValue::M(map.into_iter().fold(Item::new(), |mut item, (name, value)| {
                    item.insert(name, value);
                    item
                }))
            }),
        ]
    })
}

/// A template whose words are right and whose values are anything.
fn template() -> impl Strategy<Value = serde_json::Value> {
    let name = || prop::sample::select(vec!["a", "b", "ttl", "x-y", "", "Status", "key"]);
    let units = || {
        prop::sample::select(vec![
            json!(-1),
            json!(0),
            json!("5"),
            json!(1_000_000_000_000i64),
            json!({"Ref": "P"}),
        ])
    };
    let key = move || {
        let part = (name(), prop::sample::select(vec!["HASH", "RANGE"]));
        prop::collection::vec(
            part.prop_map(|(name, kind)| json!({"AttributeName": name, "KeyType": kind})),
            0..4,
        )
    };
    let index = (
        prop::sample::select(vec!["abc", "abd", "a-b", "x", "status.index"]),
        key(),
        prop::sample::select(vec!["ALL", "KEYS_ONLY", "INCLUDE"]),
        prop::collection::vec(name(), 0..4),
    );
    let index = index.prop_map(|(index, key, kind, names)| {
        json!({"IndexName": index, "KeySchema": key, "Projection": {"ProjectionType": kind, "NonKeyAttributes": names}})
    });
    let attribute = (name(), prop::sample::select(vec!["S", "N", "B", "?"]));
    let attribute = attribute.prop_map(|(name, kind)| json!({"AttributeName": name, "AttributeType": kind}));
    let text = || {
        prop::sample::select(vec![
            json!("a b"),
            json!("abc"),
            json!({"Ref": "P"}),
            json!({"Fn::Sub": "t-${P}"}),
            json!({"Fn::If": ["C", 1, 2]}),
        ])
    };
    let tag = (name(), text()).prop_map(|(name, value)| json!({"Key": name, "Value": value}));
    let table = (
        (text(), prop::collection::vec(attribute, 0..5), key(), prop::collection::vec(index, 0..4)),
        (name(), any::<bool>(), units(), units(), prop::collection::vec(tag, 0..4), text()),
    );
    let table = table.prop_map(|((name, attributes, key, indexes), (ttl, on, read, write, tags, kms))| {
        json!({"Type": "AWS::DynamoDB::Table", "Properties": {
            "TableName": name,
            "AttributeDefinitions": attributes,
            "KeySchema": key,
            "GlobalSecondaryIndexes": indexes,
            "TimeToLiveSpecification": {"AttributeName": ttl, "Enabled": on},
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": on, "RecoveryPeriodInDays": read},
            "ProvisionedThroughput": {"ReadCapacityUnits": read, "WriteCapacityUnits": write},
            "SSESpecification": {"SSEEnabled": on, "KMSMasterKeyId": kms},
            "Tags": tags,
        }})
    });
    prop::collection::btree_map("[A-B]{1,2}|[0-9]x|Table", table, 0..3)
        .prop_map(|tables| json!({"Parameters": {"P": {"Type": "String"}}, "Resources": tables}))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_in_a_table_gives_a_schema_that_holds_it(
        rows in prop::collection::vec(
            (key_text(), key_text(), prop::collection::btree_map("[a-d]|ttl|[A-B] [é]", value(), 0..5)),
            0..12,
        )
    ) {
        let items = rows.into_iter().map(|(pk, sk, attributes)| {
            let mut item = item([("pk", s(&pk)), ("sk", s(&sk))]);
            for (name, value) in attributes {
                item.insert(name, value);
            }
            item
        });
        alone(table(&[("pk", KeyType::S), ("sk", KeyType::S)], items.collect()));
    }

    #[test]
    fn whatever_a_template_says_gives_a_schema(template in template()) {
        let found = import::cloudformation(&template.to_string()).expect("it has resources");
        sound(&import::write(&found, "a template"));
    }

    #[test]
    fn no_file_makes_an_import_fail_but_with_words(text in "\\PC{0,60}|[a-zA-Z:!{}\\[\\]\n \"'*&-]{0,80}") {
        if let Ok(found) = import::cloudformation(&text) {
            sound(&import::write(&found, "x"));
        }
        let resource = format!("Resources:\n  T:\n    Type: AWS::DynamoDB::Table\n    Properties: {{TableName: !Sub '{text}', KeySchema: [{{AttributeName: a, KeyType: HASH}}]}}\n");
        if let Ok(found) = import::cloudformation(&resource) {
            sound(&import::write(&found, "x"));
        }
        if let Ok(found) = import::terraform(&[("x.tf", &text)]) {
            sound(&import::write(&found, "x"));
        }
        let resource = format!("resource \"aws_dynamodb_table\" \"t\" {{\n  name = \"{text}\"\n  hash_key = \"a\"\n}}\n");
        if let Ok(found) = import::terraform(&[("x.tf", &resource)]) {
            sound(&import::write(&found, "x"));
        }
    }
}
