//! The measured side of `cargo xtask bench`: a pair of processes that lives for the whole run and is driven batch
//! by batch, so that the implementations take turns and drift of the machine hits all alike.
//!
//! Each rank connects to the Unix socket it is given, says `ready RANK`, and then sleeps in a read between
//! batches: a pair that is not being measured costs nothing. `go N BYTES` starts a batch of `N` round trips on
//! both ranks; rank 0 answers with the nanoseconds they took. The end of the stream ends the process.
//! `xtask/peers/latency.c` is the same program over MPI.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Round trips before the clock starts: both ranks are awake and their caches warm after these.
pub const WARM_UP: u32 = 20;

/// What is to be measured next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Round trips to time.
    pub round_trips: u32,
    /// Bytes of each message.
    pub bytes: usize,
}

impl Batch {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (Some("go"), Some(round_trips), Some(bytes), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return None;
        };
        Some(Self { round_trips: round_trips.parse().ok()?, bytes: bytes.parse().ok()? })
    }
}

/// The arguments of a measured program: `SOCKET CORE0 CORE1`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Where xtask listens.
    pub socket: String,
    /// The core of each rank.
    pub cores: [usize; 2],
}

impl Setup {
    /// Reads the process's own arguments.
    ///
    /// # Errors
    /// The usage line.
    pub fn from_arguments() -> io::Result<Self> {
        Self::parse(std::env::args().skip(1)).ok_or_else(|| io::Error::other("usage: SOCKET CORE0 CORE1"))
    }

    fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let socket = words.next()?;
        let cores = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
        Some(Self { socket, cores })
    }
}

/// One rank's line to xtask.
#[derive(Debug)]
pub struct Control {
    rank: usize,
    stream: BufReader<UnixStream>,
}

impl Control {
    /// Pins this process to its core and reports for duty.
    ///
    /// # Errors
    /// The core does not exist, or nobody listens at the socket.
    pub fn join(setup: &Setup, rank: usize) -> io::Result<Self> {
        let core = *setup.cores.get(rank).ok_or_else(|| io::Error::other("a pair has ranks 0 and 1"))?;
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

    /// Runs a batch: `turn` is one round trip of this rank, given its number. Rank 0 reports the time.
    ///
    /// # Errors
    /// Whatever `turn` answers, or a broken stream.
    pub fn run<E: From<io::Error>>(
        &mut self,
        batch: Batch,
        mut turn: impl FnMut(u32) -> Result<(), E>,
    ) -> Result<(), E> {
        for number in 0..WARM_UP {
            turn(number)?;
        }
        let start = Instant::now();
        for number in 0..batch.round_trips {
            turn(number)?;
        }
        let elapsed = start.elapsed().as_nanos();
        if self.rank == 0 {
            writeln!(self.stream.get_mut(), "{elapsed}")?;
        }
        Ok(())
    }
}

/// Keeps the calling thread on one core.
fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_whole_or_not_at_all() {
        assert_eq!(Batch::parse("go 200 8\n"), Some(Batch { round_trips: 200, bytes: 8 }));
        for bad in ["", "go", "go 1", "go 1 2 3", "stop 1 2", "go -1 8", "go 1 x"] {
            assert_eq!(Batch::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_setup_needs_a_socket_and_two_cores() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>().into_iter();
        assert_eq!(Setup::parse(words("s 0 1")), Some(Setup { socket: "s".into(), cores: [0, 1] }));
        assert_eq!(Setup::parse(words("s 0")), None);
        assert_eq!(Setup::parse(words("s a b")), None);
    }
}
