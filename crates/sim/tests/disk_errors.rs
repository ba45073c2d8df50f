//! The disk fails for a moment, and the engine goes on without being reopened.

use larder_sim::budget::{points, seeds};
use larder_sim::random::Random;
use larder_sim::run::{Beginning, Fault, Plan, run};
use larder_storage::faulty::Operation;

fn check(plan: Plan, beginning: &Beginning) -> u64 {
    match run(plan, beginning) {
        Ok(report) => report.changes,
        Err(failure) => panic!("{failure}"),
    }
}

fn beginning(seed: u64) -> Beginning {
    Beginning::new(seed).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn the_engine_goes_on_after_one_disk_error_at_every_step() {
    for seed in seeds(2) {
        let beginning = beginning(seed);
        let plan = Plan { seed, steps: 12, fault: Fault::None };
        let changes = check(plan, &beginning);
        for after in points(changes) {
            check(Plan { fault: Fault::Error { operation: Operation::Change, after }, ..plan }, &beginning);
        }
    }
}

#[test]
fn the_engine_goes_on_after_one_disk_error_in_a_long_workload() {
    for seed in seeds(16) {
        let beginning = beginning(seed);
        let mut random = Random::new(seed);
        let (operation, among) =
            *random.pick(&[(Operation::Sync, 60), (Operation::Write, 200), (Operation::SetLen, 3)]);
        let fault = Fault::Error { operation, after: random.below(among) };
        check(Plan { seed, steps: 60, fault }, &beginning);
    }
}

#[test]
fn the_engine_goes_on_after_one_failed_read() {
    for seed in seeds(16) {
        let beginning = beginning(seed);
        let fault = Fault::Error { operation: Operation::Read, after: Random::new(seed).below(100) };
        check(Plan { seed, steps: 40, fault }, &beginning);
    }
}

#[test]
fn the_engine_goes_on_after_the_disk_was_full() {
    for seed in seeds(10) {
        let beginning = beginning(seed);
        let fault = Fault::Full { room_bytes: Random::new(seed).below(64 << 10) };
        check(Plan { seed, steps: 80, fault }, &beginning);
    }
}
