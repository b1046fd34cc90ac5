//! The choice of the device, port and address to use.

use core::net::{IpAddr, Ipv6Addr};
use core::num::NonZeroU32;

use aldis_hal::Cost;

use super::error::VerbsError;
use crate::cma::parse_cost;
use crate::error::JoinError;

/// The variable that says which device, port and address a rank uses: see [`VerbsConfig::parse`].
pub const VARIABLE: &str = "ALDIS_VERBS";

/// A version of RoCE: how RDMA is framed on Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoceVersion {
    /// Ethernet frames of a type of its own, which no router passes on.
    V1,
    /// UDP over IPv4 or IPv6.
    V2,
}

/// The side that makes connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Manager {
    /// The ranks themselves, out of band: by datagrams to the queue pair that each rank's card
    /// tells.
    #[default]
    OutOfBand,
    /// The system's connection manager, rdma_cm, by addresses of the Internet Protocol.
    Rdma,
}

/// The way in which messages travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Over connections (RC), which are made when they are needed: fastest, with 600 KiB of locked
    /// memory for each.
    Connected(Manager),
    /// By datagrams (UD) that are acknowledged and repeated: one queue pair for all peers, however
    /// many.
    Datagrams,
}

impl Default for Mode {
    fn default() -> Self {
        Self::Connected(Manager::default())
    }
}

/// The choices that the user makes. Whatever is `None` is chosen: the first active port that fits,
/// RoCE v2 before v1, IPv4 before IPv6, and addresses of links last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VerbsConfig {
    /// A device's name.
    pub device: Option<String>,
    /// The number of a port, from 1.
    pub port: Option<u8>,
    /// An index in the port's table of addresses.
    pub gid_index: Option<u32>,
    /// A version of RoCE.
    pub version: Option<RoceVersion>,
    /// The largest packet, bytes: 256, 512, 1024, 2048 or 4096; no larger than the port's.
    pub mtu: Option<u16>,
    /// The way in which messages travel.
    pub mode: Mode,
    /// The time, in seconds, for which a peer that is computing may owe an answer which only its
    /// polls give; an hour, unless it is chosen. It is taken for dead then.
    pub patience_s: Option<NonZeroU32>,
    /// The cost of a read of a peer's memory, registration with it: it decides from which size on
    /// long messages are read.
    pub read_cost: Option<Cost>,
    /// The cost of a write into a peer's memory until that can be seen there. Long messages are
    /// written where that is cheaper than reading.
    pub write_cost: Option<Cost>,
}

impl VerbsConfig {
    /// Reads [`VARIABLE`]; everything is chosen without it.
    ///
    /// # Errors
    /// [`JoinError::Variable`] for what cannot be read.
    pub fn from_environment() -> Result<Self, JoinError> {
        let Ok(value) = std::env::var(VARIABLE) else { return Ok(Self::default()) };
        Self::parse(&value).ok_or(JoinError::Variable { name: VARIABLE, value })
    }

    /// Reads a line of these words, each of which can be left out. Datagrams have no manager.
    ///
    /// ```text
    /// DEVICE,port=N,gid=INDEX,version=1|2,mtu=BYTES,mode=rc|ud,manager=oob|rdma_cm,
    /// patience=SECONDS,read=LATENCY:PER_KIB,write=LATENCY:PER_KIB
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (mut config, mut manager) = (Self::default(), None);
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                None => config.device = Some(word.into()),
                Some(("port", value)) => config.port = Some(value.parse().ok()?),
                Some(("gid", value)) => config.gid_index = Some(value.parse().ok()?),
                Some(("mtu", value)) => config.mtu = Some(value.parse().ok()?),
                Some(("read", value)) => config.read_cost = Some(parse_cost(value)?),
                Some(("write", value)) => config.write_cost = Some(parse_cost(value)?),
                Some(("patience", value)) => config.patience_s = Some(value.parse().ok()?),
                Some(("mode", "rc")) => config.mode = Mode::default(),
                Some(("mode", "ud")) => config.mode = Mode::Datagrams,
                Some(("manager", "oob")) => manager = Some(Manager::OutOfBand),
                Some(("manager", "rdma_cm")) => manager = Some(Manager::Rdma),
                Some(("version", "1")) => config.version = Some(RoceVersion::V1),
                Some(("version", "2")) => config.version = Some(RoceVersion::V2),
                Some(_) => return None,
            }
        }
        match (&mut config.mode, manager) {
            (Mode::Connected(by), Some(manager)) => *by = manager,
            (Mode::Datagrams, Some(_)) => return None,
            (_, None) => {}
        }
        Some(config)
    }
}

