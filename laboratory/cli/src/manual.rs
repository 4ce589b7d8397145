//! `tickless completions` and `tickless man`: completions for shells and manual pages, made from the options.

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use crate::failure::{CheckVerdict, Failure};
use crate::output::{self, OutFile, Place};

/// Prints the file by which a shell completes the options of this command.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = COMPLETIONS)]
pub(crate) struct Completions {
    /// Shell that it is for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const COMPLETIONS: &str = "\
Examples:
  tickless completions bash > ~/.local/share/bash-completion/completions/tickless
  tickless completions zsh > ~/.zfunc/_tickless
  tickless completions fish > ~/.config/fish/completions/tickless.fish";

pub(crate) fn completions(arguments: &Completions) -> Result<CheckVerdict, Failure> {
    let mut text = Vec::new();
    let mut command = crate::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "tickless", &mut text);
    output::print(&text)?;
    Ok(CheckVerdict::Passed)
}

/// Prints the manual page of this command, or writes those of all commands.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = MAN)]
pub(crate) struct Man {
    /// Existing directory that gets a page for each command, such as tickless-sim-run.1
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

const MAN: &str = "\
Examples:
  tickless man | man -l -
  mkdir -p ~/.local/share/man/man1
  tickless man ~/.local/share/man/man1 && man tickless-sim-run";

pub(crate) fn man(arguments: &Man) -> Result<CheckVerdict, Failure> {
    let mut command = crate::Arguments::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = &arguments.directory else {
        output::print(&page(&command, "tickless")?)?;
        return Ok(CheckVerdict::Passed);
    };
    pages(&command, "tickless", directory)?;
    Ok(CheckVerdict::Passed)
}

/// Writes the page of a command, and the pages of all its subcommands.
fn pages(command: &Command, name: &str, directory: &Path) -> Result<(), Failure> {
    let file = Place::File(directory.join(format!("{name}.1")));
    OutFile::prepare(&file)?.write(&page(command, name)?)?;
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        pages(below, &format!("{name}-{}", below.get_name()), directory)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(name)
        .source(format!("tickless {}", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .map_err(|error| Failure::Machine(format!("cannot make a manual page: {error}")))?;
    Ok(page)
}
