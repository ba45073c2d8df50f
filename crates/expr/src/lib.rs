//! DynamoDB's expression language: text in, meaning out.
//!
//! ```text
//! text ─token─► tokens ─parse─► ast ─bind─► bound ─condition, update, projection, key_range─► what it means
//!                                             └───render─► text, names, values
//! ```
//!
//! A [`Scope`] holds one request's placeholders and reads its expressions. Errors carry DynamoDB's wording.
//!
//! ```
//! use std::collections::BTreeMap;
//! use larder_expr::Scope;
//! use larder_model::{AttributeValue, Item};
//!
//! let values = BTreeMap::from([(":one".to_owned(), AttributeValue::from(1))]);
//! let mut scope = Scope::new(None, Some(values))?;
//! let update = scope.update("SET visits = if_not_exists(visits, :one) + :one")?;
//! scope.finish()?;
//!
//! let key: Item = [("id", "page")].into_iter().collect();
//! let item = update.apply(None, &key)?;
//! assert_eq!(item.get("visits"), Some(&AttributeValue::from(2)));
//! # Ok::<(), larder_expr::Error>(())
//! ```

mod ast;
mod bind;
mod bound;
pub mod build;
mod condition;
mod error;
mod key_condition;
mod key_range;
pub mod legacy;
mod parse;
mod projection;
mod render;
mod reserved;
mod survey;
mod token;
mod update;

pub use bind::Scope;
pub use bound::{
    Comparator, Condition, KeyCondition, KeyTest, Operand, Projection, SetOperand, SetValue, SortTest, Update,
};
pub use error::{Error, ExpressionKind, Fault, LegacyFault, PlaceholderFault, PlaceholderMap};
pub use key_range::KeyRange;
pub use projection::touched;
pub use render::{Placeholders, Renderer};
