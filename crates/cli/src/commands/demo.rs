//! `larder demo`: the five systems alive on one embedded store.
//!
//! Each has an origin on this machine that is slow, fails and turns away as the real ones do, and people who use it.
//! The store's clock runs faster than ours, so that forecasts expire, leases run out and days turn while somebody
//! looks. The endpoint is on the same store and the same clock.
//!
//! It ends after `--for`, or at Ctrl-C: what was begun is finished, what was to be written is written, and a summary
//! says whether all that was counted adds up.

mod census;
mod keiba;
mod lunch;
mod screen;
mod shops;
mod summary;
mod tdnet;
mod weather;
mod world;

use std::io::{self, IsTerminal};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use larder::jiff::Timestamp;
use larder::{Address, Clock, Store, System};
use larder_server::Server;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{console, init, plan, serve};
use crate::terminal;
use census::{Census, Held};
use screen::{Screen, SystemView, View};
use summary::{Row, Summary};
use world::{Part, World};

const PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8000);
const FRAME: Duration = Duration::from_millis(250);
const CENSUS: Duration = Duration::from_secs(1);
const LINE: Duration = Duration::from_secs(5);
const CLOCK_TICK: Duration = Duration::from_millis(50);
/// Shops change a price once, so that a second crawl finds something.
const PRICES_CHANGE: Duration = Duration::from_secs(30);
/// How long it takes at most to finish what was begun.
const END_MAX: Duration = Duration::from_secs(30);

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Show five systems at work on one store, with DynamoDB's protocol open
///
/// Nothing has to be installed or prepared, and nothing is left behind unless --store is given.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How long, as in 30s or 5m [default: until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    time: Option<Duration>,
    /// Where the store is, and stays [default: a temporary directory, removed at the end]
    #[arg(long, alias = "data", value_name = "DIR")]
    store: Option<PathBuf>,
    /// Where to listen [default: 127.0.0.1:8000, or another port if that is taken]
    #[arg(long, value_name = "ADDRESS", value_parser = serve::address)]
    dynamodb: Option<SocketAddr>,
    /// Where the console is, on loopback [default: 127.0.0.1:8001, or another port if that is taken]
    #[arg(long, value_name = "ADDRESS", value_parser = serve::address)]
    console: Option<SocketAddr>,
    /// How many times faster than ours its clock runs
    #[arg(long, value_name = "N", default_value_t = 1800, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    speed: u32,
    /// Where its random choices begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print nothing but the summary, as JSON
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let temporary = match &self.store {
            Some(_) => None,
            None => {
                let made = tempfile::Builder::new().prefix("larder-demo-").tempdir();
                Some(made.map_err(|error| {
                    format!("cannot make a temporary directory: {error}; give one with --store")
                })?)
            }
        };
        let path = self.store.clone().or_else(|| temporary.as_ref().map(|made| made.path().to_owned()));
        let address = Address::Directory(path.expect("one of them is there"));
        let summary = plan::runtime()?.block_on(self.live(&address))?;
        let faults = summary.faults();
        if self.json {
            terminal::print(&format!("{}\n", summary.json()))?;
        } else {
            terminal::print(&format!("{}{}", summary.text(), self.farewell()))?;
        }
        Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn farewell(&self) -> String {
        match &self.store {
            Some(path) => {
                let path = path.display();
                let look = screen::look_inside(&format!("http://{PORT}"));
                format!(
                    "The data stays in {path}. To look inside:\n  larder serve --store {path}\n  {look}\n"
                )
            }
            None => "The data is gone; --store DIR keeps it.\n".to_owned(),
        }
    }

    async fn live(&self, address: &Address) -> Result<Summary, String> {
        let interrupted =
            serve::shutdown_signal().map_err(|error| format!("cannot watch signals: {error}"))?;
        let store = Store::open(address).await.map_err(|error| plan::advise(address, &error))?;
        // Whoever comes in through the endpoint is held to the five schemas too.
        let store = store.enforcing().map_err(|error| error.to_string())?;
        let mut server = self.listen(&store).await?;
        let listening = server.address();
        let pages = console::open_somewhere(self.console, &store, init::schemas, false, |told| {
            if !self.json {
                eprintln!("larder: {told}; --console chooses");
            }
        })?;
        let pages = pages.with_requests(console::requests(server.requests()));
        let console = pages.address();
        let (end, over) = watch::channel(false);
        let world = World { clock: store.clock().clone(), seed: self.seed, over, news: Arc::default() };
        let (parts, mut systems) = start(&store, &world).await.map_err(|error| error.to_string())?;
        let counted: Vec<System> = parts.iter().map(|part| part.system.clone()).collect();
        let (engine, shown) = (server.engine().clone(), counted.clone());
        let pages = pages
            .with_metrics(move || format!("{}{}", console::metrics(&engine), larder::prometheus(&shown)));
        let server = server.with_metrics(move || larder::prometheus(&counted));
        let (stop_serving, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        let (close, mut closed) = watch::channel(());
        let shown = tokio::spawn(pages.run(async move {
            let _ = closed.changed().await;
        }));
        let ticking = tokio::spawn(tick(world.clock.clone(), self.speed));

        let begun = Instant::now();
        let held = Mutex::new(vec![Held::default(); parts.len()]);
        let mut show = Show {
            demo: self,
            place: store.place(),
            listening,
            console,
            world: &world,
            parts: &parts,
            held: &held,
            begun,
            output: Output::of(self),
        };
        let early = tokio::select! {
            () = show.go_on() => None,
            () = count(&store, &parts, &held) => None,
            () = change_prices(&parts) => None,
            () = interrupted => None,
            () = sleep_for(self.time) => None,
            early = systems.join_next() => early,
        };
        drop(show);

        // Nobody begins anything new, and what was begun ends.
        let _ = end.send(true);
        let finished = timeout(END_MAX, async {
            early.transpose()?;
            while let Some(ended) = systems.join_next().await {
                ended?;
            }
            Ok::<(), JoinError>(())
        });
        match finished.await {
            Ok(finished) => finished.map_err(|error| format!("a system ended early: {error}"))?,
            Err(_) => return Err(format!("what was begun did not end within {} s", END_MAX.as_secs())),
        }
        let summary = self.sum_up(&store, &parts, &held, begun.elapsed()).await?;
        ticking.abort();
        drop(close);
        let _ = shown.await;
        let _ = stop_serving.send(());
        match serving.await {
            Ok(served) => served.map_err(|error| error.to_string())?,
            Err(error) => return Err(format!("the endpoint ended early: {error}")),
        }
        Ok(summary)
    }

    /// The endpoint: where it was asked for, or else where it is usual, or else where there is room.
    async fn listen(&self, store: &Store) -> Result<Server, String> {
        let engine = store.backend().engine().expect("a directory is an embedded store");
        let open = |address| Server::share(engine.clone(), store.clock().clone(), address);
        if let Some(address) = self.dynamodb {
            return open(address).await.map_err(|error| match error {
                larder_server::Error::Remote { .. } => format!("{error}: the demo listens on loopback alone"),
                error => serve::advise(&error),
            });
        }
        match open(PORT).await {
            Err(larder_server::Error::Listen { cause, .. }) if cause.kind() == io::ErrorKind::AddrInUse => {
                if !self.json {
                    eprintln!(
                        "larder: another program has port {}, so another is taken; --dynamodb chooses",
                        PORT.port()
                    );
                }
                open(SocketAddr::new(PORT.ip(), 0)).await.map_err(|error| serve::advise(&error))
            }
            opened => opened.map_err(|error| serve::advise(&error)),
        }
    }

    async fn sum_up(
        &self,
        store: &Store,
        parts: &[Part],
        held: &Mutex<Vec<Held>>,
        elapsed: Duration,
    ) -> Result<Summary, String> {
        let mut census = Census::default();
        let mut rows = Vec::new();
        let mut unwritten = 0;
        for (at, part) in parts.iter().enumerate() {
            let expired = held.lock()[at].expired;
            let last = census.take(store, part).await.map_err(|error| error.to_string())?;
            held.lock()[at] = Held { expired, ..last };
            unwritten += part.stats().writes_lost;
            let (_, waits) = (part.sent)();
            rows.push(Row { view: view(part, &held.lock()[at]), received: part.origin.requests(), waits });
        }
        Ok(Summary { elapsed, speed: self.speed, rows, unwritten })
    }
}

