//! Plots as SVG, drawn in plain colours. The page's style sheet replaces the colours by its own.

use std::ops::Range;

use maud::Markup;
use plotters::coord::combinators::{BindKeyPoints, LogCoord};
use plotters::prelude::*;

use crate::failure::Failure;
use crate::{table, units};

/// The colour of a series: a plain colour that the style sheet replaces by its own, in a dark and a light set, and the
/// class of its entry in a legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ink {
    pub(crate) colour: RGBColor,
    pub(crate) class: &'static str,
}

const fn ink(class: &'static str, red: u8, green: u8, blue: u8) -> Ink {
    Ink {
        colour: RGBColor(red, green, blue),
        class,
    }
}

/// The colour of tokio, in every report.
pub(crate) const TOKIO: Ink = ink("tokio", 0xcc, 0, 0);
/// The colour of tokio's alternative timer.
#[cfg(tokio_unstable)]
pub(crate) const TOKIO_2: Ink = ink("tokio-2", 0xaa, 0, 0);

/// The colours of Tickless, in every report: one colour, with dashes or a tint for each further configuration.
pub(crate) const TICKLESS: [Ink; 4] = [
    ink("tickless", 0, 0, 0xcc),
    ink("tickless-2", 0, 0, 0xaa),
    ink("tickless-3", 0, 0, 0x88),
    ink("tickless-4", 0, 0, 0x66),
];

const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// One line of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// The name of the series, for the table.
    pub(crate) name: String,
    pub(crate) ink: Ink,
    /// The points, with rising abscissas.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A plot for wide pages, a plot for narrow pages, and the figures of the plot.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) wide: String,
    pub(crate) narrow: String,
    /// The figures as a table, for readers without a pointer or with a screen reader.
    pub(crate) data: Markup,
}

/// The size of a plot, chosen so that its letters are as large as those around it.
#[derive(Clone, Copy, Debug)]
struct Shape {
    size: (u32, u32),
    letters: u32,
    /// The space left of the axis, and right of it.
    sides: (u32, u32),
    /// The number of decades for each label.
    labels: i32,
}

const WIDE: Shape = Shape {
    size: (900, 400),
    letters: 16,
    sides: (74, 30),
    labels: 1,
};

const NARROW: Shape = Shape {
    size: (380, 320),
    letters: 17,
    sides: (76, 26),
    labels: 2,
};

/// The distance below which a point is not drawn after the point before: a hundredth is less than the width of the
/// line.
const NEAR: f64 = 0.01;

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Machine(format!("cannot draw a plot: {error}"))
}

/// Returns the whole decades that hold the times of all these curves, for plots that are to be compared.
///
/// Times below a microsecond are shown only if all times of a curve are below a microsecond.
pub(crate) fn times(curves: &[Curve]) -> Range<f64> {
    let latest = curves.iter().filter_map(|curve| curve.points.last());
    let shortest = decades(latest.map(|point| point.0)).start.min(MICROSECOND);
    let points = curves.iter().flat_map(|curve| &curve.points);
    decades(points.map(|point| point.0.max(shortest)))
}

const MICROSECOND: f64 = 1e3;

/// Draws the share of all events that were at least so late, on logarithmic axes: time in nanoseconds across, share
/// upwards.
pub(crate) fn tails(curves: &[Curve], across: &Range<f64>) -> Result<Drawn, Failure> {
    Ok(Drawn {
        wide: tails_of(curves, across, WIDE)?,
        narrow: tails_of(curves, across, NARROW)?,
        data: figures(curves),
    })
}

