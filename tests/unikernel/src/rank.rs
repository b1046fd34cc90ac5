//! From the card to an endpoint that is connected to all others, and its program.

use core::fmt::{self, Write};
use core::time::Duration;

use aldis_drivers::adapters::{ArceosDriver, ForeignNic};
use aldis_drivers::authenticated::{AuthKey, AuthenticatedNic};
use aldis_drivers::discovery::{Discovery, DiscoverySetup, Entry, Overdue};
use aldis_drivers::ethernet::{self, Ethernet, EthernetStorage, Framing, Udp};
use aldis_drivers::loopback::Loopback;
use aldis_hal::nic::MAC_HEADER_BYTES;
use aldis_hal::{Cause, Cost, Epoch, PeerId, Platform};
use aldis_kernel::{Composite, Config, Endpoint, Error};
use aldis_programs::{Framing as Named, Link, MESSAGE_BYTES, OptionError, Options, WINDOW};
use aldis_programs::{ProgramFailure, give_verdict, refuse, run_to_end};
use aldis_protocols::Card;
use aldis_protocols::card::CARD_BYTES_MAX;
use axdriver::AxNetDevice;
use spin::mutex::{SpinMutex, SpinMutexGuard};

use crate::machine;
use crate::platform::{ArceosClock, ArceosConsole};

/// Ranks of the largest job.
const RANKS: usize = 8;
/// Messages of a rank to itself under way, and bytes of the longest.
const FRAMES: usize = 8;
const FRAME_BYTES: u32 = 1096;
/// Bytes of the card's longest frame.
const CARD_FRAME: usize = 1500 + MAC_HEADER_BYTES;
/// The time that the ranks may take to find each other.
const SEARCH: Duration = Duration::from_secs(60);

/// The kernel's tables: 64 requests, 16 envelopes and 4 blocks of 1 KiB for each rank.
type RankStorage = aldis_kernel::storage_type!(RANKS, 64, 8, 16, 4, 1024, 4, 64);

static STORAGE: RankStorage = RankStorage::new();
/// The memory that a rank works in besides, each taken once.
static LINE: SpinMutex<[u8; machine::LINE_BYTES]> = SpinMutex::new([0; machine::LINE_BYTES]);
static LOOPBACK: SpinMutex<[u8; FRAMES * (FRAME_BYTES as usize + 16)]> =
    SpinMutex::new([0; FRAMES * (FRAME_BYTES as usize + 16)]);
static ENTRIES: SpinMutex<[Entry; RANKS]> = SpinMutex::new([Entry::EMPTY; RANKS]);
static RINGS: SpinMutex<EthernetStorage<{ RANKS - 1 }, WINDOW, MESSAGE_BYTES>> =
    SpinMutex::new(EthernetStorage::new());
static CARD_BUFFERS: SpinMutex<[[u8; CARD_FRAME]; 2]> = SpinMutex::new([[0; CARD_FRAME]; 2]);

/// The card of ArceOS.
type UnikernelNic = ForeignNic<'static, ArceosDriver<AxNetDevice>>;
/// The ways of messages: to itself, and to others.
type UnikernelWire =
    Composite<Loopback<'static>, Ethernet<'static, Discovery<'static, AuthenticatedNic<UnikernelNic>>>>;
type UnikernelEndpoint = Endpoint<'static, UnikernelWire, ArceosClock>;

/// The reason why a rank does not come to run its program.
enum JoinFailure {
    Options(OptionError<'static>),
    Missing(&'static str),
    Refused(Cause),
    Kernel(Error),
    Overdue(Overdue),
    Output(fmt::Error),
}

impl fmt::Display for JoinFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(error) => error.fmt(f),
            Self::Missing(what) => write!(f, "this machine has no {what}"),
            Self::Refused(cause) => cause.fmt(f),
            Self::Kernel(error) => error.fmt(f),
            Self::Overdue(report) => report.fmt(f),
            Self::Output(error) => error.fmt(f),
        }
    }
}

impl From<Cause> for JoinFailure {
    fn from(cause: Cause) -> Self {
        Self::Refused(cause)
    }
}

impl From<Error> for JoinFailure {
    fn from(error: Error) -> Self {
        Self::Kernel(error)
    }
}

impl From<Overdue> for JoinFailure {
    fn from(report: Overdue) -> Self {
        Self::Overdue(report)
    }
}

impl From<fmt::Error> for JoinFailure {
    fn from(error: fmt::Error) -> Self {
        Self::Output(error)
    }
}

/// Joins the job of the command line and runs its program. Returns true if that went well; the
/// console has told so, or why not.
pub(crate) fn main() -> bool {
    match play() {
        Ok(ended) => ended.is_ok(),
        Err(trouble) => {
            refuse(&trouble, &mut ArceosConsole);
            false
        }
    }
}

