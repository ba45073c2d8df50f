//! Migration: nothing lost, nothing doubled, whoever writes and wherever it is cut off.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod cut;
mod stores;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cut::{Lost, cut};
use larder::migrate::{Event, Migration, MigrationWatch, Need, Options, Outcome, Phase};
use larder::provision::{Permissions, Silent};
use larder::store::TableChange;
use larder::store::ops::Scan;
use larder::{Address, Environment, Fields, Schema, Store, System, Value};
use larder_local::DynamoDbLocal;
use larder_model::{AttributeValue, Item, StreamView, TableName};
use larder_schema::NoFiles;
use tokio::sync::Semaphore;

const OLD: &str = r#"
system lunch
table cache {
  name  "lunch-cache"
  key   pk
  ttl   ttl
  entity Menu {
    key  "{restaurant}-{week:02}"
    ttl  14d
    oversize split
    restaurant: string match /[a-z0-9]+/
    week:       int in 1..=53
    price:      int
    note:       string default "-"
    legacy:     string default "old"
    seen:       instant ms = now on create
    length = note.len()
  }
  entity Gone { key "GONE#{id}"  id: string }
}
"#;

const NEW: &str = r#"
system lunch
version 2 keep 10d
table cache {
  name  "lunch-cache"
  key   id / week_of
  ttl   ends
  index by_price as by_price  kind / price  project keys
  entity Menu {
    key  "{restaurant}" / "{year}-{week:02}"
    ttl  14d
    oversize split
    restaurant: string match /[a-z0-9]+/
    year:       int in 2000..=2999 default 2025
    week:       int in 1..=53
    price:      decimal
    note:       string len 0..=3000000 default "-"
    kind:       string nonempty default "lunch"
    seen:       instant ms = now on create
    length = note.len()
    name_length = restaurant.len()
  }
}
"#;

