//! The codec against an oracle, and devices on lines that are slow and bad.

mod codec;
mod line;
