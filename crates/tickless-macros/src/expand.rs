//! The expansion of the attributes on a function.

use std::ops::Range;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, ItemFn, Result};

use crate::arguments::Arguments;

/// Kind of the attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttributeKind {
    Test,
    Main,
}

/// Returns the function that calls the asynchronous one. If the attribute is wrong, returns a compiler error together
/// with the unchanged function, so that the compiler reports no further errors.
pub(crate) fn expand(
    kind: AttributeKind,
    arguments: TokenStream,
    item: TokenStream,
) -> TokenStream {
    match try_expand(kind, arguments, item.clone()) {
        Ok(expanded) => expanded,
        Err(error) => {
            let error = error.into_compile_error();
            quote!(#error #item)
        }
    }
}

fn try_expand(
    kind: AttributeKind,
    arguments: TokenStream,
    item: TokenStream,
) -> Result<TokenStream> {
    let arguments = Arguments::parse(arguments)?;
    let mut function: ItemFn = syn::parse2(item)?;
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        return Err(Error::new_spanned(
            signature.fn_token,
            "the function must be `async`",
        ));
    }
    if !signature.inputs.is_empty() {
        return Err(Error::new_spanned(
            &signature.inputs,
            "there is nothing that could give the function arguments",
        ));
    }
    if !signature.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &signature.generics,
            "the function cannot be generic",
        ));
    }
    if kind == AttributeKind::Main && signature.ident != "main" {
        return Err(Error::new_spanned(
            &signature.ident,
            "this is for `main`: another function can call `Executor::block_on`",
        ));
    }
    let attributes = std::mem::take(&mut function.attrs);
    let visibility = std::mem::replace(&mut function.vis, syn::Visibility::Inherited);
    let name = &function.sig.ident;
    let output = &function.sig.output;
    let is_paused = arguments.is_paused;
    let workers = match arguments.workers {
        Some(workers) => quote!(::core::option::Option::Some(#workers)),
        None => quote!(::core::option::Option::None),
    };
    if let Some(seeds) = arguments.seeds {
        if kind == AttributeKind::Main {
            return Err(Error::new_spanned(
                &function.sig.ident,
                "seeds are for tests",
            ));
        }
        let run = under_seeds(&seeds, &function);
        return Ok(quote! {
            #[::core::prelude::v1::test]
            #(#attributes)*
            #visibility #run
        });
    }
    let (marker, run) = match kind {
        AttributeKind::Test => (quote!(#[::core::prelude::v1::test]), quote!(test)),
        AttributeKind::Main => (quote!(), quote!(main)),
    };
    Ok(quote! {
        #marker
        #(#attributes)*
        #visibility fn #name() #output {
            #function
            ::tickless::__private::#run(#is_paused, #workers, #name)
        }
    })
}

/// Expands the function of a test that runs under `seeds`.
fn under_seeds(seeds: &Range<u64>, function: &ItemFn) -> TokenStream {
    let name = &function.sig.ident;
    let (first, end) = (seeds.start, seeds.end);
    quote! {
        fn #name() {
            #function
            ::tickless::__private::seeds(#first..#end, ::core::stringify!(#name), #name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(kind: AttributeKind, item: TokenStream) -> String {
        let refused = try_expand(kind, TokenStream::new(), item).expect_err("it is refused");
        refused.to_string()
    }

    #[test]
    fn a_test_keeps_its_attributes_and_its_name() {
        let item = quote! {
            #[should_panic(expected = "why")]
            pub(crate) async fn it_works() -> Result<(), ()> { Ok(()) }
        };
        let expanded = expand(AttributeKind::Test, quote!(start_paused = true), item);
        let function: ItemFn = syn::parse2(expanded).expect("a function");
        assert_eq!(function.sig.ident, "it_works");
        assert!(function.sig.asyncness.is_none());
        assert_eq!(function.attrs.len(), 2);
        assert_eq!(function.block.stmts.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            (
                AttributeKind::Test,
                quote!(
                    fn f() {}
                ),
                "must be `async`",
            ),
            (
                AttributeKind::Test,
                quote!(
                    async fn f(_: u8) {}
                ),
                "arguments",
            ),
            (
                AttributeKind::Test,
                quote!(
                    async fn f<T>() {}
                ),
                "generic",
            ),
            (
                AttributeKind::Main,
                quote!(
                    async fn f() {}
                ),
                "for `main`",
            ),
        ];
        for (kind, item, text) in cases {
            let said = refused(kind, item);
            assert!(said.contains(text), "{said}");
        }
    }

    #[test]
    fn a_test_under_seeds_returns_nothing() {
        let item = quote!(
            async fn f() -> Result<(), ()> {
                Ok(())
            }
        );
        let expanded = expand(AttributeKind::Test, quote!(seeds = 3), item.clone());
        let function: ItemFn = syn::parse2(expanded).expect("a function");
        assert!(matches!(function.sig.output, syn::ReturnType::Default));
        let main = quote!(
            async fn main() {}
        );
        let said = expand(AttributeKind::Main, quote!(seeds = 3), main).to_string();
        assert!(said.contains("seeds are for tests"), "{said}");
    }

    #[test]
    fn a_function_that_is_refused_stays_beside_the_error() {
        let expanded = expand(
            AttributeKind::Test,
            quote!(unknown),
            quote!(
                async fn f() {}
            ),
        );
        let text = expanded.to_string();
        assert!(text.contains("compile_error") && text.contains("async fn f"));
    }
}
