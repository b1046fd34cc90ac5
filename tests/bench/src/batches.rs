//! The measured side of `cargo xtask bench`: a group of processes that lives for the whole run and
//! is driven batch by batch, so that the implementations take turns and drift of the machine hits
//! all alike.
//!
//! Each rank connects to the Unix socket it is given, says `ready RANK`, and then sleeps in a read
//! between batches: a group that is not being measured costs nothing. `go WORKLOAD TURNS BYTES
//! EACH` starts a batch of so many turns on every rank; rank 0 answers with the nanoseconds they
//! took. The end of the stream ends the process. `tests/bench/peers` has the same over MPI and
//! gloo, and the loops of programs in C; `tests/lab/src/bench/workload.rs` says what is asked of
//! whom.

use core::str::FromStr;
use core::time::Duration;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The most messages of a window.
pub const WINDOW_MAX: usize = 64;

/// The bytes of what acknowledges a window, or brings two ranks together.
pub const TOKEN_BYTES: usize = 8;

/// The work of a turn.
///
/// The sender of a long message writes it anew before every send, outside the measured time: a
/// buffer that is sent again untouched lies in the receiver's cache already, and its bandwidth
/// would be that cache's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnWork {
    /// A blocking send and receive there, and back.
    Latency,
    /// A window of freshly written messages from rank 0 to rank 1, and a token back.
    Bandwidth,
    /// Like `Bandwidth`, but both ways at once.
    Both,
    /// Like `Bandwidth`, of messages that are not written anew: the cost of a message.
    Rate,
    /// A freshly written message to rank 1, which adds up all of it and sends the sum back.
    Consume,
    /// `Consume` with the writing in the time: what loaned memory is for.
    Loaned,
    /// A freshly written message to rank 1 while both ranks compute, and a token back.
    Overlap,
    /// The computation of `Overlap` alone.
    Compute,
    /// A barrier.
    Barrier,
    /// A broadcast; the root goes round, so that none runs ahead.
    Bcast,
    /// A sum of doubles at the root, in place; the root goes round.
    Reduce,
    /// A sum of doubles on all ranks, in place.
    Allreduce,
    /// A sum of doubles up to each rank, in place; every other turn in the reversed order of ranks,
    /// so that none runs ahead.
    Scan,
    /// A sum like [`Scan`](Self::Scan)'s, of the ranks before each.
    Exscan,
    /// A block of every rank at the root, its own in place; the root goes round.
    Gather,
    /// [`Gather`](Self::Gather) in blocks of [uneven] lengths.
    Gatherv,
    /// A block of the root for every rank, its own in place; the root goes round.
    Scatter,
    /// [`Scatter`](Self::Scatter) in blocks of [uneven] lengths.
    Scatterv,
    /// A block of every rank on all, in place; every other turn in the reversed order of ranks.
    Allgather,
    /// [`Allgather`](Self::Allgather) in blocks of [uneven] lengths.
    Allgatherv,
    /// A block of every rank for every rank, which sends the next turn what it received.
    Alltoall,
    /// [`Alltoall`](Self::Alltoall) in blocks of [uneven] lengths.
    Alltoallv,
    /// Sum of doubles, a block for each rank, which puts it into its data; every other turn in the
    /// reversed order of ranks.
    ReduceScatterBlock,
    /// [`ReduceScatterBlock`](Self::ReduceScatterBlock) with the blocks' lengths listed.
    ReduceScatter,
    /// [`Alltoallv`](Self::Alltoallv) with a type for each block.
    Alltoallw,
    /// A block of every rank for both its neighbours in a ring, which send the next turn what they
    /// received.
    NeighborAllgather,
    /// [`NeighborAllgather`](Self::NeighborAllgather) in blocks of [uneven] lengths.
    NeighborAllgatherv,
    /// A block of every rank for each of its neighbours in a ring, which sends the next turn what
    /// it received.
    NeighborAlltoall,
    /// [`NeighborAlltoall`](Self::NeighborAlltoall) in blocks of [uneven] lengths, as long for
    /// both.
    NeighborAlltoallv,
    /// [`NeighborAlltoallv`](Self::NeighborAlltoallv) with a type for each block.
    NeighborAlltoallw,
}

