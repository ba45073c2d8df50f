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

pub mod provision;
pub mod store;

pub use store::{Address, Store};
