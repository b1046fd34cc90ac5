//! A virtual network card: frames in and out of the wire of frames.

use core::fmt;

use aldis_kernel::hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Nic, RxFrame, TxFrame};

use super::node::Cpu;
use super::queue::Delivery;

/// The address that all cards take.
pub(crate) const BROADCAST: Mac = Mac([0xFF; 6]);
/// The first bytes of every card's address: locally administered (IEEE Std 802, 8.4), and the name
/// of the lamp.
const PREFIX: [u8; 2] = [0x02, 0xA1];

/// The address of a node's card.
pub(crate) const fn mac(node: u32) -> Mac {
    let [a, b, c, d] = node.to_be_bytes();
    Mac([PREFIX[0], PREFIX[1], a, b, c, d])
}

/// The node whose card has this address, if it is one of a node.
pub(crate) fn owner(Mac(bytes): Mac) -> Option<u32> {
    let node = bytes.strip_prefix(&PREFIX)?;
    Some(u32::from_be_bytes(node.try_into().ok()?))
}

/// A node's network card. It hands up whatever comes, damaged or not, as a card does whose check
/// sequence has been fooled or turned off.
#[derive(Clone)]
pub struct SimNic<'a> {
    cpu: Cpu<'a>,
    mtu: usize,
}

impl<'a> SimNic<'a> {
    pub(crate) fn new(cpu: Cpu<'a>) -> Self {
        let mtu = cpu.world.borrow().config.network.mtu as usize;
        Self { cpu, mtu }
    }
}

impl fmt::Debug for SimNic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimNic").field("mac", &self.mac()).field("mtu", &self.mtu).finish()
    }
}

/// A frame that has come.
#[derive(Debug)]
pub struct SimRx(Vec<u8>);

impl RxFrame for SimRx {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A frame to be sent.
pub struct SimTx<'t, 'a> {
    cpu: &'t Cpu<'a>,
    bytes: Vec<u8>,
}

impl fmt::Debug for SimTx<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimTx").field(&self.bytes.len()).finish()
    }
}

impl TxFrame for SimTx<'_, '_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn send(self) {
        self.cpu.world.borrow_mut().transmit(self.cpu.node, self.bytes);
    }
}

impl<'a> Nic for SimNic<'a> {
    type Rx<'b>
        = SimRx
    where
        Self: 'b;
    type Tx<'b>
        = SimTx<'b, 'a>
    where
        Self: 'b;

    fn receive(&mut self) -> Option<SimRx> {
        match self.cpu.world.borrow_mut().take(self.cpu.node)? {
            Delivery::Frame(frame) => Some(SimRx(frame.bytes)),
            Delivery::Message(_) | Delivery::Ready(_) | Delivery::Lost { .. } => None,
        }
    }

    fn transmit(&mut self, len: usize) -> Option<SimTx<'_, 'a>> {
        let fits = len <= self.mtu + MAC_HEADER_BYTES;
        let free = fits && self.cpu.world.borrow_mut().has_descriptor(self.cpu.node);
        // Bytes that no sender wrote are to be noticed.
        free.then(|| SimTx { cpu: &self.cpu, bytes: vec![0xEE; len] })
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn mac(&self) -> Mac {
        mac(self.cpu.node)
    }

    fn link(&self) -> LinkState {
        LinkState::Up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Network, Outcome, Profile, Record, Report, SimConfig, Topology, VirtualNode, Wire, simulate_nodes,
    };

    /// Runs `program` on bare cards.
    fn run(config: &SimConfig, program: fn(u32, &mut SimNic<'_>, &Cpu<'_>) -> Outcome) -> Report {
        let whole = move |node: VirtualNode<'_>| {
            let cpu = node.cpu.clone();
            program(cpu.node, &mut node.nic(), &cpu)
        };
        let report = simulate_nodes(config, whole).unwrap();
        assert_eq!(report.failure, None, "{report}");
        report
    }

    fn config(seed: u64, ranks: u32) -> SimConfig {
        let network =
            Network { mtu: 100, tx_frames: 2, rx_frames: 4, per_kib_ns: 10_000, ..Network::default() };
        SimConfig { wire: Wire::Frames, faults: Profile::Calm, network, ..SimConfig::new(seed, ranks) }
    }

    fn send(nic: &mut SimNic<'_>, to: Mac, number: u8, len: usize) -> bool {
        let Some(mut frame) = nic.transmit(len) else { return false };
        frame.bytes()[..6].copy_from_slice(&to.0);
        frame.bytes()[14] = number;
        frame.send();
        true
    }

