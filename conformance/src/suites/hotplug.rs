//! Cases about CPUs that go offline and come online again (spec ).

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::platform::CpuId;
use tickless_core::time::{Realtime, Span};
use tickless_core::trace::Event;

use crate::prelude::*;
use crate::suite::{at, at_on, kicks, moves};
use crate::{DeviceClass, Host, Rig, TestTimer};

const WALL: i64 = 1_700_000_000_000_000_000;
const SOFT: Setup = Setup::new().stage(Stage::Soft);

/// HP-4, HP-7, X-14.6: every queued timer moves and stays queued, and the CPU that gets the timers is kicked.
pub fn a_cpu_that_leaves_hands_its_timers_over<H: Host>() {
    let rig = Rig::<H>::new(2);
    rig.set_wall(0, WALL);
    let hard: Vec<_> = (0..3).map(|_| TestTimer::once(&rig)).collect();
    let real = TestTimer::<H, Realtime>::once_on(&rig);
    let soft = TestTimer::with_setup(&rig, SOFT, |_| Restart::No);
    rig.on(1, || {
        for (timer, deadline) in hard.iter().zip([3_000, 1_000, 2_000]) {
            timer.start(at(deadline));
        }
        real.start(at_on(WALL + 4_000));
        soft.start(at(1_500));
    });
    rig.take_trace();
    rig.offline(1);
    let trace = rig.take_trace();
    assert_eq!(moves(&trace), [(1, 0); 5]);
    assert_eq!(kicks(&trace), [0]);
    let armed_before = trace
        .iter()
        .filter(|event| {
            matches!(
                event,
                Event::Start {
                    was_armed: true,
                    cpu: CpuId(0),
                    ..
                }
            )
        })
        .count();
    assert_eq!(armed_before, 5);
    assert!(
        hard.iter()
            .all(|timer| timer.is_queued() && timer.cpu() == Some(0))
    );
    assert_eq!(rig.timers().pending(CpuId(1)), 0);
    assert_eq!(rig.fires_at(1), None);
    rig.deliver_all();
    rig.check();
    rig.run_until(9_000);
    let fired: Vec<_> = hard.iter().map(|timer| timer.fired_at()[0]).collect();
    assert_eq!(fired, [3_000, 1_000, 2_000]);
    assert_eq!(real.fired_at(), [WALL + 4_000]);
    assert_eq!(soft.fired_at(), [1_500]);
    assert_eq!(rig.stats(0).arrived, 5);
}

/// HP-4: a CPU without timers goes offline without kicking another CPU.
pub fn a_cpu_without_timers_goes_offline_and_kicks_none<H: Host>() {
    let rig = Rig::<H>::new(2);
    rig.take_trace();
    rig.offline(1);
    rig.offline(1);
    assert_eq!(kicks(&rig.take_trace()), []);
    assert_eq!(rig.stats(1).flushes[Flush::Offline as usize], 0);
    assert!(!rig.base(1).is_online());
}

/// HP-7: timers that are overdue when their new CPU gets them fire at once.
pub fn overdue_timers_fire_where_they_arrive<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = TestTimer::once(&rig);
    rig.on(1, || timer.start(at(1_000)));
    rig.set_masked(1, true);
    rig.spend(5_000);
    rig.offline(1);
    rig.deliver_all();
    rig.run_until(6_500);
    assert_eq!(timer.fired_at().len(), 1);
}

/// HP-5, B56: soft timers that move behind an earlier hard timer are taken into account by the soft stage of their new
/// CPU.
pub fn soft_timers_that_arrive_are_known_to_the_stage<H: Host>() {
    let rig = Rig::<H>::new(2);
    let soft = TestTimer::with_setup(&rig, SOFT, |_| Restart::No);
    let hard = TestTimer::once(&rig);
    rig.on(0, || hard.start(at(1_000)));
    rig.on(1, || soft.start(at(5_000)));
    rig.offline(1);
    rig.deliver_all();
    let dump = rig.dump();
    assert!(
        dump.split("cpu: 1")
            .next()
            .expect("CPU 0")
            .contains(".soft_next      : 5000 nsecs")
    );
    rig.run_until(9_000);
    assert_eq!(soft.fired_at(), [5_000]);
}

/// HP-4: a CPU that executes its handler, or owes a rearm, is notified of new timers by a mark.
pub fn timers_arrive_while_a_rearm_is_owed<H: Host>() {
    let rig = Rig::<H>::new(2);
    let (due, moved, later) = (
        TestTimer::once(&rig),
        TestTimer::once(&rig),
        TestTimer::once(&rig),
    );
    rig.on(0, || {
        due.start(at(1_000));
        later.start(at(9_000));
    });
    rig.on(1, || moved.start(at(3_000)));
    rig.spend(1_000);
    let _turn = rig.enter_interrupt(0);
    rig.offline(1);
    rig.leave_interrupt(0);
    rig.deliver_all();
    rig.check();
    rig.run_until(20_000);
    assert_eq!(moved.fired_at(), [3_000]);
}

