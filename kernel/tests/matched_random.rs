//! Random programs of sends, receives and matched probes over a tiny wire, against the definition
//! of matching.
//!
//! One rank sends, the other takes. With one source, which receive gets what does not depend on
//! timing (MPI 4.1 section 3.5): the receives in the order posted and the probes that found
//! something, each in its place among them, take in turn the first message that fits and that none
//! before them has taken. Only whether a probe finds something is a matter of time; so in the end,
//! when all is quiet, probes must find whatever is left.

use std::collections::VecDeque;

use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Error, Rank, Source, Status, Tag, TagMatch};
use aldis_kit::rig::{Job, REQUESTS, Shape, pattern, settle, together};
use proptest::prelude::*;

const SENDS_MAX: usize = 16;
/// Receives and tokens under way at a time, at most: with the one that asks, all slots.
const UNDER_WAY_MAX: usize = REQUESTS - 2;

#[derive(Clone, Copy, Debug)]
struct Wanted {
    any_source: bool,
    tag: Option<u32>,
}

#[derive(Clone, Debug)]
enum ProbeStep {
    Send {
        tag: u32,
        len: usize,
    },
    Receive(Wanted),
    /// Matched probes with polls of either side in between.
    Probe {
        wanted: Wanted,
        times: usize,
    },
    /// A plain probe, whose answer must be what a receive would get.
    Look(Wanted),
    /// Receives the oldest message that is matched, or lets go of it.
    Take {
        discard: bool,
    },
    Poll {
        sender: bool,
        budget: u32,
    },
}

fn wanted() -> impl Strategy<Value = Wanted> {
    (any::<bool>(), proptest::option::of(0u32..3)).prop_map(|(any_source, tag)| Wanted { any_source, tag })
}

fn steps() -> impl Strategy<Value = Vec<ProbeStep>> {
    let len = prop_oneof![0usize..100, Just(24), Just(25), Just(64), Just(65), 100usize..900];
    let step = prop_oneof![
        3 => (0u32..3, len).prop_map(|(tag, len)| ProbeStep::Send { tag, len }),
        1 => wanted().prop_map(ProbeStep::Receive),
        3 => (wanted(), 1usize..6).prop_map(|(wanted, times)| ProbeStep::Probe { wanted, times }),
        1 => wanted().prop_map(ProbeStep::Look),
        2 => any::<bool>().prop_map(|discard| ProbeStep::Take { discard }),
        3 => (any::<bool>(), 1u32..6).prop_map(|(sender, budget)| ProbeStep::Poll { sender, budget }),
    ];
    proptest::collection::vec(step, 0..90)
}

impl Wanted {
    const ALL: Self = Self { any_source: true, tag: None };

    fn pattern(self) -> (Source, TagMatch) {
        let source = if self.any_source { Source::Any } else { Source::Rank(Rank(0)) };
        (source, self.tag.map_or(TagMatch::Any, |tag| TagMatch::Tag(Tag(tag))))
    }
}

/// The messages that no receive has taken, in the order in which they are sent over the whole run.
struct Model {
    left: Vec<(usize, u32, usize)>,
}

impl Model {
    /// The message that a receive or probe takes next.
    fn take(&mut self, wanted: Wanted) -> Option<(usize, u32, usize)> {
        let fits = |&(_, tag, _): &(usize, u32, usize)| wanted.tag.is_none_or(|wanted| wanted == tag);
        let place = self.left.iter().position(fits)?;
        Some(self.left.remove(place))
    }

