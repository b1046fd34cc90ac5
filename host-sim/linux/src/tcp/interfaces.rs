//! The machine's addresses at which a rank listens, and the order in which those of a peer are
//! tried.

use core::cmp::Reverse;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use aldis_sys::socket::{InterfaceAddress, InterfaceFlags, SockaddrStorage, getifaddrs};
use serde::{Deserialize, Serialize};

use super::error::TcpError;

/// A family of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    const fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// The interfaces that are used. An entry of a list is the name of an interface (`eth0`), an
/// address, or a network (`10.1.0.0/16`, `fd00::/8`).
///
/// Without any list: all that are up. Those whose carrier the system does not report only if there
/// is none with one: it reports one up to a second late. The loopback only if it is included, or
/// there is no other. Addresses that mean something on one link alone are never used in IPv6, where
/// they are nothing without that link's name on the machine, and in IPv4 (169.254.0.0/16, RFC 3927)
/// only if they are included.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Interfaces {
    /// Only these, if there are any.
    pub include: Vec<String>,
    /// Never these.
    pub exclude: Vec<String>,
    /// Only addresses of this family.
    pub family: Option<Family>,
}

/// An address and how much of it names the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InterfaceNetwork {
    pub(super) ip: IpAddr,
    prefix: u8,
}

/// An address as 128 bits from the top, and how many it has.
fn bits(ip: IpAddr) -> (u128, u8) {
    match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()) << 96, 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    }
}

impl InterfaceNetwork {
    /// Reads `10.1.0.0/16`, or an address alone. `None` for anything else.
    fn parse(text: &str) -> Option<Self> {
        let (ip, prefix) = match text.split_once('/') {
            Some((ip, prefix)) => (ip.parse().ok()?, prefix.parse().ok()?),
            None => {
                let ip = text.parse().ok()?;
                (ip, bits(ip).1)
            }
        };
        (prefix <= bits(ip).1).then_some(Self { ip, prefix })
    }

    fn contains(&self, ip: IpAddr) -> bool {
        let ((own, width), (other, other_width)) = (bits(self.ip), bits(ip));
        let differing = own ^ other;
        width == other_width && differing.leading_zeros() >= u32::from(self.prefix)
    }
}

/// An address that an interface has.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Found {
    name: String,
    network: InterfaceNetwork,
    is_up: bool,
    has_carrier: bool,
    is_point_to_point: bool,
}

/// The reason why an address is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Rejection {
    /// Its interface is down.
    Down,
    /// Of the other family.
    Family,
    /// Of one link alone.
    LinkLocal,
    /// On the list of those to exclude.
    Excluded,
    /// Not on the list of those to include.
    NotIncluded,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "down",
            Self::Family => "of the other family",
            Self::LinkLocal => "of one link alone",
            Self::Excluded => "excluded",
            Self::NotIncluded => "not included",
        })
    }
}

/// An address that is not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// Its interface.
    pub interface: String,
    /// The address.
    pub ip: IpAddr,
    /// The reason.
    pub why: Rejection,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.interface, self.ip, self.why)
    }
}

/// An entry of a list: a network, or the name of an interface.
enum NetworkEntry<'a> {
    Network(InterfaceNetwork),
    Name(&'a str),
}

impl NetworkEntry<'_> {
    fn matches(&self, found: &Found) -> bool {
        match self {
            Self::Network(network) => network.contains(found.network.ip),
            Self::Name(name) => *name == found.name,
        }
    }
}

/// Reads a list. A name has no slash and no colon.
fn entries(list: &[String]) -> Result<Vec<NetworkEntry<'_>>, TcpError> {
    let entry = |text| match InterfaceNetwork::parse(text) {
        Some(network) => Ok(NetworkEntry::Network(network)),
        None if text.is_empty() || text.contains(['/', ':']) => Err(TcpError::Network { text: text.into() }),
        None => Ok(NetworkEntry::Name(text)),
    };
    list.iter().map(|text| entry(text.as_str())).collect()
}

const fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// The likelihood that others can reach an address. Only the best that there is counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likely {
    Now,
    /// Once its interface's carrier is there, or the system has noticed that it is.
    Soon,
    /// The loopback, unasked: none but this machine's.
    Never,
}

