//! Fuzz targets: whatever reads bytes from outside, and the engine under frames in any order.
//!
//! A target is a function of bytes that panics if what it tries does not hold; `cargo xtask fuzz`
//! makes up the bytes, guided by the code that they reach, with overflow checks. What it has found
//! worth keeping is in the folder `corpus`, which the tests of this package read again each day.

mod decoders;
mod engine;
mod host;
mod launcher;
mod links;
mod mpi;
mod script;

/// A function of bytes that panics if what it tries does not hold.
#[derive(Debug)]
pub struct Target {
    /// The name of the target and of the folder of its corpus.
    pub name: &'static str,
    /// The property that it tries, in a line.
    pub about: &'static str,
    /// Tries it.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "messages", about: "headers and bodies of messages", run: decoders::messages },
    Target { name: "cards", about: "cards and control messages", run: decoders::cards },
    Target {
        name: "handshakes",
        about: "messages of discovery and of handshakes",
        run: decoders::handshakes,
    },
    Target { name: "streams", about: "a handshake over a stream, in any pieces", run: links::streams },
    Target { name: "links", about: "a reliable link under any frames", run: links::reliable },
    Target { name: "serial", about: "a serial line under any bytes", run: links::serial },
    Target { name: "engine", about: "the engine under any frames, calls and orders", run: engine::engine },
    Target { name: "wireup", about: "messages between ranks and the launcher", run: host::wireup },
    Target { name: "pmi", about: "messages of process managers", run: host::pmi },
    Target { name: "rules", about: "files of collective rules, and questions to them", run: host::rules },
    Target {
        name: "launcher",
        about: "command lines, hosts and values for the launcher",
        run: launcher::launcher,
    },
    Target { name: "mpi", about: "the C interface under any calls", run: mpi::mpi },
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
