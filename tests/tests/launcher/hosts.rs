//! Hosts: how their agents are reached, and what is said of those that cannot be. No machine here
//! has an ssh server, so ssh is a script that does with its arguments what ssh and the server's
//! shell do.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::pty::openpty;

use crate::harness::{RANK, becomes, program, run, start};

/// A folder of this test's own, emptied.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A program called `ssh` that logs its arguments and, like ssh, gives all that follows the host to
/// a shell. `on_host` is shell code that comes before.
pub(crate) fn fake_ssh(folder: &Path, on_host: &str) -> String {
    let (path, log) = (folder.join("ssh"), folder.join("log"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> '{}'\nwhile :; do case $1 in -*) shift 2;; *) break;; esac; done\n\
         host=$1; shift\n{on_host}\nexec sh -c \"$*\"\n",
        log.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn agents_are_started_by_ssh_with_every_word_quoted() {
    let folder = folder("quoted");
    let ssh = fake_ssh(&folder, "");
    // A path that a shell would take apart.
    let agent = folder.join("it's a $HOME; path");
    symlink(program("aldis-run"), &agent).unwrap();
    let script = "echo \"$VARIABLE\" in \"$(pwd)\"; exit 6";
    let ssh = format!("{ssh} -p 2222");
    let ended = run([
        "-n",
        "2",
        "--host",
        "me@b,[::1]",
        "--ssh",
        &ssh,
        "--agent",
        agent.to_str().unwrap(),
        "--wdir",
        "/usr",
        "--env",
        "VARIABLE=it's  $HOME \"x\"",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(ended.code, Some(6), "{ended:#?}");
    assert!(ended.out.contains("] it's  $HOME \"x\" in /usr\n"), "{ended:#?}");
    let log = fs::read_to_string(folder.join("log")).unwrap();
    for host in ["me@b", "::1"] {
        let start = format!("-p 2222 -o BatchMode=yes -o ConnectTimeout=10 {host} '");
        assert!(log.lines().any(|line| line.starts_with(&start)), "{log}");
    }
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    let folder = folder("unreachable");
    let refusal =
        "if [ $host = b ]; then echo 'ssh: connect to host b port 22: Connection refused' >&2; exit 255; fi";
    let ssh = fake_ssh(&folder, refusal);
    let ended = run(["-n", "4", "--host", "a,b", "--ssh", &ssh, RANK, "hang"]);
    ended.says(1, &["host b: cannot be reached", "exited with code 255", "Connection refused"]);
    run(["-n", "2", "--host", "a", "--ssh", "/no/such/ssh", RANK, "hang"])
        .says(1, &["host a: cannot be reached: cannot start /no/such/ssh"]);
    run(["-n", "2", "--host", "a", "--ssh", &ssh, "--agent", "/no/such/agent", RANK, "hang"])
        .says(1, &["host a: cannot be reached", "exited with code 127", "/no/such/agent"]);
}

#[test]
fn a_host_that_says_nothing_is_not_waited_for_for_ever() {
    let folder = folder("silent");
    let ssh = fake_ssh(&folder, "[ $host = b ] && exec sleep 60");
    let ended = run(["-n", "2", "--host", "a,b", "--ssh", &ssh, "--join-timeout", "0.7", RANK, "hang"]);
    ended.says(1, &["host b: did not answer within 0.7 s (--join-timeout)"]);
    let ssh = fake_ssh(&folder, "echo Welcome to host $host, please enjoy your stay");
    run(["-n", "1", "--host", "a", "--ssh", &ssh, RANK, "hang"]).says(1, &["host a: ", "a shell's profile?"]);
}

#[test]
fn a_program_that_one_host_lacks_is_told_with_the_host() {
    let folder = folder("lacking");
    let ssh = fake_ssh(&folder, "[ $host = b ] && PATH=/nowhere && exec \"$@\"");
    let ended = run(["-n", "2", "--host", "a,b", "--ssh", &ssh, "sleep", "60"]);
    ended.says(127, &["host b: cannot start sleep: no such program in PATH"]);
    let ended = run(["-n", "2", "--host", "localhost,b", "--ssh", &ssh, "--wdir", "/no/such/folder", "true"]);
    ended.says(1, &["cannot work in /no/such/folder", "see --wdir"]);
}

#[test]
fn an_interrupt_before_the_hosts_answer_ends_the_job() {
    let folder = folder("interrupted");
    let ssh = fake_ssh(&folder, "exec sleep 60");
    let job = start(["-n", "2", "--host", "a", "--ssh", &ssh, RANK, "hang"]);
    let log = folder.join("log");
    assert!(becomes(core::time::Duration::from_secs(10), || log.exists()));
    job.signal(nix::sys::signal::Signal::SIGTERM);
    job.wait().says(143, &["ended by SIGTERM"]);
}

#[test]
fn hosts_of_a_file_are_used() {
    let folder = folder("hostfile");
    let ssh = fake_ssh(&folder, "");
    let file = folder.join("hosts");
    fs::write(&file, "# two of them\na slots=1\n\nb:2 # the larger\n").unwrap();
    let script = "echo on; exit 3";
    let ended = run(["-n", "3", "--hostfile", file.to_str().unwrap(), "--ssh", &ssh, "sh", "-c", script]);
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    assert_eq!(fs::read_to_string(folder.join("log")).unwrap().lines().count(), 2);
    fs::write(&file, "a slots=none\n").unwrap();
    run(["-n", "3", "--hostfile", file.to_str().unwrap(), "true"])
        .says(2, &["line 1: `none` is no number of slots"]);
}

/// Returns what a job says on a terminal, and its exit code.
fn on_a_terminal(arguments: &[&str]) -> (String, i32) {
    let terminal = openpty(None, None).unwrap();
    let mut command = Command::new(program("aldis-run"));
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(terminal.slave);
    let mut job = command.spawn().unwrap();
    // With it goes this process's copy of the terminal, whose end is otherwise never seen.
    drop(command);
    let mut said = Vec::new();
    // A terminal that all have closed is told as an error.
    let _ = fs::File::from(terminal.master).read_to_end(&mut said);
    let code = job.wait().unwrap().code().unwrap();
    (String::from_utf8(said).unwrap(), code)
}

/// A terminal whose other end is asleep keeps the launcher from nothing else: agents hear from it.
#[test]
fn a_terminal_that_is_not_read_stops_no_job() {
    let terminal = openpty(None, None).unwrap();
    let mut command = Command::new(program("aldis-run"));
    command.args(["-n", "2", "--host", "local:a,local:b", "--host-timeout", "1"]);
    command.args(["--any-program", "sh", "-c", "seq 1 20000"]);
    command.stdin(Stdio::null()).stdout(terminal.slave.try_clone().unwrap()).stderr(terminal.slave);
    let mut job = command.spawn().unwrap();
    drop(command);
    // Agents give the launcher up after one and a half.
    std::thread::sleep(core::time::Duration::from_secs(4));
    let mut said = Vec::new();
    let _ = fs::File::from(terminal.master).read_to_end(&mut said);
    assert_eq!(job.wait().unwrap().code(), Some(0), "{}", String::from_utf8_lossy(&said));
    assert_eq!(String::from_utf8(said).unwrap().lines().filter(|line| line.ends_with(" 20000")).count(), 2);
}

/// Returns what a job of more ranks than cores says on a terminal, its exit code, and the note that
/// is due. `None` where 60 ranks are not more.
fn crowd_on_a_terminal(options: &[&str]) -> Option<(String, i32, String)> {
    let cores = std::thread::available_parallelism().unwrap().get();
    let ranks = (cores < 60).then(|| (cores + 1).to_string())?;
    let job = ["-n", &ranks, "--host", "local:a"];
    let (said, code) = on_a_terminal(&[&job, options, &["--any-program", "true"]].concat());
    let note = format!("aldis-run: note: {ranks} ranks share {cores} cores");
    Some((said, code, note))
}

#[test]
fn a_slow_start_is_shown_on_a_terminal() {
    let folder = folder("slow");
    let ssh = fake_ssh(&folder, "[ $host = b ] && exec sleep 60");
    let job = ["-n", "2", "--host", "a,b", "--ssh", &ssh, "--join-timeout", "4"];
    let (said, code) = on_a_terminal(&[&job[..], &[RANK, "hang"]].concat());
    assert!(said.contains("aldis-run: note: 1 of 2 hosts have answered; still missing: b"), "{said}");
    assert!(code == 1 && said.contains("host b: did not answer within 4.0 s"), "{said}");
    let script = format!("[ $ALDIS_RANK = 1 ] && sleep 60; exec {RANK} hang");
    let job = ["-n", "3", "--join-timeout", "4", "sh", "-c", &script];
    let (said, code) = on_a_terminal(&job);
    assert!(said.contains("aldis-run: note: 0 of 3 ranks have joined; still missing: 0-2"), "{said}");
    assert_eq!(code, 1, "{said}");
    let (said, _) = on_a_terminal(&[&["--quiet"], &job[..]].concat());
    assert!(!said.contains(" note: "), "{said}");
}

#[test]
fn a_crowded_host_is_noted_on_a_terminal() {
    let Some((said, code, note)) = crowd_on_a_terminal(&["--timeout", "60"]) else { return };
    assert_eq!((said.matches(" note: ").count(), code), (1, 0), "{said}");
    assert!(said.contains(&note), "{note:?} is missing in {said:?}");
    let Some((said, code, _)) = crowd_on_a_terminal(&["--timeout", "60", "--quiet"]) else { return };
    assert_eq!((said.as_str(), code), ("", 0));
}

#[test]
fn a_crowded_host_is_nothing_to_a_pipe() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let ranks = (cores + 1).min(60).to_string();
    let ended = run(["-n", &ranks, "--host", "local:a", "--any-program", "true"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:#?}");
}
