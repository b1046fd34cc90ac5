//! The options that the user types.

use core::num::NonZeroU32;
use core::time::Duration;

use aldis_linux::job::parse_seconds;
use aldis_nic::CardChoice;
use clap::{Args, Parser, Subcommand};

/// Network cards for jobs: which there are, and what they carry without the protocols of a job.
///
/// A card is packet:IF, frames of an interface beside the system's own use of it, xdp:IF, the same
/// by memory shared with the system (AF_XDP), tap:IF, the other end of a TAP, memif:PATH, memory
/// shared with DPDK or VPP, or pci:ADDRESS, a card on PCI that the system hands over (VFIO), as
/// `aldis-run --nic` takes it.
#[derive(Debug, Parser)]
#[command(name = "aldis-nic", version, about, long_about, after_long_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct NicOptions {
    /// Print one line of JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// The command.
    #[command(subcommand)]
    pub(crate) work: NicCommand,
}

/// The work that is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum NicCommand {
    /// List the interfaces and the PCI cards of this machine, and why a job cannot use one
    List,
    /// Send every frame of a bench back to where it came from
    Echo(EchoOptions),
    /// Measure round trips and rates of raw frames to an echo
    Bench(BenchOptions),
}

/// The options of an echo.
#[derive(Debug, Args)]
pub(crate) struct EchoOptions {
    /// The card
    #[arg(value_name = "CARD")]
    pub(crate) card: CardChoice,

    /// Seconds after which it ends; it goes on until it is interrupted if not given
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,
}

/// The options of a measurement.
#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// The card
    #[arg(value_name = "CARD")]
    pub(crate) card: CardChoice,

    /// A card of this machine to echo on meanwhile; without it an echo must run at the other end of
    /// the wire
    #[arg(value_name = "ECHO")]
    pub(crate) echo: Option<CardChoice>,

    /// Bytes of a frame, addresses and EtherType included: 64 to the card's MTU and 14
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub(crate) size: usize,

    /// Round trips that are measured
    #[arg(long, value_name = "COUNT", default_value = "20000")]
    pub(crate) rounds: NonZeroU32,

    /// Seconds for which the rate is measured
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// Frames that are under way while the rate is measured
    #[arg(long, value_name = "FRAMES", default_value = "32")]
    pub(crate) window: NonZeroU32,
}

/// A positive number of seconds, fractions allowed.
fn seconds(text: &str) -> Result<Duration, String> {
    parse_seconds(text).ok_or_else(|| "not a positive number of seconds".into())
}

const EXAMPLES: &str = r#"Examples:
  aldis-nic list
      every interface, whether a job can use it by `aldis-run --nic packet:IF` or `xdp:IF`, every network card on PCI
      (`pci:ADDRESS`), and if it cannot be used, what to do
  aldis-nic echo packet:eth1
  aldis-nic bench packet:eth1
      on two machines on one Ethernet: the bench finds the echo by itself
  aldis-nic bench packet:v0 packet:v1 --size 1514
      both ends on this machine, such as of a veth: ip link add v0 type veth peer name v1
  unshare -Urn sh -c 'ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up
                      aldis-nic bench packet:v0 packet:v1'
      the same without root, in a network of one's own
  sudo aldis-nic bench xdp:v0 xdp:v1
      the same by AF_XDP; it says how frames come: from the driver or behind it, with or without a copy
  aldis-nic bench memif:/run/a.sock memif:/run/b.sock
      through a switch of DPDK between two of its interfaces (docs/cards.md)
  sudo aldis-nic bench pci:0000:01:00.0 pci:0000:01:00.1
      between two ports on PCI with a cable between them, which vfio-pci has (docs/cards.md)

A round trip is a frame there and back; half of it is the latency of one. The rate counts frames that came back, each way.
Frames have EtherType 0x88B6 (local experiments), so that a bench disturbs no job on the same wire.

Exit code:
  0 when all was measured; 1 when a card cannot be used or nothing comes back; 2 for a wrong command line"#;