fn schema(text: &str) -> Schema {
    let text = text.replace("key \"GONE#{id}\"  id", "key \"GONE#{id}\"\n id");
    let loaded = Schema::load("lunch.larder", &text, &mut NoFiles, &Environment::new());
    let errors: Vec<_> = loaded.diagnostics.iter().filter(|one| one.is_error()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    loaded.schema.unwrap()
}

fn migration(store: &Store) -> Migration {
    between(store, store)
}

fn between(from: &Store, to: &Store) -> Migration {
    Migration::new((schema(OLD), from.clone()), (schema(NEW), to.clone()), Environment::new()).unwrap()
}

#[tokio::test]
async fn stores_on_two_clients_are_two_stores() {
    let on_client = async || Store::on_client(Store::memory().await.sdk_client().await.unwrap());
    let (from, to) = (on_client().await, on_client().await);
    let need = |from: &Store, to: &Store| {
        let migration =
            Migration::new((schema(OLD), from.clone()), (schema(OLD), to.clone()), Environment::new());
        migration.unwrap().need()
    };
    assert_eq!(need(&from, &to), Need::Copy);
    assert_eq!(need(&from, &from), Need::Nothing);
}

async fn open(text: &str, store: &Store) -> System {
    let system = System::open_with(schema(text), store.clone(), Environment::new()).await.unwrap();
    system.provision().await.unwrap();
    system
}

async fn begin(store: &Store) -> System {
    open(OLD, store).await
}

fn fields<const N: usize>(values: [(&str, Value); N]) -> Fields {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn menu(restaurant: &str, week: i64, price: i64) -> Fields {
    fields([("restaurant", restaurant.into()), ("week", week.into()), ("price", price.into())])
}

fn key(restaurant: &str, week: i64) -> Fields {
    fields([("restaurant", restaurant.into()), ("week", week.into())])
}

fn new_key(restaurant: &str, week: i64) -> Fields {
    fields([("restaurant", restaurant.into()), ("year", 2025.into()), ("week", week.into())])
}

async fn run(migration: &Migration) -> Outcome {
    migration.run(&Options::default(), &mut Silent).await.unwrap()
}

async fn switched(store: &Store) -> (Migration, System) {
    let migration = migration(store);
    let outcome = run(&migration).await;
    assert!(outcome.is_done, "{outcome:?}");
    (migration, open(NEW, store).await)
}

async fn items(store: &Store, table: &str) -> Vec<Item> {
    let (mut items, mut start) = (Vec::new(), None);
    loop {
        let scan = Scan { start, consistent: true, ..Scan::of(TableName::new(table).unwrap()) };
        let page = store.scan(scan).await.unwrap();
        items.extend(page.items);
        start = page.last_key;
        if start.is_none() {
            return items;
        }
    }
}

/// What is kept, by restaurant and week: the price.
type Menus = BTreeMap<(String, i64), i64>;

/// Each menu is there once, with the price it should have, and nothing else is.
async fn check_new(store: &Store, expected: &Menus) {
    let items = items(store, "lunch-cache-v2").await;
    let found = items.iter().map(|item| {
        let text = |name: &str| item.get(name).unwrap().as_str().unwrap().to_owned();
        let week = text("week_of").strip_prefix("2025-").unwrap().parse().unwrap();
        let price = item.get("price").unwrap().as_number().unwrap().to_i64().unwrap();
        ((text("id"), week), price)
    });
    let found: Vec<((String, i64), i64)> = found.collect();
    assert_eq!(found.len(), expected.len(), "nothing is lost or doubled");
    assert_eq!(&found.into_iter().collect::<Menus>(), expected);
}

async fn check_old(store: &Store, expected: &Menus) {
    let items = items(store, "lunch-cache").await;
    let found = items.iter().map(|item| {
        let (restaurant, week) = item.get("pk").unwrap().as_str().unwrap().split_once('-').unwrap();
        let price = item.get("price").unwrap().as_number().unwrap().to_i64().unwrap();
        ((restaurant.to_owned(), week.parse().unwrap()), price)
    });
    assert_eq!(&found.collect::<Menus>(), expected);
    assert_eq!(items.len(), expected.len());
}

/// The stores on which streams can be read: memory, a directory, a server through the SDK, DynamoDB Local.
fn on_each(test: impl AsyncFn(Store)) {
    stores::run(async { test(Store::open(&Address::Memory).await.unwrap()).await });
    stores::run(async {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Directory(directory.path().join("data"));
        test(Store::open(&address).await.unwrap()).await;
    });
    stores::run(async { test(Store::open(&stores::endpoint().await).await.unwrap()).await });
    let Some(local) = DynamoDbLocal::start() else { return };
    let address = Address::DynamoDb { endpoint: Some(local.url.clone()) };
    stores::run(async { test(Store::open(&address).await.unwrap()).await });
}

async fn in_memory() -> Store {
    Store::open(&Address::Memory).await.unwrap()
}

#[test]
fn l12_a_compatible_change_needs_no_copy_and_a_breaking_one_a_version() {
    stores::run(async {
        let store = in_memory().await;
        let need = |new: &str| {
            let pair = ((schema(OLD), store.clone()), (schema(new), store.clone()));
            Migration::new(pair.0, pair.1, Environment::new()).unwrap().need()
        };
        assert_eq!(need(OLD), Need::Nothing);
        assert_eq!(need(&OLD.replace("price:      int", "price:      int\n    extra: string?")), Need::Apply);
        assert_eq!(need(&OLD.replace("-{week:02}", "#{week:02}")), Need::Version(2));
        assert_eq!(
            need(&OLD.replace("-{week:02}", "#{week:02}").replace("table cache", "version 2\ntable cache")),
            Need::Copy
        );
    });
}

#[test]
fn l12_records_get_the_new_key_types_defaults_and_equations_and_keep_their_ttl() {
    on_each(async |store| {
        let lunch = begin(&store).await;
        let menus = lunch.entries("Menu").unwrap();
        let mut written = menu("niagara", 7, 120);
        written.insert("note".to_owned(), "soup".into());
        let before = menus.create(written).await.unwrap();
        lunch.entries("Gone").unwrap().create(fields([("id", "1".into())])).await.unwrap();

        let migration = migration(&store);
        let plan = migration.plan().await.unwrap().to_string();
        assert!(plan.contains("lunch-cache -> lunch-cache-v2: "), "{plan}");
        assert!(plan.contains("kept for 10 days"), "{plan}");
        assert!(plan.contains("Gone of cache: gone from the schema; its records are left behind"), "{plan}");
        let outcome = run(&migration).await;
        assert!(outcome.is_done);
        assert_eq!((outcome.tables[0].phase, outcome.tables[0].verified.unwrap().0), (Phase::Switched, 1));
        assert_eq!(outcome.tables[0].left_behind, Some(1));

        let lunch = open(NEW, &store).await;
        let after = lunch.entries("Menu").unwrap().get(new_key("niagara", 7)).await.unwrap().unwrap();
        for (field, value) in [
            ("kind", Value::from("lunch")),
            ("note", "soup".into()),
            ("length", 4.into()),
            ("name_length", 7.into()),
            ("seen", before.fields["seen"].clone()),
        ] {
            assert_eq!(after.fields[field], value, "{field}");
        }
        let (old, new) = (items(&store, "lunch-cache").await, items(&store, "lunch-cache-v2").await);
        assert_eq!((old.len(), new.len()), (2, 1), "an entity that is gone stays where it is");
        let old = old.iter().find(|item| item.contains("price")).unwrap();
        assert_eq!(old.get("ttl"), new[0].get("ends"));
    });
}

/// Writers that write a little at each thing that happens in a migration, and what they have written last.
struct Writers {
    turns: Arc<Semaphore>,
    written: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<Menus>>,
}

const TURNS: usize = 30;

/// Each writer has a restaurant of its own, and creates, changes and deletes its menus.
fn write(system: &System, keyed: fn(&str, i64) -> Fields) -> Writers {
    write_on(system, keyed, &Menus::new())
}

/// The same, where writers before them have left these: what is written has higher prices.
fn write_on(system: &System, keyed: fn(&str, i64) -> Fields, before: &Menus) -> Writers {
    let (turns, written) = (Arc::new(Semaphore::new(TURNS)), Arc::new(AtomicU64::new(0)));
    let tasks = (0..4).map(|writer| {
        let (menus, turns, written) =
            (system.entries("Menu").unwrap(), Arc::clone(&turns), Arc::clone(&written));
        let restaurant = format!("writer{writer}");
        let mut known = before.clone();
        known.retain(|(of, _), _| *of == restaurant);
        let mut number = known.values().copied().max().unwrap_or(1);
        tokio::spawn(async move {
            while let Ok(turn) = turns.acquire().await {
                turn.forget();
                number += 1;
                // Weeks in an order that comes back to each, and leaves some deleted.
                let week = number * 7 % 40 + 1;
                if number % 3 == 0 {
                    menus.delete(keyed(&restaurant, week)).await.unwrap();
                    known.remove(&(restaurant.clone(), week));
                } else {
                    menus.put(menu(&restaurant, week, number)).await.unwrap();
                    known.insert((restaurant.clone(), week), number);
                }
                written.fetch_add(1, Ordering::SeqCst);
            }
            known
        })
    });
    let tasks = tasks.collect();
    Writers { turns, written, tasks }
}

impl Writers {
    async fn stop(self) -> Menus {
        self.turns.close();
        let mut all = Menus::new();
        for task in self.tasks {
            all.extend(task.await.unwrap());
        }
        all
    }
}

/// Lets writers write whenever something happens, for a while: what is carried over happens too.
struct Turns(Arc<Semaphore>, u32);

impl Turns {
    fn of(writers: &Writers) -> Self {
        Self(Arc::clone(&writers.turns), 15)
    }
}

impl MigrationWatch for Turns {
    fn event(&mut self, _event: Event<'_>) {
        if self.1 > 0 {
            self.1 -= 1;
            self.0.add_permits(TURNS);
        }
    }
}

async fn seed(system: &System, restaurants: i64, note: &str) -> Menus {
    let menus = system.entries("Menu").unwrap();
    let mut known = Menus::new();
    for number in 0..restaurants {
        let restaurant = format!("seed{number}");
        for week in 1..=5 {
            let mut menu = menu(&restaurant, week, number);
            menu.insert("note".to_owned(), note.into());
            menus.put(menu).await.unwrap();
            known.insert((restaurant.clone(), week), number);
        }
    }
    known
}

#[test]
fn l12_writers_during_the_copy_and_after_the_switch_lose_nothing() {
    on_each(async |store| {
        let lunch = begin(&store).await;
        let mut expected = seed(&lunch, 20, &"x".repeat(20_000)).await;
        let writers = write(&lunch, key);
        let migration = migration(&store);
        let mut turns = Turns::of(&writers);
        let outcome = migration.run(&Options::default(), &mut turns).await.unwrap();
        assert!(outcome.is_done, "{outcome:?}");
        assert!(writers.written.load(Ordering::SeqCst) > 100, "they wrote meanwhile");
        // They have not been told of the switch yet, and go on.
        turns.0.add_permits(TURNS);
        migration.run(&Options::default(), &mut turns).await.unwrap();
        expected.extend(writers.stop().await);
        let last = run(&migration).await;
        assert_eq!((last.late, last.unseen), (Vec::new(), Vec::new()));
        check_new(&store, &expected).await;
        check_old(&store, &expected).await;
    });
}

/// Interrupts a migration at each changing request in turn; writes come between the cut and the next run.
async fn cut_everywhere(store_of: impl AsyncFn() -> Store, step: usize) {
    for lost in [Lost::Request, Lost::Answer] {
        let mut at = 0;
        loop {
            let store = store_of().await;
            let lunch = begin(&store).await;
            let mut expected = seed(&lunch, 3, &"x".repeat(150_000)).await;
            let cut_off = cut(&store, at, lost);
            let outcome = migration(&cut_off).run(&Options::default(), &mut Silent).await;
            let menus = lunch.entries("Menu").unwrap();
            menus.delete(key("seed0", 1)).await.unwrap();
            menus.put(menu("seed1", 2, 77)).await.unwrap();
            menus.put(menu("fresh", 3, 78)).await.unwrap();
            expected.remove(&("seed0".to_owned(), 1));
            expected.extend([(("seed1".to_owned(), 2), 77), (("fresh".to_owned(), 3), 78)]);
            let done = run(&migration(&store)).await;
            assert!(done.is_done, "{lost:?} at {at}: {done:?}");
            check_new(&store, &expected).await;
            if outcome.is_ok() {
                assert!(at > 10, "only {at} requests were cut off");
                break;
            }
            at += step;
        }
    }
}

#[test]
fn l12_cut_off_at_any_request_the_next_run_reaches_the_same_end() {
    stores::run(async { cut_everywhere(in_memory, 1).await });
}

#[test]
fn l12_cut_off_over_http_the_next_run_reaches_the_same_end() {
    stores::run(async {
        cut_everywhere(async || Store::open(&stores::endpoint().await).await.unwrap(), 9).await;
    });
}

#[test]
fn l12_rollback_carries_back_what_was_written_since_the_switch_and_leaves_the_rest_as_it_was() {
    on_each(async |store| {
        let lunch = begin(&store).await;
        let mut expected = seed(&lunch, 4, "-").await;
        let kept =
            fields([("legacy", "kept".into())]).into_iter().chain(menu("seed0", 1, 0)).collect::<Fields>();
        lunch.entries("Menu").unwrap().put(kept).await.unwrap();
        let (migration, new) = switched(&store).await;
        let before = items(&store, "lunch-cache").await;

        let menus = new.entries("Menu").unwrap();
        menus.delete(new_key("seed1", 1)).await.unwrap();
        menus.update(new_key("seed0", 1)).set("price", larder::Number::from(55)).await.unwrap();
        menus.put(menu("late", 9, 5)).await.unwrap();
        expected.remove(&("seed1".to_owned(), 1));
        expected.extend([(("seed0".to_owned(), 1), 55), (("late".to_owned(), 9), 5)]);
        let outcome = migration.rollback(&Options::default(), &mut Silent).await.unwrap();
        assert!(outcome.is_done, "{outcome:?}");
        check_old(&store, &expected).await;
        let after = items(&store, "lunch-cache").await;
        let find = |items: &[Item], key: &str| {
            items.iter().find(|item| item.get("pk").unwrap().as_str() == Some(key)).cloned()
        };
        assert_eq!(find(&after, "seed2-03"), find(&before, "seed2-03"), "nobody changed it");
        let changed = find(&after, "seed0-01").unwrap();
        assert_eq!(
            changed.get("legacy"),
            Some(&AttributeValue::from("kept")),
            "the new schema does not know it"
        );

        // Forward again: what is there from the first time is brought up to date.
        let old = begin(&store).await.entries("Menu").unwrap();
        old.delete(key("late", 9)).await.unwrap();
        expected.remove(&("late".to_owned(), 9));
        assert!(run(&migration).await.is_done);
        check_new(&store, &expected).await;
    });
}

#[test]
fn l12_a_rollback_that_is_cut_off_anywhere_reaches_the_same_end() {
    stores::run(async {
        for lost in [Lost::Request, Lost::Answer] {
            for at in 0.. {
                let store = in_memory().await;
                let mut expected = seed(&begin(&store).await, 2, "-").await;
                let (migration, new) = switched(&store).await;
                let menus = new.entries("Menu").unwrap();
                menus.delete(new_key("seed1", 1)).await.unwrap();
                menus.put(menu("seed0", 1, 55)).await.unwrap();
                menus.put(menu("late", 9, 5)).await.unwrap();
                let cut_off = self::migration(&cut(&store, at, lost));
                let outcome = cut_off.rollback(&Options::default(), &mut Silent).await;
                menus.put(menu("later", 9, 6)).await.unwrap();
                expected.remove(&("seed1".to_owned(), 1));
                expected.extend([
                    (("seed0".to_owned(), 1), 55),
                    (("late".to_owned(), 9), 5),
                    (("later".to_owned(), 9), 6),
                ]);
                assert!(migration.rollback(&Options::default(), &mut Silent).await.unwrap().is_done);
                check_old(&store, &expected).await;
                if outcome.is_ok() {
                    assert!(at > 4);
                    break;
                }
            }
        }
    });
}

#[test]
fn l12_writers_during_a_rollback_lose_nothing() {
    on_each(async |store| {
        let mut expected = seed(&begin(&store).await, 20, "-").await;
        let (migration, new) = switched(&store).await;
        let writers = write(&new, new_key);
        let mut turns = Turns::of(&writers);
        assert!(migration.rollback(&Options::default(), &mut turns).await.unwrap().is_done);
        turns.0.add_permits(TURNS);
        expected.extend(writers.stop().await);
        let last = migration.rollback(&Options::default(), &mut Silent).await.unwrap();
        assert_eq!(last.late, []);
        check_old(&store, &expected).await;
    });
}

#[test]
fn l12_a_newer_write_to_the_new_table_is_never_replaced_by_one_to_the_old() {
    on_each(async |store| {
        let lunch = begin(&store).await;
        let mut expected = seed(&lunch, 2, "-").await;
        let (migration, new) = switched(&store).await;
        new.entries("Menu").unwrap().put(menu("seed0", 1, 500)).await.unwrap();
        let old = lunch.entries("Menu").unwrap();
        old.put(menu("seed0", 1, 400)).await.unwrap();
        old.put(menu("seed0", 2, 401)).await.unwrap();
        old.delete(key("seed1", 3)).await.unwrap();
        let outcome = run(&migration).await;
        assert_eq!(outcome.late.len(), 1, "{outcome:?}");
        assert_eq!((outcome.late[0].source.as_str(), outcome.late_carried), ("seed0-01", 2));
        expected.extend([(("seed0".to_owned(), 1), 500), (("seed0".to_owned(), 2), 401)]);
        expected.remove(&("seed1".to_owned(), 3));
        check_new(&store, &expected).await;
    });
}

#[test]
fn l12_lists_sets_and_maps_become_each_other() {
    let old = r#"
system shelf
table books {
  name  "books"
  key   pk
  entity Book {
    key  "BOOK#{id}"
    id:      string nonempty
    topics:  [string]
    years:   set<int>
    prices:  map<string, int>
    words:   map<string, [string]> default []
    count  = topics.len()
  }
}
"#;
    let new = old.replace("system shelf", "system shelf\nversion 2 keep 10d").replace(
        r#"    topics:  [string]
    years:   set<int>
    prices:  map<string, int>
    words:   map<string, [string]>"#,
        r#"    topics:  set<string>
    years:   [string]
    prices:  map<string, decimal>
    words:   map<string, set<string>>"#,
    );
    let texts = |texts: &[&str]| Value::List(texts.iter().copied().map(Value::from).collect());
    let map = |name: &str, value: Value| Value::Map([(name.to_owned(), value)].into());
    stores::run(async {
        let store = in_memory().await;
        let books = open(old, &store).await.entries("Book").unwrap();
        books
            .put(fields([
                ("id", "1".into()),
                ("topics", texts(&["war", "love", "war"])),
                ("years", Value::List(vec![1869.into(), 1865.into()])),
                ("prices", map("mon", 3.into())),
                ("words", map("a", texts(&["x", "b", "x"]))),
            ]))
            .await
            .unwrap();
        let bare = [("id", "2".into()), ("topics", texts(&[])), ("prices", Value::Map(BTreeMap::new()))];
        books.put(fields(bare.clone())).await.unwrap();
        let migration =
            Migration::new((schema(old), store.clone()), (schema(&new), store.clone()), Environment::new())
                .unwrap();
        let outcome = run(&migration).await;
        assert!(outcome.is_done, "{outcome:?}");
        let books = open(&new, &store).await.entries("Book").unwrap();
        let book = async |id: &str| books.get(fields([("id", id.into())])).await.unwrap().unwrap().fields;
        let first = book("1").await;
        assert_eq!((&first["topics"], &first["count"]), (&texts(&["love", "war"]), &2.into()));
        assert_eq!(first["years"], texts(&["1865", "1869"]));
        assert_eq!(first["prices"], map("mon", 3.into()));
        assert_eq!(first["words"], map("a", texts(&["b", "x"])));
        let second = book("2").await;
        assert_eq!(
            (&second["topics"], &second["years"], &second["count"]),
            (&texts(&[]), &texts(&[]), &0.into())
        );
    });
}

#[test]
fn l12_a_record_that_cannot_be_converted_stops_it_or_is_left_behind() {
    stores::run(async {
        let store = in_memory().await;
        let lunch = begin(&store).await;
        let mut expected = seed(&lunch, 1, "-").await;
        let stricter = NEW.replace("price:      decimal", "price:      decimal in 0..100");
        let menus = lunch.entries("Menu").unwrap();
        menus.put(menu("dear", 1, 120)).await.unwrap();
        menus.put(menu("dear", 2, 130)).await.unwrap();
        let migration = Migration::new(
            (schema(OLD), store.clone()),
            (schema(&stricter), store.clone()),
            Environment::new(),
        )
        .unwrap();
        let outcome = run(&migration).await;
        assert!(!outcome.is_done);
        let told: Vec<String> =
            outcome.unconverted.iter().map(|one| format!("{}: {}", one.name, one.cause)).collect();
        assert_eq!(
            told,
            [
                "Menu dear-01: Menu.price: must be in 0..100, and it is 120",
                "Menu dear-02: Menu.price: must be in 0..100, and it is 130",
            ]
        );
        // One is mended in the old table, the other left behind.
        menus.put(menu("dear", 1, 12)).await.unwrap();
        let again = run(&migration).await;
        assert_eq!((again.is_done, again.unconverted.len()), (false, 1));
        let skipping = Options { skip_unconverted: true };
        let outcome = migration.run(&skipping, &mut Silent).await.unwrap();
        assert_eq!((outcome.is_done, outcome.unconverted.len()), (true, 1));
        expected.insert(("dear".to_owned(), 1), 12);
        check_new(&store, &expected).await;

        // Going back, what never went over is still there.
        assert!(migration.rollback(&skipping, &mut Silent).await.unwrap().is_done);
        expected.insert(("dear".to_owned(), 2), 130);
        check_old(&store, &expected).await;
    });
}

#[test]
fn l12_two_records_that_would_become_one_stop_it() {
    stores::run(async {
        let store = in_memory().await;
        seed(&begin(&store).await, 1, "-").await;
        let one = NEW
            .replace("key   id / week_of", "key   id")
            .replace("\"{restaurant}\" / \"{year}-{week:02}\"", "\"{restaurant}\"");
        let migration =
            Migration::new((schema(OLD), store.clone()), (schema(&one), store.clone()), Environment::new())
                .unwrap();
        let error = migration.run(&Options::default(), &mut Silent).await.unwrap_err().to_string();
        assert!(error.contains("would have one key in lunch-cache-v2"), "{error}");
    });
}

#[test]
fn l12_items_in_parts_and_strangers_go_along() {
    stores::run(async {
        let store = in_memory().await;
        let lunch = begin(&store).await;
        let menus = lunch.entries("Menu").unwrap();
        let long = "y".repeat(900_000);
        let large = |week: i64, text: &str| {
            let mut menu = menu("large", week, 1);
            menu.insert("note".to_owned(), text.into());
            menu
        };
        menus.put(large(1, &long)).await.unwrap();
        menus.put(large(2, &long)).await.unwrap();
        let migration = migration(&store);
        assert!(run(&migration).await.is_done);
        menus.put(large(3, &long)).await.unwrap();
        menus.delete(key("large", 2)).await.unwrap();
        let outcome = run(&migration).await;
        let new = open(NEW, &store).await.entries("Menu").unwrap();
        for week in [1, 3] {
            let found = new.get(new_key("large", week)).await.unwrap().unwrap();
            assert_eq!(found.fields["note"], Value::from(long.as_str()), "{week}");
        }
        // Of a split item the stream shows only a part: whether it follows cannot be told.
        assert_eq!(outcome.late.len(), 1, "{outcome:?}");
    });
}

#[test]
fn l12_left_alone_for_longer_than_a_stream_lasts_it_begins_again() {
    stores::run(async {
        let store = in_memory().await;
        let lunch = begin(&store).await;
        let mut expected = seed(&lunch, 3, &"x".repeat(150_000)).await;
        let outcome = migration(&cut(&store, 20, Lost::Request)).run(&Options::default(), &mut Silent).await;
        assert!(outcome.is_err());
        let menus = lunch.entries("Menu").unwrap();
        menus.delete(key("seed0", 1)).await.unwrap();
        menus.delete(key("seed2", 5)).await.unwrap();
        expected.remove(&("seed0".to_owned(), 1));
        expected.remove(&("seed2".to_owned(), 5));
        store.clock().advance(Duration::from_secs(25 * 60 * 60));
        store.pause(0).await.unwrap();
        let mut seen = Seen::default();
        assert!(migration(&store).run(&Options::default(), &mut seen).await.unwrap().is_done);
        assert_eq!(seen.restarts, 1);
        check_new(&store, &expected).await;
    });
}

#[derive(Default)]
struct Seen {
    restarts: u32,
    copied: u64,
    stop_at: Option<u64>,
}

impl MigrationWatch for Seen {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Restarted { .. } => self.restarts += 1,
            Event::Copied { items, .. } => self.copied = items,
            Event::Followed { .. } | Event::Comparing { .. } | Event::Verified { .. } => {}
        }
    }

    fn stop(&self) -> bool {
        self.stop_at.is_some_and(|at| self.copied >= at)
    }
}