/// Opens the five systems, and sets their people to work.
async fn start(store: &Store, world: &World) -> Result<(Vec<Part>, JoinSet<()>), Fault> {
    let mut systems = JoinSet::new();
    let (keiba, visitors) = keiba::open(store).await?;
    let (tdnet, collector) = tdnet::open(store).await?;
    let (weather, askers) = weather::open(store).await?;
    let (shops, workers) = shops::open(store).await?;
    let (lunch, guests) = lunch::open(store).await?;
    systems.spawn(visitors.run(world.clone()));
    systems.spawn(collector.run(world.clone()));
    systems.spawn(askers.run(world.clone()));
    systems.spawn(workers.run(world.clone()));
    systems.spawn(guests.run(world.clone()));
    Ok((vec![keiba, weather, lunch, tdnet, shops], systems))
}

/// Moves the clock so that it runs that many times faster.
async fn tick(clock: Clock, speed: u32) {
    let mut ticks = interval(CLOCK_TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = Instant::now();
    loop {
        ticks.tick().await;
        let now = Instant::now();
        clock.advance((now - before) * (speed - 1));
        before = now;
    }
}

async fn sleep_for(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Counts what is in the store, again and again.
async fn count(store: &Store, parts: &[Part], held: &Mutex<Vec<Held>>) {
    let mut census = Census::default();
    let mut ticks = interval(CENSUS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for (at, part) in parts.iter().enumerate() {
            // A store that fails is part of the show; the count before stands.
            if let Ok(found) = census.take(store, part).await {
                held.lock()[at] = found;
            }
        }
    }
}

async fn change_prices(parts: &[Part]) {
    tokio::time::sleep(PRICES_CHANGE).await;
    for part in parts.iter().filter(|part| part.name == shops::NAME) {
        part.origin.change();
    }
    std::future::pending::<()>().await;
}

fn view(part: &Part, held: &Held) -> SystemView {
    SystemView {
        name: part.name,
        is_cache: part.tally.is_some(),
        counts: part.counts(),
        stats: part.stats(),
        sent: (part.sent)().0,
        turned_away: part.origin.turned_away(),
        failed: part.origin.failed(),
        failure: part.failure(),
        held: held.clone(),
    }
}

/// Shows how it is going, until it is dropped.
struct Show<'a> {
    demo: &'a Demo,
    place: String,
    listening: SocketAddr,
    console: SocketAddr,
    world: &'a World,
    parts: &'a [Part],
    held: &'a Mutex<Vec<Held>>,
    begun: Instant,
    output: Output,
}

enum Output {
    Screen(Screen),
    Lines,
    Nothing,
}

impl Output {
    fn of(demo: &Demo) -> Self {
        match (demo.json, io::stdout().is_terminal()) {
            (true, _) => Self::Nothing,
            (false, true) => Self::Screen(Screen::new()),
            (false, false) => Self::Lines,
        }
    }
}

impl Show<'_> {
    async fn go_on(&mut self) {
        let mut ticks = interval(if matches!(self.output, Output::Screen(_)) { FRAME } else { LINE });
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        if let Output::Lines = self.output {
            // At the very beginning there is nothing to tell but this.
            let url = format!("http://{}", self.listening);
            let pace = screen::pace(self.demo.speed);
            let _ = terminal::print(&format!(
                "five systems in {}, {pace}; the console on http://{}, DynamoDB's protocol on {url}\n",
                self.place, self.console
            ));
            ticks.tick().await;
        }
        loop {
            ticks.tick().await;
            let view = self.view();
            match &mut self.output {
                Output::Screen(screen) => {
                    let lines = screen::frame(&view, screen.size());
                    screen.draw(&lines);
                }
                // A reader that has left is told of the end all the same.
                Output::Lines => drop(terminal::print(&screen::line(&view))),
                Output::Nothing => {}
            }
        }
    }

    fn view(&self) -> View {
        let held = self.held.lock().clone();
        View {
            now: Timestamp::from_second(self.world.clock.now().seconds()).unwrap_or_default(),
            elapsed: self.begun.elapsed(),
            speed: self.demo.speed,
            place: self.place.clone(),
            address: self.listening,
            console: self.console,
            systems: self.parts.iter().zip(&held).map(|(part, held)| view(part, held)).collect(),
            news: self.world.news.lock().clone(),
        }
    }
}

impl Drop for Show<'_> {
    fn drop(&mut self) {
        if let Output::Screen(screen) = &mut self.output {
            screen.clear();
        }
    }
}
