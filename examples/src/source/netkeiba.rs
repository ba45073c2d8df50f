//! netkeiba: the races of a day, race cards, horses with their parents, and jockeys. HTML in EUC-JP.
//!
//! Races are on `race.netkeiba.com`, horses and jockeys on `db.netkeiba.com`.

use larder::jiff::civil::Date;
use larder::serde_json::{Value, json};
use larder::{BoxError, CollectionLoader, IntoLoad as _, Known, Load, Loader, Rest};
use scraper::{ElementRef, Html};

use super::{Error, Web, each, id_in, missing, text, text_in};
use crate::keiba::{
    Horse, JockeyStats, JockeyStatsRequired, NewHorse, NewHorseParents, NewHorseResults, Parents,
    ParentsRequired, PastResults, Race, RaceCard, RaceRef, RaceRefRequired, RaceValue,
};

const CHARSET: &str = "EUC-JP";

#[derive(Clone, Debug)]
pub struct Netkeiba {
    races: Web,
    horses: Web,
}

impl Netkeiba {
    pub fn new(races: &str, horses: &str) -> Result<Self, Error> {
        Ok(Self { races: Web::new(races)?, horses: Web::new(horses)? })
    }

    /// How many pages were asked for.
    pub fn calls(&self) -> u64 {
        self.races.calls() + self.horses.calls()
    }

    /// How many of them were asked for again, because the site was asked too often.
    pub fn waits(&self) -> u64 {
        self.races.waits() + self.horses.waits()
    }

    /// The races of a day, at all tracks.
    pub async fn day(&self, date: Date) -> Result<Option<Vec<RaceRef>>, Error> {
        let path = format!("/top/race_list_sub.html?kaisai_date={}", date.strftime("%Y%m%d"));
        self.races.read(&path, CHARSET, day).await
    }

    /// Who runs in a race; `None` while that is not known.
    pub async fn race(&self, id: &str) -> Result<Option<RaceCard>, Error> {
        self.races.read(&format!("/race/shutuba.html?race_id={id}"), CHARSET, race).await
    }

    /// A horse: two pages.
    pub async fn horse(&self, id: &str) -> Result<Option<NewHorse>, Error> {
        let (results, parents) = (format!("/horse/result/{id}/"), format!("/horse/ped/{id}/"));
        let (results, parents) = tokio::join!(
            self.horses.read(&results, CHARSET, results_of),
            self.horses.read(&parents, CHARSET, parents_of),
        );
        let (Some(results), Some(parents)) = (results?, parents?) else { return Ok(None) };
        Ok(Some(NewHorse {
            results: Some(NewHorseResults::new(id, results)),
            parents: Some(NewHorseParents::new(id, parents)),
        }))
    }

    /// How often a jockey wins, and how often one is among the first three.
    pub async fn jockey(&self, id: &str) -> Result<Option<JockeyStats>, Error> {
        self.horses.read(&format!("/jockey/result/{id}/"), CHARSET, jockey).await
    }
}

impl Loader<Race> for Netkeiba {
    async fn load(&self, id: String, _: Known) -> Result<Load<RaceValue>, BoxError> {
        Ok(self.race(&id).await?.into_load())
    }
}

impl CollectionLoader<Horse> for Netkeiba {
    async fn load(&self, id: String, _: Known) -> Result<Load<NewHorse>, BoxError> {
        Ok(self.horse(&id).await?.into_load())
    }
}

/// Reads the list of a day's races.
pub fn day(html: &str) -> Result<Vec<RaceRef>, String> {
    let page = Html::parse_fragment(html);
    let tracks = each(&page, ".RaceList_DataList", |track| {
        // "2回 東京 12日目": the meeting, the track, the day.
        let title = text_in(track, ".RaceList_DataTitle").ok_or_else(missing(".RaceList_DataTitle"))?;
        let name = title.split(' ').nth(1).ok_or_else(|| format!("`{title}` names no track"))?;
        track.select(&super::css(".RaceList_DataItem")).map(|item| race_ref(item, name)).collect()
    })?;
    Ok(tracks.into_iter().flat_map(|races: Vec<RaceRef>| races).collect())
}

