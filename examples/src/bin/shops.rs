//! Shops that are crawled every two days, by as many workers as there are.
//!
//! Shows a lifecycle with leases: a claim takes what is due, no two workers hold one shop, and a worker that dies
//! loses its lease and not its work. Pages are put again on every crawl; the layer says which changed.
//!
//! In memory the clock is moved, so that a run shows what takes days. On another store it ends after one crawl.
//!
//! ```console
//! $ cargo run -p larder-examples --bin shops
//! $ cargo run -p larder-examples --bin shops -- --store ./data --base-url https:// --shop antik.example=DE
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use larder::Standing;
use larder_examples::Options;
use larder_examples::shops::{NewShop, Shop, Shops};
use larder_examples::source::shop::Shopfront;

/// Registers shops and crawls those that are due.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// A shop and its country; may be given several times.
    #[arg(long = "shop", value_name = "DOMAIN=COUNTRY", value_parser = shop,
          default_values = ["antik.example=DE", "silber.example=DE", "www.antik.test=AT", "uhren.example=DE"])]
    shops: Vec<(String, String)>,
}

fn shop(text: &str) -> Result<(String, String), String> {
    let (domain, country) = text.split_once('=').ok_or("write DOMAIN=COUNTRY, such as antik.example=DE")?;
    Ok((domain.to_owned(), country.to_owned()))
}

const COUNTRIES: [&str; 2] = ["DE", "AT"];
const HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::main]
async fn main() -> ExitCode {
    larder_examples::end(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { options, shops: wanted } = arguments;
    let (origin, url) = options.origin().await?;
    let front = Shopfront::new(&url)?;
    let shops = Shops::open(options.store().await?).await?;

    for (domain, country) in &wanted {
        let new = NewShop::new(domain).country(country);
        match shops.shops().create(new).await {
            Ok(_) | Err(larder::Error::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if let Some((domain, _)) = wanted.first()
        && let Some(shop) = shops.shops().get(domain).await?
        && let Some(core) = shop.core_domain_name
    {
        let siblings = shops.shops().siblings(&*core).all().await?;
        let domains: Vec<&str> = siblings.iter().map(|shop| &*shop.domain).collect();
        println!("shops called {core}: {}", domains.join(", "));
    }

    if options.is_in_memory() {
        // A worker that takes a shop and dies: its lease is dropped, and runs out.
        let mut claims = shops.crawl().claim("DE").owner("gone").take(1).await?;
        if let Some(lease) = claims.next().await? {
            println!("worker gone dies with {}", lease.domain);
        }
    }
    list(&shops, "now").await?;
    crawl(&shops, &front).await?;
    if !options.is_in_memory() {
        return list(&shops, "after the crawl").await;
    }

    shops.store().clock().advance(3 * HOUR);
    list(&shops, "three hours later").await?;
    crawl(&shops, &front).await?;

    shops.store().clock().advance(48 * HOUR);
    if let Some(origin) = &origin {
        origin.change();
    }
    list(&shops, "two days later").await?;
    crawl(&shops, &front).await
}

/// What is due, and what a worker took and never gave back.
async fn list(shops: &Shops, when: &str) -> Result<(), Box<dyn Error>> {
    println!("\n{when}");
    for country in COUNTRIES {
        let due = shops.crawl().due(country).await?;
        let stuck = shops.crawl().stuck(country).await?;
        println!("  {country}  due: {}; stuck: {}", names(&due), names(&stuck));
    }
    Ok(())
}

fn names(shops: &[Standing<Shop>]) -> String {
    let names: Vec<&str> = shops.iter().map(|shop| &*shop.domain).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Two workers side by side.
async fn crawl(shops: &Shops, front: &Shopfront) -> Result<(), Box<dyn Error>> {
    tokio::try_join!(work(shops, front, "one"), work(shops, front, "two"))?;
    Ok(())
}

/// Takes shops as long as some are due, and countries in turn.
async fn work(shops: &Shops, front: &Shopfront, name: &str) -> Result<(), Box<dyn Error>> {
    let [first, others @ ..] = COUNTRIES;
    let mut claims = shops.crawl().claim(first).groups(others).owner(name).await?;
    while let Some(lease) = claims.next().await? {
        let domain = lease.domain.clone();
        // Given up where it stands if the lease is lost: somebody else has the shop then.
        match lease.work(pages(shops, front, &domain)).await? {
            Ok((all, changed)) => {
                println!(
                    "  worker {name}  {domain:<16} {all} pages, {changed} changed, claim number {}",
                    lease.fence()
                );
                lease.finish().await?;
            }
            Err(error) => {
                println!("  worker {name}  {domain:<16} {error}; again later");
                lease.retry(error).await?;
            }
        }
    }
    Ok(())
}

/// Puts the pages of a shop, and counts them and those that changed.
async fn pages(shops: &Shops, front: &Shopfront, domain: &str) -> Result<(usize, usize), Box<dyn Error>> {
    let (mut all, mut changed) = (0, 0);
    for url in front.sitemap(domain).await? {
        let Some(offer) = front.page(&url).await? else { continue };
        all += 1;
        changed += usize::from(shops.pages().put(offer.at(domain, url)).await?.changed());
    }
    Ok((all, changed))
}