    /// All that comes until nothing has come for a while.
    fn receive_all(nic: &mut SimNic<'_>, cpu: &Cpu<'_>) -> Vec<Vec<u8>> {
        let (mut frames, mut idle) = (Vec::new(), 0);
        while idle < 100 {
            idle = match nic.receive() {
                Some(frame) => {
                    frames.push(frame.bytes().to_vec());
                    0
                }
                None => {
                    cpu.rest(60_000);
                    idle + 1
                }
            };
        }
        frames
    }

    #[test]
    fn addresses_are_of_nodes() {
        assert_eq!(owner(mac(0xABCDE)), Some(0xABCDE));
        assert_eq!((owner(BROADCAST), owner(Mac([0; 6]))), (None, None));
    }

    #[test]
    fn frames_go_where_their_address_says_and_are_filled_up() {
        let report = run(&config(1, 4), |node, nic, cpu| {
            if node == 1 {
                assert!(send(nic, mac(2), 7, 20) && send(nic, BROADCAST, 8, 114));
                assert!(nic.transmit(115).is_none(), "longer than the MTU");
            }
            let got: Vec<(u8, usize)> =
                receive_all(nic, cpu).iter().map(|frame| (frame[14], frame.len())).collect();
            let due: &[(u8, usize)] = match node {
                0 | 3 => &[(8, 114)],
                1 => &[],
                _ => &[(7, 60), (8, 114)],
            };
            assert_eq!(got, due, "node {node}");
            Ok(())
        });
        assert_eq!((report.totals.frames, report.totals.lost), (4, 0));
    }

    #[test]
    fn descriptors_are_bounded_and_a_full_receiver_loses_frames() {
        let report = run(&config(2, 2), |node, nic, cpu| {
            if node == 1 {
                // Computes while the frames come.
                while cpu.world.borrow_mut().clock(1) < 1_000_000 {}
                cpu.rest(1);
                assert_eq!(receive_all(nic, cpu).len(), 4);
                return Ok(());
            }
            let mut refused = 0;
            for number in 0..10 {
                while !send(nic, mac(1), number, 114) {
                    refused += 1;
                    cpu.rest(1_000_000);
                }
            }
            assert!(refused > 0 && refused < 10, "{refused}: woken when the first has left, and not before");
            Ok(())
        });
        assert_eq!((report.totals.frames, report.totals.overflowed), (10, 6));
    }

    #[test]
    fn a_frame_from_afar_does_not_hold_up_one_from_next_door() {
        let network = Network { jitter_ns: 0, ..config(3, 8).network };
        let config = SimConfig { topology: Topology::Ring, network, record: true, ..config(3, 8) };
        let report = run(&config, |node, nic, cpu| {
            // All have begun by then, and the one from afar is sent first.
            while cpu.world.borrow_mut().clock(node) < 50_000 + 50 * u64::from(node) {}
            assert!(node != 0 && node != 3 || send(nic, mac(4), 7, 60));
            receive_all(nic, cpu);
            Ok(())
        });
        let taken = report.records.iter().filter_map(|record| match record {
            Record::FrameTaken { from, .. } => Some(*from),
            _ => None,
        });
        assert_eq!(taken.collect::<Vec<_>>(), [3, 0]);
    }

    #[test]
    fn a_faulty_wire_loses_doubles_damages_and_reorders() {
        let (mut lost, mut duplicated, mut damaged, mut overtaken) = (0, 0, 0, 0);
        for seed in 0..60 {
            let network = Network { rx_frames: 200, ..config(seed, 2).network };
            let config = SimConfig { faults: Profile::Swarm, network, record: true, ..config(seed, 2) };
            let report = run(&config, |node, nic, cpu| {
                for number in 0..100 {
                    while node == 0 && !send(nic, mac(1), number, 80) {
                        cpu.rest(1_000_000);
                    }
                }
                receive_all(nic, cpu);
                Ok(())
            });
            let totals = report.totals;
            assert_eq!(totals.frames, 100);
            lost += totals.lost;
            duplicated += totals.duplicated;
            damaged += totals.damaged;
            let taken = report.records.iter().filter_map(|record| match record {
                Record::FrameTaken { frame, .. } => Some(*frame),
                _ => None,
            });
            let taken: Vec<u64> = taken.collect();
            assert_eq!(
                taken.len() as u64,
                totals.frames + totals.duplicated - totals.lost - totals.overflowed
            );
            overtaken += u64::from(!taken.is_sorted());
        }
        println!("{lost} lost, {duplicated} doubled, {damaged} damaged; {overtaken} runs with overtaking");
        assert!(lost > 100 && duplicated > 100 && damaged > 100 && overtaken > 10);
    }
}
