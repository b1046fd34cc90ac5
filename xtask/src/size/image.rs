//! A linked firmware image, read from its ELF file.

use core::ops::Range;
use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use object::elf::{SHF_ALLOC, SHF_WRITE};
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SectionKind, SymbolKind};

/// Memory that other cores see too; its size is the user's choice and counted by itself.
const SHARED: &str = ".shared";

/// A function with its code.
#[derive(Clone, Debug)]
pub(super) struct ImageFunction {
    pub(super) name: String,
    /// First address after it.
    pub(super) end: u32,
    /// The code of it: the stretches between the constants that compilers put among instructions.
    pub(super) code: Vec<(u32, Vec<u8>)>,
    /// Its frame in bytes, if the compiler said.
    pub(super) frame: Option<u32>,
}

/// The memory that a firmware occupies, of whatever processor.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// Code, constants and the initial values of variables, in bytes.
    pub(super) flash: u64,
    /// Variables, in bytes.
    pub(super) ram: u64,
    /// Initial values of variables, in bytes: in flash and in RAM.
    pub(super) initial: u64,
    /// Memory shared between cores, in bytes.
    pub(super) shared: u64,
    /// Every symbol, demangled.
    pub(super) symbols: Vec<String>,
}

/// The image of a firmware of a Cortex-M, with what it holds besides.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) outline: Outline,
    /// By first address.
    pub(super) functions: BTreeMap<u32, ImageFunction>,
    /// The constants that the image states of itself, by symbol.
    facts: BTreeMap<String, u32>,
    /// The address at which it starts.
    pub(super) entry: u32,
}

impl Outline {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        Self::of(&object::File::parse(bytes).context("not an ELF file")?)
    }

    fn of(file: &object::File<'_>) -> Result<Self> {
        let mut outline = Self::default();
        for section in file.sections() {
            outline.count(&section)?;
        }
        for symbol in file.symbols() {
            let name = symbol.name()?;
            if !name.is_empty() && !name.starts_with('$') {
                outline.symbols.push(plain(name));
            }
        }
        Ok(outline)
    }

    fn count<'d>(&mut self, section: &impl ObjectSection<'d>) -> Result<()> {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return Ok(()) };
        if !sh_flags.contains(SHF_ALLOC) {
            return Ok(());
        }
        let writable = sh_flags.contains(SHF_WRITE);
        let loaded = section.kind() != SectionKind::UninitializedData;
        match section.name()? {
            SHARED => self.shared += section.size(),
            _ => {
                self.flash += if loaded { section.size() } else { 0 };
                self.ram += if writable { section.size() } else { 0 };
                self.initial += if writable && loaded { section.size() } else { 0 };
            }
        }
        Ok(())
    }
}

fn plain(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

impl Image {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let file = object::File::parse(bytes).context("not an ELF file")?;
        let mut image = Self {
            outline: Outline::of(&file)?,
            functions: BTreeMap::new(),
            facts: BTreeMap::new(),
            entry: narrow(file.entry())? & !1,
        };
        image.read_symbols(&file)?;
        image.read_frames(&file)?;
        Ok(image)
    }

    /// An image of these functions and nothing else.
    #[cfg(test)]
    pub(super) fn of<const N: usize>(entry: u32, functions: [(u32, ImageFunction); N]) -> Self {
        Self { outline: Outline::default(), functions: functions.into(), facts: BTreeMap::new(), entry }
    }

    /// A number that the image states of itself.
    pub(super) fn fact(&self, name: &str) -> Result<u32> {
        self.facts.get(name).copied().with_context(|| format!("the image does not state {name}"))
    }

    fn read_symbols(&mut self, file: &object::File<'_>) -> Result<()> {
        let constants = constant_starts(file)?;
        for symbol in file.symbols() {
            let name = symbol.name()?;
            if name.is_empty() || name.starts_with('$') {
                continue;
            }
            if symbol.kind() == SymbolKind::Text && symbol.size() > 0 {
                let start = narrow(symbol.address())? & !1;
                let size = narrow(symbol.size())?;
                let code = read_code(file, &symbol, start..start + size, &constants)?;
                let function = ImageFunction { name: plain(name), end: start + size, code, frame: None };
                self.functions.entry(start).or_insert(function);
            } else if name.starts_with("ALDIS_") {
                let word = read(file, &symbol, symbol.address(), 4)?;
                let word = word.try_into().with_context(|| format!("{name} is no word"))?;
                self.facts.insert(name.to_owned(), u32::from_le_bytes(word));
            }
        }
        Ok(())
    }

    /// `.stack_sizes`: for each function its address and its frame, as LLVM's `StackSizeSection`
    /// writes them.
    fn read_frames(&mut self, file: &object::File<'_>) -> Result<()> {
        let Some(section) = file.section_by_name(".stack_sizes") else { return Ok(()) };
        let mut data = section.data()?;
        while let Some((address, rest)) = data.split_first_chunk::<4>() {
            let start = u32::from_le_bytes(*address) & !1;
            let (frame, rest) = read_uleb128(rest).context("a cut-off .stack_sizes")?;
            data = rest;
            if let Some(function) = self.functions.get_mut(&start) {
                function.frame = Some(frame);
            }
        }
        Ok(())
    }
}

