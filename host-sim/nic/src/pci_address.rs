//! Addresses of PCI devices.

use core::fmt;
use core::str::FromStr;

/// The address of a function of a PCI device, as `lspci -D` writes it: `0000:00:04.0`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// Devices on a bus, and functions of a device.
const DEVICES: u8 = 32;
const FUNCTIONS: u8 = 8;

impl FromStr for PciAddress {
    type Err = String;

    /// Reads an address; without a domain it is in the first.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no address of a PCI device; it is such as 0000:00:04.0, and lspci -D lists them"
            )
        };
        let hex = |part: &str, digits: usize| {
            let is_hex =
                (1..=digits).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            u32::from_str_radix(part, 16).ok().filter(|_| is_hex)
        };
        let read = || {
            let (front, function) = text.rsplit_once('.')?;
            let (front, device) = front.rsplit_once(':')?;
            let (domain, bus) = front.rsplit_once(':').unwrap_or(("0", front));
            let [bus, device, function] =
                [hex(bus, 2)?, hex(device, 2)?, hex(function, 1)?].map(|part| part as u8);
            let is_there = device < DEVICES && function < FUNCTIONS;
            Some(Self { domain: hex(domain, 8)?, bus, device, function }).filter(|_| is_there)
        };
        read().ok_or_else(wrong)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, written) in [
            ("0000:00:04.0", "0000:00:04.0"),
            ("00:1f.7", "0000:00:1f.7"),
            ("3:4.1", "0000:03:04.1"),
            ("10000:E1:00.0", "10000:e1:00.0"),
        ] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), written);
        }
        for text in [
            "",
            "eth0",
            "00:04",
            "00:20.0",
            "00:04.8",
            "0:00:04.",
            "00:+4.0",
            "1:2:3:4.0",
            "00:123.0",
            "x:00:04.0",
        ] {
            let error = text.parse::<PciAddress>().unwrap_err();
            assert!(error.contains("such as 0000:00:04.0"), "{text}: {error}");
        }
    }
}
