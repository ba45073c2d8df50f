//! DescribeEndpoints.

use larder_conformance::conform;
use serde_json::json;

#[test]
fn one_endpoint_is_told_with_how_long_to_keep_it() {
    conform(|db| {
        let endpoints = db.ok("DescribeEndpoints", json!({}))["Endpoints"].clone();
        assert_eq!(endpoints.as_array().map(Vec::len), Some(1), "{endpoints}");
        assert!(endpoints[0]["Address"].as_str().is_some_and(|address| !address.is_empty()));
        assert!(endpoints[0]["CachePeriodInMinutes"].is_number());
    });
}
