//! Two programs that write, write behind, update, delete, invalidate and load the same few records at the same time, while answers
//! are lost.
//!
//! Each program has its own system on its own store; below both is one engine, reached as an embedded store or through the
//! SDK, whose own retries meet what an earlier try has done. Every text that is written says who wrote it, and its number.
//!
//! A failure prints the seed that replays its draws, if not its interleaving; `LARDER_SEED` runs that one alone.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod sources;
mod stores;
mod systems;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use larder::store::ops::{GetItem, ReturnCapacity};
use larder::store::{Inside, Lookback};
use larder::{Address, Entry, Error, Fields, Load, Shelf, Store, System, Value};
use larder_model::{ApiError, Item, TableName};
use parking_lot::Mutex;

use sources::{Cause, fields, page_key, pages, shelf, text_of};

const PAGES: usize = 3;
const STEPS: usize = 60;
const SEEDS: u64 = 12;
const LONG: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Embedded,
    Sdk,
}

/// An endpoint that carries out one request in ten and then fails to say so.
#[derive(Debug)]
struct Forgetful {
    below: Arc<dyn Inside>,
    random: Mutex<Option<Rng>>,
}

#[async_trait]
impl Inside for Forgetful {
    async fn answer(&self, target: &str, body: &[u8]) -> Result<Vec<u8>, ApiError> {
        let answer = self.below.answer(target, body).await?;
        let is_lost = self.random.lock().as_mut().is_some_and(|random| random.u32(..10) == 0);
        if is_lost { Err(ApiError::Internal { cause: "it was asked for".to_owned() }) } else { Ok(answer) }
    }

    async fn look_back(
        &self,
        table: &TableName,
        key: Option<Item>,
        before: Option<u64>,
        most: usize,
    ) -> Result<Lookback, larder::store::Error> {
        self.below.look_back(table, key, before, most).await
    }

    fn expiring(
        &self,
        table: &TableName,
        seconds: i64,
        most: usize,
    ) -> Result<Option<u64>, larder::store::Error> {
        self.below.expiring(table, seconds, most)
    }
}

/// One program.
#[derive(Clone)]
struct Program {
    name: char,
    store: Store,
    system: System,
    pages: Shelf<Entry>,
    forgetful: Option<Arc<Forgetful>>,
}

impl Program {
    async fn start(name: char, below: &Store, kind: Kind) -> Self {
        let (store, forgetful) = match kind {
            Kind::Embedded => {
                let engine = below.engine().unwrap().clone();
                (Store::sharing(engine, below.clock().clone(), format!("program {name}")), None)
            }
            Kind::Sdk => {
                let inside = below.inside().unwrap();
                let forgetful = Arc::new(Forgetful { below: inside, random: Mutex::new(None) });
                let lacks = below.lacks().await.unwrap().clone();
                let clock = below.clock().clone();
                let through: Arc<dyn Inside> = forgetful.clone();
                (Store::through(through, clock, format!("program {name}"), lacks), Some(forgetful))
            }
        };
        let store = store.observed();
        let text = pages("", "grace 1h").replace("pages-{stage}", "pages");
        let system = systems::open_text(&text, &store).await;
        let pages = shelf(&system, "Page");
        Self { name, store, system, pages, forgetful }
    }

    fn faults(&self, seed: u64) {
        self.store.faults().seed(seed).throttle(0.05).lose_answers(0.1);
        if let Some(forgetful) = &self.forgetful {
            *forgetful.random.lock() = Some(Rng::with_seed(seed));
        }
    }

    fn no_faults(&self) {
        self.store.faults().reset();
        if let Some(forgetful) = &self.forgetful {
            *forgetful.random.lock() = None;
        }
    }
}

/// What the store has, old or not; nothing, if it does not answer.
async fn stored_text(store: &Store, page: usize) -> Option<String> {
    let request = GetItem {
        table: TableName::new("pages").unwrap(),
        key: [("pk", format!("PAGE#{page}"))].into_iter().collect(),
        projection: None,
        consistent: true,
        capacity: ReturnCapacity::None,
    };
    let found = store.get_item(request).await.ok()??;
    found.get("text").and_then(|text| text.as_str()).map(str::to_owned)
}

