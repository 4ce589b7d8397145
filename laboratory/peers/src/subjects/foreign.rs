//! Timers of C and C++ libraries, behind shims that all have the same functions (`shims/peer.h`).
//!
//! A call into a shim costs about a nanosecond, as any call from Rust to C.
//!
//! # Invariant
//!
//! *Queue*: the `new` of the library returned the pointer of a [`Foreign`]. The pointer is passed to no other library
//! and to no function after `free`. Because it is not `Send`, no other thread passes it to a function. Slots are below
//! the number given to `new`.
//!
//! *Shared*: `new_shared` returned the queue of a [`Shared`]. Its maker calls `new_shared` and later `free`. Between
//! these two calls one thread calls `now` and `arm`, another thread calls `cancel`, and the threads pass slots to each
//! other through a channel.
#![expect(unsafe_code, reason = "C libraries get pointers (docs/testing.md)")]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

use super::{Entry, Family, across, entry};
use crate::subject::{Across, Subject};
// Has the functions that the shims of this library call.
#[cfg(has_tickless)]
use tickless_capi as _;

/// The functions of a shim.
pub(crate) struct Functions {
    new: unsafe extern "C" fn(usize) -> *mut c_void,
    new_shared: unsafe extern "C" fn(usize) -> *mut c_void,
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

/// A queue of a library.
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

    #[inline]
    fn read_clock(&self) -> u64 {
        // SAFETY: *Queue*.
        unsafe { (L::FUNCTIONS.now)(self.queue.as_ptr()) }
    }

    #[inline]
    fn start(&self, slot: usize, deadline: u64) -> bool {
        let slot = self.checked(slot);
        // SAFETY: *Queue*.
        unsafe { (L::FUNCTIONS.arm)(self.queue.as_ptr(), slot, deadline) != 0 }
    }

    #[inline]
    fn stop(&self, slot: usize) -> bool {
        let slot = self.checked(slot);
        // SAFETY: *Queue*.
        unsafe { (L::FUNCTIONS.cancel)(self.queue.as_ptr(), slot) != 0 }
    }
}

/// A queue whose timers one thread arms and another thread cancels.
#[derive(Debug)]
struct Shared<L: Library>(Foreign<L>);

// SAFETY: *Shared*.
unsafe impl<L: Library> Sync for Shared<L> {}

impl<L: Library> Shared<L> {
    /// Makes a queue for two threads; returns `None` if only one thread at a time can use the library's timers.
    fn new(slots: usize) -> Option<Self> {
        // SAFETY: it takes any number.
        let queue = unsafe { (L::FUNCTIONS.new_shared)(slots) };
        let queue = NonNull::new(queue)?;
        Some(Self(Foreign {
            queue,
            slots,
            library: PhantomData,
        }))
    }

    fn now(&self) -> u64 {
        self.0.read_clock()
    }

    fn arm(&self, slot: usize, deadline: u64) -> bool {
        self.0.start(slot, deadline)
    }

    fn cancel(&self, slot: usize) -> bool {
        self.0.stop(slot)
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
    type Place = ();

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
        self.read_clock()
    }

    #[inline]
    fn later(time: u64, nanos: u64) -> u64 {
        time + nanos
    }

    #[inline]
    fn arm(&mut self, slot: usize, deadline: u64) -> bool {
        self.start(slot, deadline)
    }

