//! An agent as the launcher sees it: a process, perhaps ssh, behind whose pipes a node of another
//! place is.

use core::time::Duration;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::time::Instant;

use aldis_run::hosts::{HostPlace, quoted};
use aldis_sys::event::{PollFd, PollFlags, PollTimeout, poll};
use aldis_sys::file::{FcntlArg, OFlag, fcntl, read};
use aldis_sys::process::{
    Child, ChildStderr, Command, ExitStatus, Stdio, current_exe, kill_child, spawn, try_wait, wait,
};
use aldis_sys::{Errno, uninterrupted};
use serde::{Deserialize, Serialize};

use crate::branch::BranchPart;
use crate::heartbeat::Heartbeat;
use crate::link::{ControlLink, LinkError};
use crate::messages::{FromNode, HostEvent, ToNode};
use crate::rank_state::Exit;

/// The argument that makes an agent of the launcher's program.
pub(crate) const AGENT: &str = "--agent-of-aldis-run";

/// Bytes of an agent's errors that are kept for the report.
const SAID_BYTES_MAX: usize = 4096;

/// The time that an agent of the launcher's may take to end once its pipe is closed, ms.
pub(crate) const FAREWELL_MS: u16 = 500;

/// The way in which agents are started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct AgentCommands {
    /// The command before the name of a machine.
    pub(crate) shell: Vec<String>,
    /// The time that an agent may take to end once its pipe is closed, before it is killed, ms:
    /// less in a process whose own starter waits for it in turn.
    pub(crate) farewell_ms: u16,
    /// The silence after which a side of a link counts as hung, ms; 0 if none ever does.
    pub(crate) silence_ms: u32,
    /// The launcher's program on the machine.
    pub(crate) agent: String,
}

impl AgentCommands {
    /// Returns these commands for an agent that starts others, `depth` levels below the launcher.
    pub(crate) fn below(&self, depth: u32) -> Self {
        Self { farewell_ms: self.farewell_ms.checked_shr(depth).unwrap_or(0), ..self.clone() }
    }

