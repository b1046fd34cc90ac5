//! Rare messages between kernels, `postcard`-encoded after the fixed header.

use aldis_hal::Cause;
use aldis_hal::cause::Malformed;
use serde::{Deserialize, Serialize};

/// Longest encoded control message, bytes.
pub const CONTROL_MESSAGE_BYTES_MAX: usize = 16;

/// A control message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Control {
    /// The sender leaves the job in good order; nothing follows from it.
    Goodbye,
    /// The sender ends a process: the receiver, or one that the receiver shares nothing with that
    /// is ended.
    Abort {
        /// The process.
        process: u32,
        /// The code it ends with.
        code: i32,
    },
}

impl Control {
    /// Writes the message.
    ///
    /// # Errors
    /// [`Cause::TooBig`] if `buffer` is too short; [`CONTROL_MESSAGE_BYTES_MAX`] is always enough.
    pub fn encode<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], Cause> {
        let max = buffer.len() as u64;
        match postcard::to_slice(self, buffer) {
            Ok(bytes) => Ok(bytes),
            Err(_) => Err(Cause::TooBig { len: CONTROL_MESSAGE_BYTES_MAX as u64, max }),
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`Malformed::Control`] for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        match postcard::take_from_bytes(bytes) {
            Ok((control, [])) => Ok(control),
            _ => Err(Malformed::Control),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes() {
        let mut buffer = [0; CONTROL_MESSAGE_BYTES_MAX];
        assert_eq!(Control::Goodbye.encode(&mut buffer).unwrap(), [0]);
        // Numbers of seven bits a byte, the low ones first; signed ones with the sign in the lowest
        // bit.
        let abort = Control::Abort { process: 300, code: -2 };
        assert_eq!(abort.encode(&mut buffer).unwrap(), [1, 0xAC, 2, 3]);
    }

    proptest! {
        #[test]
        fn every_code_survives(code in any::<i32>(), process in any::<u32>()) {
            let mut buffer = [0; CONTROL_MESSAGE_BYTES_MAX];
            for control in [Control::Goodbye, Control::Abort { process, code }] {
                prop_assert_eq!(Control::decode(control.encode(&mut buffer).unwrap()), Ok(control));
            }
        }

        #[test]
        fn decoding_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = Control::decode(&bytes);
        }
    }
}
