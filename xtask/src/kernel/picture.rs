//! A picture of the kernel's own trace: a lane for each CPU, and an arrow from each start of a timer to its expiry.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// The width of the picture, the width for names, and the height of a lane, in pixels.
const WIDTH: f64 = 1_000.0;
const LEFT: f64 = 70.0;
const LANE: f64 = 96.0;
const TOP: f64 = 40.0;
const EXACT: &str = "#1f5fa8";
const COARSE: &str = "#c2571a";

/// The start and the expiry of a timer: times in nanoseconds, and CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrow {
    armed: (u64, u64),
    fired: (u64, u64),
    is_exact: bool,
}

/// The parts of a trace that are drawn.
#[derive(Debug, Default, PartialEq, Eq)]
struct Drawn {
    cpus: u64,
    arrows: Vec<Arrow>,
    /// The starts of timers that were cancelled.
    cancelled: Vec<(u64, u64)>,
    /// The writes of a device.
    writes: Vec<(u64, u64)>,
    /// The times without a tick: the CPU, the beginning and the end.
    stopped: Vec<(u64, u64, u64)>,
    span: Option<(u64, u64)>,
}

impl Drawn {
    /// Reads the lines of a trace. The arrow of an expiry begins at the last start before it.
    fn of(trace: &str) -> Result<Self, String> {
        let mut drawn = Self::default();
        let mut armed: BTreeMap<(bool, u64), (u64, u64)> = BTreeMap::new();
        let mut stopped: BTreeMap<u64, u64> = BTreeMap::new();
        for line in trace.lines() {
            let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            let number = |key: &str| line[key].as_u64();
            if let Some(cpus) = number("cpus") {
                drawn.cpus = cpus;
            }
            let (Some(time), Some(cpu), Some(event)) =
                (number("time"), number("cpu"), line["event"].as_str())
            else {
                continue;
            };
            let (begin, _) = drawn.span.unwrap_or((time, time));
            drawn.span = Some((begin, time));
            let key = number("hrtimer").map(|timer| (true, timer));
            let key = key.or_else(|| number("timer").map(|timer| (false, timer)));
            let of_cpu = number("of_cpu").unwrap_or(cpu);
            match (event, key) {
                ("hrtimer_start" | "timer_start", Some(key)) => {
                    armed.insert(key, (time, cpu));
                }
                ("hrtimer_expire_entry" | "timer_expire_entry", Some(key)) => {
                    if let Some(began) = armed.remove(&key) {
                        drawn.arrows.push(Arrow {
                            armed: began,
                            fired: (time, cpu),
                            is_exact: key.0,
                        });
                    }
                }
                ("hrtimer_cancel" | "timer_cancel", Some(key)) => {
                    drawn.cancelled.extend(armed.remove(&key));
                }
                ("hrtimer_rearm", _) => drawn.writes.push((time, of_cpu)),
                ("tick_stop", _) => {
                    stopped.entry(of_cpu).or_insert(time);
                }
                ("tick_start", _) => {
                    let began = stopped.remove(&of_cpu);
                    drawn
                        .stopped
                        .extend(began.map(|began| (of_cpu, began, time)));
                }
                _ => {}
            }
        }
        Ok(drawn)
    }

    fn picture(&self) -> Result<String, String> {
        let (begin, end) = self.span.ok_or("the trace has no events")?;
        let length = (end - begin).max(1) as f64;
        let x = |time: u64| LEFT + (time - begin) as f64 / length * (WIDTH - LEFT - 20.0);
        let y = |cpu: u64| TOP + LANE * (cpu + 1) as f64 - 18.0;
        let height = TOP + LANE * self.cpus as f64 + 30.0;
        let mut out = head(height);
        for cpu in 0..self.cpus {
            let y = y(cpu);
            for &(_, from, to) in self.stopped.iter().filter(|stopped| stopped.0 == cpu) {
                out += &format!(
                    "<rect x=\"{:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"8\" fill=\"#d0d0d0\"/>\n",
                    x(from),
                    y,
                    x(to) - x(from)
                );
            }
            out += &format!(
                "<text x=\"8\" y=\"{:.0}\">CPU {cpu}</text><path d=\"M{LEFT} {y}H{:.0}\" stroke=\"#444\"/>\n",
                y + 4.0,
                WIDTH - 20.0
            );
        }
        let strokes = self.writes.iter().fold(String::new(), |mut strokes, one| {
            // Writing to a string cannot fail.
            let _infallible = write!(strokes, "M{:.1} {}v10", x(one.0), y(one.1));
            strokes
        });
        out += &format!("<path d=\"{strokes}\" stroke=\"#222\" stroke-width=\"0.7\"/>\n");
        for &(time, cpu) in &self.cancelled {
            out += &format!(
                "<text x=\"{:.1}\" y=\"{}\" font-size=\"9\">x</text>\n",
                x(time) - 2.0,
                y(cpu) - 1.0
            );
        }
        for arrow in &self.arrows {
            let (from, to) = (x(arrow.armed.0), x(arrow.fired.0));
            let (above, below) = (y(arrow.armed.1), y(arrow.fired.1));
            let rise = 14.0 + 130.0 * (to - from) / (WIDTH - LEFT);
            let (name, colour) = if arrow.is_exact {
                ("e", EXACT)
            } else {
                ("c", COARSE)
            };
            out += &format!(
                "<path d=\"M{from:.1} {above}Q{:.1} {:.1} {to:.1} {below}\" fill=\"none\" stroke=\"{colour}\" \
                 stroke-width=\"0.9\" marker-end=\"url(#{name})\"/>\n",
                f64::midpoint(from, to),
                above.min(below) - rise,
            );
        }
        let last = end / 1_000_000;
        for millis in begin.div_ceil(1_000_000)..=last {
            let unit = if millis == last { " ms" } else { "" };
            out += &format!(
                "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\" font-size=\"10\">{millis}{unit}</text>\n",
                x(millis * 1_000_000),
                height - 10.0
            );
        }
        out += "</svg>\n";
        Ok(out)
    }
}

