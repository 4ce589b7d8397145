//! Loom cases for the guard: no reader that finds the guard on uses the record of another counter (TIM-44).
//!
//! The record in these cases has two words, because the real record has too many words for loom. The reader models a
//! CPU: it reads, is interrupted and reports that it has seen the guard off, and reads again.

use loom::sync::Arc;
use loom::thread;
use tickless_link::seqlock::{SeqCell, Writer};
use tickless_link::sync::{AtomicU8, Ordering, spin_loop};

use super::{Guard, Steps};

/// The counter that the inlined read reads, and another counter.
const INLINED: u64 = 1;
const OTHER: u64 = 2;

struct World {
    guard: Guard,
    record: SeqCell<2>,
    asked: AtomicU8,
    answered: AtomicU8,
}

impl World {
    fn new(counter: u64) -> (Arc<Self>, Writer) {
        let (record, writer) = SeqCell::new([counter, counter]);
        let world = Self {
            guard: Guard::new(counter == INLINED),
            record,
            asked: AtomicU8::new(0),
            answered: AtomicU8::new(0),
        };
        (Arc::new(world), writer)
    }

    /// Reads the clock once.
    fn reads(&self) {
        let is_on = self.guard.is_on();
        let [counter, same] = self.record.read();
        assert_eq!(counter, same);
        assert!(!is_on || counter == INLINED, "TIM-44");
    }

    fn runs(&self) {
        self.reads();
        // Acquire: the interrupt; pairs with the Release in `see_off`.
        while self.asked.load(Ordering::Acquire) == 0 {
            spin_loop();
        }
        // Release: pairs with the Acquire in `see_off`; the reading is over.
        self.answered.store(1, Ordering::Release);
        self.reads();
    }
}

struct Switch<'a> {
    world: &'a World,
    writer: Writer,
    to: u64,
}

impl Steps for Switch<'_> {
    fn see_off(&mut self) {
        // Release: the interrupt; pairs with the Acquire in `runs`. The CPU sees the guard off from there on.
        self.world.asked.store(1, Ordering::Release);
        // Acquire: pairs with the Release in `runs`.
        while self.world.answered.load(Ordering::Acquire) == 0 {
            spin_loop();
        }
    }

    fn install(&mut self) -> bool {
        self.world.record.publish(&mut self.writer, [self.to; 2]);
        true
    }

    fn may_inline(&mut self) -> bool {
        self.world.record.read()[0] == INLINED
    }

    fn tell(&mut self) {}
}

fn switches(from: u64, to: u64) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let (world, writer) = World::new(from);
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.runs())
        };
        let mut switch = Switch {
            world: &world,
            writer,
            to,
        };
        assert!(world.guard.switch(&mut switch));
        assert_eq!(world.guard.is_on(), to == INLINED);
        reader.join().unwrap();
    });
}

#[test]
fn no_reader_reads_inline_when_another_counter_takes_over() {
    switches(INLINED, OTHER);
}

#[test]
fn no_reader_reads_inline_before_the_counter_drives_the_time() {
    switches(OTHER, INLINED);
}
