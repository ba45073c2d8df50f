//! What JavaScript can call, by name. Arguments and results are JSON.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use larder::store::Fault;
use larder::{
    Address, Deleted, Draft, Drained, Entries, Entry, Environment, Error, Fetched, Given, Group, Kept,
    Lifecycle, Listing, Look, Number, Origin, Page, Put, Schema, Shelf, StaleReason, Standing, Stats, Store,
    System, Transaction, Unread, Update, Value, Why,
};
use larder_schema::{Colour, Diagnostic, Entity, Fields, Loader as Files, Type, render_all};
use serde_json::{Map, Value as Json, json};

use crate::errors::{Failure, error_json};
use crate::lease::{self, Done, Handle, Order};
use crate::loads::{self, Loader};
use crate::{Shared, describe, millis, values};

type Answer = Result<Json, Failure>;

/// Whether a call may begin on the thread of JavaScript.
pub(crate) fn only_reads(operation: &str) -> bool {
    matches!(
        operation,
        "get" | "look" | "now" | "stats" | "clock" | "faults" | "requests" | "prometheus" | "place"
    )
}

/// A fetch, with the number of its loader.
pub(crate) async fn fetch(
    shared: &Shared,
    system: u32,
    entity: &str,
    key: &str,
    loader: Arc<Loader>,
) -> Answer {
    let shelf = On::find(shared, system, entity)?;
    let key: Json = serde_json::from_str(key).map_err(|error| Failure::misuse(error.to_string()))?;
    let key = shelf.given(&key)?;
    let of = shelf.clone();
    let load = move |ask: Fields, known| {
        let (loader, of) = (Arc::clone(&loader), of.clone());
        async move {
            let key = of.asked(&ask);
            let read = |given: &Map<String, Json>| of.fields(given);
            loader.call(key, known, loads::fields_of(read)).await
        }
    };
    let fetched = shelf.entries.fetch_with(key, load).await?;
    Ok(shelf.fetched(&fetched))
}

/// An entity on a store.
#[derive(Clone)]
struct On {
    system: System,
    entries: Shelf<Entry>,
    /// Where the entity is in the schema.
    at: (usize, usize),
}

/// Fields that were given, and the version that they were read at.
struct Drawn {
    fields: Fields,
    version: Option<i64>,
    is_part: bool,
}

impl Given for Drawn {
    fn into_fields(self) -> Fields {
        self.fields
    }
}

impl Draft<Entry> for Drawn {
    fn version(&self) -> Option<i64> {
        self.version
    }

    fn is_part(&self) -> bool {
        self.is_part
    }
}

impl On {
    fn find(shared: &Shared, system: u32, entity: &str) -> Result<Self, Failure> {
        let system = shared.systems.get(system).ok_or_else(closed)?;
        let tables = system.schema().tables.iter().enumerate();
        let mut all = tables.flat_map(|(at, table)| {
            table.entities.iter().enumerate().map(move |(within, entity)| ((at, within), &entity.name))
        });
        let at = all.find(|(_, name)| *name == entity).map(|(at, _)| at);
        let entries = system.entries(entity);
        match (at, entries) {
            (Some(at), Some(entries)) => Ok(Self { system, entries, at }),
            _ => Err(Failure::misuse(format!("{} has no entity `{entity}`", system.schema().system))),
        }
    }

    fn schema(&self) -> &Schema {
        self.system.schema()
    }

    fn entity(&self) -> &Entity {
        &self.schema().tables[self.at.0].entities[self.at.1]
    }

    fn fields(&self, given: &Map<String, Json>) -> Fields {
        values::fields(self.schema(), self.entity(), given)
    }

    fn given(&self, json: &Json) -> Result<Fields, Failure> {
        let given = json.as_object().ok_or_else(|| Failure::misuse("the fields are given as an object"))?;
        Ok(self.fields(given))
    }

    fn record(&self, fields: &Fields) -> Json {
        values::record(self.schema(), self.entity(), fields, None)
    }

    /// A key, as a loader is asked for it.
    fn asked(&self, key: &Fields) -> Json {
        values::some(self.schema(), self.entity(), key)
    }

    fn value(&self, kind: &Type, json: &Json) -> Value {
        values::from_json(self.schema(), kind, json)
    }

    /// A value of a field, or of what is in it.
    fn field_value(&self, name: &str, json: &Json) -> Value {
        self.value(self.entity().field(name).map_or(&Type::Json, |field| &field.kind), json)
    }

    fn member_value(&self, name: &str, json: &Json) -> Value {
        let member = self.entity().field(name).and_then(|field| field.kind.member());
        self.value(member.unwrap_or(&Type::Json), json)
    }

    /// A record and what is known of it: `[fields, about]`.
    fn entry(&self, entry: &Entry) -> Json {
        json!([self.record(&entry.fields), Json::Object(self.about(entry.kept()))])
    }

