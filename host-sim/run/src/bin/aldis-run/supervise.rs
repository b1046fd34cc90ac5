//! The life of a job: gather the hosts, start the ranks, wait for whatever happens, decide, end.

use core::fmt::Display;
use core::time::Duration;
use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use aldis_linux::tcp::JobKey;
use aldis_linux::wireup::Node;
use aldis_run::command_line::own_name;
use aldis_run::hosts::{HostPlace, Share};
use aldis_run::options::Options;
use aldis_sys::Errno;
use aldis_sys::event::{PollFd, PollFlags, PollTimeout, poll};
use aldis_sys::signal::{Signal, raise};

use crate::error::{LaunchError, system};
use crate::heartbeat;
use crate::host::{JobHost, Ready};
use crate::host_fault::HostFault;
use crate::job_hosts::JobHosts;
use crate::member::Member;
use crate::messages::{FromNode, HostEvent, Moment, NodeOrder, OutputKind, ToNode};
use crate::node::GRACE;
use crate::orders::{self, JobIdentity};
use crate::progress::{self, NoteClock};
use crate::rank_state::{Exit, LastMessage, RankFault, RankStage, RankState};
use crate::relay::Relay;
use crate::report::{self, Cause, JobVerdict};
use crate::signals::{Signals, ends_a_job};

/// The time for which an error that came of another rank's failure waits for that failure to show.
const SETTLING: Duration = Duration::from_millis(100);

/// The time for which it waits when that failure may have to be told by another machine.
const SETTLING_AFAR: Duration = Duration::from_millis(400);

/// The time that a host may take to tell of the end of its ranks after the grace.
const FAREWELL: Duration = Duration::from_secs(2);

/// The exit code of `--timeout`, as of timeout(1).
const TIMEOUT_CODE: u8 = 124;

/// The exit code of a job whose output no process reads any more: what a shell says of one that
/// SIGPIPE has ended.
const UNREAD: u8 = 128 + Signal::SIGPIPE as u8;

/// Runs the job; returns the exit code.
pub(crate) fn run(options: &Options) -> Result<u8, LaunchError> {
    let signals = Signals::take_over()?;
    let mut supervisor = Supervisor::new(options, signals)?;
    // A host whose agent cannot be started at all.
    supervisor.judge();
    while !supervisor.is_over() {
        supervisor.step()?;
    }
    Ok(supervisor.close())
}

/// The longest time for which poll waits: a child's end must not depend on a signal alone.
const ROUND: Duration = Duration::from_secs(1);

/// Returns the time for which poll may wait until `deadline`.
pub(crate) fn timeout_until(deadline: Option<Instant>, hurries: bool) -> PollTimeout {
    if hurries {
        return PollTimeout::ZERO;
    }
    let left = deadline.map_or(ROUND, |deadline| deadline.saturating_duration_since(Instant::now()));
    PollTimeout::try_from(left.min(ROUND).as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX)
}

/// The whole job.
struct Supervisor<'a> {
    options: &'a Options,
    started: Instant,
    notes: NoteClock,
    signals: Signals,
    /// The job's random number.
    key: u64,
    hosts: JobHosts,
    members: Vec<Member>,
    relay: Relay,
    /// True once the ranks were told to start.
    ordered: bool,
    /// True once all ranks have been given all cards.
    introduced: bool,
    /// True if nodes have a table of the ranks that have left.
    tells_departures: bool,
    /// Ranks that have left, and of which the nodes have not been told.
    departed: Vec<u32>,
    verdict: Option<JobVerdict>,
    /// The time until which a fault that seems to be another's consequence waits for the other to
    /// show.
    settling: Option<Instant>,
    /// The time at which hosts that still have ranks are let go.
    end_by: Option<Instant>,
    /// The user's signal that asked for the end, and when it came.
    interrupted: Option<(Signal, Instant)>,
}

/// The kind of a polled descriptor.
#[derive(Clone, Copy)]
enum JobSource {
    Signals,
    Host(usize, Ready),
    Output(OutputKind),
}

