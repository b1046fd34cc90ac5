//! The second connection of a peer, by which memory is read and written, and how it is made.
//!
//! ```text
//! who has something to read              the other
//!   | -- offer: a queue pair ------------> |  makes one and connects it
//!   | <---------------- answer: its own -- |
//!   |  connects; may read                  |
//!   | -- go -----------------------------> |  may read
//! ```
//!
//! These words are messages of the first connection. What is refused to read, because a key is stale or forged, breaks a
//! reliable connection (InfiniBand Architecture Specification 1.4, volume 1, section 9.9.3): that is why there are two, and
//! messages go on while this one is closed, on both sides, and made anew when it is next needed. Each time it has the next
//! serial number, and a word of an older one is nothing. Of two offers that cross, that of the lower rank counts.

use std::rc::Rc;

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Token};

use super::super::choice::Choice;
use super::super::error::VerbsError;
use super::super::sys::{Act, Completions, DirectPair, Domain, Done, Ending, Receives, Region, Remote, Span};
use super::Place;

/// Reads, writes and atomics with a peer that can be under way.
pub(super) const ORDERS: u32 = 16;
/// Bytes of a word.
pub(super) const WORD_BYTES: usize = 8;

/// What a peer is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word {
    kind: Kind,
    serial: u16,
    /// Of an offer and its answer: how many reads the sender's queue pair can have under way, and its number.
    depth: u8,
    number: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Offer = 1,
    Answer = 2,
    Go = 3,
    /// It is closed.
    Close = 4,
    /// There will be none: the device of the one who was offered it cannot.
    Refuse = 5,
}

impl Word {
    const fn bare(kind: Kind, serial: u16) -> Self {
        Self { kind, serial, depth: 0, number: 0 }
    }

    pub(super) fn encode(self) -> [u8; WORD_BYTES] {
        let ([low, high], [a, b, c, d]) = (self.serial.to_le_bytes(), self.number.to_le_bytes());
        [self.kind as u8, self.depth, low, high, a, b, c, d]
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let &[kind, depth, low, high, a, b, c, d] = bytes else { return Err(Malformed::Control) };
        let kind = match kind {
            1 => Kind::Offer,
            2 => Kind::Answer,
            3 => Kind::Go,
            4 => Kind::Close,
            5 => Kind::Refuse,
            _ => return Err(Malformed::Control),
        };
        let word = Self {
            kind,
            serial: u16::from_le_bytes([low, high]),
            depth,
            number: u32::from_le_bytes([a, b, c, d]),
        };
        let names_pair = matches!(kind, Kind::Offer | Kind::Answer);
        if names_pair != (depth > 0) || (!names_pair && word.number != 0) || word.number >> 24 != 0 {
            return Err(Malformed::Control);
        }
        Ok(word)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Closed,
    Offered,
    Answered,
    Open,
}

/// What a connection is made from.
pub(super) struct Maker<'a> {
    pub(super) domain: &'a Domain,
    pub(super) receives: &'a Receives,
    pub(super) queues: (&'a Rc<Completions>, &'a Rc<Completions>),
    pub(super) choice: &'a Choice,
    /// Where the peer is.
    pub(super) place: Place,
    /// Reads that a queue pair here can have under way.
    pub(super) depth: u8,
}

impl Maker<'_> {
    fn pair(&self, serial: u16) -> Result<DirectPair, VerbsError> {
        DirectPair::new(self.domain, self.receives, self.queues, (ORDERS, serial))
    }

    fn connect(&self, pair: &DirectPair, word: &Word) -> Result<(), VerbsError> {
        let Place { gid, lid, mtu } = self.place;
        // A pair's packets begin with its serial number, so that late ones of another pair are nothing.
        let numbers = (word.serial.into(), word.serial.into());
        let depth = self.depth.min(word.depth);
        pair.connect(self.choice, &Remote { gid, lid, mtu, pair: word.number, numbers, depth })
    }
}

/// This side of it.
pub(super) struct Direct {
    state: State,
    pair: Option<DirectPair>,
    serial: u16,
    /// What the peer is to be told next. A later word says all that an earlier one did.
    pub(super) say: Option<Word>,
    /// A post was refused since the sink last heard that the peer is ready.
    waiting: bool,
    /// There will be none.
    refused: bool,
    /// What was cut off, to be told. At most [`ORDERS`]: nothing is posted before all are told.
    pub(super) cut_off: Vec<Token>,
}

/// What became of an attempt to post.
pub(super) enum Attempt {
    Posted,
    NoRoom,
    Connecting,
    Refused,
}

