//! All that can happen between two sides.

use core::hash::{Hash, Hasher};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashSet, VecDeque};
use std::string::ToString;
use std::vec::Vec;
use std::{format, vec};

use super::{Contact, ContactMessage};
use crate::explore::{self, Broken};
use crate::sabotage::{self, Defect, planted};

/// The events that may still happen, of each side.
#[derive(Clone, Copy, Hash, Debug)]
struct ContactBudget {
    /// Messages that its program sends.
    messages: u8,
    /// Times that it wants the row for another peer.
    closes: u8,
    /// Contacts that it drops since it has no row to give.
    refusals: u8,
    /// Contacts that are repeated for want of an answer.
    repeats: u8,
    /// Times that it leaves, and goes on to listen.
    partings: u8,
    /// Times that it ends, well or not.
    ends: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum SentMessage {
    Of(ContactMessage),
    Goodbye,
    /// A message with its number.
    Message(u8),
}

#[derive(Clone, Hash, Debug)]
struct ContactSide {
    contact: Contact,
    budget: ContactBudget,
    /// Messages that wait to be sent.
    waiting: u8,
    sent: u8,
    received: u8,
    /// Messages on their way to the other side.
    lane: VecDeque<SentMessage>,
    /// True once it leaves: it says nothing but goodbye.
    is_leaving: bool,
    /// A goodbye is due.
    owes_goodbye: bool,
    /// It has ended: it takes nothing and says nothing.
    is_over: bool,
}

/// Two sides; the transport tells each of the end of the other, or it does not.
#[derive(Clone, Hash, Debug)]
struct ContactPair {
    sides: [ContactSide; 2],
    tells_ends: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PairStep {
    /// The program of a side has a message to send.
    Want(usize),
    /// A side without a contact asks for one.
    Ask(usize),
    Repeat(usize),
    /// The message that is due is sent.
    Say(usize),
    Send(usize),
    Close(usize),
    /// A side takes what is first on the way to it.
    Take(usize),
    /// A contact is dropped.
    Refuse(usize),
    /// A side has sent all that it had to send, and begins to leave.
    Part(usize),
    /// A side has sent all that it had to send, and ends.
    Leave(usize),
    /// A side ends with all that is under way.
    Die(usize),
    /// A side is told that the other has ended, once all that it has sent has come.
    Hear(usize),
}

impl ContactSide {
    /// Returns true if contact or close is to be said: of one that leaves, neither.
    fn says_contact(&self) -> bool {
        let says = !self.is_leaving || planted(Defect::MeetsAsItLeaves);
        (says || planted(Defect::ClosesAsItLeaves)) && self.contact.due().is_some()
    }

    /// Returns true if it may want the row for another peer.
    fn closes(&self) -> bool {
        let closes = !self.is_leaving || planted(Defect::MeetsAsItLeaves);
        (closes || planted(Defect::ClosesAsItLeaves)) && self.contact.is_open()
    }
}

impl ContactPair {
    fn new(budget: ContactBudget, tells_ends: bool) -> Self {
        let side = ContactSide {
            contact: Contact::NONE,
            budget,
            waiting: 0,
            sent: 0,
            received: 0,
            lane: VecDeque::new(),
            is_leaving: false,
            owes_goodbye: false,
            is_over: false,
        };
        Self { sides: [side.clone(), side], tells_ends }
    }

    /// Steps that bring the pair to its end if nothing else happens: nothing is refused, and no
    /// row wanted for another peer.
    fn next_good(&self) -> Option<PairStep> {
        use PairStep::*;
        let good = |step: &PairStep| match *step {
            Want(_) | Close(_) | Refuse(_) | Part(_) | Leave(_) | Die(_) => false,
            Repeat(side) => self.sides.iter().all(|side| side.lane.is_empty()) && !self.may_hear(side),
            _ => true,
        };
        self.all_steps(true).into_iter().find(good)
    }

