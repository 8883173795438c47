//! What an ELF file says of itself (elf(5)), as far as it decides how the program is run.
//!
//! Of the file no more is read than a bounded part at a time, and any bytes will do: what the kernel would refuse is an error;
//! of what it does not look at (sections, names) nothing is known where it makes no sense.

use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom};

use elf::abi;
use elf::dynamic::DynamicTable;
use elf::endian::AnyEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::parse::ParseError;
use elf::section::{SectionHeader, SectionHeaderTable};
use elf::segment::{ProgramHeader, SegmentTable};
use elf::string_table::StringTable;
use elf::symbol::SymbolTable;

use crate::limits::{ELF_PART, FOLDERS, FOLDERS_BYTES, LIBRARIES, PATH_BYTES};

/// What the kernel would not take for a program, and why.
pub(super) type Damage = ParseError;

/// What each ELF file begins with.
pub(super) const MAGIC: [u8; 4] = *b"\x7fELF";

/// The instructions of this machine, and those that it had before (with 32 bits).
const MACHINES: [u16; 2] = match cfg!(target_arch = "x86_64") {
    true => [abi::EM_X86_64, abi::EM_386],
    false => [abi::EM_AARCH64, abi::EM_ARM],
};

/// Whether only the first bytes make no sense, which say how the others are to be read. The kernel looks at none of them, and may run it.
pub(super) const fn may_run(damage: &Damage) -> bool {
    matches!(
        damage,
        ParseError::UnsupportedVersion(_)
            | ParseError::UnsupportedElfClass(_)
            | ParseError::UnsupportedElfEndianness(_)
    )
}

/// A program or a library.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Elf {
    /// Of which machine's instructions it is (`e_machine`).
    pub machine: u16,
    pub is_64_bit: bool,
    /// What the kernel has load it; nothing where it is linked statically.
    pub interpreter: Option<String>,
    /// The libraries that it names: the first [`LIBRARIES`].
    pub needed: Vec<String>,
    /// Where it says that these are: the first [`FOLDERS`].
    pub run_path: Vec<String>,
    /// What it takes of libraries.
    pub imports: BTreeSet<String>,
    /// Made by Go's compiler.
    pub is_go: bool,
}

impl Elf {
    /// Reads what the file of a program says.
    ///
    /// # Errors
    ///
    /// The kernel does not take it for a program: why.
    pub fn read(file: impl Read + Seek) -> Result<Self, Damage> {
        let (mut elf, mut parts, head) = Self::linked(file)?;
        // From here on it may say what it likes.
        let _ = parts.names(&head, &mut elf);
        Ok(elf)
    }

    /// Reads what the file of a library says, without the names that it takes of others.
    pub fn library(file: impl Read + Seek) -> Result<Self, Damage> {
        Self::linked(file).map(|(elf, ..)| elf)
    }

    /// Whether this machine runs it, with the 64-bit calls that we know.
    pub fn is_of_this_machine(&self) -> bool {
        self.machine == MACHINES[0] && self.is_64_bit
    }

    /// Its library of AddressSanitizer ends the program where another one is loaded before.
    pub fn is_sanitized(&self) -> bool {
        // GCC's and Clang's.
        const NAMES: [&str; 2] = ["libasan.so", "libclang_rt.asan"];
        let files = self
            .needed
            .iter()
            .filter_map(|name| name.split('/').next_back());
        let is_one = |file: &str| NAMES.iter().any(|name| file.starts_with(name));
        files.into_iter().any(is_one)
    }

    /// Whether this machine runs it, with other calls.
    pub fn is_32_bit_of_this_machine(&self) -> bool {
        MACHINES.contains(&self.machine) && !self.is_64_bit
    }

    fn linked<F: Read + Seek>(
        file: F,
    ) -> Result<(Self, Parts<F>, FileHeader<AnyEndian>), ParseError> {
        let mut parts = Parts::open(file)?;
        let head = parts.head()?;
        let segments = parts.segments(&head)?;
        let mut elf = Self {
            machine: head.e_machine,
            is_64_bit: head.class == Class::ELF64,
            interpreter: parts.interpreter(&segments)?,
            ..Self::default()
        };
        let _ = parts.linking(&head, &segments, &mut elf);
        Ok((elf, parts, head))
    }
}

