//! Defects that tests plant to show that the tests would find them. In any other build [`planted`] is the constant
//! false and nothing of this is left.

/// A way in which the machine could be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "named by tests and at the places where they would bite")]
pub(crate) enum Defect {
    NoKarn,
    TrustsAcks,
    IgnoresBitmap,
    NeverRepeats,
    TakesTwice,
    NoEchoCheck,
    BothInsist,
    TrustsStrangers,
    KeepsNumbers,
    ForgetsOrder,
    NoStale,
    NoRepeats,
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn planted(_: Defect) -> bool {
    false
}

#[cfg(test)]
std::thread_local! {
    static PLANTED: core::cell::Cell<Option<Defect>> = const { core::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn planted(defect: Defect) -> bool {
    PLANTED.get() == Some(defect)
}
