//! The flattened device tree, as far as a rank needs it: a property of a node. Devicetree
//! Specification 0.4, chapter 5; what `/chosen/rng-seed` is, dt-schema's `chosen.yaml`; how a hart
//! names its extensions, its `riscv/extensions.yaml`. Whatever the bytes say, nothing outside of
//! them is read, and a walk ends where they do.

const MAGIC: u32 = 0xD00D_FEED;
/// Offsets of fields of the header.
const STRUCTURE: usize = 8;
const STRINGS: usize = 12;
const STRINGS_BYTES: usize = 32;
const STRUCTURE_BYTES: usize = 36;

const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;

/// A device tree somewhere in memory.
#[derive(Clone, Copy)]
pub(crate) struct DeviceTree<'t> {
    structure: &'t [u8],
    strings: &'t [u8],
}

impl<'t> DeviceTree<'t> {
    /// The tree at the start of `bytes`; `None` if there is none, or it is longer.
    pub(crate) fn new(bytes: &'t [u8]) -> Option<Self> {
        let field = |offset| Cursor(bytes.get(offset..)?).word();
        if field(0)? != MAGIC {
            return None;
        }
        let block = |start: u32, len: u32| bytes.get(start as usize..)?.get(..len as usize);
        Some(Self {
            structure: block(field(STRUCTURE)?, field(STRUCTURE_BYTES)?)?,
            strings: block(field(STRINGS)?, field(STRINGS_BYTES)?)?,
        })
    }

    /// A property of a node, which is named by its path from the root, as `cpus/cpu@0`.
    pub(crate) fn property(&self, node: &str, name: &str) -> Option<&'t [u8]> {
        let mut cursor = Cursor(self.structure);
        let parts = node.split('/').count();
        // How deep the walk is below the root, and how many nodes of the path it is in.
        let (mut depth, mut inside) = (0_usize, 0);
        loop {
            match cursor.word()? {
                BEGIN_NODE => {
                    let found = cursor.string()?;
                    cursor.align(self.structure)?;
                    let is_next =
                        depth == inside + 1 && node.split('/').nth(inside).map(str::as_bytes) == Some(found);
                    inside += usize::from(is_next);
                    depth += 1;
                }
                END_NODE => {
                    inside = inside.min(depth.checked_sub(2)?);
                    depth -= 1;
                }
                PROPERTY => {
                    let (len, at) = (cursor.word()?, cursor.word()?);
                    let value = cursor.take(len as usize)?;
                    cursor.align(self.structure)?;
                    let found = Cursor(self.strings.get(at as usize..)?).string()?;
                    if inside == parts && depth == parts + 1 && found == name.as_bytes() {
                        return Some(value);
                    }
                }
                NOP => {}
                _ => return None,
            }
        }
    }

    /// A property that is text.
    pub(crate) fn text(&self, node: &str, name: &str) -> Option<&'t str> {
        core::str::from_utf8(Cursor(self.property(node, name)?).string()?).ok()
    }

    /// A property that is a number of 32 bits.
    #[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "its timer states its rate by itself"))]
    pub(crate) fn number(&self, node: &str, name: &str) -> Option<u32> {
        Cursor(self.property(node, name)?).word()
    }

    /// Returns true if a hart's node says that it has an extension whose name has several letters:
    /// in its list of extensions, or in the older string of all of them, joined by underscores. A
    /// name with a version behind it is not recognised.
    #[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "its extensions are in registers"))]
    pub(crate) fn has_extension(&self, hart: &str, extension: &str) -> bool {
        let is_it = |name: &[u8]| name.eq_ignore_ascii_case(extension.as_bytes());
        let list = self.property(hart, "riscv,isa-extensions").unwrap_or_default();
        let string = self.text(hart, "riscv,isa").unwrap_or_default();
        list.split(|byte| *byte == 0).any(is_it) || string.split('_').skip(1).map(str::as_bytes).any(is_it)
    }
}

/// The bytes that are still to be read.
struct Cursor<'t>(&'t [u8]);