fn key(page: usize) -> Fields {
    page_key(&page.to_string())
}

/// What a program did to a page.
#[derive(Clone, Debug)]
struct Event {
    by: char,
    /// `None` for a delete.
    text: Option<String>,
    began: u64,
    /// When it was answered; a write behind is written at some time after.
    ended: u64,
    is_behind: bool,
    /// Whether it took place: if it was not answered, perhaps.
    is_certain: bool,
    /// Loads lose against what others have written meanwhile.
    load: Option<Asked>,
}

/// What a load went by.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// When the source was asked; the store had been before.
    at: u64,
    /// Whether something was there then, as far as that can be told.
    has_seen: bool,
}

impl Event {
    /// A load that has seen something is not kept once anybody has written or removed it.
    fn is_overtaken_by(&self, other: &Self) -> bool {
        let is_direct = other.is_certain && other.load.is_none() && !other.is_behind;
        self.load.is_some_and(|asked| asked.has_seen && other.began > asked.at) && is_direct
    }
}

#[derive(Debug, Default)]
struct History {
    clock: AtomicU64,
    events: [Mutex<Vec<Event>>; PAGES],
}

impl History {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// The texts that a page may have in the end.
    fn possible(&self, page: usize) -> Vec<Event> {
        let events = self.events[page].lock();
        // What the same program did later, and certainly, takes its place, in whatever way either was written.
        let is_replaced = |one: &Event| {
            events.iter().any(|other| {
                if !other.is_certain || other.load.is_some() {
                    return false;
                }
                if one.is_overtaken_by(other) {
                    return true;
                }
                // What others write behind may have been overtaken already when it is written.
                other.began > one.ended && (other.by == one.by || !(one.is_behind || other.is_behind))
            })
        };
        events.iter().filter(|one| !is_replaced(one)).cloned().collect()
    }

    /// What a program itself did last to a page, as far as it may see it.
    fn check_own(&self, program: &Program, page: usize, found: Option<&str>, now: u64) {
        let Some(found) = found.filter(|text| text.starts_with(program.name)) else { return };
        let events = self.events[page].lock();
        let own: Vec<&Event> = events.iter().filter(|event| event.by == program.name).collect();
        let Some(at) = own.iter().position(|event| event.text.as_deref() == Some(found)) else { return };
        let newer =
            own[at + 1..].iter().find(|event| event.is_certain && event.load.is_none() && event.ended < now);
        assert!(newer.is_none(), "{found} was read after {newer:?}: {events:?}");
    }

    /// What the store holds was not loaded before something that it had by then.
    fn check_loads(&self, page: usize, found: Option<&str>, now: u64) {
        let events = self.events[page].lock();
        let Some(one) = events.iter().find(|one| found.is_some() && one.text.as_deref() == found) else {
            return;
        };
        let newer = events.iter().find(|other| other.ended < now && one.is_overtaken_by(other));
        assert!(newer.is_none(), "{one:?} is stored after {newer:?}: {events:?}");
    }
}

