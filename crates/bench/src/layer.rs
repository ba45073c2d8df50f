//! The data layer beside what it stands on: what it adds to a cache, to the engine, to the SDK.
//!
//! Both sides of a ratio do the same work in turns within one run, and the median of the rounds counts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder::store::ops::{GetItem, ReturnCapacity};
use larder::{Address, Entry, Environment, Fields, Schema, Shelf, Store, System, Value};
use larder_engine::Engine;
use larder_model::{Item, TableName};
use larder_server::{Config, Server, StoreConfig};

larder::schema!("layer.larder");

const SCHEMA: &str = include_str!("../layer.larder");

const HOUR: Duration = Duration::from_secs(60 * 60);
const TEXT_BYTES: usize = 300;
const KEYS: usize = 1_000;
const ASKERS: usize = 1_000;
const WRITES: usize = 2_000;

/// What one ratio says: ours and theirs, in the same unit.
struct Row {
    name: &'static str,
    ours: f64,
    theirs: f64,
    unit: &'static str,
}

pub(crate) fn run(rounds: usize, seconds: f64) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let time = Duration::from_secs_f64(seconds);
    runtime.block_on(async {
        let mut rows = Vec::from(l1_hit(rounds, time).await?);
        rows.push(embedded_hit(rounds, time).await?);
        rows.push(sdk_hit(rounds, time).await?);
        rows.push(write_behind(rounds).await?);
        println!("The data layer beside what it stands on; median of {rounds}");
        for Row { name, ours, theirs, unit } in rows {
            println!(
                "  {name:<58} {ours:>10.2} {unit}   {theirs:>10.2} {unit}   ratio {:>6.2}",
                ours / theirs
            );
        }
        let calls = one_load().await?;
        println!(
            "  {:<58} {calls:>10} call of the source",
            format!("fetch of one cold key by {ASKERS} tasks")
        );
        ensure!(calls == 1, "the source was called {calls} times for one key");
        Ok(())
    })
}

async fn open(store: Store) -> Result<System> {
    let loaded = Schema::load("bench.larder", SCHEMA, &mut larder_schema::NoFiles, &Environment::new());
    let schema = loaded.schema.context("the schema is right")?;
    let system = System::open(schema, store).await?;
    system.provision().await?;
    Ok(system)
}

fn shelf(system: &System, entity: &str) -> Result<Shelf<Entry>> {
    system.entries(entity).context("the entity is declared")
}

fn key(at: usize) -> Fields {
    Fields::from([("id".to_owned(), Value::Text(format!("{at:06}")))])
}

fn draft(at: usize) -> Fields {
    let mut fields = key(at);
    fields.insert("text".to_owned(), Value::Text("x".repeat(TEXT_BYTES)));
    fields
}

async fn fill(shelf: &Shelf<Entry>) -> Result<()> {
    for outcome in shelf.put_many((0..KEYS).map(draft)).await {
        outcome?;
    }
    Ok(())
}

/// Microseconds a call, of two that take turns.
async fn beside(
    rounds: usize,
    time: Duration,
    mut ours: impl AsyncFnMut(usize) -> Result<()>,
    mut theirs: impl AsyncFnMut(usize) -> Result<()>,
) -> Result<(f64, f64)> {
    let (mut of_ours, mut of_theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        of_ours.push(measure(time, &mut ours).await?);
        of_theirs.push(measure(time, &mut theirs).await?);
    }
    Ok((median(of_ours), median(of_theirs)))
}

