//! The fields of a workload in a file.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::values::{Range, WallClock};
use crate::model::input::{InputError, Source};
use crate::model::time::Picos;

/// A workload in the form that a file has: the fields of all kinds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawWorkload {
    pub(crate) kind: Spanned<String>,
    pub(crate) cpus: Spanned<String>,
    pub(crate) one_in: Option<u32>,
    pub(crate) priority: Option<u8>,
    pub(crate) weight: Option<u32>,
    pub(crate) request: Option<Spanned<String>>,
    pub(crate) runtime: Option<Spanned<String>>,
    pub(crate) runtime_deadline: Option<Spanned<String>>,
    pub(crate) runtime_period: Option<Spanned<String>>,
    pub(crate) section: Option<Spanned<String>>,
    pub(crate) section_every: Option<Spanned<String>>,
    #[serde(default)]
    pub(crate) needs_tick: bool,
    period: Option<Spanned<String>>,
    period_max: Option<Spanned<String>>,
    work: Option<Spanned<String>>,
    work_max: Option<Spanned<String>>,
    timeout: Option<Spanned<String>>,
    timeout_max: Option<Spanned<String>>,
    gap: Option<Spanned<String>>,
    clock: Option<Spanned<String>>,
    slack: Option<Spanned<String>>,
    repetitions: Option<Spanned<u32>>,
    timers: Option<Spanned<u32>>,
    connections: Option<Spanned<u32>>,
    tasks: Option<Spanned<u32>>,
    cancelled: Option<Spanned<u32>>,
    groups: Option<Spanned<u32>>,
    messages: Option<Spanned<u32>>,
    size: Option<Spanned<u32>>,
    room: Option<Spanned<u32>>,
}

/// The fields of one workload. Records which fields no kind has read.
pub(crate) struct Fields<'a> {
    source: &'a Source<'a>,
    kind: &'a Spanned<String>,
    times: BTreeMap<&'static str, &'a Spanned<String>>,
    numbers: BTreeMap<&'static str, &'a Spanned<u32>>,
    clock: Option<&'a Spanned<String>>,
}

const KINDS: &str = "cyclictest, oslat, enqueue, busy, duty, polls, network, daemons, remote-arms, starts, far, \
     dbench, desktop, hackbench, alarms, compute";

impl<'a> Fields<'a> {
    pub(crate) fn new(source: &'a Source<'a>, raw: &'a Spanned<RawWorkload>) -> Self {
        let raw = raw.get_ref();
        let times = [
            ("period", &raw.period),
            ("period_max", &raw.period_max),
            ("work", &raw.work),
            ("work_max", &raw.work_max),
            ("timeout", &raw.timeout),
            ("timeout_max", &raw.timeout_max),
            ("gap", &raw.gap),
            ("slack", &raw.slack),
        ];
        let numbers = [
            ("repetitions", &raw.repetitions),
            ("timers", &raw.timers),
            ("connections", &raw.connections),
            ("tasks", &raw.tasks),
            ("cancelled", &raw.cancelled),
            ("groups", &raw.groups),
            ("messages", &raw.messages),
            ("size", &raw.size),
            ("room", &raw.room),
        ];
        let given_time =
            |(name, field): (_, &'a Option<_>)| field.as_ref().map(|field| (name, field));
        let given_number =
            |(name, field): (_, &'a Option<_>)| field.as_ref().map(|field| (name, field));
        Self {
            source,
            kind: &raw.kind,
            clock: raw.clock.as_ref(),
            times: times.into_iter().filter_map(given_time).collect(),
            numbers: numbers.into_iter().filter_map(given_number).collect(),
        }
    }

    fn missing(&self, name: &str) -> InputError {
        let wrong = format!(
            "the workload {} needs the field {name}",
            self.kind.get_ref()
        );
        self.source.error(self.kind.span(), wrong, "")
    }

    /// Reads a time that is not zero.
    pub(crate) fn time(&mut self, name: &'static str) -> Result<Picos, InputError> {
        let field = self.times.remove(name).ok_or_else(|| self.missing(name))?;
        let time = self.source.time(field)?;
        if time == Picos::ZERO {
            let wrong = format!("{name} is nothing");
            return Err(self.source.error(field.span(), wrong, "1 ps at least"));
        }
        Ok(time)
    }

    /// Reads a range of times, or a single time.
    pub(crate) fn range(
        &mut self,
        low: &'static str,
        high: &'static str,
    ) -> Result<Range, InputError> {
        let low_time = self.time(low)?;
        let Some(field) = self.times.remove(high) else {
            return Ok(Range {
                low: low_time,
                high: low_time,
            });
        };
        let high_time = self.source.time(field)?;
        if high_time < low_time {
            let wrong = format!("{high} is less than {low}");
            return Err(self
                .source
                .error(field.span(), wrong, format!("{low_time} at least")));
        }
        Ok(Range {
            low: low_time,
            high: high_time,
        })
    }

    /// Reads a number that is not zero.
    pub(crate) fn number(&mut self, name: &'static str) -> Result<u32, InputError> {
        let field = self
            .numbers
            .remove(name)
            .ok_or_else(|| self.missing(name))?;
        if *field.get_ref() == 0 {
            let wrong = format!("{name} is nothing");
            return Err(self.source.error(field.span(), wrong, "1 at least"));
        }
        Ok(*field.get_ref())
    }

    /// Reads a percentage.
    pub(crate) fn percent(&mut self, name: &'static str) -> Result<u32, InputError> {
        let field = self
            .numbers
            .remove(name)
            .ok_or_else(|| self.missing(name))?;
        if *field.get_ref() > 100 {
            let wrong = format!(
                "{name} is more than all of them, {} of 100",
                field.get_ref()
            );
            return Err(self.source.error(field.span(), wrong, "0 to 100"));
        }
        Ok(*field.get_ref())
    }

    /// Reads the name of a clock that may be set.
    pub(crate) fn clock(&mut self) -> Result<WallClock, InputError> {
        let field = self.clock.take().ok_or_else(|| self.missing("clock"))?;
        let name = field.get_ref().as_str();
        let known = WallClock::ALL
            .into_iter()
            .find(|clock| clock.name() == name);
        known.ok_or_else(|| {
            let wrong = format!("there is no clock \"{name}\" that may be set");
            let known = WallClock::ALL.map(WallClock::name).join(", ");
            self.source
                .error(field.span(), wrong, format!("one of {known}"))
        })
    }

    pub(crate) fn unknown_kind(&self) -> InputError {
        let wrong = format!("there is no workload \"{}\"", self.kind.get_ref());
        self.source
            .error(self.kind.span(), wrong, format!("one of {KINDS}"))
    }

    /// Returns an error if the file gave a field that no workload read.
    pub(crate) fn finish(self) -> Result<(), InputError> {
        let time = self
            .times
            .first_key_value()
            .map(|(name, field)| (name, field.span()));
        let number = self
            .numbers
            .first_key_value()
            .map(|(name, field)| (name, field.span()));
        let clock = self.clock.map(|field| (&"clock", field.span()));
        match time.or(number).or(clock) {
            None => Ok(()),
            Some((name, span)) => {
                let wrong = format!("the workload {} has no field {name}", self.kind.get_ref());
                Err(self.source.error(span, wrong, "delete it"))
            }
        }
    }
}
