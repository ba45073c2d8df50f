//! Shops: new ones are found, workers crawl and scrape what is due. Some workers die, and others take over.

use std::time::Duration;

use fastrand::Rng;
use larder::{Environment, Lease, Lifecycle, Store};
use larder_examples::origin::{Manners, Origin};
use larder_examples::shops::{NewShop, Shop, Shops};
use larder_examples::source::shop::Shopfront;
use larder_model::{AttributeValue, Item};
use tokio::task::JoinSet;

use super::Fault;
use super::world::{Part, World};

pub(super) const NAME: &str = "shops";
pub(super) const CRAWL: &str = "crawl";
pub(super) const SCRAPE: &str = "scrape";
const MANNERS: Manners = Manners {
    delay: Duration::from_millis(60),
    spread: Duration::from_millis(100),
    error_rate: 0.03,
    per_second: Some(40),
};
const FIRST: usize = 8;
const SHOPS_MAX: usize = 96;
const FIND_EVERY: Duration = Duration::from_millis(900);
const WORKERS: [(&str, &str); 5] = [
    ("crawler one", CRAWL),
    ("crawler two", CRAWL),
    ("crawler three", CRAWL),
    ("scraper one", SCRAPE),
    ("scraper two", SCRAPE),
];
const IDLE: Duration = Duration::from_millis(300);
/// One claim in so many ends with its worker.
const CLAIMS_PER_DEATH: u32 = 12;
const COUNTRIES: [&str; 3] = ["DE", "AT", "CH"];
const TRADES: [&str; 12] = [
    "antik",
    "silber",
    "uhren",
    "moebel",
    "porzellan",
    "glas",
    "bilder",
    "teppich",
    "muenzen",
    "buecher",
    "lampen",
    "spielzeug",
];

#[derive(Clone, Debug)]
pub(super) struct Workers {
    shops: Shops,
    front: Shopfront,
}

pub(super) async fn open(store: &Store) -> Result<(Part, Workers), Fault> {
    let origin = Origin::start(MANNERS).await?;
    let front = Shopfront::new(&origin.url())?;
    let shops = Shops::open_with(store.clone(), Environment::new()).await?;
    let counted = front.clone();
    let part = Part {
        name: NAME,
        system: (*shops).clone(),
        origin,
        tally: None,
        sent: Box::new(move || (counted.calls(), counted.waits())),
        states,
    };
    Ok((part, Workers { shops, front }))
}

/// Both lifecycles of a shop. In progress after its lease has run out means stuck.
fn states(item: &Item, now_seconds: i64) -> Vec<(&'static str, &'static str)> {
    let state = |lifecycle, attribute, until| {
        let text = item.get(attribute)?.as_str()?;
        let until = item.get(until).and_then(AttributeValue::as_number).and_then(larder::Number::to_i64);
        let state = match text.split('#').next()? {
            "NEVER" => "never",
            "PROGRESS" if until.is_some_and(|until| until < now_seconds) => "stuck",
            "PROGRESS" => "progress",
            "DONE" => "done",
            _ => return None,
        };
        Some((lifecycle, state))
    };
    let both = [state(CRAWL, "gsi2_sk", "crawl_until"), state(SCRAPE, "gsi3_sk", "scrape_until")];
    both.into_iter().flatten().collect()
}

impl Workers {
    pub(super) async fn run(self, world: World) {
        let mut all = JoinSet::new();
        all.spawn(self.clone().find(world.clone()));
        for (name, lifecycle) in WORKERS {
            all.spawn(self.clone().work(world.clone(), name, lifecycle));
        }
        all.join_all().await;
    }

    async fn find(self, world: World) {
        for at in 0..SHOPS_MAX {
            let number = at / TRADES.len();
            let trade = TRADES[at % TRADES.len()];
            let domain =
                if number == 0 { format!("{trade}.example") } else { format!("{trade}{number}.example") };
            let country = COUNTRIES[at % COUNTRIES.len()].to_owned();
            let shop = NewShop { country: Some(country), ..NewShop::new(domain) };
            match self.shops.shops().create(shop).await {
                Ok(_) | Err(larder::Error::Exists { .. }) => {}
                Err(error) => world.tell(NAME, error.to_string()),
            }
            if at >= FIRST && !world.pause(FIND_EVERY).await {
                return;
            }
        }
    }

    async fn work(self, world: World, name: &'static str, lifecycle: &'static str) {
        let mut random = world.random(name);
        while world.pause(IDLE).await {
            let of_shops = self.shops.shops().lifecycle(lifecycle).expect("the schema has both");
            let worked = self.shift(&world, name, lifecycle, &of_shops, &mut random).await;
            if let Err(fault) = worked {
                world.tell(NAME, fault.to_string());
            }
        }
    }

    /// Takes shops as long as some are due.
    async fn shift(
        &self,
        world: &World,
        name: &str,
        lifecycle: &str,
        of_shops: &Lifecycle<Shop>,
        random: &mut Rng,
    ) -> Result<(), Fault> {
        let [first, others @ ..] = COUNTRIES;
        let mut claims = of_shops.claim(first).groups(others).owner(name).await?;
        while !*world.over.borrow()
            && let Some(lease) = claims.next().await?
        {
            let domain = lease.domain.clone();
            if random.u32(..CLAIMS_PER_DEATH) == 0 {
                world.tell(NAME, format!("{name} dies with {domain}"));
                return Ok(());
            }
            let work =
                if lifecycle == CRAWL { self.crawl(&domain).await } else { self.scrape(&domain).await };
            self.end(world, name, lease, work).await?;
        }
        Ok(())
    }

    async fn end(
        &self,
        world: &World,
        name: &str,
        lease: Lease<Shop>,
        work: Result<usize, Fault>,
    ) -> Result<(), Fault> {
        let (domain, fence, attempts) = (lease.domain.clone(), lease.fence(), lease.attempts());
        let ended = match work {
            Ok(_) => lease.finish().await.map(drop),
            Err(error) => lease.retry(error).await,
        };
        match ended {
            Ok(()) if attempts > 1 => {
                world.tell(NAME, format!("{name} takes over {domain}, claim number {fence}"));
            }
            Ok(()) => {}
            Err(larder::Error::LeaseLost { .. }) => {
                world.tell(NAME, format!("{name} was too slow with {domain}: somebody else has it"));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Puts what a shop has, and counts the pages.
    async fn crawl(&self, domain: &str) -> Result<usize, Fault> {
        let urls = self.front.sitemap(domain).await?;
        for url in &urls {
            if let Some(offer) = self.front.page(url).await? {
                self.shops.pages().put(offer.at(domain, url.clone())).await?;
            }
        }
        Ok(urls.len())
    }

    /// Looks at the products again, and counts those that changed.
    async fn scrape(&self, domain: &str) -> Result<usize, Fault> {
        let mut changed = 0;
        for page in self.shops.pages().by_type(domain).begins_with("product").all().await? {
            if let Some(offer) = self.front.page(&page.url).await? {
                changed += usize::from(self.shops.pages().put(offer.at(domain, page.url)).await?.changed());
            }
        }
        Ok(changed)
    }
}
