//! The data layer: what programs use.
//!
//! A [`schema!`] becomes types; a [`System`] is a schema on a [`Store`], the embedded one or DynamoDB; a [`Shelf`]
//! holds the records of one entity. Records are [fetched](Shelf::fetch) through a cache, or kept and
//! [changed](Shelf::update), [queried](Query), put [together](Transaction), and [worked off](Lifecycle).
//!
//! ```
//! use larder::{Origin, Store};
//!
//! larder::schema!("examples/pages.larder");
//! use pages::Pages;
//!
//! async fn download(url: String) -> Result<String, std::io::Error> {
//!     Ok(format!("the text of {url}"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pages = Pages::open(Store::memory().await).await?; // or `Store::from_env()`
//! let page = pages.pages().fetch("https://example.com/", download).await?;
//! assert_eq!((page.text.len(), page.origin()), (32, &Origin::Source));
//!
//! let again = pages.pages().fetch("https://example.com/", download).await?;
//! assert_eq!(again.origin(), &Origin::L1);
//! # Ok(())
//! # }
//! ```
//!
//! Tables of an embedded store are made as it is opened. Elsewhere [`provision`] plans them and brings them into
//! the shape a schema asks for.
//!
//! # Features
//!
//! Both are on by default. A program that keeps its data in an embedded store needs neither.
//!
//! - `dynamodb`: the store at `dynamodb:`, and the official SDK's client of any store.
//! - `tools`: [`census`], [`export`], [`migrate`], [`probe`], [`text`] and [dumps](Stored): what the `larder` command and the
//!   console do rather than programs.
//!
//! # The schemas of the examples
//!
//! `examples/library.larder`
//!
//! ```text
#![doc = include_str!("../examples/library.larder")]
//! ```
//!
//! `examples/pages.larder`
//!
//! ```text
#![doc = include_str!("../examples/pages.larder")]
//! ```
//!
//! `examples/shops.larder`
//!
//! ```text
#![doc = include_str!("../examples/shops.larder")]
//! ```

#![deny(missing_docs)]

pub mod guard;
pub mod price;
pub mod provision;
pub mod store;

#[doc(hidden)]
pub mod __private;
mod backoff;
mod batch;
mod breaker;
mod cache;
mod collection;
mod entity;
mod error;
mod invalidate;
mod lifecycle;
mod observe;
mod oversize;
mod query;
mod record;
mod scan;
mod shelf;
mod source;
mod sync;
mod system;
#[cfg(feature = "tools")]
mod tools;
mod transact;
mod unread;
mod write;

pub use cache::{
    Age, CollectionLoader, Drained, Fetched, Loaded, LoadedCollection, Loader, Look, Origin, StaleReason,
    Unwritten, Why,
};
pub use collection::{Collection, Entries, Gather, Members};
pub use error::{Error, Invalid, Obstacle};
pub use invalidate::{Invalidation, InvalidationPlan, Progress};
/// # Example
///
/// With this in `examples/notes.larder`:
///
/// ```text
#[doc = include_str!("../examples/notes.larder")]
/// ```
///
/// ```
/// use larder::Store;
///
/// larder::schema!("examples/notes.larder");
/// use notes::{NewNote, NewNoteRequired, Notes};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let notes = Notes::open(Store::memory().await).await?;
/// // What must be given, by name where two could be swapped. A field that may be left out has a method: `.views(7)`.
/// let milk = NewNote::new(NewNoteRequired { owner: "ada".into(), title: "milk".into(), text: "two litres".into() });
/// milk.check()?;
/// notes.notes().create(milk).await?;
///
/// let read = notes.notes().update(("ada", "milk")).add_views(1).await?;
/// assert_eq!((read.views, read.length), (1, 10));
/// assert_eq!(notes.notes().within("ada").begins_with("m").all().await?, [read]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use larder_macros::schema;
pub use larder_model::{Clock, Number, UnixTime};
pub use larder_schema::{Environment, Fields, Schema, Value, Violation, ViolationFault, jiff};
pub use lifecycle::{Claim, Claims, Group, Lease, Lifecycle, Listing, Standing};
pub use observe::{Stats, emf, prometheus};
pub use query::{Explanation, Page, Query};
pub use record::{Deleted, Put, Update};
pub use scan::{Estimate, Scan};
pub use serde_json;
pub use shelf::{Draft, Entry, FieldType, Given, Kept, Loose, Misread, Record, Rest, Shelf, View};
pub use source::{BoxError, IntoLoad, Known, Load, Permanent, SourceError};
pub use store::{Address, Store, at_most};
pub use system::System;
#[cfg(feature = "tools")]
pub use tools::moving::{Restored, Stored};
#[cfg(feature = "tools")]
pub use tools::{census, export, migrate, probe, statement, text};
pub use transact::Transaction;
pub use unread::{FirstUnread, Unread};

/// The program in the crate's README runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// The program in the guide runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/post.md")]
mod guide {}
