//! A scheduler: it chooses the next task of a CPU and the length of its slice. It uses the timers of Tickless.
//!
//! | module | holds |
//! |---|---|
//! | [`fair`] | [`FairQueue`]: each task has its share, by earliest eligible virtual deadline |
//! | [`deadline`] | tasks that need an amount of the CPU in each period, and get no more |
//! | [`hrtick`] | [`HrTick`]: the timer that ends a slice when it should end, and slice extensions |
//! | [`load`] | the clock of a run queue, which stops while interrupts run, and their share of the CPU |
//!
//! # How it is driven
//!
//! A host has one of each for a CPU (a worker, in user space), under one lock, and calls a method for each event: a
//! task wakes up, sleeps, finishes, is to be reconsidered. Every call gets the time as an argument. This crate reads no
//! clock, uses no thread and no device, allocates nothing, and has no atomics. A switch looks like this:
//!
//! ```
//! use std::cell::Cell;
//! use std::pin::pin;
//! use tickless_core::event::Flush;
//! use tickless_core::time::Instant;
//! use tickless_sched::hrtick::{Decision, SliceTimer, Switches};
//! use tickless_sched::load::RunClock;
//! use tickless_sched::{Entity, FairQueue, HrTick, Request, Weight};
//! # struct Timer(Cell<i64>, Cell<Option<Instant>>);
//! # impl SliceTimer for Timer {
//! #     fn now(&self) -> Instant { Instant::from_nanos(self.0.get()) }
//! #     fn queued(&self) -> Option<Instant> { self.1.get() }
//! #     fn is_active(&self) -> bool { self.1.get().is_some() }
//! #     fn start(&self, at: Instant) { self.1.set(Some(at)) }
//! #     fn cancel(&self) { self.1.set(None) }
//! # }
//! # let timer = Timer(Cell::new(0), Cell::new(None));
//!
//! let tasks = [pin!(Entity::default()), pin!(Entity::new(Weight::UNIT.times(2), Request::MIN))];
//! let (mut queue, mut tick) = (FairQueue::default(), HrTick::new(Switches::ON));
//! let mut clock = RunClock::new(timer.now());
//! for (number, task) in tasks.iter().enumerate() {
//!     queue.enqueue(task.as_ref(), number, clock.at(timer.now()))?;
//! }
//! let mut running = queue.pick(clock.at(timer.now()));
//! for micros in [5, 10, 20, 3_000] {
//!     timer.0.set(micros * 1_000);
//!     let now = clock.at(timer.now());
//!
//!     tick.begin_batch(false);
//!     if queue.account(now).is_due() {
//!         if let Some(number) = running {
//!             queue.enqueue(tasks[number].as_ref(), number, now)?;
//!         }
//!         running = queue.pick(now);
//!     }
//!     let decision = match queue.slice() {
//!         // Another task, or the same again.
//!         Some(slice) => {
//!             let load = clock.load(timer.now());
//!             let _reschedule = tick.picked(slice, queue.runnable(), load, true, &timer);
//!             Decision::Keep
//!         }
//!         None => Decision::CancelIfIdle,
//!     };
//!     tick.end_batch(decision, Flush::TurnEnd, &timer);
//! }
//! assert!(timer.queued().is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/scheduler.md` gives the reasons for this design. Requirement ids (TICK-8, B62) and sections (X-5) refer to the
//! specifications in `laboratory/docs/spec`.
#![no_std]
#![forbid(unsafe_code)]
#![deny(rustdoc::broken_intra_doc_links)]

#[cfg(any(test, loom))]
extern crate std;

mod amount;
pub mod deadline;
pub mod fair;
pub mod hrtick;
pub mod load;
mod membership;

pub use amount::{OutOfBounds, Request, RunTime, Weight};
pub use fair::{Entity, FairQueue};
pub use hrtick::HrTick;
pub use membership::{Refusal, Refused};
