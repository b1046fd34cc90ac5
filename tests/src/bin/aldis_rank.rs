//! `aldis-rank FOLDER aldis.rank=R aldis.size=N ...`: a Linux process as a rank on the switch,
//! beside firmware in emulators.
//!
//! It takes the same words as an image on its kernel command line, runs the same programs, and
//! stands on the switch of FOLDER as member R. Its last line is the verdict, its exit code 0 or 1.

use core::fmt::{self, Write};
use core::time::Duration;
use std::path::Path;
use std::process::ExitCode;

use aldis_drivers::authenticated::{self, AuthKey, AuthenticatedNic};
use aldis_drivers::discovery::{Discovery, DiscoverySetup, Entry};
use aldis_drivers::ethernet::{self, Ethernet, EthernetStorage, Framing, Udp};
use aldis_hal::nic::Mac;
use aldis_hal::{Cost, Epoch, PeerId, Platform};
use aldis_kernel::{Config, Endpoint};
use aldis_linux::HostPlatform;
use aldis_linux::platform::Patience;
use aldis_nic::SocketNic;
use aldis_programs::{self as programs, Link, MESSAGE_BYTES, Options, WINDOW};
use aldis_protocols::Card;
use aldis_protocols::card::CARD_BYTES_MAX;

/// Ranks of the largest job.
const RANKS_MAX: usize = 16;
/// The bytes that a frame holds.
const MTU: usize = 1500;
const _: () = assert!(
    MESSAGE_BYTES + Framing::Udp(Udp::of_rank(0)).mtu_overhead_bytes() + authenticated::TAG_BYTES <= MTU
);
/// The cost of a message through two sockets and the switch; protocols are selected by it.
const COST: Cost = Cost { overhead_ns: 5_000, latency_ns: 30_000, per_kib_ns: 2_000 };
/// The time that the ranks may take to find each other: emulators boot slowly on busy cores.
const SEARCH_NS: u64 = 60_000_000_000;

aldis_kernel::storage! {
    static STORAGE: peers = 16, requests = 64, communicators = 8,
        envelopes = 32, blocks = 16, block_bytes = 1024, pooled = 2, bins = 64
}

type Rank =
    Endpoint<'static, Ethernet<'static, Discovery<'static, AuthenticatedNic<SocketNic>>>, HostPlatform>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((folder, words)) = words.split_first().filter(|(folder, _)| !folder.contains("aldis.")) else {
        eprintln!(
            "usage: aldis-rank FOLDER aldis.rank=0 aldis.size=2 aldis.program=pingpong aldis.link=nic ..."
        );
        return ExitCode::from(2);
    };
    let mut console = Console::default();
    let good = match prepare(Path::new(folder), &words.join(" ")) {
        Ok((mut rank, options)) => {
            let result = programs::run(options.program, &mut rank, &options.parameters, &mut console);
            console.show(&format!("frames: {}", rank.transport().counters()));
            let forged = rank.transport().nic().nic().forged();
            if forged > 0 {
                console.show(&format!("info: {forged} frames without the job's key"));
            }
            result.is_ok()
        }
        Err(why) => {
            programs::refuse(&why, &mut console);
            false
        }
    };
    console.conclude();
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Joins the job of the command line. Errors are told, not handled: they are texts.
fn prepare(folder: &Path, line: &str) -> Result<(Rank, Options), String> {
    let options = Options::parse(line).map_err(|error| error.to_string())?;
    if !matches!(options.link, Link::Nic | Link::VirtioNet) {
        return Err(format!(
            "a Linux process has no aldis.link={}; it stands on the switch by `nic`",
            options.link
        ));
    }
    if options.size as usize > RANKS_MAX {
        return Err(format!("aldis.size={} and there is room for {RANKS_MAX}", options.size));
    }
    let nic =
        SocketNic::plug(folder, options.rank, mac(options.rank), MTU).map_err(|error| error.to_string())?;
    let mut rank = assemble(nic, &options).map_err(|error| error.to_string())?;
    find_the_others(&mut rank).map_err(|error| error.to_string())?;
    Ok((rank, options))
}

/// The address that a rank's card has by agreement.
fn mac(rank: u32) -> Mac {
    let [_, _, high, low] = rank.to_be_bytes();
    Mac([0x02, 0xA1, 0xD1, 0, high, low])
}

fn assemble(nic: SocketNic, options: &Options) -> Result<Rank, Box<dyn core::error::Error>> {
    let mut platform = HostPlatform::unwatched(Patience::SHARED);
    let (me, epoch) = (PeerId(options.rank), Epoch((platform.entropy() as u32).max(1)));
    let (job, size) = (options.job, options.size);
    let setup =
        DiscoverySetup { job, rank: me.0, size, epoch, deadline_ns: SEARCH_NS, ..DiscoverySetup::DEFAULT };
    let entries = Box::leak(vec![Entry::EMPTY; size as usize].into_boxed_slice());
    let framing = match options.framing {
        programs::Framing::Ethernet => Framing::Ethernet,
        programs::Framing::Udp => Framing::Udp(Udp::of_rank(me.0)),
    };
    let nic = AuthenticatedNic::new(nic, options.key.map(AuthKey::new));
    let discovery = Discovery::new(nic, setup, entries)?.framed(framing)?;
    let memory =
        Box::leak(Box::new(EthernetStorage::<{ RANKS_MAX - 1 }, WINDOW, MESSAGE_BYTES>::new())).memory();
    let config = ethernet::Config { framing, ..ethernet::Config::new(me, epoch, job, COST) };
    let ethernet = Ethernet::new(discovery, memory, config)?;
    let memory = STORAGE.take().ok_or("the storage is taken")?;
    Ok(Endpoint::new(memory, ethernet, platform, Config { me, size, epoch })?)
}

/// Announces this rank and connects to all others.
fn find_the_others(rank: &mut Rank) -> Result<(), Box<dyn core::error::Error>> {
    let clock = HostPlatform::unwatched(Patience::SHARED);
    let mut card = rank.card();
    card.address
        .extend_from_slice(&rank.transport().address())
        .map_err(|_| "the address does not fit a card")?;
    let mut buffer = [0; CARD_BYTES_MAX];
    let card = card.encode(&mut buffer)?;
    rank.transport_mut().nic_mut().announce(card, clock.now())?;
    while !rank.transport_mut().nic_mut().poll(clock.now())? {
        std::thread::sleep(Duration::from_micros(200));
    }
    while let Some(peer) = rank.transport_mut().nic_mut().news() {
        if let Some(card) = rank.transport().nic().card(peer).map(Card::decode) {
            rank.connect(&card?)?;
        }
    }
    Ok(())
}

/// Standard output, line by line, which keeps the verdict for the end: what the transport has
/// counted is known only when the program is over.
#[derive(Debug, Default)]
struct Console {
    line: String,
    verdict: Option<String>,
}

impl Console {
    fn show(&mut self, line: &str) {
        println!("{line}");
    }

    fn conclude(self) {
        println!("{}", self.verdict.unwrap_or_default());
    }
}

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece);
            if let Some(line) = self.line.strip_suffix('\n') {
                if line.starts_with("verdict: ") {
                    self.verdict = Some(line.to_owned());
                } else {
                    println!("{line}");
                }
                self.line.clear();
            }
        }
        Ok(())
    }
}
