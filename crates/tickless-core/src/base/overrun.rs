//! Timers whose callbacks restart them into the past again and again.
//!
//! If a callback takes longer than the time by which it moves the deadline of its timer forward, the timer is due again
//! whenever the callback ends, so the thread would do nothing else. Other timers are late only because their thread
//! lost the CPU. Such a timer moves its deadline by more than the time of its callback and catches up; pauses would
//! only delay it.
//!
//! # Mechanism
//!
//! A table holds the timers that were last restarted into the past. For each timer it adds up, over [`WINDOW`] such
//! restarts, the time for which the thread was busy and the distance by which the deadline moved. If the busy time is
//! longer than the distance, the timer is *overrun*. It is then paced: after each callback it waits for a pause. The
//! pause doubles with each window, up to [`PAUSE_MAX`] and to the timer's own period. If the distance is longer, or the
//! deadline is in the future again, the timer is removed from the table and no longer paced.
//!
//! # Limits
//!
//! The table holds at most [`PLACES`] timers; further timers are not paced. A timer is identified by its address, so a
//! new timer at the address of a dropped timer may be paced until its first window ends.
//!
//! # Cost
//!
//! A restart into the past costs a reading of the clock and a search of the table. Any other restart costs one load.

use crate::time::{Deadline, Span};

/// The number of restarts into the past after which a timer is judged.
pub(crate) const WINDOW: u32 = 32;

/// The first pause, in nanoseconds. Each further window doubles the pause.
const PAUSE_MIN: i64 = 16_000;

/// The longest pause, in nanoseconds.
pub(crate) const PAUSE_MAX: i64 = 1_000_000;

/// The number of timers that are watched at a time.
pub(crate) const PLACES: usize = 4;

/// The time in nanoseconds after which a timer that was not restarted into the past is judged from the beginning: 1 s.
const FORGOTTEN_AFTER: i64 = 1_000_000_000;

/// A timer whose callback takes longer than the time by which it moves the deadline forward, so that the timer is
/// always due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overrun {
    /// The name of the callback in dumps.
    pub name: &'static str,
    /// The time for which the timer has been paced.
    pub lasts: Span,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LateRestart {
    /// The address of the timer. It is compared but never dereferenced.
    pub(crate) timer: usize,
    /// The time of the pass that called the callback.
    pub(crate) began: Deadline,
    /// The time at which the callback was over.
    pub(crate) ended: Deadline,
    /// The distance by which the callback moved the deadline forward, in nanoseconds.
    pub(crate) moved: i64,
}

/// The consequence of a restart into the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// The time for which the timer waits after its callback; `None` if the timer is not paced.
    pub(crate) pause: Option<Span>,
    /// The time for which the timer has been paced, reported at the end of each window.
    pub(crate) lasts: Option<Span>,
}

/// A timer that is watched. All times are on the clock of the timer.
#[derive(Clone, Copy, Debug)]
struct Watched {
    timer: usize,
    /// The number of restarts into the past since the window began.
    restarts: u32,
    /// The time for which the thread was busy with these restarts, in nanoseconds.
    busy: i64,
    /// The distance by which these restarts moved the deadline forward, in nanoseconds.
    moved: i64,
    /// The end of the last callback that restarted the timer into the past.
    ended: Deadline,
    /// The pause after each callback, in nanoseconds; 0 while the timer is not paced.
    pause: i64,
    /// The time since which the timer has been paced.
    since: Deadline,
}

impl Watched {
    fn of(restart: &LateRestart) -> Self {
        Self {
            timer: restart.timer,
            restarts: 0,
            busy: 0,
            moved: 0,
            ended: restart.began,
            pause: 0,
            since: restart.began,
        }
    }

    /// Judges the timer at the end of a window. Returns false if the timer catches up by itself.
    fn judge(&mut self) -> bool {
        if self.busy < self.moved {
            return false;
        }
        if self.pause == 0 {
            self.since = self.ended;
        }
        let period = self.moved / i64::from(WINDOW);
        let longest = if period > 0 { period } else { PAUSE_MAX };
        let doubled = self.pause.saturating_mul(2).max(PAUSE_MIN);
        self.pause = doubled.min(longest.clamp(PAUSE_MIN, PAUSE_MAX));
        (self.restarts, self.busy, self.moved) = (0, 0, 0);
        true
    }
}

/// The timers of a base that were last restarted into the past.
#[derive(Debug)]
pub(crate) struct Overruns {
    places: [Option<Watched>; PLACES],
    is_empty: bool,
}

impl Overruns {
    pub(crate) const fn new() -> Self {
        Self {
            places: [None; PLACES],
            is_empty: true,
        }
    }

    /// Notes that a timer was restarted for a time in the future.
    #[inline]
    pub(crate) fn caught_up(&mut self, timer: usize) {
        if !self.is_empty {
            self.forget(timer);
        }
    }

    #[cold]
    fn forget(&mut self, timer: usize) {
        for place in &mut self.places {
            if place.is_some_and(|watched| watched.timer == timer) {
                *place = None;
            }
        }
        self.is_empty = self.places.iter().all(Option::is_none);
    }

    pub(crate) fn note(&mut self, restart: &LateRestart) -> Pace {
        let Some(watched) = self.watched(restart) else {
            return Pace::default();
        };
        let from = watched.ended.max(restart.began);
        watched.restarts += 1;
        watched.busy = watched
            .busy
            .saturating_add(restart.ended.saturating_sub(from).max(0));
        watched.moved = watched.moved.saturating_add(restart.moved);
        watched.ended = restart.ended;
        let mut lasts = None;
        if watched.restarts >= WINDOW {
            if !watched.judge() {
                self.forget(restart.timer);
                return Pace::default();
            }
            lasts = Some(span(watched.ended.saturating_sub(watched.since)));
        }
        Pace {
            pause: (watched.pause > 0).then(|| span(watched.pause)),
            lasts,
        }
    }

