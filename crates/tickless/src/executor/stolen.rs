//! Time in which a worker could have run and the system ran others.
//!
//! A task is charged for what it has of the worker. When the system takes the CPU away from the worker, for another
//! process or because a real-time thread had its quota, whichever task is being polled has nothing of that, and to
//! charge it would do harm twice: it would wait for as long as all others together need to have as much, and a small
//! task that wakes up meanwhile would stand behind those who are owed that time now. So the clock of a run queue stands
//! still then, as the clock of a kernel's run queue stands still during interrupts (spec X-5, [`RunClock`]).
//!
//! The kernel knows how long a thread waited for a CPU: the second number of `/proc/thread-self/schedstat`. That is
//! asked for at most once a millisecond, by the worker alone, so what is taken away and is shorter is noticed a
//! millisecond later. The clock never goes back: what a task was charged with too much by then, the next is not
//! charged with.
//!
//! Time in which a task *blocks* the thread is not stolen: the task chose to. What a hypervisor takes away is not known
//! to the kernel as a wait, and is charged; so is everything where the kernel does not keep that account.
//!
//! [`RunClock`]: tickless_sched::load::RunClock

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use tickless_core::time::{Instant, Span};
use tickless_sched::RunTime;

/// How often the kernel is asked at most.
const EVERY: Span = Span::from_millis(1);

/// The clock of a worker's run queue: the monotonic one, without what was stolen.
#[derive(Debug)]
pub(crate) struct Stolen {
    /// The account of the worker's thread; none before it began, and where there is none.
    account: Option<OwnedFd>,
    /// When it was read last.
    read: Instant,
    /// What it said first.
    before: u64,
    total: Span,
}

impl Stolen {
    /// Of a worker that did not begin yet: nothing is stolen.
    pub(crate) const fn nothing() -> Self {
        Self {
            account: None,
            read: Instant::ZERO,
            before: 0,
            total: Span::ZERO,
        }
    }

    /// The account of this thread, from here on.
    pub(crate) fn open(now: Instant) -> Self {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let account = rustix::fs::open("/proc/thread-self/schedstat", flags, Mode::empty()).ok();
        let mut stolen = Self {
            account,
            read: now,
            ..Self::nothing()
        };
        stolen.before = stolen.waited().unwrap_or(0);
        stolen
    }

    /// What the run queue's clock shows at `now`. `is_own` says that the worker asks itself.
    #[inline]
    pub(crate) fn run_time(&mut self, now: Instant, is_own: impl FnOnce() -> bool) -> RunTime {
        if now.saturating_since(self.read) >= EVERY && self.account.is_some() && is_own() {
            self.look(now);
        }
        let shown = now.as_nanos().unsigned_abs();
        RunTime::from_nanos(shown.saturating_sub(self.total.as_nanos()))
    }

    /// What was stolen so far, as far as it is known.
    pub(crate) const fn total(&self) -> Span {
        self.total
    }

    #[cold]
    fn look(&mut self, now: Instant) {
        self.read = now;
        if let Some(waited) = self.waited() {
            self.total = Span::from_nanos(waited.saturating_sub(self.before));
        }
    }

    /// How long the thread waited for a CPU since it was made, in nanoseconds.
    fn waited(&self) -> Option<u64> {
        let mut text = [0; 64];
        let length = rustix::io::pread(self.account.as_ref()?, &mut text, 0).ok()?;
        second_number(text.get(..length)?)
    }
}

/// The second of the numbers in `text`, which are apart by spaces.
fn second_number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    #[test]
    fn the_kernel_keeps_an_account_of_waiting() {
        assert_eq!(second_number(b"273698 79469 1\n"), Some(79_469));
        assert_eq!(second_number(b"273698"), None);
        assert_eq!(second_number(b""), None);
        assert_eq!(second_number(b"1 x 2"), None);
        assert_eq!(second_number(&[0xff, b' ', b'1']), None);
    }

    #[test]
    fn without_an_account_the_clock_is_the_monotonic_one() {
        let mut stolen = Stolen::nothing();
        assert_eq!(stolen.run_time(at(5_000), || true).as_nanos(), 5_000_000);
    }

    #[test]
    fn what_was_stolen_is_taken_off_when_the_worker_asks_itself() {
        let (reading, writing) = (tempfile(b"10 2000000 1\n"), at(10_000));
        let mut stolen = Stolen {
            account: Some(reading),
            before: 500_000,
            ..Stolen::nothing()
        };
        let shown = |stolen: &mut Stolen, now, own: bool| stolen.run_time(now, || own).as_nanos();
        assert_eq!(shown(&mut stolen, at(999), true), 999_000, "too soon");
        assert_eq!(shown(&mut stolen, writing, false), 10_000_000, "another");
        assert_eq!(shown(&mut stolen, writing, true), 8_500_000);
        assert_eq!(shown(&mut stolen, at(10_001), false), 8_501_000);
        assert_eq!(stolen.total(), Span::from_nanos(1_500_000));
    }

    /// A file with that content.
    fn tempfile(content: &[u8]) -> OwnedFd {
        let file =
            rustix::fs::memfd_create("account", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        let written = rustix::io::write(&file, content);
        assert_eq!(written, Ok(content.len()));
        file
    }
}
