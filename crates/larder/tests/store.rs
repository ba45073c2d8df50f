//! Items on every kind of store: what is asked in bound expressions means the same everywhere, and what goes
//! wrong goes wrong in the same words.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail with the test")]

mod stores;

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types as sdk;
use larder::store::ops::{
    BatchGetItem, BatchGetTable, BatchWrite, BatchWriteItem, DeleteItem, GetItem, ListTables, PutItem, Query,
    Request, ReturnCapacity, ReturnValues, Scan, Segment, Select, TransactAction, TransactGet,
    TransactGetItems, TransactWrite, TransactWriteItems, UpdateItem, WriteOptions,
};
use larder::store::{Error, Fault, Feature, TableChange};
use larder::{Address, Store};
use larder_expr::{Condition, Scope};
use larder_model::{
    AttributeValue, Billing, IndexDefinition, IndexKind, IndexName, Item, KeyAttribute, KeySchema, KeyType,
    Number, Projection, TableDefinition, TableName, Tags, Throughput,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

// Single items

#[test]
fn an_item_of_all_types_comes_back_as_it_was_put() {
    stores::each(async |store| {
        make_tables(&store).await;
        let mut item = cart("ann", 1);
        item.insert("text", "å \u{1f955} \"quoted\"");
        item.insert("number", AttributeValue::N("-12345678901234567890.123456789".parse().unwrap()));
        item.insert("bytes", AttributeValue::B(vec![0, 1, 255]));
        item.insert("yes", true);
        item.insert("nothing", AttributeValue::Null);
        item.insert("texts", AttributeValue::Ss(["a".into(), "b".into()].into()));
        item.insert("numbers", AttributeValue::Ns([1.into(), 2.into()].into()));
        item.insert("blobs", AttributeValue::Bs([vec![1], vec![2]].into()));
        let inner: Item = [("deep", AttributeValue::L(vec![1.into(), "x".into()]))].into_iter().collect();
        item.insert("map", AttributeValue::M(inner));
        assert_eq!(store.put_item(put(item.clone())).await.unwrap(), None);
        assert_eq!(store.get_item(get(key("ann", 1))).await.unwrap(), Some(item));
        assert_eq!(store.get_item(get(key("ann", 2))).await.unwrap(), None);
    });
}

#[test]
fn a_projection_shows_its_parts_alone() {
    stores::each(async |store| {
        make_tables(&store).await;
        let mut item = cart("ann", 1);
        item.insert("heft", 7);
        item.insert("things", AttributeValue::L(vec![1.into(), 2.into()]));
        store.put_item(put(item)).await.unwrap();
        let projection = Some(scope(&[]).projection("heft, things[1]").unwrap());
        let found = store.get_item(GetItem { projection, ..get(key("ann", 1)) }).await.unwrap().unwrap();
        let list = AttributeValue::L(vec![2.into()]);
        assert_eq!(found, [("heft", 7.into()), ("things", list)].into_iter().collect());
    });
}

#[test]
fn a_put_under_a_condition_that_fails_keeps_the_old_item() {
    stores::each(async |store| {
        make_tables(&store).await;
        let old = cart("ann", 1);
        store.put_item(put(old.clone())).await.unwrap();
        let mut new = cart("ann", 1);
        new.insert("cents", 99);
        let absent = WriteOptions {
            condition: Some(condition("attribute_not_exists(holder)", &[])),
            return_old_on_failure: true,
            ..WriteOptions::default()
        };
        let refused = store.put_item(PutItem { options: absent, ..put(new.clone()) }).await;
        match refused {
            Err(Error::Condition { item: Some(item) }) => assert_eq!(*item, old),
            // An endpoint from before table classes does not show it.
            Err(Error::Condition { item: None }) => {
                assert!(store.lacks().await.unwrap().contains_key(&Feature::TableClass));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(store.get_item(get(key("ann", 1))).await.unwrap(), Some(old.clone()));
        let replace = WriteOptions {
            condition: Some(condition("cents = :none", &[(":none", 0.into())])),
            return_values: ReturnValues::AllOld,
            ..WriteOptions::default()
        };
        let replaced = store.put_item(PutItem { options: replace, ..put(new.clone()) }).await.unwrap();
        assert_eq!(replaced, Some(old));
        assert_eq!(store.get_item(get(key("ann", 1))).await.unwrap(), Some(new));
    });
}

#[test]
fn an_update_counts_appends_removes_and_answers_what_was_asked() {
    stores::each(async |store| {
        make_tables(&store).await;
        let values = [
            (":two", 2.into()),
            (":zero", 0.into()),
            (":none", AttributeValue::L(vec![])),
            (":more", AttributeValue::L(vec!["pear".into()])),
            (":tags", AttributeValue::Ss(["new".into()].into())),
        ];
        let text = "SET cents = if_not_exists(cents, :zero) + :two, \
                    things = list_append(if_not_exists(things, :none), :more) REMOVE gone ADD tags :tags";
        let mut item = cart("ann", 1);
        item.insert("gone", "soon");
        store.put_item(put(item)).await.unwrap();
        for cents in [2, 4] {
            let request = update(key("ann", 1), text, &values, ReturnValues::AllNew);
            let after = store.update_item(request).await.unwrap().unwrap();
            assert_eq!(after.get("cents"), Some(&cents.into()));
            assert_eq!(after.get("gone"), None);
        }
        let request = update(key("ann", 1), "ADD cents :two", &values[..1], ReturnValues::UpdatedOld);
        let before = store.update_item(request).await.unwrap().unwrap();
        assert_eq!(before, [("cents", 4)].into_iter().collect());
        let found = store.get_item(get(key("ann", 1))).await.unwrap().unwrap();
        assert_eq!(found.get("things"), Some(&AttributeValue::L(vec!["pear".into(), "pear".into()])));
        assert_eq!(found.get("tags"), Some(&AttributeValue::Ss(["new".into()].into())));

        let missing =
            UpdateItem { update: None, ..update(key("bob", 1), "REMOVE x", &[], ReturnValues::None) };
        assert_eq!(store.update_item(missing).await.unwrap(), None);
        assert_eq!(store.get_item(get(key("bob", 1))).await.unwrap(), Some(key("bob", 1)));
    });
}

#[test]
fn a_delete_answers_the_old_item_and_minds_its_condition() {
    stores::each(async |store| {
        make_tables(&store).await;
        store.put_item(put(cart("ann", 1))).await.unwrap();
        let delete = |text: &str, values: &[(&str, AttributeValue)]| DeleteItem {
            table: table("carts"),
            key: key("ann", 1),
            options: WriteOptions {
                condition: Some(condition(text, values)),
                return_values: ReturnValues::AllOld,
                ..WriteOptions::default()
            },
        };
        let refused = store.delete_item(delete("cents > :t", &[(":t", 5.into())])).await;
        assert!(matches!(refused, Err(Error::Condition { .. })), "{refused:?}");
        let gone = store.delete_item(delete("cents < :t", &[(":t", 5.into())])).await.unwrap();
        assert_eq!(gone, Some(cart("ann", 1)));
        assert_eq!(store.get_item(get(key("ann", 1))).await.unwrap(), None);
    });
}

// Pages

#[test]
fn a_query_gives_pages_in_either_direction() {
    stores::each(async |store| {
        make_tables(&store).await;
        for number in 1..=5 {
            store.put_item(put(cart("ann", number))).await.unwrap();
        }
        store.put_item(put(cart("bob", 1))).await.unwrap();
        for forward in [true, false] {
            let (mut found, mut start) = (Vec::new(), None);
            loop {
                let request = Query { forward, start, limit: Some(2), ..query("holder = :o", "ann") };
                let page = store.query(request).await.unwrap();
                assert!(page.items.len() <= 2);
                found.extend(page.items.iter().map(number));
                start = page.last_key;
                if start.is_none() {
                    break;
                }
            }
            let mut expected: Vec<i64> = (1..=5).collect();
            if !forward {
                expected.reverse();
            }
            assert_eq!(found, expected);
        }
    });
}

#[test]
fn a_query_takes_a_range_a_filter_and_a_count() {
    stores::each(async |store| {
        make_tables(&store).await;
        for number in 1..=5 {
            let mut item = cart("ann", number);
            item.insert("even", number % 2 == 0);
            store.put_item(put(item)).await.unwrap();
        }
        let mut scope =
            scope(&[(":o", "ann".into()), (":low", 2.into()), (":high", 5.into()), (":yes", true.into())]);
        let request = Query {
            key_condition: scope.key_condition("holder = :o AND num BETWEEN :low AND :high").unwrap(),
            filter: Some(scope.filter("even = :yes").unwrap()),
            capacity: ReturnCapacity::Total,
            ..query("holder = :o", "ann")
        };
        let page = store.query(request.clone()).await.unwrap();
        assert_eq!(page.items.iter().map(number).collect::<Vec<_>>(), [2, 4]);
        assert_eq!((page.count, page.scanned), (2, 4));
        assert!(page.units > 0.0);
        let counted = store.query(Query { select: Some(Select::Count), ..request }).await.unwrap();
        assert_eq!((counted.items.len(), counted.count, counted.scanned), (0, 2, 4));
    });
}

#[test]
fn an_index_is_queried_by_its_own_key() {
    stores::each(async |store| {
        make_tables(&store).await;
        for (holder, number, cents) in [("ann", 1, 30), ("bob", 1, 10), ("cid", 1, 20)] {
            let mut item = cart(holder, number);
            item.insert("phase", "open");
            item.insert("cents", cents);
            store.put_item(put(item)).await.unwrap();
        }
        store.put_item(put(cart("dan", 1))).await.unwrap();
        let request = Query {
            index: Some(IndexName::new("by_phase").unwrap()),
            capacity: ReturnCapacity::Indexes,
            ..query("phase = :o", "open")
        };
        let page = store.query(request).await.unwrap();
        let holders: Vec<&str> = page
            .items
            .iter()
            .filter_map(|item| item.get("holder").and_then(AttributeValue::as_str))
            .collect();
        assert_eq!(holders, ["bob", "cid", "ann"]);
        assert!(page.units > 0.0);
    });
}

#[test]
fn the_segments_of_a_scan_hold_every_item_once() {
    stores::each(async |store| {
        make_tables(&store).await;
        for number in 1..=20 {
            store.put_item(put(cart(&format!("holder{number}"), number))).await.unwrap();
        }
        let mut found = Vec::new();
        for index in 0..3 {
            let page =
                store.scan(Scan { segment: Some(Segment { index, total: 3 }), ..scan() }).await.unwrap();
            found.extend(page.items.iter().map(number));
        }
        found.sort_unstable();
        assert_eq!(found, (1..=20).collect::<Vec<_>>());
        let some = Scan { filter: Some(condition("num > :n", &[(":n", 18.into())])), ..scan() };
        let page = store.scan(some).await.unwrap();
        assert_eq!((page.count, page.scanned), (2, 20));
        let part = store.scan(Scan { limit: Some(5), ..scan() }).await.unwrap();
        assert_eq!(part.items.len(), 5);
        let rest = store.scan(Scan { start: part.last_key, ..scan() }).await.unwrap();
        assert_eq!(rest.items.len(), 15);
    });
}

// Batches and transactions

#[test]
fn a_batch_writes_and_reads_several_tables() {
    stores::each(async |store| {
        make_tables(&store).await;
        store.put_item(put(cart("ann", 9))).await.unwrap();
        let mut writes: Vec<BatchWrite> =
            (1..=3).map(|number| BatchWrite::Put(cart("ann", number))).collect();
        writes.push(BatchWrite::Delete(key("ann", 9)));
        let other: Item = [("id", "x")].into_iter().collect();
        let request = BatchWriteItem {
            tables: vec![(table("carts"), writes), (table("others"), vec![BatchWrite::Put(other.clone())])],
            capacity: ReturnCapacity::None,
            collection_metrics: false,
        };
        assert!(store.batch_write_item(request).await.unwrap().is_empty());
        let request = BatchGetItem {
            tables: vec![
                BatchGetTable {
                    keys: [1, 2, 3, 9].map(|number| key("ann", number)).into(),
                    projection: Some(scope(&[]).projection("num").unwrap()),
                    ..batch_get("carts")
                },
                BatchGetTable { keys: vec![other.clone()], consistent: true, ..batch_get("others") },
            ],
            capacity: ReturnCapacity::None,
        };
        let (found, left) = store.batch_get_item(request).await.unwrap();
        assert!(left.is_empty());
        let of = |name: &str| {
            let found = found.iter().find(|(found, _)| found.as_str() == name);
            found.map(|(_, items)| items.clone()).unwrap_or_default()
        };
        let mut numbers: Vec<i64> = of("carts").iter().map(number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(of("carts")[0].len(), 1);
        assert_eq!(of("others"), [other]);
    });
}

#[test]
fn a_transaction_is_written_whole_or_cancelled_with_its_reasons() {
    stores::each_with_transactions(async |store| {
        make_tables(&store).await;
        store.put_item(put(cart("ann", 1))).await.unwrap();
        store.put_item(put(cart("ann", 2))).await.unwrap();
        let write = |action: TransactAction, condition: Option<Condition>| TransactWrite {
            table: table("carts"),
            action,
            condition,
            return_old_on_failure: true,
        };
        let transaction = |limit: i64| {
            let add = scope(&[(":one", 1.into())]).update("ADD cents :one").unwrap();
            TransactWriteItems {
                writes: vec![
                    write(TransactAction::Put { item: cart("bob", 1) }, None),
                    write(
                        TransactAction::Update { key: key("ann", 1), update: add },
                        Some(condition("cents < :l", &[(":l", limit.into())])),
                    ),
                    write(TransactAction::Delete { key: key("ann", 2) }, None),
                    write(
                        TransactAction::Check { key: key("zoe", 1) },
                        Some(condition("attribute_not_exists(holder)", &[])),
                    ),
                ],
                token: None,
                capacity: ReturnCapacity::None,
                collection_metrics: false,
            }
        };
        match store.transact_write_items(transaction(0)).await {
            Err(Error::Cancelled { reasons }) => {
                let codes: Vec<&str> = reasons.iter().map(|reason| &*reason.code).collect();
                assert_eq!(codes, ["None", "ConditionalCheckFailed", "None", "None"]);
                assert_eq!(reasons[1].item, Some(cart("ann", 1)));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(store.get_item(get(key("bob", 1))).await.unwrap(), None);
        store.transact_write_items(transaction(1)).await.unwrap();

        let gets = [("ann", 1), ("ann", 2), ("bob", 1)]
            .map(|(holder, number)| TransactGet {
                table: table("carts"),
                key: key(holder, number),
                projection: Some(scope(&[]).projection("cents").unwrap()),
            })
            .into();
        let found = store.transact_get_items(TransactGetItems { gets, capacity: ReturnCapacity::None }).await;
        let total = |total: i64| Some([("cents", total)].into_iter().collect());
        assert_eq!(found.unwrap(), [total(1), None, total(0)]);
    });
}

#[test]
fn a_transaction_with_one_token_is_done_once() {
    stores::each_with_transactions(async |store| {
        make_tables(&store).await;
        let id: Item = [("id", "x")].into_iter().collect();
        let write = TransactWrite {
            // A key of one attribute: DynamoDB Local compares the text, where the order of members is by chance.
            table: table("others"),
            action: TransactAction::Update {
                key: id.clone(),
                update: scope(&[(":one", 1.into())]).update("ADD cents :one").unwrap(),
            },
            condition: None,
            return_old_on_failure: false,
        };
        let request = TransactWriteItems {
            writes: vec![write],
            token: Some("once".to_owned()),
            capacity: ReturnCapacity::None,
            collection_metrics: false,
        };
        for _ in 0..3 {
            store.transact_write_items(request.clone()).await.unwrap();
        }
        let found =
            store.get_item(GetItem { table: table("others"), ..get(id.clone()) }).await.unwrap().unwrap();
        assert_eq!(found.get("cents"), Some(&1.into()));
    });
}

// What goes wrong

#[test]
fn a_missing_table_is_named() {
    stores::each(async |store| {
        make_tables(&store).await;
        let missing = |answer: Result<(), Error>| match answer {
            Err(Error::NoTable { table }) => assert_eq!(table.as_str(), "absent"),
            other => panic!("{other:?}"),
        };
        let absent = table("absent");
        missing(store.get_item(GetItem { table: absent.clone(), ..get(key("ann", 1)) }).await.map(drop));
        missing(store.put_item(PutItem { table: absent.clone(), ..put(cart("ann", 1)) }).await.map(drop));
        missing(store.query(Query { table: absent.clone(), ..query("holder = :o", "ann") }).await.map(drop));
        missing(store.scan(Scan { table: absent.clone(), ..scan() }).await.map(drop));
        let batch = BatchWriteItem {
            tables: vec![
                (table("carts"), vec![BatchWrite::Put(cart("ann", 1))]),
                (absent, vec![BatchWrite::Put(cart("ann", 1))]),
            ],
            capacity: ReturnCapacity::None,
            collection_metrics: false,
        };
        missing(store.batch_write_item(batch).await.map(drop));
    });
}

#[test]
fn a_request_that_breaks_the_rules_is_refused_with_its_code() {
    stores::each(async |store| {
        make_tables(&store).await;
        let half: Item = [("holder", "ann")].into_iter().collect();
        match store.get_item(get(half)).await {
            Err(Error::Refused { code, .. }) => assert_eq!(code, "ValidationException"),
            other => panic!("{other:?}"),
        }
        let text = "SET cents = cents + :one";
        let request = update(key("ann", 1), text, &[(":one", 1.into())], ReturnValues::None);
        match store.update_item(request).await {
            Err(error @ Error::Refused { .. }) => assert!(!error.is_transient()),
            other => panic!("{other:?}"),
        }
        let tables = store.execute(Request::ListTables(ListTables { start: None, limit: None })).await;
        assert!(matches!(tables, Err(Error::Unsupported(_))), "{tables:?}");
    });
}

#[test]
fn nobody_at_the_address_is_told_apart_from_an_answer_that_was_lost() {
    stores::run(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let address = Address::DynamoDb { endpoint: Some(url) };
        // Opening asks nothing.
        let store = Store::open(&address).await.unwrap();
        let hears_and_hangs_up = tokio::spawn(async move {
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                let _ = connection.read(&mut [0; 4096]).await;
            }
        });
        match store.get_item(get(key("ann", 1))).await {
            Err(error @ Error::Unanswered { .. }) => assert!(error.is_transient()),
            other => panic!("{other:?}"),
        }
        hears_and_hangs_up.abort();
        assert!(hears_and_hangs_up.await.is_err());
        match store.get_item(get(key("ann", 1))).await {
            Err(error @ Error::Unreachable { .. }) => assert!(error.is_transient()),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn what_an_endpoint_answers_is_told_apart_by_its_code() {
    stores::run(async {
        let code =
            |code: &str| format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"why"}}"#);
        let answers = [
            (400, code("ProvisionedThroughputExceededException")),
            (400, code("ThrottlingException")),
            (400, code("UnknownOperationException")),
            (400, code("AccessDeniedException")),
            (500, code("InternalServerError")),
            (200, "no JSON".to_owned()),
            (200, r#"{"Item":{"a":{"N":"seven"}}}"#.to_owned()),
        ];
        let mut told = Vec::new();
        for (status, body) in answers {
            let store = Store::open(&always(status, body).await).await.unwrap();
            let error = store.get_item(get(key("ann", 1))).await.unwrap_err();
            let kind = match &error {
                Error::Throttled(_) => "throttled",
                Error::Unsupported(_) => "unsupported",
                Error::Refused { .. } => "refused",
                Error::Unanswered { .. } => "unanswered",
                other => panic!("{other:?}"),
            };
            told.push((kind, error.is_transient()));
        }
        let expected = [
            ("throttled", true),
            ("throttled", true),
            ("unsupported", false),
            ("refused", false),
            ("refused", true),
            ("unanswered", true),
            ("unanswered", true),
        ];
        assert_eq!(told, expected);
    });
}

// Opening

#[test]
fn w5_a_lazy_store_is_opened_once_by_its_first_use() {
    stores::run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        let store = Store::lazy(Address::Directory(path.clone()));
        assert_eq!(store.place(), path.display().to_string());
        assert!(store.is_embedded());
        assert!(!path.exists());
        // A directory has one owner: a second opening would fail.
        let asks = (0..50).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.list_tables().await })
        });
        for ask in asks.collect::<Vec<_>>() {
            assert_eq!(ask.await.unwrap().unwrap(), []);
        }
        store.clock().advance(Duration::from_secs(3600));
        make_tables(&store).await;
        store.put_item(put(cart("ann", 1))).await.unwrap();
    });
}

#[test]
fn w5_an_opening_that_failed_is_tried_again() {
    stores::run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, "a file is in the way").unwrap();
        let store = Store::lazy(Address::Directory(path.clone()));
        assert!(store.list_tables().await.is_err());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(store.list_tables().await.unwrap(), []);
    });
}

