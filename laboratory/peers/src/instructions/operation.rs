//! An operation whose instructions are counted, and the function within which they are.

use std::hint::black_box;

/// An operation whose instructions are counted.
pub(super) struct Operation {
    pub(super) name: &'static str,
    /// The number of executions between two counts.
    pub(super) batch: u64,
    /// The corresponding operation of tokio, and the number of its executions between two counts.
    pub(super) peer: Option<(&'static str, u64)>,
    /// The goal for the operation.
    pub(super) aim: Aim,
}

/// The most that an operation may take.
#[derive(Clone, Copy)]
pub(super) enum Aim {
    None,
    Instructions(u64),
    /// The operation takes at most a percentage of the peer's instructions.
    OfPeer(u64),
    /// The operation takes at most a percentage of the instructions of another operation.
    Of(&'static str, u64),
}

/// A line of the table.
pub(super) struct Line {
    pub(super) operation: Operation,
    pub(super) tenths: u64,
    pub(super) peer_tenths: Option<u64>,
}

/// The name of [`counted`] in callgrind's output.
pub(super) const COUNTED: &str = concat!(module_path!(), "::counted");

/// Executes the part that callgrind counts.
#[inline(never)]
pub(super) fn counted(body: &mut dyn FnMut()) {
    body();
    // A call that is the last thing of a function is a jump, which callgrind does not see the end of.
    black_box(());
}
