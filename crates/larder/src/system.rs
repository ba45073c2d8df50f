//! A schema on a store: what a program opens first.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_schema::jiff::Timestamp;
use larder_schema::schema::{Ttl, Unit};
use larder_schema::{Environment, Value};

use crate::cache::{Drained, Shared};
use crate::entity::{Core, timestamp};
use crate::observe::Observer;
use crate::provision::{self, Desired, Permissions, Silent};
use crate::shelf::{Entry, Record, Shelf};
use crate::{Error, Schema, Store};

/// An open system. Clones are the same system.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// larder::schema!("examples/library.larder");
/// use larder::{Store, System};
///
/// let system = System::open(library::schema().clone(), Store::memory().await).await?;
/// assert_eq!(system.schema().system, "library");
/// assert_eq!(system.store().list_tables().await?.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct System(Arc<Inner>);

struct Inner {
    schema: Arc<Schema>,
    environment: Environment,
    store: Store,
    entities: Vec<Arc<Core>>,
    shared: Shared,
    opened: Instant,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A record knows its entity, which has its cache, which has the record: none would ever end, nor their store.
        for core in &self.entities {
            core.cache.clear_l1();
        }
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").field("schema", &self.0.schema.system).finish_non_exhaustive()
    }
}

impl System {
    /// Opens a system, with names and times from the process environment.
    ///
    /// An embedded store makes the tables that are missing. On DynamoDB, `larder apply` or
    /// [`System::provision`] does, because tables cost money there.
    ///
    /// ```
    /// # use larder::Store;
    /// larder::schema!("examples/library.larder");
    /// use library::Library;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let library = Library::open(Store::memory().await).await?; // typed, and a `System` besides
    /// assert!(library.books().get("9780141439587").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(schema: Schema, store: Store) -> Result<Self, Error> {
        Self::open_with(schema, store, std::env::vars().collect()).await
    }

    /// Opens a system with an environment of its own.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use larder::{Environment, Schema, Store, System};
    /// # use larder_schema::NoFiles;
    /// let text = r#"
    /// system notes
    /// param stage: string = "dev" from STAGE
    /// table notes {
    ///   name  "notes-{stage}"
    ///   key   id
    ///   entity Note { id: string nonempty }
    /// }
    /// "#;
    /// let schema = Schema::load("notes.larder", text, &mut NoFiles, &Environment::new()).schema.expect("it is right");
    /// let environment = Environment::from([("STAGE".to_owned(), "prod".to_owned())]);
    /// let system = System::open_with(schema, Store::memory().await, environment).await?;
    /// assert_eq!(system.store().list_tables().await?[0].as_str(), "notes-prod");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open_with(schema: Schema, store: Store, environment: Environment) -> Result<Self, Error> {
        let system = Self::on(schema, store, environment)?;
        system.0.store.opened(&system.0.schema, &system.0.environment);
        if system.0.store.is_embedded() {
            system.provision().await?;
        }
        Ok(system)
    }

    /// A schema on a store whose tables are left as they are, and may be missing: to look at what is there.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::Library;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let schema = Library::open(larder::Store::memory().await).await?.schema().clone();
    /// use larder::{Environment, Store, System};
    ///
    /// let library = System::on(schema, Store::memory().await, Environment::new())?;
    /// assert!(library.store().list_tables().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn on(schema: Schema, store: Store, environment: Environment) -> Result<Self, Error> {
        let setups = schema.tables(&environment).map_err(Error::Environment)?;
        let schema = Arc::new(schema);
        let shared = Shared::default();
        let breaker = Arc::new(store.breaker(&schema.store));
        let mut entities = Vec::new();
        for (table_at, table) in schema.tables.iter().enumerate() {
            let Some(setup) = setups.iter().find(|setup| setup.table == table.name) else { continue };
            for (entity_at, entity) in table.entities.iter().enumerate() {
                let ttl = match &entity.ttl {
                    Some(Ttl::After { millis }) => Some(*millis),
                    Some(Ttl::Param(name)) => duration_param(&schema, name, &environment)?,
                    Some(Ttl::Value(_)) | None => None,
                };
                entities.push(Arc::new(Core::new(
                    Arc::clone(&schema),
                    (table_at, entity_at),
                    setup.definition.name.clone(),
                    store.at(table.region.as_deref()).bounded(&schema.store, &breaker),
                    ttl,
                    &shared,
                )));
            }
        }
        Ok(Self(Arc::new(Inner { schema, environment, store, entities, shared, opened: Instant::now() })))
    }

    /// Makes the tables and indexes that are missing, and switches on what the schema asks for. Nothing is removed or switched
    /// off; `larder apply` does that.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::Library;
    /// # use larder::Store;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Store::memory().await.sdk_client().await?;
    /// let library = Library::open(Store::on_client(client)).await?;
    /// assert!(library.store().list_tables().await?.is_empty());
    /// library.provision().await?;
    /// assert_eq!(library.store().list_tables().await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn provision(&self) -> Result<(), Error> {
        let desired = [Desired::of(&self.0.schema, &self.0.environment).map_err(Error::Environment)?];
        let plan = provision::plan(&desired, &self.0.store).await?.only_adding();
        provision::apply(&plan, &self.0.store, &Permissions::default(), &mut Silent).await?;
        Ok(())
    }

    /// What it was opened with.
    pub fn schema(&self) -> &Schema {
        &self.0.schema
    }

    /// Where it keeps its data.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// What time it is for this system: the store's clock, which tests can move.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::Library;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// use std::time::Duration;
    ///
    /// library.store().clock().stop();
    /// let then = library.now();
    /// library.store().clock().advance(Duration::from_secs(60));
    /// assert_eq!(library.now().as_second() - then.as_second(), 60);
    /// # Ok(())
    /// # }
    /// ```
    pub fn now(&self) -> Timestamp {
        timestamp(self.0.store.clock().now())
    }

    /// The shelf of a typed entity.
    ///
    /// # Panics
    ///
    /// If `R` was made from another schema than this system was opened with.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// use library::Book;
    ///
    /// let books = library.shelf::<Book>(); // what `library.books()` rests on
    /// books.create(NewBook::new("1")).await?;
    /// assert_eq!(books.get("1").await?.expect("it was just made").copies, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn shelf<R: Record>(&self) -> Shelf<R> {
        let core = self.core(R::ENTITY).expect("the type and the system are made from one schema");
        Shelf::on(core)
    }

    /// The shelf of an entity, by its name.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::Library;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// use larder::Fields;
    ///
    /// let books = library.entries("Book").expect("the schema has it");
    /// let book = books.create(Fields::from([("isbn".to_owned(), "1".into())])).await?;
    /// assert_eq!(book.fields["title"], "Untitled".into());
    /// assert!(library.entries("Film").is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn entries(&self, entity: &str) -> Option<Shelf<Entry>> {
        self.core(entity).map(Shelf::on)
    }

    /// The entities of a table, by its name in the schema.
    #[cfg(feature = "tools")]
    pub(crate) fn cores(&self, table: &str) -> Vec<Arc<Core>> {
        self.0.entities.iter().filter(|core| core.table().name == table).cloned().collect()
    }

    pub(crate) fn core(&self, entity: &str) -> Option<Arc<Core>> {
        self.0.entities.iter().find(|core| core.name() == entity).cloned()
    }

    pub(crate) fn observers(&self) -> impl Iterator<Item = &Observer> {
        self.0.entities.iter().map(|core| &*core.observer)
    }

    pub(crate) fn open_for(&self) -> Duration {
        self.0.opened.elapsed()
    }

    /// Writes a line of CloudWatch's embedded metric format for each thing that the schema's `metrics` names.
    /// On Lambda, `std::io::stdout()` is the place for them.
    ///
    /// ```
    /// # larder::schema!("examples/pages.larder");
    /// # use pages::Pages;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pages = Pages::open(larder::Store::memory().await).await?;
    /// use std::io::{BufRead, BufReader};
    ///
    /// let (reader, writer) = std::io::pipe()?;
    /// pages.emf_to(writer);
    /// pages.pages().get("https://example.com/").await?;
    ///
    /// let mut line = String::new();
    /// BufReader::new(reader).read_line(&mut line)?;
    /// assert!(line.contains(r#""PageMiss":1.0"#));
    /// # Ok(())
    /// # }
    /// ```
    pub fn emf_to(&self, writer: impl std::io::Write + Send + 'static) {
        self.0.shared.sink.set(Box::new(writer));
    }

    /// Waits for what is written behind, at most so long, and says what was not written.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// use std::time::Duration;
    ///
    /// library.books().put_behind(NewBook::new("1")).await?;
    /// let drained = library.drain(Duration::from_secs(5)).await;
    /// assert_eq!((drained.written(), drained.is_empty()), (1, true));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drain(&self, deadline: Duration) -> Drained {
        self.0.shared.drain(Some(deadline)).await
    }

    /// Waits for what is written behind, for each entity as long as the schema's `drain` says: for the end of a
    /// program. What still waits then is tried on while a handle or the runtime lives, and told in the log after.
    ///
    /// ```
    /// # larder::schema!("examples/library.larder");
    /// # use library::{Library, NewBook};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let library = Library::open(larder::Store::memory().await).await?;
    /// library.books().put_behind(NewBook::new("1")).await?;
    /// library.close().await.expect_empty();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) -> Drained {
        self.0.shared.drain(None).await
    }
}

fn duration_param(schema: &Schema, name: &str, environment: &Environment) -> Result<Option<i64>, Error> {
    let Some(param) = schema.param(name) else { return Ok(None) };
    Ok(match param.value(environment).map_err(Error::environment)? {
        Value::Duration(duration) => i64::try_from(duration.as_millis()).ok(),
        Value::Number(number) => {
            number.to_i64().map(|count| count.saturating_mul(param.unit.map_or(1, Unit::millis)))
        }
        _ => None,
    })
}
