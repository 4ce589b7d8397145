//! CPUs that leave and come back (spec 2.12).

use tickless_core::event::Flush;
use tickless_core::hrtimer::{Restart, Setup, Stage};
use tickless_core::platform::CpuId;
use tickless_core::time::{Realtime, Span};
use tickless_core::trace::Event;
use tickless_rig::suite::{at, at_on, kicks, moves};
use tickless_rig::{Config, DeviceClass, Machine, TestTimer, all_configs};

const WALL: i64 = 1_700_000_000_000_000_000;
const SOFT: Setup = Setup::new().stage(Stage::Soft);

/// HP-4, HP-7, 14.6: everything that is queued moves, still queued, and the CPU that gets it is kicked.
fn a_cpu_that_leaves_hands_its_timers_over<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_wall(0, WALL);
    let hard: Vec<_> = (0..3).map(|_| TestTimer::once(&machine)).collect();
    let real = TestTimer::<C, Realtime>::once_on(&machine);
    let soft = TestTimer::with_setup(&machine, SOFT, |_| Restart::No);
    machine.on(1, || {
        for (timer, deadline) in hard.iter().zip([3_000, 1_000, 2_000]) {
            timer.start(at(deadline));
        }
        real.start(at_on(WALL + 4_000));
        soft.start(at(1_500));
    });
    machine.take_trace();
    machine.offline(1);
    let trace = machine.take_trace();
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
    assert_eq!(machine.timers().pending(CpuId(1)), 0);
    assert_eq!(machine.fires_at(1), None);
    machine.deliver_all();
    machine.check();
    machine.run_until(9_000);
    let fired: Vec<_> = hard.iter().map(|timer| timer.fired_at()[0]).collect();
    assert_eq!(fired, [3_000, 1_000, 2_000]);
    assert_eq!(real.fired_at(), [WALL + 4_000]);
    assert_eq!(soft.fired_at(), [1_500]);
    assert_eq!(machine.stats(0).arrived, 5);
}

/// HP-4: a CPU without timers kicks nobody.
fn a_cpu_without_timers_leaves_quietly<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.take_trace();
    machine.offline(1);
    machine.offline(1);
    assert_eq!(kicks(&machine.take_trace()), []);
    assert!(!machine.base(1).is_online());
}

/// HP-7: timers that are overdue when they arrive fire at once.
fn overdue_timers_fire_where_they_arrive<C: Config>() {
    let machine = Machine::<C>::new(2);
    let timer = TestTimer::once(&machine);
    machine.on(1, || timer.start(at(1_000)));
    machine.set_masked(1, true);
    machine.spend(5_000);
    machine.offline(1);
    machine.deliver_all();
    machine.run_until(6_500);
    assert_eq!(timer.fired_at().len(), 1);
}

/// HP-5, B56: soft timers that arrive behind an earlier hard one are known to the soft stage of their new CPU.
fn soft_timers_that_arrive_are_known_to_the_stage<C: Config>() {
    let machine = Machine::<C>::new(2);
    let soft = TestTimer::with_setup(&machine, SOFT, |_| Restart::No);
    let hard = TestTimer::once(&machine);
    machine.on(0, || hard.start(at(1_000)));
    machine.on(1, || soft.start(at(5_000)));
    machine.offline(1);
    machine.deliver_all();
    let dump = machine.dump();
    assert!(
        dump.split("cpu: 1")
            .next()
            .expect("CPU 0")
            .contains(".soft_next      : 5000 nsecs")
    );
    machine.run_until(9_000);
    assert_eq!(soft.fired_at(), [5_000]);
}

/// HP-4: a CPU that is in its handler, or owes a rearm, is told by a mark.
fn timers_arrive_while_a_rearm_is_owed<C: Config>() {
    let machine = Machine::<C>::new(2);
    let (due, moved, later) = (
        TestTimer::once(&machine),
        TestTimer::once(&machine),
        TestTimer::once(&machine),
    );
    machine.on(0, || {
        due.start(at(1_000));
        later.start(at(9_000));
    });
    machine.on(1, || moved.start(at(3_000)));
    machine.spend(1_000);
    let _turn = machine.enter_interrupt(0);
    machine.offline(1);
    machine.leave_interrupt(0);
    machine.deliver_all();
    machine.check();
    machine.run_until(20_000);
    assert_eq!(moved.fired_at(), [3_000]);
}

