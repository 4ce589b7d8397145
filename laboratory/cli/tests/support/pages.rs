//! The blocks of the pages.

use std::path::{Path, PathBuf};

pub(crate) use page_blocks::Block;

#[path = "../../../../xtask/src/page_blocks.rs"]
mod page_blocks;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the blocks of README, CONTRIBUTING, and the pages of docs.
pub(crate) fn blocks() -> Vec<Block> {
    page_blocks::all(&root())
}

/// Returns the one block in `language` of `page` that contains `part`.
#[track_caller]
pub(crate) fn block(page: &str, language: &str, part: &str) -> Block {
    let all = page_blocks::of_page(&root(), page).into_iter();
    let mut found = all.filter(|block| block.language == language && block.text.contains(part));
    let first = found.next();
    assert!(found.next().is_none(), "{page}: two blocks with {part:?}");
    first.unwrap_or_else(|| panic!("{page}: no block in {language} with {part:?}"))
}
