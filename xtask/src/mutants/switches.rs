//! The switches that the library offers.
//!
//! They are read from its source. Depending on the crate would be shorter, but then nothing here could be built, and no
//! check run, while that crate does not compile. A test compares what is read with what the crate says.

use std::path::Path;

use crate::files;
use crate::tidy::scan::Scan;

const SOURCE: &str = "crates/tickless-link/src/mutants.rs";
const LIST: &str = "const NAMES: &[&str] = &[";

/// The names of all switches, in the order in which they are tried.
pub(super) fn names(root: &Path) -> Result<Vec<String>, String> {
    let names = names_in(&files::read(root, SOURCE)?);
    if names.is_empty() {
        return Err(format!("{SOURCE} lists no switches after `{LIST}`"));
    }
    Ok(names)
}

/// The literals of the list in `source`.
fn names_in(source: &str) -> Vec<String> {
    // The scan blanks the literals but keeps their quotes, so these tell where the literals are.
    let code = Scan::new(source).code;
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
    use super::{names, names_in};
    use std::path::Path;

    #[test]
    fn the_list_read_is_the_list_of_the_crate() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(names(root).unwrap(), tickless_link::mutants::NAMES);
    }

    #[test]
    fn comments_in_the_list_are_no_names() {
        let source = "/// \"doc\"\npub const NAMES: &[&str] = &[\n    // Not \"this\".\n    \"one\",\n    \"two\"];\n\
                      const OTHER: &str = \"x\";";
        assert_eq!(names_in(source), ["one", "two"]);
        assert!(names_in("const OTHER: &str = \"x\";").is_empty());
    }
}