impl<'t> Cursor<'t> {
    fn take(&mut self, len: usize) -> Option<&'t [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    /// Up to the next zero, which is skipped.
    fn string(&mut self) -> Option<&'t [u8]> {
        let len = self.0.iter().position(|byte| *byte == 0)?;
        let string = self.take(len)?;
        self.take(1)?;
        Some(string)
    }

    /// Skips the padding to the next word of `whole`, whose end this is.
    fn align(&mut self, whole: &[u8]) -> Option<()> {
        let read = whole.len().checked_sub(self.0.len())?;
        self.take(read.next_multiple_of(4) - read).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A tree as `dtc` lays it out: `/ { model; cpus { timebase-frequency; cpu@0 { .. }; cpu@1 { ..
    /// } }; chosen { .. } }`.
    fn tree() -> Vec<u8> {
        let mut strings = Vec::new();
        let mut structure = Vec::new();
        let pad = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(4), 0);
        let begin = |structure: &mut Vec<u8>, name: &str| {
            structure.extend(BEGIN_NODE.to_be_bytes());
            structure.extend(name.bytes().chain([0]));
            pad(structure);
        };
        let mut property = |structure: &mut Vec<u8>, name: &str, value: &[u8]| {
            structure.extend(PROPERTY.to_be_bytes());
            structure.extend((value.len() as u32).to_be_bytes());
            structure.extend((strings.len() as u32).to_be_bytes());
            strings.extend(name.bytes().chain([0]));
            structure.extend(value);
            pad(structure);
        };
        let end = |structure: &mut Vec<u8>| structure.extend(END_NODE.to_be_bytes());
        begin(&mut structure, "");
        property(&mut structure, "model", b"test\0");
        begin(&mut structure, "cpus");
        property(&mut structure, "timebase-frequency", &10_000_000_u32.to_be_bytes());
        begin(&mut structure, "cpu@0");
        property(&mut structure, "bootargs", b"not these\0");
        property(&mut structure, "riscv,isa", b"rv64imafdc_zicsr_ZKR_zkr1p0x\0");
        end(&mut structure);
        begin(&mut structure, "cpu@1");
        property(&mut structure, "riscv,isa", b"rv64imafdczkr_zkrx\0");
        property(&mut structure, "riscv,isa-extensions", b"i\0m\0zkt\0");
        end(&mut structure);
        end(&mut structure);
        structure.extend(NOP.to_be_bytes());
        begin(&mut structure, "chosen");
        property(&mut structure, "rng-seed", &[7, 0, 255]);
        property(&mut structure, "bootargs", b"aldis.rank=1 aldis.size=2\0");
        end(&mut structure);
        end(&mut structure);
        structure.extend(9_u32.to_be_bytes());
        let (at, then) = (40, 40 + structure.len());
        let header: [u32; 10] = [
            MAGIC,
            (then + strings.len()) as u32,
            at as u32,
            then as u32,
            40,
            17,
            16,
            0,
            strings.len() as u32,
            structure.len() as u32,
        ];
        let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend(structure);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn properties_are_found_in_their_nodes_alone() {
        let bytes = tree();
        let tree = DeviceTree::new(&bytes).unwrap();
        assert_eq!(tree.text("chosen", "bootargs"), Some("aldis.rank=1 aldis.size=2"));
        assert_eq!(tree.number("cpus", "timebase-frequency"), Some(10_000_000));
        assert_eq!(tree.property("cpus", "bootargs"), None);
        assert_eq!(tree.property("cpu@0", "bootargs"), None, "not below the root");
        assert_eq!(tree.property("chosen", "model"), None);
    }

    #[test]
    fn nodes_are_found_by_their_paths_and_bytes_as_they_are() {
        let bytes = tree();
        let tree = DeviceTree::new(&bytes).unwrap();
        assert_eq!(tree.text("cpus/cpu@0", "bootargs"), Some("not these"));
        assert_eq!(tree.property("chosen", "rng-seed"), Some(&[7, 0, 255][..]));
        for node in
            ["cpus/chosen", "cpu@0/cpus", "chosen/cpu@0", "cpus/cpu@0/cpu@1", "cpus/cpu@2", "", "cpus/"]
        {
            assert_eq!(tree.property(node, "bootargs"), None, "{node}");
            assert_eq!(tree.property(node, "riscv,isa"), None, "{node}");
        }
    }

    #[test]
    fn a_hart_has_the_extensions_that_its_node_names() {
        let bytes = tree();
        let tree = DeviceTree::new(&bytes).unwrap();
        assert!(tree.has_extension("cpus/cpu@0", "zkr") && tree.has_extension("cpus/cpu@0", "zicsr"));
        assert!(tree.has_extension("cpus/cpu@1", "zkt"), "of the list");
        assert!(!tree.has_extension("cpus/cpu@1", "zkr"), "neither letters of a base nor a longer name");
        assert!(!tree.has_extension("cpus/cpu@0", "rv64imafdc") && !tree.has_extension("cpus/cpu@2", "zkr"));
    }

    #[test]
    fn a_tree_that_is_cut_off_anywhere_is_harmless() {
        let bytes = tree();
        for len in 0..bytes.len() {
            assert!(DeviceTree::new(&bytes[..len]).is_none(), "{len}");
        }
    }

    proptest! {
        /// Any damage: nothing panics, and the walk ends.
        #[test]
        fn damage_is_harmless(damage in prop::collection::vec((0..600_usize, any::<u8>()), 1..20)) {
            let mut bytes = tree();
            let len = bytes.len();
            for (at, byte) in damage {
                bytes[at % len] = byte;
            }
            if let Some(tree) = DeviceTree::new(&bytes) {
                tree.text("chosen", "bootargs");
                tree.number("cpus", "timebase-frequency");
                tree.has_extension("cpus/cpu@1", "zkr");
            }
        }
    }
}
