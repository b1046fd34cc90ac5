//! The life of a job: start the ranks, wait for whatever happens, decide, end.

use core::time::Duration;
use std::os::fd::AsFd;
use std::time::Instant;

use aldis_host_sim::board::Label;
use aldis_host_sim::segment::{self, BoardView};
use aldis_host_sim::shape::Plan;
use aldis_host_sim::wireup::Channel;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};

use crate::cli::{Bind, Options, Output};
use crate::cores;
use crate::error::{LaunchError, system};
use crate::rank::Rank;
use crate::relay::{Kind, Relay};
use crate::report::{self, Cause, Exit, Fault, Snapshot, Verdict};
use crate::signals::{Signals, ends_a_job};
use crate::spawn;
use crate::wire::{Conversation, Job, Stage};

/// From the polite end (SIGTERM) to the certain one (SIGKILL).
const GRACE: Duration = Duration::from_millis(300);

/// How long an error that came of another rank's failure waits for that failure to show.
const SETTLING: Duration = Duration::from_millis(100);

/// The exit code of `--timeout`, as of timeout(1).
const TIMEOUT_CODE: u8 = 124;

/// Runs the job; returns the exit code.
pub(crate) fn run(options: &Options) -> Result<u8, LaunchError> {
    let signals = Signals::take_over().map_err(system("signalfd"))?;
    let mut supervisor = Supervisor::new(options, signals);
    supervisor.start()?;
    while !supervisor.is_over() {
        supervisor.step()?;
    }
    Ok(supervisor.close())
}

/// The whole job.
struct Supervisor<'a> {
    options: &'a Options,
    started: Instant,
    signals: Signals,
    job: Job,
    ranks: Vec<Rank>,
    relay: Relay,
    verdict: Option<Verdict>,
    /// How long a fault that seems to be another's consequence may wait for the other to show.
    settling: Option<Instant>,
    /// When those who are still there are killed.
    kill_at: Option<Instant>,
    /// The user's signal that asked for the end, and what everybody did when it came.
    interrupted: Option<(Signal, Vec<Snapshot>)>,
}

/// What a polled descriptor is.
#[derive(Clone, Copy)]
enum Source {
    Signals,
    Rank,
    Pipe(usize),
    Output(Kind),
}

impl<'a> Supervisor<'a> {
    fn new(options: &'a Options, signals: Signals) -> Self {
        let started = Instant::now();
        let job = Job {
            key: aldis_host_sim::entropy::random(),
            plan: options.plan,
            cores: cores::in_order().len() as u32,
            join_deadline: started + options.join_timeout,
            segments: Vec::new(),
            cards: Vec::new(),
        };
        Self {
            options,
            started,
            signals,
            job,
            ranks: Vec::new(),
            relay: Relay::new(options.output),
            verdict: None,
            settling: None,
            kill_at: None,
            interrupted: None,
        }
    }

    /// Makes all segments, then all processes.
    fn start(&mut self) -> Result<(), LaunchError> {
        let Plan { ranks: size, segment_bytes: bytes, .. } = self.job.plan;
        let mut boards = Vec::new();
        for rank in 0..size {
            let refused = |error| LaunchError::Segment { rank, bytes, error };
            let label = Label { job: self.job.key, rank, size };
            let segment = segment::create(label, bytes).map_err(refused)?;
            boards.push(BoardView::map(segment.as_fd()).map_err(refused)?);
            self.job.segments.push(segment);
        }
        let cores = if self.options.bind == Bind::Core { cores::in_order() } else { Vec::new() };
        let mut round = cores.iter().copied().cycle();
        for (rank, board) in (0..).zip(boards) {
            let (ours, theirs) = Channel::pair()?;
            let piped = self.options.output != Output::Plain;
            let (command, core) = (self.options.command.as_slice(), round.next());
            let spawned = spawn::spawn(&spawn::Plan { command, rank, size, socket: &theirs, core, piped })?;
            self.ranks.push(Rank::new(rank, board, spawned.pid, Conversation::new(rank, ours)));
            if let Some((out, err)) = spawned.streams {
                self.relay.add(rank, out, err).map_err(system("fcntl"))?;
            }
        }
        Ok(())
    }

