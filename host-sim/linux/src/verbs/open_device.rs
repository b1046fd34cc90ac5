//! The device and the port of a rank.

use core::num::NonZeroU32;
use std::rc::Rc;

use super::choice::{self, VerbsChoice, VerbsConfig};
use super::error::VerbsError;
use super::sys::{CompletionChannel, Device, DeviceLimits, Domain};

/// The time for which a rank may compute without a poll, unless the user says so: an hour.
const PATIENCE_S: u32 = 3600;

/// An open device, what was chosen of it, and what the user wants besides.
pub(super) struct OpenDevice {
    pub(super) domain: Rc<Domain>,
    /// The channel that tells a sleeping rank of completions.
    pub(super) channel: Rc<CompletionChannel>,
    pub(super) choice: VerbsChoice,
    pub(super) config: VerbsConfig,
}

impl OpenDevice {
    pub(super) fn open(config: &VerbsConfig) -> Result<Rc<Self>, VerbsError> {
        let mut devices = Device::all()?;
        let descriptions: Vec<_> = devices.iter().map(Device::describe).collect::<Result<_, _>>()?;
        let choice = choice::choose(&descriptions, config)?;
        let domain = Domain::new(Rc::new(devices.swap_remove(choice.device)))?;
        let channel = CompletionChannel::new(domain.device())?;
        Ok(Rc::new(Self { domain, channel, choice, config: config.clone() }))
    }

    /// Returns what the device can do at its port.
    pub(super) fn limits(&self) -> Result<DeviceLimits, VerbsError> {
        self.domain.device().limits(self.choice.port)
    }

    /// Of each of these, so much is needed, and so much there is.
    pub(super) fn need(&self, of: &[(&'static str, u32, u64)]) -> Result<(), VerbsError> {
        let short = of.iter().find(|(_, need, have)| u64::from(*need) > *have);
        short.map_or(Ok(()), |(what, need, have)| {
            Err(VerbsError::Limit { what, need: u64::from(*need), have: *have })
        })
    }

    /// Device, port and index of the address.
    pub(super) fn place(&self) -> (&str, u8, u32) {
        (self.domain.device().name(), self.choice.port, self.choice.gid.index)
    }

    /// Returns the time for which a peer may owe an answer before it is taken for dead, where only
    /// its polls answer.
    pub(super) fn patience_ns(&self) -> u64 {
        u64::from(self.config.patience_s.map_or(PATIENCE_S, NonZeroU32::get)) * 1_000_000_000
    }
}
