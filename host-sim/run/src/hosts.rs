//! The places where ranks run: lists of hosts, and which ranks each gets.

use core::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A place where ranks run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum HostPlace {
    /// This machine, by the launcher itself.
    Here,
    /// This machine once more: an agent, and so a node of its own.
    Apart(String),
    /// A network namespace of this machine.
    Namespace(String),
    /// Another machine, by ssh.
    Machine(String),
}

impl fmt::Display for HostPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("localhost"),
            Self::Apart(name) => write!(f, "local:{name}"),
            Self::Namespace(name) => write!(f, "netns:{name}"),
            Self::Machine(name) => f.write_str(name),
        }
    }
}

/// A place on a list, with the number of ranks that it is to take; `None` for as many as it must.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    place: HostPlace,
    slots: Option<u32>,
}

/// A place and its ranks, which follow each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The host that runs them.
    pub place: HostPlace,
    /// The first of them.
    pub first: u32,
    /// Their number.
    pub ranks: u32,
}

/// Hosts as `--host` takes them: `a,b:2,[::1]:4,netns:x`.
pub fn list(text: &str) -> Result<Vec<Listed>, String> {
    text.split(',').map(|word| listed(word.trim())).collect()
}

/// Hosts of a file: one a line, `a`, `b:2` or `b slots=2`; `#` begins a comment.
pub fn file(path: &Path) -> Result<Vec<Listed>, String> {
    let text =
        aldis_sys::file::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    lines(&text).map_err(|error| format!("{}{error}", path.display()))
}

/// Reads hosts from a file's text.
///
/// # Errors
/// The first line that is none of these, or that there is no host.
pub fn lines(text: &str) -> Result<Vec<Listed>, String> {
    let lines = (1..).zip(text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()));
    let hosts = lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| line_of_file(line).map_err(|error| format!(", line {number}: {error}")));
    let hosts: Vec<Listed> = hosts.collect::<Result<_, _>>()?;
    if hosts.is_empty() {
        return Err(": no host in it".into());
    }
    Ok(hosts)
}

fn line_of_file(line: &str) -> Result<Listed, String> {
    let mut words = line.split_whitespace();
    let mut host = listed(words.next().unwrap_or_default())?;
    for word in words {
        match word.split_once('=') {
            Some(("slots", count)) if host.slots.is_none() => host.slots = Some(slots(count)?),
            _ => return Err(format!("`{word}` where only slots=K has a place")),
        }
    }
    Ok(host)
}

/// Reads one host: a name, or an IPv6 address in brackets, and `:k` for its slots.
fn listed(word: &str) -> Result<Listed, String> {
    let (kind, rest) = match word.split_once(':') {
        Some((kind @ ("netns" | "local"), rest)) => (Some(kind), rest),
        _ => (None, word),
    };
    let (name, count) = match rest.split_once(']') {
        Some((address, count)) => {
            let (user, address) =
                address.split_once('[').ok_or_else(|| format!("`{word}`: `]` without `[`"))?;
            if address.parse::<core::net::Ipv6Addr>().is_err() && !is_scoped(address) {
                return Err(format!("`{word}`: `{address}` is no IPv6 address"));
            }
            let count = match count.strip_prefix(':') {
                None if count.is_empty() => None,
                None => {
                    return Err(format!(
                        "`{word}`: `{count}` after the address; slots are given as [{address}]:K"
                    ));
                }
                count => count,
            };
            (format!("{user}{address}"), count)
        }
        None => match rest.split_once(':') {
            Some((_, more)) if more.contains(':') => {
                return Err(format!("`{word}`: IPv6 addresses stand in brackets: [{rest}]"));
            }
            Some((name, count)) => (name.to_owned(), Some(count)),
            None => (rest.to_owned(), None),
        },
    };
    check(&name).map_err(|error| format!("`{word}`: {error}"))?;
    let slots = count.map(slots).transpose().map_err(|error| format!("`{word}`: {error}"))?;
    let place = match kind {
        Some("netns") => HostPlace::Namespace(name),
        Some(_) => HostPlace::Apart(name),
        None if name == "localhost" => HostPlace::Here,
        None => HostPlace::Machine(name),
    };
    Ok(Listed { place, slots })
}

