//! Bugs of timer subsystems, as regression cases: the library must not have them.
//!
//! The table is in `README.md`, the cases are in `tests/`. They run the real core on the simulator's machine.
