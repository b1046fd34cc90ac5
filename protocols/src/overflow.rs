//! Overflow: messages that a receiver has no envelope for are matched at their sender, so that a
//! bound never makes a legal program wait for ever.
//!
//! A sender without credit holds its messages back, in order. If the receiver's envelopes are full
//! of messages that no posted receive matches, none of them is sent, and the one that a posted
//! receive waits for may be among those held back. So the sender says that it holds some, and the
//! receiver asks it about its receives, one at a time, the one posted first first:
//!
//! ```text
//! sender                                     receiver
//!   | -- stalled ------------------------------> |
//!   | <----- seek (context, tag, receive) ------ |  a posted receive that could take from it
//!   | -- offer (envelope, message, receive) ---> |  the first held message that the pattern takes
//!   | <----- clear to send --------------------- |  the rendezvous goes on as after announcing
//!
//!   | -- nothing (receive, more?) -------------> |  or there is none: the next receive's turn
//!   | <----- settle (message, taken?) ---------- |  or the receive has got another message
//! ```
//!
//! A *matched probe* takes a message for which there is no receive yet. Its offer is settled
//! as *taken*: from there on the message is an announced one, and its clear-to-send follows
//! whenever the program receives it. If the program has still to come back for it, the offer
//! is *held*: neither taken nor declined, and so still the first of its order.
//!
//! # Why the order of messages holds
//!
//! * What was sent before the offer arrives before it, so the receive is still posted when the
//!   offer comes only if no message under way was for it.
//! * While an offer stands the sender injects no other message, so a declined one is still before
//!   all that follow it.
//! * The receiver takes an offer only if the receive asked about is the first posted one that the
//!   message fits. Otherwise an older receive has to be asked about first: the round begins anew.
//! * A held offer is declined as soon as the program does anything else that it could be for, so it
//!   is never passed.
//! * Wildcards over several senders are asked about at each of them; the first offer wins and the
//!   others are declined.
//!
//! # Why it ends
//!
//! A receive that was answered *nothing* is asked about again only when the sender has held another
//! message back since, which it says by another *stalled*. Each message is a bounded fact per
//! peer - one notice, one question, one answer - so a transport that is full can make them late,
//! but none needs memory that could run out. Who holds an offer declines it after a bounded time,
//! since the other messages of that sender wait meanwhile.

use aldis_hal::Handle;
use aldis_hal::cause::Malformed;

/// The state of the receiver's knowledge of what is held back for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Notice {
    /// The receiver has nothing to ask for, as far as it knows: the next message held back is news.
    #[default]
    Quiet,
    /// A notice to the receiver is due.
    Due,
    /// The receiver has been notified, and will ask for each receive that it posts.
    Told,
}

/// No request: generations of live ones are odd.
const NO_HANDLE: Handle = Handle { slot: 0, generation: 0 };

const fn named(handle: Handle) -> Option<Handle> {
    if handle.generation == 0 { None } else { Some(handle) }
}

/// A receive that the sender is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Seek {
    /// Its context id.
    pub context: u32,
    /// Its tag or the wildcard, as the kernels have it; the machines do not look at it.
    pub tag: u32,
    /// Its request.
    pub receiver: Handle,
}

/// The sender's side, towards one receiver. All-zero is a side that holds nothing back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Holder {
    /// The receive that the open question is about; no request if none is open.
    question: Seek,
    /// The message that is offered; no request if no offer stands.
    offered: Handle,
    notice: Notice,
}

impl Holder {
    /// A side that holds nothing back.
    pub const NONE: Self = Self {
        question: Seek { context: 0, tag: 0, receiver: NO_HANDLE },
        offered: NO_HANDLE,
        notice: Notice::Quiet,
    };

    /// Records that a message was put into the queue. *Stalled* is due from now on, should the
    /// queue have no credit.
    pub fn held_back(&mut self) {
        if self.notice == Notice::Quiet {
            self.notice = Notice::Due;
        }
    }

    /// Returns true if the receiver is to be notified, should the queue have no credit.
    pub fn is_notice_due(&self) -> bool {
        self.notice == Notice::Due
    }

    /// *Stalled* is on its way.
    pub fn noticed(&mut self) {
        self.notice = Notice::Told;
    }

