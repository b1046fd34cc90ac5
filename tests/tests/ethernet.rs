//! Kernels over Ethernet: two endpoints on a hub that loses a frame in ten and does worse to
//! others.

use core::time::Duration;

use aldis_coll::op::Sum;
use aldis_coll::{allreduce, barrier, bcast, comm, reduce};
use aldis_drivers::ethernet::{self, Ethernet, EthernetStorage, MTU_OVERHEAD_BYTES};
use aldis_hal::{Cause, Cost, Epoch, Instant, PeerId, Platform};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Config, Endpoint, Error, Rank, Request, Scope, Status, Tag};
use aldis_kit::hub::{Faults, Hub, HubNic};
use aldis_protocols::card::ByteOrder;

/// The longest message of an MTU of 1500.
const MESSAGE_BYTES: usize = 1464;
const SIZE: u32 = 2;
/// The time by which the clock moves while both ranks poll once.
const TURN_NS: u64 = 20_000;
/// Turns after which a test has failed: some minutes of virtual time.
const TURNS_MAX: u32 = 10_000_000;

/// A rank's clock is the hub's, and time passes where a rank has nothing to do.
struct Board {
    hub: Hub,
}

impl Platform for Board {
    fn now(&self) -> Instant {
        self.hub.now()
    }
    fn relax(&mut self, _: u32) {
        self.hub.advance(TURN_NS);
    }
    fn entropy(&mut self) -> u64 {
        1
    }
}

type End = Endpoint<'static, Ethernet<'static, HubNic>, Board>;
type EthernetPart<'scope, 'env> = Scope<'scope, 'env, 'static, Ethernet<'static, HubNic>, Board>;

/// A rank's endpoint that knows no peer yet.
fn end(hub: &Hub, rank: u32, epoch: u32) -> End {
    type Kernel = aldis_kernel::storage_type!(2, 8, 2, 8, 4, 1024, 0, 16);
    let (me, epoch) = (PeerId(rank), Epoch(epoch));
    let cost = Cost { overhead_ns: 1_500, latency_ns: 20_000, per_kib_ns: 8_500 };
    let nic = hub.nic(rank as u8 + 1, MESSAGE_BYTES + MTU_OVERHEAD_BYTES);
    let storage = Box::leak(Box::new(EthernetStorage::<1, 16, MESSAGE_BYTES>::new()));
    let transport = Ethernet::new(nic, storage.memory(), ethernet::Config::new(me, epoch, 1, cost)).unwrap();
    let memory = Box::leak(Box::new(Kernel::new())).memory();
    Endpoint::new(memory, transport, Board { hub: hub.clone() }, Config { me, size: SIZE, epoch }).unwrap()
}

/// Each hands the other its card, with its address on it.
fn introduce(ends: &mut [End; 2]) {
    introduce_as(ends, ByteOrder::NATIVE);
}

/// Like [`introduce`], of ranks that say that their byte order is this.
fn introduce_as(ends: &mut [End; 2], order: ByteOrder) {
    let cards = [0, 1].map(|rank: usize| {
        let mut card = ends[rank].card();
        card.order = order;
        card.address.extend_from_slice(&ends[rank].transport().address()).unwrap();
        card
    });
    ends[0].connect(&cards[1]).unwrap();
    ends[1].connect(&cards[0]).unwrap();
}

fn pair(seed: u64, faults: Faults) -> (Hub, [End; 2]) {
    let hub = Hub::new(seed);
    hub.set_faults(faults);
    let mut ends = [end(&hub, 0, 11), end(&hub, 1, 22)];
    introduce(&mut ends);
    (hub, ends)
}

fn bad(lose: u64) -> Faults {
    Faults { lose, duplicate: 20, corrupt: 20, cut: 10, delay: 50, delay_ns_max: 500_000 }
}

/// A request of a rank, and the scope that it is in.
struct PendingRequest<'p, 'scope, 'env> {
    scope: &'p mut EthernetPart<'scope, 'env>,
    request: Request<'scope>,
}

/// Polls both ranks in turn until both requests are over.
fn finish<'a, 'b>(
    hub: &Hub,
    sending: PendingRequest<'_, 'a, '_>,
    receiving: PendingRequest<'_, 'b, '_>,
) -> Result<(Status, Status), Error> {
    let PendingRequest { scope: one, request: mut sent } = sending;
    let PendingRequest { scope: other, request: mut received } = receiving;
    let (mut first, mut second) = (None, None);
    for _ in 0..TURNS_MAX {
        first = first.or(one.test(&mut sent)?);
        second = second.or(other.test(&mut received)?);
        // A side that is done goes on serving the other.
        one.poll(8);
        other.poll(8);
        if let Some(both) = first.zip(second) {
            return Ok(both);
        }
        hub.advance(TURN_NS);
    }
    panic!("no end after {} ns", hub.now().0);
}

