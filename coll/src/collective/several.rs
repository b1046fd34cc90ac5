//! Waiting for one collective or several, all of which go on meanwhile.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Error, Failed, Scope};

use super::{Collective, Progress};

/// Waits until all of them are complete, in whatever order other ranks wait for theirs.
///
/// # Errors
/// The first failure, with the causes of [`Collective::wait`]; it ends the wait, and the others go
/// on when driven again.
pub fn wait_all<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    set: &mut [Collective<'scope>],
) -> Result<(), Error> {
    drive(scope, set, Collective::all_complete).map_err(|Failed| *scope.failure())
}

/// Waits until the one at `index` is complete (at once if there is none), and drives the others
/// meanwhile: MPI's rule that any order of waiting is right.
///
/// # Errors
/// The first failure of any of them, with the causes of [`Collective::wait`]; the others go on when
/// driven again, as in [`wait_all`].
pub fn wait_for<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    set: &mut [Collective<'scope>],
    index: usize,
) -> Result<(), Error> {
    let driven = drive(scope, set, |set| set.get(index).is_none_or(Collective::is_complete));
    driven.map_err(|Failed| *scope.failure())
}

/// Drives the set until it `is_over`.
pub(super) fn drive<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    set: &mut [Collective<'scope>],
    is_over: impl Fn(&[Collective<'scope>]) -> bool,
) -> Result<(), Failed> {
    while !is_over(set) {
        // What is waited for, and so what is noted at the platform and named after a deadline,
        // changes with every message; hence a wait of its own for each.
        let waiting = set.iter().find(|collective| !collective.is_complete());
        let activity = waiting.map(Collective::activity::<T>).unwrap_or_default();
        scope.drive_until(&activity, |scope| advance_all(scope, set))?;
    }
    Ok(())
}

/// Takes one turn for each; `Some` if anything happened.
fn advance_all<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    set: &mut [Collective<'scope>],
) -> Result<Option<()>, Failed> {
    let (mut moved, mut under_way, mut starved) = (false, false, None);
    for collective in set {
        collective.moved = false;
        match collective.advance(scope) {
            Progress::Done => {}
            Progress::Waiting => under_way = true,
            Progress::Starved => starved = Some(&collective.error),
            Progress::Failed => return Err(scope.keep_failure(&collective.error)),
        }
        moved |= collective.moved;
    }
    match starved {
        // No collective here will free a request slot.
        Some(error) if !moved && !under_way => Err(scope.keep_failure(error)),
        _ => Ok(moved.then_some(())),
    }
}
