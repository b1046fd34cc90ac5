//! `SocketNic`: a network card that is a unix datagram socket, one datagram a frame. How a Linux
//! process stands on `aldis-switch`, beside emulators whose `-netdev dgram` does the
//! same.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Nic, TxFrame};
use aldis_sys::file::remove_file;
use aldis_sys::socket::UnixDatagram;

/// The longest datagram that is taken in. A card hands up what comes; the layer above it judges the
/// length.
const RECEIVE_BYTES: usize = 65_536;

/// A network card on a switch's port.
#[derive(Debug)]
pub struct SocketNic {
    socket: UnixDatagram,
    own: PathBuf,
    port: PathBuf,
    mac: Mac,
    mtu: usize,
    received: Vec<u8>,
    /// The only transmit descriptor.
    transmit: Vec<u8>,
    /// Bytes in it that the switch had no room for yet; zero: it is free.
    waiting: usize,
    link: LinkState,
}

impl SocketNic {
    /// The card of member `number` of the job in `folder`, beside
    /// the switch's port of that number. It may come before its
    /// switch: until then, and when the switch has gone, frames are lost.
    ///
    /// # Errors
    /// The socket cannot be made; if it stands there already, another member has this number or
    /// died with it.
    pub fn plug(folder: &Path, number: u32, mac: Mac, mtu: usize) -> io::Result<Self> {
        let own = folder.join(format!("member{number}.sock"));
        let socket = UnixDatagram::bind(&own)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", own.display())))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            own,
            port: folder.join(format!("port{number}.sock")),
            mac,
            mtu,
            received: vec![0; RECEIVE_BYTES],
            transmit: vec![0; mtu + MAC_HEADER_BYTES],
            waiting: 0,
            link: LinkState::Up,
        })
    }

    /// Offers the waiting frame to the switch; whether the descriptor is free afterwards.
    fn flush(&mut self) -> bool {
        if let Some(frame) = self.transmit.get(..self.waiting).filter(|frame| !frame.is_empty()) {
            let result = self.socket.send_to(frame, &self.port);
            if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                return false;
            }
            // A frame that the system refuses is one that a wire has lost: a cable without a plug,
            // mostly.
            self.link = if result.is_ok() { LinkState::Up } else { LinkState::Down };
            self.waiting = 0;
        }
        true
    }
}

impl Drop for SocketNic {
    fn drop(&mut self) {
        // Only a name is left if this fails, and no caller to tell.
        let _ = remove_file(&self.own);
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub struct SocketTx<'a> {
    nic: &'a mut SocketNic,
    len: usize,
}

impl TxFrame for SocketTx<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        self.nic.transmit.get_mut(..self.len).unwrap_or_default()
    }

    fn send(self) {
        self.nic.waiting = self.len;
        self.nic.flush();
    }
}

impl Nic for SocketNic {
    type Rx<'a> = &'a [u8];
    type Tx<'a> = SocketTx<'a>;

    fn receive(&mut self) -> Option<&[u8]> {
        // A frame that waits for room goes at the next poll, not only with the next frame.
        self.flush();
        let length = self.socket.recv(&mut self.received).ok()?;
        self.received.get(..length)
    }

    fn transmit(&mut self, len: usize) -> Option<SocketTx<'_>> {
        let fits = len <= self.mtu + MAC_HEADER_BYTES;
        (fits && self.flush()).then_some(SocketTx { nic: self, len })
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn link(&self) -> LinkState {
        self.link
    }
}

#[cfg(test)]
mod tests {
    use aldis_hal::nic::RxFrame;
    use aldis_kit::scratch::ScratchFolder;

    use super::*;

    const MAC: Mac = Mac([2, 0xA1, 0xD1, 0, 0, 3]);

    fn send(nic: &mut SocketNic, bytes: &[u8]) -> bool {
        let Some(mut frame) = nic.transmit(bytes.len()) else { return false };
        frame.bytes().copy_from_slice(bytes);
        frame.send();
        true
    }

    #[test]
    fn frames_go_both_ways_and_are_bounded_by_the_mtu() {
        let folder = ScratchFolder::new("card");
        let port = UnixDatagram::bind(folder.path().join("port3.sock")).unwrap();
        let mut nic = SocketNic::plug(folder.path(), 3, MAC, 100).unwrap();
        assert_eq!((nic.mtu(), nic.mac(), nic.link()), (100, MAC, LinkState::Up));
        assert!(nic.receive().is_none() && nic.transmit(115).is_none());
        assert!(send(&mut nic, &[7; 114]));
        let mut buffer = [0; 200];
        assert_eq!(port.recv(&mut buffer).unwrap(), 114);
        let giant = vec![9; 65_000];
        port.send_to(&giant, folder.path().join("member3.sock")).unwrap();
        assert_eq!(nic.receive().unwrap().bytes(), giant);
    }

    #[test]
    fn a_full_switch_is_no_free_descriptor_and_nothing_is_lost() {
        let folder = ScratchFolder::new("card");
        let port = UnixDatagram::bind(folder.path().join("port3.sock")).unwrap();
        let mut nic = SocketNic::plug(folder.path(), 3, MAC, 1500).unwrap();
        let mut sent = 0_u32;
        while send(&mut nic, &sent.to_le_bytes()) {
            sent += 1;
        }
        port.set_nonblocking(true).unwrap();
        let mut buffer = [0; 4];
        let mut next = 0_u32;
        // The last one goes out once there is room again and the rank polls.
        while next < sent {
            assert!(nic.receive().is_none());
            while port.recv(&mut buffer).is_ok() {
                assert_eq!(u32::from_le_bytes(buffer), next);
                next += 1;
            }
        }
        assert!(send(&mut nic, b"again") && sent > 1);
    }

    #[test]
    fn without_a_switch_frames_are_lost_and_the_link_is_down() {
        let folder = ScratchFolder::new("card");
        let mut nic = SocketNic::plug(folder.path(), 3, MAC, 1500).unwrap();
        assert!(send(&mut nic, &[1; 60]) && send(&mut nic, &[1; 60]));
        assert_eq!(nic.link(), LinkState::Down);
        let _port = UnixDatagram::bind(folder.path().join("port3.sock")).unwrap();
        assert!(send(&mut nic, &[1; 60]));
        assert_eq!(nic.link(), LinkState::Up);
    }

    #[test]
    fn a_number_is_taken_once_and_free_again_afterwards() {
        let folder = ScratchFolder::new("card");
        let nic = SocketNic::plug(folder.path(), 3, MAC, 1500).unwrap();
        let error = SocketNic::plug(folder.path(), 3, MAC, 1500).unwrap_err();
        assert!(error.to_string().contains("member3.sock"), "{error}");
        drop(nic);
        assert!(SocketNic::plug(folder.path(), 3, MAC, 1500).is_ok());
    }
}
