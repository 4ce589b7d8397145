//! The proof that the suite notices broken rules: each rule of the library is broken on purpose, and a test must fail.
//!
//! The sources themselves contain no switches. [Patches](patches) put switches into a copy of the tree, and the switch
//! that the variable `TICKLESS_MUTANT` names is armed. So one build serves all mutants: the test programs are built
//! once, run once unarmed, and then once for each switch, until the first test fails.
//!
//! A mutant that survives means one of two things: the suite has a hole, or the rule is not needed. Both are worth
//! knowing.
//!
//! Before the first mutant a canary runs: a name that no list contains. A suite that passes with this name never
//! reaches a switch, and every surviving mutant after that would prove nothing.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use self::patches::{Copy, Texts};
use self::suite::Suite;
use self::trial::{Outcome, Settings, Trial};
use crate::files;
use crate::kernel::Arch;

mod kernel;
pub(crate) mod patches;
mod suite;
mod switches;
mod trial;

/// A name of no switch. A suite that can arm switches must refuse this name.
const CANARY: &str = "no-such-switch";
/// The time limit of one test. The slowest test takes a fraction of this time; a test that takes longer counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Breaks each rule of the library on purpose and demands that a test fails.
///
/// Copies the tree, puts the switches of the patches in xtask/mutants into the copy, builds its test programs once,
/// runs them once unarmed, then once for each switch with TICKLESS_MUTANT=NAME until the first test fails. A test that
/// takes more than 60 seconds counts as failed, and so does one that ends the process. The suite must refuse a name
/// that it does not know. Exits with 1 if a mutant survives.
///
/// With --kernel the tests of the kernel are the suite: one image, whose parameter names the switch. A run that takes
/// three times as long as that of the unbroken kernel has hung. docs/kernel.md names the mutants that no test there can
/// notice, with the reasons: these alone have to survive.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Tries only these switches; all when none is given.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The number of mutants tried at once; as many as there are processors by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Runs the tests of the kernel on this machine, in place of the suite: instructions are counted, on four CPUs.
    #[arg(long, value_enum, value_name = "MACHINE", num_args = 0..=1, default_missing_value = "aarch64")]
    kernel: Option<Arch>,
    /// Shows the names of the switches, and breaks nothing.
    #[arg(long)]
    list: bool,
    /// Makes the copy in target/mutants/tree and no more; a file whose patch does not apply is copied without its
    /// switches.
    #[arg(long)]
    tree: bool,
    /// Writes the patches again from the changes that were made in the copy.
    #[arg(long)]
    save: bool,
}

#[derive(Debug)]
struct Row {
    name: String,
    outcome: Outcome,
    duration: Duration,
}

pub(crate) fn main(root: &Path, arguments: &Arguments) -> Result<(), String> {
    let mut known = switches::names(root)?;
    // Rules of the kernel alone, which no test of the workspace executes.
    known.retain(|name| arguments.kernel.is_some() || !name.starts_with("kernel-"));
    if arguments.list {
        println!("{}", known.join("\n"));
        return Ok(());
    }
    let texts = texts(root)?;
    let copy = Copy::of(root);
    if arguments.save {
        let saved = copy.save(root, &texts)?;
        println!("{saved} patches in xtask/mutants");
        return Ok(());
    }
    if arguments.tree {
        return make_tree(root, &copy, &texts);
    }
    let names = chosen(&known, &arguments.names)?;
    let jobs = arguments.jobs.map_or_else(processors, usize::from);
    run(root, &names, jobs, arguments.kernel)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the switches that are `wanted`; all switches if none is named.
fn chosen(known: &[String], wanted: &[String]) -> Result<Vec<String>, String> {
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        return Err(format!(
            "there is no switch `{unknown}`; cargo xtask mutants --list shows them"
        ));
    }
    let names = if wanted.is_empty() { known } else { wanted };
    Ok(names.to_vec())
}

fn run(root: &Path, names: &[String], jobs: usize, kernel: Option<Arch>) -> Result<(), String> {
    let texts = texts(root)?;
    let patched = patches::patched(&texts).map_err(|stale| complaint(&stale))?;
    if let Some(name) = without_place(&patched, names).first() {
        return Err(format!("no patch puts mutant!(\"{name}\") anywhere"));
    }
    let copy = Copy::of(root);
    copy.update(root, &texts, &patched)?;
    let suite: Trial<'_> = match kernel {
        Some(arch) => kernel::build(root, &copy.root, arch)?,
        None => {
            let suite = Suite::build(&copy.root)?;
            let patience = PATIENCE;
            Box::new(move |mutant, _| suite.run(&Settings { mutant, patience }))
        }
    };
    println!("   unarmed");
    if let Outcome::Killed(by) = suite(None, 0)? {
        return Err(format!(
            "the suite must pass before anything is broken, and does not: {by}"
        ));
    }
    if suite(Some(CANARY), 0)? == Outcome::Survived {
        return Err(format!(
            "the suite passes with the switch {CANARY}, which does not exist: it comes to none"
        ));
    }
    let rows = try_all(&suite, names, jobs)?;
    println!("\n{}", table(&rows));
    let excused = match kernel {
        Some(arch) => kernel::excused(root, arch)?,
        None => Vec::new(),
    };
    let is_excused = |name: &&str| excused.iter().any(|excused| excused == name);
    if let Some(killed) = of_outcome(&rows, false).find(is_excused) {
        let page = kernel::REASONS;
        return Err(format!("{killed} is killed: no reason is due in {page}"));
    }
    let survivors: Vec<_> = of_outcome(&rows, true)
        .filter(|name| !is_excused(name))
        .collect();
    if survivors.is_empty() {
        Ok(())
    } else {
        let all = rows.len();
        Err(format!(
            "{} of {all} mutants survived: {survivors:?}",
            survivors.len()
        ))
    }
}

