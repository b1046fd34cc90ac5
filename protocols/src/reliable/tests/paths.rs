//! Tests of single situations: what the machine does there, and how much of it.

use core::cell::Cell;
use std::format;

use aldis_hal::{Cause, Instant};
use zerocopy::little_endian::U32;

use super::super::{Frame, FrameKind, Link, LinkConfig, LinkEnds};
use super::pair::{Broken, CALM, CONFIG, Pair, PairPlan};

/// A situation, and the promise that is kept in it.
type Path = (&'static str, fn() -> Result<(), Broken>);

pub(super) const PATHS: [Path; 12] = [
    ("one loss is repaired without a time-out", one_loss),
    ("silence is met with ever fewer frames", blackout),
    ("only what was sent once is measured", round_trips),
    ("a lone frame is acknowledged in time", lone_frame),
    ("room is told at once", room),
    ("lost room is asked for", lost_room),
    ("and so it is by who comes late", lost_room_later),
    ("what comes again is acknowledged again", lost_ack),
    ("an idle link keeps its peer alive and nothing else", idle),
    ("acknowledgements ride on data", piggyback),
    ("a dead peer is given up once", dead_peer),
    ("time in which the clock was not looked at is not held against the peer", retimed),
];

macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(format!($($text)*));
        }
    };
}

fn one_way(messages: u32) -> PairPlan {
    PairPlan { messages: [messages, 0], ..CALM }
}

std::thread_local! {
    /// True while the frame that a test loses once is still to come.
    static FIRST: Cell<bool> = const { Cell::new(false) };
}

/// The sixth payload is lost once.
fn one_loss() -> Result<(), Broken> {
    let mut pair = Pair::new(one_way(40));
    pair.loses = |_, from, frame| {
        let sixth = CALM.numbers[1].wrapping_add(5);
        from == 0 && frame.sequence.get() == sixth && FIRST.replace(false)
    };
    FIRST.set(true);
    pair.run()?;
    let counters = pair.sides[0].link.counters();
    ensure!((counters.timeouts, counters.repeated) == (0, 1), "{counters:?}");
    Ok(())
}

/// A wire that passes nothing for 20 ms: a frame for each time-out, and each twice as late as the
/// one before.
fn blackout() -> Result<(), Broken> {
    let mut pair = Pair::new(one_way(16));
    pair.loses = |_, _, _| true;
    pair.pump(0)?;
    while pair.now < 20_000_000 {
        pair.step()?;
    }
    let counters = *pair.sides[0].link.counters();
    // 60 + 120 + 240 + 480 us, and then one each 640 us.
    let most = 4 + (20_000_000 - 900_000) / 640_000 + 1;
    ensure!(u64::from(counters.timeouts) <= most, "{} time-outs", counters.timeouts);
    ensure!(counters.repeated <= counters.timeouts, "{} repetitions", counters.repeated);
    pair.plan.heals_ns = pair.now;
    pair.loses = |_, _, _| false;
    pair.run()
}

/// A third of the data is lost, no acknowledgement is: no measured round trip is longer than the
/// longest there is.
fn round_trips() -> Result<(), Broken> {
    for seed in 0..20 {
        let mut pair =
            Pair::new(PairPlan { seed, delay_ns: (3_000, 6_000), heals_ns: 50_000_000, ..one_way(200) });
        pair.loses = |random, from, _| from == 0 && random.below(3) == 0;
        while !pair.is_done() && pair.now < 50_000_000 {
            if pair.now == 0 {
                pair.pump(0)?;
            }
            pair.step()?;
            let measured = pair.sides[0].link.round_trip_ns().unwrap_or(0);
            ensure!(measured <= 2 * 6_000 + CONFIG.ack_delay_ns, "seed {seed}: {measured} ns measured");
        }
        ensure!(pair.is_done(), "seed {seed}: not done");
    }
    Ok(())
}

