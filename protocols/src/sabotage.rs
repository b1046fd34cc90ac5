//! Defects that tests plant to show that the tests would find them. In any other build [`planted`]
//! is the constant false and nothing of this is left.

/// A way in which a machine, or who drives it, could be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Defect {
    // In a link.
    NoKarn,
    NoBackOff,
    NoFastRetransmit,
    NoCongestionWindow,
    NoDelayTimer,
    NoPersistence,
    PlainCompare,
    TrustsAcks,
    // In who drives a link.
    #[cfg(test)]
    IgnoresBitmap,
    #[cfg(test)]
    NeverRepeats,
    #[cfg(test)]
    HandsUpTwice,
    #[cfg(test)]
    ForgetsDuplicates,
    #[cfg(test)]
    ReleasesEarly,
    #[cfg(test)]
    AdmitsStale,
    #[cfg(test)]
    ClaimsStored,
    #[cfg(test)]
    TrustsChecksum,
    // In a handshake.
    NoEchoCheck,
    BothInsist,
    TrustsStrangers,
    KeepsNumbers,
    ForgetsOrder,
    NoStale,
    NoRepeats,
    AdmitsAnyLife,
    ClosesAlone,
    ClosesForEver,
    // In a handshake of a stream.
    BothChoose,
    IgnoresLives,
    KeepsDialling,
    KeepsSelected,
    RestsAlone,
    RestsUnanswered,
    RestsForgetful,
    SelectsTwice,
    TakesTwice,
    TrustsTags,
    // In a contact.
    AnswersOnce,
    MeetsAnew,
    AnswersClose,
    LeavesUnanswered,
    OpensUnanswered,
    ForgetsAtClose,
    ClosesOpenAlone,
    DeafToGoodbye,
    #[cfg(test)]
    MeetsAsItLeaves,
    #[cfg(test)]
    ClosesAsItLeaves,
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

/// Runs `test` with one defect.
#[cfg(test)]
pub(crate) fn with<R>(defect: Option<Defect>, test: impl FnOnce() -> R) -> R {
    PLANTED.set(defect);
    let result = test();
    PLANTED.set(None);
    result
}
