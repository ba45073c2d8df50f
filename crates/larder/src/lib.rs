//! The data layer: what programs use.
//!
//! A [`Store`] is where data is kept: the embedded engine, or DynamoDB. [`provision`] brings its tables into
//! the shape a schema asks for.
//!
//! ```
//! use larder::provision::{self, Desired, Permissions, Silent};
//! use larder::{Address, Store};
//! use larder_schema::{Environment, NoFiles, Schema};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let text = r#"
//! system keiba
//! table races {
//!   key  pk
//!   entity Race {
//!     key  "RACE#{race_id}"
//!     input race_id: string nonempty
//!   }
//! }
//! "#;
//! let environment = Environment::new();
//! let schema = Schema::load("keiba.larder", text, &mut NoFiles, &environment).schema.expect("it is right");
//! let desired = [Desired::of(&schema, &environment).expect("there are no params")];
//!
//! let store = Store::open(&Address::Memory).await?;
//! let plan = provision::plan(&desired, &store).await?;
//! println!("{plan}");
//! provision::apply(&plan, &store, &Permissions::default(), &mut Silent).await?;
//! assert!(provision::plan(&desired, &store).await?.is_settled());
//! # Ok::<(), larder::store::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod price;
pub mod provision;
pub mod store;

#[doc(hidden)]
pub mod __private;
mod batch;
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
mod shelf;
mod source;
mod sync;
mod system;
mod transact;

pub use cache::{Age, Drained, Fetched, Look, Origin, StaleReason, Unwritten, Why};
pub use collection::{Collection, Entries, Gather, Members};
pub use error::{Error, Invalid, Obstacle};
pub use invalidate::{Invalidation, Plan, Progress};
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
/// use notes::{NewNote, Notes};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let notes = Notes::open(Store::memory().await).await?;
/// let milk = NewNote { owner: "ada".into(), title: "milk".into(), text: "two litres".into(), views: None };
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
pub use larder_schema::{Environment, Fields, Schema, Value, Violation, jiff};
pub use lifecycle::{Claim, Claims, Group, Lease, Lifecycle, Listing, Standing};
pub use observe::{Stats, emf};
pub use query::{Explanation, Page, Query};
pub use record::{Put, Update};
pub use serde_json;
pub use shelf::{Draft, Entry, FieldType, Given, Kept, Misread, Record, Rest, Shelf, View};
pub use source::{Known, Load, Permanent};
pub use store::{Address, Store};
pub use system::System;
pub use transact::Transaction;
