//! The service thread, which enqueues all POSIX timers and notifies when they expire.

use std::cell::RefCell;
use std::hint;
use std::pin::Pin;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::mpsc::channel;
use std::thread::{self, Builder};
use std::time::Duration;

use tickless::hrtimer::{
    Boottime, Clock, ClockId, HrTimer, Monotonic, Realtime, Restart, Setup, Tai,
};
use tickless::{Unparker, Worker};

use crate::clock::{monotonic, shown};
use crate::errno::Errno;
use crate::handshake::Handshake;
use crate::operations::Operations;
use crate::posix::arm::{Arm, Version};
use crate::posix::system::{self, Target, ThreadSignals};
use crate::posix::table::{How, Table, TimerSlot, counted, tagged};
use crate::posix::{fork, notify};

/// The service: all POSIX timers of the process, and the data that they share with the service thread.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) table: Table,
    /// The first slot of the inbox plus one; zero if the inbox is empty.
    inbox: AtomicU32,
    /// The time at which the thread wakes up by itself, on the monotonic clock; zero while the thread is awake and will
    /// check the inbox.
    next: AtomicU64,
    /// The handshake with callers of `settime`, which replaces the setting for which the thread may be about to notify.
    handshake: Handshake,
    /// The number of slots in the inbox whose timers were deleted.
    retired: AtomicU32,
    unparker: Unparker,
}

/// The service of this process. After a fork the service of the parent stays in memory, because threads of the parent
/// may hold its locks.
static SERVICE: AtomicPtr<Service> = AtomicPtr::new(std::ptr::null_mut());
/// A flag that is not zero while a thread starts the service.
static IS_STARTING: AtomicU32 = AtomicU32::new(0);

/// Returns the service of this process if the service was started.
pub(super) fn running() -> Option<&'static Service> {
    // Acquire: pairs with its publication.
    let service = SERVICE.load(Ordering::Acquire);
    // SAFETY: null, or leaked by `start`.
    unsafe { service.as_ref() }
}

/// Returns the service of this process, and starts it if necessary; `EAGAIN` if the system refuses.
pub(super) fn service() -> Result<&'static Service, Errno> {
    loop {
        if let Some(service) = running() {
            return Ok(service);
        }
        // Acquire and release: those who start it come one behind another.
        if IS_STARTING
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
        {
            let started = running().map_or_else(start, Ok);
            IS_STARTING.store(0, Ordering::Release);
            return started;
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// Forgets the parent's service in the child of a fork.
///
/// # Safety
///
/// The function has no requirements; it is unsafe because the C library defines its type.
unsafe extern "C" fn forget() {
    // Relaxed, both: there is one thread.
    SERVICE.store(std::ptr::null_mut(), Ordering::Relaxed);
    IS_STARTING.store(0, Ordering::Relaxed);
    system::forget_process();
}

fn start() -> Result<&'static Service, Errno> {
    fork::watch(forget);
    let (sender, receiver) = channel::<&'static Service>();
    let body = move || {
        let Ok(worker) = Worker::new() else { return };
        // Its closures note what is due on this thread.
        worker.set_helped(false);
        // Only here: a thread that the system refuses leaves nothing behind.
        let service: &'static Service = Box::leak(Box::new(Service {
            table: Table::new(),
            inbox: AtomicU32::new(0),
            next: AtomicU64::new(0),
            handshake: Handshake::new(),
            retired: AtomicU32::new(0),
            unparker: worker.unparker(),
        }));
        if sender.send(service).is_ok() {
            Thread {
                service,
                filed: Vec::new(),
                worker,
            }
            .run();
        }
    };
    let builder = Builder::new().name("tickless-posix".into());
    system::with_signals_blocked(|| builder.spawn(body)).map_err(|_| Errno::AGAIN)?;
    // It ended without a word.
    let service = receiver.recv().map_err(|_| Errno::AGAIN)?;
    // Release: pairs with `running`.
    SERVICE.store(std::ptr::from_ref(service).cast_mut(), Ordering::Release);
    Ok(service)
}

