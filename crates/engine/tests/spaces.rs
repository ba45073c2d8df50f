//! Tables of one name in several spaces: each is one of its own, in all that can be done to it.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::Duration;

use common::*;
use larder_engine::ops::*;
use larder_engine::{Engine, Naming, Watcher, salvage};
use larder_model::metrics::Exposition;
use larder_model::{ApiError, Arn, Item, KeyType, Space, StreamView, TableName};
use larder_storage::Options;
use pollster::block_on;

fn spaces() -> [Space; 3] {
    [
        Space::default(),
        Space::new("eu-west-1", Arn::ACCOUNT).unwrap(),
        Space::new(Arn::REGION, "222222222222").unwrap(),
    ]
}

/// Carries a request out as somebody of the space would, who writes names.
fn ask(engine: &Engine, space: &Space, mut request: Request) -> Result<Response, ApiError> {
    request.resolve_names(Naming::In(space))?;
    block_on(engine.execute_in(space, request, NOW))
}

fn made() -> Request {
    Request::CreateTable(Box::new(CreateTable {
        table: name("data"),
        attributes: vec![("pk".to_owned(), KeyType::S)],
        key: vec![partition("pk")],
        local_indexes: None,
        global_indexes: None,
        billing_mode: Some(BillingMode::OnDemand),
        throughput: None,
        on_demand_limits: None,
        stream: Some(StreamSpecification { enabled: true, view: Some(StreamView::KeysOnly) }),
        encryption: None,
        class: None,
        deletion_protection: None,
        tags: Vec::new(),
        policy: None,
    }))
}

fn put_into(engine: &Engine, space: &Space, table: TableName, pk: &str) -> Result<Response, ApiError> {
    let options = WriteOptions { capacity: ReturnCapacity::Total, ..WriteOptions::default() };
    ask(engine, space, Request::PutItem(PutItem { table, item: key(pk), options }))
}

fn keys_of(engine: &Engine, space: &Space) -> Vec<String> {
    let Response::Scan(page) = ask(engine, space, Request::Scan(Scan::of(name("data")))).unwrap() else {
        panic!("a scan is answered with a page")
    };
    let rows = page.items.unwrap();
    let keys = rows.iter().map(|row| built(row).get("pk").unwrap().as_str().unwrap().to_owned());
    let mut keys: Vec<String> = keys.collect();
    keys.sort();
    keys
}

fn listed(engine: &Engine, space: &Space) -> (Vec<String>, Vec<String>, Vec<String>) {
    listed_of(engine, space, None)
}

/// Tables, streams and backups, those two of one table if it is given.
fn listed_of(
    engine: &Engine,
    space: &Space,
    table: Option<TableName>,
) -> (Vec<String>, Vec<String>, Vec<String>) {
    let ask = |request| ask(engine, space, request).unwrap();
    let tables = Request::ListTables(ListTables { start: None, limit: None });
    let Response::ListTables(tables) = ask(tables) else { panic!("tables are listed") };
    let streams = Request::ListStreams(ListStreams { table: table.clone(), start: None, limit: None });
    let Response::ListStreams(streams) = ask(streams) else { panic!("streams are listed") };
    let backups = Request::ListBackups(ListBackups {
        table,
        kinds: vec![BackupKind::User],
        from: None,
        before: None,
        limit: None,
        start: None,
    });
    let Response::ListBackups(backups) = ask(backups) else { panic!("backups are listed") };
    (
        tables.names.iter().map(ToString::to_string).collect(),
        streams.streams.iter().map(|stream| Arn::stream(&stream.table, stream.label).to_string()).collect(),
        backups.backups.into_iter().map(|backup| backup.arn).collect(),
    )
}

