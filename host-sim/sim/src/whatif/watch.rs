//! The view of a run while it is simulated, and a record of all of it.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// The observer that a run tells what happens in it.
pub trait Watch {
    /// Called when so many messages have been delivered, every 65,536 of them.
    fn delivered(&mut self, _messages: u64) {}

    /// A rank's processor has something to do. Those of one rank are told in the order of time.
    fn acts(&mut self, _act: ProcessorWork) {}
}

/// Tells a function how many messages have been delivered.
pub(super) struct Counted<F>(pub(super) F);

impl<F: FnMut(u64)> Watch for Counted<F> {
    fn delivered(&mut self, messages: u64) {
        (self.0)(messages);
    }
}

/// A piece of work of a rank's processor. Times are in ps after all began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessorWork {
    /// The rank.
    pub rank: u32,
    /// First element of the segment that it works on.
    pub base: usize,
    /// Its round.
    pub round: u32,
    /// The kind of work.
    pub what: WorkKind,
    /// Bytes sent, received, or reduced and copied.
    pub bytes: u64,
    /// The time at which it begins.
    pub start_ps: u64,
    /// The time at which the processor is done with it.
    pub end_ps: u64,
}

/// The work of a rank's processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkKind {
    /// Sends a message.
    Sends {
        /// The receiver.
        to: u32,
        /// The time at which the last byte has left.
        gone_ps: u64,
    },
    /// Receives a message.
    Receives {
        /// The sender.
        from: u32,
        /// The time at which the last byte had come.
        came_ps: u64,
    },
    /// Reduces and copies.
    Works,
}

impl ProcessorWork {
    /// The time from which nothing of it is left to do, by processor or network interface.
    pub const fn over_ps(&self) -> u64 {
        match self.what {
            WorkKind::Sends { gone_ps, .. } => gone_ps,
            WorkKind::Receives { .. } | WorkKind::Works => self.end_ps,
        }
    }
}

/// Everything that happened in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    acts: Vec<ProcessorWork>,
}

impl Watch for Trace {
    fn acts(&mut self, act: ProcessorWork) {
        self.acts.push(act);
    }
}

/// A message of a [`Trace`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The act of its sender.
    pub sent: ProcessorWork,
    /// The act of its receiver.
    pub received: ProcessorWork,
}

/// The acts that the end of a run waited for, from its beginning: no other act could be later
/// without making the run longer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CriticalPath {
    /// The acts on it.
    pub acts: Vec<ProcessorWork>,
    /// Time that processors spend on sending and receiving.
    pub overhead_ps: u64,
    /// Time that processors spend on reducing and copying.
    pub local_ps: u64,
    /// All other time: messages on their way, and waiting for network interfaces.
    pub way_ps: u64,
}

/// The load of one link: all messages of one rank to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Trace {
    /// All acts, those of one rank in the order of time.
    pub fn acts(&self) -> &[ProcessorWork] {
        &self.acts
    }

    /// All messages, in the order in which they were sent. Messages between two ranks match in
    /// order.
    pub fn messages(&self) -> Vec<Message> {
        let (mut sent, mut messages) = (HashMap::<_, VecDeque<ProcessorWork>>::new(), Vec::new());
        for &act in &self.acts {
            if let WorkKind::Sends { to, .. } = act.what {
                sent.entry((act.rank, to)).or_default().push_back(act);
            }
        }
        for &received in &self.acts {
            if let WorkKind::Receives { from, .. } = received.what {
                let first = sent.get_mut(&(from, received.rank)).and_then(VecDeque::pop_front);
                messages.extend(first.map(|sent| Message { sent, received }));
            }
        }
        messages.sort_by_key(|message| (message.sent.start_ps, message.sent.rank));
        messages
    }

    /// Returns the load of each link, by sender and receiver.
    pub fn links(&self) -> BTreeMap<(u32, u32), Load> {
        let mut links = BTreeMap::<_, Load>::new();
        for act in &self.acts {
            if let WorkKind::Sends { to, .. } = act.what {
                let load = links.entry((act.rank, to)).or_default();
                load.messages += 1;
                load.bytes = load.bytes.saturating_add(act.bytes);
            }
        }
        links
    }

    /// Returns the acts that the end of the run waited for, found from the last act backwards.
    pub fn critical_path(&self) -> CriticalPath {
        let mut of_rank: HashMap<u32, Vec<ProcessorWork>> = HashMap::new();
        self.acts.iter().for_each(|act| of_rank.entry(act.rank).or_default().push(*act));
        let sender_of: HashMap<(u32, u32, u64), ProcessorWork> = self
            .messages()
            .into_iter()
            .map(|Message { sent, received }| ((received.rank, sent.rank, received.start_ps), sent))
            .collect();
        let mut path = CriticalPath::default();
        let mut next = self.acts.iter().max_by_key(|act| act.over_ps()).copied();
        let end = next.map_or(0, |last| last.over_ps());
        while let Some(act) = next {
            path.acts.push(act);
            let own = of_rank.get(&act.rank).map_or(&[][..], Vec::as_slice);
            next = match act.what {
                WorkKind::Receives { from, came_ps } if came_ps == act.start_ps => {
                    sender_of.get(&(act.rank, from, act.start_ps)).copied()
                }
                _ => before(own, &act),
            };
            let took = act.end_ps - act.start_ps;
            match act.what {
                WorkKind::Works => path.local_ps += took,
                WorkKind::Sends { .. } | WorkKind::Receives { .. } => path.overhead_ps += took,
            }
        }
        path.way_ps = end.saturating_sub(path.local_ps).saturating_sub(path.overhead_ps);
        path.acts.reverse();
        path
    }
}

