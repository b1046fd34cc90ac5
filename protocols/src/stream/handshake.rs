//! The machine of one connection.

use aldis_hal::{Epoch, Instant, PeerId};
use zerocopy::{FromBytes, IntoBytes};

use super::buffer::SmallBuffer;
use super::link::Dialler;
use super::message::{
    ANSWER_BYTES, EndIdentity, GREETING_BYTES, Greeting, HEAD_BYTES, MAGIC, NONCE_BYTES, PROOF_BYTES, Prover,
    STREAM_VERSION, StreamHead, StreamKind, same, tag,
};
use super::{Mac, Node, StreamEvent, StreamLink, StreamRefusal, StreamSetup, chooses};
use crate::sabotage::{Defect, planted};
use crate::timer::Timer;

/// Room for all that a side ever says: the dialler a greeting, a proof and two short messages; the
/// acceptor an answer and two short ones, which is less.
const OUTPUT_BYTES: usize = GREETING_BYTES + PROOF_BYTES + 2 * HEAD_BYTES;
const _: () = assert!(OUTPUT_BYTES >= ANSWER_BYTES + 2 * HEAD_BYTES);

/// The message or event that a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) enum Phase {
    /// Accepted: for a greeting.
    Greeting,
    /// Dialled: for the answer.
    Answer,
    /// Accepted and answered: for the proof.
    Proof,
    /// Both sides have proven themselves. The higher rank: for being chosen.
    Select,
    /// The lower rank has chosen it: for the confirmation that it is taken.
    Confirm,
    /// Waits for no message: both sides have the connection.
    Open,
    /// Waits for no message: the connection is not kept.
    Ended,
}

/// The handshake on one connection, for either side; see the [module](super) for how it is driven.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handshake {
    key: u32,
    pub(super) phase: Phase,
    dialled: bool,
    /// True once something has come.
    heard: bool,
    dialler: Greeting,
    /// Before the answer, only its nonce counts.
    acceptor: Greeting,
    input: SmallBuffer<ANSWER_BYTES>,
    output: SmallBuffer<OUTPUT_BYTES>,
    deadline: Timer,
}

const _: () = assert!(size_of::<Handshake>() <= 352, "a connection that is no rank's holds little memory");

/// A connection to be made.
#[derive(Clone, Copy, Debug)]
pub struct Dial {
    /// The caller's name for the connection, among all of this side.
    pub key: u32,
    /// The rank at its other end.
    pub peer: PeerId,
    /// The number of the link that it is for.
    pub link: u8,
    /// Drawn from a generator that cannot be foretold, for this call alone.
    pub nonce: [u8; NONCE_BYTES],
}

impl Handshake {
    fn new(key: u32, setup: &StreamSetup, now: Instant) -> Self {
        let (input, output) = (SmallBuffer::new(), SmallBuffer::new());
        let (dialler, acceptor) = (Greeting::none(), Greeting::none());
        let mut deadline = Timer::OFF;
        deadline.set(now, setup.handshake_ns);
        Self {
            key,
            phase: Phase::Greeting,
            dialled: false,
            heard: false,
            dialler,
            acceptor,
            input,
            output,
            deadline,
        }
    }

    /// The handshake of a connection that this side makes to `peer` for its link of this number;
    /// `None` unless that link [`wants_dial`](StreamLink::wants_dial).
    pub fn dial(node: &mut Node<'_>, dial: Dial, now: Instant) -> Option<Self> {
        let Dial { key, peer, link, nonce } = dial;
        let (epoch, attempt) = node.link(peer, link)?.dial(key)?;
        let setup = node.setup;
        let head = StreamHead::new(StreamKind::Greeting, link, setup.links);
        let greeting =
            Greeting::new(setup, head, EndIdentity { rank: peer, epoch }, nonce).for_attempt(attempt);
        let mut this =
            Self { phase: Phase::Answer, dialled: true, dialler: greeting, ..Self::new(key, setup, now) };
        this.output.push(greeting.as_bytes());
        Some(this)
    }