#[test]
fn l12_told_to_stop_it_continues_from_there_on_any_machine() {
    on_each(async |store| {
        let expected = seed(&begin(&store).await, 6, &"x".repeat(150_000)).await;
        let mut watch = Seen { stop_at: Some(1), ..Seen::default() };
        let stopped = migration(&store).run(&Options::default(), &mut watch).await.unwrap();
        assert!(!stopped.is_done && watch.copied < 30, "{}", watch.copied);
        assert_eq!(stopped.tables[0].copied, watch.copied);
        let known = larder::migrate::known(&store).await.unwrap();
        assert_eq!((known.len(), known[0].phase, known[0].copied), (1, Phase::Copying, watch.copied));
        let mut watch = Seen::default();
        assert!(migration(&store).run(&Options::default(), &mut watch).await.unwrap().is_done);
        assert_eq!(watch.copied, 30, "what was copied is not copied again");
        check_new(&store, &expected).await;
    });
}

#[test]
fn l12_between_stores_and_back() {
    stores::run(async {
        let (here, there) = (in_memory().await, Store::open(&stores::endpoint().await).await.unwrap());
        let lunch = begin(&here).await;
        let mut expected = seed(&lunch, 5, "-").await;
        let same =
            Migration::new((schema(OLD), here.clone()), (schema(OLD), there.clone()), Environment::new())
                .unwrap();
        assert_eq!(same.need(), Need::Copy);
        assert!(run(&same).await.is_done);
        assert_eq!(items(&here, "lunch-cache").await, sorted(&there, &here).await);

        let over_there = open(OLD, &there).await.entries("Menu").unwrap();
        over_there.put(menu("there", 1, 9)).await.unwrap();
        expected.insert(("there".to_owned(), 1), 9);
        assert!(same.rollback(&Options::default(), &mut Silent).await.unwrap().is_done);
        check_old(&here, &expected).await;

        // With another schema at once.
        let both = between(&here, &there);
        assert!(run(&both).await.is_done);
        check_new(&there, &expected).await;
    });
}