async fn run(program: Program, history: Arc<History>, mut random: Rng) {
    for step in 0..STEPS {
        let page = random.usize(..PAGES);
        let text = format!("{}{step}", program.name);
        let mut given = key(page);
        given.insert("text".to_owned(), Value::from(text.as_str()));
        let began = history.tick();
        let choice = random.u32(..18);
        if choice >= 17 {
            // All that is kept is old now, and is loaded again.
            program.store.clock().advance(Duration::from_secs(101));
            continue;
        }
        if choice >= 14 {
            let found = program.pages.get(key(page)).await;
            let found = found.ok().flatten().map(|found| text_of(&found.fields).to_owned());
            history.check_own(&program, page, found.as_deref(), began);
            let began = history.tick();
            history.check_loads(page, stored_text(&program.store, page).await.as_deref(), began);
            continue;
        }
        let (outcome, text, is_behind, load) = match choice {
            0 | 1 => (program.pages.put(given).await.map(drop), Some(text), false, None),
            2..=4 => (program.pages.put_behind(given).await.map(drop), Some(text), true, None),
            5 => (program.pages.delete(key(page)).await.map(drop), None, false, None),
            6 => {
                let many = program.pages.put_many([given]).await.pop().unwrap();
                (many.map(drop), Some(text), false, None)
            }
            7 => {
                let transaction = program.system.transaction().put(&program.pages, given);
                (transaction.run().await, Some(text), false, None)
            }
            8 => {
                let updated = program.pages.update(key(page)).set("text", text.clone()).await;
                // Where nothing is, nothing is changed.
                if matches!(updated, Err(Error::Missing { .. })) {
                    continue;
                }
                (updated.map(drop), Some(text), false, None)
            }
            9 => {
                let meant = program.pages.invalidate().by("id", page.to_string());
                let removed = match meant.plan().await {
                    Ok(plan) => plan.run().await.map(drop),
                    Err(error) => Err(error),
                };
                (removed, None, false, None)
            }
            _ => {
                let asked = Arc::new(Mutex::new(None));
                let load = {
                    let (asked, loaded, history) = (Arc::clone(&asked), text.clone(), Arc::clone(&history));
                    move |_: Fields, known: larder::Known| {
                        // Only what was loaded has an etag.
                        let has_seen = known.etag().is_some();
                        asked.lock().get_or_insert_with(|| Asked { at: history.tick(), has_seen });
                        let value = fields([("text", Value::from(loaded.as_str()))]);
                        async move {
                            tokio::time::sleep(Duration::from_millis(2)).await;
                            Ok::<_, Cause>(Load::value(value).etag("loaded"))
                        }
                    }
                };
                let fetched = program.pages.fetch_with(key(page), load).await;
                let asked = *asked.lock();
                match (fetched, asked) {
                    // It may be given without being kept.
                    (fetched, Some(asked)) => {
                        (Err(fetched.err().unwrap_or(not_kept())), Some(text), false, Some(asked))
                    }
                    (_, None) => continue,
                }
            }
        };
        let is_certain = outcome.is_ok();
        let ended = history.tick();
        let event = Event { by: program.name, text, began, ended, is_behind, is_certain, load };
        history.events[page].lock().push(event);
        if random.u32(..4) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

fn not_kept() -> Error {
    Error::NotAllowed("it is not known whether it was kept".to_owned())
}

async fn both(seed: u64, kind: Kind) {
    let below = Store::open(&Address::Memory).await.unwrap();
    let programs = [Program::start('a', &below, kind).await, Program::start('b', &below, kind).await];
    let history = Arc::new(History::default());
    let mut tasks = Vec::new();
    for (number, program) in (0..).zip(&programs) {
        program.faults(seed * 2 + number);
        let random = Rng::with_seed(seed * 31 + number);
        tasks.push(tokio::spawn(run(program.clone(), Arc::clone(&history), random)));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for program in &programs {
        program.no_faults();
        program.system.drain(LONG).await.expect_empty();
    }
    for page in 0..PAGES {
        let found = stored_text(&below, page).await;
        let possible = history.possible(page);
        let is_possible = possible.iter().any(|event| event.text == found);
        let is_untouched = found.is_none() && possible.iter().all(|event| !event.is_certain);
        assert!(
            is_possible || is_untouched,
            "page {page} is {found:?}, and may be {possible:#?} after {:#?}",
            history.events[page]
        );
    }
}

fn seeds() -> Vec<u64> {
    match std::env::var("LARDER_SEED").ok().and_then(|text| text.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..SEEDS).collect(),
    }
}

#[test]
fn an_older_write_never_lands_on_a_newer_one_of_the_same_program_or_an_answered_one_of_another() {
    // All at once: mostly they wait to try again.
    std::thread::scope(|scope| {
        let runs = [Kind::Embedded, Kind::Sdk].into_iter().flat_map(|kind| {
            let run = move |seed| (kind, seed, scope.spawn(move || stores::run(both(seed, kind))));
            seeds().into_iter().map(run)
        });
        for (kind, seed, run) in runs.collect::<Vec<_>>() {
            if let Err(panic) = run.join() {
                eprintln!("LARDER_SEED={seed} {kind:?}");
                resume_unwind(panic);
            }
        }
    });
}
