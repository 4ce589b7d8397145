//! The sources of time of this machine.

use std::fs::{self, File};
use std::sync::Arc;
use std::time::Instant as StdInstant;

use rustix::time::DynamicClockId;
use tickless::internals::sources::{HasProcessor, KernelClock, Ordered};

/// The method by which a source is read.
#[derive(Clone, Debug)]
pub(super) enum Way {
    Unordered,
    Fenced,
    WithProcessor(HasProcessor),
    Tickless,
    Std(StdInstant),
    Kernel(KernelClock),
    SystemCall(KernelClock),
    /// A hardware clock that is read through a file.
    Device(Arc<File>),
}

/// The unit of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Cycles of the time-stamp counter.
    Cycles,
    Nanos,
    /// Nanoseconds of processor time of a thread or process, which is no passing time.
    CpuNanos,
}

/// A source of time.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    /// The call or instruction that reads the source.
    pub(super) how: &'static str,
    pub(super) unit: Unit,
    /// True if readings of two CPUs can be compared.
    pub(super) is_ordered: bool,
    /// True if an administrator sets the source.
    pub(super) is_set: bool,
    pub(super) way: Way,
}

/// An operation on the reading function of any source, without a call through a pointer.
pub(super) trait Visit {
    type Output;
    fn visit(self, read: impl Fn() -> u64 + Sync) -> Self::Output;
}

impl Source {
    fn new(name: &str, how: &'static str, unit: Unit, way: Way) -> Self {
        Self {
            name: name.to_owned(),
            how,
            unit,
            is_ordered: true,
            is_set: false,
            way,
        }
    }

    /// Lets `visitor` read the source.
    #[inline]
    pub(super) fn with<V: Visit>(&self, visitor: V) -> V::Output {
        match &self.way {
            Way::Unordered => visitor.visit(tickless::clock::cycles),
            Way::Fenced => visitor.visit(Ordered::read_fenced),
            Way::WithProcessor(has) => visitor.visit(|| has.read()),
            Way::Tickless => visitor.visit(tickless_nanos),
            Way::Std(start) => visitor.visit(|| nanos(start.elapsed().as_nanos())),
            Way::Kernel(clock) => visitor.visit(|| clock.read()),
            Way::SystemCall(clock) => visitor.visit(|| clock.read_by_system_call()),
            Way::Device(file) => visitor.visit(|| device_nanos(file)),
        }
    }

    /// Returns the resolution that the kernel reports for the source, in nanoseconds.
    pub(super) fn told_resolution(&self) -> Option<u64> {
        match &self.way {
            Way::Kernel(clock) | Way::SystemCall(clock) => clock.resolution(),
            _ => None,
        }
    }

    /// Reads the source once.
    pub(super) fn read(&self) -> u64 {
        struct Once;
        impl Visit for Once {
            type Output = u64;
            fn visit(self, read: impl Fn() -> u64 + Sync) -> u64 {
                read()
            }
        }
        self.with(Once)
    }
}

fn nanos(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// Returns the time of the library's clock, counted like `CLOCK_MONOTONIC`.
#[inline]
pub(super) fn tickless_nanos() -> u64 {
    let now = tickless_core::time::Instant::from(tickless::time::Instant::now());
    now.as_nanos().unsigned_abs()
}

fn device_nanos(file: &File) -> u64 {
    let time = rustix::time::clock_gettime_dynamic(DynamicClockId::Dynamic(
        std::os::fd::AsFd::as_fd(file),
    ));
    time.map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds
            .wrapping_mul(1_000_000_000)
            .wrapping_add(time.tv_nsec.unsigned_abs())
    })
}

