//! `RankNic`: the card of a rank, or two that share its frames.

use core::fmt;
use core::str::FromStr;
use std::os::fd::{AsFd, BorrowedFd};

use aldis_drivers::bonded::{BondedNic, BondedRx, BondedTx};
use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Nic, TxFrame};
use aldis_sys::Errno;
use aldis_sys::event::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use crate::card::{CardNic, CardRx, CardTx, FrameKind};
use crate::choice::{CardChoice, CardKind};
use crate::error::CardError;

/// The cards of a rank as the user chooses them: one, or two with a plus between them.
///
/// ```text
/// packet:eth1                         one card
/// packet:eth1+packet:eth2             frames take turns on both, and one of them may fail
/// packet:eth1,udp,patience=5+tap:t%r  what is said of frames is said of the first, for both
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardsChoice {
    /// The card, or the first of two.
    pub first: CardChoice,
    /// The second of two.
    pub second: Option<CardChoice>,
}

impl CardsChoice {
    /// The cards of one rank: its number in the place of `%r`.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> Self {
        let second = self.second.as_ref().map(|second| second.of_rank(rank));
        Self { first: self.first.of_rank(rank), second }
    }

    /// The text by which another process chooses the same: unlike what is displayed, with the
    /// secrets of memifs.
    pub fn with_secrets(&self) -> String {
        let second = self.second.as_ref().map(|second| format!("+{}", second.with_secret()));
        self.first.with_secret() + &second.unwrap_or_default()
    }
}

/// The card and the text of the second card, if there is one: behind a plus that a card follows.
fn split(text: &str) -> (&str, Option<&str>) {
    let is_card = |text: &str| text.split_once(':').is_some_and(|(kind, _)| CardKind::named(kind).is_some());
    let mut pluses = text.match_indices('+').map(|(at, _)| text.split_at(at));
    let found =
        pluses.find_map(|(first, rest)| rest.get(1..).filter(|rest| is_card(rest)).map(|rest| (first, rest)));
    found.map_or((text, None), |(first, second)| (first, Some(second)))
}

impl FromStr for CardsChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, second) = split(text);
        let (first, second): (CardChoice, _) =
            (first.parse()?, second.map(CardChoice::from_str).transpose()?);
        if let Some(second) = &second {
            let says = second.is_udp || second.is_authenticated || second.has_interface_mac;
            if says || second.patience_s.is_some() {
                return Err(format!(
                    "{second}: say udp, auth, patience=SECONDS and mac=interface of the first card, {first}; they hold \
                     for both"
                ));
            }
            if (second.kind, &second.interface, second.memif.id)
                == (first.kind, &first.interface, first.memif.id)
            {
                return Err(format!("{first} is named twice; two cards are two interfaces"));
            }
            if let Some(path) = first.capture.as_ref().filter(|path| second.capture.as_ref() == Some(*path)) {
                return Err(format!(
                    "both cards would write their frames to one file, {path}; give each its own, such as \
                     pcap=/tmp/a%r.pcap and pcap=/tmp/b%r.pcap"
                ));
            }
        }
        Ok(Self { first, second })
    }
}

impl fmt::Display for CardsChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.second.as_ref().map_or(Ok(()), |second| write!(f, "+{second}"))
    }
}

/// The card of a rank, or two as one.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a process has one, and asks it for every frame")]
pub enum RankNic {
    /// A card alone.
    Single(CardNic),
    /// Two.
    Bonded(Box<CardPair>),
}

/// Two cards as one.
#[derive(Debug)]
pub struct CardPair {
    nic: BondedNic<CardNic, CardNic, Vec<u8>>,
    /// The bells of both, if both have one.
    bell: Option<PairBell>,
}

impl RankNic {
    /// Opens the cards: frames to this address or to all stations, of one kind or of all. Two
    /// cards take frames to the same address.
    ///
    /// # Errors
    /// [`CardError`], of either card.
    pub fn open(choice: &CardsChoice, mac: Mac, kind: FrameKind) -> Result<Self, CardError> {
        let first = CardNic::open(&choice.first, mac, kind)?;
        let Some(second) = &choice.second else { return Ok(Self::Single(first)) };
        let mut second = CardNic::open(second, first.mac(), kind)?;
        second.set_mac(first.mac())?;
        let frame = vec![0; first.mtu().min(second.mtu()) + MAC_HEADER_BYTES];
        let bell = PairBell::of(&first, &second);
        Ok(Self::Bonded(Box::new(CardPair { nic: BondedNic::new(first, second, frame), bell })))
    }

    /// Notes that other ranks of this machine are on the same interfaces.
    ///
    /// # Errors
    /// [`CardError::System`].
    pub fn share(&mut self) -> Result<(), CardError> {
        match self {
            Self::Single(card) => card.share(),
            Self::Bonded(pair) => {
                let (first, second) = pair.nic.both_mut();
                first.share().and_then(|()| second.share())
            }
        }
    }

    /// Looks at the cards: whether frames pass by one of them, and if not, why. What has been made
    /// anew is taken up again.
    pub fn probe(&mut self) -> Option<&CardError> {
        match self {
            Self::Single(card) => card.probe(),
            Self::Bonded(pair) => {
                let (first, second) = pair.nic.both_mut();
                let is_there = [first.probe().is_none(), second.probe().is_none()];
                if let Some(bell) = &pair.bell {
                    bell.add(pair.nic.first());
                    bell.add(pair.nic.second());
                }
                if is_there.contains(&true) { None } else { pair.nic.first().trouble() }
            }
        }
    }

