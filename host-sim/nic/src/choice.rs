//! The text by which a user chooses a card.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

use aldis_sys::bpf::XdpMode;
use aldis_sys::xdp::XdpCopies;

use crate::pci_address::PciAddress;

/// The kind of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CardKind {
    /// Frames of an interface that the system uses too, by `AF_PACKET`.
    Packet,
    /// Frames of an interface that the system hands over in shared memory, by AF_XDP.
    Xdp,
    /// The other end of a TAP interface.
    Tap,
    /// Memory that is shared with DPDK, VPP or another such process.
    Memif,
    /// A card on PCI that the system hands over, by VFIO.
    Pci,
}

impl CardKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Xdp => "xdp",
            Self::Tap => "tap",
            Self::Memif => "memif",
            Self::Pci => "pci",
        }
    }

    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [Self::Packet, Self::Xdp, Self::Tap, Self::Memif, Self::Pci];
        all.into_iter().find(|kind| kind.name() == name)
    }
}

/// The number of an interface on the socket of a memif.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemifId {
    /// This one.
    Number(u32),
    /// The rank's.
    Rank,
}

impl MemifId {
    /// The number; zero for one that is to be the rank's.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Rank => 0,
        }
    }
}

/// The part of a choice that only a memif has. The secret is shown by no text but
/// [`CardChoice::with_secret`].
#[derive(Clone, PartialEq, Eq)]
pub struct MemifChoice {
    /// True for the end that listens on the socket; the other connects, and makes the memory.
    pub is_server: bool,
    /// The number of the interface on the socket.
    pub id: MemifId,
    /// The secret of the interface; empty for none.
    pub secret: String,
    /// The longest payload of a frame, in bytes.
    pub mtu: u16,
}

impl fmt::Debug for MemifChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_server, id, secret, mtu } = self;
        let mut shown = f.debug_struct("MemifChoice");
        shown.field("is_server", is_server).field("id", id).field("mtu", mtu);
        shown.field("has_secret", &!secret.is_empty()).finish()
    }
}

impl MemifChoice {
    /// The choice of a user who says nothing: what DPDK has.
    pub const DEFAULT: Self =
        Self { is_server: false, id: MemifId::Number(0), secret: String::new(), mtu: MEMIF_MTU };
}

/// The part of a choice that only AF_XDP has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XdpChoice {
    /// The queue of the interface whose frames are taken.
    pub queue: u32,
    /// The way by which frames come to the program; if none is chosen, from the driver if it can do
    /// that, else from the system.
    pub mode: Option<XdpMode>,
    /// The copies that are made of frames.
    pub copies: XdpCopies,
}

impl XdpChoice {
    /// The choice of a user who says nothing.
    pub const DEFAULT: Self = Self { queue: 0, mode: None, copies: XdpCopies::Any };