    /// Whether the last rank has ended.
    fn is_over(&self) -> bool {
        self.ranks.iter().all(|rank| rank.exit.is_some())
    }

    /// Waits for the next event and deals with it.
    fn step(&mut self) -> Result<(), LaunchError> {
        for source in self.wait()? {
            match source {
                Source::Signals => self.take_signals(),
                Source::Rank => {}
                Source::Pipe(place) => {
                    self.relay.read(place);
                }
                Source::Output(kind) => self.relay.write(kind),
            }
        }
        // After the signals, so that a rank's last word is heard before its end is judged.
        self.converse();
        self.judge();
        Ok(())
    }

    /// Waits for an event or the next deadline; returns what is ready.
    fn wait(&self) -> Result<Vec<Source>, LaunchError> {
        let (out, err) = (std::io::stdout(), std::io::stderr());
        let mut watched = vec![(Source::Signals, PollFd::new(self.signals.as_fd(), PollFlags::POLLIN))];
        watched.extend(self.ranks.iter().filter_map(|rank| {
            let (channel, speaks) = rank.talk.socket()?;
            let events = if speaks { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
            Some((Source::Rank, PollFd::new(channel.as_fd(), events)))
        }));
        let pipes = self.relay.pipes();
        watched
            .extend(pipes.map(|(place, pipe)| (Source::Pipe(place), PollFd::new(pipe, PollFlags::POLLIN))));
        watched.extend(self.relay.waiting().map(|kind| {
            let file = if kind == Kind::Out { out.as_fd() } else { err.as_fd() };
            (Source::Output(kind), PollFd::new(file, PollFlags::POLLOUT))
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
        let join = (!self.missing().is_empty()).then_some(self.job.join_deadline);
        let judging = if self.verdict.is_some() { [None; 3] } else { [timeout, join, self.settling] };
        let Some(next) = judging.into_iter().chain([self.kill_at]).flatten().min() else {
            return PollTimeout::NONE;
        };
        let left = next.saturating_duration_since(Instant::now());
        PollTimeout::try_from(left.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX)
    }

    fn take_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                Signal::SIGCHLD => self.ranks.iter_mut().for_each(Rank::look_after),
                Signal::SIGTSTP => {
                    self.signal_all(Signal::SIGSTOP);
                    let _ = raise(Signal::SIGSTOP);
                }
                signal if ends_a_job(signal) => self.interrupt(signal),
                signal => self.signal_all(signal),
            }
        }
    }

    /// The first request to end is the ranks' to answer; the second is not.
    fn interrupt(&mut self, signal: Signal) {
        if self.interrupted.is_some() {
            self.signal_all(Signal::SIGKILL);
        } else {
            self.interrupted = Some((signal, self.snapshots()));
            self.signal_all(signal);
        }
    }

    fn signal_all(&self, signal: Signal) {
        self.ranks.iter().filter(|rank| rank.exit.is_none()).for_each(|rank| rank.signal(signal));
    }

    /// Hears every rank and answers; passes the cards on when the last has come.
    fn converse(&mut self) {
        for rank in &mut self.ranks {
            rank.talk.listen(&self.job);
        }
        if self.job.cards.is_empty() && self.ranks.iter().all(|rank| rank.talk.card.is_some()) {
            self.job.cards = self.ranks.iter_mut().filter_map(|rank| rank.talk.card.take()).collect();
            // Whoever has sent a card has mapped all segments.
            self.job.segments.clear();
            let count = self.job.cards.len();
            self.ranks.iter_mut().for_each(|rank| rank.talk.introduce(count));
        }
        for rank in &mut self.ranks {
            rank.talk.speak(&self.job);
        }
    }

    /// Decides whether the job must end, and kills who has outstayed the grace.
    fn judge(&mut self) {
        let now = Instant::now();
        if self.verdict.is_none() {
            if let Some(cause) = self.cause(now) {
                self.condemn(cause, now);
            }
        } else if self.kill_at.is_some_and(|at| now >= at) {
            self.signal_all(Signal::SIGKILL);
            self.kill_at = None;
        }
    }

    fn cause(&mut self, now: Instant) -> Option<Cause> {
        if let Some((rank, fault, consequence)) = self.worst() {
            let settled = *self.settling.get_or_insert(now + SETTLING);
            // When all are gone, nothing else can show.
            if !consequence || now >= settled || self.is_over() {
                return Some(self.blame(rank, fault));
            }
        }
        let missing = self.missing();
        if !missing.is_empty() && now >= self.job.join_deadline {
            return Some(Cause::JoinTimeout { missing, after: self.options.join_timeout });
        }
        let timeout = self.options.timeout.filter(|span| now >= self.started + *span);
        timeout.map(|after| Cause::Timeout { after })
    }

    /// The fault to report among those that show: causes before consequences, deaths before the rest.
    fn worst(&self) -> Option<(u32, Fault, bool)> {
        let faults = self.ranks.iter().filter_map(|rank| {
            let (fault, consequence) = rank.fault()?;
            Some((rank.number(), fault, consequence))
        });
        faults.min_by_key(|(_, fault, consequence)| {
            (*consequence, !matches!(fault, Fault::Ended(Exit::Signal(_))))
        })
    }

    /// A rank that ended by the user's own signal is not to blame.
    fn blame(&self, rank: u32, fault: Fault) -> Cause {
        match (&self.interrupted, &fault) {
            (Some((sent, _)), Fault::Ended(Exit::Signal(Some(got))))
                if sent == got || *got == Signal::SIGKILL =>
            {
                Cause::Interrupted(*sent)
            }
            _ => Cause::Rank { rank, fault },
        }
    }

    /// Who has not joined yet, and how far it has come.
    fn missing(&self) -> Vec<(u32, Stage)> {
        let missing = self.ranks.iter().filter(|rank| rank.talk.stage < Stage::Joined);
        missing.map(|rank| (rank.number(), rank.talk.stage)).collect()
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        self.ranks.iter().map(Rank::snapshot).collect()
    }

    /// Writes down what everybody is doing, then asks the ranks to end.
    fn condemn(&mut self, cause: Cause, now: Instant) {
        let ranks = match (&cause, &self.interrupted) {
            (Cause::Interrupted(_), Some((_, snapshots))) => snapshots.clone(),
            _ => self.snapshots(),
        };
        // A rank that failed by its own account is on its way out and knows its exit code.
        let leaving = match &cause {
            Cause::Rank { rank, fault: Fault::Failed { .. } | Fault::Aborted { .. } } => Some(*rank),
            _ => None,
        };
        let others = self.ranks.iter().filter(|rank| rank.exit.is_none() && Some(rank.number()) != leaving);
        others.for_each(|rank| rank.signal(Signal::SIGTERM));
        self.verdict = Some(Verdict { cause, after: now - self.started, ranks });
        self.kill_at = Some(now + GRACE);
    }

    /// Ends what the ranks have left behind, shows the rest of their output and says how it went.
    fn close(mut self) -> u8 {
        let after = self.started.elapsed();
        let code = self.exit_code();
        let last = self.snapshots();
        self.ranks.clear();
        self.relay.finish();
        if self.options.json {
            let snapshots = self.verdict.as_ref().map_or(last.as_slice(), |verdict| verdict.ranks.as_slice());
            eprintln!("{}", report::json(self.job.key, self.verdict.as_ref(), snapshots, code, after));
        } else if let Some(verdict) = &self.verdict {
            eprintln!("{verdict}");
        }
        code
    }

    fn exit_code(&self) -> u8 {
        let Some(verdict) = &self.verdict else { return 0 };
        let code = match &verdict.cause {
            Cause::Rank { fault: Fault::Ended(exit) | Fault::NeverJoined(exit), .. } => exit.code(),
            Cause::Rank { fault: Fault::Aborted { code, .. }, .. } => Exit::Code(*code).code(),
            Cause::Rank { rank, fault: Fault::Failed { .. } } => {
                let exit = self.ranks.iter().find(|one| one.number() == *rank).and_then(|one| one.exit);
                exit.filter(|exit| matches!(exit, Exit::Code(_))).map_or(1, Exit::code)
            }
            Cause::Rank { fault: Fault::NeverLeft | Fault::Wire(_), .. } | Cause::JoinTimeout { .. } => 1,
            Cause::Timeout { .. } => TIMEOUT_CODE,
            Cause::Interrupted(signal) => Exit::Signal(Some(*signal)).code(),
        };
        code.max(1)
    }
}