    /// The trouble that was found last, if no card is without.
    pub const fn trouble(&self) -> Option<&CardError> {
        match self {
            Self::Single(card) => card.trouble(),
            Self::Bonded(pair) => match (pair.nic.first().trouble(), pair.nic.second().trouble()) {
                (Some(trouble), Some(_)) => Some(trouble),
                _ => None,
            },
        }
    }

    /// The number of the interface of the first card, if it is one of this machine's.
    pub const fn index(&self) -> Option<u32> {
        match self {
            Self::Single(card) => card.index(),
            Self::Bonded(pair) => pair.nic.first().index(),
        }
    }

    /// The cards.
    pub fn cards(&self) -> impl Iterator<Item = &CardNic> {
        let (first, second) = match self {
            Self::Single(card) => (card, None),
            Self::Bonded(pair) => (pair.nic.first(), Some(pair.nic.second())),
        };
        core::iter::once(first).chain(second)
    }

    /// A file that can be read when a frame has come, if the cards have one: they are polled
    /// otherwise.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Single(card) => card.bell(),
            Self::Bonded(pair) => pair.bell.as_ref().map(|bell| bell.0.as_fd()),
        }
    }
}

/// The bells of two cards, which is one itself.
#[derive(Debug)]
struct PairBell(Epoll);

impl PairBell {
    /// The bells of two cards. `None` if one has none, or the process can have no more files.
    fn of(first: &CardNic, second: &CardNic) -> Option<Self> {
        let bell = Self(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok()?);
        (bell.add(first) && bell.add(second)).then_some(bell)
    }

    /// Has the file of a card ring, unless it does; one that the card has given up rings no more.
    fn add(&self, card: &CardNic) -> bool {
        let Some(file) = card.bell() else { return false };
        matches!(self.0.add(file, EpollEvent::new(EpollFlags::EPOLLIN, 0)), Ok(()) | Err(Errno::EEXIST))
    }
}

impl TxFrame for RankTx<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Single(frame) => frame.bytes(),
            Self::Bonded(frame) => frame.bytes(),
        }
    }

    fn send(self) {
        match self {
            Self::Single(frame) => frame.send(),
            Self::Bonded(frame) => frame.send(),
        }
    }

    fn send_more(self) {
        match self {
            Self::Single(frame) => frame.send_more(),
            Self::Bonded(frame) => frame.send_more(),
        }
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub enum RankTx<'a> {
    /// By the only card.
    Single(CardTx<'a>),
    /// By either of two.
    Bonded(BondedTx<'a, CardNic, CardNic, Vec<u8>>),
}

impl Nic for RankNic {
    type Rx<'a> = CardRx<'a>;
    type Tx<'a> = RankTx<'a>;

    fn receive(&mut self) -> Option<CardRx<'_>> {
        match self {
            Self::Single(card) => card.receive(),
            Self::Bonded(pair) => {
                let (BondedRx::First(frame) | BondedRx::Second(frame)) = pair.nic.receive()?;
                Some(frame)
            }
        }
    }

    fn transmit(&mut self, len: usize) -> Option<RankTx<'_>> {
        match self {
            Self::Single(card) => card.transmit(len).map(RankTx::Single),
            Self::Bonded(pair) => pair.nic.transmit(len).map(RankTx::Bonded),
        }
    }

    fn flush(&mut self) {
        match self {
            Self::Single(card) => card.flush(),
            Self::Bonded(pair) => pair.nic.flush(),
        }
    }

    fn mtu(&self) -> usize {
        match self {
            Self::Single(card) => card.mtu(),
            Self::Bonded(pair) => pair.nic.mtu(),
        }
    }

    fn mac(&self) -> Mac {
        match self {
            Self::Single(card) => card.mac(),
            Self::Bonded(pair) => pair.nic.mac(),
        }
    }

    fn link(&self) -> LinkState {
        match self {
            Self::Single(card) => card.link(),
            Self::Bonded(pair) => pair.nic.link(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_card_and_two_are_read_and_written() {
        for text in [
            "packet:eth0",
            "packet:eth0,udp,patience=5+packet:eth1",
            "tap:t%r+memif:/run/a+b.sock,id=%r",
            "pci:0000:00:04.0+pci:0000:00:05.0",
        ] {
            assert_eq!(text.parse::<CardsChoice>().unwrap().to_string(), text);
        }
        // A plus of a name is none between cards.
        let one = "memif:/run/a+b.sock".parse::<CardsChoice>().unwrap();
        assert_eq!((one.first.interface.as_str(), one.second), ("/run/a+b.sock", None));
        let two = "tap:a%r+tap:b%r".parse::<CardsChoice>().unwrap().of_rank(3);
        assert_eq!(two.to_string(), "tap:a3+tap:b3");
    }

    #[test]
    fn two_cards_that_do_not_fit_are_refused() {
        for (text, answer) in [
            ("packet:a+packet:b,udp", "say udp, auth, patience=SECONDS and mac=interface of the first card"),
            ("packet:a+packet:a", "named twice"),
            ("packet:a,pcap=/tmp/%r+packet:b,pcap=/tmp/%r", "to one file, /tmp/%r; give each its own"),
            ("packet:+packet:a", "names no interface"),
            ("packet:a+tap:", "names no interface"),
        ] {
            let error = text.parse::<CardsChoice>().unwrap_err();
            assert!(error.contains(answer), "{text}: {error}");
        }
    }
}
