//! How fast the console is on a large table: `cargo run --release -p larder-console --example million -- [ITEMS] [DIRECTORY]`.
//!
//! Fills a directory with so many shops (a million), or takes the one that it filled before, opens the console on it and asks for the
//! first page, and for a table by index at pages 1, 100 and 10,000. Each page is asked for five times on a connection of its own; the
//! first time is told too. It fails where the median of a page takes more than 100 ms, or a page has more than 60 KB.

#![allow(clippy::print_stdout, reason = "it tells what it measured")]

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use larder::{Address, Entry, Environment, Fields, Schema, Shelf, Store, System, Value};
use larder_console::{Console, Options, SchemaFile};
use larder_model::TableName;
use larder_schema::NoFiles;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const ITEMS: usize = 1_000_000;
const TIMES: usize = 5;
const TIME_MAX: Duration = Duration::from_millis(100);
const BYTES_MAX: usize = 60_000;
/// Rows of a page of the console, unless somebody asks for more.
const PAGE: usize = 50;
const PAGES: [usize; 3] = [1, 100, 10_000];
const WRITERS: usize = 256;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let items = arguments.next().map_or(Ok(ITEMS), |text| text.parse())?;
    let kept = arguments.next().map(PathBuf::from);
    let passing = std::env::temp_dir().join(format!("larder-console-million-{}", std::process::id()));
    let directory = kept.clone().unwrap_or_else(|| passing.clone());
    let done = measure(items, &directory).await;
    if kept.is_none() {
        std::fs::remove_dir_all(&passing)?;
    }
    Ok(if done? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn schema_file() -> SchemaFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/shops.larder");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let loaded = Schema::load(&path.display().to_string(), &text, &mut NoFiles, &Environment::new());
    SchemaFile { path, loaded: Ok(loaded) }
}

async fn measure(items: usize, directory: &Path) -> Result<bool, Box<dyn Error>> {
    let store = Store::open(&Address::Directory(directory.to_owned())).await?;
    let schema = schema_file().loaded?.schema.ok_or("the schema of shops has errors")?;
    let system = System::open_with(schema, store.clone(), Environment::new()).await?;
    let shops = system.entries("Shop").ok_or("there are no shops")?;
    fill(&shops, items).await?;
    let size = larder::census::size(&store, &TableName::new("aura-historia-data")?).await?;
    let there = size.map_or(0, |size| size.items);
    println!("{there} items");
    if there < items as u64 {
        return Err(format!("{items} were asked for").into());
    }

    let options = Options { read_only: true, ..Options::at(SocketAddr::from(([127, 0, 0, 1], 0))) };
    let console = Console::bind(store, Box::new(|| vec![schema_file()]), options)?;
    let address = console.address();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(console.run(async {
        let _ = stopped.await;
    }));
    let mut pages = vec![("first page".to_owned(), "/".to_owned())];
    for (page, cursor) in cursors(&shops).await? {
        let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let path = format!("/browse/shops/Shop?by=by_last_crawled&a.country=DE{cursor}");
        pages.push((format!("by index, page {page}"), path));
    }
    pages.extend([
        ("all records".to_owned(), "/browse/shops/Shop?by=all&scan=1".to_owned()),
        ("all items".to_owned(), "/items/aura-historia-data?by=all&scan=1".to_owned()),
        (
            "a record".to_owned(),
            format!("/item/aura-historia-data?pk=SHOP%23{}&sk=META%23", domain(items / 2)),
        ),
    ]);
    let mut all_hold = true;
    println!("{:24} {:>9} {:>9} {:>9}", "page", "first", "median", "bytes");
    for (name, path) in pages {
        let (mut times, mut bytes) = (Vec::new(), 0);
        for _ in 0..TIMES {
            let begun = Instant::now();
            bytes = bytes.max(ask(address, &path).await?);
            times.push(begun.elapsed());
        }
        let first = times[0];
        times.sort();
        let holds = times[TIMES / 2] <= TIME_MAX && bytes <= BYTES_MAX;
        all_hold &= holds;
        let millis = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
        let verdict = if holds { "" } else { "  more than 100 ms or 60 KB" };
        println!("{name:24} {:>9} {:>9} {bytes:>9}{verdict}", millis(first), millis(times[TIMES / 2]));
    }
    let _ = stop.send(());
    running.await?;
    Ok(all_hold)
}

fn domain(number: usize) -> String {
    format!("shop{number:07}.de")
}

/// Makes the shops, all of one country, unless all are there.
async fn fill(shops: &Shelf<Entry>, items: usize) -> Result<(), Box<dyn Error>> {
    let text = |name: &str, text: String| (name.to_owned(), Value::Text(text));
    let key = move |number: usize| Fields::from([text("domain", domain(number))]);
    let shop = move |number: usize| {
        let rest = [text("country", "DE".to_owned()), text("shop_name", format!("Antik {number}"))];
        key(number).into_iter().chain(rest).collect::<Fields>()
    };
    if items == 0 || shops.get(key(items - 1)).await?.is_some() {
        return Ok(());
    }
    let begun = Instant::now();
    let mut writers = tokio::task::JoinSet::new();
    for first in 0..WRITERS {
        let shops = shops.clone();
        writers.spawn(async move {
            for number in (first..items - 1).step_by(WRITERS) {
                shops.put(shop(number)).await?;
            }
            Ok::<(), larder::Error>(())
        });
    }
    while let Some(written) = writers.join_next().await {
        written??;
    }
    // The last one says that all are there.
    shops.put(shop(items - 1)).await?;
    println!("{items} shops made in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Where the pages of an index begin, as far as there are so many.
async fn cursors(shops: &Shelf<Entry>) -> Result<Vec<(usize, Option<String>)>, Box<dyn Error>> {
    let mut found = vec![(1, None)];
    let (mut cursor, mut at): (Option<String>, usize) = (None, 0);
    for page in PAGES.into_iter().skip(1) {
        while at < (page - 1) * PAGE {
            let most = 1000.min((page - 1) * PAGE - at);
            let query = shops.index("by_last_crawled", ["DE"]).limit(most);
            let query = cursor.iter().fold(query, larder::Query::start_at);
            let read = query.page().await?;
            at += read.items.len();
            let Some(next) = read.cursor else {
                println!("there is no page {page}");
                return Ok(found);
            };
            cursor = Some(next);
        }
        found.push((page, cursor.clone()));
    }
    Ok(found)
}

/// The bytes of a page.
async fn ask(address: SocketAddr, path: &str) -> Result<usize, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    if !answer.starts_with(b"HTTP/1.1 200") {
        return Err(format!("{path}: {}", String::from_utf8_lossy(&answer)).into());
    }
    Ok(answer.len())
}