    /// The receiver asks. It may do so before it has settled an offer; the answer waits for that.
    ///
    /// # Errors
    /// [`Malformed::Control`] while it waits for an answer, or if it names no request.
    pub fn asked(&mut self, seek: Seek) -> Result<(), Malformed> {
        if named(self.question.receiver).is_some() || named(seek.receiver).is_none() {
            return Err(Malformed::Control);
        }
        self.question = seek;
        Ok(())
    }

    /// The question to be answered now: none while an offer stands.
    pub const fn question(&self) -> Option<Seek> {
        if self.question.receiver.generation == 0 || self.offered.generation != 0 {
            None
        } else {
            Some(self.question)
        }
    }

    /// The offer of `message` is on its way.
    pub fn offer(&mut self, message: Handle) {
        (self.question, self.offered) = (Self::NONE.question, message);
    }

    /// *Nothing* is on its way.
    pub fn answered_nothing(&mut self) {
        self.question = Self::NONE.question;
        if self.notice == Notice::Told {
            self.notice = Notice::Quiet;
        }
    }

    /// The message that the receiver has to take or decline. While there is one, no other may be
    /// injected.
    pub const fn offered(&self) -> Option<Handle> {
        named(self.offered)
    }

    /// The receiver has taken or declined `message`.
    ///
    /// # Errors
    /// [`Malformed::Control`] if it was not offered.
    pub fn settled(&mut self, message: Handle) -> Result<(), Malformed> {
        if self.offered() != Some(message) {
            return Err(Malformed::Control);
        }
        self.offered = NO_HANDLE;
        Ok(())
    }
}

/// A posted receive and its place in the order of posting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Posted {
    /// Its request.
    pub receiver: Handle,
    /// Its place in the order, which may wrap.
    pub order: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Asking {
    #[default]
    No,
    /// The question is to be sent.
    Due,
    /// The offer waits for the answer.
    Asked,
}

/// The answer that is to be given to an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum OfferAnswer {
    /// No answer yet: the offer is held.
    #[default]
    Open,
    Declined,
    Taken,
}

/// The receive to ask about next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NextReceive {
    /// The first posted one.
    First,
    /// The first posted one after this place in the order.
    After(u32),
}

/// The receiver's side, towards one sender. All-zero is a side whose sender holds nothing back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Seeker {
    /// The receive that is or was asked about.
    posted: Posted,
    /// With `after`: the last receive answered *nothing*, as all posted before it were.
    cursor: u32,
    /// The message that is offered; no request if there is none.
    offer: Handle,
    verdict: OfferAnswer,
    asking: Asking,
    stalled: bool,
    after: bool,
    /// The sender has spoken again since it was asked: the round begins anew after the answer.
    anew: bool,
}

impl Seeker {
    /// A side whose sender holds nothing back.
    pub const NONE: Self = Self {
        posted: Posted { receiver: NO_HANDLE, order: 0 },
        cursor: 0,
        offer: NO_HANDLE,
        verdict: OfferAnswer::Open,
        asking: Asking::No,
        stalled: false,
        after: false,
        anew: false,
    };

    /// *Stalled*: the sender holds messages back that it had not spoken of before. A question that
    /// has not been sent was chosen without them, and is chosen anew: an earlier receive may take
    /// one.
    pub fn stalled(&mut self) {
        if self.asking == Asking::Due {
            self.asking = Asking::No;
        }
        (self.stalled, self.after, self.anew) = (true, false, true);
    }

    /// Returns true if the sender holds messages back, as far as is known.
    pub const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Returns the receive to ask about, if one can be asked about now.
    pub fn next(&self) -> Option<NextReceive> {
        let idle = self.asking == Asking::No && named(self.offer).is_none();
        (self.stalled && idle).then_some(if self.after {
            NextReceive::After(self.cursor)
        } else {
            NextReceive::First
        })
    }

    /// `posted` is to be asked about.
    pub fn seek(&mut self, posted: Posted) {
        (self.posted, self.asking) = (posted, Asking::Due);
    }

    /// The receive chosen last. With [`NextReceive::After`], none that could be asked about stands
    /// between that place in the order and this one.
    pub const fn sought(&self) -> Posted {
        self.posted
    }

