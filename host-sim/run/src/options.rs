//! The options that the user types.

use core::time::Duration;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, Parser, ValueEnum};

use crate::command_line::{MPIEXEC, own_name};
use crate::hosts::{self, Share};
use crate::programs::ProgramPart;
use crate::tcp_options::TcpOptions;
use aldis_linux::coll_rules::{self, Question, RuleFile};
use aldis_linux::ethernet::{CARD_VARIABLE, CardsChoice};
use aldis_linux::peer_rows::{self, PeerRows};
use aldis_linux::shape::{JOB_RANKS_MAX, NodePlan};
use aldis_linux::{arena, job, output, transport};
use aldis_nic::CARD_KINDS;

/// The flag that asks for what collectives there are.
pub const LIST_ALGORITHMS: &str = "list_algorithms";

/// The option that asks how a collective would be carried out.
pub const EXPLAIN_COLLECTIVE: &str = "explain_collective";

/// The option that names the file of rules.
pub const COLL_RULES: &str = "coll_rules";

/// Start a job of N ranks, on this machine or on several, and end it as one.
///
/// Every rank runs PROGRAM with ARGS. The ranks find each other through the launcher and then
/// exchange messages over shared memory on one host and over TCP between hosts. When a rank dies,
/// fails or aborts, the others are ended within a second and one report says which rank, why, and
/// what every rank was doing. Nothing is left behind, whatever is killed when.
#[derive(Debug, Parser)]
#[command(name = "aldis-run", version, about, long_about, after_long_help = EXAMPLES, max_term_width = 100)]
pub struct Options {
    /// Ranks of the job
    #[arg(short = 'n', value_name = "N", value_parser = ranks, required = false, required_unless_present = EXPLAIN_COLLECTIVE)]
    pub plan: NodePlan,

    /// Transport of messages between the ranks
    #[arg(long, value_enum, default_value_t = TransportName::Auto)]
    pub transport: TransportName,

    /// The network card of every rank, for messages between hosts, or with --transport ethernet
    /// between all ranks: packet:IF, frames of an interface, xdp:IF, the same by memory shared with
    /// the system (AF_XDP), tap:IF, a TAP for each rank, memif:PATH, memory shared with DPDK or
    /// VPP, or pci:ADDRESS, a card on PCI that the system hands over (VFIO), where %r is the rank's
    /// number; with words behind commas: udp, auth, mac=interface, queue=N, server, id=%r,
    /// patience=SECONDS and others; two cards with a plus between them share the frames, and one
    /// may fail (docs/cards.md)
    #[arg(long, value_name = "CARD", env = CARD_VARIABLE, hide_env_values = true)]
    pub nic: Option<CardsChoice>,

    /// Hosts to run the ranks on, as ssh knows them, each with :K for K ranks or as many as it must
    /// take; IPv6 addresses in brackets; localhost without ssh; netns:NAME in a network namespace;
    /// local:NAME as one more host on this machine
    #[arg(long = "host", value_name = "HOST[:K],...", value_parser = hosts::list, action = ArgAction::Append)]
    pub hosts: Vec<Hosts>,

    /// A file of hosts, one a line: HOST, HOST:K or HOST slots=K; # begins a comment
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    pub hostfile: Option<PathBuf>,

    /// Ranks that each host takes in turn, whatever the list says of it; more than fit are spread
    /// evenly
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub per_host: Option<u32>,

    /// The command that runs another on a host: it is given the host and the command
    #[arg(long, value_name = "COMMAND", default_value = "ssh", value_parser = shell)]
    pub ssh: Shell,

    /// Path of aldis-run on the other hosts; this program's own path if not given
    #[arg(long, value_name = "PATH")]
    pub agent: Option<String>,

    /// Hosts whose agents one process starts: the launcher those of the first so many, each of
    /// these those of as many others, and so on, by the same command; all machines must reach each
    /// other by it then, without a question
    #[arg(long, value_name = "K", default_value = "32", value_parser = clap::value_parser!(u32).range(1..))]
    pub fanout: u32,

    /// The folder in which every rank of a program starts, on every host; this one's if not given
    #[arg(long, value_name = "FOLDER")]
    pub wdir: Option<PathBuf>,

    /// A variable for the environment of every rank, whatever program it runs
    #[arg(long = "genv", value_name = "NAME[=VALUE]", value_parser = variable)]
    pub common: Vec<(OsString, OsString)>,

