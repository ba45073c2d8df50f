//! `larder serve`: DynamoDB's protocol on a port.
//!
//! Once it accepts requests it prints `listening on http://ADDRESS` to stdout, for programs that start it, and in a second
//! line, where it has one, `the console is on http://ADDRESS`; with TLS both are `https`. What is meant for people goes to stderr, and only to a terminal.
//!
//! With `--schema` every write is held against schemas; `schemas.rs` has them. With `--access` and TLS, `keys.rs` has who there is and
//! the certificates.
//!
//! SIGTERM and SIGINT stop it after the requests it accepted; a second one stops it at once. SIGHUP does not, `hangup.rs`.

mod follow;
mod hangup;
mod keys;
mod schemas;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use larder::store::STORE_VARIABLE;
use larder::{Address, Store};
use larder_console::{Console as Pages, Options};
use larder_engine::Depot;
use larder_exports::Folder;
use larder_server::{ArchiveOptions, Audit, Config, Door, Durability, Error, Limits, Server, StoreConfig};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime;

use crate::console;
use follow::{Followed, Seen, follow};
use hangup::Hangups;
use keys::{AccessFile, TlsArguments};
use schemas::{InForce, ModeWord, Schemas};

/// Serve DynamoDB's protocol.
///
/// Point any AWS SDK at it: set its endpoint URL to http://127.0.0.1:8000 and give it any region and any
/// credentials. With --access it asks for those of its own, and without it does not look at them.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where the store is, created if absent [env: LARDER_STORE] [default: larder-data]
    #[arg(long, alias = "data", value_name = "DIR", conflicts_with = "memory")]
    store: Option<Address>,
    /// Keep everything in memory; it is gone when the server stops
    #[arg(long)]
    memory: bool,
    /// Where to listen; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000", value_parser = address)]
    dynamodb: SocketAddr,
    /// When a write is acknowledged: once it is on disk, or up to 100 ms before
    #[arg(long, value_enum, default_value_t = DurabilityWord::Immediate, conflicts_with = "memory")]
    durability: DurabilityWord,
    /// How long an expired item stays, as in 30s or 2d; AWS takes up to a few days
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    ttl_delay: Duration,
    /// Turn away what a table or an index has no throughput for, or one partition key too much of, as AWS does: provisioned
    /// units with five minutes of burst, maxima of tables on demand, 3000 read and 1000 write units for a partition
    #[arg(long)]
    throttle: bool,
    /// Refuse with TransactionConflict what meets a transaction under way, as AWS does, instead of letting one wait for the
    /// other: writes of an item that a transaction is writing, transactions of an item that anything is writing
    #[arg(long)]
    transaction_conflicts: bool,
    /// How many shards a stream may have at once. With more than one, a shard ends after four hours or a thousand changes in
    /// a second, and two go on for it, so that a consumer meets parents and children as on AWS
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    stream_shards: u32,
    /// Where `ExportTableToPointInTime` writes and `ImportTable` reads: each directory in it stands for the S3 bucket of its name
    #[arg(long, value_name = "DIR")]
    exports: Option<PathBuf>,
    /// What the history of changes may take, as in 500M or 20G. Over it the oldest changes are forgotten, and
    /// point-in-time recovery reaches less far back; streams keep their 24 hours
    #[arg(long, value_name = "SIZE", value_parser = size)]
    history_limit: Option<u64>,
    /// A file with the key of an encrypted store, as 64 hexadecimal digits; a new store is encrypted with it.
    /// `openssl rand -hex 32` makes one. The key itself can be in LARDER_KEY instead.
    #[arg(long, value_name = "FILE", env = "LARDER_KEY_FILE", conflicts_with = "memory")]
    key_file: Option<PathBuf>,
    /// What all requests in flight may take of the memory, as in 512M or 2G; what does not fit is answered with
    /// ThrottlingException [default: a quarter of what is free, at least 256M]
    #[arg(long, value_name = "SIZE", value_parser = memory_limit)]
    memory_limit: Option<usize>,
    /// Memory for the store, for its pages and for writes on their way to them, as in 512M or 4G, taken as it is used
    /// [default: an eighth of what is free, at most 64M]
    #[arg(long, value_name = "SIZE", conflicts_with = "memory", value_parser = cache)]
    cache: Option<usize>,
    /// How many connections are served at once
    #[arg(long, value_name = "N", default_value_t = Limits::CONNECTIONS, value_parser = connections)]
    connections: usize,
    /// Write every commit to this directory too, on another disk, so that `larder restore --from` can rebuild the store
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    archive: Option<PathBuf>,
    /// For how long the archive can be gone back in, as in 35d; what is older is removed
    #[arg(long, value_name = "DURATION", default_value = "35d", requires = "archive", value_parser = humantime::parse_duration)]
    archive_keep: Duration,
    /// Refuse every write that these schemas do not allow: a file, or a directory of them. Tables that no schema declares
    /// are left alone. Read again at SIGHUP and when a file changes
    #[arg(long, value_name = "DIR|FILE")]
    schema: Vec<PathBuf>,
    /// What is done with a write that breaks a schema
    #[arg(long, value_enum, default_value_t, requires = "schema")]
    schema_mode: ModeWord,
    /// Where the console is: records, states and tables in a browser. On loopback, or elsewhere with --access, with which it asks
    /// for a key, and TLS [default: 127.0.0.1:8001, if it is free]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    console: Option<SocketAddr>,
    /// Open no console
    #[arg(long, conflicts_with = "console")]
    no_console: bool,
    /// Answer only requests that are signed by somebody in this file, within their policies; `larder access` writes it. Read
    /// again when it changes
    #[arg(long, value_name = "FILE")]
    access: Option<PathBuf>,
    /// Give all regions and accounts the same tables. Otherwise each region of each account has its own, by the account of the
    /// key and the region of the signature
    #[arg(long, requires = "access")]
    shared: bool,
    /// Note in this file who asked for what, and whether they were let: JSON, a line each; never a value or a secret
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArguments,
    /// Listen on an address other machines can reach without --access, so that anybody who reaches it may read and write
    #[arg(long, alias = "allow-remote")]
    allow_anonymous: bool,
    /// Listen there with --access and without TLS, such as behind a proxy that speaks it
    #[arg(long, requires = "access")]
    allow_plain: bool,
    /// Answer to this name too, beside localhost and the address it listens on; may be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Let web pages of this origin use it, as in http://localhost:3000; no page may otherwise; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DurabilityWord {
    Immediate,
    Relaxed,
}

