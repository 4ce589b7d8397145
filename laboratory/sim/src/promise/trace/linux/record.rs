//! A line of the text of Linux's events, as `trace` and `trace_pipe` of tracefs, `trace-cmd report` and `perf script`
//! print it.

/// The tool that printed a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `trace` or `trace_pipe`: the only one that shows the context of an event.
    Tracefs,
    /// `trace-cmd report`.
    TraceCmd,
    /// `perf script`.
    Perf,
}

impl Format {
    /// Returns the name of the format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tracefs => "tracefs",
            Self::TraceCmd => "trace-cmd report",
            Self::Perf => "perf script",
        }
    }
}

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'l> {
    /// The tool that printed the line.
    pub format: Format,
    /// The name of the task.
    pub task: &'l str,
    /// The id of the task; 0 is the idle task of the CPU.
    pub pid: u32,
    /// The CPU.
    pub cpu: u32,
    /// The context: `h` and `H` in a hard interrupt, `s` in a soft one, and `.` in neither; `None` if the line has no
    /// such column.
    pub context: Option<u8>,
    /// The time, in nanoseconds.
    pub time: i64,
    /// False if the time is a count without a decimal point.
    pub is_seconds: bool,
    /// The name of the event.
    pub event: &'l str,
    arguments: &'l str,
}

impl<'l> Record<'l> {
    /// Parses a line. Returns `None` if it is not the line of an event.
    #[must_use]
    pub fn parse(line: &'l str) -> Option<Self> {
        // The name of a task may have any character, brackets too.
        line.match_indices('[')
            .find_map(|(at, _)| Self::parse_at(line, at))
    }

    fn parse_at(line: &'l str, bracket: usize) -> Option<Self> {
        let (cpu, rest) = line[bracket + 1..].split_once(']')?;
        let cpu = cpu.parse().ok()?;
        let (word, rest) = word(rest)?;
        let (flags, stamp, rest) = if word.ends_with(':') {
            (None, word, rest)
        } else {
            let (stamp, rest) = self::word(rest)?;
            (Some(word), stamp, rest)
        };
        let (time, is_seconds) = time(stamp.strip_suffix(':')?)?;
        let (event, arguments) = self::word(rest)?;
        let event = event.strip_suffix(':')?;
        // perf names the group of the event, too.
        let event = event.rsplit(':').next()?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if event.is_empty() || !event.bytes().all(is_name) {
            return None;
        }
        let (task, pid, is_perf) = task(&line[..bracket])?;
        let format = match (is_perf, flags) {
            (true, _) => Format::Perf,
            (false, None) => Format::TraceCmd,
            (false, Some(_)) => Format::Tracefs,
        };
        Some(Self {
            format,
            task,
            pid,
            cpu,
            context: flags.and_then(|flags| flags.as_bytes().get(2).copied()),
            time,
            is_seconds,
            event,
            arguments: arguments.trim(),
        })
    }

    /// Returns the value of an argument.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'l str> {
        let mut words = self.arguments.split_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// Returns the value of an argument that is a number. Numbers of 64 bits are signed: the kernel prints some of them
    /// as if they were not.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<i64> {
        let text = self.get(key)?;
        let unsigned = || text.parse().ok().map(u64::cast_signed);
        text.parse().ok().or_else(unsigned)
    }

    /// Returns the value of an argument that is an address, or another hexadecimal number.
    #[must_use]
    pub fn address(&self, key: &str) -> Option<u64> {
        let text = self.get(key)?;
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    }

    /// Returns the first of `keys` whose argument is missing or cannot be read: the first is an address, the others are
    /// numbers.
    #[must_use]
    pub fn lacks<'k>(&self, keys: &[&'k str]) -> Option<&'k str> {
        let mut keys = keys.iter().copied();
        let first = keys.next()?;
        let address = self.address(first).is_none().then_some(first);
        address.or_else(|| keys.find(|key| self.number(key).is_none()))
    }

    /// Returns the name of the function of a timer.
    #[must_use]
    pub fn function(&self) -> &'l str {
        let text = self.get("function").unwrap_or("?");
        text.split('/').next().unwrap_or(text)
    }

    /// Returns the ticks from now until a coarse timer expires.
    #[must_use]
    pub fn timeout(&self) -> Option<i64> {
        self.get("[timeout")?.strip_suffix(']')?.parse().ok()
    }
}

/// Splits off the first word.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Parses seconds with a fraction into nanoseconds, or a count.
fn time(text: &str) -> Option<(i64, bool)> {
    let Some((seconds, fraction)) = text.split_once('.') else {
        return Some((text.parse().ok()?, false));
    };
    if fraction.is_empty()
        || fraction.len() > 9
        || !fraction.bytes().all(|one| one.is_ascii_digit())
    {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse::<i64>().ok()?;
    let seconds: u32 = seconds.parse().ok()?;
    Some((i64::from(seconds) * 1_000_000_000 + nanos, true))
}

/// Parses `task-pid`, or `task pid` as perf prints it, for which the last value is true.
fn task(text: &str) -> Option<(&str, u32, bool)> {
    let text = text.trim();
    // The column of thread groups.
    let text = text.rsplit_once('(').map_or(text, |(before, group)| {
        if group.ends_with(')') {
            before.trim_end()
        } else {
            text
        }
    });
    let of = |(task, pid): (&'_ str, &str), is_perf| {
        let pid = pid.rsplit('/').next()?;
        Some((pid.parse().ok()?, is_perf, task.len()))
    };
    let by_space = text
        .rsplit_once(char::is_whitespace)
        .and_then(|pair| of(pair, true));
    let (pid, is_perf, length) =
        by_space.or_else(|| text.rsplit_once('-').and_then(|pair| of(pair, false)))?;
    Some((text[..length].trim(), pid, is_perf))
}

/// Returns the number of lost events if the line says that events were lost, 0 if it does not say how many.
#[must_use]
pub fn lost(line: &str) -> Option<u64> {
    let is_mark = (line.contains("EVENTS")
        && (line.contains("[LOST ") || line.contains("DROPPED]")))
        || line.contains("PERF_RECORD_LOST");
    let digits = line.split(|byte: char| !byte.is_ascii_digit());
    let number = || digits.filter_map(|digits| digits.parse().ok()).next_back();
    is_mark.then(|| number().unwrap_or(0))
}
