//! The calibrators of `cargo xtask bench`: what the machine alone needs, without a protocol,
//! matching or credits. Nothing that is also a message-passing library can be faster on the same
//! two cores.
//!
//! | medium | latency, rate | bandwidth | consume |
//! |---|---|---|---|
//! | `shm` | one cache line a message | a `memcpy` of the other rank's memory | its sum, in place |
//! | `tcp` | non-blocking socket over loopback | the same, as a stream | - |
//!
//! The other rank has just written that memory.
//!
//! `cores CORE0 CORE1` says whether the two share a physical core.

mod cores;
mod shared;
mod shm;
mod tcp;

use core::error::Error;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use aldis_bench::batches::{Batch, BenchControl, Setup};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Set for the second process, which is this program again.
const SECOND: &str = "ALDIS_BENCH_RAW_SECOND";

fn main() -> Outcome<()> {
    let medium = std::env::args().nth(1).ok_or("usage: shm|tcp SOCKET CORE0 CORE1; or cores CORE0 CORE1")?;
    if medium == "cores" {
        let cores: Result<Vec<usize>, _> = std::env::args().skip(2).map(|core| core.parse()).collect();
        return cores::print(cores?.try_into().map_err(|_| "usage: cores CORE0 CORE1")?);
    }
    let setup = Setup::from_arguments(1)?;
    // A rank spins while it waits: it must not outlive the process it waits for.
    set_pdeathsig(Signal::SIGKILL)?;
    let inherited =
        std::env::var_os(SECOND).map(|_| std::io::stdin().as_fd().try_clone_to_owned()).transpose()?;
    match medium.as_str() {
        "shm" => shm::play(&setup, inherited),
        "tcp" => tcp::play(&setup, inherited),
        other => Err(format!("{other:?} is neither shm nor tcp").into()),
    }
}

/// Starts the second process with what the two share as its standard input.
fn start_second(shared: OwnedFd) -> Outcome<Child> {
    let mut second = Command::new(std::env::current_exe()?);
    second.args(std::env::args().skip(1)).env(SECOND, "1").stdin(Stdio::from(shared));
    Ok(second.spawn()?)
}

/// Serves one rank of two: takes batches until there are no more.
fn serve(
    setup: &Setup,
    rank: usize,
    mut run: impl FnMut(&mut BenchControl, Batch) -> Outcome<()>,
) -> Outcome<()> {
    let mut control = BenchControl::join(setup, rank)?;
    while let Some(batch) = control.next_batch()? {
        run(&mut control, batch)?;
    }
    Ok(())
}
