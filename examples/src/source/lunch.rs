//! A restaurant's page with the menu of a week. HTML, written by cooks.
//!
//! A dish whose price is no number is kept as it came. The schema says what a good menu is, and keeps what is wrong with
//! this one beside it.

use larder::serde_json::json;
use larder::{Loose, Number};
use scraper::{ElementRef, Html};

use super::{Error, Web, css, each, missing, text_in};
use crate::lunch::{
    Lunch, LunchRequired, Metadata, MetadataRequired, NewMenu, NewMenuRequired, Quality, QualityRequired,
    Weekday,
};

#[derive(Clone, Debug)]
pub struct Restaurants(Web);

impl Restaurants {
    pub fn new(base: &str) -> Result<Self, Error> {
        Ok(Self(Web::new(base)?))
    }

    /// How many pages were asked for.
    pub fn calls(&self) -> u64 {
        self.0.calls()
    }

    /// How many of them were asked for again, because a restaurant was asked too often.
    pub fn waits(&self) -> u64 {
        self.0.waits()
    }

    /// The menu of a week; `None` when the restaurant has no such page.
    pub async fn menu(&self, restaurant: &str, week: i64) -> Result<Option<Vec<Loose<Lunch>>>, Error> {
        let path = format!("/{restaurant}/lunch?week={week}");
        self.0.read(&path, "UTF-8", |html| menu(html, restaurant, week)).await
    }
}

/// The menu of a week as it is kept: how complete it is goes by the share of dishes that are described.
pub fn new_menu(restaurant: &str, year: i64, week: i64, lunches: Vec<Loose<Lunch>>) -> NewMenu {
    let described =
        lunches.iter().filter_map(Loose::get).filter(|lunch| !lunch.description.is_empty()).count();
    let completeness = described as f64 / lunches.len().max(1) as f64;
    let metadata = MetadataRequired { version: "1.0".to_owned(), source: format!("{restaurant}-page") };
    NewMenu::new(NewMenuRequired { restaurant: restaurant.to_owned(), year, week, lunches })
        .metadata(Metadata::new(metadata))
        .data_quality(Quality::new(QualityRequired { completeness, accuracy: 1.0 }))
}

/// Reads the menu of a week.
pub fn menu(html: &str, place: &str, week: i64) -> Result<Vec<Loose<Lunch>>, String> {
    let page = Html::parse_document(html);
    let days = each(&page, "section.day", |day| {
        let name = text_in(day, "h2").ok_or_else(missing("h2"))?;
        let weekday: Weekday =
            name.to_lowercase().parse().map_err(|_| format!("`{name}` is not a weekday"))?;
        day.select(&css(".dish")).map(|dish| lunch(dish, weekday, place, week)).collect()
    })?;
    Ok(days.into_iter().flat_map(|dishes: Vec<Loose<Lunch>>| dishes).collect())
}

fn lunch(dish: ElementRef<'_>, weekday: Weekday, place: &str, week: i64) -> Result<Loose<Lunch>, String> {
    let name = text_in(dish, "h3").ok_or_else(missing("h3"))?;
    let description = text_in(dish, ".description").unwrap_or_default();
    let said = text_in(dish, ".price").unwrap_or_default();
    Ok(match price(&said) {
        Some(price) => {
            let lunch = LunchRequired { name, price, weekday, week, place: place.to_owned() };
            Lunch::new(lunch).description(description).into()
        }
        None => Loose::came(json!({
            "name": name, "description": description, "price": said,
            "weekday": weekday.to_string(), "week": week, "place": place,
        })),
    })
}

/// `125 kr`, `119:50` and `119,50` are prices.
fn price(text: &str) -> Option<Number> {
    let amount = text.trim_end_matches("kr").trim().replace([':', ','], ".");
    amount.parse().ok()
}
