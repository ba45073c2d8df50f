//! A resource policy: its text, and what was made of it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use larder_model::UnixTime;

/// A policy as it was given.
pub struct ResourcePolicy {
    text: String,
    revision: String,
    read: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl ResourcePolicy {
    pub fn new(text: String, put: UnixTime) -> Self {
        Self::kept(text, put.millis().to_string())
    }

    pub fn kept(text: String, revision: String) -> Self {
        Self { text, revision, read: OnceLock::new() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Another for each that was put.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// What `read` makes of the text. It is asked the first time, by whoever is first, for as long as all want the same.
    pub fn read_as<T: Any + Send + Sync>(&self, read: impl Fn(&str) -> T) -> Arc<T> {
        let kept = self.read.get_or_init(|| Arc::new(read(&self.text)));
        Arc::clone(kept).downcast().unwrap_or_else(|_| Arc::new(read(&self.text)))
    }
}

impl fmt::Debug for ResourcePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResourcePolicy").field(&self.revision).field(&self.text).finish()
    }
}
