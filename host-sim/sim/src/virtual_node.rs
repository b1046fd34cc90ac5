//! A rank's place in the simulation: what its endpoint is made of, and its way from start to end.

use core::error::Error;
use core::fmt;
use core::time::Duration;

use aldis_kernel::datatype::Types;
use aldis_kernel::hal::{PeerId, Transport};
use aldis_kernel::{Config, Endpoint, Memory};

use super::config::Wire;
use super::ledger;
use super::links::LinkMemory;
use super::nic::SimNic;
use super::node::{Cpu, SimPlatform};
use super::transport::SimTransport;

/// The end of a rank's program.
pub type Outcome = Result<(), Box<dyn Error>>;

/// An endpoint on a virtual node.
pub type SimEndpoint<'a> = Endpoint<'a, SimTransport<'a>, SimPlatform<'a>>;

/// The longest that leaving may take, in virtual time.
const LEAVE: Duration = Duration::from_secs(5);

/// A rank's place: its storage, its end of the network, its clock.
pub struct VirtualNode<'a> {
    pub(crate) cpu: Cpu<'a>,
    pub(crate) memory: Memory<'a>,
    pub(crate) types: Types<'a>,
    /// On the wire of frames, what the transport is made of.
    pub(crate) links: Option<LinkMemory<'a>>,
}

/// Messages or receives that are left when a program is over: one that was sent and not received,
/// or received twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leftovers {
    /// Receives posted and not matched.
    pub posted: u32,
    /// Messages arrived and not received.
    pub unexpected: u32,
}

impl fmt::Display for Leftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { posted, unexpected } = self;
        write!(f, "the program is over, but {posted} receives and {unexpected} messages are left")
    }
}

impl Error for Leftovers {}

impl<'a> VirtualNode<'a> {
    /// The node's network card on the wire of frames, for programs that speak Ethernet themselves.
    pub fn nic(&self) -> SimNic<'a> {
        SimNic::new(self.cpu.clone())
    }

    /// This place with a storage of the program's own instead of one that
    /// [`SimConfig::room`](super::SimConfig::room) chose: to test a firmware with just the sizes
    /// that it ships. Every rank must have room for as much of a peer.
    pub fn with_memory<'b>(self, memory: Memory<'b>) -> VirtualNode<'b>
    where
        'a: 'b,
    {
        VirtualNode { memory, ..self }
    }

    /// Runs a program on this node.
    ///
    /// # Errors
    /// What the program returns, [`Leftovers`], and what is wrong with the accounts of the ranks:
    /// [`LostCredits`], [`Imbalance`](super::Imbalance), [`Overfull`](super::Overfull).
    ///
    /// [`LostCredits`]: super::LostCredits
    pub fn run(self, program: impl FnOnce(&mut SimEndpoint<'a>) -> Outcome) -> Outcome {
        self.run_over(|transport| transport, program)
    }

    /// Runs a program over a transport that stands on this node's, for one that traces, or breaks,
    /// what passes it.
    ///
    /// # Errors
    /// The error that the program returns, [`Leftovers`], and those about the accounts of the ranks
    /// that [`run`](Self::run) names.
    pub fn run_over<T: Transport>(
        self,
        wrap: impl FnOnce(SimTransport<'a>) -> T,
        program: impl FnOnce(&mut Endpoint<'a, T, SimPlatform<'a>>) -> Outcome,
    ) -> Outcome {
        let Self { cpu, memory, types, links } = self;
        let (config, node) = (cpu.world.borrow().config.clone(), cpu.node);
        let epoch = cpu.world.borrow().nodes[node as usize].epoch;
        let identity = Config { me: PeerId(node), size: config.ranks, epoch };
        let (room, requests_max) = (memory.room(), memory.requests());
        let has_fewer = memory.peers() < config.ranks;
        cpu.world.borrow_mut().watch.granted(room);
        let transport = wrap(SimTransport::new(cpu.clone(), room, links)?);
        let mut endpoint = Endpoint::new(memory, transport, SimPlatform { cpu: cpu.clone() }, identity)?;
        endpoint.attach_types(types)?;
        let strangers = cpu.world.borrow().strangers(node, has_fewer);
        for peer in strangers {
            let card = cpu.world.borrow().card(peer, room);
            endpoint.connect(&card.ok_or("a peer has no card")?)?;
        }
        program(&mut endpoint)?;
        let (posted, unexpected) = endpoint.diagnostics().queue_depths();
        let deadly = config.faults.kills();
        if (posted, unexpected) != (0, 0) && !deadly {
            return Err(Leftovers { posted, unexpected }.into());
        }
        if unexpected == 0 {
            let met = cpu.world.borrow().met(node, has_fewer);
            ledger::all_free(&endpoint, met)?;
        }
        if ledger::is_balanced(&config) {
            ledger::balance(&cpu, &mut endpoint, &config, requests_max)?;
        }
        if config.leave || deadly {
            endpoint.leave(LEAVE)?;
            if config.wire == Wire::Messages {
                return Ok(());
            }
        }
        cpu.world.borrow_mut().linger(node);
        // The others may still need this node's polls; on the wire of frames its acknowledgements
        // too.
        loop {
            endpoint.poll(64);
            cpu.nap(u32::MAX);
        }
    }
}

impl fmt::Debug for VirtualNode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualNode").field("node", &self.cpu.node).finish()
    }
}