impl Serve {
    pub fn run(self) -> Result<(), String> {
        raise_file_limit();
        larder_server::log_panics_with_their_place();
        let runtime = runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start its threads: {error}"))?;
        runtime.block_on(async {
            let shutdown = shutdown_signal().map_err(|error| format!("cannot watch signals: {error}"))?;
            Hangups::heed().map_err(|error| format!("cannot watch signals: {error}"))?;
            let schemas = self.schemas();
            let read = match &schemas {
                None => None,
                Some(schemas) => {
                    let (seen, rules) = schemas.read();
                    Some((seen, rules?))
                }
            };
            let (console, no_console, paths) = (self.console, self.no_console, self.schema.clone());
            let access = self.access.as_deref().map(AccessFile::read).transpose()?;
            let certificates = self.tls.read(&self.allow_host)?;
            let mut config = self.into_config()?;
            config.access = access.as_ref().map(|(file, _)| file.principals());
            config.tls = certificates.as_ref().map(|(certificates, _)| certificates.tls());
            let scheme = if config.tls.is_some() { "https" } else { "http" };
            if config.allow_anonymous && config.access.is_none() && !config.address.ip().is_loopback() {
                tracing::warn!(
                    "anybody who reaches {} may read, change and delete everything: --access asks for signatures",
                    config.address
                );
            }
            let store = config.store.clone();
            let (tls, door, allow_plain) = (config.tls.clone(), config.door.clone(), config.allow_plain);
            let mut server = Server::bind(config).await.map_err(|error| advise(&error))?;
            if let (Some(schemas), Some((seen, rules))) = (schemas, read) {
                let engine = server.engine().clone();
                schemas.enforce(rules, &engine);
                let counted = schemas.clone();
                server = server.with_metrics(move || counted.metrics());
                follow_on(InForce { schemas, engine }, seen)?;
            }
            if let Some((file, seen)) = access {
                follow_on(file, seen)?;
            }
            if let Some((certificates, seen)) = certificates {
                follow_on(certificates, seen)?;
            }
            let options =
                Options { tls, door, allow_plain, ..Options::at(console.unwrap_or(console::PORT)) };
            let pages = if no_console {
                None
            } else {
                pages(&mut server, console.is_some(), paths, options).await?
            };
            let opened = pages.as_ref().map(Pages::url);
            announce(&format!("{scheme}://{}", server.address()), opened.as_deref(), &store)
                .map_err(|error| format!("cannot write to stdout: {error}"))?;
            let (stop, mut stopped) = tokio::sync::watch::channel(());
            let shown = pages.map(|pages| {
                tokio::spawn(pages.run(async move {
                    let _ = stopped.changed().await;
                }))
            });
            let shutdown = async {
                shutdown.await;
                // It is on the store that is about to be closed.
                drop(stop);
                if let Some(shown) = shown {
                    let _ = shown.await;
                }
            };
            server.run(shutdown).await.map_err(|error| advise(&error))
        })
    }

