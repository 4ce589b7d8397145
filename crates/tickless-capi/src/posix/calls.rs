//! The functions of POSIX, which return an error number instead of setting `errno`.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::clock::put;
use crate::errno::{Errno, answer};
use crate::posix::arm::Arm;
use crate::posix::service::{self, Service};
use crate::posix::system;
use crate::posix::table::{How, Settings, TimerSlot, counted};
use crate::posix::times::{self, left};
use crate::posix::{ID_TAG, TimerId, deliver, notify};

/// The generation of the next timer. The child of a fork continues the count, so that no id of the parent is valid in
/// the child.
static GENERATION: AtomicU32 = AtomicU32::new(1);
/// The bits of an id that hold the generation.
const GENERATIONS: u32 = 0x0fff_ffff;

/// A timer found by its id.
struct Found {
    service: &'static Service,
    slot: &'static TimerSlot,
    index: u32,
    generation: u32,
}

fn find(id: TimerId) -> Result<Found, Errno> {
    if id & !0x0fff_ffff_ffff_ffff != ID_TAG {
        return Err(Errno::INVAL);
    }
    let service = service::running().ok_or(Errno::INVAL)?;
    let index = u32::try_from(id & u64::from(u32::MAX))
        .ok()
        .and_then(|index| index.checked_sub(1));
    let index = index.ok_or(Errno::INVAL)?;
    let generation = u32::try_from((id >> 32) & u64::from(GENERATIONS)).unwrap_or(0);
    let slot = service.table.slot(index).ok_or(Errno::INVAL)?;
    let found = Found {
        service,
        slot,
        index,
        generation,
    };
    if found.is_alive() {
        Ok(found)
    } else {
        Err(Errno::INVAL)
    }
}

impl Found {
    fn is_alive(&self) -> bool {
        // Acquire: pairs with `create`. The word of the records changes when a timer is deleted, and is compared after
        // this.
        self.generation != 0 && self.slot.generation.load(Ordering::Acquire) == self.generation
    }

    /// Replaces the record, without a look at the notifications of the former record.
    fn replace(&self, arm: &Arm, is_alive: impl Fn() -> bool) -> Result<Arm, Errno> {
        let mut tries = 0;
        loop {
            match self.slot.arms.replace(arm, &is_alive) {
                // Others are at it: they may be threads, or what this one interrupted.
                Err(Errno::AGAIN) if tries < 1000 => {
                    tries += 1;
                    std::thread::yield_now();
                }
                result => return result,
            }
        }
    }
}

fn create(settings: &Settings) -> Result<TimerId, Errno> {
    let service = service::service()?;
    let (index, slot) = service.table.take()?;
    // Relaxed: only that no number comes twice, but for one in 268 million.
    let generation = loop {
        let generation = GENERATION.fetch_add(1, Ordering::Relaxed) & GENERATIONS;
        if generation != 0 {
            break generation;
        }
    };
    let id = ID_TAG | (u64::from(generation) << 32) | (u64::from(index) + 1);
    slot.set(settings, id);
    // Release: pairs with `is_alive`.
    slot.generation.store(generation, Ordering::Release);
    Ok(id)
}

/// Makes an idle timer that notifies in the way that `event` describes, or by `SIGALRM` if `event` is null.
///
/// # Safety
///
/// `event` is null or may be read, and its function may be called on any thread; `made` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_create(
    clock: libc::clockid_t,
    event: *mut libc::sigevent,
    made: *mut TimerId,
) -> c_int {
    answer(|| {
        if made.is_null() || !made.is_aligned() {
            return Err(Errno::INVAL);
        }
        let clock = times::clock(clock)?;
        // SAFETY: the caller says so.
        let settings = unsafe { notify::settings(clock, event) }?;
        match create(&settings) {
            // SAFETY: the caller says so.
            Ok(id) => unsafe { put(made, id) },
            Err(error) => {
                // SAFETY: made above, and given to none.
                unsafe { notify::free(settings.attributes) };
                Err(error)
            }
        }
    })
}

/// Makes a timer whose descriptor counts its expirations.
///
/// # Safety
///
/// `made` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_create_fd(
    clock: libc::clockid_t,
    flags: c_int,
    made: *mut TimerId,
) -> c_int {
    answer(|| {
        if made.is_null()
            || !made.is_aligned()
            || flags & !(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) != 0
        {
            return Err(Errno::INVAL);
        }
        let mut settings = Settings::new(times::clock(clock)?, How::Descriptor);
        settings.descriptor = system::counter(flags).map_err(Errno::of_system)?;
        match create(&settings) {
            // SAFETY: the caller says so.
            Ok(id) => unsafe { put(made, id) },
            Err(error) => {
                system::close(settings.descriptor);
                Err(error)
            }
        }
    })
}

/// Returns the descriptor of a timer that has one.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_timer_fd(id: TimerId) -> c_int {
    answer(|| {
        let descriptor = find(id)?.slot.descriptor();
        if descriptor < 0 {
            return Err(Errno::INVAL);
        }
        Ok(descriptor)
    })
}

