//! Loaders that are types of the program, and many fetches at once.
//!
//! A fetch goes on when its caller goes away, so a closure has to own what it uses. A client that is kept for as long as the program
//! runs is handed over once instead, and lends itself to each load.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use futures_util::StreamExt as _;

use super::Fetched;
use crate::source::{BoxError, IntoLoad, Known, Load};
use crate::{Collection, Error, Gather, Record, Shelf};

/// Fetches of one call that are under way together.
const FETCHES_AT_ONCE: usize = 16;

/// A source of records as a type of the program: a client with its connections and settings.
///
/// ```
/// # larder::schema!("examples/pages.larder");
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use larder::{BoxError, IntoLoad as _, Known, Load, Loader};
/// use pages::{Page, PageValue, Pages};
///
/// struct Site {
///     greeting: String,
/// }
///
/// impl Site {
///     async fn download(&self, url: &str) -> Result<String, std::io::Error> {
///         Ok(format!("{} from {url}", self.greeting))
///     }
/// }
///
/// impl Loader<Page> for Site {
///     async fn load(&self, url: String, _known: Known) -> Result<Load<PageValue>, BoxError> {
///         Ok(self.download(&url).await?.into_load())
///     }
/// }
///
/// # let pages = Pages::open(larder::Store::memory().await).await?;
/// let pages = pages.pages().loaded_by(Site { greeting: "hello".to_owned() });
/// assert_eq!(pages.fetch("https://example.com/").await?.text, "hello from https://example.com/");
/// # Ok(())
/// # }
/// ```
pub trait Loader<R: Record>: Send + Sync + 'static {
    /// What the source has under a key. It may be called again, as the schema's `retry` says.
    fn load(
        &self,
        ask: R::Ask,
        known: Known,
    ) -> impl Future<Output = Result<Load<R::Value>, BoxError>> + Send;
}

impl<R: Record, L: Loader<R>> Loader<R> for Arc<L> {
    fn load(
        &self,
        ask: R::Ask,
        known: Known,
    ) -> impl Future<Output = Result<Load<R::Value>, BoxError>> + Send {
        (**self).load(ask, known)
    }
}

/// The records of an entity with the loader that they come from: a [`Shelf`] whose fetches need only a key. Clones are the same.
#[derive(Debug)]
pub struct Loaded<R, L> {
    shelf: Shelf<R>,
    loader: Arc<L>,
}

impl<R, L> Clone for Loaded<R, L> {
    fn clone(&self) -> Self {
        Self { shelf: self.shelf.clone(), loader: Arc::clone(&self.loader) }
    }
}

impl<R, L> Deref for Loaded<R, L> {
    type Target = Shelf<R>;

    fn deref(&self) -> &Shelf<R> {
        &self.shelf
    }
}

impl<R: Record, L: Loader<R>> Loaded<R, L> {
    /// Read-through: see [`Shelf::fetch`].
    pub async fn fetch(&self, key: impl Into<R::Key>) -> Result<Fetched<R>, Error> {
        let loader = Arc::clone(&self.loader);
        let load = move |ask, known| {
            let loader = Arc::clone(&loader);
            async move { loader.load(ask, known).await }
        };
        self.shelf.fetch_with(key, load).await
    }

    /// Many at once: see [`Shelf::fetch_many`].
    pub async fn fetch_many<K: Into<R::Key>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<(R::Key, Result<Fetched<R>, Error>)> {
        many(keys, |key| self.fetch(key)).await
    }
}

impl<R: Record> Shelf<R> {
    /// The same records, with the loader that they come from: said once instead of at every fetch.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use larder::{BoxError, IntoLoad as _, Known, Load, Loader};
    /// # use pages::{Page, PageValue, Pages};
    /// # struct Site;
    /// # impl Loader<Page> for Site {
    /// #     async fn load(&self, url: String, _known: Known) -> Result<Load<PageValue>, BoxError> {
    /// #         Ok(url.into_load())
    /// #     }
    /// # }
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// let pages = pages.pages().loaded_by(Site);
    /// for (key, page) in pages.fetch_many(["https://example.com/a", "https://example.com/b"]).await {
    ///     assert_eq!(page?.url, key.url);
    /// }
    /// assert_eq!(pages.stats().loads, 2, "all else is as it is on the shelf itself");
    /// # Ok(())
    /// # }
    /// ```
    pub fn loaded_by<L: Loader<R>>(&self, loader: L) -> Loaded<R, L> {
        Loaded { shelf: self.clone(), loader: Arc::new(loader) }
    }

    /// Fetches many, several at a time, each as [`fetch`](Self::fetch) does: what one asks for, another who asks meanwhile is given
    /// too. Each has an outcome of its own, in the order of the keys.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// async fn download(url: String) -> Result<String, std::io::Error> {
    ///     Ok(format!("the text of {url}"))
    /// }
    /// let urls = ["https://example.com/a", "https://example.com/b", "https://example.com/a"];
    /// let fetched = pages.pages().fetch_many(urls, download).await;
    /// assert!(fetched.iter().all(|(key, page)| page.as_ref().is_ok_and(|page| page.url == key.url)));
    /// assert_eq!((fetched.len(), pages.pages().stats().loads), (3, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fetch_many<K, F, A, E>(
        &self,
        keys: impl IntoIterator<Item = K>,
        load: impl Fn(R::Ask) -> F + Send + Sync + 'static,
    ) -> Vec<(R::Key, Result<Fetched<R>, Error>)>
    where
        K: Into<R::Key>,
        F: Future<Output = Result<A, E>> + Send + 'static,
        A: IntoLoad<R::Value>,
        E: Into<BoxError>,
    {
        let load = Arc::new(load);
        many(keys, |key| {
            let load = Arc::clone(&load);
            self.fetch(key, move |ask| load(ask))
        })
        .await
    }
}

