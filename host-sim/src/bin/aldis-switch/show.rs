//! What is printed.

use std::io::{self, Write};

use aldis_host_sim::switch::{PortStatistics, Statistics};

/// The line that says that members may come: the first on standard output.
pub(crate) fn ready() -> io::Result<()> {
    say(format_args!("ready"))
}

/// The figures at the end.
pub(crate) fn statistics(statistics: &Statistics, json: bool) -> io::Result<()> {
    if json {
        return say(format_args!("{}", serde_json::to_string(statistics).map_err(io::Error::other)?));
    }
    say(format_args!(
        "  port  received      sent      lost   doubled reordered  late damaged malformed  overflow  absent"
    ))?;
    statistics.ports.iter().try_for_each(port)
}

fn port(port: &PortStatistics) -> io::Result<()> {
    let (inbound, outbound) = (&port.inbound, &port.outbound);
    say(format_args!(
        "  {:>4}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>4}  {:>6}  {:>8}  {:>8}  {:>6}",
        port.port,
        port.received,
        port.sent,
        inbound.lost + outbound.lost,
        inbound.duplicated + outbound.duplicated,
        inbound.reordered + outbound.reordered,
        inbound.delayed + outbound.delayed,
        inbound.corrupted + outbound.corrupted,
        inbound.malformed.sum() + outbound.malformed.sum(),
        port.overflowed,
        port.absent
    ))
}

/// One line; whoever reads it may have gone, which is no reason to fail.
fn say(line: core::fmt::Arguments<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
