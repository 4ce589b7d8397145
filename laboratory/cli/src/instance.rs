//! A recording of the kernel's events of timers, in an instance of tracefs that is removed at its end.
//!
//! The instance has a ring, a clock and events of its own, so that nobody else's tracing changes. Its text is read twice
//! a second. A ring that is full overwrites its first events, and the text then says how many were lost.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::units;

/// What is recorded, and for how long.
#[derive(Clone, Debug, Args)]
pub(crate) struct Recording {
    /// End after this time, in seconds if it has no unit [default: when the command ends, or at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration_or_seconds)]
    pub(crate) length: Option<Duration>,

    /// Directory where tracefs is mounted
    #[arg(long, value_name = "DIR", default_value = "/sys/kernel/tracing")]
    tracefs: PathBuf,

    /// Command that is run meanwhile, behind `--`
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What a recording consists of.
pub(crate) enum Step<'s> {
    /// The command runs, as this process.
    Began(u32),
    /// The next line, with its end: an event or a mark of lost events. Or a comment of several lines.
    Line(&'s [u8]),
    /// All lines so far were told.
    Pause,
}

/// How a recording ended.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) length: Duration,
    /// How the command ended, if it did so by itself.
    pub(crate) status: Option<ExitStatus>,
    /// The events that this kernel does not have.
    pub(crate) absent: Vec<&'static str>,
}

/// The events, with their filters. Only wake-ups by interrupts are of interest, and of the model-specific registers the
/// deadline of the event device.
const EVENTS: [(&str, &str); 7] = [
    ("timer", ""),
    ("timer_migration", ""),
    ("irq_vectors/local_timer_entry", ""),
    ("power/cpu_idle", ""),
    ("sched/sched_waking", "common_flags & 0x18"),
    ("sched/sched_process_fork", ""),
    ("msr/write_msr", "msr == 0x6e0"),
];
/// The room of a CPU: a quarter of a million events, three seconds of the worst load that was seen.
const KIB_OF_CPU: &str = "16384";
/// The time between two readings.
const PAUSE: Duration = Duration::from_millis(500);
/// The time for which a command that was told to end may go on.
const GRACE: Duration = Duration::from_secs(2);
/// The begin of an instance's name, in front of the number of the process.
const NAME: &str = "tickless-";

impl Recording {
    /// Records, and calls `each` with every step until it returns false. What the command writes to standard output goes
    /// to standard error if `is_taken`.
    pub(crate) fn record(
        &self,
        is_taken: bool,
        mut each: impl FnMut(Step<'_>) -> Result<bool, Failure>,
    ) -> Result<Recorded, Failure> {
        let interrupt = Interrupt::catch()?;
        let mut instance = Instance::open(&self.tracefs)?;
        instance.switch(true)?;
        each(Step::Line(timer_list("before").as_bytes()))?;
        let mut program = Program::start(&self.command, is_taken)?;
        let start = Instant::now();
        if let Some(Program { child, .. }) = &program {
            each(Step::Began(child.id()))?;
        }
        let mut goes_on = true;
        loop {
            let left = self
                .length
                .map(|length| length.saturating_sub(start.elapsed()));
            let pause = left.map_or(PAUSE, |left| left.min(PAUSE));
            Program::wait(program.as_ref(), pause)?;
            let is_over = program.as_mut().is_some_and(Program::has_ended)
                || left.is_some_and(|left| left <= PAUSE)
                || interrupt.is_set();
            if is_over {
                break;
            }
            goes_on = instance.drain(PAUSE, &mut each)? && each(Step::Pause)?;
            if !goes_on {
                break;
            }
        }
        let length = start.elapsed();
        instance.switch(false)?;
        let status = program.and_then(|program| program.status);
        let after = timer_list("after");
        // Behind a line that ended the recording no other one may come: between them events would be missing.
        if goes_on {
            instance.drain(Duration::MAX, &mut each)?;
        }
        each(Step::Line(after.as_bytes()))?;
        let absent = std::mem::take(&mut instance.absent);
        Ok(Recorded {
            length,
            status,
            absent,
        })
    }
}

/// Returns the queued exact timers, as comments. A user who may not read them does without.
fn timer_list(when: &str) -> String {
    let list = fs::read_to_string("/proc/timer_list").unwrap_or_default();
    let mut text = format!("# /proc/timer_list {when}:\n");
    for line in list.lines() {
        text.push_str(&format!("# {line}\n"));
    }
    text
}

/// An instance of tracefs, which is removed when it is dropped.
struct Instance {
    path: PathBuf,
    pipe: Option<File>,
    absent: Vec<&'static str>,
    /// The begin of a line that was not read to its end.
    rest: Vec<u8>,
}

impl Instance {
    /// Makes an instance that records all events, and is switched off.
    fn open(root: &Path) -> Result<Self, Failure> {
        let instances = root.join("instances");
        remove_orphans(&instances);
        let path = instances.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| refused(root, &error))?;
        let mut instance = Self {
            path,
            pipe: None,
            absent: Vec::new(),
            rest: Vec::new(),
        };
        instance.switch(false)?;
        instance.set("trace_clock", "mono")?;
        instance.set("buffer_size_kb", KIB_OF_CPU)?;
        for (event, filter) in EVENTS {
            let set = |file: &str, to| instance.set(&format!("events/{event}/{file}"), to);
            let is_on =
                (filter.is_empty() || set("filter", filter).is_ok()) && set("enable", "1").is_ok();
            if !is_on {
                instance.absent.push(event);
            }
        }
        if instance.absent.contains(&"timer") {
            let what = "this kernel has no events of timers: it needs CONFIG_FTRACE";
            return Err(Failure::Machine(what.to_owned()));
        }
        let pipe = File::options()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(instance.path.join("trace_pipe"));
        instance.pipe = Some(pipe.map_err(|error| refused(root, &error))?);
        Ok(instance)
    }