/// Returns the addresses at which code ends and constants begin, and the other way round: the
/// mapping symbols `$t` and `$d` of the ARM ELF specification. True: constants from here on.
fn constant_starts(file: &object::File<'_>) -> Result<BTreeMap<u32, bool>> {
    let mut starts = BTreeMap::new();
    for symbol in file.symbols() {
        match symbol.name()?.get(..2) {
            Some("$t") => starts.insert(narrow(symbol.address())?, false),
            Some("$d") => starts.insert(narrow(symbol.address())?, true),
            _ => None,
        };
    }
    Ok(starts)
}

/// The stretches of instructions in a range of addresses.
fn read_code<'d>(
    file: &object::File<'d>,
    symbol: &impl ObjectSymbol<'d>,
    Range { start, end }: Range<u32>,
    constants: &BTreeMap<u32, bool>,
) -> Result<Vec<(u32, Vec<u8>)>> {
    let mut cuts = vec![(start, false)];
    cuts.extend(constants.range(start + 1..end).map(|(address, constant)| (*address, *constant)));
    cuts.push((end, true));
    let mut code = Vec::new();
    for pair in cuts.windows(2) {
        if let &[(from, false), (to, _)] = pair {
            code.push((from, read(file, symbol, u64::from(from), u64::from(to - from))?.to_vec()));
        }
    }
    Ok(code)
}

fn read<'d>(
    file: &object::File<'d>,
    symbol: &impl ObjectSymbol<'d>,
    address: u64,
    size: u64,
) -> Result<&'d [u8]> {
    let Some(index) = symbol.section_index() else { bail!("{:?} stands in no section", symbol.name()) };
    let section = file.section_by_index(index)?;
    let data = section.data_range(address, size)?;
    data.with_context(|| format!("{:?} reaches beyond its section", symbol.name()))
}

/// An unsigned LEB128 number (DWARF 5, 7.6) and what follows it.
fn read_uleb128(data: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0_u32;
    for (index, byte) in data.iter().enumerate().take(5) {
        value |= u32::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, data.get(index + 1..)?));
        }
    }
    None
}

fn narrow(address: u64) -> Result<u32> {
    u32::try_from(address).with_context(|| format!("{address:#x} is no address of a 32-bit machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leb128_as_in_the_dwarf_specification() {
        assert_eq!(read_uleb128(&[2]), Some((2, &[][..])));
        assert_eq!(read_uleb128(&[0x80, 1, 9]), Some((128, &[9][..])));
        assert_eq!(read_uleb128(&[0xB9, 0x64]), Some((12857, &[][..])));
        assert_eq!(read_uleb128(&[0x80]), None);
        assert_eq!(read_uleb128(&[]), None);
    }

    #[test]
    fn what_is_no_elf_is_refused() {
        assert!(Image::parse(b"not an image").is_err());
    }
}
