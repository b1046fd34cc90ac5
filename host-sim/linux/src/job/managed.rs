//! A process that a process manager has started becomes a rank: what a launcher would tell it, the
//! ranks tell each other through the manager's store.
//!
//! ```text
//! put  who     where it runs, its cores, what its environment asks for;
//!              rank 0 also the job's numbers
//! fence        all know who shares memory with whom
//! put  memory  the process and the descriptor of its segment
//! fence        those of a node open each other's, under /proc
//! put  card    its inbox is formatted
//! fence        all introduce each other; the descriptors are closed
//! ```

use core::time::Duration;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Instant;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use aldis_coll::rules;
use aldis_kernel::Memory;
use aldis_sys::clock::sleep;
use aldis_sys::file::{self, File, OFlag, OpenOptions, read_to_string};

use super::{
    FAREWELL_LIMIT, GREETING_LIMIT, Job, LAST_WORD_LIMIT, Superior, TIMEOUT_VARIABLE, Terms, arena_bytes,
    assemble, inherited_rules, parse_seconds, with_rows,
};
use crate::arena;
use crate::board::{Label, LifePhase, StatusBoard};
use crate::coll_rules::{self, RuleFile};
use crate::entropy::{self, NoEntropy};
use crate::error::JoinError;
use crate::ethernet;
use crate::peer_rows::JoinCard;
use crate::platform::allowed_cores;
use crate::pmi::{AnswerFault, Client, ManagedRank, PmiError, VALUE_BYTES_MAX};
use crate::segment::{self, LeakedSegment, Segment};
use crate::shape::{self, JOB_RANKS_MAX, NodePlan};
use crate::tcp::{self, JobKey, KEY_BYTES};
use crate::transport::{self, HostEndpoint, Segments, TransportChoice};
use crate::wireup::{CardTable, FromRank, Node, TcpTerms, VERSION, bounded};

/// The longest that a manager may take to end a rank that asks for it.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The longest that a manager may take to pass on an error.
const TELLING: Duration = Duration::from_millis(100);

/// The description of itself that a rank publishes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Who {
    /// The wire-up version of its build.
    version: u16,
    /// A text that is equal for all ranks that can open each other's segments and have the same
    /// network.
    place: String,
    /// The cores that it may use, a bit each.
    cores: Vec<u64>,
    /// The requests of its environment, or what is wrong with them.
    asks: Result<Asks, String>,
    /// The job's random number and key: rank 0 alone.
    job: Option<(u64, [u8; KEY_BYTES])>,
}

/// The requests of the environment, which have to be the same on all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Asks {
    transport: TransportChoice,
    arena_bytes: u64,
    links: u8,
    encrypts: bool,
    /// True if frames of a card have tags.
    authenticates: bool,
    /// A hash of the rules for collectives.
    rules: u64,
}

/// The place of a rank's segment.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SegmentPlace {
    process: u32,
    descriptor: RawFd,
}

/// The settings in this process's environment.
struct JobSettings {
    asks: Asks,
    tcp: tcp::TcpConfig,
    rules: Option<RuleFile>,
}

/// Joins the job that the manager has started this process for.
pub(super) fn join(
    managed_rank: ManagedRank,
    storage: impl FnOnce(u32) -> Result<Memory<'static>, JoinError>,
) -> Result<(Job, HostEndpoint), JoinError> {
    let deadline = Instant::now() + limit()?;
    let mut client = Client::introduce(managed_rank, deadline)?;
    match take_part(&mut client, storage, deadline) {
        Ok((board, endpoint)) => {
            let (rank, size) = (client.rank(), client.size());
            Ok((Job { rank, size, superior: Superior::Manager(client), board }, endpoint))
        }
        Err(error) => {
            give_up(&mut client, &error);
            Err(error)
        }
    }
}

/// Has the job ended because of `error`. That ends this process too, and so the error is said
/// first.
fn give_up(client: &mut Client, error: &JoinError) {
    let speaks = match error {
        JoinError::Manager(PmiError::Command { fault: AnswerFault::Closed, .. }) => return,
        // The ranks that it concerns say it.
        JoinError::Unlike { .. } => client.rank() == 0,
        JoinError::Elsewhere { .. } => false,
        _ => true,
    };
    if speaks {
        tell(&format!("rank {}: {error}", client.rank()));
        // A manager that is gone ends no rank.
        let _ = client.abort(1, Instant::now() + LAST_WORD_LIMIT);
    }
    client.await_end(Instant::now() + END_LIMIT);
}

