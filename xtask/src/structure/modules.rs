//! The modules of a crate: the file of each, and its definitions, imports and names.
//!
//! The modules are read from the parsed files and not from the compiler. So a file that does not compile elsewhere is
//! still understood, and nothing has to be built. Code that only tests and models see (`cfg(test)`, `cfg(loom)`,
//! `cfg(shuttle)`) is left out.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, Token, UseTree, Visibility};

#[derive(Debug, Default)]
pub(super) struct Modules {
    modules: Vec<Module>,
    /// The files, in the order in which they were found; modules name a file by its index here.
    files: Vec<String>,
}

/// One module, in a file of its own or inside another module.
#[derive(Debug, Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The items that the module defines, with the file of each definition.
    items: BTreeMap<String, usize>,
    imports: Vec<Import>,
    /// The paths in the module's code, as their segments.
    paths: BTreeSet<Vec<String>>,
}

/// One name that a `use` imports, or all names of a module (`*`).
#[derive(Debug)]
struct Import {
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Module(usize),
    /// An item that is defined in this file.
    Item(usize),
}

/// The largest number of re-exports that a path may go through: a circle of re-exports ends here.
const LONGEST_CHAIN: usize = 16;

impl Modules {
    /// Reads the crate whose root is the file `root`; `text_of` returns the text of a file, if the file exists.
    pub(super) fn read<'t>(
        root: &str,
        text_of: &dyn Fn(&str) -> Option<&'t str>,
    ) -> Result<Self, String> {
        let mut modules = Self::default();
        modules.read_file(root, None, text_of)?;
        Ok(modules)
    }

    pub(super) fn files(&self) -> &[String] {
        &self.files
    }

    /// Returns the file of the module that contains the module of `file`.
    pub(super) fn parent_of(&self, file: usize) -> Option<usize> {
        let module = self.modules.iter().find(|module| module.file == file)?;
        let parent = module.parent?;
        Some(self.modules[parent].file)
    }

    /// Returns every pair of files of which the first names an item that the second defines.
    pub(super) fn arrows(&self) -> BTreeSet<(usize, usize)> {
        let mut arrows = BTreeSet::new();
        for (index, module) in self.modules.iter().enumerate() {
            let names: BTreeSet<&str> = module.paths.iter().map(|path| &*path[0]).collect();
            let imported = module
                .imports
                .iter()
                // What is only passed on is not needed here.
                .filter(|import| !import.is_public || names.contains(&*import.name))
                .map(|import| (&import.path, import.name == "*"));
            let named = module.paths.iter().map(|path| (path, false));
            for (path, is_glob) in imported.chain(named) {
                let file = match self.resolve(index, path, LONGEST_CHAIN) {
                    Some(Target::Item(file)) => file,
                    Some(Target::Module(found)) if is_glob => self.modules[found].file,
                    // The paths through it say what is wanted of it.
                    Some(Target::Module(_)) | None => continue,
                };
                if file != module.file {
                    arrows.insert((module.file, file));
                }
            }
        }
        arrows
    }

    fn read_file<'t>(
        &mut self,
        path: &str,
        parent: Option<usize>,
        text_of: &dyn Fn(&str) -> Option<&'t str>,
    ) -> Result<usize, String> {
        let text = text_of(path).ok_or_else(|| format!("there is no {path}"))?;
        let parsed = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
        let file = self.files.len();
        self.files.push(path.into());
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = match name {
            "lib.rs" | "main.rs" | "mod.rs" => directory.to_owned(),
            name => format!("{directory}/{}", name.trim_end_matches(".rs")),
        };
        self.read_items(&parsed.items, file, parent, &directory, text_of)
    }

    fn read_items<'t>(
        &mut self,
        items: &[Item],
        file: usize,
        parent: Option<usize>,
        directory: &str,
        text_of: &dyn Fn(&str) -> Option<&'t str>,
    ) -> Result<usize, String> {
        let index = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            ..Module::default()
        });
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            for name in defined(item) {
                let is_everywhere = matches!(item, Item::Macro(_)) && has(item, "macro_export");
                let place = if is_everywhere { 0 } else { index };
                self.modules[place].items.insert(name, file);
            }
            match item {
                // A file of another crate.
                Item::Mod(module)
                    if module.attrs.iter().any(|each| each.path().is_ident("path")) => {}
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let inside = format!("{directory}/{name}");
                    let child = if let Some((_, items)) = &module.content {
                        self.read_items(items, file, Some(index), &inside, text_of)?
                    } else {
                        let flat = format!("{inside}.rs");
                        let path = if text_of(&flat).is_some() {
                            flat
                        } else {
                            format!("{inside}/mod.rs")
                        };
                        self.read_file(&path, Some(index), text_of)?
                    };
                    self.modules[index].children.insert(name, child);
                }
                Item::Use(import) => {
                    let is_public = !matches!(import.vis, Visibility::Inherited);
                    let imports = &mut self.modules[index].imports;
                    spread(&import.tree, &mut Vec::new(), is_public, imports);
                }
                _ => Collector {
                    paths: &mut self.modules[index].paths,
                }
                .visit_item(item),
            }
        }
        Ok(index)
    }

    /// Resolves `path` in the module `from`; `None` if it leads out of the crate.
    fn resolve(&self, from: usize, path: &[String], chain: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" | "$crate" => Target::Module(0),
            "self" => Target::Module(from),
            "super" => Target::Module(self.modules[from].parent?),
            name => self.lookup(from, name, chain)?,
        };
        let mut target = start;
        for segment in rest {
            let Target::Module(module) = target else {
                // What follows an item (a variant, a constant of a type) is in its file.
                return Some(target);
            };
            target = match segment.as_str() {
                "super" => Target::Module(self.modules[module].parent?),
                "self" => target,
                name => self.lookup(module, name, chain)?,
            };
        }
        Some(target)
    }

    /// Resolves `name` in `module`, by definition or by import.
    fn lookup(&self, module: usize, name: &str, chain: usize) -> Option<Target> {
        let place = &self.modules[module];
        if let Some(&child) = place.children.get(name) {
            return Some(Target::Module(child));
        }
        if let Some(&file) = place.items.get(name) {
            return Some(Target::Item(file));
        }
        let chain = chain.checked_sub(1)?;
        let by_name = place.imports.iter().find(|import| import.name == name);
        if let Some(import) = by_name {
            // `use a::b as a` in `a` names what is outside of it.
            let is_own = import.path.len() == 1 && import.path[0] == name;
            return (!is_own).then(|| self.resolve(module, &import.path, chain))?;
        }
        let globs = place.imports.iter().filter(|import| import.name == "*");
        for glob in globs {
            if let Some(Target::Module(inside)) = self.resolve(module, &glob.path, chain)
                && let Some(found) = self.lookup(inside, name, chain)
            {
                return Some(found);
            }
        }
        None
    }
}