fn race_ref(item: ElementRef<'_>, track: &str) -> Result<RaceRef, String> {
    let number = text_in(item, ".Race_Num").ok_or_else(missing(".Race_Num"))?;
    let link = id_in(item, "a").ok_or_else(missing("a"))?;
    let id = link.split(['?', '&']).find_map(|pair| pair.strip_prefix("race_id="));
    Ok(RaceRef::new(RaceRefRequired {
        track_name: track.to_owned(),
        race_number: number
            .trim_end_matches('R')
            .parse()
            .map_err(|_| format!("`{number}` is not a race number"))?,
        race_id: id.ok_or_else(|| format!("`{link}` has no race_id"))?.to_owned(),
    }))
}

/// Reads a race card.
pub fn race(html: &str) -> Result<RaceCard, String> {
    let page = Html::parse_document(html);
    let root = page.root_element();
    let name = text_in(root, ".RaceName").ok_or_else(missing(".RaceName"))?;
    let about = text_in(root, ".RaceData01").ok_or_else(missing(".RaceData01"))?;
    let going = about.split(['/', ' ']).find_map(|part| part.strip_prefix("馬場:"));
    let mut rest = Rest::from([("name".to_owned(), json!(name)), ("about".to_owned(), json!(about))]);
    rest.extend(going.map(|going| ("going".to_owned(), json!(going))));
    Ok(RaceCard { rest, ..RaceCard::new(each(&page, "tr.HorseList", runner)?) })
}

fn runner(row: ElementRef<'_>) -> Result<Value, String> {
    Ok(json!({
        "number": text_in(row, "td[class^=Umaban]").and_then(|number| number.parse::<u32>().ok()),
        "horse_id": id_in(row, ".HorseName a").ok_or_else(missing(".HorseName a"))?,
        "name": text_in(row, ".HorseName").ok_or_else(missing(".HorseName"))?,
        "jockey_id": id_in(row, ".Jockey a").ok_or_else(missing(".Jockey a"))?,
        "jockey": text_in(row, ".Jockey"),
    }))
}

/// Reads how a horse ran.
pub fn results_of(html: &str) -> Result<PastResults, String> {
    let page = Html::parse_document(html);
    let results = each(&page, ".db_h_race_results tbody tr", |row| {
        let cells: Vec<String> = row.select(&super::css("td")).map(text).collect();
        let [date, meeting, race, place, ..] = cells.as_slice() else {
            return Err(format!("a row has {} cells", cells.len()));
        };
        // A horse that was withdrawn or stopped has no place.
        Ok(json!({"date": date, "meeting": meeting, "race": race, "place": place.parse::<u32>().ok()}))
    })?;
    Ok(PastResults::new(results))
}

/// Reads sire and dam: those whose cells are as high as half the table of five generations.
pub fn parents_of(html: &str) -> Result<Parents, String> {
    let page = Html::parse_document(html);
    let root = page.root_element();
    let half = |selector| text_in(root, selector).ok_or_else(missing(selector));
    let sire = half(".blood_table td.b_ml[rowspan='16'] a")?;
    let dam = half(".blood_table td.b_fml[rowspan='16'] a")?;
    Ok(Parents::new(ParentsRequired { sire, dam }))
}

/// Reads the rates of a jockey's whole career, which is the first row. What a column holds is in its head.
pub fn jockey(html: &str) -> Result<JockeyStats, String> {
    let page = Html::parse_document(html);
    let heads = each(&page, ".race_table_01 thead th", |head| Ok(text(head)))?;
    let cells = each(&page, ".race_table_01 tbody tr:first-child td", |cell| Ok(text(cell)))?;
    let rate = |head: &str| {
        let at =
            heads.iter().position(|known| known == head).ok_or_else(|| format!("no column is `{head}`"))?;
        let cell = cells.get(at).ok_or_else(|| format!("a row has {} cells", cells.len()))?;
        cell.parse().map_err(|_| format!("`{cell}` is not a rate"))
    };
    Ok(JockeyStats::new(JockeyStatsRequired { win_rate: rate("勝率")?, place_rate: rate("複勝率")? }))
}
