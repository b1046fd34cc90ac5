//! Jobs of `aldis-run`: starting them, waiting for them, reading their reports.

use core::time::Duration;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A job that takes longer hangs.
const WATCHDOG: Duration = Duration::from_secs(60);

/// The time that a launcher that was asked to end may take to say what every rank was doing.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Returns a program of `aldis-linux`, built in the profile and target folder of this test:
/// `aldis-run` or `examples/<name>`.
pub fn program(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        // The test itself is <target>/<profile>/deps/<name>.
        let test = std::env::current_exe().expect("the test's own path");
        let profile = test.parent().and_then(Path::parent).expect("a profile folder");
        let target = profile.parent().expect("a target folder");
        let mut cargo = Command::new(env!("CARGO"));
        // With the workspace's features, as the tests of the workspace are built: nothing is built
        // twice then.
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--locked", "--workspace"]);
        cargo.args(["--bin", "aldis-run", "--examples", "--target-dir"]).arg(target);
        // Nor because a build script asks for what cargo has said of this test's package.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_package(name)) {
            cargo.env_remove(name);
        }
        match profile.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => {}
            Some(profile) => drop(cargo.args(["--profile", profile])),
        }
        assert!(cargo.status().expect("cargo").success(), "building aldis-linux");
        profile.to_owned()
    });
    folder.join(name)
}

/// Returns true if cargo sets this variable for the programs of one package.
fn is_of_package(variable: &OsStr) -> bool {
    let bytes = variable.as_encoded_bytes();
    [&b"OUT_DIR"[..], b"CARGO_MANIFEST_", b"CARGO_PKG_"].iter().any(|start| bytes.starts_with(start))
}

/// A job that is running.
pub struct Job {
    child: Child,
    started: Instant,
    lines: Receiver<String>,
    /// Lines that came while another was waited for; ranks speak in any order.
    passed_over: Vec<String>,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

/// A job that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The launcher's exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The launcher's output.
    pub out: String,
    /// The launcher's errors.
    pub err: String,
    /// The time that the job took.
    pub took: Duration,
}

/// Starts `aldis-run` with these arguments.
pub fn start<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Job {
    let mut command = Command::new(program("aldis-run"));
    command.args(arguments);
    launch(command)
}

/// Starts a job by any command.
pub fn launch(mut command: Command) -> Job {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a program that starts jobs");
    let (sender, lines) = channel();
    let out: ChildStdout = child.stdout.take().expect("piped");
    let err: ChildStderr = child.stderr.take().expect("piped");
    let out = std::thread::spawn(move || {
        let mut all = String::new();
        let mut reader = BufReader::new(out);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            all.push_str(&line);
            // No test needs to listen.
            let _ = sender.send(core::mem::take(&mut line));
        }
        all
    });
    let err = std::thread::spawn(move || {
        let mut all = String::new();
        BufReader::new(err).read_to_string(&mut all).map(|_| all).unwrap_or_default()
    });
    Job { child, started: Instant::now(), lines, passed_over: Vec::new(), out: Some(out), err: Some(err) }
}

/// Starts a job and waits for its end.
pub fn run<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    start(arguments).wait()
}

impl Job {
    /// Returns the launcher's process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"))
    }

    /// Sends a signal to the launcher.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("the launcher is there");
    }

    /// Waits for the first line of output that contains `text` and was not asked for yet. A job
    /// that says nothing like it hangs.
    pub fn line(&mut self, text: &str) -> String {
        if let Some(index) = self.passed_over.iter().position(|line| line.contains(text)) {
            return self.passed_over.remove(index);
        }
        loop {
            match self.lines.recv_timeout(WATCHDOG) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => self.passed_over.push(line),
                Err(_) => panic!("no line with {text:?}: {}", self.state_dump()),
            }
        }
    }

    /// Waits until all of `ranks` ranks have told their process id; by rank.
    pub fn pids(&mut self, ranks: usize) -> Vec<Pid> {
        let mut pids = vec![Pid::from_raw(0); ranks];
        for _ in 0..ranks {
            let line = self.line("has pid");
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |word: &str| {
                let after = words.iter().skip_while(|one| **one != word).nth(1).copied().unwrap_or_default();
                after.parse::<i32>().unwrap_or_else(|_| panic!("no number after {word:?} in {line:?}"))
            };
            pids[usize::try_from(number("rank")).unwrap()] = Pid::from_raw(number("pid"));
        }
        pids
    }

    /// Waits until all of `ranks` ranks, of which each does so once, have noted what they wait for.
    pub fn all_wait(&mut self, ranks: usize) {
        for rank in 0..ranks {
            self.line(&format!("rank {rank} waits"));
        }
    }

    /// Waits for the end; a job that hangs fails the test with what every rank was doing.
    pub fn wait(mut self) -> Ended {
        if !self.ends_within(WATCHDOG) {
            panic!("the job hangs: {}", self.state_dump());
        }
        self.collect()
    }

    /// Returns true if it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the child is ours").is_some()
    }

    fn ends_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while !self.has_ended() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    fn collect(&mut self) -> Ended {
        let code = self.child.wait().expect("the child is ours").code();
        let took = self.started.elapsed();
        let text =
            |reader: Option<JoinHandle<String>>| reader.and_then(|one| one.join().ok()).unwrap_or_default();
        Ended { code, out: text(self.out.take()), err: text(self.err.take()), took }
    }

    /// Ends the job and returns what it said.
    fn state_dump(&mut self) -> String {
        self.signal(Signal::SIGTERM);
        if !self.ends_within(LAST_WORDS) {
            self.signal(Signal::SIGKILL);
        }
        let ended = self.collect();
        format!("{}\n{}", ended.out, ended.err)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // A failed test leaves no job behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Checks that the job ended with `code` and its errors contain all of `texts`.
    #[track_caller]
    pub fn says(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for text in texts {
            assert!(self.err.contains(text), "{text:?} is missing in {self:#?}");
        }
    }

    /// Reads a field of the report of a job that was started with `--json`: the last line of its
    /// errors.
    pub fn field(&self, name: &str) -> String {
        let line = self.err.lines().next_back().unwrap_or_default();
        let key = format!("\"{name}\":");
        let value = line.split_once(&key).unwrap_or_else(|| panic!("no {name} in {line}")).1;
        value.split([',', '}']).next().unwrap_or_default().trim_matches('"').to_owned()
    }
}

/// Returns true if a process is there and not a zombie.
pub fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which stands in parentheses.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Waits until `check` is true; false if it is not so within `limit`.
pub fn becomes(limit: Duration, mut check: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if check() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
