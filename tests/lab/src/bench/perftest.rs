//! UCX's own benchmark, `ucx_perftest`, in short runs between the others' batches. It cannot be
//! driven batch by batch and sends the same buffer again and again, so its bandwidth is that of a
//! warm cache.

use core::time::Duration;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use aldis_shell::shell;
use anyhow::{Context, Result, bail};

use super::implementation::Transport;
use super::workload::{Ask, BenchWorkload};

/// Between two runs: each takes a large part of a second to start.
const PAUSE: Duration = Duration::from_millis(1500);

/// The time that a run may take in all.
const RUN_MAX: Duration = Duration::from_secs(20);

/// The first port of the benchmark's own connection; each run takes the next.
const FIRST_PORT: u16 = 23_500;

/// Bytes that a run of long messages carries.
const BYTES: usize = 64 << 20;

/// UCX on one transport.
#[derive(Debug)]
pub(crate) struct Perftest {
    transport: Transport,
    cores: [usize; 2],
    port: u16,
    last: Option<Instant>,
}

impl Perftest {
    /// `number` keeps the ports of several apart.
    pub(crate) fn new(transport: Transport, cores: [usize; 2], number: usize) -> Self {
        let own = (std::process::id() as usize + 97 * number) % 8000;
        Self { transport, cores, port: FIRST_PORT + own as u16, last: None }
    }

    /// Returns what a turn of the workload would cost, in nanoseconds; `None` if the last run was
    /// just now.
    pub(crate) fn sample(&mut self, workload: BenchWorkload, ask: Ask) -> Result<Option<f64>> {
        if self.last.is_some_and(|last| last.elapsed() < PAUSE) {
            return Ok(None);
        }
        let figures = self.run(workload, ask)?;
        self.last = Some(Instant::now());
        let of = |name: &str| figures.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        let cost = match workload {
            BenchWorkload::Latency => of("50.0_percentile_lat").map(|us| 2e3 * us),
            // Mebibytes a second.
            BenchWorkload::Bandwidth => {
                of("overall_bw").map(|rate| (ask.bytes * ask.each) as f64 * 1e9 / (rate * 1_048_576.0))
            }
            BenchWorkload::Rate => of("overall_mr").map(|rate| ask.each as f64 * 1e9 / rate),
            _ => bail!("ucx_perftest has no {}", ask.wire),
        };
        cost.filter(|cost| cost.is_finite()).map(Some).context("ucx_perftest gave no such figure")
    }

    /// Runs both ranks once: returns names and values of its figures.
    fn run(&mut self, workload: BenchWorkload, ask: Ask) -> Result<Vec<(String, f64)>> {
        self.port = self.port.checked_add(1).unwrap_or(FIRST_PORT);
        let [first, second] = self.cores;
        let mut server = self.command("ucx_perftest", second);
        let mut server =
            RunningServer(server.stdout(Stdio::null()).spawn().context("starting ucx_perftest")?);
        let test = if workload == BenchWorkload::Latency { "tag_lat" } else { "tag_bw" };
        let messages = if workload == BenchWorkload::Latency {
            2000
        } else {
            (BYTES / ask.bytes.max(1)).clamp(16, 100_000)
        };
        // A client whose server died would wait for ever.
        let mut client = self.command("timeout", first);
        client.args(["127.0.0.1", "-f", "-v", "-t", test, "-s", &ask.bytes.to_string()]);
        client.args(["-n", &messages.to_string(), "-w", "20"]);
        let end = Instant::now() + RUN_MAX;
        loop {
            // The server may not be listening yet; a client that finds no server ends with an
            // error.
            let output = client.stdin(Stdio::null()).output().context("starting ucx_perftest")?;
            if output.status.success() {
                server.wait(end);
                return parse(&String::from_utf8_lossy(&output.stdout));
            }
            if Instant::now() > end {
                bail!(
                    "`{}` failed: {}",
                    shell::spell(&client),
                    String::from_utf8_lossy(&output.stderr).trim()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// `ucx_perftest`, by itself or started by `timeout`.
    fn command(&self, program: &str, core: usize) -> Command {
        let mut command = Command::new(program);
        if program != "ucx_perftest" {
            command.args([&RUN_MAX.as_secs().to_string(), "ucx_perftest"]);
        }
        command.args(["-p", &self.port.to_string(), "-c", &core.to_string()]);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.env("UCX_WARN_UNUSED_ENV_VARS", "n");
        match self.transport {
            Transport::Tcp => command.env("UCX_TLS", "tcp,self").env("UCX_NET_DEVICES", "lo"),
            Transport::Shm | Transport::Auto => command.env("UCX_TLS", "sm,self"),
        };
        command
    }
}

/// A server, which ends with its client; stopped when dropped.
struct RunningServer(Child);

impl RunningServer {
    fn wait(&mut self, end: Instant) {
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // Whether it ended by itself or now makes no difference.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A line of names and one of values.
fn parse(text: &str) -> Result<Vec<(String, f64)>> {
    let mut lines = text.lines().filter(|line| line.contains(','));
    let (Some(names), Some(values)) = (lines.next(), lines.next_back()) else {
        bail!("ucx_perftest said {text:?}");
    };
    let values = values.split(',').map(|value| value.trim().parse().unwrap_or(f64::NAN));
    Ok(names.split(',').map(|name| name.trim().to_owned()).zip(values).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_their_names() {
        let said = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n\
                    20000,0.642,23.307,60.626,0.33,0.13,42905,16495\n";
        let figures = parse(said).unwrap();
        assert!(figures.contains(&("50.0_percentile_lat".into(), 0.642)));
        assert!(figures.contains(&("overall_mr".into(), 16495.0)));
        assert!(parse("no figures").is_err());
    }
}
