//! Calls of the system that pass by `aldis-sys`, where tests make calls fail: none, in the crates
//! for Linux. Types and errors come from there too, so that a crate that names `nix`, `libc` or
//! `std::fs` is found by that name alone.

use std::fs;
use std::path::{Path, PathBuf};

use aldis_shell::workspace::checkout;
use anyhow::{Context, Result, bail};

use super::tokens::{Token, tokens};

/// Folders in which no call may pass by.
const FENCED: [&str; 6] = [
    "host-sim/linux/src/",
    "host-sim/run/src/",
    "host-sim/sim/src/",
    "host-sim/mpi/src/",
    "host-sim/mpi/tools/src/",
    "host-sim/nic/src/",
];

/// Places that are left out of those, and why.
const OUTSIDE: [(&str, &str); 4] = [
    ("host-sim/linux/src/verbs/sys", "the fence of the calls of libibverbs and librdmacm"),
    ("host-sim/sim/src/bin/aldis-sim/", "a tool that makes no part of a job"),
    ("host-sim/sim/src/bin/aldis-whatif/", "a tool that makes no part of a job"),
    ("host-sim/sim/src/bin/aldis-schedule/", "a tool that makes no part of a job"),
];

/// Paths that lead to calls, wherever they begin.
const PATHS: [&str; 11] = [
    "nix",
    "libc",
    "std::fs",
    "std::net",
    "std::os::unix::net",
    "unix::fs::symlink",
    "std::process::Command",
    "process::Command",
    "thread::sleep",
    "env::current_dir",
    "env::current_exe",
];

/// Methods of the standard library that are calls, whatever type they are of.
const METHODS: [&str; 8] = [
    "exists",
    "canonicalize",
    "read_dir",
    "symlink_metadata",
    "try_clone",
    "try_clone_to_owned",
    "try_wait",
    "wait_with_output",
];

/// Methods that are calls if nothing is between their brackets.
const BARE_METHODS: [&str; 2] = ["spawn", "exec"];

/// Macros that write to standard output.
const MACROS: [&str; 2] = ["print", "println"];

/// Fails with each call that passes by in these files. How many files were looked at.
pub(super) fn check(files: &[PathBuf]) -> Result<usize> {
    let names = files.iter().map(|file| (file, name(file)));
    let fenced: Vec<_> = names.filter(|(_, name)| is_fenced(name)).collect();
    let mut found = Vec::new();
    for (file, name) in &fenced {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        found.extend(passing_by(&text).into_iter().map(|call| format!("{name}: {call}")));
    }
    if !found.is_empty() {
        bail!("calls that pass by aldis-sys, where tests make calls fail: {}", found.join(", "));
    }
    Ok(fenced.len())
}

fn name(file: &Path) -> String {
    file.strip_prefix(checkout()).unwrap_or(file).display().to_string()
}

fn is_fenced(name: &str) -> bool {
    FENCED.iter().any(|folder| name.starts_with(folder))
        && !OUTSIDE.iter().any(|(place, _)| name.starts_with(place))
}

/// Returns the calls of a file that pass by. Its tests may.
fn passing_by(text: &str) -> Vec<String> {
    let tokens: Vec<_> =
        tokens(text).into_iter().filter(|token| !matches!(token, Token::Comment(_))).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = tokens.get(at..).filter(|rest| !rest.is_empty()) {
        at += match rest {
            [Token::Word("mod"), Token::Word("tests"), Token::Mark('{'), ..] => block(rest),
            [Token::Word("extern"), Token::Text, Token::Mark('{'), ..] => {
                found.push("extern".to_owned());
                1
            }
            [Token::Word(name), Token::Mark('!'), ..] if MACROS.contains(name) => {
                found.push(format!("{name}!"));
                1
            }
            [Token::Mark('.'), Token::Word(name), Token::Mark('('), ..]
                if METHODS.contains(name)
                    || BARE_METHODS.contains(name) && rest.get(3) == Some(&Token::Mark(')')) =>
            {
                found.push(format!(".{name}()"));
                2
            }
            [Token::Word(_), ..] => path(rest, "", &mut found),
            _ => 1,
        };
    }
    found
}

