//! A simulated world: several links with devices whose registers change all the time, faults drawn from a seed, and the
//! whole road from the bus to the messages in virtual time. Judged at each event by what was in which register when.
//!
//! `SIMULATION_SECONDS` is the budget in seconds (default 20), or `SIMULATION_SEEDS` the number of worlds;
//! `SIMULATION_FIRST` is the first seed (default 1). A failure prints its seed: `SIMULATION_FIRST=seed SIMULATION_SEEDS=1`
//! lives through that world again. Most worlds last fifteen seconds, every tenth two minutes, every five hundredth an hour.
//! Worlds are lived through on all cores; each is a matter of its seed alone.

#![allow(unreachable_pub, reason = "a test binary has no outside")]

mod chance;
mod faults;
mod judge;
mod memory;
mod plant;
mod wire;
mod world;

use judge::{Statement, Violation};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use world::{Figures, Mutant, World};

/// How long the world of a seed lasts, in microseconds.
fn length_of(seed: u64) -> u64 {
    match seed {
        _ if seed.is_multiple_of(500) => 3_600_000_000,
        _ if seed.is_multiple_of(10) => 120_000_000,
        _ => 15_000_000,
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

#[test]
fn no_world_shows_a_value_that_was_not_there() {
    let first = number("SIMULATION_FIRST").unwrap_or(1);
    let seeds = number("SIMULATION_SEEDS");
    let budget = Duration::from_secs(number("SIMULATION_SECONDS").unwrap_or(20));
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let lived = || {
        let (mut sum, mut worlds, mut failed) = (Figures::default(), 0, Vec::new());
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if seeds.map_or(began.elapsed() >= budget, |most| index >= most) {
                return (sum, worlds, failed);
            }
            worlds += 1;
            let seed = first + index;
            match catch_unwind(|| World::new(seed, length_of(seed), None).run()) {
                Ok(Ok(figures)) => sum.add(&figures),
                Ok(Err(violation)) => failed.push((seed, violation.to_string())),
                Err(_) => failed.push((seed, "a panic, see above".to_owned())),
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut sum, mut worlds, mut failed) = (Figures::default(), 0, Vec::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(lived)).collect();
        for (figures, count, broken) in threads.into_iter().filter_map(|t| t.join().ok()) {
            sum.add(&figures);
            worlds += count;
            failed.extend(broken);
        }
    });
    failed.sort();
    let took = began.elapsed().as_secs_f64();
    let hours = sum.virtual_us as f64 / 3.6e9;
    println!(
        "{worlds} worlds from seed {first}: {hours:.1} virtual hours in {took:.1} s, {:.2} hours a second",
        hours / took
    );
    println!("{sum:?}");
    for (seed, what) in failed.iter().take(20) {
        println!("seed {seed}: {what}");
        println!(
            "  again: SIMULATION_FIRST={seed} SIMULATION_SEEDS=1 cargo test --test simulation no_world -- --nocapture"
        );
    }
    assert!(
        failed.is_empty(),
        "{} of {worlds} worlds broke a statement, the first with seed {}",
        failed.len(),
        failed[0].0
    );
}

/// The first violation of so many worlds with a mutant in them.
fn caught(mutant: Mutant) -> Option<Violation> {
    (1..=20).find_map(|seed| World::new(seed, 240_000_000, Some(mutant)).run().err())
}

#[test]
fn the_judge_catches_what_lies_within_the_protocol() {
    for (mutant, statements) in [
        (Mutant::OldUnderNewTid, &[Statement::WasThere][..]),
        (Mutant::WrongWord, &[Statement::WasThere]),
        (Mutant::Torn, &[Statement::OneInstant]),
        (Mutant::MixedBatch, &[Statement::WasThere]),
        (Mutant::OldMessage, &[Statement::OneInstant]),
        (Mutant::SecretlyLazy, &[Statement::Rate]),
        (Mutant::SecretlySilent, &[Statement::Offline]),
        (Mutant::ImpatientJudge, &[Statement::Wire]),
        (Mutant::TooLate, &[Statement::WasThere]),
        (Mutant::SlowLine, &[Statement::Wire]),
    ] {
        let caught = caught(mutant);
        assert!(
            caught.as_ref().is_some_and(|v| statements.contains(&v.statement)),
            "{mutant:?} was not caught by {statements:?}: {caught:?}"
        );
    }
}

#[test]
fn one_seed_is_one_world() {
    let lived = || World::new(7, 60_000_000, None).run().map(|f| format!("{f:?}")).map_err(|v| v.to_string());
    assert_eq!(lived(), lived());
}
