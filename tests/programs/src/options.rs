//! The command line of a rank: `key=value` words, the same for an image and for a process.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::Parameters;

/// Declares an enumeration whose values have names on the command line.
macro_rules! named {
    ($(#[$meta:meta])* $type:ident { $($(#[$about:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $type {
            $($(#[$about])* $value,)+
        }

        impl $type {
            /// Every name, for a user who mistook one.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The value of that name.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$value),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$value => $name,)+
                })
            }
        }
    };
}

named! {
    /// The program that a rank runs.
    Program {
        /// [`pingpong`](crate::pingpong)
        Pingpong = "pingpong",
        /// [`heat`](crate::heat)
        Heat = "heat",
        /// [`collectives`](crate::collectives)
        Collectives = "collectives",
        /// [`flood`](crate::flood)
        Flood = "flood",
        /// [`sharing`](crate::sharing)
        Sharing = "sharing",
    }
}

named! {
    /// The link that joins the ranks.
    Link {
        /// No link: a job of one rank.
        Loopback = "loopback",
        /// Ethernet frames through a virtio network device.
        VirtioNet = "virtio-net",
        /// Ethernet frames through one of Intel's gigabit controllers.
        E1000e = "e1000e",
        /// Memory of a PCI device that all ranks share.
        Ivshmem = "ivshmem",
        /// Ethernet frames on a serial line.
        Serial = "serial",
        /// Memory of a board whose cores are the ranks, all of them.
        Cores = "cores",
        /// Ethernet frames through the board's own network controller.
        Nic = "nic",
    }
}

named! {
    /// The framing of messages.
    Framing {
        /// An EtherType of its own.
        Ethernet = "ethernet",
        /// UDP over IPv4.
        Udp = "udp",
    }
}

/// The options of a rank: its place in the job, and what it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Its number in the job.
    pub rank: u32,
    /// Ranks of the job.
    pub size: u32,
    /// Ranks of its board, the first of which it is: cores, each with a queue of the card's.
    pub cores: u32,
    /// The program that it runs.
    pub program: Program,
    /// The link that joins it to the others.
    pub link: Link,
    /// The framing of its messages, where the link has frames.
    pub framing: Framing,
    /// The key of the job: others on the same wire are strangers.
    pub job: u64,
    /// The key by which frames are authenticated, if they are.
    pub key: Option<[u8; 16]>,
    /// The parameters of the program.
    pub parameters: Parameters,
}

impl Options {
    /// A rank by itself: what a board runs that is told nothing.
    pub const DEFAULT: Self = Self {
        rank: 0,
        size: 1,
        cores: 1,
        program: Program::Collectives,
        link: Link::Loopback,
        framing: Framing::Ethernet,
        job: 1,
        key: None,
        parameters: Parameters { count: None, deadline: Duration::from_secs(20), sharing: 1 },
    };