    fn schemas(&self) -> Option<Schemas> {
        let named = !self.schema.is_empty();
        named.then(|| Schemas::new(self.schema.clone(), self.schema_mode.into()))
    }

    fn into_config(self) -> Result<Config, String> {
        let archive = match self.archive {
            None => None,
            Some(directory) => {
                let keep_ms = u64::try_from(self.archive_keep.as_millis()).ok();
                let options = ArchiveOptions::new(directory, crate::key(self.key_file.as_deref())?);
                Some(ArchiveOptions { keep_ms, ..options })
            }
        };
        let address = match self.store {
            _ if self.memory => Address::Memory,
            Some(address) => address,
            None => from_environment()?,
        };
        let store = match address {
            Address::Memory => StoreConfig::Memory,
            Address::DynamoDb { .. } => {
                return Err(format!(
                    "{address} is served elsewhere: name a directory with --store, or --memory"
                ));
            }
            Address::Directory(path) => StoreConfig::Directory {
                path,
                durability: match self.durability {
                    DurabilityWord::Immediate => Durability::Immediate,
                    DurabilityWord::Relaxed => Durability::Relaxed,
                },
                key: crate::key(self.key_file.as_deref())?,
            },
        };
        let mut limits = Limits::of_this_machine();
        limits.memory_bytes = self.memory_limit.unwrap_or(limits.memory_bytes);
        limits.connections = self.connections;
        limits.cache_bytes = self.cache.unwrap_or(limits.cache_bytes);
        let mut door = Door::default();
        for name in &self.allow_host {
            door.allow_host(name).map_err(|error| format!("--allow-host {name}: {error}"))?;
        }
        for origin in &self.allow_origin {
            door.allow_origin(origin).map_err(|error| format!("--allow-origin {origin}: {error}"))?;
        }
        let audit = match &self.audit {
            None => None,
            Some(path) => {
                let opened =
                    Audit::open(path).map_err(|error| format!("--audit {}: {error}", path.display()))?;
                Some(Arc::new(opened))
            }
        };
        let depot = match &self.exports {
            None => None,
            Some(path) if path.is_dir() => Some(Arc::new(Folder::new(path)) as Arc<dyn Depot>),
            Some(path) => {
                return Err(format!(
                    "--exports {}: there is no such directory; make it, and a directory in it for each bucket",
                    path.display()
                ));
            }
        };
        let (address, allow_anonymous, ttl_delay) = (self.dynamodb, self.allow_anonymous, self.ttl_delay);
        let history_bytes_max = self.history_limit;
        Ok(Config {
            address,
            allow_anonymous,
            allow_plain: self.allow_plain,
            door,
            tls: None,
            access: None,
            shared: self.shared,
            audit,
            store,
            archive,
            ttl_delay,
            throttle: self.throttle,
            conflicts: self.transaction_conflicts,
            stream_shards: self.stream_shards,
            depot,
            limits,
            history_bytes_max,
        })
    }
}

/// Reads files again when they change, for as long as the server runs.
fn follow_on(followed: impl Followed, seen: Seen) -> Result<(), String> {
    let following = follow(Arc::new(followed), seen);
    tokio::spawn(following.map_err(|error| format!("cannot watch signals: {error}"))?);
    Ok(())
}

/// The console beside a server: where it was asked for, or where it is usual if that is free. Nothing is read for it before
/// somebody opens it. Where the server asks for keys, so does the console.
async fn pages(
    server: &mut Server,
    is_asked_for: bool,
    schemas: Vec<PathBuf>,
    options: Options,
) -> Result<Option<Pages>, String> {
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let place = format!("dynamodb:{scheme}://{}", server.address());
    let store = Store::sharing(server.engine().clone(), server.clock().clone(), place);
    let files = Box::new(console::files(schemas));
    let opened = match server.guests() {
        None => console::open(store, files, options),
        Some(guests) => console::open_asking(guests, &store, files, options).await,
    };
    match opened {
        Ok(pages) => {
            let engine = server.engine().clone();
            let pages = pages.with_requests(console::requests(server.requests()));
            Ok(Some(pages.with_metrics(move || console::metrics(&engine))))
        }
        Err(error) if !is_asked_for => {
            tracing::warn!("there is no console: {}, with --console", console::advise(&error));
            Ok(None)
        }
        Err(error) => Err(console::advise(&error)),
    }
}

