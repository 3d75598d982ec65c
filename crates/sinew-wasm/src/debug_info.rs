//! Source lines of a module, from the DWARF that it may carry.
//!
//! They are looked up on the worker's stack, when a guest has failed: the stack of a guest is too small
//! for it.

use addr2line::gimli::{self, EndianSlice, LittleEndian};
use sinew_sync::Arc;
use wasmparser::{Parser, Payload};

/// The debug sections of a module.
#[derive(Debug)]
pub(crate) struct DebugInfo {
    sections: Vec<(Box<str>, Box<[u8]>)>,
    /// Where the code begins in the module: DWARF counts from there.
    code: u64,
}

impl DebugInfo {
    /// Reads the sections of a module. `None` if it has none.
    pub(crate) fn of(module: &[u8]) -> Option<Arc<DebugInfo>> {
        let (mut sections, mut code) = (Vec::new(), 0);
        for payload in Parser::new(0).parse_all(module) {
            match payload.ok()? {
                Payload::CustomSection(section) if section.name().starts_with(".debug_") => {
                    sections.push((section.name().into(), section.data().into()));
                }
                Payload::CodeSectionStart { range, .. } => code = range.start as u64,
                _ => (),
            }
        }
        (!sections.is_empty()).then(|| Arc::new(DebugInfo { sections, code }))
    }

    /// The file and line of the instruction at `offset` in the module.
    pub(crate) fn place(&self, offset: u64) -> Option<String> {
        let section = |id: gimli::SectionId| {
            let found = self.sections.iter().find(|(name, _)| **name == *id.name());
            Ok(EndianSlice::new(found.map_or(&[][..], |(_, bytes)| bytes), LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section).map_err(|error: gimli::Error| error).ok()?;
        let context = addr2line::Context::from_dwarf(dwarf).ok()?;
        let location = context.find_location(offset.checked_sub(self.code)?).ok()??;
        Some(format!("{}:{}", location.file?, location.line?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_without_debug_sections_and_what_is_no_module_have_no_places() {
        assert!(DebugInfo::of(b"\0asm\x01\0\0\0").is_none());
        assert!(DebugInfo::of(b"hello").is_none());
    }

    #[test]
    fn damaged_debug_sections_give_no_place() {
        let sections =
            vec![(".debug_info".into(), vec![0xFF; 100].into()), (".debug_line".into(), vec![7; 50].into())];
        let info = DebugInfo { sections, code: 10 };
        (0..200).for_each(|offset| assert_eq!(info.place(offset), None));
    }
}
