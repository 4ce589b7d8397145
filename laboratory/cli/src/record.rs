//! `tickless record`: a recording of the kernel's timers, for `tickless verify` and `tickless top`.

use clap::Args;
use serde_json::json;

use crate::failure::{CheckVerdict, Failure};
use crate::instance::{self, Recorded, Step};
use crate::output::{self, OutFile, Place, Screen};
use crate::stream::{self, Stream};
use crate::units;

/// Records the timers of this machine's Linux kernel.
///
/// The result is the text of the kernel's events, which `tickless verify` checks and `tickless top` counts, with the
/// exact timers that were queued before and after as comments. It is recorded in an instance of tracefs, which takes
/// nothing from other tracers and is removed at the end. Root may do that.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// File for the text; `-` is standard output, and .gz compresses it
    #[arg(long, value_name = "FILE", default_value = "timers.txt")]
    out: Place,

    /// End when the text has so many bytes
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = units::size)]
    size: u64,

    #[command(flatten)]
    what: instance::Recording,

    #[command(flatten)]
    output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless record --for 5 && tickless verify timers.txt
  tickless record --out nap.gz -- sleep 1
  tickless record --for 5 --out - | tickless verify -

Exit codes: 0 recorded, 1 recorded, and CMD failed, 2 bad arguments, or no such CMD, 3 no tracefs, or no right to use it.";

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    stream::check_name(&arguments.out)?;
    let out = ("--out", Some(arguments.out.clone()));
    let json = output::prepare_json_beside(&[out], &arguments.output)?;
    let is_taken = arguments.out == Place::StandardOutput;
    let file = OutFile::prepare(&arguments.out)?;
    let name = file.name();
    let mut stream = Stream::new(file, &arguments.out);
    let (mut events, mut bytes, mut lost) = (0, 0, 0);
    let is_silent = is_taken || !Screen::new(&arguments.output).is_shown();
    let recorded = arguments.what.record(is_silent, |step| {
        if let Step::Line(line) = step {
            bytes += line.len() as u64;
            let mark = line
                .starts_with(b"CPU:")
                .then(|| String::from_utf8_lossy(line));
            lost += mark
                .and_then(|line| tickless_sim::promise::trace::linux::lost(&line))
                .unwrap_or(0);
            events += u64::from(line.starts_with(b" "));
            stream.buffer().extend_from_slice(line);
        }
        Ok(bytes < arguments.size && !stream.has_failed())
    })?;
    stream.finish()?;
    let Recorded {
        length,
        status,
        absent,
    } = recorded;
    let failed = status.filter(|status| !status.success());
    if let Some(json) = json {
        json.write_json(&json!({
            "seconds": length.as_secs_f64(), "events": events, "lost": lost, "bytes": bytes,
            "command": status.and_then(|status| status.code()),
        }))?;
    }
    let mut said = format!(
        "{name}: {} in {}, {} lost\n",
        units::counted(events, "event"),
        units::time(length),
        units::count(lost)
    );
    if bytes >= arguments.size {
        said.push_str(&format!("ended at {}, see --size\n", units::bytes(bytes)));
    }
    if !absent.is_empty() {
        said.push_str(&format!(
            "this kernel does not have: {}\n",
            absent.join(", ")
        ));
    }
    if let Some(status) = failed {
        said.push_str(&format!("the command failed: {status}\n"));
    }
    if !is_taken {
        Screen::new(&arguments.output).print(&said)?;
    }
    Ok(CheckVerdict::from_passed(failed.is_none()))
}
