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

/// Longest time of a pass before timers that are restarted into the past are left for the next turn: 100 µs. In a
/// shorter pass a timer that is behind catches up without a turn for each period.
const CATCH_UP_MAX: i64 = 100_000;

/// Passes over the queues before an interrupt gives up (spec IRQ-1).
const PASSES_MAX: u32 = 3;

/// The result of an interrupt or a soft stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the host has to know whether more is due"]
pub struct ExpiryReport {
    /// The number of timers that fired.
    pub fired: u32,
    /// The next event of the CPU, as far as this stage knows it.
    pub next: Instant,
    /// True if the interrupt raised the soft stage.
    pub soft_raised: bool,
    /// True if more timers are due, because the budget is spent, or because timers were restarted into the past for so
    /// long that other work should run first. The device is programmed for a time in the past.
    pub more: bool,
    /// A timer that is paced, because its callback runs for longer than it moves the deadline ahead. It is reported now
    /// and then while that lasts.
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
    /// Runs what is due at `now` in the queues of `mask` (spec ).
    ///
    /// `now` is read once for a pass: what becomes due meanwhile belongs to the next.
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
                    // Behind a callback comes another one, as a rule.
                    held = self.call_run(held, index, base_now);
                    continue;
                }
                let is_due = first_is_due(&mut held, index, base_now);
                let is_spent = self.fired >= P::EXPIRY_BUDGET;
                // A task may wait for the end of a callback behind it, which must not count as begun before.
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

    /// Takes the first timer out of a queue, and out of use unless it has a callback. What is cached about the queue is
    /// to be brought up to date before the lock is released. Notes how late the timer is at `counted_from`, if given.
    ///
    /// What is known of the timer where its expiry is traced: else nothing has to be known of one that is out of use.
    /// None is traced while a task is left to be woken: tracing was switched on since the base was locked.
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

    /// Takes those timers that are due at `now`, and filed under their deadlines, out of the run in front of a queue,
    /// as many as `woken` has room for; one that has a callback is taken alone. Nearly all that is due fires by this
    /// way.
    // Never: among the paths around it its few values would go through memory.
    #[inline(never)]
    fn fire_run(
        &mut self,
        held: &mut BaseGuard<'a, P>,
        index: usize,
        now: Deadline,
        woken: &mut Batch,
    ) -> Option<Fired<Hr>> {
        if self.timers.platform.is_traced() {
            // Of each expiry all is to be told.
            return None;
        }
        let budget = P::EXPIRY_BUDGET.saturating_sub(self.fired);
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

    /// Executes the callbacks of those timers that are due at `now`, and filed under their deadlines, at the beginning
    /// of the run in front of a queue, until one comes that has none. No task is left to be woken.
    // Never: as `fire_run`.
    #[inline(never)]
    fn call_run(
        &mut self,
        mut held: BaseGuard<'a, P>,
        index: usize,
        now: Deadline,
    ) -> BaseGuard<'a, P> {
        let is_due = |filed, head: &ExpiryRange| filed <= now && filed == head.deadline();
        while self.fired < P::EXPIRY_BUDGET && !self.timers.platform.is_traced() {
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

    /// Runs what a timer that fired at `now` is for. No task is left to be woken.
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
                if self.timers.platform.is_traced() {
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

    /// Wakes the tasks of timers that fired since the lock of the base was taken, without it.
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

    /// Executes a callback, and queues its timer again if it says so. Only traces show its `code`.
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

    /// Queues a timer again whose callback says so.
    ///
    /// A timer that is due already is filed [behind](Self::place_late) what is due in this pass. With its own deadline
    /// it would come before every other timer, in each pass anew.
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

    /// Returns the key under which a timer is filed that is restarted into the past: a pause from now on if it is
    /// [overrun](Overrun), else the time of this pass while that is short, and right behind it when it lasts.
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
        self.leaves_late = P::EXPIRY_BUDGET < u32::MAX;
        pass.saturating_add(Span::from_nanos(1))
    }

    /// Returns the time that `clock` shows now.
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

/// Returns true if the first timer of a queue is to fire at `now` on its clock. The first is filed where it belongs
/// before.
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
        // Filed too early, and others behind it may be due.
        held.state.reload_first(index);
    }
}

impl<P: Platform> Timers<P> {
    /// Handles the timer interrupt of `cpu`: fires the due timers, and programs the device for the next event or leaves
    /// that to a flush point.
    ///
    /// Afterwards no timer of the hard stage that was due at entry is queued, unless it was started again, or the
    /// budget was spent, or after three passes new ones were still due: then the device is armed a little later, so
    /// that the CPU gets something else done too (spec IRQ-1 to IRQ-3).
    ///
    /// # Interrupt context
    ///
    /// MUST be called with timer delivery to `cpu` masked, by `cpu` or by a thread that executes for it. One at a time
    /// for each CPU: a second call while the first runs returns at once, or, where [cancellers
    /// sleep](Platform::WAITING) for hard callbacks, waits for the first to end; there a callback MUST NOT call it for
    /// its own CPU.
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
    /// Afterwards the device is programmed for the remaining soft timers too. If the budget was spent the stage is
    /// raised again.
    ///
    /// # Interrupt context
    ///
    /// With timer delivery unmasked where the host can, by `cpu` or by a thread that executes for it. A deferred rearm
    /// should be flushed before (spec FLUSH-4); if it is not, it is marked stale.
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