/// Shows an error, and leaves the manager time to take it: Hydra drops what still is in its pipes
/// when it ends a job.
fn tell(text: &str) {
    eprintln!("{text}");
    sleep(TELLING);
}

/// Sends a rank's last message. No manager shows what ranks say, and it ends this one too: an error
/// is shown here, and first.
pub(super) fn say(client: &mut Client, word: &FromRank<'_>) {
    let rank = client.rank();
    // A manager that is gone has nothing to be told.
    let _ = match *word {
        FromRank::Leave { .. } => client.finalize(Instant::now() + FAREWELL_LIMIT),
        FromRank::Abort { code, text } => {
            tell(&format!("rank {rank} aborted the job with code {code}: {text}"));
            client.abort(code, Instant::now() + LAST_WORD_LIMIT)
        }
        FromRank::Failed { text, consequence } => {
            if consequence {
                // The one that failed first is to be reported first, with its code.
                client.await_end(Instant::now() + LAST_WORD_LIMIT);
            } else {
                tell(&format!("rank {rank} failed: {text}"));
            }
            client.abort(1, Instant::now() + LAST_WORD_LIMIT)
        }
        FromRank::Hello { .. } | FromRank::Card { .. } | FromRank::Joined => Ok(()),
    };
}

fn take_part(
    client: &mut Client,
    storage: impl FnOnce(u32) -> Result<Memory<'static>, JoinError>,
    deadline: Instant,
) -> Result<(&'static StatusBoard, HostEndpoint), JoinError> {
    let rank = client.rank();
    let key = (rank == 0).then(new_key).transpose();
    let (settings, key) = match settings().and_then(|settings| Ok((settings, key?))) {
        Ok((settings, key)) => (Ok(settings), key),
        Err(error) => (Err(error), None),
    };
    let asks = settings.as_ref().map(|settings| settings.asks);
    let asks = asks.map_err(|error| bounded(&error.to_string()).to_owned());
    let all: Vec<Who> = exchange_all(client, "who", &Who::of_this_process(key, asks), deadline)?;
    let (settings, asks) = match (settings, agreed(&all)) {
        (Err(own), Err(JoinError::Elsewhere { rank: first, .. })) if first == rank => return Err(own),
        (settings, agreed) => agreed.and_then(|asks| Ok((settings?, asks)))?,
    };
    let (terms, plan) = asks.terms(rank, &all, settings.tcp, deadline)?;
    let memory = with_rows(storage, terms.label.size)?;
    let file = segment::create(terms.label, plan.segment_bytes)
        .map_err(|error| JoinError::Segment { rank, error })?;
    let held = SegmentPlace { process: std::process::id(), descriptor: file.as_raw_fd() };
    put(client, "memory", &held, deadline)?;
    client.fence(deadline)?;
    let (first, count) = terms.node.mates_of(rank);
    let staging = shape::staging_bytes(count);
    let per_node = terms.node.per_node;
    let (mapped, records, departures) = (Vec::new(), None, None);
    let mut segments = Segments { me: rank, first, mapped, staging, per_node, records, departures };
    for mate in first..first + count {
        let held = if mate == rank { held } else { get(client, "memory", mate, deadline)? };
        segments.mapped.push(open(mate, held, &terms)?);
    }
    let board = segments.own()?.board();
    board.take_up(std::process::id());
    let mut endpoint = assemble(&terms, &segments, memory, |card| exchange_cards(client, card, &terms))?;
    if let Some(rules) = settings.rules {
        rules::set(&mut endpoint, Some(rules.leak()));
    }
    board.enter(LifePhase::Running);
    Ok((board, endpoint))
}

/// Returns the longest that the ranks may take to find each other.
fn limit() -> Result<Duration, JoinError> {
    let Ok(value) = std::env::var(TIMEOUT_VARIABLE) else { return Ok(GREETING_LIMIT) };
    let why = "not a positive number of seconds".to_owned();
    parse_seconds(&value).ok_or(JoinError::Setting { name: TIMEOUT_VARIABLE, value, why })
}