fn lone_frame() -> Result<(), Broken> {
    let mut pair = Pair::new(one_way(1));
    pair.run()?;
    ensure!(pair.now == 2 * 4_000 + CONFIG.ack_delay_ns, "released at {} ns", pair.now);
    ensure!(pair.sides[0].link.counters().repeated == 0, "it was repeated");
    Ok(())
}

/// The receiver had no room, and has some again.
fn room() -> Result<(), Broken> {
    let mut pair = full()?;
    pair.sides[1].link.set_room(&CONFIG, 1);
    pair.pump(1)?;
    let until = pair.now + 2 * 4_000;
    while pair.now < until {
        pair.step()?;
    }
    ensure!(pair.sides[1].delivered.len() == 17, "{} delivered", pair.sides[1].delivered.len());
    Ok(())
}

/// A receiver without room for more than it first promised, and a sender that has used that up.
fn full() -> Result<Pair, Broken> {
    let mut pair = Pair::new(one_way(40));
    pair.sides[1].link.set_room(&CONFIG, 0);
    pair.pump(0)?;
    while pair.now < 1_000_000 {
        pair.step()?;
    }
    ensure!(pair.sides[0].released == 16, "{} released", pair.sides[0].released);
    Ok(pair)
}

/// The receiver had no room; that it has room again is lost.
fn lost_room() -> Result<(), Broken> {
    reopened(full()?)
}

/// Like [`lost_room`], but the sender has nothing to send until it has been silent for a while.
fn lost_room_later() -> Result<(), Broken> {
    let mut pair = Pair::new(one_way(16));
    pair.sides[1].link.set_room(&CONFIG, 0);
    pair.run()?;
    pair.plan.messages[0] = 40;
    pair.pump(0)?;
    reopened(pair)
}

/// The first acknowledgement of the last frame is lost.
fn lost_ack() -> Result<(), Broken> {
    let mut pair = Pair::new(one_way(1));
    pair.loses = |_, from, _| from == 1 && FIRST.replace(false);
    FIRST.set(true);
    pair.run()?;
    let counters = pair.sides[0].link.counters();
    ensure!((counters.timeouts, counters.repeated) == (1, 1), "{counters:?}");
    Ok(())
}

/// Room again, and a network that loses just that.
fn reopened(mut pair: Pair) -> Result<(), Broken> {
    pair.loses = |_, from, _| from == 1;
    pair.sides[1].link.set_room(&CONFIG, 16);
    pair.pump(1)?;
    pair.loses = |_, _, _| false;
    let until = pair.now + CONFIG.rto_max_ns + 20_000;
    while !pair.is_done() {
        pair.step()?;
        ensure!(pair.now <= until + 30 * 10_000, "the room is not found out");
    }
    rest(&mut pair)
}

fn idle() -> Result<(), Broken> {
    let mut pair = Pair::new(PairPlan { messages: [2, 0], ..CALM });
    pair.run()?;
    rest(&mut pair)
}

/// With nothing to do, the two ask each other now and then, and no time-out passes.
fn rest(pair: &mut Pair) -> Result<(), Broken> {
    let counted = |pair: &Pair| {
        [0, 1].map(|i| (pair.sides[i].link.counters().probes, pair.sides[i].link.counters().timeouts))
    };
    let asked = counted(pair);
    let before = pair.now;
    while pair.now < before + 20 * CONFIG.silence_ns {
        pair.step()?;
    }
    for (before, after) in asked.into_iter().zip(counted(pair)) {
        ensure!((5..=20).contains(&(after.0 - before.0)), "{} probes", after.0 - before.0);
        ensure!(after.1 == before.1, "{} time-outs", after.1 - before.1);
    }
    Ok(())
}

fn piggyback() -> Result<(), Broken> {
    let mut pair = Pair::new(PairPlan { messages: [400, 400], ..CALM });
    pair.run()?;
    for side in &pair.sides {
        let counters = side.link.counters();
        ensure!(counters.acks <= 230 && counters.sent == 400, "{counters:?}");
    }
    Ok(())
}

