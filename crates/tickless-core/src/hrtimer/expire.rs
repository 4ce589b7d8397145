//! The timer interrupt and the soft stage (spec ).

use core::task::Waker;

use tickless_link::entry::{Fired, Running};
use tickless_link::tree::OwnedEntry;

use crate::base::guard::{BaseGuard, HANG_BACKOFF_MAX};
use crate::base::overrun::{LateRestart, Overrun};
use crate::base::runner::{Batch, Ran, Runner};
use crate::base::state::DeferredRearm;
use crate::base::timers::Timers;
use crate::clock::SetSequence;
use crate::cpu::CpuId;
use crate::exact::family::{ExpiryRange, Firing, Hr};
use crate::exact::far_wheel;
use crate::exact::queues::{HARD, SOFT, bits};
use crate::hrtimer::rearm::First;
use crate::platform::Platform;
use crate::restart::Restart;
use crate::time::{Clock, Deadline, Instant, Offset, Span};
use crate::trace::{Event, Placement, StartMode, TimerId};

/// The longest time of a pass in which timers that are restarted into the past still fire: 100 µs. In a shorter pass a
/// timer that is late catches up without a turn for each of its periods. In a longer pass it waits for the next turn.
const CATCH_UP_MAX: i64 = 100_000;

/// The number of passes over the queues after which an interrupt gives up (spec IRQ-1).
const PASSES_MAX: u32 = 3;

/// The result of an interrupt or a soft stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the host has to know whether more is due"]
pub struct ExpiryReport {
    /// The number of timers that fired.
    pub fired: u32,
    /// The next event of the CPU among the queues that this stage evaluates.
    pub next: Instant,
    /// True if the interrupt raised the soft stage.
    pub soft_raised: bool,
    /// True if more timers are due, because the budget is spent, or because timers were restarted into the past for so
    /// long that other work should run first. The device is programmed for a time in the past.
    pub more: bool,
    /// A timer that is paced, because its callback runs for longer than the callback moves the deadline ahead. The
    /// report is repeated at intervals while the timer is paced.
    pub overrun: Option<Overrun>,
}

impl ExpiryReport {
    const NOTHING: Self = Self {
        fired: 0,
        next: Instant::FOREVER,
        soft_raised: false,
        more: false,
        overrun: None,
    };
}

impl<'a, P: Platform> Runner<'a, P> {
    /// Fires the timers that are due at `now` in the queues of `mask` (spec ).
    ///
    /// `now` is read once for a pass. Timers that become due meanwhile belong to the next pass.
    fn run(
        &mut self,
        mut held: BaseGuard<'a, P>,
        now: Instant,
        mask: u8,
    ) -> (BaseGuard<'a, P>, Ran) {
        let state = &mut *held.state;
        let all_near = mask != HARD || state.far.cascade(&mut state.queues, now);
        let snapshot = state.queues.active & mask;
        let is_counted = self.timers.platform.counts_lateness();
        let mut woken = Batch::new();
        for index in bits(snapshot) {
            let base_now = held.state.queues[index].offset.shown_at(now);
            let counted_from = is_counted.then_some(base_now);
            loop {
                // Runs come from the far wheel alone.
                if far_wheel::EXISTS
                    && !is_counted
                    && held.state.queues[index].tree.has_run()
                    && let Some(fired) = self.fire_run(&mut held, index, base_now, &mut woken)
                {
                    let due = due_of_fired(&mut held, index, &fired);
                    held = self.run_fired(held, index, (fired, due, base_now, false));
                    // After a callback comes another one, as a rule.
                    held = self.call_run(held, index, base_now);
                    continue;
                }
                let is_due = first_is_due(&mut held, index, base_now);
                let is_spent = self.fired >= self.budget();
                // A task may wait for the end of a callback after it, which must not count as begun before.
                let waits = || {
                    let tree = &held.state.queues[index].tree;
                    !is_due || is_spent || woken.is_full() || !tree.first_is_taken()
                };
                if !woken.is_empty() && waits() {
                    held = self.wake_all(held, index, &mut woken);
                } else if !is_due {
                    break;
                } else if is_spent {
                    held.state.stats.budget_exhausted += 1;
                    return (held, Ran::SomeOfThem);
                } else if let Some((fired, due)) =
                    self.fire_first(&mut held, index, counted_from, woken.is_empty())
                {
                    self.fired += 1;
                    match fired {
                        // Of each traced expiry begin and end are told without the lock (spec ).
                        Fired::Done(waker) if due.is_none() => woken.push(waker),
                        fired => {
                            let is_traced = due.is_some();
                            let due = due.unwrap_or_else(|| due_of_fired(&mut held, index, &fired));
                            let fired = (fired, due, base_now, is_traced);
                            held = self.run_fired(held, index, fired);
                        }
                    }
                }
            }
        }
        let ran = if all_near && !self.leaves_late {
            Ran::All
        } else {
            held.state.stats.budget_exhausted += 1;
            Ran::SomeOfThem
        };
        (held, ran)
    }

