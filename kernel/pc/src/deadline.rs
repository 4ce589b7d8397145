//! The processors that lose deadlines of the local timer in the TSC, by model, stepping and revision of the microcode.
//!
//! The maker mended them by microcode; hypervisors publish the first revision that is good. A virtual machine shows the
//! model of its host with a revision of its own, so there the word of the hypervisor counts, and not this list.

use core::ops::RangeInclusive;

const ALL: RangeInclusive<u32> = 0..=15;

/// Models of family 6 of this maker, with steppings and their first good revision; `None` if no revision is good. The
/// first row that fits counts.
const LOSES: [(u32, RangeInclusive<u32>, Option<u32>); 21] = [
    (0x3c, ALL, Some(0x22)),
    (0x3d, ALL, Some(0x25)),
    (0x3f, 2..=2, Some(0x3a)),
    (0x3f, 4..=4, Some(0x0f)),
    (0x3f, ALL, None),
    (0x45, ALL, Some(0x20)),
    (0x46, ALL, Some(0x17)),
    (0x47, ALL, Some(0x17)),
    (0x4e, ALL, Some(0xb2)),
    (0x4f, ALL, Some(0x0b00_0020)),
    (0x55, 0..=2, None),
    (0x55, 3..=3, Some(0x0100_0136)),
    (0x55, 4..=4, Some(0x0200_0014)),
    (0x56, 2..=2, Some(0x11)),
    (0x56, 3..=3, Some(0x0700_000e)),
    (0x56, 4..=4, Some(0x0f00_000c)),
    (0x56, 5..=5, Some(0x0e00_0003)),
    (0x56, ALL, None),
    (0x5e, ALL, Some(0xb2)),
    (0x8e, ALL, Some(0x52)),
    (0x9e, ALL, Some(0x52)),
];
const MAKER: &[u8; 12] = b"GenuineIntel";

/// The identification of a processor.
#[derive(Clone, Copy, Debug)]
pub struct Processor {
    /// The name of the maker: `ebx`, `edx` and `ecx` of leaf 0.
    pub maker: [u8; 12],
    /// Family, model and stepping: `eax` of leaf 1.
    pub signature: u32,
    /// The revision of the microcode.
    pub microcode: u32,
}

impl Processor {
    /// Returns true if the processor keeps the deadlines that it announces to keep.
    #[must_use]
    pub fn keeps_deadlines(&self) -> bool {
        let field = |from: u32, bits: u32| self.signature >> from & ((1 << bits) - 1);
        if self.maker != *MAKER || field(8, 4) != 6 {
            return true;
        }
        let model = field(16, 4) << 4 | field(4, 4);
        let row = LOSES
            .iter()
            .find(|(of, steppings, _)| *of == model && steppings.contains(&field(0, 4)));
        row.is_none_or(|(_, _, from)| from.is_some_and(|from| self.microcode >= from))
    }
}
