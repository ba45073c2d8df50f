//! `POST /_larder/clock`: moves a memory server's clock, for tests of expiry.
//!
//! The body is `{"advance_seconds": 3600}` and the answer `{"now": 1700003600}`. The answer comes after a
//! pass of the background work at the new time, so what expired is gone when it arrives. A server on disk has
//! no such call: its clock is the system's.

use std::time::Duration;

use larder_model::Clock;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::background::Ask;

pub(crate) const CLOCK_PATH: &str = "/_larder/clock";

/// A century. Further on, times no longer fit what clients read.
const ADVANCE_SECONDS_MAX: u64 = 100 * 366 * 24 * 60 * 60;

#[derive(Debug)]
pub(crate) struct Admin {
    clock: Clock,
    background: Ask,
}

impl Admin {
    pub(crate) fn new(clock: Clock, background: Ask) -> Self {
        Self { clock, background }
    }

    /// Moves the clock and answers with the new time, or says what is wrong with the body.
    pub(crate) async fn move_clock(&self, body: &[u8]) -> Result<Vec<u8>, &'static str> {
        self.clock.advance(advance(body)?);
        let (reply, done) = oneshot::channel();
        // Without an answer the server is stopping, and expiry no longer matters.
        if self.background.send(reply).await.is_ok() {
            let _ = done.await;
        }
        Ok(format!(r#"{{"now":{}}}"#, self.clock.trusted().seconds()).into_bytes())
    }
}

fn advance(body: &[u8]) -> Result<Duration, &'static str> {
    let body: Value = serde_json::from_slice(body).map_err(|_| "the body is not JSON")?;
    match body.get("advance_seconds").and_then(Value::as_u64) {
        Some(seconds) if seconds <= ADVANCE_SECONDS_MAX => Ok(Duration::from_secs(seconds)),
        Some(_) => Err("advance_seconds is over a century"),
        None => Err("advance_seconds must be a whole number, zero or more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_seconds_forward_move_the_clock() {
        assert_eq!(advance(br#"{"advance_seconds": 0}"#), Ok(Duration::ZERO));
        assert_eq!(advance(br#"{"advance_seconds": 3600}"#), Ok(Duration::from_secs(3600)));
        for body in ["", "[]", "{}", r#"{"advance_seconds": -1}"#, r#"{"advance_seconds": "1"}"#] {
            assert!(advance(body.as_bytes()).is_err(), "{body}");
        }
        assert!(advance(br#"{"advance_seconds": 18446744073709551615}"#).is_err());
    }
}
