//! What is exported for the five systems, and that it says what their documents say.

use std::path::Path;

use larder_schema::schema::Schema;
use larder_schema::{Environment, Loaded, NoFiles, emit};
use serde_json::{Value as Json, json};

const SYSTEMS: [&str; 5] = ["keiba", "lunch", "shops", "tdnet", "weather"];

fn load_text(name: &str, text: &str) -> (Schema, Loaded) {
    let loaded = Schema::load(name, text, &mut NoFiles, &Environment::new());
    (loaded.schema.clone().expect("there is nothing wrong with it"), loaded)
}

fn load(system: &str) -> (Schema, Loaded) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{system}.larder"));
    let text = std::fs::read_to_string(path).expect("the five systems are in schemas/");
    load_text(&format!("{system}.larder"), &text)
}

/// A schema that uses all there is to export.
fn all() -> (Schema, Loaded) {
    load_text("all.larder", include_str!("../../../tests/exports/all.larder"))
}

fn environment<const N: usize>(pairs: [(&str, &str); N]) -> Environment {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The only template of a schema.
fn template((schema, loaded): &(Schema, Loaded)) -> Json {
    let stacks = emit::cloudformation(schema, &loaded.files, &[], &Environment::new()).expect("names fit");
    assert_eq!(stacks.len(), 1);
    stacks[0].template.clone()
}

fn terraform((schema, loaded): &(Schema, Loaded)) -> String {
    emit::terraform(schema, &loaded.files, &[], &Environment::new()).expect("names fit")
}

fn policies((schema, loaded): &(Schema, Loaded), environment: &Environment) -> Vec<emit::Policy> {
    emit::iam(schema, &loaded.files, &[], environment).expect("names fit")
}

fn pretty(json: &Json) -> String {
    serde_json::to_string_pretty(json).expect("JSON can be written")
}

fn resources<'a>(template: &'a Json, kind: &str) -> Vec<(&'a str, &'a Json)> {
    let all = template["Resources"].as_object().expect("a template has resources");
    all.iter().filter(|(_, one)| one["Type"] == kind).map(|(id, one)| (id.as_str(), one)).collect()
}

/// A table of one entity, with these lines in it and after it.
fn small(settings: &str, after: &str) -> (Schema, Loaded) {
    let text = format!(
        "system small\nparam stage: string = \"dev\" from STAGE\n\ntable things {{\n  key  id\n{settings}\n  \
         entity Thing {{\n    id: string nonempty\n    owner: string nonempty\n    at: instant\n  }}\n}}\n{after}"
    );
    load_text("small.larder", &text)
}

/// Every export of a schema there is something to export for, by its name.
fn exports((schema, loaded): &(Schema, Loaded)) -> Vec<(&'static str, String)> {
    let (files, environment) = (&loaded.files, &Environment::new());
    let templates = |stacks: Vec<emit::Stack>| {
        stacks.iter().map(|stack| pretty(&stack.template)).reduce(|all, one| format!("{all}\n{one}"))
    };
    let policies = emit::iam(schema, files, &[], environment).expect("names fit");
    let policies: Vec<String> = policies
        .iter()
        .map(|policy| {
            let from = policy.origin.as_deref().unwrap_or("the access patterns");
            let grant = policy.grant.as_deref().unwrap_or("least");
            format!("{grant}, from {from}\n{}", pretty(&policy.document))
        })
        .collect();
    let dashboard = emit::dashboard(schema, files, environment, "us-east-1").expect("names fit");
    let budgets = emit::budgets(schema, files, environment).expect("names fit");
    let rules = emit::prometheus(schema, files, environment).expect("names fit");
    let made = [
        (
            "cloudformation",
            templates(emit::cloudformation(schema, files, &[], environment).expect("names fit")),
        ),
        ("terraform", emit::terraform(schema, files, &[], environment).ok()),
        ("cdk", emit::cdk(schema, files, &[], environment).ok()),
        ("iam", Some(policies.join("\n\n"))),
        ("alarms", templates(emit::alarms(schema, files, environment).expect("names fit"))),
        ("dashboard", Some(pretty(&dashboard))),
        ("budgets", templates(budgets.into_iter().collect())),
        ("runbook", emit::runbook(schema, files, environment).ok()),
        ("prometheus", rules.map(|rules| rules.yaml)),
        ("grafana", emit::grafana(schema, files, environment).ok().map(|board| pretty(&board))),
    ];
    made.into_iter().filter_map(|(name, text)| Some((name, text?))).collect()
}

#[test]
fn exports_of_the_five_systems() {
    for system in SYSTEMS {
        for (name, text) in exports(&load(system)) {
            insta::assert_snapshot!(format!("{name}_{system}"), text);
        }
    }
}

#[test]
fn exports_of_all_there_is_to_say() {
    for (name, text) in exports(&all()) {
        insta::assert_snapshot!(format!("{name}_all"), text);
    }
}

#[test]
fn exports_are_the_same_each_time() {
    for system in SYSTEMS {
        assert_eq!(exports(&load(system)), exports(&load(system)));
    }
}

#[test]
fn what_is_not_declared_is_not_exported() {
    let names = |loaded| exports(&loaded).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let always = ["cloudformation", "terraform", "cdk", "iam", "dashboard", "runbook", "grafana"];
    assert_eq!(names(load("keiba")), always);
    assert_eq!(names(load("lunch")).len(), 10);
}

#[test]
fn every_part_names_the_line_it_comes_from() {
    for (name, text) in exports(&load("lunch")) {
        assert!(text.contains("lunch.larder:"), "{name}");
    }
}

#[test]
fn l9_the_policy_of_lunch_is_that_of_its_document_and_of_what_the_layer_calls() {
    let policies = policies(&load("lunch"), &Environment::new());
    let [policy] = policies.as_slice() else { panic!("one grant, one policy") };
    assert_eq!(policy.origin.as_deref(), Some("lunch.larder:55"));
    assert_eq!(
        policy.document,
        json!({
            "Version": "2012-10-17",
            "Statement": [{
                "Effect": "Allow",
                // Those of the document, and UpdateItem and batches, by which the layer changes one record and many.
                "Action": [
                    "dynamodb:GetItem",
                    "dynamodb:PutItem",
                    "dynamodb:UpdateItem",
                    "dynamodb:DeleteItem",
                    "dynamodb:Query",
                    "dynamodb:Scan",
                    "dynamodb:BatchGetItem",
                    "dynamodb:BatchWriteItem"
                ],
                "Resource": [
                    "arn:aws:dynamodb:eu-west-1:*:table/lunch-cache-*",
                    "arn:aws:dynamodb:eu-west-1:*:table/lunch-cache-*/index/*"
                ]
            }]
        })
    );
}

