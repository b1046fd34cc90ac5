//! The options that the user types.

use core::str::FromStr;
use core::time::Duration;
use std::path::PathBuf;

use aldis_sim::switch::{PortFaults, Rate};
use clap::Parser;

/// A switch of Ethernet frames for emulators and Linux processes, with the faults of a bad wire.
///
/// Members meet in a folder: member K binds the unix datagram socket FOLDER/memberK.sock and sends
/// its frames to FOLDER/portK.sock; a member on a serial line connects to the stream socket
/// FOLDER/serialK.sock. It runs until it is interrupted; then it prints what each port has seen.
#[derive(Debug, Parser)]
#[command(name = "aldis-switch", version, about, long_about, after_long_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Options {
    /// The folder in which the sockets stand
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,

    /// Datagram ports: how many (numbers 0 to N-1), or which ones, such as 0,2,5-7
    #[arg(long, value_name = "PORTS", default_value = "2")]
    pub(crate) datagram: PortNumbers,

    /// Serial ports, which speak COBS: how many (numbers 0 to N-1), or which ones
    #[arg(long, value_name = "PORTS", default_value = "0")]
    pub(crate) serial: PortNumbers,

    /// Percentage of the frames to each member that vanish
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    loss: Rate,

    /// Percentage that come twice
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    duplicate: Rate,

    /// Percentage that up to four later ones overtake
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    reorder: Rate,

    /// Percentage that are late by up to --delay-us
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    delay: Rate,

    /// The longest delay, microseconds
    #[arg(long, value_name = "US", default_value_t = 2_000)]
    delay_us: u32,

    /// Percentage that have some bytes changed
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    corrupt: Rate,

    /// Malformed frames to put among the others, as a percentage of those: noise, damaged headers,
    /// truncated, giant, and of connections and lives that there are not
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    malformed: Rate,

    /// The seed that all faults are drawn from: the n-th frame in a direction meets the same fate
    /// with the same seed
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write what leaves for the members to a file for `tshark -r` and Wireshark
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,

    /// End after so many seconds
    #[arg(long, value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,

    /// End when standard input ends, for programs that start the switch
    #[arg(long)]
    pub(crate) until_eof: bool,

    /// Print the figures as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  mkdir /tmp/lab; aldis-switch /tmp/lab
      two ports; says `ready` when members may come
  aldis-switch /tmp/lab --datagram 4 --loss 5 --duplicate 5 --reorder 10 --seed 7
      four ports on a bad wire, the same wire every time
  aldis-switch /tmp/lab --pcap /tmp/lab/job.pcap; tshark -r /tmp/lab/job.pcap
      what the members were given, frame by frame

An emulator as member 0:
  qemu-system-aarch64 ... -device virtio-net-device,netdev=net,mac=02:a1:d1:00:00:00 \\
      -netdev dgram,id=net,local.type=unix,local.path=/tmp/lab/member0.sock,remote.type=unix,remote.path=/tmp/lab/port0.sock

A Linux process as a member: aldis_nic::SocketNic.";

impl Options {
    /// The faults of what goes to each member.
    pub(crate) fn faults(&self) -> PortFaults {
        PortFaults {
            loss: self.loss,
            duplicate: self.duplicate,
            reorder: self.reorder,
            delay: self.delay,
            delay_ns_max: u64::from(self.delay_us) * 1_000,
            corrupt: self.corrupt,
            malformed: self.malformed,
        }
    }
}

/// Numbers of ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PortNumbers(Vec<u32>);

/// The highest number of a port.
const PORT_MAX: u32 = 65_535;

impl PortNumbers {
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}

impl FromStr for PortNumbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let number = text.parse().ok().filter(|number| *number <= PORT_MAX);
            number.ok_or_else(|| format!("{text:?} is no number of a port; try 4 or 0,2,5-7"))
        };
        if !text.contains([',', '-']) {
            return Ok(Self((0..number(text)?).collect()));
        }
        let mut numbers = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            numbers.extend(number(first)?..=number(last)?);
        }
        Ok(Self(numbers))
    }
}

/// A positive number of seconds, fractions allowed.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|span| !span.is_zero()).ok_or_else(|| "not a positive number of seconds".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn ports_are_counted_or_listed() {
        assert_eq!("3".parse(), Ok(PortNumbers(vec![0, 1, 2])));
        assert_eq!("0,2,5-7".parse(), Ok(PortNumbers(vec![0, 2, 5, 6, 7])));
        assert_eq!("4,".parse(), Ok(PortNumbers(vec![4])));
        for bad in ["", "x", "1-", "70000"] {
            assert!(bad.parse::<PortNumbers>().unwrap_err().contains("try 4 or 0,2,5-7"), "{bad}");
        }
    }

    #[test]
    fn wrong_rates_are_answered_with_what_would_be_right() {
        let error = Options::try_parse_from(["aldis-switch", "/tmp", "--loss", "120"]).unwrap_err();
        assert!(error.to_string().contains("from 0 to 100"), "{error}");
        let options = Options::try_parse_from(["aldis-switch", "/tmp", "--loss", "0.5"]).unwrap();
        assert_eq!(options.faults().loss.to_string(), "0.5 %");
    }
}