impl TurnWork {
    /// All there are, with their names on the wire.
    pub const ALL: [(Self, &'static str); 30] = [
        (Self::Latency, "latency"),
        (Self::Bandwidth, "bandwidth"),
        (Self::Both, "bibw"),
        (Self::Rate, "rate"),
        (Self::Consume, "consume"),
        (Self::Loaned, "loaned"),
        (Self::Overlap, "overlap"),
        (Self::Compute, "compute"),
        (Self::Barrier, "barrier"),
        (Self::Bcast, "bcast"),
        (Self::Reduce, "reduce"),
        (Self::Allreduce, "allreduce"),
        (Self::Scan, "scan"),
        (Self::Exscan, "exscan"),
        (Self::Gather, "gather"),
        (Self::Gatherv, "gatherv"),
        (Self::Scatter, "scatter"),
        (Self::Scatterv, "scatterv"),
        (Self::Allgather, "allgather"),
        (Self::Allgatherv, "allgatherv"),
        (Self::Alltoall, "alltoall"),
        (Self::Alltoallv, "alltoallv"),
        (Self::ReduceScatterBlock, "reduce_scatter_block"),
        (Self::ReduceScatter, "reduce_scatter"),
        (Self::Alltoallw, "alltoallw"),
        (Self::NeighborAllgather, "neighbor_allgather"),
        (Self::NeighborAllgatherv, "neighbor_allgatherv"),
        (Self::NeighborAlltoall, "neighbor_alltoall"),
        (Self::NeighborAlltoallv, "neighbor_alltoallv"),
        (Self::NeighborAlltoallw, "neighbor_alltoallw"),
    ];
}

impl FromStr for TurnWork {
    type Err = io::Error;

    fn from_str(name: &str) -> io::Result<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(workload, _)| *workload).ok_or_else(|| io::Error::other(format!("no workload {name:?}")))
    }
}

/// The measurement that comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The work of each turn.
    pub workload: TurnWork,
    /// Turns to time.
    pub turns: u32,
    /// Bytes of each message.
    pub bytes: usize,
    /// Of each turn: messages of its window, or units of its computation.
    pub each: usize,
}

impl Batch {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let ("go", workload) = (words.next()?, words.next()?.parse().ok()?) else { return None };
        let (turns, bytes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let each = words.next()?.parse().ok()?;
        words.next().is_none().then_some(Self { workload, turns, bytes, each })
    }

    /// Turns before the clock starts: all ranks are awake and their caches warm after these.
    pub fn warm_up(&self) -> u32 {
        self.turns.div_ceil(10)
    }
}

/// The arguments of a measured program: `SOCKET CORE...`, a core for each rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The path of the socket on which xtask listens.
    pub socket: String,
    /// The core of each rank.
    pub cores: Vec<usize>,
}

impl Setup {
    /// Reads the process's own arguments, leaving out the first few.
    ///
    /// # Errors
    /// The usage line.
    pub fn from_arguments(leave_out: usize) -> io::Result<Self> {
        let words = std::env::args().skip(1 + leave_out);
        Self::parse(words).ok_or_else(|| io::Error::other("usage: SOCKET CORE0 CORE1..."))
    }

    fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let socket = words.next()?;
        let cores = words.map(|word| word.parse().ok()).collect::<Option<Vec<_>>>()?;
        (cores.len() > 1).then_some(Self { socket, cores })
    }
}

/// The connection of one rank to xtask.
#[derive(Debug)]
pub struct BenchControl {
    rank: usize,
    stream: BufReader<UnixStream>,
}

impl BenchControl {
    /// Pins this process to its core and reports for duty.
    ///
    /// # Errors
    /// The core does not exist, or no process listens at the socket.
    pub fn join(setup: &Setup, rank: usize) -> io::Result<Self> {
        let core = *setup.cores.get(rank).ok_or_else(|| io::Error::other("more ranks than cores named"))?;
        pin(core)?;
        let mut stream = UnixStream::connect(&setup.socket)?;
        writeln!(stream, "ready {rank}")?;
        Ok(Self { rank, stream: BufReader::new(stream) })
    }