/// Returns true if it is an address with a zone, as of a link: `fe80::1%eth0`.
fn is_scoped(address: &str) -> bool {
    address
        .split_once('%')
        .is_some_and(|(address, zone)| address.parse::<core::net::Ipv6Addr>().is_ok() && !zone.is_empty())
}

/// Names go to other programs' command lines: nothing in one may be taken for an option or for more
/// than a name.
fn check(name: &str) -> Result<(), String> {
    let plain = |letter: char| letter.is_alphanumeric() || "._-@%:+".contains(letter);
    if name.is_empty() {
        return Err("a host without a name".into());
    }
    if name.starts_with('-') || name.contains("@-") || !name.chars().all(plain) {
        return Err("not the name of a host".into());
    }
    Ok(())
}

fn slots(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("`{text}` is no number of slots; a:2 gives host a two ranks"))
}

/// Gives each place so many slots, or as many times that as it takes for all ranks.
pub fn with_slots(mut hosts: Vec<Listed>, each: u32, ranks: u32) -> Vec<Listed> {
    let all = each.saturating_mul(hosts.len() as u32).max(1);
    let slots = each.saturating_mul(ranks.div_ceil(all));
    hosts.iter_mut().for_each(|host| host.slots = Some(slots));
    hosts
}

/// The ranks that each place gets: in the order of the list, each as many as it has slots (one if
/// none are given); what is left then is spread evenly over those without a number. A place that is
/// listed twice is one place.
pub fn share_out(ranks: u32, hosts: &[Listed]) -> Result<Vec<Share>, String> {
    let mut left = ranks;
    let mut counts: Vec<u32> = Vec::new();
    for host in hosts {
        let count = host.slots.unwrap_or(1).min(left);
        counts.push(count);
        left -= count;
    }
    let elastic = hosts.iter().filter(|host| host.slots.is_none()).count() as u32;
    if left > 0 && elastic == 0 {
        let slots = ranks - left;
        return Err(format!(
            "the hosts have {slots} slots for {ranks} ranks; raise a host's number, or leave it out for as many as it takes"
        ));
    }
    let mut turn = 0;
    for (host, count) in hosts.iter().zip(&mut counts).filter(|_| left > 0) {
        if host.slots.is_none() {
            *count += left / elastic + u32::from(turn < left % elastic);
            turn += 1;
        }
    }
    let mut shares: Vec<Share> = Vec::new();
    for (host, count) in hosts.iter().zip(counts).filter(|(_, count)| *count > 0) {
        match shares.iter_mut().find(|share| share.place == host.place) {
            Some(share) => share.ranks += count,
            None => shares.push(Share { place: host.place.clone(), first: 0, ranks: count }),
        }
    }
    let mut first = 0;
    for share in &mut shares {
        share.first = first;
        first += share.ranks;
    }
    Ok(shares)
}

/// Splits a command line into words as a shell does, quotes and backslashes included and nothing
/// else.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, ' ' | '\t' | '\n') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(open), letter) if letter == open => quote = None,
            (None | Some('"'), '\\') => {
                let next = letters.next().ok_or("a backslash at the end")?;
                word.get_or_insert_default().push(next);
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err("a quote that is not closed".into());
    }
    words.extend(word);
    Ok(words)
}

