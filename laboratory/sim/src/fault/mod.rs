//! Faults: failures of the simulated machine in a run, and how late each may make timers.
//!
//! `laboratory/docs/simulator.md`, "Faults", has the tables of a scenario, and what each kind does.
//!
//! No promise is given up for a fault. [`BoundedLate`](crate::promise::Promise::BoundedLate) allows the delay that each
//! table causes by itself, once: see [`Fault::allows`].

mod draw;
mod fields;
pub(crate) mod inject;

use serde::Serialize;

pub(crate) use draw::draw;
pub(crate) use fields::{RawFault, read_all};

use crate::model::time::Picos;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FaultKind {
    /// `late`: a timer interrupt comes `amount` after its time, also if the device is written meanwhile.
    Late,
    /// `early`: a timer interrupt comes `amount` before its time.
    Early,
    /// `lost`: a timer interrupt does not come; one that was not programmed comes `amount` later. The library promises
    /// nothing to a CPU that never gets another: starting a timer writes no device that is armed earlier.
    Lost,
    /// `lost-wakeup`: an interrupt from another CPU does not come, and is sent again `amount` later, by the host: the
    /// library takes a kick for delivered.
    LostWakeup,
    /// `spurious`: a timer interrupt comes for which the CPU did not program its device.
    Spurious,
    /// `stall`: the CPU executes nothing for `amount`, before or after kernel work.
    Stall,
    /// `isolate`: the CPU becomes isolated, or its isolation ends.
    Isolate,
    /// `offline`: the CPU goes offline, and comes back `amount` later.
    Offline,
    /// `panic`: a coarse timer and an exact one, with the period `amount`, whose callbacks panic the third time.
    Panic,
    /// `meddle`: timers of the CPU, first due after `amount`, whose callbacks arm, move and cancel each other and
    /// themselves.
    Meddle,
    /// `clock-step`: the time of day is set by `amount`, which may be negative. One of the CPUs notifies the timers.
    ClockStep,
    /// `leap-second`: an announced leap second is inserted into the time of day, or deleted.
    LeapSecond,
    /// `frequency`: the clock is steered to be `ppm` parts in a million faster than its counter says.
    Frequency,
    /// `suspend`: the machine sleeps for `amount`, in which the monotonic clock stands still.
    Suspend,
}

impl FaultKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 14] = [
        Self::Late,
        Self::Early,
        Self::Lost,
        Self::LostWakeup,
        Self::Spurious,
        Self::Stall,
        Self::Isolate,
        Self::Offline,
        Self::Panic,
        Self::Meddle,
        Self::ClockStep,
        Self::LeapSecond,
        Self::Frequency,
        Self::Suspend,
    ];

    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Early => "early",
            Self::Lost => "lost",
            Self::LostWakeup => "lost-wakeup",
            Self::Spurious => "spurious",
            Self::Stall => "stall",
            Self::Isolate => "isolate",
            Self::Offline => "offline",
            Self::Panic => "panic",
            Self::Meddle => "meddle",
            Self::ClockStep => "clock-step",
            Self::LeapSecond => "leap-second",
            Self::Frequency => "frequency",
            Self::Suspend => "suspend",
        }
    }

    /// Returns true if the fault spoils an interrupt that comes anyway.
    #[must_use]
    pub const fn spoils(self) -> bool {
        matches!(
            self,
            Self::Late | Self::Early | Self::Lost | Self::LostWakeup
        )
    }

    /// Returns true if the fault changes the clocks, and so the whole machine.
    #[must_use]
    pub const fn is_of_clocks(self) -> bool {
        matches!(
            self,
            Self::ClockStep | Self::LeapSecond | Self::Frequency | Self::Suspend
        )
    }

    /// Returns true if the fault has an amount.
    #[must_use]
    pub const fn has_amount(self) -> bool {
        !matches!(
            self,
            Self::Spurious | Self::Isolate | Self::LeapSecond | Self::Frequency
        )
    }

    /// Returns true if the fault makes timers late.
    #[must_use]
    pub const fn delays(self) -> bool {
        matches!(
            self,
            Self::Late | Self::Lost | Self::LostWakeup | Self::Stall
        )
    }
}

/// The times of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// The fault happens once, at this time, to all its CPUs. A fault that spoils interrupts hits the first interrupt
    /// of each CPU after that.
    At(Picos),
    /// The fault happens again and again, to one of its CPUs each time. The interval is drawn from half to one and a
    /// half of this time.
    Every(Picos),
    /// The fault hits one in this number of interrupts of its CPUs, of the kind that it spoils.
    OneIn(u32),
}

/// A fault: its kind, its times, the CPUs that it may hit, and its amount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The times of the fault.
    pub when: When,
    /// The CPUs that the fault may hit, in rising order.
    pub cpus: Vec<u32>,
    /// The amount of the fault; zero for kinds without one.
    pub amount: Picos,
    /// True if the fault sets the time of day back by its amount.
    pub back: bool,
    /// The rate, for faults that change one, in parts per million.
    pub ppm: i32,
}

impl Fault {
    /// Returns the signed amount of a fault that sets the time of day, in nanoseconds.
    #[must_use]
    pub const fn nanos(&self) -> i64 {
        #[expect(clippy::cast_possible_wrap, reason = "a fifth of the range at most")]
        let nanos = self.amount.as_nanos() as i64;
        if self.back { -nanos } else { nanos }
    }

    /// Returns true if the fault inserts a leap second. The core's record of the time knows of one to come (spec
    /// TIM-20). If a second one came before the record took the first, the record would go back by 1 s where the time
    /// of day goes back by 2 s, and alarms would be up to 1 s early. So a run has one at most; real ones are months
    /// apart.
    const fn inserts(&self) -> bool {
        matches!(self.kind, FaultKind::LeapSecond) && self.back
    }

    /// Returns the extra lateness of timers that the fault excuses, in a run that is `duration` long.
    ///
    /// Two hits of the same fault do not add up: all due timers fire between them.
    #[must_use]
    pub fn allows(&self, duration: Picos) -> Picos {
        match self.kind {
            // A device that was written before goes by the old rate: as long as a CPU may sleep.
            FaultKind::Frequency => duration.scaled(self.ppm.unsigned_abs().into(), 1_000_000),
            kind if kind.delays() => self.amount,
            _ => Picos::ZERO,
        }
    }
}
