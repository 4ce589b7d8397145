//! Tests for special hosts of the rig: with a configuration that no other host needs, of the exact text of a dump, and
//! of parts of the core that need no host.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tickless_conformance::suite::{at, at_on, panic_of};
use tickless_conformance::virtual_host::DeferredRearm;
use tickless_conformance::{
    Config, Deferred, Host, Immediate, Preemptible, Rig, TestTimer, VirtualHost,
};
use tickless_core::clock::CounterId;
use tickless_core::event::{
    self, DeviceConfig, DeviceKind, DeviceState, DeviceWrite, EventDevice, EventDriver, Force,
    InPast, MinimumPolicy, Programmed,
};
use tickless_core::hrtimer::{Restart, Setup, Stage, StartError};
use tickless_core::platform::Waiting;
use tickless_core::time::convert::{Cycles, Ticks};
use tickless_core::time::{Boottime, Instant, Realtime, Span};

/// Returns the message with which CPU 1 waits for a callback on CPU 0. On a machine with one thread the wait never
/// ends, so it panics.
fn how_to_wait<H: Host>(stage: Stage) -> String {
    let rig = Rig::<H>::new(2);
    let said = Rc::new(RefCell::new(None));
    let timer = {
        let (rig, said) = (rig.clone(), Rc::clone(&said));
        let setup = Setup::new().stage(stage);
        TestTimer::cyclic(&rig.clone(), setup, move |own, _| {
            *said.borrow_mut() = rig.on(1, || {
                panic_of(|| {
                    own.cancel();
                })
            });
            Restart::No
        })
    };
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(5_000);
    said.take().expect("it waits for ever")
}

/// A host with the settings of a real-time kernel.
enum RealTime {}

impl Config for RealTime {
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::SleepForSoft;
    const EXPIRY_BUDGET: u32 = u32::MAX;
    const NAME: &'static str = "real-time";
}

/// CAN-5, CAN-6, B35: a thread that cancels polls or sleeps, as its host configures.
#[test]
fn cancellers_poll_or_sleep_as_the_host_says() {
    let (polls, sleeps) = ("livelock", "waits for a lock that it holds");
    for (waits, hard, soft) in [
        (how_to_wait::<Deferred> as fn(Stage) -> String, polls, polls),
        (how_to_wait::<Immediate>, polls, polls),
        (how_to_wait::<Preemptible>, sleeps, sleeps),
        (how_to_wait::<VirtualHost<RealTime>>, polls, sleeps),
    ] {
        assert!(waits(Stage::Hard).contains(hard));
        assert!(waits(Stage::Soft).contains(soft));
    }
}

/// CAN-6: under a real-time kernel a hard timer may interrupt a soft callback while that callback holds the expiry
/// lock.
#[test]
fn a_hard_timer_interrupts_a_soft_callback_that_holds_the_expiry_lock() {
    let rig = Rig::<VirtualHost<RealTime>>::new(1);
    let hard = TestTimer::once(&rig);
    let soft = {
        let rig = rig.clone();
        let setup = Setup::new().stage(Stage::Soft);
        TestTimer::with_setup(&rig.clone(), setup, move |_| {
            rig.spend(3_000);
            rig.deliver_due(0);
            Restart::No
        })
    };
    rig.on(0, || {
        soft.start(at(1_000));
        hard.start(at(3_000));
    });
    rig.run_until(9_000);
    assert_eq!(hard.fired_at(), [4_000]);
}

/// the error of a refused start explains the reason.
#[test]
fn the_refusal_explains_itself() {
    assert_eq!(
        StartError::AlreadyExpired.to_string(),
        "the time of the timer is over already"
    );
}

/// A device driver that counts its writes.
#[derive(Default)]
struct Counts {
    now: Cell<i64>,
    writes: RefCell<Vec<DeviceWrite>>,
}

impl EventDriver for Counts {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.now.get())
    }
    fn cycles_at(&self, _counter: CounterId, _when: Instant) -> Option<Cycles> {
        None
    }
    fn write(&self, write: DeviceWrite) -> Result<(), InPast> {
        self.writes.borrow_mut().push(write);
        Ok(())
    }
    fn set_state(&self, _state: DeviceState) {}
}

