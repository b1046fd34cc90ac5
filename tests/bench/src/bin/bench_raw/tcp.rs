//! A TCP connection over loopback alone: non-blocking calls, and the core offered to others
//! whenever there is nothing.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Instant;

use aldis_bench::batches::{Batch, BenchControl, Setup, TOKEN_BYTES, TurnWork, mark, uniform};
use aldis_linux::paged::Paged;

use crate::{Outcome, serve, start_second};

/// A rank.
struct TcpPlayer {
    first: bool,
    stream: TcpStream,
    out: Paged,
    back: Paged,
}

pub(crate) fn play(setup: &Setup, inherited: Option<OwnedFd>) -> Outcome<()> {
    if let Some(stream) = inherited {
        return TcpPlayer::new(TcpStream::from(stream), 1)?.serve(setup);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let theirs = TcpStream::connect(listener.local_addr()?)?;
    let (mine, _) = listener.accept()?;
    let mut second = start_second(theirs.into())?;
    let played = TcpPlayer::new(mine, 0)?.serve(setup);
    second.wait()?;
    played
}

impl TcpPlayer {
    fn new(stream: TcpStream, rank: usize) -> Outcome<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { first: rank == 0, stream, out: Paged::new(0), back: Paged::new(0) })
    }

    fn serve(mut self, setup: &Setup) -> Outcome<()> {
        serve(setup, usize::from(!self.first), |control, batch| {
            let len = batch.bytes * batch.each;
            (self.out, self.back) = (Paged::new(len), Paged::new(len));
            match batch.workload {
                TurnWork::Latency => self.latency(control, batch),
                TurnWork::Bandwidth => self.bandwidth(control, batch),
                TurnWork::Both => self.both(control, batch),
                _ => Err(format!("{batch:?} has no raw form").into()),
            }
        })
    }

    fn latency(&mut self, control: &mut BenchControl, batch: Batch) -> Outcome<()> {
        // A stream has no empty messages: the shortest is a byte.
        let len = batch.bytes.max(1);
        (self.out, self.back) = (Paged::new(len), Paged::new(len));
        self.out.fill(mark(batch.turns));
        let Self { first, stream, out, back } = self;
        control.run(batch, |_| -> Outcome<()> {
            if *first {
                send(stream, out)?;
                recv(stream, back)?;
            } else {
                recv(stream, back)?;
                send(stream, out)?;
            }
            Ok(())
        })?;
        self.arrived(mark(batch.turns))
    }

    fn bandwidth(&mut self, control: &mut BenchControl, batch: Batch) -> Outcome<()> {
        let Self { first, stream, out, back } = self;
        let mut token = [0; TOKEN_BYTES];
        control.run_parts(batch, |number| -> Outcome<Duration> {
            if !*first {
                recv(stream, back)?;
                send(stream, &token)?;
                return Ok(Duration::ZERO);
            }
            out.fill(mark(number));
            let start = Instant::now();
            send(stream, out)?;
            recv(stream, &mut token)?;
            Ok(start.elapsed())
        })?;
        if self.first { Ok(()) } else { self.arrived(mark(batch.turns - 1)) }
    }

    fn both(&mut self, control: &mut BenchControl, batch: Batch) -> Outcome<()> {
        let Self { stream, out, back, .. } = self;
        control.run_parts(batch, |number| -> Outcome<Duration> {
            out.fill(mark(number));
            meet(stream)?;
            let start = Instant::now();
            let (mut sent, mut received) = (0, 0);
            while sent < out.len() || received < back.len() {
                let wrote = some(stream.write(&out[sent..]))?;
                let read = if received < back.len() { some(stream.read(&mut back[received..]))? } else { 0 };
                (sent, received) = (sent + wrote, received + read);
            }
            meet(stream)?;
            Ok(start.elapsed())
        })?;
        self.arrived(mark(batch.turns - 1))
    }

    fn arrived(&self, sent: u8) -> Outcome<()> {
        if uniform(&self.back) == Some(sent) { Ok(()) } else { Err("a stream brought other bytes".into()) }
    }
}

/// Neither rank goes on before the other has come.
fn meet(stream: &mut TcpStream) -> io::Result<()> {
    send(stream, &[0; TOKEN_BYTES])?;
    recv(stream, &mut [0; TOKEN_BYTES])
}

fn send(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let wrote = some(stream.write(bytes))?;
        bytes = bytes.get(wrote..).unwrap_or_default();
    }
    Ok(())
}

fn recv(stream: &mut TcpStream, into: &mut [u8]) -> io::Result<()> {
    let mut received = 0;
    while received < into.len() {
        received += match stream.read(&mut into[received..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            result => some(result)?,
        };
    }
    Ok(())
}

/// Returns the number of bytes that went; 0, with the core offered to others, when the socket had
/// no room or no data.
fn some(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            std::thread::yield_now();
            Ok(0)
        }
        result => result,
    }
}
