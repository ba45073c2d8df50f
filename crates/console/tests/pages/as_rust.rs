//! What a view says to be Rust is Rust: this is compiled, and held against the page.

#[allow(dead_code, reason = "it is compiled, and not run")]
mod pasted {
    use std::error::Error;

    use larder::{Store, Value};

    larder::schema!("../../schemas/shops.larder");

    async fn page() -> Result<(), Box<dyn Error>> {
        let store = Store::open(&"memory:".parse()?).await?;
        // begin
        let shops = shops::Shops::open(store).await?;
        let page = shops
            .entries("Shop")
            .expect("the schema has it")
            .index("by_last_crawled", [Value::from("DE")])
            .begins_with("NEVER#")
            .newest_first()
            .limit(50)
            .page()
            .await?;
        // end
        drop(page);
        Ok(())
    }
}
