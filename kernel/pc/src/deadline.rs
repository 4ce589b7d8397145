//! Processors whose deadline timer loses events unless their microcode is new enough.
//!
//! A deadline in the TSC that passes while the processor wakes up, or that is written at the wrong moment, is lost on
//! some generations: the maker mends that by microcode. A lost event is a lost timer, so such a processor counts down
//! instead.

/// A processor, as `CPUID` leaf 1 says in EAX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The family, the extended one added.
    pub family: u32,
    /// The model, the extended one in its upper half.
    pub model: u32,
    /// The stepping.
    pub stepping: u32,
}

impl Signature {
    /// Takes `eax` apart.
    #[must_use]
    pub const fn of(eax: u32) -> Self {
        let (family, extended) = (eax >> 8 & 0xf, eax >> 20 & 0xff);
        Self {
            family: if family == 0xf {
                family + extended
            } else {
                family
            },
            model: (eax >> 4 & 0xf) | (eax >> 12 & 0xf0),
            stepping: eax & 0xf,
        }
    }
}

/// Models of family 6, the steppings that a line is for, and the first microcode that loses nothing.
const REVISIONS: [(u32, core::ops::RangeInclusive<u32>, u32); 17] = [
    (0x3c, 0..=15, 0x22),
    (0x3d, 0..=15, 0x25),
    (0x3f, 2..=2, 0x3a),
    (0x3f, 4..=4, 0x0f),
    (0x45, 0..=15, 0x20),
    (0x46, 0..=15, 0x17),
    (0x47, 0..=15, 0x17),
    (0x4e, 0..=15, 0xb2),
    (0x4f, 0..=15, 0x0b00_0020),
    (0x55, 3..=3, 0x0100_0136),
    (0x55, 4..=4, 0x0200_0014),
    (0x56, 2..=2, 0x11),
    (0x56, 3..=3, 0x0700_000e),
    (0x56, 4..=5, 0x0f00_000c),
    (0x5e, 0..=15, 0xb2),
    (0x8e, 0..=15, 0x52),
    (0x9e, 0..=15, 0x52),
];

/// The first revision of the microcode with which the deadline timer of this processor loses nothing; 0 for any.
#[must_use]
pub fn first_sound_revision(signature: Signature) -> u32 {
    let is_of = |line: &&(u32, core::ops::RangeInclusive<u32>, u32)| {
        signature.family == 6 && line.0 == signature.model && line.1.contains(&signature.stepping)
    };
    REVISIONS.iter().find(is_of).map_or(0, |line| line.2)
}

/// Whether the deadline timer may be used: it is announced, and either a hypervisor plays it or the microcode has what
/// it needs.
#[must_use]
pub fn may_be_used(
    announced: bool,
    virtual_machine: bool,
    signature: Signature,
    revision: u32,
) -> bool {
    announced && (virtual_machine || revision >= first_sound_revision(signature))
}

#[cfg(test)]
mod tests {
    use super::{Signature, may_be_used};

    #[test]
    fn an_old_microcode_is_refused_and_a_hypervisor_is_believed() {
        // Family 6, model 0x3c, stepping 3.
        let haswell = Signature::of(0x0003_06c3);
        assert_eq!(
            (haswell.family, haswell.model, haswell.stepping),
            (6, 0x3c, 3)
        );
        assert!(!may_be_used(true, false, haswell, 0x21));
        assert!(may_be_used(true, false, haswell, 0x22));
        assert!(may_be_used(true, true, haswell, 0));
        assert!(!may_be_used(false, true, haswell, 0x22));
        // Family 0x17, of another maker.
        let zen = Signature::of(0x0080_0f12);
        assert_eq!((zen.family, zen.model), (0x17, 1));
        assert!(may_be_used(true, false, zen, 0));
    }
}
