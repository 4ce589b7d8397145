//! Timers of C and C++ libraries, behind shims that all have the same functions (`shims/peer.h`).
//!
//! A call into a shim costs about a nanosecond, as any call from Rust to C.
//!
//! # Invariant
//!
//! *Queue*: the `new` of the library returned the pointer of a [`Foreign`]. The pointer is passed to no other library
//! and to no function after `free`. Because it is not `Send`, no other thread passes it to a function. Slots are below
//! the number given to `new`.
#![expect(unsafe_code, reason = "C libraries get pointers (docs/testing.md)")]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

use super::{Entry, Family, entry};
use crate::subject::Subject;
// Has the functions that the shims of this library call.
#[cfg(has_tickless)]
use tickless_capi as _;

/// The functions of a shim.
pub(crate) struct Functions {
    new: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    now: unsafe extern "C" fn(*mut c_void) -> u64,
    arm: unsafe extern "C" fn(*mut c_void, usize, u64) -> c_int,
    cancel: unsafe extern "C" fn(*mut c_void, usize) -> c_int,
    push: unsafe extern "C" fn(*mut c_void, usize, u64),
    is_armed: unsafe extern "C" fn(*mut c_void, usize) -> c_int,
    fire: unsafe extern "C" fn(*mut c_void) -> u64,
}

/// A library that has a shim.
pub(crate) trait Library {
    /// True if the timers of the library fire.
    const FIRES: bool = true;
    const FUNCTIONS: Functions;
}

#[derive(Debug)]
pub(crate) struct Foreign<L: Library> {
    queue: NonNull<c_void>,
    /// The number of slots, including the slot that is armed and cancelled at once.
    slots: usize,
    library: PhantomData<L>,
}

impl<L: Library> Foreign<L> {
    fn checked(&self, slot: usize) -> usize {
        assert!(slot < self.slots, "there is no slot {slot}");
        slot
    }
}

impl<L: Library> Drop for Foreign<L> {
    fn drop(&mut self) {
        // SAFETY: *Queue*; it is not used any more.
        unsafe { (L::FUNCTIONS.free)(self.queue.as_ptr()) }
    }
}

impl<L: Library> Subject for Foreign<L> {
    type Time = u64;
    type Environment = ();

    const FIRES: bool = L::FIRES;

    fn within<R>(body: impl FnOnce(&()) -> R) -> R {
        body(&())
    }

    fn new((): &(), slots: usize, _counts: bool) -> Self {
        let slots = slots + 1;
        // SAFETY: it takes any number.
        let queue = unsafe { (L::FUNCTIONS.new)(slots) };
        Self {
            queue: NonNull::new(queue).expect("this many timers cannot be had here"),
            slots,
            library: PhantomData,
        }
    }

    #[inline]
    fn now(&mut self) -> u64 {
        // SAFETY: *Queue*.
        unsafe { (L::FUNCTIONS.now)(self.queue.as_ptr()) }
    }

    #[inline]
    fn later(time: u64, nanos: u64) -> u64 {
        time + nanos
    }

    #[inline]
    fn arm(&mut self, slot: usize, deadline: u64) -> bool {
        let slot = self.checked(slot);
        // SAFETY: *Queue*.
        unsafe { (L::FUNCTIONS.arm)(self.queue.as_ptr(), slot, deadline) != 0 }
    }

    #[inline]
    fn cancel(&mut self, slot: usize) -> bool {
        let slot = self.checked(slot);
        // SAFETY: *Queue*.
        unsafe { (L::FUNCTIONS.cancel)(self.queue.as_ptr(), slot) != 0 }
    }

    #[inline]
    fn push_out(&mut self, slot: usize, deadline: u64) {
        let slot = self.checked(slot);
        // SAFETY: *Queue*.
        unsafe { (L::FUNCTIONS.push)(self.queue.as_ptr(), slot, deadline) }
    }

    #[inline]
    fn arm_and_cancel(&mut self, deadline: u64) -> bool {
        let slot = self.slots - 1;
        self.arm(slot, deadline) & self.cancel(slot)
    }

    fn is_armed(&mut self, slot: usize) -> bool {
        let slot = self.checked(slot);
        // SAFETY: *Queue*.
        unsafe { (L::FUNCTIONS.is_armed)(self.queue.as_ptr(), slot) != 0 }
    }

