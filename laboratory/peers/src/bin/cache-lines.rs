//! `cargo laboratory -p tickless-peers --bin cache-lines`: a count of the cache lines that an operation touches, for
//! this library, its peers and the lower limit.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::io::Write as _;
use std::process::{Command, ExitCode};

use clap::Parser;
use tickless_peers::{Operation, lines};

/// Counts the lines of 64 bytes that an operation touches, by valgrind's lackey.
///
/// A line is cold if none of the 16 operations before touched it. If more timers are pending than fit into the caches,
/// each cold line is a cache miss. In the column `expire`, which has 2,000 timers at most, a line is cold if it is not
/// among the 512 lines that were touched last. A subject takes some seconds for each 10,000 pending timers.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The number of pending timers.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pending: u32,
    /// Measures only subjects whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Measures only this operation, named as in `tickless bench`.
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    #[arg(long, hide = true, requires = "operation")]
    execute: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match perform(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing can be done about a closed output.
            let _closed = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

fn perform(arguments: &Arguments) -> Result<(), String> {
    let pending = arguments.pending as usize;
    if let Some(subject) = &arguments.execute {
        let name = arguments.operation.as_deref().unwrap_or_default();
        return lines::execute(subject, named(name)?, pending);
    }
    let wanted = |name: &&str| {
        arguments
            .only
            .as_deref()
            .is_none_or(|text| name.contains(text))
    };
    let names: Vec<&str> = lines::names().into_iter().filter(wanted).collect();
    if names.is_empty() {
        return Err(format!(
            "no subject is called like that; there are: {}",
            lines::names().join(", ")
        ));
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    println!("lines of 64 bytes for each operation, {pending} pending: cold (written) of all\n");
    print!("{:<30}", "subject");
    let operations = match &arguments.operation {
        Some(name) => vec![named(name)?],
        None => lines::operations(),
    };
    for operation in &operations {
        print!("{:>20}", operation.name());
    }
    println!();
    for name in names {
        print!("{name:<30}");
        for operation in &operations {
            let mut command = Command::new(&program);
            command.args(["--execute", name, "--operation", operation.name()]);
            command.args(["--pending", &pending.to_string()]);
            let counted = match lines::count(&mut command, *operation, pending) {
                Ok(lines) => format!(
                    "{:.1} ({:.1}) of {:.0}",
                    lines.cold, lines.cold_written, lines.touched
                ),
                Err(_) => "-".to_owned(),
            };
            print!("{counted:>20}");
            // A closed output wants no more.
            if std::io::stdout().flush().is_err() {
                return Ok(());
            }
        }
        println!();
    }
    Ok(())
}

fn named(name: &str) -> Result<Operation, String> {
    let all = lines::operations();
    let found = all.iter().find(|operation| operation.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|operation| operation.name()).collect();
        format!(
            "no operation is called \"{name}\"; there are: {}",
            names.join(", ")
        )
    })
}
