//! Workloads of two ranks.

use core::slice::{Chunks, ChunksMut};
use core::time::Duration;
use std::time::Instant;

use aldis_bench::batches::{Batch, TOKEN_BYTES, WINDOW_MAX, compute, mark, uniform};
use aldis_kernel::{Comm, Error, Rank, Tag};
use aldis_linux::HostEndpoint;

use crate::{Measured, Outcome};

pub(crate) const DATA: Tag = Tag(0);
pub(crate) const TOKEN: Tag = Tag(1);

impl Measured<'_> {
    pub(crate) fn is_first(&self) -> bool {
        self.world.rank().0 == 0
    }

    pub(crate) fn other(&self) -> Rank {
        Rank(1 - self.world.rank().0)
    }

    pub(crate) fn latency(&mut self, batch: Batch) -> Outcome<()> {
        self.buffers(batch, 1)?;
        let (first, other) = (self.is_first(), self.other());
        let sent = self.world.rank().0 as u8 + 1;
        self.out.fill(sent);
        let Self { endpoint, world, control, out, back, .. } = self;
        control.run(batch, |_| -> Outcome<()> {
            if first {
                endpoint.send(world, out, other, DATA)?;
                endpoint.recv(world, back, other, DATA)?;
            } else {
                endpoint.recv(world, back, other, DATA)?;
                endpoint.send(world, out, other, DATA)?;
            }
            Ok(())
        })?;
        self.arrived(batch, other.0 as u8 + 1)
    }

    pub(crate) fn bandwidth(&mut self, batch: Batch) -> Outcome<()> {
        self.buffers(batch, batch.each)?;
        let (first, other) = (self.is_first(), self.other());
        let Self { endpoint, world, control, out, back, .. } = self;
        control.run_parts(batch, |number| -> Outcome<Duration> {
            if !first {
                take(endpoint, world, other, back.chunks_mut(batch.bytes))?;
                return Ok(Duration::ZERO);
            }
            out.fill(mark(number));
            let start = Instant::now();
            push(endpoint, world, other, out.chunks(batch.bytes))?;
            Ok(start.elapsed())
        })?;
        if first { Ok(()) } else { self.arrived(batch, mark(batch.turns - 1)) }
    }

    pub(crate) fn rate(&mut self, batch: Batch) -> Outcome<()> {
        self.buffers(batch, batch.each)?;
        let (first, other) = (self.is_first(), self.other());
        self.out.fill(mark(0));
        let Self { endpoint, world, control, out, back, .. } = self;
        control.run(batch, |_| {
            if first {
                push(endpoint, world, other, out.chunks(batch.bytes))
            } else {
                take(endpoint, world, other, back.chunks_mut(batch.bytes))
            }
        })?;
        if first { Ok(()) } else { self.arrived(batch, mark(0)) }
    }

    pub(crate) fn both(&mut self, batch: Batch) -> Outcome<()> {
        self.buffers(batch, batch.each)?;
        let other = self.other();
        let Self { endpoint, world, control, out, back, .. } = self;
        control.run_parts(batch, |number| -> Outcome<Duration> {
            out.fill(mark(number));
            let (mut token, mut answer) = ([0; TOKEN_BYTES], [0; TOKEN_BYTES]);
            let elapsed = endpoint.scope(|scope| {
                let mut requests = Vec::with_capacity(2 * WINDOW_MAX);
                for message in back.chunks_mut(batch.bytes) {
                    requests.push(scope.irecv(world, message, other, DATA)?);
                }
                // Both have posted: the clock starts for both.
                let receive = scope.irecv(world, &mut token, other, TOKEN)?;
                let send = scope.isend(world, &[0; TOKEN_BYTES], other, TOKEN)?;
                scope.wait(receive)?;
                scope.wait(send)?;
                let start = Instant::now();
                for message in out.chunks(batch.bytes) {
                    requests.push(scope.isend(world, message, other, DATA)?);
                }
                scope.wait_all(&mut requests)?;
                let receive = scope.irecv(world, &mut answer, other, TOKEN)?;
                let send = scope.isend(world, &[0; TOKEN_BYTES], other, TOKEN)?;
                scope.wait(receive)?;
                scope.wait(send)?;
                Ok::<_, Error>(start.elapsed())
            })?;
            Ok(elapsed)
        })?;
        self.arrived(batch, mark(batch.turns - 1))
    }

    pub(crate) fn overlap(&mut self, batch: Batch) -> Outcome<()> {
        self.buffers(batch, 1)?;
        let (first, other) = (self.is_first(), self.other());
        let Self { endpoint, world, control, out, back, .. } = self;
        control.run_parts(batch, |number| -> Outcome<Duration> {
            if first {
                out.fill(mark(number));
            }
            together(endpoint, world, other)?;
            let start = Instant::now();
            endpoint.scope(|scope| {
                let mut request = if first {
                    scope.isend(world, out, other, DATA)?
                } else {
                    scope.irecv(world, back, other, DATA)?
                };
                let (mut state, mut done) = (u64::from(number), None);
                for _ in 0..batch.each {
                    state = compute(state);
                    if done.is_none() {
                        done = scope.test(&mut request)?;
                    }
                }
                core::hint::black_box(state);
                if done.is_none() {
                    scope.wait_for(&mut request)?;
                }
                Ok::<_, Error>(())
            })?;
            let mut token = [0; TOKEN_BYTES];
            if first {
                endpoint.recv(world, &mut token, other, TOKEN)?;
            } else {
                endpoint.send(world, &token, other, TOKEN)?;
            }
            Ok(start.elapsed())
        })?;
        if first { Ok(()) } else { self.arrived(batch, mark(batch.turns - 1)) }
    }

    pub(crate) fn compute(&mut self, batch: Batch) -> Outcome<()> {
        self.control.run(batch, |number| {
            let state = (0..batch.each).fold(u64::from(number), |state, _| compute(state));
            core::hint::black_box(state);
            Ok(())
        })
    }

    /// Fails unless the last turn's messages are those that were sent.
    fn arrived(&self, batch: Batch, sent: u8) -> Outcome<()> {
        if batch.bytes == 0 || uniform(&self.back) == Some(sent) {
            return Ok(());
        }
        Err(format!("rank {} received {batch:?} with bytes that were not sent", self.world.rank()).into())
    }
}