    /// Reads a command line: words of `aldis.rank=`, `aldis.size=`, `aldis.cores=`,
    /// `aldis.program=`, `aldis.link=`, `aldis.framing=`, `aldis.job=` (hexadecimal), `aldis.key=`
    /// (32 hexadecimal digits), `aldis.deadline_ms=`, `aldis.count=` and `aldis.sharing=`, in any
    /// order. What is not named is as in [`DEFAULT`](Self::DEFAULT); of a key that is named twice
    /// the last value counts.
    ///
    /// ```
    /// use aldis_programs::{Options, Program};
    ///
    /// let line = "aldis.rank=1 aldis.size=2 aldis.program=heat aldis.link=serial";
    /// let options = Options::parse(line).unwrap();
    /// assert_eq!((options.rank, options.program), (1, Program::Heat));
    /// let mistake = Options::parse("aldis.rang=1").unwrap_err();
    /// assert!(mistake.to_string().starts_with("no option is called `aldis.rang`"));
    /// ```
    ///
    /// # Errors
    /// The first word that is wrong, and what would be right.
    pub fn parse(line: &str) -> Result<Self, OptionError<'_>> {
        let mut options = Self::DEFAULT;
        for word in line.split_ascii_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            options.set(key, value)?;
        }
        match options {
            Self { rank, size, .. } if rank >= size => Err(OptionError::Rank { rank, size }),
            Self { size: 2.., link: Link::Loopback, .. } => Err(OptionError::Alone),
            Self { rank: 1.., link: Link::Cores, .. } => Err(OptionError::Core),
            Self { cores: 0 | 2.., .. } if !options.has_queues() => Err(OptionError::Cores),
            _ => Ok(options),
        }
    }

    /// Returns true if the board can be so many ranks.
    fn has_queues(&self) -> bool {
        let &Self { rank, size, cores, link, .. } = self;
        let has_card = matches!(link, Link::VirtioNet | Link::E1000e);
        has_card && cores > 0 && rank.is_multiple_of(cores) && cores <= size - rank
    }

    fn set<'l>(&mut self, key: &'l str, value: &'l str) -> Result<(), OptionError<'l>> {
        let bad = |expected| OptionError::Value { key, value, expected };
        let number = || value.parse().map_err(|_| bad(Expected::Number));
        match key {
            "aldis.rank" => self.rank = number()?,
            "aldis.size" => self.size = number()?,
            "aldis.cores" => self.cores = number()?,
            "aldis.program" => {
                self.program = Program::named(value).ok_or(bad(Expected::OneOf(Program::NAMES)))?;
            }
            "aldis.link" => self.link = Link::named(value).ok_or(bad(Expected::OneOf(Link::NAMES)))?,
            "aldis.framing" => {
                self.framing = Framing::named(value).ok_or(bad(Expected::OneOf(Framing::NAMES)))?;
            }
            "aldis.job" => {
                self.job = u64::from_str_radix(value, 16).map_err(|_| bad(Expected::Hexadecimal))?;
            }
            "aldis.key" => self.key = Some(key_of(value).ok_or(bad(Expected::Key))?),
            "aldis.deadline_ms" => {
                self.parameters.deadline = Duration::from_millis(number()?.into());
            }
            "aldis.count" => self.parameters.count = Some(number()?),
            "aldis.sharing" => {
                let cores: NonZeroU32 = value.parse().map_err(|_| bad(Expected::Positive))?;
                self.parameters.sharing = cores.get();
            }
            _ => return Err(OptionError::Key { key }),
        }
        Ok(())
    }
}

/// The 16 bytes of 32 hexadecimal digits.
fn key_of(digits: &str) -> Option<[u8; 16]> {
    let all = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    all.then(|| u128::from_str_radix(digits, 16).ok())?.map(u128::to_be_bytes)
}

/// The keys of a command line.
const KEYS: [&str; 11] = [
    "aldis.rank",
    "aldis.size",
    "aldis.cores",
    "aldis.program",
    "aldis.link",
    "aldis.framing",
    "aldis.job",
    "aldis.key",
    "aldis.deadline_ms",
    "aldis.count",
    "aldis.sharing",
];

/// The fault of a command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionError<'l> {
    /// A key that there is not.
    Key {
        /// The key that was written.
        key: &'l str,
    },
    /// A value that the key cannot have.
    Value {
        /// The key.
        key: &'l str,
        /// The value that was written.
        value: &'l str,
        /// The values that could have been.
        expected: Expected,
    },
    /// A rank outside the job.
    Rank {
        /// The rank.
        rank: u32,
        /// Ranks of the job.
        size: u32,
    },
    /// Several ranks that nothing joins.
    Alone,
    /// A board that is all ranks of its job, and is told to be another than the first.
    Core,
    /// A board of several cores whose card has no queues for them, or whose ranks are not in the
    /// job.
    Cores,
}

/// The values that a key can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// A number that fits 32 bits.
    Number,
    /// A number above zero that fits 32 bits.
    Positive,
    /// A hexadecimal number that fits 64 bits.
    Hexadecimal,
    /// Hexadecimal digits of 16 bytes.
    Key,
    /// Any of these names.
    OneOf(&'static [&'static str]),
}

fn list(f: &mut fmt::Formatter<'_>, names: &[&str]) -> fmt::Result {
    for (index, name) in names.iter().enumerate() {
        write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
    }
    Ok(())
}

