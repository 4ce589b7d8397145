//! The search for circles in a set of arrows.

use std::collections::BTreeSet;

/// Returns the groups of nodes in which each node reaches each other node, sorted. Groups of a single node are left
/// out.
pub(super) fn circles(nodes: usize, arrows: &BTreeSet<(usize, usize)>) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..nodes).map(|node| reach(node, arrows)).collect();
    let mut found: Vec<Vec<usize>> = Vec::new();
    for node in 0..nodes {
        if found.iter().any(|circle| circle.contains(&node)) {
            continue;
        }
        let circle: Vec<usize> = reached[node]
            .iter()
            .copied()
            .filter(|other| reached[*other].contains(&node))
            .collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}

/// Returns every node that can be reached from `start` by one or more arrows.
fn reach(start: usize, arrows: &BTreeSet<(usize, usize)>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        for &(_, next) in arrows.range((node, 0)..=(node, usize::MAX)) {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::circles;

    #[test]
    fn circles_are_found_and_lines_are_not() {
        let arrows = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (4, 5)];
        assert_eq!(
            circles(6, &arrows.into_iter().collect()),
            [vec![0, 1, 2], vec![3, 4]]
        );
        assert_eq!(
            circles(3, &[(0, 1), (0, 2), (1, 2)].into_iter().collect()),
            Vec::<Vec<usize>>::new()
        );
    }
}
