//! The watch over a link between a process and one that it has started, of either side: the time at
//! which a sign of life is due, and the silence after which the other side counts as hung.
//!
//! A machine that freezes, and a network that is cut, end no connection: nothing comes any more,
//! and no error either. So each side sends something within a quarter of the time after which the
//! other gives it up. An agent gives up the process that has started it half as late again: one
//! that hangs has been named by then, and the end of what is below it is not taken for the cause.
//! The silence of the other side says nothing while this one did not run itself: the count begins
//! anew then.

use core::time::Duration;
use std::time::Instant;

/// Signs of life within the time after which an agent counts as hung.
const BEATS: u32 = 4;

/// The least time that a start of ranks is announced to take: it may take longer than is left for
/// the ranks to join, which those of a program that is none of MPI need not.
const START_LEAST: Duration = Duration::from_secs(60);

/// Returns the time that a start of ranks is announced to take, which have so much left to join,
/// ms.
pub(crate) fn start_ms(left: Duration) -> u32 {
    u32::try_from(left.max(START_LEAST).as_millis()).unwrap_or(u32::MAX)
}

/// The state of the watch of one side.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    /// The time from one sign of life to the next; `None` if there are none.
    interval: Option<Duration>,
    /// The silence after which the other side counts as hung.
    limit: Duration,
    /// The limit that holds now: longer while the other side has announced that it is busy.
    patience: Duration,
    /// The time at which something came.
    heard: Instant,
    /// The time at which the last sign of life was due.
    said: Instant,
    /// The time of the last judgement.
    judged: Instant,
}

impl Heartbeat {
    /// The watch over an agent that is started now, which may be silent for less than so long; for
    /// ever if that is zero.
    pub(crate) fn over_agent(limit: Duration, now: Instant) -> Self {
        let interval = Some(limit / BEATS).filter(|_| !limit.is_zero());
        Self { interval, limit, patience: limit, heard: now, said: now, judged: now }
    }

    /// The watch of an agent over the process that has started it, with the same limit.
    pub(crate) fn over_starter(limit: Duration, now: Instant) -> Self {
        let late = limit + limit / 2;
        Self { limit: late, patience: late, ..Self::over_agent(limit, now) }
    }

    /// Something has come: a message or a part of one.
    pub(crate) const fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    /// A message has come: the other side runs again, or has announced that it is busy for up to so
    /// long.
    pub(crate) fn excuse(&mut self, busy: Option<Duration>) {
        self.patience = self.limit.max(busy.unwrap_or_default());
    }

