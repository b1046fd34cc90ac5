//! A job from the switch's start to the last verdict.

use core::time::Duration;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use aldis_shell::children::{Child, Folder, lines_of};
use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::bridge::Bridge;
use super::cli::{EmulatorLink, FramePercentages, Framing};
use super::defmt::Decoded;
use super::machine::{self, Arch, RankPlace};
use super::programs::QemuPrograms;
use super::rank::Rank;
use super::report::JobReport;

/// Once a rank has failed, how long the others may take to say what they think of it.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The time that the switch may take to begin, and to tell its figures at the end.
const SWITCH_LIMIT: Duration = Duration::from_secs(10);
/// The time that a process whose output has ended may take to end itself.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The wire between the ranks.
#[derive(Clone, Default)]
pub(super) struct Wire {
    pub(super) faults: FramePercentages,
    pub(super) pcap: Option<PathBuf>,
}

/// A job as it is asked for.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) name: String,
    /// The architecture of each machine.
    pub(super) members: Vec<Arch>,
    /// The cores of each machine that are ranks.
    pub(super) cores: usize,
    pub(super) link: EmulatorLink,
    pub(super) framing: Framing,
    /// The key of its frames, if they are authenticated.
    pub(super) key: Option<String>,
    pub(super) program: String,
    pub(super) count: Option<u32>,
    /// The cores of each machine that are one rank, in the program that is about them.
    pub(super) sharing: u32,
    pub(super) wire: Wire,
    pub(super) deadline: Duration,
    /// True if what the ranks say goes to standard error.
    pub(super) quiet: bool,
    /// True if it goes nowhere.
    pub(super) silent: bool,
}

/// An event of a rank.
enum RankEvent {
    Said(usize, Vec<u8>),
    /// The end of one of its two streams.
    Silent(usize),
}

impl Job {
    /// Builds all, plays the job, compares it with the same of Linux processes, and tells what came
    /// of it.
    pub(super) fn show(&self, json: bool) -> Result<()> {
        if let Some(why) = self.members.iter().find_map(|arch| arch.refuses(self.link)) {
            bail!("{why}");
        }
        if self.cores > 1
            && let Some(why) = self.members.iter().find_map(|arch| arch.refuses_cores(self.link))
        {
            bail!("{why}");
        }
        if machine::is_on_taps(self.link, self.cores)
            && !(self.wire.faults.are_none() && self.wire.pcap.is_none())
        {
            bail!("cards of several queues are on TAPs, not on the switch that makes faults and captures");
        }
        let everybody: Vec<Arch> = self.members.iter().copied().chain([Arch::Host]).collect();
        eprintln!("building what the ranks run");
        let programs = QemuPrograms::build(&everybody)?;
        let mut report = self.play(&programs)?;
        report.compare_with_host(&programs)?;
        println!("{}", if json { report.json() } else { report.table() });
        report.judge()?;
        if !json {
            println!("verdict: {}", report.praise());
        }
        Ok(())
    }

    /// The number of its ranks.
    pub(super) const fn size(&self) -> usize {
        self.members.len() * self.cores
    }

    /// This job as one of Linux processes on a good wire: what others are compared with.
    pub(super) fn of_the_host(&self) -> Self {
        Self {
            name: "the host's own".into(),
            members: vec![Arch::Host; self.size()],
            cores: 1,
            link: EmulatorLink::VirtioNet,
            wire: Wire::default(),
            silent: true,
            ..self.clone()
        }
    }

    /// Plays the job. Fails if it cannot be started; what the ranks do is for the report.
    pub(super) fn play(&self, programs: &QemuPrograms) -> Result<JobReport> {
        let folder = Folder::new()?;
        let start = Instant::now();
        let mut switch = self.switch(programs, &folder)?;
        let on_taps = machine::is_on_taps(self.link, self.cores);
        let bridge = on_taps.then(|| Bridge::start(self.members.len())).transpose()?;
        let (sender, events) = mpsc::channel();
        let mut children = Vec::new();
        for (member, arch) in self.members.iter().enumerate() {
            let words = self.words(member * self.cores, *arch);
            let program = programs.of(*arch);
            let place = RankPlace {
                folder: folder.path(),
                rank: member,
                link: self.link,
                cores: self.cores,
                sharing: self.sharing as usize,
                words: &words,
                program,
            };
            let command = machine::command(*arch, &place);
            let command = match &bridge {
                Some(bridge) => bridge.command(&command),
                None => command,
            };
            let mut child = Child::start(&command)?;
            for (number, stream) in child.streams().enumerate() {
                // The emulator's errors, among which a microcontroller's image logs.
                let stream = match (*arch, number) {
                    (Arch::CortexM, 1) => Box::new(Decoded::of_image(program, stream)?),
                    _ => stream,
                };
                listen(member, stream, sender.clone());
            }
            children.push(child);
        }
        drop(sender);
        let ranks = self.watch(&mut children, &events, start);
        drop(children);
        let wire = switch.as_mut().map(Switch::end).transpose()?;
        Ok(JobReport {
            job: self.clone(),
            ranks,
            wire,
            seconds: start.elapsed().as_secs_f64(),
            reference: None,
        })
    }

