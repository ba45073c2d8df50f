//! Lunch menus of some weeks, kept as they are, faults and all.
//!
//! Shows cache-aside: the program looks, and on a miss reads the restaurant's page itself. A menu that breaks the
//! schema's checks is kept with a note of what is wrong. A restaurant's history is a query, newest first.
//!
//! ```console
//! $ cargo run -p larder-examples --bin lunch
//! $ cargo run -p larder-examples --bin lunch -- --base-url https://menus.example.com --restaurant niagara
//! ```

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use larder::{Look, Loose};
use larder_examples::Options;
use larder_examples::lunch::{Lunch, LunchSystem};
use larder_examples::source::lunch::{Restaurants, new_menu};

/// Keeps the lunch menus of some weeks.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// A restaurant; may be given several times.
    #[arg(long = "restaurant", value_name = "NAME", default_values = ["niagara", "kajen"])]
    restaurants: Vec<String>,
    #[arg(long, default_value_t = 2025)]
    year: i64,
    /// A week of the year; may be given several times.
    #[arg(long = "week", value_name = "WEEK", default_values_t = [3, 4])]
    weeks: Vec<i64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    larder_examples::end(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { options, restaurants, year, weeks } = arguments;
    let (_origin, url) = options.origin().await?;
    let source = Restaurants::new(&url)?;
    let lunch = LunchSystem::open(options.store().await?).await?;

    for pass in ["first", "second"] {
        println!("{pass} pass");
        for week in &weeks {
            for restaurant in &restaurants {
                let line = menu(&lunch, &source, restaurant, year, *week).await?;
                println!("  {restaurant:<12} week {week:>2}  {line}");
            }
        }
    }

    for restaurant in &restaurants {
        println!("\n{restaurant}, newest first");
        for menu in lunch.menus().history(restaurant).newest_first().limit(10).all().await? {
            let names: Vec<String> = menu.lunches.iter().map(name).collect();
            println!("  week {:>2}  {} lunches: {}", menu.week, menu.lunch_count, names.join(", "));
            for issue in menu.validation_errors.iter().flatten() {
                println!("           {}: {}", issue.field, issue.message);
            }
        }
    }
    Ok(())
}

/// What a dish is called, whatever else is wrong with it.
fn name(dish: &Loose<Lunch>) -> String {
    let odd = dish.odd().unwrap_or_default();
    dish.get().map_or_else(|| odd["name"].as_str().unwrap_or("?").to_owned(), |dish| dish.name.clone())
}

/// What is kept of a week, or what the restaurant says, which is then kept.
async fn menu(
    lunch: &LunchSystem,
    source: &Restaurants,
    restaurant: &str,
    year: i64,
    week: i64,
) -> Result<String, Box<dyn Error>> {
    let why = match lunch.menus().look((restaurant, year, week)).await {
        Look::Hit(menu) => return Ok(format!("{} lunches, kept for {}", menu.lunch_count, menu.age())),
        Look::Miss(why) => why,
    };
    let lunches = match source.menu(restaurant, week).await {
        Ok(Some(lunches)) => lunches,
        Ok(None) => return Ok("has no menu".to_owned()),
        Err(error) => return Ok(error.to_string()),
    };
    let menu = lunch.menus().put(new_menu(restaurant, year, week, lunches)).await?;
    let faults = menu.validation_errors.as_ref().map_or(0, Vec::len);
    Ok(format!("{} lunches, fetched because {why}, faults: {faults}", menu.lunch_count))
}
