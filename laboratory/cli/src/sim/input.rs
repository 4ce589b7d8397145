//! The input of simulations: files that describe machines and their workloads.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use tickless_sim::{EMBEDDED, InputError, Profile, Scenario};
use toml::Table;

use super::scenarios::{self, Shipped};
use crate::failure::Failure;

/// A file, standard input, or a scenario that comes with the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Standard,
    Shipped(Shipped),
    File(PathBuf),
}

impl From<std::ffi::OsString> for Input {
    fn from(argument: std::ffi::OsString) -> Self {
        if argument == "-" {
            return Self::Standard;
        }
        let shipped = argument.to_str().and_then(scenarios::find);
        shipped.map_or_else(|| Self::File(argument.into()), Self::Shipped)
    }
}

/// A text, and the name of its source.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// The name of the source, for messages.
    pub(super) name: String,
    pub(super) text: String,
}

/// The size of the largest file that is read, more than any description needs. A longer file is not a description, or
/// is endless.
const LONGEST: u64 = 16 << 20;

impl Input {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Shipped(one) => one.name.to_owned(),
            Self::Standard => "<stdin>".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    pub(super) fn read(&self) -> Result<Text, Failure> {
        self.read_or(|| ("scenario", scenarios::names()))
    }

    /// Reads the input. If the file does not exist, the error lists the names that exist.
    fn read_or(&self, names: impl Fn() -> (&'static str, String)) -> Result<Text, Failure> {
        let name = self.name();
        let bytes = match self {
            Self::Shipped(one) => {
                let text = one.text.to_owned();
                return Ok(Text { name, text });
            }
            Self::Standard => {
                let mut bytes = Vec::new();
                let read = std::io::stdin().lock().take(LONGEST + 1);
                { read }.read_to_end(&mut bytes).map(|_| bytes)
            }
            Self::File(path) => read(path),
        };
        let others = match self {
            // Whatever looks like a name was meant as one.
            Self::File(path) if path.extension().is_none() && !path.exists() => {
                let (what, names) = names();
                format!("; nor is it the name of a {what} that comes with the command: {names}")
            }
            _ => String::new(),
        };
        let wrong = |why: String| Failure::Input(format!("cannot read {name}: {why}{others}"));
        let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
        if bytes.len() as u64 > LONGEST {
            return Err(wrong("it is longer than any scenario, 16 MiB".to_owned()));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            Failure::Input(format!("{name}:{line}: it is not UTF-8; write it as text"))
        })?;
        Ok(Text { name, text })
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Converts an error in a file to the failure for bad input.
pub(super) fn refused(error: InputError) -> Failure {
    Failure::Input(error.to_string())
}

/// A profile that the user chose: one that comes with the command, or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    Embedded(&'static str),
    File(PathBuf),
}

impl From<std::ffi::OsString> for Chosen {
    fn from(argument: std::ffi::OsString) -> Self {
        let embedded = EMBEDDED.iter().find(|(name, _)| argument == *name);
        embedded.map_or_else(
            || Self::File(argument.into()),
            |(name, _)| Self::Embedded(name),
        )
    }
}

impl Chosen {
    pub(super) fn read(&self) -> Result<Profile, Failure> {
        match self {
            Self::Embedded(name) => {
                Ok(Profile::embedded(name).expect("only names of those are chosen"))
            }
            Self::File(path) => profile(path),
        }
    }
}

fn profile(path: &Path) -> Result<Profile, Failure> {
    let Text { name, text } = Input::File(path.to_owned()).read_or(|| ("profile", profiles()))?;
    Profile::from_toml(&text, &name).map_err(refused)
}

/// Reads a scenario; `profile` replaces the profile that the scenario names.
pub(super) fn scenario(input: &Input, profile: Option<&Profile>) -> Result<Scenario, Failure> {
    let Text { name, text } = input.read()?;
    let table: Option<Table> = text.parse().ok();
    let asked = table
        .as_ref()
        .and_then(|table| table.get("profile")?.as_str());
    let Some(profile) = profile else {
        return Scenario::from_toml(&text, &name).map_err(refused);
    };
    // Under the name that the scenario asks for, so that it is found, and everything is checked against its shape.
    let mut given = profile.clone();
    given.name = asked.unwrap_or(&profile.name).to_owned();
    let mut scenario = Scenario::from_toml_with(&text, &name, &[given]).map_err(refused)?;
    scenario.profile.name.clone_from(&profile.name);
    Ok(scenario)
}

/// Returns the names of the profiles that come with the library, for the help.
pub(super) fn profiles() -> String {
    EMBEDDED.map(|(name, _)| name).join(", ")
}