/// Splits a tree of imports into single imports.
fn spread(tree: &UseTree, path: &mut Vec<String>, is_public: bool, into: &mut Vec<Import>) {
    let mut take = |path: &[String], name: String| {
        into.push(Import {
            name,
            path: path.to_vec(),
            is_public,
        });
    };
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            spread(&step.tree, path, is_public, into);
            path.pop();
        }
        UseTree::Name(last) if last.ident == "self" => {
            let name = path.last().cloned().unwrap_or_default();
            take(path, name);
        }
        UseTree::Name(last) => {
            path.push(last.ident.to_string());
            take(path, last.ident.to_string());
            path.pop();
        }
        UseTree::Rename(last) => {
            path.push(last.ident.to_string());
            take(path, last.rename.to_string());
            path.pop();
        }
        UseTree::Glob(_) => take(path, "*".into()),
        UseTree::Group(group) => {
            for tree in &group.items {
                spread(tree, path, is_public, into);
            }
        }
    }
}

/// Collects the paths in a piece of code.
struct Collector<'p> {
    paths: &'p mut BTreeSet<Vec<String>>,
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let segments = path.segments.iter();
            self.paths
                .insert(segments.map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    /// Searches a macro's arguments, which are not parsed, for paths.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.paths.extend(paths_in(&call.tokens.to_string()));
    }

    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        if let Item::Use(import) = item {
            let mut imports = Vec::new();
            spread(&import.tree, &mut Vec::new(), false, &mut imports);
            self.paths
                .extend(imports.into_iter().map(|import| import.path));
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_trait_item_fn(self, function);
        }
    }
}

