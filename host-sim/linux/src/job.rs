//! A process becomes a rank: wire-up seen from the rank's side.

mod managed;

use core::time::Duration;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Instant;

use aldis_coll::rules;
use aldis_hal::{Epoch, PeerId};
use aldis_kernel::{Config, Memory, StagingSizes};
use aldis_protocols::card::{ADDRESS_BYTES_MAX, Card};
use aldis_sys::process::set_pdeathsig;
use aldis_sys::signal::Signal;

use crate::arena;
use crate::board::{Label, LifePhase, StatusBoard};
use crate::calibration;
use crate::coll_rules::{self, RuleFile};
use crate::entropy;
use crate::environment;
use crate::error::JoinError;
use crate::ethernet;
use crate::memory::core_cache_bytes;
use crate::peer_rows::{self, JoinCard, JoinNumbers, PeerRows};
use crate::platform::{HostPlatform, Patience, allowed_cores};
use crate::pmi::{Client, ManagedRank};
use crate::segment::{self, Departures, FileShape, Segment, SharedTable};
use crate::shape::{self, NodePlan};
use crate::tcp::{self, JobKey, Tcp};
use crate::transport::{self, HostEndpoint, Reached, Segments, TransportChoice};
use crate::wireup::{
    CardTable, Channel, FromLauncher, FromRank, Node, Shape, TcpTerms, VERSION, WireError, bounded,
};

/// The longest that the first answer of the launcher may take; the rest of the wire-up has the
/// launcher's own deadline.
const GREETING_LIMIT: Duration = Duration::from_secs(30);

/// The longest that sending the last message may take.
const LAST_WORD_LIMIT: Duration = Duration::from_secs(1);

/// The longest that a process manager may take to see a rank off.
const FAREWELL_LIMIT: Duration = Duration::from_secs(10);

/// The variable that says how long the ranks may take to find each other, in seconds.
pub const TIMEOUT_VARIABLE: &str = "ALDIS_JOIN_TIMEOUT";

/// The longest that leaving may take: peers may compute for a long time before they receive a
/// pending message.
const LEAVE_LIMIT: Duration = Duration::from_secs(3600);

/// A rank's membership of its job: what to tell the launcher in the end. Dropping it without a last
/// message makes the launcher end the job when the process ends.
#[derive(Debug)]
pub struct Job {
    rank: u32,
    size: u32,
    superior: Superior,
    board: &'static StatusBoard,
}

/// The program that has started a rank, and receives its last message.
#[derive(Debug)]
enum Superior {
    /// No program: a job of one rank.
    None,
    /// `aldis-run`.
    Launcher(Channel),
    /// A process manager.
    Manager(Client),
}

/// The launcher's first message.
#[derive(Clone, Debug)]
struct Terms {
    label: Label,
    node: Node,
    shape: Shape,
    segment_bytes: usize,
    deadline: Instant,
    tcp: Option<Box<TcpTerms>>,
    /// The transport to those with which no memory is shared. `Auto` is TCP.
    transport: TransportChoice,
}

impl Job {
    /// Joins the job that the launcher or a process manager ([`pmi`](crate::pmi)) has started this
    /// process for; without either, a job of one rank. All peers are connected when this returns.
    /// `memory` has a row for every rank, or that of every rank has fewer; the environment may ask
    /// for fewer ([`peer_rows`]).
    ///
    /// # Errors
    /// What [`JoinError`] names. The launcher has been told. A process manager ends this process
    /// then, so that the error is said on standard error before it is told.
    pub fn join(memory: Memory<'static>) -> Result<(Self, HostEndpoint), JoinError> {
        Self::join_sized(|_| Ok(memory))
    }

    /// Joins like [`join`](Self::join), with the memory that `storage` makes for a rank of a job of
    /// so many: of [`lazy::storage`](crate::lazy::storage), say. Of so many peers, where the
    /// environment asks for rows for fewer ([`peer_rows`]).
    ///
    /// # Errors
    /// That of `storage`, and those of [`join`](Self::join).
    pub fn join_sized(
        storage: impl FnOnce(u32) -> Result<Memory<'static>, JoinError>,
    ) -> Result<(Self, HostEndpoint), JoinError> {
        if let Some(channel) = Channel::of_launcher()? {
            return Self::join_launched(channel, storage);
        }
        match ManagedRank::inherited()? {
            Some(managed_rank) => managed::join(managed_rank, storage),
            None => Self::join_alone(storage(1)?),
        }
    }