/// Returns all sources that this machine has.
pub(super) fn all() -> Vec<Source> {
    let mut all = Vec::new();
    if tickless::clock::cycles() != 0 {
        let unordered = Source::new("tsc", "rdtsc", Unit::Cycles, Way::Unordered);
        all.push(Source {
            is_ordered: false,
            ..unordered
        });
    }
    for way in Ordered::ways() {
        match way {
            Ordered::WithProcessor(has) => {
                let way = Way::WithProcessor(has);
                all.push(Source::new("tsc, rdtscp", "rdtscp", Unit::Cycles, way));
            }
            _ => all.push(Source::new(
                "tsc, fenced",
                "lfence; rdtsc",
                Unit::Cycles,
                Way::Fenced,
            )),
        }
    }
    let tickless = "tickless::time::Instant::now()";
    all.push(Source::new(
        "tickless",
        tickless,
        Unit::Nanos,
        Way::Tickless,
    ));
    let std = Way::Std(StdInstant::now());
    all.push(Source::new(
        "std",
        "std::time::Instant::elapsed()",
        Unit::Nanos,
        std,
    ));
    let known = KernelClock::ALL
        .into_iter()
        .filter(|clock| clock.resolution().is_some());
    let known: Vec<_> = known.collect();
    for clock in &known {
        all.push(kernel(*clock, "", "clock_gettime", Way::Kernel(*clock)));
    }
    for clock in known {
        // A filter may forbid the call.
        if clock.read_by_system_call() != 0 {
            all.push(kernel(
                clock,
                ", call",
                "clock_gettime by a system call",
                Way::SystemCall(clock),
            ));
        }
    }
    all.extend(devices());
    all
}

fn kernel(clock: KernelClock, more: &str, how: &'static str, way: Way) -> Source {
    let is_cpu = matches!(clock, KernelClock::ProcessCpu | KernelClock::ThreadCpu);
    let unit = if is_cpu { Unit::CpuNanos } else { Unit::Nanos };
    let source = Source::new(&format!("{}{more}", clock.name()), how, unit, way);
    Source {
        is_set: matches!(clock, KernelClock::Realtime | KernelClock::Tai),
        is_ordered: !is_cpu,
        ..source
    }
}

/// Returns the hardware clocks of network cards and hosts that can be opened.
fn devices() -> Vec<Source> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("ptp")).collect();
    names.sort();
    let open = |name: &String| {
        let file = Arc::new(File::open(format!("/dev/{name}")).ok()?);
        let way = Way::Device(Arc::clone(&file));
        let source = Source::new(name, "clock_gettime of the device", Unit::Nanos, way);
        (device_nanos(&file) != 0).then_some(Source {
            is_set: true,
            ..source
        })
    };
    names.iter().filter_map(open).collect()
}

/// The clock of the mainboard, as its driver reports it. The driver reports whole seconds, so nothing is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WallClock {
    pub(super) name: String,
    pub(super) seconds: u64,
}

/// Returns the clocks of the mainboard that can be read.
pub(super) fn wall_clocks() -> Vec<WallClock> {
    let entries = fs::read_dir("/sys/class/rtc")
        .into_iter()
        .flatten()
        .flatten();
    let read = |entry: fs::DirEntry| {
        let seconds = crate::machine::line(&entry.path().join("since_epoch").to_string_lossy())?;
        Some(WallClock {
            name: entry.file_name().to_string_lossy().into_owned(),
            seconds: seconds.parse().ok()?,
        })
    };
    let mut clocks: Vec<_> = entries.filter_map(read).collect();
    clocks.sort_by(|one, other| one.name.cmp(&other.name));
    clocks
}

/// The clock sources that the kernel can use, and the current one.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct KernelSources {
    pub(super) current: Option<String>,
    pub(super) available: Vec<String>,
}

impl KernelSources {
    pub(super) fn read() -> Self {
        let of = |name: &str| {
            crate::machine::line(&format!(
                "/sys/devices/system/clocksource/clocksource0/{name}"
            ))
        };
        let available = of("available_clocksource").unwrap_or_default();
        Self {
            current: of("current_clocksource"),
            available: available.split_whitespace().map(str::to_owned).collect(),
        }
    }
}
