//! `larder bench lunch`: the load tests that the document lists: a thousand reads at once, batch writes, index
//! queries.

use clap::Args;
use larder::{Error, Look, Loose, Number, Origin, Store};
use larder_examples::lunch::{self, Lunch as Dish, LunchSystem, NewMenu, Weekday};
use larder_examples::source::lunch::new_menu;
use serde_json::json;

use super::timing::{self, Times, millis};
use super::{Options, Outcome, PATIENCE, environment};
use crate::commands::plan;
use crate::data::table;

/// What one request of a batch write may hold.
const BATCH: usize = 25;
const DISHES: usize = 15;
const WEEKS: usize = 52;
const RESTAURANTS: usize = 10;
const FIRST_YEAR: i64 = 2025;
const QUERIES: usize = 200;
const QUERIES_AT_ONCE: usize = 50;
const HISTORY: usize = 10;

const ABOUT: &str = "\
Ours is from the moment a request is let in to its answer, in this process, with
menus of 15 dishes; a query gives the 10 newest of a restaurant. The document
has no measurements: it lists these tests, and calls it an alarm when the
average is above 100 ms for five minutes.
";
/// By the document, in milliseconds.
const ALARM: f64 = 100.0;

/// Read 1000 menus at once, write them in batches, and query a restaurant's history
#[derive(Debug, Args)]
pub(super) struct Lunch {
    #[command(flatten)]
    pub(super) options: Options,
    /// How many menus are written, and read at once
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=9000))]
    reads: u32,
}

/// What one test came to.
struct Test {
    name: String,
    id: &'static str,
    times: Times,
    /// Menus that were written or read in all.
    menus: usize,
    faults: Vec<String>,
}

impl Lunch {
    pub(super) fn measure(&self) -> Result<Outcome, String> {
        plan::runtime()?.block_on(async {
            let (store, _directory) = self.options.open(lunch::schema()).await?;
            let tests = self.tests(store).await.map_err(|error| error.to_string())?;
            Ok(self.outcome(tests))
        })
    }

    async fn tests(&self, store: Store) -> Result<Vec<Test>, Error> {
        let open = || LunchSystem::open_with(store.clone(), environment());
        let mut tests = vec![self.write(&open().await?).await];
        // A program that has read nothing yet has nothing in L1.
        let reader = open().await?;
        tests.push(self.read(&reader, "read_store", Origin::Store).await);
        tests.push(self.read(&reader, "read_l1", Origin::L1).await);
        tests.push(self.query(&reader).await);
        let gone = reader.menus().delete_many(self.keys()).await;
        gone.into_iter().try_for_each(|(_, gone)| gone)?;
        Ok(tests)
    }

    fn keys(&self) -> impl Iterator<Item = (String, i64, i64)> {
        (0..self.reads as usize).map(|at| {
            let (restaurant, week) = (at % RESTAURANTS, at / RESTAURANTS);
            let year = FIRST_YEAR + (week / WEEKS) as i64;
            (format!("restaurant{restaurant}"), year, (week % WEEKS) as i64 + 1)
        })
    }

    /// Batches, one after another.
    async fn write(&self, lunch: &LunchSystem) -> Test {
        let menus: Vec<NewMenu> = self.keys().map(|(name, year, week)| menu(&name, year, week)).collect();
        let count = menus.len();
        let batches: Vec<Vec<NewMenu>> = menus.chunks(BATCH).map(<[NewMenu]>::to_vec).collect();
        let jobs = batches.into_iter().map(|batch| {
            let lunch = lunch.clone();
            async move { lunch.menus().put_many(batch).await.into_iter().filter(Result::is_err).count() }
        });
        let (times, failed) = timing::all_at_once(jobs, 1).await;
        let failed: usize = failed.into_iter().sum();
        Test {
            name: format!("batch writes of {BATCH}"),
            id: "batch_write",
            times,
            menus: count,
            faults: wrong("menus were written", count, count - failed),
        }
    }

