//! A transport of one's own: two processes joined by a socket pair, in one file, as the guide
//! [Adding a transport](../../../docs/adding-a-transport.md) describes it.
//!
//! ```text
//! cargo run --release -p aldis-linux --example pipe
//! ```
//!
//! Rank 0 starts rank 1 as its child, whose standard input is the other end. They exchange messages
//! from 0 B to 1 MiB, every byte verified.

use core::error::Error;
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant as Clock;
use std::{env, io, thread};

use aldis_drivers::Loopback;
use aldis_kernel::hal::cause::Malformed;
use aldis_kernel::hal::transport::{Extras, Quiesce, Sink, Slot, Transport};
use aldis_kernel::hal::{
    Again, Caps, Cause, Cost, Epoch, Features, Instant, Limits, PeerId, Platform, Post, Refusal, RemoteMemory,
};
use aldis_kernel::protocols::Card;
use aldis_kernel::{Composite, Config, Endpoint, Rank, Tag};

/// Bytes of the largest message.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Bytes before each message: its length, little-endian, and padding. As many as keep messages
/// aligned.
const HEAD_BYTES: usize = 8;
/// Bytes that wait here to be written: a few messages of the largest size.
const OUT_BYTES: usize = 4 * (HEAD_BYTES + MESSAGE_BYTES_MAX);

/// The transport of two ranks to each other over a stream.
struct Pipe {
    peer: PeerId,
    stream: UnixStream,
    caps: Caps,
    /// Bytes that have been posted and are not written yet.
    out: Vec<u8>,
    /// Bytes of the frame that is coming in: a head, then a message.
    into: Box<[u8; HEAD_BYTES + MESSAGE_BYTES_MAX]>,
    /// The number of those that have come.
    come: usize,
    /// True if a post was refused since the sink was last notified of room.
    is_waiting: bool,
    /// True once the peer is gone, or was let go of.
    is_over: bool,
}

impl Pipe {
    fn new(me: PeerId, stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let features = Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE;
        let max = MESSAGE_BYTES_MAX as u32;
        let limits = Limits { short_bytes_max: max, bcopy_bytes_max: max, ..Limits::default() };
        let cost = Cost { overhead_ns: 2000, latency_ns: 5000, per_kib_ns: 300 };
        Ok(Self {
            peer: PeerId(1 - me.0),
            stream,
            caps: Caps { features, limits, cost, ..Caps::default() },
            out: Vec::with_capacity(OUT_BYTES),
            into: Box::new([0; HEAD_BYTES + MESSAGE_BYTES_MAX]),
            come: 0,
            is_waiting: false,
            is_over: false,
        })
    }

    /// Checks that a message of `len` bytes can be taken now. All that can be refused is refused
    /// here.
    fn admit(&mut self, peer: PeerId, len: usize) -> Result<(), Refusal> {
        self.reach(peer).map_err(Refusal::Never)?;
        if len > MESSAGE_BYTES_MAX {
            let (len, max) = (len as u64, MESSAGE_BYTES_MAX as u64);
            return Err(Refusal::Never(Cause::TooBig { len, max }));
        }
        if self.out.len() + HEAD_BYTES + len > OUT_BYTES {
            self.is_waiting = true;
            return Err(Refusal::Again(Again::NoSlot));
        }
        Ok(())
    }

    /// Queues one message of these parts, which has been admitted, and writes what can be written.
    fn send(&mut self, parts: [&[u8]; 2]) {
        let len = parts[0].len() + parts[1].len();
        self.out.extend_from_slice(&(len as u64).to_le_bytes());
        self.out.extend_from_slice(parts[0]);
        self.out.extend_from_slice(parts[1]);
        self.flush();
    }

    /// Writes what waits. An error here is found by the next read as well.
    fn flush(&mut self) {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(bytes) => drop(self.out.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Reads on in the frame that is coming in. True once it is whole, its message in
    /// [`message`](Self::message).
    fn receive(&mut self) -> Result<bool, Cause> {
        loop {
            let end = HEAD_BYTES + if self.come < HEAD_BYTES { 0 } else { self.message_len()? };
            if self.come >= HEAD_BYTES && self.come == end {
                return Ok(true);
            }
            let room = self.into.get_mut(self.come..end).unwrap_or_default();
            match self.stream.read(room) {
                Ok(0) => return Err(Cause::PeerDead),
                Ok(bytes) => self.come += bytes,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(false),
                    ErrorKind::Interrupted => {}
                    _ => return Err(Cause::PeerDead),
                },
            }
        }
    }

    /// The length in the head, if the peer's word for it can be.
    fn message_len(&self) -> Result<usize, Cause> {
        let head = self.into.first_chunk().map_or(u64::MAX, |head| u64::from_le_bytes(*head));
        let len = usize::try_from(head).ok().filter(|len| *len <= MESSAGE_BYTES_MAX);
        len.ok_or(Cause::Malformed(Malformed::Length))
    }

    fn message(&self) -> &[u8] {
        self.into.get(HEAD_BYTES..self.come).unwrap_or_default()
    }
}

/// A message being written. It is queued by the commit, so one that is dropped has taken nothing.
struct PipeSlot<'a> {
    pipe: &'a mut Pipe,
    bytes: Vec<u8>,
}

impl Slot for PipeSlot<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn commit(self) {
        self.pipe.send([&self.bytes, &[]]);
    }
}

impl Transport for Pipe {
    type Slot<'a> = PipeSlot<'a>;

