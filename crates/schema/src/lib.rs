//! The schema language: text in, checked schema out.
//!
//! A `.larder` file says what a system keeps: tables, keys, entities, lifecycles. [`Schema::load`] reads,
//! parses and checks it, and gathers every diagnostic with its place. Nothing here does I/O or reads a clock:
//! included files come from a [`Loader`], environment values and times come in as arguments.
//!
//! ```
//! use larder_schema::{Environment, NoFiles, Schema};
//!
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
//! let loaded = Schema::load("keiba.larder", text, &mut NoFiles, &Environment::new());
//! let schema = loaded.schema.expect("there is nothing wrong with it");
//! let (_, race) = schema.entity("Race").expect("it is declared");
//! let fields = [("race_id".to_owned(), "202405021211".into())].into();
//! assert_eq!(race.key(&fields)?.0, "RACE#202405021211".into());
//! # Ok::<(), larder_schema::BuildError>(())
//! ```

pub mod limits;
mod span;
mod token;

pub mod ast;
mod parse;

mod resolve;
mod shape;
mod symbols;

mod grants;
pub mod schema;
pub mod setup;
#[deny(missing_docs)]
mod value;

mod access;
mod check;
mod equation;
mod item;
mod marks;
#[deny(missing_docs)]
mod record;
mod template;

mod diagnostic;
mod explain;
mod origin;

mod sample;

mod compare;
pub mod cost;
pub mod emit;
mod format;
#[cfg(feature = "import")]
pub mod import;

pub use access::{Access, Argument, Readable, SortKey};
pub use check::Checker;
pub use compare::{Change, Impact, compare};
pub use diagnostic::{Colour, Diagnostic, Fix, Severity, closest, render, render_all};
pub use equation::{Expr, Function, Scope, conformed, duration_source};
pub use explain::{RULES, Rule, explain, rule};
pub use format::format;
pub use item::{ItemError, RecordError};
pub use jiff;
pub use marks::*;
pub use parse::parse;
pub use record::{Violation, ViolationFault};
pub use resolve::settings::{BLOCKS, Place, SETTINGS, SettingRule};
pub use resolve::{Loaded, Loader, NoFiles};
pub use sample::{Sampler, Unsampled};
pub use schema::{Entity, Environment, EnvironmentError, Field, Fields, Schema, Table, TableSetup, Type};
pub use shape::{CharSet, Shape};
pub use span::{SourceFile, Span};
pub use symbols::{Symbol, SymbolKind, hover, key_example, symbol_at, ttl_text};
pub use template::{BuildError, DatePart, Format, Hole, Part, Reading, Template};
pub use token::{Token, TokenKind, tokens};
pub use value::{Value, civil_date, civil_datetime, instant_exact, instant_text};