    #[inline]
    fn cancel(&mut self, slot: usize) -> bool {
        self.stop(slot)
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

    fn across_threads(batches: u32) -> Option<Across> {
        let shared = Shared::<L>::new(across::SLOTS)?;
        Some(across::by_slots::<Self>(
            batches,
            || shared.now(),
            |slot, deadline| shared.arm(slot, deadline),
            |slot| shared.cancel(slot),
        ))
    }
}

/// Declares the functions of a shim, and a type for its library.
macro_rules! library {
    ($(#[$condition:meta])* $name:ident: $new:ident $new_shared:ident
        $free:ident $now:ident $arm:ident $cancel:ident $push:ident
        $is_armed:ident $fire:ident $(fires: $fires:literal)?) => {
        $(#[$condition])*
        unsafe extern "C" {
            fn $new(slots: usize) -> *mut c_void;
            fn $new_shared(slots: usize) -> *mut c_void;
            fn $free(queue: *mut c_void);
            fn $now(queue: *mut c_void) -> u64;
            fn $arm(queue: *mut c_void, slot: usize, deadline: u64) -> c_int;
            fn $cancel(queue: *mut c_void, slot: usize) -> c_int;
            fn $push(queue: *mut c_void, slot: usize, deadline: u64);
            fn $is_armed(queue: *mut c_void, slot: usize) -> c_int;
            fn $fire(queue: *mut c_void) -> u64;
        }

        $(#[$condition])*
        #[derive(Debug)]
        struct $name;

        $(#[$condition])*
        impl Library for $name {
            $(const FIRES: bool = $fires;)?
            const FUNCTIONS: Functions = Functions {
                new: $new,
                new_shared: $new_shared,
                free: $free,
                now: $now,
                arm: $arm,
                cancel: $cancel,
                push: $push,
                is_armed: $is_armed,
                fire: $fire,
            };
        }
    };
}

library!(#[cfg(has_tickless)] ExactInC: peer_tickless_timer_new peer_tickless_timer_new_shared
    peer_tickless_timer_free peer_tickless_timer_now peer_tickless_timer_arm peer_tickless_timer_cancel
    peer_tickless_timer_push peer_tickless_timer_is_armed peer_tickless_timer_fire);
library!(#[cfg(has_tickless)] CoarseInC: peer_tickless_timeout_new peer_tickless_timeout_new_shared
    peer_tickless_timeout_free peer_tickless_timeout_now peer_tickless_timeout_arm peer_tickless_timeout_cancel
    peer_tickless_timeout_push peer_tickless_timeout_is_armed peer_tickless_timeout_fire);
library!(#[cfg(has_tickless)] LoopInC: peer_tickless_loop_new peer_tickless_loop_new_shared peer_tickless_loop_free
    peer_tickless_loop_now peer_tickless_loop_arm peer_tickless_loop_cancel peer_tickless_loop_push
    peer_tickless_loop_is_armed peer_tickless_loop_fire);
library!(#[cfg(has_tickless)] ChecksInC: peer_tickless_checks_new peer_tickless_checks_new_shared
    peer_tickless_checks_free peer_tickless_checks_now peer_tickless_checks_arm peer_tickless_checks_cancel
    peer_tickless_checks_push peer_tickless_checks_is_armed peer_tickless_checks_fire fires: false);
library!(#[cfg(has_timerfd)] TimerFd: peer_timerfd_new peer_timerfd_new_shared peer_timerfd_free peer_timerfd_now
    peer_timerfd_arm peer_timerfd_cancel peer_timerfd_push peer_timerfd_is_armed peer_timerfd_fire);
library!(#[cfg(has_libevent)] LibEvent: peer_libevent_new peer_libevent_new_shared peer_libevent_free
    peer_libevent_now peer_libevent_arm peer_libevent_cancel peer_libevent_push peer_libevent_is_armed
    peer_libevent_fire);
library!(#[cfg(has_libevent)] LibEventCommon: peer_libevent_common_new peer_libevent_common_new_shared
    peer_libevent_common_free peer_libevent_common_now peer_libevent_common_arm peer_libevent_common_cancel
    peer_libevent_common_push peer_libevent_common_is_armed peer_libevent_common_fire);
library!(#[cfg(has_libev)] LibEv: peer_libev_new peer_libev_new_shared peer_libev_free peer_libev_now peer_libev_arm
    peer_libev_cancel peer_libev_push peer_libev_is_armed peer_libev_fire);
library!(#[cfg(has_libuv)] LibUv: peer_libuv_new peer_libuv_new_shared peer_libuv_free peer_libuv_now peer_libuv_arm
    peer_libuv_cancel peer_libuv_push peer_libuv_is_armed peer_libuv_fire);
library!(#[cfg(has_asio)] Asio: peer_asio_new peer_asio_new_shared peer_asio_free peer_asio_now peer_asio_arm
    peer_asio_cancel peer_asio_push peer_asio_is_armed peer_asio_fire);
library!(#[cfg(has_dpdk)] Dpdk: peer_dpdk_new peer_dpdk_new_shared peer_dpdk_free peer_dpdk_now peer_dpdk_arm
    peer_dpdk_cancel peer_dpdk_push peer_dpdk_is_armed peer_dpdk_fire);

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