/// The store that the environment names, as other commands take it.
fn from_environment() -> Result<Address, String> {
    match std::env::var(STORE_VARIABLE) {
        Ok(text) => text.parse().map_err(|error| format!("{STORE_VARIABLE}: {error}")),
        Err(_) => Ok(Address::default()),
    }
}

pub fn address(text: &str) -> Result<SocketAddr, String> {
    let unclear = |cause: &dyn Display| format!("{cause}; give HOST:PORT, such as 127.0.0.1:8000");
    let mut found = text.to_socket_addrs().map_err(|error| unclear(&error))?;
    found.next().ok_or_else(|| unclear(&"no such host"))
}

/// Bytes, or K, M, G or T of them, 1024 of one to the next.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let power = match text[digits.len()..].to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => Some(0),
        "K" => Some(1),
        "M" => Some(2),
        "G" => Some(3),
        "T" => Some(4),
        _ => None,
    };
    let bytes = power.zip(digits.trim().parse::<u64>().ok());
    let bytes = bytes.and_then(|(power, number)| number.checked_mul(1024u64.pow(power)));
    bytes.ok_or_else(|| "give a whole number of bytes, or of K, M, G or T, such as 500M".to_owned())
}

fn memory_limit(text: &str) -> Result<usize, String> {
    let least = Limits::MEMORY_BYTES_MIN;
    let bytes = usize::try_from(size(text)?).unwrap_or(usize::MAX);
    match bytes {
        bytes if bytes < least => Err(format!(
            "the largest request alone takes a good part of {} MiB; give at least {0}M",
            least >> 20
        )),
        bytes => Ok(bytes),
    }
}

fn cache(text: &str) -> Result<usize, String> {
    let least = Limits::CACHE_BYTES_MIN;
    match usize::try_from(size(text)?).unwrap_or(usize::MAX) {
        bytes if bytes < least => Err(format!("a store needs at least {}M", least >> 20)),
        bytes => Ok(bytes),
    }
}

fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("give a number of at least 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

fn announce(endpoint: &str, console: Option<&str>, store: &StoreConfig) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let console_line = console.map(|console| format!("the console is on {console}\n")).unwrap_or_default();
    // At once: whoever has read the first line may read no further.
    stdout.write_all(format!("listening on {endpoint}\n{console_line}").as_bytes())?;
    stdout.flush()?;
    if io::stderr().is_terminal() {
        let place = match store {
            StoreConfig::Memory => "in memory, gone when it stops".to_owned(),
            StoreConfig::Directory { path, .. } => format!("in {}", path.display()),
        };
        eprintln!("The store is {place}. Try: aws dynamodb list-tables --endpoint-url {endpoint}");
        if let Some(console) = console {
            eprintln!("Look at it in a browser: {console}");
        }
        eprintln!("Stop it with Ctrl-C.");
    }
    Ok(())
}

/// The error, its cause and the next step, in a sentence.
pub fn advise(error: &Error) -> String {
    match error {
        Error::Remote { .. } => {
            format!(
                "{error}: use a loopback address such as 127.0.0.1, or say with --access who may come in, or with \
                 --allow-anonymous that everybody may"
            )
        }
        Error::Plain { .. } => {
            format!(
                "{error}: add --tls self-signed or a certificate, or say with --allow-plain that something else \
                 encrypts it"
            )
        }
        Error::Listen { address, cause } if cause.kind() == io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address}: another program already does; stop it, or choose another \
             with --dynamodb, such as --dynamodb 127.0.0.1:{}",
            address.port().checked_add(1).unwrap_or_default()
        ),
        Error::Listen { .. } => format!("{error}; choose another address with --dynamodb"),
        Error::Directory { .. } => format!("{error}; make it writable, or choose another with --store"),
        _ => error.to_string(),
    }
}

/// Each connection is an open file, and the usual limit is about a thousand.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Without more files it still serves, only fewer clients at once.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Done at the first signal to stop. The second ends the process.
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (first, told) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        next().await;
        let _ = first.send(());
        next().await;
        process::exit(1);
    });
    Ok(async {
        let _ = told.await;
    })
}
