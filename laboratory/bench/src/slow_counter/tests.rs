//! Tests that the check finds errors: planted records, and a combined read whose late holder breaks the rule.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

const fn read(begin: u64, end: u64, value: u32) -> Record {
    Record { begin, end, value }
}

#[test]
fn reads_that_overlap_may_return_anything_and_others_may_not_go_back() {
    let good = [
        read(0, 10, 5),
        read(5, 30, 4),
        read(31, 40, 5),
        read(35, 50, 6),
    ];
    let mut checker = Checker::default();
    assert_eq!(checker.check(&mut good.clone()), Ok(()));
    assert_eq!((checker.checked, checker.overlapping), (4, 2));
    // The end of a read is no order: it may be the same moment.
    assert_eq!(
        Checker::default().check(&mut [read(0, 10, 5), read(10, 20, 4)]),
        Ok(())
    );
    let bad = [read(11, 20, 4), read(0, 10, 5), read(0, 9, 3)];
    let found = Checker::default().check(&mut bad.clone());
    let expected = Backwards {
        before: bad[1],
        after: bad[0],
    };
    assert_eq!(found, Err(expected));
    // From one batch to the next.
    assert!(checker.check(&mut [read(60, 70, 5)]).is_err());
    assert!(checker.check(&mut [read(60, 70, 6)]).is_ok());
}

#[test]
fn a_counter_that_wraps_goes_on() {
    let mut checker = Checker::default();
    assert_eq!(
        checker.check(&mut [read(0, 1, u32::MAX), read(2, 3, 0), read(4, 5, 7)]),
        Ok(())
    );
    assert!(checker.check(&mut [read(6, 7, u32::MAX)]).is_err());
}

#[test]
fn direct_and_combined_reads_do_not_go_back() {
    let register = SlowRegister::new();
    let joined = Joined::new(&register);
    let start = Instant::now();
    for threads in THREADS {
        let mut direct = record(&Direct(&register), threads, 300, start);
        assert_eq!(Checker::default().check(&mut direct), Ok(()));
        let mut joined = record(&joined, threads, 300, start);
        let mut checker = Checker::default();
        assert_eq!(checker.check(&mut joined), Ok(()));
        assert_eq!(checker.checked, u64::from(threads) * 300);
    }
}

/// A counter whose samples end on a signal. The value of a sample is its number.
struct Scripted {
    taken: AtomicU32,
    began: Sender<()>,
    /// The signals that end the samples, one for each sample.
    ends: [Mutex<Receiver<()>>; 3],
    impatient: AtomicBool,
    looks: AtomicU64,
}

impl Scripted {
    fn sample(&self) -> u32 {
        let number = self.taken.fetch_add(1, Ordering::SeqCst);
        self.began.send(()).expect("the test listens");
        let end = self.ends.get(number as usize);
        if let Some(end) = end {
            end.lock()
                .expect("one waits")
                .recv()
                .expect("the test tells");
        }
        number
    }

    fn relax(&self) -> Patience {
        self.looks.fetch_add(1, Ordering::SeqCst);
        thread::yield_now();
        if self.impatient.load(Ordering::SeqCst) {
            Patience::Ends
        } else {
            Patience::Lasts
        }
    }
}

impl SlowCounter for &Scripted {
    type Sample = Cycles;
    type Masked = ();
    fn sample(&self) -> Cycles {
        Cycles(Scripted::sample(self).into())
    }
    fn mask(&self) {}
    fn unmask(&self, (): ()) {}
    fn relax(&self, _attempt: u32) -> Patience {
        Scripted::relax(self)
    }
}

impl Read for Combined<&Scripted> {
    fn read(&self) -> u32 {
        low(self.read_joined().0)
    }
}

/// A [`Combined`] without the rule of generations: a holder publishes even after the word has changed.
struct Lawless<'s> {
    counter: &'s Scripted,
    /// The lock in the lowest bit.
    word: AtomicU64,
}

impl Lawless<'_> {
    fn publish(&self, value: u32) -> u32 {
        self.word.store(u64::from(value) << 1, Ordering::SeqCst);
        value
    }
}

impl Read for Lawless<'_> {
    fn read(&self) -> u32 {
        let entry = self.word.load(Ordering::SeqCst);
        let locked =
            self.word
                .compare_exchange(entry & !1, entry | 1, Ordering::SeqCst, Ordering::SeqCst);
        if locked.is_ok() {
            return self.publish(self.counter.sample());
        }
        loop {
            let now = self.word.load(Ordering::SeqCst);
            if now != entry || now & 1 == 0 {
                return low(now >> 1);
            }
            if self.counter.relax() == Patience::Ends {
                return self.publish(self.counter.sample());
            }
        }
    }
}

/// Runs a scenario with four threads. A holds the word and does not run. B replaces A as the holder, and returns a
/// value. C locks the word, and D waits for C. Then A runs again. The value that D returns is compared with the value
/// that B returned before D began.
fn late_holder<'s, R: Read + 's>(make: impl FnOnce(&'s Scripted) -> R) -> Result<(), Backwards> {
    let (began, samples) = channel();
    let (tells, ends): (Vec<_>, Vec<_>) = (0..3).map(|_| channel()).unzip();
    let ends: Vec<_> = ends.into_iter().map(Mutex::new).collect();
    let counter: &'s Scripted = Box::leak(Box::new(Scripted {
        taken: AtomicU32::new(0),
        began,
        ends: ends.try_into().expect("three"),
        impatient: AtomicBool::new(false),
        looks: AtomicU64::new(0),
    }));
    let subject = make(counter);
    let clock = AtomicU64::new(0);
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let one = || {
        let begin = tick();
        let value = subject.read();
        read(begin, tick(), value)
    };
    let mut records = thread::scope(|scope| {
        let a = scope.spawn(one);
        samples.recv().expect("A samples");
        counter.impatient.store(true, Ordering::SeqCst);
        tells[1].send(()).expect("B listens");
        let b = scope.spawn(one).join().expect("B replaces A");
        samples.recv().expect("B sampled");
        counter.impatient.store(false, Ordering::SeqCst);
        let c = scope.spawn(one);
        samples.recv().expect("C samples");
        let looks = || counter.looks.load(Ordering::SeqCst);
        let before = looks();
        let d = scope.spawn(one);
        while looks() == before {
            thread::yield_now();
        }
        tells[0].send(()).expect("A listens");
        let a = a.join().expect("A comes back");
        // D has looked at what A left, or has left with it.
        let before = looks();
        while looks() < before + 2 && !d.is_finished() {
            thread::yield_now();
        }
        tells[2].send(()).expect("C listens");
        vec![a, b, c.join().expect("C"), d.join().expect("D")]
    });
    Checker::default().check(&mut records)
}

/// The control: the check must find a holder that overwrites a later value.
#[test]
fn the_check_finds_a_late_holder_where_the_rule_of_generations_is_broken() {
    let found = late_holder(|counter| Lawless {
        counter,
        word: AtomicU64::new(0),
    });
    let Err(Backwards { before, after }) = found else {
        panic!("it was not found")
    };
    assert_eq!((before.value, after.value), (1, 0));
}

/// Spec C-6.3, C-6.5.
#[test]
fn a_late_holder_of_a_combined_counter_turns_nothing_back() {
    assert_eq!(late_holder(Combined::<&Scripted>::new), Ok(()));
}
