//! The command line of `cargo xtask qemu`.

use core::time::Duration;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};

use super::job::{Job, Wire};
use super::machine::Arch;
use super::{check, demo};

/// Ranks as firmware in emulators and as Linux processes, one job, joined by a switch
#[derive(Subcommand)]
#[allow(missing_docs, reason = "each is the command of its name, whose arguments hold the help text")]
pub enum QemuCommand {
    Run(QemuRun),
    Mixed(Mixed),
    Demo(demo::Demo),
    Check(check::Check),
}

impl QemuCommand {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Run(run) => run.job()?.show(run.options.json),
            Self::Mixed(mixed) => mixed.job()?.show(mixed.options.json),
            Self::Demo(demo) => demo.run(),
            Self::Check(check) => check.run(),
        }
    }
}

/// Runs a job whose ranks all have one architecture.
///
/// Builds the firmware, starts a switch and an emulator for each rank, shows what the ranks say,
/// and checks every verdict, every exit code, and that results are bit for bit those of Linux
/// processes. Everything is ended and removed at the end, also on Ctrl-C.
#[derive(Args)]
#[command(after_long_help = RUN_EXAMPLES)]
pub struct QemuRun {
    /// Architecture that the ranks run on; `host` is Linux processes, without any emulator
    #[arg(long, value_enum)]
    arch: Arch,
    /// Ranks of the job
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    ranks: u32,
    /// Ranks that are cores of one board, each with a queue of the board's card
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4))]
    cores: u32,
    #[command(flatten)]
    options: Options,
}

const RUN_EXAMPLES: &str = "\
Examples:
  cargo xtask qemu run --arch x86_64 --program pingpong
      two boards play ping-pong over virtio-net
  cargo xtask qemu run --arch aarch64 --ranks 4 --program heat --loss 5 --duplicate 5 --reorder 10
      four boards on a bad wire; the result is that of a good one, bit for bit
  cargo xtask qemu run --arch riscv64 --program collectives --pcap /tmp/job.pcap; tshark -r /tmp/job.pcap
      what went over the wire
  cargo xtask qemu run --arch host --ranks 4 --program flood --malformed 20
      Linux processes on the same switch; no emulator needed
  cargo xtask qemu run --arch x86_64 --framing udp --pcap /tmp/job.pcap
      messages in UDP datagrams, as on a network that passes nothing but IP
  cargo xtask qemu run --arch aarch64 --link e1000e --program heat
      two boards with gigabit controllers of Intel's
  cargo xtask qemu run --arch riscv64 --ranks 4 --link cores --program heat
      one board, each of whose four cores is a rank
  cargo xtask qemu run --arch x86_64 --ranks 4 --cores 2 --link e1000e --framing udp --program heat
      two boards of two cores, each of which is a rank on a queue of its own of the board's card
  cargo xtask qemu run --arch aarch64 --program sharing --sharing 3
      two boards, each of whose three cores send and receive by its one endpoint
  cargo xtask qemu run --arch cortex-m --link serial --program pingpong --count 10
      two microcontrollers on a serial line

Programs: pingpong, heat (halo exchange; digest of the field), collectives (barrier, bcast, allreduce, gatherv,
alltoallw, reduce_scatter), flood, sharing (cores of each board by its one endpoint).
Emulators: apt-get install qemu-system-x86 qemu-system-arm qemu-system-misc";

/// Runs one job on Linux processes and on firmware of several architectures.
///
/// Ranks are numbered in this order: the Linux processes, then the guests as they are named.
#[derive(Args)]
#[command(after_long_help = MIXED_EXAMPLES)]
pub struct Mixed {
    /// Ranks that are Linux processes
    #[arg(long, default_value_t = 2)]
    host: u32,
    /// Ranks that are firmware: an architecture and how many of it
    #[arg(long = "guest", value_name = "ARCH=N", default_values = ["aarch64=1", "riscv64=1"])]
    guests: Vec<Guests>,
    #[command(flatten)]
    options: Options,
}

const MIXED_EXAMPLES: &str = "\
Examples:
  cargo xtask qemu mixed --program heat
      two Linux processes, an aarch64 board and a riscv64 board: one communicator, one result
  cargo xtask qemu mixed --host 1 --guest aarch64-c=1 --guest riscv64=1 --program heat
      a Linux process, a board whose rank is in C by aldis.h, and a board in Rust
  cargo xtask qemu mixed --host 1 --guest arceos=1 --guest riscv64=1 --program collectives
      a Linux process, a rank in the unikernel ArceOS, and a board
  cargo xtask qemu mixed --host 1 --guest x86_64=2 --guest aarch64=1 --program collectives --loss 3";

impl QemuRun {
    pub(super) fn job(&self) -> Result<Job> {
        let (ranks, cores) = match self.options.link {
            EmulatorLink::Cores => (1, self.ranks),
            _ => (self.ranks / self.cores, self.cores),
        };
        if ranks * cores != self.ranks {
            bail!("{} ranks are no whole number of boards with {cores} cores", self.ranks);
        }
        let boards = vec![self.arch; ranks as usize];
        Ok(Job { cores: cores as usize, ..self.options.job(boards, "run") })
    }
}

