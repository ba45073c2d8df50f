//! What a listener sees when the directory or the store is away.

use std::io;
use std::time::Duration;

use larder::{Error, Origin, Store};
use podcasts::{Podcasts, ShowValue};

larder::schema!("examples/podcasts.larder");

async fn ask(_show: String) -> Result<ShowValue, io::Error> {
    Ok(ShowValue::new("The Pantry".to_owned()))
}

#[tokio::test]
async fn an_old_answer_is_given_while_the_directory_is_away() -> Result<(), Error> {
    let podcasts = Podcasts::open(Store::memory().await).await?;
    podcasts.shows().fetch("pantry", ask).await?;

    podcasts.store().clock().advance(Duration::from_secs(7 * 3600));
    let away = |_| async { Err::<ShowValue, _>(io::Error::other("no answer")) };
    let show = podcasts.shows().fetch("pantry", away).await?;
    assert!(matches!(show.origin(), Origin::Stale(_)));
    Ok(())
}

#[tokio::test]
async fn the_directory_answers_while_the_store_is_down() -> Result<(), Error> {
    let podcasts = Podcasts::open(Store::memory().await).await?;
    podcasts.store().faults().down();
    let show = podcasts.shows().fetch("pantry", ask).await?;
    assert_eq!(show.origin(), &Origin::Source);
    assert!(show.store_error().is_some());
    Ok(())
}