    fn join_launched(
        channel: Channel,
        storage: impl FnOnce(u32) -> Result<Memory<'static>, JoinError>,
    ) -> Result<(Self, HostEndpoint), JoinError> {
        // The launcher sees to its children; where a script stands between, this process is the
        // script's.
        let _ = set_pdeathsig(Signal::SIGKILL);
        let joined = greet(&channel).and_then(|terms| {
            let memory = with_rows(storage, terms.label.size)?;
            let segments = take_segments(&channel, &terms)?;
            let board = segments.own()?.board();
            board.take_up(std::process::id());
            let rules = inherited_rules()?;
            let mut endpoint = assemble(&terms, &segments, memory, |card| exchange(&channel, card, &terms))?;
            if let Some(file) = rules {
                rules::set(&mut endpoint, Some(file.leak()));
            }
            channel.send(&FromRank::Joined, terms.deadline)?;
            board.enter(LifePhase::Running);
            Ok((terms.label, board, endpoint))
        });
        match joined {
            Ok((label, board, endpoint)) => {
                let job =
                    Self { rank: label.rank, size: label.size, superior: Superior::Launcher(channel), board };
                Ok((job, endpoint))
            }
            Err(error) => {
                let text = error.to_string();
                let consequence = matches!(error, JoinError::Wire(error) if error.is_end());
                let word = FromRank::Failed { text: bounded(&text), consequence };
                // A launcher that is gone has nothing to be told.
                let _ = channel.send(&word, Instant::now() + LAST_WORD_LIMIT);
                Err(error)
            }
        }
    }

    fn join_alone(memory: Memory<'static>) -> Result<(Self, HostEndpoint), JoinError> {
        let plan =
            NodePlan::of(1).ok_or(JoinError::Size { expected: 1, found: 0 })?.with_arena(arena_bytes()?);
        let label = Label { job: entropy::random()?, rank: 0, size: 1 };
        let refused = |error| JoinError::Segment { rank: 0, error };
        let file = segment::create(label, plan.segment_bytes).map_err(refused)?;
        let segment = Segment::open(&file, label, plan.segment_bytes).map_err(refused)?.leak();
        segment.board().take_up(std::process::id());
        let cores = allowed_cores().len() as u32;
        let terms = Terms {
            label,
            node: Node { first: 0, ranks: 1, cores, shares_memory: true, per_node: 1 },
            shape: plan.shape,
            segment_bytes: plan.segment_bytes,
            deadline: Instant::now() + GREETING_LIMIT,
            tcp: None,
            transport: TransportChoice::Auto,
        };
        let mapped = vec![segment];
        let segments =
            Segments { me: 0, first: 0, mapped, staging: 0, per_node: 1, records: None, departures: None };
        let endpoint = assemble(&terms, &segments, memory, |card| Ok(CardTable::of(&[card.encode()?])))?;
        segment.board().enter(LifePhase::Running);
        Ok((Self { rank: 0, size: 1, superior: Superior::None, board: segment.board() }, endpoint))
    }

    /// This process's rank.
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of the job.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Returns true if a launcher or a process manager started it: its last message is shown to the
    /// user then.
    pub const fn is_launched(&self) -> bool {
        !matches!(self.superior, Superior::None)
    }