/// A server of Larder's and DynamoDB Local, in both orders, each time without a table.
fn between_larder_and_local(test: impl AsyncFn(Store, Store)) {
    for to_local in [true, false] {
        let Some(local) = DynamoDbLocal::start() else { return };
        let local = Address::DynamoDb { endpoint: Some(local.url.clone()) };
        stores::run(async {
            let server = Store::open(&stores::endpoint().await).await.unwrap();
            let local = Store::open(&local).await.unwrap();
            let (from, to) = if to_local { (server, local) } else { (local, server) };
            test(from, to).await;
        });
    }
}

/// The items of a table by their keys: the order of a scan is that of the store.
async fn by_key(store: &Store) -> BTreeMap<String, Item> {
    let items = items(store, "lunch-cache").await;
    let count = items.len();
    let keyed = items.into_iter().map(|item| (item.get("pk").unwrap().as_str().unwrap().to_owned(), item));
    let keyed: BTreeMap<String, Item> = keyed.collect();
    assert_eq!(keyed.len(), count, "a scan shows each item once");
    keyed
}

#[test]
fn l12_between_larder_and_dynamodb_local_writers_lose_nothing_either_way() {
    between_larder_and_local(async |from, to| {
        let lunch = begin(&from).await;
        // More than one page of a scan.
        let mut expected = seed(&lunch, 12, &"x".repeat(20_000)).await;
        let migration =
            Migration::new((schema(OLD), from.clone()), (schema(OLD), to.clone()), Environment::new());
        let migration = migration.unwrap();
        assert_eq!(migration.need(), Need::Copy);

        let writers = write(&lunch, key);
        let mut turns = Turns(Arc::clone(&writers.turns), 6);
        let outcome = migration.run(&Options::default(), &mut turns).await.unwrap();
        assert!(outcome.is_done, "{outcome:?}");
        assert!(writers.written.load(Ordering::SeqCst) > 100, "they wrote meanwhile");
        // They have not been told of the switch yet, and go on.
        turns.0.add_permits(TURNS);
        migration.run(&Options::default(), &mut turns).await.unwrap();
        let written = writers.stop().await;
        expected.extend(written.clone());
        let last = run(&migration).await;
        assert_eq!((last.late, last.unseen), (Vec::new(), Vec::new()));
        check_old(&from, &expected).await;
        check_old(&to, &expected).await;
        assert_eq!(by_key(&from).await, by_key(&to).await, "attribute by attribute");

        // Back, while the programs that were switched write.
        let writers = write_on(&open(OLD, &to).await, key, &written);
        let mut turns = Turns(Arc::clone(&writers.turns), 6);
        assert!(migration.rollback(&Options::default(), &mut turns).await.unwrap().is_done);
        assert!(writers.written.load(Ordering::SeqCst) > 10, "they wrote meanwhile");
        turns.0.add_permits(TURNS);
        expected.retain(|menu, _| !written.contains_key(menu));
        expected.extend(writers.stop().await);
        let last = migration.rollback(&Options::default(), &mut Silent).await.unwrap();
        assert_eq!((last.late, last.unseen), (Vec::new(), Vec::new()));
        check_old(&from, &expected).await;
        assert_eq!(by_key(&from).await, by_key(&to).await, "attribute by attribute");
    });
}

