//! Contact: the state that two ranks hold of each other, made at the first message between them
//! and given back by an agreed close, so that a rank's memory is for the peers it is active with.
//!
//! Both sides say the same two things, once in a contact each: *contact*, with the room that the
//! sender of it grants, and *close*:
//!
//! ```text
//! one side                                   the other
//!   | -- contact (room, credits) ------------> |  takes a row, if one is free
//!   | <------------ contact (room, credits) -- |
//!   | <=========== messages =================> |  within those credits
//!   | -- close ------------------------------> |  says nothing from here on but close
//!   | <------------------------------ close -- |  and gives its row back
//! ```
//!
//! # Why both sides decide the same
//!
//! A contact is *open* at a side that has sent a contact and got one, and *over* at a side that has
//! sent a close and got one; who was first is of no account, so contacts that cross are a contact,
//! and closes that cross are a close. All of it travels in the order of the other messages between
//! the two, of which none is lost:
//!
//! * A side sends messages only while its contact is open, after its own contact, whose credits the
//!   other side knows by then: so no message meets a side without a row.
//! * A side that has sent a close sends nothing more, and takes what comes until the close of the
//!   other. So at a side whose contact is over nothing is under way in either direction, and a
//!   contact that comes later is of the next one.
//! * A contact is repeated until it is answered, since a rank that has no row to give drops it
//!   ([`repeat`](Contact::repeat)); and one that comes is answered though the own one is sent,
//!   which the other side may have dropped before it had a row. A repetition that is too many comes
//!   before the close of the side that sent it, so it is never taken for the next contact.
//!
//! # Goodbye
//!
//! A side that leaves has nothing more to say. It says *goodbye* to a peer that it has a row for,
//! whatever the step of that contact, and no contact or close after it; one that comes later is
//! answered by goodbye as well, for which it needs no row. So a side that has asked, or waits for a
//! close, is never left without an answer:
//!
//! * A goodbye ends a contact of which the sender's part is not over
//!   ([`takes_goodbye`](Contact::takes_goodbye)): the receiver holds nothing of the sender from
//!   then on. It travels behind all messages, of which none is lost by it.
//! * A side that has got the close of the other owes its own, and a side without a contact waits
//!   for nothing: a goodbye that comes then is dropped. The close, and whatever contact follows it,
//!   is answered by another.
//!
//! A side that has ended answers nothing. The other is told by its transport, and lets go of the
//! contact; without that it would ask for ever.
//!
//! Nothing is remembered of a contact that is over: the next counts its messages and credits from
//! zero. A message that is not matched when its contact ends keeps its envelope; what is still to
//! be said about an announced one is said in the next contact.

use aldis_hal::cause::Malformed;

use crate::sabotage::{Defect, planted};

/// The messages of the exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(test, derive(Hash))]
pub enum ContactMessage {
    /// The sender has a row for the receiver, and tells the room in it.
    Contact,
    /// The sender says nothing more in this contact.
    Close,
}

/// The steps of a contact, as one side has taken them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(test, derive(Hash))]
enum ContactStep {
    /// There is none.
    #[default]
    None,
    /// The own contact is due.
    Asks,
    /// The own contact is sent.
    Asked,
    /// The peer's contact has come, and the own one is due, perhaps once more.
    Met,
    Open,
    /// The own close is due.
    Closes,
    /// The own close is sent.
    Closed,
    /// The peer's close has come, and the own one is due.
    Left,
}

/// A side of a contact. All-zero is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(test, derive(Hash))]
pub struct Contact {
    step: ContactStep,
}

impl Contact {
    /// A side that holds nothing of its peer.
    pub const NONE: Self = Self { step: ContactStep::None };

    /// Begins a contact: the own message is due.
    pub fn ask(&mut self) {
        if self.is_none() {
            self.step = ContactStep::Asks;
        }
    }