/// Returns the paths in tokens that were not parsed, written with spaces between them.
fn paths_in(tokens: &str) -> Vec<Vec<String>> {
    let is_name =
        |word: &str| word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_');
    let spaced = tokens.replace("::", " :: ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let mut path = Vec::new();
        let mut next = at;
        while next < words.len() && is_name(words[next]) {
            path.push(words[next].to_owned());
            if words.get(next + 1) != Some(&"::") {
                break;
            }
            next += 2;
        }
        at = next + 1;
        if !path.is_empty() {
            found.push(path);
        }
    }
    found
}

/// Returns the names under which other modules can import what `item` defines. What stands in the braces of a macro is
/// read as its tokens: `pin_project! { pub struct Sleep { .. } }` defines `Sleep`.
fn defined(item: &Item) -> Vec<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => match &item.ident {
            Some(ident) => ident,
            None => return defined_in(&item.mac.tokens.to_string()),
        },
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return Vec::new(),
    };
    vec![name.to_string()]
}

/// Returns the names of the items among tokens, written with spaces between them, and of the projections that
/// `pin_project!` makes.
fn defined_in(tokens: &str) -> Vec<String> {
    const KEYWORDS: [&str; 8] = [
        "const", "enum", "fn", "static", "struct", "trait", "type", "union",
    ];
    let spaced = tokens
        .replace(['{', '(', '['], " { ")
        .replace(['}', ')', ']'], " } ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (mut found, mut depth) = (Vec::new(), 0_usize);
    for (index, word) in words.iter().enumerate() {
        let before = |back: usize| index.checked_sub(back).map_or("", |at| words[at]);
        match *word {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            name => {
                let is_item = depth == 0 && KEYWORDS.contains(&before(1));
                let is_projection =
                    depth == 1 && before(1) == "=" && before(2).starts_with("project");
                if is_item || is_projection {
                    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                    found.push(name[..end.unwrap_or(name.len())].to_owned());
                }
            }
        }
    }
    found
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn has(item: &Item, name: &str) -> bool {
    attributes(item)
        .iter()
        .any(|attribute| attribute.path().is_ident(name))
}

/// Returns true if an item with these attributes is in no user's build.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<Meta>()
                .is_ok_and(|condition| holds_for_users(&condition) == Some(false))
    })
}

