//! Shared memory alone: a line a message, or one copy.

use core::hint::black_box;
use core::time::Duration;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Instant;

use aldis_bench::batches::{Batch, BenchControl, Setup, TurnWork, mark, uniform};
use aldis_linux::paged::Paged;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::shared::{BYTES, RawShared, WORDS};
use crate::{Outcome, serve, start_second};

/// A rank.
struct ShmPlayer {
    first: bool,
    shared: RawShared,
    sequence: u64,
    received: [u64; WORDS],
    back: Paged,
}

pub(crate) fn play(setup: &Setup, inherited: Option<OwnedFd>) -> Outcome<()> {
    if let Some(memory) = inherited {
        return ShmPlayer::new(&File::from(memory), 1)?.serve(setup);
    }
    let memory = File::from(memfd_create(c"bench-raw", MFdFlags::MFD_CLOEXEC)?);
    memory.set_len(BYTES as u64)?;
    let mut second = start_second(memory.try_clone()?.into())?;
    let played = ShmPlayer::new(&memory, 0)?.serve(setup);
    second.wait()?;
    played
}

impl ShmPlayer {
    fn new(memory: &File, rank: usize) -> Outcome<Self> {
        let shared = RawShared::map(memory, rank)?;
        Ok(Self { first: rank == 0, shared, sequence: 0, received: [0; WORDS], back: Paged::new(0) })
    }

    fn serve(mut self, setup: &Setup) -> Outcome<()> {
        serve(setup, usize::from(!self.first), |control, batch| match batch.workload {
            TurnWork::Latency => self.latency(control, batch),
            TurnWork::Rate => self.rate(control, batch),
            TurnWork::Bandwidth => self.bandwidth(control, batch),
            TurnWork::Both => self.both(control, batch),
            TurnWork::Consume => self.consume(control, batch),
            _ => Err(format!("{batch:?} has no raw form").into()),
        })
    }

    fn send(&mut self, words: usize) {
        self.shared.mine.line.send(self.sequence, words);
    }

    fn recv(&mut self, words: usize) {
        self.shared.theirs.line.recv(self.sequence, words, &mut self.received);
    }

    fn latency(&mut self, control: &mut BenchControl, batch: Batch) -> Outcome<()> {
        let words = words(batch)?;
        control.run(batch, |_| -> Outcome<()> {
            self.sequence += 1;
            if self.first {
                self.send(words);
                self.recv(words);
            } else {
                self.recv(words);
                self.send(words);
            }
            Ok(())
        })?;
        self.is_whole(words)
    }

    fn rate(&mut self, control: &mut BenchControl, batch: Batch) -> Outcome<()> {
        let words = words(batch)?;
        control.run(batch, |_| -> Outcome<()> {
            self.sequence += 1;
            if self.first {
                for line in self.shared.mine.window.iter().take(batch.each) {
                    line.send(self.sequence, words);
                }
                self.recv(0);
            } else {
                for line in self.shared.theirs.window.iter().take(batch.each) {
                    line.recv(self.sequence, words, &mut self.received);
                }
                self.send(0);
            }
            Ok(())
        })?;
        if self.first { Ok(()) } else { self.is_whole(words) }
    }

    fn bandwidth(&mut self, control: &mut BenchControl, batch: Batch) -> Outcome<()> {
        self.back = Paged::new(batch.bytes * batch.each);
        control.run_parts(batch, |number| -> Outcome<Duration> {
            self.sequence += 1;
            if !self.first {
                self.recv(0);
                self.shared.read(&mut self.back, batch.bytes);
                self.send(0);
                return Ok(Duration::ZERO);
            }
            self.shared.write(self.back.len(), mark(number));
            let start = Instant::now();
            self.send(0);
            self.recv(0);
            Ok(start.elapsed())
        })?;
        if self.first { Ok(()) } else { self.arrived(batch) }
    }

    fn both(&mut self, control: &mut BenchControl, batch: Batch) -> Outcome<()> {
        self.back = Paged::new(batch.bytes * batch.each);
        control.run_parts(batch, |number| -> Outcome<Duration> {
            self.shared.write(self.back.len(), mark(number));
            self.meet();
            let start = Instant::now();
            self.shared.read(&mut self.back, batch.bytes);
            self.meet();
            Ok(start.elapsed())
        })?;
        self.arrived(batch)
    }

    fn consume(&mut self, control: &mut BenchControl, batch: Batch) -> Outcome<()> {
        control.run_parts(batch, |number| -> Outcome<Duration> {
            self.sequence += 1;
            if !self.first {
                self.recv(0);
                black_box(self.shared.sum(batch.bytes));
                self.send(0);
                return Ok(Duration::ZERO);
            }
            self.shared.write(batch.bytes, mark(number));
            let start = Instant::now();
            self.send(0);
            self.recv(0);
            Ok(start.elapsed())
        })
    }

    /// Neither rank goes on before the other has come.
    fn meet(&mut self) {
        self.sequence += 1;
        self.send(0);
        self.recv(0);
    }

    fn is_whole(&self, words: usize) -> Outcome<()> {
        let torn = self.received.iter().take(words).any(|&word| word != self.sequence);
        if torn { Err("a line arrived torn".into()) } else { Ok(()) }
    }

    fn arrived(&self, batch: Batch) -> Outcome<()> {
        let sent = Some(mark(batch.turns - 1));
        if uniform(&self.back) == sent { Ok(()) } else { Err("a copy brought other bytes".into()) }
    }
}

/// Words of a message, if a line holds it.
fn words(batch: Batch) -> Outcome<usize> {
    let words = batch.bytes.div_ceil(8);
    if words <= WORDS { Ok(words) } else { Err(format!("{batch:?} does not fit a line").into()) }
}
