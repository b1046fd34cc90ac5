//! A switch of Ethernet frames on unix sockets: how emulators and Linux processes of one job are
//! wired together, with the faults that a wire has.
//!
//! # The wire
//!
//! All sockets of a job stand in one folder, and the member with number `k` meets port `k`:
//!
//! | kind | socket of the switch | socket of the member | a frame is |
//! |---|---|---|---|
//! | [datagram](CableKind::Datagram) | `port<k>.sock` | `member<k>.sock` | one datagram |
//! | [serial](CableKind::Serial) | `serial<k>.sock`, a stream | connects to it | COBS: [`serial`] |
//!
//! [`serial`]: aldis_drivers::serial
//!
//! `qemu-system-*` takes the member's part with `-netdev
//! dgram,id=net,local.type=unix,local.path=member0.sock,remote.type=unix,remote.path=port0.sock`, a
//! Linux process with `aldis_nic::SocketNic`. A serial line of an
//! emulator is `-chardev socket,id=link,path=serial0.sock` and `-serial chardev:link`.
//!
//! # What it does
//!
//! It learns on which port a station lives from the frames that come from it, sends a frame for a
//! known station to that port alone and all others to every port but their own (IEEE
//! Std 802.1Q, 8.7 and 8.8). A queue of [`QUEUE_FRAMES`] stands before each member: one that is
//! slow loses frames, which are counted, and holds up no other. One that is gone is a cable without
//! a plug; it may come back.
//!
//! Faults are drawn from a seed for each direction of each port by itself ([`PortFaults`]), so that
//! what happens to the n-th frame in a direction depends on the seed alone. What leaves for the
//! members can be [captured](Switch::capture) in a file for `tshark -r` and Wireshark.
//!
//! One thread, one `poll(2)`; [`Switch::turn`] is one round of it.
//!
//! # Limits
//!
//! Frames of [`FRAME_BYTES_MIN`] to [`FRAME_BYTES_MAX`] bytes, [`STATIONS_MAX`] stations, no VLANs,
//! no spanning tree.

mod cable;
mod decision;
mod direction;
mod faults;
mod malformed;
mod port;
mod stations;
mod statistics;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use aldis_hal::nic::Mac;
use aldis_nic::Capture;
use aldis_sys::Errno;
use aldis_sys::event::{PollFd, PollFlags, TimeSpec, ppoll};
use aldis_sys::file::File;

use aldis_linux::platform::monotonic_ns;
use port::{DrawnFaults, SwitchPort};
use stations::Stations;

pub use cable::CableKind;
pub use faults::{BadRate, PortFaults, Rate};
pub use malformed::Malformed;
pub use stations::STATIONS_MAX;
pub use statistics::{FaultCounts, MalformedCounts, PortStatistics, Statistics};

/// The shortest frame: two addresses and an EtherType. Shorter ones are counted as runts and go
/// nowhere.
pub const FRAME_BYTES_MIN: usize = 14;
/// The longest frame, for jumbo frames and for those that no member may send.
pub const FRAME_BYTES_MAX: usize = 65_000;
/// Frames that wait for one member.
pub const QUEUE_FRAMES: usize = 256;
/// Frames taken from one port before the others have their turn.
const BURST_FRAMES: usize = 32;
/// The time for which a full socket is left alone, ns: a datagram socket does not say when its
/// member has room again.
const RETRY_NS: u64 = 100_000;

/// A switch and its ports.
#[derive(Debug)]
pub struct Switch {
    folder: PathBuf,
    seed: u64,
    ports: Vec<SwitchPort>,
    stations: Stations,
    capture: Option<Capture>,
    buffer: Vec<u8>,
}

impl Switch {
    /// A switch without ports, whose sockets will stand in `folder`.
    pub fn new(folder: impl Into<PathBuf>, seed: u64) -> Self {
        Self {
            folder: folder.into(),
            seed,
            ports: Vec::new(),
            stations: Stations::default(),
            capture: None,
            // One byte more than a frame may have, so that one that is too long is seen to be.
            buffer: vec![0; FRAME_BYTES_MAX + 1],
        }
    }

