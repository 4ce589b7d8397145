//! The user-space host: threads are CPUs, and the deadline of a sleep is the clock event device.
//!
//! # Who expires what
//!
//! A thread arms its timers on its own seat. Who looks after them depends on what the thread is ([`Kind`]):
//!
//! - a *worker* runs them itself, between other work or when its sleep ends at the first deadline;
//! - a thread with an *event loop* runs them when its timer file descriptor becomes readable;
//! - for all other threads the *background driver* runs them: one thread, started when the first of them needs it, that
//!   sleeps until the earliest deadline of all.
//!
//! # The device
//!
//! Programming it is storing a number ([`Local::deadline`]). What that number and the others of a thread make of its
//! device, which one thread or another sleeps on, says [`device`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use tickless_core::clock::{Offsets, SetSequence};
use tickless_core::event::{DeviceState, DeviceWrite, InPast};
use tickless_core::hrtimer::{CpuBase, Timers};
use tickless_core::platform::{CpuId, Locality, Platform, ThisCpu, Waiting};
use tickless_core::time::Instant;
use tickless_link::bias::BiasedLock;

pub(crate) mod blocked;
pub(crate) mod clock;
pub(crate) mod coarse;
pub(crate) mod device;
pub(crate) mod isolation;
pub(crate) mod kick;
pub(crate) mod lifecycle;
pub(crate) mod numa;
pub(crate) mod os;
pub(crate) mod park_state;
pub(crate) mod remote;
pub(crate) mod sleep_protocol;
pub(crate) mod suspicion;
pub(crate) mod thread;
pub(crate) mod turn;
pub(crate) mod wall;

use clock::Clock;
use lifecycle::fork;
use os::Linux;
use thread::{self as seat, Kind, Local, Seat, with_thread};

/// The host, as the core sees it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) clock: Clock,
    pub(crate) wall: wall::Wall,
    pub(crate) panics: AtomicU64,
}

/// Callbacks that a turn runs before it lets the thread do something else.
const TURN_BUDGET: u32 = 4096;

/// The one system of timers of the process.
#[inline]
pub(crate) fn timers() -> &'static Timers<Host> {
    static TIMERS: OnceLock<Timers<Host>> = OnceLock::new();
    match TIMERS.get() {
        Some(timers) => timers,
        None => first_timers(&TIMERS),
    }
}

#[cold]
fn first_timers(cell: &'static OnceLock<Timers<Host>>) -> &'static Timers<Host> {
    let mut made = false;
    let timers = cell.get_or_init(|| {
        made = true;
        let host = Host {
            clock: Clock::new(),
            wall: wall::Wall::new(),
            panics: AtomicU64::new(0),
        };
        let timers = Timers::new(host);
        seat::make_background(seat::make(&timers, Kind::Background));
        timers
    });
    if made {
        timers.wheel_online(CpuId(0), coarse::tick_of(timers.platform().now()));
        timers.cpu_online(CpuId(0));
        fork::install();
    }
    timers
}

impl Host {
    /// Executes foreign code; `false` if it panicked. The panic was reported by the panic hook and is counted here.
    fn guard(&self, foreign: impl FnOnce()) -> bool {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(foreign));
        let Err(payload) = result else { return true };
        // Relaxed: a count.
        self.panics.fetch_add(1, Ordering::Relaxed);
        // The payload is foreign too and may panic when it is dropped.
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload)));
        if let Err(again) = dropped {
            std::mem::forget(again);
        }
        false
    }
}

impl Platform for Host {
    type Lock = BiasedLock<Linux>;
    type ExpiryLock = BiasedLock<Linux>;
    type Local = Local;
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::Sleep;
    const EXPIRY_BUDGET: u32 = TURN_BUDGET;

    #[inline]
    fn this_cpu(&self) -> Option<ThisCpu<'_, Self>> {
        with_thread(|thread| {
            let seat = thread.enter()?;
            Some(ThisCpu {
                base: seat,
                token: thread.token(),
            })
        })
    }

    #[inline]
    fn this_cpu_if_known(&self) -> Option<ThisCpu<'_, Self>> {
        with_thread(|thread| {
            Some(ThisCpu {
                base: thread.seat()?,
                token: thread.token(),
            })
        })
    }

    #[inline]
    fn base(&self, cpu: CpuId) -> Option<&CpuBase<Self>> {
        seat::seat(cpu)
    }

    fn now(&self) -> Instant {
        self.clock.exact()
    }

    #[inline]
    fn now_at_latest(&self) -> Instant {
        with_thread(|thread| thread.reading.at_latest(&self.clock))
    }

    /// The thread's last exact reading: the clock was asked for the timer that is being started, or a little before.
    #[inline]
    fn recent_now(&self) -> Instant {
        with_thread(|thread| thread.reading.last())
    }

    fn now_and_offsets(&self, seen: SetSequence) -> (Instant, Option<(SetSequence, Offsets)>) {
        (self.clock.exact(), self.wall.changed_since(seen))
    }

    #[inline]
    fn write_device(&self, seat: &Seat, write: DeviceWrite) -> Result<(), InPast> {
        if let DeviceWrite::Absolute(when) = write {
            device::write(seat, when);
        }
        Ok(())
    }

    fn set_device_state(&self, seat: &Seat, state: DeviceState) {
        if matches!(state, DeviceState::Shutdown | DeviceState::OneshotStopped) {
            device::write(seat, Instant::FOREVER);
        }
    }

    fn kick(&self, seat: &Seat) {
        device::kick(seat);
    }

    fn raise_soft(&self, seat: &Seat) {
        // Relaxed: read by whoever executes this very turn.
        seat.local().soft_raised.store(true, Ordering::Relaxed);
    }

    fn call(&self, callback: &mut dyn FnMut()) {
        self.guard(callback);
    }

    fn wake(&self, waker: Waker) {
        self.guard(|| waker.wake());
    }

    /// A thread's timers are armed where it runs, always: arming must be cheap, and who expires them is another
    /// question.
    #[inline]
    fn keep_local(&self, _question: Locality) -> bool {
        true
    }

    #[inline]
    fn pick_target(&self, this: Option<CpuId>, _pinned: bool) -> CpuId {
        this.unwrap_or(CpuId(0))
    }

    #[inline]
    fn housekeeper(&self, seat: &Seat) -> Option<CpuId> {
        coarse::housekeeper(seat)
    }

    fn relax(&self, attempt: u32) {
        os::relax(attempt);
    }
}
