//! Many seeds, some at a time, judged in their order: what comes out does not depend on how many
//! threads there are.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use aldis_sim::Report;

use crate::cli::Many;
use crate::show::{self, RunSum};

/// Runs seeds up to the first that fails and adds them to `sum`. The last one's report; none if
/// there were no seeds.
pub(crate) fn run(many: &Many, sum: &mut RunSum) -> io::Result<Option<Report>> {
    let seeds = many.seeds();
    let bar = show::bar(&seeds);
    let until = many.minutes.and_then(|minutes| Instant::now().checked_add(minutes));
    let (next, enough) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    // Every seed that is taken is run, so that those that were run have no gaps.
    let take = || {
        let late = until.is_some_and(|until| Instant::now() >= until);
        let end = late || enough.load(Ordering::Relaxed);
        (!end).then(|| next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end)
    };
    let last = thread::scope(|scope| {
        let (sender, reports) = mpsc::channel();
        for _ in 0..many.jobs() {
            let (sender, take, job) = (sender.clone(), &take, &many.job);
            scope.spawn(move || {
                while let Some(seed) = take() {
                    if sender.send((seed, job.simulate(&job.config(seed)))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut early, mut due, mut last) = (BTreeMap::new(), seeds.start, None);
        for (seed, report) in reports {
            early.insert(seed, report);
            while let Some(report) = early.remove(&due) {
                let report: Report = report.inspect_err(|_| enough.store(true, Ordering::Relaxed))?;
                due += 1;
                sum.add(&report);
                bar.inc(1);
                let failed = report.failure.is_some();
                last = Some(report);
                if failed {
                    enough.store(true, Ordering::Relaxed);
                    return Ok(last);
                }
            }
        }
        Ok(last)
    });
    bar.finish_and_clear();
    last
}
