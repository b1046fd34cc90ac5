//! The printed output.

use std::io::{self, ErrorKind};

use aldis_linux::output;
use aldis_sim::switch::{PortStatistics, Statistics};

/// The line that says that members may come: the first on standard output. The switch goes on if
/// its reader reads no further.
pub(crate) fn ready() -> io::Result<()> {
    match say(format_args!("ready")) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        said => said,
    }
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

/// Writes one line.
fn say(line: core::fmt::Arguments<'_>) -> io::Result<()> {
    Ok(output::print(format_args!("{line}\n"))?)
}