impl<'a> Supervisor<'a> {
    fn new(options: &'a Options, signals: Signals) -> Result<Self, LaunchError> {
        let started = Instant::now();
        let ways = orders::ways(options).map_err(LaunchError::Ways)?;
        let shares = options.shares().map_err(LaunchError::Ways)?;
        let hosts = JobHosts::new(shares, options.fanout, ways);
        let member = |host: usize, share: &Share| {
            (share.first..share.first + share.ranks).map(move |rank| Member::new(rank, host))
        };
        let members = hosts.iter().enumerate().flat_map(|(place, host)| member(place, &host.share)).collect();
        Ok(Self {
            options,
            started,
            notes: NoteClock::new(started),
            signals,
            key: aldis_linux::entropy::random().map_err(LaunchError::Entropy)?,
            hosts,
            members,
            relay: Relay::new(options.output, options.plan.ranks),
            ordered: false,
            introduced: false,
            tells_departures: false,
            departed: Vec::new(),
            verdict: None,
            settling: None,
            end_by: None,
            interrupted: None,
        })
    }

    /// Returns true if the last host has told of its end.
    fn is_over(&self) -> bool {
        self.hosts.iter().all(|host| host.over)
    }

    /// Waits for the next event and deals with it.
    fn step(&mut self) -> Result<(), LaunchError> {
        self.gather()?;
        let sources = self.wait()?;
        if sources.is_empty() {
            self.hosts.iter_mut().for_each(JobHost::look_after);
        }
        for source in sources {
            match source {
                JobSource::Signals => self.take_signals().map_err(system("read of signals"))?,
                JobSource::Host(place, ready) => {
                    let events = self.hosts.get_mut(place).map(|host| host.take(ready)).unwrap_or_default();
                    self.hear_all(place, events);
                }
                JobSource::Output(kind) => self.write(kind),
            }
        }
        // After the signals, so that a rank's last message is received before its end is judged.
        for place in 0..self.hosts.len() {
            let events = self.hosts.get_mut(place).map(|host| host.step(&self.relay));
            self.hear_all(place, events.unwrap_or_default());
            let grant = self.hosts.get_mut(place).and_then(|host| host.grant(&self.relay));
            grant.into_iter().for_each(|grant| self.hosts.say_to(place, grant));
        }
        self.introduce();
        self.tell_departures();
        self.note_progress();
        self.judge();
        self.hosts.cut();
        Ok(())
    }

    /// Starts the ranks once every host can.
    fn gather(&mut self) -> Result<(), LaunchError> {
        if self.ordered || self.verdict.is_some() || !self.hosts.iter().all(|host| host.ready) {
            return Ok(());
        }
        self.ordered = true;
        let left = (self.started + self.options.join_limit()).saturating_duration_since(Instant::now());
        let shares: Vec<_> = self.hosts.iter().map(|host| host.share.clone()).collect();
        let key =
            self.options.needs_key(&shares).then(JobKey::random).transpose().map_err(LaunchError::Entropy)?;
        self.tells_departures = key.is_some();
        let job = JobIdentity { number: self.key, key };
        let per_node = Node::alike(shares.iter().map(|share| share.ranks));
        // The ranks of this machine last: no order follows the word of a long start and takes it
        // back, and those of other machines start meanwhile.
        let (here, there): (Vec<_>, Vec<_>) =
            shares.iter().enumerate().partition(|(_, share)| share.place == HostPlace::Here);
        for (place, share) in there.into_iter().chain(here) {
            if share.place == HostPlace::Here {
                self.hosts.say_all(&ToNode::Busy(heartbeat::start_ms(left)));
            }
            let order = NodeOrder { per_node, ..orders::order(self.options, job, share, left) };
            let order = self.hosts.get_mut(place).and_then(|host| host.start(order));
            order.into_iter().for_each(|order| self.hosts.say_to(place, order));
        }
        Ok(())
    }

