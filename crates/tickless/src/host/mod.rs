//! The user-space host: threads are CPUs, and the deadline of a sleep is the clock event device.
//!
//! # Which thread fires which timers
//!
//! A thread starts its timers on its own [base](thread::ThreadBase). Which thread fires them depends on the kind of the
//! starting thread ([`ThreadKind`](thread::ThreadKind)):
//!
//! - a *worker* fires them itself, between other work or when its sleep ends at the first deadline;
//! - a thread with an *event loop* fires them itself, when its timer file descriptor becomes readable;
//! - for all other threads, the *foreign* threads, the *expiry thread* fires them. The expiry thread is one thread,
//!   which is started when the first foreign thread needs it, and sleeps until the earliest deadline of all these
//!   threads;
//! - for the workers of an attached async runtime, the runtime's *reactor* makes one of the workers fire the timers of
//!   all. If the reactor does not, the expiry thread fires them.
//!
//! # Layers
//!
//! The table begins with the lowest layer. A layer uses only the layers above it in this table.
//!
//! | layer | holds |
//! |---|---|
//! | [`sys`] | all that differs between Linux and other systems |
//! | [`os`], [`kernel_time`], [`barrier`], [`clock`], [`wall`], [`numa`] | the system's services in the form that the host needs |
//! | [`call`], [`doorbell`], [`kick`], [`resched`], [`sleep_protocol`], [`park_state`], [`spin`], [`suspicion`] | protocols of two threads, each with its models |
//! | [`lateness`], `recording` | counts of late timers; a trace of what the core does |
//! | [`parker`] | the place where a thread sleeps |
//! | [`pause`] | a thread that sleeps until a deadline, and does nothing else |
//! | [`process`], [`thread`], [`registry`] | the state of the process, the state of a thread, the table of all bases |
//! | [`tick`], [`wake`], [`remote::trees`] | the tick; the handle of the expiry thread; the hierarchies of sleeping threads |
//! | [`remote::reactors`] | runtimes that ring for their threads |
//! | [`device`], [`idle`], [`remote::publish`], [`isolation`], [`blocked`] | the devices, requests and published times that a change of a thread's timers updates |
//! | [`turn`] | the turn, which fires everything that is due for a thread |
//! | [`remote::expire`](remote), [`remote::reactor_turn`], [`remote::expiry_thread`] | turns for other threads |
//! | [`lifecycle`], [`platform`] | the begin and end of threads and processes; the core's `Platform` |
//!
//! A lower layer calls a higher layer through a trait that the higher layer implements: the core's `Platform`, the
//! trees' `HierarchyHost`, [`wake::Body`](wake) and [`registry::FirstUse`](registry).
//!
//! # Ground rules
//!
//! - **Base lock** of a thread: its queues and wheels, and the setting of its device. Other threads take it to cancel,
//!   to inspect and to fork.
//! - **Lock order**: role of a reactor, expiry lock of a base, list of reactors, registry, base locks (the expiry
//!   thread's last), locks of the tree's groups from the bottom up, then `wake`'s lock for starting, the clock's, the
//!   wall's, the suspects', a doorbell's and a call's.
//! - **Words without a lock** belong to the module that declares them, and code outside of that module accesses them
//!   only through its methods:
//!
//! | words | module | ordered by |
//! |---|---|---|
//! | kind, occupants, thread number, NUMA node | [`thread`] | Release of the kind, Acquire by any thread |
//! | programmed, set for, soft raised, left over | [`device::state`](device) | the base lock |
//! | kick | [`kick`] | a fence on either side |
//! | a request to yield | [`resched`] | none: a hint |
//! | the time until which the expiry thread sleeps | [`sleep_protocol`] | a fence on either side |
//! | park state | [`park_state`] | Release of the notification, Acquire by the sleeper |
//! | isolated, request | [`isolation::state`](isolation) | the registry; Release and Acquire of the request |
//! | published tick, helped until, housekeeping CPU | [`remote::state`](remote) | none: each is a hint |
//! | until, grace | [`doorbell`] | its lock; the fences of [`sleep_protocol`] |
//! | whether a task is called | [`call`] | none: a hint, whose order its lock gives |
//! | counts of late timers | [`lateness`] | the base lock |
//! | whether a trace is recorded, the numbers of events | `recording` | the base locks; Release and Acquire of the numbers |
//! | running, missing, kicked | [`wake`] | the lock for starting; Release and AcqRel of the kick |
//! | count of isolated workers, whether barriers work | [`barrier`] | the base locks taken next |
//!
//! - **Foreign code** (callbacks, wakers and their destructors) runs without any lock of the host.
//! - **A signal handler** calls nothing here: it may have interrupted its thread under any lock.
//! - **The handlers around a fork** acquire the locks above in their order. In the child they release the locks before
//!   they repair the state that other threads left. They do not panic, and start no thread.

pub(crate) mod barrier;
pub(crate) mod blocked;
pub(crate) mod call;
pub(crate) mod clock;
pub(crate) mod device;
pub(crate) mod doorbell;
pub(crate) mod idle;
#[cfg(feature = "worker")]
pub(crate) mod isolation;
#[cfg(not(feature = "worker"))]
pub(crate) mod isolation {
    //! The words of the isolation; without workers nothing is isolated.
    pub(crate) mod state;
}
pub(crate) mod kernel_time;
pub(crate) mod kick;
pub(crate) mod lateness;
pub(crate) mod lifecycle;
pub(crate) mod numa;
pub(crate) mod os;
mod overrun;
pub(crate) mod park_state;
pub(crate) mod parker;
pub(crate) mod pause;
pub(crate) mod platform;
pub(crate) mod process;
#[cfg(feature = "flight-recorder")]
pub(crate) mod recording;
pub(crate) mod registry;
pub(crate) mod remote;
pub(crate) mod resched;
pub(crate) mod sleep_protocol;
pub(crate) mod spin;
pub(crate) mod suspicion;
pub(crate) mod sys;
pub(crate) mod thread;
pub(crate) mod tick;
#[cfg(feature = "tokio")]
mod tokio_clock;
pub(crate) mod turn;
#[cfg(feature = "worker")]
pub(crate) mod virtual_base;
pub(crate) mod wake;
pub(crate) mod wall;
