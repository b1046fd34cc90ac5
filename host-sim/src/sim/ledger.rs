//! Credits are conserved: what is checked of the accounts that two ranks keep of each other.

use core::fmt;

use aldis_kernel::hal::PeerId;
use aldis_kernel::{Account, Endpoint};

/// Places that a rank counts as taken while it holds no message: their credits are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostCredits {
    /// Whose messages had been there.
    pub peer: u32,
    /// What kind of place.
    pub kind: &'static str,
    /// The account with that peer.
    pub account: Account,
}

impl fmt::Display for LostCredits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, kind, account } = self;
        let held = account.held();
        write!(
            f,
            "the invariant \"credits are conserved\" is broken: {held} {kind} of rank {peer} are taken, and no "
        )?;
        write!(f, "message is there: {account}")
    }
}

impl core::error::Error for LostCredits {}

/// Looks for lost credits on a rank on which no message is unexpected.
///
/// # Errors
/// The first peer whose places are not all free.
pub(crate) fn all_free<T, P>(endpoint: &Endpoint<'_, T, P>, ranks: u32) -> Result<(), LostCredits> {
    for peer in 0..ranks {
        let Some(credits) = endpoint.credits(PeerId(peer)) else { continue };
        for (kind, account) in [("envelopes", credits.envelopes), ("blocks", credits.blocks)] {
            if account.held() > 0 {
                return Err(LostCredits { peer, kind, account });
            }
        }
    }
    Ok(())
}
