//! The names of the switches, read from the list in their module.

use std::path::Path;

use super::patches::SWITCHES;
use crate::files;
use crate::tidy::tree::code_of;

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

/// Returns the literals of the list in `source`.
fn names_in(source: &str) -> Vec<String> {
    // The scan blanks the literals but keeps their quotes, so these tell where the literals are.
    let code = code_of(source);
    let Some(start) = code.find(LIST).map(|offset| offset + LIST.len()) else {
        return Vec::new();
    };
    let end = code[start..]
        .find(']')
        .map_or(code.len(), |end| start + end);
    let quotes: Vec<usize> = code[start..end]
        .match_indices('"')
        .map(|(offset, _)| start + offset)
        .collect();
    quotes
        .chunks_exact(2)
        .map(|pair| source[pair[0] + 1..pair[1]].to_owned())
        .collect()
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
