//! Who is measured, and how each is started.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};
use serde::Serialize;

use crate::embedded::{self, Engine};
use crate::package;
use crate::workload::Op;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Peer {
    Larder,
    Dynoxide,
    DynamodbLocal,
    Dynalite,
    Bare,
    BareLog,
    LarderEmbedded,
    DynoxideEmbedded,
    BareStorage,
    BareRedb,
}

impl Peer {
    pub(crate) const ALL: [Peer; 10] = [
        Peer::Larder,
        Peer::Dynoxide,
        Peer::DynamodbLocal,
        Peer::Dynalite,
        Peer::Bare,
        Peer::BareLog,
        Peer::LarderEmbedded,
        Peer::DynoxideEmbedded,
        Peer::BareStorage,
        Peer::BareRedb,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Peer::Larder => "Larder, HTTP",
            Peer::Dynoxide => "dynoxide, HTTP",
            Peer::DynamodbLocal => "DynamoDB Local",
            Peer::Dynalite => "dynalite",
            Peer::Bare => "bare hyper",
            Peer::BareLog => "bare log, HTTP",
            Peer::LarderEmbedded => "Larder, embedded",
            Peer::DynoxideEmbedded => "dynoxide, embedded",
            Peer::BareStorage => "bare storage",
            Peer::BareRedb => "bare redb",
        }
    }

    /// Where its writes are when it answers.
    pub(crate) fn durability(self) -> &'static str {
        match self {
            Peer::Larder | Peer::LarderEmbedded | Peer::BareLog | Peer::BareStorage => {
                "on disk, synced before the answer, many writes to a sync"
            }
            Peer::Dynoxide | Peer::DynoxideEmbedded => {
                "on disk (SQLite, write-ahead log), synced at every commit"
            }
            Peer::DynamodbLocal => "on disk (-dbPath, SQLite)",
            Peer::Dynalite => "on disk (--path, LevelDB), not synced",
            Peer::Bare => "keeps nothing",
            Peer::BareRedb => "only read",
        }
    }

    /// The store in process, or `None` for a server.
    pub(crate) fn engine(self) -> Option<Engine> {
        match self {
            Peer::Larder
            | Peer::Dynoxide
            | Peer::DynamodbLocal
            | Peer::Dynalite
            | Peer::Bare
            | Peer::BareLog => None,
            Peer::LarderEmbedded => Some(Engine::Larder),
            Peer::DynoxideEmbedded => Some(Engine::Dynoxide),
            Peer::BareStorage => Some(Engine::Storage),
            Peer::BareRedb => Some(Engine::Redb),
        }
    }

    /// A rival: a DynamoDB that programs could use instead, over HTTP.
    pub(crate) fn rival(self) -> bool {
        matches!(self, Peer::Dynoxide | Peer::DynamodbLocal | Peer::Dynalite)
    }

    /// The engine that fills its data directory faster than its endpoint can.
    pub(crate) fn filler(self) -> Option<Engine> {
        match self {
            Peer::Larder => Some(Engine::Larder),
            Peer::Dynoxide => Some(Engine::Dynoxide),
            peer => peer.engine(),
        }
    }

    /// Whether it syncs every item even while it is filled, which takes hours at the larger sizes.
    pub(crate) fn fills_in_memory(self) -> bool {
        self == Peer::DynamodbLocal
    }

    /// Measured at every table size, and not only at one.
    pub(crate) fn grows(self) -> bool {
        match self {
            Peer::Larder
            | Peer::Dynoxide
            | Peer::DynamodbLocal
            | Peer::Dynalite
            | Peer::LarderEmbedded
            | Peer::DynoxideEmbedded => true,
            Peer::Bare | Peer::BareLog | Peer::BareStorage | Peer::BareRedb => false,
        }
    }

    pub(crate) fn holds_items(self) -> bool {
        !matches!(self, Peer::Bare | Peer::BareLog)
    }

    pub(crate) fn runs(self, op: Op) -> bool {
        match self.engine() {
            Some(engine) => engine.runs(op),
            None if self == Peer::Bare => op == Op::Get,
            None if self == Peer::BareLog => op.writes(),
            None => true,
        }
    }

    /// Fetches or builds what it needs. Slow the first time.
    pub(crate) fn install(self, cache: &Path) -> Result<Installed> {
        let path = match self {
            Peer::Larder => package::larder()?,
            Peer::Dynoxide => package::dynoxide(cache)?,
            Peer::DynamodbLocal => package::dynamodb_local(cache)?,
            Peer::Dynalite => package::dynalite(cache)?,
            Peer::Bare
            | Peer::BareLog
            | Peer::LarderEmbedded
            | Peer::DynoxideEmbedded
            | Peer::BareStorage
            | Peer::BareRedb => std::env::current_exe()?,
        };
        Ok(Installed { peer: self, path })
    }
}

/// A peer that is on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    pub(crate) peer: Peer,
    path: PathBuf,
}

impl Installed {
    /// One whose program, or directory, is known.
    pub(crate) fn at(peer: Peer, path: PathBuf) -> Result<Self> {
        ensure!(path.exists(), "{} is not there", path.display());
        Ok(Self { peer, path })
    }

    /// Whether its server knows an option.
    pub(crate) fn serves_with(&self, option: &str) -> Result<bool> {
        let help = Command::new(&self.path).args(["serve", "--help"]).output()?;
        Ok(String::from_utf8_lossy(&help.stdout).contains(option))
    }

    /// How a worker that holds its store is started on a data directory.
    pub(crate) fn worker(&self, engine: Engine, data: &Path) -> Command {
        command(&self.path, &["embedded", "--engine", engine.name(), "--data"], data.as_os_str())
    }

    /// How its server is started on a data directory.
    pub(crate) fn server(&self, address: SocketAddr, data: &Path) -> Result<Command> {
        let port = address.port().to_string();
        let path = &self.path;
        Ok(match self.peer {
            Peer::Larder => {
                command(path, &["serve", "--dynamodb", &address.to_string(), "--data"], data.as_os_str())
            }
            Peer::Dynoxide => {
                let file = data.join(embedded::DYNOXIDE_FILE);
                command(path, &["--host", "127.0.0.1", "--port", &port, "--db-path"], file.as_os_str())
            }
            Peer::DynamodbLocal => {
                let library = format!("-Djava.library.path={}", path.join("DynamoDBLocal_lib").display());
                let jar = path.join("DynamoDBLocal.jar");
                let mut java = Command::new("java");
                java.arg(library).arg("-jar").arg(jar).args(["-port", &port, "-dbPath"]).arg(data);
                java
            }
            Peer::Dynalite => {
                let mut node = Command::new("node");
                node.arg(path.join("cli.js")).args(["--host", "127.0.0.1", "--port", &port]);
                node.args(["--createTableMs", "0", "--path"]).arg(data);
                node
            }
            Peer::Bare => command(path, &["bare", "--address"], address.to_string().as_ref()),
            Peer::BareLog => {
                let log = data.join("log");
                command(path, &["bare", "--address", &address.to_string(), "--log"], log.as_os_str())
            }
            Peer::LarderEmbedded | Peer::DynoxideEmbedded | Peer::BareStorage | Peer::BareRedb => {
                bail!("{} has no server", self.peer.title())
            }
        })
    }
}

fn command(program: &Path, arguments: &[&str], last: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(last);
    command
}