/// A window of messages, and its token back.
fn push(endpoint: &mut HostEndpoint, world: &Comm, to: Rank, messages: Chunks<'_, u8>) -> Outcome<()> {
    endpoint.scope(|scope| {
        let mut requests = Vec::with_capacity(WINDOW_MAX);
        for message in messages {
            requests.push(scope.isend(world, message, to, DATA)?);
        }
        scope.wait_all(&mut requests)
    })?;
    endpoint.recv(world, &mut [0; TOKEN_BYTES], to, TOKEN)?;
    Ok(())
}

/// The other side of [`push`].
fn take(endpoint: &mut HostEndpoint, world: &Comm, from: Rank, messages: ChunksMut<'_, u8>) -> Outcome<()> {
    endpoint.scope(|scope| {
        let mut requests = Vec::with_capacity(WINDOW_MAX);
        for message in messages {
            requests.push(scope.irecv(world, message, from, DATA)?);
        }
        scope.wait_all(&mut requests)
    })?;
    endpoint.send(world, &[0; TOKEN_BYTES], from, TOKEN)?;
    Ok(())
}

/// Neither rank goes on before the other has come.
fn together(endpoint: &mut HostEndpoint, world: &Comm, other: Rank) -> Outcome<()> {
    let mut token = [0; TOKEN_BYTES];
    endpoint.sendrecv(world, &[0; TOKEN_BYTES], other, TOKEN, &mut token, other, TOKEN)?;
    Ok(())
}