    fn fire(&mut self, (): &()) -> u64 {
        // SAFETY: *Queue*.
        let fired = unsafe { (L::FUNCTIONS.fire)(self.queue.as_ptr()) };
        std::thread::sleep(Duration::from_micros(100));
        fired
    }
}

/// Declares the functions of a shim, and a type for its library.
macro_rules! library {
    ($(#[$condition:meta])* $name:ident, $shim:literal $(fires: $fires:literal)?) => {
        $(#[$condition])*
        #[derive(Debug)]
        struct $name;

        $(#[$condition])*
        const _: () = {
            unsafe extern "C" {
                #[link_name = concat!("peer_", $shim, "_new")]
                fn new(slots: usize) -> *mut c_void;
                #[link_name = concat!("peer_", $shim, "_free")]
                fn free(queue: *mut c_void);
                #[link_name = concat!("peer_", $shim, "_now")]
                fn now(queue: *mut c_void) -> u64;
                #[link_name = concat!("peer_", $shim, "_arm")]
                fn arm(queue: *mut c_void, slot: usize, deadline: u64) -> c_int;
                #[link_name = concat!("peer_", $shim, "_cancel")]
                fn cancel(queue: *mut c_void, slot: usize) -> c_int;
                #[link_name = concat!("peer_", $shim, "_push")]
                fn push(queue: *mut c_void, slot: usize, deadline: u64);
                #[link_name = concat!("peer_", $shim, "_is_armed")]
                fn is_armed(queue: *mut c_void, slot: usize) -> c_int;
                #[link_name = concat!("peer_", $shim, "_fire")]
                fn fire(queue: *mut c_void) -> u64;
            }

            impl Library for $name {
                $(const FIRES: bool = $fires;)?
                const FUNCTIONS: Functions = Functions {
                    new,
                    free,
                    now,
                    arm,
                    cancel,
                    push,
                    is_armed,
                    fire,
                };
            }
        };
    };
}

library!(
    #[cfg(has_tickless)]
    ExactInC,
    "tickless_timer"
);
library!(
    #[cfg(has_tickless)]
    CoarseInC,
    "tickless_timeout"
);
library!(
    #[cfg(has_tickless)]
    LoopInC,
    "tickless_loop"
);
library!(#[cfg(has_tickless)] ChecksInC, "tickless_checks" fires: false);
library!(
    #[cfg(has_timerfd)]
    TimerFd,
    "timerfd"
);
library!(
    #[cfg(has_libevent)]
    LibEvent,
    "libevent"
);
library!(
    #[cfg(has_libevent)]
    LibEventCommon,
    "libevent_common"
);
library!(
    #[cfg(has_libev)]
    LibEv,
    "libev"
);
library!(
    #[cfg(has_libuv)]
    LibUv,
    "libuv"
);
library!(
    #[cfg(has_asio)]
    Asio,
    "asio"
);
library!(
    #[cfg(has_dpdk)]
    Dpdk,
    "dpdk"
);

/// Returns the subjects of the libraries whose shims were built.
pub(super) fn all() -> Vec<Entry> {
    vec![
        #[cfg(has_tickless)]
        entry::<Foreign<ExactInC>>(super::EXACT_IN_C, Family::Tickless),
        #[cfg(has_tickless)]
        entry::<Foreign<LoopInC>>(super::LOOP_IN_C, Family::Tickless),
        #[cfg(has_tickless)]
        entry::<Foreign<CoarseInC>>(super::COARSE_IN_C, Family::Tickless),
        #[cfg(has_tickless)]
        entry::<Foreign<ChecksInC>>(super::CHECKS_IN_C, Family::Limit),
        #[cfg(has_timerfd)]
        entry::<Foreign<TimerFd>>("a timerfd per timer", Family::Peer),
        #[cfg(has_libevent)]
        entry::<Foreign<LibEvent>>("libevent", Family::Peer),
        #[cfg(has_libevent)]
        entry::<Foreign<LibEventCommon>>("libevent, common timeouts", Family::Peer),
        #[cfg(has_libev)]
        entry::<Foreign<LibEv>>("libev", Family::Peer),
        #[cfg(has_libuv)]
        entry::<Foreign<LibUv>>("libuv", Family::Peer),
        #[cfg(has_asio)]
        entry::<Foreign<Asio>>("Boost.Asio", Family::Peer),
        #[cfg(has_dpdk)]
        entry::<Foreign<Dpdk>>("DPDK rte_timer", Family::Peer),
    ]
}