    /// Takes a word of the user's.
    fn take(&mut self, word: &str) -> Result<(), String> {
        match word.split_once('=').unwrap_or((word, "")) {
            ("native", "") => self.mode = Some(XdpMode::Native),
            ("generic", "") => self.mode = Some(XdpMode::Generic),
            ("copy", "") => self.copies = XdpCopies::Copy,
            ("zerocopy", "") => self.copies = XdpCopies::Zero,
            ("queue", queue) => {
                self.queue =
                    queue.parse().map_err(|_| format!("{word:?} is no queue; it is queue=NUMBER"))?;
            }
            _ => {
                return Err(format!(
                    "{word:?} says nothing of AF_XDP; it is native, generic, zerocopy, copy, queue=NUMBER, \
                     udp, auth, mac=interface, patience=SECONDS, pcap=PATH or counters"
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for XdpChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, mode, copies } = self;
        f.write_str(match mode {
            None => "",
            Some(XdpMode::Native) => ",native",
            Some(XdpMode::Generic) => ",generic",
        })?;
        f.write_str(match copies {
            XdpCopies::Any => "",
            XdpCopies::Copy => ",copy",
            XdpCopies::Zero => ",zerocopy",
        })?;
        if *queue == 0 { Ok(()) } else { write!(f, ",queue={queue}") }
    }
}

/// The usual MTU of Ethernet, the least that makes sense, and the longest.
const MEMIF_MTU: u16 = 1500;
const MEMIF_MTU_MIN: u16 = 576;
const MEMIF_MTU_MAX: u16 = 9216;

/// Bytes of a secret.
const SECRET_BYTES: usize = 24;

/// A card as the user chooses it: `packet:IF`, `xdp:IF`, `tap:IF`, `memif:PATH` or `pci:ADDRESS`,
/// and words behind commas.
///
/// ```text
/// packet:eth0                  frames of eth0, with an address of the rank's own
/// packet:eth0,mac=interface    with the address of eth0: one rank alone
/// packet:eth0,udp              in UDP over IPv4
/// packet:eth0,auth             with a tag by the job's key on each frame
/// packet:eth0,patience=5       lost if eth0 is down for 5 seconds; 60 if not given
/// packet:eth0,pcap=/tmp/%r.pcap,counters  each frame in a file, and how many they were at the end
/// xdp:eth0                     frames of eth0's queue 0, by memory that is shared with the system
/// xdp:eth0,queue=1,zerocopy    of queue 1, and only if the driver copies no frames
/// xdp:eth0,generic,copy        behind the driver, if it cannot do more
/// tap:rank%r                   a TAP for each rank: %r is its number
/// memif:/run/memif.sock,id=%r  interface of the rank's number, of the server at this socket
/// memif:/run/rank%r.sock       interface 0 of a server for each rank
/// memif:/run/a.sock,server     the server itself
/// memif:/run/a.sock,secret=TEXT,mtu=9000
/// pci:0000:00:04.0             the card at this address, with no driver of the system
/// pci:0000:01:10.%r            the function of the rank's number, such as of a card with SR-IOV
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardChoice {
    /// Its kind.
    pub kind: CardKind,
    /// The name of its interface, the path of its socket, or its address.
    pub interface: String,
    /// True if the interface's own address is used.
    pub has_interface_mac: bool,
    /// True if messages go in UDP over IPv4.
    pub is_udp: bool,
    /// True if frames have tags by the job's key, and others are refused.
    pub is_authenticated: bool,
    /// The seconds for which the interface may be down or gone, if they are chosen.
    pub patience_s: Option<NonZeroU32>,
    /// The path of a file for all frames, if they are to be captured.
    pub capture: Option<String>,
    /// True if the counters are told at the end.
    pub has_counters: bool,
    /// The part that only AF_XDP has.
    pub xdp: XdpChoice,
    /// The part that only a memif has.
    pub memif: MemifChoice,
}

/// The kinds of cards, as a user names them.
pub const CARD_KINDS: &str = "packet:IF, xdp:IF, tap:IF, memif:PATH or pci:ADDRESS";

/// The place of a rank's number in the name of an interface.
const RANK_MARK: &str = "%r";

impl CardChoice {
    /// The card of this kind and name of a user who says no more.
    pub const fn plain(kind: CardKind, interface: String) -> Self {
        Self {
            kind,
            interface,
            has_interface_mac: false,
            is_udp: false,
            is_authenticated: false,
            patience_s: None,
            capture: None,
            has_counters: false,
            xdp: XdpChoice::DEFAULT,
            memif: MemifChoice::DEFAULT,
        }
    }

    /// The card of one rank: its number in the place of `%r`.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> Self {
        let id = match self.memif.id {
            MemifId::Rank => MemifId::Number(rank),
            number @ MemifId::Number(_) => number,
        };
        let named = |text: &String| text.replace(RANK_MARK, &rank.to_string());
        Self {
            interface: named(&self.interface),
            capture: self.capture.as_ref().map(named),
            memif: MemifChoice { id, ..self.memif.clone() },
            ..self.clone()
        }
    }

    /// The text by which another process chooses the same: unlike what is displayed, with the
    /// secret of a memif.
    pub fn with_secret(&self) -> String {
        CardText { choice: self, secret: &self.memif.secret }.to_string()
    }

    /// Takes a word of the user's.
    fn take(&mut self, word: &str) -> Result<(), String> {
        if let Some(seconds) = word.strip_prefix("patience=") {
            let wrong =
                |_| format!("{word:?} is no patience; it is patience=SECONDS, whole ones, 1 at least");
            self.patience_s = Some(seconds.parse().map_err(wrong)?);
            return Ok(());
        }
        if let Some(path) = word.strip_prefix("pcap=").filter(|path| !path.is_empty()) {
            self.capture = Some(path.into());
            return Ok(());
        }
        match (word, self.kind) {
            ("counters", _) => self.has_counters = true,
            ("udp", _) => self.is_udp = true,
            ("auth", _) => self.is_authenticated = true,
            ("mac=interface", CardKind::Packet | CardKind::Xdp) => self.has_interface_mac = true,
            ("mac=interface", CardKind::Tap) => {
                return Err("the address of a TAP is that of its other end; leave mac=interface out".into());
            }
            ("mac=interface", CardKind::Pci) => {
                return Err("a card on PCI has its own address; leave mac=interface out".into());
            }
            (word, CardKind::Xdp) => return self.xdp.take(word),
            (word, CardKind::Memif) => return self.memif.take(word),
            (word, _) => {
                return Err(format!(
                    "{word:?} says nothing of a card; it is udp, auth, mac=interface, patience=SECONDS, \
                     pcap=PATH or counters"
                ));
            }
        }
        Ok(())
    }
}

impl MemifChoice {
    /// Takes a word of the user's.
    fn take(&mut self, word: &str) -> Result<(), String> {
        match word.split_once('=').unwrap_or((word, "")) {
            ("server", "") => self.is_server = true,
            ("client", "") => self.is_server = false,
            ("id", RANK_MARK) => self.id = MemifId::Rank,
            ("id", id) => {
                let id = id.parse().map_err(|_| format!("{word:?} is no id; it is id=NUMBER or id=%r"));
                self.id = MemifId::Number(id?);
            }
            ("secret", secret) if (1..=SECRET_BYTES).contains(&secret.len()) => self.secret = secret.into(),
            ("secret", _) => return Err(format!("a secret has 1 to {SECRET_BYTES} bytes")),
            ("mtu", mtu) => {
                let range = MEMIF_MTU_MIN..=MEMIF_MTU_MAX;
                let mtu = mtu.parse().ok().filter(|mtu| range.contains(mtu));
                let wrong = || format!("{word:?} is no MTU; it is mtu={MEMIF_MTU_MIN} to {MEMIF_MTU_MAX}");
                self.mtu = mtu.ok_or_else(wrong)?;
            }
            _ => {
                return Err(format!(
                    "{word:?} says nothing of a memif; it is client, server, id=NUMBER, id=%r, secret=TEXT, \
                     mtu=BYTES, udp, auth, patience=SECONDS, pcap=PATH or counters"
                ));
            }
        }
        Ok(())
    }
}

impl FromStr for CardChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("no card is called {text:?}; it is {CARD_KINDS}");
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        let kind = CardKind::named(kind).ok_or_else(unknown)?;
        let mut words = rest.split(',');
        let interface = words.next().unwrap_or_default();
        if interface.is_empty() {
            return Err(match kind {
                CardKind::Memif => format!("{text:?} names no socket; such as memif:/run/memif.sock"),
                CardKind::Pci => format!("{text:?} names no address; such as pci:0000:00:04.0"),
                _ => format!("{text:?} names no interface; such as {}:eth0", kind.name()),
            });
        }
        let mut choice = Self::plain(kind, interface.into());
        if kind == CardKind::Pci {
            // Any rank's number will do.
            choice.of_rank(0).interface.parse::<PciAddress>()?;
        }
        words.try_for_each(|word| choice.take(word))?;
        Ok(choice)
    }
}

