//! Records that a listing could not read: left out, counted and told.
//!
//! What another program wrote may be no record of the entity whose key it has. One such item must not hide those
//! beside it: listings and workers leave it out, log the first they meet, and count each
//! (`larder_unreadable_records_total`). Who asks strictly gets the error instead.

use std::fmt;

use crate::Error;
use crate::entity::Core;

/// What a listing left out because it cannot be read.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use larder::store::ops::{PutItem, WriteOptions};
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// # let text = |text: &str| larder_model::AttributeValue::S(text.to_owned());
/// # let bad = [("pk", text("BOOK#1")), ("sk", text("BOOK")), ("author", text("Austen")), ("year", 1811.into()), ("title", 7.into())];
/// # let item = bad.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
/// # let table = larder_model::TableName::new("library")?;
/// // Another program has written a title that is a number.
/// # library.store().put_item(PutItem { table, item, options: WriteOptions::default() }).await?;
/// let page = library.books().by_author("Austen").page().await?;
/// assert_eq!((page.items.len(), page.unread.count), (0, 1));
/// println!("{}", page.unread); // 1 record cannot be read: BOOK#1 / BOOK, because `title` does not hold a string
/// assert!(library.books().by_author("Austen").strict().all().await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// How many there were.
    pub count: u64,
    /// The first of them.
    pub first: Option<FirstUnread>,
}

/// The first record that a listing could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstUnread {
    /// Its key, as people read it.
    pub key: String,
    /// Why it cannot be read.
    pub why: String,
}

impl Unread {
    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Those of another part of the same listing too.
    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.take().or(other.first);
    }

    /// What was read, or a note that it could not be. Whoever is strict gets the error, and so does everyone whose
    /// store failed.
    pub(crate) fn take<T>(
        &mut self,
        core: &Core,
        read: Result<T, Error>,
        strict: bool,
    ) -> Result<Option<T>, Error> {
        match read {
            Ok(record) => Ok(Some(record)),
            Err(Error::Corrupt { key, cause, .. }) if !strict => {
                core.observer.unread(&key, &cause, self.is_empty());
                self.count += 1;
                self.first.get_or_insert(FirstUnread { key, why: cause });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.count == 1 { "record" } else { "records" };
        write!(f, "{} {what} cannot be read", self.count)?;
        match &self.first {
            Some(first) if self.count == 1 => write!(f, ": {}, because {}", first.key, first.why),
            Some(first) => write!(f, ", the first {}, because {}", first.key, first.why),
            None => Ok(()),
        }
    }
}
