//! DPDK's forwarding program, of which a test makes a switch between two memifs.

use core::time::Duration;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

/// The program, of Debian's package dpdk-dev.
pub const TESTPMD: &str = "dpdk-testpmd";

/// The line by which it says that it forwards.
const FORWARDS: &str = "Press enter to exit";

/// The longest time that it takes to begin.
const BEGIN: Duration = Duration::from_secs(30);

/// A switch that hands what comes from interface 0 of its socket to interface 1, and back. It is
/// killed when it is dropped.
///
/// A switch is for the cards of one job: that of DPDK 22.11 was seen to end when a client left on a
/// busy machine. It gives the client's memory back, where its forwarding core may be in a burst.
#[derive(Debug)]
pub struct Testpmd(Child);

impl Testpmd {
    /// Starts one whose socket is at this path, with memory of its own: it takes no root and no
    /// huge pages.
    ///
    /// # Panics
    /// If there is none, or it does not begin to forward.
    pub fn start(socket: &Path) -> Self {
        // What one that was killed has left, on which no other can listen.
        let _ = std::fs::remove_file(socket);
        let name = socket.display().to_string().replace('/', "-");
        // It would keep what it says to itself otherwise.
        let mut command = Command::new("stdbuf");
        command.args(["-oL", TESTPMD]);
        command.args([
            "--no-huge",
            "-m",
            "128",
            "--no-pci",
            "--no-telemetry",
            "--no-shconf",
            "--log-level=error",
        ]);
        command.args(["-l", "0,1", &format!("--file-prefix={name}")]);
        for id in [0, 1] {
            let shown = socket.display();
            let role = format!("role=server,id={id},socket={shown},socket-abstract=no");
            command.arg(format!("--vdev=net_memif{id},{role}"));
        }
        command.args([
            "--",
            "--forward-mode=io",
            "--total-num-mbufs=4096",
            "--no-mlockall",
            "--disable-link-check",
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut switch = Self(command.spawn().expect(TESTPMD));
        let (sender, said) = channel();
        let output = BufReader::new(switch.0.stdout.take().expect("piped"));
        // It reads to the end, so that the program never waits to say something.
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)))
        });
        let mut all = Vec::new();
        while let Ok(line) = said.recv_timeout(BEGIN) {
            if line.contains(FORWARDS) {
                return switch;
            }
            all.push(line);
        }
        panic!("{TESTPMD} does not forward: {all:#?}");
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
