//! A rank that behaves or misbehaves as its first argument says: what the launcher's tests start.

use core::error::Error;
use core::time::Duration;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use aldis_bench::bytes::Bytes;
use aldis_coll::comm::{SplitChoice, split};
use aldis_coll::op::Sum;
use aldis_coll::select::Call;
use aldis_coll::{Options, allreduce, alltoall, barrier};
use aldis_kernel::{Rank, Source, Tag, TagMatch};
use aldis_linux::{Abort, HostEndpoint, ShmArena};

type Outcome = Result<(), Box<dyn Error>>;

const TAG: Tag = Tag(7);

aldis_kernel::storage! {
    static SMALL: peers = 8, requests = 256, communicators = 4,
        envelopes = 32, blocks = 32, block_bytes = 2048, pooled = 4, bins = 64
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let behaviour = arguments.first().map_or("", String::as_str);
    match behaviour {
        // Before the wire-up.
        "exit-early" => ExitCode::from(5),
        "never-join" => loop {
            std::thread::sleep(Duration::from_secs(60));
        },
        // More requests than the storage has.
        "full" => aldis_linux::run_with(SMALL.take().expect("taken once"), |ep| behave(ep, behaviour)),
        _ => aldis_linux::run(|ep| behave(ep, behaviour)),
    }
}

fn behave(ep: &mut HostEndpoint, behaviour: &str) -> Outcome {
    let world = ep.world();
    let (me, last) = (world.rank(), Rank(world.size() - 1));
    say(&format!("rank {me} of {} has pid {}", world.size(), std::process::id()));
    match behaviour {
        "greet" => {
            eprintln!("to the error output");
            print!("a line without an end");
            std::io::stdout().flush()?;
            Ok(())
        }
        "rounds" => rounds(ep),
        "crowd" => crowd(ep, 2),
        "crowd without an end" => crowd(ep, u32::MAX),
        "sums" => sums(ep),
        "doze" => doze(ep),
        "explain" => {
            let call = Call::allreduce::<Sum, f64>(world.size(), 512, 512);
            say(&call.explain(&Options::default()).on(ep, &world).to_string());
            barrier().run(ep, &world).map_err(Into::into)
        }
        "levels" => levels(ep),
        // Every rank waits for a message that no rank sends.
        "hang" => wait_for(ep, Rank((me.0 + 1) % world.size())),
        "leave early" => leave_early(ep),
        "leave unmet" if me != last => {
            std::thread::sleep(Duration::from_secs(1));
            wait_for(ep, last)
        }
        "leave unmet" => Ok(()),
        // The last rank misbehaves, the others wait for it.
        _ if me != last && !matches!(behaviour, "stream" | "stuck" | "reword") => wait_for(ep, last),
        "stream" => stream(ep),
        "stuck" => stuck(ep),
        "exit" => std::process::exit(3),
        "quit" => std::process::exit(0),
        "fail" => Err("the input makes no sense".into()),
        // What the kernel said is lost in the program's own error.
        "reword" => wait_for(ep, Rank((me.0 + 1) % world.size()))
            .map_err(|error| format!("my own words: {error}").into()),
        "abort" => Err(Abort::new(42, "nothing to be done").into()),
        "abort-call" => {
            ep.abort(43);
            wait_for(ep, Rank(0))
        }
        "panic" => panic!("out of ideas"),
        "leave" => Ok(()),
        "full" => {
            let mut buffers = vec![[0_u8; 8]; 2000];
            ep.scope(|s| {
                buffers.iter_mut().try_for_each(|buffer| s.irecv(&world, buffer, Rank(0), TAG).map(drop))
            })?;
            Ok(())
        }
        other => Err(format!("no behaviour is called `{other}`").into()),
    }
}

