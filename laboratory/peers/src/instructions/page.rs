//! The table of instructions in the page on performance: writing and reading it.

use std::fs;
use std::path::Path;

use super::operation::{Aim, Line};

const BEGIN: &str = "<!-- instructions: written by --instructions --write -->\n";
const END: &str = "<!-- end of instructions -->\n";

/// Formats a number of tenths with one digit after the point, or without the digit if it is zero.
pub(super) fn number(tenths: u64) -> String {
    match tenths % 10 {
        0 => format!("{}", tenths / 10),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

/// Returns the table as Markdown.
pub(super) fn table(lines: &[Line]) -> String {
    let mut text =
        String::from("| operation | instructions | tokio's | aim |\n|---|---|---|---|\n");
    for line in lines {
        let peer = line.peer_tenths.map_or_else(String::new, number);
        let aim = match line.operation.aim {
            Aim::None => None,
            Aim::Instructions(count) => Some(count * 10),
            Aim::OfPeer(percent) => line.peer_tenths.map(|tenths| tenths * percent / 100),
            Aim::Of(name, percent) => lines
                .iter()
                .find(|other| other.operation.name == name)
                .map(|other| other.tenths * percent / 100),
        };
        let aim = aim.map_or_else(String::new, |aim| {
            let verdict = if line.tenths <= aim { "" } else { ", missed" };
            format!("<= {}{verdict}", number(aim))
        });
        let cells = [
            line.operation.name,
            &number(line.tenths),
            peer.as_str(),
            aim.as_str(),
        ];
        text += &format!("| {} |\n", cells.join(" | ")).replace("  ", " ");
    }
    text
}

/// Returns the version of the compiler that the commands of this shell use.
fn compiler() -> Result<String, String> {
    let output = std::process::Command::new("rustc")
        .arg("-V")
        .output()
        .map_err(|error| format!("rustc -V: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub(super) fn write(path: &Path, lines: &[Line]) -> Result<(), String> {
    let page = text_of(path)?;
    let (before, _, behind) = parts(&page, path)?;
    let table = table(lines);
    let text = format!(
        "{before}{BEGIN}\nWith {} for {}:\n\n{table}\n{END}{behind}",
        compiler()?,
        std::env::consts::ARCH
    );
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads the instructions of each operation from the page at `path`, in tenths.
pub(super) fn read(path: &Path) -> Result<Vec<(String, u64)>, String> {
    let page = text_of(path)?;
    let (_, table, _) = parts(&page, path)?;
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let (name, count) = (cells.next()?, cells.next()?);
        let (whole, tenth) = count.split_once('.').unwrap_or((count, "0"));
        let whole: u64 = whole.parse().ok()?;
        Some((name.to_owned(), whole * 10 + tenth.parse::<u64>().ok()?))
    });
    Ok(rows.collect())
}

fn text_of(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Splits the page into the text before the table, the table, and the text after it.
fn parts<'a>(page: &'a str, path: &Path) -> Result<(&'a str, &'a str, &'a str), String> {
    page.split_once(BEGIN)
        .and_then(|(before, rest)| {
            let (table, behind) = rest.split_once(END)?;
            Some((before, table, behind))
        })
        .ok_or_else(|| format!("{}: no place for the table of instructions", path.display()))
}
