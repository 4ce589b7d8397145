//! The parser for the arguments of an attribute.

use std::ops::Range;

use proc_macro2::TokenStream;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{LitBool, LitInt, Result};

/// The arguments of an attribute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) is_paused: bool,
    pub(crate) workers: Option<usize>,
    /// The seeds of the schedules under which the test runs, one schedule for each seed.
    pub(crate) seeds: Option<Range<u64>>,
}

impl Arguments {
    /// Parses the arguments. Returns an error that describes the first mistake.
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut arguments = Self::default();
        let mut seen = Vec::new();
        syn::meta::parser(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string);
            let name = name.unwrap_or_default();
            if seen.contains(&name) {
                return Err(meta.error(format!("`{name}` is given twice")));
            }
            arguments.take(&name, &meta)?;
            seen.push(name);
            Ok(())
        })
        .parse2(tokens.clone())?;
        if arguments.seeds.is_some() {
            if seen.iter().any(|name| name == "seeds") && seen.iter().any(|name| name == "seed") {
                return Err(syn::Error::new_spanned(tokens, "either `seeds` or `seed`"));
            }
            if seen.iter().any(|name| name == "start_paused") && !arguments.is_paused {
                return Err(syn::Error::new_spanned(
                    tokens,
                    "under seeds the clock stands still at first: leave `start_paused` out",
                ));
            }
            arguments.is_paused = true;
        }
        if arguments.is_paused && arguments.workers.is_some_and(|workers| workers != 1) {
            return Err(syn::Error::new_spanned(
                tokens,
                "a clock that stands still needs one worker: leave `workers` out",
            ));
        }
        Ok(arguments)
    }

    fn take(&mut self, name: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match name {
            "start_paused" => self.is_paused = meta.value()?.parse::<LitBool>()?.value,
            "workers" => {
                let literal: LitInt = meta.value()?.parse()?;
                let workers = literal.base10_parse()?;
                if workers == 0 {
                    return Err(syn::Error::new(literal.span(), "one worker at least"));
                }
                self.workers = Some(workers);
            }
            "seeds" => {
                let literal: LitInt = meta.value()?.parse()?;
                let count = literal.base10_parse()?;
                if count == 0 {
                    return Err(syn::Error::new(literal.span(), "one seed at least"));
                }
                self.seeds = Some(0..count);
            }
            "seed" => {
                let literal: LitInt = meta.value()?.parse()?;
                let seed = literal.base10_parse::<u64>()?;
                let Some(end) = seed.checked_add(1) else {
                    return Err(syn::Error::new(literal.span(), "this is no seed"));
                };
                self.seeds = Some(seed..end);
            }
            "flavor" => {
                return Err(meta.error(
                    "there are no flavors: a test runs on one thread unless `workers = 2` or more are asked for",
                ));
            }
            "worker_threads" => return Err(meta.error("this is called `workers` here")),
            _ => {
                return Err(meta.error(
                    "unknown argument: there are `start_paused`, `workers`, `seeds` and `seed`",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn refused(tokens: TokenStream) -> String {
        let refused = Arguments::parse(tokens).expect_err("it is refused");
        refused.to_string()
    }

    #[test]
    fn arguments_are_read() {
        let parsed = Arguments::parse(quote!(start_paused = true)).expect("well formed");
        assert!(parsed.is_paused && parsed.workers.is_none());
        let parsed = Arguments::parse(quote!(workers = 3, start_paused = false));
        assert_eq!(parsed.expect("well formed").workers, Some(3));
        let parsed = Arguments::parse(quote!(workers = 1, start_paused = true));
        assert!(parsed.expect("well formed").is_paused);
        let parsed = Arguments::parse(quote!(seeds = 9)).expect("well formed");
        assert!(parsed.is_paused && parsed.seeds == Some(0..9));
        let parsed = Arguments::parse(quote!(seed = 9)).expect("well formed");
        assert_eq!(parsed.seeds, Some(9..10));
        assert_eq!(
            Arguments::parse(quote!()).expect("none"),
            Arguments::default()
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (tokens, text) in [
            (quote!(workers = 2, start_paused = true), "needs one worker"),
            (quote!(workers = 2, seeds = 2), "needs one worker"),
            (quote!(workers = 0), "one worker at least"),
            (quote!(flavor = "current_thread"), "no flavors"),
            (quote!(worker_threads = 2), "called `workers`"),
            (quote!(seeds = 0), "one seed at least"),
            (quote!(seeds = 2, seed = 2), "either"),
            (quote!(seeds = 2, start_paused = false), "stands still"),
            (quote!(seed = 18446744073709551615), "no seed"),
            (quote!(paused), "unknown argument"),
            (quote!(workers = 1, workers = 1), "twice"),
        ] {
            let said = refused(tokens);
            assert!(said.contains(text), "{said}");
        }
        // What the parser says itself.
        for tokens in [
            quote!(start_paused),
            quote!(start_paused = 1),
            quote!(workers = "2"),
        ] {
            assert!(!refused(tokens).is_empty());
        }
    }
}
