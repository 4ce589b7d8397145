//! The text form of sets of CPUs in files.

use crate::model::input::{InputError, Source};

/// Parses the CPUs that `text` names: `all`, `isolated`, `housekeeping`, or numbers and ranges such as `0,4-7`.
pub(crate) fn parse(
    source: &Source<'_>,
    text: &toml::Spanned<String>,
    cpus: u32,
    isolated: &[bool],
) -> Result<Vec<u32>, InputError> {
    let is_isolated = |cpu: &u32| isolated.get(*cpu as usize) == Some(&true);
    match text.get_ref().as_str() {
        "all" => return Ok((0..cpus).collect()),
        "isolated" => return Ok((0..cpus).filter(is_isolated).collect()),
        "housekeeping" => return Ok((0..cpus).filter(|cpu| !is_isolated(cpu)).collect()),
        _ => {}
    }
    let wrong = |part: &str| {
        let message = format!("\"{part}\" is not a set of CPUs");
        let right = "write all, isolated, housekeeping, or numbers and ranges such as 0,4-7";
        Err(source.error(text.span(), message, right))
    };
    let mut set = Vec::new();
    for part in text.get_ref().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>())
        else {
            return wrong(part);
        };
        if first > last {
            return wrong(part);
        }
        if last >= cpus {
            let message = format!("there is no CPU {last}");
            let right = format!("the last one is {}", cpus - 1);
            return Err(source.error(text.span(), message, right));
        }
        set.extend(first..=last);
    }
    set.sort_unstable();
    set.dedup();
    Ok(set)
}