async fn measure(time: Duration, call: &mut impl AsyncFnMut(usize) -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    let mut calls = 0_usize;
    while !calls.is_multiple_of(16) || start.elapsed() < time {
        call(calls % KEYS).await?;
        calls += 1;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / calls as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A fetch from L1 beside what a user would pick instead, and beside the bare cache crate, all in one run.
async fn l1_hit(rounds: usize, time: Duration) -> Result<[Row; 3]> {
    let system = bench::Bench::open(Store::open(&Address::Memory).await?).await?;
    let hots = system.hots();
    fill(&shelf(&system, "Hot")?).await?;
    for at in 0..KEYS {
        hots.get(format!("{at:06}")).await?;
    }
    let moka: moka::future::Cache<String, Arc<Fields>> =
        moka::future::Cache::builder().max_capacity(KEYS as u64 * 2).time_to_live(HOUR / 2).build();
    let bare: quick_cache::sync::Cache<String, Arc<Fields>> = quick_cache::sync::Cache::new(KEYS * 2);
    for at in 0..KEYS {
        bare.insert(format!("HOT#{at:06}"), Arc::new(draft(at)));
        moka.insert(format!("HOT#{at:06}"), Arc::new(draft(at))).await;
    }
    let fetch = async |at: usize| {
        let found = hots.fetch(format!("{at:06}"), never_a_text).await?;
        std::hint::black_box(&found.text);
        Ok(())
    };
    let get_with = async |at: usize| {
        let found = moka.get_with(format!("HOT#{at:06}"), async { Arc::new(Fields::new()) }).await;
        ensure!(std::hint::black_box(found).len() > 1, "a hit does not call the source");
        Ok(())
    };
    let get = async |at: usize| {
        let found = bare.get(&format!("HOT#{at:06}")).context("it is there")?;
        std::hint::black_box(&found);
        Ok(())
    };
    let row = |name, (ours, theirs)| Row { name, ours, theirs, unit: "µs" };
    let of_moka = row("L1 hit: fetch, beside moka's get_with", beside(rounds, time, fetch, get_with).await?);
    let of_bare = row("L1 hit: fetch, beside the bare quick_cache", beside(rounds, time, fetch, get).await?);
    // A system of its own: L1 keeps a record as the type that it was asked for.
    let system = open(system.store().clone()).await?;
    let entries = shelf(&system, "Hot")?;
    for at in 0..KEYS {
        entries.get(key(at)).await?;
    }
    let fetch = async |at: usize| {
        let found = entries.fetch(key(at), never).await?;
        std::hint::black_box(&found.fields);
        Ok(())
    };
    let of_entries = row(
        "L1 hit: fetch without types, beside moka's get_with",
        beside(rounds, time, fetch, get_with).await?,
    );
    Ok([of_moka, of_bare, of_entries])
}

async fn never_a_text(_: String) -> Result<String, std::io::Error> {
    Err(std::io::Error::other("a hit does not call the source"))
}

async fn never(_: Fields) -> Result<Fields, std::io::Error> {
    Err(std::io::Error::other("a hit does not call the source"))
}

async fn embedded_hit(rounds: usize, time: Duration) -> Result<Row> {
    let directory = tempfile::tempdir()?;
    let place = directory.path().join("layer");
    {
        let system = open(Store::open(&Address::Directory(place.clone())).await?).await?;
        fill(&shelf(&system, "Kept")?).await?;
    }
    let system = open(Store::open(&Address::Directory(place)).await?).await?;
    let kept = shelf(&system, "Kept")?;
    let engine = filled_engine(&directory.path().join("bare")).await?;
    let (ours, theirs) = beside(
        rounds,
        time,
        async |at| {
            let found = kept.fetch(key(at), never).await?;
            std::hint::black_box(&found.fields);
            Ok(())
        },
        async |at| {
            let found = engine.get_item(&get_request(at)?).map_err(|error| anyhow::anyhow!("{error}"))?;
            std::hint::black_box(found.item.context("it is there")?);
            Ok(())
        },
    )
    .await?;
    engine.close().map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(Row { name: "store hit, embedded: fetch, beside the engine's GetItem", ours, theirs, unit: "µs" })
}

/// The same items in an engine of its own.
async fn filled_engine(place: &Path) -> Result<Engine> {
    {
        let system = open(Store::open(&Address::Directory(place.to_owned())).await?).await?;
        fill(&shelf(&system, "Kept")?).await?;
    }
    Engine::open(place, larder_storage::Options::default()).map_err(|error| anyhow::anyhow!("{error}"))
}

fn get_request(at: usize) -> Result<GetItem> {
    let key: Item = [("pk", format!("KEPT#{at:06}"))].into_iter().collect();
    Ok(GetItem {
        table: TableName::new("data").map_err(|error| anyhow::anyhow!("{error:?}"))?,
        key,
        projection: None,
        consistent: false,
        capacity: ReturnCapacity::None,
    })
}

async fn sdk_hit(rounds: usize, time: Duration) -> Result<Row> {
    let server = Server::bind(Config::local(StoreConfig::Memory)).await?;
    let url = format!("http://{}", server.address());
    let serving = tokio::spawn(server.run(std::future::pending()));
    let store = Store::open(&Address::DynamoDb { endpoint: Some(url) }).await?;
    let client = store.sdk_client().await?;
    let system = open(store).await?;
    let kept = shelf(&system, "Kept")?;
    fill(&kept).await?;
    let (ours, theirs) = beside(
        rounds,
        time,
        async |at| {
            let found = kept.fetch(key(at), never).await?;
            std::hint::black_box(&found.fields);
            Ok(())
        },
        async |at| {
            let key = aws_sdk_dynamodb::types::AttributeValue::S(format!("KEPT#{at:06}"));
            let found = client.get_item().table_name("data").key("pk", key).send().await?;
            std::hint::black_box(found.item.context("it is there")?);
            Ok(())
        },
    )
    .await?;
    serving.abort();
    Ok(Row { name: "store hit, SDK: fetch, beside a bare GetItem of the SDK", ours, theirs, unit: "µs" })
}

/// Items a second, written behind and drained, beside one put after the other; on disk.
async fn write_behind(rounds: usize) -> Result<Row> {
    let directory = tempfile::tempdir()?;
    let system = open(Store::open(&Address::Directory(directory.path().join("data"))).await?).await?;
    let (late, kept) = (shelf(&system, "Late")?, shelf(&system, "Kept")?);
    let (mut of_ours, mut of_theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        for at in 0..WRITES {
            late.put_behind(draft(at)).await?;
        }
        let drained = system.drain(Duration::from_secs(60)).await;
        ensure!(drained.is_empty(), "{drained}");
        of_ours.push(WRITES as f64 / start.elapsed().as_secs_f64());
        let start = Instant::now();
        for at in 0..WRITES {
            kept.put(draft(at)).await?;
        }
        of_theirs.push(WRITES as f64 / start.elapsed().as_secs_f64());
    }
    Ok(Row {
        name: "written behind and drained, beside one put after the other",
        ours: median(of_ours),
        theirs: median(of_theirs),
        unit: "/s",
    })
}

async fn one_load() -> Result<u32> {
    let system = open(Store::open(&Address::Memory).await?).await?;
    let hot = shelf(&system, "Hot")?;
    let calls = Arc::new(AtomicU32::new(0));
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..ASKERS {
        let (hot, calls) = (hot.clone(), Arc::clone(&calls));
        asking.spawn(async move {
            let load = move |_: Fields| {
                calls.fetch_add(1, Ordering::Relaxed);
                async {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Ok::<_, std::io::Error>(Fields::from([("text".to_owned(), Value::from("once"))]))
                }
            };
            hot.fetch(key(0), load).await.map(drop)
        });
    }
    while let Some(asked) = asking.join_next().await {
        asked??;
    }
    Ok(calls.load(Ordering::Relaxed))
}
