//! Measures whether two cores are two: virtual ones may share the execution units of one physical
//! core, which no topology tells.

use core::hint::{black_box, spin_loop};
use core::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use aldis_bench::batches::pin;

use crate::Outcome;

/// Tries, of which the best counts: others may disturb some.
const TRIES: u32 = 50;

/// Prints how much longer a computation takes on one core while the other is at it too: 1.0 on
/// cores of their own.
pub(crate) fn print([one, other]: [usize; 2]) -> Outcome<()> {
    let started = AtomicU32::new(0);
    let turns = |core| -> std::io::Result<Vec<f64>> {
        pin(core)?;
        let turn = |number| {
            started.fetch_add(1, Ordering::SeqCst);
            while started.load(Ordering::SeqCst) < 2 * number {
                spin_loop();
            }
            multiply()
        };
        Ok((1..=TRIES).map(turn).collect())
    };
    pin(one)?;
    let alone = (0..TRIES).map(|_| multiply()).fold(f64::INFINITY, f64::min);
    let (ours, theirs) = std::thread::scope(|scope| {
        let second = scope.spawn(|| turns(other));
        (turns(one), second.join())
    });
    let theirs = theirs.map_err(|_| "the second thread has panicked")??;
    let both =
        ours?.iter().zip(&theirs).map(|(ours, theirs)| ours.max(*theirs)).fold(f64::INFINITY, f64::min);
    println!("{:.2}", both / alone);
    Ok(())
}

/// Seconds of a computation that keeps the multiplier of a core busy: as many independent chains as
/// a multiplication takes cycles, and more.
fn multiply() -> f64 {
    let start = Instant::now();
    let mut chains = black_box([1_u64, 2, 3, 4, 5, 6, 7, 8]);
    for _ in 0..50_000 {
        for chain in &mut chains {
            // Knuth's MMIX generator.
            *chain = chain.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        }
    }
    black_box(chains);
    start.elapsed().as_secs_f64()
}
