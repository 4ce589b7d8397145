//! The critical sections of workloads, as a file describes them.

use toml::Spanned;

use super::RawWorkload;
use crate::machine::fair::FAIR;
pub use crate::machine::sections::Sections;
use crate::model::input::{InputError, Source};
use crate::model::time::Picos;

/// Reads the critical sections of each task of a workload, if the file has any.
pub(super) fn read(source: &Source<'_>, raw: &RawWorkload) -> Result<Option<Sections>, InputError> {
    let (length, every) = match (&raw.section, &raw.section_every) {
        (None, None) => return Ok(None),
        (Some(length), Some(every)) => (length, every),
        (Some(one), None) | (None, Some(one)) => {
            let wrong = "a section is a part of something";
            return Err(source.error(one.span(), wrong, "say both section and section_every"));
        }
    };
    let sections = Sections {
        length: source.time(length)?,
        every: source.time(every)?,
    };
    if sections.length == Picos::ZERO || sections.length > sections.every {
        let wrong = "a task has no such sections";
        return Err(source.error(length.span(), wrong, "0 < section <= section_every"));
    }
    check_class(source, raw, length)?;
    Ok(Some(sections))
}

/// Refuses sections for tasks that do not share a CPU fairly, because no end of a slice preempts such tasks.
fn check_class(
    source: &Source<'_>,
    raw: &RawWorkload,
    field: &Spanned<String>,
) -> Result<(), InputError> {
    if raw.runtime.is_some() || raw.priority.is_some_and(|one| one != FAIR) {
        let wrong = "the slice of such a task is not extended";
        let right = format!("no runtime, and the priority {FAIR}");
        return Err(source.error(field.span(), wrong, right));
    }
    Ok(())
}
