//! The wire: what is sent arrives later, or not, or twice, or behind what was sent after it.

use std::collections::BTreeMap;

use super::*;

/// Chances in thousandths, and the longest time on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct WireFaults {
    pub(super) lose: u64,
    pub(super) repeat: u64,
    pub(super) corrupt: u64,
    pub(super) delay_ns_max: u64,
}

impl WireFaults {
    pub(super) const NONE: Self = Self { lose: 0, repeat: 0, corrupt: 0, delay_ns_max: 1_000 };
}

pub(super) struct Net {
    pub(super) now: u64,
    pub(super) faults: WireFaults,
    pub(super) nodes: Vec<Option<Roster<'static>>>,
    /// Frames on their way: when and in which order they arrive; from, to, bytes.
    way: BTreeMap<(u64, u64), (Mac, usize, Vec<u8>)>,
    pub(super) frames: u64,
    seed: u64,
}

impl Net {
    pub(super) fn new(size: u32, seed: u64, faults: WireFaults) -> Self {
        let nodes = (0..size).map(|_| None).collect();
        Self { now: 0, faults, nodes, way: BTreeMap::new(), frames: 0, seed }
    }

    /// The rank begins a life now and announces its card.
    pub(super) fn start(&mut self, rank: u32, epoch: u32) {
        let mut roster = roster(setup(rank, self.nodes.len() as u32, epoch));
        roster.announce(&card(rank, epoch), Instant(self.now)).unwrap();
        self.nodes[rank as usize] = Some(roster);
        self.transmit(rank as usize);
    }

    pub(super) fn node(&mut self, rank: u32) -> &mut Roster<'static> {
        self.nodes[rank as usize].as_mut().unwrap()
    }

    /// Splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }

    pub(super) fn transmit(&mut self, index: usize) {
        let Some(roster) = &mut self.nodes[index] else { return };
        let from = station(index as u32);
        for (to, bytes) in sent(roster) {
            let all = (0..self.nodes.len()).filter(|other| *other != index);
            let takers: Vec<usize> =
                all.filter(|other| to == Mac([0xFF; 6]) || to == station(*other as u32)).collect();
            for taker in takers {
                self.carry(from, taker, bytes.clone());
            }
        }
    }

    fn carry(&mut self, from: Mac, taker: usize, mut bytes: Vec<u8>) {
        let WireFaults { lose, repeat, corrupt, delay_ns_max } = self.faults;
        if self.draw(1000) < lose {
            return;
        }
        if self.draw(1000) < corrupt {
            let bit = self.draw(bytes.len() as u64 * 8);
            bytes[bit as usize / 8] ^= 1 << (bit % 8);
        }
        let copies = if self.draw(1000) < repeat { 2 } else { 1 };
        for _ in 0..copies {
            self.frames += 1;
            let due = self.now + 1 + self.draw(delay_ns_max);
            self.way.insert((due, self.frames), (from, taker, bytes.clone()));
        }
    }

    /// The next thing happens. False: nothing ever will.
    pub(super) fn step(&mut self) -> bool {
        let timers = self.nodes.iter().flatten().filter_map(Roster::poll_timeout).min();
        let arrival = self.way.keys().next().map(|(due, _)| *due);
        match (arrival, timers) {
            (None, None) => return false,
            (Some(due), timer) if timer.is_none_or(|at| due <= at.0) => {
                self.now = due;
                let Some((_, (from, taker, bytes))) = self.way.pop_first() else { return false };
                if let Some(roster) = &mut self.nodes[taker] {
                    roster.handle(from, &bytes);
                    self.transmit(taker);
                }
            }
            (_, timer) => {
                self.now = timer.map_or(self.now, |at| at.0.max(self.now));
                for index in 0..self.nodes.len() {
                    if let Some(roster) = &mut self.nodes[index] {
                        roster.handle_timeout(Instant(self.now));
                        self.transmit(index);
                    }
                }
            }
        }
        true
    }

    /// Until nothing is left to happen.
    pub(super) fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the wire never falls silent");
    }

    /// Returns true if every rank that runs holds the cards of all, in these lives.
    pub(super) fn agrees(&self, epoch: impl Fn(u32) -> u32) -> bool {
        let size = self.nodes.len() as u32;
        let holds = |roster: &Roster<'_>| {
            (0..size).all(|rank| roster.card(PeerId(rank)) == Some(&card(rank, epoch(rank))[..]))
        };
        self.nodes.iter().flatten().all(|roster| roster.is_complete() && holds(roster))
    }
}
