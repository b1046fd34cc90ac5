//! The switch with plain sockets as members.

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};

use aldis_drivers::serial::cobs::{self, Decoder};
use aldis_kit::scratch::ScratchFolder;

use super::direction::Direction;
use super::*;
use crate::Random;
use crate::switch::decision::Decision;

/// The longest that a member that expects something waits; nothing depends on how much of it
/// passes.
const PATIENCE: core::time::Duration = core::time::Duration::from_secs(20);
const ALL: u8 = 0xFF;

/// A switch with `members` ports and a socket on each.
struct Bench {
    folder: ScratchFolder,
    switch: Switch,
    members: Vec<UnixDatagram>,
}

impl Bench {
    fn new(members: u32, from: PortFaults, to: PortFaults) -> Self {
        let folder = ScratchFolder::new("switch");
        let mut switch = Switch::new(folder.path(), 11);
        (0..members).for_each(|number| switch.add(number, CableKind::Datagram, from, to).unwrap());
        let mut bench = Self { folder, switch, members: Vec::new() };
        bench.members = (0..members).map(|number| bench.plug(number)).collect();
        bench
    }

    fn plug(&self, number: u32) -> UnixDatagram {
        let member = UnixDatagram::bind(self.path(&format!("member{number}.sock"))).unwrap();
        member.set_nonblocking(true).unwrap();
        member
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sends one frame through the switch: after it, whatever was due has been delivered or is held
    /// back.
    fn send(&mut self, from: usize, frame: &[u8]) {
        self.members[from].send_to(frame, self.path(&format!("port{from}.sock"))).unwrap();
        let before = self.seen();
        while self.seen() == before {
            self.turn();
        }
    }

    /// Frames, good or not, that have come to the switch.
    fn seen(&self) -> u64 {
        let ports = self.switch.statistics().ports;
        ports.iter().map(|port| port.received + port.runts + port.unreadable).sum()
    }

    fn turn(&mut self) {
        self.switch.turn(Some(monotonic_ns() + 1_000_000), &[]).unwrap();
    }

    fn received(&self, member: usize) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; FRAME_BYTES_MAX + 1];
        core::iter::from_fn(|| {
            self.members[member].recv(&mut buffer).ok().map(|length| buffer[..length].to_vec())
        })
        .collect()
    }
}

fn frame(to: u8, from: u8, text: &[u8]) -> Vec<u8> {
    let station = |number: u8| if number == ALL { [ALL; 6] } else { [2, 0, 0, 0, 0, number] };
    [&station(to)[..], &station(from), &[0x88, 0xB5], text].concat()
}

#[test]
fn unknown_and_broadcast_go_everywhere_and_known_stations_get_their_own() {
    let mut bench = Bench::new(3, PortFaults::NONE, PortFaults::NONE);
    for (to, from, at) in [(1, 0, [0, 1, 1]), (0, 1, [1, 0, 0]), (1, 0, [0, 1, 0]), (ALL, 2, [1, 1, 0])] {
        let sent = frame(to, from, b"x");
        bench.send(usize::from(from), &sent);
        let received: Vec<usize> = (0..3).map(|member| bench.received(member).len()).collect();
        assert_eq!(received, at, "{from} to {to}");
    }
    // A frame for a station on the port that it comes from goes nowhere.
    bench.send(2, &frame(2, 9, b"x"));
    assert!((0..3).all(|member| bench.received(member).is_empty()));
    let statistics = bench.switch.statistics();
    assert_eq!((statistics.received, statistics.sent, statistics.overflowed), (5, 6, 0));
}

#[test]
fn runts_and_frames_beyond_all_bounds_go_nowhere_and_giants_pass() {
    let mut bench = Bench::new(2, PortFaults::NONE, PortFaults::NONE);
    bench.send(0, &frame(ALL, 0, b"")[..13]);
    bench.send(0, &vec![ALL; FRAME_BYTES_MAX + 1]);
    assert!(bench.received(1).is_empty());
    bench.send(0, &vec![ALL; FRAME_BYTES_MAX]);
    assert_eq!(bench.received(1).len(), 1);
    let port = &bench.switch.statistics().ports[0];
    assert_eq!((port.runts, port.unreadable, port.received), (1, 1, 1));
}

#[test]
fn a_slow_member_loses_its_own_frames_and_no_others() {
    let mut bench = Bench::new(3, PortFaults::NONE, PortFaults::NONE);
    let mut got = 0;
    for number in 0..1_000_u32 {
        bench.send(0, &frame(ALL, 0, &number.to_le_bytes()));
        got += bench.received(1).len();
    }
    assert_eq!(got, 1_000);
    let statistics = bench.switch.statistics();
    let slow = &statistics.ports[2];
    assert!(slow.overflowed > 0 && slow.sent + slow.overflowed + QUEUE_FRAMES as u64 == 1_000, "{slow:?}");
    // What waits comes, in order, as soon as it is taken.
    let mut late = Vec::new();
    while late.len() < (slow.sent as usize) + QUEUE_FRAMES {
        late.extend(bench.received(2));
        bench.turn();
    }
    assert!(late.is_sorted_by_key(|frame| u32::from_le_bytes(frame[14..18].try_into().unwrap())));
}