    fn about(&self, kept: &Kept) -> Map<String, Json> {
        let mut about = Map::new();
        if let Some(version) = kept.version() {
            about.insert("version".to_owned(), version.into());
        }
        if kept.is_part() {
            about.insert("partial".to_owned(), true.into());
        }
        if let Some(ends) = kept.expires() {
            about.insert("expires".to_owned(), ends.millis().into());
        }
        if let Some(removed) = kept.removed() {
            about.insert("removed".to_owned(), removed.millis().into());
        }
        let lifecycles = &self.entity().lifecycles;
        if !lifecycles.is_empty() {
            let states = lifecycles.iter().map(|lifecycle| {
                let state = kept.state(&lifecycle.name).map_or(Json::Null, Json::from);
                (lifecycle.name.clone(), state)
            });
            about.insert("states".to_owned(), Json::Object(states.collect()));
        }
        about
    }

    fn fetched(&self, fetched: &Fetched<Entry>) -> Json {
        let mut about = self.about(fetched.kept());
        origin(&mut about, fetched);
        json!([self.record(&fetched.fields), Json::Object(about)])
    }

    fn standing(&self, standing: &Standing<Entry>) -> Json {
        json!({
            "record": self.entry(&standing.record),
            "state": standing.state,
            "since": standing.since.map(|since| since.as_millisecond()),
            "owner": standing.owner,
            "until": standing.until.map(|until| until.millis()),
            "fence": standing.fence,
            "attempts": standing.attempts,
            "exhausted": standing.exhausted,
        })
    }

    fn draft(&self, json: &Json) -> Result<Drawn, Failure> {
        Ok(Drawn {
            fields: self.given(&json["fields"])?,
            version: json["version"].as_i64(),
            is_part: json["partial"].as_bool().unwrap_or(false),
        })
    }

    fn update(&self, key: &Json, changes: &Json) -> Result<Update<Entry>, Failure> {
        let mut update = self.entries.update(self.given(key)?);
        for (name, json) in members(&changes["set"]) {
            update = update.set_value(name, self.field_value(name, json));
        }
        for (name, json) in members(&changes["add"]) {
            let number = match json {
                Json::String(text) => text.parse::<Number>().ok(),
                json => json.to_string().parse().ok(),
            };
            let number =
                number.ok_or_else(|| Failure::misuse(format!("`{name}`: {json} is no number to add")))?;
            update = update.add(name, number);
        }
        for (name, json) in members(&changes["append"]) {
            update = update.append(name, self.member_values(name, json));
        }
        for (name, json) in members(&changes["insert"]) {
            update = update.insert(name, self.member_values(name, json));
        }
        for (name, json) in members(&changes["remove"]) {
            update = update.remove(name, self.member_values(name, json));
        }
        for (name, json) in members(&changes["insertAt"]) {
            for (at, json) in members(json) {
                update = update.insert_at(name, at, self.member_value(name, json));
            }
        }
        for (name, json) in members(&changes["removeAt"]) {
            for at in texts(json) {
                update = update.remove_at(name, at);
            }
        }
        for name in texts(&changes["clear"]) {
            update = update.clear(name);
        }
        if let Some(version) = changes["version"].as_i64() {
            update = update.if_version(version);
        }
        Ok(update)
    }

    fn member_values(&self, name: &str, json: &Json) -> Vec<Value> {
        let values = json.as_array().map_or(&[][..], Vec::as_slice);
        values.iter().map(|json| self.member_value(name, json)).collect()
    }

    fn lifecycle(&self, name: &str) -> Result<Lifecycle<Entry>, Failure> {
        self.entries
            .lifecycle(name)
            .ok_or_else(|| Failure::misuse(format!("{} has no lifecycle `{name}`", self.entity().name)))
    }

    /// The values that name a group, in the order the index has them.
    fn group(&self, lifecycle: &str, json: &Json) -> Group {
        let table = &self.schema().tables[self.at.0];
        let arguments = match self.entity().lifecycle(lifecycle) {
            Some(lifecycle) => describe::group(table, self.entity(), lifecycle),
            None => Vec::new(),
        };
        let values = json.as_array().map_or(&[][..], Vec::as_slice);
        Group::of(values.iter().enumerate().map(|(at, json)| {
            self.value(arguments.get(at).map_or(&Type::String, |argument| &argument.kind), json)
        }))
    }