    /// Removes the first timer from a queue, and ends it unless it has a callback. The caller must update the cached
    /// first deadline of the queue before it releases the lock. Notes how late the timer is at `counted_from`, if that
    /// time is given.
    ///
    /// Also returns the facts about the timer if its expiry is traced, because a timer that has ended can no longer be
    /// read. `may_trace` is false while a woken task waits for its wake-up. Tracing can be on then only if it was
    /// switched on since the base was locked, and the expiry is not traced.
    #[inline]
    fn fire_first(
        &self,
        held: &mut BaseGuard<'a, P>,
        index: usize,
        counted_from: Option<Deadline>,
        may_trace: bool,
    ) -> Option<(Fired<Hr>, Option<Due>)> {
        let mut slot = held.state.queues[index].tree.open_first()?;
        let is_traced = may_trace && self.timers.platform.traces_expiry();
        let due = is_traced.then(|| Due::of(&mut slot));
        if let Some(now) = counted_from
            && slot.key() != Deadline::CLOCK_SET
        {
            let late = now.saturating_sub(slot.head().earliest());
            let late = Span::from_nanos(late.max(0).unsigned_abs());
            self.timers.platform.note_lateness(self.base, late);
        }
        let fired = slot.expire();
        held.state.stats.expired += 1;
        Some((fired, due))
    }

    /// Removes timers that are due at `now`, and queued under their deadlines, from the run in front of a queue: as
    /// many as `woken` has free places. A timer with a callback is removed alone and returned. Nearly all due timers
    /// fire through this function.
    // Never: among the paths around it its few values would go through memory.
    #[inline(never)]
    fn fire_run(
        &mut self,
        held: &mut BaseGuard<'a, P>,
        index: usize,
        now: Deadline,
        woken: &mut Batch,
    ) -> Option<Fired<Hr>> {
        if self.timers.platform.is_expiry_traced() {
            // Of each expiry all is to be told.
            return None;
        }
        let budget = self.budget().saturating_sub(self.fired);
        let is_due = |filed, head: &ExpiryRange| filed <= now && filed == head.deadline();
        let tree = &mut held.state.queues[index].tree;
        let (mut fired, mut called) = (0, None);
        let follows = !woken.is_empty();
        woken.fill(|places| {
            let free = places.len().min(budget as usize);
            let (count, running) = tree.expire_run(is_due, &mut places[..free], follows);
            called = running;
            fired = count;
            count
        });
        fired += usize::from(called.is_some());
        held.state.stats.expired += fired as u64;
        #[expect(clippy::cast_possible_truncation, reason = "a batch is small")]
        {
            self.fired += fired as u32;
        }
        called.map(Fired::Call)
    }