#[test]
fn tables_of_one_name_have_nothing_to_do_with_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(dir.path(), Options::default()).unwrap();
    for space in &spaces() {
        assert!(listed(&engine, space).0.is_empty(), "{space:?}");
        ask(&engine, space, made()).unwrap();
        assert_eq!(ask(&engine, space, made()).unwrap_err().code(), "ResourceInUseException");
        put_into(&engine, space, name("data"), space.region()).unwrap();
        put_into(&engine, space, name("data"), space.account()).unwrap();
        let backup = CreateBackup { table: name("data"), name: "nightly".into() };
        ask(&engine, space, Request::CreateBackup(backup)).unwrap();
    }
    work(&engine, NOW);
    engine.close().unwrap();
    drop(engine);

    let engine = Engine::open(dir.path(), Options::default()).unwrap();
    assert_eq!(engine.count_tables().unwrap(), 3);
    for space in &spaces() {
        let mut expected = vec![space.region().to_owned(), space.account().to_owned()];
        expected.sort();
        assert_eq!(keys_of(&engine, space), expected);
        let (tables, streams, backups) = listed(&engine, space);
        assert_eq!(tables, ["data"]);
        let arn = format!("arn:aws:dynamodb:{}:{}:table/data/", space.region(), space.account());
        for arns in [&streams, &backups] {
            assert!(arns.len() == 1 && arns[0].starts_with(&arn), "{arns:?}");
        }
    }
    // Nobody is asked who may see a list of others, so there is none.
    let [here, _, other_account] = &spaces();
    let theirs = Arn::table_said(&Arn::table(&name("data").within(other_account)).to_string());
    let (_, streams, backups) = listed_of(&engine, here, theirs);
    assert!(streams.is_empty() && backups.is_empty());
    assert_eq!(listed_of(&engine, here, Some(name("data"))), listed(&engine, here));

    let mut text = Exposition::default();
    engine.expose(&mut text).unwrap();
    let text = text.finish();
    assert!(
        text.contains(r#"table="data""#) && text.contains(r#"table="eu-west-1/000000000000/data""#),
        "{text}"
    );

    // One that goes takes nothing of the others along.
    let [here, other_region, other_account] = &spaces();
    ask(&engine, other_region, Request::DeleteTable(DeleteTable { table: name("data") })).unwrap();
    work(&engine, NOW);
    assert!(listed(&engine, other_region).0.is_empty());
    for space in [here, other_account] {
        assert_eq!(keys_of(&engine, space).len(), 2);
    }
    let verified = engine.verify(NOW, |_| ()).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
}

#[test]
fn pages_of_a_list_stay_in_their_space() {
    let engine = Engine::memory().unwrap();
    for space in &spaces() {
        for table in ["data", "zzz", "aaa"] {
            let Request::CreateTable(mut create) = made() else { panic!("it makes a table") };
            create.table = name(table);
            ask(&engine, space, Request::CreateTable(create)).unwrap();
        }
    }
    for space in &spaces() {
        let (mut start, mut names) = (None, Vec::new());
        loop {
            let page = Request::ListTables(ListTables { start, limit: Some(1) });
            let Response::ListTables(page) = ask(&engine, space, page).unwrap() else { panic!("a page") };
            names.extend(page.names.iter().map(ToString::to_string));
            start = match page.last {
                Some(last) => Some(last.to_string()),
                None => break,
            };
        }
        assert_eq!(names, ["aaa", "data", "zzz"]);
    }
}

#[test]
fn an_arn_names_a_table_of_another_account_and_of_no_other_region() {
    let engine = Engine::memory().unwrap();
    let [here, other_region, other_account] = &spaces();
    for space in [here, other_region, other_account] {
        ask(&engine, space, made()).unwrap();
    }
    let said = |space: &Space| Arn::table_said(&Arn::table(&name("data").within(space)).to_string()).unwrap();
    put_into(&engine, here, said(other_account), "guest").unwrap();
    put_into(&engine, here, said(here), "own").unwrap();
    put_into(&engine, other_account, said(here), "guest").unwrap();
    assert_eq!(
        put_into(&engine, here, said(other_region), "far").unwrap_err().code(),
        "ResourceNotFoundException"
    );
    assert_eq!(keys_of(&engine, here), ["guest", "own"]);
    assert_eq!(keys_of(&engine, other_account), ["guest"]);
    assert!(keys_of(&engine, other_region).is_empty());

    // Whoever named it by its ARN is answered so.
    let mut by_arn = Request::Scan(Scan::of(said(other_account)));
    let asked = by_arn.resolve_names(Naming::In(here)).unwrap();
    let mut answer = put_into(&engine, here, said(other_account), "guest").unwrap();
    answer.show_as(&asked);
    let Response::PutItem(answer) = answer else { panic!("a put is answered") };
    let arn = "arn:aws:dynamodb:us-east-1:222222222222:table/data";
    assert_eq!(answer.consumed.unwrap().table.as_str(), arn);

    // Where all is shared, an ARN is a name.
    let mut request = Request::Scan(Scan::of(said(other_region)));
    request.resolve_names(Naming::Shared).unwrap();
    let Response::Scan(page) = block_on(engine.execute(request, NOW)).unwrap() else { panic!("a page") };
    assert_eq!(page.count, 2);
}

