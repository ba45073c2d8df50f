//! A server's life: open the port and the store, serve, stop.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use larder_engine::Engine;
use larder_model::Clock;
use larder_storage::{Options, Store};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;
use tokio::task;

use crate::access::Gate;
use crate::admin::Admin;
use crate::archive;
use crate::background::Background;
use crate::backup::millis;
use crate::budget::Budget;
use crate::connections::{Answerer, Shutdown};
use crate::door::Door;
use crate::guests::Guests;
use crate::http::Endpoint;
use crate::metrics::{Metrics, More, Pulse};
use crate::pipeline::Pipeline;
use crate::requests::Requests;
use crate::{Config, Error, Limits, StoreConfig, connections};

/// Connections the kernel holds while they wait to be accepted; it may hold fewer.
const BACKLOG: u32 = 4096;

/// A server with its port and its store open.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    engine: Engine,
    clock: Clock,
    /// None when the store is somebody else's, who works for it and closes it.
    own: Option<Config>,
    /// What stands between requests and the engine, theirs and those of guests.
    gate: Arc<Gate>,
    budget: Arc<Budget>,
    limits: Limits,
    more_metrics: Option<More>,
    requests: Option<Arc<Requests>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Opens the port, then the store. Clients can connect from here on; they are answered by `run`.
    pub async fn bind(config: Config) -> Result<Server, Error> {
        if !config.address.ip().is_loopback() {
            let address = config.address;
            match (&config.access, &config.tls) {
                (None, _) if !config.allow_anonymous => return Err(Error::Remote { address }),
                (Some(_), None) if !config.allow_plain => return Err(Error::Plain { address }),
                _ => {}
            }
        }
        let (listener, address) = listen(config.address)?;
        let clock = Clock::system();
        let engine = open(&config, &clock)?;
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        engine.store().announce(&format!("{scheme}://{}", reachable(address)));
        engine.limit_history(config.history_bytes_max.unwrap_or(u64::MAX));
        if let Err(error) = engine.resume_time(&clock) {
            tracing::error!(%error, "what the clock says cannot be noted");
        }
        let gate = Arc::new(Gate::new(config.access.clone(), config.shared, config.audit.clone()));
        let limits = config.limits;
        Ok(Self::new(listener, address, engine, clock, gate, limits, Some(config)))
    }

    fn new(
        listener: TcpListener,
        address: SocketAddr,
        engine: Engine,
        clock: Clock,
        gate: Arc<Gate>,
        limits: Limits,
        own: Option<Config>,
    ) -> Self {
        let budget = Budget::new(limits.counted_bytes());
        let (more_metrics, requests) = (None, None);
        Self { listener, address, engine, clock, own, gate, budget, limits, more_metrics, requests }
    }

    /// Opens a port of loopback for a store that this process has open already, on that store's clock. Whoever
    /// opened it goes on working for it, and closes it.
    pub async fn share(engine: Engine, clock: Clock, address: SocketAddr) -> Result<Server, Error> {
        if !address.ip().is_loopback() {
            return Err(Error::Remote { address });
        }
        let (listener, address) = listen(address)?;
        let (gate, limits) = (Arc::default(), Limits::default());
        Ok(Self::new(listener, address, engine, clock, gate, limits, None))
    }

    /// Ends `/metrics` with this text: what else the process has counted, under other names.
    #[must_use]
    pub fn with_metrics(mut self, more: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.more_metrics = Some(Box::new(more));
        self
    }

    /// The last requests it has answered, which it keeps from here on.
    pub fn requests(&mut self) -> Arc<Requests> {
        Arc::clone(self.requests.get_or_insert_default())
    }

    /// Lets in who shows a key, where keys are asked for: for a console beside it.
    pub fn guests(&self) -> Option<Guests> {
        let principals = self.own.as_ref()?.access.clone()?;
        let (engine, clock) = (self.engine.clone(), self.clock.clone());
        Some(Guests::new(principals, Arc::clone(&self.gate), engine, clock, Arc::clone(&self.budget)))
    }

    /// The store it serves, for whoever judges what is written to it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The clock it goes by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where it listens: the port it got, when it asked for any.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is done, finishes what it accepted, closes the store if it opened it.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), Error> {
        self.run_until(Box::pin(shutdown)).await
    }

    /// Boxed, so that all that a server does is compiled here, and not where it is called.
    fn run_until<'a>(
        self,
        shutdown: Shutdown<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>> {
        Box::pin(self.serve(shutdown))
    }

    async fn serve(self, shutdown: Shutdown<'_>) -> Result<(), Error> {
        let (clock, gate, limits, budget) = (self.clock, self.gate, self.limits, self.budget);
        let pipeline = Pipeline::new(self.engine.clone(), Arc::clone(&gate), self.requests);
        let Some(config) = self.own else {
            let metrics = Metrics::new(self.engine, None, None, Arc::clone(&budget), self.more_metrics);
            let door = (Door::default(), self.address.ip());
            let endpoint = Endpoint::new(pipeline, gate, door, None, clock, metrics, budget);
            let answerer = Answerer::Endpoint(Box::new(endpoint));
            connections::serve(self.listener, answerer, None, limits.connections_max(), shutdown).await;
            return Ok(());
        };
        if config.throttle {
            self.engine.throttle(clock.clone());
        }
        if config.conflicts {
            self.engine.tell_conflicts();
        }
        self.engine.divide_streams(config.stream_shards);
        if let Some(depot) = config.depot {
            self.engine.set_depot(depot);
        }
        let (ask, asked) = mpsc::channel(16);
        let pulse = Arc::new(Pulse::new());
        let background = Background {
            engine: self.engine.clone(),
            clock: clock.clone(),
            ttl_delay: config.ttl_delay,
            asked,
            pulse: Arc::clone(&pulse),
        };
        let background = tokio::spawn(background.run());
        let (admin, directory) = match config.store {
            StoreConfig::Memory => (Some(Admin::new(clock.clone(), ask.clone())), None),
            StoreConfig::Directory { path, .. } => (None, Some(path)),
        };
        let metrics =
            Metrics::new(self.engine.clone(), directory, Some(pulse), Arc::clone(&budget), self.more_metrics);
        let door = (config.door, self.address.ip());
        let endpoint = Endpoint::new(pipeline, gate, door, admin, clock, metrics, budget);
        let answerer = Answerer::Endpoint(Box::new(endpoint));

        let watch = config.archive.map(|_| tokio::spawn(archive::watch(self.engine.store().clone())));

        connections::serve(self.listener, answerer, config.tls, limits.connections_max(), shutdown).await;

        if let Some(watch) = watch {
            watch.abort();
        }
        // The background work ends with the last that could ask for it.
        drop(ask);
        if let Err(panic) = background.await {
            tracing::error!(%panic, "the background work ended early");
        }
        let engine = self.engine;
        match task::spawn_blocking(move || engine.close()).await {
            Ok(closed) => closed.map_err(|cause| Error::Close { cause: cause.into() }),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
}

/// The address as this machine reaches it: one that stands for all stands for loopback too.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The port, and which it is when any was asked for.
fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restart must not wait for the last run's connections to be forgotten.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    open().map_err(|cause| Error::Listen { address, cause })
}