    /// Returns true if a question is to be sent or to be answered.
    pub fn is_asking(&self) -> bool {
        self.asking != Asking::No
    }

    /// The receive to send a *seek* for. If it is no longer posted, call [`skip`](Self::skip)
    /// instead.
    pub fn due(&self) -> Option<Handle> {
        (self.asking == Asking::Due).then_some(self.posted.receiver)
    }

    /// The receive that is due is posted no more.
    pub fn skip(&mut self) {
        self.asking = Asking::No;
    }

    /// The *seek* is on its way.
    pub fn asked(&mut self) {
        (self.asking, self.anew) = (Asking::Asked, false);
    }

    fn answered(&mut self, receiver: Handle) -> Result<(), Malformed> {
        if self.asking != Asking::Asked || self.posted.receiver != receiver {
            return Err(Malformed::Control);
        }
        self.asking = Asking::No;
        Ok(())
    }

    /// *Nothing* for `receiver`; `more`: other messages are held back.
    ///
    /// # Errors
    /// [`Malformed::Control`] if it was not asked about.
    pub fn nothing(&mut self, receiver: Handle, more: bool) -> Result<(), Malformed> {
        self.answered(receiver)?;
        self.stalled = more;
        if !self.anew {
            (self.after, self.cursor) = (true, self.posted.order);
        }
        Ok(())
    }

    /// An offer for `receiver` has come; what becomes of it is for the caller to say.
    ///
    /// # Errors
    /// [`Malformed::Control`] if it was not asked about.
    pub fn offered(&mut self, receiver: Handle) -> Result<(), Malformed> {
        self.answered(receiver)
    }

    /// The offer of `message` is held: nothing is asked until it is declined or taken.
    pub fn hold(&mut self, message: Handle) {
        (self.offer, self.verdict) = (message, OfferAnswer::Open);
    }

    /// The offer of `message` is to be declined; the round begins anew.
    pub fn decline(&mut self, message: Handle) {
        (self.offer, self.verdict, self.after) = (message, OfferAnswer::Declined, false);
    }

    /// The offer of `message` is to be settled as taken, unless a clear-to-send says so first.
    pub fn take(&mut self, message: Handle) {
        (self.offer, self.verdict) = (message, OfferAnswer::Taken);
    }

    /// The message whose offer is to be settled, and whether it is taken.
    pub const fn verdict_due(&self) -> Option<(Handle, bool)> {
        match self.verdict {
            OfferAnswer::Open => None,
            verdict if self.offer.generation != 0 => {
                Some((self.offer, matches!(verdict, OfferAnswer::Taken)))
            }
            OfferAnswer::Declined | OfferAnswer::Taken => None,
        }
    }

    /// Returns true if an offer is held.
    pub const fn is_held(&self) -> bool {
        self.offer.generation != 0 && matches!(self.verdict, OfferAnswer::Open)
    }