/// The protocol that an address is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NetworkKind {
    Infiniband,
    Roce(RoceVersion),
}

/// An address of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Gid {
    pub(super) index: u32,
    pub(super) raw: [u8; 16],
    pub(super) kind: NetworkKind,
}

impl Gid {
    /// The address of the Internet Protocol that it is, if that can be reached from elsewhere.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        (self.kind == NetworkKind::Roce(RoceVersion::V2)).then(|| ip(self.raw)).flatten()
    }
}

/// The address in a GID, unless it is one of a link.
pub(super) fn ip(raw: [u8; 16]) -> Option<IpAddr> {
    let is_of_link = raw.starts_with(&[0xFE, 0x80]);
    (!is_of_link).then(|| Ipv6Addr::from(raw).to_canonical())
}

/// A port as the device describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DevicePort {
    pub(super) number: u8,
    pub(super) is_active: bool,
    /// Bytes of the largest packet that goes now.
    pub(super) mtu: u16,
    pub(super) lid: u16,
    pub(super) gids: Vec<Gid>,
}

/// A device as it describes itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Description {
    pub(super) name: String,
    pub(super) ports: Vec<DevicePort>,
}

/// The choice that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct VerbsChoice {
    /// The place in the list of devices.
    pub(super) device: usize,
    pub(super) port: u8,
    pub(super) gid: Gid,
    pub(super) mtu: u16,
    pub(super) lid: u16,
}

/// The mark of an IPv4 address within one of 16 bytes.
const IPV4: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF];
/// Packets that there are.
const MTUS: [u16; 5] = [256, 512, 1024, 2048, 4096];

/// The first port of the first device that fits.
pub(super) fn choose(devices: &[Description], config: &VerbsConfig) -> Result<VerbsChoice, VerbsError> {
    if devices.is_empty() {
        return Err(VerbsError::NoDevice);
    }
    let mut rejected = Vec::new();
    for (device, description) in devices.iter().enumerate() {
        let name = &description.name;
        if config.device.as_ref().is_some_and(|wanted| wanted != name) {
            rejected.push(format!("{name} was not asked for"));
            continue;
        }
        for port in &description.ports {
            match fit(port, config) {
                Ok((gid, mtu)) => {
                    return Ok(VerbsChoice {
                        device,
                        port: port.number,
                        gid: gid.clone(),
                        mtu,
                        lid: port.lid,
                    });
                }
                Err(why) => rejected.push(format!("{name} port {} {why}", port.number)),
            }
        }
    }
    Err(VerbsError::NoFit { rejected })
}

/// The address and the packet size to use at a port, or why it is none.
fn fit<'a>(port: &'a DevicePort, config: &VerbsConfig) -> Result<(&'a Gid, u16), String> {
    if config.port.is_some_and(|wanted| wanted != port.number) {
        return Err("was not asked for".into());
    }
    if !port.is_active {
        return Err("is not active".into());
    }
    let mtu = match config.mtu {
        Some(mtu) if !MTUS.contains(&mtu) => {
            return Err(format!("has packets of 256 to 4096 bytes by powers of two, not of {mtu}"));
        }
        Some(mtu) if mtu > port.mtu => {
            return Err(format!("has packets of {} bytes at most, not of {mtu}", port.mtu));
        }
        mtu => mtu.unwrap_or(port.mtu),
    };
    let fits = |gid: &&Gid| {
        config.gid_index.is_none_or(|index| index == gid.index)
            && config.version.is_none_or(|version| gid.kind == NetworkKind::Roce(version))
            && (config.mode != Mode::Connected(Manager::Rdma) || gid.ip().is_some())
    };
    let gid = port.gids.iter().filter(fits).min_by_key(|gid| rank(gid));
    gid.map(|gid| (gid, mtu)).ok_or_else(|| {
        let there: Vec<String> =
            port.gids.iter().map(|gid| format!("{} ({:?})", gid.index, gid.kind)).collect();
        let wanted = match config.mode {
            Mode::Connected(Manager::Rdma) => " (rdma_cm needs one of RoCE v2 that is no link's)",
            _ => "",
        };
        format!("has no such address{wanted}; there are GID indices {}", there.join(", "))
    })
}

