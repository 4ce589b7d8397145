//! The service thread, which enqueues all POSIX timers that no timer of the kernel has, and calls `deliver` for those
//! that are due.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::mpsc::channel;
use std::thread::{self, Builder};
use std::time::Duration;

use tickless::hrtimer::{
    Boottime, Clock, ClockId, HrTimer, Monotonic, Realtime, Restart, Setup, Tai,
};
use tickless::{Unparker, Worker};

use crate::clock::{monotonic, shown_by_kernel};
use crate::errno::Errno;
use crate::main_thread;
use crate::posix::deliver::{self, Next, RETRY};
use crate::posix::table::{Table, TimerSlot};
use crate::posix::{fork, system};
use crate::structure::Operations;

/// The service: all POSIX timers of the process, and the data that they share with the service thread.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) table: Table,
    /// The first slot of the inbox plus one; zero if the inbox is empty.
    inbox: AtomicU32,
    /// The time at which the thread wakes up by itself, on the monotonic clock; zero while the thread is awake and will
    /// check the inbox.
    next: AtomicU64,
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
        // Acquire and release: those who start it come one after another.
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
    main_thread::forget();
    IS_STARTING.store(0, Ordering::Relaxed);
}

fn start() -> Result<&'static Service, Errno> {
    fork::watch(forget);
    main_thread::notice_end();
    let (sender, receiver) = channel::<&'static Service>();
    let body = move || {
        let Ok(worker) = Worker::new() else { return };
        main_thread::note_service();
        // Its closures note what is due on this thread.
        worker.set_helped(false);
        // Only here: a thread that the system refuses leaves nothing behind.
        let service: &'static Service = Box::leak(Box::new(Service {
            table: Table::new(),
            inbox: AtomicU32::new(0),
            next: AtomicU64::new(0),
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

impl Service {
    /// Has the thread call `deliver::serve` for a slot at the time `next`. Wakes the thread if this is before the time
    /// at which the thread wakes up by itself.
    pub(super) fn call_at(&self, index: u32, slot: &TimerSlot, next: Next) {
        let at = match next {
            Next::Done => return,
            Next::At(Clock::Monotonic, at) => at,
            // How a time of another clock compares changes.
            Next::At(..) | Next::Refused(_) => 0,
        };
        self.changed(index, slot);
        // Sequentially consistent: pairs with the fence of `wait`. Either this sees when the thread wakes up, or that
        // sees the slot.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if at <= self.next.load(Ordering::Relaxed) {
            self.unparker.unpark();
        }
    }

    /// Has the thread look at the record of a slot when it wakes up by itself.
    pub(super) fn changed(&self, index: u32, slot: &TimerSlot) {
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
}

thread_local! {
    /// The slots whose timers fired in this turn.
    static DUE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// A timer of Tickless, and its clock.
type Filed = (Clock, Pin<Box<dyn Operations>>);

/// The service thread, with its worker and the timers of the slots that wait for it.
struct Thread {
    service: &'static Service,
    filed: Vec<Option<Filed>>,
    worker: Worker,
}

impl Thread {
    fn run(&mut self) {
        loop {
            self.drain();
            self.wait();
            let due = DUE.with(|due| std::mem::take(&mut *due.borrow_mut()));
            self.serve(&due);
        }
    }

    /// Sleeps until a timer is due, unless the inbox has a slot.
    fn wait(&self) {
        let next = self.worker.next_deadline().map_or(u64::MAX, monotonic);
        // Relaxed, both: ordered by the fence.
        self.service.next.store(next.max(1), Ordering::Relaxed);
        // Sequentially consistent: pairs with the fence of `Service::call_at`.
        fence(Ordering::SeqCst);
        if self.service.inbox.load(Ordering::Relaxed) == 0 {
            let _turn = self.worker.park();
        } else {
            let _turn = self.worker.turn();
        }
        // Relaxed: from here on the inbox is looked at before the next fence.
        self.service.next.store(0, Ordering::Relaxed);
    }

    /// Processes all slots of the inbox: enqueues those that are armed, and frees the timers of the others.
    fn drain(&mut self) {
        // Acquire: pairs with `changed`.
        let mut first = self.service.inbox.swap(0, Ordering::Acquire);
        while let Some(index) = first.checked_sub(1) {
            let Some(slot) = self.service.table.slot(index) else {
                return;
            };
            // Relaxed: published by the exchange that put the slot there.
            first = slot.link.load(Ordering::Relaxed);
            // Acquire and release: pairs with `changed`. What is replaced from here on puts the slot there again.
            slot.listed.swap(false, Ordering::AcqRel);
            let (_, arm) = slot.arms.load();
            self.file(index, deliver::first(slot, &arm));
        }
    }

    /// Calls `deliver::serve` for the slots that are due, one directly after another, and only then enqueues those
    /// that need another call.
    fn serve(&mut self, due: &[u32]) {
        let table = &self.service.table;
        let slots = due
            .iter()
            .filter_map(|&index| Some((index, table.slot(index)?)));
        let next: Vec<_> = slots
            .map(|(index, slot)| (index, deliver::serve(slot)))
            .collect();
        if next
            .iter()
            .any(|(_, next)| matches!(next, Next::Refused(_)))
        {
            table.slots().for_each(deliver::reclaim);
        }
        for (index, next) in next {
            self.file(index, next);
        }
    }

    /// Starts the timer of a slot, or frees it if the slot needs no call. Makes the timer first if the slot has none on
    /// this clock.
    fn file(&mut self, index: u32, next: Next) {
        let (clock, at) = match next {
            Next::Done => {
                if let Some(filed) = self.filed.get_mut(index as usize) {
                    *filed = None;
                }
                return;
            }
            Next::At(clock, at) => (clock, at),
            Next::Refused(clock) => (clock, shown_by_kernel(clock).saturating_add(RETRY)),
        };
        let place = index as usize;
        if self.filed.len() <= place {
            self.filed.resize_with(place + 1, || None);
        }
        let filed = &mut self.filed[place];
        let timer = match filed.take() {
            Some((of, timer)) if of == clock => timer,
            _ => timer_of(index, clock),
        };
        let (_, timer) = filed.insert((clock, timer));
        timer.as_ref().start(at, 0);
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
