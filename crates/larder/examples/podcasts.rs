//! Asks what a show is, and makes a text of each episode that has none.

use std::io;

use larder::Store;
use podcasts::{Podcasts, ShowValue};

larder::schema!("examples/podcasts.larder");

/// Asks the directory. This one makes up its mind by itself; yours would send a request.
async fn ask(show: String) -> Result<Option<ShowValue>, io::Error> {
    let found = show == "pantry";
    Ok(found.then(|| ShowValue::new("The Pantry".to_owned()).homepage("https://pantry.example/".to_owned())))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let podcasts = Podcasts::open(Store::from_env().await?).await?;

    // In memory, in the store, or else from the directory; kept for the next who asks.
    let show = podcasts.shows().fetch("pantry", ask).await?;
    println!("{}, from {}", show.title, show.origin());
    let nobody = podcasts.shows().fetch("nobody", ask).await;
    println!("{}", nobody.err().map_or("found".to_owned(), |error| error.to_string()));

    // What waits for a text. Two workers never have the same episode, and one that dies loses it after ten minutes.
    let mut claims = podcasts.transcribe().claim("en").take(10).await?;
    while let Some(lease) = claims.next().await? {
        let text = format!("{} minutes of talk", lease.minutes);
        let episode = podcasts.transcribe().finish(lease, text).await?;
        println!("{} is done", episode.title);
    }

    for episode in podcasts.episodes().by_day("pantry").newest_first().limit(2).all().await? {
        println!(
            "{} {}: {}",
            episode.published,
            episode.title,
            episode.text.as_deref().unwrap_or("no text yet")
        );
    }
    Ok(())
}
