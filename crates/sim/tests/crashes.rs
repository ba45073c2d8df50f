//! The power goes, and the database found afterwards is whole.

use larder_sim::budget::{points, seeds};
use larder_sim::random::Random;
use larder_sim::run::{Beginning, Fault, Plan, run};

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
fn acknowledged_writes_survive_a_crash_at_every_step() {
    for seed in seeds(3) {
        let beginning = beginning(seed);
        let plan = Plan { seed, steps: 12, fault: Fault::None };
        let changes = check(plan, &beginning);
        for after in points(changes) {
            check(Plan { fault: Fault::PowerLoss { after }, ..plan }, &beginning);
        }
    }
}

#[test]
fn acknowledged_writes_survive_a_crash_somewhere_in_a_long_workload() {
    for seed in seeds(30) {
        let beginning = beginning(seed);
        let plan = Plan { seed, steps: 80, fault: Fault::None };
        let after = Random::new(seed).below(300);
        check(Plan { fault: Fault::PowerLoss { after }, ..plan }, &beginning);
    }
}
