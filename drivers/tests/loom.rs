//! The loom models of what ranks share memory for: lanes, headers, control slots, reads that two
//! sides share and cards, over the very files that ship: `RUSTFLAGS="--cfg loom" cargo test -p
//! aldis-drivers --release --test loom`.
#![cfg(loom)]
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)]

#[path = "../src/ivshmem/card.rs"]
mod card;
#[path = "../src/shm/mod.rs"]
mod shm;
#[path = "../src/sync.rs"]
mod sync;
#[path = "../src/direct/table.rs"]
mod table;
