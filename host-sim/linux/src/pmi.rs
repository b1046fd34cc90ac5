//! PMI: how a process asks the process manager that has started it which rank it is and where the
//! others are.
//!
//! Hydra (`mpiexec.hydra`) and Slurm (`srun --mpi=pmi2`) give each process one end of a stream
//! socket, whose number stands in `PMI_FD`, beside `PMI_RANK` and `PMI_SIZE`. Over it the process
//! puts values under keys, waits at a fence until all have put theirs, and gets what the others
//! have put:
//!
//! ```text
//!              version 1, a line each            version 2, counted
//! greeting     init                              init (a line), fullinit
//! limits       get_maxes                         64 bytes a key, 1024 a value
//! store        get_my_kvsname                    job-getid
//! values       put, get                          kvs-put, kvs-get
//! fence        barrier_in                        kvs-fence
//! last message finalize | abort                  finalize | abort
//! ```
//!
//! Both are told at length in MPICH's `src/pmi/maint/pmi-1.1.txt` and `pmi-2.0.txt`. Version 1 is
//! spoken unless [`VERSION_VARIABLE`] asks for the other: all managers of either know it, and it
//! alone lets Hydra exit with an abort's code.
//!
//! [`Message`] and [`PmiRequest`] are pure: bytes in, bytes out. [`Client`] speaks over the socket,
//! with a deadline for all. Nothing that a manager sends is believed: messages are bounded and
//! checked, and what is wrong with one is a [`PmiError`] that names the command, what came, and
//! what to do.

mod client;
mod error;
mod managed_rank;
mod message;
mod request;
mod value;

pub use client::Client;
pub use error::{AnswerFault, PmiError};
pub use managed_rank::{FD_VARIABLE, ManagedRank, RANK_VARIABLE, SIZE_VARIABLE, VERSION_VARIABLE};
pub use message::{MESSAGE_BYTES_MAX, Message, MessageError, MessageForm};
pub use request::{PmiRequest, Version};
pub use value::VALUE_BYTES_MAX;
