//! Kernels over the links of microcontrollers: two endpoints, the Ethernet transport, and a device
//! that makes frames of a line which loses, damages and invents bytes.

mod malformed;
mod rig;
mod serial;
mod spi;
