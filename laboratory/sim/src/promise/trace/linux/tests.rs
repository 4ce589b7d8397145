//! Tests with lines that Linux 6.18 printed, and with small traces in which a fault was planted.

use super::{Checker, Format, Record, Report};

/// Lines that a kernel printed, by tool.
const PRINTED: [(Format, &str); 5] = [
    (
        Format::Tracefs,
        " opt anw9elcqz8d-15879   [001] dNh1.   411.528022: hrtimer_start: hrtimer=000000007fa03eba \
         function=tick_nohz_handler expires=411532000000 softexpires=411532000000 mode=ABS was_armed=0",
    ),
    (
        Format::Tracefs,
        "     rcu_preempt-15      [001] d..1.   411.528050: timer_start: timer=00000000791ef96e function=process_timeout \
         expires=4294995145 [timeout=1] bucket_expiry=4294995146 cpu=1 idx=10 flags=",
    ),
    (
        Format::Perf,
        "            perf 25398 [000]   598.458863411:                          timer:hrtimer_start: \
         hrtimer=0xffff888627c2c6a8 function=dl_task_timer expires=599408157865 softexpires=599408157865 mode=0x8 \
         was_armed=0",
    ),
    (
        Format::Perf,
        "        rustc/a 15641/24435 [001]   598.459706602:                            timer:timer_start: \
         timer=0xffff888627d28fb0 function=mix_interrupt_randomness expires=4295041876 [timeout=0] \
         bucket_expiry=4295041877 cpu=1 idx=21 flags=D|P|I",
    ),
    // As trace-cmd lays out the same line.
    (
        Format::TraceCmd,
        "          <idle>-0     [001]   411.528009094: hrtimer_expire_entry:  hrtimer=0xffff888627d1c6f8 \
         now=411528008347 function=tick_nohz_handler/0x0",
    ),
];

#[test]
fn the_lines_of_each_tool_are_read() {
    let all = PRINTED.map(|(format, line)| {
        let record = Record::parse(line).expect("it is the line of an event");
        assert_eq!(record.format, format, "{line}");
        record
    });
    let [start, coarse, perf, group, cmd] = all;
    assert_eq!((start.task, start.pid), ("opt anw9elcqz8d", 15_879));
    assert_eq!((start.cpu, start.context), (1, Some(b'h')));
    assert_eq!(start.time, 411_528_022_000);
    assert_eq!(start.address("hrtimer"), Some(0x7FA0_3EBA));
    assert_eq!(start.number("softexpires"), Some(411_532_000_000));
    assert_eq!(start.number("expires"), Some(411_532_000_000));
    assert_eq!((coarse.timeout(), coarse.get("flags")), (Some(1), Some("")));
    assert_eq!((perf.event, perf.time), ("hrtimer_start", 598_458_863_411));
    assert_eq!(
        (group.task, group.pid, group.context),
        ("rustc/a", 24_435, None)
    );
    assert_eq!((cmd.pid, cmd.function()), (0, "tick_nohz_handler"));
    assert_eq!(cmd.number("now"), Some(411_528_008_347));
}

fn report(text: &str) -> Report {
    let mut checker = Checker::new(None);
    for (number, line) in (1..).zip(text.lines()) {
        checker.take(number, line);
    }
    checker.end()
}

/// Returns the promises that a trace shows to be broken.
fn broken(text: &str) -> Vec<&'static str> {
    let report = report(text);
    let kept = report.findings.kept().iter();
    kept.filter(|one| one.broken > 0)
        .map(|one| one.promise)
        .collect()
}

