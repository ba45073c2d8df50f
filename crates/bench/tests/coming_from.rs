//! What docs/coming-from.md shows of moka and the AWS SDK: by hand, and with the layer, on one table.

#![expect(clippy::disallowed_methods, reason = "it shows a program as somebody writes it without Larder")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use larder::jiff::civil::{Date, date};
use larder::{Origin, Store};
use rates::Rates;

larder::schema!("tests/rates.larder");

static CALLS: AtomicU32 = AtomicU32::new(0);

/// What the bank says.
async fn ask(_day: Date) -> Result<f64, std::io::Error> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    Ok(1.0842)
}

struct ByHand {
    memory: moka::future::Cache<Date, f64>,
    dynamodb: Client,
}

impl ByHand {
    async fn rate(&self, day: Date) -> Result<f64, Arc<anyhow::Error>> {
        let load = async {
            let key = AttributeValue::S(format!("RATE#{day}"));
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            let found = self.dynamodb.get_item().table_name("rates").key("pk", key.clone()).send().await?;
            if let Some(item) = found.item
                && let (Some(Ok(ends)), Some(Ok(rate))) =
                    (item.get("ends").map(AttributeValue::as_n), item.get("rate").map(AttributeValue::as_n))
                && now < ends.parse::<u64>()?
            {
                return Ok(rate.parse()?);
            }
            let rate = ask(day).await?;
            let ends = AttributeValue::N((now + 3600).to_string());
            let put = self.dynamodb.put_item().table_name("rates").item("pk", key).item("ends", ends);
            put.item("rate", AttributeValue::N(rate.to_string())).send().await?;
            Ok(rate)
        };
        self.memory.try_get_with(day, load).await
    }
}

#[tokio::test]
async fn the_layer_reads_what_was_written_by_hand() -> anyhow::Result<()> {
    let store = Store::memory().await;
    let rates = Rates::open(store.clone()).await?;
    let memory = moka::future::Cache::builder().time_to_live(Duration::from_secs(60)).build();
    let by_hand = ByHand { memory, dynamodb: store.sdk_client().await? };
    for _ in 0..2 {
        let rate = by_hand.rate(date(2026, 1, 15)).await.map_err(|error| anyhow::anyhow!("{error}"))?;
        assert_eq!(rate, 1.0842);
    }

    let rate = rates.rates().fetch(date(2026, 1, 15), ask).await?;
    assert_eq!((rate.rate, rate.origin()), (1.0842, &Origin::Store));
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    Ok(())
}
