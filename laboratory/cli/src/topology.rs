//! `tickless topology`: the machine as the library sees it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use tickless::topology::{CPUS_MAX, Cache, CacheKind, Cpu, CpuSet, Topology};

use self::hierarchy::{Drawing, Machine};
use crate::failure::{CheckVerdict, Failure};
use crate::output::{self, Screen};
use crate::table::{self, Align};
use crate::units;

mod hierarchy;

/// The largest number of CPUs for which Linux can be built. A larger machine would make no sense, and would take long.
const INVENTED_CPUS_MAX: u32 = 8_192;
const _: () = assert!(INVENTED_CPUS_MAX <= CPUS_MAX);

/// CPUs, cores, caches and nodes, which CPUs are isolated, and the hierarchy that the library would build.
///
/// It reads the files of the kernel in /sys/devices/system. A value that the kernel does not provide is shown as a
/// dash.
///
/// In the hierarchy, awake CPUs run the global timers of idle ones: first those of their own group, and last those of
/// other nodes. Isolated CPUs keep a place in the hierarchy, but take no part in it.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Read copies of another machine's files: DIR/sys/devices/system/cpu and so on
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Draw the hierarchy of a machine with N CPUs, which need not exist
    #[arg(long, value_name = "N", conflicts_with = "root", allow_negative_numbers = true, value_parser = number)]
    cpus: Option<u32>,

    /// Spread the CPUs of --cpus evenly over M nodes [default: 1]
    #[arg(long, value_name = "M", requires = "cpus", allow_negative_numbers = true, value_parser = number)]
    nodes: Option<u32>,

    /// Isolate these CPUs of --cpus, such as 2-3,6
    #[arg(long, value_name = "LIST", requires = "cpus")]
    isolated: Option<String>,

    #[command(flatten)]
    output: output::Options,
}

const EXAMPLES: &str = "\
Examples:
  tickless topology
  tickless topology --json - | jq -r .isolated
  tickless topology --root ./machine
      Another machine, whose files were copied with
      tar -C / -cf - sys/devices/system/{cpu,node} | tar -C ./machine -xf -
  tickless topology --cpus 128 --nodes 2 --isolated 64-127
      Only the hierarchy, of a machine that is invented

Exit codes: 0 done, 2 bad arguments or files that cannot be understood, 3 this machine does not tell.";

pub(crate) fn run(arguments: &Arguments) -> Result<CheckVerdict, Failure> {
    let (text, document) = match arguments.cpus {
        Some(cpus) => {
            let drawing = Drawing::of(&invented(arguments, cpus)?)?;
            (drawing.text(), json!({"hierarchy": drawing.document()}))
        }
        None => {
            let machine = match &arguments.root {
                Some(root) => read(root)?,
                None => Topology::read().map_err(|error| Failure::Machine(error.to_string()))?,
            };
            let drawing = Drawing::of(&Machine::of(&machine))?;
            let mut document = document(&machine);
            document["hierarchy"] = drawing.document();
            (text(&machine) + "\n" + &drawing.text(), document)
        }
    };
    let json = output::prepare_json(&arguments.output)?;
    if let Some(json) = json {
        json.write_json(&document)?;
    }
    Screen::new(&arguments.output).print(&text)?;
    Ok(CheckVerdict::Passed)
}

/// Parses a number of CPUs or nodes.
fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|number| (1..=INVENTED_CPUS_MAX).contains(number))
        .ok_or_else(|| format!("write a number from 1 to {INVENTED_CPUS_MAX}"))
}

/// Returns the machine that `--cpus`, `--nodes` and `--isolated` describe.
fn invented(arguments: &Arguments, cpus: u32) -> Result<Machine, Failure> {
    let nodes = arguments.nodes.unwrap_or(1);
    if nodes > cpus {
        return Err(Failure::Input(format!(
            "--nodes {nodes} is too many for --cpus {cpus}: each node needs a CPU, so write --nodes {cpus} or less"
        )));
    }
    let all: CpuSet = (0..cpus).collect();
    let isolated = match &arguments.isolated {
        Some(list) => CpuSet::parse_within(list, &all)
            .map_err(|error| Failure::Input(format!("--isolated: {error}")))?,
        None => CpuSet::new(),
    };
    Ok(Machine::invented(cpus, nodes, isolated))
}

fn read(root: &Path) -> Result<Topology, Failure> {
    Topology::read_from(root).map_err(|error| {
        let root = root.display();
        Failure::Input(format!(
            "{error}; --root {root} has to contain copies of a machine's files, such as \
             sys/devices/system/cpu/online"
        ))
    })
}

/// Returns the name of a cache: `L1d`, `L1i`, `L3`.
fn cache_name(cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        _ => "",
    };
    format!("L{}{kind}", cache.level)
}

/// Formats kibibytes in the largest unit that leaves a whole number.
fn kib(kib: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = kib;
    let mut unit = 0;
    while size >= 1024 && size.is_multiple_of(1024) && unit + 1 < UNITS.len() {
        size /= 1024;
        unit += 1;
    }
    format!("{} {}", units::count(size), UNITS[unit])
}

