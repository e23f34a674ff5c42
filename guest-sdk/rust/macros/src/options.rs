//! What is written in the attribute's parentheses.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{parenthesized, Error, Expr, Ident, LitStr, Path, Result, Token, Visibility};

/// The options of a type, as statements that set the fields of a `TypeSpec`.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    /// The struct of typed calls that is to be made.
    pub(crate) reference: Option<(Visibility, Ident)>,
    /// The service of Protobuf that the type serves.
    pub(crate) service: Option<Path>,
    /// Assignments to a variable `spec`.
    pub(crate) assignments: Vec<TokenStream>,
}

const ALL: &str =
    "name, reference, placement, co_locate, instance, pool, state_schema, reentrant, limits, capabilities, hooks, messages, events, spawn_only, wait_outside_set, service";

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Options> {
        let mut options = Options::default();
        let mut seen: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            let option: Ident = input.parse()?;
            if seen.contains(&option) {
                return Err(Error::new(
                    option.span(),
                    format!("`{option}` is said twice"),
                ));
            }
            options.option(&option, input)?;
            seen.push(option);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

impl Options {
    fn option(&mut self, option: &Ident, input: ParseStream<'_>) -> Result<()> {
        match option.to_string().as_str() {
            "name" => {
                input.parse::<Token![=]>()?;
                self.name = Some(input.parse()?);
            }
            "reference" => {
                input.parse::<Token![=]>()?;
                self.reference = Some((input.parse()?, input.parse()?));
            }
            "service" => {
                input.parse::<Token![=]>()?;
                self.service = Some(input.parse()?);
            }
            "placement" if input.peek2(LitStr) => {
                input.parse::<Token![=]>()?;
                let policy: LitStr = input.parse()?;
                self.assign(quote!(spec.placement = ::greenroom::__private::Placement::Policy(#policy)));
            }
            "placement" => {
                let values = [
                    ("any", "Any"),
                    ("ring", "Ring"),
                    ("sticky", "Sticky"),
                    ("stateless", "Stateless"),
                ];
                let value = choice(option, input, &values)?;
                self.assign(quote!(spec.placement = ::greenroom::__private::Placement::#value));
            }
            "instance" => {
                let values = [("shared", "Shared"), ("dedicated", "Dedicated")];
                let value = choice(option, input, &values)?;
                self.assign(quote! {
                    spec.instance =
                        ::core::option::Option::Some(::greenroom::__private::Instance::#value)
                });
            }
            "pool" => {
                let value = choice(option, input, &[("user", "User"), ("batch", "Batch")])?;
                self.assign(quote!(spec.pool = ::greenroom::__private::Pool::#value));
            }
            "state_schema" => {
                input.parse::<Token![=]>()?;
                let schema: Expr = input.parse()?;
                self.assign(quote!(spec.state_schema = #schema));
            }
            "reentrant" => self.assign(quote!(spec.reentrant = true)),
            "spawn_only" => self.assign(quote!(spec.spawn_only = true)),
            "wait_outside_set" => self.assign(quote!(spec.wait_outside_set = true)),
            "hooks" => {
                for entry in list(option, input)? {
                    let (field, value) = (entry.name, entry.value);
                    self.assign(quote!(spec.hooks.#field = #value));
                }
            }
            "messages" => {
                for entry in list(option, input)? {
                    let (field, value) = (entry.name, entry.value);
                    self.assign(quote!(spec.messages.#field = #value));
                }
            }
            "events" => {
                for entry in list(option, input)? {
                    let (field, value) = (entry.name, entry.value);
                    self.assign(quote!(spec.events.#field = #value));
                }
            }
            "limits" => {
                for entry in list(option, input)? {
                    let (field, value) = (entry.name, entry.value);
                    self.assign(quote!(spec.limits.#field = #value));
                }
            }
            "co_locate" => {
                for entry in list(option, input)? {
                    let (field, value) = (entry.name, entry.value);
                    self.assign(quote!(spec.co_locate.#field = #value));
                }
            }
            "capabilities" => {
                for entry in list(option, input)? {
                    let (field, value) = (entry.name, entry.value);
                    // A slice literal, whatever expression was given.
                    self.assign(quote_spanned!(field.span()=> spec.capabilities.#field = &#value));
                }
            }
            other => {
                return Err(Error::new(
                    option.span(),
                    format!("no option `{other}`; there are: {ALL}, and `#[migrate]` over the function that migrates"),
                ))
            }
        }
        Ok(())
    }

    fn assign(&mut self, assignment: TokenStream) {
        self.assignments.push(quote!(#assignment;));
    }
}

/// `= word`, one of those that `values` translates.
fn choice(option: &Ident, input: ParseStream<'_>, values: &[(&str, &str)]) -> Result<Ident> {
    input.parse::<Token![=]>()?;
    let word: Ident = input.parse()?;
    match values.iter().find(|(name, _)| word == name) {
        Some((_, variant)) => Ok(Ident::new(variant, word.span())),
        None => {
            let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
            Err(Error::new(
                word.span(),
                format!("{option} is one of: {}", names.join(", ")),
            ))
        }
    }
}

/// `field = value` of a list in parentheses.
struct Entry {
    name: Ident,
    value: Expr,
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> Result<Entry> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let value = input.parse()?;
        Ok(Entry { name, value })
    }
}

fn list(option: &Ident, input: ParseStream<'_>) -> Result<Punctuated<Entry, Token![,]>> {
    if !input.peek(syn::token::Paren) {
        let example = match option.to_string().as_str() {
            "limits" => "limits(turn_ms = 500)",
            "hooks" => "hooks(created = \"OnCreated\")",
            "messages" => "messages(attempts = 5)",
            "events" => "events(count = 100)",
            "co_locate" => "co_locate(group = \"orders\", separator = \"/\")",
            _ => "capabilities(http = [\"api.example.com\"])",
        };
        return Err(input.error(format!("write it as `{example}`")));
    }
    let entries;
    parenthesized!(entries in input);
    Punctuated::parse_terminated(&entries)
}