/// The store is in service without what it cannot read.
fn tell_damage(engine: &Engine) {
    for what in engine.unreadable_records().unwrap_or_default() {
        tracing::error!("{what}; `larder verify` lists what is damaged");
    }
}

fn open(config: &Config, clock: &Clock) -> Result<Engine, Error> {
    match &config.store {
        StoreConfig::Memory => Engine::memory().map_err(|cause| Error::Memory { cause: cause.into() }),
        StoreConfig::Directory { path, durability, key } => {
            let options = Options {
                durability: *durability,
                cache_bytes: config.limits.cache_bytes,
                key: *key,
                ..Options::default()
            };
            let cannot = |error| match error {
                larder_engine::Error::Storage(larder_storage::Error::Io { cause, .. }) => {
                    Error::Directory { path: path.clone(), cause }
                }
                cause => Error::Open { path: path.clone(), cause: cause.into() },
            };
            let store = Store::open(path, options).map_err(|error| cannot(error.into()))?;
            if let Some(archive) = &config.archive {
                // Before the engine writes anything.
                let (now, settled) = (clock.clone(), clock.clone());
                store
                    .archive_to(
                        archive.clone(),
                        move || millis(now.trusted()),
                        move || millis(settled.settled()),
                    )
                    .map_err(|cause| Error::Archive { cause })?;
            }
            Engine::on_store(store).inspect(tell_damage).map_err(cannot)
        }
    }
}