/// A source of collections as a type of the program: a [`Loader`] of several records at once.
///
/// ```
/// # larder::schema!("examples/library.larder");
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use larder::{BoxError, CollectionLoader, Known, Load};
/// use library::{Library, NewBook, NewVolume, Volume};
///
/// struct Catalogue {
///     place: String,
/// }
///
/// impl CollectionLoader<Volume> for Catalogue {
///     async fn load(&self, isbn: String, _known: Known) -> Result<Load<NewVolume>, BoxError> {
///         let book = NewBook::new(isbn).place(self.place.as_str());
///         Ok(Load::value(NewVolume { book: Some(book), ..NewVolume::default() }))
///     }
/// }
///
/// # let library = Library::open(larder::Store::memory().await).await?;
/// let volumes = library.volumes().loaded_by(Catalogue { place: "A3".to_owned() });
/// let book = volumes.fetch("1").await?.into_record().book.expect("it was loaded");
/// assert_eq!(book.place.as_deref(), Some("A3"));
/// for (key, volume) in volumes.fetch_many(["1", "2"]).await {
///     assert_eq!(volume?.into_record().book.expect("it was loaded").isbn, key.isbn);
/// }
/// # Ok(())
/// # }
/// ```
pub trait CollectionLoader<G: Gather>: Send + Sync + 'static {
    /// What the source has under a key. It may be called again, as the schema's `retry` says.
    fn load(&self, ask: G::Ask, known: Known) -> impl Future<Output = Result<Load<G::New>, BoxError>> + Send;
}

impl<G: Gather, L: CollectionLoader<G>> CollectionLoader<G> for Arc<L> {
    fn load(&self, ask: G::Ask, known: Known) -> impl Future<Output = Result<Load<G::New>, BoxError>> + Send {
        (**self).load(ask, known)
    }
}

/// A collection with the loader that it comes from: a [`Collection`] whose fetches need only a key. Clones are the same.
#[derive(Debug)]
pub struct LoadedCollection<G, L> {
    collection: Collection<G>,
    loader: Arc<L>,
}

impl<G, L> Clone for LoadedCollection<G, L> {
    fn clone(&self) -> Self {
        Self { collection: self.collection.clone(), loader: Arc::clone(&self.loader) }
    }
}

impl<G, L> Deref for LoadedCollection<G, L> {
    type Target = Collection<G>;

    fn deref(&self) -> &Collection<G> {
        &self.collection
    }
}

impl<G: Gather, L: CollectionLoader<G>> LoadedCollection<G, L> {
    /// Read-through: see [`Collection::fetch`].
    pub async fn fetch(&self, key: impl Into<G::Key>) -> Result<Fetched<G>, Error> {
        let loader = Arc::clone(&self.loader);
        let load = move |ask, known| {
            let loader = Arc::clone(&loader);
            async move { loader.load(ask, known).await }
        };
        self.collection.fetch_with(key, load).await
    }

    /// Many at once: see [`Collection::fetch_many`].
    pub async fn fetch_many<K: Into<G::Key>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<(G::Key, Result<Fetched<G>, Error>)> {
        many(keys, |key| self.fetch(key)).await
    }
}

impl<G: Gather> Collection<G> {
    /// The same collection, with the loader that it comes from: see [`CollectionLoader`].
    pub fn loaded_by<L: CollectionLoader<G>>(&self, loader: L) -> LoadedCollection<G, L> {
        LoadedCollection { collection: self.clone(), loader: Arc::new(loader) }
    }

    /// Fetches many, several at a time, each as [`fetch`](Self::fetch) does. Each has an outcome of its own, in the order of the
    /// keys.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook, NewVolume};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// async fn catalogue(isbn: String) -> Result<NewVolume, std::io::Error> {
    ///     Ok(NewVolume { book: Some(NewBook::new(isbn)), ..NewVolume::default() })
    /// }
    /// let volumes = library.volumes().fetch_many(["1", "2"], catalogue).await;
    /// assert!(volumes.iter().all(|(_, volume)| volume.is_ok()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fetch_many<K, F, A, E>(
        &self,
        keys: impl IntoIterator<Item = K>,
        load: impl Fn(G::Ask) -> F + Send + Sync + 'static,
    ) -> Vec<(G::Key, Result<Fetched<G>, Error>)>
    where
        K: Into<G::Key>,
        F: Future<Output = Result<A, E>> + Send + 'static,
        A: IntoLoad<G::New>,
        E: Into<BoxError>,
    {
        let load = Arc::new(load);
        many(keys, |key| {
            let load = Arc::clone(&load);
            self.fetch(key, move |ask| load(ask))
        })
        .await
    }
}

async fn many<K: Clone, Given: Into<K>, R, F>(
    keys: impl IntoIterator<Item = Given>,
    fetch: impl Fn(K) -> F,
) -> Vec<(K, Result<Fetched<R>, Error>)>
where
    F: Future<Output = Result<Fetched<R>, Error>>,
{
    let keys: Vec<K> = keys.into_iter().map(Into::into).collect();
    let fetches = keys.into_iter().map(|key| {
        let fetching = fetch(key.clone());
        async move { (key, fetching.await) }
    });
    futures_util::stream::iter(fetches).buffered(FETCHES_AT_ONCE).collect().await
}
