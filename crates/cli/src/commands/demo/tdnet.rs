//! TDnet: a collector works through the days, newest first, and exports what it has.

use std::time::Duration;

use fastrand::Rng;
use larder::jiff::ToSpan;
use larder::jiff::civil::{Date, Time};
use larder::jiff::tz::{self, TimeZone};
use larder::{Environment, Store};
use larder_examples::origin::{Manners, Origin};
use larder_examples::source::tdnet::{Listed, Tdnet as Site};
use larder_examples::tdnet::{NewExecution, NewExport, Tdnet};
use larder_model::{AttributeValue, Item};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::Fault;
use super::world::{Part, World, see_out};

pub(super) const NAME: &str = "tdnet";
pub(super) const EXECUTIONS: &str = "executions";
pub(super) const EXPORTS: &str = "exports";
const MANNERS: Manners = Manners {
    delay: Duration::from_millis(100),
    spread: Duration::from_millis(150),
    error_rate: 0.06,
    per_second: Some(8),
};
const RUN_EVERY: Duration = Duration::from_millis(1200);
const RUNS_MAX: usize = 8;
const EXPORT_EVERY: i32 = 4;
/// How far back it goes before it begins again.
const DAYS: i32 = 60;
/// What a record of the list, and a part of an export, take besides.
const STEP: Duration = Duration::from_millis(120);

#[derive(Clone, Debug)]
pub(super) struct Collector {
    tdnet: Tdnet,
    site: Site,
}

pub(super) async fn open(store: &Store) -> Result<(Part, Collector), Fault> {
    let origin = Origin::start(MANNERS).await?;
    origin.widen();
    let site = Site::new(&origin.url())?;
    let tdnet = Tdnet::open_with(store.clone(), Environment::new()).await?;
    let counted = site.clone();
    let part = Part {
        name: NAME,
        system: (*tdnet).clone(),
        origin,
        tally: None,
        sent: Box::new(move || (counted.calls(), counted.waits())),
        states,
    };
    Ok((part, Collector { tdnet, site }))
}

fn states(item: &Item, _: i64) -> Vec<(&'static str, &'static str)> {
    let lifecycle = match (item.contains("execution_id"), item.contains("export_id")) {
        (true, _) => EXECUTIONS,
        (_, true) => EXPORTS,
        _ => return Vec::new(),
    };
    let known = ["pending", "running", "processing", "completed", "failed"];
    let state = item.get("status").and_then(AttributeValue::as_str);
    let state = known.into_iter().find(|known| Some(*known) == state);
    state.map(|state| (lifecycle, state)).into_iter().collect()
}

impl Collector {
    pub(super) async fn run(self, world: World) {
        let mut random = world.random(NAME);
        let mut runs = JoinSet::new();
        for number in 0.. {
            see_out(&mut runs);
            if runs.len() < RUNS_MAX {
                let (this, world, random) = (self.clone(), world.clone(), random.fork());
                runs.spawn(async move {
                    if let Err(fault) = this.work(&world, number, random).await {
                        world.tell(NAME, fault.to_string());
                    }
                });
            }
            if !world.pause(RUN_EVERY).await {
                break;
            }
        }
        runs.join_all().await;
    }

    async fn work(&self, world: &World, number: i32, mut random: Rng) -> Result<(), Fault> {
        let today = self.tdnet.now().to_zoned(TimeZone::fixed(tz::offset(9))).date();
        let date = today.checked_sub((number % DAYS).days())?;
        self.collect(world, date, id(&mut random)).await?;
        if number % EXPORT_EVERY == EXPORT_EVERY - 1 {
            self.export(date, id(&mut random)).await?;
        }
        Ok(())
    }

    /// One run. Whatever becomes of it, the run says so.
    async fn collect(&self, world: &World, date: Date, id: Uuid) -> Result<(), Fault> {
        let executions = self.tdnet.executions();
        let run = executions.create(NewExecution::new(id)).await?.start().await?;
        let listed = match self.site.day(date).await {
            Ok(listed) => listed,
            Err(error) => {
                world.tell(NAME, format!("the run for {date} fails: the site answers with an error"));
                run.fail(error.to_string()).await?;
                return Ok(());
            }
        };
        let (mut new, mut refused) = (0, 0);
        for (at, entry) in (1..).zip(&listed) {
            tokio::time::sleep(STEP).await;
            let mut update = executions.update(run.key()).progress(at * 100 / listed.len() as i64);
            if !self.is_known(entry, date).await? {
                match self.tdnet.disclosures().create(entry.disclosure(self.tdnet.now())).await {
                    Ok(_) => {
                        update = update.add_success_count(1);
                        new += 1;
                    }
                    Err(larder::Error::Invalid(_)) => {
                        update = update.add_failed_count(1);
                        refused += 1;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            update.await?;
        }
        run.complete().await?;
        if !listed.is_empty() {
            world.tell(NAME, format!("{date}: {} listed, {new} new, {refused} refused", listed.len()));
        }
        Ok(())
    }

    async fn is_known(&self, entry: &Listed, date: Date) -> Result<bool, Fault> {
        let midnight =
            |date: Date| TimeZone::fixed(tz::offset(9)).to_timestamp(date.to_datetime(Time::midnight()));
        let (start, end) = (midnight(date)?, midnight(date.checked_add(1.day())?)?);
        let of_day =
            self.tdnet.disclosures().by_company(&*entry.company_code).between(start, end).all().await?;
        Ok(of_day
            .iter()
            .any(|known| (known.disclosed_at, &known.title) == (entry.disclosed_at, &entry.title)))
    }

    async fn export(&self, date: Date, id: Uuid) -> Result<(), Fault> {
        let exports = self.tdnet.exports();
        let export = exports.create(NewExport::new(id)).await?.start().await?;
        let month = date.strftime("%Y-%m").to_string();
        for progress in [25, 50, 75] {
            tokio::time::sleep(STEP).await;
            exports.update(export.key()).progress(progress).await?;
        }
        let rows = self.tdnet.disclosures().by_month(&*month).all().await?.len();
        export
            .complete(format!("https://exports.example.com/{id}.csv?rows={rows}&signature=c2lnbmVk"))
            .await?;
        Ok(())
    }
}

fn id(random: &mut Rng) -> Uuid {
    uuid::Builder::from_random_bytes(random.u128(..).to_be_bytes()).into_uuid()
}
