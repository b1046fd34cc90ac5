//! An archive that a kernel unpacks as its first file system: the `newc` form of cpio, from the
//! kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`.

use std::collections::BTreeSet;

/// The mode of an entry: its kind of file, and the permissions.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive while it is written.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    /// The paths that are in it already: a folder comes before what is in it, and nothing comes
    /// twice.
    paths: BTreeSet<String>,
}

impl Archive {
    /// A folder, with those above it.
    pub(super) fn folder(&mut self, path: &str) {
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        self.entry(path, FOLDER, &[]);
    }

    /// A file that can be run and read. The first one of a path stays.
    pub(super) fn file(&mut self, path: &str, bytes: &[u8]) {
        self.put(path, PROGRAM, bytes);
    }

    /// A symbolic link to `target`.
    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.put(path, LINK, target.as_bytes());
    }

    /// Returns true if there is something at this path.
    pub(super) fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn put(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
        self.entry(path, mode, bytes);
    }

    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        if !self.paths.insert(path.into()) {
            return;
        }
        // Number, mode, owner, group, links, time, size, the device's and the entry's own numbers,
        // length of the name, and a checksum that this form leaves out.
        let number = self.paths.len();
        let (size, name) = (bytes.len(), path.len() + 1);
        let numbers = [number, mode as usize, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
        self.bytes.extend_from_slice(b"070701");
        numbers.iter().for_each(|number| self.bytes.extend_from_slice(format!("{number:08x}").as_bytes()));
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names, modes and contents of an archive, read as the kernel reads it.
    fn read(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let (mut at, mut found) = (0, Vec::new());
        loop {
            let number = |field: usize| {
                let start = at + 6 + 8 * field;
                usize::from_str_radix(core::str::from_utf8(&bytes[start..start + 8]).unwrap(), 16).unwrap()
            };
            assert_eq!(&bytes[at..at + 6], b"070701");
            let name = at + 110;
            let content = (name + number(11)).next_multiple_of(4);
            let text = String::from_utf8(bytes[name..name + number(11) - 1].to_vec()).unwrap();
            if text == "TRAILER!!!" {
                return found;
            }
            found.push((text, number(1) as u32, bytes[content..content + number(6)].to_vec()));
            at = (content + number(6)).next_multiple_of(4);
        }
    }

    #[test]
    fn folders_come_first_and_once() {
        let mut archive = Archive::default();
        archive.file("usr/lib/a.so", b"abcde");
        archive.link("usr/lib/b.so", "a.so");
        archive.file("usr/lib/a.so", b"other");
        assert!(archive.has("usr/lib") && !archive.has("usr/lib/c.so"));
        let entry = |path: &str, mode, bytes: &[u8]| (path.to_owned(), mode, bytes.to_vec());
        assert_eq!(
            read(&archive.finish()),
            [
                entry("usr", FOLDER, b""),
                entry("usr/lib", FOLDER, b""),
                entry("usr/lib/a.so", PROGRAM, b"abcde"),
                entry("usr/lib/b.so", LINK, b"a.so"),
            ]
        );
    }
}