    /// A variable for the environment of every rank of a program; without a value it is passed on
    /// as it is here
    #[arg(long = "env", value_name = "NAME[=VALUE]", value_parser = variable)]
    pub environment: Vec<(OsString, OsString)>,

    /// Memory of each rank that the ranks of its host have mapped too, such as 64M: what is sent
    /// from it is copied once
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = arena_bytes, env = arena::VARIABLE)]
    pub arena: usize,

    /// Peers that each rank has rows for at a time, itself included, from 3: for jobs of many ranks
    /// each of which talks to few. Any rank can talk to any other all the same, but a change of
    /// peers costs two messages each way, and the fast paths are for rows for all. If not given,
    /// all (docs/running.md)
    #[arg(long, value_name = "N", env = peer_rows::VARIABLE)]
    pub peers: Option<PeerRows>,

    /// Rules for carrying out collectives: a file, OPERATION RANKS BYTES ALGORITHM a line;
    /// docs/collectives.md
    #[arg(long, id = COLL_RULES, value_name = "FILE", value_parser = RuleFile::read, env = coll_rules::VARIABLE)]
    pub coll_rules: Option<RuleFile>,

    /// End the job after so many seconds, with a report of what every rank is doing; exit code 124
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = seconds)]
    pub timeout: Option<Duration>,

    /// Seconds that the ranks may take to find each other; if not given 30, and 60 ms a rank if
    /// that is more
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = seconds, env = job::TIMEOUT_VARIABLE)]
    pub join_timeout: Option<Duration>,

    /// Seconds without any sign of life after which a host counts as hung, and the job ends and
    /// names it; at least 0.5; 0 waits for it for ever, as a debugger that stops an agent may need
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = host_timeout, default_value = "30")]
    pub host_timeout: Duration,

    /// From a signal that asks for the job's end (Ctrl-C, SIGTERM) until ranks that ignore it are
    /// ended, by SIGTERM and then SIGKILL, in seconds
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = seconds, default_value = "5")]
    pub kill_after: Duration,

    /// Keep notes, such as that ranks share cores, to itself; without it they are said on a
    /// terminal alone
    #[arg(short, long)]
    pub quiet: bool,

    /// Take programs that know nothing of jobs: as long as no rank joins, they may end when and how
    /// they like
    #[arg(long)]
    pub any_program: bool,

    /// Pin ranks to cores
    #[arg(long, value_enum, default_value_t = Bind::Auto)]
    pub bind: Bind,

    /// Treatment of what the ranks print
    #[arg(long, value_enum, default_value_t = Output::Prefix)]
    pub output: Output,

    /// Close with the report as one line of JSON on standard error, also when all went well
    #[arg(long)]
    pub json: bool,

    /// List the algorithms of every collective operation by the names that select them, with their
    /// sources, and end
    #[arg(long, id = LIST_ALGORITHMS, exclusive = true)]
    pub list_algorithms: bool,

    /// Say how a collective would be carried out, by the rules if there are any, and why, and end:
    /// such as allreduce:8:1M
    #[arg(long, id = EXPLAIN_COLLECTIVE, value_name = "OPERATION:RANKS:BYTES", value_parser = Question::parse)]
    pub explain_collective: Option<Question>,

    #[expect(missing_docs, reason = "it would be the head of the help")]
    #[command(flatten)]
    pub tcp: TcpOptions,

    /// The program and its arguments; everything from here on is the program's, up to `:`, behind
    /// which stands another program with its own -n, --wdir, --env and --nic
    #[arg(required_unless_present = EXPLAIN_COLLECTIVE, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    pub command: Vec<OsString>,

    /// The programs after the first.
    #[arg(skip)]
    pub others: Vec<ProgramPart>,
}

/// The transports that there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TransportName {
    /// Shared memory on a host, TCP between hosts, or the card that --nic names if it names one
    Auto,
    /// Shared memory alone, on one host
    Shm,
    /// TCP alone, also on one host
    Tcp,
    /// RDMA alone, also on one host: for programs that are built with it (docs/verbs.md)
    Verbs,
    /// Shared memory on a host, RDMA between hosts
    ShmVerbs,
    /// The network card that --nic names alone, also on one host
    Ethernet,
    /// Shared memory on a host, that card between hosts
    ShmEthernet,
}

