//! Running other programs, with errors that say what was run and what it said.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a command with its output passed through.
pub fn run(command: &mut Command) -> Result<()> {
    let line = spell(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("starting `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs a command silently; what it said is part of the error when it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let line = spell(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting `{line}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed: {}\n{}", output.status, said.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command, passing its standard error through and returning its standard output even when
/// it fails.
pub fn capture(command: &mut Command) -> Result<(bool, String)> {
    let line = spell(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting `{line}`"))?;
    let mut text = Vec::new();
    if let Some(stdout) = child.stdout.as_mut() {
        stdout.read_to_end(&mut text)?;
    }
    let status = child.wait()?;
    Ok((status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// The command as one would type it.
pub fn spell(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let mut line = name.to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// Every program of that name in the search path, in order.
pub fn all_in_path(name: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).filter(|file| file.is_file()).collect()
}

/// Returns true if a program of that name can be started.
pub fn has(name: &str) -> bool {
    !all_in_path(name).is_empty()
}
