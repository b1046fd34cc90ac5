//! The shared libraries that a program needs, and where they are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind};

/// The folder in which Debian keeps libraries.
pub(super) const FOLDER: &str = "usr/lib/x86_64-linux-gnu";
/// The folder of libraries before `/lib` became a link to `/usr/lib`.
const OLD_FOLDER: &str = "lib/x86_64-linux-gnu";

/// The names of what the program in `bytes` cannot start without: its libraries, and the path of
/// its interpreter. Nothing for what is no ELF file, such as a script.
pub(super) fn needed(bytes: &[u8]) -> Result<Vec<String>> {
    if !matches!(FileKind::parse(bytes), Ok(FileKind::Elf64)) {
        return Ok(Vec::new());
    }
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let mut names = Vec::new();
    for segment in header.program_headers(endian, bytes)? {
        if segment.p_type(endian) == PT_INTERP
            && let Ok(path) = segment.data(endian, bytes)
        {
            names.push(String::from_utf8_lossy(path).trim_end_matches('\0').to_owned());
        }
    }
    let sections = header.sections(endian, bytes)?;
    if let Some((entries, link)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, link)?;
        for entry in entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED) {
            let name = strings.get(entry.val32(endian).context("a name out of bounds")?);
            let name = name.map_err(|()| anyhow::anyhow!("a name out of bounds"))?;
            names.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(names)
}

/// The file of a library or an interpreter: below `root` if it is there, else this machine's own.
pub(super) fn find(name: &str, root: &Path) -> Result<PathBuf> {
    // An interpreter is named by a path, which is a link from `/` to what stands among the
    // libraries.
    let file = name.rsplit('/').next().unwrap_or(name);
    let folders = [root, Path::new("/")]
        .into_iter()
        .flat_map(|root| [FOLDER, OLD_FOLDER].map(|folder| root.join(folder)));
    let own = name.starts_with('/').then(|| PathBuf::from(name));
    let found = folders.map(|folder| folder.join(file)).chain(own).find(|path| path.exists());
    let Some(found) = found else {
        bail!("no {name} in the packages or on this machine");
    };
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn this_program_needs_its_interpreter_and_the_c_library() {
        let bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
        let names = needed(&bytes).unwrap();
        assert!(names.iter().any(|name| name.starts_with("libc.so")), "{names:?}");
        assert!(names.iter().any(|name| name.starts_with("/lib")), "{names:?}");
        assert!(names.iter().all(|name| find(name, Path::new("/nowhere")).is_ok()), "{names:?}");
        assert_eq!(needed(b"#!/bin/sh\n").unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_nowhere_is_named() {
        let error = find("libnothing.so.7", Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(error, "no libnothing.so.7 in the packages or on this machine");
    }
}
