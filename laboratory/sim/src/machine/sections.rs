//! Critical sections, which are the parts of a task's computation in which the task should not be preempted.

use serde::Serialize;

use crate::model::time::Picos;

/// The critical sections of a task, at regular distances in its computing time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sections {
    /// The computing time of a section.
    pub length: Picos,
    /// The computing time from the end of one section to the end of the next one.
    pub every: Picos,
}

impl Sections {
    /// Returns the time to the end of the section for a task that `had` so much CPU time; `None` if the task is in no
    /// section.
    pub(super) fn left(self, had: Picos) -> Option<Picos> {
        let left = Picos(self.every.0 - had.0 % self.every.0);
        (left <= self.length).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::Sections;
    use crate::model::time::Picos;

    #[test]
    fn a_section_is_the_last_part_of_a_stretch() {
        let sections = Sections {
            length: Picos(3),
            every: Picos(10),
        };
        let left = [0, 6, 7, 9, 10, 17].map(|had| sections.left(Picos(had)).map(|left| left.0));
        assert_eq!(left, [None, None, Some(3), Some(1), None, Some(3)]);
    }
}
