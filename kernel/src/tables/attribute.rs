//! The attributes of communicators: their keys, and the slots that they are kept in.

use crate::tables::comm::Comm;

/// The function that is called when a communicator is duplicated: with the old one and the value
/// there. Returns the value for the new one, if it is to have any (MPI_Comm_copy_attr_function).
pub type AttributeCopy = fn(&Comm, u64) -> Option<u64>;

/// The function that is called when an attribute is deleted: with its communicator and value
/// (MPI_Comm_delete_attr_function). Neither gets an endpoint, so neither can re-enter.
pub type AttributeDelete = fn(&Comm, u64);

/// The key of attributes (MPI_Comm_create_keyval). Declare it as a static: a key is distinguished
/// from others by its address.
#[derive(Debug)]
pub struct Keyval(pub(crate) KeyvalKind);

#[derive(Debug)]
pub(crate) enum KeyvalKind {
    User { copy: AttributeCopy, delete: AttributeDelete },
    TagUpperBound,
    UniverseSize,
    ClockIsGlobal,
}

impl Keyval {
    /// The largest tag (MPI_TAG_UB), on every communicator.
    pub const TAG_UPPER_BOUND: Self = Self(KeyvalKind::TagUpperBound);
    /// The number of processes of the job (MPI_UNIVERSE_SIZE), on every communicator.
    pub const UNIVERSE_SIZE: Self = Self(KeyvalKind::UniverseSize);
    /// True if the clocks of all ranks have the same origin (MPI_WTIME_IS_GLOBAL), on every
    /// communicator: 0, since platforms need not.
    pub const CLOCK_IS_GLOBAL: Self = Self(KeyvalKind::ClockIsGlobal);

    /// A key of the program's own.
    pub const fn new(copy: AttributeCopy, delete: AttributeDelete) -> Self {
        Self(KeyvalKind::User { copy, delete })
    }

    /// For [`new`](Self::new): duplicates have the same value (MPI_COMM_DUP_FN).
    pub const fn copied(_: &Comm, value: u64) -> Option<u64> {
        Some(value)
    }

    /// For [`new`](Self::new): duplicates have none (MPI_COMM_NULL_COPY_FN).
    pub const fn not_copied(_: &Comm, _: u64) -> Option<u64> {
        None
    }

    /// For [`new`](Self::new): nothing is to be done when it is deleted (MPI_COMM_NULL_DELETE_FN).
    pub const fn kept(_: &Comm, _: u64) {}
}

/// A slot for an attribute of some communicator: memory to lend.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    pub(crate) comm: u32,
    pub(crate) key: Option<&'static Keyval>,
    pub(crate) value: u64,
}

impl Attribute {
    /// An empty slot.
    pub const NONE: Self = Self { comm: 0, key: None, value: 0 };

    pub(crate) fn is(&self, comm: &Comm, key: &Keyval) -> bool {
        self.is_of(comm) && self.key.is_some_and(|own| core::ptr::eq(own, key))
    }

    pub(crate) fn is_of(&self, comm: &Comm) -> bool {
        self.key.is_some() && self.comm == comm.user().context()
    }
}
