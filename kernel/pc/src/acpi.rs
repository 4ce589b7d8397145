//! The reader of the ACPI tables, which walks from the root pointer to the processors (MADT) and the shared timer
//! (HPET).

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// The number of bytes of the header with which each table begins.
const HEADER: usize = 36;
/// The largest length of a table. The tables of 4,096 processors take a tenth of this length.
const LONGEST: u32 = 1 << 20;
/// The addresses that are searched for the root pointer, in steps of 16 bytes, if the loader does not pass it.
const SEARCHED: core::ops::Range<u64> = 0xe_0000..0x10_0000;

/// Physical memory.
pub trait Memory {
    /// Copies the bytes from `address` on into `into`; returns false if a part of the range has no memory.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;
}

/// The contents of the tables that the kernel needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// The registers of each processor's interrupt controller, in memory.
    pub registers: u64,
    /// The processors that may be started, by their name in the interrupt controller, each once.
    pub processors: Vec<u32>,
    /// The interrupt controllers of devices.
    pub controllers: Vec<Controller>,
    /// The older interrupts that arrive at another input than the input of their own number.
    pub moved: Vec<Moved>,
    /// The address of the registers of the shared timer, if the machine has one.
    pub hpet: Option<u64>,
}

/// An interrupt controller for devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    /// The address of the registers in memory.
    pub place: u64,
    /// The number of the controller's first input among the inputs of all controllers.
    pub first: u32,
}

/// An older interrupt that arrives at another input than the input of its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The number of the interrupt.
    pub from: u8,
    /// The number of the input among the inputs of all controllers.
    pub to: u32,
}

impl Tables {
    /// Returns the controller, and the input of this controller, at which the older interrupt `number` arrives.
    #[must_use]
    pub fn input_of(&self, number: u8) -> Option<(u64, u32)> {
        let moved = self.moved.iter().find(|moved| moved.from == number);
        let input = moved.map_or(u32::from(number), |moved| moved.to);
        let below = |controller: &&Controller| controller.first <= input;
        let controller = self.controllers.iter().filter(below);
        let controller = controller.max_by_key(|controller| controller.first)?;
        Some((controller.place, input - controller.first))
    }
}

/// The reasons why the tables cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// ACPI has no root pointer, or none at the address that the loader passed.
    NoRoot,
    /// A table lies at an address without memory.
    Absent([u8; 4]),
    /// A table is shorter than its header or longer than a mebibyte.
    Length([u8; 4]),
    /// The bytes of a table do not add up to 0.
    Sum([u8; 4]),
    /// An entry of a table is shorter than its kind needs, or ends after the end of the table.
    Entry([u8; 4]),
    /// ACPI has no table of processors.
    NoProcessors,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, what) = match self {
            Self::NoRoot => return formatter.write_str("there is no root pointer of ACPI"),
            Self::NoProcessors => return formatter.write_str("ACPI has no table of processors"),
            Self::Absent(name) => (name, "lies where no memory is"),
            Self::Length(name) => (name, "has a length that no table has"),
            Self::Sum(name) => (name, "is damaged: its sum is not 0"),
            Self::Entry(name) => (name, "has an entry that does not fit"),
        };
        write!(formatter, "the table {} {what}", name.escape_ascii())
    }
}

impl core::error::Error for Broken {}

/// Searches the memory for the root pointer, for loaders that do not pass it.
#[must_use]
pub fn find(memory: &impl Memory) -> Option<u64> {
    SEARCHED
        .step_by(16)
        .find(|&place| root(memory, place).is_some())
}

/// Returns the address of the list of tables, and the length of an entry of the list.
fn root(memory: &impl Memory, place: u64) -> Option<(u64, usize)> {
    let mut bytes = [0; 36];
    let (old, new) = bytes.split_at_mut(20);
    if !memory.read(place, old) || !old.starts_with(b"RSD PTR ") || sum(old) != 0 {
        return None;
    }
    if old[15] >= 2 && memory.read(place.checked_add(20)?, new) && sum(&bytes) == 0 {
        let list = long(&bytes, 24).unwrap_or(0);
        if list != 0 {
            return Some((list, 8));
        }
    }
    Some((u64::from(word(&bytes, 16)?), 4))
}