    fn page(&self, page: &Page<Entry>, index: Option<&str>) -> Json {
        let table = &self.schema().tables[self.at.0];
        let index = index.and_then(|name| table.index(name));
        let readable = index.map(|index| self.entity().readable(table, index));
        let shown: Option<BTreeSet<String>> =
            readable.map(|readable| readable.into_iter().map(|field| field.name).collect());
        let item = |entry: &Entry| {
            let fields = values::record(self.schema(), self.entity(), &entry.fields, shown.as_ref());
            json!([fields, Json::Object(self.about(entry.kept()))])
        };
        json!({
            "items": page.items.iter().map(item).collect::<Vec<_>>(),
            "cursor": page.cursor,
            "unread": unread(&page.unread),
            "units": page.units,
        })
    }
}

/// A call with its arguments.
pub(crate) struct Call {
    shared: Arc<Shared>,
    arguments: Json,
}

impl Call {
    pub(crate) fn read(shared: Arc<Shared>, arguments: &str) -> Result<Self, Failure> {
        let arguments = serde_json::from_str(arguments).map_err(|error| {
            Failure::misuse(format!("a text that is not Unicode, or nests too deeply: {error}"))
        })?;
        Ok(Self { shared, arguments })
    }

    pub(crate) async fn run(&self, operation: &str) -> Answer {
        match operation {
            "openStore" => self.open_store().await,
            "open" => self.open().await,
            "close" => Ok(drained(&self.system()?.close().await)),
            "drain" => Ok(drained(&self.system()?.drain(self.duration("millis")?).await)),
            "provision" => done(self.system()?.provision().await),
            "prometheus" => Ok(larder::prometheus([&self.system()?]).into()),
            "place" => Ok(self.store()?.place().into()),
            "now" => Ok(self.store()?.clock().now().millis().into()),
            "clock" => self.clock(),
            "faults" => self.faults(),
            "requests" => self.requests(),
            "get" => self.get().await,
            "look" => self.look().await,
            "forget" => done(self.on()?.entries.forget(self.key()?).await),
            "create" => {
                let on = self.on()?;
                Ok(on.entry(&on.entries.create(on.draft(&self.arguments)?).await?))
            }
            "put" => {
                let on = self.on()?;
                let put = on.entries.put(on.draft(&self.arguments)?).await?;
                Ok(written(&on, put))
            }
            "putBehind" => {
                let on = self.on()?;
                Ok(on.entry(&on.entries.put_behind(on.draft(&self.arguments)?).await?))
            }
            "update" => {
                let on = self.on()?;
                Ok(on.entry(&on.update(&self.arguments["key"], &self.arguments["changes"])?.send().await?))
            }
            "delete" => {
                let on = self.on()?;
                Ok(match on.entries.delete(self.key()?).await? {
                    Deleted::Nothing => Json::Null,
                    Deleted::Record(entry) => on.entry(&entry),
                    Deleted::Unreadable(error) => return Err(error.into()),
                })
            }
            "nextSequence" => {
                let on = self.on()?;
                Ok(on.entries.next_sequence(on.draft(&self.arguments)?).await?.into())
            }
            "getMany" => self.get_many().await,
            "putMany" => self.put_many().await,
            "deleteMany" => self.delete_many().await,
            "query" => self.query().await,
            "count" => Ok(self.asked()?.count().await?.into()),
            "scan" => self.scan().await,
            "transaction" => self.transaction().await,
            "collectionPut" => done(self.collection()?.put(self.collected()?).await),
            "collectionGet" => self.collection_get().await,
            "collectionFetch" => self.collection_fetch().await,
            "collectionDelete" => Ok(self.collection()?.delete(self.partition()?).await?.into()),
            "plan" => self.plan().await,
            "runPlan" => {
                let plan = self.shared.plans.get(self.id("plan")?).ok_or_else(closed)?;
                let progress = plan.run().await?;
                Ok(
                    json!({ "removed": progress.removed, "pages": progress.pages, "dollars": progress.units.dollars() }),
                )
            }
            "stats" => Ok(stats(&self.on()?.entries.stats())),
            "transition" => {
                let (on, params) = (self.on()?, self.params()?);
                let lifecycle = on.lifecycle(self.text("lifecycle")?)?;
                Ok(on.entry(&lifecycle.run(self.key()?, self.text("transition")?, params).await?))
            }
            "standing" => {
                let on = self.on()?;
                let standing = on.lifecycle(self.text("lifecycle")?)?.standing(self.key()?).await?;
                Ok(standing.map_or(Json::Null, |standing| on.standing(&standing)))
            }
            "list" => self.list().await,
            "releaseStuck" => {
                let on = self.on()?;
                Ok(on.entry(&on.lifecycle(self.text("lifecycle")?)?.release(self.key()?).await?))
            }
            "claim" => self.claim().await,
            "claimNext" => self.claim_next().await,
            "hold" => self.hold().await,
            "lease" => self.lease().await,
            other => Err(Failure::misuse(format!("there is no call `{other}`"))),
        }
    }