fn settings() -> Result<JobSettings, JoinError> {
    let unsound = |tcp::environment::Unsound { name, value, why }| JoinError::Setting { name, value, why };
    let tcp = tcp::TcpConfig::from_environment().map_err(unsound)?;
    let rules = match std::env::var(coll_rules::VARIABLE) {
        Ok(path) => {
            let read = RuleFile::read(&path);
            Some(read.map_err(|why| JoinError::Setting { name: coll_rules::VARIABLE, value: path, why })?)
        }
        Err(_) => inherited_rules()?,
    };
    let asks = Asks {
        transport: TransportChoice::from_environment()?.with_card(ethernet::names_card()?),
        arena_bytes: arena_bytes()? as u64,
        links: tcp.links,
        encrypts: tcp.tls.is_some(),
        authenticates: ethernet::is_authenticated()?,
        rules: rules.as_ref().map_or(0, |rules| hash(&rules.carried())),
    };
    Ok(JobSettings { asks, tcp, rules })
}

/// The first 64 bits of SHA-256.
fn hash(text: &str) -> u64 {
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    digest.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

impl Who {
    fn of_this_process(job: Option<(u64, [u8; KEY_BYTES])>, asks: Result<Asks, String>) -> Self {
        let mut cores: Vec<u64> = Vec::new();
        for core in allowed_cores() {
            cores.resize(cores.len().max(core / 64 + 1), 0);
            if let Some(word) = cores.get_mut(core / 64) {
                *word |= 1 << (core % 64);
            }
        }
        Self { version: VERSION, place: place(), cores, asks, job }
    }
}

/// Draws the number and the key of a job.
fn new_key() -> Result<(u64, [u8; KEY_BYTES]), NoEntropy> {
    Ok((entropy::random()?, JobKey::random()?))
}

/// Returns a text that is the same for all that see each other's processes and have the same
/// network: the machine since it was started, and the name spaces. Every process has a text of its
/// own where `/proc` does not tell.
fn place() -> String {
    let boot = read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let space = |name: &str| {
        let link = file::read_link(format!("/proc/self/ns/{name}")).ok()?;
        link.to_str().map(str::to_owned)
    };
    let known = boot.zip(space("pid")).zip(space("net"));
    known.map_or_else(
        || format!("{:016x}", entropy::distinct()),
        |((boot, processes), network)| format!("{} {processes} {network}", boot.trim_end()),
    )
}

/// Returns the requests on which all environments agree.
fn agreed(all: &[Who]) -> Result<Asks, JoinError> {
    let mut asks = None;
    for (rank, who) in (0..).zip(all) {
        if who.version != VERSION {
            return Err(JoinError::Told { rank });
        }
        let text = |text: &String| JoinError::Elsewhere { rank, text: text.clone() };
        let own = who.asks.as_ref().map_err(text)?;
        let first = asks.get_or_insert(*own);
        if let Some(name) = first.difference(own) {
            return Err(JoinError::Unlike { rank, name });
        }
    }
    asks.ok_or(JoinError::Told { rank: 0 })
}

impl Asks {
    /// The variable by which another asks for something else, if it does.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        // The two differ in whether a card is named.
        let by_card = [TransportChoice::Auto, TransportChoice::ShmEthernet];
        let is_by_card = by_card.contains(&self.transport) && by_card.contains(&other.transport);
        let transport = if is_by_card { ethernet::CARD_VARIABLE } else { transport::VARIABLE };
        let pairs = [
            (self.transport == other.transport, transport),
            (self.arena_bytes == other.arena_bytes, arena::VARIABLE),
            (self.links == other.links, "ALDIS_TCP_LINKS"),
            (self.encrypts == other.encrypts, "ALDIS_TLS_CERT"),
            (self.authenticates == other.authenticates, ethernet::CARD_VARIABLE),
            (self.rules == other.rules, coll_rules::VARIABLE),
        ];
        pairs.into_iter().find(|(same, _)| !same).map(|(_, name)| name)
    }

    /// Returns the terms that a launcher would have told this rank.
    fn terms(
        self,
        rank: u32,
        all: &[Who],
        config: tcp::TcpConfig,
        deadline: Instant,
    ) -> Result<(Terms, NodePlan), JoinError> {
        let size = all.len() as u32;
        let Some((job, key)) = all.first().and_then(|who| who.job.as_ref()) else {
            return Err(JoinError::Told { rank: 0 });
        };
        let shares_memory = self.transport.shares_memory();
        let node = node(rank, all, shares_memory);
        let (first, mates) = node.mates_of(rank);
        let stranger = (0..size).find(|rank| !(first..first + mates).contains(rank));
        let tcp = match (self.transport, stranger) {
            (TransportChoice::Shm, Some(rank)) => {
                let text = "it is on another host, or ranks of another stand between; ALDIS_TRANSPORT=auto reaches it over TCP";
                return Err(JoinError::Apart { rank, text: text.into() });
            }
            (TransportChoice::Tcp, _) | (TransportChoice::Auto, Some(_)) => {
                Some(Box::new(TcpTerms { key: *key, config }))
            }
            (TransportChoice::Ethernet | TransportChoice::ShmEthernet, Some(_)) if self.authenticates => {
                Some(Box::new(TcpTerms { key: *key, config }))
            }
            _ => None,
        };
        let ranks = if shares_memory { mates } else { 1 };
        let impossible = JoinError::Size { expected: ranks, found: JOB_RANKS_MAX };
        let arena_bytes = usize::try_from(self.arena_bytes).unwrap_or(usize::MAX);
        let plan = NodePlan::of(ranks).ok_or(impossible)?.with_arena(arena_bytes);
        let label = Label { job: *job, rank, size };
        let (shape, segment_bytes) = (plan.shape, plan.segment_bytes);
        let transport = self.transport;
        Ok((Terms { label, node, shape, segment_bytes, deadline, tcp, transport }, plan))
    }
}