/// HP-6, B54, X-14.6: a timer that code on a CPU that went offline starts later is queued on a CPU that is online,
/// which is kicked.
pub fn a_start_on_a_cpu_that_left_goes_elsewhere<H: Host>() {
    let rig = Rig::<H>::new(3);
    let [fresh, old, pinned] = [(); 3].map(|()| TestTimer::once(&rig));
    rig.on(1, || old.start(at(50_000)));
    rig.offline(1);
    rig.deliver_all();
    rig.take_trace();
    rig.on(1, || fresh.start(at(3_000)));
    assert_eq!(fresh.cpu(), Some(0));
    assert_eq!(kicks(&rig.take_trace()), [0]);
    rig.deliver_all();
    rig.on(1, || {
        old.start(at(5_000));
        pinned.start(at(4_000).pinned());
    });
    assert_eq!((old.cpu(), pinned.cpu()), (Some(0), Some(0)));
    assert_eq!(kicks(&rig.take_trace()), [], "not the first event there");
    rig.check();
    rig.run_until(9_000);
    assert_eq!(fresh.fired_at(), [3_000]);
    assert_eq!(pinned.fired_at(), [4_000]);
    assert_eq!(old.fired_at(), [5_000]);
}

/// HP-6: an isolated CPU does not get these timers.
pub fn housekeeping_cpus_take_over<H: Host>() {
    let rig = Rig::<H>::new(3);
    rig.set_idleness(0, true, false);
    let timer = TestTimer::once(&rig);
    rig.on(1, || timer.start(at(5_000)));
    rig.offline(1);
    assert_eq!(timer.cpu(), Some(2));
    rig.deliver_all();
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// Checks that a CPU that came online again can be used: its device is armed exactly, and timers of both stages are on
/// time.
fn usable<H: Host>(rig: &Rig<H>, cpu: u32) {
    rig.check();
    let hard = TestTimer::once(rig);
    let soft = TestTimer::with_setup(rig, SOFT, |_| Restart::No);
    let now = rig.now();
    rig.on(cpu, || {
        hard.start(at(now + 10_000).pinned());
        soft.start(at(now + 5_000).pinned());
    });
    assert_eq!(rig.fires_at(cpu), Some(now + 5_000));
    rig.run_until(now + 20_000);
    assert_eq!(hard.fired_at(), [now + 10_000]);
    assert_eq!(soft.fired_at(), [now + 5_000]);
    rig.check();
}

/// HP-2, HP-3: a CPU comes online in the state of a new CPU.
pub fn a_cpu_that_comes_back_is_as_new<H: Host>() {
    for class in DeviceClass::ALL {
        let rig = Rig::<H>::with_devices(2, class);
        let timer = TestTimer::once(&rig);
        rig.on(1, || timer.start(at(50_000)));
        rig.offline(1);
        rig.online(1);
        rig.deliver_all();
        assert!(rig.armed(1).is_forever());
        usable(&rig, 1);
    }
}

/// HP-3, B19: an owed rearm does not survive.
pub fn an_owed_rearm_does_not_survive<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = TestTimer::once(&rig);
    rig.on(1, || timer.start(at(1_000)));
    rig.spend(1_000);
    let _turn = rig.enter_interrupt(1);
    rig.offline(1);
    rig.set_masked(1, false);
    rig.online(1);
    usable(&rig, 1);
}

/// IRQ-6, B24: a hang does not survive.
pub fn a_hang_does_not_survive<H: Host>() {
    let rig = Rig::<H>::new(2);
    let busy = rig.clone();
    let slow = TestTimer::new(&rig, move |expired| {
        expired.forward_now(Span::from_nanos(1_000));
        busy.spend(5_000);
        Restart::Yes
    });
    rig.on(1, || slow.start(at(1_000)));
    rig.run_until(1_000);
    assert!(rig.timers().is_backing_off(CpuId(1)));
    rig.on(1, || assert!(slow.cancel()));
    rig.offline(1);
    rig.online(1);
    assert!(!rig.timers().is_backing_off(CpuId(1)));
    usable(&rig, 1);
}

/// Change 26: a soft stage that was pending does not survive.
pub fn a_pending_soft_stage_does_not_survive<H: Host>() {
    let rig = Rig::<H>::new(2);
    let soft = TestTimer::with_setup(&rig, SOFT, |_| Restart::No);
    rig.on(1, || soft.start(at(1_000)));
    rig.spend(1_000);
    let turn = rig.enter_interrupt(1);
    assert!(turn.soft_raised);
    rig.offline(1);
    rig.set_masked(1, false);
    rig.deliver_all();
    rig.run_until(3_000);
    assert_eq!(soft.fired_at().len(), 1, "on the other CPU");
    rig.online(1);
    usable(&rig, 1);
}