/// A file, read in parts.
pub(super) struct Parts<F> {
    file: F,
    len: u64,
}

impl<F: Read + Seek> Parts<F> {
    pub(super) fn open(mut file: F) -> Result<Self, ParseError> {
        let len = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, len })
    }

    pub(super) fn part(&mut self, at: u64, size: u64) -> Result<Vec<u8>, ParseError> {
        let is_inside = at.checked_add(size).is_some_and(|end| end <= self.len);
        if !is_inside || size > ELF_PART {
            return Err(ParseError::BadOffset(at));
        }
        let mut bytes = vec![0; size as usize];
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn head(&mut self) -> Result<FileHeader<AnyEndian>, ParseError> {
        const LONG: u64 = 64;
        const SHORT: u64 = 52;
        let bytes = self.part(0, self.len.clamp(SHORT, LONG))?;
        let (ident, tail) = bytes.split_at(abi::EI_NIDENT);
        let head = FileHeader::parse_tail(parse_ident(ident)?, tail)?;
        match head.e_type {
            abi::ET_EXEC | abi::ET_DYN => Ok(head),
            other => Err(ParseError::BadOffset(other.into())),
        }
    }

    pub(super) fn segments(
        &mut self,
        head: &FileHeader<AnyEndian>,
    ) -> Result<Vec<ProgramHeader>, ParseError> {
        let entry = match head.class {
            Class::ELF32 => 32,
            Class::ELF64 => 56,
        };
        if head.e_phentsize != entry || head.e_phnum == 0 {
            let (is, wanted) = (head.e_phentsize.into(), entry.into());
            return Err(ParseError::BadEntsize((is, wanted)));
        }
        let size = u64::from(entry) * u64::from(head.e_phnum);
        let bytes = self.part(head.e_phoff, size)?;
        Ok(SegmentTable::new(head.endianness, head.class, &bytes)
            .iter()
            .collect())
    }

    fn interpreter(&mut self, segments: &[ProgramHeader]) -> Result<Option<String>, ParseError> {
        let Some(segment) = segments.iter().find(|s| s.p_type == abi::PT_INTERP) else {
            return Ok(None);
        };
        if segment.p_filesz > PATH_BYTES {
            return Err(ParseError::BadOffset(segment.p_offset));
        }
        let bytes = self.part(segment.p_offset, segment.p_filesz)?;
        let path = StringTable::new(&bytes).get_raw(0)?;
        Ok(Some(String::from_utf8_lossy(path).into_owned()))
    }

    /// What its dynamic part says: libraries, and where they are.
    fn linking(
        &mut self,
        head: &FileHeader<AnyEndian>,
        segments: &[ProgramHeader],
        elf: &mut Elf,
    ) -> Result<(), ParseError> {
        let Some(dynamic) = segments.iter().find(|s| s.p_type == abi::PT_DYNAMIC) else {
            return Ok(());
        };
        let bytes = self.part(dynamic.p_offset, dynamic.p_filesz)?;
        let all: Vec<_> = DynamicTable::new(head.endianness, head.class, &bytes)
            .iter()
            .take_while(|entry| entry.d_tag != abi::DT_NULL)
            .collect();
        let value = |tag| all.iter().find(|e| e.d_tag == tag).map(|e| e.d_val());
        let at = value(abi::DT_STRTAB).ok_or(ParseError::BadOffset(0))?;
        // By its address in memory.
        let holds = |s: &&ProgramHeader| {
            s.p_type == abi::PT_LOAD
                && (s.p_vaddr..s.p_vaddr.saturating_add(s.p_filesz)).contains(&at)
        };
        let segment = segments.iter().find(holds);
        let segment = segment.ok_or(ParseError::BadOffset(at))?;
        let at = (at - segment.p_vaddr).saturating_add(segment.p_offset);
        let bytes = self.part(at, value(abi::DT_STRSZ).unwrap_or(0))?;
        // What ends beyond this is no name. Without these bounds a file of some megabytes is work for hours.
        let name = |entry: &elf::dynamic::Dyn, len_max: usize| {
            let bytes = bytes.get(entry.d_val() as usize..)?;
            let bytes = &bytes[..bytes.len().min(len_max)];
            let name = StringTable::new(bytes).get(0).ok();
            name.map(str::to_owned)
        };
        let of = |tags: [i64; 2]| all.iter().filter(move |e| tags.contains(&e.d_tag));
        elf.needed = of([abi::DT_NEEDED; 2])
            .take(LIBRARIES)
            .filter_map(|e| name(e, PATH_BYTES as usize))
            .collect();
        elf.run_path = of([abi::DT_RUNPATH, abi::DT_RPATH])
            .take(FOLDERS)
            .filter_map(|e| name(e, FOLDERS_BYTES))
            .flat_map(|paths| paths.split(':').map(str::to_owned).collect::<Vec<_>>())
            .take(FOLDERS)
            .collect();
        Ok(())
    }

    /// What its sections say: the names that it takes of libraries, and who made it.
    fn names(&mut self, head: &FileHeader<AnyEndian>, elf: &mut Elf) -> Result<(), ParseError> {
        let entry = match head.class {
            Class::ELF32 => 40,
            Class::ELF64 => 64,
        };
        if head.e_shentsize != entry {
            return Ok(());
        }
        let size = u64::from(entry) * u64::from(head.e_shnum);
        let bytes = self.part(head.e_shoff, size)?;
        let sections = SectionHeaderTable::new(head.endianness, head.class, &bytes);
        if let Ok(section) = sections.get(head.e_shstrndx.into()) {
            let bytes = self.data(&section)?;
            let names = StringTable::new(&bytes);
            let is_go = |section: SectionHeader| {
                let name = names.get(section.sh_name as usize);
                matches!(name, Ok(".go.buildinfo" | ".note.go.buildid"))
            };
            elf.is_go = sections.iter().any(is_go);
        }
        let symbols = sections.iter().find(|s| s.sh_type == abi::SHT_DYNSYM);
        let symbols = symbols.ok_or(ParseError::BadOffset(0))?;
        let names = self.data(&sections.get(symbols.sh_link as usize)?)?;
        let names = StringTable::new(&names);
        let bytes = self.data(&symbols)?;
        let symbols = SymbolTable::new(head.endianness, head.class, &bytes);
        let imported = symbols.iter().filter(elf::symbol::Symbol::is_undefined);
        let imported = imported.filter_map(|s| names.get(s.st_name as usize).ok());
        elf.imports = imported
            .filter(|n| !n.is_empty())
            .map(str::to_owned)
            .collect();
        Ok(())
    }

    fn data(&mut self, section: &SectionHeader) -> Result<Vec<u8>, ParseError> {
        self.part(section.sh_offset, section.sh_size)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    /// This program: what is known of it.
    #[test]
    fn a_program_of_ours_says_what_it_is() {
        let elf = Elf::read(File::open("/proc/self/exe").expect("this program")).expect("it runs");
        assert!(elf.is_64_bit && !elf.is_go);
        assert!(elf.interpreter.is_some_and(|i| i.contains("ld-linux")));
        assert!(
            elf.needed.iter().any(|n| n == "libc.so.6"),
            "{:?}",
            elf.needed
        );
        assert!(elf.imports.contains("read"), "{:?}", elf.imports);
    }

    #[test]
    fn the_libraries_of_address_sanitizer_are_known_by_their_names() {
        let is_sanitized = |name: &str| {
            let needed = vec!["libc.so.6".to_owned(), name.to_owned()];
            let elf = Elf {
                needed,
                ..Elf::default()
            };
            elf.is_sanitized()
        };
        for name in [
            "libasan.so.8",
            "/opt/lib/libasan.so.8",
            "libclang_rt.asan-x86_64.so",
            "/usr/lib/clang/19/lib/linux/libclang_rt.asan.so",
        ] {
            assert!(is_sanitized(name), "{name}");
        }
        for name in ["libubsan.so.1", "libasan.so.d/libz.so.1", "liblibasan.so.8"] {
            assert!(!is_sanitized(name), "{name}");
        }
    }

    #[test]
    fn what_the_kernel_would_not_run_is_an_error() {
        let whole = std::fs::read("/proc/self/exe").expect("this program");
        for cut in [0, 4, 15, 16, 51, 63, 100] {
            assert!(Elf::read(Cursor::new(&whole[..cut])).is_err(), "{cut}");
        }
        let mut object = whole[..64].to_vec();
        object[16] = 1;
        assert!(Elf::read(Cursor::new(object)).is_err());
    }

    /// A program with these entries in its dynamic part, and nothing else.
    fn linked_with(entries: &[(i64, u64)], strings: &[u8]) -> Vec<u8> {
        let mut bytes = std::fs::read("/proc/self/exe").expect("this program")[..64].to_vec();
        let (dynamic, dynamic_len) = (64 + 2 * 56, (entries.len() as u64 + 3) * 16);
        let len = dynamic + dynamic_len + strings.len() as u64;
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes()); // e_phoff
        bytes[56..58].copy_from_slice(&2_u16.to_le_bytes()); // e_phnum
        for (kind, at, size) in [
            (abi::PT_LOAD, 0, len),
            (abi::PT_DYNAMIC, dynamic, dynamic_len),
        ] {
            bytes.extend(u64::from(kind).to_le_bytes());
            let words = [at, at, at, size, size, 0];
            bytes.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
        }
        let tables = [
            (abi::DT_STRTAB, dynamic + dynamic_len),
            (abi::DT_STRSZ, strings.len() as u64),
        ];
        let end = (abi::DT_NULL, 0);
        for (tag, value) in tables.iter().chain(entries).chain([&end]) {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn what_it_names_is_bounded() {
        let mut strings = b"libc.so.6\0/a:/b\0".to_vec();
        let long = strings.len() as u64;
        strings.extend(b"/x:".repeat(1 << 20));
        strings.push(0);
        let linking = |entries: &[(i64, u64)]| {
            let elf = Elf::library(Cursor::new(linked_with(entries, &strings)));
            let elf = elf.expect("a program");
            (elf.needed, elf.run_path)
        };
        let (needed, run_path) = linking(&[
            (abi::DT_NEEDED, long),
            (abi::DT_NEEDED, 0),
            (abi::DT_RUNPATH, long),
            (abi::DT_RUNPATH, 10),
        ]);
        assert_eq!(needed, ["libc.so.6"]);
        assert_eq!(run_path, ["/a", "/b"]);
        let many = [[(abi::DT_NEEDED, 0); 1000], [(abi::DT_RUNPATH, 10); 1000]].concat();
        let (needed, run_path) = linking(&many);
        assert_eq!((needed.len(), run_path.len()), (LIBRARIES, FOLDERS));
    }

    proptest! {
        /// Whatever stands in a file, it is read to an end.
        #[test]
        fn any_bytes_will_do(mut bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
            let _ = Elf::read(Cursor::new(&bytes));
            for (place, byte) in bytes.iter_mut().zip(*b"\x7fELF\x02\x01\x01") {
                *place = byte;
            }
            let _ = Elf::read(Cursor::new(&bytes));
        }

        /// Nor does a word that makes no sense matter.
        #[test]
        fn any_change_will_do(changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..40)) {
            let mut bytes = std::fs::read("/bin/sh").expect("a program");
            let sections = u64::from_le_bytes(bytes[40..48].try_into().expect("eight")) as usize;
            for (at, byte) in changes {
                // The heads of the file and of segments, or those of sections, at its end.
                let from = if at % 2 == 0 { 7 } else { sections };
                let at = from + usize::from(at / 2) % 2048;
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            let _ = Elf::read(Cursor::new(bytes));
        }
    }
}
