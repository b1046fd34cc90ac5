//! The promises of a program about a communicator: see
//! [`CommMut::set_hints`](crate::CommMut::set_hints).

use bitflags::bitflags;

bitflags! {
    /// The promises of this process about a communicator; none by default. See
    /// `CommMut::set_hints`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Hints: u8 {
        /// No receive or probe will name any source (`mpi_assert_no_any_source`).
        const NO_ANY_SOURCE = 1 << 0;
        /// No receive or probe will name any tag (`mpi_assert_no_any_tag`).
        const NO_ANY_TAG = 1 << 1;
        /// Every message received will be as long as its buffer (`mpi_assert_exact_length`).
        const EXACT_LENGTH = 1 << 2;
        /// Messages sent may be matched in any order (`mpi_assert_allow_overtaking`).
        const ALLOW_OVERTAKING = 1 << 3;
    }
}
