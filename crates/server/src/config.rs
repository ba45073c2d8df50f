//! What a server is told at its start.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use larder_engine::Depot;
use larder_storage::{Durability, Key, archive};

use crate::{Audit, Door, Limits, Principals, Tls};

#[derive(Clone, Debug)]
pub struct Config {
    /// Port 0 takes any free port.
    pub address: SocketAddr,
    /// Listen on an address that other machines can reach, although nobody is authenticated there.
    pub allow_anonymous: bool,
    /// Listen there although what is signed is not encrypted.
    pub allow_plain: bool,
    /// Names it answers to, and web pages that may ask.
    pub door: Door,
    /// Speaks TLS, and nothing else.
    pub tls: Option<Arc<Tls>>,
    /// Whose signatures are asked for, and what they may do. Without it everybody may do everything.
    pub access: Option<Arc<Principals>>,
    /// Whoever is let in has one space of tables, whatever their account and the region they sign for. Otherwise each
    /// region of each account has its own.
    pub shared: bool,
    /// Where requests are noted: who, what, and whether they were let.
    pub audit: Option<Arc<Audit>>,
    pub store: StoreConfig,
    /// Where every commit is archived to, so that the store can be rebuilt without its disk.
    pub archive: Option<archive::Options>,
    /// How long after its time an expired item is removed.
    pub ttl_delay: Duration,
    /// Turn away what a table, an index or a partition has no throughput for.
    pub throttle: bool,
    /// Turn away what meets a transaction under way.
    pub conflicts: bool,
    /// How many shards a stream may have at once.
    pub stream_shards: u32,
    /// Where exports go, and imports come from.
    pub depot: Option<Arc<dyn Depot>>,
    /// What the history of changes may take; as much as there is, unless told.
    pub history_bytes_max: Option<u64>,
    pub limits: Limits,
}

impl Config {
    /// Any free port of loopback; expired items leave at once.
    pub fn local(store: StoreConfig) -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            allow_anonymous: false,
            allow_plain: false,
            door: Door::default(),
            tls: None,
            access: None,
            shared: false,
            audit: None,
            store,
            archive: None,
            ttl_delay: Duration::ZERO,
            throttle: false,
            conflicts: false,
            stream_shards: 1,
            depot: None,
            history_bytes_max: None,
            limits: Limits::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub enum StoreConfig {
    /// Gone when the server stops. Its clock can be moved through the admin call.
    Memory,
    Directory {
        path: PathBuf,
        durability: Durability,
        /// Encrypts a new store, and opens an encrypted one.
        key: Option<Key>,
    },
}
