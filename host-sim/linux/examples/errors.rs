//! Mistakes and their names: every mistake here gets an error of its own, which names the
//! operation, the other side, the tag and the remedy, and the job goes on.
//!
//! ```text
//! aldis-run -n 2 target/release/examples/errors
//! ```

use core::error::Error as StdError;
use core::mem::{Discriminant, discriminant};
use core::time::Duration;
use std::process::ExitCode;

use aldis_coll::{barrier, comm};
use aldis_kernel::hal::Cause;
use aldis_kernel::{Comm, Error, Rank, Tag};
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Make every mistake there is, and check what each is called.
#[derive(Parser)]
struct Options {
    /// Print one JSON object instead of a list
    #[arg(long)]
    json: bool,
}

const SOME: Tag = Tag(1);
const NEVER_SENT: Tag = Tag(2);

/// A mistake: what was done, the cause that it must have, and the error.
struct Mistake {
    what: &'static str,
    due: Discriminant<Cause>,
    error: Error,
}

/// The error of something that must fail.
fn mistake<R>(what: &'static str, due: Cause, result: Result<R, Error>) -> Result<Mistake, String> {
    match result {
        Ok(_) => Err(format!("{what}: nothing was wrong with it")),
        Err(error) => Ok(Mistake { what, due: discriminant(&due), error }),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| {
        let world = ep.world();
        let mistakes = mistakes(ep, &world)?;
        for Mistake { what, due, error } in &mistakes {
            if discriminant(&error.cause) != *due {
                return Err(format!("{what}: {error}").into());
            }
        }
        if world.rank() == Rank(0) {
            report(&options, &world, &mistakes);
        }
        Ok(())
    })
}

fn mistakes(ep: &mut HostEndpoint, world: &Comm) -> Result<Vec<Mistake>, Box<dyn StdError>> {
    let (me, size) = (world.rank(), world.size());
    let mut word = [0_u32];
    let mut all = vec![
        mistake(
            "a send to a rank that is not there",
            Cause::RankOutOfRange { rank: size, size },
            ep.send(world, &word, Rank(size), SOME),
        )?,
        mistake(
            "a tag that is too large",
            Cause::TagOutOfRange { tag: u32::MAX - 1, max: Tag::MAX.0 },
            ep.send(world, &word, me, Tag(u32::MAX - 1)),
        )?,
        mistake(
            "a receive whose message does not come in time",
            Cause::TimedOut,
            ep.within(Duration::from_millis(5)).recv(world, &mut word, me, NEVER_SENT),
        )?,
    ];
    let longer = [1_u32, 2, 3];
    let truncated = ep.scope(|s| {
        let sent = s.isend(world, &longer, me, SOME)?;
        let received = s.irecv(world, &mut word, me, SOME)?;
        let result = s.wait(received);
        s.wait(sent)?;
        Ok(result)
    })?;
    all.push(mistake(
        "a receive into less memory than the message needs",
        Cause::Truncated { sent: 12, room: 4 },
        truncated,
    )?);
    all.push(mistake(
        "a ready send before its receive",
        Cause::NotReady,
        ep.scope(|s| {
            let sent = s.irsend(world, &longer[..1], me, SOME)?;
            // It arrives here, and no receive waits for it.
            s.poll(64);
            let received = s.irecv(world, &mut word, me, SOME)?;
            s.wait(received)?;
            Ok(s.wait(sent))
        })?,
    )?);
    let copy = comm::dup(ep, world)?;
    comm::free(ep, copy)?;
    all.push(mistake("a communicator that has been freed", Cause::Stale, ep.send(&copy, &word, me, SOME))?);
    all.push(mistake("freeing the world", Cause::Predefined, comm::free(ep, *world))?);
    // Nothing of all that has broken anything.
    barrier().run(ep, world)?;
    Ok(all)
}

fn report(options: &Options, world: &Comm, mistakes: &[Mistake]) {
    if options.json {
        let line = serde_json::json!({
            "bench": "errors", "impl": "aldis", "ranks": world.size(), "mistakes": mistakes.len(), "verified": true,
        });
        println!("{line}");
        return;
    }
    for Mistake { what, error, .. } in mistakes {
        println!("{what}:\n    {error}");
    }
}