    /// Returns true if a sign of life is due, once for each.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.interval.is_some_and(|interval| now.duration_since(self.said) >= interval);
        if is_due {
            self.said = now;
        }
        is_due
    }

    /// Judges the other side, after a look found nothing from it; returns for how long it has been
    /// silent, if that is too long. A side that did not run for half the limit cannot tell.
    pub(crate) fn judge(&mut self, now: Instant) -> Option<Duration> {
        self.interval?;
        if now.duration_since(core::mem::replace(&mut self.judged, now)) > self.limit / 2 {
            self.heard = now;
        }
        let silent = now.duration_since(self.heard);
        (silent >= self.patience).then_some(silent)
    }

    /// Returns true if the other side has missed signs of life that it has not excused: it may yet
    /// turn out to hang.
    pub(crate) fn is_in_doubt(&self, now: Instant) -> bool {
        let is_late = |interval| now.duration_since(self.heard) > 2 * interval;
        self.patience == self.limit && self.interval.is_some_and(is_late)
    }

    /// The next time to look at it.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        Some((self.said + self.interval?).min(self.heard + self.patience))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(8);

    fn second(start: Instant, count: u64) -> Instant {
        start + Duration::from_secs(count)
    }

    /// Judges at each second of a stretch; returns the first at which the other side hangs.
    fn hangs(
        watch: &mut Heartbeat,
        start: Instant,
        mut stretch: core::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        stretch.find(|count| watch.judge(second(start, *count)).is_some())
    }

    #[test]
    fn silence_counts_from_what_was_heard_last() {
        let start = Instant::now();
        let mut watch = Heartbeat::over_agent(LIMIT, start);
        assert_eq!(hangs(&mut watch, start, 1..=6), None);
        watch.hear(second(start, 6));
        assert_eq!(hangs(&mut watch, start, 7..=20), Some(14));
        assert_eq!(watch.judge(second(start, 15)), Some(Duration::from_secs(9)));
    }

    #[test]
    fn a_side_that_has_missed_signs_of_life_is_in_doubt_until_it_speaks() {
        let start = Instant::now();
        let mut watch = Heartbeat::over_agent(LIMIT, start);
        assert!(!watch.is_in_doubt(second(start, 4)) && watch.is_in_doubt(second(start, 5)));
        watch.excuse(Some(Duration::from_secs(30)));
        assert!(!watch.is_in_doubt(second(start, 20)), "it has announced that it is busy");
        watch.excuse(None);
        watch.hear(second(start, 20));
        assert!(!watch.is_in_doubt(second(start, 21)));
        assert!(!Heartbeat::over_agent(Duration::ZERO, start).is_in_doubt(second(start, 99)));
    }

    #[test]
    fn who_is_below_a_side_that_hangs_ends_after_it_was_named() {
        let start = Instant::now();
        let mut agent = Heartbeat::over_starter(LIMIT, start);
        assert_eq!(hangs(&mut agent, start, 1..=99), Some(12));
        assert!(agent.is_due(second(start, 2)), "its own signs are due as often");
        // The last sign of life down may be a quarter of the limit older than that up.
        assert!(LIMIT < Duration::from_secs(12) - LIMIT / BEATS);
    }

    #[test]
    fn a_side_that_did_not_run_begins_to_count_anew() {
        let start = Instant::now();
        let mut watch = Heartbeat::over_agent(LIMIT, start);
        assert_eq!(hangs(&mut watch, start, 1..=3), None);
        assert_eq!(hangs(&mut watch, start, 100..=120), Some(108));
    }

    #[test]
    fn a_busy_side_has_the_time_that_it_has_announced_and_no_longer_than_that_once() {
        let start = Instant::now();
        let mut watch = Heartbeat::over_agent(LIMIT, start);
        watch.excuse(Some(Duration::from_secs(30)));
        assert_eq!(hangs(&mut watch, start, 1..=29), None);
        assert_eq!(watch.judge(second(start, 30)), Some(Duration::from_secs(30)));
        watch.hear(second(start, 30));
        watch.excuse(None);
        assert_eq!(hangs(&mut watch, start, 31..=99), Some(38));
        // No less than always.
        watch.hear(second(start, 38));
        watch.excuse(Some(Duration::from_secs(1)));
        assert_eq!(hangs(&mut watch, start, 39..=99), Some(46));
    }

    #[test]
    fn signs_of_life_are_due_at_quarters_of_the_limit() {
        let start = Instant::now();
        let mut watch = Heartbeat::over_agent(LIMIT, start);
        let due: Vec<u64> = (0..10).filter(|count| watch.is_due(second(start, *count))).collect();
        assert_eq!(due, [2, 4, 6, 8]);
        assert_eq!(watch.deadline(), Some(second(start, 8)), "the silence of the other side");
        watch.hear(second(start, 9));
        assert_eq!(watch.deadline(), Some(second(start, 10)), "the next sign");
    }

    #[test]
    fn without_a_limit_nothing_is_due_and_nothing_hangs() {
        let start = Instant::now();
        let mut watch = Heartbeat::over_agent(Duration::ZERO, start);
        assert!(!watch.is_due(second(start, 99)) && watch.deadline().is_none());
        assert_eq!(watch.judge(second(start, 99)), None);
    }
}