/// The peer falls silent while nothing is outstanding: it is asked, and then given up; no sooner
/// because it was silent now and then before, and not asked less.
fn dead_peer() -> Result<(), Broken> {
    let (fresh, old) = (dying(0)?, dying(9)?);
    ensure!(fresh == old && fresh > 5, "{fresh} probes of a fresh link, {old} of an old one");
    Ok(())
}

/// A peer that answers so many probes and then no more: how many it did not.
fn dying(answers: u32) -> Result<u32, Broken> {
    let config = LinkConfig { give_up_ns: 5_000_000, ..CONFIG };
    let mut link = Link::open(&config, LinkEnds { ours: 5, theirs: 6, peer_window: 8 }, Instant(0));
    let answer =
        Frame { connection: 5.into(), cumulative: 6.into(), limit: 14.into(), ..Frame::new(FrameKind::Ack) };
    let mut heard = Instant(0);
    for _ in 0..100 {
        let Some(at) = link.poll_timeout() else { break };
        if let Err(cause) = link.handle_timeout(&config, at) {
            ensure!(cause == Cause::PeerDead, "{cause}");
            ensure!(at.since(heard) == config.silence_ns + config.give_up_ns, "given up at {}", at.0);
            ensure!(!link.is_open() && link.poll_transmit().is_none(), "it goes on");
            ensure!(link.poll_timeout().is_none() && link.queue(&config, at).is_none(), "it goes on");
            return Ok(link.counters().probes - answers);
        }
        while let Some(transmit) = link.poll_transmit() {
            ensure!(transmit.frame.kind() == Ok(FrameKind::Probe), "{transmit:?}");
            link.transmitted(&config, &transmit, at);
            if link.counters().probes <= answers {
                heard = at;
                link.handle_frame(&config, &answer, at).map_err(|malformed| format!("{malformed}"))?;
            }
        }
    }
    Err("the dead peer is never given up".into())
}

#[test]
fn every_path() {
    for (name, path) in PATHS {
        path().unwrap_or_else(|broken| panic!("{name}: {broken}"));
    }
}

/// Frames sent while the clock was not read are timed from when it is read again, and not measured.
fn retimed() -> Result<(), Broken> {
    let (then, now) = (Instant(1_000), Instant(1_000 + 2 * CONFIG.give_up_ns));
    let ends = LinkEnds { ours: 7, theirs: 9, peer_window: CONFIG.window };
    let mut link = Link::open(&LinkConfig { silence_ns: 0, ..CONFIG }, ends, Instant(1));
    let sequence = link.queue(&CONFIG, then);
    let transmit = link.poll_transmit().filter(|transmit| transmit.payload == sequence);
    let transmit = transmit.ok_or("nothing to send")?;
    link.transmitted(&CONFIG, &transmit, then);
    let late = link.poll_timeout().ok_or("no timer")?.since(then);
    link.retime(&CONFIG, then, Instant(then.0 + CONFIG.ack_delay_ns));
    ensure!(link.poll_timeout() == Some(Instant(then.0 + late)), "a moment changes nothing");
    link.retime(&CONFIG, then, now);
    ensure!(link.poll_timeout() == Some(Instant(now.0 + late - 1)), "{:?}", link.poll_timeout());
    link.retime(&CONFIG, now, Instant(2 * now.0));
    ensure!(link.poll_timeout() == Some(Instant(now.0 + late - 1)), "moved for ever");
    ensure!(link.handle_timeout(&CONFIG, now).is_ok() && link.poll_transmit().is_none(), "taken for lost");
    let ack = Frame {
        connection: U32::new(7),
        cumulative: U32::new(10),
        limit: U32::new(10),
        ..Frame::new(FrameKind::Ack)
    };
    let taken = link.handle_frame(&CONFIG, &ack, now).map_err(|what| format!("{what}"))?;
    ensure!(taken.released == 1 && link.round_trip_ns().is_none(), "{:?}", link.round_trip_ns());
    Ok(())
}
