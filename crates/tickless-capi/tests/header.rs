//! The comparison of the headers of the C interface with the crate that implements them.
//!
//! The headers are written by hand, because authors of C programs read their comments. No compiler sees whether both
//! sides agree, so this test compares them: each exported function has its prototype, word by word; each structure has
//! its fields, and each constant its value; and a header has no other prototypes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use syn::{Expr, Fields, FnArg, Item, Pat, ReturnType, Type};

/// Each header, and the directory whose files export the items that the header declares.
const HEADERS: [(&str, &str); 2] = [
    (
        "crates/tickless-capi/include/tickless.h",
        "crates/tickless-capi/src",
    ),
    (
        "crates/tickless-capi/include/tickless-posix.h",
        "crates/tickless-capi/src/posix",
    ),
];

fn faults(root: &Path, header: &str, sources: &str) -> Result<Vec<String>, String> {
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let header = read(&root.join(header))?;
    let directory = root.join(sources);
    let entries =
        fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut exports = Exports::default();
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            exports.add(&read(&path)?)?;
        }
    }
    Ok(compare(&header, &exports))
}

/// The items that a crate exports, written in C.
#[derive(Debug, Default)]
struct Exports {
    prototypes: BTreeSet<String>,
    /// The lines of other kinds that the header must contain.
    lines: BTreeSet<String>,
}