/// The items of one store in the order of the other.
async fn sorted(store: &Store, like: &Store) -> Vec<Item> {
    let mut found = items(store, "lunch-cache").await;
    let order = items(like, "lunch-cache").await;
    found.sort_by_key(|item| order.iter().position(|other| other.get("pk") == item.get("pk")));
    found
}

#[test]
fn l12_the_old_table_is_kept_and_goes_only_when_it_is_named() {
    stores::run(async {
        let store = in_memory().await;
        seed(&begin(&store).await, 1, "-").await;
        let (migration, _) = switched(&store).await;
        let old = TableName::new("lunch-cache").unwrap();
        let tags = store.tags(&old).await.unwrap();
        assert_eq!(tags["larder:superseded-by"], "lunch-cache-v2");
        assert!(tags.contains_key("larder:keep-until"));
        let (named, until) = migration.superseded().await.unwrap().remove(0);
        let days = (until.unwrap().seconds() - store.clock().now().seconds()) / (24 * 60 * 60);
        assert!(named.as_str() == "lunch-cache" && (9..=10).contains(&days), "{named} {days}");

        let finish = async |word: &str| {
            let permissions = Permissions([word.to_owned()].into());
            migration.finish(&permissions, &Options::default(), &mut Silent).await.unwrap()
        };
        assert!(!finish("lunch-cache-v2").await.is_done);
        assert!(store.describe(&old).await.unwrap().is_some());
        assert!(finish("lunch-cache").await.is_done);
        assert!(store.describe(&old).await.unwrap().is_none());
        assert_eq!(larder::migrate::known(&store).await.unwrap(), []);
    });
}