/// Two CPUs with their ticks, an exact timer that fires and one that is cancelled, a coarse timer of CPU 1 that CPU 0
/// runs, a coarse timer that only CPU 0 may run, and both CPUs as they go idle.
const GOOD: &str = "\
 nap-9   [000] d.h1.   0.999900: hrtimer_start: hrtimer=f0 function=tick_nohz_handler expires=1000000000 softexpires=1000000000 mode=ABS was_armed=0
 nap-9   [000] d.h1.   1.000010: hrtimer_expire_entry: hrtimer=f0 function=tick_nohz_handler now=1000009000
 nap-9   [000] d.h1.   1.000011: hrtimer_expire_exit: hrtimer=f0
 nap-9   [000] .....   1.000100: hrtimer_setup: hrtimer=0a clockid=CLOCK_MONOTONIC mode=REL|HARD
 nap-9   [000] d..1.   1.000101: hrtimer_start: hrtimer=0a function=hrtimer_wakeup expires=1000250000 softexpires=1000200000 mode=REL|HARD was_armed=0
 nap-9   [000] .....   1.000110: timer_init: timer=0c
 nap-9   [000] d..1.   1.000111: timer_start: timer=0c function=process_timeout expires=252 [timeout=2] bucket_expiry=253 cpu=0 idx=61 flags=P
 nap-8   [001] .....   1.000120: timer_init: timer=0d
 nap-8   [001] d..1.   1.000121: timer_start: timer=0d function=process_timeout expires=251 [timeout=1] bucket_expiry=252 cpu=1 idx=60 flags=I
 nap-8   [001] .....   1.000130: hrtimer_setup: hrtimer=0b clockid=CLOCK_MONOTONIC mode=ABS
 nap-8   [001] d..1.   1.000131: hrtimer_start: hrtimer=0b function=hrtimer_wakeup expires=1900000000 softexpires=1900000000 mode=ABS was_armed=0
 nap-9   [000] d.h1.   1.000260: hrtimer_expire_entry: hrtimer=0a function=hrtimer_wakeup now=1000258000
 nap-9   [000] d.h1.   1.000261: hrtimer_expire_exit: hrtimer=0a
 nap-8   [001] d..1.   1.000300: hrtimer_cancel: hrtimer=0b
 nap-9   [000] d.h1.   1.000262: hrtimer_start: hrtimer=f0 function=tick_nohz_handler expires=1004000000 softexpires=1004000000 mode=ABS was_armed=0
 nap-9   [000] d.h1.   1.004010: hrtimer_expire_entry: hrtimer=f0 function=tick_nohz_handler now=1004009000
 nap-9   [000] d.h1.   1.004011: hrtimer_expire_exit: hrtimer=f0
 nap-9   [000] d.h1.   1.004012: hrtimer_start: hrtimer=f0 function=tick_nohz_handler expires=1008000000 softexpires=1008000000 mode=ABS was_armed=0
 nap-9   [000] ..s1.   1.004020: timer_expire_entry: timer=0e function=delayed_work_timer_fn now=251 baseclk=251
 nap-9   [000] ..s1.   1.004021: timer_expire_exit: timer=0e
 <idle>-0   [001] d..1.   1.005000: tick_stop: success=1 dependency=NONE
 <idle>-0   [001] d..1.   1.005001: timer_base_idle: is_idle=1 cpu=1
 <idle>-0   [001] d..1.   1.005002: tmigr_group_set_cpu_inactive: group=99 lvl=0 numa=0 active=1 migrator=1 parent=0 childmask=2
 <idle>-0   [001] d..1.   1.005003: tmigr_cpu_idle: cpu=1 parent=99 nextevt=1008000000 wakeup=9223372036854775807
 nap-9   [000] d.h1.   1.008010: hrtimer_expire_entry: hrtimer=f0 function=tick_nohz_handler now=1008009000
 nap-9   [000] d.h1.   1.008011: hrtimer_expire_exit: hrtimer=f0
 nap-9   [000] d.h1.   1.008012: hrtimer_start: hrtimer=f0 function=tick_nohz_handler expires=1012000000 softexpires=1012000000 mode=ABS was_armed=0
 nap-9   [000] ..s1.   1.008020: tmigr_handle_remote_cpu: cpu=1 parent=99 wakeup=9223372036854775807
 nap-9   [000] ..s1.   1.008021: timer_cancel: timer=0d
 nap-9   [000] ..s1.   1.008022: timer_expire_entry: timer=0d function=process_timeout now=252 baseclk=252
 nap-9   [000] ..s1.   1.008023: timer_expire_exit: timer=0d
 <idle>-0   [001] d..1.   1.008030: tmigr_cpu_new_timer_idle: cpu=1 parent=99 nextevt=1016000000 wakeup=9223372036854775807
 <idle>-0   [000] d..1.   1.009000: tick_stop: success=1 dependency=NONE
 <idle>-0   [000] d..1.   1.009001: timer_base_idle: is_idle=1 cpu=0
 <idle>-0   [000] d..1.   1.009002: tmigr_group_set_cpu_inactive: group=99 lvl=0 numa=0 active=0 migrator=ff parent=0 childmask=1
 <idle>-0   [000] d..1.   1.009003: tmigr_cpu_idle: cpu=0 parent=99 nextevt=9223372036854775807 wakeup=1016000000
 <idle>-0   [000] d..1.   1.009004: hrtimer_start: hrtimer=f0 function=tick_nohz_handler expires=1012000000 softexpires=1012000000 mode=ABS was_armed=1
 <idle>-0   [000] d.h1.   1.012010: hrtimer_expire_entry: hrtimer=f0 function=tick_nohz_handler now=1012009000
 <idle>-0   [000] d.h1.   1.012011: hrtimer_expire_exit: hrtimer=f0
 <idle>-0   [000] d.h1.   1.012012: hrtimer_start: hrtimer=f0 function=tick_nohz_handler expires=1016000000 softexpires=1016000000 mode=ABS was_armed=0
 <idle>-0   [000] d.s1.   1.012021: timer_cancel: timer=0c
 <idle>-0   [000] ..s1.   1.012022: timer_expire_entry: timer=0c function=process_timeout now=253 baseclk=253
 <idle>-0   [000] ..s1.   1.012023: timer_expire_exit: timer=0c
 <idle>-0   [000] d..1.   1.013000: timer_base_idle: is_idle=0 cpu=0
 <idle>-0   [000] d..1.   1.013001: tmigr_cpu_active: cpu=0 parent=99 wakeup=9223372036854775807
 <idle>-0   [000] d..1.   1.013002: tmigr_group_set_cpu_active: group=99 lvl=0 numa=0 active=1 migrator=1 parent=0 childmask=1