    /// Waits for an event or the next deadline; returns what is ready.
    fn wait(&self) -> Result<Vec<JobSource>, LaunchError> {
        use std::os::fd::AsFd;
        let (out, err) = (io::stdout(), io::stderr());
        let mut watched = vec![(JobSource::Signals, PollFd::new(self.signals.as_fd(), PollFlags::POLLIN))];
        for (place, host) in self.hosts.iter().enumerate() {
            let files = host.watched(&self.relay);
            watched.extend(
                files.map(|(ready, file, events)| (JobSource::Host(place, ready), PollFd::new(file, events))),
            );
        }
        watched.extend(self.relay.waiting().map(|kind| {
            let own = if kind == OutputKind::Out { out.as_fd() } else { err.as_fd() };
            (JobSource::Output(kind), PollFd::new(self.relay.file(kind, own), PollFlags::POLLOUT))
        }));
        let (sources, mut files): (Vec<_>, Vec<_>) = watched.into_iter().unzip();
        match poll(&mut files, self.patience()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(system("poll")(errno)),
        }
        let ready = sources.into_iter().zip(files).filter(|(_, file)| file.any().unwrap_or(false));
        Ok(ready.map(|(source, _)| source).collect())
    }

    /// Time to the next deadline.
    fn patience(&self) -> PollTimeout {
        let timeout = self.options.timeout.map(|span| self.started + span);
        let join = (!self.missing().is_empty()).then(|| self.started + self.options.join_limit());
        let interrupted = self.interrupted.map(|(_, came)| came + self.options.kill_after);
        // Past it, what is waited for is a host, which has a deadline of its own.
        let settling = self.settling.filter(|at| *at > Instant::now());
        let judging = if self.verdict.is_some() { [None; 4] } else { [timeout, join, settling, interrupted] };
        let hosts = self.hosts.iter().filter_map(JobHost::deadline).chain(self.hosts.deadline());
        let next = judging.into_iter().chain([self.end_by]).flatten().chain(hosts).min();
        // A start that was refused on this machine is no event of any descriptor.
        let refused = self.verdict.is_none() && self.hosts.iter().any(|host| host.fault.is_some());
        timeout_until(next, refused || self.hosts.iter().any(|host| host.hurries(&self.relay)))
    }

    fn take_signals(&mut self) -> Result<(), Errno> {
        while let Some(signal) = self.signals.next()? {
            match signal {
                Signal::SIGCHLD => self.hosts.iter_mut().for_each(JobHost::look_after),
                Signal::SIGTSTP => {
                    self.signal_all(Signal::SIGSTOP);
                    // Silence until it is continued is in order.
                    self.hosts.say_all(&ToNode::Busy(u32::MAX));
                    let _ = raise(Signal::SIGSTOP);
                }
                signal if ends_a_job(signal) => self.interrupt(signal),
                signal => self.signal_all(signal),
            }
        }
        Ok(())
    }

    /// The first request to end is the ranks' to answer for as long as `--kill-after`; the second
    /// is not.
    fn interrupt(&mut self, signal: Signal) {
        if self.interrupted.is_some() {
            self.signal_all(Signal::SIGKILL);
        } else {
            self.interrupted = Some((signal, Instant::now()));
            self.remember(Moment::Interrupted);
            self.signal_all(signal);
        }
    }

    fn signal_all(&mut self, signal: Signal) {
        self.hosts.say_all(&ToNode::Signal(signal as i32));
    }

    /// Keeps the state of every rank, and asks the nodes what every rank is doing.
    fn remember(&mut self, moment: Moment) {
        self.members.iter_mut().for_each(|member| member.remember(moment));
        self.hosts.say_all(&ToNode::TakeNotes(moment));
    }

    /// Writes to an output; when it can no longer be written to, tells the nodes.
    fn write(&mut self, kind: OutputKind) {
        self.relay.write(kind);
        if self.relay.fault(kind).is_some() {
            self.hosts.say_all(&ToNode::Shut(kind));
        }
    }

    /// Handles what has come from the launcher's node or agent at `place`, of that host and of
    /// those below.
    fn hear_all(&mut self, place: usize, events: Vec<HostEvent>) {
        for HostEvent { host, event } in events {
            let of = host.map_or(place, |host| host as usize);
            // An agent has no say about hosts that are not below it.
            if self.hosts.is_below(of, place) {
                self.hear(of, event);
            }
        }
    }

