//! The agreed end of a connection that neither side needs now, while both go on.

use aldis_hal::cause::Malformed;

use super::StreamFrame;
use crate::sabotage::{Defect, planted};

/// The agreement of two ranks to close the connection of a link and to keep all else: their lives,
/// and the numbers of the messages that each has sent and taken. The next message connects anew,
/// from either side.
///
/// Each side says once that nothing follows in this connection: the first because it wants the
/// descriptor, the other in answer, behind all that it had to send. The connection is
/// [over](Self::is_over) at a side that has said so and heard it, when it holds all messages of the
/// other. So it makes no difference who was first, or whether both were.
///
/// Driven as a [`Farewell`](super::Farewell), beside it. At the end the caller closes the
/// connection once what it had queued is sent, and lets the link
/// [rest](super::StreamLink::rest).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rest {
    /// This side wants the connection closed.
    asked: bool,
    /// This side has said that nothing follows.
    sent: bool,
    /// The other side has.
    came: bool,
}

impl Rest {
    /// The state in which neither side has asked for it.
    pub const NONE: Self = Self { asked: false, sent: false, came: false };

    /// This side wants the connection closed.
    pub const fn ask(&mut self) {
        self.asked = true;
    }

    /// Returns true if this side may still send messages in this connection.
    #[must_use]
    pub const fn may_send(&self) -> bool {
        !self.sent
    }

    /// Returns true if messages of the other side may still come.
    #[must_use]
    pub const fn may_receive(&self) -> bool {
        !self.came
    }

    /// Returns true if neither side has asked for it.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        !self.asked && !self.came
    }

    /// Returns true if the other side waits for this one's answer, which may still send before.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.came && !self.sent
    }

    /// The frame that is due, behind all messages that were queued. This changes nothing: call
    /// [`transmitted`](Self::transmitted) once it is queued.
    #[must_use]
    pub const fn poll_transmit(&self) -> Option<StreamFrame> {
        if (self.asked || self.came) && !self.sent { Some(StreamFrame::Rest) } else { None }
    }

    /// The frame is queued: no message follows.
    pub const fn transmitted(&mut self) {
        self.sent = true;
    }

    /// Handles the head of a frame.
    ///
    /// # Errors
    /// [`Malformed::Control`] for a message, or the same word again, after the other side has said
    /// that nothing follows. It may still leave.
    pub const fn handle(&mut self, frame: StreamFrame) -> Result<(), Malformed> {
        match frame {
            StreamFrame::Rest | StreamFrame::Data(_) if self.came => return Err(Malformed::Control),
            StreamFrame::Rest => self.came = true,
            _ => {}
        }
        Ok(())
    }

    /// Returns true if nothing comes over the connection any more and nothing may be sent.
    #[must_use]
    pub fn is_over(&self) -> bool {
        (self.sent || planted(Defect::RestsAlone)) && self.came
            || self.sent && planted(Defect::RestsUnanswered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_both_say_it_once() {
        for askers in [&[0][..], &[1], &[0, 1]] {
            let mut sides = [Rest::NONE; 2];
            assert!(sides.iter().all(|side| side.is_none() && side.poll_transmit().is_none()));
            askers.iter().for_each(|asker| sides[*asker].ask());
            for turn in [askers[0], 1 - askers[0]] {
                assert!(sides[turn].may_send() && !sides[turn].is_over());
                assert_eq!(sides[turn].poll_transmit(), Some(StreamFrame::Rest));
                sides[turn].transmitted();
                assert!(!sides[turn].may_send() && sides[turn].poll_transmit().is_none());
                assert_eq!(sides[1 - turn].handle(StreamFrame::Rest), Ok(()));
            }
            assert!(sides.iter().all(Rest::is_over));
        }
    }

    #[test]
    fn messages_come_until_the_other_side_has_said_it_too() {
        let mut asker = Rest::NONE;
        asker.ask();
        asker.transmitted();
        assert_eq!(asker.handle(StreamFrame::Data(5)), Ok(()));
        assert_eq!(asker.handle(StreamFrame::Rest), Ok(()));
        for frame in [StreamFrame::Data(5), StreamFrame::Rest] {
            assert_eq!(asker.handle(frame), Err(Malformed::Control));
        }
        assert_eq!(asker.handle(StreamFrame::Bye), Ok(()), "a rank may leave at any time");
    }
}
