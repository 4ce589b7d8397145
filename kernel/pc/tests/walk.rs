//! Tests of the ACPI readers: correct tables are read to the last entry; damaged or random tables end in an error, and
//! never in a panic or an endless walk.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tickless_kernel_pc::acpi::{Broken, Controller, Memory, Moved, Tables, find, walk};

const ROOT: u64 = 0xf_5a40;

/// Memory in pieces: the bytes that exist, by their address.
#[derive(Clone, Debug, Default)]
struct Pieces(BTreeMap<u64, Vec<u8>>);

impl Memory for Pieces {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let Some((start, piece)) = self.0.range(..=address).next_back() else {
            return false;
        };
        let Some(rest) = piece.get((address - start) as usize..) else {
            return false;
        };
        let Some(bytes) = rest.get(..into.len()) else {
            return false;
        };
        into.copy_from_slice(bytes);
        true
    }
}

fn with_sum(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] = 0;
    bytes[at] = bytes
        .iter()
        .fold(0, |sum: u8, byte| sum.wrapping_sub(*byte));
    bytes
}

fn table(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = name.to_vec();
    bytes.extend((36 + body.len() as u32).to_le_bytes());
    bytes.resize(36, 0);
    bytes.extend(body);
    with_sum(bytes, 9)
}

fn root(revision: u8, list: u64) -> Vec<u8> {
    let mut bytes = b"RSD PTR \0TEST  ".to_vec();
    bytes.push(revision);
    bytes.extend((list as u32).to_le_bytes());
    let mut bytes = with_sum(bytes, 8);
    bytes.extend(36_u32.to_le_bytes());
    bytes.extend(list.to_le_bytes());
    bytes.resize(36, 0);
    with_sum(bytes, 32)
}

/// Writes `tables` as firmware does.
fn written(tables: &Tables, revision: u8, disabled: &[u32]) -> Pieces {
    let mut body = Vec::new();
    body.extend(0xfee0_0000_u32.to_le_bytes());
    body.extend(1_u32.to_le_bytes());
    let processor = |name: u32, enabled: u32| {
        let mut entry = Vec::new();
        if name < 0xff {
            entry.extend([0, 8, 7, name as u8]);
            entry.extend(enabled.to_le_bytes());
        } else {
            entry.extend([9, 16, 0, 0]);
            for field in [name, enabled, 7] {
                entry.extend(field.to_le_bytes());
            }
        }
        entry
    };
    for &name in &tables.processors {
        body.extend(processor(name, 1));
    }
    for &name in disabled {
        body.extend(processor(name, 0));
    }
    for controller in &tables.controllers {
        body.extend([1, 12, 0, 0]);
        body.extend((controller.place as u32).to_le_bytes());
        body.extend(controller.first.to_le_bytes());
    }
    for moved in &tables.moved {
        body.extend([2, 10, 0, moved.from]);
        body.extend(moved.to.to_le_bytes());
        body.extend([0, 0]);
    }
    body.extend([5, 12, 0, 0]);
    body.extend(tables.registers.to_le_bytes());
    // A kind that is not known.
    body.extend([0x7f, 3, 9]);
    let mut places = vec![0x9_0000_u64, 0x2_0000, 0x3_0000];
    let mut pieces = Pieces::default();
    pieces.0.insert(0x2_0000, table(b"APIC", &body));
    pieces.0.insert(0x3_0000, table(b"SSDT", &[1, 2, 3]));
    if let Some(place) = tables.hpet {
        let mut body = vec![0; 20];
        body[8..16].copy_from_slice(&place.to_le_bytes());
        pieces.0.insert(0x4_0000, table(b"HPET", &body));
        places.push(0x4_0000);
    }
    let (name, list): (_, Vec<u8>) = if revision >= 2 {
        (
            b"XSDT",
            places
                .iter()
                .flat_map(|place| place.to_le_bytes())
                .collect(),
        )
    } else {
        let narrow = |place: &u64| (*place as u32).to_le_bytes();
        (b"RSDT", places.iter().flat_map(narrow).collect())
    };
    pieces.0.insert(0x1_0000, table(name, &list));
    pieces.0.insert(ROOT, root(revision, 0x1_0000));
    pieces
}