#[test]
fn a_member_that_vanishes_is_an_open_cable_and_may_come_back() {
    let mut bench = Bench::new(2, PortFaults::NONE, PortFaults::NONE);
    std::fs::remove_file(bench.path("member1.sock")).unwrap();
    bench.send(0, &frame(1, 0, b"lost"));
    assert_eq!(bench.switch.statistics().ports[1].absent, 1);
    bench.members[1] = bench.plug(1);
    bench.send(0, &frame(1, 0, b"back"));
    assert_eq!(bench.received(1), [frame(1, 0, b"back")]);
    // A socket that no process reads any more, whose name is still there.
    let gone = bench.members.pop();
    drop(gone);
    bench.send(0, &frame(1, 0, b"lost"));
    assert_eq!(bench.switch.statistics().ports[1].absent, 2);
}

#[test]
fn a_folder_in_use_is_named_and_sockets_go_with_the_switch() {
    let bench = Bench::new(1, PortFaults::NONE, PortFaults::NONE);
    let mut second = Switch::new(bench.folder.path(), 1);
    let error = second.add(0, CableKind::Datagram, PortFaults::NONE, PortFaults::NONE).unwrap_err();
    assert!(error.to_string().contains("port0.sock"), "{error}");
    let path = bench.path("port0.sock");
    assert!(path.exists());
    drop(bench.switch);
    assert!(!path.exists());
}

/// Returns what the members of a job with all faults see, and the counts.
fn faulty(seed: u64) -> (Vec<Vec<u8>>, FaultCounts) {
    let rate = Rate::percent(10);
    let faults = PortFaults {
        loss: rate,
        duplicate: rate,
        reorder: rate,
        corrupt: rate,
        malformed: rate,
        ..PortFaults::NONE
    };
    let mut direction = Direction::new(faults, seed, 0);
    let mut out = Vec::new();
    for number in 0..2_000_u32 {
        direction.pass(&frame(1, 0, &number.to_le_bytes()), 0, &mut out);
    }
    direction.release(u64::MAX, &mut out);
    (out, direction.counts)
}

#[test]
fn faults_come_at_their_rates_and_again_with_the_same_seed() {
    let (out, counts) = faulty(5);
    assert_eq!((&out, counts), (&faulty(5).0, faulty(5).1));
    assert_ne!(out, faulty(6).0);
    // Of 2,000 and of 1,800; five standard deviations are 67 and 64.
    for (count, of) in [
        (counts.lost, 2_000_u64),
        (counts.malformed.sum(), 2_000),
        (counts.duplicated, 1_800),
        (counts.corrupted, 1_800),
        (counts.reordered, 1_800),
    ] {
        assert!(count.abs_diff(of / 10) < 67, "{counts:?}");
    }
    assert_eq!(out.len() as u64, 2_000 - counts.lost + counts.duplicated + counts.malformed.sum());
}

#[test]
fn an_overtaken_frame_is_overtaken_by_four_at_most() {
    let faults = PortFaults { reorder: Rate::percent(20), ..PortFaults::NONE };
    let mut direction = Direction::new(faults, 3, 0);
    let mut out = Vec::new();
    (0..500_u32).for_each(|number| direction.pass(&number.to_le_bytes(), 0, &mut out));
    direction.release(u64::MAX, &mut out);
    let numbers: Vec<i64> =
        out.iter().map(|frame| i64::from(u32::from_le_bytes(frame[..].try_into().unwrap()))).collect();
    let late = numbers.iter().enumerate().map(|(place, number)| place as i64 - number).max().unwrap();
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..500) && (1..=8).contains(&late), "late by {late}");
    assert!(!numbers.is_sorted() && direction.counts.reordered > 50);
}

#[test]
fn a_late_frame_comes_when_it_is_due() {
    let faults = PortFaults { delay: Rate::percent(100), delay_ns_max: 1_000, ..PortFaults::NONE };
    let mut direction = Direction::new(faults, 3, 0);
    let mut out = Vec::new();
    direction.pass(b"late", 10_000, &mut out);
    let due = direction.due().unwrap();
    assert!(out.is_empty() && (10_001..=11_000).contains(&due));
    direction.release(due - 1, &mut out);
    assert!(out.is_empty());
    direction.release(due, &mut out);
    assert_eq!((out, direction.due()), (vec![b"late".to_vec()], None));
}

#[test]
fn fates_do_not_depend_on_other_rates() {
    let (some, more) = (
        PortFaults { loss: Rate::percent(30), ..PortFaults::NONE },
        PortFaults {
            loss: Rate::percent(30),
            corrupt: Rate::percent(50),
            delay: Rate::percent(9),
            ..PortFaults::NONE
        },
    );
    let lost = |faults: &PortFaults| {
        let mut random = Random::new(8, 8);
        (0..200).map(|_| Decision::draw(faults, &mut random).lost).collect::<Vec<_>>()
    };
    assert_eq!(lost(&some), lost(&more));
}

