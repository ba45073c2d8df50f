//! What types derive because a program asks for it.

use larder::serde_json::{from_value, json, to_value};
use larder::{Loose, Number, Store};

larder::schema!("schemas/lunch.larder", derive(serde::Serialize, serde::Deserialize));
larder::schema!(mod keys = "schemas/tdnet.larder", derive(serde::Serialize));

use lunch::{Lunch, LunchRequired, LunchSystem, MenuKey, NewMenu, NewMenuRequired, Weekday};

fn lunch(price: &str) -> Lunch {
    let price: Number = price.parse().expect("a number");
    let place = "niagara".to_owned();
    Lunch::new(LunchRequired {
        name: "Ärtsoppa".to_owned(),
        price,
        weekday: Weekday::Torsdag,
        week: 3,
        place,
    })
}

#[tokio::test]
async fn what_is_given_goes_there_and_back_and_what_is_read_is_shown() {
    let required = NewMenuRequired {
        restaurant: "niagara".to_owned(),
        year: 2025,
        week: 3,
        lunches: vec![Loose::Fits(lunch("119.5")), Loose::came(json!("closed"))],
    };
    let menu = NewMenu::new(required).grown("yes".to_owned());
    let shown = to_value(&menu).unwrap();
    assert_eq!(shown["lunches"][0]["weekday"], "torsdag", "a choice as the schema writes it");
    assert_eq!(shown["lunches"][0]["price"], 119.5);
    assert_eq!((&shown["lunches"][1], &shown["grown"]), (&json!("closed"), &json!("yes")));
    assert_eq!(from_value::<NewMenu>(shown).unwrap(), menu);

    let lunch = LunchSystem::open(Store::memory().await).await.unwrap();
    let kept = lunch.menus().create(menu).await.unwrap();
    let shown = to_value(&kept).unwrap();
    assert_eq!((&shown["lunch_count"], &shown["year"]), (&json!(2), &json!(2025)), "what is derived too");
    assert!(shown.get("kept").is_none());
    assert_eq!(from_value::<MenuKey>(to_value(kept.key()).unwrap()).unwrap(), kept.key());
}

#[test]
fn a_module_may_derive_one_alone() {
    let key = keys::DisclosureKey::from("20240201_7203_001");
    assert_eq!(to_value(key).unwrap(), json!({"disclosure_id": "20240201_7203_001"}));
}