    fn may_hear(&self, at: usize) -> bool {
        let (side, other) = (&self.sides[at], &self.sides[1 - at]);
        let holds = !side.contact.is_none() || side.waiting > 0;
        self.tells_ends && other.is_over && other.lane.is_empty() && holds
    }

    fn all_steps(&self, is_patient: bool) -> Vec<PairStep> {
        let mut steps = vec![];
        for at in 0..2 {
            let (side, other) = (&self.sides[at], &self.sides[1 - at]);
            if side.is_over {
                continue;
            }
            let mut may = |is, step| {
                if is {
                    steps.push(step);
                }
            };
            let ContactSide { contact, budget, waiting, .. } = side;
            let stays = !side.is_leaving;
            may(stays && budget.messages > 0, PairStep::Want(at));
            may(contact.is_none() && *waiting > 0, PairStep::Ask(at));
            let unanswered = stays && contact.is_asking() && contact.due().is_none();
            may(unanswered && (is_patient || budget.repeats > 0), PairStep::Repeat(at));
            may(side.owes_goodbye || side.says_contact(), PairStep::Say(at));
            may(contact.is_open() && *waiting > 0, PairStep::Send(at));
            may(side.closes() && budget.closes > 0, PairStep::Close(at));
            let next = other.lane.front();
            may(next.is_some(), PairStep::Take(at));
            let refuses = next == Some(&SentMessage::Of(ContactMessage::Contact));
            may(refuses && (contact.is_none() || !stays) && budget.refusals > 0, PairStep::Refuse(at));
            may(stays && budget.partings > 0 && *waiting == 0, PairStep::Part(at));
            may(budget.ends > 0 && *waiting == 0, PairStep::Leave(at));
            may(budget.ends > 0, PairStep::Die(at));
            may(self.may_hear(at), PairStep::Hear(at));
        }
        steps
    }

    fn take(&mut self, at: usize) -> Result<(), Broken> {
        let Some(came) = self.sides[1 - at].lane.pop_front() else { return Ok(()) };
        let side = &mut self.sides[at];
        match came {
            SentMessage::Of(_) if side.is_leaving && !planted(Defect::MeetsAsItLeaves) => {
                side.owes_goodbye = true;
            }
            // What its contact does not take is dropped.
            SentMessage::Message(_) if side.is_leaving => {}
            SentMessage::Goodbye if side.contact.takes_goodbye() => {
                (side.contact, side.waiting, side.owes_goodbye) = (Contact::NONE, 0, false);
            }
            SentMessage::Goodbye => {}
            SentMessage::Of(ContactMessage::Contact) => {
                side.contact.met().map_err(|what| format!("contact at {at}: {what}"))?;
            }
            SentMessage::Of(ContactMessage::Close) => {
                let is_over = side.contact.left().map_err(|what| format!("close at {at}: {what}"))?;
                if is_over && !self.sides[1 - at].lane.is_empty() {
                    let mut rest = self.sides[1 - at].lane.iter();
                    if rest.any(|sent| matches!(sent, SentMessage::Message(_))) {
                        return Err(format!("messages come to {at} after the contact is over"));
                    }
                }
            }
            SentMessage::Message(number) => {
                if !side.contact.takes() {
                    return Err(format!("message {number} comes to {at}, which is {:?}", side.contact));
                }
                if number != side.received {
                    return Err(format!("message {number} comes to {at} in place of {}", side.received));
                }
                side.received += 1;
            }
        }
        Ok(())
    }

    /// Checks what holds when nothing is under way and nothing due.
    fn check_rest(&self) -> Result<(), Broken> {
        let [one, other] = &self.sides;
        let rests = |side: &ContactSide| side.lane.is_empty() && !side.says_contact() && !side.owes_goodbye;
        let leave = one.is_leaving && other.is_leaving;
        if !rests(one) || !rests(other) || one.is_over || other.is_over || leave {
            return Ok(());
        }
        if one.is_leaving || other.is_leaving {
            let stays = if one.is_leaving { other } else { one };
            return match stays.contact.is_none() || stays.contact.is_asking() {
                true => Ok(()),
                false => Err(format!("at rest with one that leaves a side is {:?}", stays.contact)),
            };
        }
        let alike = one.contact == other.contact && (one.contact.is_none() || one.contact.is_open());
        // One that was dropped is repeated.
        let asks = |a: &ContactSide, b: &ContactSide| a.contact.is_asking() && b.contact.is_none();
        if alike || asks(one, other) || asks(other, one) {
            return Ok(());
        }
        Err(format!("at rest one side is {:?} and the other {:?}", one.contact, other.contact))
    }
}

impl explore::World for ContactPair {
    type Step = PairStep;

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn steps(&self) -> Vec<PairStep> {
        self.all_steps(false)
    }

