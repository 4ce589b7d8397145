//! The parts of a random scenario by kind and value, used to count them and to group failures.

use super::Draft;

/// One part of a draft.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// The kind of the part, such as `device`.
    pub what: &'static str,
    /// The value of the part, such as `equality`.
    pub which: String,
}

/// Returns the value of `key` in lines such as `key = "value"` or `key = 3`.
pub(super) fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let value = |line: &'t str| {
        let (name, value) = line.split_once(" = ")?;
        (name == key).then(|| value.trim_matches('"'))
    };
    text.lines().find_map(value)
}

impl Draft {
    /// Returns all parts of the draft: one of each kind, and every workload.
    #[must_use]
    pub fn classes(&self) -> Vec<Class> {
        let class = |what, which: &str| Class {
            what,
            which: which.to_owned(),
        };
        let is_set = |is_set| if is_set { "yes" } else { "no" };
        let any = |bits| (0..self.cpus).any(|cpu| super::is_in(bits, cpu));
        let size = match self.cpus {
            1 => "1",
            2..=4 => "2 to 4",
            5..=16 => "5 to 16",
            _ => "17 to 64",
        };
        let mut all = vec![
            class("profile", self.profile),
            class("CPUs", size),
            class("tick", self.tick),
            class("device", self.device_kind()),
            class("stops in deep idle", self.stand_in()),
            class("device, what stands in", &self.device_and_stand_in()),
            class("counter", self.counter_frequency()),
            class("isolated CPUs", is_set(any(self.isolated))),
            class("CPUs without a tick", is_set(any(self.tickless))),
            class("slices", is_set(self.slice.is_some())),
            class("real-time", is_set(self.real_time)),
            class("slow counter", is_set(self.slow_counter)),
            class("faults", is_set(self.has_faults)),
        ];
        all.extend(self.counter_classes());
        for key in super::KEYS {
            all.push(class(key, value(&self.policy, key).unwrap_or("none")));
        }
        for (part, _) in self.parts() {
            let kind = value(&part.fields, "kind").unwrap_or("none");
            all.push(class("workload", kind));
            let is_reserved = value(&part.fields, "runtime").is_some();
            all.push(class("reservation", is_set(is_reserved)));
            let has_sections = value(&part.fields, "section").is_some();
            all.push(class("critical sections", is_set(has_sections)));
        }
        all
    }

    /// Returns the class of the draft's machine, in a few words that failures with the same cause probably share.
    #[must_use]
    pub fn machine(&self) -> String {
        let mut text = format!("{} device", self.device_kind());
        if let Some((_, stand_in)) = &self.stops {
            text += &format!(" that stops, a {} stands in", stand_in.name());
        }
        if !self.counter.is_empty() {
            text += &format!(", counter of {}", self.counter_frequency());
        }
        if self.slow_counter {
            text += ", slow counter";
        }
        if self.has_faults {
            text += ", faults";
        }
        if value(&self.policy, "scheduler").is_some() {
            text += ", fair";
        }
        if value(&self.policy, "migration") == Some("on") {
            text += ", migration";
        }
        text
    }

    fn device_kind(&self) -> &str {
        value(&self.device, "kind").unwrap_or("the profile's")
    }

    fn stand_in(&self) -> &'static str {
        self.stops
            .as_ref()
            .map_or("nothing", |(_, stand_in)| match stand_in {
                super::BroadcastDevice::Device => "the device, a device stands in",
                super::BroadcastDevice::Timer => "the device, a timer stands in",
            })
    }

    fn device_and_stand_in(&self) -> String {
        let stand_in = self.stops.as_ref().map(|(_, stand_in)| stand_in.name());
        format!("{}, {}", self.device_kind(), stand_in.unwrap_or("none"))
    }

    fn counter_frequency(&self) -> &str {
        value(&self.counter, "frequency").unwrap_or("ideal")
    }

    fn counter_classes(&self) -> Vec<Class> {
        let number = |key| value(&self.counter, key).and_then(|text| text.parse::<i64>().ok());
        let rate = match number("error_ppm") {
            None | Some(0) => "right",
            Some(..0) => "slow",
            Some(_) => "fast",
        };
        let skew = match value(&self.counter, "skew") {
            None | Some("0 ns") => "none",
            Some(skew) => skew,
        };
        let stops = value(&self.counter, "stops_in_deep_idle").unwrap_or("false");
        [
            ("rate of the counter", rate),
            ("skew of the counter", skew),
            ("counter stops in deep idle", stops),
        ]
        .into_iter()
        .map(|(what, which)| Class {
            what,
            which: which.to_owned(),
        })
        .collect()
    }
}
