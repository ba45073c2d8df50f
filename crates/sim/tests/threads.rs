//! Several threads write while the disk fails.

use larder_sim::budget::seeds;
use larder_sim::concurrent::{Plan, run};
use larder_sim::random::Random;
use larder_storage::faulty::Lasting;

fn check(seed: u64, lasting: Lasting) {
    let fault_after = Random::new(seed).below(900);
    let plan = Plan { seed, writers: 4, steps: 60, fault_after, lasting };
    if let Err(failure) = run(plan) {
        panic!("{failure}");
    }
}

#[test]
fn acknowledged_writes_of_every_thread_survive_a_crash() {
    for seed in seeds(16) {
        check(seed, Lasting::Forever);
    }
}

#[test]
fn every_thread_goes_on_after_one_disk_error() {
    for seed in seeds(16) {
        check(seed, Lasting::Once);
    }
}
