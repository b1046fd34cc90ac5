//! Under construction.

pub mod board;
pub mod entropy;
mod memory;
pub mod platform;
pub mod segment;
pub mod shape;
pub mod storage;
pub mod wireup;