/// Formats a size of memory to a tenth of a gibibyte, because sizes of memory are never round numbers.
fn memory(kib: u64) -> String {
    format!("{:.1} GiB", kib as f64 / (1024.0 * 1024.0))
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn list_or_none(set: &CpuSet) -> String {
    if set.is_empty() {
        "none".to_owned()
    } else {
        set.to_string()
    }
}

fn text(machine: &Topology) -> String {
    let mut out = String::new();
    let facts = [
        ("online", list_or_none(machine.online())),
        ("present", list_or_none(machine.present())),
        ("possible", list_or_none(machine.possible())),
        ("for this process", or_dash(machine.allowed())),
        ("isolated", list_or_none(machine.isolated())),
        ("nohz_full", list_or_none(machine.nohz_full())),
    ];
    // Writing to a string cannot fail.
    let _infallible = writeln!(
        out,
        "{}, {}, {}, {}\n",
        units::counted(machine.cpus().len() as u64, "CPU"),
        units::counted(machine.cores().len() as u64, "core"),
        units::counted(machine.packages().len() as u64, "package"),
        units::counted(machine.nodes().len().max(1) as u64, "node"),
    );
    for (name, value) in facts {
        let _infallible = writeln!(out, "{name:18}{value}");
    }
    for kind in machine.kinds() {
        let _infallible = writeln!(out, "{:18}{}", format!("kind {}", kind.name), kind.cpus);
    }
    out.push('\n');
    if !machine.nodes().is_empty() {
        out.push_str(&table(
            &["node", "memory", "distances", "CPUs"],
            machine.nodes().iter().map(|node| {
                let distances: Vec<_> = node.distances.iter().map(ToString::to_string).collect();
                let distances = Some(distances.join(" ")).filter(|text| !text.is_empty());
                vec![
                    node.number.to_string(),
                    or_dash(node.memory_kib.map(memory)),
                    or_dash(distances),
                    list_or_none(&node.cpus),
                ]
            }),
        ));
        out.push('\n');
    }
    if !machine.caches().is_empty() {
        out.push_str(&table(
            &["cache", "size", "CPUs"],
            machine.caches().iter().map(|cache| {
                let size = or_dash(cache.size_kib.map(kib));
                vec![cache_name(cache), size, cache.cpus.to_string()]
            }),
        ));
        out.push('\n');
    }
    out.push_str(&table(
        &[
            "CPU",
            "package",
            "die",
            "core",
            "node",
            "capacity",
            "shares its core with",
            "",
        ],
        machine.cpus().iter().map(|cpu| row(machine, cpu)),
    ));
    out
}

fn row(machine: &Topology, cpu: &Cpu) -> Vec<String> {
    let marks: Vec<&str> = [
        (machine.isolated(), "isolated"),
        (machine.nohz_full(), "nohz_full"),
    ]
    .into_iter()
    .filter(|(set, _)| set.contains(cpu.number))
    .map(|(_, mark)| mark)
    .collect();
    let others = cpu.siblings.iter().filter(|&sibling| sibling != cpu.number);
    let others: CpuSet = others.collect();
    vec![
        cpu.number.to_string(),
        or_dash(cpu.package),
        or_dash(cpu.die),
        or_dash(cpu.core),
        or_dash(cpu.node),
        or_dash(cpu.capacity),
        list_or_none(&others),
        marks.join(", "),
    ]
}

/// Formats a table in which all columns are names.
fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    table::table(heads, &vec![Align::Left; heads.len()], rows.collect())
}

/// Returns the topology as JSON, with sets of CPUs as the kernel writes them.
fn document(machine: &Topology) -> Value {
    let cpus = machine.cpus().iter().map(|cpu| {
        json!({
            "cpu": cpu.number,
            "package": cpu.package,
            "die": cpu.die,
            "core": cpu.core,
            "node": cpu.node,
            "siblings": cpu.siblings.to_string(),
            "capacity": cpu.capacity,
            "isolated": machine.isolated().contains(cpu.number),
            "nohz_full": machine.nohz_full().contains(cpu.number),
        })
    });
    let nodes = machine.nodes().iter().map(|node| {
        json!({
            "node": node.number,
            "cpus": node.cpus.to_string(),
            "memory_kib": node.memory_kib,
            "distances": node.distances,
        })
    });
    let caches = machine.caches().iter().map(|cache| {
        json!({
            "name": cache_name(cache),
            "level": cache.level,
            "size_kib": cache.size_kib,
            "cpus": cache.cpus.to_string(),
        })
    });
    let kinds = machine.kinds().iter();
    let kinds = kinds.map(|kind| json!({"name": kind.name, "cpus": kind.cpus.to_string()}));
    json!({
        "online": machine.online().to_string(),
        "present": machine.present().to_string(),
        "possible": machine.possible().to_string(),
        "allowed": machine.allowed().map(ToString::to_string),
        "isolated": machine.isolated().to_string(),
        "nohz_full": machine.nohz_full().to_string(),
        "cores": machine.cores().len(),
        "packages": machine.packages().len(),
        "nodes": nodes.collect::<Vec<_>>(),
        "caches": caches.collect::<Vec<_>>(),
        "kinds": kinds.collect::<Vec<_>>(),
        "cpus": cpus.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::{kib, memory, table};

    #[test]
    fn sizes_are_whole_numbers_of_large_units() {
        assert_eq!(kib(32), "32 KiB");
        assert_eq!(kib(1_280), "1,280 KiB");
        assert_eq!(kib(32_768), "32 MiB");
        assert_eq!(kib(1 << 20), "1 GiB");
        assert_eq!(memory(16_252_928), "15.5 GiB");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [["10", "a"], ["9", ""]].map(|row| row.map(str::to_owned).to_vec());
        let table = table(&["CPU", "mark"], rows.into_iter());
        assert_eq!(table, "CPU  mark\n10   a\n9\n");
    }
}