/// LOC-17: a kick that was lost when its CPU went offline does not suppress later kicks.
pub fn a_kick_that_got_lost_does_not_swallow_others<H: Host>() {
    let rig = Rig::<H>::new(2);
    rig.set_wall(0, WALL);
    let timer = TestTimer::<H, Realtime>::once_on(&rig);
    rig.on(1, || timer.start(at_on(WALL + 1_000_000)));
    rig.set_masked(1, true);
    rig.set_wall(0, WALL + 500_000);
    assert!(rig.is_kicked(1));
    rig.offline(1);
    rig.set_masked(1, false);
    rig.online(1);
    rig.deliver_all();
    rig.on(1, || timer.start(at_on(WALL + 1_000_000).pinned()));
    assert_eq!(rig.fires_at(1), Some(500_000));
    rig.set_wall(0, WALL + 900_000);
    assert!(rig.is_kicked(1));
    rig.deliver_all();
    assert_eq!(rig.fires_at(1), Some(100_000));
    rig.run_until(200_000);
    assert_eq!(timer.fired_at(), [WALL + 1_000_000]);
}

/// HP-2, B55, X-14.6 abort variant: a CPU that aborts going offline half-way is brought online again while it is still
/// online.
pub fn a_cpu_that_turns_round_keeps_its_timers<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = TestTimer::once(&rig);
    let soft = TestTimer::with_setup(&rig, SOFT, |_| Restart::No);
    rig.on(1, || {
        timer.start(at(50_000));
        soft.start(at(60_000));
    });
    rig.online(1);
    assert_eq!(timer.cpu(), Some(1));
    assert_eq!(rig.fires_at(1), Some(50_000));
    usable(&rig, 1);
    rig.run_until(90_000);
    assert_eq!(timer.fired_at(), [50_000]);
    assert_eq!(soft.fired_at(), [60_000]);
}

/// HP-2: cached hints do not survive: the address of the former first timer is no hint any more.
pub fn hints_of_an_earlier_life_are_forgotten<H: Host>() {
    let rig = Rig::<H>::new(2);
    let timer = TestTimer::with_setup(&rig, Setup::new().lazy(), |_| Restart::No);
    rig.on(1, || timer.start(at(1_000)));
    rig.offline(1);
    rig.online(1);
    rig.deliver_all();
    rig.on(1, || timer.start(at(500)));
    assert_eq!((timer.cpu(), rig.fires_at(1)), (Some(1), Some(500)));
    rig.run_until(2_000);
    assert_eq!(timer.fired_at(), [500]);
}

/// HP-6: a timer whose callback runs on another CPU stays there, although a CPU that went offline starts it.
pub fn a_start_by_a_cpu_that_left_during_the_callback_stays<H: Host>() {
    let rig = Rig::<H>::new(2);
    rig.offline(1);
    let timer = {
        let rig = rig.clone();
        let mut runs = 0;
        TestTimer::cyclic(&rig.clone(), Setup::new(), move |own, _| {
            runs += 1;
            if runs == 1 {
                rig.on(1, || own.start(at(5_000)));
                assert_eq!(own.cpu(), Some(0));
            }
            Restart::No
        })
    };
    rig.on(0, || timer.start(at(1_000)));
    rig.run_until(9_000);
    assert_eq!(timer.fired_at(), [1_000, 5_000]);
}

crate::kit::cases!(hotplug:
    a_cpu_that_leaves_hands_its_timers_over [CPUS, SOFT, CLOCKS, TRACE],
    a_cpu_without_timers_goes_offline_and_kicks_none [CPUS, TRACE],
    overdue_timers_fire_where_they_arrive [CPUS],
    soft_timers_that_arrive_are_known_to_the_stage [CPUS, SOFT],
    timers_arrive_while_a_rearm_is_owed [CPUS, PATHS],
    a_start_on_a_cpu_that_left_goes_elsewhere [CPUS, TRACE],
    housekeeping_cpus_take_over [CPUS, PLACEMENT],
    a_cpu_that_comes_back_is_as_new [CPUS, SOFT, DEVICES],
    an_owed_rearm_does_not_survive [CPUS, SOFT, PATHS],
    a_hang_does_not_survive [CPUS, SOFT],
    a_pending_soft_stage_does_not_survive [CPUS, SOFT, PATHS],
    a_kick_that_got_lost_does_not_swallow_others [CPUS, CLOCKS],
    a_cpu_that_turns_round_keeps_its_timers [CPUS, SOFT],
    hints_of_an_earlier_life_are_forgotten [CPUS],
    a_start_by_a_cpu_that_left_during_the_callback_stays [CPUS],
);