    fn text(&self, name: &str) -> Result<&str, Failure> {
        self.arguments[name].as_str().ok_or_else(|| Failure::misuse(format!("`{name}` is a text")))
    }

    fn flag(&self, name: &str) -> bool {
        self.arguments[name].as_bool().unwrap_or(false)
    }

    fn id(&self, name: &str) -> Result<u32, Failure> {
        let id = self.arguments[name].as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| Failure::misuse(format!("`{name}` is a number")))
    }

    fn duration(&self, name: &str) -> Result<Duration, Failure> {
        self.optional_duration(name)?.ok_or_else(|| Failure::misuse(format!("`{name}` is missing")))
    }

    fn optional_duration(&self, name: &str) -> Result<Option<Duration>, Failure> {
        match &self.arguments[name] {
            Json::Null => Ok(None),
            json => {
                let duration = json.as_f64().and_then(millis);
                duration
                    .map(Some)
                    .ok_or_else(|| Failure::misuse(format!("{json} is no number of milliseconds")))
            }
        }
    }

    fn system(&self) -> Result<System, Failure> {
        self.shared.systems.get(self.id("system")?).ok_or_else(closed)
    }

    fn store(&self) -> Result<Store, Failure> {
        self.shared.stores.get(self.id("store")?).ok_or_else(closed)
    }

    fn on(&self) -> Result<On, Failure> {
        On::find(&self.shared, self.id("system")?, self.text("entity")?)
    }

    fn key(&self) -> Result<Fields, Failure> {
        self.on()?.given(&self.arguments["key"])
    }

    fn params(&self) -> Result<Fields, Failure> {
        match &self.arguments["params"] {
            Json::Null => Ok(Fields::new()),
            params => self.on()?.given(params),
        }
    }

    async fn open_store(&self) -> Answer {
        let store = match self.arguments["address"].as_str() {
            None => {
                let store = Store::from_env().await?;
                if store.place() == "memory:" { store } else { store.observed() }
            }
            Some(address) => match address.parse::<Address>()? {
                Address::Memory => Store::memory().await,
                address => Store::open(&address).await?.observed(),
            },
        };
        let id = self.shared.next();
        self.shared.stores.insert(id, store);
        Ok(id.into())
    }

    async fn open(&self) -> Answer {
        let path = PathBuf::from(self.text("schema")?);
        let mut environment: Environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        for (name, value) in members(&self.arguments["environment"]) {
            if let Some(value) = value.as_str() {
                environment.insert(name.clone(), value.to_owned());
            }
        }
        let schema = load(&path, &environment)?;
        let described = describe::describe(&schema);
        let system = System::open_with(schema, self.store()?, environment).await?;
        let id = self.shared.next();
        self.shared.systems.insert(id, system);
        Ok(json!({ "id": id, "schema": described }))
    }

    fn clock(&self) -> Answer {
        let store = self.store()?;
        let clock = store.clock();
        match self.text("do")? {
            "stop" => clock.stop(),
            "advance" => clock.advance(self.duration("millis")?),
            other => return Err(Failure::misuse(format!("a clock does not know `{other}`"))),
        }
        Ok(clock.now().millis().into())
    }

    fn faults(&self) -> Answer {
        let store = self.store()?;
        let faults = store.faults();
        let probability = || self.arguments["probability"].as_f64().unwrap_or(1.0).clamp(0.0, 1.0);
        let fault = || match self.arguments["fault"].as_str() {
            Some("throttle") => Ok(Fault::Throttle),
            Some("error") => Ok(Fault::Error),
            Some("unreachable") | None => Ok(Fault::Unreachable),
            Some("lost_answer") => Ok(Fault::LostAnswer),
            Some(other) => Err(Failure::misuse(format!("there is no fault `{other}`"))),
        };
        match self.text("do")? {
            "down" => faults.down(),
            "up" => faults.up(),
            "reset" => faults.reset(),
            "seed" => faults.seed(self.arguments["seed"].as_u64().unwrap_or_default()),
            "throttle" => faults.throttle(probability()),
            "fail" => faults.fail(probability()),
            "loseAnswers" => faults.lose_answers(probability()),
            "delay" => faults.delay(probability(), self.duration("millis")?),
            "failNext" => faults.fail_next(self.arguments["count"].as_u64().unwrap_or(1), fault()?),
            "only" => {
                let names: Vec<&str> = texts(&self.arguments["operations"]).collect();
                faults.only(&names)
            }
            other => return Err(Failure::misuse(format!("there is no fault `{other}`"))),
        };
        Ok(Json::Null)
    }

    fn requests(&self) -> Answer {
        let store = self.store()?;
        Ok(match self.arguments["operation"].as_str() {
            Some(operation) => store.requests().count(operation).into(),
            None => store.requests().total().into(),
        })
    }

    async fn get(&self) -> Answer {
        let on = self.on()?;
        let entry = on.entries.get(self.key()?).await?;
        Ok(entry.map_or(Json::Null, |entry| on.entry(&entry)))
    }

    async fn look(&self) -> Answer {
        let on = self.on()?;
        Ok(match on.entries.look(self.key()?).await {
            Look::Hit(fetched) => json!({ "hit": on.fetched(&fetched) }),
            Look::Miss(why) => miss(&why),
        })
    }

    async fn get_many(&self) -> Answer {
        let on = self.on()?;
        let keys = list(&self.arguments["keys"]).iter().map(|key| on.given(key));
        let keys = keys.collect::<Result<Vec<Fields>, Failure>>()?;
        let found = on.entries.get_many(keys).await;
        Ok(outcomes(
            found
                .into_iter()
                .map(|(_, found)| found.map(|entry| entry.map_or(Json::Null, |entry| on.entry(&entry)))),
        ))
    }

    async fn put_many(&self) -> Answer {
        let on = self.on()?;
        let drafts = list(&self.arguments["drafts"]).iter().map(|draft| on.draft(draft));
        let drafts = drafts.collect::<Result<Vec<Drawn>, Failure>>()?;
        let put = on.entries.put_many(drafts).await;
        Ok(outcomes(put.into_iter().map(|put| put.map(|entry| on.entry(&entry)))))
    }

    async fn delete_many(&self) -> Answer {
        let on = self.on()?;
        let keys = list(&self.arguments["keys"]).iter().map(|key| on.given(key));
        let keys = keys.collect::<Result<Vec<Fields>, Failure>>()?;
        let deleted = on.entries.delete_many(keys).await;
        Ok(outcomes(deleted.into_iter().map(|(_, deleted)| deleted.map(|()| Json::Null))))
    }

    fn asked(&self) -> Result<larder::Query<Entry>, Failure> {
        let on = self.on()?;
        let index = self.arguments["index"].as_str();
        let (table, entity) = (&on.schema().tables[on.at.0], on.entity());
        let found = index.and_then(|name| table.index(name));
        // An index that is not there is told by the query itself.
        let access = entity.access(table, found);
        let mut partition = Fields::new();
        for (name, json) in members(&self.arguments["partition"]) {
            let arguments = access.iter().flat_map(|access| &access.arguments);
            let kind = arguments.into_iter().find(|argument| argument.name == *name);
            partition
                .insert(name.clone(), on.value(kind.map_or(&Type::Json, |argument| &argument.kind), json));
        }
        let sort = access.and_then(|access| access.sort).map_or(Type::String, |sort| sort.kind);
        let mut query = match index {
            Some(index) => on.entries.index_by(index, partition),
            None => on.entries.within_by(partition),
        };
        let bound = |name: &str| match &self.arguments[name] {
            Json::Null => None,
            json => Some(on.value(&sort, json)),
        };
        if let Some(value) = bound("at") {
            query = query.at(value);
        }
        if let Some(value) = bound("from") {
            query = query.from(value);
        }
        if let Some(value) = bound("until") {
            query = query.until(value);
        }
        if let Some(text) = self.arguments["beginsWith"].as_str() {
            query = query.begins_with(text);
        }
        if self.flag("newestFirst") {
            query = query.newest_first();
        }
        if self.flag("evenExpired") {
            query = query.even_expired();
        }
        if self.flag("consistent") {
            query = query.consistent();
        }
        if self.flag("strict") {
            query = query.strict();
        }
        if let Some(limit) = self.limit() {
            query = query.limit(limit);
        }
        if let Some(cursor) = self.arguments["cursor"].as_str() {
            query = query.start_at(cursor);
        }
        Ok(query)
    }

    fn limit(&self) -> Option<usize> {
        self.arguments["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok())
    }

    async fn query(&self) -> Answer {
        let page = self.asked()?.page().await?;
        Ok(self.on()?.page(&page, self.arguments["index"].as_str()))
    }

    async fn scan(&self) -> Answer {
        let on = self.on()?;
        let mut scan = on.entries.scan();
        if self.flag("atAnyPrice") {
            scan = scan.at_any_price();
        }
        if self.flag("evenExpired") {
            scan = scan.even_expired();
        }
        if self.flag("consistent") {
            scan = scan.consistent();
        }
        if self.flag("strict") {
            scan = scan.strict();
        }
        if let Some(limit) = self.limit() {
            scan = scan.limit(limit);
        }
        if let Some(cursor) = self.arguments["cursor"].as_str() {
            scan = scan.start_at(cursor);
        }
        let page = scan.page().await?;
        Ok(on.page(&page, None))
    }

    async fn transaction(&self) -> Answer {
        let system = self.id("system")?;
        let mut transaction: Transaction = self.system()?.transaction();
        for step in list(&self.arguments["steps"]) {
            let on = On::find(&self.shared, system, step["entity"].as_str().unwrap_or_default())?;
            let entries = &on.entries;
            transaction = match step["do"].as_str().unwrap_or_default() {
                "create" => transaction.create(entries, on.draft(step)?),
                "put" => transaction.put(entries, on.draft(step)?),
                "update" => transaction.update(on.update(&step["key"], &step["changes"])?),
                "delete" => transaction.delete(entries, on.given(&step["key"])?),
                "check" => transaction.check(entries, on.given(&step["key"])?),
                "checkAbsent" => transaction.check_absent(entries, on.given(&step["key"])?),
                other => return Err(Failure::misuse(format!("a transaction has no step `{other}`"))),
            };
        }
        if let Some(token) = self.arguments["token"].as_str() {
            transaction = transaction.token(token);
        }
        done(transaction.run().await)
    }

    fn collection(&self) -> Result<larder::Collection<Entries>, Failure> {
        let (system, name) = (self.system()?, self.text("collection")?);
        system
            .collection(name)
            .ok_or_else(|| Failure::misuse(format!("{} has no collection `{name}`", system.schema().system)))
    }

    /// The partition of a collection, by the fields of its first member.
    fn partition(&self) -> Result<Fields, Failure> {
        self.first_member()?.given(&self.arguments["key"])
    }

    fn first_member(&self) -> Result<On, Failure> {
        let (system, name) = (self.system()?, self.text("collection")?);
        let mut collections = system.schema().tables.iter().flat_map(|table| &table.collections);
        let first = collections.find(|one| one.name == name).and_then(|one| one.members.first());
        On::find(&self.shared, self.id("system")?, first.map_or("", String::as_str))
    }

    fn collected(&self) -> Result<Vec<(String, Fields)>, Failure> {
        collected(&self.shared, self.id("system")?, &self.arguments["members"])
    }

    fn entries(&self, entries: &Entries) -> Answer {
        let system = self.id("system")?;
        let mut all = Map::new();
        for (name, entry) in &entries.0 {
            let on = On::find(&self.shared, system, name)?;
            let list = all.entry(name.clone()).or_insert_with(|| Json::Array(Vec::new()));
            if let Json::Array(list) = list {
                list.push(on.entry(entry));
            }
        }
        Ok(Json::Object(all))
    }

    async fn collection_get(&self) -> Answer {
        match self.collection()?.get(self.partition()?).await? {
            Some(entries) => self.entries(&entries),
            None => Ok(Json::Null),
        }
    }

    async fn collection_fetch(&self) -> Answer {
        let (shared, system) = (Arc::clone(&self.shared), self.id("system")?);
        let (first, loader) = (self.first_member()?, Loader::new(Arc::clone(&shared), self.id("loader")?));
        loader.keep();
        let load = move |ask: Fields| {
            let (loader, key, shared) = (Arc::clone(&loader), first.asked(&ask), Arc::clone(&shared));
            async move {
                let read = |json: &Json| collected(&shared, system, json).ok();
                loader.call(key, larder::Known::default(), read).await
            }
        };
        let fetched = self.collection()?.fetch(self.partition()?, load).await?;
        let mut about = Map::new();
        origin(&mut about, &fetched);
        Ok(json!([self.entries(&fetched)?, Json::Object(about)]))
    }

    async fn plan(&self) -> Answer {
        let on = self.on()?;
        let mut invalidation = if self.flag("sweep") { on.entries.sweep() } else { on.entries.invalidate() };
        for (name, json) in members(&self.arguments["by"]) {
            invalidation = invalidation.by(name, on.field_value(name, json));
        }
        if let Some(label) = self.arguments["label"].as_str() {
            invalidation = invalidation.label(label);
        }
        let plan = invalidation.plan().await?;
        let id = self.shared.next();
        let described = json!({
            "id": id,
            "items": plan.items(),
            "bytes": plan.bytes(),
            "dollars": plan.units().dollars(),
            "exact": plan.is_exact(),
            "scan": plan.is_scan(),
            "text": plan.to_string(),
        });
        self.shared.plans.insert_of(self.id("system")?, id, Arc::new(plan));
        Ok(described)
    }

    async fn list(&self) -> Answer {
        let on = self.on()?;
        let name = self.text("lifecycle")?;
        let lifecycle = on.lifecycle(name)?;
        let group = || on.group(name, &self.arguments["group"]);
        let mut listing: Listing<Entry> = match self.text("which")? {
            "due" => lifecycle.due(group()),
            "stuck" => lifecycle.stuck(group()),
            "state" => {
                let listing = lifecycle.in_state(self.text("state")?);
                if self.arguments["group"].is_null() { listing } else { listing.group(group()) }
            }
            other => return Err(Failure::misuse(format!("nothing is listed by `{other}`"))),
        };
        if let Some(duration) = self.optional_duration("olderThan")? {
            listing = listing.older_than(duration);
        }
        if self.flag("newestFirst") {
            listing = listing.newest_first();
        }
        if let Some(limit) = self.limit() {
            listing = listing.limit(limit);
        }
        if self.flag("strict") {
            listing = listing.strict();
        }
        let (found, left_out) = listing.with_unread().await?;
        let items: Vec<Json> = found.iter().map(|standing| on.standing(standing)).collect();
        Ok(json!({ "items": items, "unread": unread(&left_out) }))
    }

    async fn claim(&self) -> Answer {
        let on = self.on()?;
        let name = self.text("lifecycle")?;
        let mut claim = on.lifecycle(name)?.claim(on.group(name, &self.arguments["group"]));
        let others = list(&self.arguments["groups"]).iter().map(|group| on.group(name, group));
        claim = claim.groups(others).with(self.params()?);
        if let Some(duration) = self.optional_duration("olderThan")? {
            claim = claim.older_than(duration);
        }
        if let Some(take) = self.arguments["take"].as_u64().and_then(|take| usize::try_from(take).ok()) {
            claim = claim.take(take);
        }
        if let Some(owner) = self.arguments["owner"].as_str() {
            claim = claim.owner(owner);
        }
        if self.flag("strict") {
            claim = claim.strict();
        }
        let id = self.shared.next();
        self.shared.claims.insert_of(self.id("system")?, id, Arc::new(lease::Claims::new(claim.await?)));
        Ok(id.into())
    }

    async fn claim_next(&self) -> Answer {
        let on = self.on()?;
        let claims = self.shared.claims.get(self.id("claims")?).ok_or_else(closed)?;
        let lease = claims.lock().await.next().await?;
        match lease {
            Some(lease) => self.kept(&on, lease).await,
            None => Ok(Json::Null),
        }
    }

    async fn hold(&self) -> Answer {
        let on = self.on()?;
        let lifecycle = on.lifecycle(self.text("lifecycle")?)?;
        let lease = match self.arguments["transition"].as_str() {
            Some(transition) => lifecycle.hold_by(self.key()?, transition, self.params()?).await?,
            None => lifecycle.hold(self.key()?).await?,
        };
        self.kept(&on, lease).await
    }

    /// Keeps a lease for JavaScript, or gives it back when nobody is left to have it.
    async fn kept(&self, on: &On, lease: larder::Lease<Entry>) -> Answer {
        let id = self.shared.next();
        let json = json!({
            "id": id,
            "record": on.entry(&lease),
            "fence": lease.fence(),
            "owner": lease.owner(),
            "attempts": lease.attempts(),
        });
        self.shared.leases.insert_of(self.id("system")?, id, Handle::keep(&self.shared, id, lease));
        // In this order: a bridge that goes away lets go of its systems first, of its leases afterwards.
        if let Err(closed) = self.system() {
            if let Some(handle) = self.shared.leases.remove(id) {
                // If that fails it is somebody else's when its time is over.
                let _ = handle.ask(Order::Release).await;
            }
            return Err(closed);
        }
        Ok(json)
    }

    async fn lease(&self) -> Answer {
        let over = || Failure::misuse("the lease is over: it was finished, released or given back");
        let (id, what) = (self.id("lease")?, self.text("do")?);
        // What ends a lease takes it before anything can fail: one that JavaScript has done with is not renewed any more.
        let handle = match what {
            "renew" | "until" => self.shared.leases.get(id),
            _ => self.shared.leases.remove(id),
        };
        // A closed system has let go of its leases.
        let on = self.on()?;
        let handle = handle.ok_or_else(over)?;
        let order = match what {
            "renew" => Order::Renew,
            "until" => Order::Until,
            "finish" => Order::Finish,
            "run" => Order::Run(self.text("transition")?.to_owned(), self.params()?),
            "release" => Order::Release,
            "retry" => Order::Retry(self.text("error")?.to_owned()),
            other => return Err(Failure::misuse(format!("a lease does not know `{other}`"))),
        };
        Ok(match handle.ask(order).await.ok_or_else(over)?? {
            Done::Record(entry) => on.entry(&entry),
            Done::Until(until) => until.into(),
            Done::Nothing => Json::Null,
        })
    }
}

