//! Cores that share an endpoint: each exchanges messages with the core of its number on the ranks
//! before and after its own, by a tag of its own, while the first waits for what the others send
//! last.

use core::time::Duration;

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Rank, SharedCore, Status, Tag};

use crate::{DIGEST, ProgramFailure, digest};

/// Words of 64 bits in a message: one that goes inline, an eager one, and one beyond the eager size
/// of most boards.
const LENGTHS: [usize; 3] = [1, 16, 300];
const LENGTH_MAX: usize = 300;

/// The tag of what each core but the first sends last, to the first of the next rank. Others have
/// the number of their core.
const LAST: Tag = Tag(1 << 16);

/// The talk of a core, or of a rank that has one core for all.
#[derive(Clone, Copy, Debug)]
pub struct Talk {
    /// Cores of each rank.
    pub cores: u32,
    /// Messages that each of them sends.
    pub count: u32,
    /// The longest that a core waits for any one thing. The first waits for all others in one.
    pub limit: Duration,
}

impl Talk {
    /// Plays core number `core` of this rank. Returns the messages that it has sent.
    ///
    /// # Errors
    /// A call that fails, a message that is not what it should be, or a job of one rank.
    pub fn play_core<T: Transport, P: Platform, Q: Platform>(
        self,
        shared: &mut SharedCore<'_, '_, T, P, Q>,
        core: u32,
    ) -> Result<u64, ProgramFailure> {
        let world = shared.lock().world();
        let [before, after] = neighbors(&world)?;
        let mut shared = shared.within(self.limit);
        for sender in self.others(core) {
            let mut last = [0];
            shared.recv(&world, &mut last, before, LAST)?;
            check(&last, Message { rank: before, core: LAST.0, round: 0 }, sender.into())?;
        }
        let (mut out, mut found) = ([0; LENGTH_MAX], [0; LENGTH_MAX]);
        for round in 0..self.count {
            let due = Message { rank: before, core, round };
            let data = Message { rank: world.rank(), core, round }.fill(&mut out);
            // In a circle of ranks that all send first, none would receive.
            let sends_first = world.rank().0.is_multiple_of(2);
            if sends_first {
                shared.send(&world, data, after, Tag(core))?;
            }
            let status = shared.recv(&world, &mut found, before, Tag(core))?;
            verify(&found, due, status)?;
            if !sends_first {
                shared.send(&world, data, after, Tag(core))?;
            }
        }
        if core > 0 {
            let last = Message { rank: world.rank(), core: LAST.0, round: 0 }.word(0);
            shared.send(&world, &[last], after, LAST)?;
        }
        Ok(u64::from(self.count) + u64::from(core > 0))
    }

    /// Plays all cores of this rank, which has one: others first, then the first. Returns the
    /// messages that it has sent.
    ///
    /// # Errors
    /// A call that fails, a message that is not what it should be, or a job of one rank.
    pub fn play_all<T: Transport, P: Platform>(
        self,
        ep: &mut Endpoint<'_, T, P>,
    ) -> Result<u64, ProgramFailure> {
        let world = ep.world();
        let ends = neighbors(&world)?;
        for round in 0..self.count {
            for core in self.others(0) {
                self.exchange(ep, ends, Message { rank: world.rank(), core, round })?;
            }
        }
        let [before, after] = ends;
        let mut ep_within = ep.within(self.limit);
        let own = Message { rank: world.rank(), core: LAST.0, round: 0 }.word(0);
        for sender in self.others(0) {
            let mut last = [0];
            ep_within.sendrecv(&world, &[own], after, LAST, &mut last, before, LAST)?;
            check(&last, Message { rank: before, core: LAST.0, round: 0 }, sender.into())?;
        }
        for round in 0..self.count {
            self.exchange(ep, ends, Message { rank: world.rank(), core: 0, round })?;
        }
        Ok(u64::from(self.cores) * u64::from(self.count + 1) - 1)
    }

    /// Sends a message of a core to the next rank, and receives that of the rank before.
    fn exchange<T: Transport, P: Platform>(
        self,
        ep: &mut Endpoint<'_, T, P>,
        [before, after]: [Rank; 2],
        message: Message,
    ) -> Result<(), ProgramFailure> {
        let (mut out, mut found) = ([0; LENGTH_MAX], [0; LENGTH_MAX]);
        let (world, tag) = (ep.world(), Tag(message.core));
        let data = message.fill(&mut out);
        let status = ep.within(self.limit).sendrecv(&world, data, after, tag, &mut found, before, tag)?;
        verify(&found, Message { rank: before, ..message }, status)
    }

    /// The cores whose last messages a core waits for: all but the first, and the first alone does.
    fn others(self, core: u32) -> core::ops::Range<u32> {
        1..if core == 0 { self.cores } else { 1 }
    }
}

/// The ranks before and after this one, in a circle.
fn neighbors(world: &Comm) -> Result<[Rank; 2], ProgramFailure> {
    let (me, size) = (world.rank().0, world.size());
    if size < 2 {
        return Err(ProgramFailure::Ranks { min: 2, max: u32::MAX });
    }
    Ok([Rank((me + size - 1) % size), Rank((me + 1) % size)])
}

/// A message, by what is in it.
#[derive(Clone, Copy)]
struct Message {
    rank: Rank,
    core: u32,
    round: u32,
}

impl Message {
    fn words(self) -> usize {
        LENGTHS[self.round as usize % LENGTHS.len()]
    }

    /// A word that no other message and no other place has.
    fn word(self, place: u64) -> u64 {
        let sender = u64::from(self.rank.0) << 32 | u64::from(self.core);
        digest(digest(DIGEST, sender), u64::from(self.round) << 32 | place)
    }

    fn fill(self, out: &mut [u64; LENGTH_MAX]) -> &[u64] {
        let out = &mut out[..self.words()];
        (0..).zip(&mut *out).for_each(|(place, word)| *word = self.word(place));
        out
    }
}

/// Fails unless a message that was received is the one that is due.
fn verify(found: &[u64; LENGTH_MAX], due: Message, status: Status) -> Result<(), ProgramFailure> {
    let words = due.words();
    ProgramFailure::unless_equal("length", due.round.into(), status.bytes, 8 * words as u64)?;
    check(&found[..words], due, 0)
}

/// Fails unless the words are those of a message; `at` is added to the place that is told.
fn check(found: &[u64], due: Message, at: u64) -> Result<(), ProgramFailure> {
    (0..).zip(found).try_for_each(|(place, word)| {
        ProgramFailure::unless_equal("word", at + place, *word, due.word(place))
    })
}
