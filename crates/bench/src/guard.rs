//! What a guard costs: PutItem through `larder serve`, without a schema and with one.
//!
//! The two servers are written to in turns, with items of the five systems, into tables made by `larder apply`. The
//! median of the rounds counts, and of ratios the median of those of each round.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::LocalSet;

use crate::http;
use crate::job::{Measure, Measured};
use crate::load::{self, Requests};
use crate::peer::{Installed, Peer};
use crate::process::{self, Running};
use crate::results::median;
use crate::workload::Op;

const CONNECTIONS: usize = 64;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) rounds: usize,
    /// How long one server is written to before it is the other's turn.
    pub(crate) seconds: f64,
    /// In a table; they are written again and again.
    pub(crate) items: u32,
}

impl Sizes {
    pub(crate) fn full(rounds: usize, seconds: f64) -> Self {
        Self { rounds, seconds, items: 16_384 }
    }

    pub(crate) fn quick() -> Self {
        Self { rounds: 1, seconds: 0.2, items: 512 }
    }
}

/// An entity, and the attributes that make its items different.
struct Subject {
    system: &'static str,
    entity: &'static str,
    table: &'static str,
    numbered: fn(u32) -> Value,
}

const SUBJECTS: [Subject; 3] = [
    Subject {
        system: "lunch",
        entity: "menu",
        table: "lunch-cache-dev",
        numbered: |number| {
            let (year, week) = (2000 + number / 50, 1 + number % 50);
            json!({
                "pk": {"S": format!("niagara-{year}-{week:02}")},
                "year": {"N": year.to_string()},
                "week": {"N": week.to_string()},
            })
        },
    },
    Subject {
        system: "shops",
        entity: "shop",
        table: "aura-historia-data",
        numbered: |number| {
            let domain = format!("shop{number}.example.co.uk");
            json!({
                "pk": {"S": format!("SHOP#{domain}")},
                "domain": {"S": domain.clone()},
                "gsi4_sk": {"S": domain},
            })
        },
    },
    Subject {
        system: "shops",
        entity: "page",
        table: "aura-historia-data",
        numbered: |number| {
            let url = format!("https://shop.example.co.uk/products/item-{number}");
            json!({"sk": {"S": format!("URL#{url}")}, "url": {"S": url}})
        },
    },
];

impl Subject {
    /// Puts of valid items, as they go on the wire.
    fn puts(&self, count: u32) -> Result<Rc<[Vec<u8>]>> {
        let known: Value = serde_json::from_str(include_str!("../../../tests/clients/systems/items.json"))?;
        let known = known[self.system][self.entity].as_object().context("the entity has no item")?;
        let put = |number| {
            let mut item = known.clone();
            item.extend((self.numbered)(number).as_object().cloned().unwrap_or_default());
            http::request("PutItem", &json!({"TableName": self.table, "Item": item}).to_string())
        };
        Ok((0..count).map(put).collect())
    }
}

pub(crate) fn run(sizes: Sizes) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let larder = Peer::Larder.install(Path::new(""))?;
    let Sizes { rounds, seconds, items } = sizes;
    println!(
        "What a guard costs; PutItem, {items} items, {CONNECTIONS} connections, median of {rounds} times {seconds} s"
    );
    for subject in &SUBJECTS {
        LocalSet::new().block_on(&runtime, compare(&larder, subject, sizes))?;
    }
    Ok(())
}

async fn compare(larder: &Installed, subject: &Subject, sizes: Sizes) -> Result<()> {
    let without = Served::start(larder, subject.system, false).await?;
    let with = Served::start(larder, subject.system, true).await?;
    let puts = subject.puts(sizes.items)?;
    let (mut of_without, mut of_with) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        of_without.push(without.measure(&puts, sizes).await?);
        of_with.push(with.measure(&puts, sizes).await?);
    }
    with.refuses(subject).await?;
    let name = format!("{}, {}", subject.system, subject.entity);
    let of = |rounds: &[Round], value: fn(&Round) -> f64| median(rounds.iter().map(value));
    let row = |what: &str, value: fn(&Round) -> f64, unit: &str, is_rate: bool| {
        let (Some(without), Some(with)) = (of(&of_without, value), of(&of_with, value)) else { return };
        // Of each round, because the machine is another from one to the next.
        let ratio = |(without, with): (&Round, &Round)| match is_rate {
            true => value(with) / value(without),
            false => value(without) / value(with),
        };
        let ratio = median(of_without.iter().zip(&of_with).map(ratio)).unwrap_or_default();
        println!(
            "  {:<40} without {without:>9.0} {unit:<3} with {with:>9.0} {unit:<3} ratio {ratio:>5.2}",
            format!("{name}: {what}")
        );
    };
    row("rate", |round| round.measured.rate, "/s", true);
    row("p99", |round| round.measured.p99, "µs", false);
    row("CPU of the server, a put", |round| round.cpu_micros, "µs", false);
    without.running.stop().await?;
    with.running.stop().await
}

struct Round {
    measured: Measured,
    cpu_micros: f64,
}

/// A server with the tables of a system.
struct Served {
    running: Running,
    address: SocketAddr,
    /// Goes with it.
    _data: TempDir,
}

impl Served {
    async fn start(larder: &Installed, system: &str, is_guarded: bool) -> Result<Self> {
        let schema = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{system}.larder"));
        let data = tempfile::tempdir()?;
        let address = process::free_address()?;
        let mut serve = larder.server(address, data.path())?;
        if is_guarded {
            serve.arg("--schema").arg(&schema);
        }
        let mut running = Running::start(&mut serve)?;
        running.answers(address).await?;
        let mut apply = Command::new(serve.get_program());
        apply.args(["apply", "--yes", "--store", &format!("dynamodb:http://{address}")]).arg(&schema);
        let applied = apply.output().context("cannot run `larder apply`")?;
        ensure!(applied.status.success(), "apply: {}", String::from_utf8_lossy(&applied.stderr));
        Ok(Self { running, address, _data: data })
    }

    async fn measure(&self, puts: &Rc<[Vec<u8>]>, sizes: Sizes) -> Result<Round> {
        let measure = Measure {
            op: Op::Put,
            connections: CONNECTIONS,
            items: sizes.items.into(),
            seed: 0,
            warmup_seconds: 0.0,
            seconds: sizes.seconds,
            drain_seconds: 20.0,
            requests_max: u64::MAX,
            spread: false,
            pause_seconds: 0.0,
        };
        let before = self.running.cpu()?;
        let measured = load::run(self.address, &measure, Requests::Ring(Rc::clone(puts))).await?;
        let cpu = self.running.cpu()? - before;
        let first = measured.first_error.as_deref().unwrap_or_default();
        ensure!(measured.errors == 0, "{} puts failed: {first}", measured.errors);
        let cpu_micros = cpu.as_secs_f64() * 1e6 / measured.requests as f64;
        Ok(Round { measured, cpu_micros })
    }

    /// Else it would be no guard that was measured.
    async fn refuses(&self, subject: &Subject) -> Result<()> {
        let item = (subject.numbered)(0);
        let put = http::request("PutItem", &json!({"TableName": subject.table, "Item": item}).to_string());
        let mut connection = http::Connection::open(&self.address.into()).await?;
        ensure!(!connection.exchange(&put).await?.ok(), "an item without its fields was taken");
        Ok(())
    }
}