/// The act of the same rank that `act` waited for: one that was over as it began, else the last one
/// before, whose message kept the network interface.
fn before(own: &[ProcessorWork], act: &ProcessorWork) -> Option<ProcessorWork> {
    let place = own.iter().position(|one| one == act)?;
    let earlier = own.get(..place)?;
    let ended = |one: &&ProcessorWork| one.end_ps == act.start_ps || one.over_ps() == act.start_ps;
    earlier.iter().rev().find(ended).or(earlier.last()).copied().filter(|_| act.start_ps > 0)
}

#[cfg(test)]
mod tests {
    use aldis_coll::allreduce::RecursiveDoubling;
    use aldis_coll::bcast::{Binomial, Linear, Pipeline};
    use aldis_coll::schedule::Algorithm;

    use super::super::{LogGp, Outcome, Run, ScheduleNetwork, Topology};
    use super::*;

    fn traced(algorithm: Algorithm, size: u32, count: usize) -> (Outcome, Trace) {
        let network = ScheduleNetwork::new(LogGp::CLUSTER, Topology::Crossbar);
        let mut trace = Trace::default();
        let outcome = Run::new(algorithm, size).with_data(count, 8).traced(&network, &mut trace).unwrap();
        (outcome, trace)
    }

    #[test]
    fn every_message_is_told_from_both_sides() {
        let (outcome, trace) = traced(&RecursiveDoubling, 6, 100);
        let messages = trace.messages();
        assert_eq!(messages.len() as u64, outcome.messages);
        assert_eq!(messages.iter().map(|message| message.sent.bytes).sum::<u64>(), outcome.bytes);
        for Message { sent, received } in messages {
            assert_eq!(sent.bytes, received.bytes);
            assert!(received.start_ps >= sent.end_ps + LogGp::CLUSTER.latency_ps, "{sent:?} {received:?}");
        }
        let links = trace.links();
        assert_eq!(links.values().map(|load| load.messages).sum::<u64>(), outcome.messages);
        assert_eq!(trace.acts().iter().map(ProcessorWork::over_ps).max(), Some(outcome.time_ps));
    }

    #[test]
    fn the_critical_path_of_a_pipeline_is_all_of_it() {
        let (outcome, trace) = traced(&Pipeline, 5, 1000);
        let path = trace.critical_path();
        let ranks: Vec<u32> = path.acts.iter().map(|act| act.rank).collect();
        let cost = LogGp::CLUSTER;
        assert_eq!(ranks.first(), Some(&0));
        assert_eq!(path.overhead_ps % (2 * cost.overhead_ps), 0);
        assert_eq!(path.overhead_ps + path.local_ps + path.way_ps, outcome.time_ps);
        let messages = path.overhead_ps / (2 * cost.overhead_ps);
        assert_eq!(outcome.time_ps, messages * cost.message_ps(8000));
    }

    #[test]
    fn a_rank_that_sends_to_all_waits_for_itself() {
        for algorithm in [&Linear as Algorithm, &Binomial] {
            let (outcome, trace) = traced(algorithm, 9, 1);
            let path = trace.critical_path();
            assert_eq!(path.overhead_ps + path.local_ps + path.way_ps, outcome.time_ps);
            assert_eq!(path.acts.first().map(|act| (act.rank, act.start_ps)), Some((0, 0)));
            assert!(path.acts.iter().is_sorted_by_key(|act| act.start_ps));
        }
    }
}
