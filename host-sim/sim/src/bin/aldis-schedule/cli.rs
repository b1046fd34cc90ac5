//! The options that the user types.

use std::path::PathBuf;

use aldis_coll::select::Prices;
use clap::{Parser, ValueEnum};

/// Draw the schedule of a collective operation, and say what it costs.
///
/// Ranks are lines, rounds are columns from left to right, and a message is an arrow from its
/// sender's line to its receiver's. Below the picture stand rounds, messages, what goes over the
/// busiest link, the critical path, and two predictions: of the closed form that selection goes by,
/// and of the simulation of every step. Nothing is sent, and no program is run.
#[derive(Debug, Parser)]
#[command(name = "aldis-schedule", version, about, long_about, after_long_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Options {
    /// The operation: bcast, allreduce, alltoall, ...
    #[arg(value_name = "OPERATION")]
    pub(crate) operation: String,

    /// The algorithm, as `aldis-run --list-algorithms` names it; `auto` for the one that selection
    /// takes
    #[arg(value_name = "ALGORITHM", default_value = "auto")]
    pub(crate) algorithm: String,

    /// Ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) ranks: u32,

    /// Bytes of a rank's data; of a block where there is one for every rank. A barrier has none
    #[arg(long, value_name = "BYTES", default_value = "8")]
    pub(crate) bytes: u64,

    /// Bytes of an element: data is cut between elements
    #[arg(long, value_name = "BYTES", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) element_bytes: u32,

    /// The root's rank
    #[arg(long, value_name = "RANK", default_value = "0")]
    pub(crate) root: u32,

    /// Scratch memory of a rank; less than an algorithm needs cuts its data into segments
    /// [default: as much as it can use]
    #[arg(long, value_name = "BYTES")]
    pub(crate) scratch: Option<u64>,

    /// The prices of messages
    #[arg(long, value_enum, default_value = "shared-memory")]
    pub(crate) prices: PriceList,

    /// Also draw it to this file, with time from left to right
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Also list the steps of every rank in every round, with the elements that they are about
    #[arg(long)]
    pub(crate) steps: bool,

    /// Print JSON in place of picture and figures
    #[arg(long)]
    pub(crate) json: bool,

    /// Columns of the picture; what is longer goes on below
    #[arg(long, value_name = "COLUMNS", default_value = "100", value_parser = clap::value_parser!(u16).range(40..))]
    pub(crate) width: u16,
}

/// The prices that are built in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum PriceList {
    /// Two processes of one machine
    SharedMemory,
    /// A socket between them
    Socket,
}

impl PriceList {
    pub(crate) const fn prices(self) -> Prices {
        match self {
            Self::SharedMemory => Prices::SHARED_MEMORY,
            Self::Socket => Prices::SOCKET,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  aldis-schedule allreduce recursive_doubling --ranks 6
      how ranks that are no power of two come in and go out
  aldis-schedule allreduce --ranks 8 --bytes 1048576
      what selection takes for a mebibyte, and what it costs
  aldis-schedule bcast binomial --ranks 13 --root 4 --svg bcast.svg
  aldis-schedule alltoall bruck --ranks 5 --bytes 64 --steps
      with every step in words
  aldis-schedule allreduce ring --ranks 4 --bytes 65536 --scratch 4096
      in segments, because the scratch is short

The picture:
  ●      the rank sends         ▼ ▲    the rank receives from above, from below
  █      it reduces             ▒      it copies
  │ ┼    a message passes by    rounds are those of one segment

Exit code: 0; 1 for a schedule that is not there or cannot be drawn; 2 for a wrong command line";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Options::command().debug_assert();
    }
}
