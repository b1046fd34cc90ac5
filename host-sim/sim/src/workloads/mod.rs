//! Programs to run on virtual nodes, in one list. Each knows what must come out and fails with
//! words if something else does. A feature that adds semantics adds a workload here, and from then
//! on every seed tests it.
//!
//! All are generic over transport and platform, so that they run on any other job just as well.

mod collectives;
mod communicators;
mod deadlines;
mod duets;
mod flood;
mod futures;
mod halo;
mod intercommunicators;
mod matched_probe;
mod matching;
mod modes;
mod overlap;
mod partitioned;
mod random_messages;
mod reboot;
mod ring;
mod storm;
mod typed;

use core::fmt;
use core::time::Duration;

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Rank, Status, Tag};

use super::random::Random;
use super::virtual_node::{Outcome, SimEndpoint};

/// A program and what it is called. Every rank runs it with the run's seed.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// A line on what it does.
    pub about: &'static str,
    /// The program.
    pub run: fn(&mut SimEndpoint<'_>, u64) -> Outcome,
}

/// All of them.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "ring",
        about: "a token goes round, and all tokens at once",
        run: |ep, seed| ring::run(ep, seed),
    },
    Workload {
        name: "random",
        about: "random messages of all sizes and random receives, with and without wildcards",
        run: |ep, seed| random_messages::run(ep, seed),
    },
    Workload {
        name: "matching",
        about: "wildcards of all kinds from many sources at a time, judged by an oracle of matching",
        run: |ep, seed| matching::run(ep, seed),
    },
    Workload {
        name: "matched-probe",
        about: "matched probes among receives and plain probes, of more messages than there are envelopes",
        run: |ep, seed| matched_probe::run(ep, seed),
    },
    Workload {
        name: "modes",
        about: "synchronous and ready sends, the null rank as a partner, requests taken as they come",
        run: |ep, seed| modes::run(ep, seed),
    },
    Workload {
        name: "partitioned",
        about: "messages in parts that get ready in any order, over channels of several rounds",
        run: |ep, seed| partitioned::run(ep, seed),
    },
    Workload {
        name: "flood",
        about: "all send to one rank at a time, as much as they can",
        run: |ep, seed| flood::many_to_one(ep, seed),
    },
    Workload {
        name: "all-to-all",
        about: "every rank sends to every other at a time",
        run: |ep, seed| flood::all_to_all(ep, seed),
    },
    Workload {
        name: "storm",
        about: "all ranks start to talk to all others at a time, in orders of their own, again and again",
        run: |ep, seed| storm::run(ep, seed),
    },
    Workload {
        name: "duets",
        about: "every call there is between two ranks at a time: probes, pooled, truncated, in parts, to itself",
        run: |ep, seed| duets::run(ep, seed),
    },
    Workload {
        name: "deadlines",
        about: "calls that give up: deadlines, cancelled requests, messages withdrawn half way",
        run: |ep, seed| deadlines::run(ep, seed),
    },
    Workload {
        name: "collectives",
        about: "barriers, broadcasts and all-reductions in random order",
        run: |ep, seed| collectives::run(ep, seed),
    },
    Workload {
        name: "overlap",
        about: "collectives in flight while messages pass between their ranks",
        run: |ep, seed| overlap::run(ep, seed),
    },
    Workload {
        name: "barrier-allreduce",
        about: "one barrier and one all-reduction of 8 bytes, for large jobs",
        run: |ep, _| collectives::barrier_and_allreduce(ep),
    },
    Workload {
        name: "halo",
        about: "the exchange of edges of the heat example, on a torus of blocks, against the same steps on one rank",
        run: |ep, seed| halo::run(ep, seed),
    },
    Workload {
        name: "reboot",
        about: "exchanges of all with all, also with a rank that has died and booted again",
        run: |ep, seed| reboot::run(ep, seed),
    },
    Workload {
        name: "communicators",
        about: "communicators made, used and freed at random, against a model of everybody's table",
        run: |ep, seed| communicators::run(ep, seed),
    },
    Workload {
        name: "typed",
        about: "messages of datatypes, scattered in one way where they are sent and in another where they are received",
        run: |ep, seed| typed::run(ep, seed),
    },
    Workload {
        name: "intercommunicators",
        about: "two random groups and all that can be done between them",
        run: |ep, seed| intercommunicators::run(ep, seed),
    },
    Workload {
        name: "futures",
        about: "random messages by futures: all sends at a time, tasks that receive and probe, deadlines",
        run: |ep, seed| futures::run(ep, seed),
    },
    Workload {
        name: "mixed",
        about: "some of the others, one after another",
        run: |ep, seed| mixed(ep, seed),
    },
];

