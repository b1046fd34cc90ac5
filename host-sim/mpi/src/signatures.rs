//! Each function has the parameters of the table: written by the build script.
#![expect(clippy::type_complexity, reason = "as the table has them")]

use core::ffi::{c_char, c_int, c_void};

use crate::abi::Status;
#[cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "all that there are"))]
use crate::calls::{
    attributes::*, binary::*, buffers::*, collectives::calls::*, collectives::neighbors::*, communicators::*,
    completion::*, constructors::arrays::*, constructors::*, datatypes::*, environment::*, errors::*,
    from_groups::*, groups::*, info::*, messages::probes::*, messages::*, operations::*, packing::*,
    partitioned::*, predefined::*, requests::*, sessions::*, status::*, tools::*, topologies::*,
    unsupported::*,
};
use crate::ffi::Ptr;

include!(concat!(env!("OUT_DIR"), "/checks.rs"));
