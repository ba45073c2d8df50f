//! PartiQL as DynamoDB has it: text in, requests that the engine knows out.
//!
//! ```text
//! text ─token─► tokens ─parse─► ast ─bind─► bound ─plan─► one item's key, key conditions, or a scan
//! ```
//!
//! What a statement means is said in `larder_expr`'s bound expressions, so conditions, updates and projections are
//! evaluated in one place. Binding needs the parameters alone; planning needs the table's key. Errors carry
//! DynamoDB's wording, as far as it is known.
//!
//! Promise: whatever the text, reading it ends in a statement or an error. It does not panic or overflow the stack.
//!
//! ```
//! use larder_model::AttributeValue;
//! use larder_partiql::{Statement, read};
//!
//! let statement = read("SELECT title FROM books WHERE isbn = ?", &[AttributeValue::from("978-0")])?;
//! assert!(matches!(statement, Statement::Select(select) if select.table.as_str() == "books"));
//!
//! let error = read("SLECT * FROM books", &[]).unwrap_err();
//! assert_eq!(error.to_string(), "Statement wasn't well formed, can't be processed: Expected data manipulation");
//! # Ok::<(), larder_partiql::Error>(())
//! ```

mod ast;
mod bind;
mod bound;
mod error;
mod parse;
mod plan;
mod token;

use larder_model::AttributeValue;

pub use bound::{Column, Columns, Delete, Insert, Order, Returning, Select, Statement, Update};
pub use error::{Error, Place, Syntax};
pub use plan::{
    Access, Keyed, Part, check_insert, keyed_check, keyed_read, keyed_write, leading_values, plan,
};

/// The statement that a text is, with its parameters filled in.
pub fn read(text: &str, parameters: &[AttributeValue]) -> Result<Statement, Error> {
    bind::bind(&parse::statement(text)?, parameters)
}