    /// Executes the callbacks of the timers at the beginning of the run in front of a queue that are due at `now` and
    /// queued under their deadlines. Stops at the first timer without a callback. The caller has woken all tasks of
    /// fired timers before.
    // Never: as `fire_run`.
    #[inline(never)]
    fn call_run(
        &mut self,
        mut held: BaseGuard<'a, P>,
        index: usize,
        now: Deadline,
    ) -> BaseGuard<'a, P> {
        let is_due = |filed, head: &ExpiryRange| filed <= now && filed == head.deadline();
        while self.fired < self.budget() && !self.timers.platform.is_expiry_traced() {
            let tree = &mut held.state.queues[index].tree;
            let Some((running, head)) = tree.expire_called(is_due) else {
                break;
            };
            held.state.stats.expired += 1;
            self.fired += 1;
            held.state.reload_first(index);
            let clock_was_set = held.state.jump_untold && running.tag().fires_on_set();
            let tellings = held.state.tellings;
            drop(held);
            let firing = Firing {
                now,
                deadline: head.deadline(),
                earliest: head.earliest(),
                clock_was_set,
                read: &|| now,
            };
            let (locked, wakes) = self.call(running, index, 0, firing, tellings);
            held = self.after_callback(locked, wakes);
        }
        held
    }

    /// Executes the callback, or wakes the task, of a timer that fired at `now`. The caller has woken all tasks of
    /// timers that fired before.
    #[inline(never)]
    fn run_fired(
        &mut self,
        mut held: BaseGuard<'a, P>,
        index: usize,
        (fired, due, now, is_traced): (Fired<Hr>, Due, Deadline, bool),
    ) -> BaseGuard<'a, P> {
        let Due {
            timer,
            code,
            fires_on_set,
            filed,
            head,
        } = due;
        let (earliest, deadline) = (head.earliest(), head.deadline());
        held.state.reload_first(index);
        let untold = held.state.jump_untold && fires_on_set;
        let clock_was_set = filed == Deadline::CLOCK_SET || untold;
        let tellings = held.state.tellings;
        drop(held);
        if P::TRACE && is_traced {
            self.timers.platform.trace(Event::ExpireEntry {
                cpu: self.base.cpu(),
                timer,
                code,
                now: now.as_nanos(),
                hard: filed.min(deadline).as_nanos(),
                soft: filed.min(earliest).as_nanos(),
            });
        }
        match fired {
            Fired::Done(waker) => {
                if self.timers.platform.is_expiry_traced() {
                    self.timers.platform.trace(Event::ExpireExit { timer });
                }
                self.after_wake_up(waker)
            }
            Fired::Call(running) => {
                let (held, wakes) = self.call(
                    running,
                    index,
                    code,
                    Firing {
                        now,
                        deadline,
                        earliest,
                        clock_was_set,
                        read: &|| now,
                    },
                    tellings,
                );
                self.after_callback(held, wakes)
            }
        }
    }

    /// Wakes the tasks of the timers that fired since the base was locked. The lock is released meanwhile.
    #[inline(never)]
    fn wake_all(
        &mut self,
        mut held: BaseGuard<'a, P>,
        index: usize,
        woken: &mut Batch,
    ) -> BaseGuard<'a, P> {
        held.state.reload_first(index);
        drop(held);
        woken.wake_all(&self.timers.platform);
        self.after_wake_up(None)
    }

    /// Executes a callback, and queues the timer again if the callback returns so. `code` is the address of the
    /// callback for traces.
    // Always: what it is given and answers would go through memory.
    #[inline(always)]
    fn call(
        &mut self,
        mut running: Running<Hr>,
        index: usize,
        code: usize,
        firing: Firing<'_>,
        tellings: u32,
    ) -> (BaseGuard<'a, P>, Option<Waker>) {
        let timer = TimerId(running.address());
        let clock = Clock::ALL[index % 4];
        let read = || self.read_clock(clock);
        let mut firing = Firing {
            read: &read,
            ..firing
        };
        let (pass, before) = (firing.now, firing.deadline);
        let mut verdict = Restart::No;
        self.execute(timer, &mut || verdict = running.call(&mut firing));
        let head = ExpiryRange::new(firing.earliest, firing.deadline);
        let mut held = self.lock();
        let was_told_meanwhile = held.state.tellings != tellings;
        let tree = &mut held.state.queues[index].tree;
        let wakes = match verdict {
            Restart::No => {
                running.stop(tree);
                None
            }
            Restart::NoThenWake(waker) => {
                running.stop(tree);
                Some(waker)
            }
            Restart::Yes => {
                self.restart(
                    &mut held,
                    running,
                    (index, code),
                    Restarting { head, before, pass },
                    was_told_meanwhile,
                );
                None
            }
        };
        (held, wakes)
    }

    /// Queues a timer again after its callback requested a restart.
    ///
    /// A timer that is due already is queued [after](Self::place_late) the due timers of this pass. Under its own
    /// deadline the timer would be the first of every pass.
    #[inline(never)]
    fn restart(
        &mut self,
        held: &mut BaseGuard<'a, P>,
        running: Running<Hr>,
        (index, code): (usize, usize),
        restarting: Restarting,
        was_told_meanwhile: bool,
    ) {
        let timer = TimerId(running.address());
        let Restarting { head, pass, .. } = restarting;
        let deadline = head.deadline();
        // Never touches the device: the end of the interrupt or of the soft stage does (spec ).
        let filed = if was_told_meanwhile && running.tag().fires_on_set() {
            Deadline::CLOCK_SET
        } else if deadline < pass {
            self.place_late(held, &running, Clock::ALL[index % 4], restarting)
        } else {
            held.state.overruns.caught_up(timer.0);
            deadline
        };
        let platform = &self.timers.platform;
        let state = &mut *held.state;
        if !state
            .far
            .restart(&mut state.queues, index, running, (filed, head), platform)
        {
            return;
        }
        state.stats.starts += 1;
        if self.timers.platform.is_traced() {
            self.timers.platform.trace(Event::Start {
                cpu: self.base.cpu(),
                timer,
                code,
                clock: Clock::ALL[index % 4],
                hard: deadline.as_nanos(),
                soft: head.earliest().as_nanos(),
                mode: StartMode::default(),
                was_armed: false,
                stood: Placement::Moved,
            });
        }
    }

    /// Returns the key for a timer that is restarted into the past. If the timer is [overrun](Overrun), the key is the
    /// end of a pause that begins now. Otherwise the key is the time of this pass while the pass is short, and 1 ns
    /// later when the pass is long.
    #[cold]
    #[inline(never)]
    fn place_late(
        &mut self,
        held: &mut BaseGuard<'a, P>,
        running: &Running<Hr>,
        clock: Clock,
        Restarting { head, before, pass }: Restarting,
    ) -> Deadline {
        let ended = self.read_clock(clock).max(pass);
        let pace = held.state.overruns.note(&LateRestart {
            timer: running.address(),
            began: pass,
            ended,
            moved: head.deadline().saturating_sub(before).max(0),
        });
        if let Some(lasts) = pace.lasts {
            let name = running.callback_name();
            self.overrun = Some(Overrun { name, lasts });
        }
        if let Some(pause) = pace.pause {
            held.state.stats.paced += 1;
            return ended.saturating_add(pause);
        }
        if ended.saturating_sub(pass) < CATCH_UP_MAX {
            return pass;
        }
        // Where turns have no budget the interrupt makes another pass, or gives up and backs off.
        self.leaves_late = self.budget() < u32::MAX;
        pass.saturating_add(Span::from_nanos(1))
    }

    fn read_clock(&self, clock: Clock) -> Deadline {
        let platform = &self.timers.platform;
        if clock == Clock::Monotonic {
            return Offset::NONE.shown_at(platform.now());
        }
        let (now, offsets) = platform.now_and_offsets(SetSequence::UNSEEN);
        let offset = offsets.map_or(Offset::NONE, |(_, offsets)| offsets.of(clock));
        offset.shown_at(now)
    }
}

