//! Pauses between attempts: each twice the one before, up to the longest.

use std::time::Duration;

/// The pause before the next attempt, after so many: the first pause after one.
pub(crate) fn doubled((first, longest): (Duration, Duration), attempts: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1))).min(longest)
}

/// The same, spread over its second half, so that those who failed together do not come back together.
pub(crate) fn spread(bounds: (Duration, Duration), attempts: u32) -> Duration {
    doubled(bounds, attempts).mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Waits before the next attempt.
pub(crate) async fn pause(bounds: (Duration, Duration), attempts: u32) {
    tokio::time::sleep(spread(bounds, attempts)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let bounds = (millis(100), millis(1000));
        let pauses: Vec<Duration> = (1..=6).map(|attempts| doubled(bounds, attempts)).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000].map(millis));
        assert_eq!(doubled(bounds, u32::MAX), millis(1000));
        assert_eq!(doubled(bounds, 0), millis(100));
    }

    #[test]
    fn a_pause_is_spread_over_its_second_half() {
        for _ in 0..1000 {
            assert!((millis(50)..=millis(100)).contains(&spread((millis(100), millis(100)), 1)));
        }
        assert_eq!(spread((Duration::ZERO, Duration::ZERO), 7), Duration::ZERO);
    }
}
