//! DescribeLimits and DescribeEndpoints.

use crate::json::{Reader, list, object};
use crate::members::request;
use crate::refusal::Read;

const ACCOUNT_UNITS_MAX: i64 = 80_000;
const TABLE_UNITS_MAX: i64 = 40_000;
/// How long a client may keep an endpoint's address.
const ENDPOINT_MINUTES: i64 = 1_440;

/// A body whose members mean nothing.
pub(super) fn decode(reader: &mut Reader<'_>) -> Read<()> {
    request(reader, |reader, _| reader.skip().map(drop))
}

pub(super) fn encode(out: &mut Vec<u8>) {
    object(out, |answer| {
        answer.integer("AccountMaxReadCapacityUnits", ACCOUNT_UNITS_MAX);
        answer.integer("AccountMaxWriteCapacityUnits", ACCOUNT_UNITS_MAX);
        answer.integer("TableMaxReadCapacityUnits", TABLE_UNITS_MAX);
        answer.integer("TableMaxWriteCapacityUnits", TABLE_UNITS_MAX);
    });
}

pub(super) fn encode_endpoints(out: &mut Vec<u8>, address: Option<&str>) {
    object(out, |answer| {
        list(answer.member("Endpoints"), address, |out, address| {
            object(out, |endpoint| {
                endpoint.string("Address", address);
                endpoint.integer("CachePeriodInMinutes", ENDPOINT_MINUTES);
            });
        });
    });
}