/// The members of a collection: lists of them by entity.
fn collected(shared: &Shared, system: u32, json: &Json) -> Result<Vec<(String, Fields)>, Failure> {
    let mut all = Vec::new();
    for (entity, records) in members(json) {
        let on = On::find(shared, system, entity)?;
        for record in list(records) {
            all.push((entity.clone(), on.given(record)?));
        }
    }
    Ok(all)
}

fn load(path: &Path, environment: &Environment) -> Result<Schema, Failure> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let text = read(path).map_err(Failure::Schema)?;
    let loaded = Schema::load(&path.display().to_string(), &text, &mut Beside(path.to_owned()), environment);
    loaded.schema.ok_or_else(|| {
        let errors: Vec<Diagnostic> = loaded.diagnostics.into_iter().filter(Diagnostic::is_error).collect();
        Failure::Schema(render_all(&errors, &loaded.files, Colour::Plain))
    })
}

/// Gives included files from beside the one that was asked for.
struct Beside(PathBuf);

impl Files for Beside {
    fn load(&mut self, path: &str) -> Result<String, String> {
        let path = self.0.parent().map_or_else(|| PathBuf::from(path), |directory| directory.join(path));
        std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    }
}

fn closed() -> Failure {
    Failure::misuse("it is closed")
}

fn done(outcome: Result<(), Error>) -> Answer {
    outcome?;
    Ok(Json::Null)
}

