//! A rank of a case, and what is checked of its endpoint whatever the case.

use aldis_hal::{Platform, Transport};
use aldis_kernel::Endpoint;

use super::chapter::{Outcome, cases};

/// Runs this rank's part of a case, which may draw from the seed, and looks at what is left:
/// nothing may be, and no bound may have been passed.
///
/// The rank has so many request slots.
pub(super) fn play<T: Transport, P: Platform>(
    case: usize,
    seed: u64,
    endpoint: &mut Endpoint<'_, T, P>,
    requests_max: usize,
) -> Outcome {
    let cases = cases::<T, P>();
    let case = cases.get(case).ok_or("no such case")?;
    (case.run)(endpoint, seed)?;
    bounded(endpoint, requests_max)?;
    match endpoint.diagnostics().queue_depths() {
        (0, 0) => Ok(()),
        (posted, unexpected) => Err(format!("{posted} receives and {unexpected} messages are left").into()),
    }
}

/// Fails unless memory stayed within its bounds: nothing was ever kept that there was no room for.
fn bounded<T: Transport, P: Platform>(
    endpoint: &Endpoint<'_, T, P>,
    requests_max: usize,
) -> Result<(), String> {
    let counters = endpoint.counters();
    let envelopes = u32::from(endpoint.card().room.envelopes) * endpoint.world().size();
    let (kept, requests) = (counters.unexpected_peak, counters.requests_peak);
    if kept <= envelopes && requests as usize <= requests_max {
        return Ok(());
    }
    Err(format!(
        "{kept} messages were kept with room for {envelopes}, {requests} requests with {requests_max}"
    ))
}
