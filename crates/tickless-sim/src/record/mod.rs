//! Recordings: all events of a run, passed to a [`Sink`].
//!
//! A [`Sink`] is told in the order in which things happen, which is also the order of their causes: the cancelling of a
//! timer comes after its arming. Nothing is kept here but the numbers of timers, and a run without a sink does not even
//! have those.

pub(crate) mod counts;
pub(crate) mod distribution;
mod event;
mod hooks;
pub(crate) mod tally;

pub use counts::Counts;
pub use distribution::Distribution;
pub use event::{End, GroupState, Header, Record, Recorded};
pub use tally::Tally;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use tickless_core::time::Instant;

use crate::clock::Clocks;
use crate::model::current_cpu;
use crate::model::time::Picos;

/// A receiver of a recording.
pub trait Sink {
    /// Begins the recording.
    fn begin(&mut self, header: &Header);

    /// Receives an event.
    fn take(&mut self, record: &Record);

    /// Ends the recording.
    fn end(&mut self, end: End);
}

/// A sink that its owner can still read after the run.
pub type SharedSink = Rc<RefCell<dyn Sink>>;

/// A timer that was heard of.
#[derive(Clone, Copy)]
struct Known {
    id: u64,
    is_exact: bool,
}

/// Records events for a sink.
pub(crate) struct Recorder {
    sink: SharedSink,
    /// The timers by their addresses, which may become those of others: a timer that goes has to be forgotten.
    known: RefCell<BTreeMap<usize, Known>>,
    timers: Cell<u64>,
    /// The clocks of the CPUs, whose times the records have.
    clocks: OnceCell<Rc<Clocks>>,
    /// The machine is complete, and not over yet.
    is_open: Cell<bool>,
}

impl Recorder {
    pub(crate) fn new(sink: SharedSink) -> Self {
        Self {
            sink,
            known: RefCell::default(),
            timers: Cell::new(0),
            clocks: OnceCell::new(),
            is_open: Cell::new(false),
        }
    }

    /// Times are those of `clocks`.
    pub(crate) fn goes_by(&self, clocks: &Rc<Clocks>) {
        let _first = self.clocks.set(Rc::clone(clocks));
    }

    /// Returns the monotonic clock of `cpu` at `at`, in nanoseconds.
    fn shown(&self, cpu: Option<u32>, at: Picos) -> u64 {
        let cpu = cpu.unwrap_or(current_cpu::NO_CPU);
        let clocks = self.clocks.get();
        clocks
            .map_or(at, |clocks| clocks.shows_picos(cpu, at))
            .as_nanos()
    }

    pub(crate) fn begin(&self, header: &Header) {
        self.sink.borrow_mut().begin(header);
    }

    /// The CPU that executes did this, now.
    fn take(&self, what: Recorded) {
        let cpu = Some(current_cpu::cpu()).filter(|cpu| *cpu != current_cpu::NO_CPU);
        self.take_at(cpu, current_cpu::cursor(), what);
    }

    fn take_at(&self, cpu: Option<u32>, at: Picos, what: Recorded) {
        if !self.is_open.get() {
            return;
        }
        let time = self.shown(cpu, at);
        self.sink.borrow_mut().take(&Record { time, cpu, what });
    }

    /// The run is over; what its end does to its timers is not told.
    pub(crate) fn end(&self, at: Picos, queued: u64) {
        let time = self.shown(None, at);
        self.sink.borrow_mut().end(End { time, queued });
        self.is_open.set(false);
    }

    /// The number of the timer that the core calls by this address.
    fn number(&self, address: usize, is_exact: bool) -> u64 {
        let mut known = self.known.borrow_mut();
        let known = known.entry(address).or_insert_with(|| {
            let id = self.timers.get();
            self.timers.set(id + 1);
            Known { id, is_exact }
        });
        known.id
    }

    /// Returns the record of the timer that the core calls by this address, if it has appeared.
    fn known(&self, address: usize) -> Option<Known> {
        self.known.borrow().get(&address).copied()
    }

    /// The number of a timer, if it was heard of. The core calls it by some address within it.
    fn number_of<T>(&self, timer: &T) -> Option<u64> {
        let known = self.known.borrow();
        let mut inside = known.range(place(timer));
        inside.next().map(|(_, known)| known.id)
    }

    /// A timer goes; what comes to lie in its place is another one.
    pub(crate) fn forget<T>(&self, timer: &T) {
        let mut known = self.known.borrow_mut();
        let inside = known
            .range(place(timer))
            .next()
            .map(|(address, _)| *address);
        if let Some(address) = inside {
            known.remove(&address);
        }
    }
}

/// The addresses of a timer.
fn place<T>(timer: &T) -> std::ops::Range<usize> {
    let first = std::ptr::from_ref(timer) as usize;
    first..first + size_of::<T>()
}

/// A time as recordings write it.
fn nanos(time: Instant) -> Option<i64> {
    (!time.is_forever()).then(|| time.as_nanos())
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Recorder")
            .field("timers", &self.timers)
            .finish_non_exhaustive()
    }
}