/// Chooses among what was found: those that others can most likely reach first.
fn choose(interfaces: &Interfaces, found: &[Found]) -> Result<Vec<InterfaceNetwork>, TcpError> {
    let (include, exclude) = (entries(&interfaces.include)?, entries(&interfaces.exclude)?);
    let (mut chosen, mut rejected) = (Vec::new(), Vec::new());
    for one in found {
        let ip = one.network.ip;
        let included = include.iter().any(|entry| entry.matches(one));
        let why = match () {
            () if !one.is_up => Rejection::Down,
            () if interfaces.family.is_some_and(|only| only != Family::of(ip)) => Rejection::Family,
            () if exclude.iter().any(|entry| entry.matches(one)) => Rejection::Excluded,
            () if !include.is_empty() && !included => Rejection::NotIncluded,
            () if is_link_local(ip) && (ip.is_ipv6() || !included) => Rejection::LinkLocal,
            () => {
                let likely = match () {
                    () if ip.is_loopback() && !included => Likely::Never,
                    () if !one.has_carrier => Likely::Soon,
                    () => Likely::Now,
                };
                chosen.push((likely, one.is_point_to_point, one.network));
                continue;
            }
        };
        rejected.push(Rejected { interface: one.name.clone(), ip, why });
    }
    let best = chosen.iter().map(|(likely, ..)| *likely).min();
    chosen.retain(|(likely, ..)| Some(*likely) == best);
    chosen.sort_by_key(|(_, is_point_to_point, _)| *is_point_to_point);
    let chosen: Vec<_> = chosen.into_iter().map(|(_, _, network)| network).collect();
    if chosen.is_empty() { Err(TcpError::NoInterface { rejected }) } else { Ok(chosen) }
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}

impl Found {
    /// `None` for what is no IP address.
    fn read(interface: InterfaceAddress) -> Option<Self> {
        let address = ip(interface.address.as_ref()?)?;
        let mask = interface.netmask.as_ref().and_then(ip);
        let prefix = mask.map_or(bits(address).1, |mask| bits(mask).0.leading_ones() as u8);
        Some(Self {
            name: interface.interface_name,
            network: InterfaceNetwork { ip: address, prefix },
            is_up: interface.flags.contains(InterfaceFlags::IFF_UP),
            has_carrier: interface.flags.contains(InterfaceFlags::IFF_RUNNING),
            is_point_to_point: interface.flags.contains(InterfaceFlags::IFF_POINTOPOINT),
        })
    }
}

/// The addresses that are chosen, with their networks.
///
/// # Errors
/// There is none, a list has what is neither a name nor a network, or the system does not tell.
pub(super) fn select(interfaces: &Interfaces) -> Result<Vec<InterfaceNetwork>, TcpError> {
    let all = getifaddrs().map_err(|errno| TcpError::System { call: "getifaddrs", errno })?;
    let found: Vec<_> = all.filter_map(Found::read).collect();
    choose(interfaces, &found)
}