/// Returns the beginning of a picture, with the meaning of its colours.
fn head(height: f64) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>Timers of the kernel, from arm to fire</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n<defs>"
    );
    for (name, colour) in [("e", EXACT), ("c", COARSE)] {
        out += &format!(
            "<marker id=\"{name}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
             orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{colour}\"/></marker>"
        );
    }
    out += "</defs>\n";
    out += &format!(
        "<text x=\"{LEFT}\" y=\"20\">From arm to fire: <tspan fill=\"{EXACT}\">exact timers</tspan>, <tspan \
         fill=\"{COARSE}\">coarse timers</tspan>. Grey: the tick is stopped. Strokes below a lane: writes of its \
         device. x: armed, then cancelled.</text>\n"
    );
    out
}

/// Draws a trace, and returns the picture.
pub(super) fn draw(trace: &str) -> Result<String, String> {
    Drawn::of(trace)?.picture()
}

#[cfg(test)]
mod tests {
    use super::{Arrow, Drawn, draw};

    const TRACE: &str = r#"{"format":"tickless-trace","cpus":2}
{"time":1000000,"cpu":0,"event":"hrtimer_start","hrtimer":1,"of_cpu":0}
{"time":1100000,"cpu":0,"event":"hrtimer_rearm","of_cpu":0}
{"time":1200000,"cpu":0,"event":"tick_stop","of_cpu":0}
{"time":1300000,"cpu":0,"event":"timer_start","timer":1,"of_cpu":0}
{"time":1400000,"cpu":0,"event":"hrtimer_start","hrtimer":1,"of_cpu":0}
{"time":1500000,"cpu":1,"event":"hrtimer_start","hrtimer":2,"of_cpu":1}
{"time":1600000,"cpu":1,"event":"hrtimer_cancel","hrtimer":2,"of_cpu":1}
{"time":2000000,"cpu":1,"event":"hrtimer_expire_entry","hrtimer":1,"of_cpu":1}
{"time":2100000,"cpu":0,"event":"tick_start","of_cpu":0}
{"time":3000000,"cpu":0,"event":"timer_expire_entry","timer":1,"of_cpu":0}"#;

    #[test]
    fn an_arrow_goes_from_the_last_start_to_the_expiry() {
        let drawn = Drawn::of(TRACE).expect("each line is an object");
        let arrow = |armed, fired, is_exact| Arrow {
            armed,
            fired,
            is_exact,
        };
        let arrows = [
            arrow((1_400_000, 0), (2_000_000, 1), true),
            arrow((1_300_000, 0), (3_000_000, 0), false),
        ];
        assert_eq!(drawn.arrows, arrows);
        assert_eq!(drawn.cancelled, [(1_500_000, 1)]);
        assert_eq!(drawn.stopped, [(0, 1_200_000, 2_100_000)]);
        assert_eq!(drawn.writes, [(1_100_000, 0)]);
    }

    #[test]
    fn a_picture_has_a_lane_for_each_cpu_and_a_path_for_each_arrow() {
        let picture = draw(TRACE).expect("it has events");
        assert!(picture.contains(">CPU 0<") && picture.contains(">CPU 1<"));
        assert_eq!(picture.matches("marker-end").count(), 2);
        assert!(draw("{\"cpus\":2}").is_err(), "nothing to draw");
    }
}
