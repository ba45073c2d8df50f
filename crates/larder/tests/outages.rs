//! Stores that hang, refuse, turn away and talk nonsense: how long each of the five systems waits for them.
//!
//! `docs/cache-patterns.md` has the table; what it says is read from there and measured here.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod sources;
mod stores;
mod systems;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use larder::{Address, Entry, Environment, Error, Fetched, Fields, Look, Schema, Store, System, Value, Why};
use larder_schema::{NoFiles, Sampler};
use sources::{Source, fields, page_key, pages, shelf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// What a busy machine may add to what is measured.
const SLACK: Duration = Duration::from_millis(150);
/// The best of so many is what the layer takes; the rest is the machine.
const TRIES: usize = 10;

/// One entity of each system, in the order of the table.
const SYSTEMS: [(&str, &str); 5] = [
    ("keiba", "Race"),
    ("weather", "Forecast"),
    ("lunch", "Menu"),
    ("tdnet", "Disclosure"),
    ("shops", "Shop"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Hangs,
    Refuses,
    Throttles,
    Garbage,
}

impl Fault {
    /// The row of the table, and what the error says.
    fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Hangs => ("hangs", "no answer in 300 ms"),
            Self::Refuses => ("refuses", "cannot be reached"),
            Self::Throttles => ("turns away", "turned the request away"),
            Self::Garbage => ("answers garbage", "was lost"),
        }
    }

    /// A store of this kind, which lives as long as the runtime.
    async fn store(self) -> Store {
        self.counted().await.0
    }

    /// The same, and how many requests it has answered.
    async fn counted(self) -> (Store, Arc<AtomicU32>) {
        let requests = Arc::<AtomicU32>::default();
        let answered = Arc::clone(&requests);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address =
            Address::DynamoDb { endpoint: Some(format!("http://{}", listener.local_addr().unwrap())) };
        if self != Self::Refuses {
            tokio::spawn(async move {
                let mut held = Vec::new();
                while let Ok((mut connection, _)) = listener.accept().await {
                    match self {
                        Self::Hangs => held.push(connection),
                        _ => {
                            let answered = Arc::clone(&answered);
                            tokio::spawn(
                                async move { while self.answer(&mut connection, &answered).await {} },
                            );
                        }
                    }
                }
            });
        }
        (Store::open(&address).await.unwrap(), requests)
    }

    /// Answers one request, if another comes.
    async fn answer(self, connection: &mut TcpStream, answered: &AtomicU32) -> bool {
        let mut request = Vec::new();
        let whole = |request: &[u8]| {
            let text = String::from_utf8_lossy(request).to_lowercase();
            let (head, body) = text.split_once("\r\n\r\n")?;
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
            (body.len() >= length.parse::<usize>().ok()?).then_some(())
        };
        while whole(&request).is_none() {
            let mut some = [0; 4096];
            match connection.read(&mut some).await {
                Ok(read @ 1..) => request.extend_from_slice(&some[..read]),
                Ok(_) | Err(_) => return false,
            }
        }
        // Before it is answered: whoever asked may look at once.
        answered.fetch_add(1, Ordering::SeqCst);
        let (status, body) = match self {
            Self::Throttles => (
                "400 Bad Request",
                r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow down"}"#,
            ),
            _ => ("200 OK", "<html>It works!</html>"),
        };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        connection.write_all(answer.as_bytes()).await.is_ok()
    }
}

/// One of the five systems on a store, with nothing made or asked in advance.
async fn open(name: &str, store: Store) -> System {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{name}.larder"));
    let text = std::fs::read_to_string(path).unwrap();
    let schema = Schema::load(name, &text, &mut NoFiles, &Environment::new()).schema.unwrap();
    System::open_with(schema, store, Environment::new()).await.unwrap()
}

/// Another record each time: what waits to be written behind is found without the store.
async fn fetch(system: &System, entity: &str, seed: u64) -> (Duration, Result<Fetched<Entry>, Error>) {
    let record = Sampler::new(system.schema(), entity, seed).unwrap().sample().unwrap();
    let source = Source::default();
    let asked = Instant::now();
    let fetched = shelf(system, entity).fetch(record.clone(), source.gives(record)).await;
    (asked.elapsed(), fetched)
}

/// The rows of the table: what the store does, and milliseconds.
fn promised() -> BTreeMap<String, Vec<u64>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cache-patterns.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| line.starts_with('|') && line.ends_with(" ms |"));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let name = cells.next().unwrap().to_owned();
        (name, cells.map(|cell| cell.trim_end_matches(" ms").parse().unwrap()).collect())
    })
    .collect()
}