/// Next expiry of a timer that its callback restarts.
#[derive(Clone, Copy)]
struct Restarting {
    head: ExpiryRange,
    /// The deadline that passed.
    before: Deadline,
    /// The time of the pass that called the callback.
    pass: Deadline,
}

/// Facts about a timer that fired.
struct Due {
    timer: TimerId,
    code: usize,
    fires_on_set: bool,
    filed: Deadline,
    head: ExpiryRange,
}

impl Due {
    #[inline]
    fn of(slot: &mut OwnedEntry<'_, '_, Hr>) -> Self {
        let entry = slot.entry();
        Self {
            timer: TimerId(entry.address()),
            code: entry.code_address(),
            fires_on_set: entry.tag().fires_on_set(),
            filed: slot.key(),
            head: *slot.head(),
        }
    }
}

/// Returns the facts about a timer that fired and whose callback is to be executed.
#[inline]
fn due_of_fired<P: Platform>(held: &mut BaseGuard<'_, P>, index: usize, fired: &Fired<Hr>) -> Due {
    let Fired::Call(running) = fired else {
        unreachable!("where expiries are traced all is known of each");
    };
    let slot = held.state.queues[index].tree.open_running(running);
    Due::of(&mut slot.expect("it fired in this queue, whose lock is held"))
}

