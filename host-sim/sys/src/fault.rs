//! The fault of a call, asked for before it happens: to fail, to fall short, to stall or to stop.
//!
//! Without the feature `faults` a [`Fault`] is nothing, [`enter`] always returns one, and neither
//! takes an instruction.

use crate::call::Call;
use crate::plan::PlannedProcess;

/// The variable that holds the [plan](crate::plan).
pub const PLAN_VARIABLE: &str = "ALDIS_FAULTS";

/// The variable that names the file to which uses of calls and faults are noted: a line `PROCESS
/// PID CALL USE` for each of the first [`LOGGED_USES`] uses of each call, and a line `PROCESS PID
/// CALL USE -> OUTCOME` for each fault.
pub const LOG_VARIABLE: &str = "ALDIS_FAULTS_LOG";

/// Uses of a call, in each process, that are noted.
pub const LOGGED_USES: u32 = 50;

#[cfg(feature = "faults")]
mod injected;
#[cfg(feature = "faults")]
pub use injected::{Fault, act_as, enter};

#[cfg(not(feature = "faults"))]
mod none;
#[cfg(not(feature = "faults"))]
pub use none::{Fault, act_as, enter};

// What both have.
const _: fn(Call) -> Result<Fault, nix::errno::Errno> = enter;
const _: fn(PlannedProcess) = act_as;
