//! The knowledge that the ranks of a job in one process share: who is over, who has failed, and who
//! hangs.

use core::any::Any;
use core::fmt::Write as _;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;

use aldis_hal::{Activity, PeerId, Platform, Transport};
use aldis_kernel::Endpoint;

/// Idle turns between two looks at the clock.
const TURNS: u32 = 1024;

/// The state that the ranks of a job in this process share.
#[derive(Debug)]
pub struct Watch {
    size: u32,
    /// The time that a rank may spend on its part. Never the time of the machine: however little of
    /// that there is for this job, one that gets on is not taken for one that hangs.
    limit: Duration,
    /// True if a rank may end with something left.
    may_leave: bool,
    /// Ranks that are over, and once more those that have nothing left.
    over: AtomicU32,
    /// A bit for each rank that has failed.
    failed: AtomicU32,
}

impl Watch {
    /// A watch over `size` ranks, each of which may spend so long on its part.
    pub const fn new(size: u32, limit: Duration) -> Self {
        Self { size, limit, may_leave: false, over: AtomicU32::new(0), failed: AtomicU32::new(0) }
    }

    /// This watch for a job whose ranks may leave messages and requests behind, if so.
    pub const fn that_may_leave(self, may_leave: bool) -> Self {
        Self { may_leave, ..self }
    }

    /// Ends rank `me` if it waits for one that has failed, or for ever: if it has spent more than
    /// the limit. `activity` is what it waits for. It is looked for every so many idle turns.
    ///
    /// # Panics
    /// To end it.
    pub fn look(&self, me: u32, idle: u32, activity: &Activity, spent: impl FnOnce() -> Duration) {
        let failed = self.failed.load(Ordering::SeqCst);
        if !idle.is_multiple_of(TURNS) || failed & (1 << me) != 0 {
            return;
        }
        assert!(failed == 0, "another rank has failed");
        let spent = spent();
        let Activity { operation, peer, tag, bytes, .. } = activity;
        assert!(
            spent < self.limit,
            "hangs in {operation} with {peer:?}, tag {tag:?}, {bytes} bytes, after {spent:.1?} of its own time"
        );
    }

    /// Runs `body` on a rank, and then serves the others until all are over and have nothing left.
    /// What went wrong, in words, with every request that was left. `rest` is called where there is
    /// nothing to do.
    pub fn run<'s, T: Transport, P: Platform, R>(
        &self,
        endpoint: &mut Endpoint<'s, T, P>,
        mut rest: impl FnMut(u32),
        body: impl FnOnce(&mut Endpoint<'s, T, P>) -> Result<R, String>,
    ) -> Result<R, String> {
        let went = catch_unwind(AssertUnwindSafe(|| {
            let result = body(endpoint)?;
            self.serve(endpoint, &mut rest, |_| true, self.size);
            // A rank that has nothing left may still be needed by another to get there.
            self.serve(endpoint, &mut rest, |endpoint| self.may_leave || settled(endpoint), 2 * self.size);
            Ok(result)
        }));
        let went = went.unwrap_or_else(|panic| Err(words(&*panic)));
        went.map_err(|what| {
            let left = left(endpoint);
            self.failed.fetch_or(1 << endpoint.world().rank().0, Ordering::SeqCst);
            endpoint.abort(1);
            what + &left
        })
    }

    /// Polls until `done` holds here, says so, and goes on until `count` have said so.
    ///
    /// # Panics
    /// If another rank has failed.
    fn serve<T: Transport, P: Platform>(
        &self,
        endpoint: &mut Endpoint<'_, T, P>,
        rest: &mut impl FnMut(u32),
        done: impl Fn(&Endpoint<'_, T, P>) -> bool,
        count: u32,
    ) {
        let (mut said, mut idle) = (false, 0);
        while self.over.load(Ordering::SeqCst) < count {
            assert!(self.failed.load(Ordering::SeqCst) == 0, "another rank has failed");
            if !said && done(endpoint) {
                said = true;
                self.over.fetch_add(1, Ordering::SeqCst);
            } else if endpoint.poll(64) == 0 {
                idle += 1;
                rest(idle);
            }
        }
    }
}

/// Describes what is left of a rank: its queues, its requests, and where others have credit for
/// places that are not free.
fn left<T: Transport, P: Platform>(endpoint: &mut Endpoint<'_, T, P>) -> String {
    let (posted, unexpected) = endpoint.diagnostics().queue_depths();
    let mut told = format!(" ({posted} receives posted, {unexpected} messages kept)");
    endpoint.diagnostics().pending(|request| told += &format!("\n    {request}"));
    for peer in 0..endpoint.world().size() {
        if let Some(credits) = endpoint.diagnostics().credits(PeerId(peer)) {
            let held = (credits.envelopes.held(), credits.blocks.held());
            if held != (0, 0) {
                let _ = write!(told, "\n    {} envelopes and {} blocks held for rank {peer}", held.0, held.1);
            }
        }
    }
    told
}

/// Returns true if every place that others have credit for is free, and no request slot in use.
fn settled<T: Transport, P: Platform>(endpoint: &Endpoint<'_, T, P>) -> bool {
    let free = |peer| {
        let credits = endpoint.diagnostics().credits(PeerId(peer));
        credits.is_none_or(|credits| credits.envelopes.held() == 0 && credits.blocks.held() == 0)
    };
    endpoint.diagnostics().requests_in_use() == 0 && (0..endpoint.world().size()).all(free)
}

/// The reason why a job failed, if it did: what each rank said, those first that are no consequence
/// of another's failure.
pub fn verdict<R>(ranks: Vec<Result<R, String>>) -> Result<Vec<R>, String> {
    let mut failed: Vec<String> = (0..)
        .zip(&ranks)
        .filter_map(|(rank, result)| Some(format!("rank {rank}: {}", result.as_ref().err()?)))
        .collect();
    failed.sort_by_key(|line| line.contains("another rank has failed") || line.contains("was aborted"));
    if failed.is_empty() { Ok(ranks.into_iter().flatten().collect()) } else { Err(failed.join("\n  ")) }
}

/// Returns the message of a panic.
pub fn words(panic: &(dyn Any + Send)) -> String {
    let owned = panic.downcast_ref::<String>().cloned();
    owned.or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).into())).unwrap_or_default()
}
