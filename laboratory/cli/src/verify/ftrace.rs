//! The writer of a trace as the text that tracefs prints, for the tools that read it, `tickless verify` among them.
//!
//! It writes the events of timers and of what runs, with the arguments of Linux 6.18. Our hosts know no tasks, and the
//! addresses of functions are not in a trace.

use std::collections::HashSet;
use std::fmt::Write as _;

use tickless_sim::promise::trace::{Event, Flags, Head, TimerClock};

/// The first lines of the text.
pub(super) const BEGIN: &str =
    "# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n";

/// The function of every timer.
const FUNCTION: &str = "tickless";
/// The columns of the context: a task, a hard interrupt, the soft stage.
const TASK: &str = ".....";
const HARD: &str = "d.h1.";
const SOFT: &str = "..s1.";

/// A writer, which knows the timers that it has set up.
#[derive(Debug, Default)]
pub(super) struct Writer {
    set_up: HashSet<u64>,
}

impl Writer {
    /// Writes the lines of an event. Returns false if Linux has no such event.
    pub(super) fn write(&mut self, head: &Head, event: &Event, out: &mut String) -> bool {
        let mut line = |context: &str, name: &str, arguments: std::fmt::Arguments<'_>| {
            // Without a lane of its own there, the machine itself is on CPU 0.
            let cpu = head.cpu.flatten().unwrap_or(0);
            let micros = head.time.div_euclid(1_000);
            let (whole, part) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
            let _ = writeln!(
                out,
                "           <...>-1       [{cpu:03}] {context} {whole:5}.{part:06}: {name}: {arguments}"
            );
        };
        match *event {
            Event::HrtimerStart {
                hrtimer: id,
                clock,
                expires,
                softexpires,
                was_armed,
                ..
            } => {
                if self.set_up.insert(id) && !was_armed {
                    let clock = clock_id(clock);
                    let arguments = format_args!("hrtimer={id:016x} clockid={clock} mode=ABS");
                    line(TASK, "hrtimer_setup", arguments);
                }
                let (expires, soft) = (expires.cast_unsigned(), softexpires.cast_unsigned());
                let was_armed = u8::from(was_armed);
                line(
                    TASK,
                    "hrtimer_start",
                    format_args!(
                        "hrtimer={id:016x} function={FUNCTION} expires={expires} softexpires={soft} mode=ABS \
                         was_armed={was_armed}"
                    ),
                );
            }
            Event::HrtimerCancel { hrtimer: id } => {
                line(TASK, "hrtimer_cancel", format_args!("hrtimer={id:016x}"));
            }
            Event::HrtimerExpireEntry {
                hrtimer: id, now, ..
            } => {
                let now = now.unwrap_or(head.time).cast_unsigned();
                let arguments = format_args!("hrtimer={id:016x} function={FUNCTION} now={now}");
                line(HARD, "hrtimer_expire_entry", arguments);
            }
            Event::HrtimerExpireExit { hrtimer: id } => {
                line(
                    HARD,
                    "hrtimer_expire_exit",
                    format_args!("hrtimer={id:016x}"),
                );
            }
            Event::TimerStart {
                timer: id,
                of_cpu,
                flags,
                now,
                expires,
                bucket_expiry,
                was_armed,
            } => {
                if was_armed {
                    line(TASK, "timer_cancel", format_args!("timer={id:016x}"));
                }
                let timeout = i128::from(expires) - i128::from(now);
                let slot = slot(expires, bucket_expiry);
                let flags = match flags {
                    Flags::Global => "",
                    Flags::Pinned => "P",
                    Flags::Deferrable => "D",
                };
                line(
                    TASK,
                    "timer_start",
                    format_args!(
                        "timer={id:016x} function={FUNCTION} expires={expires} [timeout={timeout}] \
                         bucket_expiry={bucket_expiry} cpu={of_cpu} idx={slot} flags={flags}"
                    ),
                );
            }
            Event::TimerCancel { timer: id } => {
                line(TASK, "timer_cancel", format_args!("timer={id:016x}"));
            }
            Event::TimerExpireEntry { timer: id, now, .. } => {
                line(SOFT, "timer_cancel", format_args!("timer={id:016x}"));
                let arguments =
                    format_args!("timer={id:016x} function={FUNCTION} now={now} baseclk={now}");
                line(SOFT, "timer_expire_entry", arguments);
            }
            Event::TimerExpireExit { timer: id } => {
                line(SOFT, "timer_expire_exit", format_args!("timer={id:016x}"));
            }
            Event::TickStop { .. } => {
                line(TASK, "tick_stop", format_args!("success=1 dependency=NONE"));
            }
            Event::CpuIdle { ref state, .. } => {
                let digits = |name: &String| {
                    name.trim_start_matches(|one: char| !one.is_ascii_digit())
                        .parse()
                        .unwrap_or(0)
                };
                let state = state.as_ref().map_or(u32::MAX, digits);
                let cpu = head.cpu.flatten().unwrap_or(0);
                line(TASK, "cpu_idle", format_args!("state={state} cpu_id={cpu}"));
            }
            _ => return false,
        }
        true
    }
}

const fn clock_id(clock: TimerClock) -> &'static str {
    match clock {
        TimerClock::Monotonic => "CLOCK_MONOTONIC",
        TimerClock::Realtime => "CLOCK_REALTIME",
        TimerClock::Boottime => "CLOCK_BOOTTIME",
        TimerClock::Tai => "CLOCK_TAI",
    }
}

/// Returns the slot of the lowest level of Linux's wheel in which a timer has this due tick.
fn slot(expires: u64, bucket: u64) -> u64 {
    let fits = |level: &u64| {
        let width = 1_u64 << (3 * level);
        bucket.is_multiple_of(width) && bucket <= expires.saturating_add(width)
    };
    let level = (0..8).find(fits).unwrap_or(0);
    level * 64 + (bucket >> (3 * level)) % 64
}
