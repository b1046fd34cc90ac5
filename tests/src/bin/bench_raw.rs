//! This program holds `unsafe` code: the mapping that two processes share.
//!
//! The calibrator of `cargo xtask bench`: what the cache-coherence hardware alone needs to carry one line from
//! core to core. One 64-byte line a direction, 56 bytes of payload and a sequence number stored last; no protocol,
//! no matching, no credits. Nothing that is also a message-passing library can be faster on the same two cores.

use core::error::Error;
use core::hint::spin_loop;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

use aldis_tests::bench::{Control, Setup};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};

/// Words of payload in a line.
const WORDS: usize = 7;

/// Bytes of payload in a line.
const PAYLOAD: usize = WORDS * 8;

/// One direction, alone in its pair of cache lines (neighbouring lines are fetched together on some processors).
#[repr(C, align(128))]
struct Line {
    payload: [AtomicU64; WORDS],
    sequence: AtomicU64,
}

/// The mapping; all zeroes is its state before the first message.
#[repr(C)]
struct Shared {
    lines: [Line; 2],
}

impl Line {
    fn send(&self, sequence: u64, words: usize) {
        for word in self.payload.iter().take(words) {
            word.store(sequence, Ordering::Relaxed);
        }
        self.sequence.store(sequence, Ordering::Release);
    }

    /// Waits for message `sequence` and copies it out.
    fn recv(&self, sequence: u64, words: usize, into: &mut [u64; WORDS]) {
        while self.sequence.load(Ordering::Acquire) != sequence {
            spin_loop();
        }
        for (to, from) in into.iter_mut().zip(&self.payload).take(words) {
            *to = from.load(Ordering::Relaxed);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let setup = Setup::from_arguments()?;
    // The second process is this program again, with the memory as its standard input.
    let inherited = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    if std::env::var_os("ALDIS_BENCH_RAW_SECOND").is_some() {
        return play(&setup, 1, map(&inherited)?);
    }
    let memory = File::from(memfd_create(c"bench-raw", MFdFlags::MFD_CLOEXEC)?);
    memory.set_len(size_of::<Shared>() as u64)?;
    let mut second = Command::new(std::env::current_exe()?)
        .args(std::env::args().skip(1))
        .env("ALDIS_BENCH_RAW_SECOND", "1")
        .stdin(Stdio::from(OwnedFd::from(memory.try_clone()?)))
        .spawn()?;
    let played = play(&setup, 0, map(&memory)?);
    second.wait()?;
    played
}

fn map(memory: &File) -> Result<&'static Shared, Box<dyn Error>> {
    let len = NonZeroUsize::new(size_of::<Shared>()).ok_or("an empty mapping")?;
    let flags = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a fresh mapping at an address of the system's choice aliases nothing of this process.
    let start = unsafe { mmap(None, len, flags, MapFlags::MAP_SHARED, memory, 0)? };
    // SAFETY: the mapping is page-aligned, as long as `Shared`, never unmapped, and every bit pattern is a valid
    // `Shared`, whose fields are all atomics, so that the other process may write while this one reads.
    Ok(unsafe { start.cast::<Shared>().as_ref() })
}

fn play(setup: &Setup, rank: usize, shared: &Shared) -> Result<(), Box<dyn Error>> {
    let [first, second] = &shared.lines;
    let (mine, theirs) = if rank == 0 { (first, second) } else { (second, first) };
    let mut control = Control::join(setup, rank)?;
    let mut sequence = 0;
    let mut received = [0; WORDS];
    while let Some(batch) = control.next_batch()? {
        if batch.bytes > PAYLOAD {
            return Err(format!("{} bytes do not fit a line of {PAYLOAD}", batch.bytes).into());
        }
        let words = batch.bytes.div_ceil(8);
        control.run(batch, |_| -> Result<(), Box<dyn Error>> {
            sequence += 1;
            if rank == 0 {
                mine.send(sequence, words);
                theirs.recv(sequence, words, &mut received);
            } else {
                theirs.recv(sequence, words, &mut received);
                mine.send(sequence, words);
            }
            Ok(())
        })?;
        if received.iter().take(words).any(|&word| word != sequence) {
            return Err("a line arrived torn".into());
        }
    }
    Ok(())
}