/// Puts a peer's addresses in the order in which they are tried: in a network of this side (the
/// narrowest first), of a family that this side has, others; the loopback last, unless this side
/// has nothing else. Which of them leads to the peer is known when a handshake over it succeeds:
/// others may have the same address.
pub(super) fn order(own: &[InterfaceNetwork], addresses: &mut [SocketAddr]) {
    let all_loopback = own.iter().all(|network| network.ip.is_loopback());
    addresses.sort_by_key(|address| {
        let ip = match address.ip() {
            IpAddr::V6(ip) => Ipv6Addr::to_canonical(&ip),
            ip => ip,
        };
        let shared = own.iter().filter(|network| network.contains(ip)).map(|network| network.prefix).max();
        let is_known_family = own.iter().any(|network| Family::of(network.ip) == Family::of(ip));
        let class = match () {
            () if ip.is_loopback() && !all_loopback => 3,
            () if shared.is_some() => 0,
            () if is_known_family => 1,
            () => 2,
        };
        (class, Reverse(shared))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, network: &str, flags: &str) -> Found {
        Found {
            name: name.into(),
            network: InterfaceNetwork::parse(network).unwrap(),
            is_up: !flags.contains("down"),
            has_carrier: !flags.contains("cut"),
            is_point_to_point: flags.contains("tunnel"),
        }
    }

    fn machine() -> Vec<Found> {
        vec![
            found("lo", "127.0.0.1/8", ""),
            found("lo", "::1/128", ""),
            found("tun0", "10.8.0.2/24", "tunnel"),
            found("eth0", "192.168.5.7/24", ""),
            found("eth0", "2001:db8::7/64", ""),
            found("eth0", "fe80::7/64", ""),
            found("eth1", "169.254.3.3/16", ""),
            found("eth2", "172.20.0.1/16", "down"),
            found("docker0", "172.17.0.1/16", "cut"),
        ]
    }

    fn chosen(include: &[&str], exclude: &[&str], family: Option<Family>) -> Result<Vec<String>, TcpError> {
        let list = |entries: &[&str]| entries.iter().map(|&entry| entry.into()).collect();
        let interfaces = Interfaces { include: list(include), exclude: list(exclude), family };
        choose(&interfaces, &machine()).map(|chosen| chosen.iter().map(|one| one.ip.to_string()).collect())
    }

    #[test]
    fn lists_name_interfaces_addresses_and_networks() {
        let all = ["192.168.5.7", "2001:db8::7", "10.8.0.2"];
        assert_eq!(chosen(&[], &[], None).unwrap(), all);
        assert_eq!(chosen(&[], &[], Some(Family::V6)).unwrap(), ["2001:db8::7"]);
        assert_eq!(chosen(&["eth0"], &[], Some(Family::V4)).unwrap(), ["192.168.5.7"]);
        assert_eq!(chosen(&["10.0.0.0/8"], &[], None).unwrap(), ["10.8.0.2"]);
        assert_eq!(chosen(&[], &["tun0", "2001:db8::/32"], None).unwrap(), ["192.168.5.7"]);
        assert_eq!(chosen(&["192.168.5.7", "lo"], &["::1"], None).unwrap(), ["127.0.0.1", "192.168.5.7"]);
    }

    #[test]
    fn the_loopback_is_used_if_asked_for_or_alone() {
        assert_eq!(chosen(&["127.0.0.0/8"], &[], None).unwrap(), ["127.0.0.1"]);
        assert_eq!(chosen(&[], &["eth0", "tun0", "docker0"], None).unwrap(), ["127.0.0.1", "::1"]);
        assert_eq!(chosen(&[], &["eth0", "tun0"], Some(Family::V6)).unwrap(), ["::1"]);
    }

    /// The carrier of an interface that was just set up is reported late; a rank that starts
    /// meanwhile has to use it.
    #[test]
    fn without_a_carrier_an_address_is_better_than_the_loopback() {
        assert_eq!(chosen(&[], &["eth0", "tun0"], None).unwrap(), ["172.17.0.1"]);
        assert_eq!(chosen(&["docker0"], &[], None).unwrap(), ["172.17.0.1"]);
        assert_eq!(chosen(&["docker0", "eth0"], &[], Some(Family::V4)).unwrap(), ["192.168.5.7"]);
    }

    #[test]
    fn addresses_of_one_link_are_asked_for_or_none() {
        assert_eq!(chosen(&["eth1"], &[], None).unwrap(), ["169.254.3.3"]);
        assert!(chosen(&["fe80::/10"], &[], None).is_err());
    }

    #[test]
    fn if_none_is_left_each_is_named_with_the_reason() {
        let Err(TcpError::NoInterface { rejected }) = chosen(&["eth7"], &["lo"], Some(Family::V4)) else {
            panic!("something is left")
        };
        assert_eq!(rejected.len(), machine().len());
        let text = TcpError::NoInterface { rejected }.to_string();
        for part in [
            "lo 127.0.0.1 (excluded)",
            "lo ::1 (of the other family)",
            "eth0 192.168.5.7 (not included)",
            "eth2 172.20.0.1 (down)",
            "docker0 172.17.0.1 (not included)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let Err(TcpError::NoInterface { rejected }) = chosen(&["fe80::/10"], &[], None) else { panic!() };
        assert!(rejected.iter().any(|one| one.why == Rejection::LinkLocal && one.interface == "eth0"));
    }

    #[test]
    fn what_is_no_network_is_named() {
        for text in ["10.0.0.0/33", "fe80::/129", "10.0/8", "nonsense/8", "1:2", ""] {
            assert_eq!(chosen(&[text], &[], None), Err(TcpError::Network { text: text.into() }));
            assert_eq!(chosen(&[], &[text], None), Err(TcpError::Network { text: text.into() }));
        }
        assert!(InterfaceNetwork::parse("0.0.0.0/0").unwrap().contains([1, 2, 3, 4].into()));
        assert!(!InterfaceNetwork::parse("0.0.0.0/0").unwrap().contains("::1".parse().unwrap()));
    }

    #[test]
    fn neighbours_are_tried_first_and_the_loopback_last() {
        let own = ["192.168.5.7/24", "10.0.0.9/8"].map(|text| InterfaceNetwork::parse(text).unwrap());
        let sorted = |own: &[InterfaceNetwork], all: &[&str]| {
            let mut addresses: Vec<SocketAddr> = all.iter().map(|text| text.parse().unwrap()).collect();
            order(own, &mut addresses);
            addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>()
        };
        let all = ["127.0.0.1:1", "[2001:db8::1]:1", "8.8.8.8:1", "10.1.1.1:1", "192.168.5.8:1"];
        let best = ["192.168.5.8:1", "10.1.1.1:1", "8.8.8.8:1", "[2001:db8::1]:1", "127.0.0.1:1"];
        assert_eq!(sorted(&own, &all), best);
        let alone = [InterfaceNetwork::parse("127.0.0.1/8").unwrap()];
        assert_eq!(sorted(&alone, &all)[0], "127.0.0.1:1");
    }

    /// Whatever this machine has, its own loopback is there and can be asked for.
    #[test]
    fn the_machine_is_asked() {
        let interfaces = Interfaces { include: vec!["lo".into()], ..Interfaces::default() };
        assert!(select(&interfaces).unwrap().iter().all(|network| network.ip.is_loopback()));
        assert!(!select(&Interfaces::default()).unwrap().is_empty());
    }
}