fn members(json: &Json) -> impl Iterator<Item = (&String, &Json)> {
    json.as_object().into_iter().flatten()
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[][..], Vec::as_slice)
}

fn texts(json: &Json) -> impl Iterator<Item = &str> {
    list(json).iter().filter_map(Json::as_str)
}

/// One for each that was asked: what came of it, or why it failed.
fn outcomes(all: impl Iterator<Item = Result<Json, Error>>) -> Json {
    all.map(|one| match one {
        Ok(value) => json!({ "value": value }),
        Err(error) => json!({ "error": error_json(&error) }),
    })
    .collect()
}

fn written(on: &On, put: Put<Entry>) -> Json {
    let (changed, failed) = (put.changed(), put.store_error().map(error_json));
    json!({ "record": on.entry(&put.into_record()), "changed": changed, "storeError": failed })
}

fn origin<T>(about: &mut Map<String, Json>, fetched: &Fetched<T>) {
    let (origin, reason, cause) = match fetched.origin() {
        Origin::L1 => ("l1", None, None),
        Origin::Store => ("store", None, None),
        Origin::Source => ("source", None, None),
        Origin::Stale(StaleReason::Refreshing) => ("stale", Some("refreshing"), None),
        Origin::Stale(StaleReason::SlowSource) => ("stale", Some("slow_source"), None),
        Origin::Stale(StaleReason::SourceFailed(cause)) => ("stale", Some("source_failed"), Some(cause)),
        other => unreachable!("the layer has no origin {other}"),
    };
    about.insert("origin".to_owned(), origin.into());
    if let Some(reason) = reason {
        about.insert("staleReason".to_owned(), reason.into());
    }
    if let Some(cause) = cause {
        about.insert("staleCause".to_owned(), cause.to_string().into());
    }
    about.insert("storedAt".to_owned(), fetched.stored_at().millis().into());
    about.insert("age".to_owned(), json!(fetched.age().as_millis() as u64));
    if let Some(error) = fetched.store_error() {
        about.insert("storeError".to_owned(), error_json(error));
    }
}