/// The ranks of this rank's place that follow each other, this one among them, and their share of
/// the place's cores.
fn node(rank: u32, all: &[Who], shares_memory: bool) -> Node {
    let place = all.get(rank as usize).map(|who| who.place.as_str());
    let is_here = |who: &&Who| Some(who.place.as_str()) == place;
    let (before, from) = all.split_at((rank as usize).min(all.len()));
    let first = rank - before.iter().rev().take_while(is_here).count() as u32;
    let ranks = rank - first + from.iter().take_while(is_here).count() as u32;
    let here: Vec<&Who> = all.iter().filter(is_here).collect();
    let words = here.iter().map(|who| who.cores.len()).max().unwrap_or(0);
    let word =
        |at: usize| here.iter().filter_map(|who| who.cores.get(at)).fold(0_u64, |all, word| all | word);
    let cores: u32 = (0..words).map(|at| word(at).count_ones()).sum();
    let share = u64::from(cores) * u64::from(ranks) / (here.len() as u64).max(1);
    let runs = all.chunk_by(|one, next| one.place == next.place).map(|run| run.len() as u32);
    let per_node = if shares_memory { Node::alike(runs) } else { 0 };
    Node { first, ranks, cores: u32::try_from(share).unwrap_or(cores).max(1), shares_memory, per_node }
}

/// Opens and checks the segment of a rank of this node.
fn open(rank: u32, held: SegmentPlace, terms: &Terms) -> Result<LeakedSegment, JoinError> {
    let path = format!("/proc/{}/fd/{}", held.process, held.descriptor);
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file: File = file::open(&path, &options).map_err(|error| {
        let text = format!("{path}: {error}; ALDIS_TRANSPORT=tcp reaches it without");
        JoinError::Apart { rank, text }
    })?;
    let label = Label { rank, ..terms.label };
    let segment = Segment::open(&OwnedFd::from(file), label, terms.segment_bytes);
    segment.map(Segment::leak).map_err(|error| JoinError::Segment { rank, error })
}

/// Puts this rank's card and gets those of all ranks, this rank's included.
fn exchange_cards(client: &mut Client, card: &JoinCard, terms: &Terms) -> Result<CardTable, JoinError> {
    let all: Vec<Vec<u8>> = exchange_all(client, "card", &card.encode()?, terms.deadline)?;
    Ok(CardTable::of(&all))
}