impl fmt::Display for OptionError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { key } => {
                write!(f, "no option is called `{key}`; known: ")?;
                list(f, &KEYS)
            }
            // Whatever was meant to be a secret is not told.
            Self::Value { key, expected: Expected::Key, .. } => {
                write!(f, "{key} is not 32 hexadecimal digits")
            }
            Self::Value { key, value, expected } => {
                write!(f, "{key} cannot be `{value}`: it is ")?;
                match expected {
                    Expected::Number => f.write_str("a number below 2^32"),
                    Expected::Positive => f.write_str("a number from 1 to 2^32 - 1"),
                    Expected::Hexadecimal => f.write_str("a hexadecimal number below 2^64"),
                    Expected::Key => Ok(()),
                    Expected::OneOf(names) => {
                        f.write_str("one of ")?;
                        list(f, names)
                    }
                }
            }
            Self::Rank { rank, size } => write!(f, "aldis.rank={rank} is outside 0..{size} (aldis.size)"),
            Self::Cores => f.write_str(
                "with aldis.cores=N, aldis.link is virtio-net or e1000e, and aldis.rank a multiple of N of which N are in the job",
            ),
            Self::Core => f.write_str("with aldis.link=cores a board is all ranks: leave aldis.rank out"),
            Self::Alone => f.write_str("several ranks need an aldis.link other than loopback"),
        }
    }
}

impl core::error::Error for OptionError<'_> {}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::string::ToString;

    use super::*;

    #[test]
    fn every_key_is_read() {
        let line = " aldis.rank=2\taldis.size=4 aldis.cores=2 aldis.program=flood aldis.link=virtio-net aldis.framing=udp \
                    aldis.job=A1d15 aldis.key=000102030405060708090a0b0c0d0E0F aldis.deadline_ms=1500 aldis.count=7 aldis.sharing=3\n";
        let expected = Options {
            rank: 2,
            size: 4,
            cores: 2,
            program: Program::Flood,
            link: Link::VirtioNet,
            framing: Framing::Udp,
            job: 0xA1D15,
            key: Some(core::array::from_fn(|at| at as u8)),
            parameters: Parameters { count: Some(7), deadline: Duration::from_millis(1500), sharing: 3 },
        };
        assert_eq!(Options::parse(line), Ok(expected));
        assert_eq!(Options::parse(""), Ok(Options::DEFAULT));
        for key in KEYS {
            assert!(!matches!(Options::parse(&format!("{key}=1")), Err(OptionError::Key { .. })), "{key}");
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in Program::NAMES {
            assert_eq!(Program::named(name).map(|value| value.to_string()).as_deref(), Some(*name));
        }
        for name in Link::NAMES {
            assert_eq!(Link::named(name).map(|value| value.to_string()).as_deref(), Some(*name));
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_name() {
        for (line, told) in [
            ("rank=1", "no option is called `rank`; known: aldis.rank, aldis.size"),
            ("aldis.rank=-1", "aldis.rank cannot be `-1`: it is a number below 2^32"),
            ("aldis.sharing=0", "aldis.sharing cannot be `0`: it is a number from 1"),
            ("aldis.rank", "aldis.rank cannot be ``: it is a number"),
            ("aldis.job=xyz", "aldis.job cannot be `xyz`: it is a hexadecimal number"),
            ("aldis.key=0123", "aldis.key is not 32 hexadecimal digits"),
            ("aldis.key=+123456789abcdef0123456789abcdef", "aldis.key is not 32 hexadecimal digits"),
            ("aldis.program=dance", "aldis.program cannot be `dance`: it is one of pingpong, heat"),
            ("aldis.rank=2 aldis.size=2 aldis.link=serial", "aldis.rank=2 is outside 0..2 (aldis.size)"),
            ("aldis.size=2", "several ranks need an aldis.link"),
            ("aldis.rank=1 aldis.size=2 aldis.link=cores", "with aldis.link=cores a board is all ranks"),
            (
                "aldis.rank=2 aldis.size=3 aldis.cores=2 aldis.link=e1000e",
                "with aldis.cores=N, aldis.link is",
            ),
            (
                "aldis.rank=1 aldis.size=4 aldis.cores=2 aldis.link=e1000e",
                "with aldis.cores=N, aldis.link is",
            ),
            ("aldis.size=4 aldis.cores=2 aldis.link=serial", "with aldis.cores=N, aldis.link is"),
            ("aldis.size=4 aldis.cores=0 aldis.link=e1000e", "with aldis.cores=N, aldis.link is"),
        ] {
            let error = Options::parse(line).unwrap_err().to_string();
            assert!(error.starts_with(told), "{line}: {error}");
        }
    }
}
