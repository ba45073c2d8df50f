//! Lunch: people look at the menu of a week; what is not kept is read from the restaurant. Cooks change their minds.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use larder::{Environment, Look, Loose, Store};
use larder_examples::lunch::LunchSystem;
use larder_examples::origin::{Manners, Origin};
use larder_examples::source::lunch::{Restaurants, new_menu};
use tokio::task::JoinSet;

use super::Fault;
use super::world::{Part, Tally, World, see_out, stateless};

pub(super) const NAME: &str = "lunch";
/// Where a menu's item says what is wrong with it.
pub(super) const FAULTS: &str = "validationErrors";
const MANNERS: Manners = Manners {
    delay: Duration::from_millis(100),
    spread: Duration::from_millis(200),
    error_rate: 0.05,
    per_second: None,
};
const LOOK_EVERY: Duration = Duration::from_millis(80);
const GUESTS_MAX: usize = 64;
/// Every so many changes are mistaken.
const CHANGES_PER_SLIP: u32 = 3;
/// Every so many guests a cook has changed the menu.
const GUESTS_PER_CHANGE: u32 = 40;
const RESTAURANTS: [&str; 10] = [
    "niagara",
    "kajen",
    "hamnen",
    "kvarnen",
    "stationen",
    "torget",
    "lanternan",
    "bryggan",
    "linden",
    "hornet",
];

#[derive(Clone, Debug)]
pub(super) struct Guests {
    lunch: LunchSystem,
    source: Restaurants,
    tally: Arc<Tally>,
}

pub(super) async fn open(store: &Store) -> Result<(Part, Guests), Fault> {
    let origin = Origin::start(MANNERS).await?;
    origin.widen();
    let source = Restaurants::new(&origin.url())?;
    let lunch = LunchSystem::open_with(store.clone(), Environment::new()).await?;
    let tally = Arc::<Tally>::default();
    let counted = source.clone();
    let part = Part {
        name: NAME,
        system: (*lunch).clone(),
        origin,
        tally: Some(Arc::clone(&tally)),
        sent: Box::new(move || (counted.calls(), counted.waits())),
        states: stateless,
    };
    Ok((part, Guests { lunch, source, tally }))
}

impl Guests {
    pub(super) async fn run(self, world: World) {
        let mut random = world.random(NAME);
        let mut guests = JoinSet::new();
        while world.pause(LOOK_EVERY).await {
            see_out(&mut guests);
            if guests.len() >= GUESTS_MAX {
                continue;
            }
            if random.u32(..GUESTS_PER_CHANGE) == 0 {
                guests.spawn(self.clone().change(world.clone(), random.fork()));
            } else {
                guests.spawn(self.clone().look(random.fork()));
            }
        }
        guests.join_all().await;
    }

    /// A restaurant, and this week or the next.
    fn choose(&self, random: &mut Rng) -> (&'static str, i64, i64) {
        let restaurant = RESTAURANTS[random.usize(..RESTAURANTS.len())];
        let date = self.lunch.now().to_zoned(larder::jiff::tz::TimeZone::UTC).date();
        let week = date.saturating_add(larder::jiff::Span::new().weeks(random.i64(0..2))).iso_week_date();
        (restaurant, week.year().into(), week.week().into())
    }

    /// Cache-aside: who misses reads the page and keeps it.
    async fn look(self, mut random: Rng) {
        let key = self.choose(&mut random);
        match self.lunch.menus().look(key).await {
            Look::Hit(menu) => self.tally.add(|counts| *counts.of(menu.origin()) += 1),
            Look::Miss(_) => {
                self.tally.call().make();
                match self.keep(key, false).await {
                    Ok(true) => self.tally.add(|counts| counts.source += 1),
                    Ok(false) => self.tally.add(|counts| counts.absent += 1),
                    Err(fault) => self.tally.fail(&fault),
                }
            }
        }
    }

    /// Reads a menu and keeps it; false when the restaurant has none. A cook who slips writes a price that cannot be.
    async fn keep(&self, (restaurant, year, week): (&str, i64, i64), slip: bool) -> Result<bool, Fault> {
        let Some(mut lunches) = self.source.menu(restaurant, week).await? else { return Ok(false) };
        if let Some(Loose::Fits(lunch)) = lunches.first_mut().filter(|_| slip) {
            lunch.price = (-1_i64).into();
        }
        self.lunch.menus().put(new_menu(restaurant, year, week, lunches)).await?;
        Ok(true)
    }

    async fn change(self, world: World, mut random: Rng) {
        let key = self.choose(&mut random);
        let slip = random.u32(..CHANGES_PER_SLIP) == 0;
        if matches!(self.keep(key, slip).await, Ok(true)) {
            let how = if slip { "wrongly: it is kept, with what is wrong" } else { "and it is kept" };
            world.tell(NAME, format!("{} changes its menu of week {} {how}", key.0, key.2));
        }
    }
}
