//! Recordings: all events of a run, passed to a [`Sink`].
//!
//! A [`Sink`] receives the events in the order in which they happen, which is also the order of their causes: the
//! cancellation of a timer follows its arming. A recorder stores only the numbers of timers, and a run without a sink
//! does not even store these.

pub(crate) mod counts;
pub(crate) mod distribution;
mod event;
mod hooks;
pub(crate) mod tally;

pub use counts::Counts;
pub use distribution::Distribution;
pub use event::{End, Header, MachineEvent, Record, Recorded};
pub use tally::Tally;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use tickless_core::trace::line::Number;

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

/// A sink that the caller can still read after the run.
pub type SharedSink = Rc<RefCell<dyn Sink>>;

/// Records events for a sink.
pub(crate) struct Recorder {
    sink: SharedSink,
    /// The timers by their addresses. An address may be reused by another timer, so that a timer has to be forgotten
    /// when it is freed.
    known: RefCell<BTreeMap<usize, Number>>,
    timers: Cell<u64>,
    /// The clocks of the CPUs, which give the times of the records.
    clocks: OnceCell<Rc<Clocks>>,
    /// True while the machine is complete and the run has not ended.
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

    /// Sets the `clocks` that give the times of the records.
    pub(crate) fn goes_by(&self, clocks: &Rc<Clocks>) {
        let _first = self.clocks.set(Rc::clone(clocks));
    }

    /// Returns the time on the monotonic clock of `cpu` at `at`, in nanoseconds.
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

    /// Records an action of the CPU that executes, at its present time.
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

    /// Ends the recording at the end of the run. The effects of the end on the timers are not recorded.
    pub(crate) fn end(&self, at: Picos, queued: u64) {
        let time = self.shown(None, at);
        self.sink.borrow_mut().end(End { time, queued });
        self.is_open.set(false);
    }

    /// Returns the number of the timer that the core identifies by this address.
    fn number(&self, address: usize, is_exact: bool) -> Number {
        let mut known = self.known.borrow_mut();
        *known.entry(address).or_insert_with(|| {
            let number = self.timers.get();
            self.timers.set(number + 1);
            Number { number, is_exact }
        })
    }

    /// Returns the number of the timer that the core identifies by this address, if the timer has appeared.
    fn known(&self, address: usize) -> Option<Number> {
        self.known.borrow().get(&address).copied()
    }

    /// Returns the number of a timer, if the timer has appeared. The core identifies a timer by an address within it.
    fn number_of<T>(&self, timer: &T) -> Option<u64> {
        let known = self.known.borrow();
        let mut inside = known.range(place(timer));
        inside.next().map(|(_, known)| known.number)
    }

    /// Forgets a timer that is about to be freed: a timer at the same address later is another one.
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

/// Returns the addresses that a timer occupies.
fn place<T>(timer: &T) -> std::ops::Range<usize> {
    let first = std::ptr::from_ref(timer) as usize;
    first..first + size_of::<T>()
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Recorder")
            .field("timers", &self.timers)
            .finish_non_exhaustive()
    }
}
