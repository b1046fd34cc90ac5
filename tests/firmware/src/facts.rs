//! This module holds `unsafe` attributes: symbols and a section of their own for the numbers that
//! the image states of itself. `cargo xtask size` reads them; they are loaded nowhere.

use aldis_drivers::shm::Lane;
use aldis_kernel::storage::{BYTES_PER_COMMUNICATOR, BYTES_PER_REQUEST, bytes_per_peer};

use crate::echo::{BLOCKS, ENVELOPES};
use crate::layout::EAGER_BYTES_MAX;

/// Declares a number under a symbol of its own.
macro_rules! facts {
    ($($name:ident: $bytes:expr;)*) => {$(
        #[used]
        #[unsafe(no_mangle)]
        #[unsafe(link_section = ".facts")]
        static $name: u32 = $bytes as u32;
    )*};
}

facts! {
    ALDIS_BYTES_PER_PEER: bytes_per_peer(ENVELOPES, BLOCKS, EAGER_BYTES_MAX) + size_of::<Lane>();
    ALDIS_BYTES_PER_REQUEST: BYTES_PER_REQUEST;
    ALDIS_BYTES_PER_COMMUNICATOR: BYTES_PER_COMMUNICATOR;
}
