//! Prints the claims of the sources and what came of them: `cargo run --release -p tickless-sim --example headlines`.
//!
//! With `-- sensitivity ID` how much one of them depends on each cost.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use tickless_sim::world::headline::{all, sensitivity};

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
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
    for headline in all(1) {
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
                "{:16} here   {} -> {} {}, ratio {}, spread {:?}, holds: {}, broken: {:?}",
                "",
                shown(measured.baseline),
                shown(measured.with),
                measured.unit,
                shown(headline.measured_ratio),
                headline.spread,
                headline.holds,
                headline.broken,
            );
        }
        println!("{:16} {}\n", "", headline.why);
    }
}