/// The cores on which ranks run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Bind {
    /// Each of a host's ranks on its share of the cores, if there is a core for each and no other
    /// job has bound its ranks to one of them
    Auto,
    /// Each of a host's ranks on a core of its own, physical cores first, round and round
    Core,
    /// Wherever the system puts them
    None,
}

/// The way in which output is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Output {
    /// Line by line as it comes, `[rank] ` in front
    Prefix,
    /// Held back, in memory, and shown rank by rank at the end
    Group,
    /// Untouched: the ranks write to the launcher's own output
    Plain,
}

const EXAMPLES: &str = r#"Examples:
  aldis-run -n 1 ./server : -n 7 --env RUST_LOG=info ./worker input.toml
      rank 0 runs one program, ranks 1-7 another; options of the job stand in front of the first
  aldis-run -n 4 target/release/examples/ring
      four ranks, their lines prefixed by [rank]
  aldis-run -n 2 --bind core target/release/examples/pingpong --json
      two ranks on cores of their own; arguments after the program are the program's
  aldis-run -n 4 --timeout 60 --output group ./solver input.toml
      at most a minute, output rank by rank at the end
  aldis-run -n 8 --host a:2,b:2,[2001:db8::5] --ssh "ssh -p 2222" --env RUST_LOG ./solver
      ranks 0-1 on a, 2-3 on b, the rest on the third; the program has the same path on each
  aldis-run -n 4 --host a,b --tcp-include ib0 --tcp-ports 40000-40099 --tcp-links 2 ./solver
      over one interface, with ports that a firewall knows, on two connections a pair of ranks
  aldis-run -n 4 --host netns:left,netns:right ./solver
      two nodes in network namespaces of this machine (root)
  aldis-run -n 4 --host a:2,b:2 --nic packet:eth1 ./solver
      frames of eth1 between the two hosts, without TCP/IP (CAP_NET_RAW)
  aldis-run -n 4 --host box1,box2 --ssh "docker exec -i" --agent /opt/aldis-run /opt/solver
      two containers
  aldis-run -n 8 --coll-rules cluster.rules ./solver
      collectives by the rules of a file, the same for every rank
  aldis-run -n 256 --peers 16 ./stencil
      a row for each of the 15 others that a rank talks to at a time, not for all 255
  aldis-run --coll-rules cluster.rules --explain-collective allreduce:8:1M
      what such a call would take, and why not the others
  aldis-run --list-algorithms
      what the collectives can be carried out by
  kill -USR1 <pid of aldis-run>
      signals sent to the launcher reach every rank; a second Ctrl-C kills them, and --kill-after ends those that
      ignore the first

Exit code:
  0 all ranks left in order; a failing rank's own code, or 128 + signal; 124 after --timeout;
  126 or 127 when PROGRAM cannot be started; 2 for a wrong command line;
  otherwise 1 when output could not be written, and 141 when its reader had closed it

Environment:
  aldis-run reads ALDIS_ARENA, ALDIS_COLL_RULES, ALDIS_JOIN_TIMEOUT, ALDIS_NIC, ALDIS_PEERS, ALDIS_TCP_INCLUDE, _EXCLUDE, _FAMILY, _PORTS, _LINKS, _CONNECTIONS and _BUFFERS, and
  ALDIS_TLS_CERT, _KEY, _CA and _NAME, where the option is not given.
  Every rank reads ALDIS_CMA, ALDIS_READ_COST, ALDIS_MAPPED_COST and ALDIS_DISTANCE: how long messages are copied.
  ALDIS_RANK, ALDIS_SIZE and ALDIS_APPNUM (which program, from 0) for scripts, ALDIS_WIREUP_FD for the library.
  docs/environment.md says what each may be.
  Rank 0, if it is on this machine, inherits the launcher's input unless that is a terminal; the others read nothing.

A program takes part by calling `aldis_linux::run`; started without aldis-run it is a job of one rank, or a rank of the
process manager that has started it (mpiexec.hydra, srun --mpi=pmi2): docs/managers.md."#;

/// The hosts of one `--host`.
pub type Hosts = Vec<hosts::Listed>;

/// The words of a command.
pub type Shell = Vec<String>;

impl Options {
    /// Takes the programs after the first; ends this one with an error if there are too many ranks
    /// of them.
    pub fn take(&mut self, others: Vec<ProgramPart>) {
        if let Err(text) = self.join(others) {
            end(text);
        }
    }