fn of_outcome(rows: &[Row], survived: bool) -> impl Iterator<Item = &str> {
    let wanted = move |row: &&Row| (row.outcome == Outcome::Survived) == survived;
    rows.iter().filter(wanted).map(|row| row.name.as_str())
}

/// Makes the copy with all patches that apply, and fails if one does not.
fn make_tree(root: &Path, copy: &Copy, texts: &Texts) -> Result<(), String> {
    let mut applying = texts.clone();
    let mut left_out = Vec::new();
    let patched = loop {
        match patches::patched(&applying) {
            Ok(patched) => break patched,
            Err(stale) => {
                for (name, _) in &stale {
                    applying.remove(name);
                }
                left_out.extend(stale);
            }
        }
    };
    copy.update(root, texts, &patched)?;
    println!("{}", copy.root.display());
    if left_out.is_empty() {
        Ok(())
    } else {
        Err(complaint(&left_out))
    }
}

fn complaint(stale: &[(String, String)]) -> String {
    let mut text = String::from("patches that do not apply, see cargo xtask mutants --help:");
    for (name, reason) in stale {
        text += &format!("\n   {name}: {reason}");
    }
    text
}

/// Returns the switches among `names` that no condition of the patched sources uses.
fn without_place<'n>(patched: &Texts, names: &'n [String]) -> Vec<&'n str> {
    let stands = |name: &str| {
        let place = format!("mutant!(\"{name}\")");
        patched.values().any(|source| source.contains(&place))
    };
    let names = names.iter().map(String::as_str);
    names.filter(|name| !stands(name)).collect()
}

fn texts(root: &Path) -> Result<Texts, String> {
    files::list(root)?
        .into_iter()
        .filter(|path| path.ends_with(".rs") || path.ends_with(".patch"))
        .map(|path| files::read(root, &path).map(|text| (path, text)))
        .collect()
}

/// Tries each mutant, `jobs` at once, and returns the rows in the order of `names`.
fn try_all(suite: &Trial<'_>, names: &[String], jobs: usize) -> Result<Vec<Row>, String> {
    let next = AtomicUsize::new(0);
    let rows: Mutex<Vec<(usize, Result<Row, String>)>> = Mutex::default();
    std::thread::scope(|scope| {
        for lane in 0..jobs.min(names.len()) {
            let (next, rows) = (&next, &rows);
            scope.spawn(move || {
                // Relaxed: the counter gives out numbers and orders nothing else.
                let take = || next.fetch_add(1, Ordering::Relaxed);
                for place in std::iter::repeat_with(take).take_while(|&at| at < names.len()) {
                    let row = try_one(suite, &names[place], lane);
                    rows.lock().expect("no worker panics").push((place, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("no worker panics");
    rows.sort_by_key(|(place, _)| *place);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn try_one(suite: &Trial<'_>, name: &str, lane: usize) -> Result<Row, String> {
    let started = Instant::now();
    let outcome = suite(Some(name), lane)?;
    let row = Row {
        name: name.to_owned(),
        outcome,
        duration: started.elapsed(),
    };
    println!("   {}", line(&row));
    Ok(row)
}

fn line(row: &Row) -> String {
    let result = match &row.outcome {
        Outcome::Killed(by) => by.as_str(),
        Outcome::Survived => "SURVIVED",
    };
    format!(
        "{:<36} {:>7.1}  {result}",
        row.name,
        row.duration.as_secs_f64()
    )
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<36} {:>7}  killed by\n", "mutant", "seconds");
    for row in rows {
        text += &line(row);
        text += "\n";
    }
    let survived = of_outcome(rows, true).count();
    text + &format!("{} killed, {survived} survived", rows.len() - survived)
}

#[cfg(test)]
mod tests {
    use super::{CANARY, without_place};
    use std::path::Path;

    #[test]
    fn each_switch_of_the_list_has_a_place_and_each_place_is_in_the_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let patched = super::patches::patched(&super::texts(root).unwrap()).unwrap();
        let known = super::switches::names(root).unwrap();
        assert_eq!(without_place(&patched, &known), [""; 0]);
        for (path, text) in &patched {
            for after in text.split("mutant!(\"").skip(1) {
                let name = after.split('"').next().unwrap();
                assert!(known.iter().any(|listed| listed == name), "{path}: {name}");
            }
        }
        assert!(!known.iter().any(|name| name == CANARY));
    }

    #[test]
    fn no_source_has_a_switch() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (path, text) in super::texts(root).unwrap() {
            let is_ours = path.starts_with("xtask/");
            assert!(is_ours || !text.contains("mutant!("), "{path} has a switch");
        }
    }
}
