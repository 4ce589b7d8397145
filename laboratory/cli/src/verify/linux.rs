//! The reading of Linux's own traces.

use tickless_sim::promise::trace::linux::{Checker, Report};

use super::Checked;
use super::read::Reader;
use crate::failure::Failure;

/// The number of lines, besides comments, of which one has to be that of an event.
const LOOKS_MAX: u64 = 1_000;

/// Checks a trace of Linux, whose first line the reader has read. `each` is called with the number of each line.
pub(super) fn check(
    reader: &mut Reader,
    late_max: Option<u64>,
    each: impl Fn(u64),
) -> Result<Checked, Failure> {
    let mut checker = Checker::new(late_max);
    let (mut is_cut, mut looks) = (false, 0);
    loop {
        let line = String::from_utf8_lossy(reader.bytes());
        checker.take(reader.lines(), &line);
        each(reader.lines());
        looks += u64::from(!line.starts_with('#'));
        if !checker.has_events() && looks > LOOKS_MAX {
            break;
        }
        match reader.next() {
            Ok(true) => {}
            Ok(false) => break,
            // A reader of a trace that goes on is stopped anywhere.
            Err(_) if reader.is_cut() => {
                is_cut = true;
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    if !checker.has_events() {
        return Err(reader.no_events());
    }
    let Report {
        findings,
        lost,
        missing,
        mut notes,
    } = checker.end();
    if is_cut {
        notes.push("the last line is cut off, and was left out".to_owned());
    }
    Ok(Checked {
        findings,
        lost,
        missing,
        notes,
    })
}
