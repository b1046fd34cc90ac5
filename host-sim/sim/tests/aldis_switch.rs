//! `aldis-switch` as a user meets it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A switch in a folder of its own; both are gone when this is dropped.
struct RunningSwitch {
    child: Child,
    folder: PathBuf,
}

impl RunningSwitch {
    fn start(name: &str, options: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("aldis-switch-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_aldis-switch"));
        // A test that hangs ends with the switch.
        command.arg(&folder).args(["--until-eof", "--seconds", "60"]).args(options);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Self { child, folder }
    }

    fn member(&self, number: u32) -> UnixDatagram {
        let member = UnixDatagram::bind(self.folder.join(format!("member{number}.sock"))).unwrap();
        member.set_read_timeout(Some(core::time::Duration::from_secs(30))).unwrap();
        member
    }
}

impl Drop for RunningSwitch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn it_joins_members_counts_captures_and_leaves_nothing() {
    let pcap = std::env::temp_dir().join(format!("aldis-switch-{}.pcap", std::process::id()));
    let mut switch =
        RunningSwitch::start("join", &["--datagram", "0,3", "--json", "--pcap", pcap.to_str().unwrap()]);
    let mut out = BufReader::new(switch.child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let (one, other) = (switch.member(0), switch.member(3));
    let frame = [[0xFF; 6].as_slice(), &[2, 0, 0, 0, 0, 1], &[0x88, 0xB5], b"hello"].concat();
    one.send_to(&frame, switch.folder.join("port0.sock")).unwrap();
    let mut buffer = [0; 100];
    assert_eq!(other.recv(&mut buffer).unwrap(), frame.len());

    drop(switch.child.stdin.take());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(switch.child.wait().unwrap().success());
    let figures: serde_json::Value = serde_json::from_str(&rest).unwrap();
    assert_eq!((&figures["received"], &figures["sent"]), (&1.into(), &1.into()), "{figures}");
    assert_eq!((&figures["ports"][1]["port"], &figures["ports"][1]["sent"]), (&3.into(), &1.into()));
    assert!(!switch.folder.join("port0.sock").exists() && !switch.folder.join("port3.sock").exists());

    // 24 bytes in front of all, 16 in front of each.
    assert_eq!(std::fs::read(&pcap).unwrap().len(), 24 + 16 + frame.len());
    let tshark = Command::new("tshark").arg("-r").arg(&pcap).args(["-T", "fields", "-e", "eth.src"]).output();
    if let Ok(told) = tshark {
        assert_eq!(String::from_utf8_lossy(&told.stdout).trim(), "02:00:00:00:00:01");
    }
    std::fs::remove_file(pcap).unwrap();
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_aldis-switch")).arg("/nowhere/at/all").output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/nowhere/at/all/port0.sock"), "{said}");
}