    /// Sleeps until the next batch; `None` when there is no more.
    ///
    /// # Errors
    /// The stream broke, or said something that is no batch.
    pub fn next_batch(&mut self) -> io::Result<Option<Batch>> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Batch::parse(&line).map(Some).ok_or_else(|| io::Error::other(format!("not a batch: {line:?}")))
    }

    /// Runs a batch: `turn` is one turn of this rank, given its number. Rank 0 reports the time.
    ///
    /// # Errors
    /// Whatever `turn` answers, or a broken stream.
    pub fn run<E: From<io::Error>>(
        &mut self,
        batch: Batch,
        mut turn: impl FnMut(u32) -> Result<(), E>,
    ) -> Result<(), E> {
        for number in 0..batch.warm_up() {
            turn(number)?;
        }
        let start = Instant::now();
        for number in 0..batch.turns {
            turn(number)?;
        }
        self.report(start.elapsed())?;
        Ok(())
    }

    /// Like [`run`](Self::run), but for turns that return the time of their measured part.
    ///
    /// # Errors
    /// Whatever `turn` answers, or a broken stream, as of [`run`](Self::run).
    pub fn run_parts<E: From<io::Error>>(
        &mut self,
        batch: Batch,
        mut turn: impl FnMut(u32) -> Result<Duration, E>,
    ) -> Result<(), E> {
        for number in 0..batch.warm_up() {
            turn(number)?;
        }
        let mut elapsed = Duration::ZERO;
        for number in 0..batch.turns {
            elapsed += turn(number)?;
        }
        self.report(elapsed)?;
        Ok(())
    }

    fn report(&mut self, elapsed: Duration) -> io::Result<()> {
        if self.rank == 0 { writeln!(self.stream.get_mut(), "{}", elapsed.as_nanos()) } else { Ok(()) }
    }
}

/// Keeps the calling thread on one core.
///
/// # Errors
/// Why the system does not: there is no such core, or it may not be used.
pub fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// A unit of computation: about half a microsecond of arithmetic that touches no memory.
#[inline(never)]
pub fn compute(mut state: u64) -> u64 {
    for _ in 0..512 {
        // Knuth's MMIX generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    state
}

/// The bytes of the block with this number in an operation of so many bytes a block on blocks of
/// unlike lengths: half and one and a half times as many by turns.
pub const fn uneven(bytes: usize, number: usize) -> usize {
    if number.is_multiple_of(2) { bytes / 2 } else { bytes + bytes / 2 }
}

/// Returns the value of every byte of a message of turn `number`.
pub const fn mark(number: u32) -> u8 {
    number as u8 | 1
}

/// The sum of words, modulo 2^64: what the receiver of [`TurnWork::Consume`] does with a message.
pub fn sum(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0, u64::wrapping_add)
}

/// Bytes as words, the last ones left out if they are less than one.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word))
}

/// The sum of a message of so many bytes that are all `byte`.
pub fn sum_of(byte: u8, bytes: usize) -> u64 {
    u64::from_ne_bytes([byte; 8]).wrapping_mul((bytes / 8) as u64)
}

/// The one value that all bytes have, if there is one.
pub fn uniform(bytes: &[u8]) -> Option<u8> {
    let first = *bytes.first()?;
    bytes.iter().all(|&byte| byte == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_whole_or_not_at_all() {
        let batch = Batch { workload: TurnWork::Both, turns: 200, bytes: 8, each: 64 };
        assert_eq!(Batch::parse("go bibw 200 8 64\n"), Some(batch));
        for bad in
            ["", "go", "go rate 1 2", "go rate 1 2 3 4", "stop rate 1 2 3", "go rate -1 8 1", "go x 1 8 1"]
        {
            assert_eq!(Batch::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn workloads_have_names_of_their_own() {
        for (workload, name) in TurnWork::ALL {
            assert_eq!(name.parse::<TurnWork>().unwrap(), workload);
        }
    }

    #[test]
    fn a_setup_needs_a_socket_and_two_cores() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>().into_iter();
        assert_eq!(Setup::parse(words("s 0 1")), Some(Setup { socket: "s".into(), cores: vec![0, 1] }));
        assert_eq!(Setup::parse(words("s 0")), None);
        assert_eq!(Setup::parse(words("s a b")), None);
    }

    #[test]
    fn the_sum_of_a_message_is_that_of_its_words() {
        assert_eq!(sum(words(&[3; 43])), sum_of(3, 43));
        assert_eq!(sum_of(1, 16), 2 * 0x0101_0101_0101_0101);
    }

    #[test]
    fn bytes_of_one_value_are_told_from_others() {
        assert_eq!(uniform(&[3, 3, 3]), Some(3));
        assert_eq!(uniform(&[3, 3, 4]), None);
        assert_eq!(uniform(&[]), None);
    }
}