    fn name(&self) -> &'static str {
        "pipe"
    }
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        match peer == self.peer {
            false => Err(Cause::Unreachable),
            true if self.is_over => Err(Cause::PeerDead),
            true => Ok(&self.caps),
        }
    }
    fn features(&self) -> Features {
        self.caps.features
    }
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        match self.admit(peer, header.len() + payload.len()) {
            Ok(()) => {
                self.send([header, payload]);
                Post::Done
            }
            Err(refusal) => refusal.into(),
        }
    }
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<PipeSlot<'_>, Refusal> {
        self.admit(peer, len)?;
        Ok(PipeSlot { pipe: self, bytes: vec![0; len] })
    }
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        if what != Quiesce::Peer(self.peer) {
            return Err(Cause::Stale);
        }
        self.is_over = true;
        self.out.clear();
        Ok(())
    }
    fn poll<S: Sink>(&mut self, budget: u32, _now: Instant, sink: &mut S) -> u32 {
        let mut events = 0;
        if self.is_over {
            return events;
        }
        self.flush();
        if events < budget && self.is_waiting && self.out.is_empty() {
            self.is_waiting = false;
            sink.ready(self.peer);
            events += 1;
        }
        while events < budget {
            match self.receive() {
                Ok(true) => {
                    sink.arrived(self.peer, self.message());
                    self.come = 0;
                }
                Ok(false) => break,
                Err(cause) => {
                    self.is_over = true;
                    self.out.clear();
                    sink.lost(self.peer, cause);
                }
            }
            events += 1;
            if self.is_over {
                break;
            }
        }
        events
    }
    fn is_idle(&self) -> bool {
        self.out.is_empty()
    }
}

impl Extras for Pipe {}
impl RemoteMemory for Pipe {}

/// The host's clock; a rank that waits yields.
struct PipeHost(Clock);

impl Platform for PipeHost {
    fn now(&self) -> Instant {
        Instant(self.0.elapsed().as_nanos() as u64)
    }
    fn relax(&mut self, _idle: u32) {
        thread::yield_now();
    }
    fn entropy(&mut self) -> u64 {
        u64::from(std::process::id())
    }
}

aldis_kernel::storage! {
    static STORAGE: peers = 2, requests = 16, communicators = 4,
        envelopes = 8, blocks = 2, block_bytes = 256, pooled = 2, bins = 16
}

const RANK_1: &str = "ALDIS_PIPE_RANK_1";
const LIMIT: Duration = Duration::from_secs(10);

/// Sizes that are exchanged, in bytes: messages of one slot, of several, and long ones.
const SIZES: [usize; 8] = [0, 1, 24, 25, 300, 5000, MESSAGE_BYTES_MAX, 1 << 20];

fn rank(me: u32, mut stream: UnixStream) -> Result<(), Box<dyn Error>> {
    let mut frames = [0; 4096];
    let itself = Loopback::new(PeerId(me), &mut frames, 512)?;
    let epoch = Epoch::from_entropy(PipeHost(Clock::now()).entropy());
    let config = Config { me: PeerId(me), size: 2, epoch };
    let memory = STORAGE.take().ok_or("the storage is taken")?;
    let transport = Composite::new(itself, Pipe::new(PeerId(me), stream.try_clone()?)?);
    let mut ep = Endpoint::new(memory, transport, PipeHost(Clock::now()), config)?;

    // The cards go over the same stream, before the first message.
    stream.set_nonblocking(false)?;
    let mut bytes = [0; 256];
    let card = ep.card();
    let card = card.encode(&mut bytes)?;
    stream.write_all(&[card.len() as u8])?;
    stream.write_all(card)?;
    let mut len = [0];
    stream.read_exact(&mut len)?;
    let bytes = bytes.get_mut(..usize::from(len[0])).ok_or("a card of that length")?;
    stream.read_exact(bytes)?;
    ep.connect(&Card::decode(bytes)?)?;
    stream.set_nonblocking(true)?;

    let (world, other) = (ep.world(), Rank(1 - me));
    for (len, tag) in SIZES.into_iter().zip(0..) {
        let mine: Vec<u8> = (0..len).map(|at| (at * 7 + me as usize) as u8).collect();
        let mut got = vec![0; len];
        if me == 0 {
            ep.within(LIMIT).send(&world, &mine, other, Tag(tag))?;
        }
        let status = ep.within(LIMIT).recv(&world, &mut got, other, Tag(tag))?;
        if me == 1 {
            ep.within(LIMIT).send(&world, &mine, other, Tag(tag))?;
        }
        let is_right = |(at, byte): (usize, &u8)| *byte == (at * 7 + other.0 as usize) as u8;
        if status.bytes != len as u64 || !got.iter().enumerate().all(is_right) {
            return Err(format!("rank {me}: a message of {len} bytes came damaged").into());
        }
    }
    if me == 0 {
        println!("{}", ep.explain(other, 1 << 20)?);
    }
    ep.leave(LIMIT)?;
    Ok(())
}

/// Starts rank 1 and is rank 0.
fn both() -> Result<(), Box<dyn Error>> {
    let (near, far) = UnixStream::pair()?;
    let mut child = Command::new(env::current_exe()?);
    let mut child = child.env(RANK_1, "").stdin(Stdio::from(OwnedFd::from(far))).spawn()?;
    rank(0, near)?;
    if !child.wait()?.success() {
        return Err("rank 1 has failed".into());
    }
    println!("{} messages each way, verified", SIZES.len());
    Ok(())
}

fn main() -> ExitCode {
    let done = if env::var_os(RANK_1).is_some() {
        let end = io::stdin().as_fd().try_clone_to_owned();
        end.map_err(Into::into).and_then(|end| rank(1, end.into()))
    } else {
        both()
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
