//! The congestion window and the detection of losses, number by number.

use super::*;

const CONFIG: LinkConfig = LinkConfig { window: 64, ..LinkConfig::DEFAULT };
const FIRST: u32 = u32::MAX - 20;
const NOW: Instant = Instant(1000);

/// Sends whatever is due of as much as the window holds; how many frames that were.
fn send(outgoing: &mut OutgoingFrames) -> u32 {
    while let Ok(sequence) = outgoing.vacancy(&CONFIG) {
        outgoing.queue(sequence);
    }
    let mut frames = 0;
    while let Some((sequence, again)) = outgoing.due() {
        assert_eq!(outgoing.sent_now(&CONFIG, sequence, NOW), Some(again));
        frames += 1;
    }
    frames
}

fn started() -> OutgoingFrames {
    let mut outgoing = OutgoingFrames::new(FIRST, 64);
    assert_eq!(send(&mut outgoing), u32::from(INITIAL_WINDOW));
    outgoing
}

/// The peer has everything below `index`, and of the rest what the bits say.
fn acknowledge(outgoing: &mut OutgoingFrames, index: u32, bitmap: u64) -> u32 {
    let cumulative = FIRST.wrapping_add(index);
    outgoing.raise(cumulative.wrapping_add(64));
    outgoing.check(cumulative, bitmap, cumulative.wrapping_add(64)).unwrap();
    outgoing.acknowledge(&CONFIG, cumulative, bitmap, NOW)
}

#[test]
fn two_later_arrivals_are_reordering_and_three_a_loss() {
    let mut outgoing = started();
    outgoing.congestion = 64;
    assert_eq!(send(&mut outgoing), 54);
    assert_eq!(acknowledge(&mut outgoing, 2, 0b011), 2);
    assert_eq!(outgoing.due().filter(|(_, again)| *again), None);
    assert_eq!(acknowledge(&mut outgoing, 2, 0b111), 0);
    assert_eq!(outgoing.lost, 1, "the first, and none of those behind the third");
    assert!(outgoing.in_flight().count_ones() > u32::from(outgoing.congestion), "it does not wait for that");
    assert_eq!(send(&mut outgoing), 1);
    assert_eq!(acknowledge(&mut outgoing, 2, 0b1111), 0);
    assert_eq!(outgoing.lost, 0, "it is on its way again");
    assert_eq!(acknowledge(&mut outgoing, 7, 0b111), 5);
    assert_eq!(outgoing.lost, 1, "another in the place of the first");
}

#[test]
fn slow_start_doubles_up_to_the_window_and_a_loss_halves_once() {
    let mut outgoing = started();
    let mut index = u32::from(INITIAL_WINDOW);
    acknowledge(&mut outgoing, index, 0);
    assert_eq!(send(&mut outgoing), 20);
    while index < 400 {
        index += outgoing.in_flight().count_ones();
        acknowledge(&mut outgoing, index, 0);
        send(&mut outgoing);
        assert_eq!(outgoing.recovery, outgoing.base, "it stays near, or it would look like a loss one day");
    }
    assert_eq!((outgoing.congestion, outgoing.in_flight().count_ones()), (64, 64));
    outgoing.growth = 9;
    acknowledge(&mut outgoing, index, 0b1110);
    assert_eq!((outgoing.congestion, outgoing.threshold, outgoing.growth), (30, 30, 0), "of 61 in flight");
    let before = outgoing.recovery;
    acknowledge(&mut outgoing, index, 0b111_1111_1010);
    assert_eq!((outgoing.congestion, outgoing.recovery), (30, before), "the same window is halved once");
}

#[test]
fn what_was_late_and_not_lost_makes_no_room() {
    let mut outgoing = started();
    outgoing.congestion = 64;
    assert_eq!(send(&mut outgoing), 54);
    acknowledge(&mut outgoing, 0, 0b111);
    assert!(outgoing.due().is_some_and(|(_, again)| again));
    acknowledge(&mut outgoing, 4, 0);
    assert!(outgoing.in_flight().count_ones() > u32::from(outgoing.congestion));
    assert_eq!(outgoing.due(), None);
}

#[test]
fn above_the_threshold_it_grows_by_one_a_window() {
    let mut outgoing = started();
    (outgoing.congestion, outgoing.threshold) = (10, 10);
    for arrivals in 1..10 {
        acknowledge(&mut outgoing, arrivals, 0);
        assert_eq!(outgoing.congestion, 10);
    }
    acknowledge(&mut outgoing, 10, 0);
    assert_eq!(outgoing.congestion, 11);
}

#[test]
fn a_time_out_starts_over_with_one_frame_and_repeats_in_order() {
    let mut outgoing = started();
    acknowledge(&mut outgoing, 0, 0b10);
    outgoing.expire();
    assert_eq!((outgoing.congestion, outgoing.threshold), (1, 5), "of a window of eleven");
    assert_eq!(outgoing.due(), Some((FIRST, true)));
    assert_eq!(send(&mut outgoing), 1);
    acknowledge(&mut outgoing, 1, 0b1);
    assert_eq!(outgoing.due(), Some((FIRST.wrapping_add(1), true)));
    assert_eq!(send(&mut outgoing), 2, "the third has arrived before");
}

#[test]
fn the_timer_runs_while_anything_is_in_flight() {
    let mut outgoing = started();
    let at = outgoing.timeout.at();
    assert_eq!(at, Some(Instant(NOW.0 + CONFIG.rto_first_ns)));
    outgoing.congestion = 64;
    let sequence = outgoing.due().map_or(0, |(sequence, _)| sequence);
    assert_eq!(outgoing.sent_now(&CONFIG, sequence, Instant(NOW.0 + 5)), Some(false));
    assert_eq!(outgoing.timeout.at(), at, "it runs from the oldest frame on");
    acknowledge(&mut outgoing, 11, 0);
    assert_eq!((outgoing.timeout.at(), outgoing.in_flight()), (None, 0));
}

#[test]
fn a_time_out_is_taken_back_if_more_had_arrived_than_went_again() {
    let mut outgoing = started();
    (outgoing.congestion, outgoing.threshold) = (50, 40);
    // The peer computes for two time-outs, and tells of what it had taken in before.
    for _ in 0..2 {
        outgoing.expire();
        assert_eq!((outgoing.congestion, outgoing.threshold > 1, send(&mut outgoing)), (1, true, 1));
    }
    acknowledge(&mut outgoing, 7, 0);
    assert_eq!((outgoing.congestion, outgoing.threshold, outgoing.lost), (50, 40, 0));
    assert_eq!(outgoing.in_flight().count_ones(), 3, "the rest is on its way");
    assert!(outgoing.timeout.at().is_some());
    // What went again alone has arrived: the rest was lost.
    outgoing.expire();
    assert_eq!(send(&mut outgoing), 1);
    acknowledge(&mut outgoing, 8, 0);
    assert_eq!((outgoing.congestion, outgoing.threshold), (2, 25));
    assert_eq!(outgoing.lost.count_ones(), 2);
}
