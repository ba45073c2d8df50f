//! DescribeLimits.

use larder_conformance::conform;
use serde_json::json;

#[test]
fn limits_are_those_of_a_new_account() {
    conform(|db| {
        let limits = db.ok("DescribeLimits", json!({}));
        assert_eq!(
            limits,
            json!({
                "AccountMaxReadCapacityUnits": 80000,
                "AccountMaxWriteCapacityUnits": 80000,
                "TableMaxReadCapacityUnits": 40000,
                "TableMaxWriteCapacityUnits": 40000,
            })
        );
    });
}
