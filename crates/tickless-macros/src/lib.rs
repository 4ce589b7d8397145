//! Attributes that run an `async fn`: `#[tickless::test]` and `#[tickless::main]`.
//!
//! The crate `tickless` exports them with its feature `macros`, and the code to which they expand calls that crate.

use proc_macro::TokenStream;

mod arguments;
mod expand;

use expand::{AttributeKind, expand};

/// Runs an `async fn` as a test.
///
/// The function and all tasks that it spawns run on the thread of the test. It takes no arguments, and returns whatever
/// a test may return.
///
/// | argument | means |
/// |---|---|
/// | `start_paused = true` | the clock stands still at first: `tickless::time::pause` was called |
/// | `workers = 4` | tasks run on an executor with this number of workers |
/// | `seeds = 1000` | runs under this number of schedules of tasks and timers, seeds 0 to 999, on a clock that stands still |
/// | `seed = 17` | runs under the schedule of this seed alone |
///
/// A seed selects at random which ready task runs next, and which of the timers with equal deadlines fires first. The
/// test ends at the first seed that fails, and prints the line that replays it. The environment variable
/// `TICKLESS_SEED` makes a test with `seeds` or `seed` run under that seed alone.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute(AttributeKind::Test, arguments, item)
}

/// Runs an `async fn` as the `main` function of a program.
///
/// The tasks that the function spawns run on an executor with one worker for each CPU.
///
/// | argument | means |
/// |---|---|
/// | `workers = 4` | the executor has this number of workers |
/// | `start_paused = true` | all tasks run on one thread, and the clock stands still at first |
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute(AttributeKind::Main, arguments, item)
}

fn attribute(kind: AttributeKind, arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand(kind, arguments.into(), item.into()).into()
}
