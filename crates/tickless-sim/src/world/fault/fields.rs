//! The fields of a fault in a file.

use serde::Deserialize;
use toml::Spanned;

use super::{Fault, FaultKind, When};
use crate::world::cpu_set;
use crate::world::input::{InputError, Source};
use crate::world::time::Picos;

/// Hits of a table must not follow each other so fast that they add up.
const APART: u64 = 4;

/// A fault as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawFault {
    kind: Spanned<String>,
    cpus: Spanned<String>,
    at: Option<Spanned<String>>,
    every: Option<Spanned<String>>,
    one_in: Option<Spanned<u32>>,
    amount: Option<Spanned<String>>,
}

/// Reads a fault.
pub(crate) fn read(
    source: &Source<'_>,
    raw: &Spanned<RawFault>,
    cpus: u32,
    isolated: &[bool],
) -> Result<Fault, InputError> {
    let raw = raw.get_ref();
    let name = raw.kind.get_ref().as_str();
    let kind = FaultKind::ALL.into_iter().find(|kind| kind.name() == name);
    let kind = kind.ok_or_else(|| {
        let wrong = format!("there is no fault \"{name}\"");
        let known = FaultKind::ALL.map(FaultKind::name).join(", ");
        source.error(raw.kind.span(), wrong, format!("one of {known}"))
    })?;
    let amount = amount(source, raw, kind)?;
    let when = when(source, raw, kind)?;
    if let (Some(field), When::Every(every)) = (&raw.every, when)
        && kind.delays()
        && every < amount * APART
    {
        let wrong = "before it is over, the next one begins";
        let right = format!("{} at least", amount * APART);
        return Err(source.error(field.span(), wrong, right));
    }
    Ok(Fault {
        kind,
        when,
        cpus: cpu_set::parse(source, &raw.cpus, cpus, isolated)?,
        amount,
    })
}

fn amount(source: &Source<'_>, raw: &RawFault, kind: FaultKind) -> Result<Picos, InputError> {
    let name = kind.name();
    match (&raw.amount, kind.has_amount()) {
        (None, false) => Ok(Picos::ZERO),
        (None, true) => {
            let wrong = format!("the fault {name} needs the field amount");
            Err(source.error(raw.kind.span(), wrong, ""))
        }
        (Some(field), false) => {
            let wrong = format!("the fault {name} has no field amount");
            Err(source.error(field.span(), wrong, "delete it"))
        }
        (Some(field), true) => not_nothing(source, field, "amount"),
    }
}

fn not_nothing(
    source: &Source<'_>,
    field: &Spanned<String>,
    name: &str,
) -> Result<Picos, InputError> {
    let time = source.time(field)?;
    if time == Picos::ZERO {
        let wrong = format!("{name} is nothing");
        return Err(source.error(field.span(), wrong, "1 ps at least"));
    }
    Ok(time)
}

fn when(source: &Source<'_>, raw: &RawFault, kind: FaultKind) -> Result<When, InputError> {
    let name = kind.name();
    let choices = if kind.spoils() {
        "write at, every or one_in"
    } else {
        "write at or every"
    };
    match (&raw.at, &raw.every, &raw.one_in) {
        (Some(at), None, None) => Ok(When::At(source.time(at)?)),
        (None, Some(every), None) => Ok(When::Every(not_nothing(source, every, "every")?)),
        (None, None, Some(one_in)) if kind.spoils() => match *one_in.get_ref() {
            0 => Err(source.error(one_in.span(), "one_in is nothing", "1 at least")),
            times => Ok(When::OneIn(times)),
        },
        (None, None, Some(one_in)) => {
            let wrong = format!("the fault {name} has no field one_in");
            Err(source.error(one_in.span(), wrong, choices))
        }
        (None, None, None) => {
            let wrong = format!("the fault {name} does not say when");
            Err(source.error(raw.kind.span(), wrong, choices))
        }
        _ => {
            let wrong = format!("the fault {name} says twice when");
            Err(source.error(raw.kind.span(), wrong, choices))
        }
    }
}