#[test]
fn a_directory_is_free_as_soon_as_its_store_is_dropped() {
    stores::run(async {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Directory(directory.path().join("data"));
        for round in 0..30 {
            let store = Store::open(&address).await.unwrap();
            if round == 0 {
                make_tables(&store).await;
            }
            store.put_item(put(cart("ann", round))).await.unwrap();
        }
        let store = Store::open(&address).await.unwrap();
        assert_eq!(store.scan(scan()).await.unwrap().count, 30);
    });
}

#[test]
fn an_expired_item_leaves_the_embedded_store_soon() {
    stores::run(async {
        let store = Store::memory().await;
        make_tables(&store).await;
        let ttl = TableChange::TimeToLive { attribute: "ends".to_owned(), enabled: true };
        store.change_table(&table("carts"), &ttl).await.unwrap();
        let mut item = cart("ann", 1);
        item.insert("ends", store.clock().now().seconds() + 3600);
        store.put_item(put(item)).await.unwrap();
        assert!(store.get_item(get(key("ann", 1))).await.unwrap().is_some());
        store.clock().advance(Duration::from_secs(7200));
        let mut look = tokio::time::interval(Duration::from_millis(20));
        let gone = async {
            while store.get_item(get(key("ann", 1))).await.unwrap().is_some() {
                look.tick().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.expect("it leaves soon");
    });
}

// Faults and the record

#[test]
fn faults_come_as_asked_for_and_go_again() {
    stores::each(async |store| {
        make_tables(&store).await;
        let faults = store.faults();
        let ask = async || store.get_item(get(key("ann", 1))).await;
        assert_eq!(ask().await.unwrap(), None);
        faults.throttle(1.0);
        assert!(matches!(ask().await, Err(Error::Throttled(_))));
        faults.reset().fail(1.0);
        assert!(matches!(ask().await, Err(error @ Error::Refused { .. }) if error.is_transient()));
        faults.reset().down();
        assert!(matches!(ask().await, Err(Error::Unreachable { .. })));
        faults.up();
        assert_eq!(ask().await.unwrap(), None);
        faults.fail_next(1, Fault::Throttle);
        assert!(matches!(ask().await, Err(Error::Throttled(_))));
        assert_eq!(ask().await.unwrap(), None);

        faults.lose_answers(1.0).only(&["PutItem"]);
        let lost = store.put_item(put(cart("ann", 1))).await;
        assert!(matches!(lost, Err(Error::Unanswered { .. })), "{lost:?}");
        assert_eq!(ask().await.unwrap(), Some(cart("ann", 1)));
    });
}

#[tokio::test(start_paused = true)]
async fn a_delay_takes_time_and_nothing_else() {
    let store = Store::memory().await;
    make_tables(&store).await;
    store.faults().delay(1.0, Duration::from_secs(3600));
    let started = tokio::time::Instant::now();
    assert_eq!(store.get_item(get(key("ann", 1))).await.unwrap(), None);
    assert!(started.elapsed() >= Duration::from_secs(3600));
}

#[test]
fn requests_are_recorded_in_order_until_they_are_taken() {
    stores::each(async |store| {
        make_tables(&store).await;
        assert_eq!(store.requests().total(), 0);
        store.put_item(put(cart("ann", 1))).await.unwrap();
        for _ in 0..2 {
            store.clone().get_item(get(key("ann", 1))).await.unwrap();
        }
        assert_eq!(store.requests().count("GetItem"), 2);
        assert_eq!(store.requests().total(), 3);
        match &store.requests().take()[..] {
            [Request::PutItem(put), Request::GetItem(get), Request::GetItem(_)] => {
                assert_eq!(put.item, cart("ann", 1));
                assert_eq!(get.key, key("ann", 1));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(store.requests().total(), 0);
    });
}

// The SDK in process

#[test]
fn the_sdk_in_process_makes_tables_and_sees_the_items_of_the_store() {
    stores::run(async {
        let store = Store::memory().await;
        let client = store.sdk_client().await.unwrap();
        make_tables(&store).await;
        store.put_item(put(cart("ann", 1))).await.unwrap();
        let attribute = |value: &str| sdk::AttributeValue::S(value.to_owned());
        let number = |value: &str| sdk::AttributeValue::N(value.to_owned());
        let found =
            client.get_item().table_name("carts").key("holder", attribute("ann")).key("num", number("1"));
        let found = found.send().await.unwrap().item.unwrap();
        assert_eq!(found["cents"], number("0"));

        let put =
            client.put_item().table_name("carts").item("holder", attribute("ann")).item("num", number("1"));
        let refused = put.condition_expression("attribute_not_exists(holder)").send().await.unwrap_err();
        assert!(refused.into_service_error().is_conditional_check_failed_exception());
        let absent = client.scan().table_name("absent").send().await.unwrap_err();
        assert!(absent.into_service_error().is_resource_not_found_exception());

        // An index is filled by the time the change is answered.
        let definition = sdk::AttributeDefinition::builder()
            .attribute_name("cents")
            .attribute_type(sdk::ScalarAttributeType::N)
            .build()
            .unwrap();
        let element = sdk::KeySchemaElement::builder()
            .attribute_name("cents")
            .key_type(sdk::KeyType::Hash)
            .build()
            .unwrap();
        let units =
            sdk::ProvisionedThroughput::builder().read_capacity_units(1).write_capacity_units(1).build();
        let create = sdk::CreateGlobalSecondaryIndexAction::builder()
            .index_name("by_cents")
            .key_schema(element)
            .projection(sdk::Projection::builder().projection_type(sdk::ProjectionType::All).build())
            .provisioned_throughput(units.unwrap())
            .build()
            .unwrap();
        let change = sdk::GlobalSecondaryIndexUpdate::builder().create(create).build();
        let update = client.update_table().table_name("carts").attribute_definitions(definition);
        update.global_secondary_index_updates(change).send().await.unwrap();
        let found = client
            .query()
            .table_name("carts")
            .index_name("by_cents")
            .key_condition_expression("#t = :zero")
            .expression_attribute_names("#t", "cents")
            .expression_attribute_values(":zero", number("0"));
        assert_eq!(found.send().await.unwrap().count, 1);
        let names = client.list_tables().send().await.unwrap().table_names.unwrap();
        assert_eq!(names, ["carts", "others"]);
    });
}

#[test]
fn the_sdk_in_process_works_on_when_the_store_was_dropped() {
    stores::run(async {
        let client = Store::memory().await.sdk_client().await.unwrap();
        assert!(client.list_tables().send().await.unwrap().table_names().is_empty());
    });
}

// Helpers

/// An endpoint that has one answer to everything.
async fn always(status: u16, body: String) -> Address {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            // The last byte of a request is the end of its object.
            while request.last() != Some(&b'}') && connection.read_buf(&mut request).await.unwrap() > 0 {}
            connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
    });
    Address::DynamoDb { endpoint: Some(url) }
}

/// `carts` by holder and number, with an index by phase and cents, and `others` by id.
async fn make_tables(store: &Store) {
    let attribute = |name: &str, kind| KeyAttribute { name: name.to_owned(), kind };
    let units = Throughput { read: 5, write: 5 };
    let carts = KeySchema {
        partition: vec![attribute("holder", KeyType::S)],
        sort: vec![attribute("num", KeyType::N)],
    };
    let by_phase = IndexDefinition {
        name: IndexName::new("by_phase").unwrap(),
        kind: IndexKind::Global,
        key: KeySchema {
            partition: vec![attribute("phase", KeyType::S)],
            sort: vec![attribute("cents", KeyType::N)],
        },
        projection: Projection::All,
        throughput: units,
        on_demand_limits: None,
    };
    let others = KeySchema { partition: vec![attribute("id", KeyType::S)], sort: Vec::new() };
    for (name, key, indexes) in [("carts", carts, vec![by_phase]), ("others", others, Vec::new())] {
        let keys = std::iter::once(&key).chain(indexes.iter().map(|index| &index.key));
        let attributes = keys.flat_map(KeySchema::attributes).map(|part| (part.name.clone(), part.kind));
        let definition = TableDefinition {
            name: table(name),
            attributes: attributes.collect(),
            key,
            indexes,
            billing: Billing::Provisioned(units),
            on_demand_limits: None,
            stream: None,
            encryption: None,
            class: None,
            deletion_protection: false,
            tags: Tags::new(),
        };
        store.create_table(&definition).await.unwrap();
        for asked in 0.. {
            match store.describe(&definition.name).await.unwrap() {
                Some(deployed) if deployed.busy.is_none() => break,
                Some(_) | None => store.pause(asked).await.unwrap(),
            }
        }
    }
}

fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

fn key(holder: &str, number: i64) -> Item {
    [("holder", AttributeValue::from(holder)), ("num", number.into())].into_iter().collect()
}

fn cart(holder: &str, number: i64) -> Item {
    let mut item = key(holder, number);
    item.insert("cents", 0);
    item
}

fn number(item: &Item) -> i64 {
    item.get("num").and_then(AttributeValue::as_number).and_then(Number::to_i64).unwrap()
}

fn scope(values: &[(&str, AttributeValue)]) -> Scope {
    let values: BTreeMap<_, _> =
        values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Scope::new(None, (!values.is_empty()).then_some(values)).unwrap()
}

fn condition(text: &str, values: &[(&str, AttributeValue)]) -> Condition {
    scope(values).condition(text).unwrap()
}

fn get(key: Item) -> GetItem {
    GetItem { table: table("carts"), key, projection: None, consistent: true, capacity: ReturnCapacity::None }
}

fn put(item: Item) -> PutItem {
    PutItem { table: table("carts"), item, options: WriteOptions::default() }
}

fn update(
    key: Item,
    text: &str,
    values: &[(&str, AttributeValue)],
    return_values: ReturnValues,
) -> UpdateItem {
    UpdateItem {
        table: table("carts"),
        key,
        update: Some(scope(values).update(text).unwrap()),
        options: WriteOptions { return_values, ..WriteOptions::default() },
    }
}

fn query(text: &str, partition: &str) -> Query {
    Query {
        table: table("carts"),
        index: None,
        key_condition: scope(&[(":o", partition.into())]).key_condition(text).unwrap(),
        filter: None,
        legacy_filter: false,
        projection: None,
        select: None,
        limit: None,
        forward: true,
        start: None,
        consistent: false,
        skip_damaged: false,
        capacity: ReturnCapacity::None,
    }
}

fn scan() -> Scan {
    Scan::of(table("carts"))
}

fn batch_get(name: &str) -> BatchGetTable {
    BatchGetTable {
        table: table(name),
        keys: Vec::new(),
        projection: None,
        consistent: false,
        echo: larder::store::ops::BatchGetEcho::default(),
    }
}
