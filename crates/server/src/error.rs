//! Why a server could not start or stop cleanly.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{address} can be reached from other machines and requests are not authenticated")]
    Remote { address: SocketAddr },
    #[error("{address} can be reached from other machines and what is sent there can be read on the way")]
    Plain { address: SocketAddr },
    #[error("cannot listen on {address}: {cause}")]
    Listen { address: SocketAddr, cause: io::Error },
    #[error("cannot use the directory {}: {cause}", path.display())]
    Directory { path: PathBuf, cause: String },
    #[error("cannot open the store in {}: {cause}", path.display())]
    Open { path: PathBuf, cause: Box<larder_engine::Error> },
    #[error("cannot archive the store: {cause}")]
    Archive { cause: larder_storage::Error },
    #[error("cannot make a store in memory: {cause}")]
    Memory { cause: Box<larder_engine::Error> },
    #[error("the store did not close cleanly: {cause}")]
    Close { cause: Box<larder_engine::Error> },
}