#[test]
fn l9_a_name_that_begins_with_a_param_is_not_widened() {
    let policies = policies(&load("keiba"), &environment([("KEIBA_TABLE_NAME", "races_test")]));
    let resources = &policies[0].document["Statement"][0]["Resource"];
    assert_eq!(*resources, json!(["arn:aws:dynamodb:*:*:table/races_test"]));
}

#[test]
fn l9_streams_and_indexes_are_named_only_for_what_reaches_them() {
    let index = "  index ByOwner  owner / at\n  name  \"things-{stage}\"\n  stream  both";
    let grants = "grant reader { get, describe }\ngrant follower { stream }\ngrant finder { query }";
    let documents: Vec<_> = policies(&small(index, grants), &Environment::new())
        .into_iter()
        .map(|policy| policy.document)
        .collect();
    let table = "arn:aws:dynamodb:*:*:table/things-*";
    let [reader, follower, finder] = documents.as_slice() else { panic!("three grants, three policies") };
    assert_eq!(reader["Statement"][0]["Resource"], json!([table]));
    assert_eq!(follower["Statement"].as_array().map(Vec::len), Some(1));
    assert_eq!(follower["Statement"][0]["Resource"], json!([format!("{table}/stream/*")]));
    assert_eq!(finder["Statement"][0]["Resource"], json!([table, format!("{table}/index/*")]));
}

#[test]
fn a_grant_on_a_table_names_no_other() {
    let text = "system two\ntable one {\n  key a\n  entity A { a: string nonempty }\n}\ntable other {\n  key b\n  \
                entity B { b: string nonempty }\n}\ngrant app on other { get }";
    let policies = policies(&load_text("two.larder", text), &Environment::new());
    assert_eq!(policies[0].document["Statement"][0]["Resource"], json!(["arn:aws:dynamodb:*:*:table/other"]));
}

#[test]
fn t11_the_template_of_tdnet_has_every_property_of_its_cdk() {
    let template = template(&load("tdnet"));
    // Resource, name, key, TTL, indexes with their keys: as the document's CDK has them.
    type Index<'a> = (&'a str, &'a str, &'a str);
    let wanted: [(&str, &str, &str, bool, &[Index<'_>]); 3] = [
        (
            "DisclosuresTable",
            "tdnet_disclosures_${Stage}",
            "disclosure_id",
            false,
            &[
                ("GSI_CompanyCode_DiscloseDate", "company_code", "disclosed_at"),
                ("GSI_DatePartition", "date_partition", "disclosed_at"),
            ],
        ),
        (
            "ExecutionsTable",
            "tdnet_executions_${Stage}",
            "execution_id",
            true,
            &[("GSI_Status_StartedAt", "status", "started_at")],
        ),
        (
            "ExportStatusTable",
            "tdnet_export_status_${Stage}",
            "export_id",
            true,
            &[("GSI_Status_RequestedAt", "status", "requested_at")],
        ),
    ];
    assert_eq!(resources(&template, "AWS::DynamoDB::Table").len(), wanted.len());
    for (id, name, key, expires, indexes) in wanted {
        let resource = &template["Resources"][id];
        assert_eq!(resource["DeletionPolicy"], "Retain", "{id}");
        assert_eq!(resource["UpdateReplacePolicy"], "Retain", "{id}");
        let table = &resource["Properties"];
        assert_eq!(table["TableName"], json!({"Fn::Sub": name}));
        assert_eq!(table["KeySchema"], json!([{"AttributeName": key, "KeyType": "HASH"}]));
        assert_eq!(table["BillingMode"], "PAY_PER_REQUEST", "{id}");
        assert_eq!(table["SSESpecification"], json!({"SSEEnabled": true}));
        assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true, "{id}");
        let ttl = expires.then(|| json!({"AttributeName": "ttl", "Enabled": true}));
        assert_eq!(table.get("TimeToLiveSpecification"), ttl.as_ref(), "{id}");
        let indexes: Vec<_> = indexes
            .iter()
            .map(|(name, partition, sort)| {
                json!({
                    "IndexName": name,
                    "KeySchema": [
                        {"AttributeName": partition, "KeyType": "HASH"},
                        {"AttributeName": sort, "KeyType": "RANGE"}
                    ],
                    "Projection": {"ProjectionType": "ALL"}
                })
            })
            .collect();
        assert_eq!(table["GlobalSecondaryIndexes"], json!(indexes), "{id}");
        let attributes = table["AttributeDefinitions"].as_array().expect("a list");
        assert!(attributes.iter().all(|attribute| attribute["AttributeType"] == "S"), "{id}");
    }
}

