//! Each function has the parameters of the table: written by the build script.
#![expect(clippy::type_complexity, reason = "as the table has them")]

use core::ffi::{c_char, c_int, c_void};

use crate::abi::Status;
use crate::ffi::Ptr;
#[cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "all that there are"))]
use crate::{
    attributes::*, buffers::*, collectives::calls::*, collectives::neighbors::*, communicators::*,
    constructors::arrays::*, constructors::*, datatypes::*, environment::*, errors::*, from_groups::*,
    groups::*, info::*, messages::probes::*, messages::*, operations::*, packing::*, partitioned::*,
    predefined::*, requests::completion::*, requests::general::*, requests::*, status::*, tools::*,
    topologies::*, unsupported::*,
};

include!(concat!(env!("OUT_DIR"), "/checks.rs"));