/// Returns true if the first timer of a queue has to fire at `now` on its clock. A first timer whose key is earlier
/// than its deadline is requeued before the check.
#[inline]
fn first_is_due<P: Platform>(held: &mut BaseGuard<'_, P>, index: usize, now: Deadline) -> bool {
    loop {
        let Some(mut slot) = held.state.queues[index].tree.open_first() else {
            return false;
        };
        let (filed, head) = (slot.key(), *slot.head());
        if filed == Deadline::CLOCK_SET {
            return true;
        }
        if filed > head.deadline() {
            // Restarted into the past: it waits for its turn.
            return filed <= now;
        }
        if filed == head.deadline() || now < filed {
            // The front timer decides: one behind it may be allowed to fire already, but it costs no interrupt of its
            // own (spec OBJ-9).
            return now >= head.deadline() || now >= head.earliest();
        }
        // Enqueued too early, and others behind it may be due.
        held.state.reload_first(index);
    }
}

impl<P: Platform> Timers<P> {
    /// Handles the timer interrupt of `cpu`: fires the due timers, and programs the device for the next event or leaves
    /// that to a flush point.
    ///
    /// Afterwards no timer of the hard stage that was due at entry is queued, with three exceptions: the timer was
    /// started again, the budget was spent, or new timers were still due after three passes. In the third case the
    /// device is armed a little later, so that the CPU can do other work (spec IRQ-1 to IRQ-3).
    ///
    /// # Interrupt context
    ///
    /// MUST be called with timer delivery to `cpu` masked, by `cpu` or by a thread that executes for `cpu`. Each CPU
    /// has one running call at a time. A second call while the first runs returns at once. On hosts where [cancellers
    /// sleep](Platform::WAITING) for hard callbacks, the second call waits for the end of the first instead. There a
    /// callback MUST NOT call this function for its own CPU.
    pub fn interrupt(&self, cpu: CpuId) -> ExpiryReport {
        let Some(base) = self.platform.base(cpu) else {
            return ExpiryReport::NOTHING;
        };
        let mut runner = Runner::new(self, base, &base.exact, false);
        let mut held = runner.lock();
        match held.state.deferred {
            DeferredRearm::Running => return ExpiryReport::NOTHING,
            DeferredRearm::Clear => {}
            // The host forgot a flush point (spec FLUSH-6). What is owed is absorbed by the evaluation below.
            DeferredRearm::OwedFresh(_) | DeferredRearm::OwedStale => {
                held.state.stats.missed_flushes += 1;
            }
        }
        held.state.device.interrupted();
        held.state.stats.interrupts += 1;
        held.state.deferred = DeferredRearm::Running;
        let entry = held.refresh_offsets();
        let mut now = entry;
        let mut turn = ExpiryReport::NOTHING;
        let mut pass = 0;
        loop {
            pass += 1;
            held.state.stats.passes += 1;
            // No other CPU may take this one for one that has an earlier event armed (spec IRQ-8), and no equal
            // value may be taken for one that is still programmed (B29).
            held.set_armed(Instant::FOREVER);
            if now >= held.state.soft_next {
                held.state.soft_next = Instant::FOREVER;
                held.state.soft_pending = true;
                turn.soft_raised = true;
                self.platform.raise_soft(base);
            }
            let ran;
            (held, ran) = runner.run(held, now, HARD);
            now = held.refresh_offsets();
            turn.next = held.evaluate();
            held.state.hang = false;
            turn.more = ran == Ran::SomeOfThem;
            // Due exactly now is programmed and fires at once (spec IRQ-1).
            if turn.next >= now || turn.more {
                break;
            }
            if pass == PASSES_MAX {
                self.note_hang(&mut held, now.saturating_since(entry));
                break;
            }
        }
        turn.fired = runner.fired;
        turn.overrun = runner.overrun;
        if turn.fired == 0 && !turn.soft_raised {
            held.state.stats.spurious += 1;
            if self.platform.is_traced() {
                self.platform.trace(Event::Spurious { cpu });
            }
        }
        held.defer_or_rearm(turn.next);
        turn
    }

