//! Protocol machines that live on timers, as users of Tickless.
//!
//! | module | standard | its timers |
//! |---|---|---|
//! | [`eee`] | IEEE 802.3az, Energy Efficient Ethernet by software | one a port, pushed out by each burst of traffic |
//!
//! # One source for two hosts
//!
//! A machine does not know where it runs. What it needs of a host is a clock and timers ([`host::Host`]), and there are
//! two of them: [`host::UserSpace`] has the timers of the process, [`host::Simulated`] those of a machine of
//! `tickless-sim` in virtual time. The tests run the machines in the simulator, where a minute costs milliseconds and a
//! nanosecond can be asserted; the example programs run the same code on threads.
#![forbid(unsafe_code)]
#![deny(rustdoc::broken_intra_doc_links)]

pub mod eee;
pub mod host;
mod sync;