#[test]
fn w15_terraform_of_weather_says_what_its_document_says() {
    let text = terraform(&load("weather"));
    let code: Vec<String> = text
        .lines()
        .map(|line| line.split(" # ").next().unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for wanted in [
        r#"name = "weather-forecast-cache-${var.stage}""#,
        r#"billing_mode = "PAY_PER_REQUEST""#,
        r#"hash_key = "cacheKey""#,
        r#"name = "cacheKey""#,
        r#"type = "S""#,
        "ttl {",
        r#"attribute_name = "ttl""#,
        "enabled = true",
        "tags = {",
        r#"Name = "Weather Forecast Cache""#,
        "Environment = var.stage",
    ] {
        assert!(code.iter().any(|line| line == wanted), "{wanted}\n{text}");
    }
}

#[test]
fn w15_terraform_of_the_five_systems_is_hcl_with_a_resource_for_each_table() {
    for system in SYSTEMS {
        let loaded = load(system);
        let text = terraform(&loaded);
        let body: hcl_edit::structure::Body = text.parse().expect("it is HCL");
        let resources = body.get_blocks("resource").filter(|block| block.has_labels(&["aws_dynamodb_table"]));
        let resources = resources.map(|block| block.labels[1].as_str().to_owned());
        let tables = loaded.0.tables.iter().map(|table| table.name.clone());
        assert_eq!(resources.collect::<Vec<_>>(), tables.collect::<Vec<_>>(), "{system}");
    }
}

#[test]
fn l10_alarms_watch_error_rate_latency_and_every_throttle() {
    let template = template(&load("lunch"));
    let alarms = resources(&template, "AWS::CloudWatch::Alarm");
    let shown: Vec<_> = alarms
        .iter()
        .map(|(id, alarm)| {
            let alarm = &alarm["Properties"];
            let period = &alarm["Metrics"][0]["MetricStat"]["Period"];
            assert_eq!(alarm["ComparisonOperator"], "GreaterThanThreshold", "{id}");
            format!("{id} > {} in {period} s", alarm["Threshold"])
        })
        .collect();
    assert_eq!(
        shown,
        [
            "CacheTableLatencyAlarm > 100 in 300 s",
            "CacheTableReadErrorRateAlarm > 5 in 300 s",
            "CacheTableRestaurantIndexThrottlesAlarm > 0 in 60 s",
            "CacheTableThrottlesAlarm > 0 in 60 s",
            "CacheTableWriteErrorRateAlarm > 5 in 300 s",
            "UserErrorRateAlarm > 5 in 300 s",
        ]
    );
}

#[test]
fn l10_an_alarm_reads_at_most_ten_metrics() {
    let all = "grant app { get, put, update, delete, query, scan, batch }\n\
               alarms {\n  error_rate > 5% for 5m\n  latency > 100ms for 5m\n  throttles > 0\n}";
    for (id, alarm) in resources(&template(&small("", all)), "AWS::CloudWatch::Alarm") {
        let metrics = alarm["Properties"]["Metrics"].as_array().expect("a list");
        let read = metrics.iter().filter(|metric| metric.get("MetricStat").is_some()).count();
        assert!(read <= 10, "{id} reads {read}");
    }
}

#[test]
fn an_alarm_without_a_metric_is_named_as_left_out() {
    let template = template(&small("", "alarms {\n  stuck > 0\n}"));
    assert_eq!(
        template["Metadata"]["Larder"]["LeftOut"],
        json!(["small.larder:14: `stuck`: there is nothing to watch"])
    );
}

#[test]
fn l16_the_template_of_lunch_has_all_its_document_asks_for() {
    let template = template(&load("lunch"));
    let table = &template["Resources"]["CacheTable"]["Properties"];
    assert_eq!(table["TableName"], json!({"Fn::Sub": "lunch-cache-${Stage}"}));
    assert_eq!(table["BillingMode"], "PAY_PER_REQUEST");
    assert_eq!(table["TimeToLiveSpecification"], json!({"AttributeName": "ttl", "Enabled": true}));
    assert_eq!(
        table["PointInTimeRecoverySpecification"],
        json!({"PointInTimeRecoveryEnabled": true, "RecoveryPeriodInDays": 35})
    );
    assert_eq!(table["SSESpecification"], json!({"SSEEnabled": true}));
    assert_eq!(table["GlobalSecondaryIndexes"][0]["IndexName"], "RestaurantIndex");
    assert_eq!(resources(&template, "AWS::IAM::ManagedPolicy").len(), 1);
    let [(_, budget)] = resources(&template, "AWS::Budgets::Budget")[..] else { panic!("one budget") };
    let told = budget["Properties"]["NotificationsWithSubscribers"].as_array().expect("a list");
    let amounts: Vec<_> = told.iter().map(|one| &one["Notification"]["Threshold"]).collect();
    assert_eq!(amounts, [5, 10, 25]);
    assert_eq!(
        template["Rules"]["Region"]["Assertions"][0]["Assert"],
        json!({"Fn::Equals": [{"Ref": "AWS::Region"}, "eu-west-1"]})
    );
}

#[test]
fn the_environment_gives_parameters_their_defaults() {
    let (schema, loaded) = load("lunch");
    let production = environment([("ENVIRONMENT", "prod")]);
    let stacks = emit::cloudformation(&schema, &loaded.files, &[], &production).expect("names fit");
    assert_eq!(stacks[0].template["Parameters"]["Stage"]["Default"], "prod");
    let text = emit::terraform(&schema, &loaded.files, &[], &production).expect("names fit");
    assert!(text.contains(r#"default = "prod""#), "{text}");
}

#[test]
fn tables_in_two_regions_make_two_templates() {
    let text = "system two\nsource web\ntable one {\n  key a\n  region \"eu-west-1\"\n  entity A from web { a: string nonempty }\n}\n\
                table other {\n  key b\n  region \"sa-east-1\"\n  entity B { b: string nonempty }\n}\n\
                budget $5 per month\nmetrics \"Two\" {\n  hit Hits\n  miss Misses\n}\n\
                alarms {\n  hit_rate < 80% for 1h\n}";
    let (schema, loaded) = load_text("two.larder", text);
    let stacks = emit::cloudformation(&schema, &loaded.files, &[], &Environment::new()).expect("names fit");
    let regions: Vec<_> = stacks.iter().map(|stack| stack.region.as_deref()).collect();
    assert_eq!(regions, [Some("eu-west-1"), Some("sa-east-1")]);
    for kind in ["AWS::Budgets::Budget", "AWS::CloudWatch::Alarm"] {
        let made: Vec<_> = stacks.iter().map(|stack| resources(&stack.template, kind).len()).collect();
        assert_eq!(made, [1, 0], "{kind}");
    }
}

#[test]
fn a_second_version_is_in_every_name() {
    let loaded = small("  name  \"things-{stage}\"", "version 2");
    let setups = loaded.0.tables(&Environment::new()).expect("names fit");
    assert_eq!(setups[0].definition.name.as_str(), "things-dev-v2");
    let table = template(&loaded)["Resources"]["ThingsTableV2"]["Properties"].clone();
    assert_eq!(table["TableName"], json!({"Fn::Sub": "things-${Stage}-v2"}));
    assert!(terraform(&loaded).contains(r#""things-${var.stage}-v2""#));
    let policies = policies(&loaded, &Environment::new());
    assert_eq!(
        policies[0].document["Statement"][0]["Resource"],
        json!(["arn:aws:dynamodb:*:*:table/things-*-v2"])
    );
}

#[test]
fn parameters_and_resources_never_share_a_name() {
    let text = "system clash\nparam things_table: string = \"things\" from THINGS\n\
                table things {\n  name things_table\n  key id\n  entity Thing { id: string nonempty }\n}";
    let template = template(&load_text("clash.larder", text));
    assert!(template["Parameters"].get("ThingsTable").is_some());
    let table = &template["Resources"]["ThingsTable2"]["Properties"];
    assert_eq!(table["TableName"], json!({"Ref": "ThingsTable"}));
}

#[test]
fn tags_are_text_whatever_is_in_them() {
    let loaded = small("  tags  Owner \"a \\\"b\\\" $\\{c\\}\"", "");
    let tags = &template(&loaded)["Resources"]["ThingsTable"]["Properties"]["Tags"];
    assert_eq!(tags[0], json!({"Key": "Owner", "Value": "a \"b\" ${c}"}));
    assert!(terraform(&loaded).parse::<hcl_edit::structure::Body>().is_ok());
    let hcl = terraform(&loaded).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(hcl.contains(r#"Owner = "a \"b\" $${c}""#), "{hcl}");
}

#[test]
fn provisioned_capacity_is_that_of_the_table_and_its_indexes() {
    let loaded = small("  billing  provisioned 5 / 2\n  index ByOwner  owner / at", "");
    let units = json!({"ReadCapacityUnits": 5, "WriteCapacityUnits": 2});
    let table = template(&loaded)["Resources"]["ThingsTable"]["Properties"].clone();
    assert_eq!(table["ProvisionedThroughput"], units);
    assert_eq!(table["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"], units);
    assert_eq!(terraform(&loaded).matches("read_capacity").count(), 2);
}

#[test]
fn a_variable_has_no_name_that_terraform_keeps() {
    let text = "system kept\nparam source: string = \"x\" from SOURCE\n\
                table things {\n  name \"things-{source}\"\n  key id\n  entity Thing { id: string nonempty }\n}";
    let hcl = terraform(&load_text("kept.larder", text));
    assert!(hcl.contains(r#"variable "source_" {"#), "{hcl}");
    assert!(hcl.contains(r#""things-${var.source_}""#), "{hcl}");
}

#[test]
fn l10_l13_terraform_has_the_policy_the_alarms_and_the_budget() {
    let body: hcl_edit::structure::Body = terraform(&load("lunch")).parse().expect("it is HCL");
    let count = |kind: &str| body.get_blocks("resource").filter(|block| block.has_labels(&[kind])).count();
    assert_eq!(count("aws_iam_policy"), 1);
    assert_eq!(count("aws_cloudwatch_metric_alarm"), 6);
    let budget = body.get_blocks("resource").find(|block| block.has_labels(&["aws_budgets_budget"]));
    let told = budget.expect("there is one").body.get_blocks("notification");
    let amounts: Vec<String> = told
        .filter_map(|block| Some(block.body.get_attribute("threshold")?.value.to_string().trim().to_owned()))
        .collect();
    assert_eq!(amounts, ["5", "10", "25"]);
}

#[test]
fn l10_alarms_alone_name_the_tables_and_make_none() {
    let (schema, loaded) = load("lunch");
    let stacks = emit::alarms(&schema, &loaded.files, &Environment::new()).expect("names fit");
    let [stack] = stacks.as_slice() else { panic!("one region, one template") };
    let all = stack.template["Resources"].as_object().expect("a template has resources");
    assert_eq!(all.len(), 6);
    assert!(all.values().all(|one| one["Type"] == "AWS::CloudWatch::Alarm"));
    let metric = &all["CacheTableLatencyAlarm"]["Properties"]["Metrics"][0]["MetricStat"]["Metric"];
    assert_eq!(
        metric["Dimensions"][0],
        json!({"Name": "TableName", "Value": {"Fn::Sub": "lunch-cache-${Stage}"}})
    );
}

#[test]
fn l10_prometheus_watches_what_cloudwatch_does() {
    let (schema, loaded) = load("lunch");
    let rules = emit::prometheus(&schema, &loaded.files, &Environment::new()).expect("names fit");
    let yaml = rules.expect("there are alarms").yaml;
    for wanted in [
        "LunchCacheErrorRate",
        "LunchCacheLatency",
        "LunchCacheThrottles",
        ") > 5\n",
        ") > 0.1\n",
        "[1m])) > 0\n",
    ] {
        assert_eq!(yaml.matches(wanted).count(), 1, "{wanted}\n{yaml}");
    }
}

#[test]
fn a_hit_rate_is_watched_where_the_layer_tells_it() {
    let template = template(&all());
    let alarm = &template["Resources"]["HitRateAlarm"]["Properties"];
    let metric = &alarm["Metrics"][0]["MetricStat"]["Metric"];
    assert_eq!(metric["Namespace"], "All");
    assert_eq!(
        metric["Dimensions"],
        json!([{"Name": "System", "Value": "all"}, {"Name": "Entity", "Value": "Page"}])
    );
    assert_eq!(
        alarm["Metrics"][2]["Expression"],
        "100 * (FILL(hits0, 0)) / (FILL(hits0, 0) + FILL(misses0, 0))"
    );
}

#[test]
fn l13_a_budget_alone_asks_who_is_told() {
    let (schema, loaded) = load("lunch");
    let stack = emit::budgets(&schema, &loaded.files, &Environment::new()).expect("names fit");
    let template = stack.expect("lunch has budgets").template;
    assert!(template["Parameters"]["NotificationTopicArn"].get("Default").is_none());
    let [(_, budget)] = resources(&template, "AWS::Budgets::Budget")[..] else { panic!("one budget") };
    assert!(budget.get("Condition").is_none());
    let told = budget["Properties"]["NotificationsWithSubscribers"].as_array().expect("a list");
    assert_eq!(told.iter().map(|one| &one["Notification"]["Threshold"]).collect::<Vec<_>>(), [5, 10, 25]);
}

#[test]
fn t11_the_cdk_of_tdnet_is_that_of_its_document() {
    let (schema, loaded) = load("tdnet");
    let code = emit::cdk(&schema, &loaded.files, &[], &Environment::new()).expect("names fit");
    let lines: Vec<&str> = code.lines().map(|line| line.split(" // ").next().unwrap_or("").trim()).collect();
    // Recovery is said by its window, which the document's `pointInTimeRecovery: true` could not.
    for wanted in [
        "this.executionsTable = new dynamodb.Table(this, 'ExecutionsTable', {",
        "tableName: `tdnet_executions_${params.stage}`,",
        "partitionKey: { name: 'execution_id', type: dynamodb.AttributeType.STRING },",
        "billingMode: dynamodb.BillingMode.PAY_PER_REQUEST,",
        "encryption: dynamodb.TableEncryption.AWS_MANAGED,",
        "timeToLiveAttribute: 'ttl',",
        "pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true, recoveryPeriodInDays: 35 },",
        "removalPolicy: cdk.RemovalPolicy.RETAIN,",
        "this.executionsTable.addGlobalSecondaryIndex({",
        "indexName: 'GSI_Status_StartedAt',",
        "partitionKey: { name: 'status', type: dynamodb.AttributeType.STRING },",
        "sortKey: { name: 'started_at', type: dynamodb.AttributeType.STRING },",
        "projectionType: dynamodb.ProjectionType.ALL,",
        "this.exportStatusTable = new dynamodb.Table(this, 'ExportStatusTable', {",
    ] {
        assert!(lines.contains(&wanted), "{wanted}\n{code}");
    }
}

#[test]
fn w11_the_dashboard_of_weather_shows_hit_rate_and_saved_calls() {
    let (schema, loaded) = load("weather");
    let board = emit::dashboard(&schema, &loaded.files, &Environment::new(), "us-east-1").expect("names fit");
    let widgets = board["widgets"].as_array().expect("a list");
    let graph = |title: &str| {
        let found = widgets.iter().find(|widget| widget["properties"]["title"] == title);
        &found.unwrap_or_else(|| panic!("no {title}"))["properties"]
    };
    assert_eq!(graph("Hit rate")["region"], "sa-east-1");
    assert_eq!(
        graph("Hit rate")["metrics"][1],
        json!(["WeatherForecastAPI", "CacheHit", "System", "weather", "Entity", "Forecast", {"id": "hits0", "visible": false}])
    );
    assert_eq!(graph("Saved calls")["metrics"][1][0]["expression"], "saved0 * 0.0001");
    for title in ["Latency of the cache", "Units", "Latency", "Throttles", "Errors", "Expired"] {
        graph(title);
    }
}

#[test]
fn l16_the_runbook_of_lunch_has_every_procedure_of_its_document() {
    let (schema, loaded) = load("lunch");
    let production = environment([("ENVIRONMENT", "prod")]);
    let book = emit::runbook(&schema, &loaded.files, &production).expect("names fit");
    for wanted in [
        "larder apply lunch.larder --probe",
        "larder doctor lunch",
        "larder restore lunch-cache-prod --to lunch-cache-prod-restored --at 2026-01-31T14:05:00Z",
        "ENVIRONMENT=prod-restored larder dump lunch",
        "larder backup lunch-cache-prod",
        "larder migrate rollback lunch",
        "stay 30d",
        "larder sweep lunch.Menu",
        "larder rm lunch.Menu",
        "### Error rate above 5 % for 5m",
        "### Latency above 100ms for 5m",
        "### Throttles above 0",
        "$5, $10, $25",
    ] {
        assert!(book.contains(wanted), "{wanted}\n{book}");
    }
}

#[test]
fn a_runbook_has_no_procedure_that_its_schema_has_no_use_for() {
    let book = |system: &str| {
        let (schema, loaded) = load(system);
        emit::runbook(&schema, &loaded.files, &Environment::new()).expect("names fit")
    };
    assert!(!book("shops").contains("## Sweep"));
    assert!(!book("keiba").contains("## Restore to a moment"));
    assert!(!book("lunch").contains("larder stuck"));
    assert!(book("shops").contains("larder stuck shops.Shop crawl country=COUNTRY"));
    assert!(book("weather").contains("## Log queries"));
}

/// Labels of the blocks of one kind.
fn labels(hcl: &str, kind: &str) -> Vec<String> {
    let body: hcl_edit::structure::Body = hcl.parse().expect("it is HCL");
    let blocks =
        body.blocks().filter(|block| block.labels.first().is_some_and(|label| label.as_str() == kind));
    blocks.filter_map(|block| Some(block.labels.get(1)?.as_str().to_owned())).collect()
}

#[test]
fn indexes_of_any_name_give_resources_of_their_own() {
    let indexes = "  index \"a.b\" as one  owner / at\n  index \"a_b\" as two  owner\n  index \"a-b\" as three  at / id";
    let (schema, loaded) = small(indexes, "alarms {\n  throttles > 0\n}");
    let hcl = emit::terraform(&schema, &loaded.files, &[], &Environment::new()).expect("names fit");
    let alarms = labels(&hcl, "aws_cloudwatch_metric_alarm");
    assert_eq!(
        alarms,
        [
            "things_table_throttles",
            "things_table_a_b_throttles",
            "things_table_a_b_throttles_2",
            "things_table_a-b_throttles",
        ]
    );
    let code = emit::cdk(&schema, &loaded.files, &[], &Environment::new()).expect("names fit");
    let ids: Vec<&str> =
        code.lines().filter_map(|line| line.split_once("Alarm(this, ")).map(|one| one.1).collect();
    let apart: std::collections::HashSet<&&str> = ids.iter().collect();
    assert_eq!((ids.len(), apart.len()), (4, 4), "{ids:?}");
}

#[test]
fn names_that_differ_in_a_sign_stay_apart_in_cdk() {
    let table = |name: &str| {
        format!(
            "table {name} {{\n  name \"{name}-{{p1}}-{{p_1}}\"\n  key id\n  encryption kms \"alias/x\"\n  entity E{name} {{ id: string nonempty }}\n}}\n"
        )
    };
    let text = format!(
        "system two\nparam p1: string = \"x\" from P1\nparam p_1: string = \"y\" from P_1\n{}{}grant g1 {{ get }}\ngrant g_1 {{ put }}\n",
        table("a1"),
        table("a_1")
    );
    let (schema, loaded) = load_text("two.larder", &text);
    let code = emit::cdk(&schema, &loaded.files, &[], &Environment::new()).expect("names fit");
    for wanted in [
        "this.a1Table = new dynamodb.Table(this, 'A1Table', {",
        "this.a1Table_2 = new dynamodb.Table(this, 'A1Table_2', {",
        "kms.Alias.fromAliasName(this, 'A1Key_2', 'alias/x')",
        "this.g1Policy_2 = new iam.ManagedPolicy(this, 'G1Policy_2', {",
        "this.a1Table_2.tableArn",
        "tableName: `a_1-${params.p1}-${params.p1_2}`,",
        "p1_2: props.p1_2 ?? 'y',",
    ] {
        assert!(code.contains(wanted), "{wanted}\n{code}");
    }
}

#[test]
fn terraform_looks_up_a_key_that_is_no_arn() {
    for (key, arn) in [
        ("alias/x", "data.aws_kms_key.things.arn"),
        ("1234abcd-12ab-34cd-56ef-1234567890ab", "data.aws_kms_key.things.arn"),
        ("arn:aws:kms:eu-west-1:1:key/x", "\"arn:aws:kms:eu-west-1:1:key/x\""),
    ] {
        let hcl = terraform(&small(&format!("  encryption kms \"{key}\"\n  region \"eu-west-1\""), ""));
        assert!(hcl.contains(&format!("kms_key_arn = {arn}")), "{hcl}");
        assert_eq!(labels(&hcl, "aws_kms_key").len(), usize::from(!key.starts_with("arn:")), "{hcl}");
        let found = larder_schema::import::terraform(&[("main.tf", &hcl)]).expect("it is HCL");
        let encryption = found.tables[0].encryption.as_ref().and_then(|one| one.kms_key.as_deref());
        assert_eq!((encryption, &found.tables[0].notes), (Some(key), &Vec::new()));
    }
}

#[test]
fn index_keys_of_several_attributes_need_a_later_provider() {
    assert!(terraform(&small("  index ByOwner  owner / at", "")).contains("\">= 6.0\""));
    let hcl = terraform(&small("  index ByOwner  owner, at / id", ""));
    assert!(hcl.contains("key_schema {") && hcl.contains("\">= 6.29\""), "{hcl}");
}

#[test]
fn a_dollar_before_a_variable_stays_one() {
    for text in ["$", "a$$", "%", "a%$"] {
        let setup = small(&format!("  tags  cost \"{text}{{stage}}\""), "");
        let hcl = terraform(&setup);
        let found = larder_schema::import::terraform(&[("main.tf", &hcl)]).expect("it is HCL");
        let shown: String = found.tables[0].tags[0]
            .1
            .0
            .iter()
            .map(|part| match part {
                larder_schema::schema::ParamPart::Text(text) => text.clone(),
                larder_schema::schema::ParamPart::Param(name) => format!("{{{name}}}"),
            })
            .collect();
        assert_eq!(shown, format!("{text}{{stage}}"), "{hcl}");
    }
}

#[test]
fn lines_of_a_runbook_hold_any_value() {
    let text = "system odd\nparam greeting: string = \"it's $5 # a day\" from GREETING\ntable things {\n  key id\n  \
                entity Thing {\n    key \"it's # {name}\"\n    name: string nonempty\n  }\n}\n";
    let (schema, loaded) = load_text("my schema.larder", text);
    let book = emit::runbook(&schema, &loaded.files, &Environment::new()).expect("names fit");
    for wanted in [
        r"export GREETING='it'\''s $5 # a day'",
        "larder check 'my schema.larder'\n",
        r"larder rm odd.Thing --key 'it'\''s # ",
    ] {
        assert!(book.contains(wanted), "{wanted}\n{book}");
    }
}

#[test]
fn every_export_has_the_tags_by_which_a_table_is_known() {
    for system in SYSTEMS {
        let loaded = load(system);
        let wanted: Vec<_> = loaded.0.tables(&Environment::new()).expect("names fit");
        let wanted: Vec<_> = wanted.iter().map(|setup| setup.definition.tags.clone()).collect();
        assert!(wanted.iter().all(|tags| tags["larder:system"] == system), "{wanted:?}");
        let text = pretty(&template(&loaded));
        let stack = larder_schema::import::cloudformation(&text).expect("it is a template");
        let hcl = terraform(&loaded);
        let hcl = larder_schema::import::terraform(&[("main.tf", &hcl)]).expect("it is HCL");
        for found in [stack, hcl] {
            let filled = |text: &larder_schema::schema::ParamText| -> String {
                let parts = text.0.iter().map(|part| match part {
                    larder_schema::schema::ParamPart::Text(text) => text.clone(),
                    larder_schema::schema::ParamPart::Param(name) => {
                        let param = found.params.iter().find(|param| param.name == *name);
                        param.expect("it is declared").default.clone()
                    }
                });
                parts.collect()
            };
            let tags = found.tables.iter().map(|table| -> larder_model::Tags {
                table.tags.iter().map(|(name, value)| (name.clone(), filled(value))).collect()
            });
            assert_eq!(tags.collect::<Vec<_>>(), wanted, "{system}");
        }
        let (schema, files) = (&loaded.0, &loaded.1.files);
        let code = emit::cdk(schema, files, &[], &Environment::new()).expect("names fit");
        for table in &schema.tables {
            assert_eq!(
                code.matches(&format!(".add('larder:table', '{}');", table.name)).count(),
                1,
                "{code}"
            );
        }
    }
}

/// The version after the one of a schema, in which nothing else is different.
fn next_version(system: &str) -> (Schema, Loaded) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{system}.larder"));
    let text = std::fs::read_to_string(path).expect("the five systems are in schemas/");
    let text = match text.contains("\nversion 1") {
        true => text.replace("\nversion 1", "\nversion 2"),
        false => text.replace(&format!("\nsystem {system}\n"), &format!("\nsystem {system}\nversion 2\n")),
    };
    let (schema, loaded) = load_text(&format!("{system}.larder"), &text);
    assert_eq!(schema.version.map(|version| version.number), Some(2), "{system}");
    (schema, loaded)
}

/// A block of HCL without the comments that say where it is from.
fn block(hcl: &str, head: &str) -> Vec<String> {
    let lines = hcl.lines().skip_while(|line| !line.starts_with(head));
    let lines: Vec<String> = lines
        .take_while(|line| *line != "}")
        .map(|line| line.split(" # ").next().unwrap_or("").trim().to_owned())
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert!(!lines.is_empty(), "there is no {head}\n{hcl}");
    lines
}

#[test]
fn l12_l18_tables_of_an_older_version_stay_what_they_are_in_terraform() {
    for system in SYSTEMS {
        let (old, new) = (load(system), next_version(system));
        let kept = [emit::Kept { schema: &old.0, files: &old.1.files }];
        let before = terraform(&old);
        let after = emit::terraform(&new.0, &new.1.files, &kept, &Environment::new()).expect("names fit");
        let streams = |line: &String| !line.starts_with("stream_");
        for kind in ["aws_dynamodb_table", "aws_cloudwatch_metric_alarm"] {
            // What is watched for the whole system is watched on the new tables.
            let of_system = |label: &String| label == "user_error_rate" || label == "hit_rate";
            for label in labels(&before, kind).into_iter().filter(|label| !of_system(label)) {
                let head = format!("resource \"{kind}\" \"{label}\"");
                let (was, is) = (block(&before, &head), block(&after, &head));
                let is: Vec<String> = is.into_iter().filter(streams).collect();
                assert_eq!(is, was.into_iter().filter(streams).collect::<Vec<_>>(), "{system}");
            }
        }
        let wanted = old.0.tables.iter().map(|table| format!("{}-v2", table.name));
        let wanted: Vec<_> = wanted.chain(old.0.tables.iter().map(|table| table.name.clone())).collect();
        assert_eq!(labels(&after, "aws_dynamodb_table"), wanted);
        assert!(!after.contains("removed {"), "{after}");
        // Programs of both versions run.
        for table in wanted {
            assert!(after.contains(&format!("      aws_dynamodb_table.{table}.arn,")), "{table}\n{after}");
        }
    }
}

#[test]
fn l12_l18_tables_that_are_not_kept_leave_terraform_and_are_not_destroyed() {
    for system in SYSTEMS {
        let new = next_version(system);
        let hcl = terraform(&new);
        let body: hcl_edit::structure::Body = hcl.parse().expect("it is HCL");
        let forgotten: Vec<String> = body
            .get_blocks("removed")
            .map(|block| {
                let kept = block.body.get_blocks("lifecycle").next().expect("it says what becomes of it");
                let destroy = kept.body.get_attribute("destroy").expect("it says so");
                assert_eq!(destroy.value.to_string().trim(), "false");
                block.body.get_attribute("from").expect("it names it").value.to_string().trim().to_owned()
            })
            .collect();
        let wanted = new.0.tables.iter().map(|table| format!("aws_dynamodb_table.{}", table.name));
        assert_eq!(forgotten, wanted.collect::<Vec<_>>());
        assert!(hcl.contains("required_version = \">= 1.7\""), "{hcl}");
        assert!(!terraform(&load(system)).contains("removed {"));
    }
}

#[test]
fn l12_l18_tables_of_an_older_version_stay_what_they_are_in_a_stack() {
    for system in SYSTEMS {
        let (old, new) = (load(system), next_version(system));
        let kept = [emit::Kept { schema: &old.0, files: &old.1.files }];
        let stacks = emit::cloudformation(&new.0, &new.1.files, &kept, &Environment::new());
        let after = stacks.expect("names fit").remove(0).template;
        let before = template(&old);
        for kind in ["AWS::DynamoDB::Table", "AWS::CloudWatch::Alarm"] {
            let of_system = ["UserErrorRateAlarm", "HitRateAlarm"];
            for (id, was) in resources(&before, kind).into_iter().filter(|(id, _)| !of_system.contains(id)) {
                assert_eq!(after["Resources"][id]["Properties"], was["Properties"], "{system} {id}");
                assert_eq!(after["Resources"][id]["DeletionPolicy"], was["DeletionPolicy"], "{system} {id}");
            }
        }
        for (id, table) in resources(&after, "AWS::DynamoDB::Table") {
            assert_eq!(table["UpdateReplacePolicy"], "Retain", "{system} {id}");
        }
        assert_eq!(resources(&after, "AWS::DynamoDB::Table").len(), 2 * old.0.tables.len());
        let code = emit::cdk(&new.0, &new.1.files, &kept, &Environment::new()).expect("names fit");
        for line in emit::cdk(&old.0, &old.1.files, &[], &Environment::new()).expect("names fit").lines() {
            if line.contains("new dynamodb.Table(") {
                assert!(
                    code.contains(line)
                        && code.contains(&line.replace("Table'", "TableV2'").replace("Table =", "TableV2 =")),
                    "{line}\n{code}"
                );
            }
        }
    }
}

#[test]
fn l12_a_policy_allows_the_same_on_tables_that_are_kept() {
    let (old, new) = (load("lunch"), next_version("lunch"));
    let kept = [emit::Kept { schema: &old.0, files: &old.1.files }];
    let policies = emit::iam(&new.0, &new.1.files, &kept, &Environment::new()).expect("names fit");
    let [policy] = policies.as_slice() else { panic!("one grant, one policy") };
    let statements = policy.document["Statement"].as_array().expect("a list");
    let resources: Vec<_> = statements.iter().map(|one| one["Resource"][0].clone()).collect();
    let table = "arn:aws:dynamodb:eu-west-1:*:table/lunch-cache-*";
    assert_eq!(resources, [json!(format!("{table}-v2")), json!(table)]);
}

#[test]
fn l9_batches_are_of_what_may_be_done_one_by_one() {
    let grants = "grant reader { get, batch }\ngrant writer { put, batch }\ngrant mover { batch }";
    let actions: Vec<Json> = policies(&small("", grants), &Environment::new())
        .into_iter()
        .map(|policy| policy.document["Statement"][0]["Action"].clone())
        .collect();
    assert_eq!(
        actions,
        [
            json!(["dynamodb:GetItem", "dynamodb:BatchGetItem"]),
            json!(["dynamodb:PutItem", "dynamodb:BatchWriteItem"]),
            json!(["dynamodb:BatchGetItem", "dynamodb:BatchWriteItem"]),
        ]
    );
}

/// A hit that begins a refresh saves no call, so that hits alone do not tell where there are such.
#[test]
fn w11_the_dashboard_shows_calls_saved_and_not_hits() {
    let shown = |policy: &str, metrics: &str| {
        let (schema, loaded) = load_text(
            "pages.larder",
            &format!(
                "system pages\nsource web {{ cost $0.01 per call }}\ntable pages {{\n  key pk\n  ttl ends\n  entity Page \
                 from web {{\n    key \"P#{{url}}\"\n    ttl 1d\n{policy}\n    input url: string nonempty\n  }}\n}}\n\
                 metrics \"Pages\" {{\n  hit Hits\n  miss Misses\n{metrics}\n}}\n"
            ),
        );
        let board =
            emit::dashboard(&schema, &loaded.files, &Environment::new(), "us-east-1").expect("names fit");
        let widgets = board["widgets"].as_array().expect("a list").clone();
        let found = widgets.into_iter().find(|widget| widget["properties"]["title"] == "Saved calls");
        found.map(|graph| graph["properties"]["metrics"][0][1].clone())
    };
    assert_eq!(shown("", ""), Some(json!("Hits")));
    assert_eq!(shown("    stale 1d", ""), None);
    assert_eq!(shown("    refresh 80%", ""), None);
    assert_eq!(shown("    stale 1d", "  saved Saved"), Some(json!("Saved")));
}

/// Which calls of the layer a grant leaves out is told by `check`.
#[test]
fn l9_a_grant_that_lacks_what_the_layer_calls_is_told() {
    let lacking = |grant: &str| {
        let loaded =
            Schema::load("work.larder", &format!("{WORK}{grant}"), &mut NoFiles, &Environment::new());
        let notes =
            loaded.diagnostics.iter().filter(|one| one.code == "L0703").flat_map(|one| one.notes.clone());
        notes.collect::<Vec<String>>().join("\n")
    };
    let told = lacking("grant app { get, put, update, delete, batch }\n");
    assert!(told.contains("without `query`, refused: `due` and claims"), "{told}");
    assert_eq!(lacking("grant app { get, put, update, delete, query, batch }\n"), "");
}

#[test]
fn l10_what_dynamodb_refused_is_watched_by_account_because_it_is_counted_so() {
    let template = template(&load("lunch"));
    let alarm = &template["Resources"]["UserErrorRateAlarm"]["Properties"];
    let metrics = alarm["Metrics"].as_array().expect("a list");
    let refused = metrics.iter().find(|one| one["Id"] == "refused").expect("it is read");
    let metric = &refused["MetricStat"]["Metric"];
    assert_eq!(*metric, json!({"Namespace": "AWS/DynamoDB", "MetricName": "UserErrors", "Dimensions": []}));
    let expression = metrics.last().expect("there are some")["Expression"].as_str().expect("a text");
    assert!(expression.starts_with("IF(FILL(refused, 0) + FILL(done0, 0)"), "{expression}");
}

const WORK: &str = r#"
system work
source web
table jobs {
  key  id
  index by_work as by_work  work
  entity Job {
    key  "JOB#{name}"
    input name: string nonempty
    lifecycle work {
      state waiting
      state running  lease 5m
      begin:   waiting -> running
      finish:  running -> waiting
    }
  }
  entity Page from web {
    key     "PAGE#{url}"
    writes  behind
    input url: string nonempty
  }
}
alarms {
  stuck > 3 for 10m
  queue > 100 for 5m
}
"#;

#[test]
fn stuck_work_and_waiting_writes_reach_every_exporter() {
    let named = format!("{WORK}metrics \"Work\" {{\n  stuck Stuck\n  queue Waiting\n}}\n");
    let loaded = load_text("work.larder", &named);
    let template = template(&loaded);
    for (id, name, statistic, entity, period) in
        [("StuckAlarm", "Stuck", "Sum", "Job", 600), ("QueueAlarm", "Waiting", "Maximum", "Page", 300)]
    {
        let read = &template["Resources"][id]["Properties"]["Metrics"][0]["MetricStat"];
        assert_eq!((&read["Stat"], &read["Period"]), (&json!(statistic), &json!(period)), "{template:#}");
        let dimensions = json!([{"Name": "System", "Value": "work"}, {"Name": "Entity", "Value": entity}]);
        let metric = json!({"Namespace": "Work", "MetricName": name, "Dimensions": dimensions});
        assert_eq!(read["Metric"], metric);
    }
    assert_eq!(labels(&terraform(&loaded), "aws_cloudwatch_metric_alarm"), ["stuck", "queue"]);
    let (schema, files) = (&loaded.0, &loaded.1.files);
    let code = emit::cdk(schema, files, &[], &Environment::new()).expect("names fit");
    assert!(code.contains("'StuckAlarm'") && code.contains("'QueueAlarm'"), "{code}");
}

#[test]
fn prometheus_needs_no_names_for_stuck_work_and_waiting_writes() {
    let (schema, loaded) = load_text("work.larder", WORK);
    let rules = emit::prometheus(&schema, &loaded.files, &Environment::new()).expect("names fit");
    let rules = rules.expect("there are alarms");
    assert_eq!(rules.left_out, Vec::<String>::new());
    for wanted in [
        r#"sum(increase(larder_stuck_total{system="work"}[10m])) > 3"#,
        r#"sum(larder_queue_depth{system="work"}) > 100"#,
    ] {
        assert!(rules.yaml.contains(wanted), "{}", rules.yaml);
    }
    // CloudWatch has only what the schema names, and says so.
    let stack =
        emit::cloudformation(&schema, &loaded.files, &[], &Environment::new()).expect("names fit").remove(0);
    assert_eq!(
        stack.left_out,
        [
            "work.larder:24: `stuck`: no CloudWatch metric is named for it: write stuck NAME in `metrics \"NAMESPACE\" { … }`",
            "work.larder:25: `queue`: no CloudWatch metric is named for it: write queue NAME in `metrics \"NAMESPACE\" { … }`",
        ]
    );
}
