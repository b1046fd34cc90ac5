//! `aldis-switch`: a switch of Ethernet frames for emulators and Linux processes. [`cli`] is what
//! the user types, [`show`] is what is printed.

mod cli;
mod show;

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use aldis_linux::output;
use aldis_linux::platform::monotonic_ns;
use aldis_sim::command_line::parse;
use aldis_sim::switch::{CableKind, PortFaults, Switch};
use aldis_sys::event::{PollFd, PollFlags, PollTimeout, SfdFlags, SignalFd, poll};
use aldis_sys::file::{File, read};
use aldis_sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use cli::Options;

fn main() -> ExitCode {
    match parse().map(|options| run(&options)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => output::failed("aldis-switch", &error),
        Err(code) => code,
    }
}

fn run(options: &Options) -> io::Result<()> {
    let signals = take_over_signals()?;
    let mut switch = Switch::new(&options.folder, options.seed);
    for (kind, ports) in [(CableKind::Datagram, &options.datagram), (CableKind::Serial, &options.serial)] {
        ports
            .numbers()
            .try_for_each(|number| switch.add(number, kind, PortFaults::NONE, options.faults()))?;
    }
    if let Some(path) = &options.pcap {
        switch.capture(File::create(path).map_err(|error| named(path, &error))?)?;
    }
    show::ready()?;
    let until = options.seconds.map(|seconds| monotonic_ns().saturating_add(seconds.as_nanos() as u64));
    while !is_over(&signals, options.until_eof, until)? {
        let input = io::stdin();
        let mut others = vec![signals.as_fd()];
        others.extend(options.until_eof.then_some(input.as_fd()));
        switch.turn(until, &others)?;
    }
    switch.finish()?;
    show::statistics(&switch.statistics(), options.json)
}

/// Has the signals that ask for the end come as something to read, so that the last frames and
/// figures are written in peace.
fn take_over_signals() -> io::Result<SignalFd> {
    let mask: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    pthread_sigmask(SigmaskHow::SIG_BLOCK, &mask)?;
    Ok(SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

fn is_over(signals: &SignalFd, until_eof: bool, until: Option<u64>) -> io::Result<bool> {
    let signalled = signals.read_signal()?.is_some();
    let late = until.is_some_and(|until| monotonic_ns() >= until);
    Ok(signalled || late || (until_eof && input_is_over()?))
}

/// Returns true if standard input has ended. What it says is read and not looked at.
fn input_is_over() -> io::Result<bool> {
    let input = io::stdin();
    let mut polled = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    if poll(&mut polled, PollTimeout::ZERO)? == 0 {
        return Ok(false);
    }
    Ok(read(&input, &mut [0; 64])? == 0)
}

fn named(path: &std::path::Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
