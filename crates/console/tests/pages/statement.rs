//! PartiQL in the console: the price first, pages, writes by a form, and no way around what is hidden.

use super::*;

pub(super) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The address of a statement with its parameters, and what else it says.
fn address(statement: &str, parameters: &str, more: &str) -> String {
    format!("/statement?statement={}&parameters={}{more}", encoded(statement), encoded(parameters))
}

/// A console on a table of visits: 60 of one page, one of another.
async fn visits(read_only: bool) -> Running {
    let running = serve(Store::memory().await, read_only);
    let client = running.store.sdk_client().await.unwrap();
    use aws_sdk_dynamodb::types::{
        AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
    };
    let mut table = client.create_table().table_name("visits").billing_mode(BillingMode::PayPerRequest);
    for (name, key, kind) in
        [("page", KeyType::Hash, ScalarAttributeType::S), ("day", KeyType::Range, ScalarAttributeType::N)]
    {
        table = table
            .key_schema(KeySchemaElement::builder().attribute_name(name).key_type(key).build().unwrap())
            .attribute_definitions(
                AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build().unwrap(),
            );
    }
    table.send().await.unwrap();
    for day in 1..=60 {
        let visit =
            serde_json::json!({"page": {"S": "home"}, "day": {"N": day.to_string()}, "hits": {"N": "3"}});
        put_raw(&running, "visits", visit).await;
    }
    let hostile = serde_json::json!({"page": {"S": HOSTILE}, "day": {"N": "1"}, "note": {"S": HOSTILE}});
    put_raw(&running, "visits", hostile).await;
    running
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_select_is_an_address_priced_and_paged_and_downloaded() {
    let running = visits(false).await;
    let select = "SELECT * FROM visits WHERE page = ?";
    let told = get(&running, &address(select, "home", "")).await;
    assert!(told.status == 200 && told.body.contains("Query: 1 partition of visits"), "{}", told.body);
    assert!(!told.body.contains("class=\"rows\""), "nothing was read yet");

    let first = get(&running, &address(select, "home", "&run=1")).await.body;
    assert!(first.contains("<b>50 rows</b>, and more") && first.contains("read units"), "{first}");
    assert_eq!(links(&first, "/item/visits?").len(), 50);
    let next = links(&first, "/statement?").into_iter().find(|link| link.contains("cursor=")).unwrap();
    let second = get(&running, &next).await.body;
    assert!(second.contains("<b>10 rows</b>") && !second.contains(", and more"), "{second}");

    let csv = get(&running, &address(select, "home", "&run=1&format=csv")).await;
    assert!(csv.header("content-disposition").unwrap().contains("visits.csv"), "{}", csv.head);
    assert_eq!((csv.body.lines().count(), csv.body.lines().next()), (61, Some("\"page\",\"day\",\"hits\"")));
    let json: serde_json::Value =
        serde_json::from_str(&get(&running, &address(select, "home", "&run=1&format=json")).await.body)
            .unwrap();
    assert_eq!(json.as_array().unwrap().len(), 60);
    let as_json = get(&running, &address(select, "home", "&run=1&as=json")).await.body;
    assert!(as_json.contains("&quot;N&quot;: &quot;3&quot;"), "{as_json}");

    let columns =
        get(&running, &address("SELECT day, hits FROM visits WHERE page = 'home'", "", "&run=1")).await;
    assert!(columns.body.contains("<th>day</th><th>hits</th>"), "{}", columns.body);
    let none = get(&running, &address(select, "none", "&run=1")).await.body;
    assert!(none.contains("Nothing is there"), "{none}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_reads_the_whole_table_waits_until_its_price_was_seen() {
    let running = visits(false).await;
    let select = "SELECT * FROM visits WHERE hits > 5";
    let told = get(&running, &address(select, "", "&run=1")).await.body;
    assert!(told.contains("Scan: all 61 items of visits") && !told.contains("class=\"rows\""), "{told}");
    let go = links(&told, "/statement?").into_iter().find(|link| link.contains("scan=1")).unwrap();
    assert!(get(&running, &go).await.body.contains("Nothing is there"));
    // A page of another site cannot begin it.
    let foreign = format!(
        "GET {go} HTTP/1.1\r\nHost: {}\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nConnection: close\r\n\r\n",
        running.address
    );
    assert_eq!(send(&running, foreign).await.status, 403);
    let file = get(&running, &address(select, "", "&run=1&format=csv")).await;
    assert_eq!(file.status, 400, "{}", file.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_told_first_and_done_by_a_form_alone() {
    let running = visits(false).await;
    let update = "UPDATE visits SET hits = hits + 1 WHERE page = ? AND day = 1 RETURNING ALL NEW *";
    for more in ["", "&run=1", "&run=1&scan=1", "&run=1&format=json"] {
        let told = get(&running, &address(update, "home", more)).await.body;
        assert!(told.contains("UpdateItem: one item of visits") && told.contains("write unit"), "{told}");
        assert!(told.contains("name=\"token\"") && told.contains("Do it"), "{told}");
    }
    let form = format!("statement={}&parameters=home", encoded(update));
    let done = post(&running, "/statement", &form).await;
    assert!(done.status == 200 && done.body.contains("It is done, for 1 write unit"), "{}", done.body);
    assert!(done.body.contains(">4<"), "{}", done.body);
    let item = stored_visit(&running).await;
    assert_eq!(item.get("hits"), Some(&AttributeValue::from(4)), "once, and by the form alone");

    let wrong = format!("statement={}&parameters=none", encoded(update));
    let refused = post(&running, "/statement", &wrong).await;
    assert!(
        refused.status == 409 && refused.body.contains("The conditional request failed"),
        "{}",
        refused.body
    );

    for (statement, told) in [
        ("SLECT 1", "well formed"),
        ("SELECT * FROM nothing", "There is no table nothing"),
        ("SELECT * FROM visits.none WHERE page = 'home'", "there is no index `none`; the table has none"),
        ("DELETE FROM visits WHERE page = 'home'", "key"),
        ("SELECT * FROM visits WHERE page = ?", "arameter"),
    ] {
        let answer = get(&running, &address(statement, "", "&run=1")).await;
        assert!(answer.status == 400 && answer.body.contains(told), "{statement}: {}", answer.body);
    }
}

async fn stored_visit(running: &Running) -> Item {
    let table = TableName::new("visits").unwrap();
    let key: Item =
        [("page", AttributeValue::from("home")), ("day", AttributeValue::from(1))].into_iter().collect();
    let get = GetItem { table, key, projection: None, consistent: true, capacity: ReturnCapacity::None };
    running.store.get_item(get).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_console_runs_no_statement_that_writes() {
    let running = visits(false).await;
    let shown = serve(running.store.clone(), true);
    let delete = "DELETE FROM visits WHERE page = 'home' AND day = 1";
    let told = get(&shown, &address(delete, "", "&run=1")).await.body;
    assert!(told.contains("This console is read-only.") && !told.contains("Do it"), "{told}");
    let select = get(&shown, &address("SELECT * FROM visits WHERE page = 'home'", "", "&run=1")).await.body;
    assert!(select.contains("<b>50 rows</b>"), "{select}");
    // With the token of a console that may.
    let forged = post(&running, "/statement", "statement=").await;
    assert_eq!(forged.status, 200, "without a statement it is the page");
    stored_visit(&running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_statement_finds_is_text() {
    let running = visits(false).await;
    let page = get(&running, &address("SELECT * FROM visits WHERE page = ?", HOSTILE, "&run=1")).await.body;
    assert!(page.contains("<b>1 row</b>"), "{page}");
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
    let wrong = get(&running, &address(HOSTILE, HOSTILE, "&run=1")).await.body;
    assert!(!wrong.contains("<script>alert") && !wrong.contains("<img"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_names_a_secret_and_none_returns_one() {
    let (running, _, _) = start_kept().await;
    put_raw(&running, "kept_notes", serde_json::json!({"pk": {"S": "N#1"}, "code": {"S": "4711"}})).await;
    for statement in [
        "SELECT code FROM kept_notes",
        "SELECT pk FROM kept_notes WHERE code > '4'",
        "SELECT pk FROM kept_notes WHERE pk = 'N#1' AND begins_with(code, '47')",
        "UPDATE kept_notes SET title = code WHERE pk = 'N#1'",
        "UPDATE kept_notes SET title = list_append(code, code) WHERE pk = 'N#1'",
        "DELETE FROM kept_notes WHERE pk = 'N#1' AND code = '4711'",
        "INSERT INTO kept_notes VALUE {'pk': 'N#2', 'code': '1'}",
    ] {
        for answer in [
            get(&running, &address(statement, "", "&run=1&scan=1")).await,
            post(&running, "/statement", &format!("statement={}", encoded(statement))).await,
        ] {
            assert!(
                answer.status == 400 && answer.body.contains("`code` is a secret"),
                "{statement}: {}",
                answer.body
            );
        }
    }
    let all = get(&running, &address("SELECT * FROM kept_notes", "", "&run=1&scan=1")).await.body;
    assert!(all.contains("N#1") && !all.contains("4711"), "{all}");
    let gone = "DELETE FROM kept_notes WHERE pk = 'N#1' RETURNING ALL OLD *";
    let told = get(&running, &address(gone, "", "&run=1")).await.body;
    assert!(told.contains("writes past the schema of kept"), "{told}");
    let done = post(&running, "/statement", &format!("statement={}", encoded(gone))).await;
    assert!(done.status == 200 && done.body.contains("It is done"), "{}", done.body);
    assert!(done.body.contains("N#1") && !done.body.contains("4711"), "{}", done.body);
}
