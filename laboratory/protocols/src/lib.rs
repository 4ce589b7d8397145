//! Two protocol machines that live on timers, as users of Tickless.
//!
//! | module | standard | its timers |
//! |---|---|---|
//! | [`eee`] | IEEE 802.3az, Energy Efficient Ethernet by software | one for each port, pushed out by each burst of traffic |
//! | [`lacp`] | IEEE 802.1AX-2014 (802.3ad), link aggregation control | five for each port, restarted and cancelled all the time |
//!
//! # One source for two hosts
//!
//! Both machines are independent of their host. A host needs a clock and timers ([`host::Host`]). This crate has two
//! hosts: [`host::UserSpace`] uses the timers of the process, [`host::Simulated`] the timers of the conformance rig, in
//! virtual time. The tests run the machines on the rig, where a minute costs milliseconds and a nanosecond can be
//! asserted; the example programs run the same code on threads.
//!
//! The two machines show two ways of using timers with callbacks. The callback of [`eee`] does the work itself, in
//! parallel to the threads that send; its documentation says how callback and threads exclude each other. The callbacks
//! of [`lacp`] only note which work is due, and the one thread that owns the machines does that work.
#![forbid(unsafe_code)]
#![deny(rustdoc::broken_intra_doc_links)]

pub mod eee;
pub mod host;
pub mod lacp;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also after a panic of another thread: the data here is consistent between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
