//! A rank as the launcher sees it, wherever it runs.

use crate::messages::{Moment, RankNote};
use crate::rank_state::RankState;
use crate::report::Snapshot;

/// The state of a rank at some moment, and what it was doing.
#[derive(Clone, Debug, Default)]
struct Seen {
    state: Option<RankState>,
    note: Option<RankNote>,
}

/// A rank of the job.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its number.
    pub(crate) rank: u32,
    /// The host that it runs on, by place.
    pub(crate) host: usize,
    /// Its progress; `None` before it was started.
    pub(crate) state: Option<RankState>,
    /// Its card, until it is passed on.
    pub(crate) card: Option<Vec<u8>>,
    /// By [`Moment`].
    seen: [Seen; 3],
}

impl Member {
    /// A rank that is to be started on the host at this place.
    pub(crate) fn new(rank: u32, host: usize) -> Self {
        Self { rank, host, state: None, card: None, seen: Default::default() }
    }

    fn seen(&mut self, moment: Moment) -> &mut Seen {
        let [interrupted, condemned, ended] = &mut self.seen;
        match moment {
            Moment::Interrupted => interrupted,
            Moment::Condemned => condemned,
            Moment::Ended => ended,
        }
    }

    /// Keeps how it stands now.
    pub(crate) fn remember(&mut self, moment: Moment) {
        self.seen(moment).state = self.state.clone();
    }

    /// Keeps what it was doing then.
    pub(crate) fn take_note(&mut self, moment: Moment, note: RankNote) {
        self.seen(moment).note = Some(note);
    }

    /// Returns what there is to tell of that moment; `None` of a rank that had not been started.
    pub(crate) fn snapshot(&self, moment: Moment, host: Option<String>) -> Option<Snapshot> {
        let [interrupted, condemned, ended] = &self.seen;
        let (seen, state) = match moment {
            Moment::Interrupted => (interrupted, interrupted.state.as_ref()?),
            Moment::Condemned => (condemned, condemned.state.as_ref()?),
            Moment::Ended => (ended, self.state.as_ref()?),
        };
        let silent = || RankNote { doing: "not known: its host says nothing".into(), ..RankNote::default() };
        // A rank that had ended by then can only be told of as it ended.
        let note = seen.note.as_ref().or(ended.note.as_ref()).cloned().unwrap_or_else(silent);
        let fault = state.fault().map(|(fault, _)| fault.to_string());
        let fault = fault.or_else(|| state.failures().map(|failures| format!("had left{failures}")));
        Some(Snapshot { rank: self.rank, pid: state.pid, host, note, exit: state.exit, fault })
    }
}