/// The last rank lets all others wait for it, in a barrier, until the system says of each that it
/// sleeps, and half a second longer; then a token goes round. Each tells how often it has slept and
/// offered its core meanwhile, and the last one how many milliseconds it has let them wait.
fn doze(ep: &mut HostEndpoint) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let last = Rank(size - 1);
    if me == last.0 {
        let mut pids = vec![0_u32; last.0 as usize];
        (0..).zip(&mut pids).try_for_each(|(rank, pid)| {
            ep.recv(&world, core::slice::from_mut(pid), Rank(rank), TAG).map(drop)
        })?;
        let start = Instant::now();
        while let Some(pid) = pids.last() {
            if is_asleep(*pid)? {
                pids.pop();
            } else if start.elapsed() > Duration::from_secs(40) {
                return Err(format!("the rank with pid {pid} does not sleep").into());
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        std::thread::sleep(Duration::from_millis(500));
        say(&format!("waited: {} ms", start.elapsed().as_millis()));
    } else {
        ep.send(&world, &[std::process::id()], last, TAG)?;
    }
    barrier().run(ep, &world)?;
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let mut token = [0_u32];
    if me == 0 {
        ep.send(&world, &token, next, TAG)?;
    }
    ep.recv(&world, &mut token, previous, TAG)?;
    if me != 0 {
        ep.send(&world, &[token[0] + 1], next, TAG)?;
    } else if token[0] != size - 1 {
        return Err("the token was not everywhere".into());
    }
    let state = ep.platform().board().expect("a rank of a job has a board").read(0);
    say(&format!("counts: {} sleeps, {} yields", state.sleeps, state.yields));
    say(&ep.explain(next, 8)?.to_string());
    barrier().run(ep, &world).map_err(Into::into)
}

/// Returns true if the system says that a process sleeps: one that spins, or offers its core, does
/// not.
fn is_asleep(pid: u32) -> Result<bool, Box<dyn Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    Ok(stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S')))
}

fn say(text: &str) {
    println!("{text}");
}

fn wait_for(ep: &mut HostEndpoint, peer: Rank) -> Outcome {
    tell_the_wait(ep);
    ep.recv(&ep.world(), &mut [0_u8; 4096], peer, TAG)?;
    Ok(())
}

/// Says so as soon as the next wait stands on the rank's board, where the launcher reads it.
fn tell_the_wait(ep: &HostEndpoint) {
    let (rank, board) = (ep.world().rank(), ep.platform().board().expect("a rank of a job has a board"));
    std::thread::spawn(move || {
        while board.read(0).current.is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        say(&format!("rank {rank} waits"));
    });
}

/// The last of three ranks leaves at once, and the first waits for any source until the second
/// sends something.
fn leave_early(ep: &mut HostEndpoint) -> Outcome {
    let world = ep.world();
    match world.rank().0 {
        0 => {
            std::thread::sleep(Duration::from_millis(300));
            ep.recv(&world, &mut [0_u8; 8], Source::Any, TAG)?;
        }
        1 => {
            std::thread::sleep(Duration::from_secs(1));
            ep.send(&world, &[1_u8; 8], Rank(0), TAG)?;
        }
        _ => {}
    }
    Ok(())
}

/// Messages of several sizes go round and are checked; the ranks tell when a third of it is done.
fn rounds(ep: &mut HostEndpoint) -> Outcome {
    const ROUNDS: u32 = 600;
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    for round in 0..ROUNDS {
        let words = [1, 100, 5_000, 60_000][round as usize % 4];
        let (sent, mut came) = (vec![me ^ round; words], vec![u32::MAX; words]);
        ep.sendrecv(&world, &sent, next, TAG, &mut came, previous, TAG)?;
        if came.iter().any(|word| *word != previous.0 ^ round) {
            return Err(format!("round {round} brought something else").into());
        }
        if round == ROUNDS / 3 {
            say("a third is done");
        }
    }
    say("all came back");
    Ok(())
}

/// Collectives of all ranks, of those with even numbers and of those from the second on, verified;
/// the first of each tells by which algorithm.
fn levels(ep: &mut HostEndpoint) -> Outcome {
    let (world, mut split_scratch) = (ep.world(), [SplitChoice::NONE; 64]);
    let me = world.rank().0;
    let even = split(ep, &world, (me % 2 == 0).then_some(0), 0, &mut split_scratch)?;
    let later = split(ep, &world, (me > 0).then_some(0), 0, &mut split_scratch)?;
    for (name, comm) in [("all", Some(world)), ("even", even), ("later", later)] {
        let Some(comm) = comm else { continue };
        let (size, rank) = (comm.size(), comm.rank().0);
        let mut data = [u64::from(rank), 1];
        let mut scratch = [0; 2];
        let algorithm = ep.scope(|scope| {
            let mut summing = allreduce(Sum, &mut data, &mut scratch).start(scope, &comm)?;
            let algorithm = summing.plan().algorithm.name();
            summing.wait(scope)?;
            Ok::<_, aldis_kernel::Error>(algorithm)
        })?;
        if data != [u64::from(size * (size - 1) / 2), u64::from(size)] {
            return Err(format!("{name}: {data:?} by {algorithm}").into());
        }
        let sent: Vec<u32> = (0..size).map(|to| rank << 16 | to).collect();
        let (mut came, mut scratch) = (vec![0; size as usize], vec![0; 2 * size as usize]);
        alltoall(&sent, &mut came, &mut scratch).run(ep, &comm)?;
        if (0..).zip(&came).any(|(from, word)| *word != from << 16 | rank) {
            return Err(format!("{name}: {came:?}").into());
        }
        if rank == 0 {
            say(&format!("{name}: {algorithm}"));
        }
    }
    Ok(())
}

/// Every rank talks to every other, at different lengths, and to its neighbours most.
fn crowd(ep: &mut HostEndpoint, rounds: u32) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    for round in 0..rounds {
        for distance in (1..size).flat_map(|distance| [distance, 1]) {
            let (next, previous) = (Rank((me + distance) % size), Rank((me + size - distance) % size));
            let words = [1, 20, 100, 400, 3_000][(round + distance) as usize % 5];
            let (sent, mut came) = (vec![me ^ round; words], vec![u32::MAX; words]);
            ep.sendrecv(&world, &sent, next, TAG, &mut came, previous, TAG)?;
            if came.iter().any(|word| *word != previous.0 ^ round) {
                return Err(format!("round {round} brought something else from {previous}").into());
            }
        }
        if round == 1 {
            say("all came back");
        }
    }
    Ok(())
}

