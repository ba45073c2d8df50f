//! What many tables cost: making them, describing and listing them, and a server that has them and nothing to do.
//!
//! Each has a stream and an item, so that it has a log. Making and asking is done in process; start, memory and idle
//! work are those of `larder serve`, beside one that has a single table.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use hdrhistogram::Histogram;
use larder_engine::Engine;
use larder_engine::ops::{
    CreateTable, DescribeTable, ListTables, PutItem, StreamSpecification, WriteOptions,
};
use larder_model::{Clock, StreamView, TableName, UnixTime};
use larder_storage::Options;
use tokio::runtime::{Handle, Runtime};

use crate::embedded::larder::{create_table, item};
use crate::peer::{Installed, Peer};
use crate::process::{self, Running};
use crate::workload::{Random, Sample};

/// Who make tables at once.
const MAKERS: usize = 64;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    tables: u64,
    describes: u64,
    /// How long a server is watched that nobody asks for anything.
    idle: Duration,
}

impl Sizes {
    pub(crate) fn full() -> Self {
        Self { tables: 10_000, describes: 100_000, idle: Duration::from_secs(20) }
    }

    pub(crate) fn quick() -> Self {
        Self { tables: 200, describes: 1_000, idle: Duration::from_secs(1) }
    }
}

pub(crate) fn run(sizes: Sizes) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let larder = Peer::Larder.install(Path::new(""))?;
    println!("Many tables; {} of them, with streams", sizes.tables);
    let (one, many) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let engine = Engine::open(one.path(), Options::default())?;
    make(&engine, runtime.handle(), 0)?;
    engine.close()?;
    drop(engine);
    fill(many.path(), &runtime, sizes)?;
    for (name, place) in [("one table", one.path()), ("all tables", many.path())] {
        runtime.block_on(watch(&larder, name, place, sizes.idle))?;
    }
    Ok(())
}

fn now() -> UnixTime {
    Clock::system().now()
}

fn name(number: u64) -> Result<TableName> {
    Ok(TableName::new(format!("customer-{number:05}-orders"))?)
}

/// A table with an item.
fn make(engine: &Engine, handle: &Handle, number: u64) -> Result<()> {
    let stream = StreamSpecification { enabled: true, view: Some(StreamView::NewAndOldImages) };
    let request = CreateTable { stream: Some(stream), ..create_table(name(number)?)? };
    handle.block_on(engine.create_table(request, now()))?;
    Ok(())
}

fn fill(place: &Path, runtime: &Runtime, sizes: Sizes) -> Result<()> {
    let engine = Engine::open(place, Options::default())?;
    let handle = runtime.handle();
    // The first and the last tenth one after the other, so that what grows with their number is seen.
    let tenth = sizes.tables / 10;
    let one_by_one = |numbers: std::ops::Range<u64>| -> Result<f64> {
        let start = Instant::now();
        numbers.clone().try_for_each(|number| make(&engine, handle, number))?;
        Ok((numbers.end - numbers.start) as f64 / start.elapsed().as_secs_f64())
    };
    let first = one_by_one(0..tenth)?;
    let (start, next) = (Instant::now(), AtomicU64::new(tenth));
    let middle = sizes.tables - 2 * tenth;
    on_threads(MAKERS, |_| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= tenth + middle {
                return Ok(());
            }
            make(&engine, handle, number)?;
        }
    })?;
    let at_once = middle as f64 / start.elapsed().as_secs_f64();
    let last = one_by_one(tenth + middle..sizes.tables)?;
    println!("  {:<50} {first:>10.0}/s", "create, one at a time, the first tenth");
    println!("  {:<50} {last:>10.0}/s", "create, one at a time, the last tenth");
    println!("  {:<50} {at_once:>10.0}/s", format!("create, {MAKERS} at once"));

    let next = AtomicU64::new(0);
    on_threads(MAKERS, |_| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= sizes.tables {
                return Ok(());
            }
            let item = item(Sample { number, version: 0 })?;
            let put = PutItem { table: name(number)?, item, options: WriteOptions::default() };
            handle.block_on(engine.put_item(put, now()))?;
        }
    })?;

    let mut latencies = Histogram::<u64>::new(3)?;
    let mut random = Random::new(1);
    for _ in 0..sizes.describes {
        let request = DescribeTable { table: name(random.below(sizes.tables))? };
        let start = Instant::now();
        ensure!(engine.describe_table(&request)?.item_count == 1, "a table has lost its item");
        latencies.record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))?;
    }
    let micros = |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0;
    println!("  {:<50} p50 {:>6.1} µs   p99 {:>6.1} µs", "describe, in process", micros(0.5), micros(0.99));

    let (start, mut pages, mut listed) = (Instant::now(), 0, 0);
    let mut from = None;
    loop {
        let page = engine.list_tables(&ListTables { start: from, limit: None })?;
        (pages, listed) = (pages + 1, listed + page.names.len() as u64);
        let Some(last) = page.last else { break };
        from = Some(last.as_str().to_owned());
    }
    ensure!(listed == sizes.tables, "{listed} tables are listed");
    let micros = start.elapsed().as_secs_f64() * 1e6 / f64::from(pages);
    println!("  {:<50} {micros:>10.1} µs a page, {pages} pages", "list, in process");
    engine.close()?;
    Ok(())
}

fn on_threads(count: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|at| scope.spawn(move || work(at))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

/// A server from its start, with nothing to do.
async fn watch(larder: &Installed, name: &str, place: &Path, idle: Duration) -> Result<()> {
    // What there is to tidy up after the start is not idle work.
    const SETTLE: Duration = Duration::from_secs(3);
    let address = process::free_address()?;
    let started = Instant::now();
    let mut running = Running::start(&mut larder.server(address, place)?)?;
    running.answers(address).await?;
    let millis = started.elapsed().as_secs_f64() * 1000.0;
    tokio::time::sleep(SETTLE).await;
    let (before, begun) = (running.cpu()?, Instant::now());
    tokio::time::sleep(idle).await;
    let share = (running.cpu()? - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    let megabytes = running.resident_bytes()? as f64 / 1e6;
    running.stop().await?;
    println!(
        "  {:<50} start {millis:>6.1} ms   idle CPU {:>5.2} %   resident {megabytes:>6.1} MB",
        format!("larder serve, {name}"),
        share * 100.0
    );
    Ok(())
}