/// Tabulates percentiles of the curves.
fn figures(curves: &[Curve]) -> Markup {
    const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.1), ("p99", 0.01), ("p99.9", 0.001)];
    let at = |curve: &Curve, share: f64| {
        // The last time that so many were at least late by; too few have none.
        let fewest = curve.points.last().map_or(1.0, |point| point.1);
        let points = curve.points.iter().rev();
        let point = { points }.find(|point| point.1 >= share);
        let point = point.filter(|_| fewest <= share);
        point.map_or_else(|| "-".to_owned(), |point| units::nanos(point.0))
    };
    let rows = curves.iter().map(|curve| {
        let mut row = vec![curve.name.clone()];
        row.extend(SHARES.iter().map(|(_, share)| at(curve, *share)));
        let latest = curve.points.last();
        row.push(latest.map_or_else(|| "-".to_owned(), |point| units::nanos(point.0)));
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let mut head = vec![""];
    head.extend(SHARES.iter().map(|(name, _)| *name));
    head.push("max");
    table::html(&head, 1, &rows)
}

fn tails_of(curves: &[Curve], across: &Range<f64>, shape: Shape) -> Result<String, Failure> {
    let points = curves.iter().flat_map(|curve| &curve.points);
    // At least a decade, even if a single event is all there is.
    let up = decades(points.map(|point| point.1)).start.min(0.1)..1.0;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, shape.size).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            // Half of the last label stands beside the axis.
            .margin_right(shape.sides.1)
            .x_label_area_size(46)
            .y_label_area_size(shape.sides.0)
            .build_cartesian_2d(axis(across), axis(&up))
            .map_err(failed)?;
        let letters = ("sans-serif", shape.letters);
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(BLACK)
            .label_style(letters)
            .axis_desc_style(letters)
            .x_desc("at least so late")
            .y_desc("share of all")
            .x_label_formatter(&|nanos| {
                if is_labelled(*nanos, across, shape.labels) {
                    tick(*nanos)
                } else {
                    String::new()
                }
            })
            .y_label_formatter(&|share| percent(*share))
            .draw()
            .map_err(failed)?;
        for curve in curves {
            let inside = |&(at, share): &(f64, f64)| (at.max(across.start), share);
            let points = thinned(&curve.points.iter().map(inside).collect::<Vec<_>>());
            let line = LineSeries::new(points, curve.ink.colour.stroke_width(3));
            chart.draw_series(line).map_err(failed)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Returns true if this decade has a label, where one decade of every `each` has a label.
fn is_labelled(at: f64, across: &Range<f64>, each: i32) -> bool {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "powers of ten of times in nanoseconds"
    )]
    let decade = (at / across.start).log10().round() as i32;
    decade % each == 0
}

/// Draws a logarithmic axis with a tick at each power of ten.
fn axis(
    range: &Range<f64>,
) -> impl Ranged<ValueType = f64, FormatOption = plotters::coord::ranged1d::DefaultFormatting> + use<>
{
    let mut ticks = Vec::new();
    let mut at = range.start;
    while at <= range.end * 1.001 {
        ticks.push(at);
        at *= 10.0;
    }
    let scale: LogCoord<f64> = (range.start..range.end).log_scale().into();
    scale.with_key_points(ticks)
}

/// Returns the whole decades around `values`; at least one decade.
fn decades(values: impl Iterator<Item = f64>) -> Range<f64> {
    let positive = values.filter(|value| *value > 0.0);
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in positive {
        low = low.min(value);
        high = high.max(value);
    }
    if high == 0.0 {
        return 1.0..10.0;
    }
    let start = 10_f64.powf(low.log10().floor());
    let end = 10_f64.powf(high.log10().ceil());
    start..end.max(start * 10.0)
}

/// Returns only the points that can be distinguished in the plot, for a smaller file.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for (place, &(x, y)) in points.iter().enumerate() {
        let is_far = kept.last().is_none_or(|&(before_x, before_y)| {
            x > before_x * (1.0 + NEAR) || y < before_y * (1.0 - NEAR)
        });
        if is_far || place + 1 == points.len() {
            kept.push((x, y));
        }
    }
    kept
}

/// Formats the label of a power of ten: `1 µs`, `10 µs`.
fn tick(nanos: f64) -> String {
    let (scale, unit) = match nanos {
        _ if nanos >= 0.999e9 => (1e9, "s"),
        _ if nanos >= 0.999e6 => (1e6, "ms"),
        _ if nanos >= 0.999e3 => (1e3, "µs"),
        _ => (1.0, "ns"),
    };
    format!("{:.0} {unit}", nanos / scale)
}

