//! Pairs of ranks over what a host has: sockets, and segments with arenas, in which long messages
//! are read where they lie in the peer's memory. Both ranks are in this process.

use core::ops::{Deref, DerefMut};

use aldis_drivers::Loopback;
use aldis_hal::{Epoch, PeerId, Transport};
use aldis_kernel::{Composite, Endpoint};
use aldis_linux::HostTransport;
use aldis_linux::arena::{Arena, ArenaBlock};
use aldis_linux::tcp::{self, Interfaces, JobKey, KEY_BYTES, Tcp};
use aldis_linux::transport::in_process;

use crate::{FRAME_BYTES, Home, TrialClock, config};

/// An endpoint of any transport.
pub type End<'m, T> = Endpoint<'m, T, TrialClock>;

/// The transport of a rank that reaches the other by sockets.
pub type Sockets<'m> = Composite<Loopback<'m>, Tcp>;

/// The memory of two ranks of a host.
pub struct Hosts([Home; 2]);

impl Hosts {
    /// Memory that nothing has used.
    #[expect(clippy::new_without_default, reason = "it is large, and made where it stays")]
    pub fn new() -> Self {
        Self([(); 2].map(|()| Home::new()))
    }

    /// Two endpoints that know each other, over TCP.
    pub fn over_tcp(&mut self) -> [End<'_, Sockets<'_>>; 2] {
        let interfaces = Interfaces { include: vec!["lo".into()], ..Interfaces::default() };
        let terms = tcp::TcpConfig { interfaces, ..tcp::TcpConfig::default() };
        let mut ranks = 0..2;
        let [here, there] = self.0.each_mut().map(|home| {
            let me = ranks.next().unwrap();
            let key = JobKey::new([7; KEY_BYTES]);
            let identity = tcp::TcpIdentity { me: PeerId(me), epoch: Epoch(1), ranks: 2, key };
            let tcp = Tcp::listen(identity, &terms).unwrap();
            let (address, frames) = (tcp.address(), &mut home.frames);
            let own = Loopback::new(PeerId(me), frames, FRAME_BYTES).unwrap();
            let transport = Composite::new(own, tcp);
            let end = Endpoint::new(home.room.memory(), transport, TrialClock::new(), config(me, 2));
            (end.unwrap(), address)
        });
        introduced([here, there])
    }

    /// Two endpoints that know each other and share memory, with arenas of a MiB.
    pub fn on_one_node(&mut self) -> [End<'_, HostTransport>; 2] {
        let mut transports = in_process(2, 1 << 20, Epoch(1)).unwrap().into_iter();
        let mut ranks = 0..2;
        introduced(self.0.each_mut().map(|home| {
            let (me, transport) = (ranks.next().unwrap(), transports.next().unwrap());
            let end = Endpoint::new(home.room.memory(), transport, TrialClock::new(), config(me, 2));
            (end.unwrap(), Vec::new())
        }))
    }
}

/// Tells each of two where the other is.
fn introduced<T: Transport>(made: [(End<'_, T>, Vec<u8>); 2]) -> [End<'_, T>; 2] {
    let cards = made.each_ref().map(|(end, address)| {
        let mut card = end.card();
        card.address = address.iter().copied().collect();
        card
    });
    let mut ends = made.map(|(end, _)| end);
    for (end, card) in ends.iter_mut().zip(cards.iter().rev()) {
        end.connect(card).unwrap();
    }
    ends
}

/// The arenas of two ranks of a node.
pub fn arenas(ends: &[End<'_, HostTransport>; 2]) -> [&'static Arena; 2] {
    ends.each_ref().map(|end| end.transport().second().first().engine().arena())
}

/// Memory of a program: of its heap, or a block of an arena.
pub enum ProgramBytes {
    /// Of the heap.
    Heap(Vec<u8>),
    /// Of an arena.
    Block(ArenaBlock<u8>),
}

impl ProgramBytes {
    /// So many bytes of that arena, or of the heap if there is none, all the same.
    pub fn new(arena: Option<&'static Arena>, len: usize, byte: u8) -> Self {
        let Some(arena) = arena else { return Self::Heap(vec![byte; len]) };
        let mut block = arena.allocate(len).unwrap();
        block.fill(byte);
        Self::Block(block)
    }
}

impl Deref for ProgramBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Block(block) => block,
        }
    }
}

impl DerefMut for ProgramBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Block(block) => block,
        }
    }
}
