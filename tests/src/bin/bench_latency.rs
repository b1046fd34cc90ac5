//! What `cargo xtask bench latency` measures of Aldis: blocking sends and receives between two ranks, started by
//! `aldis-run` like any other program. `xtask/peers/latency.c` is the same over MPI.

use core::error::Error;
use std::process::ExitCode;

use aldis_host_sim::HostEndpoint;
use aldis_kernel::{Rank, Tag};
use aldis_tests::bench::{Control, Setup};

fn main() -> ExitCode {
    aldis_host_sim::run(|endpoint: &mut HostEndpoint| play(endpoint))
}

fn play(endpoint: &mut HostEndpoint) -> Result<(), Box<dyn Error>> {
    let world = endpoint.world();
    let rank = world.rank();
    let other = Rank(1 - rank.0);
    let tag = Tag(0);
    let mut control = Control::join(&Setup::from_arguments()?, rank.0 as usize)?;
    let (mut out, mut back) = (Vec::new(), Vec::new());
    while let Some(batch) = control.next_batch()? {
        out.resize(batch.bytes, rank.0 as u8 + 1);
        back.resize(batch.bytes, 0);
        control.run(batch, |_| -> Result<(), Box<dyn Error>> {
            if rank.0 == 0 {
                endpoint.send(&world, &out, other, tag)?;
                endpoint.recv(&world, &mut back, other, tag)?;
            } else {
                endpoint.recv(&world, &mut back, other, tag)?;
                endpoint.send(&world, &out, other, tag)?;
            }
            Ok(())
        })?;
        if back.iter().any(|&byte| byte != other.0 as u8 + 1) {
            return Err(format!("rank {} received {} bytes that were not sent", rank.0, batch.bytes).into());
        }
    }
    Ok(())
}
