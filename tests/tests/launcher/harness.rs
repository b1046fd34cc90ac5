//! Jobs of ranks that behave as their first argument says.

pub(crate) use aldis_tests::jobs::{Ended, Job, becomes, is_alive, launch, program, run, start};

/// The rank whose behaviour is its first argument.
pub(crate) const RANK: &str = env!("CARGO_BIN_EXE_launcher_rank");

/// Starts `ranks` ranks that all get `behaviour`, with launcher options in front, and waits for
/// their end.
pub(crate) fn behave(ranks: u32, options: &[&str], behaviour: &str) -> Ended {
    begin(ranks, options, behaviour).wait()
}

/// Starts `ranks` ranks that all get `behaviour`, with launcher options in front.
pub(crate) fn begin(ranks: u32, options: &[&str], behaviour: &str) -> Job {
    let count = ranks.to_string();
    let mut arguments = vec!["-n", count.as_str()];
    arguments.extend(options);
    arguments.extend([RANK, behaviour]);
    start(arguments)
}