    fn apply(&mut self, step: PairStep) -> Result<(), Broken> {
        let (PairStep::Want(at)
        | PairStep::Ask(at)
        | PairStep::Repeat(at)
        | PairStep::Say(at)
        | PairStep::Send(at)
        | PairStep::Close(at)
        | PairStep::Take(at)
        | PairStep::Refuse(at)
        | PairStep::Part(at)
        | PairStep::Leave(at)
        | PairStep::Die(at)
        | PairStep::Hear(at)) = step;
        let reaches = !self.sides[1 - at].is_over;
        let side = &mut self.sides[at];
        match step {
            PairStep::Want(_) => {
                (side.budget.messages, side.waiting) = (side.budget.messages - 1, side.waiting + 1)
            }
            PairStep::Ask(_) => side.contact.ask(),
            PairStep::Repeat(_) => {
                side.budget.repeats = side.budget.repeats.saturating_sub(1);
                side.contact.repeat();
            }
            PairStep::Say(_) => {
                if core::mem::take(&mut side.owes_goodbye) {
                    side.lane.extend(reaches.then_some(SentMessage::Goodbye));
                } else if let Some(due) = side.contact.due() {
                    side.lane.extend(reaches.then_some(SentMessage::Of(due)));
                    side.contact.sent();
                }
            }
            PairStep::Send(_) => {
                side.lane.extend(reaches.then_some(SentMessage::Message(side.sent)));
                (side.sent, side.waiting) = (side.sent + 1, side.waiting - 1);
            }
            PairStep::Close(_) => {
                side.budget.closes -= 1;
                side.contact.close();
            }
            PairStep::Take(_) => self.take(at)?,
            PairStep::Refuse(_) => {
                side.budget.refusals -= 1;
                self.sides[1 - at].lane.pop_front();
            }
            PairStep::Part(_) => {
                side.budget.partings -= 1;
                (side.is_leaving, side.owes_goodbye) = (true, !side.contact.is_none());
            }
            PairStep::Leave(_) | PairStep::Die(_) => {
                (side.is_over, side.owes_goodbye) = (true, false);
                (side.contact, side.waiting) = (Contact::NONE, 0);
                if let PairStep::Die(_) = step {
                    // It counts as never sent.
                    let lost = side.lane.drain(..).filter(|sent| matches!(sent, SentMessage::Message(_)));
                    side.sent -= lost.count() as u8;
                }
                let other = &mut self.sides[1 - at];
                other.lane.clear();
                other.budget.ends = 0;
            }
            PairStep::Hear(_) => (side.contact, side.waiting) = (Contact::NONE, 0),
        }
        self.check_rest()
    }
}

/// All that waits is sent and received in the end, and every contact that can be closed is; a side
/// whose peer has ended holds nothing of it.
fn recovers(world: &ContactPair, good: &mut HashSet<u64>) -> Result<(), Broken> {
    use explore::World;
    let mut world = world.clone();
    let mut passed = vec![];
    for _ in 0..200 {
        let fingerprint = world.fingerprint();
        if good.contains(&fingerprint) {
            good.extend(passed);
            return Ok(());
        }
        passed.push(fingerprint);
        let Some(step) = world.next_good() else {
            for (side, other) in [(0, 1), (1, 0)].map(|(one, two)| (&world.sides[one], &world.sides[two])) {
                let left = side.waiting + side.sent;
                if !other.is_over && !other.is_leaving && left != other.received {
                    return Err(format!("{left} messages, {} received: {world:?}", other.received));
                }
                let is_left = other.is_over || other.is_leaving;
                if is_left && !side.is_leaving && !(side.contact.is_none() && side.waiting == 0) {
                    return Err(format!("a contact with one that has ended: {world:?}"));
                }
            }
            good.extend(passed);
            return Ok(());
        };
        world.apply(step)?;
    }
    Err("it goes on for ever".to_string())
}

const BUDGET: ContactBudget =
    ContactBudget { messages: 2, closes: 2, refusals: 1, repeats: 1, partings: 0, ends: 0 };
/// A side may leave at any step of a contact, and with anything under way.
const PARTING: ContactBudget = ContactBudget { closes: 1, partings: 1, ..BUDGET };

fn explored(pair: ContactPair) -> Result<usize, explore::Counterexample<PairStep>> {
    explore::explore(pair, &[()], |world, (), good| recovers(world, good)).map(|found| found.states)
}

#[test]
fn every_message_comes_once_and_in_order_whatever_crosses() {
    let states = explored(ContactPair::new(BUDGET, true)).unwrap();
    assert!(states > 10_000, "{states} states alone");
}

/// A side may end in any state of a contact, and with anything under way.
#[test]
fn a_side_whose_peer_ends_holds_nothing_of_it_if_it_is_told() {
    let budget = ContactBudget { messages: 1, closes: 1, ends: 1, ..BUDGET };
    let states = explored(ContactPair::new(budget, true)).unwrap();
    assert!(states > 10_000, "{states} states alone");
    assert!(explored(ContactPair::new(budget, false)).is_err(), "it would ask for ever");
}

/// No transport tells: what a side that leaves answers is all that the other learns.
#[test]
fn a_side_whose_peer_leaves_has_all_and_asks_no_more_as_long_as_it_listens() {
    let mut pair = ContactPair::new(PARTING, false);
    (pair.sides[0].budget.messages, pair.sides[1].budget.partings) = (1, 0);
    let states = explored(pair.clone()).unwrap();
    assert!(states > 10_000, "{states} states alone");
    for defect in [Defect::DeafToGoodbye, Defect::MeetsAsItLeaves, Defect::ClosesAsItLeaves] {
        let found = sabotage::with(Some(defect), || explored(pair.clone()));
        assert!(found.is_err(), "{defect:?} is not found");
    }
}

#[test]
fn a_side_may_end_at_any_time_after_its_goodbye_if_its_transport_tells() {
    let budget = ContactBudget { messages: 1, ends: 1, ..PARTING };
    let states = explored(ContactPair::new(budget, true)).unwrap();
    assert!(states > 10_000, "{states} states alone");
}

#[test]
fn every_defect_is_found() {
    for defect in [
        Defect::AnswersOnce,
        Defect::ClosesOpenAlone,
        Defect::MeetsAnew,
        Defect::AnswersClose,
        Defect::LeavesUnanswered,
        Defect::OpensUnanswered,
        Defect::ForgetsAtClose,
    ] {
        let found = sabotage::with(Some(defect), || explored(ContactPair::new(BUDGET, true)));
        assert!(found.is_err(), "{defect:?} is not found");
    }
}

#[test]
fn a_contact_that_nobody_has_asked_for_changes_nothing_for_the_worse() {
    let mut contact = Contact::NONE;
    assert!(contact.left().is_err(), "there is none to be closed");
    contact.close();
    assert!(contact.is_none() && contact.due().is_none());
    assert_eq!(contact.met(), Ok(true));
    assert_eq!((contact.due(), contact.sent()), (Some(ContactMessage::Contact), false));
    assert_eq!(contact.met(), Ok(false), "once more");
    assert_eq!((contact.is_open(), contact.left()), (true, Ok(false)));
    assert!(contact.met().is_err() && contact.left().is_err(), "it has said close");
    assert_eq!((contact.due(), contact.sent()), (Some(ContactMessage::Close), true));
}
