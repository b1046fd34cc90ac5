//! A network of a job's own, with a port for each emulator: TAPs of several queues on a bridge.

use core::time::Duration;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::mpsc::Receiver;

use aldis_shell::children::{Child, lines_of};
use aldis_shell::steps::Outcome;
use anyhow::{Result, bail};

/// The time that the network may take to be there.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// The network of a job. It is gone with the last process in it.
pub(super) struct Bridge {
    child: Child,
}

impl Bridge {
    /// Lays out a bridge with this number of TAPs, `t0` and following.
    pub(super) fn start(taps: usize) -> Result<Self> {
        let mut child = Child::start(&network(&layout(taps)))?;
        let streams: Vec<Receiver<String>> = child.streams().map(lines_of).collect();
        let Some(Ok(first)) = streams.first().map(|lines| lines.recv_timeout(READY_LIMIT)) else {
            let said: Vec<String> = streams.iter().flat_map(Receiver::try_iter).collect();
            bail!("no bridge of TAPs in a network of its own: {}", said.join(" "));
        };
        if first != "ready" {
            bail!("the bridge of TAPs began with {first:?}");
        }
        Ok(Self { child })
    }

    /// A command in this network.
    pub(super) fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.args(["-t", &self.child.pid().to_string(), "-U", "-n", "--preserve-credentials"]);
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }
}

/// The reason why there can be no such network here, if there can be none.
pub(super) fn missing() -> Option<Outcome> {
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let try_out = || match network(&layout(1)).stdin(std::process::Stdio::null()).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    };
    let why = REFUSED.get_or_init(try_out).as_ref()?;
    let enable =
        "a system that lets users have networks of their own, /dev/net/tun, apt-get install iproute2";
    Some(Outcome::Skipped { why: format!("no TAPs in a network of one's own: {why}"), enable: enable.into() })
}

/// A shell in a network of its own, which says that it is laid out and stays until its input ends.
fn network(layout: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-Urn", "sh", "-ec", &format!("{layout}; echo ready; exec cat")]);
    command
}

fn layout(taps: usize) -> String {
    let mut commands = String::from(
        "sysctl -qw net.ipv6.conf.default.disable_ipv6=1 || true; ip link add br0 type bridge; ip link set br0 up",
    );
    for tap in 0..taps {
        commands.push_str(&format!(
            "; ip tuntap add dev t{tap} mode tap multi_queue; ip link set t{tap} master br0 up"
        ));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_a_port_of_the_bridge() {
        let layout = layout(2);
        for tap in ["t0", "t1"] {
            let port = format!("tuntap add dev {tap} mode tap multi_queue; ip link set {tap} master br0 up");
            assert!(layout.contains(&port), "{layout}");
        }
        assert!(!layout.contains("t2"));
    }
}