/// A word as a shell reads it back, whatever is in it.
pub fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=:,@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    fn shares(ranks: u32, text: &str) -> Vec<(String, u32, u32)> {
        let shares = share_out(ranks, &list(text).unwrap()).unwrap();
        shares.into_iter().map(|share| (share.place.to_string(), share.first, share.ranks)).collect()
    }

    fn expect(ranks: u32, text: &str, expected: &[(&str, u32, u32)]) {
        let expected: Vec<_> =
            expected.iter().map(|(name, first, ranks)| ((*name).to_owned(), *first, *ranks)).collect();
        assert_eq!(shares(ranks, text), expected, "{ranks} ranks on {text}");
    }

    #[test]
    fn ranks_are_shared_out_in_the_order_of_the_list() {
        expect(4, "a,b", &[("a", 0, 2), ("b", 2, 2)]);
        expect(5, "a,b", &[("a", 0, 3), ("b", 3, 2)]);
        expect(4, "a:1,b", &[("a", 0, 1), ("b", 1, 3)]);
        expect(4, "a,b:2", &[("a", 0, 2), ("b", 2, 2)]);
        expect(2, "a,b:2", &[("a", 0, 1), ("b", 1, 1)]);
        expect(6, "a:4,b:4", &[("a", 0, 4), ("b", 4, 2)]);
        expect(2, "a,b,c", &[("a", 0, 1), ("b", 1, 1)]);
        expect(3, "a,b,a", &[("a", 0, 2), ("b", 2, 1)]);
        expect(7, "a,[::1]:2,netns:x", &[("a", 0, 3), ("::1", 3, 2), ("netns:x", 5, 2)]);
        let refused = share_out(4, &list("a:1,b:2").unwrap()).unwrap_err();
        assert!(refused.contains("3 slots for 4 ranks"), "{refused}");
    }

    proptest! {
        #[test]
        fn every_rank_has_one_place(ranks in 1_u32..65, slots in proptest::collection::vec(0_u32..6, 1..8)) {
            let listed = slots.iter().zip(["a", "b", "c", "a", "d", "e", "b", "f"]).map(|(slots, name)| {
                Listed { place: HostPlace::Machine(name.into()), slots: (*slots > 0).then_some(*slots) }
            });
            let listed: Vec<Listed> = listed.collect();
            let room: u32 = slots.iter().sum();
            match share_out(ranks, &listed) {
                Ok(shares) => {
                    let mut next = 0;
                    for share in shares {
                        prop_assert_eq!(share.first, next);
                        next += share.ranks;
                    }
                    prop_assert_eq!(next, ranks);
                }
                Err(_) => prop_assert_eq!((room < ranks, slots.contains(&0)), (true, false)),
            }
        }

        #[test]
        fn quoted_words_are_read_back(given in proptest::collection::vec("\\PC{0,12}", 0..5)) {
            let line: Vec<String> = given.iter().map(|word| quoted(word)).collect();
            prop_assert_eq!(words(&line.join(" ")), Ok(given));
        }
    }

    #[test]
    fn hosts_are_read_as_they_are_written() {
        let place = |text: &str| list(text).unwrap().remove(0);
        let machine = |name: &str, slots| Listed { place: HostPlace::Machine(name.into()), slots };
        assert_eq!(place("me@node-1.example:3"), machine("me@node-1.example", Some(3)));
        assert_eq!(place("[fe80::1%eth0]:2"), machine("fe80::1%eth0", Some(2)));
        assert_eq!(place("root@[::1]"), machine("root@::1", None));
        assert_eq!(place("localhost:2"), Listed { place: HostPlace::Here, slots: Some(2) });
        assert_eq!(place("local:b:2"), Listed { place: HostPlace::Apart("b".into()), slots: Some(2) });
    }

    #[test]
    fn what_is_no_host_is_told() {
        for (text, answer) in [
            ("a,,b", "without a name"),
            ("a:0", "`0` is no number of slots"),
            ("a:b", "`b` is no number of slots"),
            ("::1", "IPv6 addresses stand in brackets: [::1]"),
            ("[::g]", "`::g` is no IPv6 address"),
            ("[::1]2", "slots are given as [::1]:K"),
            ("::1]", "`]` without `[`"),
            ("-oProxyCommand=x", "not the name of a host"),
            ("me@-x", "not the name of a host"),
            ("a b", "not the name of a host"),
            ("netns:", "without a name"),
        ] {
            let error = list(text).unwrap_err();
            assert!(error.contains(answer), "{text}: {error}");
        }
    }

    #[test]
    fn command_lines_have_words() {
        assert_eq!(
            words(r#"ssh -p 2222 -i 'a key' "b \" c" d\ e"#).unwrap(),
            ["ssh", "-p", "2222", "-i", "a key", "b \" c", "d e"]
        );
        assert_eq!(words("  ").unwrap(), Vec::<String>::new());
        assert!(words("'open").unwrap_err().contains("not closed"));
    }
}
