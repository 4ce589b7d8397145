//! Loom cases for the word through which two CPUs exchange readings of a counter.
//!
//! The counter is a word that another thread increments. Its reads are relaxed, so that only the exchange orders them.

use std::sync::Arc;
use std::vec::Vec;

use loom::thread;
use tickless_link::sync::{AtomicU64, Ordering};

use super::super::{Counter, CounterId};
use super::{Exchange, Look, Role, Side};
use crate::base::model::explore;
use crate::time::convert::{Cycles, Kilohertz};

/// The number of times that threads may be preempted.
const PREEMPTIONS: usize = 3;

const COUNTER: Counter = Counter {
    id: CounterId(1),
    frequency: Kilohertz(1_000_000),
    bits: 64,
    can_inline: false,
};

fn side(exchange: &Exchange, role: Role, attempt: u32) -> Side<'_> {
    Side::new(exchange, role, COUNTER, attempt, 1)
}

/// A CPU reads its own copy after it saw the reading of another CPU, and its own reading is never smaller. In one
/// outcome the second CPU gets the reading; in the other it polls before the reading is sent.
#[test]
fn a_reading_that_is_handed_over_is_before_the_next() {
    explore(PREEMPTIONS, [false, true], || {
        let exchange = Arc::new(Exchange::new());
        let counter = Arc::new(AtomicU64::new(5));
        let second = {
            let (exchange, counter) = (Arc::clone(&exchange), Arc::clone(&counter));
            thread::spawn(move || {
                let mut side = side(&exchange, Role::Second, 0);
                // Relaxed: the exchange orders it.
                let look = side.look(|| Cycles(counter.load(Ordering::Relaxed)));
                if let Some(nearest) = side.heard().nearest {
                    assert!(nearest >= 0, "a lag that is none");
                }
                look == Look::Answered
            })
        };
        // Time passes on the first CPU; relaxed, as any counter.
        counter.store(9, Ordering::Relaxed);
        let mut first = side(&exchange, Role::First, 0);
        first.open(|| Cycles(counter.load(Ordering::Relaxed)));
        second.join().unwrap()
    });
}

/// The first CPU gives up while the second CPU answers. Either the first CPU has closed the exchange and the answer has
/// no effect, or it gets the answer. An answer that arrives even later does not count as an answer to the next try.
#[test]
fn an_answer_against_the_end_of_the_wait() {
    // Whether the first closed, and whether the second answered.
    let outcomes = [(true, false), (false, true)];
    explore(PREEMPTIONS, outcomes, || {
        let exchange = Arc::new(Exchange::new());
        let mut first = side(&exchange, Role::First, 0);
        first.open(|| Cycles(1));
        let second = {
            let exchange = Arc::clone(&exchange);
            thread::spawn(move || {
                side(&exchange, Role::Second, 0).look(|| Cycles(2)) == Look::Answered
            })
        };
        let closed = first.close();
        if closed {
            let mut again = side(&exchange, Role::First, 1);
            again.open(|| Cycles(3));
            assert_eq!(
                again.look(|| Cycles(4)),
                Look::Waiting,
                "no CPU answers this one"
            );
            assert!(again.close());
        } else {
            assert_eq!(first.look(|| Cycles(3)), Look::Over, "one round is all");
            assert_eq!(first.heard().nearest, Some(1));
        }
        (closed, second.join().unwrap())
    });
}

/// The exchange continues to its end, and each side gets its result.
#[test]
fn a_whole_exchange() {
    explore(2, [()], || {
        let exchange = Arc::new(Exchange::new());
        let second = {
            let exchange = Arc::clone(&exchange);
            thread::spawn(move || {
                let mut side = side(&exchange, Role::Second, 0);
                let mut seen = Vec::new();
                while side.heard().readings == 0 {
                    seen.push(side.look(|| Cycles(20)));
                    thread::yield_now();
                }
                assert_eq!(seen.pop(), Some(Look::Answered));
                assert_eq!(side.heard().nearest, Some(10));
            })
        };
        let mut first = side(&exchange, Role::First, 0);
        first.open(|| Cycles(10));
        while first.look(|| Cycles(25)) == Look::Waiting {
            thread::yield_now();
        }
        assert_eq!(first.heard().nearest, Some(5));
        second.join().unwrap();
    });
}