#[test]
fn what_leaves_for_the_members_is_captured() {
    let mut bench =
        Bench::new(3, PortFaults::NONE, PortFaults { duplicate: Rate::percent(100), ..PortFaults::NONE });
    let path = bench.path("job.pcap");
    bench.switch.capture(File::create(&path).unwrap()).unwrap();
    let sent = frame(ALL, 0, b"captured");
    bench.send(0, &sent);
    bench.switch.finish().unwrap();
    let captured = std::fs::read(path).unwrap();
    assert_eq!(frames_of(&captured), vec![sent; 4]);
}

/// The frames of a capture, read as the format's description says.
fn frames_of(file: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(4), word(16), word(20)), (0xA1B2_C3D4, 0x0004_0002, 65_535, 1));
    let (mut at, mut frames) = (24, Vec::new());
    while at < file.len() {
        let (microseconds, kept, length) = (word(at + 4), word(at + 8) as usize, word(at + 12) as usize);
        assert!(microseconds < 1_000_000 && kept == length);
        frames.push(file[at + 16..at + 16 + kept].to_vec());
        at += 16 + kept;
    }
    frames
}

#[test]
fn a_turn_ends_when_another_member_has_something() {
    use std::os::fd::AsFd;
    let mut bench = Bench::new(1, PortFaults::NONE, PortFaults::NONE);
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"!").unwrap();
    let start = std::time::Instant::now();
    bench.switch.turn(Some(monotonic_ns() + PATIENCE.as_nanos() as u64), &[reader.as_fd()]).unwrap();
    assert!(start.elapsed() < PATIENCE);
}

/// A serial member: what it reads is put together here.
struct TestLine {
    stream: UnixStream,
    decoder: Decoder,
    frame: Vec<u8>,
}

impl TestLine {
    fn plug(bench: &Bench, number: u32) -> Self {
        let stream = UnixStream::connect(bench.path(&format!("serial{number}.sock"))).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self { stream, decoder: Decoder::new(), frame: vec![0; FRAME_BYTES_MAX] }
    }

    fn send(&mut self, frame: &[u8]) {
        let mut encoded = vec![0; cobs::encoded_bytes_max(frame.len())];
        let length = cobs::encode(frame, &mut encoded).unwrap();
        self.stream.write_all(&encoded[..length]).unwrap();
    }

    /// All frames that can be read now.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let (mut chunk, mut frames) = ([0; 4096], Vec::new());
        while let Ok(count @ 1..) = self.stream.read(&mut chunk) {
            let mut rest = &chunk[..count];
            while let Some(length) = self.decoder.feed(&mut rest, &mut self.frame) {
                frames.push(self.frame[..length.unwrap()].to_vec());
            }
        }
        frames
    }
}

/// A switch with a datagram member 0 and a serial port 1.
fn with_serial() -> Bench {
    let mut bench = Bench::new(1, PortFaults::NONE, PortFaults::NONE);
    bench.switch.add(1, CableKind::Serial, PortFaults::NONE, PortFaults::NONE).unwrap();
    bench
}

#[test]
fn a_serial_member_speaks_cobs_may_vanish_and_come_back() {
    let mut bench = with_serial();
    for round in 1..=2 {
        let mut line = TestLine::plug(&bench, 1);
        let (there, back) = (frame(ALL, 1, &[0, 1, 0, 0]), frame(1, 0, &[0; 600]));
        // Half a frame that the member before has left behind is none.
        line.send(&there);
        let mut received = Vec::new();
        while received.is_empty() {
            bench.turn();
            received = bench.received(0);
        }
        assert_eq!(received, [there]);
        bench.send(0, &back);
        assert_eq!(line.received(), [back]);
        line.stream.write_all(&[9, 1, 0, 5, 1]).unwrap();
        drop(line);
        bench.send(0, &frame(1, 0, b"lost"));
        let port = &bench.switch.statistics().ports[1];
        assert_eq!((port.absent, port.unreadable), (round, round));
    }
}

#[test]
fn many_short_frames_in_one_read_all_come() {
    let mut bench = with_serial();
    let mut line = TestLine::plug(&bench, 1);
    (0..200).for_each(|number| line.send(&frame(ALL, 1, &[number])));
    let mut got = Vec::new();
    while got.len() < 200 {
        bench.switch.turn(None, &[]).unwrap();
        got.extend(bench.received(0).iter().map(|frame| frame[14]));
    }
    assert!(got.into_iter().eq(0..200));
}

#[test]
fn a_slow_serial_member_loses_whole_frames() {
    let mut bench = with_serial();
    let mut line = TestLine::plug(&bench, 1);
    let total = 2_000_u32;
    for number in 0..total {
        bench.send(0, &frame(1, 0, &[&number.to_le_bytes()[..], &[7; 1000]].concat()));
    }
    let overflowed = bench.switch.statistics().ports[1].overflowed;
    let mut got = Vec::new();
    while got.len() as u64 + overflowed < u64::from(total) {
        bench.turn();
        got.extend(line.received());
    }
    assert!(
        overflowed > 0 && got.is_sorted_by_key(|frame| u32::from_le_bytes(frame[14..18].try_into().unwrap()))
    );
}