#[test]
fn l12_a_stream_without_old_images_is_switched_and_that_is_told_before() {
    on_each(async |store| {
        let lunch = begin(&store).await;
        seed(&lunch, 3, "x").await;
        let old = TableName::new("lunch-cache").unwrap();
        let new_only = TableChange::Stream(Some(StreamView::NewImage));
        store.change_table(&old, &new_only).await.unwrap();
        let told = migration(&store).plan().await.unwrap().to_string();
        assert!(told.contains("the stream of lunch-cache is switched from `new` to `both`"), "{told}");

        let outcome = migration(&store).run(&Options::default(), &mut Silent).await.unwrap();
        assert!(outcome.is_done, "{outcome:?}");
        let stream = async || store.describe(&old).await.unwrap().unwrap().definition.stream;
        assert_eq!(stream().await, Some(StreamView::NewAndOldImages));
        // What programs of the old schema still write is seen.
        lunch.entries("Menu").unwrap().put(menu("late", 1, 1)).await.unwrap();
        let outcome = migration(&store).run(&Options::default(), &mut Silent).await.unwrap();
        assert_eq!(outcome.late_carried, 1, "{outcome:?}");
        let told = migration(&store).plan().await.unwrap().to_string();
        assert!(!told.contains("is switched from"), "{told}");
    });
}

#[test]
fn l12_a_target_with_items_of_somebody_else_is_refused() {
    stores::run(async {
        let store = in_memory().await;
        begin(&store).await;
        open(NEW, &store).await.entries("Menu").unwrap().put(menu("early", 1, 1)).await.unwrap();
        let error = migration(&store).run(&Options::default(), &mut Silent).await.unwrap_err();
        assert!(error.to_string().contains("has items already"), "{error}");
    });
}

#[test]
fn l12_a_stream_that_is_switched_off_meanwhile_loses_nothing() {
    on_each(async |store| {
        let lunch = begin(&store).await;
        let mut expected = seed(&lunch, 6, &"x".repeat(150_000)).await;
        let mut watch = Seen { stop_at: Some(1), ..Seen::default() };
        assert!(!migration(&store).run(&Options::default(), &mut watch).await.unwrap().is_done);
        // A program of the old schema brings its tables into shape, and switches off no stream that is followed.
        lunch.provision().await.unwrap();
        let old = TableName::new("lunch-cache").unwrap();
        assert!(store.describe(&old).await.unwrap().unwrap().definition.stream.is_some());

        // Somebody else does.
        store.change_table(&old, &TableChange::Stream(None)).await.unwrap();
        let menus = lunch.entries("Menu").unwrap();
        menus.delete(key("seed0", 1)).await.unwrap();
        menus.put(menu("seed1", 1, 99)).await.unwrap();
        expected.remove(&("seed0".to_owned(), 1));
        expected.insert(("seed1".to_owned(), 1), 99);
        let mut seen = Seen::default();
        assert!(migration(&store).run(&Options::default(), &mut seen).await.unwrap().is_done);
        assert_eq!(seen.restarts, 1);
        check_new(&store, &expected).await;
    });
}

async fn finish(migration: &Migration, table: &str, watch: &mut dyn MigrationWatch) -> Outcome {
    let permissions = Permissions([table.to_owned()].into());
    migration.finish(&permissions, &Options::default(), watch).await.unwrap()
}

async fn is_there(store: &Store, table: &str) -> bool {
    store.describe(&TableName::new(table).unwrap()).await.unwrap().is_some()
}

#[test]
fn l12_late_writes_of_many_short_pages_are_all_carried_before_the_table_goes() {
    stores::run(async {
        let store = in_memory().await;
        let lunch = begin(&store).await;
        let mut expected = seed(&lunch, 1, "-").await;
        let (migration, _) = switched(&store).await;
        // A page of the stream ends at a megabyte, long before it has many records.
        for week in 1..=40 {
            let mut menu = menu("late", week, week);
            menu.insert("note".to_owned(), "x".repeat(100_000).as_str().into());
            lunch.entries("Menu").unwrap().put(menu).await.unwrap();
            expected.insert(("late".to_owned(), week), week);
        }
        let outcome = finish(&migration, "lunch-cache", &mut Silent).await;
        assert_eq!((outcome.is_done, outcome.late_carried), (true, 40));
        assert!(!is_there(&store, "lunch-cache").await);
        check_new(&store, &expected).await;
    });
}

