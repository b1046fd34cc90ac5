//! The other end of a bench.

use core::error::Error;
use core::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use aldis_sys::process::sched_yield;
use serde_json::json;

use crate::cli::EchoOptions;
use crate::station::{BenchFrame, BenchFrameKind, BenchStation};

/// Looks in vain after which the core is offered to others.
const SPINS: u32 = 200;
/// Frames one after another after which the end is looked for, though more come.
const ANSWERS: u32 = 64;

/// Answers until the time is over.
pub(crate) fn run(options: &EchoOptions, as_json: bool) -> Result<String, Box<dyn Error>> {
    let mut station = BenchStation::open(&options.card)?;
    let end = options.seconds.map(|span| Instant::now() + span);
    let frames = answer(&mut station, || end.is_some_and(|end| Instant::now() >= end));
    Ok(if as_json {
        json!({"card": options.card.to_string(), "answered": frames}).to_string()
    } else {
        format!("{}: {frames} frames answered", options.card)
    })
}

/// Answers while `is_over` says nothing else; returns how many frames it was. It is asked when
/// nothing has come, and now and then while frames come.
pub(crate) fn answer(station: &mut BenchStation, is_over: impl Fn() -> bool) -> u64 {
    let (mut frames, mut idle, mut busy) = (0, 0_u32, 0_u32);
    loop {
        let came = station.receive();
        busy = if came.is_some() { busy + 1 } else { ANSWERS };
        if busy >= ANSWERS {
            busy = 0;
            if is_over() {
                return frames;
            }
        }
        match came {
            Some(BenchFrame { kind: BenchFrameKind::Asks, from, number, bytes }) => {
                idle = 0;
                // One that the card has no room for is lost, as on a wire.
                frames += u64::from(station.send(from, BenchFrameKind::Answers, number, bytes));
            }
            Some(_) => {}
            None => rest(&mut idle),
        }
    }
}

/// Offers the core to others after some looks in vain.
pub(crate) fn rest(idle: &mut u32) {
    *idle = idle.saturating_add(1);
    if *idle > SPINS {
        // It cannot fail on Linux.
        let _ = sched_yield();
    }
}

/// Returns a question that is answered by this flag.
pub(crate) fn until(stop: &AtomicBool) -> impl Fn() -> bool {
    || stop.load(Ordering::Relaxed)
}
