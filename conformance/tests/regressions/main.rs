//! Bugs of timer subsystems, as regression cases: the library must not have them. `REGRESSIONS.md` is their table.

mod callbacks;
mod cpus_and_clocks;
mod devices;
mod table;
mod tick;
mod wheel;
