//! Workers: threads that fire their own timers, all the time or between other work.

use std::ffi::c_int;

use tickless::Worker as LibraryWorker;

use crate::errno::{Errno, answer};
use crate::place::{Runner, ThreadPlace, free, make, next, own};

/// `struct tickless_worker`, whose contents are hidden from C.
#[derive(Debug)]
#[repr(C)]
pub struct Worker {
    opaque: [u8; 0],
}

/// Makes a worker for this thread.
///
/// # Safety
///
/// `made` is null, or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_worker_new(made: *mut *mut Worker) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        make(made, || {
            let worker = LibraryWorker::new()?;
            // No other thread may touch its timers, however late it is.
            worker.set_helped(false);
            Ok(Runner::Worker(worker))
        })
    }
}

/// Frees a worker that has no pending timer.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_worker_free(worker: *mut Worker) -> c_int {
    answer(|| free(worker))
}

/// Writes the deadline of the worker's first timer, if there is one, and returns 1 or 0.
///
/// # Safety
///
/// `at_ns` is null, or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_worker_next(worker: *mut Worker, at_ns: *mut u64) -> c_int {
    // SAFETY: the caller says so.
    unsafe { next(worker, at_ns) }
}

/// Calls the callbacks of due timers, and returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_worker_turn(worker: *mut Worker) -> c_int {
    answer(|| {
        let (at_work, place) = own(worker)?;
        match &place.runner {
            Runner::Worker(runner) => place.turn(at_work, || runner.turn()),
            Runner::Loop(_) => Err(Errno::INVAL),
        }
    })
}

/// Waits until a timer is due or another thread wakes the worker, and calls the callbacks of due timers.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_worker_park(worker: *mut Worker) -> c_int {
    answer(|| {
        let (at_work, place) = own(worker)?;
        match &place.runner {
            Runner::Worker(runner) => place.turn(at_work, || runner.park()),
            Runner::Loop(_) => Err(Errno::INVAL),
        }
    })
}

/// Ends the park of a worker, or makes its next one return at once. Any thread may call it.
///
/// # Safety
///
/// `worker` is null, or a worker that is not freed before the call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_worker_unpark(worker: *mut Worker) -> c_int {
    answer(|| {
        if worker.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the handle of a place, which lives, as the caller says. This field of it never changes.
        let unparker = unsafe { &(*worker.cast::<ThreadPlace>()).unparker };
        unparker.as_ref().ok_or(Errno::INVAL)?.unpark();
        Ok(0)
    })
}
