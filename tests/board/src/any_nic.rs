//! The card of a board, whichever it is: one type, so that programs and transports are compiled
//! once and not once for each card.

use aldis_hal::Nic;
use aldis_hal::nic::{LinkState, Mac, Offload, RxFrame, TxFrame};

/// A network card of any kind that there are drivers for.
#[cfg_attr(target_arch = "arm", expect(dead_code, reason = "a microcontroller has one core"))]
pub(crate) enum AnyNic<V, G, S, W, H> {
    /// A virtio network card.
    Virtio(V),
    /// A gigabit controller of Intel's.
    Gigabit(G),
    /// A serial line.
    Serial(S),
    /// A queue of a virtio network card.
    VirtioQueue(W),
    /// A queue of one of Intel's.
    GigabitQueue(H),
}

/// A frame of one of them, received or to be filled.
pub(crate) enum AnyFrame<V, G, S, W, H> {
    Virtio(V),
    Gigabit(G),
    Serial(S),
    VirtioQueue(W),
    GigabitQueue(H),
}

impl<V: RxFrame, G: RxFrame, S: RxFrame, W: RxFrame, H: RxFrame> RxFrame for AnyFrame<V, G, S, W, H> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Virtio(frame) => frame.bytes(),
            Self::Gigabit(frame) => frame.bytes(),
            Self::Serial(frame) => frame.bytes(),
            Self::VirtioQueue(frame) => frame.bytes(),
            Self::GigabitQueue(frame) => frame.bytes(),
        }
    }

    fn checked(&self) -> Offload {
        match self {
            Self::Virtio(frame) => frame.checked(),
            Self::Gigabit(frame) => frame.checked(),
            Self::Serial(frame) => frame.checked(),
            Self::VirtioQueue(frame) => frame.checked(),
            Self::GigabitQueue(frame) => frame.checked(),
        }
    }
}

impl<V: TxFrame, G: TxFrame, S: TxFrame, W: TxFrame, H: TxFrame> TxFrame for AnyFrame<V, G, S, W, H> {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Virtio(frame) => frame.bytes(),
            Self::Gigabit(frame) => frame.bytes(),
            Self::Serial(frame) => frame.bytes(),
            Self::VirtioQueue(frame) => frame.bytes(),
            Self::GigabitQueue(frame) => frame.bytes(),
        }
    }

    fn send(self) {
        match self {
            Self::Virtio(frame) => frame.send(),
            Self::Gigabit(frame) => frame.send(),
            Self::Serial(frame) => frame.send(),
            Self::VirtioQueue(frame) => frame.send(),
            Self::GigabitQueue(frame) => frame.send(),
        }
    }
}

impl<V: Nic, G: Nic, S: Nic, W: Nic, H: Nic> Nic for AnyNic<V, G, S, W, H> {
    type Rx<'a>
        = AnyFrame<V::Rx<'a>, G::Rx<'a>, S::Rx<'a>, W::Rx<'a>, H::Rx<'a>>
    where
        Self: 'a;
    type Tx<'a>
        = AnyFrame<V::Tx<'a>, G::Tx<'a>, S::Tx<'a>, W::Tx<'a>, H::Tx<'a>>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<Self::Rx<'_>> {
        match self {
            Self::Virtio(nic) => nic.receive().map(AnyFrame::Virtio),
            Self::Gigabit(nic) => nic.receive().map(AnyFrame::Gigabit),
            Self::Serial(nic) => nic.receive().map(AnyFrame::Serial),
            Self::VirtioQueue(nic) => nic.receive().map(AnyFrame::VirtioQueue),
            Self::GigabitQueue(nic) => nic.receive().map(AnyFrame::GigabitQueue),
        }
    }

    fn transmit(&mut self, len: usize) -> Option<Self::Tx<'_>> {
        match self {
            Self::Virtio(nic) => nic.transmit(len).map(AnyFrame::Virtio),
            Self::Gigabit(nic) => nic.transmit(len).map(AnyFrame::Gigabit),
            Self::Serial(nic) => nic.transmit(len).map(AnyFrame::Serial),
            Self::VirtioQueue(nic) => nic.transmit(len).map(AnyFrame::VirtioQueue),
            Self::GigabitQueue(nic) => nic.transmit(len).map(AnyFrame::GigabitQueue),
        }
    }

    fn mtu(&self) -> usize {
        match self {
            Self::Virtio(nic) => nic.mtu(),
            Self::Gigabit(nic) => nic.mtu(),
            Self::Serial(nic) => nic.mtu(),
            Self::VirtioQueue(nic) => nic.mtu(),
            Self::GigabitQueue(nic) => nic.mtu(),
        }
    }

    fn mac(&self) -> Mac {
        match self {
            Self::Virtio(nic) => nic.mac(),
            Self::Gigabit(nic) => nic.mac(),
            Self::Serial(nic) => nic.mac(),
            Self::VirtioQueue(nic) => nic.mac(),
            Self::GigabitQueue(nic) => nic.mac(),
        }
    }

    fn link(&self) -> LinkState {
        match self {
            Self::Virtio(nic) => nic.link(),
            Self::Gigabit(nic) => nic.link(),
            Self::Serial(nic) => nic.link(),
            Self::VirtioQueue(nic) => nic.link(),
            Self::GigabitQueue(nic) => nic.link(),
        }
    }

    fn offload(&self) -> Offload {
        match self {
            Self::Virtio(nic) => nic.offload(),
            Self::Gigabit(nic) => nic.offload(),
            Self::Serial(nic) => nic.offload(),
            Self::VirtioQueue(nic) => nic.offload(),
            Self::GigabitQueue(nic) => nic.offload(),
        }
    }
}