/// Returns true if a condition holds in a user's build; `None` if this depends on the build.
fn holds_for_users(condition: &Meta) -> Option<bool> {
    let parts = |list: &syn::MetaList| {
        list.parse_args_with(syn::punctuated::Punctuated::<Meta, Token![,]>::parse_terminated)
            .map(|parts| parts.iter().map(holds_for_users).collect::<Vec<_>>())
            .unwrap_or_default()
    };
    match condition {
        Meta::Path(path) => ["test", "loom", "shuttle", "miri"]
            .iter()
            .any(|name| path.is_ident(name))
            .then_some(false),
        Meta::List(list) if list.path.is_ident("not") => {
            parts(list).first().copied().flatten().map(|holds| !holds)
        }
        Meta::List(list) if list.path.is_ident("all") => {
            let parts = parts(list);
            let all = parts.iter().all(|part| *part == Some(true));
            (all || parts.contains(&Some(false))).then_some(all)
        }
        Meta::List(list) if list.path.is_ident("any") => {
            let parts = parts(list);
            let none = parts.iter().all(|part| *part == Some(false));
            (none || parts.contains(&Some(true))).then_some(!none)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Modules, paths_in};

    fn arrows(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let text_of = |path: &str| {
            files
                .iter()
                .find(|(known, _)| *known == path)
                .map(|(_, text)| *text)
        };
        let modules = Modules::read("src/lib.rs", &text_of).unwrap();
        let name = |file: usize| modules.files()[file].replace("src/", "");
        modules
            .arrows()
            .into_iter()
            .map(|(from, to)| (name(from), name(to)))
            .collect()
    }

    fn pair(from: &str, to: &str) -> (String, String) {
        (from.into(), to.into())
    }

    #[test]
    fn an_import_leads_to_the_file_of_the_definition() {
        let found = arrows(&[
            ("src/lib.rs", "mod a; mod b; pub use a::A;"),
            ("src/a/mod.rs", "mod deep; pub(crate) use deep::A;"),
            ("src/a/deep.rs", "pub struct A;"),
            (
                "src/b.rs",
                "use crate::A; use crate::a::{self, A as Other}; fn f(_: A) {}",
            ),
        ]);
        assert_eq!(found, [pair("b.rs", "a/deep.rs")]);
    }

    #[test]
    fn paths_in_code_and_in_macros_count_as_imports_do() {
        let found = arrows(&[
            ("src/lib.rs", "mod a; mod b; mod c; fn f() { a::f(); }"),
            ("src/a.rs", "pub fn f() { println!(\"{}\", crate::b::N); }"),
            ("src/b.rs", "pub const N: u8 = super::c::M;"),
            ("src/c.rs", "pub const M: u8 = 1;"),
        ]);
        assert_eq!(
            found,
            [
                pair("lib.rs", "a.rs"),
                pair("a.rs", "b.rs"),
                pair("b.rs", "c.rs")
            ]
        );
    }

    #[test]
    fn what_only_tests_and_models_see_is_left_out() {
        let found = arrows(&[
            ("src/lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
            (
                "src/a.rs",
                "#[cfg(any(test, loom))] use crate::b::B; #[cfg(all(test, x))] fn f() { crate::b::g() }\
                 #[cfg(not(loom))] use crate::b::C; #[cfg(test)] mod tests { use crate::b::B; }",
            ),
            (
                "src/b.rs",
                "pub struct B; pub struct C; #[cfg(loom)] mod model;",
            ),
        ]);
        assert_eq!(found, [pair("a.rs", "b.rs")]);
    }

    #[test]
    fn what_is_only_passed_on_is_no_arrow_and_what_is_used_besides_is() {
        let a = ("src/a.rs", "pub struct A;");
        let passed_on = arrows(&[("src/lib.rs", "mod a; pub use a::A;"), a]);
        assert_eq!(passed_on, []);
        let used = arrows(&[("src/lib.rs", "mod a; pub use a::A; fn f() -> A { A }"), a]);
        assert_eq!(used, [pair("lib.rs", "a.rs")]);
    }

    #[test]
    fn a_macro_that_is_exported_stands_in_the_root() {
        let found = arrows(&[
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", "#[macro_export] macro_rules! m { () => {} }"),
            ("src/b.rs", "fn f() { crate::m!(); }"),
        ]);
        assert_eq!(found, [pair("b.rs", "a.rs")]);
    }

    #[test]
    fn what_stands_in_a_macro_is_seen() {
        let tokens =
            "# [project = P] pub struct S < T > { a : u8 , struct_b : c } fn f () { fn g () {} }";
        assert_eq!(super::defined_in(tokens), ["P", "S", "f"]);
        let path = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            paths_in("x , crate :: a::B , 1"),
            [path(&["x"]), path(&["crate", "a", "B"])]
        );
    }
}
