use std::time::Instant;

use super::*;

fn fault(outcome: &str) -> Result<Fault, Errno> {
    inflict(outcome.parse().unwrap())
}

#[test]
fn a_call_that_is_to_fail_fails_so() {
    assert_eq!(fault("ENOMEM").unwrap_err(), Errno::ENOMEM);
}

#[test]
fn a_call_that_is_to_fall_short_is_made_with_half_of_its_bytes_and_at_least_one() {
    let short = fault("short").unwrap();
    assert_eq!([0, 1, 2, 3, 10].map(|len| short.len(len)), [0, 1, 1, 1, 5]);
    assert_eq!(short.cut(b"abcdef"), b"abc");
    assert_eq!(short.cut_mut(&mut [1, 2, 3, 4]), [1, 2]);
    for (pieces, cut) in [([2, 6], [2, 2]), ([6, 2], [4, 0]), ([0, 1], [0, 1]), ([0, 0], [0, 0])] {
        let bytes = [7; 8];
        let all = pieces.map(|len| IoSlice::new(&bytes[..len]));
        let lengths: Vec<usize> = short.cut_all(&all).iter().map(|piece| piece.len()).collect();
        assert_eq!(lengths, cut);
        let (mut one, mut other) = ([0; 8], [0; 8]);
        let mut rooms = [IoSliceMut::new(&mut one[..pieces[0]]), IoSliceMut::new(&mut other[..pieces[1]])];
        let lengths = |rooms: &mut [IoSliceMut<'_>]| rooms.iter().map(|room| room.len()).collect::<Vec<_>>();
        assert_eq!(short.cut_all_mut(&mut rooms, lengths), cut);
    }
}

#[test]
fn a_call_with_another_fault_is_made_whole() {
    let stalled = fault("stall:0").unwrap();
    assert_eq!((stalled.len(10), stalled.cut(b"abc")), (10, &b"abc"[..]));
}

#[test]
fn a_call_stalls_before_it_happens_or_after() {
    let start = Instant::now();
    let stalled = fault("stall:30").unwrap();
    assert!(start.elapsed() >= Duration::from_millis(30));
    drop(stalled);
    let late = fault("late:2000").unwrap();
    let between = Instant::now();
    drop(late);
    assert!(between.elapsed() >= Duration::from_millis(2000));
}

#[test]
fn processes_are_kept_as_words() {
    for process in [
        PlannedProcess::Rank(0),
        PlannedProcess::Rank(u32::MAX),
        PlannedProcess::Agent,
        PlannedProcess::Launcher,
        PlannedProcess::Other,
    ] {
        assert_eq!(decoded(encoded(process)), process);
        assert_ne!(encoded(process), UNKNOWN);
    }
}

#[test]
fn the_longest_line_has_room() {
    let mut line = CallLine { bytes: [0; LINE_LEN], length: 0 };
    let longest = Call::ALL.iter().map(|call| call.name()).max_by_key(|name| name.len()).unwrap();
    let (number, pid) = (u32::MAX, i32::MAX);
    let process = PlannedProcess::Rank(number);
    write!(line, "{process} {pid} {longest} {number} -> {}", Outcome::Stalls(number)).unwrap();
    assert!(line.length < LINE_LEN, "and for its end");
    assert!(line.write_str(&" ".repeat(LINE_LEN)).is_err());
}
