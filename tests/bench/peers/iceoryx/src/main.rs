//! The side of iceoryx2 in `cargo xtask bench`: two processes, a topic each way, payloads in loaned
//! memory that are written and read, every word of them. The first process starts the second.
//!
//! Arguments: `SOCKET CORE CORE`, as of the other measured programs.

use core::error::Error;
use core::hint::spin_loop;
use core::time::Duration;
use std::process::Command;
use std::time::Instant;

use aldis_bench::batches::{Batch, BenchControl, Setup, TurnWork, mark, sum, sum_of};
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::sample::Sample;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Set for the second process, which is this program again.
const SECOND: &str = "ALDIS_BENCH_ICEORYX_SECOND";

/// Words of the longest payload.
const WORDS_MAX: usize = (16 << 20) / 8;

/// The two directions of a rank.
struct IceoryxPorts {
    out: Publisher<ipc::Service, [u64], ()>,
    back: Subscriber<ipc::Service, [u64], ()>,
}

fn main() -> Outcome<()> {
    let setup = Setup::from_arguments(0)?;
    let rank = usize::from(std::env::var_os(SECOND).is_some());
    if rank == 0 {
        Command::new(std::env::current_exe()?).args(std::env::args().skip(1)).env(SECOND, "1").spawn()?;
    } else {
        // A rank spins while it waits: it must not outlive the process it waits for.
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    }
    set_log_level(LogLevel::Error);
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let topic = |of: usize| -> Outcome<_> {
        let name = format!("aldis-bench/{}/{of}", setup.socket);
        let builder = node.service_builder(&name.as_str().try_into()?).publish_subscribe::<[u64]>();
        Ok(builder.max_publishers(1).max_subscribers(1).subscriber_max_buffer_size(2).open_or_create()?)
    };
    let (own, others) = (topic(rank)?, topic(1 - rank)?);
    let ports = IceoryxPorts {
        out: own.publisher_builder().initial_max_slice_len(WORDS_MAX).max_loaned_samples(2).create()?,
        back: others.subscriber_builder().create()?,
    };
    while own.dynamic_config().number_of_subscribers() == 0
        || others.dynamic_config().number_of_publishers() == 0
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut control = BenchControl::join(&setup, rank)?;
    while let Some(batch) = control.next_batch()? {
        match batch.workload {
            TurnWork::Latency => control.run(batch, |_| ports.ping(rank == 0, batch))?,
            TurnWork::Consume | TurnWork::Loaned => {
                control.run_parts(batch, |number| ports.consume(rank == 0, batch, number))?;
            }
            other => return Err(format!("no {other:?}").into()),
        }
    }
    Ok(())
}

impl IceoryxPorts {
    /// A payload there and back.
    fn ping(&self, is_first: bool, batch: Batch) -> Outcome<()> {
        let (words, sent) = (batch.bytes / 8, u64::from_ne_bytes([1; 8]));
        if is_first {
            self.write(words, sent)?;
        }
        let arrived = self.wait()?;
        if sum(arrived.payload().iter().copied()) != sum_of(1, batch.bytes) {
            return Err("a payload was added up to something else".into());
        }
        drop(arrived);
        if is_first { Ok(()) } else { self.write(words, sent) }
    }

    /// A payload whose sum comes back; the time of both, and of `Loaned` also that of the loan and
    /// of writing it.
    fn consume(&self, is_first: bool, batch: Batch, number: u32) -> Outcome<Duration> {
        if !is_first {
            let arrived = self.wait()?;
            let sum = sum(arrived.payload().iter().copied());
            drop(arrived);
            self.write(1, sum)?;
            return Ok(Duration::ZERO);
        }
        let (word, mut start) = (u64::from_ne_bytes([mark(number); 8]), Instant::now());
        let loan = self.out.loan_slice_uninit(batch.bytes / 8)?.write_from_fn(|_| word);
        if batch.workload == TurnWork::Consume {
            start = Instant::now();
        }
        loan.send()?;
        let answer = self.wait()?;
        let elapsed = start.elapsed();
        match answer.payload() {
            [sum] if *sum == sum_of(mark(number), batch.bytes) => Ok(elapsed),
            _ => Err(format!("{batch:?} was added up to something else").into()),
        }
    }

    fn write(&self, words: usize, word: u64) -> Outcome<()> {
        self.out.loan_slice_uninit(words)?.write_from_fn(|_| word).send()?;
        Ok(())
    }

    fn wait(&self) -> Outcome<Sample<ipc::Service, [u64], ()>> {
        loop {
            if let Some(sample) = self.back.receive()? {
                return Ok(sample);
            }
            spin_loop();
        }
    }
}