    /// Handles a message of a host.
    fn hear(&mut self, place: usize, event: FromNode) {
        match event {
            FromNode::Started { cores } => self.note_crowd(place, cores),
            FromNode::Rank { rank, state } => {
                let has_left = |state: &RankState| matches!(state.last, Some(LastMessage::Left { .. }));
                let Some(member) = self.of(place, rank) else { return };
                let is_news = has_left(&state) && !member.state.as_ref().is_some_and(has_left);
                member.state = Some(state);
                self.departed.extend(is_news.then_some(rank));
            }
            FromNode::Card { rank, bytes } => {
                self.of(place, rank).into_iter().for_each(|member| member.card = Some(bytes.clone()));
            }
            FromNode::Output { rank, kind, bytes } => {
                let host = self.hosts.get_mut(place).into_iter();
                host.for_each(|host| host.note_output(bytes.len() as u32));
                self.relay.take(rank, kind, &bytes);
            }
            FromNode::Unheard { text } => self.relay.miss(text),
            FromNode::Notes(moment, notes) => {
                let own = self.members.iter_mut().filter(|member| member.host == place);
                own.zip(notes).for_each(|(member, note)| member.take_note(moment, note));
            }
            FromNode::Over => self.hosts.get_mut(place).into_iter().for_each(JobHost::dismiss),
            FromNode::Hello { .. } => {
                if self.hosts.get_mut(place).is_some_and(JobHost::greet) {
                    self.hosts.grow(place);
                }
            }
            FromNode::Refused(refusal) => {
                let host = self.hosts.get_mut(place).into_iter();
                host.for_each(|host| host.lose(HostFault::Refused(refusal.clone())));
            }
            FromNode::Fault(fault) => self.hosts.lose(place, fault),
            // What agents keep to the process that has started them.
            FromNode::Alive | FromNode::Busy(_) => {}
            FromNode::Line(line) => {
                let host = self.hosts.get(place).map(|host| host.share.place.to_string());
                self.relay.note(&format!("[{}] {line}", host.unwrap_or_default()));
            }
        }
    }

    /// A rank of this host; a host has no say about others.
    fn of(&mut self, place: usize, rank: u32) -> Option<&mut Member> {
        self.members.get_mut(rank as usize).filter(|member| member.host == place)
    }

    /// Returns true if notes are wanted: files and programs that read the errors get nothing but
    /// errors.
    fn takes_notes(&self) -> bool {
        !self.options.quiet && io::stderr().is_terminal()
    }

    /// Shows what a slow start still waits for.
    fn note_progress(&mut self) {
        if self.verdict.is_some() || !self.notes.is_due(Instant::now()) || !self.takes_notes() {
            return;
        }
        let text = if self.ordered {
            let missing = if self.is_excused() { Vec::new() } else { self.missing() };
            let missing: Vec<u32> = missing.into_iter().map(|(rank, _)| rank).collect();
            (!missing.is_empty()).then(|| progress::ranks(&missing, self.members.len()))
        } else {
            let silent = self.hosts.iter().filter(|host| !host.ready);
            let silent: Vec<String> = silent.map(|host| host.share.place.to_string()).collect();
            Some(progress::hosts(&silent, self.hosts.len()))
        };
        text.into_iter().for_each(|text| self.relay.note(&format!("{}: note: {text}", own_name())));
    }

    /// More ranks than cores: they take turns, which a user at a terminal should know.
    fn note_crowd(&mut self, place: usize, cores: u32) {
        if !self.takes_notes() {
            return;
        }
        let Some(host) = self.hosts.get(place).filter(|host| host.share.ranks > cores) else { return };
        let (ranks, several) = (host.share.ranks, self.hosts.len() > 1);
        let name = own_name();
        let at = if several { format!(" on {}", host.share.place) } else { String::new() };
        self.relay.note(&format!(
            "{name}: note: {ranks} ranks{at} share {cores} cores; they yield to each other while they wait"
        ));
    }

    /// Passes all cards on when the last has come.
    fn introduce(&mut self) {
        if self.introduced || !self.members.iter().all(|member| member.card.is_some()) {
            return;
        }
        self.introduced = true;
        let cards = self.members.iter_mut().filter_map(|member| member.card.take()).collect();
        self.hosts.say_all(&ToNode::Cards(cards));
    }

    /// Tells the nodes who has left, where ranks are reached over sockets: ranks say goodbye to
    /// those alone that they have met.
    fn tell_departures(&mut self) {
        if self.departed.is_empty() {
            return;
        }
        let departed = core::mem::take(&mut self.departed);
        if self.tells_departures {
            self.hosts.say_all(&ToNode::Departed(departed));
        }
    }

