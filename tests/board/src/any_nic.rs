//! The card of a board, whichever it is: one type, so that programs and transports are compiled
//! once and not once for each card.

use aldis_hal::Nic;
use aldis_hal::nic::{LinkState, Mac, Offload, RxFrame, TxFrame};

/// A network card of any kind that there are drivers for.
pub(crate) enum AnyNic<V, G, S> {
    /// A virtio network card.
    Virtio(V),
    /// A gigabit controller of Intel's.
    Gigabit(G),
    /// A serial line.
    Serial(S),
}

/// A frame of one of them, received or to be filled.
pub(crate) enum AnyFrame<V, G, S> {
    Virtio(V),
    Gigabit(G),
    Serial(S),
}

impl<V: RxFrame, G: RxFrame, S: RxFrame> RxFrame for AnyFrame<V, G, S> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Virtio(frame) => frame.bytes(),
            Self::Gigabit(frame) => frame.bytes(),
            Self::Serial(frame) => frame.bytes(),
        }
    }

    fn checked(&self) -> Offload {
        match self {
            Self::Virtio(frame) => frame.checked(),
            Self::Gigabit(frame) => frame.checked(),
            Self::Serial(frame) => frame.checked(),
        }
    }
}

impl<V: TxFrame, G: TxFrame, S: TxFrame> TxFrame for AnyFrame<V, G, S> {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Virtio(frame) => frame.bytes(),
            Self::Gigabit(frame) => frame.bytes(),
            Self::Serial(frame) => frame.bytes(),
        }
    }

    fn send(self) {
        match self {
            Self::Virtio(frame) => frame.send(),
            Self::Gigabit(frame) => frame.send(),
            Self::Serial(frame) => frame.send(),
        }
    }
}

impl<V: Nic, G: Nic, S: Nic> Nic for AnyNic<V, G, S> {
    type Rx<'a>
        = AnyFrame<V::Rx<'a>, G::Rx<'a>, S::Rx<'a>>
    where
        Self: 'a;
    type Tx<'a>
        = AnyFrame<V::Tx<'a>, G::Tx<'a>, S::Tx<'a>>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<Self::Rx<'_>> {
        match self {
            Self::Virtio(nic) => nic.receive().map(AnyFrame::Virtio),
            Self::Gigabit(nic) => nic.receive().map(AnyFrame::Gigabit),
            Self::Serial(nic) => nic.receive().map(AnyFrame::Serial),
        }
    }

    fn transmit(&mut self, len: usize) -> Option<Self::Tx<'_>> {
        match self {
            Self::Virtio(nic) => nic.transmit(len).map(AnyFrame::Virtio),
            Self::Gigabit(nic) => nic.transmit(len).map(AnyFrame::Gigabit),
            Self::Serial(nic) => nic.transmit(len).map(AnyFrame::Serial),
        }
    }

    fn mtu(&self) -> usize {
        match self {
            Self::Virtio(nic) => nic.mtu(),
            Self::Gigabit(nic) => nic.mtu(),
            Self::Serial(nic) => nic.mtu(),
        }
    }

    fn mac(&self) -> Mac {
        match self {
            Self::Virtio(nic) => nic.mac(),
            Self::Gigabit(nic) => nic.mac(),
            Self::Serial(nic) => nic.mac(),
        }
    }

    fn link(&self) -> LinkState {
        match self {
            Self::Virtio(nic) => nic.link(),
            Self::Gigabit(nic) => nic.link(),
            Self::Serial(nic) => nic.link(),
        }
    }

    fn offload(&self) -> Offload {
        match self {
            Self::Virtio(nic) => nic.offload(),
            Self::Gigabit(nic) => nic.offload(),
            Self::Serial(nic) => nic.offload(),
        }
    }
}