    /// The peer's contact has come, for which there is a row. Returns true if it is news.
    ///
    /// # Errors
    /// [`Malformed::Control`] after the peer's close.
    pub fn met(&mut self) -> Result<bool, Malformed> {
        let was = self.step;
        self.step = match was {
            ContactStep::Asked if planted(Defect::AnswersOnce) => ContactStep::Open,
            ContactStep::None | ContactStep::Asks | ContactStep::Asked => ContactStep::Met,
            // A repetition.
            ContactStep::Open | ContactStep::Closed if planted(Defect::MeetsAnew) => ContactStep::Met,
            ContactStep::Met | ContactStep::Open | ContactStep::Closes | ContactStep::Closed => was,
            ContactStep::Left => return Err(Malformed::Control),
        };
        Ok(matches!(was, ContactStep::None | ContactStep::Asks | ContactStep::Asked))
    }

    /// Begins to end an open contact: the own close is due. Any other is left as it is.
    pub fn close(&mut self) {
        if self.is_open() {
            self.step = ContactStep::Closes;
        }
    }

    /// The peer's close has come. Returns true if the contact is over.
    ///
    /// # Errors
    /// [`Malformed::Control`] where the peer's contact has not come, or has ended.
    pub fn left(&mut self) -> Result<bool, Malformed> {
        self.step = match self.step {
            ContactStep::Closed if planted(Defect::AnswersClose) => ContactStep::Left,
            ContactStep::Closed => ContactStep::None,
            ContactStep::Open if planted(Defect::LeavesUnanswered) => ContactStep::None,
            ContactStep::Met if planted(Defect::ClosesOpenAlone) => return Err(Malformed::Control),
            ContactStep::Met | ContactStep::Open | ContactStep::Closes => ContactStep::Left,
            ContactStep::None | ContactStep::Asks | ContactStep::Asked | ContactStep::Left => {
                return Err(Malformed::Control);
            }
        };
        Ok(self.is_none())
    }

    /// The message to be sent.
    pub const fn due(&self) -> Option<ContactMessage> {
        match self.step {
            ContactStep::Asks | ContactStep::Met => Some(ContactMessage::Contact),
            ContactStep::Closes | ContactStep::Left => Some(ContactMessage::Close),
            ContactStep::None | ContactStep::Asked | ContactStep::Open | ContactStep::Closed => None,
        }
    }

    /// The message that was [due](Self::due) is on its way. Returns true if the contact is over.
    pub fn sent(&mut self) -> bool {
        self.step = match self.step {
            ContactStep::Asks if planted(Defect::OpensUnanswered) => ContactStep::Open,
            ContactStep::Asks => ContactStep::Asked,
            ContactStep::Met => ContactStep::Open,
            ContactStep::Closes if planted(Defect::ForgetsAtClose) => ContactStep::None,
            ContactStep::Closes => ContactStep::Closed,
            ContactStep::Left => ContactStep::None,
            step => step,
        };
        self.is_none()
    }

    /// Has a contact that was not answered sent again.
    pub fn repeat(&mut self) {
        if self.is_asking() {
            self.step = ContactStep::Asks;
        }
    }

    /// Returns true if there is no contact.
    pub const fn is_none(&self) -> bool {
        matches!(self.step, ContactStep::None)
    }

    /// Returns true if the peer's contact has not come yet.
    pub const fn is_asking(&self) -> bool {
        matches!(self.step, ContactStep::Asks | ContactStep::Asked)
    }

    /// Returns true if messages may be sent to the peer.
    pub const fn is_open(&self) -> bool {
        matches!(self.step, ContactStep::Open)
    }

    /// Returns true if messages of the peer may come.
    pub const fn takes(&self) -> bool {
        use ContactStep::{Closed, Closes, Met, Open};
        matches!(self.step, Met | Open | Closes | Closed)
    }

    /// Returns true if a goodbye of the peer ends the contact: where more of the peer may come.
    pub fn takes_goodbye(&self) -> bool {
        let asks = self.is_asking() && !planted(Defect::DeafToGoodbye);
        asks || self.takes()
    }

    /// Returns true if this side ends the contact.
    pub const fn is_closing(&self) -> bool {
        matches!(self.step, ContactStep::Closes | ContactStep::Closed)
    }
}

#[cfg(test)]
mod tests;