/// B12, BC-4: a broadcast device that fires in place of a device ends the forced minimum of that device.
#[test]
fn b12_a_broadcast_ends_a_forced_minimum() {
    // Arms what the environment names, as every machine does.
    let _machine = Rig::<Deferred>::new(1);
    let driver = Counts::default();
    let mut device = EventDevice::new(DeviceConfig {
        name: "stops in deep idle",
        kind: DeviceKind::Relative,
        hertz: 1_000_000_000,
        min_ticks: Ticks(1_000),
        max_ticks: Ticks(1_000_000_000),
        can_stop: true,
        minimum: MinimumPolicy::Fixed,
    });
    device.set_state(&driver, DeviceState::Oneshot);
    driver.now.set(50_000);
    let program = |device: &mut EventDevice| {
        event::program(device, &driver, Instant::from_nanos(1), Force::Yes).expect("forced");
        driver.writes.take().len()
    };
    assert_eq!(program(&mut device), 1);
    assert_eq!(program(&mut device), 0, "under way");
    device.broadcast_took_over();
    assert_eq!(device.programmed(), Programmed::Idle);
    assert!(device.next_event().is_forever());
    assert_eq!(program(&mut device), 1);
}

/// Replaces the names of callbacks, because the compiler chooses them.
fn without_names(text: &str) -> String {
    let line = |line: &str| match line.split_once(", S:") {
        Some((before, behind)) => {
            let number = before.split(": ").next().unwrap_or_default();
            format!("{number}: _, S:{behind}\n")
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// DMP-1 to DMP-4: a golden file has everything that the dump of one CPU shows. Offsets have signs, and laziness and
/// slack are visible.
#[test]
fn the_layout_is_that_of_timer_list() {
    let rig = Rig::<Deferred>::new(1);
    rig.set_wall(0, -5_000_000_000);
    let lazy = TestTimer::with_setup(&rig, Setup::new().lazy(), |_| Restart::No);
    let [exact, due] = [(); 2].map(|()| TestTimer::once(&rig));
    let real = TestTimer::<_, Realtime>::once_on(&rig);
    let soft = TestTimer::<_, Boottime>::with_setup(&rig, Setup::new().stage(Stage::Soft), |_| {
        Restart::No
    });
    rig.on(0, || {
        due.start(at(1_000));
        lazy.start(at(7_000));
        exact.start(at(4_000));
        real.start(at_on(-5_000_000_000 + 9_000).slack(Span::from_nanos(500)));
        soft.start(at_on(8_000));
    });
    rig.run_until(2_000);
    let golden = include_str!("golden/timer_list.txt");
    assert_eq!(without_names(&rig.dump()), golden);
}

/// The settings of a host that calls four callbacks at a time.
enum Frugal {}

impl Config for Frugal {
    const DEFERRED_REARM: bool = DeferredRearm::DEFERRED_REARM;
    const WAITING: Waiting = DeferredRearm::WAITING;
    const EXPIRY_BUDGET: u32 = 4;
    const NAME: &'static str = "frugal";
}

/// A timer whose deadline stays in the past fires again and again, and does not keep other timers from firing.
#[test]
fn a_callback_that_never_moves_on_starves_no_other_timer() {
    let rig = Rig::<VirtualHost<Frugal>>::new(1);
    let timers: Vec<_> = (0..6)
        .map(|_| TestTimer::new(&rig, |_| Restart::Yes))
        .collect();
    let other = TestTimer::once(&rig);
    rig.on(0, || {
        timers.iter().for_each(|timer| timer.start(at(1_000)));
        other.start(at(1_500));
    });
    rig.spend(1_600);
    // More timers than one interrupt fires: each had its turn before any has a second one.
    for _ in 0..2 {
        let _more = rig.enter_interrupt(0);
        rig.leave_interrupt(0);
    }
    assert_eq!(other.fired_at().len(), 1);
    rig.on(0, || {
        for timer in &timers {
            assert!(timer.cancel());
        }
    });
}

/// even a timer that stays due for ever does not keep the CPU in one interrupt.
#[test]
fn a_budget_ends_a_callback_that_never_moves_on() {
    let rig = Rig::<VirtualHost<Frugal>>::new(1);
    let timer = TestTimer::new(&rig, |_| Restart::Yes);
    let other = TestTimer::once(&rig);
    rig.on(0, || {
        timer.start(at(1_000));
        other.start(at(1_500));
    });
    rig.spend(1_000);
    // Fewer than it is judged by.
    for round in 1..=7 {
        let turn = rig.enter_interrupt(0);
        assert_eq!((turn.fired, turn.more), (4, true));
        rig.leave_interrupt(0);
        assert_eq!(timer.fired_at().len(), round * 4);
        assert!(rig.fires_at(0).is_some_and(|at| at <= rig.now() + 1_000));
    }
    rig.on(0, || assert!(timer.cancel()));
    rig.run_until(2_000);
    assert_eq!(other.fired_at(), [1_500]);
}

/// The settings of a host that calls many callbacks at a time.
enum Generous {}

impl Config for Generous {
    const DEFERRED_REARM: bool = DeferredRearm::DEFERRED_REARM;
    const WAITING: Waiting = DeferredRearm::WAITING;
    const EXPIRY_BUDGET: u32 = 1_000;
    const NAME: &'static str = "generous";
}

/// Makes a timer whose callback takes a given time, and moves the deadline on by a given time.
fn working(
    rig: &Rig<VirtualHost<Generous>>,
    work: i64,
    period: u64,
) -> TestTimer<VirtualHost<Generous>> {
    let spends = rig.clone();
    TestTimer::new(rig, move |expired| {
        spends.spend(work);
        let next = expired.deadline().saturating_add(Span::from_nanos(period));
        expired.set_deadline(next);
        Restart::Yes
    })
}

/// A callback that takes four periods is called once in a turn, and timers that become due meanwhile fire in the next
/// turn.
#[test]
fn an_overload_keeps_no_other_timer_waiting_for_more_than_a_callback() {
    let rig = Rig::<VirtualHost<Generous>>::new(1);
    let timer = working(&rig, 400_000, 100_000);
    let other = TestTimer::once(&rig);
    rig.on(0, || {
        timer.start(at(100_000));
        other.start(at(300_000));
    });
    rig.spend(250_000);
    for round in 1..=8 {
        let turn = rig.enter_interrupt(0);
        assert!(turn.more, "it is due already");
        rig.leave_interrupt(0);
        assert_eq!(timer.fired_at().len(), round, "once in each turn");
        assert_eq!(other.fired_at().len(), usize::from(round > 1));
    }
    rig.on(0, || assert!(timer.cancel()));
}

/// A timer is late because its CPU was held up. Each call moves the deadline on by more time than the callback takes,
/// so the timer is called again and again in one turn.
#[test]
fn a_timer_that_catches_up_is_called_again_and_again_in_a_turn() {
    let rig = Rig::<VirtualHost<Generous>>::new(1);
    let timer = working(&rig, 1_000, 100_000);
    rig.on(0, || timer.start(at(100_000)));
    rig.spend(50_000_000);
    let mut turns = 0;
    while timer.fired_at().len() < 500 {
        let turn = rig.enter_interrupt(0);
        assert_eq!(turn.overrun, None);
        rig.leave_interrupt(0);
        turns += 1;
    }
    assert_eq!(rig.stats(0).paced, 0);
    assert!(turns < 10, "{turns} turns, of at least 100 us each");
    rig.on(0, || assert!(timer.cancel()));
}

/// A timer whose callback always takes longer than its period is paced, so that its CPU has time left, and it is named.
#[test]
fn an_overrun_timer_is_paced_and_named() {
    let rig = Rig::<VirtualHost<Generous>>::new(1);
    let timer = working(&rig, 400_000, 100_000);
    rig.on(0, || timer.start(at(100_000)));
    rig.spend(250_000);
    let mut named = None;
    for round in 1.. {
        let turn = rig.enter_interrupt(0);
        rig.leave_interrupt(0);
        if let Some(overrun) = turn.overrun {
            named = Some((round, overrun));
            break;
        }
        assert!(turn.more && round < 100);
    }
    let (round, overrun) = named.expect("the loop ends by it");
    assert_eq!(round, 32);
    assert!(overrun.name.contains("Expired"), "{overrun:?}");
    assert_eq!(overrun.lasts, Span::ZERO);
    assert_eq!(rig.stats(0).paced, 1);
    let fires = rig.fires_at(0).expect("it is queued");
    assert_eq!(fires, rig.now() + 16_000);
    rig.on(0, || assert!(timer.cancel()));
    // What is started again waits for nothing.
    let soon = rig.now() + 1_000;
    rig.on(0, || timer.start(at(soon)));
    assert_eq!(rig.fires_at(0), Some(soon));
    rig.on(0, || assert!(timer.cancel()));
}
