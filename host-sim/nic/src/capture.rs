//! A file of captured frames that tshark, tcpdump and Wireshark read.
//!
//! The classic format of libpcap (draft-ietf-opsawg-pcap, sections 4 and 5): a header of 24 bytes,
//! then 16 bytes and the frame for each, all numbers little-endian here, times in microseconds.

use core::time::Duration;
use std::io::{self, BufWriter, Write};
use std::time::SystemTime;

use aldis_sys::file::File;

/// The first word of a file with times in microseconds.
const MAGIC: u32 = 0xA1B2_C3D4;
/// Version 2.4 of the format.
const VERSION: (u16, u16) = (2, 4);
/// Frames are kept whole up to so many bytes.
const SNAPSHOT_BYTES: u32 = 65_535;
/// Frames begin with an Ethernet header.
const LINKTYPE_ETHERNET: u32 = 1;

/// A file that frames are written to.
#[derive(Debug)]
pub struct Capture<W: Write = BufWriter<File>> {
    file: W,
}

impl Capture {
    /// Begins a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(file: File) -> io::Result<Self> {
        Self::new(BufWriter::new(file))
    }
}

impl<W: Write> Capture<W> {
    fn new(mut file: W) -> io::Result<Self> {
        file.write_all(&MAGIC.to_le_bytes())?;
        file.write_all(&VERSION.0.to_le_bytes())?;
        file.write_all(&VERSION.1.to_le_bytes())?;
        // Two reserved words.
        file.write_all(&[0; 8])?;
        file.write_all(&SNAPSHOT_BYTES.to_le_bytes())?;
        file.write_all(&LINKTYPE_ETHERNET.to_le_bytes())?;
        Ok(Self { file })
    }

    /// Writes a frame as seen now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn frame_now(&mut self, frame: &[u8]) -> io::Result<()> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.frame(since, frame)
    }

    /// Writes a frame as seen so long after 1970 began.
    fn frame(&mut self, at: Duration, frame: &[u8]) -> io::Result<()> {
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let kept = length.min(SNAPSHOT_BYTES);
        // The format counts seconds in 32 bits.
        for word in [at.as_secs() as u32, at.subsec_micros(), kept, length] {
            self.file.write_all(&word.to_le_bytes())?;
        }
        self.file.write_all(frame.get(..kept as usize).unwrap_or(frame))
    }

    /// Hands to the system what was written.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let mut capture = Capture::new(Vec::new()).unwrap();
        capture.frame(Duration::from_micros(0x0102_0304 * 1_000_000 + 5), b"abc").unwrap();
        let header =
            [0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 1, 0, 0, 0];
        assert_eq!(capture.file[..24], header);
        assert_eq!(capture.file[24..], [4, 3, 2, 1, 5, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, b'a', b'b', b'c']);
    }
}
