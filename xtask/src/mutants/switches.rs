//! The names of the switches, read from the list in their module.

use std::path::Path;

use super::patches::SWITCHES;
use crate::files;

const SOURCE: &str = SWITCHES.0;
const LIST: &str = "const NAMES: &[&str] = &[";

/// Returns the names of all switches, in the order in which they are tried.
pub(super) fn names(root: &Path) -> Result<Vec<String>, String> {
    let names = names_in(&files::read(root, SOURCE)?);
    if names.is_empty() {
        return Err(format!("{SOURCE} lists no switches after `{LIST}`"));
    }
    Ok(names)
}

/// Returns the literals of the list in `source`, each of which has a line of its own.
fn names_in(source: &str) -> Vec<String> {
    let list = source.split_once(LIST).map_or("", |(_, list)| list);
    let (list, _) = list.split_once(']').unwrap_or((list, ""));
    let literal = |line: &str| Some(line.trim().strip_prefix('"')?.split_once('"')?.0.to_owned());
    list.lines().filter_map(literal).collect()
}

#[cfg(test)]
mod tests {
    use super::names_in;

    #[test]
    fn comments_in_the_list_are_no_names() {
        let source = "/// \"doc\"\npub const NAMES: &[&str] = &[\n    // Not \"this\".\n    \"one\",\n    \"two\"];\n\
                      const OTHER: &str = \"x\";";
        assert_eq!(names_in(source), ["one", "two"]);
        assert!(names_in("const OTHER: &str = \"x\";").is_empty());
    }
}
