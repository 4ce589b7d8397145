//! The blocks of the pages, and the tools that execute the blocks if the machine has them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Place, text};

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

/// Reports on standard error that a part of a test is skipped.
fn skip(what: &str, because: &str) {
    let _best_effort = writeln!(std::io::stderr(), "\nskipped: {what}, because {because}");
}

impl Block {
    /// Executes a block in SQL, Python or shell in the directory of `place`, and returns the block's output; `None` if
    /// the machine lacks the tool. Panics if the tool reports an error.
    #[track_caller]
    pub(crate) fn execute(&self, place: &Place) -> Option<String> {
        let mut command = match self.language.as_str() {
            "sql" => self.python("duckdb", DUCKDB)?,
            "python" => self.python("polars", &self.text)?,
            "sh" => self.jq()?,
            language => panic!("{self:?}: no tool for {language}"),
        };
        command.arg(&self.text).current_dir(place.path("."));
        let output = command.output().expect("the tool starts");
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        let (page, line) = (&self.page, self.line);
        assert!(output.status.success(), "{page}:{line}: {out}{error}");
        Some(out)
    }

    /// Returns a command that runs `program` if `python3` has `module`.
    fn python(&self, module: &str, program: &str) -> Option<Command> {
        let mut has = Command::new("python3");
        let has = has.args(["-c", &format!("import {module}")]).output();
        if !has.is_ok_and(|output| output.status.success()) {
            let because = format!("python3 has no module {module}");
            skip(&format!("{}:{}", self.page, self.line), &because);
            return None;
        }
        let mut command = Command::new("python3");
        command.args(["-B", "-c", program]);
        Some(command)
    }

    fn jq(&self) -> Option<Command> {
        if Command::new("jq").arg("--version").output().is_err() {
            skip(&format!("{}:{}", self.page, self.line), "there is no jq");
            return None;
        }
        let mut command = Command::new("sh");
        command.args(["-e", "-c"]);
        Some(command)
    }
}

/// A Python program that runs the SQL in its first argument, and prints each row as a list in JSON.
const DUCKDB: &str = "import duckdb, json, sys
for row in duckdb.sql(sys.argv[1]).fetchall(): print(json.dumps(row, default=float))";