prop_compose! {
    fn drawn_tables()(
        names in prop::collection::btree_set(prop_oneof![0_u32..0xff, 0x100..0x1000_u32], 1..40),
        controllers in prop::collection::vec((1..u32::MAX, 0..200_u32), 0..4),
        moved in prop::collection::vec((0..16_u8, 0..40_u32), 0..6),
        hpet in prop::option::of(1..u64::MAX),
        registers in any::<u64>(),
    ) -> Tables {
        Tables {
            registers,
            processors: names.into_iter().collect(),
            controllers: controllers
                .into_iter()
                .map(|(place, first)| Controller { place: u64::from(place), first })
                .collect(),
            moved: moved.into_iter().map(|(from, to)| Moved { from, to }).collect(),
            hpet,
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(tables in drawn_tables(), revision in 0..4_u8, other in 0x2000..0x3000_u32) {
        let memory = written(&tables, revision, &[other]);
        prop_assert_eq!(walk(&memory, ROOT), Ok(tables));
        prop_assert_eq!(find(&memory), Some(ROOT));
    }

    /// Reading fails if one byte of a table differs, because the checksum is wrong then. A byte of the root pointer
    /// that differs leaves no root pointer.
    #[test]
    fn a_byte_that_differs_is_found(
        tables in drawn_tables(),
        piece in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        by in 1..=255_u8,
    ) {
        let mut memory = written(&tables, 2, &[]);
        let places: Vec<u64> = memory.0.keys().copied().collect();
        let place = places[piece.index(places.len())];
        let bytes = memory.0.get_mut(&place).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = bytes[at].wrapping_add(by);
        let read = walk(&memory, ROOT);
        let is_passed_over = place == 0x3_0000 || place == ROOT && at >= 20;
        // A table that has another name is not looked into.
        let is_renamed = at < 4 && place != 0x1_0000;
        if is_passed_over {
            prop_assert!(read.is_ok() || place == ROOT);
        } else if is_renamed {
            prop_assert!(read != Ok(tables));
        } else {
            prop_assert!(read.is_err());
        }
    }

    /// Random tables with correct checksums make no reader panic or walk without an end.
    #[test]
    fn drawn_bytes_end(
        body in prop::collection::vec(any::<u8>(), 0..200),
        name in prop_oneof![Just(*b"APIC"), Just(*b"HPET")],
        length in prop::option::of(any::<u32>()),
    ) {
        let mut memory = written(&Tables::default(), 2, &[]);
        let mut bytes = table(&name, &body);
        if let Some(length) = length {
            bytes[4..8].copy_from_slice(&length.to_le_bytes());
            bytes = with_sum(bytes, 9);
        }
        memory.0.insert(0x2_0000, bytes);
        let _read = walk(&memory, ROOT);
    }

    #[test]
    fn drawn_memory_ends(bytes in prop::collection::vec(any::<u8>(), 0..400), list in any::<u64>()) {
        let mut memory = Pieces::default();
        memory.0.insert(ROOT, root(2, list));
        memory.0.insert(list, bytes);
        prop_assert!(walk(&memory, ROOT).is_err());
    }
}

#[test]
fn an_entry_without_a_length_ends_the_walk() {
    let mut memory = written(&Tables::default(), 2, &[]);
    let body = [0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0];
    memory.0.insert(0x2_0000, table(b"APIC", &body));
    assert_eq!(walk(&memory, ROOT), Err(Broken::Entry(*b"APIC")));
}

#[test]
fn an_older_interrupt_is_found_where_it_was_moved_to() {
    let tables = Tables {
        controllers: vec![
            Controller {
                place: 0x1000,
                first: 0,
            },
            Controller {
                place: 0x2000,
                first: 24,
            },
        ],
        moved: vec![Moved { from: 0, to: 2 }, Moved { from: 9, to: 30 }],
        ..Tables::default()
    };
    assert_eq!(tables.input_of(0), Some((0x1000, 2)));
    assert_eq!(tables.input_of(8), Some((0x1000, 8)));
    assert_eq!(tables.input_of(9), Some((0x2000, 6)));
    assert_eq!(Tables::default().input_of(8), None);
}
