//! The list of processors that lose deadlines, by faked identification.

use tickless_kernel_pc::deadline::Processor;

fn keeps(maker: &[u8; 12], signature: u32, microcode: u32) -> bool {
    let processor = Processor {
        maker: *maker,
        signature,
        microcode,
    };
    processor.keeps_deadlines()
}

const INTEL: &[u8; 12] = b"GenuineIntel";

#[test]
fn a_listed_processor_needs_its_revision() {
    // Signatures as processors show them, with the first good revision.
    let first_good = [
        (0x0003_06c3, 0x22),
        (0x0003_06d4, 0x25),
        (0x0003_06f2, 0x3a),
        (0x0003_06f4, 0x0f),
        (0x0004_0651, 0x20),
        (0x0004_0661, 0x17),
        (0x0004_0671, 0x17),
        (0x0004_06e3, 0xb2),
        (0x0004_06f1, 0x0b00_0020),
        (0x0005_0653, 0x0100_0136),
        (0x0005_0654, 0x0200_0014),
        (0x0005_0662, 0x11),
        (0x0005_0663, 0x0700_000e),
        (0x0005_0664, 0x0f00_000c),
        (0x0005_0665, 0x0e00_0003),
        (0x0005_06e3, 0xb2),
        (0x0008_06e9, 0x52),
        (0x0009_06e9, 0x52),
    ];
    for (signature, from) in first_good {
        assert!(keeps(INTEL, signature, from), "{signature:#x}");
        assert!(keeps(INTEL, signature, u32::MAX), "{signature:#x}");
        assert!(!keeps(INTEL, signature, from - 1), "{signature:#x}");
        assert!(!keeps(INTEL, signature, 0), "{signature:#x}");
    }
}

#[test]
fn no_revision_mends_the_first_steppings() {
    for signature in [
        0x0003_06f1,
        0x0003_06f3,
        0x0005_0650,
        0x0005_0652,
        0x0005_0661,
    ] {
        assert!(!keeps(INTEL, signature, u32::MAX), "{signature:#x}");
    }
}

#[test]
fn other_processors_keep_what_they_announce() {
    // A later stepping, a later model, the same model of another family, and another maker.
    for signature in [0x0005_0657, 0x000a_0652, 0x0003_0fc3, 0x0003_05c3] {
        assert!(keeps(INTEL, signature, 0), "{signature:#x}");
    }
    assert!(keeps(b"AuthenticAMD", 0x0003_06c3, 0));
}
