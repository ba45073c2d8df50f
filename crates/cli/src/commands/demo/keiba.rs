//! Keiba: visitors look up a day's races, and then horses and jockeys.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use larder::jiff::civil::Date;
use larder::jiff::tz::{self, TimeZone};
use larder::serde_json::json;
use larder::{Environment, Store};
use larder_examples::keiba::{Keiba, NewRace, RaceCard};
use larder_examples::origin::{Manners, Origin};
use larder_examples::source::netkeiba::Netkeiba;
use tokio::task::JoinSet;

use super::Fault;
use super::world::{Part, Tally, World, see_out, stateless};

pub(super) const NAME: &str = "keiba";
const MANNERS: Manners = Manners {
    delay: Duration::from_millis(80),
    spread: Duration::from_millis(120),
    error_rate: 0.03,
    per_second: Some(30),
};
const VISIT_EVERY: Duration = Duration::from_millis(120);
const VISITORS_MAX: usize = 64;
/// So many make a race too large for one item.
const ARCHIVE_HORSES: u32 = 900;

#[derive(Clone, Debug)]
pub(super) struct Visitors {
    keiba: Keiba,
    site: Netkeiba,
    tally: Arc<Tally>,
}

pub(super) async fn open(store: &Store) -> Result<(Part, Visitors), Fault> {
    let origin = Origin::start(MANNERS).await?;
    origin.widen();
    let site = Netkeiba::new(&origin.url(), &origin.url())?;
    let keiba = Keiba::open_with(store.clone(), Environment::new()).await?;
    let tally = Arc::<Tally>::default();
    let counted = site.clone();
    let part = Part {
        name: NAME,
        system: (*keiba).clone(),
        origin,
        tally: Some(Arc::clone(&tally)),
        sent: Box::new(move || (counted.calls(), counted.waits())),
        states: stateless,
    };
    Ok((part, Visitors { keiba, site, tally }))
}

impl Visitors {
    pub(super) async fn run(self, world: World) {
        let mut random = world.random(NAME);
        let mut visits = JoinSet::new();
        let mut day = None;
        while world.pause(VISIT_EVERY).await {
            see_out(&mut visits);
            let today = self.keiba.now().to_zoned(TimeZone::fixed(tz::offset(9))).date();
            let before = day.replace(today);
            let day_began = before != Some(today);
            if day_began && before.is_some() {
                world.tell(NAME, format!("{today} has begun in Tokyo: its races are read"));
            }
            if day_began {
                visits.spawn(self.clone().archive(today, world.clone()));
            }
            if visits.len() < VISITORS_MAX {
                visits.spawn(self.clone().visit(today, random.fork()));
            }
        }
        visits.join_all().await;
    }

    /// A race with a long past is over 400 KB, and several items hold it.
    async fn archive(self, date: Date, world: World) -> Option<()> {
        let id = format!("{}99", date.strftime("%Y%m%d"));
        let past = "a race of another year, told at length; ".repeat(16);
        let horses = (0..ARCHIVE_HORSES).map(|number| json!({"number": number, "past": past})).collect();
        self.keiba.races().put(NewRace::new(&id, RaceCard::new(horses))).await.ok()?;
        world.tell(
            NAME,
            format!("race {id} comes with its past, over 400 KB: it is split over several items"),
        );
        Some(())
    }

    /// A race of the day, two of its horses, and who rides the first of them.
    async fn visit(self, date: Date, mut random: Rng) -> Option<()> {
        let (keiba, tally) = (&self.keiba, &self.tally);
        let (site, call) = (self.site.clone(), tally.call());
        let load = call.around(move |date| {
            let site = site.clone();
            async move { site.day(date).await }
        });
        let day = call.ended(keiba.race_days().fetch(date, load).await)?;

        // The later races of a day are the popular ones.
        let at = random.usize(..day.data.len()).max(random.usize(..day.data.len()));
        let (site, call) = (self.site.clone(), tally.call());
        let load = call.around(move |id: String| {
            let site = site.clone();
            async move { site.race(&id).await }
        });
        let race = call.ended(keiba.races().fetch(&*day.data[at].race_id, load).await)?;

        let first = random.usize(..race.data.horses.len());
        for runner in race.data.horses.iter().cycle().skip(first).take(2) {
            let (site, call) = (self.site.clone(), tally.call());
            let load = call.around(move |id: String| {
                let site = site.clone();
                async move { site.horse(&id).await }
            });
            call.ended(keiba.horses().fetch(runner["horse_id"].as_str()?, load).await);
        }
        let (site, call) = (self.site.clone(), tally.call());
        let load = call.around(move |id: String| {
            let site = site.clone();
            async move { site.jockey(&id).await }
        });
        call.ended(keiba.jockeys().fetch(race.data.horses[first]["jockey_id"].as_str()?, load).await);
        Some(())
    }
}