    /// The status board, for notes beyond the kernel's.
    pub const fn board(&self) -> &'static StatusBoard {
        self.board
    }

    /// Leaves in order: pending sends are delivered, peers and launcher are told.
    ///
    /// # Errors
    /// The kernel's, if a peer takes nothing for an hour.
    pub fn leave(mut self, endpoint: &mut HostEndpoint) -> Result<(), aldis_kernel::Error> {
        self.board.enter(LifePhase::Leaving);
        let left = endpoint.leave(LEAVE_LIMIT);
        transport::tell_cards(endpoint);
        if let Err(error) = left {
            self.fail(&(error.to_string() + &transport::failures(endpoint)), false);
            return Err(error);
        }
        self.board.enter(LifePhase::Left);
        let failures = transport::failures(endpoint);
        self.say(&FromRank::Leave { failures: bounded(&failures) });
        Ok(())
    }

    /// Tells the launcher that this rank has failed; `consequence` if only because another did.
    pub fn fail(mut self, text: &str, consequence: bool) {
        self.board.enter(LifePhase::Failed);
        self.say(&FromRank::Failed { text: bounded(text), consequence });
    }

    /// Ends the job: tells the peers, then the launcher, which exits with `code`.
    pub fn abort(mut self, endpoint: &mut HostEndpoint, code: i32, text: &str) {
        // The launcher first: it is to receive the cause before any consequence.
        self.say(&FromRank::Abort { code, text: bounded(text) });
        self.board.enter(LifePhase::Failed);
        endpoint.abort(code);
        transport::tell_cards(endpoint);
    }

    /// Sends the last message. A superior that is gone has nothing to be told.
    fn say(&mut self, word: &FromRank<'_>) {
        match &mut self.superior {
            Superior::None => {}
            Superior::Launcher(channel) => {
                if let Err(error) = channel.send(word, Instant::now() + LAST_WORD_LIMIT) {
                    // Ranks die with their launcher, so it is there and will wonder.
                    let _ = writeln!(std::io::stderr(), "the launcher cannot be told the last word: {error}");
                }
            }
            Superior::Manager(client) => managed::say(client, word),
        }
    }
}

/// A positive number of seconds, fractions allowed.
pub fn parse_seconds(text: &str) -> Option<Duration> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|span| !span.is_zero())
}

/// Sends hello and receives the terms.
fn greet(channel: &Channel) -> Result<Terms, JoinError> {
    let deadline = Instant::now() + GREETING_LIMIT;
    channel.send(&FromRank::Hello { version: VERSION, pid: std::process::id() }, deadline)?;
    let received = channel.receive(deadline)?;
    match received.message()? {
        FromLauncher::Welcome { version, job, rank, size, node, shape, segment_bytes, deadline_ms, tcp } => {
            if version != VERSION {
                return Err(WireError::Version { expected: VERSION, found: version }.into());
            }
            let found = aldis_drivers::shm::Geometry::PEERS_MAX;
            let end = node.first.saturating_add(node.ranks);
            if !(node.first..end).contains(&rank) || end > size || size > found {
                return Err(JoinError::Size { expected: size, found });
            }
            let deadline = Instant::now() + Duration::from_millis(u64::from(deadline_ms));
            let segment_bytes = usize::try_from(segment_bytes).unwrap_or(usize::MAX);
            let (label, transport) = (Label { job, rank, size }, TransportChoice::from_environment()?);
            Ok(Terms { label, node, shape, segment_bytes, deadline, tcp, transport })
        }
        FromLauncher::Refused { text } => Err(JoinError::Refused { text: text.to_owned() }),
        other => Err(WireError::Unexpected { found: other.name(), expected: "welcome" }.into()),
    }
}

/// The memory of a rank of a job of so many, with as many rows for peers as the environment asks.
fn with_rows(
    storage: impl FnOnce(u32) -> Result<Memory<'static>, JoinError>,
    ranks: u32,
) -> Result<Memory<'static>, JoinError> {
    let rows = PeerRows::asked(ranks)?;
    storage(rows).map(|memory| if rows < ranks { memory.with_peers(rows) } else { memory })
}

/// Receives the segments of this rank and of those that it shares memory with, and where it is told
/// who has left, checked and mapped.
fn take_segments(channel: &Channel, terms: &Terms) -> Result<Segments, JoinError> {
    let me = terms.label.rank;
    let (first, expected) = terms.node.mates_of(me);
    let mut received = channel.receive(terms.deadline)?;
    let files: Vec<OwnedFd> = received.descriptors.drain(..).collect();
    match received.message()? {
        FromLauncher::Segments => {}
        FromLauncher::Refused { text } => return Err(JoinError::Refused { text: text.to_owned() }),
        other => return Err(WireError::Unexpected { found: other.name(), expected: "segments" }.into()),
    }
    let (file, table) = match &files[..] {
        [file] => (file, None),
        [file, table] => (file, Some(table)),
        _ => return Err(JoinError::Files { found: files.len() as u32 }),
    };
    let departures = table.map(|table| Departures::map(table, terms.label.size)).transpose();
    let departures = departures.map_err(JoinError::Departures)?.map(|table| &*Box::leak(Box::new(table)));
    let broken = |error| JoinError::Segment { rank: me, error };
    let table_bytes = shape::record_table_bytes(&shape::geometry(expected, terms.shape));
    let file_shape = FileShape { ranks: expected, segment_bytes: terms.segment_bytes, table_bytes };
    let opened = Segment::open_all(file, first, terms.label, file_shape).map_err(broken)?;
    let mapped = opened.segments.into_iter().map(Segment::leak).collect();
    let records = opened.table.map(SharedTable::leak);
    let (staging, per_node) = (shape::staging_bytes(expected), terms.node.per_node);
    Ok(Segments { me, first, mapped, staging, per_node, records, departures })
}