#[test]
fn l12_told_to_stop_neither_finish_nor_rollback_drops_what_came_late() {
    stores::run(async {
        let store = in_memory().await;
        let lunch = begin(&store).await;
        let mut expected = seed(&lunch, 1, "-").await;
        let (migration, _) = switched(&store).await;
        lunch.entries("Menu").unwrap().put(menu("late", 1, 9)).await.unwrap();
        expected.insert(("late".to_owned(), 1), 9);
        let mut stop = Seen { stop_at: Some(0), ..Seen::default() };
        let outcome = finish(&migration, "lunch-cache", &mut stop).await;
        assert!(!outcome.is_done && outcome.removed.is_empty());
        assert!(is_there(&store, "lunch-cache").await);
        let outcome = migration.rollback(&Options::default(), &mut stop).await.unwrap();
        assert_eq!((outcome.is_done, outcome.tables[0].phase), (false, Phase::Switched));
        assert!(!migration.run(&Options::default(), &mut stop).await.unwrap().is_done);

        assert!(finish(&migration, "lunch-cache", &mut Silent).await.is_done);
        check_new(&store, &expected).await;
    });
}

#[test]
fn l12_after_a_stream_has_lost_changes_late_writes_are_carried_again_and_finish_says_so_once() {
    stores::run(async {
        let store = in_memory().await;
        let lunch = begin(&store).await;
        let mut expected = seed(&lunch, 1, "-").await;
        let (migration, new) = switched(&store).await;
        let menus = lunch.entries("Menu").unwrap();
        menus.put(menu("early", 1, 1)).await.unwrap();
        assert_eq!(run(&migration).await.late_carried, 1);
        // Deleted where it now belongs: what was read once must not bring it back.
        new.entries("Menu").unwrap().delete(new_key("early", 1)).await.unwrap();
        store.clock().advance(Duration::from_secs(21 * 60 * 60));
        menus.put(menu("late", 1, 9)).await.unwrap();
        expected.insert(("late".to_owned(), 1), 9);
        let outcome = finish(&migration, "lunch-cache", &mut Silent).await;
        assert_eq!((outcome.is_done, outcome.late_carried, outcome.unseen.len()), (false, 1, 1));
        assert!(is_there(&store, "lunch-cache").await);
        check_new(&store, &expected).await;

        // Looked at today, and looked at again.
        store.clock().advance(Duration::from_secs(15 * 60 * 60));
        assert_eq!(run(&migration).await.unseen, []);
        store.clock().advance(Duration::from_secs(15 * 60 * 60));
        let outcome = finish(&migration, "lunch-cache", &mut Silent).await;
        assert!(outcome.is_done, "{outcome:?}");
    });
}

