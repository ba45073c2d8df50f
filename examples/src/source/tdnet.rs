//! TDnet: the list of a day's disclosures. Tables in HTML, a hundred rows to a page.

use larder::jiff::Timestamp;
use larder::jiff::civil::{Date, Time};
use larder::jiff::tz::TimeZone;
use scraper::{ElementRef, Html};

use super::{Error, Web, css, each, missing, text_in};
use crate::tdnet::{NewDisclosure, NewDisclosureRequired};

/// A disclosure as the list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub company_code: String,
    pub company_name: String,
    pub title: String,
    pub disclosed_at: Timestamp,
    pub pdf_url: String,
}

impl Listed {
    /// What kind of disclosure it is, as far as its title tells.
    pub fn kind(&self) -> &'static str {
        for kind in ["決算短信", "業績予想", "配当", "自己株式"] {
            if self.title.contains(kind) {
                return kind;
            }
        }
        "適時開示"
    }

    /// The disclosure as it is kept.
    pub fn disclosure(&self, now: Timestamp) -> NewDisclosure {
        NewDisclosure::new(NewDisclosureRequired {
            company_code: self.company_code.clone(),
            company_name: self.company_name.clone(),
            disclosure_type: self.kind().to_owned(),
            title: self.title.clone(),
            disclosed_at: self.disclosed_at,
            downloaded_at: now,
        })
        .pdf_url(&self.pdf_url)
    }
}

#[derive(Clone, Debug)]
pub struct Tdnet {
    web: Web,
    base: String,
}

impl Tdnet {
    pub fn new(base: &str) -> Result<Self, Error> {
        Ok(Self { web: Web::new(base)?, base: base.to_owned() })
    }

    /// How many pages were asked for.
    pub fn calls(&self) -> u64 {
        self.web.calls()
    }

    /// How many of them were asked for again, because the site was asked too often.
    pub fn waits(&self) -> u64 {
        self.web.waits()
    }

    /// All disclosures of a day; none on a holiday.
    pub async fn day(&self, date: Date) -> Result<Vec<Listed>, Error> {
        let mut all = Vec::new();
        for page in 1..=999 {
            let path = format!("/inbs/I_list_{page:03}_{}.html", date.strftime("%Y%m%d"));
            let read = |html: &str| list(html, date, &self.base);
            let Some(listed) = self.web.read(&path, "UTF-8", read).await? else { break };
            all.extend(listed);
        }
        Ok(all)
    }
}

/// Reads one page of the list of a day.
pub fn list(html: &str, date: Date, base: &str) -> Result<Vec<Listed>, String> {
    let page = Html::parse_document(html);
    each(&page, "#main-list-table tr", |row| listed(row, date, base))
}

fn listed(row: ElementRef<'_>, date: Date, base: &str) -> Result<Listed, String> {
    let cell = |selector| text_in(row, selector).ok_or_else(missing(selector));
    let time = cell(".kjTime")?;
    let time = Time::strptime("%H:%M", &time).map_err(|_| format!("`{time}` is not a time"))?;
    let tokyo = TimeZone::get("Asia/Tokyo").map_err(|error| error.to_string())?;
    let disclosed_at = tokyo.to_timestamp(date.to_datetime(time)).map_err(|error| error.to_string())?;
    // Five characters, the last of which tells kinds of shares apart.
    let code = cell(".kjCode")?;
    let pdf = row.select(&css(".kjTitle a")).next().and_then(|link| link.attr("href"));
    Ok(Listed {
        company_code: code.chars().take(4).collect(),
        company_name: cell(".kjName")?,
        title: cell(".kjTitle")?,
        disclosed_at,
        pdf_url: format!("{base}/inbs/{}", pdf.ok_or_else(missing(".kjTitle a"))?),
    })
}
