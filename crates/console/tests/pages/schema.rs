//! A schema drawn, and what it costs.

use std::collections::BTreeMap;

use larder_schema::cost::{self, Load, Prices, Terms};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drawing_has_every_entity_index_state_and_move_and_says_them_in_words() {
    let running = serve(Store::memory().await, false);
    for file in schema_files() {
        let schema = file.loaded.unwrap().schema.unwrap();
        let page = get(&running, &format!("/schema/{}?view=drawing", schema.system)).await.body;
        let drawn: String = page
            .split("<svg role=\"img\"")
            .skip(1)
            .map(|rest| rest.split("</svg>").next().unwrap())
            .collect();
        let words: String = page
            .split("The same in words")
            .skip(1)
            .map(|rest| rest.split("</details>").next().unwrap())
            .collect();
        for table in &schema.tables {
            for entity in &table.entities {
                assert!(
                    drawn.contains(&format!("{}</text>", entity.name)),
                    "{} {}",
                    schema.system,
                    entity.name
                );
                assert!(words.contains(&format!(">{}</a>", entity.name)), "{}", entity.name);
                for lifecycle in &entity.lifecycles {
                    for state in &lifecycle.states {
                        assert!(drawn.contains(&format!(">{}</text>", state.name)), "{}", state.name);
                    }
                    for transition in &lifecycle.transitions {
                        assert!(
                            drawn.contains(&format!(">{}</text>", transition.name)),
                            "{}",
                            transition.name
                        );
                        assert!(
                            words.contains(&format!("<b>{}</b>", transition.name)),
                            "{}",
                            transition.name
                        );
                    }
                }
            }
            for index in &table.indexes {
                assert!(drawn.contains(&format!(">{}</text>", index.alias)), "{}", index.alias);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cost_is_what_the_command_tells_and_follows_the_sliders() {
    let running = serve(Store::memory().await, false);
    let mut files = schema_files();
    let schema = files.remove(2).loaded.unwrap().schema.unwrap();
    assert_eq!(schema.system, "weather");
    let load = Load::of(&schema, schema.workload.as_ref().unwrap(), None).unwrap();
    let terms = Terms {
        prices: &Prices::built_in(),
        region: None,
        date: None,
        free_storage: true,
        environment: &Environment::new(),
        stored: &BTreeMap::new(),
    };
    let report = cost::report(&schema, &load, &terms).unwrap();
    let declared = get(&running, "/schema/weather?view=cost").await.body;
    for amount in [report.store().rounded(), report.tables[0].total().to_string()] {
        assert!(declared.contains(&amount), "{amount}: {declared}");
    }
    let moved = get(&running, "/schema/weather?view=cost&requests=5000000&hits=95").await.body;
    assert!(moved.contains("5,000,000") && moved.contains("the figures above"), "{moved}");
    assert!(!moved.contains(&report.tables[0].total().to_string()), "more requests cost more");
    // A schema without a workload is reckoned with what the sliders say.
    let keiba = get(&running, "/schema/keiba?view=cost").await.body;
    assert!(keiba.contains("the figures above") && keiba.contains("1,000,000"), "{keiba}");
    for odd in ["requests=-1&hits=900", "requests=99999999999999999999&hits=x", "requests=0&hits=0"] {
        assert_eq!(get(&running, &format!("/schema/weather?view=cost&{odd}")).await.status, 200, "{odd}");
    }
}