impl Workload {
    /// The workload of that name.
    pub fn named(name: &str) -> Option<Self> {
        WORKLOADS.iter().find(|workload| workload.name == name).copied()
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workload").field(&self.name).finish()
    }
}

/// Some of the others, in an order that all ranks draw alike. Nothing keeps one apart from the
/// next: messages of the next arrive while a rank is still in the last.
pub fn mixed<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let mut random = Random::new(seed, 20);
    for _ in 0..random.within(1, 4) {
        let seed = random.draw();
        match random.below(18) {
            0 => ring::run(ep, seed)?,
            1 => random_messages::run(ep, seed)?,
            2 => flood::many_to_one(ep, seed)?,
            3 => flood::all_to_all(ep, seed)?,
            4 => collectives::run(ep, seed)?,
            5 => matching::run(ep, seed)?,
            6 => modes::run(ep, seed)?,
            7 => storm::run(ep, seed)?,
            8 => duets::run(ep, seed)?,
            9 => deadlines::run(ep, seed)?,
            10 => overlap::run(ep, seed)?,
            11 => communicators::run(ep, seed)?,
            12 => typed::run(ep, seed)?,
            13 => futures::run(ep, seed)?,
            14 => partitioned::run(ep, seed)?,
            15 => matched_probe::run(ep, seed)?,
            16 => intercommunicators::run(ep, seed)?,
            _ => halo::run(ep, seed)?,
        }
    }
    Ok(())
}

/// The time that a message which no rank receives is given, to find a place.
const LITTER: Duration = Duration::from_micros(200);

/// Sends a message that no rank receives. One that finds no place is withdrawn.
fn litter<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, comm: &Comm, to: Rank) -> Outcome {
    match ep.within(LITTER).send(comm, &[u64::MAX], to, Tag(0)) {
        Err(Error { cause: Cause::TimedOut, .. }) => Ok(()),
        sent => Ok(sent.map(|_| ())?),
    }
}

/// A length that some protocol finds hard, up to a few fragments.
fn length(random: &mut Random) -> usize {
    match random.below(4) {
        0 => random.below(25) as usize,
        1 => *random.pick(&[0, 8, 23, 24, 25, 31, 63, 64, 65, 127, 128, 129, 512]),
        2 => random.below(200) as usize,
        _ => random.below(3000) as usize,
    }
}

/// Fills `bytes` with what message `number` from rank `from` holds.
fn fill(bytes: &mut [u8], from: u32, number: u64) {
    let mut random = Random::new(number, u64::from(from) + 100);
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.draw().to_le_bytes()[..chunk.len()]);
    }
}

/// Bytes of message `number` from rank `from`.
fn message(from: u32, number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, from, number);
    bytes
}

/// A message that is due.
#[derive(Clone, Copy)]
struct DueMessage {
    from: u32,
    tag: u32,
    number: u64,
    len: usize,
}

/// Checks that `status` and `buffer` are those of the message that is due.
fn expect(status: &Status, buffer: &[u8], due: DueMessage) -> Outcome {
    let DueMessage { from, tag, number, len } = due;
    let (source, has, bytes) = (status.source.0, status.tag.0, status.bytes);
    if (source, has, bytes) != (from, tag, len as u64) {
        return Err(format!(
            "message {number:x} of rank {from} with tag {tag} and {len} bytes was due; one of rank {source} with tag \
             {has} and {bytes} bytes came"
        )
        .into());
    }
    let right = message(from, number, len);
    match buffer.iter().zip(&right).position(|(is, due)| is != due) {
        Some(at) => Err(format!("message {number:x} of rank {from}: byte {at} of {len} is wrong").into()),
        None => Ok(()),
    }
}
