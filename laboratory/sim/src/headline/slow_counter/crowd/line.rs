//! The cache line of the shared word: its holder, and the time at which a CPU gets it.
//!
//! If one CPU of a socket has the line, the other CPUs of the socket get it one after the other. Sockets are served in
//! parallel. The first CPU of a socket fetches the line from the CPU that wrote it. A write needs exclusive access to
//! the line, and writes follow one another.

use crate::model::cost_model::CostModel;
use crate::model::time::Picos;
use crate::model::topology::{Distance, Topology};

/// The copy of the line that a socket has.
#[derive(Clone, Copy, Debug, Default)]
struct Copied {
    is_there: bool,
    /// The time from which on the next CPU is served.
    free: Picos,
}

/// The cache line of the shared word, with its writer and its copies.
#[derive(Debug)]
pub(super) struct Line {
    /// The CPU that wrote the line last, and the end of that write.
    writer: u32,
    written: Picos,
    sockets: Vec<Copied>,
    socket_of: Vec<usize>,
}

impl Line {
    pub(super) fn new(topology: &Topology) -> Self {
        let socket_of = |cpu| topology.place(cpu).socket as usize;
        Self {
            writer: 0,
            written: Picos::ZERO,
            sockets: vec![Copied::default(); topology.sockets as usize],
            socket_of: (0..topology.cpus()).map(socket_of).collect(),
        }
    }

    /// Returns the time at which `cpu` has a copy of the line, if it asks for it at `at`.
    pub(super) fn loads(&mut self, model: &CostModel, cpu: u32, at: Picos) -> Picos {
        let distance = model.distance(self.writer, cpu);
        let copied = &mut self.sockets[self.socket_of[cpu as usize]];
        let takes = match distance {
            Distance::Remote if copied.is_there => model.charges.line_cache,
            _ => model.charges.line(distance),
        };
        copied.is_there = true;
        copied.free = at.max(self.written).max(copied.free) + takes;
        copied.free + model.charges.load
    }

    /// Returns the time at which `cpu` has the line alone and has written it, if it asks for that at `at`.
    pub(super) fn writes(&mut self, model: &CostModel, cpu: u32, at: Picos) -> Picos {
        let own = self.socket_of[cpu as usize];
        let mut sockets = self.sockets.iter().enumerate();
        let is_elsewhere = sockets.any(|(socket, copied)| copied.is_there && socket != own);
        let takes = if is_elsewhere {
            model.charges.line_remote
        } else {
            model.charges.line(model.distance(self.writer, cpu))
        };
        self.writer = cpu;
        self.written = at.max(self.written) + takes + model.charges.exchange;
        for (socket, copied) in self.sockets.iter_mut().enumerate() {
            copied.is_there = socket == own;
        }
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::Line;
    use crate::model::cost_model::CostModel;
    use crate::model::profile::Profile;
    use crate::model::time::Picos;

    #[test]
    fn a_line_is_fetched_once_for_each_socket_and_handed_on_within() {
        let profile = Profile::embedded("hsw-144").expect("it is there");
        let model = CostModel::new(&profile.costs, &profile.topology);
        let charges = &model.charges;
        let mut line = Line::new(&profile.topology);
        let start = Picos::from_micros(1);
        let written = line.writes(&model, 0, start);
        assert_eq!(written, start + charges.exchange, "it was there");
        let remote = written + charges.line_remote;
        assert_eq!(line.loads(&model, 18, start), remote + charges.load);
        let next = remote + charges.line_cache;
        assert_eq!(line.loads(&model, 19, start), next + charges.load);
        // Another socket at the same time, and their copies go with the next write.
        assert_eq!(line.loads(&model, 36, start), remote + charges.load);
        let again = line.writes(&model, 0, next);
        assert_eq!(again, next + charges.line_remote + charges.exchange);
        let remote = again + charges.line_remote + charges.load;
        assert_eq!(line.loads(&model, 19, again), remote);
    }
}
