//! The way from reset to [`firmware`](crate::echo::firmware), for each architecture.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "arm")]
mod arm;
#[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
mod riscv;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use self::aarch64::stop;
#[cfg(target_arch = "arm")]
pub(crate) use self::arm::stop;
#[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
pub(crate) use self::riscv::stop;
#[cfg(target_arch = "x86_64")]
pub(crate) use self::x86_64::stop;
