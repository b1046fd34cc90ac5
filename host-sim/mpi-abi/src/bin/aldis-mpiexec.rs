//! `aldis-mpiexec`: starts a program of MPI over Aldis with the options that MPI names (MPI 5.0, 11.5). It is `aldis-run` with other
//! options, and with the library in the ranks' search path, so that programs built for any implementation with the standard
//! binary interface run as they are.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;

/// Start a program of MPI over Aldis.
#[derive(Parser)]
#[command(name = "aldis-mpiexec", version, max_term_width = 100)]
struct Options {
    /// Ranks of the job; also -np
    #[arg(short = 'n', value_name = "N", default_value_t = 1)]
    ranks: u32,

    /// A variable for every rank's environment: -genv NAME VALUE
    #[arg(long = "genv", value_names = ["NAME", "VALUE"], num_args = 2)]
    variables: Vec<String>,

    /// Hosts, as aldis-run takes them; also -hosts
    #[arg(long = "host", value_name = "HOST[:K],...")]
    hosts: Vec<String>,

    /// A file of hosts; also -f
    #[arg(long, short = 'f', value_name = "FILE")]
    hostfile: Option<PathBuf>,

    /// How messages travel between the ranks
    #[arg(long, value_name = "NAME", value_parser = ["auto", "shm", "tcp"], env = "ALDIS_MPI_TRANSPORT", default_value = "auto")]
    transport: String,

    /// Seconds after which the job is ended, with exit code 124
    #[arg(long, value_name = "SECONDS", env = "MPIEXEC_TIMEOUT", hide_env_values = true)]
    timeout: Option<f64>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    command: Vec<OsString>,
}

/// Spellings of MPI's launchers that are words behind one dash.
const SPELLINGS: [(&str, &str); 7] = [
    ("-np", "-n"),
    ("-genv", "--genv"),
    ("-env", "--genv"),
    ("-host", "--host"),
    ("-hosts", "--host"),
    ("-hostfile", "--hostfile"),
    ("-timeout", "--timeout"),
];

/// The arguments with each spelling of another launcher, in front of the program, as clap has it.
fn respelled(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut words, mut values, mut is_ours) = (Vec::new(), 0_u32, true);
    for (place, word) in arguments.enumerate() {
        let known = SPELLINGS.iter().find(|(old, _)| is_ours && values == 0 && word == *old);
        let word = known.map_or(word, |(_, new)| (*new).into());
        if place > 0 && is_ours {
            is_ours = values > 0 || word.to_string_lossy().starts_with('-');
            values = match values {
                0 if word == "--genv" => 2,
                0 if !word.to_string_lossy().contains('=')
                    && !["-h", "--help", "-V", "--version"].iter().any(|flag| word == *flag) =>
                {
                    1
                }
                0 => 0,
                more => more - 1,
            };
        }
        words.push(word);
    }
    words
}

/// The folder that this program is installed in.
fn prefix() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?.canonicalize().ok()?;
    Some(own.parent()?.parent()?.to_owned())
}

/// The search path for libraries with ours in front.
fn search_path(lib: &Path) -> OsString {
    let mut path = lib.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("LD_LIBRARY_PATH").filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}

fn main() -> ExitCode {
    let options = Options::parse_from(respelled(std::env::args_os()));
    let Some(prefix) = prefix() else {
        eprintln!("aldis-mpiexec: cannot tell where it is installed");
        return ExitCode::FAILURE;
    };
    let mut path = OsString::from("LD_LIBRARY_PATH=");
    path.push(search_path(&prefix.join("lib")));
    let launcher = prefix.join("bin/aldis-run");
    let mut command = Command::new(&launcher);
    command.arg("-n").arg(options.ranks.to_string()).args([
        "--any-program",
        "--output",
        "plain",
        "--transport",
        &options.transport,
    ]);
    command.arg("--env").arg(path);
    for pair in options.variables.as_chunks::<2>().0 {
        command.arg("--env").arg(format!("{}={}", pair[0], pair[1]));
    }
    for host in &options.hosts {
        command.arg("--host").arg(host);
    }
    if let Some(file) = &options.hostfile {
        command.arg("--hostfile").arg(file);
    }
    if let Some(seconds) = options.timeout {
        command.arg("--timeout").arg(seconds.to_string());
    }
    let error = command.args(&options.command).exec();
    eprintln!("aldis-mpiexec: cannot run {}: {error}", launcher.display());
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Options {
        Options::parse_from(respelled(line.split(' ').map(OsString::from)))
    }

    #[test]
    fn other_launchers_spellings_are_understood() {
        let options = parsed("aldis-mpiexec -np 3 -genv A b -genv C -x ./program -n 7 -genv D e");
        assert_eq!(
            (options.ranks, options.variables),
            (3, vec!["A".into(), "b".into(), "C".into(), "-x".into()])
        );
        assert_eq!(options.command, ["./program", "-n", "7", "-genv", "D", "e"]);
    }

    #[test]
    fn one_rank_is_what_is_meant_without_a_number() {
        let options = parsed("aldis-mpiexec ./program");
        assert_eq!((options.ranks, options.command), (1, vec![OsString::from("./program")]));
    }
}