    /// Ends the program with an error if the options contradict each other.
    pub fn check(&self) {
        if let Err(text) = self.shares() {
            end(text);
        }
    }

    /// The ranks that each host gets.
    pub fn shares(&self) -> Result<Vec<Share>, String> {
        let listed: Vec<_> = match &self.hostfile {
            Some(path) => hosts::file(path)?,
            None if self.hosts.is_empty() => hosts::list("localhost")?,
            None => self.hosts.concat(),
        };
        let listed = match self.per_host {
            Some(each) => hosts::with_slots(listed, each, self.plan.ranks),
            None => listed,
        };
        let shares = hosts::share_out(self.plan.ranks, &listed)?;
        if self.meant_transport() == TransportName::Shm && shares.len() > 1 {
            let count = shares.len();
            return Err(format!(
                "--transport shm reaches the ranks of one host, and there are {count}; try --transport auto"
            ));
        }
        if let Some(text) = self.card_fault().or_else(|| self.capture_fault(&shares)) {
            return Err(text);
        }
        let crowd = shares.iter().map(|share| share.ranks).max().filter(|_| self.uses_tcp(&shares));
        if let Some(text) = crowd.and_then(|ranks| self.tcp.contradiction(ranks)) {
            return Err(text);
        }
        Ok(shares)
    }

    /// Returns true if any program has a card.
    fn names_card(&self) -> bool {
        self.nic.is_some() || self.others.iter().any(|part| part.nic.is_some())
    }

    /// Returns the transport that is meant: by `auto` with a card, that card between hosts.
    pub fn meant_transport(&self) -> TransportName {
        match self.transport {
            TransportName::Auto if self.names_card() => TransportName::ShmEthernet,
            named => named,
        }
    }

    /// The reason why these options choose no card, if they contradict each other.
    fn card_fault(&self) -> Option<String> {
        let takes_card =
            matches!(self.meant_transport(), TransportName::Ethernet | TransportName::ShmEthernet);
        if takes_card && self.nic.is_none() {
            return Some(if self.names_card() {
                "the first program has no card: give it --nic too".into()
            } else {
                format!("--transport ethernet needs a card: --nic {CARD_KINDS}; `aldis-nic list` lists them")
            });
        }
        (!takes_card && self.names_card()).then(|| {
            "--nic (or ALDIS_NIC) is for --transport auto, ethernet and shm-ethernet; give one of them, or no \
             card"
                .into()
        })
    }

    /// Returns true if any two ranks of these hosts exchange messages over TCP.
    pub fn uses_tcp(&self, shares: &[Share]) -> bool {
        match self.meant_transport() {
            TransportName::Tcp => true,
            TransportName::Verbs
            | TransportName::ShmVerbs
            | TransportName::Ethernet
            | TransportName::ShmEthernet => false,
            TransportName::Auto | TransportName::Shm => shares.len() > 1,
        }
    }

    /// Returns true if the ranks of these hosts have a key in common: for connections over TCP, or
    /// for frames.
    pub fn needs_key(&self, shares: &[Share]) -> bool {
        let has_tags = self.nic.as_ref().is_some_and(|nic| nic.first.is_authenticated);
        let has_frames = match self.meant_transport() {
            TransportName::Ethernet => true,
            TransportName::ShmEthernet => shares.len() > 1,
            _ => false,
        };
        self.uses_tcp(shares) || has_tags && has_frames
    }
}

