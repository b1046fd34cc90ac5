//! A rank of a job of two that exchanges typed data with its peer, which runs on another kind of
//! machine: with the other byte order, or with words of another width. `cargo xtask endian` starts
//! one natively and one under emulation.
//!
//! ```text
//! aldis-endian RANK FOLDER
//! ```
//!
//! The two are on the ends of one cable of datagram sockets in FOLDER, where each also leaves its
//! card for the other. What is sent is what the type map says of each kind of data, element by
//! element ([`data`]); what is received is compared with it. The last line is the verdict, with a
//! digest of all values, which both must have.

use core::error::Error;
use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aldis_drivers::ethernet::{self, Ethernet, EthernetStorage, MTU_OVERHEAD_BYTES};
use aldis_hal::nic::Mac;
use aldis_hal::{Cost, Epoch, PeerId};
use aldis_kernel::datatype::TypeTable;
use aldis_kernel::protocols::card::{ByteOrder, Card, WordWidth};
use aldis_kernel::{Config, Endpoint, storage_type};
use aldis_nic::SocketNic;

use self::clock::Clock;

mod clock;
mod data;
mod exchange;

/// The longest message in a frame of an MTU of 1500.
const MESSAGE_BYTES: usize = 1464;
/// The job whose frames are ours.
const JOB: u64 = 0xE4D1_A400;
/// The time that anything may take: an emulated machine on a busy host is slow.
const LIMIT: Duration = Duration::from_secs(60);

/// The endpoint of this program.
type Rank = Endpoint<'static, Ethernet<'static, SocketNic>, Clock>;

fn main() -> ExitCode {
    match run() {
        Ok(facts) => {
            println!("verdict: OK endian {facts}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("verdict: FAILED {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rank, folder] = &arguments[..] else { return Err("usage: aldis-endian RANK FOLDER".into()) };
    let (rank, folder) = (rank.parse::<u32>()?, PathBuf::from(folder));
    if rank > 1 {
        return Err("there are two ranks, 0 and 1".into());
    }
    let (mut endpoint, theirs) = join(rank, &folder)?;
    let facts = exchange::run(&mut endpoint, theirs)?;
    endpoint.leave(LIMIT)?;
    let (order, words) = (ByteOrder::NATIVE, WordWidth::NATIVE);
    Ok(format!("rank={rank} order={order:?} words={words:?} {facts}"))
}

/// The endpoint of this rank, which knows its peer, and the width of the peer's words.
fn join(rank: u32, folder: &Path) -> Result<(Rank, WordWidth), Box<dyn Error>> {
    type Kernel = storage_type!(2, 8, 2, 8, 4, 1024, 0, 16);
    let (me, epoch) = (PeerId(rank), Epoch(std::process::id()));
    let mac = Mac([2, 0xA1, 0xD1, 0, 0, rank as u8]);
    let nic = SocketNic::plug(folder, rank, mac, MESSAGE_BYTES + MTU_OVERHEAD_BYTES)?;
    let storage = Box::leak(Box::new(EthernetStorage::<1, 16, MESSAGE_BYTES>::new()));
    let cost = Cost { overhead_ns: 5_000, latency_ns: 50_000, per_kib_ns: 5_000 };
    let transport = Ethernet::new(nic, storage.memory(), ethernet::Config::new(me, epoch, JOB, cost))?;
    let memory = Box::leak(Box::new(Kernel::new())).memory();
    let mut endpoint = Endpoint::new(memory, transport, Clock::start(), Config { me, size: 2, epoch })?;
    endpoint.attach_types(Box::leak(Box::new(TypeTable::<16, 512>::new())).types())?;

    let mut card = endpoint.card();
    card.address.extend_from_slice(&endpoint.transport().address()).map_err(|_| "an address is too long")?;
    let mut buffer = [0; aldis_kernel::protocols::card::CARD_BYTES_MAX];
    leave_card(folder, rank, card.encode(&mut buffer)?)?;
    let card = Card::decode(&find_card(folder, 1 - rank)?)?;
    endpoint.connect(&card)?;
    Ok((endpoint, card.words))
}

fn card_path(folder: &Path, rank: u32) -> PathBuf {
    folder.join(format!("card{rank}"))
}

/// Puts this rank's card where the other looks for it, all of it at once.
fn leave_card(folder: &Path, rank: u32, bytes: &[u8]) -> std::io::Result<()> {
    let half = folder.join(format!("half{rank}"));
    fs::write(&half, bytes)?;
    fs::rename(half, card_path(folder, rank))
}

/// The other rank's card, once it is there.
fn find_card(folder: &Path, rank: u32) -> Result<Vec<u8>, String> {
    let start = std::time::Instant::now();
    while start.elapsed() < LIMIT {
        if let Ok(bytes) = fs::read(card_path(folder, rank)) {
            return Ok(bytes);
        }
        std::thread::yield_now();
    }
    Err(format!("rank {rank} has left no card within {} s", LIMIT.as_secs()))
}