impl Direct {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Closed,
            pair: None,
            serial: 0,
            say: None,
            waiting: false,
            refused: false,
            cut_off: Vec::new(),
        }
    }

    /// Whether a completion of queue pair `number` is of this one.
    pub(super) fn is_of(&self, number: u32) -> bool {
        self.pair.as_ref().is_some_and(|pair| pair.number() == number)
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.cut_off.is_empty() && self.pair.as_ref().is_none_or(|pair| pair.tokens(None).next().is_none())
    }

    /// Whether a post that was refused can be tried again; asked once for each.
    pub(super) fn is_ready(&mut self) -> bool {
        let can_post = match self.state {
            State::Offered | State::Answered => false,
            State::Closed => self.cut_off.is_empty(),
            State::Open => self.has_room(),
        };
        core::mem::take(&mut self.waiting)
            && (can_post || {
                self.waiting = true;
                false
            })
    }

    fn has_room(&self) -> bool {
        self.cut_off.is_empty() && self.pair.as_ref().is_some_and(DirectPair::has_room)
    }

    pub(super) fn post(
        &mut self,
        maker: &Maker<'_>,
        (token, act): (Token, Act),
        region: &Rc<Region>,
        span: Span,
    ) -> Attempt {
        if self.refused {
            return Attempt::Refused;
        }
        self.waiting = true;
        match (self.state, &mut self.pair) {
            (State::Open, Some(pair)) if self.cut_off.is_empty() && pair.has_room() => {
                self.waiting = false;
                if pair.post(token, act, region, span).is_ok() {
                    return Attempt::Posted;
                }
                self.close();
                Attempt::Refused
            }
            (State::Open, _) => Attempt::NoRoom,
            (State::Closed, _) if self.cut_off.is_empty() => self.offer(maker),
            _ => Attempt::Connecting,
        }
    }

    fn offer(&mut self, maker: &Maker<'_>) -> Attempt {
        self.serial = self.serial.wrapping_add(1);
        let Ok(pair) = maker.pair(self.serial) else {
            (self.refused, self.waiting) = (true, false);
            return Attempt::Refused;
        };
        self.say(Kind::Offer, maker, &pair);
        (self.state, self.pair) = (State::Offered, Some(pair));
        Attempt::Connecting
    }

    fn say(&mut self, kind: Kind, maker: &Maker<'_>, pair: &DirectPair) {
        let (depth, number) = (maker.depth, pair.number());
        self.say = Some(Word { kind, serial: self.serial, depth, number });
    }

    /// Takes in what the peer says. `counts` if of two offers that cross ours is taken.
    pub(super) fn hear(&mut self, word: &Word, counts: bool, maker: &Maker<'_>) {
        match (word.kind, self.state) {
            (Kind::Offer, State::Offered) if counts => {}
            (Kind::Offer, _) => self.answer(word, maker),
            _ if word.serial != self.serial => {}
            (Kind::Answer, State::Offered) => {
                let pair = self.pair.as_ref();
                if pair.is_some_and(|pair| maker.connect(pair, word).is_ok()) {
                    self.state = State::Open;
                    self.say = Some(Word::bare(Kind::Go, self.serial));
                } else {
                    self.refused = true;
                    self.close();
                }
            }
            (Kind::Go, State::Answered) => self.state = State::Open,
            (Kind::Close | Kind::Refuse, State::Closed) => {}
            (Kind::Close, _) => self.cut(),
            (Kind::Refuse, _) => {
                self.refused = true;
                self.cut();
            }
            // Of a connection that is made already, or not any more.
            (Kind::Answer | Kind::Go, _) => {}
        }
    }

    fn answer(&mut self, word: &Word, maker: &Maker<'_>) {
        self.cut();
        self.serial = word.serial;
        let pair = maker.pair(self.serial).and_then(|pair| maker.connect(&pair, word).map(|()| pair));
        let Ok(pair) = pair else {
            self.say = Some(Word::bare(Kind::Refuse, self.serial));
            return;
        };
        self.say(Kind::Answer, maker, &pair);
        (self.state, self.pair) = (State::Answered, Some(pair));
    }

    /// Ends it on both sides.
    fn close(&mut self) {
        self.cut();
        self.say = Some(Word::bare(Kind::Close, self.serial));
    }

    /// Ends it here: the device touches nothing for it any more.
    pub(super) fn cut(&mut self) {
        if let Some(pair) = self.pair.take() {
            self.cut_off.extend(pair.tokens(None));
        }
        (self.state, self.say) = (State::Closed, None);
    }

    /// Ends it if it is at work on this region, or on this post.
    pub(super) fn let_go(&mut self, is_meant: impl Fn(&DirectPair) -> bool) -> bool {
        let is_at_work = self.pair.as_ref().is_some_and(is_meant);
        if is_at_work {
            self.close();
        }
        is_at_work
    }

    /// An order is over: whose, and how. One that failed has broken the connection.
    pub(super) fn ended(&mut self, done: &Done) -> Option<(Token, Result<(), Cause>)> {
        let token = self.pair.as_mut()?.take(done)?;
        let result = match done.ending {
            Ending::Good => return Some((token, Ok(()))),
            Ending::Refused => Err(Cause::Stale),
            // It has ended there, or the peer has: the connection of messages tells that.
            Ending::Flushed | Ending::NoAnswer | Ending::NotReady => Err(Cause::Cancelled),
            Ending::Failed => Err(Cause::Device),
        };
        self.close();
        Some((token, result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_and_others_are_refused() {
        let offer = Word { kind: Kind::Offer, serial: 0xFFFE, depth: 16, number: 0xFF_FFFF };
        assert_eq!(Word::decode(&offer.encode()), Ok(offer));
        let close = Word::bare(Kind::Close, 7);
        assert_eq!(Word::decode(&close.encode()), Ok(close));
        for (at, value) in [(0, 0), (0, 6), (0, 3), (1, 0), (7, 1)] {
            let mut wrong = offer.encode();
            wrong[at] = value;
            assert_eq!(Word::decode(&wrong), Err(Malformed::Control), "byte {at}");
        }
        assert_eq!(Word::decode(&offer.encode()[..7]), Err(Malformed::Control));
    }
}