/// A message of one of the ranks to the other.
#[derive(Clone, Copy)]
struct PassedMessage<'a> {
    from: usize,
    data: &'a [u8],
    tag: Tag,
}

/// Sends a message, and returns it as it arrives.
fn pass(hub: &Hub, ends: &mut [End; 2], message: PassedMessage<'_>) -> Vec<u8> {
    let PassedMessage { from, data, tag } = message;
    let mut buffer = vec![0; data.len() + 1];
    let [zero, one] = ends;
    let (sender, receiver) = if from == 0 { (zero, one) } else { (one, zero) };
    let (to, from) = (Rank(1 - from as u32), Rank(from as u32));
    let (world, there) = (sender.world(), receiver.world());
    let into = &mut buffer;
    let status = sender.scope(|one| {
        receiver.scope(|other| {
            let sent = one.isend(&world, data, to, tag)?;
            let received = other.irecv(&there, into, from, tag)?;
            let sending = PendingRequest { scope: one, request: sent };
            finish(hub, sending, PendingRequest { scope: other, request: received })
        })
    });
    let (_, status) = status.unwrap();
    assert_eq!((status.source, status.tag), (from, tag));
    buffer.truncate(status.bytes as usize);
    buffer
}

#[test]
fn ping_pong_over_a_wire_that_loses_one_frame_in_ten() {
    let mut damaged = 0;
    for seed in 0..20 {
        let (hub, mut ends) = pair(seed, bad(100));
        for round in 0..30u8 {
            // Inline, eager, and announced sizes in turn.
            let message = vec![round; [0, 8, 24, 25, 600, 1024, 1025, 3000][usize::from(round) % 8]];
            let there =
                pass(&hub, &mut ends, PassedMessage { from: 0, data: &message, tag: Tag(u32::from(round)) });
            let back = pass(&hub, &mut ends, PassedMessage { from: 1, data: &there, tag: Tag(7) });
            assert_eq!(back, message, "seed {seed}, round {round}");
        }
        let counters = ends[0].transport().counters();
        assert!(counters.retransmitted > 0, "the wire was bad: {counters:?}");
        assert!(ends.iter().all(|end| end.counters().malformed == 0));
        damaged += counters.checksum;
    }
    assert!(damaged > 0);
}

#[test]
fn a_rendezvous_of_100_kib_over_a_wire_that_loses_one_frame_in_ten() {
    for seed in 0..10 {
        let (hub, mut ends) = pair(seed, bad(100));
        let data: Vec<u8> = (0..100 * 1024u32).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
        for from in [0, 1] {
            assert!(
                pass(&hub, &mut ends, PassedMessage { from, data: &data, tag: Tag(3) }) == data,
                "seed {seed}"
            );
        }
    }
}

#[test]
fn without_faults_nothing_is_sent_twice() {
    let (hub, mut ends) = pair(1, Faults::NONE);
    let data = vec![0x5A; 100 * 1024];
    assert!(pass(&hub, &mut ends, PassedMessage { from: 0, data: &data, tag: Tag(3) }) == data);
    for end in &ends {
        let counters = end.transport().counters();
        assert_eq!((counters.retransmitted, counters.duplicates, counters.reordered), (0, 0, 0));
    }
}

#[test]
fn a_rank_that_vanishes_fails_who_waits_for_it_and_its_next_life_is_welcome() {
    let (hub, mut ends) = pair(1, bad(50));
    assert_eq!(
        pass(&hub, &mut ends, PassedMessage { from: 0, data: b"first life", tag: Tag(1) }),
        b"first life"
    );
    hub.unplug(2);
    let world = ends[0].world();
    let mut buffer = [0u8; 16];
    let dead = ends[0].within(Duration::from_secs(60)).recv(&world, &mut buffer, Rank(1), Tag(1));
    assert_eq!(dead.unwrap_err().cause, Cause::PeerDead);
    let dead = ends[0].send(&world, b"anyone?", Rank(1), Tag(1));
    assert_eq!(dead.unwrap_err().cause, Cause::PeerDead);

    ends[1] = end(&hub, 1, 33);
    introduce(&mut ends);
    for from in [0, 1] {
        assert_eq!(
            pass(&hub, &mut ends, PassedMessage { from, data: b"second life", tag: Tag(1) }),
            b"second life"
        );
    }
}

/// A post that is done has not arrived yet: a rank that leaves repeats what the wire has swallowed,
/// for as long as it may take.
#[test]
fn leaving_repeats_what_was_lost() {
    let (hub, mut ends) = pair(1, Faults::NONE);
    assert_eq!(pass(&hub, &mut ends, PassedMessage { from: 0, data: b"hello", tag: Tag(1) }), b"hello");
    let before = ends[0].transport().counters();
    hub.set_faults(Faults { lose: 1000, ..Faults::NONE });
    let (start, limit) = (hub.now(), Duration::from_millis(50));
    assert_eq!(ends[0].leave(limit), Ok(()), "the last word may stay unanswered");
    let after = ends[0].transport().counters();
    assert!(after.retransmitted > before.retransmitted, "the goodbye was lost: {after:?}");
    assert!(hub.now().since(start) >= limit.as_nanos() as u64);
}