/// Sends this rank's card and receives the table of those of all ranks, this rank's included.
fn exchange(channel: &Channel, card: &JoinCard, terms: &Terms) -> Result<CardTable, JoinError> {
    channel.send(&FromRank::Card { bytes: &card.encode()? }, terms.deadline)?;
    let received = channel.receive(terms.deadline)?;
    match (received.message()?, &received.descriptors[..]) {
        (FromLauncher::Cards { bytes }, [file]) => {
            CardTable::map(file, terms.label.size, bytes).map_err(JoinError::Cards)
        }
        (FromLauncher::Refused { text }, _) => Err(JoinError::Refused { text: text.to_owned() }),
        (FromLauncher::Cards { .. }, _) => {
            Err(WireError::Unexpected { found: "cards without a file", expected: "cards" }.into())
        }
        (other, _) => Err(WireError::Unexpected { found: other.name(), expected: "cards" }.into()),
    }
}

/// Lays out this rank's inbox, exchanges cards, and puts the endpoint together.
fn assemble(
    terms: &Terms,
    segments: &Segments,
    memory: Memory<'static>,
    exchange: impl FnOnce(&JoinCard) -> Result<CardTable, JoinError>,
) -> Result<HostEndpoint, JoinError> {
    let Label { job, rank, size } = terms.label;
    let (me, epoch) = (PeerId(rank), Epoch::from_entropy(entropy::random()?));
    let geometry = shape::geometry(segments.mapped.len() as u32, terms.shape);
    let mut inboxes = transport::Inboxes::format(segments, geometry, job, epoch)?;
    let Node { ranks, cores, .. } = terms.node;
    let usable = cores.min(allowed_or_bound(cores, ranks));
    let mut staging = inboxes.take_staging();
    let mut found = None;
    if environment::is_on(calibration::VARIABLE)? && ranks <= usable {
        found = staging.as_mut().and_then(|memory| inboxes.calibrate(memory));
    }
    let Reached { far, address, bell } =
        far(terms, epoch, segments, ranks > usable && segments.mapped.len() == 1)?;
    let mut card = Card::new(me, epoch, memory.room());
    // What an address cannot be: longer than a card has room for.
    card.address = address.iter().copied().take(ADDRESS_BYTES_MAX).collect();
    let pairs = found.map(|found| found.pairs).unwrap_or_default();
    let cards = exchange(&JoinCard::new(card.clone(), &memory, pairs))?;
    let numbers = JoinNumbers::of_all(&cards)?;
    peer_rows::agree(&numbers)?;
    // The next rank first, whose memory is looked at for all others': not the same by all ranks.
    for peer in (rank.saturating_add(1)..size).chain(0..rank) {
        let other = JoinCard::of(&cards, peer)?;
        if segments.of(other.peer()).is_some() {
            inboxes.attach(other.peer(), other.epoch())?;
        } else if let Some(why) = ethernet::disagreement(&card.address, &other.address) {
            return Err(JoinError::Ethernet { rank: peer, text: why });
        }
    }
    let pairs = peer_rows::pair_lengths(&numbers);
    inboxes.pass_between_pairs(pairs);
    // No rank rings for what comes through shared memory.
    let bell = bell.filter(|_| segments.mapped.len() == 1);
    let is_woken = bell.is_some() || is_over_device(terms);
    let patience = match Patience::of(ranks, usable, reaches_far(terms)) {
        Patience::SHARED_SOCKETS if is_woken => Patience::SHARED_WOKEN,
        patience => patience,
    };
    // A rank with sockets as well looks at them too: it naps.
    let words = inboxes.sleep_words()?.filter(|_| !reaches_far(terms));
    let platform = HostPlatform::new(segments.own()?.board(), patience).with_bell(bell).with_sleep(words);
    let mut endpoint =
        HostEndpoint::new(memory, inboxes.transport(far)?, platform, Config { me, size, epoch })?;
    for peer in (0..size).filter(|peer| *peer != rank) {
        endpoint.connect(&JoinCard::of(&cards, peer)?)?;
    }
    // The words by which it was measured stay what they are: a partner may come late.
    let memory = staging.and_then(|memory| memory.get_mut(calibration::WORDS_BYTES..));
    if environment::is_on(STAGING_VARIABLE)?
        && let Some(memory) = memory
    {
        let message_bytes_max = found.map_or(usize::MAX, |found| found.staged_bytes_max);
        let sizes = StagingSizes { lap: 2 * core_cache_bytes(), message_bytes_max };
        endpoint.send_buffer().lend_staging(memory, sizes)?;
    }
    Ok(endpoint)
}