/// Ends the program with an error of the options; without the usage of `aldis-run` where it was not
/// typed.
fn end(text: String) -> ! {
    if own_name() == MPIEXEC {
        output::failed(MPIEXEC, &std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
        std::process::exit(2);
    }
    Options::command().bin_name(own_name()).error(ErrorKind::ValueValidation, text).exit()
}

/// The least time that ranks have to find each other if the user gives none, and the time a rank.
const JOIN_LEAST: Duration = Duration::from_secs(30);
const JOIN_A_RANK: Duration = Duration::from_millis(60);

impl Options {
    /// Returns the time that the ranks may take to find each other.
    pub fn join_limit(&self) -> Duration {
        self.join_timeout.unwrap_or_else(|| JOIN_LEAST.max(JOIN_A_RANK.saturating_mul(self.plan.ranks)))
    }

    /// Returns the variables that the ranks of a program find in their environment: those that the
    /// user sets for all and for them, then the rules, the transport and its card, which no
    /// variable of the user can replace. `card` is that of the program, if it has one of its own.
    pub fn variables(
        &self,
        program: &[(OsString, OsString)],
        card: Option<&CardsChoice>,
    ) -> Vec<(OsString, OsString)> {
        let rules = self.coll_rules.as_ref().map_or_else(String::new, RuleFile::carried);
        let own = (coll_rules::TEXT_VARIABLE.into(), rules.into());
        let name = self.meant_transport().to_possible_value().map(|value| value.get_name().to_owned());
        let chosen = (transport::VARIABLE.into(), name.unwrap_or_default().into());
        let card = card.or(self.nic.as_ref()).map(|card| (CARD_VARIABLE.into(), card.with_secrets().into()));
        let rows = self.peers.map(|rows| (peer_rows::VARIABLE.into(), rows.to_string().into()));
        self.common.iter().chain(program).cloned().chain([own, chosen]).chain(card).chain(rows).collect()
    }
}

/// The words of a command line, at least one.
fn shell(line: &str) -> Result<Shell, String> {
    let words = hosts::words(line)?;
    if words.is_empty() { Err("no command".into()) } else { Ok(words) }
}

/// `NAME=VALUE`, or `NAME` of this environment.
pub fn variable(text: &str) -> Result<(OsString, OsString), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.into()),
        None => {
            let value = std::env::var_os(text);
            (
                text,
                value
                    .ok_or_else(|| format!("no {text} in this environment; give it a value: {text}=VALUE"))?,
            )
        }
    };
    if name.is_empty() { Err("a variable without a name".into()) } else { Ok((name.into(), value)) }
}

/// A number of ranks that a job can have.
pub fn ranks(text: &str) -> Result<NodePlan, String> {
    if text == "p" {
        return Err("-np is -n here; aldis-mpiexec takes the options of mpiexec".into());
    }
    let ranks: u32 = text.parse().map_err(|_| format!("not a number of ranks from 1 to {JOB_RANKS_MAX}"))?;
    if ranks == 0 {
        return Err("a job needs at least one rank; try -n 1".into());
    }
    NodePlan::of(ranks)
        .ok_or_else(|| format!("a job has at most {JOB_RANKS_MAX} ranks; try -n {JOB_RANKS_MAX} or fewer"))
}

/// The size of an arena.
fn arena_bytes(text: &str) -> Result<usize, String> {
    arena::parse_bytes(text).ok_or_else(|| "not a number of bytes, such as 256K, 64M or 1G".into())
}

/// A positive number of seconds, fractions allowed.
fn seconds(text: &str) -> Result<Duration, String> {
    job::parse_seconds(text).ok_or_else(|| "not a positive number of seconds".into())
}

/// The least time after which a silent host may count as hung: below it, any machine that runs
/// something else for a moment would.
const HOST_TIMEOUT_MIN: Duration = Duration::from_millis(500);