/// A peer that has said goodbye may be gone: the answer to the very last word is not waited for as
/// long as a peer may compute.
#[test]
fn the_answer_of_one_that_has_left_is_waited_for_briefly() {
    let (hub, mut ends) = pair(1, Faults::NONE);
    assert_eq!(pass(&hub, &mut ends, PassedMessage { from: 0, data: b"hello", tag: Tag(1) }), b"hello");
    assert_eq!(ends[1].leave(Duration::from_millis(50)), Ok(()), "nobody has acknowledged the goodbye yet");
    hub.unplug(2);
    let start = hub.now();
    assert_eq!(ends[0].leave(Duration::from_secs(3600)), Ok(()));
    let waited = hub.now().since(start);
    assert!((1_000_000_000..5_000_000_000).contains(&waited), "{waited} ns");
    assert!(ends[0].transport().counters().retransmitted > 0, "the goodbye was lost");
}

/// A peer that has not been reached yet is waited for as long as `limit` says, and named then.
#[test]
fn a_peer_that_was_never_reached_is_waited_for_and_named() {
    let hub = Hub::new(5);
    let mut ends = [end(&hub, 0, 11), end(&hub, 1, 22)];
    introduce(&mut ends);
    let (start, limit) = (hub.now(), Duration::from_secs(5));
    let error = ends[0].leave(limit).unwrap_err();
    assert_eq!((error.cause, error.peer()), (Cause::TimedOut, Some(Rank(1))), "{error}");
    assert!(hub.now().since(start) >= limit.as_nanos() as u64);
}

/// Refused on both sides, before anything is sent, with the name of the other and what to do
/// instead.
#[test]
fn collectives_of_numbers_between_unlike_byte_orders_are_refused() {
    let hub = Hub::new(5);
    let mut ends = [end(&hub, 0, 11), end(&hub, 1, 22)];
    let other = if ByteOrder::NATIVE == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little };
    introduce_as(&mut ends, other);
    for (rank, end) in (0..SIZE).zip(&mut ends) {
        let (world, itself, peer) = (end.world(), end.itself(), Rank(1 - rank));
        let (mut halves, mut scratch) = ([0u16], [0]);
        let started =
            end.scope(|scope| allreduce(Sum, &mut halves, &mut scratch).start(scope, &world).map(|_| ()));
        let refused = [
            allreduce(Sum, &mut [1u32], &mut [0]).run(end, &world),
            reduce(Sum, &mut [1u64], &mut [0], Rank(0)).run(end, &world),
            started,
            comm::dup(end, &world).map(|_| ()),
        ];
        for error in refused.map(Result::unwrap_err) {
            assert_eq!((error.cause, error.peer()), (Cause::UnlikeOrder, Some(peer)), "{error}");
            assert!(error.to_string().contains("typed messages"), "{error}");
        }
        assert_eq!(end.unlike(&world), Some(peer));
        assert_eq!(end.unlike(&itself), None, "who is alone is of one kind");
        allreduce(Sum, &mut [1u32], &mut [0]).run(end, &itself).unwrap();
    }
}

/// Collectives without a byte order go on as ever: barriers, and those of bytes.
#[test]
fn collectives_of_bytes_between_unlike_byte_orders_work() {
    let hub = Hub::new(6);
    let mut ends = [end(&hub, 0, 11), end(&hub, 1, 22)];
    let other = if ByteOrder::NATIVE == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little };
    introduce_as(&mut ends, other);
    let (mut mine, mut theirs) = (*b"the same", *b"........");
    let (mut sum, mut total, mut room, mut there_too) = ([3u8], [4u8], [0], [0]);
    let [zero, one] = &mut ends;
    let (world, there) = (zero.world(), one.world());
    let done = zero.scope(|zero| {
        one.scope(|one| {
            let mut first = [
                barrier().start(zero, &world)?,
                bcast(&mut mine, Rank(0)).start(zero, &world)?,
                allreduce(Sum, &mut sum, &mut room).start(zero, &world)?,
            ];
            let mut second = [
                barrier().start(one, &there)?,
                bcast(&mut theirs, Rank(0)).start(one, &there)?,
                allreduce(Sum, &mut total, &mut there_too).start(one, &there)?,
            ];
            for _ in 0..TURNS_MAX {
                let mut done = true;
                for (ours, others) in first.iter_mut().zip(&mut second) {
                    done &= ours.test(zero)? & others.test(one)?;
                }
                if done {
                    return Ok::<_, Error>(());
                }
                hub.advance(TURN_NS);
            }
            panic!("no end after {} ns", hub.now().0);
        })
    });
    done.unwrap();
    assert_eq!((theirs, sum, total), (*b"the same", [7], [7]));
}