/// Reads the tables that the root pointer at `place` leads to.
///
/// The walk skips tables of other kinds, whatever they contain.
///
/// # Errors
///
/// [`Broken`] if a table of the walk is damaged, or if no table lists processors.
pub fn walk(memory: &impl Memory, place: u64) -> Result<Tables, Broken> {
    let (list, width) = root(memory, place).ok_or(Broken::NoRoot)?;
    let list = table(memory, list, if width == 8 { *b"XSDT" } else { *b"RSDT" })?;
    let (mut tables, mut has_processors) = (Tables::default(), false);
    for entry in list[HEADER..].chunks_exact(width) {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(entry);
        let place = u64::from_le_bytes(wide);
        let mut name = [0; 4];
        if !memory.read(place, &mut name) {
            continue;
        }
        match &name {
            b"APIC" if !has_processors => {
                processors(&table(memory, place, name)?, &mut tables)?;
                has_processors = true;
            }
            b"HPET" if tables.hpet.is_none() => {
                let bytes = table(memory, place, name)?;
                // Of memory: the kind of address is 0.
                let space = *bytes.get(40).ok_or(Broken::Entry(name))?;
                let place = long(&bytes, 44).ok_or(Broken::Entry(name))?;
                tables.hpet = (space == 0 && place != 0).then_some(place);
            }
            _ => {}
        }
    }
    if tables.processors.is_empty() {
        return Err(Broken::NoProcessors);
    }
    Ok(tables)
}

/// Reads the table `name` at `place`.
fn table(memory: &impl Memory, place: u64, name: [u8; 4]) -> Result<Vec<u8>, Broken> {
    let mut header = [0; HEADER];
    if !memory.read(place, &mut header) || header[..4] != name {
        return Err(Broken::Absent(name));
    }
    let length = word(&header, 4).unwrap_or(0);
    if !(HEADER as u32..=LONGEST).contains(&length) {
        return Err(Broken::Length(name));
    }
    let mut bytes = vec![0; length as usize];
    if !memory.read(place, &mut bytes) {
        return Err(Broken::Absent(name));
    }
    if sum(&bytes) == 0 {
        Ok(bytes)
    } else {
        Err(Broken::Sum(name))
    }
}

/// Reads the table of processors.
fn processors(table: &[u8], tables: &mut Tables) -> Result<(), Broken> {
    let wrong = || Broken::Entry(*b"APIC");
    tables.registers = u64::from(word(table, HEADER).ok_or_else(wrong)?);
    let mut rest = table.get(HEADER + 8..).ok_or_else(wrong)?;
    while let [kind, length, ..] = *rest {
        let length = usize::from(length);
        // An entry without a length would never end.
        if length < 2 || length > rest.len() {
            return Err(wrong());
        }
        let (entry, behind) = rest.split_at(length);
        rest = behind;
        let field = |at| word(entry, at).ok_or_else(wrong);
        match kind {
            0 => {
                let flags = field(4)?;
                if entry[3] != 0xff {
                    tables.add(u32::from(entry[3]), flags);
                }
            }
            1 => tables.controllers.push(Controller {
                place: u64::from(field(4)?),
                first: field(8)?,
            }),
            2 => tables.moved.push(Moved {
                to: field(4)?,
                from: entry[3],
            }),
            5 => tables.registers = long(entry, 4).ok_or_else(wrong)?,
            9 => tables.add(field(4)?, field(8)?),
            _ => {}
        }
    }
    // A single byte behind the last entry is no entry.
    if rest.is_empty() {
        Ok(())
    } else {
        Err(wrong())
    }
}

impl Tables {
    /// Adds the processor `name` if it is enabled and was not listed before.
    fn add(&mut self, name: u32, flags: u32) {
        if flags & 1 != 0 && name != u32::MAX && !self.processors.contains(&name) {
            self.processors.push(name);
        }
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, &byte| sum.wrapping_add(byte))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}
