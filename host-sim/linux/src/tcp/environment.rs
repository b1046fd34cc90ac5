//! A job's choices as the words of its environment, for ranks that no launcher tells them.

use core::ops::RangeInclusive;

use super::config::{CONNECTIONS_MIN, LINKS_MAX, TcpConfig};
use super::interfaces::{Family, Interfaces};
use super::tls::Files;

/// A variable that has a value which it cannot have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsound {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// The fault in it, and what would be right.
    pub why: String,
}

impl TcpConfig {
    /// Reads the variables that stand for options of `aldis-run`: docs/environment.md.
    ///
    /// # Errors
    /// The first that makes no sense.
    pub fn from_environment() -> Result<Self, Unsound> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(get: impl Fn(&'static str) -> Option<String>) -> Result<Self, Unsound> {
        let list = |name| {
            let value = get(name).unwrap_or_default();
            value.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        let interfaces = Interfaces {
            include: list("ALDIS_TCP_INCLUDE"),
            exclude: list("ALDIS_TCP_EXCLUDE"),
            family: read(&get, "ALDIS_TCP_FAMILY", family)?,
        };
        let buffers = read(&get, "ALDIS_TCP_BUFFERS", bytes)?;
        let standard = Self::default();
        Ok(Self {
            interfaces,
            ports: read(&get, "ALDIS_TCP_PORTS", ports)?.unwrap_or(standard.ports),
            links: read(&get, "ALDIS_TCP_LINKS", links)?.unwrap_or(standard.links),
            connections: read(&get, "ALDIS_TCP_CONNECTIONS", connections)?,
            send_buffer: buffers,
            receive_buffer: buffers,
            tls: files(&get)?,
            ..standard
        })
    }
}

fn read<T>(
    get: impl Fn(&'static str) -> Option<String>,
    name: &'static str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Unsound> {
    let Some(value) = get(name) else { return Ok(None) };
    parse(&value).map(Some).map_err(|why| Unsound { name, value, why })
}

/// The files of TLS: all three or none.
fn files(get: impl Fn(&'static str) -> Option<String>) -> Result<Option<Files>, Unsound> {
    let all = ["ALDIS_TLS_CERT", "ALDIS_TLS_KEY", "ALDIS_TLS_CA"].map(|name| (name, get(name)));
    if all.iter().all(|(_, value)| value.is_none()) {
        return Ok(None);
    }
    if let Some((name, _)) = all.iter().find(|(_, value)| value.is_none()) {
        let why = "TLS takes ALDIS_TLS_CERT, ALDIS_TLS_KEY and ALDIS_TLS_CA together".into();
        return Err(Unsound { name, value: String::new(), why });
    }
    let [certificate, key, authority] = all.map(|(_, value)| value.unwrap_or_default());
    let files = Files::new(certificate, key, authority);
    Ok(Some(Files { name: get("ALDIS_TLS_NAME").unwrap_or(files.name), ..files }))
}

/// `4` or `6`.
fn family(text: &str) -> Result<Family, String> {
    match text {
        "4" => Ok(Family::V4),
        "6" => Ok(Family::V6),
        _ => Err("a family of addresses is 4 or 6".into()),
    }
}

/// `FIRST-LAST`, or one port.
///
/// # Errors
/// The values that would be right.
pub fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || format!("`{text}` is no range of ports from 1 to 65535, such as 40000-40999");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong);
    let (first, last) = (number(first)?, number(last)?);
    if first <= last { Ok(first..=last) } else { Err(wrong()) }
}

/// A number of connections between two ranks.
///
/// # Errors
/// The values that would be right.
pub fn links(text: &str) -> Result<u8, String> {
    let count = text.parse().ok().filter(|count| (1..=LINKS_MAX).contains(count));
    count.ok_or_else(|| format!("not a number of connections from 1 to {LINKS_MAX}"))
}

/// A number of connections that a rank may have at a time.
///
/// # Errors
/// The values that would be right.
pub fn connections(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| *count >= CONNECTIONS_MIN);
    count.ok_or_else(|| format!("not a number of connections from {CONNECTIONS_MIN}"))
}

/// A number of bytes that the system may hold for a socket, such as `256K` or `4M`.
///
/// # Errors
/// The values that would be right.
pub fn bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = match text.strip_suffix(['K', 'k', 'M', 'm']) {
        Some(number) if text.ends_with(['K', 'k']) => (number, 1 << 10),
        Some(number) => (number, 1 << 20),
        None => (text, 1),
    };
    let bytes = number.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    let bytes = bytes.filter(|bytes| (4096..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| "not a number of bytes from 4K to 1024M".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<TcpConfig, Unsound> {
        let pairs: Vec<_> = words.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        TcpConfig::from_variables(|name| {
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn variables_become_a_configuration() {
        assert_eq!(read(""), Ok(TcpConfig::default()));
        let words = "ALDIS_TCP_INCLUDE=eth0,10.1.0.0/16 ALDIS_TCP_EXCLUDE=lo ALDIS_TCP_FAMILY=6 ALDIS_TCP_PORTS=4000-4009 \
                     ALDIS_TCP_LINKS=4 ALDIS_TCP_BUFFERS=2M ALDIS_TLS_CERT=c ALDIS_TLS_KEY=k ALDIS_TLS_CA=a ALDIS_TLS_NAME=job";
        let config = read(words).unwrap();
        assert_eq!(config.interfaces.include, ["eth0", "10.1.0.0/16"]);
        assert_eq!(config.interfaces.exclude, ["lo"]);
        assert_eq!((config.interfaces.family, config.links), (Some(Family::V6), 4));
        assert_eq!(
            (config.ports, config.send_buffer, config.receive_buffer),
            (4000..=4009, Some(2 << 20), Some(2 << 20))
        );
        assert_eq!(config.tls, Some(Files { name: "job".into(), ..Files::new("c", "k", "a") }));
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (words, name, answer) in [
            ("ALDIS_TCP_FAMILY=5", "ALDIS_TCP_FAMILY", "4 or 6"),
            ("ALDIS_TCP_PORTS=9-8", "ALDIS_TCP_PORTS", "such as 40000-40999"),
            ("ALDIS_TCP_CONNECTIONS=2", "ALDIS_TCP_CONNECTIONS", "connections from 3"),
            ("ALDIS_TCP_LINKS=17", "ALDIS_TCP_LINKS", "from 1 to 16"),
            ("ALDIS_TCP_BUFFERS=1K", "ALDIS_TCP_BUFFERS", "from 4K to 1024M"),
            ("ALDIS_TLS_CERT=c ALDIS_TLS_CA=a", "ALDIS_TLS_KEY", "together"),
        ] {
            let unsound = read(words).unwrap_err();
            assert_eq!(unsound.name, name);
            assert!(unsound.why.contains(answer), "{words}: {unsound:?}");
        }
    }
}