fn check(fault: Fault) {
    let (row, cause) = fault.told();
    let promised = promised().remove(row).unwrap_or_else(|| panic!("the table has a row `{row}`"));
    assert_eq!(promised.len(), SYSTEMS.len() + 1, "a column for each system, and one for afterwards");
    for ((name, entity), first) in SYSTEMS.into_iter().zip(&promised) {
        stores::run(async {
            let bounds = [first, promised.last().unwrap()].map(|millis| Duration::from_millis(*millis));
            let mut best = [Duration::MAX; 2];
            let is_kept =
                |best: [Duration; 2]| best.iter().zip(bounds).all(|(took, bound)| *took <= bound + SLACK);
            for _ in 0..TRIES {
                let system = open(name, fault.store().await).await;
                let (took, fetched) = fetch(&system, entity, 0).await;
                best[0] = best[0].min(took);
                let told = match &fetched {
                    Ok(fetched) => fetched.store_error().expect("the store failed").to_string(),
                    Err(error) => error.to_string(),
                };
                assert_eq!(fetched.is_ok(), ["keiba", "weather"].contains(&name), "{name}: {told}");
                assert!(told.contains(cause) || told.contains("no answer in 300 ms"), "{name}: {told}");
                for seed in 1..5 {
                    drop(fetch(&system, entity, seed).await);
                }
                let (took, fetched) = fetch(&system, entity, 5).await;
                best[1] = best[1].min(took);
                let told = match &fetched {
                    Ok(fetched) => fetched.store_error().expect("the store is left alone").to_string(),
                    Err(error) => error.to_string(),
                };
                assert!(told.contains("it is left alone after "), "{name}: {told}");
                if is_kept(best) {
                    break;
                }
            }
            eprintln!("{name}, the store {row}: {:?}, then {:?}", best[0], best[1]);
            assert!(is_kept(best), "{name}, the store {row}: {best:?} is over {bounds:?}");
        });
    }
}

#[test]
fn k12_a_store_that_hangs_holds_a_fetch_up_as_long_as_the_table_says() {
    check(Fault::Hangs);
}

#[test]
fn k12_a_store_that_refuses_holds_a_fetch_up_as_long_as_the_table_says() {
    check(Fault::Refuses);
}

#[test]
fn k12_a_store_that_throttles_holds_a_fetch_up_as_long_as_the_table_says() {
    check(Fault::Throttles);
}

#[test]
fn k12_a_store_that_answers_garbage_holds_a_fetch_up_as_long_as_the_table_says() {
    check(Fault::Garbage);
}

#[test]
fn a_request_is_sent_again_as_often_as_the_schema_says() {
    stores::run(async {
        for (retry, sent) in [("0", 1), ("2 backoff 1ms..2ms", 3), ("4 backoff 1ms..2ms", 5)] {
            let (store, requests) = Fault::Throttles.counted().await;
            let text = format!("{}\nstore {{ retry {retry} }}", pages("", "on_error closed"));
            let schema = Schema::load("pages", &text, &mut NoFiles, &Environment::new()).schema.unwrap();
            let system = System::open_with(schema, store, Environment::new()).await.unwrap();
            let error = shelf(&system, "Page").get(page_key("1")).await.unwrap_err();
            assert!(matches!(error, Error::Store(larder::store::Error::Throttled(_))), "{error}");
            assert_eq!(requests.load(Ordering::SeqCst), sent, "retry {retry}");
        }
    });
}

/// A system of one entity on a store in memory that answers nothing for an hour, and time that passes by itself.
async fn hanging(settings: &str, entity: &str) -> System {
    let system =
        systems::open_text(&format!("{}\n{settings}", pages("", entity)), &Store::memory().await).await;
    system.store().faults().delay(1.0, Duration::from_secs(3600));
    system
}

async fn took<T>(call: impl Future<Output = T>) -> (u128, T) {
    let asked = Instant::now();
    let outcome = call.await;
    (asked.elapsed().as_millis(), outcome)
}