    /// The command line of a rank.
    fn words(&self, rank: usize, arch: Arch) -> String {
        let link = match (arch, self.link) {
            (Arch::Host, _) => "nic",
            _ if self.size() == 1 => "loopback",
            (_, EmulatorLink::VirtioNet) => "virtio-net",
            (_, EmulatorLink::E1000e | EmulatorLink::E1000) => "e1000e",
            (_, EmulatorLink::Ivshmem) => "ivshmem",
            (_, EmulatorLink::Serial) => "serial",
            (_, EmulatorLink::Cores) => "cores",
        };
        let framing = if self.framing == Framing::Udp { "udp" } else { "ethernet" };
        let (size, program, ms) = (self.size(), &self.program, self.deadline.as_millis());
        let mut words = format!(
            "aldis.rank={rank} aldis.size={size} aldis.program={program} aldis.link={link} aldis.job=a1d15 aldis.framing={framing} aldis.deadline_ms={ms}"
        );
        if let Some(key) = &self.key {
            words.push_str(&format!(" aldis.key={key}"));
        }
        if self.cores > 1 && self.link != EmulatorLink::Cores {
            words.push_str(&format!(" aldis.cores={}", self.cores));
        }
        if self.sharing > 1 {
            words.push_str(&format!(" aldis.sharing={}", self.sharing));
        }
        if let Some(count) = self.count {
            words.push_str(&format!(" aldis.count={count}"));
        }
        words
    }

    /// Starts the switch, where the link has one, and waits until it is ready.
    fn switch(&self, programs: &QemuPrograms, folder: &Folder) -> Result<Option<Switch>> {
        let has_none = matches!(self.link, EmulatorLink::Ivshmem | EmulatorLink::Cores);
        if has_none || machine::is_on_taps(self.link, self.cores) {
            return Ok(None);
        }
        let mut command = Command::new(&programs.switch);
        command.arg(folder.path()).args(["--until-eof", "--json"]);
        let is_serial = |arch: &Arch| self.link == EmulatorLink::Serial && *arch != Arch::Host;
        let ports = |serial: bool| {
            let members = self.members.iter().enumerate().filter(|(_, arch)| is_serial(arch) == serial);
            let list: String = members.map(|(rank, _)| format!("{rank},")).collect();
            if list.is_empty() { "0".into() } else { list }
        };
        command.args(["--datagram", &ports(false)]);
        if self.link == EmulatorLink::Serial {
            command.args(["--serial", &ports(true)]);
        }
        let faults = &self.wire.faults;
        for (name, percent) in faults.rates() {
            command.args([name, &percent.to_string()]);
        }
        command.args(["--seed", &faults.seed.to_string()]);
        if let Some(pcap) = &self.wire.pcap {
            command.arg("--pcap").arg(std::path::absolute(pcap)?);
        }
        Switch::start(&command).map(Some)
    }

    /// Reads the ranks' output until all have ended, one has failed and the others have had their
    /// say, or time is up.
    fn watch(&self, children: &mut [Child], events: &Receiver<RankEvent>, start: Instant) -> Vec<Rank> {
        let mut ranks: Vec<Rank> = self
            .members
            .iter()
            .enumerate()
            .map(|(member, arch)| Rank::new(member * self.cores, *arch))
            .collect();
        let mut streams = vec![2_u8; ranks.len()];
        let mut until = start + self.deadline;
        // Once no child is left that could print something, this ends too.
        while let Some(event) = next(events, until) {
            let (number, bytes) = match event {
                RankEvent::Said(number, bytes) => (number, bytes),
                RankEvent::Silent(number) => {
                    streams[number] -= 1;
                    (number, if streams[number] == 0 { b"\n".to_vec() } else { Vec::new() })
                }
            };
            let rank = &mut ranks[number];
            let label = rank.label();
            rank.hear(&bytes).iter().filter(|line| !line.is_empty()).for_each(|line| self.say(&label, line));
            if streams[number] == 0 && rank.ended.is_none() {
                let status = children[number].wait(Instant::now() + END_LIMIT);
                rank.ended = status.map(|status| (status, start.elapsed()));
                if rank.fault().is_some() {
                    until = until.min(Instant::now() + LAST_WORDS);
                }
            }
        }
        ranks
    }

    fn say(&self, label: &str, line: &str) {
        if self.silent {
            return;
        }
        if self.quiet {
            eprintln!("{label} {line}");
        } else {
            println!("{label} {line}");
        }
    }
}

fn next(events: &Receiver<RankEvent>, until: Instant) -> Option<RankEvent> {
    events.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
}

/// Passes on what a stream says, until it ends: a thread that ends with the rank.
fn listen(rank: usize, stream: Box<dyn Read + Send>, events: Sender<RankEvent>) {
    std::thread::spawn(move || {
        // Line by line: a rank's two streams are told as one.
        let (mut stream, mut line) = (BufReader::new(stream), Vec::new());
        while let Ok(1..) = stream.read_until(b'\n', &mut line) {
            if events.send(RankEvent::Said(rank, core::mem::take(&mut line))).is_err() {
                return;
            }
        }
        let _ = events.send(RankEvent::Silent(rank));
    });
}

/// The switch between the ranks.
struct Switch {
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Switch {
    fn start(command: &Command) -> Result<Self> {
        let mut child = Child::start(command)?;
        let mut streams = child.streams().map(lines_of);
        let (Some(lines), Some(errors)) = (streams.next(), streams.next()) else {
            bail!("the switch has no output");
        };
        drop(streams);
        let mut switch = Self { child, lines, errors };
        let first = switch.line().context("the switch did not start")?;
        if first != "ready" {
            bail!("the switch began with {first:?}");
        }
        Ok(switch)
    }

    fn line(&mut self) -> Result<String> {
        self.lines.recv_timeout(SWITCH_LIMIT).map_err(|_| {
            let said: Vec<String> = self.errors.try_iter().collect();
            anyhow::anyhow!("it said nothing within {} s {}", SWITCH_LIMIT.as_secs(), said.join(" "))
        })
    }

    /// Ends it and returns its figures.
    fn end(&mut self) -> Result<Value> {
        self.child.end_input();
        let figures = self.line().context("the switch's figures")?;
        serde_json::from_str(&figures).context("the switch's figures")
    }
}