/// Does something the first time that something happens.
struct Once<F>(Option<F>, fn(&Event<'_>) -> bool);

impl<F: AsyncFnOnce() + Send> MigrationWatch for Once<F> {
    fn event(&mut self, event: Event<'_>) {
        if (self.1)(&event)
            && let Some(act) = self.0.take()
        {
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(act()));
        }
    }
}

fn is_comparing(event: &Event<'_>) -> bool {
    matches!(event, Event::Comparing { .. })
}

#[test]
fn l12_what_programs_of_the_old_schema_write_during_a_rollback_stays_and_is_listed() {
    on_each(async |store| {
        let lunch = begin(&store).await;
        let mut expected = seed(&lunch, 2, "-").await;
        let (migration, new) = switched(&store).await;
        new.entries("Menu").unwrap().put(menu("seed1", 1, 55)).await.unwrap();
        expected.insert(("seed1".to_owned(), 1), 55);
        let old = lunch.entries("Menu").unwrap();
        let mut watch = Once(
            Some(async || {
                old.put(menu("seed0", 1, 777)).await.unwrap();
                old.put(menu("fresh", 1, 778)).await.unwrap();
                old.delete(key("seed0", 2)).await.unwrap();
            }),
            is_comparing,
        );
        let outcome = migration.rollback(&Options::default(), &mut watch).await.unwrap();
        assert!(outcome.is_done && watch.0.is_none(), "{outcome:?}");
        let listed: Vec<&str> = outcome.late.iter().map(|late| late.target.as_str()).collect();
        assert_eq!(listed.len(), 3, "{listed:?}");
        assert!(["seed0-01", "fresh-01", "seed0-02"].iter().all(|key| listed.contains(key)), "{listed:?}");
        expected.extend([(("seed0".to_owned(), 1), 777), (("fresh".to_owned(), 1), 778)]);
        expected.remove(&("seed0".to_owned(), 2));
        check_old(&store, &expected).await;
    });
}

#[test]
fn l12_a_rollback_tells_of_late_writes_that_it_would_replace_before_it_begins() {
    stores::run(async {
        let store = in_memory().await;
        let lunch = begin(&store).await;
        let mut expected = seed(&lunch, 1, "-").await;
        let (migration, new) = switched(&store).await;
        new.entries("Menu").unwrap().put(menu("seed0", 1, 500)).await.unwrap();
        lunch.entries("Menu").unwrap().put(menu("seed0", 1, 400)).await.unwrap();
        let outcome = migration.rollback(&Options::default(), &mut Silent).await.unwrap();
        assert_eq!((outcome.is_done, outcome.late.len()), (false, 1));
        assert_eq!(outcome.tables[0].phase, Phase::Switched);
        assert!(migration.rollback(&Options::default(), &mut Silent).await.unwrap().is_done);
        expected.insert(("seed0".to_owned(), 1), 500);
        check_old(&store, &expected).await;
    });
}

#[test]
fn l12_neither_finish_nor_rollback_touches_a_table_that_was_not_migrated() {
    stores::run(async {
        let (here, there) = (in_memory().await, in_memory().await);
        let directory = tempfile::tempdir().unwrap();
        let other = Store::open(&Address::Directory(directory.path().join("data"))).await.unwrap();
        let mut expected = seed(&begin(&other).await, 1, "-").await;
        seed(&begin(&here).await, 2, "-").await;
        assert!(run(&between(&other, &there)).await.is_done);

        let wrong = between(&here, &there);
        let permissions = Permissions(["lunch-cache".to_owned()].into());
        let error = wrong.finish(&permissions, &Options::default(), &mut Silent).await.unwrap_err();
        assert!(error.to_string().contains("and not from lunch-cache of memory:"), "{error}");
        let error = wrong.rollback(&Options::default(), &mut Silent).await.unwrap_err();
        assert!(error.to_string().contains("and not from lunch-cache of memory:"), "{error}");
        assert_eq!(items(&here, "lunch-cache").await.len(), 10);

        let new = open(NEW, &there).await;
        new.entries("Menu").unwrap().put(menu("there", 1, 5)).await.unwrap();
        expected.insert(("there".to_owned(), 1), 5);
        let right = between(&other, &there);
        assert!(right.rollback(&Options::default(), &mut Silent).await.unwrap().is_done);
        check_old(&other, &expected).await;
    });
}

const ORDERS: &str = r#"
table orders {
  name  "orders"
  key   pk
  entity Order {
    key  "ORDER#{id}"
    id:  string nonempty
  }
}
"#;

#[test]
fn l12_of_several_tables_one_may_be_finished_before_the_others() {
    stores::run(async {
        let store = in_memory().await;
        let (old, new) = (format!("{OLD}{ORDERS}"), format!("{NEW}{ORDERS}"));
        let lunch = open(&old, &store).await;
        let mut expected = seed(&lunch, 1, "-").await;
        let both = ((schema(&old), store.clone()), (schema(&new), store.clone()));
        let migration = Migration::new(both.0, both.1, Environment::new()).unwrap();
        assert!(run(&migration).await.is_done);

        assert!(!finish(&migration, "orders", &mut Silent).await.is_done);
        assert!(!is_there(&store, "orders").await);
        assert_eq!(migration.plan().await.unwrap().tables.len(), 1);
        lunch.entries("Menu").unwrap().put(menu("late", 1, 9)).await.unwrap();
        expected.insert(("late".to_owned(), 1), 9);
        assert_eq!(run(&migration).await.late_carried, 1);
        let error = migration.rollback(&Options::default(), &mut Silent).await.unwrap_err();
        assert!(error.to_string().contains("orders is removed"), "{error}");
        assert_eq!(migration.superseded().await.unwrap().len(), 1);
        assert!(finish(&migration, "lunch-cache", &mut Silent).await.is_done);
        check_new(&store, &expected).await;
    });
}

#[test]
fn l12_an_entity_that_moves_to_another_table_is_refused() {
    stores::run(async {
        let store = in_memory().await;
        let gone = "  entity Gone { key \"GONE#{id}\"  id: string }\n";
        let moved = ORDERS.replace("entity Order", &format!("{gone}  entity Order"));
        let both = (
            (schema(&format!("{OLD}{ORDERS}")), store.clone()),
            (schema(&format!("{NEW}{moved}")), store.clone()),
        );
        let error = Migration::new(both.0, both.1, Environment::new()).unwrap_err().to_string();
        assert!(error.contains("Gone moves from the table cache to the table orders"), "{error}");
    });
}

#[test]
fn l12_a_machine_that_was_taken_over_writes_nothing_after_the_switch() {
    stores::run(async {
        let store = in_memory().await;
        seed(&begin(&store).await, 6, &"x".repeat(150_000)).await;
        let mut watch = Once(
            Some(async || {
                let (_, new) = switched(&store).await;
                for item in items(&store, "lunch-cache-v2").await {
                    let week = item.get("week").unwrap().as_number().unwrap().to_i64().unwrap();
                    let restaurant = item.get("id").unwrap().as_str().unwrap();
                    new.entries("Menu").unwrap().delete(new_key(restaurant, week)).await.unwrap();
                }
                store.clock().advance(Duration::from_secs(60));
            }),
            |event| matches!(event, Event::Copied { .. }),
        );
        let error = migration(&store).run(&Options::default(), &mut watch).await.unwrap_err();
        assert!(error.to_string().contains("another process has taken over"), "{error}");
        check_new(&store, &Menus::new()).await;
    });
}

#[test]
fn l12_forward_again_after_a_rollback_the_table_in_use_is_not_marked_as_superseded() {
    stores::run(async {
        let store = in_memory().await;
        seed(&begin(&store).await, 1, "-").await;
        let (migration, _) = switched(&store).await;
        let tag = async |table: &str| {
            let tags = store.tags(&TableName::new(table).unwrap()).await.unwrap();
            tags.get("larder:superseded-by").cloned().unwrap_or_default()
        };
        let has_stream = async |table: &str| {
            let deployed = store.describe(&TableName::new(table).unwrap()).await.unwrap();
            deployed.unwrap().definition.stream.is_some()
        };
        assert!(migration.rollback(&Options::default(), &mut Silent).await.unwrap().is_done);
        assert_eq!(
            (tag("lunch-cache").await.as_str(), tag("lunch-cache-v2").await.as_str()),
            ("", "lunch-cache")
        );
        assert!(run(&migration).await.is_done);
        assert_eq!(
            (tag("lunch-cache").await.as_str(), tag("lunch-cache-v2").await.as_str()),
            ("lunch-cache-v2", "")
        );
        assert!(has_stream("lunch-cache-v2").await);
        assert!(finish(&migration, "lunch-cache", &mut Silent).await.is_done);
        assert!(!has_stream("lunch-cache-v2").await, "it was switched on for the rollback");
    });
}

#[test]
fn l12_an_iterator_that_expired_is_not_the_end_of_the_stream() {
    stores::run(async {
        let store = in_memory().await;
        let lunch = begin(&store).await;
        let (migration, _) = switched(&store).await;
        for week in 1..=40 {
            let mut menu = menu("late", week, week);
            menu.insert("note".to_owned(), "x".repeat(100_000).as_str().into());
            lunch.entries("Menu").unwrap().put(menu).await.unwrap();
        }
        let mut watch = Once(Some(async || store.clock().advance(Duration::from_secs(20 * 60))), |event| {
            matches!(event, Event::Followed { .. })
        });
        let outcome = finish(&migration, "lunch-cache", &mut watch).await;
        assert_eq!((outcome.is_done, outcome.late_carried), (true, 40));
    });
}

/// Does something when both tables have been read to be compared, before the stream is read on.
struct Compared<F>(std::sync::Mutex<Option<F>>, bool);

impl<F: AsyncFnOnce() + Send> MigrationWatch for Compared<F> {
    fn event(&mut self, event: Event<'_>) {
        self.1 |= is_comparing(&event);
    }

    fn stop(&self) -> bool {
        if self.1
            && let Some(act) = self.0.lock().unwrap().take()
        {
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(act()));
        }
        false
    }
}

#[test]
fn l12_a_record_that_cannot_be_converted_and_comes_last_stops_it_before_the_switch() {
    stores::run(async {
        let store = in_memory().await;
        let lunch = begin(&store).await;
        seed(&lunch, 1, "-").await;
        let stricter = NEW.replace("price:      decimal", "price:      decimal in 0..100");
        let both = ((schema(OLD), store.clone()), (schema(&stricter), store.clone()));
        let migration = Migration::new(both.0, both.1, Environment::new()).unwrap();
        let menus = lunch.entries("Menu").unwrap();
        let act = async || drop(menus.put(menu("dear", 1, 120)).await.unwrap());
        let mut watch = Compared(Some(act).into(), false);
        let outcome = migration.run(&Options::default(), &mut watch).await.unwrap();
        assert_eq!((outcome.is_done, outcome.unconverted.len()), (false, 1));
        assert_eq!(outcome.tables[0].phase, Phase::Copying);
    });
}