    /// Everything at once.
    async fn read(&self, lunch: &LunchSystem, id: &'static str, from: Origin) -> Test {
        let before = lunch.menus().stats();
        let jobs = self.keys().map(|(name, year, week)| {
            let (lunch, from) = (lunch.clone(), from.clone());
            async move {
                let looked = larder::at_most(PATIENCE, lunch.menus().look((&*name, year, week))).await;
                matches!(looked, Look::Hit(menu) if *menu.origin() == from && menu.lunches.len() == DISHES)
            }
        });
        let count = self.reads as usize;
        let (times, found) = timing::all_at_once(jobs, count).await;
        let after = lunch.menus().stats();
        let found = found.into_iter().filter(|found| *found).count();
        let mut faults = wrong(&format!("reads were answered by {from}"), count, found);
        faults.extend(wrong("reads were hits", count, (after.hits - before.hits) as usize));
        faults.extend(wrong("reads were misses", 0, (after.misses - before.misses) as usize));
        let place = if from == Origin::L1 { "L1" } else { "the store" };
        Test { name: format!("{count} reads at once, of {place}"), id, times, menus: found, faults }
    }

    /// The newest menus of a restaurant, by the index.
    async fn query(&self, lunch: &LunchSystem) -> Test {
        let jobs = (0..QUERIES).map(|at| {
            let (lunch, name) = (lunch.clone(), format!("restaurant{}", at % RESTAURANTS));
            async move {
                lunch
                    .menus()
                    .history(&*name)
                    .newest_first()
                    .limit(HISTORY)
                    .all()
                    .await
                    .map_or(0, |all| all.len())
            }
        });
        let (times, found) = timing::all_at_once(jobs, QUERIES_AT_ONCE).await;
        let kept = |restaurant| (self.reads as usize + RESTAURANTS - 1 - restaurant) / RESTAURANTS;
        let wanted = (0..QUERIES).map(|at| kept(at % RESTAURANTS).min(HISTORY)).sum();
        let menus = found.into_iter().sum();
        Test {
            name: format!("index queries, {QUERIES_AT_ONCE} at a time"),
            id: "index_query",
            times,
            menus,
            faults: wrong("menus were found by the index", wanted, menus),
        }
    }

    fn outcome(&self, tests: Vec<Test>) -> Outcome {
        let names = ["", "requests", "P50", "P90", "P99", "mean", "alarm", "menus a second"];
        let per_second = |test: &Test| test.menus as f64 / test.times.whole.as_secs_f64().max(1e-9);
        let rows = tests.iter().map(|test| {
            let mut row = vec![test.name.clone(), test.times.count().to_string()];
            row.extend(test.times.figures().map(millis));
            row.extend([millis(ALARM), format!("{:.0}", per_second(test))]);
            row
        });
        let head = format!("{} menus on {}\n\n", self.reads, self.options.place());
        let text = format!("{head}{}\n{ABOUT}", table(&names.map(str::to_owned), rows.collect()));
        let json = tests.iter().map(|test| {
            json!({
                "test": test.id,
                "requests": test.times.count(),
                "menus": test.menus,
                "menus_per_second": per_second(test),
                "ours": test.times.json(),
            })
        });
        let json = json!({
            "menus": self.reads,
            "store": self.options.place(),
            "alarm_mean_ms": ALARM,
            "tests": json.collect::<Vec<_>>(),
        });
        Outcome { text, json, faults: tests.into_iter().flat_map(|test| test.faults).collect() }
    }
}

fn wrong(what: &str, wanted: usize, found: usize) -> Vec<String> {
    if wanted == found { Vec::new() } else { vec![format!("{found} {what}, and not {wanted}")] }
}

pub(super) fn menu(restaurant: &str, year: i64, week: i64) -> NewMenu {
    let dishes = (0..DISHES).map(|at| Dish {
        name: format!("Dagens {at}"),
        description: "med kokt potatis, gräddsås, lingon och pressgurka".to_owned(),
        price: Number::from(115 + at as i64),
        weekday: Weekday::ALL[at % 5],
        week,
        place: restaurant.to_owned(),
    });
    new_menu(restaurant, year, week, Loose::each(dishes))
}