    fn set(&self, file: &str, to: &str) -> Result<(), Failure> {
        let path = self.path.join(file);
        let opened = File::options().write(true).open(&path);
        let written = opened.and_then(|mut file| io::Write::write_all(&mut file, to.as_bytes()));
        written.map_err(|error| {
            Failure::Machine(format!(
                "cannot write {to:?} to {}: {error}",
                path.display()
            ))
        })
    }

    fn switch(&self, on: bool) -> Result<(), Failure> {
        self.set("tracing_on", if on { "1" } else { "0" })
    }

    /// Reads the lines that are there, but not for longer than `longest`: more may come all the time. Returns false if
    /// `each` did.
    fn drain(
        &mut self,
        longest: Duration,
        each: &mut impl FnMut(Step<'_>) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let start = Instant::now();
        let mut piece = [0; 1 << 16];
        while let Some(pipe) = self.pipe.as_mut().filter(|_| start.elapsed() < longest) {
            let read = match pipe.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Failure::Machine(format!(
                        "cannot read the kernel's events: {error}"
                    )));
                }
            };
            for part in piece[..read].split_inclusive(|byte| *byte == b'\n') {
                self.rest.extend_from_slice(part);
                if part.ends_with(b"\n") {
                    let goes_on = each(Step::Line(&self.rest))?;
                    self.rest.clear();
                    if !goes_on {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // An instance that is being read cannot be removed.
        self.pipe = None;
        let _off = self.switch(false);
        let _removed = fs::remove_dir(&self.path);
    }
}

/// Removes the instances of processes that were killed.
fn remove_orphans(instances: &Path) {
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let id = name
            .to_str()
            .and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
        if id.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            let _removed = fs::remove_dir(entry.path());
        }
    }
}

/// Describes what is missing, and what would allow to record.
fn refused(root: &Path, error: &io::Error) -> Failure {
    let at = root.display();
    Failure::Machine(match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "no right to record the kernel's events: {at}: {error}; run the command as root, with sudo for example"
        ),
        ErrorKind::NotFound => format!(
            "there is no tracefs at {at}; mount it as root: mount -t tracefs nodev {at}; or name its place with --tracefs"
        ),
        _ => format!("cannot make an instance of the kernel's tracing in {at}: {error}"),
    })
}

/// A running command, which ends at the latest when it is dropped.
struct Program {
    child: Child,
    /// Readable when the command has ended.
    end: Option<OwnedFd>,
    status: Option<ExitStatus>,
}

impl Program {
    fn start(command: &[OsString], is_taken: bool) -> Result<Option<Self>, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Ok(None);
        };
        let mut command = Command::new(program);
        command.args(arguments);
        if is_taken {
            command.stdout(Stdio::from(io::stderr()));
        }
        let child = command.spawn().map_err(|error| {
            let program = program.to_string_lossy();
            Failure::Input(format!(
                "cannot start {program}: {error}; name a program that exists"
            ))
        })?;
        let end = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        Ok(Some(Self {
            child,
            end,
            status: None,
        }))
    }

    /// Waits until the command ends or a signal comes, but not for longer than `longest`.
    fn wait(program: Option<&Self>, longest: Duration) -> Result<(), Failure> {
        let end = program.and_then(|program| program.end.as_ref());
        let mut ends: Vec<_> = end
            .into_iter()
            .map(|end| PollFd::new(end, PollFlags::IN))
            .collect();
        let longest = Timespec::try_from(longest).ok();
        match poll(&mut ends, longest.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::Machine(format!("cannot wait: {error}"))),
        }
    }

    fn has_ended(&mut self) -> bool {
        self.status = self.status.or_else(|| self.child.try_wait().ok().flatten());
        self.status.is_some()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        let _over = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _waited = Self::wait(Some(self), GRACE);
        if !self.has_ended() {
            let _over = self.child.kill();
            let _status = self.child.wait();
        }
    }
}