fn miss(why: &Why) -> Json {
    match why {
        Why::Absent => json!({ "miss": "absent" }),
        Why::Expired => json!({ "miss": "expired" }),
        Why::Unreachable(error) => json!({ "miss": "unreachable", "error": error_json(error) }),
        other => unreachable!("the layer has no miss {other}"),
    }
}

fn unread(unread: &Unread) -> Json {
    let first = unread.first.as_ref().map(|first| json!({ "key": first.key, "why": first.why }));
    json!({ "count": unread.count, "first": first })
}

fn stats(stats: &Stats) -> Json {
    json!({
        "hits": stats.hits,
        "misses": stats.misses,
        "hitRate": stats.hit_rate(),
        "callsSaved": stats.calls_saved,
        "loads": stats.loads,
        "loadFailures": stats.load_failures,
        "storeErrors": stats.store_errors,
        "writes": stats.writes,
        "writesLost": stats.writes_lost,
        "unread": stats.unread,
        "dollarsSaved": stats.dollars_saved(),
        "dollarsSpent": stats.dollars_spent(),
    })
}

pub(crate) fn drained(drained: &Drained) -> Json {
    let unwritten: Vec<Json> = drained
        .unwritten()
        .iter()
        .map(|one| json!({ "entity": one.entity, "key": one.key, "reason": one.reason }))
        .collect();
    json!({
        "written": drained.written(),
        "waiting": drained.waiting(),
        "lost": drained.lost(),
        "unwritten": unwritten,
    })
}

/// What was not written, for people.
pub(crate) fn drained_text(drained: &Drained) -> String {
    let which: Vec<String> = drained.unwritten().iter().map(ToString::to_string).collect();
    format!("{} writes behind were not written: {}", drained.waiting() + drained.lost(), which.join("; "))
}