fn play() -> Result<Result<(), ProgramFailure>, JoinFailure> {
    let line = machine::command_line(taken(&LINE)?).ok_or(JoinFailure::Missing("command line"))?;
    let options = Options::parse(line).map_err(JoinFailure::Options)?;
    if !matches!(options.link, Link::VirtioNet | Link::Loopback) {
        return Err(JoinFailure::Missing("way to other ranks but a virtio card"));
    }
    let driver = axdriver::init_drivers().net.take_one().ok_or(JoinFailure::Missing("network card"))?;
    let [received, transmit] = taken(&CARD_BUFFERS)?;
    let nic = ForeignNic::new(ArceosDriver::new(driver), received, transmit)?;
    let mut endpoint = join(&options, nic)?;
    let ended = run_to_end(options.program, &mut endpoint, &options.parameters, &mut ArceosConsole);
    tell(&endpoint)?;
    Ok(give_verdict(options.program, ended, &mut ArceosConsole))
}

/// The endpoint of this rank on its card, connected to all others.
fn join(options: &Options, nic: UnikernelNic) -> Result<UnikernelEndpoint, JoinFailure> {
    let mut clock = ArceosClock::new();
    let (me, epoch) = (PeerId(options.rank), Epoch::from_entropy(clock.entropy()));
    let Options { job, rank, size, .. } = *options;
    let entries = taken(&ENTRIES)?;
    let too_many = Cause::TooBig { len: size.into(), max: entries.len() as u64 };
    let entries = entries.get_mut(..size as usize).ok_or(too_many)?;
    let framing = match options.framing {
        Named::Ethernet => Framing::Ethernet,
        Named::Udp => Framing::Udp(Udp::of_rank(rank)),
    };
    let deadline_ns = SEARCH.as_nanos() as u64;
    let setup = DiscoverySetup { job, rank, size, epoch, deadline_ns, ..DiscoverySetup::DEFAULT };
    let nic = AuthenticatedNic::new(nic, options.key.map(AuthKey::new));
    let discovery = Discovery::new(nic, setup, entries)?.framed(framing)?;
    let cost = Cost { overhead_ns: 5_000, latency_ns: 30_000, per_kib_ns: 2_000 };
    let config = ethernet::Config { framing, ..ethernet::Config::new(me, epoch, job, cost) };
    let frames = Ethernet::new(discovery, taken(&RINGS)?.memory(), config)?;
    let itself = Loopback::new(me, taken(&LOOPBACK)?, FRAME_BYTES)?;
    let memory = STORAGE.take().ok_or(JoinFailure::Missing("memory for a second job"))?;
    writeln!(ArceosConsole, "info: epoch {:08x}", epoch.0)?;
    let config = Config { me, size, epoch };
    let mut endpoint = Endpoint::new(memory, Composite::new(itself, frames), clock, config)?;
    find_the_others(&mut endpoint)?;
    Ok(endpoint)
}

/// Announces this rank, and connects to those that it finds.
fn find_the_others(endpoint: &mut UnikernelEndpoint) -> Result<(), JoinFailure> {
    let mut card = endpoint.card();
    let address = endpoint.transport().second().address();
    let too_long = Cause::TooBig { len: address.len() as u64, max: card.address.capacity() as u64 };
    card.address.extend_from_slice(&address).map_err(|_| too_long)?;
    let mut buffer = [0; CARD_BYTES_MAX];
    let card = card.encode(&mut buffer)?;
    let now = endpoint.platform().now();
    endpoint.transport_mut().second_mut().nic_mut().announce(card, now)?;
    loop {
        let now = endpoint.platform().now();
        if endpoint.transport_mut().second_mut().nic_mut().poll(now)? {
            break;
        }
        core::hint::spin_loop();
    }
    while let Some(peer) = endpoint.transport_mut().second_mut().nic_mut().news() {
        if let Some(card) = endpoint.transport().second().nic().card(peer).map(Card::decode) {
            endpoint.connect(&card?)?;
        }
    }
    Ok(())
}

/// Tells what the frames' transport and the card's driver have counted.
fn tell(endpoint: &UnikernelEndpoint) -> fmt::Result {
    let frames = endpoint.transport().second();
    writeln!(ArceosConsole, "frames: {}", frames.counters())?;
    let card = frames.nic().nic();
    if card.forged() > 0 {
        writeln!(ArceosConsole, "info: {} frames without the job's key", card.forged())?;
    }
    let driver = card.nic().device();
    match driver.last_error() {
        Some(error) => {
            writeln!(ArceosConsole, "info: {} errors of the card, the last: {error}", driver.errors())
        }
        None => Ok(()),
    }
}

/// A static value, once.
fn taken<T>(of: &'static SpinMutex<T>) -> Result<&'static mut T, JoinFailure> {
    of.try_lock().map(SpinMutexGuard::leak).ok_or(JoinFailure::Missing("memory for a second job"))
}
