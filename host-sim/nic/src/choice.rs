//! The text by which a user chooses a card.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

/// The kind of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CardKind {
    /// Frames of an interface that the system uses too, by `AF_PACKET`.
    Packet,
    /// The other end of a TAP interface.
    Tap,
}

impl CardKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Tap => "tap",
        }
    }
}

/// A card as the user chooses it: `packet:IF` or `tap:IF`, and words behind commas.
///
/// ```text
/// packet:eth0                  frames of eth0, with an address of the rank's own
/// packet:eth0,mac=interface    with the address of eth0: one rank alone
/// packet:eth0,udp              in UDP over IPv4
/// packet:eth0,patience=5       lost if eth0 is down for 5 seconds; 60 if not given
/// tap:rank%r                   a TAP for each rank: %r is its number
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardChoice {
    /// Its kind.
    pub kind: CardKind,
    /// The name of its interface.
    pub interface: String,
    /// True if the interface's own address is used.
    pub has_interface_mac: bool,
    /// True if messages go in UDP over IPv4.
    pub is_udp: bool,
    /// The seconds for which the interface may be down or gone, if they are chosen.
    pub patience_s: Option<NonZeroU32>,
}

/// The place of a rank's number in the name of an interface.
const RANK_MARK: &str = "%r";

impl CardChoice {
    /// The card of one rank: its number in the place of `%r`.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> Self {
        Self { interface: self.interface.replace(RANK_MARK, &rank.to_string()), ..self.clone() }
    }
}

impl FromStr for CardChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("no card is called {text:?}; it is packet:IF or tap:IF");
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        let kind = match kind {
            "packet" => CardKind::Packet,
            "tap" => CardKind::Tap,
            _ => return Err(unknown()),
        };
        let mut words = rest.split(',');
        let interface = words.next().unwrap_or_default();
        if interface.is_empty() {
            return Err(format!("{text:?} names no interface; such as {}:eth0", kind.name()));
        }
        let mut choice = Self {
            kind,
            interface: interface.into(),
            has_interface_mac: false,
            is_udp: false,
            patience_s: None,
        };
        for word in words {
            match (word, kind) {
                ("udp", _) => choice.is_udp = true,
                ("mac=interface", CardKind::Packet) => choice.has_interface_mac = true,
                ("mac=interface", CardKind::Tap) => {
                    return Err(
                        "the address of a TAP is that of its other end; leave mac=interface out".into()
                    );
                }
                (word, _) => {
                    let seconds = word.strip_prefix("patience=").and_then(|seconds| seconds.parse().ok());
                    choice.patience_s = Some(seconds.ok_or_else(|| {
                        format!(
                            "{word:?} says nothing of a card; it is udp, mac=interface or patience=SECONDS"
                        )
                    })?);
                }
            }
        }
        Ok(choice)
    }
}

impl fmt::Display for CardChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.interface)?;
        let words = [(self.has_interface_mac, ",mac=interface"), (self.is_udp, ",udp")];
        words.into_iter().filter(|(is_set, _)| *is_set).try_for_each(|(_, word)| f.write_str(word))?;
        self.patience_s.map_or(Ok(()), |seconds| write!(f, ",patience={seconds}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_and_written() {
        for text in ["packet:eth0", "tap:rank%r", "packet:eth0,mac=interface,udp", "tap:t0,udp,patience=9"] {
            assert_eq!(text.parse::<CardChoice>().unwrap().to_string(), text);
        }
        assert_eq!("tap:t%r".parse::<CardChoice>().unwrap().of_rank(12).interface, "t12");
    }

    #[test]
    fn what_is_no_choice_is_told() {
        for (text, answer) in [
            ("eth0", "packet:IF or tap:IF"),
            ("xdp:eth0", "packet:IF or tap:IF"),
            ("packet:", "names no interface"),
            ("packet:eth0,fast", "\"fast\" says nothing"),
            ("packet:eth0,patience=0", "patience=SECONDS"),
            ("tap:t0,mac=interface", "leave mac=interface out"),
        ] {
            let error = text.parse::<CardChoice>().unwrap_err();
            assert!(error.contains(answer), "{text}: {error}");
        }
    }
}
