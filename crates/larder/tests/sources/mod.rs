//! Sources and records for tests of the cache.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use larder::store::ops::{GetItem, ReturnCapacity};
use larder::{Entry, Fields, Shelf, Store, System, Value};
use larder_model::{AttributeValue, Item};

pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A source that counts its calls, and fails while it is down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    calls: Arc<AtomicU32>,
    is_down: Arc<AtomicBool>,
}

impl Source {
    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn down(&self) {
        self.is_down.store(true, Ordering::SeqCst);
    }

    pub(crate) fn up(&self) {
        self.is_down.store(false, Ordering::SeqCst);
    }

    /// A loader that gives this value.
    pub(crate) fn gives(
        &self,
        value: Fields,
    ) -> impl Fn(Fields) -> std::future::Ready<Result<Fields, Cause>> + Send + Sync + use<> {
        let source = self.clone();
        move |_| std::future::ready(source.call().map(|_| value.clone()))
    }

    /// A loader that gives its number of calls in the field `text`.
    pub(crate) fn numbered(
        &self,
    ) -> impl Fn(Fields) -> std::future::Ready<Result<Fields, Cause>> + Send + Sync + use<> {
        let source = self.clone();
        move |_| {
            let text = source.call().map(|call| fields([("text", Value::Text(format!("page {call}")))]));
            std::future::ready(text)
        }
    }

    /// Counts a call, and says which it is.
    pub(crate) fn call(&self) -> Result<u32, Cause> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if self.is_down.load(Ordering::SeqCst) { Err("the source is down".into()) } else { Ok(call) }
    }
}

pub(crate) fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Fields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn shelf(system: &System, entity: &str) -> Shelf<Entry> {
    system.entries(entity).expect("the entity is there")
}

pub(crate) fn race_key(id: &str) -> Fields {
    fields([("race_id", Value::from(id))])
}

pub(crate) fn race_data() -> Fields {
    let horses = Value::List(vec![Value::Raw(AttributeValue::from("Deep Impact"))]);
    let card =
        [("horses".to_owned(), horses), ("track".to_owned(), Value::Raw(AttributeValue::from("Tokyo")))];
    fields([("data", Value::Map(card.into()))])
}

pub(crate) fn forecast_key(lat: f64, at: &str) -> Fields {
    let at = Value::Instant(at.parse().expect("a moment"));
    fields([("lat", Value::Float(lat)), ("lon", Value::Float(-49.9439)), ("at", at)])
}

pub(crate) fn forecast_data(temperature: f64) -> Fields {
    let number = |number: f64| Value::Float(number);
    let data = [
        ("temperature", number(temperature)),
        ("humidity", number(65.0)),
        ("windSpeed", number(12.5)),
        ("rainfallIntensity", number(35.5)),
        ("weatherDescription", Value::from("Parcialmente nublado")),
        ("timestamp", Value::Datetime("2025-11-26T15:00:00".parse().expect("a date and time"))),
    ];
    let data = data.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    fields([("data", Value::Map(data))])
}

pub(crate) fn page_key(id: &str) -> Fields {
    fields([("id", Value::from(id))])
}

pub(crate) fn text_of(fields: &Fields) -> &str {
    fields["text"].as_str().expect("a text")
}

/// A system of one entity, `Page`, whose `id` is the key and whose `text` comes from a source.
pub(crate) fn pages(source: &str, entity: &str) -> String {
    format!(
        r#"
system pages
param stage: string = "test" from ENVIRONMENT
source web {{ {source} }}
table pages {{
  name  "pages-{{stage}}"
  key   pk
  ttl   ends

  entity Page from web {{
    key  "PAGE#{{id}}"
    ttl  100s
    {entity}

    input id: string nonempty
    text:     string
  }}
}}
"#
    )
}

/// The one table of a store, as it is.
pub(crate) async fn stored(store: &Store, key: &Item) -> Option<Item> {
    let tables = store.list_tables().await.expect("the store answers");
    let [table] = &tables[..] else { panic!("one table, not {tables:?}") };
    let request = GetItem {
        table: table.clone(),
        key: key.clone(),
        projection: None,
        consistent: true,
        capacity: ReturnCapacity::None,
    };
    store.get_item(request).await.expect("the store answers")
}

/// Asks until something holds, within bounds.
pub(crate) async fn until<F: Future<Output = bool>>(holds: impl Fn() -> F) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(Instant::now() < limit, "it never came to hold");
        tokio::task::yield_now().await;
    }
}