/// The rank of an address among several: the lower is the better.
fn rank(gid: &Gid) -> (u8, u8, u32) {
    let version = match gid.kind {
        NetworkKind::Infiniband | NetworkKind::Roce(RoceVersion::V2) => 0,
        NetworkKind::Roce(RoceVersion::V1) => 1,
    };
    let is_of_link = gid.raw.starts_with(&[0xFE, 0x80]) && gid.kind != NetworkKind::Infiniband;
    let form = match () {
        () if gid.raw.starts_with(&IPV4) => 0,
        () if is_of_link => 2,
        () => 1,
    };
    (version, form, gid.index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(index: u32, first: &[u8], version: RoceVersion) -> Gid {
        let mut raw = [0; 16];
        raw[..first.len()].copy_from_slice(first);
        Gid { index, raw, kind: NetworkKind::Roce(version) }
    }

    fn devices() -> Vec<Description> {
        let gids = vec![
            gid(0, &[0xFE, 0x80], RoceVersion::V1),
            gid(1, &[0xFE, 0x80], RoceVersion::V2),
            gid(2, &IPV4, RoceVersion::V1),
            gid(3, &IPV4, RoceVersion::V2),
        ];
        let port =
            |number, is_active| DevicePort { number, is_active, mtu: 1024, lid: 0, gids: gids.clone() };
        let device = |name: &str, ports| Description { name: name.into(), ports };
        vec![device("down0", vec![port(1, false)]), device("mlx5_0", vec![port(1, false), port(2, true)])]
    }

    #[test]
    fn the_first_active_port_and_the_best_address_are_taken() {
        let choice = choose(&devices(), &VerbsConfig::default()).unwrap();
        assert_eq!((choice.device, choice.port, choice.gid.index, choice.mtu), (1, 2, 3, 1024));
        let choice =
            choose(&devices(), &VerbsConfig { version: Some(RoceVersion::V1), ..VerbsConfig::default() })
                .unwrap();
        assert_eq!(choice.gid.index, 2);
        let choice =
            choose(&devices(), &VerbsConfig { gid_index: Some(1), mtu: Some(512), ..VerbsConfig::default() })
                .unwrap();
        assert_eq!((choice.gid.index, choice.mtu), (1, 512));
    }

    #[test]
    fn a_text_says_all_of_it() {
        let all = VerbsConfig {
            device: Some("mlx5_0".into()),
            port: Some(2),
            gid_index: Some(3),
            version: Some(RoceVersion::V2),
            mtu: Some(4096),
            mode: Mode::Datagrams,
            patience_s: NonZeroU32::new(9),
            read_cost: Some(Cost { overhead_ns: 0, latency_ns: 900, per_kib_ns: 80 }),
            write_cost: Some(Cost { overhead_ns: 0, latency_ns: 700, per_kib_ns: 60 }),
        };
        assert_eq!(
            VerbsConfig::parse(
                "mlx5_0,port=2,gid=3,version=2,mtu=4096,mode=ud,patience=9,read=900:80,write=700:60"
            ),
            Some(all)
        );
        assert_eq!(VerbsConfig::parse(""), Some(VerbsConfig::default()));
        let managed = VerbsConfig { mode: Mode::Connected(Manager::Rdma), ..VerbsConfig::default() };
        assert_eq!(VerbsConfig::parse("manager=rdma_cm"), Some(managed.clone()));
        assert_eq!(VerbsConfig::parse("manager=rdma_cm,mode=rc"), Some(managed));
        for wrong in [
            "port=x",
            "rxe0,speed=1",
            "version=3",
            "mode=rd",
            "patience=0",
            "read=9",
            "write=9",
            "manager=x",
            "manager=oob,mode=ud",
        ] {
            assert_eq!(VerbsConfig::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_reason() {
        for (config, told) in [
            (
                VerbsConfig { device: Some("rxe0".into()), ..VerbsConfig::default() },
                "mlx5_0 was not asked for",
            ),
            (
                VerbsConfig { port: Some(1), ..VerbsConfig::default() },
                "mlx5_0 port 1 is not active; mlx5_0 port 2 was not asked for",
            ),
            (
                VerbsConfig { mtu: Some(4096), ..VerbsConfig::default() },
                "packets of 1024 bytes at most, not of 4096",
            ),
            (VerbsConfig { mtu: Some(1000), ..VerbsConfig::default() }, "not of 1000"),
            (
                VerbsConfig { gid_index: Some(9), ..VerbsConfig::default() },
                "no such address; there are GID indices 0 (Roce(V1)), 1",
            ),
            (
                VerbsConfig {
                    gid_index: Some(1),
                    mode: Mode::Connected(Manager::Rdma),
                    ..VerbsConfig::default()
                },
                "no such address (rdma_cm needs one of RoCE v2 that is no link's); there are",
            ),
        ] {
            let error = choose(&devices(), &config).unwrap_err().to_string();
            assert!(error.starts_with("no RDMA device fits: down0") && error.contains(told), "{error}");
        }
        let error = choose(&[], &VerbsConfig::default()).unwrap_err();
        assert!(error.to_string().starts_with("no RDMA device found"), "{error}");
    }
}
