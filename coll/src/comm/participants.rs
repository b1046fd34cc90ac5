//! The ranks that take part in a call, and the objection by which one of them says that it cannot.

use aldis_kernel::hal::{Cause, Operation, Platform, Resource, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error};

use super::messenger::{Messenger, NOTICE_BYTES};

/// Ranks that take part in a call: those of one group, or of both groups of an intercommunicator.
pub(super) trait Participants {
    /// The call.
    fn operation(&self) -> Operation;

    /// The communicator that what is made in the call is made of, on this side.
    fn parent(&self) -> &Comm;

    /// A number that tells this call apart from others that are under way, as far as this rank
    /// knows it: the least of those of all ranks is the call's place in an order.
    fn order(&self) -> u32;

    /// Returns the name by which the others know this rank.
    fn name(&self) -> u32;

    /// A failure for which the rank of this name is the reason.
    fn error(&self, cause: Cause, name: u32) -> Error;

    /// Combines all ranks' words, the same result for all. What is combined twice counts once.
    async fn agree<'s, const WORDS: usize, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        words: &mut [u64; WORDS],
        combine: impl Fn(usize, u64, u64) -> u64,
    ) -> Result<(), Error>;

    /// Has everything received that the others had sent to this rank before they came here, in
    /// whatever context: messages between two ranks stay in order. A message to each.
    async fn flush<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
    ) -> Result<(), Error>;

    /// Waits until every rank is here. If any cannot go on, none does: it fails there with its own
    /// cause, elsewhere with what [`objection`](Self::objection) was raised.
    async fn meet<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        own: Option<Cause>,
    ) -> Result<(), Error> {
        let mut words = [self.objection(own)];
        self.agree(messenger, &mut words, |_, mine, theirs| mine.max(theirs)).await?;
        let [objection] = words;
        let heeded = self.check_objection(objection, own);
        heeded.inspect_err(|error| self.raise(messenger, *error))
    }

    /// Does what the policy of the communicator asks for about an error that the call itself has
    /// found.
    fn raise<'s, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        mut error: Error,
    ) {
        error.context = self.parent().context();
        messenger.endpoint().raise(&error);
    }

    /// A rank's objection to going on, as a word of which the greatest wins; zero is none.
    fn objection(&self, own: Option<Cause>) -> u64 {
        own.map_or(0, |cause| Objection::new(cause, self.name()).word())
    }

    /// Turns the greatest objection into an error that names its rank.
    fn check_objection(&self, objection: u64, own: Option<Cause>) -> Result<(), Error> {
        match (own, Objection::from_word(objection)) {
            (Some(cause), _) => Err(Error::new(self.operation(), cause)),
            (None, None) => Ok(()),
            (None, Some(objection)) => Err(self.error(objection.cause(), objection.name)),
        }
    }
}

/// The reason why a rank cannot go on, as it is sent to the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Objection {
    /// The cause that it is about; zero is none.
    pub(super) code: u8,
    /// The name of the rank that cannot go on, or that it is about.
    pub(super) name: u32,
}

impl Objection {
    /// Makes the objection of the rank of this name when it cannot go on because of `cause`.
    pub(super) const fn new(cause: Cause, name: u32) -> Self {
        let (code, name) = match cause {
            Cause::TooSmall { what: Resource::Scratch, .. } | Cause::Full(Resource::Scratch) => (2, name),
            Cause::TooSmall { what: Resource::GroupPieces, .. } | Cause::Full(Resource::GroupPieces) => {
                (3, name)
            }
            Cause::Full(Resource::Communicators) => (4, name),
            Cause::Disagreement => (5, name),
            Cause::Overlap { rank } => (6, rank),
            Cause::PeerLeft => (7, name),
            Cause::PeerDead => (8, name),
            Cause::TooSmall { what: Resource::Attributes, .. } => (9, name),
            _ => (1, name),
        };
        Self { code, name }
    }

    /// Returns true if the rank that an error names is gone, so that it and not the rank that
    /// noticed it is the reason.
    pub(super) const fn is_of_another(cause: Cause) -> bool {
        matches!(cause, Cause::PeerDead | Cause::PeerLeft | Cause::PeerAborted { .. })
    }

    pub(super) fn word(self) -> u64 {
        u64::from(self.code) << 32 | u64::from(self.name)
    }

    pub(super) const fn from_word(word: u64) -> Option<Self> {
        let code = (word >> 32) as u8;
        if code == 0 { None } else { Some(Self { code, name: word as u32 }) }
    }

    /// The message by which a rank that has failed alone notifies those that would wait for it:
    /// no other message of a call has as many bytes.
    pub(super) const fn notice(self) -> [u8; NOTICE_BYTES] {
        let [a, b, c, d] = self.name.to_le_bytes();
        [self.code, a, b, c, d]
    }

    pub(super) const fn from_notice(notice: [u8; NOTICE_BYTES]) -> Self {
        let [code, name @ ..] = notice;
        Self { code, name: u32::from_le_bytes(name) }
    }

    /// The cause, as the others see it.
    pub(super) const fn cause(self) -> Cause {
        match self.code {
            2 => Cause::Full(Resource::Scratch),
            3 => Cause::Full(Resource::GroupPieces),
            4 => Cause::Full(Resource::Communicators),
            5 => Cause::Disagreement,
            6 => Cause::Overlap { rank: self.name },
            7 => Cause::PeerLeft,
            8 => Cause::PeerDead,
            9 => Cause::Full(Resource::Attributes),
            _ => Cause::Declined,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objection_is_the_same_as_a_word_and_as_a_notice() {
        let what = Resource::GroupPieces;
        for (cause, notified) in [
            (Cause::TooSmall { what, need: 3, have: 1 }, Cause::Full(what)),
            (Cause::Overlap { rank: 70_000 }, Cause::Overlap { rank: 70_000 }),
            (Cause::PeerDead, Cause::PeerDead),
            (Cause::TimedOut, Cause::Declined),
        ] {
            let objection = Objection::new(cause, 70_000);
            assert_eq!(objection.cause(), notified);
            assert_eq!(Objection::from_word(objection.word()), Some(objection));
            assert_eq!(Objection::from_notice(objection.notice()), objection);
        }
        assert_eq!(Objection::from_word(17), None, "a name is no objection");
    }
}