    /// Returns the place of the timer of `restart`: its own place, an empty place, or the place of a timer that is not
    /// paced.
    fn watched(&mut self, restart: &LateRestart) -> Option<&mut Watched> {
        self.is_empty = false;
        let own = |place: &Option<Watched>| place.is_some_and(|it| it.timer == restart.timer);
        let found = self.places.iter().position(own);
        let index = found.or_else(|| {
            // The one with the fewest restarts gives way: timers that take turns would else push each other out.
            let rank = |index: &usize| {
                self.places[*index].map_or((false, 0), |it| (it.pause > 0, it.restarts + 1))
            };
            (0..PLACES).min_by_key(rank).filter(|index| !rank(index).0)
        })?;
        let place = &mut self.places[index];
        let is_stale = place.is_none_or(|it| {
            it.timer != restart.timer || restart.began.saturating_sub(it.ended) > FORGOTTEN_AFTER
        });
        if is_stale {
            *place = Some(Watched::of(restart));
        }
        place.as_mut()
    }
}

fn span(nanos: i64) -> Span {
    Span::from_nanos(nanos.max(0).unsigned_abs())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::time::{Instant, Monotonic};

    fn at(nanos: i64) -> Deadline {
        Deadline::new(Instant::<Monotonic>::from_nanos(nanos))
    }

    /// Notes `times` restarts of a timer whose callback takes `work` and moves its deadline forward by `moved`, without
    /// a pause in between. Returns the consequence of the last restart.
    fn overrun(overruns: &mut Overruns, start: i64, times: u32, (work, moved): (i64, i64)) -> Pace {
        let mut pace = Pace::default();
        for time in 0..i64::from(times) {
            pace = overruns.note(&LateRestart {
                timer: 1,
                began: at(start + time * work),
                ended: at(start + (time + 1) * work),
                moved,
            });
        }
        pace
    }

    fn pause(nanos: u64) -> Option<Span> {
        Some(Span::from_nanos(nanos))
    }

    #[test]
    fn a_timer_that_takes_longer_than_its_period_is_paced_by_up_to_its_period() {
        let mut overruns = Overruns::new();
        let work = (400_000, 100_000);
        assert_eq!(overrun(&mut overruns, 0, WINDOW - 1, work), Pace::default());
        let mut start = 400_000 * i64::from(WINDOW - 1);
        let first = overrun(&mut overruns, start, 1, work);
        assert_eq!(first.pause, pause(16_000));
        assert_eq!(first.lasts, Some(Span::ZERO));
        for expected in [32_000, 64_000, 100_000, 100_000] {
            start += 400_000 * i64::from(WINDOW);
            assert_eq!(
                overrun(&mut overruns, start, WINDOW, work).pause,
                pause(expected)
            );
        }
    }

    #[test]
    fn a_timer_that_does_not_move_on_is_paced_by_up_to_a_millisecond() {
        let mut overruns = Overruns::new();
        let pace = overrun(&mut overruns, 0, WINDOW * 12, (100, 0));
        assert_eq!(pace.pause, pause(1_000_000));
        assert!(pace.lasts > Some(Span::ZERO));
    }

    /// A paced timer that catches up is not slowed further, because its pauses are not counted as work.
    #[test]
    fn a_timer_that_catches_up_is_not_paced() {
        let mut overruns = Overruns::new();
        let behind = (90_000, 100_000);
        assert_eq!(
            overrun(&mut overruns, 0, WINDOW * 4, behind),
            Pace::default()
        );
        let mut start = 1_000_000_000;
        let paced = overrun(&mut overruns, start, WINDOW, (400_000, 100_000));
        assert!(paced.pause.is_some());
        start += 400_000 * i64::from(WINDOW);
        let mut pace = Pace::default();
        for _ in 0..WINDOW {
            start += 500_000;
            pace = overrun(&mut overruns, start, 1, behind);
        }
        assert_eq!(pace, Pace::default());
        assert!(overruns.is_empty);
    }

    #[test]
    fn a_timer_that_is_ahead_again_is_forgotten() {
        let mut overruns = Overruns::new();
        let paced = overrun(&mut overruns, 0, WINDOW, (100, 0));
        assert!(paced.pause.is_some());
        overruns.caught_up(2);
        assert!(!overruns.is_empty, "another timer");
        overruns.caught_up(1);
        assert!(overruns.is_empty);
        assert_eq!(overrun(&mut overruns, 9_000, 1, (100, 0)), Pace::default());
    }

    #[test]
    fn a_long_time_ahead_begins_anew() {
        let mut overruns = Overruns::new();
        let _paced = overrun(&mut overruns, 0, WINDOW, (100, 0));
        assert_eq!(
            overrun(&mut overruns, 2_000_000_000, 1, (100, 0)),
            Pace::default()
        );
    }

    #[test]
    fn timers_that_are_paced_keep_their_places() {
        let mut overruns = Overruns::new();
        let note = |overruns: &mut Overruns, timer: usize, time: i64| {
            overruns.note(&LateRestart {
                timer,
                began: at(time),
                ended: at(time),
                moved: 0,
            })
        };
        for time in 0..i64::from(WINDOW) {
            for timer in 1..=PLACES {
                let _pace = note(&mut overruns, timer, time);
            }
        }
        for time in 0..i64::from(WINDOW * 2) {
            assert_eq!(note(&mut overruns, PLACES + 1, time), Pace::default());
        }
        for timer in 1..=PLACES {
            assert!(note(&mut overruns, timer, 100).pause.is_some());
        }
    }
}
