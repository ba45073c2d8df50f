//! A shop: its sitemap, and what a page says of itself in JSON-LD.
//!
//! Pages keep their addresses, `https://…`. The base URL takes the place of `https://`, so a base of `https://`
//! means the shops themselves.

use larder::serde_json::Value;
use scraper::Html;

use super::{Error, Web, css};
use crate::shops::{NewPage, NewPageRequired};

/// What a page offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// `product`, `listing` or `page`.
    pub kind: String,
    /// Such as `InStock`; empty when nothing is for sale.
    pub status: String,
    pub price: Option<String>,
}

impl Offer {
    /// The page as it is kept.
    pub fn at(self, domain: &str, url: String) -> NewPage {
        let page = NewPageRequired { domain: domain.to_owned(), url, kind: self.kind, status: self.status };
        NewPage { price: self.price, ..NewPage::new(page) }
    }
}

#[derive(Clone, Debug)]
pub struct Shopfront(Web);

impl Shopfront {
    pub fn new(base: &str) -> Result<Self, Error> {
        let slash = if base.ends_with('/') { "" } else { "/" };
        Ok(Self(Web::new(&format!("{base}{slash}"))?))
    }

    /// How many pages were asked for.
    pub fn calls(&self) -> u64 {
        self.0.calls()
    }

    /// How many of them were asked for again, because a shop was asked too often.
    pub fn waits(&self) -> u64 {
        self.0.waits()
    }

    /// The pages that a shop has, by its sitemap; none without one.
    pub async fn sitemap(&self, domain: &str) -> Result<Vec<String>, Error> {
        Ok(self.0.read(&format!("{domain}/sitemap.xml"), "UTF-8", urls).await?.unwrap_or_default())
    }

    /// What a page offers; `None` when it is gone.
    pub async fn page(&self, url: &str) -> Result<Option<Offer>, Error> {
        let path = url.strip_prefix("https://").unwrap_or(url);
        self.0.read(path, "UTF-8", offer).await
    }
}

/// Reads the addresses in a sitemap.
pub fn urls(xml: &str) -> Result<Vec<String>, String> {
    let document = roxmltree::Document::parse(xml).map_err(|error| error.to_string())?;
    if document.root_element().tag_name().name() != "urlset" {
        return Err("it has no <urlset>".to_owned());
    }
    let locations = document.descendants().filter(|node| node.has_tag_name((NAMESPACE, "loc")));
    Ok(locations.filter_map(|node| node.text()).map(|url| url.trim().to_owned()).collect())
}

const NAMESPACE: &str = "http://www.sitemaps.org/schemas/sitemap/0.9";

/// Reads what a page offers. A page without JSON-LD is a page like any other.
pub fn offer(html: &str) -> Result<Offer, String> {
    let page = Html::parse_document(html);
    let mut found = Vec::new();
    for script in page.select(&css("script[type='application/ld+json']")) {
        let text: String = script.text().collect();
        let data: Value =
            larder::serde_json::from_str(&text).map_err(|error| format!("its JSON-LD is broken: {error}"))?;
        match data {
            Value::Array(all) => found.extend(all),
            Value::Object(mut one) => match one.remove("@graph") {
                Some(Value::Array(graph)) => found.extend(graph),
                _ => found.push(Value::Object(one)),
            },
            _ => {}
        }
    }
    let of_type = |name: &str| found.iter().find(|thing| thing["@type"] == name);
    if let Some(product) = of_type("Product") {
        let offers = &product["offers"];
        // One offer, or a list of them.
        let offer = offers.get(0).unwrap_or(offers);
        let status =
            offer["availability"].as_str().and_then(|url| url.rsplit('/').next()).unwrap_or_default();
        let price = match &offer["price"] {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        return Ok(Offer { kind: "product".to_owned(), status: status.to_owned(), price });
    }
    let listing = of_type("CollectionPage").or_else(|| of_type("ItemList"));
    let kind = if listing.is_some() { "listing" } else { "page" };
    Ok(Offer { kind: kind.to_owned(), status: String::new(), price: None })
}