/// Formats a power of ten as a share, with as many digits as necessary.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "digits behind the point: between 0 and 20"
    )]
    let decimals = (-(percent * 1.001).log10().floor()).clamp(0.0, 20.0) as usize;
    format!("{percent:.decimals$} %")
}

/// Returns the points of a tail plot: for each value of a histogram, the share of all events with at least this value.
pub(crate) fn tail_points(histogram: &hdrhistogram::Histogram<u64>) -> Vec<(f64, f64)> {
    let total = histogram.len() as f64;
    let mut above = histogram.len();
    let mut points = Vec::new();
    for value in histogram.iter_recorded() {
        // What is below a nanosecond has no place on a logarithmic axis.
        let at = value.value_iterated_to().min(histogram.max()).max(1) as f64;
        points.push((at, above as f64 / total));
        above -= value.count_since_last_iteration();
    }
    points
}

#[cfg(test)]
mod tests {
    use super::{Curve, TOKIO, decades, percent, tail_points, tails, thinned, tick, times};

    #[test]
    fn axes_span_whole_decades() {
        assert_eq!(decades([30.0, 2_500.0].into_iter()), 10.0..10_000.0);
        assert_eq!(decades([100.0].into_iter()), 100.0..1_000.0);
        assert_eq!(decades(std::iter::empty()), 1.0..10.0);
    }

    #[test]
    fn a_tail_begins_with_all_and_ends_with_the_latest() {
        let mut histogram = crate::histogram::new();
        for micros in [10, 10, 10, 400] {
            histogram.record(micros * 1_000).expect("it is in range");
        }
        let points = tail_points(&histogram);
        let shares: Vec<f64> = points.iter().map(|point| point.1).collect();
        assert_eq!(shares, [1.0, 0.25]);
        assert!((400_000.0..401_000.0).contains(&points[1].0), "{points:?}");
    }

    #[test]
    fn a_plot_shows_each_curve_between_its_axes() {
        let curve = |micros: [f64; 2]| Curve {
            name: "curve".to_owned(),
            ink: TOKIO,
            points: vec![(micros[0] * 1e3, 1.0), (micros[1] * 1e3, 0.002)],
        };
        let curves = [curve([0.01, 30.0]), curve([900.0, 2_500.0])];
        let across = times(&curves);
        assert_eq!(across, 1e3..1e7, "from a microsecond on");
        let short = [curve([0.02, 0.09])];
        assert_eq!(times(&short), 1e1..1e2, "or there would be no curve");
        let drawn = tails(&curves, &across).expect("it can be drawn");
        let svg = &drawn.wide;
        assert_eq!(
            svg.matches("<polyline fill=\"none\" opacity=\"1\" stroke=\"#CC0000\"")
                .count(),
            2
        );
        for label in ["1 µs", "10 ms", "100 %", "0.1 %"] {
            assert!(svg.contains(label), "{label} is missing");
        }
        assert!(!svg.contains("NaN"));
        let narrow = drawn.narrow;
        assert!(
            narrow.contains("1 µs") && !narrow.contains(">\n10 µs"),
            "{narrow}"
        );
        let data = drawn.data.into_string();
        for figure in ["900 µs", "2.50 ms", "curve"] {
            assert!(data.contains(figure), "{figure} is missing in {data}");
        }
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(tick(1e5), "100 µs");
        assert_eq!(tick(1e6), "1 ms");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.001), "0.1 %");
        for (share, text) in [
            (1e-1, "10 %"),
            (1e-5, "0.001 %"),
            (1e-7, "0.00001 %"),
            (1e-9, "0.0000001 %"),
        ] {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn the_ends_of_a_curve_are_kept() {
        let points: Vec<(f64, f64)> = (0..1_000).map(|n| (1_000.0 + f64::from(n), 1.0)).collect();
        let kept = thinned(&points);
        assert!(kept.len() < 100);
        assert_eq!((kept[0], kept[kept.len() - 1]), (points[0], points[999]));
    }
}