    /// The command line of the agent in `place`.
    fn line(&self, place: &HostPlace) -> Vec<String> {
        let own = |word: &str| word.to_owned();
        let silence = self.silence_ms.to_string();
        match place {
            HostPlace::Here | HostPlace::Apart(_) => vec![self.agent.clone(), own(AGENT), silence],
            HostPlace::Namespace(name) => {
                ["ip", "netns", "exec", name, &self.agent, AGENT, &silence].map(own).into()
            }
            HostPlace::Machine(name) => {
                let mut line = self.shell.clone();
                if line
                    .first()
                    .is_some_and(|program| Path::new(program).file_name().is_some_and(|name| name == "ssh"))
                {
                    // No questions, and no wait of minutes for a machine that is off.
                    line.extend(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"].map(own));
                }
                line.extend([name.clone(), quoted(&self.agent), own(AGENT), silence]);
                line
            }
        }
    }
}

/// The process and its pipes.
#[derive(Debug)]
pub(crate) struct Agent {
    child: Child,
    link: Option<ControlLink<HostEvent>>,
    errors: Option<ChildStderr>,
    heartbeat: Heartbeat,
    /// The end of what it has printed and the user has not seen.
    said: Vec<u8>,
    /// The program that was started, for errors.
    program: String,
    /// The time that it may take to end.
    farewell: Duration,
    /// The time at which its pipe was closed by this side.
    hung_up: Option<Instant>,
}

impl Agent {
    /// Starts the agent in `place`.
    pub(crate) fn start(place: &HostPlace, ways: &AgentCommands) -> Result<Self, String> {
        let line = ways.line(place);
        let (program, arguments) = line.split_first().ok_or("--ssh names no program")?;
        let mut command = Command::new(program);
        // A process group of its own, so that Ctrl-C reaches the ranks through the launcher and not
        // ssh before them.
        command.args(arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: io::Error| format!("cannot start {program}: {error}");
        let mut child = spawn(&mut command).map_err(|error| failed(error) + " (fork, execve)")?;
        let (to, from) = child.stdin.take().zip(child.stdout.take()).ok_or("no pipes")?;
        let link =
            ControlLink::new(from.into(), to.into()).map_err(|errno| failed(errno.into()) + " (fcntl)")?;
        let errors = child.stderr.take();
        if let Some(errors) = &errors {
            let flags = FcntlArg::F_SETFL(OFlag::O_NONBLOCK);
            fcntl(errors, flags).map_err(|errno| failed(errno.into()) + " (fcntl)")?;
        }
        let farewell = Duration::from_millis(ways.farewell_ms.into());
        let (said, program) = (Vec::new(), program.clone());
        let heartbeat = Heartbeat::over_agent(Duration::from_millis(ways.silence_ms.into()), Instant::now());
        Ok(Self { child, link: Some(link), errors, heartbeat, said, program, farewell, hung_up: None })
    }

    /// The descriptors to be watched: of the link, and of its errors.
    pub(crate) fn watched(&self) -> impl Iterator<Item = (BranchPart, BorrowedFd<'_>, PollFlags)> {
        let link = self.link.as_ref();
        let input = link.map(|link| (BranchPart::Link, link.input(), PollFlags::POLLIN));
        let output =
            link.and_then(ControlLink::output).map(|output| (BranchPart::Link, output, PollFlags::POLLOUT));
        let errors =
            self.errors.as_ref().map(|errors| (BranchPart::Errors, errors.as_fd(), PollFlags::POLLIN));
        input.into_iter().chain(output).chain(errors)
    }

    /// Sends it a message; an agent that is gone receives nothing.
    pub(crate) fn say(&mut self, message: &ToNode) {
        if let Some(link) = &mut self.link {
            // Its end is noticed when nothing more comes from it.
            let _ = link.say(message);
        }
    }

    /// Receives the messages that it has sent.
    ///
    /// # Errors
    /// [`LinkError`], once; what came before it is lost.
    pub(crate) fn hear(&mut self) -> Result<Vec<HostEvent>, LinkError> {
        let Some(link) = &mut self.link else { return Ok(Vec::new()) };
        let heard = listen(link, &mut self.heartbeat);
        if let Err(error) = heard {
            self.link = None;
            if let LinkError::System { call, errno } = error {
                self.said.extend(format!("the launcher's {call} failed: {}\n", errno.desc()).into_bytes());
            }
        }
        heard
    }

    /// Gives it a sign of life when one is due; returns for how long it has been silent itself, if
    /// that is too long.
    pub(crate) fn keep_watch(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let link = self.link.as_mut()?;
        // What waits for it is not added to: it will be a sign of life as well as this one.
        if self.heartbeat.is_due(now) && link.output().is_none() {
            let _ = link.say(&ToNode::Alive);
        }
        self.heartbeat.judge(now)
    }

    /// Returns true if it has missed signs of life.
    pub(crate) fn is_in_doubt(&self, now: Instant) -> bool {
        self.link.is_some() && self.heartbeat.is_in_doubt(now)
    }

    /// The next time to keep watch.
    pub(crate) fn watch_time(&self) -> Option<Instant> {
        self.link.as_ref().and_then(|_| self.heartbeat.deadline())
    }

    /// Takes in what it has printed; at its end no more is watched.
    pub(crate) fn read_errors(&mut self) {
        let mut bytes = [0; SAID_BYTES_MAX];
        let Some(errors) = &mut self.errors else { return };
        match uninterrupted(|| read(&mut *errors, &mut bytes)) {
            Ok(length) if length > 0 => {
                self.said.extend_from_slice(bytes.get(..length).unwrap_or_default());
                let surplus = self.said.len().saturating_sub(SAID_BYTES_MAX);
                self.said.drain(..surplus);
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            _ => self.errors = None,
        }
    }

    /// The whole lines that it has printed since this was last asked.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        let whole = self.said.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.said.drain(..whole).collect();
        String::from_utf8_lossy(&lines).lines().map(str::to_owned).collect()
    }

    /// Returns how its process has ended, if it has, and what it printed last.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let exit = match try_wait(&mut self.child) {
            Ok(status) => exit_of(status?),
            Err(_) => Exit::Unknown,
        };
        self.read_errors();
        let said = String::from_utf8_lossy(&self.said).into_owned();
        let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let program = &self.program;
        Some(match said.as_slice() {
            [] => format!("{program} {exit}"),
            lines => format!("{program} {exit}: {}", lines.join("; ")),
        })
    }