/// Returns a time that may be none at all: zero.
fn host_timeout(text: &str) -> Result<Duration, String> {
    if text.parse() == Ok(0.0) {
        return Ok(Duration::ZERO);
    }
    let least = HOST_TIMEOUT_MIN.as_secs_f64();
    let remedy = || format!("at least {least} s, or 0 to wait for ever");
    let limit = seconds(text).map_err(|error| format!("{error}; {}", remedy()))?;
    if limit >= HOST_TIMEOUT_MIN { Ok(limit) } else { Err(format!("too short: {}", remedy())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::{self, LaunchedProgram};
    use aldis_linux::transport::TransportChoice;
    use aldis_linux::wireup::SOCKET_VARIABLE;
    use aldis_linux::{cma, copier, pmi};

    fn parse(line: &str) -> Result<Options, String> {
        Options::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_host_is_waited_for_as_long_as_asked() {
        let limit = |line: &str| parse(line).map(|options| options.host_timeout);
        assert_eq!(limit("aldis-run -n 1 a"), Ok(Duration::from_secs(30)));
        assert_eq!(limit("aldis-run -n 1 --host-timeout 0 a"), Ok(Duration::ZERO));
        assert_eq!(limit("aldis-run -n 1 --host-timeout 0.5 a"), Ok(Duration::from_millis(500)));
        let no_numbers = ["-1", "soon", "nan", "-inf"].map(|wrong| (wrong, "number of seconds"));
        for (wrong, said) in no_numbers.into_iter().chain(["0.499", "1e-7"].map(|wrong| (wrong, "too short")))
        {
            let refused = limit(&format!("aldis-run -n 1 --host-timeout {wrong} a"));
            let is_told =
                |text: &String| text.contains(said) && text.contains("at least 0.5 s, or 0 to wait");
            assert!(refused.as_ref().is_err_and(is_told), "{refused:?}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn the_page_of_variables_has_them_all() {
        let page = include_str!("../../../docs/environment.md");
        for option in Options::command().get_arguments() {
            let Some((variable, name)) = option.get_env().zip(option.get_long()) else { continue };
            let row = format!("| `{}` | `--{name}` |", variable.to_string_lossy());
            assert!(page.contains(&row), "no row {row}");
        }
        for variable in [
            cma::VARIABLE,
            cma::COST_VARIABLE,
            copier::COST_VARIABLE,
            SOCKET_VARIABLE,
            coll_rules::TEXT_VARIABLE,
            transport::VARIABLE,
            pmi::VERSION_VARIABLE,
            "ALDIS_VERBS",
        ] {
            assert!(page.contains(&format!("| `{variable}` |")), "no row for {variable}");
        }
    }

    #[test]
    fn ranks_under_a_process_manager_know_the_transports_too() {
        for name in TransportName::value_variants() {
            let value = name.to_possible_value().unwrap();
            assert!(TransportChoice::parse(value.get_name()).is_some(), "{name:?}");
        }
    }

    #[test]
    fn everything_after_the_program_is_the_programs() {
        let options = parse("aldis-run -n 3 --timeout 1.5 prog --bogus -n 7 -- x").unwrap();
        assert_eq!(options.plan.ranks, 3);
        assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(options.command, ["prog", "--bogus", "-n", "7", "--", "x"]);
    }

    #[test]
    fn several_programs_have_ranks_folders_and_variables_of_their_own() {
        let line = "aldis-run -n 2 --genv G=1 --env A=1 a x : -n 3 --wdir /w --env B=2 b -n 7 : -n 1 c";
        let mut parts = programs::split(line.split(' ').map(OsString::from)).into_iter();
        let mut options = Options::try_parse_from(parts.next().unwrap()).unwrap();
        options.join(parts.map(|part| ProgramPart::try_parse_from(part).unwrap()).collect()).unwrap();
        assert_eq!(options.plan.ranks, 6);
        let programs = options.programs();
        let ranks: Vec<u32> = programs.iter().map(|one| one.ranks).collect();
        assert_eq!(ranks, [2, 3, 1]);
        let [a, b, c] = programs.as_slice() else { panic!("three programs") };
        assert_eq!((a.command.join("_".as_ref()), a.folder.as_ref()), ("a_x".into(), None));
        assert_eq!((b.command.join("_".as_ref()), b.folder.clone()), ("b_-n_7".into(), Some("/w".into())));
        let has = |program: &LaunchedProgram, name: &str| {
            program.environment.iter().any(|(known, _)| known == name)
        };
        assert!([a, b, c].iter().all(|one| has(one, "G")) && has(a, "A") && has(b, "B"));
        assert!(!has(b, "A") && !has(a, "B") && !has(c, "A") && !has(c, "B"));
        let card = |program: &LaunchedProgram| {
            let found = program.environment.iter().find(|(known, _)| known == CARD_VARIABLE);
            found.map(|(_, card)| card.to_string_lossy().into_owned())
        };
        let line =
            "aldis-run -n 1 --transport ethernet --nic memif:/m,server a : -n 1 --nic memif:/m b : -n 1 c";
        let mut parts = programs::split(line.split(' ').map(OsString::from)).into_iter();
        let mut job = Options::try_parse_from(parts.next().unwrap()).unwrap();
        job.join(parts.map(|part| ProgramPart::try_parse_from(part).unwrap()).collect()).unwrap();
        let cards = job.programs().iter().map(card).collect::<Vec<_>>();
        assert_eq!(cards, ["memif:/m,server", "memif:/m", "memif:/m,server"].map(|card| Some(card.into())));
        job.transport = TransportName::Shm;
        job.nic = None;
        assert!(job.shares().unwrap_err().contains("is for --transport auto, ethernet and"));
        job.transport = TransportName::Auto;
        assert!(job.shares().unwrap_err().contains("the first program has no card"));
        let parts = vec![ProgramPart::try_parse_from("aldis-run -n 65531 b".split(' ')).unwrap()];
        assert!(options.join(parts).unwrap_err().contains("65537 ranks of all programs: "));
    }

    #[test]
    fn wrong_lines_are_answered_with_what_would_be_right() {
        for (line, answer) in [
            ("aldis-run -n 0 prog", "at least one rank"),
            ("aldis-run -n 65537 prog", "at most 65536 ranks"),
            ("aldis-run -n many prog", "from 1 to 65536"),
            ("aldis-run prog", "-n <N>"),
            ("aldis-run -n 2", "PROGRAM"),
            (
                "aldis-run -n 2 --transport pigeon prog",
                "[possible values: auto, shm, tcp, verbs, shm-verbs, ethernet, shm-ethernet]",
            ),
            ("aldis-run -n 2 --arena lots prog", "not a number of bytes, such as 256K"),
            ("aldis-run -n 2 --bogus prog", "unexpected argument '--bogus'"),
            ("aldis-run -n 2 --timeout 0 prog", "positive number of seconds"),
            ("aldis-run -n 2 --timeout -1 prog", "positive number of seconds"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(answer), "{line}: {error}");
        }
    }

    #[test]
    fn auto_with_a_card_is_shared_memory_and_that_card() {
        let told = |line: &str| {
            let options = parse(&format!("aldis-run -n 4 --host a:2,b:2 {line} prog")).unwrap();
            let shares = options.shares().unwrap();
            let variables = options.variables(&[], None);
            let value = |name: &str| {
                let found = variables.iter().find(|(known, _)| known == name)?;
                found.1.to_str().map(str::to_owned)
            };
            (
                value(transport::VARIABLE),
                value(CARD_VARIABLE),
                options.uses_tcp(&shares),
                options.needs_key(&shares),
            )
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(told(""), (some("auto"), None, true, true));
        let card = "memif:/m,auth,secret=word+memif:/n,secret=other";
        for line in ["", "--transport auto", "--transport shm-ethernet"] {
            let expected = (some("shm-ethernet"), some(card), false, true);
            assert_eq!(told(&format!("{line} --nic {card}")), expected, "{line}");
        }
        let tcp = parse("aldis-run -n 2 --transport tcp --nic packet:eth0 prog").unwrap();
        assert!(tcp.shares().unwrap_err().contains("or no card"));
    }

    #[test]
    fn hosts_and_variables_are_read() {
        let options =
            parse("aldis-run -n 5 --host a:1,[::1] --host b:2 --env A=b=c --env PATH prog").unwrap();
        let shares = options.shares().unwrap();
        let ranks: Vec<(u32, u32)> = shares.iter().map(|share| (share.first, share.ranks)).collect();
        assert_eq!(ranks, [(0, 1), (1, 2), (3, 2)]);
        for (line, ranks) in
            [("-n 4 --host a,b:3 --per-host 2", [2, 2]), ("-n 7 --host a,b --per-host 2", [4, 3])]
        {
            let shares = parse(&format!("aldis-run {line} prog")).unwrap().shares().unwrap();
            assert!(shares.iter().map(|share| share.ranks).eq(ranks), "{line}");
        }
        let [(name, value), (path, _)] = options.environment.as_slice() else { panic!("two variables") };
        assert_eq!((name.to_str(), value.to_str(), path.to_str()), (Some("A"), Some("b=c"), Some("PATH")));
    }

    #[test]
    fn options_that_contradict_each_other_are_told() {
        for (line, answer) in [
            ("aldis-run -n 3 --host a:1,b:1 prog", "the hosts have 2 slots for 3 ranks"),
            (
                "aldis-run -n 2 --host a,b --transport shm prog",
                "shm reaches the ranks of one host, and there are 2",
            ),
            ("aldis-run -n 2 --hostfile /no/such/file prog", "/no/such/file: No such file"),
        ] {
            let error = parse(line).unwrap().shares().unwrap_err();
            assert!(error.contains(answer), "{line}: {error}");
        }
        for (line, answer) in [
            ("aldis-run -n 2 --host a,,b prog", "a host without a name"),
            ("aldis-run -n 2 --host a --hostfile b prog", "cannot be used with"),
            ("aldis-run -n 2 --env NO_SUCH_VARIABLE prog", "no NO_SUCH_VARIABLE in this environment"),
            ("aldis-run -n 2 --env =x prog", "without a name"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(answer), "{line}: {error}");
        }
        assert_eq!(shell(" "), Err("no command".into()));
    }
}
