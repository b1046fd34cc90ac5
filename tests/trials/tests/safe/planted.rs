//! A defect that is planted to see whether the sanitizers find it: a scope that does not let go of
//! its memory at its end. These trials are to fail, each under its sanitizer, and are run by name.
#![cfg(feature = "planted-bugs")]

use core::time::Duration;
use std::thread;

use aldis_kernel::{Planted, Rank, Tag, plant};
use aldis_trials::{Home, Pair, join};

/// The memory of a receive is freed, and written when its message comes.
#[test]
#[ignore = "fails under AddressSanitizer, and is to"]
fn planted_use_after_free() {
    plant(Some(Planted::KeepMemory));
    let mut home = Home::new();
    let mut end = home.endpoint();
    let (world, mut into) = (end.world(), vec![0u8; 200]);
    let late = end.within(Duration::ZERO).scope(|scope| {
        let receiving = scope.irecv(&world, &mut into, Rank(0), Tag(1))?;
        scope.wait(receiving).map(drop)
    });
    assert!(late.is_err());
    drop(into);
    end.send(&world, &[1u8; 200], Rank(0), Tag(1)).unwrap();
    while end.poll(64) > 0 {}
}

/// The memory of a receive is written by its owner while its message comes in another thread.
#[test]
#[ignore = "fails under ThreadSanitizer, and is to"]
fn planted_race() {
    plant(Some(Planted::KeepMemory));
    let mut pair = Pair::new();
    let [mut one, mut two] = pair.endpoints();
    let (worlds, mut into) = ([one.world(), two.world()], vec![0u8; 200]);
    let late = one.within(Duration::ZERO).scope(|scope| {
        let receiving = scope.irecv(&worlds[0], &mut into, Rank(1), Tag(1))?;
        scope.wait(receiving).map(drop)
    });
    assert!(late.is_err());
    two.send(&worlds[1], &[1u8; 200], Rank(0), Tag(1)).unwrap();
    thread::scope(|threads| {
        let poller = threads.spawn(|| while one.poll(64) > 0 {});
        into.fill(9);
        join([poller]);
    });
    assert!(into.iter().all(|byte| *byte == 9 || *byte == 1));
}
