//! Pages of every day, made from the recorded ones.
//!
//! A race of any day has the id `YYYYTTMMDDNN`: year, track, month, day, number. Which horses run in it follows from
//! the id, so a page is the same whenever it is read. The last race at Kyoto is never published, and Saturday and
//! Sunday have no disclosures.

use std::fmt::Write as _;

use larder::jiff::civil::{Date, Weekday};

use super::{HTML, menu};

const TRACKS: [(&str, &str); 2] = [("05", "東京"), ("08", "京都")];
const RACES: u32 = 12;
const RUNNERS: u32 = 6;
/// So few that horses and jockeys are met again in other races.
const HORSES: u32 = 90;
const JOCKEYS: u32 = 12;

pub(super) fn page(path: &str, query: &str) -> Option<(&'static str, String)> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let text = match parts.as_slice() {
        ["top", "race_list_sub.html"] => races(date(query.strip_prefix("kaisai_date=")?)?),
        ["race", "shutuba.html"] => race(query.strip_prefix("race_id=")?)?,
        ["inbs", file] => disclosures(file)?,
        [_, "lunch"] => menu(include_str!("../../pages/lunch/niagara.html"), query),
        _ => return None,
    };
    Some((HTML, text))
}

fn date(text: &str) -> Option<Date> {
    Date::strptime("%Y%m%d", text).ok()
}

fn races(date: Date) -> String {
    let mut page = String::from("<div class=\"RaceList_Box\">\n");
    for (code, track) in TRACKS {
        let _ = writeln!(
            page,
            "<dl class=\"RaceList_DataList\"><dt><p class=\"RaceList_DataTitle\"><small>2回</small> {track} \
             <small>1日目</small></p></dt><dd><ul>"
        );
        for number in 1..=RACES {
            let id = format!("{}{code}{}{number:02}", date.strftime("%Y"), date.strftime("%m%d"));
            let _ = writeln!(
                page,
                "<li class=\"RaceList_DataItem\"><a href=\"../race/shutuba.html?race_id={id}\"><div \
                 class=\"Race_Num\"><span>{number}R</span></div></a></li>"
            );
        }
        page.push_str("</ul></dd></dl>\n");
    }
    page.push_str("</div>\n");
    page
}

fn race(id: &str) -> Option<String> {
    let (year, track, day, number) = (id.get(..4)?, id.get(4..6)?, id.get(6..10)?, id.get(10..12)?);
    let date = date(&format!("{year}{day}"))?;
    let (_, track_name) = TRACKS.into_iter().find(|(code, _)| *code == track)?;
    let number: u32 = number.parse().ok().filter(|number| (1..=RACES).contains(number))?;
    if id.len() != 12 || (track == "08" && number == RACES) {
        return None;
    }
    let mut page = format!(
        "<!DOCTYPE html><html lang=\"ja\"><body><h1 class=\"RaceName\">{track_name}第{number}レース</h1><div \
         class=\"RaceData01\">15:45発走 / 芝1600m / 天候:晴 / 馬場:良</div><table class=\"Shutuba_Table\"><tbody>\n"
    );
    let first = u32::from(date.day().unsigned_abs()) * 31 + number * RUNNERS;
    for runner in 1..=RUNNERS {
        let horse = (first + runner * 7) % HORSES;
        let jockey = (first + runner) % JOCKEYS;
        let _ = writeln!(
            page,
            "<tr class=\"HorseList\"><td class=\"Umaban{runner}\">{runner}</td><td><span class=\"HorseName\"><a \
             href=\"/horse/2021{horse:06}\">ウマ{horse}</a></span></td><td class=\"Jockey\"><a \
             href=\"/jockey/result/recent/{jockey:05}/\">騎手{jockey}</a></td></tr>"
        );
    }
    page.push_str("</tbody></table></body></html>\n");
    Some(page)
}

/// `I_list_001_20240131.html`: two pages a day.
fn disclosures(file: &str) -> Option<String> {
    let (number, day) = file.strip_prefix("I_list_")?.strip_suffix(".html")?.split_once('_')?;
    if matches!(date(day)?.weekday(), Weekday::Saturday | Weekday::Sunday) {
        return None;
    }
    let page = match number {
        "001" => include_str!("../../pages/tdnet/list-1.html"),
        "002" => include_str!("../../pages/tdnet/list-2.html"),
        _ => return None,
    };
    Some(page.replace("20240131", day))
}