/// The variable that says whether messages of middle length are staged for the ranks that this one
/// shares memory with.
pub const STAGING_VARIABLE: &str = "ALDIS_STAGING";

/// Returns true if any messages go by the system or a device.
fn reaches_far(terms: &Terms) -> bool {
    terms.tcp.is_some() || is_over_device(terms)
}

/// Returns true if this rank reaches any over verbs or a network card, which wake it.
const fn is_over_device(terms: &Terms) -> bool {
    has_strangers(terms) && (terms.transport.is_over_verbs() || terms.transport.is_over_ethernet())
}

/// Returns true if there are some with which this rank shares no memory.
const fn has_strangers(terms: &Terms) -> bool {
    let (_, near) = terms.node.mates_of(terms.label.rank);
    near < terms.label.size
}

/// The transport to ranks with which no memory is shared, of a rank that `sleeps` soon if it waits,
/// or does not.
fn far(terms: &Terms, epoch: Epoch, segments: &Segments, sleeps: bool) -> Result<Reached, JoinError> {
    let Label { job, rank, size: ranks } = terms.label;
    if has_strangers(terms) && terms.transport.is_over_verbs() {
        return transport::over_verbs(PeerId(rank), epoch, ranks);
    }
    if has_strangers(terms) && terms.transport.is_over_ethernet() {
        let (first, near) = terms.node.mates_of(rank);
        let mates = first..first.saturating_add(near);
        return transport::over_ethernet(ethernet::WiredIdentity {
            job,
            me: PeerId(rank),
            epoch,
            ranks,
            links: PeerRows::asked(ranks)?.saturating_sub(1),
            mates,
            key: terms.tcp.as_deref().map(|terms| terms.key),
        });
    }
    let mut tcp = listen(terms, epoch)?;
    tcp.note_failures_on(segments.own()?.board());
    tcp.look_who_has_left(segments.departures);
    if sleeps {
        tcp.watch_all();
    }
    Ok(transport::over_tcp(tcp))
}

/// Their transport over TCP; a vacant one if there are none.
fn listen(terms: &Terms, epoch: Epoch) -> Result<Tcp, JoinError> {
    let Label { rank, size, .. } = terms.label;
    let Some(TcpTerms { key, config }) = terms.tcp.as_deref() else { return Ok(Tcp::vacant(PeerId(rank))) };
    let identity = tcp::TcpIdentity { me: PeerId(rank), epoch, ranks: size, key: JobKey::new(*key) };
    let listening = Tcp::listen(identity, config);
    listening.map_err(|error| JoinError::Tcp { rank, error })
}

/// The rules for collectives that the launcher has given to every rank.
fn inherited_rules() -> Result<Option<RuleFile>, JoinError> {
    let name = coll_rules::TEXT_VARIABLE;
    RuleFile::inherited().map_err(|error| JoinError::Variable { name, value: error.to_string() })
}

/// Bytes of the arena of a rank that is started alone.
fn arena_bytes() -> Result<usize, JoinError> {
    let Ok(value) = std::env::var(arena::VARIABLE) else { return Ok(0) };
    arena::parse_bytes(&value).ok_or(JoinError::Variable { name: arena::VARIABLE, value })
}

/// Cores that the ranks of a node may use as far as this process can tell: a rank that was bound to
/// one core, or to no more than its share of all, has been given one of several sets.
fn allowed_or_bound(cores: u32, ranks: u32) -> u32 {
    let share = cores.checked_div(ranks).unwrap_or(0).max(1);
    match allowed_cores().len() as u32 {
        allowed if allowed <= share => cores,
        allowed => allowed,
    }
}