    fn note_hang(&self, held: &mut BaseGuard<'_, P>, took: Span) {
        held.state.hang = true;
        let stats = &mut held.state.stats;
        stats.hangs += 1;
        stats.max_hang = stats.max_hang.max(took);
        debug_assert!(held.backoff() <= HANG_BACKOFF_MAX);
        if self.platform.is_traced() {
            let cpu = held.base.cpu();
            self.platform.trace(Event::Hang {
                cpu,
                nanos: took.as_nanos(),
            });
        }
    }

    /// Runs the soft stage of `cpu`, if it was raised (spec SOFT-2).
    ///
    /// Afterwards the device is programmed for the remaining soft timers too. If the budget was spent, the soft stage
    /// is raised again.
    ///
    /// # Interrupt context
    ///
    /// Called by `cpu` or by a thread that executes for `cpu`, with timer delivery unmasked if the host can do that.
    /// The host should flush a deferred rearm before (spec FLUSH-4); otherwise the rearm is marked stale.
    pub fn soft_interrupt(&self, cpu: CpuId) -> ExpiryReport {
        let Some(base) = self.platform.base(cpu) else {
            return ExpiryReport::NOTHING;
        };
        let mut runner = Runner::new(self, base, &base.exact, true);
        let mut held = runner.lock();
        if !held.state.soft_pending {
            return ExpiryReport::NOTHING;
        }
        let now = held.refresh_offsets();
        let ran;
        (held, ran) = runner.run(held, now, SOFT);
        let mut turn = ExpiryReport {
            fired: runner.fired,
            overrun: runner.overrun,
            ..ExpiryReport::NOTHING
        };
        if ran == Ran::SomeOfThem {
            turn.more = true;
            self.platform.raise_soft(base);
            return turn;
        }
        held.state.soft_pending = false;
        let (first, timer) = held.state.queues.minimum(SOFT);
        if !first.is_forever() {
            // Sets the time of the soft stage too, even when the device needs no write (spec SOFT-2).
            turn.next = held.clamped(first);
            held.program_if_earlier(
                First {
                    event: turn.next,
                    timer,
                    slack: 0,
                    soft: true,
                },
                true,
            );
        }
        turn
    }
}
