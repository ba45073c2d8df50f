//! The console: what is kept, seen and worked on in a browser.
//!
//! Pages are rendered here, from what the layer ([`larder`]) answers; there is one stylesheet and one script, and every page
//! works without the script. Nothing is asked of the store that a page does not show, and nothing is scanned unless the reader
//! asks for it.
//!
//! Promises:
//! - Only loopback is listened on, unless keys are asked for; and only a request that names the console as its host is answered.
//! - Where keys are asked for ([`Console::asking`]), no page reaches the store but as whoever is signed in, by the decision of the
//!   endpoint.
//! - A change needs a form of this very process: its token, its cookie and its origin.
//! - Whatever an item holds is text on a page, never markup and never a script.
//! - A secret is on no page before somebody asks for it, and then the log says so.
//! - A record is written through the layer; what somebody else changed meanwhile is not written over.
//!
//! ```
//! use larder::Store;
//! use larder_console::{Console, Options};
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let options = Options::at("127.0.0.1:0".parse()?);
//! let console = Console::bind(Store::memory().await, Box::new(Vec::new), options)?;
//! println!("the console is on {}", console.url());
//! console.run(async { /* until this future is done */ }).await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod answer;
mod code;
mod deed;
mod house;
mod http;
mod keys;
mod pages;
mod pulse;
mod query;
mod safety;
mod show;
mod tails;
mod work;

pub use house::{SchemaFile, Schemas};
pub use http::{Console, Error, Options, ServedRequest};
