//! The fields of a fault in a scenario file.

use serde::Deserialize;
use toml::Spanned;

use super::{Fault, FaultKind, When};
use crate::clock;
use crate::model::cpu_set;
use crate::model::input::{InputError, Source};
use crate::model::time::Picos;

/// The least interval between the hits of a table, in multiples of its amount: the delays of faster hits would add up.
const APART: u64 = 4;

/// A fault as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawFault {
    kind: Spanned<String>,
    cpus: Option<Spanned<String>>,
    at: Option<Spanned<String>>,
    every: Option<Spanned<String>>,
    one_in: Option<Spanned<u32>>,
    amount: Option<Spanned<String>>,
    ppm: Option<Spanned<i32>>,
    leap: Option<Spanned<String>>,
}

pub(crate) fn read_all(
    source: &Source<'_>,
    raw: &[Spanned<RawFault>],
    size: (u32, Picos),
    isolated: &[bool],
) -> Result<Vec<Fault>, InputError> {
    let mut plan: Vec<Fault> = Vec::new();
    for one in raw {
        let fault = read(source, one, size, isolated)?;
        if fault.inserts() && plan.iter().any(Fault::inserts) {
            let wrong = "a second leap second is inserted";
            return Err(source.error(one.span(), wrong, "one at most; others may be deleted"));
        }
        plan.push(fault);
    }
    Ok(plan)
}

fn read(
    source: &Source<'_>,
    raw: &Spanned<RawFault>,
    (cpus, duration): (u32, Picos),
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
    let (amount, back) = amount(source, raw, kind)?;
    let when = when(source, raw, kind)?;
    if let (Some(field), When::At(at)) = (&raw.at, when)
        && kind.is_of_clocks()
        && at >= duration
    {
        let wrong = "the run is over by then";
        let right = format!("before {duration}");
        return Err(source.error(field.span(), wrong, right));
    }
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
        cpus: match &raw.cpus {
            Some(set) => cpu_set::parse(source, set, cpus, isolated)?,
            None if kind.is_of_clocks() => (0..cpus).collect(),
            None => return Err(missing(source, raw, kind, "cpus")),
        },
        amount,
        back,
        ppm: rate(source, raw, kind)?,
    })
}

fn missing(source: &Source<'_>, raw: &RawFault, kind: FaultKind, field: &str) -> InputError {
    let wrong = format!("the fault {} needs the field {field}", kind.name());
    source.error(raw.kind.span(), wrong, "")
}

/// Makes the error for a field that this kind of fault does not have.
fn unknown<T>(source: &Source<'_>, field: &Spanned<T>, kind: FaultKind, name: &str) -> InputError {
    let wrong = format!("the fault {} has no field {name}", kind.name());
    source.error(field.span(), wrong, "delete it")
}

/// Reads the parts per million by which the clock is steered.
fn rate(source: &Source<'_>, raw: &RawFault, kind: FaultKind) -> Result<i32, InputError> {
    match (&raw.ppm, kind) {
        (Some(field), FaultKind::Frequency) => clock::ppm(source, field),
        (None, FaultKind::Frequency) => Err(missing(source, raw, kind, "ppm")),
        (Some(field), _) => Err(unknown(source, field, kind, "ppm")),
        (None, _) => Ok(0),
    }
}

/// A leap second that is inserted sets the time of day back.
fn leap(source: &Source<'_>, raw: &RawFault) -> Result<(Picos, bool), InputError> {
    let second = Picos::from_millis(1_000);
    match raw
        .leap
        .as_ref()
        .map(|field| (field, field.get_ref().as_str()))
    {
        None | Some((_, "insert")) => Ok((second, true)),
        Some((_, "delete")) => Ok((second, false)),
        Some((field, other)) => {
            let wrong = format!("a second cannot be \"{other}\"");
            Err(source.error(field.span(), wrong, "insert or delete"))
        }
    }
}

/// The furthest that the time of day is set at a time: a year.
const STEP_MAX: Picos = Picos::from_millis(366 * 86_400 * 1_000);

fn step(source: &Source<'_>, field: &Spanned<String>) -> Result<(Picos, bool), InputError> {
    let text = field.get_ref().trim();
    let (text, back) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    };
    let unsigned = Spanned::new(field.span(), text.to_owned());
    let amount = not_nothing(source, &unsigned, "amount")?;
    if amount > STEP_MAX || amount.as_nanos() == 0 {
        let wrong = "no clock is set by that";
        return Err(source.error(field.span(), wrong, "1 ns to a year, such as \"-1.5 s\""));
    }
    Ok((amount, back))
}

/// Reads the amount, and whether the time of day is set back.
fn amount(
    source: &Source<'_>,
    raw: &RawFault,
    kind: FaultKind,
) -> Result<(Picos, bool), InputError> {
    let name = kind.name();
    if let (Some(field), true) = (&raw.leap, kind != FaultKind::LeapSecond) {
        return Err(unknown(source, field, kind, "leap"));
    }
    match (&raw.amount, kind.has_amount()) {
        (None, false) if kind == FaultKind::LeapSecond => leap(source, raw),
        (None, false) => Ok((Picos::ZERO, false)),
        (Some(field), true) if kind == FaultKind::ClockStep => step(source, field),
        (None, true) => {
            let wrong = format!("the fault {name} needs the field amount");
            Err(source.error(raw.kind.span(), wrong, ""))
        }
        (Some(field), false) => {
            let wrong = format!("the fault {name} has no field amount");
            Err(source.error(field.span(), wrong, "delete it"))
        }
        (Some(field), true) => Ok((not_nothing(source, field, "amount")?, false)),
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
        (None, Some(every), None) if kind == FaultKind::LeapSecond => {
            let wrong = "leap seconds come once";
            Err(source.error(every.span(), wrong, "write at"))
        }
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
