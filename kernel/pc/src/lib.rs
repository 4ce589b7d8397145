//! The reader of a PC's ACPI tables, which describe its processors and timers.
//!
//! Nothing here touches the machine. Firmware writes its tables as it likes, so the readers trust none of them: they
//! never read beyond the end of a table, they end, and a senseless value is an error with a name. The tests run on the
//! developer's machine, with tables that are right, damaged and drawn.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod acpi;