/// Collectives by control slots without an end, each within a few seconds; the ranks tell when some
/// are done.
fn sums(ep: &mut HostEndpoint) -> Outcome {
    let world = ep.world();
    let (mut data, mut scratch) = (vec![1_u64; 20_000], vec![0; 20_000]);
    for round in 0_u32.. {
        let mut within = ep.within(Duration::from_secs(3));
        allreduce(Sum, &mut data, &mut scratch).with(&Options::shared()).run(&mut within, &world)?;
        if data.iter().any(|sum| *sum != u64::from(world.size())) {
            return Err(format!("sum {round} is wrong").into());
        }
        data.fill(1);
        barrier().with(&Options::shared()).run(&mut within, &world)?;
        if round == 20 {
            say("some are done");
        }
    }
    Ok(())
}

/// Rank 0 sends large messages, from its arena if it has one, to the last rank without an end; the
/// others wait for rank 0.
fn stream(ep: &mut HostEndpoint) -> Outcome {
    let world = ep.world();
    let last = Rank(world.size() - 1);
    let mut message = Bytes::new(ep.shm_arena(), 1 << 20, 0x5A)?;
    loop {
        match world.rank() {
            Rank(0) => drop(ep.send(&world, &message[..], last, TAG)?),
            rank if rank == last => drop(ep.recv(&world, &mut message[..], Rank(0), TAG)?),
            _ => wait_for(ep, Rank(0))?,
        }
    }
}

/// The last rank is in the middle of a large message that rank 0 sees coming and does not take; the
/// others wait.
fn stuck(ep: &mut HostEndpoint) -> Outcome {
    let world = ep.world();
    let last = Rank(world.size() - 1);
    match world.rank() {
        rank if rank == last => {
            tell_the_wait(ep);
            ep.send(&world, &vec![1_u8; 1 << 20], Rank(0), TAG)?;
        }
        Rank(0) => {
            ep.probe(&world, last, TAG)?;
            tell_the_wait(ep);
            // Another tag: this never matches, and polls all the same.
            ep.recv(&world, &mut [0_u8; 4096], Source::Any, TagMatch::Tag(Tag(8)))?;
        }
        _ => wait_for(ep, last)?,
    }
    Ok(())
}
