//! Functions that are not supported yet, and those made of their variants of large counts: written
//! by the build script from the table.

use core::ffi::{c_char, c_int, c_void};

use crate::abi::{MPI_COMM_SELF, Status};
use crate::edge::Ptr;
use crate::errors::Fault;

#[cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "whatever is wrapped"))]
use crate::{
    buffers::*, collectives::neighbors::*, collectives::*, datatypes::*, messages::*, operations::*,
    packing::*,
};

include!(concat!(env!("OUT_DIR"), "/functions.rs"));

/// Each function written by hand has the parameters of the table.
#[expect(clippy::type_complexity, reason = "as the table has them")]
mod checks {
    use core::ffi::{c_char, c_int, c_void};

    use crate::abi::Status;
    use crate::edge::Ptr;
    #[cfg_attr(not(test), expect(clippy::wildcard_imports, reason = "all that are written"))]
    use crate::{
        attributes::*, communicators::*, constructors::arrays::*, constructors::*, environment::*, errors::*,
        from_groups::*, groups::*, info::*, partitioned::*, predefined::*, requests::completion::*,
        requests::general::*, requests::*, status::*, tools::*, topologies::*, unsupported::*,
    };

    include!(concat!(env!("OUT_DIR"), "/checks.rs"));
}
