//! The options that the user types about TCP.

use core::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use aldis_linux::tcp::environment::{bytes, connections, links, ports};
use aldis_linux::tcp::tls::Files;
use aldis_linux::tcp::{Family, Interfaces, TcpConfig};

/// The options of ranks that are reached over TCP.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "TCP, between hosts or with --transport tcp")]
pub struct TcpOptions {
    /// Use only these interfaces: names, addresses or networks such as 10.1.0.0/16
    #[arg(long = "tcp-include", value_name = "NAME,...", value_delimiter = ',', env = "ALDIS_TCP_INCLUDE")]
    include: Vec<String>,

    /// Never use these interfaces
    #[arg(long = "tcp-exclude", value_name = "NAME,...", value_delimiter = ',', env = "ALDIS_TCP_EXCLUDE")]
    exclude: Vec<String>,

    /// Use only addresses of this family
    #[arg(long = "tcp-family", value_enum, env = "ALDIS_TCP_FAMILY")]
    family: Option<FamilyName>,

    /// Ports to listen on, as a firewall may want it: one a rank of a host is taken
    #[arg(long = "tcp-ports", value_name = "FIRST-LAST", value_parser = ports, env = "ALDIS_TCP_PORTS")]
    ports: Option<RangeInclusive<u16>>,

    /// Connections between two ranks: long messages are dealt out to them
    #[arg(long = "tcp-links", value_name = "COUNT", value_parser = links, default_value = "1", env = "ALDIS_TCP_LINKS")]
    links: u8,

    /// Connections that a rank may have at a time, from 3: beyond them the idle are closed until
    /// they are needed again. If not given, as many as `ulimit -n` has room for
    #[arg(long = "tcp-connections", value_name = "COUNT", value_parser = connections, env = "ALDIS_TCP_CONNECTIONS")]
    connections: Option<u32>,

    /// Bytes that the system may hold for a socket in each direction, such as 256K or 4M; it adapts
    /// that by itself if not given
    #[arg(long = "tcp-buffers", value_name = "BYTES", value_parser = bytes, env = "ALDIS_TCP_BUFFERS")]
    buffers: Option<usize>,

    /// Encrypt by TLS 1.3: this side's certificate, a file in PEM, and on every host under the same
    /// path
    #[arg(long = "tls-cert", value_name = "FILE", requires_all = ["tls_key", "tls_ca"], env = "ALDIS_TLS_CERT")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key
    #[arg(long = "tls-key", value_name = "FILE", requires = "tls_cert", env = "ALDIS_TLS_KEY")]
    tls_key: Option<PathBuf>,

    /// The certificates of the authorities that issue those of the ranks: no other process takes
    /// part
    #[arg(long = "tls-ca", value_name = "FILE", requires = "tls_cert", env = "ALDIS_TLS_CA")]
    tls_ca: Option<PathBuf>,

    /// The name that every rank's certificate is made out for
    #[arg(long = "tls-name", value_name = "NAME", requires = "tls_cert", env = "ALDIS_TLS_NAME")]
    tls_name: Option<String>,
}

/// A family of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum FamilyName {
    /// IPv4
    #[value(name = "4")]
    V4,
    /// IPv6
    #[value(name = "6")]
    V6,
}

impl TcpOptions {
    /// The ranks' configuration.
    pub fn config(&self) -> TcpConfig {
        let family = self.family.map(|family| match family {
            FamilyName::V4 => Family::V4,
            FamilyName::V6 => Family::V6,
        });
        let standard = TcpConfig::default();
        let files = (&self.tls_cert, &self.tls_key, &self.tls_ca);
        let tls = if let (Some(certificate), Some(key), Some(authority)) = files {
            let files = Files::new(certificate, key, authority);
            Some(Files { name: self.tls_name.clone().unwrap_or(files.name), ..files })
        } else {
            None
        };
        TcpConfig {
            interfaces: Interfaces { include: self.include.clone(), exclude: self.exclude.clone(), family },
            ports: self.ports.clone().unwrap_or(standard.ports),
            links: self.links,
            connections: self.connections,
            send_buffer: self.buffers,
            receive_buffer: self.buffers,
            tls,
            ..standard
        }
    }

    /// The reason why this can be the configuration of no host with so many ranks, if it cannot.
    pub fn contradiction(&self, ranks: u32) -> Option<String> {
        if let Some(both) = self.include.iter().find(|name| self.exclude.contains(name)) {
            return Some(format!("--tcp-include and --tcp-exclude both name {both}"));
        }
        let ports = self.ports.as_ref().map(|ports| u32::from(ports.end() - ports.start()) + 1)?;
        (ports < ranks).then(|| {
            format!("--tcp-ports gives {ports} ports, and a host has {ranks} ranks, each of which needs one")
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct ParsedLine {
        #[command(flatten)]
        tcp: TcpOptions,
    }

    fn parse(line: &str) -> Result<TcpOptions, String> {
        let words = core::iter::once("aldis-run").chain(line.split_whitespace());
        ParsedLine::try_parse_from(words).map(|line| line.tcp).map_err(|error| error.to_string())
    }

    #[test]
    fn options_become_a_configuration() {
        let options = "--tcp-include eth0,ib0 --tcp-exclude docker0 --tcp-family 6 --tcp-ports 4000-4009 --tcp-links 4 \
                       --tcp-buffers 2M --tcp-connections 90";
        let config = parse(options).unwrap().config();
        assert_eq!(config.interfaces.include, ["eth0", "ib0"]);
        assert_eq!(config.interfaces.exclude, ["docker0"]);
        assert_eq!(config.interfaces.family, Some(Family::V6));
        assert_eq!((config.ports, config.links, config.connections), (4000..=4009, 4, Some(90)));
        assert_eq!((config.send_buffer, config.receive_buffer), (Some(2 << 20), Some(2 << 20)));
        assert_eq!(parse("").unwrap().config(), TcpConfig::default());
        let tls =
            parse("--tls-cert c.pem --tls-key k.pem --tls-ca a.pem --tls-name job").unwrap().config().tls;
        assert_eq!(tls, Some(Files { name: "job".into(), ..Files::new("c.pem", "k.pem", "a.pem") }));
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (line, answer) in [
            ("--tcp-ports 0-9", "`0-9` is no range of ports"),
            ("--tcp-ports 9-8", "such as 40000-40999"),
            ("--tcp-links 0", "from 1 to 16"),
            ("--tcp-links 17", "from 1 to 16"),
            ("--tcp-connections 2", "connections from 3"),
            ("--tcp-buffers 1K", "from 4K to 1024M"),
            ("--tcp-buffers 99999999999M", "from 4K to 1024M"),
            ("--tcp-family 5", "possible values: 4, 6"),
            ("--tls-cert c.pem", "required arguments were not provided"),
            ("--tls-ca a.pem", "--tls-cert"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(answer), "{line}: {error}");
        }
        let contradiction = |line: &str, ranks| parse(line).unwrap().contradiction(ranks);
        assert_eq!(contradiction("--tcp-ports 7000-7003", 4), None);
        assert!(
            contradiction("--tcp-ports 7000-7002", 4).unwrap().contains("3 ports, and a host has 4 ranks")
        );
        assert!(contradiction("--tcp-include a,b --tcp-exclude b", 1).unwrap().contains("both name b"));
    }
}
