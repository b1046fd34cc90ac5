//! Bugs planted in the kernel are found by the simulator: by what its workloads know must come out,
//! by its invariants, or because a job does not come to its end. Run by `cargo test -p
//! aldis-sim --features planted-bugs --test planted -- --nocapture`.
#![allow(missing_docs)]

use aldis_kernel::hal::transport::Quiesce;
use aldis_kernel::hal::{
    Caps, Cause, Epoch, Extras, Features, Handle, Instant, PeerId, Post, Refusal, RemoteMemory, Sink, Slot,
    Transport,
};
use aldis_kernel::protocols::header::{Body, Finish, Header, Kind, Label, Packet, finish};
use aldis_kernel::{Planted, plant};
use aldis_sim::workloads::mixed;
use aldis_sim::{Report, SimConfig, Topology, VirtualNode, simulate_nodes};

/// Seeds within which each must be found.
const SEEDS: u64 = 200;
/// The variable with the first of the seeds that `cargo xtask test` draws from the commit, and how
/// many of them are tried.
const WILD: (&str, u64) = ("ALDIS_WILD_FROM", 100);

/// A transport on which late messages come to request slots that have other users by now. The
/// kernel is to see that by their generation, and to drop them.
struct Late<T>(T);

impl<T: Transport> Late<T> {
    fn pass(&mut self, peer: PeerId, message: &[u8]) -> Result<(), Refusal> {
        put(&mut self.0, peer, message)?;
        let Ok(Packet { header, body: Body::Data { receiver: Handle { slot, generation }, .. } }) =
            Packet::parse(message)
        else {
            return Ok(());
        };
        if let Some(earlier) = generation.checked_sub(2).filter(|generation| *generation > 0) {
            let last_user = Handle { slot, generation: earlier };
            // Where there is no room it is not late, it is lost.
            let withdrawn = Header { kind: Kind::Finish, tag: 0, length: 0, ..header };
            let body = finish(last_user, Finish::Withdrawn, &Label::NONE);
            let _ = put(&mut self.0, peer, &[&withdrawn.emit()[..], &body].concat());
        }
        Ok(())
    }
}

fn put(transport: &mut impl Transport, peer: PeerId, message: &[u8]) -> Result<(), Refusal> {
    let mut slot = transport.reserve(peer, message.len())?;
    slot.bytes().copy_from_slice(message);
    slot.commit();
    Ok(())
}

struct LateSlot<'t, T> {
    late: &'t mut Late<T>,
    peer: PeerId,
    bytes: Vec<u8>,
}

impl<T: Transport> Slot for LateSlot<'_, T> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn commit(self) {
        let passed = self.late.pass(self.peer, &self.bytes);
        assert_eq!(passed, Ok(()), "there was room when the slot was reserved");
    }
}

impl<T: Transport> Transport for Late<T> {
    type Slot<'t>
        = LateSlot<'t, T>
    where
        Self: 't;

    fn name(&self) -> &'static str {
        "late"
    }
    fn features(&self) -> Features {
        self.0.features()
    }
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        self.0.reach(peer)
    }
    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        self.0.introduce(peer, epoch, address)
    }
    fn expect(&mut self, peer: PeerId) {
        self.0.expect(peer);
    }
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        self.0.short(peer, header, payload)
    }
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<LateSlot<'_, T>, Refusal> {
        // Whether there is room is asked by a slot that is given back.
        drop(self.0.reserve(peer, len)?);
        Ok(LateSlot { late: self, peer, bytes: vec![0; len] })
    }
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        self.0.quiesce(what)
    }
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        self.0.poll(budget, now, sink)
    }
}

impl<T> Extras for Late<T> {}

impl<T> RemoteMemory for Late<T> {}

/// A run whose size and wiring are drawn from its seed as well.
fn run(seed: u64) -> Report {
    let mut config = SimConfig::new(seed, 2 + (seed % 8) as u32);
    config.topology = Topology::ALL[(seed / 8 % 4) as usize];
    simulate_nodes(&config, move |node: VirtualNode<'_>| node.run_over(Late, |ep| mixed(ep, seed))).unwrap()
}

/// Plants all bugs in one test, because what is planted is planted in the whole process.
#[test]
fn each_is_found_and_nothing_else() {
    let bugs = [
        Planted::DropCredit,
        Planted::SkipGeneration,
        Planted::ReorderFragments,
        Planted::ForgetPostingOrder,
    ];
    for bug in bugs {
        plant(Some(bug));
        let found = (0..SEEDS).find_map(|seed| Some((seed, run(seed).failure?)));
        let (seed, failure) = found.unwrap_or_else(|| panic!("{bug:?} passes on all seeds"));
        println!("{bug:?} is found with seed {seed}: {failure}");
    }
    plant(None);
    let wild = std::env::var(WILD.0).ok().map(|from| from.parse().expect("a seed"));
    let wild = wild.map_or(0..0, |from: u64| from..from + WILD.1);
    for seed in (0..SEEDS).chain(wild) {
        let report = run(seed);
        assert_eq!(report.failure, None, "{report}\nreplay with {}={seed} in the environment", WILD.0);
    }
}
