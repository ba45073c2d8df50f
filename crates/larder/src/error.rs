//! What can go wrong for a program that uses the layer.

use larder_schema::{BuildError, EnvironmentError, ItemError, RecordError, Violation};

use crate::{SourceError, store};

/// Why a call of the layer failed. Each names the entity and the key it is about.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::Library;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// use larder::Error;
///
/// let lost = library.books().update("1").add_copies(1).await;
/// match lost {
///     Err(Error::Missing { entity, key }) => assert_eq!((entity.as_str(), key.as_str()), ("Book", "BOOK#1 / BOOK")),
///     other => panic!("there is no such book: {other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum Error {
    /// The record breaks its checks. All that is wrong is listed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// `create` found the key taken.
    #[error("{entity} {key} exists already")]
    Exists { entity: String, key: String },
    /// `update` or a transition found nothing to change.
    #[error("there is no {entity} {key}")]
    Missing { entity: String, key: String },
    /// Somebody else changed it meanwhile: read it again.
    #[error("{entity} {key} was changed by somebody else: {cause}")]
    Conflict { entity: String, key: String, cause: String },
    /// A transition that the lifecycle does not allow from where it is.
    #[error("{entity} {key} is {found}, and `{transition}` starts from {wanted}")]
    State { entity: String, key: String, transition: String, found: String, wanted: String },
    /// The lease ran out, or somebody else has it.
    #[error("the lease on {entity} {key} is lost: {cause}")]
    LeaseLost { entity: String, key: String, cause: String },
    /// The source says that there is no such thing.
    #[error("the source has no {entity} {key}")]
    Absent { entity: String, key: String },
    /// The store did not do what it was asked.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The source failed, and there was nothing stale to give instead.
    #[error("{entity} {key} could not be loaded: {cause}")]
    Source { entity: String, key: String, cause: SourceError },
    /// Neither the store nor the source had it.
    #[error(
        "{entity} {key} is not available: the store failed ({store}), and so did the source ({source_cause})"
    )]
    Down { entity: String, key: String, store: Box<Error>, source_cause: SourceError },
    /// Larger than an item may be, and the schema says to refuse that.
    #[error("{entity} {key} has {bytes} bytes, and an item may have {limit}: {hint}")]
    TooLarge { entity: String, key: String, bytes: usize, limit: usize, hint: &'static str },
    /// Too much waits to be written behind.
    #[error("{entity} {key} is not written behind: the queue is full")]
    QueueFull { entity: String, key: String },
    /// What is stored is not what the schema says.
    #[error("{entity} {key} cannot be read: {cause}")]
    Corrupt { entity: String, key: String, cause: String },
    /// A key that cannot be made from what was given.
    #[error("the key of {entity} cannot be built: {cause}")]
    Key { entity: String, cause: BuildError },
    /// Something that is not in the record has to be there to write it.
    #[error("{entity} cannot be written: {cause}")]
    Record { entity: String, cause: RecordError },
    /// Variables that do not fit the params of the schema.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Environment(Vec<EnvironmentError>),
    /// A cursor that this query did not make, or that was changed on its way.
    #[error("this is not a cursor of the query: {cause}; start without one")]
    Cursor { cause: &'static str },
    /// A transaction that did not happen, with what was in its way.
    #[error("nothing was written: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Cancelled(Vec<Obstacle>),
    /// The schema does not allow it; the text says what would.
    #[error("{0}")]
    NotAllowed(String),
}

impl Error {
    /// Whether the source said that there is no such thing.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// let gone = |_url: String| async { Ok::<_, std::io::Error>(None::<String>) };
    /// let error = pages.pages().fetch("https://example.com/", gone).await.unwrap_err();
    /// assert!(error.is_absent());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    /// The error that a loader gave, as it was, if it is of this type: of a source that failed, whether the store did or not.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// let fails = |_url: String| async { Err::<String, _>(std::io::Error::other("no network")) };
    /// let error = pages.pages().fetch("https://example.com/", fails).await.unwrap_err();
    /// assert_eq!(error.loader_error::<std::io::Error>().map(std::io::Error::kind), Some(std::io::ErrorKind::Other));
    /// # Ok(())
    /// # }
    /// ```
    pub fn loader_error<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Source { cause, .. } | Self::Down { source_cause: cause, .. } => cause.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the same call may succeed later, or after reading again.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// let fails = |_url: String| async { Err::<String, _>(std::io::Error::other("no network")) };
    /// let error = pages.pages().fetch("https://example.com/", fails).await.unwrap_err();
    /// assert!(error.is_transient());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Conflict { .. } | Self::Source { .. } | Self::Down { .. } | Self::QueueFull { .. } => true,
            Self::Store(error) => error.is_transient(),
            _ => false,
        }
    }

    pub(crate) fn environment(error: EnvironmentError) -> Self {
        Self::Environment(vec![error])
    }

    pub(crate) fn corrupt(entity: &str, key: &str, cause: &ItemError) -> Self {
        Self::Corrupt { entity: entity.to_owned(), key: key.to_owned(), cause: cause.to_string() }
    }
}

/// What was in the way of a transaction.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # use library::{Library, NewBook};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let library = Library::open(larder::Store::memory().await).await?;
/// use larder::Error;
///
/// let books = library.books();
/// books.create(NewBook::new("2")).await?;
/// let both = library.transaction().create(&books, NewBook::new("1")).create(&books, NewBook::new("2"));
/// let Err(Error::Cancelled(obstacles)) = both.run().await else { panic!("there is a book 2") };
/// assert_eq!((obstacles.len(), obstacles[0].step, obstacles[0].entity.as_str()), (1, 1, "Book"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entity} {key}: {cause}")]
pub struct Obstacle {
    /// The place of the step in the transaction.
    pub step: usize,
    /// Whose record was in the way.
    pub entity: String,
    /// Its key, as people write it.
    pub key: String,
    /// What was wrong with it.
    pub cause: String,
}

/// A record that breaks its checks.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// use library::NewBook;
///
/// let invalid = NewBook { copies: Some(-1), ..NewBook::new("") }.check().unwrap_err();
/// let paths: Vec<&str> = invalid.violations.iter().map(|violation| violation.path.as_str()).collect();
/// assert_eq!(paths, ["Book.isbn", "Book.copies"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// What it was to be a record of.
    pub entity: String,
    /// Never empty.
    pub violations: Vec<Violation>,
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is not valid:", self.entity)?;
        for violation in &self.violations {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}
