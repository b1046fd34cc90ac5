//! `CardWatch`: the frames that pass a card, counted and, if the user wants them, captured.

use core::cell::RefCell;
use core::fmt;
use std::io;

use aldis_sys::errno_of;
use aldis_sys::file::File;

use crate::capture::Capture;
use crate::choice::CardChoice;
use crate::error::CardError;

/// Counts since a card was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CardCounters {
    /// Frames that the card handed up.
    pub received: u64,
    /// Their bytes, from the destination address on.
    pub received_bytes: u64,
    /// Frames that were handed to the card.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Times that a frame was to be sent and the card had no room.
    pub no_room: u64,
}

/// Writes the counts as words of `name=count` on one line.
impl fmt::Display for CardCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { received, received_bytes, sent, sent_bytes, no_room } = self;
        write!(
            f,
            "received={received} received_bytes={received_bytes} sent={sent} sent_bytes={sent_bytes} no_room={no_room}"
        )
    }
}

/// The eye on a card.
#[derive(Debug, Default)]
pub(crate) struct CardWatch {
    pub(crate) counters: CardCounters,
    capture: Option<Box<RefCell<CardCapture>>>,
}

/// A capture under way, or one that has failed.
#[derive(Debug)]
struct CardCapture {
    file: Capture,
    path: String,
    /// True if frames have been written since the last flush.
    is_dirty: bool,
    /// The reason why no more is written.
    failure: Option<CardError>,
}

impl CardWatch {
    /// Begins the capture that a choice says, if it says one.
    ///
    /// # Errors
    /// [`CardError::Capture`].
    pub(crate) fn open(choice: &CardChoice) -> Result<Self, CardError> {
        let capture = choice.capture.as_deref().map(CardCapture::begin).transpose()?;
        Ok(Self { counters: CardCounters::default(), capture: capture.map(RefCell::new).map(Box::new) })
    }

    /// The reason why frames are captured no more.
    pub(crate) fn failure(&self) -> Option<CardError> {
        self.capture.as_ref()?.borrow().failure.clone()
    }

    /// Notes a frame that has come.
    #[inline]
    pub(crate) fn received(&mut self, frame: &[u8]) {
        self.counters.received += 1;
        self.counters.received_bytes += frame.len() as u64;
        self.capture(frame);
    }

    /// Notes a frame that goes.
    #[inline]
    pub(crate) fn sent(&mut self, frame: &[u8]) {
        self.counters.sent += 1;
        self.counters.sent_bytes += frame.len() as u64;
        self.capture(frame);
    }

    /// Hands the frames of a burst to the system, now that there is time: they are in the file even
    /// if the process is killed.
    #[inline]
    pub(crate) fn rest(&self) {
        if let Some(capture) = &self.capture {
            capture.borrow_mut().flush();
        }
    }

    #[inline]
    fn capture(&mut self, frame: &[u8]) {
        if let Some(capture) = &mut self.capture {
            capture.get_mut().write(frame);
        }
    }
}

impl Drop for CardWatch {
    fn drop(&mut self) {
        self.rest();
    }
}

impl CardCapture {
    fn begin(path: &str) -> Result<Self, CardError> {
        let file = File::create(path).and_then(Capture::begin);
        let file = file.map_err(|error| refused(path, error))?;
        Ok(Self { file, path: path.into(), is_dirty: true, failure: None })
    }

    fn write(&mut self, frame: &[u8]) {
        if self.failure.is_none() {
            self.is_dirty = true;
            let written = self.file.frame_now(frame);
            self.judge(written);
        }
    }

    fn flush(&mut self) {
        if core::mem::take(&mut self.is_dirty) {
            let written = self.file.flush();
            self.judge(written);
        }
    }

    /// Ends the capture, and not the job, if the file takes no more.
    fn judge(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failure.get_or_insert_with(|| refused(&self.path, error));
        }
    }
}

/// The error of a file that cannot be written.
fn refused(path: &str, error: io::Error) -> CardError {
    CardError::Capture { path: path.into(), errno: errno_of(error) }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::thread;
    use std::time::Instant;

    use aldis_hal::nic::{Mac, Nic, RxFrame, TxFrame};
    use aldis_kit::scratch::ScratchFolder;

    use crate::card::{CardNic, FrameKind};
    use crate::error::CardError;

    const ETHERTYPE: u16 = 0x88B5;
    const PATIENCE: Duration = Duration::from_secs(10);

    fn open(choice: &str, last: u8) -> Result<CardNic, CardError> {
        CardNic::open(
            &choice.parse().unwrap(),
            Mac([2, 0xA1, 0, 0, 0, last]),
            FrameKind::EtherType(ETHERTYPE),
        )
    }

    #[test]
    fn what_passes_a_card_is_counted_and_captured_even_before_it_is_dropped() {
        let folder = ScratchFolder::new("watch");
        let (socket, file) = (folder.path().join("sock"), folder.path().join("one.pcap"));
        let (socket, captured) = (socket.display(), file.display());
        let mut one = open(&format!("memif:{socket},server,pcap={captured}"), 1).unwrap();
        let client = format!("memif:{socket}");
        let opened = thread::spawn(move || open(&client, 2));
        while !opened.is_finished() {
            assert!(one.receive().is_none());
        }
        let mut two = opened.join().unwrap().unwrap();
        let frame = |to: u8, from: u8| [2, 0xA1, 0, 0, 0, to, 2, 0xA1, 0, 0, 0, from, 0x88, 0xB5, 7];
        let exchange = |from: &mut CardNic, to: &mut CardNic, frame: [u8; 15]| {
            let deadline = Instant::now() + PATIENCE;
            let mut token = loop {
                assert!(Instant::now() < deadline, "no room");
                let _ = to.receive().is_some();
                if from.transmit(frame.len()).is_some() {
                    break from.transmit(frame.len()).unwrap();
                }
                let _ = from.receive().is_some();
            };
            token.bytes().copy_from_slice(&frame);
            token.send();
            while to.receive().is_none_or(|came| came.bytes() != frame) {
                assert!(Instant::now() < deadline, "no frame");
            }
        };
        exchange(&mut one, &mut two, frame(2, 1));
        exchange(&mut two, &mut one, frame(1, 2));
        assert!(one.receive().is_none());
        let told = one.counters().to_string();
        assert!(told.starts_with("received=1 received_bytes=15 sent=1 sent_bytes=15 no_room="), "{told}");
        let bytes = std::fs::read(&file).unwrap();
        assert_eq!(bytes.len(), 24 + 2 * (16 + 15));
        assert!(bytes[24 + 16..].starts_with(&frame(2, 1)) && bytes.ends_with(&frame(1, 2)));
        assert_eq!(one.capture_failure(), None);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_at_the_start_and_a_notice_when_full() {
        let error = open("memif:/nowhere/sock,server,pcap=/nowhere/at/all.pcap", 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "frames cannot be captured in /nowhere/at/all.pcap: No such file or directory; choose another pcap=PATH"
        );
        let choice = "packet:x,pcap=/dev/full".parse().unwrap();
        let mut watch = super::CardWatch::open(&choice).unwrap();
        watch.rest();
        let error = watch.failure().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("/dev/full: No space left on device"), "{error}");
        watch.sent(b"the job goes on");
        assert_eq!(watch.counters.sent, 1);
    }
}