    /// Decides whether the job must end, and lets go of hosts that have outstayed the farewell.
    fn judge(&mut self) {
        let now = Instant::now();
        if self.verdict.is_none() {
            if let Some(cause) = self.cause(now) {
                self.condemn(cause, now);
            }
        } else if self.end_by.is_some_and(|at| now >= at) {
            self.hosts.iter_mut().filter(|host| !host.over).for_each(JobHost::dismiss);
        }
    }

    fn cause(&mut self, now: Instant) -> Option<Cause> {
        let lost = (0..).zip(self.hosts.iter()).find_map(|(place, host)| Some((place, host.fault.clone()?)));
        if let Some((rank, fault, consequence)) = self.worst() {
            let afar = self.hosts.iter().any(|host| !host.is_here());
            let settled = *self.settling.get_or_insert(now + if afar { SETTLING_AFAR } else { SETTLING });
            // A host that has missed signs of life speaks, or is the cause.
            let is_settled = now >= settled && !self.hosts.iter().any(|host| host.is_in_doubt(now));
            // When all are gone, nothing else can show.
            if !consequence || (lost.is_none() && (is_settled || self.is_over())) {
                return Some(self.blame(rank, fault));
            }
        }
        if let Some((host, fault)) = lost {
            return Some(Cause::Host { host, fault });
        }
        let patience = self.options.kill_after;
        if let Some((signal, _)) =
            self.interrupted.filter(|(_, came)| !self.ordered || now >= *came + patience)
        {
            return Some(Cause::Interrupted(signal));
        }
        if now >= self.started + self.options.join_limit() {
            let after = self.options.join_limit();
            let silent = self.hosts.iter().position(|host| !self.ordered && !host.ready);
            if let Some(host) = silent {
                return Some(Cause::Host { host, fault: HostFault::Silent { after } });
            }
            let missing = self.missing();
            if !missing.is_empty() && !self.is_excused() {
                return Some(Cause::JoinTimeout { missing, after });
            }
        }
        let timeout = self.options.timeout.filter(|span| now >= self.started + *span);
        timeout.map(|after| Cause::Timeout { after })
    }

    /// The fault to report among those that show: causes before consequences, deaths before the
    /// rest.
    fn worst(&self) -> Option<(u32, RankFault, bool)> {
        let is_excused = self.is_excused();
        let faults = self.members.iter().filter_map(|member| {
            let (fault, consequence) = member.state.as_ref()?.fault()?;
            let is_none = is_excused && fault == RankFault::NeverJoined(Exit::Code(0));
            (!is_none).then_some((member.rank, fault, consequence))
        });
        faults.min_by_key(|(_, fault, consequence)| {
            (*consequence, !matches!(fault, RankFault::Ended(Exit::Signal(_))))
        })
    }

    /// A rank that ended by the user's own signal is not to blame.
    fn blame(&self, rank: u32, fault: RankFault) -> Cause {
        match (self.interrupted, &fault) {
            (Some((sent, _)), RankFault::Ended(exit)) if exit.is_by(sent) || exit.is_by(Signal::SIGKILL) => {
                Cause::Interrupted(sent)
            }
            _ => Cause::Rank { rank, fault },
        }
    }

    /// Returns true if no rank need join: the program may be any, and no rank has sent a message.
    fn is_excused(&self) -> bool {
        self.options.any_program && self.members.iter().all(|member| stage(member) == RankStage::Started)
    }

    /// Returns the ranks that have not joined yet, and the progress of each.
    fn missing(&self) -> Vec<(u32, RankStage)> {
        let missing = self.members.iter().filter(|member| stage(member) < RankStage::Joined);
        missing.map(|member| (member.rank, stage(member))).collect()
    }

    /// Writes down what every rank is doing, then asks the ranks to end.
    fn condemn(&mut self, cause: Cause, now: Instant) {
        self.remember(Moment::Condemned);
        // A rank that failed by its own account is on its way out and knows its exit code.
        let spared = match &cause {
            Cause::Rank { rank, fault: RankFault::Failed { .. } | RankFault::Aborted { .. } } => Some(*rank),
            _ => None,
        };
        self.hosts.say_all(&ToNode::End { spared });
        if !self.ordered {
            self.hosts.iter_mut().for_each(JobHost::dismiss);
        }
        self.verdict = Some(JobVerdict { cause, after: now - self.started });
        self.end_by = Some(now + GRACE + FAREWELL);
    }

