//! Input of the launcher: its command line, lists and files of hosts, sizes and seconds of its
//! environment.

use std::ffi::OsString;

use aldis_linux::arena::parse_bytes;
use aldis_linux::job::parse_seconds;
use aldis_linux::tcp::environment::{bytes, links, ports};
use aldis_linux::transport::TransportChoice;
use aldis_run::hosts::{self, Listed, quoted, share_out, words};
use aldis_run::options::Options;
use aldis_run::programs::{self, ProgramPart};
use clap::Parser;

/// Ranks of a job at most.
const RANKS_MAX: u32 = 64;

pub(crate) fn launcher(given: &[u8]) {
    let text = String::from_utf8_lossy(given);
    values(&text);
    for listed in [hosts::list(&text), hosts::lines(&text)].into_iter().flatten() {
        shares(&listed);
    }
    if let Ok(words) = words(&text) {
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        assert_eq!(hosts::words(&line.join(" ")), Ok(words.clone()), "words are read back");
        // No file is read but those of this folder, whose names no input guesses.
        command(words.iter().map(|word| word.replace(['/', '.'], "_").into()));
    }
}

/// The values of variables and options.
fn values(text: &str) {
    let _ = (parse_bytes(text), bytes(text), TransportChoice::parse(text));
    if let Ok(count) = links(text) {
        assert!(count > 0, "connections without any");
    }
    if let Ok(range) = ports(text) {
        assert!(range.start() <= range.end(), "ports without any");
    }
    if let Some(seconds) = parse_seconds(text) {
        assert!(!seconds.is_zero(), "no time at all");
    }
}

/// Ranks are shared out among hosts, each to one.
fn shares(listed: &[Listed]) {
    for ranks in [1, 7, RANKS_MAX, u32::MAX] {
        let Ok(shares) = share_out(ranks, listed) else { continue };
        let mut next = 0;
        for share in &shares {
            assert_eq!(share.first, next, "ranks of a host follow those of the one before");
            next += share.ranks;
        }
        assert_eq!(next, ranks, "every rank has a host");
    }
}

/// A command line of one or several programs.
fn command(words: impl Iterator<Item = OsString>) {
    let mut parts = programs::split(core::iter::once("aldis-run".into()).chain(words)).into_iter();
    let Ok(mut options) = Options::try_parse_from(parts.next().unwrap_or_default()) else { return };
    let others: Result<Vec<ProgramPart>, _> = parts.map(ProgramPart::try_parse_from).collect();
    if others.is_ok_and(|others| options.join(others).is_ok()) {
        let _ = options.shares();
        let ranks: u32 = options.programs().iter().map(|program| program.ranks).sum();
        assert!(ranks == options.plan.ranks && (1..=RANKS_MAX).contains(&ranks), "each rank runs a program");
    }
}
