//! A network of a test's own: interfaces in a namespace that goes with the last process in it. It
//! takes no root where the system lets users have namespaces, but for programs of the system's own
//! that only root may load.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::OnceLock;

/// Two hosts, `left` and `right`, and a cable between their `eth0`.
pub const HOSTS: &str = "mount -t tmpfs none /run; mkdir /run/netns; ip netns add left; ip netns add right; \
                         ip link add eth0 netns left type veth peer name eth0 netns right; \
                         for host in left right; do ip -n $host link set eth0 up; done";

/// Two TAPs on a bridge, `t0` and `t1`.
pub const TAPS: &str = "ip link add br0 type bridge; ip link set br0 up; \
                        for tap in t0 t1; do ip tuntap add dev $tap mode tap; ip link set $tap master br0; done";

/// Says to a test that it is inside of its network.
const INSIDE: &str = "ALDIS_TEST_INSIDE";

/// Two ends of a cable, `v0` and `v1`.
pub const CABLE: &str = "ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up";

/// Two bridges, with a port on each for either of two ranks: `a0` and `a1`, `b0` and `b1`, whose
/// ends at the bridges are `pa0` to `pb1`.
pub const TWO_BRIDGES: &str = "for wire in a b; do ip link add br$wire type bridge; ip link set br$wire up; \
                               for rank in 0 1; do ip link add $wire$rank type veth peer name p$wire$rank; \
                               ip link set p$wire$rank master br$wire; ip link set p$wire$rank up; \
                               ip link set $wire$rank up; done; done";

/// Seconds after which a test inside of a network hangs.
const HANG_S: &str = "60";

/// Commands that every network begins with: no chatter of IPv6 on cables.
const QUIET: &str = "set -e; ip link set lo up; sysctl -qw net.ipv6.conf.default.disable_ipv6=1 || true";

/// The user whose a network is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetworkOwner {
    /// The user who runs the test, with users of the network's own.
    Tester,
    /// Root, of all users.
    Root,
}

impl NetworkOwner {
    /// The options of `unshare` that make a network.
    const fn options(self) -> &'static str {
        match self {
            Self::Tester => "-Urnm",
            Self::Root => "-nm",
        }
    }

    /// The reason why there can be no such network, if there can be none.
    fn refused(self) -> Option<&'static str> {
        static REFUSED: [OnceLock<Option<String>>; 2] = [const { OnceLock::new() }; 2];
        let tried = || match Command::new("unshare").args([self.options(), "sh", "-ec", CABLE]).output() {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Some(format!("unshare: {error}")),
        };
        REFUSED[self as usize].get_or_init(tried).as_deref()
    }

    /// A program in a network that these commands of a shell lay out. `None` where there can be
    /// none, with the reason on standard error.
    pub fn command(self, layout: &str, program: impl AsRef<OsStr>) -> Option<Command> {
        if let Some(reason) = self.refused() {
            eprintln!("skipped: no network of its own here: {reason}");
            return None;
        }
        let mut command = Command::new("unshare");
        command.args([self.options(), "sh", "-c", &format!("{QUIET}; {layout}; exec \"$@\""), "sh"]);
        command.arg(program);
        Some(command)
    }

    /// Returns true inside of a network of this layout. Outside it runs the test of this name
    /// inside of one, or says why that was skipped.
    ///
    /// # Panics
    /// If the test fails there.
    pub fn is_inside(self, layout: &str, test: &str) -> bool {
        if std::env::var_os(INSIDE).is_some() {
            return true;
        }
        let own = std::env::current_exe().expect("the test's own path");
        let Some(mut command) = self.command(layout, "timeout") else { return false };
        command.arg(HANG_S).arg(own).args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
        let output = command.output().expect("a test in a network of its own");
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let passed = output.status.success() && said[0].contains("1 passed");
        assert!(passed, "{test} inside of a network: {}\n{}{}", output.status, said[0], said[1]);
        false
    }
}

/// A program in a network of the tester's, as [`NetworkOwner::command`] makes it.
pub fn command(layout: &str, program: impl AsRef<OsStr>) -> Option<Command> {
    NetworkOwner::Tester.command(layout, program)
}

/// Returns true inside of a network of the tester's, as [`NetworkOwner::is_inside`] does.
///
/// # Panics
/// If the test fails there.
pub fn is_inside(layout: &str, test: &str) -> bool {
    NetworkOwner::Tester.is_inside(layout, test)
}