    /// Shows the rest of the output and says how it went.
    fn close(mut self) -> u8 {
        let after = self.started.elapsed();
        self.hosts.cut();
        self.relay.finish();
        let code = self.tell_lost(self.exit_code());
        let moment = match &self.verdict {
            None => Moment::Ended,
            Some(JobVerdict { cause: Cause::Interrupted(_), .. }) if self.interrupted.is_some() => {
                Moment::Interrupted
            }
            Some(_) => Moment::Condemned,
        };
        let several = self.hosts.len() > 1 || self.hosts.iter().any(|host| !host.is_here());
        let name =
            |place: usize| self.hosts.get(place).filter(|_| several).map(|host| host.share.place.to_string());
        let snapshots: Vec<_> =
            self.members.iter().filter_map(|member| member.snapshot(moment, name(member.host))).collect();
        let names: Vec<_> = (0..self.hosts.len()).map(name).collect();
        let verdict = self.verdict.as_ref().map(|verdict| report::FailureReport {
            verdict,
            hosts: &names,
            ranks: &snapshots,
        });
        let told = if self.options.json {
            let end = report::FinishedJob { job: self.key, exit_code: code, after };
            complain(&end.json(verdict.as_ref(), &snapshots))
        } else {
            verdict.map_or(Ok(()), |verdict| complain(&verdict))
        };
        if told.is_err() { code.max(1) } else { code }
    }

    /// The exit code of a job that would end with `code`, of whose output something may be lost;
    /// what is, is reported. A reader that has closed the output knows it.
    fn tell_lost(&self, code: u8) -> u8 {
        let lost = [(OutputKind::Out, "output"), (OutputKind::Err, "error")];
        let lost = lost.into_iter().filter_map(|(kind, name)| Some((self.relay.fault(kind)?, name)));
        let unheard = self.relay.missed().iter().fold(code, |code, text| {
            // Said in vain where standard error is closed.
            let _ = complain(&format_args!("{}: {text}", own_name()));
            code.max(1)
        });
        lost.fold(unheard, |code, (errno, name)| {
            // What a rank says of its own broken pipe came of this one.
            let own = if errno == Errno::EPIPE && code == 0 {
                UNREAD
            } else {
                let what = "what the ranks have printed there is lost";
                // Said in vain where it is of the errors themselves.
                let _ = complain(&format_args!(
                    "{}: write to standard {name} failed: {}; {what}",
                    own_name(),
                    errno.desc()
                ));
                1
            };
            if code == 0 { own } else { code }
        })
    }

    fn exit_code(&self) -> u8 {
        let Some(verdict) = &self.verdict else { return 0 };
        let code = match &verdict.cause {
            Cause::Rank {
                fault: RankFault::Ended(exit) | RankFault::NeverJoined(exit) | RankFault::Cut { exit, .. },
                ..
            } => exit.code(),
            Cause::Rank { fault: RankFault::Aborted { code, .. }, .. } => Exit::Code(*code).code(),
            Cause::Rank { rank, fault: RankFault::Failed { .. } } => {
                let exit = self.members.get(*rank as usize).and_then(|one| one.state.as_ref()?.exit);
                exit.filter(|exit| matches!(exit, Exit::Code(_))).map_or(1, Exit::code)
            }
            Cause::Host { fault: HostFault::Refused(refusal), .. } => refusal.code,
            Cause::Rank { fault: RankFault::NeverLeft | RankFault::Wire { .. }, .. }
            | Cause::Host { .. }
            | Cause::JoinTimeout { .. } => 1,
            Cause::Timeout { .. } => TIMEOUT_CODE,
            Cause::Interrupted(signal) => Exit::Signal(*signal as i32).code(),
        };
        code.max(1)
    }
}

/// Writes a line to standard error.
fn complain(line: &dyn Display) -> io::Result<()> {
    writeln!(io::stderr(), "{line}")
}

/// Returns the progress of a rank.
fn stage(member: &Member) -> RankStage {
    member.state.as_ref().map_or(RankStage::Started, |one| one.stage)
}