/// Arms a timer, or disarms it if the value is zero. Writes the time that was left.
///
/// # Safety
///
/// `value` is null or may be read; `former` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_settime(
    id: TimerId,
    flags: c_int,
    value: *const libc::itimerspec,
    former: *mut libc::itimerspec,
) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let value = unsafe { value.as_ref() }.ok_or(Errno::INVAL)?;
        let found = find(id)?;
        // Other flags mean nothing to the system either.
        let is_absolute = flags & libc::TIMER_ABSTIME != 0;
        let arm = times::arm(found.slot.clock(), is_absolute, value)?;
        let replaced = found.replace(&arm, || found.is_alive())?;
        let slot = found.slot;
        let is_near = slot.how() == How::Signal && deliver::is_near(&arm);
        let next = if slot.handshake.may_notify() || is_near {
            system::with_signals_blocked(|| deliver::settle(slot))
        } else {
            deliver::first(slot, &arm)
        };
        found.service.call_at(found.index, slot, next);
        if former.is_null() {
            return Ok(0);
        }
        // SAFETY: the caller says so.
        unsafe { put(former, left(&replaced)) }
    })
}

/// Writes the time that a timer has left, and its interval.
///
/// # Safety
///
/// `value` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_gettime(
    id: TimerId,
    value: *mut libc::itimerspec,
) -> c_int {
    answer(|| {
        let (_, arm) = find(id)?.slot.arms.load();
        // SAFETY: the caller says so.
        unsafe { put(value, left(&arm)) }
    })
}

/// Returns the number of expirations between the expiration that caused the last notification and the notification
/// itself.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_timer_getoverrun(id: TimerId) -> c_int {
    answer(|| {
        let slot = find(id)?.slot;
        // Relaxed, both: a handler or a function asks, which comes after what it asks for.
        let kernel = slot.kernel.load(Ordering::Relaxed);
        if kernel >= 0 {
            return Ok(system::overrun(kernel));
        }
        let overrun = counted(slot.overrun.load(Ordering::Relaxed), slot.arms.version());
        Ok(c_int::try_from(overrun).unwrap_or(c_int::MAX))
    })
}

/// Deletes a timer.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_timer_delete(id: TimerId) -> c_int {
    answer(|| {
        let found = find(id)?;
        // Acquire and release: of several callers one ends it.
        let ended = found.slot.generation.compare_exchange(
            found.generation,
            0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        ended.map_err(|_| Errno::INVAL)?;
        while found.replace(&Arm::DISARMED, || true).is_err() {
            std::thread::yield_now();
        }
        let slot = found.slot;
        if slot.handshake.may_notify() || slot.has_resources() {
            system::with_signals_blocked(|| deliver::end(slot));
        }
        found.service.changed(found.index, slot);
        found.service.table.give_back(found.index);
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::Mutex;

    use super::{
        service, tickless_timer_create, tickless_timer_create_fd, tickless_timer_delete,
        tickless_timer_settime,
    };

    /// The tests count the slots of the process.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_timer_too_many_is_refused() {
        let _alone = ALONE.lock().unwrap();
        let service = service::service().unwrap();
        let undo = service.table.pretend_full();
        let mut id = 0;
        for _ in 0..3 {
            // SAFETY: the event is null, and the id may be written.
            let made =
                unsafe { tickless_timer_create(libc::CLOCK_MONOTONIC, ptr::null_mut(), &mut id) };
            assert_eq!(made, -libc::EAGAIN);
            // SAFETY: the id may be written.
            let made = unsafe { tickless_timer_create_fd(libc::CLOCK_MONOTONIC, 0, &mut id) };
            assert_eq!(made, -libc::EAGAIN);
        }
        assert_eq!(id, 0);
        undo();
        // SAFETY: as above.
        let made =
            unsafe { tickless_timer_create(libc::CLOCK_MONOTONIC, ptr::null_mut(), &mut id) };
        assert_eq!(made, 0);
        assert_eq!(tickless_timer_delete(id), 0);
    }

    #[test]
    fn a_deleted_timer_leaves_its_slot() {
        let _alone = ALONE.lock().unwrap();
        let hour = libc::timespec {
            tv_sec: 3600,
            tv_nsec: 0,
        };
        let value = libc::itimerspec {
            it_value: hour,
            it_interval: hour,
        };
        for _ in 0..1000 {
            let mut id = 0;
            // SAFETY: the event is null, and the id may be written.
            let made =
                unsafe { tickless_timer_create(libc::CLOCK_MONOTONIC, ptr::null_mut(), &mut id) };
            assert_eq!(made, 0);
            // SAFETY: the value may be read, and nothing is written.
            let set = unsafe { tickless_timer_settime(id, 0, &raw const value, ptr::null_mut()) };
            assert_eq!(set, 0);
            assert_eq!(tickless_timer_delete(id), 0);
            // The other test has one or two.
            assert!(id & 0xffff_ffff < 4, "{id:x}");
        }
    }
}
