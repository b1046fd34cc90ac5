//! Which of the machine's addresses a rank listens at.

use core::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use super::error::TcpError;

/// A family of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Which interfaces are used, by name. Without any list: all that are up but the loopback, or the loopback if there is no
/// other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interfaces {
    /// Only these, if there are any.
    pub include: Vec<String>,
    /// Never these.
    pub exclude: Vec<String>,
    /// Only addresses of this family.
    pub family: Option<Family>,
}

/// The addresses that are chosen.
///
/// # Errors
/// There is none, or the system does not tell.
pub(super) fn select(interfaces: &Interfaces) -> Result<Vec<IpAddr>, TcpError> {
    let all = getifaddrs().map_err(|errno| TcpError::System { call: "getifaddrs", errno })?;
    let mut found = Vec::new();
    for interface in all.filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP)) {
        let named = |list: &[String]| list.contains(&interface.interface_name);
        let Some(ip) = interface.address.as_ref().and_then(|address| {
            let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
        }) else {
            continue;
        };
        let family = if ip.is_ipv4() { Family::V4 } else { Family::V6 };
        // An address of one link alone means nothing without the link.
        let local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let wanted = interfaces.include.is_empty() || named(&interfaces.include);
        if wanted
            && !named(&interfaces.exclude)
            && !local
            && interfaces.family.is_none_or(|only| only == family)
        {
            found.push(ip);
        }
    }
    let reachable: Vec<_> = found.iter().copied().filter(|ip| !ip.is_loopback()).collect();
    let chosen = if reachable.is_empty() || !interfaces.include.is_empty() { found } else { reachable };
    if chosen.is_empty() { Err(TcpError::NoInterface) } else { Ok(chosen) }
}
