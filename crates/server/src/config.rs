//! What a server is told at its start.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use larder_storage::{Durability, Key, archive};

use crate::Limits;

#[derive(Clone, Debug)]
pub struct Config {
    /// Port 0 takes any free port.
    pub address: SocketAddr,
    /// Listen on an address that other machines can reach, although nobody is authenticated.
    pub allow_remote: bool,
    pub store: StoreConfig,
    /// Where every commit is archived to, so that the store can be rebuilt without its disk.
    pub archive: Option<archive::Options>,
    /// How long after its time an expired item is removed.
    pub ttl_delay: Duration,
    /// What the history of changes may take; as much as there is, unless told.
    pub history_bytes_max: Option<u64>,
    pub limits: Limits,
}

impl Config {
    /// Any free port of loopback; expired items leave at once.
    pub fn local(store: StoreConfig) -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            allow_remote: false,
            store,
            archive: None,
            ttl_delay: Duration::ZERO,
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