";

/// Faults: a place in a line of the good trace, the text that is replaced in that line, the text that replaces it, and the
/// promise that is broken. An empty text removes the line; `2` in place of a text repeats it.
const FAULTS: &str = "\
now=1000258000 => 1000258000 => 1000199000 => never_early
now=1008009000 => now=1008009000 => now=1038009000 => monotonic
now=1000258000 => 1.000260: hrtimer_expire_entry: hrtimer=0a function=hrtimer_wakeup now=1000258000 => 1.200260: hrtimer_expire_entry: hrtimer=0a function=hrtimer_wakeup now=1200258000 => bounded_late
hrtimer_expire_entry: hrtimer=0a =>  =>  => cancel_means_not_running
hrtimer_expire_exit: hrtimer=0a => 2 =>  => cancel_means_not_running
hrtimer_expire_entry: hrtimer=0a => 2 =>  => cancel_means_not_running
hrtimer_expire_exit: hrtimer=0a => [000] => [001] => cancel_means_not_running
hrtimer_expire_entry: hrtimer=0a => d.h1. => ..s1. => in_context
hrtimer_expire_entry: hrtimer=0a => d.h1. => d..1. => in_context
hrtimer_cancel: hrtimer=0b => 2 =>  => never_lost
expires=1900000000 => mode=ABS was_armed=0 => mode=ABS was_armed=1 => never_lost
now=1004009000 =>  =>  => cancel_means_not_running
now=1008009000 => hrtimer_expire_entry => x => cancel_means_not_running
expires=1012000000 softexpires=1012000000 mode=ABS was_armed=0 => 1012000000 s => 1011000000 s => ticks_in_turn
expires=1008000000 =>  =>  => cancel_means_not_running
1.009000: tick_stop => NONE => SCHED => ticks_in_turn
is_idle=0 cpu=0 => is_idle=0 => is_idle=1 => ticks_in_turn
was_armed=1 => expires=1012000000 s => expires=1052000000 s => covered
now=252 baseclk => now=252 => now=251 => never_early
now=252 baseclk => baseclk=252 => baseclk=250 => never_early
now=252 baseclk => now=252 => now=452 => bounded_late
bucket_expiry=252 => bucket_expiry=252 => bucket_expiry=261 => bounded_late
timer_cancel: timer=0d =>  =>  => cancel_means_not_running
timer_expire_entry: timer=0d =>  =>  => cancel_means_not_running
timer_expire_entry: timer=0c => [000] => [001] => cancel_means_not_running
timer_expire_entry: timer=0d => ..s1. => d.h1. => in_context
cpu=1 idx=60 flags=I => flags=I => flags=P|I => covered
1.008020: tmigr_handle_remote_cpu =>  =>  => covered
nextevt=1008000000 => nextevt=1008000000 => nextevt=1020000000 => never_early
nextevt=1008000000 => nextevt=1008000000 => nextevt=1020000000 => covered
wakeup=1016000000 => wakeup=1016000000 => wakeup=1020000000 => covered
nextevt=1008000000 => wakeup=9223372036854775807 => wakeup=1008000000 => covered
active=0 migrator=ff => migrator=ff => migrator=2 => one_migrator
active=1 migrator=1 parent=0 childmask=2 => migrator=1 => migrator=ff => one_migrator
active=1 migrator=1 parent=0 childmask=2 => active=1 => active=3 => one_migrator
";