#[tokio::test(start_paused = true)]
async fn k12_a_cached_read_waits_shortly_and_all_else_as_long_as_the_schema_says() {
    let (short, long) = (50, 2000);
    for entity in ["on_error open", "on_error closed"] {
        let system = hanging("store { timeout 50ms..2s }", entity).await;
        let shelf = shelf(&system, "Page");
        let source = Source::default();
        let (waited, fetched) = took(shelf.fetch(page_key("1"), source.numbered())).await;
        assert_eq!((waited, fetched.is_ok()), (short, entity == "on_error open"), "{entity}");
        let (waited, looked) = took(shelf.look(page_key("1"))).await;
        assert!(waited == short && matches!(looked, Look::Miss(Why::Unreachable(_))), "{waited}");
        // What is only an error without the store is worth waiting for.
        let (waited, got) = took(shelf.get(page_key("1"))).await;
        let (wanted, is_ok) = if entity == "on_error open" { (short, true) } else { (long, false) };
        assert_eq!((waited, got.is_ok()), (wanted, is_ok), "{entity}");
        let (waited, _) = took(shelf.put(page("1"))).await;
        assert_eq!(waited, long, "a write of the program's own: {entity}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_in_the_process_is_waited_for_unless_the_schema_says_otherwise() {
    let system = hanging("", "on_error open").await;
    let shelf = shelf(&system, "Page");
    let (waited, looked) = took(shelf.look(page_key("1"))).await;
    assert!(waited == 3_600_000 && matches!(looked, Look::Miss(Why::Absent)), "{waited}");
    let (waited, put) = took(shelf.put(page("1"))).await;
    assert_eq!((waited, put.is_ok()), (3_600_000, true));
}

fn page(id: &str) -> Fields {
    fields([("id", Value::from(id)), ("text", Value::from("once"))])
}

#[tokio::test(start_paused = true)]
async fn one_call_can_have_a_limit_of_its_own() {
    let system = hanging("", "on_error open").await;
    let shelf = shelf(&system, "Page");
    let limit = Duration::from_millis(20);
    let source = Source::default();
    let (waited, fetched) = took(larder::at_most(limit, shelf.fetch(page_key("1"), source.numbered()))).await;
    assert_eq!(waited, 20);
    assert!(fetched.unwrap().store_error().unwrap().to_string().ends_with("no answer in 20 ms"));
    let (waited, _) = took(larder::at_most(Duration::from_secs(60), shelf.put(page("1")))).await;
    assert_eq!(waited, 60_000, "longer than the schema says, too");
}

#[tokio::test(start_paused = true)]
async fn k12_the_breaker_is_for_cached_reads_and_closes_when_the_store_is_back() {
    let system = hanging("store {\n  timeout 300ms..9s\n  breaker 3 for 10s\n}", "on_error open").await;
    let shelf = shelf(&system, "Page");
    let source = Source::default();
    let fetch = || took(shelf.fetch(page_key("1"), source.numbered()));
    for _ in 0..3 {
        assert_eq!(fetch().await.0, 300);
    }
    assert_eq!(fetch().await.0, 0, "it is left alone");
    assert_eq!(took(shelf.put(page("1"))).await.0, 9000, "a write always tries");
    assert_eq!(fetch().await.0, 0, "and its failure counts");
    system.store().faults().reset();
    // From here the store's own threads work, of which a paused clock knows nothing.
    tokio::time::resume();
    shelf.put(page("1")).await.unwrap();
    let (_, fetched) = fetch().await;
    assert_eq!(fetched.unwrap().fields["text"], Value::from("once"), "what works is used again at once");
}

#[tokio::test(start_paused = true)]
async fn after_a_rest_one_read_tries_and_the_others_go_on_without() {
    let system = hanging("store {\n  timeout 300ms..9s\n  breaker 1 for 10s\n}", "on_error open").await;
    let shelf = shelf(&system, "Page");
    let source = Source::default();
    let fetch = |id: &'static str| took(shelf.fetch(page_key(id), source.numbered()));
    assert_eq!(fetch("1").await.0, 300);
    tokio::time::advance(Duration::from_secs(10)).await;
    let (first, second, third) = tokio::join!(fetch("1"), fetch("2"), fetch("3"));
    assert_eq!((first.0, second.0, third.0), (300, 0, 0));
}

#[tokio::test]
async fn an_embedded_store_is_never_left_alone_unless_the_schema_says_so() {
    let system = systems::open_text(&pages("", "on_error open"), &Store::memory().await).await;
    let (shelf, source) = (shelf(&system, "Page"), Source::default());
    system.store().faults().down();
    for _ in 0..20 {
        shelf.fetch(page_key("1"), source.numbered()).await.unwrap();
    }
    system.store().faults().up();
    let fetched = shelf.fetch(page_key("1"), source.numbered()).await.unwrap();
    assert!(fetched.store_error().is_none(), "it is asked again at once");
}