impl Mixed {
    pub(super) fn job(&self) -> Result<Job> {
        if self.options.link == EmulatorLink::Cores {
            bail!("the cores of a board are one machine: cargo xtask qemu run --link cores");
        }
        Ok(self.options.job(self.members()?, "mixed"))
    }

    fn members(&self) -> Result<Vec<Arch>> {
        let mut members = vec![Arch::Host; self.host as usize];
        for guests in &self.guests {
            members.extend(vec![guests.arch; guests.count]);
        }
        if members.is_empty() || members.len() > 16 {
            bail!("{} ranks; a job has 1 to 16", members.len());
        }
        Ok(members)
    }
}

/// So many ranks of one architecture.
#[derive(Clone)]
struct Guests {
    arch: Arch,
    count: usize,
}

impl core::str::FromStr for Guests {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, count) = text.split_once('=').unwrap_or((text, "1"));
        let arch = Arch::from_str(name, false)
            .map_err(|_| format!("no architecture is called {name:?}; known: {}", Arch::names()))?;
        let count = count.parse().map_err(|_| format!("{count:?} is not a number of ranks"))?;
        Ok(Self { arch, count })
    }
}

/// The link that joins emulators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum EmulatorLink {
    /// Ethernet frames through a virtio network device and the switch
    VirtioNet,
    /// Ethernet frames through Intel's 82574L and the switch
    E1000e,
    /// Ethernet frames through Intel's older 82540EM and the switch
    E1000,
    /// Memory of a PCI device that all ranks share; no switch and no faults
    Ivshmem,
    /// Ethernet frames on a serial line to the switch
    Serial,
    /// Memory of one board, whose cores are the ranks; no switch and no faults
    Cores,
}

/// The framing of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Framing {
    /// Frames with an EtherType of its own
    Ethernet,
    /// UDP datagrams over IPv4, with fixed port and addresses and no ARP
    Udp,
}

/// The options of all jobs.
#[derive(Args, Clone)]
pub(crate) struct Options {
    /// Link that joins the ranks; Linux processes stand on the switch
    #[arg(long, value_enum, default_value_t = EmulatorLink::VirtioNet)]
    pub(super) link: EmulatorLink,
    /// Framing of messages; shared memory has no frames
    #[arg(long, value_enum, default_value_t = Framing::Ethernet)]
    pub(super) framing: Framing,
    /// Key of 32 hexadecimal digits by which frames are authenticated; what lacks it is refused
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<String>,
    /// Program that the ranks run: pingpong, heat, collectives, flood or sharing
    #[arg(long, default_value = "pingpong")]
    pub(super) program: String,
    /// Number of rounds; the program's own number if left out
    #[arg(long)]
    pub(super) count: Option<u32>,
    /// Cores of each board that are one rank and share its endpoint, in the program sharing
    #[arg(long, value_name = "CORES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4))]
    pub(super) sharing: u32,
    #[command(flatten)]
    pub(super) wire: FramePercentages,
    /// Write what the members were given to a file for `tshark -r`
    #[arg(long, value_name = "FILE")]
    pub(super) pcap: Option<PathBuf>,
    /// End the job after so many seconds and say who is missing
    #[arg(long, default_value_t = 60)]
    pub(super) deadline: u64,
    /// Print one object; what the ranks say goes to standard error
    #[arg(long)]
    pub(super) json: bool,
}

/// Percentages of the frames to each member.
#[derive(Args, Clone, Default)]
pub(crate) struct FramePercentages {
    /// Percentage of frames that vanish
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    pub(super) loss: f64,
    /// Percentage that others overtake
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    pub(super) reorder: f64,
    /// Percentage that come twice
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    pub(super) duplicate: f64,
    /// Percentage that are late by up to 2 ms
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    pub(super) delay: f64,
    /// Percentage that have bytes changed
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    pub(super) corrupt: f64,
    /// Malformed frames put among the others: fuzzed headers, truncated, giant, of wrong epochs
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    pub(super) malformed: f64,
    /// Seed that the faults are drawn from
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
}

impl FramePercentages {
    /// The percentages, by the names that the switch knows them by.
    pub(super) const fn rates(&self) -> [(&'static str, f64); 6] {
        [
            ("--loss", self.loss),
            ("--reorder", self.reorder),
            ("--duplicate", self.duplicate),
            ("--delay", self.delay),
            ("--corrupt", self.corrupt),
            ("--malformed", self.malformed),
        ]
    }

    /// Returns true if the wire is a good one.
    pub(super) fn are_none(&self) -> bool {
        self.rates().iter().all(|(_, percent)| *percent == 0.0)
    }
}

impl Options {
    /// The job of these members.
    pub(super) fn job(&self, members: Vec<Arch>, name: &str) -> Job {
        Job {
            name: name.into(),
            members,
            cores: 1,
            link: self.link,
            framing: self.framing,
            key: self.key.clone(),
            program: self.program.clone(),
            count: self.count,
            sharing: self.sharing,
            wire: Wire { faults: self.wire.clone(), pcap: self.pcap.clone() },
            deadline: Duration::from_secs(self.deadline),
            quiet: self.json,
            silent: false,
        }
    }
}