#[test]
fn a_statement_names_a_table_by_its_arn_as_other_requests_do() {
    let engine = Engine::memory().unwrap();
    let [here, other_region, other_account] = &spaces();
    for space in [here, other_region, other_account] {
        ask(&engine, space, made()).unwrap();
    }
    let insert = |space: &Space, pk: &str| {
        let arn = Arn::table(&name("data").within(space));
        let statement = larder_partiql::read(&format!("INSERT INTO \"{arn}\" VALUE {{'pk': '{pk}'}}"), &[]);
        Request::ExecuteStatement(Box::new(ExecuteStatement {
            statement: statement.unwrap(),
            consistent: false,
            limit: None,
            start: None,
            fingerprint: [0; 16],
            return_old_on_failure: false,
            capacity: ReturnCapacity::None,
        }))
    };
    ask(&engine, here, insert(other_account, "guest")).unwrap();
    ask(&engine, here, insert(here, "own")).unwrap();
    let far = ask(&engine, here, insert(other_region, "far"));
    assert_eq!(far.unwrap_err().code(), "ResourceNotFoundException");
    assert_eq!(keys_of(&engine, here), ["own"]);
    assert_eq!(keys_of(&engine, other_account), ["guest"]);
    assert!(keys_of(&engine, other_region).is_empty());
}

#[test]
fn a_token_of_one_space_is_none_of_another() {
    let engine = Engine::memory().unwrap();
    for space in &spaces() {
        ask(&engine, space, made()).unwrap();
    }
    // The default space has no name before its tokens, and cannot write those of others.
    let token = format!("{}token", spaces()[2].prefix());
    let write = TransactWrite {
        table: name("data"),
        action: TransactAction::Put { item: key("forged") },
        condition: None,
        return_old_on_failure: false,
    };
    let request = TransactWriteItems {
        writes: vec![write],
        token: Some(token),
        capacity: ReturnCapacity::Total,
        collection_metrics: false,
    };
    ask(&engine, &spaces()[0], Request::TransactWriteItems(request)).unwrap();
    let delete = DeleteItem { table: name("data"), key: key("forged"), options: WriteOptions::default() };
    ask(&engine, &spaces()[0], Request::DeleteItem(delete)).unwrap();
    for (at, space) in spaces().iter().enumerate() {
        let write = TransactWrite {
            table: name("data"),
            action: TransactAction::Put { item: key(&at.to_string()) },
            condition: None,
            return_old_on_failure: false,
        };
        let request = Request::TransactWriteItems(TransactWriteItems {
            writes: vec![write],
            token: Some("token".into()),
            capacity: ReturnCapacity::Total,
            collection_metrics: false,
        });
        for _ in 0..2 {
            ask(&engine, space, request.clone()).unwrap();
        }
        assert_eq!(keys_of(&engine, space), [at.to_string()]);
    }
}

#[test]
fn a_restored_table_is_of_the_space_it_is_restored_in() {
    let engine = Engine::memory().unwrap();
    let [here, other_region, _] = &spaces();
    ask(&engine, other_region, made()).unwrap();
    put_into(&engine, other_region, name("data"), "kept").unwrap();
    let backup = Request::CreateBackup(CreateBackup { table: name("data"), name: "nightly".into() });
    let Response::CreateBackup(backup) = ask(&engine, other_region, backup).unwrap() else { panic!("made") };
    work(&engine, NOW.plus(Duration::from_secs(1)));
    let restore = |space| {
        let overrides = RestoreOverrides::default();
        let request = RestoreTableFromBackup { backup: backup.arn.clone(), target: name("copy"), overrides };
        ask(&engine, space, Request::RestoreTableFromBackup(Box::new(request)))
    };
    assert_eq!(restore(here).unwrap_err().code(), "BackupNotFoundException");
    restore(other_region).unwrap();
    work(&engine, NOW.plus(Duration::from_secs(2)));
    assert_eq!(listed(&engine, other_region).0, ["copy", "data"]);
    assert!(listed(&engine, here).0.is_empty());
}

struct Nobody;

impl Watcher for Nobody {
    fn brought(&mut self, _: u64) {}

    fn stray(&mut self, table: u32, _: &Item) -> Result<(), std::io::Error> {
        panic!("table {table} is known")
    }
}

#[test]
fn tables_are_salvaged_into_their_spaces_with_their_policies() {
    let engine = Engine::memory().unwrap();
    for space in &spaces() {
        ask(&engine, space, made()).unwrap();
        put_into(&engine, space, name("data"), space.region()).unwrap();
        let resource = Governed::Table(name("data"));
        let put = PutResourcePolicy { resource, policy: space.account().into(), expected: None };
        ask(&engine, space, Request::PutResourcePolicy(put)).unwrap();
    }
    let target = Engine::memory().unwrap();
    salvage(engine.store(), &[], &target, NOW, &mut Nobody).unwrap();
    for space in &spaces() {
        assert_eq!(keys_of(&target, space), [space.region()]);
        let policy = target.table_policy(&name("data").within(space)).unwrap().unwrap();
        assert_eq!(policy.text(), space.account());
    }
}