/// Returns the number of tokens to the end of the first block.
fn block(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0_u32;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('{') => depth += 1,
            Token::Mark('}') if depth == 1 => return at + 1,
            Token::Mark('}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    tokens.len()
}

/// Reads a path and, behind it, a group of paths as imports have them, and keeps those that lead to
/// calls. How many tokens it was.
fn path(tokens: &[Token<'_>], prefix: &str, found: &mut Vec<String>) -> usize {
    let (mut path, mut at) = (prefix.to_owned(), 0);
    while let Some(Token::Word(word)) = tokens.get(at) {
        path.push_str(word);
        at += 1;
        if tokens.get(at..at + 2) != Some(&[Token::Mark(':'); 2]) {
            break;
        }
        path.push_str("::");
        at += 2;
        if tokens.get(at) == Some(&Token::Mark('{')) {
            return at + group(tokens.get(at..).unwrap_or_default(), &path, found);
        }
    }
    let leads = |to: &&str| {
        let path = path.trim_end_matches(':');
        let whole = |rest: &str| rest.is_empty() || rest.starts_with("::");
        !path.starts_with("aldis_sys::") && {
            path.strip_prefix(*to).is_some_and(whole)
                || to.contains("::")
                    && path.split_once(&format!("::{to}")).is_some_and(|(_, rest)| whole(rest))
        }
    };
    if PATHS.iter().any(leads) {
        found.push(path);
    }
    at.max(1)
}

/// Reads a group of paths in braces. How many tokens it was.
fn group(tokens: &[Token<'_>], prefix: &str, found: &mut Vec<String>) -> usize {
    let mut at = 1;
    loop {
        match tokens.get(at) {
            None => return tokens.len(),
            Some(Token::Mark('}')) => return at + 1,
            Some(Token::Word(_)) => at += path(tokens.get(at..).unwrap_or_default(), prefix, found),
            Some(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_pass_by_are_found() {
        for (text, call) in [
            ("let text = std::fs::read_to_string(path)?;", "std::fs::read_to_string"),
            ("use std::fs;", "std::fs"),
            ("use std::{env, fs::File};", "std::fs::File"),
            ("use std::net::{SocketAddr, TcpStream};", "std::net::SocketAddr"),
            ("use std::os::unix::{fs::OpenOptionsExt, net::UnixStream};", "std::os::unix::net::UnixStream"),
            ("use nix::poll::poll;", "nix::poll::poll"),
            ("let flags = unsafe { libc::fcntl(1, libc::F_GETFD) };", "libc::fcntl"),
            ("std::thread::sleep(span);", "std::thread::sleep"),
            ("thread::sleep(span);", "thread::sleep"),
            ("use std::process::{Command, ExitCode};", "std::process::Command"),
            ("let child = command.spawn()?;", ".spawn()"),
            ("if path.exists() {}", ".exists()"),
            ("unsafe extern \"C\" { fn read(); }", "extern"),
            ("println!(\"{text}\");", "println!"),
        ] {
            assert_eq!(passing_by(text).first().map(String::as_str), Some(call), "{text}");
        }
    }

    #[test]
    fn what_is_no_call_or_goes_through_the_layer_is_not() {
        for text in [
            "use aldis_sys::process::Command;",
            "use aldis_sys::file::{File, read_to_string};",
            "use std::process::{self, ExitCode};",
            "use std::os::fd::{AsFd, OwnedFd};",
            "use core::net::SocketAddr;",
            "let is = prefix::nix_like(libc_like);",
            "scope.spawn(move || core(me, end));",
            "// std::fs::read(path)",
            "let text = \"std::fs::read(path)\";",
            "eprintln!(\"{text}\");",
            "extern \"C\" fn look() {}",
            "#[cfg(test)]\nmod tests {\n    use std::fs;\n    fn f() { fs::read(1); }\n}",
        ] {
            assert_eq!(passing_by(text), [""; 0], "{text}");
        }
        let behind = "mod tests { fn f() {} }\nuse std::fs;";
        assert_eq!(passing_by(behind), ["std::fs"]);
    }

    #[test]
    fn the_crates_for_linux_are_fenced_and_the_layer_is_not() {
        assert!(is_fenced("host-sim/linux/src/tcp/socket.rs") && is_fenced("host-sim/mpi/src/lib.rs"));
        assert!(
            !is_fenced("host-sim/sys/src/file.rs") && !is_fenced("host-sim/linux/src/verbs/sys/device.rs")
        );
        for (place, _) in OUTSIDE {
            let place = checkout().join(place);
            assert!(place.exists() || place.with_extension("rs").exists(), "{}", place.display());
        }
    }
}