#[test]
fn each_planted_fault_is_found_and_named() {
    let good = report(GOOD);
    assert_eq!(good.findings.violations(), []);
    assert_eq!((good.findings.unsure(), &good.missing[..]), (0, &[][..]));
    for fault in FAULTS.lines() {
        let [place, from, to, promise] = fault.split(" => ").collect::<Vec<_>>()[..] else {
            panic!("{fault}");
        };
        let at = GOOD
            .find(place)
            .unwrap_or_else(|| panic!("{place} is there"));
        let begin = GOOD[..at].rfind('\n').map_or(0, |end| end + 1);
        let end = begin + GOOD[begin..].find('\n').expect("a line ends") + 1;
        let line = &GOOD[begin..end];
        let changed = match from {
            "" => String::new(),
            "2" => line.repeat(2),
            from => line.replacen(from, to, 1),
        };
        let text = format!("{}{changed}{}", &GOOD[..begin], &GOOD[end..]);
        let broken = broken(&text);
        let found = report(&text).findings;
        assert!(
            broken.contains(&promise),
            "{fault}: {:#?}",
            found.violations()
        );
    }
}

#[test]
fn a_violation_says_which_timer_and_what_each_cpu_did() {
    let text = GOOD.replace("now=1000258000", "now=1000199000");
    let report = report(&text);
    let first = &report.findings.violations()[0];
    assert_eq!(
        (first.line, first.cpu, first.promise),
        (12, Some(0), "never_early")
    );
    assert_eq!(
        first.what,
        "timer 000000000000000a (hrtimer_wakeup, started by nap), started in line 5, fires early, at 1000199000: it may \
         fire from 1000200000 on"
    );
}

/// A program may start a timer for a time that is over: POSIX timers that were missed, for example.
#[test]
fn a_timer_is_not_late_before_it_is_started() {
    let fires_at = |clock: &str, seconds: &str, now: &str| {
        broken(&format!(
            "{GOOD} nap-8   [001] .....   1.013100: hrtimer_setup: hrtimer=0f clockid=CLOCK_{clock} mode=ABS
 nap-8   [001] d..1.   1.013101: hrtimer_start: hrtimer=0f function=posix_timer_fn expires=1000000 softexpires=1000000 mode=ABS was_armed=0
 nap-8   [001] d.h1.   {seconds}: hrtimer_expire_entry: hrtimer=0f function=posix_timer_fn now={now}\n"
        ))
    };
    for (clock, soon, late) in [
        ("MONOTONIC", "1013104000", "1213104000"),
        ("REALTIME", "1796037126399775068", "1796037126599775068"),
    ] {
        assert_eq!(fires_at(clock, "1.013105", soon), [""; 0]);
        assert!(fires_at(clock, "1.213105", late).contains(&"bounded_late"));
    }
}

#[test]
fn an_expiry_that_is_missing_is_told_at_the_end() {
    let gone = |line: &&str| !(line.contains("hrtimer=0a") && line.contains("_expire_"));
    let mut text: Vec<&str> = GOOD.lines().filter(gone).collect();
    assert_eq!(broken(&text.join("\n")), [""; 0], "it may come yet");
    let late = " nap-9   [000] .....   1.900000: timer_init: timer=0f";
    text.push(late);
    assert_eq!(broken(&text.join("\n")), ["never_lost"]);
    // The CPU that started it may have lost its last events.
    let silent = late.replace("[000]", "[001]").replace("1.9", "9.9");
    let last = text.len() - 1;
    text[last] = &silent;
    let report = report(&text.join("\n"));
    assert!(report.findings.holds() && report.findings.unsure() > 0);
}

