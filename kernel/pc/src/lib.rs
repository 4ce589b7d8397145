//! The reader of a PC's ACPI tables, which describe its processors and timers, and the list of processors whose timers
//! lose deadlines.
//!
//! Nothing here touches the machine. Firmware writes its tables as it likes, so the readers trust none of them: they
//! never read beyond the end of a table, every walk ends, and a senseless value is reported as a named error. The tests
//! run on the developer's machine, with correct, damaged and random tables.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod acpi;
pub mod deadline;