/// Puts a value of this rank and gets those of all ranks, by rank.
fn exchange_all<T: Serialize + DeserializeOwned>(
    client: &mut Client,
    name: &str,
    own: &T,
    deadline: Instant,
) -> Result<Vec<T>, JoinError> {
    put(client, name, own, deadline)?;
    client.fence(deadline)?;
    (0..client.size()).map(|rank| get(client, name, rank, deadline)).collect()
}

fn put<T: Serialize>(client: &mut Client, name: &str, own: &T, deadline: Instant) -> Result<(), JoinError> {
    let rank = client.rank();
    let mut buffer = [0; VALUE_BYTES_MAX];
    let bytes = postcard::to_slice(own, &mut buffer).map_err(|_| JoinError::Told { rank })?;
    Ok(client.put(&format!("aldis-{name}-{rank}"), bytes, deadline)?)
}

fn get<T: DeserializeOwned>(
    client: &mut Client,
    name: &str,
    rank: u32,
    deadline: Instant,
) -> Result<T, JoinError> {
    let bytes = client.get(&format!("aldis-{name}-{rank}"), deadline)?;
    match postcard::take_from_bytes(&bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(JoinError::Told { rank }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(place: &str, cores: u64) -> Who {
        let asks = Asks {
            transport: TransportChoice::Auto,
            arena_bytes: 0,
            links: 1,
            encrypts: false,
            authenticates: false,
            rules: 0,
        };
        Who { version: VERSION, place: place.into(), cores: vec![cores], asks: Ok(asks), job: None }
    }

    /// A rank for each letter, on the place of that letter.
    fn ranks(places: &str, change: impl FnOnce(&mut Vec<Who>)) -> Vec<Who> {
        let mut all: Vec<Who> = places.chars().map(|place| who(&place.to_string(), 3)).collect();
        all[0].job = Some((7, [1; KEY_BYTES]));
        change(&mut all);
        all
    }

    fn terms_of(rank: u32, all: &[Who]) -> Result<Terms, JoinError> {
        agreed(all)?.terms(rank, all, tcp::TcpConfig::default(), Instant::now()).map(|(terms, _)| terms)
    }

    #[test]
    fn those_of_a_place_that_follow_each_other_share_memory() {
        for (places, rank, expected) in
            [("aaa", 1, (0, 3)), ("aab", 2, (2, 1)), ("abba", 2, (1, 2)), ("abba", 3, (3, 1))]
        {
            let terms = terms_of(rank, &ranks(places, |_| {})).unwrap();
            assert_eq!(terms.node.mates_of(rank), expected, "{places} {rank}");
            assert_eq!(terms.tcp.is_some(), places != "aaa", "{places}");
            assert_eq!(terms.label, Label { job: 7, rank, size: places.len() as u32 });
        }
    }

    #[test]
    fn nodes_are_alike_if_all_but_the_last_have_as_many_ranks() {
        for (places, per_node) in
            [("aaa", 3), ("aab", 2), ("aabbc", 2), ("abba", 0), ("abb", 0), ("aabcc", 0), ("abab", 1)]
        {
            let all = ranks(places, |_| {});
            for rank in 0..places.len() as u32 {
                assert_eq!(node(rank, &all, true).per_node, per_node, "{places} {rank}");
                assert_eq!(node(rank, &all, false).per_node, 0, "{places} {rank}");
            }
        }
    }

    #[test]
    fn cores_of_a_place_are_counted_once_and_shared() {
        let all = ranks("aab", |all| (all[0].cores, all[1].cores) = (vec![1], vec![0, 2]));
        assert_eq!(node(0, &all, true).cores, 2, "each rank is bound to another");
        let all = ranks("aba", |all| all[0].cores = vec![15]);
        assert_eq!(node(0, &all, true).cores, 2, "half of four");
    }

    #[test]
    fn transports_are_as_asked_for() {
        let asking = |places: &str, transport| {
            ranks(places, |all| {
                all.iter_mut().for_each(|who| who.asks.as_mut().unwrap().transport = transport)
            })
        };
        let terms = terms_of(1, &asking("aa", TransportChoice::Tcp)).unwrap();
        assert!(terms.tcp.is_some() && !terms.node.shares_memory);
        let terms = terms_of(1, &asking("ab", TransportChoice::Verbs)).unwrap();
        assert!(terms.tcp.is_none() && !terms.node.shares_memory);
        let mut tagged = asking("aab", TransportChoice::ShmEthernet);
        assert!(terms_of(1, &tagged).unwrap().tcp.is_none());
        tagged.iter_mut().for_each(|who| who.asks.as_mut().unwrap().authenticates = true);
        assert!(terms_of(1, &tagged).unwrap().tcp.is_some(), "the key of frames");
        tagged[2].asks.as_mut().unwrap().transport = TransportChoice::Auto.with_card(false);
        assert!(terms_of(1, &tagged).unwrap_err().to_string().contains("ALDIS_NIC"));
        tagged[2].asks.as_mut().unwrap().transport = TransportChoice::Auto.with_card(true);
        assert!(terms_of(1, &tagged).unwrap().transport.is_over_ethernet());
        tagged[2].asks.as_mut().unwrap().authenticates = false;
        assert!(terms_of(1, &tagged).unwrap_err().to_string().contains("ALDIS_NIC"));
        let terms = terms_of(1, &asking("ab", TransportChoice::ShmVerbs)).unwrap();
        assert!(terms.tcp.is_none() && terms.node.shares_memory);
        assert!(terms_of(1, &asking("aa", TransportChoice::Shm)).unwrap().tcp.is_none());
        let error = terms_of(1, &asking("aba", TransportChoice::Shm)).unwrap_err();
        assert!(matches!(error, JoinError::Apart { rank: 0, .. }), "{error}");
    }

    #[test]
    fn ranks_that_were_told_different_things_are_named() {
        type Change = fn(&mut Asks);
        let changes: [(Change, &str); 5] = [
            (|asks| asks.transport = TransportChoice::Tcp, "ALDIS_TRANSPORT"),
            (|asks| asks.arena_bytes = 9, "ALDIS_ARENA"),
            (|asks| asks.links = 2, "ALDIS_TCP_LINKS"),
            (|asks| asks.encrypts = true, "ALDIS_TLS_CERT"),
            (|asks| asks.rules = 1, "ALDIS_COLL_RULES"),
        ];
        for (change, name) in changes {
            let error = terms_of(0, &ranks("aaa", |all| change(all[2].asks.as_mut().unwrap()))).unwrap_err();
            assert_eq!(error, JoinError::Unlike { rank: 2, name });
        }
        let error = terms_of(0, &ranks("aa", |all| all[1].asks = Err("it is nonsense".into()))).unwrap_err();
        assert_eq!(error, JoinError::Elsewhere { rank: 1, text: "it is nonsense".into() });
        let error = terms_of(0, &ranks("aaa", |all| all[1].version += 1)).unwrap_err();
        assert_eq!(error, JoinError::Told { rank: 1 });
        let error = terms_of(0, &ranks("aa", |all| all[0].job = None)).unwrap_err();
        assert_eq!(error, JoinError::Told { rank: 0 });
        let error = terms_of(0, &ranks(&"a".repeat(65_537), |_| {})).unwrap_err();
        assert_eq!(error, JoinError::Size { expected: 65_537, found: JOB_RANKS_MAX });
    }

    #[test]
    fn a_segment_is_opened_by_process_and_descriptor_and_nothing_else_is() {
        let terms = terms_of(0, &ranks("a", |_| {})).unwrap();
        let file = segment::create(terms.label, terms.segment_bytes).unwrap();
        let process = std::process::id();
        open(0, SegmentPlace { process, descriptor: file.as_raw_fd() }, &terms).unwrap();
        let other = open(1, SegmentPlace { process, descriptor: file.as_raw_fd() }, &terms).unwrap_err();
        assert!(other.to_string().contains("segment of rank 1: a segment of rank 0"), "{other}");
        let null = std::fs::File::open("/dev/null").unwrap();
        let error = open(0, SegmentPlace { process, descriptor: null.as_raw_fd() }, &terms).unwrap_err();
        assert!(matches!(error, JoinError::Segment { .. }), "{error}");
        let gone = open(0, SegmentPlace { process: u32::MAX, descriptor: 3 }, &terms).unwrap_err();
        assert!(gone.to_string().contains("ALDIS_TRANSPORT=tcp"), "{gone}");
    }

    #[test]
    fn this_process_is_somewhere() {
        assert_eq!(place(), place(), "the same for all ranks of a machine");
    }
}