/// HP-6, B54, 14.6: what code on a leaving CPU starts later goes to one that is online, which is kicked.
fn a_start_on_a_cpu_that_left_goes_elsewhere<C: Config>() {
    let machine = Machine::<C>::new(3);
    let [fresh, old, pinned] = [(); 3].map(|()| TestTimer::once(&machine));
    machine.on(1, || old.start(at(50_000)));
    machine.offline(1);
    machine.deliver_all();
    machine.take_trace();
    machine.on(1, || fresh.start(at(3_000)));
    assert_eq!(fresh.cpu(), Some(0));
    assert_eq!(kicks(&machine.take_trace()), [0]);
    machine.deliver_all();
    machine.on(1, || {
        old.start(at(5_000));
        pinned.start(at(4_000).pinned());
    });
    assert_eq!((old.cpu(), pinned.cpu()), (Some(0), Some(0)));
    assert_eq!(
        kicks(&machine.take_trace()),
        [],
        "not the first event there"
    );
    machine.check();
    machine.run_until(9_000);
    assert_eq!(fresh.fired_at(), [3_000]);
    assert_eq!(pinned.fired_at(), [4_000]);
    assert_eq!(old.fired_at(), [5_000]);
}

/// HP-6: an isolated CPU does not get them.
fn housekeeping_cpus_take_over<C: Config>() {
    let machine = Machine::<C>::new(3);
    machine.set_idleness(0, true, false);
    let timer = TestTimer::once(&machine);
    machine.on(1, || timer.start(at(5_000)));
    machine.offline(1);
    assert_eq!(timer.cpu(), Some(2));
    machine.deliver_all();
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [5_000]);
}

/// Comes back and can be used: armed exactly, on time, in both stages.
fn usable<C: Config>(machine: &Machine<C>, cpu: u32) {
    machine.check();
    let hard = TestTimer::once(machine);
    let soft = TestTimer::with_setup(machine, SOFT, |_| Restart::No);
    let now = machine.now();
    machine.on(cpu, || {
        hard.start(at(now + 10_000).pinned());
        soft.start(at(now + 5_000).pinned());
    });
    assert_eq!(machine.fires_at(cpu), Some(now + 5_000));
    machine.run_until(now + 20_000);
    assert_eq!(hard.fired_at(), [now + 10_000]);
    assert_eq!(soft.fired_at(), [now + 5_000]);
    machine.check();
}

/// HP-2, HP-3: a CPU comes back as new.
fn a_cpu_that_comes_back_is_as_new<C: Config>() {
    for class in DeviceClass::ALL {
        let machine = Machine::<C>::with_devices(2, class);
        let timer = TestTimer::once(&machine);
        machine.on(1, || timer.start(at(50_000)));
        machine.offline(1);
        machine.online(1);
        machine.deliver_all();
        assert!(machine.armed(1).is_forever());
        usable(&machine, 1);
    }
}

/// HP-3, B19: a rearm that was owed does not survive.
fn an_owed_rearm_does_not_survive<C: Config>() {
    let machine = Machine::<C>::new(2);
    let timer = TestTimer::once(&machine);
    machine.on(1, || timer.start(at(1_000)));
    machine.spend(1_000);
    let _turn = machine.enter_interrupt(1);
    machine.offline(1);
    machine.set_masked(1, false);
    machine.online(1);
    usable(&machine, 1);
}

/// IRQ-6, B24: a hang does not survive.
fn a_hang_does_not_survive<C: Config>() {
    let machine = Machine::<C>::new(2);
    let busy = machine.clone();
    let slow = TestTimer::new(&machine, move |expired| {
        expired.forward_now(Span::from_nanos(1_000));
        busy.spend(5_000);
        Restart::Yes
    });
    machine.on(1, || slow.start(at(1_000)));
    machine.run_until(1_000);
    assert!(machine.timers().is_backing_off(CpuId(1)));
    machine.on(1, || assert!(slow.cancel()));
    machine.offline(1);
    machine.online(1);
    assert!(!machine.timers().is_backing_off(CpuId(1)));
    usable(&machine, 1);
}

/// Change 26: a soft stage that was pending does not survive.
fn a_pending_soft_stage_does_not_survive<C: Config>() {
    let machine = Machine::<C>::new(2);
    let soft = TestTimer::with_setup(&machine, SOFT, |_| Restart::No);
    machine.on(1, || soft.start(at(1_000)));
    machine.spend(1_000);
    let turn = machine.enter_interrupt(1);
    assert!(turn.soft_raised);
    machine.offline(1);
    machine.set_masked(1, false);
    machine.deliver_all();
    machine.run_until(3_000);
    assert_eq!(soft.fired_at().len(), 1, "on the other CPU");
    machine.online(1);
    usable(&machine, 1);
}

