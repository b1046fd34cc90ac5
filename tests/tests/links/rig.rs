//! Two endpoints on any two devices, under a clock that moves by a turn while both poll once.

use core::cell::Cell;
use std::rc::Rc;

use aldis_drivers::ethernet::udp::UDP_HEADER_BYTES;
use aldis_drivers::ethernet::{self, Ethernet, EthernetStorage, Framing};
use aldis_hal::{Cost, Epoch, Instant, Nic, PeerId, Platform};
use aldis_kernel::{Config, Endpoint, Error, Rank, Request, Scope, Status, Tag};
use aldis_protocols::Card;
use aldis_protocols::reliable;

/// The longest message that the transport takes.
pub(crate) const MESSAGE_BYTES: usize = 456;
/// The longest frame of the devices.
pub(crate) const FRAME_BYTES: usize = MESSAGE_BYTES + UDP_HEADER_BYTES + reliable::FRAME_BYTES;
/// The job of both ranks, and the life that each is in.
pub(crate) const JOB: u64 = 0xA1D1_5001;
pub(crate) const EPOCHS: [Epoch; 2] = [Epoch(11), Epoch(12)];
/// The time by which the clock moves while both ranks poll once.
const TURN_NS: u64 = 20_000;
/// Turns after which a test has failed: some minutes of virtual time.
const TURNS_MAX: u32 = 10_000_000;

/// The time of both ranks.
#[derive(Clone, Default)]
pub(crate) struct LinkClock(Rc<Cell<u64>>);

impl LinkClock {
    pub(crate) fn turn(&self) {
        self.0.set(self.0.get() + TURN_NS);
    }
}

impl Platform for LinkClock {
    fn now(&self) -> Instant {
        Instant(self.0.get())
    }
    fn relax(&mut self, _: u32) {
        self.turn();
    }
    fn entropy(&mut self) -> u64 {
        1
    }
}

/// Numbers from a seed: splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns true once in `every` times, by chance.
    pub(crate) fn once_in(&mut self, every: u64) -> bool {
        self.next().is_multiple_of(every)
    }
}

type LinkEndpoint<N> = Endpoint<'static, Ethernet<'static, N>, LinkClock>;
type LinkPart<'scope, 'env, N> = Scope<'scope, 'env, 'static, Ethernet<'static, N>, LinkClock>;

/// A job of two ranks.
pub(crate) struct LinkedPair<N: Nic> {
    pub(crate) clock: LinkClock,
    pub(crate) ends: [LinkEndpoint<N>; 2],
}

impl<N: Nic> LinkedPair<N> {
    /// Two endpoints that do not know each other, whose frames are of this kind.
    pub(crate) fn strangers(nics: [N; 2], framing: fn(u32) -> Framing) -> Self {
        let clock = LinkClock::default();
        let mut rank = 0;
        let ends = nics.map(|nic| {
            rank += 1;
            end(&clock, nic, rank - 1, framing(rank - 1))
        });
        Self { clock, ends }
    }

    /// Two endpoints that know each other.
    pub(crate) fn new(nics: [N; 2]) -> Self {
        let mut pair = Self::strangers(nics, |_| Framing::Ethernet);
        let [zero, one] = [0, 1].map(|rank| pair.card(rank));
        pair.ends[0].connect(&one).unwrap();
        pair.ends[1].connect(&zero).unwrap();
        pair
    }

    /// Returns the card that a rank gives the other.
    pub(crate) fn card(&self, rank: usize) -> Card {
        let mut card = self.ends[rank].card();
        card.address.extend_from_slice(&self.ends[rank].transport().address()).unwrap();
        card
    }

    /// Sends one message from rank `from` to the other, and returns it as it arrives.
    pub(crate) fn pass(&mut self, from: usize, data: &[u8], tag: Tag) -> Vec<u8> {
        let mut buffer = vec![0; data.len() + 1];
        let [zero, one] = &mut self.ends;
        let (sender, receiver) = if from == 0 { (zero, one) } else { (one, zero) };
        let (to, from) = (Rank(1 - from as u32), Rank(from as u32));
        let (world, there) = (sender.world(), receiver.world());
        let into = &mut buffer;
        let status = sender.scope(|one| {
            receiver.scope(|other| {
                let sent = one.isend(&world, data, to, tag)?;
                let received = other.irecv(&there, into, from, tag)?;
                let sending = PendingRequest { scope: one, request: sent };
                finish(&self.clock, sending, PendingRequest { scope: other, request: received })
            })
        });
        let (_, status) = status.unwrap();
        assert_eq!((status.source, status.tag), (from, tag));
        buffer.truncate(status.bytes as usize);
        buffer
    }

    /// Messages of all protocols there and back: inline, eager, and announced ones.
    pub(crate) fn ping_pong(&mut self, rounds: u8) {
        for round in 0..rounds {
            let message = vec![round; [0, 8, 24, 25, 300, 1024, 1025, 3000][usize::from(round) % 8]];
            let there = self.pass(0, &message, Tag(u32::from(round)));
            let back = self.pass(1, &there, Tag(7));
            assert_eq!(back, message, "round {round}");
        }
        assert!(self.ends.iter().all(|end| end.counters().malformed == 0));
    }

    /// 100 KiB each way, which is more than either side has room for.
    pub(crate) fn rendezvous(&mut self) {
        let data: Vec<u8> = (0..100 * 1024u32).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
        for from in [0, 1] {
            assert!(self.pass(from, &data, Tag(3)) == data, "from rank {from}");
        }
    }
}

/// A rank's endpoint that knows no peer yet.
fn end<N: Nic>(clock: &LinkClock, nic: N, rank: u32, framing: Framing) -> LinkEndpoint<N> {
    type Kernel = aldis_kernel::storage_type!(2, 8, 2, 8, 4, 1024, 0, 16);
    let (me, epoch) = (PeerId(rank), EPOCHS[rank as usize]);
    let cost = Cost { overhead_ns: 1_500, latency_ns: 20_000, per_kib_ns: 80_000 };
    let storage = Box::leak(Box::new(EthernetStorage::<1, 16, MESSAGE_BYTES>::new()));
    let config = ethernet::Config { framing, ..ethernet::Config::new(me, epoch, JOB, cost) };
    let transport = Ethernet::new(nic, storage.memory(), config).unwrap();
    let memory = Box::leak(Box::new(Kernel::new())).memory();
    Endpoint::new(memory, transport, clock.clone(), Config { me, size: 2, epoch }).unwrap()
}

/// A request of a rank, and the scope that it is in.
struct PendingRequest<'p, 'scope, 'env, N: Nic> {
    scope: &'p mut LinkPart<'scope, 'env, N>,
    request: Request<'scope>,
}

/// Polls both ranks in turn until both requests are over.
fn finish<'a, 'b, N: Nic>(
    clock: &LinkClock,
    sending: PendingRequest<'_, 'a, '_, N>,
    receiving: PendingRequest<'_, 'b, '_, N>,
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
        clock.turn();
    }
    panic!("no end after {:?}", clock.now());
}
