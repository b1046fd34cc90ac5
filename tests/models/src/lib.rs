//! The loom models of what ranks and launchers of a host share memory for, beside the transports:
//! the mark of a segment, the notes of the status board, and how a rank's memory is reached.
//! Explored are the very files that ship; they are taken into this package because the rest of
//! theirs is not made for loom: `RUSTFLAGS="--cfg loom" cargo test -p aldis-models --release`.
#![forbid(unsafe_code)]
#![cfg(loom)]
#![allow(dead_code, unreachable_pub)]

#[path = "../../../host-sim/linux/src/cma/head.rs"]
mod head;
#[path = "../../../host-sim/linux/src/board/mark.rs"]
mod mark;
#[path = "../../../host-sim/linux/src/board/note.rs"]
mod note;
#[path = "../../../host-sim/linux/src/sync.rs"]
mod sync;
