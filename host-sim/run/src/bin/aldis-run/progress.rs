//! Notes of a slow start: who has come, and who is still missing.

use core::time::Duration;
use std::time::Instant;

/// The time after which the first note is made; each further one is made after twice as long.
const FIRST: Duration = Duration::from_secs(3);

/// Names that a note has room for.
const NAMES_MAX: usize = 8;

/// The clock of the notes.
#[derive(Debug)]
pub(crate) struct NoteClock {
    next: Instant,
    interval: Duration,
}

impl NoteClock {
    pub(crate) fn new(started: Instant) -> Self {
        Self { next: started + FIRST, interval: FIRST }
    }

    /// Returns true if a note is due, and sets the time of the next.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.interval = self.interval.saturating_mul(2);
            self.next = now + self.interval;
        }
        is_due
    }
}

/// Says which of `all` hosts have not answered yet.
pub(crate) fn hosts(missing: &[String], all: usize) -> String {
    let have = all - missing.len();
    format!("{have} of {all} hosts have answered; still missing: {}", few(missing))
}

/// Says which of `all` ranks, in order, have not joined yet.
pub(crate) fn ranks(missing: &[u32], all: usize) -> String {
    let have = all - missing.len();
    format!("{have} of {all} ranks have joined; still missing: {}", few(&ranges(missing)))
}

/// The first of these names, and how many there are beside.
fn few(names: &[String]) -> String {
    match names.split_at_checked(NAMES_MAX) {
        Some((first, rest)) if !rest.is_empty() => format!("{} and {} more", first.join(", "), rest.len()),
        _ => names.join(", "),
    }
}

/// Ranks that follow each other, as `a-b`.
fn ranges(ranks: &[u32]) -> Vec<String> {
    let runs = ranks.chunk_by(|one, next| one + 1 == *next);
    runs.filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_made_after_3_9_and_21_seconds() {
        let started = Instant::now();
        let mut clock = NoteClock::new(started);
        let due = (0..30).filter(|second| clock.is_due(started + Duration::from_secs(*second)));
        assert_eq!(due.collect::<Vec<_>>(), [3, 9, 21]);
    }

    #[test]
    fn the_missing_are_named_briefly() {
        assert_eq!(ranks(&[1, 4, 5, 6, 9], 12), "7 of 12 ranks have joined; still missing: 1, 4-6, 9");
        let odd: Vec<u32> = (0..40).filter(|rank| rank % 2 == 1).collect();
        let said = "20 of 40 ranks have joined; still missing: 1, 3, 5, 7, 9, 11, 13, 15 and 12 more";
        assert_eq!(ranks(&odd, 40), said);
        let names = ["b".to_owned(), "netns:x".to_owned()];
        assert_eq!(hosts(&names, 3), "1 of 3 hosts have answered; still missing: b, netns:x");
    }
}