/// The event of an expiry is written without the lock, so a start on another CPU may come first; not long before it.
#[test]
fn a_start_may_overtake_an_expiry_for_a_moment() {
    const ENTRY: &str = " nap-9   [000] d.h1.   1.000260: hrtimer_expire_entry: hrtimer=0a";
    let start = |time: &str| {
        let start = format!(
            " nap-8   [001] d..1.   {time}: hrtimer_start: hrtimer=0a function=hrtimer_wakeup expires=1900000000 \
             softexpires=1900000000 mode=ABS was_armed=0\n{ENTRY}"
        );
        broken(&GOOD.replace(ENTRY, &start))
    };
    assert_eq!(start("1.000259"), [""; 0]);
    assert!(start("1.000050").contains(&"never_lost"));
    let alone = GOOD.replace(
        ENTRY,
        " nap-9 [000] d.h1. 1.000260: hrtimer_start: hrtimer=0a function=f expires=1900000000 \
        softexpires=1900000000 mode=ABS was_armed=0\n nap-9 [000] d.h1. 1.000260: other: x",
    );
    assert!(broken(&alone).contains(&"never_lost"));
}

#[test]
fn what_is_missing_is_said_and_not_judged() {
    // Events were lost: what was queued before them is not known.
    let marked = |mark: &str| {
        let cancel = " nap-8   [001] d..1.   1.000300: hrtimer_cancel: hrtimer=0b\n";
        report(&GOOD.replace(cancel, &format!("{mark}\n{}", cancel.repeat(2))))
    };
    assert!(!marked("").findings.holds());
    for mark in [
        "CPU:1 [LOST 14180 EVENTS]",
        "CPU:1 [14180 EVENTS DROPPED]",
        " perf 7 [000] 1.0: PERF_RECORD_LOST lost 14180",
    ] {
        let report = marked(mark);
        assert!(report.findings.holds(), "{mark}");
        assert_eq!(report.lost, 14_180, "{mark}");
    }
    // A timer that was armed before may have been armed anew.
    let entry = " nap-9   [000] d.h1.   1.000260: hrtimer_expire_entry: hrtimer=0a";
    let early = GOOD.replace("now=1000258000", "now=1000199000");
    assert!(!report(&early).findings.holds());
    let lost = early.replace(entry, &format!("CPU:0 [LOST 1 EVENTS]\n{entry}"));
    assert!(report(&lost).findings.holds());
    // A line that cannot be read is missing, too, and is named; what follows it is not blamed on the kernel.
    let line = GOOD
        .lines()
        .position(|line| line.contains(entry.trim_start()))
        .expect("it is there")
        + 1;
    for (old, new, what) in [
        ("now=1000258000", "", "hrtimer_expire_entry without `now=`"),
        (
            "now=1000258000",
            "now=soon",
            "hrtimer_expire_entry without `now=`",
        ),
        (
            "1.000260: hrtimer_expire_entry",
            "soon: hrtimer_expire_entry",
            "whose task, CPU or time",
        ),
        (
            "1.000260: hrtimer_expire_entry",
            "0.000260: hrtimer_expire_entry",
            "the time of CPU 0 goes back by",
        ),
    ] {
        let report = report(&GOOD.replacen(old, new, 1));
        assert!(report.findings.holds(), "{new}");
        let told = &report.missing[0];
        assert!(
            told.starts_with(&format!("line {line}: ")) && told.contains(what),
            "{told}"
        );
    }
    let many = report(&format!("{GOOD}{}", "CPU:1 [LOST 1 EVENTS]\n".repeat(400)));
    assert_eq!((many.lost, many.missing.len()), (400, 9));
    assert!(
        many.missing[8].starts_with("392 more"),
        "{:?}",
        many.missing
    );
    // The ring overwrote its first events.
    let report = marked("# entries-in-buffer/entries-written: 1074/22279   #P:2");
    assert_eq!(report.lost, 21_205);
    assert!(report.missing[0].contains("overwritten"));
    // The recorder does not see the idle task of CPU 1.
    let seen = |line: &&str| !(line.contains("<idle>-0   [001]") && line.contains("d..1."));
    let mut text: String = GOOD
        .lines()
        .filter(seen)
        .map(|line| format!("{line}\n"))
        .collect();
    for _ in 0..20 {
        text.push_str(" <idle>-0 [001] d.h1. 1.020000: local_timer_entry: vector=236\n");
    }
    text.push_str(" <idle>-0 [001] d..1. 1.020000: hrtimer_cancel: hrtimer=0b\n");
    let text = text.replace("[001] d..1. 1.020000", "[001] d.h1. 1.020000");
    let blind = self::report(&text);
    assert!(blind.findings.holds() && blind.findings.unsure() > 0);
    assert!(blind.missing[0].starts_with("CPU 1: the recorder does not see its idle task"));
    // It may be idle when it seems to be awake.
    let awake = |text: &str| broken(&text.replace("active=0 migrator=ff", "active=2 migrator=1"));
    assert!(awake(GOOD).contains(&"covered"));
    assert!(!awake(&text).contains(&"covered"));
    // The task that starts a timer is not recorded at all.
    let fires = |at: u32| {
        format!(
            " nap-9 [000] d.h1. 1.02{at}010: hrtimer_expire_entry: hrtimer=33 function=timerfd_tmrproc now=102{at}009000\n \
         nap-9 [000] d.h1. 1.02{at}011: hrtimer_expire_exit: hrtimer=33\n"
        )
    };
    let hidden = self::report(&format!("{GOOD}{}{}", fires(1), fires(2)));
    assert!(hidden.findings.holds());
    assert!(hidden.notes.iter().any(|note| {
        note.contains("does not see all tasks: timer 0000000000000033 (timerfd_tmrproc)")
    }));
}

