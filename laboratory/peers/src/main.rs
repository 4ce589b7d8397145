//! `cargo laboratory -p tickless-peers`: counts the instructions of single operations by valgrind, and prints them.
//!
//! `--write` writes them into `docs/performance.md`, and `--check` fails if an operation takes more than is written
//! there. It is no part of `tickless bench`, whose build has the features that the simulator asks of the core.
//!
//! The modules are those of the library, compiled anew: functions are inlined as in a program that uses timers.
#![expect(
    dead_code,
    unreachable_pub,
    reason = "the library has them for its users"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]

mod groups;
mod host;
mod instructions;
mod measure;
mod memory;
mod operation;
mod random;
mod rounds;
mod slots;
mod subject;
mod subjects;
mod threads;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let counted = match arguments[..] {
        [] => instructions::count_all(),
        ["--write"] => instructions::write().map(|()| String::new()),
        ["--check"] => instructions::check(),
        ["--execute", operation, batch] => {
            instructions::execute(operation, batch.parse().unwrap_or(1));
            Ok(String::new())
        }
        _ => Err("nothing, --write or --check".to_owned()),
    };
    match counted {
        Ok(text) => print!("{text}"),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
