//! Bugs that timer subsystems have had, as cases that must stay away.
//!
//! The table is in `README.md`, the cases are in `tests/`. They run the real core on the simulator's machine.
