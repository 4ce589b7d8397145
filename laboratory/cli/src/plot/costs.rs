//! Plots of a cost over a size, with names at the ends of their curves.

use maud::Markup;
use plotters::coord::combinators::{BindKeyPoints, LogCoord};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Curve, Drawn, GRID, Ink, OTHERS, TICKLESS, TOKIO, axis, decades, failed, tick};
use crate::failure::Failure;
use crate::units;

/// The prominence of a curve.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    Tickless,
    Tokio,
    Limit,
    /// A curve in the background.
    Other,
}

impl Style {
    pub(crate) fn ink(self) -> Ink {
        match self {
            Self::Tickless => TICKLESS[0],
            Self::Tokio => TOKIO,
            Self::Limit => OTHERS[0],
            Self::Other => OTHERS[OTHERS.len() - 1],
        }
    }
}

/// The size of the plot, of its letters, and of the space right of the axis for names.
#[derive(Clone, Copy, Debug)]
struct Shape {
    size: (u32, u32),
    letters: u32,
    names: u32,
}

const WIDE: Shape = Shape {
    size: (900, 520),
    letters: 15,
    names: 250,
};
const NARROW: Shape = Shape {
    size: (380, 480),
    letters: 12,
    names: 178,
};

/// Returns the position of a number on the logarithmic axis: zero is a decade before the least of the other numbers.
pub(crate) fn place(number: u64, all: &[u64]) -> f64 {
    let least = all.iter().filter(|number| **number > 0).min();
    if number == 0 {
        least.map_or(1.0, |least| *least as f64 / 10.0)
    } else {
        number as f64
    }
}

/// Draws curves over `sizes`, whose abscissas come from [`place`].
pub(crate) fn draw(
    curves: &[Curve],
    sizes: &[u64],
    unit: &str,
    data: Markup,
) -> Result<Drawn, Failure> {
    Ok(Drawn {
        wide: drawn(curves, sizes, unit, WIDE)?,
        narrow: Some(drawn(curves, sizes, unit, NARROW)?),
        data,
    })
}

fn drawn(curves: &[Curve], sizes: &[u64], unit: &str, shape: Shape) -> Result<String, Failure> {
    let places: Vec<f64> = sizes.iter().map(|size| place(*size, sizes)).collect();
    let scale: LogCoord<f64> = (places[0] / 1.5..places[places.len() - 1])
        .log_scale()
        .into();
    let across = scale.with_key_points(places.clone());
    let points = curves.iter().flat_map(|curve| &curve.points);
    let up = decades(points.map(|point| point.1));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, shape.size).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .margin_right(shape.names)
            .x_label_area_size(30)
            .y_label_area_size(4 * shape.letters)
            .build_cartesian_2d(across, axis(&up))
            .map_err(failed)?;
        let letters = ("sans-serif", shape.letters);
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(BLACK)
            .label_style(letters)
            .x_label_formatter(&|at| {
                let near = |(place, _): &(&f64, &u64)| (**place / at - 1.0).abs() < 0.01;
                let size = places.iter().zip(sizes).find(near);
                size.map_or_else(String::new, |(_, size)| label(*size))
            })
            .y_label_formatter(&|value| match unit {
                "ns" => tick(*value),
                _ => format!("{value:.0} {unit}"),
            })
            .draw()
            .map_err(failed)?;
        let mut ends = Vec::new();
        for curve in curves {
            let line = LineSeries::new(curve.points.clone(), curve.ink.colour.stroke_width(3));
            chart.draw_series(line).map_err(failed)?;
            if let Some(last) = curve.points.last() {
                let (x, y) = chart.backend_coord(last);
                ends.push((y, x, (y, curve.name.as_str())));
            }
        }
        let (_, height) = area.dim_in_pixel();
        let style = TextStyle::from(letters.into_font()).pos(Pos::new(HPos::Left, VPos::Center));
        let step = i32::try_from(shape.letters).unwrap_or(15) + 1;
        let bottom = i32::try_from(height).unwrap_or(0) - 30;
        for (y, x, (end, name)) in apart(ends, step, bottom) {
            // A name that had to give way is led back to its curve.
            let lead = vec![(x + 3, end), (x + LEAD, y)];
            area.draw(&PathElement::new(lead, GRID)).map_err(failed)?;
            area.draw(&Text::new(name, (x + LEAD + 4, y), style.clone()))
                .map_err(failed)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Formats a size: `0`, `1,000`, `10^5`, short enough for narrow plots.
fn label(size: u64) -> String {
    match size {
        10_000.. if size == 10_u64.pow(size.ilog10()) => format!("10^{}", size.ilog10()),
        _ => units::count(size),
    }
}

/// The distance of a name from the right end of its curve.
const LEAD: i32 = 22;

/// Places names no nearer than `step` to each other, above `bottom`, in the order of their curves.
///
/// Names that would overlap form a block. The middle of the block is the average of the ends of its curves, so no name
/// is further from its curve than necessary.
fn apart<N: Ord>(mut ends: Vec<(i32, i32, N)>, step: i32, bottom: i32) -> Vec<(i32, i32, N)> {
    ends.sort_unstable();
    // The sum of the places that each name gives the first one of its block, and the number of names.
    let mut blocks: Vec<(i32, i32)> = Vec::new();
    let top_of = |&(sum, count): &(i32, i32)| {
        let last = bottom - (count - 1) * step;
        (sum / count).max(step / 2).min(last)
    };
    for end in &ends {
        let mut block = (end.0, 1);
        while let Some(above) = blocks.pop() {
            if top_of(&above) + above.1 * step <= top_of(&block) {
                blocks.push(above);
                break;
            }
            block = (
                above.0 + block.0 - block.1 * above.1 * step,
                above.1 + block.1,
            );
        }
        blocks.push(block);
    }
    let places = blocks.iter().flat_map(|block| {
        let top = top_of(block);
        (0..block.1).map(move |place| top + place * step)
    });
    let places: Vec<i32> = places.collect();
    for (end, place) in ends.iter_mut().zip(places) {
        end.0 = place;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::{apart, label, place};

    #[test]
    fn nothing_stands_a_decade_before_the_least_number() {
        let all = [0, 1_000, 1_000_000];
        assert_eq!(all.map(|number| place(number, &all)), [1e2, 1e3, 1e6]);
        assert_eq!(all.map(label), ["0", "1,000", "10^6"]);
        assert_eq!(label(20_000), "20,000");
    }

    #[test]
    fn names_keep_their_order_and_their_distance() {
        let names = apart(
            vec![(10, 0, "a"), (12, 0, "b"), (98, 0, "c"), (99, 0, "d")],
            10,
            100,
        );
        let places: Vec<_> = names.iter().map(|name| (name.0, name.2)).collect();
        assert_eq!(places, [(6, "a"), (16, "b"), (90, "c"), (100, "d")]);
        // One block of three, around its curves.
        let names = apart(vec![(50, 0, "a"), (51, 0, "b"), (52, 0, "c")], 10, 100);
        let places: Vec<_> = names.iter().map(|name| name.0).collect();
        assert_eq!(places, [41, 51, 61]);
        // Two blocks that meet become one.
        let names = apart(
            vec![(50, 0, "a"), (50, 0, "b"), (58, 0, "c"), (58, 0, "d")],
            10,
            100,
        );
        let places: Vec<_> = names.iter().map(|name| name.0).collect();
        assert_eq!(places, [39, 49, 59, 69]);
    }
}
