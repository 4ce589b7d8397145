//! Prints the claims of the sources and the verdict on each: `cargo run --release -p tickless-sim --example headlines`.
//!
//! With `-- SEED` for another seed than 1, with `-- one ID [SEED]` for one of them, and with
//! `-- sensitivity ID` how much one of them depends on each cost.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use tickless_sim::headline::{Effort, Headline, all, one, sensitivity};

fn shown(value: Option<f64>) -> String {
    let precise = |value: f64| format!("{value:.5}");
    let rounded = |value: f64| format!("{value:.2}");
    // What is all but one is told apart from one.
    let is_near_one = |value: f64| value != 1.0 && (value - 1.0).abs() < 0.01;
    value.map_or_else(
        || "-".to_owned(),
        |value| {
            if is_near_one(value) {
                precise(value)
            } else {
                rounded(value)
            }
        },
    )
}

fn shown_spread(spread: Option<(f64, f64)>) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |(least, greatest)| format!("{least:.5} to {greatest:.5}"),
    )
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, id] = arguments.as_slice()
        && what == "sensitivity"
    {
        println!("| cost | half | as it is | twice |\n|---|---|---|---|");
        for row in sensitivity(id, 1) {
            if row.half != row.as_is || row.twice != row.as_is {
                let [half, as_is, twice] = [row.half, row.as_is, row.twice].map(shown);
                println!("| `{}` | {half} | {as_is} | {twice} |", row.cost);
            }
        }
        return;
    }
    if let [what, id, seed @ ..] = arguments.as_slice()
        && what == "one"
    {
        let seed = seed.first().and_then(|text| text.parse().ok());
        if let Some(headline) = one(id, seed.unwrap_or(1), Effort::Full) {
            show(&headline);
        }
        return;
    }
    let seed = arguments.first().and_then(|text| text.parse().ok());
    for headline in all(seed.unwrap_or(1)) {
        show(&headline);
    }
}

fn show(headline: &Headline) {
    let source = &headline.source;
    println!(
        "{:16} source {} -> {} {}, ratio {}",
        headline.id,
        shown(source.baseline),
        shown(source.with),
        source.unit,
        shown(headline.source_ratio),
    );
    if let Some(measured) = &headline.measured {
        println!(
            "{:16} here   {} -> {} {}, ratio {}, spread {}, holds: {}, broken: {:?}",
            "",
            shown(measured.baseline),
            shown(measured.with),
            measured.unit,
            shown(headline.measured_ratio),
            shown_spread(headline.spread),
            headline.holds(),
            headline.broken,
        );
    }
    println!("{:16} {}\n", "", headline.why);
}
