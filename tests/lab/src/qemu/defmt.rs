//! The logs of a microcontroller's image, as text: frames of defmt, decoded with the table in the
//! image's ELF file.
//!
//! A frame is rzCOBS-encoded and stands between zeros ("The defmt book", Design and
//! implementation). They come by the same stream as what the emulator itself complains of; whatever
//! is no frame is passed on as it is.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Result as IoResult};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use defmt_decoder::Table;

/// The byte between frames.
const DELIMITER: u8 = 0;

/// A stream of frames, to be read as lines of text.
pub(super) struct Decoded<R> {
    table: Table,
    frames: BufReader<R>,
    text: VecDeque<u8>,
}

impl<R: Read> Decoded<R> {
    /// Decodes what an image logs to `stream`. Fails for a file without a table.
    pub(super) fn of_image(image: &Path, stream: R) -> Result<Self> {
        let elf = fs::read(image).with_context(|| image.display().to_string())?;
        Self::of_elf(&elf, stream).with_context(|| image.display().to_string())
    }

    fn of_elf(elf: &[u8], stream: R) -> Result<Self> {
        let table = Table::parse(elf)?.ok_or_else(|| anyhow!("no table of log messages"))?;
        Ok(Self { table, frames: BufReader::new(stream), text: VecDeque::new() })
    }

    /// A frame as a line, or the bytes as they are.
    fn spell(&self, piece: &[u8]) -> Vec<u8> {
        let mut decoder = self.table.new_stream_decoder();
        decoder.received(piece);
        decoder.received(&[DELIMITER]);
        let Ok(frame) = decoder.decode() else { return piece.to_vec() };
        let level = frame.level().map_or("log", |level| level.as_str());
        format!("{level}: {}\n", frame.display_message()).into_bytes()
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> IoResult<usize> {
        while self.text.is_empty() {
            let mut piece = Vec::new();
            if self.frames.read_until(DELIMITER, &mut piece)? == 0 {
                return Ok(0);
            }
            let whole = piece.pop_if(|last| *last == DELIMITER).is_some();
            let text = if whole && !piece.is_empty() { self.spell(&piece) } else { piece };
            self.text.extend(text);
        }
        self.text.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use object::write::{Object, Symbol, SymbolSection};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

    use super::*;

    /// An ELF file whose table has one message, at 4.
    fn elf() -> Vec<u8> {
        let mut elf = Object::new(BinaryFormat::Elf, Architecture::Arm, Endianness::Little);
        let table = elf.add_section(Vec::new(), b".defmt".to_vec(), SectionKind::Other);
        elf.append_section_data(table, &[0; 8], 1);
        let told = r#"{"package":"p","tag":"defmt_info","data":"told: {=str}","disambiguator":"1","crate_name":"p"}"#;
        let absolute = SymbolSection::Absolute;
        let symbols = [
            ("_defmt_version_ = 4", 0, absolute),
            ("_defmt_encoding_ = rzcobs", 0, absolute),
            (told, 4, SymbolSection::Section(table)),
        ];
        for (name, value, section) in symbols {
            elf.add_symbol(Symbol {
                name: name.into(),
                value,
                size: 1,
                kind: SymbolKind::Data,
                scope: SymbolScope::Linkage,
                weak: false,
                section,
                flags: SymbolFlags::None,
            });
        }
        elf.write().unwrap()
    }

    /// A frame that an image on an emulated board has written.
    const FRAME: &[u8] = b"\0\x04\x12a:ldis.program=heat\x8A\0";

    /// A stream that gives its bytes one by one.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> IoResult<usize> {
            let len = buffer.len().min(1);
            self.0.read(&mut buffer[..len])
        }
    }

    fn text(stream: &[u8]) -> String {
        let mut text = String::new();
        Decoded::of_elf(&elf(), Slow(stream)).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn frames_become_lines() {
        assert_eq!(text(FRAME), "info: told: aldis.program=heat\n");
        assert_eq!(text(&[FRAME, FRAME].concat()), "info: told: aldis.program=heat\n".repeat(2));
        assert_eq!(text(b""), "");
    }

    #[test]
    fn what_is_no_frame_is_passed_on() {
        let stream =
            [b"qemu: no such device\n", FRAME, b"\x7F\x7F\x7F\x7F\0", FRAME, b"qemu: ended\n"].concat();
        let told = "info: told: aldis.program=heat\n";
        assert_eq!(text(&stream), format!("qemu: no such device\n{told}\x7F\x7F\x7F\x7F{told}qemu: ended\n"));
    }

    #[test]
    fn a_file_without_a_table_is_refused() {
        let empty = Object::new(BinaryFormat::Elf, Architecture::Arm, Endianness::Little).write().unwrap();
        assert!(Decoded::of_elf(&empty, &b""[..]).is_err());
        assert!(Decoded::of_elf(b"no ELF", &b""[..]).is_err());
    }
}