    /// Adds the port for member `number`. `from` are the faults of what comes from the member, `to`
    /// those of what goes to it.
    ///
    /// # Errors
    /// The socket cannot be made; if it stands there already, another switch uses the folder or
    /// died in it.
    pub fn add(&mut self, number: u32, kind: CableKind, from: PortFaults, to: PortFaults) -> io::Result<()> {
        let faults = DrawnFaults { seed: self.seed, from, to };
        self.ports.push(SwitchPort::bind(&self.folder, number, kind, faults)?);
        Ok(())
    }

    /// Writes every frame that leaves for a member to `file`, in the classic format of libpcap.
    ///
    /// # Errors
    /// The file's header cannot be written.
    pub fn capture(&mut self, file: File) -> io::Result<()> {
        self.capture = Some(Capture::begin(file)?);
        Ok(())
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self.ports.iter().map(SwitchPort::statistics))
    }

    /// Waits until a frame comes, one that was held back is due, or `until` ([`monotonic_ns`]) is
    /// reached, and handles what there is. Also returns when one of `others` can be read.
    ///
    /// # Errors
    /// `poll(2)` fails, or the capture cannot be written.
    pub fn turn(&mut self, until: Option<u64>, others: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<()> {
        self.wait(until, others)?;
        let now = monotonic_ns();
        for index in 0..self.ports.len() {
            self.take_from(index, now);
        }
        for index in 0..self.ports.len() {
            self.release(index, now);
        }
        self.ports.iter_mut().try_for_each(|port| port.flush(now, self.capture.as_mut()))
    }

    /// Writes out what was captured.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        self.capture.as_mut().map_or(Ok(()), Capture::flush)
    }

    fn wait(&self, until: Option<u64>, others: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<()> {
        let now = monotonic_ns();
        let due = self.ports.iter().filter_map(SwitchPort::due).chain(until).min();
        let timeout =
            due.map(|due| TimeSpec::from_duration(core::time::Duration::from_nanos(due.saturating_sub(now))));
        let mut polled: Vec<PollFd<'_>> = self.ports.iter().flat_map(SwitchPort::interests).collect();
        polled.extend(others.iter().map(|other| PollFd::new(*other, PollFlags::POLLIN)));
        match ppoll(&mut polled, timeout, None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what came from a member, as much as one turn allows.
    fn take_from(&mut self, index: usize, now: u64) {
        for _ in 0..BURST_FRAMES {
            let Some(port) = self.ports.get_mut(index) else { return };
            let Some(length) = port.receive(&mut self.buffer) else { return };
            let frame = self.buffer.get(..length).unwrap_or_default();
            let mut passed = Vec::new();
            port.inbound.pass(frame, now, &mut passed);
            passed.iter().for_each(|frame| self.forward(index, frame, now));
        }
    }

    /// Lets go of what was held back long enough.
    fn release(&mut self, index: usize, now: u64) {
        let Some(port) = self.ports.get_mut(index) else { return };
        let mut passed = Vec::new();
        port.inbound.release(now, &mut passed);
        port.release(now);
        passed.iter().for_each(|frame| self.forward(index, frame, now));
    }

    /// Sends a frame to where its destination lives, or everywhere.
    fn forward(&mut self, from: usize, frame: &[u8], now: u64) {
        let Some((destination, source)) = addresses(frame) else { return };
        self.stations.learn(source, from);
        match self.stations.port(destination) {
            Some(to) if to == from => {}
            Some(to) => {
                if let Some(port) = self.ports.get_mut(to) {
                    port.send(frame, now);
                }
            }
            None => {
                let others = self.ports.iter_mut().enumerate().filter(|(index, _)| *index != from);
                others.for_each(|(_, port)| port.send(frame, now));
            }
        }
    }
}

/// Destination and source of a frame.
fn addresses(frame: &[u8]) -> Option<(Mac, Mac)> {
    let (destination, rest) = frame.split_first_chunk::<6>()?;
    Some((Mac(*destination), Mac(*rest.first_chunk::<6>()?)))
}
