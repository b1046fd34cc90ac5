//! This module holds `unsafe` code: it takes a message that is looked at in place for a slice.
//!
//! A message that its receiver reads, all of it, once: out of its own buffer, or where the sender
//! has it.

use core::time::Duration;
use std::time::Instant;

use aldis_bench::batches::{Batch, TOKEN_BYTES, TurnWork, mark, sum, sum_of, words};
use aldis_kernel::{Comm, Rank};
use aldis_linux::{HostEndpoint, ShmArena};

use crate::pair::{DATA, TOKEN};
use crate::{Measured, Outcome};

impl Measured<'_> {
    pub(crate) fn consume(&mut self, batch: Batch) -> Outcome<()> {
        self.buffers(batch, 1)?;
        let (first, other, in_place) = (self.is_first(), self.other(), self.endpoint.shm_arena().bytes() > 0);
        // For messages that cannot be looked at; never written if all can.
        let mut fallback = vec![0_u64; if in_place { batch.bytes / 8 } else { 0 }];
        let Self { endpoint, world, control, out, back, .. } = self;
        control.run_parts(batch, |number| -> Outcome<Duration> {
            if !first {
                let sum = if in_place {
                    look(endpoint, world, other, &mut fallback)?
                } else {
                    endpoint.recv(world, back, other, DATA)?;
                    sum(words(back))
                };
                endpoint.send(world, &sum.to_ne_bytes(), other, TOKEN)?;
                return Ok(Duration::ZERO);
            }
            let (mut answer, mut start) = ([0; TOKEN_BYTES], Instant::now());
            out.fill(mark(number));
            if batch.workload == TurnWork::Consume {
                start = Instant::now();
            }
            endpoint.send(world, out, other, DATA)?;
            endpoint.recv(world, &mut answer, other, TOKEN)?;
            let elapsed = start.elapsed();
            if u64::from_ne_bytes(answer) == sum_of(mark(number), batch.bytes) {
                return Ok(elapsed);
            }
            Err(format!("{batch:?} was added up to something else").into())
        })
    }
}

/// Receives a message and adds it up, where its sender has it.
fn look(endpoint: &mut HostEndpoint, world: &Comm, from: Rank, fallback: &mut [u64]) -> Outcome<u64> {
    let view = endpoint.recv_view(world, fallback, from, DATA)?;
    if !view.is_borrowed() {
        return Err("a message out of an arena could not be looked at".into());
    }
    // SAFETY: the sender is `consume` above: it sets no deadline, and goes on once this view is
    // finished.
    let sum = sum(unsafe { view.elements()?.as_slice() }.iter().copied());
    view.finish()?;
    Ok(sum)
}