/// The number of deleted timers at which the thread is woken to free their slots.
const MANY_RETIRED: u32 = 1024;

impl Service {
    /// Notifies the thread of a slot whose timer is now armed. Wakes the thread if the timer is due before the thread
    /// wakes up by itself.
    pub(super) fn armed(&self, index: u32, slot: &TimerSlot, arm: &Arm) {
        self.push(index, slot);
        // How a time of another clock compares changes.
        let deadline = if arm.clock == Clock::Monotonic {
            arm.start
        } else {
            0
        };
        // Sequentially consistent: pairs with the fence of `wait`. Either this sees when the thread wakes up, or that
        // sees the slot.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if deadline <= self.next.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Requests the thread to free a slot at some later time.
    pub(super) fn retire(&self, index: u32, slot: &TimerSlot) {
        // Release: pairs with the exchange of `drain`.
        slot.retired.store(true, Ordering::Release);
        self.push(index, slot);
        // Relaxed: a count.
        if self.retired.fetch_add(1, Ordering::Relaxed) % MANY_RETIRED == MANY_RETIRED - 1 {
            self.wake();
        }
    }

    fn wake(&self) {
        self.unparker.unpark();
    }

    fn push(&self, index: u32, slot: &TimerSlot) {
        // Acquire and release: pairs with `drain`, which sees the record or sees the slot again.
        if slot.listed.swap(true, Ordering::AcqRel) {
            return;
        }
        // Relaxed: a guess, checked by the exchange.
        let mut first = self.inbox.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange.
            slot.link.store(first, Ordering::Relaxed);
            // Release: pairs with `drain`.
            match self.inbox.compare_exchange_weak(
                first,
                index + 1,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }

    /// Waits until the thread no longer notifies for a record of this slot that was replaced before the call.
    pub(super) fn settle(&self, index: u32) {
        self.handshake.settle(index, |looks| {
            if looks < 1000 {
                hint::spin_loop();
            } else {
                // Its priority may be lower than this thread's.
                thread::sleep(Duration::from_micros(20));
            }
        });
    }
}

thread_local! {
    /// The slots whose timers fired in this turn.
    static DUE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// The data that the service thread keeps for a slot.
#[derive(Default)]
struct Filed {
    timer: Option<(Clock, Pin<Box<dyn Operations>>)>,
    /// The version of the record to which the counts below belong.
    version: Option<Version>,
    /// The number of expirations that were notified or folded.
    counted: u64,
    /// True if a signal was sent for this record and may still be pending.
    is_outstanding: bool,
    /// The file in which the system shows the pending signals of the receiving thread.
    signals: Option<ThreadSignals>,
}

/// The service thread, with its worker and its data for each slot.
struct Thread {
    service: &'static Service,
    filed: Vec<Filed>,
    worker: Worker,
}

/// The least time, in nanoseconds, after which the thread checks again whether a notification is still pending.
const AGAIN: u64 = 100_000;
/// The least time, in nanoseconds, after which the thread checks again the pending notification of a timer that expires
/// once.
const AGAIN_ONCE: u64 = 5_000_000;

/// The result of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// An earlier notification is pending; the thread must try again later.
    Pending,
    /// The record was replaced meanwhile.
    Replaced,
}

impl Thread {
    fn run(&mut self) {
        loop {
            self.drain();
            self.wait();
            let due = DUE.with(|due| std::mem::take(&mut *due.borrow_mut()));
            for index in due {
                self.expire(index);
            }
        }
    }

    /// Sleeps until a timer is due, unless the inbox has a slot.
    fn wait(&self) {
        let next = self.worker.next_deadline().map_or(u64::MAX, monotonic);
        // Relaxed, both: ordered by the fence.
        self.service.next.store(next.max(1), Ordering::Relaxed);
        // Sequentially consistent: pairs with the fence of `Service::armed`.
        fence(Ordering::SeqCst);
        if self.service.inbox.load(Ordering::Relaxed) == 0 {
            let _turn = self.worker.park();
        } else {
            let _turn = self.worker.turn();
        }
        // Relaxed: from here on the inbox is looked at before the next fence.
        self.service.next.store(0, Ordering::Relaxed);
    }

    /// Processes all slots of the inbox: enqueues armed timers, and frees the slots of deleted timers.
    fn drain(&mut self) {
        // Acquire: pairs with `push`.
        let mut first = self.service.inbox.swap(0, Ordering::Acquire);
        while let Some(index) = first.checked_sub(1) {
            let Some(slot) = self.service.table.slot(index) else {
                return;
            };
            // Relaxed: published by the exchange that put the slot there.
            first = slot.link.load(Ordering::Relaxed);
            // Acquire and release: pairs with `push`. What is replaced from here on puts the slot there again.
            slot.listed.swap(false, Ordering::AcqRel);
            // Acquire: pairs with `retire`.
            if slot.retired.swap(false, Ordering::Acquire) {
                self.give_back(index, slot);
            } else {
                let (_, arm) = slot.arms.load();
                if let Some(next) = arm.next(0) {
                    self.file(index, arm.clock, next);
                }
            }
        }
    }

    fn give_back(&mut self, index: u32, slot: &TimerSlot) {
        if let Some(filed) = self.filed.get_mut(index as usize) {
            *filed = Filed::default();
        }
        // Relaxed: this thread alone uses them from `create` to here.
        let attributes = slot.attributes.swap(0, Ordering::Relaxed);
        // SAFETY: taken out, so for the first and last time.
        unsafe { notify::free(attributes) };
        self.service.table.give_back(index);
    }

    fn known(&mut self, index: u32) -> &mut Filed {
        let index = index as usize;
        if self.filed.len() <= index {
            self.filed.resize_with(index + 1, Filed::default);
        }
        &mut self.filed[index]
    }

    /// Starts the timer of a slot. Makes the timer first if the slot has no timer on this clock.
    fn file(&mut self, index: u32, clock: Clock, deadline: u64) {
        let filed = self.known(index);
        let timer = match filed.timer.take() {
            Some((of, timer)) if of == clock => timer,
            _ => timer_of(index, clock),
        };
        let (_, timer) = filed.timer.insert((clock, timer));
        timer.as_ref().start(deadline, 0);
    }

    /// Handles the expiry of a slot's timer: notifies if the current record has expired, and enqueues the timer again.
    fn expire(&mut self, index: u32) {
        let Some(slot) = self.service.table.slot(index) else {
            return;
        };
        let (version, arm) = slot.arms.load();
        let now = shown(arm.clock);
        let service = self.service;
        let filed = self.known(index);
        if filed.version != Some(version) {
            filed.version = Some(version);
            filed.counted = 0;
            filed.is_outstanding = false;
        }
        let expirations = arm.expirations(now);
        let new = expirations.saturating_sub(filed.counted);
        filed.counted = filed.counted.max(expirations);
        let owed = counted(slot.folded.load(Ordering::Relaxed), version).saturating_add(new);
        let outcome = if owed == 0 {
            Outcome::Done
        } else {
            deliver(service, index, slot, filed, version, owed)
        };
        let again = match outcome {
            Outcome::Replaced => return,
            Outcome::Done => arm.next(now),
            Outcome::Pending => {
                fold(slot, version, new);
                let pause = if arm.interval == 0 { AGAIN_ONCE } else { AGAIN };
                let again = now.saturating_add(pause);
                Some(arm.next(again - 1).unwrap_or(again))
            }
        };
        if let Some(again) = again {
            self.file(index, arm.clock, again);
        }
    }
}

fn timer_of(index: u32, clock: Clock) -> Pin<Box<dyn Operations>> {
    fn on<C: ClockId>(index: u32) -> Pin<Box<dyn Operations>> {
        Box::pin(HrTimer::<_, C>::with_setup(Setup::new(), move |_| {
            DUE.with(|due| due.borrow_mut().push(index));
            Restart::No
        }))
    }
    match clock {
        Clock::Realtime => on::<Realtime>(index),
        Clock::Monotonic => on::<Monotonic>(index),
        Clock::Boottime => on::<Boottime>(index),
        Clock::Tai => on::<Tai>(index),
    }
}

/// Adds `count` to the expirations that wait for the end of a pending notification.
fn fold(slot: &TimerSlot, version: Version, count: u64) {
    // Relaxed: `getoverrun` takes them out at any time, and each is counted once.
    let mut folded = slot.folded.load(Ordering::Relaxed);
    loop {
        let sum = tagged(counted(folded, version).saturating_add(count), version);
        match slot
            .folded
            .compare_exchange_weak(folded, sum, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => return,
            Err(other) => folded = other,
        }
    }
}

/// Sends one notification for `owed` expirations.
fn deliver(
    service: &Service,
    index: u32,
    slot: &TimerSlot,
    filed: &mut Filed,
    version: Version,
    owed: u64,
) -> Outcome {
    let how = slot.how();
    if how == How::Thread {
        return deliver_by_thread(slot, version, owed);
    }
    service.handshake.deliver(index, || {
        if slot.arms.version() != version {
            Outcome::Replaced
        } else if how == How::Descriptor {
            system::add(slot.descriptor(), owed);
            clear(slot, version, owed);
            Outcome::Done
        } else {
            deliver_by_signal(slot, filed, index, version, owed)
        }
    })
}

/// Notes that a notification for `owed` expirations is being sent.
fn clear(slot: &TimerSlot, version: Version, owed: u64) {
    // Relaxed, all: counts. Handlers see them, for the signal comes behind.
    slot.overrun_before
        .store(slot.overrun.load(Ordering::Relaxed), Ordering::Relaxed);
    slot.folded.store(tagged(0, version), Ordering::Relaxed);
    slot.overrun
        .store(tagged(owed - 1, version), Ordering::Relaxed);
}

fn deliver_by_signal(
    slot: &TimerSlot,
    filed: &mut Filed,
    index: u32,
    version: Version,
    owed: u64,
) -> Outcome {
    let signal = slot.signal(index);
    let is_pending = filed.is_outstanding
        && match signal.target {
            // This thread blocks all signals.
            Target::Process => system::is_pending_here(signal.number),
            Target::Thread(thread) => {
                if filed.signals.is_none() {
                    filed.signals = ThreadSignals::of(thread);
                }
                filed
                    .signals
                    .as_ref()
                    .is_some_and(|signals| signals.has(signal.number))
            }
        };
    if is_pending {
        return Outcome::Pending;
    }
    let before = (
        slot.folded.load(Ordering::Relaxed),
        slot.overrun.load(Ordering::Relaxed),
    );
    clear(slot, version, owed);
    // Relaxed: `settime` reads it behind the end of the delivery.
    slot.sent.store(true, Ordering::Relaxed);
    let overrun = std::ffi::c_int::try_from(tagged(owed - 1, version) & 0xffff_ffff)
        .unwrap_or(std::ffi::c_int::MAX);
    match system::send(&signal, overrun) {
        Ok(()) => {
            filed.is_outstanding = true;
            Outcome::Done
        }
        // The user has as many signals queued as may be.
        Err(libc::EAGAIN) => {
            slot.folded.store(before.0, Ordering::Relaxed);
            slot.overrun.store(before.1, Ordering::Relaxed);
            Outcome::Pending
        }
        // The thread has ended.
        Err(_) => Outcome::Done,
    }
}

fn deliver_by_thread(slot: &TimerSlot, version: Version, owed: u64) -> Outcome {
    // Relaxed, both: see the settings of a slot; of the same life as the version, which is read again behind them.
    let (function, attributes) = (
        slot.function.load(Ordering::Relaxed),
        slot.attributes.load(Ordering::Relaxed),
    );
    let value = slot.value();
    fence(Ordering::Acquire);
    if slot.arms.version() != version || function == 0 {
        return Outcome::Replaced;
    }
    let before = slot.folded.load(Ordering::Relaxed);
    clear(slot, version, owed);
    // SAFETY: both are of the settings of one timer; this thread alone frees attributes.
    if unsafe { notify::start(function, value, attributes) } {
        Outcome::Done
    } else {
        slot.folded.store(before, Ordering::Relaxed);
        Outcome::Pending
    }
}