    /// Takes the message that a probe found: it must be the one that is due.
    fn found(&mut self, wanted: Wanted, status: Status) -> usize {
        let (index, tag, len) = self.take(wanted).expect("no message is left that it could have found");
        assert_eq!(
            (status.source, status.tag, status.bytes),
            (Rank(0), Tag(tag), len as u64),
            "message {index}"
        );
        index
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn probes_match_what_the_definition_says(
        steps in steps(), depth in 1usize..6, bcopy_bytes_max in prop_oneof![Just(56u32), 57u32..200],
        least in any::<bool>(),
    ) {
        let new = if least { Job::least } else { Job::new };
        let mut job = new(2, Shape { depth, bcopy_bytes_max });
        let mut ranks = job.ranks();
        let worlds = [ranks[0].world(), ranks[1].world()];
        let sends: Vec<_> = steps.iter().filter_map(|step| match *step {
            ProbeStep::Send { tag, len } => Some((tag, len)),
            _ => None,
        }).take(SENDS_MAX).collect();
        let data: Vec<_> = sends.iter().enumerate().map(|(seed, &(_, len))| pattern(seed as u32, len)).collect();
        let mut buffers = vec![vec![0u8; 1000]; steps.len() + SENDS_MAX];
        let mut model = Model {
            left: sends.iter().enumerate().map(|(index, &(tag, len))| (index, tag, len)).collect(),
        };
        // Of each buffer in use: which message must be in it.
        let mut due: Vec<Option<usize>> = Vec::new();
        let mut results = Vec::new();

        let end = together(&mut ranks, |one, other| {
            let mut free = buffers.iter_mut();
            let (mut sending, mut receiving, mut tokens) = (Vec::new(), Vec::new(), VecDeque::new());
            for step in &steps {
                // A request that is over has no slot, but counts: that only makes the test take
                // less at a time.
                let room = receiving.len() + tokens.len() < UNDER_WAY_MAX;
                match *step {
                    ProbeStep::Send { tag, .. } if sending.len() < SENDS_MAX => {
                        sending.push(one.isend(&worlds[0], &data[sending.len()], Rank(1), Tag(tag))?);
                    }
                    ProbeStep::Receive(wanted) if room => {
                        let (source, tag) = wanted.pattern();
                        receiving.push(other.irecv(&worlds[1], free.next().unwrap(), source, tag)?);
                        due.push(model.take(wanted).map(|(index, ..)| index));
                    }
                    ProbeStep::Probe { wanted, times } if room => {
                        let (source, tag) = wanted.pattern();
                        for _ in 0..times {
                            if let Some(token) = other.improbe(&worlds[1], source, tag)? {
                                let index = model.found(wanted, token.status());
                                tokens.push_back((token, index));
                                break;
                            }
                            one.poll(2);
                        }
                    }
                    ProbeStep::Look(wanted) => {
                        let (source, tag) = wanted.pattern();
                        if let Some(status) = other.iprobe(&worlds[1], source, tag)? {
                            let left = model.left.clone();
                            model.found(wanted, status);
                            model.left = left;
                        }
                    }
                    ProbeStep::Take { discard } => match tokens.pop_front() {
                        Some((token, _)) if discard => other.discard_matched(token)?,
                        Some((token, index)) => {
                            receiving.push(other.imrecv(token, free.next().unwrap())?);
                            due.push(Some(index));
                        }
                        None => {}
                    },
                    ProbeStep::Poll { sender: true, budget } => drop(one.poll(budget)),
                    ProbeStep::Poll { budget, .. } => drop(other.poll(budget)),
                    ProbeStep::Send { .. } | ProbeStep::Receive(_) | ProbeStep::Probe { .. } => {}
                }
            }
            settle(one, other);
            // All is quiet: what is left is found, in order.
            for _ in 0..8 * SENDS_MAX {
                if model.left.is_empty() && tokens.is_empty() {
                    break;
                }
                if let Some((token, index)) = tokens.pop_front() {
                    receiving.push(other.imrecv(token, free.next().unwrap())?);
                    due.push(Some(index));
                }
                if let Some(token) = other.improbe(&worlds[1], Source::Any, TagMatch::Any)? {
                    let index = model.found(Wanted::ALL, token.status());
                    tokens.push_back((token, index));
                }
                settle(one, other);
            }
            assert!(model.left.is_empty(), "{:?} were never found", model.left);
            for mut request in receiving {
                let status = other.test(&mut request)?;
                if status.is_none() {
                    assert!(other.cancel(&mut request), "a receive without a message can be cancelled");
                }
                results.push(status);
            }
            one.wait_all(&mut sending)?;
            Err::<(), _>(Error::new(Operation::None, Cause::Cancelled))
        });
        prop_assert_eq!(end.unwrap_err().cause, Cause::Cancelled);
        for rank in &ranks {
            prop_assert_eq!(rank.counters().malformed, 0);
            // The last probe goes on.
            prop_assert!(rank.diagnostics().requests_in_use() <= 1 && rank.diagnostics().queue_depths() == (0, 0));
        }
        for ((status, due), buffer) in results.iter().zip(&due).zip(&buffers) {
            prop_assert_eq!(status.map(|status| status.bytes), due.map(|index| data[index].len() as u64));
            if let Some(index) = *due {
                prop_assert_eq!(&buffer[..data[index].len()], &data[index][..]);
            }
        }
    }
}