/// A stopped tick without a timer to wait for ends before the clock wraps, which is no number of ticks.
#[test]
fn a_cpu_without_a_timer_sleeps_for_any_time() {
    let start = " <idle>-0 [000] d..1. 1.013501: hrtimer_start: hrtimer=f0 function=tick_nohz_handler \
         expires=441820257976 softexpires=441820257976 mode=ABS was_armed=1\n";
    let stop = " <idle>-0 [000] d..1. 1.013500: tick_stop: success=1 dependency=NONE\n";
    assert_eq!(broken(&format!("{GOOD}{stop}{start}")), [""; 0]);
    assert!(broken(&format!("{GOOD}{start}")).contains(&"ticks_in_turn"));
}

#[test]
fn another_clock_and_another_tool_are_told() {
    // The clock of tracefs, unless another one is set, is behind the monotonic one here.
    let local: String = GOOD
        .lines()
        .map(|line| {
            format!(
                "{}\n",
                line.replace("  0.9", "  0.8").replace("  1.0", "  0.9")
            )
        })
        .collect();
    let found = report(&local);
    assert_eq!(found.findings.violations(), []);
    assert!(
        found.notes[0].contains("are not those of the monotonic clock"),
        "{:?}",
        found.notes
    );
    // perf shows no context, and flags that are wrong.
    let perf: String = GOOD
        .lines()
        .map(|line| {
            let (task, rest) = line.split_once('-').expect("a task");
            let (pid, rest) = rest.split_once("  ").expect("its number");
            let (cpu, rest) = rest.trim().split_once("] ").expect("its CPU");
            let (_, rest) = rest.split_once("   ").expect("its context");
            let rest = rest
                .replacen(": ", ": timer:", 1)
                .replace("flags=I", "flags=D|P|I");
            format!("{task} {pid} {cpu}] {rest}\n")
        })
        .collect();
    let found = report(&perf);
    assert_eq!(found.findings.violations(), [], "{perf}");
    assert!(
        found.notes[0].starts_with("text of perf script"),
        "{:?}",
        found.notes
    );
    assert!(found.findings.kept()[super::super::findings::COVERED].checks > 0);
}

/// Lines that were damaged anywhere are read or passed over, and never end the check.
#[test]
fn damaged_lines_do_no_harm() {
    let mut bits = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = |below: usize| {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        usize::try_from(bits >> 33).expect("31 bits") % below
    };
    let pieces = [
        "[",
        "]",
        "=",
        "-",
        ":",
        "99999999999999999999",
        "ffffffffffffffff",
        "\u{fffd}",
        " ",
        "idx=9999",
        "-1",
        ".",
    ];
    let lines: Vec<&str> = GOOD
        .lines()
        .chain(PRINTED.iter().map(|(_, line)| *line))
        .collect();
    for _ in 0..400 {
        let mut checker = Checker::new(Some(draw(2) as u64 * u64::MAX));
        for number in 1..60 {
            let mut line = lines[draw(lines.len())].to_owned();
            for _ in 0..draw(4) {
                let at = draw(line.len() + 1);
                let to = (at + draw(6)).min(line.len());
                if line.is_char_boundary(at) && line.is_char_boundary(to) {
                    line.replace_range(at..to, pieces[draw(pieces.len())]);
                }
            }
            checker.take(number, &line);
        }
        let _report = checker.end();
    }
}