impl Exports {
    fn add(&mut self, source: &str) -> Result<(), String> {
        let file = syn::parse_file(source).map_err(|error| error.to_string())?;
        for item in file.items {
            match item {
                Item::Fn(function)
                    if function.sig.abi.is_some()
                        && matches!(function.vis, syn::Visibility::Public(_)) =>
                {
                    self.prototypes.insert(prototype(&function.sig)?);
                }
                Item::Const(constant) if constant.ident.to_string().starts_with("TICKLESS_") => {
                    if let Expr::Lit(value) = &*constant.expr
                        && let syn::Lit::Int(value) = &value.lit
                    {
                        self.lines
                            .insert(format!("#define {} {value}", constant.ident));
                    }
                }
                Item::Struct(structure) if matches!(structure.vis, syn::Visibility::Public(_)) => {
                    self.add_fields(&structure.fields)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add_fields(&mut self, fields: &Fields) -> Result<(), String> {
        for field in fields {
            let name = field.ident.as_ref().map(ToString::to_string);
            let name = name.ok_or("a field without a name")?;
            if let Type::Array(array) = &field.ty {
                // What C never looks into has a field of no length.
                if let Expr::Path(length) = &array.len {
                    let length = length.path.get_ident().ok_or("a long path")?;
                    let declared = declared(&array.elem, &format!("{name}[{length}]"))?;
                    self.lines.insert(format!("{declared};"));
                }
            } else {
                self.lines
                    .insert(format!("{};", declared(&field.ty, &name)?));
            }
        }
        Ok(())
    }
}

fn prototype(signature: &syn::Signature) -> Result<String, String> {
    let mut parameters = Vec::new();
    for input in &signature.inputs {
        let FnArg::Typed(input) = input else {
            return Err("a method is exported".into());
        };
        let Pat::Ident(name) = &*input.pat else {
            return Err("a parameter without a name".into());
        };
        let name = name.ident.to_string();
        parameters.push(declared(&input.ty, name.trim_start_matches("r#"))?);
    }
    if parameters.is_empty() {
        parameters.push("void".into());
    }
    let ReturnType::Type(_, result) = &signature.output else {
        return Err(format!("{} returns nothing", signature.ident));
    };
    let function = format!("{}({});", signature.ident, parameters.join(", "));
    declared(result, &function)
}

/// Returns the declaration in C of `name` with the type `of`.
fn declared(of: &Type, name: &str) -> Result<String, String> {
    match of {
        Type::Ptr(pointer) => {
            let qualifier = if matches!(pointer.mutability, syn::PointerMutability::Const(_)) {
                "const "
            } else {
                ""
            };
            let pointed_to = declared(&pointer.elem, &format!("*{name}"))?;
            Ok(format!("{qualifier}{pointed_to}"))
        }
        Type::Path(path) => {
            let last = path.path.segments.last().ok_or("a type without a name")?;
            let of = match last.ident.to_string().as_str() {
                "c_int" => "int",
                "c_void" => "void",
                "u32" => "uint32_t",
                "u64" => "uint64_t",
                "usize" => "size_t",
                "Timer" => "struct tickless_timer",
                "TimerConfig" => "struct tickless_timer_config",
                "TimerCallback" => "tickless_timer_callback",
                "Timeout" => "struct tickless_timeout",
                "TimeoutCallback" => "tickless_timeout_callback",
                "Loop" => "struct tickless_loop",
                "Worker" => "struct tickless_worker",
                "TimerId" => "tickless_timer_id",
                "clockid_t" => "clockid_t",
                "sigevent" => "struct sigevent",
                "itimerspec" => "struct itimerspec",
                "timespec" => "struct timespec",
                other => return Err(format!("{other} has no name in C")),
            };
            Ok(format!("{of} {name}"))
        }
        _ => Err(format!("the type of {name} has no form in C")),
    }
}

fn compare(header: &str, exports: &Exports) -> Vec<String> {
    let lines: BTreeSet<String> = without_comments(header)
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let is_prototype = |line: &&String| {
        line.contains("tickless_") && line.ends_with(");") && !line.starts_with("typedef")
    };
    let missing = exports.prototypes.union(&exports.lines);
    let missing = missing
        .filter(|line| !lines.contains(*line))
        .map(|line| format!("lacks `{line}`"));
    let unknown = lines
        .iter()
        .filter(is_prototype)
        .filter(|line| !exports.prototypes.contains(*line))
        .map(|line| format!("has `{line}`, which the crate does not export"));
    missing.chain(unknown).collect()
}

fn without_comments(header: &str) -> String {
    let mut left = header;
    let mut kept = String::new();
    while let Some((before, rest)) = left.split_once("/*") {
        kept.push_str(before);
        left = rest.split_once("*/").map_or("", |(_, behind)| behind);
    }
    kept.push_str(left);
    kept
}

const SOURCE: &str = "
    pub const TICKLESS_X: u32 = 3;
    #[unsafe(no_mangle)]
    pub unsafe extern \"C\" fn tickless_loop_new(made: *mut *mut Loop) -> c_int { 0 }
    #[unsafe(no_mangle)]
    pub extern \"C\" fn tickless_abi_version() -> u32 { 0 }
    fn inner() {}
    extern \"C\" fn handler() {}
";

fn compared(header: &str) -> Vec<String> {
    let mut exports = Exports::default();
    exports.add(SOURCE).unwrap();
    compare(header, &exports)
}

#[test]
fn a_header_that_agrees_has_no_faults() {
    let header = "/* int tickless_old(void); */\n#define TICKLESS_X 3\n\
        int tickless_loop_new(struct tickless_loop **made);\nuint32_t tickless_abi_version(void);\n";
    assert_eq!(compared(header), [""; 0]);
}

#[test]
fn what_differs_is_named() {
    let header = "#define TICKLESS_X 4\nint tickless_loop_new(struct tickless_loop *made);\n";
    assert_eq!(
        compared(header),
        [
            "lacks `#define TICKLESS_X 3`",
            "lacks `int tickless_loop_new(struct tickless_loop **made);`",
            "lacks `uint32_t tickless_abi_version(void);`",
            "has `int tickless_loop_new(struct tickless_loop *made);`, which the crate does not export",
        ]
    );
}

#[test]
fn the_headers_of_this_tree_declare_what_their_crate_exports() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (header, sources) in HEADERS {
        assert_eq!(faults(&root, header, sources).unwrap(), [""; 0]);
    }
}