    /// *Settle* is on its way for `message`, or a clear-to-send. Of another message it changes
    /// nothing.
    pub fn settled(&mut self, message: Handle) {
        if self.offer == message {
            (self.offer, self.verdict) = (NO_HANDLE, OfferAnswer::Open);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Handle = Handle { slot: 1, generation: 1 };
    const TWO: Handle = Handle { slot: 2, generation: 1 };

    const fn seek(receiver: Handle) -> Seek {
        Seek { context: 7, tag: 3, receiver }
    }

    #[test]
    fn a_holder_speaks_once_until_it_has_answered_nothing() {
        let mut holder = Holder::NONE;
        holder.held_back();
        assert!(holder.is_notice_due());
        holder.noticed();
        holder.held_back();
        assert!(!holder.is_notice_due(), "the receiver asks by itself for whatever it posts");
        holder.asked(seek(ONE)).unwrap();
        holder.answered_nothing();
        assert!(!holder.is_notice_due(), "an answer alone is no news");
        holder.held_back();
        assert!(holder.is_notice_due());
        holder.asked(seek(ONE)).unwrap();
        holder.answered_nothing();
        assert!(holder.is_notice_due(), "what was held back before the answer may fit another receive");
    }

    #[test]
    fn one_question_and_one_offer_at_a_time() {
        let mut holder = Holder::NONE;
        assert_eq!(holder.asked(seek(NO_HANDLE)), Err(Malformed::Control));
        holder.asked(seek(ONE)).unwrap();
        assert_eq!(holder.asked(seek(TWO)), Err(Malformed::Control));
        holder.offer(TWO);
        assert_eq!((holder.question(), holder.offered()), (None, Some(TWO)));
        holder.asked(seek(ONE)).unwrap();
        assert_eq!(holder.question(), None, "the next answer waits");
        assert_eq!(holder.settled(ONE), Err(Malformed::Control));
        holder.settled(TWO).unwrap();
        assert_eq!(holder.settled(TWO), Err(Malformed::Control));
        assert_eq!(holder.question(), Some(seek(ONE)));
    }

    #[test]
    fn a_round_goes_on_after_nothing_and_begins_anew_after_news() {
        let mut seeker = Seeker::NONE;
        assert_eq!(seeker.next(), None, "nothing is held back");
        seeker.stalled();
        assert_eq!(seeker.next(), Some(NextReceive::First));
        seeker.seek(Posted { receiver: ONE, order: 5 });
        assert_eq!((seeker.next(), seeker.due()), (None, Some(ONE)));
        assert_eq!(seeker.nothing(ONE, true), Err(Malformed::Control), "it was not asked yet");
        seeker.asked();
        assert_eq!(seeker.nothing(TWO, true), Err(Malformed::Control));
        seeker.nothing(ONE, true).unwrap();
        assert_eq!(seeker.next(), Some(NextReceive::After(5)));
        seeker.seek(Posted { receiver: TWO, order: 6 });
        seeker.asked();
        seeker.stalled();
        seeker.nothing(TWO, true).unwrap();
        assert_eq!(seeker.next(), Some(NextReceive::First), "the first one may fit what is held back since");
        seeker.seek(Posted { receiver: ONE, order: 5 });
        seeker.asked();
        seeker.nothing(ONE, false).unwrap();
        assert_eq!(seeker.next(), None);
    }

    #[test]
    fn a_question_that_was_not_sent_yet_does_not_pass_over_receives_that_new_messages_fit() {
        let mut seeker = Seeker::NONE;
        seeker.stalled();
        seeker.seek(Posted { receiver: ONE, order: 5 });
        seeker.asked();
        seeker.nothing(ONE, true).unwrap();
        seeker.seek(Posted { receiver: TWO, order: 6 });
        seeker.stalled();
        assert_eq!((seeker.due(), seeker.next()), (None, Some(NextReceive::First)));
    }

    #[test]
    fn a_declined_offer_is_declined_before_the_next_question() {
        let mut seeker = asked();
        assert_eq!(seeker.offered(TWO), Err(Malformed::Control));
        seeker.offered(ONE).unwrap();
        seeker.decline(TWO);
        assert_eq!((seeker.next(), seeker.verdict_due()), (None, Some((TWO, false))));
        seeker.settled(ONE);
        assert_eq!(seeker.verdict_due(), Some((TWO, false)), "that was another one");
        seeker.settled(TWO);
        assert_eq!((seeker.next(), seeker.verdict_due()), (Some(NextReceive::First), None));
    }

    #[test]
    fn a_held_offer_is_settled_either_way_and_nothing_is_asked_meanwhile() {
        for taken in [false, true] {
            let mut seeker = asked();
            seeker.offered(ONE).unwrap();
            seeker.hold(TWO);
            assert_eq!((seeker.next(), seeker.verdict_due()), (None, None));
            if taken {
                seeker.take(TWO)
            } else {
                seeker.decline(TWO)
            }
            assert_eq!((seeker.next(), seeker.verdict_due()), (None, Some((TWO, taken))));
            seeker.settled(TWO);
            assert_eq!((seeker.next(), seeker.verdict_due()), (Some(NextReceive::First), None));
        }
    }

    /// A side that waits for the answer about a receive.
    fn asked() -> Seeker {
        let mut seeker = Seeker::NONE;
        seeker.stalled();
        seeker.seek(Posted { receiver: ONE, order: 5 });
        seeker.asked();
        seeker
    }
}