/// The text that stands for a secret.
const HIDDEN: &str = "..";

/// Writes the choice as it is read, but for the secret of a memif: `secret=..`.
impl fmt::Display for CardChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = if self.memif.secret.is_empty() { "" } else { HIDDEN };
        CardText { choice: self, secret }.fmt(f)
    }
}

/// The text of a choice, with this secret.
struct CardText<'a> {
    choice: &'a CardChoice,
    secret: &'a str,
}

impl fmt::Display for CardText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { choice, secret } = self;
        write!(f, "{}:{}", choice.kind.name(), choice.interface)?;
        let MemifChoice { is_server, id, secret: _, mtu } = &choice.memif;
        let words = [
            (choice.has_interface_mac, ",mac=interface"),
            (choice.is_udp, ",udp"),
            (choice.is_authenticated, ",auth"),
            (*is_server, ",server"),
        ];
        words.into_iter().filter(|(is_set, _)| *is_set).try_for_each(|(_, word)| f.write_str(word))?;
        write!(f, "{}", choice.xdp)?;
        match id {
            MemifId::Number(0) => {}
            MemifId::Number(number) => write!(f, ",id={number}")?,
            MemifId::Rank => write!(f, ",id={RANK_MARK}")?,
        }
        if !secret.is_empty() {
            write!(f, ",secret={secret}")?;
        }
        if *mtu != MEMIF_MTU {
            write!(f, ",mtu={mtu}")?;
        }
        choice.patience_s.map_or(Ok(()), |seconds| write!(f, ",patience={seconds}"))?;
        choice.capture.as_ref().map_or(Ok(()), |path| write!(f, ",pcap={path}"))?;
        f.write_str(if choice.has_counters { ",counters" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_and_written() {
        for text in [
            "packet:eth0",
            "tap:rank%r",
            "packet:eth0,mac=interface,udp",
            "tap:t0,udp,patience=9",
            "memif:/run/rank%r.sock",
            "memif:m,udp,server,id=7,secret=word,mtu=9000,patience=5",
            "memif:m,id=%r",
            "xdp:eth%r",
            "xdp:eth0,mac=interface,udp,native,zerocopy,queue=3,patience=2",
            "xdp:eth0,generic,copy",
            "pci:0000:00:04.0,udp,auth,patience=3",
            "pci:01:10.%r",
            "packet:eth0,pcap=/tmp/%r.pcap",
            "xdp:eth0,queue=1,patience=2,pcap=x,counters",
            "memif:m,counters",
        ] {
            let choice = text.parse::<CardChoice>().unwrap();
            assert_eq!(choice.with_secret(), text);
            assert_eq!(choice.to_string(), text.replace("secret=word", "secret=.."));
            assert!(!format!("{choice:?}").contains("word"));
        }
        let plain = "memif:m,client,id=0,mtu=1500".parse::<CardChoice>().unwrap();
        assert_eq!(plain, CardChoice::plain(CardKind::Memif, "m".into()));
        assert_eq!("memif:m,id=%r".parse::<CardChoice>().unwrap().of_rank(3).memif.id, MemifId::Number(3));
        let captured = "tap:t,pcap=/tmp/%r.pcap".parse::<CardChoice>().unwrap().of_rank(7).capture;
        assert_eq!(captured.as_deref(), Some("/tmp/7.pcap"));
        assert_eq!("tap:t%r".parse::<CardChoice>().unwrap().of_rank(12).interface, "t12");
    }

    #[test]
    fn what_is_no_choice_is_told() {
        for (text, answer) in [
            ("eth0", "packet:IF, xdp:IF, tap:IF, memif:PATH or pci:ADDRESS"),
            ("usb:eth0", "packet:IF, xdp:IF, tap:IF, memif:PATH or pci:ADDRESS"),
            ("pci:", "names no address; such as pci:0000:00:04.0"),
            ("pci:eth0", "\"eth0\" is no address of a PCI device; it is such as 0000:00:04.0"),
            ("pci:00:04.0,mac=interface", "leave mac=interface out"),
            ("pci:00:04.0,queue=1", "says nothing of a card"),
            ("xdp:", "names no interface; such as xdp:eth0"),
            ("xdp:eth0,queue=x", "it is queue=NUMBER"),
            ("xdp:eth0,server", "says nothing of AF_XDP; it is native, generic"),
            ("packet:eth0,zerocopy", "\"zerocopy\" says nothing of a card"),
            ("packet:", "names no interface"),
            ("packet:eth0,pcap=", "pcap=PATH or counters"),
            ("packet:eth0,fast", "\"fast\" says nothing"),
            (
                "packet:eth0,patience=0",
                "\"patience=0\" is no patience; it is patience=SECONDS, whole ones, 1 at least",
            ),
            ("memif:m,patience=1.5", "\"patience=1.5\" is no patience"),
            ("xdp:eth0,patience=", "\"patience=\" is no patience"),
            ("tap:t0,mac=interface", "leave mac=interface out"),
            ("tap:t0,server", "\"server\" says nothing"),
            ("memif:", "names no socket"),
            ("memif:m,id=x", "id=NUMBER or id=%r"),
            ("memif:m,mtu=10", "mtu=576 to 9216"),
            ("memif:m,secret=", "1 to 24 bytes"),
            ("memif:m,mac=interface", "says nothing of a memif"),
        ] {
            let error = text.parse::<CardChoice>().unwrap_err();
            assert!(error.contains(answer), "{text}: {error}");
        }
    }
}