    /// Closes its pipe, upon which it ends all its ranks and itself.
    pub(crate) fn hang_up(&mut self) {
        self.link = None;
        self.hung_up.get_or_insert_with(Instant::now);
    }

    /// The time until which it may take to end.
    pub(crate) fn farewell_ends(&self) -> Option<Instant> {
        Some(self.hung_up? + self.farewell)
    }

    /// Returns true if its process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(try_wait(&mut self.child), Ok(None))
    }
}

impl Drop for Agent {
    /// Waits a moment for its end once its pipe is closed.
    fn drop(&mut self) {
        self.hang_up();
        let left = self.farewell_ends().map(|end| end.saturating_duration_since(Instant::now()));
        let left = PollTimeout::try_from(left.unwrap_or_default()).unwrap_or(PollTimeout::ZERO);
        if let Some(errors) = &self.errors {
            let _ = poll(&mut [PollFd::new(errors.as_fd(), PollFlags::empty())], left);
        }
        let _ = kill_child(&mut self.child);
        let _ = wait(&mut self.child);
    }
}

/// Returns the messages that have come, but for those that are for the watch alone.
fn listen(link: &mut ControlLink<HostEvent>, heartbeat: &mut Heartbeat) -> Result<Vec<HostEvent>, LinkError> {
    match link.flush() {
        // It reads no more; what it sent before is there to be heard.
        Ok(()) | Err(LinkError::System { errno: Errno::EPIPE, .. }) => {}
        Err(error) => return Err(error),
    }
    if link.hear()? {
        heartbeat.hear(Instant::now());
    }
    let mut events = Vec::new();
    while let Some(event) = link.next()? {
        let busy = match event.event {
            FromNode::Busy(ms) if event.host.is_none() => Some(Duration::from_millis(ms.into())),
            _ => None,
        };
        heartbeat.excuse(busy);
        if !matches!(event.event, FromNode::Alive | FromNode::Busy(_)) {
            events.push(event);
        }
    }
    Ok(events)
}

fn exit_of(status: ExitStatus) -> Exit {
    match status.code() {
        Some(code) => Exit::Code(code),
        None => Exit::Signal(status.signal().unwrap_or(0)),
    }
}

/// This program, as another place is to find it.
pub(crate) fn own_program() -> Result<String, String> {
    let path = current_exe()
        .map_err(|error| format!("no path of this program: readlink of /proc/self/exe failed: {error}"))?;
    let path = OsString::from(path).into_string();
    path.map_err(|path| format!("{}: not a path in UTF-8; see --agent", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_started_in_each_place_its_own_way() {
        let ways = |shell: &str| AgentCommands {
            shell: aldis_run::hosts::words(shell).unwrap(),
            agent: "/opt/it's/run".into(),
            farewell_ms: FAREWELL_MS,
            silence_ms: 7500,
        };
        let line = |shell: &str, place: HostPlace| ways(shell).line(&place).join("|");
        let machine = || HostPlace::Machine("b".into());
        assert_eq!(
            line("/usr/bin/ssh -p 2222", machine()),
            format!(
                "/usr/bin/ssh|-p|2222|-o|BatchMode=yes|-o|ConnectTimeout=10|b|'/opt/it'\\''s/run'|{AGENT}|7500"
            )
        );
        assert_eq!(
            line("docker exec -i", machine()),
            format!("docker|exec|-i|b|'/opt/it'\\''s/run'|{AGENT}|7500")
        );
        assert_eq!(
            line("ssh", HostPlace::Namespace("x".into())),
            format!("ip|netns|exec|x|/opt/it's/run|{AGENT}|7500")
        );
        assert_eq!(line("ssh", HostPlace::Apart("x".into())), format!("/opt/it's/run|{AGENT}|7500"));
    }
}