/// LOC-17: a kick that got lost with the CPU does not swallow those that come later.
fn a_kick_that_got_lost_does_not_swallow_others<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.set_wall(0, WALL);
    let timer = TestTimer::<C, Realtime>::once_on(&machine);
    machine.on(1, || timer.start(at_on(WALL + 1_000_000)));
    machine.set_masked(1, true);
    machine.set_wall(0, WALL + 500_000);
    assert!(machine.is_kicked(1));
    machine.offline(1);
    machine.set_masked(1, false);
    machine.online(1);
    machine.deliver_all();
    machine.on(1, || timer.start(at_on(WALL + 1_000_000).pinned()));
    assert_eq!(machine.fires_at(1), Some(500_000));
    machine.set_wall(0, WALL + 900_000);
    assert!(machine.is_kicked(1));
    machine.deliver_all();
    assert_eq!(machine.fires_at(1), Some(100_000));
    machine.run_until(200_000);
    assert_eq!(timer.fired_at(), [WALL + 1_000_000]);
}

/// HP-2, B55, 14.6 abort variant: a CPU that turns round half-way down is started again while it is online.
fn a_cpu_that_turns_round_keeps_its_timers<C: Config>() {
    let machine = Machine::<C>::new(2);
    let timer = TestTimer::once(&machine);
    let soft = TestTimer::with_setup(&machine, SOFT, |_| Restart::No);
    machine.on(1, || {
        timer.start(at(50_000));
        soft.start(at(60_000));
    });
    machine.online(1);
    assert_eq!(timer.cpu(), Some(1));
    assert_eq!(machine.fires_at(1), Some(50_000));
    usable(&machine, 1);
    machine.run_until(90_000);
    assert_eq!(timer.fired_at(), [50_000]);
    assert_eq!(soft.fired_at(), [60_000]);
}

/// HP-2: caches of the earlier life do not leak: the address of a timer that was first is no hint any more.
fn hints_of_an_earlier_life_are_forgotten<C: Config>() {
    let machine = Machine::<C>::new(2);
    let timer = TestTimer::with_setup(&machine, Setup::new().lazy(), |_| Restart::No);
    machine.on(1, || timer.start(at(1_000)));
    machine.offline(1);
    machine.online(1);
    machine.deliver_all();
    machine.on(1, || timer.start(at(500)));
    assert_eq!((timer.cpu(), machine.fires_at(1)), (Some(1), Some(500)));
    machine.run_until(2_000);
    assert_eq!(timer.fired_at(), [500]);
}

/// HP-6: a callback on another CPU keeps its timer there, although the start comes from a CPU that left.
fn a_start_by_a_cpu_that_left_during_the_callback_stays<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.offline(1);
    let timer = {
        let machine = machine.clone();
        let mut runs = 0;
        TestTimer::cyclic(&machine.clone(), Setup::new(), move |own, _| {
            runs += 1;
            if runs == 1 {
                machine.on(1, || own.start(at(5_000)));
                assert_eq!(own.cpu(), Some(0));
            }
            Restart::No
        })
    };
    machine.on(0, || timer.start(at(1_000)));
    machine.run_until(9_000);
    assert_eq!(timer.fired_at(), [1_000, 5_000]);
}

/// S9: what is forgiven is counted.
fn a_forgiven_rearm_is_counted<C: Config>() {
    let machine = Machine::<C>::new(2);
    machine.offline(1);
    assert_eq!(machine.stats(1).flushes[Flush::Offline as usize], 0);
    machine.online(1);
    let _turn = machine.enter_interrupt(1);
    machine.offline(1);
    assert_eq!(
        machine.stats(1).flushes[Flush::Offline as usize],
        u64::from(C::DEFERRED_REARM)
    );
}

all_configs!(
    a_cpu_that_leaves_hands_its_timers_over,
    a_cpu_without_timers_leaves_quietly,
    overdue_timers_fire_where_they_arrive,
    soft_timers_that_arrive_are_known_to_the_stage,
    timers_arrive_while_a_rearm_is_owed,
    a_start_on_a_cpu_that_left_goes_elsewhere,
    housekeeping_cpus_take_over,
    a_cpu_that_comes_back_is_as_new,
    an_owed_rearm_does_not_survive,
    a_hang_does_not_survive,
    a_pending_soft_stage_does_not_survive,
    a_kick_that_got_lost_does_not_swallow_others,
    a_cpu_that_turns_round_keeps_its_timers,
    hints_of_an_earlier_life_are_forgotten,
    a_start_by_a_cpu_that_left_during_the_callback_stays,
    a_forgiven_rearm_is_counted,
);
