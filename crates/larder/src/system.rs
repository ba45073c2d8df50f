//! A schema on a store: what a program opens first.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use larder_schema::jiff::Timestamp;
use larder_schema::schema::{Ttl, Unit};
use larder_schema::{Environment, Value};

use crate::cache::{Drained, Shared};
use crate::entity::{Core, timestamp};
use crate::provision::{self, Desired, Permissions, Silent};
use crate::shelf::{Entry, Record, Shelf};
use crate::{Error, Schema, Store};

/// An open system. Clones are the same system.
#[derive(Clone)]
pub struct System(Arc<Inner>);

struct Inner {
    schema: Arc<Schema>,
    environment: Environment,
    store: Store,
    entities: Vec<Arc<Core>>,
    shared: Shared,
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
    pub async fn open(schema: Schema, store: Store) -> Result<Self, Error> {
        Self::open_with(schema, store, std::env::vars().collect()).await
    }

    /// Opens a system with an environment of its own.
    pub async fn open_with(schema: Schema, store: Store, environment: Environment) -> Result<Self, Error> {
        let setups = schema.tables(&environment).map_err(Error::Environment)?;
        let schema = Arc::new(schema);
        let shared = Shared::default();
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
                    store.at(table.region.as_deref()),
                    ttl,
                    &shared,
                )));
            }
        }
        let system = Self(Arc::new(Inner { schema, environment, store, entities, shared }));
        if system.0.store.is_embedded() {
            system.provision().await?;
        }
        Ok(system)
    }

    /// Makes the tables and indexes that are missing. Nothing is removed.
    pub async fn provision(&self) -> Result<(), Error> {
        let desired = [Desired::of(&self.0.schema, &self.0.environment).map_err(Error::Environment)?];
        let plan = provision::plan(&desired, &self.0.store).await?;
        provision::apply(&plan, &self.0.store, &Permissions::default(), &mut Silent).await?;
        Ok(())
    }

    pub fn schema(&self) -> &Schema {
        &self.0.schema
    }

    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// What time it is for this system: the store's clock, which tests can move.
    pub fn now(&self) -> Timestamp {
        timestamp(self.0.store.clock().now())
    }

    /// The shelf of a typed entity.
    ///
    /// # Panics
    ///
    /// If `R` was made from another schema than this system was opened with.
    pub fn shelf<R: Record>(&self) -> Shelf<R> {
        let core = self.core(R::ENTITY).expect("the type and the system are made from one schema");
        Shelf::on(core)
    }

    /// The shelf of an entity, by its name.
    pub fn entries(&self, entity: &str) -> Option<Shelf<Entry>> {
        self.core(entity).map(Shelf::on)
    }

    pub(crate) fn core(&self, entity: &str) -> Option<Arc<Core>> {
        self.0.entities.iter().find(|core| core.name() == entity).cloned()
    }

    /// Writes a line of CloudWatch's embedded metric format for each thing that the schema's `metrics` names.
    /// On Lambda, `std::io::stdout()` is the place for them.
    pub fn emf_to(&self, writer: impl std::io::Write + Send + 'static) {
        self.0.shared.sink.set(Box::new(writer));
    }

    /// Waits for what is written behind, at most so long, and says what was not written.
    pub async fn drain(&self, deadline: Duration) -> Drained {
        self.0.shared.drain(Some(deadline)).await
    }

    /// Waits for what is written behind, for each entity as long as the schema's `drain` says: for the end of a
    /// program. What still waits then is tried on while a handle or the runtime lives, and told in the log after.
    pub async fn close(self) -> Drained {
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