    /// The handshake of a connection that a peer, or a stranger, has made to this side; `key` and
    /// `nonce` as in [`Dial`].
    #[must_use]
    pub fn accept(key: u32, setup: &StreamSetup, nonce: [u8; NONCE_BYTES], now: Instant) -> Self {
        let mut this = Self::new(key, setup, now);
        let unknown = EndIdentity { rank: PeerId(0), epoch: Epoch(0) };
        let head = StreamHead::new(StreamKind::Answer, 0, setup.links);
        this.acceptor = Greeting::new(setup, head, unknown, nonce);
        this
    }

    /// The name that the caller has given the connection.
    #[must_use]
    pub const fn key(&self) -> u32 {
        self.key
    }

    /// Returns true if this side has made the connection.
    #[must_use]
    pub const fn is_dialled(&self) -> bool {
        self.dialled
    }

    /// The peer and the link that the connection is for: known once the other side has proven who
    /// it is, and of one that this side has made from the start.
    #[must_use]
    pub fn claim(&self) -> Option<(PeerId, u8)> {
        (self.dialled || self.is_proven()).then(|| (self.peer().rank, self.dialler.link()))
    }

    /// Returns true if the other side has proven that it is a rank of the job. A caller that has to
    /// make room drops another first.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        matches!(self.phase, Phase::Select | Phase::Confirm | Phase::Open)
    }

    /// Returns true if this side has chosen the connection and waits for the word that the other
    /// has taken it. The other may hold it for open, and send messages behind that word: a side
    /// that leaves the job should wait for it, no longer than a handshake may take.
    #[must_use]
    pub const fn is_chosen(&self) -> bool {
        matches!(self.phase, Phase::Confirm)
    }

    /// Returns true if the handshake is over, either way.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Ended)
    }

    /// Returns the bytes that are to be sent now.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.output.bytes()
    }

    /// The connection has taken so many bytes of the output.
    pub fn transmitted(&mut self, count: usize) {
        self.output.take(count);
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) is to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadline.at()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, node: &mut Node<'_>, now: Instant) -> Option<StreamEvent> {
        self.deadline.fire(now).then(|| self.end(node, StreamRefusal::Slow, now))
    }

    /// The connection has come to its end (closed, reset, never made) before the handshake. `None`
    /// if it was over.
    pub fn hang_up(&mut self, node: &mut Node<'_>, now: Instant) -> Option<StreamEvent> {
        let why = match (self.heard, self.dialled) {
            (true, _) => StreamRefusal::Truncated,
            (false, true) => StreamRefusal::Unreachable,
            (false, false) => StreamRefusal::Silent,
        };
        (!self.is_over()).then(|| self.end(node, why, now))
    }

    /// The caller does not keep the connection, for this reason. `None` if the handshake was over.
    pub fn refuse(&mut self, node: &mut Node<'_>, why: StreamRefusal, now: Instant) -> Option<StreamEvent> {
        (!self.is_over()).then(|| self.end(node, why, now))
    }

    /// Handles bytes from the connection: how many of them are the handshake's, and what they have
    /// brought about. What follows an event is not looked at: after [`StreamEvent::Opened`] it is
    /// frames.
    pub fn handle(
        &mut self,
        node: &mut Node<'_>,
        bytes: &[u8],
        now: Instant,
    ) -> (usize, Option<StreamEvent>) {
        self.heard |= !bytes.is_empty();
        let mut rest = bytes;
        while let Some((piece, more)) =
            self.missing().and_then(|count| rest.split_at_checked(count.min(rest.len())))
            && !piece.is_empty()
        {
            rest = more;
            self.input.push(piece);
            if let Some(event) = self.step(node, now) {
                return (bytes.len() - rest.len(), Some(event));
            }
        }
        (bytes.len() - rest.len(), None)
    }

    /// The other side, as it or this one has named it.
    fn peer(&self) -> EndIdentity {
        if self.dialled { self.dialler.to() } else { self.dialler.from() }
    }

    fn head(&self) -> Option<StreamHead> {
        StreamHead::read_from_prefix(self.input.bytes()).ok().map(|(head, _)| head)
    }

    /// Bytes that are missing of the message that has begun; `None` when no message is expected.
    fn missing(&self) -> Option<usize> {
        let whole = match self.head() {
            None => HEAD_BYTES,
            Some(head) => head.kind()?.bytes(),
        };
        (!self.is_over()).then(|| whole.saturating_sub(self.input.bytes().len()))
    }

    /// Returns the kind of the message that is expected.
    const fn expected_kind(&self) -> Option<StreamKind> {
        Some(match self.phase {
            Phase::Greeting => StreamKind::Greeting,
            Phase::Answer => StreamKind::Answer,
            Phase::Proof => StreamKind::Proof,
            Phase::Select => StreamKind::Select,
            Phase::Confirm => StreamKind::Confirm,
            Phase::Open | Phase::Ended => return None,
        })
    }

    /// Looks at what has come so far: as soon as it cannot become the message that is expected, the
    /// connection ends.
    fn step(&mut self, node: &mut Node<'_>, now: Instant) -> Option<StreamEvent> {
        let input = self.input;
        if input.bytes().iter().zip(MAGIC).any(|(&byte, magic)| byte != magic) {
            return Some(self.end(node, StreamRefusal::Foreign, now));
        }
        let head = self.head()?;
        if head.kind() == Some(StreamKind::Refuse) {
            let why = StreamRefusal::from_wire(head.first).unwrap_or(StreamRefusal::Malformed);
            return Some(self.close(node, why, true, now));
        }
        if head.version != STREAM_VERSION {
            return Some(self.end(node, StreamRefusal::Version, now));
        }
        if head.kind() != self.expected_kind() || !head.is_sound() {
            return Some(self.end(node, StreamRefusal::Malformed, now));
        }
        if self.missing() != Some(0) {
            return None;
        }
        self.input = SmallBuffer::new();
        match self.take_in(node, input.bytes()) {
            Ok(()) if self.phase == Phase::Open => {
                self.deadline = Timer::OFF;
                Some(StreamEvent::Opened { peer: self.peer().rank, link: self.dialler.link() })
            }
            Ok(()) => None,
            Err(why) => Some(self.end(node, why, now)),
        }
    }

    /// Handles a whole message of the kind that is expected.
    fn take_in(&mut self, node: &mut Node<'_>, message: &[u8]) -> Result<(), StreamRefusal> {
        match self.phase {
            Phase::Greeting => self.greeted(node, message),
            Phase::Answer => self.answered(node, message),
            Phase::Proof => self.proven(node, message),
            Phase::Select => self.selected(node),
            Phase::Confirm => self.confirmed(node),
            Phase::Open | Phase::Ended => Err(StreamRefusal::Malformed),
        }
    }

    /// Handles the greeting at the acceptor: learns which rank dials, and answers.
    fn greeted(&mut self, node: &mut Node<'_>, message: &[u8]) -> Result<(), StreamRefusal> {
        let setup = node.setup;
        let greeting = Greeting::read_from_bytes(message).map_err(|_| StreamRefusal::Malformed)?;
        if let Some(why) = greeting.objection(setup) {
            return Err(why);
        }
        let (from, to) = (greeting.from(), greeting.to());
        if to.rank != setup.rank {
            return Err(StreamRefusal::Rank);
        }
        if to.epoch != setup.epoch {
            return Err(StreamRefusal::Epoch);
        }
        if !link(node, from.rank, greeting.link())?.admits(from.epoch) {
            return Err(StreamRefusal::Unknown);
        }
        self.dialler = greeting;
        self.acceptor = self.acceptor.answering(&greeting);
        self.output.push(self.acceptor.as_bytes());
        self.output.push(&tag(node.mac, Prover::Acceptor, &self.dialler, &self.acceptor));
        self.phase = Phase::Proof;
        Ok(())
    }

    /// Handles the answer at the dialler: it has found the rank it looked for, and proves which
    /// rank it is.
    fn answered(&mut self, node: &mut Node<'_>, message: &[u8]) -> Result<(), StreamRefusal> {
        let (greeting, proof) = message.split_at_checked(GREETING_BYTES).ok_or(StreamRefusal::Malformed)?;
        let answer = Greeting::read_from_bytes(greeting).map_err(|_| StreamRefusal::Malformed)?;
        if let Some(why) = answer.objection(node.setup) {
            return Err(why);
        }
        if answer.from().rank != self.dialler.to().rank {
            return Err(StreamRefusal::Rank);
        }
        if answer.from().epoch != self.dialler.to().epoch {
            return Err(StreamRefusal::Epoch);
        }
        if !answer.answers(&self.dialler) {
            return Err(StreamRefusal::Malformed);
        }
        self.acceptor = answer;
        self.verify(node.mac, Prover::Acceptor, proof)?;
        let (peer, number) = (self.peer(), self.dialler.link());
        let link = link(node, peer.rank, number)?;
        if link.is_open() {
            return Err(StreamRefusal::Crossed);
        }
        if !link.is_dialling(self.key) {
            return Err(StreamRefusal::Stale);
        }
        self.output.push(StreamHead::new(StreamKind::Proof, 0, 0).as_bytes());
        self.output.push(&tag(node.mac, Prover::Dialler, &self.dialler, &self.acceptor));
        self.choose(node, Dialler::Own)
    }

    /// Handles the proof at the acceptor: the dialler is the rank it claims to be.
    fn proven(&mut self, node: &mut Node<'_>, message: &[u8]) -> Result<(), StreamRefusal> {
        let proof = message.get(HEAD_BYTES..).unwrap_or_default();
        self.verify(node.mac, Prover::Dialler, proof)?;
        self.choose(node, Dialler::Peer { attempt: self.dialler.attempt() })
    }

    fn verify(&self, mac: &dyn Mac, prover: Prover, proof: &[u8]) -> Result<(), StreamRefusal> {
        let right = same(&tag(mac, prover, &self.dialler, &self.acceptor), proof);
        if right || planted(Defect::TrustsTags) { Ok(()) } else { Err(StreamRefusal::Key) }
    }

    /// Both have proven who they are. The lower rank chooses; the higher waits for that.
    fn choose(&mut self, node: &mut Node<'_>, by: Dialler) -> Result<(), StreamRefusal> {
        let (peer, number) = (self.peer(), self.dialler.link());
        let both = planted(Defect::BothChoose);
        if !chooses(node.setup.rank, peer.rank) && !both {
            self.phase = Phase::Select;
            return Ok(());
        }
        link(node, peer.rank, number)?.select(peer.epoch, self.key, by)?;
        self.output.push(StreamHead::new(StreamKind::Select, 0, 0).as_bytes());
        (self.phase, self.deadline) = (Phase::Confirm, Timer::OFF);
        Ok(())
    }

    /// The higher rank takes the connection that was chosen.
    fn selected(&mut self, node: &mut Node<'_>) -> Result<(), StreamRefusal> {
        let (peer, number) = (self.peer(), self.dialler.link());
        link(node, peer.rank, number)?.take(peer.epoch, self.key)?;
        self.output.push(StreamHead::new(StreamKind::Confirm, 0, 0).as_bytes());
        self.phase = Phase::Open;
        Ok(())
    }

    /// Handles the confirmation at the lower rank.
    fn confirmed(&mut self, node: &mut Node<'_>) -> Result<(), StreamRefusal> {
        let (peer, number) = (self.peer(), self.dialler.link());
        link(node, peer.rank, number)?.confirm(peer.epoch, self.key)?;
        self.phase = Phase::Open;
        Ok(())
    }

    /// This side does not keep the connection.
    fn end(&mut self, node: &mut Node<'_>, why: StreamRefusal, now: Instant) -> StreamEvent {
        if why.is_sent() {
            self.output.push(StreamHead::new(StreamKind::Refuse, why as u8, 0).as_bytes());
        }
        self.close(node, why, false, now)
    }

    fn close(&mut self, node: &mut Node<'_>, why: StreamRefusal, told: bool, now: Instant) -> StreamEvent {
        let (peer, number) = (self.peer(), self.dialler.link());
        let setup = node.setup;
        if let Some(link) = node.link(peer.rank, number) {
            link.release(setup, self.key, why, now);
        }
        (self.phase, self.deadline) = (Phase::Ended, Timer::OFF);
        StreamEvent::Ended { why, told }
    }
}

/// The link of a greeting that was checked against the setup; only a table that is too short has
/// none.
fn link<'a>(node: &'a mut Node<'_>, peer: PeerId, number: u8) -> Result<&'a mut StreamLink, StreamRefusal> {
    node.link(peer, number).ok_or(StreamRefusal::Busy)
}
