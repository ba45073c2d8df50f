//! A store from outside, through an endpoint: what its stream has kept of an item.

use larder::Address;
use larder_server::{Config, Server, StoreConfig};

use super::*;

/// A store that a server of its own has, as any client sees it.
async fn outside() -> Store {
    let server = Server::bind(Config::local(StoreConfig::Memory)).await.unwrap();
    let address = Address::DynamoDb { endpoint: Some(format!("http://{}", server.address())) };
    tokio::spawn(server.run(std::future::pending()));
    Store::open(&address).await.unwrap().observed()
}

/// A table of `id`, with or without a stream.
async fn table(store: &Store, name: &str, stream: Option<larder_model::StreamView>) {
    let id = larder_model::KeyAttribute { name: "id".to_owned(), kind: larder_model::KeyType::S };
    let definition = larder_model::TableDefinition {
        name: TableName::new(name).unwrap(),
        attributes: vec![("id".to_owned(), larder_model::KeyType::S)],
        key: larder_model::KeySchema { partition: vec![id], sort: Vec::new() },
        indexes: Vec::new(),
        billing: larder_model::Billing::OnDemand,
        on_demand_limits: None,
        stream,
        encryption: None,
        class: None,
        deletion_protection: false,
        tags: larder_model::Tags::new(),
    };
    store.create_table(&definition).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_the_past_of_an_item_of_a_store_from_outside_is_read_from_its_stream() {
    let store = outside().await;
    table(&store, "past", Some(larder_model::StreamView::NewAndOldImages)).await;
    let running = serve(store, true);
    for (id, title) in [("a", "first"), ("b", "other"), ("a", "second"), ("a", "third")] {
        put_raw(&running, "past", serde_json::json!({"id": {"S": id}, "title": {"S": title}})).await;
    }
    let path = "/item/past/history?pk=a";
    let asked = get(&running, path).await.body;
    assert!(asked.contains("Read the stream?") && asked.contains("$0.02 for 100,000"), "{asked}");
    assert!(!asked.contains("third"), "nothing is read before somebody has seen what it takes: {asked}");

    let page = get(&running, &format!("{path}&scan=1")).await.body;
    assert!(page.contains("4 changes of the table looked through"), "{page}");
    assert!(page.contains("all that the stream has") && page.contains("until now"), "{page}");
    assert!(page.contains("third") && !page.contains("other"), "{page}");
    let versions = links(&page, "/item/past/history?pk=a&amp;scan=1&amp;at=");
    assert_eq!(versions.len(), 6, "each is on the line and in the list: {versions:?}");
    let middle = get(&running, &versions[1]).await.body;
    assert!(middle.contains("first") && middle.contains("second") && !middle.contains("third"), "{middle}");
    let moment = get(&running, &format!("{path}&scan=1&moment=2999-01-01T00:00:00Z")).await.body;
    assert!(moment.contains("As it was at") && moment.contains("third"), "{moment}");

    // What comes later is there at the next look, and what was read is not read again.
    put_raw(&running, "past", serde_json::json!({"id": {"S": "a"}, "title": {"S": "fourth"}})).await;
    let page = get(&running, &format!("{path}&scan=1")).await.body;
    assert!(page.contains("5 changes of the table looked through") && page.contains("fourth"), "{page}");
    let still = get(&running, &versions[1]).await.body;
    assert!(still.contains("second") && !still.contains("fourth"), "an address stays that of one change");

    // Another item has its own past, and one that never changed has none.
    put_raw(&running, "past", serde_json::json!({"id": {"S": "<i>"}})).await;
    let other = get(&running, "/item/past/history?pk=%3Ci%3E&scan=1").await.body;
    assert!(other.contains("made") && !other.contains("<i>"), "{other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_without_a_stream_says_what_would_keep_its_past() {
    let store = outside().await;
    table(&store, "silent", None).await;
    let running = serve(store, true);
    put_raw(&running, "silent", serde_json::json!({"id": {"S": "a"}})).await;
    let page = get(&running, "/item/silent/history?pk=a&scan=1").await.body;
    assert!(page.contains("The past is not kept") && page.contains("stream both"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_past_is_read_a_part_at_a_time_and_says_how_far() {
    let store = outside().await;
    table(&store, "long", Some(larder_model::StreamView::NewAndOldImages)).await;
    let running = serve(store, true);
    let body = "x".repeat(300_000);
    for at in 0..24 {
        let item = serde_json::json!({"id": {"S": if at == 23 { "late" } else { "early" }},
            "at": {"N": at.to_string()}, "body": {"S": body}});
        put_raw(&running, "long", item).await;
    }
    let path = "/item/long/history?pk=late&scan=1";
    let mut page = get(&running, path).await.body;
    assert!(page.contains("Read on") && page.contains("up to there"), "{page}");
    for _ in 0..10 {
        if page.contains("all that the stream has") {
            break;
        }
        page = get(&running, path).await.body;
    }
    assert!(page.contains("24 changes of the table looked through") && page.contains("until now"), "{page}");
}

/// What a store answers whose stream has forked: a shard that ended, and one that continues it and is listed before it.
fn forked(operation: &str, body: &serde_json::Value) -> serde_json::Value {
    use serde_json::json;
    let arn = "arn:aws:dynamodb:us-east-1:000000000000:table/forked/stream/2026";
    let record = |number: &str, title: &str| {
        let id = json!({"id": {"S": "a"}});
        json!({"eventName": "MODIFY", "dynamodb": {"Keys": id, "SequenceNumber": number, "ApproximateCreationDateTime": 1_700_000_000,
            "NewImage": {"id": {"S": "a"}, "title": {"S": title}}, "OldImage": id}})
    };
    match operation {
        "ListStreams" => {
            json!({"Streams": [{"StreamArn": arn, "StreamLabel": "2026", "TableName": "forked"}]})
        }
        "DescribeStream" => {
            json!({"StreamDescription": {"StreamArn": arn, "StreamStatus": "ENABLED", "Shards": [
                {"ShardId": "a-child", "ParentShardId": "z-parent", "SequenceNumberRange": {"StartingSequenceNumber": "300"}},
                {"ShardId": "z-parent", "ParentShardId": "gone", "SequenceNumberRange":
                    {"StartingSequenceNumber": "100", "EndingSequenceNumber": "200"}},
            ]}})
        }
        "GetShardIterator" => {
            assert_eq!(body["ShardIteratorType"], "TRIM_HORIZON", "{body}");
            json!({"ShardIterator": format!("{}/0", body["ShardId"].as_str().unwrap())})
        }
        "GetRecords" => match body["ShardIterator"].as_str().unwrap() {
            "z-parent/0" => json!({"Records": [record("100", "first")], "NextShardIterator": "z-parent/1"}),
            "z-parent/1" => json!({"Records": [record("200", "second")]}),
            // A page may have nothing, although the next one has something.
            "a-child/0" => json!({"Records": [], "NextShardIterator": "a-child/1"}),
            "a-child/1" => json!({"Records": [record("300", "third")], "NextShardIterator": "a-child/2"}),
            _ => json!({"Records": [], "NextShardIterator": "a-child/2"}),
        },
        other => panic!("nobody asks for {other}"),
    }
}

/// A store that answers with [`forked`], one request a connection.
async fn forked_store() -> Store {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::DynamoDb { endpoint: Some(format!("http://{}", listener.local_addr().unwrap())) };
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
                let (operation, body) = loop {
                    let read = stream.read(&mut chunk).await.unwrap();
                    bytes.extend_from_slice(&chunk[..read]);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let header = |name: &str| {
                        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
                        line.map(|line| line[name.len()..].trim().to_owned()).unwrap_or_default()
                    };
                    if body.len() >= header("content-length:").parse().unwrap_or(0) {
                        let target = header("x-amz-target:");
                        break (target.rsplit('.').next().unwrap_or_default().to_owned(), body.to_owned());
                    }
                };
                let answer = forked(&operation, &serde_json::from_str(&body).unwrap()).to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\n",
                    answer.len()
                );
                let whole = format!("{head}Connection: close\r\n\r\n{answer}");
                stream.write_all(whole.as_bytes()).await.unwrap();
            });
        }
    });
    Store::open(&address).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_is_read_after_the_one_that_it_continues() {
    let store = forked_store().await;
    let table = TableName::new("forked").unwrap();
    let mut tail = store.tail_from_oldest(&table).await.unwrap().unwrap();
    let mut read = Vec::new();
    for _ in 0..8 {
        read.extend(tail.next().await.unwrap().into_iter().map(|change| change.number));
    }
    assert_eq!(read, [100, 200, 300]);
    assert!(!tail.goes_on());
}
